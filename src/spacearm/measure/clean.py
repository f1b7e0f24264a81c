"""Outliers by one rule, values for gaps, and the noise of readings from their scatter.

Readings are a smooth path with noise: their divided differences of fourth order are small, as small as most of those
nearby (E. T. Whittaker 1922; the path of least such differences is a smoothing spline). A reading is compared with the
path through all others, never with one that it influences itself: the deleted residual over its deviation is the
likelihood ratio of a single shift. If a model predicts the readings, its residuals are tested in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.engine.loops import compile_loop
from spacearm.errors import InputError
from spacearm.typing import Array

Mask = npt.NDArray[np.bool_]

#: A reading farther than this from the prediction by all others, in standard deviations, is an outlier.
FAR = 6.0
#: A row has outliers for certain if noise makes its farthest readings in so few rows; what share of the outliers of
#: such a row may be noise.
CERTAIN, FALSE = 1e-5, 0.1
#: Largest fraction of a row's readings that may be outliers, and a number that is always permitted.
MOST, FEW = 0.15, 3
#: Number of samples within which only the farthest is removed at once, and number of repeated tests.
NEAR, PASSES = 4, 40
#: Number of readings whose differences determine the roughness of a path.
AROUND = 121
#: In variances of a reading: what a difference may have by noise alone, and the least that is the path's own.
NOISE, SMOOTH = 1.8, 0.005
#: More missing readings in a row leave a path to rounding: over 500 its equations are singular in double precision.
LONG = 100
#: Of the differences that judge readings, and the highest that tell noise from the curvature of a path.
ORDER, HIGHEST = 4, 12
#: Differences of a higher order count where there are more of them than this share of those of the lowest.
SPARSE = 0.3
#: Deviations by which the variance of the highest order must be below the one before, if it is still that of a motion.
UNLIKELY = 3.0
#: Fewer readings are insufficient.
ENOUGH = 2 * ORDER + 1
#: Differences of more deviations than this are not noise's: an outlier, or a step of the path.
STEP = 4.0


def find_outliers(
    deviations: Callable[[Mask], Array], present: Mask, *, adapt: bool = False, known: Mask | None = None
) -> Mask:
    """Outliers among readings (T, rows): farther than ``FAR`` deviations from the prediction by the others.

    The farthest of a neighbourhood is removed first: it shifts the prediction of its neighbours, which may prove to
    be good without it. A reading removed because of a neighbour returns. If outliers are a large part of a row, or
    cluster more than by chance, the prediction is wrong and not the readings: then there are none.

    Args:
        deviations: given which readings (T, rows) count, by how many deviations each differs from what they predict of
            it; infinite for a reading that does not count and is not to come back.
        present: which readings (T, rows) there are.
        adapt: deviations are those of normal noise, so that a row which has outliers for certain loses nearer ones too
            (:func:`_limits`).
        known: outliers that were found before; those and no others where the prediction is wrong.
    """
    before = np.zeros_like(present) if known is None else known
    bad = before.copy()
    for _ in range(PASSES):
        kept = present & ~bad
        if np.any(kept.sum(axis=0) < np.minimum(ENOUGH, present.sum(axis=0))):
            break
        away = deviations(kept)
        limit = _limits(np.where(kept, away, np.where(bad, np.inf, 0.0)), present) if adapt else FAR
        size = np.where(kept, away, 0.0)
        # One outlier in an instant spoils all channels of that instant: compare the worst of each sample.
        most = size.max(axis=1)
        around = np.pad(most, NEAR)
        peak = np.max([around[k : k + most.size] for k in range(2 * NEAR + 1)], axis=0)
        first = (size > limit) & (size == most[:, None]) & (most == peak)[:, None]
        # Both ways in one pass: new outliers are removed, old ones that now fit return.
        change = np.where(bad, away <= limit, first)
        if not change.any():
            break
        bad ^= change
        # Some of them may come back, but not half: with so many the prediction is wrong, and judging goes no further.
        if np.any(bad.sum(axis=0) > 2.0 * _most_outliers(present)):
            break
    return bad if _is_random(bad, present) else before


def _limits(away: Array, present: Mask) -> Array:
    """Deviations (rows,) beyond which readings are outliers, from those of all readings (T, rows).

    ``FAR`` for a row whose large deviations may be chance. In others, at most a share ``FALSE`` of what is taken for
    outliers is noise on average: the false discovery rate of Y. Benjamini and Y. Hochberg (1995). Outliers of four to
    six deviations would otherwise stay, and the residuals of a right model would be too large.
    """
    from scipy.stats import binom, norm

    found = np.full(away.shape[1], FAR)
    for k, count in enumerate(present.sum(axis=0)):
        tails = np.sort(2.0 * norm.sf(away[present[:, k], k]))[: max(int(MOST * count), FEW)]
        order = np.arange(1, tails.size + 1)
        discovered = order[tails <= FALSE * order / max(count, 1)]
        # How often noise alone has so many readings as far as this: any of them may show that outliers are there.
        if discovered.size and binom.sf(order - 1, count, tails).min() < CERTAIN:
            found[k] = min(FAR, float(norm.isf(0.5 * FALSE * discovered[-1] / count)))
    return found


def truncated_squares(deviations: Callable[[Mask], Array], present: Mask, bad: Mask) -> float:
    """Expected square sum of the normal noise that is left out together with outliers, in variances.

    Arguments are those of :func:`find_outliers`, and what it found.
    """
    from scipy.stats import norm

    kept = present & ~bad
    limit = _limits(np.where(kept, deviations(kept), np.where(bad, np.inf, 0.0)), present)
    return float(np.sum(kept.sum(axis=0) * 2.0 * (limit * norm.pdf(limit) + norm.sf(limit))))


def _most_outliers(present: Mask) -> Array:
    """Largest number of outliers in each row (rows,)."""
    most: Array = np.maximum(MOST * present.sum(axis=0), float(FEW))
    return most


def _is_random(bad: Mask, present: Mask) -> bool:
    """Whether bad readings (T, rows) are few in every row, and cluster no more than by chance."""
    count, whole = bad.sum(axis=0), np.maximum(present.sum(axis=0), 1)
    # Expected pairs of neighbours if outliers were spread at random, with a margin of four Poisson deviations.
    together, chance = np.sum(bad[1:] & bad[:-1], axis=0), count**2 / whole
    few = count <= _most_outliers(present)
    return bool(np.all(few & (together <= chance + 4.0 * np.sqrt(chance) + 3.0)))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of each reading by all others: its value, its standard deviation, and that of a reading."""

    value: Array
    spread: Array
    sigma: float

    def deviations(self, row: Array) -> Array:
        """Distance of readings from the prediction in standard deviations; zero where there is no reading."""
        off = np.nan_to_num(np.abs(row - self.value)) / np.hypot(self.spread, self.sigma)
        # Where most readings are off by more than one deviation, the stated noise is too small: scale by the median.
        return off / max(1.0, 1.4826 * float(np.median(off[np.isfinite(row)])))


def find_present(row: Array, name: str, place: str, moves: bool) -> Mask:
    """Mask of readings that are not missing; an error if there is none or, for inputs, too few to fill the gaps."""
    there = np.isfinite(row)
    bad = np.flatnonzero(np.isinf(row) if there.any() else ~there)
    if bad.size:
        raise InputError(f"row {int(bad[0])} of {name!r} is not a finite number ({bad.size} such rows)", place=place,
                         hint="NaN marks a missing reading")  # fmt: skip
    if moves and not there.all() and there.sum() < ENOUGH:
        raise InputError(f"{name!r} has gaps and only {int(there.sum())} readings", place=place,
                         hint=f"gaps are filled in from at least {ENOUGH} readings")  # fmt: skip
    return there


def row_outliers(time: Array, row: Array, sigma: float, edges: Sequence[float] = ()) -> Mask:
    """Outliers among the readings of a row (T,), compared with their neighbours.

    ``sigma`` (0: unknown) is the readings' standard deviation; where they usually are farther off, that counts.
    ``edges``: times, in order, at which the path may have kinks: no reading is compared with one beyond them.
    """
    there = np.isfinite(row)
    if there.sum() < ENOUGH:
        return np.zeros_like(there)

    cuts = [0, *np.unique([*np.searchsorted(time, edges), *_long_gaps(there).ravel()]).astype(int), time.size]
    intervals = [slice(a, b) for a, b in pairwise(cuts) if there[a:b].sum() >= ENOUGH]

    def deviations(kept: Mask) -> Array:
        # In an interval with too few readings none is judged, and those that were left out stay so.
        found = np.where(kept[:, 0], 0.0, np.inf)
        for own in intervals:
            if kept[own].sum() >= ENOUGH:
                rest = np.where(kept[own, 0], row[own], np.nan)
                found[own] = predict_by_neighbours(time[own], rest, sigma).deviations(row[own])
        return found[:, None]

    try:
        return find_outliers(deviations, there[:, None])[:, 0]
    except np.linalg.LinAlgError:
        # So many in a row were left out that nothing is known of the path between: it is wrong, not the readings.
        return np.zeros_like(there)


def _long_gaps(there: Mask) -> npt.NDArray[np.intp]:
    """First missing reading and the next one (gaps, 2) of gaps in which nothing is known of a path."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], there, [True]]).astype(int))).reshape(-1, 2)
    return edges[np.diff(edges, axis=1)[:, 0] > LONG]


def fill_gaps(time: Array, row: Array, sigma: float) -> tuple[Array, Array]:
    """The row with values for missing readings, and the uncertainty of each relative to a reading's."""
    gone = np.isnan(row)
    if not gone.any():
        return row, np.ones(row.size)
    if (long := _long_gaps(~gone)).size:
        most = int(np.diff(long, axis=1).max())
        raise InputError(
            f"{most} readings in a row are missing: too many to fill in", hint=f"expected gaps of at most {LONG}"
        )
    others = predict_by_neighbours(time, row, sigma)
    return np.where(gone, others.value, row), np.where(gone, np.maximum(others.spread / others.sigma, 1.0), 1.0)


def predict_by_neighbours(time: Array, row: Array, sigma: float) -> Prediction:
    """Prediction of every reading (T,) of a row by all others; NaN for missing ones."""
    from scipy.linalg import cho_solve_banded, cholesky_banded
    from scipy.ndimage import median_filter

    there = np.isfinite(row)
    present, sizes = _differences(time[there])
    # Local size of the fourth differences; 1.4826 turns a median of magnitudes into a standard deviation. A median, so
    # that outliers do not count.
    rough = 1.4826 * median_filter(np.abs(np.sum(present * _windows(row[there]), axis=1)), AROUND, mode="reflect")
    sigma = max(sigma or float(np.median(rough)), 1e-12 * float(np.nanmax(np.abs(row))), 1e-300)
    # the variance of a difference that is not noise; over gaps differences are larger, as divided ones are alike
    own = np.maximum((rough / sigma) ** 2 - NOISE, SMOOTH)
    weights, each = _differences(time)
    inner = slice(ORDER // 2, -ORDER // 2)
    own = np.interp(time[inner], time[there][inner], own * sizes**2) / each**2
    band = np.zeros((ORDER + 1, time.size))  # of the inverse covariance of the path, lower
    for i in range(ORDER + 1):
        for j in range(i + 1):
            band[i - j, j : j + own.size] += weights[:, i] * weights[:, j] / own
    # Measured samples add their information (in units of 1 / sigma^2); missing ones add none.
    band[0] += there
    # Banded: the cost is linear in the number of samples.
    lower = cholesky_banded(band, lower=True)
    path = cho_solve_banded((lower, True), np.where(there, row, 0.0))
    variance = _variances(np.ascontiguousarray(lower))
    # 1 - leverage: the residual over it is the deleted residual, without solving anew for each sample.
    rest = np.where(there, np.maximum(1.0 - variance, 1e-9), 1.0)
    value = np.where(there, np.nan_to_num(row) - (np.nan_to_num(row) - path) / rest, path)
    return Prediction(value, sigma * np.sqrt(variance / rest), sigma)


class NoiseVariance(NamedTuple):
    """Variance of white noise, and the number of ``independent`` squares in that mean.

    ``resolved``: noise is told from the motion, which differences of the highest order still show where it was sampled
    too coarsely.
    """

    variance: float
    independent: float
    resolved: bool = True


def noise_from_scatter(time: Array, rows: Array, freedom: int = 0, edges: Sequence[float] = ()) -> NoiseVariance:
    """Variance of white noise on smooth paths (T, k) with the same noise.

    It is the mean square of differences of fourth order, or of a higher one where that is clearly smaller: then the
    lower order still sees the path's curvature (the variate difference method, W. S. Gosset 1914; G. Tintner 1940).
    Differences near one of more than ``STEP`` deviations do not count, nor do paths whose readings are all equal.
    0 of 0 if nothing is left.
    ``freedom``: for one path whose k numbers have noise in this many directions only; ``edges``: times, in order, at
    which paths may have kinks, excluded unless most of the readings would be lost.
    """
    rows = rows[:, [np.nanmax(row, initial=-np.inf) > np.nanmin(row, initial=np.inf) for row in rows.T]]
    there = np.isfinite(rows).all(axis=1)
    if there.sum() < ENOUGH or not rows.shape[1]:
        return NoiseVariance(0.0, 0.0)
    orders = [order for order in range(ORDER, HIGHEST + 1, 2) if there.sum() > 2 * order]
    found = [_difference_variance(time[there], rows[there], order, freedom, edges) for order in orders]
    # Wide differences that fit between few edges and steps say too little to be chosen.
    found = [one for one in found if one[1] > SPARSE * found[0][1]]
    for k, (variance, count) in enumerate(found):
        # The estimates share their readings: their difference has a quarter of the deviation of either, so that one
        # deviation is four of its own.
        more = [v * (1.0 + np.sqrt(2.0 / n)) for v, n in found[k + 1 :]]
        if variance <= min(more, default=np.inf):
            # The highest order is not confirmed by another: noise alone would not have made it so much smaller.
            falls = not more and k > 0 and variance * (1.0 + UNLIKELY * np.sqrt(2.0 / count)) < found[k - 1][0]
            return NoiseVariance(variance, count, not falls)
    return NoiseVariance(0.0, 0.0)


def _difference_variance(
    time: Array, rows: Array, order: int, freedom: int, edges: Sequence[float]
) -> tuple[float, float]:
    """Mean square of the differences of this order, and how many independent squares it has."""
    from scipy.ndimage import maximum_filter1d
    from scipy.stats import chi2

    weights, _ = _differences(time, order)
    squares = np.einsum("tkw,tw->tk", _windows(rows, order), weights) ** 2
    n = freedom or 1
    # Entries of a quaternion are four numbers with noise in three directions: their squares are summed first.
    if freedom:
        squares = np.sum(squares, axis=1, keepdims=True) / n
    # Median of a chi-square variable, corrected to its mean: robust against steps and outliers.
    usual = np.median(squares, axis=0) / chi2.ppf(0.5, n) * n
    usual[usual == 0.0] = np.inf  # most readings repeat, as those of a coarse encoder do
    most = chi2.isf(chi2.sf(STEP**2, 1), n) / n
    # A step spoils all differences that contain it: its neighbours within the window are excluded too.
    good = maximum_filter1d(np.max(squares / usual, axis=1), 2 * order + 1) <= most
    first, last = time[:-order], time[order:]
    whole = good & (np.searchsorted(edges, first, "left") == np.searchsorted(edges, last, "right"))
    good = whole if 2 * whole.sum() > good.sum() else good
    squares, weights = squares[good], weights[good]
    if not squares.size:
        return 0.0, 0.0
    # neighbouring differences share readings: their correlations tell how many squares are independent
    shared = [np.sum(weights[lag:, :-lag] * weights[:-lag, lag:], axis=1) ** 2 for lag in range(1, order + 1)]
    repeated = 1.0 + 2.0 * sum(float(np.sum(part)) for part in shared) / len(squares)
    return float(np.mean(squares)), n * squares.size / repeated


def _windows(row: Array, order: int = ORDER) -> Array:
    return np.lib.stride_tricks.sliding_window_view(row, order + 1, axis=0)


def _differences(time: Array, order: int = ORDER) -> tuple[Array, Array]:
    """Weights (T - order, order + 1) of differences that leave noise its size, and the sizes of the divided ones."""
    # In units of the median step, so that products of gaps neither overflow nor vanish.
    t = _windows(time, order) / float(np.median(np.diff(time)))
    gaps = t[:, :, None] - t[:, None, :] + np.eye(order + 1)
    weights = 1.0 / np.prod(gaps, axis=2)
    sizes = np.linalg.norm(weights, axis=1)
    return weights / sizes[:, None], sizes


@compile_loop
def _variances(lower: Array) -> Array:
    """The diagonal of the inverse of L L^T, L given by its diagonals (K. Takahashi et al. 1973)."""
    order, count = lower.shape[0] - 1, lower.shape[1]
    found, near = np.zeros(count), np.zeros((order, order))
    # From the last column backwards: only a band of the inverse is needed to get its diagonal.
    for j in range(count - 1, -1, -1):
        column = np.zeros(order)
        for i in range(min(order, count - 1 - j)):
            column[i] = lower[i + 1, j] / lower[0, j]
        along = -near @ column
        found[j] = 1.0 / lower[0, j] ** 2 - column @ along
        near[1:, 1:] = near[:-1, :-1].copy()
        near[0, 0] = found[j]
        near[0, 1:] = along[:-1]
        near[1:, 0] = along[:-1]
    return found
