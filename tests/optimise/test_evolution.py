"""Populations that evolve in a box, on scores whose best points are known in closed form."""

from __future__ import annotations

import numpy as np

from spacearm.optimise.evolution import evolve
from spacearm.typing import Array


def test_a_narrow_ridge_across_the_axes_is_climbed_to_its_top() -> None:
    top = np.array([0.3, 0.6, 0.45])
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    steep = turn @ np.diag([1.0, 1e2, 1e4]) @ turn.T
    starts = np.array([[0.8, 0.2, 0.7]])

    def judge(points: Array) -> Array:
        gone = points - top
        return -np.einsum("bi,ij,bj->b", gone, steep, gone)

    peaks, history = evolve(judge, starts, judge(starts), step=0.2, generations=300, seed=3)
    np.testing.assert_allclose(peaks[0][0], top, atol=1e-4)
    assert history == sorted(history)
    assert history[-1] == peaks[0][1]


def test_the_best_of_two_tops_comes_first_and_forbidden_points_are_left() -> None:
    """Two cones; half of the box is not allowed, and the score jumps at the edge of the rest."""
    tops, heights = np.array([[0.2, 0.2], [0.7, 0.8]]), np.array([1.0, 2.0])

    def judge(points: Array) -> Array:
        far = np.linalg.norm(points[:, None] - tops, axis=-1)
        score = (heights - 5.0 * far).max(axis=1)
        return np.where(points[:, 0] > 0.75, -np.inf, score)

    starts = np.array([[0.25, 0.1], [0.6, 0.9]])
    peaks, _ = evolve(judge, starts, judge(starts), step=0.05, generations=200, seed=0)
    assert [round(worth, 4) for _, worth in peaks] == [2.0, 1.0]
    np.testing.assert_allclose([point for point, _ in peaks], tops[::-1], atol=1e-4)


def test_the_same_seed_gives_the_same_bits() -> None:
    def judge(points: Array) -> Array:
        return -np.abs(points - 0.5).sum(axis=1)

    starts = np.array([[0.1, 0.9], [0.9, 0.9]])
    first, second = (evolve(judge, starts, judge(starts), step=0.1, generations=30, seed=5) for _ in range(2))
    assert first[1] == second[1]
    np.testing.assert_array_equal(first[0][0][0], second[0][0][0])
