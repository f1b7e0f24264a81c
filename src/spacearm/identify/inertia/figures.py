"""Figures of an identification: ranks, and every number with its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, add_curve, new_figure
from spacearm.identify.inertia.identifiability import Identifiability
from spacearm.identify.inertia.identify import Identification
from spacearm.identify.inertia.inertia_parameters import PLAIN
from spacearm.identify.inertia.montecarlo import MonteCarlo
from spacearm.identify.inertia.online import TargetState
from spacearm.identify.inertia.output_error_fit import OutputErrorFit
from spacearm.identify.inertia.standard_parameters import ParameterSource, StandardParameters
from spacearm.measure.channels import CHANNELS
from spacearm.result import Figure, figure_name

if TYPE_CHECKING:
    import plotly.graph_objects as go


#: Points of a curve that are drawn.
DRAWN = 1500


def figures(
    possible: Identifiability,
    found: Identification,
    carlo: MonteCarlo | None,
    followed: Mapping[str, Sequence[TargetState]],
) -> list[Figure]:
    """Measured beside predicted, ranks, origins, deviations, the Monte Carlo's errors, the target over time."""
    ranks = new_figure(x="after experiment", y="number of combinations", height=380)
    names, values = [stage.experiment for stage in possible.stages], [stage.rank for stage in possible.stages]
    ranks.add_bar(x=names, y=values, text=[str(v) for v in values], marker_color=COLOURS[0], name="rank")
    dashed = {"color": COLOURS[3], "dash": "dash"}
    ranks.add_hline(y=possible.base_parameters.rank, line=dashed, annotation_text="all that can be")

    known = found.known
    origin = origins(known, PLAIN, [[known.number(body.name, k).text for k in PLAIN] for body in known.robot.bodies])

    spread = new_figure(x="base parameter, best known first", y="standard deviation / typical size", height=380)
    deviations = np.sort(found.information.std / found.information.sizes)
    finite = deviations[np.isfinite(deviations)]
    add_curve(spread, np.arange(1, finite.size + 1), finite, "deviation", mode="lines+markers")
    spread.update_yaxes(type="log", exponentformat="power", dtick=1)
    made = [
        Figure("ranks", ranks, "Combinations determined after each experiment."),
        Figure("numbers", origin, "Every number: from the data, from the prior, or undetermined (grey)."),
        Figure("deviations", spread, "Deviations of the base parameters, relative to their typical sizes."),
    ]
    if found.output_error is not None:
        made = [*predictions(found.output_error), *made]
    if carlo is not None:
        errors = new_figure(x="error / claimed standard deviation", y="density", height=380)
        errors.add_histogram(x=carlo.errors.ravel(), histnorm="probability density", name="errors")
        x = np.linspace(-5, 5, 201)
        add_curve(errors, x, np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), "normal")
        made.append(Figure("monte-carlo", errors, "Errors of all base parameters over all repetitions."))
    return [*made, *(_target(name, states) for name, states in followed.items())]


def predictions(fit: OutputErrorFit) -> list[Figure]:
    """Of each record every channel as measured and as predicted, and its residuals in standard deviations."""
    made, residuals = [], fit.problem.residuals(fit.x)
    for data, predicted, (name, white) in zip(
        fit.problem.records, fit.problem.predict_channels(fit.x), residuals.items(), strict=True
    ):
        record = data.record
        some = slice(None, None, -(-record.times.size // DRAWN))
        for channel, rows in data.rows.items():
            if channel not in record.readings:
                continue
            unit, axes = CHANNELS[channel].unit, fit.problem.robot.joint_names if channel == "torque" else tuple("xyz")
            letters = tuple("wxyz") if channel == "attitude" else axes
            text = "quaternion" if channel == "attitude" else channel
            both = new_figure(x="time", x_unit="s", y=text, y_unit="" if channel == "attitude" else unit, height=360)
            times = record.times[some]
            dots: dict[str, Any] = {"mode": "markers", "size": 3}
            for k, letter in enumerate(letters):
                add_curve(
                    both,
                    times,
                    record.readings[channel][some, k],
                    letter,
                    colour=k,
                    opacity=0.5,
                    showlegend=False,
                    **dots,
                )
                add_curve(both, times, predicted[channel][some, k], letter, colour=k, line={"width": 1.2})
            left = new_figure(x="time", x_unit="s", y="residual / standard deviation", height=260)
            for k, letter in enumerate(axes):
                own = np.where(data.present[:, rows][:, k], white[f"{channel}.{letter}"], np.nan)[some]
                add_curve(left, times, own, letter, colour=k + (channel == "attitude"), **dots)
            label = figure_name(f"{name}-{channel}".replace(" ", "-"))
            note = f"{name}: {channel} as measured (dots), and as predicted with what was found (lines)."
            rest = f"{name}: what the prediction of {channel} leaves, made white; noise of size one if all is right."
            made += [Figure(f"measured-{label}", both, note), Figure(f"residual-{label}", left, rest)]
    return made


def _target(name: str, states: Sequence[TargetState]) -> Figure:
    """The target's mass while samples arrive."""
    figure = new_figure(x="time", x_unit="s", y="mass of the target", y_unit="kg", height=360)
    times, mass = [s.time for s in states], np.array([s.values[0] for s in states])
    std = np.array([s.std[0] for s in states])
    add_curve(figure, times, mass, "mass", mode="lines+markers")
    for sign, label in ((2.0, "two standard deviations"), (-2.0, "")):
        figure.add_scatter(x=times, y=mass + sign * std, mode="lines", name=label, showlegend=bool(label),
                           line={"color": COLOURS[3], "dash": "dash"})  # fmt: skip
    return Figure(figure_name(f"target-{name}".replace(" ", "-")), figure, f"{name}: the target while samples arrive.")


def origins(known: StandardParameters, symbols: Sequence[str], hover: list[list[str]]) -> go.Figure:
    """A map of every number of every body: undetermined (grey), by the prior or by the data."""
    bodies = [body.name for body in known.robot.bodies]
    sources = [[known.number(body, symbol).source for symbol in PLAIN] for body in bodies]
    code = {ParameterSource.UNDETERMINED: 0.0, ParameterSource.PRIOR: 1.0, ParameterSource.DATA: 2.0}
    colours = [[0.0, "rgba(127,127,127,0.35)"], [0.5, COLOURS[1]], [1.0, COLOURS[0]]]
    text = [["" if source is ParameterSource.UNDETERMINED else source.value for source in row] for row in sources]
    figure = new_figure(height=120 + 36 * len(bodies))
    figure.add_heatmap(
        x=list(symbols), y=bodies, z=[[code[source] for source in row] for row in sources], zmin=0, zmax=2,
        colorscale=colours, showscale=False, xgap=2, ygap=2, text=text, texttemplate="%{text}",
        hovertext=hover, hoverinfo="text",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    return figure
