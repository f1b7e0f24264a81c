"""Changes between phases, against closed forms and MuJoCo."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model import Body, Inertia, Joint, Robot, Rotor, Spring, edit
from spacearm.model.parts import Frame
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Attach, CertificateWarning, Lock, Phase, Release, Separate, State, Switch, World, simulate
from spacearm.simulate.changes import Change, ChangeResult
from spacearm.simulate.check.crosscheck import MujocoTerms, cross_check
from spacearm.simulate.check.mujoco_model import MujocoModel
from support.random_robots import random_robot
from support.worlds import BASE, TIGHT, block, momentum, random_state, sliding_block, sound, two

#: What a run warns of is an error here.
pytestmark = pytest.mark.filterwarnings("error")


def test_attach_of_two_rigid_bodies_is_the_plastic_impact_of_the_textbook() -> None:
    """One momentum, one angular momentum about the common mass centre; what is missing of the energy is lost."""
    com = (0.2, 0.1, -0.3)
    world = World({"a": block("a", 3.0, com), "b": block("b", 2.0, seed=3)})
    rng = np.random.default_rng(7)
    start = {name: random_state(world.robot(name), rng, speed=0.4) for name in "ab"}
    chain = [Phase(0.3), Attach("b", "a/grip", prefix="b."), Phase(0.4)]
    run = sound(simulate(world, start, chain, method=TIGHT))
    before = {name: run.last_track(name).end if name == "b" else run.tracks[0].end for name in "ab"}
    after = State.from_vector(run.last_track("a").states[0])
    mass = {name: world.robot(name).mass for name in "ab"}
    total, energy, where, inertia = np.zeros(6), 0.0, np.zeros(3), np.zeros((3, 3))
    for name, state in before.items():
        inner = world.robot(name).bodies[0].inertia
        turn = rotation_matrices(state.quaternion)
        centre = state.position + turn @ inner.com
        velocity = state.base_velocity + np.cross(state.base_angular_velocity, turn @ inner.com)
        angular_rate, tensor = state.base_angular_velocity, turn @ inner.tensor @ turn.T
        total += np.concatenate(
            [mass[name] * velocity, tensor @ angular_rate + mass[name] * np.cross(centre, velocity)]
        )
        energy += 0.5 * mass[name] * velocity @ velocity + 0.5 * angular_rate @ tensor @ angular_rate
        where += mass[name] * centre / 5.0
        inertia += tensor + mass[name] * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    inertia -= 5.0 * (where @ where * np.eye(3) - np.outer(where, where))
    linear = total[:3] / 5.0
    angular_rate = np.linalg.solve(inertia, total[3:] - np.cross(where, total[:3]))
    np.testing.assert_allclose(after.base_angular_velocity, angular_rate, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        after.base_velocity, linear + np.cross(angular_rate, after.position - where), rtol=0, atol=1e-12
    )
    kept = 0.5 * 5.0 * linear @ linear + 0.5 * angular_rate @ inertia @ angular_rate
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
    after = momentum(run.last_track("chaser").robot, State.from_vector(run.last_track("chaser").states[0]))
    np.testing.assert_allclose(after[1], before[0][1] + before[1][1], rtol=0, atol=1e-12)
    (entry,) = run.changes
    assert entry.changed.lost == pytest.approx(before[0][0] + before[1][0] - after[0], rel=1e-11)
    # The joint that a stiff drive moves keeps its rate, all others give way.
    rates = run.tracks[0].end.rates, State.from_vector(run.last_track("chaser").states[0]).rates
    assert rates[1][0] == rates[0][0]
    assert np.all(rates[1][1:3] != rates[0][1:3])
    assert entry.changed.impulse[world.dof(held)[1]] != 0.0
    assert run.last_track("chaser").robot.n == 5
    assert cross_check(run).largest < 1e-9


def test_separate_goes_on_as_mujoco_sees_both_parts() -> None:
    robot = random_robot(11, 5, passive=False, prismatic=0.3)
    start = random_state(robot, np.random.default_rng(11), speed=0.4)
    cut = robot.joint_names[2]
    run = sound(simulate(robot, start, [Phase(0.3), Separate(cut, "away"), Phase(0.3)], method=TIGHT))
    assert cross_check(run).largest < 1e-9
    before = run.tracks[0].end
    parts = {name: State.from_vector(run.last_track(name).states[0]) for name in (robot.name, "away")}
    whole = momentum(robot, before)
    found = [momentum(run.last_track(name).robot, state) for name, state in parts.items()]
    np.testing.assert_allclose(found[0][1] + found[1][1], whole[1], rtol=0, atol=1e-12)
    assert found[0][0] + found[1][0] == pytest.approx(whole[0], rel=1e-13)
    # The new base is where MuJoCo has the body, and moves as it does.
    reference = MujocoModel(robot)
    reference.set_state(before.position, before.quaternion, before.joints, before.velocity)
    child = robot.joint(cut).child
    pose, twist = reference.frame_pose(child), reference.frame_jacobian(child) @ before.velocity
    away = parts["away"]
    np.testing.assert_allclose(away.position, pose.translation, rtol=0, atol=1e-13)
    np.testing.assert_allclose(rotation_matrices(away.quaternion), pose.rotation, rtol=0, atol=1e-13)
    moved = np.concatenate([away.base_velocity, away.base_angular_velocity])
    np.testing.assert_allclose(moved, twist, rtol=0, atol=1e-13)


def test_what_a_cut_spring_stored_is_booked() -> None:
    robot = sliding_block(Spring(50.0))
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
    start = State.from_velocities(robot, [0.3], [0.8], base_angular_velocity=[0.0, 0.0, 0.2])
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


def test_lock_is_an_inelastic_impact_and_release_lets_go() -> None:
    robot = sliding_block()
    start = State.from_velocities(robot, [0.1], [0.8])
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
    robot = sliding_block(Spring(50.0))
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


class Wrong(Change):
    """A kick that nobody gave, a jump, or heat that was not made."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def apply(self, world: World, states: Mapping[str, State], terms: object = None) -> ChangeResult:
        del terms
        (name, state) = next(iter(states.items()))
        position, velocity = state.position.copy(), state.velocity.copy()
        if self.kind == "momentum":
            velocity[6] += 1e-6
        if self.kind == "mass":
            position[1] += 1e-7
        moved = State(position, state.quaternion, state.joints, velocity)
        return ChangeResult(world, {name: moved}, "wrong", lost=1e-5 if self.kind == "energy" else 0.0)


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
    for change, notes in (
        (Attach("a", "a/grip"), "'a/grip' is a frame of 'a' itself"),
        (Attach("b", "a/grap"), "no frame 'a/grap'"),
        (Attach("b", "a/grip"), "already has a body or frame 'grip'"),
        (Release("a/base_vx"), "'a/base_vx' is not locked"),
        (Separate("x", "c"), "no joint 'x'"),
    ):
        with pytest.raises(InputError, match=notes):
            simulate(world, start, [Phase(0.1), change, Phase(0.1)])
    held = World(world.systems, locked=["b/base_vx"])
    with pytest.raises(InputError, match="the base of 'b' is held externally"):
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
