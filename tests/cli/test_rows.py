"""The table in the terminal: the headline, ten rows, and how to see the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spacearm.cli import main
from spacearm.result import Certificate, Check, Result, Row
from support.cli import Capture


def test_the_terminal_shows_the_headline_and_ten_rows(
    tmp_path: Path, stand_in: Callable[..., None], capsys: Capture
) -> None:
    rows = [*(Row(f"end.joint{k}", 0.1 * k, "rad") for k in range(20)), Row("peak.rate", 2.0, "rad/s")]
    found = Result("case", rows, Certificate({"energy": Check(1e-12, 1e-9)}), headline="It peaks at 2 rad/s.")
    stand_in("spacearm.study.scenario", read_study_name=lambda path: "case", run_scenario=lambda path, **_: found)
    command = ["run", str(tmp_path / "case.toml"), "-o", str(tmp_path / "out")]
    (tmp_path / "case.toml").touch()

    def notes(*options: str) -> str:
        assert main([*command, *options]) == 0
        return capsys.readouterr().out

    few = notes()
    assert few.startswith("It peaks at 2 rad/s.")
    assert few.count("end.joint") == 9
    assert "peak.rate" in few
    assert f"11 more rows: {tmp_path / 'out' / 'results.json'}, or --rows all" in few.replace("\n", "")
    assert notes("--rows", "20").count("end.joint") == 19
    everything = notes("--rows", "all")
    assert everything.count("end.joint") == 20
    assert "more row" not in everything
    assert main([*command, "--rows", "0"]) == 2
    assert "expected a number of rows, or 'all'" in capsys.readouterr().err
