"""Own guidance code as a process of its own, over a socket, in lock-step with a run.

The run stops at each tick, sends the time and the readings, and waits for the commands: however long either side
takes, the result is the same to the last bit. The protocol fits into any language:

- the process connects by TCP to the host and port that are its last two arguments;
- it receives the text ``spacearm 1 PERIOD READINGS COMMANDS``, then a line ``NAME<tab>UNIT`` for each reading and for
  each command, every line ended by ``\\n``;
- at each tick it receives ``1 + READINGS`` numbers (time since its first tick in s, then the readings) and sends
  ``COMMANDS`` numbers, all float64 with the low byte first;
- the run closes the connection at its end.

``examples/guidance.c`` and ``examples/guidance.py`` are such processes.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time as clock
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from spacearm import checks
from spacearm.connect._sensor_reader import SensorReader
from spacearm.errors import InputError, quote_text
from spacearm.mechanics.sensors import Encoder, Sensor, Tachometer
from spacearm.model import Robot
from spacearm.simulate import State
from spacearm.simulate.law import PythonLaw
from spacearm.typing import Array

#: First word of what a process receives, and the version of the protocol.
GREETING = "spacearm 1"
#: s between two looks at whether the process is still there.
POLL = 0.05


class GuidanceProcess:
    """A process that gives the commands of a run; ``law`` is its law, for the phases of :func:`simulate`.

    It starts with the block and ends with it::

        with GuidanceProcess(["./guidance"], robot, period=0.01) as guidance:
            run = simulate(robot, State.at_rest(robot), Phase(10.0, laws=guidance.law))

    One process serves one run: its memory cannot be set back.

    Args:
        command: program and arguments, to which host and port are added; None: a process that somebody else starts,
            and which connects to ``address``.
        robot: what it controls.
        sensors: what it reads; encoders and tachometers of all joints by default.
        forces: degrees of freedom that it commands, N or N m; all joints by default.
        period: s between two ticks.
        seed: of the sensors' noise; None: no noise.
        system: of the robot, where several take part.
        timeout: s, wall clock, that the process may take to connect and for each answer.
        port: of this machine (127.0.0.1); a free one by default.
    """

    def __init__(
        self,
        command: Sequence[str | Path] | None,
        robot: Robot,
        *,
        sensors: Sequence[Sensor] | None = None,
        forces: Sequence[str] | None = None,
        period: float = 0.01,
        seed: int | None = None,
        system: str = "",
        timeout: float = 60.0,
        port: int = 0,
    ) -> None:
        if isinstance(command, str):
            raise InputError(f"command is {quote_text(command)}", place="guidance", hint="expected a list of arguments")
        self._command = None if command is None else [str(part) for part in command]
        self._reader = SensorReader(robot, (Encoder(), Tachometer()) if sensors is None else sensors, system=system)
        self._forces = tuple(robot.joint_names if forces is None else forces)
        for name in self._forces:
            checks.check_name(name, robot.dof_names, "degree of freedom", place="guidance")
        self._period = checks.positive(period, "period", unit="s", place="guidance")
        self._timeout = checks.positive(timeout, "timeout", unit="s", place="guidance")
        self._seed = seed
        self._ticks = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        # Of this machine alone: whoever connects commands the run.
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(POLL)
        units = dict(zip(robot.dof_names, _force_units(robot), strict=True))
        lines = [f"{GREETING} {self._period!r} {self._reader.size} {len(self._forces)}"]
        lines += [f"{name}\t{unit}" for name, unit in (*self._reader.entries, *((n, units[n]) for n in self._forces))]
        self._greeting = "".join(f"{line}\n" for line in lines)
        #: For a phase: ``Phase(10.0, laws=guidance.law)``.
        self.law = PythonLaw(self._ask, name="guidance", period=self._period, forces=self._forces, system=system)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to which the process connects."""
        host, port = self._server.getsockname()
        return str(host), int(port)

    def __enter__(self) -> GuidanceProcess:
        if self._command is not None:
            try:
                self._process = subprocess.Popen([*self._command, *map(str, self.address)], stdin=subprocess.DEVNULL)
            except OSError as error:
                self.close()
                hint = "expected a program that can be started"
                raise InputError(f"{self._command[0]}: {error.strerror}", place="guidance", hint=hint) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and the process if it does not end by itself."""
        for part in (self._connection, self._server):
            if part is not None:
                part.close()
        self._connection = None
        if self._process is not None:
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _ask(self, time: float, state: State, references: Mapping[str, Any]) -> Mapping[str, float]:
        """The commands of a tick."""
        del time, references  # ticks are counted: time in a phase begins anew with each
        now = self._ticks * self._period
        self._ticks += 1
        if self._connection is None:
            self._connect()
        # Doubles, little-endian on any machine: the same bytes as the client's "<f8".
        readings = self._reader.read(state.vector, now, self._seed)
        commands = self._exchange(struct.pack(f"<{1 + readings.size}d", now, *readings), 8 * len(self._forces), now)
        return dict(zip(self._forces, struct.unpack(f"<{len(self._forces)}d", commands), strict=True))

    def _connect(self) -> None:
        until = clock.monotonic() + self._timeout
        while self._connection is None:
            try:
                self._connection, _ = self._server.accept()
            except TimeoutError:
                self._check(until, "did not connect to " + ":".join(map(str, self.address)))
        # Without Nagle's delay: each tick waits for a message of some bytes, which would be held back for up to 40 ms.
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.settimeout(POLL)
        self._connection.sendall(self._greeting.encode())

    def _exchange(self, data: bytes, size: int, now: float) -> bytes:
        assert self._connection is not None
        until, found = clock.monotonic() + self._timeout, bytearray()
        try:
            self._connection.sendall(data)
            while len(found) < size:
                try:
                    part = self._connection.recv(size - len(found))
                except TimeoutError:
                    self._check(until, f"gave no answer at t = {now:.9g} s")
                    continue
                if not part:
                    raise ConnectionResetError
                found += part
        except OSError as error:
            status = "" if self._process is None else f", status {self._wait()}"
            raise InputError(f"closed the connection at t = {now:.9g} s{status}", place="guidance process") from error
        return bytes(found)

    def _check(self, until: float, what: str) -> None:
        """An error where the process has ended or its time is over."""
        ended = None if self._process is None else self._process.poll()
        if ended is not None:
            raise InputError(f"ended with status {ended}", place="guidance process")
        if clock.monotonic() > until:
            hint = f"timeout: more than {self._timeout:g} s, if it needs them"
            raise InputError(f"{what} within {self._timeout:g} s", place="guidance process", hint=hint)

    def _wait(self) -> int | str:
        assert self._process is not None
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "unknown"


def _force_units(robot: Robot) -> list[str]:
    joints = ["N" if joint.kind == "prismatic" else "N m" for joint in robot.joints]
    return [*["N"] * 3, *["N m"] * 3, *joints]


def connect_guidance(host: str, port: int) -> GuidanceClient:
    """The side of a guidance process that is written in Python."""
    return GuidanceClient(socket.create_connection((host, port)))


class GuidanceClient:
    """Ticks of a run, one after the other: iterate for time and readings, and :meth:`answer` each with commands."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rb")
        first = self._line().split()
        if first[:2] != GREETING.split() or len(first) != 5:
            raise InputError(f"received {quote_text(' '.join(first))}", place="guidance", hint=f"expected {GREETING}")
        #: s between two ticks.
        self.period = float(first[2])
        lines = [self._line().partition("\t")[::2] for _ in range(int(first[3]) + int(first[4]))]
        #: Names of readings and commands, with their units.
        self.readings, self.commands = dict(lines[: int(first[3])]), dict(lines[int(first[3]) :])

    def _line(self) -> str:
        # Bounded: what answers at this port need not be spacearm.
        return self._file.readline(1 << 16).decode().rstrip("\n")

    def __iter__(self) -> GuidanceClient:
        return self

    def __next__(self) -> tuple[float, Array]:
        """Time (s) and readings of the next tick; the end of the run ends the loop."""
        size = 8 * (1 + len(self.readings))
        data = self._file.read(size)
        if len(data) < size:
            self._file.close()
            self._connection.close()
            raise StopIteration
        numbers = np.frombuffer(data, dtype="<f8")
        return float(numbers[0]), numbers[1:]

    def answer(self, commands: Sequence[float] | Array) -> None:
        """Send the commands of this tick, in the order of ``commands``."""
        numbers = np.asarray(commands, dtype="<f8")
        if numbers.shape != (len(self.commands),):
            raise InputError(f"{numbers.size} commands", place="guidance", hint=f"expected {len(self.commands)}")
        self._connection.sendall(numbers.tobytes())
