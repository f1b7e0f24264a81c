"""Momentum shared between the base, the arm and what it has caught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spacearm.model import Robot
from spacearm.model.parts import Array
from spacearm.simulate.bodies import frame_pose, move

if TYPE_CHECKING:
    from spacearm.capture.target import Caught


@dataclass(frozen=True, eq=False)
class Shares:
    """Momentum by group, world axes: linear (T, 3) kg m/s, angular about the whole system's mass centre (T, 3) kg m2/s.

    Groups are ``base``, ``arm`` and, when something was caught, ``target``.
    """

    linear: dict[str, Array]
    angular: dict[str, Array]

    @property
    def total(self) -> tuple[Array, Array]:
        return sum(self.linear.values()), sum(self.angular.values())  # type: ignore[return-value]


def momentum_shares(robot: Robot, states: Array, caught: Caught | None = None) -> Shares:
    """Shares at states (T, 13 + 2 n). Rotors count to the arm only by their bodies' inertia."""
    bodies = move(robot, states)
    count = len(states)
    parts = {"base": np.zeros((count, 6)), "arm": np.zeros((count, 6))}
    first, mass = np.zeros((count, 3)), 0.0
    for b, body in enumerate(robot.bodies):
        if body.inertia.mass == 0.0:
            continue
        origin, rotation = bodies.origin[:, b], bodies.rotation[:, b]
        own = _momentum(body.inertia, rotation, origin, bodies.velocity[:, b], bodies.spin[:, b])
        parts["base" if b == 0 else "arm"] += own
        first += body.inertia.mass * (origin + rotation @ body.inertia.com)
        mass += body.inertia.mass
    if caught is not None:
        rotation, origin = frame_pose(robot, bodies, caught.target.name)
        carrier = robot.body_index(robot.frame(caught.target.name).body)
        spin = bodies.spin[:, carrier]
        velocity = bodies.velocity[:, carrier] + np.cross(spin, origin - bodies.origin[:, carrier])
        parts["target"] = _momentum(caught.inertia, rotation, origin, velocity, spin)
        parts["base" if carrier == 0 else "arm"] -= parts["target"]
    centre = first / mass
    return Shares(
        {name: part[:, :3] for name, part in parts.items()},
        {name: part[:, 3:] - np.cross(centre, part[:, :3]) for name, part in parts.items()},
    )


def _momentum(inertia: object, rotation: Array, origin: Array, velocity: Array, spin: Array) -> Array:
    """(linear, angular about the world's origin) (T, 6)."""
    from spacearm.model import Inertia

    assert isinstance(inertia, Inertia)
    arm = rotation @ inertia.com
    centre_velocity = velocity + np.cross(spin, arm)
    linear = inertia.mass * centre_velocity
    turning = np.einsum("tij,jk,tlk,tl->ti", rotation, inertia.tensor, rotation, spin, optimize=True)
    return np.concatenate([linear, turning + np.cross(origin + arm, linear)], axis=1)
