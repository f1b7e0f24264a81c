"""The text of GPU kernels, and what is told without a GPU. Their results: ``tests/simulate/test_gpu.py``."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine import Mechanics
from spacearm.engine._cuda_text import SINGLE_SINE
from spacearm.engine.cuda import KernelTuning, RolloutSource, RolloutVariant
from spacearm.errors import EngineError, InputError
from spacearm.simulate import rollout
from spacearm.simulate.ensemble.rollout import _loop
from support.compilers import build
from support.cuda_as_c import AS_C
from support.random_robots import random_robot, random_state


def test_what_is_the_same_for_all_is_computed_once() -> None:
    """Inertias of all samples alike stand in constant memory; those of each are read sample by sample."""
    robot = random_robot(4, 3)
    alike = RolloutSource(_loop(robot, frozenset(), frozenset()))
    loop = _loop(robot, frozenset(["inertia"]), frozenset(["inertia"]))
    apart = RolloutSource(loop, RolloutVariant(each=("state", "inertia", *loop.symbols.motion.derived)))
    assert "each[(" not in alike.text
    assert "each[(" in apart.text
    assert len(alike.text) < len(apart.text)


def test_tuning_is_in_the_text() -> None:
    loop = _loop(random_robot(1, 2), frozenset(), frozenset())
    text = RolloutSource(loop, tuning=KernelTuning(block=128, blocks=3, shared=True, unroll=2)).text
    assert "__launch_bounds__(128, 3)" in text
    assert "__shared__ double state_[" in text
    assert "#pragma unroll 2" in text


def test_a_batch_on_the_gpu_needs_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    robot = random_robot(1, 1)
    with pytest.raises(EngineError, match="CuPy is not installed"):
        Mechanics(robot, device="gpu").mass_matrix(np.zeros((3, 1)))
    with pytest.raises(InputError, match="device is 'tpu'"):
        Mechanics(robot, device="tpu")  # type: ignore[arg-type]


def test_sine_and_cosine_in_single_precision(tmp_path: Path) -> None:
    both = "void both(float x, float *out) { sa_sine_cosine(x, out, out + 1); }"
    source = tmp_path / "sine.c"
    source.write_text(AS_C + SINGLE_SINE + both)
    library = ctypes.CDLL(str(build([source], tmp_path / "sine.so", "-O1", "-shared", "-fPIC", strict=("-std=c99",))))
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
