"""Execution of what a campaign still lacks: in this process, in a pool of processes, on a Dask cluster, or as one part
of a job array.

The unit of work is a chunk: some runs of one cell, one file on disk. A chunk depends on the plan alone, so any worker
may run it at any time, and a campaign that was interrupted continues with the chunks that are missing. Results do not
depend on the number or kind of workers: where a cell stops early, its chunks are counted in their order and those
behind the end are removed, whoever finished first.

Workers that die are replaced and their chunks submitted again, a few times. Signals are blocked while processes start.
Runs share no state, and nothing is sent between workers.
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
from fnmatch import fnmatchcase
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from spacearm.campaign._side_by_side import MOST
from spacearm.campaign._work import FAILED, RunOutcome, check_vectorisable, columns, run_chunks, run_one, select_rows
from spacearm.campaign._worst_case import search_worst_cases
from spacearm.campaign.decide import is_finished
from spacearm.campaign.plan import CampaignPlan
from spacearm.campaign.store import Store
from spacearm.checks import one_of
from spacearm.deadline import check_time
from spacearm.engine.device import Device, cupy
from spacearm.errors import InputError, SpacearmError, did_you_mean, quote_text

#: Runs that are made together, in whole chunks: on a device, or each by itself.
TOGETHER: dict[Device | None, int] = {"cpu": 2048, "gpu": 32768, None: MOST}
#: In how many parts a worker's share is at least, without a device.
PARTS = 4
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

    plan: CampaignPlan
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
        state = self.counted[cell]
        while cell not in self.ended and state[0] < self.plan.chunks and self.store.has(cell, state[0]):
            good, runs = self.store.successes(cell, state[0])
            state[:] = state[0] + 1, state[1] + good, state[2] + runs
            self.runs += runs
            # Asked after each chunk in order, so that the end does not depend on the order of completion.
            if is_finished(self.plan.file, state[1], state[2]):
                self.ended.add(cell)

    def pending_chunks(self) -> Iterator[Place]:
        """Chunks to run next, one of each cell in rotation, so that all cells have early results."""
        index, parts = self.part
        for chunk in range(self.plan.chunks):
            for cell in range(len(self.plan.cells)):
                # A fixed share of the places for each job of an array: no lock and no server between them.
                if (chunk * len(self.plan.cells) + cell) % parts != index:
                    continue
                self.count(cell)  # other jobs may have ended it
                if cell not in self.ended and not self.store.has(cell, chunk):
                    yield cell, chunk

    def remove_surplus(self) -> None:
        """Remove chunks behind the end of their cell, which others finished meanwhile."""
        for cell, chunk in list(self.store.stored_chunks()):
            if cell in self.ended and chunk >= self.counted[cell][0]:
                self.store.path(cell, chunk).unlink(missing_ok=True)


def run_campaign(
    plan: CampaignPlan,
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
        device: runs are vectorised in fixed steps: ``cpu`` in vector lanes, ``gpu`` each in a thread of a GPU.
            None: each by itself, with steps of its own, whatever the scenario.
        progress: called with the share that is done, and a text with the rate.

    Raises:
        VectorisedError: with a device, states what in the scenario cannot be vectorised.
    """
    if device is not None:
        one_of(device, [name for name in TOGETHER if name], "device", place="campaign")
        if device == "gpu":
            cupy()  # or an error before anything is written
        check_vectorisable(plan)
    if not (0 <= part[0] < part[1]):
        raise InputError(f"part {part[0]} of {part[1]}", place="part", hint="expected 0/N to N-1/N")
    store = Store.begin(folder, plan, device is not None)
    queue = _Queue(plan, store, part)
    names = _names(plan, store, device)
    began, before = time.monotonic(), queue.runs

    def keep(outcomes: list[RunOutcome]) -> None:
        store.write(plan, names, outcomes)
        queue.count(outcomes[0].cell)
        if progress is not None:
            rate = max(queue.runs - before, len(outcomes)) / max(time.monotonic() - began, 1e-9)
            progress(queue.runs / plan.total, f"{queue.runs} of at most {plan.total} runs, {rate:.3g} a second")

    with _pool(workers, dask) as submit:
        # Large batches fill the lanes; each worker still gets a share, of runs by themselves in several parts, so that
        # little is lost with a worker.
        parts = workers * (1 if device else PARTS)
        most = min(TOGETHER[device], -(-plan.total // parts))
        _run_batches(plan, _batches(plan, queue, most), queue, keep, submit, workers, device)
        queue.remove_surplus()
        # Jobs of an array each have a part of the runs: the call that finishes the campaign searches.
        if plan.file.worst_case is not None and part == (0, 1):
            search_worst_cases(plan, store, partial(_evaluate_points, submit, workers), progress)
    return store


def _evaluate_points(submit: Submit | None, workers: int, plan: CampaignPlan, cell: int) -> list[RunOutcome]:
    """All runs of a plan in one cell, shared by the workers."""
    places = [(cell, number) for number in range(plan.chunks)]
    if submit is None:
        return [outcome for found in run_chunks(plan, places) for outcome in found]
    share = -(-len(places) // workers)
    futures = [submit(plan, places[first : first + share], None) for first in range(0, len(places), share)]
    busy: dict[Any, list[Place]] = {future: [] for future in futures}
    while busy:
        for future in _ready(busy):
            del busy[future]
    try:
        return [outcome for future in futures for found in future.result() for outcome in found]
    except CancelledError as error:
        raise SpacearmError(
            "the cluster has lost a chunk", hint="finished runs are kept; run the same command to continue"
        ) from error


def _names(plan: CampaignPlan, store: Store, device: Device | None) -> dict[str, str]:
    """Rows that all chunks keep, with their units: those of the first runs."""
    if not store.has(0, 0):
        try:
            outcomes, seen = _run_first_chunk(plan, device)
        except InputError:
            store.abandon()  # so that the mended campaign may have the folder
            raise
        if all(outcome.status == FAILED for outcome in outcomes):
            raise SpacearmError(
                f"all {len(outcomes)} runs of the first chunk failed: {outcomes[0].reason}",
                hint="run the scenario alone, then the campaign",
            )
        # The first chunk fixes the columns of all others.
        store.write(plan, columns(seen), outcomes)
    return store.names()


def _run_first_chunk(plan: CampaignPlan, device: Device | None) -> tuple[list[RunOutcome], list[RunOutcome]]:
    """The runs of the first chunk, and those whose rows are known by then.

    A run that is stopped by a limit lacks the rows of what would have followed. Where no run of the first chunk went to
    its end, the first run of each further cell is made, until one does.
    """
    # One run before the chunk: a wrong row name is an error within seconds.
    first = [run_one(plan, 0, 0)] if device is None else []
    if any(outcome.whole for outcome in first):
        _check_rows(plan, first)
    (outcomes,) = run_chunks(plan, [(0, 0)], device, first)
    seen = list(outcomes)
    if all(outcome.status == FAILED for outcome in outcomes):
        return outcomes, seen
    for cell in range(1, len(plan.cells)):
        if any(outcome.whole for outcome in seen):
            break
        check_time()
        seen.append(select_rows(plan, run_one(plan, cell, 0)))
    _check_rows(plan, seen)
    if plan.file.worst_case is not None and all(outcome.margin is None for outcome in seen):
        raise InputError(
            "the runs have no margin that could be searched",
            place="worst_case",
            hint="expected [[require]], or a scenario with limits of its own",
        )
    return outcomes, seen


def _check_rows(plan: CampaignPlan, outcomes: list[RunOutcome]) -> None:
    """Every row that the file names is one that one of these runs has."""
    known = sorted({name.removeprefix("result.") for outcome in outcomes for name in outcome.units})
    named = [(f"rows[{k}]", row) for k, row in enumerate(plan.file.rows)]
    named += [(f"require[{k}].row", require.row) for k, require in enumerate(plan.file.require)]
    for place, row in named:
        if row not in known and not (place.startswith("rows") and any(fnmatchcase(name, row) for name in known)):
            raise InputError(
                f"the scenario's results have no row {quote_text(row)}", place=place, hint=did_you_mean(row, known)
            )


def _batches(plan: CampaignPlan, queue: _Queue, most: int) -> Iterator[list[Place]]:
    """Chunks that are run together: as many as hold ``most`` runs, one at least."""
    batch: list[Place] = []
    for place in queue.pending_chunks():
        batch.append(place)
        if sum(len(plan.numbers(chunk)) for _, chunk in batch) >= most:
            yield batch
            batch = []
    if batch:
        yield batch


Submit = Callable[[CampaignPlan, list[Place], Device | None], Any]


def _run_batches(
    plan: CampaignPlan,
    batches: Iterator[list[Place]],
    queue: _Queue,
    keep: Callable[[list[RunOutcome]], None],
    submit: Submit | None,
    workers: int,
    device: Device | None,
) -> None:
    """Run all batches: in this process, or with a few submitted to workers at a time."""

    def keep_all(found: list[list[RunOutcome]]) -> None:
        for outcomes in found:
            # A chunk of a cell that has ended meanwhile is not kept: it would depend on timing.
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
                    "the cluster has lost a chunk", hint="finished runs are kept; run the same command to continue"
                ) from error


def _ready(busy: dict[Any, list[Place]]) -> list[Any]:
    while True:
        check_time()
        if all(isinstance(future, Future) for future in busy):
            done = list(wait(busy, timeout=0.5, return_when=FIRST_COMPLETED).done)
        else:
            # Futures of Dask are not those of the standard library: they are polled.
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
        # A parent that is killed cannot end its children; orphans would keep computing.
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name=name, daemon=True).start()


def _run_in_worker(*work: Any) -> list[list[RunOutcome]]:
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

    def submit(self, plan: CampaignPlan, batch: list[Place], device: Device | None) -> Future[list[list[RunOutcome]]]:
        future: Future[list[list[RunOutcome]]] = Future()
        self._try(future, (plan, batch, device), 0)
        return future

    def _try(self, future: Future[list[list[RunOutcome]]], work: tuple[Any, ...], deaths: int) -> None:
        pool = self.pool

        def forward_result(inner: Future[list[list[RunOutcome]]]) -> None:
            if inner.cancelled():
                future.cancel()
                return
            error = inner.exception()
            if isinstance(error, BrokenProcessPool) and deaths < MOST_DEATHS:
                # One dead worker breaks the whole pool and all its futures: the first to notice replaces it.
                if self.pool is pool:
                    self.pool = self._start()
                self._try(future, work, deaths + 1)
            elif isinstance(error, BrokenProcessPool):
                cell, chunk = work[1][0]
                future.set_exception(
                    SpacearmError(
                        f"the process that ran chunk {chunk} of cell {cell} died {deaths + 1} times",
                        hint="finished runs are kept; fewer workers need less memory",
                    )
                )
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(inner.result())

        try:
            with _signals_wait():
                inner = pool.submit(run_chunks, *work)
            inner.add_done_callback(forward_result)
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
                f"the cluster failed: {error}", hint="finished runs are kept; run the same command to continue"
            ) from error
        raise
    finally:
        for each in reversed(opened):
            with suppress(Exception):  # one that is broken already
                each.close(timeout=5)
