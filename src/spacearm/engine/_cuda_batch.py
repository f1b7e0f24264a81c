"""Batches of any program on a GPU, a thread for each sample, from the traces of the kernels.

The text of a kernel is the same list of instructions that the processor's machine code is made from
(:mod:`spacearm.engine.trace`), with fused multiply-adds where they stand and no others, so that results in float64
have the processor's bits. What follows from inputs that are the same for all samples is computed once on the processor
and put into constant memory; instructions are ordered so that few values live at once, since registers are what limits
the number of threads. A sample is a row of each array; batches that do not fit into the GPU's memory go through it in
portions. NVRTC compiles when a program is first called with this set of varied inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from spacearm.engine._cuda_text import SINGLE_SINE
from spacearm.engine.c_source import helpers, statements
from spacearm.engine.device import (
    NVRTC,
    PREAMBLE,
    SINGLE,
    Precision,
    allocate_array,
    cupy,
    is_device_array,
    run_portions,
    set_uniform,
)
from spacearm.engine.kernel import Kernel, warn_of_non_finite
from spacearm.engine.machine import evaluate
from spacearm.typing import Array

#: Threads of a block.
BLOCK = 128


class BatchSource:
    """The text of a program for many samples, a thread for each.

    Args:
        varied: inputs that differ from sample to sample; the others are the same for all.
        real: ``double`` or ``float``.
    """

    def __init__(self, kernel: Kernel, varied: Sequence[str], real: str = "double", block: int = BLOCK) -> None:
        self.kernel, self.varied, self.real, self.block = kernel, tuple(varied), real, block
        self.uniform = tuple(name for name in kernel.inputs if name not in varied)
        same = {k for name in self.uniform for k in range(kernel.inputs[name].start, kernel.inputs[name].stop)}
        # What depends on common inputs alone is computed once, on the processor, and not by each of a million threads.
        self.once, rest = kernel.trace.hoist(frozenset(same))
        # Fewer values that wait at once need fewer registers, and so allow more threads.
        self.rest = rest.reorder()

    def constants(self, common: Mapping[str, Array]) -> Array:
        """The inputs that are the same for all, in their places, and what depends on these alone."""
        row = np.zeros(self.once.n_in)
        for name in self.uniform:
            row[self.kernel.inputs[name]] = common[name] if self.kernel.inputs[name] != slice(0, 0) else 0.0
        return np.concatenate([row, evaluate(self.once, row)])

    @cached_property
    def text(self) -> str:
        """Pointers to the varied inputs, to the outputs, the number of samples."""
        kernel, real = self.kernel, self.real

        # A sample's numbers stand together, as in the caller's arrays, which then need not be copied in another order.
        def place(places: Mapping[str, slice], names: Sequence[str], array: str, flat: int) -> str:
            for k, name in enumerate(names):
                at = places[name]
                if at.start <= flat < at.stop:
                    return f"{array}{k}[sample * {at.stop - at.start} + {flat - at.start}]"
            return f"uniform[{flat}]"

        found = {int(i.constant) for i in self.rest.instructions if i.op == "input"}
        read = {k: place(kernel.inputs, self.varied, "in", k) for k in found}
        keep = [k for k, text in read.items() if text.startswith("uniform[")]
        outputs = tuple(kernel.outputs)
        write = partial(place, kernel.outputs, outputs, "out")
        lines = statements(self.rest, read.__getitem__, write, real=real, keep=keep)
        pointers = [f"const {real} *__restrict__ in{k}" for k in range(len(self.varied))]
        pointers += [f"{real} *__restrict__ out{k}" for k in range(len(outputs))]
        body = "\n".join(f"    {line}" for line in lines)
        own = helpers(lines, real, "__device__ __forceinline__")
        return f"""{own if real == "double" else SINGLE_SINE + own}
__constant__ {real} uniform[{max(1, kernel.n_in + self.once.n_out)}];

SA_EXTERN __global__ void __launch_bounds__({self.block}) batch({", ".join(pointers)}, long long samples)
{{
    const long long sample = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (sample >= samples) return;
{body}
}}
"""


class GpuBatch:
    """A compiled program for many samples."""

    def __init__(self, source: BatchSource) -> None:
        self.source, self.cp = source, cupy()
        self.dtype = np.float64 if source.real == "double" else np.float32
        options = NVRTC if source.real == "double" else (*NVRTC, *SINGLE)
        self.module = self.cp.RawModule(code=PREAMBLE + source.text, options=options)
        self.function = self.module.get_function("batch")
        self.given: bytes | None = None

    def run(
        self, varied: Mapping[str, Any], common: Mapping[str, Array], samples: int, *, there: bool
    ) -> dict[str, Any]:
        """Outputs (B, size) from inputs (B, size), on the device if they are to stay ``there``."""
        cp, source, kernel = self.cp, self.source, self.source.kernel
        given = b"".join(np.ravel(common[name]).tobytes() for name in source.uniform if name in common)
        if given != self.given:  # what follows from them is computed anew, on the processor
            set_uniform(cp, self.module, source.constants(common).astype(self.dtype))
            self.given = given
        sizes = {name: at.stop - at.start for name, at in kernel.outputs.items()}
        found = {name: allocate_array(cp if there else np, (samples, size), self.dtype) for name, size in sizes.items()}

        def portion(rows: slice) -> None:
            own = [cp.ascontiguousarray(cp.asarray(varied[name][rows], dtype=self.dtype)) for name in source.varied]
            count = rows.stop - rows.start
            parts = [found[n][rows] if there else cp.empty((count, size), self.dtype) for n, size in sizes.items()]
            # Blocks are rounded up: threads beyond the last sample return at once.
            self.function((-(-count // source.block),), (source.block,), (*own, *parts, np.int64(count)))
            if not there:
                for name, part in zip(sizes, parts, strict=True):
                    found[name][rows] = cp.asnumpy(part)

        run_portions(cp, samples, kernel.n_in + kernel.n_out, np.dtype(self.dtype).itemsize, portion)
        return found


@lru_cache(maxsize=64)
def _compile_batch(kernel: Kernel, varied: tuple[str, ...], real: str) -> GpuBatch:
    return GpuBatch(BatchSource(kernel, varied, real))


def call_on_gpu(
    kernel: Kernel, given: Mapping[str, Any], lead: tuple[int, ...], precision: Precision = "float64"
) -> dict[str, Any]:
    """Outputs (..., shape) of inputs (..., size), on the GPU if any of these is there, else here."""
    cp = cupy()
    there = any(is_device_array(value) for value in given.values())
    count = int(np.prod(lead, dtype=np.int64))
    varied: dict[str, Any] = {}
    common: dict[str, Array] = {}
    for name, value in given.items():
        if value.ndim == 1:
            common[name] = cp.asnumpy(value) if is_device_array(value) else value
        else:
            xp = cp if is_device_array(value) else np
            varied[name] = xp.broadcast_to(value, (*lead, value.shape[-1])).reshape(count, value.shape[-1])
    if not varied or not count:  # one sample: a thread alone gains nothing
        alone = kernel({name: cp.asnumpy(value) for name, value in given.items()})
        return {name: (cp if there else np).asarray(value, dtype=precision) for name, value in alone.items()}
    real = "double" if precision == "float64" else "float"
    found = _compile_batch(kernel, tuple(varied), real).run(varied, common, count, there=there)
    xp = cp if there else np
    bad = sum(~xp.isfinite(value).all(axis=1) for value in found.values())
    if bad.any():
        warn_of_non_finite(kernel.program.name, int((bad > 0).sum()), int(xp.flatnonzero(bad)[0]), count, lead)
    return {name: value.reshape(*lead, *kernel.program.output_shape(name)) for name, value in found.items()}
