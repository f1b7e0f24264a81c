"""What the reproduction of Xu et al. (2017) computes: exact and noisy identification, swarms, validation, design.

The paper's experiments are run on its robot and identified from a model that is 15 % wrong: without noise by linear
least squares and by the paper's recursion over joints (in both orders), then by its particle swarms, then with noise,
covariance and Monte Carlo. Base parameters are the combinations that motion can show; single numbers of the paper's
tables are compared only where the data determine them. A model that differs from the truth in the null space alone is
validated like the others: it passes the paper's test, which therefore cannot tell right from wrong numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spacearm.identify.inertia import (
    Identification,
    InertiaProblem,
    MotionRecord,
    Prior,
    base_parameters,
    command_phases,
    compare_models,
    design,
    identifiability,
    identify,
    monte_carlo,
    predict_held_out,
    prepare_record,
    run_experiment,
    standard_parameters,
    start_state,
)
from spacearm.identify.inertia.base_parameters import BaseParameters
from spacearm.identify.inertia.design import Experiment, ExperimentLimits, ExperimentPlan, evaluate
from spacearm.identify.inertia.identifiability import Identifiability
from spacearm.identify.inertia.inertia_parameters import linear_of, placements, plain_of
from spacearm.identify.inertia.montecarlo import MonteCarlo
from spacearm.identify.inertia.online import TargetState, track_target
from spacearm.identify.inertia.regression import fit_total
from spacearm.identify.inertia.standard_parameters import ParameterSource, StandardParameters
from spacearm.identify.inertia.validate import (
    HoldOutError,
    ModelComparison,
    indistinguishable_robot,
    largest_differences,
)
from spacearm.measure import make_sensors, record_run
from spacearm.measure.sensors import shared_period
from spacearm.mechanics.reframe import transport
from spacearm.model import Pose, Robot
from spacearm.optimise import Estimate
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.equivalent import (
    equivalent_robot,
    identify_recursively,
    lump_inertias,
    single_body_problem,
    to_table_order,
    two_body_problem,
)
from spacearm.papers.xu2017.swarm import ParticleSwarm
from spacearm.simulate import Run, pulse, spline
from spacearm.typing import Array

#: Noisy runs are sampled at 1 Hz: enough for firings of 5 s, and 200 repetitions stay quick.
NOISY_INTERVAL = 1.0  # s
REPETITIONS = 200
SWARM_SEEDS = 8


@dataclass(frozen=True, eq=False)
class NoiseFreeRuns:
    """Noise-free identification from a nominal model that is 15 % wrong."""

    robot: Robot
    wrong: Robot
    base_parameters: BaseParameters
    truth: Array  # base parameters
    sizes: Array
    runs: tuple[Run, ...]
    records: tuple[MotionRecord, ...]
    identifiability: Identifiability
    linear: Identification
    recursion: Estimate
    backwards: Estimate
    known: StandardParameters  # without a prior
    with_prior: StandardParameters
    simulate_seconds: float
    identify_seconds: float

    def error(self, values: Array) -> float:
        """Largest error of base parameters, relative to the larger of the value and its terms' typical size."""
        return float(np.max(np.abs(values - self.truth) / np.maximum(np.abs(self.truth), self.sizes)))


def run_noise_free(robot: Robot) -> NoiseFreeRuns:
    wrong = robot.with_inertia_parameters(robot.inertia_parameters * paper.WRONG)
    whole = base_parameters(robot)
    sensors = paper.sensors()
    experiments, period = paper.experiments(robot), shared_period(sensors)
    # machine code for this robot is made (or found in the cache) before the clock starts, as it is once per robot
    for experiment in [*experiments.values()][:2]:
        run_experiment(robot, *experiment, period)
    begin = time.perf_counter()
    runs = {name: run_experiment(robot, *experiment, period) for name, experiment in experiments.items()}
    records = tuple(prepare_record(robot, record_run(run, sensors, name=name)) for name, run in runs.items())
    middle = time.perf_counter()
    linear = identify(wrong, records, method="linear", kinds=("momentum", "dynamics"))
    end = time.perf_counter()
    configuration = robot.configuration(paper.POSTURE)
    joints = {record.name: record for record in records[1:]}
    chains = [
        identify_recursively(wrong, records[0], joints, configuration, single_kinds=("dynamics",), order=order)
        for order in (robot.joint_names, robot.joint_names[::-1])
    ]
    return NoiseFreeRuns(
        robot,
        wrong,
        whole,
        whole.combine @ robot.inertia_parameters.ravel(),
        linear.problem.base_parameters.sizes,
        tuple(runs.values()),
        records,
        identifiability(InertiaProblem(wrong, records)),
        linear,
        chains[0],
        chains[1],
        linear.known,
        standard_parameters(linear.information, wrong, Prior.from_nominal(wrong, 0.15)),
        middle - begin,
        end - middle,
    )


@dataclass(frozen=True, eq=False)
class Swarms:
    """The paper's method: the single body, then every joint, and one joint again with other seeds."""

    single: Estimate
    single_error: Array  # (10,) in the order of PLAIN
    two: dict[str, Estimate]
    combination_error: dict[str, float]  # relative error of the identifiable combinations
    combination_value: dict[str, float]  # relative deviation of the worst single number
    seeds: list[Estimate]
    seed_error: list[float]

    @property
    def masses(self) -> list[float]:
        """Base mass by seed, kg."""
        return [float(one.values[0]) for one in self.seeds]


def run_swarms(case: NoiseFreeRuns) -> Swarms:
    robot, configuration = case.robot, case.robot.configuration(paper.POSTURE)
    # Swarms evaluate a record tens of thousands of times; without noise fewer samples lose nothing.
    quick = [record.thin(5) for record in case.records]
    true_single = plain_of(lump_inertias(robot, configuration) @ robot.inertia_parameters.ravel())
    single = ParticleSwarm(40, 1500, seed=1, uncertainty=False).solve(
        single_body_problem(case.wrong, quick[0], configuration)
    )
    found = to_table_order(single.values)
    body = linear_of(found)
    two, combination, number = {}, {}, {}
    for name, record in zip(robot.joint_names, quick[1:], strict=True):
        problem = two_body_problem(case.wrong, record, configuration, name, body)
        two[name] = ParticleSwarm(40, 2000, seed=1, uncertainty=False).solve(problem)
        combination[name], number[name] = _two_body_error(case, name, two[name].values, body)
    first = robot.joint_names[0]
    problem = two_body_problem(case.wrong, quick[1], configuration, first, body)
    seeds = [ParticleSwarm(40, 1200, seed=k + 1, uncertainty=False).solve(problem) for k in range(SWARM_SEEDS)]
    errors = [_two_body_error(case, first, one.values, body)[0] for one in seeds]
    return Swarms(single, found - true_single, two, combination, number, seeds, errors)


def _two_body_error(case: NoiseFreeRuns, joint: str, values: Array, body: Array) -> tuple[float, float]:
    """Relative error of the two-body robot's base parameters, and of its first body's mass."""
    robot, configuration = case.robot, case.robot.configuration(paper.POSTURE)
    pair = equivalent_robot(robot, configuration, joint)
    small = base_parameters(pair)
    first = linear_of(to_table_order(values))
    at = float(configuration[robot.joint_index(joint)])
    to_child = transport(placements(pair, [at])[1].inverse())
    # The second body is the whole less the first, moved into its own frame: parameters are additive in one frame.
    both = np.concatenate([first, to_child @ (body - first)])
    true = pair.inertia_parameters.ravel()
    sizes = InertiaProblem(pair, (case.records[0].keep_joints([0]),)).base_parameters.sizes
    # Compared by identifiable combinations: single numbers may differ without any effect on the motion.
    gap = np.abs(small.combine @ (both - true)) / np.maximum(np.abs(small.combine @ true), sizes)
    return float(gap.max()), float(abs(first[0] - true[0]) / true[0])


@dataclass(frozen=True, eq=False)
class NoisyRuns:
    """One noisy identification, and the Monte Carlo that confirms its covariance."""

    identification: Identification
    errors: Array  # in standard deviations
    monte_carlo: MonteCarlo


def run_noisy(case: NoiseFreeRuns, repetitions: int = REPETITIONS) -> NoisyRuns:
    every = round(NOISY_INTERVAL / 0.1)
    momentum = ("position", "attitude", "velocity", "rate", "joint_position", "joint_rate")
    clean = [_select_channels(record.thin(every), momentum) for record in case.records]
    drawn = [record.add_noise([2017, k]) for k, record in enumerate(clean)]
    total = identify(case.wrong, drawn, method="total", prior=Prior.from_nominal(case.wrong, 0.15))
    found = monte_carlo(InertiaProblem(case.wrong, clean), case.truth, repetitions, seed=2017)
    return NoisyRuns(total, (total.estimate.values - case.truth) / total.estimate.std, found)


def _select_channels(record: MotionRecord, channels: tuple[str, ...]) -> MotionRecord:
    return replace(
        record,
        readings={name: record.readings[name] for name in channels},
        sigma={name: record.sigma[name] for name in channels},
    )


#: Start configurations of Sec. 5.5, which are not printed, are drawn from the whole circle.
STARTS = 300


@dataclass(frozen=True, eq=False)
class StartConfigurations:
    """Largest differences of Sec. 5.5 by name, one for each start configuration: with Tables 6 to 12 for Table 1.

    ``tables``: the geometry is Table 1's. ``kept``: b_i stays while a_i errs, so that l_i = a_i + b_i errs too.
    """

    tables: dict[str, Array]
    kept: dict[str, Array]


def start_configurations(robot: Robot, count: int | None = None) -> StartConfigurations:
    starts = np.random.default_rng(2017).uniform(-np.pi, np.pi, (count or STARTS, robot.n))
    torques = paper.torques(robot)
    tables = robot.with_inertia_parameters(linear_of(paper.IDENTIFIED))
    shift = (paper.IDENTIFIED - paper.THEORETIC)[:, 1:4]
    joints = [
        replace(joint, placement=Pose(joint.placement.rotation, joint.placement.translation + shift[parent]))
        for joint, parent in zip(robot.joints, robot.parents, strict=True)
    ]
    found = [
        largest_differences(robot, other, torques, paper.VALIDATION_TIME, starts)
        for other in (tables, tables.replace(joints=joints))
    ]
    return StartConfigurations(*found)


@dataclass(frozen=True, eq=False)
class Validation:
    """Sec. 5.5 with four models, and two hold-out experiments."""

    identified: ModelComparison  # with noise and prior
    exact: ModelComparison
    paper: ModelComparison  # the paper's Tables 6 to 12 in this engine
    reference: ModelComparison
    wrong: ModelComparison
    indistinguishable_inertia: Array
    hold_out: tuple[HoldOutError, HoldOutError]
    starts: StartConfigurations


def validation(case: NoiseFreeRuns, noise: NoisyRuns) -> Validation:
    robot, torques = case.robot, paper.torques(case.robot)

    def compare(inertia: Array) -> ModelComparison:
        return compare_models(robot, inertia, torques, paper.VALIDATION_TIME, paper.POSTURE)

    reference = indistinguishable_robot(robot, 0.5, seed=0)
    printed = linear_of(paper.IDENTIFIED).ravel()
    nodes = paper.NODE_ANGLES
    start = start_state(robot, paper.POSTURE)
    paths = {
        name: spline(paper.NODE_TIMES, nodes * np.cos(0.7 * k + 0.4 * np.arange(9)) + start.joints[k])
        for k, name in enumerate(robot.joint_names)
    }
    unseen = start, command_phases(robot, paths, 60.0)
    identified = noise.identification.inertia
    return Validation(
        compare(identified),
        compare(case.linear.inertia),
        compare(printed),
        compare(reference),
        compare(case.wrong.inertia_parameters.ravel()),
        reference,
        (predict_held_out(robot, identified, *unseen, 1.0), predict_held_out(robot, reference, *unseen, 1.0)),
        start_configurations(robot),
    )


@dataclass(frozen=True, slots=True)
class ConclusionCase:
    """A case of the paper's conclusion: rank of the data, how many numbers come from where, hidden directions."""

    rank: int
    data: int
    known: int
    undetermined: int
    null: int


@dataclass(frozen=True, eq=False)
class ExtensionRuns:
    """The designed experiment beside the paper's, and a grasped target followed online."""

    paper: ExperimentPlan
    designed: ExperimentPlan
    target: list[TargetState]
    target_truth: Array
    cases: dict[str, ConclusionCase]


def run_extensions(case: NoiseFreeRuns, noise: NoisyRuns) -> ExtensionRuns:
    robot = case.robot
    sensors = make_sensors(period=1.0, mount=paper.MOUNT)
    plan = evaluate(robot, [*paper.experiments(robot).values()], sensors)
    limits = ExperimentLimits(
        angle=np.deg2rad(30.0), rate=np.deg2rad(6.0), attitude=np.deg2rad(60.0), impulse=60.0, time=240.0
    )
    better = design(robot, paper.POSTURE, sensors, limits, motions=4, pulses=6, candidates=6, refinements=24, seed=3)
    motion = better.experiments[-1]
    fine = make_sensors(period=0.1, mount=paper.MOUNT)
    record = paper.read_experiment(robot, "designed", motion, fine).add_noise([2017, 99])
    guess = robot.inertia_parameters.copy()
    # The target's parameters start 50 % too large; all others are known.
    guess[-1] *= 1.5
    states = track_target(robot.with_inertia_parameters(guess), robot.body_names[-1], record, chunk=5)
    return ExtensionRuns(plan, better, states, robot.inertia_parameters[-1], conclusion_cases(case))


def attitude_only(robot: Robot) -> Experiment:
    """Opposing thrusters fire together: moments without force."""
    pairs = ((1, 7), (3, 11), (4, 12), (2, 8), (5, 9), (6, 10))
    levels = {f"thruster{number}": pulse(1.0, 5.0 * k, 5.0) for k, pair in enumerate(pairs) for number in pair}
    return start_state(robot, paper.POSTURE), command_phases(robot, levels, 5.0 * len(pairs))


def conclusion_cases(case: NoiseFreeRuns) -> dict[str, ConclusionCase]:
    """The cases of the paper's conclusion: what is determined when something is known or no fuel is spent.

    Names with ``_law_thrusters`` have thruster firings beside the joint motions.
    """
    robot, names = case.robot, case.robot.body_names
    attitude = paper.read_experiment(robot, "attitude", attitude_only(robot), paper.sensors())
    joints = case.records[1:]
    known = {
        "base_known": Prior.from_known_bodies(robot, names[:1]),
        "arm_known": Prior.from_known_bodies(robot, names[1:]),
        "target_only": Prior.from_known_bodies(robot, names[:-1]),
    }
    sets: tuple[tuple[tuple[MotionRecord, ...], dict[str, Prior | None]], ...] = (
        (case.records, {"all_unknown": None, **{f"{name}_fired": prior for name, prior in known.items()}}),
        (joints, {"joints_only": None, "base_known": known["base_known"], "arm_known": known["arm_known"]}),
        (joints[-1:], {"target_only": known["target_only"]}),
        (
            (attitude, *joints),
            {"attitude_only": None, "base_centre_known": Prior.from_known_mass_centre(robot, names[0])},
        ),
    )
    found = {}
    for records, priors in sets:
        rank = identifiability(InertiaProblem(robot, records)).rank
        information = fit_total(InertiaProblem(robot, tuple(r.thin(5) for r in records)), iterations=1).information
        for name, prior in priors.items():
            found[name] = _case(rank, standard_parameters(information, robot, prior))
    single = equivalent_robot(robot, robot.configuration(paper.POSTURE))
    task = InertiaProblem(single, (attitude.keep_joints([]).thin(5),))
    only = standard_parameters(fit_total(task, iterations=1).information, single)
    tensor = sum(number.source is ParameterSource.DATA and number.symbol.startswith("I") for number in only.numbers)
    found["single_body_turned"] = ConclusionCase(identifiability(task).rank, tensor, 0, 6 - tensor, only.null.shape[1])
    return found


def _case(rank: int, known: StandardParameters) -> ConclusionCase:
    counts = known.counts()
    return ConclusionCase(rank, counts["data"], counts["prior"], counts["undetermined"], known.null.shape[1])


@dataclass(frozen=True, eq=False)
class Xu2017Study:
    """Everything that was computed."""

    exact: NoiseFreeRuns
    swarms: Swarms
    noisy: NoisyRuns
    validation: Validation
    beyond: ExtensionRuns


def compute(robot: Robot, report: Callable[[float, str], None]) -> Xu2017Study:
    """Run everything."""
    report(0.0, "simulating and identifying, without noise")
    case = run_noise_free(robot)
    report(0.2, "particle swarms on the paper's costs")
    swarm = run_swarms(case)
    report(0.4, "noise and Monte Carlo")
    noise = run_noisy(case)
    report(0.7, "validation")
    check = validation(case, noise)
    report(0.8, "design of experiments, online estimation")
    return Xu2017Study(case, swarm, noise, check, run_extensions(case, noise))
