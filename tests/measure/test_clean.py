"""Noise from the scatter of readings: white noise of a known size on a path of a known form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from spacearm.errors import InputError
from spacearm.measure.clean import fill_gaps, find_outliers, noise_from_scatter, row_outliers, truncated_squares
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
        variance, independent, _ = noise_from_scatter(time, row[:, None])
        errors.append((variance / 0.02**2 - 1.0) / np.sqrt(2.0 / independent))
    assert abs(np.mean(errors)) < 0.6
    assert 0.7 < np.std(errors) < 1.3


def test_neighbouring_differences_are_not_independent() -> None:
    """Of fourth differences of white noise at equal steps: the squares of all correlations sum up to 2.6265."""
    row = np.random.default_rng(0).normal(size=(10_000, 1))
    variance, independent, _ = noise_from_scatter(np.arange(10_000.0), row)
    assert 10_000.0 / independent == pytest.approx(1.0 + 2.0 * (56**2 + 28**2 + 8**2 + 1) / 70**2, rel=2e-3)
    assert variance == pytest.approx(1.0, abs=4.0 * np.sqrt(2.0 / independent))


def test_few_or_equal_readings_tell_nothing_and_coarse_ones_their_steps() -> None:
    time = np.arange(400.0)
    assert noise_from_scatter(time[:8], time[:8, None] ** 5).independent == 0.0
    assert noise_from_scatter(time, np.full((400, 1), 0.3)).variance == 0.0
    coarse = np.round(0.01 * time)[:, None]  # most differences are zero
    assert noise_from_scatter(time, coarse)[0] > 0.0


@pytest.mark.parametrize(("step", "resolved"), [(0.1, True), (0.4, True), (0.8, False)])
def test_noise_is_told_from_a_motion_that_is_read_seldom(step: float, resolved: bool) -> None:
    """8 and 4 readings in a period of the faster wave, 300 and 40 times the noise; what 4 show is the motion."""
    errors = []
    for seed in range(20):
        time = np.arange(300) * step
        row = path(time) + 1e-3 * np.random.default_rng(seed).normal(size=300)
        variance, independent, notes = noise_from_scatter(time, row[:, None])
        assert notes == resolved
        errors.append((variance / 1e-6 - 1.0) / np.sqrt(2.0 / independent))
    assert (abs(np.mean(errors)) < 0.7) == resolved
    assert not resolved or 0.7 < np.std(errors) < 1.3


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_path_that_starts_at_once_has_no_outliers(order: int) -> None:
    """A step, a ramp and a parabola that begin in the middle, a hundred deviations of the noise within a second."""
    time = np.arange(300) * 0.1
    row = np.where(time > 14.95, 1e-2 * np.maximum(time - 14.95, 0.0) ** order, 0.0)
    row = row + 1e-4 * np.random.default_rng(order).normal(size=300)
    assert not row_outliers(time, row, 1e-4).any()


def test_one_of_twenty_readings_far_off_is_found_and_no_good_one_is_blamed() -> None:
    """Sizes from 15 to 400 deviations, over 20 rows of 400; a run of bad ones is a wrong path, not outliers."""
    time, missed, blamed = np.arange(400) * 0.05, 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        hit = rng.random(400) < 0.05
        off = np.where(hit, rng.choice([-1.0, 1.0], 400) * rng.uniform(15.0, 400.0, 400), 0.0)
        found = row_outliers(time, path(time) + 1e-3 * (rng.normal(size=400) + off), 1e-3)
        missed, blamed = missed + int(np.sum(hit & ~found)), blamed + int(np.sum(found & ~hit))
    assert missed <= 2
    assert blamed <= 2


def test_many_or_neighbouring_readings_that_a_model_misses_are_no_outliers() -> None:
    rng = np.random.default_rng(0)
    residual = rng.normal(size=(500, 2))
    there = np.ones(residual.shape, dtype=bool)

    def found(bad: Array) -> int:
        return int(find_outliers(lambda kept: np.where(kept, np.abs(residual + bad), np.inf), there).sum())

    single, run, many = (np.zeros(residual.shape) for _ in range(3))
    single[[30, 90, 300], [0, 1, 0]] = 12.0
    run[100:120, 0] = 12.0
    many[rng.random(500) < 0.3, 1] = 12.0
    assert [found(bad) for bad in (single, run, many)] == [3, 0, 0]


def test_outliers_of_four_to_six_deviations_are_found_where_there_are_many() -> None:
    """The same deviations in a row without others may be chance, and no row of noise alone loses a reading."""
    rng, rows = np.random.default_rng(0), 20
    residual = rng.normal(size=(500, rows))
    hit = rng.random(residual.shape) < 0.05
    hit[:, 10:] = False
    off = np.where(hit, rng.choice([-1.0, 1.0], residual.shape) * rng.uniform(4.0, 6.0, residual.shape), residual)
    there = np.ones(residual.shape, dtype=bool)
    found = find_outliers(lambda kept: np.where(kept, np.abs(off), np.inf), there, adapt=True)
    assert found[hit].all()
    assert not found[:, 10:].any()
    assert np.sum(found & ~hit) <= 0.1 * hit.sum() + 3.0 * np.sqrt(0.1 * hit.sum())
    less = truncated_squares(lambda kept: np.where(kept, np.abs(off), np.inf), there, found)
    # A tenth of what is found may be noise: E[z^2] beyond that limit, of ten rows of 475 readings, by quadrature
    limit = norm.isf(0.5 * 0.1 * found[:, :10].mean())
    assert less == pytest.approx(4750 * 2.0 * quad(lambda z: z**2 * norm.pdf(z), limit, 20.0)[0], rel=0.05)
    single = residual.copy()
    single[250, :] = np.where(np.arange(rows) < 10, 4.5, 7.0)
    again = find_outliers(lambda kept: np.where(kept, np.abs(single), np.inf), there, adapt=True)
    assert not again[:, :10].any()
    assert again[250, 10:].all()
    assert again.sum() <= 10 + 4  # with one outlier in each of ten rows, one more may be noise, on average


@pytest.mark.parametrize("sigma", [0.0, 1e-4])
def test_a_long_gap_is_no_reason_to_judge_nothing(sigma: float) -> None:
    """500 of 3000 readings are missing in a row, which left the path's equations singular; both sides are judged."""
    time = np.arange(3000) * 1e-3
    row = path(time) + 1e-4 * np.random.default_rng(0).normal(size=3000)
    whole = row.copy()
    row[1000:1500] = np.nan
    row[[400, 2200]] += 0.01
    assert np.flatnonzero(row_outliers(time, row, sigma)).tolist() == [400, 2200]
    with pytest.raises(InputError, match="500 readings in a row are missing"):
        fill_gaps(time, row, sigma)
    row[1050:] = whole[1050:]
    filled, doubt = fill_gaps(time, row, sigma)
    assert np.abs(filled - path(time))[1000:1050].max() < 1e-3
    assert doubt.max() > 1.0


def test_a_slow_coarse_encoder_is_not_judged_by_rounding() -> None:
    """Most readings repeat, so that the noise seems to be none; what is left out in a row left singular equations."""
    time = np.arange(30_000) * 1e-3
    slow = np.cumsum(np.maximum(np.sin(0.9 * time), 0.0) * np.sin(0.21 * time) ** 2) * 1e-3
    row = np.round(slow / 3e-3) * 3e-3
    assert not row_outliers(time, row, 0.0).any()
