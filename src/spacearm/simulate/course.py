"""The loop over phases, on buffers: shared by single runs and batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from spacearm.engine.phase import make_audit
from spacearm.engine.record import Record
from spacearm.engine.solver import PAUSED, EventKind, Reason, make_progress, solve
from spacearm.engine.system import System, Work, make_work
from spacearm.errors import InputError
from spacearm.simulate.books import Books
from spacearm.simulate.methods import Method
from spacearm.simulate.motion import Motion, Prepared, Sides, enter, last_sides, starting_sides
from spacearm.simulate.phase import Phase
from spacearm.typing import Array

MAX_STEPS = 1_000_000
MAX_EVENTS = 10_000
#: Numbers of audit rows that are kept before they are summed up: 4 MB.
AUDIT_NUMBERS = 500_000
_FRICTION = {EventKind.STICK: "stick", EventKind.SLIP: "slip", EventKind.REVERSE: "reverse"}


@dataclass(frozen=True)
class Occurrence:
    """Something that happened: ``kind`` is stick, slip, reverse, limit, event, function or timeout."""

    time: float
    kind: str
    name: str
    value: float
    phase: int


@dataclass(frozen=True)
class Stats:
    """What a run cost."""

    steps: int
    rejected: int
    evaluations: int
    events: int


def as_phases(phases: Phase | Sequence[Phase] | float) -> tuple[Phase, ...]:
    if isinstance(phases, Phase):
        return (phases,)
    if isinstance(phases, Real) or (isinstance(phases, np.ndarray) and phases.ndim == 0):
        return (Phase(float(phases)),)
    chosen = tuple(phases) if isinstance(phases, Iterable) else ()
    if not chosen or not all(isinstance(phase, Phase) for phase in chosen):
        raise InputError("phases must be a Phase, several of them, or a duration in seconds", place="simulate")
    return chosen


@dataclass(eq=False)
class Course:
    """The loop over phases, on buffers; also used for each sample of a batch."""

    model: Motion
    prepared: tuple[Prepared, ...]
    method: Method
    max_steps: int = MAX_STEPS
    max_events: int = MAX_EVENTS

    def run(
        self,
        start: Array,
        parameters: Mapping[str, Array],
        record: Record,
        stop: Any,
        books: Books | None = None,
        escale: float = 1.0,
    ) -> Outcome:
        """Integrate from a flat state; samples and the event log go to ``record``, audited steps to ``books``."""
        model, code = self.model, self.model.code
        work = make_work(model.input(parameters), model.kernel.n_out, code.ny)
        work.y[: code.nx] = start
        rtol, atol = self.method.tolerances
        scale = np.full(code.ny, atol)
        scale[code.nx :] = rtol * escale
        options = self.method.options(scale, self.max_steps, self.max_events)
        audit = make_audit(code)
        if books is not None:
            audit = make_audit(code, max(32, AUDIT_NUMBERS // make_audit(code, 1).size))
        outcome = Outcome(work, record)
        time = 0.0
        before: Sides | None = None
        for number, prepared in enumerate(self.prepared):
            sides = starting_sides(prepared, work.y[: code.nx], before)
            system = enter(model, prepared, work, parameters, time, sides)
            progress = make_progress(system, options)
            first, logged = int(record.counts[0]), int(record.counts[1])
            outcome.starts.append(time)
            while (reason := solve(system, options, progress, record, audit, stop)) == PAUSED:
                _take(audit, record, books)
            _take(audit, record, books)
            reached, step = float(progress.now[0]), float(progress.now[1])
            if options.method == 1:
                options = options._replace(step=step)
            outcome.reason = Reason(reason)
            before = last_sides(prepared, system)
            outcome.firsts.append(first)
            outcome.logs.append((logged, int(record.counts[1])))
            local, time = reached, time + reached
            outcome.time = time
            pieces = prepared.signals.breaks
            piece = min(int(np.searchsorted(pieces, local, side="right")), pieces.size - 1) - 1
            outcome.at = (system, piece, local)
            if outcome.reason == Reason.TERMINAL_EVENT and not self._ends_run(prepared, record, outcome.logs[-1]):
                outcome.reason = Reason.FINISHED
                continue
            if outcome.reason != Reason.FINISHED:
                break
            if prepared.phase.until:
                outcome.timeouts.append((number, time))
        return outcome

    @staticmethod
    def _ends_run(prepared: Prepared, record: Record, rows: tuple[int, int]) -> bool:
        """Whether one of the events of the last instant ends more than its phase."""
        log = record.log[rows[0] : rows[1]]
        last = log[log[:, 0] == log[-1, 0]]
        functions = last[last[:, 1] >= EventKind.COMPONENT]
        return any(prepared.labels[int(row[2])][2] == "run" for row in functions)


def _take(audit: Array, record: Record, books: Books | None) -> None:
    """Audited steps into the books."""
    if books is not None:
        books.add_steps(audit[: record.counts[4]])
        record.counts[4] = 0


@dataclass(eq=False)
class Outcome:
    """What a course left in its buffers."""

    work: Work
    record: Record
    reason: Reason = Reason.FINISHED
    time: float = 0.0
    starts: list[float] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    logs: list[tuple[int, int]] = field(default_factory=list)
    timeouts: list[tuple[int, float]] = field(default_factory=list)
    at: tuple[System, int, float] | None = None  # where it ended: piece, s since the phase's start

    def events(self, course: Course) -> tuple[Occurrence, ...]:
        """The log in words."""
        names, found = course.model.robot.dof_names, []
        for phase, (first, last) in enumerate(self.logs):
            labels = course.prepared[phase].labels
            for time, code, number, value in self.record.log[first : min(last, len(self.record.log))]:
                kind = EventKind(int(code))
                if kind in _FRICTION:
                    found.append(Occurrence(float(time), _FRICTION[kind], names[int(number)], float(value), phase))
                else:
                    label = labels[int(number)]
                    found.append(Occurrence(float(time), label[0], label[1], float(value), phase))
        found += [Occurrence(time, "timeout", course.prepared[k].phase.name, 0.0, k) for k, time in self.timeouts]
        return tuple(sorted(found, key=lambda event: event.time))

    @property
    def stats(self) -> Stats:
        counts = self.record.counts
        return Stats(int(counts[2]), int(counts[3]), int(self.work.count[0]), int(counts[1]))
