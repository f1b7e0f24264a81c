"""What a campaign found: success rates with their intervals, what binds, how quantities spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.campaign.chart import chart
from spacearm.campaign.plan import Plan, wilson
from spacearm.campaign.store import Store
from spacearm.campaign.work import FAILED, SOUND
from spacearm.figures import curve, new_figure
from spacearm.result import Certificate, Check, Figure, Result, Row

LEVELS = (5.0, 50.0, 95.0)
#: Quantities that get a figure of their own.
MOST_FIGURES = 6


def report(store: Store) -> Result:
    """Of all runs that are there."""
    plan, table = store.plan, store.read()
    columns: dict[str, Any] = {name: table[name].to_pylist() for name in table.column_names}
    confidence = 0.95 if plan.file.stop is None else plan.file.stop.confidence
    success = np.array(columns["success"], dtype=bool)
    rows = [Row("runs", len(success), note=f"of at most {plan.total} in {len(plan.cells)} cells")]
    rows += [Row(f"status.{name}", number) for name, number in sorted(Counter(columns["status"]).items())]
    cells = cells_of(plan, columns, confidence)
    rows += _rates(plan, cells, confidence)
    failing = Counter(
        b or s for b, s, good in zip(columns["binding"], columns["status"], success, strict=True) if not good
    )
    rows += [Row(f"binding.{name}", number, note="runs that it ends") for name, number in failing.most_common()]
    rows += _spreads(columns, store.names())
    complete = len(success) == plan.total or plan.file.stop is not None
    failed = sum(status == FAILED for status in columns["status"])
    return Result(
        "campaign",
        rows,
        Certificate(
            {
                "complete": Check.that(complete, f"{len(success)} of {plan.total} runs are there; run it again"),
                "failed_runs": Check(failed / len(success), 0.5, "", "share of runs without a result"),
            }
        ),
        {"campaign": store.manifest["campaign"], "scenario": plan.file.scenario},
        figures=_figures(plan, columns, cells, store.names()),
        title=plan.file.title or f"Campaign of {plan.file.scenario}",
        summary=_summary(plan, columns, cells, confidence),
    )


def _summary(plan: Plan, columns: dict[str, Any], cells: list[Cell], confidence: float) -> str:
    success = np.array(columns["success"], dtype=bool)
    low, high = wilson(int(success.sum()), len(success), confidence)
    rate = f"{100 * success.mean():.1f} % of {len(success)} runs succeed ({100 * low:.1f} to {100 * high:.1f} %)."
    unsound = sum(status != SOUND for status in columns["status"])
    said = [rate, f"{unsound} runs are not sound or failed." if unsound else ""]
    if plan.file.axis:
        go = sum(cell.rate >= plan.file.goal for cell in cells)
        said.append(f"{go} of {len(cells)} cells are a go: at least {100 * plan.file.goal:g} % of their runs succeed.")
    return " ".join(filter(None, said))


@dataclass(frozen=True)
class Cell:
    """What the runs of a cell say.

    Args:
        rate, low, high: share of runs that succeed, and its Wilson interval.
        margin: mean over the runs that have one.
        binding: the limit that ends most of the runs that fail; where none does, the one most often nearest.
    """

    number: int
    labels: Mapping[str, Any]
    runs: int
    rate: float
    low: float
    high: float
    margin: float
    binding: str

    @property
    def where(self) -> str:
        return ", ".join(f"{name} {label}" for name, label in self.labels.items()) or "all runs"


def cells_of(plan: Plan, columns: Mapping[str, Any], confidence: float) -> list[Cell]:
    """Of all cells that have runs."""
    cell, success = np.array(columns["cell"]), np.array(columns["success"], dtype=bool)
    margins = np.array([np.nan if margin is None else margin for margin in columns["margin"]], dtype=float)
    limits = np.array([b or s for b, s in zip(columns["binding"], columns["status"], strict=True)], dtype=object)
    found = []
    for number, labels in enumerate(plan.cells):
        here = cell == number
        if not here.any():
            continue
        good, runs = int(success[here].sum()), int(here.sum())
        finite = margins[here & np.isfinite(margins)]
        # Among the failures where there are any: the limit nearest in successful runs says little then.
        first = Counter(limits[here & ~success] if good < runs else limits[here]).most_common(1)[0][0]
        mean = float(finite.mean()) if finite.size else np.nan
        binding = "" if first == SOUND else first
        found.append(Cell(number, labels, runs, good / runs, *wilson(good, runs, confidence), mean, binding))
    return found


def _rates(plan: Plan, cells: list[Cell], confidence: float) -> list[Row]:
    found = []
    for cell in cells:
        name = f".cell{cell.number}" if len(plan.cells) > 1 else ""
        note = f"{cell.where}; {100 * confidence:g} %: {cell.low:.4f} to {cell.high:.4f}, {cell.runs} runs"
        found.append(Row(f"success{name}", cell.rate, note=note))
        found += [Row(f"interval{name}.{end}", getattr(cell, end)) for end in ("low", "high")]
        if np.isfinite(cell.margin):
            found += [Row(f"margin{name}", cell.margin, note="mean"), Row(f"limit{name}", cell.binding)]
    return found


def _spreads(columns: dict[str, Any], names: dict[str, str]) -> list[Row]:
    found = []
    for name, unit in names.items():
        values = np.array([v for v in columns[name] if v is not None and np.isfinite(v)])
        if values.size and np.ptp(values) > 0.0:
            for level in LEVELS:
                found.append(Row(f"{name}.percentile{level:g}", float(np.percentile(values, level)), unit))
    return found


def _figures(plan: Plan, columns: dict[str, Any], cells: list[Cell], names: dict[str, str]) -> list[Figure]:
    found = []
    if plan.file.axis:
        text = (
            "Colour: share of runs that succeed. In each cell that share, and the limit that ends most of those that "
            f"fail, or the mean margin where none does. The line parts cells with at least {100 * plan.file.goal:g} % "
            "of successes from the others."
        )
        found.append(Figure("map", chart(plan, cells), text))
    bounds = {plan.column(require.row): (require.least, require.most) for require in plan.file.require}
    moving = [name for name in names if len({value for value in columns[name] if value is not None}) > 2]
    for k, name in enumerate([*bounds, *(name for name in moving if name not in bounds)][:MOST_FIGURES]):
        text = "Share of runs below each value." + (" Dashed: what is required." if name in bounds else "")
        plot = _spread(columns, name, names, bounds.get(name, (None, None)))
        found.append(Figure(f"quantity-{k + 1}", plot, text))
    return found


def _spread(
    columns: dict[str, Any], name: str, names: dict[str, str], bounds: tuple[float | None, float | None]
) -> Any:
    figure = new_figure(x=name, x_unit=names.get(name, ""), y="share of runs")
    values = np.sort([v for v in columns[name] if v is not None and np.isfinite(v)])
    curve(figure, values, (np.arange(values.size) + 0.5) / max(values.size, 1), name, colour=0)
    for bound in bounds:
        if bound is not None:
            figure.add_vline(x=bound, line_dash="dash")
    return figure
