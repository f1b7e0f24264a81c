"""Small symmetric linear systems, factorised in symbols.

An L D L^T factorisation without pivoting, written out as straight-line code: for positive definite matrices of up to
some ten rows. No square roots, one division per row, and zeros of the matrix vanish as the expressions are built. There
is no check of definiteness: a singular matrix gives numbers that are not finite, which the loops report.
"""

from __future__ import annotations

import casadi as ca

from spacearm.mechanics.spatial import SX


def solve_symmetric(matrix: SX, right: SX) -> SX:
    """Solution of ``matrix @ x = right`` for a positive definite matrix and any number of right sides, by L D L^T."""
    size, columns = matrix.shape[0], right.shape[1]
    # ``product[i][j] = L[i][j] D[j]``, so that each pivot is divided by once.
    lower: list[list[SX]] = [[None] * size for _ in range(size)]
    product: list[list[SX]] = [[None] * size for _ in range(size)]
    inverse: list[SX] = []
    for j in range(size):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= lower[j][k] * product[j][k]
        inverse.append(1 / pivot)
        for i in range(j + 1, size):
            entry = matrix[i, j]
            for k in range(j):
                entry -= lower[i][k] * product[j][k]
            product[i][j] = entry
            lower[i][j] = entry * inverse[j]
    result = ca.SX(size, columns)
    for column in range(columns):
        y: list[SX] = []
        for i in range(size):
            y.append(right[i, column] - sum((lower[i][k] * y[k] for k in range(i)), ca.SX(0)))
        for i in reversed(range(size)):
            result[i, column] = y[i] * inverse[i] - sum(
                (lower[k][i] * result[k, column] for k in range(i + 1, size)), ca.SX(0)
            )
    return ca.densify(result)
