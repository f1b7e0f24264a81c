"""Figures as the paper's 9, 10, 12, 13, and what can and cannot be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, add_curve, new_figure, panels
from spacearm.identify.inertia.figures import origins
from spacearm.identify.inertia.inertia_parameters import PLAIN
from spacearm.papers.agreement import figure
from spacearm.papers.xu2017.data import NAME, SYMBOLS
from spacearm.papers.xu2017.runs import ExtensionRuns, NoiseFreeRuns, NoisyRuns, Swarms, Validation, Xu2017Study
from spacearm.result import Figure
from spacearm.simulate.run.dataset import label_dataset

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray

#: Joints have the first six colours in all figures; the whole robot, and its base, this one.
WHOLE = 7
#: What is smaller is rounding, and drawn here; costs are squares.
FLOOR, COST_FLOOR = 1e-12, 1e-18


def build_figures(study: Xu2017Study) -> list[Figure]:
    """All figures: what carries the message first."""
    check = study.validation
    plots = {
        "ranks": _ranks(study.exact),
        "swarm-seeds": _seeds(study.swarms),
        "numbers": _status(study.exact, study.noisy),
        "singular-values": _singular(study.exact),
        "fig12-13-validation": _errors(check, study.exact.robot.joint_names),
        "validation-blind": _blind(check),
        "monte-carlo": _coverage(study.noisy),
        "design": _design(study.beyond),
        "online": _online(study.beyond),
        "fig09-10-swarm": _convergence(study.swarms),
    }
    return [figure(NAME, name, plot) for name, plot in plots.items()]


def _convergence(swarm: Swarms) -> go.Figure:
    plot = panels(("single body (Eq. 37)", "two bodies, one joint each (Eq. 52)"), height=400)
    for column, histories in enumerate(({"single body": swarm.single}, swarm.two), 1):
        for k, (name, found) in enumerate(histories.items()):
            x, y = np.arange(found.history.size), np.maximum(found.history, COST_FLOOR)
            add_curve(plot, x, y, name, colour=WHOLE if column == 1 else k, row=1, col=column)
    plot.update_xaxes(title_text="iteration")
    plot.update_yaxes(title_text="global best cost", row=1, col=1)
    plot.update_yaxes(range=[np.log10(COST_FLOOR) - 0.5, _highest(plot)])
    return _logarithmic(plot, 2)


def _highest(plot: go.Figure) -> float:
    """Power of ten that is above every curve."""
    return float(np.ceil(np.log10(max(np.max(trace.y) for trace in plot.data))))


def _logarithmic(plot: go.Figure, decades: int) -> go.Figure:
    plot.update_yaxes(type="log", exponentformat="power", dtick=decades)
    return plot


def _ranks(case: NoiseFreeRuns) -> go.Figure:
    stages = case.identifiability.stages
    names, ranks = [stage.experiment for stage in stages], [stage.rank for stage in stages]
    plot = new_figure(x="after experiment", y="number of parameters")
    claimed = [10 + 10 * k for k in range(len(stages))]
    plot.add_bar(x=names, y=claimed, name="claimed by the paper", marker_color=COLOURS[7], opacity=0.5)
    bars = {"name": "rank: determined combinations", "marker_color": COLOURS[0], "textposition": "outside"}
    plot.add_bar(x=names, y=ranks, text=[str(rank) for rank in ranks], **bars)
    plot.update_layout(barmode="group")
    return plot


def _singular(case: NoiseFreeRuns) -> go.Figure:
    plot = new_figure(x="number", y="singular value / largest")
    for k, stage in enumerate(case.identifiability.stages):
        values = np.maximum(stage.singular / stage.singular[0], FLOOR)
        style: dict[str, Any] = {"colour": k - 1 if k else WHOLE, "mode": "lines+markers", "size": 4}
        add_curve(plot, np.arange(1, values.size + 1), values, stage.experiment, **style)
    return _logarithmic(plot, 3)


def _status(case: NoiseFreeRuns, noise: NoisyRuns) -> go.Figure:
    """A map of all 70 numbers: grey undetermined, blue by the data."""
    known, noisy = case.known, noise.identification.known
    hover = [
        [
            f"{SYMBOLS[k]} of {body.name}: {known.number(body.name, symbol).source.value}"
            f"<br>noisy data and prior: {noisy.number(body.name, symbol).text}"
            for k, symbol in enumerate(PLAIN)
        ]
        for body in case.robot.bodies
    ]
    return origins(known, SYMBOLS, hover)


def _seeds(swarm: Swarms) -> go.Figure:
    plot = new_figure(x="seed", y="base mass", y_unit="kg", height=380)
    plot.add_bar(
        x=np.arange(1, len(swarm.seeds) + 1), y=swarm.masses, name="found by the swarm", marker_color=COLOURS[1]
    )
    add_curve(plot, [0.5, len(swarm.seeds) + 0.5], [400.0, 400.0], "true: 400 kg", colour=0, dash="dash")
    plot.update_xaxes(dtick=1)
    return plot


def _errors(check: Validation, joints: tuple[str, ...]) -> go.Figure:
    found = check.identified
    parts = {
        "base position [\N{MICRO SIGN}m]": (1e6 * found.base_position, ("x", "y", "z")),
        "base attitude [mrad]": (1e3 * found.base_attitude, ("x", "y", "z")),
        "joint angles [mrad]": (1e3 * found.joints, joints),
    }
    plot = panels(list(parts), height=400, spacing=0.07)
    for column, (values, names) in enumerate(parts.values(), 1):
        for k, name in enumerate(names):
            style: dict[str, Any] = {"colour": k} if column == 3 else {"colour": WHOLE, "dash": k}
            add_curve(plot, found.times, values[:, k], name, showlegend=column != 2, row=1, col=column, **style)
    plot.update_xaxes(title_text="time [s]")
    return plot


def _blind(check: Validation) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="largest joint angle error", y_unit="rad")
    for name, run in (
        ("15 % wrong", check.wrong),
        ("identified, noise and prior", check.identified),
        ("the paper's tables", check.paper),
        ("identified without noise", check.exact),
        ("indistinguishable robot: other masses, same motion", check.reference),
    ):
        add_curve(plot, run.times[1:], np.maximum(np.abs(run.joints).max(axis=1), FLOOR)[1:], name)
    return _logarithmic(plot, 3)


def _coverage(noise: NoisyRuns) -> go.Figure:
    errors = noise.monte_carlo.errors
    plot = new_figure(x="error / claimed standard deviation", y="density", height=400)
    bins = {"histnorm": "probability density", "xbins": {"start": -5, "end": 5, "size": 0.2}}
    plot.add_histogram(x=errors.ravel(), name=f"{errors.size} errors", marker_color=COLOURS[5], opacity=0.7, **bins)
    x = np.linspace(-5, 5, 201)
    add_curve(plot, x, np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), "normal", colour=3)
    return plot


def _design(more: ExtensionRuns) -> go.Figure:
    plot = new_figure(x="base parameter, best known first", y="standard deviation / typical size")
    number = np.arange(1, more.paper.deviations.size + 1)
    for name, plan in (("the paper's motions", more.paper), ("designed", more.designed)):
        label = f"{name}: {plan.usage['time']:.0f} s, {plan.usage['impulse']:.0f} N s"
        add_curve(plot, number, np.sort(plan.deviations), label, mode="lines+markers", size=4)
    return _logarithmic(plot, 1)


def _online(more: ExtensionRuns) -> go.Figure:
    """Error and claimed interval of the mass, logarithmic, before and after every update."""
    times = np.array([state.time for state in more.target])
    error = np.array([abs(state.values[0] - more.target_truth[0]) for state in more.target])
    band = np.array([1.959964 * state.std[0] for state in more.target])
    plot = new_figure(x="time", x_unit="s", y="target mass", y_unit="kg", height=400)
    add_curve(plot, times, band, "95 % interval, half width", colour=0, line={"width": 3})
    add_curve(plot, times, error, "error of the estimate", colour=3)
    return _logarithmic(plot, 1)


def dataset(study: Xu2017Study) -> xarray.Dataset:
    """The curves behind the figures."""
    case, swarm, noise, check, more = study.exact, study.swarms, study.noisy, study.validation, study.beyond
    estimate, found, target = noise.identification.estimate, check.identified, more.target
    return label_dataset(
        {
            "parameter": list(case.base_parameters.names),
            "time": ("time", found.times, "s"),
            "axis": ["x", "y", "z"],
            "joint": list(case.robot.joint_names),
        },
        {
            "truth": ("parameter", case.truth, "SI", "base parameters of the simulated robot"),
            "exact": ("parameter", case.linear.estimate.values, "SI", "identified without noise"),
            "noisy": ("parameter", estimate.values, "SI", "identified with noise"),
            "noisy_std": ("parameter", estimate.std, "SI", "claimed standard deviation"),
            "errors": ("repetition parameter", noise.monte_carlo.errors, "1", "errors in deviations"),
            "swarm_single": ("iteration", swarm.single.history, "1", "best cost, Eq. 37"),
            "base_position": ("time axis", found.base_position, "m", "base position error"),
            "base_attitude": ("time axis", found.base_attitude, "rad", "base attitude error"),
            "joint_angle": ("time joint", found.joints, "rad", "joint angle error"),
            "target_time": ("update", [s.time for s in target], "s", "time of the update"),
            "target": ("update number", [s.values for s in target], "SI", "target parameters"),
            "target_std": ("update number", [s.std for s in target], "SI", "their deviation"),
        },
    )
