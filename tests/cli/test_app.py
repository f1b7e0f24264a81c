"""The command line itself: help, version, wrong use, bench, cache, the terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import spacearm
from spacearm.cli import main
from support.cli import Capture


def test_help_names_every_command(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in ("check", "run", "reproduce", "convert", "catalogue", "bench", "cache", "--version"):
        assert command in shown


@pytest.mark.parametrize(
    "command",
    ["check", "view", "reproduce", "convert", "mount", "run", "keys", "map", "catalogue show", "campaign run",
     "campaign replay", "init", "export", "compare", "figures"],
)  # fmt: skip
def test_help_describes_every_argument(command: str, capsys: Capture) -> None:
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "---" not in shown  # the line under a heading of the docstring that was not understood
    assert not re.findall(r"^│ (?:\*  )?([A-Z]+) +[\[│]", shown, re.MULTILINE)  # arguments by their names alone


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


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["run"], "error: run needs SCENARIO (see spacearm run --help)"),
        (["run", "x.toml"], "error: run needs --out (see spacearm run --help)"),
        (["run", "x.toml", "-o"], "error: run: --out needs a value (see spacearm run --help)"),
        (
            ["check", "xu2017", "two", "three"],
            "error: check does not expect 'two', 'three' (see spacearm check --help)",
        ),
        (["catalogue", "show"], "error: catalogue show needs NAME (see spacearm catalogue show --help)"),
    ],
)
def test_wrong_use_is_told_in_plain_words(arguments: list[str], note: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.strip() == note


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).with_name("spacearm")
    done = subprocess.run([command, "check", "no-such-robot"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "'no-such-robot' is neither a file nor a robot of the catalogue" in done.stderr
    assert "Traceback" not in done.stderr


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
    assert json.loads(capsys.readouterr().out) == {
        "path": str(tmp_path / "cache"),
        "kernels": 0,
        "loops": 0,
        "pieces": 0,
        "bytes": 0,
    }
    cache.write("a" * 64, b"code")
    assert main(["cache", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == 1
    assert main(["cache", "clear"]) == 0
    assert cache.read("a" * 64) is None


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


@pytest.mark.parametrize(
    "command",
    ["run LONG -o D", "check LONG", "convert xu2017 LONG", "init impact -o LONG", "view LONG", "view xu2017 -o LONG",
     "figures LONG -o D", "compare LONG LONG", "map LONG -o D", "campaign LONG", "campaign run LONG -o D",
     "campaign status LONG", "mount LONG xu2017 -o D", "bus -o LONG", "reproduce LONG", "reproduce xu2017 -o LONG",
     "catalogue show LONG", "keys LONG", "export xu2017 --c LONG", "completion LONG"],
)  # fmt: skip
def test_names_that_no_file_can_have_are_told_shortly(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([part.replace("LONG", 5000 * "a" + ".toml") for part in command.split()]) in (1, 2)
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert len(told) < 600
    assert not list(tmp_path.iterdir())
