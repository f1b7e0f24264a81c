"""Joint angles from markers, against a closed form of the plane."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model.toml_read import parse_toml, robot_from_tables
from spacearm.simulate import State, World
from spacearm.validation._markers import solve_joints
from spacearm.validation._measured_motion import MeasuredMotion
from spacearm.validation.comparison import Readings

ROBOT = """base = "planar"
[robot]
name = "table"
[[body]]
name = "hull"
mass = 10.0
inertia = [0.2, 0.2, 0.2]
[[body]]
name = "upper"
mass = 0.3
inertia = [0.01, 0.01, 0.01]
[[body]]
name = "lower"
mass = 0.3
inertia = [0.01, 0.01, 0.01]
[[joint]]
name = "shoulder"
kind = "revolute"
parent = "hull"
child = "upper"
origin = { xyz = [0.2, -0.1, 0.0] }
axis = [0.0, 0.0, 1.0]
[[joint]]
name = "elbow"
kind = "revolute"
parent = "upper"
child = "lower"
origin = { xyz = [0.3, 0.0, 0.0] }
axis = [0.0, 0.0, 1.0]
[[frame]]
name = "led1"
body = "upper"
origin = { xyz = [0.25, 0.02, 0.0] }
[[frame]]
name = "led2"
body = "lower"
origin = { xyz = [0.28, 0.0, 0.0] }
"""


def test_angles_from_two_markers_are_those_that_moved_them() -> None:
    """The base turns and drifts, the arm swings; a marker is hidden at some times."""
    times = np.arange(0.0, 5.0, 0.1)
    place, yaw = 1.0 + 0.02 * times + 1j * (2.0 - 0.01 * times), 3.0 + 0.1 * times
    shoulder, elbow = 1.5 - 0.5 * times, 1.0 + 0.3 * np.sin(times)
    root = place + (0.2 - 0.1j) * np.exp(1j * yaw)
    upper, lower = np.exp(1j * (yaw + shoulder)), np.exp(1j * (yaw + shoulder + elbow))
    first, second = root + (0.25 + 0.02j) * upper, root + 0.3 * upper + 0.28 * lower
    markers = {"led1": np.stack([first.real, first.imag], axis=1), "led2": np.stack([second.real, second.imag], axis=1)}
    markers["led2"][10:13] = np.nan
    robot = robot_from_tables(parse_toml(ROBOT))
    world = World({"table": robot})
    start = State(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.4, 1.1]), np.zeros(8))
    channels = {"base_x": place.real, "base_y": place.imag, "base_yaw": yaw}
    readings = {name: Readings("", times, np.asarray(values), 1e-4) for name, values in channels.items()}
    motion = MeasuredMotion(world, {"table": start}, readings, {})
    clock, found, left = solve_joints(motion, ["shoulder", "elbow"], times, markers)
    there = np.delete(np.arange(times.size), [10, 11, 12])
    np.testing.assert_array_equal(clock, times[there])
    np.testing.assert_allclose(found, np.stack([shoulder, elbow], axis=1)[there], rtol=0.0, atol=1e-9)
    assert left < 1e-10
    with pytest.raises(InputError, match="2 coordinates of markers for 3 joints"):
        solve_joints(motion, ["shoulder", "elbow", "elbow"], times, {"led1": markers["led1"]})
    blind = MeasuredMotion(world, {"table": start}, {}, {})
    with pytest.raises(InputError, match="base's measured place"):
        solve_joints(blind, ["shoulder"], times, markers)
