"""Capsules that lie along capsules: two places that do not jump, whatever small angle there is between them."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.shapes import Capsule, separation, touches
from spacearm.model.rotations import rotation_about
from spacearm.typing import Array

FIRST, SECOND = Capsule(0.05, 0.6), Capsule(0.04, 0.4)
DEPTH = 1e-3
STILL = np.eye(3), np.zeros(3)


def _wrench() -> ca.Function:
    """Force and moment of springs of 1 N/m at all places, and the least gap, at a rotation and place of the second."""
    rotation, place = ca.SX.sym("rotation", 3, 3), ca.SX.sym("place", 3)
    found = touches(FIRST, SymbolicPose(ca.SX.eye(3), ca.SX.zeros(3)), SECOND, SymbolicPose(rotation, place))
    total = ca.SX.zeros(6)
    for touch in found:
        force = ca.fmax(-touch.gap, 0) * touch.normal
        total += ca.vertcat(force, ca.cross(touch.point, force))
    return ca.Function("wrench", [rotation, place], [total, ca.mmin(ca.vertcat(*(touch.gap for touch in found)))])


def _largest_step(wrench: ca.Function, seed: int, count: int) -> float:
    """How far force and moment (about 0.3 m) change in one of so many steps from -0.5 to 0.5 rad about a random axis,
    at the same depth, of the force of one spring."""
    rng = np.random.default_rng(seed)
    axis, along = rng.normal(size=3), rng.uniform(-0.45, 0.45)
    angles = np.linspace(-0.5, 0.5, count + 1)
    rotations = np.hstack([rotation_about(axis / np.linalg.norm(axis), angle) for angle in angles])
    places = np.array([0.4, 0.0, along]) + np.outer(angles, 0.02 * rng.normal(size=3))
    mapped = wrench.map(count + 1)
    for _ in range(40):
        forces, gaps = (np.array(each) for each in mapped(rotations, places.T))
        places[:, 0] -= np.maximum(gaps.ravel() + DEPTH, -0.01)
    assert np.all(np.abs(gaps + DEPTH) < 1e-6)
    steps = np.abs(np.diff(forces, axis=1))
    steps[3:] /= 0.3
    return float(steps.max() / DEPTH)


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_force_and_moment_are_continuous_while_a_capsule_rolls_over_being_parallel(seed: int) -> None:
    wrench = _wrench()
    coarse, fine = (_largest_step(wrench, seed, count) for count in (200, 4000))
    assert fine < 0.05
    assert fine < 0.1 * coarse


def test_parallel_capsules_touch_at_the_ends_of_what_they_share() -> None:
    along = 0.35
    for angle in (0.0, 1e-9, -1e-6):
        for axis in np.eye(3)[:2]:
            gaps, points, normals = separation(
                FIRST, STILL, SECOND, (rotation_about(axis, angle), np.array([0.089, 0.0, along]))
            )
            np.testing.assert_allclose(gaps, -1e-3, atol=1e-6)
            np.testing.assert_allclose(np.sort(points[:, 2]), [along - 0.2, 0.3], atol=1e-5)
            np.testing.assert_allclose(normals, [[1.0, 0.0, 0.0]] * 2, atol=1e-5)


def test_capsules_that_cross_have_one_place_that_counts() -> None:
    across = rotation_about(np.array([1.0, 0.0, 0.0]), 1.2)
    gaps, points, _ = separation(FIRST, STILL, SECOND, (across, np.array([0.085, 0.0, 0.1])))
    gaps_sorted = np.sort(gaps)
    assert gaps_sorted[0] == pytest.approx(-0.005, abs=1e-12)
    assert gaps_sorted[1] > 0.0
    np.testing.assert_allclose(points[np.argmin(gaps)], [0.0475, 0.0, 0.1], atol=1e-12)


def test_the_order_of_two_capsules_does_not_matter_to_the_distance() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        to: tuple[Array, Array] = (
            rotation_about(np.array([0.0, 1.0, 0.0]), 0.1 * rng.normal()),
            rng.normal(size=3) * 0.2,
        )
        own, _, _ = separation(FIRST, STILL, SECOND, to)
        other, _, _ = separation(SECOND, to, FIRST, STILL)
        assert own.min() == pytest.approx(other.min(), abs=1e-12)
