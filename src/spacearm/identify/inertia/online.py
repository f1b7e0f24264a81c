"""A grasped target's ten parameters while data arrive: recursive, with shrinking uncertainty.

The rest of the robot is known. Momentum is linear in the target's parameters, so each batch of samples adds to an
information matrix (a recursive least-squares filter in information form). Readings are weighted by their noise; the
unknown initial momentum is estimated along.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.equations import Equations
from spacearm.identify.inertia.parameters import LINEAR, LINEAR_UNITS, typical_sizes
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.weights import own_whitener
from spacearm.model import Robot
from spacearm.model.parts import Array


@dataclass(frozen=True, eq=False)
class TargetState:
    """What is known of the target at a time: linear parameters (10,) and covariance (10, 10)."""

    time: float
    values: Array
    covariance: Array

    @property
    def std(self) -> Array:
        return np.sqrt(np.diag(self.covariance))


class TargetFilter:
    """Estimates the ten linear parameters of one body (in its own frame) from arriving samples.

    Args:
        robot: all other bodies with their true inertias; those of ``body`` are the first guess.
        body: the body that holds the target.
        relative: deviation of the first guess in typical sizes.
        momentum_sigma: deviation of the initial momentum (N s, N m s) about zero.
    """

    names = LINEAR
    units = LINEAR_UNITS

    def __init__(self, robot: Robot, body: str, *, relative: float = 1.0, momentum_sigma: float = 1e3) -> None:
        self.robot = robot
        self._index = robot.body_index(body)
        self._columns = slice(10 * self._index, 10 * self._index + 10)
        self._equations = Equations(robot, ("momentum",))
        self._scale = np.concatenate([typical_sizes(robot)[self._columns], np.ones(6)])
        self._guess = robot.inertia_parameters[self._index].copy()
        doubt = np.concatenate([np.full(10, relative), np.full(6, momentum_sigma)])
        # square-root information: rows whose squared length is the misfit, in scaled deviations from the guess
        self._root = np.diag(1.0 / doubt)
        self._right = np.zeros(16)
        self.time = 0.0
        self.samples = 0

    def update(self, record: Record) -> TargetState:
        """Take in the samples of a record (one or many) that come after those taken before."""
        if record.batch:
            raise InputError("has repetitions", place=record.place, hint="expected one")
        if np.any(record.wrench):
            raise InputError("thrusters fire", place=record.place, hint="the filter takes free-floating motion")
        linear = self._equations.linear(record)
        inertia = self.robot.inertia_parameters.ravel().copy()
        inertia[self._columns] = self.state().values
        slopes = self._equations.slopes(record, inertia)
        _, _, sigma = record.deviations()
        if not np.any(sigma > 0):
            raise InputError("states no noise", place=record.place, hint="the filter weighs samples by their noise")
        white = own_whitener(slopes * sigma)
        others = self.robot.inertia_parameters.ravel().copy()
        others[self._columns] = self._guess
        gap = linear.known - linear.matrix @ others
        matrix = np.concatenate([linear.matrix[..., self._columns], np.broadcast_to(-np.eye(6), (len(gap), 6, 6))], -1)
        rows = (white @ (matrix * self._scale)).reshape(-1, 16)
        right = (white @ gap[..., None]).reshape(-1)
        stacked = np.concatenate([np.column_stack([self._root, self._right]), np.column_stack([rows, right])])
        triangle = np.asarray(np.linalg.qr(stacked, mode="r"))
        self._root, self._right = triangle[:16, :16], triangle[:16, 16]
        self.time, self.samples = float(record.times[-1]), self.samples + record.times.size
        return self.state()

    def state(self) -> TargetState:
        """Estimate and covariance now."""
        solution = np.linalg.solve(self._root, self._right) * self._scale
        inverse = np.linalg.inv(self._root) * self._scale[:, None]
        return TargetState(self.time, self._guess + solution[:10], (inverse @ inverse.T)[:10, :10])


def follow(robot: Robot, body: str, record: Record, chunk: int = 10, **options: float) -> list[TargetState]:
    """The filter's states over a record, ``chunk`` samples at a time, the first before any data."""
    watch = TargetFilter(robot, body, **options)
    states = [watch.state()]
    for first in range(0, record.times.size, chunk):
        part = record.cut(slice(first, first + chunk))
        states.append(watch.update(replace(part, known_momentum=None)))
    return states
