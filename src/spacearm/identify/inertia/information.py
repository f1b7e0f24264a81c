"""What data say about the base parameters: a centre and an information matrix, singular where they say nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.base_parameters import BaseParameters
from spacearm.typing import Array

#: Eigenvalues of the scaled information below this share of the largest are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Information:
    """``(b - values)^T matrix (b - values)`` is how badly base parameters b fit; (..., r) and (..., r, r)."""

    base_parameters: BaseParameters
    values: Array
    matrix: Array
    sizes: Array  # (r,) typical sizes

    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues (rising) and vectors of the information scaled by typical sizes."""
        scaled = self.matrix * self.sizes[:, None] * self.sizes
        values, vectors = np.linalg.eigh(0.5 * (scaled + np.swapaxes(scaled, -1, -2)))
        return values, vectors

    @property
    def rank(self) -> int:
        """Directions that the data determine at all (of one repetition)."""
        values, _ = self.spectrum()
        return int(np.sum(values > ROUNDING * values[..., -1:], axis=-1).min())

    @property
    def condition(self) -> float:
        """Ratio of the best to the worst determined direction, in scaled deviations."""
        values, _ = self.spectrum()
        kept = values[values > ROUNDING * values[-1]]
        return float(np.sqrt(kept[-1] / kept[0]))

    @property
    def covariance(self) -> Array:
        """Covariance (..., r, r); infinite variance for parameters with a share in an undetermined direction.

        A share counts when such a direction, taken as unknown by a typical size and by all that the values have along
        it, matters more than the data's own deviation.
        """
        values, vectors = self.spectrum()
        seen = values > ROUNDING * values[..., -1:]
        with np.errstate(divide="ignore"):
            inverse = np.where(seen, 1.0 / np.where(seen, values, 1.0), 0.0)
        full = np.einsum("...ik,...k,...jk->...ij", vectors, inverse, vectors)
        diagonal = np.einsum("...ii->...i", full)
        share = np.sum(np.where(seen[..., None, :], 0.0, vectors**2), axis=-1)
        along = np.where(seen, 0.0, np.einsum("...ik,...i->...k", vectors, self.values / self.sizes))
        share = share * (1.0 + np.sum(along**2, axis=-1, keepdims=True))
        diagonal[...] = np.where(share > np.maximum(diagonal, 1e-10), np.inf, diagonal + share)
        full = full * self.sizes[:, None] * self.sizes
        return np.asarray(full)

    @property
    def std(self) -> Array:
        """Standard deviations (..., r)."""
        return np.asarray(np.sqrt(np.einsum("...ii->...i", self.covariance)))

    def picked(self, index: int) -> Information:
        """One repetition."""
        return Information(self.base_parameters, self.values[index], self.matrix[index], self.sizes)


def solve_scaled(matrix: Array, right: Array, sizes: Array, rounding: float = ROUNDING) -> Array:
    """``matrix @ x = right`` for symmetric (..., p, p), with nothing along directions that the matrix does not see."""
    own = 1.0 / np.sqrt(np.maximum(np.einsum("...ii->...i", matrix), 1e-300))
    balanced = matrix * own[..., :, None] * own[..., None, :]
    try:
        factor = np.linalg.cholesky(balanced)
    except np.linalg.LinAlgError:
        factor = None
    if (
        factor is not None and np.einsum("...ii->...i", factor).min() > 1e-6
    ):  # far from singular: no need to look closer
        first = np.linalg.solve(factor, (right * own)[..., None])
        return np.asarray(np.linalg.solve(np.swapaxes(factor, -1, -2), first)[..., 0] * own)
    scaled = matrix * sizes[:, None] * sizes
    values, vectors = np.linalg.eigh(0.5 * (scaled + np.swapaxes(scaled, -1, -2)))
    seen = values > rounding * values[..., -1:]
    inverse = np.where(seen, 1.0 / np.where(seen, values, 1.0), 0.0)
    turned = np.einsum("...ik,...i->...k", vectors, right * sizes) * inverse
    return np.asarray(np.einsum("...ik,...k->...i", vectors, turned) * sizes)


def eliminate(matrix: Array, keep: int) -> Array:
    """Information of the first ``keep`` unknowns when the others are free: the Schur complement."""
    if matrix.shape[-1] == keep:
        return matrix
    head, cross, tail = matrix[..., :keep, :keep], matrix[..., :keep, keep:], matrix[..., keep:, keep:]
    size = 1.0 / np.sqrt(np.maximum(np.einsum("...ii->...i", tail), 1e-300))
    balanced = tail * size[..., :, None] * size[..., None, :]
    solved = np.linalg.solve(balanced, np.swapaxes(cross, -1, -2) * size[..., :, None])
    return np.asarray(head - cross @ (size[..., :, None] * solved))
