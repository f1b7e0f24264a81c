"""Worlds of several systems and changes between phases, against closed forms and MuJoCo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model import Body, Friction, Inertia, Joint, Pose, Robot, Rotor, Spring, edit
from spacearm.model.parts import Frame
from spacearm.model.rotations import rotation_about, rotation_matrices
from spacearm.simulate import (
    Attach,
    CertificateWarning,
    Change,
    Changed,
    Dopri853,
    Event,
    Here,
    Load,
    Lock,
    Phase,
    Release,
    Run,
    Separate,
    State,
    Switch,
    World,
    distance,
    half_sine,
    pulse,
    simulate,
    simulate_batch,
)
from spacearm.simulate.crosscheck import MujocoTerms, cross_check
from spacearm.simulate.mujoco_twin import MujocoTwin
from spacearm.typing import Array
from support.random_robots import random_robot
from support.random_robots import random_state as drawn_state

#: What a run warns of is an error here.
pytestmark = pytest.mark.filterwarnings("error")

TIGHT = Dopri853(rtol=1e-12, atol=1e-14)
BASE = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")


def block(name: str, mass: float, com: tuple[float, float, float] = (0.0, 0.0, 0.0), seed: int = 0) -> Robot:
    """A free rigid body with a frame ``grip`` off its origin."""
    turn = rotation_about(np.random.default_rng(seed).normal(size=3), 0.7)
    tensor = turn @ np.diag([0.3, 0.4, 0.5]) @ turn.T * mass
    return Robot(name, (Body(f"{name}.body", Inertia(mass, np.array(com), tensor)),), (), (grip(f"{name}.body"),))


def random_state(robot: Robot, rng: np.random.Generator, speed: float) -> State:
    drawn = drawn_state(robot, rng, speed=speed)
    return State(drawn.position, drawn.quaternion, drawn.joints, drawn.velocity)


def grip(body: str) -> Frame:
    return Frame("grip", body, Pose(rotation_about([0.0, 1.0, 0.2], 0.4), np.array([0.3, -0.1, 0.2])))


def two(seed: int = 1) -> tuple[World, dict[str, State]]:
    """Two arms with springs and dampers that drift and tumble."""
    robots = {"chaser": random_robot(seed, 3, passive=True), "target": random_robot(seed + 1, 2, passive=True)}
    rng = np.random.default_rng(seed)
    return World(robots), {name: random_state(robot, rng, speed=0.3) for name, robot in robots.items()}


def momentum(robot: Robot, state: State) -> tuple[float, Array]:
    """Kinetic energy and momentum (6,) about the world's origin, by MuJoCo."""
    twin = MujocoTwin(robot)
    twin.set_state(state.position, state.quaternion, state.joints, state.velocity)
    return twin.kinetic_energy(), twin.momentum()


def sound(run: Run) -> Run:
    assert run.certificate is not None
    assert run.sound, str(run.certificate)
    return run


# -- several systems ---------------------------------------------------------------------------------------------


def test_two_systems_in_one_run_move_as_each_alone_and_as_in_mujoco() -> None:
    world, states = two()
    joint = world.systems["target"].joint_names[0]
    frame = world.systems["chaser"].frames[0].name
    phases = [
        Phase(0.5, loads=[Load.along(f"chaser/{frame}", [1, 2, 0], half_sine(5.0, 0.1, 0.2))]),
        Phase(0.5, forces={f"target/{joint}": pulse(0.4, 0.1, 0.2), "chaser/base_wz": 0.2}),
    ]
    run = sound(simulate(world, states, phases, method=TIGHT, sample=0.05))
    checked = cross_check(run)
    assert checked.expressed
    assert checked.largest < 1e-9
    alone = {
        "chaser": [Phase(0.5, loads=[replace(phases[0].loads[0], frame=frame)]), Phase(0.5, forces={"base_wz": 0.2})],
        "target": [Phase(0.5), Phase(0.5, forces={joint: pulse(0.4, 0.1, 0.2)})],
    }
    for name, robot in world.systems.items():
        single = simulate(robot, states[name], alone[name], method=TIGHT, sample=0.05)
        np.testing.assert_allclose(run.of(name).states, single.states, rtol=0, atol=1e-10)
        for key in ("kinetic", "elastic", "damping", "drive", "load"):
            ours, theirs = (part.data[f"energy_{key}"].values for part in (run.of(name), single))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert run.ledger is not None
    total = sum(run.of(name).data["energy_kinetic"].values for name in world.systems)
    np.testing.assert_allclose(run.ledger.kinetic, total, rtol=1e-14)


def test_names_in_a_world() -> None:
    world, states = two()
    with pytest.raises(InputError, match="several systems have a degree of freedom 'base_vx'"):
        simulate(world, states, Phase(1.0, locked=["base_vx"]))
    with pytest.raises(InputError, match=r"phase\[0\]: locked: there is no degree of freedom 'chaser/jo'"):
        simulate(world, states, Phase(1.0, locked=["chaser/jo"]))
    with pytest.raises(InputError, match="one State"):
        simulate(world, states["chaser"], 1.0)
    with pytest.raises(InputError, match=r"the start has states of chaser .expected chaser, target"):
        simulate(world, {"chaser": states["chaser"]}, 1.0)
    run = simulate(world, states, 0.1)
    with pytest.raises(InputError, match=r"several systems took part .expected run.of\(system\): chaser, target"):
        _ = run.states
    with pytest.raises(InputError, match=r"no system 'chase' .did you mean 'chaser'"):
        run.of("chase")
    with pytest.raises(InputError, match="expected text without /"):
        World({"a/b": world.systems["chaser"], "c": world.systems["target"]})


def test_dry_friction_of_each_system_is_its_own() -> None:
    """Blocks that slide on heavy bases stop after v / (mu g) as on their own: constant Coulomb force."""
    bodies = (Body("base", Inertia(1e6, tensor=1e6 * np.eye(3))), Body("block", Inertia(2.0, tensor=np.eye(3))))

    def slider(force: float) -> Robot:
        joint = Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), friction=Friction(force, force))
        return Robot("slider", bodies, (joint,))

    world = World({"a": slider(1.0), "b": slider(4.0)}, locked=[f"{name}/{dof}" for name in "ab" for dof in BASE])
    start = {name: State.moving(world.robot(name), [0.0], [2.0]) for name in "ab"}
    run = sound(simulate(world, start, 5.0))
    stops = {event.name: event.time for event in run.events_of("stick")}
    assert stops == pytest.approx({"a/x": 4.0, "b/x": 1.0}, rel=1e-9)
    assert cross_check(run, friction="replay").largest < 1e-9


def test_an_event_function_looks_at_two_systems() -> None:
    """The gap of two frames: one drifts past the other."""
    world = World({"a": block("a", 3.0), "b": block("b", 2.0)})
    start = {
        "a": State.at_rest(world.robot("a")),
        "b": State.moving(world.robot("b"), position=[0.0, 0.3, 2.0], base_velocity=[0.0, 0.0, -0.5]),
    }
    near = distance(world, "a/grip", "b/grip", 0.5)
    run = sound(simulate(world, start, [Phase(10.0, event_function=near), Phase(0.1)]))
    assert run.phase_starts[1] == pytest.approx((2.0 - np.sqrt(0.5**2 - 0.3**2)) / 0.5, rel=1e-12)
    assert [event.kind for event in run.events] == ["function"]


# -- attach and separate -----------------------------------------------------------------------------------------


def test_attach_of_two_rigid_bodies_is_the_plastic_impact_of_the_textbook() -> None:
    """One momentum, one angular momentum about the common mass centre; what is missing of the energy is lost."""
    com = (0.2, 0.1, -0.3)
    world = World({"a": block("a", 3.0, com), "b": block("b", 2.0, seed=3)})
    rng = np.random.default_rng(7)
    start = {name: random_state(world.robot(name), rng, speed=0.4) for name in "ab"}
    chain = [Phase(0.3), Attach("b", "a/grip", prefix="b."), Phase(0.4)]
    run = sound(simulate(world, start, chain, method=TIGHT))
    before = {name: run.of(name).end if name == "b" else run.tracks[0].end for name in "ab"}
    after = State.from_vector(run.of("a").states[0])
    mass = {name: world.robot(name).mass for name in "ab"}
    total, energy, where, inertia = np.zeros(6), 0.0, np.zeros(3), np.zeros((3, 3))
    for name, state in before.items():
        inner = world.robot(name).bodies[0].inertia
        turn = rotation_matrices(state.quaternion)
        centre = state.position + turn @ inner.com
        velocity = state.base_velocity + np.cross(state.base_angular_velocity, turn @ inner.com)
        spin, tensor = state.base_angular_velocity, turn @ inner.tensor @ turn.T
        total += np.concatenate([mass[name] * velocity, tensor @ spin + mass[name] * np.cross(centre, velocity)])
        energy += 0.5 * mass[name] * velocity @ velocity + 0.5 * spin @ tensor @ spin
        where += mass[name] * centre / 5.0
        inertia += tensor + mass[name] * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    inertia -= 5.0 * (where @ where * np.eye(3) - np.outer(where, where))
    linear = total[:3] / 5.0
    spin = np.linalg.solve(inertia, total[3:] - np.cross(where, total[:3]))
    np.testing.assert_allclose(after.base_angular_velocity, spin, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.base_velocity, linear + np.cross(spin, after.position - where), rtol=0, atol=1e-12)
    kept = 0.5 * 5.0 * linear @ linear + 0.5 * spin @ inertia @ spin
    (entry,) = run.changes
    assert entry.time == pytest.approx(0.3, abs=1e-15)
    assert entry.lost == pytest.approx(energy - kept, rel=1e-12)
    assert entry.text == "b attached to a/grip"
    assert run.ledger is not None
    assert run.ledger.lost[-1] == entry.lost
    assert run.ends is not None
    assert [*run.ends] == ["a"]
    assert cross_check(run).largest < 1e-9


def test_attach_of_two_arms_keeps_momentum_and_agrees_with_mujoco() -> None:
    world, states = two(4)
    frame = world.systems["chaser"].frames[0].name
    held = f"chaser/{world.systems['chaser'].joint_names[0]}"
    attach = Attach("target", f"chaser/{frame}", held=held, prefix="t.")
    run = sound(simulate(world, states, [Phase(0.2), attach, Phase(0.3)], method=TIGHT))
    parts = [(world.robot(name), run.tracks[k].end) for k, name in enumerate(world.systems)]
    before = [momentum(*part) for part in parts]
    after = momentum(run.of("chaser").robot, State.from_vector(run.of("chaser").states[0]))
    np.testing.assert_allclose(after[1], before[0][1] + before[1][1], rtol=0, atol=1e-12)
    (entry,) = run.changes
    assert entry.changed.lost == pytest.approx(before[0][0] + before[1][0] - after[0], rel=1e-11)
    # The joint that a stiff drive moves keeps its rate, all others give way.
    rates = run.tracks[0].end.rates, State.from_vector(run.of("chaser").states[0]).rates
    assert rates[1][0] == rates[0][0]
    assert np.all(rates[1][1:3] != rates[0][1:3])
    assert entry.changed.impulse[world.dof(held)[1]] != 0.0
    assert run.of("chaser").robot.n == 5
    assert cross_check(run).largest < 1e-9


def test_separate_goes_on_as_mujoco_sees_both_parts() -> None:
    robot = random_robot(11, 5, passive=False, prismatic=0.3)
    start = random_state(robot, np.random.default_rng(11), speed=0.4)
    cut = robot.joint_names[2]
    run = sound(simulate(robot, start, [Phase(0.3), Separate(cut, "away"), Phase(0.3)], method=TIGHT))
    assert cross_check(run).largest < 1e-9
    before = run.tracks[0].end
    parts = {name: State.from_vector(run.of(name).states[0]) for name in (robot.name, "away")}
    whole = momentum(robot, before)
    found = [momentum(run.of(name).robot, state) for name, state in parts.items()]
    np.testing.assert_allclose(found[0][1] + found[1][1], whole[1], rtol=0, atol=1e-12)
    assert found[0][0] + found[1][0] == pytest.approx(whole[0], rel=1e-13)
    # The new base is where MuJoCo has the body, and moves as it does.
    twin = MujocoTwin(robot)
    twin.set_state(before.position, before.quaternion, before.joints, before.velocity)
    child = robot.joint(cut).child
    pose, twist = twin.frame_pose(child), twin.frame_jacobian(child) @ before.velocity
    away = parts["away"]
    np.testing.assert_allclose(away.position, pose.translation, rtol=0, atol=1e-13)
    np.testing.assert_allclose(rotation_matrices(away.quaternion), pose.rotation, rtol=0, atol=1e-13)
    moved = np.concatenate([away.base_velocity, away.base_angular_velocity])
    np.testing.assert_allclose(moved, twist, rtol=0, atol=1e-13)


def test_what_a_cut_spring_stored_is_booked() -> None:
    robot = slider(Spring(50.0))
    run = sound(simulate(robot, State.at_rest(robot, [0.2]), [Separate("x", "block"), Phase(0.5)]))
    (entry,) = run.changes
    assert entry.lost == pytest.approx(0.5 * 50.0 * 0.2**2, rel=1e-14)
    assert entry.changed.lost == 0.0


def test_the_rotor_of_a_cut_joint_comes_to_rest_in_its_parent() -> None:
    """Two flywheels on one axis, by hand: what the rotor turns faster than its parent is shared by both."""
    base, child, spinning, ratio = 4.0, 1.5, 2e-3, 60.0
    bodies = (
        Body("base", Inertia(6.0, tensor=base * np.eye(3))),
        Body("wheel", Inertia(2.0, tensor=child * np.eye(3))),
    )
    joint = Joint("z", "revolute", "base", "wheel", axis=np.array([0.0, 0, 1]), rotor=Rotor(spinning, ratio))
    robot = Robot("motor", tuple(bodies), (joint,))
    start = State.moving(robot, [0.3], [0.8], base_angular_velocity=[0.0, 0.0, 0.2])
    run = sound(simulate(robot, start, [Separate("z", "wheel"), Phase(0.5)]))
    assert run.ends is not None
    gained = spinning * ratio * 0.8 / (base + spinning)
    assert run.ends["motor"].velocity[5] == pytest.approx(0.2 + gained, rel=1e-13)
    assert run.ends["wheel"].velocity[5] == pytest.approx(1.0, rel=1e-13)
    (entry,) = run.changes
    assert entry.lost == pytest.approx(0.5 * spinning * base / (base + spinning) * (ratio * 0.8) ** 2, rel=1e-12)


def test_cutting_a_geared_joint_of_an_arm_keeps_momentum() -> None:
    robot = random_robot(5, 5, passive=False, prismatic=0.0, rotors=1.0)
    start = random_state(robot, np.random.default_rng(5), speed=0.4)
    for locked in ((), (robot.joint_names[0],)):
        velocity = start.velocity.copy()
        velocity[[robot.dof_index(name) for name in locked]] = 0.0
        world = World({"arm": robot}, locked=locked)
        begin = {"arm": State(start.position, start.quaternion, start.joints, velocity)}
        run = sound(simulate(world, begin, [Separate(robot.joint_names[3], "away"), Phase(0.3)], method=TIGHT))
        (entry,) = run.changes
        assert entry.lost > 0.0
        assert entry.residuals["momentum"] < 1e-13
        assert cross_check(run).largest < 1e-9


def test_attach_undoes_separate() -> None:
    """Nothing is lost where nothing moves against each other."""
    robot = random_robot(3, 4, passive=False, prismatic=0.0)
    state = random_state(robot, np.random.default_rng(3), speed=0.3)
    velocity = state.velocity.copy()
    velocity[8] = 0.0
    start = State(state.position, state.quaternion, state.joints, velocity)
    cut = robot.joints[2]
    stub = robot.replace(frames=(*robot.frames, Frame("stub", cut.parent, cut.placement)))
    away = Separate(cut.name, "away")
    run = sound(simulate(stub, start, [away, Attach("away", "stub"), Phase(0.5)], method=TIGHT))
    assert run.changes[1].lost == pytest.approx(0.0, abs=1e-14)
    frozen = edit.freeze(robot, {cut.name: float(start.joints[2])})
    order = [robot.joint_index(name) for name in frozen.joint_names]
    same = State(start.position, start.quaternion, start.joints[order], np.r_[velocity[:6], start.rates[order]])
    alone = simulate(frozen, same, 0.5, method=TIGHT)
    assert alone.end is not None
    assert run.ends is not None
    np.testing.assert_allclose(run.ends[robot.name].position, alone.end.position, rtol=0, atol=1e-11)
    np.testing.assert_allclose(run.ends[robot.name].velocity[:6], alone.end.velocity[:6], rtol=0, atol=1e-11)


# -- lock, release, switch ---------------------------------------------------------------------------------------


def slider(spring: Spring | None = None) -> Robot:
    """A block of 2 kg on a base of 6 kg, mass centres on the line of motion."""
    bodies = (Body("base", Inertia(6.0, tensor=np.eye(3))), Body("block", Inertia(2.0, tensor=0.1 * np.eye(3))))
    joint = Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), spring=spring)
    return Robot("slider", bodies, (joint,))


def test_lock_is_an_inelastic_impact_and_release_lets_go() -> None:
    robot = slider()
    start = State.moving(robot, [0.1], [0.8])
    chain = [Phase(0.5), Lock("x"), Phase(0.5), Release("x"), Phase(0.5, forces={"x": 3.0})]
    run = sound(simulate(robot, start, chain, sample=0.05))
    entry = run.changes[0]
    assert entry.lost == pytest.approx(0.5 * (6.0 * 2.0 / 8.0) * 0.8**2, rel=1e-13)  # half the reduced mass v^2
    assert entry.changed.impulse["x"] == pytest.approx(-(6.0 * 2.0 / 8.0) * 0.8, rel=1e-13)
    held = (run.times > 0.5) & (run.times < 1.0)
    np.testing.assert_allclose(run.states[held, 8], 2.0 * 0.8 / 8.0, rtol=1e-13)
    assert np.all(run.states[held, -1] == 0.0)
    assert run.end is not None
    assert run.end.rates[0] == pytest.approx(3.0 / (6.0 * 2.0 / 8.0) * 0.5, rel=1e-9)
    assert np.count_nonzero(run.times == 0.5) == 2  # a sample on both sides
    assert run.changes[1].lost == 0.0
    assert cross_check(run).largest < 1e-9
    assert [event.kind for event in run.events] == ["change", "change"]


def test_lock_of_a_base_is_an_impulse_from_outside() -> None:
    robot = random_robot(5, 3, passive=False)
    start = random_state(robot, np.random.default_rng(5), speed=0.4)
    run = sound(simulate(robot, start, [Phase(0.1), Lock(BASE), Phase(0.1)], method=TIGHT))
    assert np.linalg.norm(run.changes[0].changed.external) > 0.1
    assert cross_check(run).largest < 1e-9


def test_switch_of_a_spring_changes_the_frequency_and_books_the_energy() -> None:
    robot = slider(Spring(50.0))
    chain = [Phase(0.37), Switch(stiffness={"x": 20.0}, rest={"x": 0.05}), Phase(1.0)]
    run = sound(simulate(robot, State.at_rest(robot, [0.2]), chain, method=TIGHT, sample=0.01))
    omega = np.sqrt(50.0 / 1.5)
    q, rate = 0.2 * np.cos(omega * 0.37), -0.2 * omega * np.sin(omega * 0.37)
    later = np.sqrt(20.0 / 1.5)
    t = run.times[run.times > 0.37] - 0.37
    x = 0.05 + (q - 0.05) * np.cos(later * t) + rate / later * np.sin(later * t)
    np.testing.assert_allclose(run.states[run.times > 0.37, 7], x, rtol=0, atol=1e-11)
    gap = 0.5 * 50.0 * q**2 - 0.5 * 20.0 * (q - 0.05) ** 2
    assert run.changes[0].lost == pytest.approx(gap, rel=1e-12)
    assert cross_check(run).largest < 1e-9
    with pytest.raises(InputError, match="static friction is below Coulomb"):
        simulate(robot, State.at_rest(robot), [Phase(0.1), Switch(coulomb_friction={"x": 1.0}), Phase(0.1)])


def test_a_function_chooses_phases_while_the_run_goes_on() -> None:
    """A damper that is on only while the block moves outwards: as a chain of runs by hand."""
    robot = slider(Spring(30.0))

    def chain(here: Here) -> Iterator[Phase | Change]:
        while here.time < 2.0 - 1e-9:
            yield Switch(damping={"x": 4.0 if here.state.joints[0] * here.state.rates[0] > 0.0 else 0.5})
            until = [Event("x", 0.0), Event("x.rate", 0.0)]
            yield Phase(2.0 - here.time, until=until, events=())

    start = State.moving(robot, [0.1], [0.2])
    run = sound(simulate(robot, start, chain, duration=2.0, method=TIGHT, sample=0.1))
    state, time, count = start, 0.0, 0
    while time < 2.0 - 1e-9:
        damping = [4.0 if state.joints[0] * state.rates[0] > 0.0 else 0.5]
        phase = Phase(2.0 - time, until=[Event("x", 0.0), Event("x.rate", 0.0)])
        part = simulate(robot, state, phase, method=TIGHT, overrides={"damping": damping})
        assert part.end is not None
        state, time, count = part.end, time + part.end_time, count + 1
    assert run.end is not None
    np.testing.assert_allclose(run.end.vector, state.vector, rtol=0, atol=1e-10)
    assert len(run.changes) == count > 4
    with pytest.raises(InputError, match="duration is None"):
        simulate(robot, start, chain)


def test_many_runs_across_changes() -> None:
    robot = slider(Spring(50.0))
    chain = [Phase(0.3), Lock("x"), Phase(0.2), Release("x"), Switch(damping={"x": 2.0}), Phase(0.4)]
    starts = np.array([State.moving(robot, [0.1 * k], [0.5]).vector for k in range(5)])
    times = np.linspace(0.0, 0.9, 10)
    batch = simulate_batch(robot, starts, chain, sample=times, ledger=True, max_events=50)
    for k, start in enumerate(starts):
        run = simulate(robot, State.from_vector(start), chain, sample=times)
        assert run.end is not None
        np.testing.assert_allclose(batch.end[k], run.end.vector, rtol=0, atol=1e-9)
        assert [event.kind for event in batch.events[k]] == [event.kind for event in run.events]
        last = np.searchsorted(run.times, times, side="right") - 1
        np.testing.assert_allclose(batch.states[k], run.states[last], rtol=0, atol=1e-9)
    assert np.all(batch.energy_residual < 1e-9)


def test_many_runs_in_which_systems_separate_and_join() -> None:
    """Each sample as the run of its own, system by system."""
    robot = slider(Spring(50.0, 0.3))
    robot = robot.replace(frames=(Frame("stub", "base", Pose(translation=np.array([0.3, 0.0, 0.0]))),))
    chain = [
        Phase(9.0, until=Event("x", 0.25)),
        Separate("x", "block"),
        Phase(0.3),
        Attach("block", "stub"),
        Phase(0.2),
    ]
    starts = np.array([State.moving(robot, [0.0], [0.1 * k], base_velocity=[0.0, 0.1 * k, 0.0]).vector for k in (0, 1)])
    times = np.linspace(0.0, 0.6, 7)
    batch = simulate_batch(robot, starts, chain, sample=times, ledger=True, max_events=50)
    assert batch.systems == ("slider", "block")
    for k, start in enumerate(starts):
        run = simulate(robot, State.from_vector(start), chain, sample=times)
        assert run.ends is not None
        np.testing.assert_allclose(batch.of("slider")[1][k], run.ends["slider"].vector, rtol=0, atol=1e-9)
        flown = ~np.isnan(batch.of("block")[0][k, :, 0])
        at = np.searchsorted(run.of("block").times, times[flown])
        np.testing.assert_allclose(batch.of("block")[0][k, flown], run.of("block").states[at], rtol=0, atol=1e-9)
        assert flown.sum() in (2, 3)
    assert np.all(batch.energy_residual < 1e-9)
    with pytest.raises(InputError, match=r"several systems took part .of.system.: slider, block"):
        _ = batch.end


def test_many_runs_of_a_world() -> None:
    world, states = two(8)
    starts = np.array([world.flat(states), world.flat({**states, "chaser": State.at_rest(world.robot("chaser"))})])
    batch = simulate_batch(world, starts, 0.3, sample=[0.1])
    for k, start in enumerate(starts):
        run = simulate(world, world.states(start), 0.3, sample=[0.1])
        for name in world.systems:
            kept, end = batch.of(name)
            np.testing.assert_allclose(kept[k, 0], run.of(name).states[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(end[k], run.of(name).end.vector, rtol=0, atol=1e-9)
    with pytest.raises(InputError, match="starts has shape"):
        simulate_batch(world, starts[:, 1:], 0.3)
    with pytest.raises(InputError, match="no system 'chase'"):
        batch.of("chase")


# -- a wrong change ----------------------------------------------------------------------------------------------


class Wrong(Change):
    """A kick that nobody gave, a jump, or heat that was not made."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def apply(self, world: World, states: Mapping[str, State], terms: object = None) -> Changed:
        del terms
        (name, state) = next(iter(states.items()))
        position, velocity = state.position.copy(), state.velocity.copy()
        if self.kind == "momentum":
            velocity[6] += 1e-6
        if self.kind == "mass":
            position[1] += 1e-7
        moved = State(position, state.quaternion, state.joints, velocity)
        return Changed(world, {name: moved}, "wrong", lost=1e-5 if self.kind == "energy" else 0.0)


@pytest.mark.parametrize("kind", ["momentum", "mass", "energy"])
def test_a_wrong_change_fails_the_certificate(kind: str) -> None:
    robot = random_robot(9, 3, passive=False)
    start = random_state(robot, np.random.default_rng(9), speed=0.3)
    with pytest.warns(CertificateWarning, match=f"change_{kind} .* .EXCEEDS"):
        run = simulate(robot, start, [Phase(0.1), Wrong(kind), Phase(0.1)])
    assert not run.sound
    assert run.certificate is not None
    assert not run.certificate[f"change_{kind}"].sound


def test_changes_that_cannot_be_made() -> None:
    world = World({"a": block("a", 3.0), "b": block("b", 2.0)})
    start = {name: State.at_rest(world.robot(name), position=[0.0, 0.0, k]) for k, name in enumerate("ab")}
    for change, told in (
        (Attach("a", "a/grip"), "'a/grip' is a frame of 'a' itself"),
        (Attach("b", "a/grap"), "no frame 'a/grap'"),
        (Attach("b", "a/grip"), "already has a body or frame 'grip'"),
        (Release("a/base_vx"), "'a/base_vx' is not locked"),
        (Separate("x", "c"), "no joint 'x'"),
    ):
        with pytest.raises(InputError, match=told):
            simulate(world, start, [Phase(0.1), change, Phase(0.1)])
    held = World(world.systems, locked=["b/base_vx"])
    with pytest.raises(InputError, match="the base of 'b' is held from outside"):
        simulate(held, start, [Attach("b", "a/grip", prefix="b."), Phase(0.1)])
    with pytest.raises(InputError, match="phases must be"):
        simulate(world, start, [Lock("a/base_vx")])


def test_terms_by_mujoco_and_by_spacearm_agree() -> None:
    world, states = two(6)
    frame = world.systems["chaser"].frames[0].name
    change = Attach("target", f"chaser/{frame}", prefix="t.")
    ours, theirs = change.apply(world, states), change.apply(world, states, MujocoTerms())
    assert ours.lost == pytest.approx(theirs.lost, rel=1e-10)
    np.testing.assert_allclose(ours.states["chaser"].vector, theirs.states["chaser"].vector, rtol=0, atol=1e-11)
    np.testing.assert_allclose(ours.wrench, theirs.wrench, rtol=0, atol=1e-11)
