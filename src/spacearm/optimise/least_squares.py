"""Gauss-Newton with a trust region (Levenberg-Marquardt within bounds) on the weighted residuals.

SciPy's trust-region reflective method (M. A. Branch, T. F. Coleman, Y. Li, SIAM J. Sci. Comput. 21, 1999): the normal
equations of the linearised residuals, scaled by the distance to the bounds, within a region that grows where the linear
model predicts the cost well. Derivatives are the problem's. Parameters are scaled by their typical sizes, so that one
tolerance serves metres and kilograms. A step to where the model does not exist costs as much as any and is shortened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spacearm.optimise.estimate import Estimate, StopReason, Stopwatch
from spacearm.optimise.problem import Problem
from spacearm.typing import Array

_REASONS = {
    0: StopReason.LIMIT,
    1: StopReason.CONVERGED,
    2: StopReason.CONVERGED,
    3: StopReason.SMALL_STEP,
    4: StopReason.CONVERGED,
}


@dataclass(frozen=True)
class LeastSquares:
    """SciPy's trust-region reflective method; ``loss`` other than linear makes outliers count less."""

    tolerance: float = 1e-12
    max_evaluations: int = 1000
    loss: Literal["linear", "soft_l1", "huber", "cauchy"] = "linear"
    uncertainty: bool = True

    def solve(self, problem: Problem) -> Estimate:
        from scipy.optimize import least_squares

        watch = Stopwatch(problem)
        best = np.inf

        def residual(x: Array) -> Array:
            nonlocal best
            r = watch.residual_vector(x)
            cost = 0.5 * float(r @ r) if np.all(np.isfinite(r)) else np.inf
            best = min(best, cost)
            watch.history.append(best)
            # Finite but hopeless: a step into a region where the model breaks down is rejected and shortened.
            return np.where(np.isfinite(r), r, 1e150)

        # Strictly within the bounds, as the reflective method needs it.
        start = np.clip(problem.guess, np.nextafter(problem.lower, np.inf), np.nextafter(problem.upper, -np.inf))
        options: dict[str, Any] = {
            "bounds": (problem.lower, problem.upper),
            "x_scale": problem.sizes,
            "xtol": self.tolerance,
            "ftol": self.tolerance,
            "gtol": self.tolerance,
            "max_nfev": self.max_evaluations,
            "loss": self.loss,
        }
        found = least_squares(residual, start, jac=problem.residual_jacobian, **options)
        reason = _REASONS.get(int(found.status), StopReason.STALLED)
        if not np.isfinite(best):
            reason = StopReason.NOT_FINITE
        return watch.estimate(
            found.x, float(found.cost), int(found.njev), reason, "least squares", uncertainty=self.uncertainty
        )
