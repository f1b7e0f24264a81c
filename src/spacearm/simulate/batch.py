"""Many event-driven runs over threads: the same phases from many starts, with other parameters for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.engine import NonFiniteWarning
from spacearm.engine.phase import make_record
from spacearm.engine.solver import Reason
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.certificate import energy_residual, inner_scale
from spacearm.simulate.checks import flat_states, is_robot, numbers
from spacearm.simulate.course import MAX_STEPS, Course, Occurrence, as_phases
from spacearm.simulate.methods import Method, as_method
from spacearm.simulate.motion import check_limits, check_resisted, load_frames, motion, prepare
from spacearm.simulate.phase import Phase
from spacearm.simulate.rollout import split_overrides
from spacearm.simulate.run import RunWarning
from spacearm.simulate.threads import spread
from spacearm.typing import Array

CHUNK = 16
Phases: TypeAlias = Phase | Sequence[Phase] | float


@dataclass(frozen=True, eq=False)
class BatchRun:
    """Results of :func:`simulate_batch`; samples along the first axis."""

    times: Array  # (T,) s
    states: Array  # (B, T, nx); NaN after the end of a run
    end: Array  # (B, nx)
    end_time: Array  # (B,) s
    reason: npt.NDArray[np.int64]  # (B,) see Reason
    events: tuple[tuple[Occurrence, ...], ...]
    steps: npt.NDArray[np.int64]  # (B,)
    evaluations: npt.NDArray[np.int64]  # (B,)
    energy_residual: Array  # (B,) relative, NaN without ledger

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Which runs came to their end."""
        return np.isin(self.reason, (Reason.FINISHED, Reason.TERMINAL_EVENT))

    @property
    def failures(self) -> dict[int, str]:
        """Index and reason of every run that did not."""
        return {int(i): Reason(int(self.reason[i])).text for i in np.flatnonzero(~self.sound)}


def simulate_batch(
    robot: Robot,
    starts: npt.ArrayLike,
    phases: Phases | Callable[[int], Phases],
    *,
    method: Method | None = None,
    sample: npt.ArrayLike = (),
    overrides: Mapping[str, npt.ArrayLike] | None = None,
    ledger: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    max_steps: int = MAX_STEPS,
    max_events: int = 1000,
) -> BatchRun:
    """Run many samples; each is what :func:`simulate` gives alone, for any number of threads.

    Args:
        starts: flat states (B, 13 + 2 n). One that is not finite ends at once, with its reason, and touches no other.
        phases: as for :func:`simulate`, the same for all samples; or a function that gives the phases of sample ``i``.
        sample: times (s) at which states are kept.
        overrides: parameters for all samples, or with a first axis of length B for each.
        ledger: integrate energies and return the relative residual of their balance.
        progress: called with (done, total) from the calling thread. Ctrl-C stops all threads soon.
    """
    is_robot(robot, "batch")
    states = flat_states(starts, robot, "batch")
    each_phases = [as_phases(phases(i)) for i in range(len(states))] if callable(phases) else [as_phases(phases)]
    model = motion(robot, load_frames([phase for chosen in each_phases for phase in chosen]), ledger)
    count = len(states)
    solver = as_method(method)
    courses = [
        Course(model, tuple(prepare(model, phase, k) for k, phase in enumerate(chosen)), solver, max_steps, max_events)
        for chosen in each_phases
    ]
    for course in courses:
        check_resisted(course.prepared, robot, overrides)
    _check_starts(robot, states, each_phases)
    common, each = split_overrides(robot, overrides, count)
    shared = model.parameters(common)
    times = numbers(sample, "sample times of the batch")
    if times.ndim != 1 or np.any(np.diff(times) < 0) or np.any(times < 0) or not np.all(np.isfinite(times)):
        raise InputError("sample times must be finite, from zero on, and rise", place="batch")
    ensure_loops()
    kept = np.full((count, times.size, model.nx), np.nan)
    end, end_time = np.full((count, model.nx), np.nan), np.zeros(count)
    reason, steps, evaluations = (np.zeros(count, dtype=np.int64) for _ in range(3))
    residual = np.full(count, np.nan)
    events: list[tuple[Occurrence, ...]] = [()] * count
    stop = np.zeros(1, dtype=np.uint8)

    def one(i: int) -> None:
        course = courses[i if len(courses) > 1 else 0]
        parameters = shared if not each else {**shared, **{name: rows[i] for name, rows in each.items()}}
        record = make_record(times, model.code, model.kernel.n_out, full=False, max_events=max_events + 100)
        try:
            escale = max(inner_scale(model, parameters, states[i]), 1e-3) if ledger else 1.0
            outcome = course.run(states[i], parameters, record, stop, escale=escale)
        except InputError as error:
            error.place = f"sample {i}: {error.place}"
            raise
        rows = int(record.counts[0])
        kept[i, :rows] = record.y[:rows, : model.nx]
        if rows < times.size and abs(times[rows] - outcome.time) <= 1e-9:
            kept[i, rows] = outcome.work.y[: model.nx]
        end[i], end_time[i], reason[i] = outcome.work.y[: model.nx], outcome.time, outcome.reason
        steps[i], evaluations[i] = outcome.stats.steps, outcome.stats.evaluations
        events[i] = outcome.events(course)
        if ledger and np.all(np.isfinite(outcome.work.y)):
            first = np.zeros(model.code.ny)
            first[: model.nx] = states[i]
            residual[i] = energy_residual(model, parameters, np.stack([first, outcome.work.y]))

    def chunk(first: int) -> int:
        last = min(first + CHUNK, count)
        for i in range(first, last):
            if stop[0]:
                break
            one(i)
        return last - first

    spread(chunk, range(0, count, CHUNK), count, threads=threads, stop=stop, progress=progress)
    bad = np.flatnonzero(reason == Reason.NOT_FINITE)
    if bad.size:
        warnings.warn(
            f"simulate_batch: {bad.size} of {count} samples ended in numbers that are not finite, the first at index "
            f"{bad[0]}",
            NonFiniteWarning,
            stacklevel=2,
        )
    return BatchRun(times, kept, end, end_time, reason, tuple(events), steps, evaluations, residual)


def _check_starts(robot: Robot, states: Array, each_phases: Sequence[tuple[Phase, ...]]) -> None:
    """Joint limits at every start: an error where they stop the run, one warning where they are reported."""
    n = robot.n
    lower, upper = (np.array([getattr(joint.limits, side) for joint in robot.joints]) for side in ("lower", "upper"))
    joints = states[:, Layout(n).joints]
    outside = np.flatnonzero(((joints < lower) | (joints > upper)).any(axis=1))
    told = []
    for i in outside:
        try:
            text = check_limits(robot, joints[i], each_phases[int(i) if len(each_phases) > 1 else 0][0])
        except InputError as error:
            error.place = f"sample {i}: {error.place}"
            raise
        told += [f"sample {i}: {text}"] if text else []
    if told:
        more = f" (and {len(told) - 1} more samples)" if len(told) > 1 else ""
        warnings.warn(told[0] + more, RunWarning, stacklevel=3)
