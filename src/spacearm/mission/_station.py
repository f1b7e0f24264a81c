"""The base on a path under thrusters: which thrusters fire for a wrench, and the law that asks for it.

The wrench on the base is that of inverse dynamics with the commanded acceleration of the base: feedforward of the path,
feedback of its errors, and what an orbit does. Thrusters get it through a table made once by linear programming: for
each of the twelve directions of force and torque the levels that give it alone for the least propellant. Levels become
pulses by pulse-width modulation. Wheels, where they rotate the base, get the torque, and thrusters the force alone.

Frames: paths in world axes, wrenches in base axes about ``centre``, a point of the base at the mass centre of all: a
force there hardly turns the base. SI units. Masses are those of the model; the use of propellant does not change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from spacearm.control import Plant
from spacearm.control.attitude import limit_levels
from spacearm.control.modulation import PulseWidth
from spacearm.errors import InputError
from spacearm.mechanics.law import Commands
from spacearm.mechanics.spatial import SX, rotation_matrix
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.simulate import constant
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.mission._encounter import HandPoseSignals
    from spacearm.mission._laws import Actuators

#: s, in which a thruster fires at most one pulse.
WINDOW = 1.0
#: What the rows of a table are for.
DIRECTIONS = (*(f"a force along {axis}" for axis in "xyz"), *(f"a torque about {axis}" for axis in "xyz"))


@dataclass(frozen=True)
class BaseControl:
    """How the base is controlled; equal ones share compiled laws.

    Args:
        centre: point of the base where forces act, base axes, m.
        by_wheels: whether wheels rotate the base, or else thrusters.
    """

    centre: tuple[float, float, float]
    by_wheels: bool


@dataclass(frozen=True, eq=False)
class BaseReference:
    """The path of the base and the gains of its law.

    Args:
        control: what moves the base.
        path: position, quaternion and angular velocity of the base's frame, world axes.
        gains: of the position's error and its rate, then of the attitude's, 1/s2 and 1/s.
        orbit: mean motion, rad/s; 0: none.
    """

    control: BaseControl
    path: HandPoseSignals
    gains: tuple[float, float, float, float]
    orbit: float = 0.0

    def references(self) -> dict[str, Any]:
        return {
            "base_position": self.path.position,
            "base_quaternion": self.path.quaternion,
            "base_rate": self.path.angular_velocity,
            "base_gains": [*map(constant, (*self.gains, self.orbit))],
        }


@lru_cache(maxsize=16)
def tabulate_levels(robot: Robot, centre: tuple[float, float, float], torques: bool) -> tuple[tuple[str, ...], Array]:
    """Thrusters on the base, and their levels (12, thrusters) for a unit force (N) or torque (N m) about ``centre``.

    Rows: +x, +y, +z, of forces and then of torques, and the same with the opposite sign. Without ``torques`` only
    forces are needed, and rows of torques are zero.
    """
    from scipy.optimize import linprog

    parts = [part for part in robot.thrusters if part.body == robot.bodies[0].name]
    if not parts:
        raise InputError("the servicer has no thrusters on its base", hint="expected thrusters that push to all sides")
    push = np.array([part.force * part.direction for part in parts]).T
    twist = np.cross(np.array([part.position for part in parts]) - np.array(centre), push.T).T
    # Force and torque together, so that a push along an axis does not turn the base. Levels are not bounded here: rows
    # are per newton and per newton metre, and limit_levels scales what they add up to.
    both, table = np.concatenate([push, twist]), np.zeros((12, len(parts)))
    # Propellant flow by level.
    cost = np.array([part.force / part.specific_impulse for part in parts])
    for row, (axis, sign) in enumerate((k, s) for s in (1.0, -1.0) for k in range(6 if torques else 3)):
        found = linprog(cost / cost.max(), A_eq=both, b_eq=sign * np.eye(6)[axis], bounds=[(0.0, None)] * len(parts))
        if not found.success:
            raise InputError(
                f"the thrusters cannot give {DIRECTIONS[axis]} alone, in direction {'+' if sign > 0 else '-'}",
                hint="expected thrusters that push to all sides",
            )
        table[row if torques else (row % 3) + 6 * (row // 3)] = found.x
    return tuple(part.name for part in parts), table


def command_base(plant: Plant, actuators: Actuators, control: BaseControl) -> tuple[Commands, dict[str, SX], SX]:
    """Thrusters that fire, torques on the wheels, and the wrench (6) of the thrusters at the base's origin, base axes.

    The law counts on an arm that does not accelerate.
    """
    place, quaternion, rates, gains = (
        plant.reference(f"base_{name}") for name in ("position", "quaternion", "rate", "gains")
    )
    kp, kd, kr, ks, orbit = ca.vertsplit(gains.value)
    rotation, aim = plant.base.rotation, rotation_matrix(quaternion.value)
    velocity, angular_rate = rotation @ plant.velocity[:3], rotation @ plant.velocity[3:6]
    apart = 0.5 * sum((ca.cross(rotation[:, k], aim[:, k]) for k in range(3)), ca.SX.zeros(3))
    # What an orbit's axes add to the acceleration of a body that nothing pushes (Clohessy and Wiltshire).
    x, _, z = ca.vertsplit(plant.base.origin)
    field = orbit * ca.vertcat(3.0 * orbit * x + 2.0 * velocity[1], -2.0 * velocity[0], -orbit * z)
    linear = place.acceleration + kd * (place.rate - velocity) + kp * (place.value - plant.base.origin) - field
    angular = rates.rate + ks * (rates.value - angular_rate) + kr * apart
    # Rates of the velocity's components in base axes.
    asked = ca.vertcat(rotation.T @ linear - ca.cross(plant.velocity[3:6], plant.velocity[:3]), rotation.T @ angular)
    still = dict.fromkeys(actuators.arm, ca.SX(0)) | plant.values_by_name(asked, BASE_DOFS)
    # Inverse dynamics of the base with the arm at rest against it: the wrench that the base's motion needs.
    needed = plant.respond(still).reaction[:6]
    centre = ca.SX(ca.DM(control.centre))
    torque = needed[3:] - ca.cross(centre, needed[:3])
    names, table = tabulate_levels(actuators.robot, control.centre, not control.by_wheels)
    wanted = ca.vertcat(needed[:3], torque if not control.by_wheels else ca.SX.zeros(3))
    # Thrusters cannot pull: each direction and its opposite have rows of their own, of which one is zero.
    levels = ca.SX(ca.DM(table.T)) @ ca.vertcat(ca.fmax(wanted, 0.0), ca.fmax(-wanted, 0.0))
    fired = _modulate(plant, limit_levels(actuators.robot, names, levels))
    wheels: dict[str, SX] = {}
    if control.by_wheels:
        # What acts on the base acts on the wheels with the opposite sign.
        shares = -ca.SX(ca.DM(actuators.shares)) @ torque
        wheels = plant.values_by_name(shares, actuators.wheels)
    acting = ca.SX.zeros(6)
    for name, level in fired.thrusters.items():
        part = actuators.robot.thruster(name)
        push = part.force * part.direction
        acting += level * ca.SX(ca.DM(np.concatenate([push, np.cross(part.position, push)])))
    return fired, wheels, acting


def _modulate(plant: Plant, levels: dict[str, SX]) -> Commands:
    assert plant.period is not None
    # The nearest whole number of periods: any period of a law will do.
    return PulseWidth(plant.period * max(1, round(WINDOW / plant.period))).commands(plant, levels)
