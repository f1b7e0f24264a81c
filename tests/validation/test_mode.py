"""Frequency and damping of a mode from a record in several files: data by SciPy, an oscillator on a root that turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.io import savemat

from spacearm.errors import InputError
from spacearm.study import run_scenario
from spacearm.typing import Array

FREQUENCY, DAMPING, PLACE, MASS = 3.4, 0.02, 0.55, 0.01  # Hz, ratio to the critical one, m, kg
RATE = 250.0
ROBOT = """[robot]
name = "link"
[[body]]
name = "table"
mass = 5.0
inertia = [0.05, 0.05, 0.05]
[[body]]
name = "hub"
mass = 0.1
inertia = [0.002, 0.002, 0.002]
[[joint]]
name = "servo"
kind = "revolute"
parent = "table"
child = "hub"
[[appendage]]
name = "link"
body = "hub"
mass = 0.065
com = [0.2095, 0.0, 0.0]
inertia = [1e-5, 9.6e-4, 9.51e-4]
mode = [{ frequency = 3.3, damping = 0.015, translation = [0.0, 0.1, 0.0], rotation = [0.0, 0.0, 0.055] }]
"""
SCENARIO = """study = "validation"
robot = "link.toml"
base = "held"
file = "tip.mat"
time = { rate = 250.0 }
fit = 2.0
relax = false
start = { joints = { servo = 0.0 } }
[[phase]]
duration = 3.98
[[input]]
to = "driven.servo"
file = "servo.mat"
column = "theta"
[[channel]]
quantity = "link.mode1"
column = "tip"
sd = 1e-4
[[channel]]
quantity = "servo"
file = "servo.mat"
column = "theta"
sd = 1e-4
[[uncertain]]
key = "robot.joint[link.mode1].spring.stiffness"
sd = 0.6
[[uncertain]]
key = "robot.joint[link.mode1].damping"
sd = 0.003
"""


def write_files(folder: Path) -> None:
    times = np.arange(1000) / RATE
    omega = 2.0 * np.pi * FREQUENCY

    def path(t: float, order: int) -> float:
        """A servo that goes to and fro, smoothly from rest."""
        u, w = t * t / (0.1 + t * t), 2.0 * np.pi * 0.7
        du = 0.2 * t / (0.1 + t * t) ** 2
        ddu = (0.2 * (0.1 + t * t) - 0.8 * t * t) / (0.1 + t * t) ** 3
        s, c = np.sin(w * t), np.cos(w * t)
        return float(0.5 * (u * s if order == 0 else ddu * s + 2.0 * du * w * c - u * w * w * s))

    def slope(t: float, y: Array) -> list[float]:
        # The root's own rotation softens the mode by the centrifugal force, to second order: in the truth as well.
        high, low = path(t + 1e-5, 0), path(t - 1e-5, 0)
        turning = (high - low) / 2e-5
        pull = -(omega**2 - turning**2) * y[0] - 2.0 * DAMPING * omega * y[1] - PLACE * path(t, 2)
        return [y[1], pull]

    run = solve_ivp(slope, (0.0, times[-1]), [0.0, 0.0], t_eval=times, rtol=1e-9, atol=1e-12)
    rng = np.random.default_rng(4)
    theta = np.array([path(t, 0) for t in times])
    savemat(folder / "tip.mat", {"tip": run.y[0] + 1e-4 * rng.normal(size=times.size)})
    savemat(folder / "servo.mat", {"theta": theta})
    (folder / "link.toml").write_text(ROBOT)


def test_frequency_and_damping_of_a_mode_and_the_rest_of_the_record(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "lab.toml").write_text(SCENARIO)
    found = run_scenario(tmp_path / "lab.toml")
    rows = {row.quantity: row.value for row in found.rows}
    own = "uncertain.robot.joint[link.mode1]"
    stiffness, sd = rows[f"{own}.spring.stiffness.value"], rows[f"{own}.spring.stiffness.sd"]
    damping, damping_sd = rows[f"{own}.damping.value"], rows[f"{own}.damping.sd"]
    omega = 2.0 * np.pi * FREQUENCY
    assert abs(stiffness - MASS * omega**2) < 3.0 * sd
    assert abs(np.sqrt(stiffness / MASS) / omega - 1.0) < 1e-3
    assert abs(damping - 2.0 * DAMPING * omega * MASS) < 3.0 * damping_sd
    assert damping_sd < 0.02 * damping
    assert rows["channel.link.mode1.rms"] < 1.2e-4
    assert found.sound


def test_a_slip_in_a_channels_own_file_is_an_error(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "lab.toml").write_text(SCENARIO.replace('column = "theta"\nsd', 'column = "beta"\nsd'))
    with pytest.raises(InputError, match="no such column"):
        run_scenario(tmp_path / "lab.toml")
