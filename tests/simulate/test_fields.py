"""Gravity and orbits, against closed forms and sums over particles."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.mechanics.fields import hill_rotor_moment, hill_wrench, linear_gravity_wrench
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.model import Body, Inertia, Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_about, rotation_matrices
from spacearm.simulate import Dopri853, Gravity, Orbit, State, World, simulate, simulate_batch
from spacearm.simulate.bodies import evaluate_bodies, momentum
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.typing import Array
from support.random_robots import random_robot, random_rotation
from support.random_robots import random_state as drawn_state

#: What a run warns of is an error here.
pytestmark = pytest.mark.filterwarnings("error")

TIGHT = Dopri853(rtol=1e-12, atol=1e-14)
RATE = 1.1e-3  # rad/s, mean motion of a low orbit


def ball(*moments: float) -> Robot:
    return Robot("ball", (Body("ball", Inertia(2.0, tensor=np.diag(moments))),), ())


def placed(position: Array, rotation: Array, velocity: Array) -> State:
    return State(position, quaternion_from_rotation(rotation), np.zeros(0), velocity)


def hill(t: Array, start: Array, n: float) -> Array:
    """Positions (T, 3) by the closed form of Clohessy and Wiltshire."""
    x, y, z, u, v, w = start
    s, c = np.sin(n * t), np.cos(n * t)
    return np.stack(
        [
            (4 - 3 * c) * x + s / n * u + 2 / n * (1 - c) * v,
            6 * (s - n * t) * x + y - 2 / n * (1 - c) * u + (4 * s - 3 * n * t) / n * v,
            c * z + s / n * w,
        ],
        axis=1,
    )


def test_relative_motion_over_an_orbit_is_the_closed_form() -> None:
    start = np.array([120.0, -40.0, 30.0, 0.05, -0.2, 0.03])
    state = placed(start[:3], np.eye(3), np.concatenate([start[3:], np.zeros(3)]))
    world = World({"ball": ball(0.4, 0.4, 0.4)}, elements=(Orbit(RATE),))
    run = simulate(world, state, 2 * np.pi / RATE, method=TIGHT)
    expected = hill(run.times, start, RATE)
    assert run.sound
    assert np.abs(run.states[:, :3] - expected).max() < 1e-9 * np.abs(expected).max()


def recurrence(y: Array, waves: int) -> Array:
    """``2 cos(omega h)`` of the waves that samples at intervals h consist of."""
    mids = y[2:-2]
    if waves == 1:
        return np.array([(y[3:-1] + y[1:-3]) @ mids / (mids @ mids)])
    a, b = np.linalg.lstsq(np.stack([y[3:-1] + y[1:-3], mids], axis=1), y[4:] + y[:-4], rcond=None)[0]
    return np.sort(np.roots([1.0, -a, -2.0 - b]))


def test_libration_frequencies_are_those_of_theory() -> None:
    # x radial (yaw), y along the orbit (roll), z normal to it (pitch): stable with the long axis upright.
    yaw, roll, pitch = 0.4, 0.9, 1.0
    world = World({"ball": ball(yaw, roll, pitch)}, elements=(Orbit(RATE),))
    angle, step = 1e-4, 0.3 / RATE
    axes = {"pitch": np.array([0.0, 0.0, 1.0]), "roll": np.array([0.0, 1.0, 0.0])}
    found = {}
    for name, axis in axes.items():
        state = placed(np.zeros(3), rotation_about(axis, angle), np.zeros(6))
        run = simulate(world, state, 60 / RATE, sample=step, method=TIGHT)
        turned = rotation_matrices(run.states[:-1, 3:7])
        signal = turned[:, 1, 0] if name == "pitch" else turned[:, 0, 2]
        cosines = recurrence(signal, 1 if name == "pitch" else 2)
        found[name] = np.sort(np.arccos(cosines / 2.0) / step / RATE)
        assert run.sound
    k1, k3 = (pitch - yaw) / roll, (pitch - roll) / yaw
    squares = np.roots([1.0, 1.0 + 3.0 * k1 + k1 * k3, 4.0 * k1 * k3])
    np.testing.assert_allclose(found["pitch"], np.sqrt(3.0 * (roll - yaw) / pitch), rtol=1e-6)
    np.testing.assert_allclose(found["roll"], np.sort(np.sqrt(-squares)), rtol=1e-6)


def test_wrench_of_the_orbit_is_the_sum_over_particles() -> None:
    rng = np.random.default_rng(5)
    rotation, origin, v, w = random_rotation(rng), *rng.normal(size=(3, 3))
    points, masses, rate = rng.normal(size=(6, 3)), rng.uniform(0.5, 2.0, 6), 0.7
    mass, com = masses.sum(), masses @ points / masses.sum()
    tensor = sum(m * ((p @ p) * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points - com, strict=True))
    inertia = Inertia(mass, com, tensor).parameters
    expected = np.zeros(6)
    for m, p in zip(masses, points @ rotation.T, strict=True):
        place, speed = origin + p, v + np.cross(w, p)
        pull = m * (rate**2 * np.array([3, 0, -1]) * place - 2 * np.cross([0, 0, rate], speed))
        expected += [*pull, *np.cross(p, pull)]
    pose = SymbolicPose(ca.DM(rotation), ca.DM(origin))
    found = ca.evalf(hill_wrench(pose, ca.SX(v), ca.SX(w), ca.SX(inertia), ca.SX(rate)))
    np.testing.assert_allclose(found.full().ravel(), expected, rtol=1e-12, atol=1e-12)


def test_gravity_that_changes_with_the_place_is_the_closed_form_and_the_sum_over_particles() -> None:
    rng = np.random.default_rng(6)
    gravity, entries = rng.normal(size=3), np.array([-0.3, -0.5, -0.4, 0.1, 0.2, -0.15])
    xx, yy, zz, xy, xz, yz = entries
    slope = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    points, masses, rotation, origin = (
        rng.normal(size=(6, 3)),
        rng.uniform(0.5, 2.0, 6),
        random_rotation(rng),
        [1, 2, 3],
    )
    mass, com = masses.sum(), masses @ points / masses.sum()
    tensor = sum(m * ((p @ p) * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points - com, strict=True))
    pulls = masses[:, None] * (gravity + (origin + points @ rotation.T) @ slope)
    pose = SymbolicPose(ca.DM(rotation), ca.DM(origin))
    inertia = ca.SX(Inertia(mass, com, tensor).parameters)
    found = ca.evalf(linear_gravity_wrench(pose, inertia, ca.SX(gravity), ca.SX(entries))).full().ravel()
    moment = np.cross(points @ rotation.T, pulls).sum(axis=0)
    np.testing.assert_allclose(found, [*pulls.sum(axis=0), *moment], rtol=1e-12, atol=1e-12)
    # A ball oscillates about the place without force along the gradient's axes.
    field = Gravity(gravity, gradient=entries)
    state = placed(np.array([0.2, -0.1, 0.4]), rotation, np.array([0.3, 0.1, -0.2, 0.0, 0.0, 0.5]))
    run = simulate(World({"ball": ball(0.4, 0.4, 0.4)}, elements=(field,)), state, 5.0, method=TIGHT)
    assert run.sound
    squares, axes = np.linalg.eigh(-slope)
    rest, rates = np.linalg.solve(-slope, gravity), np.sqrt(squares)
    first, speed = axes.T @ (state.position - rest), axes.T @ rotation @ state.velocity[:3] / rates
    phase = run.times[:, None] * rates
    np.testing.assert_allclose(
        run.states[:, :3], rest + (first * np.cos(phase) + speed * np.sin(phase)) @ axes.T, atol=1e-10
    )
    assert "gravity" in cross_check(run).reason  # MuJoCo's own is the same everywhere


def test_gyroscopic_moment_of_a_rotor_is_the_sum_over_its_ring() -> None:
    axis, across, rate, turning = np.array([0.6, 0.0, 0.8]), np.array([0.0, 1.0, 0.0]), 0.7, np.array([0.3, -2.0, 1.0])
    angles = np.arange(8) * np.pi / 4
    ring = np.cos(angles)[:, None] * across + np.sin(angles)[:, None] * np.cross(axis, across)

    def moment(points: Array, mass: float) -> Array:
        pulls = rate**2 * np.array([3, 0, -1]) * points - 2 * np.cross([0, 0, rate], np.cross(turning, points))
        return mass * np.cross(points, pulls).sum(axis=0)

    # A ring of 1 kg and 1 m less its inertia across the axis, half of the axial one: as that of two masses on the axis.
    expected = moment(ring, 1 / 8) - moment(np.array([axis, -axis]), 0.25)
    found = ca.evalf(hill_rotor_moment(ca.SX(axis), ca.SX(1.0), ca.SX(turning), ca.SX(rate))).full().ravel()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def particles_jacobi(robot: Robot, states: Array, rate: float) -> Array:
    """Kinetic energy relative to the turning axes and the tide's potential, from body sums, J."""
    bodies = evaluate_bodies(robot, states)
    inertia = robot.inertia_parameters
    rotors = np.array([joint.rotor.inertia for joint in robot.joints if joint.rotor is not None])
    energy = momentum(robot, bodies, states, inertia, rotors).kinetic
    tide = rate**2 * np.array([3.0, 0.0, -1.0])
    for b, row in enumerate(inertia):
        xx, yy, zz, xy, xz, yz = row[4:]
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        second = 0.5 * np.trace(tensor) * np.eye(3) - tensor
        turn, origin = bodies.rotation[:, b], bodies.origin[:, b]
        first = turn @ row[1:4]
        spread = np.einsum("tij,jk,tik->ti", turn, second, turn)
        energy = energy - 0.5 * (row[0] * origin**2 + 2 * origin * first + spread) @ tide
    geared = [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]
    for i, axial in zip(geared, rotors, strict=True):
        energy = energy - 0.5 * axial * (0.5 - bodies.axis[:, i] ** 2) @ tide
    return np.asarray(energy)


def test_an_arm_in_orbit_keeps_its_jacobi_energy_and_its_balances() -> None:
    robot = random_robot(3, joints=4, rotors=1.0)
    drawn = drawn_state(robot, np.random.default_rng(1))
    state = State(drawn.position, drawn.quaternion, drawn.joints, drawn.velocity)
    rate = 0.5  # rad/s: as strong as the motion itself
    run = simulate(World({"arm": robot}, elements=(Orbit(rate),)), state, 3.0, method=TIGHT)
    energy = particles_jacobi(robot, run.states, rate)
    assert np.ptp(energy) < 1e-10 * np.abs(energy).max()
    assert run.sound
    assert "base (orbit)" in run.data["load"].values


def test_free_fall_is_weightless() -> None:
    robot = random_robot(4, joints=3)
    drawn = drawn_state(robot, np.random.default_rng(2))
    state = State(drawn.position, drawn.quaternion, drawn.joints, drawn.velocity)
    pull = np.array([0.3, -2.0, -9.0])
    fallen = simulate(World({"arm": robot}, elements=(Gravity(pull),)), state, 1.0, method=TIGHT)
    free = simulate(robot, state, 1.0, method=TIGHT)
    np.testing.assert_allclose(fallen.states[:, 3 : 7 + robot.n], free.states[:, 3 : 7 + robot.n], atol=1e-10)
    way = fallen.states[:, :3] - free.states[:, :3]
    np.testing.assert_allclose(way, 0.5 * free.times[:, None] ** 2 * pull, atol=1e-10)
    assert fallen.sound


def test_a_hanging_arm_moves_as_in_mujoco() -> None:
    robot = random_robot(4, joints=4, rotors=1.0)
    drawn = drawn_state(robot, np.random.default_rng(2))
    state = State(drawn.position, drawn.quaternion, drawn.joints, np.concatenate([np.zeros(6), drawn.velocity[6:]]))
    pulls = (Gravity((0.3, -2.0, -9.0)), Gravity((0.0, 1.0, 0.0), name="more"))
    held = World({"arm": robot}, locked=robot.dof_names[:6], elements=pulls)
    found = cross_check(simulate(held, state, 1.0, method=TIGHT))
    assert found.was_run
    assert found.largest < 1e-9
    without = cross_check(simulate(held.replace(elements=()), state, 1.0, method=TIGHT))
    assert without.largest < 1e-9  # the reference has left gravity behind
    pair = World({"a": robot, "b": ball(1.0, 1.5, 2.0)}, elements=pulls)
    spinning = placed(np.ones(3), np.eye(3), np.array([0.1, 0.2, 0.3, 1.0, 2.0, -1.0]))
    assert cross_check(simulate(pair, {"a": state, "b": spinning}, 0.5, method=TIGHT)).largest < 1e-9


def test_overrides_and_batches_feel_the_field() -> None:
    world = World({"ball": ball(1.0, 1.0, 1.0)}, elements=(Gravity(),))
    states = np.tile(State.at_rest(world.systems["ball"]).vector, (3, 1))
    states[:, 2] = [0.0, 1.0, 2.0]
    batch = simulate_batch(world, states, 0.5, sample=[0.5])
    np.testing.assert_allclose(batch.states[:, -1, 2] - states[:, 2], -0.5 * 9.80665 * 0.25, rtol=1e-12)
    heavy = world.replace(overrides={"ball": {"inertia": 5 * world.systems["ball"].inertia_parameters}})
    run = simulate(heavy, State.at_rest(ball(1.0, 1.0, 1.0)), 0.5)
    wrench = run.data["wrench"].values[0, 0]
    np.testing.assert_allclose(wrench[:3], [0, 0, -9.80665 * 10.0])


def test_what_is_wrong_with_a_field_is_told() -> None:
    with pytest.raises(InputError, match="rate"):
        Orbit(0.0)
    with pytest.raises(InputError, match="acceleration"):
        Gravity((0.0, 1.0))
    robot = ball(1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="several elements"):
        World({"ball": robot}, elements=(Gravity(), Gravity()))
    with pytest.raises(InputError, match="not a force element"):
        World({"ball": robot}, elements=("gravity",))  # type: ignore[arg-type]
    run = simulate(World({"ball": robot}, elements=(Gravity(), Orbit(RATE))), State.at_rest(robot), 0.1)
    assert "which the reference does not have: orbit" in cross_check(run).reason
