"""Figures of a run: wheels apart from joints, one unit on an axis, at most eight curves, no rounding as data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from spacearm.figures import MOST_CURVES
from spacearm.model import catalogue
from spacearm.result import RPM
from spacearm.simulate import Phase, State, simulate
from spacearm.simulate.run.figures import figures
from support.arms import arm


@pytest.fixture(scope="module")
def drawn() -> dict[str, object]:
    robot = catalogue.load("servicer")
    run = simulate(robot, State.at_rest(robot), [Phase(0.5, forces={"wheel_x": 0.1, "slide": 0.01, "joint1": 0.01})])
    return {figure.name: figure.plot for figure in figures(run)}


def test_wheels_have_a_figure_of_their_own_with_their_limits(drawn: dict[str, object]) -> None:
    wheels = catalogue.load("servicer").wheel_names
    for name, plot in drawn.items():
        if name not in ("wheels", "commands"):
            assert not {trace.name for trace in plot.data} & set(wheels)
    plot = drawn["wheels"]
    assert [note.text for note in plot.layout.annotations] == ["speed [rpm]", "stored momentum [N m s]"]
    speed, momentum = (next(t for t in plot.data if t.name == "wheel_x" and t.xaxis == axis) for axis in ("x", "x2"))
    inertia = catalogue.load("servicer").joint("wheel_x").rotor.inertia
    # momentum equals the impulse of the motor's torque: 0.1 N m for 0.5 s, but for what the bus turns meanwhile
    assert momentum.y[-1] == pytest.approx(0.05, rel=2e-2)
    assert speed.y[-1] == pytest.approx(RPM * momentum.y[-1] / inertia, rel=1e-9)
    limits = sorted(shape.y0 for shape in plot.layout.shapes if shape.yref == "y" and shape.y0 == shape.y1)
    assert limits == pytest.approx([-RPM * 400.0, RPM * 400.0])


def test_what_belongs_to_one_axis_has_one_colour(drawn: dict[str, object]) -> None:
    """Yellow was the pitch, and beside it w; blue was the roll, and x of the panels below."""
    colour = {trace.name: trace.line.color for name in ("attitude", "base") for trace in drawn[name].data}
    assert [colour[name] for name in ("roll", "pitch", "yaw")] == [colour[name] for name in "xyz"]
    assert colour["w"] not in {colour[name] for name in "xyz"}
    w = next(trace for trace in drawn["attitude"].data if trace.name == "w")
    assert w.y[0] == 1.0


def test_an_axis_has_one_unit_and_a_figure_at_most_eight_curves(drawn: dict[str, object]) -> None:
    assert {"joints", "joints-slides", "drives", "drives-slides"} <= set(drawn)
    for plot in drawn.values():
        assert len({trace.name for trace in plot.data}) <= MOST_CURVES
        for note in plot.layout.annotations:
            assert " or " not in note.text
            assert len(note.text) <= 40


def test_a_long_arm_has_several_figures() -> None:
    robot = arm(11)
    run = simulate(robot, State.at_rest(robot), [Phase(0.02)])
    plots = {figure.name: figure.plot for figure in figures(run)}
    shown = [{trace.name for trace in plots[name].data} for name in ("joints", "joints-2")]
    assert [len(names) for names in shown] == [8, 3]
    assert shown[0] | shown[1] == set(robot.joint_names)


def test_momentum_that_is_rounding_is_drawn_as_zero() -> None:
    robot = arm(3)
    run = simulate(robot, State.at_rest(robot), [Phase(0.5, forces={robot.joint_names[0]: 5.0})])
    plot = next(figure.plot for figure in figures(run) if figure.name == "momentum")
    assert all(np.all(np.asarray(trace.y) == 0.0) for trace in plot.data)


def test_headline_has_peaks_with_their_times() -> None:
    from spacearm.study import run_document

    phases = [{"duration": 0.5, "forces": {"base_vx": 100.0}}, {"duration": 0.5, "forces": {"base_vx": -300.0}}]
    document = {"study": "motion", "robot": "arm", "phase": phases}
    result = run_document(document, folder=Path(), robots={"arm": arm(2)})
    moved = re.search(r"moves by at most ([\d.]+) mm \(at ([\d.]+) s\)", result.headline)
    assert moved
    data = 1e3 * np.linalg.norm(result.data["base_position"].values, axis=1)
    assert float(moved[1]) == pytest.approx(data.max(), rel=1e-2)
    assert float(moved[2]) < 1.0  # not at the end: it comes back
