"""Whether a cell is a go, a no go or undecided, and when it has been run often enough.

A success rate from few runs is uncertain: four successes of four have a Wilson interval from 0.51 to 1. A cell is a go
if the whole interval lies at or above the goal, a no go if it lies below, and undecided otherwise.

A campaign that looks at its intervals again and again, and stops when it likes one, errs more often than the confidence
of one interval allows. Cells that end as soon as they are decided are therefore judged at few numbers of runs only,
each twice the one before, and the probability of an error is shared by these looks (Bonferroni).
"""

from __future__ import annotations

import math
from typing import Literal

from spacearm.campaign.plan import CampaignFile

CellVerdict = Literal["go", "no go", "undecided"]


def wilson_interval(successes: int, runs: int, confidence: float) -> tuple[float, float]:
    """Confidence interval of a success rate (E. B. Wilson, 1927)."""
    from scipy.special import ndtri

    if runs == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + 0.5 * confidence))
    rate, spread = successes / runs, z * z / runs
    # Unlike rate +- z sqrt(rate (1 - rate) / n) it keeps a width at rates of 0 and 1, where a stop would otherwise come
    # at once.
    middle = (rate + 0.5 * spread) / (1.0 + spread)
    half = z * math.sqrt(rate * (1.0 - rate) / runs + 0.25 * spread / runs) / (1.0 + spread)
    return (0.0 if successes == 0 else middle - half), (1.0 if successes == runs else middle + half)


def looks(file: CampaignFile) -> list[int]:
    """Numbers of runs, in whole chunks, at which a cell is judged: the last is all of its runs."""
    found, size = [], float(file.runs)
    if file.stop is not None and file.stop.half_width is None:
        size = file.stop.least
    while size < file.runs:
        # Whole chunks only: a cell is counted chunk by chunk.
        found.append(min(file.chunk * math.ceil(size / file.chunk), file.runs))
        size = 2 * found[-1]
    return sorted({*found, file.runs})


def interval_confidence(file: CampaignFile) -> float:
    """Confidence of each interval, so that all looks at a cell together err no more often than the file allows."""
    return 1.0 - (1.0 - file.confidence) / len(looks(file))


def rate_interval(file: CampaignFile, successes: int, runs: int) -> tuple[float, float]:
    """Interval of a cell's success rate."""
    return wilson_interval(successes, runs, interval_confidence(file))


def cell_verdict(file: CampaignFile, successes: int, runs: int) -> CellVerdict:
    """Whether the success rate is known to reach the goal, known to miss it, or neither."""
    low, high = rate_interval(file, successes, runs)
    if low >= file.goal:
        return "go"
    return "no go" if high < file.goal else "undecided"


def is_finished(file: CampaignFile, successes: int, runs: int) -> bool:
    """Whether a cell needs no more runs; to be asked after each of its chunks, in their order."""
    stop = file.stop
    if stop is None or runs >= file.runs:
        return runs >= file.runs
    if stop.half_width is None:
        return runs in looks(file) and cell_verdict(file, successes, runs) != "undecided"
    low, high = rate_interval(file, successes, runs)
    return runs >= stop.least and 0.5 * (high - low) <= stop.half_width
