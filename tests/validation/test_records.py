"""Several records of captures, made by an independent program of the plane: start, catch and tilt come from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model.toml_read import parse_toml
from spacearm.result import Result
from spacearm.study import Session, run_scenario
from spacearm.typing import Array
from spacearm.validation._measured_motion import estimate_catch
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation._records import RecordsFindings, SharedEstimate, shared_prior
from spacearm.validation.scenario import ValidationFile
from support.planar_capture import CHASER, CHASER_AND_TARGET, COORDINATES

TABLE = replace(CHASER_AND_TARGET, drag=0.0, distance=0.04, pinned=100.0)
SCENARIO = """study = "validation"
robot = "chaser.toml"
base = "planar"
data = "elsewhere"
repeats = "merge"
measured_start = 1.0
gravity = [0.0, 0.0, 0.0]
relax = false
[method]
rtol = 1e-8
[catch]
guest = "target"
frame = "gripper"
after = 1.5
within = 3.0
pin = { damping = 0.02 }
[[system]]
name = "target"
base = "planar"
body = { mass = 12.0, inertia = [0.2, 0.2, 0.2] }
[[phase]]
duration = 6.0
[[uncertain]]
key = "gravity[0]"
sd = 0.01
shared = true
[[uncertain]]
key = "gravity[1]"
sd = 0.01
shared = true
"""
NOISE = (2e-4, 2e-4, 5e-4) * 2


def write_record(folder: Path, number: int) -> float:
    """A record with rows that come twice, one of them without a reading; when the catch was, s."""
    rng = np.random.default_rng(number)
    start = np.array([0.0, 0.0, 0.1, 0.8, 0.1, 0.4, 0.0, 0.002, 0.01, -0.12 - 0.01 * number, 0.002, 0.1])
    times = np.arange(0.0, 6.05, 0.1)
    read, caught = TABLE.motion(start, times)
    read = read + np.array(NOISE) * rng.normal(size=read.shape)
    rows = []
    for t, row in zip(times, read, strict=True):
        text = ",".join(f"{value:.9f}" for value in row)
        rows += [f"{t:.6f},{text}", f"{t:.6f},-9,{text.partition(',')[2]}"]
    (folder / f"run{number}.csv").write_text("time,a,b,c,d,e,f\n" + "\n".join(rows) + "\n")
    return float(caught)


def predict(folder: Path, count: int, scenario: str = SCENARIO, robot: str = CHASER) -> tuple[Result, list[float]]:
    """The result of so many records, and the instants of their catches."""
    (folder / "chaser.toml").write_text(robot)
    for name, column, sd in zip(COORDINATES, "abcdef", NOISE, strict=True):
        scenario += f'[[channel]]\nquantity = "{name}"\ncolumn = "{column}"\nsd = {sd}\ndropout = [-9]\n'
    caught = [write_record(folder, number) for number in range(count)]
    for number in range(count):
        scenario += f'[[record]]\nname = "run{number}"\nfile = "run{number}.csv"\n'
    (folder / "lab.toml").write_text(scenario)
    return run_scenario(folder / "lab.toml", data=folder), caught


def test_captures_are_predicted_with_the_tilt_of_the_other_records(tmp_path: Path) -> None:
    result, _ = predict(tmp_path, 4)
    values = {row.quantity: row.value for row in result.rows}
    assert values["within.3sd"] == 4
    for k, tilt in enumerate(TABLE.tilt):
        # Each record as a whole shows the tilt, and so does their mean.
        assert values[f"shared.gravity[{k}].mean"] == pytest.approx(tilt, abs=2e-4)
        assert values[f"shared.gravity[{k}].scatter"] < 4e-4
    # The tilt alone would move the bodies by 50 mm until then.
    assert values["system.chaser.place"] < 2e-3
    assert values["system.target.yaw"] < 5e-3
    assert values["balance.linear"] < 5.0 * values["balance.linear.sd"]


def test_a_record_that_fails_is_told_and_the_others_are_predicted(tmp_path: Path) -> None:
    scenario = SCENARIO.replace("shared = true\n", "") + '[[record]]\nname = "lost"\nfile = "lost.csv"\n'
    result, caught = predict(tmp_path, 1, scenario)
    assert not result.sound
    assert "lost.csv" in result.summary
    values = {row.quantity: row.value for row in result.rows}
    assert values["records"] == 1
    assert abs(values["record.run0.end.z"]) < 4.0
    assert values["record.run0.duration"] == pytest.approx(6.0 - caught[0], abs=0.1)
    with pytest.raises(InputError, match=r"lost\.csv"):
        predict(tmp_path, 0, scenario)


def test_a_joint_that_a_phase_drives_is_held_through_the_catch(tmp_path: Path) -> None:
    """The gripper on a link that stands still on the hull, its path in the phase: both move as one body."""
    link = """[[body]]
name = "link"
mass = 0.5
inertia = [0.01, 0.01, 0.01]
[[joint]]
name = "wrist"
kind = "revolute"
parent = "hull"
child = "link"
axis = [0.0, 0.0, 1.0]
[[frame]]"""
    robot = CHASER.replace("[[frame]]", link).replace('body = "hull"\norigin', 'body = "link"\norigin')
    robot = robot.replace("mass = 16.0", "mass = 15.5").replace("[0.4, 0.4, 0.3]", "[0.39, 0.39, 0.29]")
    found = []
    for text, phase in ((CHASER, ""), (robot, "driven = { wrist = 0.0 }\n"), (robot, 'locked = ["wrist"]\n')):
        scenario = SCENARIO.replace("duration = 6.0\n", f"duration = 6.0\n{phase}")
        result, _ = predict(tmp_path, 1, scenario, text)
        found.append({row.quantity: row.value for row in result.rows})
    for name in ("record.run0.chi_square", "record.run0.end.z"):
        assert found[1][name] == pytest.approx(found[0][name], rel=1e-4)
        assert found[2][name] == pytest.approx(found[0][name], rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_the_catch_is_where_the_approach_ends(seed: int) -> None:
    """A hand that comes on a line, stops, and is read with noise at 10 Hz."""
    rng = np.random.default_rng(seed)
    times, caught = np.arange(0.0, 4.0, 0.1), 1.9 + 0.1 * rng.random()
    noise = 3e-4 * rng.normal(size=(times.size, 3))

    def place(at: Array) -> Array:
        rows = np.searchsorted(times, at - 1e-9)
        line = np.outer(np.minimum(at - caught, 0.0), [0.1, -0.05, 0.0])
        return np.asarray(line + np.array([0.06, 0.2, 0.0]) + noise[rows])

    found = estimate_catch(place, times, 1.0, 2.0)
    assert abs(found.time - caught) < 3.5 * found.sd
    assert found.sd < 0.04
    with pytest.raises(InputError, match="no catch is seen"):
        estimate_catch(lambda at: np.outer(at, [0.1, 0.0, 0.0]), times, 1.0, 2.0)


@pytest.mark.parametrize("rate", [10, 50, 200])
def test_the_catch_is_found_at_any_rate(rate: int) -> None:
    """A hand that comes on a curve; 40 records each, read with 0.1 mm."""
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        times, caught = np.arange(0.0, 8.0, 1.0 / rate), rng.uniform(2.5, 3.5)
        velocity = rng.uniform(0.03, 0.15) * np.array([1.0, rng.uniform(-0.5, 0.5), 0.0])
        bend = 0.02 * np.array([*rng.uniform(-1.0, 1.0, 2), 0.0])
        noise = 1e-4 * rng.normal(size=(times.size, 3))

        def place(
            at: Array, caught: float = caught, velocity: Array = velocity, bend: Array = bend, times: Array = times,
            noise: Array = noise,
        ) -> Array:  # fmt: skip
            left = np.minimum(at - caught, 0.0)[:, None]
            return np.asarray(velocity * left + 0.5 * bend * left**2 + 0.1 + noise[np.searchsorted(times, at - 1e-9)])

        found = estimate_catch(place, times, 1.5, 3.5)
        errors.append((found.time - caught, found.sd))
    off, sd = np.array(errors).T
    assert np.sqrt(np.mean(off**2)) < {10: 0.025, 50: 0.005, 200: 0.002}[rate]
    assert np.mean(np.abs(off) < 2.0 * sd) >= 0.85
    assert np.sqrt(np.mean((off / sd) ** 2)) < 1.5


def test_a_pin_that_locks_later_is_predicted_and_its_instant_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program's pin locks 0.9 s after the catch; the page says 0.8 s and fits the readings until 4.5 s."""
    monkeypatch.setitem(globals(), "TABLE", replace(TABLE, pinned=0.9))
    scenario = SCENARIO.replace("shared = true\n", "").replace("pin = {", "fit = false\nlock_after = 0.8\npin = {")
    scenario = scenario.replace("relax = false", "relax = false\nfit = 4.5")
    uncertain = '[[uncertain]]\nkey = "catch.lock_after"\nsd = 0.2\n'
    result, _ = predict(tmp_path, 1, scenario + uncertain)
    free, _ = predict(tmp_path, 1, scenario.replace("lock_after = 0.8\n", ""))
    locked, swinging = ({row.quantity: row.value for row in each.rows} for each in (result, free))
    assert locked["record.run0.chi_square"] < 1.3
    assert swinging["record.run0.chi_square"] > 5.0
    assert locked["within.2sd"] + locked["within.3sd"] >= 1


@pytest.mark.parametrize(
    ("was", "instead", "message"),
    [
        ("pin = { damping = 0.02 }", "lock_after = 1.0", "no pin"),
        ("pin = {", 'swing = "measured"\nlock_after = 1.0\npin = {', "no pin that swings"),
        ("damping = 0.02", 'lock = "later"', "lock_after"),
    ],
)
def test_a_lock_without_a_pin_is_refused(tmp_path: Path, was: str, instead: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        predict(tmp_path, 1, SCENARIO.replace(was, instead))


def test_bands_are_widened_by_the_ends_of_other_records(tmp_path: Path) -> None:
    """A record's own end takes no part."""
    scenario = SCENARIO.replace("duration = 6.0", "duration = 5.0").replace("shared = true\n", "")
    findings = []
    monkey = pytest.MonkeyPatch()
    monkey.setattr(RecordsFindings, "title", lambda self: findings.append(self) or "")
    try:
        result, _ = predict(tmp_path, 4, scenario)
    finally:
        monkey.undo()
    found = findings[0]
    rows = {row.quantity: row.value for row in result.rows}
    squares = {name: np.mean(found.end_z(own) ** 2) for name, own in found.records.items()}
    for name, factor in found.widenings().items():
        others = [value for other, value in squares.items() if other != name]
        assert factor == pytest.approx(max(1.0, np.sqrt(np.mean(others))))
    assert rows["within.2sd.widened"] >= rows["within.2sd"]
    assert rows["widening"] >= 1.0


def test_one_other_record_says_as_much_of_a_tilt_as_it_shows(tmp_path: Path) -> None:
    result, _ = predict(tmp_path, 2)
    values = {row.quantity: row.value for row in result.rows}
    # Its whole, 6 s, shows the tilt; the approach of the record itself, some 3 s, hardly does.
    assert values["system.chaser.place"] < 2e-3
    assert values["within.3sd"] == 2
    for k, tilt in enumerate(TABLE.tilt):
        for name in ("run0", "run1"):
            found, deviation = values[f"shared.gravity[{k}].{name}"], values[f"shared.gravity[{k}].{name}.sd"]
            assert abs(found - tilt) < 3.5 * deviation
            assert deviation < 1e-3


def shared_estimate(value: float, deviation: float) -> SharedEstimate:
    return SharedEstimate({"gravity[0]": value}, np.array([[deviation**2]]))


@pytest.mark.parametrize(
    ("others", "scatter", "mean", "deviation"),
    [
        ([(2.0, 0.3)], "", 2.0, 0.3 * 2.0**0.5),
        # Two agree by chance: their own deviations count. Two differ: what they differ by.
        ([(2.0, 0.3), (2.0, 0.3)], "", 2.0, 0.3 * 1.5**0.5),
        ([(1.0, 0.1), (3.0, 0.1)], "", 2.0, 3.0**0.5),
        ([(1.0, 9.0), (2.0, 9.0), (3.0, 9.0)], "", 2.0, (4.0 / 3.0) ** 0.5),
        ([(2.0, 0.3)], "scatter = 1.5\n", 2.0, 1.5 * 2.0**0.5),
        ([], "", 0.0, 5.0),
    ],
)
def test_prior_of_a_shared_number(
    tmp_path: Path, others: list[tuple[float, float]], scatter: str, mean: float, deviation: float
) -> None:
    (tmp_path / "chaser.toml").write_text(CHASER)
    tables = SCENARIO.replace("sd = 0.01\nshared = true\n", f"sd = 5.0\nshared = true\n{scatter}", 1)
    tables += '[[channel]]\nquantity = "base_x"\ncolumn = "a"\nsd = 1.0\n'
    file = ValidationFile.model_validate(parse_toml(tables))
    measured = MeasuredRun(file, Session(tmp_path))
    found, covariance = shared_prior(measured, [shared_estimate(*each) for each in others], ["gravity[0]"])
    assert found[0] * 5.0 == pytest.approx(mean)
    assert np.sqrt(covariance[0, 0]) * 5.0 == pytest.approx(deviation)
    # The other number is not shared here: what was stated of it.
    assert (found[1], covariance[1, 1], covariance[0, 1]) == (0.0, 1.0, 0.0)
