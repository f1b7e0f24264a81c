"""Limits on wall-clock time: in the main thread for everything, in other threads for runs in time."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

from spacearm import InputError, State, TimeLimitError, catalogue, time_limit
from spacearm.simulate import RK4, simulate, simulate_batch


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_loop_ends_when_its_time_is_over() -> None:
    began = time.monotonic()
    with pytest.raises(TimeLimitError, match=r"within the time limit of 0\.2 s"), time_limit(0.2):
        busy(20.0)
    assert time.monotonic() - began < 5.0
    busy(0.3)  # nothing rings afterwards
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_is_fast_enough_does_not_notice() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(30.0), time_limit(None):
        value = 3
    assert value == 3
    assert signal.getsignal(signal.SIGALRM) is before


def test_of_two_limits_the_one_that_ends_first_holds() -> None:
    with pytest.raises(TimeLimitError, match=r"limit of 0\.1 s"), time_limit(0.1), time_limit(20.0):
        busy(20.0)
    with time_limit(20.0):
        with pytest.raises(TimeLimitError, match=r"limit of 0\.1 s"), time_limit(0.1):
            busy(20.0)
        assert 10.0 < signal.getitimer(signal.ITIMER_REAL)[0] < 20.0


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf, "long", True])
def test_a_limit_is_seconds_above_zero(seconds: Any) -> None:
    with pytest.raises(InputError, match="time limit"), time_limit(seconds):
        pass


def endless(what: str) -> None:
    robot = catalogue.load("xu2017")
    start = State.from_velocities(robot, base_angular_velocity=[0.1, 0.2, 0.3])
    if what == "run":
        simulate(robot, start, 1e6, method=RK4(1e-3), max_steps=10**10)
    else:
        simulate_batch(robot, np.tile(start.vector, (4, 1)), 1e6, method=RK4(1e-3), max_steps=10**10, threads=2)


@pytest.mark.parametrize("what", ["run", "batch"])
@pytest.mark.parametrize("main", [True, False])
def test_runs_end_in_any_thread(what: str, main: bool) -> None:
    robot = catalogue.load("xu2017")
    simulate(robot, State.at_rest(robot), 1e-3)  # compiled beforehand
    found: list[str] = []

    def attempt() -> None:
        try:
            with time_limit(0.5):
                endless(what)
        except TimeLimitError as error:
            found.append(str(error))

    began = time.monotonic()
    if main:
        attempt()
    else:
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert time.monotonic() - began < 10.0
    assert "within the time limit of 0.5 s" in found[0]
    if what == "run":  # how far it came
        reached = float(found[0].partition("t = ")[2].partition(" s of 1e+06 s")[0])
        assert 0.0 < reached < 1e6


def test_a_limit_that_machine_code_wraps_is_one() -> None:
    """Numba's dispatcher makes a SystemError of what a signal raises inside it."""

    def dispatch() -> None:
        try:
            time.sleep(5.0)
        except TimeLimitError as error:
            raise SystemError("returned a result with an exception set") from error

    with pytest.raises(TimeLimitError, match=r"time limit of 0\.1 s"), time_limit(0.1):
        dispatch()
    with pytest.raises(SystemError, match="own"), time_limit(5.0):
        raise SystemError("own")
