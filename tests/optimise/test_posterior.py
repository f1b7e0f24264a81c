"""Profile likelihood and posterior samples of a linear problem, whose posterior is known in closed form."""

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.optimise import Block, Estimate, LeastSquares, Parameter, Problem, profile, sample

SIGMA = 0.3


def line(upper: float = 50.0) -> tuple[Problem, np.ndarray, np.ndarray]:
    """A straight line through noisy points, with the mean and covariance of its posterior by linear algebra."""
    rng = np.random.default_rng(5)
    t = np.linspace(0.0, 1.0, 20)
    design = np.stack([np.ones_like(t), t], axis=1)
    data = design @ [1.0, -2.0] + SIGMA * rng.standard_normal(t.size)
    covariance = SIGMA**2 * np.linalg.inv(design.T @ design)
    mean = np.linalg.lstsq(design, data, rcond=None)[0]
    parameters = [Parameter("start", 0.0, "m", -50.0, upper), Parameter("slope", 0.0, "m/s", -50.0, 50.0)]
    return Problem(parameters, Block(lambda x: design @ x - data, sigma=SIGMA)), mean, covariance


@pytest.fixture(scope="module")
def solved() -> tuple[Problem, Estimate]:
    problem = line()[0]
    return problem, LeastSquares().solve(problem)


def test_the_profile_is_the_parabola(solved: tuple[Problem, Estimate]) -> None:
    problem, estimate = solved
    _, mean, covariance = line()
    found = profile(problem, estimate, "slope", points=9)
    sd = np.sqrt(covariance[1, 1])
    assert found.rise == pytest.approx(((found.values - mean[1]) / sd) ** 2, abs=1e-6)
    assert found.interval == pytest.approx((mean[1] - 1.959964 * sd, mean[1] + 1.959964 * sd), rel=1e-6)
    with pytest.raises(InputError, match="points is 3"):
        profile(problem, estimate, "slope", points=3)


def test_samples_have_the_posterior_of_the_closed_form(solved: tuple[Problem, Estimate]) -> None:
    problem, estimate = solved
    _, mean, covariance = line()
    found = sample(problem, estimate, steps=1500, burn=100, seed=2)
    assert found.effective > 400
    sd = np.sqrt(np.diag(covariance))
    slack = 5.0 / np.sqrt(found.effective)
    assert np.abs(found.mean - mean).max() < slack * sd.max()
    assert found.covariance == pytest.approx(covariance, rel=3.0 * slack)
    low, high = found.interval()
    assert (high - low) / (2 * 1.959964) == pytest.approx(sd, rel=2.0 * slack)


def test_samples_stay_within_the_bounds() -> None:
    _, mean, covariance = line()
    edge = mean[0] + 0.2 * np.sqrt(covariance[0, 0])
    problem = line(upper=edge)[0]
    found = sample(problem, LeastSquares().solve(problem), steps=200, seed=1)
    assert found.samples[:, 0].max() <= edge
    assert found.samples[:, 0].mean() < mean[0]


def test_the_seed_decides(solved: tuple[Problem, Estimate]) -> None:
    one, two, other = (sample(*solved, steps=5, burn=1, seed=seed).samples for seed in (3, 3, 4))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
