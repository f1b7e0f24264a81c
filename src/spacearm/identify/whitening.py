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
    """Matrices of the model above; the variances of e and v are diagonals, that of e may change with time.

    ``entered`` and ``spread``: how e[0] enters x[0], and the covariance of x[0] besides; nothing when not given.
    """

    across: Array  # (T - 1, s, s)
    before: Array  # (T - 1, s, m)
    after: Array  # (T - 1, s, m)
    seen: Array  # (T, r, s)
    direct: Array  # (T, r, m)
    input_variance: Array  # (m,) or (T, m)
    variance: Array  # (r,)
    entered: Array | None = None  # (s, m)
    spread: Array | None = None  # (s, s)

    def white(self, columns: Array, present: Array) -> Array:
        """Columns (T, r, c) of residuals and derivatives, made white with unit variance.

        ``present`` (T, r): readings that are missing give rows of zeros.
        """
        return self.whitener(present).white(columns)

    def whitener(self, present: Array) -> Whitener:
        """The filter's gains, for readings of which these are ``present`` (T, r)."""
        count, size = self.seen.shape[0], self.seen.shape[2]
        variances = np.broadcast_to(self.input_variance, (count, self.before.shape[2]))
        spread = np.zeros((size, size)) if self.spread is None else self.spread
        entered = np.zeros(self.before.shape[1:]) if self.entered is None else self.entered
        shown = np.where(present[:, :, None], self.seen, 0.0)
        inverse = np.zeros((count, *self.seen.shape[1:2] * 2))
        gain = np.zeros((count, size, self.seen.shape[1]))
        v, one = np.diag(self.variance), np.eye(self.variance.size)
        for k in range(count):
            direct, e, seen = shown[k] @ entered + self.direct[k] * present[k, :, None], variances[k], shown[k]
            noise = direct * e
            lower = np.linalg.cholesky(seen @ spread @ seen.T + noise @ direct.T + v)
            inverse[k] = solve_triangular(lower, one, lower=True, check_finite=False)
            if k + 1 < count:
                drive, moved = self.across[k] @ entered + self.before[k], self.across[k] @ spread
                gain[k] = (moved @ seen.T + drive @ noise.T) @ inverse[k].T
                spread = moved @ self.across[k].T + (drive * e) @ drive.T - gain[k] @ gain[k].T
                spread = 0.5 * (spread + spread.T)
                entered = self.after[k]
        return Whitener(self.across, shown, inverse, gain, present)


@dataclass(frozen=True, eq=False)
class Whitener:
    """A linear map between readings and white numbers w of unit variance: with a state x that starts as zero,

    reading[k] = seen[k] x[k] + inv(inverse[k]) w[k],    x[k+1] = across[k] x[k] + gain[k] w[k].
    """

    across: Array  # (T - 1, s, s)
    seen: Array  # (T, r, s)
    inverse: Array  # (T, r, r)
    gain: Array  # (T, s, r)
    present: Array  # (T, r)

    def white(self, columns: Array) -> Array:
        """Columns (T, r, c) made white; rows of missing readings are zeros."""
        columns = np.where(self.present[:, :, None], columns, 0.0)
        state, result = np.zeros((self.seen.shape[2], columns.shape[2])), np.zeros_like(columns)
        for k, here in enumerate(columns):
            result[k] = self.inverse[k] @ (here - self.seen[k] @ state)
            if k + 1 < len(columns):
                state = self.across[k] @ state + self.gain[k] @ result[k]
        return result

    def coloured(self, rows: Array) -> Array:
        """The transpose of the map from white numbers to readings, on rows (T, r, c)."""
        rows = np.where(self.present[:, :, None], rows, 0.0)
        root, result = np.swapaxes(np.linalg.inv(self.inverse), 1, 2), np.zeros_like(rows)
        state = np.zeros((self.seen.shape[2], rows.shape[2]))
        for k in range(len(rows) - 1, -1, -1):
            result[k] = root[k] @ rows[k] + self.gain[k].T @ state
            carried = self.across[k].T @ state if k + 1 < len(rows) else state
            state = self.seen[k].T @ rows[k] + carried
        return result

    @property
    def log_determinant(self) -> float:
        """Of the readings' covariance."""
        return -2.0 * float(np.sum(np.log(np.diagonal(self.inverse, axis1=1, axis2=2))))
