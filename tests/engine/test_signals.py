"""Functions of time: shapes, sums, splines, approximations."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.simulate import (
    approximate,
    half_sine,
    pulse,
    spline,
    table,
    triangle,
)


def test_signals() -> None:
    t = np.linspace(-0.5, 1.5, 401)
    wave = half_sine(3.0, 0.2, 0.5)
    exact = np.where((t >= 0.2) & (t < 0.7), 3.0 * np.sin(np.pi * (t - 0.2) / 0.5), 0.0)
    np.testing.assert_allclose(wave(t), exact, atol=1e-11)
    tooth = triangle(2.0, 0.1, 0.4)
    np.testing.assert_allclose(tooth([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]), [0, 0, 1, 2, 1, 0], atol=1e-14)
    line = table([0.0, 1.0], [1.0, 3.0])
    np.testing.assert_allclose(line([-1.0, 0.5, 2.0]), [1.0, 2.0, 3.0])
    np.testing.assert_allclose((wave + 2.0 * tooth + 1.0)(t), exact + 2 * tooth(t) + 1.0, atol=1e-11)
    assert pulse(2.0, 0.1, 0.2)(0.1) == 2.0
    assert pulse(2.0, 0.1, 0.2)(0.1 + 0.2) == 0.0
    curve = spline([0.0, 0.4, 1.0], [0.0, 1.0, 0.5])
    assert curve.derivative()(0.0) == pytest.approx(0.0, abs=1e-14)
    assert curve(5.0) == pytest.approx(0.5)
    assert spline([0, 1, 2], [0, 1, 0], "natural").derivative().derivative()(0.0) == pytest.approx(0.0, abs=1e-14)

    def hard(x: np.ndarray) -> np.ndarray:
        return np.abs(x - 0.3) * np.exp(np.sin(5 * x))

    fit = approximate(hard, 0.0, 2.0, tolerance=1e-9, breaks=[0.3])
    x = np.linspace(0.0, 2.0, 1000)
    np.testing.assert_allclose(fit(x), hard(x), atol=2e-9)
    with pytest.raises(InputError, match="breaks"):
        approximate(lambda x: np.sign(x - 0.3123), 0.0, 1.0)
