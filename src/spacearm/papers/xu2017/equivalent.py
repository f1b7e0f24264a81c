"""The paper's way: one rigid body (all joints locked), then two bodies (one joint moves), then every body.

With joints locked at a configuration the robot is a smaller robot: :func:`spacearm.model.edit.freeze` makes it. Its
base parameters are linear in those of the whole robot, so what single- and two-body experiments give can be put
together. Eqs. 27 to 52 with corrections: the thruster's arm is r_i (Eqs. 29, 30, 35), v_s-dot stands in Eq. 34,
omega-dot in the first cross product of Eqs. 35 and 36, the two-body mass centre relations use M r_g and bodies 0 and 1
(Eqs. 41, 42, 50).

The costs for the particle swarm (Eqs. 37 and 52) are sums over samples of the length of a force-like and of a
moment-like residual. They are evaluated for a whole swarm by one matrix product: the residuals are linear in features
of the ten numbers (mass, I about the mass centre, mass centre).

The estimators take a problem whose records are one with all joints locked (thruster firings) and, for each joint, one
in which it alone moves, all at one configuration.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag

from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.equations import Equations, EquationWeights, Kind
from spacearm.identify.inertia.inertia_parameters import linear_of, placements, plain_of
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.mechanics.reframe import transport
from spacearm.model import Robot
from spacearm.model.edit import freeze
from spacearm.optimise.estimate import Estimate
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


def lump_inertias(robot: Robot, configuration: npt.ArrayLike, joint: str | None = None) -> Array:
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


def to_table_order(x: Array) -> Array:
    """The paper's order to (mass, mass centre, tensor)."""
    return np.concatenate([x[..., :1], x[..., 7:], x[..., 1:7]], axis=-1)


def from_table_order(p: Array) -> Array:
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
    robot: Robot, record: MotionRecord, configuration: npt.ArrayLike, *, span: float = 0.5, reach: float = 0.3
) -> Problem:
    """Eq. 37: force equation at the sensor and moment equation about the mass centre, all joints locked."""
    linear = Equations(equivalent_robot(robot, configuration), ("dynamics",)).linear(record.keep_joints([]))
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

    guess = from_table_order(plain_of(lump_inertias(robot, configuration) @ robot.inertia_parameters.ravel()))
    return Problem(
        _parameters(guess, span, reach),
        Block(lambda x: residual(x[None])[0], batch=residual),
        cost=lambda xs: _norms(residual(xs), count),
        name="equivalent single body (Eq. 37)",
    )


def two_body_problem(
    robot: Robot,
    record: MotionRecord,
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
    part = record.keep_joints([index])
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
        body = linear_of(to_table_order(xs))
        return np.asarray(np.concatenate([body, np.ones((len(xs), 1))], axis=1) @ flat)

    both = lump_inertias(robot, configuration, joint) @ robot.inertia_parameters.ravel()
    guess = from_table_order(plain_of(both[:10]))
    return Problem(
        _parameters(guess, span, reach),
        Block(lambda x: residual(x[None])[0], batch=residual),
        cost=lambda xs: _norms(residual(xs), count),
        name=f"equivalent two bodies, {joint} (Eq. 52)",
    )


@dataclass(frozen=True, eq=False)
class BodyStage:
    """One step of the recursion: what it determined of the whole robot's base parameters."""

    name: str
    names: tuple[str, ...]  # of the equivalent robot's base parameters
    values: Array
    covariance: Array
    rows: Array  # (k, r): these values from the whole robot's base parameters


def identify_recursively(
    robot: Robot,
    single: MotionRecord,
    joints: dict[str, MotionRecord],
    configuration: npt.ArrayLike,
    *,
    single_kinds: Sequence[Kind] = ("momentum",),
    order: Sequence[str] | None = None,
) -> Estimate:
    """Identify the single body from thruster firings, then unlock one joint after the other, in any order.

    Each two-body step takes the single body as known (with its covariance) and determines seven combinations (four for
    a prismatic joint). All of them together are the whole robot's base parameters. ``extra["stages"]`` of the estimate
    holds the steps.
    """
    begin = time.perf_counter()
    chosen = tuple(order) if order is not None else robot.joint_names
    if sorted(chosen) != sorted(robot.joint_names):
        raise InputError(f"order is {list(chosen)}", place="recursion", hint="expected every joint once")
    if any(single.moving):
        raise InputError("a joint moves", place=single.place, hint="the single body needs all joints locked")
    if not np.any(single.wrench):
        raise InputError("no thruster fires", place=single.place, hint="the single body needs a known force")
    locked = InertiaProblem(equivalent_robot(robot, configuration), (single.keep_joints([]),), single_kinds)
    matrix, known = _whiten_equations(locked)
    body, half = _solve(matrix * locked.base_parameters.sizes, known)
    body, half = body * locked.base_parameters.sizes, half * locked.base_parameters.sizes[:, None]
    base = base_parameters(robot)
    lift = base.lift
    rows = lump_inertias(robot, configuration) @ lift
    stages = [BodyStage("single body", locked.base_parameters.names, body, half @ half.T, rows)]
    by_single, own = [np.eye(10)], [np.zeros((10, 10))]
    for name in chosen:
        stage, gain, added = _two_bodies(robot, joints[name], configuration, name, stages[0])
        stages.append(stage)
        by_single.append(gain)
        own.append(added)
    rows = np.concatenate([stage.rows for stage in stages])
    values = np.linalg.solve(rows, np.concatenate([stage.values for stage in stages]))
    gains, inverse = np.concatenate(by_single), np.linalg.inv(rows)
    spread = gains @ stages[0].covariance @ gains.T + block_diag(*own)
    return Estimate(
        base.unknowns(base.combine @ robot.inertia_parameters.ravel()),
        values,
        inverse @ spread @ inverse.T,
        0.0,
        "recursion over equivalent bodies",
        evaluations=len(stages),
        iterations=len(stages),
        seconds=time.perf_counter() - begin,
        extra={"stages": tuple(stages)},
    )


def _two_bodies(
    robot: Robot, record: MotionRecord, configuration: npt.ArrayLike, joint: str, single: BodyStage
) -> tuple[BodyStage, Array, Array]:
    """What a record in which only this joint moves adds: stage, gain from the single body, covariance of its own."""
    index = robot.joint_index(joint)
    if list(np.flatnonzero(record.moving)) != [index]:
        raise InputError(f"not only {joint!r} moves", place=record.place, hint="the others must be locked")
    pair = InertiaProblem(equivalent_robot(robot, configuration, joint), (record.keep_joints([index]),))
    base, scale = pair.base_parameters, pair.base_parameters.sizes
    at = float(np.asarray(configuration, dtype=np.float64)[index])
    to_single = lump_inertias(pair.robot, [at]) @ base.lift  # (10, r2)
    matrix, known = _whiten_equations(pair)
    # the pair's base parameters = particular @ single body + free @ y, so that the single body is kept
    _, s, v = np.linalg.svd(to_single * scale)
    free = v[s.size :].T * scale[:, None]
    particular = scale[:, None] * np.linalg.pinv(to_single * scale)
    y_known, y_half = _solve(matrix @ free, known)
    y_body = -np.stack([_solve(matrix @ free, column)[0] for column in (matrix @ particular).T], axis=1)
    gain = particular + free @ y_body
    values = gain @ single.values + free @ y_known
    own = (free @ y_half) @ (free @ y_half).T
    covariance = gain @ single.covariance @ gain.T + own
    rows = (base.combine @ lump_inertias(robot, configuration, joint)) @ base_parameters(robot).lift
    new = slice(10, base.rank)
    stage = BodyStage(joint, base.names[new], values[new], covariance[new, new], rows[new])
    return stage, gain[new], own[new, new]


def _whiten_equations(problem: InertiaProblem) -> tuple[Array, Array]:
    """Matrix (rows, r) on base parameters and known side of the one record, momentum eliminated, weighted by noise."""
    (record,) = problem.records
    linear = problem.equations.linear(record)
    slopes = problem.equations.slopes(record, problem.robot.inertia_parameters.ravel())
    weights = EquationWeights(problem.equations, record, slopes, problem.deviations(record))
    matrix = weights.whiten(linear.matrix @ problem.base_parameters.lift)
    known = weights.whiten(linear.known[..., None])[..., 0]
    if problem.unknown_momenta:
        q, _ = np.linalg.qr(weights.whiten(linear.free_momentum()))
        matrix = matrix - q @ (q.T @ matrix)
        known = known - q @ (q.T @ known)
    return matrix, known


def _solve(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Least squares with its half covariance; refined once."""
    norms = np.linalg.norm(matrix, axis=0)
    q, r = np.linalg.qr(matrix / norms)
    # A second solve with the residual takes off the rounding of the first: columns differ by orders of magnitude.
    x = np.linalg.solve(r, q.T @ right)
    x = x + np.linalg.solve(r, q.T @ (right - (matrix / norms) @ x))
    return x / norms, np.linalg.inv(r) / norms[:, None]
