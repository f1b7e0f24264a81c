"""Runs that take turns in one process: rows to the last bit as alone, their own warnings, and an end for all."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import pytest

from spacearm.campaign import _side_by_side
from spacearm.campaign._side_by_side import run_side_by_side
from spacearm.campaign._work import RunOutcome, run_one
from spacearm.campaign.plan import CampaignPlan
from spacearm.deadline import time_limit
from spacearm.engine import side_by_side
from spacearm.engine.solver import BoundSolver
from spacearm.errors import InputError, TimeLimitError
from spacearm.model import catalogue
from spacearm.simulate import Phase, RunWarning, State, simulate
from support import ROOT


def count_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many phases each flight has."""
    found: list[int] = []
    plain = side_by_side.fly

    def fly(solvers: list[BoundSolver], least: int) -> list[int]:
        found.append(len(solvers))
        return plain(solvers, least)

    monkeypatch.setattr(_side_by_side, "fly", fly)
    return found


def test_missions_together_have_the_rows_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All strategies, with missions that break a limit, a coordinated one with many events, and one that fails."""
    plan = CampaignPlan.read(ROOT / "examples" / "map.toml")
    places = [(0, 0), (1, 0), (2, 0), (17, 1), (26, 3), (1, 4), (15, 0)]

    def fail() -> RunOutcome:
        raised = run_one(plan, 0, 1)
        raise ArithmeticError(raised.reason)

    def survive() -> RunOutcome | str:
        try:
            return fail()
        except ArithmeticError:
            return "failed"

    alone = [run_one(plan, *place) for place in places]
    assert {outcome.success for outcome in alone} == {True, False}  # some break a limit
    flights = count_together(monkeypatch)
    for most in (3, 24):
        monkeypatch.setattr(_side_by_side, "MOST", most)
        runs: list[Callable[[], object]] = [partial(run_one, plan, *place) for place in places]
        together = run_side_by_side([*runs[:4], survive, *runs[4:]])
        assert together.pop(4) == "failed"
        # repr: NaN is not equal to itself, and floats are written to their last bit.
        assert [repr(outcome) for outcome in together] == [repr(outcome) for outcome in alone]
    assert max(flights) >= 5


def swing(rate: float, duration: float = 2.0) -> bytes:
    robot = catalogue.load("xu2017")
    still = State.at_rest(robot)
    start = replace(still, velocity=still.velocity + rate * np.arange(still.velocity.size) / still.velocity.size)
    return simulate(robot, start, Phase(duration), sample=0.1).states.tobytes()


def test_each_run_has_its_own_warnings_and_a_locked_property_flies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        @cached_property
        def found(self) -> bytes:
            return swing(0.3)

    def listen(k: int) -> tuple[int, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn(f"before {k}", RunWarning, stacklevel=1)
            swing(0.1 * k)
            warnings.warn(f"after {k}", RunWarning, stacklevel=1)
        return k, [str(each.message) for each in caught]

    before, flights = list(warnings.filters), count_together(monkeypatch)
    runs: list[Callable[[], object]] = [partial(listen, k) for k in range(3)]
    found = run_side_by_side([*runs, lambda: Slow().found, lambda: Slow().found])
    assert found[:3] == [(k, [f"before {k}", f"after {k}"]) for k in range(3)]
    assert found[3] == found[4] == swing(0.3)
    assert max(flights) == 3
    assert list(warnings.filters) == before


def test_an_error_and_a_time_limit_end_all_runs() -> None:
    ended: list[str] = []

    def wait(name: str) -> None:
        try:
            while True:
                swing(0.2)
        finally:
            ended.append(name)

    def wrong() -> None:
        swing(0.1)
        raise InputError("is wrong", place="here")

    threads = threading.active_count()
    with pytest.raises(InputError, match="is wrong"):
        run_side_by_side([partial(wait, "a"), wrong, partial(wait, "b")])
    assert sorted(ended) == ["a", "b"]
    began = time.monotonic()
    with pytest.raises(TimeLimitError), time_limit(0.3):
        run_side_by_side([partial(wait, "c"), partial(wait, "d")])
    assert time.monotonic() - began < 5.0
    assert sorted(ended) == ["a", "b", "c", "d"]
    assert threading.active_count() == threads


def test_little_memory_means_few_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    flights = count_together(monkeypatch)
    monkeypatch.setattr(_side_by_side, "ROOM", 1)
    assert run_side_by_side([partial(swing, rate) for rate in (0.1, 0.2)]) == [swing(0.1), swing(0.2)]
    assert max(flights) == 1


def test_rounds_end_a_flight_that_goes_on_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = np.linspace(0.05, 0.9, 11)
    alone = [swing(rate) for rate in rates]
    monkeypatch.setattr(side_by_side, "ROUNDS", 7)
    assert run_side_by_side([partial(swing, rate) for rate in rates]) == alone
