"""A fit of flexible joints with what judges it: values, certificate, remarks, fixed numbers that matter.

Residuals are tested for size (chi-square of each block) and colour (Ljung and Box), each suspect by its score (C. R.
Rao 1948), and estimates by intervals of the data for how far they scatter (:mod:`spacearm.identify._fit`). A test that
fails makes the fit not sound; the largest suspect is named as a likely cause, never corrected silently.

Where residuals are coloured, each standard deviation is the larger of two, by white noise and by that scatter. Fixed
numbers that are uncertain widen all deviations by what the data do not determine of them
(:mod:`spacearm.optimise.consider`), and the one that matters most is reported. With unknown noise, or another cost
than the likelihood, there is less to be tested: then only the colour of the residuals and the bounds speak.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.identify._fit import ConsiderShare, Score, certify, name_interval, rank_shares, widen_deviations
from spacearm.identify._nuisances import JOINT_KEYS
from spacearm.identify.joint.flexible_joints import write_joint_values
from spacearm.identify.joint.misfit import misfits, remarks_on, suspects
from spacearm.identify.joint.problem import JointProblem
from spacearm.model import Robot
from spacearm.optimise.diagnose import Diagnosis, Whiteness, diagnose
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.overconfidence import Scatter, scatter
from spacearm.result import Certificate
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class JointFit:
    """Identified values, and how far they can be trusted."""

    model: JointProblem
    diagnosis: Diagnosis
    remarks: tuple[str, ...]
    seconds: float
    suspects: tuple[Score, ...] = ()
    outliers: int = 0
    scatter: Scatter | None = None
    factors: Array | None = None

    @property
    def certificate(self) -> Certificate:
        """Checks that a right model passes: convergence, bounds, size and whiteness of residuals, nothing suspected, no
        more scatter between intervals of the data than is claimed."""
        return Certificate(certify(self.diagnosis, self.suspects, self.scatter, name_interval(self.factors)))

    def with_suspects(self, more: tuple[Score, ...]) -> JointFit:
        """The same with more suspects; they stand for those of the same name."""
        notes, names = (f"suspected: {one.advice}" for one in more), {one.name for one in more}
        others = (one for one in self.suspects if one.name not in names)
        ranked = tuple(sorted((*more, *others), key=lambda one: -one.statistic))
        return replace(self, suspects=ranked, remarks=(*self.remarks, *notes))

    @cached_property
    def consider_shares(self) -> tuple[ConsiderShare, ...]:
        """Fixed numbers that are uncertain, each with the parameter whose variance it makes most of; the largest
        share first."""
        consider, estimate = self.model.consider, self.estimate
        if consider is None or estimate.covariance is None:
            return ()
        known = np.isfinite(estimate.std)
        # Rows of undetermined parameters are infinite, and would spread over all others as NaN.
        covariance = np.where(np.outer(known, known), estimate.covariance, 0.0)
        effects = consider.effects(covariance, self.model.compute_jacobian(estimate.values))
        variance = np.where(known & (estimate.std > 0.0), estimate.std**2, np.inf)
        # Of the joints' own numbers: what widens an initial angle interests nobody.
        own = [k for k, name in enumerate(estimate.names) if name in self.model.setup.parameters]
        names = [estimate.names[k] for k in own]
        return rank_shares(names, variance[own], dict(zip(consider.numbers, effects[own].T, strict=True)))

    @property
    def sound(self) -> bool:
        return self.certificate.sound

    @property
    def estimate(self) -> Estimate:
        return self.diagnosis.estimate

    @property
    def whiteness(self) -> dict[str, dict[str, Whiteness]]:
        """Whiteness of the residuals by test and channel."""
        return self.diagnosis.whiteness

    @property
    def chi2(self) -> float:
        """Sum of squared residuals in standard deviations, per degree of freedom; NaN with unknown noise."""
        return self.diagnosis.chi_square.ratio if self.model.noise_known else float("nan")

    def __getitem__(self, name: str) -> float:
        """A value by its full name, or by its last word where that is unique."""
        return float(self.estimate.values[self._index(name)])

    def std(self, name: str) -> float:
        return float(self.estimate.std[self._index(name)])

    def _index(self, name: str) -> int:
        names = self.estimate.names
        if name in names:
            return names.index(name)
        near = [i for i, full in enumerate(names) if full.rsplit(".", 1)[-1] == name]
        if len(near) != 1:
            raise InputError(f"{name!r} is {'ambiguous' if near else 'not known'}", place="fit", hint=", ".join(names))
        return near[0]

    @property
    def values(self) -> dict[str, dict[str, float]]:
        """``values[joint][parameter]`` of the common parameters, fixed ones included."""
        return self.model.values(self.estimate.values)

    def robot(self) -> Robot:
        """The robot with the identified values written into its joints."""
        return write_joint_values(self.model.robot, self.values)

    def outputs(self, test: int) -> dict[str, Array]:
        """The fitted model in a test's measured channels."""
        x = self.estimate.values
        return self.model.outputs(x, test, self.model.respond(x, test))[0]

    @property
    def parameters_at_bounds(self) -> tuple[str, ...]:
        return self.diagnosis.parameters_on_bounds

    def summary(self) -> list[dict[str, Any]]:
        """Name, value, standard deviation, unit of every parameter."""
        e = self.estimate
        return [
            {"name": n, "value": float(v), "sd": float(s), "unit": u}
            for n, v, s, u in zip(e.names, e.values, e.std, e.units, strict=True)
        ]


def assess(
    model: JointProblem, estimate: Estimate, seconds: float, ignored: tuple[str, ...] | None = None, outliers: int = 0
) -> JointFit:
    """Diagnostics of an estimate: whiteness of residuals, what is not determined, what the set-up does.

    ``ignored``: of what may be wrong besides, what is not to be tested; None: nothing is.
    """
    # At least one: a fit through as many readings as unknowns has no freedom, and is called not sound elsewhere.
    residuals, freedom = model.residuals_by_channel(estimate.values), max(model.freedom, 1)
    found = diagnose(replace(estimate, residuals=residuals, noise_known=model.noise_known), freedom)
    doubts: tuple[Score, ...] = ()
    notes: list[str] = []
    seen: Scatter | None = None
    factors: Array | None = None
    if ignored is not None and len(ignored) < len(JOINT_KEYS) and np.isfinite(estimate.cost):
        doubts = suspects(model, estimate.values, ignored)
        # With own weights or unknown noise residuals are not in standard deviations.
        if model.noise_known and model.weighting is None and estimate.covariance is not None:
            seen, factors = _judge_intervals(model, estimate, found)
        if factors is not None and estimate.covariance is not None:
            # Coloured residuals mean fewer independent data than readings: standard deviations would be too small.
            wide = replace(found.estimate, covariance=estimate.covariance * np.outer(factors, factors))
            found = diagnose(wide, freedom)
            notes.append(f"data: standard deviations are by {name_interval(factors)}")
    remarks = [*remarks_on(model, found), *misfits(model, found, doubts, outliers), *notes]
    return JointFit(model, found, tuple(remarks), seconds, doubts, outliers, seen, factors)


def _judge_intervals(model: JointProblem, estimate: Estimate, found: Diagnosis) -> tuple[Scatter | None, Array | None]:
    """How estimates by intervals of the data scatter, and the factors of the standard deviations if more than by white
    noise; None for both where the motion cannot be followed."""
    assert estimate.covariance is not None
    residual = np.concatenate([rows.ravel() for rows in model.compute_residuals(estimate.values)])
    jacobian = model.compute_jacobian(estimate.values)
    if not (np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian))):
        return None, None
    known = np.isfinite(estimate.std)
    # Infinite variances would make every product NaN.
    claimed = np.where(np.outer(known, known), estimate.covariance, 0.0)
    seen = scatter(residual, jacobian, claimed, estimate.values.size) if known.any() else None
    return seen, widen_deviations(found, seen, residual, jacobian, estimate.covariance)
