"""spacearm against Pinocchio on 216 random robots, every quantity to 1e-10 relative; states through CasADi."""

from __future__ import annotations

import numpy as np
import pytest

from support.pinocchio_reference import PinocchioReference
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
        ours, theirs = Symbolic(robot, *QUANTITIES), PinocchioReference(robot)
        for salt in range(2):
            state, rng = member_state(index, salt)
            acceleration, force = rng.normal(size=robot.dofs), 5.0 * rng.normal(size=robot.dofs)
            wrenches = {frame.name: 3.0 * rng.normal(size=6) for frame in robot.frames}
            wrench = np.concatenate(list(wrenches.values()))
            got = ours(state, acceleration=acceleration, force=force, wrench=wrench)
            expected = {
                "mass_matrix": theirs.mass_matrix(state),
                "bias": theirs.bias(state),
                "inverse_dynamics": theirs.inverse_dynamics(state, acceleration, wrenches),
                "acceleration": theirs.forward_dynamics(state, force, wrenches),
                "momentum_at_origin": theirs.momentum(state, np.zeros(3)),
                "momentum_at_centre": theirs.momentum(state),
                "centre": theirs.mass_centre(state),
                "kinetic_energy": np.array([theirs.kinetic_energy(state)]),
            }
            for frame in robot.frames:
                expected[f"{frame.name}.jacobian"] = theirs.frame_jacobian(state, frame.name)
                expected[f"{frame.name}.rotation"] = theirs.frame_pose(state, frame.name).rotation
                expected[f"{frame.name}.origin"] = theirs.frame_pose(state, frame.name).translation
            assert expected.keys() == got.keys()
            for name, reference in expected.items():
                assert difference(got[name], reference) < TOLERANCE, f"{name} of robot {index}"


@pytest.mark.parametrize("index", range(0, 216, 9))
def test_a_big_far_away_fast_state(index: int) -> None:
    """Kilometres from the world's origin and many turns per second: relative accuracy stays."""
    robot = member(index)
    state, rng = member_state(index, 9)
    far = type(state)(1e3 * state.position, state.quaternion, 40.0 * state.joints, 50.0 * state.velocity)
    force = rng.normal(size=robot.dofs)
    theirs = PinocchioReference(robot)
    got = Symbolic(robot, "bias", "acceleration", "jacobian")(far, force=force)
    assert difference(got["bias"], theirs.bias(far)) < TOLERANCE
    assert difference(got["acceleration"], theirs.forward_dynamics(far, force)) < TOLERANCE
    for frame in robot.frames:
        reference = theirs.frame_jacobian(far, frame.name)
        assert difference(got[f"{frame.name}.jacobian"], reference) < TOLERANCE
