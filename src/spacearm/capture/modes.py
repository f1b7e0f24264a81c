"""Small free vibrations of a free-floating robot about a configuration: frequencies, damping, shapes.

The symmetric eigenproblem K x = omega^2 H* x with the joint springs K and their effective inertia H* on a free base,
reduced by the Cholesky factor of H* to an ordinary one. Frequencies in rad/s; shapes over the free joints, rad and m
mixed. Velocity-dependent terms are neglected (linearised at rest), and so is the coupling of modes by damping: modal
damping is the diagonal of X^T D X. The same numbers give the number of steps of an explicit method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.typing import Array

#: Smallest eigenvalue of the mass matrix, scaled to a unit diagonal, of a robot that can be simulated.
SINGULAR = 1e-12
MAX_STEPS = 1_000_000
#: Steps under load: the certificate checks each of them, at about 50 kB.
MAX_LOADED_STEPS = 50_000
#: Largest product of step and decay rate at which DOP853 is stable.
STABLE = 6.0
#: Product of step and frequency at which it resolves an oscillation as accurately as these runs do.
CLOSE = 0.35


@dataclass(frozen=True, eq=False)
class Modes:
    """Undamped modes, slowest first.

    Args:
        frequency: rad/s (m,).
        shape: of the free joints (m, f), largest entry 1.
        damping: modal damping ratio (m,), exact where damping is proportional to stiffness; infinite or NaN without a
            spring.
        decay: fastest decay of each mode, 1/s (m,).
        joints: names of the free joints.
    """

    frequency: Array
    shape: Array
    damping: Array
    decay: Array
    joints: tuple[str, ...]

    def select_frequencies(self, axis: str, share: float = 0.99) -> Array:
        """Frequencies of modes that move only joints whose name ends in ``axis``, to this share of their shape."""
        mine = np.array([name.endswith(axis) for name in self.joints])
        weight = self.shape**2
        chosen: Array = self.frequency[weight[:, mine].sum(axis=1) >= share * weight.sum(axis=1)]
        return chosen


def modes(
    robot: Robot,
    joints: npt.ArrayLike | None = None,
    *,
    held: Sequence[str] = (),
    stiffness: Mapping[str, float] | None = None,
    damping: Mapping[str, float] | None = None,
) -> Modes:
    """Modes about joint positions (default zero) with the base free and ``held`` joints locked.

    The inertia is H* = H_m - H_bm^T H_b^-1 H_bm, the effective inertia of the joints on a free base.

    Raises:
        InputError: a free joint moves no mass of its own.
    """
    q = np.zeros(robot.n) if joints is None else np.asarray(joints, dtype=np.float64)
    # Before the factorisation, which would fail without saying which axis it is.
    check_inertia(robot, q, held)
    base, coupling, arm = mechanics_of(robot).mass_blocks(q)
    floating = arm - coupling.T @ np.linalg.solve(base, coupling)
    free = [i for i, name in enumerate(robot.joint_names) if name not in held]
    springs = np.array([joint.spring.stiffness if joint.spring else 0.0 for joint in robot.joints])
    dampers = np.array([joint.damping for joint in robot.joints])
    for target, given in ((springs, stiffness), (dampers, damping)):
        for name, value in (given or {}).items():
            target[robot.joint_index(name)] = value
    # H* = L L^T; with y = L^T x the problem is L^-1 K L^-T y = omega^2 y, symmetric, so eigh applies and frequencies
    # are real.
    lower = np.linalg.cholesky(floating[np.ix_(free, free)])
    inverse = np.linalg.inv(lower)
    squares, vectors = np.linalg.eigh(inverse @ np.diag(springs[free]) @ inverse.T)
    # A free joint without a spring has omega = 0 but for rounding, which may be below zero.
    frequency = np.sqrt(squares.clip(0.0))
    shape = (inverse.T @ vectors).T
    half = 0.5 * np.einsum("mi,i,mi->m", shape, dampers[free], shape)
    # Roots of s^2 + 2 half s + omega^2: overdamped modes have two real ones, and the faster decides the step.
    decay = half + np.sqrt(np.clip(half**2 - frequency**2, 0.0, None))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = half / frequency
    size = np.abs(shape).max(axis=1, keepdims=True, initial=0.0)
    return Modes(frequency, shape / size, ratio, decay, tuple(robot.joint_names[i] for i in free))


def check_inertia(robot: Robot, joints: Array, held: Sequence[str]) -> None:
    """Raise an error if a free axis moves no inertia, as with a massless body between two compliant axes."""
    free = [i for i, name in enumerate(robot.dof_names) if name not in held]
    mass = mechanics_of(robot).mass_matrix(joints)[np.ix_(free, free)]
    size = np.sqrt(np.diag(mass))
    if not size.all():
        raise InputError(
            f"{robot.dof_names[free[int(np.argmin(size))]]!r} moves no mass",
            place=f"robot {robot.name!r}",
            hint="give the body it carries inertia about its axis, or lock or remove the axis",
        )
    # Unit diagonal first: rad and m would otherwise make any threshold a matter of units. The eigenvector of the least
    # eigenvalue names the two axes that move against each other.
    values, vectors = np.linalg.eigh(mass / np.outer(size, size))
    if values[0] < SINGULAR:
        names = [robot.dof_names[free[i]] for i in np.argsort(-np.abs(vectors[:, 0]))[:2]]
        raise InputError(
            f"{names[0]!r} and {names[1]!r} can move against each other without moving any mass",
            place=f"robot {robot.name!r}",
            hint="give the body between them inertia about their axis, or lock or remove one of them",
        )


def check_stiffness(
    robot: Robot,
    joints: Array,
    held: Sequence[str],
    overrides: Mapping[str, Array],
    switched: Mapping[str, float],
    duration: float,
    loaded: float = 0.0,
) -> None:
    """Warn in advance if an explicit integrator would need very many short steps to follow the fastest decay.

    ``switched`` are the dampings of axes whose dampers are switched on; ``loaded`` is the duration of loads, s. An axis
    that moves no mass is an error, too.
    """
    dampers, springs = (
        dict(zip(robot.joint_names, overrides[name][-robot.n :], strict=True)) if name in overrides else {}
        for name in ("damping", "stiffness")
    )
    found = modes(robot, joints, held=held, stiffness=springs, damping={**dampers, **switched})
    if not found.frequency.size:
        return
    fastest = int(np.argmax(np.maximum(found.decay, found.frequency)))
    decay, frequency = float(found.decay[fastest]), float(found.frequency[fastest])
    # Lower bounds: without load stability alone limits the step; under load the fast mode is excited and must be
    # followed.
    least, loaded_steps = max(decay, frequency) * duration / STABLE, max(decay / STABLE, frequency / CLOSE) * loaded
    for steps, length, most, what in (
        (least, duration, MAX_STEPS, "in"),
        (loaded_steps, loaded, MAX_LOADED_STEPS, "under loads of"),
    ):
        if steps > most:
            axis = found.joints[int(np.argmax(np.abs(found.shape[fastest])))]
            raise InputError(
                f"{axis!r} decays at {decay:.3g} per second and oscillates at {frequency:.3g} rad/s, which "
                f"takes about "
                f"{steps:.1g} steps {what} {length:g} s",
                place=f"robot {robot.name!r}",
                hint="less stiffness or damping there, more inertia, a shorter time, or lock or remove this axis",
            )
