"""A captured target by itself, weighed together with the gripper that holds it; MuJoCo moves them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.identify.inertia import Prior, extract_load, identify, write_record
from spacearm.identify.inertia.inertia_parameters import plain_of
from spacearm.model import Body, Frame, Inertia, Pose, save
from spacearm.model.edit import attach, replace_inertias
from spacearm.study import run_document
from support.servicer import NOISE, ROBOT, measured, sensor_tables, servicer_motion

TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
GRIPPER = Inertia(6.0, [0.0, 0.02, 0.1], np.diag([0.1, 0.12, 0.05]))
TARGET = Inertia(34.0, [0.03, -0.02, 0.3], np.array([[5.0, 0.3, -0.2], [0.3, 4.5, 0.1], [-0.2, 0.1, 3.5]]))
EMPTY = replace_inertias(ROBOT, {"held": GRIPPER}).replace(
    frames=(Frame("hand", "held", Pose(translation=[0, 0, 0.2])),)
)
FULL = attach(EMPTY, "hand", Body("target", TARGET), Pose(TURN, np.array([0.0, 0.05, 0.1])))
TRUTH = plain_of(TARGET.parameters)
KNOWN = Prior.from_known_bodies(FULL, ["bus", "upper"])


def test_the_target_is_told_by_itself() -> None:
    """Its frame is turned and aside; ten numbers are right within their deviations, the mass to some grams."""
    found = identify(FULL, [measured(servicer_motion(robot=FULL.replace(frames=())), 1)], prior=KNOWN)
    load = extract_load(found, "held", EMPTY, placement=FULL.frame("target").placement)
    assert np.abs((load.values - TRUTH) / load.std).max() < 4.0
    assert load.std[0] < 0.02
    assert load.is_possible
    low, high = load.interval
    assert low[0] < 34.0 < high[0]


def test_doubt_about_the_gripper_is_counted() -> None:
    """A gripper that is 3 % heavier than its file: the target's mass is off by 0.18 kg, which a doubt of 3 % covers."""
    found = identify(FULL, [measured(servicer_motion(robot=FULL.replace(frames=())), 1)], prior=KNOWN)
    light = replace_inertias(EMPTY, {"held": Inertia(6.0 / 1.03, GRIPPER.com, GRIPPER.tensor / 1.03)})
    sure, unsure = (extract_load(found, "held", light, doubt=doubt) for doubt in (0.0, 0.03))
    assert sure.values[0] - 34.0 == pytest.approx(6.0 - 6.0 / 1.03, abs=0.03)
    assert abs(sure.values[0] - 34.0) > 10.0 * sure.std[0]
    assert abs(unsure.values[0] - 34.0) < 1.5 * unsure.std[0]
    assert unsure.std[0] == pytest.approx(0.03 * 6.0 / 1.03, rel=0.02)
    heavy = replace_inertias(EMPTY, {"held": Inertia(50.0, GRIPPER.com, GRIPPER.tensor)})
    assert not extract_load(found, "held", heavy).is_possible


def test_a_scenario_reports_the_target(tmp_path: Path) -> None:
    record = measured(servicer_motion(robot=FULL.replace(frames=()), pushed=False), 2)
    save(FULL, tmp_path / "full.toml")
    save(EMPTY, tmp_path / "empty.toml")
    write_record(record, FULL, tmp_path / "orbit.csv")
    document = {
        "study": "inertia-identification",
        "robot": "full.toml",
        "estimate": {"unknown_bodies": ["held"]},
        "sensor": sensor_tables(NOISE),
        "load": {"robot": "empty.toml", "frame": "target", "doubt": 0.01},
        "measurements": {"file": "orbit.csv"},
    }
    result = run_document(document, folder=tmp_path)
    rows = {row.quantity: row for row in result.rows}
    assert rows["load.mass"].value == pytest.approx(34.0, abs=0.5)
    assert "95 %" in rows["load.mass"].note
    assert result.certificate["load"].sound
