"""Numbers tuned on some records and tried on others: balls with closed forms, and measured tosses of a cube (BSD-3)."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine import checkpoints
from spacearm.errors import InputError, SimulationError
from spacearm.model.document import validate_tables
from spacearm.model.toml_read import parse_toml
from spacearm.result import Result
from spacearm.simulate import Run
from spacearm.study import run_scenario
from spacearm.study.scenario import Session
from spacearm.typing import Array
from spacearm.validation._tables import TuneTable
from spacearm.validation._tuning import RecordErrors, TunedRecord, bootstrap_interval, prepare_records
from spacearm.validation.scenario import ValidationFile
from support import ROOT

TOSSES = Path(__file__).with_name("data") / "cube"
PAGE = ROOT / "examples" / "lab" / "cube-tosses.toml"
RESTITUTION = 0.62
BALL = """[robot]
name = "thrown"
[[body]]
name = "ball"
mass = 0.2
inertia = [1e-4, 1e-4, 1e-4]
"""
SCENARIO = """study = "validation"
robot = "ball.toml"
data = "."
measured_start = 0.2
gravity = [0.0, 0.0, -9.81]
tolerance = 1e-4
[method]
rtol = 1e-7
[[phase]]
duration = 2.0
[[contact]]
first = { frame = "ball", kind = "sphere", radius = 0.02 }
second = { kind = "plane" }
stiffness = 2e5
[tune]
length = 0.04
scan = 8
generations = 2
[[tune.number]]
key = "contact[0].restitution"
low = 0.1
high = 0.95
[[record]]
name = "tuned"
file = "ball*.csv"
count = 3
tune = true
[[record]]
name = "other"
file = "ball*.csv"
skip = 3
"""
for axis in "xyz":
    SCENARIO += f'[[channel]]\nquantity = "base_{axis}"\ncolumn = "{axis}"\nsd = 1e-4\n'


def bounce(times: Array, height: float, speed: float, restitution: float) -> Array:
    """Height (T,) of a point above its floor, thrown upwards at ``speed``: parabolas, one after the other."""
    found, begin = np.zeros_like(times), 0.0
    for _ in range(20):
        land = (speed + np.sqrt(speed**2 + 2.0 * 9.81 * height)) / 9.81
        rows = (times >= begin) & (times <= begin + land + 1e-12)
        s = times[rows] - begin
        found[rows] = height + speed * s - 0.5 * 9.81 * s**2
        height, speed, begin = 0.0, restitution * (9.81 * land - speed), begin + land
    return found


def write_balls(folder: Path, restitutions: list[float], scenario: str = SCENARIO) -> Path:
    (folder / "ball.toml").write_text(BALL)
    times = np.arange(0.0, 1.2, 0.01)
    rng = np.random.default_rng(5)
    for k, restitution in enumerate(restitutions):
        path = bounce(times, 0.3 + 0.02 * k, 0.1 * k, restitution)
        rows = np.column_stack([times, 0.3 * times, -0.1 * times, 0.02 + path])
        rows[:, 1:] += 1e-5 * rng.normal(size=(times.size, 3))
        text = "\n".join(",".join(f"{value:.9f}" for value in row) for row in rows)
        # Numbers of files do not sort as text.
        (folder / f"ball{k + 8}.csv").write_text(f"time,x,y,z\n{text}\n")
    (folder / "lab.toml").write_text(scenario)
    return folder / "lab.toml"


def rows_of(result: Result) -> dict[str, object]:
    return {row.quantity: row.value for row in result.rows}


def test_a_restitution_is_found_and_predicts_other_throws(tmp_path: Path) -> None:
    result = run_scenario(write_balls(tmp_path, [RESTITUTION] * 5))
    rows = rows_of(result)
    assert result.sound, result.headline
    assert rows["tuned.contact[0].restitution.value"] == pytest.approx(RESTITUTION, abs=0.02)
    low, high = (rows[f"tuned.contact[0].restitution.{end}95"] for end in ("low", "high"))
    assert low <= rows["tuned.contact[0].restitution.value"] <= high
    assert (rows["error.tuning.records"], rows["error.held_out.records"]) == (3, 2)
    # The impact lasts some milliseconds in which the ball rises no more: a compliant law is late by that.
    assert rows["error.held_out.place"] < 4e-3
    assert [str(name) for name in result.data["record"].values[:4]] == [
        "tuned ball8", "tuned ball9", "tuned ball10", "other ball11"
    ]  # fmt: skip
    assert [view.name for view in result.scene.views]
    assert {figure.name for figure in result.figures} >= {"errors", "loss_1"}


def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after seven predictions: the second run makes the others only, and finds the same numbers."""
    monkeypatch.setattr(checkpoints, "LEAST_SECONDS", 0.0)
    page = write_balls(tmp_path, [RESTITUTION] * 5)
    whole = rows_of(run_scenario(page))
    made, predict = [], TunedRecord.predict

    def count(self: TunedRecord, values: Mapping[str, float]) -> tuple[RecordErrors, Run]:
        made.append(values)
        if len(made) == stop:
            raise KeyboardInterrupt
        return predict(self, values)

    monkeypatch.setattr(TunedRecord, "predict", count)
    stop = 8
    with pytest.raises(KeyboardInterrupt), checkpoints.keep_checkpoints(str(tmp_path)):
        run_scenario(page)
    first, stop = len(made), -1
    with checkpoints.keep_checkpoints(str(tmp_path)) as pieces:
        assert rows_of(run_scenario(page)) == whole
    assert pieces.found == first - 1 == 7
    evaluations = int(str(whole["evaluations"]))
    assert len(made) - first == 3 * evaluations - pieces.found + 5
    # Another file of readings is other work.
    (tmp_path / "ball8.csv").write_text((tmp_path / "ball8.csv").read_text().replace("0.32", "0.33", 1))
    stop = len(made) + 1
    with pytest.raises(KeyboardInterrupt), checkpoints.keep_checkpoints(str(tmp_path)) as pieces:
        run_scenario(page)
    assert pieces.found == 0


def test_numbers_that_fit_only_their_own_records_are_not_sound(tmp_path: Path) -> None:
    scenario = (
        SCENARIO.replace("count = 3", "count = 5").replace("skip = 3", "skip = 5").replace("= 2\n[[tune", "= 1\n[[tune")
    )
    result = run_scenario(write_balls(tmp_path, [0.4] * 5 + [0.85] * 5, scenario))
    assert not result.sound
    check = result.certificate["carries_over"]
    assert check.value > check.tolerance
    # A search that its bounds stop says so.
    stopped = run_scenario(write_balls(tmp_path, [0.5] * 4, SCENARIO.replace("high = 0.95", "high = 0.3")))
    assert not stopped.sound
    assert stopped.certificate["bounds"].value == 1


def test_the_interval_is_that_of_the_best_points_of_resamples() -> None:
    """Quadratic losses whose least points scatter: the mean of n of them has a known scatter."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=40)
    points = np.linspace(-1.0, 1.0, 801)[:, None]
    losses = (points - centres) ** 2
    table = TuneTable(length=1.0, number=[{"key": "x", "low": 0.0, "high": 1.0}], average="mean", resamples=2000)
    low, high = bootstrap_interval(table, points, losses)[:, 0]
    sd = centres.std() / np.sqrt(centres.size)
    assert low == pytest.approx(centres.mean() - 1.96 * sd, abs=0.15 * sd)
    assert high == pytest.approx(centres.mean() + 1.96 * sd, abs=0.15 * sd)
    # Points at which a record could not be predicted are not taken.
    losses[::2, 0] = np.inf
    assert np.all(np.isfinite(bootstrap_interval(table, points, losses)))


def test_measured_tosses_start_as_their_own_velocities_say(tmp_path: Path) -> None:
    """The regression of the free fall beside the velocities in the files, which others took from the same poses."""
    tables = parse_toml(PAGE.read_text().replace("contactnets_cube/", "").replace("count = 10", "count = 2"))
    for record in tables["record"][1:]:
        record["skip"] = 2
    session = Session(PAGE.parent, False, lambda share, what: None, {})
    tuned, others, failed = prepare_records(validate_tables(ValidationFile, tables | {"data": str(TOSSES)}), session)
    assert not failed
    for record, number in zip([*tuned, *others], range(4), strict=True):
        with zipfile.ZipFile(TOSSES / f"{number}.pt") as archive:
            stored = np.frombuffer(archive.read("archive/data/0")).reshape(-1, 13)
        start = record.measured.start_states["thrown"]
        assert 0.02 < record.measured.start_window < 0.2
        assert np.allclose(start.position, stored[0, 4:7], atol=3e-4)
        assert abs(start.quaternion @ stored[0, :4]) > 1.0 - 1e-5
        # Theirs are differences of neighbouring poses: some per cent of noise.
        count = int(record.measured.start_window * 148.0)
        assert np.allclose(start.velocity[3:6], np.median(stored[:count, 7:10], axis=0), atol=0.25)
    # One of them, with numbers of the page: the cube comes to rest within its own size of where it was measured.
    errors, run = tuned[1].predict({"contact[0].friction": 0.2, "contact[0].stiffness": 2e4})
    assert errors.place < 0.05
    assert errors.rotation < 0.3
    assert run.certificate is not None
    # Without gravity it flies on.
    assert tuned[1].predict({"gravity[2]": 0.0})[0].place > 3.0 * errors.place


@pytest.mark.parametrize(
    ("was", "instead", "message"),
    [
        ("low = 0.1", "low = 0.95", "nothing to search"),
        ("low = 0.1", "low = 0.0\nlog = true", "nothing to search"),
        ("count = 3\ntune = true", "count = 3", "no record has `tune"),
        ("skip = 3", "skip = 3\ntune = true", "no record has no"),
        ("skip = 3", "skip = 30", "too few files"),
        ('file = "ball*.csv"\nskip', 'file = "/etc/*"\nskip', "is not a pattern"),
        ('file = "ball*.csv"\nskip', 'file = "**b*"\nskip', "is not a pattern"),
        ('file = "ball*.csv"\nskip', 'file = "cube*.csv"\nskip', "too few files"),
        ("contact[0].restitution", "contact[1].restitution", "there is no"),
        ("measured_start = 0.2", "measured_start = 0.03", "too few readings"),
        ("length = 0.04", "length = 0.0", "more than zero"),
    ],
)
def test_what_cannot_be_tuned_is_refused(tmp_path: Path, was: str, instead: str, message: str) -> None:
    assert was in SCENARIO
    with pytest.raises(InputError, match=message):
        run_scenario(write_balls(tmp_path, [RESTITUTION] * 5, SCENARIO.replace(was, instead)))


def test_an_error_says_why_no_other_record_is_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TunedRecord.predict

    def predict(record: TunedRecord, values: Mapping[str, float]) -> tuple[RecordErrors, Run]:
        if not record.name.startswith("tuned"):
            raise SimulationError("has diverged", place="run")
        return whole(record, values)

    monkeypatch.setattr(TunedRecord, "predict", predict)
    with pytest.raises(InputError, match=r"no other record can be predicted.*has diverged"):
        run_scenario(write_balls(tmp_path, [RESTITUTION] * 5, SCENARIO))


def test_quaternions_in_another_order_are_refused(tmp_path: Path) -> None:
    tables = parse_toml(PAGE.read_text().replace("contactnets_cube/", ""))
    tables["channel"][0]["column"] = "[5]"
    tables["record"][0]["count"] = tables["record"][1]["skip"] = 1
    session = Session(PAGE.parent, False, lambda share, what: None, {})
    with pytest.raises(InputError, match="order w, x, y, z"):
        prepare_records(validate_tables(ValidationFile, tables | {"data": str(TOSSES)}), session)
