"""Plans in scenario files."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest

from spacearm import Mechanics
from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.study.scenario import run_document
from support import ROOT

EXAMPLE = ROOT / "examples" / "plans.toml"
BALL = {"kind": "sphere", "radius": 5.0}


def document() -> dict[str, Any]:
    return tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))


def test_the_example_follows_its_plans() -> None:
    """Driven, the base ends as it began; the servoed hand ends where its line does, the base floating."""
    result = run_document(document(), folder=EXAMPLE.parent)
    assert result.certificate.sound
    data, robot = result.data, catalogue.load("xu2017")
    first = data.sel(time=30.0, method="nearest")
    turned = 2.0 * np.linalg.norm(first["base_quaternion"].values[1:])
    assert turned < 1e-4
    np.testing.assert_allclose(np.rad2deg(first["joint_position"].values[:3]), [30.0, 50.0, -80.0], atol=1e-6)
    ends = []
    for time in (30.0, 51.0):
        at = data.sel(time=time, method="nearest")
        base = np.concatenate([at["base_position"].values, at["base_quaternion"].values])
        ends.append(Mechanics(robot).frame_pose("hand", at["joint_position"].values, base=base)[0])
    np.testing.assert_allclose(ends[1] - ends[0], [-0.1, 0.05, 0.1], atol=1e-4)


def swing(**more: Any) -> dict[str, Any]:
    plan = {"name": "swing", "kind": "point_to_point", "duration": 5.0, "joints_deg": {"joint2": 60.0}, **more}
    phase = {"duration": 5.0, "plan": "swing"}
    start = {"configuration": "normal"}
    return {"robot": "xu2017", "start": start, "plan": [plan], "phase": [phase], "sample": 0.5}


def test_a_plan_gives_up_its_locked_joints_and_its_duration_may_be_shorter() -> None:
    given = swing()
    given["phase"][0] |= {"duration": 7.0, "locked": ["joint1"]}
    rows = {row.quantity: row.value for row in run_document(given, folder=EXAMPLE.parent).rows}
    assert rows["end.joint.joint2"] == pytest.approx(np.deg2rad(60.0), abs=1e-12)
    assert rows["plan.swing.duration"] == 5.0


@pytest.mark.parametrize(
    ("plan", "phase", "message"),
    [
        ({"kind": "hand_line"}, {}, r"'joints_deg' does not apply to kind = 'hand_line'"),
        ({"after": "nothing"}, {}, r"plan\[0\] 'swing': after: .*nothing"),
        ({}, {"plan": "sving"}, r"phase\[0\]: plan: .*'sving'.*swing"),
        ({}, {"duration": 2.0}, r"phase\[0\]: duration: lasts 2 s, plan 'swing' 5 s"),
        ({"duration": None}, {}, r"plan\[0\] 'swing': .*shortest duration"),
        (
            {"clearance": [{"first": {"frame": "hand"} | BALL, "second": BALL, "minimum_gap": 0.1}]},
            {},
            r"plan\[0\] 'swing': clearance\[0\]: plan: 'hand' and 'sphere' come within -\d.* m at \d.* s",
        ),
    ],
)
def test_what_is_wrong_with_a_plan_is_told(plan: dict[str, Any], phase: dict[str, Any], message: str) -> None:
    wrong = swing(**plan)
    wrong["plan"][0] = {key: value for key, value in wrong["plan"][0].items() if value is not None}
    wrong["phase"][0] |= phase
    with pytest.raises(InputError, match=message):
        run_document(wrong, folder=EXAMPLE.parent)


LINE = {"name": "line", "kind": "hand_line", "duration": 10.0, "frame": "hand", "displacement": [-0.1, 0.05, 0.1]}
HAND = {"frame": "hand", "plan": "line", "period": 0.02}


@pytest.mark.parametrize(
    "law",
    [
        {"kind": "resolved_acceleration", "stiffness": 4.0, "damping": 4.0},
        {"kind": "resolved_rate", "gain": 4.0, "rate_gain": 20.0},
        {"kind": "impedance", "mass": 20.0, "stiffness": 80.0, "damping": 80.0},
    ],
)
def test_laws_at_the_hand_follow_a_plan(law: dict[str, Any]) -> None:
    """A line of the hand, and where a plan of the joints takes it: both end there, though the base floats."""
    swing_plan = {"name": "swing", "kind": "point_to_point", "duration": 10.0, "joints_deg": {"joint2": 50.0}}
    robot, ends = catalogue.load("xu2017"), {}
    for name, plan in (("line", LINE), ("swing", swing_plan)):
        given = {"robot": "xu2017", "start": {"configuration": "normal"}, "plan": [plan], "sample": 1.0}
        for way in ("servoed", "driven"):
            phase = {"law": [HAND | law | {"plan": name}]} if way == "servoed" else {"plan": name}
            result = run_document(given | {"phase": [{"duration": 12.0, "limits": "ignore"} | phase]}, folder=ROOT)
            assert result.certificate.sound
            at = result.data.isel(time=-1)
            base = np.concatenate([at["base_position"].values, at["base_quaternion"].values])
            ends[name, way] = np.concatenate(
                [each.ravel() for each in Mechanics(robot).frame_pose("hand", at["joint_position"].values, base=base)]
            )
        np.testing.assert_allclose(ends[name, "servoed"], ends[name, "driven"], atol=3e-4)
    first = Mechanics(robot).frame_pose("hand", robot.configurations["normal"])[0]
    np.testing.assert_allclose(ends["line", "servoed"][:3] - first, LINE["displacement"], atol=3e-4)
    assert np.linalg.norm(ends["swing", "servoed"][:3] - first) > 0.1


def test_what_is_wrong_with_a_hand_law_of_a_plan_is_told() -> None:
    gains = {"kind": "resolved_acceleration", "stiffness": 4.0, "damping": 4.0}
    for law, message in (
        (HAND | gains | {"plan": "lime"}, r"phase\[0\]: law\[0\]: plan: .*'lime'.*line"),
        (HAND | gains | {"frame": "claw"}, r"phase\[0\]: law\[0\]: .*'claw'"),
        ({"plan": "line"} | gains, r"phase\[0\]: law\[0\]: 'frame' is missing"),
    ):
        given = {"robot": "xu2017", "start": {"configuration": "normal"}, "plan": [LINE]}
        with pytest.raises(InputError, match=message):
            run_document(given | {"phase": [{"duration": 10.0, "law": [law]}]}, folder=ROOT)
