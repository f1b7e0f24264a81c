"""Pinocchio, MuJoCo and plain NumPy agree with one another: before they judge spacearm, they are judged themselves."""

from __future__ import annotations

import numpy as np
import pytest

from support import brute_force
from support.mujoco_reference import mujoco_at
from support.pinocchio_reference import PinocchioReference
from support.population import BLOCKS, SIZE, difference, member, member_state
from support.random_robots import random_robot, random_state

TOLERANCE = 1e-11


def test_population_covers_what_it_promises() -> None:
    robots = [member(index) for index in range(SIZE)]
    assert len(robots) >= 200
    assert {robot.n for robot in robots} == set(range(1, 13))
    joints = [joint for robot in robots for joint in robot.joints]
    assert min(sum(joint.kind == kind for joint in joints) for kind in ("revolute", "prismatic")) > 300
    branching = sum(len(set(robot.parents)) < robot.n for robot in robots)
    assert 60 < branching < SIZE - 60
    assert sum(np.count_nonzero(joint.axis) == 1 for joint in joints) > 300
    assert sum(np.count_nonzero(joint.axis) == 3 for joint in joints) > 300
    assert sum(body.inertia.mass == 0.0 for robot in robots for body in robot.bodies) > 20
    assert sum(joint.rotor is not None for joint in joints) > 20


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_pinocchio_and_mujoco_agree(block: range) -> None:
    for index in block:
        robot = member(index)
        state, rng = member_state(index)
        pinocchio, mujoco = PinocchioReference(robot), mujoco_at(robot, state)
        acceleration, force = rng.normal(size=robot.dofs), 5.0 * rng.normal(size=robot.dofs)
        wrenches = {frame.name: 3.0 * rng.normal(size=6) for frame in robot.frames}
        external = sum(mujoco.generalized_force(name, wrench) for name, wrench in wrenches.items())
        pairs = {
            "mass matrix": (mujoco.mass_matrix(), pinocchio.mass_matrix(state)),
            "bias": (mujoco.bias(), pinocchio.bias(state)),
            "inverse dynamics": (
                mujoco.inverse_dynamics(acceleration, external),
                pinocchio.inverse_dynamics(state, acceleration, wrenches),
            ),
            "forward dynamics": (
                mujoco.forward_dynamics(force + external),
                pinocchio.forward_dynamics(state, force, wrenches),
            ),
            "momentum": (mujoco.momentum(), pinocchio.momentum(state, np.zeros(3))),
            "centroidal momentum": (mujoco.momentum(mujoco.mass_centre()), pinocchio.momentum(state)),
            "kinetic energy": (mujoco.kinetic_energy(), pinocchio.kinetic_energy(state)),
        }
        for frame in robot.frames:
            pairs[f"Jacobian of {frame.name}"] = (
                mujoco.frame_jacobian(frame.name),
                pinocchio.frame_jacobian(state, frame.name),
            )
        for what, (ours, theirs) in pairs.items():
            assert difference(ours, theirs) < TOLERANCE, f"{what} of robot {index}"


@pytest.mark.parametrize("seed", range(24))
def test_first_principles_agree_with_pinocchio(seed: int) -> None:
    """Kinetic energy by plain Jacobians and its complex-step derivatives, with rotors and flexible joints."""
    robot = random_robot(
        seed, 1 + seed % 6, tree=seed % 2 == 0, geometry="mixed", rotors=0.6, flexible=0.4 if seed % 3 == 0 else 0.0
    )
    state = random_state(robot, np.random.default_rng(seed))
    pinocchio = PinocchioReference(robot)
    assert difference(brute_force.mass_matrix(robot, state.joints), pinocchio.mass_matrix(state)) < TOLERANCE
    assert difference(brute_force.bias(robot, state.joints, state.velocity), pinocchio.bias(state)) < TOLERANCE
    for body in range(len(robot.bodies)):
        by_step = brute_force.stepped_jacobian(robot, state.joints, body, [0.1, -0.2, 0.3])
        by_geometry = brute_force.point_jacobian(robot, state.joints, body, [0.1, -0.2, 0.3])
        assert difference(by_step, by_geometry) < 1e-13
