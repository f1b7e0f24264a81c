"""Roll-outs on a GPU have the processor's bits. Run by ``make gpu``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacearm.engine import NonFiniteWarning
from spacearm.model import Robot
from spacearm.simulate import rollout
from spacearm.typing import Array
from support.random_robots import random_robot, random_state

pytestmark = pytest.mark.gpu


def batch(robot: Robot, count: int) -> Array:
    rng = np.random.default_rng(0)
    return np.array([random_state(robot, rng).flat for _ in range(count)])


@pytest.fixture(params=["aligned", "skew"])
def robot(request: pytest.FixtureRequest) -> Robot:
    return random_robot(4, 4, geometry=request.param, passive=True)


def test_bits_are_those_of_the_processor(robot: Robot) -> None:
    starts, rng = batch(robot, 100), np.random.default_rng(1)
    for forces in (None, rng.normal(size=robot.dofs), rng.normal(size=(100, 25, robot.dofs))):
        given: dict[str, Any] = {"forces": forces, "every": 5, "ignore_friction": True}
        here, there = (rollout(robot, starts, 0.01, 25, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
        np.testing.assert_array_equal(there, here)


def test_parameters_of_each_sample(robot: Robot) -> None:
    starts, rng = batch(robot, 40), np.random.default_rng(2)
    inertia = robot.inertia_parameters * rng.uniform(0.5, 2.0, size=(40, 1, 1))
    given: dict[str, Any] = {"overrides": {"inertia": inertia}, "ignore_friction": True}
    here, there = (rollout(robot, starts, 0.01, 25, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
    np.testing.assert_array_equal(there, here)


def test_a_sample_does_not_depend_on_its_place(robot: Robot) -> None:
    starts = batch(robot, 200)
    every = rollout(robot, starts, 0.01, 10, device="gpu", ignore_friction=True)
    alone = rollout(robot, starts[131], 0.01, 10, device="gpu", ignore_friction=True)
    np.testing.assert_array_equal(every[131], alone)


def test_single_precision(robot: Robot) -> None:
    starts = batch(robot, 100)
    exact = rollout(robot, starts, 0.001, 25, ignore_friction=True)
    single = rollout(robot, starts, 0.001, 25, device="gpu", precision="float32", ignore_friction=True)
    assert single.dtype == np.float32
    assert 1e-9 < np.abs(single - exact).max() / np.abs(exact).max() < 1e-4


def test_arrays_on_the_gpu_stay_there(robot: Robot) -> None:
    import cupy as cp

    starts = batch(robot, 10)
    found = rollout(robot, cp.asarray(starts), 0.01, 5, device="gpu", ignore_friction=True)
    assert isinstance(found, cp.ndarray)
    here = rollout(robot, starts, 0.01, 5, ignore_friction=True)
    np.testing.assert_array_equal(cp.asnumpy(found), here)


def test_a_sample_that_is_not_finite_touches_no_other(robot: Robot) -> None:
    starts = batch(robot, 10)
    good = rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    starts[3, 7] = np.nan
    with pytest.warns(NonFiniteWarning, match=r"1 of 10 samples .* the first at index 3"):
        found = rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    assert not np.isfinite(found[3]).all()
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(good, 3, axis=0))
