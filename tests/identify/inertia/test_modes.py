"""Inertias with modes: records by MuJoCo, in which a panel is a hinge and fuel is a slide, both on springs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia import Prior, identify
from spacearm.identify.inertia._base_motion import ModeErrors, MotionInputs
from spacearm.identify.inertia._modal_motion import ModalMotion
from spacearm.identify.inertia._record_prediction import displace_state
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.readings import attitude_difference
from spacearm.model import load
from spacearm.result import Result
from spacearm.study import run_scenario
from spacearm.typing import Array
from support.modal_servicer import FUEL_MODE, PANEL_MODE, modal_record, modal_robot
from support.panel_record import CHANNELS, DAMPING, FIRINGS, FREQUENCY, HELD, SD, WORLD, write_files
from support.servicer import ROBOT, measured, servicer_motion


def _errors_between(one: Array, other: Array) -> Array:
    turned = attitude_difference(one[:, 3:7], other[:, 3:7])
    return np.concatenate([other[:, :3] - one[:, :3], turned, other[:, 7:] - one[:, 7:]], axis=1)


def test_derivatives_are_those_of_the_motion() -> None:
    """By start, inertias, thrust, modes and the joints' readings, against differences of the integrated motion."""
    robot, count = modal_robot(), 20
    times = 0.04 * np.arange(count)
    joints, rates = np.zeros((count, robot.n)), np.zeros((count, robot.n))
    joints[:, :2] = 0.4 * np.sin(times)[:, None] * [1.0, -0.7]
    rates[:, :2] = 0.4 * np.cos(times)[:, None] * [1.0, -0.7]
    wrench = np.zeros((1, 2, 6))
    wrench[0, 0] = [10.0, 0.0, 3.0, 1.0, 2.0, -1.0]
    inputs = MotionInputs(times, joints, rates, np.array([0.0, 0.4, times[-1]]), wrench)
    motion, inertia = ModalMotion(robot, inputs), robot.inertia_parameters.ravel()
    start = np.array([0.1, 0.2, 0.0, 1.0, 0, 0, 0, 0.1, 0.2, -0.1, 0.5, 0.2, 0.3, 0.01, 0.02, 0.02, 0.1])
    directions = np.diag(typical_sizes(robot))[:, [0, 2, 7, 20, 21, 26, *np.flatnonzero(inertia)[-1:]]]
    moved = motion.linearise(start, inertia, directions, np.ones(1), None, ModeErrors(np.zeros(2), np.zeros(2)))
    size, d = 16, directions.shape[1]
    found = np.zeros((count, size, size + moved.forced.shape[2]))
    found[0, :, :size] = np.eye(size)
    for k in range(count - 1):
        found[k + 1] = moved.across[k] @ found[k]
        found[k + 1, :, size:] += moved.forced[k]

    def run(x: Array | float = 0.0, y: Array | float = 0.0, thrust: float = 0.0, modes: Array | float = 0.0) -> Array:
        shares, ratios = np.split(modes + np.zeros(4), 2)
        begin = displace_state(start, x + np.zeros(size))
        states = motion.run(begin, inertia + y, 1.0 + thrust, ModeErrors(shares, ratios))
        return states[motion.at_samples]

    h = 1e-5
    cases = [(k, {"x": h * np.eye(size)[k]}) for k in range(size)]
    cases += [(size + k, {"y": h * directions[:, k]}) for k in range(d)]
    cases += [(size + d, {"thrust": h}), *((size + d + 1 + k, {"modes": h * np.eye(4)[k]}) for k in range(4))]
    for column, step in cases:
        back = {name: -value for name, value in step.items()}
        by = _errors_between(run(**back), run(**step)) / (2.0 * h)
        # What is left is of the four derivatives' steps in a radian of the fastest mode.
        np.testing.assert_allclose(found[:, :, column], by, atol=1e-3 * np.abs(by).max())


def test_two_modes_while_the_arm_moves() -> None:
    """All ten numbers of a held body, frequencies and damping ratios of a panel and of fuel, both a little off."""
    robot = modal_robot((5.5, 0.006), (0.31, 0.03))
    prior = Prior.from_known_bodies(robot, [name for name in robot.body_names if name != "held"])
    found = identify(
        robot,
        [modal_record(1).select_samples(slice(0, 301))],
        prior=prior,
        estimate={"mode_frequency": 0.05, "mode_damping": 0.02},
    )
    assert found.certificate().sound
    truth = ROBOT.inertia_parameters[ROBOT.body_index("held")]
    far = (found.estimate.values[:10] - truth) / found.estimate.std[:10]
    for mode, (frequency, damping) in zip(found.modes, (PANEL_MODE, FUEL_MODE), strict=True):
        far = np.append(far, (mode.frequency - frequency) / mode.frequency_std)
        far = np.append(far, (mode.damping - damping) / mode.damping_std)
    assert np.max(np.abs(far)) < 3.5, far
    assert found.estimate.std[0] < 0.02
    panel, fuel = found.modes
    assert panel.frequency_std < 0.03
    assert fuel.frequency_std < 2e-4


SCENARIO = f"""
study = "inertia-identification"
robot = "ROBOT"
[sensors]
channels = ["position", "attitude", "velocity", "rate", "joint_position"]
[[sensor]]
kind = "base_position"
noise = {SD["position"]}
[[sensor]]
kind = "star_tracker"
noise = {SD["attitude"]}
[[sensor]]
kind = "base_velocity"
noise = {SD["velocity"]}
[[sensor]]
kind = "gyro"
noise = {SD["rate"]}
[[sensor]]
kind = "encoder"
noise = 1e-5
[measurements]
file = "orbit.csv"
time = {{ column = "time" }}
thruster = [{", ".join(f'{{ name = "jet{k}", on = [[{s}, {s + d}]] }}' for k, (s, d, _, _) in enumerate(FIRINGS))}]
[measurements.columns]
position = {{ column = {list(CHANNELS["position"])} }}
attitude = {{ column = {list(CHANNELS["attitude"])} }}
velocity = {{ column = {list(WORLD)} }}
rate = {{ column = {list(CHANNELS["rate"])} }}
joint_position = {{ column = "wrist" }}
[estimate]
unknown_bodies = ["held"]
[nominal]
sd = 0.0
thrust = 0.0
thrusters = 0.0
thrust_direction = 0.0
encoder_offset = 0.0
mount = 0.0
"""


def test_a_panel_in_a_scenario(tmp_path: Path) -> None:
    """2 kg at 6 Hz, frequency and damping a little off: right with the mode, far off and not sound without it."""
    write_files(tmp_path, 0)
    with_mode = SCENARIO.replace("ROBOT", "servicer.toml").replace(
        'unknown_bodies = ["held"]',
        'unknown_bodies = ["held"]\nnuisances = { mode_frequency = 0.02, mode_damping = 0.01 }\nwrite = "found.toml"',
    )
    truth = {"mass": HELD[0], **dict(zip(("cx", "cy", "cz"), HELD[1], strict=True))}
    found = _run(tmp_path, with_mode)
    rows = {row.quantity: row for row in found.rows}
    assert found.sound
    for name, value in truth.items():
        assert abs(rows[f"held.{name}"].value - value) < 3.5 * _deviation(rows[f"held.{name}"].note)
    for name, value in (("frequency", FREQUENCY), ("damping", DAMPING)):
        row = rows[f"mode.panel.mode1.{name}"]
        assert abs(row.value - value) < 3.5 * _deviation(row.note)
    assert _deviation(rows["mode.panel.mode1.frequency"].note) < 1e-3
    (tmp_path / "found.toml").write_text(found.files["found.toml"])
    joint = load(tmp_path / "found.toml").joint("panel.mode1")
    assert joint.spring is not None
    moved = load(tmp_path / "servicer.toml").body("panel.mode1").inertia.mass
    speed = 2.0 * np.pi * rows["mode.panel.mode1.frequency"].value
    assert joint.spring.stiffness == pytest.approx(moved * speed**2, rel=1e-9)
    assert joint.damping == pytest.approx(2.0 * rows["mode.panel.mode1.damping"].value * moved * speed, rel=1e-9)
    # Nothing is known of the panel: its mass is taken for the held body's, and the residuals ring.
    text = (tmp_path / "servicer.toml").read_text()
    bare = text[: text.index("[[appendage]]")] + text[text.index("[[thruster]]") :]
    (tmp_path / "bare.toml").write_text(bare)
    found = _run(tmp_path, SCENARIO.replace("ROBOT", "bare.toml"))
    rows = {row.quantity: row for row in found.rows}
    assert not found.sound
    assert abs(rows["held.mass"].value - HELD[0]) > 20.0 * _deviation(rows["held.mass"].note)
    # Its mass is known and it is taken as rigid.
    rigid = '{ file = "servicer.toml", freeze = { "panel.mode1" = 0.0 } }'
    found = _run(tmp_path, SCENARIO.replace('"ROBOT"', rigid))
    assert not found.sound
    assert "6.2 Hz" in str(found.summary)


def _run(folder: Path, text: str) -> Result:
    (folder / "scenario.toml").write_text(text)
    return run_scenario(folder / "scenario.toml")


def _deviation(note: str) -> float:
    found = re.search(r"(?:standard deviation|\+-) ([0-9.e+-]+)", note)
    assert found is not None, note
    return float(found[1])


def test_modes_of_a_robot_without_any() -> None:
    with pytest.raises(InputError, match=r"estimate.*no record can show 'mode_frequency'.*'servicer' has no modes"):
        identify(ROBOT, [measured(servicer_motion(), 1)], estimate=["mode_frequency"])
