"""Figures of the study: maps over directions, mass ellipses on the configuration, contacts of increasing stiffness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, add_curve, new_figure
from spacearm.impact.contact import Convergence
from spacearm.impact.virtual_mass import MassEllipsoid
from spacearm.model import Robot
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Length (m) of the largest mass in a figure, relative to the size of the figure.
ELLIPSE_SHARE = 0.35


def direction_curves(
    angles: Array,
    curves: Mapping[str, Array],
    *,
    y: str,
    y_unit: str,
    peaks: Mapping[str, tuple[float, float]] | None = None,
    x: str = "direction θ",
    zero_line: bool = False,
) -> go.Figure:
    """Curves over the direction in a plane; ``angles`` in rad, ``peaks`` (deg, value) are marked."""
    figure = new_figure(x=x, x_unit="deg", y=y, y_unit=y_unit)
    degrees = np.degrees(angles)
    for i, (name, values) in enumerate(curves.items()):
        line = {"width": 2.5, "simplify": False}
        peak = (peaks or {}).get(name)
        label = name if peak is None else f"{name}: {peak[1]:.3g} {y_unit} at {peak[0]:.1f}°"
        add_curve(figure, degrees, values, label, colour=i, dash=i, line=line, legendgroup=name)
        if peak is not None:
            dot: dict[str, Any] = {"mode": "markers", "marker": {"size": 9}, "legendgroup": name, "showlegend": False}
            add_curve(figure, [peak[0]], [peak[1]], label, colour=i, **dot)
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
    # Bodies whose frame is their joint's have segments of no length, whose marker would hide another.
    return [segment for segment in segments if np.linalg.norm(segment[1] - segment[0]) > 1e-9]


def _links(segments: Sequence[Array], axes: int, width: int, marker: int) -> dict[str, Any]:
    """One broken line through all segments, as the arguments of a trace."""
    # NaN ends a line without a new trace, so that the legend has one entry.
    points = np.concatenate([[*segment, np.full(3, np.nan)] for segment in segments])
    style = {"line": {"width": width, "color": COLOURS[7]}, "marker": {"size": marker, "color": COLOURS[7]}}
    places = {axis: points[:, k] for k, axis in enumerate("xyz"[:axes])}
    return {**places, **style, "mode": "lines+markers", "name": "links", "hoverinfo": "skip"}


def ellipses_on_configuration(
    segments: Sequence[Array],
    hand: Array,
    ellipses: Mapping[str, MassEllipsoid],
    *,
    marks: Mapping[str, Array] | None = None,
) -> go.Figure:
    """Mass ellipses at the struck end of a robot that moves in the xy plane; radius = absolute virtual mass."""
    figure = new_figure(x="x", x_unit="m", y="y", y_unit="m", height=560)
    size = float(np.ptp(np.concatenate(list(segments))[:, :2], axis=0).max())
    scale = ELLIPSE_SHARE * size / max(float(e.masses[0]) for e in ellipses.values())
    figure.add_scatter(**_links(segments, 2, 7, 9))
    for i, (name, ellipse) in enumerate(ellipses.items()):
        shape = hand + scale * ellipse.surface()
        add_curve(figure, shape[:, 0], shape[:, 1], name, colour=i, dash=i)
        for k in range(2):
            reach = scale * ellipse.masses[k] * ellipse.axes[:, k]
            ends = np.array([hand - reach, hand + reach])
            text = f"{name}: {ellipse.masses[k]:.4g} kg"
            thin: dict[str, Any] = {"line": {"width": 1}, "showlegend": False, "hovertext": text, "hoverinfo": "text"}
            add_curve(figure, ends[:, 0], ends[:, 1], name, colour=i, **thin)
    for name, place in (marks or {}).items():
        marker = {"symbol": "cross", "size": 11, "color": COLOURS[3]}
        figure.add_scatter(x=[place[0]], y=[place[1]], mode="markers", marker=marker, name=name)
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    corner = {"x": 1.0, "y": 0.0, "xanchor": "right", "yanchor": "bottom", "xref": "paper", "yref": "paper"}
    text = f"radius of an ellipse: {1 / scale:.3g} kg per metre"
    figure.add_annotation(text=text, showarrow=False, **corner)
    return figure


def ellipsoid_on_configuration(segments: Sequence[Array], hand: Array, ellipsoid: MassEllipsoid) -> go.Figure:
    """The mass ellipsoid at the struck frame of a robot in space, coloured by virtual mass."""
    figure = new_figure(height=620)
    size = float(np.ptp(np.concatenate(list(segments)), axis=0).max())
    scale = ELLIPSE_SHARE * size / float(ellipsoid.masses[0])
    figure.add_scatter3d(**_links(segments, 3, 9, 4))
    polar, azimuth = np.meshgrid(np.linspace(0, np.pi, 46), np.linspace(0, 2 * np.pi, 91), indexing="ij")
    ball = np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=-1)
    shell = (ball * ellipsoid.masses) @ ellipsoid.axes.T
    x, y, z = np.moveaxis(hand + scale * shell, -1, 0)
    colours = {"surfacecolor": np.linalg.norm(shell, axis=-1), "colorscale": "Cividis", "opacity": 0.75}
    bar = {"title": {"text": "kg"}, "len": 0.7}
    figure.add_surface(x=x, y=y, z=z, colorbar=bar, name="absolute virtual mass", **colours)
    axis_names = {f"{axis}axis": {"title": {"text": f"{axis} [m]"}} for axis in "xyz"}
    figure.update_layout(scene={"aspectmode": "data", "camera": {"eye": {"x": 1.5, "y": 1.7, "z": 0.9}}, **axis_names})
    return figure


def sphere_map(azimuth: Array, polar: Array, values: Array, *, unit: str) -> go.Figure:
    """A quantity over all directions: azimuth against elevation, rad."""
    figure = new_figure(x="azimuth", x_unit="deg", y="elevation", y_unit="deg", height=460)
    style = {"colorscale": "Cividis", "contours": {"coloring": "heatmap"}, "line": {"width": 0.5}}
    bar = {"title": {"text": unit}}
    figure.add_contour(x=np.degrees(azimuth), y=90.0 - np.degrees(polar), z=values, colorbar=bar, **style)
    figure.update_xaxes(dtick=60)
    figure.update_yaxes(dtick=30)
    return figure


def convergence_curves(cases: Mapping[str, Convergence], colours: Mapping[str, int] | None = None) -> go.Figure:
    """Deviation of a finite-stiffness contact from the jump, over its frequency; ``colours`` by name."""
    figure = new_figure(x="contact frequency ω", x_unit="rad/s", y="largest velocity error / largest jump")
    for i, (name, case) in enumerate(cases.items()):
        label = f"{name} (order {case.order:.2f})" if np.isfinite(case.order) else name
        style: dict[str, Any] = {"colour": (colours or {}).get(name, i), "dash": i, "mode": "lines+markers"}
        add_curve(figure, case.frequency, case.error, label, marker={"size": 7}, **style)
    power = {"type": "log", "exponentformat": "power", "dtick": 1}
    figure.update_xaxes(**power)
    figure.update_yaxes(**power)
    return figure
