"""The same estimator from several starts: the best is kept, and whether the others agree is reported.

Starts are drawn within the bounds, or about the guess; the same seed gives the same starts. A problem with several
minima shows as starts that end elsewhere with a higher cost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spacearm.checks import integer
from spacearm.optimise.estimate import Estimate, Estimator
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.problem import Problem


@dataclass(frozen=True)
class MultiStart:
    """Solves from the guess and from ``starts - 1`` seeded points.

    Points are drawn within the bounds, evenly in the logarithm where these are orders of magnitude apart, or around
    the guess (``spread`` in sizes of the parameters) where bounds are infinite.
    ``extra`` of the estimate: ``minima`` (all costs), ``agree`` (fraction within ``same`` of the best).
    """

    starts: int = 8
    seed: int = 0
    spread: float = 0.5
    same: float = 1e-3
    estimator: Estimator | None = None

    def solve(self, problem: Problem) -> Estimate:
        integer(self.starts, "starts", least=1, place="multi-start")
        begin = time.perf_counter()
        estimator = self.estimator or LeastSquares()
        rng = np.random.default_rng(self.seed)
        # The guess itself is always among the starts: more starts can only find something better.
        found = [estimator.solve(problem)]
        for _ in range(1, self.starts):
            start = [_draw(p.lower, p.upper, p.guess, self.spread * p.size, rng) for p in problem.parameters]
            found.append(estimator.solve(problem.with_guess(start)))
        costs = np.array([one.cost for one in found])
        best = found[int(np.nanargmin(np.where(np.isfinite(costs), costs, np.inf)))]
        # How many starts end in the same minimum says how far the best can be trusted to be the global one.
        close = costs <= best.cost + self.same * max(abs(best.cost), 1e-300)
        extra: dict[str, Any] = {**best.extra, "minima": costs, "agree": float(np.mean(close))}
        return replace(
            best,
            evaluations=sum(one.evaluations for one in found),
            iterations=sum(one.iterations for one in found),
            seconds=time.perf_counter() - begin,
            method=f"{best.method}, best of {self.starts} starts",
            extra=extra,
        )


def _draw(lower: float, upper: float, guess: float, spread: float, rng: np.random.Generator) -> float:
    if 0.0 < 1e3 * lower < upper < np.inf:  # over orders of magnitude
        return float(np.exp(rng.uniform(np.log(lower), np.log(upper))))
    if np.isfinite(lower) and np.isfinite(upper):
        return float(rng.uniform(lower, upper))
    return float(np.clip(guess + rng.uniform(-spread, spread), lower, upper))
