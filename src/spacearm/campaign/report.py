"""Report of a campaign: success rates with their intervals, binding limits, spread and sensitivity of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.campaign._chart import chart
from spacearm.campaign._sensitivity import Sensitivity, chart_sensitivities, rank_inputs
from spacearm.campaign._tolerance import SHARE, End, least_runs, tolerance_bound
from spacearm.campaign._work import FAILED, SOUND
from spacearm.campaign._worst_case import WorstCase, chart_worst_cases, worst_cases
from spacearm.campaign.decide import CellVerdict, cell_verdict, interval_confidence, is_finished, rate_interval
from spacearm.campaign.plan import CampaignPlan
from spacearm.campaign.store import Store
from spacearm.figures import add_curve, new_figure
from spacearm.result import Certificate, Check, Figure, Result, Row

LEVELS = (5.0, 50.0, 95.0)
#: Quantities that get a figure of their own.
MOST_FIGURES = 6


def report(store: Store) -> Result:
    """The result of a campaign: rows, checks and figures of all stored runs."""
    plan, table = store.plan, store.read()
    columns: dict[str, Any] = {name: table[name].to_pylist() for name in table.column_names}
    success = np.array(columns["success"], dtype=bool)
    rows = [Row("runs", len(success), note=f"of at most {plan.total} in {len(plan.cells)} cells")]
    rows += [Row(f"status.{name}", number) for name, number in sorted(Counter(columns["status"]).items())]
    cells = cells_of(plan, columns)
    rows += _rates(plan, cells)
    # A failed run has no binding requirement: its status is counted instead.
    failing = Counter(
        b or s for b, s, good in zip(columns["binding"], columns["status"], success, strict=True) if not good
    )
    rows += [Row(f"binding.{name}", number, note="runs that it ends") for name, number in failing.most_common()]
    driven = _sensitivities(plan, columns)
    rows += _sensitivity_rows(plan, driven)
    rows += _spreads(columns, store.names())
    rows += _bounds(plan, columns, store.names())
    worst = worst_cases(plan, store) if plan.file.worst_case is not None else []
    rows += _worst_rows(plan, worst)
    # Sound only if all cells have the runs that their rule asks for: rates of an unfinished map are provisional.
    complete = len(cells) == len(plan.cells) and all(cell.finished for cell in cells)
    failed = sum(status == FAILED for status in columns["status"])
    return Result(
        "campaign",
        rows,
        Certificate(
            {
                "complete": Check.from_condition(
                    complete, f"{len(success)} of at most {plan.total} runs are there; run it again"
                ),
                "failed_runs": Check(failed / len(success), 0.5, "", "share of runs without a result"),
            }
        ),
        {"campaign": store.manifest["campaign"], "scenario": plan.file.scenario},
        figures=_figures(plan, columns, cells, store.names(), driven) + _worst_figures(plan, worst),
        title=plan.file.title or f"Campaign of {plan.file.scenario}",
        headline=_headline(plan, cells) + _worst_headline(worst),
        summary=_summary(columns, driven) + _worst_words(plan, worst),
    )


def _worst_rows(plan: CampaignPlan, worst: list[WorstCase]) -> list[Row]:
    """The worst case of each cell, its limit and its inputs, beside the worst Monte Carlo run."""
    from scipy.special import ndtri

    found: list[Row] = []
    for case in worst:
        place = f".cell{case.cell}" if len(plan.cells) > 1 else ""
        note = f"{_where(plan, case.cell)}: smallest of {case.runs} runs of a search {_reach(plan)}"
        note += f"; {case.refused} that failed or are not sound do not count" if case.refused else ""
        found += [
            Row(f"worst{place}.margin", case.margin, note=note),
            Row(f"worst{place}.limit", case.binding, note="nearest limit in the worst case"),
            Row(f"worst{place}.run.margin", case.run_margin, note=f"of the worst Monte Carlo run, {case.run}"),
            Row(f"worst{place}.run.limit", case.run_binding, note="its nearest limit"),
        ]
        for entry, share in zip(plan.file.vary, case.shares, strict=True):
            place_of = "of the worst run" if entry.kind == "seed" else f"{ndtri(share):+.2f} standard deviations"
            found.append(
                Row(f"worst{place}.{entry.key}", case.values[entry.key], note=f"{place_of}, quantile {share:.4g}")
            )
    return found


def _where(plan: CampaignPlan, cell: int) -> str:
    return ", ".join(f"{name} {label}" for name, label in plan.cells[cell].items()) or "all runs"


def _reach(plan: CampaignPlan) -> str:
    assert plan.file.worst_case is not None
    return f"within the middle {100 * plan.file.worst_case.share:.5g} % of each dispersion"


def _worst_words(plan: CampaignPlan, worst: list[WorstCase]) -> str:
    if not worst:
        return ""
    case = min(worst, key=lambda each: each.margin)
    where = f" ({_where(plan, case.cell)})" if len(plan.cells) > 1 else ""
    kept = "keeps its limits with" if case.margin >= 0.0 else "breaks a limit, with"
    return (
        f" The worst case found {_reach(plan)}{where} {kept} a margin of {case.margin:.3g} ({case.binding}); the worst "
        f"of the Monte Carlo runs there has {case.run_margin:.3g} ({case.run_binding})."
    )


def _worst_headline(worst: list[WorstCase]) -> str:
    if not worst:
        return ""
    case = min(worst, key=lambda each: each.margin)
    return f" Worst case found: margin {case.margin:.3g} ({case.binding})."


def _worst_figures(plan: CampaignPlan, worst: list[WorstCase]) -> list[Figure]:
    if not worst:
        return []
    titles = [f"{_where(plan, case.cell)}: margin {case.margin:.3g}" for case in worst]
    text = (
        "Worst case: where the smallest margin that was found lies in the distributions, and the worst of the Monte "
        f"Carlo runs. The search stays {_reach(plan)}; it proves no bound."
    )
    return [Figure("worst-case", chart_worst_cases(plan, worst, titles), text)]


def _headline(plan: CampaignPlan, cells: list[CellSummary]) -> str:
    goal, confidence = f"{100 * plan.file.goal:g} %", f"{100 * plan.file.confidence:g} % confidence"
    if not plan.file.axis:
        cell = cells[0]
        interval = f"{100 * cell.low:.1f} to {100 * cell.high:.1f} %, {confidence}"
        rate = f"{100 * cell.rate:.1f} % of {cell.runs} runs succeed"
        return f"{cell.verdict.capitalize()}: {rate} ({interval}); the goal is {goal}."
    numbers = Counter(cell.verdict for cell in cells)
    return (
        f"{numbers['go']} of {len(cells)} cells are a go, {numbers['no go']} a no go, {numbers['undecided']} undecided "
        f"(whether {goal} of runs succeed, with {confidence})."
    )


def _summary(columns: dict[str, Any], driven: dict[str, list[Sensitivity]]) -> str:
    unsound = sum(status != SOUND for status in columns["status"])
    notes = [f"{sum(columns['success'])} of {len(columns['success'])} runs succeed."]
    notes += [f"{unsound} runs are not sound or failed."] if unsound else []
    for name, (first, *_) in driven.items():
        low, high = (100 * end for end in first.index_interval)
        notes.append(
            f"What drives the {name} most is {first.key}: {100 * first.index:.0f} % of the variance within cells "
            f"({low:.0f} to {high:.0f} %)."
        )
    return " ".join(notes)


@dataclass(frozen=True)
class CellSummary:
    """Summary of the runs of a cell.

    Args:
        rate, low, high: share of runs that succeed, and its Wilson interval.
        verdict: whether that interval lies at or above the goal, below it, or neither.
        finished: all of its runs are there.
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
    verdict: CellVerdict
    finished: bool

    @property
    def where(self) -> str:
        return ", ".join(f"{name} {label}" for name, label in self.labels.items()) or "all runs"


def cells_of(plan: CampaignPlan, columns: Mapping[str, Any]) -> list[CellSummary]:
    """Summaries of all cells that have runs."""
    file, numbers = plan.file, np.array(columns["run"])
    cell, success = np.array(columns["cell"]), np.array(columns["success"], dtype=bool)
    margins = np.array([np.nan if margin is None else margin for margin in columns["margin"]], dtype=float)
    limits = np.array([b or s for b, s in zip(columns["binding"], columns["status"], strict=True)], dtype=object)
    found = []
    for number, labels in enumerate(plan.cells):
        inside = cell == number
        if not inside.any():
            continue
        good, runs = int(success[inside].sum()), int(inside.sum())
        finite = margins[inside & np.isfinite(margins)]
        # Among the failures where there are any: the limit nearest in successful runs says little then.
        first = Counter(limits[inside & ~success] if good < runs else limits[inside]).most_common(1)[0][0]
        # Failed runs have no margin: they count in the rate alone.
        mean = float(finite.mean()) if finite.size else np.nan
        binding = "" if first == SOUND else first
        found.append(
            CellSummary(
                number, labels, runs, good / runs, *rate_interval(file, good, runs), mean, binding,
                cell_verdict(file, good, runs), is_finished(file, good, runs) and numbers[inside].max() + 1 == runs,
            )
        )  # fmt: skip
    return found


def _rates(plan: CampaignPlan, cells: list[CellSummary]) -> list[Row]:
    found, confidence = [], interval_confidence(plan.file)
    for cell in cells:
        name = f".cell{cell.number}" if len(plan.cells) > 1 else ""
        note = f"{cell.where}; {100 * confidence:.4g} %: {cell.low:.4f} to {cell.high:.4f}, {cell.runs} runs"
        found.append(Row(f"success{name}", cell.rate, note=note))
        found += [Row(f"interval{name}.{end}", getattr(cell, end)) for end in ("low", "high")]
        found += [Row(f"verdict{name}", cell.verdict, note=f"goal: {plan.file.goal:g}")]
        if np.isfinite(cell.margin):
            found += [Row(f"margin{name}", cell.margin, note="mean"), Row(f"limit{name}", cell.binding)]
    return found


def _spreads(columns: dict[str, Any], names: dict[str, str]) -> list[Row]:
    found = []
    for name, unit in names.items():
        values = np.array([v for v in columns[name] if v is not None and np.isfinite(v)])
        # A row that is the same in all runs has no spread to report.
        if values.size and np.ptp(values) > 0.0:
            for level in LEVELS:
                found.append(Row(f"{name}.percentile{level:g}", float(np.percentile(values, level)), unit))
    return found


def _bounds(plan: CampaignPlan, columns: dict[str, Any], names: dict[str, str]) -> list[Row]:
    """Tolerance bounds of every row or, in a map, of the required rows in each cell."""
    if plan.file.stop is not None:
        return []  # how many runs there are depends on what they gave: their order statistics are not those of Wilks
    ends: dict[str, tuple[End, ...]] = {"margin": ("lower",)}
    if len(plan.cells) == 1:
        ends |= dict.fromkeys(names, ("upper", "lower"))
    else:
        for require in plan.file.require:
            limits: dict[End, float | None] = {"upper": require.most, "lower": require.least}
            ends[plan.column(require.row)] = tuple(end for end, limit in limits.items() if limit is not None)
    cell, confidence, found = np.array(columns["cell"]), plan.file.confidence, []
    for name, wanted in ends.items():
        values = np.array([np.nan if value is None else value for value in columns[name]], dtype=float)
        for number in range(len(plan.cells)):
            own = values[(cell == number) & np.isfinite(values)]
            if own.size < 2 or np.ptp(own) == 0.0:
                continue
            for end in wanted:
                bound = tolerance_bound(own, end, SHARE, confidence)
                place = f".cell{number}" if len(plan.cells) > 1 else ""
                note = f"{100 * bound.share:.4g} % of runs keep it, with {100 * confidence:g} % confidence"
                if bound.share < SHARE:
                    note += f"; {100 * SHARE:g} % needs {least_runs(SHARE, confidence)} runs"
                found.append(Row(f"{name}{place}.{end}", bound.value, names.get(name, ""), note=note))
    return found


def _sensitivities(plan: CampaignPlan, columns: dict[str, Any]) -> dict[str, list[Sensitivity]]:
    """Inputs ranked by their effect on margin and success, by output; outputs without a ranking are left out."""
    inputs = [k for k, entry in enumerate(plan.file.vary) if entry.kind != "seed"]  # seeds have no order
    shares, cell = plan.shares[np.ix_(columns["run"], inputs)], np.array(columns["cell"])
    margins = [np.nan if margin is None else margin for margin in columns["margin"]]
    keys = [plan.file.vary[k].key for k in inputs]
    outputs = {"margin": np.array(margins, dtype=float), "success": np.array(columns["success"], dtype=float)}
    found = {name: rank_inputs(keys, shares, y, cell, plan.file.confidence) for name, y in outputs.items()}
    return {name: ranked for name, ranked in found.items() if ranked}


def _sensitivity_rows(plan: CampaignPlan, driven: dict[str, list[Sensitivity]]) -> list[Row]:
    found, confidence = [], f"{100 * plan.file.confidence:g} %"
    for name, ranked in driven.items():
        for each in ranked:
            (low, high), (left, right) = each.index_interval, each.rank_interval
            note = f"share of the variance within cells; {confidence}: {low:.3f} to {high:.3f}"
            found.append(Row(f"sensitivity.{name}.{each.key}", each.index, note=note))
            note = f"of ranks, from -1 to 1; {confidence}: {left:.3f} to {right:.3f}"
            found.append(Row(f"regression.{name}.{each.key}", each.rank, note=note))
    return found


def _figures(
    plan: CampaignPlan,
    columns: dict[str, Any],
    cells: list[CellSummary],
    names: dict[str, str],
    driven: dict[str, list[Sensitivity]],
) -> list[Figure]:
    found = []
    if plan.file.axis:
        text = (
            f"Colour: whether at least {100 * plan.file.goal:g} % of runs succeed. Go: the interval of the success "
            f"rate ({100 * plan.file.confidence:g} % confidence) lies at or above that. No go: it lies below. "
            "Undecided: neither; more runs would decide. In each cell the share of its runs that succeed, and the "
            "limit that ends most of those that fail, or the mean margin where none does."
        )
        found.append(Figure("map", chart(plan, cells), text))
    if driven:
        text = (
            "What drives the runs: the share of the variance that each dispersed number explains by itself (first-"
            "order Sobol index, from a regression on the runs), with its bootstrap interval."
        )
        found.append(Figure("sensitivity", chart_sensitivities(driven), text))
    bounds = {plan.column(require.row): (require.least, require.most) for require in plan.file.require}
    # Rows with one or two values (flags) have no distribution worth a figure.
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
    # The middle of each step of the empirical distribution (Hazen's plotting positions): neither end claims certainty.
    add_curve(figure, values, (np.arange(values.size) + 0.5) / max(values.size, 1), name, colour=0)
    for bound in bounds:
        if bound is not None:
            figure.add_vline(x=bound, line_dash="dash")
    return figure
