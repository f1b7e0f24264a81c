"""Gauss-Newton search for the most likely unknowns of an :class:`.OutputErrorProblem`.

1. Start from the nominal model, or from a linear regression of the momentum at some samples: whichever costs less.
2. A prediction that has lost the motion (attitude off by more than 0.1 rad) has useless derivatives. The fit begins
   with the first samples and takes at most twice as many each time, until the motion is tracked to the end.
3. Damped Gauss-Newton steps (K. Levenberg 1944, D. W. Marquardt 1963) by QR of the Jacobian with columns of unit
   length; normal equations would square its condition number.
4. Rejection of outliers and the choice of directions alternate with the search until neither changes.
5. Fixed numbers that are uncertain (consider parameters) join the noise last, when the linearisation holds.

Base parameters are scaled by their typical sizes. Directions of them stay at their start when the records do not show
them, show them worse than to three typical sizes (the equations are linearised: such errors are not small), or show
them through noise in the joint readings alone. The last is found by a second set of derivatives with other noise in the
joint paths: with ``N`` the squares of the difference and ``S`` the information, a direction counts where the
generalised eigenvalue of ``S`` against ``1.5 N + floor`` exceeds one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spacearm.identify._fit import Score
from spacearm.identify.inertia._record_prediction import ROWS, RecordPrediction
from spacearm.identify.inertia.identifiability import MARGIN, Identifiability, RankStage, assess_information
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.regression import WORST, LinearLeastSquares
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.optimise.consider import FixedNumber
from spacearm.optimise.diagnose import ChiSquare
from spacearm.optimise.estimate import Estimate, StopReason
from spacearm.optimise.information import ROUNDING, Information, complement, remove_directions
from spacearm.optimise.problem import Parameter
from spacearm.typing import Array

#: Steps smaller than this, in standard deviations of all unknowns together, are none.
SMALL = 1e-3
#: Below this size a step does not change the linearisation of the fixed numbers noticeably.
SETTLED = 0.1
#: Steps at most, and damping at most.
MOST_STEPS, MOST_DAMPING = 60, 1e6
#: Steps along the same paths of the joints, where these follow from the fit.
STEPS_ALONG = 3
#: Samples of a record that the regression for a start takes.
REGRESSED = 500
#: Spans that are fitted before the whole, at most, their samples at least, and how much longer the next may be.
MOST_SPANS, FEWEST, GROWTH = 16, 16, 2
#: Variance, in typical sizes squared, that stands for no prior at all.
VAGUE = 1e6


@dataclass(frozen=True, eq=False)
class OutputErrorFit:
    """Result: unknowns ``x`` of the problem, the information of the data alone about base parameters, statistics."""

    problem: OutputErrorProblem
    x: Array
    information: Information
    unseen: Array  # (r, k) directions of the base parameters, in typical sizes, that the data do not show
    covariance: Array  # (p, p) of all unknowns, with all priors; zero along what stays as it is
    cost: float
    freedom: int
    outliers: int
    history: Array
    reason: StopReason
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
    def channel_squares(self) -> dict[tuple[str, str], ChiSquare]:
        """Chi-square of each channel of each record; its degrees of freedom are a share of the whole's."""
        found, share = {}, self.freedom / max(self.problem.samples, 1)
        rows = self.problem.residuals(self.x)
        for name, data in zip(rows, self.problem.records, strict=False):
            white = np.stack([*rows[name].values()], axis=1)
            for channel, own in data.rows.items():
                if count := int(data.present[:, own].sum()):
                    found[name, channel] = ChiSquare(float(np.sum(white[:, own] ** 2)), share * count)
        return found

    @cached_property
    def consider_effects(self) -> dict[FixedNumber, Array]:
        """What one standard deviation of each fixed number that is uncertain does to the unknowns (p,)."""
        consider = self.problem.consider
        if consider is None:
            return {}
        effects = consider.effects(self.covariance, self.problem.rows(self.x)[1])
        return dict(zip(consider.numbers, effects.T, strict=True))

    @cached_property
    def prior_test(self) -> Score | None:
        """Chi-square test of the data against the prior; None where no number has a finite, non-zero deviation."""
        prior, base = self.problem.prior, self.problem.base
        if prior is None or not np.any(_finite(prior)):
            return None
        scale = typical_sizes(self.problem.robot)
        # A finite but huge variance stands in for no prior: it keeps the matrix finite and absorbs these directions.
        spread = np.where(np.isfinite(prior.sigma), prior.sigma, np.sqrt(VAGUE) * scale) ** 2
        root = self.information.root
        away = root @ (self.information.values - base.combine @ prior.mean)
        # Covariance of the difference: one from the data, whitened by their root, plus that of the prior.
        total = np.eye(away.size) + root @ (base.combine * spread) @ base.combine.T @ root.T
        # Directions that numbers without a prior can absorb test nothing: no degrees of freedom.
        open_ = (root @ base.combine)[:, ~np.isfinite(prior.sigma)]
        freedom = away.size - (int(np.linalg.matrix_rank(open_)) if open_.size else 0)
        if freedom < 1:
            return None
        misfit = float(away @ np.linalg.solve(total, away))
        meaning = "the nominal model is off by more than stated"
        return Score("prior", misfit, freedom, meaning, "widen the prior", doubt=self.problem.noise_variance_std)


def assess_fit(fit: OutputErrorFit) -> Identifiability:
    """How many combinations the records determine, one after the other."""
    problem, rank = fit.problem, fit.problem.base.rank
    sizes, stack = problem.sizes, np.zeros((0, len(problem.parameters)))
    stages: list[RankStage] = []
    beliefs = [np.eye(sizes.size)[[i]] / sigma for i, _, sigma in problem._priors]
    for data, (_, columns) in zip(problem.records, problem.compute_white_residuals(fit.x), strict=True):
        # Sequential QR: the triangle of the records so far stands for all their rows. With base parameters last, its
        # lower right block is the root of their information after all other unknowns are eliminated.
        rows = np.concatenate([stack, columns.reshape(-1, sizes.size) * sizes])
        stack = _triangle(np.concatenate([rows[:, rank:], rows[:, :rank]], axis=1))
        # Priors on nuisances are added to a copy: in the stack they would count once for each record.
        whole = _triangle(np.concatenate([stack, *(np.roll(b * sizes, -rank, axis=1) for b in beliefs)]))
        singular = np.asarray(
            np.linalg.svd(whole[sizes.size - rank :, sizes.size - rank :], compute_uv=False), np.float64
        )
        stack = np.roll(stack, rank, axis=1)
        # A rank as judged by its size alone; that of the fit, which knows noise in the joint paths, is an upper bound.
        now = min(int(np.sum(singular > 1.0 / WORST)), fit.information.rank)
        condition = float(singular[0] / singular[now - 1]) if now else float("inf")
        stages.append(RankStage(data.record.name, now, now - (stages[-1].rank if stages else 0), condition, singular))
    stages[-1] = replace(stages[-1], rank=fit.information.rank)
    return assess_information(fit.information, problem.base, fit.unseen, stages)


def _finite(prior: Prior) -> npt.NDArray[np.bool_]:
    return np.isfinite(prior.sigma) & (prior.sigma > 0.0)


def fit_output_error(
    problem: OutputErrorProblem,
    start: Array | None = None,
    *,
    judge: bool = True,
    consider: Mapping[str, float] | None = None,
) -> OutputErrorFit:
    """Start from the nominal model or from the momentum at each sample, whichever fits better; then all samples.

    Readings far off their prediction are left out as the fit goes on: ``outliers``.

    Args:
        start: unknowns to go on from instead.
        judge: look for directions that the data do not show; without, all are taken as shown, by them or by a prior.
        consider: standard deviations of fixed numbers (:meth:`.OutputErrorProblem.consider_parameters`).
    """
    begin = time.perf_counter()
    problem.hide_isolated_readings()
    starts = [] if start is None else [start]
    starts = starts or [problem.start_unknowns(values) for values in (problem.zero, *_regressions(problem))]
    # A poor nominal model loses the motion, the regression is biased by noise: neither is always the better start.
    costs = [_cost(problem.residual_vector(x)) for x in starts]
    search = _GaussNewton(problem, starts[int(np.argmin(costs))])
    _extend_tracking(search, judge)
    # Better inertias reveal outliers, and fewer outliers better inertias. Near ones are judged when all far ones are
    # out: inertias that far ones falsify make good readings look like near ones.
    near = False
    for _ in range(10):
        search.run_along_paths()
        cut = problem.reject_outliers(search.x, adapt=near)
        if not cut and not near:
            near, cut = True, problem.reject_outliers(search.x)
        changed = judge and search.update_directions()
        if not (cut or changed) or not search.reason.has_converged:
            break
    if consider and np.isfinite(search.cost(search.x)):
        search.run_with_fixed_numbers(consider)
    information, covariance = search.extract_information()
    # Degrees of freedom: readings and priors on single unknowns, less the directions that were fitted.
    left = problem.samples + len(problem._priors) - search.steps.shape[1] - round(problem.truncated)
    return OutputErrorFit(
        problem,
        search.x,
        information,
        search.unseen,
        covariance,
        _cost(problem.residual_vector(search.x)),
        max(left, 1),
        sum(int(far.sum()) for far in problem.outliers),
        np.array(search.history),
        search.reason,
        time.perf_counter() - begin,
    )


def _extend_tracking(search: _GaussNewton, judge: bool) -> None:
    """Bring the search to where the motion is followed to the end, by fits of growing spans from the first sample.

    A body that tumbles for long is lost by a start that is known from the first readings alone.
    """
    records = search.problem.records
    given, before = [data.present for data in records], [0] * len(records)
    coherent = search.problem.count_coherent_samples()
    for _ in range(MOST_SPANS):
        ends = [max(end, FEWEST) for end in search.problem.count_tracked_samples(search.x)]
        # Never more than twice the last span, however far a poor fit happens to track; the first no longer than modes
        # are known to stay in step.
        ends = [
            min(end, GROWTH * was or max(first, FEWEST)) for end, was, first in zip(ends, before, coherent, strict=True)
        ]
        # Either the whole is tracked, or the span no longer grows: then all samples are taken as they are.
        if all(end >= len(whole) for end, whole in zip(ends, given, strict=True)) or ends == before:
            break
        # Later readings are hidden, not cut off, so that the motion and its caches keep their shapes.
        for data, whole, end in zip(records, given, ends, strict=True):
            data.present = whole & (np.arange(len(whole)) < end)[:, None]
        search.reset(judge)
        search.run_along_paths()
        before = ends
    for data, whole in zip(records, given, strict=True):
        data.present = whole
    search.reset(judge)


def predict_information(problem: OutputErrorProblem) -> Information:
    """What records without noise will tell about the base parameters of the problem's robot, and what is believed."""
    rank, sizes = problem.base.rank, problem.sizes
    jacobian = problem.residual_jacobian(problem.guess) * sizes
    # Lower right block of the triangle: initial states and nuisances are eliminated.
    root = _triangle(np.concatenate([jacobian[:, rank:], jacobian[:, :rank]], axis=1))[-rank:, -rank:]
    rows = np.concatenate([root, _prior_rows(problem)[0] * sizes[:rank]])
    return Information(problem.zero, sizes[:rank], *np.linalg.eigh(rows.T @ rows))


def _triangle(rows: Array) -> Array:
    return np.asarray(np.linalg.qr(rows, mode="r"))


def _cost(residual: Array) -> float:
    cost = 0.5 * float(residual @ residual)
    return cost if np.isfinite(cost) else np.inf


def _regressions(problem: OutputErrorProblem) -> list[Array]:
    """Base parameters by the momentum at some samples: linear, so that a poor nominal model does no harm."""
    for data in problem.records:
        readings = data.record.readings
        if not all(name in readings and np.isfinite(readings[name]).all(axis=1).any() for name in ROWS):
            return []
    records = [_prepare_regression(data) for data in problem.records]
    return [LinearLeastSquares().solve(InertiaProblem(problem.robot, records, prior=problem.prior)).values]


def _prepare_regression(data: RecordPrediction) -> MotionRecord:
    """Some of the samples, missing readings filled, the thrusters' impulse summed over all samples."""
    record, readings = data.record, {}
    for name in ROWS:
        values = record.readings[name]
        # The regression needs all channels at one sample; interpolation is good enough for a start.
        whole = np.isfinite(values).all(axis=1)
        columns = [np.interp(record.times, record.times[whole], column[whole]) for column in values.T]
        readings[name] = np.stack(columns, axis=1)
    readings["attitude"] /= np.linalg.norm(readings["attitude"], axis=1, keepdims=True)
    if data.robot.n:
        readings |= {"joint_position": data.path.joints, "joint_rate": data.path.rates}
    whole_record = replace(record, readings=readings, bias_sigma={}, wrench=0.0 * record.wrench, thrusters={})
    if data.thrusters:
        origin, _, rotation = whole_record.pose()
        # The impulse is summed before the record is thinned, or firings between the kept samples would be lost. World
        # axes, moments about the world's origin, midpoint rule.
        middle, place = 0.5 * (rotation[1:] + rotation[:-1]), 0.5 * (origin[1:] + origin[:-1])
        wrench = data.motion.inputs.mean_wrench().sum(axis=0) * np.diff(record.times)[:, None]
        force, moment = (np.einsum("tij,tj->ti", middle, part) for part in np.split(wrench, 2, axis=1))
        pushes = np.concatenate([force, moment + np.cross(place, force)], axis=1)
        summed = np.concatenate([np.zeros((1, 6)), np.cumsum(pushes, axis=0)])
        whole_record = replace(whole_record, given_impulse=summed)
    return whole_record.thin(-(-record.times.size // REGRESSED))


class _GaussNewton:
    """Damped Gauss-Newton steps along ``steps`` (p, k): the base parameters that the data show, and all else."""

    def __init__(self, problem: OutputErrorProblem, x: Array) -> None:
        self.problem, self.x, self.rank = problem, x, problem.base.rank
        self.sizes = problem.sizes
        self.belief, self.assumed = _prior_rows(problem)

    def reset(self, judge: bool) -> None:
        """Begin (anew) from here."""
        self.history: list[float] = []
        self.reason = StopReason.LIMIT
        self.unseen = self.held = np.zeros((self.rank, 0))
        # Columns of `steps` are the directions of the search, one typical size long.
        self.steps = np.diag(self.sizes)
        if judge:
            self.update_directions()

    def system(self) -> tuple[Array, Array]:
        """Residuals and Jacobian at x, with the prior's rows last."""
        away = self.belief @ (self.x[: self.rank] - self.assumed)
        tail = np.zeros((away.size, self.x.size))
        tail[:, : self.rank] = self.belief
        problem = self.problem
        return (
            np.concatenate([problem.residual_vector(self.x), away]),
            np.concatenate([problem.residual_jacobian(self.x), tail]),
        )

    def cost(self, x: Array) -> float:
        away = self.belief @ (x[: self.rank] - self.assumed)
        return _cost(self.problem.residual_vector(x)) + 0.5 * float(away @ away)

    def update_directions(self) -> bool:
        """Which directions the data show at x; whether these are others than before."""
        self.unseen, held = self._hidden_directions()
        changed = bool(held.shape[1] != self.held.shape[1])
        self.held = held
        if changed or self.steps.shape[1] == self.x.size:
            # Only the number of directions decides whether the search goes on with others: their exact orientation
            # changes with every step, and following it would never end.
            shown = complement(held)
            free = np.eye(self.x.size)[:, held.shape[1] :]
            free[: self.rank, : shown.shape[1]] = shown
            self.steps = self.sizes[:, None] * free
        return changed

    def _data(self) -> tuple[Array, Array]:
        """Triangle of all derivatives, base parameters last and in typical sizes, and its right side."""
        residual, jacobian = self.problem.residual_vector(self.x), self.problem.residual_jacobian(self.x) * self.sizes
        # The order (others, base parameters, residual) makes one QR eliminate the others and project the residual.
        reordered = np.concatenate([jacobian[:, self.rank :], jacobian[:, : self.rank], residual[:, None]], axis=1)
        triangle = _triangle(reordered)
        at = self.x.size - self.rank
        return triangle[at : at + self.rank, at : at + self.rank], triangle[at : at + self.rank, -1]

    def _hidden_directions(self) -> tuple[Array, Array]:
        """Orthonormal directions (r, k) in typical sizes that the data do not show, and those that no prior does."""
        root, noise = self._data()[0], np.zeros((self.rank, self.rank))
        sizes = self.sizes[: self.rank]
        for i, data in enumerate(self.problem.records):
            if not np.any(data.path.variance):
                continue
            # The same derivatives along a path with an independent draw of the encoders' noise. What both have in
            # common comes from the motion; the squares of their difference are information that noise alone makes.
            other = (
                self.problem.whiten_record(i, self.x, motion=data.linearise_with_noise(i))[1]
                - self.problem.compute_white_residuals(self.x)[i][1]
            )
            change = other[..., : self.rank].reshape(-1, self.rank) * sizes
            noise += change.T @ change
        # The motion breaks off with this draw: no judgement is possible, so all directions stay in.
        if not np.all(np.isfinite(noise)):
            return np.zeros((self.rank, 0)), np.zeros((self.rank, 0))
        seen, assumed = root.T @ root, self.belief * sizes
        return _find_hidden(seen, noise), _find_hidden(seen + assumed.T @ assumed, noise)

    def run_with_fixed_numbers(self, deviations: Mapping[str, float]) -> None:
        """Steps with the errors of fixed numbers among the noise, linearised anew before each: a large error of a
        fixed number and what it does to the unknowns multiply each other."""
        for _ in range(MOST_STEPS):
            # Their columns depend on x, and they change the metric of the residuals: one step, then both anew.
            self.problem.consider = self.problem.consider_parameters(self.x, deviations)
            size = self.run(1)
            if self.reason is StopReason.LIMIT and size < SETTLED:
                self.reason = StopReason.SMALL_STEP
            if self.problem.consider is None or self.reason is not StopReason.LIMIT:
                return

    def run_along_paths(self) -> None:
        """Steps until they are small; where modes move, derivatives follow the most likely paths of the joints."""
        for _ in range(MOST_STEPS):
            moved = self.problem.correct_paths(self.x)
            size = self.run(STEPS_ALONG if moved else MOST_STEPS)
            if self.reason is not StopReason.LIMIT or len(self.history) >= MOST_STEPS:
                break
            if moved and size < SETTLED:
                self.reason = StopReason.SMALL_STEP
                break

    def run(self, steps: int = MOST_STEPS) -> float:
        """Steps until they are small; the size of the last, in standard deviations."""
        damping, size, cost = 0.0, np.inf, self.cost(self.x)
        self.reason = StopReason.LIMIT if np.isfinite(cost) else StopReason.NOT_FINITE
        residual, jacobian = self.system()
        last = min(MOST_STEPS, len(self.history) + steps)
        while len(self.history) < last and np.isfinite(cost):
            self.history.append(cost)
            # Columns of unit length: damping then acts alike on unknowns of every unit.
            columns = jacobian @ self.steps
            norms = np.linalg.norm(columns, axis=0)
            norms[norms == 0.0] = 1.0
            # The residual as a last column comes out projected, so that Q is never formed.
            triangle = _triangle(np.column_stack([columns / norms, residual]))
            r, right = triangle[: norms.size, : norms.size], triangle[: norms.size, -1]
            damped = np.concatenate([r, np.sqrt(damping) * np.eye(norms.size)])
            # A minimum-norm solution: what this Jacobian cannot tell apart does not move.
            change = np.linalg.lstsq(damped, -np.concatenate([right, np.zeros(norms.size)]), rcond=1e-13)[0]
            # Residuals have unit variance, so this is the length of the step in standard deviations of all unknowns.
            size = float(np.linalg.norm(r @ change))
            if size < SMALL:
                self.reason = StopReason.CONVERGED
                return size
            trial = self.problem.apply_step(self.x, self.steps @ (change / norms))
            then = self.cost(trial)
            # The whitening depends on x, so the cost is not exactly the function whose gradient is followed: a step of
            # less than one deviation may raise it by a little without harm.
            if then < cost or (size < 1.0 and then < cost + 0.5 * size):
                self.x, cost, damping = trial, then, 0.1 * damping if damping > 1e-6 else 0.0
                residual, jacobian = self.system()
            elif damping > MOST_DAMPING:
                self.reason = StopReason.STALLED
                return size
            else:
                damping = max(10.0 * damping, 1e-4)
        return size

    def extract_information(self) -> tuple[Information, Array]:
        """What the data alone say about the base parameters, and deviations of all unknowns with priors."""
        root, right = self._data()
        sizes = self.sizes[: self.rank]
        shown = complement(self.unseen)
        # x is the optimum with priors; the data's own is one more Gauss-Newton step away, along what they show.
        own = shown @ np.linalg.lstsq(root @ shown, -right, rcond=None)[0] if np.any(self.belief) else 0.0 * sizes
        matrix = remove_directions((root.T @ root) / sizes[:, None] / sizes, self.unseen, sizes)
        information = Information.from_matrix(self.x[: self.rank] + own * sizes, matrix, sizes)
        columns = self.system()[1] @ self.steps
        norms = np.linalg.norm(columns, axis=0)
        norms[norms == 0.0] = 1.0
        inverse = np.linalg.pinv(_triangle(columns / norms), rcond=1e-13)
        half = (self.steps / norms) @ inverse
        return information, half @ half.T


def _find_hidden(seen: Array, noise: Array) -> Array:
    """Orthonormal directions along which this information is not clearly more than what noise alone makes."""
    from scipy.linalg import eigh

    # The floor excludes what rounding makes and what is known worse than to WORST typical sizes.
    floor = ROUNDING * float(np.trace(seen)) + WORST**-2
    values, vectors = eigh(seen, MARGIN * noise + floor * np.eye(seen.shape[0]))
    basis, _ = np.linalg.qr(vectors[:, values < 1.0])
    return np.asarray(basis)


def _prior_rows(problem: OutputErrorProblem) -> tuple[Array, Array]:
    """Rows (k, r) whose product with a change of the base parameters is its misfit with the prior, and its mean."""
    prior, base = problem.prior, problem.base
    if prior is None or not np.any(_finite(prior)):
        return np.zeros((0, base.rank)), problem.zero
    sizes = problem.sizes[: base.rank]
    shares = base.combine / sizes[:, None]
    # A base parameter with a term that has no prior is unbounded by the prior: only combinations orthogonal to all
    # such terms get a row.
    left, values, _ = np.linalg.svd(shares[:, ~np.isfinite(prior.sigma)], full_matrices=True)
    rest = left[:, int(np.sum(values > 1e-9 * values.max(initial=0.0))) :]
    # Independent deviations of the single numbers become a covariance of the combinations; its inverse root whitens.
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
