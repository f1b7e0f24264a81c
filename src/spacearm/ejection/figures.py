"""Figures of any ejection: curves of the runs, the table of both methods, maps, histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.ejection.compare import Line
from spacearm.ejection.run import Ejection
from spacearm.ejection.segmented import Segmented
from spacearm.ejection.sensitivity import Sensitivity
from spacearm.figures import COLOURS, new_figure, template

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

DEGREE = 180.0 / np.pi


def panels(titles: Sequence[str], height: int = 460, spacing: float = 0.11) -> go.Figure:
    """Two or more plots side by side in the common look, the legend above their titles."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(titles), subplot_titles=tuple(titles), horizontal_spacing=spacing)
    figure.update_layout(template=template(), height=height, margin={"t": 90}, legend={"y": 1.1})
    return figure


def velocity_curves(runs: Mapping[str, Ejection], parts: Mapping[str, Segmented] | None = None) -> go.Figure:
    """Velocity of the arm's base along the rail until the springs are spent; dashed: segmented algorithm."""
    import plotly.graph_objects as go

    figure = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    for k, (name, run) in enumerate(runs.items()):
        line = {"color": COLOURS[k % len(COLOURS)]}
        data = run.data.sel(time=slice(0.0, run.time))
        x, y = data["time"].values, 1e3 * data["velocity"].values
        figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=f"{name} S" if parts else name, line=line))
        if parts:
            other = parts[name]
            kept = other.curve_time <= other.time
            x, y = other.curve_time[kept], 1e3 * other.curve_velocity[kept]
            figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=f"{name} T", line={**line, "dash": "dash"}))
    return figure


def spin_curves(runs: Mapping[str, Ejection]) -> go.Figure:
    """Size of the base's angular velocity; a dot where the last joint stops."""
    import plotly.graph_objects as go

    figure = new_figure(x="time", x_unit="s", y="angular velocity of the base", y_unit="deg/s")
    for k, (name, run) in enumerate(runs.items()):
        colour = COLOURS[k % len(COLOURS)]
        size = DEGREE * np.linalg.norm(run.data["angular_velocity"].values, axis=1)
        x = run.data["time"].values
        figure.add_trace(go.Scatter(x=x, y=size, mode="lines", name=name, line={"color": colour}))
        if run.stable:
            end = float(np.interp(run.stable_time, x, size))
            mark = {"color": colour, "size": 8}
            figure.add_trace(go.Scatter(x=[run.stable_time], y=[end], mode="markers", marker=mark, showlegend=False))
    return figure


def joint_curves(runs: Mapping[str, Ejection]) -> go.Figure:
    """Variations of all joints that move, one colour a configuration, one dash a joint."""
    import plotly.graph_objects as go

    figure = new_figure(x="time", x_unit="s", y="joint variation", y_unit="deg or mm")
    dashes = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
    for k, (name, run) in enumerate(runs.items()):
        moved = [i for i in range(run.rig.arm.n) if np.abs(run.data["variation"].values[:, i]).max() > 0.0]
        for m, i in enumerate(moved):
            joint = run.rig.arm.joints[i]
            scale = DEGREE if joint.kind == "revolute" else 1e3
            figure.add_trace(
                go.Scatter(
                    x=run.data["time"].values,
                    y=scale * run.data["variation"].values[:, i],
                    mode="lines",
                    name=f"{name} {joint.name}",
                    line={"color": COLOURS[k % len(COLOURS)], "dash": dashes[m % len(dashes)]},
                )
            )
    return figure


def energy_areas(run: Ejection, until: float | None = None) -> go.Figure:
    """Where the springs' energy goes, stacked over time."""
    import plotly.graph_objects as go

    figure = new_figure(x="time", x_unit="s", y="energy", y_unit="J")
    data = run.data if until is None else run.data.sel(time=slice(0.0, until))
    for k, (key, name) in enumerate(
        (("kinetic", "kinetic"), ("elastic", "springs"), ("damping", "damping"), ("friction", "dry friction"))
    ):
        line = {"color": COLOURS[k], "width": 1}
        x, y = data["time"].values, data[f"energy_{key}"].values
        figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=name, stackgroup="energy", line=line))
    for time, text in ((run.time, "separation"), (run.stable_time, "stable")):
        if np.isfinite(time):
            figure.add_vline(x=time, line_dash="dot", line_color=COLOURS[7], annotation_text=text)
    return figure


def table(header: Sequence[str], columns: Sequence[Sequence[Any]], height: int = 420) -> go.Figure:
    """A plain table in the common look."""
    import plotly.graph_objects as go

    clear = "rgba(127, 127, 127, 0.12)"
    figure = go.Figure(
        go.Table(
            header={"values": [f"<b>{text}</b>" for text in header], "align": "left", "fill": {"color": clear}},
            cells={"values": list(columns), "align": "left", "fill": {"color": "rgba(0, 0, 0, 0)"}, "height": 24},
        )
    )
    figure.update_layout(template=template(), height=height, margin={"l": 10, "r": 10, "t": 30, "b": 10})
    return figure


def comparison(lines: Sequence[Line]) -> go.Figure:
    """Full run and segmented algorithm as columns."""
    columns = [
        [line.configuration for line in lines],
        [line.quantity for line in lines],
        [line.unit for line in lines],
        [f"{line.full:.4g}" for line in lines],
        [f"{line.segmented:.4g}" for line in lines],
        ["" if np.isnan(line.error) else f"{100.0 * line.error:+.1f} %" for line in lines],
    ]
    header = ("configuration", "quantity", "unit", "full run", "segmented", "segmented / full - 1")
    return table(header, columns, height=80 + 26 * len(lines))


def map_panels(chart: xr.Dataset, marks: Mapping[str, tuple[float, float]] | None = None) -> go.Figure:
    """Velocity and angular velocity over two joints; grey is not allowed. ``marks`` are points in degrees or mm."""
    import plotly.graph_objects as go

    first, second = (str(name) for name in chart["velocity"].dims)
    scale = [DEGREE if chart[name].attrs["units"] == "rad" else 1e3 for name in (first, second)]
    units = ["deg" if chart[name].attrs["units"] == "rad" else "mm" for name in (first, second)]
    figure = panels(("ejection velocity [mm/s]", "angular velocity [deg/s]"), height=520)
    allowed = chart["allowed"].values.T == 1
    for values, factor, colours, place, column in (
        (chart["velocity"], 1e3, "Cividis", 0.43, 1),
        (chart["tumbling"], DEGREE, "Viridis", 1.0, 2),
    ):
        figure.add_trace(
            go.Heatmap(
                x=chart[first].values * scale[0],
                y=chart[second].values * scale[1],
                z=np.where(allowed, factor * values.values.T, np.nan),
                colorscale=colours,
                colorbar={"x": place, "thickness": 12, "len": 0.9},
            ),
            row=1,
            col=column,
        )
        for name, point in (marks or {}).items():
            figure.add_trace(
                go.Scatter(
                    x=[point[0]],
                    y=[point[1]],
                    mode="markers+text",
                    text=[name],
                    textposition="top right",
                    textfont={"color": "white"},
                    marker={"color": "white", "size": 8, "line": {"color": "black", "width": 1}},
                    showlegend=False,
                ),
                row=1,
                col=column,
            )
    figure.update_layout(plot_bgcolor="rgba(127, 127, 127, 0.35)")
    figure.update_xaxes(title_text=f"{first} [{units[0]}]", showgrid=False)
    figure.update_yaxes(showgrid=False)
    figure.update_yaxes(title_text=f"{second} [{units[1]}]", row=1, col=1)
    return figure


def histograms(spread: Sensitivity) -> go.Figure:
    """Velocity and angular velocity of a Monte Carlo study with percentiles."""
    import plotly.graph_objects as go

    figure = panels(("ejection velocity [mm/s]", "angular velocity [deg/s]"))
    for column, (key, factor) in enumerate((("velocity", 1e3), ("tumbling", DEGREE)), start=1):
        values = factor * getattr(spread.runs, key)
        bars = go.Histogram(
            x=values[np.isfinite(values)], nbinsx=60, marker={"color": COLOURS[0]}, name=key, showlegend=False
        )
        figure.add_trace(bars, row=1, col=column)
        for level in (5.0, 50.0, 95.0):
            at = factor * spread.percentiles[key][level]
            options = {"line_dash": "dot", "line_color": COLOURS[3], "annotation_text": f"{level:g} %"}
            figure.add_vline(x=at, row=1, col=column, **options)
    figure.update_yaxes(title_text="runs", row=1, col=1)
    return figure
