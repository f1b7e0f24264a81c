"""Scatter between stretches of data, held against formulas and against repetitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.signal import lfilter
from scipy.stats import chi2, f, kstest

from spacearm.identify.inertia.output_error import Score
from spacearm.optimise.overconfidence import _mean_tail, interval_factors, scatter, square_sum_tail
from spacearm.typing import Array

RNG = np.random.default_rng(5)
COLUMNS = RNG.normal(size=(600, 5)) * np.linspace(0.2, 2.0, 600)[:, None]
COVARIANCE = np.linalg.inv(COLUMNS.T @ COLUMNS)


def judged(noise: Array, count: int = 3) -> tuple[float, float]:
    """Of a linear regression with these errors."""
    found = scatter(noise - COLUMNS @ (COVARIANCE @ (COLUMNS.T @ noise)), COLUMNS, COVARIANCE, count)
    return found.ratio, found.p_value


@pytest.mark.parametrize("freedom", [1, 3, 30, 300])
def test_the_tail_is_that_of_chi_square(freedom: int) -> None:
    for share in (0.3, 1e-2, 1e-5):
        total = float(chi2.isf(share, freedom))
        assert square_sum_tail(2.0 * total, np.full(freedom, 2.0)) == pytest.approx(share, rel=0.1)


def test_the_tail_of_unequal_weights_is_imhofs_integral() -> None:
    """J. P. Imhof, Computing the distribution of quadratic forms in normal variables, Biometrika 48 (1961), Eq. 3.2."""
    weights = np.array([5.0, 1.0, 1.0, 0.2])

    def integrand(u: float, total: float) -> float:
        angle = 0.5 * np.sum(np.arctan(weights * u)) - 0.5 * total * u
        return float(np.sin(angle) / (u * np.prod((1.0 + (weights * u) ** 2) ** 0.25)))

    for total in (8.0, 20.0, 40.0, 60.0):
        exact = 0.5 + quad(integrand, 0.0, 60.0, (total,), limit=2000)[0] / np.pi
        assert square_sum_tail(total, weights) == pytest.approx(exact, rel=0.08)


def test_white_errors_scatter_as_claimed() -> None:
    found = np.array([judged(RNG.normal(size=600)) for _ in range(300)])
    assert found[:, 0].mean() == pytest.approx(1.0, abs=0.05)
    upper = found[found[:, 1] < 0.45, 1]  # below its mean the sum is not told apart
    assert kstest(upper / 0.45, "uniform").pvalue > 1e-3
    assert found[:, 1].min() > 1e-4


def test_slow_errors_scatter_more() -> None:
    """Of variance one altogether, with a memory of ten samples: the variance of sums is nineteen times as large."""
    slow = [lfilter([np.sqrt(0.19)], [1.0, -0.9], RNG.normal(size=800))[200:] for _ in range(20)]
    found = np.array([judged(noise) for noise in slow])
    assert np.median(found[:, 0]) > 0.8  # regressors that are white do not feel it
    flat = np.ones((600, 1))
    ratios = [scatter(noise - noise.mean(), flat, np.array([[1 / 600]]), 1).ratio for noise in slow]
    assert 9.0 < np.median(ratios) < 25.0


def test_what_is_held_is_not_judged() -> None:
    """Zero variance along a parameter that was not looked for; nothing at all with one stretch."""
    noise = RNG.normal(size=600)
    inner = np.linalg.inv(COLUMNS[:, 1:].T @ COLUMNS[:, 1:])
    rest = noise - COLUMNS[:, 1:] @ (inner @ (COLUMNS[:, 1:].T @ noise))
    whole = np.zeros((5, 5))
    whole[1:, 1:] = inner
    held = scatter(rest, COLUMNS, whole, 3)
    assert held.ratio == pytest.approx(scatter(rest, COLUMNS[:, 1:], inner, 2).ratio, rel=1e-9)
    assert scatter(rest, COLUMNS[:, 1:], inner, 4, intervals=1).p_value == 1.0


def test_a_variance_that_is_an_estimate_is_counted() -> None:
    """Sums of squares over an estimated variance: 50,000 drawn numbers against the mean of the tails."""
    rng, weights, doubt = np.random.default_rng(5), np.array([1.0, 0.5, 0.25]), 0.2
    free = 2.0 / doubt**2
    sums = (rng.standard_normal((50_000, 3)) ** 2) @ weights
    drawn = sums / (rng.chisquare(free, 50_000) / free)
    level = float(np.quantile(drawn, 0.99))
    assert _mean_tail(level, weights, doubt) == pytest.approx(0.01, rel=0.25)
    assert _mean_tail(level, weights, 0.0) < 0.9 * _mean_tail(level, weights, doubt)
    assert Score("a", 9.0, 3, doubt=doubt).p_value == pytest.approx(f.sf(3.0, 3, free))


@pytest.mark.parametrize(("memory", "worst", "least"), [(0.9, 0.45, 0.9), (0.98, 0.25, 0.8)])
def test_intervals_of_coloured_residuals_cover(memory: float, worst: float, least: float) -> None:
    """The mean of noise with a memory of 10 and of 50 samples, the length of an interval: its white-noise intervals are
    4.4 and 10 times too small."""
    flat, own = np.ones((600, 1)), np.array([[1.0 / 600.0]])
    inside = []
    for _ in range(300):
        noise = lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], RNG.normal(size=800))[200:]
        factor = interval_factors(noise - noise.mean(), flat, own)[0]
        inside.append([abs(noise.mean()) < 1.96 * np.sqrt(own[0, 0]) * wide for wide in (1.0, factor)])
    before, now = np.mean(inside, axis=0)
    assert before < worst
    assert now > least


def test_intervals_of_white_residuals_hardly_grow() -> None:
    """Deviations by twelve intervals are themselves known to a fifth; no parameter is claimed to be better known.

    Student's quantile alone makes 12 % of it, the choice of the largest of two the rest. Only coloured residuals are
    widened by it.
    """
    factors = []
    for _ in range(100):
        noise = RNG.normal(size=600)
        residual = noise - COLUMNS @ (COVARIANCE @ (COLUMNS.T @ noise))
        factors.append(interval_factors(residual, COLUMNS, COVARIANCE))
    assert np.min(factors) >= 1.0
    assert np.mean(factors) < 1.25
    undetermined = interval_factors(np.ones(600), COLUMNS, np.diag([np.inf, *np.diag(COVARIANCE)[1:]]))
    assert undetermined[0] == 1.0
