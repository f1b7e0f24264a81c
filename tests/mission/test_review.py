"""Requirements with their margins, budgets and assumptions of a mission."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.support.missions import SHORT, flown, rows

from spacearm.errors import InputError
from spacearm.mission._finish import DecideTable
from spacearm.mission._limits import Use, judge_uses
from spacearm.mission._outcomes import StageOutcome
from spacearm.mission._review import draw_table, list_assumptions, list_requirements, review_figures
from spacearm.mission.scenario import MissionFindings
from spacearm.result import Limit


def decided(**changes: Any) -> MissionFindings:
    """The example up to the decision."""
    return flown(**SHORT | {"decide": {}, "settle__rate_deg": 0.5}, **changes)


def test_each_limit_is_one_requirement_where_it_was_nearest() -> None:
    near, far = Limit("rate limit", 0.9, 1.0, what="joint2"), Limit("rate limit", 0.1, 1.0, what="joint1")
    power, broken = Limit("power", 50.0, 100.0, "W"), Limit("clearance lost", 0.05, 0.1, "m", least=True)
    outcomes = [StageOutcome("approach", 0.0, 1.0, [far, power]), StageOutcome("catch", 1.0, 2.0, [near, broken])]
    found = list_requirements(outcomes, DecideTable(margin=0.05, margins={"power": 0.6}))
    notes = [(each.stage, each.limit.what or each.limit.name, each.policy, each.judge(0.0, ())) for each in found]
    assert notes == [
        ("catch", "clearance lost", 0.05, "broken"),
        ("approach", "power", 0.6, "margin too small"),
        ("catch", "joint2", 0.05, "met"),
    ]
    last = found[-1]
    # 0.9 and a twentieth of it are 0.945: a margin of 5.5 %, but with a tenth it is 1 %.
    assert [last.judge(doubt, ()) for doubt in (0.05, 0.1)] == ["met", "in doubt"]
    assert [last.judge(0.05, [{"rate limit": least}, {}]) for least in (0.05, 0.04)] == ["met", "in doubt"]


def test_one_unit_for_each_quantity_on_the_page() -> None:
    """Angles in degrees, wheels in rpm, joints by the room to the nearer stop; numbers of limits stay SI."""
    stop = Use("joint4", "rad", np.pi / 2.0, np.array([1.0, 2.0]), np.radians([20.0, 78.0]), kind="stop")
    (joint,) = judge_uses("range limit", [stop])
    wheel = Limit("wheel saturated", 210.0, 200.0, "rad/s", "wheel_x", time=3.0, kind="wheel")
    rate, slide = (Limit("base rate", np.radians(2.0), np.radians(5.0), "rad/s"),
                   Limit("travel exceeded", 0.052, 0.05, "m", "slide", kind="stop"))  # fmt: skip
    assert joint.words == "range limit of joint4: 12 deg from its stop at 2 s"
    assert wheel.words == "wheel saturated of wheel_x: 2005 rpm, at most 1910 at 3 s"
    assert rate.words == "base rate: 2 deg/s, at most 5"
    assert slide.words == "travel exceeded of slide: 2 mm beyond its stop"
    assert joint.margin == pytest.approx(12.0 / 90.0)
    for limit in (joint, wheel, rate, slide):
        assert Limit.from_json(json.loads(json.dumps(limit.to_json()))) == limit


def test_a_page_of_a_mission_has_no_radians() -> None:
    mission = decided(decide__margin=0.1)
    for limit in mission.limits():
        assert "rad" not in limit.page_values[2]
        assert "rad" not in limit.words
    (figure,) = [each for each in review_figures(mission.requirements, mission.flight) if each.name == "requirements"]
    cells = figure.plot.data[0].cells.values
    at = [*cells[0]].index("range limit")
    # The joint's own range in the robot's file, and where it came nearest to one of its ends.
    joint = mission.flight.actuators.robot.joint(cells[1][at])
    outcome = next(each for each in mission.outcomes if each.stage == cells[2][at])
    times = mission.data()["time"].values
    went = (
        mission.data()["joint_position"].sel(joint=joint.name).values[(times >= outcome.begin) & (times <= outcome.end)]
    )
    room = np.degrees(min(joint.limits.upper - went.max(), went.min() - joint.limits.lower))
    assert cells[3][at].endswith(" deg")
    assert float(cells[3][at].split()[0]) == pytest.approx(room, rel=1e-3)
    assert cells[4][at] == "at least 0"


def test_tables_are_high_enough_for_a_printed_page() -> None:
    """600 px hold some 80 characters: six columns of 40 need three lines or more, of 17 px each."""
    head = [f"c{k}" for k in range(6)]
    short, long = (
        draw_table(head, [[text] * 10] * 6).layout.height for text in ("word", "four words are " * 2 + "forty long")
    )
    assert long >= short + 10 * 2 * 17
    widths = draw_table(["a", "b"], [["x"], ["a longer text"]]).data[0].columnwidth
    assert widths[1] > 2 * widths[0]


def test_a_word_fits_into_its_column_however_much_the_others_hold() -> None:
    """On 600 px: a character of 7.5 px, and 18 px around the text."""
    widths = draw_table(["margin", *"abcd"], [["7 %"], *([["some words " * 3]] * 4)]).data[0].columnwidth
    assert 600.0 * widths[0] / sum(widths) >= 6 * 7.5 + 18.0 - 1e-9


def test_a_policy_decides() -> None:
    """The rate limit is kept with a fifth left: a policy of half is not met, one of a tenth is."""
    kept = decided(decide__margins={"rate limit": 0.1})
    assert kept.is_successful
    refused = decided(decide__margins={"rate limit": 0.5})
    assert not refused.is_successful
    last = refused.outcomes[-1]
    assert (last.stage, last.binding_limit.name) == ("decide", "margin too small")
    assert last.binding_limit.what == "approach: rate limit"
    with pytest.raises(InputError, match=r"decide\.margins: 'speed limit' is not a limit of this mission"):
        decided(decide__margins={"speed limit": 0.5})


def test_the_budget_is_that_of_momentum() -> None:
    """No thruster fires: the momentum of all is the same after the catch, after settling and after detumbling."""
    mission = decided(detumble__actuator="wheels")
    found = rows(mission)
    after = [found[f"budget.{stage}.momentum"] for stage in ("catch", "settle", "detumble")]
    np.testing.assert_allclose(after, found["detumble.momentum"], rtol=1e-8)
    assert found["budget.approach.momentum"] < 1e-6
    assert found["budget.detumble.wheels"] == pytest.approx(found["detumble.stored"], rel=1e-9)
    assert found["budget.detumble.propellant"] == 0.0
    assert {figure.name for figure in review_figures(mission.requirements, mission.flight)} == {
        "requirements", "budget", "assumptions"
    }  # fmt: skip
    assert "Without a limit: impulse, time." in list_assumptions(mission.flight)
