"""Many samples of one loop through one schedule, in lanes of the processor or threads of a GPU.

The one way from a :class:`~spacearm.engine.fixed_step.FixedStep` to results on either device, with the same bits in
float64: closed loops of campaigns (:mod:`spacearm.simulate.ensemble.vectorised_phases`) and designs of soft capture
(:mod:`spacearm.capture.evaluate`) say what happens in time, and who the samples are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.device import Device
from spacearm.engine.fixed_step import NO_RANDOM_CHANNELS, FixedStep, roll_samples, tick_moments
from spacearm.engine.machine import host
from spacearm.engine.warm import ensure_loops
from spacearm.simulate.threads import run_chunks
from spacearm.typing import Array

#: Samples that a thread processes at a time; a multiple of every lane width.
CHUNK = 1024


class LaneSchedule(NamedTuple):
    """What happens in time.

    Args:
        counts: (pieces,) steps in each.
        steps: (pieces,) s.
        channels: inputs that are polynomials on each piece.
        coefficient: (cases, powers, pieces, numbers) of the channels in this order; time from the piece's start.
        reference: the same of what a law reads at its ticks.
        hold: steps between two ticks.
        ask: (pieces,) at which step of each the law is asked first; unless given, all steps are counted on.
        random_channels: (numbers, 2) of each random number, and whether it is drawn once.
        start: s since the run's start.
    """

    counts: Any
    steps: Array
    channels: tuple[str, ...]
    coefficient: Array
    reference: Array = np.zeros((1, 1, 1, 0))
    hold: int = 1
    ask: Any = None
    random_channels: Any = NO_RANDOM_CHANNELS
    start: float = 0.0


def run_lanes(
    loop: FixedStep,
    schedule: LaneSchedule,
    common: Mapping[str, Array],
    each: Mapping[str, Any],
    *,
    every: int | None = None,
    case: Any = None,
    kept: Sequence[str] = (),
    device: Device = "cpu",
    there: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    together: int = CHUNK,
) -> tuple[Array, Array]:
    """States after every ``every`` steps (B, records, nx), and what is ``kept`` of the end (B, numbers).

    Args:
        common: inputs and memory that all samples start with.
        each: (B, size) of those that differ, ``state`` among them.
        every: None records nothing.
        case: (B,) which table of the schedule each sample takes; the first by default.
        there: leave results on the GPU.
        together: samples that a thread processes at a time.
    """
    if device == "gpu" or there:
        return _run_on_gpu(loop, schedule, common, each, every, case, kept, there)
    width, count = host().lanes, len(each["state"])
    made = loop.make_schedule(
        width,
        schedule.steps,
        schedule.counts,
        channels=[(name, k) for name in schedule.channels for k in range(loop.size(name))],
        coefficient=schedule.coefficient,
        references=[("reference", k) for k in range(schedule.reference.shape[3])],
        reference=schedule.reference if schedule.reference.size else None,
        every=every or 0,
        hold=schedule.hold,
        ask=schedule.ask,
        drawn=schedule.random_channels,
        start=schedule.start,
    )
    records = 0 if every is None else int(schedule.counts.sum()) // every
    samples = loop.samples(width, records, common=common, each=each, case=case, kept=kept)
    roll_chunks(loop.code(width), made, samples, count, threads, progress, together)
    return samples.result, samples.end


def _run_on_gpu(
    loop: FixedStep,
    schedule: LaneSchedule,
    common: Mapping[str, Array],
    each: Mapping[str, Any],
    every: int | None,
    case: Any,
    kept: Sequence[str],
    there: bool,
) -> tuple[Array, Array]:
    from spacearm.engine.cuda import GpuSchedule, RolloutVariant, channel_pairs, roll_on_gpu

    counts, steps = schedule.counts, schedule.steps
    begins = np.concatenate([[0.0], np.cumsum(steps * counts)[:-1]])
    made = GpuSchedule(counts, steps, begins, hold=schedule.hold, channels=schedule.coefficient, ask=schedule.ask)
    if schedule.reference.size:
        made = made._replace(references=schedule.reference)
    if len(schedule.random_channels):
        moments = tick_moments(schedule.start + begins, steps, counts, schedule.hold, schedule.ask)
        made = made._replace(moments=moments)
    variant = RolloutVariant(
        held="",
        channels=schedule.channels,
        recorded=() if every is None else ("state",),
        kept=tuple(kept),
        random_channels=channel_pairs(schedule.random_channels),
        followed=bool(schedule.reference.size),
    )
    often = int(counts.sum()) + 1 if every is None else every
    found = roll_on_gpu(loop, variant, each, common, made, often, case=case, there=there)
    return found.rows, found.ends


def roll_chunks(
    code: Any,
    roll_schedule: Any,
    samples: Any,
    size: int,
    threads: int | None,
    progress: Callable[[int, int], None] | None = None,
    together: int = CHUNK,
) -> None:
    """Run all samples through the schedule, spread over threads."""
    ensure_loops("lanes")

    def chunk(first: int) -> int:
        last = min(first + together, size)
        roll_samples(code, roll_schedule, samples, first, last)
        return last - first

    # A single chunk in this thread: starting a pool would take longer than the work.
    if size <= together:
        chunk(0)
        if progress is not None:
            progress(size, size)
    else:
        run_chunks(chunk, range(0, size, together), size, threads=threads, progress=progress)
