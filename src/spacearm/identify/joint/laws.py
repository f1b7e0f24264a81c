"""Torques inside a flexible joint: spring and damper as in the paper; friction, cubic stiffness and play beyond it.

With the deflection d = link angle - ratio * motor angle - rest (load side, rad) and its rate d', the torque on the link
is ``-k s - c d' - k3 s^3`` plus friction in the spring; s is d, or what exceeds the play. The motor has viscous and dry
friction of its own. Dry friction is Coulomb's, Stribeck's curve, or LuGre's bristle with one state for each place.

All laws are smooth, so that one adaptive integrator and one set of exact derivatives serve them all: dry friction
changes its sign over ``slip_speed`` (tanh), play opens over ``edge`` (a hyperbola). The price is creep: a joint under
Coulomb friction never sticks exactly but creeps at a speed well below ``slip_speed``.

Parameters and torques are CasADi symbols, one scalar each; SI units (N m, rad, rad/s, kg m2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import casadi as ca

from spacearm.checks import check_fields, one_of, positive
from spacearm.mechanics.spatial import SX

Friction = Literal["none", "coulomb", "stribeck", "lugre"]

#: Unit, lower and upper bound, start value and typical size of every parameter. Motor inertia is on the load side
#: (ratio squared times the rotor's own); it and the stiffness are above zero, and searched within ``REACH`` of what the
#: robot file or the data suggest. A bias is a constant that a measured channel has too much.
SPECIFICATION: dict[str, tuple[str, float, float, float, float]] = {
    "motor_inertia": ("kg m2", 0.0, math.inf, 5.0, 1.0),
    "stiffness": ("N m/rad", 0.0, math.inf, 10.0, 1.0),
    "damping": ("N m s/rad", 0.0, math.inf, 0.5, 0.1),
    "cubic_stiffness": ("N m/rad3", -math.inf, math.inf, 0.0, 100.0),
    "play": ("rad", 0.0, 0.1, 0.0, 1e-3),
    "motor_damping": ("N m s/rad", 0.0, math.inf, 0.0, 0.1),
    "motor_coulomb": ("N m", 0.0, math.inf, 0.01, 0.01),
    "motor_static": ("N m", 0.0, math.inf, 0.02, 0.01),
    "motor_bristle": ("rad", 2e-4, 0.1, 2e-3, 1e-3),
    "spring_coulomb": ("N m", 0.0, math.inf, 0.01, 0.01),
    "spring_static": ("N m", 0.0, math.inf, 0.02, 0.01),
    "spring_bristle": ("rad", 2e-4, 0.1, 2e-3, 1e-3),
    "offset": ("rad", -math.pi, math.pi, 0.01, 0.01),
    "offset_rate": ("rad/s", -math.inf, math.inf, 0.0, 0.01),
    "bias": ("rad", -math.inf, math.inf, 0.0, 1e-3),
    "delay": ("s", -math.inf, math.inf, 0.0, 1e-3),
}
REACH = 1e4


@dataclass(frozen=True)
class JointLaw:
    """Selection of the laws that act in a flexible joint; their numbers are parameters of a fit.

    Args:
        motor: friction between motor and the body that carries it.
        spring: friction in the compliant element, in parallel to spring and damper.
        cubic: a spring torque ``cubic_stiffness * deflection**3`` is added.
        play: the spring does not act within ``+-play`` of rest.
        motor_damping: viscous friction of the motor.
        slip_speed: speed over which dry friction builds up, rad/s.
        stribeck_speed: speed at which most of the static friction has gone, rad/s.
        bristle_time: friction of LuGre's bristles leads their deflection by this time, s.
        edge: how sharp the ends of the play are, rad.
    """

    motor: Friction = "none"
    spring: Friction = "none"
    cubic: bool = False
    play: bool = False
    motor_damping: bool = False
    slip_speed: float = 2e-3
    stribeck_speed: float = 0.02
    bristle_time: float = 1e-3
    edge: float = 2e-4

    def __post_init__(self) -> None:
        for key in ("motor", "spring"):
            one_of(getattr(self, key), get_args(Friction), f"{key} friction", place="law")
        check_fields(self, positive, "slip_speed", "stribeck_speed", "bristle_time", "edge", place="law")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of one joint's parameters, in the order of the program."""
        names = ["motor_inertia", "stiffness", "damping"]
        if self.cubic:
            names.append("cubic_stiffness")
        if self.play:
            names.append("play")
        if self.motor_damping:
            names.append("motor_damping")
        for where, kind in (("motor", self.motor), ("spring", self.spring)):
            names += [f"{where}_{word}" for word in _FRICTION_PARAMETERS[kind]]
        return tuple(names)

    @property
    def bristles(self) -> tuple[str, ...]:
        """Places (motor, spring) with a LuGre bristle, whose deflection is a state."""
        return tuple(where for where in ("motor", "spring") if getattr(self, where) == "lugre")

    @property
    def name(self) -> str:
        words = [f"{kind} friction in the {where}" for where, kind in _both(self) if kind != "none"]
        words += [text for on, text in _extras(self) if on]
        return "spring and damper" + (", " + ", ".join(words) if words else "")


_FRICTION_PARAMETERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "coulomb": ("coulomb",),
    "stribeck": ("coulomb", "static"),
    "lugre": ("coulomb", "static", "bristle"),
}


def _both(law: JointLaw) -> tuple[tuple[str, str], ...]:
    return ("motor", law.motor), ("spring", law.spring)


def _extras(law: JointLaw) -> tuple[tuple[bool, str], ...]:
    return (law.cubic, "cubic stiffness"), (law.play, "play"), (law.motor_damping, "damping of the motor")


@dataclass(frozen=True)
class JointTorques:
    """Torque of the compliant element on the link, friction on the motor, rates of the bristles."""

    spring: SX
    motor: SX
    bristle_rates: list[SX]


def torques(
    law: JointLaw, parameters: dict[str, SX], deflection: SX, rate: SX, motor_rate: SX, bristles: SX
) -> JointTorques:
    """The laws as formulas. ``bristles`` holds one deflection for each of ``law.bristles``."""
    # The damper acts within the play too: only the spring is disengaged.
    interval = free_play(deflection, parameters["play"], law.edge) if law.play else deflection
    pull = -parameters["stiffness"] * interval - parameters["damping"] * rate
    if law.cubic:
        pull -= parameters["cubic_stiffness"] * interval**3
    drag = -parameters["motor_damping"] * motor_rate if law.motor_damping else ca.SX(0)
    rates: list[SX] = []
    # Friction in the spring acts on the deflection's rate, that of the motor on the motor's own.
    for where, speed in (("motor", motor_rate), ("spring", rate)):
        own = {word: parameters[f"{where}_{word}"] for word in _FRICTION_PARAMETERS[getattr(law, where)]}
        if not own:
            continue
        force, bristle_rate = _friction(law, own, speed, bristles[len(rates)] if "bristle" in own else None)
        if bristle_rate is not None:
            rates.append(bristle_rate)
        if where == "motor":
            drag += force
        else:
            pull += force
    return JointTorques(pull, drag, rates)


def free_play(deflection: SX, half: SX, edge: float) -> SX:
    """Deflection beyond ``+-half``: the two ends rounded over ``edge``; all of it where ``half`` is zero."""
    # Difference of two smoothed absolute values: odd in the deflection, and equal to it where ``half`` is zero.
    return deflection + 0.5 * (
        ca.sqrt((deflection - half) ** 2 + edge**2) - ca.sqrt((deflection + half) ** 2 + edge**2)
    )


def _friction(law: JointLaw, own: dict[str, SX], speed: SX, bristle: SX | None) -> tuple[SX, SX | None]:
    """Force against ``speed``, and the rate of the bristle where there is one.

    Stribeck's curve; C. Canudas de Wit, H. Olsson, K. J. Astrom, P. Lischinsky, IEEE Trans. Automatic Control 40(3),
    1995 for the bristle, whose deflection is counted here in units of the one at which it slips: so the law stays
    regular where the friction vanishes.
    """
    level = own["coulomb"]
    if "static" in own:
        # Stribeck: from static friction at rest down to Coulomb friction, a Gaussian in speed.
        level = level + (own["static"] - level) * ca.exp(-((speed / law.stribeck_speed) ** 2))
    if bristle is None:
        return -level * ca.tanh(speed / law.slip_speed), None
    # |speed|, rounded at zero so that derivatives exist; far below the slip speed, so that sliding is unchanged.
    magnitude = ca.sqrt(speed**2 + (0.1 * law.slip_speed) ** 2)
    # In steady sliding the bristle is +-1 and the force is +-level; in rest it is a spring of level / bristle.
    rate = (speed - magnitude * bristle) / own["bristle"]
    return -level * (bristle + law.bristle_time * rate), rate
