"""Fields that act on every body of a world (gravity, Hill's equations of orbital motion), and viscous drag.

A field gives each body the wrench at its frame's origin, world axes, from pose, twist and the ten inertia parameters
(:mod:`spacearm.mechanics.fields`). Because it is a wrench for each body and not a force at its mass centre, the
gravity gradient's torque is in it. Rotors of geared motors are not bodies: a field's effect on their angular momentum
is added to the carrier and, through the gear, to the joint. Inertias are inputs of the compiled program, with a
world's overrides: gravity acts on the same masses as the motion has.

Hill's equations hold to first order in the distance from a point on a circular orbit (G. W. Hill, Researches in the
lunar theory, 1878; W. H. Clohessy and R. S. Wiltshire, Terminal guidance system for satellite rendezvous, 1960).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, number, positive
from spacearm.errors import error_context
from spacearm.mechanics.fields import gravity_wrench, hill_rotor_moment, hill_wrench, linear_gravity_wrench
from spacearm.mechanics.spatial import SX
from spacearm.simulate.elements import ElementAction, ElementView, ForceElement, FrameMotion
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.world import World


class Field(ForceElement):
    """A field that acts on every body."""

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        return [(name, body.name) for name, robot in world.systems.items() for body in robot.bodies]

    @property
    @abstractmethod
    def strength(self) -> Array:
        """Parameters of the field."""

    @abstractmethod
    def wrench(self, body: FrameMotion, inertia: SX, strength: SX) -> SX:
        """Wrench on a body at its origin, world axes."""

    def rotor(self, axis: SX, inertia: SX, angular_velocity: SX, strength: SX) -> SX | None:
        """Moment on a rotor of this axial inertia, world axes, beyond that on its carrier; None for none."""
        del axis, inertia, angular_velocity, strength
        return None

    def numbers(self, world: World) -> Array:
        # Overrides included: gravity acts on the same masses as the motion has.
        parts = [np.concatenate([np.ravel(own["inertia"]), np.ravel(own["rotor"])]) for own in world.parameters]
        return np.concatenate([self.strength, *parts])

    def write(self, view: ElementView, world: World) -> ElementAction:
        size = self.strength.size
        strength, at = view.numbers[:size], size
        wrenches: dict[tuple[str, str], SX] = {}
        forces: dict[tuple[str, str], SX] = {}
        for name, robot in world.systems.items():
            for body in robot.bodies:
                motion = view.frame(name, body.name)
                wrenches[name, body.name] = self.wrench(motion, view.numbers[at : at + 10], strength)
                at += 10
            # Rotor inertias follow the bodies' parameters of the same system in ``numbers``.
            geared = [(i, joint) for i, joint in enumerate(robot.joints) if joint.rotor is not None]
            for i, joint in geared:
                assert joint.rotor is not None
                carrier, child = robot.bodies[robot.parents[i]].name, robot.bodies[i + 1].name
                axis = view.frame(name, child).pose.rotation @ ca.SX(ca.DM(joint.axis))
                # The rotor's own spin, about the joint's axis as it lies in the world now.
                rate = joint.rotor.ratio * view.state[view.layouts[name].speed(6 + i)]
                # The rotor turns faster than the joint by the gear ratio.
                rotating = view.frame(name, carrier).angular_velocity + rate * axis
                moment = self.rotor(axis, view.numbers[at], rotating, strength)
                if moment is not None:
                    wrenches[name, carrier][3:] += moment
                    # The moment about the rotor's axis passes to the joint through the gear.
                    forces[name, joint.name] = joint.rotor.ratio * ca.dot(axis, moment)
                at += 1
        return ElementAction(wrenches, forces)


@dataclass(frozen=True, eq=False)
class Gravity(Field):
    """A uniform field, m/s2 in world axes: for tests on the ground.

    Its components in the plane of a planar base are the tilt of the table: g sin(angle).

    Args:
        acceleration: everywhere, or at the world's origin if there is a gradient.
        gradient: xx, yy, zz, xy, xz, yz of a symmetric gradient, 1/s2: of a table of height h that is not flat,
            -g times the second derivatives of h.
    """

    acceleration: npt.ArrayLike = (0.0, 0.0, -9.80665)
    name: str = "gravity"
    gradient: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        array(self.acceleration, "acceleration", (3,), place=self.name)
        if self.gradient is not None:
            array(self.gradient, "gradient", (6,), place=self.name)

    def structure(self, world: World) -> Hashable:
        return (Gravity, self.gradient is None) if type(self) is Gravity else super().structure(world)

    @property
    def strength(self) -> Array:
        parts = [self.acceleration] if self.gradient is None else [self.acceleration, self.gradient]
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])

    def wrench(self, body: FrameMotion, inertia: SX, strength: SX) -> SX:
        if self.gradient is None:
            return gravity_wrench(body.pose, inertia, strength)
        return linear_gravity_wrench(body.pose, inertia, strength[:3], strength[3:])


@dataclass(frozen=True, eq=False)
class Orbit(Field):
    """Motion about a point on a circular orbit: Hill's accelerations, gravity gradient included, on every body.

    The world's origin is the point on the orbit; its axes rotate with it: x radial outward, y along the orbit, z along
    its normal. Attitudes and velocities are relative to them.

    Args:
        rate: mean motion n, rad/s; 2 pi divided by the period.
    """

    rate: float
    name: str = "orbit"

    def __post_init__(self) -> None:
        positive(self.rate, "rate", unit="rad/s", place=self.name)

    def structure(self, world: World) -> Hashable:
        return Orbit if type(self) is Orbit else super().structure(world)

    @property
    def strength(self) -> Array:
        return np.array([self.rate])

    def wrench(self, body: FrameMotion, inertia: SX, strength: SX) -> SX:
        return hill_wrench(body.pose, body.velocity, body.angular_velocity, inertia, strength)

    def rotor(self, axis: SX, inertia: SX, angular_velocity: SX, strength: SX) -> SX:
        return hill_rotor_moment(axis, inertia, angular_velocity, strength)


@dataclass(frozen=True, eq=False)
class Drag(ForceElement):
    """Viscous drag at the origin of a frame, against its velocity in the world: an air-bearing table's, a fluid's.

    Args:
        frame: frame on which it acts.
        linear: N s/m.
        angular: N m s/rad.
    """

    frame: str
    linear: float = 0.0
    angular: float = 0.0
    name: str = "drag"

    def __post_init__(self) -> None:
        for what in ("linear", "angular"):
            number(getattr(self, what), what, least=0.0, place=self.name)

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        with error_context(self.name, fallback=True):
            return [world.frame(self.frame)]

    def structure(self, world: World) -> Hashable:
        ((system, own),) = self.frames(world)
        return (Drag, system, world.robot(system).frame(own)) if type(self) is Drag else super().structure(world)

    def numbers(self, world: World) -> Array:
        del world
        return np.array([self.linear, self.angular])

    def write(self, view: ElementView, world: World) -> ElementAction:
        (key,) = self.frames(world)
        motion = view.frame(*key)
        return ElementAction(
            {key: -ca.vertcat(view.numbers[0] * motion.velocity, view.numbers[1] * motion.angular_velocity)}
        )
