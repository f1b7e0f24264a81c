"""The implicit method: its conditions of order, and its stability."""

from __future__ import annotations

import numpy as np

from spacearm.engine import radau


def test_nodes_and_weights_integrate_polynomials_exactly() -> None:
    """Degree 8 over the step, degree 4 up to each stage: order 9, stage order 5."""
    for k in range(1, 10):
        np.testing.assert_allclose(radau.B @ radau.C ** (k - 1), 1.0 / k, rtol=1e-13)
    for k in range(1, 6):
        np.testing.assert_allclose(radau.A @ radau.C ** (k - 1), radau.C**k / k, rtol=1e-12, atol=1e-15)


def test_a_step_is_the_pade_approximation_of_the_exponential() -> None:
    """R(z) of Radau IIA is the Pade approximant (s - 1, s); on the imaginary axis it does not grow, far out it is 0."""

    def grown(z: complex) -> complex:
        stages = np.linalg.solve(np.eye(5) - z * radau.A, np.ones(5))
        return complex(1.0 + z * radau.B @ stages)

    for z in (0.3, -0.5, 0.7j, -0.4 + 0.6j):
        assert abs(grown(z) - np.exp(z)) < 2e-10
    for y in (0.1, 1.0, 10.0, 1e3):
        assert abs(grown(1j * y)) <= 1.0
    assert abs(grown(-1e6)) < 1e-4


def test_the_embedded_error_is_of_order_five() -> None:
    def estimated(x: float) -> float:
        stages = np.linalg.solve(np.eye(5) - x * radau.A, x * radau.A @ np.ones(5))
        return float(abs((x + radau.E @ stages) / (radau.ROOT - x)))

    assert np.log2(estimated(-0.2) / estimated(-0.1)) > 5.5
