"""White residuals of readings whose errors are tied together over time: the innovations of a Kalman filter.

The model of the errors is linear: a state x that starts as zero, driven by white errors e of the measured inputs,

    x[k+1] = across[k] x[k] + before[k] e[k] + after[k] e[k+1],    residual[k] = seen[k] x[k] + direct[k] e[k] + v[k].

Applied to residuals and to their derivatives alike, the filter makes generalised least squares out of plain ones, with
a cost that grows with the number of samples and not with its cube (R. E. Kalman 1960; L. Ljung, System Identification,
1999, Sec. 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Matrices of the model above; ``input_variance`` of e and ``variance`` of v are diagonals."""

    across: Array  # (T - 1, s, s)
    before: Array  # (T - 1, s, m)
    after: Array  # (T - 1, s, m)
    seen: Array  # (T, r, s)
    direct: Array  # (T, r, m)
    input_variance: Array  # (m,)
    variance: Array  # (r,)

    def white(self, columns: Array, present: Array) -> Array:
        """Columns (T, r, c) of residuals and derivatives, made white with unit variance.

        ``present`` (T, r): readings that are missing give rows of zeros.
        """
        count = columns.shape[0]
        size, many = self.across.shape[1], self.before.shape[2]
        spread, state = np.zeros((size, size)), np.zeros((size, columns.shape[2]))
        entered = np.zeros((size, many))
        result = np.zeros_like(columns)
        e, v = self.input_variance, np.diag(self.variance)
        for k in range(count):
            here = present[k]
            seen, direct = self.seen[k], self.seen[k] @ entered + self.direct[k]
            if not here.all():
                seen, direct = np.where(here[:, None], seen, 0.0), np.where(here[:, None], direct, 0.0)
            noise = direct * e
            total = seen @ spread @ seen.T + noise @ direct.T + v
            gap = np.where(here[:, None], columns[k] - seen @ state, 0.0)
            lower = np.linalg.cholesky(total)
            result[k] = solve_triangular(lower, gap, lower=True, check_finite=False)
            if k + 1 < count:
                drive = self.across[k] @ entered + self.before[k]
                moved = self.across[k] @ spread
                cross = moved @ seen.T + drive @ noise.T
                half = solve_triangular(lower, cross.T, lower=True, check_finite=False)
                state = self.across[k] @ state + half.T @ result[k]
                spread = moved @ self.across[k].T + (drive * e) @ drive.T - half.T @ half
                spread = 0.5 * (spread + spread.T)
                entered = self.after[k]
        return result
