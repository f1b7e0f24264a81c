"""Noisy data that do not tell everything: what they hide must not be printed as if it were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia import (
    InertiaProblem,
    LinearLeastSquares,
    MotionRecord,
    Prior,
    base_parameters,
    identify,
    monte_carlo,
    standard_parameters,
)
from spacearm.identify.inertia.consistent import is_possible
from spacearm.identify.inertia.identifiability import gauge
from spacearm.identify.inertia.inertia_parameters import plain_of, typical_sizes
from spacearm.identify.inertia.online import track_target
from spacearm.identify.inertia.regression import find_undetermined_directions, fit_total
from spacearm.identify.inertia.standard_parameters import ParameterSource
from spacearm.identify.inertia.validate import indistinguishable_robot
from spacearm.measure import make_sensors
from spacearm.measure.channels import TYPICAL_NOISE
from spacearm.model import catalogue
from spacearm.optimise.information import complement, remove_directions
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.equivalent import identify_recursively
from support.experiments import experiment, read_experiment

ROBOT = catalogue.load("xu2017")
NOMINAL = ROBOT.with_inertia_parameters(ROBOT.inertia_parameters / 1.15)
BASE = base_parameters(ROBOT)
TRUTH = BASE.combine @ ROBOT.inertia_parameters.ravel()
SENSORS = make_sensors(mount=paper.MOUNT, period=1.0)
#: Paths start and end in the configuration.
FADE = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])


@pytest.fixture(scope="module")
def clean() -> list[MotionRecord]:
    experiments = paper.experiments(ROBOT).items()
    return [paper.read_experiment(ROBOT, name, experiment, SENSORS) for name, experiment in experiments]


def noisy(records: Sequence[MotionRecord], seed: int = 0) -> list[MotionRecord]:
    return [record.add_noise([seed, k]) for k, record in enumerate(records)]


def worst(values: np.ndarray, deviations: np.ndarray) -> float:
    return float(np.abs((values - TRUTH) / deviations).max())


def test_without_forces_noise_does_not_tell_the_scale(clean: list[MotionRecord]) -> None:
    """The equations are homogeneous: bodies without mass would fit best."""
    for seed in range(3):
        problem = InertiaProblem(NOMINAL, noisy(clean[1:], seed))
        fit = fit_total(problem)
        assert fit.converged
        assert gauge(problem, problem.base_guess).shape == (52, 1)
        assert np.isinf(fit.information.std[0])
        assert fit.information.rank == 51
        assert fit.information.values[0] == pytest.approx(problem.base_guess[0], rel=0.02)  # stays as given
        assert worst(fit.information.values, fit.information.std) < 4.5
        ratios = fit.information.values[[1, 3]] / fit.information.values[0]
        assert ratios == pytest.approx(TRUTH[[1, 3]] / TRUTH[0], rel=1e-2)  # what the data do tell
    known = standard_parameters(fit.information, NOMINAL)
    truth = plain_of(ROBOT.inertia_parameters).ravel()
    data = [(n, t) for n, t in zip(known.numbers, truth, strict=True) if n.source is ParameterSource.DATA]
    assert all(abs(n.value - t) < 4.5 * n.std for n, t in data)
    found = identify(NOMINAL, noisy(clean[1:]), prior=Prior.from_nominal(NOMINAL, 0.2))
    assert all(is_possible(row) for row in found.inertia.reshape(-1, 10))
    assert np.isinf(LinearLeastSquares().solve(problem).std[0])


def test_a_joint_that_never_moves_hides_seven_combinations(clean: list[MotionRecord]) -> None:
    problem = InertiaProblem(NOMINAL, noisy(clean[:6]))
    assert find_undetermined_directions(problem).shape[1] == 7
    fit = fit_total(problem)
    assert fit.information.rank == 45
    assert fit.information.std[0] < 0.1  # kg
    assert worst(fit.information.values, fit.information.std) < 4.5
    assert np.all(np.isinf(fit.information.std[[n.endswith("(link6)") for n in BASE.names]]))
    exact = fit_total(InertiaProblem(NOMINAL, clean[:6])).information
    assert np.array_equal(np.isinf(exact.std), np.isinf(fit.information.std))


def test_nothing_moves_nothing_is_known() -> None:
    still = read_experiment(ROBOT, experiment(ROBOT, 60.0, "normal"), SENSORS, "still")
    for record in (still, still.add_noise(1)):
        fit = fit_total(InertiaProblem(NOMINAL, [record]))
        assert np.all(np.isinf(fit.information.std))
        assert standard_parameters(fit.information, NOMINAL).counts() == {"data": 0, "prior": 0, "undetermined": 70}
    with pytest.raises(InputError, match="determine no parameter"):
        monte_carlo(InertiaProblem(ROBOT, [still]), TRUTH, 2)
    with pytest.raises(InputError, match="repetitions is 0"):
        monte_carlo(InertiaProblem(ROBOT, [still]), TRUTH, 0)


def test_strong_noise_leaves_the_mass(clean: list[MotionRecord]) -> None:
    strong = [replace(r, sigma={name: 100.0 * s for name, s in r.sigma.items()}) for r in clean]
    for seed in range(2):
        information = fit_total(InertiaProblem(NOMINAL, noisy(strong, seed))).information
        assert information.values[0] == pytest.approx(476.0, abs=20.0)  # kg; not a light robot
        assert information.std[0] > 1.0
        assert worst(information.values, information.std) < 4.5
        assert np.sum(np.isfinite(information.std)) < 20


def test_monte_carlo_of_incomplete_data(clean: list[MotionRecord]) -> None:
    found = monte_carlo(InertiaProblem(NOMINAL, clean[:6]), TRUTH, 30, seed=4)
    assert np.all(np.isnan(found.errors[:, -1]))
    assert 0.9 < found.coverage < 0.99


def test_directions_without_information_do_not_touch_the_others() -> None:
    rng = np.random.default_rng(1)
    half = rng.normal(size=(5, 4))
    sizes = np.array([1.0, 10.0, 0.1, 2.0])
    flat = rng.normal(size=4)
    half -= np.outer(half @ flat, flat) / (flat @ flat)
    full = half.T @ half / sizes[:, None] / sizes  # knows nothing along flat
    unit = np.eye(4)[:, :1]
    found = remove_directions(full, unit, sizes)
    assert np.allclose(found, full, atol=1e-10)
    assert np.allclose(complement(unit).T @ unit, 0.0)


def test_recursion_counts_noise_in_the_impulse(clean: list[MotionRecord]) -> None:
    errors = []
    for seed in range(30):
        single, *rest = noisy(clean, 100 + seed)
        joints = dict(zip(ROBOT.joint_names, rest, strict=True))
        found = identify_recursively(ROBOT, single, joints, ROBOT.configuration(paper.POSTURE))
        errors.append((found.values - TRUTH) / found.std)
    assert np.std(errors, axis=0).max() < 1.45
    assert 0.92 < np.mean(np.abs(errors) < 1.96) < 0.99
    still = read_experiment(ROBOT, experiment(ROBOT, 60.0, "normal"), SENSORS, "still")
    with pytest.raises(InputError, match="no thruster fires"):
        identify_recursively(ROBOT, still, joints, ROBOT.configuration(paper.POSTURE))


def test_numbers_from_data_are_those_of_every_twin(clean: list[MotionRecord]) -> None:
    """A number that differs between robots that move alike is not determined."""
    known = standard_parameters(fit_total(InertiaProblem(NOMINAL, clean)).information, NOMINAL)
    truth = plain_of(ROBOT.inertia_parameters)
    twins = [plain_of(indistinguishable_robot(ROBOT, 0.7, seed).reshape(-1, 10)) for seed in range(8)]
    spread = np.max([np.abs(reference - truth) for reference in twins], axis=0).ravel()
    assert len(known.numbers) == spread.size
    for number, change in zip(known.numbers, spread, strict=True):
        assert (number.source is ParameterSource.DATA) == (change < 1e-9), number.text


def test_a_prior_knows_as_much_as_it_says() -> None:
    """15 % of a moment of inertia is 15 % of it, also where the frame sits at the mass centre."""
    sizes = typical_sizes(ROBOT).reshape(-1, 10)
    moments = ROBOT.inertia_parameters[:, 4:7].max(axis=1)
    assert np.all(sizes[:, 4] >= 0.7 * moments)


@pytest.mark.parametrize("factor", [1.0, 100.0, 1000.0])
def test_the_target_filter_knows_what_noise_does(factor: float) -> None:
    """Noise in the regressor pulls plain least squares by several deviations; strong noise tells nothing at all."""
    nodes = paper.NODE_ANGLES * np.cos(0.4 * np.arange(9))
    paths = {name: (paper.NODE_TIMES, np.roll(nodes, k) * FADE) for k, name in enumerate(ROBOT.joint_names)}
    sensors = make_sensors(mount=paper.MOUNT, period=0.2, noise={name: factor * s for name, s in TYPICAL_NOISE.items()})
    record = read_experiment(ROBOT, experiment(ROBOT, 60.0, "normal", paths), sensors)
    guess = ROBOT.inertia_parameters.copy()
    guess[-1] *= 1.5
    robot = ROBOT.with_inertia_parameters(guess)
    last = [track_target(robot, "link6", record.add_noise([5, k]), chunk=100)[-1] for k in range(12)]
    errors = np.array([(state.values - ROBOT.inertia_parameters[-1]) / state.std for state in last])
    assert np.mean(np.abs(errors) < 1.96) > 0.88
    assert np.abs(errors.mean(axis=0)).max() < 1.2
    assert last[0].std[0] < 1.5e-3 * factor  # kg


def test_a_number_that_stands_still_only_here_is_not_determined() -> None:
    """Iyz about the mass centre holds hy hz / m; where both vanish, its slope does, but neither is known."""
    inertia = ROBOT.inertia_parameters.copy()
    inertia[5, 1:4] = 0.0
    robot = ROBOT.with_inertia_parameters(inertia)
    experiments = paper.experiments(robot).items()
    records = [paper.read_experiment(robot, name, experiment, SENSORS) for name, experiment in experiments]
    number = standard_parameters(fit_total(InertiaProblem(robot, records)).information, robot).number("link5", "Iyz")
    twins = [plain_of(indistinguishable_robot(robot, 0.7, seed).reshape(-1, 10))[5, 9] for seed in range(8)]
    assert np.abs(twins).max() > 1e-4
    assert number.null_share < 1e-6
    assert number.source is ParameterSource.UNDETERMINED
