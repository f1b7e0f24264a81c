"""Least disturbance of the base and inverse kinematics on it, against runs and against differences."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from tests.support.arms import arm
from tests.support.control import POSTURE, quaternion_of

from spacearm import Mechanics, control
from spacearm.control.disturbance import STEPS, BaseAttitude
from spacearm.control.plans import quintic
from spacearm.control.workspace import longest_reach
from spacearm.errors import InputError
from spacearm.mechanics.shapes import Box, Sphere
from spacearm.model import Limits, Pose
from spacearm.simulate import Phase, ShapeOnFrame, State, gaps, simulate
from spacearm.simulate.distance import base_gap_kernel

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)
MOVING = State.from_velocities(ROBOT, POSTURE, base_velocity=[0.01, 0, 0], base_angular_velocity=[0.02, -0.01, 0.03])
GOAL = POSTURE + np.array([0.6, -0.4, 0.5, 0.3, -0.5, 0.4, 0.6])


@pytest.mark.parametrize("start", [START, MOVING], ids=["rest", "moving"])
def test_attitude_and_its_derivatives_along_a_joint_path(start):
    """The attitude is that of a run; derivatives are those of differences."""
    straight = quintic(0.0, 1.0, 20.0)
    times = np.linspace(0.0, 20.0, 2 * STEPS + 1)
    values, rates = straight(times), straight.derivative()(times)
    motion = BaseAttitude(ROBOT, start, 20.0, np.stack([1 - values, values], 1), np.stack([-rates, rates], 1))
    table, free = np.stack([POSTURE, GOAL], 1), [(i, 1) for i in range(7)]
    found = motion(table, free)
    run = control.JointPlan.from_endpoints(ROBOT, start, GOAL, 20.0).run
    np.testing.assert_allclose(found.quaternion[-1], run.states[-1, 3:7], atol=1e-9)
    for i in (0, 2, 6):
        ends = []
        for side in (1e-5, -1e-5):
            moved = table.copy()
            moved[i, 1] += side
            ends.append(motion(moved, []).quaternion[-1])
        np.testing.assert_allclose(found.d_quaternion[-1][:, i], (ends[0] - ends[1]) / 2e-5, atol=1e-9)


def test_the_least_disturbance_leaves_a_fraction_of_the_straight_way():
    """The base ends less than a hundredth as far turned, in a run; limits hold; differences find no better."""
    limits = [replace(joint, limits=Limits(lower=-1.6, upper=1.6)) for joint in ROBOT.joints]
    robot = ROBOT.replace(joints=limits)
    straight = control.JointPlan.from_endpoints(robot, START, GOAL, 20.0)
    plan = control.least_disturbance(robot, START, GOAL, 20.0)
    assert straight.base_rotation > np.radians(3.0)
    assert plan.base_rotation < 0.01 * straight.base_rotation
    run = simulate(robot, START, Phase(20.0, driven=plan.signals), sample=0.05)
    assert run.sound
    assert np.abs(run.states[:, 7:14]).max() <= 1.6
    np.testing.assert_allclose(run.end.joints, GOAL, atol=1e-12)
    assert np.abs(run.end.velocity).max() < 1e-12


def test_the_optimum_is_that_of_differences():
    """Of a problem small enough to be solved by SciPy with runs alone: three joints, two free numbers."""
    robot = arm(3)
    start, goal = State.at_rest(robot, [0.3, 0.5, -0.6]), np.array([0.7, 0.1, 0.2])
    plan = control.least_disturbance(robot, start, goal, 5.0, measure="path", joints=["j1"], pieces=2, smoothness=0.0)

    def disturbed(x: np.ndarray) -> np.ndarray:
        from scipy.interpolate import BSpline

        share = control.least_disturbance.__globals__["_Splines"](5.0, 2)
        table = share.fit_straight(start.joints, goal)
        table[1, 3:5] = x
        paths = dict(zip(robot.joint_names, share.signals(table), strict=True))
        assert paths["j1"](2.2) == pytest.approx(BSpline(share.knots, table[1], 5)(2.2), abs=1e-12)
        run = simulate(robot, start, Phase(5.0, driven=paths), sample=5.0 / STEPS, ledger=False)
        return run.data["base_angular_velocity"].values.ravel()

    found = least_squares(disturbed, [0.3, 0.3], xtol=1e-10, ftol=1e-12)
    values = plan.run.data["base_angular_velocity"].values
    mine = np.sum(values[:: 400 // STEPS] ** 2)
    assert mine == pytest.approx(2.0 * found.cost, rel=1e-5)
    straight = control.JointPlan.from_endpoints(robot, start, goal, 5.0).run.data["base_angular_velocity"].values
    assert mine < 0.9 * np.sum(straight[:: 400 // STEPS] ** 2)


@pytest.mark.parametrize("start", [START, MOVING], ids=["rest", "moving"])
def test_a_pose_in_the_world_is_reached_on_the_floating_base(start):
    mechanics = Mechanics(ROBOT)
    there = control.JointPlan.from_endpoints(ROBOT, start, 0.5 * (POSTURE + GOAL), 10.0).end
    goal, turned = mechanics.frame_pose("hand", there.joints, base=there.pose)
    plan = control.reach(ROBOT, start, "hand", goal, quaternion_of(turned), duration=10.0)
    end = simulate(ROBOT, start, plan.phase(limits="ignore")).end
    reached = mechanics.frame_pose("hand", end.joints, base=end.pose)
    np.testing.assert_allclose(reached[0], goal, atol=1e-7)
    assert Rotation.from_matrix(reached[1] @ turned.T).magnitude() < 1e-7


def test_poses_that_cannot_be_reached_are_errors():
    longest = longest_reach(ROBOT, "hand")
    with pytest.raises(
        InputError, match=rf"goal is 19.87 m from the mass centre \(frame 'hand' reaches {longest:.4g} m"
    ):
        control.reach(ROBOT, START, "hand", [20.0, 0.0, 0.0], duration=10.0)
    origin = Mechanics(ROBOT).frame_pose("hand", POSTURE)[0]
    stiff = ROBOT.replace(
        joints=[replace(j, limits=Limits(p - 0.05, p + 0.05)) for j, p in zip(ROBOT.joints, POSTURE, strict=True)]
    )
    with pytest.raises(InputError, match="is at its limit"):
        control.reach(stiff, START, "hand", origin + 0.2, duration=10.0)


def through_the_hand(plan: control.JointPlan, on_base: bool) -> tuple[ShapeOnFrame, ShapeOnFrame]:
    """A ball on the hand, and one where a plan takes the hand half-way: fixed in the world, or on the bus."""
    way = plan.run.states[200]
    at, _ = Mechanics(ROBOT).frame_pose("hand", way[7:14], base=None if on_base else way[:7])
    ball = (Pose(), Pose(translation=at)) if on_base else (Pose(translation=at), Pose())
    return ShapeOnFrame("hand", Sphere(0.05)), ShapeOnFrame("base" if on_base else ball[0], Sphere(0.15), ball[1])


@pytest.mark.parametrize("on_base", [False, True], ids=["world", "bus"])
def test_the_least_disturbance_goes_round_what_is_in_the_way(on_base):
    """The unconstrained optimum passes through the middle of it; gaps are those of a run, at instants of its own."""
    free = control.least_disturbance(ROBOT, START, GOAL, 20.0)
    pair = through_the_hand(free, on_base)
    assert free.clearance([pair]).gap < -0.19
    plan = control.least_disturbance(ROBOT, START, GOAL, 20.0, clear=[(pair, 0.02)])
    run = simulate(ROBOT, START, Phase(20.0, driven=plan.signals), sample=0.013)
    hand, _ = Mechanics(ROBOT).frame_pose("hand", run.states[:, 7:14], base=run.states[:, :7])
    ball = pair[1].frame.translation if not on_base else None
    if on_base:
        turns = Rotation.from_quat(run.states[:, [4, 5, 6, 3]])
        ball = run.states[:, :3] + turns.apply(pair[1].placement.translation.copy())
    assert np.linalg.norm(hand - ball, axis=1).min() - 0.2 >= 0.02
    straight = control.JointPlan.from_endpoints(ROBOT, START, GOAL, 20.0)
    assert plan.base_rotation < 0.1 * straight.base_rotation
    np.testing.assert_allclose(run.end.joints, GOAL, atol=1e-12)


def test_gaps_of_a_floating_robot_have_their_derivatives():
    pairs = (
        (
            ShapeOnFrame("hand", Sphere(0.05)),
            ShapeOnFrame(Pose(translation=np.array([0.4, 0.5, 1.0])), Box(0.3, 0.4, 0.5)),
        ),
        (ShapeOnFrame("link3", Sphere(0.1)), ShapeOnFrame("base", Sphere(0.2))),
    )
    rng, unit = np.random.default_rng(1), np.array([0.8, 0.3, -0.4, 0.2])
    given = {"joints": rng.normal(size=7), "quaternion": unit / np.linalg.norm(unit), "centre": rng.normal(size=3)}
    seen = base_gap_kernel(ROBOT, pairs)(given)
    turn = Rotation.from_quat(np.roll(given["quaternion"], -1)).as_matrix()
    place = given["centre"] - turn @ Mechanics(ROBOT).centre_of_mass(given["joints"])
    flat = np.concatenate([place, given["quaternion"], given["joints"], np.zeros(13)])
    np.testing.assert_allclose(seen["gaps"], gaps(ROBOT, pairs, flat)[0], atol=1e-13)
    for name in ("joints", "quaternion"):
        for k in range(given[name].size):
            step = np.eye(given[name].size)[k] * 1e-6
            sides = [base_gap_kernel(ROBOT, pairs)(given | {name: given[name] + s * step})["gaps"] for s in (1, -1)]
            np.testing.assert_allclose(seen[f"by_{name}"][:, k], (sides[0] - sides[1]) / 2e-6, atol=1e-7)


def test_where_there_is_no_way_round_that_is_told(monkeypatch):
    monkeypatch.setattr(sys.modules["spacearm.control.disturbance"], "START_PATHS", 2)
    robot = arm(2)
    start, goal = State.at_rest(robot, [0.0, 0.5]), np.array([1.5, 0.5])
    hand = ShapeOnFrame("hand", Sphere(0.05))
    place, _ = Mechanics(robot).frame_pose("hand", goal)
    clear = [((hand, ShapeOnFrame("base", Sphere(0.1), Pose(translation=place))), 0.0)]  # at the goal itself
    with pytest.raises(InputError, match=r"no path found: 'hand' and 'base' come within -?\d.* m at \d.* s at best"):
        control.least_disturbance(robot, start, goal, 5.0, clear=clear, pieces=2)
    with pytest.raises(InputError, match=r"'hand' and 'base' are .* m apart at the start"):
        control.least_disturbance(robot, start, goal, 5.0, clear=[((hand, ShapeOnFrame("base", Sphere(9.0))), 0.0)])
