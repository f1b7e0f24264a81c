"""Soft-contact joints: up to six axes with spring and damper at one point, inserted at any joint of a robot.

The axes have the order of Zhang et al. (2020), Eqs. 2 and 10: first the displacement s in the axes of the preceding
segment, then Rot(x) Rot(y) Rot(z). Each is a joint of its own, with massless bodies between them; their names are
``<joint>.slide_x`` ... ``<joint>.rotation_z``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spacearm.checks import check_fields, check_name
from spacearm.errors import ModelError
from spacearm.model import Limits, Robot, Spring, edit
from spacearm.model.parts import finite
from spacearm.typing import Array

#: Name of the joint between hand and target when the contact is soft.
CONTACT = "contact"
#: All axes in their order, parent to child.
AXES = ("slide_x", "slide_y", "slide_z", "rotation_x", "rotation_y", "rotation_z")
#: Axes of a joint that is softened again have a number appended: ``<joint>.slide_x2``. Robot files of older versions
#: have ``turn_x`` for ``rotation_x``.
_SOFT = re.compile(r"(?P<joint>.+)\.(?:slide|rotation|turn)_[xyz]\d*")


@dataclass(frozen=True)
class SoftAxis:
    """One axis: a spring and damper with limited travel.

    Args:
        stiffness: N/m or N m/rad.
        damping: N s/m or N m s/rad.
        travel: permitted travel from zero, m or rad: one number for both directions, or (lower, upper).
        preload: force (N or N m) with which the spring pushes the outer side along the axis at zero. The spring is at
            rest at ``preload / stiffness``.
    """

    stiffness: float
    damping: float = 0.0
    travel: float | tuple[float, float] = math.inf
    preload: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, finite, "stiffness", "damping", least=0.0)
        check_fields(self, finite, "preload")
        lower, upper = self.range
        if math.isnan(lower) or math.isnan(upper) or not lower <= 0.0 <= upper:
            raise ModelError(f"travel is {self.travel}", hint="expected a range that includes zero, or one magnitude")
        # The preload is the spring's own force: without stiffness there is no rest position that gives it.
        if self.preload and not self.stiffness:
            raise ModelError("there is a preload but no spring", hint="give a stiffness above zero")

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest position, m or rad."""
        if isinstance(self.travel, tuple | list):
            if len(self.travel) != 2:
                raise ModelError(f"travel has {len(self.travel)} numbers", hint="expected one, or (lower, upper)")
            return float(self.travel[0]), float(self.travel[1])
        return -float(self.travel), float(self.travel)

    @property
    def rest(self) -> float:
        """Position at which the spring is at rest, m or rad."""
        return self.preload / self.stiffness if self.stiffness else 0.0


@dataclass(frozen=True)
class SoftJoint:
    """The axes of a soft-contact joint; axes that are not given are rigid.

    The paper's own joint (Sec. 5) has ``slide_z``, ``rotation_x``, ``rotation_y``, ``rotation_z``.
    """

    slide_x: SoftAxis | None = None
    slide_y: SoftAxis | None = None
    slide_z: SoftAxis | None = None
    rotation_x: SoftAxis | None = None
    rotation_y: SoftAxis | None = None
    rotation_z: SoftAxis | None = None

    def __post_init__(self) -> None:
        if not self.axes:
            raise ModelError("a soft joint has no axis", hint=f"give some of {', '.join(AXES)}")

    @classmethod
    def from_axes(cls, axes: Mapping[str, SoftAxis]) -> SoftJoint:
        """A soft joint from springs by the names of axes."""
        return cls(
            **{
                check_name(name, AXES, "axis", place="soft joint", error=ModelError): axis
                for name, axis in axes.items()
            }
        )

    @property
    def axes(self) -> dict[str, SoftAxis]:
        """Axes of the joint, in order."""
        return {name: getattr(self, name) for name in AXES if getattr(self, name) is not None}


def soften(
    robot: Robot, joint: str, soft: SoftJoint, *, where: Literal["after", "before", "instead"] = "after"
) -> Robot:
    """The robot with a soft joint after, before or instead of one of its joints.

    ``after``: the axes are those of the joint's child body; else those of the joint's own frame at zero.
    """
    rows = []
    # In the order of AXES, parent to child: slides first, so that they act along the axes before any rotation.
    for name, axis in soft.axes.items():
        kind, _, direction = name.partition("_")
        lower, upper = axis.range
        rows.append(
            edit.Axis(
                direction,
                "revolute" if kind == "rotation" else "prismatic",
                Spring(axis.stiffness, axis.rest),
                axis.damping,
                Limits(lower, upper),
            )
        )
    return edit.split_joint(robot, joint, rows, where=where)


def soft_joints(robot: Robot) -> dict[str, tuple[str, ...]]:
    """Soft joints by name, each with its axes: sequences of joints named ``<joint>.slide_x`` ...
    ``<joint>.rotation_z``.
    """
    found: dict[str, list[str]] = {}
    for name in robot.joint_names:
        match = _SOFT.fullmatch(name)
        if match:
            found.setdefault(match["joint"], []).append(name)
    return {joint: tuple(axes) for joint, axes in found.items()}


def soft_axes(robot: Robot, joints: Iterable[str] | None = None) -> tuple[str, ...]:
    """Joint names of all axes of these soft joints (default: all of the robot)."""
    soft, whose = soft_joints(robot), f"robot {robot.name!r}"
    chosen = (
        soft
        if joints is None
        else [check_name(name, soft, "soft joint", of=whose, error=ModelError) for name in joints]
    )
    return tuple(axis for name in chosen for axis in soft[name])


def find_cushioning_axes(robot: Robot) -> tuple[str, ...]:
    """Soft axes that the clutch locks, that have switched dampers and that a design chooses: all but those of a
    contact.
    """
    return tuple(name for name in soft_axes(robot) if not name.startswith(f"{CONTACT}."))


def find_held_joints(robot: Robot, free: Iterable[str] = ()) -> tuple[str, ...]:
    """Joints that their drives hold while soft axes move: all others except those in ``free``."""
    others = {*soft_axes(robot), *free}
    return tuple(name for name in robot.joint_names if name not in others)


def relax_soft_axes(robot: Robot, configuration: str = "zero") -> Array:
    """Joint positions of a configuration with every soft axis where its spring is at rest."""
    joints = np.array(robot.configuration(configuration))
    for axis in soft_axes(robot):
        spring = robot.joint(axis).spring
        joints[robot.joint_index(axis)] = spring.rest if spring else 0.0
    return joints
