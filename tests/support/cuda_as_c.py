"""A stand-in for CuPy: its kernels are compiled as C and run thread after thread, on arrays of the processor.

So the whole way to a GPU and back runs without one: which arrays go where, what a kernel is given, what comes back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.compilers import build

#: CUDA's words in C: one thread after the other.
AS_C = """
#include <math.h>
#include <string.h>
#define __global__
#define __device__ static
#define __forceinline__
#define __constant__
#define __launch_bounds__(...)
struct sa_dim { unsigned x; } blockIdx, blockDim, threadIdx;
"""


class DeviceArray(np.ndarray[Any, Any]):
    """An array that says that it is on a GPU, and is not worked on together with arrays that are not."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _there(getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return _there(function, args, options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.__array_interface__)

    def get(self) -> Any:
        return np.array(self)


def _there(function: Any, args: Any, options: dict[str, Any]) -> Any:
    """As CuPy does it: arrays of the processor are refused."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple | list) and any(isinstance(own, np.ndarray) for own in value):
            return type(value)(map(plain, value))
        if isinstance(value, DeviceArray):
            return value.view(np.ndarray)
        if isinstance(value, np.ndarray):
            raise TypeError(f"{function.__name__}: an array on the GPU and one that is not")
        return value

    found = function(*map(plain, args), **{name: plain(value) for name, value in options.items()})
    if isinstance(found, tuple | list):
        return tuple(own.view(DeviceArray) if isinstance(own, np.ndarray) else own for own in found)
    return np.asarray(found).view(DeviceArray)


class OutOfMemoryError(MemoryError):
    pass


class Function:
    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.library, self.entry, self.num_regs, self.local_size_bytes = library, library[name], 0, 0
        self.entry.restype = None

    def __call__(self, blocks: tuple[int], block: tuple[int], arguments: Sequence[Any]) -> None:
        index = {name: ctypes.c_uint.in_dll(self.library, name) for name in ("blockIdx", "blockDim", "threadIdx")}
        index["blockDim"].value = block[0]
        given = [_as_c(value) for value in arguments]
        for index["blockIdx"].value in range(blocks[0]):
            for index["threadIdx"].value in range(block[0]):
                self.entry(*given)


def _as_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert isinstance(value, DeviceArray), "a kernel was given an array that is not on the GPU"
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    kinds = {"int64": ctypes.c_longlong, "int32": ctypes.c_int, "float64": ctypes.c_double, "float32": ctypes.c_float}
    return kinds[value.dtype.name](value)


def stand_in(folder: Path, memory: int = 10**9) -> Any:
    """A module that can be imported as ``cupy``."""
    cp: Any = ModuleType("cupy")

    class RawModule:
        count = 0

        def __init__(self, code: str, options: Sequence[str] = ()) -> None:
            assert "--fmad=false" in options
            RawModule.count += 1
            source = folder / f"kernel{RawModule.count}.c"
            # C knows the words for infinity and NaN.
            source.write_text(AS_C + code.replace('#define SA_EXTERN extern "C"', "#define SA_EXTERN"))
            self.library = ctypes.CDLL(
                str(build([source], source.with_suffix(".so"), "-O0", "-shared", "-fPIC", strict=("-std=c99",)))
            )

        def get_function(self, name: str) -> Function:
            return Function(self.library, name)

        def get_global(self, name: str) -> int:
            return ctypes.addressof(ctypes.c_double.in_dll(self.library, name))

    def there(function: Any) -> Any:
        return lambda *args, **options: function(*args, **options).view(DeviceArray)

    def at_pointer(shape: int, dtype: Any = np.float64, memptr: int = 0) -> Any:
        size = shape * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(memptr), dtype=dtype).view(DeviceArray)

    class ArrayKind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, DeviceArray)

        def __call__(cls, *args: Any, **options: Any) -> Any:
            return at_pointer(*args, **options)

    class CupyArray(metaclass=ArrayKind):
        pass

    names = "asarray ascontiguousarray empty zeros concatenate moveaxis broadcast_to atleast_2d arange stack repeat"
    for name in names.split():
        setattr(cp, name, there(getattr(np, name)))
    for name in ["isfinite", "flatnonzero", "linalg", "swapaxes", "tile", "where"]:
        setattr(cp, name, getattr(np, name))

    def default_rng(seed: int | None = None) -> Any:
        drawn = np.random.default_rng(seed)
        return SimpleNamespace(standard_normal=lambda shape: drawn.standard_normal(shape).view(DeviceArray))

    cp.random = SimpleNamespace(default_rng=default_rng)
    cp.asnumpy = lambda value: np.array(np.asarray(value).view(np.ndarray))
    cp.from_dlpack = lambda value: np.from_dlpack(value).view(DeviceArray)
    cp.ndarray, cp.RawModule, cp.DeviceArray = CupyArray, RawModule, DeviceArray
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: (memory, memory))
    cp.cuda = SimpleNamespace(
        runtime=runtime,
        Device=lambda: SimpleNamespace(synchronize=lambda: None),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    )
    cp.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None, free_bytes=lambda: 0)
    return cp


@contextmanager
def as_gpu(folder: Path) -> Iterator[Any]:
    """``import cupy`` finds the stand-in, and kernels that were compiled before are forgotten."""
    from spacearm.engine import _cuda_batch, cuda

    def forget() -> None:
        _cuda_batch._compile_batch.cache_clear()
        cuda.compile_rollout.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        cp = stand_in(folder)
        patch.setitem(sys.modules, "cupy", cp)
        forget()
        try:
            yield cp
        finally:
            forget()
