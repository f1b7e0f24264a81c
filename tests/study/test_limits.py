"""Verdict on the limits: apart from what is sound, first on the page and in the terminal."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from spacearm.cli.app import run_app
from spacearm.model import Robot
from spacearm.model.mounts import find_robot
from spacearm.report import write_result
from spacearm.report._page import badges
from spacearm.report.write import IndexEntry, write_index
from spacearm.result import Check, Limit, Result
from spacearm.study import run_document
from spacearm.study.limits import joint_limits, range_use

ROBOT = """
[robot]
name = "two"
base = "bus"
[[body]]
name = "bus"
mass = 100.0
inertia = [10.0, 10.0, 10.0]
[[body]]
name = "upper"
mass = 2.0
inertia = [0.1, 0.1, 0.1]
[[body]]
name = "lower"
mass = 1.0
com = [0.5, 0.0, 0.0]
inertia = [0.1, 0.1, 0.1]
[[joint]]
name = "joint1"
parent = "bus"
child = "upper"
axis = [0.0, 0.0, 1.0]
kind = "revolute"
limits = { lower = -3.0, upper = 3.0 }
[[joint]]
name = "joint3"
parent = "upper"
child = "lower"
origin = { xyz = [1.0, 0.0, 0.0] }
axis = [0.0, 0.0, 1.0]
kind = "revolute"
limits = { lower = -1.0, upper = 1.0, velocity = 2.0, effort = 1e3 }
"""


@pytest.fixture
def robot(tmp_path: Path) -> Robot:
    (tmp_path / "two.toml").write_text(ROBOT)
    return find_robot("two.toml", tmp_path)


def run(robot: Robot, rate: float, brake: float = 0.0, sample: float = 0.05, **more: object) -> Result:
    """joint3 starts at this rate and loses ``brake`` of it in a second, for 4 s."""
    phase = {"duration": 4.0, "accelerations": {"joint1": 0.0, "joint3": -brake}, **more}
    start = {"rates": {"joint3": rate}}
    document = {"study": "motion", "robot": "two", "sample": sample, "start": start, "phase": [phase]}
    return run_document(document, folder=Path(), robots={"two": robot})


@pytest.mark.parametrize("limits", ["report", "ignore"])
def test_a_broken_limit_is_named_with_its_joint_its_share_and_its_time(robot: Robot, limits: str) -> None:
    result = run(robot, 0.5375, limits=limits)  # 2.15 rad after 4 s: 215 % of the range; 1 rad at 1.86 s
    assert result.sound
    assert result.verdict == "limits broken"
    worst = result.limits_broken[0]
    assert (worst.what, worst.name) == ("joint3", "range")
    assert worst.used == pytest.approx(2.15, rel=1e-9)
    assert worst.time == pytest.approx(1.0 / 0.5375, rel=1e-6 if limits == "report" else 0.03)
    assert re.match(r"LIMITS BROKEN: joint3 at 215 % of its range at 1\.\d+ s", result.verdict_words)
    assert "joint3 at 215 % of its range" in result.headline
    assert repr(result).index("LIMITS BROKEN") < repr(result).index("sound")


def test_a_limit_that_is_broken_between_samples_is_not_missed(robot: Robot) -> None:
    result = run(robot, 1.0, brake=0.4998, sample=0.37)  # goes to 1.0004 rad at 2.0 s, and back
    assert result.verdict_words == "LIMITS BROKEN: joint3 at just over 100 % of its range at 1.96 s"


def test_limits_that_are_met_say_the_nearest(robot: Robot) -> None:
    result = run(robot, 0.2)
    assert (result.verdict, result.limits_broken) == ("limits met", ())
    assert result.verdict_words.startswith("limits met; nearest: joint3 at 80 % of its range at 4 s")


def test_no_badge_is_green_beside_a_broken_limit() -> None:
    bad = Limit("range", 2.15, 1.0, "rad", "joint3", time=4.2, share=True)
    good = Limit("rate", 0.1, 1.0, "rad/s", "joint1", share=True)
    sound = {"momentum": Check(0.0, 1e-9)}
    broken = badges(Result("case", certificate=sound, limits=[bad, good]))  # type: ignore[arg-type]
    assert [badge.style for badge in broken] == ["differs", "not-recoverable"]
    assert broken[0].text == "LIMITS BROKEN: joint3 at 215 % of its range at 4.2 s"
    met = badges(Result("case", certificate=sound, limits=[good]))  # type: ignore[arg-type]
    assert {badge.style for badge in met} == {"agrees"}
    assert [b.text for b in badges(Result("case", certificate=sound))] == ["sound"]  # type: ignore[arg-type]


def test_page_and_index_tell_broken_limits_first(tmp_path: Path) -> None:
    bad = Limit("range", 2.15, 1.0, "rad", "joint3", time=4.2, share=True)
    result = Result("case", certificate={"momentum": Check(0.0, 1e-9)}, limits=[bad])  # type: ignore[arg-type]
    page = write_result(result, tmp_path / "all" / "case")
    body = page.read_text().partition("<body>")[2]
    assert 0 < body.index("LIMITS BROKEN: joint3 at 215 %") < body.index("numerics sound")
    head = body[: body.index("<h2>")]
    assert "chip agrees" not in head
    index = write_index([IndexEntry("case", "Case", result, "case/index.html")], tmp_path / "all")
    assert "LIMITS BROKEN: joint3 at 215 %" in index.read_text()
    assert "chip agrees" not in index.read_text()
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert summary["studies"][0]["limits"].startswith("LIMITS BROKEN")
    written = json.loads((tmp_path / "all" / "case" / "results.json").read_text())["verdict"]
    assert written["limits"] == "limits broken"
    assert Limit.from_json(written["each"][0]) == bad


def test_terminal_prints_broken_limits_first_and_exits_with_3(
    robot: Robot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = (
        "[start]\nrates = { joint3 = 0.5375 }\n[[phase]]\nduration = 4.0\naccelerations = { joint1 = 0, joint3 = 0 }\n"
    )
    (tmp_path / "run.toml").write_text(f"study = 'motion'\nrobot = 'two.toml'\n{tables}")
    status = run_app(["run", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    assert status == 3
    assert shown.startswith("LIMITS BROKEN: joint3 at 215 % of its range")
    assert "motion: LIMITS BROKEN: joint3 at 215 % of its range at 1.86 s; numerics sound" in shown


def test_use_of_a_range_is_from_its_middle() -> None:
    used, half = range_use([-1.0, 0.0, -math.inf, 0.0], [3.0, 2.0, math.inf, math.inf], [0.0] * 4, [3.5, 1.0, 9.0, 1.0])
    assert used == pytest.approx([2.5, 1.0, 0.0, 1.0])
    assert half == pytest.approx([2.0, 1.0, np.inf, 1.0])


def test_efforts_count_while_a_joint_moves(robot: Robot) -> None:
    times, still = np.array([0.0, 1.0]), np.zeros((2, 2))
    efforts = np.full((2, 2), 2e3)
    assert not any(limit.is_broken for limit in joint_limits(robot, times, still, still, efforts))
    found = joint_limits(robot, times, still, np.full((2, 2), 0.1), efforts)
    assert [limit.words for limit in found if limit.is_broken] == ["joint3 at 200 % of its torque at 0 s"]


def test_a_path_that_ends_at_its_limit_breaks_nothing(robot: Robot) -> None:
    times, at = np.array([0.0, 1.0]), np.array([[0.0, 0.0], [0.0, np.nextafter(1.0, 2.0)]])
    assert not any(limit.is_broken for limit in joint_limits(robot, times, at, 0.0 * at, crossings={"joint3": 0.5}))


def test_ranges_of_a_workspace_beyond_those_of_the_joints_are_broken_limits(robot: Robot) -> None:
    ranges = {"joint1": [-3.0, 3.0], "joint3": [-1.0, 1.5]}
    document = {"study": "workspace", "robot": "two", "ranges": ranges, "twist": ["x", "y"], "plane": ["x", "y"]}
    few = {"samples": 500, "grid": 9, "cells": 9, "across": ["joint1", "joint3"], "thickness": 1.0}
    result = run_document({**document, **few}, folder=Path(), robots={"two": robot})
    assert result.verdict_words == "LIMITS BROKEN: joint3 at 150 % of its range"
