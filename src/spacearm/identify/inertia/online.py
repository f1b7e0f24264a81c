"""A grasped target's ten parameters while data arrive: recursive, with shrinking uncertainty.

The rest of the robot is known. Momentum is linear in the target's parameters, so each batch of samples adds to an
information matrix (a recursive least-squares filter in information form). Readings are weighted by their noise; the
unknown initial momentum is estimated along. Noise in the regressor adds a known part to the information and to its
right side, in the mean: it is taken off again (bias-compensated least squares: P. Stoica, T. Soderstrom 1982).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.equations import Equations, own_whitener
from spacearm.identify.inertia.inertia_parameters import LINEAR, LINEAR_UNITS, typical_sizes
from spacearm.identify.inertia.readings import Record
from spacearm.model import Robot
from spacearm.typing import Array

#: Beyond this share of noise in the information along a direction nothing is concluded from it.
MOSTLY_NOISE = 0.5


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
        self._doubt = np.concatenate([np.full(10, relative), np.full(6, momentum_sigma)])
        # square-root information: rows whose squared length is the misfit, in scaled deviations from the guess
        self._root = np.diag(1.0 / self._doubt)
        self._right = np.zeros(16)
        # what noise in the readings adds to the squares of the rows and to their products with the right side
        self._noise, self._noise_right = np.zeros((10, 10)), np.zeros(10)
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
        _, sigma = record.deviations()
        if not np.any(sigma > 0):
            raise InputError("states no noise", place=record.place, hint="the filter weighs samples by their noise")
        white = own_whitener(slopes * sigma)
        others = self.robot.inertia_parameters.ravel().copy()
        others[self._columns] = self._guess
        gap = linear.known - linear.matrix @ others
        matrix = np.concatenate([linear.matrix[..., self._columns], np.broadcast_to(-np.eye(6), (len(gap), 6, 6))], -1)
        self._count_noise(record, others, white, sigma)
        rows = (white @ (matrix * self._scale)).reshape(-1, 16)
        right = (white @ gap[..., None]).reshape(-1)
        stacked = np.concatenate([np.column_stack([self._root, self._right]), np.column_stack([rows, right])])
        triangle = np.asarray(np.linalg.qr(stacked, mode="r"))
        self._root, self._right = triangle[:16, :16], triangle[:16, 16]
        self.time, self.samples = float(record.times[-1]), self.samples + record.times.size
        return self.state()

    def _count_noise(self, record: Record, others: Array, white: Array, sigma: Array) -> None:
        units = np.zeros((12, others.size))  # ten unit parameters, nothing, all that is taken as known
        units[:10, self._columns] = np.diag(self._scale[:10])
        units[11] = others
        slopes = white @ (self._equations.slopes(record.repeated(12), units) * sigma)
        by_unit = (slopes[:10] - slopes[10]).reshape(10, -1)
        self._noise += by_unit @ by_unit.T
        self._noise_right -= by_unit @ slopes[11].ravel()

    def state(self) -> TargetState:
        """Estimate and covariance now."""
        head = np.eye(16)[:, :10]
        half = np.linalg.solve(self._root.T, head)
        share, turn = np.linalg.eigh(half @ self._noise @ half.T)  # of the information that is only noise
        mostly = share > MOSTLY_NOISE
        plain = turn.T @ (self._right - half @ self._noise_right)
        found = np.where(mostly, 0.0, plain / (1.0 - np.where(mostly, 0.0, share)))
        # along directions that are mostly noise everything stays as it was believed before
        spread = np.where(mostly, np.sum((turn.T @ self._root * self._doubt) ** 2, axis=1), 1.0)
        inverse = np.linalg.solve(self._root, turn) * self._scale[:, None]
        solution = inverse @ found
        return TargetState(self.time, self._guess + solution[:10], ((inverse * spread) @ inverse.T)[:10, :10])


def follow(robot: Robot, body: str, record: Record, chunk: int = 10, **options: float) -> list[TargetState]:
    """The filter's states over a record, ``chunk`` samples at a time, the first before any data."""
    watch = TargetFilter(robot, body, **options)
    states = [watch.state()]
    for first in range(0, record.times.size, chunk):
        part = record.cut(slice(first, first + chunk))
        states.append(watch.update(replace(part, known_momentum=None)))
    return states
