"""Torques in, joint rates out, beside another group's simulation of its robot (MIT, see ``data/cbk``)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model import load
from spacearm.study import run_scenario
from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from frozen_positions import ROBOT, integrate_exact, integrate_frozen, read_rates

DATA = Path(__file__).with_name("data") / "cbk"
SCENARIO = (ROOT / "examples" / "lab" / "cbk-planar.toml").read_text()


def test_the_difference_is_that_of_an_integrator_which_holds_positions() -> None:
    robot = load(ROBOT)
    torques, rates = read_rates(DATA)
    exact = integrate_exact(robot, torques)
    # The file has eight decimals; its authors' integrator with our equations gives each of them.
    assert np.abs(integrate_frozen(robot, torques) - rates).max() < 6e-9
    first = np.abs(exact - rates).max()
    assert first > 1e-5
    # Of first order in the step over which they are held.
    halved = [np.abs(integrate_frozen(robot, torques, parts) - exact).max() for parts in (1, 2, 4)]
    assert halved[0] == pytest.approx(first, rel=0.01)
    assert halved[1] / halved[0] == pytest.approx(0.5, abs=0.02)
    assert halved[2] / halved[1] == pytest.approx(0.5, abs=0.02)


def run_page(folder: Path, scenario: str) -> dict[str, object]:
    (folder / "robots").mkdir(exist_ok=True)
    (folder / "robots" / "cbk-planar.toml").write_text(ROBOT.read_text())
    (folder / "cbk.toml").write_text(scenario)
    result = run_scenario(folder / "cbk.toml", data=DATA)
    return {"sound": result.sound} | {row.quantity: row.value for row in result.rows}


def test_a_page_reads_files_without_header_and_torques_of_a_file_of_their_own(tmp_path: Path) -> None:
    scenario = SCENARIO.replace("duration = 4.98", "duration = 1.48")
    rows = run_page(tmp_path, scenario)
    for k in range(3):
        assert rows[f"channel.joint{k + 1}.rate.rms"] < 3e-5
    # A force that moves no joint is no assumption to relax.
    assert not any("gravity" in name for name in rows)
    # Straight lines between commands, which hold, are half a step early.
    ahead = run_page(tmp_path, scenario.replace("hold = true", "hold = false"))
    assert ahead["channel.joint1.rate.rms"] > 5.0 * rows["channel.joint1.rate.rms"]


@pytest.mark.parametrize(
    ("was", "instead", "message"),
    [
        ("time = { rate = 100.0 }", "time = {}", "neither column nor rate"),
        ("time = { rate = 100.0 }", 'time = { rate = 100.0, column = "[0]" }', "both column and rate"),
        ("time = { rate = 100.0 }", "time = { rate = 0.0 }", "more than zero"),
        ('column = "[9]"', 'column = "[11]"', "no such column"),
        ('column = "[9]"', 'column = "torque"', "no header"),
        ("forces.joint2", "driven.joint2", "hold"),
    ],
)
def test_a_wrong_page_is_refused(tmp_path: Path, was: str, instead: str, message: str) -> None:
    scenario = SCENARIO.replace("duration = 4.98", "duration = 1.48")
    assert was in scenario
    with pytest.raises(InputError, match=message):
        run_page(tmp_path, scenario.replace(was, instead))
