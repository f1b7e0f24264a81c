"""A process of its own for a library that a hostile file may crash, stop or fill the memory with.

The process is a script that reads requests from standard input and answers on standard output: both are one line of
JSON with a list ``parts`` of sizes, then the parts themselves. It is started at the first request, serves the whole
session, and is started again after a request that it did not survive.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Longest line of an answer, bytes.
_LINE = 1 << 24


class Crashed(Exception):
    """The process ended instead of answering; the text says how."""


class TooSlow(Exception):
    """The process did not answer in time, and was ended."""


class Guarded:
    """Runs a script for requests, one at a time."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def _forget(self) -> None:
        """Also after a fork: the process is the parent's, and the lock may be held by a thread that is not here."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._end()

    def ask(
        self, request: Mapping[str, Any], parts: Sequence[bytes], *, seconds: float
    ) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a request, within this wall-clock time."""
        head = json.dumps({**request, "parts": [len(part) for part in parts]}).encode("ascii") + b"\n"
        with self._lock:
            for attempt in range(2):
                process = self._process = self._process or self._started()
                done = False
                try:
                    answer = _exchange(process, [head, *parts], time.monotonic() + seconds)
                    done = True
                    return answer
                except _Gone:  # it had ended while nobody asked
                    if attempt:
                        raise Crashed("it does not start") from None
                finally:
                    if not done:
                        self._end()
        raise AssertionError

    def _started(self) -> subprocess.Popen[bytes]:
        # -P: not the script's own folder first on the path, whose modules have common names
        path = os.pathsep.join(entry for entry in sys.path if entry)
        return subprocess.Popen(
            [sys.executable, "-P", str(self.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the caller, who ends the process
            bufsize=0,
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.kill()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        process.wait()


class _Gone(Exception):
    """The process had ended before it took the request."""


def _exchange(
    process: subprocess.Popen[bytes], request: Sequence[bytes], deadline: float
) -> tuple[dict[str, Any], list[bytes]]:
    _send(process, b"".join(request), deadline)
    buffer = bytearray()
    while (end := buffer.find(b"\n")) < 0:
        if len(buffer) > _LINE:
            raise Crashed("it gave no answer that can be read")
        buffer += _more(process, deadline)
    answer = json.loads(buffer[:end])
    del buffer[: end + 1]
    sizes = [int(size) for size in answer.get("parts", ())]
    while len(buffer) < sum(sizes):
        buffer += _more(process, deadline)
    parts, start = [], 0
    for size in sizes:
        parts.append(bytes(buffer[start : start + size]))
        start += size
    return answer, parts


def _send(process: subprocess.Popen[bytes], data: bytes, deadline: float) -> None:
    assert process.stdin is not None
    view = memoryview(data)
    while view:
        if not select.select([], [process.stdin], [], max(deadline - time.monotonic(), 0.0))[1]:
            raise TooSlow
        try:
            # no more than a pipe takes at once, so that writing does not wait beyond the deadline
            view = view[os.write(process.stdin.fileno(), view[: select.PIPE_BUF]) :]
        except OSError:
            raise _Gone from None


def _more(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0.0))[0]:
        raise TooSlow
    chunk = os.read(process.stdout.fileno(), 1 << 20)
    if chunk:
        return chunk
    status = process.wait()
    raise Crashed(signal.Signals(-status).name if status < 0 else f"exit status {status}")
