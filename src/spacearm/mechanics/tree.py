"""The robot as recursions want it: parents, placements, axes, as constants; joint positions as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np

from spacearm.mechanics.spatial import SX, Rotation, Spatial, constant, snapped
from spacearm.model import Joint, Robot
from spacearm.model.parts import skew
from spacearm.typing import Array


@dataclass(frozen=True)
class Placement:
    """Where a child body lies in its parent at one joint position: rotation to parent axes and origin."""

    rotation: Rotation
    arm: SX


@dataclass(frozen=True)
class TreeJoint:
    """One joint's constants. ``parent`` and ``body`` are body indices; body 0 is the base."""

    parent: int
    body: int
    joint: Joint
    rotor: int | None  # place of its rotor's inertia among the rotors, None without a rotor
    ratio: float

    @cached_property
    def axis(self) -> Array:
        """Of the joint, as every expression takes it. Subspace and rotation must have the very same one."""
        return snapped(self.joint.axis)

    @cached_property
    def subspace(self) -> Spatial:
        """Twist of the child for unit joint rate, child axes."""
        axis, zero = constant(self.axis), ca.SX.zeros(3)
        return Spatial(zero, axis) if self.joint.kind == "revolute" else Spatial(axis, zero)

    def placement(self, q: SX) -> Placement:
        fixed, arm = self.joint.placement.rotation, self.joint.placement.translation
        axis = self.axis
        if self.joint.kind == "prismatic":
            return Placement(Rotation(constant(fixed)), constant(arm) + constant(fixed @ axis) * q)
        c, s = ca.cos(q), ca.sin(q)
        # Along a coordinate axis by its small components: its large one is 1 to rounding for any tilt below 4e-8 rad.
        along = np.flatnonzero(axis)
        sparse = np.count_nonzero(snapped(fixed)) < 9
        if len(along) == 1 and sparse:
            k = int(along[0])
            return Placement(Rotation(constant(fixed), k, c, s if axis[k] > 0 else -s), constant(arm))
        # A skew axis: fixed @ (a a^T + c (1 - a a^T) + s [a]) with all three products taken beforehand.
        outer = np.outer(axis, axis)
        full = constant(fixed @ outer) + c * constant(fixed @ (np.eye(3) - outer)) + s * constant(fixed @ skew(axis))
        return Placement(Rotation(full), constant(arm))


class Tree:
    """All joints of a robot, parents first."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.n = robot.n
        self.bodies = len(robot.bodies)
        rotors = [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]
        self.rotors = len(rotors)
        self.joints: tuple[TreeJoint, ...] = tuple(
            TreeJoint(
                parent=robot.parents[i],
                body=i + 1,
                joint=joint,
                rotor=rotors.index(i) if joint.rotor is not None else None,
                ratio=joint.rotor.ratio if joint.rotor is not None else 0.0,
            )
            for i, joint in enumerate(robot.joints)
        )

    def placements(self, q: SX) -> list[Placement]:
        """Placement of every child body in its parent."""
        return [joint.placement(q[i]) for i, joint in enumerate(self.joints)]

    def rotor_momentum(self, i: int, carrier: SX, rate: SX, rotor: SX) -> SX | None:
        """Spin momentum of joint i's rotor, N m s, None without one: from its carrier's turning and the joint's rate.

        From their time derivatives it is the torque that the rotor needs.
        """
        joint = self.joints[i]
        if joint.rotor is None:
            return None
        return rotor[joint.rotor] * (ca.dot(joint.subspace.angular, carrier) + joint.ratio * rate)

    def path(self, body: int) -> Sequence[int]:
        """Joints from the base to this body."""
        chain = []
        while body:
            chain.append(body - 1)
            body = self.joints[body - 1].parent
        return chain[::-1]


def rotor_inertias(robot: Robot) -> Array:
    """Axial inertia of every rotor, kg m2, in the order of the joints that have one."""
    return np.array([joint.rotor.inertia for joint in robot.joints if joint.rotor is not None], dtype=np.float64)
