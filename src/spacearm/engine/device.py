"""The GPU, as far as it is there: CuPy, arrays on the device, its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from spacearm.checks import one_of
from spacearm.errors import EngineError, InputError
from spacearm.typing import Array

Device = Literal["cpu", "gpu"]
Precision = Literal["float64", "float32"]
#: NVRTC's options: products and sums are not contracted.
NVRTC = ("--fmad=false", "--std=c++17")
#: In single precision quotients and roots may be off by two units in the last place: a sixth faster on an H200, with
#: the same error after 25 steps.
SINGLE = ("--ftz=true", "--prec-div=false", "--prec-sqrt=false")
#: Part of the free memory that a batch may take; more goes in several launches.
_SHARE = 0.6
#: Bytes for which the GPU is not asked how much memory it has, which takes a tenth of a millisecond.
_SMALL = 2**28
PREAMBLE = """#define SA_EXTERN extern "C"
#ifndef INFINITY
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define NAN __longlong_as_double(0x7ff8000000000000LL)
#endif
"""


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


def to_cupy(cp: Any, value: Any) -> Any:
    """An array of the GPU as CuPy's, without a copy."""
    return cp.asarray(value) if hasattr(value, "__cuda_array_interface__") else cp.from_dlpack(value)


def array_module(value: object) -> Any:
    """CuPy where an array is on the GPU, otherwise NumPy: what creates arrays beside it."""
    return cupy() if is_device_array(value) else np


def to_host(value: Any) -> Any:
    """An array of the GPU as NumPy's, anything else as it is."""
    return cupy().asnumpy(to_cupy(cupy(), value)) if is_device_array(value) else value


def as_native_array(value: Any) -> Any:
    """An array of the GPU as CuPy's, anything else as it is."""
    return to_cupy(cupy(), value) if is_device_array(value) else value


def check_precision(precision: str, there: bool) -> None:
    """Single precision is for what runs ``there``, on the GPU."""
    one_of(precision, ("float64", "float32"), "precision")
    if precision != "float64" and not there:
        raise InputError("the processor has float64 only", hint="float32 needs device='gpu', or arrays there")


def run_portions(cp: Any, samples: int, numbers: int, itemsize: int, task: Callable[[slice], None]) -> None:
    """Do a task for samples of which so many numbers fit into the GPU's memory at a time; fewer if they do not."""
    pool, most, first = cp.get_default_memory_pool(), samples, 0
    if samples * numbers * itemsize > _SMALL:
        free = cp.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
        most = max(1, int(_SHARE * free / max(1, numbers * itemsize)))
    while first < samples:
        rows = slice(first, min(first + most, samples))
        try:
            task(rows)
        except cp.cuda.memory.OutOfMemoryError as error:
            if rows.stop - first == 1:
                raise EngineError("a single sample does not fit into the GPU's memory", place="gpu") from error
            pool.free_all_blocks()
            most = (rows.stop - first) // 2
        else:
            first = rows.stop


def allocate_array(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An uninitialised array for results."""
    try:
        return xp.empty(shape, dtype=dtype)
    except MemoryError as error:  # CuPy's is one too
        size = np.prod(shape, dtype=float) * np.dtype(dtype).itemsize / 2**30
        hint = "record fewer steps, or pass NumPy arrays: what they give goes back after each launch"
        raise EngineError(f"results of {size:.3g} GiB do not fit into memory", place="gpu", hint=hint) from error


def set_uniform(cp: Any, module: Any, values: Array) -> None:
    """Numbers into the constant memory of a module."""
    if values.size:
        cp.ndarray(values.size, dtype=values.dtype, memptr=module.get_global("uniform"))[...] = cp.asarray(values)
