"""Streams that are closed, full or of another encoding; signals; text of files on a terminal; the time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numba  # noqa: F401 (an import that a time limit cuts short cannot be made again)
import pytest

from spacearm.cli import main
from spacearm.cli.terminal import printable
from spacearm.deadline import check_time
from spacearm.result import Certificate, Check, Result, Row
from support.cli import Capture, files_in
from support.scenarios import SLOW

COMMAND = [sys.executable, "-m", "spacearm.cli"]
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
RAW = ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e")


def shell(line: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A shell line in which ``"$@"`` is the command with these arguments."""
    return subprocess.run(
        ["bash", "-c", line, "bash", *COMMAND, *arguments],
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_no_control_character_of_a_file_reaches_the_terminal(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    scenario = tmp_path / "case.toml"
    scenario.write_text(f"robot = 'xu2017'\n{json.dumps(ESCAPE)} = 1\n[[phase]]\nduration = 1.0\n", encoding="utf-8")
    run = ["run", str(scenario), "-o", str(tmp_path / "out")]
    assert main(run) == 2
    result = Result("case", [Row(ESCAPE, 2.0, "m/s", note=ESCAPE)], {"energy": Check(1.0, 1e-9)}, title=ESCAPE)
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=lambda *_, **__: result)
    assert main(run) == 1
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert "owned" in text
        assert not any(part in text for part in RAW)
    assert main([*run, "--json"]) == 1
    shown = capsys.readouterr()
    assert not any(part in shown.out for part in RAW)
    assert json.loads(shown.out)["studies"][0]["rows"][0]["note"] == ESCAPE


def test_printable_keeps_what_is_text() -> None:
    text = "é ψ 日本語 \U0001f680 [red]x[/red]\tand\nmore"
    assert printable(text) == text
    assert printable("\x1b[2J\udc80\x9f") == "\\x1b[2J\\udc80\\x9f"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_traceback(closed: str, tmp_path: Path) -> None:
    done = shell(f'"$@" {closed}', "check", "xu2017")
    assert done.returncode == 0
    assert done.stderr == b""
    bad = shell(f'"$@" {closed}', "check", "no-such-robot")
    assert bad.returncode == 2
    target = tmp_path / "arm.urdf"
    assert shell(f'"$@" {closed}', "convert", "yoshida1992", str(target)).returncode == 0
    assert target.read_text().rstrip().endswith("</robot>")  # nothing that was meant for the terminal is in it


def test_nobody_reads_the_complaints() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "check", "no-such-robot"], stderr=writer, stdout=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == 2


def test_a_full_disk_behind_stdout_is_status_1() -> None:
    done = shell('"$@" > /dev/full', "check", "xu2017")
    assert done.returncode == 1
    assert done.stderr == b"error: No space left on device\n"


def test_a_terminal_of_another_encoding(tmp_path: Path) -> None:
    robot = tmp_path / "robot.toml"
    robot.write_text(
        '[robot]\nname = "ψ"\n[[body]]\nname = "日本é"\nmass = 1.0\ninertia = [1.0, 1.0, 1.0]\n', encoding="utf-8"
    )
    for arguments in (["check", str(robot)], ["check", str(robot), "--json"], ["check", "xu2017"]):
        done = shell('"$@"', *arguments, PYTHONIOENCODING="latin-1")
        assert done.returncode == 0
        assert done.stderr == b""
        if "--json" in arguments:
            assert json.loads(done.stdout.decode("latin-1"))["bodies"][0]["name"] == "日本é"
    assert b"Traceback" not in shell('"$@"', "check", "日本", PYTHONIOENCODING="latin-1").stderr


@pytest.mark.parametrize("module", ["spacearm.cli.terminal", "cyclopts", "rich.table", "spacearm.model", "numpy"])
def test_ctrl_c_while_a_module_is_imported(module: str) -> None:
    code = f"""import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from spacearm.cli import main
sys.exit(main(["catalogue", "list"]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_a_second_ctrl_c_does_not_break_off_the_cleaning_up(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    cleaned = []

    def run_scenario(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5.0)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
            cleaned.append(True)

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    before = signal.getsignal(signal.SIGINT)
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 130
    assert cleaned == [True]
    assert capsys.readouterr().err == "error: interrupted\n"
    assert files_in(tmp_path) == ["case.toml"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_a_library_wraps_is_one(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    def run_scenario(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5.0)
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_the_time_limit_ends_a_run(tmp_path: Path, capsys: Capture) -> None:
    scenario = tmp_path / "case.toml"
    scenario.write_text(SLOW)
    assert main(["run", str(scenario), "-o", str(tmp_path / "out"), "--time-limit", "0.5"]) == 124
    assert "not finished within the time limit of 0.5 s" in capsys.readouterr().err
    assert files_in(tmp_path) == ["case.toml"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300", "x", ""])
def test_a_time_limit_that_is_none_is_refused(seconds: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "case.toml").write_text(SLOW)
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out"), f"--time-limit={seconds}"]) == 2
    assert "expected seconds above zero" in capsys.readouterr().err


def test_memory_that_does_not_suffice_is_told(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    def run_scenario(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 1. EiB")

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "error: out of memory: Unable to allocate 1. EiB\n"


def test_the_time_limit_is_one_for_all_papers(tmp_path: Path, stand_in: Callable[..., None], capsys: Capture) -> None:
    started: list[str] = []

    def reproduce(name: str, **_: object) -> Result:
        started.append(name)
        time.sleep(0.0 if name == "yoshida1992" else 5.0)
        return Result(name, [Row("speed", 2.0, "m/s")], Certificate({"energy": Check(1e-12, 1e-9)}))

    papers = ("yoshida1992", "xu2017", "zhang2020")
    for paper in papers:
        stand_in(f"spacearm.papers.{paper}", reproduce=partial(reproduce, paper))
    assert main(["reproduce", *papers, "-o", str(tmp_path / "out"), "--time-limit", "2"]) == 124
    assert started == ["yoshida1992", "xu2017"]
    shown = capsys.readouterr().err
    assert "note: 1 of 3 papers are finished; the same command continues" in shown
    assert "error: not finished within the time limit of 2 s" in shown
    assert (tmp_path / "out" / "yoshida1992" / "results.json").is_file()


def test_an_interruption_that_a_library_loses_ends_the_command_all_the_same(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    """CasADi drops what is raised while it converts its arguments: a campaign went on after Ctrl-C."""

    def run_scenario(*_: object, **__: object) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5.0)
        check_time()
        raise AssertionError("went on")

    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=run_scenario)
    (tmp_path / "case.toml").touch()
    assert main(["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
    check_time()  # what comes after the command is not interrupted


DROPPED = """
import os, signal, time
from spacearm.cli.terminal import Terminated, handle_signals

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

try:
    with handle_signals():
        Finalised()
        time.sleep(20)
        print("went on")
except Terminated:
    print("ended")
"""


def test_a_signal_in_a_finaliser_ends_the_command_without_a_traceback() -> None:
    """Python prints what is raised there as an exception that was ignored, and goes on."""
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_an_error_that_a_library_makes_of_an_interrupt_may_come_late(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """On a busy machine a compiler takes longer to give up than a second signal is ignored for."""

    def compiling(*_: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5.0)
        except KeyboardInterrupt:
            time.sleep(0.2)
            raise SystemError("compiler") from None
        return 0

    monkeypatch.setattr("spacearm.cli.terminal.GRACE", 0.05)
    monkeypatch.setattr("spacearm.cli.app._run_app", compiling)
    assert main(["check"]) == 143
    assert capsys.readouterr().err == "error: terminated\n"
