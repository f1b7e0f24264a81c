"""Ordinary linear least squares on the regressors: exact for exact data, biased by noise in rates and angles."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.task import Task
from spacearm.identify.inertia.unidentifiable import complement, gauge, hidden
from spacearm.optimise.problem import Estimate, Reason
from spacearm.typing import Array


@dataclass(frozen=True)
class LinearLeastSquares:
    """All experiments in one regression, every equation with the same weight.

    Deviations come from the residuals' own variance. They do not know that rates and angles, and with them the
    regressor, are noisy: use :class:`spacearm.identify.inertia.total.TotalLeastSquares` for data with noise.
    """

    rank_tolerance: float = 1e-10

    def solve(self, task: Task) -> Estimate:
        begin = time.perf_counter()
        base_parameters, rank = task.base_parameters, task.base_parameters.rank
        sizes = task.sizes
        scaling = gauge(task, task.guess)
        rest = hidden(task, scaling)
        shown = complement(np.concatenate([scaling, rest], axis=-1))
        blocks, right = [], []
        for i, record in enumerate(task.records):
            linear = task.equations.linear(record)
            matrix, known = (linear.matrix @ base_parameters.lift) * sizes, linear.known
            if i in task.unknown_momenta:  # a free constant in these rows: their means say nothing
                rows = linear.momentum_rows
                matrix[..., rows, :] -= matrix[..., rows, :].mean(axis=-3, keepdims=True)
                known = known.copy()
                known[..., rows] -= known[..., rows].mean(axis=-2, keepdims=True)
            blocks.append(matrix.reshape(-1, rank))
            right.append(known.ravel())
        stacked, known = np.concatenate(blocks), np.concatenate(right)
        # what the records do not show stays as the robot is given
        guess = task.guess / sizes
        change, spread, cost = _fit(stacked @ shown, known - stacked @ guess, self.rank_tolerance)
        values, covariance = guess + shown @ change, shown @ spread @ shown.T
        blind = values - shown @ (shown.T @ values)
        share = (1.0 - np.sum(shown**2, axis=1)) * (1.0 + blind @ blind)
        own = np.diag(covariance).copy()
        np.fill_diagonal(covariance, np.where(share > np.maximum(own, 1e-10), np.inf, own))
        residuals = np.sqrt(2.0 * cost / max(known.size, 1))
        return Estimate(
            base_parameters.names,
            base_parameters.units,
            values * sizes,
            covariance * np.outer(sizes, sizes),
            cost,
            1,
            1,
            Reason.CONVERGED,
            np.array([cost]),
            time.perf_counter() - begin,
            "linear least squares",
            {"residual_rms": float(residuals), "equations": int(known.size), "hidden": rest},
        )


def _fit(matrix: Array, right: Array, tolerance: float) -> tuple[Array, Array, float]:
    """Least squares by QR and SVD: values, covariance, half the square sum."""
    norms = np.linalg.norm(matrix, axis=0)
    norms[norms == 0] = 1.0
    q, r = np.linalg.qr(matrix / norms)
    u, s, v = np.linalg.svd(r)
    seen = s > tolerance * s.max(initial=0.0)
    solution = (v[seen].T / s[seen]) @ (u[:, seen].T @ (q.T @ right))
    residual = right - (matrix / norms) @ solution
    # one step of refinement: the first residual holds the rounding of the factorisation
    solution = solution + (v[seen].T / s[seen]) @ (u[:, seen].T @ (q.T @ residual))
    residual = right - (matrix / norms) @ solution
    variance = float(residual @ residual) / max(right.size - int(seen.sum()), 1)
    half = (v[seen].T / s[seen]) / norms[:, None]
    covariance = variance * (half @ half.T)
    return solution / norms, covariance, 0.5 * float(residual @ residual)
