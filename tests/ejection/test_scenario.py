"""Scenario files of the ejection study, and what is said of wrong ones."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.ejection.scenario import run
from spacearm.errors import InputError, SimulationError
from spacearm.result import Result
from spacearm.scenarios import run_scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "ejection.toml"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The example, made short."""
    data = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    data["map"]["resolution"] = [5, 5]
    data["search"] |= {"samples": 64, "refine": 4}
    data["monte_carlo"]["samples"] = 40
    return data


@pytest.fixture(scope="module")
def result(document: dict[str, Any]) -> Result:
    return run(document, folder=EXAMPLE.parent, cross_check=True)


def test_the_example_runs_and_is_sound(result: Result) -> None:
    assert result.sound
    values = {row.quantity: row.value for row in result.rows}
    assert values["attitude1.time"] == pytest.approx(0.2798, abs=1e-4)
    assert values["bent.velocity"] == pytest.approx(0.5876, abs=1e-4)
    assert values["bent.segmented.velocity"] < values["bent.velocity"]
    assert values["attitude1.stop.joint6"] == 0.0
    assert values["attitude1.clearance.base"] == pytest.approx(0.1)
    assert {"best.velocity", "monte_carlo.velocity.percentile5", "best.joint.joint2"} <= set(values)
    names = [figure.name for figure in result.figures]
    assert names[0] == "methods"
    assert {"velocity", "angular-velocity", "joints", "energy", "attitude-map", "monte-carlo"} <= set(names)
    assert "mujoco" in " ".join(result.certificate)
    assert result.data is not None
    assert "map_velocity" in result.data


def test_the_result_can_be_written(result: Result, tmp_path: Path) -> None:
    from spacearm.report import write_result

    page = write_result(result, tmp_path / "out")
    assert page.exists()
    assert (tmp_path / "out" / "data.nc").exists()


def test_a_satellite_that_recoils(document: dict[str, Any]) -> None:
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device")}
    data["device"]["satellite"] = {"mass": 500.0, "inertia": [80.0, 80.0, 80.0]}
    data["device"]["friction"] = {"coulomb": 3.0}
    data["attitude"] = {"posture": "attitude2"}
    values = {row.quantity: row.value for row in run(data, folder=EXAMPLE.parent).rows}
    assert values["attitude2.recoil.velocity"] > 0.01
    assert values["attitude2.energy.satellite"] > 0.0


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"device.stroke": 0.0}, "device: separation device", "rail has length 0"),
        ({"device.compression": 0.0}, "device: separation device", "already spent"),
        ({"device.friction": {"static": 1.0, "coulomb": 2.0}}, "device: friction", "below Coulomb"),
        ({"device.stifness": 1.0}, "device.stifness", "unknown key"),
        ({"attitude": [{"joints_deg": [0.0, 10.0, 0.0]}]}, "attitude[0]: attitude", "outside its limits"),
        ({"attitude": [{"joints_deg": [0.0, 10.0]}]}, "attitude[0]: joints_deg", "has 2 numbers"),
        ({"attitude": [{"name": "a"}]}, "attitude[0]", "no attitude"),
        ({"attitude": []}, "attitude", "there is no 'attitude'"),
        ({"freeze": ["joint9"]}, "freeze", "no joint 'joint9'"),
        ({"keep_out": [{"low": [0.0, 0.0, 0.0]}]}, "keep_out[0]", "neither a plane nor a box"),
        ({"table": "z"}, "table: rig", "leaves the table"),
        ({"robot": "cai2024"}, "robot", "neither a file nor"),
        ({"radii": {"hand9": 0.1}}, "radii", "no body 'hand9'"),
        ({"map.joints": ["joint2", "joint2"]}, "map: attitude map", "different joints"),
        ({"search.velocity": -1.0}, "search: goal", "weights"),
        ({"search.samples": 0}, "search: best attitude", "samples is 0"),
        ({"search.limit_margin_deg": 100.0}, "search: best attitude", "no range"),
        ({"search.seed": -1}, "search.seed", "greater than or equal to 0"),
        ({"monte_carlo.seed": -1}, "monte_carlo.seed", "greater than or equal to 0"),
        ({"attitude": [{"name": "a/b", "posture": "attitude1"}]}, "attitude[0]: name", "is 'a/b'"),
    ],
)
def test_faults_are_told_with_their_place(
    document: dict[str, Any], change: dict[str, Any], place: str, words: str
) -> None:
    data = copy.deepcopy(document)
    for path, value in change.items():
        *tables, key = path.split(".")
        where = data
        for name in tables:
            where = where[name]
        where[key] = value
    with pytest.raises(InputError, match=words) as caught:
        run(data, folder=EXAMPLE.parent)
    assert caught.value.place.startswith(place)


def test_the_dispatcher_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('study = "ejection"\nrobot = "cai2023"\n', encoding="utf-8")
    with pytest.raises(InputError, match="'device' is missing") as caught:
        run_scenario(path)
    assert caught.value.file == path


def test_numbers_are_finite(result: Result) -> None:
    for row in result.rows:
        if isinstance(row.value, float):
            assert not np.isnan(row.value), row.quantity


def test_a_run_that_does_not_leave_the_rail_names_its_attitude(document: dict[str, Any]) -> None:
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device")}
    data |= {"limits": "stop", "attitude": {"name": "folded", "joints_deg": [60.0, -179.9, 0.0]}}
    with pytest.raises(SimulationError, match="does not leave the rail") as caught:
        run(data, folder=EXAMPLE.parent)
    assert caught.value.place.startswith("attitude 'folded'")


def test_the_monte_carlo_of_a_file_knows_its_radii(document: dict[str, Any]) -> None:
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device", "keep_out")}
    data |= {"attitude": {"posture": "attitude2"}, "flight": 1.0, "monte_carlo": {"samples": 4}}
    found = []
    for radius in (0.0, 0.03):
        rows = run(data | {"radii": radius}, folder=EXAMPLE.parent).rows
        found.append(next(row.value for row in rows if row.quantity == "monte_carlo.clearance.worst"))
    assert found[0] - found[1] == pytest.approx(0.03, abs=1e-9)
