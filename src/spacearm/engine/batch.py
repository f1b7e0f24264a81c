"""Many samples through one kernel: gather W of them into lanes, call, scatter; over threads.

The loop knows addresses and sizes only, so it is compiled once for all robots. The last group is filled up with
copies of its last sample; every sample passes through the same code, wherever it stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spacearm.engine.call import call_kernel
from spacearm.engine.loops import compiled
from spacearm.model.parts import Array

Table: TypeAlias = npt.NDArray[np.int64]

#: Samples that a thread takes at a time: small enough to stop soon, large enough to cost nothing.
CHUNK = 16384


@intrinsic
def _load(typingctx: Any, address: Any) -> Any:
    """The double at an address."""
    del typingctx, address

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

    return types.float64(types.intp), generate


@intrinsic
def _store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a double to an address."""
    del typingctx, address, value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        builder.store(args[1], builder.inttoptr(args[0], ir.DoubleType().as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.float64), generate


@compiled
def _run(
    address: int, width: int, sources: Table, targets: Table, start: int, stop: int, n_in: int, n_out: int
) -> tuple[int, int]:
    """Samples start..stop. ``sources`` rows: address, row length, offset, 1 if it varies; ``targets``: the first 3.

    Returns how many samples gave a number that is not finite, and the first of them.
    """
    inputs = np.empty(n_in * width)
    outputs = np.empty(n_out * width)
    for k in range(sources.shape[0]):
        for i in range(sources[k, 1]):
            value = _load(sources[k, 0] + 8 * i)
            for lane in range(width):
                inputs[(sources[k, 2] + i) * width + lane] = value
    bad, first = 0, -1
    for group in range(start, stop, width):
        lanes = min(width, stop - group)
        for k in range(sources.shape[0]):
            if sources[k, 3]:
                length, offset = sources[k, 1], sources[k, 2]
                for lane in range(width):
                    row = sources[k, 0] + 8 * length * (group + min(lane, lanes - 1))
                    for i in range(length):
                        inputs[(offset + i) * width + lane] = _load(row + 8 * i)
        call_kernel(address, inputs, outputs)
        for lane in range(lanes):
            finite = True
            for k in range(targets.shape[0]):
                length, offset = targets[k, 1], targets[k, 2]
                row = targets[k, 0] + 8 * length * (group + lane)
                for i in range(length):
                    value = outputs[(offset + i) * width + lane]
                    finite = finite and np.isfinite(value)
                    _store(row + 8 * i, value)
            if not finite:
                if bad == 0:
                    first = group + lane
                bad += 1
    return bad, first


def default_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


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

    def work(chunk: int) -> tuple[int, int]:
        return _run(address, width, sources, targets, edges[chunk], edges[chunk + 1], n_in, n_out)

    workers = min(threads or default_threads(), len(edges) - 1)
    if workers <= 1:
        for chunk in range(len(edges) - 1):
            results.append(work(chunk))
            if progress is not None:
                progress(edges[chunk + 1], count)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for chunk, found in enumerate(pool.map(work, range(len(edges) - 1))):
                results.append(found)
                if progress is not None:
                    progress(edges[chunk + 1], count)
    bad = sum(found for found, _ in results)
    return bad, next((first for found, first in results if found), -1)
