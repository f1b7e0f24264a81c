"""Names are text: whatever stands in them, no exported or written file takes it for code, marks or places."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import numpy as np
import pytest

from spacearm.cli.app import run_app
from spacearm.control import Encoder, joint_pid
from spacearm.errors import InputError
from spacearm.export import export_c, export_fmu
from spacearm.export._motion_code import motion_code
from spacearm.figures import add_curve, new_figure
from spacearm.model import Frame, Pose, Robot, load, save
from spacearm.model.edit import rename
from spacearm.model.parts import Thruster
from spacearm.report.write import write_files
from spacearm.result import Figure, Result, Row
from spacearm.scene import scene_of
from spacearm.simulate import RK4, Event, Phase, Run, State, simulate
from support.cli import Capture
from support.compilers import build
from support.random_robots import random_robot

#: Runs where it is loaded, if it gets out of a comment or a string.
CODE = 'int puts(const char*); __attribute__((constructor)) static void e{}(void){{puts("RAN");}}'
HOSTILE = [
    f"j */ {CODE.format(1)} /*",
    f'j"; {CODE.format(2)} //',
    "j \\",
    "??/ ??' ??) *??/",
    "*/*//*/*",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onload="alert(1)" x=\'',
    "{{ 7 * 7 }} {% raw %} ${x} %s%n%p %{x}",
    "<a href='javascript:alert(1)'>a</a><sub>\\frac{</sub>$\\undefined",
    "../../up/..",
    "/etc/name",
    "NAME_x CASES DERIVE @TOKEN@",
    "]]> &lt; &amp; \\u003c <!-- -->",
    "naïve 机器人 😀",
    "n" * 3000,
]
#: What no name may hold: refused before anything is written.
UNPRINTABLE = ["line\nbreak", "nul\0", "bell\a", "left \u202e right", "\u2028", "\ud800"]


def called(names: list[str], seed: int = 3) -> Robot:
    """A robot whose bodies, joints, frames and thrusters, and itself, are called so, each by another of the names."""
    plain = random_robot(seed, 2, geometry="mixed")
    fresh = iter(f"{name}{'' if k < len(names) else k}" for k, name in enumerate(names * 9))
    base = plain.body_names[0]
    frames = tuple(Frame(f"frame {k}", base, Pose()) for k in range(len(names)))
    thruster = Thruster("thruster", base, np.zeros(3), np.array([0.0, 0.0, 1.0]), 1.0)
    made = plain.replace(frames=frames, thrusters=(thruster,), name=next(fresh), configurations={})
    parts = [*(frame.name for frame in frames), *made.joint_names, *made.body_names, "thruster"]
    return rename(made, {name: next(fresh) for name in parts})


@pytest.fixture(scope="module")
def robot() -> Robot:
    return called(HOSTILE)


def loads(library: Path) -> subprocess.CompletedProcess[str]:
    code = f"import ctypes; ctypes.CDLL({str(library)!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_exported_c_compiles_and_runs_nothing_of_a_name(robot: Robot, tmp_path: Path) -> None:
    first, last = robot.joint_names
    plan = [Phase(0.02, until=Event(first, 3.0), events=[Event(f"{last}.rate", 2.0)], name=HOSTILE[0], limits="ignore")]
    law = joint_pid([0.0] * robot.n, 1.0, 1.0, period=0.01).replace(sensors=[Encoder(noise=1e-4)], name=HOSTILE[0])
    plan.append(Phase(0.02, laws=law, limits="ignore"))
    folder = tmp_path / "c"
    motion = motion_code(robot, State.at_rest(robot), plan, RK4(0.01))
    paths = export_c(robot, folder, motion=motion)
    assert {path.parent for path in paths} == {folder}
    program = build([path for path in paths if path.suffix == ".c"], folder / "test")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("name", HOSTILE[:6] + HOSTILE[10:], ids=str)
def test_a_robot_of_any_name_is_exported(name: str, tmp_path: Path) -> None:
    robot = random_robot(1, 1).replace(name=name)
    paths = export_c(robot, tmp_path)
    assert {path.parent for path in paths} == {tmp_path}
    objects = [path for path in paths if path.suffix == ".c" and not path.name.endswith("_test.c")]
    assert "RAN" not in loads(build(objects, tmp_path / "lib.so", "-shared", "-fPIC")).stdout


@pytest.mark.parametrize("name", ["test", "math", "stdio", "found", "7th", "int", "---"])
def test_names_that_c_uses_itself_are_told_apart(name: str, tmp_path: Path) -> None:
    paths = export_c(random_robot(1, 1).replace(name=name), tmp_path)
    program = build([path for path in paths if path.suffix == ".c"], tmp_path / "program", f"-I{tmp_path}")
    assert subprocess.run([str(program)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("fmi", [2, 3])
def test_an_fmu_runs_nothing_of_a_name_and_gives_names_back(fmi: Literal[2, 3], robot: Robot, tmp_path: Path) -> None:
    file = tmp_path / "new" / "unit.fmu"
    export_fmu(robot, file, fmi=fmi)
    with zipfile.ZipFile(file) as archive:
        inside = (tmp_path / "unit").resolve()
        assert all((inside / name).resolve().is_relative_to(inside) for name in archive.namelist())
        archive.extractall(inside)
    root = ElementTree.parse(inside / "modelDescription.xml").getroot()
    assert root.attrib["modelName"] == robot.name
    variables = [own.attrib["name"] for own in root.find("ModelVariables") or []]
    assert len({*variables}) == len(variables)
    assert {f"{name}.position" for name in robot.joint_names} < {*variables}
    assert {f"inertia.{name}.m" for name in robot.body_names} < {*variables}
    done = loads(next((inside / "binaries").glob("*linux*/*")))
    assert (done.returncode, done.stdout) == (0, "")


def test_names_that_become_one_identifier_stay_apart(tmp_path: Path) -> None:
    robot = random_robot(1, 2)
    names = ["tool-1", "tool_1", "Tool 1", "tool_1_2", "工", "具"]
    paths = export_c(robot.replace(frames=tuple(Frame(name, "base", Pose()) for name in names)), tmp_path)
    text = next(path for path in paths if path.suffix == ".h").read_text()
    functions = re.findall(r"void \w+_jacobian_(\w+)\(", text)
    assert len({*functions}) == len(names)
    assert functions[names.index("tool_1")] == "tool_1"  # who has an identifier keeps it
    assert functions[names.index("tool_1_2")] == "tool_1_2"
    program = build([path for path in paths if path.suffix == ".c"], tmp_path / "test")
    assert subprocess.run([str(program)], capture_output=True, check=False).returncode == 0
    joints = dict(zip(robot.joint_names, ("force", "velocity"), strict=True))
    export_fmu(rename(robot, joints), tmp_path / "unit.fmu")
    with zipfile.ZipFile(tmp_path / "unit.fmu") as archive:
        variables = ElementTree.fromstring(archive.read("modelDescription.xml")).find("ModelVariables")
    found = [own.attrib["name"] for own in variables or []]
    assert len({*found}) == len(found)


@pytest.mark.parametrize("kind", ["toml", "urdf", "xml"])
def test_written_robots_give_names_back(kind: str, robot: Robot, tmp_path: Path) -> None:
    file = tmp_path / f"robot.{kind}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(robot, file)
        back = load(file)
    assert (back.name, back.body_names, back.joint_names) == (robot.name, robot.body_names, robot.joint_names)
    assert {frame.name for frame in robot.frames} <= {frame.name for frame in back.frames}
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("name", UNPRINTABLE)
def test_names_that_cannot_be_printed_are_refused(name: str) -> None:
    robot = random_robot(1, 1)
    for parts in (["name"], ["bodies"], ["joints"], ["frames"]):
        with pytest.raises(InputError):
            robot.replace(name=name) if parts == ["name"] else rename(robot, {getattr(robot, parts[0])[0].name: name})


class Tags(HTMLParser):
    """Tags and the names of their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))


def pages(run: Run, folder: Path, name: str) -> list[str]:
    """The page of a result that says ``name`` wherever it can, and its scene."""
    plot = new_figure(x=name, y=name, title=name)
    add_curve(plot, [0.0, 1.0], [0.0, 1.0], name)
    rows = [Row("first", 1.0, unit=name, note=name), Row(f"row.{name}", name)]
    result = Result(
        "motion", rows, {}, {"robot": name, name: name}, run.data, [Figure("plot", plot, name)], name,
        f"{name}\n\n{name}", headline=name, scene=scene_of(run),
    )  # fmt: skip
    write_files(result, folder, plotly="plotly.js")
    return [(folder / page).read_text(encoding="utf-8") for page in ("index.html", "scene.html")]


def test_pages_have_no_tag_of_a_name(robot: Robot, tmp_path: Path) -> None:
    plain = called([f"name {k}" for k in range(len(HOSTILE))])
    runs = [
        simulate(each, State.at_rest(each), Phase(0.1, name=each.name, limits="ignore"), method=RK4(0.05))
        for each in (plain, robot)
    ]
    expected = [Tags(text).found for text in pages(runs[0], tmp_path, "a name")]
    for name in HOSTILE:
        found = pages(runs[1], tmp_path, name)
        assert [Tags(text).found for text in found] == expected
        for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', "".join(found), re.DOTALL):
            json.loads(text)
        (figure,) = map(json.loads, re.findall(r'id="json-plot">(.*?)</script>', found[0], re.DOTALL))
        label = figure["data"][0]["name"]
        assert "<" not in re.sub(r"</?(b|br|i|sub|sup)>", "", label)  # Plotly makes links of others
        assert label.replace("&lt;", "<") == name.replace("&lt;", "<")


def test_figures_are_drawn_with_any_name(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="MATPLOTLIB IS NOT INSTALLED: figures were not drawn")
    plot = new_figure(x=HOSTILE[9], title=HOSTILE[8])
    for name in filter(str.isascii, HOSTILE[:-1]):
        add_curve(plot, [0.0, 1.0], [0.0, 1.0], name)
    text = Figure("plot", plot).save(tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert not {element.tag.split("}")[1] for element in ElementTree.fromstring(text).iter()} & {"script", "img", "a"}


def test_the_command_line_exports_a_urdf_with_code_in_a_name(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "robot.urdf"
    robot = random_robot(1, 1, geometry="aligned")
    robot = rename(robot, {robot.joint_names[0]: HOSTILE[0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(replace(robot, frames=()), file)
    assert run_app(["export", str(file), "--c", str(tmp_path / "c"), "--fmu", str(tmp_path / "new" / "x.fmu")]) == 0
    capsys.readouterr()
    header = next((tmp_path / "c").glob("*.h")).read_text()
    assert "RAN" in header
    sources = [path for path in (tmp_path / "c").glob("*.c") if not path.name.endswith("_test.c")]
    assert "RAN" not in loads(build(sources, tmp_path / "lib.so", "-shared", "-fPIC")).stdout
    with zipfile.ZipFile(tmp_path / "new" / "x.fmu") as archive:
        archive.extractall(tmp_path / "unit")
    assert loads(next((tmp_path / "unit" / "binaries" / "x86_64-linux").iterdir())).stdout == ""
