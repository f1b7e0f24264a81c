"""Scenario files with constrained bases, drag, and a grasp that slips before it is locked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from spacearm.errors import InputError
from spacearm.result import Result
from spacearm.study import run_scenario
from support.planar_capture import CHASER

CAPTURE = """robot = "chaser.toml"
base = "planar"
gravity = [0.0, 0.0, -9.81]
[latch]
guest = "target"
frame = "gripper"
at = "target/port"
distance = 0.01
pin = { friction = 0.02, lock = "held" }
[[system]]
name = "target"
base = "planar"
body = { mass = 12.0, inertia = [0.2, 0.2, 0.2], com = [0.0, 0.0, 0.1] }
frame = [{ name = "port", position = [-0.15, 0.0, 0.0] }]
start = { position = [0.55, 0.0, 0.0], velocity = [-0.05, 0.0, 0.0], angular_velocity = [0.0, 0.0, 0.02] }
[[phase]]
name = "approach"
duration = 30.0
[[phase]]
name = "pinned"
duration = 0.1
[[phase]]
name = "held"
duration = 2.0
"""


def run(text: str, folder: Path, robot: str = CHASER, **options: bool) -> Result:
    (folder / "chaser.toml").write_text(robot)
    (folder / "case.toml").write_text(text)
    return run_scenario(folder / "case.toml", **options)


def test_a_capture_on_a_table_that_slips_and_is_locked(tmp_path: Path) -> None:
    """The velocity of the common mass centre stays, from the file's numbers alone."""
    result = run(CAPTURE, tmp_path)
    assert result.sound
    assert result.data is not None
    assert "target.pin" in result.data["joint"].values
    assert result.data["joint_velocity"].values[-1] == 0.0
    # When the port comes within 10 mm of the gripper, which rests until then; where the target is in it from then on.
    caught = brentq(lambda t: np.hypot(0.25 - 0.05 * t - 0.15 * np.cos(0.02 * t), 0.15 * np.sin(0.02 * t)) - 0.01, 0, 2)
    offset = 0.25 - 0.05 * caught
    yaw = 2.0 * np.arctan2(*result.data["base_quaternion"].values[-1, [3, 0]])
    turned = yaw + float(result.data["joint_position"].values[-1, 0])
    velocity, rate = result.data["base_velocity"].values[-1], result.data["base_angular_velocity"].values[-1, 2]
    target = 0.3 * np.array([np.cos(yaw), np.sin(yaw)]) + offset * np.array([np.cos(turned), np.sin(turned)])
    centre = 12.0 / 28.0 * target
    moving = velocity[:2] + rate * np.array([-centre[1], centre[0]])
    assert moving == pytest.approx([-0.05 * 12.0 / 28.0, 0.0], abs=1e-9)
    assert result.data["base_position"].values[-1, 2] == 0.0


def test_a_rail_in_a_robot_file_and_drag_in_the_scenario(tmp_path: Path) -> None:
    text = """robot = "chaser.toml"
drag = [{ frame = "hull", linear = 4.0 }]
start = { velocity = [0.5, 0.0, 0.0] }
[[phase]]
duration = 3.0
"""
    result = run(text, tmp_path, CHASER + '[base]\nkind = "rail"\naxis = [1, 0, 0]\n', cross_check=True)
    assert result.sound
    assert result.data is not None
    assert result.data["base_velocity"].values[-1] == pytest.approx([0.5 * np.exp(-4.0 * 3.0 / 16.0), 0.0, 0.0])


def test_faults_are_told_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"case.toml: base.*oblique"):
        run(
            'robot = "chaser.toml"\nbase = { kind = "planar", axis = [0.6, 0.8, 0] }\n[[phase]]\nduration = 1', tmp_path
        )
    with pytest.raises(InputError, match=r"base\.kind"):
        run('robot = "chaser.toml"\nbase = "plane"\n[[phase]]\nduration = 1', tmp_path)
    with pytest.raises(InputError, match="base_vz"):
        run(CAPTURE.replace("velocity = [-0.05, 0.0, 0.0]", "velocity = [-0.05, 0.0, 0.1]"), tmp_path)
    with pytest.raises(InputError, match=r"pin\.lock"):
        run(CAPTURE.replace('lock = "held"', 'lock = "hold"'), tmp_path)
