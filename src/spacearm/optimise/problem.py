"""What every estimator takes: a problem.

A problem has named parameters and blocks of residuals r(x), one for each record or test. Noise of standard deviation
``sigma`` in each residual makes the cost ``sum((r / sigma)**2) / 2``, minus the logarithm of the likelihood of normal
errors; a parameter's prior is one residual more (maximum a posteriori). Searches that need no derivatives may be given
another cost, of many x at once.

Fixed numbers that are themselves uncertain (*consider* parameters: B. D. Tapley, B. E. Schutz and G. H. Born,
Statistical Orbit Determination, 2004, Ch. 6) correlate residuals of all blocks: :mod:`spacearm.optimise.consider` makes
their joint covariance the identity again, so that estimators see independent residuals of unit noise in either case.
Where the noise is unknown, residuals keep their size and the fit's scatter stands for it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, positive
from spacearm.errors import InputError
from spacearm.optimise.consider import ConsiderParameters
from spacearm.typing import Array


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number to be found.

    Args:
        guess: start value.
        lower, upper: bounds.
        scale: typical size, which balances steps; what guess and bounds suggest when not given.
        prior: mean and standard deviation of what is known beforehand; None: nothing.
    """

    name: str
    guess: float
    unit: str = ""
    lower: float = -math.inf
    upper: float = math.inf
    scale: float | None = None
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        place = f"parameter {self.name!r}"
        if not (math.isfinite(self.guess) and self.lower <= self.guess <= self.upper):
            raise InputError(f"guess {self.guess:g} is not within [{self.lower:g}, {self.upper:g}]", place=place)
        if self.scale is not None:
            positive(self.scale, "scale", place=place)
        if self.prior is not None and not (math.isfinite(self.prior[0]) and self.prior[1] > 0):
            raise InputError(f"prior is {self.prior}", place=place, hint="expected a mean and a deviation above zero")

    @property
    def size(self) -> float:
        """``scale``, or what guess and bounds suggest."""
        if self.scale is not None:
            return self.scale
        # Two bounds say how large a change matters; one of them does not.
        if math.isfinite(self.lower) and math.isfinite(self.upper) and self.upper > self.lower:
            return self.upper - self.lower
        return abs(self.guess) or 1.0

    def is_on_bound(self, value: float) -> bool:
        return min(value - self.lower, self.upper - value) <= 1e-6 * self.size


@dataclass(frozen=True, eq=False)
class Block:
    """Residuals of one source of data, a record or a test.

    Args:
        residual: x (p,) to residuals (m,) or (samples, channels), unweighted.
        jacobian: x (p,) to (m, p), samples before channels; by differences when not given.
        sigma: standard deviation of each residual, a number or an array. None: unknown, taken from the fit.
        batch: X (B, p) to residuals (B, m); by a loop when not given.
        channels: names of the residuals' columns.
    """

    residual: Callable[[Array], Array]
    jacobian: Callable[[Array], Array] | None = None
    sigma: float | Array | None = None
    batch: Callable[[Array], Array] | None = None
    name: str = "data"
    channels: Sequence[str] = ("residual",)

    def __post_init__(self) -> None:
        array(1.0 if self.sigma is None else self.sigma, "sigma", above=0.0, place=self.name)

    def _divide_by_sigma(self, rows: Array) -> Array:
        return rows if self.sigma is None else rows / self.sigma

    def residual_array(self, x: Array) -> Array:
        """Residuals in standard deviations, as they are shaped."""
        return self._divide_by_sigma(np.asarray(self.residual(x), dtype=np.float64))

    def residual_jacobian(self, x: Array, parameters: Sequence[Parameter]) -> Array:
        """Derivative (m, p) of :meth:`residual_array`; central differences where no Jacobian is given."""
        if self.jacobian is not None:
            full = np.asarray(self.jacobian(x), dtype=np.float64)
            return (
                full if self.sigma is None else full / np.reshape(np.broadcast_to(self.sigma, full.shape[:1]), (-1, 1))
            )
        columns = []
        for i, p in enumerate(parameters):
            step = 6e-6 * max(abs(x[i]), 1e-3 * p.size)  # about the cube root of rounding
            high, low = x.copy(), x.copy()
            # At a bound the difference becomes one-sided: models need not exist beyond it.
            high[i], low[i] = min(x[i] + step, p.upper), max(x[i] - step, p.lower)
            columns.append((self.residual_array(high) - self.residual_array(low)).ravel() / (high[i] - low[i]))
        return np.stack(columns, axis=1)

    def residual_batch(self, xs: Array) -> Array:
        """Residuals (B, m) of candidates (B, p)."""
        if self.batch is None:
            return np.stack([self.residual_array(x).ravel() for x in xs])
        return self._divide_by_sigma(np.asarray(self.batch(xs), dtype=np.float64))


class Problem:
    """What is to be found and how a candidate is judged.

    Args:
        parameters: p of them.
        blocks: of residuals; all have known noise, or none. A problem of a cost alone has none.
        cost: X (B, p) to costs (B,), for searches without derivatives; half the weighted square sum when not given.
    """

    #: Fixed numbers that are uncertain: residuals are whitened by what they do to them.
    consider: ConsiderParameters | None = None

    def __init__(
        self,
        parameters: Sequence[Parameter],
        blocks: Block | Sequence[Block] = (),
        *,
        cost: Callable[[Array], Array] | None = None,
        name: str = "problem",
    ) -> None:
        self.parameters, self.cost, self.name = tuple(parameters), cost, name
        self._blocks = (blocks,) if isinstance(blocks, Block) else tuple(blocks)
        for what, names in (("parameters", self.names), ("blocks", tuple(b.name for b in self._blocks) or ("",))):
            if not names or len(set(names)) < len(names):
                raise InputError(f"{what} are missing or share a name", place=name)
        # Unknown noise is taken from all residuals together: blocks with stated noise have another unit.
        if len({block.sigma is None for block in self._blocks}) > 1:
            raise InputError("some blocks have known noise and others do not", place=name)
        if self._priors and not self.noise_known:
            raise InputError("a prior cannot be weighted against residuals of unknown noise", place=name)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self._blocks

    @property
    def noise_known(self) -> bool:
        """Whether residuals are in standard deviations; else their size is taken from the fit."""
        return all(block.sigma is not None for block in self.blocks)

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

    def with_guess(self, guess: npt.ArrayLike) -> Self:
        """The same problem with other start values, clipped to the bounds."""
        # Shallow: residuals, caches and data stay those of the same problem.
        other = copy.copy(self)
        start = np.clip(np.asarray(guess, dtype=np.float64), self.lower, self.upper)
        other.parameters = tuple(replace(p, guess=float(g)) for p, g in zip(self.parameters, start, strict=True))
        return other

    def residuals(self, x: Array) -> dict[str, dict[str, Array]]:
        """Weighted residuals by block and channel."""
        return self.rows_by_channel(self.block_residuals(x))

    def block_residuals(self, x: Array) -> list[Array]:
        """Weighted residuals of each block, as they are shaped."""
        return self.whiten_blocks([block.residual_array(x) for block in self.blocks])

    def whiten_blocks(self, rows: list[Array]) -> list[Array]:
        """Rows of each block with the errors of fixed numbers, which all blocks share, made part of unit noise."""
        if self.consider is None:
            return rows
        # One error of a fixed number moves all records together: whitened as one vector, then cut again.
        flat = self.consider.whiten(np.concatenate([part.ravel() for part in rows]))
        ends = np.cumsum([part.size for part in rows])[:-1]
        return [new.reshape(old.shape) for new, old in zip(np.split(flat, ends), rows, strict=True)]

    def whiten_joined_rows(self, rows: Array) -> Array:
        """The same of rows (m, ...) of all blocks together."""
        return rows if self.consider is None else self.consider.whiten(rows)

    def rows_by_channel(self, rows: Sequence[Array]) -> dict[str, dict[str, Array]]:
        """Rows of each block, samples before channels, by block and channel."""
        return {
            block.name: dict(zip(block.channels, part.reshape(-1, len(block.channels)).T, strict=True))
            for block, part in zip(self.blocks, rows, strict=True)
        }

    @property
    def _priors(self) -> tuple[tuple[int, float, float], ...]:
        return tuple((i, *p.prior) for i, p in enumerate(self.parameters) if p.prior is not None)

    def residual_vector(self, x: Array) -> Array:
        """All residuals, flat, divided by their standard deviations; those of the priors last."""
        # A prior is a measurement of its parameter: in the same units, standard deviations.
        parts = [part.ravel() for part in self.block_residuals(x)]
        return np.concatenate([*parts, [(x[i] - mean) / sigma for i, mean, sigma in self._priors]])

    def residual_jacobian(self, x: Array) -> Array:
        """Derivative (m, p) of :meth:`residual_vector`."""
        parts = [block.residual_jacobian(x, self.parameters) for block in self.blocks]
        rows = self.whiten_joined_rows(np.concatenate(parts or [np.zeros((0, x.size))]))
        return np.concatenate([rows, *(np.eye(x.size)[[i]] / sigma for i, _, sigma in self._priors)])

    def costs(self, xs: Array) -> Array:
        """Costs (B,) of candidates (B, p)."""
        if self.cost is not None:
            return np.asarray(self.cost(xs), dtype=np.float64)
        priors = [[(x[i] - mean) / sigma for i, mean, sigma in self._priors] for x in xs]
        # An empty first part, since a problem may consist of priors alone.
        rows = np.concatenate([np.zeros((len(xs), 0)), *(block.residual_batch(xs) for block in self.blocks)], axis=1)
        weighted = np.concatenate([self.whiten_joined_rows(rows.T).T, np.reshape(priors, (len(xs), -1))], axis=1)
        costs: Array = 0.5 * np.einsum("bm,bm->b", weighted, weighted)
        return costs
