"""The reproduction's rows and the scenario file."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify._nuisances import INERTIA_NUISANCES
from spacearm.identify.inertia import command_phases, scenario, write_record
from spacearm.identify.inertia.scenario import ExperimentTable
from spacearm.identify.inertia.tables import EstimateTable
from spacearm.identify.inertia.validate import compare_models, largest_differences
from spacearm.measure import make_sensors
from spacearm.measure.channels import TYPICAL_NOISE
from spacearm.model import catalogue, load
from spacearm.model.toml_read import robot_from_toml
from spacearm.papers import xu2017
from spacearm.papers.agreement import row_of
from spacearm.papers.xu2017 import claims as xu2017_claims
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017 import runs as xu2017_runs
from spacearm.papers.xu2017.claims import tensor_coefficients
from spacearm.report import write_result
from spacearm.result import Check, Result, Verdict
from spacearm.study import run_document as run
from support import ROOT
from support.experiments import read_experiment
from support.pages import check_pages

EXAMPLE = ROOT / "examples" / "identify-inertia.toml"


@pytest.fixture(scope="module")
def result() -> Result:
    patch = pytest.MonkeyPatch()
    patch.setattr(xu2017_runs, "SWARM_SEEDS", 2)
    patch.setattr(xu2017_runs, "STARTS", 40)
    patch.setattr(xu2017_runs.run_noisy, "__defaults__", (60,))
    try:
        return xu2017.reproduce()
    finally:
        patch.undo()


def test_rows_are_those_of_the_specification(result: Result) -> None:
    names = {row.quantity for row in result.rows}
    single = ("mass", "rx", "ry", "rz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
    expected = {f"single_body.{name}" for name in single}
    expected |= {f"rank.after.{name}" for name in ("thrusters", *(f"joint{k}" for k in range(1, 7)))}
    expected |= {"rank.total", "null.dimension"}
    expected |= {f"validation.{name}" for name in ("base_position", "base_attitude", "joint_angle")}
    expected |= {f"B{b}.{symbol}" for b in range(7) for symbol in paper.SYMBOLS}
    assert expected <= names
    assert result.sound
    rows = {row.quantity: row for row in result.rows}
    assert rows["single_body.mass"].verdict is Verdict.NO_EVIDENCE  # the sum of Table 1 restated
    assert all(rows[f"single_body.{name}"].verdict is Verdict.FITTED for name in single[1:])
    assert [rows[f"rank.after.{name}"].value for name in ("thrusters", "joint1", "joint6")] == [10, 17, 52]
    assert rows["null.dimension"].value == 18
    tables = [rows[f"B{b}.{symbol}"] for b in range(7) for symbol in paper.SYMBOLS]
    determined = [row for row in tables if row.value is not None]
    assert len(determined) == 18
    assert all(row.verdict is Verdict.NO_EVIDENCE and "determined by the data" in row.note for row in determined)
    others = [row for row in tables if row.value is None]
    assert all(row.verdict is Verdict.NOT_RECOVERABLE and "undetermined" in row.note for row in others)
    assert rows["B0.mass"].value is None
    assert rows["noise_free.error.least_squares"].value < 1e-9
    assert rows["noise_free.error.swarm_single_body"].value < 1e-9
    assert rows["noise_free.error.swarm_single_body"].verdict is Verdict.NOT_RECOVERABLE
    assert 0.9 <= rows["noise.coverage"].value <= 0.98
    assert rows["design.gain"].value > 1.5
    assert rows["swarm.mass.highest"].value - rows["swarm.mass.lowest"].value > 10.0
    assert rows["case.base_known.rank"].value == 51
    assert {"fig09-10-swarm", "fig12-13-validation", "numbers", "validation-blind"} <= {
        figure.name for figure in result.figures
    }
    assert result.data is not None
    assert result.data["errors"].sizes["parameter"] == 52


def test_claims_in_words_have_verdicts(result: Result) -> None:
    rows = {row.quantity: row for row in result.rows}
    found = {name: (row.value, row.verdict.value) for name, row in rows.items()}
    assert found["conclusion1.rank_without_orbital_manoeuvres"] == (52, "differs")
    assert found["conclusion1.determined_numbers"] == (18, "differs")
    assert found["conclusion2.tensor_entries"] == (6, "agrees")
    assert rows["conclusion3.base_known.undetermined"].verdict is Verdict.DIFFERS
    assert "15 null directions" in rows["conclusion3.base_known.undetermined"].note
    assert found["conclusion3.arm_known.undetermined"] == (0, "agrees")
    assert found["conclusion4.target.undetermined"] == (0, "agrees")
    assert found["conclusion5.gained_by_firings"] == (0, "agrees")
    assert rows["claim.order"].verdict is Verdict.NO_EVIDENCE
    for name, limit in (("base_position", 2e-5), ("base_attitude", 2e-4)):
        row = rows[f"validation.paper_tables.{name}"]
        assert row.verdict is Verdict.DIFFERS
        assert row.value < limit < row.paper
    # what hangs on choices of ours does not agree, and does not differ
    assert all(rows[f"validation.{name}"].verdict is Verdict.NOT_RECOVERABLE for name in paper.VALIDATION)
    assert all(rows[f"swarm.mass.{name}"].verdict is Verdict.NOT_RECOVERABLE for name in ("lowest", "highest"))


def test_agrees_only_what_could_have_failed(result: Result) -> None:
    agreeing = {row.quantity for row in result.rows if row.verdict is Verdict.AGREES}
    assert agreeing == {
        "conclusion2.tensor_entries",
        "conclusion3.arm_known.undetermined",
        "conclusion4.target.undetermined",
        "conclusion5.gained_by_firings",
    }
    rows = {row.quantity: row for row in result.rows}
    assumed = rows["sensitivity.base_rate"]
    assert assumed.verdict is Verdict.NO_EVIDENCE  # half of a bound that the paper assumes
    assert assumed.value < 0.6 * assumed.paper
    monotone = rows["swarm.best_cost.increase"]
    assert (monotone.value, monotone.verdict) == (0.0, Verdict.NO_EVIDENCE)


def test_misprinted_percentages_are_found_by_arithmetic() -> None:
    found = [row_of("xu2017", finding) for finding in xu2017_claims.arithmetic()]
    rows = {row.quantity: row for row in found}
    assert rows["percent.B6.az"].value == pytest.approx(0.23, abs=0.005)
    assert rows["percent.B6.az"].paper == 2.3
    assert rows["percent.B3.az"].value == pytest.approx(0.67, abs=0.005)
    assert rows["percent.B3.az"].paper == 0.067
    assert {"percent.B6.Ixy", "percent.B6.ax"} <= rows.keys()
    assert "percent.B0.Ixz" not in rows  # 0.035 of 0.370 is 9.5 %, as printed
    fitting = rows["percent.fitting"]
    assert fitting.value == fitting.paper - (len(rows) - 1)


def test_the_bound_of_equation_75_is_not_sharp() -> None:
    """No attitude and no angular velocity of 0.03 rad/s gives a coefficient above 0.03; one gives just that."""
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(20_000, 3, 3)))
    angular_rate = rng.normal(size=(20_000, 3))
    angular_rate *= 0.03 / np.linalg.norm(angular_rate, axis=1, keepdims=True)
    assert 0.029 < np.abs(tensor_coefficients(rotation, angular_rate)).max() <= 0.03 * (1 + 1e-12)


def test_two_robots_in_many_start_configurations() -> None:
    """The batch gives what single comparisons give."""
    robot = catalogue.load("xu2017")
    heavy = robot.with_inertia_parameters(1.05 * robot.inertia_parameters)
    starts = np.random.default_rng(1).uniform(-1.0, 1.0, (3, robot.n))
    torques = paper.torques(robot)
    found = largest_differences(robot, heavy, torques, 1.0, starts, samples=41)
    for k, start in enumerate(starts):
        one = compare_models(robot, heavy.inertia_parameters.ravel(), torques, 1.0, start, samples=41).largest()
        for name, value in one.items():
            assert found[name][k] == pytest.approx(value, rel=1e-6)


def document(**changes: Any) -> dict[str, Any]:
    with EXAMPLE.open("rb") as file:
        data = tomllib.load(file)
    data.pop("monte_carlo")
    data["sensors"]["sample"] = 1.0
    return {**data, **changes}


def test_example_scenario(tmp_path: Path) -> None:
    data = document()
    data["estimate"] = {"method": "consistent", "prior": 0.2, "write": "found.toml"}
    notes: list[float] = []
    found = run(data, folder=tmp_path, progress=lambda share, what: notes.append(share))
    rows = {row.quantity: row for row in found.rows}
    assert found.sound
    assert rows["rank.total"].value == 52
    assert rows["error.largest"].value < 4.0
    assert found.headline.startswith("The whole robot weighs 548 ± 16 kg")
    assert rows["hold_out.two-joints.base_rate"].value < 1e-4
    assert rows["validation.joint_angle"].value < 1e-2
    assert "by the data" in rows["link1.cx"].note or "prior" in rows["link1.cx"].note
    write_result(found, tmp_path / "out")
    written = load(tmp_path / "out" / "found.toml")
    assert written.mass == pytest.approx(1.15 * 476.0, rel=1e-3)
    assert "supplied by" in (tmp_path / "out" / "found.toml").read_text()
    assert found.settings["written"] == "found.toml"
    assert not (tmp_path / "found.toml").exists()  # beside the scenario nothing appears
    assert notes == sorted(notes)


def test_measured_files(tmp_path: Path) -> None:
    robot = catalogue.load("xu2017")
    sensors = make_sensors(mount=paper.MOUNT, period=1.0)
    data = document(real_scale=1.0)
    data["estimate"] = {"method": "total"}
    data.pop("validation")
    data["sensors"] = {"mount": list(paper.MOUNT), "sample": 1.0}
    for k, (name, experiment) in enumerate(paper.experiments(robot).items()):
        record = read_experiment(robot, experiment, sensors).add_noise([8, k])
        write_record(record, robot, tmp_path / f"{name}.csv")
        data["experiment"][k]["file"] = f"{name}.csv"
    found = run(data, folder=tmp_path)
    rows = {row.quantity: row for row in found.rows}
    assert rows["combination.m*(satellite)"].value == pytest.approx(476.0, abs=0.2)
    assert rows["satellite.mass"].value is None
    assert "undetermined" in rows["satellite.mass"].note
    assert "error.largest" not in rows
    (tmp_path / "joint1.csv").write_text("time,rate.x\n0,1\n1,2\n")
    with pytest.raises(InputError, match="no such column"):
        run(data, folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"robot": "xu2018"}, "did you mean 'xu2017'"),
        ({"sensing": {}}, "did you mean 'sensor'"),
        ({"sensors": {"noise": {"rate": 1.0}}}, r"noise: is given by channel .*\[\[sensor\]\] with kind = \"gyro\""),
        ({"sensors": {"bias_sigma": {"rate": 1.0}}}, r"spread = 1e-6"),
        ({"sensor": [{"kind": "gyro", "delay": 0.1}]}, r"sensor\[0\].*delay.*does not apply to an experiment"),
        ({"sensor": [{"kind": "gyro"}, {"kind": "gyro", "name": "b"}]}, r"sensor\[1\].*second sensor measures 'rate'"),
        ({"sensor": [{"kind": "force_torque", "frame": "hand"}]}, r"sensor\[0\].*wrench"),
        ({"sensors": {"sample": "fast"}}, "not a number"),
        ({"estimate": {"method": "guess"}}, "estimate"),
        ({"estimate": {"known_bodies": ["moon"]}}, "moon"),
        ({"experiment": []}, "there is none"),
    ],
)
def test_what_a_scenario_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = document(**change)
    if "known_bodies" in str(change):
        data["experiment"] = data["experiment"][:2]
    with pytest.raises(InputError, match=message):
        run(data, folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [0.0] * 9}, "both 'values' and 'values_deg'"),
        ({"ends": "natural"}, r"experiment\[1\]: excursions.joint1: is not a clamped spline"),
        ({"times": None}, "excursions.joint1: is not a clamped spline"),
    ],
)
def test_an_excursion_is_a_clamped_spline(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    data = document()
    data["experiment"][1]["excursions"]["joint1"] |= change
    with pytest.raises(InputError, match=message):
        run(data, folder=tmp_path)


def test_paths_of_older_files_are_told_their_new_name(tmp_path: Path) -> None:
    data = document()
    data["experiment"][1]["path"] = [{"joint": "joint1", "times": [0.0, 1.0], "positions": [0.0, 0.1]}]
    with pytest.raises(InputError, match=r"unknown key 'path' \(it is 'excursions' now: excursions.<joint> = "):
        run(data, folder=tmp_path)


def measured(tmp_path: Path) -> dict[str, Any]:
    """The example with every experiment of the paper in a file, hold-out included: a robot 15 % heavier than drawn."""
    robot = catalogue.load("xu2017")
    real = robot.with_inertia_parameters(1.15 * robot.inertia_parameters)
    data = document(real_scale=1.0, estimate={"method": "total", "prior": 0.2})
    data["sensors"] = {"mount": list(paper.MOUNT), "sample": 1.0}
    sensors = make_sensors(mount=paper.MOUNT, period=1.0)
    for k, table in enumerate(data["experiment"]):
        made = ExperimentTable.model_validate(table)
        duration, commands = made.commands(robot)
        record = read_experiment(real, (made.start(real), command_phases(real, commands, duration)), sensors)
        write_record(record.add_noise([9, k]), robot, tmp_path / f"{k}.csv")
        table["file"] = f"{k}.csv"
    return data


def test_a_measured_hold_out_is_read(tmp_path: Path) -> None:
    data = measured(tmp_path)
    rows = {row.quantity: row for row in run(data, folder=tmp_path).rows}
    name = "hold_out.two-joints.base_rate"
    assert TYPICAL_NOISE["rate"] < rows[name].value < 2e-5  # little more than noise
    assert "not against the measured robot" in rows["validation.joint_angle"].note
    # the same file with a base that turns 3 % faster than any model allows
    lines = (tmp_path / "7.csv").read_text().splitlines()
    place = [k for k, column in enumerate(lines[0].split(",")) if column.startswith("rate.")]
    cells = [line.split(",") for line in lines[1:]]
    for row in cells:
        for k in place:
            row[k] = f"{1.03 * float(row[k]):.17g}"
    (tmp_path / "7.csv").write_text("\n".join([lines[0], *(",".join(row) for row in cells)]))
    again = {row.quantity: row for row in run(data, folder=tmp_path).rows}
    assert again[name].value > 3 * rows[name].value
    (tmp_path / "7.csv").unlink()
    with pytest.raises(InputError, match="no such file"):
        run(data, folder=tmp_path)


def test_without_firings_nothing_is_claimed_and_nothing_hangs(tmp_path: Path) -> None:
    data = document()
    data["experiment"] = data["experiment"][1:]
    rows = {row.quantity: row for row in run(data, folder=tmp_path).rows}
    assert rows["rank.total"].value == 51
    assert rows["combination.m*(satellite)"].value is None
    assert rows["error.largest"].value < 4.5
    data["monte_carlo"] = {"samples": 10}
    found = {row.quantity: row for row in run(data, folder=tmp_path).rows}
    assert 0.8 < found["noise.coverage"].value <= 1.0


def test_impossible_bodies_are_not_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = scenario.identify

    def broken(*args: Any, **options: Any) -> Any:
        found = original(*args, **options)
        return replace(found, inertia=-found.inertia)

    monkeypatch.setattr(scenario, "identify", broken)
    data = document(estimate={"method": "total", "write": "found.toml"})
    result = run(data, folder=tmp_path)
    rows = {row.quantity: row for row in result.rows}
    assert rows["validation.possible"].value is False
    assert rows["written"].note == "found.toml was not written: the identified inertias belong to no possible body"
    assert not result.files
    assert "consistent" in rows["validation.possible"].note
    assert "hold_out.two-joints.base_rate" not in rows


@pytest.mark.parametrize(
    "name", ["/elsewhere/robot.toml", "../robot.toml", "a/robot.toml", "..", "robot.toml/", ".robot.toml"]
)
def test_what_is_written_stays_in_the_folder_of_the_results(name: str, tmp_path: Path) -> None:
    notes: list[float] = []
    with pytest.raises(InputError, match="leads out of that folder") as caught:
        run(document(estimate={"write": name}), folder=tmp_path, progress=lambda share, what: notes.append(share))
    assert caught.value.place == "estimate.write"
    assert not notes  # before the run
    with pytest.raises(InputError, match="not a robot file"):
        run(document(estimate={"write": "results.json"}), folder=tmp_path)


def test_a_link_in_the_folder_of_the_results_is_not_followed(tmp_path: Path) -> None:
    data = document(estimate={"method": "consistent", "prior": 0.2, "write": "found.toml"})
    result = run(data, folder=tmp_path)
    precious = tmp_path / "precious.toml"
    precious.write_text("mine")
    write_result(result, tmp_path / "out")
    (tmp_path / "out" / "found.toml").unlink()
    (tmp_path / "out" / "found.toml").symlink_to(precious)
    write_result(result, tmp_path / "out")
    assert precious.read_text() == "mine"
    assert load(tmp_path / "out" / "found.toml").n == 6


def test_an_unsound_result_is_kept_without_its_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is written with everything but the robot, and says so."""
    certificate = scenario.InertiaFindings.certificate
    monkeypatch.setattr(
        scenario.InertiaFindings,
        "certificate",
        lambda found: {**certificate(found), "forced": Check.from_condition(False, "")},
    )
    data = document(estimate={"method": "consistent", "prior": 0.2, "write": "found.toml"})
    result = run(data, folder=tmp_path)
    assert not result.sound
    write_result(result, tmp_path / "out")
    assert not list(tmp_path.rglob("found.toml"))
    assert "found.toml was not written: the result is not sound" in (tmp_path / "out" / "index.html").read_text()


def test_consistent_rows_are_the_written_robot(tmp_path: Path) -> None:
    data = document(estimate={"method": "consistent", "prior": 0.2, "write": "found.toml"})
    result = run(data, folder=tmp_path)
    rows = {row.quantity: row for row in result.rows}
    written = robot_from_toml(result.files["found.toml"])
    for body in written.bodies:
        assert rows[f"{body.name}.mass"].value == pytest.approx(body.inertia.mass, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensor": [{"kind": "gyro", "bias": [1e-6, 2e-6]}]}, "bias of 'rate'"),
        ({"sensor": [{"kind": "star_tracker", "bias": [1.0, 0.0, 0.0, 0.0]}]}, "bias of 'attitude'"),
        ({"sensor": [{"kind": "tachometer", "bias": [1e-6]}]}, "expected 6"),
        ({"sensors": {"bias": {"rate": 1e-6}}}, r"\[\[sensor\]\] with kind = \"gyro\", bias"),
        ({"sensors": {"channels": []}}, "no measured channel"),
        ({"sensors": {"sample": 100.0}}, "two samples or more"),
    ],
)
def test_what_sensors_refuse(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = document()
    for name, own in change.items():
        data[name] = {**data[name], **own} if isinstance(own, dict) else own
    with pytest.raises(InputError, match=message):
        run(data, folder=tmp_path)


def test_what_experiments_refuse(tmp_path: Path) -> None:
    data = document()
    for table in data["experiment"][0]["thruster"]:
        table["on"] = [[table["on"][0][0] + 0.3, table["on"][0][0] + 0.7]]
    with pytest.raises(InputError, match=r"fires between two samples, from 0\.3 s to 0\.7 s"):
        run(data, folder=tmp_path)
    data = document()
    data["experiment"][1]["name"] = "thrusters"
    with pytest.raises(InputError, match="two are called 'thrusters'"):
        run(data, folder=tmp_path)
    data = document()
    data["experiment"][0]["thruster"][0]["on"] = [[58.0, 61.0]]
    with pytest.raises(InputError, match=r"experiment\[0\]: thruster\[0\].*fires until 61 s, beyond the end at 60 s"):
        run(data, folder=tmp_path)
    data = document()
    data["experiment"][0]["thruster"][1]["name"] = "thruster1"
    data["experiment"][0]["thruster"][1]["on"] = [[4.0, 10.0]]
    with pytest.raises(InputError, match=r"thruster\[1\]: command 'thruster1': is 2 .expected a level from 0 to 1"):
        run(data, folder=tmp_path)
    data = document()
    data["experiment"][0]["thruster"][0]["level"] = -1.0
    with pytest.raises(InputError, match="level reaches -1"):
        run(data, folder=tmp_path)


def test_the_papers_page_and_scene_in_a_browser(result: Result, tmp_path: Path) -> None:
    check_pages(result, tmp_path)


def test_the_file_knows_every_nuisance_of_the_table() -> None:
    """The tilt of an accelerometer was documented, and refused by the file."""
    table = EstimateTable.model_validate({"nuisances": dict.fromkeys(INERTIA_NUISANCES, True)})
    assert set(table.estimated_nuisances()) == set(INERTIA_NUISANCES)
    assert EstimateTable.model_validate({"nuisances": {"acceleration_misalignment": 0.01}}).estimated_nuisances() == {
        "acceleration_misalignment": 0.01
    }
    with pytest.raises(ValueError, match="nuisances"):
        EstimateTable.model_validate({"nuisances": {"misaligned": True}})
