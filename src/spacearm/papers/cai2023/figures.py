"""Figures as the paper's 8 to 12, and those beyond it; curves on one time grid for ``data.nc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.ejection.figures import energy_areas, histograms, table
from spacearm.figures import COLOURS, new_figure, panels
from spacearm.papers.cai2023.data import ATTITUDES, DAMPING, DEGREE, TABLE, UNITS, in_paper_signs
from spacearm.result import Figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

    from spacearm.papers.cai2023 import Study

CAPTIONS = {
    "methods": "The segmented algorithm and the full run as columns, beside the paper's theory and ADAMS columns of "
    "Table III (the angular velocity has one column only).",
    "masses": "Equivalent masses: Table III, the surrogate fitted to it, and the least that Tables I and II allow when "
    "joint 4 is free. Three of the five printed values lie below the dashed line.",
    "fig08-velocity": "As the paper's Fig. 8: velocity of the movable base until the springs are spent. Solid (S): "
    "full run. Dashed (T): segmented algorithm.",
    "fig09-angular-velocity": "As Fig. 9: angular velocity of the movable base, paper's sign. Dots: the last joint "
    "stops. Crosses at the right: Table III.",
    "fig10-joints": "As Fig. 10: variations of joints 2 and 4 (paper's signs). Solid: full run; dashed: segmented "
    "algorithm; dots: separation.",
    "fig11-damping-velocity": "As Fig. 11: velocity of attitudes 3 and 4 with joint damping 5.4 N m s/rad, five and "
    "ten times that.",
    "fig12-damping-joints": "As Fig. 12: joint variations of attitude 3 on the rail under the same dampings (paper's "
    "signs).",
    "energy": "Where the springs' 6.0 J go in attitude 2: kinetic energy, dry friction, damping.",
    "damping-identification": "Damping from synthetic tests with 5.4 N m s/rad: the cost of Eq. 43 with the segmented "
    "algorithm and with the full run, and the least-squares estimate with its 95 % interval. The segmented algorithm's "
    "own error moves its minimum.",
    "configuration-map": "Ejection velocity and size of the angular velocity over joints 2 and 4 (paper's signs), "
    "joint 6 straight; grey: touches the deck or a joint limit. Numbers: the paper's attitudes; star: fastest, "
    "diamond: balanced, cross: calmest (each at a q6 of its own).",
    "monte-carlo": "The fastest attitude under uncertain friction, damping, springs and masses: 2000 runs with 5, 50 "
    "and 95 % marks.",
}


def figures(study: Study) -> list[Figure]:
    """In the order of the paper, then what goes beyond it."""
    plots = {
        "methods": methods(study),
        "masses": masses(study),
        "fig08-velocity": velocity(study),
        "fig09-angular-velocity": spin(study),
        "fig10-joints": variation(study),
        "fig11-damping-velocity": damping_velocity(study),
        "fig12-damping-joints": damping_joints(study),
        "energy": energy_areas(study.full[2], 2.5),
        "damping-identification": identification(study),
        "configuration-map": maps(study),
        "monte-carlo": histograms(study.spread),
    }
    return [Figure(name, plot, CAPTIONS[name]) for name, plot in plots.items()]


def _scatter(**options: Any) -> go.Scatter:
    import plotly.graph_objects as go

    return go.Scatter(**options)


def methods(study: Study) -> go.Figure:
    columns: list[list[str]] = [[] for _ in range(8)]
    for number in ATTITUDES:
        full, parts = in_paper_signs(study.full[number]), in_paper_signs(study.segmented[number])
        for key, unit in UNITS.items():
            printed = getattr(TABLE[number], key)
            theory, simulation = printed if isinstance(printed, tuple) else (None, printed)
            cost = parts[key] / full[key] - 1.0 if full[key] else None
            cells = (
                str(number),
                key.replace("_", " "),
                unit,
                f"{parts[key]:.4g}",
                "" if theory is None else f"{theory:g}",
                f"{full[key]:.4g}",
                f"{simulation:g}",
                "" if cost is None else f"{100.0 * cost:+.1f} %",
            )
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
    header = (
        "attitude",
        "quantity",
        "unit",
        "segmented",
        "paper: theory",
        "full run",
        "paper: ADAMS",
        "segmented / full - 1",
    )
    return table(header, columns, height=80 + 25 * len(columns[0]))


def masses(study: Study) -> go.Figure:
    from spacearm.ejection import equivalent_mass, joint_free_bound

    figure = new_figure(x="attitude", y="equivalent mass", y_unit="kg")
    numbers = list(ATTITUDES)
    for k, (name, key, free) in enumerate((("plane", "plane", None), ("joint 4 free", "joint4_free", ["joint4"]))):
        ours = [float(equivalent_mass(study.rig, study.rig.arm.configuration(f"attitude{n}"), free)) for n in numbers]
        paper = [getattr(TABLE[n], key) for n in numbers]
        colour = COLOURS[k]
        figure.add_trace(
            _scatter(
                x=numbers,
                y=paper,
                mode="markers",
                name=f"{name}: Table III",
                marker={"symbol": "circle-open", "size": 15, "color": colour, "line": {"width": 2}},
            )
        )
        figure.add_trace(
            _scatter(x=numbers, y=ours, mode="markers", name=f"{name}: surrogate", marker={"size": 7, "color": colour})
        )
    bound = joint_free_bound(study.printed, "joint4")
    figure.add_trace(
        _scatter(
            x=[0.6, 5.4],
            y=[bound, bound],
            mode="lines",
            name=f"joint 4 free: least of Tables I, II ({bound:.1f} kg)",
            line={"dash": "dash", "color": COLOURS[3]},
        )
    )
    figure.update_xaxes(dtick=1, range=[0.6, 5.4])
    figure.update_yaxes(rangemode="tozero")
    return figure


def velocity(study: Study) -> go.Figure:
    figure = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    for k, number in enumerate(ATTITUDES):
        run, parts = study.full[number], study.segmented[number]
        data = run.data.sel(time=slice(0.0, run.time))
        figure.add_trace(
            _scatter(
                x=data["time"].values,
                y=1e3 * data["velocity"].values,
                mode="lines",
                name=f"{number} S",
                line={"color": COLOURS[k]},
            )
        )
        kept = parts.curve_time <= parts.time
        figure.add_trace(
            _scatter(
                x=parts.curve_time[kept],
                y=1e3 * parts.curve_velocity[kept],
                mode="lines",
                name=f"{number} T",
                line={"color": COLOURS[k], "dash": "dash"},
            )
        )
    return figure


def spin(study: Study) -> go.Figure:
    figure = new_figure(x="time", x_unit="s", y="angular velocity of the base", y_unit="deg/s")
    for k, number in enumerate(ATTITUDES):
        run = study.full[number]
        data = run.data.sel(time=slice(0.0, 4.0))
        values = -data["angular_velocity"].sel(axis="y").values * DEGREE
        colour = COLOURS[k]
        name = f"attitude {number}"
        figure.add_trace(_scatter(x=data["time"].values, y=values, mode="lines", name=name, line={"color": colour}))
        end = -float(run.angular_velocity[1]) * DEGREE
        figure.add_trace(
            _scatter(
                x=[run.stable_time],
                y=[end],
                mode="markers",
                marker={"color": colour, "size": 8},
                showlegend=False,
                hovertext=f"attitude {number} stable",
            )
        )
        figure.add_trace(
            _scatter(
                x=[4.05],
                y=[TABLE[number].angular_velocity],
                mode="markers",
                marker={"color": colour, "symbol": "x", "size": 8},
                showlegend=False,
                hovertext=f"attitude {number}, Table III",
            )
        )
    figure.update_xaxes(range=[-0.05, 4.2])
    return figure


def variation(study: Study) -> go.Figure:
    figure = panels(("joint 2", "joint 4"))
    for k, number in enumerate(ATTITUDES):
        run, parts = study.full[number], study.segmented[number]
        for column, (joint, sign) in enumerate((("joint2", -1.0), ("joint4", 1.0)), start=1):
            place = {"row": 1, "col": column}
            data = run.data.sel(time=slice(0.0, 3.5))
            index = run.rig.arm.joint_index(joint)
            full = sign * DEGREE * data["variation"].sel(joint=joint).values
            line = {"color": COLOURS[k]}
            name = f"attitude {number}"
            figure.add_trace(
                _scatter(
                    x=data["time"].values,
                    y=full,
                    mode="lines",
                    name=name,
                    legendgroup=name,
                    showlegend=column == 1,
                    line=line,
                ),
                **place,
            )
            figure.add_trace(
                _scatter(
                    x=parts.curve_time,
                    y=sign * DEGREE * parts.curve_variation[:, index],
                    mode="lines",
                    name=name,
                    legendgroup=name,
                    showlegend=False,
                    line={**line, "dash": "dash"},
                ),
                **place,
            )
            figure.add_trace(
                _scatter(
                    x=[run.time],
                    y=[sign * DEGREE * run.variation[index]],
                    mode="markers",
                    marker={"color": COLOURS[k], "size": 7},
                    legendgroup=name,
                    showlegend=False,
                ),
                **place,
            )
    figure.update_xaxes(title_text="time [s]", range=[0.0, 3.5])
    figure.update_yaxes(title_text="joint variation [deg]", row=1, col=1)
    return figure


def damping_velocity(study: Study) -> go.Figure:
    figure = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    styles = ("solid", "dash", "dot")
    dampings = sorted({value for _, value in study.damped})
    for number, colour in ((3, COLOURS[2]), (4, COLOURS[3])):
        for value, style in zip(dampings, styles, strict=True):
            run = study.damped[number, value]
            data = run.data.sel(time=slice(0.0, run.time))
            figure.add_trace(
                _scatter(
                    x=data["time"].values,
                    y=1e3 * data["velocity"].values,
                    mode="lines",
                    name=f"attitude {number}, B = {value:g}",
                    line={"color": colour, "dash": style},
                )
            )
    return figure


def damping_joints(study: Study) -> go.Figure:
    figure = panels(("joint 2", "joint 4"))
    dampings = sorted({value for _, value in study.damped})
    for k, value in enumerate(dampings):
        run = study.damped[3, value]
        data = run.data.sel(time=slice(0.0, run.time))
        for column, (joint, sign) in enumerate((("joint2", -1.0), ("joint4", 1.0)), start=1):
            figure.add_trace(
                _scatter(
                    x=data["time"].values,
                    y=sign * DEGREE * data["variation"].sel(joint=joint).values,
                    mode="lines",
                    name=f"B = {value:g} N m s/rad",
                    legendgroup=str(value),
                    showlegend=column == 1,
                    line={"color": COLOURS[k]},
                ),
                row=1,
                col=column,
            )
    figure.update_xaxes(title_text="time [s]")
    figure.update_yaxes(title_text="joint variation [deg]", row=1, col=1)
    return figure


def identification(study: Study) -> go.Figure:
    figure = new_figure(x="joint damping B", x_unit="N m s/rad", y="root mean square velocity error", y_unit="mm/s")
    for k, (model, name) in enumerate((("segmented", "Eq. 43, segmented algorithm"), ("full", "Eq. 43, full run"))):
        grid = study.grid[model]
        rms = 1e3 * np.sqrt(grid.cost / len(study.tests.joints))
        figure.add_trace(_scatter(x=grid.grid, y=rms, mode="lines+markers", name=name, line={"color": COLOURS[k]}))
    low, high = study.fit.interval[0]
    figure.add_vrect(x0=low, x1=high, fillcolor=COLOURS[2], opacity=0.2, line_width=0)
    value = float(study.fit.values[0])
    figure.add_vline(x=value, line_color=COLOURS[2], annotation_text=f"least squares {value:.2f}")
    figure.add_vline(
        x=DAMPING, line_dash="dot", line_color=COLOURS[7], annotation_text="truth", annotation_position="bottom"
    )
    return figure


def maps(study: Study) -> go.Figure:
    import plotly.graph_objects as go

    chart = study.map
    figure = panels(("ejection velocity [mm/s]", "angular velocity [deg/s]"), height=520)
    x, y = -chart["joint2"].values[::-1] * DEGREE, chart["joint4"].values * DEGREE
    allowed = chart["allowed"].values[::-1].T == 1
    scales = ((chart["velocity"], 1e3, "Cividis", 0.43, 1), (chart["tumbling"], DEGREE, "Viridis", 1.0, 2))
    for values, factor, colours, place, column in scales:
        shown = np.where(allowed, factor * values.values[::-1].T, np.nan)
        figure.add_trace(
            go.Heatmap(
                x=x,
                y=y,
                z=shown,
                colorscale=colours,
                colorbar={"x": place, "thickness": 12, "len": 0.9},
                hovertemplate="q2 %{x:.0f}, q4 %{y:.0f}: %{z:.1f}<extra></extra>",
            ),
            row=1,
            col=column,
        )
        points = [study.rig.arm.configuration(f"attitude{n}") * DEGREE for n in ATTITUDES]
        figure.add_trace(
            go.Scatter(
                x=[-p[0] for p in points],
                y=[p[1] for p in points],
                mode="markers+text",
                text=[str(n) for n in ATTITUDES],
                textposition="top right",
                textfont={"color": "white", "size": 14},
                marker={"color": "white", "size": 7, "line": {"color": "black", "width": 1}},
                showlegend=False,
                cliponaxis=False,
            ),
            row=1,
            col=column,
        )
        for name, symbol in {"fastest": "star", "balanced": "diamond", "calmest": "x"}.items():
            joints = study.best[name].joints * DEGREE
            figure.add_trace(
                go.Scatter(
                    x=[-joints[0]],
                    y=[joints[1]],
                    mode="markers",
                    marker={"symbol": symbol, "size": 12, "color": "#ffffff", "line": {"color": "black", "width": 1}},
                    name=name,
                    showlegend=False,
                    cliponaxis=False,
                ),
                row=1,
                col=column,
            )
    figure.update_layout(plot_bgcolor="rgba(127, 127, 127, 0.35)")
    figure.update_xaxes(title_text="q2 [deg]", showgrid=False)
    figure.update_yaxes(title_text="q4 [deg]", showgrid=False, row=1, col=1)
    figure.update_yaxes(showgrid=False, row=1, col=2)
    return figure


def dataset(study: Study) -> xr.Dataset:
    """Curves of both methods and of other dampings on one time grid (paper's units and signs), rail loads, the map."""
    import xarray as xr

    grid = np.concatenate([np.arange(0.0, 0.4, 0.002), np.arange(0.4, 4.0001, 0.02)])
    series = {
        "velocity": (lambda d: 1e3 * d["velocity"].values, "mm/s", "velocity of the movable base along the rail"),
        "joint2": (lambda d: -DEGREE * d["variation"].sel(joint="joint2").values, "deg", "variation of joint 2"),
        "joint4": (lambda d: DEGREE * d["variation"].sel(joint="joint4").values, "deg", "variation of joint 4"),
        "angular_velocity": (
            lambda d: -DEGREE * d["angular_velocity"].sel(axis="y").values,
            "deg/s",
            "angular velocity of the movable base",
        ),
        "rail_force": (
            lambda d: d["rail_force"].sel(axis="x").values,
            "N",
            "force of the rail on the movable base along x, across the rail; zero after separation",
        ),
        "rail_moment": (
            lambda d: -d["rail_moment"].sel(axis="y").values,
            "N m",
            "moment of the rail about the origin of the movable base; zero after separation",
        ),
    }

    def on_grid(curves: Any, get: Any, right: float | None = None) -> Any:
        return np.array([np.interp(grid, c["time"].values, get(c), right=right) for c in curves])

    full = [study.full[number].data for number in ATTITUDES]
    parts = [study.segmented[number].data for number in ATTITUDES]
    dampings = sorted({value for _, value in study.damped})
    other = [study.damped[number, value].data for number in (3, 4) for value in dampings]
    data: dict[str, Any] = {}
    for name, (get, unit, text) in series.items():
        values, damped = on_grid(full, get), on_grid(other, get)
        if name.startswith("rail"):  # nothing of the rail between separation and the next sample
            for rows, curves in ((values, full), (damped, other)):
                rows[grid > np.array([[curve.attrs["separation_time"]] for curve in curves])] = 0.0
        data[name] = (("attitude", "time"), values, {"units": unit, "long_name": text})
        shape = (2, len(dampings), grid.size)
        dims = ("damped_attitude", "damping", "time")
        data[f"damped_{name}"] = (dims, damped.reshape(shape), {"units": unit, "long_name": f"{text}, other dampings"})
        if name in ("velocity", "joint2", "joint4"):  # after its last joint has stopped the algorithm says no more
            values = on_grid(parts, get, right=np.nan)
            own = {"units": unit, "long_name": f"{text}, segmented algorithm; NaN after the last stop"}
            data[f"segmented_{name}"] = (("attitude", "time"), values, own)
    chart = study.map.rename({"joint2": "map_joint2", "joint4": "map_joint4"})
    chart = chart.rename({name: f"map_{name}" for name in chart.data_vars})
    base = xr.Dataset(
        data,
        coords={
            "attitude": ("attitude", list(ATTITUDES)),
            "damped_attitude": ("damped_attitude", [3, 4]),
            "damping": ("damping", dampings, {"units": "N m s/rad"}),
            "time": ("time", grid, {"units": "s", "long_name": "time since release"}),
        },
    )
    return xr.merge([base, chart])
