"""Tables for a review: requirements with the margins that a policy asks for, budgets, and what is assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import new_figure
from spacearm.result import Figure, Limit
from spacearm.study.findings import NotedValue
from spacearm.text_format import ROUNDING, format_number, format_percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from spacearm.mission._finish import DecideTable
    from spacearm.mission._flight import MissionFlight
    from spacearm.mission._outcomes import StageOutcome

#: A mission is flown with other masses if its least margin is within so many deviations of zero.
REACH = 5.0
#: Pixels of a row of a table, and of a further line of text in it.
ROW, LINE = 30, 17
#: Pixels of a table's width on a printed page, of a wide character, and of what a column leaves empty.
PRINTED, CHARACTER, EMPTY = 600, 7.5, 18
#: Characters for which a column needs no more room.
WIDE = 24


@dataclass(frozen=True)
class Requirement:
    """A limit over all stages, at the stage in which it was nearest, and the margin that it has to keep."""

    stage: str
    limit: Limit
    policy: float

    def judge(self, doubt: float, others: Sequence[Mapping[str, float]]) -> str:
        """Its status; ``doubt``, ``others``: see :meth:`is_met_with` and :meth:`least_of`."""
        least = self.least_of(others)
        if self.limit.is_broken:
            return "broken"
        if self.limit.margin < self.policy:
            return "margin too small"
        return "met" if self.is_met_with(doubt) and (least is None or least >= self.policy) else "in doubt"

    def is_met_with(self, doubt: float) -> bool:
        """Whether it is met if so much more (a share) is used, or less is kept."""
        used = self.limit.used * (1.0 - doubt if self.limit.least else 1.0 + doubt)
        return replace(self.limit, used=used).margin >= self.policy

    def least_of(self, others: Sequence[Mapping[str, float]]) -> float | None:
        """The least margin in other flights, each a table by name; None where none of them came so far."""
        return min((each[self.limit.name] for each in others if self.limit.name in each), default=None)


@dataclass(frozen=True)
class BudgetEntry:
    """The end of a stage: time (s), momentum of all and of the wheels (N m s), propellant spent so far (kg)."""

    stage: str
    time: float
    momentum: float
    wheels: float
    propellant: float

    def rows(self) -> dict[str, NotedValue]:
        return {
            "momentum": NotedValue(self.momentum, "of all about the mass centre, at the end of the stage", "N m s"),
            "wheels": NotedValue(self.wheels, "of the wheels then", "N m s"),
            "propellant": NotedValue(self.propellant, "spent so far", "kg"),
        }


def list_requirements(outcomes: Sequence[StageOutcome], decide: DecideTable | None) -> list[Requirement]:
    """Each limit once, with the margin that ``decide`` asks for, the nearest to that first."""
    margins, margin = ({}, 0.0) if decide is None else (decide.margins, decide.margin or 0.0)
    found: dict[str, Requirement] = {}
    for outcome in outcomes:
        for limit in outcome.limits:
            before = found.get(limit.name)
            # A decision repeats limits of other stages.
            if outcome.stage != "decide" and (before is None or limit.margin < before.limit.margin):
                found[limit.name] = Requirement(outcome.stage, limit, margins.get(limit.name, margin))
    return sorted(found.values(), key=lambda each: each.limit.margin - each.policy)


def list_assumptions(flight: MissionFlight) -> list[str]:
    """Assumptions of the mission, in words."""
    file, navigation = flight.file, flight.file.navigation
    camera = navigation.camera
    orbit = "No orbit: the world is inertial." if file.orbit is None else (
        f"Circular orbit of mean motion {file.orbit:g} rad/s, Hill's equations to first order in the distances."
    )  # fmt: skip
    seen = "The target's motion up to the touch is known exactly."
    if camera is not None:
        seen = f"The target's motion is known from a camera every {camera.period:g} s and a filter of a free body."
    own = "Laws know the servicer's true state."
    if navigation.sensor:
        own = f"Laws read {', '.join(each.kind for each in navigation.sensor)}; what these do not measure is known."
    taken = "Laws take the target's mass properties for those that it has"
    taken = (
        f"{taken}."
        if file.target.assumed is None
        else "Laws take the target for `target.assumed` until it is identified."
    )
    sd = file.nominal.sd
    known = "Masses and inertias are exact: the smallest margin is a go." if sd == 0.0 else (
        f"Masses and inertias are known to {format_percent(sd)} (one standard deviation): with a least margin below "
        f"{format_percent(REACH * sd)} the mission is flown with others, too, that laws do not know of."
    )  # fmt: skip
    failed = [f"{part} fails at {time:g} s" for part, time in flight.failures.times.items()]
    free = ", ".join(name.partition(".")[2] for name in flight.table.reference_robot.joint_names)
    found = [
        "Rigid bodies; springs and dampers at the soft joints. Brakes, clutch and latch close without slip.",
        orbit,
        seen,
        own,
        taken,
        known,
        f"Failures: {', '.join(failed)}." if failed else "No part fails.",
        "Limits are looked at between samples too, torques of laws and power at every tick.",
    ]
    if free:
        found.insert(1, f"Free joints of the target: {free}. Plans, laws and the identification take it as rigid.")
    if file.rendezvous is not None:
        found.append(
            "The base's law counts on an arm at rest and on the robot's mass at the start, whatever propellant is used."
        )
    if file.plume is not None:
        found.append("Exhaust is a cone that must not reach the target; what it would do there is not computed.")
    if file.clearance is None:
        found.append("No least distance of target and servicer is asked for.")
    missing = [name for name in ("base_rate", "impulse", "propellant", "time") if _is_open(file.limits, name)]
    return [*found, f"Without a limit: {', '.join(missing).replace('_', ' ')}."] if missing else found


def _is_open(table: Any, name: str) -> bool:
    return getattr(table, name) is None and getattr(table, f"{name}_deg", None) is None


def review_figures(
    needs: Sequence[Requirement], flight: MissionFlight, others: Sequence[Mapping[str, float]] = ()
) -> Iterator[Figure]:
    """Requirements, budgets, assumptions.

    Args:
        others: the least margin of each limit by name, in each flight with other masses.
    """
    sd = flight.file.nominal.sd
    columns: list[list[str]] = [
        [need.limit.name for need in needs],
        [need.limit.what for need in needs],
        [need.stage for need in needs],
        [f"{_show(need.limit.page_values[0])} {need.limit.page_values[2]}" for need in needs],
        [f"{'at least' if need.limit.is_least else 'at most'} {_show(need.limit.page_values[1])}" for need in needs],
        [_percent(need.limit.margin) for need in needs],
        [_percent(need.policy) for need in needs],
        [need.judge(sd, others) for need in needs],
    ]
    head = ["requirement", "of", "nearest in", "used", "limit", "margin", "policy", "status"]
    if others:
        head.insert(6, f"\N{PLUS-MINUS SIGN}{format_percent(sd)} mass")
        columns.insert(6, [_percent(need.least_of(others)) for need in needs])
    caption = (
        "Each limit over all stages, the nearest to its policy first. In text, tables of limits and figures, angles "
        "are in degrees and speeds of wheels in rpm; rows of results and data.nc have SI units, radians among them."
    )
    yield Figure("requirements", draw_table(head, columns), caption)
    entries = flight.budget
    columns = [
        [entry.stage for entry in entries],
        *([_show(getattr(entry, name)) for entry in entries] for name in ("time", "momentum", "wheels", "propellant")),
    ]
    head = ["at the end of", "time [s]", "momentum of all [N m s]", "in wheels [N m s]", "propellant [kg]"]
    caption = f"Budgets. Wheels hold {flight.actuators.held_momentum:.4g} N m s about each axis of the bus."
    yield Figure("budget", draw_table(head, columns), caption)
    notes = list_assumptions(flight)
    yield Figure("assumptions", draw_table(["assumption"], [notes]), "What this result takes for granted.")


def _percent(share: float | None) -> str:
    return "\N{EN DASH}" if share is None else f"{100.0 * share:.0f}\N{NO-BREAK SPACE}%"


def _show(value: float) -> str:
    """A number; rounding is zero."""
    return format_number(0.0 if abs(value) < ROUNDING else value, 4)


def draw_table(header: Sequence[str], columns: Sequence[Sequence[str]]) -> go.Figure:
    """A table, high enough for what it holds where it is narrowest, on a printed page."""
    texts = [[title, *column] for title, column in zip(header, columns, strict=True)]
    # Two more for headings, which are bold, and for words that do not break where it suits.
    shares = np.array([(min(max(map(len, each)), WIDE) + 2) * CHARACTER + EMPTY for each in texts])
    # The longest word first, which does not break; what is left of the page goes where more is wanted.
    words = [max(len(word) for text in each for word in text.split() or [""]) for each in texts]
    least = np.minimum(np.array([word * CHARACTER + EMPTY for word in words]), shares)
    if least.sum() < PRINTED < shares.sum():
        shares = least + (PRINTED - least.sum()) * (shares - least) / (shares - least).sum()
    shares /= shares.sum()
    rooms = np.maximum((PRINTED * shares - EMPTY) / CHARACTER, 1.0).astype(int)
    lines = [
        max(len(wrap(text, room)) for text, room in zip(row, rooms, strict=True)) for row in zip(*texts, strict=True)
    ]
    plot = new_figure(height=60 + sum(ROW + LINE * max(count - 1, 0) for count in lines))
    shade = {"color": "rgba(127, 127, 127, 0.12)"}
    plot.add_table(
        columnwidth=shares.tolist(),
        header={"values": [f"<b>{text}</b>" for text in header], "fill": shade, "align": "left"},
        cells={
            # Names from a robot's file must not become markup.
            "values": [[escape(text, quote=False) for text in column] for column in columns],
            "fill": {"color": "rgba(0, 0, 0, 0)"},
            "height": ROW,
            "align": "left",
        },
    )
    plot.update_layout(margin={"l": 10, "r": 10, "t": 30, "b": 10})
    return plot
