"""An identification task: a robot's geometry, records of experiments, and the equations to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.equations import Equations, Kind
from spacearm.identify.inertia.parameters import typical_sizes
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.sensors import CHANNELS, TYPICAL_NOISE
from spacearm.model import Robot
from spacearm.typing import Array


@lru_cache(maxsize=64)
def _theory_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be identified from what.

    Args:
        robot: geometry, and the inertias to start from (a drawing's; they may be wrong). Linear estimators do not need
            them but for weights.
        records: of the experiments, in order.
        kinds: which equations.
    """

    robot: Robot
    records: Sequence[Record]
    kinds: Sequence[Kind] = ("momentum",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", tuple(self.records))
        if not self.records:
            raise InputError("there is no record", place="identification", hint="expected at least one experiment")
        if len({record.batch for record in self.records}) > 1:
            raise InputError("records differ in their repetitions", place="identification")
        for record in self.records:
            if len(record.moving) != self.robot.n:
                raise InputError(
                    f"has {len(record.moving)} joints, robot {self.robot.name!r} has {self.robot.n}", place=record.place
                )

    @cached_property
    def base_parameters(self) -> BaseParameters:
        return _theory_of(self.robot)

    @cached_property
    def equations(self) -> Equations:
        return Equations(self.robot, self.kinds)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.records[0].batch

    @cached_property
    def guess(self) -> Array:
        """Base parameters of the robot as given."""
        return self.base_parameters.combine @ self.robot.inertia_parameters.ravel()

    @cached_property
    def sizes(self) -> Array:
        """Typical size of each base parameter: the largest that one of its terms has."""
        rows = np.abs(self.base_parameters.combine) * typical_sizes(self.robot)
        return np.asarray(rows.max(axis=1))

    @cached_property
    def assumed_noise(self) -> bool:
        """Whether no noise is stated, so that weights (and deviations) are those of typical sensors."""
        return not any(np.any(record.deviations()[2] > 0) for record in self.records)

    def deviations(self, record: Record) -> Array:
        """Standard deviation of each reading (ny,): as stated, or typical where none is stated at all."""
        names, places, sigma = record.deviations()
        if not self.assumed_noise:
            return sigma
        sigma = np.zeros_like(sigma)
        for name in names:
            sigma[places[name]] = TYPICAL_NOISE[name]
        if "joint_rate" in places:
            sigma[places["joint_rate"]] = np.where(record.moving, TYPICAL_NOISE["joint_rate"], 0.0)
        return sigma

    @cached_property
    def unknown_momenta(self) -> tuple[int, ...]:
        """Records whose initial momentum must be estimated."""
        if "momentum" not in self.equations.kinds:
            return ()
        return tuple(i for i, record in enumerate(self.records) if record.known_momentum is None)

    @cached_property
    def biases(self) -> tuple[tuple[str, int, float], ...]:
        """(channel, component, standard deviation) of every sensor bias to estimate; common to all records."""
        found: dict[tuple[str, int], float] = {}
        for record in self.records:
            for name, sigma in record.bias_sigma.items():
                if name in record.readings and sigma > 0:
                    for k in range(CHANNELS[name] or self.robot.n):
                        found[(name, k)] = float(sigma)
        return tuple((name, k, sigma) for (name, k), sigma in found.items())
