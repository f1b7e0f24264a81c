"""Parameters of a robot that its kernel takes as inputs, and values that override them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from spacearm.checks import numbers
from spacearm.errors import InputError, did_you_mean
from spacearm.model import Friction, Robot, Rotor, Spring
from spacearm.simulate.checks import check_mapping
from spacearm.typing import Array

#: Inputs that a user may replace, for a run or for each sample of a batch; the last two belong to the loop.
PARAMETERS = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling", "static_friction", "coulomb_friction")


def robot_parameters(robot: Robot, overrides: Mapping[str, npt.ArrayLike] | None = None) -> dict[str, Array]:
    """Parameters of a robot that its kernel and the loops take as inputs, with some replaced; see ``PARAMETERS``."""
    # Copies: the cached arrays must not be changed by a caller.
    values = {name: value.copy() for name, value in _own_parameters(robot).items()}
    check_mapping(overrides or {}, "overrides", "parameter to numbers")
    for name, value in (overrides or {}).items():
        if name not in values:
            raise InputError(f"there is no parameter {name!r}", place="overrides", hint=did_you_mean(name, values))
        values[name] = check_parameter(robot, name, value, values[name].size)
    if overrides:
        _check(values)
    return values


@lru_cache(maxsize=64)
def _own_parameters(robot: Robot) -> dict[str, Array]:
    """Computed once, because short roll-outs would spend noticeable time on it."""
    # Zeros where a joint has no such part: the program is the same for all, and an override may give it one.
    springs = [joint.spring for joint in robot.joints]
    frictions = [joint.friction for joint in robot.joints]
    values: dict[str, Array] = {
        "inertia": robot.inertia_parameters.ravel(),
        "rotor": robot.rotor_inertias,
        "stiffness": np.array([0.0 if s is None else s.stiffness for s in springs]),
        "rest": np.array([0.0 if s is None else s.rest for s in springs]),
        # Six zeros for the base: only overrides can damp or rub it.
        "damping": np.array([0.0] * 6 + [joint.damping for joint in robot.joints]),
        "coupling": np.array(
            [[c.stiffness, c.damping, c.ratio, c.rest] for c in robot.couplings], dtype=np.float64
        ).ravel(),
        "static_friction": np.array([0.0] * 6 + [0.0 if f is None else f.static for f in frictions]),
        "coulomb_friction": np.array([0.0] * 6 + [0.0 if f is None else f.coulomb for f in frictions]),
    }
    _check(values)
    return values


def _check(values: Mapping[str, Array]) -> None:
    check_friction(values["static_friction"], values["coulomb_friction"])
    check_mass(values["inertia"])


def with_base(robot: Robot, name: str, values: Array) -> Array:
    """Dampings and frictions (..., n) of the joints alone as those of all degrees of freedom (..., 6 + n); zero for the
    base.
    """
    if not name.endswith(("friction", "damping")) or values.shape[-1:] != (robot.n,):
        return values
    return np.concatenate([np.zeros((*values.shape[:-1], 6)), values], axis=-1)


def check_parameter(robot: Robot, name: str, value: npt.ArrayLike, size: int) -> Array:
    """A parameter as its ``size`` numbers, or an error that states the expected size."""
    array = with_base(robot, name, numbers(value, f"overrides, {name!r}").ravel())
    if array.size != size:
        raise InputError(f"{name!r} has {array.size} numbers", place="overrides", hint=f"expected {size}")
    return array


def check_friction(static: Array, coulomb: Array) -> None:
    """Check that static >= coulomb >= 0: in one set (dofs,) or in each row (B, dofs)."""
    bad = ~((static >= coulomb) & (coulomb >= 0.0))  # a NaN is bad
    if np.any(bad):
        where = f", sample {np.flatnonzero(bad.any(axis=-1))[0]}" if bad.ndim == 2 else ""
        raise InputError(
            "static friction is below Coulomb friction, or one is negative or not a number",
            place=f"overrides{where}",
            hint="expected static >= coulomb >= 0",
        )


def check_mass(inertia: Array) -> None:
    """Check that the total mass is positive, in one set of parameters (10 bodies,) or in each row (B, 10 bodies)."""
    mass = inertia.reshape(*inertia.shape[:-1], -1, 10)[..., 0].sum(axis=-1)
    bad = np.flatnonzero(mass <= 0.0)  # a NaN is left to the run, which reports it
    if bad.size:
        where = f", sample {bad[0]}" if mass.ndim else ""
        raise InputError(
            f"the masses add up to {np.ravel(mass)[bad[0]]:g} kg",
            place=f"overrides{where}",
            hint="expected more than zero",
        )


def with_parameters(robot: Robot, parameters: Mapping[str, Array]) -> Robot:
    """The robot with these parameters as its own; damping of the base's degrees of freedom, which no robot has, is
    dropped.
    """
    n, values = robot.n, dict(parameters)
    if "inertia" in values:
        robot = robot.with_inertia_parameters(values["inertia"].reshape(-1, 10))
    rotors = iter(values.get("rotor", ()))
    coupling = values.get("coupling", np.zeros(0)).reshape(-1, 4)
    joints = []
    for i, joint in enumerate(robot.joints):
        spring, friction = joint.spring or Spring(0.0), joint.friction or Friction(0.0, 0.0)
        stiffness = values["stiffness"][i] if "stiffness" in values else spring.stiffness
        rest = values["rest"][i] if "rest" in values else spring.rest
        static, coulomb = (
            values[name][values[name].size - n + i] if name in values else own
            for name, own in (("static_friction", friction.static), ("coulomb_friction", friction.coulomb))
        )
        rotor = joint.rotor
        if rotor is not None and "rotor" in values:
            rotor = Rotor(float(next(rotors)), rotor.ratio)
        joints.append(
            replace(
                joint,
                spring=Spring(float(stiffness), float(rest)) if stiffness else None,
                friction=Friction(float(static), float(coulomb)) if static > 0.0 else None,
                damping=float(values["damping"][values["damping"].size - n + i])
                if "damping" in values
                else joint.damping,
                rotor=rotor,
            )
        )
    couplings = [
        replace(part, stiffness=row[0], damping=row[1], ratio=row[2], rest=row[3])
        for part, row in zip(robot.couplings, coupling.tolist(), strict=False)
    ]
    return robot.replace(joints=tuple(joints), couplings=tuple(couplings) if couplings else robot.couplings)
