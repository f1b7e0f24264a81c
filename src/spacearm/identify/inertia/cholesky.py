"""Cholesky factors of very many small matrices at once: column by column, vectorised over the matrices.

A library call per 6 x 6 matrix costs more than its arithmetic.
"""

from __future__ import annotations

import numpy as np

from spacearm.typing import Array


def inverse_factor(matrices: Array) -> Array:
    """Inverse of the lower Cholesky factor of symmetric positive matrices (..., m, m): it whitens."""
    m = matrices.shape[-1]
    a = np.ascontiguousarray(np.moveaxis(matrices, (-2, -1), (0, 1)))  # (m, m, ...)
    factor = np.zeros_like(a)
    inverse = np.zeros_like(a)
    for j in range(m):
        pivot = a[j, j] - np.sum(factor[j, :j] ** 2, axis=0)
        if not np.all(pivot > 0):
            raise np.linalg.LinAlgError("matrix is not positive definite")
        scale = 1.0 / np.sqrt(pivot)
        factor[j, j] = pivot * scale
        for i in range(j + 1, m):
            factor[i, j] = (a[i, j] - np.sum(factor[i, :j] * factor[j, :j], axis=0)) * scale
        inverse[j, j] = scale
        for k in range(j):
            inverse[j, k] = -scale * np.sum(factor[j, k:j] * inverse[k:j, k], axis=0)
    return np.ascontiguousarray(np.moveaxis(inverse, (0, 1), (-2, -1)))
