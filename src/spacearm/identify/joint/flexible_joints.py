"""Flexible joints of a robot: which there are, the two forms of their motors, and writing found values back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spacearm.checks import known
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import Friction, Rotor


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
            hint="give a joint a rotor and a transmission, or use spacearm.model.edit.flexible",
        )
    for name in names or ():
        known(name, found, "flexible joint", place=f"robot {robot.name!r}")
    return tuple(found[name] for name in (names or found))


def with_gear(robot: Robot, ratio: float, joint: str | None = None) -> Robot:
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


def with_values(robot: Robot, values: Mapping[str, Mapping[str, float]]) -> Robot:
    """The robot with found values, ``values[joint][parameter]``, written into its joints.

    Motor inertia, stiffness and damping go into rotor and coupling; viscous and Coulomb friction of the motor into the
    motor's joint. What a robot file has no word for (cubic stiffness, play, bristles) stays out.
    """
    joints, couplings = list(robot.joints), list(robot.couplings)
    for name, own in values.items():
        (flexible,) = flexible_joints(robot, [name])
        motor, coupling = joints[flexible.motor], couplings[flexible.coupling]
        inertia = float(own.get("motor_inertia", flexible.motor_inertia))
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
