"""Estimators on problems whose answer is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.optimise import Block, LeastSquares, MultiStart, NelderMead, Parameter, Problem
from spacearm.optimise.estimate import StopReason
from spacearm.optimise.information import Information, eliminate, remove_directions, solve_with_scaling
from spacearm.papers.xu2017.swarm import ParticleSwarm

T = np.linspace(0.0, 3.0, 60)
TRUE = np.array([2.0, 0.7])
NOISE = 0.01


def decay(x: np.ndarray) -> np.ndarray:
    return x[0] * np.exp(-x[1] * T)


def problem(noise: float = 0.0, seed: int = 1, sigma: float | None = None) -> Problem:
    data = decay(TRUE) + noise * np.random.default_rng(seed).normal(size=T.size)
    return Problem(
        [Parameter("a", 1.0, "m", 0.1, 5.0), Parameter("b", 0.2, "1/s", 0.0, 4.0)],
        Block(
            lambda x: decay(x) - data,
            lambda x: np.stack([np.exp(-x[1] * T), -T * decay(x)], axis=1),
            sigma,
            lambda xs: xs[:, :1] * np.exp(-xs[:, 1:] * T) - data,
        ),
    )


@pytest.mark.parametrize(
    "estimator",
    [LeastSquares(), NelderMead(), ParticleSwarm(particles=30, iterations=300), MultiStart(4)],
    ids=lambda e: type(e).__name__,
)
def test_recovers_the_truth(estimator: LeastSquares) -> None:
    found = estimator.solve(problem())
    assert np.allclose(found.values, TRUE, rtol=1e-6)
    assert found["a"] == pytest.approx(2.0, rel=1e-6)
    assert found.evaluations > 0
    assert found.seconds > 0
    assert np.all(np.diff(found.history) <= 1e-15)


def test_standard_deviations_hold_over_repetitions() -> None:
    found = [LeastSquares().solve(problem(NOISE, seed, NOISE)) for seed in range(200)]
    errors = np.array([(one.values - TRUE) / one.std for one in found])
    assert np.all(np.abs(errors.std(axis=0) - 1.0) < 0.15)
    assert np.all(np.abs(errors) < 4.5)
    correlation = found[0].correlation
    assert np.corrcoef(np.array([one.values for one in found]).T)[0, 1] == pytest.approx(correlation[0, 1], abs=0.15)


def test_unknown_noise_is_taken_from_the_fit() -> None:
    known, unknown = LeastSquares().solve(problem(NOISE, 3, NOISE)), LeastSquares().solve(problem(NOISE, 3))
    assert np.allclose(known.std, unknown.std, rtol=0.3)


def test_differences_replace_a_jacobian() -> None:
    given = problem(NOISE, 2, NOISE)
    x = np.array([1.7, 0.4])
    without = Problem(given.parameters, Block(given.blocks[0].residual, sigma=NOISE))
    assert np.allclose(without.residual_jacobian(x), given.residual_jacobian(x), rtol=1e-6, atol=1e-6)


def test_blind_directions_have_infinite_deviation() -> None:
    blind = Problem(
        [Parameter("a", 1.0), Parameter("b", 1.0), Parameter("c", 1.0)],
        Block(lambda x: np.array([x[0] + x[1] - 3.0, 2.0 * (x[0] + x[1]) - 6.0, x[2] - 1.0]), sigma=0.1),
    )
    std = LeastSquares().solve(blind).std
    assert np.isinf(std[:2]).all()
    assert std[2] == pytest.approx(0.1)


def test_swarm_is_seeded_and_needs_bounds() -> None:
    one, same = (ParticleSwarm(iterations=40, seed=5).solve(problem()) for _ in range(2))
    other = ParticleSwarm(iterations=40, seed=6).solve(problem())
    assert np.array_equal(one.history, same.history)
    assert not np.array_equal(one.history, other.history)
    assert one.evaluations == 60 * 41
    with pytest.raises(InputError, match="finite bounds"):
        ParticleSwarm().solve(Problem([Parameter("a", 1.0)], Block(lambda x: x)))


def test_swarm_leaves_local_minima() -> None:
    def rastrigin(xs: np.ndarray) -> np.ndarray:
        return np.sum(xs**2 - 10 * np.cos(2 * np.pi * xs) + 10, axis=1)

    wavy = Problem([Parameter(f"x{i}", 3.0, lower=-5.0, upper=5.0) for i in range(3)], cost=rastrigin)
    found = ParticleSwarm(particles=80, iterations=400, neighbours=2, target=1e-8).solve(wavy)
    assert found.reason is StopReason.SMALL_COST
    assert NelderMead().solve(wavy).cost > 1.0


def test_multistart_tells_whether_starts_agree() -> None:
    folded = Problem([Parameter("x", 1.5, lower=-3.0, upper=3.0)], Block(lambda x: x**4 - 2 * x**2 - 0.3 * x))
    found = MultiStart(12, estimator=LeastSquares()).solve(folded)
    assert 0.0 < found.extra["agree"] <= 1.0
    assert found.extra["minima"].size == 12


def test_bounds_and_guesses_are_checked() -> None:
    with pytest.raises(InputError, match="not within"):
        Parameter("a", 5.0, lower=0.0, upper=1.0)
    with pytest.raises(InputError, match="share a name"):
        Problem([Parameter("a", 1.0), Parameter("a", 1.0)], Block(lambda x: x))
    with pytest.raises(InputError, match="more than 0"):
        Block(lambda x: x, sigma=0.0)
    stuck = Problem([Parameter("a", 0.5, lower=0.4, upper=1.0)], Block(lambda x: np.array([x[0]])))
    assert LeastSquares().solve(stuck)["a"] == pytest.approx(0.4, abs=1e-6)
    assert NelderMead().solve(stuck)["a"] == pytest.approx(0.4, abs=1e-6)


def test_information_that_is_empty_singular_or_not_finite() -> None:
    """Each ended in an error of NumPy; what is not determined has no deviation, what cannot be computed is NaN."""
    lost = Information.from_matrix(np.zeros(2), np.full((2, 2), np.nan), np.ones(2))
    assert (lost.rank, lost.condition) == (0, np.inf)
    assert np.isinf(lost.std).all()
    assert solve_with_scaling(np.zeros((0, 0)), np.zeros(0)).shape == (0,)
    assert np.isnan(solve_with_scaling(np.full((2, 2), np.inf), np.ones(2))).all()
    # the two unknowns that are eliminated are the same: together they are one
    same = np.array([[2.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(eliminate(same, 1), [[1.0]], atol=1e-12)
    assert np.isfinite(remove_directions(np.diag([1.0, 0.0, 0.0]), np.eye(3)[:, :1], np.ones(3))).all()
