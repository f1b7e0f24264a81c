"""The momentum law of plastic impacts: velocities after bodies have joined or joints have locked.

All that acts during the impact is inside the system or holds a locked joint, so the generalised momentum of every
degree of freedom that stays free is kept. Springs and dampers are finite forces and have no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spacearm.capture.momentum_budget import momentum_budget
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model import Inertia, Robot
from spacearm.simulate import State
from spacearm.typing import Array

#: Least eigenvalue of the mass matrix, scaled to a unit diagonal, of a robot that can be run.
SINGULAR = 1e-12


@dataclass(frozen=True, eq=False)
class Impact:
    """What a plastic impact did.

    Args:
        time: s, when it happened.
        what: in words.
        state: right after it.
        lost: kinetic energy that is gone, J.
        impulse: on the degrees of freedom that are held (6 + n; zero for free ones), N s or N m s.
        momentum_residual: change of the momentum of all that took part, relative to its parts.
        energy_residual: what is ``lost`` but for the work of the impulses, relative to the energy before.
    """

    time: float
    what: str
    state: State
    lost: float
    impulse: Array
    momentum_residual: float
    energy_residual: float


@lru_cache(maxsize=16)
def mechanics_of(robot: Robot) -> Mechanics:
    """Compiled functions of a robot, kept: tracing them again would cost more than the call."""
    return Mechanics(robot)


def check_inertia(robot: Robot, joints: Array, held: Sequence[str]) -> None:
    """Every free axis must have something to move: a body of no inertia between two compliant axes has none."""
    free = [i for i, name in enumerate(robot.dof_names) if name not in held]
    mass = mechanics_of(robot).mass_matrix(joints)[np.ix_(free, free)]
    size = np.sqrt(np.diag(mass))
    if not size.all():
        raise InputError(
            f"{robot.dof_names[free[int(np.argmin(size))]]!r} moves no mass",
            place=f"robot {robot.name!r}",
            hint="give what it carries inertia about its axis, or lock or leave it out",
        )
    values, vectors = np.linalg.eigh(mass / np.outer(size, size))
    if values[0] < SINGULAR:
        names = [robot.dof_names[free[i]] for i in np.argsort(-np.abs(vectors[:, 0]))[:2]]
        raise InputError(
            f"{names[0]!r} and {names[1]!r} can move against each other without moving any mass",
            place=f"robot {robot.name!r}",
            hint="give the body between them inertia about their axis, or lock or leave out one of them",
        )


def locked_velocity(robot: Robot, state: State, momentum: Array, held: Sequence[str]) -> tuple[Array, Array]:
    """(velocity, impulse), both 6 + n: the velocity with this generalised momentum while ``held`` do not move."""
    mass = mechanics_of(robot).mass_matrix(state.joints)
    stuck = np.zeros(robot.dofs, dtype=bool)
    for name in held:
        stuck[robot.dof_index(name)] = True
    free = ~stuck
    velocity = np.zeros(robot.dofs)
    velocity[free] = np.linalg.solve(mass[np.ix_(free, free)], momentum[free])
    impulse = np.where(stuck, mass @ velocity - momentum, 0.0)
    return velocity, impulse


def close_clutch(robot: Robot, state: State, held: Sequence[str], time: float = 0.0) -> Impact:
    """Stop these joints at once, wherever they are; their motion goes to what stays free, and to heat."""
    mass = mechanics_of(robot).mass_matrix(state.joints)
    velocity, impulse = locked_velocity(robot, state, mass @ state.velocity, held)
    before, after = 0.5 * state.velocity @ mass @ state.velocity, 0.5 * velocity @ mass @ velocity
    new = State(state.position, state.quaternion, state.joints, velocity)
    lost, taken = float(before - after), -0.5 * float(impulse @ (state.velocity + velocity))
    sides = momentum_budget(robot, np.stack([state.vector, new.vector]))
    return Impact(
        time,
        f"clutch closed on {', '.join(held)}",
        new,
        lost,
        impulse,
        max(
            relative(total[1] - total[0], sum(float(np.linalg.norm(part, axis=1).max()) for part in parts.values()))
            for parts, total in zip((sides.linear, sides.angular), sides.total, strict=True)
        ),
        relative(lost - taken, float(before)),
    )


def relative(change: Array | float, size: float) -> float:
    """Length of ``change`` by ``size``; where there is no size, the length itself."""
    return float(np.linalg.norm(change)) / (size or 1.0)


def body_momentum(inertia: Inertia, rotation: Array, velocity: Array, angular_velocity: Array) -> Array:
    """Momentum (6) of a body at its frame's origin, world axes; ``rotation`` body to world, velocities world axes."""
    first = inertia.mass * rotation @ inertia.com
    tensor = rotation @ inertia.about_origin @ rotation.T
    return np.concatenate(
        [
            inertia.mass * velocity + np.cross(angular_velocity, first),
            tensor @ angular_velocity + np.cross(first, velocity),
        ]
    )


def check_joints(robot: Robot, names: Sequence[str], what: str) -> None:
    """All names are joints, or an error says which is not."""
    for name in names:
        if name not in robot.joint_names:
            from spacearm.errors import did_you_mean

            raise InputError(f"there is no joint {name!r}", place=what, hint=did_you_mean(name, robot.joint_names))
