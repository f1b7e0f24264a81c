"""Joint torques of an arm on a held base as a linear model.

    tau_measured (1 + gain) = Y(q, dq, ddq, gravity) beta + sum over axes d [ J (d . ddq) + friction(d . dq, load) ]
                              + torques by position + offset

beta are the base parameters of a held arm (:mod:`spacearm.identify.ground.held_base`). An axis is a joint or a
coupling: a motor that rotates by d . q, with d (n,) a unit vector for a joint. By virtual work its torque acts on the
joints along the same d. Friction terms, by the rate w and a width v: Coulomb tanh(w / v), viscous w, Stribeck
tanh(w / v) exp(-(w / 5v)^2), cubic w^3, load-dependent tanh(w / v) |load|. All coefficients are linear; the widths v of
the change of sign are the only nonlinear numbers, and the load is taken from the last estimate.

Everything is averaged over the windows of the torques (:mod:`spacearm.identify.ground._windows`). Columns are
(W, n, k): windows, joints, parameters; rad or m, N m or N. A smooth change of sign stands for presliding and noise of
the rate; hysteresis and stiction are not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from spacearm.checks import one_of
from spacearm.identify.ground._windows import Windows
from spacearm.identify.ground.held_base import held_base_parameters, separable_rotors, torque_regressor
from spacearm.identify.inertia.base_parameters import BaseParameters
from spacearm.model import Robot
from spacearm.optimise.problem import Parameter
from spacearm.typing import Array

FrictionTerm = Literal["coulomb", "viscous", "stribeck", "cubic", "load"]
FRICTION: tuple[FrictionTerm, ...] = ("coulomb", "viscous", "stribeck", "cubic", "load")
PositionTerm = Literal["spring", "sine", "cosine"]
POSITION: tuple[PositionTerm, ...] = ("spring", "sine", "cosine")
#: Rates over the width of the change of sign at which the Stribeck effect has fallen to 1 / e.
STRIBECK = 5.0
#: Windows whose regressors are held in memory at once.
CHUNK = 250


def friction_term(term: str, rate: Array, width: Array | float, load: Array) -> Array:
    """What multiplies a friction coefficient: rates (T,), rad/s, width of the change of sign, rad/s, load (T,), N m."""
    # A jump at zero would turn noise of the rate at rest into full friction.
    sign = np.tanh(rate / width)
    if term == "coulomb":
        return np.asarray(sign)
    if term == "viscous":
        return rate
    if term == "cubic":
        return np.asarray(rate**3)
    if term == "load":
        return np.asarray(sign * np.abs(load))
    return np.asarray(sign * np.exp(-((rate / (STRIBECK * width)) ** 2)))


@dataclass(frozen=True, eq=False)
class TorqueModel:
    """The terms of the joint torques of an arm on a held base.

    Args:
        robot: geometry and first guess of the inertias.
        gravity: (3,) m/s2, base axes.
        friction: terms of the friction, by joint or for all joints.
        rotors: whether rotor inertias are estimated, where torques tell them apart from the bodies' inertias.
        offset: whether each torque sensor has an offset.
        gain: standard deviation by which the factor of each torque sensor may be off one; 0: it is exact.
        couplings: name to how fast a further rotor, with friction of its own, rotates by each joint (n,).
        known_bodies: bodies whose inertias are known.
        position: torques by the joint's angle alone, of cables and sensors: ``spring``, ``sine``, ``cosine``.
        link_side: the sensors sit behind the gears: motor friction is not in the torques, and what looks like friction
            (hysteresis of the sensor, bearings) may have either sign.
    """

    robot: Robot
    gravity: Array = field(default_factory=lambda: np.array([0.0, 0.0, -9.81]))
    friction: Sequence[FrictionTerm] | Mapping[str, Sequence[FrictionTerm]] = ("coulomb", "viscous")
    rotors: bool = True
    offset: bool = True
    gain: float = 0.0
    couplings: Mapping[str, Array] = field(default_factory=dict)
    known_bodies: Sequence[str] = ()
    position: Sequence[PositionTerm] = ()
    link_side: bool = False

    def __post_init__(self) -> None:
        for joint in self.axes:
            for term in self.terms(joint):
                one_of(term, FRICTION, "friction", place=joint)
        for shape in self.position:
            one_of(shape, POSITION, "position term")
        for body in self.known_bodies:
            self.robot.body_index(body)

    @cached_property
    def axes(self) -> dict[str, Array]:
        """Name to direction (n,) of everything that has friction and a rotor: joints, then couplings."""
        own = dict(zip(self.robot.joint_names, np.eye(self.robot.n), strict=True))
        return own | {name: np.asarray(direction) for name, direction in self.couplings.items()}

    def terms(self, axis: str) -> tuple[FrictionTerm, ...]:
        """Friction of a joint or coupling."""
        if isinstance(self.friction, Mapping):
            return tuple(self.friction.get(axis, ()))
        return tuple(self.friction)

    @cached_property
    def known_places(self) -> tuple[int, ...]:
        """Places of the inertias that are known."""
        places = [self.robot.body_index(body) for body in self.known_bodies]
        return tuple(sorted(10 * b + k for b in places for k in range(10)))

    @cached_property
    def base(self) -> BaseParameters:
        return held_base_parameters(self.robot, tuple(self.gravity), self.known_places)

    @cached_property
    def separable(self) -> dict[str, bool]:
        """Joint or coupling to whether its rotor's inertia can be told apart."""
        directions = np.stack(list(self.axes.values()))
        return dict(zip(self.axes, separable_rotors(self.base, self.gravity, directions), strict=True))

    @cached_property
    def others(self) -> tuple[Parameter, ...]:
        """Unknowns besides inertias, in the order of the columns."""
        found = []
        units = {joint.name: "N m" if joint.unit == "rad" else "N" for joint in self.robot.joints}
        # Exporters write an effort limit of 0 where nobody stated one.
        sizes = {joint.name: (min(joint.limits.effort, 1e3) or 100.0, joint.unit) for joint in self.robot.joints}
        for axis in self.axes:
            effort, angle = sizes.get(axis, (100.0, "rad"))
            unit = units.get(axis, "N m")
            # A rotor that no motion separates from the bodies is part of their base parameters already.
            if self.rotors and self.separable[axis]:
                own = "kg m2" if angle == "rad" else "kg"
                found.append(Parameter(f"rotor.{axis}", 0.0, own, lower=0.0, scale=0.01 * effort))
            for term in self.terms(axis):
                per = {"viscous": f"{unit} s/{angle}", "cubic": f"{unit} s3/{angle}3", "load": ""}.get(term, unit)
                # Coulomb, viscous and load friction dissipate; corrections of their shape may have either sign.
                least = -np.inf if self.link_side or term in ("stribeck", "cubic") else 0.0
                size = 0.1 if term == "load" else 0.02 * effort
                found.append(Parameter(f"{term}.{axis}", 0.0, per, lower=least, scale=size))
        for joint in self.robot.joints:
            own, size = units[joint.name], 0.02 * sizes[joint.name][0]
            for shape in self.position:
                per = f"{own}/{joint.unit}" if shape == "spring" else own
                found.append(Parameter(f"{shape}.{joint.name}", 0.0, per, scale=size))
            if self.offset:
                found.append(Parameter(f"offset.{joint.name}", 0.0, own, scale=size))
            if self.gain > 0.0:
                found.append(Parameter(f"gain.{joint.name}", 0.0, "", scale=self.gain, prior=(0.0, self.gain)))
        return tuple(found)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All that the columns multiply: base parameters, then the rest."""
        return (*self.base.unknowns(self.base.combine @ self.robot.inertia_parameters.ravel()), *self.others)

    # -- columns --------------------------------------------------------------------------------------------------

    def inertia_columns(self, windows: Windows) -> tuple[Array, Array]:
        """Columns (W, n, r) of the base parameters, and the torque (W, n) of what is known."""
        # Known bodies' torque is one more column of the same product: the regressor is evaluated once.
        fixed = np.zeros(10 * len(self.robot.bodies))
        fixed[list(self.known_places)] = self.robot.inertia_parameters.ravel()[list(self.known_places)]
        basis = np.column_stack([self.base.lift, fixed])
        parts = []
        for start in range(0, windows.times.size, CHUNK):
            few = slice(start, min(start + CHUNK, windows.times.size))
            matrix, rotors = torque_regressor(self.robot, *windows.smooth_motion(few), self.gravity)
            columns = matrix @ basis
            # Rotors of the robot file count as known where they are not estimated.
            if not self.rotors:
                columns[..., -1] += rotors
            # Mean over the instants of each window, chunk by chunk: regressors of all instants would not fit in memory.
            parts.append(columns.reshape(few.stop - few.start, -1, *columns.shape[1:]).mean(axis=1))
        both = np.concatenate(parts)
        return both[..., :-1], both[..., -1]

    def other_columns(self, windows: Windows, widths: Mapping[str, float], load: Array) -> Array:
        """Columns (W, n, k) of :attr:`others`.

        Args:
            widths: rad/s, of each axis, of the friction's change of sign.
            load: (W, n) N m, what the joints carry without friction.
        """
        columns = []
        for parameter in self.others:
            term, _, axis = parameter.name.partition(".")
            columns.append(self.column(windows, term, axis, widths[axis], load))
        shape = (*windows.torque.shape, 0)
        return np.stack(columns, axis=-1) if columns else np.zeros(shape)

    def column(self, windows: Windows, term: str, axis: str, width: float, load: Array) -> Array:
        """One column (W, n)."""
        direction = self.axes[axis]
        if term == "offset":
            return np.broadcast_to(direction, windows.torque.shape)
        # On the left side of the equation: the reading times its gain error.
        if term == "gain":
            return -windows.torque * direction
        if term in POSITION:
            angle = windows.motion.position @ direction
            along = windows.mean(angle if term == "spring" else np.sin(angle) if term == "sine" else np.cos(angle))
        elif term == "rotor":
            along = windows.mean(windows.motion.acceleration @ direction)
        else:
            # Loads are known by window, friction is evaluated at every sample and averaged after: tanh does not commute
            # with it.
            carried = np.repeat(load @ direction, len(windows.motion.rate) // windows.times.size)
            along = windows.mean(friction_term(term, windows.motion.rate @ direction, width, carried))
        return np.asarray(along[:, None] * direction)
