"""Tables whose C libraries a damaged file can crash are read in a process of their own, with limits.

One worker (:mod:`spacearm.identify.table_worker`) serves a whole session: it is started at the first file, and again
after a file that it did not survive.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.typing import Array

#: Time for one file: so many seconds, and one more for so many bytes of it.
SECONDS, BYTES_PER_SECOND = 15.0, 20e6
#: Memory for one file: so many bytes, and so many times its size.
BYTES, TIMES_SIZE = 1 << 30, 20
#: Longest line of an answer, bytes.
LINE = 1 << 20
WORKER = Path(__file__).with_name("table_worker.py")


class Gone(Exception):
    """The worker ended before it began to read: it had been idle, and is started again."""


class Worker:
    """A process that reads tables."""

    def __init__(self) -> None:
        # -P: not the worker's folder first on the path, whose modules have common names
        path = os.pathsep.join(entry for entry in sys.path if entry)
        quiet = {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **quiet, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the caller, who ends the worker
            bufsize=0,
        )
        self.rest = b""
        self.answered = True  # nothing is under way: it can be asked

    def end(self) -> int:
        """Kill it if it still runs; its exit status, negative for a signal."""
        with suppress(OSError):
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        return self.process.wait()

    def ask(self, request: dict[str, Any], file: Path) -> dict[str, Array]:
        assert self.process.stdin is not None
        deadline = time.monotonic() + request["seconds"]
        self.answered = False
        try:
            self.process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
        except OSError:
            raise Gone from None
        place = ""
        while True:
            answer = json.loads(self._line(deadline, file, place))
            if "at" in answer:
                place = str(answer["at"])
            elif "error" in answer:
                self.answered = True
                raise InputError(answer["error"], file=file, place=answer["place"], hint=answer["hint"])
            else:
                sizes = {str(name): int(size) for name, size in answer["columns"]}
                found = {
                    name: np.frombuffer(self._take(8 * size, deadline, file, place), dtype="<f8").astype(np.float64)
                    for name, size in sizes.items()
                }
                self.answered = True
                return found

    def _line(self, deadline: float, file: Path, place: str) -> bytes:
        while b"\n" not in self.rest:
            if len(self.rest) > LINE:
                raise InputError("cannot be read: its reader gave no answer", file=file, place=place)
            self._more(deadline, file, place)
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def _take(self, size: int, deadline: float, file: Path, place: str) -> bytes:
        chunks, there = [self.rest], len(self.rest)
        while there < size:
            self.rest = b""
            self._more(deadline, file, place)
            chunks.append(self.rest)
            there += len(self.rest)
        whole = b"".join(chunks)
        self.rest = whole[size:]
        return whole[:size]

    def _more(self, deadline: float, file: Path, place: str) -> None:
        stream = self.process.stdout
        assert stream is not None
        ready = select.select([stream], [], [], max(deadline - time.monotonic(), 0.0))[0]
        if not ready:
            raise InputError(
                "takes too long to read", file=file, place=place, hint="the file is damaged, or must be split"
            )
        chunk = os.read(stream.fileno(), 1 << 20)
        if chunk:
            self.rest += chunk
            return
        status = self.process.wait()
        if not place and status == 0:
            raise Gone
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        raise InputError(
            f"cannot be read: the library that reads it crashed ({how})",
            file=file,
            place=place or "header",
            hint="the file is damaged",
        )


class Service:
    """The one worker of this process, asked by one thread at a time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked process: the worker is the parent's, and a thread that is not here may hold the lock."""
        self.lock = threading.Lock()
        self.worker: Worker | None = None

    def close(self) -> None:
        """End the worker; the next file starts another."""
        with self.lock:
            if self.worker is not None:
                self.worker.end()
            self.worker = None

    def ask(self, request: dict[str, Any], file: Path) -> dict[str, Array]:
        with self.lock:
            for _ in range(2):
                try:
                    self.worker = self.worker or Worker()
                except OSError as error:
                    why = f"no process could be started for it: {error.strerror}"
                    raise InputError(f"cannot be read: {why}", file=file, place="header") from None
                try:
                    return self.worker.ask(request, file)
                except Gone:
                    continue
                finally:
                    if not self.worker.answered:
                        self.worker.end()
                        self.worker = None
        raise InputError("cannot be read: the process that reads it does not start", file=file, place="header")


SERVICE = Service()
atexit.register(SERVICE.close)
os.register_at_fork(after_in_child=SERVICE.forget)


def read_guarded(path: Path, kind: str, names: Sequence[str]) -> dict[str, Array]:
    """The named columns of a MATLAB, NetCDF-4 or Parquet file (``kind``), 1-D each.

    Raises:
        InputError: with file and place, whatever the file does to the library that reads it.
    """
    size = path.stat().st_size
    request = {
        "file": str(path.absolute()),
        "kind": kind,
        "names": list(names),
        "bytes": int(BYTES + TIMES_SIZE * size),
        "seconds": SECONDS + size / BYTES_PER_SECOND,
    }
    return SERVICE.ask(request, path)
