"""Figures as the paper's 4 to 8, and those beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, new_figure
from spacearm.papers.wojtunik2023.data import (
    AVERAGE,
    DEGREE,
    DEVIATION,
    NOISE,
    STATED_OFFSETS,
    TABLE2,
    UNITS,
    paths,
    times,
)
from spacearm.papers.wojtunik2023.runs import Campaign, Common, Searches, Setups, Use
from spacearm.result import Figure
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

LABELS = {"motor_inertia": "motor inertia", "stiffness": "stiffness", "damping": "damping"}


def _line(x: Array, y: Array, name: str, colour: int, **options: Any) -> Any:
    import plotly.graph_objects as go

    line = {"color": COLOURS[colour], **options.pop("line", {})}
    return go.Scatter(x=x, y=y, name=name, mode=options.pop("mode", "lines"), line=line, **options)


def angle_figures(campaign: Campaign) -> list[Figure]:
    """The paper's Figures 4 to 8: experiment (twin), rigid reference, identified."""
    t = times()
    rigid = paths()["joint1.motor"](t) / DEGREE
    found = []
    for k, (test, fit) in enumerate(zip(campaign.tests, campaign.fits, strict=True)):
        figure = new_figure(x="time", x_unit="s", y="flexible joint angle", y_unit="deg", height=380)
        figure.add_trace(
            _line(t, test.measured["joint1"] / DEGREE, "twin experiment", 7, mode="markers", marker={"size": 3})
        )
        figure.add_trace(_line(t, rigid, "rigid reference", 1, line={"dash": "dash"}))
        figure.add_trace(_line(t, fit.outputs(0)["joint1"] / DEGREE, "identified", 0))
        found.append(
            Figure(
                f"fig{k + 4:02d}-test{k + 1}",
                figure,
                f"As the paper's Fig. {k + 4}: angle of the flexible joint in test {k + 1}. The experiment is a twin "
                f"with the joint of Table 2 and sensors with noise; start offset {fit['offset'] / DEGREE:.2f} deg.",
            )
        )
    return found


def deflections(campaign: Campaign) -> go.Figure:
    """What Figures 4 to 8 hide under 30 degrees of travel: link minus motor."""
    from plotly.subplots import make_subplots

    from spacearm.figures import template

    figure = make_subplots(rows=5, cols=1, shared_xaxes=True, vertical_spacing=0.03)
    t = times()
    motor = paths()["joint1.motor"](t)
    for k, (test, fit) in enumerate(zip(campaign.tests, campaign.fits, strict=True)):
        seen, model = (test.measured["joint1"] - motor) / DEGREE, (fit.outputs(0)["joint1"] - motor) / DEGREE
        first = k == 0
        figure.add_trace(
            _line(t, seen, "twin experiment", 7, mode="markers", marker={"size": 3}, showlegend=first), row=k + 1, col=1
        )
        figure.add_trace(_line(t, model, "identified", 0, showlegend=first), row=k + 1, col=1)
        figure.update_yaxes(title_text=f"test {k + 1} [deg]", row=k + 1, col=1)
    figure.update_layout(template=template(), height=820)
    figure.update_xaxes(title_text="time [s]", row=5, col=1)
    return figure


def table(campaign: Campaign) -> go.Figure:
    """Table 2: printed values (put into the twins) and what was identified, with 95 % intervals."""
    from plotly.subplots import make_subplots

    from spacearm.figures import template

    names = list(LABELS)
    figure = make_subplots(rows=1, cols=3, horizontal_spacing=0.09)
    x = np.arange(1.0, 6.0)
    for column, name in enumerate(names, 1):
        values = np.array([fit[name] for fit in campaign.fits])
        sd = np.array([fit.std(name) for fit in campaign.fits])
        printed = np.array([row[name] for row in TABLE2])
        first = column == 1
        figure.add_trace(
            _line(x, printed, "Table 2", 1, mode="markers", showlegend=first,
                  marker={"symbol": "circle-open", "size": 12, "line": {"width": 2}}), row=1, col=column,
        )  # fmt: skip
        figure.add_trace(
            _line(x, values, "identified, 95 %", 0, mode="markers", showlegend=first,
                  error_y={"array": 1.96 * sd, "color": COLOURS[0]}), row=1, col=column,
        )  # fmt: skip
        figure.add_hrect(
            y0=AVERAGE[name] - DEVIATION[name], y1=AVERAGE[name] + DEVIATION[name], fillcolor=COLOURS[7], opacity=0.15,
            line_width=0, row=1, col=column,
        )  # fmt: skip
        figure.update_yaxes(title_text=f"{LABELS[name]} [{UNITS[name]}]", row=1, col=column)
        figure.update_xaxes(title_text="test", dtick=1, row=1, col=column)
    figure.update_layout(template=template(), height=400)
    return figure


def offsets(degrees: Array, curve: dict[str, Array]) -> go.Figure:
    figure = new_figure(x="start offset", x_unit="deg", y="standard deviation / value")
    for k, name in enumerate(LABELS):
        figure.add_trace(_line(degrees, curve[f"both.{name}"], f"{LABELS[name]}", k))
        figure.add_trace(
            _line(degrees, curve[f"angle.{name}"], f"{LABELS[name]}, angle only", k, line={"dash": "dash"})
        )
    figure.update_xaxes(range=[-3.2, 3.2], dtick=1)
    figure.update_yaxes(type="log", dtick=1, exponentformat="power")
    for test, at in STATED_OFFSETS.items():
        _mark(figure, at, f"test {test}", at, "right")
    return figure


def _mark(figure: go.Figure, at: float, text: str, place: float, side: str = "left") -> None:
    """A labelled vertical line; Plotly wants the ``place`` of a text on a logarithmic axis in powers of ten."""
    figure.add_vline(x=at, line={"dash": "dot", "color": COLOURS[7]})
    figure.add_annotation(x=place, y=0.98, yref="paper", text=text, showarrow=False, xanchor=side)


def stalls(found: Searches, truth: dict[str, float]) -> go.Figure:
    """Starts and ends of the simplex in the plane of stiffness and damping."""
    figure = new_figure(x="stiffness", x_unit="N m/rad", y="damping", y_unit="N m s/rad", height=460)
    kinds: tuple[tuple[str, Any, int, str], ...] = (
        ("Nelder-Mead", found.stalled, 3, "x"),
        ("stiffness started from the period", found.cured, 2, "circle"),
    )
    for start, end in zip(found.starts, found.stalled, strict=True):
        figure.add_trace(
            _line(np.array([start["stiffness"], end["stiffness"]]), np.array([start["damping"], end["damping"]]), "", 7,
                  showlegend=False, line={"width": 1, "dash": "dot"}, hoverinfo="skip")
        )  # fmt: skip
    figure.add_trace(
        _line(np.array([s["stiffness"] for s in found.starts]), np.array([s["damping"] for s in found.starts]),
              "starts", 7, mode="markers", marker={"symbol": "circle-open", "size": 8})
    )  # fmt: skip
    for name, fits, colour, symbol in kinds:
        figure.add_trace(
            _line(np.array([f["stiffness"] for f in fits]), np.array([f["damping"] for f in fits]), name, colour,
                  mode="markers", marker={"symbol": symbol, "size": 10})
        )  # fmt: skip
    figure.add_trace(
        _line(np.array([truth["stiffness"]]), np.array([truth["damping"]]), "truth", 0, mode="markers",
              marker={"symbol": "star", "size": 13})
    )  # fmt: skip
    return figure


def bias(found: Setups) -> go.Figure:
    """Values relative to the truth for each way to move the model's motor."""
    labels = {
        "torque": "torque known",
        "motor_angle_and_attitude": "motor angle prescribed, with base attitude",
        "motor_angle": "motor angle prescribed, angle only",
        "rigid_torque": "rigid torque (the paper's), angle only",
        "rigid_torque_and_attitude": "rigid torque, with base attitude",
        "rigid_torque_bare": "rigid torque without motor inertia, angle only",
    }
    figure = new_figure(x="identified / true", height=440)
    for k, name in enumerate(LABELS):
        x = np.array([found.fits[key][name] / found.truth[name] for key in labels])
        sd = np.array([found.fits[key].std(name) / found.truth[name] for key in labels])
        text = [f"{label}<br>chi2 {found.fits[key].chi2:.2f}" for key, label in labels.items()]
        figure.add_trace(
            _line(x, np.array(text, dtype=object), LABELS[name], k, mode="markers", marker={"size": 10},
                  error_x={"array": 1.96 * sd, "color": COLOURS[k]})
        )  # fmt: skip
    figure.add_vline(x=1.0, line={"dash": "dot", "color": COLOURS[7]})
    figure.update_yaxes(autorange="reversed")
    return figure


def certainty(found: Common) -> go.Figure:
    """Profile likelihoods of the common fit."""
    figure = new_figure(x="deviation from the estimate", x_unit="standard deviations", y="rise of twice the cost")
    for k, one in enumerate(found.profiles):
        short = one.name.rsplit(".", 1)[1]
        centre, sd = found.fit[one.name], found.fit.std(one.name)
        figure.add_trace(_line((one.values - centre) / sd, one.rise, LABELS[short], k, mode="lines+markers"))
    figure.add_hline(y=3.84, line={"dash": "dot", "color": COLOURS[7]}, annotation_text="95 %")
    return figure


def posterior(found: Common) -> go.Figure:
    """Samples of one test: motor inertia and stiffness, coloured by damping."""
    import plotly.graph_objects as go

    samples = found.posterior.samples[::3]
    figure = new_figure(x="motor inertia", x_unit="kg m2", y="stiffness", y_unit="N m/rad")
    figure.add_trace(
        go.Scatter(
            x=samples[:, 0],
            y=samples[:, 1],
            mode="markers",
            name="samples",
            showlegend=False,
            marker={
                "size": 4,
                "color": samples[:, 2],
                "colorscale": "Cividis",
                "showscale": True,
                "colorbar": {"title": {"text": "damping"}},
            },
        )
    )
    return figure


def response(found: Use) -> go.Figure:
    figure = new_figure(x="frequency", x_unit="rad/s", y="link angle / motor angle")
    one = found.response
    both = np.concatenate([one.frequency, one.frequency[::-1]])
    figure.add_trace(
        _line(both, np.concatenate([one.high, one.low[::-1]]), "95 %", 0, fill="toself", line={"width": 0}, opacity=0.3)
    )
    figure.add_trace(_line(one.frequency, one.magnitude, "identified", 0))
    ticks = [0.2, 0.5, 1, 2, 5, 10, 20]
    figure.update_xaxes(type="log", range=[np.log10(one.frequency[0]), np.log10(one.frequency[-1])], tickvals=ticks)
    figure.update_yaxes(type="log", tickvals=[0.2, 0.5, 1, 2, 5])
    _mark(figure, one.resonance, "undamped resonance", np.log10(one.resonance))
    return figure


def held_out(found: Use) -> go.Figure:
    figure = new_figure(x="time", x_unit="s", y="link minus motor", y_unit="deg")
    model = found.hold_out.fit.model
    t = model.forwards[0].times
    motor = model.forwards[0].paths["joint1.motor"](t)
    figure.add_trace(
        _line(
            t,
            (found.test.measured["joint1"] - motor) / DEGREE,
            "hold-out motion",
            7,
            mode="markers",
            marker={"size": 3},
        )
    )
    figure.add_trace(_line(t, 0.0 * t, "rigid reference", 1, line={"dash": "dash"}))
    predicted = (found.hold_out.fit.outputs(0)["joint1"] - motor) / DEGREE
    figure.add_trace(_line(t, predicted, "predicted by test 2's joint", 0))
    return figure


def dataset(campaign: Campaign, degrees: Array, curve: dict[str, Array]) -> xr.Dataset:
    """Curves of Figures 4 to 8, and the standard deviations over the start offset."""
    import xarray as xr

    t = times()
    seen = np.stack([test.measured["joint1"] for test in campaign.tests])
    model = np.stack([fit.outputs(0)["joint1"] for fit in campaign.fits])
    base = np.stack([test.measured["base_rz"] for test in campaign.tests])
    sd = np.stack([np.sqrt(np.asarray(test.noise)[:, 0, 0]) for test in campaign.tests])
    rigid = paths()["joint1.motor"](t)
    rad = {"units": "rad"}
    return xr.Dataset(
        {
            "joint1_measured": (("test", "time"), seen, {**rad, "long_name": "flexible joint, reconstructed (Eq. 21)"}),
            "joint1_sd": (("test", "time"), sd, {**rad, "long_name": "its standard deviation"}),
            "joint1_identified": (("test", "time"), model, {**rad, "long_name": "flexible joint, identified model"}),
            "joint1_rigid": (("time",), rigid, {**rad, "long_name": "rigid reference"}),
            "base_attitude": (("test", "time"), base, {**rad, "long_name": "base attitude as seen"}),
            **{
                f"relative_sd_{name.replace('.', '_')}": (("start_offset",), values, {"units": "1"})
                for name, values in curve.items()
            },
        },
        coords={
            "time": ("time", t, {"units": "s"}),
            "test": np.arange(1, 6),
            "start_offset": ("start_offset", degrees, {"units": "deg"}),
        },
        attrs={"base_attitude_sd_rad": NOISE.base_attitude},
    )
