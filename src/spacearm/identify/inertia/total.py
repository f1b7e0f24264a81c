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

from spacearm.identify.estimate import Estimate, Reason
from spacearm.identify.inertia.information import Information, eliminate, solve_scaled
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.small import inverse_factor
from spacearm.identify.inertia.task import Task
from spacearm.model.parts import Array


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


class _Weights:
    """The covariance of a record's equations under reading errors: whitens columns, and gives the errors back.

    Errors of one sample enter only its own equations, unless a known wrench is carried into the world by the readings:
    its impulse sums earlier errors, and all samples of such a record hang together.
    """

    def __init__(self, task: Task, adjusted: Record, slopes: Array, sigma: Array) -> None:
        self.slopes, self.sigma = slopes, sigma
        self.batch, self.count, self.rows = slopes.shape[:-3], slopes.shape[-3], slopes.shape[-2]
        self.by_reading: Array | None = None
        if "momentum" in task.equations.kinds and np.any(adjusted.wrench):
            self.by_reading, parts = task.equations.impulse_slopes(adjusted)
            self.span = np.concatenate([index for index, _ in parts])
            self.weights = np.concatenate([weight for _, weight in parts], axis=1)
            # repetitions differ by noise only, and so do their covariances: one serves all
            first = (0,) * len(self.batch)
            dense = self._dense(slopes[first] * sigma, self.by_reading[first] * sigma)
            self.factor: Array = np.linalg.cholesky(self._regular(dense)).astype(np.float64)
            return
        spread = slopes * sigma
        covariance = self._regular(spread @ np.swapaxes(spread, -1, -2))
        self.factor = inverse_factor(covariance)

    @staticmethod
    def _regular(covariance: Array) -> Array:
        """A row that no reading error enters (a locked joint without noise) must not divide by zero."""
        m = range(covariance.shape[-1])
        covariance[..., m, m] *= 1.0 + 1e-12
        covariance[..., m, m] += 1e-30
        return covariance

    def _dense(self, spread: Array, carried: Array) -> Array:
        """Covariance (T m, T m) of one repetition: own errors, impulse errors, and what they share."""
        count, rows, weights = self.count, self.rows, self.weights
        full = np.zeros((count, rows, count, rows))
        own = np.arange(count)
        full[own, :, own, :] = spread @ np.swapaxes(spread, -1, -2)
        crossed = spread[self.span] @ np.swapaxes(carried, -1, -2)  # (s, m, 6)
        for s, k in enumerate(self.span):
            block = np.einsum("t,mj->mtj", weights[:, s], crossed[s])  # (m, T, 6)
            full[k, :, :, :6] -= block
            full[:, :6, k, :] -= block.transpose(1, 2, 0)
        # a sample at a switch serves two stretches: the same errors
        same = self.span[:, None] == self.span
        pair = np.einsum("smy,rky->smrk", carried, carried) * same[:, None, :, None]
        full[:, :6, :, :6] += np.einsum("ts,smrk,ur->tmuk", weights, pair, weights, optimize=True)
        return full.reshape(count * rows, count * rows)

    def whiten(self, columns: Array) -> Array:
        """(..., T, m, c) to (..., T m, c)."""
        flat = (*self.batch, self.count * self.rows, columns.shape[-1])
        if self.by_reading is None:
            return (self.factor @ columns).reshape(flat)
        return _lower_solve(self.factor, columns.reshape(flat))

    def errors(self, white: Array) -> Array:
        """Most likely reading errors (..., T, ny), times minus one, for whitened misclosures (..., T m)."""
        if self.by_reading is None:
            parts = white.reshape(*self.batch, self.count, self.rows)
            pulled = np.einsum("...km,...k->...m", self.factor, parts)
            return np.asarray(self.sigma**2 * np.einsum("...my,...m->...y", self.slopes, pulled))
        flat = _lower_solve(self.factor, white[..., None], turned=True)[..., 0]
        pulled = flat.reshape(*self.batch, self.count, self.rows)
        result = np.einsum("...my,...m->...y", self.slopes, pulled)
        summed = np.einsum("ts,...tm->...sm", self.weights, pulled[..., :6])
        back = np.einsum("...smy,...sm->...sy", self.by_reading, summed)
        for s, k in enumerate(self.span):
            result[..., k, :] -= back[..., s, :]
        return np.asarray(self.sigma**2 * result)

    def applied(self, errors: Array) -> Array:
        """What reading errors (..., T, ny) do to the equations, (..., T, m)."""
        result = np.einsum("...my,...y->...m", self.slopes, errors)
        if self.by_reading is not None:
            carried = np.einsum("...smy,...sy->...sm", self.by_reading, errors[..., self.span, :])
            result[..., :6] -= np.einsum("ts,...sm->...tm", self.weights, carried)
        return np.asarray(result)


def _lower_solve(factor: Array, right: Array, turned: bool = False) -> Array:
    """``factor`` (or its transpose) solved for (..., rows, columns), all columns in one call."""
    from scipy.linalg import solve_triangular

    rows, columns = right.shape[-2:]
    side = np.moveaxis(right, -2, 0).reshape(rows, -1)
    solved = solve_triangular(factor, side, lower=True, trans=1 if turned else 0, check_finite=False)
    return np.moveaxis(np.asarray(solved).reshape(rows, *right.shape[:-2], columns), 0, -2)


def fit_total(task: Task, *, start: Array | None = None, iterations: int = 8, tolerance: float = 1e-6) -> TotalFit:
    """Estimate base parameters of every repetition.

    Args:
        start: base parameters (..., r) to weigh the first step with; the robot's own when not given.
        iterations: at most.
        tolerance: stop when no parameter changes by more than this share of its deviation.
    """
    begin = time.perf_counter()
    theory, rank, batch = task.theory, task.theory.rank, task.batch
    unknown, biases = task.unknown_momenta, task.biases
    size = rank + 6 * len(unknown) + len(biases)
    scale = np.concatenate([task.sizes, np.ones(6 * len(unknown)), [s for _, _, s in biases]])
    x = np.zeros((*batch, size))
    x[..., :rank] = task.guess if start is None else start
    sigmas = [task.deviations(record) for record in task.records]
    shape = [(*batch, record.times.size, s.size) for record, s in zip(task.records, sigmas, strict=True)]
    noise = [np.zeros(s) for s in shape]  # corrections of readings, without biases
    prior = np.zeros(size)
    prior[size - len(biases) :] = [1.0 / s**2 for _, _, s in biases]
    history: list[float] = []
    converged, done, normal, cost = False, 0, np.zeros((*batch, size, size)), np.zeros(batch)
    for _ in range(iterations):
        done += 1
        inertia = x[..., :rank] @ theory.lift.T
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
            weights = _Weights(task, adjusted, slopes, sigmas[i])
            gap = np.einsum("...tmp,...p->...tm", linear.matrix, inertia) - linear.known
            columns = [linear.matrix @ theory.lift]
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
        step = solve_scaled(normal, right, scale)
        x = x + step
        for i, (design, where, white, weights) in enumerate(kept):
            noise[i] = -weights.errors(white + (design @ step[..., where, None])[..., 0])
        history.append(float(np.mean(cost)))
        moved = step[..., :rank] / np.sqrt(1.0 / np.maximum(np.einsum("...ii->...i", normal)[..., :rank], 1e-300))
        size_of_step = np.abs(step[..., :rank]) / task.sizes
        if np.all(np.abs(moved) < tolerance) or np.all(size_of_step < 1e-15):
            converged = True
            break
    information = Information(theory, x[..., :rank], eliminate(normal, rank), task.sizes)
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
        equations - rank - 6 * len(unknown),
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

    iterations: int = 8
    tolerance: float = 1e-6

    def solve(self, task: Task) -> Estimate:
        fit = fit_total(task, iterations=self.iterations, tolerance=self.tolerance)
        information = fit.information
        samples = sum(record.times.size for record in task.records)
        return Estimate(
            task.theory.names,
            task.theory.units,
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
