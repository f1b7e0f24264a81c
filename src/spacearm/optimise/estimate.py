"""What every estimator returns: values with their uncertainty, and how they were found."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from spacearm.optimise.information import Information
from spacearm.optimise.problem import Parameter, Problem
from spacearm.text_format import format_unit, html_table
from spacearm.typing import Array


class StopReason(StrEnum):
    """Why an estimator stopped."""

    CONVERGED = "converged"
    SMALL_STEP = "steps became small"
    SMALL_COST = "cost reached its target"
    LIMIT = "iterations or evaluations used up"
    STALLED = "no progress"
    NOT_FINITE = "cost was not finite"

    @property
    def has_converged(self) -> bool:
        return self in (StopReason.CONVERGED, StopReason.SMALL_STEP, StopReason.SMALL_COST)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values with their uncertainty and how they were found.

    ``covariance`` is None only when it was not asked for; a parameter with a share in a combination that is not
    identifiable has an infinite variance. ``information`` names those combinations. ``residuals`` by block and channel
    are in standard deviations (as they are where ``noise_known`` is false): :func:`.diagnose` judges them. ``history``
    is the best cost after each iteration.
    """

    parameters: Sequence[Parameter]
    values: Array
    covariance: Array | None
    cost: float
    method: str
    reason: StopReason = StopReason.CONVERGED
    evaluations: int = 1
    iterations: int = 1
    history: Array = field(default_factory=lambda: np.zeros(0))
    seconds: float = 0.0
    information: Information | None = None
    residuals: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    noise_known: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Estimate({self.method}, {len(self.names)} parameters, cost {self.cost:.4g}, {self.reason.value})"

    def _repr_html_(self) -> str:
        rows = zip(self.names, self.values, self.std, map(format_unit, self.units), strict=True)
        return html_table(("parameter", "value", "standard deviation", "unit"), rows, repr(self))

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.names.index(name)])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(p.unit for p in self.parameters)

    @property
    def has_converged(self) -> bool:
        return self.reason.has_converged

    @property
    def std(self) -> Array:
        """Standard deviations; NaN when no covariance was computed, infinite where the data determine nothing."""
        if self.covariance is None:
            return np.full(len(self.names), np.nan)
        # Rounding may leave a variance of nearly zero below it.
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def correlation(self) -> Array:
        """Correlation matrix; NaN in rows of undetermined parameters."""
        if self.covariance is None:
            return np.full((len(self.names),) * 2, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.covariance / np.outer(self.std, self.std)

    def interval(self, factor: float = 1.959964) -> tuple[Array, Array]:
        """Values minus and plus ``factor`` standard deviations (95 % by default)."""
        # 1.959964 is the 97.5 % quantile of the normal distribution: 2.5 % of estimates lie beyond each end.
        return self.values - factor * self.std, self.values + factor * self.std


class Estimator(Protocol):
    """Anything that solves a :class:`Problem`."""

    def solve(self, problem: Problem) -> Estimate: ...


class Stopwatch:
    """Counts evaluations and time of a problem's functions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.evaluations = 0
        self.history: list[float] = []
        self._start = time.perf_counter()

    def costs(self, xs: Array) -> Array:
        self.evaluations += len(xs)
        values = self.problem.costs(xs)
        # NaN would win or lose comparisons by chance; infinity always loses.
        return np.where(np.isfinite(values), values, np.inf)

    def residual_vector(self, x: Array) -> Array:
        self.evaluations += 1
        return self.problem.residual_vector(x)

    def estimate(
        self, values: Array, cost: float, iterations: int, reason: StopReason, method: str, *, uncertainty: bool = True
    ) -> Estimate:
        """The estimate at ``values``, with its uncertainty unless that is not wanted."""
        seconds, problem, x = time.perf_counter() - self._start, self.problem, np.asarray(values, dtype=np.float64)
        # The search has ended: time and evaluations of the uncertainty are not counted.
        information = Information.from_problem(problem, x) if uncertainty and math.isfinite(cost) else None
        return Estimate(
            problem.parameters,
            x,
            None if information is None else information.covariance,
            float(cost),
            method,
            reason,
            self.evaluations,
            iterations,
            np.asarray(self.history, dtype=np.float64),
            seconds,
            information,
            problem.residuals(x),
            problem.noise_known,
        )
