"""An arm on its separation device as robots: mounted on the rail, and, after separation, arm and satellite separately.

The rail is a prismatic joint between the satellite and the arm's base, and the springs are this joint's spring: no
special equations, so that everything that holds for robots holds for the rail. The satellite's frame is the arm's base
frame before the ejection, so at rail position zero both coincide. An infinitely heavy satellite has any inertia,
because all its freedoms are locked. A table locks the base's motion out of its plane, on the rail and after it.

States of the mounted robot split into those of arm and satellite by kinematics alone: the arm's base has the
satellite's velocity at that place plus the rate of the rail along its direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection.separation_device import SeparationDevice
from spacearm.errors import InputError
from spacearm.model import Robot, edit
from spacearm.model.base import BASE_DOFS, BaseConstraint
from spacearm.model.layout import Layout
from spacearm.model.parts import Body, Friction, Inertia, Joint, Pose, Spring, Visual
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.checks import check_angles
from spacearm.typing import Array

Normal = Literal["x", "y", "z"]
#: How far outside its limits a joint may be at the start: rounding of a file in degrees, rad or m.
LIMIT_SLACK = 1e-9


def reduce_to_plane(robot: Robot, frozen: Iterable[str] | Mapping[str, float]) -> Robot:
    """The planar reduction of the paper (Eqs. 16, 17): joints fixed, at zero if only named, and their bodies fused."""
    return edit.freeze(robot, frozen)


def find_normal(base: BaseConstraint) -> Normal:
    """The axis of a planar base's frame that is normal to its plane."""
    assert base.axis is not None
    return cast(Normal, "xyz"[int(np.flatnonzero(base.axis)[0])])


def _free_name(name: str, taken: Iterable[str]) -> str:
    """``name``, or with the first number that makes it unique."""
    used = set(taken)
    # One candidate more than there are names: one of them is free.
    numbered = (f"{name}{number}" for number in range(2, len(used) + 3))
    return next(word for word in (name, *numbered) if word not in used)


@dataclass(frozen=True, eq=False)
class Rig:
    """An arm on a device.

    Args:
        arm: the robot that is ejected; its base is the movable base.
        device: springs, rail and satellite.
        table: axis of the arm's base frame that is normal to an air table; motion out of the plane is locked, on the
            rail and after it. If omitted, there is no table.
    """

    arm: Robot
    device: SeparationDevice
    table: Normal | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.table, (None, "x", "y", "z"), "the table's normal", place="rig")
        if self.table is not None and abs(self.device.direction["xyz".index(self.table)]) > 1e-9:
            raise InputError(
                f"the rail leaves the table: its direction {self.device.direction.tolist()} has a component "
                f"along "
                f"{self.table}",
                place="rig",
                hint="expected a rail in the plane of the table",
            )

    @cached_property
    def rail(self) -> str:
        """Name of the rail's joint: ``rail``, or a numbered name if the arm has such a joint."""
        return _free_name("rail", self.arm.joint_names)

    @cached_property
    def mounted_robot(self) -> Robot:
        """Satellite, rail and arm; the rail is joint 0, the arm's joints follow."""
        device = self.device
        # The inertia of an infinitely heavy satellite has no effect: all its freedoms are locked.
        inertia = device.satellite or Inertia(1.0, np.zeros(3), np.eye(3))
        rail = Joint(
            self.rail,
            "prismatic",
            "",
            "",
            axis=device.direction,
            spring=Spring(device.total_stiffness, device.preload) if device.linear else None,
            damping=device.damping,
            friction=device.friction,
        )
        taken = (*self.arm.body_names, *(frame.name for frame in self.arm.frames))
        name = _free_name("satellite", taken)
        # Nor does it have a size: it is shown as a block behind the arm.
        behind = Pose(translation=-0.4 * device.direction)
        shapes = (Visual("box", np.full(3, 0.6), behind),) if device.satellite is None else ()
        carrier = Robot(
            name, (Body(name, inertia, shapes),), configurations=dict.fromkeys(self.arm.configurations, np.zeros(0))
        )
        return edit.attach_by_joint(carrier, name, self.arm, rail)

    @cached_property
    def satellite(self) -> Robot:
        """The satellite alone, after the arm has left."""
        return edit.detach(self.mounted_robot, self.rail)[0]

    @property
    def out_of_plane(self) -> tuple[str, ...]:
        """Degrees of freedom of a base that an air table removes."""
        if self.table is None:
            return ()
        k = "xyz".index(self.table)
        # Along the normal, and about the two axes that lie in the plane.
        return (BASE_DOFS[k], *(BASE_DOFS[3 + i] for i in range(3) if i != k))

    @property
    def rail_locks(self) -> tuple[str, ...]:
        """Degrees of freedom of the satellite that are locked while the arm is on the rail."""
        return BASE_DOFS if self.device.heavy else self.out_of_plane

    @property
    def free_base(self) -> list[int]:
        """Indices of the arm's base degrees of freedom that are free after separation."""
        return [i for i, name in enumerate(BASE_DOFS) if name not in self.out_of_plane]

    def configuration(self, joints: npt.ArrayLike | str | None) -> Array:
        """Joint positions of the arm (rad, m) from numbers or a configuration's name; positions outside limits are an
        error.
        """
        if joints is None or isinstance(joints, str):
            values = self.arm.configuration(joints or "zero")
        else:
            values = checks.array(joints, "configuration", (self.arm.n,))
        self.check_configurations(values)
        return values

    def check_configurations(self, joints: Array) -> None:
        """Check that configurations (..., n) are finite and within the joint limits."""
        checks.array(joints, "configuration", (..., self.arm.n))
        check_angles(self.arm, joints, "configuration")
        low, high = self.arm.lower_limits - LIMIT_SLACK, self.arm.upper_limits + LIMIT_SLACK
        outside = (joints < low) | (joints > high)
        if outside.any():
            where = tuple(int(i) for i in np.argwhere(outside)[0])
            joint = self.arm.joints[where[-1]]
            limits = joint.limits
            raise InputError(
                f"joint {joint.name!r} at {joints[where]:.6g} {joint.unit} is outside its limits",
                place="configuration" + (f" {where[:-1]}" if len(where) > 1 else ""),
                hint=f"expected {limits.lower:.6g} to {limits.upper:.6g} {joint.unit}",
            )

    def split(self, states: npt.ArrayLike) -> tuple[Array, Array]:
        """Flat states (..., 13 + 2 (n + 1)) of the mounted robot as separate states of the arm and of the satellite."""
        y = np.asarray(states, dtype=np.float64)
        n = self.arm.n
        at = Layout(n + 1)  # the rail is joint 0
        position, quaternion, joints = y[..., at.position], y[..., at.quaternion], y[..., at.joints][..., 1:]
        velocity = y[..., at.velocity]
        travel, speed = (part * self.device.direction for part in (y[..., at.joints][..., :1], velocity[..., 6:7]))
        # Velocity of a point fixed at z on the rail, plus the sliding; satellite and arm base have the same axes.
        linear = velocity[..., :3] + np.cross(velocity[..., 3:6], travel) + speed
        place = position + np.einsum("...ij,...j->...i", rotation_matrices(quaternion), travel)
        arm = np.concatenate([place, quaternion, joints, linear, velocity[..., 3:6], velocity[..., 7:]], axis=-1)
        satellite = np.concatenate([position, quaternion, velocity[..., :6]], axis=-1)
        return arm, satellite

    def with_joints(self, *, damping: float | None = None, friction: Friction | Literal["keep"] | None = "keep") -> Rig:
        """The rig with this damping (N m s/rad) and dry friction in every joint of the arm; ``None``: no friction."""
        joints = tuple(
            replace(
                joint,
                damping=joint.damping if damping is None else damping,
                friction=joint.friction if friction == "keep" else friction,
            )
            for joint in self.arm.joints
        )
        return Rig(self.arm.replace(joints=joints), self.device, self.table)
