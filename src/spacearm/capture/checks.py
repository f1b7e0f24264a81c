"""What is looked at before a soft motion is run: whether it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spacearm.capture.impulse import mechanics_of
from spacearm.capture.modes import modes
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import Array

#: Least eigenvalue of the mass matrix, scaled to a unit diagonal, of a robot that can be run.
SINGULAR = 1e-12
MAX_STEPS = 1_000_000
#: Largest product of step and decay rate at which DOP853 is stable.
STABLE = 6.0


def check_inertia(robot: Robot, joints: Array, held: Sequence[str]) -> None:
    """Every free axis must have something to move: a body of no inertia between two compliant axes has none."""
    free = [i for i, name in enumerate(robot.dof_names) if name not in held]
    mass = mechanics_of(robot).mass_matrix(joints)[np.ix_(free, free)]
    size = np.sqrt(np.diag(mass))
    values, vectors = np.linalg.eigh(mass / np.outer(size, size))
    if values[0] < SINGULAR:
        names = [robot.dof_names[free[i]] for i in np.argsort(-np.abs(vectors[:, 0]))[:2]]
        raise InputError(
            f"{names[0]!r} and {names[1]!r} can move against each other without moving any mass",
            place=f"robot {robot.name!r}",
            hint="give the body between them inertia about their axis, or lock or leave out one of them",
        )


def check_stiffness(
    robot: Robot,
    joints: Array,
    held: Sequence[str],
    overrides: Mapping[str, Array],
    switched: Mapping[str, float],
    duration: float,
) -> None:
    """An explicit integrator follows the fastest decay with short steps: say so before, not after hours.

    ``switched`` are the dampings of axes whose dampers are switched on.
    """
    dampers, springs = (
        dict(zip(robot.joint_names, overrides.get(name, ()), strict=False)) for name in ("damping", "stiffness")
    )
    found = modes(robot, joints, held=held, stiffness=springs, damping={**dampers, **switched})
    if not found.frequency.size:
        return
    fastest = int(np.argmax(np.maximum(found.decay, found.frequency)))
    decay, frequency = float(found.decay[fastest]), float(found.frequency[fastest])
    steps = max(decay, frequency) * duration / STABLE
    if steps > MAX_STEPS:
        axis = found.joints[int(np.argmax(np.abs(found.shape[fastest])))]
        raise InputError(
            f"{axis!r} decays at {decay:.3g} per second and swings at {frequency:.3g} rad/s, which takes about "
            f"{steps:.1g} steps in {duration:g} s",
            place=f"robot {robot.name!r}",
            hint="less damping there, more inertia, a shorter run, or lock or leave out this axis",
        )
