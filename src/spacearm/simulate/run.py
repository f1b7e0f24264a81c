"""A run in time: phases one after the other, with events, samples and a certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.phase import make_record
from spacearm.engine.record import Record
from spacearm.engine.record import sample as keep_sample
from spacearm.engine.solver import Reason
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, SimulationError, TimeLimitError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.result import Certificate
from spacearm.simulate.books import Books
from spacearm.simulate.certificate import (
    TOLERANCE,
    CertificateWarning,
    Ledger,
    Stretch,
    certify,
    energy_ledger,
    inner_scale,
)
from spacearm.simulate.checks import LARGEST_ANGLE, check_angles, is_robot, number, numbers
from spacearm.simulate.course import MAX_EVENTS, Course, Occurrence, Outcome, Stats, as_phases
from spacearm.simulate.dataset import dataset
from spacearm.simulate.methods import Method, as_method
from spacearm.simulate.motion import Motion, Prepared, check_limits, check_resisted, load_frames, motion, prepare
from spacearm.simulate.phase import Phase
from spacearm.simulate.state import State
from spacearm.simulate.threads import interruptible
from spacearm.simulate.timescales import (
    TimeScales,
    cause,
    check_step,
    step_budget,
    stiffness_warnings,
    time_scales,
)
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

DEFAULT_SAMPLES = 200
#: More would not fit into the memory of most machines: a sample keeps some hundred numbers.
MAX_SAMPLES = 5_000_000


class RunWarning(UserWarning):
    """A run ended before its time, and not by an event that was meant to end it; or it will hardly get there."""


@dataclass(frozen=True, eq=False)
class Run:
    """The result of :func:`simulate`."""

    robot: Robot
    reason: Reason
    why: str  # the reason in words, with its cause where that is known
    end: State | None  # None where the state is not finite
    end_time: float
    events: tuple[Occurrence, ...]
    stats: Stats
    certificate: Certificate | None
    phase_starts: tuple[float, ...]
    times: Array
    model: Motion = field(repr=False)  # kernel and offsets, with which the samples below are read
    integrated: Array = field(repr=False)  # (T, ny): flat state, then energies since the start
    inputs: Array = field(repr=False)  # (T, ...) the kernel's inputs that change in time
    outputs: Array = field(repr=False)  # (T, n_out) the kernel's outputs
    stuck: npt.NDArray[np.bool_] = field(repr=False)  # (T, 6 + n)
    ledger: Ledger | None = field(repr=False)

    @property
    def sound(self) -> bool:
        """Whether it came to its end and kept what it should keep."""
        finished = self.reason in (Reason.FINISHED, Reason.TERMINAL_EVENT)
        return finished and (self.certificate is None or self.certificate.sound)

    @property
    def states(self) -> Array:
        """Flat states at the sample times (T, 13 + 2 n)."""
        return self.integrated[:, : self.model.nx]

    @cached_property
    def data(self) -> xr.Dataset:
        """Samples with names and units."""
        attrs: dict[str, Any] = {"robot": self.robot.name, "reason": self.why}
        if self.certificate is not None:
            attrs["certificate"] = str(self.certificate)
        return dataset(
            self.model, self.times, self.integrated, self.inputs, self.outputs, self.stuck, self.ledger, attrs
        )

    def events_of(self, kind: str) -> tuple[Occurrence, ...]:
        return tuple(event for event in self.events if event.kind == kind)


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
        count = int(np.floor(wanted * (1 + 1e-12) + 1e-9))
        return np.asarray(np.arange(count + 1) * interval, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or np.any(np.diff(array) < 0) or np.any(array < 0):
        raise InputError("sample times must be finite, from zero on, and rise", place="sample")
    if array.size > MAX_SAMPLES:
        raise InputError(f"{array.size} samples", place="sample", hint=f"expected at most {MAX_SAMPLES}")
    return array


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
    max_steps: int | None = None,
    max_events: int = MAX_EVENTS,
    progress: Callable[[float, float], None] | None = None,
) -> Run:
    """Run a robot in time.

    Args:
        start: state at time zero.
        phases: one or several phases, or a duration (s) in which everything is free.
        method: :class:`Dopri853` (default) or :class:`RK4`.
        sample: interval (s) or times of the samples; the end of the run is always the last sample.
        overrides: numbers to use in place of the robot's own: ``inertia``, ``rotor``, ``stiffness``, ``rest``,
            ``damping``, ``coupling``, ``static_friction``, ``coulomb_friction``.
        ledger: integrate energies and issue a certificate.
        tolerance: relative error that the certificate allows.
        max_steps: steps that the run may take; by itself many times what its length, the robot's springs and dampers
            and its motion at the start let one expect.
        progress: called now and then with (time reached, time of all phases), s, from the calling thread.
            Not called where :func:`simulate` itself runs in another thread than the main one.

    Warns:
        CertificateWarning: momentum, energy or a constraint was not kept.
        RunWarning: the run ended early, and ``why``; or a spring or damper is so fast that the method needs very many
            steps, or blows up with the step given.
    """
    is_robot(robot, "simulate")
    chosen = as_phases(phases)
    if not isinstance(start, State):
        raise InputError(
            f"the start is {type(start).__name__}", place="simulate", hint="expected a State, as State.at_rest(robot)"
        )
    if not (np.isfinite(number(tolerance, "tolerance")) and tolerance > 0.0):
        raise InputError(f"tolerance is {tolerance}", place="simulate", hint="expected a finite number above zero")
    told = check_limits(robot, start.check(robot).joints, chosen[0])
    if told:
        warnings.warn(told, RunWarning, stacklevel=2)
    solver = as_method(method)
    model = motion(robot, load_frames(chosen), ledger)
    prepared = tuple(prepare(model, phase, number) for number, phase in enumerate(chosen))
    check_resisted(prepared, robot, overrides)
    parameters = model.parameters(overrides)
    total = float(sum(phase.duration for phase in chosen))
    wanted = sample_times(sample, total)
    scales = _time_scales(model, prepared, parameters, start)
    if max_steps is None:
        max_steps = step_budget(solver, prepared, scales)
    check_step(solver, prepared, max_steps)
    for text in stiffness_warnings(solver, prepared, scales):
        warnings.warn(text, RunWarning, stacklevel=2)
    ensure_loops()
    course = Course(model, prepared, solver, max_steps, max_events)
    record = make_record(np.append(wanted, np.inf), model.code, model.kernel.n_out, max_events=max_events + 1000)
    pushed = ledger and (any(p.pushed for p in prepared) or bool(np.any(parameters["damping"][:6])))
    pushed = pushed or (ledger and bool(np.any(parameters["static_friction"][:6])))
    escale = max(inner_scale(model, parameters, start.vector), 1e-3) if ledger else 1.0
    books = Books(model, parameters, np.pad(start.vector, (0, model.code.ny - model.nx))) if pushed else None

    def watch() -> None:
        if progress is not None:
            progress(min(float(record.now[0]), total), total)

    try:
        outcome = interruptible(lambda stop: course.run(start.vector, parameters, record, stop, books, escale), watch)
    except TimeLimitError as error:
        error.place = error.place or f"run at t = {record.now[0]:.9g} s of {total:g} s"
        raise
    _record_end(outcome, wanted)
    _check_turns(robot, record)
    return _result(course, outcome, parameters, wanted, books, tolerance, start)


def _time_scales(
    model: Motion, prepared: Sequence[Prepared], parameters: Mapping[str, Array], start: State
) -> list[TimeScales]:
    """Of every phase, with the robot as it is at the start of the run."""
    kinds = {phase.driven: time_scales(model, parameters, start.vector, phase.driven) for phase in prepared}
    return [kinds[phase.driven] for phase in prepared]


def _check_turns(robot: Robot, record: Record) -> None:
    """An error where a joint has turned so far that its angle is no longer known."""
    rows = record.y[: int(record.counts[0]), Layout(robot.n).joints]
    try:
        check_angles(robot, rows)
    except InputError as error:
        far = int(np.argmax((np.abs(rows) > LARGEST_ANGLE).any(axis=1)))
        raise SimulationError(error.message, place=f"run at t = {record.times[far]:.9g} s", hint=error.hint) from None


def _record_end(outcome: Outcome, wanted: Array) -> None:
    """The end state as the last sample."""
    record, row = outcome.record, int(outcome.record.counts[0])
    if outcome.at is None or not np.all(np.isfinite(outcome.work.y)):
        return
    if row and abs(record.times[row - 1] - outcome.time) <= 1e-14 * max(1.0, outcome.time):
        record.counts[0] = row - 1
    row = int(record.counts[0])
    keep_sample(*outcome.at, outcome.work.y, record)
    if row < wanted.size and abs(wanted[row] - outcome.time) < 1e-9:
        record.times[row] = wanted[row]


def _result(
    course: Course,
    outcome: Outcome,
    parameters: Mapping[str, Array],
    wanted: Array,
    books: Books | None,
    tolerance: float,
    start: State,
) -> Run:
    model, record = course.model, outcome.record
    count = int(record.counts[0])
    times, y = record.times[:count].copy(), record.y[:count]
    near = min(count, wanted.size)
    close = np.abs(times[:near] - wanted[:near]) < 1e-9
    times[:near][close] = wanted[:near][close]
    inputs, outputs = record.inp[:count], record.out[:count]
    account = certificate = None
    why = outcome.reason.text
    if outcome.reason == Reason.TOO_MANY_STEPS:
        at = time_scales(model, parameters, outcome.work.y[: model.nx], course.prepared[len(outcome.starts) - 1].driven)
        why += f", {course.max_steps}{cause(at)}"
    if outcome.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT):
        warnings.warn(f"the run ended at t = {outcome.time:.9g} s: {why}", RunWarning, stacklevel=3)
    edges = [*outcome.firsts, count]
    stretches = [
        Stretch(p, t, a, b) for p, t, a, b in zip(course.prepared, outcome.starts, edges[:-1], edges[1:], strict=False)
    ]
    stuck = inputs[:, model.kernel.inputs["mode"]] != 0.0
    for stretch in stretches:
        stuck[stretch.first : stretch.last, list(stretch.prepared.driven)] = False
    if model.ledger and count:
        with np.errstate(over="ignore", invalid="ignore"):  # a run that broke down; its residuals are not numbers
            account = energy_ledger(model, parameters, y)
            certificate = certify(
                model, parameters, record.times[:count], y, inputs, books, stretches, tolerance, start.vector
            )
        if not certificate.sound:
            warnings.warn(f"conservation check failed: {certificate}", CertificateWarning, stacklevel=3)
    state = outcome.work.y[: model.nx]
    return Run(
        model.robot,
        outcome.reason,
        why,
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
