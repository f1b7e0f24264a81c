"""The most likely possible bodies: a convex problem, against least squares and SciPy's search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from spacearm.identify.ground import held_base_parameters
from spacearm.identify.inertia.consistent import impossible_bodies, inertia_from, log_cholesky
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.possible_bodies import fit_possible_bodies
from spacearm.model import catalogue
from spacearm.optimise import Parameter
from spacearm.optimise.information import Information

ROBOT = catalogue.load("yoshida1992")
BASE = held_base_parameters(ROBOT, (0.0, -9.81, 0.0))
SIZES = (np.abs(BASE.combine) * typical_sizes(ROBOT)).max(axis=1)
TRUTH = BASE.combine @ ROBOT.inertia_parameters.ravel()


def information(values: np.ndarray, sigma: float, more: tuple[float, ...] = ()) -> Information:
    """Independent values, each with a deviation of so many typical sizes."""
    sizes = np.concatenate([SIZES, np.ones(len(more))])
    return Information.from_matrix(np.concatenate([values, more]), np.diag((sigma * sizes) ** -2.0), sizes)


def test_values_of_possible_bodies_stay_as_they_are() -> None:
    found = fit_possible_bodies(information(TRUTH, 1e-3), BASE)
    assert found.has_converged
    np.testing.assert_allclose(found.values, TRUTH, atol=2e-4 * SIZES.max())
    assert found.std == pytest.approx(1e-3 * SIZES, rel=0.05)
    assert not impossible_bodies(ROBOT, found.extra["inertia"])


def test_values_of_no_body_become_the_nearest_possible() -> None:
    wrong = TRUTH.copy()
    moment = BASE.names.index("Izz*(rod2)")
    wrong[moment] *= -0.5  # less than nothing
    sigma, vague = 0.1, 10.0
    found = fit_possible_bodies(information(wrong, sigma), BASE, vague=vague)
    inertia = found.extra["inertia"]
    assert not impossible_bodies(ROBOT, inertia)
    scale, mean = typical_sizes(ROBOT), ROBOT.inertia_parameters.ravel()
    shown = np.repeat([False, True, True], 10)  # the base has no share

    def cost(z: np.ndarray) -> float:
        rows = mean.copy()
        rows[shown] = np.concatenate([inertia_from(part) for part in z.reshape(-1, 10)])
        data = (BASE.combine @ rows - wrong) / (sigma * SIZES)
        prior = ((rows - mean) / (vague * scale))[shown]
        return 0.5 * float(data @ data + prior @ prior)

    here = np.concatenate([log_cholesky(row) for row in inertia.reshape(-1, 10)[1:]])
    best = min(minimize(cost, z, method="BFGS", options={"maxiter": 2000}).fun for z in (here, here + 0.05))
    # the barrier's weight, 0.01, times what must stay positive: four of each body
    assert best - 1e-6 <= cost(here) <= best + 0.01 * 8


def test_others_stay_within_their_bounds() -> None:
    others = [Parameter("coulomb", 0.0, lower=0.0, scale=1.0), Parameter("offset", 0.0, scale=1.0)]
    found = fit_possible_bodies(information(TRUTH, 1e-3, (-0.2, -0.2)), BASE, others)
    assert 0.0 < found["coulomb"] < 1e-3
    assert found["offset"] == pytest.approx(-0.2, abs=1e-4)


def test_a_body_that_was_repaired_to_the_last_digit_can_be_a_start() -> None:
    """Principal moments of which two sum to the third: the logarithm of what must stay positive has no value there."""
    rows = ROBOT.inertia_parameters.copy()
    rows[1, 4:] = [0.25, 0.75, 1.0, 0.0, 0.0, 0.0]
    rows[1, 1:4] = 0.0
    flat = ROBOT.with_inertia_parameters(rows)
    base = held_base_parameters(flat, (0.0, -9.81, 0.0))
    sizes = (np.abs(base.combine) * typical_sizes(flat)).max(axis=1)
    values = base.combine @ ROBOT.inertia_parameters.ravel()
    notes = Information.from_matrix(values, np.diag((1e-3 * sizes) ** -2.0), sizes)
    found = fit_possible_bodies(notes, base)
    assert found.has_converged
    np.testing.assert_allclose(found.values, values, atol=5e-4 * sizes.max())
    assert not impossible_bodies(flat, found.extra["inertia"])
    # A body that nothing has touched is as possible as the robot.
    assert not impossible_bodies(flat, rows)
