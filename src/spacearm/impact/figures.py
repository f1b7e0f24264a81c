"""Figures of the study: maps over directions, mass ellipses on the configuration, contacts that stiffen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, new_figure
from spacearm.impact.contact import Convergence
from spacearm.impact.virtual_mass import MassEllipsoid
from spacearm.model import Robot
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Line style of a case by its place: as the paper draws free, fixed and half.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
#: Length (m) of the largest mass on a drawing, relative to the drawing's size.
ELLIPSE_SHARE = 0.35


def direction_curves(
    angles: Array,
    curves: Mapping[str, Array],
    *,
    y: str,
    y_unit: str,
    peaks: Mapping[str, tuple[float, float]] | None = None,
    title: str = "",
    x: str = "direction θ",
    zero_line: bool = False,
) -> go.Figure:
    """Curves over the direction in a plane; ``angles`` in rad, ``peaks`` (deg, value) get a mark."""
    import plotly.graph_objects as go

    figure = new_figure(x=x, x_unit="deg", y=y, y_unit=y_unit, title=title)
    degrees = np.degrees(angles)
    for i, (name, values) in enumerate(curves.items()):
        line = {"dash": DASHES[i % len(DASHES)], "color": COLOURS[i % len(COLOURS)], "width": 2.5, "simplify": False}
        peak = (peaks or {}).get(name)
        label = name if peak is None else f"{name}: {peak[1]:.3g} {y_unit} at {peak[0]:.1f}°"
        figure.add_trace(go.Scatter(x=degrees, y=values, mode="lines", name=label, line=line, legendgroup=name))
        if peak is not None:
            dot = {"color": line["color"], "size": 9}
            mark = go.Scatter(x=[peak[0]], y=[peak[1]], mode="markers", marker=dot, legendgroup=name, name=label)
            figure.add_trace(mark.update(showlegend=False))
    figure.update_xaxes(range=[degrees[0], degrees[-1]], dtick=30)
    if zero_line:
        figure.add_hline(y=0.0, line={"width": 1, "color": "rgba(127, 127, 127, 0.8)"})
    return figure


def skeleton(robot: Robot, frame: str, joints: Array) -> list[Array]:
    """Line segments (2, 3) of a robot, base frame: from each body's origin to the joints and frames that it carries."""
    from spacearm.engine import Mechanics

    mechanics = Mechanics(robot)
    origins, _ = mechanics.body_poses(joints)
    segments = [np.array([origins[robot.parents[i]], origins[i + 1]]) for i in range(robot.n)]
    tip, _ = mechanics.frame_pose(frame, joints)
    segments.append(np.array([origins[robot.body_index(robot.frame(frame).body)], tip]))
    return [segment for segment in segments if np.linalg.norm(segment[1] - segment[0]) > 1e-9]


def ellipses_on_configuration(
    segments: Sequence[Array],
    hand: Array,
    ellipses: Mapping[str, MassEllipsoid],
    *,
    marks: Mapping[str, Array] | None = None,
    title: str = "",
) -> go.Figure:
    """Mass ellipses at the struck end of a robot that moves in the xy plane; radius = absolute virtual mass."""
    import plotly.graph_objects as go

    figure = new_figure(x="x", x_unit="m", y="y", y_unit="m", title=title, height=560)
    points = np.concatenate(list(segments))
    size = float(np.ptp(points[:, :2], axis=0).max())
    scale = ELLIPSE_SHARE * size / max(float(e.masses[0]) for e in ellipses.values())
    for number, (a, b) in enumerate(segments):
        figure.add_trace(
            go.Scatter(
                x=[a[0], b[0]],
                y=[a[1], b[1]],
                mode="lines+markers",
                line={"width": 7, "color": COLOURS[7]},
                marker={"size": 9, "color": COLOURS[7]},
                name="links",
                legendgroup="links",
                showlegend=number == 0,
                hoverinfo="skip",
            )
        )
    for i, (name, ellipse) in enumerate(ellipses.items()):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        curve = hand + scale * ellipse.surface()
        figure.add_trace(
            go.Scatter(x=curve[:, 0], y=curve[:, 1], mode="lines", line={"dash": dash, "color": colour}, name=name)
        )
        for k in range(2):
            reach = scale * ellipse.masses[k] * ellipse.axes[:, k]
            ends = np.array([hand - reach, hand + reach])
            figure.add_trace(
                go.Scatter(
                    x=ends[:, 0],
                    y=ends[:, 1],
                    mode="lines",
                    line={"width": 1, "color": colour},
                    name=f"{name}: {ellipse.masses[k]:.4g} kg",
                    showlegend=False,
                )
            )
    for name, place in (marks or {}).items():
        marker = {"symbol": "cross", "size": 11, "color": COLOURS[3]}
        figure.add_trace(go.Scatter(x=[place[0]], y=[place[1]], mode="markers", marker=marker, name=name))
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    figure.update_layout(
        annotations=[
            {
                "text": f"radius of an ellipse: {1 / scale:.3g} kg per metre",
                "xref": "paper",
                "yref": "paper",
                "x": 1.0,
                "y": 0.0,
                "showarrow": False,
                "xanchor": "right",
                "yanchor": "bottom",
            }
        ]
    )
    return figure


def ellipsoid_on_configuration(
    segments: Sequence[Array], hand: Array, ellipsoid: MassEllipsoid, *, title: str = ""
) -> go.Figure:
    """The mass ellipsoid at the struck frame of a robot in space, coloured by virtual mass."""
    import plotly.graph_objects as go

    figure = new_figure(title=title, height=620)
    points = np.concatenate(list(segments))
    size = float(np.ptp(points, axis=0).max())
    scale = ELLIPSE_SHARE * size / float(ellipsoid.masses[0])
    for number, (a, b) in enumerate(segments):
        figure.add_trace(
            go.Scatter3d(
                x=[a[0], b[0]],
                y=[a[1], b[1]],
                z=[a[2], b[2]],
                mode="lines+markers",
                line={"width": 9, "color": COLOURS[7]},
                marker={"size": 4, "color": COLOURS[7]},
                name="links",
                legendgroup="links",
                showlegend=number == 0,
                hoverinfo="skip",
            )
        )
    polar, azimuth = np.meshgrid(np.linspace(0, np.pi, 46), np.linspace(0, 2 * np.pi, 91), indexing="ij")
    ball = np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=-1)
    shell = (ball * ellipsoid.masses) @ ellipsoid.axes.T
    place = hand + scale * shell
    figure.add_trace(
        go.Surface(
            x=place[..., 0],
            y=place[..., 1],
            z=place[..., 2],
            surfacecolor=np.linalg.norm(shell, axis=-1),
            colorscale="Cividis",
            opacity=0.75,
            colorbar={"title": {"text": "kg"}, "len": 0.7},
            name="absolute virtual mass",
        )
    )
    axis_names = {f"{axis}axis": {"title": {"text": f"{axis} [m]"}} for axis in "xyz"}
    figure.update_layout(scene={"aspectmode": "data", "camera": {"eye": {"x": 1.5, "y": 1.7, "z": 0.9}}, **axis_names})
    return figure


def sphere_map(azimuth: Array, polar: Array, values: Array, *, unit: str, title: str = "") -> go.Figure:
    """A quantity over all directions: azimuth against elevation, rad."""
    import plotly.graph_objects as go

    figure = new_figure(x="azimuth", x_unit="deg", y="elevation", y_unit="deg", title=title, height=460)
    figure.add_trace(
        go.Contour(
            x=np.degrees(azimuth),
            y=90.0 - np.degrees(polar),
            z=values,
            colorscale="Cividis",
            contours={"coloring": "heatmap"},
            line={"width": 0.5},
            colorbar={"title": {"text": unit}},
        )
    )
    figure.update_xaxes(dtick=60)
    figure.update_yaxes(dtick=30)
    return figure


def convergence_curves(cases: Mapping[str, Convergence], *, title: str = "") -> go.Figure:
    """How far a finite-stiffness contact is from the jump, over its frequency."""
    import plotly.graph_objects as go

    figure = new_figure(x="contact frequency ω", x_unit="rad/s", y="largest velocity error / largest jump", title=title)
    for i, (name, case) in enumerate(cases.items()):
        style: dict[str, Any] = {"line": {"dash": DASHES[i % len(DASHES)]}, "marker": {"size": 7}}
        label = f"{name} (order {case.order:.2f})" if np.isfinite(case.order) else name
        figure.add_trace(go.Scatter(x=case.frequency, y=case.error, mode="lines+markers", name=label, **style))
    power = {"type": "log", "exponentformat": "power", "dtick": 1}
    figure.update_xaxes(**power)
    figure.update_yaxes(**power)
    return figure
