"""Figures of a fit; Plotly is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from spacearm.figures import COLOURS, new_figure, template
from spacearm.identify.joint.identify import JointFit
from spacearm.identify.joint.response import FrequencyResponse
from spacearm.optimise import Profile

if TYPE_CHECKING:
    import plotly.graph_objects as go

DEGREE = np.pi / 180.0


def fit_figure(fit: JointFit, test: int) -> go.Figure:
    """Deflections of the flexible joints, measured and fitted, and whitened residuals below."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    model = fit.model
    seen, forward = model.tests[test], model.forwards[test]
    values = fit.outputs(test)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.68, 0.32], vertical_spacing=0.06)
    t = forward.times
    for k, f in enumerate(model.setup.flexible):
        deflection = model.deflection(test, f.name)
        if deflection is None:
            continue
        motor = forward.paths[model.robot.joint_names[f.motor]](t)
        fitted = values[f.name] - f.ratio * motor - f.rest
        figure.add_trace(
            go.Scatter(x=t, y=deflection / DEGREE, mode="markers", name=f"{f.name}, measured",
                       marker={"size": 3, "color": COLOURS[7]}), row=1, col=1,
        )  # fmt: skip
        figure.add_trace(
            go.Scatter(x=t, y=fitted / DEGREE, mode="lines", name=f"{f.name}, identified",
                       line={"color": COLOURS[k % 7]}), row=1, col=1,
        )  # fmt: skip
    white = model.white(test, model.raw(fit.estimate.values, test)[0], weighted=False)
    for k, channel in enumerate(seen.measured):
        figure.add_trace(
            go.Scatter(x=t, y=white[:, k], mode="lines", name=f"residual {channel}",
                       line={"width": 1, "color": COLOURS[(k + 3) % 8]}), row=2, col=1,
        )  # fmt: skip
    figure.update_layout(template=template(), height=560)
    figure.update_yaxes(title_text="link minus motor [deg]", row=1, col=1)
    figure.update_yaxes(title_text="residual [sd]" if model.noise_known else "residual [rad]", row=2, col=1)
    figure.update_xaxes(title_text="time [s]", row=2, col=1)
    return figure


def profile_figure(fit: JointFit, profiles: Sequence[Profile]) -> go.Figure:
    """Profiles over deviations in standard deviations."""
    import plotly.graph_objects as go

    figure = new_figure(x="deviation from the estimate", x_unit="standard deviations", y="rise of twice the cost")
    for one in profiles:
        x = (one.values - fit[one.name]) / fit.std(one.name)
        figure.add_trace(go.Scatter(x=x, y=one.rise, mode="lines+markers", name=one.name))
    figure.add_hline(y=3.84, line={"dash": "dot", "color": COLOURS[7]}, annotation_text="95 %")
    return figure


def response_figure(responses: Sequence[FrequencyResponse]) -> go.Figure:
    """Magnitudes with their 95 % bands."""
    import plotly.graph_objects as go

    figure = new_figure(x="frequency", x_unit="rad/s", y="link angle / motor angle")
    for k, one in enumerate(responses):
        colour = COLOURS[k % 7]
        figure.add_trace(
            go.Scatter(x=np.concatenate([one.frequency, one.frequency[::-1]]),
                       y=np.concatenate([one.high, one.low[::-1]]), fill="toself", line={"width": 0, "color": colour},
                       opacity=0.3, name=f"{one.joint}, 95 %")
        )  # fmt: skip
        figure.add_trace(
            go.Scatter(x=one.frequency, y=one.magnitude, mode="lines", name=one.joint, line={"color": colour})
        )
    ticks = [m * 10.0**e for e in range(-4, 4) for m in (1, 2, 5)]
    figure.update_xaxes(type="log", tickvals=ticks)
    figure.update_yaxes(type="log", tickvals=ticks)
    return figure
