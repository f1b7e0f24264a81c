"""The robots that every engine must agree on: 216, of every kind, always the same."""

from __future__ import annotations

from functools import cache

import numpy as np

from spacearm.model import Robot
from support.random_robots import Geometry, RandomState, random_robot, random_state

SIZE = 216
#: The population in parts that tests run one by one, so that workers can share them and a failure is near its seed.
BLOCKS = [range(start, start + 18) for start in range(0, SIZE, 18)]
GEOMETRIES: tuple[Geometry, ...] = ("skew", "aligned", "mixed")


@cache
def member(index: int) -> Robot:
    """Robot ``index`` of the population: 1 to 12 joints, chains and trees, all geometries, some without mass inside."""
    return random_robot(
        1000 + index,
        1 + index % 12,
        tree=(index // 12) % 2 == 0,
        geometry=GEOMETRIES[(index // 24) % 3],
        prismatic=(0.25, 0.25, 0.0, 0.5, 1.0)[index % 5],
        massless=0.4 if index % 4 == 3 else 0.0,
        rotors=0.5 if index % 6 == 4 else 0.0,
    )


def member_state(index: int, salt: int = 0) -> tuple[RandomState, np.random.Generator]:
    """A state for robot ``index`` and a generator for whatever else a test needs."""
    rng = np.random.default_rng([index, salt, 77])
    return random_state(member(index), rng), rng


def difference(value: object, reference: object) -> float:
    """Largest difference, relative to the reference's largest entry; NaN counts as infinite."""
    a, b = np.asarray(value, dtype=float), np.asarray(reference, dtype=float)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    if a.size == 0:
        return 0.0
    gap = float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-12))
    return gap if np.isfinite(gap) else np.inf
