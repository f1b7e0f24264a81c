"""Phases of kernels that are no robots: made ready, run, run again; event functions that read the kernel's output."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spacearm.engine import Kernel
from spacearm.engine.phase import Functions, SolverPhase, make_solver_phase, make_system
from spacearm.engine.signals import merge
from spacearm.engine.solver import EndReason, Options
from spacearm.engine.system import make_code
from spacearm.mechanics import Program
from spacearm.typing import Array

#: Position, speed, push: a unit mass on a unit spring. Out: its rate, and the force on the wall.
STATE, PUSH = ca.SX.sym("state", 2), ca.SX.sym("push", 1)
RATE, WALL = ca.vertcat(STATE[1], PUSH - STATE[0]), -STATE[0] + 3 * PUSH
SWING = Kernel(Program("swing", {"state": STATE, "push": PUSH}, {"rate": RATE, "wall": WALL}))


#: Event functions of what the kernel puts out: the force on the wall beyond -0.5, and beyond 1.
KNOWN = SWING.program.event_inputs(2)
BEYOND = Kernel(Program("beyond", KNOWN, {"low": KNOWN["wall"] + 0.5, "high": KNOWN["wall"] - 1}))


def ending(*terminal: bool, direction: int) -> Functions:
    return Functions(BEYOND.address(1), BEYOND.n_in, [direction, direction], terminal)


def stage(
    functions: Functions | None, times: Array, channels: list[tuple[int, Array, Array]] | None = None
) -> SolverPhase:
    code = make_code(SWING.address(1), 2, 2)
    system = make_system(code, np.zeros(3), SWING.n_out, merge(channels or [], 10.0), functions=functions)
    return make_solver_phase(system, Options(1, 0.0, 1e-12, np.full(2, 1e-14), np.inf, 1000, 10), times, full=True)


def test_a_phase_runs_as_often_as_needed() -> None:
    times = np.linspace(0.0, 9.0, 10)
    ready = stage(None, times)
    for speed in (1.0, -0.25):
        assert ready.run(np.array([0.0, speed])) == EndReason.FINISHED
        np.testing.assert_allclose(ready.record.y[:, 0], speed * np.sin(times), atol=1e-10)
        np.testing.assert_allclose(ready.record.out[:, 2], -speed * np.sin(times), atol=1e-10)
        np.testing.assert_allclose(ready.system.work.y, speed * np.array([np.sin(10.0), np.cos(10.0)]), atol=1e-10)
        assert ready.record.counts[0] == 10


def test_a_flag_stops_it() -> None:
    stopped = stage(None, np.zeros(0))
    stopped.call.stop[0] = 1
    assert stopped.run(np.ones(2)) == EndReason.INTERRUPTED


@pytest.mark.parametrize(("direction", "time"), [(-1, np.pi / 6), (1, 5 * np.pi / 6)])
def test_an_output_of_the_kernel_is_an_event_function(direction: int, time: float) -> None:
    ready = stage(ending(True, False, direction=direction), np.zeros(0))
    assert ready.run(np.array([0.0, 1.0])) == EndReason.TERMINAL_EVENT
    assert ready.progress.now[0] == pytest.approx(time, abs=1e-11)


def test_an_output_that_jumps_is_found_at_the_jump() -> None:
    """At 0.7 s the push makes the wall's force jump from below the level to above; no state knows of it."""
    push = (2, np.array([0.0, 0.7, 10.0]), np.array([[0.0, 2.0]]))
    ready = stage(ending(False, True, direction=1), np.zeros(0), [push])
    assert ready.run(np.array([0.0, 1.0])) == EndReason.TERMINAL_EVENT
    assert ready.progress.now[0] == pytest.approx(0.7, abs=1e-12)
    np.testing.assert_allclose(ready.system.work.y, [np.sin(0.7), np.cos(0.7)], atol=1e-11)


def test_a_jump_that_is_over_before_the_next_look_is_found() -> None:
    """The push falls so fast that the force is above the level for 70 us only, a small part of a step."""
    push = (2, np.array([0.0, 0.7, 10.0]), np.array([[0.0, 2.0], [0.0, -2e4]]))
    ready = stage(ending(False, True, direction=1), np.zeros(0), [push])
    assert ready.run(np.array([0.0, 1.0])) == EndReason.TERMINAL_EVENT
    assert ready.progress.now[0] == pytest.approx(0.7, abs=1e-12)
