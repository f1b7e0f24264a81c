"""Search for the worst case of each cell: the smallest margin within the dispersions, after the Monte Carlo runs.

The dispersed numbers are searched as quantiles, each within the middle ``share`` of its distribution, so that a point
far outside the dispersions cannot be found. Populations of covariance matrix adaptation
(:mod:`spacearm.optimise.evolution`) start at the worst run of the cell and at the corner to which its margins fall.
Runs that fail or are not sound prove nothing: they are counted and never the worst case. Seeds, which have no order,
stay those of the worst run. A search by some hundred runs finds a worst case and cannot prove that there is no worse.

Each generation is a file of the store, made from the plan and the runs alone: an interrupted search goes on with the
generation that is missing, and leaves the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.campaign._work import SOUND, RunOutcome
from spacearm.campaign.plan import CampaignPlan, WorstCaseTable
from spacearm.campaign.store import Store
from spacearm.deadline import check_time
from spacearm.figures import COLOURS, panels
from spacearm.optimise.evolution import evolve, population_size
from spacearm.typing import Array

#: Step of the first members, as a share of the box, and generations that two populations need at least.
FIRST_STEP, LEAST_GENERATIONS = 0.25, 5
#: A run that lacks a required row misses it by any amount: a number that the search can compare.
WORST = 1e9
#: Cells that the figure has.
MOST_PANELS = 6
#: Runs of points (B, numbers) of a cell, in their order.
Evaluate = Callable[[CampaignPlan, int], list[RunOutcome]]


@dataclass(frozen=True)
class WorstCase:
    """The worst case found in a cell, beside the worst of its Monte Carlo runs.

    Args:
        runs, refused: of the search, and those of them that failed or are not sound.
        values: dispersed numbers by their keys; ``shares``: their quantiles.
        run, run_margin, run_binding, run_shares: of the worst Monte Carlo run.
    """

    cell: int
    runs: int
    refused: int
    margin: float
    binding: str
    values: Mapping[str, float]
    shares: Array
    run: int
    run_margin: float
    run_binding: str
    run_shares: Array


def searched_numbers(plan: CampaignPlan) -> list[int]:
    """Places of the dispersed numbers that are searched: all but seeds."""
    return [k for k, entry in enumerate(plan.file.vary) if entry.kind != "seed"]


def search_worst_cases(
    plan: CampaignPlan, store: Store, evaluate: Evaluate, progress: Callable[[float, str], None] | None = None
) -> None:
    """Search every cell that has a sound run with a margin."""
    assert plan.file.worst_case is not None
    columns = _columns(store)
    for cell in range(len(plan.cells)):
        if _worst_run(columns, cell) is not None:
            _search_cell(plan, plan.file.worst_case, store, columns, cell, evaluate, progress)


def _columns(store: Store) -> dict[str, Any]:
    table = store.read()
    return {name: table[name].to_pylist() for name in ("cell", "run", "status", "margin", "binding")}


def _worst_run(columns: Mapping[str, Any], cell: int) -> tuple[int, float, str] | None:
    """Number, margin and nearest limit of the worst sound run of a cell."""
    names = ("cell", "run", "status", "margin", "binding")
    found = [
        (margin, run, binding)
        for own, run, status, margin, binding in zip(*(columns[name] for name in names), strict=True)
        if own == cell and status == SOUND and margin is not None
    ]
    if not found:
        return None
    margin, run, binding = min(found)
    return run, margin, binding


def _search_cell(
    plan: CampaignPlan,
    settings: WorstCaseTable,
    store: Store,
    columns: Mapping[str, Any],
    cell: int,
    evaluate: Evaluate,
    progress: Callable[[float, str], None] | None,
) -> None:
    searched, first = searched_numbers(plan), _worst_run(columns, cell)
    assert first is not None
    # Numbers are searched as quantiles of their own distributions: a box in them has the same probability in each
    # direction, whatever the units are. Seeds stay those of the worst run: they have no neighbours to search.
    low, base = 0.5 * (1.0 - settings.share), plan.shares[first[0]]
    generation, best = 0, math.inf

    def judge(points: Array) -> Array:
        nonlocal generation, best
        shares = np.tile(base, (len(points), 1))
        shares[:, searched] = low + settings.share * points
        # A search that was interrupted goes on from its stored generations: the same seed gives the same points.
        if not store.has_generation(cell, generation, shares):
            check_time()
            store.write_generation(plan, cell, generation, shares, evaluate(plan.with_shares(shares), cell))
        found = store.read_generation(cell, generation)
        scores = np.array([_score(*each) for each in zip(found["status"], found["margin"], strict=True)])
        generation, best = generation + 1, min(best, -float(scores.max()))
        if progress is not None:
            where = f" of cell {cell}" if len(plan.cells) > 1 else ""
            progress(1.0, f"worst case{where}: {generation} generations, margin {best:.4g}")
        return scores

    # From the worst run, which is known to be bad, and from the corner to which a linear trend falls: where margins are
    # monotonic in each number that corner is the worst case.
    starts = np.array([np.clip((base[searched] - low) / settings.share, 0.0, 1.0), _corner(plan, columns, cell)])
    # Both starts may be the same corner.
    starts = starts[: 1 if np.array_equal(*starts) else 2]
    worth = judge(starts)
    size, left = population_size(len(searched)), settings.runs - len(starts)
    # Two populations that cannot converge are worth less than one that can.
    if left < LEAST_GENERATIONS * len(starts) * size:
        best_start = int(np.argmax(worth))
        starts, worth = starts[best_start : best_start + 1], worth[best_start : best_start + 1]
    generations = left // (len(starts) * size)
    evolve(judge, starts, worth, step=FIRST_STEP, generations=generations, seed=settings.seed)


def _score(status: str, margin: float | None) -> float:
    """To be made large; minus infinity for a run that proves nothing."""
    return -math.inf if status != SOUND or margin is None else -max(margin, -WORST)


def _corner(plan: CampaignPlan, columns: Mapping[str, Any], cell: int) -> Array:
    """The corner of the box (0 or 1 for each number) to which the margins of a cell's runs fall."""
    searched = searched_numbers(plan)
    rows = [
        (run, margin)
        for own, run, margin in zip(columns["cell"], columns["run"], columns["margin"], strict=True)
        if own == cell and margin is not None and math.isfinite(margin)
    ]
    shares = plan.shares[[run for run, _ in rows]][:, searched] - 0.5
    margins = np.array([margin for _, margin in rows])
    # The sign of the covariance with each number: the margin falls toward 0 where it rises with the number.
    return np.where((margins - margins.mean() if rows else margins) @ shares > 0.0, 0.0, 1.0)


def worst_cases(plan: CampaignPlan, store: Store) -> list[WorstCase]:
    """The worst case of each cell whose search has a sound run."""
    columns, found = _columns(store), []
    for cell in range(len(plan.cells)):
        first, made = _worst_run(columns, cell), store.read_generations(cell)
        if first is None or made is None:
            continue
        scores = [_score(*each) for each in zip(made["status"], made["margin"], strict=True)]
        k = int(np.argmax(scores))
        if not math.isfinite(scores[k]):
            continue
        found.append(
            WorstCase(
                cell, len(scores), sum(not math.isfinite(score) for score in scores), made["margin"][k],
                made["binding"][k], {entry.key: made[entry.key][k] for entry in plan.file.vary},
                np.array(made["shares"][k]), first[0], first[1], first[2], plan.shares[first[0]],
            )
        )  # fmt: skip
    return found


def chart_worst_cases(plan: CampaignPlan, found: Sequence[WorstCase], titles: Sequence[str]) -> Any:
    """A figure of where worst case and worst run lie in the distributions; a panel for each cell."""
    from scipy.special import ndtri

    searched = searched_numbers(plan)
    shown = sorted(zip(found, titles, strict=True), key=lambda each: each[0].margin)[:MOST_PANELS]
    figure = panels([title for _, title in shown], height=170 + 30 * len(searched))
    keys = [plan.file.vary[k].key for k in searched][::-1]
    for column, (case, _) in enumerate(shown, 1):
        for colour, (name, shares) in enumerate({"found": case.shares, "worst run": case.run_shares}.items()):
            figure.add_scatter(
                x=ndtri(shares[searched])[::-1].tolist(),
                y=keys,
                mode="markers",
                name=name,
                legendgroup=name,
                showlegend=column == 1,
                marker={"color": COLOURS[colour], "size": 9, "symbol": ("circle", "x")[colour]},
                row=1,
                col=column,
            )
        figure.update_xaxes(title_text="standard deviations", row=1, col=column)
    return figure
