"""Laws that command some of the joints, while the others are free, locked or on a path."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.arms import arm, tumbling
from tests.support.control import POSTURE, hand_path, quaternion_of, quintic, step_response
from tests.support.pinocchio_reference import PinocchioReference

from spacearm import Mechanics, control
from spacearm.errors import InputError
from spacearm.simulate import Load, Phase, State, constant, simulate

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)
ORIGIN, ROTATION = Mechanics(ROBOT).frame_pose("hand", POSTURE)
STILL = control.AttitudeRotation(quaternion_of(ROTATION))
ALL = ROBOT.joint_names
#: What the joints do that the law does not command.
OTHERS = {
    "free": lambda names: {},
    "locked": lambda names: {"locked": names},
    "driven": lambda names: {
        "driven": {n: quintic(POSTURE[ALL.index(n)], POSTURE[ALL.index(n)] + 0.1, 4.0) for n in names}
    },
}


def line(goal: np.ndarray, duration: float) -> list:
    return [quintic(a, b, duration) for a, b in zip(ORIGIN, ORIGIN + goal, strict=True)]


def closed_loop(law: control.Law, duration: float, joints: list[str], others: str, **options: object):
    rest = [name for name in ALL if name not in joints]
    return simulate(ROBOT, START, Phase(duration, laws=law, limits="ignore", **OTHERS[others](rest), **options))


@pytest.mark.parametrize("others", [*OTHERS])
@pytest.mark.parametrize("commanded", [(0, 2, 4), (1, 2, 4, 5), (0, 1, 2, 3, 5), (0, 2, 3, 4, 5, 6)])
def test_the_hand_is_on_its_line_whatever_the_other_joints_do(commanded, others):
    joints, goal = [ALL[i] for i in commanded], np.array([0.03, -0.02, 0.04])
    path, duration = line(goal, 4.0), 4.0
    attitude = STILL if len(joints) == 6 else None
    law = control.resolved_acceleration("hand", path, attitude, joints=joints, period=None, limited=False)
    found = closed_loop(law, duration, joints, others)
    assert found.sound
    wanted = np.stack([signal(found.times) for signal in path], axis=1)
    assert np.abs(hand_path(found) - wanted).max() < 1e-10


@pytest.mark.parametrize("others", [*OTHERS])
def test_the_hand_gives_way_by_force_over_stiffness(others):
    """The closed form of a mass on spring and damper under a constant force, to its end 40 mm away."""
    joints, force = [ALL[i] for i in (0, 2, 3, 4, 5, 6)], np.array([0.0, 4.0, 0.0])
    mass, damping, stiffness = 4.0, 36.0, 100.0
    law = control.impedance(
        "hand", list(ORIGIN), mass=mass, damping=damping, stiffness=stiffness, force=list(force), joints=joints,
        period=None, limited=False,
    )  # fmt: skip
    found = closed_loop(law, 3.0, joints, others, loads=[Load("hand", (*force, 0.0, 0.0, 0.0))])
    assert found.sound
    rise = 1.0 - step_response(found.times, mass, damping, stiffness)
    np.testing.assert_allclose(hand_path(found), ORIGIN + np.outer(rise, force / stiffness), atol=1e-9)
    np.testing.assert_allclose((hand_path(found)[-1] - ORIGIN)[1], 0.040, rtol=1e-5)


@pytest.mark.parametrize("others", [*OTHERS])
def test_the_rest_of_the_arm_does_not_turn_the_base(others):
    """Reaction null space: at zero momentum the base keeps its attitude, to rounding."""
    joints = [ALL[i] for i in (0, 1, 2, 3, 5)]
    wished = [constant(v) for v in (0.05, -0.04, 0.06, 0.03, -0.05)]
    law = control.reaction_null_space(wished, gain=2.0, joints=joints, period=None, limited=False)
    found = closed_loop(law, 4.0, joints, others)
    assert found.sound
    assert np.abs(found.states[:, 17:20]).max() < 1e-10
    assert np.abs(found.states[-1, 7:14] - POSTURE).max() > 0.05  # the arm did move


@pytest.mark.parametrize("others", [*OTHERS])
def test_torques_are_those_that_pinocchio_asks_for(others):
    """In any state: hand acceleration as asked for, no force on free joints, given accelerations of the others."""
    joints, state = ["j0", "j2", "j4"], tumbling(ROBOT)
    rest = [name for name in ALL if name not in joints]
    given = dict.fromkeys(rest, 0.0)
    options: dict[str, object] = {}
    if others == "locked":
        vector = state.vector.copy()
        vector[20:][[ALL.index(name) for name in rest]] = 0.0
        state, options["locked"] = State.from_vector(vector), rest
    elif others == "driven":
        given = {name: 0.1 * (k - 1) for k, name in enumerate(rest)}
        options["accelerations"] = given
    goal = ORIGIN + 0.3
    law = control.resolved_acceleration(
        "hand", list(goal), stiffness=4.0, damping=3.0, joints=joints, period=None, limited=False
    )
    found = simulate(ROBOT, state, Phase(1e-3, laws=law, limits="ignore", **options))
    torque = found.data["force"].sel(dof=joints).values[0]

    pin = PinocchioReference(ROBOT)
    jacobian, drift = pin.frame_jacobian(state, "hand")[:3], pin.frame_drift(state, "hand")[:3]
    asked = 4.0 * (goal - pin.frame_pose(state, "hand").translation) - 3.0 * jacobian @ state.velocity
    size, chosen = ROBOT.dofs, [ROBOT.dof_index(name) for name in joints]
    held = [] if others == "free" else [ROBOT.dof_index(name) for name in rest]
    # Unknown: all accelerations and forces. Motion; the hand; what is given; no force on what is free.
    motion = np.hstack([pin.mass_matrix(state), -np.eye(size)])
    hand = np.hstack([jacobian, np.zeros((3, size))])
    fixed = np.hstack([np.eye(size)[held], np.zeros((len(held), size))])
    loose = [i for i in range(size) if i not in chosen and i not in held]
    free = np.hstack([np.zeros((len(loose), size)), np.eye(size)[loose]])
    right = [-pin.bias(state), asked - drift, [given[ROBOT.dof_names[i]] for i in held], np.zeros(len(loose))]
    answer = np.linalg.solve(np.vstack([motion, hand, fixed, free]), np.concatenate(right))
    np.testing.assert_allclose(torque, answer[size:][chosen], rtol=1e-9, atol=1e-9)


def test_memory_goes_on_where_another_joint_is_locked():
    """An integrator keeps its value in a phase that locks what its law does not command."""
    law = control.joint_pid([constant(a + 0.01) for a in POSTURE[:6]], 1.0, 1.0, 0.5, joints=ALL[:6], limited=False)
    phases = [Phase(0.5, laws=law, limits="ignore", locked=["j6"]), Phase(0.5, laws=law, limits="ignore")]
    found = simulate(ROBOT, START, phases)
    before, after = found.commands
    assert np.abs(after.values[0] - before.values[-1]).max() < 1e-3  # less than half of the integral part
    assert np.abs(0.5 * 0.5 * 0.01) > 2e-3


def test_too_few_joints_for_the_hand():
    law = control.resolved_acceleration("hand", list(ORIGIN), STILL, joints=ALL[:5])
    with pytest.raises(InputError, match=r"5 joints .* 6 .*attitude"):
        simulate(ROBOT, START, Phase(1.0, laws=law))
    law = control.impedance("hand", list(ORIGIN), mass=1.0, damping=1.0, stiffness=1.0, joints=ALL[:4])
    with pytest.raises(InputError, match="2 joints"):
        simulate(ROBOT, START, Phase(1.0, laws=law, locked=["j0", "j1"]))
