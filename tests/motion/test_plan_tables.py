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
            {"clear": [{"first": {"frame": "hand"} | BALL, "second": BALL, "least": 0.1}]},
            {},
            r"plan\[0\] 'swing': clear\[0\]: plan: 'hand' and 'sphere' come within -\d.* m at \d.* s",
        ),
    ],
)
def test_what_is_wrong_with_a_plan_is_told(plan: dict[str, Any], phase: dict[str, Any], message: str) -> None:
    wrong = swing(**plan)
    wrong["plan"][0] = {key: value for key, value in wrong["plan"][0].items() if value is not None}
    wrong["phase"][0] |= phase
    with pytest.raises(InputError, match=message):
        run_document(wrong, folder=EXAMPLE.parent)
