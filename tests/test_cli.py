"""The command line: what it prints where, its exit status, and that a failed command leaves nothing behind."""

from __future__ import annotations

import importlib.machinery
import io
import json
import os
import pty
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spacearm
from spacearm import Body, Frame, Friction, Inertia, Joint, Robot, Rotor, Spring, Thruster
from spacearm.cli import main
from spacearm.errors import InputError, SimulationError
from spacearm.model.files import load, save
from spacearm.result import Check, Result, Row

PAPER = "xu2017"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def robot() -> Robot:
    return Robot(
        "two [red]arms[/red]",  # names may look like markup
        (
            Body("hub", Inertia(100.0, np.zeros(3), 10.0 * np.eye(3))),
            Body("arm", Inertia(5.0, [0.5, 0.0, 0.0], np.eye(3))),
            Body("slide", Inertia(2.5, np.zeros(3), 0.1 * np.eye(3))),
        ),
        (
            Joint("shoulder", "revolute", "hub", "arm", friction=Friction(2.0, 1.0), rotor=Rotor(1e-4, 100.0)),
            Joint("rail", "prismatic", "arm", "slide", spring=Spring(100.0), damping=3.0),
        ),
        (Frame("hand", "slide"),),
        (Thruster("jet", "hub", np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), 22.0),),
        postures={"home": np.array([0.1, 0.2])},
    )


@pytest.fixture
def robot_file(robot: Robot, tmp_path: Path) -> Path:
    return save(robot, tmp_path / "robot.toml")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a module of this name and these functions in place of the real one, or in the place of a missing one."""

    def put(name: str, **functions: object) -> None:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        for key, function in functions.items():
            setattr(module, key, function)
        monkeypatch.setitem(sys.modules, name, module)

    return put


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# -- help, version, wrong use ----------------------------------------------------------------------------------------


def test_help_names_every_command(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in ("check", "run", "reproduce", "convert", "catalogue", "bench", "cache", "--version"):
        assert command in shown


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"spacearm {spacearm.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["check"], ["check", "xu2017", "--bogus"], ["run", "x.toml"], ["convert", "a.toml"]]
)
def test_wrong_use_is_status_2_on_stderr(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).with_name("spacearm")
    done = subprocess.run([command, "check", "no-such-robot"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "'no-such-robot' is neither a file nor a robot of the catalogue" in done.stderr
    assert "Traceback" not in done.stderr


# -- check -----------------------------------------------------------------------------------------------------------


def test_check_prints_tree_totals_frames_and_thrusters(robot_file: Path, capsys: Capture) -> None:
    assert main(["check", str(robot_file)]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == "hub  100 kg  base, 6 degrees of freedom"
    assert lines[1].startswith("└── arm  5 kg  on shoulder (revolute; friction 2/1 N m; rotor 0.0001 kg m2, ratio 100)")
    assert lines[2].startswith("    └── slide  2.5 kg  on rail (prismatic; spring 100 N/m; damper 3 N s/m)")
    assert lines[-1] == (
        "two [red]arms[/red]: 3 bodies (0 massless), 2 joints (1 revolute, 1 prismatic), 8 degrees of freedom, 107.5 kg"
    )
    for expected in ("hand", "jet", "(0, 0, 1)", "22", "home", "(0.1, 0.2)"):
        assert expected in shown.out
    assert "\x1b" not in shown.out
    assert shown.err == ""


def test_check_json(robot_file: Path, robot: Robot, capsys: Capture) -> None:
    assert main(["check", str(robot_file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["mass"] == 107.5
    assert told["dofs"] == 8
    assert told["dof_names"] == list(robot.dof_names)
    assert [body["name"] for body in told["bodies"]] == ["hub", "arm", "slide"]
    assert told["joints"][1]["axis"] == [0.0, 0.0, 1.0]
    assert told["thrusters"][0]["force"] == 22.0
    assert told["postures"] == {"home": [0.1, 0.2]}


def test_a_bad_robot_is_status_2_with_file_and_place(robot_file: Path, capsys: Capture) -> None:
    robot_file.write_text(robot_file.read_text().replace("mass = 5.0", "mass = -5.0"))
    assert main(["check", str(robot_file)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(robot_file) in shown.err
    assert "arm" in shown.err
    assert "mass" in shown.err


def test_check_tells_what_nothing_resists(tmp_path: Path, capsys: Capture) -> None:
    point = Robot("p", (Body("hub", Inertia(1.0)),))
    assert main(["check", str(save(point, tmp_path / "point.toml"))]) == 0
    shown = capsys.readouterr()
    assert "warning: nothing resists 'base_wx', 'base_wy', 'base_wz'" in shown.err
    assert "hub" in shown.out
    assert main(["check", str(tmp_path / "point.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weightless_dofs"] == ["base_wx", "base_wy", "base_wz"]


def test_warnings_are_messages_without_source_lines(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    robot_file.write_text(robot_file.read_text().replace("[0.1, 0.2]", "[90.0, 0.2]"))
    urdf = tmp_path / "odd.urdf"
    assert main(["convert", "xu2017", str(urdf)]) == 0
    urdf.write_text(urdf.read_text().replace("<dynamics", "<dinamics").replace("<axis", "<axes/><axis", 1))
    capsys.readouterr()
    for file, said in ((robot_file, "angle is 90 rad"), (urdf, "<axes> is unknown and ignored")):
        assert main(["check", str(file)]) == 0
        told = capsys.readouterr().err
        assert told.startswith("warning: ")
        assert said in told
        for leak in (".py", "UserWarning", "warnings.warn", "UnitWarning"):
            assert leak not in told
        assert len(told.splitlines()) == 1


def test_warnings_of_libraries_keep_their_kind(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    def run_scenario(path: Path, **_: object) -> Result:
        warnings.warn("overflow met", RuntimeWarning, stacklevel=1)
        return good()

    stand_in("spacearm.scenarios", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    shown_before = warnings.showwarning
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == "warning: RuntimeWarning: overflow met\n"
    assert warnings.showwarning is shown_before


def test_a_whole_file_in_place_of_its_name_is_told_shortly(robot_file: Path, capsys: Capture) -> None:
    text = robot_file.read_text() * 20
    for arguments in (["check", text], ["check", text + ".toml"], ["catalogue", "show", text]):
        assert main(arguments) == 2
        assert len(capsys.readouterr().err) < 400


def test_every_catalogue_robot_checks(capsys: Capture) -> None:
    assert main(["catalogue", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"yoshida1992", "cai2023", "zhang2020", "xu2017", "wojtunik2023"} <= {entry["name"] for entry in listed}
    for entry in listed:
        assert main(["check", entry["name"], "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["mass"], told["dofs"]) == (entry["mass"], entry["dofs"])


def test_a_file_wins_over_a_catalogue_name(
    robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "xu2017", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mass"] != robot.mass
    save(robot, tmp_path / "robot.toml").rename(tmp_path / "xu2017")
    assert main(["check", "xu2017"]) == 2  # it has no ending, so it is no robot file: but it is the file that is read
    assert "xu2017: the file's name has no ending" in capsys.readouterr().err


def test_catalogue_show_prints_a_file_that_loads(tmp_path: Path, capsys: Capture) -> None:
    assert main(["catalogue", "show", "xu2017"]) == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    from spacearm.model import catalogue

    assert load(path) == catalogue.load("xu2017")


def test_an_unknown_catalogue_name_gets_a_suggestion(capsys: Capture) -> None:
    assert main(["catalogue", "show", "xu2071"]) == 2
    assert "did you mean 'xu2017'?" in capsys.readouterr().err


# -- convert ---------------------------------------------------------------------------------------------------------


def test_convert_says_what_is_lost_and_keeps_the_rest(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "robot.urdf"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # losses are told by the command, not as Python warnings
        assert main(["convert", str(robot_file), str(target)]) == 0
    shown = capsys.readouterr()
    assert "lost: " in shown.err
    assert "'jet'" in shown.err
    assert str(target) in shown.out
    assert load(target).mass == pytest.approx(107.5)


def test_convert_json_lists_the_losses(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["convert", str(robot_file), str(tmp_path / "robot.urdf"), "--json"]) == 0
    shown = capsys.readouterr()
    assert any("'jet'" in text for text in json.loads(shown.out)["lost"])
    assert shown.err == ""


def test_strict_convert_writes_nothing(robot_file: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["convert", str(robot_file), str(tmp_path / "robot.urdf"), "--strict"]) == 2
    assert "'jet'" in capsys.readouterr().err
    assert files_in(tmp_path) == ["robot.toml"]


@pytest.mark.parametrize("target", ["robot.xyz", "missing/robot.urdf", "robot.toml"])
def test_convert_refuses_targets_it_cannot_write(robot_file: Path, tmp_path: Path, target: str) -> None:
    before = robot_file.read_bytes()
    assert main(["convert", str(robot_file), str(tmp_path / target)]) == 2
    assert files_in(tmp_path) == ["robot.toml"]
    assert robot_file.read_bytes() == before


def test_convert_takes_a_catalogue_name(tmp_path: Path) -> None:
    assert main(["convert", "xu2017", str(tmp_path / "mine.toml")]) == 0
    assert load(tmp_path / "mine.toml").mass == pytest.approx(476.0)


# -- run and reproduce -----------------------------------------------------------------------------------------------


def good(study: str = "case") -> Result:
    rows = [Row.compare("mass", 1.0, 1.0, unit="kg", source="Sec. 1"), Row("speed", 2.0, "m/s")]
    return Result(study, rows, {"energy": Check(1e-12, 1e-9)})


def unsound(study: str = "case") -> Result:
    return Result(study, [Row("speed", 2.0, "m/s")], {"energy": Check(1.0, 1e-9)})


def test_run_hands_over_and_writes_the_folder(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    calls: list[tuple[object, ...]] = []

    def run_scenario(path: Path, *, cross_check: bool, progress: object) -> Result:
        calls.append((path, cross_check, progress))
        return replace(good(), files={"extra.txt": "from the scenario"})

    stand_in("spacearm.scenarios", run_scenario=run_scenario)
    scenario = tmp_path / "case.toml"
    scenario.touch()
    assert main(["run", str(scenario), "-o", str(tmp_path / "new" / "out"), "--cross-check"]) == 0
    assert calls == [(scenario, True, None)]
    assert files_in(tmp_path / "new" / "out") == ["extra.txt", "index.html", "results.json"]
    assert str(tmp_path / "new" / "out" / "index.html") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (InputError("unknown key", place="run.stpe", hint="did you mean 'step'?"), 2, "unknown key (did you mean"),
        (SimulationError("the step size fell to zero"), 1, "error: the step size fell to zero"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (PermissionError(13, "Permission denied", "somewhere"), 1, "error: somewhere: Permission denied"),
    ],
)
def test_a_failed_run_leaves_nothing_and_has_its_status(
    failure: BaseException,
    status: int,
    message: str,
    tmp_path: Path,
    stand_in: Callable[..., None],
    capsys: Capture,
) -> None:
    def run_scenario(path: Path, **_: object) -> Result:
        raise failure

    stand_in("spacearm.scenarios", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "a" / "out")]) == status
    assert files_in(tmp_path) == ["case.toml"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert message in shown.err


def test_a_missing_scenario_is_status_2(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", str(tmp_path / "none.toml"), "-o", str(tmp_path / "out")]) == 2
    assert "none.toml: there is no such scenario file" in capsys.readouterr().err
    assert files_in(tmp_path) == []


def test_an_output_that_cannot_be_is_told_before_the_run(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    runs: list[object] = []
    stand_in("spacearm.scenarios", run_scenario=lambda path, **_: runs.append(path))
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "case.toml")]) == 2
    assert runs == []


def test_an_unsound_run_is_written_loud_and_status_1(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in("spacearm.scenarios", run_scenario=lambda *_, **__: unsound())
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert "NOT SOUND" in shown.out
    assert "error: case: the run is not sound" in shown.err
    assert (tmp_path / "out" / "index.html").is_file()


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        ({"energy": Check(1.0, 1e-9, "J")}, ": energy is 1 J and exceeds its tolerance 1e-09;"),
        ({"sound": False, "reason": "more steps than allowed"}, ": more steps than allowed;"),
        ({"runs": [{"ok": True}, {"ok": False, "reason": "interrupted"}]}, ": runs[1]: interrupted;"),
        ({"sound": False}, ": its certificate does not say why;"),
        ({"sound": False, "reason": "stopped", "path": Check(float("nan"), 1.0)}, ": stopped; path is nan and exceeds"),
    ],
)
def test_the_reason_of_an_unsound_run_is_its_own(
    certificate: dict[str, object], said: str, tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in("spacearm.scenarios", run_scenario=lambda *_, **__: Result("case", [], certificate))
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 1
    assert f"error: case: the run is not sound{said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.html", "<h1>My home page</h1>"),
        ("results.json", "[1, 2]"),
        ("results.json", '{"study": "x", "rows": []}'),
        ("results.json", "not JSON"),
    ],
)
def test_results_of_others_are_not_overwritten(
    name: str, content: str, tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    runs: list[object] = []
    stand_in("spacearm.scenarios", run_scenario=lambda path, **_: runs.append(path))
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: runs.append("paper"))
    (tmp_path / "case.toml").touch()
    folder = tmp_path / "out" / PAPER
    folder.mkdir(parents=True)
    (folder / name).write_text(content)
    for arguments in (
        ["run", str(tmp_path / "case.toml"), "-o", str(folder)],
        ["reproduce", PAPER, "-o", str(folder.parent)],
    ):
        assert main(arguments) == 2
        assert f"{name} is there, and spacearm did not write it" in capsys.readouterr().err
    assert runs == []
    assert (folder / name).read_text() == content
    assert files_in(tmp_path / "out") == [PAPER, f"{PAPER}/{name}"]


def test_an_index_over_papers_does_not_overwrite_another_page(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    for paper in ("yoshida1992", PAPER):
        stand_in(f"spacearm.papers.{paper}", reproduce=lambda **_: good())
    page = tmp_path / "index.html"
    page.write_text("mine")
    assert main(["reproduce", "yoshida1992", PAPER, "-o", str(tmp_path)]) == 2
    assert files_in(tmp_path) == ["index.html"]
    page.unlink()
    for _ in range(2):  # one's own is replaced
        assert main(["reproduce", "yoshida1992", PAPER, "-o", str(tmp_path)]) == 0
    assert "mine" not in page.read_text()


def test_one_s_own_results_are_replaced(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in("spacearm.scenarios", run_scenario=lambda *_, **__: good())
    (tmp_path / "case.toml").touch()
    for _ in range(2):
        assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 0


def test_reproduce_prints_the_table_of_agreement(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: good(PAPER))
    assert main(["reproduce", PAPER, "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    for expected in ("quantity", "paper", "mass", "agrees", "speed", "new", "sound; 1 agrees, 1 new"):
        assert expected in shown
    assert str(tmp_path / "out" / PAPER / "index.html") in shown
    assert files_in(tmp_path / "out") == [PAPER, f"{PAPER}/index.html", f"{PAPER}/results.json"]


def test_reproduce_json(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: good(PAPER))
    assert main(["reproduce", PAPER, "-o", str(tmp_path / "out"), "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert study == {**good(PAPER).to_json(), "page": str(tmp_path / "out" / PAPER / "index.html")}


def test_one_paper_that_fails_does_not_stop_the_others(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    def fail(**_: object) -> Result:
        raise SimulationError("the step size fell to zero")

    stand_in("spacearm.papers.yoshida1992", reproduce=fail)
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: good(PAPER))
    assert main(["reproduce", "yoshida1992", PAPER, "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert "error: yoshida1992: the step size fell to zero" in shown.err
    assert files_in(tmp_path / "out") == [
        "index.html",
        "summary.json",
        PAPER,
        f"{PAPER}/index.html",
        f"{PAPER}/results.json",
    ]
    assert "failed: the step size fell to zero" in (tmp_path / "out" / "index.html").read_text()


def test_an_unsound_paper_is_status_1(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: unsound(PAPER))
    assert main(["reproduce", PAPER, "-o", str(tmp_path / "out")]) == 1


def test_a_paper_that_is_not_built_is_said_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Callable[..., None], capsys: Capture
) -> None:
    from spacearm import papers

    missing = papers.Paper("nobody1900", "N. Body", 1900, "A paper without a module", "nothing")
    monkeypatch.setattr(papers, "PAPERS", {"nobody1900": missing, PAPER: papers.PAPERS[PAPER]})
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: good(PAPER))
    message = "note: nobody1900: the reproduction of this paper is not part of this version"
    assert main(["reproduce", "nobody1900", "-o", str(tmp_path / "none")]) == 1
    assert message in capsys.readouterr().err
    assert files_in(tmp_path) == []
    assert main(["reproduce", "all", "-o", str(tmp_path / "out")]) == 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["xu2018"], []])
def test_an_unknown_paper_or_none_is_status_2(arguments: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["reproduce", *arguments, "-o", str(tmp_path / "out")]) == 2
    assert "xu2017" in capsys.readouterr().err
    assert files_in(tmp_path) == []


# -- bench and cache -------------------------------------------------------------------------------------------------


def test_bench_prints_rows(stand_in: Callable[..., None], capsys: Capture) -> None:
    stand_in("spacearm.engine.benchmark", run=lambda **_: [("one trajectory", 366.0, "ns per evaluation")])
    assert main(["bench"]) == 0
    assert "one trajectory" in capsys.readouterr().out
    assert main(["bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"what": "one trajectory", "value": 366.0, "unit": "ns per evaluation"}
    ]


def test_cache_show_and_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("SPACEARM_CACHE", str(tmp_path / "cache"))
    from spacearm.engine import cache

    assert main(["cache", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(tmp_path / "cache"), "kernels": 0, "bytes": 0}
    cache.write("a" * 64, b"code")
    assert main(["cache", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == 1
    assert main(["cache", "clear"]) == 0
    assert cache.read("a" * 64) is None


# -- the terminal ----------------------------------------------------------------------------------------------------


def run_on_terminal(arguments: list[str], environment: dict[str, str]) -> str:
    """What the command writes when stdout is a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "spacearm.cli", *arguments], stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        shown = b""
        with io.FileIO(leader) as stream:
            while True:
                try:
                    part = stream.read(65536)
                except OSError:  # Linux ends a terminal's stream so
                    break
                if not part:
                    break
                shown += part
    assert process.returncode == 0
    return shown.decode()


def test_colours_on_a_terminal_only_and_not_with_no_color() -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    colour = "\x1b[36m"  # cyan, the masses
    assert colour in run_on_terminal(["check", "xu2017"], environment)
    assert colour not in run_on_terminal(["check", "xu2017"], {**environment, "NO_COLOR": "1"})


def test_a_closed_pipe_is_no_traceback() -> None:
    code = "import sys; from spacearm.cli import main; sys.exit(main(['check', 'xu2017']))"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""
