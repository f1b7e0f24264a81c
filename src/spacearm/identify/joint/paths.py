"""Smooth paths through encoder readings, and the effect of their errors on a fit.

A path is differentiated twice before it drives a model, so interpolation is useless: the noise of an encoder, divided
by the square of the sample interval, would become an acceleration. A path is therefore a least-squares B-spline of
degree 5 (continuous jerk) with as few equal pieces as the data justify: their number minimises the Bayesian information
criterion (G. Schwarz, 1978).

A smoothed path is still wrong by a few slow deviations, one for each spline coefficient. They move the model, and they
are correlated with the noise of measured channels that were computed from the same encoder's readings. The residuals of
a test, whitened by the noise of its samples, have the covariance ``1 + P diag(gain) P^T`` with few orthonormal columns
P (T channels, 2 deviations), so that its inverse root is applied at the cost of two thin products.

Units: rad and s, or N m for torques; the path's clock starts at the first reading. Nothing here holds where a motor did
not follow a smooth curve: then :mod:`~spacearm.identify.joint._input_errors` applies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_increasing
from spacearm.measure.clean import fill_gaps, find_present
from spacearm.simulate import Signal
from spacearm.simulate.signals import from_ppoly
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.joint.problem import JointProblem

DEGREE = 5
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, eq=False)
class SmoothedPath:
    """A path through noisy readings, and how it may be wrong.

    ``deviations`` are independent errors of the path, one standard deviation each: the true path is the signal minus
    their sum with standard normal factors u. ``share`` (T, deviations) is the covariance of the readings' errors, in
    ``sigma`` (rad, of one reading), with u; the deviations at the times of the ``readings`` are ``sigma * share``.
    Where there was no reading, one is filled in that is ``doubt`` (T,) times as uncertain.
    """

    signal: Signal
    deviations: tuple[Signal, ...]
    share: Array
    sigma: float
    readings: Array
    doubt: Array

    def add_deviation(self, deviation: int) -> Signal:
        """The path with one of its deviations added."""
        return Signal(self.signal.breaks, self.signal.coefficients + self.deviations[deviation].coefficients)


def smooth_path(
    time: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    sigma: float | None = None,
    from_rest: bool = False,
    pieces: int | None = None,
) -> Signal:
    """The spline through readings at ``time`` (s, rising; need not be regular).

    Args:
        sigma: standard deviation of one reading; None: unknown, taken from the fit.
        from_rest: the rate at the first reading is zero.
        pieces: number of equal pieces, to be chosen by hand.

    NaN stands where a reading is missing. The path's clock starts with the first reading.
    """
    return smooth_with_errors(time, values, sigma=sigma, from_rest=from_rest, pieces=pieces).signal


def add_signals(first: Signal, second: Signal) -> Signal:
    """The sum of two paths from 0 to the same end."""
    breaks = np.union1d(first.breaks, second.breaks)
    # Breaks that differ by rounding only would make pieces of no length.
    breaks = breaks[np.concatenate([np.diff(breaks) > 1e-9 * breaks[-1], [True]])]
    breaks[0], rows = 0.0, []
    # Taylor coefficients at the start of each piece: exact for polynomials, whatever the degrees of the two.
    for power in range(max(len(first.coefficients), len(second.coefficients))):
        rows.append((first(breaks[:-1]) + second(breaks[:-1])) / math.factorial(power))
        first, second = first.derivative(), second.derivative()
    return Signal(breaks, np.array(rows))


def smooth_with_errors(
    time: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    sigma: float | None = None,
    from_rest: bool = False,
    pieces: int | None = None,
) -> SmoothedPath:
    """The smooth path of :func:`smooth_path`, with the independent deviations by which it may be wrong."""
    t = check_increasing(time, "times", count=3, place="path")
    rows = array(values, "values", t.shape, finite=False, place="path")
    find_present(rows, "values", "path", True)
    v, doubt = fill_gaps(t, rows, sigma or 0.0)
    local = t - t[0]
    degree = min(DEGREE, t.size - 1)
    # At least three readings for each piece.
    most = max(1, t.size // 3)
    best: tuple[float, _Spline] | None = None
    worse = 0
    floor = 1e-28 * max(float(np.max(np.abs(v))), 1e-3) ** 2 * t.size  # rounding of the readings
    for count in (pieces,) if pieces else [n for n in _PIECES if n <= most]:
        spline = _fit(local, v, doubt, count, degree, from_rest)
        free = spline.found.size
        if sigma is not None:
            # BIC with known noise: chi-square plus parameters times log of the readings; below, its form for unknown
            # noise.
            score = max(spline.misfit, floor) / sigma**2 + free * np.log(t.size)
        else:
            score = t.size * np.log(max(spline.misfit, floor) / t.size) + free * np.log(t.size)
        if best is None or score < best[0]:
            best, worse = (score, spline), 0
        else:
            worse += 1
        # The criterion has one minimum in practice: two worse ones in a row end the search.
        if spline.misfit <= floor or worse >= 2:
            break
    assert best is not None
    return best[1].estimate_errors(sigma, v)


@dataclass(frozen=True, eq=False)
class _Spline:
    """Coefficients by least squares, on columns of a spline basis weighted by 1 / ``doubt``."""

    knots: Array
    degree: int
    from_rest: bool
    columns: Array
    found: Array
    misfit: float
    doubt: Array

    def signal(self, coefficients: Array) -> Signal:
        from scipy.interpolate import BSpline, PPoly

        if self.from_rest:
            # Rate zero at the start: the first two coefficients of a clamped B-spline are equal.
            coefficients = np.concatenate([coefficients[:1], coefficients])
        polynomial = PPoly.from_spline(BSpline(self.knots, coefficients, self.degree))
        # The repeated end knots of a clamped spline make empty pieces.
        whole = np.diff(polynomial.x) > 0
        edges = np.concatenate([polynomial.x[:-1][whole], polynomial.x[-1:]])
        return from_ppoly(PPoly(polynomial.c[:, whole], edges))

    def estimate_errors(self, sigma: float | None, readings: Array) -> SmoothedPath:
        if sigma is None:
            sigma = float(np.sqrt(self.misfit / max(len(self.columns) - self.found.size, 1)))
        # With columns = Q R the coefficients' errors are sigma inv(R) u, and u = Q^T (errors of the readings) / sigma.
        share, triangle = np.linalg.qr(self.columns)
        share = share * self.doubt[:, None]
        size = np.abs(np.diag(triangle))
        if np.any(size <= 1e-12 * size.max()):  # readings too few or too uneven for this basis: nothing to tell from
            return SmoothedPath(self.signal(self.found), (), share[:, :0], sigma, readings, self.doubt)
        errors = sigma * np.linalg.inv(triangle)
        deviations = tuple(self.signal(column) for column in errors.T)
        return SmoothedPath(self.signal(self.found), deviations, share, sigma, readings, self.doubt)


def _fit(t: Array, v: Array, doubt: Array, pieces: int, degree: int, from_rest: bool) -> _Spline:
    """The spline of least squares through readings that are ``doubt`` times as uncertain as usual."""
    from scipy.interpolate import BSpline

    knots = np.concatenate([np.zeros(degree), np.linspace(0.0, t[-1], pieces + 1), np.full(degree, t[-1])])
    columns = BSpline.design_matrix(t, knots, degree).toarray()
    if from_rest:  # the rate at the start is proportional to the difference of the first two coefficients
        columns = np.concatenate([columns[:, :1] + columns[:, 1:2], columns[:, 2:]], axis=1)
    columns, v = columns / doubt[:, None], v / doubt
    found = np.linalg.lstsq(columns, v, rcond=None)[0]
    return _Spline(knots, degree, from_rest, columns, found, float(np.sum((columns @ found - v) ** 2)), doubt)


@dataclass(frozen=True, eq=False)
class PathErrors:
    """Covariance ``1 + basis diag(gain) basis^T`` of one test's whitened residuals, flat."""

    basis: Array
    gain: Array
    shift: float = 0.0
    unknown: int = 0

    def whiten_rows(self, rows: Array) -> Array:
        """Rows (T, c, ...) times the inverse root of the covariance."""
        return self._scale_rows(rows, 1.0 / np.sqrt(1.0 + self.gain))

    def colour_rows(self, rows: Array) -> Array:
        """Rows (T, c, ...) times the root of the covariance."""
        return self._scale_rows(rows, np.sqrt(1.0 + self.gain))

    # f(1 + P g P^T) = 1 + P (f(1 + g) - 1) P^T for orthonormal P: roots and inverses act on the few columns only.
    def _scale_rows(self, rows: Array, factor: Array) -> Array:
        flat = rows.reshape(len(self.basis), math.prod(rows.shape[2:]))
        moved: Array = flat + self.basis @ ((factor - 1.0)[:, None] * (self.basis.T @ flat))
        return moved.reshape(rows.shape)

    @property
    def log_determinant(self) -> float:
        return float(np.sum(np.log1p(self.gain)))


def path_errors(model: JointProblem, x: Array, test: int) -> PathErrors | None:
    """The covariance about the values ``x``, one run for each deviation; None where every path is exact."""
    rows = model.compute_raw_residuals(x, test)[0]
    size = max(np.sqrt(model.variance(x)), 1e-300)
    moves, shares = [], []
    for (kind, joint), path in model.smoothed[test].items():
        for k in range(len(path.deviations)):
            # A run for each deviation, of one standard deviation: a finite difference of just the size that matters.
            forward = model.forwards[test].with_input(kind, joint, path.add_deviation(k))
            moves.append(model.compute_raw_residuals(x, test, forward=forward)[0] - rows)
            shares.append(_covariance_with_channels(model, test, kind, joint, path, k))
    if not moves:
        return None
    with_noise, alone = (
        np.stack([model.whiten_samples(test, part).ravel() for part in parts], axis=1) / size
        for parts in (shares, [move - share for move, share in zip(moves, shares, strict=True)])
    )
    if not np.all(np.isfinite(alone)):  # a candidate that cannot be followed to the end
        return None
    # Cov(move u - noise) = 1 - share move^T - move share^T + move move^T
    basis, triangle = np.linalg.qr(np.concatenate([alone, with_noise], axis=1))
    half = alone.shape[1]
    gain, axes = np.linalg.eigh(triangle[:, :half] @ triangle[:, :half].T - triangle[:, half:] @ triangle[:, half:].T)
    # Gains above -1 keep the covariance positive definite, also where stated noises contradict each other.
    return PathErrors(basis @ axes, np.maximum(gain, 1e-9 - 1.0))


def _covariance_with_channels(
    model: JointProblem, test: int, kind: str, joint: str, path: SmoothedPath, deviation: int
) -> Array:
    """Covariance (T, channels) of the measured channels' noise with one deviation."""
    seen = model.tests[test]
    found = np.zeros((seen.time.size, len(seen.measured)))
    if kind == "path":
        for column, channel in enumerate(seen.measured):
            factor = 1.0 if channel == joint else seen.shares.get(channel, {}).get(joint, 0.0)
            found[:, column] = factor * path.sigma * path.share[:, deviation]
    return found
