"""Denavit-Hartenberg frames inside the programs change nothing outside them."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.engine.kernel import Kernel
from spacearm.engine.mechanics import Mechanics
from spacearm.engine.trace import trace
from spacearm.mechanics import build, dynamics
from spacearm.mechanics.program import Program
from spacearm.mechanics.reframe import reframe_robot, transport
from spacearm.mechanics.tree import Tree
from spacearm.model import Body, Inertia, Joint, Pose, Robot, catalogue
from spacearm.model.rotations import rotation_about
from spacearm.simulate import rollout
from spacearm.typing import Array
from support.pinocchio_reference import PinocchioReference
from support.random_robots import random_robot, random_state

X, Y, Z = np.eye(3)
SKEW = np.array([2.0, -1.0, 2.0]) / 3.0
TURN = rotation_about(np.array([1.0, 2.0, -2.0]) / 3.0, 0.7)
ARM = np.array([0.3, -0.2, 0.4])


def body(name: str, seed: int) -> Body:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(6, 3))
    centred = points - points.mean(axis=0)
    return Body(name, Inertia(2.0, 0.3 * points.mean(axis=0), np.sum(centred**2) * np.eye(3) - centred.T @ centred))


def chain(*links: tuple[Array, Array, Array, str], parents: tuple[int, ...] = ()) -> Robot:
    """Joints (turn, arm, axis, kind), each on the last body or on the one named by its number."""
    bodies = [body("base", 0), *(body(f"link{i}", i + 1) for i in range(len(links)))]
    carriers = parents or tuple(range(len(links)))
    joints = [
        Joint(f"joint{i}", kind, bodies[carriers[i]].name, f"link{i}", Pose(turn, arm), axis)  # type: ignore[arg-type]
        for i, (turn, arm, axis, kind) in enumerate(links)
    ]
    return Robot("chain", tuple(bodies), tuple(joints))


def along(axis: Array, turn: Array = TURN, arm: Array = ARM, kind: str = "revolute") -> tuple[Array, Array, Array, str]:
    return turn, arm, axis, kind


def tilted(angle: float) -> Array:
    """A turn that leads SKEW to a direction off it by so much."""
    return rotation_about(np.cross(SKEW, X) / np.linalg.norm(np.cross(SKEW, X)), angle)


STILL = np.eye(3)
CASES = {
    "general": chain(along(SKEW), along(X), along(-SKEW)),
    "parallel": chain(along(SKEW), along(SKEW, STILL), along(SKEW, STILL)),
    "antiparallel": chain(along(SKEW), along(SKEW, tilted(np.pi)), along(SKEW, tilted(np.pi))),
    "coaxial": chain(along(SKEW), along(SKEW, STILL, 0.2 * SKEW), along(-SKEW, STILL, -0.5 * SKEW), along(X)),
    "at one point": chain(along(SKEW), along(X, STILL, np.zeros(3)), along(Y, TURN, np.zeros(3))),
    "almost parallel": chain(along(SKEW), *(along(SKEW, tilted(e)) for e in (1e-3, 1e-7, 1e-11, 1e-14))),
    "almost along the base's z": chain(along(rotation_about(X, 1e-6) @ Z, STILL), along(SKEW)),
    "slides": chain(along(SKEW, kind="prismatic"), along(X), along(SKEW, kind="prismatic"), along(Y)),
    "branches": chain(along(SKEW), along(X), along(Y), along(-Y), along(SKEW), parents=(0, 1, 1, 2, 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_forward_dynamics_equals_pinocchio(case: str) -> None:
    robot = CASES[case]
    assert reframe_robot(robot) is not None
    rng = np.random.default_rng(3)
    for _ in range(5):
        state, force = random_state(robot, rng), rng.normal(size=robot.dofs)
        found = Mechanics(robot).forward_dynamics(state.joints, state.velocity, force)
        expected = PinocchioReference(robot).forward_dynamics(state, force)
        assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("case", CASES)
def test_the_mass_matrix_is_that_in_the_robots_own_frames(case: str) -> None:
    robot = CASES[case]
    program = build(robot, "mass_matrix")
    assert "reframed" in program.derived
    own = Tree(robot)
    x = program.inputs
    plain = Program(
        "plain",
        {name: x[name] for name in ("joints", "inertia", "rotor")},
        {"mass_matrix": dynamics.mass_matrix(own, x["joints"], x["inertia"], x["rotor"])},
    )
    joints = np.random.default_rng(1).uniform(-3.0, 3.0, size=(20, robot.n))
    expected = Kernel(plain)({"joints": joints, "inertia": robot.inertia_parameters})["mass_matrix"]
    found = Mechanics(robot).mass_matrix(joints)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_inertias_of_each_sample_are_carried_along() -> None:
    robot = CASES["general"]
    rng = np.random.default_rng(2)
    starts = np.array([random_state(robot, rng).flat for _ in range(11)])
    inertias = robot.inertia_parameters * rng.uniform(0.5, 2.0, size=(11, 1, 1))
    found = rollout(robot, starts, 1e-2, 20, overrides={"inertia": inertias})[:, -1]
    for row, start, inertia in zip(found, starts, inertias, strict=True):
        alone = rollout(robot.with_inertia_parameters(inertia), start, 1e-2, 20)[-1]
        np.testing.assert_allclose(row, alone, rtol=0, atol=1e-13 * np.abs(alone).max())


def test_derivatives_by_inertias_are_those_of_the_robots_own_parameters() -> None:
    """Forces are linear in them: the derivative is the regressor, which knows no other frames."""
    robot = random_robot(60, 3, geometry="skew")
    mechanics, state = Mechanics(robot), random_state(robot, np.random.default_rng(4))
    acceleration = np.linspace(-1.0, 1.0, robot.dofs)
    kernel = mechanics.derivative("inverse_dynamics", "force", "inertia")
    given = {"joints": state.joints, "velocity": state.velocity, "acceleration": acceleration}
    slope = mechanics.evaluate(kernel, **given)["d_force_d_inertia"]
    regressor, _ = mechanics.dynamics_regressor(*given.values())
    np.testing.assert_allclose(slope, regressor, rtol=0, atol=1e-12 * np.abs(regressor).max())


def test_a_chain_in_general_position_takes_two_thirds_of_the_operations() -> None:
    robot = chain(*(along(np.roll(SKEW, i), rotation_about(SKEW, 0.4 + i), (1 + i) * ARM) for i in range(7)))
    own = Tree(robot)
    program = build(robot, "mass_matrix")
    x = program.inputs
    plain = dynamics.mass_matrix(own, x["joints"], x["inertia"], x["rotor"])
    before = trace(Program("plain", {k: x[k] for k in ("joints", "inertia", "rotor")}, {"h": plain}).function)
    assert trace(program.function).operations() < 0.7 * before.operations()
    assert trace(build(robot, "forward_dynamics").function).operations() <= 1600


def test_the_benchmark_arm_takes_no_more_operations_than_it_did() -> None:
    assert trace(build(catalogue.load("cai2023"), "forward_dynamics").function).operations() <= 1210


@pytest.mark.parametrize("case", CASES)
def test_rods_along_the_axes_are_their_parents(case: str) -> None:
    """Bodies are left without mass, first moment along the axis and one moment; no mass is lost."""
    robot = CASES[case]
    kernel = Kernel(build(robot, "forward_dynamics"))
    rows = kernel.derive({"inertia": robot.inertia_parameters})["reframed_free"].reshape(-1, 10)
    turning = [i + 1 for i, joint in enumerate(robot.joints) if joint.kind == "revolute"]
    np.testing.assert_array_equal(rows[turning][:, [0, 3, 4]], 0.0)
    np.testing.assert_allclose(rows[:, 0].sum(), robot.inertia_parameters[:, 0].sum(), rtol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_a_free_motion_is_that_with_modes_of_zero(case: str) -> None:
    """One takes other frames, of the base too, and other inertias; the loads' program takes neither."""
    robot = CASES[case]
    rng = np.random.default_rng(5)
    state, force = random_state(robot, rng), rng.normal(size=robot.dofs)
    mechanics, none = Mechanics(robot), np.zeros(robot.dofs)
    found = mechanics.forward_dynamics(state.joints, state.velocity, force)
    expected, reaction = mechanics.hybrid_dynamics(state.joints, state.velocity, force, none, none)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(reaction, 0.0)


def test_an_arm_with_a_table_of_its_own_keeps_its_frames() -> None:
    assert reframe_robot(catalogue.load("cai2023")) is None


def test_a_body_moved_there_and_back_is_the_same() -> None:
    pose = Pose(TURN, ARM)
    np.testing.assert_allclose(transport(pose) @ transport(pose.inverse()), np.eye(10), rtol=0, atol=1e-15)
