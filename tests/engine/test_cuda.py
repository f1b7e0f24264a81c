"""The text of GPU kernels: read as C it gives the bits of the processor's roll-outs. GPU tests: ``make gpu``."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spacearm.control import Law, joint_pid
from spacearm.engine import Kernel, Mechanics
from spacearm.engine.cuda import _FLOAT, RolloutSource
from spacearm.engine.cuda_batch import BatchSource
from spacearm.errors import EngineError, InputError
from spacearm.mechanics import build as program
from spacearm.mechanics.tree import rotor_inertias
from spacearm.model import Robot
from spacearm.simulate import rollout, spline
from spacearm.simulate.gpu import timetable
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.rollout import _loop, _timetable
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


def compiled(text: str, folder: Path, name: str) -> ctypes.CDLL:
    path = folder / f"{name}.c"
    path.write_text(AS_C + text)
    return ctypes.CDLL(str(build([path], folder / f"{name}.so", "-O1", "-shared", "-fPIC", strict=("-std=c99",))))


def threads(library: ctypes.CDLL, samples: int) -> Iterator[None]:
    """As if thread after thread came."""
    for sample in range(samples):
        ctypes.c_uint.in_dll(library, "blockIdx").value = sample // 64
        ctypes.c_uint.in_dll(library, "threadIdx").value = sample % 64
        yield


def set_constants(library: ctypes.CDLL, values: Array) -> None:
    (ctypes.c_double * values.size).in_dll(library, "uniform")[:] = values


def by_c(robot: Robot, starts: Array, force: Array, count: int, folder: Path, law: Law | None = None) -> Array:
    source = RolloutSource(_loop(robot, frozenset(), frozenset(), law), [])
    common = robot_parameters(robot)
    common |= source.loop.stage.derive(common)
    if law is not None:
        common["memory"] = law.program(robot).memory
    library = compiled(source.text, folder, "rollout")
    set_constants(library, source.constants(common))
    times = timetable(*_timetable(law, 0.01, count, force.shape[1]), 0.01, count, 1 if law is None else 2)
    samples, nx = starts.shape
    rows, found, none = np.ascontiguousarray(starts), np.zeros((samples, 1, nx)), np.zeros(1)
    pushes = np.ascontiguousarray(np.moveaxis(force, 0, -1))  # (pieces, nv, samples)
    number, pointer = ctypes.c_longlong, ctypes.c_void_p
    follow = [pointer, pointer, pointer, ctypes.c_int, ctypes.c_int, number]
    library.rollout.argtypes = [
        pointer, pointer, pointer, *[number] * 3, pointer, *[number] * 3, ctypes.c_double, *follow,
    ]  # fmt: skip
    for _ in threads(library, samples):
        library.rollout(
            rows.ctypes.data, none.ctypes.data, pushes.ctypes.data, 1, pushes.shape[1] * samples, samples,
            found.ctypes.data, samples, count, count, 0.01, times.table.ctypes.data, times.begins.ctypes.data,
            times.firsts.ctypes.data, len(times.firsts), len(times.table), times.hold,
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


def test_a_law_with_memory_and_references_has_the_bits_of_the_processor(tmp_path: Path) -> None:
    """PID with anti-windup asked at every second step, along splines with breaks within."""
    robot = random_robot(4, 3, geometry="skew", passive=True)
    rng = np.random.default_rng(0)
    starts = np.array([random_state(robot, rng).flat for _ in range(5)])
    paths = [spline(np.linspace(0.0, 0.12, 4), rng.normal(size=4)) for _ in range(robot.n)]
    law = joint_pid(paths, 30.0, 5.0, integral=40.0, windup=0.5, period=0.02)
    force = rng.normal(size=(5, 12, robot.dofs))
    expected = rollout(robot, starts, 0.01, 12, forces=force, law=law, ignore_friction=True)[:, -1]
    open_loop = rollout(robot, starts, 0.01, 12, forces=force, ignore_friction=True)[:, -1]
    assert np.abs(expected - open_loop).max() > 1e-3
    np.testing.assert_array_equal(by_c(robot, starts, force, 12, tmp_path, law), expected)


@pytest.mark.parametrize("name", ["forward_dynamics", "mass_matrix", "generalized_jacobian"])
def test_a_batch_read_as_c_has_the_bits_of_the_processor(tmp_path: Path, name: str) -> None:
    robot = random_robot(4, 4, geometry="mixed", rotors=0.5)
    options = {"frame": robot.frames[0].name} if name == "generalized_jacobian" else {}
    kernel = Kernel(program(robot, name, **options))
    rng = np.random.default_rng(0)
    own = {"inertia": robot.inertia_parameters.ravel(), "rotor": rotor_inertias(robot)}
    given = {n: own[n] for n in own if n in kernel.inputs}
    given |= kernel.derive(given)
    sizes = {n: at.stop - at.start for n, at in kernel.inputs.items()}
    varied = {n: rng.normal(size=(70, size)) for n, size in sizes.items() if n not in given}
    expected = kernel({**given, **varied})
    source = BatchSource(kernel, tuple(varied))
    library = compiled(source.text, tmp_path, "batch")
    set_constants(library, source.constants(given))
    found = {n: np.zeros_like(value) for n, value in expected.items()}
    pointers = [value.ctypes.data for value in (*varied.values(), *found.values())]
    library.batch.argtypes = [*[ctypes.c_void_p] * len(pointers), ctypes.c_longlong]
    for _ in threads(library, 70):
        library.batch(*pointers, 70)
    for n, value in expected.items():
        np.testing.assert_array_equal(found[n], value)


def test_a_batch_on_the_gpu_needs_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    robot = random_robot(1, 1)
    with pytest.raises(EngineError, match="CuPy is not installed"):
        Mechanics(robot, device="gpu").mass_matrix(np.zeros((3, 1)))
    with pytest.raises(InputError, match="device is 'tpu'"):
        Mechanics(robot, device="tpu")  # type: ignore[arg-type]


def test_sine_and_cosine_in_single_precision(tmp_path: Path) -> None:
    both = "void both(float x, float *out) { sa_sine_cosine(x, out, out + 1); }"
    library = compiled(_FLOAT + both, tmp_path, "sine")
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
