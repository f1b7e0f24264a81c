"""Noise from the scatter of readings: white noise of a known size on a path of a known form."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.identify.neighbours import scatter
from spacearm.typing import Array


def path(time: Array) -> Array:
    return np.sin(0.7 * time) + 0.3 * np.cos(1.9 * time)


@pytest.mark.parametrize("outlier", [12.0, 1e4])
def test_the_variance_scatters_as_it_says(outlier: float) -> None:
    """Irregular times, 3 % missing, 1 % outliers, over 40 seeds; 0.02 deviations of noise on a path of one."""
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        time = np.cumsum(rng.uniform(0.02, 0.06, 2000))
        row = path(time) + 0.02 * rng.normal(size=time.size)
        row[rng.random(time.size) < 0.01] += 0.02 * outlier
        row[rng.random(time.size) < 0.03] = np.nan
        variance, independent = scatter(time, row[:, None])
        errors.append((variance / 0.02**2 - 1.0) / np.sqrt(2.0 / independent))
    assert abs(np.mean(errors)) < 0.6
    assert 0.7 < np.std(errors) < 1.3


def test_neighbouring_differences_are_not_independent() -> None:
    """Of fourth differences of white noise at equal steps: the squares of all correlations sum up to 2.6265."""
    row = np.random.default_rng(0).normal(size=(10_000, 1))
    variance, independent = scatter(np.arange(10_000.0), row)
    assert 10_000.0 / independent == pytest.approx(1.0 + 2.0 * (56**2 + 28**2 + 8**2 + 1) / 70**2, rel=2e-3)
    assert variance == pytest.approx(1.0, abs=4.0 * np.sqrt(2.0 / independent))


def test_few_or_equal_readings_tell_nothing_and_coarse_ones_their_steps() -> None:
    time = np.arange(400.0)
    assert scatter(time[:8], time[:8, None] ** 5) == (0.0, 0.0)
    assert scatter(time, np.full((400, 1), 0.3)) == (0.0, 0.0)
    coarse = np.round(0.01 * time)[:, None]  # most differences are zero
    assert scatter(time, coarse)[0] > 0.0
