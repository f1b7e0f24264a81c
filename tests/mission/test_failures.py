"""Every way in which a stage can fail, by name: it is made to happen, and the margin is below zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.missions import SHORT, flown, rows

from spacearm.errors import InputError
from spacearm.mission._laws import Actuators
from spacearm.mission._limits import LimitUsage, MissionLimitsTable, judge_uses
from spacearm.mission.scenario import MissionFindings
from spacearm.model import Limits, catalogue

#: A ball on the hand and a plate at the grasp, which touch 2 cm before the latch closes.
CONTACT = {
    "first": {"frame": "servicer/hand", "kind": "sphere", "radius": 0.05},
    "second": {"frame": "target/grasp", "kind": "disc", "radius": 0.2},
    "stiffness": 500.0,
}
FAST = {"target__closing_speed": 0.4, "touch__speed": 1.0, "strategy": "passive"}
SLOW = {"target__tumble_deg": [0.2, -0.3, 0.15]}
LATE = {"touch__distance": 0.042, "approach__closing_speed": 0.04}
FAILURES: dict[tuple[str, str], dict[str, Any]] = {
    ("approach", "rate limit"): {"target__tumble_deg": [6.0, -9.0, 4.5]},
    ("approach", "clearance lost"): {"clearance": 0.6},
    ("touch", "missed"): SLOW | {"touch__distance": 1e-9},
    ("touch", "contact lost"): SLOW | {"touch__contact": [CONTACT], "touch__attempts": 1},
    ("touch", "misaligned"): SLOW | {"touch__angle_deg": 1e-7},
    ("touch", "touch speed"): SLOW | {"touch__speed": 1e-9},
    ("catch", "torque limit"): {"catch__stop_time": 0.02, "catch__stiffness": 50.0, "catch__damping": 14.0},
    ("catch", "range limit"): {"catch__stop_time": 25.0, "catch__duration": 25.0},
    ("catch", "travel exceeded"): FAST,
    ("approach", "base rate"): {"limits__base_rate_deg": 1.0},
    ("catch", "base rate"): {"limits__base_rate_deg": 1.5, "strategy": "passive"},
    ("catch", "catch impulse"): {"limits__impulse": 0.05},
    ("catch", "power"): {"limits__power": 0.01, "strategy": "passive"},
    ("catch", "time"): {"limits__time": 30.0},
    ("approach", "contact force"): {"limits__contact_force": 1.0, "touch__contact": [CONTACT], **LATE},
    ("settle", "not settled"): {"catch__duration": 0.2, "catch__stop_time": 1.0, "settle__duration": 0.05},
    ("detumble", "not settled"): {"detumble__duration": 0.5},
    ("detumble", "wheel saturated"): {"detumble__actuator": "wheels", "target__inertia": [500.0, 500.0, 400.0]},
    ("detumble", "propellant out"): {"limits__propellant": 0.002, "detumble__actuator": "thrusters"},
}


@pytest.mark.parametrize(("stage", "name"), FAILURES)
def test_a_stage_fails_by_name(stage: str, name: str) -> None:
    mission = flown(**SHORT, **FAILURES[stage, name])
    notes(mission, stage, name)
    assert mission.outcomes[-1].stage == stage  # it is the last


def notes(mission: MissionFindings, stage: str, name: str) -> None:
    """The failure stands in the outcome, the rows and the headline, with its margin."""
    outcome = next(each for each in mission.outcomes if not each.success)
    assert (outcome.stage, outcome.binding_limit.name) == (stage, name)
    limit, found = outcome.binding_limit, rows(mission)
    short = limit.limit - limit.used if limit.least else limit.used - limit.limit
    assert short > 0.0
    assert outcome.margin == pytest.approx(-short / limit.limit)
    assert found[f"{stage}.margin.{name.replace(' ', '_')}"] == found[f"{stage}.margin"] == outcome.margin
    assert (found[f"{stage}.success"], found["success"]) == (0, 0.0)
    assert name in mission.headline()
    assert mission.headline().startswith("No go")
    assert mission.run.sound


@pytest.mark.parametrize(
    ("stage", "name", "changes"),
    [
        ("identify", "uncertain", {"identify__mass": 1e-4}),
        ("decide", "too heavy", {"decide__mass": 140.0}),
        ("decide", "margin too small", {"decide__margin": 0.2}),
        ("stow", "not settled", {"stow__error_deg": 1e-4}),
        ("stow", "clearance lost", {"clearance": 0.53, "decide__margin": None}),
    ],
)
def test_a_late_stage_fails_by_name(stage: str, name: str, changes: dict[str, Any]) -> None:
    mission = flown(eject=None, **changes)
    notes(mission, stage, name)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("too slow", {"eject__speed": 1.0}), ("clearance lost", {"eject__clearance": 50.0})],
)
def test_an_ejection_fails_by_name(name: str, changes: dict[str, Any]) -> None:
    """It comes after a failure; the page tells both."""
    mission = flown(identify=None, decide__mass=100.0, **changes)
    last = mission.outcomes[-1]
    assert (last.stage, last.binding_limit.name) == ("eject", name)
    assert last.margin < 0.0
    assert name in mission.headline()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("lower", "upper", "margin"),
    [
        (-2.0, 1.0, 0.5 / 1.5),
        (-1.0, np.inf, 0.7),  # one end: counted from 1 rad inside
        (-np.inf, 0.6, 0.1),
        (-0.2, np.inf, -0.1),  # and exceeded
        (-np.inf, np.inf, None),
    ],
)
def test_ranges_with_one_end_or_none(lower: float, upper: float, margin: float | None) -> None:
    """A joint that went from -0.3 to 0.5 rad."""
    robot = catalogue.load("yoshida1992")
    name = robot.joint_names[0]
    joints = [replace(robot.joint(name), limits=Limits(lower, upper)), *robot.joints[1:]]
    actuators = Actuators(replace(robot, joints=joints), robot.frames[0].name, (name,), ())
    went = np.zeros((2, robot.n))
    went[:, 0] = -0.3, 0.5
    usage = LimitUsage(actuators, MissionLimitsTable())
    found = judge_uses("range limit", usage.travel(np.arange(2.0), went, (name,), {}))
    assert [limit.margin for limit in found] == ([] if margin is None else [pytest.approx(margin)])


def test_a_stage_that_has_not_settled_is_flown_once_more() -> None:
    """Half a second does not end the tumble; ``wait`` goes on from there, once, and that is enough or it is not."""
    changes = {"identify": None, "stow": None, "eject": None, "decide__margin": None, "detumble__duration": 0.5}
    patient = flown(**changes, decide__wait=200.0)
    assert [each.stage for each in patient.outcomes].count("detumble") == 1
    detumbled = next(each for each in patient.outcomes if each.stage == "detumble")
    assert detumbled.success
    assert detumbled.begin == pytest.approx(patient.outcomes[3].end + 0.5)
    assert rows(patient)["decide.verdict"] == "go"
    hasty = flown(**changes, decide__wait=0.5)
    notes(hasty, "detumble", "not settled")
    assert rows(hasty)["decide.verdict"] == "abort"


@pytest.mark.parametrize("stage", ["approach", "catch", "settle"])
def test_a_mission_of_years_is_refused_before_it_is_flown(stage: str) -> None:
    with pytest.raises(InputError, match="the stages may last 1e"):
        flown(**SHORT, **{f"{stage}__duration": 1e9})


def test_readings_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(InputError, match="expected at most 1000000"):
        flown(identify__sensors={"sample": 1e-8})
