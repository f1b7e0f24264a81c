"""Missions: closed forms of capture, detumbling and ejection, margins, strategies, wrong files."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tests.mission.test_failures import SLOW
from tests.support.missions import EXAMPLES, SHORT, flown, rows

from spacearm.errors import InputError, ModelError, SimulationError
from spacearm.mission._motion import combined_angular_momentum
from spacearm.mission.scenario import MissionFindings
from spacearm.simulate import Attach
from spacearm.study import Session, run_scenario
from spacearm.study.scenario import solve_document


@lru_cache(maxsize=1)
def example() -> MissionFindings:
    return flown()


def test_the_example_keeps_its_limits_and_its_momentum() -> None:
    mission, found = example(), rows(example())
    assert mission.is_successful
    assert mission.run.certificate is not None
    assert all(check.value <= 1e-8 for name, check in mission.run.certificate.items() if "momentum" in name)
    for stage in ("approach", "touch", "catch", "settle", "detumble", "identify", "decide", "stow"):
        assert found[f"{stage}.margin"] == min(
            value for name, value in found.items() if name.startswith(f"{stage}.margin")
        )
        assert found[f"{stage}.margin"] >= 0.0
    assert found["margin"] == min(found[f"{outcome.stage}.margin"] for outcome in mission.outcomes)
    assert found["decide.verdict"] == "go"


def pulse_propellant(mission: MissionFindings) -> float:
    """Propellant of the pulses in the data, kg: impulse over specific impulse times standard gravity."""
    data, parts = mission.data(), {part.name: part for part in mission.flight.actuators.robot.thrusters}
    lasted = (data["pulse_end"] - data["pulse_begin"]).values * data["pulse_level"].values
    used = [parts[str(name)] for name in data["pulse_thruster"].values]
    return float(lasted @ [part.force / (part.specific_impulse * 9.80665) for part in used])


def test_the_data_have_all_that_is_needed_to_compute_again() -> None:
    """From the data alone: Euler's law of the free target, propellant by pulses, clearance by gaps, arm at rest."""
    mission, found = example(), rows(example())
    data = mission.data()
    begin, end = (dict(zip(data["stage"].values, data[f"stage_{k}"].values, strict=True)) for k in ("begin", "end"))
    free = data.sel(time=data["time"] < end["touch"] - 1e-6)
    turn = Rotation.from_quat(free["target_quaternion"].values, scalar_first=True)
    angular_rate = turn.inv().apply(free["target_angular_velocity"].values)
    momentum = turn.apply(angular_rate * [28.0, 24.0, 20.0])
    np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=1e-8)
    assert np.ptp(angular_rate, axis=0).max() > 1e-3
    # All of it by the firings of the identification; of detumbling by thrusters below.
    assert pulse_propellant(mission) == pytest.approx(0.1 * (1.0 - found["identify.margin.propellant_out"]), rel=1e-9)
    during = data.sel(time=(data["time"] >= begin["catch"]) & (data["time"] <= end["catch"]))
    # The least distance lies between two samples: a finer record has it.
    fine = flown(**SHORT, sample=0.01).data()
    least = float(fine["gap"].sel(time=(fine["time"] >= begin["catch"]) & (fine["time"] <= end["catch"])).min())
    assert least < float(during["gap"].min()) - 2e-5
    assert least == pytest.approx(0.1 * (1.0 + found["catch.margin.clearance_lost"]), abs=5e-6)
    # In the hand the target turns as the hand does; in the stowed configuration all but the wheels is at rest.
    kept = [*mission.flight.actuators.arm]
    assert float(abs(data["joint_velocity"].isel(time=-1).sel(joint=kept)).max()) < 1e-3
    held = data.sel(time=data["time"] > begin["settle"])
    turn = Rotation.from_quat(held["target_quaternion"].values, scalar_first=True)
    steps = np.diff(held["time"].values)
    rates = (turn[1:] * turn[:-1].inv()).as_rotvec()[steps > 0.1] / steps[steps > 0.1, None]
    middle = 0.5 * (held["target_angular_velocity"].values[1:] + held["target_angular_velocity"].values[:-1])
    np.testing.assert_allclose(rates, middle[steps > 0.1], atol=2e-3)


def test_what_is_weighed_is_within_its_deviations() -> None:
    weighed = example().flight.identified
    assert weighed is not None
    assert abs(weighed.plain[0] - 150.0) < 4.0 * weighed.std[0] < 4.0
    assert np.all(np.abs(weighed.plain[4:7] - [28.0, 24.0, 20.0]) < 4.0 * weighed.std[4:7])


def test_the_next_law_assumes_what_was_identified() -> None:
    """From a wrong nominal model a quick stow ends off its mark; with an identification before it does not."""
    nominal = {"mass": 60.0, "inertia": [10.0, 10.0, 10.0], "com": [0.1, 0.1, 0.0]}
    quick = {"target__assumed": nominal, "stow__duration": 20.0, "stow__settle_time": 1.0, "eject": None}
    quick["limits__base_rate_deg"] = 10.0
    weighed, unweighed = flown(**quick), flown(**quick, identify=None)
    assert weighed.flight.identified is not None
    assert abs(weighed.flight.identified.mass - 150.0) < 4.0 * weighed.flight.identified.std[0]
    assert weighed.is_successful
    last = unweighed.outcomes[-1]
    assert (last.stage, last.binding_limit.name, last.success) == ("stow", "not settled", False)
    assert rows(weighed)["stow.error"] < 0.05 * rows(unweighed)["stow.error"]


def test_the_arm_stops_a_tumble_in_the_time_that_its_moment_takes() -> None:
    """Aghili's closed form: the target's angular momentum falls evenly, by the moment; wheels or the bus take it up."""
    by_arm = {"detumble__actuator": "arm", "detumble__moment": 0.2, "catch__mode": "rigid", "catch__duration": 1.0}
    floating, held = flown(**SHORT, **by_arm), flown(**SHORT, **by_arm, strategy="coordinated")
    for mission in (floating, held):
        assert mission.is_successful
        assert mission.run.sound
        assert [each.stage for each in mission.outcomes][-2:] == ["detumble", "settle"]
        found = rows(mission)
        left = 24.0 * found["detumble.target_rate"]  # at rest by the file's word, about some axis
        assert found["detumble.target_rate"] == pytest.approx(np.radians(0.1))
        shortest = (found["detumble.momentum"] - left) / 0.2
        assert found["detumble.time"] == pytest.approx(shortest, rel=0.03)  # the hand lags a little
    assert rows(held)["settle.base_rate"] < 0.5 * rows(floating)["settle.base_rate"]
    short = flown(**SHORT, **by_arm, detumble__duration=3.0).outcomes[-1]
    assert (short.stage, short.binding_limit.name, short.success) == ("detumble", "not settled", False)


def test_mujoco_flies_the_same() -> None:
    """A short mission in closed loop, all stages but the ejection: laws that are called with MuJoCo's states, their
    sensors, a camera, catch, brakes, wheels, thrusters, given paths."""
    bump = {"kind": "spline", "times": [0.0, 1.5, 3.0], "values_deg": [0.0, 3.0, 0.0]}
    mission = flown(
        cross_check=True, target__closing_speed=0.01, decide={}, eject=None, detumble__actuator="thrusters",
        navigation={
            "camera": {"position_noise": 2e-3, "angle_noise_deg": 0.2, "position_start": 0.01, "angle_start_deg": 0.5,
                       "rate_start_deg": 0.05, "update": 3.0},
            "sensor": [{"kind": "gyro", "noise": 1e-5}, {"kind": "star_tracker", "noise": 1e-5, "period": 0.5}],
        },
        approach__duration=6.0, approach__match=4.0, approach__period=0.25, approach__reach=0.05,
        catch__duration=0.5, catch__stop_time=1.0, catch__period=0.1, settle__rate_deg=0.5, detumble__period=0.05,
        identify__duration=3.0, identify__mass=0.5,
        identify__excursions={"joint1": bump, "joint6": bump, "joint7": bump},
        identify__thruster=[
            {"name": f"thruster{k}", "on": [[at, at + 0.5]]} for k, at in ((9, 0.5), (2, 1.25), (5, 2.0))
        ],
        identify__sensor=[
            {"kind": k, "noise": 1e-7} for k in ("base_position", "star_tracker", "base_velocity", "gyro")
        ],
        stow__duration=20.0, stow__settle_time=1.0, stow__period=0.5,
    )  # fmt: skip
    flown_stages = [each.stage for each in mission.outcomes]
    assert flown_stages == ["approach", "touch", "catch", "settle", "detumble", "identify", "decide", "stow"]
    assert rows(mission)["detumble.propellant"] > 0.0
    assert 1e-4 < rows(mission)["touch.navigation.position"] < 0.02
    fired = 3 * 0.5 * 2.0 / (220.0 * 9.80665)  # by the identification: three pulses of half a second
    assert pulse_propellant(mission) - fired == pytest.approx(rows(mission)["detumble.propellant"], rel=1e-9)
    assert mission.checked is not None
    assert mission.checked.applies
    assert mission.checked.value < 1e-8


def test_the_base_rate_after_a_biased_capture_vanishes() -> None:
    """Wheels that hold the angular momentum of all leave none for the rest, once the arm stands still."""
    rest = SHORT | {"settle__rate_deg": 0.002, "settle__slide": 1e-5, "detumble": None}
    ends = {strategy: flown(strategy=strategy, **rest).run.ends for strategy in ("matched", "biased")}
    angular_rate = {name: np.linalg.norm(end["servicer"].base_angular_velocity) for name, end in ends.items() if end}
    assert angular_rate["biased"] < 1e-3 * angular_rate["matched"]


def test_a_plastic_capture_keeps_the_momentum_of_both() -> None:
    """The momentum about the common mass centre before the touch is what has to be taken after all has settled."""
    mission = flown(**SHORT, catch__mode="rigid")
    actuators, start = mission.flight.actuators, mission.run.start
    both = combined_angular_momentum(
        actuators.robot,
        start["servicer"].vector[None],
        mission.flight.table.reference_robot,
        start["target"].vector[None],
    )
    assert rows(mission)["detumble.momentum"] == pytest.approx(float(np.linalg.norm(both)), rel=1e-6)
    assert any(isinstance(entry.change, Attach) and entry.lost > 0.0 for entry in mission.run.changes)


def test_wheels_take_a_momentum_in_the_time_that_their_torque_needs() -> None:
    """About one axis at its limit a wheel of torque t takes L in L / t; what it holds then is L."""
    mission = flown(**SHORT, detumble__actuator="wheels", detumble__rate_deg=0.002, detumble__damping=300.0)
    found = rows(mission)
    assert found["detumble.propellant"] == 0.0
    assert found["detumble.stored"] == pytest.approx(found["detumble.momentum"], rel=0.02)
    assert found["detumble.time"] >= found["detumble.momentum"] / (np.sqrt(3.0) * 0.4)
    assert found["detumble.time"] <= 4.0 * found["detumble.momentum"] / 0.4


def test_springs_part_hand_and_target_with_their_energy() -> None:
    """Two bodies parted by an energy E: their relative motion has it all; too heavy a target is thrown off."""
    mission = flown(identify=None, decide__mass=100.0, eject__energy=2.0)
    found = rows(mission)
    assert found["decide.verdict"] == "eject"
    assert not mission.is_successful
    assert mission.run.sound
    # a free body and a body that turns move apart faster than two point masses would
    reduced = 300.0 * 150.0 / 450.0
    assert np.sqrt(2.0 * 2.0 / reduced) < found["eject.speed"] < 3.0 * np.sqrt(2.0 * 2.0 / reduced)
    slow = rows(flown(identify=None, decide__mass=100.0, eject__energy=0.5))
    assert slow["eject.speed"] == pytest.approx(0.5 * found["eject.speed"], rel=0.03)


def test_what_the_wheels_cannot_hold_is_thrown_off() -> None:
    """A spent stage brings more than three wheels of 16 N m s hold; thrusters take it."""
    heavy = tomllib.loads((EXAMPLES / "mission-heavy.toml").read_text())
    by = {}
    for who in ("both", "wheels"):
        mission = solve_document(heavy | {"detumble": heavy["detumble"] | {"actuator": who}}, Session(EXAMPLES))[1]
        assert isinstance(mission, MissionFindings)
        assert mission.run.sound
        by[who] = mission
    assert by["both"].is_successful
    failed = next(outcome for outcome in by["wheels"].outcomes if not outcome.success)
    assert (failed.stage, failed.binding_limit.name) == ("detumble", "wheel saturated")
    assert [outcome.stage for outcome in by["wheels"].outcomes][-1] == "eject"


def test_a_stage_that_fails_ends_the_mission_and_says_why() -> None:
    mission = flown(**SHORT, **SLOW, touch__speed=1e-9)
    assert [outcome.stage for outcome in mission.outcomes] == ["approach", "touch"]
    assert mission.outcomes[-1].binding_limit.name == "touch speed"
    assert mission.outcomes[-1].margin == pytest.approx(1.0 - rows(mission)["touch.speed"] / 1e-9)
    assert mission.headline().startswith("No go: in touch")
    assert mission.run.sound


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"approach__duration": 30.2}, "approach.duration"),
        ({"actuators__soft_joints": ["nothing"]}, "actuators"),
        ({"strategy": "hopeful"}, "strategy"),
        ({"identify__excursions": {"wheel_x": {"kind": "spline", "times": [0, 1], "values": [0, 1]}}}, "excursions"),
        ({"target__mass": -1.0}, "target"),
        ({"target__tumble_deg": [0.0, 1e19, 0.0]}, "target: simulate: system 'target' starts at 3.49e+15 m/s"),
        ({"target__tumble_deg": [0.0, 1e8, 0.0]}, "target: the target's own motion cannot be followed"),
        ({"identify__sensor": [{"kind": "encoder", "noise": 1e30}]}, "identify: what was measured cannot be evaluated"),
        ({"identify__excursions": {"joint5": {"times": [0, 15, 30], "values": [0, 1e9, 0]}}}, "excursions"),
    ],
)
def test_wrong_files_are_told_with_their_place(changes: dict[str, Any], place: str) -> None:
    with pytest.raises((InputError, SimulationError)) as notes:
        flown(**changes)
    assert place in str(notes.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("crew", "actuators"),
        ("weigh", "identify"),
        ("target__believed", "assumed"),
        ("target__meet", "contact_point"),
        ("target__closing", "closing_speed"),
        ("approach__closing", "closing_speed"),
        ("actuators__soft", "soft_joints"),
        ("detumble__by", "actuator"),
        ("wheels__carry", "momentum_gain"),
        ("catch__stop", "stop_time"),
        ("stow__hold", "settle_time"),
    ],
)
def test_an_old_key_names_the_new_one(old: str, new: str) -> None:
    notes = rf"unknown key '{old.rpartition('__')[2]}' \(it is called '{new}' now\)"
    with pytest.raises(ModelError, match=notes):
        flown(**{old: {}})


def test_the_file_runs_as_it_is() -> None:
    result = run_scenario(EXAMPLES / "mission.toml")
    assert result.sound
    assert result.scene is not None
    tables = ["requirements", "budget", "assumptions"]
    assert [figure.name for figure in result.figures] == ["timeline", "margins", *tables, "bus", "wheels", "arm"]
    assert any("between samples" in text for text in result.settings["assumptions"])
