"""Runs at the same time in one process, so that their phases fly in the lanes of one kernel.

Each run is in a thread of its own, and takes turns with the others: one of them runs Python at a time, and it gives its
turn up in one place only, where it calls the solver. When all stand there, those with the same kernel, as many as there
are, fly side by side (:mod:`spacearm.engine.side_by_side`); whoever has arrived goes on. A run is the same to the last
bit as by itself: what flies beside it has no influence on its steps.

What a run changes for the whole process, the filters of warnings, is its own while it has the turn. Ctrl-C and time
limits come to the thread that waits here, and end all runs. A phase flies alone, on the spot, where it gains nothing
(:func:`spacearm.engine.side_by_side.can_fly`), or where another thread would wait for it with the turn in its hand.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import cached_property
from types import FrameType
from typing import Any, Generic, TypeVar

from spacearm.deadline import check_time, forget_time_limit
from spacearm.engine.machine import host
from spacearm.engine.side_by_side import UNFINISHED, can_fly, fly
from spacearm.engine.solver import BoundSolver, set_pilot
from spacearm.engine.warm import ensure_loops

T = TypeVar("T")

#: Runs at the same time: enough that most phases find others with their kernel.
MOST = 24
#: Bytes of the samples of those that wait beyond which no further run is begun.
ROOM = 400_000_000


def run_side_by_side(runs: Sequence[Callable[[], T]]) -> list[T]:
    """The results of all runs, in their order. An error of one of them ends all."""
    if len(runs) == 1:
        return [runs[0]()]
    ensure_loops("solver", "side by side")
    flights = [_Flight(run) for run in runs]
    coming, waiting = flights[::-1], list[_Flight[T]]()
    try:
        while coming or waiting:
            check_time()
            while coming and len(waiting) < MOST and sum(flight.size for flight in waiting) < ROOM:
                flight = coming.pop()
                if flight.go_on():
                    waiting.append(flight)
            waiting = _fly_fullest(waiting)
    except BaseException:
        for flight in flights:
            flight.abandon()
        raise
    return [flight.result[0] for flight in flights]


def _fly_fullest(waiting: list[_Flight[T]]) -> list[_Flight[T]]:
    """Fly the largest group with one kernel, and let those that have arrived go on; who waits then."""
    groups: dict[Any, list[_Flight[T]]] = {}
    for flight in waiting:
        groups.setdefault(flight.key, []).append(flight)
    group = max(groups.values(), key=len, default=[])
    if not group:
        return []
    # Not to the last of them: half-empty lanes wait for others to come.
    reasons = fly([flight.call for flight in group], min(host().lanes // 2, len(group)))
    for flight, reason in zip(group, reasons, strict=True):
        flight.reason = reason
    ended = [flight for flight in group if flight.reason != UNFINISHED]
    still = [flight for flight in waiting if flight.reason == UNFINISHED]
    return still + [flight for flight in ended if flight.go_on()]


class _AbandonedError(BaseException):
    """Ends a run whose result nobody waits for."""


class _Flight(Generic[T]):
    """A run in a thread of its own, which stands still unless it has the turn."""

    def __init__(self, run: Callable[[], T]) -> None:
        self.result: list[T] = []
        self.reason = UNFINISHED  # of the call that it waits for
        self._run, self._solver = run, list[BoundSolver]()  # the call
        self._failure: BaseException | None = None
        self._abandoned = self._has_turn = self._ended = False
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=copy_context().run, args=(self._fly,), daemon=True)

    @property
    def call(self) -> BoundSolver:
        """The call of the solver that it waits for."""
        return self._solver[0]

    @property
    def key(self) -> tuple[object, object]:
        """The same for calls that may fly side by side."""
        return self.call.kernel, self.call.block.kind

    @property
    def size(self) -> int:
        """Bytes of its samples and audit rows."""
        record = self.call.call.record
        return int(record.y.nbytes + record.inp.nbytes + record.out.nbytes + self.call.call.audit.nbytes)

    def go_on(self) -> bool:
        """Give it the turn until it waits for a call of the solver, or ends; whether it waits."""
        outer = _warning_state()
        self._has_turn = True
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._turn.release()
        while not self._back.acquire(timeout=0.2):
            check_time()
        self._has_turn = False
        _set_warning_state(outer)
        if self._failure is not None:
            raise self._failure
        return not self._ended

    def abandon(self) -> None:
        """End it where it stands, or as soon as it calls the solver."""
        self._abandoned, outer = True, _warning_state()
        while self._thread.ident is not None and not self._ended:
            for solver in self._solver:
                solver.call.stop[0] = 1
            if not self._has_turn:
                self._has_turn = True
                self._turn.release()
            self._has_turn = not self._back.acquire(timeout=0.2)
        _set_warning_state(outer)

    def _fly(self) -> None:
        forget_time_limit()  # the thread that waits looks at it
        set_pilot(self._wait)
        try:
            self.result.append(self._run())
        except BaseException as error:  # handed to that thread
            self._failure = error
        self._ended = True
        self._back.release()

    def _wait(self, solver: BoundSolver) -> int:
        """In the run's own thread: until a call of the solver has been flown."""
        if self._abandoned:
            raise _AbandonedError
        self._solver.append(solver)
        if can_fly(solver) and not _holds_lock():
            self.reason, own = UNFINISHED, _warning_state()
            self._back.release()
            self._turn.acquire()
            _set_warning_state(own)
        else:
            self.reason = solver.fly_alone()
        self._solver.clear()
        if self._abandoned:
            raise _AbandonedError
        return self.reason


def _holds_lock() -> bool:
    """Whether a cached property is being found here: up to Python 3.11 that locks it for all other threads."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is _CACHED_PROPERTY:
            return True
        frame = frame.f_back
    return False


_CACHED_PROPERTY = cached_property.__get__.__code__


def _warning_state() -> tuple[Any, ...]:
    """What :class:`warnings.catch_warnings` changes, which is the process's."""
    return tuple(getattr(warnings, name) for name in _WARNING_STATE)


def _set_warning_state(state: tuple[Any, ...]) -> None:
    for name, value in zip(_WARNING_STATE, state, strict=True):
        setattr(warnings, name, value)
    with warnings.catch_warnings():
        pass  # at its end filters are looked at anew


_WARNING_STATE = ("filters", "showwarning", "_showwarnmsg_impl")
