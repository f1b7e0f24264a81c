"""Regressors times inertia parameters reproduce forces and momentum to 1e-12 relative, for any parameters."""

from __future__ import annotations

import numpy as np
import pytest

from support.pinocchio_reference import PinocchioReference
from support.population import BLOCKS, difference, member, member_state
from support.symbolic import Symbolic

TOLERANCE = 1e-12
QUANTITIES = (
    "inverse_dynamics",
    "momentum_at_base",
    "dynamics_regressor",
    "dynamics_offset",
    "momentum_regressor",
    "momentum_offset",
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_population(block: range) -> None:
    for index in block:
        robot = member(index)
        ours, theirs = Symbolic(robot, *QUANTITIES), PinocchioReference(robot)
        state, rng = member_state(index, 6)
        acceleration = rng.normal(size=robot.dofs)
        got = ours(state, acceleration=acceleration)
        parameters = robot.inertia_parameters.ravel()
        force = got["dynamics_regressor"] @ parameters + got["dynamics_offset"]
        momentum = got["momentum_regressor"] @ parameters + got["momentum_offset"]
        assert difference(force, got["inverse_dynamics"]) < TOLERANCE, f"force of robot {index}"
        assert difference(force, theirs.inverse_dynamics(state, acceleration)) < TOLERANCE, f"force of robot {index}"
        assert difference(momentum, got["momentum_at_base"]) < TOLERANCE, f"momentum of robot {index}"
        # The rows of H that belong to the base, times velocity, are the same momentum.
        by_mass = theirs.mass_matrix(state)[:6] @ state.velocity
        assert difference(momentum, by_mass) < TOLERANCE, f"momentum of robot {index}"


@pytest.mark.parametrize("index", range(3, 216, 14))
def test_any_parameters_even_impossible_ones(index: int) -> None:
    """Linearity holds for numbers that no body has: an estimator passes through such."""
    robot = member(index)
    ours = Symbolic(robot, *QUANTITIES)
    state, rng = member_state(index, 7)
    acceleration = rng.normal(size=robot.dofs)
    parameters = rng.normal(size=10 * len(robot.bodies))
    got = ours(state, acceleration=acceleration, inertia=parameters)
    force = got["dynamics_regressor"] @ parameters + got["dynamics_offset"]
    momentum = got["momentum_regressor"] @ parameters + got["momentum_offset"]
    assert difference(force, got["inverse_dynamics"]) < TOLERANCE
    assert difference(momentum, got["momentum_at_base"]) < TOLERANCE


@pytest.mark.parametrize("index", range(4, 216, 24))
def test_what_rotors_add_does_not_depend_on_the_bodies(index: int) -> None:
    robot = member(index)
    assert any(joint.rotor is not None for joint in robot.joints) or robot.n < 6
    ours = Symbolic(robot, *QUANTITIES)
    state, rng = member_state(index, 8)
    acceleration = rng.normal(size=robot.dofs)
    got = ours(state, acceleration=acceleration, inertia=np.zeros(10 * len(robot.bodies)))
    assert difference(got["dynamics_offset"], got["inverse_dynamics"]) < TOLERANCE
    assert difference(got["momentum_offset"], got["momentum_at_base"]) < TOLERANCE
