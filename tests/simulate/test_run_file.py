"""Runs that are kept: pickled, as files, compared, and shown in a notebook."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import spacearm as sa
from spacearm.errors import InputError
from spacearm.result import Result, Row
from spacearm.simulate import Dopri853, Lock, Phase, Run, State, compare, load_run


@pytest.fixture(scope="module")
def run() -> Run:
    robot = sa.catalogue.load("yoshida1992")
    push = sa.Load.from_direction("hand", [1.0, 0.0, 0.0], sa.simulate.constant(1.0))
    start = State.from_velocities(robot, "L", base_angular_velocity=[0.0, 0.0, 0.2])
    return sa.simulate(robot, start, [Phase(0.5, loads=[push]), Lock("joint1"), Phase(0.5)], sample=0.02)


def same(a: Run, b: Run) -> None:
    assert repr(a) == repr(b)
    assert len(a.tracks) == len(b.tracks) == 2
    for mine, theirs in zip(a.tracks, b.tracks, strict=True):
        xr.testing.assert_identical(mine.data, theirs.data)
        assert mine.robot == theirs.robot
    assert (a.sound, a.why, a.events, a.stats, a.phase_starts) == (b.sound, b.why, b.events, b.stats, b.phase_starts)
    assert str(a.certificate) == str(b.certificate)
    assert a.end is not None
    assert b.end is not None
    np.testing.assert_array_equal(a.end.vector, b.end.vector)


def test_a_run_comes_back_from_a_pickle_in_another_process(run: Run, tmp_path: Path) -> None:
    same(run, pickle.loads(pickle.dumps(run)))
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(run))
    code = f"""
import pickle
run = pickle.load(open({str(tmp_path / "run.pickle")!r}, "rb"))
print(sum(track.data.sizes["time"] for track in run.tracks))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == sum(track.times.size for track in run.tracks)


def test_a_run_comes_back_from_its_file(run: Run, tmp_path: Path) -> None:
    path = run.to_netcdf(tmp_path / "run.nc")
    same(run, load_run(path))
    with xr.open_dataset(path, group="track0", engine="h5netcdf") as data:  # for everybody
        assert data["base_position"].attrs["units"] == "m"
    assert [item.name for item in tmp_path.iterdir()] == ["run.nc"]
    with pytest.raises(InputError, match="run it again"):
        sa.cross_check(load_run(path))


def test_what_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_run(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("nothing")
    with pytest.raises(InputError, match="does not hold a run"):
        load_run(tmp_path / "text.nc")
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="does not hold a run"):
        load_run(tmp_path / "other.nc")


def test_runs_are_compared_where_they_differ_most() -> None:
    robot = sa.catalogue.load("yoshida1992")
    a = sa.simulate(robot, State.from_velocities(robot, base_velocity=[0.1, 0.0, 0.0]), 2.0, sample=0.1)
    b = sa.simulate(robot, State.from_velocities(robot, base_velocity=[0.0, 0.1, 0.0]), 1.0, sample=0.03)
    found = compare(a, b)
    assert found["base_velocity"].difference == pytest.approx(0.1 * np.sqrt(2.0), rel=1e-9)
    assert found["base_position"].difference == pytest.approx(0.1 * np.sqrt(2.0), rel=1e-6)
    assert found["base_position"].time == pytest.approx(1.0)  # where the shorter one ends
    spun = sa.simulate(
        robot, State.from_velocities(robot, base_angular_velocity=[0.0, 0.0, 0.5]), 1.0, method=Dopri853()
    )
    still = sa.simulate(robot, State.at_rest(robot), 1.0)
    angle = 2 * np.arccos(abs(spun.states[-1, 3]))
    assert compare(spun, still)["base_attitude"].difference == pytest.approx(angle, abs=1e-9)
    assert "Base position" in str(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(InputError, match="two runs or two results"):
        compare(a, Result("demo"))


def test_results_are_compared_row_by_row() -> None:
    a = Result("demo", [Row("mass", 2.0, "kg"), Row("law", "linear"), Row("only.here", 1.0)])
    b = Result("demo", [Row("law", "stribeck"), Row("mass", 2.5, "kg")])
    found = {each.quantity: each.difference for each in compare(a, b)}
    assert found.keys() == {"mass", "law"}
    assert found["mass"] == 0.5
    assert np.isnan(found["law"])


def test_notebooks_show_tables_and_reprs_are_short(run: Run) -> None:
    result = Result(
        "demo", [Row("virtual_mass.peak", 3.0, "kg", 3.1, "Sec. 1", "differs", "why")], title="<b>", headline="So."
    )
    for thing, words in ((run, "yoshida1992"), (run.tracks[0].robot, "joint1"), (result, "Virtual mass, peak")):
        html = thing._repr_html_()
        assert words in html
        assert "<table>" in html
        assert len(repr(thing)) < 100
    assert "<b>" not in result._repr_html_()
    assert pickle.loads(pickle.dumps(result)).to_json() == result.to_json()
