"""Many samples of one loop of fixed steps, on the processor or on a GPU: what roll-outs, closed loops, designs and
derivatives have in common.

An ensemble is a :class:`~spacearm.engine.fixed_step.FixedStep` (the step, a law, an observer), a
:class:`~spacearm.engine.schedule.Schedule`, and numbers: those that all samples have in common, and those of each. On
the processor groups of samples go through the loop in vector lanes, chunks of groups over threads; on a GPU each sample
has a thread. In float64 both give the same bits, whatever other samples there are.

Between two runs an ensemble keeps what it has laid out and compiled, so that a search or a step-by-step simulation only
passes what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spacearm.engine.device import Device, Precision
from spacearm.engine.fixed_step import FixedStep, roll_samples
from spacearm.engine.machine import host
from spacearm.engine.schedule import Schedule
from spacearm.engine.threads import run_chunks
from spacearm.engine.warm import ensure_loops
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.engine.cuda import RolloutVariant

#: Samples that a thread processes at a time; a multiple of every lane width.
CHUNK = 1024


class EnsembleResult(NamedTuple):
    """Rows (B, records, numbers), ends (B, numbers); whether some last row is not finite, where it was looked at."""

    rows: Any
    ends: Any
    bad: bool | None = None


class Ensemble:
    """Samples of one loop through one schedule.

    Args:
        common: inputs and memory that all samples start with; those that the loop does not have are left out.
        each: (B, size) of those that differ; the same.
        every: None records nothing; 0 at the end of each piece (processor only); else after so many steps.
        case: (B,) which table of the schedule each sample takes; the first by default.
        held: an input, and its values (B or 1, steps or 1, size), held over each step or over all. A GPU reads them
            step by step; on the processor they are constant polynomials.
        recorded: inputs that are recorded.
        kept: inputs or memory of which the end is kept.
        there: leave results on the GPU.
        width: lanes of a group, those of the processor by default.
        chunk: samples that a thread processes at a time.
    """

    def __init__(
        self,
        loop: FixedStep,
        schedule: Schedule,
        common: Mapping[str, Array],
        each: Mapping[str, Any],
        *,
        every: int | None = None,
        case: Any = None,
        held: tuple[str, Array] | None = None,
        recorded: Sequence[str] = ("state",),
        kept: Sequence[str] = (),
        device: Device = "cpu",
        precision: Precision = "float64",
        there: bool = False,
        threads: int | None = None,
        width: int | None = None,
        chunk: int = CHUNK,
    ) -> None:
        self.loop, self.schedule = loop, schedule
        # A loop leaves out what it does not read: callers need not know which parameters that is.
        self._common = {name: value for name, value in common.items() if name in loop.inputs}
        self._each = {name: value for name, value in each.items() if name in loop.inputs}
        self._count = len(next(iter(self._each.values())))
        self._every, self._case, self._held = every, case, held
        self._recorded, self._kept = tuple(recorded), tuple(kept)
        self._there, self._threads, self._chunk = there, threads, chunk
        self._on_gpu = device == "gpu" or there
        if self._on_gpu:
            self._variant = self._make_variant(precision)
        else:
            self._lay_out(host().lanes if width is None else width)

    def run(self, progress: Callable[[int, int], None] | None = None, **changed: Any) -> EnsembleResult:
        """Run all samples from their start, with new values (B, size) of some inputs of each.

        On the processor the arrays of the result are written over by the next run.
        """
        self._each |= changed
        return self._run_on_gpu() if self._on_gpu else self._run_in_lanes(changed, progress)

    def _lay_out(self, width: int) -> None:
        """Schedule and samples as the compiled loop takes them."""
        loop, schedule, case = self.loop, self.schedule, self._case
        if self._held is not None and self._held[1].size:
            schedule = schedule.hold_inputs(*self._held)
            case = np.arange(self._count) if case is None and len(self._held[1]) > 1 else case
        if "sample" in loop.inputs and "sample" not in self._each:  # by which it draws
            self._each["sample"] = schedule.draw + np.arange(float(self._count))[:, None]
        records = int(np.sum(schedule.counts)) // self._every if self._every else len(schedule.counts)
        self._samples = loop.samples(
            width,
            0 if self._every is None else records,
            common=self._common,
            each=self._each,
            case=case,
            recorded=self._recorded,
            kept=self._kept,
        )
        self._steps, self._code = loop.make_schedule(width, schedule, self._every or 0), loop.code(width)

    @cached_property
    def _columns(self) -> dict[str, slice]:
        """Of the samples' table: what was given, then what follows from it."""
        # In the order in which the samples' table was laid out.
        names = [*self.loop.derive_inputs(self._common, self._each)[1]]
        ends = np.cumsum([self.loop.size(name) for name in names]).tolist()
        return {name: slice(end - self.loop.size(name), end) for name, end in zip(names, ends, strict=True)}

    @property
    def rows(self) -> Array:
        """On the processor: the array (B, records, numbers) in which each run records."""
        return self._samples.result

    def _run_in_lanes(self, new: Mapping[str, Any], progress: Callable[[int, int], None] | None) -> EnsembleResult:
        samples = self._samples
        # Inertias in other frames follow from inertias: a new value of one changes both.
        if not self.loop.derived_from.isdisjoint(new):
            new = self.loop.derive_inputs(self._common, self._each)[1]
        for name, value in new.items():
            samples.values[:, self._columns[name]] = value
        ensure_loops("lanes")

        def chunk(first: int) -> int:
            last = min(first + self._chunk, self._count)
            roll_samples(self._code, self._steps, samples, first, last)
            return last - first

        # A single chunk in this thread: starting a pool would take longer than the work.
        if self._count <= self._chunk:
            chunk(0)
            if progress is not None:
                progress(self._count, self._count)
        else:
            firsts = range(0, self._count, self._chunk)
            run_chunks(chunk, firsts, self._count, threads=self._threads, progress=progress)
        return EnsembleResult(samples.result, samples.end)

    def _make_variant(self, precision: Precision) -> RolloutVariant:
        from spacearm.engine.cuda import RolloutVariant

        schedule = self.schedule
        return RolloutVariant(
            held="" if self._held is None else self._held[0],
            channels=schedule.channels,
            recorded=() if self._every is None else self._recorded,
            kept=self._kept,
            random_channels=tuple((int(key), int(once)) for key, once in schedule.random_channels),
            followed=len(schedule.reference) > 1,
            real="double" if precision == "float64" else "float",
        )

    def _run_on_gpu(self) -> EnsembleResult:
        from spacearm.engine.cuda import roll_on_gpu

        # More steps than there are: nothing is recorded on the way.
        every = self._every or int(np.sum(self.schedule.counts)) + 1
        force = None if self._held is None else self._held[1]
        return roll_on_gpu(
            self.loop, self._variant, self._each, self._common, self.schedule, every,
            force=force, case=self._case, there=self._there,
        )  # fmt: skip
