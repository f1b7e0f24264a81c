"""Roll-outs on a GPU: a whole roll-out of a sample in one thread, from the traces of the fixed step.

The loop is that of :func:`spacearm.engine.fixed_step.roll`, the text of its pieces that of
:mod:`spacearm.engine.c_source`, compiled by NVRTC without contraction, so that in float64 a sample has the bits that it
has on the processor (float32 is another computation with its own rounding).

One launch covers all steps: the state stays with its thread, and memory is touched only for a sample's own inputs and
its records. Registers are the limit (255 a thread), so all that is the same for all samples and steps is computed
once beforehand, in double precision, and read from constant memory; operations are reordered so that few values wait;
and if values still spill, the order as given is tried too. Samples go in portions that fit into the device's memory.

Numbers of each sample stand [entry][sample], so that neighbouring threads read neighbouring numbers; start states and
records stand row by row, as callers have them. Times in s, frames and units those of the motion program. Not here:
adaptive steps, events, dry friction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine._cuda_text import DRAW, LAW, NORMAL, ROLLOUT, SINGLE_SINE, polynomials
from spacearm.engine.c_source import helpers, statements
from spacearm.engine.device import NVRTC, PREAMBLE, SINGLE, allocate_array, cupy, run_portions, set_uniform
from spacearm.engine.ensemble import EnsembleResult
from spacearm.engine.fixed_step import CLOCK, RANDOM_INPUTS, FixedStep
from spacearm.engine.kernel import Kernel
from spacearm.engine.machine import evaluate
from spacearm.engine.schedule import Schedule
from spacearm.engine.trace import Trace
from spacearm.typing import Array

#: Threads of a block: as many as the registers of a multiprocessor serve (255 each).
BLOCK = 256


class RolloutVariant(NamedTuple):
    """What a roll-out's text depends on besides its step.

    Args:
        each: inputs and memory of which each sample has its own at the start, ``state`` among them.
        held: an input that is held over a step and given for samples and steps.
        channels: inputs that are polynomials of time on each piece.
        recorded: what is recorded after every so many steps.
        kept: inputs or memory of which the end is kept.
        random_channels: channel of each random number of a law, and whether it is drawn once; with ``seed`` among
            ``each``, from seeds of their own.
        followed: whether a law's references have a table for each case.
        real: ``double`` or ``float``.
    """

    each: tuple[str, ...] = ("state",)
    held: str = "force"
    channels: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ("state",)
    kept: tuple[str, ...] = ()
    random_channels: tuple[tuple[int, int], ...] = ()
    real: str = "double"
    followed: bool = False


class KernelTuning(NamedTuple):
    """How a roll-out's text is made; results do not depend on it.

    Args:
        block: threads of a block.
        blocks: of a multiprocessor at least, which limits the registers of a thread.
        order: of a stage's operations, ``waiting``: fewest values waiting, or as ``given``.
        shared: whether state and sums stand in the multiprocessor's shared memory.
        unroll: stages of a step that are written out.
    """

    block: int = BLOCK
    blocks: int = 1
    order: str = "waiting"
    shared: bool = False
    unroll: int = 1


def _list_reads_and_writes(loop: FixedStep) -> tuple[list[str], list[str]]:
    """Inputs that any piece of a step reads, and those that any writes."""
    kernels = [k for k in (loop.stage, loop.finish, loop.law_kernel, loop.observe) if k is not None]
    read = {int(i.constant) for k in kernels for i in k.trace.instructions if i.op == "input"}
    used = [name for name, at in loop.stage.inputs.items() if read.intersection(range(at.start, at.stop))]
    return used, list(dict.fromkeys(name for kernel in kernels for name in kernel.outputs))


class RolloutSource:
    """The text of a roll-out, and what stands where."""

    def __init__(
        self,
        loop: FixedStep,
        shape: RolloutVariant = RolloutVariant(),  # noqa: B008
        tuning: KernelTuning = KernelTuning(),  # noqa: B008
    ) -> None:
        self.loop, self.shape, self.tuning, self.real = loop, shape, tuning, shape.real
        self._shared = ("state", "total_state") if tuning.shared else ()
        used, written = _list_reads_and_writes(loop)
        drawn = [name for name in ("reference", "noise") if name in loop.memory]
        #: What a thread keeps for itself: what any piece of the step writes, what a law follows, channels.
        self.local = tuple(dict.fromkeys([*written, *drawn, *shape.channels, *shape.recorded, *shape.kept]))
        #: Numbers of each sample, those that are the same for all, and what a thread's own begin with.
        nominal = ("seed",) if "noise" in self.local else ()
        self.each = tuple(name for name in shape.each if name in used or name in self.local or name in nominal)
        apart = {*self.each, *CLOCK, *self.local, shape.held, *RANDOM_INPUTS}
        self.uniform = tuple(name for name in used if name not in apart)
        apart, sums = {*self.each, *drawn, *shape.channels}, ("slope_", "total_")
        self.begun = tuple(name for name in self.local if name not in apart and not name.startswith(sums))

    def _offsets(self, names: Sequence[str]) -> dict[str, int]:
        found, at = {}, 0
        for name in names:
            found[name] = at
            at += self.loop.size(name)
        return found

    def input_size(self, names: Sequence[str]) -> int:
        """Numbers that these inputs take."""
        return sum(self.loop.size(name) for name in names)

    def _place(self, name: str, entry: int | str) -> str:
        if name in CLOCK:
            return name
        if name in self.local:
            return f"{name}_[{entry}]{'[threadIdx.x]' if name in self._shared else ''}"
        if name == self.shape.held:
            return f"now[{entry} * force_entry]"
        if name in self.each:
            return self._own(name, entry)
        return f"uniform[{self._offsets(self.uniform)[name] + int(entry)}]"

    def _own(self, name: str, entry: int | str) -> str:
        """Where a sample's own number stands; states go row by row, since they are read once."""
        if name == "state":
            return f"start[sample * {self.loop.size(name)} + {entry}]"
        return f"each[({self._offsets([n for n in self.each if n != 'state'])[name]} + {entry}) * samples + sample]"

    @cached_property
    def _split(self) -> tuple[Trace, Trace]:
        """The stage: what is the same for all samples and all steps, and the rest."""
        kernel = self.loop.stage
        same = {k for name in self.uniform for k in range(kernel.inputs[name].start, kernel.inputs[name].stop)}
        once, rest = kernel.trace.hoist(frozenset(same))
        return once, rest.reorder() if self.tuning.order == "waiting" else rest

    def constants(self, common: Mapping[str, Array]) -> Array:
        """All that is the same for all samples and steps: inputs, what depends on these alone, memory at first."""
        kernel, once = self.loop.stage, self._split[0]
        row = np.zeros(once.n_in)
        for name in self.uniform:
            if name in common:
                row[kernel.inputs[name]] = np.ravel(common[name])
        own = [row[kernel.inputs[name]] for name in self.uniform]
        first = [np.ravel(common.get(name, np.zeros(self.loop.size(name)))) for name in self.begun]
        # In the order in which the text numbers ``uniform``: inputs, hoisted values, first values of a thread's memory.
        return np.concatenate([*own, evaluate(once, row), *first])

    def _lines(self, kernel: Kernel | None, trace: Trace | None = None) -> list[str]:
        if kernel is None:
            return []
        if trace is None:
            trace = kernel.trace.reorder() if self.tuning.order == "waiting" else kernel.trace
        at = self.input_size(self.uniform)

        def place(places: Mapping[str, slice], flat: int) -> str:
            # Values hoisted out of the stage follow its own inputs.
            if flat >= kernel.n_in:
                return f"uniform[{at + flat - kernel.n_in}]"
            name = next(name for name, at in places.items() if at.start <= flat < at.stop)
            return self._place(name, flat - places[name].start)

        found = {int(i.constant) for i in trace.instructions if i.op == "input"}
        read = {k: place(kernel.inputs, k) for k in found}
        # Constant memory is read where it is used: read early, these numbers would only occupy registers.
        keep = [k for k, text in read.items() if text.startswith("uniform[")]
        return statements(trace, read.__getitem__, lambda k: place(kernel.outputs, k), real=self.real, keep=keep)

    def _begin(self, first: int) -> list[str]:
        """What a thread starts with."""
        found, starts = [], {name: first + at for name, at in self._offsets(self.begun).items()}
        for name in self.local:
            for k in range(self.loop.size(name)):
                value = self._own(name, k) if name in self.each else "0"
                found.append(f"{self._place(name, k)} = {f'uniform[{starts[name] + k}]' if name in starts else value};")
        return found

    def _copy_lines(self, names: Sequence[str], target: str) -> str:
        """Numbers of a thread to a row of the results."""
        lines, at = [], 0
        for name in names:
            size = self.loop.size(name)
            lines.append(f"#pragma unroll\nfor (i = 0; i < {size}; ++i) {target}[{at} + i] = {self._place(name, 'i')};")
            at += size
        return "\n".join(lines)

    def _law(self, lines: list[str]) -> str:
        if not lines:
            return ""
        follow = drawn = ""
        if "reference" in self.local:
            size = self.loop.size("reference")
            follow = polynomials("reference", size, "reference", size if self.shape.followed else None)
        if "noise" in self.local:
            mine = "seed" in self.each
            schedule = (f"(long long){self._own('seed', 0)}", "0") if mine else ("seed", "before + sample")
            drawn = "\n".join(
                DRAW.format(
                    entry=i, schedule=", ".join(schedule), at="-1" if once else "moments[tick]", channel=key % 2**64
                )
                for i, (key, once) in enumerate(self.shape.random_channels)
            )
        return LAW.format(law="\n".join(lines), follow=follow, drawn=drawn)

    @cached_property
    def text(self) -> str:
        loop, shape, tuning = self.loop, self.shape, self.tuning
        once, rest = self._split
        first = self.input_size(self.uniform) + once.n_out
        pieces = [self._lines(loop.stage, rest), self._lines(loop.finish, loop.finish.trace)]
        pieces += [self._lines(loop.law_kernel), self._lines(loop.observe)]
        stage, finish, _, observe = ("\n".join(lines) for lines in pieces)
        width = self.input_size(shape.channels)
        offsets = self._offsets(shape.channels)
        now = "\n".join(polynomials(n, loop.size(n), "channel", width, offsets[n]) for n in shape.channels)
        own = [name for name in self.local if name not in self._shared]
        text = ROLLOUT.format(
            stage=stage,
            finish=finish,
            law=self._law(pieces[2]),
            uniform=max(1, first + self.input_size(self.begun)),
            block=tuning.block,
            bounds=f"{tuning.block}, {tuning.blocks}" if tuning.blocks > 1 else tuning.block,
            unroll=tuning.unroll,
            row=self.input_size(shape.recorded),
            end=self.input_size(shape.kept),
            nx=loop.size("state"),
            local=", ".join(f"{name}_[{max(1, loop.size(name))}]" for name in own),
            shared="".join(f"__shared__ double {n}_[{loop.size(n)}][{tuning.block}];\n" for n in self._shared),
            begin="\n".join(self._begin(first)),
            now=now,
            later=f"if (number & 1) {{\nlocal = ticked + part;\n{now}\n}}" if now else "",
            state=self._place("state", "i"),
            record=self._copy_lines(shape.recorded, "row"),
            keep=self._copy_lines(shape.kept, "end"),
            observe=f"if (number == 0) {{\n{observe}\n}}" if observe else "",
            observed=int(bool(observe)),
        )
        own_functions = helpers([line for lines in pieces for line in lines], self.real, "__device__ __forceinline__")
        normal = NORMAL if "noise" in self.local else ""
        if self.real == "double":
            return f"{normal}{own_functions}\n{text}"
        # Numbers of traces are hexadecimal and have their suffix; 0.5 is the only decimal one, of the loop itself. The
        # normal numbers stay in double precision.
        return f"{normal}{SINGLE_SINE}{own_functions}\n" + text.replace("double", "float").replace("0.5", "0.5f")


class GpuRollout:
    """A compiled roll-out."""

    def __init__(self, source: RolloutSource, options: Sequence[str] | None = None) -> None:
        self.source, self.cp = source, cupy()
        usual = (*NVRTC, *(() if source.real == "double" else SINGLE))
        self.module = self.cp.RawModule(code=PREAMBLE + source.text, options=tuple(options or usual))
        self.kernel = self.module.get_function("rollout")
        # Bytes of a thread's own memory outside registers: what the compiler could not keep in them.
        self.spilled = int(self.kernel.local_size_bytes)
        self.dtype = np.float64 if source.real == "double" else np.float32
        self.given: bytes | None = None
        self.schedule: tuple[Any, tuple[Any, ...]] = None, ()

    def run(
        self,
        each: Mapping[str, Any],
        common: Mapping[str, Array],
        schedule: Schedule,
        every: int,
        *,
        force: Any = None,
        case: Array | None = None,
        there: bool = True,
    ) -> EnsembleResult:
        """What is recorded and kept, on the device if it is to stay ``there``.

        Args:
            each: (B, size) of what differs.
            common: the other inputs and memory.
            force: (B or 1, steps or 1, size) of the input that is held; zero without.
            case: (B,) which table of channels each sample takes; the first by default.
        """
        cp, source, xp = self.cp, self.source, self.cp if there else np
        samples, total = len(each["state"]), int(np.sum(schedule.counts))
        shape = source.shape
        sizes = ((total // every, source.input_size(shape.recorded)), (source.input_size(shape.kept),))
        self._set_uniform(common)
        found = [allocate_array(xp, (samples, *size), self.dtype) for size in sizes]
        bad, shared = cp.zeros(1, dtype=np.int32), self._schedule_arguments(schedule, total // every)
        own_force = force is not None and len(force) > 1
        numbers = source.input_size(source.each) + sum(map(np.prod, sizes)) + (force[0].size if own_force else 0)

        def portion(rows: slice) -> None:
            own = {name: cp.asarray(each[name][rows], dtype=self.dtype) for name in source.each}
            count = len(own["state"])
            parts = [
                all_[rows] if there else cp.empty((count, *size), self.dtype)
                for all_, size in zip(found, sizes, strict=True)
            ]
            chosen = cp.asarray(case[rows], dtype=np.int64) if case is not None else np.int64(0)
            pushes = self._force_arguments(force[rows] if own_force else force)
            counted = map(np.int64, (count, schedule.draw + rows.start, schedule.seed))
            spaced = map(np.int32, (every, schedule.hold))
            # States row by row, all else [entry][sample]; the order is that of ``RolloutSource._own``.
            start, rest = cp.ascontiguousarray(own.pop("state")), [value.T for value in own.values()]
            mine = cp.ascontiguousarray(cp.concatenate(rest)) if rest else bad
            arguments = (start, mine, chosen, *pushes, *parts, bad, *counted, *spaced, *shared)
            block = source.tuning.block
            self.kernel((-(-count // block),), (block,), arguments)
            if not there:
                for results, part in zip(found, parts, strict=True):
                    results[rows] = cp.asnumpy(part)

        run_portions(cp, samples, int(numbers), np.dtype(self.dtype).itemsize, portion)
        return EnsembleResult(found[0], found[1], bool(int(bad[0])))

    def _schedule_arguments(self, schedule: Schedule, records: int) -> tuple[Any, ...]:
        """The schedule as the kernel's last arguments; the same one as before is there already."""
        cp, key = (
            self.cp,
            (records, schedule.hold, schedule.start, *(t.tobytes() for t in schedule if isinstance(t, np.ndarray))),
        )
        # Repeated calls, as in a search, differ in their samples only: spare the transfers.
        if key == self.schedule[0]:
            return self.schedule[1]
        tables = [
            cp.asarray(np.ascontiguousarray(t), dtype=self.dtype) for t in (schedule.reference, schedule.coefficient)
        ]
        times = [cp.asarray(t, dtype=self.dtype) for t in (schedule.steps, schedule.begins)]
        moments = schedule.moments if schedule.moments.size else np.zeros(1, dtype=np.int64)
        powers = [np.int32(table.shape[1]) for table in (schedule.reference, schedule.coefficient)]
        whole = [cp.asarray(counted, dtype=np.int32) for counted in (schedule.counts, schedule.law_steps)]
        there = (
            np.int32(len(schedule.counts)), *whole, cp.asarray(moments), *times,
            tables[0], powers[0], tables[1], powers[1], np.int64(records),
        )  # fmt: skip
        self.schedule = key, there
        return there

    def _set_uniform(self, common: Mapping[str, Array]) -> None:
        """Numbers that are the same for all samples; those of the call before are there already."""
        names = (*self.source.uniform, *self.source.begun)
        given = b"".join(np.ravel(common[name]).tobytes() for name in names if name in common)
        if given != self.given:
            set_uniform(self.cp, self.module, self.source.constants(common).astype(self.dtype))
            self.given = given

    def _force_arguments(self, force: Any) -> tuple[Any, ...]:
        """The held input sample by sample, and how far apart samples, steps and entries stand."""
        cp, held = self.cp, self.source.shape.held
        if force is None or not force.shape[2]:
            size = self.source.loop.size(held) if held in self.source.loop.inputs else 0
            # A stride of zero makes one row serve all samples and steps.
            return cp.zeros(max(1, size), dtype=self.dtype), np.int64(0), np.int64(0), np.int64(1)
        moved = cp.ascontiguousarray(cp.moveaxis(cp.asarray(force, dtype=self.dtype), 0, -1))  # (steps, size, B or 1)
        wide = moved.shape[2]
        strides = (int(wide > 1), moved.shape[1] * wide if moved.shape[0] > 1 else 0, wide)
        return (moved, *map(np.int64, strides))


@lru_cache(maxsize=32)
def compile_rollout(loop: FixedStep, shape: RolloutVariant) -> GpuRollout:
    """The roll-out of a step, compiled at the first call; in the better order of two, where registers are short."""
    # Kernels alone on an H200: blocks of 256 are up to 5 % faster than those of 128 in double, 7 % slower in single.
    tuning = KernelTuning() if shape.real == "double" else KernelTuning(block=128)
    found = GpuRollout(RolloutSource(loop, shape, tuning))
    if not found.spilled:
        return found
    other = GpuRollout(RolloutSource(loop, shape, tuning._replace(order="given")))
    return other if other.spilled < found.spilled else found


def roll_on_gpu(
    loop: FixedStep, shape: RolloutVariant, each: Mapping[str, Any], common: Mapping[str, Array], schedule: Schedule,
    every: int, **given: Any,
) -> EnsembleResult:  # fmt: skip
    """Samples through the schedule, as :meth:`GpuRollout.run` has it; what follows from their parameters is added."""
    own = {name: value for name, value in each.items() if name in loop.inputs}
    found = loop.stage.derive({**common, **own})
    common = {**common, **{name: value for name, value in found.items() if value.ndim == 1}}
    own |= {name: value for name, value in found.items() if value.ndim > 1}
    return compile_rollout(loop, shape._replace(each=tuple(own))).run(own, common, schedule, every, **given)
