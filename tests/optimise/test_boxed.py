"""Vectorised bounded searches, against SciPy and known minima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from spacearm.optimise.box_constrained import minimise_in_box
from spacearm.typing import Array


def rosenbrock(x: Array) -> tuple[Array, Array]:
    a, b = x[..., 0], x[..., 1]
    value = (1 - a) ** 2 + 100 * (b - a**2) ** 2
    return value, np.stack([-2 * (1 - a) - 400 * a * (b - a**2), 200 * (b - a**2)], axis=-1)


def test_a_curved_valley_from_many_starts() -> None:
    starts = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    wide = np.full(2, np.inf)
    found = minimise_in_box(rosenbrock, starts, -wide, wide)
    np.testing.assert_allclose(found.points, 1.0, atol=1e-6)
    assert found.rounds < 400


@pytest.mark.parametrize(("lower", "upper"), [((-2, -2), (0.5, 2)), ((1.2, -2), (2, 2)), ((-1, -1), (0.3, 0.05))])
def test_bounds_hold_and_the_minimum_is_scipys(lower: tuple[float, float], upper: tuple[float, float]) -> None:
    low, high = np.array(lower, dtype=float), np.array(upper, dtype=float)
    starts = np.random.default_rng(1).uniform(low, high, (20, 2))
    found = minimise_in_box(rosenbrock, starts, low, high)
    assert np.all(found.points >= low)
    assert np.all(found.points <= high)
    other = min(
        (minimize(rosenbrock, x, jac=True, method="L-BFGS-B", bounds=np.stack([low, high], axis=-1)) for x in starts),
        key=lambda run: run.fun,
    )  # fmt: skip
    assert found.values.min() == pytest.approx(other.fun, rel=1e-8, abs=1e-12)
    assert np.abs(found.slopes[found.values.argmin()]).max() < 1e-5


def test_an_ill_conditioned_bowl_with_half_its_variables_at_bounds() -> None:
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    matrix = turn @ np.diag(np.logspace(0, 4, 8)) @ turn.T / 1e4
    centre = rng.uniform(-2, 2, 8)

    def bowl(x: Array) -> tuple[Array, Array]:
        gap = x - centre
        slope = gap @ matrix
        return 0.5 * np.einsum("...i,...i->...", gap, slope), slope

    low, high = np.full(8, -1.0), np.full(8, 1.0)
    found = minimise_in_box(bowl, rng.uniform(low, high, (10, 8)), low, high)
    # A convex problem has one minimum, and there the projected gradient vanishes.
    np.testing.assert_allclose(found.points, np.broadcast_to(found.points[0], (10, 8)), atol=1e-4)
    assert np.abs(found.slopes).max() < 1e-8
    assert np.any(np.abs(found.points[0]) == 1.0)


def test_a_search_does_not_depend_on_its_neighbours() -> None:
    starts = np.random.default_rng(3).uniform(-2, 2, (6, 2))
    low, high = np.array([-2.0, -2.0]), np.array([2.0, 0.8])
    every = minimise_in_box(rosenbrock, starts, low, high)
    for i in range(6):
        alone = minimise_in_box(rosenbrock, starts[i : i + 1], low, high)
        np.testing.assert_allclose(every.points[i], alone.points[0], atol=1e-9)


def test_a_search_that_falls_into_a_pole_ends_and_leaves_the_others_alone() -> None:
    def pole(x: Array) -> tuple[Array, Array]:
        """-1/x of a positive x has no least value; a bowl beside it, for x below -1, has."""
        a = x[..., 0]
        deep = a > 0.0
        safe = np.where(deep, a, 1.0)
        value = np.where(deep, -1.0 / safe, (a + 2.0) ** 2)
        return value, np.where(deep, 1.0 / safe**2, 2.0 * (a + 2.0))[..., None]

    wide = np.full(1, np.inf)
    found = minimise_in_box(pole, np.array([[1.0], [-1.5], [0.3], [-3.0]]), -wide, wide)
    assert np.all(found.values[[0, 2]] < -1e6)
    np.testing.assert_allclose(found.points[[1, 3], 0], -2.0, atol=1e-9)
