"""Equivalent bodies, and the paper's costs of them (Eqs. 37 and 52, corrected) as problems for the particle swarm.

Both are sums over samples of the length of a force-like and of a moment-like residual. They are evaluated for a whole
swarm by one matrix product: the residuals are linear in features of the ten numbers (mass, I about the mass centre,
mass centre).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.identify.inertia.equations import Equations
from spacearm.identify.inertia.inertia_parameters import linear_of, placements, plain_of, transport
from spacearm.identify.inertia.readings import Record
from spacearm.model import Robot
from spacearm.model.edit import freeze
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array

#: Order of the unknowns in Eqs. 61 and 62: mass, tensor, mass centre.
ORDER = ("mass", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz", "cx", "cy", "cz")
_UNITS = ("kg", *["kg m2"] * 6, *["m"] * 3)


def equivalent_robot(robot: Robot, configuration: npt.ArrayLike, *moving: str) -> Robot:
    """The robot with its joints locked at a configuration, but for those that move: one body, or two, or more."""
    q = np.asarray(configuration, dtype=np.float64)
    held = {name: float(q[i]) for i, name in enumerate(robot.joint_names) if name not in moving}
    return freeze(robot, held) if held else robot


def lumped(robot: Robot, configuration: npt.ArrayLike, joint: str | None = None) -> Array:
    """Matrix (10 or 20, 10(n + 1)): inertias of all bodies to those of the equivalent robot.

    One body, in the base frame, with all joints locked; where ``joint`` moves, a second one in its child's frame.
    """
    poses = placements(robot, configuration)
    full = np.zeros((10 if joint is None else 20, 10 * len(poses)))
    child = 0 if joint is None else robot.joint_index(joint) + 1
    moved = {robot.body_index(name) for name in robot.subtree(robot.body_names[child])} if child else set()
    for b, pose in enumerate(poses):
        block = slice(10 * b, 10 * b + 10)
        if b in moved:
            full[10:, block] = transport(poses[child].inverse() @ pose)
        else:
            full[:10, block] = transport(pose)
    return full


def to_plain(x: Array) -> Array:
    """The paper's order to (mass, mass centre, tensor)."""
    return np.concatenate([x[..., :1], x[..., 7:], x[..., 1:7]], axis=-1)


def from_plain(p: Array) -> Array:
    """(mass, mass centre, tensor) to the paper's order."""
    return np.concatenate([p[..., :1], p[..., 4:], p[..., 1:4]], axis=-1)


def _parameters(guess: Array, span: float, reach: float) -> list[Parameter]:
    """Bounds: mass and moments within ``span`` of the guess, products within ``span`` of the moments' mean, mass centre
    within ``reach`` (m)."""
    mean = float(np.mean(guess[1:4]))
    found = []
    for k, (name, unit) in enumerate(zip(ORDER, _UNITS, strict=True)):
        value = float(guess[k])
        if k < 4:
            low, high = (1 - span) * value, (1 + span) * value
        elif k < 7:
            low, high = value - span * mean, value + span * mean
        else:
            low, high = value - reach, value + reach
        found.append(Parameter(name, value, unit, low, high))
    return found


def _norms(residual: Array, count: int) -> Array:
    """(B, T 6) to sums over samples of |first three| + |last three|, per sample."""
    parts = residual.reshape(residual.shape[0], count, 2, 3)
    return np.asarray(np.sqrt(np.einsum("btki,btki->btk", parts, parts)).sum(axis=(1, 2)) / count)


def single_body_problem(
    robot: Robot, record: Record, configuration: npt.ArrayLike, *, span: float = 0.5, reach: float = 0.3
) -> Problem:
    """Eq. 37: force equation at the sensor and moment equation about the mass centre, all joints locked."""
    linear = Equations(equivalent_robot(robot, configuration), ("dynamics",)).linear(record.for_joints([]))
    count = record.times.size
    matrix, known = linear.matrix.reshape(count, 6, 10), linear.known.reshape(count, 6)
    # moment about the mass centre = moment about the origin - c x force; the tensor's columns are the same in both
    features = np.zeros((count, 6, 14))  # m, m c, I_com, c, 1
    features[:, :3, :4] = matrix[:, :3, :4]
    features[:, :3, 13] = -known[:, :3]
    features[:, 3:, 4:10] = matrix[:, 3:, 4:]
    force = known[:, :3]
    for k in range(3):  # -tau + c x f
        features[:, 3:, 10 + k] = np.cross(np.eye(3)[k], force)
    features[:, 3:, 13] = -known[:, 3:]
    flat = features.reshape(count * 6, 14).T.copy()

    def residual(xs: Array) -> Array:
        mass, tensor, centre = xs[:, :1], xs[:, 1:7], xs[:, 7:]
        phi = np.concatenate([mass, mass * centre, tensor, centre, np.ones_like(mass)], axis=1)
        return phi @ flat

    guess = from_plain(plain_of(lumped(robot, configuration) @ robot.inertia_parameters.ravel()))
    return Problem(
        _parameters(guess, span, reach),
        Block(lambda x: residual(x[None])[0], batch=residual),
        cost=lambda xs: _norms(residual(xs), count),
        name="equivalent single body (Eq. 37)",
    )


def two_body_problem(
    robot: Robot,
    record: Record,
    configuration: npt.ArrayLike,
    joint: str,
    single: Array,
    *,
    span: float = 0.5,
    reach: float = 0.3,
) -> Problem:
    """Eq. 52: linear and angular momentum of the two bodies, the second from the first and the single body.

    Args:
        single: linear parameters (10,) of the equivalent single body, in the base frame.
    """
    index = robot.joint_index(joint)
    pair = equivalent_robot(robot, configuration, joint)
    part = record.for_joints([index])
    linear = Equations(pair, ("momentum",)).linear(part)
    count = record.times.size
    q = np.asarray(configuration, dtype=np.float64)
    child = placements(pair, [q[index]])[1]
    to_child = transport(child.inverse())
    first, second = linear.matrix[..., :10], linear.matrix[..., 10:] @ to_child
    change = (first - second).reshape(count * 6, 10)  # what moving inertia from the second body to the first does
    fixed = (second @ single - linear.known).reshape(count * 6)
    flat = np.concatenate([change, fixed[:, None]], axis=1).T.copy()

    def residual(xs: Array) -> Array:
        body = linear_of(to_plain(xs))
        return np.asarray(np.concatenate([body, np.ones((len(xs), 1))], axis=1) @ flat)

    both = lumped(robot, configuration, joint) @ robot.inertia_parameters.ravel()
    guess = from_plain(plain_of(both[:10]))
    return Problem(
        _parameters(guess, span, reach),
        Block(lambda x: residual(x[None])[0], batch=residual),
        cost=lambda xs: _norms(residual(xs), count),
        name=f"equivalent two bodies, {joint} (Eq. 52)",
    )
