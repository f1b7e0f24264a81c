"""Many event-driven runs over threads: the same phases from many starts, with different parameters for each.

Each sample is the chain that :func:`~spacearm.simulate.simulate` runs alone, with the same steps, events and bits, but
without a certificate and outputs. Prepared phases, programs and machine code
are shared by all samples (:class:`~spacearm.simulate.run.chain.ChainSettings`); a world of its own is made for a sample
only where its parameters differ. Threads take chunks of samples; a sample does not depend on its chunk.

Roll-outs (:mod:`spacearm.simulate.ensemble.rollout`) are faster by far where there are no events.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, numbers
from spacearm.engine import NonFiniteWarning
from spacearm.engine.solver import EndReason
from spacearm.engine.threads import run_chunks
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.errors import error_context as located
from spacearm.model import Robot
from spacearm.simulate.checks import check_robot, flat_states
from spacearm.simulate.ensemble.rollout import split_overrides
from spacearm.simulate.methods import Method, as_method
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.chain import MAX_STEPS, ChainSettings, Item, PhaseChain, Phases, as_items, first_phase
from spacearm.simulate.run.ledger import energy_residual
from spacearm.simulate.run.prepare import check_limits
from spacearm.simulate.run.run import RunWarning
from spacearm.simulate.run.segment import Occurrence
from spacearm.simulate.world import World
from spacearm.typing import Array

CHUNK = 16


@dataclass(frozen=True, eq=False)
class BatchRun:
    """Results of :func:`simulate_batch`; samples along the first axis."""

    times: Array  # (T,) s
    end_time: Array  # (B,) s
    reason: npt.NDArray[np.int64]  # (B,) see Reason
    events: tuple[tuple[Occurrence, ...], ...]
    steps: npt.NDArray[np.int64]  # (B,)
    evaluations: npt.NDArray[np.int64]  # (B,)
    energy_residual: Array  # (B,) relative, NaN without ledger
    _kept: dict[tuple[str, int], tuple[Array, Array]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def allocate(cls, times: Array, count: int, world: World) -> BatchRun:
        """Arrays for this many samples of a world."""
        whole = [np.zeros(count, dtype=np.int64) for _ in range(3)]
        found = cls(times, np.zeros(count), whole[0], ((),) * count, whole[1], whole[2], np.full(count, np.nan))
        for name, at in world.layouts.items():
            found._states(name, at.size)
        return found

    def _states(self, system: str, size: int) -> tuple[Array, Array]:
        """Arrays for the states of a system at the sample times, and at the end."""
        with self._lock:
            if (system, size) not in self._kept:
                # A system may get another robot by a change: arrays are kept by name and size, made on demand by any
                # thread.
                shape = (self.end_time.size, self.times.size, size)
                self._kept[system, size] = np.full(shape, np.nan), np.full((shape[0], size), np.nan)
            return self._kept[system, size]

    def system_states(self, system: str) -> tuple[Array, Array]:
        """States of a system at the sample times (B, T, nx) and at the end (B, nx); NaN if there are none.

        If a change has altered its robot, those of the last robot.
        """
        check_name(system, self.systems, "system", place="batch")
        return [kept for (name, _), kept in self._kept.items() if name == system][-1]

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self._kept))

    @property
    def states(self) -> Array:
        """States (B, T, nx) of one system; NaN after the end of a run."""
        return self._single_system[0]

    @property
    def end(self) -> Array:
        """Last states (B, nx) of one system."""
        return self._single_system[1]

    @property
    def _single_system(self) -> tuple[Array, Array]:
        if len(self._kept) != 1:
            raise InputError(
                "several systems took part",
                place="batch",
                hint=f"expected system_states(system): {', '.join(self.systems)}",
            )
        (found,) = self._kept.values()
        return found

    def store_sample(self, i: int, chain: PhaseChain) -> None:
        """Store the results of sample ``i``."""
        rows = 0
        for segment in chain.segments:
            count, finite = int(segment.record.counts[0]), bool(np.all(np.isfinite(segment.work.y)))
            for part, own in zip(segment.model.parts, segment.parameters, strict=True):
                states, _ = self._states(part.name, part.layout.size)
                states[i, rows : rows + count] = segment.record.y[:count, part.layout.whole]
                if segment.model.ledger and finite:
                    first = np.zeros(segment.model.code.ny)
                    first[: segment.model.nx] = segment.start
                    both = np.stack([first, segment.work.y])[:, part.y]
                    error = energy_residual(part.motion, own, both)
                    # The worst over segments; fmax replaces the initial NaN.
                    self.energy_residual[i] = np.fmax(self.energy_residual[i], error)
            rows += count
        for name, at in chain.world.layouts.items():
            states, end = self._states(name, at.size)
            end[i] = chain.vector[at.whole]
            # A sample at the very end of a run is the end state: the solver stops there before it is recorded.
            if rows < self.times.size and abs(self.times[rows] - chain.time) <= 1e-9:
                states[i, rows] = end[i]
        self.end_time[i], self.reason[i] = chain.time, chain.reason
        stats = chain.stats
        self.steps[i], self.evaluations[i] = stats.steps, stats.evaluations

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Mask (B,) of the runs that finished."""
        return np.isin(self.reason, (EndReason.FINISHED, EndReason.TERMINAL_EVENT))

    @property
    def failures(self) -> dict[int, str]:
        """Index and reason of every run that did not finish."""
        return {int(i): EndReason(int(self.reason[i])).text for i in np.flatnonzero(~self.sound)}


def simulate_batch(
    robot: Robot | World,
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
    """Simulate many samples; each equals the result of :func:`simulate` alone, for any number of threads.

    Args:
        robot: one robot, or a world, whose overrides are then the same for all samples.
        starts: flat states (B, 13 + 2 n), of several systems in sequence. A start that is not finite ends at once, with
            its reason, and does not affect the others.
        phases: as for :func:`simulate`, the same for all samples, or a function that gives those of sample ``i``.
        sample: times (s) at which states are kept.
        overrides: parameters for all samples, or with a first axis of length B for each.
        ledger: integrate energies and return the relative residual of their balance.
        progress: called with (done, total) from the calling thread. Ctrl-C stops all threads soon.
    """
    if not isinstance(robot, World):
        check_robot(robot, "batch")
    given = World.from_robots(robot)
    states = _starts(given, starts)
    count = len(states)
    items = [as_items(phases(i)) for i in range(count)] if callable(phases) else [as_items(phases)]
    common, each = split_overrides(robot, overrides, count) if isinstance(robot, Robot) else ({}, {})
    _check_starts(given, states, [first_phase(chosen) for chosen in items])
    shared = World.from_robots(robot, common if isinstance(robot, Robot) else overrides)
    times = numbers(sample, "sample times of the batch")
    if times.ndim != 1 or np.any(np.diff(times) < 0) or np.any(times < 0) or not np.all(np.isfinite(times)):
        raise InputError("sample times must be finite, non-negative, and increasing", place="batch")
    settings = ChainSettings(as_method(method), times, ledger, max_steps, max_events, full=False)
    ensure_loops()
    found = BatchRun.allocate(times, count, given)
    events: list[tuple[Occurrence, ...]] = [()] * count
    stop = np.zeros(1, dtype=np.uint8)

    def chain(i: int) -> PhaseChain:
        # A world of its own only where parameters differ; all share prepared phases and programs (settings).
        own = World.from_robots(robot, {**common, **{name: rows[i] for name, rows in each.items()}}) if each else shared
        return PhaseChain(own, states[i], items[i if len(items) > 1 else 0], settings, i)

    if count and len(items) == 1:
        chain(0)  # errors in the phases are reported before anything runs

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
            found.store_sample(i, done)
        return last - first

    run_chunks(chunk, range(0, count, CHUNK), count, threads=threads, stop=stop, progress=progress)
    bad = np.flatnonzero(found.reason == EndReason.NOT_FINITE)
    if bad.size:
        warnings.warn(
            f"simulate_batch: {bad.size} of {count} samples ended in numbers that are not finite, the first at index "
            f"{bad[0]}",
            NonFiniteWarning,
            stacklevel=2,
        )
    return replace(found, events=tuple(events))


def _starts(world: World, starts: npt.ArrayLike) -> Array:
    """Flat states (B, nx), checked system by system."""
    if len(world.systems) == 1:
        (robot,) = world.systems.values()
        return flat_states(starts, robot, "batch")
    size = [*world.layouts.values()][-1].stop
    states = array(np.atleast_2d(starts), "starts", ("B", size), finite=False, place="batch")
    for name, at in world.layouts.items():
        flat_states(states[:, at.whole], world.robot(name), f"batch, {name}")
    return np.ascontiguousarray(states)


def _check_starts(world: World, states: Array, firsts: Sequence[Phase | None]) -> None:
    """Check joint limits at every start: an error if they stop the run, one warning if they are reported."""
    notes = []
    for name, robot in world.systems.items():
        joints = states[:, world.layouts[name].joints]
        # Vectorised test first: the message is made only for starts that are outside.
        for i in np.flatnonzero(((joints < robot.lower_limits) | (joints > robot.upper_limits)).any(axis=1)):
            phase = firsts[int(i) if len(firsts) > 1 else 0]
            with located(f"sample {i}"):
                text = "" if phase is None else check_limits(robot, joints[i], phase)
            notes += [f"sample {i}: {text}"] if text else []
    if notes:
        more = f" (and {len(notes) - 1} more samples)" if len(notes) > 1 else ""
        warnings.warn(notes[0] + more, RunWarning, stacklevel=3)
