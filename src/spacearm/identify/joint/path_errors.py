"""What the noise of the encoders does to a fit by way of the paths that drive the model.

A smoothed path is wrong by a few slow deviations. They move the model, and where a measured channel was made with the
same encoder's readings they go together with that channel's noise. So the residuals of a test, whitened by the noise of
its samples, have the covariance ``1 + P diag(gain) P^T`` with few columns P: it can be whitened again at little cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spacearm.identify.joint.paths import Smoothed
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.joint.problem import Model

#: A motor that is held on its own encoder's path leaves residuals without variance; this much is left to them.
FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class PathErrors:
    """Covariance ``1 + basis diag(gain) basis^T`` of one test's whitened residuals, flat."""

    basis: Array
    gain: Array

    def whitened(self, rows: Array) -> Array:
        """Rows (m, p) times the inverse root of the covariance."""
        return self._scaled(rows, 1.0 / np.sqrt(1.0 + self.gain))

    def coloured(self, rows: Array) -> Array:
        """Rows (m, p) times the root of the covariance."""
        return self._scaled(rows, np.sqrt(1.0 + self.gain))

    def _scaled(self, rows: Array, factor: Array) -> Array:
        moved: Array = rows + self.basis @ ((factor - 1.0)[:, None] * (self.basis.T @ rows))
        return moved

    @property
    def log_determinant(self) -> float:
        return float(np.sum(np.log1p(self.gain)))


def path_errors(model: Model, x: Array, test: int) -> PathErrors | None:
    """The covariance about the values ``x``, one run for each deviation; None where every path is exact."""
    rows = model.raw(x, test)[0]
    sizes = _unknown_noise(model, x)
    moves, shares = [], []
    for (kind, joint), path in model.smoothed[test].items():
        for k in range(len(path.deviations)):
            forward = model.forwards[test].changed(kind, joint, path.moved(k))
            moves.append(model.raw(x, test, forward=forward)[0] - rows)
            shares.append(_shared(model, test, kind, joint, path, k))
    if not moves:
        return None
    with_noise, alone = (
        np.stack([model.sample_white(test, part).ravel() for part in parts], axis=1) / sizes
        for parts in (shares, [move - share for move, share in zip(moves, shares, strict=True)])
    )
    if not np.all(np.isfinite(alone)):  # a candidate that cannot be followed to the end
        return None
    # Cov(move u - noise) = 1 - share move^T - move share^T + move move^T
    basis, small = np.linalg.qr(np.concatenate([alone, with_noise], axis=1))
    half = alone.shape[1]
    gain, turn = np.linalg.eigh(small[:, :half] @ small[:, :half].T - small[:, half:] @ small[:, half:].T)
    return PathErrors(basis @ turn, np.maximum(gain, FLOOR - 1.0))


def _shared(model: Model, test: int, kind: str, joint: str, path: Smoothed, deviation: int) -> Array:
    """Covariance (T, channels) of the measured channels' noise with one deviation."""
    seen = model.tests[test]
    found = np.zeros((seen.time.size, len(seen.measured)))
    if kind == "path":
        for column, channel in enumerate(seen.measured):
            factor = 1.0 if channel == joint else seen.shares.get(channel, {}).get(joint, 0.0)
            found[:, column] = factor * path.sigma * path.share[:, deviation]
    return found


def _unknown_noise(model: Model, x: Array) -> float:
    """Size of the sample's noise where only the residuals tell it."""
    if model.noise_known:
        return 1.0
    r = model.residual(x, weighted=False)
    return max(float(np.sqrt(r @ r / max(r.size - x.size, 1))), 1e-300)
