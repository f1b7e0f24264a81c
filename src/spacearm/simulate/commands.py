"""Commands of sampled laws in a run, and readings of their sensors.

The solver logs a row at each tick of a law: time, commands, margins to the actuators' limits, readings. A
:class:`CommandLog` gives them by name, in the run's time, and as signals with which they can be replayed. Commands
hold from tick to tick; those that were given before a phase hold until its first tick. A drive that meets its rate
limit between ticks is cut there: such instants are logged apart and are breaks of the signal. Values in SI units,
thrusters as levels from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.checks import check_name
from spacearm.engine import law as engine
from spacearm.errors import InputError
from spacearm.simulate.law import Law
from spacearm.simulate.prepared_law import PreparedLaw
from spacearm.simulate.signals import Signal
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr


#: Attributes of a log in a file, besides its numbers.
_ABOUT = ("name", "phase", "names", "units", "limited", "end", "sensed", "begin", "system", "own_ticks")


def _column(kind: str, system: str, name: str) -> str:
    """Column name in a data set; files do not allow a slash."""
    return f"{kind}.{system}.{name}" if system else f"{kind}.{name}"


@dataclass(frozen=True, eq=False)
class CommandLog:
    """Commands of a sampled law in a phase, tick by tick."""

    law: Law | None = field(repr=False)  # None if it comes from a file
    name: str  # of the law
    phase: int
    times: Array  # (T,) s since the run's start
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array  # (T, names): forces, accelerations, thruster levels, each effective from its tick on
    limited: tuple[str, ...]
    margins: Array  # (T, limited): margin to the limits; below zero the command is saturated
    end: float  # s, end of the last command
    begin: float  # s, when the phase began
    before: Array  # (names,): of the phase before, which acted until the first tick
    cuts: Array  # (K, 3): s when a command changed at the rate limit of its drive, index of its name, the new command
    sensed: tuple[tuple[str, str], ...] = ()  # name and unit of each sensor reading
    readings: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (T, sensed)
    system: str = ""  # system of the law, if several systems have one in the phase
    # Of each command the first row that is a tick of its own law, and from there on one in how many; empty: all are.
    own_ticks: tuple[tuple[int, int], ...] = ()

    def label(self, name: str) -> str:
        """Label of one of its commands, in a run of several systems."""
        return f"{self.system}/{name}" if self.system else name

    def __getitem__(self, name: str) -> Array:
        """The commands of one actuator."""
        if name not in self.names:
            raise InputError(f"law {self.name!r} commands no {name!r}", hint=f"expected one of {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]

    def sensor_reading(self, name: str) -> Array:
        """Readings (T,) of a sensor by its name and component: ``gyro.wx``."""
        names = [own for own, _ in self.sensed]
        return self.readings[:, names.index(check_name(name, names, "reading", of=f"law {self.name!r}"))]

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, without the law, which holds functions."""
        return {**vars(self), "law": None}

    def settings(self) -> dict[str, Any]:
        """Everything except the numbers, for a file."""
        return {name: getattr(self, name) for name in _ABOUT} | {
            "before": self.before.tolist(),
            "cuts": self.cuts.tolist(),
        }

    @classmethod
    def from_file(cls, about: Mapping[str, Any], data: xr.Dataset) -> CommandLog:
        """The log from :meth:`settings` and :meth:`data` with the margins as ``raw_margin``."""
        own: dict[str, Any] = {name: tuple(about[name]) for name in ("names", "units", "limited")}
        sensed = tuple((name, unit) for name, unit in about["sensed"])

        system = str(about.get("system", ""))
        # Absent in files of runs whose laws have one period.
        own["own_ticks"] = tuple((int(first), int(every)) for first, every in about.get("own_ticks", ()))

        def columns(kind: str, names: Iterable[str]) -> Array:
            found = [data[_column(kind, system, name)].values for name in names]
            return np.stack(found, axis=1) if found else np.zeros((data.sizes["time"], 0))

        readings = columns("reading", [name for name, _ in sensed])
        values, margins = columns("command", own["names"]), np.ascontiguousarray(data["raw_margin"].values)
        fixed: dict[str, Any] = {name: about[name] for name in ("name", "phase", "end", "begin")} | {"system": system}
        fixed |= {"before": np.array(about["before"]), "cuts": _read_cuts(about["cuts"])}
        times = data["time"].values
        return cls(None, **fixed, **own, times=times, values=values, margins=margins, sensed=sensed, readings=readings)

    def data(self) -> xr.Dataset:
        """Commands and readings at the ticks, with names and units."""
        import xarray as xr

        asked, read = zip(self.names, self.values.T, strict=True), zip(self.sensed, self.readings.T, strict=False)
        columns = {_column("command", self.system, name): column for name, column in asked}
        columns |= {_column("reading", self.system, name): column for (name, _), column in read}
        units = [*self.units, *(unit for _, unit in self.sensed)]
        data = {name: ("time", c, {"units": unit}) for (name, c), unit in zip(columns.items(), units, strict=True)}
        about = {"law": self.name, "phase": self.phase}
        return xr.Dataset(data, {"time": ("time", self.times, {"units": "s"})}, about)

    def command_steps(self, name: str) -> tuple[Array, Array]:
        """Times, s since the run's start, and values of one actuator that apply from each time on, up to ``end``."""
        values = self[name]
        times, number = self.times, self.names.index(name)
        if not times.size or times[0] > self.begin:
            times, values = np.append(self.begin, times), np.append(self.before[number], values)
        own = self.cuts[self.cuts[:, 1] == number]
        if not own.size:
            return times, values
        cuts = own[:, 0]
        places = np.searchsorted(times, cuts, side="right")
        times, values = np.insert(times, places, cuts), np.insert(values, places, own[:, 2])
        # A change at a tick itself leaves nothing of the law's answer.
        lasting = np.append(np.diff(times) > 0.0, True)
        return times[lasting], values[lasting]

    def signal(self, name: str) -> Signal:
        """The commands of one actuator as a signal of the phase's time, held from tick to tick."""
        times, values = self.command_steps(name)
        # A tick at the very end still needs a piece of some length.
        edges = np.append(times, max(self.end, times[-1] + 1e-9)) - self.begin
        return Signal(edges, values[None])

    def saturation_times(self) -> dict[str, float]:
        """Time that each actuator was at a limit of effort or rate, s; actuators that never were are omitted."""
        found: dict[str, float] = {}
        saturated = {self.limited[k] for k in self._saturated}
        cut = {self.names[int(number)] for number in self.cuts[:, 1]}
        for number, name in enumerate(self.names):
            if name not in saturated and name not in cut:
                continue
            # Whatever is done to a command lasts until the next tick of its own law.
            first, every = self.own_ticks[number] if self.own_ticks else (0, 1)
            times = self.times[first::every]
            edges, since = np.append(times, self.end), np.full(times.shape, np.inf)
            if name in self.limited:
                since[self.margins[first::every, self.limited.index(name)] < 0.0] = 0.0
            cuts = self.cuts[self.cuts[:, 1] == number, 0]
            ticks = np.searchsorted(times, cuts, side="right") - 1
            np.minimum.at(since, ticks[ticks >= 0], cuts[ticks >= 0])
            lasted = float(np.maximum(edges[1:] - np.maximum(edges[:-1], since), 0.0).sum())
            lasted += float(sum(edges[0] - cuts[ticks < 0]))
            if lasted > 0.0:
                found[name] = lasted
        return found

    @property
    def _saturated(self) -> list[int]:
        """Places in ``limited`` of commands that were at their limit at any tick."""
        return np.flatnonzero((self.margins < 0.0).any(axis=0)).tolist()

    def saturations(self) -> list[tuple[float, str, float]]:
        """Times at which each command reached its limit (value 1) or left it (0)."""
        found = []
        for k in self._saturated:
            name, over = self.limited[k], self.margins[:, k] < 0.0
            edges = np.flatnonzero(np.diff(np.concatenate([[False], over]).astype(int)))
            found += [(float(self.times[i]), self.label(name), float(over[i])) for i in edges]
        return found


def _read_cuts(rows: Sequence[Sequence[float]]) -> Array:
    """Changes of commands from a file; one without new commands is of a version that could only cut."""
    return np.array([[*row, 0.0][:3] for row in rows], dtype=float).reshape(-1, 3)


def command_logs(
    prepared: PreparedLaw, law: engine.SolverLaw, phase: int, begin: float, end: float, held: Array
) -> list[CommandLog]:
    """Log of each system's law from the solver's log of a phase; ``held`` is the command from the previous phase."""
    outputs, rows = prepared.kernel.outputs, law.log[: int(law.counts[0])]
    cuts = law.cuts[: int(law.counts[2])]

    def columns(part: PreparedLaw, table: Array, kind: str) -> Array:
        if kind not in outputs:
            return np.zeros((len(table), 0))
        return table[:, outputs[kind].start + part.places(kind)]

    def own_ticks(part: PreparedLaw, table: Array) -> tuple[tuple[int, int], ...]:
        # Levels of degrees of freedom are in the order of the actions, and come first.
        found = [(0, 1)] * len(part.program.levels)
        for action, (every, count, _, _) in part.program.slow.items():
            memory = table[:, 1 + outputs["memory"].start + int(part.places("memory")[count])]
            found[action] = int(np.argmax(np.append(memory == 1.0, True))), every
        return tuple(found) if part.program.slow else ()

    logs = []
    for part in prepared.laws_by_system:
        own = part.program
        ticks = rows if part.count is None else rows[rows[:, 1 + outputs["memory"].start + part.count] == 1.0]
        number = {int(level): k for k, level in enumerate(part.places("level"))}
        mine = [(begin + t, number[int(action)], value) for t, action, value in cuts if int(action) in number]
        logs.append(
            CommandLog(
                part.law,
                part.law.name,
                phase,
                begin + ticks[:, 0],
                own.levels,
                own.units,
                columns(part, ticks[:, 1:], "level"),
                own.limited,
                columns(part, ticks[:, 1:], "margin"),
                end,
                begin,
                columns(part, held[None], "level")[0],
                np.array(mine).reshape(-1, 3),
                own.readings,
                columns(part, ticks[:, 1:], "reading"),
                part.system,
                own_ticks(part, ticks),
            )
        )
    return logs


def active_pulses(log: CommandLog, before: Mapping[tuple[Law, str], float]) -> dict[tuple[Law, str], float]:
    """Start time of the pulse of each thruster that is on at the end of a phase, s; ``before``: at its start."""
    found: dict[tuple[Law, str], float] = {}
    law = log.law and (log.law.origin or log.law)
    for name, unit in zip(log.names, log.units, strict=True) if law is not None else ():
        if unit != "1":
            continue
        times, values = log.command_steps(name)
        if not values[-1]:
            continue
        assert law is not None
        # On since the tick after it was last off; never off in this phase: since its start or before.
        off = np.flatnonzero(values == 0.0)
        found[law, name] = float(times[off[-1] + 1]) if off.size else before.get((law, name), float(times[0]))
    return found
