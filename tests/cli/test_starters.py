"""What helps to begin: starters, keys, completion; files of another type and misspelt names are recognised."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.cli import Capture
from tests.support.figure_rules import result_faults

from spacearm.cli import main
from spacearm.cli.starters import starter_names
from spacearm.errors import InputError
from spacearm.study import run_scenario
from spacearm.study.key_tables import key_tables
from spacearm.study.scenario import STUDIES

ROOT = Path(__file__).parents[2]
OWN_STUDIES = [name for name, place in STUDIES.items() if place.startswith("spacearm.")]


def test_every_study_has_a_starter() -> None:
    assert starter_names() == sorted(OWN_STUDIES)


@pytest.mark.parametrize("study", OWN_STUDIES)
def test_a_starter_runs_as_it_is_written(study: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", study, "-o", str(tmp_path / "new")]) == 0
    robot = tomllib.loads((tmp_path / "new" / f"{study}.toml").read_text())["robot"]
    assert (tmp_path / "new" / robot).is_file()
    assert f"spacearm run {tmp_path / 'new' / study}.toml" in capsys.readouterr().out
    result = run_scenario(tmp_path / "new" / f"{study}.toml")
    assert result.sound
    assert result.rows
    assert result_faults(result) == []


def test_init_writes_over_nothing(tmp_path: Path, capsys: Capture) -> None:
    mine = tmp_path / "xu2017.toml"
    mine.write_text("mine")
    assert main(["init", "motion", "-o", str(tmp_path)]) == 2
    assert "the file already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["xu2017.toml"]
    assert mine.read_text() == "mine"


def test_keys_are_printed(capsys: Capture) -> None:
    assert main(["keys", "mission"]) == 0
    out = capsys.readouterr().out
    assert "[target]" in out
    assert "closing" in out
    assert main(["keys", "mision"]) == 2
    assert "did you mean 'mission'?" in capsys.readouterr().err


def test_every_key_has_a_row() -> None:
    tables = {table.heading: table for table in key_tables("motion")}
    assert "[[phase]]" in tables
    assert {"name", "duration", "locked", "driven"} <= {row.name for row in tables["[[phase]]"].rows}
    assert {row.name: row.default for row in tables[""].rows}["robot"] == "required"


@pytest.mark.parametrize(
    ("study", "default"), [("motion", '"motion"'), ("mission", "required"), ("capture", "required")]
)
def test_only_a_file_of_motion_need_not_name_its_study(study: str, default: str) -> None:
    (row,) = (row for row in key_tables(study)[0].rows if row.name == "study")
    assert row.default == default
    assert row.choices == (() if study == "motion" else (study,))


def test_pages_have_the_keys_of_today() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "key_tables.py"), "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"run python tools/key_tables.py: {done.stdout}{done.stderr}"


def test_completion_is_a_script_that_bash_accepts(tmp_path: Path, capsys: Capture) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    probe = f"source {script}; COMP_WORDS=(spacearm rep); COMP_CWORD=1; _spacearm; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "reproduce"


@pytest.mark.parametrize(
    ("command", "file", "note"),
    [
        (["run", "{}", "-o", "out"], "robot.toml", "this is a robot file, not a scenario file ('spacearm check FILE'"),
        (["run", "{}", "-o", "out"], "robot.urdf", "this is a robot file, not a scenario file ('spacearm check FILE'"),
        (
            ["run", "{}", "-o", "out"],
            "campaign.toml",
            "this is a campaign file, not a scenario file ('spacearm campaign",
        ),
        (["check", "{}"], "scenario.toml", "this is a scenario file, not a robot file ('spacearm run FILE -o DIR'"),
        (["check", "{}"], "campaign.toml", "this is a campaign file, not a robot file"),
        (["map", "{}", "-o", "out"], "scenario.toml", "this is a scenario file, not a campaign file"),
    ],
)
def test_a_file_of_another_type_is_recognised(
    command: list[str], file: str, note: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("robot.toml").write_text('[robot]\nname = "r"\n[[body]]\nname = "b"\nmass = 1.0\n')
    Path("robot.urdf").write_text('<robot name="r"><link name="b"/></robot>')
    Path("scenario.toml").write_text('study = "motion"\nrobot = "xu2017"\n')
    Path("campaign.toml").write_text('scenario = "scenario.toml"\n')
    assert main([part.format(file) for part in command]) == 2
    assert note in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize("command", [["run", "misson.toml", "-o", "out"], ["check", "misson.toml"]])
def test_a_misspelt_file_gets_a_suggestion(
    command: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mission.toml").write_text("")
    assert main(command) == 2
    assert "there is no such file (did you mean 'mission.toml'?)" in capsys.readouterr().err


def test_a_misspelt_robot_of_a_scenario_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text("")
    (tmp_path / "case.toml").write_text('robot = "arn.urdf"\n[[phase]]\nduration = 1.0\n')
    with pytest.raises(InputError, match=r"there is no file 'arn.urdf' \(did you mean '.*arm.urdf'\?; names are rel"):
        run_scenario(tmp_path / "case.toml")
