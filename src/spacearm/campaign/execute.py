"""Run what a campaign still lacks: here, in processes, on a Dask cluster, or one part of a job array.

The unit of work is a chunk: some runs of one cell, one file on disk. A chunk depends on the plan alone, so any worker
may run it at any time, and a campaign that was interrupted goes on with the chunks that are missing. Results do not
depend on the number or kind of workers: where a cell stops early, its chunks are counted in their order and those
behind the end are removed, whoever finished first.

Workers that die are replaced and their chunks given out again, a few times. Signals are held back while processes
start. Runs share no state, and nothing is sent between workers.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from spacearm.campaign.plan import Plan, wilson
from spacearm.campaign.store import Store
from spacearm.campaign.work import FAILED, SOUND, Outcome, check_together, columns, run_chunks, run_one
from spacearm.checks import one_of
from spacearm.deadline import check_time
from spacearm.engine.device import Device, cupy
from spacearm.errors import InputError, SpacearmError, did_you_mean, quoted

#: Runs that are made together on a device, in whole chunks.
TOGETHER: dict[Device, int] = {"cpu": 2048, "gpu": 32768}
#: How often a chunk is given to another process after its own has died.
MOST_DEATHS = 3
Place = tuple[int, int]
#: (share done, what is being done)
Tell = Callable[[float, str], None]


@dataclass
class _Queue:
    """Chunks that are still to be run, cell by cell; a cell ends at the first chunk after which it is sure enough.

    Chunks are counted in their order, whoever finishes first: so the same chunks are kept however many work on them.
    """

    plan: Plan
    store: Store
    part: tuple[int, int] = (0, 1)
    counted: dict[int, list[int]] = field(default_factory=dict)  # cell: chunks counted, successes, runs
    ended: set[int] = field(default_factory=set)
    runs: int = 0

    def __post_init__(self) -> None:
        for cell in range(len(self.plan.cells)):
            self.counted[cell] = [0, 0, 0]
            self.count(cell)

    def count(self, cell: int) -> None:
        """Count the chunks of a cell that are there and follow one another."""
        state, stop = self.counted[cell], self.plan.file.stop
        while cell not in self.ended and state[0] < self.plan.chunks and self.store.has(cell, state[0]):
            good, runs = self.store.successes(cell, state[0])
            state[:] = state[0] + 1, state[1] + good, state[2] + runs
            self.runs += runs
            if stop is not None and state[2] >= stop.least:
                low, high = wilson(state[1], state[2], stop.confidence)
                # Looked at after each chunk in order: a sequential test whose end does not depend on the order of
                # completion.
                if 0.5 * (high - low) <= stop.half_width:
                    self.ended.add(cell)
        if state[0] == self.plan.chunks:
            self.ended.add(cell)

    def waiting(self) -> Iterator[Place]:
        """What to run next; cells take turns, so that all of them are seen early."""
        index, parts = self.part
        for chunk in range(self.plan.chunks):
            for cell in range(len(self.plan.cells)):
                # A fixed share of the places for each job of an array: no lock and no server between them.
                if (chunk * len(self.plan.cells) + cell) % parts != index:
                    continue
                if cell not in self.ended and not self.store.has(cell, chunk):
                    yield cell, chunk

    def tidy(self) -> None:
        """Remove chunks behind the end of their cell, which others finished meanwhile."""
        for cell, chunk in list(self.store.done()):
            if cell in self.ended and chunk >= self.counted[cell][0]:
                self.store.path(cell, chunk).unlink(missing_ok=True)


def run_campaign(
    plan: Plan,
    folder: Path,
    *,
    workers: int = 1,
    dask: str = "",
    part: tuple[int, int] = (0, 1),
    device: Device | None = None,
    progress: Tell | None = None,
) -> Store:
    """Run what is missing of a campaign; one that was interrupted goes on.

    Args:
        folder: for the manifest and the runs.
        workers: processes on this machine.
        dask: address of a scheduler, or ``local`` for a cluster of processes that is started here.
        part: (k, n): only every n-th chunk, from the k-th on, for arrays of jobs that share the folder.
        device: makes the runs side by side in fixed steps: ``cpu`` in vector lanes, ``gpu`` each in a thread of a GPU.
            None: one after the other, whatever the scenario.
        progress: told the share that is done, and the rate.

    Raises:
        LanesError: with a device, says what in the scenario cannot be made so.
    """
    if device is not None:
        one_of(device, TOGETHER, "device", place="campaign")
        if device == "gpu":
            cupy()  # or an error before anything is written
        check_together(plan)
    if not (0 <= part[0] < part[1]):
        raise InputError(f"part {part[0]} of {part[1]}", place="part", hint="expected 0/N to N-1/N")
    store = Store.begin(folder, plan, device is not None)
    queue = _Queue(plan, store, part)
    names = _names(plan, store, device)
    began, before = time.monotonic(), queue.runs

    def keep(outcomes: list[Outcome]) -> None:
        store.write(plan, names, outcomes)
        queue.count(outcomes[0].cell)
        if progress is not None:
            rate = max(queue.runs - before, len(outcomes)) / max(time.monotonic() - began, 1e-9)
            progress(queue.runs / plan.total, f"{queue.runs} of at most {plan.total} runs, {rate:.3g} a second")

    with _pool(workers, dask) as submit:
        most = 1 if device is None else min(TOGETHER[device], -(-plan.total // workers))
        _drain(plan, _batches(plan, queue, most), queue, keep, submit, workers, device)
    queue.tidy()
    return store


def _names(plan: Plan, store: Store, device: Device | None) -> dict[str, str]:
    """Rows that all chunks keep: those of the first."""
    if not store.has(0, 0):
        try:
            if plan.file.require:
                first = run_one(plan, 0, 0)
                if first.status == SOUND and first.values.get("success", 1.0):  # it has all the rows that there can be
                    _check_required(plan, [first])
            (outcomes,) = run_chunks(plan, [(0, 0)], device)
            if any(outcome.status != FAILED for outcome in outcomes):
                _check_required(plan, outcomes)
        except InputError:
            store.abandon()  # so that the mended campaign may have the folder
            raise
        if all(outcome.status == FAILED for outcome in outcomes):
            raise SpacearmError(
                f"all {len(outcomes)} runs of the first chunk failed: {outcomes[0].reason}",
                hint="run the scenario alone, then the campaign",
            )
        store.write(plan, columns(outcomes), outcomes)
    return store.names()


def _check_required(plan: Plan, outcomes: list[Outcome]) -> None:
    """Every requirement is about a row that one of these runs has."""
    known = sorted({name.removeprefix("result.") for outcome in outcomes for name in outcome.units})
    for k, require in enumerate(plan.file.require):
        if require.row not in known:
            raise InputError(
                f"the scenario's results have no row {quoted(require.row)}", place=f"require[{k}].row",
                hint=did_you_mean(require.row, known),
            )  # fmt: skip


def _batches(plan: Plan, queue: _Queue, most: int) -> Iterator[list[Place]]:
    """Chunks that are run together: as many as hold ``most`` runs, one at least."""
    batch: list[Place] = []
    for place in queue.waiting():
        batch.append(place)
        if sum(len(plan.numbers(chunk)) for _, chunk in batch) >= most:
            yield batch
            batch = []
    if batch:
        yield batch


Submit = Callable[[Plan, list[Place], Device | None], Any]


def _drain(
    plan: Plan,
    batches: Iterator[list[Place]],
    queue: _Queue,
    keep: Callable[[list[Outcome]], None],
    submit: Submit | None,
    workers: int,
    device: Device | None,
) -> None:
    """Run all batches, with a few under way at a time where there are others to run them."""

    def keep_all(found: list[list[Outcome]]) -> None:
        for outcomes in found:
            if outcomes[0].cell not in queue.ended:
                keep(outcomes)

    if submit is None:
        for batch in batches:
            check_time()
            keep_all(run_chunks(plan, batch, device))
        return
    busy: dict[Any, list[Place]] = {}
    while True:
        # Two batches for each worker: none is idle while results are written, and few are run in vain when a cell ends.
        while len(busy) < max(2, 2 * workers) and (batch := next(batches, [])):
            busy[submit(plan, batch, device)] = batch
        if not busy:
            return
        for future in _ready(busy):
            del busy[future]
            try:
                keep_all(future.result())
            except CancelledError as error:
                raise SpacearmError(
                    "the cluster has lost a chunk", hint="what is finished is kept: the same command goes on"
                ) from error


def _ready(busy: dict[Any, list[Place]]) -> list[Any]:
    while True:
        check_time()
        if all(isinstance(future, Future) for future in busy):
            done = list(wait(busy, timeout=0.5, return_when=FIRST_COMPLETED).done)
        else:
            done = [future for future in busy if future.done()]
            if not done:
                time.sleep(0.05)
        if done:
            return done


@contextmanager
def _pool(workers: int, dask: str) -> Iterator[Submit | None]:
    if dask:
        with _cluster(workers, dask) as submit:
            yield submit
    elif workers == 1:
        yield None
    else:
        with _one_blas_thread():
            processes = _Processes(workers)
            try:
                yield processes.submit
            finally:
                processes.close()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """For processes that are started inside: their matrices are small, and they would wait for each other's threads."""
    name = "OPENBLAS_NUM_THREADS"
    given = name in os.environ
    os.environ.setdefault(name, "1")
    try:
        yield
    finally:
        if not given:
            del os.environ[name]


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Ctrl-C and SIGTERM come after the block; processes that are started inside never hear Ctrl-C.

    Half-started processes cannot be ended cleanly. Those that run are ended by this one, which hears the signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # whoever starts it unblocks the signals of his thread
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: own for number, own in handlers.items() if callable(own) or own == signal.SIG_DFL}
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which processes inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, own in handlers.items():
            signal.signal(number, own)
    if came:
        signal.raise_signal(came[0])


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, be it killed: called in processes of a pool."""
    parent = multiprocessing.parent_process()
    name = "spacearm-parent"
    if parent is None or any(thread.name == name for thread in threading.enumerate()):
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name=name, daemon=True).start()


def _run_in_worker(*work: Any) -> list[list[Outcome]]:
    """:func:`run_chunks`, in a process that somebody else has started."""
    _end_with_parent()
    return run_chunks(*work)


class _Processes:
    """Processes that are started again when one of them dies."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: the parent has threads (BLAS, Numba), and a forked child may inherit their locks.
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, mp_context=spawn, initializer=_end_with_parent)

    def submit(self, plan: Plan, batch: list[Place], device: Device | None) -> Future[list[list[Outcome]]]:
        future: Future[list[list[Outcome]]] = Future()
        self._try(future, (plan, batch, device), 0)
        return future

    def _try(self, future: Future[list[list[Outcome]]], work: tuple[Any, ...], deaths: int) -> None:
        pool = self.pool

        def done(inner: Future[list[list[Outcome]]]) -> None:
            if inner.cancelled():
                future.cancel()
                return
            error = inner.exception()
            if isinstance(error, BrokenProcessPool) and deaths < MOST_DEATHS:
                if self.pool is pool:
                    self.pool = self._start()
                self._try(future, work, deaths + 1)
            elif isinstance(error, BrokenProcessPool):
                cell, chunk = work[1][0]
                future.set_exception(
                    SpacearmError(
                        f"the process that ran chunk {chunk} of cell {cell} died {deaths + 1} times",
                        hint="what is finished is kept; fewer workers need less memory",
                    )
                )
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(inner.result())

        try:
            with _signals_wait():
                inner = pool.submit(run_chunks, *work)
            inner.add_done_callback(done)
        except BrokenProcessPool:
            if self.pool is pool:
                self.pool = self._start()
            self._try(future, work, deaths)

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        # shutdown lets a running chunk finish, which may take long after Ctrl-C; what it would have written is made
        # again.
        for process in (getattr(self.pool, "_processes", None) or {}).values():
            process.terminate()


@contextmanager
def _cluster(workers: int, address: str) -> Iterator[Submit]:
    """A Dask cluster, somebody else's or one of processes that is started here."""
    try:
        import distributed
    except ImportError as error:
        raise SpacearmError("a cluster needs Dask", hint="pip install 'spacearm[cluster]'") from error
    library: Any = distributed
    opened: list[Any] = []  # the cluster, then the client
    try:
        try:
            with _signals_wait():
                if address == "local":  # what goes wrong comes back with the chunks: nothing needs to be logged
                    opened.append(library.LocalCluster(
                        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
                        silence_logs="CRITICAL",
                    ))  # fmt: skip
                opened.append(library.Client(*opened or [address], timeout="20s"))
        except Exception as error:  # Dask has many, and some without a class of their own
            what = (
                "the cluster could not be started"
                if address == "local"
                else f"there is no Dask scheduler at {address!r}"
            )
            raise SpacearmError(f"{what}: {error}") from error
        client = opened[-1]
        yield lambda *work: client.submit(_run_in_worker, *work, pure=False, retries=MOST_DEATHS)
    except Exception as error:
        if type(error).__module__.startswith("distributed"):
            raise SpacearmError(
                f"the cluster failed: {error}", hint="what is finished is kept: the same command goes on"
            ) from error
        raise
    finally:
        for each in reversed(opened):
            with suppress(Exception):  # one that is broken already
                each.close(timeout=5)
