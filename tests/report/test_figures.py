"""Figures of starters and examples keep the rules: few curves, short labels, one unit, no rounding as data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.figures import MOST_CURVES, add_curve, new_figure
from spacearm.result import MORE_CURVES, Figure
from spacearm.study import run_scenario
from support import ROOT
from support.figure_rules import figure_faults, result_faults

#: Examples that take seconds. The figures of all starters (tests/cli), of the papers and of what is shown in a browser
#: (support.pages) are held to the same rules where they are run.
EXAMPLES = ("closed-loop", "workspace", "plans", "servo", "probe-nozzle", "measured-joint")


@pytest.mark.parametrize("name", EXAMPLES)
def test_figures_of_an_example(name: str) -> None:
    result = run_scenario(ROOT / "examples" / f"{name}.toml")
    assert result.figures
    assert result_faults(result) == []


def test_curves_behind_the_eighth_are_in_the_legend_alone() -> None:
    plot = new_figure(x="time", x_unit="s", y="force", y_unit="N")
    for k in range(11):
        add_curve(plot, [0.0, 1.0], [0.0, 1.0 + k], f"joint{k}")
    figure = Figure("many", plot, "Forces.")
    assert sum(trace.visible is None for trace in plot.data) == MOST_CURVES
    assert [trace.visible for trace in plot.data][MOST_CURVES:] == ["legendonly"] * 3
    assert figure.caption == f"Forces. {MORE_CURVES}"
    assert figure_faults(plot) == []


def test_rounding_is_drawn_as_zero() -> None:
    plot = new_figure(x="time", x_unit="s", y="force", y_unit="N")
    add_curve(plot, [0.0, 1.0], [3e-15, 1e-17], "noise")
    assert figure_faults(plot) == ["y: 'noise' is rounding: 3e-15"]
    Figure("noise", plot)
    assert np.all(np.asarray(plot.data[0].y) == 0.0)
    small = new_figure(x="time", x_unit="s", y="slide", y_unit="m")
    add_curve(small, [0.0, 1.0], [0.0, 2e-9], "small")  # small, but no rounding
    Figure("small", small)
    assert small.data[0].y[1] == 2e-9


@pytest.mark.parametrize(
    ("label", "unit", "fault"),
    [
        ("deformation", "rad or m", "has several units"),
        ("deformation", "", "has no unit"),
        ("", "kg m/s", "does not say what it shows"),
        ("angular velocity of the base about the axis of the first joint", "rad/s", "is a sentence"),
    ],
)
def test_faults_are_found(label: str, unit: str, fault: str, tmp_path: Path) -> None:
    plot = new_figure(x="time", x_unit="s")
    add_curve(plot, [0.0, 1.0], [0.0, 1.0], "one")
    plot.update_yaxes(title_text=f"{label} [{unit}]" if unit else label)
    assert any(fault in found for found in figure_faults(plot))
