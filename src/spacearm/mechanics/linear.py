"""Small symmetric linear systems, factorised in symbols.

An L D L^T factorisation without pivoting, written out as straight-line code: for positive definite matrices of up to
some ten rows. No square roots, one division per row, and zeros of the matrix vanish as the expressions are built. There
is not a check of definiteness: a singular matrix gives numbers that are not finite, which the loops report.

For matrices that may be singular, such as those of redundant constraints, a row whose pivot does not exceed a given
number counts as dependent on the rows before it: its unknown is zero. That solves consistent systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import casadi as ca

from spacearm.mechanics.spatial import SX


class Factorisation(NamedTuple):
    """L (its rows below the diagonal) and the reciprocals of D, zero for dependent rows."""

    lower: list[list[SX]]
    inverse: list[SX]

    def forward(self, right: Sequence[SX]) -> list[SX]:
        """y with L y = right; its entries may be numbers or vectors."""
        y: list[SX] = []
        for i, value in enumerate(right):
            # L has ones on its diagonal: no division here.
            y.append(value - sum((self.lower[i][k] * y[k] for k in range(i)), ca.SX(0)))
        return y

    def backward(self, y: Sequence[SX]) -> list[SX]:
        """The solution x of D L^T x = y."""
        size = len(y)
        x: list[SX] = [None] * size
        for i in reversed(range(size)):
            # Of a dependent row both the reciprocal and L's column are zero, so that its unknown comes out as zero.
            x[i] = y[i] * self.inverse[i] - sum((self.lower[k][i] * x[k] for k in range(i + 1, size)), ca.SX(0))
        return x


def factorise(matrix: SX, least: Sequence[SX] | None = None) -> Factorisation:
    """L D L^T of a symmetric matrix; with ``least``, rows whose pivots do not exceed these are dependent."""
    size = matrix.shape[0]
    # ``product[i][j] = L[i][j] D[j]``, so that each pivot is divided by once.
    lower: list[list[SX]] = [[None] * size for _ in range(size)]
    product: list[list[SX]] = [[None] * size for _ in range(size)]
    inverse: list[SX] = []
    for j in range(size):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= lower[j][k] * product[j][k]
        if least is None:
            inverse.append(1 / pivot)
        else:
            # A factor and not if_else, which CasADi would pull out of every product.
            # own / (pivot + 0) or 0 / (0 + 1): the quotient is finite in both cases, whatever the pivot is.
            own, none = pivot > least[j], pivot <= least[j]
            inverse.append(own / (own * pivot + none))
        for i in range(j + 1, size):
            entry = matrix[i, j]
            for k in range(j):
                entry -= lower[i][k] * product[j][k]
            product[i][j] = entry
            lower[i][j] = entry * inverse[j]
    return Factorisation(lower, inverse)


def solve_symmetric(matrix: SX, right: SX) -> SX:
    """Solution of ``matrix @ x = right`` for a positive definite matrix and any number of right sides, by L D L^T."""
    size, columns = matrix.shape[0], right.shape[1]
    # One factorisation serves all right sides.
    factor = factorise(matrix)
    result = ca.SX(size, columns)
    for column in range(columns):
        y = factor.forward([right[i, column] for i in range(size)])
        result[:, column] = ca.vertcat(*factor.backward(y))
    return ca.densify(result)
