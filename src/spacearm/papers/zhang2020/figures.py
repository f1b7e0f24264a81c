"""Figures as the paper's 10 and 12 to 15, and those of the design."""

from __future__ import annotations

import numpy as np

from spacearm.capture import CaptureRun
from spacearm.capture.figures import (
    Panel,
    base_figure,
    damper_figure,
    deformation_figure,
    front_figure,
    load_figure,
    panels,
)
from spacearm.papers.agreement import figure
from spacearm.papers.zhang2020.data import NAME
from spacearm.papers.zhang2020.runs import DAMPING_RANGE, SWEEP, DesignRuns
from spacearm.result import Figure

_TITLES = {
    "fx": "(a) X-line hit", "mx": "(b) X-angle hit", "fy": "(c) Y-line hit",
    "my": "(d) Y-angle hit", "fz": "(e) Z-line hit", "mz": "(f) Z-angle hit",
}  # fmt: skip
_LEGEND = {
    "rigid": "rigid",
    "undamped": "spring without damping",
    "damping1": "damping 1",
    "damping5": "damping 5",
}


#: Colours by case and by axis, the same in all figures; joint 2 is dashed.
CASES = {name: number for number, name in enumerate(_LEGEND.values())}
AXES = ("rotation_x", "rotation_y", "rotation_z", "slide_z")
OF_AXES = {f"joint{k}.{axis}": 4 + number for number, axis in enumerate(AXES) for k in (1, 2)}
LAW_COLOURS = {"constant": 7, "on-off, balance": 5, "on-off, skyhook": 6}
DASHES = {f"joint2.{axis}": "dash" for axis in AXES}


def build_figures(singles: dict[str, CaptureRun], six: dict[str, CaptureRun], designed: DesignRuns) -> list[Figure]:
    """All figures: what carries the message first."""
    named = {_LEGEND[name]: outcome for name, outcome in six.items()}
    soft = {name: outcome for name, outcome in named.items() if name != "rigid"}
    axes = {k: [f"joint{k}.{axis}" for axis in AXES] for k in (1, 2)}
    plots = {
        "fig12": base_figure(named, CASES),
        "fig13": load_figure(soft, colours=CASES),
        "front": _front(designed),
        "fig10": _single(singles),
        "fig14": deformation_figure(soft, axes[1], CASES),
        "fig15": deformation_figure(soft, axes[2], CASES),
        "dampers": damper_figure(six["damping5"], OF_AXES, DASHES),
        "on-off": _sweep(designed),
    }
    facts = {"runs": designed.front.runs, "damping": DAMPING_RANGE}
    return [figure(NAME, name, plot, **facts) for name, plot in plots.items()]


def _single(singles: dict[str, CaptureRun]) -> object:
    parts = []
    for name, title in _TITLES.items():
        run = singles[name]
        for unit, what in (("rad", "turns"), ("m", "slides")):
            axes = [axis for axis in run.axes if run.robot.joint(axis).unit == unit]
            curves = {axis: (run.times, run.joint(axis)) for axis in axes}
            parts.append(Panel(f"{title}: {what}", f"deformation [{unit}]", curves))
    return panels(parts, dashes=DASHES, colours=OF_AXES)


def _front(designed: DesignRuns) -> object:
    marks = {
        "damping 1": designed.reference["damping1"],
        "damping 5": designed.reference["damping5"],
        "on-off 0..5": designed.reference["balance"],
    }
    finite = {name: values for name, values in marks.items() if np.all(np.isfinite(values))}
    return front_figure({"designs": designed.front}, finite, "settling", "moment", "base_rate", CASES)


def _sweep(designed: DesignRuns) -> object:
    labels = ("peak base rate [rad/s]", "peak moment on the base [N m]", "settling time [s]")
    swept = {name: np.where(np.isfinite(values), values, np.nan) for name, values in designed.sweep.items()}
    parts = [
        Panel("", label, {name: (SWEEP, values[:, k]) for name, values in swept.items()})
        for k, label in enumerate(labels)
    ]
    plot = panels(parts, columns=3, x="damping [N m s/rad]", height=320, colours=LAW_COLOURS)
    plot.update_xaxes(type="log", dtick=1)
    return plot
