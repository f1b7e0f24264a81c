"""Refinement of a search by covariance matrix adaptation (CMA-ES): several populations in a box, judged in batches.

For scores that jump, such as those of ejections, in which a joint just holds or just breaks loose: a search by
gradients or along the axes stalls there, and on narrow ridges. Each population is a normal distribution; it moves to
the weighted mean of the better half of its members, and learns its step and covariance from how these lie and from the
path of its means. Only ranks of scores count, so any monotone transformation of the score gives the same search.

After N. Hansen, The CMA evolution strategy: a tutorial (2016), with its default rates, the weights of the worse half
being zero. Points are (B, n) in the unit box; scores are to be made large. Members are clipped to the box, without a
penalty. The members of all populations go to one batched call; the same seed gives the same search. There are no
restarts with larger populations, and no constraints but a score of minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spacearm.typing import Array

#: A population has converged when its steps are below this share of the box.
FINEST = 1e-5
#: It has stalled when this many generations brought less than this share of its score.
_PATIENCE, _GAIN = 20, 1e-7
#: Populations nearer to each other than this share of the box, or than their own steps, are one.
_SAME = 0.02


def population_size(n: int) -> int:
    """Members of a population in ``n`` dimensions."""
    return 8 + 4 * int(np.log(n)) + n


class Population:
    """One population in the unit box of ``start.size`` dimensions."""

    def __init__(self, start: Array, worth: float, step: float, seed: Sequence[int]) -> None:
        n = start.size
        self.n, self.size = n, population_size(n)
        self.mean, self.step = start.copy(), step
        self.best, self.worth = start.copy(), worth
        self.covariance = np.eye(n)
        self.path, self.path_step = np.zeros(n), np.zeros(n)
        self.draw = np.random.default_rng(seed)
        self.generation = 0
        self.schedule: list[float] = []
        # Logarithmic weights of the better half; ``spread`` is the tutorial's mu_eff, the number of members they amount
        # to.
        weights = np.log(0.5 * (self.size + 1)) - np.log(np.arange(1, self.size // 2 + 1))
        self.weights = weights / weights.sum()
        spread = self.spread = 1.0 / float(np.square(self.weights).sum())
        # Rates as in the tutorial: c_sigma, c_c, c_1, c_mu, d_sigma, and the mean length of a normal vector.
        self.fade_step = (spread + 2.0) / (n + spread + 5.0)
        self.fade = (4.0 + spread / n) / (n + 4.0 + 2.0 * spread / n)
        self.rate_one = 2.0 / ((n + 1.3) ** 2 + spread)
        self.rate_many = min(1.0 - self.rate_one, 2.0 * (spread - 2.0 + 1.0 / spread) / ((n + 2.0) ** 2 + spread))
        self.damping = 1.0 + 2.0 * max(0.0, np.sqrt((spread - 1.0) / (n + 1.0)) - 1.0) + self.fade_step
        self.expected = np.sqrt(n) * (1.0 - 0.25 / n + 1.0 / (21.0 * n * n))

    @property
    def has_converged(self) -> bool:
        """Whether going on brings nothing: tiny steps, or no better member for long."""
        if len(self.schedule) > _PATIENCE and self.worth - self.schedule[-1 - _PATIENCE] <= _GAIN * abs(self.worth):
            return True
        return bool(self.step * np.sqrt(np.linalg.eigvalsh(self.covariance)[-1]) < FINEST)

    def ask(self) -> Array:
        """The next members (size, n) in the unit box."""
        # The eigenvectors also give the inverse square root of the covariance, which ``tell`` needs.
        values, self.axes = np.linalg.eigh(self.covariance)
        self.lengths = np.sqrt(np.maximum(values, 1e-20))
        step = self.draw.standard_normal((self.size, self.n)) * self.lengths
        members: Array = np.clip(self.mean + self.step * step @ self.axes.T, 0.0, 1.0)
        return members

    def report(self, members: Array, score: Array) -> None:
        """Learn from the members' scores; minus infinity is what is not allowed."""
        self.generation += 1
        order = np.argsort(-score, kind="stable")
        if score[order[0]] > self.worth:
            self.best, self.worth = members[order[0]].copy(), float(score[order[0]])
        self.schedule.append(self.worth)
        chosen = order[: self.weights.size]
        steps = (members[chosen] - self.mean) / self.step
        shift = self.weights @ steps
        self.mean = self.mean + self.step * shift
        # In coordinates in which the covariance is the unit matrix: there the length of a random path is known, and a
        # longer one means that steps agree and should grow.
        whitened = self.axes @ ((self.axes.T @ shift) / self.lengths)
        keep = 1.0 - self.fade_step
        self.path_step = (
            keep * self.path_step + np.sqrt(self.fade_step * (2.0 - self.fade_step) * self.spread) * whitened
        )
        length = float(np.linalg.norm(self.path_step))
        # Hansen's h_sigma: while the step itself grows fast, the covariance must not grow too.
        grown = length / np.sqrt(1.0 - keep ** (2 * self.generation)) < (1.4 + 2.0 / (self.n + 1.0)) * self.expected
        self.path = (1.0 - self.fade) * self.path
        if grown:
            self.path += np.sqrt(self.fade * (2.0 - self.fade) * self.spread) * shift
        # What the missing update of the path would have added to the variance.
        lost = 0.0 if grown else self.rate_one * self.fade * (2.0 - self.fade)
        # Rank one from the path of the means, rank mu from the members of this generation.
        self.covariance = (
            (1.0 - self.rate_one - self.rate_many + lost) * self.covariance
            + self.rate_one * np.outer(self.path, self.path)
            + self.rate_many * (steps * self.weights[:, None]).T @ steps
        )
        self.step *= float(np.exp(min(1.0, self.fade_step / self.damping * (length / self.expected - 1.0))))


def evolve(
    judge: Callable[[Array], Array],
    starts: Array,
    worth: Array,
    *,
    step: float,
    generations: int,
    seed: int,
) -> tuple[list[tuple[Array, float]], list[float]]:
    """Final points of the populations, best first, as (point, score), and the best score after each generation.

    Args:
        judge: scores (B,) of points (B, n) in the unit box, the more the better; minus infinity is not allowed.
        starts: (populations, n), each with its score in ``worth``.
        step: of the first members, as a share of the box.
    """
    populations = [
        Population(start, float(value), step, [seed, k])
        for k, (start, value) in enumerate(zip(starts, worth, strict=True))
    ]
    history = []
    for _ in range(generations):
        alive = [population for population in populations if not population.has_converged]
        if not alive:
            break
        members = [population.ask() for population in alive]
        scores = judge(np.concatenate(members))
        edges = np.cumsum([len(part) for part in members])[:-1]
        for population, part, score in zip(alive, members, np.split(scores, edges), strict=True):
            population.report(part, score)
        # Two populations on one peak are a waste of evaluations: the worse one ends.
        populations = _merge_populations(populations)
        history.append(populations[0].worth)
    return [(population.best, population.worth) for population in _merge_populations(populations)], history


def _merge_populations(populations: list[Population]) -> list[Population]:
    """The populations, best first, without those that have come to a better one's place."""
    kept: list[Population] = []
    for each in sorted(populations, key=lambda population: -population.worth):
        if all(np.abs(each.best - other.best).max() > max(_SAME, each.step) for other in kept):
            kept.append(each)
    return kept
