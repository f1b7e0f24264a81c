"""Consider parameters: fixed numbers of a model that are not known exactly, and what that does to an estimate.

A number c that is held at its nominal value, known to a standard deviation s, moves the residuals by J_c c. To the fit
that is noise that all residuals share: their covariance is I + C C^T, with one column J_c s of C for each number. Least
squares on residuals whitened by it are the same as a further unknown with a prior: what the data determine is
estimated, what they do not widens every interval. Where the data say nothing about c this is the consider covariance
P + S S^T, S = P J^T C (S. F. Schmidt 1966; B. D. Tapley, B. E. Schutz, G. H. Born, Statistical Orbit Determination,
2004, chapter 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spacearm.typing import Array


@dataclass(frozen=True, slots=True)
class FixedNumber:
    """A number that is not estimated, and its standard deviation."""

    name: str
    deviation: float
    unit: str = ""


@dataclass(frozen=True, eq=False)
class ConsiderParameters:
    """Fixed numbers (k) and what one standard deviation of each does to the residuals.

    Args:
        columns: changes (m, k) of all residuals, which are in standard deviations of their own noise.
    """

    numbers: Sequence[FixedNumber]
    columns: Array

    @classmethod
    def from_derivatives(cls, numbers: Sequence[FixedNumber], derivatives: Array) -> ConsiderParameters | None:
        """Consider parameters from derivatives (m, k) of the residuals by them; None where none moves a residual."""
        columns = derivatives * [number.deviation for number in numbers]
        kept = np.flatnonzero(np.any(columns, axis=0)).tolist()
        if not kept or not np.all(np.isfinite(columns)):
            return None
        return cls([numbers[k] for k in kept], columns[:, kept])

    @cached_property
    def _directions(self) -> tuple[Array, Array]:
        """Orthonormal directions (m, k) of the columns, and by which share residuals shrink along each."""
        # I + C C^T has eigenvalues 1 + s^2 along the columns' directions and one elsewhere, so that its inverse root is
        # a shrinking by 1 - (1 + s^2)^(-1/2) along few directions: no matrix of all residuals is made. expm1 and log1p
        # keep it for small s.
        q, r = np.linalg.qr(self.columns)
        left, values, _ = np.linalg.svd(r)
        return q @ left[:, : values.size], -np.expm1(-0.5 * np.log1p(values**2))

    def whiten(self, rows: Array) -> Array:
        """Residuals (m,) or derivatives (m, p) with the errors of the fixed numbers made part of unit noise."""
        directions, shrink = self._directions
        along = directions.T @ rows
        return np.asarray(rows - directions @ (shrink.reshape(-1, *[1] * (rows.ndim - 1)) * along))

    def effects(self, covariance: Array, jacobian: Array) -> Array:
        """Change (p, k) of the estimate by one standard deviation of each number.

        Args:
            covariance: of the estimate (p, p).
            jacobian: derivatives (m, p) of the residuals, whitened.
        """
        # Minus: an estimate moves so as to undo what the number does to the residuals.
        return np.asarray(-covariance @ (jacobian.T @ self.whiten(self.columns)))


def add_consider_covariance(information: Array, effects: Array) -> Array:
    """Information (..., p, p) of an estimate that fixed numbers move besides: its covariance is P + S S^T.

    Args:
        information: of the estimate (..., p, p) with the fixed numbers exact; directions without any stay without.
        effects: S (..., p, k), what one standard deviation of each number does to the estimate.
    """
    if not effects.shape[-1]:
        return information
    # Woodbury: (P + S S^T)^-1 from P^-1. Information and not covariance, since undetermined directions have no
    # covariance.
    side = information @ effects
    inner = np.eye(effects.shape[-1]) + np.swapaxes(effects, -1, -2) @ side
    return np.asarray(information - side @ np.linalg.solve(inner, np.swapaxes(side, -1, -2)))
