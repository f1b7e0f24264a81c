"""Every single inertia number with its source: determined by the data, supplied by a prior, or undetermined.

The data determine base parameters: linear combinations of the 10(n + 1) numbers. In scaled unknowns z = (phi - mean) /
typical size the information ``root @ combine`` is stacked with the prior's rows 1 / sigma and solved by QR (normal
prior, so this is the posterior mean and covariance). Numbers without a prior get a deviation of a thousand typical
sizes, for the arithmetic alone.

What is stated are mass, mass centre and tensor about it, which are nonlinear in phi (m, m c, tensor about the frame);
their deviations come from the Jacobian. A number is determined by the data if null directions, those that change no
combination which the data show, do not change it by more than the data's own deviation (or 1e-6 of its size). Because
of the nonlinearity this must hold not only at the estimate but also elsewhere along the null directions. A number that
is not determined is the prior's if every number that it is coupled with has one, else it is undetermined (NaN).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from spacearm.checks import positive
from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.inertia_parameters import PLAIN, PLAIN_UNITS, plain_jacobian, plain_of, typical_sizes
from spacearm.model import Robot
from spacearm.optimise.information import Information
from spacearm.typing import Array

#: A number that null directions change by more than this share of its size is not determined by the data.
NULL_SHARE = 1e-6
#: Elsewhere along null directions it may change by so many deviations: a value that is zero but for noise, over a mass
#: that is smaller there.
ELSEWHERE = 4.0
#: Parameters without a prior get this many typical sizes as deviation where one is needed for arithmetic.
VAGUE = 1e3


class ParameterSource(StrEnum):
    """Where a number comes from."""

    DATA = "data"
    PRIOR = "prior"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, eq=False)
class Prior:
    """Independent normal priors of the linear parameters: mean and standard deviation (10(n + 1)).

    An infinite deviation is not a prior, zero is exact knowledge. ``source`` names its origin in reports.
    """

    mean: Array
    sigma: Array
    source: str = "CAD"

    @property
    def exact(self) -> tuple[int, ...]:
        """Places of the numbers that are known exactly."""
        return tuple(int(place) for place in np.flatnonzero(self.sigma == 0.0))

    @classmethod
    def from_nominal(cls, robot: Robot, relative: float = 0.15, source: str = "CAD") -> Prior:
        """A prior from a nominal model: the standard deviation of each number is ``relative`` of its typical size."""
        positive(relative, "relative deviation", place="prior")
        return cls(robot.inertia_parameters.ravel().copy(), relative * typical_sizes(robot), source)

    @classmethod
    def from_known_bodies(cls, robot: Robot, bodies: Iterable[str], source: str = "known") -> Prior:
        """These bodies are known exactly, nothing about the others."""
        sigma = np.full(10 * len(robot.bodies), np.inf)
        for name in bodies:
            b = robot.body_index(name)
            sigma[10 * b : 10 * b + 10] = 0.0
        return cls(robot.inertia_parameters.ravel().copy(), sigma, source)

    @classmethod
    def from_known_mass_centre(cls, robot: Robot, body: str, source: str = "known") -> Prior:
        """Mass and mass centre of a body are known, its tensor is not."""
        sigma = np.full(10 * len(robot.bodies), np.inf)
        b = robot.body_index(body)
        sigma[10 * b : 10 * b + 4] = 0.0
        return cls(robot.inertia_parameters.ravel().copy(), sigma, source)


@dataclass(frozen=True, slots=True)
class StandardParameter:
    """One of the 10(n + 1) numbers in the form of the tables (mass, mass centre, tensor about it)."""

    body: str
    symbol: str
    unit: str
    value: float  # NaN where undetermined
    std: float
    source: ParameterSource
    null_share: float

    @property
    def text(self) -> str:
        if self.source is ParameterSource.UNDETERMINED:
            return f"{self.symbol}({self.body}): undetermined"
        how = "by the data" if self.source is ParameterSource.DATA else "supplied by the prior"
        return f"{self.symbol}({self.body}) = {self.value:.6g} +- {self.std:.2g} {self.unit} ({how})"


@dataclass(frozen=True, eq=False)
class StandardParameters:
    """Inertias of every body after data and prior.

    ``inertia`` (10(n + 1)) is complete, so that it can be simulated; where ``numbers`` say undetermined, its entry is
    only one of many that fit as well. ``null`` (10(n + 1), k) spans those.
    """

    robot: Robot
    inertia: Array
    covariance: Array
    null: Array
    numbers: tuple[StandardParameter, ...]
    prior: Prior | None

    def number(self, body: str, symbol: str) -> StandardParameter:
        return next(n for n in self.numbers if n.body == body and n.symbol == symbol)

    def with_inertia(self, inertia: Array) -> StandardParameters:
        """The same origins and deviations with other inertias (10(n + 1)) that the data fit as well."""
        plain = plain_of(inertia.reshape(-1, 10)).ravel()
        numbers = [
            n if n.source is ParameterSource.UNDETERMINED else replace(n, value=float(value))
            for n, value in zip(self.numbers, plain, strict=True)
        ]
        return replace(self, inertia=inertia, numbers=tuple(numbers))

    def counts(self) -> dict[str, int]:
        return {source.value: sum(n.source is source for n in self.numbers) for source in ParameterSource}


def standard_parameters(
    information: Information, robot: Robot, prior: Prior | None = None, base: BaseParameters | None = None
) -> StandardParameters:
    """Combine the data's information about base parameters with a prior of single numbers.

    Args:
        information: of one repetition.
        robot: gives the inertias at which undetermined directions are left (the guess).
        base: what the information is about, where that is not all base parameters of the robot.
    """
    combine = (base or base_parameters(robot)).combine
    size = combine.shape[1]
    scale = typical_sizes(robot)
    guess = robot.inertia_parameters.ravel() if prior is None else prior.mean
    belief = np.full(size, np.inf) if prior is None else prior.sigma
    # Exactly known numbers are not unknowns; a zero deviation would be an infinite weight.
    free = np.flatnonzero(belief > 0)
    if free.size == 0:
        raise InputError("everything is known already", place="prior")
    rows = information.root @ combine[:, free] * scale[free]
    right = information.root @ (information.values - combine @ guess)
    # Null directions of the data alone; where there is a prior, it decides them.
    seen = information.vectors[:, information.identifiable] / information.sizes[:, None]
    null = _null_space(combine[:, free] * scale[free], seen)
    doubt = np.where(np.isfinite(belief[free]), belief[free] / scale[free], VAGUE)
    stacked = np.concatenate([rows, np.diag(1.0 / doubt)])
    # QR and not normal equations: weights range from vague priors to precise data over many decades.
    q, r = np.linalg.qr(stacked)
    shift = np.linalg.solve(r, q.T @ np.concatenate([right, np.zeros(free.size)]))
    # Half of the covariance: its product with its transpose cannot become indefinite by rounding.
    inverse = np.linalg.inv(r)
    inertia = guess.copy()
    inertia[free] += shift * scale[free]
    covariance = np.zeros((size, size))
    covariance[np.ix_(free, free)] = (inverse @ inverse.T) * np.outer(scale[free], scale[free])
    by_data = np.zeros((size, free.size - null.shape[1]))  # half of the covariance that the data alone give
    by_data[free] = scale[free, None] * _data_half(rows, by_data.shape[1])
    full_null = np.zeros((size, null.shape[1]))
    full_null[free] = null * scale[free, None]
    vague = ~np.isfinite(belief)
    places = _null_places(inertia, full_null)
    numbers = []
    for b, body in enumerate(robot.bodies):
        block = slice(10 * b, 10 * b + 10)
        plain, slope = plain_of(inertia[block]), plain_jacobian(inertia[block])
        elsewhere = np.stack([plain_jacobian(place[block]) for place in places])  # (places, 10, 10)
        # First index: the estimate itself, then the places along the null directions.
        by_noise = np.linalg.norm(elsewhere @ by_data[block], axis=-1)  # (places, 10) deviations by the data
        undetermined = np.linalg.norm(elsewhere @ full_null[block], axis=-1)  # if nulls were unknown by a typical size
        size_of = np.linalg.norm(elsewhere * scale[block], axis=-1)
        # Away from the estimate the bound is wider: there a number that is zero but for noise is divided by a smaller
        # mass.
        allowed = np.where(np.arange(len(places))[:, None] > 0, ELSEWHERE, 1.0) * by_noise
        determined = np.all(undetermined <= np.maximum(allowed, NULL_SHARE * size_of), axis=0)
        for k, (symbol, unit) in enumerate(zip(PLAIN, PLAIN_UNITS, strict=True)):
            gradient = np.zeros(size)
            gradient[block] = slope[k]
            share = _share(gradient, scale, free, null)
            std = _deviation(gradient, covariance)
            # Prior deviation of this number by itself, to compare with what the data add.
            touched = np.abs(gradient) > 0
            before = float(np.sqrt(np.sum((gradient[touched] * belief[touched]) ** 2)))
            if not np.any(belief[touched] > 0):
                source, std = ParameterSource.PRIOR, 0.0  # known exactly beforehand
            elif determined[k]:
                # Unless the data are less precise than the prior, or than the number's own size.
                source, std = ParameterSource.DATA, float(np.hypot(by_noise[0, k], undetermined[0, k]))
                weak = by_noise[0, k] > size_of[0, k]
                if by_noise[0, k] > before or (weak and np.isfinite(before)):
                    source, std = ParameterSource.PRIOR, _deviation(gradient, covariance)
                elif weak:
                    source = ParameterSource.UNDETERMINED
            else:
                source = (
                    ParameterSource.UNDETERMINED
                    if np.any(vague & _coupled_parameters(full_null, gradient))
                    else ParameterSource.PRIOR
                )
            value = float(plain[k])
            if source is ParameterSource.UNDETERMINED:
                value, std = float("nan"), float("inf")
            numbers.append(StandardParameter(body.name, symbol, unit, value, std, source, share))
    return StandardParameters(robot, inertia, covariance, full_null, tuple(numbers), prior)


def _null_space(combine: Array, seen: Array) -> Array:
    """Scaled directions (free, k) that change none of the combinations that the data see."""
    rows = seen.T @ combine
    # Rows of unit length: combinations of every unit count alike for the rank.
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    _, s, v = np.linalg.svd(rows / np.where(norms > 0, norms, 1.0))
    rank = int(np.sum(s > 1e-9 * s[0])) if s.size else 0
    return np.asarray(v[rank:].T)


def _null_places(inertia: Array, null: Array) -> list[Array]:
    """Inertias that fit as well: these, and half a typical size away in each null direction.

    A number may stand still at one of them and move at the next: (hy hz / m) where both moments happen to vanish.
    """
    steps = 0.5 * np.concatenate([null, -null], axis=1).T
    enough = 0.25 * np.abs(inertia[::10])  # a body needs some mass to have a mass centre
    return [inertia, *(place for place in inertia + steps if np.all(np.abs(place[::10]) > enough))]


def _deviation(gradient: Array, covariance: Array) -> float:
    return float(np.sqrt(np.maximum(gradient @ covariance @ gradient, 0.0)))


def _data_half(rows: Array, rank: int) -> Array:
    """Half of the covariance (free, r) that the data alone give to scaled parameters, outside null directions."""
    _, s, v = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(v[:rank].T / s[:rank])


def _share(gradient: Array, scale: Array, free: npt.NDArray[np.intp], null: Array) -> float:
    scaled = gradient[free] * scale[free]
    length = float(np.linalg.norm(scaled))
    return float(np.linalg.norm(null.T @ scaled)) / length if length > 0 and null.size else 0.0


def _coupled_parameters(null: Array, gradient: Array) -> Array:
    """Parameters that move along with this number in some null direction."""
    weights = null @ (null.T @ gradient)
    return np.asarray(np.abs(weights) > 1e-9 * max(float(np.abs(weights).max()), 1e-300))
