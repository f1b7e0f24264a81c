"""An arm on a held base from the torques that were logged, against SciPy's integration of the pendulum's equation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm.errors import InputError
from spacearm.identify.ground import identify_held_arm, simulate_record
from spacearm.model import catalogue
from spacearm.result import Result
from spacearm.study import run_scenario
from spacearm.typing import Array
from spacearm.validation.comparison import Readings, compare_prediction

MASS, CENTRE, INERTIA = 0.7, 0.4, 0.02
DAMPING, OFFSET = 0.08, 0.15
ROBOT = """[robot]
name = "pendulum"
[[body]]
name = "stand"
mass = 5.0
inertia = [0.1, 0.1, 0.1]
[[body]]
name = "rod"
mass = 0.7
com = [0.0, 0.0, -0.4]
inertia = [0.02, 0.02, 0.001]
[[joint]]
name = "pivot"
kind = "revolute"
parent = "stand"
child = "rod"
axis = [1.0, 0.0, 0.0]
"""
SCENARIO = """study = "validation"
robot = "pendulum.toml"
base = "held"
gravity = [0.0, 0.0, -9.81]
file = "log.csv"
measured_start = 0.5
fit = 3.0
[[phase]]
duration = 6.0
[[input]]
to = "forces.pivot"
column = "torque"
[[channel]]
quantity = "pivot"
column = "angle"
sd = 0.002
"""
UNCERTAIN = """[[uncertain]]
key = "robot.joint[pivot].damping"
sd = 0.1
[[uncertain]]
key = "input[0].offset"
sd = 0.2
"""


def pendulum(folder: Path, scenario: str, tilt: float = 0.0) -> Result:
    """A pendulum with damping, whose torque sensor shows too little by an offset; gravity tilted along y."""
    times = np.arange(0.0, 6.01, 0.01)
    torque = 0.8 * np.sin(2.1 * times) + 0.3 * np.sin(5.0 * times)

    def rates(time: float, state: Array) -> list[float]:
        angle, rate = state
        given = float(np.interp(time, times, torque)) + OFFSET
        # Rotation about x by the angle: the mass centre is at (0, sin, -cos) times its distance.
        weight = MASS * CENTRE * (-9.81 * np.sin(angle) + tilt * np.cos(angle))
        return [rate, (given + weight - DAMPING * rate) / (INERTIA + MASS * CENTRE**2)]

    motion = solve_ivp(rates, (0.0, 6.0), [0.4, -0.2], t_eval=times, rtol=1e-10, atol=1e-12, max_step=0.01).y[0]
    read = motion + 0.002 * np.random.default_rng(7).normal(size=times.size)
    rows = "\n".join(f"{t:.3f},{q:.9f},{f:.9f}" for t, q, f in zip(times, read, torque, strict=True))
    (folder / "log.csv").write_text(f"time,angle,torque\n{rows}\n")
    (folder / "pendulum.toml").write_text(ROBOT)
    (folder / "page.toml").write_text(scenario)
    return run_scenario(folder / "page.toml")


def test_numbers_that_the_files_leave_out_are_fitted(tmp_path: Path) -> None:
    """No damping in the robot's file and no offset of the torque in the scenario: both are zero, and uncertain."""
    result = pendulum(tmp_path, SCENARIO + UNCERTAIN)
    assert result.sound, str(result.certificate)
    values = {row.quantity: row.value for row in result.rows}
    for key, true in (("robot.joint[pivot].damping", DAMPING), ("input[0].offset", OFFSET)):
        sd = values[f"uncertain.{key}.sd"]
        assert sd < 0.01
        assert abs(values[f"uncertain.{key}.value"] - true) < 3.5 * sd


def test_an_arm_on_a_tilted_stand_is_explained_by_gravity(tmp_path: Path) -> None:
    """Gravity moves joints although the base is held: a tilt of 0.6 m/s2 is found, and named first."""
    result = pendulum(tmp_path, SCENARIO + UNCERTAIN, tilt=0.6)
    assert not result.sound
    values = {row.quantity: row.value for row in result.rows}
    ranked = [name for name in values if re.fullmatch(r"relaxed\..*\.share", name)]
    assert ranked[0] == "relaxed.tilt or gravity along y.share"
    assert values["relaxed.tilt or gravity along y.value"] == pytest.approx(0.6, abs=0.1)


def test_numbers_that_no_prediction_depends_on_are_refused(tmp_path: Path) -> None:
    for key in ("channel[0].offset", "channel[0].sd", "input[0].sd", "begin", "fit", "time.offset", "clock_sd"):
        with pytest.raises(InputError, match=re.escape(key) + ".*no prediction depends on it"):
            pendulum(tmp_path, SCENARIO + f'[[uncertain]]\nkey = "{key}"\nsd = 0.1\n')
    with pytest.raises(InputError, match="no 'rotor'"):
        pendulum(tmp_path, SCENARIO + '[[uncertain]]\nkey = "robot.joint[pivot].rotor.inertia"\nsd = 0.1\n')


def test_a_fit_from_far_away_settles_where_full_steps_swing_ever_wider() -> None:
    """x = atan(u) read as 0 from a stated 3: Newton's steps diverge from anywhere beyond 1.39."""
    times = np.linspace(0.0, 1.0, 21)
    readings = {"x": Readings("m", times, np.zeros(times.size), 1e-3)}
    found = compare_prediction(lambda u: {"x": np.arctan(3.0 + u[0]) * np.ones(times.size)}, readings, 1, 0.6)
    assert 3.0 + found.deviations[0] == pytest.approx(0.0, abs=2e-3)


def test_an_effort_limit_of_zero_is_one_that_nobody_stated() -> None:
    """As exporters of drawings write it; it sized the terms of friction, and made them impossible."""
    from dataclasses import replace

    robot = catalogue.load("xu2017")
    bare = replace(robot, joints=tuple(replace(each, limits=replace(each.limits, effort=0.0)) for each in robot.joints))
    record = simulate_record(robot, "used", 5.0, noise=0.1, seed=1)
    found = [identify_held_arm(each, [record], rotors=False) for each in (robot, bare)]
    assert found[1].predictions[0].rms == pytest.approx(found[0].predictions[0].rms, rel=0.05)
