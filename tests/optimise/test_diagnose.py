"""Diagnostics of estimates, on straight lines through points whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from spacearm.errors import InputError
from spacearm.optimise import Block, LeastSquares, Parameter, Problem, diagnose
from spacearm.optimise.diagnose import whiteness
from spacearm.optimise.information import Information

T = np.linspace(0.0, 10.0, 200)
SIGMA = 0.1


def line(seed: int, wave: float = 0.0, stated: float | None = SIGMA, **more: float) -> Problem:
    """Two sensors on one line, the second four times as rough; ``wave`` is what the model lacks in the first."""
    rng = np.random.default_rng(seed)

    def block(name: str, size: float, extra: np.ndarray) -> Block:
        data = 1.0 - 0.3 * T + extra + size * SIGMA * rng.standard_normal(T.size)
        sigma = None if stated is None else size * stated
        return Block(lambda x: x[0] + x[1] * T - data, sigma=sigma, name=name, channels=("height",))

    blocks = [block("fine", 1.0, wave * np.sin(T)), block("rough", 4.0, np.zeros_like(T))]
    return Problem([Parameter("start", 0.0, "m", **more), Parameter("slope", 0.0, "m/s")], blocks)


def test_a_right_model_is_sound_but_for_the_level() -> None:
    found = [diagnose(LeastSquares().solve(line(seed))) for seed in range(60)]
    assert sum(not one.sound for one in found) <= 5  # each of four checks fails once in two hundred cases
    ratios = np.array([one.chi_square.ratio for one in found])
    assert stats.kstest(ratios * found[0].freedom, stats.chi2(2 * T.size - 2).cdf).pvalue > 1e-3
    low, high = found[0].chi_square.bounds()
    assert np.mean((ratios > low) & (ratios < high)) >= 0.95


def test_each_block_and_channel_is_judged_by_itself() -> None:
    found = diagnose(LeastSquares().solve(line(1, wave=0.3)))
    failed = {name for name, check in found.certificate().items() if not check.sound}
    assert {"chi_square.fine", "whiteness.fine.height"} <= failed
    assert not failed & {"chi_square.rough", "whiteness.rough.height", "converged", "on_bounds"}
    assert not found.sound
    assert found.blocks["fine"].ratio > 4.0
    assert found.blocks["rough"].ratio == pytest.approx(1.0, abs=0.3)


def test_noise_stated_too_large_or_too_small_is_not_sound() -> None:
    for stated in (0.7 * SIGMA, 1.4 * SIGMA):
        assert not diagnose(LeastSquares().solve(line(2, stated=stated))).sound
    assert diagnose(LeastSquares().solve(line(2, stated=None))).sound  # nothing is claimed


def test_a_value_on_its_bound_is_told() -> None:
    found = diagnose(LeastSquares().solve(line(3, lower=-1.0, upper=0.9)))
    assert found.parameters_on_bounds == ("start",)
    assert not found.certificate()["on_bounds"].sound


def test_a_prior_counts_as_one_more_reading() -> None:
    """Against the closed form: precisions add."""
    plain = LeastSquares().solve(line(4))
    assumed = Problem([Parameter("start", 0.0, "m", prior=(2.0, 0.05)), Parameter("slope", 0.0)], line(4).blocks)
    found = LeastSquares().solve(assumed)
    assert plain.covariance is not None
    precision = np.linalg.inv(plain.covariance) + np.diag([1 / 0.05**2, 0.0])
    expected = np.linalg.solve(precision, np.linalg.inv(plain.covariance) @ plain.values + [2.0 / 0.05**2, 0.0])
    assert found.values == pytest.approx(expected, rel=1e-8)
    assert found.covariance == pytest.approx(np.linalg.inv(precision), rel=1e-6)
    with pytest.raises(InputError, match="unknown noise"):
        Problem(assumed.parameters, line(4, stated=None).blocks)


def test_blocks_of_known_and_unknown_noise_do_not_mix() -> None:
    with pytest.raises(InputError, match="some blocks have known noise"):
        Problem(line(0).parameters, [line(0).blocks[0], line(0, stated=None).blocks[1]])
    with pytest.raises(InputError, match="share a name"):
        Problem(line(0).parameters, [line(0).blocks[0]] * 2)


def test_combinations_that_the_data_leave_open_are_named() -> None:
    rows = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.5]])
    block = Block(lambda x: rows @ x, lambda x: rows, 1.0)
    problem = Problem([Parameter(name, 1.0) for name in "abc"], block)
    information = Information.from_problem(problem, np.ones(3))
    assert information.rank == 2
    worst = information.weakest(problem.names, 2)
    assert worst[0].deviation == np.inf
    assert {"a", "b"} == {word for word in worst[0].words.split() if word in "abc"}
    assert worst[1].deviation == pytest.approx(2.0)
    found = diagnose(LeastSquares().solve(problem))
    assert found.not_identifiable == ("a", "b")
    same = Information.from_matrix(np.ones(3), rows.T @ rows, problem.sizes)
    assert same.std == pytest.approx(information.std)
    assert same.condition == pytest.approx(information.condition)


@pytest.mark.parametrize("count", [40, 100, 300])
def test_short_white_series_are_called_coloured_as_seldom_as_stated(count: int) -> None:
    """By chi-square of the lags one in 150 was, at a level of one in a thousand, of every channel."""
    rng = np.random.default_rng(count)
    values = np.array([whiteness(rng.normal(size=count)).p_value for _ in range(4000)])
    assert np.sum(values < 1e-3) <= 12  # 4 are expected
    assert 0.005 < np.mean(values < 0.01) < 0.014 or count < 50
    assert np.mean(values < 0.05) == pytest.approx(0.045, abs=0.012)


def test_a_short_coloured_series_is_found() -> None:
    """Of 100 samples, each with half of the one before it."""
    noise, series = np.random.default_rng(1).normal(size=100), np.zeros(100)
    for k in range(100):
        series[k] = noise[k] + 0.5 * series[k - 1]
    assert whiteness(series).p_value < 1e-3
