"""Plans from point to point, against their closed forms and against runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import POSTURE, hand_path, quaternion_of
from tests.support.numpy_kinematics import turn

from spacearm import Mechanics, control
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
    factor = control.within_limits(limited, START, signals, duration)
    slow = {n: control.stretched(s, factor) for n, s in zip(ROBOT.joint_names, signals, strict=True)}
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
