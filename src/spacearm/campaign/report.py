"""What a campaign found: success rates with their intervals, what binds, how quantities spread."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from spacearm.campaign.plan import Plan, wilson
from spacearm.campaign.store import Store
from spacearm.campaign.work import FAILED, SOUND
from spacearm.figures import curve, new_figure
from spacearm.result import Certificate, Check, Figure, Result, Row
from spacearm.typing import Array

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
    rows += _rates(plan, columns, success, confidence)
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
        figures=_figures(plan, columns, success, store.names()),
        title=plan.file.title or f"Campaign of {plan.file.scenario}",
        summary=_summary(plan, columns, success, confidence),
    )


def _summary(plan: Plan, columns: dict[str, Any], success: Array, confidence: float) -> str:
    low, high = wilson(int(success.sum()), len(success), confidence)
    rate = f"{100 * success.mean():.1f} % of {len(success)} runs succeed ({100 * low:.1f} to {100 * high:.1f} %)."
    unsound = sum(status != SOUND for status in columns["status"])
    return f"{rate} {unsound} runs are not sound or failed." if unsound else rate


def _rates(plan: Plan, columns: dict[str, Any], success: Array, confidence: float) -> list[Row]:
    cell, found = np.array(columns["cell"]), []
    margins = np.array([np.nan if margin is None else margin for margin in columns["margin"]], dtype=float)
    for number, labels in enumerate(plan.cells):
        here = cell == number
        if not here.any():
            continue
        low, high = wilson(int(success[here].sum()), int(here.sum()), confidence)
        where = ", ".join(f"{name} {label}" for name, label in labels.items()) or "all runs"
        note = f"{where}; {100 * confidence:g} %: {low:.4f} to {high:.4f}, {int(here.sum())} runs"
        finite = margins[here][np.isfinite(margins[here])]
        if finite.size:
            note += f"; mean margin {finite.mean():.3g}"
        name = f"success.cell{number}" if len(plan.cells) > 1 else "success"
        found.append(Row(name, float(success[here].mean()), note=note))
    return found


def _spreads(columns: dict[str, Any], names: dict[str, str]) -> list[Row]:
    found = []
    for name, unit in names.items():
        values = np.array([v for v in columns[name] if v is not None and np.isfinite(v)])
        if values.size and np.ptp(values) > 0.0:
            for level in LEVELS:
                found.append(Row(f"{name}.percentile{level:g}", float(np.percentile(values, level)), unit))
    return found


def _figures(plan: Plan, columns: dict[str, Any], success: Array, names: dict[str, str]) -> list[Figure]:
    axes = plan.file.axis
    found = []
    if axes:
        found.append(Figure("map", _map(plan, columns, success), "Share of runs that succeed in each cell."))
    bounds = {require.row: (require.least, require.most) for require in plan.file.require}
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


def _map(plan: Plan, columns: dict[str, Any], success: Array) -> Any:
    """Success over the first two axes, a panel for each combination of the others."""
    from spacearm.figures import panels

    axes, cell = plan.file.axis, np.array(columns["cell"])
    rates = np.array([success[cell == k].mean() if np.any(cell == k) else np.nan for k in range(len(plan.cells))])
    grid = rates.reshape([len(axis.labels) for axis in axes])
    across, up = axes[0], axes[1] if len(axes) > 1 else None
    rest = [dict(labels) for labels in plan.cells]
    others = [axis.name for axis in axes[2:]]
    titles = list(dict.fromkeys(", ".join(f"{n} {labels[n]}" for n in others) for labels in rest))
    stacked = grid.reshape(*grid.shape[:2], -1) if up is not None else grid.reshape(-1, 1, 1)
    figure = panels(titles or [""], columns=min(len(titles), 3), height=380 * (-(-len(titles) // 3)))
    for k in range(stacked.shape[2]):
        figure.add_heatmap(
            x=[str(label) for label in across.labels],
            y=[str(label) for label in up.labels] if up is not None else [""],
            z=stacked[:, :, k].T,
            zmin=0.0,
            zmax=1.0,
            colorscale="RdYlGn",
            text=np.round(100 * stacked[:, :, k].T).tolist(),
            texttemplate="%{text:.0f} %",
            showscale=k == 0,
            row=k // 3 + 1,
            col=k % 3 + 1,
        )
    figure.update_xaxes(title_text=across.name)
    if up is not None:
        figure.update_yaxes(title_text=up.name)
    return figure
