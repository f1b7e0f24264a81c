"""The robot as recursions want it: parents, placements, axes, as constants; joint positions as symbols.

Bodies are numbered with the base as 0 and the child of joint i as i + 1, parents before children, so that one loop
upwards or downwards visits the tree in order (R. Featherstone, Rigid Body Dynamics Algorithms, 2008). Everything but
the joint positions is constant and enters expressions as numbers, snapped to exact 0 and 1 where it is a right angle:
CasADi then drops those products.

A placement is a product of elementary rotations and shifts, not a 6 x 6 matrix: each takes a vector, a wrench, a twist
or an inertia to the other side with as few products as its zeros allow. With ``short`` bodies are seen in frames
chosen for that (:mod:`spacearm.mechanics.reframe`), and inertia that moves alike with both bodies of a joint is moved
to the parent. Lengths m, angles rad.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

import casadi as ca
import numpy as np

from spacearm.mechanics.reframe import Screw, reframe_robot, transport
from spacearm.mechanics.spatial import SX, Rotation, Spatial, SpatialInertia, constant, snap_entries
from spacearm.model import Frame, Joint, Pose, Robot
from spacearm.model.parts import skew
from spacearm.typing import Array


class Link(NamedTuple):
    """A frame in another: rotation to outer axes, and origin in them."""

    rotation: Rotation
    arm: SX


@dataclass(frozen=True)
class Placement:
    """Where a child body lies in its parent at one joint position: frames within frames, the outermost first.

    ``arm`` leads to a point of the joint's axis, parent axes; ``along`` from there to the child's origin, child axes.
    """

    links: tuple[Link, ...]
    arm: SX
    along: SX

    def matrix(self) -> SX:
        """Rotation from child to parent axes."""
        return reduce(operator.matmul, (link.rotation.matrix() for link in self.links))

    def fixed_rotation(self) -> Array | None:
        """The constant rotation before the joint's own about a coordinate axis, which is the last; None without one."""
        last = self.links[-1].rotation
        if last.axis is None:
            return None
        parts = [np.array(ca.DM(link.rotation.matrix())) for link in self.links[:-1]]
        return snap_entries(reduce(operator.matmul, [*parts, np.array(ca.DM(last.fixed))]))

    def origin(self) -> SX:
        """The child's origin, parent axes."""
        return self.arm + self.to_parent(self.along)

    def to_parent(self, vector: SX) -> SX:
        """A vector's components from child to parent axes."""
        for link in reversed(self.links):
            vector = link.rotation.to_parent(vector)
        return vector

    def to_child(self, vector: SX) -> SX:
        """A vector's components from parent to child axes."""
        for link in self.links:
            vector = link.rotation.to_child(vector)
        return vector

    def wrench_to_parent(self, wrench: Spatial) -> Spatial:
        """A wrench from the child's origin and axes to the parent's."""
        for link in reversed(self.links):
            wrench = link.rotation.wrench_to_parent(wrench, link.arm)
        return wrench

    def twist_to_child(self, twist: Spatial) -> Spatial:
        """The twist that a rigid parent has at the child's origin, in child axes."""
        for link in self.links:
            twist = link.rotation.twist_to_child(twist, link.arm)
        return twist

    def wrench_to_child(self, wrench: Spatial) -> Spatial:
        """The inverse of :meth:`wrench_to_parent`."""
        for link in self.links:
            wrench = link.rotation.wrench_to_child(wrench, link.arm)
        return wrench

    def twist_to_parent(self, twist: Spatial) -> Spatial:
        """The inverse of :meth:`twist_to_child`."""
        for link in reversed(self.links):
            twist = link.rotation.twist_to_parent(twist, link.arm)
        return twist

    def inertia_to_parent(self, inertia: SpatialInertia) -> SpatialInertia:
        """A child's inertia seen from the parent."""
        for link in reversed(self.links):
            inertia = link.rotation.inertia_to_parent(inertia, link.arm)
        return inertia


def _single(rotation: Rotation, arm: SX) -> Placement:
    return Placement((Link(rotation, arm),), arm, ca.SX.zeros(3))


@dataclass(frozen=True)
class TreeJoint:
    """One joint's constants. ``parent`` and ``body`` are body indices; body 0 is the base."""

    parent: int
    body: int
    joint: Joint
    rotor: int | None  # place of its rotor's inertia among the rotors, None without a rotor
    ratio: float
    place: Pose  # of the child's frame in the parent's at position zero
    screw: Screw | None  # the same taken apart, where the frames are not the robot's own

    @cached_property
    def axis(self) -> Array:
        """The joint's axis, as every expression takes it. Subspace and rotation must have the very same one."""
        return snap_entries(self.joint.axis) if self.screw is None else np.array([0.0, 0.0, 1.0])

    @cached_property
    def subspace(self) -> Spatial:
        """Twist of the child for unit joint rate, child axes."""
        axis, zero = constant(self.axis), ca.SX.zeros(3)
        return Spatial(zero, axis) if self.joint.kind == "revolute" else Spatial(axis, zero)

    @property
    def spin_axis(self) -> SX:
        """Axis of the joint's rotor: that of the joint, of a slide as of a hinge; child axes."""
        return constant(self.axis)

    def placement(self, q: SX) -> Placement:
        if self.screw is not None:
            return _screw_placement(self.screw, q, self.joint.kind == "revolute")
        fixed, arm, axis = self.place.rotation, self.place.translation, self.axis
        if self.joint.kind == "prismatic":
            return _single(Rotation(constant(fixed)), constant(arm) + constant(fixed @ axis) * q)
        # One sine and one cosine per joint: all else is products.
        c, s = ca.cos(q), ca.sin(q)
        # Along a coordinate axis by its small components: its large one is 1 to rounding for any tilt below 4e-8 rad.
        along = np.flatnonzero(axis)
        sparse = np.count_nonzero(snap_entries(fixed)) < 9
        if len(along) == 1 and sparse:
            k = int(along[0])
            return _single(Rotation(constant(fixed), k, c, s if axis[k] > 0 else -s), constant(arm))
        # A skew axis: fixed @ (a a^T + c (1 - a a^T) + s [a]) with all three products taken beforehand.
        outer = np.outer(axis, axis)
        full = constant(fixed @ outer) + c * constant(fixed @ (np.eye(3) - outer)) + s * constant(fixed @ skew(axis))
        return _single(Rotation(full), constant(arm))


def _screw_placement(screw: Screw, q: SX, revolute: bool) -> Placement:
    """A joint that turns about z or slides along it."""
    links, arm, rotated = [], np.zeros(3), np.eye(3)
    for axis, c, s, part in screw.rotations:
        cosine, sine = ca.vertsplit(constant(np.array([c, s])))
        rotation = Rotation(ca.SX.eye(3), axis, cosine, sine, plain=True)
        links.append(Link(rotation, constant(part)))
        arm = arm + rotated @ part
        rotated = rotated @ np.array(ca.DM(rotation.matrix()))
    at_zero = snap_entries(np.array([np.cos(screw.angle), np.sin(screw.angle)]))
    c, s = ca.vertsplit(constant(at_zero))
    if revolute:
        # A quarter turn swaps sine and cosine; any other angle is added.
        whole = bool(np.all(at_zero == np.round(at_zero)))
        x, y = (ca.cos(q), ca.sin(q)) if whole else (ca.cos(q + screw.angle), ca.sin(q + screw.angle))
        c, s = (c * x - s * y, s * x + c * y) if whole else (x, y)
    along = ca.vertcat(0, 0, constant(np.array([screw.along])) + (0 if revolute else q))
    links.append(Link(Rotation(ca.SX.eye(3), 2, c, s, plain=True), along))
    return Placement(tuple(links), constant(arm), along)


class Tree:
    """All joints of a robot, parents first.

    With ``short``, bodies are seen in frames that make the equations short (:mod:`spacearm.mechanics.reframe`), the
    base in its own unless everything is ``free``. Generalised forces, velocities and accelerations of joints are the
    same in any frames; inertias and frames on bodies must be brought into them, and what belongs to the base.
    """

    def __init__(self, robot: Robot, *, short: bool = False, free: bool = False) -> None:
        self.robot, self.short = robot, short
        own = self._own = reframe_robot(robot, free=free) if short else None
        self._free = own is not None and free
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
                place=joint.placement if own is None else own.places[i],
                screw=None if own is None else own.screws[i],
            )
            for i, joint in enumerate(robot.joints)
        )

    @property
    def inertia_name(self) -> str:
        """The name that inertia parameters have in the frames of this tree; empty where these are the robot's own."""
        return "" if self._own is None else "reframed_free" if self._free else "reframed"

    @cached_property
    def base(self) -> Placement | None:
        """The base's frame in its own one; None where it is that."""
        if self._own is None or not self._free:
            return None
        if self._own.base is not None:
            return _screw_placement(self._own.base, ca.SX(0), False)
        place = self._own.frames[0]
        return _single(Rotation(constant(place.rotation)), constant(place.translation))

    def inertia(self, parameters: SX) -> SX:
        """The bodies' inertia parameters (10 each) in the frames of this tree.

        A rod along a joint's axis moves alike with both of the joint's bodies. So much of it goes from the child to the
        parent that the child's mass, its first moment along the axis and one moment of inertia are zero: after W.
        Khalil and J.-F. Kleinfinger, IEEE J. Robotics and Automation 3(6), 1987.
        """
        if self._own is None:
            return parameters
        maps = (constant(transport(frame.inverse())) for frame in self._own.frames)
        bodies = [ca.mtimes(m, parameters[10 * b : 10 * b + 10]) for b, m in enumerate(maps)]
        # From the tips inwards: what a child hands to its parent is then handed on with the parent's own.
        for i in reversed(range(self.n)):
            axis = self._rod_axis(i)
            if axis is not None:
                # The rod: all of the mass, the first moment along the axis, and one moment of inertia, the same about
                # both axes across it. It has none about the joint's axis, so that a turn of the joint does not move it.
                rod, across = ca.SX.zeros(10), 4 + (axis + 1) % 3
                rod[[0, 1 + axis]] = bodies[i + 1][[0, 1 + axis]]
                rod[[across, 4 + (axis + 2) % 3]] = bodies[i + 1][across]
                bodies[i + 1] -= rod
                bodies[self.joints[i].parent] += ca.mtimes(constant(transport(self._own.places[i])), rod)
        return ca.vertcat(*bodies)

    def sparse(self, parameters: SX) -> SX:
        """Parameters as :meth:`inertia` gives them, with its zeros written."""
        result = ca.SX(parameters)
        for i in range(self.n):
            axis = self._rod_axis(i)
            if axis is not None:
                result[[10 * (i + 1) + k for k in (0, 1 + axis, 4 + (axis + 1) % 3)]] = 0
        return result

    def _rod_axis(self, i: int) -> int | None:
        """The coordinate axis of a revolute joint whose child's inertia is partly its parent's."""
        along = np.flatnonzero(self.joints[i].axis)
        revolute = self.joints[i].joint.kind == "revolute"
        return int(along[0]) if self._own is not None and revolute and len(along) == 1 else None

    def frame(self, frame: Frame) -> Pose:
        """Placement of a frame on its body, in the frame of this tree."""
        place, own = frame.placement, self._own
        return place if own is None else own.frames[self.robot.body_index(frame.body)].inverse() @ place

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
        return rotor[joint.rotor] * (ca.dot(joint.spin_axis, carrier) + joint.ratio * rate)

    def path(self, body: int) -> Sequence[int]:
        """Joints from the base to this body."""
        return self.robot.path(body)
