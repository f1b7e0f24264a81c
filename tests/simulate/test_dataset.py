"""Roll, pitch and yaw of the base in a run's dataset: the attitude itself, and without jumps."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.model import catalogue
from spacearm.model.rotations import attitude_angles
from spacearm.simulate import State, simulate


def test_angles_are_the_attitude_and_go_on_through_ninety_degrees_and_full_turns() -> None:
    angle = np.linspace(0.0, 3.0 * np.pi, 400)
    for axis in ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.2, 0.9, -0.3]):
        turns = Rotation.from_rotvec(np.outer(angle, axis / np.linalg.norm(axis)))
        found = attitude_angles(turns.as_matrix())
        again = Rotation.from_euler("ZYX", found[:, ::-1])
        assert (again * turns.inv()).magnitude().max() < 1e-12
        assert np.abs(np.diff(found, axis=0)).max() < 0.5  # no jump
    np.testing.assert_allclose(
        attitude_angles(Rotation.from_euler("y", angle[:, None]).as_matrix())[:, 1], angle, atol=1e-12
    )


def test_a_run_has_the_angles_of_its_quaternion() -> None:
    robot = catalogue.load("yoshida1992")
    start = State.from_velocities(robot, base_angular_velocity=[0.3, 0.5, -0.4])
    data = simulate(robot, start, 4.0, sample=0.1).data
    seen = Rotation.from_quat(data["base_quaternion"].values, scalar_first=True)
    notes = Rotation.from_euler("ZYX", data["base_attitude"].sel(angle=["yaw", "pitch", "roll"]).values)
    assert (notes * seen.inv()).magnitude().max() < 1e-12
    assert data["base_attitude"].attrs["units"] == "rad"
