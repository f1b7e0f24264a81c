"""Checks of numerical input: the numbers, or an error that states the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import UNIT_TOLERANCE, numbers
from spacearm.errors import InputError, quote_text
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.typing import Array


def check_mapping(value: Any, place: str, what: str) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"is {quote_text(value)}", place=place, hint=f"expected a mapping from {what}")


def check_robot(robot: Any, place: str) -> None:
    if not isinstance(robot, Robot):
        raise InputError(
            f"the robot is {quote_text(robot)}", place=place, hint="expected a Robot, as load(file) gives it"
        )


#: At this angle (rad) the spacing of doubles is 1e-7 rad; beyond it sine and cosine soon become meaningless.
LARGEST_ANGLE = 1e9


def check_angles(robot: Robot, joints: Array, place: str = "joint positions") -> None:
    """Raise an error if a revolute joint of (..., n) positions is at an angle too large to be accurate."""
    revolute = np.array([joint.kind == "revolute" for joint in robot.joints], dtype=bool)
    # Numbers that are not finite are reported by the run, with its reason.
    far = revolute & np.isfinite(joints) & (np.abs(joints) > LARGEST_ANGLE)
    if far.any():
        where = tuple(int(i) for i in np.argwhere(far)[0])
        raise InputError(
            f"joint {quote_text(robot.joint_names[where[-1]])} is at {joints[where]:.6g} rad",
            place=place,
            hint=f"expected at most {LARGEST_ANGLE:g} rad: beyond that the angle within a revolution is lost",
        )


def flat_states(starts: npt.ArrayLike, robot: Robot, place: str) -> Array:
    """States (B, 13 + 2 n) in rows: position 3, quaternion 4, joints n, velocity 6 + n; one state is one row.

    Rows that are not finite are left to the run, which reports them; a finite quaternion must have norm 1.
    """
    states = np.atleast_2d(np.ascontiguousarray(numbers(starts, f"starts of the {place}")))
    nx = Layout(robot.n).size
    if states.ndim != 2 or states.shape[1] != nx:
        raise InputError(f"starts have shape {np.shape(starts)}", place=place, hint=f"expected (B, {nx}) or ({nx},)")
    check_angles(robot, states[:, Layout(robot.n).joints], f"starts of the {place}")
    norm = np.linalg.norm(states[:, QUATERNION], axis=1)
    wrong = np.flatnonzero(np.abs(norm - 1.0) > UNIT_TOLERANCE)  # NaN is not
    if wrong.size:
        raise InputError(
            f"base quaternion has norm {norm[wrong[0]]:.6g}",
            place=f"{place}, sample {wrong[0]}",
            hint="expected w, x, y, z with norm 1",
        )
    return states
