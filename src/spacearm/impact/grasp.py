"""Grasp velocity: joint rates before a grasp that leave the base at rest after it.

A grasp is linear in the velocities before it, so what the base does afterwards is an affine function of the joint
rates; the rates nearest to the planned ones that make it vanish follow from one least-squares solve.

The affine function is found by probing: one batch of n + 1 collisions, with zero rates and with each unit rate, gives
offset and matrix exactly, for any kind of grasp and any modes of the joints. With closed loops the probes are the
motions that these allow. Rates are in rad/s or m/s; the base's
velocity after the grasp is in base axes. This concerns one instant and one configuration: whether a path can reach it
with these rates is not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import one_of
from spacearm.errors import InputError
from spacearm.impact.collision import Collision, Kind, collide
from spacearm.impact.floating import FloatingSystem
from spacearm.model import Robot
from spacearm.simulate.loops import loop_terms
from spacearm.typing import Array

Still = Literal["angular", "linear", "all"]
ROWS = {"linear": slice(0, 3), "angular": slice(3, 6), "all": slice(0, 6)}
#: Singular values below this, relative to the largest, count as zero.
RANK = 1e-10


@dataclass(frozen=True, eq=False)
class GraspVelocity:
    """Rates before a grasp that leave the base at rest, as far as possible.

    Attributes:
        rates: joint rates before the grasp (n), rad/s or m/s.
        velocity: generalised velocity before it (6 + n), base part in base axes.
        approach: twist of the hand relative to the target before the grasp (6), world axes: the remaining closing
            velocity.
        base: velocity of the base after the grasp, or its jump (``measure``), for the requested components, base axes.
        residual: its largest entry.
        solvable: whether it is zero, to rounding.
        rank: number of independent conditions that the rates can satisfy.
        freedom: orthonormal directions (n, k) in which the rates may change without moving the base after the grasp.
        collision: the grasp with these rates.
    """

    rates: Array
    velocity: Array
    approach: Array
    base: Array
    residual: float
    solvable: bool
    rank: int
    freedom: Array
    collision: Collision


def grasp_velocity(
    first: FloatingSystem,
    second: FloatingSystem,
    *,
    still: Still = "angular",
    measure: Literal["after", "jump"] = "after",
    floating: bool = True,
    kind: Kind = "grasp",
) -> GraspVelocity:
    """Joint rates of ``first`` with which its plastic grasp of ``second`` leaves its base at rest.

    Args:
        first: the grasping robot; the solution stays as close as possible to its own rates, the planned ones.
        second: the target, at the contact (:meth:`FloatingSystem.move_to_contact`).
        still: which velocities of the base: angular, linear or all six.
        measure: ``after``: they are zero after the grasp; ``jump``: the grasp does not change them.
        floating: the base moves by reaction before the grasp, so that the robot's momentum is that of ``first``
            whatever the rates (no external force). If false, the base's velocity before the grasp is kept as given.
        kind: ``grasp`` or ``point``.
    """
    robot = first.robot
    one_of(still, ROWS, "still")
    one_of(measure, ("after", "jump"), "measure")
    one_of(kind, ("grasp", "point"), "kind")
    if robot.n == 0:
        raise InputError(f"{robot.name!r} has no joints to choose rates for", place="grasp velocity")
    planned = np.asarray(first.velocity)
    if planned.ndim != 1 or first.contact_point.ndim != 1 or second.contact_point.ndim != 1:
        raise InputError("is for one state, not a batch", place="grasp velocity")
    # Rates that closed loops allow, as combinations of these columns.
    allowed = allowed_rates(robot, np.asarray(first.joints))
    probes = np.concatenate([np.zeros((1, robot.n)), allowed.T])
    base_of = _reaction(first, floating)

    def full_velocity(rates: Array) -> Array:
        return np.concatenate([base_of(rates), rates], axis=-1)

    def evaluate_grasp(velocity: npt.ArrayLike) -> tuple[Array, Collision]:
        hit = collide(first.with_velocity(velocity), second, kind=kind, restitution=0.0)
        moved = hit.first.after if measure == "after" else hit.first.change
        return moved[..., ROWS[still]], hit

    # Differences of probes and not derivatives: the map is affine, so that they are exact to rounding.
    table, _ = evaluate_grasp(full_velocity(probes))
    offset, matrix = table[0], (table[1:] - table[0]).T
    scale = float(np.abs(matrix).max()) or 1.0
    _, values, right = np.linalg.svd(matrix)
    rank = int(np.sum(values > RANK * scale))
    wish = allowed.T @ planned[6:]
    # Minimum-norm correction of the planned rates. If the conditions cannot all be met, the pseudoinverse leaves the
    # smallest residual, which is reported.
    rates = allowed @ (wish - np.linalg.pinv(matrix, rcond=RANK) @ (matrix @ wish + offset))
    velocity = full_velocity(rates)
    base, hit = evaluate_grasp(velocity)
    size = float(np.abs(base).max())
    reference = float(np.abs(offset).max() + scale * np.abs(rates).max())
    approach = hit.first.twist_before - hit.second.twist_before
    solvable = size <= 1e-9 * max(reference, 1e-300)
    return GraspVelocity(rates, velocity, approach, base, size, solvable, rank, allowed @ right[rank:].T, hit)


def allowed_rates(robot: Robot, joints: Array) -> Array:
    """Orthonormal columns (n, k) of the joint rates that keep closed loops closed; all rates without loops."""
    if not robot.loops:
        return np.eye(robot.n)
    _, values, right = np.linalg.svd(loop_terms(robot, joints).jacobian)
    return np.asarray(right[int(np.sum(values > RANK * values.max(initial=0.0))) :].T)


def _reaction(first: FloatingSystem, floating: bool) -> Callable[[Array], Array]:
    """The base's velocity before the grasp as a function of the joint rates (..., n)."""
    planned = np.asarray(first.velocity)
    if not floating:
        return lambda rates: np.broadcast_to(planned[:6], (*rates.shape[:-1], 6))
    base, coupling, _ = first.point.mechanics.mass_blocks(np.asarray(first.joints))
    # Without external forces the momentum is given; H_b v = p - H_bm qd is then the base's reaction to any rates.
    momentum = base @ planned[:6] + coupling @ planned[6:]
    return lambda rates: np.linalg.solve(base, (momentum - rates @ coupling.T)[..., None])[..., 0]
