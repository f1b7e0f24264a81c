"""How uncertain a record's equations are under the noise of its readings: the weights of every estimator."""

from __future__ import annotations

import numpy as np

from spacearm.identify.inertia.equations import Equations
from spacearm.identify.inertia.readings import Record
from spacearm.typing import Array


def inverse_factor(matrices: Array) -> Array:
    """Inverse of the lower Cholesky factor of symmetric positive matrices (..., m, m): it whitens.

    Column by column, vectorised over the matrices: a library call for each 6 x 6 matrix costs more than its arithmetic.
    """
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


def _regular(covariance: Array) -> Array:
    """A row that no reading error enters (a locked joint without noise) must not divide by zero."""
    m = range(covariance.shape[-1])
    covariance[..., m, m] *= 1.0 + 1e-12
    covariance[..., m, m] += 1e-30
    return covariance


def own_whitener(spread: Array) -> Array:
    """What whitens each sample's own equations (..., T, m, m), for their slopes times deviations (..., T, m, ny)."""
    return inverse_factor(_regular(spread @ np.swapaxes(spread, -1, -2)))


class Weights:
    """The covariance of a record's equations under reading errors: whitens columns, and gives the errors back.

    Errors of one sample enter only its own equations, unless a known wrench is carried into the world by the readings:
    its impulse sums earlier errors, and all samples of such a record hang together.
    """

    def __init__(self, equations: Equations, adjusted: Record, slopes: Array, sigma: Array) -> None:
        self.slopes, self.sigma = slopes, sigma
        self.batch, self.count, self.rows = slopes.shape[:-3], slopes.shape[-3], slopes.shape[-2]
        self.by_reading: Array | None = None
        if "momentum" in equations.kinds and np.any(adjusted.wrench):
            self.by_reading, parts = equations.impulse_slopes(adjusted)
            self.span = np.concatenate([index for index, _ in parts])
            self.weights = np.concatenate([weight for _, weight in parts], axis=1)
            # repetitions differ by noise only, and so do their covariances: one serves all
            first = (0,) * len(self.batch)
            dense = self._dense(slopes[first] * sigma, self.by_reading[first] * sigma)
            self.factor: Array = np.linalg.cholesky(_regular(dense)).astype(np.float64)
            return
        self.factor = own_whitener(slopes * sigma)

    def _dense(self, spread: Array, impulse: Array) -> Array:
        """Covariance (T m, T m) of one repetition: own errors, impulse errors, and what they share."""
        count, rows, weights = self.count, self.rows, self.weights
        full = np.zeros((count, rows, count, rows))
        own = np.arange(count)
        full[own, :, own, :] = spread @ np.swapaxes(spread, -1, -2)
        crossed = spread[self.span] @ np.swapaxes(impulse, -1, -2)  # (s, m, 6)
        for s, k in enumerate(self.span):
            block = np.einsum("t,mj->mtj", weights[:, s], crossed[s])  # (m, T, 6)
            full[k, :, :, :6] -= block
            full[:, :6, k, :] -= block.transpose(1, 2, 0)
        # a sample at a switch serves two stretches: the same errors
        same = self.span[:, None] == self.span
        pair = np.einsum("smy,rky->smrk", impulse, impulse) * same[:, None, :, None]
        full[:, :6, :, :6] += np.einsum("ts,smrk,ur->tmuk", weights, pair, weights, optimize=True)
        return full.reshape(count * rows, count * rows)

    def whiten(self, columns: Array) -> Array:
        """(..., T, m, c) to (..., T m, c)."""
        flat = (*self.batch, self.count * self.rows, columns.shape[-1])
        if self.by_reading is None:
            return (self.factor @ columns).reshape(flat)
        return _lower_solve(self.factor, columns.reshape(flat))

    def errors(self, white: Array) -> Array:
        """Most likely reading errors (..., T, ny), times minus one, for whitened misclosures (..., T m)."""
        if self.by_reading is None:
            parts = white.reshape(*self.batch, self.count, self.rows)
            pulled = np.einsum("...km,...k->...m", self.factor, parts)
            return np.asarray(self.sigma**2 * np.einsum("...my,...m->...y", self.slopes, pulled))
        flat = _lower_solve(self.factor, white[..., None], turned=True)[..., 0]
        pulled = flat.reshape(*self.batch, self.count, self.rows)
        result = np.einsum("...my,...m->...y", self.slopes, pulled)
        summed = np.einsum("ts,...tm->...sm", self.weights, pulled[..., :6])
        back = np.einsum("...smy,...sm->...sy", self.by_reading, summed)
        for s, k in enumerate(self.span):
            result[..., k, :] -= back[..., s, :]
        return np.asarray(self.sigma**2 * result)

    def applied(self, errors: Array) -> Array:
        """What reading errors (..., T, ny) do to the equations, (..., T, m)."""
        result = np.einsum("...my,...y->...m", self.slopes, errors)
        if self.by_reading is not None:
            impulse = np.einsum("...smy,...sy->...sm", self.by_reading, errors[..., self.span, :])
            result[..., :6] -= np.einsum("ts,...sm->...tm", self.weights, impulse)
        return np.asarray(result)


def _lower_solve(factor: Array, right: Array, turned: bool = False) -> Array:
    """``factor`` (or its transpose) solved for (..., rows, columns), all columns in one call."""
    from scipy.linalg import solve_triangular

    rows, columns = right.shape[-2:]
    side = np.moveaxis(right, -2, 0).reshape(rows, -1)
    solved = solve_triangular(factor, side, lower=True, trans=1 if turned else 0, check_finite=False)
    return np.moveaxis(np.asarray(solved).reshape(rows, *right.shape[:-2], columns), 0, -2)
