"""Figures of an ejection: curves of the runs, maps, histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.ejection.configuration import BROKEN
from spacearm.ejection.montecarlo import EjectionSensitivity
from spacearm.ejection.run import Ejection
from spacearm.figures import COLOURS, add_curve, limit_lines, new_figure, panels, share_y_range
from spacearm.model import Robot
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

DEGREE = 180.0 / np.pi


def velocity_curves(runs: Mapping[str, Ejection]) -> go.Figure:
    """Velocity of the arm's base along the rail until the springs are released."""
    figure = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    for k, (name, run) in enumerate(runs.items()):
        data = run.data.sel(time=slice(0.0, run.time))
        x, y = data["time"].values, 1e3 * data["velocity"].values
        add_curve(figure, x, y, name, colour=k)
    return figure


def angular_velocity_curves(runs: Mapping[str, Ejection]) -> go.Figure:
    """Magnitude of the base's angular velocity; a dot marks where the last joint stops."""
    figure = new_figure(x="time", x_unit="s", y="angular velocity of the base", y_unit="deg/s")
    for k, (name, run) in enumerate(runs.items()):
        size = DEGREE * np.linalg.norm(run.data["angular_velocity"].values, axis=1)
        x = run.data["time"].values
        add_curve(figure, x, size, name, colour=k)
        if run.stable:
            end = float(np.interp(run.stable_time, x, size))
            dot: dict[str, Any] = {"mode": "markers", "marker": {"size": 8}, "showlegend": False}
            add_curve(figure, [run.stable_time], [end], colour=k, **dot)
    return figure


def joint_curves(runs: Mapping[str, Ejection]) -> go.Figure:
    """Variations of the joints that move, with a panel per joint and a colour per configuration; dashed: limits."""
    arm = next(iter(runs.values())).rig.arm
    # Joints that are locked in every run would only add empty panels.
    largest = np.max([np.abs(run.data["variation"].values).max(axis=0) for run in runs.values()], axis=0)
    moved = np.flatnonzero(largest > 0.0)
    units = [(DEGREE, "deg") if arm.joints[i].kind == "revolute" else (1e3, "mm") for i in moved]
    columns = min(3, max(1, moved.size))
    places = [(number // columns + 1, number % columns + 1) for number in range(moved.size)]
    titles = [f"{arm.joint_names[i]} [{unit}]" for i, (_, unit) in zip(moved, units, strict=True)]
    figure = panels(titles or [""], columns=columns, height=130 + 270 * -(-moved.size // columns), spacing=0.07)
    for place, i, (scale, _) in zip(places, moved, units, strict=True):
        at: dict[str, Any] = {"row": place[0], "col": place[1]}
        for k, (name, run) in enumerate(runs.items()):
            y = scale * run.data["variation"].values[:, i]
            once: dict[str, Any] = {"legendgroup": name, "showlegend": place == (1, 1)}
            add_curve(figure, run.data["time"].values, y, name, colour=k, **once, **at)
    for place, i, (scale, _) in zip(places, moved, units, strict=True):
        limits = arm.joints[i].limits
        bounds = [scale * (np.array([limits.lower, limits.upper]) - run.start[i]) for run in runs.values()]
        limit_lines(figure, bounds, scale * largest[i], range(len(runs)), row=place[0], column=place[1])
    # Ranges of equal units are equal, so that panels can be compared by eye.
    for unit in dict.fromkeys(units):
        share_y_range(figure, [place for place, own in zip(places, units, strict=True) if own == unit])
    figure.update_xaxes(title_text="time [s]")
    return figure


def energy_areas(run: Ejection, until: float | None = None) -> go.Figure:
    """Distribution of the springs' energy, stacked over time."""
    figure = new_figure(x="time", x_unit="s", y="energy", y_unit="J")
    data = run.data if until is None else run.data.sel(time=slice(0.0, until))
    parts = {"kinetic": "kinetic", "elastic": "springs", "damping": "damping", "friction": "dry friction"}
    for k, (key, name) in enumerate(parts.items()):
        x, y = data["time"].values, data[f"energy_{key}"].values
        add_curve(figure, x, y, name, colour=k, line={"width": 1}, stackgroup="energy")
    for time, text in ((run.time, "separation"), (run.stable_time, "stable")):
        if np.isfinite(time):
            figure.add_vline(x=time, line_dash="dot", line_color=COLOURS[7], annotation_text=text)
    return figure


def map_panels(
    chart: xr.Dataset, arm: Robot, marks: Mapping[str, Array], signs: tuple[float, float] = (1.0, 1.0)
) -> go.Figure:
    """Velocity and angular velocity over two joints; a symbol for each constraint that a configuration violates.

    ``marks`` are joint positions by name; ``signs``: signs with which the joints are plotted. Grey: not computed.
    """
    joints = [arm.joint_index(str(name)) for name in chart["velocity"].dims]
    names = [arm.joint_names[i] for i in joints]
    units = [(DEGREE, "deg") if arm.joints[i].kind == "revolute" else (1e3, "mm") for i in joints]
    scales = [(sign * scale, unit) for sign, (scale, unit) in zip(signs, units, strict=True)]
    x, y = (chart[name].values * scale for name, (scale, _) in zip(names, scales, strict=True))
    across, up = ([q[i] * scale for q in marks.values()] for i, (scale, _) in zip(joints, scales, strict=True))
    figure = panels(("ejection velocity [mm/s]", "angular velocity [deg/s]"), height=520)
    figure.update_layout(plot_bgcolor="rgba(127, 127, 127, 0.35)", legend={"itemsizing": "constant"})
    for column, (key, factor, colours, place) in enumerate(
        (("velocity", 1e3, "Cividis", 0.2125), ("tumbling", DEGREE, "Viridis", 0.7875)), start=1
    ):
        at = {"row": 1, "col": column}
        z = factor * chart[key].values.T
        bar = {"orientation": "h", "x": place, "y": -0.2, "yanchor": "top", "thickness": 12, "len": 0.425}
        figure.add_heatmap(x=x, y=y, z=z, colorscale=colours, colorbar=bar, **at)
        _mark_broken_constraints(figure, chart, x, y, **at)
        marker = {"color": "white", "size": 8, "line": {"color": "black", "width": 1}}
        figure.add_scatter(x=across, y=up, mode="markers", marker=marker, showlegend=False, hovertext=list(marks), **at)
        for number, (name, right, high) in enumerate(zip(marks, across, up, strict=True)):
            # Labels point to the middle, so that none leaves the panel and neighbours do not overlap.
            inwards = -1 if right > 0.5 * (x[0] + x[-1]) else 1
            label = {
                "text": name,
                "font": {"size": 11, "color": "#111"},
                "bgcolor": "rgba(255, 255, 255, 0.85)",
                "borderpad": 1,
            }
            arrow = {"arrowwidth": 1, "arrowhead": 0, "ax": 34 * inwards, "ay": (-14, 14, -34, 34)[number % 4]}
            figure.add_annotation(x=right, y=high, **label, **arrow, **at)
    figure.update_xaxes(title_text=f"{names[0]} [{scales[0][1]}]", showgrid=False)
    figure.update_yaxes(showgrid=False)
    figure.update_yaxes(title_text=f"{names[1]} [{scales[1][1]}]", row=1, col=1)
    figure.update_layout(margin={"b": 100})
    return figure


#: Symbol and colour of each violated constraint; the symbols remain distinct when they overlap.
_SYMBOLS = {
    "run": ("square-open", "#000000"),
    "clearance": ("line-ew", "#ff3b30"),
    "limit": ("line-ns", "#e645c8"),
    "stable": ("circle-open", "#d55e00"),
}


def _mark_broken_constraints(figure: go.Figure, chart: xr.Dataset, x: Array, y: Array, *, row: int, col: int) -> None:
    """Mark the configurations that violate a constraint, by constraint."""
    size = float(np.clip(160.0 / max(x.size, y.size), 3.0, 8.0))
    for name, text in BROKEN.items():
        if f"broken_{name}" not in chart:
            continue
        across, up = np.nonzero(chart[f"broken_{name}"].values)
        if across.size:
            symbol, colour = _SYMBOLS[name]
            line = {"width": 1, "color": colour}
            marker = {"symbol": symbol, "size": size, "color": colour, "line": line}
            notes = f"{text} ({across.size} of {x.size * y.size})"
            label = {"name": notes, "showlegend": col == 1, "legendgroup": name}
            spot = {"mode": "markers", "hoverinfo": "skip", "marker": marker}
            figure.add_scatter(x=x[across], y=y[up], **label, **spot, row=row, col=col)


def map_caption(chart: xr.Dataset) -> str:
    """A caption: how many configurations satisfy all constraints, and what the symbols mean."""
    allowed = chart["allowed"].values
    return (
        f"Velocity and angular velocity over two joints: {int(allowed.sum())} of {allowed.size} configurations satisfy "
        "all constraints. A symbol marks each violated constraint; the velocity is shown all the same."
    )


def histograms(spread: EjectionSensitivity) -> go.Figure:
    """Velocity and angular velocity of a Monte Carlo study with percentiles."""
    figure = panels(("", ""))
    found = (("velocity", spread.runs.velocity, 1e3), ("tumbling", spread.runs.tumble_rate, DEGREE))
    for column, (key, series, factor) in enumerate(found, start=1):
        at = {"row": 1, "col": column}
        values = factor * series
        # Runs that never left the rail or never came to rest have no value.
        shown = values[np.isfinite(values)]
        figure.add_histogram(x=shown, nbinsx=60, marker={"color": COLOURS[0]}, name=key, showlegend=False, **at)
        for level in (5.0, 50.0, 95.0):
            options = {"line_dash": "dot", "line_color": COLOURS[3], "annotation_text": f"{level:g} %"}
            figure.add_vline(x=factor * spread.percentiles[key][level], **options, **at)
    for column, text in enumerate(("ejection velocity [mm/s]", "angular velocity [deg/s]"), 1):
        figure.update_xaxes(title_text=text, row=1, col=column)
    figure.update_yaxes(title_text="number of runs", row=1, col=1)
    return figure
