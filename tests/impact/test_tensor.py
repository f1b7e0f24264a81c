"""The extended generalized inertia tensor against forward dynamics, its limits, and what it must refuse."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spacearm.engine import Mechanics
from spacearm.errors import InputError, ModelError
from spacearm.impact import ImpactPoint, extended_inertia_tensor, free_body, impact_point
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Body, Inertia, Robot, catalogue
from spacearm.model.parts import skew
from support.population import difference, member, member_state

ROBOTS = [0, 1, 3, 15, 16, 26, 40, 123]  # 1 to 5 joints: chains, trees, slides, rotors, massless links


def frame_of(robot: Robot) -> str:
    return robot.frames[0].name if robot.frames else robot.bodies[-1].name


def by_hybrid_dynamics(robot: Robot, frame: str, state, locked, torque=0.0):  # type: ignore[no-untyped-def]
    """Columns for six unit wrenches (..., rows, 6): frame accelerations, all accelerations, joint reactions."""
    mechanics = Mechanics(robot)
    base = np.concatenate([state.position, state.quaternion])
    lead = locked.shape[:-1]
    force = np.zeros((*lead, 6, robot.dofs))
    force[..., 6:] = np.swapaxes(np.broadcast_to(torque, (*lead, robot.n, 6)), -1, -2)
    rest = np.zeros(robot.dofs)
    mode = np.concatenate([np.zeros((*lead, 6)), locked], axis=-1)[..., None, :]
    acceleration, reaction = mechanics.hybrid_dynamics(
        state.joints, rest, force, rest, mode, loads=(LoadFrame(frame),), wrench=np.eye(6), base=base
    )
    hand = mechanics.frame_acceleration(frame, state.joints, rest, acceleration, base=base)
    hand, acceleration, reaction = (np.swapaxes(x, -1, -2) for x in (hand, acceleration, reaction))
    return hand, acceleration, reaction[..., 6:, :]


@pytest.mark.parametrize("index", ROBOTS)
def test_every_mode_pattern_is_what_hybrid_dynamics_gives_for_unit_wrenches(index: int) -> None:
    robot = member(index)
    state, _ = member_state(index)
    frame = frame_of(robot)
    base = np.concatenate([state.position, state.quaternion])
    patterns = np.array(list(product((0.0, 1.0), repeat=robot.n)))
    every = ImpactPoint(robot, frame).response(state.joints, base=base, locked=patterns)
    hands, accelerations, reactions = by_hybrid_dynamics(robot, frame, state, patterns)
    for k in range(len(patterns)):
        assert difference(every.tensor[k], hands[k]) < 1e-10
        assert difference(every.velocity[k], accelerations[k]) < 1e-10
        assert np.abs(every.reaction[k] - reactions[k]).max() < 1e-10 * max(1.0, np.abs(reactions[k]).max())
        assert difference(every.tensor[k], every.tensor[k].T) < 1e-12


@pytest.mark.parametrize("name", ["cai2023", "xu2017", "zhang2020", "wojtunik2023", "yoshida1992"])
def test_catalogue_robots_in_every_mode_pattern(name: str) -> None:
    robot = catalogue.load(name)
    rng = np.random.default_rng(5)
    joints = rng.uniform(-0.4, 0.4, robot.n)
    patterns = np.array(list(product((0.0, 1.0), repeat=robot.n)))
    tensors = impact_point(robot, "hand").tensor(joints, locked=patterns)
    mechanics, rest = Mechanics(robot), np.zeros(robot.dofs)
    mode = np.concatenate([np.zeros((len(patterns), 6)), patterns], axis=-1)
    acceleration, _ = mechanics.hybrid_dynamics(
        joints, rest, rest, rest, mode[:, None], loads=(LoadFrame("hand"),), wrench=np.eye(6)
    )
    hand = mechanics.frame_acceleration("hand", joints, rest, acceleration)
    assert difference(tensors, np.swapaxes(hand, -1, -2)) < 1e-10


@pytest.mark.parametrize("index", ROBOTS)
def test_partial_resistance_is_the_joint_torque_of_equation_10(index: int) -> None:
    robot = member(index)
    state, rng = member_state(index, 1)
    frame, base = frame_of(robot), np.concatenate([state.position, state.quaternion])
    resistance = rng.uniform(0.0, 1.0, robot.n)
    sensed = Mechanics(robot).generalized_jacobian(frame, state.joints, base=base)
    locked = np.array([np.zeros(robot.n), np.arange(robot.n) % 2])
    torque = -(resistance * (1 - locked))[..., None] * sensed.T
    found = ImpactPoint(robot, frame).response(state.joints, base=base, locked=locked, resistance=resistance)
    hand, acceleration, reaction = by_hybrid_dynamics(robot, frame, state, locked, torque)
    assert difference(found.tensor, hand) < 1e-10
    assert difference(found.velocity, acceleration) < 1e-10
    assert difference(found.reaction, reaction + torque) < 1e-10


@pytest.mark.parametrize("index", [3, 16, 123])
def test_limits_of_equations_13_and_14(index: int) -> None:
    """Free joints: J H^-1 J^T. All fixed: R_h M^-1 R_h^T of the united body, from its mass centre and I_g."""
    robot = member(index)
    state, _ = member_state(index, 2)
    frame, base = frame_of(robot), np.concatenate([state.position, state.quaternion])
    mechanics, point = Mechanics(robot), ImpactPoint(robot, frame)
    jacobian = mechanics.jacobian(frame, state.joints, base=base)
    matrix = mechanics.mass_matrix(state.joints)
    free = jacobian @ np.linalg.solve(matrix, jacobian.T)
    assert difference(point.tensor(state.joints, base=base), free) < 1e-10

    if any(joint.rotor for joint in robot.joints):
        return  # a rotor has inertia about one axis only: no rigid body's tensor
    origins, rotations = mechanics.body_poses(state.joints, base=base)
    centre = mechanics.centre_of_mass(state.joints, base=base)
    about = np.zeros((3, 3))
    for body, origin, turn in zip(robot.bodies, origins, rotations, strict=True):
        arm = skew(origin + turn @ body.inertia.com - centre)
        about += turn @ body.inertia.tensor @ turn.T - body.inertia.mass * arm @ arm
    hand, _ = mechanics.frame_pose(frame, state.joints, base=base)
    shift = np.block([[np.eye(3), -skew(hand - centre)], [np.zeros((3, 3)), np.eye(3)]])
    inertia = np.block([[robot.mass * np.eye(3), np.zeros((3, 3))], [np.zeros((3, 3)), about]])
    united = shift @ np.linalg.inv(inertia) @ shift.T
    assert difference(point.tensor(state.joints, base=base, locked="all"), united) < 1e-10
    assert difference(point.tensor(state.joints, base=base, resistance=1.0), united) < 1e-10


@pytest.mark.parametrize("name", ["xu2017", "cai2023"])
def test_limit_of_equation_15_a_base_as_heavy_as_the_earth(name: str) -> None:
    """G* tends to J H^-1 J^T of the arm on the ground, with an error that falls as the base grows."""
    robot = catalogue.load(name)
    joints = np.random.default_rng(3).uniform(-1.0, 1.0, robot.n)
    mechanics = Mechanics(robot)
    arm = mechanics.mass_matrix(joints)[6:, 6:]
    jacobian = mechanics.jacobian("hand", joints)[:, 6:]
    ground = jacobian @ np.linalg.solve(arm, jacobian.T)
    errors = []
    for factor in (1e5, 1e7, 1e9):
        base = robot.bodies[0].inertia
        heavy = Inertia(base.mass * factor, base.com, base.tensor * factor)
        grown = robot.replace(bodies=(Body(robot.bodies[0].name, heavy), *robot.bodies[1:]))
        errors.append(difference(extended_inertia_tensor(grown, "hand", joints), ground))
    assert errors[-1] < 1e-5
    assert errors[1] / errors[0] == pytest.approx(1e-2, rel=0.1)
    assert errors[2] / errors[1] == pytest.approx(1e-2, rel=0.1)


def test_equal_resistance_blends_free_and_fixed_and_stays_symmetric() -> None:
    robot = catalogue.load("xu2017")
    free, fixed, part = (
        extended_inertia_tensor(robot, "hand", "normal", **options)
        for options in ({}, {"locked": "all"}, {"resistance": 0.3})
    )
    assert difference(part, 0.7 * free + 0.3 * fixed) < 1e-12
    assert difference(part, part.T) < 1e-12


def test_unequal_resistance_is_not_symmetric_and_full_resistance_of_some_joints_does_not_hold_them() -> None:
    robot = catalogue.load("yoshida1992")
    point = impact_point(robot, "hand")
    uneven = point.response("L", resistance=[1.0, 0.0])
    assert np.abs(uneven.tensor - uneven.tensor.T).max() > 0.1
    assert np.abs(uneven.rates[0]).max() > 0.1  # joint 1 resists fully, and yet is dragged along
    locked = point.response("L", locked=["joint1"])
    assert np.abs(locked.rates[0]).max() == 0.0
    assert difference(locked.tensor, locked.tensor.T) < 1e-12
    assert difference(uneven.tensor, locked.tensor) > 0.01


def test_batches_are_the_single_calls() -> None:
    robot = catalogue.load("cai2023")
    rng = np.random.default_rng(11)
    joints = rng.uniform(-1, 1, (3, 4, robot.n))
    quaternion = rng.normal(size=(4, 4))
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    base = np.concatenate([np.zeros((4, 3)), quaternion], axis=-1)
    locked = (rng.random((3, 1, robot.n)) < 0.5).astype(float)
    resistance = rng.random(robot.n)
    point = impact_point(robot, "hand")
    every = point.tensor(joints, base=base, locked=locked, resistance=resistance)
    assert every.shape == (3, 4, 6, 6)
    for i, j in product(range(3), range(4)):
        one = point.tensor(joints[i, j], base=base[j], locked=locked[i, 0], resistance=resistance)
        np.testing.assert_array_equal(every[i, j], one)


def test_a_body_alone_is_a_robot_without_joints() -> None:
    body = free_body(4.0, [1.0, 2.0, 2.5], contact=[0.3, 0.0, 0.0])
    tensor = extended_inertia_tensor(body, "contact")
    assert tensor[0, 0] == pytest.approx(1 / 4.0)
    assert tensor[1, 1] == pytest.approx(1 / 4.0 + 0.3**2 / 2.5)
    assert tensor[3, 3] == pytest.approx(1.0)


def test_errors_say_what_is_wrong() -> None:
    robot = catalogue.load("yoshida1992")
    with pytest.raises(ModelError, match=r"no frame 'hnd'.*did you mean 'hand'"):
        impact_point(robot, "hnd")
    point = impact_point(robot, "hand")
    for wrong in (1.2, -0.1, [0.5, 1.5], float("nan"), {"joint1": 2.0}, {"joint1": "half"}, {"joint1": [0.1, 0.2]}):
        with pytest.raises(InputError, match="resistance"):
            point.tensor("L", resistance=wrong)
    with pytest.raises(InputError, match=r"resistance.*no joint 'joint_1'.*did you mean 'joint1'"):
        point.tensor("L", resistance={"joint_1": 0.5})
    with pytest.raises(InputError, match="locked"):
        point.tensor("L", locked=[0.5, 0.0])
    with pytest.raises(InputError, match="locked"):
        point.tensor("L", locked="some")
    with pytest.raises(InputError, match=r"locked.*no joint 'elbow'"):
        point.tensor("L", locked=["elbow"])
    with pytest.raises(InputError, match=r"expected .*, 2"):
        point.tensor("L", resistance=[0.1, 0.2, 0.3])
    with pytest.raises(ModelError, match="configuration 'M'"):
        point.tensor("M")
    with pytest.raises(InputError, match="joints is not an array of numbers"):
        point.tensor(["a", "b"])
    with pytest.raises(InputError, match="no inertia about some axis"):
        impact_point(free_body(1.0, [0.0, 0.0, 0.0]), "contact")
