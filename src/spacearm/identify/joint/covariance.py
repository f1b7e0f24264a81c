"""Covariance of an estimate whose own weights need not be those of the noise: early weights, Eq. 24, smoothed paths."""

from __future__ import annotations

import numpy as np

from spacearm.identify.joint.problem import Model
from spacearm.optimise.problem import covariance_at
from spacearm.typing import Array


def covariance(used: Model, noise: Model, x: Array) -> Array:
    """Covariance (p, p) at ``x`` of the estimate that least squares of ``used`` give under the noise of ``noise``.

    ``used`` is ``noise`` itself, or the same tests with the paths taken as exact, or with Eq. 24's plain residuals.
    Parameters that the data do not determine have an infinite variance.
    """
    problem = used.problem()
    blind = ~np.isfinite(np.diag(covariance_at(problem, x)))
    slopes = used.jacobian(x) * problem.sizes
    gain = np.linalg.pinv(slopes, rcond=1e-10) * problem.sizes[:, None]  # errors of the residuals to those of x
    parts, first = [], 0
    for k, test in enumerate(used.tests):
        count = test.time.size * len(test.measured)
        parts.append(used.noise_seen(noise, k, gain[:, first : first + count].T))
        first += count
    spread = np.concatenate(parts)
    full: Array = spread.T @ spread
    if not noise.noise_known:
        r = noise.residual(x, weighted=False)
        full = full * (r @ r) / max(r.size - x.size, 1)
    full[blind, :] = 0.0
    full[:, blind] = 0.0
    full[blind, blind] = np.inf
    return full
