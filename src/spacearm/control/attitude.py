"""Attitude control of the base: by reaction wheels, by thrusters, by a torque at its limit.

Errors are quaternions: twice the vector part of the rotation from the base to the target, in base axes, which for small
angles is the rotation vector and has no singularity below half a revolution. Wheels get the torque through the
pseudo-inverse of their axes. Thrusters are allocated by linear programming, once per robot: for each axis and sense the
levels (0 to 1) of greatest torque that give no force and no torque about other axes; the law then switches or scales
these six rows. Torques N m, base axes, about the mass centre with all joints at zero: an arm that moves it away makes
them approximate. Flexible modes and fuel use are ignored in the allocation.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import check_name, positive, unit_vector
from spacearm.control.laws import make_law
from spacearm.control.modulation import Modulation
from spacearm.errors import InputError, error_context
from spacearm.mechanics.law import Commands, oppose_each_other
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.law import Law
from spacearm.simulate.run.run import RunWarning
from spacearm.typing import Array

#: Levels this close to 0 or 1 are rounded to them.
WHOLE = 1e-6


def _attitude_error(plant: Plant, target: npt.ArrayLike) -> SX:
    """Twice the vector part of the shorter rotation from the base's attitude to the target, base axes."""
    w, x, y, z = unit_vector(target, "target attitude", (4,))
    a, b, c, d = ca.vertsplit(plant.quaternion)
    # The conjugate of the base's quaternion times the target's: the error in base axes.
    vector = ca.vertcat(a * x - b * w - c * z + d * y, a * y + b * z - c * w - d * x, a * z - b * y + c * x - d * w)
    scalar = a * w + b * x + c * y + d * z
    # q and -q are the same attitude: with the sign of the scalar part the base always takes the shorter rotation.
    return 2 * ca.if_else(scalar < 0, -1.0, 1.0) * vector


def _wheel_axes(robot: Robot, wheels: Sequence[str]) -> Array:
    """(3, wheels) axes in the base's frame."""
    columns = []
    for name in wheels:
        check_name(name, robot.wheel_names, "reaction wheel", of=robot.name)
        joint = robot.joint(name)
        if joint.parent != robot.bodies[0].name:
            raise InputError(f"wheel {name!r} is not on the base", hint="expected wheels of the base")
        columns.append(joint.placement.rotation @ joint.axis)
    axes = np.array(columns).T.reshape(3, -1)
    if np.linalg.matrix_rank(axes) < 3:
        raise InputError(f"{len(columns)} wheels cannot rotate the base about all axes", hint="expected three or more")
    return axes


def attitude_by_wheels(
    target: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
    *,
    stiffness: npt.ArrayLike,
    damping: npt.ArrayLike,
    wheels: Sequence[str] | None = None,
    **settings: Any,
) -> Law:
    """Reaction wheels rotate the base to an attitude: quaternion feedback (Wie and Barba, J. Guidance 8(3), 1985).

    The torque on the base is stiffness * (twice the vector part of the quaternion error) - damping * angular velocity,
    plus the torque that rotates the momentum of base, arm and wheels along with the base.

    Args:
        target: quaternion (w, x, y, z), base to world.
        stiffness, damping: N m/rad and N m s/rad; one or for each base axis.
        wheels: all wheels of the robot by default.
    """

    def build(plant: Plant) -> dict[str, SX]:
        names = plant.robot.wheel_names if wheels is None else tuple(wheels)
        axes = _wheel_axes(plant.robot, names)
        kp, kd = (plant.constant(each, 3) for each in ("stiffness", "damping"))
        carried = plant.base.rotation.T @ plant.momentum[3:]
        # In base axes throughout, in which wheels and gyros are mounted.
        torque = kp * _attitude_error(plant, target) - kd * plant.angular_velocity
        # Feedforward of w x L, so that the error obeys a linear law at any rate.
        torque += ca.cross(plant.angular_velocity, carried)
        # Minus: the motor torque on a wheel acts on the base with the opposite sign. Least norm over redundant wheels.
        return plant.values_by_name(ca.SX(ca.DM(-np.linalg.pinv(axes))) @ torque, names)

    return make_law(build, "attitude_by_wheels", settings, {"stiffness": stiffness, "damping": damping})


def thruster_pulses(robot: Robot, thrusters: Sequence[str] | None = None) -> tuple[tuple[str, ...], Array]:
    """Thruster levels (6, thrusters) of greatest torque about +x, +y, +z, -x, -y, -z without a net force.

    The torque is about the mass centre in the configuration with all joints at zero.
    """
    names = tuple(part.name for part in robot.thrusters) if thrusters is None else tuple(thrusters)
    return names, _pulses(robot, names).copy()


def axis_torques(robot: Robot) -> Array:
    """Greatest torques about +x, +y, +z, -x, -y, -z without a net force, as columns (3, 6), base axes, N m."""
    names, table = thruster_pulses(robot)
    return np.asarray(_wrenches(robot, names)[1] @ table.T)


def _wrenches(robot: Robot, names: Sequence[str]) -> tuple[Array, Array]:
    """Force and torque (3, thrusters) of each thruster about the mass centre, base axes, with all joints at zero."""
    return _named_wrenches(robot, tuple(names))


@lru_cache(maxsize=16)
def _named_wrenches(robot: Robot, names: tuple[str, ...]) -> tuple[Array, Array]:
    from spacearm.engine.mechanics import mechanics_of

    parts = [robot.thruster(name) for name in names]
    if any(part.body != robot.bodies[0].name for part in parts):
        raise InputError("a thruster is not on the base", hint="expected thrusters of the base")
    centre = mechanics_of(robot).centre_of_mass(np.zeros(robot.n))
    push = np.array([part.force * part.direction for part in parts]).T.reshape(3, -1)
    twist = np.array([np.cross(part.position - centre, part.force * part.direction) for part in parts]).T.reshape(3, -1)
    return push, twist


@lru_cache(maxsize=16)
def _pulses(robot: Robot, names: tuple[str, ...]) -> Array:
    from scipy.optimize import linprog

    push, twist = _wrenches(robot, names)
    table = np.zeros((6, len(names)))
    for row, (axis, sign) in enumerate((k, s) for s in (1.0, -1.0) for k in range(3)):
        # Five equations: no net force, no torque about the two other axes.
        still = np.concatenate([push, np.delete(twist, axis, axis=0)])
        # Linear in the levels, so that the optimum is a corner, where most levels are 0 or 1 and need no modulation.
        found = linprog(-sign * twist[axis], A_eq=still, b_eq=np.zeros(5), bounds=[(0.0, 1.0)] * len(names))
        # An optimum of zero is a success of the solver, and no torque.
        if not found.success or not sign * (twist[axis] @ found.x) > 1e-9 * np.abs(twist).max(initial=0.0):
            raise InputError(
                f"the thrusters cannot rotate the base about {'+' if sign > 0 else '-'}{'xyz'[axis]} "
                "without a net force",
                hint="expected opposed pairs of thrusters",
            )
        table[row] = found.x
    return table


def warn_of_partial_levels(robot: Robot, names: Sequence[str], table: Array, place: str) -> None:
    """Warn if thrusters would have to be partly on to rotate the base without a net force."""
    on = np.round(table)
    if np.abs(table - on).max(initial=0.0) <= WHOLE:
        return
    row, column = divmod(int(np.argmax(np.abs(table - on))), table.shape[1])
    push, twist = (on @ part.T for part in _wrenches(robot, names))
    # The torque that each row is for is no fault of it.
    twist[np.arange(6), np.arange(6) % 3] = 0.0
    force, torque = (np.linalg.norm(part, axis=1).max() for part in (push, twist))
    warnings.warn(
        f"{place}: thruster {names[column]!r} would need {table[row, column]:.3g} of its force to "
        f"rotate the "
        f"base about {'xyz'[row % 3]} alone; switched on or off, the thrusters give "
        f"a net force of up to {force:.3g} N and "
        f"up to {torque:.3g} N m about other axes (a "
        "modulation gives fractions of a force)",
        RunWarning,
        stacklevel=3,
    )


def fire_thrusters(robot: Robot, names: Sequence[str], table: Array, line: SX, band: SX | float) -> dict[str, SX]:
    """Level, 0 or 1, of each thruster; an axis fires if its entry of ``line`` (3) exceeds the band.

    If two axes need the same thruster, or opposed thrusters, the one with the larger ``line`` fires. ``names`` and
    ``table`` are those of :func:`thruster_pulses`.
    """
    on = np.round(table)
    parts = [robot.thruster(name) for name in names]
    against = np.array(
        [[one is other or oppose_each_other(one, other) for other in parts] for one in parts], dtype=float
    )
    # Pairs of axes that share a thruster, or need two that blow against each other.
    meet = on @ against.reshape(len(parts), len(parts)) @ on.T > 0.0
    asked = [line[k] > band for k in range(3)] + [line[k] < -band for k in range(3)]
    size, fired = ca.fabs(line), []
    for row in range(6):
        mine, chosen = size[row % 3], asked[row]
        for other in range(6):
            if other % 3 != row % 3 and meet[row, other]:
                # Ties go to the lower axis: exactly one of two equal axes fires.
                first = size[other % 3] >= mine if other % 3 < row % 3 else size[other % 3] > mine
                chosen = ca.logic_and(chosen, ca.logic_not(ca.logic_and(asked[other], first)))
        fired.append(chosen)
    levels = ca.SX(ca.DM(on.T)) @ ca.vertcat(*fired)
    return {name: ca.fmin(levels[i], 1.0) for i, name in enumerate(names)}


def spread_torque(robot: Robot, names: Sequence[str], table: Array, demand: SX) -> dict[str, SX]:
    """Level, 0 to 1, of each thruster for a demand (3), in fractions of the greatest torque about each axis, base axes.

    If a level would exceed 1, all are scaled down by the same factor; of two opposed thrusters at most one is on. The
    base thus rotates without a net force. ``names`` and ``table`` are those of :func:`thruster_pulses`.
    """
    return limit_levels(robot, names, ca.SX(ca.DM(table.T)) @ ca.vertcat(ca.fmax(demand, 0.0), ca.fmax(-demand, 0.0)))


def limit_levels(robot: Robot, names: Sequence[str], levels: SX) -> dict[str, SX]:
    """Levels by thruster: of two opposed ones at most one is on, and none is above 1."""
    found = dict(zip(names, ca.vertsplit(levels), strict=True))
    for k, one in enumerate(names):
        for other in names[:k]:
            first, second = robot.thruster(one), robot.thruster(other)
            if oppose_each_other(first, second):
                # What both would give is taken off both: the force that is left is the same.
                both = ca.fmin(found[one] * first.force, found[other] * second.force)
                found[one], found[other] = found[one] - both / first.force, found[other] - both / second.force
    # Scaled together rather than clipped one by one: clipping would change the direction of the torque and add a force.
    most = ca.fmax(ca.mmax(ca.vertcat(*found.values())), 1.0)
    return {name: level / most for name, level in found.items()}


def attitude_by_thrusters(
    robot: Robot,
    target: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
    *,
    dead_band: float,
    rate_gain: float,
    thrusters: Sequence[str] | None = None,
    modulation: Modulation | None = None,
    period: float = 0.1,
    **settings: Any,
) -> Law:
    """Thrusters hold an attitude: on-off by a switching line in the phase plane of each axis, or in pulses.

    An axis fires when the error plus ``rate_gain`` (s) times its rate exceeds ``dead_band`` (rad). With a modulation
    the torque is proportional to that sum and saturates at ``dead_band``.
    """
    positive(dead_band, "dead_band", unit="rad", place="attitude_by_thrusters")
    positive(rate_gain, "rate_gain", unit="s", place="attitude_by_thrusters")
    with error_context("attitude_by_thrusters"):
        names, table = thruster_pulses(robot, thrusters)
    if modulation is None:
        warn_of_partial_levels(robot, names, table, "attitude_by_thrusters")

    def build(plant: Plant) -> Commands:
        line = _attitude_error(plant, target) - rate_gain * plant.angular_velocity
        if modulation is None:
            return Commands(thrusters=fire_thrusters(plant.robot, names, table, line, dead_band))
        return modulation.commands(plant, spread_torque(plant.robot, names, table, line / dead_band))

    return make_law(build, "attitude_by_thrusters", {"period": period} | settings)


def detumble(torque: float, *, period: float | None = None, remainder: float = 1e-8, **settings: Any) -> Law:
    """A torque of constant magnitude (N m) on the base that removes the angular momentum about the mass centre.

    It takes ``|L0| / torque``, the shortest possible time. The continuous law ends its phase (event ``detumbled``) when
    the remaining momentum is what the torque removes in ``remainder`` seconds: about 1e-10 of the whole time, the
    accuracy of the integration itself. The sampled law reduces its last torque to the remaining momentum.
    """
    positive(torque, "torque", unit="N m", place="detumble")
    positive(remainder, "remainder", unit="s", place="detumble")

    def build(plant: Plant) -> Commands:
        carried = plant.base.rotation.T @ plant.momentum[3:]
        size = ca.sqrt(ca.sumsqr(carried))
        shortest = remainder if period is None else period
        # Below the bound the torque falls with the momentum, to avoid chattering about zero.
        push = -torque * carried / ca.fmax(size, torque * shortest)
        events = {"detumbled": size - torque * shortest} if period is None else {}
        return Commands(plant.values_by_name(push, BASE_DOFS[3:]), events=events)

    return make_law(build, "detumble", {"period": period} | settings)


def propellant_mass(robot: Robot, log: CommandLog) -> float:
    """Mass (kg) of propellant that the thrusters used while a law acted: force times on-time, by specific impulse."""
    spent = 0.0
    for part in robot.thrusters:
        if part.name in log.names:
            times, levels = log.command_steps(part.name)
            lasted = np.diff(np.append(times, log.end))
            spent += part.mass_flow * float(lasted @ levels)
    return spent
