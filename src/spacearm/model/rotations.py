"""Rotations in their several forms: matrix, roll-pitch-yaw, quaternion, axis and angle.

A rotation matrix ``R`` takes coordinates from the inner (rotated) frame to the outer one:
``x_outer = R @ x_inner``. Angles are radians. Quaternions are (w, x, y, z), scalar first, and describe the same map.
Roll-pitch-yaw are turns about the *fixed* outer axes, x first: ``R = Rz(yaw) @ Ry(pitch) @ Rx(roll)``, as in URDF.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.errors import ModelError
from spacearm.model.parts import read_only_array, skew
from spacearm.typing import Array

#: Below this cosine of the pitch, roll and yaw cannot be told apart and roll is taken as zero.
GIMBAL_COSINE = 1e-9


def cos_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine, exact at whole multiples of a quarter turn as these are written in degrees or with pi.

    An angle within two units in the last place of ``k * pi / 2`` gives 0, 1 or -1, so that right-angled geometry
    stays right-angled instead of carrying terms of 6e-17 into every product.
    """
    quarter = angle / (math.pi / 2)
    nearest = round(quarter) if abs(quarter) < 2**20 else 0
    if abs(quarter - nearest) <= 4e-16 * max(1.0, abs(quarter)) and (nearest != 0 or angle == 0.0):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[nearest % 4]
    return math.cos(angle), math.sin(angle)


def rotation_from_rpy(rpy: npt.ArrayLike) -> Array:
    """The matrix ``Rz(yaw) @ Ry(pitch) @ Rx(roll)`` of (roll, pitch, yaw), radians."""
    roll, pitch, yaw = (float(angle) for angle in read_only_array(rpy, (3,), "rpy"))
    (cr, sr), (cp, sp), (cy, sy) = cos_sin(roll), cos_sin(pitch), cos_sin(yaw)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def rpy_from_rotation(rotation: npt.ArrayLike) -> Array:
    """Roll, pitch and yaw of a rotation matrix, rad, pitch within 90 deg; roll is 0 where pitch is +-90 deg."""
    matrix = read_only_array(rotation, (3, 3), "rotation")
    cosine = math.hypot(matrix[0, 0], matrix[1, 0])
    pitch = math.atan2(-matrix[2, 0], cosine)
    yaw = math.atan2(matrix[1, 0], matrix[0, 0])
    plain = np.array([math.atan2(matrix[2, 1], matrix[2, 2]), pitch, yaw])
    if cosine < GIMBAL_COSINE:
        plain = np.array([0.0, pitch, math.atan2(-matrix[0, 1], matrix[1, 1])])
    if np.abs(rotation_from_rpy(plain) - matrix).max() < 1e-15:
        return plain
    # Near a pitch of 90 deg: roll from what is left after undoing the yaw, so that one makes good the other's error.
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([math.atan2(s * matrix[0, 2] - c * matrix[1, 2], c * matrix[1, 1] - s * matrix[0, 1]), pitch, yaw])


def rotation_from_quaternion(wxyz: npt.ArrayLike) -> Array:
    """The matrix of a quaternion (w, x, y, z); its length does not matter, but must not be zero."""
    quaternion = read_only_array(wxyz, (4,), "quaternion")
    # scaled by the largest entry first, so that neither tiny nor huge quaternions under- or overflow
    scale = float(np.abs(quaternion).max())
    if scale == 0.0:
        raise ModelError("quaternion is zero", hint="expected (w, x, y, z) with a length above zero")
    w, x, y, z = quaternion / scale
    s = 2.0 / float(w * w + x * x + y * y + z * z)
    return np.array(
        [
            [1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
            [s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)],
            [s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)],
        ]
    )


def quaternion_from_rotation(rotation: npt.ArrayLike) -> Array:
    """The unit quaternion (w, x, y, z) of a matrix, with w >= 0 (Shepperd: divide by the largest component)."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = read_only_array(rotation, (3, 3), "rotation").tolist()
    trace = xx + yy + zz
    # the four rows of 4 * outer(q, q); the one with the largest diagonal is the best conditioned
    rows = np.array(
        [
            [1 + trace, zy - yz, xz - zx, yx - xy],
            [zy - yz, 1 + 2 * xx - trace, xy + yx, xz + zx],
            [xz - zx, xy + yx, 1 + 2 * yy - trace, yz + zy],
            [yx - xy, xz + zx, yz + zy, 1 + 2 * zz - trace],
        ]
    )
    # Each row is 4 q_k q: that of the largest component divides by no small number.
    row = rows[int(np.argmax(np.diag(rows)))]
    quaternion = row / np.linalg.norm(row)
    return np.asarray(-quaternion if quaternion[0] < 0 else quaternion, dtype=np.float64)


def rotation_about(axis: npt.ArrayLike, angle: float) -> Array:
    """The matrix of a turn by ``angle`` (rad) about ``axis`` (any length but zero), right-handed."""
    direction = read_only_array(axis, (3,), "axis")
    length = float(np.linalg.norm(direction))
    if length == 0.0 or not math.isfinite(length):
        raise ModelError("axis has no direction", hint="expected three numbers, not all zero")
    unit = direction / length
    cosine, sine = cos_sin(float(angle))
    return np.asarray(cosine * np.eye(3) + sine * skew(unit) + (1.0 - cosine) * np.outer(unit, unit), dtype=np.float64)


def rotation_matrices(quaternion: npt.ArrayLike) -> Array:
    """Rotation matrices (..., 3, 3), base to world, of unit quaternions (..., 4), scalar first."""
    # An array on a GPU stays there: NumPy's functions hand it to CuPy.
    there = hasattr(quaternion, "__cuda_array_interface__")
    given: Any = quaternion if there else np.asarray(quaternion, dtype=np.float64)
    # NumPy's scalars of a single one would take five times as long as plain numbers.
    w, x, y, z = given.tolist() if given.shape == (4,) and not there else (given[..., k] for k in range(4))
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    if isinstance(w, float):
        return np.array(rows)
    full: Array = np.empty_like(given, shape=(*given.shape[:-1], 3, 3))
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            full[..., i, j] = entry
    return full


def attitude_angles(rotation: Array) -> Array:
    """Roll, pitch and yaw (T, 3) of matrices in the order of time, as :func:`rotation_from_rpy` takes them.

    They go on without jumps: through a pitch of 90 deg too, where the pitch then counts further, and over full turns.
    """
    pitch = np.arctan2(-rotation[:, 2, 0], np.hypot(rotation[:, 0, 0], rotation[:, 1, 0]))
    yaw = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    # What is left after undoing the yaw: near a pitch of 90 deg roll and yaw make good each other's error.
    roll = np.arctan2(s * rotation[:, 0, 2] - c * rotation[:, 1, 2], c * rotation[:, 1, 1] - s * rotation[:, 0, 1])
    plain = np.stack([roll, pitch, yaw], axis=1)
    other = np.stack([roll + np.pi, np.pi - pitch, yaw + np.pi], axis=1)  # the same attitude
    found = plain.copy()
    for k in range(1, len(found)):
        candidates = [each + 2 * np.pi * np.round((found[k - 1] - each) / (2 * np.pi)) for each in (plain[k], other[k])]
        found[k] = min(candidates, key=lambda angles: float(np.abs(angles - found[k - 1]).sum()))
    return found
