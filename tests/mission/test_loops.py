"""Sampled loops of missions: unstable ones are named, periods come from the load, verdicts do not depend on them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.missions import EXAMPLES, SHORT, flown, rows

from spacearm import load as load_robot
from spacearm.control import LinearLoop, linearise_loop
from spacearm.engine import mechanics_of
from spacearm.mission import _laws
from spacearm.mission._laws import Actuators, WheelReference
from spacearm.mission._loop_check import (
    PERIODS,
    CoarseLoop,
    UnstableLoop,
    _linearise_at_rest,
    check_loop,
    choose_period,
    damping_ratio,
    sampled_damping,
)
from spacearm.mission.scenario import MissionFindings
from spacearm.model import Body, Frame, Inertia, Pose, Robot, Spring, catalogue, edit
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.simulate import Phase, State, World, constant
from spacearm.study import Session
from spacearm.study.scenario import solve_document

STAGE = {
    "mass": 3000.0,
    "inertia": [2000.0, 12000.0, 12000.0],
    "size": [6.0, 2.4, 2.4],
    "grasp": {"position": [-3.0, 0.0, 0.0], "rpy_deg": [0.0, -90.0, 0.0]},
    "tumble_deg": [0.15, 0.3, -0.5],
}
EASY = {"target__mass": 200.0, "target__tumble_deg": [0.2, -0.4, 0.2]}


def stiffen(robot: Robot, factor: float) -> Robot:
    """The servicer with a stiffer wrist."""

    def change(name: str) -> Any:
        joint = robot.joint(name)
        if joint.spring is None or name not in ("slide", "swing"):
            return joint
        return replace(joint, spring=Spring(factor * joint.spring.stiffness), damping=factor * joint.damping)

    return replace(robot, joints=tuple(change(name) for name in robot.joint_names))


def loaded(factor: float = 1.0, mass: float = 3000.0) -> tuple[Actuators, World, State, np.ndarray]:
    """The servicer with a load in its hand, 3 m off, at rest; and the ten parameters of gripper and load."""
    robot = stiffen(catalogue.load("servicer"), factor)
    arm = tuple(name for name in robot.joint_names if name.startswith("joint"))
    actuators = Actuators(robot, "hand", arm, ("slide", "swing"))
    body = Body("target body", Inertia(mass, tensor=mass * np.diag([0.7, 4.0, 4.0])))
    load = Robot("target", (body,), (), (Frame("grasp", "target body", Pose()),))
    held = edit.attach(robot, "hand", load, Pose(translation=[0.0, 0.0, 3.0]))
    state = State.at_rest(held, np.asarray(robot.configuration("ready")))
    parameters = held.inertia_parameters[held.body_index(actuators.gripper)]
    return actuators, World({robot.name: held}), state, np.asarray(parameters)


def holding(factor: float, period: float | None) -> tuple[Actuators, World, dict[str, State], Phase]:
    actuators, world, state, load = loaded(factor)
    joints = [constant(float(value)) for value in state.joints[actuators.index(actuators.arm)]]
    law = _laws.track_joints(actuators, joints, load=load, gains=(0.5, 1.4), wheels=WheelReference(), period=period)
    return actuators, world, {actuators.robot.name: state}, Phase(20.0, laws=law, limits="ignore")


def test_an_unstable_period_is_named_and_a_stable_one_is_chosen() -> None:
    """A wrist of ten times the stiffness: 0.5 s are too long; what is chosen is well inside the stable range."""
    phase, (limit,) = check_loop(*holding(10.0, 0.5), time=7.0)
    assert isinstance(limit, UnstableLoop)
    assert limit.is_broken
    assert limit.time == 7.0
    assert 0.2 < limit.stable < 0.5
    assert limit.words.startswith("control loop unstable at 0.5 s; largest pole 1.3")
    assert f"stable below {limit.stable:.2g} s" in limit.words
    phase, none = check_loop(*holding(10.0, None), time=0.0)
    (law,) = phase.laws
    assert none == []
    assert law.period in PERIODS
    assert law.period <= 0.5 * limit.stable
    phase, none = check_loop(*holding(1.0, None), time=0.0)
    assert none == []
    assert phase.laws[0].period == 0.05


def test_pulses_of_thrusters_are_no_instability() -> None:
    """Their shortest pulse is two and a half periods long: counters that switch, beside the wheels' stable loop."""
    actuators, world, state, _ = loaded()
    law = _laws.stop_base(actuators, wheels=WheelReference(rate=60.0), period=0.02, band=0.001)
    held = world.replace(locked=(*actuators.arm, *actuators.soft))
    assert check_loop(actuators, held, {"servicer": state}, Phase(1.0, laws=law), time=0.0)[1] == []


def test_the_hand_is_carried_through_a_soft_wrist_by_a_stable_loop() -> None:
    """The arm moves the body before the soft joints; behind them it could not accelerate the load at once."""
    actuators, world, state, load = loaded()
    origin, turn = mechanics_of(world.robot("servicer")).frame_pose("hand", state.joints, base=state.pose)
    position, quaternion = ([*map(constant, map(float, v))] for v in (origin, quaternion_from_rotation(turn)))
    still = [constant(0.0)] * 3
    law = _laws.track_hand_pose(
        actuators, position, quaternion, still, load=load, gains=(0.5, 1.4), wheels=WheelReference(), period=0.05
    )
    loop = linearise_loop(world, state, Phase(1.0, laws=law, limits="ignore"))
    assert loop.is_stable()
    assert check_loop(actuators, world, {"servicer": state}, Phase(1.0, laws=law), time=0.0)[1] == []
    assert np.linalg.eigvals(loop.motion + loop.drive @ loop.gain).real.max() < 1e-4


def test_an_unstable_mission_is_no_hardware_failure(tmp_path: Path) -> None:
    """1.5 t with a stiff wrist and a stage of 3 t: a go at all periods but those at which the loop is the cause."""
    text = (
        catalogue.text("servicer").replace("mass = 244.0", "mass = 1444.0").replace("speed = 400.0", "speed = 4000.0")
    )
    text = text.replace("inertia = [50.0, 48.0, 42.0]", "inertia = [700.0, 650.0, 600.0]")
    for old, new in (
        ("stiffness = 40.0", 400),
        ("damping = 80.0", 800),
        ("stiffness = 30.0", 300),
        ("damping = 60.0", 600),
    ):
        text = text.replace(old, f"{old.split(' = ')[0]} = {new}.0")
    (tmp_path / "chaser.toml").write_text(text)
    for period in (None, 0.05, 0.1, 1.0):
        document = tomllib.loads((EXAMPLES / "mission-heavy.toml").read_text())
        document |= {"robot": str(tmp_path / "chaser.toml"), "target": document["target"] | STAGE}
        document["catch"] |= {} if period is None else {"period": period}
        document.pop("eject")
        mission = solve_document(document, Session(EXAMPLES))[1]
        assert isinstance(mission, MissionFindings)
        failed = [outcome for outcome in mission.outcomes if not outcome.success]
        assert mission.is_successful == (period != 1.0), period
        if failed:
            limit = failed[0].binding_limit
            assert isinstance(limit, CoarseLoop)
            assert "control loop too coarse at 1 s; its damping ratio is 0.04" in mission.headline()
            assert 0.1 < limit.fine < 1.0


@lru_cache(maxsize=2)
def easy(stop: float) -> MissionFindings:
    return flown(**SHORT, **EASY, catch__stop_time=stop)


def test_an_easy_target_is_caught_however_long_the_arm_takes_to_stop() -> None:
    for stop in (10.0, 15.0):
        assert easy(stop).is_successful


@pytest.mark.parametrize(
    "setting",
    [
        {"approach__period": 0.05, "catch__period": 0.02, "detumble__period": 0.1},
        {"sample": 0.1},
        {"tolerance": 1e-7},
    ],
    ids=["periods", "samples", "tolerance"],
)
def test_verdicts_do_not_depend_on_settings(setting: dict[str, Any]) -> None:
    """A go and a no-go: the limit that is nearest stays, and so does its margin but for the samples' peaks."""
    before, after = easy(10.0), flown(**SHORT, **EASY, catch__stop_time=10.0, **setting)
    assert after.is_successful
    assert after.worst.binding_limit.name == before.worst.binding_limit.name
    assert after.worst.margin == pytest.approx(before.worst.margin, abs=0.01)
    assert flown(**SHORT, **EASY, clearance=0.6, **setting).outcomes[-1].binding_limit.name == "clearance lost"


def test_deflected_springs_make_no_loop_unstable() -> None:
    """An arm takes the target's momentum while its wrist swings: linear about slack springs, the loop is stable."""
    heavier = {"target__mass": 400.0, "target__inertia": [75.0, 64.0, 53.0]}
    slow = {"target__tumble_deg": [0.05, -0.08, 0.04], "detumble__moment": 0.1, "settle__duration": 200.0}
    mission = flown(**SHORT, **heavier, **slow, detumble__actuator="arm")
    assert [each.stage for each in mission.outcomes][-2:] == ["detumble", "settle"]
    assert mission.is_successful


def test_deflected_modes_and_liquids_move_no_pole() -> None:
    """Arrays that ring and fuel that sloshes when a stage begins are no part of its loop's rest."""
    parts = load_robot(EXAMPLES / "robots" / "flexible-parts.toml")
    robot = edit.mount(catalogue.load("servicer"), parts)
    arm = tuple(name for name in robot.arm_names if name.startswith("joint"))
    actuators = Actuators(robot, "hand", arm, ("slide", "swing"))
    rest = State.at_rest(robot, np.asarray(robot.configuration("ready")))
    joints = [constant(float(value)) for value in rest.joints[actuators.index(arm)]]
    hand = np.asarray(robot.inertia_parameters[robot.body_index(actuators.gripper)])
    law = _laws.track_joints(actuators, joints, load=hand, gains=(0.5, 1.4), wheels=WheelReference(), period=0.1)
    bent = rest.joints.copy()
    bent[actuators.index(robot.mode_names)] += 0.05
    world, phase = World({robot.name: robot}, actuators.soft), Phase(80.0, laws=law)
    loops = [
        _linearise_at_rest(actuators, world, {robot.name: state}, phase, law)
        for state in (rest, replace(rest, joints=bent))
    ]
    assert loops[0].is_stable()
    np.testing.assert_allclose(loops[1].transition(), loops[0].transition(), atol=1e-12)


def test_a_light_target_on_a_soft_wrist_swings_alike_at_all_periods() -> None:
    """Torques cancel the wrist's dampers while these change: half a period late, they would take the damping away."""
    light = {"target__mass": 135.0, "target__inertia": [10.0, 12.0, 14.0], "target__tumble_deg": [0.3, 0.8, -1.9]}
    flights = [
        flown(**SHORT, **light, strategy="passive", catch__period=period, detumble__actuator="arm", settle=None)
        for period in (0.01, 0.02, 0.05)
    ]
    assert all(mission.is_successful for mission in flights)
    peaks = [rows(mission)["catch.base_rate.peak"] for mission in flights]
    # Without the look ahead of the law: 1.4 and 3.2 times the first.
    assert peaks == pytest.approx([peaks[0]] * 3, rel=0.25)


def test_a_period_that_is_chosen_keeps_the_loops_damping() -> None:
    """A mass held by x'' = -x - 0.12 x', sampled and held: half a period T late, its damping ratio is less by T / 4."""
    motion, drive = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    none = {"recall": np.zeros((1, 0)), "store": np.zeros((0, 2)), "keep": np.zeros((0, 0))}
    loop = LinearLoop(0.2, motion, drive, gain=np.array([[-1.0, -0.12]]), names=("x",), **none)
    assert damping_ratio(loop.closed_rates()) == pytest.approx(0.06)
    for period in (0.005, 0.02, 0.1):
        assert sampled_damping(loop, period) == pytest.approx(0.06 - 0.25 * period, abs=2e-4)
    # A twentieth of its time constant is 0.05 s, where a fifth of its damping is lost.
    assert choose_period(loop) == 0.02


@pytest.mark.parametrize("rate", [None, 60.0])
def test_wheels_that_hold_the_bus_are_as_stiff_as_the_load_needs(rate: float | None) -> None:
    """The hand holds a target still: the loop of the wheels swings up at the gain that suits the servicer alone."""
    heavier = {"target__mass": 400.0, "target__inertia": [270.0, 240.0, 170.0], "target__tumble_deg": [0.3, -0.3, 0.2]}
    large = {"target__size": [2.0, 1.2, 1.2], "target__grasp__position": [-1.0, 0.0, 0.0]}
    mission = flown(
        **SHORT, **heavier, **large, strategy="coordinated", detumble__actuator="arm", wheels={"rate": rate}
    )
    unstable = isinstance(mission.worst.binding_limit, UnstableLoop)
    assert unstable == (rate is not None)


def test_pulses_that_pass_the_dead_band_are_told() -> None:
    """A couple of 2 N m for 0.4 s changes the rate of 100 kg m2 by 0.4 deg/s: more than the rate that counts as rest.

    The period that is chosen is that of the thrusters' shortest pulse.
    """
    by_thrusters = {**SHORT, **EASY, "detumble__actuator": "thrusters"}
    limit = flown(**by_thrusters, detumble__period=0.4).worst.binding_limit
    assert isinstance(limit, UnstableLoop)
    assert "one pulse of the thrusters passes their dead band" in limit.words
    assert limit.margin == pytest.approx(1.0 - 0.4 / limit.stable)
    mission = flown(**by_thrusters)
    assert mission.is_successful
    assert mission.run.commands[-1].law is not None
    assert mission.run.commands[-1].law.period == 0.05
    finer = flown(**by_thrusters, detumble__period=0.025)
    assert rows(finer)["detumble.propellant"] == pytest.approx(rows(mission)["detumble.propellant"], rel=0.2)


def test_what_saturates_is_told() -> None:
    """Wheels of 0.4 N m cannot give 300 N m s/rad at once: they are at their limit for some of the time."""
    mission = flown(**SHORT, detumble__actuator="wheels", detumble__damping=300.0, detumble__rate_deg=0.002)
    shares = {name: value for name, value in rows(mission).items() if name.startswith("saturated.")}
    assert shares
    assert all(name.startswith("saturated.wheel_") for name in shares)
    assert all(0.0 < value < 1.0 for value in shares.values())
    assert "At a limit of effort or rate" in mission.summary()
