"""Missions of a map: processor time of one, with its stages, checks, certificate and rows, and that of the solver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.__main__ import HERE
from benchmarks.common import Row, show
from spacearm.campaign._work import run_one
from spacearm.campaign.plan import CampaignPlan
from spacearm.engine.solver import BoundSolver

MAP = HERE.parent / "examples" / "map.toml"
#: Missions of the largest campaign that is to take less than four minutes on two cores.
MANY = 8100


@contextmanager
def watch_solver() -> Iterator[list[float]]:
    """A list of the processor times (s) of all calls of the solver within the block."""
    found: list[float] = []
    plain = BoundSolver.__call__

    def timed(solver: BoundSolver) -> int:
        begin = time.thread_time()
        reason = plain(solver)
        found.append(time.thread_time() - begin)
        return reason

    BoundSolver.__call__ = timed  # type: ignore[method-assign]
    try:
        yield found
    finally:
        BoundSolver.__call__ = plain  # type: ignore[method-assign]


def missions(plan: CampaignPlan, cells: list[int], rounds: int = 3) -> list[tuple[float, float]]:
    """Processor time (s) of a mission of each of these cells, the best of some runs, and the solver's part of it.

    Compiled code is there.
    """
    found = []
    for cell in cells:
        run_one(plan, cell, 0)
        times = []
        for number in range(1, rounds + 1):
            with watch_solver() as solved:
                begin = time.process_time()  # a run has a thread of its own
                run_one(plan, cell, number)
                times.append((time.process_time() - begin, sum(solved)))
        found.append(min(times))
    return found


def main() -> list[Row]:
    plan = CampaignPlan.read(MAP)
    strategies = list(dict.fromkeys(cell["strategy"] for cell in plan.cells))
    # Cells of one strategy are three apart.
    times = {name: np.array(missions(plan, list(range(k, len(plan.cells), 3)))) for k, name in enumerate(strategies)}
    first = times[strategies[0]]
    rows = [
        Row("a mission of examples/map.toml, mean of nine cells", 1e3 * first[:, 0].mean(), "ms", target=40.0),
        Row("of which the solver", 1e3 * first[:, 1].mean(), "ms"),
        Row("the slowest of them", 1e3 * first[:, 0].max(), "ms"),
        Row("a million missions, one core", 1e6 * first[:, 0].mean() / 3600.0, "h", target=12.0),
    ]
    for name in strategies[1:]:
        rows.append(Row(f"the same cells, {name}", 1e3 * times[name][:, 0].mean(), "ms"))
        rows.append(Row("of which the solver", 1e3 * times[name][:, 1].mean(), "ms"))
    mean = float(np.mean([own[:, 0].mean() for own in times.values()]))
    rows.append(
        Row(f"{MANY} missions of all cells, two cores, without storing", MANY * mean / 120.0, "min", target=4.0)
    )
    return show("Missions: approach to detumbling, one core", rows)
