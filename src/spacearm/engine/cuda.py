"""Roll-outs on a GPU: a whole roll-out of a sample in one thread, from the traces of the fixed step.

The text is that of :mod:`spacearm.engine.c_source`, compiled by NVRTC without contraction, so that in float64 a sample
has the bits that it has on the processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.c_source import helpers, statements
from spacearm.engine.device import NVRTC, PREAMBLE, SINGLE, cupy, portions, set_uniform
from spacearm.engine.fixed_step import CLOCK, FixedStep
from spacearm.engine.kernel import Kernel
from spacearm.engine.machine import evaluate
from spacearm.engine.trace import Trace
from spacearm.typing import Array

#: Threads of a block: as many as the registers of a multiprocessor serve (255 each). 64 are 3 % slower on an H200.
BLOCK = 256


class RolloutSource:
    """The text of a roll-out, and what stands where.

    Args:
        loop: a step without observer.
        each: inputs that differ from sample to sample, besides the state.
        real: ``double`` or ``float``.
        order: of a stage's operations, ``waiting``: fewest values waiting, or as ``given``.
        shared: whether state and sums stand in the multiprocessor's shared memory.
    """

    def __init__(
        self,
        loop: FixedStep,
        each: Sequence[str],
        *,
        real: str = "double",
        block: int = BLOCK,
        order: str = "waiting",
        shared: bool = False,
    ) -> None:
        self.loop, self.real, self.block, self.order = loop, real, block, order
        self._shared = ("state", "total_state") if shared else ()
        kernels = [loop.stage, loop.finish] + ([] if loop.asked is None else [loop.asked])
        read = {int(i.constant) for k in kernels for i in k.trace.instructions if i.op == "input"}
        used = [name for name, at in loop.stage.inputs.items() if read.intersection(range(at.start, at.stop))]
        #: What a thread keeps for itself: what any piece of the step writes, and what a law follows.
        written = dict.fromkeys(name for kernel in kernels for name in kernel.outputs)
        self.local = (*written, *(("reference",) if "reference" in loop.memory else ()))
        #: Inputs of which each sample has its own, and those that are the same for all; the others do not matter.
        self.each = tuple(name for name in each if name in used and name not in self.local)
        self.uniform = tuple(name for name in used if name not in (*each, *CLOCK, *self.local, "force"))
        self.nx = loop.size("state")
        self.forces = loop.size("force")

    def _offsets(self, names: Sequence[str]) -> dict[str, int]:
        found, at = {}, 0
        for name in names:
            found[name] = at
            at += self.loop.size(name)
        return found

    def room(self, names: Sequence[str]) -> int:
        """Numbers that these inputs take."""
        return sum(self.loop.size(name) for name in names)

    def _place(self, name: str, entry: int) -> str:
        if name in CLOCK:
            return name
        if name in self.local:
            return f"{name}[{entry}]{'[threadIdx.x]' if name in self._shared else ''}"
        if name == "force":
            return f"now[{entry} * force_entry]"
        if name in self.each:
            return f"each[{self._offsets(self.each)[name] + entry} * samples + sample]"
        return f"uniform[{self._offsets(self.uniform)[name] + entry}]"

    @cached_property
    def _split(self) -> tuple[Trace, Trace]:
        """The stage: what is the same for all samples and all steps, and the rest."""
        kernel = self.loop.stage
        same = {k for name in self.uniform for k in range(kernel.inputs[name].start, kernel.inputs[name].stop)}
        once, rest = kernel.trace.hoisted(frozenset(same))
        return once, rest.reordered() if self.order == "waiting" else rest

    def constants(self, common: Mapping[str, Array]) -> Array:
        """All that is the same for all samples and steps: inputs, what depends on these alone, a law's first memory."""
        kernel, once = self.loop.stage, self._split[0]
        row = np.zeros(once.n_in)
        for name in self.uniform:
            if name in common:
                row[kernel.inputs[name]] = np.ravel(common[name])
        own = [row[kernel.inputs[name]] for name in self.uniform]
        first = np.ravel(common["memory"]) if "memory" in self.local else np.zeros(0)
        return np.concatenate([*own, evaluate(once, row), first])

    def _lines(self, kernel: Kernel, trace: Trace) -> list[str]:
        at = self.room(self.uniform)

        def place(places: Mapping[str, slice], flat: int) -> str:
            if flat >= kernel.n_in:
                return f"uniform[{at + flat - kernel.n_in}]"
            name = next(name for name, at in places.items() if at.start <= flat < at.stop)
            return self._place(name, flat - places[name].start)

        found = {int(i.constant) for i in trace.instructions if i.op == "input"}
        read = {k: place(kernel.inputs, k) for k in found}
        keep = [k for k, text in read.items() if text.startswith("uniform[")]
        return statements(trace, read.__getitem__, lambda k: place(kernel.outputs, k), real=self.real, keep=keep)

    @cached_property
    def text(self) -> str:
        once, rest = self._split
        loop, first = self.loop, self.room(self.uniform) + once.n_out
        pieces = [self._lines(loop.stage, rest), self._lines(loop.finish, loop.finish.trace)]
        pieces.append([] if loop.asked is None else self._lines(loop.asked, loop.asked.trace.reordered()))
        stage, finish, law = ("\n".join(f"            {line}" for line in lines) for lines in pieces)
        memory = loop.size("memory") if "memory" in self.local else 0
        begin = [
            f"{self._place(name, k)} = 0;" for name in self.local if name != "state" for k in range(loop.size(name))
        ]
        begin += [f"memory[{k}] = uniform[{first + k}];" for k in range(memory)]
        text = _TEMPLATE.format(
            stage=stage, finish=finish, nx=self.nx, uniform=max(1, first + memory), block=self.block,
            local=", ".join(f"{name}[{max(1, loop.size(name))}]" for name in self.local if name not in self._shared),
            shared="".join(f"    __shared__ double {n}[{loop.size(n)}][{self.block}];\n" for n in self._shared),
            state=self._place("state", 0).replace("[0]", "[i]"),
            begin="\n".join(f"    {line}" for line in begin),
            law="" if loop.asked is None else _LAW.format(
                law=law, follow=_FOLLOW.format(references=loop.size("reference")) if "reference" in self.local else ""
            ),
        )  # fmt: skip
        own = helpers([line for lines in pieces for line in lines], self.real, "__device__ __forceinline__") + "\n"
        if self.real == "double":
            return own + text
        return _FLOAT + own + text.replace("double", "float").replace("0.5", "0.5f")


#: Sine and cosine in single precision. The argument is reduced in double precision: no slow path for large ones, which
#: would take local memory (Cephes' polynomials on a quarter turn, S. L. Moshier).
_FLOAT = """__device__ __forceinline__ void sa_sine_cosine(float x, float *sine, float *cosine)
{
    const double turns = rint((double)x * 0.63661977236758134);
    const float r = (float)fma(turns, -6.123233995736766e-17, fma(turns, -1.5707963267948966, (double)x));
    const int quadrant = (int)(long long)turns & 3;
    const float z = r * r;
    const float s = fmaf(r * z, fmaf(z, fmaf(z, -1.9515295891e-4f, 8.3321608736e-3f), -1.6666654611e-1f), r);
    const float c = fmaf(z * z, fmaf(z, fmaf(z, 2.443315711809948e-5f, -1.388731625493765e-3f),
                                     4.166664568298827e-2f), fmaf(z, -0.5f, 1.0f));
    const float a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
    *sine = quadrant & 2 ? -a : a;
    *cosine = (quadrant + 1) & 2 ? -b : b;
}
"""

_TEMPLATE = """
__constant__ double uniform[{uniform}];

SA_EXTERN __global__ void __launch_bounds__({block}) rollout(
    const double *__restrict__ start, const double *__restrict__ each, const double *__restrict__ force,
    long long force_sample, long long force_piece, long long force_entry, double *__restrict__ result,
    long long samples, long long count, long long every, double step, const double *__restrict__ table,
    const double *__restrict__ begins, const long long *__restrict__ firsts, int pieces, int powers, long long hold)
{{
    const long long sample = (long long)blockIdx.x * blockDim.x + threadIdx.x;
{shared}    double {local};
    double *row = result + sample * (count / every) * {nx};
    long long n;
    int i, number, piece = 0;
    if (sample >= samples) return;
    #pragma unroll
    for (i = 0; i < {nx}; ++i) {state} = start[sample * {nx} + i];
{begin}
    (void)table, (void)begins, (void)firsts, (void)pieces, (void)powers, (void)hold, (void)piece, (void)each;
    #pragma unroll 1
    for (n = 0; n < count; ++n) {{
        const double *now = force + sample * force_sample + n * force_piece;
{law}
        #pragma unroll 1
        for (number = 0; number < 4; ++number) {{
            const double part = number == 0 ? 0 : number == 3 ? step : 0.5 * step;
            const double weight = number == 1 || number == 2 ? 2 : 1;
{stage}
        }}
        {{
{finish}
        }}
        if ((n + 1) % every == 0) {{
            #pragma unroll
            for (i = 0; i < {nx}; ++i) row[i] = {state};
            row += {nx};
        }}
    }}
}}
"""

#: A law is asked at every so-many-th step; its references are polynomials on pieces of the time.
_LAW = """        while (piece + 1 < pieces && n >= firsts[piece + 1]) ++piece;
        if (n % hold == 0) {{
            const double local = (double)(n - firsts[piece]) * step;
            const double time = begins[piece] + local;
            (void)time;
{follow}
{law}
        }}"""

_FOLLOW = """            #pragma unroll
            for (i = 0; i < {references}; ++i) {{
                int power = powers - 1;
                const double *at = table + piece * {references} + i;
                double value = at[power * pieces * {references}];
                while (power-- > 0) value = value * local + at[power * pieces * {references}];
                reference[i] = value;
            }}"""


class Timetable(NamedTuple):
    """What a law follows: the first step of each piece, when it begins (s), polynomials (powers, pieces, references)
    there; and steps between two ticks."""

    firsts: Any
    begins: Array
    table: Array
    hold: int = 1


NOTHING = Timetable(np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros((1, 1, 0)))


class GpuRollout:
    """A compiled roll-out."""

    def __init__(self, source: RolloutSource, options: Sequence[str] = ()) -> None:
        self.source, self.cp = source, cupy()
        precise = () if source.real == "double" else SINGLE
        self.module = self.cp.RawModule(code=PREAMBLE + source.text, options=(*NVRTC, *precise, *options))
        self.kernel = self.module.get_function("rollout")
        self.dtype = np.float64 if source.real == "double" else np.float32
        self.given: bytes | None = None

    def run(
        self,
        each: Mapping[str, Any],
        common: Mapping[str, Array],
        force: Any,
        step: float,
        count: int,
        every: int,
        timetable: Timetable = NOTHING,
        *,
        there: bool = True,
    ) -> Any:
        """States (B, count // every, nx), on the device if they are to stay ``there``.

        Args:
            each: (B, size) of the inputs that differ.
            common: the others.
            force: (B or 1, count or 1, nv or 0).
        """
        cp, source = self.cp, self.source
        samples, nx = each["state"].shape
        shape = (samples, count // every, nx)
        numbers = source.room(source.each) + nx * (1 + shape[1]) + (force[0].size if len(force) > 1 else 0)
        self._set_uniform(common)
        found = (cp if there else np).empty(shape, dtype=self.dtype)
        law = [cp.asarray(timetable.table, dtype=self.dtype), cp.asarray(timetable.begins, dtype=self.dtype)]
        more = (*law, cp.asarray(timetable.firsts), np.int32(len(timetable.firsts)), np.int32(len(timetable.table)))
        for rows in portions(cp, samples, numbers, np.dtype(self.dtype).itemsize):
            own = {name: cp.asarray(each[name][rows], dtype=self.dtype) for name in ("state", *source.each)}
            part = found[rows] if there else cp.empty((len(own["state"]), *shape[1:]), dtype=self.dtype)
            pushes = force[rows] if len(force) > 1 else force
            self._launch(own, pushes, part, (count, every), step, (*more, np.int64(timetable.hold)))
            if not there:
                found[rows] = cp.asnumpy(part)
        return found

    def _set_uniform(self, common: Mapping[str, Array]) -> None:
        """Numbers that are the same for all samples; those of the call before are there already."""
        names = (*self.source.uniform, "memory")
        given = b"".join(np.ravel(common[name]).tobytes() for name in names if name in common)
        if given != self.given:
            set_uniform(self.cp, self.module, self.source.constants(common).astype(self.dtype))
            self.given = given

    def _launch(
        self,
        each: Mapping[str, Any],
        force: Any,
        result: Any,
        lengths: tuple[int, int],
        step: float,
        more: Sequence[Any],
    ) -> None:
        """States go row by row, since they are read and written once; what every stage reads goes sample by sample."""
        cp, source = self.cp, self.source
        start, samples = cp.ascontiguousarray(each["state"]), len(each["state"])
        own = cp.concatenate([each[name].T for name in source.each]) if source.each else cp.empty(1, self.dtype)
        table = cp.asarray(force, dtype=self.dtype)
        if not force.shape[2]:
            table = cp.zeros((1, 1, source.forces), dtype=self.dtype)
        moved = cp.ascontiguousarray(cp.moveaxis(table, 0, -1))  # (pieces, nv, B or 1)
        wide = moved.shape[2]
        strides = (int(wide > 1), moved.shape[1] * wide if moved.shape[0] > 1 else 0, wide)
        own = cp.ascontiguousarray(own)
        arguments = (start, own, moved, *map(np.int64, strides), result, *map(np.int64, (samples, *lengths)))
        self.kernel((-(-samples // source.block),), (source.block,), (*arguments, self.dtype(step), *more))
