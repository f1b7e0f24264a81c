"""Ordinary linear least squares on the regressors: exact for exact data, biased by noise in rates and angles."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.identifiability import gauge, not_identifiable
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.information import complement
from spacearm.typing import Array


@dataclass(frozen=True)
class LinearLeastSquares:
    """All experiments in one regression, every equation with the same weight.

    Deviations come from the residuals' own variance. They do not know that rates and angles, and with them the
    regressor, are noisy: use :class:`.TotalLeastSquares` for data with noise. ``extra["not_identifiable"]``
    of the estimate holds
    the directions that the records do not show.
    """

    rank_tolerance: float = 1e-10

    def solve(self, problem: InertiaProblem) -> Estimate:
        begin = time.perf_counter()
        sizes = problem.base_sizes
        scale = gauge(problem, problem.base_guess)
        rest = not_identifiable(problem, scale)
        shown = complement(np.concatenate([scale, rest], axis=-1))
        blocks, right = [], []
        for i, record in enumerate(problem.records):
            linear = problem.equations.linear(record)
            matrix, known = (linear.matrix @ problem.base_parameters.lift) * sizes, linear.known
            if i in problem.unknown_momenta:  # a free constant in these rows: their means say nothing
                rows = linear.momentum_rows
                matrix[..., rows, :] -= matrix[..., rows, :].mean(axis=-3, keepdims=True)
                known = known.copy()
                known[..., rows] -= known[..., rows].mean(axis=-2, keepdims=True)
            blocks.append(matrix.reshape(-1, sizes.size))
            right.append(known.ravel())
        stacked, known = np.concatenate(blocks), np.concatenate(right)
        # what the records do not show stays as the robot is given
        guess = problem.base_guess / sizes
        change, spread, left = _fit(stacked @ shown, known - stacked @ guess, self.rank_tolerance)
        values, covariance = guess + shown @ change, shown @ spread @ shown.T
        still = values - shown @ (shown.T @ values)
        share = (1.0 - np.sum(shown**2, axis=1)) * (1.0 + still @ still)
        own = np.diag(covariance).copy()
        np.fill_diagonal(covariance, np.where(share > np.maximum(own, 1e-10), np.inf, own))
        ends = np.cumsum([part.size for part in right])[:-1]
        return Estimate(
            problem.base_unknowns,
            values * sizes,
            covariance * np.outer(sizes, sizes),
            0.5 * float(left @ left),
            "linear least squares",
            seconds=time.perf_counter() - begin,
            residuals=problem.named(np.split(left, ends)),
            noise_known=False,
            extra={"not_identifiable": rest},
        )


def _fit(matrix: Array, right: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Least squares by QR and SVD: values, covariance, residuals."""
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
    return solution / norms, variance * (half @ half.T), residual
