"""Every way in which a stage can fail, by name: it is made to happen, and the margin is below zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.missions import SHORT, flown, rows

from spacearm.errors import InputError
from spacearm.mission.flight import Use
from spacearm.mission.laws import Crew
from spacearm.mission.scenario import Mission
from spacearm.model import Limits, catalogue

#: A ball on the hand and a plate at the grasp, which touch 2 cm before the latch closes.
CONTACT = {
    "first": {"frame": "servicer/hand", "kind": "sphere", "radius": 0.05},
    "second": {"frame": "target/grasp", "kind": "disc", "radius": 0.2},
    "stiffness": 500.0,
}
FAST = {"target__closing": 0.4, "touch__speed": 1.0, "strategy": "passive"}
FAILURES: dict[tuple[str, str], dict[str, Any]] = {
    ("approach", "rate limit"): {"target__tumble_deg": [6.0, -9.0, 4.5]},
    ("approach", "clearance lost"): {"clearance": 0.6},
    ("touch", "missed"): {"touch__distance": 1e-4, "approach__stiffness": 0.01, "approach__damping": 0.05},
    ("touch", "contact lost"): {"touch__contact": [CONTACT]},
    ("touch", "misaligned"): {"touch__angle_deg": 0.1},
    ("touch", "touch speed"): {"touch__speed": 0.01},
    ("catch", "torque limit"): {"catch__stop": 0.02, "catch__stiffness": 50.0, "catch__damping": 14.0},
    ("catch", "range limit"): {"catch__stop": 25.0, "catch__duration": 25.0},
    ("catch", "travel exceeded"): FAST,
    ("catch", "base rate"): {"catch__base_rate_deg": 1.0},
    ("settle", "not settled"): {"catch__duration": 0.2, "catch__stop": 1.0, "settle__duration": 0.05},
    ("detumble", "not settled"): {"detumble__duration": 0.5},
    ("detumble", "wheel saturated"): {"detumble__by": "wheels", "target__inertia": [500.0, 500.0, 400.0]},
    ("detumble", "propellant out"): {"detumble__propellant": 0.002},
}


@pytest.mark.parametrize(("stage", "name"), FAILURES)
def test_a_stage_fails_by_name(stage: str, name: str) -> None:
    mission = flown(**SHORT, **FAILURES[stage, name])
    told(mission, stage, name)
    assert mission.outcomes[-1].stage == stage  # it is the last


def told(mission: Mission, stage: str, name: str) -> None:
    """The failure stands in the outcome, the rows and the headline, with its margin."""
    outcome = next(each for each in mission.outcomes if not each.success)
    assert (outcome.stage, outcome.binding.name) == (stage, name)
    limit, found = outcome.binding, rows(mission)
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
        ("weigh", "uncertain", {"weigh__mass": 1e-4}),
        ("decide", "too heavy", {"decide__mass": 140.0}),
        ("decide", "margin too small", {"decide__margin": 0.2}),
        ("stow", "not settled", {"stow__error_deg": 1e-4}),
        ("stow", "clearance lost", {"clearance": 0.53, "decide__margin": None}),
    ],
)
def test_a_late_stage_fails_by_name(stage: str, name: str, changes: dict[str, Any]) -> None:
    mission = flown(eject=None, **changes)
    told(mission, stage, name)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("too slow", {"eject__speed": 1.0}), ("clearance lost", {"eject__clearance": 50.0})],
)
def test_an_ejection_fails_by_name(name: str, changes: dict[str, Any]) -> None:
    """It comes after a failure; the page tells both."""
    mission = flown(weigh=None, decide__mass=100.0, **changes)
    last = mission.outcomes[-1]
    assert (last.stage, last.binding.name) == ("eject", name)
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
    use = Use(Crew(replace(robot, joints=joints), robot.frames[0].name, (name,), ()))
    use.lowest[0], use.highest[0] = -0.3, 0.5
    found = [limit for limit in use.arm() if limit.name == "range limit"]
    assert [limit.margin for limit in found] == ([] if margin is None else [pytest.approx(margin)])


def test_a_stage_that_has_not_settled_is_flown_once_more() -> None:
    """Half a second does not end the tumble; ``wait`` goes on from there, once, and that is enough or it is not."""
    changes = {"weigh": None, "stow": None, "eject": None, "decide__margin": None, "detumble__duration": 0.5}
    patient = flown(**changes, decide__wait=200.0)
    assert [each.stage for each in patient.outcomes].count("detumble") == 1
    detumbled = next(each for each in patient.outcomes if each.stage == "detumble")
    assert detumbled.success
    assert detumbled.begin == pytest.approx(patient.outcomes[3].end + 0.5)
    assert rows(patient)["decide.verdict"] == "go"
    hasty = flown(**changes, decide__wait=0.5)
    told(hasty, "detumble", "not settled")
    assert rows(hasty)["decide.verdict"] == "abort"


@pytest.mark.parametrize("stage", ["approach", "catch", "settle"])
def test_a_mission_of_years_is_refused_before_it_is_flown(stage: str) -> None:
    with pytest.raises(InputError, match="the stages may last 1e"):
        flown(**SHORT, **{f"{stage}__duration": 1e9})


def test_readings_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(InputError, match="expected at most 1000000"):
        flown(weigh__sensors={"sample": 1e-8})
