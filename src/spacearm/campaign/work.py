"""One run of a campaign, and a chunk of them: what depends on the plan and on nothing else."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from math import nan
from pathlib import Path

from spacearm.campaign.plan import Plan, flat_rows
from spacearm.errors import SpacearmError
from spacearm.model import Robot
from spacearm.model.document import find_robot
from spacearm.result import Certificate
from spacearm.study import Session, rows_of, solve_document

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
    document, robots, drawn = plan.arranged(cell, number)
    if not robots and isinstance(document.get("robot"), str):
        robots = {document["robot"]: _robot(document["robot"], plan.folder)}
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    status, reason, said = SOUND, "", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they tell is in the certificate
            _, found = solve_document(document, Session(plan.folder, robots=robots))
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


def run_chunk(plan: Plan, cell: int, chunk: int) -> list[Outcome]:
    """The runs of a chunk, with the rows that are kept."""
    return [_kept(plan, run_one(plan, cell, number)) for number in plan.numbers(chunk)]


def _kept(plan: Plan, outcome: Outcome) -> Outcome:
    wanted = {*plan.file.rows, *(require.row for require in plan.file.require)}
    values = {name: value for name, value in outcome.values.items() if any(fnmatchcase(name, w) for w in wanted)}
    return replace(outcome, values=values)


def columns(outcomes: list[Outcome]) -> dict[str, str]:
    """Names of all rows and their units, in the order in which they first come."""
    found: dict[str, str] = {}
    for outcome in outcomes:
        found |= {name: outcome.units[name] for name in outcome.values}
    return found
