"""Control laws in scenario files."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest

from spacearm import Mechanics
from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.simulate import State
from spacearm.study.scenario import run_document
from support import ROOT

EXAMPLE = ROOT / "examples" / "servo.toml"
PATH = {"kind": "spline", "times": [0.0, 1.0], "values": [0.0, 1.0]}


def document() -> dict[str, Any]:
    return tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))


def test_the_example_stops_the_tumble_and_moves_the_arm() -> None:
    result = run_document(document(), folder=EXAMPLE.parent)
    rows = {row.quantity: row.value for row in result.rows}
    assert result.certificate.sound
    robot = catalogue.load("xu2017")
    start = State.moving(robot, "normal", base_angular_velocity=np.deg2rad([1.0, -2.0, 3.0]))
    momentum = Mechanics(robot).momentum(start.joints, start.velocity, base=start.pose, about="com")[3:]
    # One newton metre takes the angular momentum away in so many seconds; the servo lasts ten.
    assert rows["end.time"] == pytest.approx(np.linalg.norm(momentum) + 10.0, abs=1e-6)
    assert np.rad2deg(rows["end.joint.joint2"]) == pytest.approx(50.0, abs=0.01)
    assert np.rad2deg(rows["end.joint.joint3"]) == pytest.approx(-80.0, abs=0.01)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"kind": "detumble"}, r"phase\[0\]: law\[0\]: 'torque' is missing"),
        ({"kind": "detumble", "torque": 1.0, "stiffness": 2.0}, "does not apply"),
        ({"kind": "joint_pid", "stiffness": 1.0, "damping": 1.0}, "'reference' is missing"),
        ({"kind": "attitude_by_wheels", "stiffness": 1.0, "damping": 1.0}, "wheels"),
        ({"kind": "computed_torque", "stiffness": 1.0, "damping": 1.0, "reference": {"elbow": PATH}}, "elbow"),
    ],
)
def test_what_is_wrong_with_a_law_is_told(law: dict[str, Any], message: str) -> None:
    wrong = document()
    wrong["phase"][0]["law"] = [law]
    with pytest.raises(InputError, match=message):
        run_document(wrong, folder=EXAMPLE.parent)
