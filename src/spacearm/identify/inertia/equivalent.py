"""The paper's way: one rigid body (all joints locked), then two bodies (one joint moves), then every body.

With joints locked at a configuration the robot is a smaller robot: :func:`spacearm.model.edit.freeze` makes it. Its
base parameters are linear in those of the whole robot, so what single- and two-body experiments give can be put
together. Eqs. 27 to 52 with corrections: the thruster's arm is r_i (Eqs. 29, 30, 35), v_s-dot stands in Eq. 34,
omega-dot in the first cross product of Eqs. 35 and 36, the two-body mass centre relations use M r_g and bodies 0 and 1
(Eqs. 41, 42, 50).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.equations import Kind
from spacearm.identify.inertia.parameters import placements, transport
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.task import Task
from spacearm.identify.inertia.weights import Weights
from spacearm.model import Robot
from spacearm.model.edit import freeze
from spacearm.optimise.problem import Estimate, Reason
from spacearm.typing import Array


def lump_single(robot: Robot, configuration: npt.ArrayLike) -> Array:
    """Matrix (10, 10(n + 1)): inertias of all bodies to that of the whole, locked at a configuration, base frame."""
    return np.concatenate([transport(pose) for pose in placements(robot, configuration)], axis=1)


def beyond(robot: Robot, joint: str) -> list[int]:
    """Indices of the bodies that this joint moves."""
    names = robot.subtree(robot.joint(joint).child)
    return [robot.body_index(name) for name in names]


def lump_two(robot: Robot, configuration: npt.ArrayLike, joint: str) -> Array:
    """Matrix (20, 10(n + 1)): to the two bodies that are left when only this joint moves.

    The first is given in the base frame, the second in the frame of the joint's child.
    """
    poses = placements(robot, configuration)
    child = robot.joint_index(joint) + 1
    moved = beyond(robot, joint)
    full = np.zeros((20, 10 * len(poses)))
    for b, pose in enumerate(poses):
        block = slice(10 * b, 10 * b + 10)
        if b in moved:
            full[10:, block] = transport(poses[child].inverse() @ pose)
        else:
            full[:10, block] = transport(pose)
    return full


def single_robot(robot: Robot, configuration: npt.ArrayLike) -> Robot:
    """The robot with all joints locked: one body."""
    q = np.asarray(configuration, dtype=np.float64)
    if not robot.n:
        return robot
    return freeze(robot, {name: float(q[i]) for i, name in enumerate(robot.joint_names)})


def two_robot(robot: Robot, configuration: npt.ArrayLike, joint: str) -> Robot:
    """The robot with all joints but one locked: two bodies."""
    q = np.asarray(configuration, dtype=np.float64)
    held = {name: float(q[i]) for i, name in enumerate(robot.joint_names) if name != joint}
    return freeze(robot, held) if held else robot


def single_task(robot: Robot, record: Record, configuration: npt.ArrayLike, kinds: Sequence[Kind]) -> Task:
    """Identification of the equivalent single body from a record with all joints locked."""
    if any(record.moving):
        raise InputError("a joint moves", place=record.place, hint="the single body needs all joints locked")
    if not np.any(record.wrench):
        raise InputError("no thruster fires", place=record.place, hint="the single body needs a known force")
    return Task(single_robot(robot, configuration), (record.for_joints([]),), kinds)


def two_task(robot: Robot, record: Record, configuration: npt.ArrayLike, joint: str) -> Task:
    """Identification of the equivalent two bodies from a record in which only this joint moves."""
    index = robot.joint_index(joint)
    if list(np.flatnonzero(record.moving)) != [index]:
        raise InputError(f"not only {joint!r} moves", place=record.place, hint="the others must be locked")
    return Task(two_robot(robot, configuration, joint), (record.for_joints([index]),), ("momentum",))


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of the recursion: what it determined of the whole robot's base parameters."""

    name: str
    names: tuple[str, ...]  # of the small robot's base parameters
    values: Array
    covariance: Array
    rows: Array  # (k, r): these values from the whole robot's base parameters


@dataclass(frozen=True, eq=False)
class Recursion:
    """Single body, then one joint after the other, then all bodies."""

    stages: tuple[Stage, ...]
    values: Array  # (r,) base parameters of the whole robot
    covariance: Array
    seconds: float
    base_parameters: BaseParameters
    order: tuple[str, ...] = field(default=())

    def estimate(self) -> Estimate:
        """As an estimate behind the common interface."""
        return Estimate(
            self.base_parameters.names,
            self.base_parameters.units,
            self.values,
            self.covariance,
            0.0,
            len(self.stages),
            len(self.stages),
            Reason.CONVERGED,
            np.zeros(0),
            self.seconds,
            "recursion over equivalent bodies",
        )


def _weighted(task: Task) -> tuple[Array, Array]:
    """Matrix (rows, r) on base parameters and known side of a task's record, momentum eliminated, weighted by noise."""
    (record,) = task.records
    linear = task.equations.linear(record)
    slopes = task.equations.slopes(record, task.robot.inertia_parameters.ravel())
    weights = Weights(task.equations, record, slopes, task.deviations(record))
    matrix = weights.whiten(linear.matrix @ task.base_parameters.lift)
    known = weights.whiten(linear.known[..., None])[..., 0]
    if task.unknown_momenta:
        free = np.zeros((*linear.known.shape, 6))
        free[..., linear.momentum_rows, :] = np.eye(6)
        q, _ = np.linalg.qr(weights.whiten(free))
        matrix = matrix - q @ (q.T @ matrix)
        known = known - q @ (q.T @ known)
    return matrix, known


def recursion(
    robot: Robot,
    single: Record,
    joints: dict[str, Record],
    configuration: npt.ArrayLike,
    *,
    single_kinds: Sequence[Kind] = ("momentum",),
    order: Sequence[str] | None = None,
) -> Recursion:
    """Identify the single body from thruster firings, then unlock one joint after the other, in any order.

    Each two-body step takes the single body as known (with its covariance) and determines seven combinations (four for
    a prismatic joint). All of them together are the whole robot's base parameters.
    """
    begin = time.perf_counter()
    whole = base_parameters(robot)
    chosen = tuple(order) if order is not None else robot.joint_names
    if sorted(chosen) != sorted(robot.joint_names):
        raise InputError(f"order is {list(chosen)}", place="recursion", hint="expected every joint once")
    task = single_task(robot, single, configuration, single_kinds)
    lump = lump_single(robot, configuration)
    matrix, known = _weighted(task)
    sizes = task.sizes
    body, half = _solve(matrix * sizes, known)
    body, cov_body = body * sizes, (half @ half.T) * np.outer(sizes, sizes)
    rows_single = lump @ whole.lift
    stages = [Stage("single body", task.base_parameters.names, body, cov_body, rows_single)]
    blocks, carried = [np.eye(10)], [np.zeros((10, 10))]
    for name in chosen:
        pair = two_task(robot, joints[name], configuration, name)
        small = pair.base_parameters
        at = float(np.asarray(configuration, dtype=np.float64)[robot.joint_index(name)])
        to_single = lump_single(pair.robot, [at]) @ small.lift  # (10, r2)
        matrix, known = _weighted(pair)
        scale = pair.sizes
        # small base parameters = particular @ body + free @ y, so that the single body is kept
        _, s, v = np.linalg.svd(to_single * scale)
        free = v[s.size :].T * scale[:, None]
        particular = scale[:, None] * np.linalg.pinv(to_single * scale)
        y_known, y_half = _solve(matrix @ free, known)
        y_body = -_solve_matrix(matrix @ free, matrix @ particular)
        gain = particular + free @ y_body
        values = gain @ body + free @ y_known
        keep = slice(10, small.rank)
        own = (free @ y_half) @ (free @ y_half).T
        covariance = gain @ cov_body @ gain.T + own
        rows = (small.combine @ lump_two(robot, configuration, name)) @ whole.lift
        stages.append(Stage(name, small.names[keep], values[keep], covariance[keep, keep], rows[keep]))
        blocks.append(gain[keep])
        carried.append(own[keep, keep])
    rows = np.concatenate([stage.rows for stage in stages])
    values = np.linalg.solve(rows, np.concatenate([stage.values for stage in stages]))
    spread = np.concatenate(blocks) @ cov_body @ np.concatenate(blocks).T
    at_row = 0
    for part in carried:
        size = part.shape[0]
        spread[at_row : at_row + size, at_row : at_row + size] += part
        at_row += size
    inverse = np.linalg.inv(rows)
    return Recursion(
        tuple(stages), values, inverse @ spread @ inverse.T, time.perf_counter() - begin, whole, ("single", *chosen)
    )


def _solve(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Least squares with its half covariance; refined once."""
    norms = np.linalg.norm(matrix, axis=0)
    q, r = np.linalg.qr(matrix / norms)
    x = np.linalg.solve(r, q.T @ right)
    x = x + np.linalg.solve(r, q.T @ (right - (matrix / norms) @ x))
    return x / norms, np.linalg.inv(r) / norms[:, None]


def _solve_matrix(matrix: Array, right: Array) -> Array:
    return np.stack([_solve(matrix, column)[0] for column in right.T], axis=1)
