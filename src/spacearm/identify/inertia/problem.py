"""Linear equations of all records in the base parameters, as a problem for every estimator.

At each sample momentum (6 rows) or forces (6 rows, or 6 + n with torques) are linear in the inertias phi (10(n + 1)):
Y(readings) phi = known (+ initial momentum); of a base in a plane or on a rail the rows are those along which it moves.
With phi = lift @ base parameters + what is known beforehand, the unknowns x (p,) are the base parameters (r), an
initial momentum (6, world axes about the world's origin) for each record that does not state it, and sensor biases with
normal priors.

Rows are divided by the standard deviation that the noise of the readings gives them: their covariance is
D diag(sigma^2) D^T with D the derivatives of ``Y phi - known`` by the readings. It depends on phi and on the readings
themselves and is evaluated at a guess; total least squares repeats this (:mod:`spacearm.identify.inertia.regression`).

Samples are independent but for the impulse of thrusters, which sums the errors of all earlier ones
(:class:`.EquationWeights`). Arrays may have leading axes for repetitions of an experiment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from spacearm.checks import check_not_empty
from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import BaseParameters, momentum_parameters
from spacearm.identify.inertia.equations import MOMENTUM, Equations, EquationWeights, Kind, LinearEquations
from spacearm.identify.inertia.inertia_parameters import known_inertia_numbers
from spacearm.identify.inertia.readings import MotionRecord, record_labels
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.measure.channels import CHANNELS
from spacearm.model import Robot
from spacearm.optimise.consider import FixedNumber
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class LinearisedEquations:
    """A record's equations about readings and unknowns: ``gap + columns @ change`` of the unknowns at ``places``."""

    gap: Array  # (..., T, m)
    columns: Array  # (..., T, m, unknowns)
    places: npt.NDArray[np.intp]
    weights: EquationWeights
    fixed: Array  # (..., T, m, k) by one standard deviation of each fixed number


class InertiaProblem(Problem):
    """Base parameters of a robot, unknown initial momenta and sensor biases as a linear least-squares problem.

    The residuals of a record are its equations at every sample, divided by the deviations that the noise of its
    readings gives them. They are linear, and any estimator of :mod:`spacearm.optimise` solves them; but noise in the
    readings is also in the regressor and biases such an estimate: see :class:`.TotalLeastSquares`.

    Args:
        robot: geometry, and the inertias to start from (those of a nominal model; they may be wrong). Linear estimators
            need them for weights alone.
        records: of the experiments, in order.
        kinds: which equations.
        prior: numbers that it knows exactly are not unknowns.
        consider: standard deviations of ``thrust`` (share) and of the inertias of known bodies (``nominal``, or a
            body's name, as shares of their typical sizes). They are not unknowns, because noise in the regressor would
            pull a free scale of the thrust to zero; estimators count what they do to the estimate.
    """

    def __init__(
        self,
        robot: Robot,
        records: Sequence[MotionRecord],
        kinds: Sequence[Kind] = ("momentum",),
        prior: Prior | None = None,
        consider: Mapping[str, float] | None = None,
    ) -> None:
        self.robot, self.records, self.kinds = robot, tuple(records), tuple(kinds)
        self.prior, self.consider_deviations = prior, dict(consider or {})
        check_not_empty(self.records, "record", place="identification")
        if len({record.batch for record in self.records}) > 1:
            raise InputError("records differ in their repetitions", place="identification")
        for record in self.records:
            if record.base != robot.base:
                what = f"was prepared for a base that is {record.base.kind}, and that of {robot.name!r} is"
                raise InputError(f"{what} {robot.base.kind}", place=record.place, hint="prepare_record with this robot")
            if len(record.moving) != robot.n:
                raise InputError(
                    f"has {len(record.moving)} joints, robot {robot.name!r} has {robot.n}", place=record.place
                )
        # Initial momenta are those in world axes about the world's origin.
        names = [MOMENTUM[i] for i in robot.base.moving_indices]
        units = {name: "N s" if name.startswith("P") else "N m s" for name in names}
        momenta = [
            Parameter(f"{self.labels[i]}.{name}", 0.0, unit, scale=1.0)
            for i in self.unknown_momenta
            for name, unit in units.items()
        ]
        biases = [
            Parameter(f"{channel}[{k}].bias", 0.0, CHANNELS[channel].unit, scale=sigma, prior=(0.0, sigma))
            for channel, k, sigma in self.biases
        ]
        unknowns = self.base_parameters.unknowns(self.base_guess)
        super().__init__([*unknowns, *momenta, *biases], name=f"inertias of {robot.name}")

    # -- unknowns -------------------------------------------------------------------------------------------------

    @cached_property
    def base_parameters(self) -> BaseParameters:
        return momentum_parameters(self.robot, () if self.prior is None else self.prior.exact)

    @cached_property
    def known_inertia(self) -> Array:
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
    def labels(self) -> tuple[str, ...]:
        """Names of the records, all different."""
        return record_labels(self.records)

    @cached_property
    def unknown_momenta(self) -> tuple[int, ...]:
        """Records whose initial momentum must be estimated."""
        if "momentum" not in self.kinds:
            return ()
        return tuple(i for i, record in enumerate(self.records) if record.known_momentum is None)

    @property
    def momentum_count(self) -> int:
        """Number of unknowns that are initial momenta."""
        return len(self.unknown_momenta) * len(self.robot.base.moving_indices)

    @cached_property
    def biases(self) -> tuple[tuple[str, int, float], ...]:
        """Channel, component and standard deviation of every sensor bias to estimate."""
        # A sensor is the same in all records: its bias is one unknown, shown by any record that has the channel.
        found: dict[tuple[str, int], float] = {}
        for record in self.records:
            for name, sigma in record.bias_sigma.items():
                if name in record.readings and sigma > 0:
                    parts = range(self.robot.n) if CHANNELS[name].size is None else record.moving_parts(name)
                    found |= {(name, k): float(sigma) for k in parts}
        return tuple((name, k, sigma) for (name, k), sigma in found.items())

    @cached_property
    def fixed_numbers(self) -> tuple[FixedNumber, ...]:
        """Numbers that are not looked for and are uncertain."""
        stated = self.consider_deviations
        known = () if self.prior is None else self.prior.exact
        inertias = known_inertia_numbers(self.robot, known, stated)
        thrust = stated.get("thrust", 0.0) if any(np.any(record.wrench) for record in self.records) else 0.0
        return (*((FixedNumber("thrust", thrust),) if thrust > 0.0 else ()), *inertias.values())

    def fixed_columns(self, record: MotionRecord, linear: LinearEquations) -> Array:
        """Change (..., T, m, k) of the equations by one standard deviation of each fixed number."""
        known = () if self.prior is None else self.prior.exact
        inertias = known_inertia_numbers(self.robot, known, self.consider_deviations)
        columns = [linear.matrix[..., place] * one.deviation for place, one in inertias.items()]
        if len(self.fixed_numbers) > len(inertias):
            # Known forces stand on the right side of the equations: a larger thrust enters with a minus.
            pushed = np.zeros_like(linear.known)
            rows, moving = linear.momentum_rows, self.equations.moving
            if rows.stop:
                pushed[..., rows] = record.impulse()[..., moving]
            if "dynamics" in self.kinds:
                pushed[..., rows.stop : rows.stop + len(moving)] = record.wrench[..., moving]
            columns.insert(0, -self.fixed_numbers[0].deviation * pushed)
        return np.stack(columns, axis=-1) if columns else np.zeros((*linear.known.shape, 0))

    # -- equations ------------------------------------------------------------------------------------------------

    @cached_property
    def equations(self) -> Equations:
        return Equations(self.robot, self.kinds)

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading shape of the records: repetitions."""
        return self.records[0].batch

    @cached_property
    def assumes_noise(self) -> bool:
        """Whether no noise is stated, so that weights (and deviations) are those of typical sensors."""
        return not any(np.any(record.deviations()[1] > 0) for record in self.records)

    def deviations(self, record: MotionRecord) -> Array:
        """Standard deviation of each reading (ny,): as stated, or typical where none is stated at all."""
        return record.use_typical_noise().deviations()[1] if self.assumes_noise else record.deviations()[1]

    def inertia(self, x: Array) -> Array:
        """Inertias (..., 10(n + 1)) that have the base parameters of unknowns (..., p)."""
        # `lift` picks the inertias with these base parameters whose null directions are zero: the equations see no
        # others.
        return np.asarray(self.known_inertia + x[..., : self.rank] @ self.base_parameters.lift.T)

    def compute_known_side(self, linear: LinearEquations) -> Array:
        """Right side (..., T, m) of the equations in the unknowns."""
        return np.asarray(linear.known - linear.matrix @ self.known_inertia)

    def linearise(self, index: int, adjusted: MotionRecord, x: Array) -> LinearisedEquations:
        """A record's equations about its corrected readings and the unknowns x (..., p)."""
        inertia = self.inertia(x)
        linear = self.equations.linear(adjusted)
        # The covariance depends on the inertias: a heavy body carries more of the noise of rates into the momentum.
        slopes = self.equations.slopes(adjusted, inertia)
        try:
            weights = EquationWeights(self.equations, adjusted, slopes, self.deviations(adjusted))
        except np.linalg.LinAlgError:
            # A covariance that is not positive definite means readings or inertias beyond all bounds.
            raise InputError(
                "the estimation does not converge",
                place=adjusted.place,
                hint="the noise is too strong for this motion, or too small to be true",
            ) from None
        gap = np.einsum("...tmp,...p->...tm", linear.matrix, inertia) - linear.known
        columns, places = [linear.matrix @ self.base_parameters.lift], [np.arange(self.rank)]
        if index in self.unknown_momenta:
            count = linear.momentum_rows.stop
            at = self.rank + count * self.unknown_momenta.index(index)
            # The unknown momentum stands on the known side: subtracted from the gap, column minus one.
            gap[..., linear.momentum_rows] -= x[..., None, at : at + count]
            columns.append(-linear.free_momentum())
            places.append(np.arange(at, at + count))
        if self.biases:
            # A bias is subtracted from its readings: minus the derivative by a reading error.
            columns.append(-self._bias_columns(adjusted, slopes))
            places.append(np.arange(len(self.parameters) - len(self.biases), len(self.parameters)))
        fixed = self.fixed_columns(adjusted, linear)
        return LinearisedEquations(gap, np.concatenate(columns, axis=-1), np.concatenate(places), weights, fixed)

    def misfit(self, values: Array) -> list[Array]:
        """Equations (T, m) of each record at these base parameters (r,), in standard deviations of what noise makes of
        them; initial momenta and biases are those that fit best."""
        # Momenta and biases at zero: the equations are linear in them, and what fits best is found below.
        x = np.concatenate([values, np.zeros(len(self.parameters) - self.rank)])
        lines = [self.linearise(i, record, x) for i, record in enumerate(self.records)]
        # Gap and columns are whitened together: one triangular solve.
        rows = [line.weights.whiten(np.concatenate([line.columns, line.gap[..., None]], axis=-1)) for line in lines]
        full = np.zeros((sum(map(len, rows)) + len(self.biases), x.size + 1))
        ends = np.cumsum([0, *map(len, rows)])
        for line, part, at in zip(lines, rows, ends, strict=False):
            full[at : at + len(part), [*line.places, x.size]] = part
        for k, (_, _, sigma) in enumerate(self.biases):
            # A prior is one more equation, bias / sigma = 0.
            full[ends[-1] + k, x.size - len(self.biases) + k] = 1.0 / sigma
        free = full[:, self.rank : -1]
        # Momenta and biases are projected out: misfits of base parameters that another estimator found must not depend
        # on values which it never estimated.
        left = full[:, -1] - free @ np.linalg.lstsq(free, full[:, -1], rcond=None)[0]
        pairs = zip(lines, ends, strict=False)
        return [left[at : at + line.gap.size].reshape(line.gap.shape) for line, at in pairs]

    def offsets(self, record: MotionRecord, x: Array) -> Array:
        """The biases among unknowns (..., p) as errors of a record's readings (..., ny)."""
        places, sigma = record.deviations()
        full = np.zeros((*x.shape[:-1], sigma.size))
        for k, (name, component, _) in enumerate(self.biases, len(self.parameters) - len(self.biases)):
            if name in places:
                full[..., places[name].start + component] = x[..., k]
        return full

    def _bias_columns(self, record: MotionRecord, slopes: Array) -> Array:
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
            made.append(Block(partial(self._residual, i), partial(self._jacobian, i), 1.0, None, self.labels[i], names))
        return tuple(made)

    @cached_property
    def _white(self) -> list[tuple[Array, Array]]:
        """Of each record: its residuals (T, m) with all unknowns at zero, and derivatives (T m, p)."""
        found, p = [], len(self.parameters)
        for i, record in enumerate(self.records):
            # Weights are frozen at the guess, so that the residuals are exactly linear in the unknowns.
            line = self.linearise(i, record, self.guess)
            linear = self.equations.linear(record)
            jacobian = np.zeros((linear.known.size, p))
            jacobian[:, line.places] = line.weights.whiten(line.columns)
            right = line.weights.whiten(self.compute_known_side(linear)[..., None])
            found.append((-right.reshape(linear.known.shape), jacobian))
        return found

    def _residual(self, index: int, x: Array) -> Array:
        start, jacobian = self._white[index]
        return start + (jacobian @ x).reshape(start.shape)

    def _jacobian(self, index: int, x: Array) -> Array:
        return self._white[index][1]
