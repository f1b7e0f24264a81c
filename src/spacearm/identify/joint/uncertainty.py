"""Uncertainty beyond standard deviations: profile likelihoods and posterior samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.estimate import Problem
from spacearm.identify.joint.identify import JointFit
from spacearm.identify.least_squares import LeastSquares
from spacearm.model.parts import Array

#: Rise of twice the cost at the ends of a 95 % interval of one parameter (chi-square, one degree of freedom).
RISE_95 = 3.841458820694124


@dataclass(frozen=True, eq=False)
class Profile:
    """Least misfit with one parameter held at each of ``values``: ``rise`` is twice the cost above its minimum."""

    name: str
    values: Array
    rise: Array
    interval: tuple[float, float]  # 95 %; infinite where the rise does not reach its ends within the profile


def profile_likelihood(fit: JointFit, name: str, *, span: float = 3.0, points: int = 11) -> Profile:
    """The profile of one parameter over ``+-span`` standard deviations, every other parameter fitted anew."""
    index = fit._index(name)
    sd = float(fit.estimate.std[index])
    if not (np.isfinite(sd) and sd > 0):
        raise InputError(f"{name!r} has no finite standard deviation", place="profile likelihood")
    if points < 5:
        raise InputError(f"{points} points", place="profile likelihood", hint="expected five or more")
    problem, best = fit.model.problem(), fit.estimate.values
    parameter = problem.parameters[index]
    values = np.clip(best[index] + np.linspace(-span, span, points) * sd, parameter.lower, parameter.upper)
    values = np.unique(np.append(values, best[index]))
    others = [i for i in range(best.size) if i != index]
    lowest = _deviance(problem, best)
    rise = np.zeros(values.size)
    middle = int(np.argmin(np.abs(values - best[index])))
    for order in (range(middle, values.size), range(middle, -1, -1)):
        start = best[others]
        for k in order:
            start, rise[k] = _conditional(problem, index, others, float(values[k]), start)
    rise = rise - min(lowest, float(rise.min()))
    return Profile(fit.estimate.names[index], values, rise, _interval(values, rise, middle))


def _deviance(problem: Problem, x: Array) -> float:
    """Twice the negative log-likelihood up to a constant."""
    r = problem.weighted(x)
    total = float(r @ r)
    return total if problem.sigma is not None else r.size * float(np.log(max(total / r.size, 1e-300)))


def _conditional(problem: Problem, index: int, others: list[int], value: float, start: Array) -> tuple[Array, float]:
    """The best of the other parameters with one held."""
    if not others:
        return start, _deviance(problem, np.array([value]))

    def whole(rest: Array) -> Array:
        full = np.empty(len(others) + 1)
        full[others], full[index] = rest, value
        return full

    from dataclasses import replace

    jacobian = problem.jacobian
    assert jacobian is not None
    kept = [
        replace(
            problem.parameters[i], guess=float(np.clip(x, problem.parameters[i].lower, problem.parameters[i].upper))
        )
        for i, x in zip(others, start, strict=True)
    ]
    inner = Problem(kept, lambda r: problem.residual(whole(r)), lambda r: jacobian(whole(r))[:, others],
                    sigma=problem.sigma)  # fmt: skip
    found = LeastSquares(tolerance=1e-6, uncertainty=False).solve(inner)
    return found.values, _deviance(problem, whole(found.values))


def _interval(values: Array, rise: Array, middle: int) -> tuple[float, float]:
    ends = []
    for side in (range(middle, -1, -1), range(middle, values.size)):
        end = -np.inf if side.step < 0 else np.inf
        previous = middle
        for k in side:
            if rise[k] >= RISE_95 and k != previous:
                # The root of the rise is nearly linear in the parameter.
                low, high = np.sqrt(max(rise[previous], 0.0)), np.sqrt(rise[k])
                share = (np.sqrt(RISE_95) - low) / (high - low)
                end = float(values[previous] + share * (values[k] - values[previous]))
                break
            previous = k
        ends.append(float(end))
    return ends[0], ends[1]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Samples (S, p) of the parameters given the data, flat prior within the bounds."""

    names: tuple[str, ...]
    samples: Array
    acceptance: float
    effective: float  # number of independent samples that these are worth
    evaluations: int

    @property
    def mean(self) -> Array:
        found: Array = self.samples.mean(axis=0)
        return found

    @property
    def covariance(self) -> Array:
        return np.atleast_2d(np.cov(self.samples, rowvar=False))

    @property
    def std(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central interval of this probability for each parameter."""
        low, high = np.quantile(self.samples, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high


def sample_posterior(
    fit: JointFit, *, walkers: int | None = None, steps: int = 200, burn: int = 40, seed: int = 0
) -> Posterior:
    """Samples by an affine-invariant ensemble (J. Goodman, J. Weare, Comm. Appl. Math. Comp. Sci. 5, 2010).

    The walkers start from the fit's normal approximation, which makes the burn-in short.
    """
    problem = fit.model.problem()
    best, p = fit.estimate.values, fit.estimate.values.size
    count = walkers or max(2 * p + 2, 12)
    count += count % 2
    if steps < 1 or burn < 0:
        raise InputError(f"{steps} steps after {burn}", place="posterior", hint="expected at least 1 after at least 0")
    if count < 2 * p:
        raise InputError(f"{count} walkers for {p} parameters", place="posterior", hint=f"expected {2 * p} or more")
    rng = np.random.default_rng(seed)
    sd = np.where(np.isfinite(fit.estimate.std), fit.estimate.std, problem.sizes)
    lower, upper = problem.lower, problem.upper
    covariance = fit.estimate.covariance
    if covariance is not None and np.all(np.isfinite(covariance)):
        spread = rng.multivariate_normal(np.zeros(p), covariance, size=count, method="svd")
    else:
        spread = sd * rng.standard_normal((count, p))
    inside = 1e-9 * problem.sizes
    x = np.clip(best + spread, lower + inside, upper - inside)
    evaluations = 0

    def log_probability(points: Array) -> Array:
        nonlocal evaluations
        result = np.full(len(points), -np.inf)
        for i, point in enumerate(points):
            if np.all(point >= lower) and np.all(point <= upper):
                evaluations += 1
                value = -0.5 * _deviance(problem, point)
                result[i] = value if np.isfinite(value) else -np.inf
        return result

    now = log_probability(x)
    half = count // 2
    kept, accepted = np.empty((steps, count, p)), 0
    for step in range(-burn, steps):
        for first in (0, half):
            mine, other = slice(first, first + half), x[half - first : half - first + half]
            stretch = (1.0 + rng.random(half)) ** 2 / 2.0  # density 1 / sqrt(z) on [1/2, 2]
            partner = other[rng.integers(half, size=half)]
            trial = partner + stretch[:, None] * (x[mine] - partner)
            fresh = log_probability(trial)
            take = np.log(rng.random(half)) < (p - 1) * np.log(stretch) + fresh - now[mine]
            x[mine] = np.where(take[:, None], trial, x[mine])
            now[mine] = np.where(take, fresh, now[mine])
            accepted += int(take.sum()) if step >= 0 else 0
        if step >= 0:
            kept[step] = x
    return Posterior(fit.estimate.names, kept.reshape(-1, p), accepted / (steps * count), _effective(kept), evaluations)


def _effective(chains: Array) -> float:
    """Number of samples over the integrated autocorrelation time, the worst parameter's (A. Sokal's window)."""
    steps, count, p = chains.shape
    worst = 1.0
    for i in range(p):
        centred = chains[:, :, i] - chains[:, :, i].mean()
        size = 2 ** int(np.ceil(np.log2(2 * steps)))
        power = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
        rho = np.fft.irfft(power, axis=0)[:steps].mean(axis=1)
        if rho[0] <= 0:
            continue
        times = 2.0 * np.cumsum(rho / rho[0]) - 1.0
        beyond = np.flatnonzero(np.arange(steps) >= 5.0 * times)
        worst = max(worst, float(times[beyond[0]] if beyond.size else times[-1]))
    return float(steps * count / worst)
