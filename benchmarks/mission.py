"""Missions of a map: processor time of one, with its stages, checks, certificate and rows, and that of the solver.

Once with 48 at a time in the lanes of the solver, as campaigns fly them, and once with each alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.__main__ import HERE
from benchmarks.common import Row, show
from spacearm.campaign import _side_by_side
from spacearm.campaign._side_by_side import run_side_by_side
from spacearm.campaign._work import run_one
from spacearm.campaign.plan import CampaignPlan
from spacearm.engine.solver import BoundSolver

MAP = HERE.parent / "examples" / "map.toml"
#: Missions of the largest campaign that is to take less than four minutes on two cores.
MANY = 8100


#: Missions of one strategy that are flown together.
TOGETHER = 48


@contextmanager
def watch_solver(place: Any, name: str) -> Iterator[list[float]]:
    """A list of the processor times (s) of all calls of this function within the block."""
    found: list[float] = []
    plain = getattr(place, name)

    def timed(*arguments: Any) -> Any:
        begin = time.thread_time()
        result = plain(*arguments)
        found.append(time.thread_time() - begin)
        return result

    setattr(place, name, timed)
    try:
        yield found
    finally:
        setattr(place, name, plain)


def alone(plan: CampaignPlan, cells: list[int], rounds: int = 3) -> tuple[float, float]:
    """Processor time (s) of a mission, mean of these cells, the best of some runs of each, and the solver's part of it.

    Compiled code is there.
    """
    found = []
    for cell in cells:
        run_one(plan, cell, 0)
        times = []
        for number in range(1, rounds + 1):
            with watch_solver(BoundSolver, "fly_alone") as solved:
                begin = time.process_time()  # a run has a thread of its own
                run_one(plan, cell, number)
                times.append((time.process_time() - begin, sum(solved)))
        found.append(min(times))
    mission, solver = np.mean(found, axis=0)
    return float(mission), float(solver)


def together(plan: CampaignPlan, cells: list[int], rounds: int = 3) -> tuple[float, float]:
    """The same of missions of these cells in turn, flown together: the best of some rounds."""
    times = []
    for first in range(1, rounds + 1):
        places = [(cells[k % len(cells)], first + k // len(cells)) for k in range(TOGETHER)]
        with watch_solver(_side_by_side, "fly") as flown, watch_solver(BoundSolver, "fly_alone") as solved:
            begin = time.process_time()
            run_side_by_side([partial(run_one, plan, *place) for place in places])
            times.append((time.process_time() - begin, sum(flown) + sum(solved)))
    mission, solver = min(times)
    return mission / TOGETHER, solver / TOGETHER


def main() -> list[Row]:
    plan = CampaignPlan.read(MAP)
    strategies = list(dict.fromkeys(cell["strategy"] for cell in plan.cells))
    rows, means = [], []
    for k, name in enumerate(strategies):
        cells = list(range(k, len(plan.cells), 3))  # those of one strategy are three apart
        one, many = alone(plan, cells), together(plan, cells)
        means.append(many[0])
        target = 40.0 if k == 0 else None
        rows += [
            Row(f"{name}, {TOGETHER} together: a mission, mean of nine cells", 1e3 * many[0], "ms", target=target),
            Row("of which the solver", 1e3 * many[1], "ms"),
            Row(f"{name}, each alone", 1e3 * one[0], "ms"),
            Row("of which the solver", 1e3 * one[1], "ms"),
        ]
    many_rows = [
        Row("a million of the first strategy together, one core", 1e6 * means[0] / 3600.0, "h", target=12.0),
        Row(
            f"{MANY} of all cells, two cores, without storing", MANY * float(np.mean(means)) / 120.0, "min", target=4.0
        ),
    ]
    return show("Missions: approach to detumbling, one core", rows + many_rows)
