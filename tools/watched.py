"""Calls in worker processes that may crash, hang or eat memory without taking the caller along."""

from __future__ import annotations

import contextlib
import json
import multiprocessing as mp
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

#: A call that is not given the processor may last so many times as long as it may work.
ASLEEP = 30
#: Preparing a worker (imports, compilation) may take so many times as long as a call.
PREPARING = 30


class Outcome(NamedTuple):
    """How one call ended; ``kind`` begins with FAULT where it did not end well."""

    number: int
    kind: str
    note: str
    seconds: float
    changes: str


class _Worker:
    def __init__(self, judge: Callable[[int], Outcome], prepare: Callable[[], None]) -> None:
        self.link, other = mp.Pipe()
        self.process = mp.get_context("fork").Process(target=_serve, args=(judge, prepare, other), daemon=True)
        self.process.start()
        other.close()
        self.number: int | None = None  # of the case at hand; none until the worker says that it is prepared
        self.since, self.used = time.monotonic(), 0.0

    def give(self, number: int) -> None:
        self.number, self.since, self.used = number, time.monotonic(), self.cpu()
        self.link.send(number)

    def cpu(self) -> float:
        """CPU seconds of the process so far: on a busy machine the wall clock says nothing about the work."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # what clock_getcpuclockid(3) returns

    def overdue(self, longest: float) -> bool:
        return self.cpu() - self.used > longest or time.monotonic() - self.since > ASLEEP * longest

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.link.close()


def _serve(judge: Callable[[int], Outcome], prepare: Callable[[], None], link: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # what native code prints when it dies
    prepare()
    link.send(None)
    while True:
        link.send(judge(link.recv()))


def run_watched(
    judge: Callable[[int], Outcome],
    prepare: Callable[[], None],
    numbers: Iterable[int],
    workers: int,
    longest: float,
) -> Iterator[Outcome]:
    """``judge(number)`` for each number, as they end; one that takes more than ``longest`` s of CPU time is killed.

    So is one that has waited for :data:`ASLEEP` times as long.

    Workers are forked, so call this from a process without threads: a lock that another thread holds stays locked in
    the child for ever. Heavy modules are imported in the workers, after the fork. A worker that dies is replaced.
    """
    left = deque(numbers)
    actuators: list[_Worker] = []
    try:
        while left or actuators:
            while left and len(actuators) < workers:
                actuators.append(_Worker(judge, prepare))
            ready = wait([worker.link for worker in actuators], timeout=1.0)
            for worker in list(actuators):
                outcome = None
                if worker.link in ready:
                    try:
                        outcome = worker.link.recv()
                    except (EOFError, OSError):
                        outcome = _crash(worker)
                        _dismiss(actuators, worker)
                    else:
                        if left:
                            worker.give(left.popleft())
                        else:
                            _dismiss(actuators, worker)
                elif worker.number is None and worker.overdue(PREPARING * longest):
                    raise RuntimeError(f"a worker could not be prepared within {PREPARING * longest:g} s of CPU time")
                elif worker.number is not None and worker.overdue(longest):
                    used = worker.cpu() - worker.used
                    outcome = Outcome(worker.number, "FAULT: hang", f"killed after {used:.0f} s of CPU time", used, "")
                    _dismiss(actuators, worker)
                if outcome is not None:
                    yield outcome
    finally:
        for worker in actuators:
            worker.end()


def _crash(worker: _Worker) -> Outcome:
    worker.process.join()
    status = f"exit status {worker.process.exitcode}"
    if worker.number is None:
        raise RuntimeError(f"a worker could not be prepared, {status}")
    return Outcome(worker.number, f"FAULT: crash, {status}", "", time.monotonic() - worker.since, "")


def _dismiss(actuators: list[_Worker], worker: _Worker) -> None:
    actuators.remove(worker)
    worker.end()


def report(outcomes: Iterable[Outcome], log: Path | None = None) -> int:
    """Prints faults as they come and how many there are of each kind; returns the exit status.

    ``log`` gets every outcome as a line of JSON.
    """
    kinds: Counter[str] = Counter()
    total, slowest = 0.0, (0.0, -1)
    with contextlib.ExitStack() as stack:
        file = None if log is None else stack.enter_context(log.open("a"))
        for done, outcome in enumerate(outcomes, 1):
            kinds[outcome.kind] += 1
            total += outcome.seconds
            slowest = max(slowest, (outcome.seconds, outcome.number))
            if file is not None:
                print(json.dumps(outcome._asdict()), file=file, flush=True)
            if outcome.kind.startswith("FAULT"):
                print(f"{outcome.number}: {outcome.kind}\n  {outcome.changes}\n  {outcome.note.strip()}", flush=True)
            if done % 500 == 0:
                print(f"{done}: {dict(kinds)}, {total:.0f} s of CPU time", flush=True)
    for kind, count in sorted(kinds.items()):
        print(f"{count:7d}  {kind}")
    faults = sum(count for kind, count in kinds.items() if kind.startswith("FAULT"))
    print(f"{kinds.total()} cases, {faults} faults, slowest {slowest[0]:.1f} s of CPU time (case {slowest[1]})")
    return 1 if faults else 0
