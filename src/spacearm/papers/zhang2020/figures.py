"""Figures as the paper's 10 and 12 to 15, and those of the design."""

from __future__ import annotations

import numpy as np

from spacearm.capture import Outcome
from spacearm.capture.figures import (
    Panel,
    base_figure,
    damper_figure,
    deformation_figure,
    front_figure,
    load_figure,
    panels,
)
from spacearm.papers.zhang2020.design import DAMPING_RANGE, OBJECTIVES, SWEEP, Designed
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


def drawn(singles: dict[str, Outcome], six: dict[str, Outcome], designed: Designed) -> list[Figure]:
    """All figures, in the order of the paper."""
    named = {_LEGEND[name]: outcome for name, outcome in six.items()}
    soft = {name: outcome for name, outcome in named.items() if name != "rigid"}
    axes = {k: [f"joint{k}.{axis}" for axis in ("turn_x", "turn_y", "turn_z", "slide_z")] for k in (1, 2)}
    return [
        Figure("fig10", _single(singles), "As Fig. 10: deformations of both joints in the six single hits (turns in "
               "rad, slides in m). Only the allowed axis moves, and to second order the z slide."),
        Figure("fig12", base_figure(named), "As Fig. 12: velocity and angular velocity of the base, world axes, in the "
               "six-dimensional hit."),
        Figure("fig13", load_figure(soft), "As Fig. 13: torques and axial force on the base, where joint 1 is fixed."),
        Figure("fig14", deformation_figure(soft, axes[1]), "As Fig. 14: deformations of joint 1."),
        Figure("fig15", deformation_figure(soft, axes[2]), "As Fig. 15: deformations of joint 2."),
        Figure("dampers", damper_figure(six["damping5"]), "Energy that each damper absorbs, damping 5."),
        Figure("front", _front(designed), f"Trade-off of {designed.front.runs} runs: stiffness 4 to 160 and damping "
               f"{DAMPING_RANGE[0]:g} to {DAMPING_RANGE[1]:g} of every axis, with the paper's dampers as stars."),
        Figure("on-off", _sweep(designed), "Equal dampers at the paper's stiffness, constant and switched between this "
               "damping and zero. On-off lowers the peak moment above about 20, where constant dampers pass on more "
               "than springs, but not below that of constant dampers of about 13; and never the peak base rate."),
    ]  # fmt: skip


def _single(singles: dict[str, Outcome]) -> object:
    parts = []
    for name, title in _TITLES.items():
        outcome = singles[name]
        curves = {}
        for axis in outcome.axes:
            curves[axis] = (outcome.times, outcome.joint(axis))
        parts.append(Panel(title, "deformation [rad or m]", curves))
    dashes = {axis: "dash" for axis in singles["fx"].axes if axis.startswith("joint2")}
    return panels(parts, dashes=dashes)


def _front(designed: Designed) -> object:
    marks = {
        "damping 1": designed.reference["damping1"],
        "damping 5": designed.reference["damping5"],
        "on-off 0..5": designed.reference["balance"],
    }
    finite = {name: values for name, values in marks.items() if np.all(np.isfinite(values))}
    return front_figure({"designs": designed.front}, finite, "settling", "moment", "base_rate")


def _sweep(designed: Designed) -> object:
    labels = ("peak base rate [rad/s]", "peak moment on the base [N m]", "settling time [s]")
    parts = [
        Panel("", label, {name: (SWEEP, np.where(np.isfinite(v[:, k]), v[:, k], np.nan)) for name, v in
                          designed.sweep.items()})
        for k, label in enumerate(labels[: len(OBJECTIVES)])
    ]  # fmt: skip
    figure = panels(parts, columns=3, x="damping [N s/m, N m s/rad]", height=320)
    figure.update_xaxes(type="log", dtick=1)
    return figure
