"""Momentum of the base, the arm and the captured target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spacearm.model import Robot
from spacearm.simulate.bodies import evaluate_bodies, momentum
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.capture.target import CaughtTarget


@dataclass(frozen=True, eq=False)
class MomentumBudget:
    """Momentum by group, world axes: linear (T, 3) kg m/s, angular about the whole system's mass centre (T, 3) kg m2/s.

    Groups are ``base``, ``arm`` (with the rotors of its drives) and, if something was captured, ``target``.
    """

    linear: dict[str, Array]
    angular: dict[str, Array]

    @property
    def total(self) -> tuple[Array, Array]:
        return sum(self.linear.values()), sum(self.angular.values())  # type: ignore[return-value]


def momentum_budget(robot: Robot, states: Array, caught: CaughtTarget | None = None) -> MomentumBudget:
    """MomentumBudget at states (T, 13 + 2 n)."""
    whole = robot.inertia_parameters
    # Groups are inertias with the other bodies' set to zero, at the same motion: shares then add up to the whole
    # exactly.
    rows = {"base": np.zeros_like(whole), "arm": np.array(whole)}
    if caught is not None:
        frame = robot.frame(caught.target.name)
        rows["target"] = np.zeros_like(whole)
        rows["target"][robot.body_index(frame.body)] = caught.inertia.transform(frame.placement).parameters
        rows["arm"] -= rows["target"]  # momentum is linear in the ten parameters
    rows["base"][0], rows["arm"][0] = rows["arm"][0], 0.0
    rotors = robot.rotor_inertias
    bodies = evaluate_bodies(robot, states)
    # First moments: mass times origin, and m c rotated into the world.
    first = np.einsum("b,tbi->ti", whole[:, 0], bodies.origin) + np.einsum(
        "tbij,bj->ti", bodies.rotation, whole[:, 1:4]
    )
    # About the mass centre of all: shares about the world's origin would be dominated by drift.
    centre = first / whole[:, 0].sum()
    sums = {
        name: momentum(robot, bodies, states, own, rotors if name == "arm" else np.zeros_like(rotors))
        for name, own in rows.items()
    }
    return MomentumBudget(
        {name: part.linear for name, part in sums.items()},
        {name: part.angular - np.cross(centre, part.linear) for name, part in sums.items()},
    )
