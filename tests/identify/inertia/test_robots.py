"""Identification of other robots: a sliding joint, two arms, seven joints; and what follows from it."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine.checkpoints import keep_checkpoints
from spacearm.errors import InputError
from spacearm.identify.inertia import (
    InertiaProblem,
    LinearLeastSquares,
    MotionRecord,
    Prior,
    TotalLeastSquares,
    base_parameters,
    compare_models,
    design,
    identifiability,
    identify,
    predict_held_out,
)
from spacearm.identify.inertia._writeback import save_identified_robot
from spacearm.identify.inertia.design import ExperimentLimits, ExperimentPlan, evaluate, limit_excess
from spacearm.identify.inertia.online import track_target
from spacearm.identify.inertia.validate import SineTorque, indistinguishable_robot
from spacearm.measure import make_sensors
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot, load
from spacearm.papers.xu2017.equivalent import identify_recursively
from spacearm.typing import Array
from support.experiments import experiment, one_joint, read_experiment
from support.identify_robots import ROBOTS

TIMES = np.linspace(0.0, 12.0, 5)
MOUNT = np.array([0.05, 0.1, -0.1])
SENSORS = make_sensors(mount=MOUNT, period=0.25)


FIRINGS = [(f"t{k}", float(k), k + 1.0, 1.0) for k in range(12)]


def nodes(k: int = 0) -> tuple[Array, Array]:
    return TIMES, 0.4 * np.array([0.0, 1.0, -0.7 + 0.1 * k, 0.5, 0.0])


def campaign(robot: Robot, sensors: tuple[Sensor, ...] = SENSORS) -> tuple[MotionRecord, ...]:
    joints = {name: one_joint(robot, name, nodes(k)) for k, name in enumerate(robot.joint_names)}
    experiments = {"thrusters": experiment(robot, 12.0, firings=FIRINGS), **joints}
    return tuple(read_experiment(robot, each, sensors, name) for name, each in experiments.items())


@pytest.mark.parametrize("name", ["sliding", "two-arms", "seven", "one-slide", "no-joint"])
def test_exact_identification_and_ranks(name: str) -> None:
    robot = ROBOTS[name]
    records = campaign(robot, make_sensors(mount=MOUNT, period=0.1))
    whole = base_parameters(robot)
    truth = whole.combine @ robot.inertia_parameters.ravel()
    wrong = robot.with_inertia_parameters(robot.inertia_parameters * 1.15)
    problem = InertiaProblem(wrong, records)
    found = identifiability(problem)
    steps = [10, *(7 if joint.kind == "revolute" else 4 for joint in robot.joints)]
    assert [stage.rank for stage in found.stages] == list(np.cumsum(steps))
    assert found.complete
    estimate = LinearLeastSquares().solve(problem)
    scale = np.maximum(np.abs(truth), problem.base_parameters.sizes)
    assert np.max(np.abs(estimate.values - truth) / scale) < 1e-7
    total = TotalLeastSquares().solve(problem)
    assert total.has_converged
    assert np.max(np.abs(total.values - truth) / scale) < 1e-6
    if robot.n:
        chain = identify_recursively(wrong, records[0], {r.name: r for r in records[1:]}, np.zeros(robot.n))
        assert np.max(np.abs(chain.values - truth) / scale) < 1e-6


@pytest.mark.parametrize("name", ["sliding", "two-arms"])
def test_noise_and_twins(name: str) -> None:
    robot = ROBOTS[name]
    records = [record.add_noise([1, k]) for k, record in enumerate(campaign(robot))]
    wrong = robot.with_inertia_parameters(robot.inertia_parameters * 1.1)
    truth = base_parameters(robot).combine @ robot.inertia_parameters.ravel()
    found = identify(wrong, records, prior=Prior.from_nominal(wrong))
    assert np.abs((found.estimate.values - truth) / found.estimate.std).max() < 4.5
    worst = found.weakest[0]
    assert worst.deviation > 0
    assert "typical sizes" in worst.words
    reference = indistinguishable_robot(robot, 0.4, seed=3)
    torques = [SineTorque(joint, 0.3, 3.0, 0.4 * k) for k, joint in enumerate(robot.joint_names)]
    blind = compare_models(robot, reference, torques, 1.0, "zero").largest()
    real = compare_models(robot, found.inertia, torques, 1.0, "zero").largest()
    assert max(blind.values()) < 1e-11
    assert 0 < real["joint_angle"] < 1e-2
    unseen = one_joint(robot, "joint1", nodes(5))
    assert predict_held_out(robot, reference, *unseen, 0.25).base_rate < 1e-13
    assert 0 < predict_held_out(robot, found.inertia, *unseen, 0.25).base_rate < 1e-3


def test_identified_robot_is_written_with_its_origin(tmp_path: Path) -> None:
    robot = ROBOTS["sliding"]
    records = [record.add_noise([2, k]) for k, record in enumerate(campaign(robot))]
    found = identify(robot, records, method="consistent", prior=Prior.from_nominal(robot, source="drawing 7"))
    names = [record.name for record in records]
    path = save_identified_robot(
        found.known, tmp_path / "found.toml", inertia=found.inertia, records=names, method="total"
    )
    text = path.read_text()
    assert "drawing 7" in text
    assert "thrusters, joint1, joint2, joint3" in text
    assert re.search(r"link2\.mass: (data|prior), standard deviation", text)
    again = load(path)
    assert np.allclose(again.inertia_parameters.ravel(), found.inertia, rtol=1e-9, atol=1e-9)
    with pytest.warns(UserWarning, match="thruster"):
        urdf = save_identified_robot(found.known, tmp_path / "found.urdf", inertia=found.inertia)
    assert "standard deviation" in urdf.read_text()
    bare = identify(robot, records).known
    assert "undetermined" in save_identified_robot(bare, tmp_path / "bare.toml", inertia=found.inertia).read_text()
    broken = found.inertia.copy()
    broken[10] = -1.0
    with pytest.raises(InputError, match="no possible body"):
        save_identified_robot(found.known, tmp_path / "bad.toml", inertia=broken)


def test_target_is_followed_online() -> None:
    robot = ROBOTS["seven"]
    guess = robot.inertia_parameters.copy()
    guess[-1] *= 1.6
    paths = {name: nodes(k) for k, name in enumerate(robot.joint_names)}
    velocity = {"base_angular_velocity": (0.01, 0.0, 0.02)}
    record = read_experiment(robot, experiment(robot, 12.0, nodes=paths, **velocity), SENSORS).add_noise(3)
    states = track_target(robot.with_inertia_parameters(guess), "link7", record, chunk=7)
    truth = robot.inertia_parameters[-1]
    spread = np.array([state.std for state in states])
    assert np.all(np.diff(spread, axis=0) <= 1e-12)
    assert np.all(spread[-1] < 0.2 * spread[0])
    assert np.abs((states[-1].values - truth) / states[-1].std).max() < 4.5
    at_once = track_target(robot.with_inertia_parameters(guess), "link7", record, chunk=1000)[-1]
    assert np.allclose(at_once.values, states[-1].values, atol=0.5 * np.max(states[-1].std))
    fired = experiment(robot, 12.0, nodes=paths, firings=FIRINGS, **velocity)
    pushed = read_experiment(robot, fired, SENSORS).add_noise(1)
    last = track_target(robot.with_inertia_parameters(guess), "link7", pushed, chunk=40)[-1]
    assert np.abs((last.values - truth) / last.std).max() < 4.5


def test_design_gains_over_single_joint_motions_within_limits() -> None:
    robot = ROBOTS["sliding"]
    sensors = make_sensors(mount=np.zeros(3), period=0.5)
    plain = [
        experiment(robot, 12.0, firings=FIRINGS),
        *(one_joint(robot, name, nodes()) for name in robot.joint_names),
    ]
    before = evaluate(robot, plain, sensors)
    limits = ExperimentLimits(angle=0.5, rate=0.3, attitude=3.0, impulse=18.0, time=48.0)
    options = {"motions": 4, "duration": 12.0, "inner_nodes": 3, "pulses": 3, "candidates": 8, "refinements": 10}
    after = design(robot, "zero", sensors, limits, seed=1, **options)  # type: ignore[arg-type]
    same = design(robot, "zero", sensors, limits, seed=1, **options)  # type: ignore[arg-type]
    assert np.array_equal(after.history, same.history)
    assert after.score < before.score
    assert not limit_excess(after.usage, limits)
    assert all(after.usage[name] <= getattr(limits, name) for name in ("angle", "rate", "attitude", "impulse", "time"))
    assert np.all(np.diff(after.history) <= 0)
    assert np.isfinite(evaluate(robot, after.experiments, sensors, "A").score)
    with pytest.raises(InputError, match="take longer"):
        design(robot, "zero", sensors, ExperimentLimits(time=10.0), motions=2, duration=12.0)


def test_limits_that_leave_nothing_are_refused_or_kept() -> None:
    """Limits of zero, a thruster without force and a joint that may not move: each divided by zero."""
    for name in ("angle", "rate", "attitude", "time"):
        with pytest.raises(InputError, match=f"{name} is 0"):
            ExperimentLimits(**{name: 0.0})
    robot = ROBOTS["sliding"]
    idle = robot.replace(thrusters=[replace(robot.thrusters[0], force=0.0)])
    sensors = make_sensors(period=1.0)
    few = {"motions": 1, "duration": 12.0, "candidates": 1, "refinements": 1}
    plan = design(idle, "zero", sensors, ExperimentLimits(impulse=0.0), **few)  # type: ignore[arg-type]
    assert plan.usage["impulse"] == 0.0
    locked = replace(robot.joints[0], limits=replace(robot.joints[0].limits, velocity=0.0))
    with pytest.raises(InputError, match="joint_limits"):
        design(robot.replace(joints=[locked, *robot.joints[1:]]), "zero", sensors, ExperimentLimits(), **few)  # type: ignore[arg-type]


def test_a_design_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that were tried are not tried again, and the end is the same to the last bit."""
    module, tried = sys.modules[design.__module__], list[int]()
    monkeypatch.setattr(module, "WORTH_KEEPING", 0.0)
    monkeypatch.setattr(module, "evaluate", lambda *given: tried.append(1) or evaluate(*given))

    def stop(share: float, _: str) -> None:
        if share > 0.6:
            raise KeyboardInterrupt

    def run(progress: Callable[[float, str], None] | None = None) -> ExperimentPlan:
        sensors, limits = (
            make_sensors(mount=np.zeros(3), period=0.5),
            ExperimentLimits(angle=0.5, rate=0.3, attitude=3.0),
        )
        many: dict[str, int] = {"motions": 1, "inner_nodes": 3, "pulses": 2, "candidates": 3, "refinements": 3}
        return design(ROBOTS["sliding"], "zero", sensors, limits, duration=12.0, seed=1, progress=progress, **many)

    whole, program = run(), f"design of {tmp_path}"
    with contextlib.suppress(KeyboardInterrupt), keep_checkpoints(program):
        run(stop)
    assert len(tried) == 6 + 4
    with keep_checkpoints(program) as pieces:
        again = run()
    assert (len(tried), pieces.found) == (6 + 4 + 2, 4)
    assert np.array_equal(again.history, whole.history)
    assert np.array_equal(again.deviations, whole.deviations)
    assert (again.score, again.usage) == (whole.score, whole.usage)


def test_limits_are_judged_between_samples() -> None:
    robot = ROBOTS["one-slide"]
    slide = one_joint(robot, "joint1", ([0.0, 3.0, 9.0, 12.0], [0.0, 0.3, -0.3, 0.0]))
    coarse, fine = (evaluate(robot, [slide], make_sensors(mount=np.zeros(3), period=h)) for h in (6.0, 0.01))
    assert coarse.usage["angle"] == pytest.approx(fine.usage["angle"], rel=1e-9)
    assert coarse.usage["angle"] > 0.3
    assert coarse.usage["rate"] > 0.1
