"""Phases: intervals of a run in which the same degrees of freedom are free, driven or locked; and their events.

A phase states what acts, by name, and checks only what can be checked without a robot. Two modules say what it does:
this one what may be stated, :mod:`spacearm.simulate.run.prepare` how each statement becomes a number of the solver
(a mode, a channel of an input, an event). The chain of a run (:mod:`spacearm.simulate.run.chain`), loops over many
samples (:mod:`spacearm.simulate.ensemble.phase_batch`), C and FMUs (:mod:`spacearm.export`) see the prepared phase
alone. Two read a phase for themselves: closed loops in vector lanes, which have no events
(:mod:`spacearm.simulate.ensemble.vectorised_phases`), and the cross-check, which should share nothing
(:mod:`spacearm.simulate.check._drive`).

A degree of freedom that is locked, driven or accelerated has mode 1: its acceleration is given, and the force that
this takes is a result. All others have mode 0. Times count from the phase's start, s; angles rad, lengths m; forces
and velocities of a base are in base axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from spacearm.checks import number, numbers, one_of, positive
from spacearm.engine import Kernel
from spacearm.errors import InputError, clip_text, quote_text
from spacearm.simulate.checks import check_mapping
from spacearm.simulate.law import Law
from spacearm.simulate.loads import Load
from spacearm.typing import Array

DEFAULT_SAMPLES = 200
#: More would not fit into the memory of most machines: samples, and the numbers that all of them keep (2 GB).
MAX_SAMPLES = 5_000_000
MAX_NUMBERS = 250_000_000
Direction = Literal["rising", "falling", "either"]
DIRECTIONS: dict[str, int] = {"rising": 1, "falling": -1, "either": 0}


@dataclass(frozen=True)
class Event:
    """A quantity goes through a value.

    Args:
        quantity: a joint's name (position, rad or m); ``<joint>.rate``; ``base_x``, ``base_y``, ``base_z`` (world, m);
            ``base_vx`` ... ``base_wz`` (base axes, m/s or rad/s).
        value: the level.
        direction: ``rising``, ``falling`` or ``either``.
        ends: what ends there: ``nothing`` (it is only recorded), the ``phase`` or the ``run``.
    """

    quantity: str
    value: float = 0.0
    direction: Direction = "either"
    ends: Literal["nothing", "phase", "run"] = "nothing"

    def __post_init__(self) -> None:
        one_of(self.direction, DIRECTIONS, "direction", place=self.place)
        one_of(self.ends, ("nothing", "phase", "run"), "ends", place=self.place)
        number(self.value, "value", place=self.place)

    @property
    def place(self) -> str:
        return f"event of {self.quantity!r}"


@dataclass(frozen=True, eq=False)
class EventFunction:
    """Events from a compiled function: numbers whose sign changes are the events.

    Args:
        kernel: in (state, time), or these and the outputs of the motion kernel (``Program.event_inputs``).
        names: of its outputs.
        directions, ends: of each, as for :class:`Event`.
        before: the side (-1, +1) from which each comes to the phase: one that starts on the other has crossed at
            once. 0, and if omitted: none, it is where it starts.
    """

    kernel: Kernel
    names: tuple[str, ...]
    directions: tuple[Direction, ...] = ()
    ends: tuple[Literal["nothing", "phase", "run"], ...] = ()
    before: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.names)
        # A slip here would show only when an event of the wrong name comes.
        if self.kernel.n_out != count:
            raise InputError(f"kernel gives {self.kernel.n_out} numbers for {count} names", place="event function")
        object.__setattr__(self, "directions", tuple(self.directions) or ("either",) * count)
        object.__setattr__(self, "ends", tuple(self.ends) or ("nothing",) * count)
        object.__setattr__(self, "before", tuple(self.before) or (0,) * count)
        if not len(self.directions) == len(self.ends) == len(self.before) == count:
            raise InputError("names, directions, ends and before have different lengths", place="event function")


#: What the lists of a phase hold; one alone needs no list.
_LISTS: Mapping[str, tuple[type, str]] = {
    "until": (Event, "expected Event(quantity, value)"),
    "events": (Event, "expected Event(quantity, value)"),
    "loads": (Load, "expected Load(frame, wrench), Load.along(frame, direction, force) or firing(robot, thruster)"),
    "laws": (Law, "expected a Law, as control.joint_pid(...) gives it"),
    "locked": (str, "expected names of degrees of freedom"),
}


def _as_tuple(given: Any, kind: type, place: str, hint: str) -> tuple[Any, ...]:
    """One or several parts of this kind as a tuple."""
    # A text is a sequence too, and a single part need not be one.
    parts = (given,) if isinstance(given, kind) or not isinstance(given, Iterable) else tuple(given)
    for part in parts:
        if not isinstance(part, kind):
            raise InputError(f"holds {quote_text(part)}", place=place, hint=hint)
    return parts


@dataclass(frozen=True, eq=False)
class Phase:
    """Drives, loads, laws and events during an interval of a run. Times of signals count from the phase's start.

    Args:
        duration: how long it lasts, s; with ``until``, how long at most.
        until: event or events that end it.
        locked: degrees of freedom that do not move; their rate must be zero at the start.
        driven: joint name to path (position over time: a signal with continuous rate).
        accelerations: degree of freedom to prescribed acceleration (base: of the velocity in base axes).
        forces: degree of freedom to applied force (N or N m; base: base axes).
        loads: wrenches on frames.
        laws: a control law, or several; what they command is added to the forces.
        events: events to record, or that end the phase or the run.
        event_function: further events from a compiled function.
        friction: whether joints that have dry friction stick and slip; without, they move free of it.
        limits: joint limits are a recorded event (``report``), the end of the run (``stop``) or nothing (``ignore``).
        sample: interval (s) or times of samples from this phase on, counted from its start, in place of the run's.
    """

    duration: float
    until: Sequence[Event] | Event = ()
    locked: Sequence[str] = ()
    driven: Mapping[str, Any] = field(default_factory=dict)
    accelerations: Mapping[str, Any] = field(default_factory=dict)
    forces: Mapping[str, Any] = field(default_factory=dict)
    loads: Sequence[Load] = ()
    laws: Sequence[Law] | Law = ()
    events: Sequence[Event] = ()
    event_function: EventFunction | None = None
    friction: bool = True
    limits: Literal["report", "stop", "ignore"] = "report"
    sample: float | npt.ArrayLike | None = None
    name: str = ""

    def __post_init__(self) -> None:
        positive(self.duration, "duration", unit="s", place=self.place)
        one_of(self.limits, ("report", "stop", "ignore"), "limits", place=self.place)
        for key in ("driven", "accelerations", "forces"):
            check_mapping(getattr(self, key), f"{self.place}, {key}", "degree of freedom to signal")
        # One part alone or several: from here on always a tuple.
        for key, (kind, hint) in _LISTS.items():
            object.__setattr__(self, key, _as_tuple(getattr(self, key), kind, f"{self.place}, {key}", hint))
        if self.event_function is not None and not isinstance(self.event_function, EventFunction):
            raise InputError(
                f"the event function is {quote_text(self.event_function)}",
                place=self.place,
                hint="expected an EventFunction",
            )
        # An event of ``until`` ends the phase whatever it states itself.
        until = tuple(replace(event, ends="phase") for event in cast(tuple[Event, ...], self.until))
        object.__setattr__(self, "until", until)

    def __repr__(self) -> str:
        """The duration and what else was given."""
        parts = [f"{self.duration:g} s"]
        for name, unset in _UNSET.items():
            value = getattr(self, name)
            if value is not unset and not (isinstance(value, tuple | Mapping | str) and value == unset):
                shown = ", ".join(value) if isinstance(value, Mapping) else clip_text(repr(value))
                parts.append(f"{name}={{{shown}}}" if isinstance(value, Mapping) else f"{name}={shown}")
        return f"Phase({', '.join(parts)})"

    @property
    def place(self) -> str:
        return f"phase {self.name!r}" if self.name else "phase"

    def place_in_run(self, number: int) -> str:
        """Place of the phase in a scenario file, from its number in the run, counted from zero."""
        return f"phase[{number}]" + (f" {self.name!r}" if self.name else "")

    @property
    def all_events(self) -> tuple[Event, ...]:
        return (*cast(tuple[Event, ...], self.until), *self.events)


#: What fields of a phase hold that were not given.
_UNSET: Mapping[str, Any] = {
    each.name: {} if each.default is MISSING else each.default for each in fields(Phase) if each.name != "duration"
}


def sample_times(sample: float | npt.ArrayLike | None, total: float) -> Array:
    """Times from an interval, from a list, or ``DEFAULT_SAMPLES`` intervals over the whole."""
    if sample is None:
        return np.asarray(np.linspace(0.0, total, DEFAULT_SAMPLES + 1), dtype=np.float64)
    array = numbers(sample, "sample")
    if array.ndim == 0:
        interval = float(array)
        if not (np.isfinite(interval) and interval > 0):
            raise InputError(
                f"interval is {interval}", place="sample", hint="expected seconds above zero, or a list of times"
            )
        wanted = total / interval
        if not wanted < MAX_SAMPLES:
            raise InputError(
                f"an interval of {interval:g} s gives {wanted:.3g} samples in {total:g} s",
                place="sample",
                hint=f"expected at most {MAX_SAMPLES} samples; run shorter phases, or sample a list of times",
            )
        # Rounding must not lose the last sample of a duration of whole intervals.
        count = int(np.floor(wanted * (1 + 1e-12) + 1e-9))
        return np.asarray(np.arange(count + 1) * interval, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or np.any(np.diff(array) < 0) or np.any(array < 0):
        raise InputError("sample times must be finite, not negative, and increasing", place="sample")
    if array.size > MAX_SAMPLES:
        raise InputError(f"{array.size} samples", place="sample", hint=f"expected at most {MAX_SAMPLES}")
    return array
