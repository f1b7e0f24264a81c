"""Runs made step by step: bit for bit the run of the same commands; saved, restored, changed in between."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.mechanics.sensors import Encoder, Gyro
from spacearm.model import Body, Inertia, Robot, catalogue
from spacearm.simulate import RK4, Attach, Phase, Simulator, State, World, simulate
from spacearm.simulate.law import PythonLaw
from spacearm.simulate.methods import Method

ROBOT = catalogue.load("yoshida1992")
START = State.at_rest(ROBOT, ROBOT.configuration("L"))
PERIOD = 0.01
COMMANDS = 0.3 * np.random.default_rng(7).normal(size=(20, ROBOT.n))


def function(time: float, state: State, references: object) -> dict[str, float]:
    return dict(zip(ROBOT.joint_names, COMMANDS[min(round(time / PERIOD), 19)].tolist(), strict=True))


LAW = PythonLaw(function, period=PERIOD, forces=ROBOT.joint_names)


def stepped(simulator: Simulator, first: int = 0, last: int = 20) -> None:
    for command in COMMANDS[first:last]:
        simulator.step(command)


@pytest.mark.parametrize("method", [None, RK4(0.005)], ids=["adaptive", "fixed step"])
def test_steps_are_the_run_with_a_sampled_law_bit_for_bit(method: Method | None) -> None:
    whole = simulate(ROBOT, START, Phase(0.2, laws=LAW), method=method, sample=0.05)
    simulator = Simulator(ROBOT, START, period=PERIOD, duration=0.2, method=method, sample=0.05)
    stepped(simulator)
    assert simulator.done
    run = simulator.finish()
    np.testing.assert_array_equal(run.track.integrated, whole.track.integrated)
    np.testing.assert_array_equal(run.times, whole.times)
    assert run.sound
    assert run.stats == whole.stats
    assert run.certificate is not None
    assert whole.certificate is not None
    assert str(run.certificate) == str(whole.certificate)


def test_a_run_that_is_finished_early_is_sound_and_ends_there() -> None:
    simulator = Simulator(ROBOT, START, period=PERIOD, duration=50.0, sample=PERIOD)
    stepped(simulator, last=7)
    here = simulator.state
    run = simulator.finish()
    assert run.sound
    assert run.end_time == pytest.approx(0.07, rel=1e-12)
    assert run.end is not None
    np.testing.assert_array_equal(run.end.vector, here.vector)
    shorter = simulate(ROBOT, START, Phase(7 * PERIOD, laws=LAW), sample=PERIOD)
    np.testing.assert_array_equal(run.states[-1], shorter.states[-1])
    with pytest.raises(InputError, match="the run is over"):
        simulator.step()


def test_what_was_restored_goes_on_bit_for_bit() -> None:
    simulator = Simulator(ROBOT, START, period=PERIOD, duration=1.0, sample=PERIOD)
    stepped(simulator, last=5)
    saved = simulator.save()
    stepped(simulator, 5, 20)
    once = simulator.vector.copy()
    simulator.restore(saved)
    assert simulator.time == pytest.approx(0.05)
    simulator.step(5.0 * np.ones(ROBOT.n), dt=0.03)
    simulator.restore(saved)
    stepped(simulator, 5, 20)
    np.testing.assert_array_equal(simulator.vector, once)
    run = simulator.finish()
    whole = simulate(ROBOT, START, Phase(0.2, laws=LAW), sample=PERIOD)
    np.testing.assert_array_equal(run.states, whole.states)
    assert run.sound
    other = Simulator(ROBOT, START, period=PERIOD)
    with pytest.raises(InputError, match="another simulator"):
        other.restore(saved)


def test_a_change_between_steps_is_the_change_between_phases() -> None:
    target = Robot("target", (Body("rock", Inertia(5.0, tensor=np.diag([1.0, 1.0, 1.0]))),))
    world = World({"arm": ROBOT, "target": target})
    far = State.at_rest(target, position=(3.0, 0.0, 0.0))
    start = {"arm": START, "target": far}
    attach = Attach("target", ROBOT.bodies[-1].name)
    law = PythonLaw(function, period=PERIOD, forces=ROBOT.joint_names, system="arm")
    whole = simulate(world, start, [Phase(0.1, laws=law), attach, Phase(0.1, laws=law)])
    simulator = Simulator(world, start, system="arm", period=PERIOD, duration=0.2)
    stepped(simulator, last=10)
    before = simulator.save()
    simulator.apply(attach)
    assert list(simulator.world.systems) == ["arm"]
    with pytest.raises(InputError, match="a change was made since"):
        simulator.restore(before)
    for command in COMMANDS[:10]:  # times of a law count from its phase's start
        simulator.step(command)
    run = simulator.finish()
    assert whole.ends is not None
    assert run.ends is not None
    np.testing.assert_array_equal(run.ends["arm"].vector, whole.ends["arm"].vector)
    assert len(run.changes) == 1


def test_sensors_are_read_and_wrong_steps_are_told() -> None:
    simulator = Simulator(ROBOT, START, period=PERIOD)
    simulator.step({ROBOT.joint_names[0]: 1.0}, dt=0.05)
    found = simulator.read([Encoder(name="encoders"), Gyro(bias=0.5)])
    state = simulator.state
    np.testing.assert_allclose(found["encoders"][: ROBOT.n], state.joints, rtol=1e-12)
    np.testing.assert_allclose(found["gyro"], state.velocity[3:6] + 0.5, rtol=1e-12)
    for wrong in ({"elbow": 1.0}, [1.0], [np.nan] * ROBOT.n, "fast"):
        with pytest.raises(InputError):
            simulator.step(wrong)
    for dt in (0.0, -0.01, 0.015):
        with pytest.raises(InputError, match="whole periods"):
            simulator.step(dt=dt)


def test_balances_of_what_acts_from_outside_are_restored_too() -> None:
    """A push that was undone leaves no trace in momentum and energy."""
    simulator = Simulator(ROBOT, START, forces=("base_vx", "base_wz"), period=PERIOD, sample=PERIOD)
    simulator.step([2.0, 0.1], dt=0.05)
    saved = simulator.save()
    simulator.step([500.0, 30.0], dt=0.05)
    simulator.restore(saved)
    simulator.step([-1.0, 0.0], dt=0.05)
    run = simulator.finish()
    assert run.sound
    moved = run.states[-1][-ROBOT.dofs :]
    total = Simulator(ROBOT, START, forces=("base_vx", "base_wz"), period=PERIOD)
    total.step([2.0, 0.1], dt=0.05)
    total.step([-1.0, 0.0], dt=0.05)
    np.testing.assert_array_equal(total.vector[-ROBOT.dofs :], moved)
