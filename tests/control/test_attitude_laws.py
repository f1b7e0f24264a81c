"""Laws that turn the base: wheels, thrusters, detumbling. Against closed forms and balances of their own."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.arms import arm, tumbling
from tests.support.control import craft, step_response, turned_by

from spacearm import Mechanics, control, load, save
from spacearm.control.attitude import propellant_mass
from spacearm.errors import InputError
from spacearm.simulate import Phase, State, simulate
from spacearm.simulate.check.crosscheck import cross_check

TENSOR = np.diag([20.0, 25.0, 15.0])


def total_momentum(states: np.ndarray) -> np.ndarray:
    """Angular momentum of bus and wheels about the mass centre, world axes, from the definitions."""
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_quat(np.roll(states[:, 3:7], -1, axis=1))
    own = states[:, 13:16] @ TENSOR + 0.02 * (states[:, 16:19] + states[:, 13:16])
    return turn.apply(own)


@pytest.mark.parametrize("joints", [0, 7])
def test_detumbling_takes_momentum_by_torque(joints):
    robot = craft() if joints == 0 else arm(joints)
    start = (
        tumbling(robot)
        if joints
        else State.from_velocities(robot, np.zeros(3), [5.0, 0.0, -3.0], base_angular_velocity=[0.2, -0.1, 0.3])
    )
    mechanics, torque = Mechanics(robot), 0.5
    momentum = mechanics.momentum(start.joints, start.velocity, base=start.pose, about="com")[3:]
    expected = np.linalg.norm(momentum) / torque
    found = simulate(robot, start, Phase(2 * expected, laws=control.detumble(torque), limits="ignore"))
    assert found.sound
    assert [event.name for event in found.events] == ["detumbled"]
    assert found.end_time == pytest.approx(expected, rel=1e-9)
    end = found.end
    left = mechanics.momentum(end.joints, end.velocity, base=end.pose, about="com")[3:]
    assert np.linalg.norm(left) < 1e-8 * np.linalg.norm(momentum)


def test_wheels_turn_the_base_like_a_spring_and_damper():
    """About one axis, with small angles: I e'' + c e' + k e = 0, I being the bus without the wheel's axial inertia."""
    robot, k, c, angle = craft(torque=10.0), 2.0, 8.0, 1e-4
    start = State.at_rest(robot, np.zeros(3), quaternion=[np.cos(angle / 2), 0, 0, np.sin(angle / 2)])
    law = control.attitude_by_wheels(stiffness=k, damping=c, period=None)
    found = simulate(robot, start, Phase(20.0, laws=law))
    # A wheel's motor turns the bus alone: the wheel spins up against it.
    decay = step_response(found.times, 15.0, c, k)
    np.testing.assert_allclose(2 * found.states[:, 6], angle * decay, atol=1e-11)


def test_momentum_moves_between_bus_and_wheels_and_none_is_lost():
    robot = craft()
    start = State.from_velocities(
        robot,
        np.zeros(3),
        [3.0, -2.0, 1.0],
        quaternion=[0.8, 0.0, 0.36, 0.48],
        base_angular_velocity=[0.01, -0.02, 0.03],
    )
    law = control.attitude_by_wheels(stiffness=2.0, damping=12.0, period=0.1)
    found = simulate(robot, start, Phase(300.0, laws=law))
    assert found.sound
    assert turned_by(found)[-1] < 1e-6
    momentum = total_momentum(found.states)
    drift = np.abs(momentum - momentum[0]).max() / np.linalg.norm(momentum[0])
    assert drift < 1e-9
    assert np.linalg.norm(0.02 * found.states[-1, 16:19] - momentum[-1] @ np.eye(3)) < 1e-6  # it is in the wheels now
    assert {event.name for event in found.events_of("saturation")} >= {"wy"}
    assert found.certificate is not None
    short = simulate(robot, start, Phase(2.0, laws=law), sample=0.5)
    assert cross_check(short).largest < 1e-8


def test_wheels_never_store_more_than_they_can():
    robot, speed = craft(torque=1.0, speed=20.0), 20.0
    # The bus brings 3 N m s, of which a wheel takes 0.4.
    start = State.from_velocities(robot, np.zeros(3), np.zeros(3), base_angular_velocity=[0.0, 0.0, 0.2])
    law = control.attitude_by_wheels(stiffness=2.0, damping=12.0, period=0.1)
    found = simulate(robot, start, Phase(60.0, laws=law), sample=0.02)  # within ticks too
    assert found.sound
    assert np.abs(found.states[:, 16:19]).max() <= speed * (1 + 1e-9)
    assert np.abs(found.states[:, 18]).max() > 0.99 * speed
    assert found.events_of("saturation")
    assert found.states[-1, 15] > 0.1  # it still turns


def test_thrusters_hold_an_attitude_within_a_dead_band():
    robot = craft(pulse=0.2)
    start = State.from_velocities(robot, np.zeros(3), np.zeros(3), base_angular_velocity=[0.01, 0.02, -0.01])
    law = control.attitude_by_thrusters(robot, dead_band=0.02, rate_gain=4.0, period=0.1)
    found = simulate(robot, start, Phase(200.0, laws=law), sample=0.1)
    assert found.sound
    late = found.times > 60.0
    assert turned_by(found)[late].max() < 0.04
    (log,) = found.commands
    assert {*np.unique(log.values)} == {0.0, 1.0}
    pulses = _lengths(log.values)
    assert min(pulses) * 0.1 >= 0.2 - 1e-12  # no pulse is shorter than the shortest
    # Total momentum and exhaust: each firing gives force times time, nothing else does.
    firing = log.values[np.searchsorted(log.times, found.times[:-1] + 1e-9, side="right") - 1]
    assert firing.shape[1] == 12
    assert found.certificate is not None
    assert all(check.value < 1e-9 for name, check in found.certificate.items() if "momentum" in name)
    used = propellant_mass(robot, log)
    on = log.values.sum(axis=0) * 0.1
    assert used == pytest.approx(sum(on) * 1.0 / (220.0 * 9.80665), rel=1e-9)


def test_momentum_of_bus_wheels_and_exhaust_closes():
    """Linear and angular momentum, from the definitions, less the impulses of the jets by Boole's rule in each tick."""
    from scipy.spatial.transform import Rotation

    robot = craft()
    start = State.from_velocities(robot, np.zeros(3), [3.0, -2.0, 1.0], base_angular_velocity=[0.03, 0.04, -0.02])
    laws = [
        control.attitude_by_wheels(stiffness=1.0, damping=6.0, period=0.1),
        control.attitude_by_thrusters(robot, dead_band=0.02, rate_gain=4.0, period=0.1),
    ]
    found = simulate(robot, start, Phase(30.0, laws=laws), sample=0.025)
    assert found.sound
    (log,) = found.commands
    turn = Rotation.from_quat(np.roll(found.states[:, 3:7], -1, axis=1))
    linear = 100.0 * turn.apply(found.states[:, 10:13])
    angular = total_momentum(found.states) + np.cross(found.states[:, :3], linear)
    levels = np.stack([log[part.name] for part in robot.thrusters], axis=1)
    assert levels.any()
    matrix, push = turn.as_matrix(), np.zeros((300, 5, 6))
    for tick, node in np.ndindex(300, 5):
        row = 4 * tick + node
        for part, level in zip(robot.thrusters, levels[tick], strict=True):
            force = level * part.force * matrix[row] @ part.direction
            at = found.states[row, :3] + matrix[row] @ part.position
            push[tick, node] += np.concatenate([force, np.cross(at, force)])
    given = np.einsum("n,tnk->tk", 0.025 * 2 / 45 * np.array([7, 32, 12, 32, 7]), push).sum(axis=0)
    scale = np.abs(push).sum(axis=(0, 1)).max() * 0.025
    np.testing.assert_allclose(linear[-1] - linear[0], given[:3], atol=1e-9 * scale)
    np.testing.assert_allclose(angular[-1] - angular[0], given[3:], atol=1e-9 * scale)


def _lengths(values: np.ndarray) -> list[int]:
    """Ticks of each pulse that begins and ends."""
    found = []
    for column in values.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0.0], column, [0.0]])))
        found += [int(b - a) for a, b in zip(edges[::2], edges[1::2], strict=True) if b < len(column)]
    return found


def test_a_wheel_in_a_file(tmp_path):
    text = """
[robot]
name = "bus"
[[body]]
name = "bus"
mass = 100
inertia = [20, 25, 15]
[[wheel]]
name = "w"
body = "bus"
axis = [0, 0, 1]
inertia = 0.02
torque = 0.2
speed = 600
[[thruster]]
name = "t"
body = "bus"
position = [0, 0, 0]
direction = [1, 0, 0]
force = 1
minimum_pulse = 0.05
specific_impulse = 220
"""
    path = tmp_path / "bus.toml"
    path.write_text(text)
    robot = load(path)
    assert robot.wheel_names == ("w",)
    joint = robot.joint("w")
    assert (joint.limits.effort, joint.limits.velocity, joint.rotor.inertia) == (0.2, 600.0, 0.02)
    assert (robot.thruster("t").minimum_pulse, robot.thruster("t").specific_impulse) == (0.05, 220.0)
    save(robot, tmp_path / "again.toml")
    assert load(tmp_path / "again.toml") == robot
    path.write_text(text.replace("inertia = 0.02", "inertia = -1"))
    with pytest.raises(InputError, match=r"wheel\[0\] \('w'\): rotor inertia"):
        load(path)


def test_thrusters_that_cannot_turn_the_base():
    robot = craft()
    with pytest.raises(InputError, match=r"cannot rotate the base about \+x"):
        control.attitude_by_thrusters(robot, dead_band=0.1, rate_gain=1.0, thrusters=["tx+a", "tx+b"])
