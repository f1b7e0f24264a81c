"""A process of its own for a library that a hostile file may crash, stop or fill the memory with.

:class:`WorkerProcess` runs a script that calls :func:`serve`. Requests and answers are a line of JSON each, which lists
the sizes of the ``parts`` that follow it; before its answer the script may say what it is ``at``, so that a crash has a
place. The process is started at the first request, serves the whole session, and is started again after a request that
it did not survive.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

#: A process that nobody has asked for so long ends, s.
IDLE = 60.0
#: Longest line of an answer, bytes.
LINE = 1 << 20
#: One thread, and memory that the limit sees.
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


class WorkerFault(Exception):
    """The process gave no answer; ``place`` is what it was at."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


class WorkerCrash(WorkerFault):
    """The process ended instead; the text says how."""


class WorkerTimeout(WorkerFault):
    """The time was over, and the process was ended."""


class _WorkerGone(Exception):
    """The process had ended before it took the request: it had been idle, and is started again."""


# -- the caller's side -----------------------------------------------------------------------------------------------


class WorkerProcess:
    """Asks the process of a script, one thread at a time."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.close)

    def _reset(self) -> None:
        """Also after a fork: the process is the parent's, and a thread that is not here may hold the lock."""
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._end()

    def ask(
        self, request: Mapping[str, Any], parts: Sequence[bytes] = (), *, seconds: float, memory: int
    ) -> tuple[dict[str, Any], list[bytes]]:
        """The answer and its parts, within this wall-clock time and this many bytes of memory.

        Raises:
            Fault: no answer.
            OSError: no process could be started.
        """
        limits = {"seconds": seconds, "memory": int(memory), "parts": [len(part) for part in parts]}
        head = json.dumps({**request, **limits}).encode("ascii") + b"\n"
        with self._lock:
            for _ in range(2):
                process = self.process = self.process or self._start_process()
                answered = False
                try:
                    answer = _Exchange(process, time.monotonic() + seconds).run([head, *parts])
                    answered = True
                    return answer
                except _WorkerGone:
                    continue
                finally:
                    if not answered:
                        self._end()
        raise WorkerCrash("it does not start")

    def _start_process(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        return subprocess.Popen(
            # -P: not the script's folder first on the path, whose modules have common names
            [sys.executable, "-P", str(self.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_QUIET, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the caller, who ends the process
            bufsize=0,
        )

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with suppress(OSError):
            process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()


class _Exchange:
    """One request and its answer."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.deadline = process, deadline
        self.to, self.back = process.stdin.fileno(), process.stdout.fileno()
        self.place, self.rest = "", bytearray()

    def run(self, request: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        for piece in request:
            self._send(memoryview(piece))
        while "at" in (answer := json.loads(self._read_line())):
            self.place = str(answer["at"])
        return answer, [self._read_bytes(int(size)) for size in answer["parts"]]

    def _time_left(self) -> float:
        return max(self.deadline - time.monotonic(), 0.0)

    def _send(self, data: memoryview) -> None:
        while data:
            if not select.select([], [self.to], [], self._time_left())[1]:
                raise WorkerTimeout("it does not take the request", self.place)
            try:  # no more than a pipe takes at once, so that writing does not wait beyond the deadline
                data = data[os.write(self.to, data[: select.PIPE_BUF]) :]
            except OSError:
                raise _WorkerGone from None

    def _read_line(self) -> bytes:
        while (end := self.rest.find(b"\n")) < 0:
            if len(self.rest) > LINE:
                raise WorkerCrash("it gave no answer", self.place)
            self._read_more()
        return self._read_bytes(end + 1)

    def _read_bytes(self, size: int) -> bytes:
        while len(self.rest) < size:
            self._read_more()
        taken = bytes(self.rest[:size])
        del self.rest[:size]
        return taken

    def _read_more(self) -> None:
        if not select.select([self.back], [], [], self._time_left())[0]:
            raise WorkerTimeout("it gave no answer in time", self.place)
        chunk = os.read(self.back, 1 << 20)
        if chunk:
            self.rest += chunk
            return
        status = self.process.wait()
        if not self.place and status == 0:
            raise _WorkerGone
        raise WorkerCrash(signal.Signals(-status).name if status < 0 else f"status {status}", self.place)


# -- the script's side -----------------------------------------------------------------------------------------------


class WorkerReplies:
    """Where a script's answers go, and what it is at."""

    def __init__(self, out: BinaryIO) -> None:
        self.out, self.place = out, ""

    def report_place(self, place: str) -> None:
        """Say what is read from now on."""
        self.place = place
        self._write({"at": place})

    def send(self, parts: Sequence[bytes] = (), **answer: Any) -> None:
        """Answer the request."""
        self._write({**answer, "parts": [len(part) for part in parts]})
        for part in parts:
            self.out.write(part)
        self.out.flush()

    def _write(self, head: Mapping[str, Any]) -> None:
        self.out.write(json.dumps(head).encode("ascii") + b"\n")
        self.out.flush()


def serve(answer: Callable[[WorkerReplies, dict[str, Any], list[bytes]], None]) -> None:
    """Answer requests, each within its limits, until standard input ends or nobody asks any more."""
    desk = WorkerReplies(os.fdopen(os.dup(1), "wb"))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):  # libraries print what they think of a damaged file
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while select.select([0], [], [], IDLE)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        request = json.loads(line)
        parts = [sys.stdin.buffer.read(size) for size in request["parts"]]
        _limit(resource.RLIMIT_DATA, request["memory"])
        spent = resource.getrusage(resource.RUSAGE_SELF)
        # the caller ends a process that takes too long; this is for a process whose caller is gone
        _limit(resource.RLIMIT_CPU, int(spent.ru_utime + spent.ru_stime + request["seconds"]) + 2)
        desk.place = ""
        answer(desk, request, parts)


def _limit(what: int, soft: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
