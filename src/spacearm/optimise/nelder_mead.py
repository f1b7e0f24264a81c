"""Nelder-Mead's simplex within bounds (J. A. Nelder, R. Mead, Computer Journal 7, 1965).

A search without derivatives for a few parameters, by SciPy. Coordinates are divided by each parameter's typical size,
so that one tolerance serves all. It has no proof of convergence: ``restarts`` opens the simplex again at the best
point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.optimise.estimate import Estimate, StopReason, Stopwatch
from spacearm.optimise.problem import Problem
from spacearm.typing import Array


@dataclass(frozen=True)
class NelderMead:
    """Simplex in coordinates divided by each parameter's size.

    Args:
        tolerance: relative, on coordinates and on the cost.
        spread: edge of the first simplex in sizes of the parameters.
        restarts: how often the simplex is opened again at the best point; it may collapse before the minimum.
    """

    tolerance: float = 1e-10
    max_evaluations: int = 20000
    spread: float = 0.1
    restarts: int = 0
    uncertainty: bool = True

    def solve(self, problem: Problem) -> Estimate:
        from scipy.optimize import minimize

        watch = Stopwatch(problem)
        sizes, lower, upper = problem.sizes, problem.lower, problem.upper

        def cost(z: Array) -> float:
            return float(watch.costs((z * sizes)[None, :])[0])

        def record(intermediate_result: Any) -> None:
            watch.history.append(float(intermediate_result.fun))

        start, iterations, reason = problem.guess / sizes, 0, StopReason.LIMIT
        value = cost(start)
        for _ in range(self.restarts + 1):
            simplex = np.tile(start, (start.size + 1, 1))
            for i in range(start.size):
                # Inwards where the guess is at its upper bound: clipped, the simplex would have no volume.
                edge = self.spread if start[i] + self.spread <= upper[i] / sizes[i] else -self.spread
                simplex[i + 1, i] = np.clip(start[i] + edge, lower[i] / sizes[i], upper[i] / sizes[i])
            # SciPy's tolerance on the cost is absolute; ours is relative to the cost at the start.
            scale = max(abs(value), 1e-300) if np.isfinite(value) else 1.0
            found = minimize(
                cost,
                start,
                method="Nelder-Mead",
                bounds=list(zip(lower / sizes, upper / sizes, strict=True)),
                callback=record,
                options={
                    "initial_simplex": simplex,
                    "xatol": self.tolerance,
                    "fatol": self.tolerance * scale,
                    # All restarts share one budget.
                    "maxfev": max(self.max_evaluations - watch.evaluations, 1),
                    "maxiter": self.max_evaluations,
                },
            )
            start, value, iterations = found.x, float(found.fun), iterations + int(found.nit)
            reason = StopReason.CONVERGED if found.success else StopReason.LIMIT
            if watch.evaluations >= self.max_evaluations:
                break
        if not np.isfinite(value):
            reason = StopReason.NOT_FINITE
        best = np.clip(start * sizes, lower, upper)
        return watch.estimate(best, value, iterations, reason, "Nelder-Mead", uncertainty=self.uncertainty)
