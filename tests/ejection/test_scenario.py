"""Scenario files of the ejection study, and what is said of wrong ones."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.ejection import ReleaseState, Rig, SeparationDevice, SeparationSpring, eject, reduce_to_plane
from spacearm.errors import InputError, SimulationError
from spacearm.model import catalogue
from spacearm.result import Result
from spacearm.study import run_document as run
from spacearm.study import run_scenario
from support import ROOT

EXAMPLE = ROOT / "examples" / "ejection.toml"


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
    assert values["attitude1.stop.joint6"] == 0.0
    assert values["attitude1.clearance.base"] == pytest.approx(0.1)
    assert {"best.velocity", "monte_carlo.velocity.percentile5", "best.joint.joint2"} <= set(values)
    names = [figure.name for figure in result.figures]
    assert {"velocity", "angular-velocity", "joints", "energy", "configuration-map", "monte-carlo"} <= set(names)
    assert "mujoco" in " ".join(result.certificate)
    assert result.data is not None
    assert "map_velocity" in result.data


def test_the_summary_reads_as_a_sentence(result: Result, document: dict[str, Any]) -> None:
    assert f" kg, over {1e3 * document['device']['stroke']:g} mm with " in result.summary


def test_the_result_can_be_written(result: Result, tmp_path: Path) -> None:
    from spacearm.report import write_result

    page = write_result(result, tmp_path / "out")
    assert page.exists()
    assert (tmp_path / "out" / "data.nc").exists()


def test_the_headline_names_peak_and_end(document: dict[str, Any]) -> None:
    """The largest angular velocity of the figure is the peak that the headline and a row name, apart from the end's."""
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device")}
    data["configuration"] = {"configuration": "attitude2"}
    result = run(data, folder=EXAMPLE.parent)
    rows = {row.quantity: row.value for row in result.rows}
    (figure,) = [figure.plot for figure in result.figures if figure.name == "angular-velocity"]
    peak, end = max(figure.data[0].y), np.degrees(rows["attitude2.angular_velocity"])
    assert np.degrees(rows["attitude2.peak_angular_velocity"]) == pytest.approx(peak, rel=1e-12)
    assert peak > 2.0 * end
    assert f"peaks at {peak:.2g} deg/s" in result.headline
    assert f"once its joints have stopped it tumbles at {end:.2g} deg/s on average" in result.headline


def test_a_satellite_that_recoils(document: dict[str, Any]) -> None:
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device")}
    data["device"]["satellite"] = {"mass": 500.0, "inertia": [80.0, 80.0, 80.0]}
    data["device"]["friction"] = {"coulomb": 3.0}
    data["configuration"] = {"configuration": "attitude2"}
    values = {row.quantity: row.value for row in run(data, folder=EXAMPLE.parent).rows}
    assert values["attitude2.recoil.velocity"] > 0.01
    assert values["attitude2.energy.satellite"] > 0.0


def test_springs_one_by_one_and_a_tumbling_release(document: dict[str, Any]) -> None:
    """The file says the same as the objects in Python; map, search and Monte Carlo start from the same motion."""
    curve = [[0.0, 100.0], [0.04, 80.0], [0.086, 0.0]]
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device")}
    data["device"] = {
        "stroke": 0.086,
        "pivot": [0.0, 0.0, -0.5],
        "spring": [{"curve": curve}, {"stiffness": 500.0, "compression": 0.05, "position": [0.1, 0.0, 0.0]}],
    }
    data["release"] = {"angular_velocity_deg": [0.0, 3.0, 0.0], "rates_deg": [0.0, 2.0, 0.0]}
    data["configuration"] = {"configuration": "attitude2"}
    data["map"] = {"joints": ["joint2", "joint4"], "resolution": [3, 3]}
    data["search"] = {"samples": 16, "refine": 1, "keep": 1}
    data["monte_carlo"] = {"samples": 5, "friction": 0.0, "damping": 0.0, "spring": 0.0, "mass": 0.0}
    result = run(data, folder=EXAMPLE.parent, cross_check=True)
    assert result.sound
    values = {row.quantity: row.value for row in result.rows}
    springs = [SeparationSpring(curve=curve), SeparationSpring(500.0, 0.05, position=np.array([0.1, 0.0, 0.0]))]
    arm = reduce_to_plane(catalogue.load("cai2023"), document["freeze"])
    rig = Rig(arm, SeparationDevice(stroke=0.086, springs=springs, pivot=np.array([0.0, 0.0, -0.5])), "y")
    release = ReleaseState(rates=np.radians([0.0, 2.0, 0.0]), angular_velocity=np.radians([0.0, 3.0, 0.0]))
    done = eject(rig, "attitude2", release=release)
    assert values["attitude2.velocity"] == pytest.approx(done.velocity, rel=1e-12)
    assert values["attitude2.angular_velocity"] == pytest.approx(np.linalg.norm(done.angular_velocity), rel=1e-12)
    best = [values[f"best.joint.{name}"] for name in arm.joint_names]
    found = eject(rig, best, release=release)
    assert values["best.velocity"] == pytest.approx(found.velocity, rel=1e-6)
    assert values["monte_carlo.velocity.worst"] == pytest.approx(found.velocity, rel=1e-6)
    assert result.data is not None
    chart = result.data
    at = [float(chart["map_joint2"][1]), float(chart["map_joint4"][1]), 0.0]
    assert float(chart["map_velocity"][1, 1]) == pytest.approx(eject(rig, at, release=release).velocity, rel=1e-6)
    assert {"rail_force", "rail_moment"} <= set(chart)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"device.stroke": 0.0}, "device: separation device", "stroke is 0"),
        ({"device.compression": 0.0}, "device: separation device", "fully extended at the start"),
        ({"device.friction": {"static": 1.0, "coulomb": 2.0}}, "device: friction", "below Coulomb"),
        ({"device.stifness": 1.0}, "device.stifness", "unknown key"),
        (
            {"configuration": [{"joints_deg": [0.0, 10.0, 0.0]}]},
            "configuration[0]: configuration",
            "outside its limits",
        ),
        ({"configuration": [{"joints_deg": [0.0, 10.0]}]}, "configuration[0]: joints_deg", "has 2 numbers"),
        ({"configuration": [{"name": "a"}]}, "configuration[0]", "no configuration"),
        ({"configuration": []}, "configuration", "there is no 'configuration'"),
        ({"freeze": ["joint9"]}, "freeze", "no joint 'joint9'"),
        ({"keep_out": [{"low": [0.0, 0.0, 0.0]}]}, "keep_out[0]", "neither a plane nor a box"),
        ({"table": "z"}, "table: rig", "leaves the table"),
        ({"robot": "cai2024"}, "robot", "neither a file nor"),
        ({"radii": {"hand9": 0.1}}, "radii", "no body 'hand9'"),
        ({"map.joints": ["joint2", "joint2"]}, "map: configuration map", "different joints"),
        ({"search.velocity": -1.0}, "search: goal", "weights"),
        ({"search.samples": 0}, "search.samples", "value is 0"),
        ({"search.limit_margin_deg": 100.0}, "search: best configuration", "no range"),
        ({"search.seed": -1}, "search.seed", "value is -1"),
        ({"monte_carlo.seed": -1}, "monte_carlo.seed", "value is -1"),
        ({"device.spring": [{"stiffness": 1.0, "compression": 1.0}]}, "device", "both 'springs' and 'spring'"),
        ({"device": {"stroke": 0.086, "spring": []}}, "device: separation device", "not a list of SeparationSpring"),
        ({"device": {"stroke": 0.086, "spring": [{"stiffness": 1.0}]}}, "device: spring[0]", "no compression"),
        ({"device": {"stroke": 0.086, "spring": [{"curve": [[0.0]]}]}}, "device: spring[0]", "two or more points"),
        ({"device": {"stroke": 0.086}}, "device: separation device", "no stiffness"),
        ({"release": {"angular_velocity": [0.1, 0.0, 0.0]}}, "release", "leaves the table"),
        ({"release": {"rates": [0.1]}}, "release: rates", "has 1 numbers"),
        ({"release": {"rates_deg": [0.1]}}, "release: rates_deg", "has 1 numbers"),
        (
            {"release": {"angular_velocity": [0.0, 0.1, 0.0], "angular_velocity_deg": [0.0, 1.0, 0.0]}},
            "release",
            "both 'angular_velocity' and 'angular_velocity_deg'",
        ),
        ({"segmented": True}, "segmented", "belongs to the reproduction of Cai"),
        ({"configuration": [{"name": "a/b", "configuration": "attitude1"}]}, "configuration[0]: name", "is 'a/b'"),
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


def test_a_run_that_does_not_leave_the_rail_names_its_configuration(document: dict[str, Any]) -> None:
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device")}
    data |= {"limits": "stop", "configuration": {"name": "folded", "joints_deg": [60.0, -179.9, 0.0]}}
    with pytest.raises(SimulationError, match="does not leave the rail") as caught:
        run(data, folder=EXAMPLE.parent)
    assert caught.value.place.startswith("configuration 'folded'")


def test_the_monte_carlo_of_a_file_knows_its_radii(document: dict[str, Any]) -> None:
    data = {key: copy.deepcopy(document[key]) for key in ("study", "robot", "freeze", "table", "device", "keep_out")}
    data |= {"configuration": {"configuration": "attitude2"}, "flight": 1.0, "monte_carlo": {"samples": 4}}
    found = []
    for radius in (0.0, 0.03):
        rows = run(data | {"radii": radius}, folder=EXAMPLE.parent).rows
        found.append(next(row.value for row in rows if row.quantity == "monte_carlo.clearance.worst"))
    assert found[0] - found[1] == pytest.approx(0.03, abs=1e-9)


def test_limits_of_joints_that_are_drawn_are_in_sight(result: Result) -> None:
    plot = next(figure.plot for figure in result.figures if figure.name == "joints")
    lines = [(shape.yref, shape.y0) for shape in plot.layout.shapes]
    assert lines
    for axis, place in lines:
        low, high = plot.layout[axis.replace("y", "yaxis")].range
        assert low < place < high
