"""Figures as the paper's 9, 10, 12, 13, and what can and cannot be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, new_figure
from spacearm.identify.inertia.figures import origins
from spacearm.identify.inertia.parameters import PLAIN
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.runs import Beyond, Exact, Noisy, Swarms, Validation
from spacearm.result import Figure
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray


def _line(x: Any, y: Any, name: str, **options: Any) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(x=x, y=y, name=name, mode=options.pop("mode", "lines"), **options)


def _convergence(histories: dict[str, Array], title: str) -> go.Figure:
    figure = new_figure(x="iteration", y=title, height=420)
    for name, history in histories.items():
        figure.add_trace(_line(np.arange(history.size), np.maximum(history, 1e-18), name))
    figure.update_yaxes(type="log", exponentformat="power", dtick=2)
    return figure


def _ranks(case: Exact) -> go.Figure:
    import plotly.graph_objects as go

    stages = case.identifiability.stages
    names = [stage.experiment for stage in stages]
    figure = new_figure(x="after experiment", y="numbers", height=420)
    claimed = [10 + 10 * k for k in range(len(stages))]
    figure.add_trace(go.Bar(x=names, y=claimed, name="claimed by the paper", marker_color=COLOURS[7], opacity=0.5))
    figure.add_trace(
        go.Bar(
            x=names,
            y=[stage.rank for stage in stages],
            name="rank: determined combinations",
            marker_color=COLOURS[0],
            text=[str(stage.rank) for stage in stages],
            textposition="outside",
        )
    )
    figure.update_layout(barmode="group")
    return figure


def _singular(case: Exact) -> go.Figure:
    figure = new_figure(x="number", y="singular value", height=420)
    for stage in case.identifiability.stages:
        values = np.maximum(stage.singular / stage.singular[0], 1e-18)
        figure.add_trace(_line(np.arange(1, values.size + 1), values, stage.experiment, mode="lines+markers"))
    figure.update_traces(marker={"size": 4})
    figure.update_yaxes(type="log", exponentformat="power", dtick=3)
    return figure


def _status(case: Exact, noise: Noisy) -> go.Figure:
    """A map of all 70 numbers: grey undetermined, blue by the data."""
    known, noisy = case.known, noise.identification.known
    hover = [
        [
            f"{paper.SYMBOLS[k]} of {body.name}: {known.number(body.name, symbol).source.value}"
            f"<br>noisy data and prior: {noisy.number(body.name, symbol).text}"
            for k, symbol in enumerate(PLAIN)
        ]
        for body in case.robot.bodies
    ]
    return origins(known, paper.SYMBOLS, hover)


def _seeds(swarm: Swarms) -> go.Figure:
    import plotly.graph_objects as go

    figure = new_figure(x="seed", y="base mass", y_unit="kg", height=380)
    seeds = np.arange(1, len(swarm.seeds) + 1)
    figure.add_trace(
        go.Bar(x=seeds, y=[one.values[0] for one in swarm.seeds], name="found by the swarm", marker_color=COLOURS[1])
    )
    figure.add_hline(
        y=400.0,
        line={"color": COLOURS[0], "dash": "dash"},
        annotation_text="true 400 kg",
        annotation_position="top left",
    )
    figure.update_xaxes(dtick=1)
    return figure


def _errors(check: Validation, robot_joints: tuple[str, ...]) -> list[Figure]:
    times = check.identified.times
    found = []
    for name, values, labels, title, unit, caption in (
        (
            "fig12a-base-position",
            check.identified.base_position,
            ("x", "y", "z"),
            "base position error",
            "m",
            "As the paper's Fig. 12: base position of the identified model minus the real one under the same torques.",
        ),
        (
            "fig12b-base-attitude",
            check.identified.base_attitude,
            ("x", "y", "z"),
            "base attitude error",
            "rad",
            "As the paper's Fig. 12: attitude between the two models.",
        ),
        (
            "fig13-joints",
            check.identified.joints,
            robot_joints,
            "joint angle error",
            "rad",
            "As the paper's Fig. 13: joint angles of the identified model minus the real ones.",
        ),
    ):
        figure = new_figure(x="time", x_unit="s", y=title, y_unit=unit, height=380)
        for k, label in enumerate(labels):
            figure.add_trace(_line(times, values[:, k], label))
        figure.update_yaxes(exponentformat="power")
        found.append(Figure(name, figure, caption))
    return found


def _blind(check: Validation) -> go.Figure:
    figure = new_figure(x="time", x_unit="s", y="largest joint angle error", y_unit="rad", height=420)
    for name, run in (
        ("15 % wrong", check.wrong),
        ("identified, noise and prior", check.identified),
        ("the paper's tables", check.paper),
        ("identified without noise", check.exact),
        ("null twin: other masses, same motion", check.twin),
    ):
        worst = np.maximum(np.abs(run.joints).max(axis=1), 1e-18)
        figure.add_trace(_line(run.times[1:], worst[1:], name))
    figure.update_yaxes(type="log", exponentformat="power", dtick=3)
    return figure


def _coverage(noise: Noisy) -> go.Figure:
    import plotly.graph_objects as go

    carlo = noise.monte_carlo
    figure = new_figure(x="error in claimed standard deviations", y="density", height=400)
    figure.add_trace(
        go.Histogram(
            x=carlo.errors.ravel(),
            histnorm="probability density",
            xbins={"start": -5, "end": 5, "size": 0.2},
            name=f"{carlo.errors.size} errors",
            marker_color=COLOURS[5],
            opacity=0.7,
        )
    )
    x = np.linspace(-5, 5, 201)
    figure.add_trace(_line(x, np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), "normal", line={"color": COLOURS[3]}))
    return figure


def _design(more: Beyond, case: Exact) -> go.Figure:
    figure = new_figure(x="base parameter, best known first", y="standard deviation / typical size", height=420)
    number = np.arange(1, more.paper.deviations.size + 1)
    for name, plan in (("the paper's motions", more.paper), ("designed", more.designed)):
        label = f"{name}: {plan.usage['time']:.0f} s, {plan.usage['impulse']:.0f} N s"
        figure.add_trace(_line(number, np.sort(plan.deviations), label, mode="lines+markers"))
    figure.update_traces(marker={"size": 4})
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    return figure


def _online(more: Beyond) -> go.Figure:
    """Error and claimed interval of the mass, logarithmic, before and after every update."""
    times = np.array([state.time for state in more.target])
    error = np.array([abs(state.values[0] - more.target_truth[0]) for state in more.target])
    band = np.array([1.959964 * state.std[0] for state in more.target])
    figure = new_figure(x="time", x_unit="s", y="target mass", y_unit="kg", height=400)
    figure.add_trace(_line(times, band, "95 % interval, half width", line={"color": COLOURS[0], "width": 3}))
    figure.add_trace(_line(times, error, "error of the estimate", line={"color": COLOURS[3]}))
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    return figure


def drawn(case: Exact, swarm: Swarms, noise: Noisy, check: Validation, more: Beyond) -> list[Figure]:
    """All figures in reading order."""
    cost = "global best cost"
    return [
        Figure("ranks", _ranks(case), "Combinations determined after each experiment, and what the paper counts."),
        Figure(
            "singular-values",
            _singular(case),
            "Singular values of the scaled momentum regressor after each experiment: the fall of ten decades is "
            "the edge "
            "of what can be known.",
        ),
        Figure(
            "numbers",
            _status(case, noise),
            "Every number of Tables 6 to 12: determined by the data, or undetermined (grey). Point at a field for its "
            "value with noise and prior.",
        ),
        Figure(
            "fig09-swarm-single-body",
            _convergence({"single body": swarm.single.history}, cost),
            "As the paper's Fig. 9: global best of Eq. 37 over iterations.",
        ),
        Figure(
            "fig10-swarm-two-body",
            _convergence({name: one.history for name, one in swarm.two.items()}, cost),
            "As the paper's Fig. 10: global best of Eq. 52 for every unlocked joint.",
        ),
        Figure(
            "swarm-seeds",
            _seeds(swarm),
            "Base mass by the same swarm on the same data (joint 1) with other seeds. All costs are below 1e-12 "
            "and all "
            "identifiable combinations agree; the mass is not one of them.",
        ),
        *_errors(check, case.robot.joint_names),
        Figure(
            "validation-blind",
            _blind(check),
            "Sec. 5.5 cannot see null directions: a robot with quite other body masses stays at rounding.",
        ),
        Figure(
            "monte-carlo",
            _coverage(noise),
            "Errors of all base parameters over all repetitions in claimed standard deviations.",
        ),
        Figure(
            "design",
            _design(more, case),
            "Deviations of the base parameters: the paper's seven experiments and four designed ones.",
        ),
        Figure("online", _online(more), "A grasped target's mass while data arrive; the guess was 50 % too heavy."),
    ]


def dataset(case: Exact, swarm: Swarms, noise: Noisy, check: Validation, more: Beyond) -> xarray.Dataset:
    """The curves behind the figures."""
    import xarray as xr

    def entry(dims: tuple[str, ...], values: Any, units: str, text: str) -> tuple[Any, ...]:
        return dims, np.asarray(values), {"units": units, "long_name": text}

    estimate = noise.identification.estimate
    return xr.Dataset(
        {
            "truth": entry(("parameter",), case.truth, "SI", "base parameters of the simulated robot"),
            "exact": entry(("parameter",), case.linear.estimate.values, "SI", "identified without noise"),
            "noisy": entry(("parameter",), estimate.values, "SI", "identified with noise"),
            "noisy_std": entry(("parameter",), estimate.std, "SI", "claimed standard deviation"),
            "errors": entry(("repetition", "parameter"), noise.monte_carlo.errors, "1", "errors in deviations"),
            "swarm_single": entry(("iteration",), swarm.single.history, "1", "best cost, Eq. 37"),
            "base_position": entry(("time", "axis"), check.identified.base_position, "m", "base position error"),
            "base_attitude": entry(("time", "axis"), check.identified.base_attitude, "rad", "base attitude error"),
            "joint_angle": entry(("time", "joint"), check.identified.joints, "rad", "joint angle error"),
            "target_time": entry(("update",), [s.time for s in more.target], "s", "time of the update"),
            "target": entry(("update", "number"), [s.values for s in more.target], "SI", "target parameters"),
            "target_std": entry(("update", "number"), [s.std for s in more.target], "SI", "their deviation"),
        },
        coords={
            "parameter": list(case.base_parameters.names),
            "time": ("time", check.identified.times, {"units": "s"}),
            "axis": ["x", "y", "z"],
            "joint": list(case.robot.joint_names),
        },
    )
