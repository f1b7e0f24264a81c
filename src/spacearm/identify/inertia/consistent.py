"""Physically possible inertias: positive mass, and a tensor that some distribution of mass has, by construction.

A body's pseudo-inertia (4 x 4: half the trace of the tensor minus the tensor, the first moment, the mass) is positive
definite exactly when the body can exist (P. Wensing, S. Kim, J.-J. Slotine, IEEE RA-L 3, 2018). Written as U U^T with
an upper triangle U whose diagonal is an exponential (log-Cholesky: C. Rucker, P. Wensing, IEEE RA-L 7, 2022), every ten
numbers give a possible body, so the search is free.

What the data say enters as their information about base parameters, a quadratic form: the search over bodies needs no
readings. To it are added the prior, or without one a weak prior at the robot's own inertias along null directions, and
a weak pull on the diagonal of U. Where noise asks for less than nothing (a thin rod's moment about itself), the most
likely possible body lies on the border, at an infinite logarithm; the pull makes the search end before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from spacearm.errors import InputError, SpacearmError
from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.regression import fit_total
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.model import Inertia, Robot
from spacearm.model.parts import symmetric_six, tensor_of
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.information import Information
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array

_UPPER = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def pseudo_inertia(linear: Array) -> Array:
    """The 4 x 4 pseudo-inertia of ten linear parameters."""
    tensor = tensor_of(linear[4:])
    full = np.empty((4, 4))
    full[:3, :3] = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    full[:3, 3] = full[3, :3] = linear[1:4]
    full[3, 3] = linear[0]
    return full


def inertia_from_pseudo(full: Array) -> Array:
    """4 x 4 pseudo-inertia to linear parameters."""
    sigma = full[:3, :3]
    return np.concatenate([[full[3, 3]], full[:3, 3], symmetric_six(np.trace(sigma) * np.eye(3) - sigma)])


def is_possible(linear: Array) -> bool:
    """Whether a body with these ten parameters can exist."""
    return bool(np.linalg.eigvalsh(pseudo_inertia(np.asarray(linear, dtype=np.float64)))[0] > 0)


def impossible_bodies(robot: Robot, inertia: Array) -> dict[str, str]:
    """Bodies that cannot have these inertias (10(n + 1)), each with the reason; those that are the robot's
    own may stay what they are."""
    found = {}
    for body, row in zip(robot.bodies, np.reshape(inertia, (-1, 10)), strict=True):
        # What no estimate has touched is as possible as the robot: massless bodies, point masses, repaired inertias.
        if np.array_equal(row, body.inertia.parameters):
            continue
        try:
            Inertia.from_parameters(row)
        except SpacearmError as error:  # what rounding leaves of a point or a plate counts as well
            found[body.name] = error.message
            continue
        if not is_possible(row) and body.inertia.mass > 0.0:
            found[body.name] = "the tensor is that of no distribution of mass"
    return found


def log_cholesky(linear: Array) -> Array:
    """Ten free numbers of a possible body."""
    # Cholesky gives a lower triangle; with rows and columns in reverse order it is the upper one that is wanted.
    flipped = pseudo_inertia(linear)[::-1, ::-1]
    try:
        upper = np.linalg.cholesky(flipped)[::-1, ::-1]
    except np.linalg.LinAlgError:
        raise InputError(
            "these inertia parameters belong to no possible body",
            hint="mass must be positive and the tensor admissible",
        ) from None
    return np.concatenate([np.log(np.diag(upper)), [upper[i, j] for i, j in _UPPER]])


def _factor(z: Array) -> Array:
    # Logarithms of the diagonal: every z gives a positive definite matrix, and no bound is needed.
    upper = np.diag(np.exp(z[:4]))
    for k, (i, j) in enumerate(_UPPER):
        upper[i, j] = z[4 + k]
    return upper


def inertia_from(z: Array) -> Array:
    """Linear parameters of the ten free numbers."""
    upper = _factor(z)
    return inertia_from_pseudo(upper @ upper.T)


def inertia_slope(z: Array) -> Array:
    """Derivative (10, 10) of :func:`inertia_from`."""
    upper = _factor(z)
    columns = []
    for k in range(10):
        change = np.zeros((4, 4))
        if k < 4:
            change[k, k] = upper[k, k]
        else:
            change[_UPPER[k - 4]] = 1.0
        # d(U U^T) = dU U^T + (dU U^T)^T
        product = change @ upper.T
        columns.append(inertia_from_pseudo(product + product.T))
    return np.stack(columns, axis=1)


def make_regular(robot: Robot) -> Array:
    """The robot's inertias, flat or massless bodies made just possible so that the search can start."""
    rows = robot.inertia_parameters.copy()
    sizes = typical_sizes(robot).reshape(-1, 10)
    for row, size in zip(rows, sizes, strict=True):
        # A repaired body is possible to the last digit: a search that starts there has no room for its first step.
        inner = row - 1e-6 * size * np.isin(np.arange(10), (4, 5, 6))
        if not is_possible(inner):
            row[0] = max(row[0], 1e-3 * size[0])
            # Equal moments about all axes: the triangle inequality holds with room.
            row[4:7] += 1e-3 * size[4]
    return rows


@dataclass(frozen=True)
class ConsistentEstimator:
    """Most likely inertias among the possible ones, from what data say about base parameters and a prior.

    Without a prior, null directions are held at the robot's own inertias by a prior as weak as ``vague`` typical
    sizes: it moves nothing that the data determine, and :func:`.standard_parameters` says
    which numbers those are. ``barrier`` is a weak pull (deviations per e-fold of the factor's diagonal) that keeps
    bodies from shrinking to a plate or a point where noise asks for less than nothing.
    """

    prior: Prior | None = None
    vague: float = 10.0
    barrier: float = 0.1
    tolerance: float = 1e-9

    def solve(self, problem: InertiaProblem) -> Estimate:
        """Inertias of possible bodies from records: weighted total estimation, then :meth:`refine`."""
        return self.refine(fit_total(problem).information, problem.robot, problem.base_parameters)

    def refine(self, information: Information, robot: Robot, base: BaseParameters | None = None) -> Estimate:
        """Inertias of possible bodies from an estimate of the base parameters (``base``, or all of the robot)."""
        whole, scale = base or base_parameters(robot), typical_sizes(robot)
        mean = robot.inertia_parameters.ravel() if self.prior is None else self.prior.mean
        belief = np.full(scale.size, np.inf) if self.prior is None else self.prior.sigma
        # Numbers that are known exactly get a deviation too small to matter and too large to spoil the conditioning.
        doubt = np.where(np.isfinite(belief), np.maximum(belief, 1e-9 * scale), self.vague * scale)
        # Rows whose squares are the data's misfit of all bodies' inertias.
        root = information.root @ whole.combine
        target = information.root @ information.values
        guess = np.concatenate([log_cholesky(row) for row in make_regular(robot)])
        names = [f"{body.name}[{k}]" for body in robot.bodies for k in range(10)]
        diagonal = np.arange(guess.size) % 10 < 4
        pull = self.barrier * np.eye(guess.size)[diagonal]

        def bodies(z: Array) -> Array:
            return np.concatenate([inertia_from(part) for part in z.reshape(-1, 10)])

        def slope(z: Array) -> Array:
            return np.asarray(block_diag(*(inertia_slope(part) for part in z.reshape(-1, 10))))

        problem = Problem(
            [
                Parameter(name, float(value), scale=max(abs(float(value)), 0.1))
                for name, value in zip(names, guess, strict=True)
            ],
            [
                Block(lambda z: root @ bodies(z) - target, lambda z: root @ slope(z), 1.0, name="data"),
                Block(lambda z: (bodies(z) - mean) / doubt, lambda z: slope(z) / doubt[:, None], 1.0, name="prior"),
                Block(lambda z: self.barrier * (z - guess)[diagonal], lambda z: pull, 1.0, name="barrier"),
            ],
            name="physically consistent",
        )
        found = LeastSquares(self.tolerance, 1000, uncertainty=False).solve(problem)
        # Covariance of all inertias from that of the free numbers, by a singular value decomposition: half @ half.T.
        _, s, rows = np.linalg.svd(problem.residual_jacobian(found.values), full_matrices=False)
        half = slope(found.values) @ (rows.T / s)
        inertia, spread = bodies(found.values), whole.combine @ half
        parameters = [
            Parameter(p.name, float(value), p.unit, scale=float(size))
            for p, value, size in zip(whole.parameters, information.values, information.sizes, strict=True)
        ]
        return replace(
            found,
            parameters=parameters,
            values=whole.combine @ inertia,
            covariance=spread @ spread.T,
            method="physically consistent (log-Cholesky)",
            information=information,
            extra={"inertia": inertia, "inertia_covariance": half @ half.T},
        )
