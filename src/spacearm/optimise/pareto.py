"""Search for the Pareto front: points of the unit cube that no other beats in every objective.

Sobol samples first, then generations of an elitist evolutionary search: crossover and mutation of the points on the
front, chosen by crowding (K. Deb et al., A fast and elitist multiobjective genetic algorithm: NSGA-II, IEEE Trans.
Evolutionary Computation 6, 2002).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.typing import Array

FRONT_SIZE = 400
FEWEST_PARENTS = 40


@dataclass(frozen=True, eq=False)
class ParetoFront:
    """What :func:`pareto_search` found; no points where none is feasible.

    Args:
        points: (F, variables) within 0 and 1, in the order of the first objective.
        values: (F, objectives).
        sampled: (feasible points tried, objectives).
        tried: number of points.
    """

    points: Array
    values: Array
    sampled: Array
    tried: int


def pareto_search(
    evaluate: Callable[[Array], Array],
    variables: int,
    *,
    count: int,
    batch: int,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> ParetoFront:
    """The front of what ``evaluate`` makes of points of the unit cube.

    Args:
        evaluate: points (B, variables) to objectives (B, objectives), to be made small; infinite: not feasible.
        count: points to try in all.
        batch: points between two selections.
        seed: the same gives the same front.
    """
    from scipy.stats import qmc

    rng = np.random.default_rng(seed)
    # Sobol points keep their balance only in powers of two: draw so many, use the first.
    points = np.clip(qmc.Sobol(variables, rng=rng).random(1 << math.ceil(math.log2(batch)))[:batch], 0.0, 1.0)
    kept, values = np.zeros((0, variables)), np.zeros((0, 0))
    tried, sampled = 0, []
    while tried < count:
        points = points[: count - tried]
        found = evaluate(points)
        tried += len(points)
        feasible = np.isfinite(found).all(axis=1)
        sampled.append(found[feasible])
        kept = np.concatenate([kept, points[feasible]])
        values = np.concatenate([values.reshape(-1, found.shape[1]), found[feasible]])
        # Elitist: the old front competes with the new points.
        pool = _best(values)
        kept, values = kept[pool], values[pool]
        if progress is not None:
            progress(tried / count)
        points = _make_offspring(kept, values, batch, variables, rng)
    front = find_front_rows(values)
    order = front[np.argsort(values[front, 0], kind="stable")]
    return ParetoFront(kept[order], values[order], np.concatenate(sampled), tried)


def find_front_rows(values: Array) -> npt.NDArray[np.int64]:
    """Indices of rows that no other row matches or beats in every column and beats in one; of equals, the first."""
    order = np.lexsort(values.T[::-1])
    kept: list[int] = []
    front = np.zeros((0, values.shape[1]))
    for index in order:  # in this order a row can only be dominated by one before it
        row = values[index]
        if not len(front) or not np.any(np.all(front <= row, axis=1)):
            kept.append(int(index))
            front = np.concatenate([front, row[None]])
    return np.array(sorted(kept), dtype=np.int64)


def _best(values: Array) -> npt.NDArray[np.int64]:
    """Rows to go on with: the front, the least crowded of it where it is long, those behind it where it is short."""
    left = np.arange(len(values))
    chosen: list[int] = []
    while left.size and len(chosen) < FEWEST_PARENTS:
        front = left[find_front_rows(values[left])]
        chosen += front.tolist()
        left = np.setdiff1d(left, front)
    if len(chosen) > FRONT_SIZE:
        order = np.argsort(-neighbour_distance(values[chosen]), kind="stable")[:FRONT_SIZE]
        chosen = [chosen[i] for i in order]
    return np.array(chosen, dtype=np.int64)


def neighbour_distance(values: Array) -> Array:
    """Distance of the neighbours of each row on a front; infinite at the ends."""
    distance = np.zeros(len(values))
    for column in values.T:
        order = np.argsort(column, kind="stable")
        # Relative to the front's own range: objectives have different units.
        span = column[order[-1]] - column[order[0]]
        distance[order[[0, -1]]] = np.inf
        if span > 0.0:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance


def _make_offspring(parents: Array, values: Array, count: int, width: int, rng: np.random.Generator) -> Array:
    """New points from those on the front: a mix of two, then small changes of a few variables."""
    if len(parents) < 2:
        return np.asarray(rng.random((count, width)))
    spread = neighbour_distance(values)
    pairs = rng.integers(0, len(parents), (2, 2, count))
    # Tournaments of two: the one in the emptier part of the front becomes a parent.
    first, second = (np.where(spread[a] >= spread[b], a, b) for a, b in pairs)
    # A little beyond both parents too, else the population could only shrink; one in ten is a copy of the first.
    blend = rng.uniform(-0.2, 1.2, (count, width)) * (rng.random((count, 1)) < 0.9)
    child = parents[first] + blend * (parents[second] - parents[first])
    # Mutations of all sizes, from fine tuning to jumps, in about three variables.
    size = 10.0 ** rng.uniform(-3.0, -0.5, (count, 1))
    change = rng.normal(size=(count, width)) * size * (rng.random((count, width)) < 3.0 / width)
    return np.asarray(np.clip(child + change, 0.0, 1.0))
