"""The most likely inertias of an :class:`.OutputErrorProblem`: Gauss-Newton steps along what the data determine.

Directions of the base parameters that the records show not at all, by noise in the joints' readings alone, or worse
than to three typical sizes stay as they are. How much of the information is such noise is seen by computing the
derivatives once more with other noise in the joints' paths.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spacearm.identify.fit import Score
from spacearm.identify.inertia.identifiability import MARGIN, Identifiability, Stage, told_by
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.record_prediction import ROWS, RecordPrediction
from spacearm.identify.inertia.regression import WORST, LinearLeastSquares
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.optimise.estimate import Estimate, Reason
from spacearm.optimise.information import ROUNDING, Information, complement, without
from spacearm.optimise.problem import Parameter
from spacearm.typing import Array

#: Steps smaller than this, in standard deviations of all unknowns together, are none.
SMALL = 1e-3
#: Steps at most, and damping at most.
MOST_STEPS, MOST_DAMPING = 60, 1e6
#: Samples of a record that the regression for a start takes.
REGRESSED = 500
#: Spans that are fitted before the whole, at most, their samples at least, and how much longer the next may be.
MOST_SPANS, FEWEST, GROWTH = 16, 16, 2
#: Variance, in typical sizes squared, of a belief that is none.
VAGUE = 1e6


@dataclass(frozen=True, eq=False)
class OutputErrorFit:
    """What was found: unknowns ``x`` of the problem, what the data alone say about base parameters, and how."""

    problem: OutputErrorProblem
    x: Array
    information: Information
    unseen: Array  # (r, k) directions of the base parameters, in typical sizes, that the data do not show
    covariance: Array  # (p, p) of all unknowns, with all priors; zero along what stays as it is
    cost: float
    freedom: int
    outliers: int
    history: Array
    reason: Reason
    seconds: float

    @cached_property
    def estimate(self) -> Estimate:
        """Base parameters as the data alone have them, and nuisances."""
        problem, rank = self.problem, self.problem.base.rank
        others = slice(rank, rank + sum(problem.size(name) for name in problem.nuisances))
        count = others.stop - rank
        covariance = self.covariance[: others.stop, : others.stop].copy()
        covariance[:rank, :rank] = self.information.covariance
        return Estimate(
            problem.parameters[: others.stop],
            np.concatenate([self.information.values, self.x[others]]),
            covariance,
            self.cost,
            "output error" + (f" with {', '.join(problem.nuisances)}" if count else ""),
            self.reason,
            self.history.size,
            self.history.size,
            self.history,
            self.seconds,
            self.information,
            problem.residuals(self.x),
        )

    @cached_property
    def against_prior(self) -> Score | None:
        """How far the data are from what was believed before, where that is neither nothing nor exact."""
        prior, base = self.problem.prior, self.problem.base
        if prior is None or not np.any(_finite(prior)):
            return None
        scale = typical_sizes(self.problem.robot)
        spread = np.where(np.isfinite(prior.sigma), prior.sigma, np.sqrt(VAGUE) * scale) ** 2
        root = self.information.root
        away = root @ (self.information.values - base.combine @ prior.mean)
        total = np.eye(away.size) + root @ (base.combine * spread) @ base.combine.T @ root.T
        open_ = (root @ base.combine)[:, ~np.isfinite(prior.sigma)]
        freedom = away.size - (int(np.linalg.matrix_rank(open_)) if open_.size else 0)
        if freedom < 1:
            return None
        misfit = float(away @ np.linalg.solve(total, away))
        return Score("prior", misfit, freedom, "the drawing is not what it is taken for", doubt=self.problem.doubt)


def shown_by(fit: OutputErrorFit) -> Identifiability:
    """How many combinations the records determine, one after the other."""
    problem, rank = fit.problem, fit.problem.base.rank
    sizes, stack = problem.sizes, np.zeros((0, len(problem.parameters)))
    stages: list[Stage] = []
    beliefs = [np.eye(sizes.size)[[i]] / sigma for i, _, sigma in problem._priors]
    for data, (_, columns) in zip(problem.records, problem.white(fit.x), strict=True):
        rows = np.concatenate([stack, columns.reshape(-1, sizes.size) * sizes])
        stack = _triangle(np.concatenate([rows[:, rank:], rows[:, :rank]], axis=1))
        whole = _triangle(np.concatenate([stack, *(np.roll(b * sizes, -rank, axis=1) for b in beliefs)]))
        singular = np.asarray(
            np.linalg.svd(whole[sizes.size - rank :, sizes.size - rank :], compute_uv=False), np.float64
        )
        stack = np.roll(stack, rank, axis=1)
        now = min(int(np.sum(singular > 1.0 / WORST)), fit.information.rank)
        condition = float(singular[0] / singular[now - 1]) if now else float("inf")
        stages.append(Stage(data.record.name, now, now - (stages[-1].rank if stages else 0), condition, singular))
    stages[-1] = replace(stages[-1], rank=fit.information.rank)
    return told_by(fit.information, problem.base, fit.unseen, stages)


def _finite(prior: Prior) -> npt.NDArray[np.bool_]:
    return np.isfinite(prior.sigma) & (prior.sigma > 0.0)


def fit_output_error(problem: OutputErrorProblem, start: Array | None = None, *, judge: bool = True) -> OutputErrorFit:
    """Start from the drawing or from the momentum at each sample, whichever fits better; then all samples.

    Readings far off their prediction are left out as the fit goes on: ``outliers``.

    Args:
        start: unknowns to go on from instead.
        judge: look for directions that the data do not show; without, all are taken as shown, by them or by a prior.
    """
    begin = time.perf_counter()
    starts = [] if start is None else [start]
    starts = starts or [problem.started(values) for values in (problem.zero, *_regressions(problem))]
    costs = [_cost(problem.weighted(x)) for x in starts]
    search = _Search(problem, starts[int(np.argmin(costs))])
    _follow(search, judge)
    outliers = 0
    for _ in range(10):
        search.run()
        cut = problem.without_outliers(search.x)
        outliers += cut
        changed = judge and search.look()
        if not (cut or changed) or not search.reason.converged:
            break
    information, covariance = search.found()
    left = problem.samples + len(problem._priors) - search.steps.shape[1]
    return OutputErrorFit(
        problem,
        search.x,
        information,
        search.unseen,
        covariance,
        _cost(problem.weighted(search.x)),
        max(left, 1),
        outliers,
        np.array(search.history),
        search.reason,
        time.perf_counter() - begin,
    )


def _follow(search: _Search, judge: bool) -> None:
    """Bring the search to where the motion is followed to the end, by fits of growing spans from the first sample.

    A body that tumbles for long is lost by a start that is known from the first readings alone.
    """
    records = search.problem.records
    given, before = [data.present for data in records], [0] * len(records)
    for _ in range(MOST_SPANS):
        ends = [max(end, FEWEST) for end in search.problem.followed(search.x)]
        ends = [min(end, GROWTH * was or end) for end, was in zip(ends, before, strict=True)]
        if all(end >= len(whole) for end, whole in zip(ends, given, strict=True)) or ends == before:
            break
        for data, whole, end in zip(records, given, ends, strict=True):
            data.present = whole & (np.arange(len(whole)) < end)[:, None]
        search.reset(judge)
        search.run()
        before = ends
    for data, whole in zip(records, given, strict=True):
        data.present = whole
    search.reset(judge)


def expected_information(problem: OutputErrorProblem) -> Information:
    """What records without noise will tell about the base parameters of the problem's robot, and what is believed."""
    rank, sizes = problem.base.rank, problem.sizes
    jacobian = problem.weighted_jacobian(problem.guess) * sizes
    root = _triangle(np.concatenate([jacobian[:, rank:], jacobian[:, :rank]], axis=1))[-rank:, -rank:]
    rows = np.concatenate([root, _belief(problem)[0] * sizes[:rank]])
    return Information(problem.zero, sizes[:rank], *np.linalg.eigh(rows.T @ rows))


def _triangle(rows: Array) -> Array:
    return np.asarray(np.linalg.qr(rows, mode="r"))


def _cost(residual: Array) -> float:
    cost = 0.5 * float(residual @ residual)
    return cost if np.isfinite(cost) else np.inf


def _regressions(problem: OutputErrorProblem) -> list[Array]:
    """Base parameters by the momentum at some samples: linear, so that a poor drawing does no harm."""
    if not all(_read(data.record, name) for data in problem.records for name in ROWS):
        return []
    records = [_for_regression(data) for data in problem.records]
    return [LinearLeastSquares().solve(InertiaProblem(problem.robot, records, prior=problem.prior)).values]


def _read(record: Record, name: str) -> bool:
    """Whether a channel has any reading at all."""
    return name in record.readings and bool(np.isfinite(record.readings[name]).all(axis=1).any())


def _for_regression(data: RecordPrediction) -> Record:
    """Some of the samples, missing readings filled, the thrusters' impulse summed over all samples."""
    record, readings = data.record, {}
    for name in ROWS:
        values = record.readings[name]
        whole = np.isfinite(values).all(axis=1)
        columns = [np.interp(record.times, record.times[whole], column[whole]) for column in values.T]
        readings[name] = np.stack(columns, axis=1)
    readings["attitude"] /= np.linalg.norm(readings["attitude"], axis=1, keepdims=True)
    if data.robot.n:
        readings |= {"joint_position": data.path.joints, "joint_rate": data.path.rates}
    whole_record = replace(record, readings=readings, bias_sigma={}, wrench=0.0 * record.wrench, thrusters={})
    if data.thrusters:
        origin, _, rotation = whole_record.pose()
        middle, place = 0.5 * (rotation[1:] + rotation[:-1]), 0.5 * (origin[1:] + origin[:-1])
        wrench = data.motion.inputs.mean_wrench().sum(axis=0) * np.diff(record.times)[:, None]
        force, moment = (np.einsum("tij,tj->ti", middle, part) for part in np.split(wrench, 2, axis=1))
        pushes = np.concatenate([force, moment + np.cross(place, force)], axis=1)
        summed = np.concatenate([np.zeros((1, 6)), np.cumsum(pushes, axis=0)])
        whole_record = replace(whole_record, given_impulse=summed)
    return whole_record.thinned(-(-record.times.size // REGRESSED))


class _Search:
    """Damped Gauss-Newton steps along ``steps`` (p, k): the base parameters that the data show, and all else."""

    def __init__(self, problem: OutputErrorProblem, x: Array) -> None:
        self.problem, self.x, self.rank = problem, x, problem.base.rank
        self.sizes = problem.sizes
        self.belief, self.believed = _belief(problem)

    def reset(self, judge: bool) -> None:
        """Begin (anew) from here."""
        self.history: list[float] = []
        self.reason = Reason.LIMIT
        self.unseen = self.held = np.zeros((self.rank, 0))
        self.steps = np.diag(self.sizes)
        if judge:
            self.look()

    def system(self) -> tuple[Array, Array]:
        """Residuals and Jacobian at x, with the prior's rows last."""
        away = self.belief @ (self.x[: self.rank] - self.believed)
        tail = np.zeros((away.size, self.x.size))
        tail[:, : self.rank] = self.belief
        problem = self.problem
        return (
            np.concatenate([problem.weighted(self.x), away]),
            np.concatenate([problem.weighted_jacobian(self.x), tail]),
        )

    def cost(self, x: Array) -> float:
        away = self.belief @ (x[: self.rank] - self.believed)
        return _cost(self.problem.weighted(x)) + 0.5 * float(away @ away)

    def look(self) -> bool:
        """Which directions the data show at x; whether these are others than before."""
        self.unseen, held = self._unseen()
        changed = bool(held.shape[1] != self.held.shape[1])
        self.held = held
        if changed or self.steps.shape[1] == self.x.size:
            shown = complement(held)
            free = np.eye(self.x.size)[:, held.shape[1] :]
            free[: self.rank, : shown.shape[1]] = shown
            self.steps = self.sizes[:, None] * free
        return changed

    def _data(self) -> tuple[Array, Array]:
        """Triangle of all derivatives, base parameters last and in typical sizes, and its right side."""
        residual, jacobian = self.problem.weighted(self.x), self.problem.weighted_jacobian(self.x) * self.sizes
        turned = np.concatenate([jacobian[:, self.rank :], jacobian[:, : self.rank], residual[:, None]], axis=1)
        triangle = _triangle(turned)
        at = self.x.size - self.rank
        return triangle[at : at + self.rank, at : at + self.rank], triangle[at : at + self.rank, -1]

    def _unseen(self) -> tuple[Array, Array]:
        """Orthonormal directions (r, k) in typical sizes that the data do not show, and those that no prior does."""
        root, noise = self._data()[0], np.zeros((self.rank, self.rank))
        sizes = self.sizes[: self.rank]
        for i, data in enumerate(self.problem.records):
            if not np.any(data.path.variance):
                continue
            other = self.problem.white_of(i, self.x, motion=data.otherwise(i))[1] - self.problem.white(self.x)[i][1]
            change = other[..., : self.rank].reshape(-1, self.rank) * sizes
            noise += change.T @ change
        if not np.all(np.isfinite(noise)):
            return np.zeros((self.rank, 0)), np.zeros((self.rank, 0))
        seen, believed = root.T @ root, self.belief * sizes
        return _hidden(seen, noise), _hidden(seen + believed.T @ believed, noise)

    def run(self) -> None:
        """Steps until they are small."""
        damping, cost = 0.0, self.cost(self.x)
        self.reason = Reason.LIMIT if np.isfinite(cost) else Reason.NOT_FINITE
        residual, jacobian = self.system()
        while len(self.history) < MOST_STEPS and np.isfinite(cost):
            self.history.append(cost)
            columns = jacobian @ self.steps
            norms = np.linalg.norm(columns, axis=0)
            norms[norms == 0.0] = 1.0
            triangle = _triangle(np.column_stack([columns / norms, residual]))
            r, right = triangle[: norms.size, : norms.size], triangle[: norms.size, -1]
            damped = np.concatenate([r, np.sqrt(damping) * np.eye(norms.size)])
            change = np.linalg.lstsq(damped, -np.concatenate([right, np.zeros(norms.size)]), rcond=1e-13)[0]
            size = float(np.linalg.norm(r @ change))
            if size < SMALL:
                self.reason = Reason.CONVERGED
                return
            trial = self.problem.stepped(self.x, self.steps @ (change / norms))
            then = self.cost(trial)
            # residuals are whitened with what is believed now: near the end the cost may rise by less than it matters
            if then < cost or (size < 1.0 and then < cost + 0.5 * size):
                self.x, cost, damping = trial, then, 0.1 * damping if damping > 1e-6 else 0.0
                residual, jacobian = self.system()
            elif damping > MOST_DAMPING:
                self.reason = Reason.STALLED
                return
            else:
                damping = max(10.0 * damping, 1e-4)

    def found(self) -> tuple[Information, Array]:
        """What the data alone say about the base parameters, and deviations of all unknowns with priors."""
        root, right = self._data()
        sizes = self.sizes[: self.rank]
        shown = complement(self.unseen)
        # the data's own optimum: where priors pull, it is elsewhere
        own = shown @ np.linalg.lstsq(root @ shown, -right, rcond=None)[0] if np.any(self.belief) else 0.0 * sizes
        matrix = without((root.T @ root) / sizes[:, None] / sizes, self.unseen, sizes)
        information = Information.from_matrix(self.x[: self.rank] + own * sizes, matrix, sizes)
        columns = self.system()[1] @ self.steps
        norms = np.linalg.norm(columns, axis=0)
        norms[norms == 0.0] = 1.0
        inverse = np.linalg.pinv(_triangle(columns / norms), rcond=1e-13)
        half = (self.steps / norms) @ inverse
        return information, half @ half.T


def _hidden(seen: Array, noise: Array) -> Array:
    """Orthonormal directions along which this information is not clearly more than what noise alone makes."""
    from scipy.linalg import eigh

    floor = ROUNDING * float(np.trace(seen)) + WORST**-2
    values, vectors = eigh(seen, MARGIN * noise + floor * np.eye(seen.shape[0]))
    basis, _ = np.linalg.qr(vectors[:, values < 1.0])
    return np.asarray(basis)


def _belief(problem: OutputErrorProblem) -> tuple[Array, Array]:
    """Rows (k, r) whose product with a change of the base parameters is its misfit with the prior, and its mean."""
    prior, base = problem.prior, problem.base
    if prior is None or not np.any(_finite(prior)):
        return np.zeros((0, base.rank)), problem.zero
    sizes = problem.sizes[: base.rank]
    shares = base.combine / sizes[:, None]
    # combinations that numbers without any belief have a share in are left to the data
    left, values, _ = np.linalg.svd(shares[:, ~np.isfinite(prior.sigma)], full_matrices=True)
    rest = left[:, int(np.sum(values > 1e-9 * values.max(initial=0.0))) :]
    spread = rest.T @ (shares[:, _finite(prior)] * prior.sigma[_finite(prior)])
    values, vectors = np.linalg.eigh(spread @ spread.T)
    kept = values > 1e-12 * values.max(initial=0.0)
    rows = (vectors[:, kept] / np.sqrt(values[kept])).T @ rest.T
    return np.asarray(rows / sizes), base.combine @ prior.mean


def nuisance_rows(fit: OutputErrorFit) -> list[tuple[Parameter, float, float]]:
    """Each number of the nuisances that were estimated, its value and standard deviation."""
    first = fit.problem.base.rank
    last = first + sum(fit.problem.size(name) for name in fit.problem.nuisances)
    std = np.sqrt(np.diag(fit.covariance))[first:last]
    return list(zip(fit.problem.parameters[first:last], fit.x[first:last], std, strict=True))
