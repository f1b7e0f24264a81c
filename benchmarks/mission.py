"""Missions of a map: processor time of one, with its stages, identification, certificate and rows."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.__main__ import HERE
from benchmarks.common import Row, show
from spacearm.campaign._work import run_one
from spacearm.campaign.plan import CampaignPlan

MAP = HERE.parent / "examples" / "map.toml"


def missions(plan: CampaignPlan, cells: list[int], rounds: int = 3) -> list[float]:
    """Processor time (s) of a mission of each of these cells, the best of some runs; compiled code is there."""
    found = []
    for cell in cells:
        run_one(plan, cell, 0)
        times = []
        for number in range(1, rounds + 1):
            begin = time.process_time()  # a run has a thread of its own
            run_one(plan, cell, number)
            times.append(time.process_time() - begin)
        found.append(min(times))
    return found


def main() -> list[Row]:
    plan = CampaignPlan.read(MAP)
    times = np.array(missions(plan, list(range(0, len(plan.cells), 3))))  # of one strategy
    rows = [
        Row("a mission of examples/map.toml, mean of nine cells", 1e3 * times.mean(), "ms", target=40.0),
        Row("the slowest of them", 1e3 * times.max(), "ms"),
        Row("a million missions, one core", 1e6 * times.mean() / 3600.0, "h", target=12.0),
    ]
    return show("Missions: approach to identification, one core", rows)
