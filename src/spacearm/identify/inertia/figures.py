"""Figures of an identification: ranks, and every number with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from spacearm.figures import COLOURS, curve, new_figure
from spacearm.identify.inertia.identifiability import Identifiability
from spacearm.identify.inertia.identify import Identification
from spacearm.identify.inertia.inertia_parameters import PLAIN
from spacearm.identify.inertia.montecarlo import MonteCarlo
from spacearm.identify.inertia.standard_parameters import Source, StandardParameters
from spacearm.result import Figure

if TYPE_CHECKING:
    import plotly.graph_objects as go


def figures(possible: Identifiability, found: Identification, carlo: MonteCarlo | None) -> list[Figure]:
    """Ranks, origins, deviations, and the Monte Carlo's errors when there are any."""
    ranks = new_figure(x="after experiment", y="determined combinations", height=380)
    names, values = [stage.experiment for stage in possible.stages], [stage.rank for stage in possible.stages]
    ranks.add_bar(x=names, y=values, text=[str(v) for v in values], marker_color=COLOURS[0], name="rank")
    dashed = {"color": COLOURS[3], "dash": "dash"}
    ranks.add_hline(y=possible.base_parameters.rank, line=dashed, annotation_text="all that can be")

    known = found.known
    origin = origins(known, PLAIN, [[known.number(body.name, k).text for k in PLAIN] for body in known.robot.bodies])

    spread = new_figure(x="base parameter, best known first", y="standard deviation / typical size", height=380)
    deviations = np.sort(found.information.std / found.information.sizes)
    finite = deviations[np.isfinite(deviations)]
    curve(spread, np.arange(1, finite.size + 1), finite, "deviation", mode="lines+markers")
    spread.update_yaxes(type="log", exponentformat="power")
    made = [
        Figure("ranks", ranks, "Combinations determined after each experiment."),
        Figure("numbers", origin, "Every number: from the data, from the prior, or undetermined (grey)."),
        Figure("deviations", spread, "Deviations of the base parameters, relative to their typical sizes."),
    ]
    if carlo is not None:
        errors = new_figure(x="error in claimed standard deviations", y="density", height=380)
        errors.add_histogram(x=carlo.errors.ravel(), histnorm="probability density", name="errors")
        x = np.linspace(-5, 5, 201)
        curve(errors, x, np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), "normal")
        made.append(Figure("monte-carlo", errors, "Errors of all base parameters over all repetitions."))
    return made


def origins(known: StandardParameters, symbols: Sequence[str], hover: list[list[str]]) -> go.Figure:
    """A map of every number of every body: undetermined (grey), by the prior or by the data."""
    bodies = [body.name for body in known.robot.bodies]
    sources = [[known.number(body, symbol).source for symbol in PLAIN] for body in bodies]
    code = {Source.UNDETERMINED: 0.0, Source.PRIOR: 1.0, Source.DATA: 2.0}
    colours = [[0.0, "rgba(127,127,127,0.35)"], [0.5, COLOURS[1]], [1.0, COLOURS[0]]]
    text = [["" if source is Source.UNDETERMINED else source.value for source in row] for row in sources]
    figure = new_figure(height=120 + 36 * len(bodies))
    figure.add_heatmap(
        x=list(symbols), y=bodies, z=[[code[source] for source in row] for row in sources], zmin=0, zmax=2,
        colorscale=colours, showscale=False, xgap=2, ygap=2, text=text, texttemplate="%{text}",
        hovertext=hover, hoverinfo="text",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    return figure
