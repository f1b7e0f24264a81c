"""Use of identified values: frequency response of the joint, and prediction of motions that were not fitted.

The response is that of the linear model about a configuration, base floating: link angle over motor angle. Its band is
that of values drawn from the covariance of the fit, since a resonance's height depends on the damping in a way that a
linear propagation misses. A held-out test is predicted with all values of the joint fixed; what belongs to the test
alone (the spring's deflection at its start, biases of its sensors) is fitted to it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.identify.joint.flexible_joints import linearise
from spacearm.identify.joint.identify import identify_joints
from spacearm.identify.joint.joint_fit import JointFit
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.misfit import OFF
from spacearm.measure import Record
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class FrequencyResponse:
    """Link angle for a sinus of the motor's angle about a configuration, with the spread that the fit's uncertainty
    gives.

    ``magnitude`` and ``phase`` (rad) at ``frequency`` (rad/s); ``low`` and ``high`` bound 95 % of the magnitudes.
    """

    joint: str
    frequency: Array
    magnitude: Array
    phase: Array
    low: Array
    high: Array
    resonance: float  # undamped, motors held, rad/s
    resonance_sd: float


def frequency_response(
    fit: JointFit,
    frequency: npt.ArrayLike,
    joints: npt.ArrayLike | None = None,
    *,
    draws: int = 200,
    seed: int = 0,
) -> list[FrequencyResponse]:
    """The linear response of every flexible joint to its own motor, base floating, other joints held.

    ``joints`` is the configuration; the first test's start where it is not given. Laws beyond spring and damper do not
    count.
    """
    model = fit.model
    configuration = model.configuration(0) if joints is None else np.asarray(joints, dtype=np.float64)
    w = np.asarray(frequency, dtype=np.float64)
    line = linearise(model.robot, configuration, fit.values)
    rng = np.random.default_rng(seed)
    covariance, free = fit.estimate.covariance, fit.estimate.values
    curves, tones = [], []
    if covariance is not None and np.all(np.isfinite(covariance)):
        # Monte Carlo, because resonance peaks depend on the parameters in a way that linear propagation misses.
        for drawn in rng.multivariate_normal(free, covariance, size=draws, method="svd"):
            # Clipped: a draw may lie beyond a bound, where a joint would have no inertia.
            one = linearise(model.robot, configuration, model.values(np.clip(drawn, model.lower, model.upper)))
            curves.append(np.abs(np.diagonal(one.motor_to_link(w), axis1=1, axis2=2)))
            tones.append(one.frequencies(True))
    response = np.diagonal(line.motor_to_link(w), axis1=1, axis2=2)
    found = []
    for k, joint in enumerate(line.names):
        low = high = np.abs(response[:, k])
        sd = float("nan")
        if curves:
            low, high = np.quantile(np.array(curves)[:, :, k], [0.025, 0.975], axis=0)
            sd = float(np.std(np.array(tones)[:, k], ddof=1))
        found.append(
            FrequencyResponse(
                joint,
                w,
                np.abs(response[:, k]),
                np.unwrap(np.angle(response[:, k])),
                low,
                high,
                float(line.frequencies(True)[k]),
                sd,
            )
        )
    return found


@dataclass(frozen=True, eq=False)
class HoldOutTest:
    """Errors of the prediction of a motion that the identified values were not fitted to.

    ``rms`` and ``rigid_rms`` (rad) of the flexible joints' angle errors, with the identified joint and a rigid one;
    ``chi2`` is the mean squared error in standard deviations (1 for a perfect model); ``fit`` holds the start offset
    (and biases), the only numbers that were fitted to this motion.
    """

    test: str
    rms: float
    rigid_rms: float
    chi2: float
    fit: JointFit


def hold_out(fit: JointFit, tests: Sequence[JointTest | Record], **options: Any) -> list[HoldOutTest]:
    """Predict further tests with the identified values; only their start offsets, and rates where the fit has them,
    are estimated. Readings that are missing count nowhere. Options are those of :func:`identify_joints`, which needs a
    ``chain`` for records."""
    fixed = {f"{joint}.{name}": value for joint, own in fit.values.items() for name, value in own.items()}
    found = []
    for test in tests:
        one = identify_joints(
            fit.model.robot, [test], drive=fit.model.setup.drive, law=fit.model.setup.law, fixed=fixed, warn=False,
            **{"nuisances": OFF, "offset_rate": fit.model.offset_rate, **options},
        )  # fmt: skip
        # Raw residuals (rad): the error of the prediction itself, not in units of its noise.
        rows, _ = one.model.compute_raw_residuals(one.estimate.values, 0)
        (seen,) = one.model.tests
        chosen = [i for i, c in enumerate(seen.measured) if any(c == f.name for f in one.model.setup.flexible)]
        stiff = [one.model.deflection(0, f.name) for f in one.model.setup.flexible]
        rigid = np.concatenate([part for part in stiff if part is not None])
        found.append(
            HoldOutTest(
                test.name,
                float(np.sqrt(np.nanmean(rows[:, chosen] ** 2))),
                float(np.sqrt(np.nanmean(rigid**2))),
                one.chi2,
                one,
            )
        )
    return found
