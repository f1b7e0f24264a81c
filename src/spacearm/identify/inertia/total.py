"""Weighted total estimation: every reading may be wrong, and the equations hold exactly for the true ones.

Readings y have errors of known deviation and obey g(y - error; inertias) = 0 at each sample. The most likely inertias
minimise the weighted square sum of the errors; with the equations linearised about the corrected readings this is a
least-squares problem (the Gauss-Helmert model of adjustment theory: F. R. Helmert 1872; W. Niemeier,
Ausgleichungsrechnung, 2008). Unlike plain least squares it is not biased by noise in the regressor, and its covariance
counts noise in rates, angles, attitude and position alike. Repetitions are solved together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.information import Information, eliminate, solve_scaled
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.task import Task
from spacearm.identify.inertia.unidentifiable import complement, gauge, hidden, without
from spacearm.identify.inertia.weights import Weights
from spacearm.optimise.problem import Estimate, Reason
from spacearm.typing import Array

#: Directions that the data know worse than by so many typical sizes are left as they are: errors of that size are no
#: small errors any more, for which alone the linearised equations hold.
WORST = 3.0


@dataclass(frozen=True, eq=False)
class TotalFit:
    """Result for every repetition: (...) leads each array."""

    information: Information
    momenta: Array  # (..., 6 k) estimated initial momenta
    biases: Array  # (..., nb) estimated sensor biases
    cost: Array  # (...) half the weighted square sum of the reading errors
    freedom: int  # equations minus unknowns that they determine
    iterations: int
    converged: bool
    history: Array
    seconds: float


def unknowable(task: Task) -> Array:
    """Directions (r, k) in typical sizes that the records show not at all or too badly, apart from the scale."""
    return hidden(task, gauge(task, task.guess), WORST)


def fit_total(
    task: Task,
    *,
    start: Array | None = None,
    iterations: int = 20,
    tolerance: float = 1e-6,
    blind: Array | None = None,
) -> TotalFit:
    """Estimate base parameters of every repetition; directions that the records do not show keep their start.

    Args:
        start: base parameters (..., r) to weigh the first step with; the robot's own when not given.
        iterations: at most.
        tolerance: stop when no parameter changes by more than this share of its deviation.
        blind: (r, k), orthonormal: directions in typical sizes that are left as they are; found from the records
            (:func:`unknowable`) when not given.
    """
    begin = time.perf_counter()
    base_parameters, rank, batch = task.base_parameters, task.base_parameters.rank, task.batch
    unknown, biases = task.unknown_momenta, task.biases
    size = rank + 6 * len(unknown) + len(biases)
    scale = np.concatenate([task.sizes, np.ones(6 * len(unknown)), [s for _, _, s in biases]])
    x = np.zeros((*batch, size))
    x[..., :rank] = task.guess if start is None else start
    rest = unknowable(task) if blind is None else blind
    shown = complement(np.concatenate([gauge(task, task.guess), rest], axis=-1))
    kept_still = rank - shown.shape[1]
    steps = np.eye(size)[:, kept_still:]  # columns: changes of all unknowns that are looked for, in units of scale
    steps[:rank, : shown.shape[1]] = shown
    steps = scale[:, None] * steps
    sigmas = [task.deviations(record) for record in task.records]
    shape = [(*batch, record.times.size, s.size) for record, s in zip(task.records, sigmas, strict=True)]
    noise = [np.zeros(s) for s in shape]  # corrections of readings, without biases
    prior = np.zeros(size)
    prior[size - len(biases) :] = [1.0 / s**2 for _, _, s in biases]
    history: list[float] = []
    converged, done, normal, cost = False, 0, np.zeros((*batch, size, size)), np.zeros(batch)
    for _ in range(iterations):
        done += 1
        inertia = x[..., :rank] @ base_parameters.lift.T
        normal = np.zeros((*batch, size, size))
        normal[..., range(size), range(size)] = prior
        right = -prior * x
        cost = 0.5 * np.sum(prior * x * x, axis=-1)
        kept = []
        for i, record in enumerate(task.records):
            offset = _bias_vector(record, biases, x[..., size - len(biases) :])
            adjusted = record.moved(noise[i] - offset[..., None, :])
            linear = task.equations.linear(adjusted)
            slopes = task.equations.slopes(adjusted, inertia)
            try:
                weights = Weights(task.equations, adjusted, slopes, sigmas[i])
            except np.linalg.LinAlgError:
                raise InputError(
                    "the estimation does not converge",
                    place=record.place,
                    hint="the noise is too strong for this motion, or too small to be true",
                ) from None
            gap = np.einsum("...tmp,...p->...tm", linear.matrix, inertia) - linear.known
            columns = [linear.matrix @ base_parameters.lift]
            places = [np.arange(rank)]
            if i in unknown:
                at = rank + 6 * unknown.index(i)
                gap[..., linear.momentum_rows] -= x[..., None, at : at + 6]
                momenta = np.zeros((*gap.shape, 6))
                momenta[..., linear.momentum_rows, :] = -np.eye(6)
                columns.append(momenta)
                places.append(np.arange(at, at + 6))
            if biases:
                columns.append(-_bias_columns(record, biases, slopes))
                places.append(np.arange(size - len(biases), size))
            columns.append((gap - weights.applied(noise[i]))[..., None])
            where = np.concatenate(places)
            flat = weights.whiten(np.concatenate(columns, axis=-1))
            design, white = flat[..., :-1], flat[..., -1]
            turned = np.swapaxes(design, -1, -2)
            normal[..., where[:, None], where] += turned @ design
            right[..., where] -= (turned @ white[..., None])[..., 0]
            cost = cost + 0.5 * np.sum(noise[i] ** 2 / np.where(sigmas[i] > 0, sigmas[i], np.inf) ** 2, axis=(-1, -2))
            kept.append((design, where, white, weights))
        step = solve_scaled(steps.T @ normal @ steps, right @ steps, np.ones(size - kept_still)) @ steps.T
        x = x + step
        for i, (design, where, white, weights) in enumerate(kept):
            noise[i] = -weights.errors(white + (design @ step[..., where, None])[..., 0])
        history.append(float(np.mean(cost)))
        moved = step[..., :rank] / np.sqrt(1.0 / np.maximum(np.einsum("...ii->...i", normal)[..., :rank], 1e-300))
        size_of_step = np.abs(step[..., :rank]) / task.sizes
        if np.all(np.abs(moved) < tolerance) or np.all(size_of_step < 1e-15):
            converged = True
            break
    unseen = np.concatenate([gauge(task, x[..., :rank]), np.broadcast_to(rest, (*batch, *rest.shape))], axis=-1)
    told = without(eliminate(normal, rank), unseen, task.sizes)
    information = Information(base_parameters, x[..., :rank], told, task.sizes)
    equations = sum(record.times.size * n_rows(task, record) for record in task.records)
    cost = np.sum(
        [
            0.5 * np.sum(part**2 / np.where(s > 0, s, np.inf) ** 2, axis=(-1, -2))
            for part, s in zip(noise, sigmas, strict=True)
        ],
        axis=0,
    )
    return TotalFit(
        information,
        x[..., rank : rank + 6 * len(unknown)],
        x[..., size - len(biases) :],
        cost,
        equations - shown.shape[1] - 6 * len(unknown),
        done,
        converged,
        np.array(history),
        time.perf_counter() - begin,
    )


def n_rows(task: Task, record: Record) -> int:
    """Equations at each sample of a record."""
    rows = 6 if "momentum" in task.equations.kinds else 0
    if "dynamics" in task.equations.kinds:
        rows += 6 + (task.robot.n if "torque" in record.readings else 0)
    return rows


def _bias_vector(record: Record, biases: tuple[tuple[str, int, float], ...], values: Array) -> Array:
    _, places, sigma = record.deviations()
    full = np.zeros((*values.shape[:-1], sigma.size))
    for k, (name, component, _) in enumerate(biases):
        if name in places:
            full[..., places[name].start + component] = values[..., k]
    return full


def _bias_columns(record: Record, biases: tuple[tuple[str, int, float], ...], slopes: Array) -> Array:
    _, places, _ = record.deviations()
    zero = np.zeros_like(slopes[..., 0])
    return np.stack([slopes[..., places[name].start + k] if name in places else zero for name, k, _ in biases], axis=-1)


@dataclass(frozen=True)
class TotalLeastSquares:
    """The estimator of this module behind the common interface."""

    iterations: int = 20
    tolerance: float = 1e-6

    def solve(self, task: Task) -> Estimate:
        fit = fit_total(task, iterations=self.iterations, tolerance=self.tolerance)
        information = fit.information
        samples = sum(record.times.size for record in task.records)
        return Estimate(
            task.base_parameters.names,
            task.base_parameters.units,
            information.values,
            information.covariance,
            float(fit.cost),
            fit.iterations * samples,
            fit.iterations,
            Reason.CONVERGED if fit.converged else Reason.LIMIT,
            fit.history,
            fit.seconds,
            "weighted total least squares",
            {"fit": fit, "assumed_noise": task.assumed_noise, "freedom": fit.freedom},
        )


def thin(task: Task, every: int) -> Task:
    """The same task with every so-many-th sample."""
    return replace(task, records=tuple(record.thinned(every) for record in task.records))
