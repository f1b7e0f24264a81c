"""Bounds that a stated share of all runs keeps, with a stated confidence, from order statistics.

Nothing is assumed of the distribution but that runs are independent (S. S. Wilks, Determination of sample sizes for
setting tolerance limits, 1941): the number of runs below the true quantile is binomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spacearm.typing import Array

End = Literal["upper", "lower"]
#: Share of runs that a bound is for.
SHARE = 0.997


@dataclass(frozen=True)
class ToleranceBound:
    """A bound from runs.

    Args:
        value: an order statistic of the runs.
        share: of all possible runs that keep it, at least, with the confidence asked for: less than asked for where
            there are too few runs.
        rank: its place among the runs, counted from the bound's own end: 1 is the largest, or the smallest.
        runs: how many there are.
    """

    value: float
    share: float
    rank: int
    runs: int


def least_runs(share: float, confidence: float) -> int:
    """Runs from which on the largest bounds this share: 1 - share^n >= confidence."""
    return math.ceil(math.log1p(-confidence) / math.log(share) - 1e-12)


def tolerance_bound(values: Array, end: End, share: float, confidence: float) -> ToleranceBound:
    """The tightest bound that this share of all possible runs keeps, with this confidence.

    With too few runs it is the outermost of them, and the share is what that one bounds.
    """
    from scipy.stats import binom

    ordered = np.sort(values) if end == "lower" else -np.sort(-values)
    # The k-th from the end bounds the share if at most n - k runs lie inside the true quantile.
    inside = int(binom.ppf(confidence, ordered.size, share))
    rank = max(ordered.size - inside, 1)
    # Solved for the share: the outermost run bounds share s with confidence 1 - s^n.
    reached = share if ordered.size >= least_runs(share, confidence) else (1.0 - confidence) ** (1.0 / ordered.size)
    return ToleranceBound(float(ordered[rank - 1]), reached, rank, ordered.size)
