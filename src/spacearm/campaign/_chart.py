"""Map of a campaign: verdicts of its cells over the axes, with success rates and what fails first."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.campaign.decide import CellVerdict
from spacearm.campaign.plan import CampaignAxisTable, CampaignPlan
from spacearm.figures import panels

if TYPE_CHECKING:
    from spacearm.campaign.report import CellSummary

#: Of each verdict; they differ in lightness too, and black text is read on all.
COLOURS: dict[CellVerdict, str] = {"go": "#86c9a4", "undecided": "#f6e3a1", "no go": "#e08a70"}
#: The same as a scale of steps.
_STEPS = [[(k + end) / len(COLOURS), shade] for k, shade in enumerate(COLOURS.values()) for end in (0, 1)]
#: Letters in a line of a cell.
WIDTH = 13
#: Panels in one row, where the axes do not say how many.
MOST_COLUMNS = 3


def chart(plan: CampaignPlan, cells: Sequence[CellSummary]) -> Any:
    """Verdicts over the first two axes, a panel for each combination of the others: columns the third axis, rows the
    rest."""
    axes = plan.file.axis
    across, up = axes[0], axes[1] if len(axes) > 1 else None
    shape = [len(axis.labels) for axis in axes]
    # NaN stays empty: a cell without runs is neither go nor no go.
    shades, texts = np.full(math.prod(shape), np.nan), np.full(math.prod(shape), "", dtype=object)
    for cell in cells:
        shades[cell.number], texts[cell.number] = list(COLOURS).index(cell.verdict), _text(cell)
    size = (*shape[:2], -1) if up is not None else (shape[0], 1, -1)
    # Cells are numbered with the last axis fastest: a reshape puts them into place.
    shades, texts = shades.reshape(size), texts.reshape(size)
    rest = [*product(*map(_titles, axes[3:]), [""])]
    slices = _titles(axes[2]) if len(axes) > 2 else [""]
    columns = len(slices) if len(axes) > 3 else min(MOST_COLUMNS, len(slices))
    order = [(i, j) for j in range(len(rest)) for i in range(len(slices))]
    titles = [", ".join(filter(None, (*rest[j], slices[i]))) for i, j in order]
    rows = -(-len(titles) // columns)
    high = 62 * (shape[1] if up is not None else 1)
    figure = panels(titles, columns=columns, height=90 + rows * (110 + high), spacing=0.07)
    for k, (i, j) in enumerate(order):
        place: dict[str, Any] = {"row": k // columns + 1, "col": k % columns + 1}
        layer = i * len(rest) + j
        own = shades[:, :, layer].T
        figure.add_heatmap(
            x=list(range(own.shape[1])),
            y=list(range(own.shape[0])),
            z=own.tolist(),
            zmin=0.0,
            zmax=len(COLOURS) - 1.0,
            colorscale=_STEPS,
            text=texts[:, :, layer].T.tolist(),
            texttemplate="%{text}",
            textfont={"size": 11, "color": "black"},
            xgap=1,
            ygap=1,
            showscale=False,
            hoverinfo="skip",
            **place,
        )
    for verdict, colour in COLOURS.items():
        # A heat map has no legend: empty traces make one.
        square = {"symbol": "square", "size": 13, "color": colour}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=square, name=verdict, hoverinfo="skip")
    names = {"tickvals": list(range(shape[0])), "ticktext": [str(label) for label in across.labels]}
    figure.update_xaxes(range=[-0.5, shape[0] - 0.5], showgrid=False, **names)
    figure.update_xaxes(title_text=across.name, row=rows)
    labels = [str(label) for label in up.labels] if up is not None else [""]
    figure.update_yaxes(range=[-0.5, len(labels) - 0.5], tickvals=list(range(len(labels))), showgrid=False)
    figure.update_yaxes(ticktext=[""] * len(labels))
    figure.update_yaxes(ticktext=labels, title_text=up.name if up is not None else "", col=1)
    return figure


def _titles(axis: CampaignAxisTable) -> list[str]:
    """Names of cases and texts speak for themselves."""
    return [label if isinstance(label, str) else f"{axis.name} {label}" for label in axis.labels]


def _text(cell: CellSummary) -> str:
    words = re.sub(r"[._]", " ", cell.binding)  # of a row's name
    below = "<br>".join(wrap(words, WIDTH)) if cell.rate < 1.0 else ""
    if not below and math.isfinite(cell.margin):
        below = f"margin {cell.margin:.2f}"
    # Rounded down: 99.6 % must not read as 100 %.
    return f"<b>{math.floor(100 * cell.rate)} %</b> of {cell.runs}<br>{below}".removesuffix("<br>")
