"""From records to inertias in one call: identifiability first, then the estimate, then every single number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from spacearm.checks import one_of
from spacearm.identify.inertia.consistent import Consistent
from spacearm.identify.inertia.equations import Kind
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.regression import LinearLeastSquares, TotalFit, TotalLeastSquares, fit_total
from spacearm.identify.inertia.standard_parameters import Prior, StandardParameters, standard_parameters
from spacearm.model import Robot
from spacearm.optimise.diagnose import Diagnosis, diagnose
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.information import Direction, Information
from spacearm.typing import Array

Method = Literal["linear", "total", "consistent"]
#: Long records with firings are thinned to this many samples for weighted total estimation, whose cost grows with the
#: cube of their length (the impulse ties all samples together).
MOST_PUSHED = 200
#: The same where only deviations are wanted; they then are those of fewer samples, a little too large.
SAMPLED = 70


@dataclass(frozen=True, eq=False)
class Identification:
    """What came out.

    ``estimate`` holds the base parameters with deviations, ``known`` every single number with its origin, ``inertia``
    (10(n + 1)) a complete set for simulation (physically possible with the method ``consistent``).
    """

    problem: InertiaProblem
    estimate: Estimate
    information: Information
    known: StandardParameters
    inertia: Array
    weakest: tuple[Direction, ...]
    fit: TotalFit | None

    @property
    def diagnosis(self) -> Diagnosis:
        """What the residuals of each record say: their size against its confidence bounds, and their whiteness."""
        return diagnose(self.estimate, None if self.fit is None else self.fit.freedom)


def thinned(records: Sequence[Record], most: int = MOST_PUSHED) -> tuple[Record, ...]:
    """Records with firings brought down to about ``most`` samples, keeping those at which thrusters switch."""
    return tuple(_thinned(record, most) for record in records)


def _thinned(record: Record, most: int) -> Record:
    if not np.any(record.wrench) or record.times.size <= most:
        return record
    least = int(np.ceil(record.times.size / most))
    edges = np.array([edge for edge in record.edges if edge <= record.times[-1] + 1e-9])
    for every in range(least, 3 * least + 1):
        kept = record.times[::every]
        if np.abs(kept[:, None] - edges).min(axis=0).max() < 1e-9:
            return record.thinned(every)
    return next(thin for every in range(least, 0, -1) if _keeps_pushes(record, thin := record.thinned(every)))


def _keeps_pushes(record: Record, thin: Record) -> bool:
    """Whether every stretch in which thrusters fire keeps a sample: the impulse of another would be lost."""
    return len(thin.quadrature()) == len(record.quadrature())


def identify(
    robot: Robot,
    records: Sequence[Record],
    *,
    method: Method = "total",
    kinds: Sequence[Kind] = ("momentum",),
    prior: Prior | None = None,
) -> Identification:
    """Identify inertias.

    Args:
        robot: geometry and first guess (a drawing's inertias; they may be wrong).
        records: of the experiments.
        method: ``linear`` least squares (exact data), ``total`` (accounts for noise in all readings), ``consistent``
            (total, then only possible bodies).
        prior: belief about single numbers; without one, numbers in null directions stay undetermined.
    """
    one_of(method, get_args(Method), "method", place="identification")
    fit: TotalFit | None = None
    if method == "linear":
        problem = InertiaProblem(robot, records, kinds)
        estimate = LinearLeastSquares().solve(problem)
        # how much the data tell depends on the sensors' noise, not on how small the residuals happen to be
        few = InertiaProblem(robot, thinned(records, most=SAMPLED), kinds)
        seen = fit_total(few, start=estimate.values, iterations=1, held=estimate.extra["not_identifiable"])
        information = seen.information.at(estimate.values)
    else:
        problem = InertiaProblem(robot, thinned(records), kinds)
        estimate = TotalLeastSquares().solve(problem)
        fit = estimate.extra["fit"]
        information = fit.information
    known = standard_parameters(information, robot, prior)
    inertia = known.inertia
    if method == "consistent":
        estimate = replace(Consistent(prior).refine(information, robot), residuals=estimate.residuals)
        inertia = np.asarray(estimate.extra["inertia"])
        known = known.at(inertia)
    weakest = information.weakest(problem.base_parameters.names)
    return Identification(problem, estimate, information, known, inertia, weakest, fit)
