"""Roll-outs on a GPU: a whole roll-out of a sample in one thread, from the traces of the fixed step.

The text is that of :mod:`spacearm.engine.c_source`, compiled by NVRTC without contraction, so that in float64 a sample
has the bits that it has on the processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from spacearm.engine.c_source import helpers, statements
from spacearm.engine.fixed_step import CLOCK, FixedStep
from spacearm.engine.kernel import Kernel
from spacearm.engine.machine import evaluate
from spacearm.engine.trace import Trace
from spacearm.errors import EngineError
from spacearm.typing import Array

#: Threads of a block: as many as the registers of a multiprocessor serve (255 each). 64 are 3 % slower on an H200.
BLOCK = 256
#: Part of the free memory that a batch may take; more goes in several launches.
_SHARE = 0.6
_CLOCK = {"part": "part", "weight": "weight", "step": "step", "time": "time"}
_MOVING = ("state", "slope_state", "total_state")


def cupy() -> Any:
    """CuPy with a device, or an error that says what is missing."""
    try:
        import cupy as found
    except ImportError:
        raise EngineError("CuPy is not installed", place="gpu", hint="pip install 'spacearm[gpu]'") from None
    try:
        count = found.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise EngineError(f"no GPU can be used: {error}", place="gpu", hint="device='cpu' works anywhere") from None
    if not count:
        raise EngineError("there is no GPU", place="gpu", hint="device='cpu' works anywhere")
    return found


def is_device_array(value: object) -> bool:
    """Whether it lives on a GPU: CuPy's, or anything else that says so by DLPack."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and device()[0] == 2  # kDLCUDA


class RolloutSource:
    """The text of a roll-out, and what stands where.

    Args:
        loop: a step without law and observer.
        each: inputs that differ from sample to sample, besides the state.
        real: ``double`` or ``float``.
    """

    def __init__(self, loop: FixedStep, each: Sequence[str], *, real: str = "double", block: int = BLOCK) -> None:
        self.loop, self.real, self.block = loop, real, block
        read = {int(i.constant) for i in loop.stage.trace.instructions if i.op == "input"}
        used = [name for name, at in loop.stage.inputs.items() if read.intersection(range(at.start, at.stop))]
        #: Inputs of which each sample has its own, and those that are the same for all; the others do not matter.
        self.each = tuple(name for name in each if name in used and name != "state")
        self.uniform = tuple(name for name in used if name not in (*each, *CLOCK, *_MOVING, "force"))
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
        if name in _CLOCK:
            return _CLOCK[name]
        if name in _MOVING:
            return f"{name}[{entry}]"
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
        return once, rest.reordered()

    def constants(self, common: Mapping[str, Array]) -> Array:
        """All that is the same for all samples and steps: inputs, and what depends on these alone."""
        kernel, once = self.loop.stage, self._split[0]
        row = np.zeros(once.n_in)
        for name in self.uniform:
            if name in common:
                row[kernel.inputs[name]] = np.ravel(common[name])
        own = [row[kernel.inputs[name]] for name in self.uniform]
        return np.concatenate([*own, evaluate(once, row)])

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
        stage, finish = self._lines(self.loop.stage, rest), self._lines(self.loop.finish, self.loop.finish.trace)
        body = "\n".join(f"            {line}" for line in stage)
        last = "\n".join(f"            {line}" for line in finish)
        size = max(1, self.room(self.uniform) + once.n_out)
        text = _TEMPLATE.format(stage=body, finish=last, nx=self.nx, uniform=size, block=self.block)
        if self.real == "double":
            return helpers([*stage, *finish], qualifier="__device__ __forceinline__") + "\n" + text
        return _FLOAT + text.replace("double", "float").replace("0.5", "0.5f")


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
    long long samples, long long count, long long every, double step)
{{
    const long long sample = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    double state[{nx}], slope_state[{nx}], total_state[{nx}];
    double *row = result + sample * (count / every) * {nx};
    long long n;
    int i, number;
    if (sample >= samples) return;
    #pragma unroll
    for (i = 0; i < {nx}; ++i) {{
        state[i] = start[sample * {nx} + i];
        slope_state[i] = 0;
        total_state[i] = 0;
    }}
    #pragma unroll 1
    for (n = 0; n < count; ++n) {{
        const double *now = force + sample * force_sample + n * force_piece;
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
            for (i = 0; i < {nx}; ++i) row[i] = state[i];
            row += {nx};
        }}
    }}
}}
"""

_PREAMBLE = """#define SA_EXTERN extern "C"
#ifndef INFINITY
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define NAN __longlong_as_double(0x7ff8000000000000LL)
#endif
"""


class GpuRollout:
    """A compiled roll-out."""

    def __init__(self, source: RolloutSource) -> None:
        self.source, self.cp = source, cupy()
        self.module = self.cp.RawModule(code=_PREAMBLE + source.text, options=("--fmad=false", "--std=c++17"))
        self.kernel = self.module.get_function("rollout")
        self.dtype = np.float64 if source.real == "double" else np.float32
        self.given: bytes | None = None

    def run(
        self, each: Mapping[str, Any], common: Mapping[str, Array], force: Any, step: float, count: int, every: int
    ) -> Any:
        """States (B, count // every, nx) on the device.

        Args:
            each: (B, size) of the inputs that differ.
            common: the others.
            force: (B or 1, count or 1, nv or 0).
        """
        cp, source = self.cp, self.source
        samples, nx = each["state"].shape
        records = count // every
        numbers = source.room(source.each) + nx + (force[0].size if len(force) > 1 else 0)
        free, _ = cp.cuda.runtime.memGetInfo()
        self._set_uniform(common)
        found = cp.empty((samples, records, nx), dtype=self.dtype)
        most = max(1, int(_SHARE * free / (numbers * np.dtype(self.dtype).itemsize)))
        for first in range(0, samples, most):
            rows = slice(first, min(first + most, samples))
            own = {name: cp.asarray(each[name][rows], dtype=self.dtype) for name in ("state", *source.each)}
            self._launch(own, force[rows] if len(force) > 1 else force, found[rows], step, count, every)
        return found

    def _set_uniform(self, common: Mapping[str, Array]) -> None:
        """Numbers that are the same for all samples; those of the call before are there already."""
        given = b"".join(np.ravel(common[name]).tobytes() for name in self.source.uniform if name in common)
        if given == self.given:
            return
        values = self.source.constants(common).astype(self.dtype)
        pointer = self.module.get_global("uniform")
        if values.size:
            self.cp.ndarray(values.size, dtype=self.dtype, memptr=pointer)[...] = self.cp.asarray(values)
        self.given = given

    def _launch(self, each: Mapping[str, Any], force: Any, result: Any, step: float, count: int, every: int) -> None:
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
        blocks = -(-samples // source.block)
        lengths = map(np.int64, (samples, count, every))
        own = cp.ascontiguousarray(own)
        arguments = (start, own, moved, *map(np.int64, strides), result, *lengths, self.dtype(step))
        self.kernel((blocks,), (source.block,), arguments)
