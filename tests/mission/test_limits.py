"""Limits of missions: where a stage ends, what a margin means, which momentum counts, which way verdicts may change."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mission.test_surroundings import momentum
from tests.support.brute_force import rotation_of
from tests.support.missions import EXAMPLES, SHORT, flown, rows

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.mission.scenario import MissionFindings
from spacearm.model import catalogue
from spacearm.report._page import badges
from spacearm.result import Check, Limit, Result
from spacearm.study import run_document

#: Twice the excursions of the example turn the base at 7.7 deg/s.
WIDE = {
    f"identify__excursions__{joint}": {
        "kind": "spline",
        "times": [0, 7.5, 15, 22.5, 30],
        "values_deg": values,
    }
    for joint, values in {
        "joint1": [0, 12, -10, 8, 0],
        "joint5": [0, 15, -15, 12, 0],
        "joint6": [0, -12, 12, -10, 0],
        "joint7": [0, 20, -20, 15, 0],
    }.items()
}
HEAVY = {"target__mass": 1400.0, "target__inertia": [450.0, 2300.0, 2300.0], "target__size": [4.0, 1.6, 1.6]}
HEAVY |= {"target__grasp__position": [-2.0, 0.0, 0.0], "target__tumble_deg": [0.2, 0.4, -0.8]}
HEAVY |= {"catch__duration": 20.0, "catch__stop_time": 20.0, "settle__duration": 200.0, "detumble__duration": 400.0}


def servicer(folder: Path, *changes: tuple[str, str]) -> str:
    """A servicer of its own, with other words in its file."""
    text = catalogue.text("servicer")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    place = folder / "servicer.toml"
    place.write_text(text)
    return str(place)


def base_rates(mission: MissionFindings) -> np.ndarray:
    return np.linalg.norm(mission.data()["base_angular_velocity"].values, axis=1)


def test_a_stage_ends_where_its_first_limit_breaks() -> None:
    """The base turns too fast while the inertia is identified; nothing beyond that instant is in the record."""
    mission = flown(**WIDE, decide=None, stow=None, eject=None)
    last = mission.outcomes[-1]
    assert (last.stage, last.binding_limit.name) == ("identify", "base rate")
    assert mission.run.end_time == last.end == last.binding_limit.time
    limit = np.radians(5.0)
    assert base_rates(mission).max() == pytest.approx(limit, rel=1e-6)
    # By how much it would have been exceeded: the mission that goes on shows it.
    on = flown(**WIDE, decide=None, stow=None, eject=None, continue_after_limit=True)
    assert on.run.end_time > mission.run.end_time + 10.0
    assert last.binding_limit.used == pytest.approx(base_rates(on).max(), rel=1e-9)
    assert last.margin == pytest.approx(1.0 - base_rates(on).max() / limit, rel=1e-9)
    assert "base rate" in mission.headline()
    # A record with few samples tells the same.
    coarse = flown(**WIDE, decide=None, stow=None, eject=None, sample=4.0)
    assert coarse.outcomes[-1].end == pytest.approx(last.end, abs=1e-6)


def test_broken_limits_stand_in_the_order_of_their_times() -> None:
    mission = flown(**SHORT, target__tumble_deg=[6.0, -9.0, 4.5], continue_after_limit=True)
    broken = [limit for limit in mission.limits() if limit.is_broken]
    assert len(broken) > 2
    times = [limit.time for limit in broken]
    assert times == sorted(times)  # type: ignore[type-var]
    first = flown(**SHORT, target__tumble_deg=[6.0, -9.0, 4.5])
    assert [limit.name for limit in first.limits() if limit.is_broken] == [broken[0].name]


def test_every_stage_is_held_against_every_limit() -> None:
    given = {"base_rate_deg": 8.0, "propellant": 1.0, "power": 100.0, "time": 1000.0, "impulse": 10.0}
    mission = flown(limits=given, decide__margin=None)
    assert mission.is_successful
    flying = {"torque limit", "rate limit", "range limit", "travel exceeded", "wheel saturated", "base rate"}
    for outcome in mission.outcomes:
        names = {limit.name for limit in outcome.limits}
        if outcome.stage not in ("touch", "decide"):
            assert flying | {"clearance lost", "power", "propellant out", "time"} <= names, outcome.stage


def test_brakes_hold_no_more_than_their_joints(tmp_path: Path) -> None:
    """Thrusters turn the base while the arm is braked: the torque in a wrist, of a weaker one, ends the stage."""
    strong = flown(**SHORT, detumble__actuator="thrusters")
    (brake,) = [limit for limit in strong.outcomes[-1].limits if limit.name == "torque limit"]
    assert strong.outcomes[-1].stage == "detumble"
    own = [track for track in strong.run.tracks if track.name == "servicer"][-1]
    torques = (own.data["force"] + own.data["reaction"]).values[:, 6 + own.robot.joint_index(brake.what)]
    assert brake.used == pytest.approx(np.abs(torques).max(), rel=1e-9)
    weak = servicer(tmp_path, ("velocity_deg = 15, effort = 40", f"velocity_deg = 15, effort = {0.9 * brake.used}"))
    mission = flown(**SHORT, detumble__actuator="thrusters", robot=weak)
    last = mission.outcomes[-1]
    assert (last.stage, last.binding_limit.name, last.binding_limit.what) == ("detumble", "torque limit", brake.what)


@pytest.mark.parametrize("speed", [200.0, 25.0])
def test_a_saturated_wheel_tells_the_speed_that_it_would_need(tmp_path: Path, speed: float) -> None:
    """Wheels that hold 8 N m s and 1 N m s are not the same distance from what is needed."""
    small = servicer(tmp_path, ("speed = 400.0", f"speed = {speed}"))
    mission = flown(**SHORT, **HEAVY, robot=small, detumble__actuator="wheels")
    limit = mission.worst.binding_limit
    assert (mission.worst.stage, limit.name) == ("detumble", "wheel saturated")
    brought = rows(flown(**SHORT, **HEAVY, detumble__actuator="thrusters"))["detumble.momentum"]
    # One of three wheels at right angles has between 1 / sqrt(3) and all of the momentum, less what others took.
    assert limit.used * 0.04 < 1.001 * brought
    assert limit.margin < 1.0 - brought / np.sqrt(3.0) / (0.04 * speed) * 0.8


def test_what_a_saturated_wheel_would_need_does_not_depend_on_settings(tmp_path: Path) -> None:
    """It is the momentum of all, which nothing changes, over the wheel's inertia."""
    small = servicer(tmp_path, ("speed = 400.0", "speed = 200.0"))
    given = {**SHORT, **HEAVY, "robot": small, "detumble__actuator": "wheels"}
    settings: list[dict[str, Any]] = [{}, {"sample": 3.0, "detumble__damping": 900.0}]
    missions = [flown(**given, **each) for each in settings]
    brought = rows(missions[0])["budget.settle.momentum"]
    for mission in missions:
        limit = mission.worst.binding_limit
        assert (mission.worst.stage, limit.name) == ("detumble", "wheel saturated")
        assert limit.used == pytest.approx(brought / 0.04, rel=1e-6)


def test_thrusters_unload_the_wheels_of_a_base_at_rest(tmp_path: Path) -> None:
    """A biased capture leaves the base at rest, with more in the wheels than may be left."""
    small = servicer(tmp_path, ("speed = 400.0", "speed = 120.0"))
    slow = {
        "strategy": "biased", "limits": {}, "clearance": None, "settle__duration": 200.0,
        "target": {
            "mass": 1171.0, "inertia": [663.6, 1659.0, 1659.0], "size": [4.0, 2.0, 2.0], "closing_speed": 0.02,
            "grasp": {"position": [-2.0, 0.0, 0.0], "rpy_deg": [0.0, -90.0, 0.0]}, "tumble_deg": [0.0, 0.067, 0.0168],
        },
    }  # fmt: skip
    mission = flown(**SHORT, **slow, robot=small)
    assert mission.is_successful
    found = rows(mission)
    assert found["detumble.momentum"] > 4.8  # what a wheel of 0.04 kg m2 holds at 120 rad/s
    assert found["detumble.margin.momentum_left"] > 0.4
    assert found["detumble.propellant"] > 0.0


def total(mission: MissionFindings) -> float:
    """Angular momentum of servicer and target about their mass centre at the end, N m s: bodies one by one."""
    track = [each for each in mission.run.tracks if each.name == "servicer"][-1]
    state, whole = track.states[-1], momentum(track, -1)
    centre = mechanics_of(track.robot).centre_of_mass(state[7 : 7 + track.robot.n])
    place = state[:3] + rotation_of(state[3:7]) @ centre
    return float(np.linalg.norm(whole[3:] - np.cross(place, whole[:3])))


@pytest.mark.parametrize("strategy", ["matched", "coordinated"])
@pytest.mark.parametrize("actuator", ["both", "thrusters", "wheels"])
def test_no_momentum_comes_from_detumbling(strategy: str, actuator: str) -> None:
    """Wheels keep what came in, thrusters lessen it to what the wheels hold; a go leaves no more than that."""
    mission = flown(**SHORT, **HEAVY, strategy=strategy, detumble__actuator=actuator)
    found = rows(mission)
    if actuator == "wheels":
        assert not mission.is_successful
        return
    assert mission.is_successful
    brought, end = found["detumble.momentum"], total(mission)
    assert end < 0.5 * brought
    (left,) = [limit for limit in mission.outcomes[-1].limits if limit.name == "momentum left"]
    assert left.limit == pytest.approx(16.0)
    assert left.used <= end * (1.0 + 1e-9)
    assert left.used >= end / np.sqrt(3.0) * (1.0 - 1e-9)
    assert found["detumble.left"] < 0.11 * 16.0


def test_a_slow_stage_with_much_momentum_is_not_detumbled() -> None:
    """3 t at a rate that is below the limit from the start: thrusters take the momentum all the same."""
    large = HEAVY | {"target__mass": 3000.0, "target__inertia": [4000.0, 30000.0, 30000.0], "detumble__damping": 8000.0}
    slow = large | {"target__tumble_deg": [0.02, 0.05, -0.06], "detumble__rate_deg": 0.1}
    mission = flown(**SHORT, **slow)
    found = rows(mission)
    assert found["detumble.momentum"] > 2.0 * 16.0
    assert found["detumble.propellant"] > 0.0
    assert mission.is_successful
    assert total(mission) < 0.5 * found["detumble.momentum"]
    assert not flown(**SHORT, **slow, detumble__actuator="wheels").is_successful


def test_a_tighter_rate_is_never_easier() -> None:
    for actuator in ("both", "thrusters"):
        ends = [
            rows(flown(**SHORT, **HEAVY, detumble__actuator=actuator, detumble__rate_deg=rate))
            for rate in (0.4, 0.1, 0.02)
        ]
        times = [found["detumble.time"] for found in ends]
        assert times == sorted(times)
        spent = [found["detumble.propellant"] for found in ends]
        assert spent == sorted(spent)
        successes = [found["success"] for found in ends]
        assert successes == sorted(successes, reverse=True)


#: What makes a mission harder, for one that is no go already.
WHEELS_ONLY = HEAVY | {"detumble__actuator": "wheels"}
HARDER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "heavier": (WHEELS_ONLY, {"target__mass": 2000.0, "target__inertia": [650.0, 3300.0, 3300.0]}),
    "faster": ({"target__tumble_deg": [6.0, -9.0, 4.5]}, {"target__tumble_deg": [8.0, -12.0, 6.0]}),
    "less propellant": (
        {"limits__propellant": 0.002, "detumble__actuator": "thrusters"},
        {"limits__propellant": 0.001},
    ),
    "less time": ({"limits__time": 50.0}, {"limits__time": 40.0}),
    "slower base": ({"limits__base_rate_deg": 2.5}, {"limits__base_rate_deg": 1.5}),
}


@pytest.mark.parametrize("what", HARDER)
def test_a_no_go_stays_one_where_all_is_harder(what: str) -> None:
    given, harder = HARDER[what]
    easy, hard = flown(**SHORT, **given), flown(**SHORT, **(given | harder))
    assert not easy.is_successful
    assert not hard.is_successful
    assert hard.worst.margin <= easy.worst.margin + 1e-9 or hard.run.end_time <= easy.run.end_time + 1e-9


def test_weaker_motors_and_smaller_wheels_make_no_go(tmp_path: Path) -> None:
    weak = servicer(tmp_path, ("velocity_deg = 12, effort = 80", "velocity_deg = 12, effort = 1.5"))
    assert flown(**SHORT).is_successful
    assert flown(**SHORT, robot=weak).worst.binding_limit.name == "torque limit"
    small = servicer(tmp_path, ("speed = 400.0", "speed = 100.0"))
    assert not flown(**SHORT, **WHEELS_ONLY, robot=small).is_successful


def test_a_latch_that_waits_for_the_speed_to_fall_has_a_margin_in_time() -> None:
    """The hand comes at 20 mm/s and stops at the grasp: the latch closes at 5 mm/s, which is no lack of margin."""
    mission = flown(**SHORT, touch__speed=0.005)
    touch = next(outcome for outcome in mission.outcomes if outcome.stage == "touch")
    assert rows(mission)["touch.speed"] == pytest.approx(0.005, rel=1e-5)
    limits = {limit.name: limit for limit in touch.limits}
    assert "touch speed" not in limits
    # Planned for 30 s; the latch may wait for 5 s, retreat in 8 s, and wait for 5 s more.
    assert limits["latch wait"].used == pytest.approx(touch.end - 30.0, abs=1e-9)
    assert limits["latch wait"].limit == pytest.approx(18.0)
    assert touch.margin > 0.2
    assert mission.worst.margin > 0.02
    assert "latch wait" not in {limit.name for limit in flown(**SHORT).outcomes[1].limits}


def test_an_end_state_is_asked_for() -> None:
    wanted = {"stow__end_rate_deg": 1e-3, "stow__end_attitude_deg": 1e-3, "stow__end_wheel_speed": 1e-3}
    mission = flown(**wanted, eject=None)
    last = mission.outcomes[-1]
    assert last.stage == "stow"
    assert {"end rate", "end attitude", "end wheel speed"} <= {limit.name for limit in last.limits if limit.is_broken}
    data = mission.data()
    reached = {limit.name: limit.used for limit in last.limits}
    assert reached["end rate"] == pytest.approx(np.linalg.norm(data["base_angular_velocity"].values[-1]), rel=1e-9)
    speeds = np.abs(data["joint_velocity"].values[-1][-3:])
    assert reached["end wheel speed"] == pytest.approx(speeds.max(), rel=1e-9)


def test_joints_out_of_their_ranges_and_sprung_hinges_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"start: joint 'joint2' is at 2\.2 rad .*-2\.0944 to 2\.0944 rad"):
        flown(**SHORT, start__joints={"joint2": 2.2})
    far = servicer(tmp_path, ("stowed = [0, 60, 0, -130,", "stowed = [0, 60, 0, -160,"))
    with pytest.raises(InputError, match=r"stow\.configuration: joint 'joint4' is at -2\.79"):
        flown(robot=far)
    with pytest.raises(InputError, match=r"actuators: joint 'swing' has a spring .*soft_joints"):
        flown(**SHORT, actuators__soft_joints=["slide"])
    named = flown(**SHORT, actuators__soft_joints=["slide"], actuators__arm=[f"joint{k}" for k in range(1, 8)])
    assert named.flight.actuators.arm[-1] == "joint7"


def test_go_no_go_and_undecided_have_badges() -> None:
    kept, broken = Limit("rate", 1.0, 2.0), Limit("rate", 3.0, 2.0)
    sound, not_sound = {"energy": Check(0.0, 1.0)}, {"energy": Check(2.0, 1.0)}
    for checks, limit, decision in ((sound, kept, "GO"), (sound, broken, "NO GO"), (not_sound, broken, "UNDECIDED")):
        result = Result("case", certificate=checks, limits=[limit], go=True)  # type: ignore[arg-type]
        first = badges(result)[0]
        assert (result.decision, first.text) == (decision, decision)
        assert (first.style == "agrees") == (decision == "GO")
        assert result.to_json()["verdict"]["decision"] == decision  # type: ignore[index,call-overload]
    assert Result("case", certificate=sound, limits=[kept]).decision == ""  # type: ignore[arg-type]
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for later in SHORT:
        del document[later]
    assert run_document(document, folder=EXAMPLES).decision == "GO"
