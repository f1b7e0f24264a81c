"""The text of GPU kernels: read as C it gives the bits of the processor's roll-outs. GPU tests: ``make gpu``."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine.cuda import _FLOAT, RolloutSource
from spacearm.errors import EngineError, InputError
from spacearm.model import Robot
from spacearm.simulate import rollout
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.rollout import _loop
from spacearm.typing import Array
from support.compilers import build
from support.random_robots import random_robot, random_state

#: CUDA's words in C: one thread after the other.
AS_C = """
#include <math.h>
#include <string.h>
#define SA_EXTERN
#define __global__
#define __device__ static
#define __forceinline__
#define __constant__
#define __launch_bounds__(n)
struct sa_dim { unsigned x; } blockIdx, blockDim = { 64 }, threadIdx;
"""


def by_c(robot: Robot, starts: Array, force: Array, count: int, folder: Path) -> Array:
    source = RolloutSource(_loop(robot, frozenset(), frozenset(), None), [])
    common = robot_parameters(robot)
    common |= source.loop.stage.derive(common)
    path = folder / "rollout.c"
    path.write_text(AS_C + source.text)
    library = ctypes.CDLL(str(build([path], folder / "rollout.so", "-O1", "-shared", "-fPIC", strict=("-std=c99",))))
    values = source.constants(common)
    (ctypes.c_double * values.size).in_dll(library, "uniform")[:] = values
    samples, nx = starts.shape
    rows, found, none = np.ascontiguousarray(starts), np.zeros((samples, 1, nx)), np.zeros(1)
    pushes = np.ascontiguousarray(np.moveaxis(force, 0, -1))  # (pieces, nv, samples)
    number, pointer = ctypes.c_longlong, ctypes.c_void_p
    library.rollout.argtypes = [pointer, pointer, pointer, *[number] * 3, pointer, *[number] * 3, ctypes.c_double]
    for sample in range(samples):
        ctypes.c_uint.in_dll(library, "blockIdx").value = sample // 64
        ctypes.c_uint.in_dll(library, "threadIdx").value = sample % 64
        library.rollout(
            rows.ctypes.data, none.ctypes.data, pushes.ctypes.data, 1, pushes.shape[1] * samples, samples,
            found.ctypes.data, samples, count, count, 0.01,
        )  # fmt: skip
    return found[:, 0]


@pytest.mark.parametrize("geometry", ["aligned", "skew"])
def test_the_kernel_read_as_c_has_the_bits_of_the_processor(tmp_path: Path, geometry: str) -> None:
    robot = random_robot(4, 4, geometry=geometry, passive=True)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    starts = np.array([random_state(robot, rng).flat for _ in range(70)])
    force = rng.normal(size=(70, 6, robot.dofs))
    expected = rollout(robot, starts, 0.01, 6, forces=force, ignore_friction=True)[:, -1]
    found = by_c(robot, starts, force, 6, tmp_path)
    np.testing.assert_array_equal(found, expected)


def test_sine_and_cosine_in_single_precision(tmp_path: Path) -> None:
    path = tmp_path / "sine.c"
    both = "void both(float x, float *out) { sa_sine_cosine(x, out, out + 1); }"
    path.write_text(AS_C + _FLOAT + both)
    library = ctypes.CDLL(str(build([path], tmp_path / "sine.so", "-O1", "-shared", "-fPIC", strict=("-std=c99",))))
    library.both.argtypes = [ctypes.c_float, ctypes.c_void_p]
    found = np.zeros(2, dtype=np.float32)
    angles = [*np.linspace(-20.0, 20.0, 2001), 1e4, -3e6]
    for angle in np.array(angles, dtype=np.float32):
        library.both(float(angle), found.ctypes.data)
        expected = [np.sin(float(angle)), np.cos(float(angle))]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1.2e-7)  # one unit in the last place of numbers near 1


def test_without_cupy_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    robot = random_robot(1, 1)
    with pytest.raises(EngineError, match="CuPy is not installed"):
        rollout(robot, random_state(robot, np.random.default_rng(0)).flat, 0.01, 1, device="gpu")


def test_single_precision_is_for_the_gpu() -> None:
    robot = random_robot(1, 1)
    start = random_state(robot, np.random.default_rng(0)).flat
    with pytest.raises(InputError, match="float32 needs device='gpu'"):
        rollout(robot, start, 0.01, 1, precision="float32")
    with pytest.raises(InputError, match="device"):
        rollout(robot, start, 0.01, 1, device="tpu")  # type: ignore[call-overload, arg-type]
