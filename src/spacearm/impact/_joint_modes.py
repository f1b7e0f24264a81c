"""Modes of the joints during an impact: locked, free, or partially resisting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, number, one_of
from spacearm.engine.device import cupy, is_device_array, to_cupy
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.typing import Array

#: ``"all"``, ``"none"``, names of joints, or 0 and 1 for each joint (..., n).
Locked = str | Sequence[str] | npt.ArrayLike
#: One number for all joints, (..., n) numbers, or numbers for some joints by name (the others: 0).
Resistance = float | Mapping[str, float] | npt.ArrayLike
#: Lengths between this and its reciprocal have squares that are normal numbers.
TINY = 1e-150


@dataclass(frozen=True, eq=False)
class JointModes:
    """``locked`` (0 or 1) and ``resistance`` (0 to 1), each (n) or with leading batch dimensions.

    A *locked* joint is held by a constraint (a brake, a stiff servo): its rate does not change, and the impulse that
    this takes is a result. A *resisting* joint answers an impulse with ``-mu`` times the torque impulse that would
    hold **all** joints still (Yoshida's Eq. 10). With ``mu = 1`` on every joint both are the same; with ``mu = 1`` on
    some only, those joints still move, dragged along by the others. So "fixed" is ``locked``, not ``mu = 1``.
    """

    locked: Array
    resistance: Array

    @classmethod
    def from_options(cls, robot: Robot, locked: Locked = "none", resistance: Resistance = 0.0) -> JointModes:
        return cls(_lock_mask(robot, locked), _resistance(robot, resistance))


def _expand_to_joints(robot: Robot, value: npt.ArrayLike, what: str, **bounds: Any) -> Array:
    given = np.full(robot.n, value) if np.ndim(value) == 0 else value
    return array(given, what, (..., robot.n), **bounds)


def _lock_mask(robot: Robot, locked: Locked) -> Array:
    if isinstance(locked, str):
        one_of(locked, ("all", "none"), "locked")
        return np.full(robot.n, 1.0 if locked == "all" else 0.0)
    if isinstance(locked, Sequence) and all(isinstance(name, str) for name in locked):
        chosen = [check_name(str(name), robot.joint_names, "joint", place="locked") for name in locked]
        return np.array([float(name in chosen) for name in robot.joint_names])
    mask = _expand_to_joints(robot, locked, "locked")
    if not np.all((mask == 0.0) | (mask == 1.0)):
        raise InputError("is neither 0 nor 1", place="locked", hint="partial resistance has its own argument")
    return mask


def _resistance(robot: Robot, resistance: Resistance) -> Array:
    if isinstance(resistance, Mapping):
        for name, value in resistance.items():
            number(value, f"resistance of {check_name(name, robot.joint_names, 'joint', place='resistance')!r}")
        resistance = [float(resistance.get(name, 0.0)) for name in robot.joint_names]
    return _expand_to_joints(robot, resistance, "resistance", least=0.0, most=1.0)


def normalise(direction: npt.ArrayLike, what: str = "direction") -> Array:
    """Vectors (..., 3) scaled to length one; a zero or non-finite one is an error."""
    if is_device_array(direction):  # not looked through
        there: Any = to_cupy(cupy(), direction)
        scaled: Array = there / (there * there).sum(axis=-1, keepdims=True) ** 0.5
        return scaled
    vector = array(direction, what, (..., 3))
    # Plain squares in the common case: the slow path below handles the rare vectors whose squares are not normal
    # numbers.
    length = np.sqrt(np.einsum("...i,...i->...", vector, vector))[..., None]
    if length.size and not (length.min() > TINY and length.max() < 1.0 / TINY):
        # Squares underflow or overflow, or there is no direction: scale by the largest entry first.
        largest = np.abs(vector).max(axis=-1, keepdims=True)
        if np.any(largest == 0.0):
            raise InputError(f"{what} is zero and has no direction", hint="expected a vector of any length")
        vector = vector / largest
        length = np.linalg.norm(vector, axis=-1, keepdims=True)
    result: Array = vector / length
    return result
