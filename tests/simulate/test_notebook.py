"""Runs in a notebook and beyond it: figures without a network, tables, short texts, joints by name."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spacearm import Phase, State, World, simulate
from spacearm.errors import InputError
from spacearm.model import Limits
from spacearm.result import Figure, Result
from spacearm.simulate import Load, Run, half_sine
from support.arms import arm, slider


@pytest.fixture(scope="module")
def run() -> Run:
    robot = arm(3)
    return simulate(robot, State.at_rest(robot), Phase(0.5, forces={robot.joint_names[0]: 1.0}), sample=0.01)


def test_figures_show_themselves_without_a_network(run: Run) -> None:
    figures = run.plot()
    assert [figure.name for figure in figures][:3] == ["attitude", "joints", "drives"]
    text = html.unescape(figures._repr_html_())
    assert "Plotly.newPlot" in text
    assert not re.search(r"<script[^>]*\ssrc=", text)
    assert not re.search(r"<link[^>]*href=", text)
    assert text.count("<p>") == len(figures)
    assert "Attitude of the base" in text


def test_figures_of_a_result_show_themselves_too(run: Run) -> None:
    result = Result("case", figures=[run.plot()[0]])
    assert "Plotly.newPlot" in html.unescape(result.figures._repr_html_())
    assert "Plotly.newPlot" in html.unescape(result.figures[0]._repr_html_())
    assert repr(result.figures) == "Figures(attitude)"
    assert isinstance(result.figures[0], Figure)


def test_a_table_has_a_row_for_each_time(run: Run) -> None:
    table = run.to_dataframe()
    assert len(table) == run.times.size
    assert table.index.name == "time"
    np.testing.assert_array_equal(table.index, run.times)
    first = run.robot.joint_names[0]
    np.testing.assert_array_equal(table[f"joint_position.{first}"], run.states[:, 7])
    np.testing.assert_array_equal(table["base_position.z"], run.states[:, 2])
    assert table.attrs["units"][f"joint_velocity.{first}"] == "rad/s"
    assert len(table.columns) < 200


def test_units_of_slides_are_metres() -> None:
    robot = slider()
    table = simulate(robot, State.at_rest(robot), 0.1).to_dataframe()
    kinds = {joint.name: joint.unit for joint in robot.joints}
    units = table.attrs["units"]
    assert {name: units[f"joint_position.{name}"] for name in kinds} == kinds


def test_a_csv_file_comes_back(run: Run, tmp_path: Path) -> None:
    back = pd.read_csv(run.to_csv(tmp_path / "run.csv"))
    assert list(back.columns[:2]) == ["time [s]", "base_position.x [m]"]
    np.testing.assert_array_equal(back["time [s]"], run.times)
    np.testing.assert_array_equal(back["base_velocity.y [m/s]"], run.to_dataframe()["base_velocity.y"])


def test_texts_are_one_short_line(run: Run) -> None:
    robot = arm(11)
    things = (run, run.end, robot, State.at_rest(robot), World({"a": robot, "b": arm(2)}), Result("case"))
    push = Load.from_direction("hand", [1.0, 0.0, 0.0], half_sine(2.0, 0.1, 0.2))
    things += (run.tracks[0], run.tracks[0].ledger, half_sine(2.0, 0.1, 0.2), push)
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 160
    assert (
        repr(Phase(2.0, locked=["joint1"], forces={"joint2": 1.0})) == "Phase(2 s, locked=('joint1',), forces={joint2})"
    )
    assert repr(World({"a": arm(2)})) == "World(a (2 joints))"


def test_a_run_that_leaves_a_range_says_so_beside_what_is_sound() -> None:
    robot = arm(2)
    tight = robot.replace(joints=(replace(robot.joints[0], limits=Limits(-0.01, 0.01)), *robot.joints[1:]))
    found = simulate(tight, State.at_rest(tight), Phase(1.0, forces={tight.joint_names[0]: 2.0}))
    assert f"LIMITS BROKEN: range of {tight.joint_names[0]}; numerics sound" in repr(found)
    assert "BROKEN" in found._repr_html_()


def test_joints_are_given_by_name() -> None:
    robot = arm(3)
    first, _, last = robot.joint_names
    np.testing.assert_array_equal(State.at_rest(robot, {last: 0.3}).joints, [0.0, 0.0, 0.3])
    np.testing.assert_array_equal(State.from_velocities(robot, {first: 0.1}, {last: 0.2}).rates, [0.0, 0.0, 0.2])
    with pytest.raises(InputError, match="has no joint 'elbow'"):
        State.at_rest(robot, {"elbow": 0.3})
    with pytest.raises(InputError, match=last):
        State.at_rest(robot, {last: "far"})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="finite"):
        State.at_rest(robot, {last: float("nan")})
