"""White residuals of readings with errors that are correlated over time: the innovations of a Kalman filter.

The model of the errors is linear: a state x that starts as zero, driven by white errors e of the measured inputs,

    x[k+1] = across[k] x[k] + before[k] e[k] + after[k] e[k+1],    residual[k] = seen[k] x[k] + direct[k] e[k] + v[k].

An input is interpolated between samples, so its error at a sample enters the intervals on both sides of it and the
sample's own readings: process and measurement noise are correlated. The filter therefore carries the covariance of x
without the part of the latest e, and that part (``after`` e) by itself.

With C the covariance of all residuals and C = L L^T, the filter applies L^-1 to residuals and to their derivatives
alike. Ordinary least squares on the result is generalised least squares, at a cost that grows with the number of
samples T and not with its cube (R. E. Kalman 1960; L. Ljung, System Identification, 1999, Sec. 4.3). The gains depend
on the model and on which readings are present, not on their values: computed once, applied to any number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.loops import compile_loop
from spacearm.errors import InputError
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

    def whiten_columns(self, columns: Array, present: npt.NDArray[Any]) -> Array:
        """Columns (T, r, c) of residuals and derivatives, made white with unit variance.

        ``present`` (T, r): readings that are missing give rows of zeros.
        """
        return self.whitener(present).whiten_columns(columns)

    def estimate_inputs(self, residual: Array, present: npt.NDArray[Any]) -> Array:
        """The most likely errors e (T, m) of the inputs, by residuals (T, r) of all samples: the smoothed ones."""
        filtered = self.whitener(present)
        shown, direct = filtered.seen, np.where(present[:, :, None], self.direct, 0.0)
        white = filtered.whiten_columns(residual[:, :, None])[:, :, 0]
        found = np.zeros(self.direct.shape[::2])
        # Backwards in time: `weighted` is the residuals by the inverse of their covariance, through the adjoint of the
        # filter, whose state is `left`; `pulled` is the adjoint of the model's own state.
        left = pulled = np.zeros(self.seen.shape[2])
        for k in range(len(found) - 1, -1, -1):
            last = k + 1 == len(found)
            weighted = filtered.inverse[k].T @ (white[k] + (0.0 if last else filtered.gain[k].T @ left))
            if not last:
                found[k] += self.before[k].T @ pulled
                left, pulled = self.across[k].T @ left, self.across[k].T @ pulled
            left, pulled = left - shown[k].T @ weighted, pulled + shown[k].T @ weighted
            found[k] += direct[k].T @ weighted + (self.after[k - 1].T @ pulled if k else 0.0)
        if self.entered is not None:
            found[0] += self.entered.T @ pulled
        return found * np.broadcast_to(self.input_variance, found.shape)

    def truncate(self, last: int) -> ErrorModel:
        """The samples up to this one."""
        rows, steps = slice(0, last + 1), slice(0, last)
        variance = self.input_variance if self.input_variance.ndim == 1 else self.input_variance[rows]
        return replace(self, across=self.across[steps], before=self.before[steps], after=self.after[steps],
                       seen=self.seen[rows], direct=self.direct[rows], input_variance=variance)  # fmt: skip

    def whitener(self, present: npt.NDArray[Any]) -> Whitener:
        """The filter's gains, for readings of which these are ``present`` (T, r)."""
        count, size = self.seen.shape[0], self.seen.shape[2]
        spread = np.zeros((size, size)) if self.spread is None else _plain(self.spread).copy()
        entered = np.zeros(self.before.shape[1:]) if self.entered is None else self.entered
        # A missing reading becomes pure noise v without any tie to the state: it then teaches the filter nothing.
        shown = np.where(present[:, :, None], self.seen, 0.0)
        inverse, gain = np.zeros((count, *self.seen.shape[1:2] * 2)), np.zeros((count, size, self.seen.shape[1]))
        variances = np.broadcast_to(self.input_variance, (count, self.before.shape[2]))
        across, before, after, seen, direct, e, v, start = map(_plain, (
            self.across, self.before, self.after, shown, np.where(present[:, :, None], self.direct, 0.0), variances,
            self.variance, entered,
        ))  # fmt: skip
        if not _gains(across, before, after, seen, direct, e, v, start, spread, inverse, gain):
            raise InputError(
                "the covariance of the readings is not positive definite",
                place="noise",
                hint="a reading without any noise of its own, or a motion that grows beyond all bounds: state noise "
                "above zero, or shorten the record",
            )
        return Whitener(self.across, shown, inverse, gain, present, spread)


@dataclass(frozen=True, eq=False)
class Whitener:
    """A linear map between readings and white numbers w of unit variance: with a state x that starts as zero,

    reading[k] = seen[k] x[k] + inv(inverse[k]) w[k],    x[k+1] = across[k] x[k] + gain[k] w[k].

    ``spread``: covariance that the model's x has at the last sample, its own input errors aside, after all before it.
    """

    across: Array  # (T - 1, s, s)
    seen: Array  # (T, r, s)
    inverse: Array  # (T, r, r)
    gain: Array  # (T, s, r)
    present: npt.NDArray[Any]  # (T, r)
    spread: Array  # (s, s)

    def whiten_columns(self, columns: Array) -> Array:
        """Columns (T, r, c) made white; rows of missing readings are zeros."""
        return self.whiten_with_state(columns)[0]

    def whiten_with_state(self, columns: Array) -> tuple[Array, Array]:
        """The same, and the state (s, c) that the samples before the last one leave there."""
        columns = np.where(self.present[:, :, None], columns, 0.0)
        result = np.zeros_like(columns)
        across, seen, inverse, gain = map(_plain, (self.across, self.seen, self.inverse, self.gain))
        return result, _innovations(across, seen, inverse, gain, _plain(columns), result)

    def colour_rows(self, rows: Array) -> Array:
        """The transpose of the map from white numbers to readings, on rows (T, r, c)."""
        rows = np.where(self.present[:, :, None], rows, 0.0)
        root, result = np.swapaxes(np.linalg.inv(self.inverse), 1, 2), np.zeros_like(rows)
        state = np.zeros((self.seen.shape[2], rows.shape[2]))
        # Backwards in time: the transpose of a causal recursion is anti-causal.
        for k in range(len(rows) - 1, -1, -1):
            result[k] = root[k] @ rows[k] + self.gain[k].T @ state
            carried = self.across[k].T @ state if k + 1 < len(rows) else state
            state = self.seen[k].T @ rows[k] + carried
        return result

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the readings' covariance."""
        # Of triangular factors the determinant is the product of the diagonals; in logarithms it neither overflows nor
        # vanishes.
        return -2.0 * float(np.sum(np.log(np.diagonal(self.inverse, axis1=1, axis2=2))))


def _plain(values: Array) -> Array:
    """As one block of memory: the loops are compiled once, for no other kind of array."""
    return np.require(values, np.float64, ["C", "W"])


@compile_loop
def _add(a: Array, b: Array, out: Array) -> None:
    """out += a b"""
    # Plain loops: matrices of about ten rows, for which a call of BLAS costs more than the product.
    for i in range(a.shape[0]):
        for m in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, m] * b[m, j]


@compile_loop
def _add_product_transpose(a: Array, b: Array, sign: float, out: Array) -> None:
    """out += sign a b^T"""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            total = 0.0
            for m in range(a.shape[1]):
                total += a[i, m] * b[j, m]
            out[i, j] += sign * total


@compile_loop
def _inverse_root(matrix: Array, lower: Array, inverse: Array) -> bool:
    """The inverse of Cholesky's lower triangle; whether there is one."""
    size = matrix.shape[0]
    for j in range(size):
        for i in range(j, size):
            total = matrix[i, j]
            for m in range(j):
                total -= lower[i, m] * lower[j, m]
            if i > j:
                lower[i, j] = total / lower[j, j]
            elif total > 0.0:
                lower[j, j] = np.sqrt(total)
            else:
                return False
    for j in range(size):
        for i in range(j, size):
            total = 1.0 if i == j else 0.0
            for m in range(j, i):
                total -= lower[i, m] * inverse[m, j]
            inverse[i, j] = total / lower[i, i]
    return True


@compile_loop
def _gains(
    across: Array, before: Array, after: Array, seen: Array, direct: Array, variances: Array, variance: Array,
    entered: Array, spread: Array, inverse: Array, gain: Array,
) -> bool:  # fmt: skip
    """Fill ``inverse``, ``gain``, ``spread`` of a :class:`Whitener`; whether all covariances are positive definite."""
    count, rows, size = seen.shape
    lower = np.zeros((rows, rows))
    for k in range(count):
        # All that e[k] does to the readings: directly, and through its share `entered` of the state.
        shown = direct[k].copy()
        _add(seen[k], entered, shown)
        # Covariance of the innovation: seen P seen^T + shown E shown^T + V.
        noise, half, total = shown * variances[k], np.zeros((rows, size)), np.diag(variance)
        _add(seen[k], spread, half)
        _add_product_transpose(half, seen[k], 1.0, total)
        _add_product_transpose(noise, shown, 1.0, total)
        if not _inverse_root(total, lower, inverse[k]):
            return False
        if k + 1 < count:
            # e[k] also drives the next interval: a cross-covariance between state and reading besides seen P.
            drive, moved, next_ = before[k].copy(), np.zeros((size, size)), np.zeros((size, size))
            _add(across[k], entered, drive)
            _add(across[k], spread, moved)
            tied = np.zeros((size, rows))
            _add_product_transpose(moved, seen[k], 1.0, tied)
            _add_product_transpose(drive, noise, 1.0, tied)
            # The gain acts on white innovations, so P loses gain gain^T: no inverse of the innovation's covariance.
            _add_product_transpose(tied, inverse[k], 1.0, gain[k])
            _add_product_transpose(moved, across[k], 1.0, next_)
            _add_product_transpose(drive * variances[k], drive, 1.0, next_)
            _add_product_transpose(gain[k], gain[k], -1.0, next_)
            # Made symmetric: rounding would otherwise grow along long records.
            spread[:], entered = 0.5 * (next_ + next_.T), after[k]
    return True


@compile_loop
def _innovations(across: Array, seen: Array, inverse: Array, gain: Array, columns: Array, result: Array) -> Array:
    """Fill ``result`` with the columns made white; the state at the last sample."""
    state = np.zeros((seen.shape[2], columns.shape[2]))
    for k in range(columns.shape[0]):
        shown = np.zeros(columns.shape[1:])
        _add(seen[k], state, shown)
        _add(inverse[k], columns[k] - shown, result[k])
        if k + 1 < columns.shape[0]:
            later = np.zeros_like(state)
            _add(across[k], state, later)
            _add(gain[k], result[k], later)
            state = later
    return state
