"""Figures of the workspace: maps over joints and over positions, and the path-independent distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.control import Workspace
from spacearm.control.maps import HandMap, JointMap
from spacearm.control.workspace import fixed_point_name
from spacearm.figures import COLOURS, new_figure, panels
from spacearm.model import Robot
from spacearm.result import Figure
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go


def figures(over: JointMap, places: HandMap, radii: Workspace | None, robot: Robot) -> Iterator[Figure]:
    """The study's figures, in the order in which they are to be read."""
    yield _hand_map_figure(places, radii, robot)
    yield _joint_map_figure(over, radii, robot)
    if radii is not None:
        yield _radii_figure(radii, robot)


def _add_heat_map(figure: go.Figure, x: Array, y: Array, values: Array, column: int) -> None:
    """A map in one panel, its colours beside it."""
    import plotly.graph_objects as go

    shown = np.where(np.isfinite(values), values, np.nan)
    top = float(np.nanquantile(shown, 0.98)) if np.isfinite(shown).any() else 1.0
    side = figure.layout[f"xaxis{column if column > 1 else ''}"].domain[1] + 0.005
    bar = {"x": side, "thickness": 10, "len": 0.9, "xanchor": "left"}
    heat = go.Heatmap(x=x, y=y, z=shown.T, zmin=0.0, zmax=top, colorbar=bar, colorscale="Cividis")
    figure.add_trace(heat, row=1, col=column)


def _hand_map_figure(places: HandMap, radii: Workspace | None, robot: Robot) -> Figure:
    titles = ("configurations", "best manipulability", "least base motion [rad/m]")
    plot = panels(titles, height=420, spacing=0.1)
    count = np.where(places.count > 0, places.count, np.nan)
    for column, values in enumerate((count, places.manipulability, places.cost), 1):
        _add_heat_map(plot, places.edges[0], places.edges[1], values, column)
        for radius in _edges(radii):
            _circle(plot, radius, column)
    a, b = places.axes
    plot.update_xaxes(title_text=f"{a} [m]")
    plot.update_yaxes(title_text=f"{b} [m]", row=1, col=1)
    for column in (1, 2, 3):
        number = column if column > 1 else ""
        plot.update_layout({f"yaxis{number}": {"scaleanchor": f"x{number}", "constrain": "domain"}})
    lines = " Circles: bounds of the distances at which it can be singular." if _edges(radii) else ""
    text = (
        f"Positions of the frame relative to {fixed_point_name(robot)} in the plane {a}-{b}, base axes: "
        "number of configurations that reach "
        f"each, their largest manipulability, and the "
        f"smallest rotation of the base per metre of hand motion.{lines}"
    )
    return Figure("places", plot, text)


def _edges(radii: Workspace | None) -> list[float]:
    """Distances between path-independent places and others, within reach."""
    found = set() if radii is None else {end for band in radii.independent() for end in band} - {*radii.reach}
    return sorted(found)


def _circle(plot: go.Figure, radius: float, column: int) -> None:
    line = {"color": COLOURS[3], "width": 1.5, "dash": "dot"}
    plot.add_shape(type="circle", x0=-radius, x1=radius, y0=-radius, y1=radius, line=line, row=1, col=column)


def _joint_map_figure(over: JointMap, radii: Workspace | None, robot: Robot) -> Figure:
    import plotly.graph_objects as go

    plot = panels(("dynamic manipulability", "base rate / joint rate"), height=420, spacing=0.16)
    revolute = [robot.joint(name).kind == "revolute" for name in over.joints]
    scale = [180.0 / np.pi if rotates else 1.0 for rotates in revolute]
    axes = [values * factor for values, factor in zip(over.values, scale, strict=True)]
    for column, values in enumerate((over.measures.manipulability, over.measures.disturbance), 1):
        _add_heat_map(plot, axes[0], axes[1], values, column)
    if radii is not None and len(radii.configurations) and radii.configurations.shape[1] == robot.n:
        chosen = [robot.joint_index(name) for name in over.joints]
        marks: dict[str, Any] = {"mode": "markers", "marker": {"size": 3, "color": COLOURS[3]}, "showlegend": False}
        points = radii.configurations[:, chosen] * scale
        plot.add_trace(go.Scatter(x=points[:, 0], y=points[:, 1], name="singular", **marks), row=1, col=1)
    for axis, (name, rotates) in zip(
        (plot.update_xaxes, plot.update_yaxes), zip(over.joints, revolute, strict=True), strict=True
    ):
        axis(title_text=f"{name} [{'deg' if rotates else 'm'}]")
    for axis, values in zip((plot.update_xaxes, plot.update_yaxes), axes, strict=True):
        axis(range=[float(values.min()), float(values.max())])
    dots = (
        " Dots: dynamic singularities, at any position of the joints that are not on the map."
        if radii is not None and len(radii.configurations)
        else ""
    )
    return Figure(
        "joints",
        plot,
        f"Map over two joints, the others fixed; angular velocity of the base for joint rates of norm 1.{dots} "
        "The map does not depend on the pose of the base.",
    )


def _radii_figure(radii: Workspace, robot: Robot) -> Figure:
    centre = fixed_point_name(robot)
    plot = new_figure(x=f"distance from {centre}", x_unit="m", height=220)
    bands = {"reach": [radii.reach], "can be singular": radii.singular, "path-independent": radii.independent()}
    for k, several in enumerate(bands.values()):
        for low, high in several:
            shape = {"x0": low, "x1": high, "y0": 2.6 - k, "y1": 3.4 - k, "line": {"width": 0}}
            plot.add_shape(type="rect", fillcolor=COLOURS[(7, 3, 2)[k]], **shape)
    plot.update_yaxes(range=[0.4, 3.6], tickvals=[3, 2, 1], ticktext=[*bands], showgrid=False)
    plot.update_xaxes(range=[0.0, 1.05 * radii.reach[1]])
    text = f"Distances of the frame from {centre}; path-independent ones are reached by any path."
    return Figure("distances", plot, text)
