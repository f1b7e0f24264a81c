"""One run of a campaign, and chunks of runs: functions of the plan, the cell and the run number alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from math import nan
from pathlib import Path
from typing import Any

from spacearm.campaign._side_by_side import run_side_by_side
from spacearm.campaign.plan import CampaignPlan, flat_rows
from spacearm.deadline import check_time
from spacearm.engine.device import Device
from spacearm.errors import SpacearmError, error_context
from spacearm.model import Robot
from spacearm.model.mounts import find_robot
from spacearm.result import Certificate
from spacearm.simulate.ensemble.vectorised_phases import VectorisedError
from spacearm.simulate.ensemble.vectorised_runs import simulate_lanes
from spacearm.study import Findings, Session
from spacearm.study.findings import make_rows
from spacearm.study.scenario import VectorisedStudy, solve_document, study_file

#: How a run ended.
SOUND, NOT_SOUND, FAILED = "sound", "not sound", "failed"


@dataclass(frozen=True)
class RunOutcome:
    """Stored outcome of a run.

    Args:
        status: sound, not sound, or failed (there is no result).
        reason: why it is not sound or failed; or the requirement that it misses by most.
        success: sound, and every requirement is met.
        margin: the smallest of all requirements; negative where one is missed, None without requirements.
        binding: the requirement with the smallest margin.
        whole: sound, and the scenario's own limits did not end it: it has all rows that there can be.
    """

    cell: int
    number: int
    drawn: dict[str, float]
    status: str
    reason: str
    success: bool
    margin: float | None
    binding: str
    values: dict[str, float]
    units: dict[str, str]
    whole: bool


def run_one(plan: CampaignPlan, cell: int, number: int) -> RunOutcome:
    """A run by its cell and its number in it: the same to the last bit wherever and whenever it is made."""
    document, session, drawn = _build_run(plan, cell, number)
    return _evaluate_run(plan, cell, number, drawn, lambda: solve_document(document, session)[1])


def run_cell_batches(plan: CampaignPlan, places: Sequence[tuple[int, int]], device: Device) -> list[RunOutcome]:
    """Runs by cell and number, vectorised: each has the same bits whatever other runs are in the batch.

    A run that breaks down, or for which momentum or energy do not balance, is made again alone: that verdict counts.

    Raises:
        VectorisedError: states what in the scenario cannot be vectorised.
    """
    with warnings.catch_warnings():
        # Thousands of runs would repeat the same warnings; what they mean is in each run's outcome.
        warnings.simplefilter("ignore")
        lanes = [_build_vectorised_run(plan, *place) for place in places]
        with error_context(file=plan.scenario):
            good = [lane for lane, _ in lanes if lane is not None]
            ends = iter(simulate_lanes([lane.run for lane in good], device=device))
    found = []
    for place, (lane, drawn) in zip(places, lanes, strict=True):
        end = None if lane is None else next(ends)
        # The event-driven run explains what went wrong, or succeeds where fixed steps were too coarse.
        if lane is None or end is None:
            found.append(run_one(plan, *place))
        else:
            found.append(_evaluate_run(plan, *place, drawn, partial(lane.make_findings, end)))
        check_time()
    return found


def check_vectorisable(plan: CampaignPlan) -> None:
    """Check that the first run of every cell can be vectorised; a :class:`VectorisedError` states why not."""
    for cell in range(len(plan.cells)):
        _build_vectorised_run(plan, cell, 0)


def _build_vectorised_run(
    plan: CampaignPlan, cell: int, number: int
) -> tuple[VectorisedStudy | None, dict[str, float]]:
    """A run for a vectorised batch; None where its own numbers are at fault, which a single run then reports."""
    check_time()
    document, session, drawn = _build_run(plan, cell, number)
    try:
        with error_context(file=plan.scenario):
            lane = study_file(document).prepare_lane(session)
            _ = lane.run.structure_key  # whether it can be made so
        return lane, drawn
    except VectorisedError:
        raise
    except SpacearmError:
        return None, drawn


def _build_run(plan: CampaignPlan, cell: int, number: int) -> tuple[dict[str, Any], Session, dict[str, float]]:
    document, robots, drawn = plan.build_scenario(cell, number)
    if not robots and isinstance(document.get("robot"), str):
        robots = {document["robot"]: _robot(document["robot"], plan.folder)}
    return document, Session(plan.folder, robots=robots), drawn


def _evaluate_run(
    plan: CampaignPlan, cell: int, number: int, drawn: dict[str, float], solve: Callable[[], Findings]
) -> RunOutcome:
    """The outcome of a run from what its study finds."""
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    status, reason, note = SOUND, "", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they report is in the certificate
            found = solve()
            certificate = Certificate(found.certificate())
            for row in make_rows(found):
                own = dict(flat_rows({row.quantity: row.value}))
                values |= own
                units |= dict.fromkeys(own, row.unit)
                note = str(row.value) if row.quantity == "binding" else note
        if not certificate.sound:
            status, reason = NOT_SOUND, "; ".join(certificate.faults)
    except SpacearmError as error:
        status, reason = FAILED, str(error)
    # A row that is missing has a margin of minus infinity: what was not found is not a success.
    margins = {require.row: require.margin(values.get(require.row)) for require in plan.file.require}
    if note and "margin" in values:  # the scenario's own verdict
        margins[note] = values["margin"]
    binding = min(margins, key=lambda row: margins[row]) if margins and status != FAILED else ""
    margin = margins[binding] if binding else None
    missed = margin is not None and margin < 0.0
    if status == SOUND and missed:
        reason = (
            f"{binding}: margin {margin:.4g}" if binding == note else f"{binding} is {values.get(binding, nan):.6g}"
        )
    success, whole = status == SOUND and not missed, status == SOUND and values.get("success", 1.0) > 0.0
    return RunOutcome(cell, number, drawn, status, reason, success, margin, binding, values, units, whole)


@lru_cache(maxsize=8)
def _robot(name: str, folder: Path) -> Robot:
    """Read once for many runs."""
    return find_robot(name, folder)


def run_chunks(
    plan: CampaignPlan,
    places: Sequence[tuple[int, int]],
    device: Device | None = None,
    done: Sequence[RunOutcome] = (),
) -> list[list[RunOutcome]]:
    """The runs of chunks, given by cell and number, with the rows that are kept; vectorised on a device.

    Runs that are ``done`` are not made again.
    """
    ready = {(outcome.cell, outcome.number): outcome for outcome in done}
    runs = [(cell, number) for cell, chunk in places for number in plan.numbers(chunk)]
    if device is None:
        new = [place for place in runs if place not in ready]
        ready |= zip(new, run_side_by_side([partial(run_one, plan, *place) for place in new]), strict=True)
        made = iter([ready[place] for place in runs])
    else:
        made = iter(run_cell_batches(plan, runs, device))
    return [[select_rows(plan, next(made)) for _ in plan.numbers(chunk)] for _, chunk in places]


def select_rows(plan: CampaignPlan, outcome: RunOutcome) -> RunOutcome:
    """The outcome with the rows that are kept, called as their columns; units are those of all rows."""
    wanted = {*plan.file.rows, *(require.row for require in plan.file.require)}
    values = {name: value for name, value in outcome.values.items() if any(fnmatchcase(name, w) for w in wanted)}
    units = {plan.column(name): unit for name, unit in outcome.units.items()}
    return replace(outcome, values={plan.column(name): value for name, value in values.items()}, units=units)


def columns(outcomes: list[RunOutcome]) -> dict[str, str]:
    """Names of all rows and their units, in the order in which they first come."""
    found: dict[str, str] = {}
    for outcome in outcomes:
        found |= {name: outcome.units[name] for name in outcome.values}
    return found
