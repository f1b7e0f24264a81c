"""Rotations against SciPy's, and their own round trips."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm.errors import ModelError
from spacearm.model.rotations import (
    quaternion_from_rotation,
    rotation_about,
    rotation_from_quaternion,
    rotation_from_rpy,
    rpy_from_rotation,
)


def test_against_scipy():
    rng = np.random.default_rng(1)
    for _ in range(300):
        rpy = rng.uniform(-math.pi, math.pi, 3) * [1, 0.5, 1]
        matrix = rotation_from_rpy(rpy)
        np.testing.assert_allclose(matrix, Rotation.from_euler("xyz", rpy).as_matrix(), atol=1e-15)
        np.testing.assert_allclose(rpy_from_rotation(matrix), rpy, atol=1e-11)
        quaternion = quaternion_from_rotation(matrix)
        reference = Rotation.from_matrix(matrix).as_quat()[[3, 0, 1, 2]]
        np.testing.assert_allclose(quaternion, reference * np.sign(reference[0]), atol=1e-14)
        np.testing.assert_allclose(rotation_from_quaternion(3.0 * quaternion), matrix, atol=1e-14)
        axis, angle = rng.normal(size=3), rng.uniform(-7, 7)
        vector = angle * axis / np.linalg.norm(axis)
        np.testing.assert_allclose(rotation_about(axis, angle), Rotation.from_rotvec(vector).as_matrix(), atol=1e-14)


@pytest.mark.parametrize("pitch", [90.0, -90.0, 90.0 - 1e-9, -90.0 + 1e-7])
def test_gimbal_lock_gives_back_the_same_matrix(pitch):
    matrix = rotation_from_rpy(np.deg2rad([20.0, pitch, -130.0]))
    np.testing.assert_allclose(rotation_from_rpy(rpy_from_rotation(matrix)), matrix, atol=1e-9)


@pytest.mark.parametrize("quarters", range(-8, 9))
def test_quarter_turns_are_exact(quarters):
    for angle in (quarters * math.pi / 2, math.radians(quarters * 90)):
        matrix = rotation_about([0, 0, 1], angle)
        assert set(matrix.ravel().tolist()) <= {0.0, 1.0, -1.0}
        c, s = [(1, 0), (0, 1), (-1, 0), (0, -1)][quarters % 4]
        assert matrix.tolist() == [[c, -s, 0], [s, c, 0], [0, 0, 1]]


def test_small_angles_are_not_rounded_away():
    assert rotation_about([0, 0, 1], 1e-17)[1, 0] == 1e-17
    assert rotation_from_rpy([0, 0, 1e-300])[1, 0] == 1e-300


def test_half_turns_have_a_quaternion():
    for axis in np.eye(3):
        np.testing.assert_allclose(np.abs(quaternion_from_rotation(rotation_about(axis, math.pi))), [0, *axis])


def test_what_is_no_rotation():
    with pytest.raises(ModelError, match="quaternion is zero"):
        rotation_from_quaternion([0, 0, 0, 0])
    with pytest.raises(ModelError, match="axis has no direction"):
        rotation_about([0, 0, 0], 1.0)
    with pytest.raises(ModelError, match=r"rpy\[1\] is nan"):
        rotation_from_rpy([0, math.nan, 0])
