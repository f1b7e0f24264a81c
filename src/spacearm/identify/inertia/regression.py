"""Least squares on the regressors: ordinary, and weighted total estimation.

Ordinary linear least squares is exact for exact data and biased by noise in rates and angles. In total estimation every
reading may be wrong, and the equations hold exactly for the true ones. Readings y have errors of known deviation and
obey g(y - error; inertias) = 0 at each sample. The most likely inertias minimise the weighted square sum of the errors;
with the equations linearised about the corrected readings this is a least-squares problem (the Gauss-Helmert model of
adjustment theory: F. R. Helmert 1872; W. Niemeier, Ausgleichungsrechnung, 2008). It is not biased by noise in the
regressor, and its covariance counts noise in rates, angles, attitude and position alike. Repetitions are solved
together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from spacearm.identify.inertia.identifiability import gauge, not_identifiable
from spacearm.identify.inertia.problem import InertiaProblem, LinearisedEquations
from spacearm.optimise.consider import FixedNumber, add_consider_covariance
from spacearm.optimise.estimate import Estimate, StopReason
from spacearm.optimise.information import Information, complement, eliminate, remove_directions, solve_with_scaling
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
        sizes = problem.base_parameters.sizes
        scale = gauge(problem, problem.base_guess)
        rest = not_identifiable(problem, scale)
        shown = complement(np.concatenate([scale, rest], axis=-1))
        blocks, right, fixed = [], [], []
        for i, record in enumerate(problem.records):
            linear = problem.equations.linear(record)
            matrix, known = (linear.matrix @ problem.base_parameters.lift) * sizes, problem.compute_known_side(linear)
            others = problem.fixed_columns(record, linear)
            if i in problem.unknown_momenta:  # a free constant in these rows: their means say nothing
                rows = linear.momentum_rows
                matrix[..., rows, :] -= matrix[..., rows, :].mean(axis=-3, keepdims=True)
                known = known.copy()
                known[..., rows] -= known[..., rows].mean(axis=-2, keepdims=True)
                others[..., rows, :] -= others[..., rows, :].mean(axis=-3, keepdims=True)
            fixed.append(others.reshape(known.size, -1))
            blocks.append(matrix.reshape(-1, sizes.size))
            right.append(known.ravel())
        stacked, known = np.concatenate(blocks), np.concatenate(right)
        # what the records do not show stays as the robot is given
        guess = problem.base_guess / sizes
        change, spread, left = _fit(stacked @ shown, known - stacked @ guess, self.rank_tolerance)
        # consider covariance: what one standard deviation of each fixed number does to the values
        effects = np.linalg.lstsq(stacked @ shown, np.concatenate(fixed), rcond=self.rank_tolerance)[0]
        spread = spread + effects @ effects.T
        values, covariance = guess + shown @ change, shown @ spread @ shown.T
        still = values - shown @ (shown.T @ values)
        share = (1.0 - np.sum(shown**2, axis=1)) * (1.0 + still @ still)
        own = np.diag(covariance).copy()
        np.fill_diagonal(covariance, np.where(share > np.maximum(own, 1e-10), np.inf, own))
        ends = np.cumsum([part.size for part in right])[:-1]
        return Estimate(
            problem.parameters[: problem.rank],
            values * sizes,
            covariance * np.outer(sizes, sizes),
            0.5 * float(left @ left),
            "linear least squares",
            seconds=time.perf_counter() - begin,
            residuals=problem.rows_by_channel(np.split(left, ends)),
            noise_known=False,
            extra={"not_identifiable": rest},
        )


def _fit(matrix: Array, right: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Least squares by QR and SVD: values, covariance, residuals."""
    # Columns of length one: their units would otherwise decide which singular values count as zero.
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


#: Directions that the data determine worse than to so many typical sizes are left as they are: errors of that size are
#: no small errors any more, for which alone the linearised equations hold.
WORST = 3.0


@dataclass(frozen=True, eq=False)
class TotalFit:
    """Result for every repetition: (...) leads each array."""

    information: Information
    momenta: Array  # (..., unknowns) estimated initial momenta
    biases: Array  # (..., nb) estimated sensor biases
    residuals: tuple[Array, ...]  # (..., T, m) of each record: equations in standard deviations
    cost: Array  # (...) half the weighted square sum of the reading errors
    freedom: int  # equations minus unknowns that they determine
    iterations: int
    converged: bool
    history: Array
    seconds: float
    exact: Information  # with all fixed numbers exact
    consider_effects: Mapping[FixedNumber, Array] = field(default_factory=dict)  # of one deviation, on parameters (r,)


def find_undetermined_directions(problem: InertiaProblem) -> Array:
    """Directions (r, k) in typical sizes that the records show not at all or too badly, apart from the scale."""
    return not_identifiable(problem, gauge(problem, problem.base_guess), WORST)


def fit_total(
    problem: InertiaProblem,
    *,
    start: Array | None = None,
    iterations: int = 20,
    tolerance: float = 1e-6,
    held: Array | None = None,
) -> TotalFit:
    """Estimate base parameters of every repetition; directions that the records do not show keep their start.

    Args:
        start: base parameters (..., r) for the weights of the first step; the robot's own when not given.
        iterations: at most.
        tolerance: stop when no parameter changes by more than this share of its deviation.
        held: (r, k), orthonormal: directions in typical sizes that are left as they are; found from the records
            (:func:`find_undetermined_directions`) when not given.
    """
    begin = time.perf_counter()
    rank, sizes = problem.rank, problem.base_parameters.sizes
    rest = find_undetermined_directions(problem) if held is None else held
    shown = complement(np.concatenate([gauge(problem, problem.base_guess), rest], axis=-1))
    search = _TotalSearch(problem, shown, problem.base_guess if start is None else start)
    converged, done = False, 0
    while done < iterations and not converged:
        done += 1
        step = search.step()[..., :rank]
        # Deviations with all other parameters held, the smallest that there are: a stricter test than by the marginal
        # ones. The second condition is for data without noise, whose steps end at rounding.
        scatter = np.sqrt(1.0 / np.maximum(np.einsum("...ii->...i", search.normal)[..., :rank], 1e-300))
        converged = bool(np.all(np.abs(step / scatter) < tolerance) or np.all(np.abs(step) / sizes < 1e-15))
    x, nuisances = search.x, len(problem.biases)
    # Where no force is known the data show ratios only: the free direction is that of the parameters themselves, here
    # at the end of the search.
    unseen = np.concatenate(
        [gauge(problem, x[..., :rank]), np.broadcast_to(rest, (*problem.batch, *rest.shape))], axis=-1
    )
    matrix = remove_directions(eliminate(search.normal, rank), unseen, sizes)
    effects = search.fixed_effects(matrix)
    exact = Information.from_matrix(x[..., :rank], matrix, sizes)
    widened = add_consider_covariance(matrix, effects)
    return TotalFit(
        exact if widened is matrix else Information.from_matrix(x[..., :rank], widened, sizes),
        x[..., rank : x.shape[-1] - nuisances],
        x[..., x.shape[-1] - nuisances :],
        tuple(search.residuals),
        search.cost(),
        sum(part.shape[-1] * part.shape[-2] for part in search.residuals) - shown.shape[1] - problem.momentum_count,
        done,
        converged,
        np.array(search.history),
        time.perf_counter() - begin,
        exact,
        dict(zip(problem.fixed_numbers, np.moveaxis(effects, -1, 0), strict=True)),
    )


class _TotalSearch:
    """Gauss-Newton steps on all unknowns and on the errors of all readings."""

    def __init__(self, problem: InertiaProblem, shown: Array, start: Array) -> None:
        self.problem, rank = problem, problem.rank
        size = len(problem.parameters)
        self.x = np.zeros((*problem.batch, size))
        self.x[..., :rank] = start
        held = rank - shown.shape[1]
        steps = np.eye(size)[:, held:]  # columns: changes of all unknowns that are looked for, in units of their sizes
        steps[:rank, : shown.shape[1]] = shown
        self.steps = problem.sizes[:, None] * steps
        self.sigmas = [problem.deviations(record) for record in problem.records]
        pairs = zip(problem.records, self.sigmas, strict=True)
        self.errors = [np.zeros((*problem.batch, record.times.size, s.size)) for record, s in pairs]  # without biases
        self.prior = np.array([0.0 if p.prior is None else 1.0 / p.prior[1] ** 2 for p in problem.parameters])
        self.normal = np.zeros((*problem.batch, size, size))
        self.residuals: list[Array] = []
        self.history: list[float] = []
        self.cross = np.zeros((*problem.batch, size, len(problem.fixed_numbers)))

    def fixed_effects(self, information: Array) -> Array:
        """What one standard deviation of each fixed number does to the base parameters (r, k), by their information."""
        rank, sizes, cross = self.problem.rank, self.problem.base_parameters.sizes, self.cross
        if not cross.shape[-1]:
            return cross[..., :rank, :]
        right = cross[:rank]
        if cross.shape[0] > rank:  # less what initial momenta and biases take up
            right = right - self.normal[:rank, rank:] @ np.linalg.solve(self.normal[rank:, rank:], cross[rank:])
        inverse = np.linalg.pinv(information * sizes[:, None] * sizes, rcond=1e-12, hermitian=True)
        return np.asarray(-sizes[:, None] * (inverse @ (sizes[:, None] * right)))

    def cost(self) -> Array:
        """Half the weighted square sum of the reading errors."""
        parts = zip(self.errors, self.sigmas, strict=True)
        halves = [0.5 * np.sum(e**2 / np.where(s > 0, s, np.inf) ** 2, axis=(-1, -2)) for e, s in parts]
        return np.asarray(np.sum(halves, axis=0))

    def step(self) -> Array:
        """One step of all unknowns, and the reading errors that go with it."""
        problem, x, prior = self.problem, self.x, self.prior
        size = x.shape[-1]
        self.history.append(float(np.mean(self.cost() + 0.5 * np.sum(prior * x * x, axis=-1))))
        normal = np.zeros((*problem.batch, size, size))
        normal[..., range(size), range(size)] = prior
        right, cross = -prior * x, np.zeros_like(self.cross)
        kept: list[tuple[LinearisedEquations, Array, Array]] = []
        for i, record in enumerate(problem.records):
            line = problem.linearise(i, record.add_errors(self.errors[i] - problem.offsets(record, x)[..., None, :]), x)
            # The equations are linearised about corrected readings; what the corrections explain is taken off again, so
            # that a step finds all errors anew and not their changes.
            last = (line.gap - line.weights.propagate_errors(self.errors[i]))[..., None]
            flat = line.weights.whiten(np.concatenate([line.columns, line.fixed, last], axis=-1))
            count = line.columns.shape[-1]
            design, fixed, white = flat[..., :count], flat[..., count:-1], flat[..., -1]
            transposed = np.swapaxes(design, -1, -2)
            cross[..., line.places, :] += transposed @ fixed
            normal[..., line.places[:, None], line.places] += transposed @ design
            right[..., line.places] -= (transposed @ white[..., None])[..., 0]
            kept.append((line, design, white))
        step = solve_with_scaling(self.steps.T @ normal @ self.steps, right @ self.steps) @ self.steps.T
        self.x, self.normal, self.cross, self.residuals = x + step, normal, cross, []
        for i, (line, design, white) in enumerate(kept):
            left = white + (design @ step[..., line.places, None])[..., 0]
            # The least errors, in standard deviations, that close the equations.
            self.errors[i] = -line.weights.errors(left)
            self.residuals.append(left.reshape(line.gap.shape))
        return np.asarray(step)


@dataclass(frozen=True)
class TotalLeastSquares:
    """The estimator of this module behind the common interface."""

    iterations: int = 20
    tolerance: float = 1e-6

    def solve(self, problem: InertiaProblem) -> Estimate:
        fit = fit_total(problem, iterations=self.iterations, tolerance=self.tolerance)
        return Estimate(
            problem.parameters[: problem.rank],
            fit.information.values,
            fit.information.covariance,
            float(fit.cost),
            "weighted total least squares",
            StopReason.CONVERGED if fit.converged else StopReason.LIMIT,
            fit.iterations,
            fit.iterations,
            fit.history,
            fit.seconds,
            fit.information,
            problem.rows_by_channel(fit.residuals),
            not problem.assumes_noise,
            {"fit": fit},
        )
