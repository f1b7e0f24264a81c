"""Figures as the paper's 8 to 12, and those beyond it; curves on one time grid for ``data.nc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.ejection import equivalent_mass
from spacearm.ejection.figures import energy_areas, histograms, map_panels, velocity_curves
from spacearm.ejection.mass import joint_free_bound
from spacearm.figures import COLOURS, add_curve, add_line_key, new_figure, panels, share_y_range
from spacearm.papers.agreement import figure
from spacearm.papers.cai2023.data import ATTITUDES, DAMPING, DEGREE, NAME, TABLE, UNITS, convert_to_paper_signs
from spacearm.papers.cai2023.runs import GOALS, Cai2023Study
from spacearm.result import Figure
from spacearm.scene import Scene, scene_of
from spacearm.simulate import State
from spacearm.simulate.bodies import evaluate_bodies
from spacearm.simulate.run.dataset import label_dataset

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

#: Joints whose variations the paper prints, and the sign it counts them with.
JOINTS = (("joint2", -1.0), ("joint4", 1.0))
#: The first five colours are the attitudes', in all figures; what is not an attitude has others.
FULL, SEGMENTED, BOUND = 5, 6, 7
#: Line styles of the two methods.
METHODS: dict[str, int | str] = {"full run": "solid", "segmented algorithm": "dash"}
#: Line styles of the dampings of Figs. 11 and 12.
STYLES = ("solid", "dash", "dot")


def scene(study: Cai2023Study) -> Scene:
    """The five ejections, one at a time."""
    return scene_of({f"attitude {number}": run for number, run in study.full.items()}, frames=150)


def figures(study: Cai2023Study) -> list[Figure]:
    """In the order of the paper, then what goes beyond it."""
    plots = {
        "masses": masses(study),
        "configurations": configurations(study),
        "methods": methods(study),
        "fig08-velocity": velocity(study),
        "fig09-angular-velocity": angular_rate(study),
        "fig10-joints": variation(study),
        "fig11-damping-velocity": damping_velocity(study),
        "fig12-damping-joints": damping_joints(study),
        "energy": energy_areas(study.full[2], 2.5),
        "damping-identification": identification(study),
        "configuration-map": maps(study),
        "monte-carlo": histograms(study.spread),
    }
    return [figure(NAME, name, plot) for name, plot in plots.items()]


def methods(study: Cai2023Study) -> go.Figure:
    """Both methods beside both columns of Table III."""
    names = {key: f"{key.replace('_', ' ')} [{unit}]" for key, unit in UNITS.items()}
    plot = panels(list(names.values()), columns=3, height=640, spacing=0.08)
    ring: dict[str, Any] = {"symbol": "circle-open", "size": 13, "marker_line_width": 2}
    for k, key in enumerate(names):
        at: dict[str, Any] = {"row": k // 3 + 1, "col": k % 3 + 1, "mode": "markers", "showlegend": k == 0}
        note = [getattr(TABLE[n], key) for n in ATTITUDES]
        theory, simulation = zip(*(one if isinstance(one, list) else (None, one) for one in note), strict=True)
        full, parts = (
            [convert_to_paper_signs(runs[n])[key] for n in ATTITUDES] for runs in (study.full, study.segmented)
        )
        add_curve(plot, ATTITUDES, simulation, "paper: ADAMS", colour=FULL, **ring, **at)
        add_curve(plot, ATTITUDES, full, "full run", colour=FULL, size=7, **at)
        add_curve(plot, ATTITUDES, theory, "paper: theory", colour=SEGMENTED, **ring, **at)
        add_curve(plot, ATTITUDES, parts, "segmented algorithm", colour=SEGMENTED, size=7, **at)
    plot.update_xaxes(title_text="attitude", dtick=1, range=[0.5, 5.5])
    return plot


def configurations(study: Cai2023Study) -> go.Figure:
    """The arm on the rail in the five attitudes, side by side, in the plane of the table."""
    plot = new_figure(x="across the rail", x_unit="m", y="along the rail", y_unit="m")
    right = 0.0
    for k, number in enumerate(ATTITUDES):
        arm, start = study.rig.arm, study.full[number].start
        places = evaluate_bodies(arm, State.at_rest(arm, start).vector[None]).origin[0]
        shift = right - places[:, 0].min()
        across, along = places[:, 0] + shift, places[:, 2]
        add_curve(plot, across, along, f"attitude {number}", colour=k, mode="lines+markers", size=7, line={"width": 4})
        add_curve(plot, across[:1], along[:1], colour=k, mode="markers", symbol="square", size=16, showlegend=False)
        right = float(across.max()) + 0.35
    plot.update_yaxes(scaleanchor="x", scaleratio=1)
    return plot


def masses(study: Cai2023Study) -> go.Figure:
    """Equivalent masses of Table III, of the surrogate, and the least that Tables I and II allow."""
    plot = new_figure(x="attitude", y="equivalent mass", y_unit="kg")
    numbers = list(ATTITUDES)
    for k, (name, key, free) in enumerate((("plane", "plane", None), ("joint 4 free", "joint4_free", ["joint4"]))):
        ours = [float(equivalent_mass(study.rig, study.full[n].start, free)) for n in numbers]
        note = [getattr(TABLE[n], key) for n in numbers]
        ring: dict[str, Any] = {"mode": "markers", "symbol": "circle-open", "size": 15, "marker_line_width": 2}
        add_curve(plot, numbers, note, f"{name}: Table III", colour=5 + k, **ring)
        add_curve(plot, numbers, ours, f"{name}: surrogate", colour=5 + k, mode="markers", size=7)
    bound = joint_free_bound(study.printed, "joint4")
    least = f"joint 4 free: least of Tables I, II ({bound:.1f} kg)"
    add_curve(plot, [0.6, 5.4], [bound, bound], least, colour=BOUND, dash="dash")
    plot.update_xaxes(dtick=1, range=[0.6, 5.4])
    plot.update_yaxes(rangemode="tozero")
    return plot


def angular_rate(study: Cai2023Study) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="angular velocity of the base", y_unit="deg/s")
    for k, number in enumerate(ATTITUDES):
        run, name = study.full[number], f"attitude {number}"
        data = run.data.sel(time=slice(0.0, 4.0))
        add_curve(plot, data["time"], -data["angular_velocity"].sel(axis="y") * DEGREE, name, colour=k)
        dot: dict[str, Any] = {"mode": "markers", "size": 8, "showlegend": False}
        end = -float(run.angular_velocity[1]) * DEGREE
        add_curve(plot, [run.stable_time], [end], f"{name} stable", colour=k, **dot)
        add_curve(plot, [4.05], [TABLE[number].angular_velocity], f"{name}, Table III", colour=k, symbol="x", **dot)
    plot.update_xaxes(range=[-0.05, 4.2])
    return plot


def velocity(study: Cai2023Study) -> go.Figure:
    plot = velocity_curves({f"attitude {n}": run for n, run in study.full.items()})
    for k, (number, parts) in enumerate(study.segmented.items()):
        rail = parts.curve_time <= parts.time
        speed = 1e3 * parts.curve_velocity[rail]
        add_curve(plot, parts.curve_time[rail], speed, f"attitude {number}", colour=k, dash="dash", showlegend=False)
    add_line_key(plot, METHODS)
    return plot


def variation(study: Cai2023Study) -> go.Figure:
    plot = panels(("joint 2", "joint 4"))
    for k, number in enumerate(ATTITUDES):
        run, parts, name = study.full[number], study.segmented[number], f"attitude {number}"
        data = run.data.sel(time=slice(0.0, 3.5))
        for column, (joint, sign) in enumerate(JOINTS, start=1):
            at: dict[str, Any] = {"row": 1, "col": column}
            index, scale = run.rig.arm.joint_index(joint), sign * DEGREE
            quiet: dict[str, Any] = {"legendgroup": name, "showlegend": False}
            full = scale * data["variation"].sel(joint=joint)
            add_curve(plot, data["time"], full, name, colour=k, legendgroup=name, showlegend=column == 1, **at)
            short = scale * parts.curve_variation[:, index]
            add_curve(plot, parts.curve_time, short, name, colour=k, dash="dash", **quiet, **at)
            end = scale * run.variation[index]
            add_curve(plot, [run.time], [end], name, colour=k, mode="markers", size=7, **quiet, **at)
    share_y_range(plot, [(1, 1), (1, 2)])
    add_line_key(plot, METHODS, row=1, col=1)
    plot.update_xaxes(title_text="time [s]", range=[0.0, 3.5])
    plot.update_yaxes(title_text="joint variation [deg]", row=1, col=1)
    return plot


def damping_velocity(study: Cai2023Study) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="ejection velocity", y_unit="mm/s")
    dashes = dict(zip(_dampings(study), STYLES, strict=True))
    for (number, value), run in sorted(study.damped.items()):
        data = run.data.sel(time=slice(0.0, run.time))
        style: dict[str, Any] = {"colour": number - 1, "dash": dashes[value], "showlegend": dashes[value] == "solid"}
        add_curve(plot, data["time"], 1e3 * data["velocity"], f"attitude {number}", **style)
    add_line_key(plot, {f"damping {value:g} N m s/rad": dash for value, dash in dashes.items()})
    return plot


def _dampings(study: Cai2023Study) -> list[float]:
    return sorted({value for _, value in study.damped})


def damping_joints(study: Cai2023Study) -> go.Figure:
    plot = panels(("joint 2", "joint 4"))
    for k, value in enumerate(_dampings(study)):
        run = study.damped[3, value]
        data = run.data.sel(time=slice(0.0, run.time))
        for column, (joint, sign) in enumerate(JOINTS, start=1):
            y = sign * DEGREE * data["variation"].sel(joint=joint)
            once: dict[str, Any] = {"legendgroup": str(value), "showlegend": column == 1, "dash": STYLES[k]}
            add_curve(plot, data["time"], y, f"B = {value:g} N m s/rad", colour=2, **once, row=1, col=column)
    share_y_range(plot, [(1, 1), (1, 2)])
    plot.update_xaxes(title_text="time [s]")
    plot.update_yaxes(title_text="joint variation [deg]", row=1, col=1)
    return plot


def identification(study: Cai2023Study) -> go.Figure:
    plot = new_figure(x="joint damping B", x_unit="N m s/rad", y="root mean square velocity error", y_unit="mm/s")
    for k, (model, name) in enumerate((("segmented", "Eq. 43, segmented algorithm"), ("full", "Eq. 43, full run"))):
        grid = study.grid[model]
        rms = 1e3 * np.sqrt(grid.cost / len(study.tests.joints))
        add_curve(plot, grid.grid, rms, name, colour=(SEGMENTED, FULL)[k], mode="lines+markers")
    (low, high), value = study.fit.interval[0], float(study.fit.values[0])
    plot.add_vrect(x0=low, x1=high, fillcolor=COLOURS[FULL], opacity=0.2, line_width=0)
    plot.add_vline(x=value, line_color=COLOURS[FULL], annotation_text=f"least squares {value:.2f}")
    truth = {"annotation_text": "truth", "annotation_position": "bottom"}
    plot.add_vline(x=DAMPING, line_dash="dot", line_color=COLOURS[7], **truth)
    return plot


def maps(study: Cai2023Study) -> go.Figure:
    """Velocity and angular velocity over joints 2 and 4, with the paper's attitudes and the best ones."""
    marks = {str(number): run.start for number, run in study.full.items()}
    marks |= {name: study.best[name].joints for name in GOALS}
    plot = map_panels(study.map, study.rig.arm, marks, signs=(-1.0, 1.0))
    plot.update_xaxes(title_text="q2 [deg]")
    plot.update_yaxes(title_text="q4 [deg]", row=1, col=1)
    return plot


def dataset(study: Cai2023Study) -> xr.Dataset:
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

    def interpolate_curves(curves: Any, name: str, right: float | None = None) -> Any:
        variable, factor, place, *_ = series[name]
        found = [(c["time"].values, factor * c[variable].sel(place).values) for c in curves]
        return np.array([np.interp(grid, x, y, right=right) for x, y in found])

    full = [study.full[number].data for number in ATTITUDES]
    parts = [study.segmented[number].data for number in ATTITUDES]
    dampings = _dampings(study)
    other = [study.damped[number, value].data for number in (3, 4) for value in dampings]
    data: dict[str, Any] = {}
    for name, (*_, unit, text) in series.items():
        values, damped = interpolate_curves(full, name), interpolate_curves(other, name)
        if name.startswith("rail"):  # nothing of the rail between separation and the next sample
            for rows, curves in ((values, full), (damped, other)):
                rows[grid > np.array([[curve.attrs["separation_time"]] for curve in curves])] = 0.0
        data[name] = ("attitude time", values, unit, text)
        damped = damped.reshape(2, len(dampings), grid.size)
        data[f"damped_{name}"] = ("damped_attitude damping time", damped, unit, f"{text}, other dampings")
        if name in ("velocity", "joint2", "joint4"):  # after its last joint has stopped the algorithm says no more
            values = interpolate_curves(parts, name, right=np.nan)
            note = f"{text}, segmented algorithm; NaN after the last stop"
            data[f"segmented_{name}"] = ("attitude time", values, unit, note)
    chart = study.map.rename({"joint2": "map_joint2", "joint4": "map_joint4"})
    chart = chart.rename({name: f"map_{name}" for name in chart.data_vars})
    coords = {
        "attitude": list(ATTITUDES),
        "damped_attitude": [3, 4],
        "damping": ("damping", dampings, "N m s/rad"),
        "time": ("time", grid, "s", "time since release"),
    }
    return xr.merge([label_dataset(coords, data), chart])
