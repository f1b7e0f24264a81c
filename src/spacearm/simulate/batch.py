"""Many event-driven runs over threads: the same phases from many starts, with other parameters for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spacearm.engine import NonFiniteWarning
from spacearm.engine.solver import Reason
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.chain import MAX_STEPS, Chain, Item, Occurrence, Phases, Settings, as_items, first_phase
from spacearm.simulate.checks import flat_states, is_robot, numbers
from spacearm.simulate.ledger import energy_residual
from spacearm.simulate.methods import Method, as_method
from spacearm.simulate.phase import Phase
from spacearm.simulate.prepare import check_limits
from spacearm.simulate.rollout import split_overrides
from spacearm.simulate.run import RunWarning
from spacearm.simulate.threads import spread
from spacearm.simulate.world import World
from spacearm.typing import Array

CHUNK = 16


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

    @classmethod
    def room(cls, times: Array, count: int, nx: int) -> BatchRun:
        """For so many samples."""
        whole = [np.zeros(count, dtype=np.int64) for _ in range(3)]
        states, end = np.full((count, times.size, nx), np.nan), np.full((count, nx), np.nan)
        lost = np.full(count, np.nan)
        return cls(times, states, end, np.zeros(count), whole[0], ((),) * count, whole[1], whole[2], lost)

    def keep(self, i: int, chain: Chain) -> None:
        """What a run leaves behind of sample ``i``."""
        rows = 0
        for segment in chain.segments:
            if segment.model.nx != self.end.shape[1]:
                raise InputError(
                    "a change alters what there is", place="batch", hint="a batch keeps the states of one robot"
                )
            taken = segment.record.y[segment.rows, : segment.model.nx]
            self.states[i, rows : rows + len(taken)] = taken
            rows += len(taken)
            if segment.model.ledger and np.all(np.isfinite(segment.work.y)):
                first = np.zeros(segment.model.code.ny)
                first[: segment.model.nx] = segment.start
                both = np.stack([first, segment.work.y])
                error = energy_residual(segment.model.parts[0].motion, segment.parameters[0], both)
                self.energy_residual[i] = np.fmax(self.energy_residual[i], error)
        if rows < self.times.size and abs(self.times[rows] - chain.time) <= 1e-9:
            self.states[i, rows] = chain.vector
        self.end[i], self.end_time[i], self.reason[i] = chain.vector, chain.time, chain.reason
        stats = chain.stats
        self.steps[i], self.evaluations[i] = stats.steps, stats.evaluations

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
    phases: float | Item | Sequence[Item] | Callable[[int], Phases],
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
        phases: as for :func:`simulate`, the same for all samples, or a function that gives those of sample ``i``.
            Changes may lock, release and switch, but not alter what there is.
        sample: times (s) at which states are kept.
        overrides: parameters for all samples, or with a first axis of length B for each.
        ledger: integrate energies and return the relative residual of their balance.
        progress: called with (done, total) from the calling thread. Ctrl-C stops all threads soon.
    """
    is_robot(robot, "batch")
    states = flat_states(starts, robot, "batch")
    count, nx = len(states), states.shape[1]
    items = [as_items(phases(i)) for i in range(count)] if callable(phases) else [as_items(phases)]
    _check_starts(robot, states, [first_phase(chosen) for chosen in items])
    common, each = split_overrides(robot, overrides, count)
    times = numbers(sample, "sample times of the batch")
    if times.ndim != 1 or np.any(np.diff(times) < 0) or np.any(times < 0) or not np.all(np.isfinite(times)):
        raise InputError("sample times must be finite, from zero on, and rise", place="batch")
    settings = Settings(as_method(method), times, ledger, max_steps, max_events, full=False)
    ensure_loops()
    found = BatchRun.room(times, count, nx)
    events: list[tuple[Occurrence, ...]] = [()] * count
    stop = np.zeros(1, dtype=np.uint8)

    shared = World.of(robot, common)

    def chain(i: int) -> Chain:
        own = World.of(robot, {**common, **{name: rows[i] for name, rows in each.items()}}) if each else shared
        return Chain(own, states[i], items[i if len(items) > 1 else 0], settings)

    if count and len(items) == 1:
        chain(0)  # what is wrong with the phases is told before anything runs

    def chunk(first: int) -> int:
        last = min(first + CHUNK, count)
        for i in range(first, last):
            if stop[0]:
                break
            try:
                done = chain(i).run(stop)
            except InputError as error:
                error.place = f"sample {i}: {error.place}"
                raise
            events[i] = done.occurrences()
            found.keep(i, done)
        return last - first

    spread(chunk, range(0, count, CHUNK), count, threads=threads, stop=stop, progress=progress)
    bad = np.flatnonzero(found.reason == Reason.NOT_FINITE)
    if bad.size:
        warnings.warn(
            f"simulate_batch: {bad.size} of {count} samples ended in numbers that are not finite, the first at index "
            f"{bad[0]}",
            NonFiniteWarning,
            stacklevel=2,
        )
    return replace(found, events=tuple(events))


def _check_starts(robot: Robot, states: Array, firsts: Sequence[Phase | None]) -> None:
    """Joint limits at every start: an error where they stop the run, one warning where they are reported."""
    n = robot.n
    lower, upper = (np.array([getattr(joint.limits, side) for joint in robot.joints]) for side in ("lower", "upper"))
    joints = states[:, Layout(n).joints]
    outside = np.flatnonzero(((joints < lower) | (joints > upper)).any(axis=1))
    told = []
    for i in outside:
        phase = firsts[int(i) if len(firsts) > 1 else 0]
        try:
            text = "" if phase is None else check_limits(robot, joints[i], phase)
        except InputError as error:
            error.place = f"sample {i}: {error.place}"
            raise
        told += [f"sample {i}: {text}"] if text else []
    if told:
        more = f" (and {len(told) - 1} more samples)" if len(told) > 1 else ""
        warnings.warn(told[0] + more, RunWarning, stacklevel=3)
