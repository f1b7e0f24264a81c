"""Collisions: conservation laws, the paper's Eqs. 28 and 30, closed forms, welded bodies, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from spacearm.engine import Mechanics, NonFiniteWarning, mechanics_of
from spacearm.errors import InputError, ModelError
from spacearm.impact import (
    FloatingSystem,
    build_system,
    collide,
    effective_mass,
    free_body,
    simulate_contact,
    solid_ball,
    virtual_mass,
    weld_after_grasp,
)
from spacearm.model import Body, Inertia, Joint, Robot, catalogue, edit
from spacearm.model.edit import attach
from spacearm.model.parts import Pose
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import World, simulate
from spacearm.typing import Array
from support.population import member
from support.random_robots import random_robot


def any_pose(rng: np.random.Generator, count: int) -> Array:
    quaternion = rng.normal(size=(count, 4))
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return np.concatenate([rng.normal(size=(count, 3)), quaternion], axis=-1)


def any_system(robot: Robot, frame: str, rng: np.random.Generator, count: int = 64, **modes: object) -> FloatingSystem:
    joints = rng.uniform(-1.5, 1.5, (count, robot.n))
    velocity = rng.normal(size=(count, robot.dofs))
    return FloatingSystem(robot, frame, joints, any_pose(rng, count), velocity, **modes)  # type: ignore[arg-type]


BODY = free_body(
    12.0, [[2.0, 0.1, 0.0], [0.1, 3.0, -0.2], [0.0, -0.2, 2.5]], contact=[0.3, -0.2, 0.1], com=[0.05, 0, 0]
)
PAIRS = {
    "robot against body": (catalogue.load("xu2017"), "hand", BODY, "contact"),
    "body against robot": (BODY, "contact", catalogue.load("cai2023"), "hand"),
    "robot against robot": (catalogue.load("zhang2020"), "hand", catalogue.load("wojtunik2023"), "hand"),
    "body against body": (BODY, "contact", free_body(3.0, [0.5, 0.4, 0.3], contact=[0, 0.2, 0]), "contact"),
    "trees with rotors": (member(40), "frame1", member(16), "frame2"),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("kind", ["normal", "point", "grasp"])
@pytest.mark.parametrize("held", [False, True])
def test_conservation(pair: str, kind: str, held: bool) -> None:
    one, frame, two, other = PAIRS[pair]
    rng = np.random.default_rng(2)
    first = any_system(one, frame, rng)
    second = any_system(two, other, rng).move_to_contact(first)
    if held:  # every other joint locked; they stand still, so that they do no work
        systems = []
        for system in (first, second):
            locked = (np.arange(system.robot.n) % 2).astype(float)
            velocity = np.array(system.velocity)
            velocity[..., 6:] *= 1 - locked
            args = (system.robot, system.frame, system.joints, system.base, velocity)
            systems.append(FloatingSystem(*args, locked=locked))
        first, second = systems
    normal = second.twist[:, :3] - first.twist[:, :3] if kind == "normal" else None
    for e in (0.0, 0.37, 1.0):
        hit = collide(first, second, kind=kind, normal=normal, restitution=e)
        assert hit.momentum_residual.max() < 1e-12
        assert hit.energy_residual.max() < 1e-12
        before, after = hit.closing, _along(hit, kind, normal)
        np.testing.assert_allclose(after, -e * before, atol=1e-11 * np.abs(before).max())
        assert hit.contact_residual.max() < 1e-10
        if e == 1.0:
            assert np.abs(hit.energy_lost / hit.energy_before).max() < 1e-12
        else:
            assert np.all(hit.energy_lost > 0.0)
        if e == 0.0 and kind == "grasp":
            scale = np.abs(hit.first.twist_before).max()
            assert np.abs(hit.first.twist_after - hit.second.twist_after).max() < 1e-12 * scale
        for jump, system in ((hit.first, first), (hit.second, second)):
            still = system.modes.locked == 1.0
            np.testing.assert_array_equal(jump.change[..., 6:][..., still], 0.0)
            free = ~still
            np.testing.assert_array_equal(jump.reaction[..., free], 0.0)


def _along(hit, kind: str, normal):  # type: ignore[no-untyped-def]
    relative = hit.second.twist_after - hit.first.twist_after
    if kind == "normal":
        n = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
        return np.sum(relative[:, :3] * n, axis=-1, keepdims=True)
    return relative[:, :3] if kind == "point" else relative


def test_where_the_systems_are_does_not_matter() -> None:
    """In the coordinates of an orbit arms have 1e-9 m of rounding; neither the velocities nor the account feel it."""
    robot, found = catalogue.load("xu2017"), []
    linear, angular = np.array([-0.05, 0.02, 0.01]), np.array([0.02, 0.03, -0.02])
    for place in ([0.0, 0.0, 0.0], [4e6, -3e6, 5e6]):
        arm = build_system(robot, "hand", joints="normal", position=place, quaternion=[0.6, 0.0, 0.48, 0.64])
        target = build_system(BODY, "contact", velocity=linear, angular_velocity=angular).move_to_contact(arm)
        hit = collide(arm, target, kind="grasp")
        assert hit.momentum_residual < 1e-14
        assert hit.energy_residual < 1e-14
        run = simulate_contact(arm, target, frequency=1e4, kind="grasp")
        assert run.momentum_residual < 1e-12
        found.append((hit, run))
    (here, near), (there, far) = found
    np.testing.assert_allclose(there.impulse, here.impulse, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(there.momentum_after, here.momentum_after, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(far.first, near.first, atol=1e-9)
    # About the contact point, from positions and velocities of the mass centres.
    centre = Mechanics(BODY).centre_of_mass([]) - [0.3, -0.2, 0.1]
    speed = linear + np.cross(angular, [0.05, 0, 0])
    angular_rate = np.array([[2.0, 0.1, 0.0], [0.1, 3.0, -0.2], [0.0, -0.2, 2.5]]) @ angular
    want = np.concatenate([12.0 * speed, angular_rate + 12.0 * np.cross(centre, speed)])
    np.testing.assert_allclose(there.momentum_before, want, rtol=1e-12)


def test_equations_28_and_30_of_the_paper() -> None:
    """With the moment arm of the body, and Eq. 29 with the minus sign that it lacks."""
    rng = np.random.default_rng(8)
    chain = any_system(catalogue.load("xu2017"), "hand", rng, 1)
    target = any_system(BODY, "contact", rng, 1).move_to_contact(chain)
    a = np.linalg.inv(chain.response.tensor[0])
    b = np.linalg.inv(target.response.tensor[0])  # R_b^-T M_b R_b^-1
    v, w = chain.twist[0], target.twist[0]
    plastic = np.linalg.solve(a + b, b @ w + a @ v)
    elastic = np.linalg.solve(a + b, 2 * b @ w + (a - b) @ v)
    for e, want in ((0.0, plastic), (1.0, elastic)):
        hit = collide(chain, target, kind="grasp", restitution=e)
        np.testing.assert_allclose(hit.first.twist_after[0], want, rtol=1e-9, atol=1e-11)


def test_two_balls_in_line() -> None:
    left = build_system(solid_ball(2.0), "contact", velocity=[3.0, 0, 0])
    right = build_system(solid_ball(1.0), "contact", velocity=[-1.0, 0, 0])
    for e in (0.0, 0.5, 1.0):
        hit = collide(left, right, normal=[-1, 0, 0], restitution=e)
        impulse = (1 + e) * 4.0 * 2.0 / 3.0
        np.testing.assert_allclose(hit.impulse, [-impulse, 0, 0, 0, 0, 0], atol=1e-14)
        assert hit.first.after[0] == pytest.approx(3.0 - impulse / 2.0)
        assert hit.second.after[0] == pytest.approx(-1.0 + impulse)
        assert hit.energy_lost == pytest.approx(0.5 * (2.0 / 3.0) * 16.0 * (1 - e**2), abs=1e-13)


def test_a_central_hit_does_not_depend_on_the_balls_size() -> None:
    chain = FloatingSystem(catalogue.load("yoshida1992"), "hand", "L")
    found = []
    for radius in (0.01, 0.5):
        striker = build_system(solid_ball(1.0, radius), "contact", velocity=[0, 1, 0]).move_to_contact(chain)
        found.append(collide(chain, striker, normal=[0, 1, 0], restitution=1.0).impulse)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-15)
    # 1 kg against 9/7 kg
    assert found[0][1] == pytest.approx(2.0 / (1.0 + 7.0 / 9.0), rel=1e-12)


def test_after_a_grasp_both_move_as_one_welded_robot() -> None:
    """The target attached to the hand: its mass matrix with the velocities after gives the same momentum and energy."""
    robot = catalogue.load("xu2017")
    rng = np.random.default_rng(6)
    joints = rng.uniform(-1, 1, 6)
    chain = FloatingSystem(robot, "hand", joints, velocity=rng.normal(size=12) * 0.3)
    pose = Mechanics(robot).frame_pose("hand", joints)
    body = free_body(30.0, [4.0, 5.0, 6.0])
    target = build_system(
        body, "contact", velocity=[0.2, -0.1, 0.3], angular_velocity=[0.1, 0.2, -0.3]
    ).move_to_contact(chain)
    hit = collide(chain, target, kind="grasp")
    # The target's axes are the world's: seen from the hand they lie at the inverse of the hand's attitude.
    welded = attach(robot, "hand", body.bodies[0], Pose(pose[1].T, np.zeros(3)))
    mechanics = Mechanics(welded)
    assert mechanics.kinetic_energy(joints, hit.first.after) == pytest.approx(float(hit.energy_after), rel=1e-12)
    momentum = mechanics.momentum(joints, hit.first.after, about=chain.contact_point)
    np.testing.assert_allclose(momentum, hit.momentum_after, rtol=1e-11, atol=1e-12)


def test_resisting_joints_take_what_the_formula_says() -> None:
    """One mu for all, joints at rest: mu (1 - mu) / 2 g^T H*^-1 g, even when the contact is elastic."""
    robot = catalogue.load("cai2023")
    mechanics = Mechanics(robot)
    joints = robot.configuration("attitude1")
    for mu in (0.0, 0.25, 0.5, 1.0):
        chain = FloatingSystem(robot, "hand", joints, resistance=mu)
        striker = build_system(solid_ball(5.0, 0.4), "contact", velocity=[0.3, 1.0, -0.2]).move_to_contact(chain)
        hit = collide(chain, striker, normal=[0.3, 1.0, -0.2], restitution=1.0)
        matrix = mechanics.mass_matrix(joints)
        arm = matrix[6:, 6:] - matrix[6:, :6] @ np.linalg.solve(matrix[:6, :6], matrix[:6, 6:])
        sensed = mechanics.generalized_jacobian("hand", joints).T @ hit.impulse
        taken = mu * (1 - mu) / 2 * sensed @ np.linalg.solve(arm, sensed)
        assert -float(hit.first.joint_work) == pytest.approx(taken, abs=1e-13)
        assert float(hit.energy_lost) == pytest.approx(taken, abs=1e-13)
        np.testing.assert_allclose(hit.first.reaction, -mu * sensed, atol=1e-13)
        assert hit.momentum_residual < 1e-12


def test_unequal_resistances_can_add_energy_and_the_account_shows_it() -> None:
    robot = catalogue.load("xu2017")
    mu = {"joint1": 0.6, "joint2": 0.6, "joint3": 0.4, "joint4": 0.2, "joint5": 0.1, "joint6": 0.1}
    chain = FloatingSystem(robot, "hand", "normal", resistance=mu)
    striker = build_system(solid_ball(40.0, 0.5), "contact", velocity=[-0.05, 0, 0]).move_to_contact(chain)
    hit = collide(chain, striker, normal=[-1, 0, 0], restitution=1.0)
    assert hit.first.joint_work > 1e-4 * hit.energy_before
    assert hit.energy_after > hit.energy_before
    assert hit.energy_residual < 1e-12
    assert hit.momentum_residual < 1e-12


def test_resistances_so_unequal_that_a_push_draws_the_hand_in_are_refused() -> None:
    """Eq. 10 at its worst: a negative virtual mass. The same joints locked instead are an ordinary robot."""
    robot = catalogue.load("xu2017")
    joints = [-0.32149702, 2.79518249, 2.23163583, -0.41762134, -0.77501583, -2.65303615]
    direction = [0.83719271, -0.31289031, -0.44856216]
    held = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    resisting = FloatingSystem(robot, "hand", joints, resistance=held)
    heavy = build_system(solid_ball(1000.0, 1.0), "contact", velocity=direction).move_to_contact(resisting)
    assert virtual_mass(resisting.point.acceleration(direction, joints, resistance=held), direction).projected < -50.0
    for options in ({"normal": direction}, {"kind": "point"}, {"kind": "grasp"}):
        with pytest.raises(InputError, match=r"not positive definite.*not passive"):
            collide(resisting, heavy, **options)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"not positive definite.*not passive"):
            effective_mass(resisting, heavy, **options)  # type: ignore[arg-type]
        locked = collide(FloatingSystem(robot, "hand", joints, locked=held), heavy, **options)  # type: ignore[arg-type]
        assert locked.energy_lost > 0.0
        assert locked.momentum_residual < 1e-12


def test_whether_a_contact_gives_way_depends_on_its_directions_and_not_on_units() -> None:
    """Refused is exactly what has a push (force, moment) that does negative work, be it in newtons or giganewtons."""
    robot = catalogue.load("xu2017")
    rng = np.random.default_rng(0)
    joints, mu = rng.uniform(-np.pi, np.pi, (60, 6)), (rng.random((60, 6)) < 0.5).astype(float)
    light, heavy = solid_ball(50.0, 0.7), solid_ball(1000.0, 1.0)
    refused = {"point": 0, "grasp": 0}
    for q, resistance in zip(joints, mu, strict=True):
        chain = FloatingSystem(robot, "hand", q, resistance=resistance)
        for body, (kind, size) in product((light, heavy), (("point", 3), ("grasp", 6))):
            target = build_system(body, "contact", velocity=[0.1, 0.2, 0.3]).move_to_contact(chain)
            compliance = (chain.response.tensor + target.response.tensor)[:size, :size]
            passive = np.linalg.eigvalsh(compliance + compliance.T)[0] > 0.0
            refused[kind] += not passive
            if passive:
                hit = collide(chain, target, kind=kind)  # type: ignore[arg-type]
                assert hit.contact_work < 0.0
            else:
                with pytest.raises(InputError, match="not positive definite"):
                    collide(chain, target, kind=kind)  # type: ignore[arg-type]
    assert 0 < refused["point"] < refused["grasp"] < 120


@pytest.mark.parametrize("kind", ["normal", "point", "grasp"])
def test_a_passive_contact_is_never_refused_however_unlike_the_masses(kind: str) -> None:
    robot = catalogue.load("xu2017")
    chain = FloatingSystem(robot, "hand", "normal")
    for mass, radius in ((1e-6, 1e-4), (1e12, 1e4), (1e3, 1e-5)):
        target = build_system(solid_ball(mass, radius), "contact", velocity=[0.1, 0.2, 0.3]).move_to_contact(chain)
        hit = collide(chain, target, kind=kind, normal=[1, 2, 3] if kind == "normal" else None)  # type: ignore[arg-type]
        assert hit.energy_lost > 0.0
        assert hit.momentum_residual < 1e-12


def test_a_robot_of_two_points_has_nothing_that_resists_its_turning() -> None:
    point = Inertia(1.0, np.zeros(3), np.zeros((3, 3)))
    joint = Joint("slide", "prismatic", "one", "two", Pose(np.eye(3), np.zeros(3)), np.array([1.0, 0.0, 0.0]))
    robot = Robot("dumbbell", (Body("one", point), Body("two", point)), (joint,))
    dumbbell = FloatingSystem(robot, "two", [0.5])
    striker = build_system(solid_ball(1.0), "contact", velocity=[0, 1, 0]).move_to_contact(dumbbell)
    with pytest.warns(NonFiniteWarning), pytest.raises(InputError, match="no inertia about some axis"):
        collide(dumbbell, striker, normal=[0, 1, 0])


def test_a_locked_joint_that_turns_keeps_its_rate_and_its_drive_works() -> None:
    robot = catalogue.load("yoshida1992")
    velocity = np.zeros(8)
    velocity[6:] = [0.4, -0.7]
    chain = FloatingSystem(robot, "hand", "L", velocity=velocity, locked="all")
    striker = build_system(solid_ball(1.0), "contact", velocity=[0, 3, 0]).move_to_contact(chain)
    hit = collide(chain, striker, normal=[0, 1, 0], restitution=1.0)
    np.testing.assert_array_equal(hit.first.after[6:], [0.4, -0.7])
    assert hit.first.joint_work == pytest.approx(float(hit.first.reaction @ [0.4, -0.7]), rel=1e-12)
    assert abs(float(hit.energy_lost + hit.first.joint_work)) < 1e-12


def test_reactions_of_locked_joints_solve_the_constrained_equations() -> None:
    """H dnu = J^T p + t with dnu = 0 at locked joints: against a dense solve."""
    robot = catalogue.load("cai2023")
    rng = np.random.default_rng(3)
    locked = np.array([1, 0, 0, 1, 0, 1, 0.0])
    chain = FloatingSystem(robot, "hand", rng.uniform(-1, 1, 7), locked=locked)
    target = build_system(BODY, "contact", velocity=[0.1, 0.2, 0.3]).move_to_contact(chain)
    hit = collide(chain, target, kind="grasp")
    mechanics = Mechanics(robot)
    matrix, jacobian = mechanics.mass_matrix(chain.joints), mechanics.jacobian("hand", chain.joints)
    rows = np.zeros((3, 13))
    rows[range(3), 6 + np.flatnonzero(locked)] = 1.0
    system = np.block([[matrix, -rows.T], [rows, np.zeros((3, 3))]])
    want = np.linalg.solve(system, np.concatenate([jacobian.T @ hit.impulse, np.zeros(3)]))
    np.testing.assert_allclose(hit.first.change, want[:13], atol=1e-12)
    np.testing.assert_allclose(hit.first.reaction[locked == 1], want[13:], atol=1e-12)


def test_effective_mass_of_a_head_on_hit() -> None:
    chain = FloatingSystem(catalogue.load("yoshida1992"), "hand", "L", locked="all")
    wall = build_system(solid_ball(1e9, 10.0), "contact").move_to_contact(chain)
    toward = np.array([4.0, 5.0, 0.0])
    assert effective_mass(chain, wall, normal=toward)[0, 0] == pytest.approx(3.0, rel=1e-6)


def test_what_is_no_collision() -> None:
    chain = FloatingSystem(catalogue.load("yoshida1992"), "hand", "L")
    striker = build_system(solid_ball(1.0), "contact", velocity=[1, 0, 0]).move_to_contact(chain)
    with pytest.raises(InputError, match=r"do not approach along the normal: -1 m/s.*no collision"):
        collide(chain, striker, normal=[-1, 0, 0])
    with pytest.raises(InputError, match="do not approach"):
        collide(chain, striker, normal=[0, 1, 0])  # they only slide
    none = collide(chain, striker, normal=[-1, 0, 0], apart="ignore")
    np.testing.assert_array_equal(none.impulse, 0.0)
    np.testing.assert_array_equal(none.first.change, 0.0)
    many = build_system(solid_ball(1.0), "contact", velocity=[[1, 0, 0], [-1, 0, 0]]).move_to_contact(chain)
    with pytest.raises(InputError, match=r"sample \(1,\)"):
        collide(chain, many, normal=[1, 0, 0])
    some = collide(chain, many, normal=[1, 0, 0], apart="ignore")
    assert some.impulse[0, 0] > 0.0
    assert some.impulse[1, 0] == 0.0


def test_what_is_refused() -> None:
    chain = FloatingSystem(catalogue.load("yoshida1992"), "hand", "L")
    far = build_system(solid_ball(1.0), "contact", velocity=[1, 0, 0])
    striker = far.move_to_contact(chain)
    with pytest.raises(InputError, match=r"'hand' and 'contact' lie .* apart"):
        collide(chain, far, normal=[1, 0, 0])
    for e in (-0.1, 1.1, float("nan"), "high", [0.5, 2.0]):
        with pytest.raises(InputError, match="restitution"):
            collide(chain, striker, normal=[1, 0, 0], restitution=e)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"normal.*no direction"):
        collide(chain, striker, normal=[0, 0, 0])
    with pytest.raises(InputError, match=r"normal.*missing"):
        collide(chain, striker)
    with pytest.raises(InputError, match="not apply to kind 'grasp'"):
        collide(chain, striker, kind="grasp", normal=[1, 0, 0])
    with pytest.raises(InputError, match="kind of contact is"):
        collide(chain, striker, kind="glue")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="apart is"):
        collide(chain, striker, normal=[1, 0, 0], apart="maybe")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="apart is"):
        collide(chain, striker, kind="grasp", apart="maybe")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no frame 'foot'"):
        FloatingSystem(chain.robot, "foot", "L")
    with pytest.raises(InputError, match=r"velocity.*expected .*8"):
        FloatingSystem(chain.robot, "hand", "L", velocity=np.zeros(7))
    with pytest.raises(InputError, match=r"base.*finite"):
        FloatingSystem(chain.robot, "hand", "L", base=[np.nan, 0, 0, 1, 0, 0, 0])
    with pytest.raises(InputError, match="radius"):
        solid_ball(1.0, -0.1)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"velocity": [0, 1]}, r"velocity.*expected shape \(\.\.\., 3\)"),
        ({"velocity": 1.0}, "velocity"),
        ({"velocity": "fast"}, "velocity.*not an array of numbers"),
        ({"angular_velocity": [0, 0, np.nan]}, "angular velocity.*finite"),
        ({"position": 0.0}, "position"),
        ({"rates": [1.0]}, r"rates.*expected shape \(\.\.\., 2\)"),
        ({"quaternion": [2, 0, 0, 0]}, "quaternion has length"),
        ({"quaternion": [0, 0, 0, 0]}, "quaternion has length"),
        ({"quaternion": [1, 0, 0]}, r"quaternion.*expected shape \(\.\.\., 4\)"),
    ],
)
def test_a_state_must_be_one(wrong: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        build_system(catalogue.load("yoshida1992"), "hand", joints="L", **wrong)  # type: ignore[arg-type]


def test_a_quaternion_that_is_nearly_of_unit_length_is_scaled() -> None:
    rough = np.array([0.6, 0.0, 0.8, 0.0]) * (1 + 5e-7)
    system = build_system(catalogue.load("yoshida1992"), "hand", joints="L", quaternion=rough, velocity=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(system.twist[:3], [1.0, 2.0, 3.0], rtol=1e-14)
    assert np.linalg.norm(np.asarray(system.base)[3:]) == pytest.approx(1.0, abs=1e-15)


def test_a_grasp_gives_the_robot_and_the_state_to_go_on_with() -> None:
    arm, target = random_robot(3, joints=4, rotors=0.5), free_body(40.0, [5.0, 6.0, 7.0], contact=[0.2, -0.1, 0.3])
    rng = np.random.default_rng(5)
    hand = arm.body_names[-1]
    joints, rates = rng.normal(size=4), 0.3 * rng.normal(size=10)
    base = np.concatenate([rng.normal(size=3), [0.6, 0.0, 0.48, 0.64]])
    for held, locked in ((False, "none"), (False, [arm.joint_names[1]]), (True, "none"), (True, [arm.joint_names[1]])):
        moving = np.concatenate([np.zeros(6), rates[6:]]) if held else rates
        first = FloatingSystem(arm, hand, joints, base, moving, locked, held=held)
        meets = FloatingSystem(target, "contact", velocity=[0.1, -0.2, 0.3, 0.2, 0.1, -0.4])
        second = meets.move_to_contact(first)
        jump = collide(first, second, kind="grasp")
        assert jump.sound
        robot, state = weld_after_grasp(first, second)
        np.testing.assert_allclose(state.velocity[:6], jump.first.after[:6], atol=1e-10)
        np.testing.assert_allclose(state.rates, jump.first.after[6:], atol=1e-10)
        assert robot.mass == pytest.approx(arm.mass + 40.0)
        run = simulate(World({"all": robot}), state, 0.2)
        assert run.sound
        twist = mechanics_of(robot).frame_velocity("body", state.joints, state.velocity, base=state.pose)
        turn = rotation_matrices(second.state.quaternion)
        after = np.concatenate([turn @ jump.second.after[:3], turn @ jump.second.after[3:]])
        np.testing.assert_allclose(twist, after, atol=1e-10)
        if held:
            assert not jump.first.after[:6].any()
            assert np.abs(jump.momentum_after - jump.momentum_before).max() > 1e-3


def test_a_held_base_is_one_that_is_too_heavy_to_move() -> None:
    arm, ball_ = random_robot(7, joints=3), solid_ball(5.0)
    hand = arm.body_names[-1]
    heavy = edit.replace_inertias(arm, {arm.body_names[0]: Inertia(1e12, tensor=1e12 * np.eye(3))})
    systems = [
        FloatingSystem(arm, hand, [0.3, -0.4, 0.5], held=True),
        FloatingSystem(heavy, hand, [0.3, -0.4, 0.5]),
    ]
    impulses = []
    for first in systems:
        second = FloatingSystem(ball_, "contact", velocity=[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]).move_to_contact(first)
        impulses.append(collide(first, second, normal=[0, 0, -1.0], restitution=0.5).impulse)
    np.testing.assert_allclose(impulses[0], impulses[1], rtol=1e-8)
    stiff = [replace(each, resistance=[0.2, 0.5, 0.7]).response for each in systems]
    np.testing.assert_allclose(stiff[0].tensor, stiff[1].tensor, rtol=1e-8, atol=1e-9)
    lone = FloatingSystem(ball_, "contact")
    with pytest.raises(InputError, match="held externally"):
        weld_after_grasp(lone, systems[0].move_to_contact(lone))
