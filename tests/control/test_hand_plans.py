"""Plans on the floating base: splines of the hand, reactionless paths, clearance and limits, against runs and SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tests.support.arms import arm
from tests.support.control import POSTURE, hand_path, quaternion_of, turned_by
from tests.support.numpy_kinematics import frame_poses, turn

from spacearm import Mechanics, control
from spacearm.errors import InputError
from spacearm.mechanics.shapes import Capsule, Sphere
from spacearm.model import Limits, Pose
from spacearm.simulate import Phase, ShapeOnFrame, State, simulate

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)
ORIGIN, ROTATION = Mechanics(ROBOT).frame_pose("hand", POSTURE)


def scipy_of(quaternion: np.ndarray) -> Rotation:
    return Rotation.from_quat(np.roll(quaternion, -1))


def test_an_attitude_spline_has_the_angular_velocity_of_its_attitudes():
    """Through its way points, at rest at both ends; angular velocity and acceleration by differences of rotations."""
    times = np.array([0.0, 1.0, 2.5, 4.0])
    way = Rotation.from_rotvec([[0, 0, 0], [0.9, 0.2, 0.1], [1.1, -1.0, 0.4], [0.2, -1.5, 1.2]])
    given = np.roll(way.as_quat(), 1, axis=1) * np.array([[1], [-1], [1], [-1]])  # q and -q are one attitude
    path = control.AttitudeSpline.interpolate(times, given)
    for time, wanted in zip(times, way, strict=True):
        assert (Rotation.from_matrix(path(time)[0]) * wanted.inv()).magnitude() < 1e-12
    for time in (0.0, 4.0):
        np.testing.assert_allclose(path(time)[1], 0.0, atol=1e-12)
    h = 1e-5
    for time in (0.4, 1.0, 1.7, 2.5, 3.9):  # way points too: nothing jumps there
        before, after = (Rotation.from_matrix(path(time + side)[0]) for side in (-h, h))
        np.testing.assert_allclose((after * before.inv()).as_rotvec() / (2 * h), path(time)[1], atol=1e-8)
        left, right = (path(time + side)[1] for side in (-h, h))
        assert np.abs(right - left).max() < 1e-3
    with pytest.raises(InputError, match="attitudes 0 and 1 are 178 deg apart"):
        control.AttitudeSpline.interpolate([0.0, 1.0], [[1, 0, 0, 0], [np.cos(1.55), np.sin(1.55), 0, 0]])


def test_a_law_follows_a_spline_of_position_and_attitude_with_exact_derivatives():
    attitudes = [quaternion_of(turn(axis, 0.2) @ ROTATION) for axis in ([0, 0, 1.0], [1.0, 0, 0])]
    places = ORIGIN + np.array([[0.06, -0.05, 0.05], [0.1, 0.02, 0.1]])
    path = control.hand_spline(ROBOT, START, "hand", [3.0, 6.0], places, attitudes)
    # Without feedback: only if velocity and acceleration of the reference are exact does the hand stay on it.
    law = control.resolved_acceleration("hand", path.position, path.attitude, command="accelerations", period=None)
    run = simulate(ROBOT, START, Phase(6.0, laws=law, limits="ignore"))
    wanted = np.stack([signal(run.times) for signal in path.position], axis=1)
    assert np.abs(hand_path(run) - wanted).max() < 1e-7
    end = run.end
    reached = Mechanics(ROBOT).frame_pose("hand", end.joints, base=end.pose)[1]
    np.testing.assert_allclose(reached, scipy_of(attitudes[-1]).as_matrix(), atol=1e-6)
    # The same as joint paths, which end at rest.
    plan = control.follow_line(ROBOT, START, path)
    assert plan.run.sound
    np.testing.assert_allclose(hand_path(plan.run)[[200, -1]], places, atol=1e-7)
    assert np.abs(plan.end.velocity).max() < 1e-7


def test_reactionless_plans_do_not_turn_the_base():
    """By the run alone; the straight path towards the same configuration turns it by degrees."""
    goal = POSTURE + np.array([0.6, -0.4, 0.5, 0.3, -0.5, 0.4, 0.6])
    plan = control.reactionless(ROBOT, START, goal, 60.0)
    assert turned_by(plan.run).max() < 1e-9
    assert np.abs(plan.end.joints - POSTURE).max() > 0.2
    straight = control.JointPlan.from_endpoints(ROBOT, START, goal, 60.0)
    assert straight.base_rotation == pytest.approx(turned_by(straight.run)[-1], abs=1e-12)
    assert straight.base_rotation > 0.02
    # The hand on a line, the base not turning.
    goal = ORIGIN + np.array([0.03, 0.02, -0.04])
    path = control.hand_line(ROBOT, START, "hand", goal, duration=20.0, hold_attitude=False)
    held = control.follow_line(ROBOT, START, path, hold_base_attitude=True)
    assert turned_by(held.run).max() < 1e-9
    np.testing.assert_allclose(hand_path(held.run)[-1], goal, atol=1e-8)
    free = control.follow_line(ROBOT, START, path)
    assert turned_by(free.run).max() > 1e-4


def test_clearance_is_that_of_the_base_as_it_moves():
    """A ball in the world against a capsule on the last link, by plain geometry at the states of another run."""
    plan = control.JointPlan.from_endpoints(ROBOT, START, POSTURE + 0.8, 10.0)
    ball = ShapeOnFrame(Pose(np.eye(3), ORIGIN + np.array([0.3, -0.5, 0.6])), Sphere(0.05))
    rod = ShapeOnFrame("link6", Capsule(0.04, 0.3), Pose(np.eye(3), [0.0, 0.0, 0.15]))
    far = ShapeOnFrame(Pose(np.eye(3), [9.0, 0.0, 0.0]), Sphere(0.05))
    found = plan.clearance([(rod, far), (rod, ball)])
    run = simulate(ROBOT, START, plan.phase(limits="ignore"), sample=0.002)
    gaps = []
    for state in run.states:
        here = frame_poses(ROBOT, state[7:14])["link6"]
        base = scipy_of(state[3:7]).as_matrix()
        ends = [state[:3] + base @ (here[:3, 3] + here[:3, :3] @ [0, 0, z]) for z in (0.0, 0.3)]
        along = ends[1] - ends[0]
        share = np.clip((ball.frame.translation - ends[0]) @ along / (along @ along), 0.0, 1.0)
        gaps.append(np.linalg.norm(ends[0] + share * along - ball.frame.translation) - 0.09)
    k = int(np.argmin(gaps))
    assert found.gap == pytest.approx(gaps[k], abs=1e-6)
    assert found.time == pytest.approx(run.times[k], abs=2e-3)
    assert 1.0 < found.time < 9.0  # in passing, not at an end
    assert found.pair == (rod, ball)
    with pytest.raises(InputError, match=r"'link6' and 'sphere' come within .* m at .* s"):
        plan.clearance([(rod, ball)], least=found.gap + 1e-3)


def test_a_plan_that_breaks_limits_says_which_when_and_by_how_much():
    limits = Limits(lower=-1.0, upper=POSTURE[0] + 0.3, velocity=0.1)
    robot = ROBOT.replace(joints=[replace(ROBOT.joints[0], limits=limits), *ROBOT.joints[1:]])
    plan = control.JointPlan.from_endpoints(robot, START, POSTURE + 0.5, 5.0)
    position, rate = plan.find_violations()
    assert (position.joint, position.what, position.time) == ("j0", "position", 5.0)
    assert position.value - position.limit == pytest.approx(0.2, abs=1e-9)
    assert (rate.what, rate.time) == ("rate", 2.5)
    assert rate.value == pytest.approx(15 / 8 * 0.5 / 5.0, rel=1e-9)
    with pytest.raises(InputError, match=r"position of 'j0' is 0.8 at 5 s, 0.2 beyond its limit \(and 1 more\)"):
        plan.check()
    assert control.JointPlan.from_endpoints(robot, START, POSTURE + 0.2, 20.0).check().find_violations() == []


MOVING = State.from_velocities(
    ROBOT,
    POSTURE,
    0.015 * np.array([1.0, -1.0, 0.5, 0.7, -0.4, 0.8, -0.6]),
    base_velocity=[0.005, -0.0025, 0.004],
    base_angular_velocity=[0.005, 0.01, -0.008],
)


@pytest.mark.parametrize("spline", [False, True])
def test_hand_paths_begin_with_the_motion_of_a_moving_start(spline):
    """Without feedback a law stays on the path, and joints follow it from that very state: base and joints move."""
    goal = ORIGIN + np.array([0.08, -0.05, 0.1])
    turned = quaternion_of(turn([0, 0, 1.0], 0.2) @ ROTATION)
    if spline:
        between, half = ORIGIN + np.array([0.05, -0.02, 0.03]), quaternion_of(turn([0, 0, 1.0], 0.1) @ ROTATION)
        path = control.hand_spline(ROBOT, MOVING, "hand", [3.0, 6.0], [between, goal], [half, turned])
    else:
        path = control.hand_line(ROBOT, MOVING, "hand", goal, turned, duration=6.0)
    h = 1e-6  # the path's first velocity by differences of where the frame is in a free run
    drifted = simulate(ROBOT, MOVING, Phase(h, accelerations=dict.fromkeys(ROBOT.joint_names, 0.0)))
    velocity = (hand_path(drifted)[-1] - ORIGIN) / h
    np.testing.assert_allclose([each.derivative()(0.0) for each in path.position], velocity, atol=1e-6)
    assert np.linalg.norm(velocity) > 0.005
    law = control.resolved_acceleration("hand", path.position, path.attitude, command="accelerations", period=None)
    plan = control.follow_line(ROBOT, MOVING, path)
    for run in (simulate(ROBOT, MOVING, Phase(6.0, laws=law, limits="ignore")), plan.run):
        assert run.sound
        wanted = np.stack([signal(run.times) for signal in path.position], axis=1)
        assert np.abs(hand_path(run) - wanted).max() < 1e-6
        end = run.end
        reached = Mechanics(ROBOT).frame_pose("hand", end.joints, base=end.pose)[1]
        np.testing.assert_allclose(reached, scipy_of(turned).as_matrix(), atol=1e-6)
        twist = Mechanics(ROBOT).frame_velocity("hand", end.joints, end.velocity, base=end.pose)
        assert np.abs(twist).max() < 1e-6  # at rest in the world, on a base that is not
        assert np.abs(end.velocity[:6]).max() > 1e-3


def test_joints_that_move_are_brought_to_their_goal():
    plan = control.JointPlan.from_endpoints(ROBOT, MOVING, POSTURE + 0.2, 5.0)
    assert plan.run.sound
    np.testing.assert_allclose(plan.end.joints, POSTURE + 0.2, atol=1e-12)
    np.testing.assert_allclose(plan.end.rates, 0.0, atol=1e-12)
    with pytest.raises(InputError, match=r"moves at the start.*a duration"):
        control.JointPlan.from_endpoints(ROBOT, MOVING, POSTURE + 0.2)
    with pytest.raises(InputError, match=r"moves at the start.*quintic"):
        control.hand_line(ROBOT, MOVING, "hand", ORIGIN, duration=5.0, profile="trapezoid")


def test_the_path_of_a_frame_along_any_plan_is_one_that_a_law_follows():
    """A joint plan, as where it takes the hand: a law without feedback follows that, exact derivatives needed."""
    plan = control.JointPlan.from_endpoints(ROBOT, START, POSTURE + 0.1, 6.0)
    path = plan.hand("hand")
    law = control.resolved_acceleration("hand", path.position, path.attitude, command="accelerations", period=None)
    run = simulate(ROBOT, START, Phase(6.0, laws=law, limits="ignore"), sample=0.05)
    wanted = hand_path(simulate(ROBOT, START, plan.phase(limits="ignore"), sample=0.05))
    assert np.abs(hand_path(run) - wanted).max() < 1e-6
    for time in (6.0, 100.0):
        np.testing.assert_allclose([each(time) for each in path.position], wanted[-1], atol=1e-9)
