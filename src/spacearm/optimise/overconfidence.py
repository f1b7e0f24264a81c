"""Test whether an estimate scatters as its covariance claims, by what intervals of the data say by themselves.

The interval b of the residuals r, with derivatives J_b, moves the estimate by C J_b^T r_b. If the model is right, these
moves have the covariances C A_b C (b = c) - C A_b C A_c C with A_b = J_b^T J_b. Slow errors of sensors or forces make
them larger, though the residuals may still look white. Their square sum over what is expected is the ratio of the
sandwich covariance (P. J. Huber 1967; W. K. Newey and K. D. West 1987) to the one that is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag
from scipy.optimize import brentq
from scipy.stats import norm, t

from spacearm.typing import Array

#: Intervals that all data are cut into: long against the errors that are to be seen, and enough to tell a scatter.
INTERVALS = 12
#: Numbers of longer ones, which see errors that last longer.
LONGER = (6, 4)
#: Deviations that are larger by less than this factor are the same.
WIDER = 1.01


@dataclass(frozen=True, slots=True)
class Scatter:
    """Ratio of variances, one for a right model, and how often chance alone brings as much or more."""

    ratio: float
    p_value: float


def scatter(
    residual: Array,
    jacobian: Array,
    covariance: Array,
    count: int,
    intervals: int = INTERVALS,
    *,
    doubt: float = 0.0,
) -> Scatter:
    """Of the first ``count`` parameters together, along directions in which their errors are independent.

    White residuals (m,) in the order of time, their derivatives (m, p), the covariance (p, p); zero along what is held.
    ``doubt``: relative standard deviation of the noise's variance, where that is an estimate.
    """
    scale = np.sqrt(np.diagonal(covariance)[:count])
    shown = np.flatnonzero(scale > 0.0)
    rows = covariance[shown] / scale[shown, None]
    # Directions in which the claimed errors are independent and of variance one; correlated parameters count once.
    values, vectors = np.linalg.eigh(rows[:, shown] / scale[shown])
    kept = values > 1e-9 * values.max(initial=0.0)
    rows = (vectors[:, kept] / np.sqrt(values[kept])).T @ rows
    parts = [slice(part[0], part[-1] + 1) for part in np.array_split(np.arange(residual.size), intervals) if part.size]
    sides = [jacobian[part].T @ (jacobian[part] @ rows.T) for part in parts]
    moves = np.concatenate([rows @ (jacobian[part].T @ residual[part]) for part in parts])
    side = np.concatenate(sides, axis=1)
    # The covariance from the module's text: the moves of all intervals sum to zero at the minimum, hence the second
    # term.
    expected = block_diag(*(rows @ one for one in sides)) - side.T @ covariance @ side
    # The square sum of moves is distributed as a sum of chi-squares with these weights.
    weights = np.linalg.eigvalsh(0.5 * (expected + expected.T))
    weights = weights[weights > 1e-9]  # of claimed variances, which are one
    if not weights.size:
        return Scatter(1.0, 1.0)
    total = float(moves @ moves)
    return Scatter(total / float(weights.sum()), _mean_tail(total, weights, doubt))


def interval_factors(residual: Array, jacobian: Array, covariance: Array) -> Array:
    """By how much (p,) the deviations that intervals of the data show exceed those of white noise; one where less.

    The root of each parameter's sandwich variance over the claimed one, both without what the sum over all intervals
    takes away, times Student's quantile for so many intervals (R. Ibragimov and U. Mueller 2010). Errors that last as
    long as an interval are seen by longer ones alone. Of these there are too few for one parameter: the mean over all
    parameters counts. Residuals (m,), derivatives (m, p) and covariance (p, p) as in :func:`scatter`; one where
    nothing is claimed.
    """
    known = np.isfinite(np.diagonal(covariance))
    claimed = np.where(np.outer(known, known), covariance, 0.0)
    own, there = _variance_ratios(residual, jacobian, claimed, INTERVALS)
    # So that 1.96 deviations are the 95 % interval that so few intervals allow.
    found = float(t.isf(0.025, INTERVALS - 1) / norm.isf(0.025)) * np.sqrt(own)
    for count in LONGER if there.any() else ():
        ratio, seen = _variance_ratios(residual, jacobian, claimed, count)
        found = np.maximum(found, np.sqrt(np.mean(ratio[seen])))
    return np.where(there, np.maximum(found, 1.0), 1.0)


def _variance_ratios(residual: Array, jacobian: Array, claimed: Array, count: int) -> tuple[Array, npt.NDArray[Any]]:
    """Sandwich variances over the claimed ones (p,) by so many intervals, and for which parameters there are any."""
    moved, expected = np.zeros(len(claimed)), np.zeros(len(claimed))
    for part in np.array_split(np.arange(residual.size), count):
        # An interval moves the estimate by C J^T r. Were its errors white, that would have the variance C J^T J C, less
        # what the fit has taken from the residuals: the square of the gain.
        gain = claimed @ (jacobian[part].T @ jacobian[part])
        moved += (claimed @ (jacobian[part].T @ residual[part])) ** 2
        expected += np.einsum("ij,ji->i", gain - gain @ gain, claimed)
    there = expected > 1e-9 * np.diagonal(claimed)
    return np.where(there, moved / np.where(there, expected, 1.0), 1.0), there


def _mean_tail(total: float, weights: Array, doubt: float) -> float:
    """:func:`square_sum_tail` with a variance that is known to a relative ``doubt`` (Gauss and Hermite's nodes)."""
    if not doubt > 0.0:
        return square_sum_tail(total, weights)
    nodes, shares = np.polynomial.hermite_e.hermegauss(15)
    tails = [square_sum_tail(total * max(1.0 + doubt * z, 0.1), weights) for z in nodes]
    return float(shares @ tails / shares.sum())


def square_sum_tail(total: float, weights: Array) -> float:
    """How often a sum of squares of normal numbers with these ``weights`` is larger: the saddle point of its transform
    (R. Lugannani and S. Rice 1980); one half or more below the mean, which is not told apart."""
    mean, largest = float(weights.sum()), float(weights.max())
    if total < 1.001 * mean:
        return 0.5

    def slope(at: float) -> float:
        return float(np.sum(weights / (1.0 - 2.0 * at * weights))) - total

    # The saddle point: where the derivative of the logarithm of the transform equals the total. Just inside the pole at
    # 0.5 / largest.
    place = brentq(slope, 0.0, 0.5 / largest * (1.0 - 0.5 * largest / total))
    shrunk = 1.0 - 2.0 * place * weights
    root = np.sqrt(2.0 * place * total + np.sum(np.log(shrunk)))
    curved = place * np.sqrt(2.0 * np.sum((weights / shrunk) ** 2))
    return float(norm.sf(root + np.log(curved / root) / root))
