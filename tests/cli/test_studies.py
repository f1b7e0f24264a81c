"""The command line on studies: run and reproduce, their folders, their exit status; a failed command leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from spacearm.cli import main
from spacearm.errors import InputError, SimulationError
from spacearm.result import Certificate, Check, Result, Row
from support.cli import Capture, files_in

PAPER = "xu2017"


def test_warnings_of_libraries_keep_their_kind(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    def run_scenario(path: Path, **_: object) -> Result:
        warnings.warn("overflow met", RuntimeWarning, stacklevel=1)
        return good()

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    shown_before = warnings.showwarning
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == "warning: RuntimeWarning: overflow met\n"
    assert warnings.showwarning is shown_before


def good(study: str = "case", **_: object) -> Result:
    rows = [Row.compare("mass", 1.0, 1.0, unit="kg", source="Sec. 1"), Row("speed", 2.0, "m/s")]
    return Result(study, rows, Certificate({"energy": Check(1e-12, 1e-9)}))


def unsound(study: str = "case") -> Result:
    return Result(study, [Row("speed", 2.0, "m/s")], Certificate({"energy": Check(1.0, 1e-9)}))


def test_run_hands_over_and_writes_the_folder(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    calls: list[tuple[object, ...]] = []

    def run_scenario(path: Path, *, cross_check: bool, progress: object, data: Path | None) -> Result:
        calls.append((path, cross_check, progress, data))
        return replace(good(), files={"extra.txt": "from the scenario"})

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    scenario = tmp_path / "case.toml"
    scenario.touch()
    assert main(["run", str(scenario), "-o", str(tmp_path / "new" / "out"), "--cross-check"]) == 0
    assert calls == [(scenario, True, None, None)]
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

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "a" / "out")]) == status
    assert files_in(tmp_path) == ["case.toml"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert message in shown.err


def test_a_terminated_run_leaves_nothing(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stand_in(
        "spacearm.study.scenario",
        read_study_name=lambda path: "case",
        run_scenario=lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM),
    )
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 143
    assert "error: terminated" in capsys.readouterr().err
    assert files_in(tmp_path) == ["case.toml"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_missing_scenario_is_status_2(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", str(tmp_path / "none.toml"), "-o", str(tmp_path / "out")]) == 2
    assert "none.toml: there is no such file" in capsys.readouterr().err
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("out", ["", " ", "case.toml", "case.toml/out/deep"])
def test_an_output_that_cannot_be_is_told_before_the_run(
    out: str, tmp_path: Path, stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[object] = []
    run_scenario = lambda path, **_: runs.append(path)  # noqa: E731
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "case.toml", "-o", out]) == 2
    assert runs == []
    assert files_in(tmp_path) == ["case.toml"]


def test_an_unsound_run_is_written_loud_and_status_1(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=lambda *_, **__: unsound())
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert "NOT SOUND" in shown.out
    assert "error: case: the run is not sound" in shown.err
    assert (tmp_path / "out" / "index.html").is_file()


@pytest.mark.parametrize(
    ("certificate", "note"),
    [
        ({"energy": Check(1.0, 1e-9, "J")}, ": energy is 1 J and exceeds its tolerance 1e-09;"),
        ({"end": Check.from_condition(False, "more steps than allowed")}, ": end: more steps than allowed;"),
        (
            {"end": Check.from_condition(False, "stopped"), "path": Check(float("nan"), 1.0)},
            ": end: stopped; path is nan and exc",
        ),
    ],
)
def test_the_reason_of_an_unsound_run_is_its_own(
    certificate: dict[str, Check], note: str, tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in(
        "spacearm.study.scenario",
        read_study_name=lambda path: "case",
        run_scenario=lambda *_, **__: Result("case", [], Certificate(certificate)),
    )
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 1
    assert f"error: case: the run is not sound{note}" in capsys.readouterr().err


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
    run_scenario = lambda path, **_: runs.append(path)  # noqa: E731
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
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
        assert f"{name} exists, and spacearm did not write it" in capsys.readouterr().err
    assert runs == []
    assert (folder / name).read_text() == content
    assert files_in(tmp_path / "out") == [PAPER, f"{PAPER}/{name}"]


def test_an_index_over_papers_does_not_overwrite_another_page(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    for paper in ("yoshida1992", PAPER):
        stand_in(f"spacearm.papers.{paper}", reproduce=partial(good, paper))
    page = tmp_path / "index.html"
    page.write_text("a page of my own")
    assert main(["reproduce", "yoshida1992", PAPER, "-o", str(tmp_path)]) == 2
    assert files_in(tmp_path) == ["index.html"]
    page.unlink()
    for _ in range(2):  # one's own is replaced
        assert main(["reproduce", "yoshida1992", PAPER, "-o", str(tmp_path)]) == 0
    assert "a page of my own" not in page.read_text()


def test_one_s_own_results_are_replaced_as_a_whole(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=lambda *_, **__: good())
    (tmp_path / "case.toml").touch()
    out = tmp_path / "out"
    run = ["run", str(tmp_path / "case.toml"), "-o", str(out)]
    assert main(run) == 0
    assert "replaced" not in capsys.readouterr().err
    # What an older run left and the new one lacks goes; what the user put there stays.
    results = json.loads((out / "results.json").read_text())
    outside, mine = tmp_path / "outside.txt", out / "notes.txt"
    for path in (outside, mine, out / "data.nc", out / "figures" / "old.html"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("old")
    results["files"] += ["data.nc", "figures/old.html", "../outside.txt", str(outside), 3, "missing.txt"]
    (out / "results.json").write_text(json.dumps(results))
    assert main(run) == 0
    assert f"note: {out}: older results were replaced" in capsys.readouterr().err
    assert files_in(out) == ["index.html", "notes.txt", "results.json"]
    assert outside.exists()


def test_results_of_another_study_are_not_replaced(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=lambda *_, **__: good())
    papers = ("yoshida1992", PAPER)
    for paper in papers:
        stand_in(f"spacearm.papers.{paper}", reproduce=partial(good, paper))
    (tmp_path / "case.toml").touch()
    run = ["run", str(tmp_path / "case.toml"), "-o"]
    papers_out, case_out = tmp_path / "papers", tmp_path / "case"
    assert main(["reproduce", *papers, "-o", str(papers_out)]) == 0
    assert main([*run, str(case_out)]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    for arguments, note in (
        ([*run, str(papers_out / PAPER)], f"holds results of the study '{PAPER}'"),
        ([*run, str(papers_out)], "holds an index of several studies"),
        (["reproduce", *papers, "-o", str(case_out)], "holds results of the study 'case'"),
    ):
        assert main(arguments) == 2
        assert note in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_reproduce_prints_the_table_of_agreement(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: good(PAPER))
    assert main(["reproduce", PAPER, "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    for expected in ("quantity", "paper", "mass", "agrees", "speed", "new", "sound; 1 agrees, 1 new"):
        assert expected in shown
    assert str(tmp_path / "out" / PAPER / "index.html") in shown
    assert files_in(tmp_path / "out") == ["plotly.min.js", PAPER, f"{PAPER}/index.html", f"{PAPER}/results.json"]


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
        "plotly.min.js",
        "summary.json",
        PAPER,
        f"{PAPER}/index.html",
        f"{PAPER}/results.json",
    ]
    assert "failed: the step size fell to zero" in (tmp_path / "out" / "index.html").read_text()


def test_an_unsound_paper_is_status_1(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: unsound(PAPER))
    assert main(["reproduce", PAPER, "-o", str(tmp_path / "out")]) == 1


@pytest.mark.parametrize("arguments", [["xu2018"], []])
def test_an_unknown_paper_or_none_is_status_2(arguments: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["reproduce", *arguments, "-o", str(tmp_path / "out")]) == 2
    assert "xu2017" in capsys.readouterr().err
    assert files_in(tmp_path) == []


def test_reproduce_goes_on_where_it_was_interrupted(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    calls: list[str] = []
    stop = True

    def first(**_: object) -> Result:
        calls.append("yoshida1992")
        return good("yoshida1992")

    def second(**_: object) -> Result:
        calls.append(PAPER)
        if stop:
            raise KeyboardInterrupt
        return good(PAPER)

    stand_in("spacearm.papers.yoshida1992", reproduce=first)
    stand_in(f"spacearm.papers.{PAPER}", reproduce=second)
    command = ["reproduce", "yoshida1992", PAPER, "-o", str(tmp_path / "out")]
    assert main(command) == 130
    assert "note: 1 of 2 papers are finished; the same command continues" in capsys.readouterr().err
    assert files_in(tmp_path / "out") == [
        "plotly.min.js",
        *(f"yoshida1992{name}" for name in ("", "/index.html", "/results.json")),
    ]
    stop = False
    calls.clear()
    assert main(command) == 0
    assert calls == [PAPER]
    shown = capsys.readouterr()
    assert "note: yoshida1992: already finished by this version, and kept (--fresh runs it again)" in shown.err
    assert shown.out.count("sound; 1 agrees, 1 new") == 2
    assert main([*command, "--json"]) == 0
    assert calls == [PAPER]
    notes = json.loads(capsys.readouterr().out)["studies"]
    assert [{**study, "page": ""} for study in notes] == [{**good(n).to_json(), "page": ""} for n in command[1:3]]
    assert main([*command, "--cross-check"]) == 0
    assert main([*command, "--fresh"]) == 0
    assert calls == [PAPER] + 2 * ["yoshida1992", PAPER]


def test_an_unsound_paper_is_run_again(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    calls: list[str] = []
    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: calls.append(PAPER) or unsound(PAPER))
    for _ in range(2):
        assert main(["reproduce", PAPER, "-o", str(tmp_path / "out")]) == 1
    assert calls == [PAPER, PAPER]


KILLED = """
import os, signal, sys
from importlib import import_module
from pathlib import Path
from spacearm.cli import main
from spacearm.result import Certificate, Check, Result, Row

paper = import_module(f"spacearm.papers.{sys.argv[2]}")
good = Result(sys.argv[2], [Row("speed", 2.0, "m/s")], Certificate({"energy": Check(1e-12, 1e-9)}))
paper.reproduce = lambda **_: good
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
Path.replace = lambda path, to: os.replace(path, to) or path.name == "plan.part" or die()
main(sys.argv[1:])
"""


def test_reproduce_puts_in_order_what_a_killed_one_left(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    """Killed while files moved one by one: the page is there, its results.json not yet."""
    from spacearm.report import _swap

    stand_in(f"spacearm.papers.{PAPER}", reproduce=lambda **_: good(PAPER))
    command = ["reproduce", PAPER, "--fresh", "-o", str(tmp_path)]
    assert main(command) == 0
    (tmp_path / PAPER / "notes.txt").write_text("mine")
    assert (
        subprocess.run([sys.executable, "-c", KILLED, *command], check=False, timeout=300).returncode == -signal.SIGKILL
    )
    assert [path.name for path in (tmp_path / PAPER).iterdir() if path.name != "notes.txt"] == ["index.html"]
    assert _swap._work_folders(tmp_path)
    assert main(command) == 0
    inside = (f"{PAPER}/{name}" for name in ("index.html", "notes.txt", "results.json"))
    assert files_in(tmp_path) == ["plotly.min.js", PAPER, *inside]


def test_papers_in_processes_of_their_own_leave_the_same_rows(tmp_path: Path, capsys: Capture) -> None:
    command = ["reproduce", "yoshida1992", "zhang2020", "--json"]
    assert main([*command, "-o", str(tmp_path / "two"), "--workers", "2"]) == 0
    both = json.loads(capsys.readouterr().out)["studies"]
    assert [study["study"] for study in both] == ["yoshida1992", "zhang2020"]
    assert (tmp_path / "two" / "index.html").is_file()
    assert main(["reproduce", "yoshida1992", "--json", "-o", str(tmp_path / "one")]) == 0
    (alone,) = json.loads(capsys.readouterr().out)["studies"]
    assert both[0]["rows"] == alone["rows"]


def test_a_papers_name_in_place_of_a_scenario_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "xu2017", "-o", "D"]) == 2
    assert "'spacearm reproduce xu2017 -o DIR'" in capsys.readouterr().err
