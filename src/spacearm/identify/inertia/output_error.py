"""Inertias from all samples of all channels: the motion is predicted, and ties the readings together over time.

The base's motion follows from the inertias, the state and momentum at the start, the joints' measured paths and the
known wrench (:mod:`spacearm.identify.inertia.base_motion`). What the encoders got wrong moves the prediction too; those
errors are marginalised by a filter (:mod:`spacearm.identify.whitening`). The residuals are then white, so that least
squares give the most likely inertias, with the covariance that the data allow: the Cramer-Rao bound.

What may be wrong besides the inertias (a delay, a bias, the thrust) is a column of derivatives more: it is estimated,
or tested by how much the fit would gain from it (C. R. Rao's score test, 1948).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError, did_you_mean
from spacearm.identify.inertia.base_motion import BaseMotion, Inputs, Linearised
from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.inertia_parameters import labels, typical_sizes
from spacearm.identify.inertia.readings import Record, turned
from spacearm.identify.whitening import ErrorModel
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array

#: Channels that are predicted, and their rows in a sample's residual.
ROWS = MappingProxyType(
    {"position": slice(0, 3), "attitude": slice(3, 6), "velocity": slice(6, 9), "rate": slice(9, 12)}
)
#: Names of the twelve errors of a start, and their units.
START = (*(f"{name}.{axis}" for name in ("position", "turn", "P", "L") for axis in "xyz"),)
START_UNITS = (*["m"] * 3, *["rad"] * 3, *["N s"] * 3, *["N m s"] * 3)
START_SCALES = (0.01, 1e-3, 1.0, 1.0)
#: A reading further than this from its prediction, in standard deviations, is an outlier.
OUTLIER = 6.0
#: Share of the readings that may be outliers.
MOST_OUTLIERS = 0.05


@dataclass(frozen=True, slots=True)
class Nuisance:
    """Something that may be wrong besides the inertias. ``size`` 0: one number for each joint."""

    size: int
    unit: str
    scale: float
    advice: str


NUISANCES = MappingProxyType(
    {
        "thrust": Nuisance(1, "", 0.01, "the thrust is not the one stated"),
        "delay": Nuisance(1, "s", 0.01, "the base's readings are late against those of the joints and thrusters"),
        "rate_bias": Nuisance(3, "rad/s", 1e-4, "the gyro has a bias"),
        "velocity_bias": Nuisance(3, "m/s", 1e-3, "the velocity has a bias"),
        "mount": Nuisance(3, "m", 0.01, "the sensor does not sit where the robot file has it"),
        "misalignment": Nuisance(3, "rad", 1e-3, "the gyro's axes are tilted"),
        "encoder_offset": Nuisance(0, "rad", 1e-3, "joint angles are read with an offset"),
    }
)


@dataclass(frozen=True, eq=False)
class Score:
    """What a nuisance that is not estimated would bring: chi-square of ``freedom`` if it is not there."""

    name: str
    statistic: float
    freedom: int

    @property
    def p_value(self) -> float:
        """How often chance alone would bring as much."""
        from scipy.stats import chi2

        return float(chi2.sf(self.statistic, self.freedom))


class _RecordPrediction:
    """One record: its inputs, what is present, and its residuals with all derivatives."""

    def __init__(self, robot: Robot, record: Record) -> None:
        if record.batch:
            raise InputError("has repetitions", place=record.place, hint="fit them one by one: Record.picked")
        for name in ("position", "attitude", *(("joint_position",) if robot.n else ())):
            record.channel(name)
        self.robot, self.record = robot, record
        moving = np.array(record.moving, dtype=bool)
        times = record.times
        joints = record.readings["joint_position"] if robot.n else np.zeros((times.size, 0))
        # A locked joint stays where it is: its readings differ by noise alone, and its rate is zero whatever is read.
        joints = np.where(moving, joints, joints.mean(axis=0))
        rates = np.where(moving, record.joint_rates(), 0.0) if robot.n else joints
        self.input_variance = np.concatenate(
            [np.where(moving, record.sigma.get(name, 0.0) ** 2, 0.0) for name in ("joint_position", "joint_rate")]
        )
        edges = np.array(record.edges)
        first = np.clip(np.searchsorted(times, edges[:-1] - 1e-9), 0, times.size - 1)
        self.motion = BaseMotion(robot, Inputs(times, joints, rates, edges, record.wrench[first]))
        self.present, self.variance = np.zeros((times.size, 12), dtype=bool), np.ones(12)
        for name, rows in ROWS.items():
            if name not in record.readings:
                continue
            if not record.sigma.get(name, 0.0) > 0.0:
                raise InputError(f"the noise of {name!r} is not stated", place=record.place, hint="expected above zero")
            self.present[:, rows] = np.isfinite(record.readings[name]).all(axis=1, keepdims=True)
            self.variance[rows] = record.sigma[name] ** 2

    @property
    def unknowns(self) -> int:
        """Errors of the start that are looked for: all twelve, or those of the pose where the momentum is known."""
        return 12 if self.record.known_momentum is None else 6

    def start(self, inertia: Array) -> Array:
        """State and momentum at the first sample, from its readings alone."""
        inputs = self.motion.inputs
        origin, quaternion, _ = self.record.pose()
        base = np.concatenate([origin[0], quaternion[0] / np.linalg.norm(quaternion[0])])
        if not np.all(np.isfinite(base)):
            raise InputError("the first sample has no position or attitude", place=self.record.place, hint="cut it off")
        known = self.record.known_momentum
        if known is None:
            twist = np.nan_to_num(self.record.velocity()[0, :6])
            velocity = np.concatenate([twist, inputs.rates[0]])
            mechanics = mechanics_of(self.robot)
            known = mechanics.momentum(inputs.joints[0], velocity, base=base, inertia=inertia.reshape(-1, 10))
        return np.concatenate([base, known])

    def columns(
        self, start: Array, inertia: Array, directions: Array, thrust: float, delay: float
    ) -> tuple[Array, dict[str, Array], ErrorModel]:
        """Residuals (T, 12), the prediction's derivatives (T, 12, ...) by name, and how errors are tied."""
        moved = self.motion.linearised(start, inertia, directions, 1.0 + thrust)
        n, count = self.robot.n, moved.states.shape[0]
        seen, direct = self._outputs(moved)
        wide = directions.shape[1]
        offset = moved.before[:, :, :n] + moved.after[:, :, :n]  # a reading that is too large is corrected downwards
        forced = np.concatenate([moved.forced, -offset], axis=2)
        twists = np.concatenate([moved.twist_parameters, -moved.twist_joints[:, :, :n]], axis=2)
        error = np.zeros((count, 12, 12 + forced.shape[2]))
        error[0, :, :12] = np.eye(12)
        for k in range(count - 1):
            error[k + 1] = moved.across[k] @ error[k]
            error[k + 1, :, 12:] += forced[k]
        total = seen @ error
        total[:, :, 12:] += direct @ twists
        parts = np.split(total, np.cumsum([12, wide, 1]), axis=2)
        named = dict(zip(("start", "inertia", "thrust", "encoder_offset"), parts, strict=True))
        residual, sensors = self._readings(moved, delay)
        model = ErrorModel(
            moved.across,
            moved.before,
            moved.after,
            seen,
            direct @ moved.twist_joints,
            self.input_variance,
            self.variance,
        )
        return residual, named | sensors, model

    def _outputs(self, moved: Linearised) -> tuple[Array, Array]:
        """Derivatives of a sample's rows by the twelve errors, and by the twist alone."""
        rotation, count = moved.rotation, moved.rotation.shape[0]
        arm = skew(np.broadcast_to(self.record.mount, (count, 3)))
        at_mount = moved.twist[:, :3] + np.cross(moved.twist[:, 3:], self.record.mount)
        direct = np.zeros((count, 12, 6))
        direct[:, 6:9, :3], direct[:, 6:9, 3:], direct[:, 9:, 3:] = rotation, -rotation @ arm, np.eye(3)
        seen = direct @ moved.twist_state
        seen[:, :3, :3] += np.eye(3)
        seen[:, :3, 3:6] -= rotation @ arm
        seen[:, 3:6, 3:6] += np.eye(3)
        seen[:, 6:9, 3:6] -= rotation @ skew(at_mount)
        return seen, direct

    def _readings(self, moved: Linearised, delay: float) -> tuple[Array, dict[str, Array]]:
        """Residuals, and derivatives by what the sensors themselves may get wrong."""
        record, rotation, turning = self.record, moved.rotation, moved.twist[:, 3:]
        velocity = np.einsum("tij,tj->ti", rotation, moved.twist[:, :3] + np.cross(turning, record.mount))
        predicted = {"position": moved.states[:, :3] + rotation @ record.mount, "velocity": velocity, "rate": turning}
        attitude = moved.states[:, 3:7]
        if delay:
            # What is read now was so some time ago; half way back stands for the mean of what lies between.
            then, between = record.times - delay, record.times - 0.5 * delay
            attitude = turned(attitude, -delay * _at(between, record.times, turning))
            predicted["position"] = predicted["position"] - delay * _at(between, record.times, velocity)
            predicted |= {name: _at(then, record.times, predicted[name]) for name in ("velocity", "rate")}
        residual = np.zeros((turning.shape[0], 12))
        residual[:, 3:6] = turn_between(attitude, record.readings["attitude"])
        for name, values in predicted.items():
            if name in record.readings:
                residual[:, ROWS[name]] = record.readings[name] - values
        found = {name: np.zeros((turning.shape[0], 12, NUISANCES[name].size)) for name in
                 ("delay", "rate_bias", "velocity_bias", "mount", "misalignment")}  # fmt: skip
        slopes = [np.gradient(values, record.times, axis=0) for values in (velocity, turning)]
        found["delay"][:, :, 0] = -np.concatenate([velocity, turning, *slopes], axis=1)
        found["rate_bias"][:, 9:] = found["velocity_bias"][:, 6:9] = np.eye(3)
        found["mount"][:, :3], found["mount"][:, 6:9] = rotation, rotation @ skew(turning)
        found["misalignment"][:, 9:] = skew(turning)
        return np.where(self.present, residual, 0.0), found


def _at(instants: Array, times: Array, values: Array) -> Array:
    """Values (T, 3) at other instants, straight between samples: a thruster's start is a kink."""
    return np.stack([np.interp(instants, times, column) for column in values.T], axis=1)


def turn_between(first: Array, second: Array) -> Array:
    """The turn (T, 3), axes of the first, from one attitude to another (quaternions (T, 4))."""
    w, v = first[:, :1], -first[:, 1:]
    a, b = second[:, :1], second[:, 1:]
    scalar = w * a - np.sum(v * b, axis=1, keepdims=True)
    vector = (w * b + a * v + np.cross(v, b)) * np.where(scalar < 0.0, -1.0, 1.0)
    length = np.linalg.norm(vector, axis=1, keepdims=True)
    return vector * np.where(length > 1e-9, 2.0 * np.arctan2(length, np.abs(scalar)) / np.maximum(length, 1e-300), 2.0)


class OutputErrorProblem(Problem):
    """Inertias, nuisances and starts, as a problem for every estimator; its residuals are white.

    Args:
        robot: geometry, and the inertias to start from. Those of bodies that are not asked for are known.
        records: of the experiments, each with the noise of its channels.
        bodies: whose inertias are looked for, ten numbers each; without it, the base parameters of the whole robot.
        estimate: names of :data:`NUISANCES` to look for besides; the others can be tested (:meth:`scores`).
        prior: standard deviation of the robot's own inertias by parameter name, where something is believed of them.
    """

    def __init__(
        self,
        robot: Robot,
        records: Sequence[Record],
        bodies: Sequence[str] | None = None,
        estimate: Sequence[str] = (),
        prior: dict[str, float] | None = None,
    ) -> None:
        for name in estimate:
            if name not in NUISANCES:
                raise InputError(f"there is no {name!r}", place="estimate", hint=did_you_mean(name, NUISANCES))
        self.robot, self.nuisances = robot, tuple(dict.fromkeys(estimate))
        self.drawn = robot.inertia_parameters.ravel()
        self._data = [_RecordPrediction(robot, record) for record in records]
        self._starts = [data.start(self.drawn) for data in self._data]
        self._last: tuple[bytes, list[tuple[Array, Array]]] | None = None
        inertias = self._base() if bodies is None else self._chosen(bodies)
        believed = {} if prior is None else prior
        inertias = [
            Parameter(
                p.name,
                p.guess,
                p.unit,
                scale=p.scale,
                prior=(p.guess, believed[p.name]) if p.name in believed else None,
            )
            for p in inertias
        ]
        others = [
            Parameter(
                f"{name}[{k}]" if self._size(name) > 1 else name, 0.0, NUISANCES[name].unit, scale=NUISANCES[name].scale
            )
            for name in self.nuisances
            for k in range(self._size(name))
        ]
        starts = [
            Parameter(f"{data.record.name}.{name}", 0.0, unit, scale=START_SCALES[k // 3])
            for data in self._data
            for k, (name, unit) in enumerate(zip(START[: data.unknowns], START_UNITS, strict=False))
        ]
        self._count = len(inertias)
        super().__init__([*inertias, *others, *starts], self._blocks_of(), name=f"inertias of {robot.name}")

    def _chosen(self, bodies: Sequence[str]) -> list[Parameter]:
        rows = [10 * self.robot.body_index(name) + k for name in dict.fromkeys(bodies) for k in range(10)]
        named, sizes = labels(self.robot), typical_sizes(self.robot)
        self.directions = np.eye(self.drawn.size)[:, rows]
        return [Parameter(named[i].text, float(self.drawn[i]), named[i].unit, scale=float(sizes[i])) for i in rows]

    def _base(self) -> list[Parameter]:
        found = base_parameters(self.robot)
        self.directions = found.lift
        sizes = (np.abs(found.combine) * typical_sizes(self.robot)).max(axis=1)
        guesses = found.combine @ self.drawn
        return [
            Parameter(p.name, float(guess), p.unit, scale=float(size))
            for p, guess, size in zip(found.parameters, guesses, sizes, strict=True)
        ]

    def _size(self, name: str) -> int:
        return NUISANCES[name].size or self.robot.n

    def inertia(self, x: Array) -> Array:
        """All inertias (10 (n + 1)) at unknowns ``x``."""
        guess = np.array([p.guess for p in self.parameters[: self._count]])
        return np.asarray(self.drawn + self.directions @ (x[: self._count] - guess))

    # -- residuals ------------------------------------------------------------------------------------------------

    def _blocks_of(self) -> tuple[Block, ...]:
        names = tuple(f"{name}.{axis}" for name in ROWS for axis in "xyz")
        made: list[Block] = []
        for i, data in enumerate(self._data):
            residual: Callable[[Array], Array] = partial(self._residual, i)
            made.append(Block(residual, partial(self._jacobian, i), 1.0, None, data.record.name, names))
        return tuple(made)

    def _residual(self, index: int, x: Array) -> Array:
        return self._white(x)[index][0]

    def _jacobian(self, index: int, x: Array) -> Array:
        columns = self._white(x)[index][1]
        return -columns.reshape(-1, columns.shape[2])[:, : len(self.parameters)]

    def _white(self, x: Array) -> list[tuple[Array, Array]]:
        """White residuals (T, 12) of each record and the prediction's derivatives (T, 12, ...), tested ones last."""
        key = np.asarray(x, dtype=np.float64).tobytes() + b"".join(data.present.tobytes() for data in self._data)
        if self._last is None or self._last[0] != key:
            self._last = key, [self._white_of(i, x) for i in range(len(self._data))]
        return self._last[1]

    def _white_of(self, index: int, x: Array) -> tuple[Array, Array]:
        data = self._data[index]
        start, inertia = self._start_at(index, x), self.inertia(x)
        found = {"thrust": 0.0, "delay": 0.0} | {
            name: float(x[self._place(name)][0]) for name in self.nuisances if name in ("thrust", "delay")
        }
        residual, named, model = data.columns(start, inertia, self.directions, found["thrust"], found["delay"])
        whole = np.zeros((residual.shape[0], 12, len(self.parameters)))
        whole[:, :, : self._count] = named["inertia"]
        for name in self.nuisances:
            whole[:, :, self._place(name)] = named[name]
            if name not in found:  # they enter as they are, not by their derivative
                residual = residual - np.where(data.present, named[name] @ x[self._place(name)], 0.0)
        whole[:, :, self._start_place(index)] = named["start"][:, :, : data.unknowns]
        whole = np.concatenate([residual[:, :, None], whole, *(named[name] for name in self.tested)], axis=2)
        white = model.white(whole, data.present) if np.all(np.isfinite(whole)) else np.full_like(whole, np.nan)
        return white[:, :, 0], white[:, :, 1:]

    def _place(self, nuisance: str) -> slice:
        before = self.nuisances[: self.nuisances.index(nuisance)]
        at = self._count + sum(self._size(name) for name in before)
        return slice(at, at + self._size(nuisance))

    def _start_place(self, index: int) -> slice:
        at = len(self.parameters) - sum(data.unknowns for data in self._data[index:])
        return slice(at, at + self._data[index].unknowns)

    def _start_at(self, index: int, x: Array) -> Array:
        error, start = np.zeros(12), self._starts[index]
        own = x[self._start_place(index)]
        error[: own.size] = own
        attitude = turned(start[3:7], error[3:6])
        return np.concatenate([start[:3] + error[:3], attitude / np.linalg.norm(attitude), start[7:] + error[6:]])

    # -- what else ------------------------------------------------------------------------------------------------

    @cached_property
    def tested(self) -> tuple[str, ...]:
        """Nuisances that are not estimated and that these records could show."""
        return tuple(name for name in NUISANCES if name not in self.nuisances and self._size(name))

    def scores(self, x: Array) -> tuple[Score, ...]:
        """How much each nuisance that is not estimated would improve the fit at its optimum ``x``."""
        white = self._white(x)
        residual = np.concatenate([rows.ravel() for rows, _ in white])
        columns = np.concatenate([part.reshape(-1, part.shape[2]) for _, part in white])
        basis = _orthonormal(columns[:, : len(self.parameters)])
        rest, at, found = residual - basis @ (basis.T @ residual), len(self.parameters), []
        for name in self.tested:
            block = columns[:, at : at + self._size(name)]
            at += self._size(name)
            lengths = np.linalg.norm(block, axis=0)
            own = block / np.where(lengths > 0.0, lengths, 1.0)
            left, values, _ = np.linalg.svd(own - basis @ (basis.T @ own), full_matrices=False)
            kept = left[:, values > 1e-6]
            if kept.shape[1]:
                found.append(Score(name, float(np.sum((kept.T @ rest) ** 2)), kept.shape[1]))
        return tuple(found)

    def without_outliers(self, x: Array, limit: float = OUTLIER) -> int:
        """Leave out readings that are further than ``limit`` standard deviations from their prediction; how many.

        Where there are many, the model is wrong and not the readings: then none is left out.
        """
        far = [
            (np.abs(white) > limit) & data.present for data, (white, _) in zip(self._data, self._white(x), strict=True)
        ]
        count = sum(int(rows.sum()) for rows in far)
        if count > MOST_OUTLIERS * self.samples:
            return 0
        for data, rows in zip(self._data, far, strict=True):
            data.present &= ~rows
        return count

    @property
    def samples(self) -> int:
        """Readings that count."""
        return sum(int(data.present.sum()) for data in self._data)


def _orthonormal(columns: Array) -> Array:
    lengths = np.linalg.norm(columns, axis=0)
    left, values, _ = np.linalg.svd(columns / np.where(lengths > 0.0, lengths, 1.0), full_matrices=False)
    return np.asarray(left[:, values > 1e-12 * values[0]])
