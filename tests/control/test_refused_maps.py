"""Maps, workspaces and plans of robots and numbers that have none: a clear error each."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.arms import arm

from spacearm import control
from spacearm.control.maps import evaluate_arm, hand_map, joint_map
from spacearm.control.workspace import base_disturbance
from spacearm.errors import InputError
from spacearm.model import Body, Frame, Inertia, Joint, Limits, Pose, Robot
from spacearm.simulate import State

ROBOT = arm(3)
RANGES = {"j0": (0.0, 1.0), "j1": (0.0, 1.0)}


def needle() -> Robot:
    """Point masses on one line, about which nothing resists a rotation."""
    bodies = (Body("base", Inertia(10.0)), Body("tip", Inertia(1.0)))
    joint = Joint("j0", "revolute", "base", "tip", Pose(translation=np.array([0.0, 0.0, 1.0])))
    return Robot("needle", bodies, (joint,), (Frame("hand", "tip"),))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: base_disturbance(needle(), [0.0]), "not finite.*one line"),
        (lambda: control.dynamic_manipulability(needle(), "hand", [0.0], [0]), "not finite"),
        (lambda: control.dynamic_manipulability(ROBOT, "hand", np.zeros(3), [0, 7]), "row is 7"),
        (lambda: control.dynamic_manipulability(ROBOT, "hand", np.zeros(3), [0, 0]), "distinct"),
        (lambda: control.dynamic_manipulability(ROBOT, "hand", np.zeros(3)), "3 joints .* 6 directions"),
        (lambda: control.workspace(ROBOT, "hand", {}, []), "no ranges"),
        (lambda: control.workspace(ROBOT, "hand", {"j0": (0.0, 1.0, 2.0)}, [0]), "range of 'j0'"),
        (lambda: control.workspace(ROBOT, "hand", {"j0": (0.0, np.inf)}, [0]), "range of 'j0'"),
        (lambda: control.workspace(needle(), "hand", {"j0": (0.0, 1.0)}, [5]), "not finite"),
        (lambda: evaluate_arm(ROBOT, "hand", np.zeros((0, 3)), [0], [0]), "no configurations"),
        (lambda: evaluate_arm(ROBOT, "hand", np.zeros((1, 3)), [], [0]), "distinct"),
        (lambda: evaluate_arm(needle(), "hand", np.zeros((1, 1)), [0], [0]), "not finite"),
        (lambda: joint_map(ROBOT, "hand", RANGES, [0], np.zeros(2), ["j0"]), "configuration"),
        (lambda: joint_map(ROBOT, "hand", {"j0": (0.0,), "j1": (0.0, 1.0)}, [0], np.zeros(3), ["j0"]), "range of 'j0'"),
        (lambda: hand_map(ROBOT, "hand", {}, [0], np.zeros(3), thickness=1.0), "no ranges"),
        (
            lambda: hand_map(ROBOT, "hand", RANGES, [0], np.zeros(3), axes=["x", "z"] * 9, thickness=1.0),
            "expected two different ones",
        ),
        (
            lambda: control.reach(ROBOT, State.at_rest(ROBOT), "hand", [0.4, 0.0, 1.0], duration=1e-300),
            "duration is 1e-300 s",
        ),
        (lambda: control.least_disturbance(needle(), State.at_rest(needle()), [1.0], 1.0), "not finite"),
        (lambda: control.least_disturbance(ROBOT, State.at_rest(ROBOT), np.ones(3), 1.0, pieces=10**6), "pieces"),
    ],
)
def test_a_clear_error(call, message):
    with np.errstate(all="ignore"), pytest.raises(InputError, match=message):
        call()


def test_a_joint_whose_limits_meet_and_no_joint_at_all():
    """What cannot move stays; with nothing to choose the straight path is the least."""
    from dataclasses import replace

    joints = [replace(ROBOT.joints[0], limits=Limits(0.0, 0.0)), *ROBOT.joints[1:]]
    robot = ROBOT.replace(joints=joints)
    start, goal = State.at_rest(robot), np.array([0.0, 0.2, 0.3])
    plan = control.least_disturbance(robot, start, goal, 5.0, pieces=2)
    assert abs(plan.paths[0](2.5)) < 1e-8
    straight = control.least_disturbance(robot, start, goal, 5.0, joints=[])
    np.testing.assert_allclose([path(2.5) for path in straight.paths], 0.5 * goal, atol=1e-9)


def test_a_frame_that_the_joints_do_not_move_is_singular():
    """All singular values are zero: manipulability and condition are zero, and not a number."""
    still = ROBOT.replace(frames=[*ROBOT.frames, Frame("bus", "base")])
    two = evaluate_arm(still, "hand", np.zeros((1, 3)), [0, 1, 2], [0, 1, 2])
    assert np.isfinite(two.condition).all()
    # A joint whose axis goes through the hand alone: its place does not move.
    bodies = (Body("base", Inertia(10.0, tensor=np.eye(3))), Body("link", Inertia(1.0, tensor=0.1 * np.eye(3))))
    robot = Robot("pin", bodies, (Joint("j0", "revolute", "base", "link"),), (Frame("hand", "link"),))
    seen = evaluate_arm(robot, "hand", np.zeros((1, 1)), [0], [0])
    assert seen.manipulability[0] == 0.0
    assert seen.condition[0] == 0.0
