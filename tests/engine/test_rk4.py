"""The fixed-step method: order, exactness, edges."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.engine.solver import EndReason
from support.hand_kernels import KEPLER, run_blocks
from support.kepler import kepler, order


def test_order_four_at_the_end_and_between_the_steps() -> None:
    y = kepler(0.0)
    ends, between = [], []
    times = np.linspace(0.013, 1.987, 41)
    exact = np.array([kepler(time) for time in times])
    for count in (40, 80, 160, 320):
        result = run_blocks(y[:2], y[2:], 2.0, code=KEPLER, method=0, step=2.0 / count, times=times)
        assert result.steps == count
        ends.append(float(np.abs(result.y - kepler(2.0)).max()))
        between.append(float(np.abs(result.samples - exact).max()))
    np.testing.assert_allclose(order(ends), 4.0, atol=0.2)
    np.testing.assert_allclose(order(between), 4.0, atol=0.35)


def test_constant_acceleration_is_exact() -> None:
    result = run_blocks([0, 0], [1, 0], 3.0, force=(2.0, 0.0), method=0, step=0.7)
    assert result.y[:3] == pytest.approx([3.0 + 9.0, 0.0, 7.0], abs=1e-13)
    assert result.steps == 5  # the step is shortened so that whole steps fill the time


def test_pulse_edges_are_hit_exactly() -> None:
    start, end = 0.123456, 0.7654321
    pulse = (4, np.array([0.0, start, end, 2.0]), np.array([[0.0, 3.0, 0.0]]))
    for method, step in ((0, 0.1), (1, 0.0)):
        result = run_blocks([0, 0], [0, 0], 2.0, channels=[pulse], method=method, step=step, times=[start, end])
        width = end - start
        assert result.reason == EndReason.FINISHED
        assert result.y[2] == pytest.approx(3.0 * width, rel=1e-14)
        assert result.y[0] == pytest.approx(1.5 * width**2 + 3.0 * width * (2.0 - end), rel=1e-14)
        assert result.samples[0, 2] == 0.0
        # right-continuous: at the edge the force on its right acts
        assert result.inputs[0, 4] == 3.0
        assert result.inputs[1, 4] == 0.0


def test_samples_on_the_grid_are_the_states_of_the_steps() -> None:
    times = np.arange(10) * 0.1
    result = run_blocks([1, 0], [0, 0], 1.0, stiffness=(9.0, 0, 0), method=0, step=0.1, times=times)
    state = np.array([1.0, 0.0])
    matrix = np.array([[0.0, 1.0], [-9.0, 0.0]]) * 0.1
    propagate = sum(np.linalg.matrix_power(matrix, k) / f for k, f in ((0, 1), (1, 1), (2, 2), (3, 6), (4, 24)))
    for row in result.samples:
        np.testing.assert_allclose(row[[0, 2]], state, atol=1e-13)
        state = propagate @ state
    np.testing.assert_allclose(result.y[[0, 2]], state, atol=1e-13)
