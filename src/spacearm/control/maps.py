"""Maps of the workspace: manipulability and disturbance of the base over joints and over places of the hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, known, positive, whole
from spacearm.control.workspace import base_disturbance, finite, joint_ranges, twist_directions
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, at
from spacearm.model import Robot
from spacearm.typing import Array

#: Components of a frame's twist by name.
TWIST = ("x", "y", "z", "wx", "wy", "wz")
#: Configurations that are evaluated at once.
CHUNK = 20_000


class Seen(NamedTuple):
    """What an arm can do at configurations (...)."""

    place: Array  # (..., 3) of the frame from the mass centre, base axes, m
    manipulability: Array  # sqrt(det(J* J*^T)); zero at a dynamic singularity
    condition: Array  # smallest to largest singular value of J*
    disturbance: Array  # largest angular velocity of the base for joint rates of length one, rad/s
    cost: Array  # largest angular velocity of the base for a hand speed of one along the rows, least joint rates


def twist_rows(names: Sequence[str]) -> list[int]:
    """Rows of a twist by name."""
    return [TWIST.index(known(name, TWIST, "component", of="a twist")) for name in names]


def seen_at(
    robot: Robot, frame: str, configurations: npt.ArrayLike, rows: Sequence[int], chosen: Sequence[int]
) -> Seen:
    """Manipulability and disturbance at configurations (..., n), moving the chosen joints only."""
    q = array(configurations, "configurations", (..., robot.n))
    flat, mechanics = q.reshape(-1, robot.n), mechanics_of(robot)
    directions = twist_directions(rows, len(chosen))
    if not len(flat):
        raise InputError("there are no configurations", hint="expected (..., joints) numbers")
    found: list[Seen] = []
    for first in range(0, len(flat), CHUNK):
        part = flat[first : first + CHUNK]
        matrix = finite(mechanics.generalized_jacobian(frame, part), "the generalized Jacobian")
        matrix = matrix[:, directions][..., list(chosen)]
        turned = base_disturbance(robot, part)[:, 3:][..., list(chosen)]
        sizes = np.linalg.svd(matrix, compute_uv=False)
        place = mechanics.frame_pose(frame, part)[0] - mechanics.centre_of_mass(part)
        cost = np.full(len(part), np.inf)
        good = sizes[:, -1] > 1e-6 * sizes[:, 0]
        largest = np.where(sizes[:, 0] > 0.0, sizes[:, 0], 1.0)
        cost[good] = np.linalg.svd(turned[good] @ np.linalg.pinv(matrix[good]), compute_uv=False)[:, 0]
        most = np.asarray(np.linalg.svd(turned, compute_uv=False)[:, 0], dtype=np.float64)
        found.append(Seen(place, sizes.prod(axis=1), sizes[:, -1] / largest, most, cost))
    parts = [np.concatenate([getattr(each, name) for each in found]) for name in Seen._fields]
    return Seen(*(part.reshape(*q.shape[:-1], *part.shape[1:]) for part in parts))


@dataclass(frozen=True, eq=False)
class JointMap:
    """Over two joints, the others as they are."""

    joints: tuple[str, str]
    values: tuple[Array, Array]
    seen: Seen  # (first, second)


def joint_map(
    robot: Robot,
    frame: str,
    ranges: Mapping[str, tuple[float, float]],
    rows: Sequence[int],
    configuration: Array,
    moved: Sequence[str],
    count: int = 61,
) -> JointMap:
    """Over the ranges of two joints; ``moved`` are those whose rates count."""
    with at("joint_map"):
        if len(ranges) != 2:
            raise InputError(f"{len(ranges)} joints are given", hint="expected two")
        whole(count, "count", least=2, most=2000)
        lines = tuple(np.linspace(low, high, count) for low, high in joint_ranges(ranges))
        grid = np.tile(array(configuration, "configuration", (robot.n,)), (count, count, 1))
    for name, values in zip(ranges, np.meshgrid(*lines, indexing="ij"), strict=True):
        grid[..., robot.joint_index(name)] = values
    seen = seen_at(robot, frame, grid, rows, [robot.joint_index(name) for name in moved])
    first, second = ranges
    return JointMap((first, second), (lines[0], lines[1]), seen)


@dataclass(frozen=True, eq=False)
class HandMap:
    """Over places of a frame in a plane through the mass centre, base axes; cells that are not reached are NaN."""

    axes: tuple[str, str]
    edges: tuple[Array, Array]  # m
    count: Array  # (first, second) configurations that get there
    manipulability: Array  # best of them
    cost: Array  # least of them, rad/m
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
    """Over the places that a frame gets to with joints in their ranges (a low-discrepancy sequence of configurations).

    Args:
        axes: two of x, y, z that span the plane.
        thickness: m, of the slice about the plane.
    """
    from scipy.stats import qmc

    with at("hand_map"):
        across = ["xyz".index(known(axis, "xyz", "axis")) for axis in axes]
        if len(set(across)) != 2:
            raise InputError(f"axes are {', '.join(axes)}", hint="expected two different ones")
        half = 0.5 * positive(thickness, "thickness", unit="m")
        whole(samples, "samples", least=10, most=5_000_000)
        whole(cells, "cells", least=2, most=1000)
        low, high = joint_ranges(ranges).T
        still = array(configuration, "configuration", (robot.n,))
    chosen = [robot.joint_index(name) for name in ranges]
    spread = qmc.Halton(len(chosen), seed=0).random(samples)
    joints = np.tile(still, (samples, 1))
    joints[:, chosen] = low + spread * (high - low)
    seen = seen_at(robot, frame, joints, rows, chosen)
    distance = np.linalg.norm(seen.place, axis=1)
    (normal,) = {0, 1, 2} - {*across}
    inside = np.abs(seen.place[:, normal]) <= half
    far = max(float(distance.max()) * 1.02, 1e-9)
    edges = np.linspace(-far, far, cells + 1)
    at_cell = tuple(np.clip(np.searchsorted(edges, seen.place[inside][:, axis]) - 1, 0, cells - 1) for axis in across)
    count, best, least = np.zeros((cells, cells)), np.full((cells, cells), -np.inf), np.full((cells, cells), np.inf)
    np.add.at(count, at_cell, 1)
    np.maximum.at(best, at_cell, seen.manipulability[inside])
    np.minimum.at(least, at_cell, seen.cost[inside])
    empty = count == 0
    best[empty], least[empty | ~np.isfinite(least)] = np.nan, np.nan
    reach = (float(distance.min()), float(distance.max()))
    return HandMap((axes[0], axes[1]), (edges, edges), count, best, least, reach)
