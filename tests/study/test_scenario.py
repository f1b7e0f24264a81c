"""What a study of another package needs, and what it gets for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.study import Findings, register, row, run_document, run_scenario
from spacearm.study.findings import NotedValue, make_rows
from spacearm.study.scenario import STUDIES
from spacearm.study.tables import StartTable
from support import ROOT

SCENARIO = """
study = "mass-centre"
robot = "yoshida1992"

[[sweep]]
name = "last"
joint = "joint2"
joints_deg = { joint1 = 90.0 }
"""


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacearm.study.scenario.STUDIES", STUDIES)
    monkeypatch.setitem(STUDIES, "mass-centre", "")
    register("mass-centre", "support.mass_centre_study:MassCentreFile")


@pytest.mark.usefixtures("known")
def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "case.toml").write_text(SCENARIO)
    out = tmp_path / "out"
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(out)]) == 0
    saved = json.loads((out / "results.json").read_text())
    rows = {row["quantity"]: row["value"] for row in saved["rows"]}
    # three rods of 1 m and 1 kg: the last one's middle turns at 0.5 m about its joint, a third of all mass
    assert rows["mass"] == pytest.approx(3.0)
    assert rows["sweep.last.radius"] == pytest.approx(0.5 / 3.0, rel=1e-12)
    assert saved["certificate"]["sound"]
    with xr.open_dataset(out / "data.nc", engine="h5netcdf") as data:
        assert data["path_last"].attrs["units"] == "m"
        assert np.ptp(np.linalg.norm(data["path_last"] - data["path_last"].mean("angle_last"), axis=1)) < 1e-2
    assert "Mass centre of" in (out / "index.html").read_text()
    assert 'id="paths"' in (out / "index.html").read_text()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ('joint = "joint2"', 'joint = "joint9"', r"case\.toml: sweep\[0\]: .*no joint 'joint9'"),
        ("joint1 = 90.0", "joint1 = nan", r"sweep\[0\]\.joints_deg\.\S*.*nan"),
        ("joints_deg", "jonts_deg", r"sweep\[0\].*unknown key 'jonts_deg'.*did you mean 'joints_deg'"),
        ("joints_deg = { joint1 = 90.0 }", "posture = 'L'", "it is called 'configuration' now"),
        ("joints_deg = {", "joints = { joint1 = 1.0 }\njoints_deg = {", "both 'joints' and 'joints_deg' are given"),
        ('"mass-centre"', '"mass-center"', "there is no study 'mass-center' .did you mean 'mass-centre'"),
    ],
)
def test_its_errors_have_a_place(old: str, new: str, note: str, tmp_path: Path) -> None:
    assert old in SCENARIO
    (tmp_path / "case.toml").write_text(SCENARIO.replace(old, new))
    with pytest.raises(InputError, match=note) as caught:
        run_scenario(tmp_path / "case.toml")
    assert caught.value.file == tmp_path / "case.toml"


def test_it_costs_about_a_hundred_lines() -> None:
    assert len((ROOT / "tests" / "support" / "mass_centre_study.py").read_text().splitlines()) <= 100


class Inner(Findings):
    size: float = row("m")


class Outer(Findings):
    inner: Inner = row()
    missing: float | None = row("s")
    table: dict[str, object] = row("kg", "each", name="parts")
    hidden: float
    double = row("m", of="inner.size")


def test_rows_come_from_the_fields() -> None:
    found = Outer(inner=Inner(size=2.0), missing=None, table={"": 1.0, "a": NotedValue(None, "none", "g")}, hidden=5.0)
    assert [(r.quantity, r.value, r.unit, r.note) for r in make_rows(found)] == [
        ("inner.size", 2.0, "m", ""),
        ("parts", 1.0, "kg", "each"),
        ("parts.a", None, "g", "none"),
        ("double", 2.0, "m", ""),
    ]


def test_joints_by_name_stand_on_top_of_a_configuration() -> None:
    robot = catalogue.load("xu2017")
    start = StartTable(configuration="normal", joints={"joint2": 0.25}, joints_deg={"joint3": 90.0})
    want = np.array(robot.configuration("normal"))
    want[1:3] = 0.25, np.pi / 2
    np.testing.assert_allclose(start.state(robot).joints, want, rtol=1e-15)
    with pytest.raises(InputError, match="both 'configuration' and 'joints' are given"):
        StartTable(configuration="normal", joints=[0.0] * 6).state(robot)
    with pytest.raises(InputError, match="is prismatic and cannot be given in degrees"):
        StartTable(joints_deg={"joint1.slide_z": 1.0}).state(catalogue.load("zhang2020"))


def test_a_study_does_not_import_the_others() -> None:
    script = (
        "import sys, pathlib\n"
        "from spacearm.study import run_document\n"
        "run_document({'robot': 'yoshida1992', 'phase': [{'duration': 0.1}]}, folder=pathlib.Path())\n"
        "print(*(name for name in ('impact', 'ejection', 'capture', 'identify') if f'spacearm.{name}' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_document_needs_a_study_that_exists() -> None:
    with pytest.raises(InputError, match="there is no study 5"):
        run_document({"study": 5}, folder=Path())
