"""Smooth paths through encoder readings: splines of degree 5 with as few pieces as the data justify.

A path must be differentiated twice before it drives a model, which makes rough interpolation useless: the noise of an
encoder would become an acceleration. The number of pieces is the one with the least Bayesian information criterion.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.model.parts import Array
from spacearm.simulate import Signal, from_ppoly

DEGREE = 5
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


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
    best: tuple[float, Signal] | None = None
    worse = 0
    for count in (pieces,) if pieces else [n for n in _PIECES if n <= most]:
        signal, misfit = _fit(local, v, count, degree, from_rest)
        free = count + degree - int(from_rest)
        floor = 1e-28 * max(float(np.max(np.abs(v))), 1e-3) ** 2 * t.size  # rounding of the readings
        if sigma is not None:
            score = max(misfit, floor) / sigma**2 + free * np.log(t.size)
        else:
            score = t.size * np.log(max(misfit, floor) / t.size) + free * np.log(t.size)
        if best is None or score < best[0]:
            best, worse = (score, signal), 0
        else:
            worse += 1
        if misfit <= floor or worse >= 2:
            break
    assert best is not None
    return best[1]


def _fit(t: Array, v: Array, pieces: int, degree: int, from_rest: bool) -> tuple[Signal, float]:
    from scipy.interpolate import BSpline, PPoly

    knots = np.concatenate([np.zeros(degree), np.linspace(0.0, t[-1], pieces + 1), np.full(degree, t[-1])])
    columns = BSpline.design_matrix(t, knots, degree).toarray()
    if from_rest:  # the rate at the start is proportional to the difference of the first two coefficients
        columns = np.concatenate([columns[:, :1] + columns[:, 1:2], columns[:, 2:]], axis=1)
    found = np.linalg.lstsq(columns, v, rcond=None)[0]
    misfit = float(np.sum((columns @ found - v) ** 2))
    if from_rest:
        found = np.concatenate([found[:1], found])
    polynomial = PPoly.from_spline(BSpline(knots, found, degree))
    whole = np.diff(polynomial.x) > 0
    edges = np.concatenate([polynomial.x[:-1][whole], polynomial.x[-1:]])
    return from_ppoly(PPoly(polynomial.c[:, whole], edges)), misfit
