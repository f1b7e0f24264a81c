"""The tool that reads a folder of robots: one line a file whatever the file, and differences that it finds."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from spacearm.model import catalogue, save
from support import ROOT

TOOL = ROOT / "tools" / "robots.py"

INERTIAL = '<inertial><mass value="{}"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="{}"/></inertial>'
ARM = (
    '<robot name="arm"><link name="a">{}</link><link name="b">{}</link><joint name="j" type="continuous">'
    '<parent link="a"/><child link="b"/><origin xyz="0.1 0.2 0.3" rpy="1 2 3"/></joint></robot>'
)


def tool():
    spec = importlib.util.spec_from_file_location("robots_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["robots_tool"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::spacearm.model.notices.LossyConversion")
def test_one_line_for_each_file_and_a_summary(tmp_path):
    good, bad = INERTIAL.format(2, 1), INERTIAL.format(2, 3)
    (tmp_path / "good.urdf").write_text(ARM.format(good, good))
    (tmp_path / "repairable.urdf").write_text(ARM.format(good, bad))
    (tmp_path / "massless.urdf").write_text(ARM.format("", ""))
    (tmp_path / "negative.urdf").write_text(ARM.format(good, INERTIAL.format(-2, 1)))
    (tmp_path / "noise.urdf").write_bytes(bytes(range(256)))
    save(catalogue.load("yoshida1992"), tmp_path / "yoshida1992.urdf")
    report = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, TOOL, tmp_path, "--states", "3", "--json", report], capture_output=True, text=True, check=False
    )
    lines = {line["file"]: line for line in json.loads(report.read_text())}
    outcomes = {name: line["outcome"] for name, line in lines.items()}
    assert outcomes == {
        "good.urdf": "read",
        "repairable.urdf": "repaired",
        "massless.urdf": "repaired",
        "negative.urdf": "refused",
        "noise.urdf": "refused",
        "yoshida1992.urdf": "read",
    }
    assert "mass is -2" in lines["negative.urdf"]["reason"]
    for name in ("good.urdf", "repairable.urdf", "massless.urdf", "yoshida1992.urdf"):
        assert lines[name]["difference"] < 1e-10
        assert not any(lines[name]["round_trips"].values())
    assert len(ran.stdout.splitlines()) == len(outcomes) + 4
    assert ran.stdout.splitlines()[-4].startswith("6 files: ")
    assert ran.returncode == 0


def test_a_difference_is_found(tmp_path, monkeypatch):
    module = tool()
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.format(INERTIAL.format(2, 1), INERTIAL.format(2, 1)))

    def other(path, **options):
        robot = module_load(path, **options)
        parameters = np.array(robot.inertia_parameters)
        parameters[1, 4:7] *= 1.0 + 1e-8
        return robot.with_inertia_parameters(parameters)

    module_load = module.load
    assert module.examine(path, "arm", repair=True, states=2).good
    monkeypatch.setattr(module, "load", other)
    line = module.examine(path, "arm", repair=True, states=2)
    assert not line.good
    assert 1e-9 < line.difference < 1e-7


def test_what_the_other_parser_skips_is_no_difference(tmp_path):
    """Pinocchio's parser drops an inertia whose number ends in a line break, which XML reads as a blank."""
    module = tool()
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.format(INERTIAL.format(2, 1), INERTIAL.format(2, 1)).replace('izz="1"', 'izz="1\n"'))
    line = module.examine(path, "arm", repair=True, states=2)
    assert line.good
    assert line.compared.startswith("as written")


@pytest.mark.parametrize("how", ["raises", "dies", "hangs"])
def test_a_crash_is_one_line(how, tmp_path, monkeypatch):
    module = tool()
    monkeypatch.setattr(module, "PATIENCE", 5.0)
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.format(INERTIAL.format(2, 1), INERTIAL.format(2, 1)))
    options = {"repair": True, "states": 1}
    if how == "raises":
        options["states"] = "many"
    worker = module.Worker(options)
    if how != "raises":
        monkeypatch.setattr(module, "_serve", {"dies": _dies, "hangs": _hangs}[how])
    (line,) = worker.examine(path, "arm")
    worker.close()
    assert line.outcome == "crashed"
    assert line.reason
    assert not line.good


def _dies(pipe, _):
    pipe.recv()
    sys.exit(3)


def _hangs(pipe, _):
    while True:
        pipe.recv()
