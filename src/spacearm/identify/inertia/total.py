"""Weighted total estimation: every reading may be wrong, and the equations hold exactly for the true ones.

Readings y have errors of known deviation and obey g(y - error; inertias) = 0 at each sample. The most likely inertias
minimise the weighted square sum of the errors; with the equations linearised about the corrected readings this is a
least-squares problem (the Gauss-Helmert model of adjustment theory: F. R. Helmert 1872; W. Niemeier,
Ausgleichungsrechnung, 2008). Unlike plain least squares it is not biased by noise in the regressor, and its covariance
counts noise in rates, angles, attitude and position alike. Repetitions are solved together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.identifiability import gauge, not_identifiable
from spacearm.identify.inertia.problem import InertiaProblem, Linearised
from spacearm.optimise.estimate import Estimate, Reason
from spacearm.optimise.information import Information, complement, eliminate, solve_scaled, without
from spacearm.typing import Array

#: Directions that the data determine worse than to so many typical sizes are left as they are: errors of that size are
#: no small errors any more, for which alone the linearised equations hold.
WORST = 3.0


@dataclass(frozen=True, eq=False)
class TotalFit:
    """Result for every repetition: (...) leads each array."""

    information: Information
    momenta: Array  # (..., 6 k) estimated initial momenta
    biases: Array  # (..., nb) estimated sensor biases
    residuals: tuple[Array, ...]  # (..., T, m) of each record: equations in standard deviations
    cost: Array  # (...) half the weighted square sum of the reading errors
    freedom: int  # equations minus unknowns that they determine
    iterations: int
    converged: bool
    history: Array
    seconds: float


def not_determined(problem: InertiaProblem) -> Array:
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
        start: base parameters (..., r) to weigh the first step with; the robot's own when not given.
        iterations: at most.
        tolerance: stop when no parameter changes by more than this share of its deviation.
        held: (r, k), orthonormal: directions in typical sizes that are left as they are; found from the records
            (:func:`not_determined`) when not given.
    """
    begin = time.perf_counter()
    rank, sizes = problem.rank, problem.base_sizes
    rest = not_determined(problem) if held is None else held
    shown = complement(np.concatenate([gauge(problem, problem.base_guess), rest], axis=-1))
    search = _Search(problem, shown, problem.base_guess if start is None else start)
    converged, done = False, 0
    while done < iterations and not converged:
        done += 1
        step = search.step()[..., :rank]
        scatter = np.sqrt(1.0 / np.maximum(np.einsum("...ii->...i", search.normal)[..., :rank], 1e-300))
        converged = bool(np.all(np.abs(step / scatter) < tolerance) or np.all(np.abs(step) / sizes < 1e-15))
    x, nuisances = search.x, len(problem.biases)
    unseen = np.concatenate(
        [gauge(problem, x[..., :rank]), np.broadcast_to(rest, (*problem.batch, *rest.shape))], axis=-1
    )
    matrix = without(eliminate(search.normal, rank), unseen, sizes)
    return TotalFit(
        Information.from_matrix(x[..., :rank], matrix, sizes),
        x[..., rank : x.shape[-1] - nuisances],
        x[..., x.shape[-1] - nuisances :],
        tuple(search.residuals),
        search.cost(),
        sum(part.shape[-1] * part.shape[-2] for part in search.residuals)
        - shown.shape[1]
        - 6 * len(problem.unknown_momenta),
        done,
        converged,
        np.array(search.history),
        time.perf_counter() - begin,
    )


class _Search:
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
        right = -prior * x
        kept: list[tuple[Linearised, Array, Array]] = []
        for i, record in enumerate(problem.records):
            line = problem.linearised(i, record.moved(self.errors[i] - problem.offsets(record, x)[..., None, :]), x)
            last = (line.gap - line.weights.applied(self.errors[i]))[..., None]
            flat = line.weights.whiten(np.concatenate([line.columns, last], axis=-1))
            design, white = flat[..., :-1], flat[..., -1]
            turned = np.swapaxes(design, -1, -2)
            normal[..., line.places[:, None], line.places] += turned @ design
            right[..., line.places] -= (turned @ white[..., None])[..., 0]
            kept.append((line, design, white))
        step = solve_scaled(self.steps.T @ normal @ self.steps, right @ self.steps) @ self.steps.T
        self.x, self.normal, self.residuals = x + step, normal, []
        for i, (line, design, white) in enumerate(kept):
            left = white + (design @ step[..., line.places, None])[..., 0]
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
            problem.base_unknowns,
            fit.information.values,
            fit.information.covariance,
            float(fit.cost),
            "weighted total least squares",
            Reason.CONVERGED if fit.converged else Reason.LIMIT,
            fit.iterations,
            fit.iterations,
            fit.history,
            fit.seconds,
            fit.information,
            problem.named(fit.residuals),
            not problem.assumed_noise,
            {"fit": fit},
        )
