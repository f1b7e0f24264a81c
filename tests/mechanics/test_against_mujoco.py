"""spacearm against MuJoCo on 216 random robots, every quantity to 1e-10 relative; states through CasADi."""

from __future__ import annotations

import numpy as np
import pytest

from support import brute_force
from support.mujoco_reference import mujoco_at
from support.population import BLOCKS, difference, member, member_state
from support.symbolic import Symbolic

TOLERANCE = 1e-10
QUANTITIES = (
    "mass_matrix",
    "bias",
    "inverse_dynamics",
    "acceleration",
    "momentum_at_origin",
    "momentum_at_centre",
    "centre",
    "kinetic_energy",
    "jacobian",
    "rotation",
    "origin",
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_population(block: range) -> None:
    for index in block:
        robot = member(index)
        state, rng = member_state(index, 4)
        acceleration, force = rng.normal(size=robot.dofs), 5.0 * rng.normal(size=robot.dofs)
        wrench = 3.0 * rng.normal(size=6 * len(robot.frames))
        got = Symbolic(robot, *QUANTITIES)(state, acceleration=acceleration, force=force, wrench=wrench)
        mujoco_robot = mujoco_at(robot, state)
        external = sum(
            mujoco_robot.generalized_force(frame.name, wrench[6 * k : 6 * k + 6])
            for k, frame in enumerate(robot.frames)
        )
        expected = {
            "mass_matrix": mujoco_robot.mass_matrix(),
            "bias": mujoco_robot.bias(),
            "inverse_dynamics": mujoco_robot.inverse_dynamics(acceleration, external),
            "acceleration": mujoco_robot.forward_dynamics(force + external),
            "momentum_at_origin": mujoco_robot.momentum(),
            "momentum_at_centre": mujoco_robot.momentum(mujoco_robot.mass_centre()),
            "centre": mujoco_robot.mass_centre(),
            "kinetic_energy": np.array([mujoco_robot.kinetic_energy()]),
        }
        for frame in robot.frames:
            expected[f"{frame.name}.jacobian"] = mujoco_robot.frame_jacobian(frame.name)
            expected[f"{frame.name}.rotation"] = mujoco_robot.frame_pose(frame.name).rotation
            expected[f"{frame.name}.origin"] = mujoco_robot.frame_pose(frame.name).translation
        assert expected.keys() == got.keys()
        for name, reference in expected.items():
            assert difference(got[name], reference) < TOLERANCE, f"{name} of robot {index}"


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_generalized_jacobian(block: range) -> None:
    """J* gives a frame's twist when the base moves just so that momentum, by MuJoCo's account, is zero."""
    for index in block:
        robot = member(index)
        state, rng = member_state(index, 5)
        rates = rng.normal(size=robot.n)
        mass = brute_force.mass_matrix(robot, state.joints)
        base = -np.linalg.solve(mass[:6, :6], mass[:6, 6:] @ rates)
        floating = type(state)(state.position, state.quaternion, state.joints, np.concatenate([base, rates]))
        mujoco_robot = mujoco_at(robot, floating)
        scale = np.abs(mass[:6] @ np.abs(floating.velocity)).max()
        assert np.abs(mujoco_robot.momentum(state.position)).max() < 1e-12 * scale
        got = Symbolic(robot, "generalized_jacobian")(floating)
        for frame in robot.frames:
            assert got[f"{frame.name}.generalized_jacobian"].shape == (6, robot.n)
            twist = mujoco_robot.frame_jacobian(frame.name) @ floating.velocity
            # Relative to the largest twist that these rates could give: a frame near the mass centre hardly moves.
            reach = np.abs(mujoco_robot.frame_jacobian(frame.name)) @ np.abs(floating.velocity)
            gap = np.abs(got[f"{frame.name}.generalized_jacobian"] @ rates - twist).max()
            assert gap < TOLERANCE * reach.max(), f"robot {index}, {frame.name}"
