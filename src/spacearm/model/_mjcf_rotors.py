"""Geared rotors in MuJoCo, exactly.

A rotor of axial inertia J that turns r times as fast as its joint has the energy J/2 (r q' + w)^2, where w is its
carrier's rate about the axis. MuJoCo's ``armature`` A has only A/2 q'^2. But the joint's child turns at q' + w about
the axis and its parent at w, and

    J (r q' + w)^2 = J r (r - 1) q'^2 + J r (q' + w)^2 + J (1 - r) w^2

so an armature J r (r - 1), an axial inertia J r on the child and J (1 - r) on the parent are together the same rotor.
The child must stay a possible body (no principal moment above the sum of the others). Where it would not, inertia
across the axis helps: K (1 - a a^T) on the child and -K (1 - a a^T) on the parent change no motion, since both turn
alike across the axis. A massless child (the drive of a flexible joint) needs mass too: a point mass on the axis may
belong to either body without changing any motion, so it is borrowed from the parent.

Not expressible this way: 0 < r < 1 (the armature would be negative), and bodies too light to give what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from spacearm.model.fuse import axial_tensor
from spacearm.model.notices import Losses
from spacearm.model.parts import Joint
from spacearm.model.robot import Robot
from spacearm.typing import Array

#: MuJoCo refuses moving bodies with a principal moment (kg m2) or a mass (kg) below 1e-15; smaller ones are raised.
LEAST = 1e-14
#: A rotor that turns so many rad/m is an armature to rounding.
FAST = 2.0**40
#: Share of the parent's mass that a massless rotor body borrows.
BORROWED = 1e-6
#: How far below zero, relative to its trace, a second moment of mass may be by rounding.
ROUNDING = 1e-12


@dataclass
class Mass:
    """An inertia in the making, which need not be a possible body yet: mass, mass centre, tensor about it."""

    mass: float
    com: Array
    tensor: Array
    changed: bool = False

    def add(self, tensor: Array) -> None:
        if not np.any(tensor):
            return
        self.tensor = self.tensor + tensor
        self.changed = True

    def take_point(self, mass: float, place: Array) -> None:
        """Remove a point mass at ``place``."""
        arm = place - self.com
        # Steiner backwards: tensor of the rest about its own mass centre, which moves away from the point.
        reduced = self.mass * mass / (self.mass - mass)
        self.com = self.com - arm * mass / (self.mass - mass)
        self.mass -= mass
        self.add(-reduced * (arm @ arm * np.eye(3) - np.outer(arm, arm)))

    @property
    def possible(self) -> bool:
        """Whether some distribution of positive mass has this inertia."""
        trace = float(np.trace(self.tensor))
        if self.mass <= 0.0 or trace < 0.0:
            return False
        # tr(I) / 2 - I is the matrix of second moments of mass: a body exists where it is positive semidefinite, which
        # is the triangle inequality in all axes at once.
        second_moments = np.linalg.eigvalsh(0.5 * trace * np.eye(3) - self.tensor)
        return bool(second_moments[0] >= -ROUNDING * trace)


@dataclass
class Shared:
    """Inertias (by body name, body frame) and armatures (by joint name, kg m2) that stand for bodies and rotors."""

    masses: dict[str, Mass]
    armatures: dict[str, float] = field(default_factory=dict)


def share_rotors(robot: Robot, losses: Losses) -> Shared:
    """Rotors as armatures and changes of the bodies' inertias; where that cannot be, as armatures alone, reported."""
    rough = {
        joint.name: "its gear ratio is between 0 and 1"
        for joint in robot.joints
        if joint.rotor is not None and 0.0 < joint.rotor.ratio < 1.0
    }
    slides = {joint.name: "its joint slides" for joint in robot.joints if joint.rotor and joint.kind == "prismatic"}
    rough |= slides
    while True:
        # Each round gives up at least one rotor, so the loop ends; all others stay exact.
        shared, failed = _attempt(robot, rough)
        if failed is None:
            break
        # The rotors that this body carries ask too much of it; if there are none, its own joint's rotor does.
        carried = {joint.name for joint in robot.joints if joint.rotor is not None and joint.parent == failed}
        own = {joint.name for joint in robot.joints if joint.rotor is not None and joint.child == failed}
        for name in carried - rough.keys() or own:
            rough[name] = f"body {failed!r} is too light to make it exact"
    for joint in robot.joints:
        # With a high ratio, as a slide of MJCF has it, the carrier's rotation is nothing beside the rotor's own.
        if joint.name in rough and not (joint.name in slides and joint.rotor and joint.rotor.ratio >= FAST):
            losses.add(
                f"joint {joint.name!r}",
                "its rotor is only an armature, which does not turn with the body that carries it, since "
                + rough[joint.name],
            )
    return shared


def _attempt(robot: Robot, rough: Mapping[str, str]) -> tuple[Shared, str | None]:
    """Share all rotors but the rough ones; also the body, if any, that cannot exist after that."""
    masses = {body.name: Mass(body.inertia.mass, body.inertia.com, body.inertia.tensor) for body in robot.bodies}
    shared = Shared(masses)
    carriers = {joint.parent for joint in robot.joints}
    for joint in reversed(robot.joints):  # outer joints first: a child is complete before its own joint's turn
        child, parent = masses[joint.child], masses[joint.parent]
        if joint.rotor is not None:
            inertia, ratio = joint.rotor.inertia, joint.rotor.ratio
            if joint.name in rough:
                shared.armatures[joint.name] = inertia * ratio**2
                if child.mass == 0.0 and joint.child not in carriers:
                    child.mass = LEAST
            else:
                shared.armatures[joint.name] = inertia * ratio * (ratio - 1.0)
                _share(joint, child, parent)
        if child.changed and not child.possible:
            return shared, joint.child
    base = robot.bodies[0].name
    return shared, base if masses[base].changed and not masses[base].possible else None


def _share(joint: Joint, child: Mass, parent: Mass) -> None:
    assert joint.rotor is not None
    rotated = joint.placement.rotation @ joint.axis
    moment = joint.rotor.inertia * joint.rotor.ratio
    child.add(axial_tensor(joint.axis, moment))
    parent.add(axial_tensor(rotated, joint.rotor.inertia - moment))
    if child.mass == 0.0 and moment > 0.0:
        child.mass = BORROWED * parent.mass
        if child.mass > 0.0:
            parent.take_point(child.mass, joint.placement.translation)
    if child.possible or moment <= 0.0:
        return
    across = 0.6 * moment  # a little thicker than a disc, so that rounding does no harm
    child.add(across * np.eye(3) - axial_tensor(joint.axis, across))
    parent.add(axial_tensor(rotated, across) - across * np.eye(3))
