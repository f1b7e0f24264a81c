"""A part of a run between two changes: events, cost and samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from spacearm.engine.record import SampleRecord
from spacearm.engine.solver import BoundSolver, EventKind
from spacearm.engine.system import SolverMemory
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.motion import WorldMotion
from spacearm.simulate.run.ledger import Balance
from spacearm.simulate.run.prepare import PreparedPhase
from spacearm.simulate.run.touches import TouchLog
from spacearm.simulate.world import World
from spacearm.typing import Array

_FRICTION = {EventKind.STICK: "stick", EventKind.SLIP: "slip", EventKind.REVERSE: "reverse"}


@dataclass(frozen=True)
class Occurrence:
    """An event: ``kind`` is stick, slip, reverse, limit, event, function, timeout, change, saturation (of a command:
    value 1 when it reaches its limit, 0 when it leaves it), rate limit (of a joint, which its drive reached between two
    ticks of a law: the value is the rate, and the drive gives no more), law (an event of a law), or touch, settle (it
    has lasted too long for an impact) and release of a contact or stop; stick and slip are a joint's or a contact's.
    """

    time: float
    kind: str
    name: str
    value: float
    phase: int


@dataclass(frozen=True)
class Stats:
    """Cost of a run."""

    steps: int = 0
    rejected: int = 0
    evaluations: int = 0
    events: int = 0

    def __add__(self, other: Stats) -> Stats:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Stats(*(a + b for a, b in pairs))


@dataclass(eq=False)
class Segment:
    """A part of a run between two changes: one world, one program, one record."""

    world: World
    model: WorldMotion
    parameters: tuple[dict[str, Array], ...]
    start: Array  # flat state
    time: float  # s, when it began
    work: SolverMemory
    record: SampleRecord
    balances: tuple[Balance, ...] | None  # of each system, where something acts from outside
    audit: Array
    scale: Array  # absolute tolerances
    wanted: Array  # times of its samples, s
    prepared: list[PreparedPhase] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)  # first sample of each phase
    logs: list[tuple[int, int]] = field(default_factory=list)
    timeouts: list[tuple[int, float]] = field(default_factory=list)
    commands: list[CommandLog] = field(default_factory=list)
    end_position: tuple[BoundSolver, int] | None = None  # of the last phase, and the piece in which it ended
    step: float = 0.0
    end_time: float = 0.0

    @cached_property
    def touches(self) -> TouchLog:
        return TouchLog(self.model, self.world)

    @property
    def rows(self) -> slice:
        return slice(0, int(self.record.counts[0]))

    @property
    def stats(self) -> Stats:
        counts = self.record.counts
        return Stats(int(counts[2]), int(counts[3]), int(self.work.count[0]), int(counts[1]))

    def occurrences(self, first: int = 0) -> tuple[Occurrence, ...]:
        """The log as events, from this phase of the segment on."""
        names, found = self.model.dof_names, []
        for prepared, (begin, end) in zip(self.prepared[first:], self.logs[first:], strict=False):
            for time, code, number, value in self.record.log[begin : min(end, len(self.record.log))]:
                kind = EventKind(int(code))
                if kind in _FRICTION:
                    what, name = _FRICTION[kind], names[int(number)]
                else:
                    what, name, _ = prepared.labels[int(number)]
                found.append(Occurrence(float(time), what, name, float(value), prepared.number))
        found += [
            Occurrence(time, "timeout", self.prepared[k].phase.name, 0.0, self.prepared[k].number)
            for k, time in self.timeouts
            if k >= first
        ]
        since = self.prepared[first].number if self.prepared[first:] else 0
        found += [
            Occurrence(time, "saturation", name, value, log.phase)
            for log in self.commands
            if log.phase >= since
            for time, name, value in log.saturations()
        ]
        return tuple(sorted(found, key=lambda event: event.time))

    @property
    def spans(self) -> list[tuple[PreparedPhase, float, slice]]:
        """Every phase with its start time, s, and its samples."""
        edges = [*self.firsts, int(self.record.counts[0])]
        rows = [slice(first, last) for first, last in pairwise(edges)]
        return list(zip(self.prepared, self.starts, rows, strict=False))

    def keep_end(self) -> None:
        """Keep the end state as the last sample."""
        record, row, end = self.record, int(self.record.counts[0]), self.end_time
        if self.end_position is None or not np.all(np.isfinite(self.work.y)):
            return
        # A sample at the end is replaced by the end itself: it has the final modes and reactions.
        if row and abs(record.times[row - 1] - end) <= 1e-14 * max(1.0, end):
            record.counts[0] = row - 1
        row = int(record.counts[0])
        solver, piece = self.end_position
        solver.keep_sample(piece)
        if row < self.wanted.size and abs(self.wanted[row] - end) < 1e-9:
            record.times[row] = self.wanted[row]

    def sum_audit(self) -> None:
        """Add audited steps to the balances."""
        if self.balances is None:
            return
        rows = self.audit[: self.record.counts[4]]
        for part, balance in zip(self.model.parts, self.balances, strict=True):
            # The buffer is summed and reused: memory does not grow with the number of steps.
            balance.add_steps(rows[:, part.audit])
        self.touches.add(rows)
        self.record.counts[4] = 0
