"""The paper's robot: Table 4, ranks, exact identification, swarm, noise, validation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacearm.identify.inertia import (
    ConsistentEstimator,
    InertiaProblem,
    LinearLeastSquares,
    MotionRecord,
    Prior,
    TotalLeastSquares,
    base_parameters,
    compare_models,
    identifiability,
    identify,
    monte_carlo,
    run_experiment,
    standard_parameters,
)
from spacearm.identify.inertia.consistent import is_possible
from spacearm.identify.inertia.inertia_parameters import linear_of, plain_of
from spacearm.identify.inertia.regression import fit_total
from spacearm.identify.inertia.standard_parameters import ParameterSource
from spacearm.identify.inertia.validate import indistinguishable_robot
from spacearm.measure import record_run
from spacearm.measure.channels import MOMENTUM_CHANNELS
from spacearm.model import catalogue
from spacearm.optimise import LeastSquares, diagnose
from spacearm.optimise.information import covariance_at
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.equivalent import (
    equivalent_robot,
    from_table_order,
    identify_recursively,
    lump_inertias,
    single_body_problem,
    to_table_order,
    two_body_problem,
)
from spacearm.papers.xu2017.swarm import ParticleSwarm

ROBOT = catalogue.load("xu2017")
WRONG = ROBOT.with_inertia_parameters(ROBOT.inertia_parameters * 1.15)
BASE = base_parameters(ROBOT)
TRUTH = BASE.combine @ ROBOT.inertia_parameters.ravel()
POSTURE = ROBOT.configuration("normal")


@pytest.fixture(scope="module")
def records() -> tuple[MotionRecord, ...]:
    experiments = paper.experiments(ROBOT).items()
    return tuple(paper.read_experiment(ROBOT, name, experiment, paper.sensors()) for name, experiment in experiments)


@pytest.fixture(scope="module")
def slow(records: tuple[MotionRecord, ...]) -> tuple[MotionRecord, ...]:
    """Momentum channels at 1 Hz, without noise."""
    return tuple(
        replace(
            record.thin(10),
            readings={name: record.thin(10).readings[name] for name in MOMENTUM_CHANNELS},
        )
        for record in records
    )


def relative(values: np.ndarray, problem: InertiaProblem) -> float:
    return float(np.max(np.abs(values - TRUTH) / np.maximum(np.abs(TRUTH), problem.base_parameters.sizes)))


def test_table_4_from_table_1() -> None:
    body = plain_of(lump_inertias(ROBOT, POSTURE) @ ROBOT.inertia_parameters.ravel())
    paper_values = np.array(paper.PRINTED["table4"])
    assert body[0] == pytest.approx(476.0, abs=1e-9)
    assert np.abs(body[1:4] - paper_values[1:4]).max() < 0.5e-3
    assert np.abs(body[4:] - paper_values[4:]).max() < 0.025
    assert np.allclose(equivalent_robot(ROBOT, POSTURE).inertia_parameters[0], linear_of(body), rtol=1e-12)


def test_table_1_is_the_robot() -> None:
    assert np.allclose(plain_of(ROBOT.inertia_parameters), np.array(paper.THEORETIC, dtype=float), atol=1e-12)


@pytest.mark.parametrize("known", [False, True])
def test_ranks_after_each_experiment(records: tuple[MotionRecord, ...], known: bool) -> None:
    chosen = [replace(r, known_momentum=np.zeros(6)) if known else r for r in records]
    found = identifiability(InertiaProblem(WRONG, chosen))
    assert [stage.rank for stage in found.stages] == [10, 17, 24, 31, 38, 45, 52]
    assert found.complete
    assert found.null_dimension == 18
    assert 1e2 < found.stages[-1].condition < 1e7
    gap = found.stages[2].singular
    assert gap[24] < 1e-9 * gap[23]
    assert "after joint3: rank 31 (+7)" in found.describe()
    assert "never identifiable: mass at the origin of link1" in found.describe()


def test_without_firings_the_scale_is_missing(records: tuple[MotionRecord, ...]) -> None:
    found = identifiability(InertiaProblem(ROBOT, records[1:]))
    assert found.rank == 51
    assert not found.complete
    direction = BASE.combine @ found.missing[:, 0]
    assert abs(direction @ TRUTH) / np.linalg.norm(direction) / np.linalg.norm(TRUTH) > 1 - 1e-6


def test_exact_data_give_base_parameters_back() -> None:
    runs = {name: run_experiment(ROBOT, *each, 0.1) for name, each in paper.experiments(ROBOT).items()}
    records = [record_run(run, paper.sensors(), name=name) for name, run in runs.items()]
    found = identify(WRONG, records, method="linear", kinds=("momentum", "dynamics"))
    assert all(run.sound for run in runs.values())
    assert relative(found.estimate.values, found.problem) < 1e-9
    assert found.known.counts() == {"data": 18, "prior": 0, "undetermined": 52}
    assert np.abs(BASE.combine @ found.inertia - TRUTH).max() < 1e-8


def test_total_and_recursion_are_exact_too(records: tuple[MotionRecord, ...]) -> None:
    problem = InertiaProblem(WRONG, [record.thin(5) if k == 0 else record for k, record in enumerate(records)])
    fit = fit_total(problem)
    assert fit.converged
    assert relative(fit.information.values, problem) < 1e-7  # firings are integrated from samples 0.5 s apart
    joints = {record.name: record for record in records[1:]}
    forth = identify_recursively(WRONG, records[0], joints, POSTURE, single_kinds=("dynamics",))
    back = identify_recursively(
        WRONG, records[0], joints, POSTURE, single_kinds=("dynamics",), order=ROBOT.joint_names[::-1]
    )
    assert relative(forth.values, problem) < 1e-9
    assert np.allclose(forth.values, back.values, rtol=1e-9, atol=1e-9)
    assert [len(stage.values) for stage in forth.extra["stages"]] == [10] + [7] * 6
    assert np.all(np.diag(forth.covariance) > 0)


def test_swarm_finds_the_single_body(records: tuple[MotionRecord, ...]) -> None:
    problem = single_body_problem(WRONG, records[0].thin(10), POSTURE)
    true = from_table_order(plain_of(lump_inertias(ROBOT, POSTURE) @ ROBOT.inertia_parameters.ravel()))
    assert problem.costs(true[None])[0] < 1e-13
    found = ParticleSwarm(40, 900, seed=1, uncertainty=False).solve(problem)
    assert np.abs(found.values - true).max() < 1e-10
    assert found.evaluations == 40 * 901
    assert found.history[0] > 0.1
    assert np.all(np.diff(found.history) <= 0)


def test_swarm_finds_combinations_but_not_masses(records: tuple[MotionRecord, ...]) -> None:
    body = lump_inertias(ROBOT, POSTURE) @ ROBOT.inertia_parameters.ravel()
    problem = two_body_problem(WRONG, records[6].thin(10), POSTURE, "joint6", body)
    both = lump_inertias(ROBOT, POSTURE, "joint6") @ ROBOT.inertia_parameters.ravel()
    assert problem.costs(from_table_order(plain_of(both[:10]))[None])[0] < 1e-12
    found = [ParticleSwarm(40, 900, seed=seed, uncertainty=False).solve(problem) for seed in (1, 2)]
    first = [linear_of(to_table_order(one.values)) for one in found]
    assert max(one.cost for one in found) < 1e-9
    assert abs(first[0][0] - first[1][0]) > 1.0  # kg: the cost does not see it
    pairs = [np.concatenate([f, np.zeros(10)]) for f in first]
    change = pairs[0] - pairs[1]
    assert np.linalg.norm(change[:10]) > 1.0


def test_all_estimators_have_one_interface(records: tuple[MotionRecord, ...]) -> None:
    problem = InertiaProblem(WRONG, [record.thin(5) for record in records])
    estimators = {
        "linear": LinearLeastSquares(),
        "total": TotalLeastSquares(),
        "consistent": ConsistentEstimator(Prior.from_nominal(ROBOT, 0.5)),
    }
    for name, estimator in estimators.items():
        found = estimator.solve(problem)
        assert found.names == BASE.names, name
        assert np.all(np.isfinite(found.std)), name
        limit = 1e-2 if name == "consistent" else 1e-6
        assert relative(found.values, problem) < limit, name


def test_one_noisy_run_stays_within_four_deviations(slow: tuple[MotionRecord, ...]) -> None:
    drawn = [record.add_noise([5, k]) for k, record in enumerate(slow)]
    prior = Prior.from_nominal(WRONG, 0.15)
    found = identify(WRONG, drawn, method="total", prior=prior)
    errors = (found.estimate.values - TRUTH) / found.estimate.std
    assert np.abs(errors).max() < 4.0
    assert found.fit is not None
    assert 0.9 < 2 * float(found.fit.cost) / found.fit.freedom < 1.1
    numbers = found.known.numbers
    truth = plain_of(ROBOT.inertia_parameters).ravel()
    off = [abs(n.value - t) / n.std for n, t in zip(numbers, truth, strict=True)]
    assert max(off) < 4.0
    assert {n.source for n in numbers} == {ParameterSource.DATA, ParameterSource.PRIOR}
    assert found.known.number("satellite", "mass").source is ParameterSource.PRIOR
    assert found.known.number("link1", "cx").source is ParameterSource.DATA
    consistent = identify(WRONG, drawn, method="consistent", prior=prior)
    assert all(is_possible(row) for row in consistent.inertia.reshape(-1, 10))
    spread = (consistent.estimate.values - found.estimate.values) / found.estimate.std
    assert np.abs(spread).max() < 3.0
    assert np.abs((consistent.estimate.values - TRUTH) / consistent.estimate.std).max() < 4.0


def test_claimed_covariance_is_true(slow: tuple[MotionRecord, ...]) -> None:
    found = monte_carlo(InertiaProblem(WRONG, slow), TRUTH, 200, seed=1)
    assert 0.90 <= found.coverage <= 0.98
    assert found.coverage_each.min() > 0.88
    assert np.mean(np.abs(found.errors) > 4.0) < 1e-3
    assert np.all(np.abs(found.ratio - 1.0) < 0.2)
    assert found.chi_square.mean() == pytest.approx(1.0, abs=0.01)
    again = monte_carlo(InertiaProblem(WRONG, slow), TRUTH, 3, seed=1, chunk=2)
    assert np.all(np.abs(again.values - found.values[:3]) < 0.02 * found.claimed[:3])


def test_ordinary_least_squares_is_biased_by_noise(slow: tuple[MotionRecord, ...]) -> None:
    """Noise in the regressor makes plain least squares find a lighter robot; total estimation does not."""
    strong = [replace(r, sigma={**r.sigma, "rate": 3e-3, "velocity": 1e-3}) for r in slow]
    plain, total, claimed = [], [], []
    for seed in range(5):
        problem = InertiaProblem(ROBOT, [record.add_noise([9, seed, k]) for k, record in enumerate(strong)])
        plain.append(LinearLeastSquares().solve(problem).values[0])
        information = fit_total(problem).information
        total.append(information.values[0])
        claimed.append(information.std[0])
    assert BASE.names[0] == "m*(satellite)"
    assert np.mean(plain) < 476.0 - 50.0  # kg
    assert abs(np.mean(total) - 476.0) < 5.0
    assert np.abs((np.array(total) - 476.0) / claimed).max() < 4.0


def test_validation_cannot_see_null_directions() -> None:
    reference = indistinguishable_robot(ROBOT, 0.5, seed=0)
    assert np.abs(reference.reshape(-1, 10)[:, 0] - ROBOT.inertia_parameters[:, 0]).max() > 5.0  # kg
    assert all(is_possible(row) for row in reference.reshape(-1, 10))
    torques = paper.torques(ROBOT)
    blind = compare_models(ROBOT, reference, torques, 2.0, "normal").largest()
    wrong = compare_models(ROBOT, WRONG.inertia_parameters.ravel(), torques, 2.0, "normal").largest()
    assert max(blind.values()) < 1e-12
    assert wrong["joint_angle"] > 1e-3
    assert wrong["base_attitude"] > 1e-4


def test_known_bodies_decide_what_is_left(slow: tuple[MotionRecord, ...]) -> None:
    free = InertiaProblem(ROBOT, slow[1:])
    information = fit_total(free, iterations=1).information
    names = ROBOT.body_names
    arm = standard_parameters(information, ROBOT, Prior.from_known_bodies(ROBOT, names[1:]))
    assert arm.counts() == {"data": 10, "prior": 60, "undetermined": 0}
    assert arm.number("satellite", "mass").value == pytest.approx(400.0, abs=4 * arm.number("satellite", "mass").std)
    base = standard_parameters(information, ROBOT, Prior.from_known_bodies(ROBOT, names[:1]))
    assert base.null.shape[1] == 15
    target = fit_total(InertiaProblem(ROBOT, slow[6:]), iterations=1).information
    only = standard_parameters(target, ROBOT, Prior.from_known_bodies(ROBOT, names[:-1]))
    assert only.counts() == {"data": 10, "prior": 60, "undetermined": 0}
    assert only.number("link6", "mass").std < 0.5
    nothing = standard_parameters(information, ROBOT)
    undetermined = nothing.number("link3", "mass")
    assert np.isnan(undetermined.value)
    assert np.isinf(undetermined.std)
    assert "undetermined" in undetermined.text


def test_consistent_estimator_repairs_impossible_bodies(slow: tuple[MotionRecord, ...]) -> None:
    strong = [replace(r, sigma={n: 30 * s for n, s in r.sigma.items()}) for r in slow]
    problem = InertiaProblem(WRONG, [record.add_noise([3, k]) for k, record in enumerate(strong)])
    information = fit_total(problem).information
    found = ConsistentEstimator(Prior.from_nominal(WRONG, 0.3)).refine(information, WRONG)
    assert found.has_converged
    assert all(is_possible(row) for row in found.extra["inertia"].reshape(-1, 10))
    assert np.abs((found.values - TRUTH) / found.std).max() < 4.5


def test_a_plain_estimator_solves_the_same_problem(records: tuple[MotionRecord, ...]) -> None:
    """Initial momenta are unknowns beside the base parameters; exact records leave no residual."""
    problem = InertiaProblem(WRONG, [record.thin(5) for record in records])
    found = LeastSquares(tolerance=1e-15).solve(problem)
    assert relative(found.values[: problem.rank], problem) < 1e-6
    assert found.names[problem.rank] == "thrusters.Px"
    assert set(found.residuals["thrusters"]) == {"Px", "Py", "Pz", "Lx", "Ly", "Lz"}
    right = InertiaProblem(ROBOT, problem.records)  # weights are those of the robot that is given
    claimed = np.sqrt(np.diag(covariance_at(right, right.guess)))[: right.rank]
    assert claimed == pytest.approx(TotalLeastSquares().solve(problem).std, rel=0.01)


def test_the_same_diagnosis_serves_inertias(slow: tuple[MotionRecord, ...]) -> None:
    noisy = InertiaProblem(WRONG, [record.add_noise([5, k]) for k, record in enumerate(slow)])
    found = TotalLeastSquares().solve(noisy)
    seen = diagnose(found, found.extra["fit"].freedom)
    assert seen.chi_square.total == pytest.approx(2.0 * found.cost, rel=1e-3)
    assert seen.sound
    assert [*seen.blocks] == [record.name for record in slow]
    consistent = identify(WRONG, noisy.records, method="consistent").diagnosis
    assert consistent.chi_square.total == pytest.approx(seen.chi_square.total, rel=1e-3)  # possible bodies, near by
    assert consistent.freedom == seen.freedom
    bold = [replace(r, sigma={channel: 0.5 * sigma for channel, sigma in r.sigma.items()}) for r in noisy.records]
    quiet = TotalLeastSquares().solve(InertiaProblem(WRONG, bold))
    assert not diagnose(quiet, quiet.extra["fit"].freedom).sound


def test_records_of_one_name_are_told_apart(slow: tuple[MotionRecord, ...]) -> None:
    twice = InertiaProblem(ROBOT, [slow[1], slow[1]])
    assert [block.name for block in twice.blocks] == ["joint1#1", "joint1#2"]
    assert len(set(twice.names)) == twice.rank + 12
