"""What the base's sensors of one record should read, and how that hangs on everything that may be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.identify.inertia.base_motion import BaseMotion, Inputs, Linearised
from spacearm.identify.inertia.encoders import joint_path
from spacearm.identify.inertia.readings import Record, attitude_difference, turned
from spacearm.identify.whitening import ErrorModel
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: Channels that are predicted, and their rows in a sample's residual.
ROWS = MappingProxyType(
    {"position": slice(0, 3), "attitude": slice(3, 6), "velocity": slice(6, 9), "rate": slice(9, 12)}
)


@dataclass(frozen=True, slots=True)
class Nuisance:
    """Something that may be wrong besides the inertias. ``size`` 0: one number for each joint; -1: each thruster."""

    size: int
    unit: str
    scale: float
    advice: str


NUISANCES = MappingProxyType(
    {
        "thrust": Nuisance(1, "", 0.01, "the thrust is not the one stated"),
        "thrusters": Nuisance(-1, "", 0.01, "single thrusters push more or less than stated"),
        "delay": Nuisance(1, "s", 0.01, "the base's readings are late against those of the joints and thrusters"),
        "rate_bias": Nuisance(3, "rad/s", 1e-4, "the gyro has a bias"),
        "velocity_bias": Nuisance(3, "m/s", 1e-3, "the velocity has a bias"),
        "attitude_bias": Nuisance(3, "rad", 1e-3, "the attitude sensor's axes are turned against the base"),
        "mount": Nuisance(3, "m", 0.01, "the sensor does not sit where the robot file has it"),
        "misalignment": Nuisance(3, "rad", 1e-3, "the gyro's axes are tilted"),
        "encoder_offset": Nuisance(0, "rad", 1e-3, "joint angles are read with an offset"),
        "joint_rate_bias": Nuisance(0, "rad/s", 1e-4, "joint rates are read with a bias"),
    }
)


class RecordPrediction:
    """One record: its inputs, what is present, and its residuals with all derivatives."""

    def __init__(self, robot: Robot, record: Record) -> None:
        if record.batch:
            raise InputError("has repetitions", place=record.place, hint="fit them one by one: Record.picked")
        for name in ("position", "attitude", *(("joint_position",) if robot.n else ())):
            record.channel(name)
        self.robot, self.record, times = robot, record, record.times
        self.path = joint_path(record)
        edges = np.array(record.edges)
        first = np.clip(np.searchsorted(times, edges[:-1] - 1e-9), 0, times.size - 1)
        pushes = record.thrusters or ({"thrust": record.wrench} if np.any(record.wrench) else {})
        #: Names of the thrusters, in the order of their columns.
        self.thrusters = tuple(pushes)
        wrench = np.stack([part[first] for part in pushes.values()]) if pushes else np.zeros((0, first.size, 6))
        self.motion = BaseMotion(robot, Inputs(times, self.path.joints, self.path.rates, edges, wrench))
        self.present, self.variance = np.zeros((times.size, 12), dtype=bool), np.ones(12)
        for name, rows in ROWS.items():
            if name not in record.readings:
                continue
            if not record.sigma.get(name, 0.0) > 0.0:
                raise InputError(f"the noise of {name!r} is not stated", place=record.place, hint="expected above zero")
            self.present[:, rows] = np.isfinite(record.readings[name]).all(axis=1, keepdims=True)
            self.variance[rows] = record.sigma[name] ** 2
        for name in ("position", "attitude"):
            if not self.present[:, ROWS[name]].any():
                raise InputError(f"no sample has a {name}", place=record.place)

    @property
    def unknowns(self) -> int:
        """Errors of the start that are looked for: all twelve, or those of the pose where the momentum is known."""
        return 12 if self.record.known_momentum is None else 6

    def otherwise(self, seed: int) -> BaseMotion:
        """The motion with other noise in the joints' readings."""
        inputs = self.motion.inputs
        drawn = np.random.default_rng(seed).normal(size=self.path.variance.shape) * np.sqrt(self.path.variance)
        joints, rates = np.split(drawn, 2, axis=1)
        return BaseMotion(self.robot, replace(inputs, joints=inputs.joints + joints, rates=inputs.rates + rates))

    def start(self, inertia: Array) -> Array:
        """State and momentum at the first sample, from the first readings of each sensor alone."""
        record = self.record
        first = {name: self._first(name) for name in ROWS if name in record.readings}
        quaternion = first["attitude"] / np.linalg.norm(first["attitude"])
        rotation = rotation_matrices(quaternion)
        base = np.concatenate([first["position"] - rotation @ record.mount, quaternion])
        if record.known_momentum is not None:
            return np.concatenate([base, record.known_momentum])
        turning = first.get("rate", np.zeros(3))
        linear = rotation.T @ first.get("velocity", np.zeros(3)) - np.cross(turning, record.mount)
        return np.concatenate([base, self.momentum(base, np.concatenate([linear, turning]), inertia)])

    def momentum(self, base: Array, twist: Array, inertia: Array) -> Array:
        """At the first sample, of a base with this pose (7,) and twist (..., 6), base axes."""
        inputs = self.motion.inputs
        velocity = np.concatenate([twist, np.broadcast_to(inputs.rates[0], (*twist.shape[:-1], self.robot.n))], axis=-1)
        return mechanics_of(self.robot).momentum(inputs.joints[0], velocity, base=base, inertia=inertia.reshape(-1, 10))

    def twist(self, start: Array, inertia: Array) -> Array:
        """The other way round, of a state and momentum (13,)."""
        own = self.momentum(start[:7], np.concatenate([np.zeros((1, 6)), np.eye(6)]), inertia)
        return np.asarray(np.linalg.solve(own[1:].T - own[0][:, None], start[7:] - own[0]))

    def _first(self, name: str) -> Array:
        values = self.record.readings[name]
        whole = np.isfinite(values).all(axis=1)
        return np.asarray(values[np.argmax(whole)] if whole.any() else np.zeros(values.shape[1]))

    def columns(
        self,
        start: Array,
        inertia: Array,
        directions: Array,
        thrust: Array,
        delay: float,
        motion: BaseMotion | None = None,
    ) -> tuple[Array, dict[str, Array], ErrorModel]:
        """Residuals (T, 12), the prediction's derivatives (T, 12, ...) by name, and how errors are tied."""
        moved = (motion or self.motion).linearised(start, inertia, directions, 1.0 + thrust)
        n, count = self.robot.n, moved.states.shape[0]
        seen, direct = self._outputs(moved)
        wide = directions.shape[1]
        offset = moved.before + moved.after  # a reading that is too large is corrected downwards
        forced = np.concatenate([moved.forced, -offset], axis=2)
        twists = np.concatenate([moved.twist_parameters, -moved.twist_joints], axis=2)
        error = np.zeros((count, 12, 12 + forced.shape[2]))
        error[0, :, :12] = np.eye(12)
        for k in range(count - 1):
            error[k + 1] = moved.across[k] @ error[k]
            error[k + 1, :, 12:] += forced[k]
        total = seen @ error
        total[:, :, 12:] += direct @ twists
        parts = np.split(total, np.cumsum([12, wide, len(self.thrusters), n]), axis=2)
        named = dict(zip(("start", "inertia", "thrusters", "encoder_offset", "joint_rate_bias"), parts, strict=True))
        named["thrust"] = named["thrusters"].sum(axis=2, keepdims=True)
        predicted = self._predicted(moved, delay)
        model = ErrorModel(
            moved.across,
            moved.before,
            moved.after,
            seen,
            direct @ moved.twist_joints,
            self.path.variance,
            self.variance,
        )
        return self._residual(predicted), named | self._by_sensors(moved), model

    def predicted(self, start: Array, inertia: Array, thrust: Array, delay: float) -> Mapping[str, Array]:
        """What each channel should read: (T, 3), quaternions (T, 4)."""
        none = np.zeros((inertia.size, 0))
        return self._predicted(self.motion.linearised(start, inertia, none, 1.0 + thrust), delay)

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

    def _velocity(self, moved: Linearised) -> Array:
        at_mount = moved.twist[:, :3] + np.cross(moved.twist[:, 3:], self.record.mount)
        return np.asarray(np.einsum("tij,tj->ti", moved.rotation, at_mount))

    def _predicted(self, moved: Linearised, delay: float) -> dict[str, Array]:
        times, turning, velocity = self.record.times, moved.twist[:, 3:], self._velocity(moved)
        position, attitude = moved.states[:, :3] + moved.rotation @ self.record.mount, moved.states[:, 3:7]
        if delay:
            # What is read now was so some time ago; half way back stands for the mean of what lies between.
            then, between = times - delay, times - 0.5 * delay
            attitude = turned(attitude, -delay * _at(between, times, turning))
            position = position - delay * _at(between, times, velocity)
            velocity, turning = _at(then, times, velocity), _at(then, times, turning)
        return {"position": position, "attitude": attitude, "velocity": velocity, "rate": turning}

    def _residual(self, predicted: Mapping[str, Array]) -> Array:
        record = self.record
        residual = np.zeros((record.times.size, 12))
        for name, values in predicted.items():
            if name in record.readings:
                read = record.readings[name]
                residual[:, ROWS[name]] = attitude_difference(values, read) if name == "attitude" else read - values
        return np.where(self.present, residual, 0.0)

    def _by_sensors(self, moved: Linearised) -> dict[str, Array]:
        """Derivatives by what the sensors themselves may get wrong."""
        rotation, turning, velocity = moved.rotation, moved.twist[:, 3:], self._velocity(moved)
        found = {
            name: np.zeros((turning.shape[0], 12, NUISANCES[name].size))
            for name in ("delay", "rate_bias", "velocity_bias", "attitude_bias", "mount", "misalignment")
        }
        slopes = [np.gradient(values, self.record.times, axis=0) for values in (velocity, turning)]
        found["delay"][:, :, 0] = -np.concatenate([velocity, turning, *slopes], axis=1)
        found["rate_bias"][:, 9:] = found["velocity_bias"][:, 6:9] = found["attitude_bias"][:, 3:6] = np.eye(3)
        found["mount"][:, :3], found["mount"][:, 6:9] = rotation, rotation @ skew(turning)
        found["misalignment"][:, 9:] = skew(turning)
        return found


def _at(instants: Array, times: Array, values: Array) -> Array:
    """Values (T, 3) at other instants, straight between samples: a thruster's start is a kink."""
    return np.stack([np.interp(instants, times, column) for column in values.T], axis=1)
