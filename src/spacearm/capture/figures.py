"""Figures of the study: panels of curves over time, trade-off fronts, energies and momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm import figures
from spacearm.capture.capture_run import CaptureRun
from spacearm.figures import COLOURS, add_curve, label, new_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from spacearm.capture.design import DesignFront
    from spacearm.capture.momentum_budget import MomentumBudget


@dataclass(frozen=True)
class Panel:
    """One panel: a title, the label of its y axis, and curves by name: (x, y)."""

    title: str
    y: str
    curves: Mapping[str, tuple[Any, Any]]


def panels(
    parts: Sequence[Panel],
    *,
    columns: int = 2,
    x: str = "time [s]",
    dashes: Mapping[str, str] | None = None,
    height: int = 260,
    colours: Mapping[str, int] | None = None,
) -> go.Figure:
    """Panels in a grid; a name has the same colour everywhere and one entry in the legend.

    Panels whose y axes have the same label share their scale. ``colours`` by name, for curves that other figures show
    too.
    """
    total = height * -(-len(parts) // columns) + 90
    figure = figures.panels([part.title for part in parts], columns=columns, height=total)
    names = list(dict.fromkeys(name for part in parts for name in part.curves))
    for number, part in enumerate(parts):
        at = {"row": number // columns + 1, "col": number % columns + 1}
        for name, (xs, ys) in part.curves.items():
            first = all(name not in earlier.curves for earlier in parts[:number])
            style: dict[str, Any] = {"colour": (colours or {}).get(name, names.index(name)), "line": {"width": 1.6}}
            style["dash"] = (dashes or {}).get(name, "solid")
            add_curve(figure, np.asarray(xs), np.asarray(ys), name, legendgroup=name, showlegend=first, **style, **at)
        figure.update_yaxes(title_text=part.y, **at)
        if number >= len(parts) - columns:
            figure.update_xaxes(title_text=x, **at)
    for text in dict.fromkeys(part.y for part in parts):
        same = [number for number, part in enumerate(parts) if part.y == text]
        if len(same) > 1:
            figures.share_y_range(figure, [(number // columns + 1, number % columns + 1) for number in same])
    figure.update_annotations(font_size=13)
    return figure


def base_figure(outcomes: Mapping[str, CaptureRun], colours: Mapping[str, int] | None = None) -> go.Figure:
    """Velocity and angular velocity of the base, world axes, of several runs (as the paper's Fig. 12)."""
    parts = []
    for k, axis in enumerate("xyz"):
        parts.append(Panel(f"along {axis}", "velocity [m/s]", _series(outcomes, "base_velocity", k)))
        parts.append(Panel(f"about {axis}", "rate [rad/s]", _series(outcomes, "base_rate", k)))
    return panels(parts, colours=colours)


def load_figure(
    outcomes: Mapping[str, CaptureRun],
    entries: Sequence[str] = ("mx", "my", "mz", "fz"),
    colours: Mapping[str, int] | None = None,
) -> go.Figure:
    """Loads on the base (as the paper's Fig. 13)."""
    order = ("fx", "fy", "fz", "mx", "my", "mz")
    parts = []
    for entry in entries:
        unit, what = ("N", "force") if entry[0] == "f" else ("N m", "torque")
        curves = _series(outcomes, "base_wrench", order.index(entry))
        parts.append(Panel(f"{'along' if unit == 'N' else 'about'} {entry[1]}", f"{what} [{unit}]", curves))
    return panels(parts, colours=colours)


def deformation_figure(
    outcomes: Mapping[str, CaptureRun], axes: Sequence[str], colours: Mapping[str, int] | None = None
) -> go.Figure:
    """Deformations of soft axes (as the paper's Figs. 14 and 15); dashed: limits that are near."""
    robot = next(iter(outcomes.values())).robot
    parts = [
        Panel(
            axis,
            f"deformation [{robot.joint(axis).unit}]",
            {name: (o.times, o.joint(axis)) for name, o in outcomes.items()},
        )
        for axis in axes
    ]
    figure = panels(parts, colours=colours)
    for number, axis in enumerate(axes):
        limits, moved = robot.joint(axis).limits, np.concatenate([o.joint(axis) for o in outcomes.values()])
        figures.limit_lines(
            figure, [(limits.lower, limits.upper)], moved, [7], row=number // 2 + 1, column=number % 2 + 1
        )
    return figure


def _series(outcomes: Mapping[str, CaptureRun], what: str, column: int) -> dict[str, tuple[Any, Any]]:
    return {name: (o.times, getattr(o, what)[:, column]) for name, o in outcomes.items()}


def damper_figure(
    outcome: CaptureRun, colours: Mapping[str, int] | None = None, dashes: Mapping[str, str] | None = None
) -> go.Figure:
    """Energy that each damper has absorbed, over time; ``colours`` and ``dashes`` by axis."""
    figure = new_figure(x="time", x_unit="s", y="absorbed energy", y_unit="J")
    for number, name in enumerate(outcome.axes):
        energy = outcome.damper_energy[:, outcome.robot.joint_index(name)]
        style: dict[str, Any] = {"colour": (colours or {}).get(name, number), "dash": (dashes or {}).get(name, "solid")}
        add_curve(figure, outcome.times, energy, name, **style)
    return figure


def momentum_figure(outcome: CaptureRun, shares: MomentumBudget) -> go.Figure:
    """Momentum of base, arm and target, world axes."""
    parts = []
    for k, axis in enumerate("xyz"):
        linear = {name: (outcome.times, part[:, k]) for name, part in shares.linear.items()}
        angular = {name: (outcome.times, part[:, k]) for name, part in shares.angular.items()}
        parts.append(Panel(f"linear, {axis}", "momentum [N s]", linear))
        parts.append(Panel(f"about the mass centre, {axis}", "momentum [N m s]", angular))
    return panels(parts)


#: Objectives of a design, with their units.
OBJECTIVES = {
    "base_rate": ("peak base rate", "rad/s"),
    "settling": ("settling time", "s"),
    "force": ("peak force on the base", "N"),
    "moment": ("peak moment on the base", "N m"),
}


def objective(name: str) -> tuple[str, str]:
    """Description of an objective, and its unit."""
    return OBJECTIVES.get(name, (f"peak {name} on the base", "N" if name[0] == "f" else "N m"))


def front_figure(
    fronts: Mapping[str, DesignFront],
    marks: Mapping[str, Any],
    x: str,
    y: str,
    colour: str = "",
    colours: Mapping[str, int] | None = None,
) -> go.Figure:
    """Designs on fronts, and single ones by name (values in the order of the objectives), in two objectives."""
    figure = new_figure(x=label(*objective(x)), y=label(*objective(y)), height=520)
    for number, (name, front) in enumerate(fronts.items()):
        a, b = front.objectives.index(x), front.objectives.index(y)
        symbol = ("circle", "diamond", "square")[number % 3]
        marker: dict[str, Any] = {"size": 7, "symbol": symbol, "color": COLOURS[number]}
        if colour and number == 0:
            values = front.values[:, front.objectives.index(colour)]
            marker |= {"color": values, "colorscale": "Cividis", "showscale": True}
            marker["colorbar"] = {"title": {"text": label(*objective(colour)), "side": "right"}, "thickness": 14}
        figure.add_scatter(x=front.values[:, a], y=front.values[:, b], mode="markers", name=name, marker=marker)
    first = next(iter(fronts.values()))
    for number, (name, point) in enumerate(marks.items()):
        place = {"x": [point[first.objectives.index(x)]], "y": [point[first.objectives.index(y)]]}
        own = (colours or {}).get(name, 3 + number)
        marker = {"size": 13, "symbol": "star", "color": COLOURS[own % len(COLOURS)]}
        text = {"mode": "markers+text", "text": [name], "textposition": "top center", "showlegend": False}
        text["cliponaxis"] = False
        figure.add_scatter(**place, name=name, marker=marker, **text)
    return figure
