"""Plans from point to point, against their closed forms and against runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.arms import arm, slider
from tests.support.control import POSTURE, hand_path, quaternion_of
from tests.support.numpy_kinematics import turn

from spacearm import Mechanics, control
from spacearm.control.plans import limit_time_factor, scale_time
from spacearm.errors import InputError
from spacearm.model import Limits
from spacearm.simulate import Phase, State, simulate

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)


@pytest.mark.parametrize("profile", ["quintic", "trapezoid"])
def test_the_shortest_plan_meets_its_limits(profile):
    """The largest rate or acceleration of one joint is its limit, found by dense sampling; none exceeds it."""
    first, last = np.array([0.0, 1.0, -0.4]), np.array([0.8, -1.0, -0.3])
    for rate, acceleration in ((0.5, 100.0), (100.0, 0.2), ([0.1, 0.4, 1.0], [1.0, 0.5, 2.0])):
        signals, duration = control.point_to_point(first, last, rate=rate, acceleration=acceleration, profile=profile)
        times = np.linspace(0.0, duration * (1 - 1e-9), 200_001)
        speeds = np.array([np.abs(signal.derivative()(times)).max() for signal in signals])
        bends = np.array([np.abs(signal.derivative().derivative()(times)).max() for signal in signals])
        used = max((speeds / rate).max(), (bends / acceleration).max())
        assert used == pytest.approx(1.0, rel=1e-8)
        np.testing.assert_allclose([signal(0.0) for signal in signals], first, atol=1e-14)
        for time in (duration, duration + 5.0):
            np.testing.assert_allclose([signal(time) for signal in signals], last, atol=1e-12)
        assert max(jump for signal in signals for jump in signal.jumps(0.0, 2 * duration)) < 1e-12
    with pytest.raises(InputError, match="at least"):
        control.point_to_point(first, last, 0.5 * duration, rate=rate, acceleration=acceleration, profile=profile)


def test_slowing_down_divides_forces_by_the_square():
    """A plan that is slowed down as told needs exactly the limiting torque, in a run of its own."""
    goal, duration = POSTURE + 0.5, 2.0
    signals, _ = control.point_to_point(POSTURE, goal, duration)
    limited = ROBOT.replace(joints=[replace(joint, limits=Limits(effort=3.0)) for joint in ROBOT.joints])
    factor = limit_time_factor(limited, START, signals, duration)
    slow = {n: scale_time(s, factor) for n, s in zip(ROBOT.joint_names, signals, strict=True)}
    run = simulate(ROBOT, START, Phase(factor * duration, driven=slow), sample=factor * duration / 1000)
    assert np.abs(run.data["reaction"].values[:, 6:]).max() == pytest.approx(3.0, rel=1e-6)


def test_joint_paths_take_the_hand_along_a_line_on_the_floating_base():
    mechanics = Mechanics(ROBOT)
    origin, rotation = mechanics.frame_pose("hand", POSTURE)
    goal = origin + np.array([0.1, -0.1, 0.15])
    turned = quaternion_of(turn([0.0, 0.0, 1.0], 0.2) @ rotation)
    path = control.hand_line(ROBOT, START, "hand", goal, turned, duration=8.0)
    plan = control.follow_line(ROBOT, START, path)
    assert plan.error < 1e-6
    run = simulate(ROBOT, START, Phase(8.0, driven=plan.signals, limits="ignore"))
    assert run.sound
    np.testing.assert_allclose(hand_path(run)[-1], goal, atol=1e-6)
    end = run.end
    reached = mechanics.frame_pose("hand", end.joints, base=end.pose)[1]
    np.testing.assert_allclose(reached, _matrix(turned), atol=1e-5)
    wanted = np.stack([signal(run.times) for signal in path.position], axis=1)
    assert np.abs(hand_path(run) - wanted).max() < 1e-5


def _matrix(quaternion: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(np.roll(quaternion, -1)).as_matrix()


def test_a_goal_out_of_reach_is_told_with_its_time():
    path = control.hand_line(ROBOT, START, "hand", [20.0, 0.0, 0.0], duration=10.0, hold_attitude=False)
    with pytest.raises(InputError, match=r"cannot follow its path beyond \d"):
        control.follow_line(ROBOT, START, path)


@pytest.mark.parametrize(("rate", "acceleration"), [(np.inf, np.inf), (0.6, np.inf), (np.inf, 0.5)])
def test_the_fastest_timing_of_a_slide_is_bang_bang(rate, acceleration):
    """2 kg against 10 kg are a mass of 5/3 kg; 3 N over 1 m: 2 sqrt(d m / F), with a top rate d / v + v m / F."""
    robot = slider(limits=Limits(velocity=rate, effort=3.0))
    start = State.at_rest(robot, [0.2])
    plan = control.minimise_duration(control.JointPlan.from_endpoints(robot, start, [1.2], 7.0), acceleration)
    bend = min(3.0 / (5.0 / 3.0), acceleration)
    expected = 2.0 * np.sqrt(1.0 / bend) if np.isinf(rate) else 1.0 / rate + rate / bend
    assert plan.duration == pytest.approx(expected, rel=1e-5)
    assert plan.end.joints[0] == pytest.approx(1.2, abs=1e-12)


def test_the_fastest_timing_uses_its_limits_and_beats_a_uniform_stretch():
    limited = ROBOT.replace(joints=[replace(j, limits=Limits(velocity=0.5, effort=3.0)) for j in ROBOT.joints])
    goal = POSTURE + np.array([0.6, -0.4, 0.5, 0.3, -0.5, 0.4, 0.6])
    plan = control.JointPlan.from_endpoints(limited, START, goal, 4.0)
    uniform = plan.duration * limit_time_factor(limited, START, plan.paths, plan.duration)
    quick = control.minimise_duration(plan)
    assert quick.duration < 0.85 * uniform
    run = simulate(limited, START, quick.phase(), sample=quick.duration / 2000)
    rates, forces = np.abs(run.data["joint_velocity"].values), np.abs(run.data["reaction"].values[:, 6:])
    assert rates.max() <= 0.5 * (1 + 1e-9)
    assert forces.max() <= 3.0 * (1 + 1e-3)
    # At almost every instant one of the limits is met: nothing is left to go faster.
    used = np.maximum(rates.max(axis=1) / 0.5, forces.max(axis=1) / 3.0)
    assert np.quantile(used, 0.02) > 0.99
    # The way is the same: positions lie on the straight line between the ends.
    share = (run.states[:, 7:14] - POSTURE) / (goal - POSTURE)
    np.testing.assert_allclose(share, share[:, :1] * np.ones(7), atol=1e-7)
    with pytest.raises(InputError, match="no joint has a limit"):
        control.minimise_duration(control.JointPlan.from_endpoints(ROBOT, START, goal, 4.0))
