"""Rate limits of drives bind: between the ticks of a sampled law, without a limit of effort, of wheels, in lanes."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import craft

from spacearm import control, rollout
from spacearm.model import Limits
from spacearm.model.base import BASE_DOFS
from spacearm.simulate import RK4, Phase, State, load_run, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.ensemble.vectorised_runs import VectorisedRun, simulate_lanes

#: Of the arm with one joint about its axis, by Steiner, kg m2.
INERTIA = 0.04 + 4.0 * (0.02**2 + 0.03**2)
FIXED = {"locked": BASE_DOFS, "limits": "ignore"}
TORQUE, RATE = 0.1, 0.5


def joint(effort: float = TORQUE, rate: float = RATE):
    robot = arm(1)
    return replace(robot, joints=(replace(robot.joints[0], limits=Limits(effort=effort, velocity=rate)),))


def push(period: float, torque: float = TORQUE, **settings: object) -> control.Law:
    return control.Law(lambda plant: {"j0": torque + 0.0 * plant.time}, period=period, **settings)


@pytest.mark.parametrize("effort", [TORQUE, np.inf])
@pytest.mark.parametrize("method", [None, RK4(0.01)])
def test_a_drive_gives_no_more_from_its_rate_limit_on(effort, method):
    """Constant torque to the limit, then constant rate: closed form; the cut lies within the law's period."""
    robot, meets = joint(effort), RATE * INERTIA / TORQUE
    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=push(1.0), **FIXED), sample=0.05, method=method)
    assert found.sound
    (event,) = found.events_of("rate limit")
    assert event.name == "j0"
    np.testing.assert_allclose([event.time, event.value], [meets, RATE], rtol=1e-9)
    rates = np.minimum(found.times * TORQUE / INERTIA, RATE)
    np.testing.assert_allclose(found.states[:, 14], rates, atol=1e-9)
    assert np.abs(found.states[:, 14]).max() <= RATE * (1 + 1e-12)
    way = 0.5 * RATE * meets + RATE * (2.0 - meets)
    np.testing.assert_allclose(found.states[-1, 7], way, rtol=1e-9)
    np.testing.assert_allclose(found.saturation_shares["j0"], (2.0 - meets) / 2.0, rtol=1e-6)
    # The drive's work is the energy of the motion.
    np.testing.assert_allclose(float(found.data["energy_drive"].values[-1].sum()), 0.5 * INERTIA * RATE**2, rtol=1e-8)
    if method is None:
        assert cross_check(found).largest < 1e-8
        assert cross_check(found, closed_loop=True).largest < 1e-8


def test_a_drive_at_its_limit_brakes():
    robot = joint()

    def build(plant: control.Plant) -> dict:
        return {"j0": ca.if_else(plant.time < 0.95, TORQUE, -TORQUE)}

    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=control.Law(build, period=0.5), **FIXED), sample=0.05)
    assert found.sound
    np.testing.assert_allclose(found.states[-1, 14], max(-RATE, RATE - TORQUE / INERTIA), atol=1e-9)


def test_a_short_period_makes_one_event_of_a_long_saturation():
    robot = joint()
    found = simulate(robot, State.at_rest(robot), Phase(5.0, laws=push(0.02), **FIXED), sample=0.01)
    assert found.sound
    assert np.abs(found.states[:, 14]).max() <= RATE * (1 + 1e-12)
    assert len(found.events_of("rate limit")) <= 1
    assert found.saturation_shares["j0"] > 0.9


def test_accelerations_that_are_given_stop_at_the_rate_limit_too():
    robot = joint()
    law = control.Law(lambda plant: control.Commands(accelerations={"j0": 1.0 + 0.0 * plant.time}), period=0.2)
    found = simulate(robot, State.at_rest(robot), Phase(1.0, laws=law, **FIXED), sample=0.05)
    assert found.sound
    np.testing.assert_allclose(found.states[:, 14], np.minimum(found.times, RATE), atol=1e-12)


def test_wheels_keep_their_momentum_limit_whatever_turns_the_bus():
    """The bus is turned by thrust from outside while its wheels work against it at a slow period."""
    robot, speed = craft(torque=1.0, speed=20.0), 20.0
    law = control.attitude_by_wheels(stiffness=20.0, damping=60.0, period=0.5)
    start = State.from_velocities(robot, np.zeros(3), [0.0, 0.0, 15.0], base_angular_velocity=[0.0, 0.0, 0.5])
    found = simulate(robot, start, Phase(20.0, laws=law), sample=0.01)
    assert found.sound
    assert np.abs(found.states[:, 16:19]).max() <= speed * (1 + 1e-9)
    assert found.saturation_shares["wz"] > 0.1


def test_a_saved_run_keeps_what_was_cut(tmp_path):
    robot = joint()
    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=push(1.0), **FIXED))
    back = load_run(found.to_netcdf(tmp_path / "run.nc"))
    assert back.saturation_shares == found.saturation_shares
    for one, two in zip(back.commands[0].command_steps("j0"), found.commands[0].command_steps("j0"), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(found.commands[0].command_steps("j0")[1], [TORQUE, 0.0, 0.0], atol=1e-12)


def test_rollouts_pass_a_rate_limit_by_no_more_than_a_step():
    robot, step = joint(), 0.01
    rows = rollout(robot, State.at_rest(robot).vector[None], step, 100, law=push(1.0), every=1, ignore_friction=True)
    rates = np.abs(rows[0, :, 14])
    assert rates.max() > 0.99 * RATE
    # The base floats: the joint alone sees less inertia than on a fixed base.
    slopes = np.diff(rates)
    assert rates.max() <= RATE + slopes.max()
    assert np.ptp(rates[-40:]) < 1e-3 * RATE  # no torque of the drive acts any more


def test_lanes_hand_back_what_meets_a_rate_limit_between_ticks():
    robot = joint()
    phase = Phase(1.0, laws=push(0.5), **FIXED)
    runs = [
        VectorisedRun(robot, State.from_velocities(robot, [0.0], [rate]), [phase], 0.01, 1e-6) for rate in (0.0, -3.0)
    ]
    first, second = simulate_lanes(runs)
    assert first is None
    alone = simulate(robot, runs[1].start, phase, method=RK4(0.01))
    np.testing.assert_allclose(second.rates, alone.states[-1, 14:], rtol=1e-9)
