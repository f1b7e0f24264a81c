"""Score tests against fits with the tested columns among the unknowns, by NumPy's least squares."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.identify._fit import Score, score_tests


def test_a_score_is_what_a_fit_with_more_unknowns_would_gain() -> None:
    rng = np.random.default_rng(0)
    columns, more = rng.normal(size=(200, 4)), 1e3 * rng.normal(size=(200, 3))
    more[:, 2] = more[:, 0] - 2.0 * columns[:, 1]  # nothing new
    data = rng.normal(size=200) - 3e-4 * more[:, 0]

    def fitted(rows: np.ndarray) -> tuple[float, np.ndarray]:
        found = np.linalg.lstsq(rows, -data, rcond=1e-10)[0]
        return float(np.sum((data + rows @ found) ** 2)), found

    alone, x = fitted(columns)
    residual = data + columns @ x
    tested = {"one": more[:, :1], "two": more[:, :2], "three": more, "none": columns[:, :2]}
    found = {name: (gain, count, sizes) for name, gain, count, sizes in score_tests(residual, columns, tested)}
    assert list(found) == ["one", "two", "three"]
    for name, freedom in (("one", 1), ("two", 2), ("three", 2)):
        whole, values = fitted(np.concatenate([columns, tested[name]], axis=1))
        statistic, count, sizes = found[name]
        assert statistic == pytest.approx(alone - whole, rel=1e-9)
        assert count == freedom
        if sizes is not None:
            np.testing.assert_allclose(sizes, values[4:], rtol=1e-9)
    assert found["three"][2] is None


def test_doubt_of_the_noise_makes_a_score_less_telling() -> None:
    assert Score("a", 16.0, 1).p_value == pytest.approx(6.334e-5, rel=1e-3)  # of four deviations
    assert Score("a", 16.0, 1, doubt=0.3).p_value > 5.0 * Score("a", 16.0, 1).p_value
