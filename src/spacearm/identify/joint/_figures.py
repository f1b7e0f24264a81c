"""Figures of a fit; Plotly is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, add_curve, new_figure, template
from spacearm.identify.joint.joint_fit import JointFit
from spacearm.identify.joint.prediction import FrequencyResponse
from spacearm.optimise.posterior import Profile

if TYPE_CHECKING:
    import plotly.graph_objects as go

DEGREE = np.pi / 180.0


def fit_figure(fit: JointFit, test: int) -> go.Figure:
    """Deflections of the flexible joints, measured and fitted, and whitened residuals below."""
    from plotly.subplots import make_subplots

    model = fit.model
    seen, forward = model.tests[test], model.forwards[test]
    values = fit.outputs(test)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.68, 0.32], vertical_spacing=0.06)
    figure.update_layout(template=template(), height=560)
    above, below = {"row": 1, "col": 1}, {"row": 2, "col": 1}
    t, channels = forward.times, list(seen.measured)
    for k, f in enumerate(model.setup.flexible):
        # Deflections rather than angles: the motion of the arm is far larger than what the spring does.
        deflection = model.deflection(test, f.name)
        if deflection is None:
            continue
        motor = forward.paths[model.robot.joint_names[f.motor]](t)
        fitted = values[f.name] - f.ratio * motor - f.rest
        dots: dict[str, Any] = {"mode": "markers", "marker": {"size": 3}}
        add_curve(figure, t, deflection / DEGREE, f"{f.name}, measured", colour=7, **dots, **above)
        colour = channels.index(f.name) if f.name in channels else k
        add_curve(figure, t, fitted / DEGREE, f"{f.name}, identified", colour=colour % 7, **above)
    white = np.where(seen.present, model.compute_residuals(fit.estimate.values)[test], np.nan)
    for k, channel in enumerate(channels):
        add_curve(figure, t, white[:, k], f"residual {channel}", colour=k % 7, line={"width": 1}, **below)
    figure.update_yaxes(title_text="link minus motor [deg]", **above)
    figure.update_yaxes(title_text="residual / sd" if model.noise_known else "residual [rad]", **below)
    figure.update_xaxes(title_text="time [s]", **below)
    return figure


def channel_figure(fit: JointFit, test: int) -> go.Figure:
    """Every channel that the model was compared with, as measured and as predicted, and the difference."""
    from plotly.subplots import make_subplots

    model, seen = fit.model, fit.model.tests[test]
    left = np.where(seen.present, model.compute_misfit(fit.estimate.values, test), np.nan)
    t, many = model.forwards[test].times, len(seen.measured)
    figure = make_subplots(rows=many, cols=2, shared_xaxes=True, vertical_spacing=0.08, horizontal_spacing=0.14)
    figure.update_layout(template=template(), height=160 + 220 * many)
    for k, (channel, rows) in enumerate(seen.measured.items()):
        unit, scale = ("N m", 1.0) if channel.endswith(".torque") else ("deg", 1.0 / DEGREE)
        unit, scale = ("mm", 1e3) if channel.endswith(("_x", "_y", "_z")) else (unit, scale)
        place: dict[str, Any] = {"row": k + 1, "col": 1}
        dots: dict[str, Any] = {"mode": "markers", "marker": {"size": 3}}
        once: dict[str, Any] = {"legendgroup": "measured", "showlegend": k == 0}
        add_curve(figure, t, scale * rows, "measured", colour=7, **once, **dots, **place)
        # Measurement plus misfit is the prediction with the inputs' known deviations, not the nominal run alone.
        add_curve(figure, t, scale * (rows + left[:, k]), f"{channel}, predicted", colour=k % 7, **place)
        figure.update_yaxes(title_text=f"{channel} [{unit}]", **place)
        beside: dict[str, Any] = {"row": k + 1, "col": 2}
        add_curve(figure, t, -scale * left[:, k], "difference", colour=k % 7, showlegend=False, **dots, **beside)
        figure.update_yaxes(title_text=f"difference [{unit}]", **beside)
    figure.update_xaxes(title_text="time [s]", row=many)
    return figure


def profile_figure(fit: JointFit, profiles: Sequence[Profile]) -> go.Figure:
    """Profiles over deviations in standard deviations."""
    figure = new_figure(x="deviation / standard deviation", y="rise of twice the cost")
    for one in profiles:
        add_curve(figure, (one.values - fit[one.name]) / fit.std(one.name), one.rise, one.name, mode="lines+markers")
    # 95 % quantile of chi-square with one degree of freedom: where the curve crosses it lies the interval.
    figure.add_hline(y=3.84, line={"dash": "dot", "color": COLOURS[7]}, annotation_text="95 %")
    return figure


def response_figure(responses: Sequence[FrequencyResponse]) -> go.Figure:
    """Magnitudes with their 95 % bands."""
    figure = new_figure(x="frequency", x_unit="rad/s", y="link angle / motor angle")
    for k, one in enumerate(responses):
        around = np.concatenate([one.frequency, one.frequency[::-1]])
        band: dict[str, Any] = {"fill": "toself", "line": {"width": 0}, "opacity": 0.3}
        add_curve(figure, around, np.concatenate([one.high, one.low[::-1]]), f"{one.joint}, 95 %", colour=k % 7, **band)
        add_curve(figure, one.frequency, one.magnitude, one.joint, colour=k % 7)
    ticks = [m * 10.0**e for e in range(-4, 4) for m in (1, 2, 5)]
    figure.update_xaxes(type="log", tickvals=ticks)
    figure.update_yaxes(type="log", tickvals=ticks)
    return figure
