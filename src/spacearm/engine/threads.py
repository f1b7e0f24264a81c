"""Threads for long computations: progress reports, and an early stop on an error, Ctrl-C or a time limit.

Compiled loops release the interpreter's lock, so threads run in parallel; signals such as Ctrl-C reach only the main
thread, which therefore waits here in short intervals instead of computing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.deadline import check_time, has_time_limit
from spacearm.engine._batch import default_threads


def run_chunks(
    chunk: Callable[[int], int],
    firsts: Sequence[int],
    total: int,
    *,
    threads: int | None = None,
    stop: npt.NDArray[np.uint8] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Call ``chunk(first)``, which returns how many samples it did, for every first sample.

    ``progress`` is called with (done, total) from the calling thread. ``stop[0]`` is set when the work is given up, for
    chunks that look at it.
    """
    done = 0
    with ThreadPoolExecutor(max(1, min(threads or default_threads(), len(firsts)))) as pool:
        waiting = {pool.submit(chunk, first) for first in firsts}
        try:
            while waiting:
                # Woken twice a second, so that a time limit is noticed even if no chunk ends.
                ready, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ready:
                    done += future.result()
                check_time()
                if ready and progress is not None:
                    progress(done, total)
        except BaseException:
            if stop is not None:
                stop[0] = 1
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def interruptible(call: Any, watch: Callable[[], None]) -> Any:
    """Run ``call(stop)`` in a thread that Ctrl-C and time limits can stop through the flag, and ``watch()`` meanwhile.

    Where neither can come, in another thread than the main one, ``call`` alone and plainly.
    """
    stop = np.zeros(1, dtype=np.uint8)
    # Python delivers Ctrl-C to the main thread only: elsewhere a second thread would gain nothing.
    if threading.current_thread() is not threading.main_thread() and not has_time_limit():
        return call(stop)
    result: list[Any] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(call(stop))
        except BaseException as error:  # handed to the caller's thread
            failure.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
            check_time()
            watch()
    except BaseException:
        stop[0] = 1
        thread.join()
        raise
    if failure:
        raise failure[0]
    return result[0]
