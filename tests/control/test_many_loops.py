"""Closed loops in many runs: roll-outs in lanes and batches give what single runs give."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import POSTURE, quintic

from spacearm import control, rollout, simulate_batch
from spacearm.errors import InputError
from spacearm.simulate import RK4, Phase, Signal, State, simulate

ROBOT = arm(7)
PLAN = [quintic(a, a + 0.3, 0.33) for a in POSTURE]
LAW = control.joint_pid(PLAN, 4.0, 2.0, 1.0, period=0.01, limited=False)


def starts(count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    rows = [State.moving(ROBOT, POSTURE + 0.1 * rng.normal(size=7), 0.1 * rng.normal(size=7)) for _ in range(count)]
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


def test_a_batch_with_a_law_is_its_runs_for_any_number_of_threads():
    rows = starts(20)
    phase = Phase(0.5, laws=LAW, limits="ignore")
    one, two = (simulate_batch(ROBOT, rows, phase, threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one.end, two.end)
    single = simulate(ROBOT, State.from_vector(rows[17]), phase)
    np.testing.assert_allclose(one.end[17], single.states[-1], atol=1e-8)


def test_laws_that_rollouts_cannot_have():
    for law, message in (
        (LAW.replace(period=0.0077), "whole number of steps"),
        (control.computed_torque(PLAN, 1.0, 1.0, period=None), "sampled"),
        (control.Law(lambda plant: control.Commands(thrusters={"main": 1.0})), "simulate_batch"),
    ):
        with pytest.raises(InputError, match=message):
            rollout(ROBOT, starts(2), 0.005, 10, law=law)


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
    with pytest.raises(InputError, match="periods that do not fit"):
        simulate(ROBOT, start, Phase(0.3, laws=[fast, slow.replace(period=0.025)], **held))
    with pytest.raises(InputError, match="cannot act together"):
        simulate(ROBOT, start, Phase(0.3, laws=[fast, slow.replace(limited=True)], **held))
