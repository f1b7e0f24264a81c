"""Measured attitudes: one angle in the plane, three Euler angles, or quaternions."""

from __future__ import annotations

import numpy as np

from spacearm.errors import InputError
from spacearm.typing import Array


def to_quaternions(values: Array, file: str | None = None) -> Array:
    """Unit quaternions (T, 4), w x y z, NaN where a reading is missing.

    ``values``: an angle about z (T,) or (T, 1); z-y-x Euler angles (T, 3): alpha about z, beta about y, gamma about x;
    or quaternions (T, 4) whose norm is 1 within a hundredth, of whatever sign.
    """
    rows = values.reshape(values.shape[0], -1)
    if rows.shape[1] == 1:
        half = 0.5 * rows[:, 0]
        zero = np.zeros_like(half)
        return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)
    if rows.shape[1] == 3:
        return _euler_to_quaternions(rows)
    return _normalise(rows, file)


def _euler_to_quaternions(angles: Array) -> Array:
    from scipy.spatial.transform import Rotation

    found = np.full((angles.shape[0], 4), np.nan)
    whole = np.isfinite(angles).all(axis=1)
    # SciPy has the scalar last; upper case: intrinsic rotations.
    found[whole] = _one_branch(np.roll(Rotation.from_euler("ZYX", angles[whole]).as_quat(), 1, axis=1))
    return found


def _normalise(quaternions: Array, file: str | None, place: str = "attitude") -> Array:
    norms = np.linalg.norm(quaternions, axis=1)
    whole = np.isfinite(norms)
    # One percent: rounded files pass, columns in wrong order or angles in degrees do not.
    worst = int(np.argmax(np.where(whole, np.abs(norms - 1.0), 0.0)))
    if abs(norms[worst] - 1.0) > 1e-2:
        raise InputError(
            f"quaternion of sample {worst} has norm {norms[worst]:.6g}",
            file=file,
            place=place,
            hint="expected w, x, y, z with norm 1, or angles with their unit",
        )
    # Dividing a unit quaternion by its own norm would only round it once more.
    norms = np.where(np.abs(norms - 1.0) <= 4.0 * np.finfo(np.float64).eps, 1.0, norms)
    found = np.full(quaternions.shape, np.nan)
    found[whole] = _one_branch(quaternions[whole] / norms[whole, None])
    return found


def _one_branch(unit: Array) -> Array:
    """Unit quaternions without jumps: q and -q are the same attitude, but splines need one of them throughout."""
    flips = np.cumprod(np.where(np.sum(unit[1:] * unit[:-1], axis=1) < 0, -1.0, 1.0))
    unit[1:] *= flips[:, None]
    return np.asarray(unit)


def yaw_of_quaternions(values: Array, file: str | None = None, place: str = "attitude") -> Array:
    """Angles (T,) about the world's z without jumps, of quaternions (T, 4), w x y z; NaN where one is missing."""
    w, x, y, z = _normalise(np.asarray(values, dtype=np.float64), file, place).T
    found = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    there = np.isfinite(found)
    found[there] = np.unwrap(found[there])
    return np.asarray(found)
