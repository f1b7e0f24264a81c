"""Fixed numbers that are uncertain, against closed forms and a brute-force Monte Carlo."""

from __future__ import annotations

import numpy as np

from spacearm.optimise.consider import ConsiderParameters, FixedNumber, add_consider_covariance
from spacearm.optimise.information import covariance_at
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array

RNG = np.random.default_rng(5)
DESIGN, FIXED = RNG.normal(size=(60, 3)), RNG.normal(size=(60, 2))
FIXED[:, 1] = DESIGN @ [0.3, -0.2, 0.0]  # no datum tells the second fixed number from the unknowns


def line(data: Array, deviations: tuple[float, float] = (0.0, 0.0)) -> Problem:
    """Three unknowns of a linear model, two more numbers of which are held at zero."""
    block = Block(lambda x: DESIGN @ x - data, lambda _: DESIGN, 1.0)
    found = Problem([Parameter(name, 0.0, scale=1.0) for name in "abc"], block)
    numbers = [FixedNumber(f"c{k}", s) for k, s in enumerate(deviations)]
    found.consider = ConsiderParameters.from_derivatives(numbers, FIXED)
    return found


def test_it_is_a_further_unknown_with_a_prior() -> None:
    data = RNG.normal(size=60)
    whole = np.concatenate([DESIGN, FIXED], axis=1)
    prior = np.diag([0.0, 0.0, 0.0, 0.5**-2, 2.0**-2])
    covariance = np.linalg.inv(whole.T @ whole + prior)
    found = LeastSquares().solve(line(data, (0.5, 2.0)))
    np.testing.assert_allclose(found.values, (covariance @ whole.T @ data)[:3], atol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance[:3, :3], rtol=1e-9)


def test_a_number_without_doubt_changes_nothing() -> None:
    data = RNG.normal(size=60)
    assert line(data).consider is None
    exact, nearly = covariance_at(line(data), np.zeros(3)), covariance_at(line(data, (1e-9, 0.0)), np.zeros(3))
    np.testing.assert_allclose(nearly, exact, rtol=1e-12)


def test_what_the_data_do_not_tell_adds_in_proportion_to_the_doubt() -> None:
    """The consider covariance, in closed form: the share is linear in the stated standard deviation."""
    own = np.linalg.inv(DESIGN.T @ DESIGN)
    for doubt in (0.1, 1.0, 10.0):
        added = covariance_at(line(np.zeros(60), (0.0, doubt)), np.zeros(3)) - own
        sense = -own @ DESIGN.T @ FIXED[:, 1] * doubt
        np.testing.assert_allclose(added, np.outer(sense, sense), atol=1e-10 * doubt**2)
        problem = line(np.zeros(60), (0.0, doubt))
        assert problem.consider is not None
        effect = problem.consider.effects(added + own, problem.residual_jacobian(np.zeros(3)))
        np.testing.assert_allclose(effect[:, 0], sense, atol=1e-10 * doubt)


def test_information_with_consider_covariance() -> None:
    own, sense = DESIGN.T @ DESIGN, RNG.normal(size=(3, 2))
    found = add_consider_covariance(own, sense)
    np.testing.assert_allclose(np.linalg.inv(found), np.linalg.inv(own) + sense @ sense.T, rtol=1e-9)


def test_estimates_scatter_as_claimed_when_the_fixed_numbers_do() -> None:
    """2000 samples of noise and fixed numbers; chi-square of residuals and errors are what they should be."""
    deviations, count = np.array([0.2, 1.0]), 2000
    fixed = RNG.normal(size=(count, 2)) * deviations
    data = fixed @ FIXED.T + RNG.normal(size=(count, 60))
    problem = line(np.zeros(60), (0.2, 1.0))
    covariance, jacobian = covariance_at(problem, np.zeros(3)), problem.residual_jacobian(np.zeros(3))
    assert problem.consider is not None
    white = problem.consider.whiten(data.T)
    values = covariance @ jacobian.T @ white
    np.testing.assert_allclose(values @ values.T / count, covariance, rtol=0.15, atol=0.02 * covariance.max())
    left = white - jacobian @ values
    assert abs(np.sum(left**2) / count - 57.0) < 1.0
