"""Many samples through one kernel: gather W of them into lanes, call, scatter; over threads.

W is the number of doubles in a vector register of the processor. A kernel wants the same number of W samples side by
side, arrays have the numbers of one sample side by side: groups are transposed on their way in and out, in blocks that
stay in registers (:mod:`spacearm.engine._lanes`). Inputs that are the same for all samples are laid out once.

The loop knows addresses and sizes only, so it is compiled once for all robots. The last group is filled up with copies
of its last sample; every sample passes through the same code, wherever it stands, so that its bits depend neither on
its place nor on the number of threads. Chunks go to threads that stay alive; compiled code runs without the
interpreter's lock. Numbers that are not finite are counted and reported by the first sample that has them, not raised:
one bad sample must not cost the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.engine._call import call_kernel
from spacearm.engine._lanes import BLOCK, all_finite, load_double, prefetch, store_double, transpose_in, transpose_out
from spacearm.engine.loops import compile_inner, compile_loop
from spacearm.typing import Array

Table: TypeAlias = npt.NDArray[np.int64]

#: Samples that a thread takes at a time: small enough to stop soon, large enough to cost nothing.
CHUNK = 4096


@compile_inner
def _gather(sources: Table, group: int, lanes: int, width: int, inputs: Array) -> None:
    """The inputs that vary, of ``lanes`` samples from ``group`` on, to [n_in][width]; a group is filled up."""
    for k in range(sources.shape[0]):
        if not sources[k, 3]:
            continue
        length, offset = sources[k, 1], sources[k, 2]
        start = sources[k, 0] + 8 * length * group
        # The next group, which would else be waited for: arrays of many samples do not stay in the nearest cache.
        prefetch(start + 8 * length * width, 8 * length * width)
        first = 0
        if lanes == width and width > 1 and length >= BLOCK:
            # Blocks of four; the last one overlaps the one before where four does not divide the length.
            place = inputs.ctypes.data + 8 * width * offset
            while first < length:
                at = min(first, length - BLOCK)
                transpose_in(start + 8 * at, 8 * length, place + 8 * width * at)
                first += BLOCK
        # What is left: short inputs, single samples, and the last group, whose missing lanes repeat its last sample.
        for i in range(first, length):
            for lane in range(width):
                row = start + 8 * length * min(lane, lanes - 1)
                inputs[(offset + i) * width + lane] = load_double(row + 8 * i)


@compile_inner
def _scatter(targets: Table, group: int, lanes: int, width: int, outputs: Array) -> None:
    """[n_out][width] to the rows of ``lanes`` samples from ``group`` on."""
    for k in range(targets.shape[0]):
        length, offset = targets[k, 1], targets[k, 2]
        start = targets[k, 0] + 8 * length * group
        first = 0
        # Rows of a last group that is not full must not be written beyond its samples: one by one below.
        if lanes == width and width > 1 and length >= BLOCK:
            place = outputs.ctypes.data + 8 * width * offset
            while first < length:
                at = min(first, length - BLOCK)
                transpose_out(place + 8 * width * at, start + 8 * at, 8 * length)
                first += BLOCK
        for i in range(first, length):
            for lane in range(lanes):
                store_double(start + 8 * (length * lane + i), outputs[(offset + i) * width + lane])


@compile_loop
def _allocate_cache_lines(size: int) -> Array:
    """Memory that starts on a cache line, so that no vector lies across two of them."""
    memory = np.empty(size + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip : skip + size]


@compile_loop
def _run(
    address: int, width: int, sources: Table, targets: Table, start: int, stop: int, n_in: int, n_out: int
) -> tuple[int, int]:
    """Samples start..stop. ``sources`` rows: address, row length, offset, 1 if it varies; ``targets``: the first 3.

    ``width`` is 1 or the lanes of this processor. Returns how many samples gave a number that is not finite, and the
    first of them.
    """
    inputs = _allocate_cache_lines(n_in * width)
    outputs = _allocate_cache_lines(n_out * width)
    # All inputs once, into all lanes: those that do not vary are never touched again.
    for k in range(sources.shape[0]):
        for i in range(sources[k, 1]):
            value = load_double(sources[k, 0] + 8 * i)
            for lane in range(width):
                inputs[(sources[k, 2] + i) * width + lane] = value
    return _groups(address, width, sources, targets, start, stop, n_out, inputs, outputs)


@compile_inner
def _groups(
    address: int,
    width: int,
    sources: Table,
    targets: Table,
    start: int,
    stop: int,
    n_out: int,
    inputs: Array,
    outputs: Array,
) -> tuple[int, int]:
    """Samples start..stop through arrays for one group, in which what all have in common stands already."""
    # Counted in the loop: looking through large results again would cost as much as writing them.
    bad, first = 0, -1
    for group in range(start, stop, width):
        lanes = min(width, stop - group)
        _gather(sources, group, lanes, width, inputs)
        call_kernel(address, inputs, outputs)
        _scatter(targets, group, lanes, width, outputs)
        # All finite as a rule: one test for the group; which sample is not is searched for only where the test fails.
        if width > 1 and all_finite(outputs.ctypes.data, n_out):
            continue
        for lane in range(lanes):
            finite = True
            for i in range(n_out):
                finite = finite and np.isfinite(outputs[i * width + lane])
            if not finite:
                if bad == 0:
                    first = group + lane
                bad += 1
    return bad, first


def default_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that stay: to start them would take as long as some ten thousand samples."""
    return ThreadPoolExecutor(workers, thread_name_prefix="spacearm")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has none of these threads


def run_batch(
    address: int,
    width: int,
    inputs: list[tuple[Array, slice, bool]],
    outputs: list[tuple[Array, slice]],
    count: int,
    n_in: int,
    n_out: int,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, int]:
    """Run ``count`` samples; inputs are (array, place among flat inputs, varies). Returns (bad samples, first)."""
    sources = np.array(
        [(a.ctypes.data, place.stop - place.start, place.start, varies) for a, place, varies in inputs],
        dtype=np.int64,
    ).reshape(-1, 4)
    targets = np.array(
        [(a.ctypes.data, place.stop - place.start, place.start) for a, place in outputs], dtype=np.int64
    ).reshape(-1, 3)
    # Chunks are multiples of the width, so that groups do not depend on the number of threads.
    edges = [*range(0, count, CHUNK), count]
    results: list[tuple[int, int]] = []

    # Compiled code without the interpreter's lock: plain threads are enough.
    def work(chunk: int) -> tuple[int, int]:
        return _run(address, width, sources, targets, edges[chunk], edges[chunk + 1], n_in, n_out)

    workers = min(threads or default_threads(), len(edges) - 1)
    chunks = range(len(edges) - 1)
    futures = [_pool(workers).submit(work, chunk) for chunk in chunks] if workers > 1 else []
    try:
        for chunk in chunks:
            results.append(futures[chunk].result() if futures else work(chunk))
            if progress is not None:
                progress(edges[chunk + 1], count)
    finally:
        # After an interruption too nothing may run on: the arrays' memory is about to be given back.
        for future in futures:
            future.cancel()
        wait(futures)
    bad = sum(found for found, _ in results)
    return bad, next((first for found, first in results if found), -1)
