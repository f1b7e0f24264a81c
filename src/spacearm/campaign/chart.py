"""The picture of a map: where it works, where not, and what breaks first."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.campaign.plan import AxisTable, Plan
from spacearm.figures import curve, panels
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.campaign.report import Cell

#: From no success to success only.
COLOURS = [[0.0, "#dd7f75"], [0.5, "#f7e7a6"], [1.0, "#86c98a"]]
#: Letters in a line of a cell.
WIDTH = 13
#: Panels in one row, where the axes do not say how many.
MOST_COLUMNS = 3


def chart(plan: Plan, cells: Sequence[Cell]) -> Any:
    """Success over the first two axes, a panel for each combination of the others: columns the third axis, rows the
    rest. Lines part what reaches the goal from what does not."""
    axes = plan.file.axis
    across, up = axes[0], axes[1] if len(axes) > 1 else None
    shape = [len(axis.labels) for axis in axes]
    rates, texts = np.full(math.prod(shape), np.nan), np.full(math.prod(shape), "", dtype=object)
    for cell in cells:
        rates[cell.number], texts[cell.number] = cell.rate, _text(cell)
    size = (*shape[:2], -1) if up is not None else (shape[0], 1, -1)
    rates, texts = rates.reshape(size), texts.reshape(size)
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
        own = rates[:, :, layer].T
        figure.add_heatmap(
            x=list(range(own.shape[1])),
            y=list(range(own.shape[0])),
            z=own.tolist(),
            zmin=0.0,
            zmax=1.0,
            colorscale=COLOURS,
            text=texts[:, :, layer].T.tolist(),
            texttemplate="%{text}",
            textfont={"size": 11, "color": "black"},
            xgap=1,
            ygap=1,
            showscale=False,
            **place,
        )
        x, y = _border(own, plan.file.goal)
        curve(figure, x, y, line={"color": "black", "width": 4}, showlegend=False, hoverinfo="skip", **place)
    names = {"tickvals": list(range(shape[0])), "ticktext": [str(label) for label in across.labels]}
    figure.update_xaxes(range=[-0.5, shape[0] - 0.5], showgrid=False, **names)
    figure.update_xaxes(title_text=across.name, row=rows)
    labels = [str(label) for label in up.labels] if up is not None else [""]
    figure.update_yaxes(range=[-0.5, len(labels) - 0.5], tickvals=list(range(len(labels))), showgrid=False)
    figure.update_yaxes(ticktext=[""] * len(labels))
    figure.update_yaxes(ticktext=labels, title_text=up.name if up is not None else "", col=1)
    return figure


def _titles(axis: AxisTable) -> list[str]:
    """Names of cases and texts speak for themselves."""
    return [label if isinstance(label, str) else f"{axis.name} {label}" for label in axis.labels]


def _text(cell: Cell) -> str:
    words = re.sub(r"[._]", " ", cell.binding)  # of a row's name
    below = "<br>".join(wrap(words, WIDTH)) if cell.rate < 1.0 else ""
    if not below and math.isfinite(cell.margin):
        below = f"margin {cell.margin:.2f}"
    return f"<b>{100 * cell.rate:.0f} %</b><br>{below}".removesuffix("<br>")


def _border(rates: Array, goal: float) -> tuple[list[float | None], list[float | None]]:
    """Edges between cells (rows, columns) that reach the goal and neighbours that do not."""
    x: list[float | None] = []
    y: list[float | None] = []
    # Cells without runs are NaN, and NaN >= goal is false: they count as not reaching it.
    go = rates >= goal
    for row, column in np.argwhere(go[:, 1:] != go[:, :-1]):
        x += [column + 0.5, column + 0.5, None]
        y += [row - 0.5, row + 0.5, None]
    for row, column in np.argwhere(go[1:] != go[:-1]):
        x += [column - 0.5, column + 0.5, None]
        y += [row + 0.5, row + 0.5, None]
    return x, y
