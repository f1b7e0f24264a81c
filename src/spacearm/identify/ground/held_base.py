"""Base parameters of an arm whose base is held in a gravity field, and those that only free flight shows.

Joint torques show a part of what a free-floating robot shows: the base's own inertia never enters, and what the first
joints carry enters by fewer numbers, depending on their axes and on gravity. The structure is found numerically, from
the torque regressor at random states (fixed seed, several times as many rows as columns), which show everything that
any motion can show (:func:`spacearm.identify.inertia.base_parameters.keep_shown`).

It starts from the free-floating base parameters (:mod:`spacearm.identify.inertia.base_parameters`), so that names and
formulas are theirs; a combination of several of them is marked by ``**``. Gravity (m/s2, base axes) enters as an
acceleration of the base.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.identify.inertia.base_parameters import BaseParameter, BaseParameters, base_parameters, keep_shown
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.model import Robot
from spacearm.typing import Array


def torque_regressor(
    robot: Robot, joints: Array, rates: Array, accelerations: Array, gravity: Array
) -> tuple[Array, Array]:
    """Matrix (T, n, 10(n + 1)) by which the bodies' inertias give the joint torques (N m or N) of an arm with a held
    base, and the torques (T, n) of the robot's own rotors.

    Gravity (3,), m/s2, base axes, acts as an upward acceleration of the base.
    """
    still = np.zeros((*joints.shape[:-1], 6))
    lifted = still.copy()
    # Equivalence principle: a base at rest under gravity g is one that accelerates by -g without gravity.
    lifted[..., :3] = -gravity
    matrix, rotors = mechanics_of(robot).dynamics_regressor(
        joints, np.concatenate([still, rates], axis=-1), np.concatenate([lifted, accelerations], axis=-1)
    )
    return matrix[..., 6:, :], rotors[..., 6:]


def _sample_regressor(robot: Robot, gravity: Array) -> tuple[Array, Array]:
    """Regressor (T, n, 10(n + 1)) and accelerations (T, n) at random states, always the same ones."""
    random = np.random.default_rng(0)
    shape = (8 * (robot.n + 1), robot.n)
    joints, rates, accelerations = random.uniform(-np.pi, np.pi, shape), *random.normal(scale=3.0, size=(2, *shape))
    return torque_regressor(robot, joints, rates, accelerations, gravity)[0], accelerations


def held_base_parameters(
    robot: Robot, gravity: Array | tuple[float, float, float] = (0.0, 0.0, -9.81), known: tuple[int, ...] = ()
) -> BaseParameters:
    """Combinations of inertias that joint torques show while the base is held.

    Args:
        gravity: m/s2, base axes.
        known: places of numbers that are known exactly, among the 10(n + 1).
    """
    return _derive(robot, tuple(float(g) for g in gravity), known)


@lru_cache(maxsize=16)
def _derive(robot: Robot, gravity: tuple[float, ...], known: tuple[int, ...]) -> BaseParameters:
    return keep_shown(base_parameters(robot, known), _sample_regressor(robot, np.array(gravity))[0])


def separable_rotors(base: BaseParameters, gravity: Array, directions: Array) -> tuple[bool, ...]:
    """Which rotor inertias joint torques tell apart from the bodies' inertias and from each other.

    ``directions`` (k, n): of each rotor, how fast it rotates by each joint.
    """
    matrix, accelerations = _sample_regressor(base.robot, gravity)
    columns = (matrix @ base.lift).reshape(accelerations.size, base.rank)
    found = []
    for direction in directions:
        column = ((accelerations @ direction)[:, None] * direction).ravel()
        rest = column - columns @ np.linalg.lstsq(columns, column, rcond=None)[0] if columns.size else column
        found.append(bool(np.linalg.norm(rest) > 1e-6 * np.linalg.norm(column)))
        # The next rotor must be separable from this one as well.
        if found[-1]:
            columns = np.column_stack([columns, column])
    return tuple(found)


def flight_only_parameters(
    robot: Robot, gravity: Array | tuple[float, float, float] = (0.0, 0.0, -9.81)
) -> tuple[BaseParameter, ...]:
    """Base parameters of the free-floating robot that no motion on a held base shows.

    The reverse does not happen: gravity is one of the accelerations that a free base can have, so free flight with
    measured torques shows all that the ground shows.
    """
    whole, held = base_parameters(robot), held_base_parameters(robot, gravity)
    sizes = typical_sizes(robot)
    basis, _ = np.linalg.qr((held.combine * sizes).T)
    rows = whole.combine * sizes
    rest = np.linalg.norm(rows - (rows @ basis) @ basis.T, axis=1)
    return tuple(
        p for p, left, row in zip(whole.parameters, rest, rows, strict=True) if left > 1e-6 * np.linalg.norm(row)
    )
