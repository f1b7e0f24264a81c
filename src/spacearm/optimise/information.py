"""How well data determine parameters: the information matrix, its covariance, and directions that stay undetermined.

Twice the cost rises along a direction by the eigenvalue of the information matrix J^T J (J: weighted residuals by
parameters, residuals in standard deviations). Its inverse is the covariance of the estimate to first order
(Gauss-Newton). Everything is computed in typical sizes of the parameters, so that eigenvalues can be compared; an
eigenvalue at the level of rounding means that the data say nothing along that direction. Such directions get infinite
variance for the parameters that take part in them and are named, in place of a huge and meaningless number.

Shapes: values (..., p), matrices (..., p, p), leading axes being repetitions; units of a covariance are the products of
the parameters' own. Curvature of the model beyond first order is not in it: see :mod:`spacearm.optimise.posterior`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spacearm.optimise.problem import Problem
from spacearm.typing import Array

#: Eigenvalues of a scaled information matrix below this share of the largest are rounding.
ROUNDING = 1e-13
#: The same for squared singular values of a scaled Jacobian.
ROUNDING_OF_JACOBIAN = 1e-20


@dataclass(frozen=True, slots=True)
class Direction:
    """A combination of parameters and how well the data determine it, in typical sizes."""

    deviation: float
    words: str


@dataclass(frozen=True, eq=False)
class Information:
    """Twice the cost rises by ``sum(rises * (vectors.T @ change)**2)`` for a change from ``values`` in typical sizes.

    Args:
        values: (..., p); leading axes are repetitions.
        sizes: (p,) typical sizes.
        rises: (..., p), from small to large: eigenvalues of the information in typical sizes.
        vectors: (..., p, p), the directions in columns.
        rounding: share of the largest rise below which a direction is not identifiable.
    """

    values: Array
    sizes: Array
    rises: Array
    vectors: Array
    rounding: float = ROUNDING

    @classmethod
    def from_matrix(cls, values: Array, matrix: Array, sizes: Array) -> Information:
        """Information from the matrix (..., p, p) of the misfit's second derivatives."""
        scaled = matrix * sizes[:, None] * sizes
        if not np.all(np.isfinite(scaled)):  # a search that has left all bounds tells nothing
            scaled = np.zeros_like(scaled)
        return cls(values, sizes, *np.linalg.eigh(0.5 * (scaled + np.swapaxes(scaled, -1, -2))))

    @classmethod
    def from_problem(cls, problem: Problem, x: Array) -> Information:
        """Information from a problem's residuals at ``x``; with unknown noise their own variance stands for it."""
        jacobian = problem.residual_jacobian(x) * problem.sizes
        if not np.all(np.isfinite(jacobian)):
            jacobian = np.zeros_like(jacobian)
        # Singular values of J, not eigenvalues of J^T J: squaring would lose half of the digits, and with them weak
        # directions.
        # Of the triangular factor: a record's residuals are many, and their own space is not wanted.
        _, singular, rows = np.linalg.svd(np.linalg.qr(jacobian, mode="r"), full_matrices=True)
        rises = np.zeros(x.size)
        rises[: singular.size] = singular**2
        # The residuals' own variance per degree of freedom stands for the unknown noise.
        if not problem.noise_known:
            r = problem.residual_vector(x)
            rises = rises * max(r.size - x.size, 1) / max(float(r @ r), 1e-300)
        return cls(x, problem.sizes, rises[::-1], rows[::-1].T, ROUNDING_OF_JACOBIAN)

    @property
    def identifiable(self) -> Array:
        """Which directions (..., p) the data determine at all."""
        return np.asarray((self.rises > self.rounding * self.rises[..., -1:]) & (self.rises > 0))

    @property
    def rank(self) -> int:
        """Number of identifiable combinations (the least of all repetitions)."""
        return int(np.sum(self.identifiable, axis=-1).min())

    @property
    def condition(self) -> float:
        """Ratio of the worst to the best determined combination's deviation, in typical sizes; infinite of none."""
        kept = self.rises[self.identifiable]
        return float(np.sqrt(kept[-1] / kept[0])) if kept.size else float("inf")

    @property
    def root(self) -> Array:
        """Rows (rank, p), one for each identifiable combination, whose product with a change is its misfit."""
        seen = self.identifiable
        return np.asarray(np.sqrt(self.rises[seen])[:, None] * self.vectors[:, seen].T / self.sizes)

    @property
    def covariance(self) -> Array:
        """Covariance (..., p, p); infinite for parameters with a share in a direction that is not identifiable.

        A share counts when such a direction, taken as unknown by a typical size and by all that the values have along
        it, matters more than the data's own deviation.
        """
        seen = self.identifiable
        inverse = np.where(seen, 1.0 / np.where(seen, self.rises, 1.0), 0.0)
        full = np.einsum("...ik,...k,...jk->...ij", self.vectors, inverse, self.vectors)
        diagonal = np.einsum("...ii->...i", full)
        # How much of each parameter lies in directions that the data do not see;
        share = np.sum(np.where(seen[..., None, :], 0.0, self.vectors**2), axis=-1)
        along = np.where(seen, 0.0, np.einsum("...ik,...i->...k", self.vectors, self.values / self.sizes))
        # these are unknown by a typical size, and by as much as the values themselves have along them.
        share = share * (1.0 + np.sum(along**2, axis=-1, keepdims=True))
        diagonal[...] = np.where(share > np.maximum(diagonal, 1e-10), np.inf, diagonal + share)
        return np.asarray(full * self.sizes[:, None] * self.sizes)

    @property
    def std(self) -> Array:
        """Standard deviations (..., p)."""
        return np.asarray(np.sqrt(np.einsum("...ii->...i", self.covariance)))

    def with_values(self, values: Array) -> Information:
        """The same about other values."""
        return replace(self, values=values)

    def widen(self, factors: Array) -> Information:
        """The same with standard deviations times ``factors`` (p,); correlations stay."""
        matrix = np.einsum("...ik,...k,...jk->...ij", self.vectors, self.rises, self.vectors)
        scale = self.sizes * factors
        return Information.from_matrix(self.values, matrix / scale[:, None] / scale, self.sizes)

    def weakest(self, names: Sequence[str], count: int = 5) -> tuple[Direction, ...]:
        """The least determined combinations; a deviation of 1 is as large as the numbers themselves."""
        deviations = np.where(self.identifiable, 1.0 / np.sqrt(np.where(self.identifiable, self.rises, 1.0)), np.inf)[
            :count
        ]
        pairs = zip(deviations, self.vectors.T, strict=False)
        return tuple(Direction(float(deviation), combination(row, names)) for deviation, row in pairs)


def combination(row: Array, names: Sequence[str]) -> str:
    """A direction in typical sizes as text: its five strongest terms."""
    order = np.argsort(-np.abs(row))
    strong = [k for k in order[:5] if abs(row[k]) > 0.1 * abs(row[order[0]])]
    return " ".join(f"{row[k]:+.2f} {names[k]}" for k in strong) + " (in typical sizes)"


def covariance_at(problem: Problem, x: Array) -> Array:
    """Covariance (p, p) of the estimate at ``x`` from the residuals' Jacobian."""
    return Information.from_problem(problem, x).covariance


def solve_with_scaling(matrix: Array, right: Array) -> Array:
    """``matrix @ x = right`` for symmetric (..., p, p), with nothing along directions that the matrix does not see.

    NaN where matrix or right side are not finite.
    """
    if not (np.all(np.isfinite(matrix)) and np.all(np.isfinite(right))):
        return np.full_like(right, np.nan)
    # Unknowns of very different size: balance by the diagonal before judging how singular the matrix is.
    own = 1.0 / np.sqrt(np.maximum(np.einsum("...ii->...i", matrix), 1e-300))
    balanced = matrix * own[..., :, None] * own[..., None, :]
    try:
        factor = np.linalg.cholesky(balanced)
    except np.linalg.LinAlgError:
        factor = None
    if factor is not None and np.einsum("...ii->...i", factor).min(initial=1.0) > 1e-6:  # far from singular
        first = np.linalg.solve(factor, (right * own)[..., None])
        return np.asarray(np.linalg.solve(np.swapaxes(factor, -1, -2), first)[..., 0] * own)
    # Near singular: by eigenvalues, leaving out directions at the level of rounding.
    values, vectors = np.linalg.eigh(0.5 * (matrix + np.swapaxes(matrix, -1, -2)))
    seen = values > ROUNDING * values[..., -1:]
    inverse = np.where(seen, 1.0 / np.where(seen, values, 1.0), 0.0)
    scaled_right = np.einsum("...ik,...i->...k", vectors, right) * inverse
    return np.asarray(np.einsum("...ik,...k->...i", vectors, scaled_right))


def _solve(matrix: Array, right: Array) -> Array:
    """``matrix @ x = right`` for symmetric (..., p, p) and columns (..., p, c); the shortest x of a singular matrix."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        if not np.all(np.isfinite(matrix)):
            return np.full_like(right, np.nan)
        return np.asarray(np.linalg.pinv(matrix, rcond=ROUNDING, hermitian=True) @ right)


def eliminate(matrix: Array, keep: int) -> Array:
    """Information of the first ``keep`` unknowns when the others are free: the Schur complement."""
    if matrix.shape[-1] == keep:
        return matrix
    head, cross, tail = matrix[..., :keep, :keep], matrix[..., :keep, keep:], matrix[..., keep:, keep:]
    # Balanced by its diagonal, so that unknowns of other units do not spoil the solution.
    size = 1.0 / np.sqrt(np.maximum(np.einsum("...ii->...i", tail), 1e-300))
    balanced = tail * size[..., :, None] * size[..., None, :]
    solved = _solve(balanced, np.swapaxes(cross, -1, -2) * size[..., :, None])
    return np.asarray(head - cross @ (size[..., :, None] * solved))


def complement(directions: Array) -> Array:
    """Orthonormal complement (..., r, r - k) of orthonormal directions (..., r, k)."""
    rank, count = directions.shape[-2:]
    if not count:
        return np.broadcast_to(np.eye(rank), (*directions.shape[:-1], rank))
    q, _ = np.linalg.qr(directions, mode="complete")
    return np.asarray(q[..., count:])


def remove_directions(information: Array, directions: Array, sizes: Array) -> Array:
    """Information (..., r, r) that knows nothing along directions (..., r, k), given in typical sizes.

    What the data do determine must not depend on what these directions were held at: each takes along those changes of
    the others that keep the fit.
    """
    scaled = information * sizes[:, None] * sizes
    basis, _ = np.linalg.qr(directions)
    shown = complement(basis)
    if not shown.shape[-1]:
        return np.zeros_like(scaled)
    transposed = np.swapaxes(shown, -1, -2)
    # Each direction together with the change of all others that keeps the fit best: along these the data know least,
    flat = basis - shown @ _solve(transposed @ scaled @ shown, transposed @ scaled @ basis)
    # and the projection that removes them leaves the information about everything else as it is.
    keep = np.eye(sizes.size) - flat @ np.swapaxes(basis, -1, -2)
    return np.asarray(np.swapaxes(keep, -1, -2) @ scaled @ keep / sizes[:, None] / sizes)
