"""Turning samples in rows into lanes and back, for the lanes of every kind of processor."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numba import njit

from spacearm.engine import _lanes
from spacearm.engine._batch import CHUNK, run_batch
from spacearm.engine.kernel import Kernel
from spacearm.engine.machine import host
from spacearm.mechanics import build
from spacearm.model import catalogue


@pytest.fixture(params=[2, 4, 8])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lanes that the functions below are compiled for; LLVM splits vectors that this processor does not have."""
    chosen = replace(host(), lanes=request.param)
    monkeypatch.setattr(_lanes, "host", lambda: chosen)
    return int(request.param)


def test_blocks_turn_into_lanes_and_back(width: int) -> None:
    @njit
    def there_and_back(rows, length, turned, again):
        _lanes.transpose_in(rows.ctypes.data, 8 * length, turned.ctypes.data)
        _lanes.transpose_out(turned.ctypes.data, again.ctypes.data, 8 * length)

    length = 7
    rows = np.arange(width * length, dtype=float).reshape(width, length)
    turned, again = np.full((6, width), -1.0), np.full_like(rows, -1.0)
    there_and_back(rows, length, turned, again)
    np.testing.assert_array_equal(turned[:4], rows[:, :4].T)
    assert np.all(turned[4:] == -1.0)
    np.testing.assert_array_equal(again[:, :4], rows[:, :4])
    assert np.all(again[:, 4:] == -1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_any_number_that_is_not_finite_is_seen(width: int, value: float) -> None:
    @njit
    def finite(array, count):
        return _lanes.all_finite(array.ctypes.data, count)

    numbers = np.full((5, width), np.finfo(float).max)
    assert finite(numbers, 5)
    for place in np.ndindex(5, width):
        spoilt = numbers.copy()
        spoilt[place] = value
        assert not finite(spoilt, 5)
        assert finite(spoilt, place[0])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 21])
def test_a_batch_writes_its_own_rows_only(count: int) -> None:
    """Groups that are full and groups that are not; rows before and behind the batch stay."""
    kernel = Kernel(build(catalogue.load("cai2023"), "forward_dynamics").inline_derived_inputs())  # no inputs but these
    rng = np.random.default_rng(4)
    inertia = catalogue.load("cai2023").inertia_parameters.ravel()
    inputs = {"joints": rng.normal(size=(count, 7)), "velocity": rng.normal(size=(count, 13))}
    inputs |= {"force": rng.normal(size=13), "inertia": inertia}
    given = [(array, kernel.inputs[name], array.ndim == 2) for name, array in inputs.items()]
    space = np.full((count + 2, 13), -7.0)
    size = host().lanes
    place = kernel.outputs["acceleration"]
    found = run_batch(kernel.address(size), size, given, [(space[1:-1], place)], count, kernel.n_in, kernel.n_out)
    assert found == (0, -1)
    assert np.all(space[[0, -1]] == -7.0)
    for i in range(count):
        one = kernel({name: array[i] if array.ndim == 2 else array for name, array in inputs.items()})
        np.testing.assert_array_equal(space[1 + i], one["acceleration"])


def _large_batch() -> tuple[Kernel, dict[str, np.ndarray]]:
    robot = catalogue.load("yoshida1992")
    rng = np.random.default_rng(5)
    inputs = {"joints": rng.normal(size=(5 * CHUNK + 3, 2)), "velocity": rng.normal(size=8), "force": np.zeros(8)}
    return Kernel(build(robot, "forward_dynamics")), inputs | {"inertia": robot.inertia_parameters.ravel()}


def test_an_interrupted_batch_leaves_nothing_running() -> None:
    """What a progress callback raises comes out, and the next batch is whole."""
    kernel, inputs = _large_batch()
    whole = kernel(inputs, threads=1)["acceleration"]
    calls: list[int] = []

    def interrupt(done: int, count: int) -> None:
        calls.append(done)
        raise KeyboardInterrupt

    for threads in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            kernel(inputs, threads=threads, progress=interrupt)
    assert calls == [CHUNK, CHUNK]
    np.testing.assert_array_equal(kernel(inputs, threads=3)["acceleration"], whole)


FORK = """
import os, sys
import numpy as np
from spacearm.engine._batch import CHUNK
from spacearm.engine.kernel import Kernel
from spacearm.mechanics import build
from spacearm.model import catalogue

robot = catalogue.load("yoshida1992")
joints = np.random.default_rng(5).normal(size=(5 * CHUNK + 3, 2))
inputs = {"joints": joints, "velocity": np.ones(8), "force": np.zeros(8), "inertia": robot.inertia_parameters.ravel()}
kernel = Kernel(build(robot, "forward_dynamics"))
whole = kernel(inputs, threads=2)["acceleration"]
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(kernel(inputs, threads=2)["acceleration"], whole) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_starts_threads_of_its_own() -> None:
    """In a fresh interpreter: a fork of this one would inherit locks that threads of other tests hold."""
    assert subprocess.run([sys.executable, "-c", FORK], check=False, timeout=300).returncode == 0
