"""Inertias from records of experiments, as a problem for every estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from spacearm.checks import some
from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.equations import MOMENTUM, Equations, Kind, Linear, Weights
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.measure.channels import CHANNELS
from spacearm.model import Robot
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Linearised:
    """A record's equations about readings and unknowns: ``gap + columns @ change`` of the unknowns at ``places``."""

    gap: Array  # (..., T, m)
    columns: Array  # (..., T, m, unknowns)
    places: npt.NDArray[np.intp]
    weights: Weights


class InertiaProblem(Problem):
    """The base parameters of a robot, and beside them what else the records leave open.

    The unknowns are the base parameters, the initial momentum of each record that does not state it, and the sensors'
    biases with their priors. The residuals of a record are its equations at every sample, divided by what the noise of
    its readings makes of them. They are linear, and any estimator of :mod:`spacearm.optimise` solves them; but noise in
    the readings stands in the regressor too and biases such an estimate: see :class:`.TotalLeastSquares`.

    Args:
        robot: geometry, and the inertias to start from (a drawing's; they may be wrong). Linear estimators do not need
            them but for weights.
        records: of the experiments, in order.
        kinds: which equations.
        prior: numbers that it knows exactly are no unknowns.
    """

    def __init__(
        self,
        robot: Robot,
        records: Sequence[Record],
        kinds: Sequence[Kind] = ("momentum",),
        prior: Prior | None = None,
    ) -> None:
        self.robot, self.records, self.kinds = robot, tuple(records), tuple(kinds)
        self.prior = prior
        some(self.records, "record", place="identification")
        if len({record.batch for record in self.records}) > 1:
            raise InputError("records differ in their repetitions", place="identification")
        for record in self.records:
            if len(record.moving) != robot.n:
                raise InputError(
                    f"has {len(record.moving)} joints, robot {robot.name!r} has {robot.n}", place=record.place
                )
        super().__init__([*self.base_unknowns, *self._momenta(), *self._biases()], name=f"inertias of {robot.name}")

    # -- unknowns -------------------------------------------------------------------------------------------------

    @cached_property
    def base_parameters(self) -> BaseParameters:
        return base_parameters(self.robot, () if self.prior is None else self.prior.exact)

    @cached_property
    def fixed(self) -> Array:
        """Inertias (10(n + 1)) that are known, zero elsewhere."""
        if self.prior is None:
            return np.zeros(10 * len(self.robot.bodies))
        return np.where(self.prior.sigma > 0, 0.0, self.prior.mean)

    @property
    def rank(self) -> int:
        """Number of base parameters; they are the first unknowns."""
        return self.base_parameters.rank

    @cached_property
    def base_guess(self) -> Array:
        """Base parameters of the robot as given."""
        return self.base_parameters.combine @ self.robot.inertia_parameters.ravel()

    @cached_property
    def base_sizes(self) -> Array:
        """Typical size of each base parameter: the largest that one of its terms has."""
        rows = np.abs(self.base_parameters.combine) * typical_sizes(self.robot)
        return np.asarray(rows.max(axis=1))

    @cached_property
    def base_unknowns(self) -> tuple[Parameter, ...]:
        found = zip(self.base_parameters.parameters, self.base_guess, self.base_sizes, strict=True)
        return tuple(Parameter(p.name, float(guess), p.unit, scale=float(size)) for p, guess, size in found)

    def _momenta(self) -> list[Parameter]:
        """Initial momenta, world axes about the world's origin."""
        units = {name: "N s" if name.startswith("P") else "N m s" for name in MOMENTUM}
        return [
            Parameter(f"{self.label(i)}.{name}", 0.0, unit, scale=1.0)
            for i in self.unknown_momenta
            for name, unit in units.items()
        ]

    def _biases(self) -> list[Parameter]:
        """Of every sensor with an unknown bias; common to all records."""
        return [
            Parameter(f"{channel}[{k}].bias", 0.0, CHANNELS[channel].unit, scale=sigma, prior=(0.0, sigma))
            for channel, k, sigma in self.biases
        ]

    def label(self, index: int) -> str:
        """A record's name, with its number where another has the same."""
        name = self.records[index].name
        return name if [record.name for record in self.records].count(name) == 1 else f"{name}#{index + 1}"

    @cached_property
    def unknown_momenta(self) -> tuple[int, ...]:
        """Records whose initial momentum must be estimated."""
        if "momentum" not in self.kinds:
            return ()
        return tuple(i for i, record in enumerate(self.records) if record.known_momentum is None)

    @cached_property
    def biases(self) -> tuple[tuple[str, int, float], ...]:
        """(channel, component, standard deviation) of every sensor bias to estimate."""
        found: dict[tuple[str, int], float] = {}
        for record in self.records:
            for name, sigma in record.bias_sigma.items():
                if name in record.readings and sigma > 0:
                    found |= {(name, k): float(sigma) for k in range(CHANNELS[name].size or self.robot.n)}
        return tuple((name, k, sigma) for (name, k), sigma in found.items())

    # -- equations ------------------------------------------------------------------------------------------------

    @cached_property
    def equations(self) -> Equations:
        return Equations(self.robot, self.kinds)

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading shape of the records: repetitions."""
        return self.records[0].batch

    @cached_property
    def assumed_noise(self) -> bool:
        """Whether no noise is stated, so that weights (and deviations) are those of typical sensors."""
        return not any(np.any(record.deviations()[1] > 0) for record in self.records)

    def deviations(self, record: Record) -> Array:
        """Standard deviation of each reading (ny,): as stated, or typical where none is stated at all."""
        return record.typical().deviations()[1] if self.assumed_noise else record.deviations()[1]

    def inertia(self, x: Array) -> Array:
        """Inertias (..., 10(n + 1)) that have the base parameters of unknowns (..., p)."""
        return np.asarray(self.fixed + x[..., : self.rank] @ self.base_parameters.lift.T)

    def known_side(self, linear: Linear) -> Array:
        """What the unknowns' part of the equations must give: (..., T, m)."""
        return np.asarray(linear.known - linear.matrix @ self.fixed)

    def linearised(self, index: int, adjusted: Record, x: Array) -> Linearised:
        """A record's equations about its corrected readings and the unknowns x (..., p)."""
        inertia = self.inertia(x)
        linear = self.equations.linear(adjusted)
        slopes = self.equations.slopes(adjusted, inertia)
        try:
            weights = Weights(self.equations, adjusted, slopes, self.deviations(adjusted))
        except np.linalg.LinAlgError:
            raise InputError(
                "the estimation does not converge",
                place=adjusted.place,
                hint="the noise is too strong for this motion, or too small to be true",
            ) from None
        gap = np.einsum("...tmp,...p->...tm", linear.matrix, inertia) - linear.known
        columns, places = [linear.matrix @ self.base_parameters.lift], [np.arange(self.rank)]
        if index in self.unknown_momenta:
            at = self.rank + 6 * self.unknown_momenta.index(index)
            gap[..., linear.momentum_rows] -= x[..., None, at : at + 6]
            columns.append(-linear.free_momentum())
            places.append(np.arange(at, at + 6))
        if self.biases:
            columns.append(-self._bias_columns(adjusted, slopes))
            places.append(np.arange(len(self.parameters) - len(self.biases), len(self.parameters)))
        return Linearised(gap, np.concatenate(columns, axis=-1), np.concatenate(places), weights)

    def misfit(self, values: Array) -> list[Array]:
        """Equations (T, m) of each record at these base parameters (r,), in standard deviations of what noise makes of
        them; initial momenta and biases are those that fit best."""
        x = np.concatenate([values, np.zeros(len(self.parameters) - self.rank)])
        lines = [self.linearised(i, record, x) for i, record in enumerate(self.records)]
        rows = [line.weights.whiten(np.concatenate([line.columns, line.gap[..., None]], axis=-1)) for line in lines]
        full = np.zeros((sum(map(len, rows)) + len(self.biases), x.size + 1))
        ends = np.cumsum([0, *map(len, rows)])
        for line, part, at in zip(lines, rows, ends, strict=False):
            full[at : at + len(part), [*line.places, x.size]] = part
        for k, (_, _, sigma) in enumerate(self.biases):
            full[ends[-1] + k, x.size - len(self.biases) + k] = 1.0 / sigma
        free = full[:, self.rank : -1]
        left = full[:, -1] - free @ np.linalg.lstsq(free, full[:, -1], rcond=None)[0]
        pairs = zip(lines, ends, strict=False)
        return [left[at : at + line.gap.size].reshape(line.gap.shape) for line, at in pairs]

    def offsets(self, record: Record, x: Array) -> Array:
        """The biases among unknowns (..., p) as errors of a record's readings (..., ny)."""
        places, sigma = record.deviations()
        full = np.zeros((*x.shape[:-1], sigma.size))
        for k, (name, component, _) in enumerate(self.biases, len(self.parameters) - len(self.biases)):
            if name in places:
                full[..., places[name].start + component] = x[..., k]
        return full

    def _bias_columns(self, record: Record, slopes: Array) -> Array:
        places, _ = record.deviations()
        zero = np.zeros_like(slopes[..., 0])
        columns = [slopes[..., places[name].start + k] if name in places else zero for name, k, _ in self.biases]
        return np.stack(columns, axis=-1)

    # -- as residuals of a plain problem --------------------------------------------------------------------------

    @property
    def blocks(self) -> tuple[Block, ...]:
        made = []
        for i, record in enumerate(self.records):
            names = self.equations.row_names(record)
            made.append(Block(partial(self._residual, i), partial(self._jacobian, i), 1.0, None, self.label(i), names))
        return tuple(made)

    @cached_property
    def _white(self) -> list[tuple[Array, Array]]:
        """Of each record: its residuals (T, m) with all unknowns at zero, and derivatives (T m, p)."""
        found, p = [], len(self.parameters)
        for i, record in enumerate(self.records):
            line = self.linearised(i, record, self.guess)
            linear = self.equations.linear(record)
            jacobian = np.zeros((linear.known.size, p))
            jacobian[:, line.places] = line.weights.whiten(line.columns)
            right = line.weights.whiten(self.known_side(linear)[..., None])
            found.append((-right.reshape(linear.known.shape), jacobian))
        return found

    def _residual(self, index: int, x: Array) -> Array:
        start, jacobian = self._white[index]
        return start + (jacobian @ x).reshape(start.shape)

    def _jacobian(self, index: int, x: Array) -> Array:
        return self._white[index][1]
