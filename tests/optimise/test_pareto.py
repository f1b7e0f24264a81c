"""The Pareto search: dominance by brute force, and a front that is known."""

import numpy as np

from spacearm.optimise.pareto import find_front_rows, neighbour_distance, pareto_search


def test_not_dominated_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 6, (200, 3)).astype(float)
    kept = set(find_front_rows(values).tolist())
    for i, row in enumerate(values):
        beaten = np.any(np.all(values <= row, axis=1) & np.any(values < row, axis=1))
        reference = np.any(np.all(values[:i] == row, axis=1))
        # Of equals just one is kept.
        assert (i in kept) <= (not beaten)
        if not beaten and not reference and np.sum(np.all(values == row, axis=1)) == 1:
            assert i in kept
    spread = neighbour_distance(values[sorted(kept)])
    assert np.isinf(spread).sum() >= 2


def test_a_known_front_is_found() -> None:
    """Distances to two points of the cube: the front is the segment between them."""
    one, two = np.full(3, 0.2), np.full(3, 0.8)

    def distances(x: np.ndarray) -> np.ndarray:
        return np.stack([np.linalg.norm(x - one, axis=1), np.linalg.norm(x - two, axis=1)], axis=1)

    found = pareto_search(distances, 3, count=8000, batch=1000, seed=3)
    assert found.tried == 8000
    apart = np.linalg.norm(two - one)
    assert np.all(found.values.sum(axis=1) - apart < 0.02 * apart)
    assert found.values[:, 0].min() < 0.05 * apart
    assert found.values[:, 0].max() > 0.95 * apart
    assert np.all(np.diff(found.values[:, 0]) >= 0.0)
    again = pareto_search(distances, 3, count=8000, batch=1000, seed=3)
    np.testing.assert_array_equal(found.points, again.points)


def test_nothing_feasible_is_an_empty_front() -> None:
    found = pareto_search(lambda x: np.full((len(x), 2), np.inf), 2, count=100, batch=50)
    assert found.points.shape == (0, 2)
    assert found.sampled.shape == (0, 2)
