"""What each joint does during an impact: it is locked, free, or resists in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError, did_you_mean
from spacearm.model import Robot
from spacearm.typing import Array

#: ``"all"``, ``"none"``, names of joints, or 0 and 1 for each joint (..., n).
Locked = str | Sequence[str] | npt.ArrayLike
#: One number for all joints, (..., n) numbers, or numbers for some joints by name (the others: 0).
Resistance = float | Mapping[str, float] | npt.ArrayLike
#: Lengths from here to its reciprocal have squares that are normal numbers.
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
    def of(cls, robot: Robot, locked: Locked = "none", resistance: Resistance = 0.0) -> JointModes:
        return cls(_locked(robot, locked), _resistance(robot, resistance))


def _per_joint(robot: Robot, value: npt.ArrayLike, place: str) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{value!r} is not numbers", place=place) from error
    if array.ndim == 0:
        array = np.broadcast_to(array, (robot.n,))
    if array.shape[-1] != robot.n:
        raise InputError(f"has shape {array.shape}", place=place, hint=f"expected (..., {robot.n}): one for each joint")
    return array


def _locked(robot: Robot, locked: Locked) -> Array:
    if isinstance(locked, str):
        if locked not in ("all", "none"):
            raise InputError(
                f"is {locked!r}", place="locked", hint="expected 'all', 'none', a list of joints, or 0 and 1 for each"
            )
        return np.full(robot.n, 1.0 if locked == "all" else 0.0)
    if isinstance(locked, Sequence) and all(isinstance(name, str) for name in locked):
        mask = np.zeros(robot.n)
        for name in locked:
            mask[_index(robot, str(name), "locked")] = 1.0
        return mask
    array = _per_joint(robot, locked, "locked")
    if not np.all((array == 0.0) | (array == 1.0)):
        raise InputError("is neither 0 nor 1", place="locked", hint="partial resistance is another argument")
    return array


def _resistance(robot: Robot, resistance: Resistance) -> Array:
    if isinstance(resistance, Mapping):
        array = np.zeros(robot.n)
        for name, value in resistance.items():
            array[_index(robot, name, "resistance")] = _number(value, f"resistance of {name!r}")
    else:
        array = _per_joint(robot, resistance, "resistance")
    wrong = ~((array >= 0.0) & (array <= 1.0))
    if np.any(wrong):
        raise InputError(
            f"is {float(array[wrong].flat[0]):g}",
            place="resistance",
            hint="expected 0 (free) to 1 (as if all were fixed)",
        )
    return array


def _number(value: object, place: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(f"{value!r} is not a number", place=place) from error


def _index(robot: Robot, name: str, place: str) -> int:
    if name not in robot.joint_names:
        raise InputError(f"there is no joint {name!r}", place=place, hint=did_you_mean(name, robot.joint_names))
    return robot.joint_index(name)


def unit(direction: npt.ArrayLike, what: str = "direction") -> Array:
    """Vectors (..., 3) scaled to length one; a zero or non-finite one is an error."""
    try:
        array = np.asarray(direction, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("is not numbers", place=what) from error
    if array.ndim == 0 or array.shape[-1] != 3:
        raise InputError(f"has shape {array.shape}", place=what, hint="expected (..., 3)")
    length = np.sqrt(np.einsum("...i,...i->...", array, array))[..., None]
    if length.size and not (length.min() > TINY and length.max() < 1.0 / TINY):
        # Squares under- or overflow, or there is no direction: take the largest entry out first.
        largest = np.abs(array).max(axis=-1, keepdims=True)
        if not np.all(np.isfinite(array)) or np.any(largest == 0.0):
            raise InputError("has no direction", place=what, hint="expected finite numbers, not all zero")
        array = array / largest
        length = np.linalg.norm(array, axis=-1, keepdims=True)
    result: Array = array / length
    return result
