"""Convex fit of the most likely inertias among those that bodies can have, with other numbers within bounds.

The pseudo-inertia of a body (4 x 4) is linear in its ten numbers and positive definite exactly when the body can exist
(P. Wensing, S. Kim, J.-J. Slotine, IEEE RA-L 3, 2018), so least squares under this constraint is a convex problem. It
is solved by Newton's method with a logarithmic barrier whose weight falls (S. Boyd, L. Vandenberghe, Convex
Optimization, 2004, ch. 11): there is one minimum, and the search cannot end in another.

    minimise  |root (y - estimate)|^2 / 2 + |y - guess|^2 / (2 vague^2)
              - weight (sum over bodies log det P_b(y) + sum over bounds log(y - lower))

y are the ten linear parameters of each body that the data concern, then the other unknowns, all divided by typical
sizes. The first term is the data's information about base parameters, the second keeps null directions near the guess.
The minimum for a weight is within weight x (4 for each body + 1 for each bound) of the constrained one; the last
weight, 0.01, costs at most 0.08 in chi-square for each body.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from spacearm.identify.inertia.base_parameters import BaseParameters
from spacearm.identify.inertia.consistent import make_regular, pseudo_inertia
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.optimise.estimate import Estimate, StopReason
from spacearm.optimise.information import Information
from spacearm.optimise.problem import Parameter
from spacearm.typing import Array

#: Pseudo-inertias (10, 4, 4) of the ten unit parameters.
UNITS = np.stack([pseudo_inertia(row) for row in np.eye(10)])
#: Weights of the barrier in turn, in units of the cost (half of chi-square).
WEIGHTS = np.geomspace(1e4, 1e-2, 7)
#: Newton steps for each weight, and the decrement at which a weight has done its work.
STEPS, DECREMENT = 60, 1e-6


def fit_possible_bodies(
    information: Information, base: BaseParameters, others: Sequence[Parameter] = (), *, vague: float = 10.0
) -> Estimate:
    """Most likely base parameters of possible bodies, and ``others`` behind them, each within its bounds.

    ``extra`` has a complete set of inertias (10(n + 1)) as ``inertia``. Bodies that have no share in the base
    parameters keep the robot's own. What the data do not determine stays within ``vague`` typical sizes of the robot's
    own inertias, and of zero for the others.
    """
    robot = base.robot
    scale, start = typical_sizes(robot), make_regular(robot)
    # Bodies without any share (the base of a held arm) would be moved by the barrier alone: they stay out.
    shares = np.abs(base.combine).max(axis=0, initial=0.0)
    seen = np.flatnonzero(shares.reshape(-1, 10).max(axis=1) > 0.0)
    inertia = robot.inertia_parameters.ravel().copy()
    places = (10 * seen[:, None] + np.arange(10)).ravel()
    inertia[places] = start.ravel()[places]
    sizes = np.concatenate([scale[places], [p.size for p in others]])
    root = np.concatenate([information.root[:, : base.rank] @ base.combine[:, places],
                           information.root[:, base.rank :]], axis=1) * sizes  # fmt: skip
    # The data as linear rows: root (combine phi) should equal root (estimate). Units vanish with the sizes.
    target = information.root @ information.values
    mean = np.concatenate([inertia[places], np.zeros(len(others))]) / sizes
    # The vague prior makes the Hessian positive definite: Cholesky always exists.
    matrix = root.T @ root + np.eye(sizes.size) / vague**2
    right = root.T @ target + mean / vague**2
    lower = np.array([p.lower for p in others]) / sizes[places.size :]
    bounded = np.flatnonzero(np.isfinite(lower))
    values = information.values[base.rank :] / sizes[places.size :]
    # A barrier method starts strictly inside: estimates below their bound begin a little above it.
    first = np.where(np.isfinite(lower), np.maximum(values, lower + 1e-2), values)
    y, steps, reason = np.concatenate([mean[: places.size], first]), 0, StopReason.CONVERGED

    def barrier(y: Array) -> tuple[float, Array, Array]:
        """Minus the logarithms of what must stay positive, gradient and Hessian; infinite outside."""
        value, slope, curve = 0.0, np.zeros(y.size), np.zeros((y.size, y.size))
        for b in range(seen.size):
            own = slice(10 * b, 10 * b + 10)
            units = UNITS * sizes[own, None, None]
            # The Cholesky factor decides whether the body is possible, and gives determinant and inverse as well.
            try:
                factor = np.linalg.cholesky(np.einsum("k,kij->ij", y[own], units))
            except np.linalg.LinAlgError:
                return np.inf, slope, curve
            value -= 2.0 * float(np.sum(np.log(np.diag(factor))))
            inverse = np.linalg.inv(factor)
            # With P = L L^T and V_k = L^-1 U_k L^-T: gradient -tr(V_k), Hessian tr(V_k V_l). Every fifth entry of a
            # flattened 4 x 4 matrix is its diagonal.
            white = (inverse @ units @ inverse.T).reshape(10, 16)
            slope[own] = -white[:, ::5].sum(axis=1)
            curve[own, own] = white @ white.T
        rest = y[places.size :][bounded] - lower[bounded]
        if np.any(rest <= 0.0):
            return np.inf, slope, curve
        at = places.size + bounded
        slope[at], curve[at, at] = -1.0 / rest, 1.0 / rest**2
        return value - float(np.sum(np.log(rest))), slope, curve

    def cost(y: Array, weight: float) -> float:
        return 0.5 * float(y @ matrix @ y) - float(right @ y) + weight * barrier(y)[0]

    curve = matrix
    # Each minimum starts the next: a small weight from the beginning would need tiny steps along the boundary.
    for weight in WEIGHTS:
        for _ in range(STEPS):
            _, slope, more = barrier(y)
            gradient, curve = matrix @ y - right + weight * slope, matrix + weight * more
            change = -cho_solve(cho_factor(curve), gradient)
            decrement = -float(gradient @ change)
            if decrement < DECREMENT:
                break
            steps, now, length = steps + 1, cost(y, weight), 1.0
            # Armijo's rule; `not <=` also steps back from infinite cost, outside the possible bodies.
            while not cost(y + length * change, weight) <= now - 1e-4 * length * decrement and length > 1e-9:
                length *= 0.5
            if length <= 1e-9:  # rounding: no step lowers the cost any more
                break
            y = y + length * change
        else:
            reason = StopReason.LIMIT
    # The Hessian at the end includes the barrier: next to the boundary it narrows the covariance accordingly.
    half = np.linalg.inv(np.linalg.cholesky(curve)).T * sizes[:, None]
    inertia[places] = y[: places.size] * sizes[: places.size]
    spread = np.concatenate([base.combine[:, places] @ half[: places.size], half[places.size :]])
    # Half of its square is the rise of the cost above the unconstrained minimum: what being possible costs.
    misfit = root @ y - target
    parameters = [
        Parameter(p.name, float(value), p.unit, scale=float(size))
        for p, value, size in zip(base.parameters, information.values, information.sizes, strict=False)
    ]
    return Estimate(
        [*parameters, *others],
        np.concatenate([base.combine @ inertia, y[places.size :] * sizes[places.size :]]),
        spread @ spread.T,
        0.5 * float(misfit @ misfit),
        "physically possible bodies (convex)",
        reason,
        evaluations=steps,
        iterations=steps,
        information=information,
        extra={"inertia": inertia},
    )
