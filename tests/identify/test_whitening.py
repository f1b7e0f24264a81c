"""The innovations filter against the dense covariance of the same readings."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify._whitening import ErrorModel


def test_the_filter_is_a_root_of_the_dense_covariance() -> None:
    """Readings of a random system, some missing: every reading as a sum over all independent errors, written out."""
    rng = np.random.default_rng(3)
    count, size, many, channels = 7, 3, 2, 2
    across = 0.6 * rng.standard_normal((count - 1, size, size))
    before, after = rng.standard_normal((2, count - 1, size, many))
    seen, direct = rng.standard_normal((count, channels, size)), rng.standard_normal((count, channels, many))
    entered, root = rng.standard_normal((size, many)), rng.standard_normal((size, 2))
    sigma, noise = rng.uniform(0.5, 2.0, (count, many)), np.array([0.3, 0.8])
    model = ErrorModel(across, before, after, seen, direct, sigma**2, noise**2, entered, root @ root.T)
    errors = np.eye(2 + count * (many + channels))  # the start's two, then inputs, then readings
    e = errors[2 : 2 + count * many].reshape(count, many, -1) * sigma[:, :, None]
    v = errors[2 + count * many :].reshape(count, channels, -1) * noise[:, None]
    x, rows = root @ errors[:2] + entered @ e[0], []
    for k in range(count):
        rows.append(seen[k] @ x + direct[k] @ e[k] + v[k])
        if k + 1 < count:
            x = across[k] @ x + before[k] @ e[k] + after[k] @ e[k + 1]
    present = rng.random((count, channels)) > 0.2
    there = present.ravel()
    assert not there.all()
    full = np.concatenate(rows)[there]
    covariance = full @ full.T
    filtered = model.whitener(present)
    every = np.zeros((there.size, there.sum()))
    every[there] = np.eye(there.sum())
    white = filtered.whiten_columns(every.reshape(count, channels, -1)).reshape(there.size, -1)
    assert np.all(white[~there] == 0.0)
    assert white[there] @ covariance @ white[there].T == pytest.approx(np.eye(there.sum()), abs=1e-9)
    # The most likely errors of the inputs, by the conditional mean of a normal distribution.
    residual = rng.standard_normal((count, channels))
    tied = e.reshape(count * many, -1) @ full.T @ np.linalg.solve(covariance, residual.ravel()[there])
    assert model.estimate_inputs(residual, present) == pytest.approx(tied.reshape(count, many), abs=1e-9)
    coloured = filtered.colour_rows(every.reshape(count, channels, -1)).reshape(there.size, -1)[there]
    assert coloured.T @ coloured == pytest.approx(covariance, rel=1e-9, abs=1e-9)
    missing = 2.0 * np.sum(np.log(np.broadcast_to(noise, present.shape)[~present]))
    assert filtered.log_determinant - missing == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-9)


def test_a_reading_without_noise_is_refused() -> None:
    """Two channels that read the same error and have none of their own: no residual can be made white."""
    none, one = np.zeros((2, 1, 1)), np.ones((3, 2, 1))
    model = ErrorModel(none, none, none, np.zeros((3, 2, 1)), one, np.ones(1), np.zeros(2))
    with pytest.raises(InputError, match="not positive definite"):
        model.whitener(np.ones((3, 2), dtype=bool))
