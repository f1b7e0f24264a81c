"""Uncertainty beyond standard deviations: profile likelihoods, and samples of the posterior.

The covariance of an estimate takes the model to be linear in its parameters. Where it is not, a profile shows the least
misfit with one parameter held, all others fitted anew: its 95 % interval is where twice the cost rises by 3.84 (S. S.
Wilks 1938). Samples show the whole distribution, for flat priors within the bounds and the priors that are stated. With
unknown noise its variance is eliminated, which makes the deviance n log(sum of squares / n). Values (p,), samples (S,
p), in the parameters' units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spacearm.checks import integer
from spacearm.errors import InputError, error_context
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.problem import Block, Problem
from spacearm.typing import Array

#: Rise of twice the cost at the ends of a 95 % interval of one parameter (chi-square, one degree of freedom).
RISE_95 = 3.841458820694124


@dataclass(frozen=True, eq=False)
class Profile:
    """Least misfit with one parameter held at each of ``values``: ``rise`` is twice the cost above its minimum."""

    name: str
    values: Array
    rise: Array
    interval: tuple[float, float]  # 95 %; infinite where the rise does not reach its ends within the profile


def profile(problem: Problem, estimate: Estimate, name: str, *, span: float = 3.0, points: int = 11) -> Profile:
    """The profile of one parameter over ``+-span`` standard deviations, every other parameter fitted anew."""
    index = estimate.names.index(name)
    sd = float(estimate.std[index])
    if not (np.isfinite(sd) and sd > 0):
        raise InputError(f"{name!r} has no finite standard deviation", place="profile likelihood")
    integer(points, "points", least=5, place="profile likelihood")
    best = estimate.values
    parameter = problem.parameters[index]
    values = np.clip(best[index] + np.linspace(-span, span, points) * sd, parameter.lower, parameter.upper)
    # The estimate itself is among them: its rise is zero.
    values = np.unique(np.append(values, best[index]))
    others = [i for i in range(best.size) if i != index]
    lowest = _deviance(problem, best)
    rise = np.zeros(values.size)
    middle = int(np.argmin(np.abs(values - best[index])))
    # Outwards from the estimate, each fit starting from its neighbour's: far out a start at the estimate may end in
    # another minimum.
    for order in (range(middle, values.size), range(middle, -1, -1)):
        start = best[others]
        for k in order:
            start, rise[k] = _conditional(problem, index, others, float(values[k]), start)
    # A fit may find less than the estimate had: count from the least of all.
    rise = rise - min(lowest, float(rise.min()))
    return Profile(name, values, rise, _interval(values, rise, middle))


def _deviance(problem: Problem, x: Array) -> float:
    """Twice the negative log-likelihood up to a constant."""
    r = problem.residual_vector(x)
    total = float(r @ r)
    return total if problem.noise_known else r.size * float(np.log(max(total / r.size, 1e-300)))


def _conditional(problem: Problem, index: int, others: list[int], value: float, start: Array) -> tuple[Array, float]:
    """The best of the other parameters with one held."""
    if not others:
        return start, _deviance(problem, np.array([value]))

    def join_values(rest: Array) -> Array:
        full = np.empty(len(others) + 1)
        full[others], full[index] = rest, value
        return full

    kept = problem.with_guess(join_values(start)).parameters
    rest = Block(
        lambda x: problem.residual_vector(join_values(x)),
        lambda x: problem.residual_jacobian(join_values(x))[:, others],
        1.0 if problem.noise_known else None,
    )
    # Priors are part of the whole problem's residuals already: counted once.
    inner = Problem([replace(kept[i], prior=None) for i in others], rest)
    found = LeastSquares(tolerance=1e-6, uncertainty=False).solve(inner)
    return found.values, _deviance(problem, join_values(found.values))


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


def sample(
    problem: Problem,
    estimate: Estimate,
    *,
    walkers: int | None = None,
    steps: int = 200,
    burn: int = 40,
    seed: int = 0,
) -> Posterior:
    """Samples by emcee's affine-invariant ensemble (D. Foreman-Mackey et al., PASP 125, 2013).

    The walkers start from the estimate's normal approximation, which makes the burn-in short.
    """
    import emcee

    p = estimate.values.size
    count = walkers or max(2 * p + 2, 12)
    # The ensemble moves in two halves.
    count += count % 2
    with error_context("posterior"):
        integer(steps, "steps", least=1)
        integer(burn, "burn", least=0)
        integer(count, "walkers", least=2 * p)
    rng = np.random.default_rng(seed)
    lower, upper = problem.lower, problem.upper
    evaluations = 0

    def log_probability(x: Array) -> float:
        nonlocal evaluations
        # Flat within the bounds, and zero beyond: the model need not exist there.
        if np.any(x < lower) or np.any(x > upper):
            return -np.inf
        evaluations += 1
        value = -0.5 * _deviance(problem, x)
        return value if np.isfinite(value) else -np.inf

    sampler = emcee.EnsembleSampler(count, p, log_probability)
    sampler.random_state = np.random.RandomState(seed).get_state()  # emcee draws from the older generator only
    sampler.run_mcmc(_walkers(problem, estimate, count, rng), burn + steps, skip_initial_state_check=True)
    chains = sampler.get_chain(discard=burn)
    # Of the slowest parameter: correlated samples are worth fewer independent ones.
    time = np.max(emcee.autocorr.integrated_time(chains, tol=0)) if steps > 1 else 1.0
    return Posterior(
        estimate.names,
        chains.reshape(-1, p),
        float(np.mean(sampler.acceptance_fraction)),
        float(steps * count / max(time, 1.0)),
        evaluations,
    )


def _walkers(problem: Problem, estimate: Estimate, count: int, rng: np.random.Generator) -> Array:
    """Starts (walkers, p) drawn from the estimate's normal approximation, inside the bounds."""
    covariance, p = estimate.covariance, estimate.values.size
    if covariance is not None and np.all(np.isfinite(covariance)):
        spread = rng.multivariate_normal(np.zeros(p), covariance, size=count, method="svd")
    else:
        spread = np.where(np.isfinite(estimate.std), estimate.std, problem.sizes) * rng.standard_normal((count, p))
    inside = 1e-9 * problem.sizes
    return np.asarray(np.clip(estimate.values + spread, problem.lower + inside, problem.upper - inside))
