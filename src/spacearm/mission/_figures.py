"""Figures and curves of a mission: its timeline, the margins of its stages, and how the servicer moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, add_curve, new_figure, panels
from spacearm.mission._encounter import TARGET
from spacearm.mission._flight import MissionFlight
from spacearm.mission._outcomes import StageOutcome
from spacearm.result import Figure
from spacearm.simulate.run.figures import WHEELS, joint_groups, joint_panels, mode_figures, wheel_panels

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

DEGREE = 180.0 / np.pi
#: Margins from here on are drawn as this: what matters is near zero.
MOST = 1.0


def figures(outcomes: Sequence[StageOutcome], data: xr.Dataset, flight: MissionFlight) -> Iterator[Figure]:
    """Figures of the mission, the timeline first."""
    yield Figure("timeline", _timeline(outcomes), "The stages one after the other; the number is the least margin, %.")
    yield Figure(
        "margins",
        _margins(outcomes),
        "What is left of every limit, (limit - used) / limit; below zero it is exceeded. Above 1 it is drawn as 1.",
    )
    rate, rates = DEGREE * data["base_angular_velocity"].values, data["joint_velocity"].values
    titles = [
        "angular velocity of the bus [deg/s]",
        *["momentum of the wheels [N m s]"] * bool(flight.actuators.wheels),
    ]
    plot = panels(titles, height=400, spacing=0.09)
    for k, axis in enumerate("xyz"):
        add_curve(plot, data["time"], rate[:, k], axis, colour=k, scale=DEGREE, legendgroup=axis, row=1, col=1)
        # One legend for both panels.
        more: dict[str, Any] = {"legendgroup": axis, "showlegend": False, "row": 1, "col": 2}
        if flight.actuators.wheels:
            add_curve(plot, data["time"], data["wheel_momentum"].values[:, k], axis, colour=k, scale=1.0, **more)
    yield Figure("bus", _mark_stages(plot, outcomes), f"The bus before and after {TARGET} is caught; world axes.")
    robot = flight.actuators.robot
    if robot.wheel_names:
        yield Figure("wheels", _mark_stages(wheel_panels(robot, data["time"].values, rates), outcomes), WHEELS)
    for group in joint_groups(robot, flight.actuators.arm):
        plot, text = joint_panels(robot, group, data["time"].values, data["joint_position"].values, rates)
        yield Figure(f"arm{group.suffix}", _mark_stages(plot, outcomes), f"{text} Dotted lines: a stage begins.")
    for figure in mode_figures(robot, data["time"].values, data["joint_position"].values):
        yield replace(figure, plot=_mark_stages(figure.plot, outcomes))


def _mark_stages(plot: go.Figure, outcomes: Sequence[StageOutcome]) -> go.Figure:
    for outcome in outcomes[1:]:
        plot.add_vline(x=outcome.begin, line={"dash": "dot", "width": 1, "color": COLOURS[7]})
    plot.update_xaxes(title_text="time [s]")
    return plot


def _timeline(outcomes: Sequence[StageOutcome]) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", height=90 + 34 * len(outcomes))
    whole = max(outcomes[-1].end, 1e-9)
    plot.add_bar(
        y=[outcome.stage for outcome in outcomes],
        base=[outcome.begin for outcome in outcomes],
        # A stage without duration, such as a decision, stays visible.
        x=[max(outcome.end - outcome.begin, 0.004 * whole) for outcome in outcomes],
        orientation="h",
        marker={"color": [COLOURS[2] if outcome.success else COLOURS[3] for outcome in outcomes]},
        text=[f"{100 * min(outcome.margin, MOST):.0f} % {outcome.binding_limit.name}" for outcome in outcomes],
        textposition="outside",
        hovertext=[outcome.binding_limit.words for outcome in outcomes],
        showlegend=False,
        cliponaxis=False,
    )
    plot.update_yaxes(autorange="reversed", showgrid=False)
    plot.update_xaxes(range=[0.0, 1.25 * whole])
    return plot


def _margins(outcomes: Sequence[StageOutcome]) -> go.Figure:
    """A matrix of stages and limits."""
    names = list(dict.fromkeys(limit.name for outcome in outcomes for limit in outcome.limits))
    table = np.full((len(outcomes), len(names)), np.nan)
    for i, outcome in enumerate(outcomes):
        for limit in outcome.limits:
            table[i, names.index(limit.name)] = min(limit.margin, MOST)
    plot = new_figure(height=120 + 34 * len(outcomes))
    plot.add_heatmap(
        z=np.clip(table, -MOST, MOST),
        x=names,
        y=[outcome.stage for outcome in outcomes],
        colorscale="RdBu",
        zmid=0.0,
        zmin=-MOST,
        zmax=MOST,
        text=[["" if np.isnan(value) else f"{value:.2f}" for value in row] for row in table],
        texttemplate="%{text}",
        hoverongaps=False,
        colorbar={"title": "margin"},
    )
    plot.update_yaxes(autorange="reversed", showgrid=False)
    plot.update_xaxes(showgrid=False)
    return plot
