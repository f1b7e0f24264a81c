"""Many samples step by step: roll-outs period by period, single samples set anew, readings."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.sensors import Encoder, Gyro
from spacearm.model import Limits, catalogue
from spacearm.simulate import RK4, Servo, Simulator, State, VectorSimulator, rollout

ROBOT = catalogue.load("yoshida1992")
N, COUNT = ROBOT.n, 11
START = State.at_rest(ROBOT, ROBOT.configuration("L")).vector
STARTS = np.tile(START, (COUNT, 1))
STARTS[:, 7 : 7 + N] += 0.3 * np.random.default_rng(4).normal(size=(COUNT, N))
COMMANDS = 0.3 * np.random.default_rng(5).normal(size=(6, COUNT, N))
#: s between commands, and integration steps in it.
PERIOD, STEPS = 0.01, 2


def test_steps_are_a_rollout_bit_for_bit_whatever_the_other_samples_are() -> None:
    forces = np.zeros((COUNT, len(COMMANDS) * STEPS, ROBOT.dofs))
    forces[..., 6:] = np.repeat(COMMANDS.swapaxes(0, 1), STEPS, axis=1)
    expected = rollout(ROBOT, STARTS, PERIOD / STEPS, forces.shape[1], forces=forces, every=STEPS)
    simulator = VectorSimulator(ROBOT, STARTS, period=PERIOD, steps=STEPS)
    few = VectorSimulator(ROBOT, STARTS[3:5], period=PERIOD, steps=STEPS)
    for k, commands in enumerate(COMMANDS):
        found = simulator.step(commands)
        np.testing.assert_array_equal(found, expected[:, k])
        np.testing.assert_array_equal(few.step(commands[3:5]), expected[3:5, k])
    np.testing.assert_allclose(simulator.times, 6 * PERIOD)
    assert np.abs(found - STARTS).max() > 1e-3


def test_samples_are_set_anew_alone() -> None:
    simulator = VectorSimulator(ROBOT, STARTS, period=PERIOD)
    untouched = VectorSimulator(ROBOT, STARTS, period=PERIOD)
    for commands in COMMANDS[:3]:
        simulator.step(commands)
        untouched.step(commands)
    mask = np.arange(COUNT) % 3 == 0
    found = simulator.reset(mask)
    np.testing.assert_array_equal(found[mask], STARTS[mask])
    np.testing.assert_array_equal(found[~mask], untouched.states[~mask])
    np.testing.assert_array_equal(simulator.times, np.where(mask, 0.0, 3 * PERIOD))
    again = VectorSimulator(ROBOT, STARTS, period=PERIOD)
    for commands in COMMANDS[3:]:
        simulator.step(commands)
        untouched.step(commands)
        again.step(commands)
    np.testing.assert_array_equal(simulator.states[mask], again.states[mask])
    np.testing.assert_array_equal(simulator.states[~mask], untouched.states[~mask])


def test_parameters_of_samples_are_set_anew_with_them() -> None:
    own = ROBOT.inertia_parameters.ravel()
    inertia = own * np.linspace(0.8, 1.2, COUNT)[:, None]
    simulator = VectorSimulator(ROBOT, START, COUNT, period=PERIOD, overrides={"inertia": inertia})
    simulator.step(COMMANDS[0])
    np.testing.assert_array_equal(
        simulator.states,
        VectorSimulator(ROBOT, START, COUNT, period=PERIOD, overrides={"inertia": inertia}).step(COMMANDS[0]),
    )
    inertia[2] = 1.5 * own
    mask = np.arange(COUNT) == 2
    simulator.reset(mask, overrides={"inertia": inertia[mask]})
    simulator.step(COMMANDS[1])
    fresh = VectorSimulator(ROBOT, START, COUNT, period=PERIOD, overrides={"inertia": inertia})
    np.testing.assert_array_equal(simulator.states[2], fresh.step(COMMANDS[1])[2])
    # Newton: with half as much inertia again the same torque gives that much less acceleration.
    rest = VectorSimulator(ROBOT, START, 2, period=1e-6, overrides={"inertia": np.array([own, 1.5 * own])})
    rates = rest.step(COMMANDS[0][0])[:, -N:]
    np.testing.assert_allclose(rates[0], 1.5 * rates[1], rtol=1e-6)


def test_it_agrees_with_one_simulator_up_to_rounding() -> None:
    alone = Simulator(ROBOT, State.from_vector(STARTS[1]), period=PERIOD, method=RK4(PERIOD))
    simulator = VectorSimulator(ROBOT, STARTS, period=PERIOD)
    for commands in COMMANDS:
        alone.step(commands[1])
        simulator.step(commands)
    np.testing.assert_allclose(simulator.states[1], alone.vector[: START.size], rtol=0, atol=1e-13)
    sensors = (Encoder(name="encoders"), Gyro(bias=0.5))
    found, one = simulator.read(sensors), alone.read(sensors)
    assert found["gyro"].shape == (COUNT, 3)
    for name, value in one.items():
        np.testing.assert_allclose(found[name][1], value, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["gyro"], simulator.states[:, 10 + N : 13 + N] + 0.5, rtol=0, atol=1e-14)


def test_commands_keep_to_efforts_and_locked_joints_do_not_move() -> None:
    joints = tuple(replace(joint, limits=Limits(effort=0.1)) for joint in ROBOT.joints)
    weak = VectorSimulator(replace(ROBOT, joints=joints), STARTS, period=PERIOD)
    strong = VectorSimulator(ROBOT, STARTS, period=PERIOD)
    np.testing.assert_array_equal(weak.step(COMMANDS[0]), strong.step(np.clip(COMMANDS[0], -0.1, 0.1)))
    first, *others = ROBOT.joint_names
    held = VectorSimulator(ROBOT, STARTS, period=PERIOD, locked=[first])
    assert held.forces == tuple(others)
    np.testing.assert_array_equal(held.step(COMMANDS[0][:, 1:])[:, 7], STARTS[:, 7])


def test_a_servo_acts_within_the_period_on_the_state_of_its_ticks() -> None:
    """Damping towards commanded rates: as by a simulator of short periods whose forces are computed in between."""
    hold, gain = 2, 0.7

    def build(plant: Plant, wanted: ca.SX) -> ca.SX:
        return gain * (wanted - plant.rates)

    servo = Servo(build, N, hold)
    simulator = VectorSimulator(ROBOT, STARTS, period=3 * PERIOD, steps=3 * STEPS, servo=servo)
    few = VectorSimulator(ROBOT, STARTS[3:5], period=3 * PERIOD, steps=3 * STEPS, servo=servo)
    short = VectorSimulator(ROBOT, STARTS, period=PERIOD, steps=hold)
    for commands in COMMANDS[:2]:
        found = simulator.step(commands)
        for _ in range(3):
            expected = short.step(gain * (commands - short.states[:, -N:]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(few.step(commands[3:5]), found[3:5])
    assert np.abs(found - STARTS).max() > 1e-3
    with pytest.raises(InputError, match="expected a divisor of 4"):
        VectorSimulator(ROBOT, STARTS, steps=4, servo=Servo(build, N, 3))
    with pytest.raises(InputError, match="the servo gives 1 forces"):
        VectorSimulator(ROBOT, STARTS, servo=Servo(lambda plant, wanted: wanted[0], N))


def test_what_does_not_fit_is_told() -> None:
    simulator = VectorSimulator(ROBOT, STARTS, period=PERIOD)
    for commands in (np.zeros((COUNT, N + 1)), np.full((COUNT, N), np.nan), "fast"):
        with pytest.raises(InputError):
            simulator.step(commands)
    with pytest.raises(InputError, match="mask is float64"):
        simulator.reset(np.zeros(COUNT))
    with pytest.raises(InputError, match="starts are 3"):
        simulator.reset(np.arange(COUNT) < 2, STARTS[:3])
    with pytest.raises(InputError, match="not given for each sample"):
        simulator.reset(overrides={"inertia": ROBOT.inertia_parameters.ravel()})
    with pytest.raises(InputError, match="starts are 11"):
        VectorSimulator(ROBOT, STARTS, 7)
    moving = STARTS.copy()
    moving[4, -1] = 1.0
    with pytest.raises(InputError, match="moves at the start"):
        VectorSimulator(ROBOT, moving, locked=ROBOT.joint_names[-1:])
