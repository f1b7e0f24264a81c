"""Workspace maps: manipulability and base disturbance over joint positions and over positions of the hand.

Measures come from singular values. Of the generalized Jacobian J*: their product is the manipulability (T. Yoshikawa,
Manipulability of robotic mechanisms, Int. J. Robotics Research 4(2), 1985), the ratio of smallest to largest tells the
distance from a dynamic singularity. Of the joints' effect on the base's rotation: the largest is the worst disturbance
for joint rates of norm one; multiplied by the pseudoinverse of J*, for a hand speed of one.

A map over two joints is a grid. A map over positions of the hand has no inverse kinematics: it samples the joints'
ranges with a Halton sequence, which leaves no gaps as random numbers do, and keeps the best sample of each cell. Rates
in rad/s for joint rates (rad/s, m/s) or hand speeds (m/s, rad/s); base axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, integer, positive
from spacearm.control.workspace import base_disturbance, finite, fixed_point, joint_ranges, twist_directions
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context, quote_text
from spacearm.model import Robot
from spacearm.typing import Array

#: Components of a frame's twist by name.
TWIST = ("x", "y", "z", "wx", "wy", "wz")
#: Configurations evaluated in one batch.
CHUNK = 20_000


class ArmMeasures(NamedTuple):
    """Measures of an arm at configurations (...)."""

    place: Array  # (..., 3) of the frame from the point that stays where it is (fixed_point), base axes, m
    manipulability: Array  # sqrt(det(J* J*^T)); zero at a dynamic singularity
    condition: Array  # smallest to largest singular value of J*
    disturbance: Array  # largest angular velocity of the base for joint rates of norm one, rad/s
    cost: Array  # largest angular velocity of the base for a hand speed of one along the rows, with least joint rates


def twist_rows(names: Sequence[str]) -> list[int]:
    """Rows of a twist by name."""
    return [TWIST.index(check_name(name, TWIST, "component", of="a twist")) for name in names]


def evaluate_arm(
    robot: Robot, frame: str, configurations: npt.ArrayLike, rows: Sequence[int], chosen: Sequence[int]
) -> ArmMeasures:
    """Manipulability and base disturbance at configurations (..., n), when only the chosen joints move."""
    q = array(configurations, "configurations", (..., robot.n))
    flat, mechanics = q.reshape(-1, robot.n), mechanics_of(robot)
    directions = twist_directions(rows, len(chosen))
    if not len(flat):
        raise InputError("there are no configurations", hint="expected (..., joints) numbers")
    found: list[ArmMeasures] = []
    for first in range(0, len(flat), CHUNK):
        part = flat[first : first + CHUNK]
        matrix = finite(mechanics.generalized_jacobian(frame, part), "the generalized Jacobian")
        matrix = matrix[:, directions][..., list(chosen)]
        rotation = base_disturbance(robot, part)[:, 3:][..., list(chosen)]
        sizes = np.linalg.svd(matrix, compute_uv=False)
        place = mechanics.frame_pose(frame, part)[0] - fixed_point(robot, part)
        cost = np.full(len(part), np.inf)
        # Near a singularity the pseudoinverse is made of rounding: no cost is stated there.
        good = sizes[:, -1] > 1e-6 * sizes[:, 0]
        largest = np.where(sizes[:, 0] > 0.0, sizes[:, 0], 1.0)
        cost[good] = np.linalg.svd(rotation[good] @ np.linalg.pinv(matrix[good]), compute_uv=False)[:, 0]
        most = np.asarray(np.linalg.svd(rotation, compute_uv=False)[:, 0], dtype=np.float64)
        found.append(ArmMeasures(place, sizes.prod(axis=1), sizes[:, -1] / largest, most, cost))
    parts = [np.concatenate([getattr(each, name) for each in found]) for name in ArmMeasures._fields]
    return ArmMeasures(*(part.reshape(*q.shape[:-1], *part.shape[1:]) for part in parts))


@dataclass(frozen=True, eq=False)
class JointMap:
    """Map over two joints; the others are fixed."""

    joints: tuple[str, str]
    values: tuple[Array, Array]
    measures: ArmMeasures  # (first, second)


def joint_map(
    robot: Robot,
    frame: str,
    ranges: Mapping[str, tuple[float, float]],
    rows: Sequence[int],
    configuration: Array,
    moved: Sequence[str],
    count: int = 61,
) -> JointMap:
    """Map over the ranges of two joints; ``moved`` are the joints whose rates count."""
    with error_context("joint_map"):
        if len(ranges) != 2:
            raise InputError(f"{len(ranges)} joints are given", hint="expected two")
        integer(count, "count", least=2, most=2000)
        lines = tuple(np.linspace(low, high, count) for low, high in joint_ranges(ranges))
        grid = np.tile(array(configuration, "configuration", (robot.n,)), (count, count, 1))
    # The other joints keep the configuration's positions.
    for name, values in zip(ranges, np.meshgrid(*lines, indexing="ij"), strict=True):
        grid[..., robot.joint_index(name)] = values
    seen = evaluate_arm(robot, frame, grid, rows, [robot.joint_index(name) for name in moved])
    first, second = ranges
    return JointMap((first, second), (lines[0], lines[1]), seen)


@dataclass(frozen=True, eq=False)
class HandMap:
    """Map over positions of a frame in a plane through the mass centre, base axes; cells out of reach are NaN."""

    axes: tuple[str, str]
    edges: tuple[Array, Array]  # m
    count: Array  # (first, second) number of configurations that reach the cell
    manipulability: Array  # largest of them
    cost: Array  # smallest of them, rad/m
    reach: tuple[float, float]  # least and largest distance from the mass centre over all samples, m


def hand_map(
    robot: Robot,
    frame: str,
    ranges: Mapping[str, tuple[float, float]],
    rows: Sequence[int],
    configuration: Array,
    *,
    axes: Sequence[str] = ("x", "z"),
    thickness: float,
    samples: int = 40_000,
    cells: int = 60,
) -> HandMap:
    """Map over the positions that a frame reaches with joints in their ranges (low-discrepancy sequence of
    configurations).

    Args:
        axes: two of x, y, z that span the plane.
        thickness: m, of the slice about the plane.
    """
    from scipy.stats import qmc

    with error_context("hand_map"):
        across = ["xyz".index(check_name(axis, "xyz", "axis")) for axis in axes]
        if len(across) != 2 or across[0] == across[1]:
            shown = quote_text(", ".join(axes))
            raise InputError(f"axes are {shown}", hint="expected two different ones of x, y, z")
        half = 0.5 * positive(thickness, "thickness", unit="m")
        integer(samples, "samples", least=10, most=5_000_000)
        integer(cells, "cells", least=2, most=1000)
        low, high = joint_ranges(ranges).T
        still = array(configuration, "configuration", (robot.n,))
    chosen = [robot.joint_index(name) for name in ranges]
    spread = qmc.Halton(len(chosen), seed=0).random(samples)
    joints = np.tile(still, (samples, 1))
    joints[:, chosen] = low + spread * (high - low)
    seen = evaluate_arm(robot, frame, joints, rows, chosen)
    distance = np.linalg.norm(seen.place, axis=1)
    (normal,) = {0, 1, 2} - {*across}
    inside = np.abs(seen.place[:, normal]) <= half
    # The mass centre is the middle of the map: distances from it do not depend on the base's motion.
    far = max(float(distance.max()) * 1.02, 1e-9)
    edges = np.linspace(-far, far, cells + 1)
    at_cell = tuple(np.clip(np.searchsorted(edges, seen.place[inside][:, axis]) - 1, 0, cells - 1) for axis in across)
    count, best, least = np.zeros((cells, cells)), np.full((cells, cells), -np.inf), np.full((cells, cells), np.inf)
    # Several samples in one cell: plain indexing would keep the last of them only.
    np.add.at(count, at_cell, 1)
    np.maximum.at(best, at_cell, seen.manipulability[inside])
    np.minimum.at(least, at_cell, seen.cost[inside])
    empty = count == 0
    best[empty], least[empty | ~np.isfinite(least)] = np.nan, np.nan
    reach = (float(distance.min()), float(distance.max()))
    return HandMap((axes[0], axes[1]), (edges, edges), count, best, least, reach)
