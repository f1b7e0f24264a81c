"""Figures as the paper's 8 to 12, and those beyond it; curves on one time grid for ``data.nc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.ejection import equivalent_mass, joint_free_bound
from spacearm.ejection.figures import energy_areas, histograms, map_panels, table
from spacearm.figures import COLOURS, curve, new_figure, panels
from spacearm.papers.agreement import figure
from spacearm.papers.cai2023.data import ATTITUDES, DAMPING, DEGREE, NAME, TABLE, UNITS, in_paper_signs
from spacearm.papers.cai2023.runs import GOALS, Study
from spacearm.result import Figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

#: Joints whose variations the paper prints, and the sign it counts them with.
JOINTS = (("joint2", -1.0), ("joint4", 1.0))


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
    return [figure(NAME, name, plot) for name, plot in plots.items()]


def methods(study: Study) -> go.Figure:
    """Both methods and both columns of Table III as a table."""
    rows = []
    for number in ATTITUDES:
        full, parts = in_paper_signs(study.full[number]), in_paper_signs(study.segmented[number])
        for key, unit in UNITS.items():
            said = getattr(TABLE[number], key)
            theory, simulation = (f"{x:g}" for x in said) if isinstance(said, list) else ("", f"{said:g}")
            cost = f"{100.0 * (parts[key] / full[key] - 1.0):+.1f} %" if full[key] else ""
            what = str(number), key.replace("_", " "), unit
            rows.append((*what, f"{parts[key]:.4g}", theory, f"{full[key]:.4g}", simulation, cost))
    header = ("attitude", "quantity", "unit", "segmented", "paper: theory", "full run", "paper: ADAMS")
    columns = [list(column) for column in zip(*rows, strict=True)]
    return table((*header, "segmented / full - 1"), columns, height=80 + 25 * len(rows))


def masses(study: Study) -> go.Figure:
    """Equivalent masses of Table III, of the surrogate, and the least that Tables I and II allow."""
    plot = new_figure(x="attitude", y="equivalent mass", y_unit="kg")
    numbers = list(ATTITUDES)
    for k, (name, key, free) in enumerate((("plane", "plane", None), ("joint 4 free", "joint4_free", ["joint4"]))):
        ours = [float(equivalent_mass(study.rig, study.full[n].start, free)) for n in numbers]
        said = [getattr(TABLE[n], key) for n in numbers]
        ring: dict[str, Any] = {"mode": "markers", "symbol": "circle-open", "size": 15, "marker_line_width": 2}
        curve(plot, numbers, said, f"{name}: Table III", colour=k, **ring)
        curve(plot, numbers, ours, f"{name}: surrogate", colour=k, mode="markers", size=7)
    bound = joint_free_bound(study.printed, "joint4")
    least = f"joint 4 free: least of Tables I, II ({bound:.1f} kg)"
    curve(plot, [0.6, 5.4], [bound, bound], least, colour=3, dash="dash")
    plot.update_xaxes(dtick=1, range=[0.6, 5.4])
    plot.update_yaxes(rangemode="tozero")
    return plot


def velocity(study: Study) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    for k, number in enumerate(ATTITUDES):
        run, parts = study.full[number], study.segmented[number]
        data = run.data.sel(time=slice(0.0, run.time))
        kept = parts.curve_time <= parts.time
        curve(plot, data["time"], 1e3 * data["velocity"], f"{number} S", colour=k)
        curve(plot, parts.curve_time[kept], 1e3 * parts.curve_velocity[kept], f"{number} T", colour=k, dash="dash")
    return plot


def spin(study: Study) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="angular velocity of the base", y_unit="deg/s")
    for k, number in enumerate(ATTITUDES):
        run, name = study.full[number], f"attitude {number}"
        data = run.data.sel(time=slice(0.0, 4.0))
        curve(plot, data["time"], -data["angular_velocity"].sel(axis="y") * DEGREE, name, colour=k)
        dot: dict[str, Any] = {"mode": "markers", "size": 8, "showlegend": False}
        end = -float(run.angular_velocity[1]) * DEGREE
        curve(plot, [run.stable_time], [end], f"{name} stable", colour=k, **dot)
        curve(plot, [4.05], [TABLE[number].angular_velocity], f"{name}, Table III", colour=k, symbol="x", **dot)
    plot.update_xaxes(range=[-0.05, 4.2])
    return plot


def variation(study: Study) -> go.Figure:
    plot = panels(("joint 2", "joint 4"))
    for k, number in enumerate(ATTITUDES):
        run, parts, name = study.full[number], study.segmented[number], f"attitude {number}"
        data = run.data.sel(time=slice(0.0, 3.5))
        for column, (joint, sign) in enumerate(JOINTS, start=1):
            at: dict[str, Any] = {"row": 1, "col": column}
            index, scale = run.rig.arm.joint_index(joint), sign * DEGREE
            quiet: dict[str, Any] = {"legendgroup": name, "showlegend": False}
            full = scale * data["variation"].sel(joint=joint)
            curve(plot, data["time"], full, name, colour=k, legendgroup=name, showlegend=column == 1, **at)
            short = scale * parts.curve_variation[:, index]
            curve(plot, parts.curve_time, short, name, colour=k, dash="dash", **quiet, **at)
            end = scale * run.variation[index]
            curve(plot, [run.time], [end], name, colour=k, mode="markers", size=7, **quiet, **at)
    plot.update_xaxes(title_text="time [s]", range=[0.0, 3.5])
    plot.update_yaxes(title_text="joint variation [deg]", row=1, col=1)
    return plot


def damping_velocity(study: Study) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    for (number, value), run in sorted(study.damped.items()):
        data = run.data.sel(time=slice(0.0, run.time))
        dash = ("solid", "dash", "dot")[_dampings(study).index(value)]
        name = f"attitude {number}, B = {value:g}"
        curve(plot, data["time"], 1e3 * data["velocity"], name, colour=number - 1, dash=dash)
    return plot


def _dampings(study: Study) -> list[float]:
    return sorted({value for _, value in study.damped})


def damping_joints(study: Study) -> go.Figure:
    plot = panels(("joint 2", "joint 4"))
    for k, value in enumerate(_dampings(study)):
        run = study.damped[3, value]
        data = run.data.sel(time=slice(0.0, run.time))
        for column, (joint, sign) in enumerate(JOINTS, start=1):
            y = sign * DEGREE * data["variation"].sel(joint=joint)
            once: dict[str, Any] = {"legendgroup": str(value), "showlegend": column == 1}
            curve(plot, data["time"], y, f"B = {value:g} N m s/rad", colour=k, **once, row=1, col=column)
    plot.update_xaxes(title_text="time [s]")
    plot.update_yaxes(title_text="joint variation [deg]", row=1, col=1)
    return plot


def identification(study: Study) -> go.Figure:
    plot = new_figure(x="joint damping B", x_unit="N m s/rad", y="root mean square velocity error", y_unit="mm/s")
    for k, (model, name) in enumerate((("segmented", "Eq. 43, segmented algorithm"), ("full", "Eq. 43, full run"))):
        grid = study.grid[model]
        rms = 1e3 * np.sqrt(grid.cost / len(study.tests.joints))
        curve(plot, grid.grid, rms, name, colour=k, mode="lines+markers")
    (low, high), value = study.fit.interval[0], float(study.fit.values[0])
    plot.add_vrect(x0=low, x1=high, fillcolor=COLOURS[2], opacity=0.2, line_width=0)
    plot.add_vline(x=value, line_color=COLOURS[2], annotation_text=f"least squares {value:.2f}")
    truth = {"annotation_text": "truth", "annotation_position": "bottom"}
    plot.add_vline(x=DAMPING, line_dash="dot", line_color=COLOURS[7], **truth)
    return plot


def maps(study: Study) -> go.Figure:
    """Velocity and angular velocity over joints 2 and 4, with the paper's attitudes and the best ones."""
    marks = {str(number): run.start for number, run in study.full.items()}
    marks |= {name: study.best[name].joints for name in GOALS}
    plot = map_panels(study.map, study.rig.arm, marks, signs=(-1.0, 1.0))
    plot.update_xaxes(title_text="q2 [deg]")
    plot.update_yaxes(title_text="q4 [deg]", row=1, col=1)
    return plot


def dataset(study: Study) -> xr.Dataset:
    """Curves of both methods and of other dampings on one time grid (paper's units and signs), rail loads, the map."""
    import xarray as xr

    grid = np.concatenate([np.arange(0.0, 0.4, 0.002), np.arange(0.4, 4.0001, 0.02)])
    # variable, factor, place: unit and text
    series: dict[str, tuple[str, float, dict[str, str], str, str]] = {
        "velocity": ("velocity", 1e3, {}, "mm/s", "velocity of the movable base along the rail"),
        "joint2": ("variation", -DEGREE, {"joint": "joint2"}, "deg", "variation of joint 2"),
        "joint4": ("variation", DEGREE, {"joint": "joint4"}, "deg", "variation of joint 4"),
        "angular_velocity": (
            "angular_velocity", -DEGREE, {"axis": "y"}, "deg/s", "angular velocity of the movable base",
        ),
        "rail_force": (
            "rail_force", 1.0, {"axis": "x"}, "N",
            "force of the rail on the movable base along x, across the rail; zero after separation",
        ),
        "rail_moment": (
            "rail_moment", -1.0, {"axis": "y"}, "N m",
            "moment of the rail about the origin of the movable base; zero after separation",
        ),
    }  # fmt: skip

    def on_grid(curves: Any, name: str, right: float | None = None) -> Any:
        variable, factor, place, *_ = series[name]
        found = [(c["time"].values, factor * c[variable].sel(place).values) for c in curves]
        return np.array([np.interp(grid, x, y, right=right) for x, y in found])

    full = [study.full[number].data for number in ATTITUDES]
    parts = [study.segmented[number].data for number in ATTITUDES]
    dampings = _dampings(study)
    other = [study.damped[number, value].data for number in (3, 4) for value in dampings]
    data: dict[str, Any] = {}
    for name, (*_, unit, text) in series.items():
        values, damped = on_grid(full, name), on_grid(other, name)
        if name.startswith("rail"):  # nothing of the rail between separation and the next sample
            for rows, curves in ((values, full), (damped, other)):
                rows[grid > np.array([[curve.attrs["separation_time"]] for curve in curves])] = 0.0
        data[name] = (("attitude", "time"), values, {"units": unit, "long_name": text})
        shape = (2, len(dampings), grid.size)
        dims = ("damped_attitude", "damping", "time")
        data[f"damped_{name}"] = (dims, damped.reshape(shape), {"units": unit, "long_name": f"{text}, other dampings"})
        if name in ("velocity", "joint2", "joint4"):  # after its last joint has stopped the algorithm says no more
            values = on_grid(parts, name, right=np.nan)
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
