"""Joint axes that are almost, but not quite, along a coordinate axis: one tilt in rotation and subspace alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacearm.model import Robot
from spacearm.simulate import State, simulate
from support.pinocchio_reference import PinocchioReference
from support.population import difference
from support.random_robots import random_robot, random_state
from support.symbolic import Symbolic

TILTS = [
    10.0**exponent for exponent in (-17, -16, -15, -14, -13, -12, -11, -10, -9, -8.5, -8, -7.5, -7.3, -7, -6.5, -6)
]


def tilted(robot: Robot, tilt: float, rng: np.random.Generator) -> Robot:
    """Every axis turned by ``tilt`` (rad) in a random direction across it."""

    def turned(axis: np.ndarray) -> np.ndarray:
        across = np.cross(axis, rng.normal(size=3))
        found = axis + tilt * across / np.linalg.norm(across)
        return np.asarray(found / np.linalg.norm(found))

    return robot.replace(joints=tuple(replace(joint, axis=turned(joint.axis)) for joint in robot.joints))


@pytest.mark.parametrize("tilt", TILTS)
def test_mechanics_of_tilted_axes_are_pinocchio_s(tilt: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng([seed, 5])
        robot = tilted(random_robot(seed, 6, geometry="aligned", rotors=0.3), tilt, rng)
        ours = Symbolic(robot, "mass_matrix", "bias", "acceleration", "momentum_at_origin", "jacobian")
        theirs = PinocchioReference(robot)
        for _ in range(5):
            state, force = random_state(robot, rng), rng.normal(size=robot.dofs)
            got = ours(state, force=force)
            assert difference(got["mass_matrix"], theirs.mass_matrix(state)) < 1e-12
            assert difference(got["bias"], theirs.bias(state)) < 1e-12
            assert difference(got["acceleration"], theirs.forward_dynamics(state, force)) < 1e-12
            assert difference(got["momentum_at_origin"], theirs.momentum(state, np.zeros(3))) < 1e-12
            for frame in robot.frames:
                jacobian = theirs.frame_jacobian(state, frame.name)
                assert difference(got[f"{frame.name}.jacobian"], jacobian) < 1e-12


@pytest.mark.parametrize("tilt", [1e-9, 1e-8, 4e-8, 1e-7, 1e-6])
def test_a_run_with_tilted_axes_keeps_momentum_and_energy(tilt: float) -> None:
    rng = np.random.default_rng(7)
    robot = tilted(random_robot(1, 5, geometry="aligned", prismatic=0.0), tilt, rng)
    state = random_state(robot, rng)
    run = simulate(robot, State(state.position, state.quaternion, state.joints, state.velocity), 5.0)
    assert run.sound, str(run.certificate)
