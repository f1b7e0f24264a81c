"""Fields that act on every body of a world: gravity on the ground, the relative motion about an orbit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, positive
from spacearm.mechanics.fields import gravity_wrench, hill_rotor_moment, hill_wrench
from spacearm.mechanics.spatial import SX
from spacearm.simulate.elements import Action, ForceElement, FrameMotion, View
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
        """Its own numbers."""

    @abstractmethod
    def wrench(self, body: FrameMotion, inertia: SX, strength: SX) -> SX:
        """On a body at its origin, world axes."""

    def rotor(self, axis: SX, inertia: SX, angular_velocity: SX, strength: SX) -> SX | None:
        """Moment on a rotor of this axial inertia, world axes, beyond what its carrier feels; None for none."""
        del axis, inertia, angular_velocity, strength
        return None

    def numbers(self, world: World) -> Array:
        parts = [np.concatenate([np.ravel(own["inertia"]), np.ravel(own["rotor"])]) for own in world.parameters]
        return np.concatenate([self.strength, *parts])

    def write(self, view: View, world: World) -> Action:
        size = self.strength.size
        strength, at = view.numbers[:size], size
        wrenches: dict[tuple[str, str], SX] = {}
        forces: dict[tuple[str, str], SX] = {}
        for name, robot in world.systems.items():
            for body in robot.bodies:
                motion = view.frame(name, body.name)
                wrenches[name, body.name] = self.wrench(motion, view.numbers[at : at + 10], strength)
                at += 10
            geared = [(i, joint) for i, joint in enumerate(robot.joints) if joint.rotor is not None]
            for i, joint in geared:
                assert joint.rotor is not None
                carrier, child = robot.bodies[robot.parents[i]].name, robot.bodies[i + 1].name
                axis = view.frame(name, child).pose.rotation @ ca.SX(ca.DM(joint.axis))
                rate = joint.rotor.ratio * view.state[view.layouts[name].speed(6 + i)]
                turning = view.frame(name, carrier).angular_velocity + rate * axis
                moment = self.rotor(axis, view.numbers[at], turning, strength)
                if moment is not None:
                    wrenches[name, carrier][3:] += moment
                    # What turns the rotor about its axis passes to the joint through the gear.
                    forces[name, joint.name] = joint.rotor.ratio * ca.dot(axis, moment)
                at += 1
        return Action(wrenches, forces)


@dataclass(frozen=True, eq=False)
class Gravity(Field):
    """A uniform field, m/s2 in world axes: for tests on the ground."""

    acceleration: npt.ArrayLike = (0.0, 0.0, -9.80665)
    name: str = "gravity"

    def __post_init__(self) -> None:
        array(self.acceleration, "acceleration", (3,), place=self.name)

    def structure(self, world: World) -> Hashable:
        return Gravity if type(self) is Gravity else super().structure(world)

    @property
    def strength(self) -> Array:
        return np.asarray(self.acceleration, dtype=np.float64)

    def wrench(self, body: FrameMotion, inertia: SX, strength: SX) -> SX:
        return gravity_wrench(body.pose, inertia, strength)


@dataclass(frozen=True, eq=False)
class Orbit(Field):
    """Motion about a point on a circular orbit: Hill's accelerations, gravity gradient included, on every body.

    The world's origin is the point on the orbit; its axes turn with it: x radial outward, y along the orbit, z along
    its normal. Attitudes and velocities are relative to them.

    Args:
        rate: mean motion n, rad/s; 2 pi by the period.
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
