"""Smooth paths through encoder readings: splines of degree 5 with as few pieces as the data justify.

A path must be differentiated twice before it drives a model, which makes rough interpolation useless: the noise of an
encoder would become an acceleration. The number of pieces is the one with the least Bayesian information criterion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.simulate import Signal, from_ppoly
from spacearm.typing import Array

DEGREE = 5
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A path through noisy readings, and how it may be wrong.

    ``deviations`` are independent errors of the path, one standard deviation each: the true path is the signal minus
    their sum with standard normal factors u. ``share`` (T, deviations) is the covariance of the readings' errors, in
    ``sigma`` (rad, of one reading), with u; the deviations at the times of the readings are ``sigma * share``.
    """

    signal: Signal
    deviations: tuple[Signal, ...]
    share: Array
    sigma: float

    def moved(self, deviation: int) -> Signal:
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

    The path's clock starts with the first reading.
    """
    return smoothed(time, values, sigma=sigma, from_rest=from_rest, pieces=pieces).signal


def smoothed(
    time: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    sigma: float | None = None,
    from_rest: bool = False,
    pieces: int | None = None,
) -> Smoothed:
    """The same with its errors."""
    t, v = np.asarray(time, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if t.ndim != 1 or t.shape != v.shape or t.size < 3:
        raise InputError(f"times {t.shape}, values {v.shape}", place="path", hint="expected three readings or more")
    if not (np.all(np.isfinite(t)) and np.all(np.isfinite(v))):
        raise InputError("holds numbers that are not finite", place="path", hint="leave such rows out")
    if np.any(np.diff(t) <= 0):
        raise InputError("times do not rise", place="path")
    local = t - t[0]
    degree = min(DEGREE, t.size - 1)
    most = max(1, t.size // 3)
    best: tuple[float, _Spline] | None = None
    worse = 0
    floor = 1e-28 * max(float(np.max(np.abs(v))), 1e-3) ** 2 * t.size  # rounding of the readings
    for count in (pieces,) if pieces else [n for n in _PIECES if n <= most]:
        spline = _fit(local, v, count, degree, from_rest)
        free = spline.found.size
        if sigma is not None:
            score = max(spline.misfit, floor) / sigma**2 + free * np.log(t.size)
        else:
            score = t.size * np.log(max(spline.misfit, floor) / t.size) + free * np.log(t.size)
        if best is None or score < best[0]:
            best, worse = (score, spline), 0
        else:
            worse += 1
        if spline.misfit <= floor or worse >= 2:
            break
    assert best is not None
    return best[1].smoothed(sigma)


@dataclass(frozen=True, eq=False)
class _Spline:
    """Coefficients by least squares, on columns of a spline basis."""

    knots: Array
    degree: int
    from_rest: bool
    columns: Array
    found: Array
    misfit: float

    def signal(self, coefficients: Array) -> Signal:
        from scipy.interpolate import BSpline, PPoly

        if self.from_rest:
            coefficients = np.concatenate([coefficients[:1], coefficients])
        polynomial = PPoly.from_spline(BSpline(self.knots, coefficients, self.degree))
        whole = np.diff(polynomial.x) > 0
        edges = np.concatenate([polynomial.x[:-1][whole], polynomial.x[-1:]])
        return from_ppoly(PPoly(polynomial.c[:, whole], edges))

    def smoothed(self, sigma: float | None) -> Smoothed:
        if sigma is None:
            sigma = float(np.sqrt(self.misfit / max(len(self.columns) - self.found.size, 1)))
        # With columns = Q R the coefficients' errors are sigma inv(R) u, and u = Q^T (errors of the readings) / sigma.
        share, triangle = np.linalg.qr(self.columns)
        size = np.abs(np.diag(triangle))
        if np.any(size <= 1e-12 * size.max()):  # readings too few or too uneven for this basis: nothing to tell from
            return Smoothed(self.signal(self.found), (), share[:, :0], sigma)
        errors = sigma * np.linalg.inv(triangle)
        deviations = tuple(self.signal(column) for column in errors.T)
        return Smoothed(self.signal(self.found), deviations, share, sigma)


def _fit(t: Array, v: Array, pieces: int, degree: int, from_rest: bool) -> _Spline:
    from scipy.interpolate import BSpline

    knots = np.concatenate([np.zeros(degree), np.linspace(0.0, t[-1], pieces + 1), np.full(degree, t[-1])])
    columns = BSpline.design_matrix(t, knots, degree).toarray()
    if from_rest:  # the rate at the start is proportional to the difference of the first two coefficients
        columns = np.concatenate([columns[:, :1] + columns[:, 1:2], columns[:, 2:]], axis=1)
    found = np.linalg.lstsq(columns, v, rcond=None)[0]
    return _Spline(knots, degree, from_rest, columns, found, float(np.sum((columns @ found - v) ** 2)))
