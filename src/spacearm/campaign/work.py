"""One run of a campaign, and a chunk of them: what depends on the plan and on nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from math import nan
from pathlib import Path
from typing import Any

from spacearm.campaign.plan import Plan, flat_rows
from spacearm.deadline import check_time
from spacearm.engine.device import Device
from spacearm.errors import SpacearmError, at
from spacearm.model import Robot
from spacearm.model.document import find_robot
from spacearm.result import Certificate
from spacearm.simulate.ensemble.lanes import LanesError
from spacearm.simulate.ensemble.side_by_side import run_side_by_side
from spacearm.study import Findings, Session
from spacearm.study.findings import rows_of
from spacearm.study.scenario import Lane, solve_document, study_file

#: How a run ended.
SOUND, NOT_SOUND, FAILED = "sound", "not sound", "failed"


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run.

    Args:
        status: sound, not sound, or failed (there is no result).
        reason: why it is not sound or failed; or the requirement that it misses by most.
        success: sound, and every requirement is met.
        margin: the smallest of all requirements; negative where one is missed, None without requirements.
        binding: the requirement with the smallest margin.
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


def run_one(plan: Plan, cell: int, number: int) -> Outcome:
    """A run by its cell and its number in it: the same to the last bit wherever and whenever it is made."""
    document, session, drawn = _arranged(plan, cell, number)
    return _judged(plan, cell, number, drawn, lambda: solve_document(document, session)[1])


def run_together(plan: Plan, places: Sequence[tuple[int, int]], device: Device) -> list[Outcome]:
    """Runs by cell and number, made side by side: each has the bits that it has beside any others.

    A run that breaks down, or for which momentum or energy do not balance, is made again alone: that verdict counts.

    Raises:
        LanesError: says what in the scenario cannot be made side by side.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lanes = [_lane(plan, *place) for place in places]
        with at(file=plan.scenario):
            good = [lane for lane, _ in lanes if lane is not None]
            ends = iter(run_side_by_side([lane.run for lane in good], device=device))
    found = []
    for place, (lane, drawn) in zip(places, lanes, strict=True):
        end = None if lane is None else next(ends)
        if lane is None or end is None:
            found.append(run_one(plan, *place))
        else:
            found.append(_judged(plan, *place, drawn, partial(lane.found, end)))
        check_time()
    return found


def check_together(plan: Plan) -> None:
    """Whether the first run of every cell can be made side by side; a :class:`LanesError` says why not."""
    for cell in range(len(plan.cells)):
        _lane(plan, cell, 0)


def _lane(plan: Plan, cell: int, number: int) -> tuple[Lane | None, dict[str, float]]:
    """A run to be made beside others; None where its own numbers are at fault, which is told when it is made alone."""
    check_time()
    document, session, drawn = _arranged(plan, cell, number)
    try:
        with at(file=plan.scenario):
            lane = study_file(document).lane(session)
            _ = lane.run.kind  # whether it can be made so
        return lane, drawn
    except LanesError:
        raise
    except SpacearmError:
        return None, drawn


def _arranged(plan: Plan, cell: int, number: int) -> tuple[dict[str, Any], Session, dict[str, float]]:
    document, robots, drawn = plan.arranged(cell, number)
    if not robots and isinstance(document.get("robot"), str):
        robots = {document["robot"]: _robot(document["robot"], plan.folder)}
    return document, Session(plan.folder, robots=robots), drawn


def _judged(plan: Plan, cell: int, number: int, drawn: dict[str, float], solve: Callable[[], Findings]) -> Outcome:
    """The outcome of a run from what its study finds."""
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    status, reason, said = SOUND, "", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they tell is in the certificate
            found = solve()
            certificate = Certificate(found.certificate())
            for row in rows_of(found):
                own = dict(flat_rows({row.quantity: row.value}))
                values |= own
                units |= dict.fromkeys(own, row.unit)
                said = str(row.value) if row.quantity == "binding" else said
        if not certificate.sound:
            status, reason = NOT_SOUND, "; ".join(certificate.faults)
    except SpacearmError as error:
        status, reason = FAILED, str(error)
    # A row that is missing has a margin of minus infinity: what was not found is not a success.
    margins = {require.row: require.margin(values.get(require.row)) for require in plan.file.require}
    if said and "margin" in values:  # the scenario's own verdict
        margins[said] = values["margin"]
    binding = min(margins, key=lambda row: margins[row]) if margins and status != FAILED else ""
    margin = margins[binding] if binding else None
    missed = margin is not None and margin < 0.0
    if status == SOUND and missed:
        reason = (
            f"{binding}: margin {margin:.4g}" if binding == said else f"{binding} is {values.get(binding, nan):.6g}"
        )
    return Outcome(cell, number, drawn, status, reason, status == SOUND and not missed, margin, binding, values, units)


@lru_cache(maxsize=8)
def _robot(name: str, folder: Path) -> Robot:
    """Read once for many runs."""
    return find_robot(name, folder)


def run_chunks(plan: Plan, places: Sequence[tuple[int, int]], device: Device | None = None) -> list[list[Outcome]]:
    """The runs of chunks, given by cell and number, with the rows that are kept; side by side on a device."""
    runs = [(cell, number) for cell, chunk in places for number in plan.numbers(chunk)]
    made = iter([run_one(plan, *place) for place in runs] if device is None else run_together(plan, runs, device))
    return [[_kept(plan, next(made)) for _ in plan.numbers(chunk)] for _, chunk in places]


def _kept(plan: Plan, outcome: Outcome) -> Outcome:
    wanted = {*plan.file.rows, *(require.row for require in plan.file.require)}
    values = {name: value for name, value in outcome.values.items() if any(fnmatchcase(name, w) for w in wanted)}
    units = {plan.column(name): unit for name, unit in outcome.units.items()}
    return replace(outcome, values={plan.column(name): value for name, value in values.items()}, units=units)


def columns(outcomes: list[Outcome]) -> dict[str, str]:
    """Names of all rows and their units, in the order in which they first come."""
    found: dict[str, str] = {}
    for outcome in outcomes:
        found |= {name: outcome.units[name] for name in outcome.values}
    return found
