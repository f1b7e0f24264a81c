"""Weights of samples over time, and the delay of sensors.

Early weights count the first oscillations more, as the paper does where later ones are disturbed; the estimate is then
not the most likely one. A delay shifts the predicted channels in time: cubic splines through the prediction and its
derivatives are read earlier, and the derivative by the delay is minus the rate of change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spacearm.checks import positive
from spacearm.errors import InputError
from spacearm.identify.joint.measured import JointTest
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.joint.problem import JointProblem

Weighting = Callable[[Array], Array]


def weight_early_samples(decay: float) -> Weighting:
    """Weights ``exp(-t / decay)`` (s): the first part of a test counts more, as the paper's Sec. 5 suggests."""
    positive(decay, "decay", unit="s", place="weighting")
    return lambda time: np.exp(-time / decay)


def weights(weighting: Weighting | None, test: JointTest) -> Array:
    """Roots of the weights of a test's samples."""
    if weighting is None:
        return np.ones(test.time.size)
    weights = np.asarray(weighting(test.time - test.time[0]), dtype=np.float64)
    good = weights.shape == test.time.shape and np.all(np.isfinite(weights) & (weights >= 0.0)) and np.any(weights > 0)
    if not good:
        raise InputError(f"weights of test {test.name!r} are not usable", place="weighting",
                         hint="expected one for each sample, at least 0 and not all 0")  # fmt: skip
    # Residuals are multiplied by them and squared afterwards.
    return np.sqrt(weights)


def delay_response(
    model: JointProblem, test: int, late: float, values: dict[str, Array], slopes: dict[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Channels (T,) and their derivatives (T, ...) as sensors read them that are ``late`` (s); the others as they are.

    An angle that was made from a late pose and encoders that are not holds what the encoders moved in between.
    """
    from scipy.interpolate import CubicSpline

    run, seen = model.forwards[test], model.tests[test]
    then = run.times - late
    then = np.maximum(then, 0.0) if seen.from_rest else then  # nothing moves before the first sample

    def evaluate_with_delay(row: Array) -> Array:  # a motion that could not be followed has no past
        return np.asarray(CubicSpline(run.times, row)(then)) if np.all(np.isfinite(row)) else np.full_like(row, np.nan)

    old = {}
    for name, row in values.items():
        if model.may_lag(name):
            shares = [
                share * (run.paths[joint](run.times) - run.paths[joint](then))
                for joint, share in seen.shares.get(name, {}).items()
            ]
            old[name] = sum(shares, evaluate_with_delay(row))
    moved = {name: evaluate_with_delay(row) for name, row in slopes.items() if model.may_lag(name)}
    return {**values, **old}, {**slopes, **moved}
