"""Figures of the study: panels of curves over time, trade-off fronts, energies and momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.capture.output import Outcome
from spacearm.figures import COLOURS, label, new_figure, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from spacearm.capture.design import Front
    from spacearm.capture.shares import Shares


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
) -> go.Figure:
    """Panels in a grid; a name has the same colour everywhere and stands once in the legend."""
    from plotly.subplots import make_subplots

    rows = -(-len(parts) // columns)
    total = height * rows + 90
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[part.title for part in parts],
        vertical_spacing=90 / total,
        horizontal_spacing=0.11,
    )
    figure.update_layout(template=template(), height=total)
    names = list(dict.fromkeys(name for part in parts for name in part.curves))
    for number, part in enumerate(parts):
        at = {"row": number // columns + 1, "col": number % columns + 1}
        for name, (xs, ys) in part.curves.items():
            first = all(name not in earlier.curves for earlier in parts[:number])
            line = {"color": COLOURS[names.index(name) % len(COLOURS)], "width": 1.6}
            line["dash"] = (dashes or {}).get(name, "solid")
            figure.add_scatter(
                x=np.asarray(xs), y=np.asarray(ys), mode="lines", name=name, legendgroup=name, showlegend=first,
                line=line, **at,
            )  # fmt: skip
        figure.update_yaxes(title_text=part.y, **at)
        if number >= len(parts) - columns:
            figure.update_xaxes(title_text=x, **at)
    figure.update_layout(legend={"y": 1 + 34 / total * 1.2, "yanchor": "bottom"}, margin={"t": 90})
    figure.update_annotations(font_size=13)
    return figure


def base_figure(outcomes: Mapping[str, Outcome]) -> go.Figure:
    """Velocity and angular velocity of the base, world axes, of several runs (as the paper's Fig. 12)."""
    parts = []
    for k, axis in enumerate("xyz"):
        parts.append(Panel(f"{axis} line", "velocity [m/s]", _series(outcomes, "base_velocity", k)))
        parts.append(Panel(f"{axis} angle", "rate [rad/s]", _series(outcomes, "base_rate", k)))
    return panels(parts)


def load_figure(outcomes: Mapping[str, Outcome], entries: Sequence[str] = ("mx", "my", "mz", "fz")) -> go.Figure:
    """Loads on the base (as the paper's Fig. 13)."""
    order = ("fx", "fy", "fz", "mx", "my", "mz")
    parts = []
    for entry in entries:
        unit, what = ("N", "force") if entry[0] == "f" else ("N m", "torque")
        curves = _series(outcomes, "to_base", order.index(entry))
        parts.append(Panel(f"{entry[1]} {'line' if unit == 'N' else 'angle'} {what}", f"{what} [{unit}]", curves))
    return panels(parts)


def deformation_figure(outcomes: Mapping[str, Outcome], axes: Sequence[str]) -> go.Figure:
    """Deformations of soft axes (as the paper's Figs. 14 and 15)."""
    parts = []
    for axis in axes:
        first = next(iter(outcomes.values()))
        curves = {name: (o.times, o.joint(axis)) for name, o in outcomes.items()}
        parts.append(Panel(axis, f"deformation [{first.robot.joint(axis).unit}]", curves))
    return panels(parts)


def _series(outcomes: Mapping[str, Outcome], what: str, column: int) -> dict[str, tuple[Any, Any]]:
    return {name: (o.times, getattr(o, what)[:, column]) for name, o in outcomes.items()}


def damper_figure(outcome: Outcome) -> go.Figure:
    """Energy that each damper has absorbed, over time."""
    figure = new_figure(x="time", x_unit="s", y="absorbed energy", y_unit="J")
    for name in outcome.axes:
        series = outcome.damper_energy[:, outcome.robot.joint_index(name)]
        figure.add_scatter(x=outcome.times, y=series, mode="lines", name=name)
    return figure


def momentum_figure(outcome: Outcome, shares: Shares) -> go.Figure:
    """Momentum of base, arm and target, world axes."""
    parts = []
    for k, axis in enumerate("xyz"):
        linear = {name: (outcome.times, part[:, k]) for name, part in shares.linear.items()}
        angular = {name: (outcome.times, part[:, k]) for name, part in shares.angular.items()}
        parts.append(Panel(f"linear, {axis}", "[kg m/s]", linear))
        parts.append(Panel(f"angular about the mass centre, {axis}", "[kg m2/s]", angular))
    return panels(parts)


UNITS = {"base_rate": "rad/s", "settling": "s", "force": "N", "moment": "N m"}
NAMES = {
    "base_rate": "peak base rate",
    "settling": "settling time",
    "force": "peak force on the base",
    "moment": "peak moment on the base",
}


def objective_label(objective: str) -> str:
    """Axis label of an objective."""
    unit = UNITS.get(objective, "N" if objective[0] == "f" else "N m")
    return label(NAMES.get(objective, f"peak {objective} on the base"), unit)


def front_figure(fronts: Mapping[str, Front], marks: Mapping[str, Any], x: str, y: str, colour: str = "") -> go.Figure:
    """Designs on fronts, and single ones by name (values in the order of the objectives), in two objectives."""
    figure = new_figure(height=520)
    figure.update_xaxes(title_text=objective_label(x))
    figure.update_yaxes(title_text=objective_label(y))
    symbols = ("circle", "diamond", "square")
    for number, (name, front) in enumerate(fronts.items()):
        a, b = front.objectives.index(x), front.objectives.index(y)
        marker: dict[str, Any] = {"size": 7, "symbol": symbols[number % 3], "color": COLOURS[number]}
        if colour and number == 0:
            values = front.values[:, front.objectives.index(colour)]
            marker |= {"color": values, "colorscale": "Cividis", "showscale": True}
            marker["colorbar"] = {"title": {"text": objective_label(colour), "side": "right"}, "thickness": 14}
        figure.add_scatter(x=front.values[:, a], y=front.values[:, b], mode="markers", name=name, marker=marker)
    first = next(iter(fronts.values()))
    for number, (name, point) in enumerate(marks.items()):
        figure.add_scatter(
            x=[point[first.objectives.index(x)]],
            y=[point[first.objectives.index(y)]],
            mode="markers+text",
            name=name,
            text=[name],
            textposition="top center",
            showlegend=False,
            marker={"size": 13, "symbol": "star", "color": COLOURS[(3 + number) % len(COLOURS)]},
        )
    return figure
