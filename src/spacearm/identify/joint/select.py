"""Choice of the joint law that the data support, by information criteria or cross-validation.

Each candidate is fitted to the same tests. The deviance is the sum of squared whitened residuals plus the log
determinant of the noise covariance (which depends on the fitted values through the inputs' errors); AIC adds 2 p (H.
Akaike 1974), BIC p log n (G. Schwarz 1978). Cross-validation predicts blocks of time that a fit did not use; blocks
and not single samples, because neighbouring samples share their errors.

A richer law must win by a margin, since the maximum over several candidates is biased towards rich ones. It starts
from the simplest fit with its new terms clearly open, at two sizes: at zero, play and dry friction have no gradient
that a search could follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from spacearm.checks import one_of
from spacearm.identify.joint.identify import identify_joints
from spacearm.identify.joint.joint_fit import JointFit
from spacearm.identify.joint.laws import JointLaw
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.misfit import OFF
from spacearm.model import Robot
from spacearm.typing import Array

Criterion = Literal["aic", "bic", "cross_validation"]

#: A richer model must be better by this much: "strong" of R. E. Kass, A. E. Raftery, J. Am. Stat. Assoc. 90, 1995.
MARGIN = 6.0

#: The models that are tried when none are named, simple ones first.
CANDIDATES: dict[str, JointLaw] = {
    "linear": JointLaw(),
    "cubic": JointLaw(cubic=True),
    "play": JointLaw(play=True),
    "coulomb": JointLaw(spring="coulomb"),
    "stribeck": JointLaw(spring="stribeck"),
    "lugre": JointLaw(spring="lugre"),
}
_STARTS: dict[str, tuple[float, ...]] = {
    "cubic_stiffness": (50.0,),
    "play": (2e-3,),
    "spring_coulomb": (0.02,),
    "motor_coulomb": (0.02,),
}


@dataclass(frozen=True, eq=False)
class LawCandidate:
    """A fitted model and its scores; less is better in each."""

    name: str
    law: JointLaw
    fit: JointFit
    parameters: int
    deviance: float
    aic: float
    bic: float
    prediction: float  # mean squared error of left-out samples in standard deviations; NaN when not asked for


@dataclass(frozen=True, eq=False)
class Selection:
    """The candidates in the order of their richness, the one that the data support, and why."""

    candidates: tuple[LawCandidate, ...]
    chosen: LawCandidate
    criterion: Criterion
    reasons: tuple[str, ...]


def select_law(
    robot: Robot,
    tests: Sequence[JointTest],
    candidates: Mapping[str, JointLaw] | None = None,
    *,
    criterion: Criterion = "bic",
    margin: float = MARGIN,
    folds: int = 5,
    **options: Any,
) -> Selection:
    """Fit every candidate to the same tests and choose.

    Candidates are taken in the order of their number of parameters. A richer one replaces the choice only if it is
    better by more than ``margin`` (criteria), or by more than twice the error of the difference (cross-validation).

    Args:
        folds: for cross-validation, each test is cut into ``4 * folds`` blocks of time, every ``folds``-th of them left
            out at once.
        options: as of :func:`identify_joints`.
    """
    chosen = dict(candidates or CANDIDATES)
    one_of(criterion, get_args(Criterion), "criterion", place="selection")
    # From simple to rich: each is compared with the best of the simpler ones.
    laws = sorted(chosen.items(), key=lambda item: len(item[1].parameters))
    options = {"warn": False, "nuisances": OFF, **options}
    found: list[LawCandidate] = []
    squares: list[Array] = []
    for name, law in laws:
        base = found[0].fit if found else None
        fit = _fit(robot, tests, law, base, options)
        residual = np.concatenate([rows.ravel() for rows in fit.model.compute_residuals(fit.estimate.values)])
        # Noise that is estimated from the residuals is a number more that was fitted.
        n, p = residual.size, fit.estimate.values.size + (0 if fit.model.noise_known else 1)
        total = float(residual @ residual)
        deviance = total if fit.model.noise_known else n * float(np.log(total / n))
        # Whitening scales residuals: without the determinant, a law with larger input errors would seem better.
        deviance += sum(errors.log_determinant for errors in fit.model.path_errors if errors is not None)
        prediction = float("nan")
        if criterion == "cross_validation":
            square = _predictions(robot, tests, law, fit, folds, options)
            squares.append(square)
            prediction = float(square.mean())
        found.append(
            LawCandidate(name, law, fit, p, deviance, deviance + 2 * p, deviance + p * float(np.log(n)), prediction)
        )
    best, reasons = 0, []
    for k in range(1, len(found)):
        mine, held = found[k], found[best]
        if criterion == "cross_validation":
            gain = held.prediction - mine.prediction
            # Paired differences: blocks that are hard to predict for one law are hard for the others.
            difference = squares[best] - squares[k]
            needed = 2.0 * float(difference.std(ddof=1) / np.sqrt(difference.size))
        else:
            gain, needed = getattr(held, criterion) - getattr(mine, criterion), margin
        better = gain > needed
        reasons.append(
            f"{mine.name} {'replaces' if better else 'is not preferred to'} {held.name}: "
            f"better by {gain:.3g}, needed more than {needed:.3g} ({criterion})"
        )
        if better:
            best = k
    return Selection(tuple(found), found[best], criterion, tuple(reasons))


def _fit(
    robot: Robot, tests: Sequence[JointTest], law: JointLaw, simple: JointFit | None, options: Mapping[str, Any]
) -> JointFit:
    """The best fit from the options' own start, and from the simplest model's values with the new terms opened."""
    fits = []
    guess = dict(options.get("guess") or {})
    rest = {key: value for key, value in options.items() if key != "guess"}
    if simple is None:
        return identify_joints(robot, tests, law=law, guess=guess, **rest)
    start = _move_inside_bounds(simple, 1e-3)
    new = [name for name in law.parameters if name not in simple.model.setup.law.parameters]
    # At zero, play and dry friction have no gradient worth following: start with the new term clearly open, twice.
    for scale in (1.0, 4.0):
        opened = {name: scale * value for name in new for value in _STARTS.get(name, ()) if name in _STARTS}
        fits.append(identify_joints(robot, tests, law=law, guess={**start, **opened, **guess}, **rest))
        if not new:
            break
    return min(fits, key=lambda fit: fit.estimate.cost)


def _move_inside_bounds(fit: JointFit, share: float) -> dict[str, float]:
    """Found values, off their bounds by a share of their sizes: a search may start there."""
    pairs = zip(fit.model.parameters, fit.estimate.values, strict=True)
    return {p.name: float(np.clip(v, p.lower + share * p.size, p.upper - share * p.size)) for p, v in pairs}


def _predictions(
    robot: Robot, tests: Sequence[JointTest], law: JointLaw, fit: JointFit, folds: int, options: Mapping[str, Any]
) -> Array:
    """Squared errors of samples that the fit did not see, block by block (means over blocks of a fold)."""
    guess = _move_inside_bounds(fit, 1e-4)
    rest = {key: value for key, value in options.items() if key not in ("guess", "weighting")}
    span = max(test.duration for test in tests)
    result = []
    for fold in range(folds):

        def fold_weights(time: Array, fold: int = fold) -> Array:
            # Blocks, not single samples: neighbours of a left-out sample would give it away.
            block = np.minimum((time / span * 4 * folds).astype(int), 4 * folds - 1)
            return np.where(block % folds == fold, 0.0, 1.0)

        part = identify_joints(robot, tests, law=law, guess=guess, weighting=fold_weights, **rest)
        for k, test in enumerate(tests):
            white = part.model.whiten_rows(
                k, part.model.compute_raw_residuals(part.estimate.values, k)[0], weighted=False
            )
            local = test.time - test.time[0]
            block = np.minimum((local / span * 4 * folds).astype(int), 4 * folds - 1)
            for b in np.unique(block[block % folds == fold]):
                result.append(float(np.mean(white[block == b] ** 2)))
    return np.array(result)
