"""Flexible joints of a robot: a list of them, changes of gear and values, and the linear model about a rest position.

A flexible joint is a link's joint and its motor's, with a spring and a damper between them (M. W. Spong, Modeling and
control of elastic joint robots, 1987); the motor's inertia is stated on the load side, the gear ratio squared times
the rotor's own.

The linear model is M x'' + D x' + K x = f with x = (links, motors). The free base is eliminated by the Schur
complement of the mass matrix, i.e. by zero total momentum: the base takes whatever acceleration keeps it, so that
links swing faster than on a held base. Natural frequencies and frequency responses follow; start values and step sizes
of fits use them. Nothing is linearised in a fit itself. Angles in rad, inertias in kg m2, frequencies in rad/s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import Friction, Rotor
from spacearm.typing import Array


@dataclass(frozen=True)
class FlexibleJoint:
    """A link joint and its motor, with a spring and damper between them. Indices are those of the robot's joints."""

    name: str
    link: int
    motor: int
    coupling: int
    motor_inertia: float  # on the load side: gear ratio squared times the rotor's own, kg m2
    gear: float
    ratio: float  # of the coupling: link angle at rest = ratio * motor angle + rest
    rest: float
    stiffness: float
    damping: float

    @property
    def values(self) -> dict[str, float]:
        """The robot's own numbers by parameter name."""
        return {"motor_inertia": self.motor_inertia, "stiffness": self.stiffness, "damping": self.damping}


def flexible_joints(robot: Robot, names: Sequence[str] | None = None) -> tuple[FlexibleJoint, ...]:
    """The flexible joints of a robot, or those of them that are named."""
    found: dict[str, FlexibleJoint] = {}
    for index, coupling in enumerate(robot.couplings):
        motor = robot.joint(coupling.second)
        if motor.rotor is None:
            continue
        if robot.joint(coupling.first).kind != "revolute":
            raise InputError(f"joint {coupling.first!r} slides", place=f"robot {robot.name!r}",
                             hint="stiffness and damping are identified for revolute joints")  # fmt: skip
        found[coupling.first] = FlexibleJoint(
            coupling.first,
            robot.joint_index(coupling.first),
            robot.joint_index(coupling.second),
            index,
            motor.rotor.ratio**2 * motor.rotor.inertia,
            motor.rotor.ratio,
            coupling.ratio,
            coupling.rest,
            coupling.stiffness,
            coupling.damping,
        )
    if not found:
        raise InputError(
            f"robot {robot.name!r} has no flexible joint",
            place="robot",
            hint="give a joint a rotor and a transmission, or use spacearm.model.edit.make_flexible",
        )
    for name in names or ():
        check_name(name, found, "flexible joint", place=f"robot {robot.name!r}")
    return tuple(found[name] for name in (names or found))


def change_gear(robot: Robot, ratio: float, joint: str | None = None) -> Robot:
    """The same motor inertia on the load side behind another gear; ratio 1 is the paper's slow motor (Eqs. 9 to 20).

    A motor of load-side inertia I turning ``ratio`` times as fast couples to the bodies around it with I / ratio, and
    adds I / ratio**2 to them.
    """
    if not (math.isfinite(ratio) and ratio != 0.0):
        raise InputError(f"gear ratio is {ratio}", place="gear", hint="expected a number other than 0")
    chosen = flexible_joints(robot, None if joint is None else [joint])
    joints = list(robot.joints)
    for flexible in chosen:
        rotor = Rotor(flexible.motor_inertia / ratio**2, ratio)
        joints[flexible.motor] = replace(joints[flexible.motor], rotor=rotor)
    return robot.replace(joints=tuple(joints))


def write_joint_values(robot: Robot, values: Mapping[str, Mapping[str, float]]) -> Robot:
    """The robot with found values, ``values[joint][parameter]``, written into its joints.

    Motor inertia, stiffness and damping go into rotor and coupling; viscous and Coulomb friction of the motor into the
    motor's joint. What a robot file has no word for (cubic stiffness, play, bristles) stays out.
    """
    joints, couplings = list(robot.joints), list(robot.couplings)
    for name, own in values.items():
        (flexible,) = flexible_joints(robot, [name])
        motor, coupling = joints[flexible.motor], couplings[flexible.coupling]
        inertia = float(own.get("motor_inertia", flexible.motor_inertia))
        # Identified at the load's side, where a rotor counts with the square of its gear.
        motor = replace(motor, rotor=Rotor(inertia / flexible.gear**2, flexible.gear))
        if "motor_damping" in own:
            motor = replace(motor, damping=float(own["motor_damping"]))
        if "motor_coulomb" in own:
            coulomb = float(own["motor_coulomb"])
            motor = replace(motor, friction=Friction(max(float(own.get("motor_static", coulomb)), coulomb), coulomb))
        joints[flexible.motor] = motor
        couplings[flexible.coupling] = replace(
            coupling,
            stiffness=float(own.get("stiffness", coupling.stiffness)),
            damping=float(own.get("damping", coupling.damping)),
        )
    return robot.replace(joints=tuple(joints), couplings=tuple(couplings))


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``mass x'' + damping x' + stiffness x = force`` with x = (links, motors) of the flexible joints, base eliminated.

    The base floats freely: its motion follows from zero momentum. All other joints are held.
    """

    names: tuple[str, ...]
    mass: Array
    damping: Array
    stiffness: Array

    @property
    def count(self) -> int:
        return len(self.names)

    def frequencies(self, motors_held: bool) -> Array:
        """Undamped natural frequencies, rad/s, rising; with motors held on their paths, or free."""
        size = self.count if motors_held else 2 * self.count
        if motors_held:
            mass, stiffness = self.mass[:size, :size], self.stiffness[:size, :size]
        else:
            mass, stiffness = self.mass, self.stiffness
        # M is symmetric and positive, K symmetric: the eigenvalues are real but for rounding.
        squares = np.linalg.eigvals(np.linalg.solve(mass, stiffness)).real
        found: Array = np.sqrt(np.sort(np.maximum(squares, 0.0)))
        return found if motors_held else found[found > 1e-5 * found[-1]]  # turning as a whole takes no spring

    def motor_to_link(self, frequency: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """Complex response (W, links, motors): link angle for a sinus of the motor angle; ``frequency`` in rad/s."""
        w = np.atleast_1d(np.asarray(frequency, dtype=np.float64))[:, None, None]
        n = self.count
        # Rows of the links: -w^2 M + i w D + K, with the motors' columns on the right, since their angles are given.
        dynamic = -(w**2) * self.mass + 1j * w * self.damping + self.stiffness
        return np.asarray(np.linalg.solve(dynamic[:, :n, :n], -dynamic[:, :n, n:]))


@lru_cache(maxsize=8)
def _mechanics(robot: Robot) -> Mechanics:
    return Mechanics(robot)


def linearise(
    robot: Robot, joints: npt.ArrayLike, values: Mapping[str, Mapping[str, float]] | None = None
) -> LinearModel:
    """The robot about a configuration (n, rad) at rest, with its own joint values or ``values[joint][parameter]``."""
    configuration = array(joints, "joints", (robot.n,), place="linearise")
    flexible = flexible_joints(robot)
    own = [{**f.values, **(values or {}).get(f.name, {})} for f in flexible]
    rotors = {i: joint.rotor.inertia for i, joint in enumerate(robot.joints) if joint.rotor is not None}
    rotors |= {f.motor: one["motor_inertia"] / f.gear**2 for f, one in zip(flexible, own, strict=True)}
    mechanics = _mechanics(robot)
    inertias = np.array([rotors[i] for i in sorted(rotors)])
    full = mechanics.evaluate(mechanics.kernel("mass_matrix"), joints=configuration, rotor=inertias)["mass_matrix"]
    moves = np.array(robot.base.moving_indices, dtype=int)
    chosen = np.array([6 + f.link for f in flexible] + [6 + f.motor for f in flexible])
    # Schur complement: the base takes whatever acceleration keeps the total momentum at zero.
    across = full[np.ix_(moves, chosen)]
    mass = full[np.ix_(chosen, chosen)] - across.T @ np.linalg.solve(full[np.ix_(moves, moves)], across)
    n = len(flexible)
    stiffness, damping = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, 2 * n))
    for i, (f, one) in enumerate(zip(flexible, own, strict=True)):
        lever = np.zeros(2 * n)
        # Deflection = lever . x; spring and damper act along it, so K and D are sums of dyads.
        lever[i], lever[n + i] = 1.0, -f.ratio
        stiffness += one["stiffness"] * np.outer(lever, lever)
        damping += one["damping"] * np.outer(lever, lever)
        for place, index in ((i, f.link), (n + i, f.motor)):
            joint = robot.joints[index]
            damping[place, place] += one.get("motor_damping", joint.damping) if place >= n else joint.damping
            stiffness[place, place] += 0.0 if joint.spring is None else joint.spring.stiffness
    return LinearModel(tuple(f.name for f in flexible), mass, damping, stiffness)
