"""Work in chunks over threads, with progress, that an error or Ctrl-C stops soon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import numpy as np
import numpy.typing as npt

from spacearm.engine.batch import default_threads


def spread(
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
                ready, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ready:
                    done += future.result()
                if ready and progress is not None:
                    progress(done, total)
        except BaseException:
            if stop is not None:
                stop[0] = 1
            pool.shutdown(wait=True, cancel_futures=True)
            raise
