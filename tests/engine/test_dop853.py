"""The adaptive pair: tableau, orders of the step and of its dense output, step control."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from spacearm.engine import _dop853
from spacearm.engine._dop853 import dense_value, dop853_dense, dop853_step
from spacearm.engine.block import ArgumentBlock
from spacearm.engine.loops import CompiledEntry, interpret
from spacearm.engine.phase import make_events
from spacearm.engine.signals import merge
from spacearm.engine.solver import EndReason
from spacearm.engine.system import System, make_friction, make_solver_memory, rates
from support.hand_kernels import KEPLER, run_blocks
from support.kepler import kepler, order


class Call(NamedTuple):
    system: System
    time: float
    step: float
    y: Any
    result: Any


@CompiledEntry
def _rates(call: Any) -> int:
    rates(call.system, 0, call.time, call.y, call.result)
    return 0


@CompiledEntry
def _step(call: Any) -> int:
    dop853_step(call.system, 0, call.time, call.step, call.result)
    return 0


@CompiledEntry
def _dense(call: Any) -> int:
    dop853_dense(call.system, 0, call.time, call.step)
    return 0


def ask(entry: CompiledEntry, system: System, time: float, step: float, y: Any, result: Any) -> None:
    entry(ArgumentBlock(Call(system, time, step, y, result)))


def start(time: float = 0.0):
    work = make_solver_memory(np.zeros(20), 6, 4)
    work.y[:] = kepler(time)
    friction = make_friction()
    system = System(KEPLER, merge([], 100.0), friction, make_events(KEPLER, friction), work)
    ask(_rates, system, 0.0, 0.0, work.y, work.k[0])
    return work, system


def test_the_tableau_satisfies_the_simplest_order_conditions() -> None:
    np.testing.assert_allclose(_dop853.A.sum(axis=1), _dop853.C, atol=2e-14)
    weights, nodes = _dop853.A[12, :12], _dop853.C[:12]
    for power in range(8):
        assert weights @ nodes**power == pytest.approx(1 / (power + 1), abs=1e-14)
    assert abs(_dop853.E3.sum()) < 1e-14
    assert abs(_dop853.E5.sum()) < 1e-14


def test_order_eight() -> None:
    errors = []
    for count in (8, 16, 32, 64):
        work, system = start()
        h = 2.0 / count
        for n in range(count):
            ask(_rates, system, n * h, h, work.y, work.k[0])
            ask(_step, system, n * h, h, work.y, work.y_new)
            work.y[:] = work.y_new
        errors.append(float(np.abs(work.y - kepler(2.0)).max()))
    assert order(errors[:3]).min() > 7.5
    assert errors[-1] < 1e-13


def test_dense_output_of_order_seven() -> None:
    # local error of an interpolant of order 7 is of order 8: measured inside a single step
    errors = []
    for h in (0.4, 0.2, 0.1):
        work, system = start(0.7)
        ask(_step, system, 0.0, h, work.y, work.y_new)
        ask(_rates, system, h, h, work.y_new, work.k[12])
        ask(_dense, system, 0.0, h, work.y, work.y_new)
        worst = 0.0
        for theta in np.linspace(0.05, 0.95, 19):
            interpret(dense_value)(theta, work.y, work.dense, work.y_try)
            worst = max(worst, float(np.abs(work.y_try - kepler(0.7 + theta * h)).max()))
        errors.append(worst)
        interpret(dense_value)(1.0, work.y, work.dense, work.y_try)
        np.testing.assert_allclose(work.y_try, work.y_new, atol=1e-15)
    assert order(errors).min() > 7.5
    assert order(errors).max() < 9.0


def test_adaptive_run_meets_its_tolerance_and_saves_work() -> None:
    y = kepler(0.0)
    end = 20 * np.pi
    times = np.linspace(0.0, end, 333)
    evaluations = []
    for rtol, bound in ((1e-6, 1e-2), (1e-9, 1e-5), (1e-12, 1e-8)):
        result = run_blocks(
            y[:2], y[2:], end, code=KEPLER, rtol=rtol, atol=rtol, times=times, mass=(1, 0, 1), max_step=np.inf
        )
        assert result.reason == EndReason.FINISHED
        assert result.time == end
        exact = np.array([kepler(time) for time in result.times])
        assert len(exact) == 332  # the last sample, at the very end, belongs to the caller
        assert np.abs(result.samples - exact).max() < bound
        evaluations.append(result.evaluations)
    assert evaluations[0] < evaluations[1] < evaluations[2] < 4 * evaluations[0]


def test_step_too_small_and_not_finite_are_told_apart() -> None:
    # a head-on fall into the centre: the solution ends at t = pi / (2 sqrt 2)
    fall = run_blocks([1.0, 0.0], [0.0, 0.0], 2.0, code=KEPLER)
    assert fall.reason in (EndReason.STEP_TOO_SMALL, EndReason.NOT_FINITE)
    assert fall.time == pytest.approx(np.pi / (2 * np.sqrt(2)), abs=1e-6)
    broken = run_blocks([0, 0], [0, 0], 1.0, channels=[(4, np.array([0.0, 0.5, 1.0]), np.array([[0.0, np.nan]]))])
    assert broken.reason == EndReason.NOT_FINITE
    assert broken.time == 0.5
    assert run_blocks([0, np.nan], [0, 0], 1.0).reason == EndReason.NOT_FINITE
