"""Closed loops in many runs: roll-outs in lanes and batches give what single runs give."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import POSTURE, craft, quaternion_of, quintic

from spacearm import Mechanics, control, rollout, simulate_batch
from spacearm.errors import InputError
from spacearm.simulate import RK4, Dopri853, Phase, Signal, State, constant, simulate
from spacearm.simulate.ensemble.phase_batch import PhaseBatch

ROBOT = arm(7)
PLAN = [quintic(a, a + 0.3, 0.33) for a in POSTURE]
LAW = control.joint_pid(PLAN, 4.0, 2.0, 1.0, period=0.01, limited=False)


def starts(count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    rows = [
        State.from_velocities(ROBOT, POSTURE + 0.1 * rng.normal(size=7), 0.1 * rng.normal(size=7)) for _ in range(count)
    ]
    return np.stack([row.vector for row in rows])


@pytest.mark.parametrize("law", [LAW, LAW.replace(delay=0.02), control.computed_torque(PLAN, 20.0, 8.0)])
def test_rollouts_in_lanes_are_the_runs_with_fixed_steps(law):
    """References that end within a step, memory, delay, forces besides."""
    rows = starts(11)
    forces = np.zeros((1, 100, 13))
    forces[0, 40:, 7] = 0.3
    found = rollout(ROBOT, rows, 0.005, 100, forces=forces, law=law, every=10)
    push = {"j1": Signal(np.array([0.0, 0.2, 1.0]), np.array([[0.0, 0.3]]))}
    for i in (0, 7, 10):
        start = State.from_vector(rows[i])
        one = simulate(
            ROBOT,
            start,
            Phase(0.5, laws=law, forces=push, limits="ignore"),
            method=RK4(0.005),
            sample=0.05,
            ledger=False,
        )
        np.testing.assert_allclose(found[i], one.states[1:], atol=1e-12)
    alone = rollout(ROBOT, rows[3], 0.005, 100, forces=forces, law=law, every=10)
    np.testing.assert_array_equal(alone, found[3])


@pytest.mark.parametrize("command", ["forces", "accelerations", "memory"])
def test_continuous_laws_in_lanes(command):
    """Equal to single runs with the same steps, of order 4 against an adaptive one; forces besides, path in pieces.

    An integral is integrated with the state.
    """
    origin, rotation = Mechanics(ROBOT).frame_pose("hand", POSTURE)
    turning = control.AttitudeRotation(quaternion_of(rotation))
    rows, plan = starts(9), [quintic(a, a + 0.3, 0.3) for a in POSTURE]
    law = control.computed_torque(plan, 20.0, 8.0, period=None, limited=False)
    if command == "accelerations":
        path = [quintic(a, a + 0.02, 0.3) for a in origin]
        law = control.resolved_acceleration("hand", path, turning, command=command, period=None, limited=False)
    elif command == "memory":
        law = control.joint_pid(plan, 2.0, 0.5, 6.0, period=None, limited=False)
    forces = np.zeros((9, 1, 13))
    forces[:, 0, 2] = np.linspace(0.0, 0.5, 9)

    def alone(i, method):
        pushed = Phase(0.5, laws=law, forces={"base_vz": constant(forces[i, 0, 2])}, limits="ignore")
        run = simulate(ROBOT, State.from_vector(rows[i]), pushed, method=method, sample=0.05, ledger=False)
        return run.states[1:]

    found = rollout(ROBOT, rows, 0.0125, 40, forces=forces, law=law, every=4)
    for i in (0, 5, 8):
        np.testing.assert_allclose(found[i], alone(i, RK4(0.0125)), atol=1e-12)
    exact = alone(5, Dopri853(rtol=1e-12, atol=1e-13))[-1]
    off = [
        np.abs(rollout(ROBOT, rows[5], 0.5 / n, n, forces=forces[5, 0], law=law)[-1] - exact).max() for n in (20, 40)
    ]
    assert np.log2(off[0] / off[1]) == pytest.approx(4.0, abs=0.4)


def test_a_batch_with_a_law_is_its_runs_for_any_number_of_threads():
    rows = starts(20)
    phase = Phase(0.5, laws=LAW, limits="ignore")
    one, two = (simulate_batch(ROBOT, rows, phase, threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one.end, two.end)
    single = simulate(ROBOT, State.from_vector(rows[17]), phase)
    np.testing.assert_allclose(one.end[17], single.states[-1], atol=1e-8)


def test_thrusters_wheels_and_accelerations_in_lanes():
    """What acts on a frame or gives a joint its acceleration is the same in lanes as in a run with fixed steps."""
    bus = craft(pulse=0.02)
    by_wheels = control.attitude_by_wheels(stiffness=2.0, damping=12.0, period=0.01)
    by_thrusters = control.attitude_by_thrusters(bus, dead_band=0.02, rate_gain=4.0, period=0.01)
    turned = State.from_velocities(bus, np.zeros(3), np.zeros(3), base_angular_velocity=[0.03, 0.02, -0.04])
    path = [constant(v) for v in (0.05, -0.04, 0.06, 0.03, -0.05, 0.04, 0.02)]
    still = control.reaction_null_space(path, command="accelerations", period=0.01)
    for robot, start, law in (
        (bus, turned, by_wheels), (bus, turned, by_thrusters), (ROBOT, State.at_rest(ROBOT, POSTURE), still)
    ):  # fmt: skip
        rows = np.repeat(start.vector[None], 9, axis=0)
        found = rollout(robot, rows, 0.005, 200, law=law)
        phase = Phase(1.0, laws=law, limits="ignore")
        one = simulate(robot, start, phase, method=RK4(0.005), ledger=False)
        np.testing.assert_allclose(found[8, -1], one.states[-1], atol=1e-12)
        assert np.abs(one.states[-1] - start.vector).max() > 1e-3


def test_a_law_forgets_one_sample_before_the_next():
    """The same start three times in one compiled loop: memory, delay and ticks begin afresh each time."""
    batch = PhaseBatch(ROBOT, Phase(0.2, laws=LAW.replace(delay=0.02), limits="ignore"), Dopri853(), {})
    rows = np.repeat(starts(1), 3, axis=0)
    ends = batch.run(rows, slice(0, 3), np.ones(3, dtype=bool), np.zeros(0), np.zeros(1, dtype=np.uint8))
    np.testing.assert_array_equal(ends.state[1:], ends.state[[0, 0]])
    alone = simulate(ROBOT, State.from_vector(rows[0]), Phase(0.2, laws=LAW.replace(delay=0.02), limits="ignore"))
    np.testing.assert_allclose(ends.state[2], alone.states[-1], atol=1e-8)


def test_laws_that_rollouts_cannot_have():
    for law, message in (
        (LAW.replace(period=0.0077), "not a multiple of the step"),
        (control.computed_torque(PLAN, 1.0, 1.0, period=None), r"break at 0\.33 s, within a step"),
    ):
        with pytest.raises(InputError, match=message):
            rollout(ROBOT, starts(2), 0.008, 100, law=law)


def test_two_laws_act_together_each_at_its_own_period():
    """A fast law on three joints and a slow one on the rest: each commands what it would alone, joints being held."""
    first, rest = ROBOT.joint_names[:3], ROBOT.joint_names[3:]
    fast = control.joint_pid(PLAN[:3], 4.0, 2.0, 1.0, joints=first, period=0.01, limited=False, name="fast")
    slow = control.joint_pid(PLAN[3:], 4.0, 2.0, 1.0, joints=rest, period=0.03, limited=False, name="slow")
    start = State.at_rest(ROBOT, POSTURE)
    held = {"locked": ROBOT.joint_names, "limits": "ignore"}
    alone = [simulate(ROBOT, start, Phase(0.3, laws=law, **held)).commands[0] for law in (fast, slow)]
    (both,) = simulate(ROBOT, start, Phase(0.3, laws=[fast, slow], **held)).commands
    for name in first:
        np.testing.assert_allclose(both[name], alone[0][name], atol=1e-14)
    for name in rest:
        np.testing.assert_allclose(both[name], np.repeat(alone[1][name], 3), atol=1e-14)
    with pytest.raises(InputError, match="periods that are not multiples"):
        simulate(ROBOT, start, Phase(0.3, laws=[fast, slow.replace(period=0.025)], **held))
    with pytest.raises(InputError, match="cannot act together"):
        simulate(ROBOT, start, Phase(0.3, laws=[fast, slow.replace(limited=True)], **held))
