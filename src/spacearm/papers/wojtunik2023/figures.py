"""Figures as the paper's 4 to 8, and those beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, add_curve, new_figure, panels, share_y_range, template
from spacearm.papers.agreement import figure, read_paper_file
from spacearm.papers.wojtunik2023.data import (
    AVERAGE,
    DEGREE,
    DEVIATION,
    NAME,
    NOISE,
    STATED_OFFSETS,
    TABLE2,
    UNITS,
    paths,
    times,
)
from spacearm.papers.wojtunik2023.runs import (
    CommonFit,
    DriveSetups,
    JointPredictions,
    ReferenceTests,
    SimplexSearches,
    Wojtunik2023Study,
)
from spacearm.result import Figure
from spacearm.simulate.run.dataset import label_dataset

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray as xr

LABELS = {"motor_inertia": "motor inertia", "stiffness": "stiffness", "damping": "damping"}
#: Colours by what is shown, the same in all figures.
COLOUR = {
    "identified": 0, "rigid": 1, "motor_inertia": 2, "stiffness": 3, "damping": 4, "simplex": 5, "table": 6, "seen": 7,
}  # fmt: skip
RIGID: dict[str, Any] = {"colour": COLOUR["rigid"], "dash": "dash"}
#: Measured points, and a thin line that marks a place.
POINTS: dict[str, Any] = {"mode": "markers", "size": 3}
DOTTED = {"dash": "dot", "color": COLOURS[7]}


def build_figures(study: Wojtunik2023Study) -> list[Figure]:
    """All figures: what carries the message first."""
    plots = {
        "bias": bias(study.setups),
        "deflections": deflections(study.campaign),
        "table2": table(study.campaign),
        "fig04-08": positions(study.campaign),
        "offsets": offsets(study),
        "stalls": stalls(study.searches, TABLE2[4]),
        "profiles": certainty(study.common),
        "posterior": posterior(study.common),
        "response": response(study.use),
        "hold-out": hold_out_figure(study.use),
    }
    return [figure(NAME, name, plot) for name, plot in plots.items()]


def deflections(campaign: ReferenceTests) -> go.Figure:
    """The paper's Figures 4 to 8 without their 30 degrees of travel: link minus motor, on one scale."""
    from plotly.subplots import make_subplots

    plot = make_subplots(rows=5, cols=1, shared_xaxes=True, vertical_spacing=0.03)
    t = times()
    motor = paths()["joint1.motor"](t)
    for k, (test, fit) in enumerate(zip(campaign.tests, campaign.fits, strict=True), 1):
        seen, model = (test.measured["joint1"] - motor) / DEGREE, (fit.outputs(0)["joint1"] - motor) / DEGREE
        at: dict[str, Any] = {"showlegend": k == 1, "row": k, "col": 1}
        add_curve(plot, t, seen, "simulated test", colour=COLOUR["seen"], **POINTS, **at)
        add_curve(plot, t, 0.0 * t, "rigid reference", **RIGID, **at)
        add_curve(plot, t, model, "identified", colour=COLOUR["identified"], **at)
        plot.update_yaxes(title_text=f"test {k} [deg]", row=k, col=1)
    plot.update_layout(template=template(), height=820)
    plot.update_xaxes(title_text="time [s]", row=5, col=1)
    share_y_range(plot, [(k, 1) for k in range(1, 6)])
    return plot


def positions(campaign: ReferenceTests) -> go.Figure:
    """The flexible joint's angle as in Figures 4 to 8: experiment, rigid reference, identified model."""
    plot = panels([f"Fig. {k + 3}: test {k}" for k in range(1, 6)], columns=3, height=620, spacing=0.07)
    t = times()
    for k, (test, fit) in enumerate(zip(campaign.tests, campaign.fits, strict=True)):
        at: dict[str, Any] = {"showlegend": k == 0, "row": k // 3 + 1, "col": k % 3 + 1}
        add_curve(plot, t, test.measured["joint1"] / DEGREE, "simulated test", colour=COLOUR["seen"], **POINTS, **at)
        add_curve(plot, t, paths()["joint1.motor"](t) / DEGREE, "rigid reference", **RIGID, **at)
        add_curve(plot, t, fit.outputs(0)["joint1"] / DEGREE, "identified", colour=COLOUR["identified"], **at)
    share_y_range(plot, [(k // 3 + 1, k % 3 + 1) for k in range(5)])
    plot.update_xaxes(title_text="time [s]")
    plot.update_yaxes(title_text="flexible joint [deg]", col=1)
    return plot


def table(campaign: ReferenceTests) -> go.Figure:
    """Table 2: printed values (put into the simulations) and what was identified, with 95 % intervals."""
    from plotly.subplots import make_subplots

    plot = make_subplots(rows=1, cols=3, horizontal_spacing=0.12)
    x = np.arange(1.0, 6.0)
    for column, (name, text) in enumerate(LABELS.items(), 1):
        at: dict[str, Any] = {"row": 1, "col": column}
        legend: dict[str, Any] = {"mode": "markers", "showlegend": column == 1}
        values = np.array([fit[name] for fit in campaign.fits])
        bars = {"array": [1.96 * fit.std(name) for fit in campaign.fits], "color": COLOURS[0]}
        note = [row[name] for row in TABLE2]
        ring: dict[str, Any] = {"symbol": "circle-open", "size": 12, "marker_line_width": 2}
        add_curve(plot, x, note, "Table 2", colour=COLOUR["table"], **ring, **legend, **at)
        add_curve(plot, x, values, "identified, 95 %", colour=0, error_y=bars, **legend, **at)
        low, high = AVERAGE[name] - DEVIATION[name], AVERAGE[name] + DEVIATION[name]
        plot.add_hrect(y0=low, y1=high, fillcolor=COLOURS[7], opacity=0.15, line_width=0, **at)
        plot.update_yaxes(title_text=f"{text} [{UNITS[name]}]", **at)
        plot.update_xaxes(title_text="test", dtick=1, **at)
    plot.update_layout(template=template(), height=400)
    return plot


def offsets(study: Wojtunik2023Study) -> go.Figure:
    plot = new_figure(x="start offset", x_unit="deg", y="standard deviation / value")
    for name, text in LABELS.items():
        k = COLOUR[name]
        add_curve(plot, study.offsets, study.curve[f"both.{name}"], text, colour=k)
        add_curve(plot, study.offsets, study.curve[f"angle.{name}"], f"{text}, angle only", colour=k, dash="dash")
    plot.update_xaxes(range=[-3.2, 3.2], dtick=1)
    plot.update_yaxes(type="log", dtick=1, exponentformat="power")
    for test, at in STATED_OFFSETS.items():
        _mark(plot, at, f"test {test}", at, "right")
    return plot


def _mark(plot: go.Figure, at: float, text: str, place: float, side: str = "left") -> None:
    """A labelled vertical line; Plotly wants the ``place`` of a text on a logarithmic axis in powers of ten."""
    plot.add_vline(x=at, line=DOTTED)
    plot.add_annotation(x=place, y=0.98, yref="paper", text=text, showarrow=False, xanchor=side)


def stalls(found: SimplexSearches, truth: dict[str, float]) -> go.Figure:
    """Starts and ends of the simplex in the plane of stiffness and damping."""
    plot = new_figure(x="stiffness", x_unit="N m/rad", y="damping", y_unit="N m s/rad", height=460)

    def add(points: Any, name: str, colour: int, **options: Any) -> None:
        x, y = ([point[key] for point in points] for key in ("stiffness", "damping"))
        add_curve(plot, x, y, name, colour=colour, **options)

    for both in zip(found.starts, found.stalled, strict=True):
        add(both, "", 7, dash="dot", line={"width": 1}, showlegend=False, hoverinfo="skip")
    add(found.starts, "starts", 7, mode="markers", symbol="circle-open", size=8)
    add(found.stalled, "Nelder-Mead", COLOUR["simplex"], mode="markers", symbol="x", size=10)
    cured = {"mode": "markers", "symbol": "circle", "size": 10}
    add(found.cured, "stiffness started from the period", COLOUR["identified"], **cured)
    add([truth], "truth (Table 2)", COLOUR["table"], mode="markers", symbol="star", size=13)
    return plot


def bias(found: DriveSetups) -> go.Figure:
    """Values relative to the truth for each way to move the model's motor."""
    fits = {text: found.fits[key] for key, text in read_paper_file(NAME, "page")["setups"].items()}
    labels = [f"{text}<br>χ² {fit.chi2:.2f}" for text, fit in fits.items()]
    plot = new_figure(x="identified / true", height=440)
    for name, text in LABELS.items():
        k = COLOUR[name]
        x = [fit[name] / found.truth[name] for fit in fits.values()]
        bars = {"array": [1.96 * fit.std(name) / found.truth[name] for fit in fits.values()], "color": COLOURS[k]}
        add_curve(plot, x, labels, text, colour=k, mode="markers", size=10, error_x=bars)
    plot.add_vline(x=1.0, line=DOTTED)
    plot.update_yaxes(autorange="reversed")
    return plot


def certainty(found: CommonFit) -> go.Figure:
    """Profile likelihoods of the common fit."""
    plot = new_figure(x="deviation from the estimate", x_unit="%", y="rise of twice the cost")
    for one in found.profiles:
        x, name = 100.0 * (one.values / found.fit[one.name] - 1.0), one.name.rsplit(".", 1)[1]
        add_curve(plot, x, one.rise, LABELS[name], colour=COLOUR[name], mode="lines+markers")
    # The 95 % quantile of chi square with one degree of freedom (Wilks): where a profile crosses it, its interval ends.
    plot.add_hline(y=3.84, line=DOTTED, annotation_text="95 %")
    return plot


def posterior(found: CommonFit) -> go.Figure:
    """Samples of one test: motor inertia and stiffness, coloured by damping."""
    # Every third: neighbours of the chain are correlated, and the figure stays small.
    samples = found.posterior.samples[::3]
    plot = new_figure(x="motor inertia", x_unit="kg m2", y="stiffness", y_unit="N m/rad")
    colours = {"color": samples[:, 2], "colorscale": "Cividis", "showscale": True}
    bar = {"title": {"text": "damping [N m s/rad]"}}
    marker = {"size": 4, "colorbar": bar, **colours}
    plot.add_scatter(x=samples[:, 0], y=samples[:, 1], mode="markers", showlegend=False, marker=marker)
    return plot


def response(found: JointPredictions) -> go.Figure:
    one = found.response
    plot = new_figure(x="frequency", x_unit="rad/s", y="link angle / motor angle")
    # There and back: Plotly fills the closed outline.
    around, band = (np.concatenate([a, b[::-1]]) for a, b in ((one.frequency, one.frequency), (one.high, one.low)))
    add_curve(plot, around, band, "95 %", colour=0, line={"width": 0}, fill="toself", opacity=0.3)
    add_curve(plot, one.frequency, one.magnitude, "identified", colour=0)
    ticks = [0.2, 0.5, 1, 2, 5, 10, 20]
    plot.update_xaxes(type="log", range=[np.log10(one.frequency[0]), np.log10(one.frequency[-1])], tickvals=ticks)
    plot.update_yaxes(type="log", tickvals=[0.2, 0.5, 1, 2, 5])
    _mark(plot, one.resonance, "undamped resonance", np.log10(one.resonance))
    return plot


def hold_out_figure(found: JointPredictions) -> go.Figure:
    plot = new_figure(x="time", x_unit="s", y="link minus motor", y_unit="deg")
    model = found.hold_out.fit.model
    t = model.forwards[0].times
    motor = model.forwards[0].paths["joint1.motor"](t)
    add_curve(plot, t, (found.test.measured["joint1"] - motor) / DEGREE, "hold-out motion", colour=7, **POINTS)
    add_curve(plot, t, 0.0 * t, "rigid reference", **RIGID)
    predicted = (found.hold_out.fit.outputs(0)["joint1"] - motor) / DEGREE
    add_curve(plot, t, predicted, "predicted by test 2's joint", colour=0)
    return plot


def dataset(study: Wojtunik2023Study) -> xr.Dataset:
    """Curves of Figures 4 to 8, and the standard deviations over the start offset."""
    tests, fits, t = study.campaign.tests, study.campaign.fits, times()
    seen = [test.measured["joint1"] for test in tests]
    sd = [np.sqrt(np.asarray(test.noise)[:, 0, 0]) for test in tests]
    model = [fit.outputs(0)["joint1"] for fit in fits]
    spread = {f"relative_sd_{name.replace('.', '_')}": values for name, values in study.curve.items()}
    return label_dataset(
        {
            "time": ("time", t, "s"),
            "test": np.arange(1, 6),
            "start_offset": ("start_offset", study.offsets, "deg"),
        },
        {
            "joint1_measured": ("test time", seen, "rad", "flexible joint, reconstructed (Eq. 21)"),
            "joint1_sd": ("test time", sd, "rad", "its standard deviation"),
            "joint1_identified": ("test time", model, "rad", "flexible joint, identified model"),
            "joint1_rigid": ("time", paths()["joint1.motor"](t), "rad", "rigid reference"),
            "base_attitude": (
                "test time",
                [test.measured["attitude.z"] for test in tests],
                "rad",
                "base attitude as seen",
            ),
            **{name: ("start_offset", values, "1") for name, values in spread.items()},
        },
        base_attitude_sd_rad=NOISE["base_attitude"],
    )
