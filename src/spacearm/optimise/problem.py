"""One interface for all estimators: a problem goes in, an estimate with its uncertainty comes out.

A problem is residuals r(x) of named parameters; noise of standard deviation ``sigma`` in each residual makes the cost
``sum((r / sigma)**2) / 2``. Searches that need no derivatives may be given another cost, of many x at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from spacearm.errors import InputError
from spacearm.typing import Array


class Reason(StrEnum):
    """Why an estimator stopped."""

    CONVERGED = "converged"
    SMALL_STEP = "steps became small"
    SMALL_COST = "cost reached its target"
    LIMIT = "iterations or evaluations used up"
    STALLED = "no progress"
    NOT_FINITE = "cost was not finite"

    @property
    def success(self) -> bool:
        return self in (Reason.CONVERGED, Reason.SMALL_STEP, Reason.SMALL_COST)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number to be found: start value, bounds and typical size (``scale``; used to balance steps)."""

    name: str
    guess: float
    unit: str = ""
    lower: float = -math.inf
    upper: float = math.inf
    scale: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.guess) and self.lower <= self.guess <= self.upper):
            raise InputError(
                f"guess {self.guess:g} is not within [{self.lower:g}, {self.upper:g}]", place=f"parameter {self.name!r}"
            )
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"scale is {self.scale}", place=f"parameter {self.name!r}", hint="expected above zero")

    @property
    def size(self) -> float:
        """``scale``, or what guess and bounds suggest."""
        if self.scale is not None:
            return self.scale
        if math.isfinite(self.lower) and math.isfinite(self.upper) and self.upper > self.lower:
            return self.upper - self.lower
        return abs(self.guess) or 1.0


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be found and how a candidate is judged.

    Args:
        parameters: p of them.
        residual: x (p,) to residuals (m,), unweighted.
        jacobian: x (p,) to (m, p); by differences when not given.
        batch: X (B, p) to residuals (B, m); by a loop when not given.
        sigma: standard deviation of each residual, a number or (m,). None: unknown, taken from the fit.
        cost: X (B, p) to costs (B,), for searches without derivatives; half the weighted square sum when not given.
    """

    parameters: Sequence[Parameter]
    residual: Callable[[Array], Array]
    jacobian: Callable[[Array], Array] | None = None
    batch: Callable[[Array], Array] | None = None
    sigma: float | Array | None = None
    cost: Callable[[Array], Array] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        names = [p.name for p in self.parameters]
        if not names or len(set(names)) < len(names):
            raise InputError("parameters are missing or share a name", place=self.name or "problem")
        if self.sigma is not None:
            sigma = np.asarray(self.sigma, dtype=np.float64)
            if not np.all(np.isfinite(sigma) & (sigma > 0)):
                raise InputError("sigma holds numbers that are not above zero", place=self.name or "problem")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @property
    def guess(self) -> Array:
        return np.array([p.guess for p in self.parameters])

    @property
    def lower(self) -> Array:
        return np.array([p.lower for p in self.parameters])

    @property
    def upper(self) -> Array:
        return np.array([p.upper for p in self.parameters])

    @property
    def sizes(self) -> Array:
        return np.array([p.size for p in self.parameters])

    def weighted(self, x: Array) -> Array:
        """Residuals divided by their standard deviations."""
        r = np.asarray(self.residual(x), dtype=np.float64)
        return r if self.sigma is None else r / self.sigma

    def weighted_jacobian(self, x: Array) -> Array:
        """Derivative (m, p) of :meth:`weighted`; central differences where no Jacobian is given."""
        if self.jacobian is not None:
            full = np.asarray(self.jacobian(x), dtype=np.float64)
            return (
                full if self.sigma is None else full / np.reshape(np.broadcast_to(self.sigma, full.shape[:1]), (-1, 1))
            )
        steps = 6e-6 * np.maximum(np.abs(x), 1e-3 * self.sizes)  # about the cube root of rounding
        columns = []
        for i, step in enumerate(steps):
            high, low = x.copy(), x.copy()
            high[i], low[i] = min(x[i] + step, self.upper[i]), max(x[i] - step, self.lower[i])
            columns.append((self.weighted(high) - self.weighted(low)) / (high[i] - low[i]))
        return np.stack(columns, axis=1)

    def costs(self, xs: Array) -> Array:
        """Costs (B,) of candidates (B, p)."""
        if self.cost is not None:
            return np.asarray(self.cost(xs), dtype=np.float64)
        if self.batch is not None:
            r = np.asarray(self.batch(xs), dtype=np.float64)
            weighted = r if self.sigma is None else r / self.sigma
        else:
            weighted = np.stack([self.weighted(x) for x in xs])
        costs: Array = 0.5 * np.einsum("bm,bm->b", weighted, weighted)
        return costs


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values with their uncertainty and how they were found.

    ``covariance`` is None only when it was not asked for; a direction that the data do not determine has an infinite
    standard deviation. ``history`` is the best cost after each iteration.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array
    covariance: Array | None
    cost: float
    evaluations: int
    iterations: int
    reason: Reason
    history: Array
    seconds: float
    method: str
    extra: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return float(self.values[self.names.index(name)])

    @property
    def success(self) -> bool:
        return self.reason.success

    @property
    def std(self) -> Array:
        """Standard deviations; NaN when no covariance was computed, infinite where the data determine nothing."""
        if self.covariance is None:
            return np.full(len(self.names), np.nan)
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
        return self.values - factor * self.std, self.values + factor * self.std


class Estimator(Protocol):
    """Anything that solves a :class:`Problem`."""

    def solve(self, problem: Problem) -> Estimate: ...


def covariance_at(problem: Problem, x: Array, *, rank_tolerance: float = 1e-10) -> Array:
    """Covariance (p, p) of the estimate at ``x`` from the residuals' Jacobian.

    With unknown ``sigma`` the residuals' own variance stands for it. Parameters with a share in a direction that the
    data do not determine get an infinite variance.
    """
    sizes = problem.sizes
    jacobian = problem.weighted_jacobian(x) * sizes
    if not np.all(np.isfinite(jacobian)):
        return np.full((x.size, x.size), np.inf)
    _, singular, rows = np.linalg.svd(jacobian, full_matrices=False)
    seen = singular > rank_tolerance * (singular[0] if singular.size else 0.0)
    scaled = rows[seen].T / singular[seen]
    full: Array = (scaled @ scaled.T) * np.outer(sizes, sizes)
    if problem.sigma is None:
        r = problem.weighted(x)
        full = full * (r @ r) / max(r.size - x.size, 1)
    blind = np.sqrt(np.maximum(1.0 - np.sum(rows[seen] ** 2, axis=0), 0.0)) > 1e-6
    full[blind, :] = 0.0
    full[:, blind] = 0.0
    full[blind, blind] = np.inf
    return full


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
        return np.where(np.isfinite(values), values, np.inf)

    def weighted(self, x: Array) -> Array:
        self.evaluations += 1
        return self.problem.weighted(x)

    def estimate(
        self,
        values: Array,
        cost: float,
        iterations: int,
        reason: Reason,
        method: str,
        *,
        uncertainty: bool = True,
        **extra: Any,
    ) -> Estimate:
        """The estimate at ``values``, with covariance unless it is not wanted."""
        seconds = time.perf_counter() - self._start
        problem = self.problem
        covariance = covariance_at(problem, values) if uncertainty and math.isfinite(cost) else None
        return Estimate(
            problem.names,
            tuple(p.unit for p in problem.parameters),
            np.asarray(values, dtype=np.float64),
            covariance,
            float(cost),
            self.evaluations,
            iterations,
            reason,
            np.asarray(self.history, dtype=np.float64),
            seconds,
            method,
            extra,
        )
