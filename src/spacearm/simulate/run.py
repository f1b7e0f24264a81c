"""A run in time: phases one after the other, with events, samples and a certificate."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.friction import begin
from spacearm.engine.phase import make_audit, make_record
from spacearm.engine.plant import Work, make_work
from spacearm.engine.run import EventKind, Reason, Record, run_phase, sample
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import Array
from spacearm.simulate.certificate import (
    TOLERANCE,
    Certificate,
    CertificateWarning,
    Ledger,
    Stretch,
    certify,
    energy_ledger,
)
from spacearm.simulate.dataset import dataset
from spacearm.simulate.methods import Adaptive, Method
from spacearm.simulate.motion import Motion, Prepared, enter, load_frames, motion, prepare
from spacearm.simulate.phase import Phase
from spacearm.simulate.state import State

if TYPE_CHECKING:
    import xarray as xr

DEFAULT_SAMPLES = 200
MAX_STEPS = 10_000_000
MAX_EVENTS = 10_000
_FRICTION = {EventKind.STICK: "stick", EventKind.SLIP: "slip", EventKind.REVERSE: "reverse"}


class RunWarning(UserWarning):
    """A run ended before its time, and not by an event that was meant to end it."""


@dataclass(frozen=True)
class Event:
    """Something that happened: ``kind`` is stick, slip, reverse, limit, crossing, gauge or timeout."""

    time: float
    kind: str
    name: str
    value: float
    phase: int


@dataclass(frozen=True)
class Stats:
    """What a run cost."""

    steps: int
    rejected: int
    evaluations: int
    events: int


@dataclass(frozen=True, eq=False)
class Run:
    """The result of :func:`simulate`."""

    robot: Robot
    reason: Reason
    end: State | None  # None where the state is not finite
    end_time: float
    events: tuple[Event, ...]
    stats: Stats
    certificate: Certificate | None
    phase_starts: tuple[float, ...]
    times: Array
    _model: Motion = field(repr=False)
    _y: Array = field(repr=False)
    _inputs: Array = field(repr=False)
    _outputs: Array = field(repr=False)
    _stuck: npt.NDArray[np.bool_] = field(repr=False)
    _ledger: Ledger | None = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether it came to its end and kept what it should keep."""
        finished = self.reason in (Reason.FINISHED, Reason.TERMINAL_EVENT)
        return finished and (self.certificate is None or self.certificate.ok)

    @property
    def states(self) -> Array:
        """Flat states at the sample times (T, 13 + 2 n)."""
        return self._y[:, : self._model.nx]

    @cached_property
    def data(self) -> xr.Dataset:
        """Samples with names and units."""
        attrs: dict[str, Any] = {"robot": self.robot.name, "reason": self.reason.text}
        if self.certificate is not None:
            attrs["certificate"] = str(self.certificate)
        return dataset(self._model, self.times, self._y, self._inputs, self._outputs, self._stuck, self._ledger, attrs)

    def events_of(self, kind: str) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.kind == kind)


def sample_times(sample: float | npt.ArrayLike | None, total: float) -> Array:
    """Times from an interval, from a list, or ``DEFAULT_SAMPLES`` intervals over the whole."""
    if sample is None:
        return np.asarray(np.linspace(0.0, total, DEFAULT_SAMPLES + 1), dtype=np.float64)
    array = np.asarray(sample, dtype=np.float64)
    if array.ndim == 0:
        interval = float(array)
        if not (np.isfinite(interval) and interval > 0):
            raise InputError(f"sample interval is {interval}", hint="expected seconds above zero, or a list of times")
        count = int(np.floor(total / interval * (1 + 1e-12) + 1e-9))
        return np.asarray(np.arange(count + 1) * interval, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or np.any(np.diff(array) < 0) or np.any(array < 0):
        raise InputError("sample times must be finite, from zero on, and rise", place="sample")
    return array


def as_phases(phases: Phase | Sequence[Phase] | float) -> tuple[Phase, ...]:
    if isinstance(phases, Phase):
        return (phases,)
    if isinstance(phases, (int, float)):
        return (Phase(float(phases)),)
    chosen = tuple(phases)
    if not chosen or not all(isinstance(phase, Phase) for phase in chosen):
        raise InputError("phases must be a Phase, several of them, or a duration in seconds", place="simulate")
    return chosen


@dataclass(eq=False)
class Course:
    """The loop over phases, on buffers; also used for each sample of a batch."""

    model: Motion
    prepared: tuple[Prepared, ...]
    method: Method
    max_steps: int = MAX_STEPS
    max_events: int = MAX_EVENTS

    def run(
        self,
        start: Array,
        parameters: Mapping[str, Array],
        record: Record,
        stop: Any,
        audited: bool = False,
        escale: float = 1.0,
    ) -> Outcome:
        """Integrate from a flat state; samples and the event log go to ``record``."""
        model, plant = self.model, self.model.plant
        work = make_work(model.input(parameters), model.kernel.n_out, plant.ny)
        work.y[: plant.nx] = start
        options = self.method.options(self.max_steps, self.max_events)
        rtol, atol = self.method.tolerances
        scale = np.full(plant.ny, atol)
        scale[plant.nx :] = rtol * escale
        audit = make_audit(plant)
        outcome = Outcome(work, record, audit)
        time = 0.0
        for number, prepared in enumerate(self.prepared):
            contact, events = enter(model, prepared, work.y, work.inp, parameters, time)
            begin(plant, contact, work.y)
            first, logged = int(record.counts[0]), int(record.counts[1])
            outcome.starts.append(time)
            code, reached, step, audit = run_phase(
                plant, prepared.signals, contact, events, options, scale, work, record, audit, audited, stop
            )
            if options.method == 1:
                options = options._replace(step=step)
            outcome.reason, outcome.audit = Reason(code), audit
            outcome.firsts.append(first)
            outcome.logs.append((logged, int(record.counts[1])))
            local, time = reached, time + reached
            outcome.time = time
            pieces = prepared.signals.breaks
            outcome.at = (prepared, min(int(np.searchsorted(pieces, local, side="right")), pieces.size - 1) - 1, local)
            if outcome.reason == Reason.TERMINAL_EVENT and not self._ends_run(prepared, record, outcome.logs[-1]):
                outcome.reason = Reason.FINISHED
                continue
            if outcome.reason != Reason.FINISHED:
                break
            if prepared.phase.until:
                outcome.timeouts.append((number, time))
        return outcome

    @staticmethod
    def _ends_run(prepared: Prepared, record: Record, rows: tuple[int, int]) -> bool:
        """Whether one of the events of the last instant ends more than its phase."""
        log = record.log[rows[0] : rows[1]]
        last = log[log[:, 0] == log[-1, 0]]
        functions = last[last[:, 1] >= EventKind.COMPONENT]
        return any(prepared.labels[int(row[2])][2] == "run" for row in functions)


@dataclass(eq=False)
class Outcome:
    """What a course left in its buffers."""

    work: Work
    record: Record
    audit: Array
    reason: Reason = Reason.FINISHED
    time: float = 0.0
    starts: list[float] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    logs: list[tuple[int, int]] = field(default_factory=list)
    timeouts: list[tuple[int, float]] = field(default_factory=list)
    at: tuple[Prepared, int, float] | None = None

    def events(self, course: Course) -> tuple[Event, ...]:
        """The log in words."""
        names, found = course.model.robot.dof_names, []
        for phase, (first, last) in enumerate(self.logs):
            labels = course.prepared[phase].labels
            for time, code, number, value in self.record.log[first : min(last, len(self.record.log))]:
                kind = EventKind(int(code))
                if kind in _FRICTION:
                    found.append(Event(float(time), _FRICTION[kind], names[int(number)], float(value), phase))
                else:
                    label = labels[int(number)]
                    found.append(Event(float(time), label[0], label[1], float(value), phase))
        found += [Event(time, "timeout", course.prepared[k].phase.name, 0.0, k) for k, time in self.timeouts]
        return tuple(sorted(found, key=lambda event: event.time))

    @property
    def stats(self) -> Stats:
        counts = self.record.counts
        return Stats(int(counts[2]), int(counts[3]), int(self.work.count[0]), int(counts[1]))


def simulate(
    robot: Robot,
    start: State,
    phases: Phase | Sequence[Phase] | float,
    *,
    method: Method | None = None,
    sample: float | npt.ArrayLike | None = None,
    overrides: Mapping[str, npt.ArrayLike] | None = None,
    ledger: bool = True,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    max_events: int = MAX_EVENTS,
) -> Run:
    """Run a robot in time.

    Args:
        start: state at time zero.
        phases: one or several phases, or a duration (s) in which everything is free.
        method: :class:`Adaptive` (default) or :class:`RK4`.
        sample: interval (s) or times of the samples; the end of the run is always the last sample.
        overrides: numbers to use in place of the robot's own: ``inertia``, ``rotor``, ``stiffness``, ``rest``,
            ``damping``, ``coupling``, ``static_friction``, ``coulomb_friction``.
        ledger: integrate energies and issue a certificate.
        tolerance: relative error that the certificate allows.

    Warns:
        CertificateWarning: momentum, energy or a constraint was not kept.
        RunWarning: the run ended early; ``reason`` says why.
    """
    chosen = as_phases(phases)
    start.check(robot)
    _check_limits(robot, start, chosen[0])
    solver = Adaptive() if method is None else method
    model = motion(robot, load_frames(chosen), ledger)
    prepared = tuple(prepare(model, phase, number) for number, phase in enumerate(chosen))
    parameters = model.parameters(overrides)
    wanted = sample_times(sample, sum(phase.duration for phase in chosen))
    ensure_loops()
    course = Course(model, prepared, solver, max_steps, max_events)
    record = make_record(np.append(wanted, np.inf), model.plant, model.kernel.n_out, max_events=max_events + 1000)
    pushed = ledger and (any(p.pushed for p in prepared) or bool(np.any(parameters["damping"][:6])))
    pushed = pushed or (ledger and bool(np.any(parameters["static_friction"][:6])))
    escale = 1.0
    if ledger:
        initial = np.zeros((1, model.plant.ny))
        initial[0, : model.nx] = start.vector
        escale = max(energy_ledger(model, parameters, initial).scale, 1e-3)
    outcome = interruptible(
        lambda stop: course.run(start.vector, parameters, record, stop, audited=pushed, escale=escale)
    )
    _record_end(model, outcome, wanted)
    return _result(course, outcome, parameters, wanted, pushed, tolerance)


def _check_limits(robot: Robot, start: State, phase: Phase) -> None:
    """Limits are watched for crossings, so a start beyond one would pass unseen."""
    for joint, position in zip(robot.joints, start.joints, strict=True):
        if phase.limits != "ignore" and not joint.limits.lower <= position <= joint.limits.upper:
            text = f"starts at {position:.6g}, outside its limits {joint.limits.lower:g} to {joint.limits.upper:g}"
            if phase.limits == "stop":
                raise InputError(text, place=f"joint {joint.name!r}", hint="start inside, or set limits='ignore'")
            warnings.warn(f"joint {joint.name!r} {text}", RunWarning, stacklevel=3)


def interruptible(call: Any) -> Any:
    """Run ``call(stop)`` in a thread that Ctrl-C can stop through the flag; in another thread, plainly."""
    stop = np.zeros(1, dtype=np.uint8)
    if threading.current_thread() is not threading.main_thread():
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
    except KeyboardInterrupt:
        stop[0] = 1
        thread.join()
        raise
    if failure:
        raise failure[0]
    return result[0]


def _record_end(model: Motion, outcome: Outcome, wanted: Array) -> None:
    """The end state as the last sample."""
    record, row = outcome.record, int(outcome.record.counts[0])
    prepared, piece, local = outcome.at or (None, 0, 0.0)
    if prepared is None or not np.all(np.isfinite(outcome.work.y)):
        return
    if row and abs(record.times[row - 1] - outcome.time) <= 1e-14 * max(1.0, outcome.time):
        record.counts[0] = row - 1
    row = int(record.counts[0])
    sample(model.plant, prepared.signals, piece, local, outcome.time - local, outcome.work.y, outcome.work, record)
    if row < wanted.size and abs(wanted[row] - outcome.time) < 1e-9:
        record.times[row] = wanted[row]


def _result(
    course: Course, outcome: Outcome, parameters: Mapping[str, Array], wanted: Array, pushed: bool, tolerance: float
) -> Run:
    model, record = course.model, outcome.record
    count = int(record.counts[0])
    times, y = record.times[:count].copy(), record.y[:count]
    near = min(count, wanted.size)
    close = np.abs(times[:near] - wanted[:near]) < 1e-9
    times[:near][close] = wanted[:near][close]
    inputs, outputs = record.inp[:count], record.out[:count]
    account = certificate = None
    failed = outcome.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT)
    if failed:
        warnings.warn(f"the run ended at t = {outcome.time:.9g} s: {outcome.reason.text}", RunWarning, stacklevel=3)
    edges = [*outcome.firsts, count]
    stretches = [
        Stretch(p, t, a, b) for p, t, a, b in zip(course.prepared, outcome.starts, edges[:-1], edges[1:], strict=False)
    ]
    stuck = inputs[:, model.kernel.inputs["mode"]] != 0.0
    for stretch in stretches:
        stuck[stretch.first : stretch.last, list(stretch.prepared.driven)] = False
    if model.ledger and count:
        account = energy_ledger(model, parameters, y)
        audit = outcome.audit[: int(record.counts[4])] if pushed else None
        certificate = certify(model, parameters, record.times[:count], y, inputs, audit, stretches, tolerance)
        if not certificate.ok:
            warnings.warn(f"the run does not keep what it should: {certificate}", CertificateWarning, stacklevel=3)
    state = outcome.work.y[: model.nx]
    return Run(
        model.robot,
        outcome.reason,
        State.from_vector(state) if np.all(np.isfinite(state)) else None,
        outcome.time,
        outcome.events(course),
        outcome.stats,
        certificate,
        tuple(outcome.starts),
        times,
        model,
        y,
        inputs,
        outputs,
        stuck,
        account,
    )
