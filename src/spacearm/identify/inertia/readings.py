"""What an experiment left behind: readings over time, known forces, and how uncertain the readings are.

A :class:`MotionRecord` is a :class:`spacearm.measure.Record` prepared for the equations of inertia: all channels on one
clock, attitudes as quaternions, the wrench of the thrusters at each sample in base axes, and which joints move. Leading
axes of the readings are repetitions of the same experiment with other noise.

Errors of the readings are one vector per sample, channel after channel (:meth:`MotionRecord.deviations`). Those of an
attitude are rotation vectors in body axes, not differences of quaternions, whose four numbers are not independent.
A locked joint's rate is exactly zero, whatever its tachometer reads.

Impulse is the integral of a wrench that turns with the base: between switches the measured rotation is smooth, so a
spline of high order through the samples is integrated. The result is linear in the rotations, and the same weights
carry the noise of all earlier attitudes into the impulse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, positive
from spacearm.errors import InputError
from spacearm.measure.channels import CHANNELS, TYPICAL_NOISE
from spacearm.measure.units import ask_about_degrees
from spacearm.model.base import BaseConstraint
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: Samples of a segment at least: a path needs neighbours.
FEWEST = 8
#: Weights of an impulse are a matrix of samples by samples: 800 MB.
MOST_WEIGHTS = 100_000_000


#: Channels of the base, and where the degrees of freedom that they show begin among its six.
BASE_CHANNELS = MappingProxyType(
    {"position": 0, "velocity": 0, "acceleration": 0, "attitude": 3, "rate": 3, "angular_acceleration": 3}
)


def moving_parts(base: BaseConstraint, channel: str) -> list[int]:
    """Components (0 to 2) of a channel of the base that move; none of other channels."""
    if channel not in BASE_CHANNELS:
        return []
    first = BASE_CHANNELS[channel]
    return [i - first for i in base.moving_indices if first <= i < first + 3]


def rotate_quaternion(quaternion: Array, rotation: Array) -> Array:
    """Quaternions (..., 4) after a further rotation (..., 3) in body axes, rad."""
    # sinc is finite at zero: small rotations need no branch.
    angle = np.linalg.norm(rotation, axis=-1, keepdims=True)
    half = 0.5 * angle
    factor = 0.5 * np.sinc(half / np.pi)
    w, v = np.cos(half), factor * rotation
    a, b = quaternion[..., :1], quaternion[..., 1:]
    return np.concatenate(
        [a * w - np.sum(b * v, axis=-1, keepdims=True), a * v + w * b + np.cross(b, v)],
        axis=-1,
    )


def attitude_difference(first: Array, second: Array) -> Array:
    """Rotation vector (T, 3) from the first attitude to the second, body axes of the first."""
    w = np.sum(first * second, axis=-1)
    a, b = first[..., 1:], second[..., 1:]
    v = first[..., :1] * b - second[..., :1] * a - np.cross(a, b)
    # q and -q are one attitude: the shorter rotation is taken.
    sign = np.where(w < 0, -1.0, 1.0)
    length = np.linalg.norm(v, axis=-1)
    angle = 2.0 * np.arctan2(length, np.abs(w))
    factor = np.where(length > 1e-300, angle / np.maximum(length, 1e-300), 2.0)
    return np.asarray(v * (sign * factor)[..., None])


@dataclass(frozen=True, eq=False)
class MotionRecord:
    """Readings (..., T, size) by channel; leading axes are repetitions of the same experiment with other noise.

    Args:
        times: (T,) s.
        mount: place of the base's sensors in the base frame, m.
        wrench: (T, 6) known wrench at the base's origin, base axes (thrusters).
        edges: times at which the wrench jumps, with start and end.
        thrusters: name to its share (T, 6) of the wrench, where each may have a scale of its own.
        joint_acceleration: (T, n) commanded; None when unknown (dynamics equations then cannot be used).
        moving: for each joint whether it moves; a locked joint's rate is exactly zero.
        sigma: channel to standard deviation.
        bias_sigma: channel to standard deviation of an unknown constant bias.
        estimated: channels whose sigma comes from the scatter of their readings, with the relative standard deviation
            of its square; 0 where they do not scatter and a typical one is taken.
        unresolved: those of them that were sampled so coarsely that the scatter is that of the motion.
        orbit: mean motion of a circular orbit, rad/s; 0: none. Readings are in axes that do not rotate, about a point
            on it, x away from the Earth at time zero (:meth:`remove_orbital_rotation`).
        known_momentum: (6,) at the start, world axes about the world's origin; None when it must be estimated.
        given_impulse: (T, 6) of the wrench, where it is known already and not integrated from it.
        base: how the base may move. Readings of what does not move are exact, in world axes in which the same
            components of position, attitude, velocity and rate move.
    """

    name: str
    times: Array
    readings: Mapping[str, Array]
    mount: Array
    wrench: Array
    edges: tuple[float, ...]
    joint_acceleration: Array | None
    moving: tuple[bool, ...]
    sigma: Mapping[str, float]
    bias_sigma: Mapping[str, float] = field(default_factory=dict)
    known_momentum: Array | None = None
    thrusters: Mapping[str, Array] = field(default_factory=dict)
    given_impulse: Array | None = None
    estimated: Mapping[str, float] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    orbit: float = 0.0
    base: BaseConstraint = field(default_factory=BaseConstraint)

    def __post_init__(self) -> None:
        for name, values in self.readings.items():
            check_name(name, CHANNELS, "channel", place=self.place)
            array(values, repr(name), (..., self.times.size, "n"), finite=False, place=self.place)

    @property
    def place(self) -> str:
        return f"record {self.name!r}"

    def check_units(self) -> None:
        """Refuse rates and angles of which one is in degrees and the other in radians."""
        # Repetitions differ in their noise only: what holds for one of them holds for all.
        if self.batch or self.times.size < 3:
            return
        step, read = np.diff(self.times)[:, None], self.readings
        if {"joint_position", "joint_rate"} <= read.keys():
            change, rate = np.diff(read["joint_position"], axis=0) / step, read["joint_rate"]
            for k in np.flatnonzero(self.moving):
                # The mean of the rates at both ends against the difference between: equal up to the curvature of a
                # step.
                mean = 0.5 * (rate[1:, k] + rate[:-1, k])
                ask_about_degrees(mean, change[:, k], ("joint rates", "joint positions"), self.place)
        if {"attitude", "rate"} <= read.keys():
            rotation, rate = attitude_difference(read["attitude"][:-1], read["attitude"][1:]) / step, read["rate"]
            mean = 0.5 * (rate[1:] + rate[:-1])
            ask_about_degrees(mean.ravel(), rotation.ravel(), ("rates of the base", "attitudes"), self.place)

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading shape: repetitions."""
        return next(iter(self.readings.values())).shape[:-2]

    def channel(self, name: str) -> Array:
        if name not in self.readings:
            raise InputError(
                f"{name!r} was not measured", place=self.place, hint="these equations need it: add it to the sensors"
            )
        return self.readings[name]

    def deviations(self) -> tuple[dict[str, slice], Array]:
        """Channels with their places in the vector of reading errors, and its standard deviations (ny,)."""
        n, at = len(self.moving), 0
        places, sigmas = {}, []
        for name in self.readings:
            size = CHANNELS[name].size or n
            values = np.full(size, self.sigma.get(name, 0.0))
            # The rate of a locked joint is known to be zero: its reading is not used, and has no error.
            if name in ("joint_rate", "joint_acceleration"):
                values = np.where(self.moving, values, 0.0)
            if name in BASE_CHANNELS:
                values[[i for i in range(3) if i not in self.moving_parts(name)]] = 0.0
            places[name] = slice(at, at + size)
            sigmas.append(values)
            at += size
        return places, np.concatenate(sigmas)

    def moving_parts(self, channel: str) -> list[int]:
        """Components of a channel of the base that move."""
        return moving_parts(self.base, channel)

    def add_errors(self, change: Array) -> MotionRecord:
        """Readings with errors (..., T, ny) added; attitude turns in body axes."""
        places, _ = self.deviations()
        readings = {}
        for name, values in self.readings.items():
            part = change[..., places[name]]
            readings[name] = rotate_quaternion(values, part) if name == "attitude" else values + part
        return replace(self, readings=readings)

    def add_noise(
        self, seed: int | Sequence[int] | np.random.Generator, repetitions: int | None = None
    ) -> MotionRecord:
        """The record with random noise added; ``repetitions`` adds a leading axis."""
        rng = np.random.default_rng(seed)
        _, sigma = self.deviations()
        shape = (*(() if repetitions is None else (repetitions,)), self.times.size, sigma.size)
        return self.add_errors(rng.normal(size=shape) * sigma)

    def remove_orbital_rotation(self, rate: float) -> MotionRecord:
        """A record in the rotating axes of a circular orbit (x radial, z along its normal), in axes that do not rotate.

        ``rate``: mean motion, rad/s.
        """
        # The axes have turned by rate times time about their z.
        half, found = 0.5 * rate * self.times, dict(self.readings)
        quaternion = np.stack([np.cos(half), 0.0 * half, 0.0 * half, np.sin(half)], axis=1)
        axes, up = rotation_matrices(quaternion), np.array([0.0, 0.0, rate])
        # The quaternion of the axes times that of the body.
        w, v, a, b = quaternion[:, :1], quaternion[:, 1:], found["attitude"][:, :1], found["attitude"][:, 1:]
        scalar = w * a - np.sum(v * b, axis=1, keepdims=True)
        found["attitude"] = np.concatenate([scalar, w * b + a * v + np.cross(v, b)], axis=1)
        found["position"] = np.einsum("tij,tj->ti", axes, self.readings["position"])
        if "velocity" in found:
            moving = found["velocity"] + np.cross(up, self.readings["position"])
            found["velocity"] = np.einsum("tij,tj->ti", axes, moving)
        if "rate" in found:
            found["rate"] = found["rate"] + rotation_matrices(self.readings["attitude"])[:, 2] * rate
        return replace(self, readings=found, orbit=rate)

    def use_typical_noise(self) -> MotionRecord:
        """The same with the noise of typical sensors."""
        return replace(self, sigma=TYPICAL_NOISE)

    def select_repetition(self, index: int) -> MotionRecord:
        """The record of one repetition."""
        return replace(self, readings={name: values[index] for name, values in self.readings.items()})

    def repeat(self, count: int) -> MotionRecord:
        """The same readings so many times, as a leading axis."""
        return replace(
            self, readings={name: np.broadcast_to(v, (count, *v.shape)) for name, v in self.readings.items()}
        )

    def thin(self, every: int) -> MotionRecord:
        """Every so-many-th sample."""
        return self.select_samples(slice(None, None, every))

    def select_samples(self, rows: slice | npt.NDArray[np.intp]) -> MotionRecord:
        """The record with some of its samples."""
        return replace(
            self,
            times=self.times[rows],
            readings={name: values[..., rows, :] for name, values in self.readings.items()},
            wrench=self.wrench[rows],
            thrusters={name: wrench[rows] for name, wrench in self.thrusters.items()},
            joint_acceleration=None if self.joint_acceleration is None else self.joint_acceleration[rows],
            given_impulse=None if self.given_impulse is None else self.given_impulse[rows],
        )

    def split(self, duration: float) -> tuple[MotionRecord, ...]:
        """Pieces of about this length (s), each with a start of its own."""
        positive(duration, "segment", unit="s", place=self.place)
        whole = float(self.times[-1] - self.times[0])
        # Equal pieces: a short rest at the end would have a start of its own and say little.
        count = max(1, min(round(whole / duration), self.times.size // FEWEST))
        place = np.minimum(((self.times - self.times[0]) / whole * count).astype(int), count - 1) if whole else 0
        rows = [np.flatnonzero(place == k) for k in range(count)]
        if count == 1 or min(own.size for own in rows) < FEWEST:
            return (self,)
        pieces = [replace(self.select_samples(own), name=f"{self.name} {k + 1}") for k, own in enumerate(rows)]
        return (pieces[0], *(replace(piece, known_momentum=None) for piece in pieces[1:]))

    def append(self, later: MotionRecord) -> MotionRecord:
        """These samples and those of a later part of the same record."""
        if later.times[0] <= self.times[-1]:
            raise InputError(f"begins at {later.times[0]:g} s, before the last sample", place=later.place)
        none = np.zeros((later.times.size, 6)), np.zeros((self.times.size, 6))
        # What one of both does not know, the whole does not know.
        pairs = [(self.joint_acceleration, later.joint_acceleration), (self.given_impulse, later.given_impulse)]
        joint, impulse = (None if a is None or b is None else np.concatenate([a, b]) for a, b in pairs)
        return replace(
            self,
            times=np.concatenate([self.times, later.times]),
            readings={name: np.concatenate([v, later.readings[name]]) for name, v in self.readings.items()},
            wrench=np.concatenate([self.wrench, later.wrench]),
            edges=tuple(sorted({*self.edges, *later.edges})),
            thrusters={
                name: np.concatenate([self.thrusters.get(name, none[1]), later.thrusters.get(name, none[0])])
                for name in dict.fromkeys([*self.thrusters, *later.thrusters])
            },
            joint_acceleration=joint,
            given_impulse=impulse,
        )

    def keep_joints(self, joints: Sequence[int]) -> MotionRecord:
        """The same readings for a robot in which only these joints are left (the others are frozen)."""
        chosen = list(joints)
        jointwise = ("joint_position", "joint_rate", "joint_acceleration", "torque")
        readings = {
            name: values[..., chosen] if name in jointwise else values
            for name, values in self.readings.items()
            if chosen or name not in jointwise
        }
        return replace(
            self,
            readings=readings,
            joint_acceleration=None if self.joint_acceleration is None else self.joint_acceleration[:, chosen],
            moving=tuple(self.moving[j] for j in chosen),
        )

    # -- the state that the readings mean ------------------------------------------------------------------------

    def pose(self) -> tuple[Array, Array, Array]:
        """Base origin (..., T, 3) in the world, quaternion and rotation matrix."""
        quaternion = self.channel("attitude")
        rotation = rotation_matrices(quaternion)
        return self.channel("position") - rotation @ self.mount, quaternion, rotation

    def velocity(self) -> Array:
        """Generalised velocity (..., T, 6 + n); the base's velocity is zero where it was not measured."""
        angular_rate = self.channel("rate")
        if "velocity" in self.readings:
            rotation = rotation_matrices(self.channel("attitude"))
            # From the mounting point to the base's origin: the velocity of a point less the rotation's share.
            linear = np.einsum("...ji,...j->...i", rotation, self.readings["velocity"]) - np.cross(
                angular_rate, self.mount
            )
        else:  # dynamics does not depend on it
            linear = np.zeros_like(angular_rate)
        return np.concatenate([linear, angular_rate, self.joint_rates()], axis=-1)

    def joint_rates(self) -> Array:
        n = len(self.moving)
        if "joint_rate" in self.readings:  # of a locked joint they are noise
            return np.where(self.moving, self.readings["joint_rate"], 0.0)
        # The channel is asked for, so that the error says that it is missing.
        if any(self.moving):
            self.channel("joint_rate")
        return np.zeros((*self.channel("rate").shape[:-1], n))

    def known_accelerations(self) -> tuple[Array, Array] | None:
        """Accelerations of the joints (T, n) and their variances; NaN where missing, None if unknown."""
        shape = self.times.size, len(self.moving)
        if "joint_acceleration" in self.readings and self.sigma.get("joint_acceleration", 0.0) > 0.0:
            variance = np.where(self.moving, self.sigma["joint_acceleration"] ** 2, 0.0)
            # A locked joint does not accelerate, whatever its sensor shows.
            values = np.where(self.moving, self.readings["joint_acceleration"], 0.0)
            return values, np.broadcast_to(variance, shape)
        if self.joint_acceleration is not None or not any(self.moving):
            known = np.zeros(shape) if self.joint_acceleration is None else self.joint_acceleration
            return known, np.zeros(shape)
        return None

    def acceleration(self) -> Array:
        """Rate of the generalised velocity (..., T, 6 + n), base part as components in base axes."""
        measured = self.readings.get("joint_acceleration")
        if self.joint_acceleration is None and measured is None:
            raise InputError(
                "the joints' accelerations are neither commanded nor measured",
                place=self.place,
                hint="use the momentum equations, or measure 'joint_acceleration'",
            )
        angular_rate, angular_acceleration = self.channel("rate"), self.channel("angular_acceleration")
        v = self.velocity()
        at_mount = v[..., :3] + np.cross(angular_rate, self.mount)
        linear = (
            self.channel("acceleration") - np.cross(angular_rate, at_mount) - np.cross(angular_acceleration, self.mount)
        )
        given = self.joint_acceleration if measured is None else np.where(self.moving, measured, 0.0)
        joints = np.broadcast_to(np.asarray(given), (*angular_rate.shape[:-1], len(self.moving)))
        return np.concatenate([linear, angular_acceleration, joints], axis=-1)

    def impulse(self) -> Array:
        """Impulse (..., T, 6) of the known wrench since the first sample: world axes, moments about the origin.

        The measured attitude and position carry the wrench into the world. Between jumps they are smooth, so a spline
        of high order through the samples of each interval is integrated.
        """
        total = np.zeros((*self.batch, self.times.size, 6))
        if self.given_impulse is not None:
            return total + self.given_impulse
        if not np.any(self.wrench):
            return total
        origin, _, rotation = self.pose()
        for wrench, span, weights in self.quadrature():
            force = np.einsum("...ij,j->...i", rotation[..., span, :, :], wrench[:3])
            moment = np.einsum("...ij,j->...i", rotation[..., span, :, :], wrench[3:])
            rate = np.concatenate([force, moment + np.cross(origin[..., span, :], force)], axis=-1)
            total += weights @ rate
        return total

    def quadrature(self) -> list[tuple[Array, npt.NDArray[np.intp], Array]]:
        """Wrench (6,), samples and quadrature weights (T, samples) of each interval of constant wrench.

        ``weights @ values`` integrates values at those samples over the interval, up to each sample of the record.
        """
        from scipy.interpolate import make_interp_spline

        found = []
        for low, high in pairwise(self.edges):
            inside = np.flatnonzero((self.times >= low - 1e-9) & (self.times < high - 1e-9))
            if inside.size == 0 or not np.any(self.wrench[inside[0]]):
                continue
            # a sample at the very end belongs to the next interval, but shows where this one ended
            last = inside[-1] + 1
            meets = last < self.times.size and abs(self.times[last] - high) < 1e-9
            span = np.append(inside, last) if meets else inside
            if span.size * self.times.size > MOST_WEIGHTS:
                raise InputError(
                    f"{span.size} of {self.times.size} samples are within one thrust: too many for momentum",
                    place=self.name,
                    hint="expected fewer: a longer 'sample', or the output error, which is the default method",
                )
            begin = max(low, float(self.times[0]))
            until = np.clip(self.times, begin, high)
            if span.size > 1:
                # beyond the last sample the curve is continued: a high degree would magnify noise there
                degree = min(7 if meets or last >= self.times.size else 3, span.size - 1)
                degree = max(degree - 1 + degree % 2, 1)
                curve = make_interp_spline(self.times[span], np.eye(span.size), k=degree).antiderivative()
                weights = curve(until) - curve(begin)
            else:
                weights = (until - begin)[:, None]
            found.append((self.wrench[inside[0]], span, weights))
        return found


def record_labels(records: Sequence[MotionRecord]) -> tuple[str, ...]:
    """Name of each record, with its number where another has the same."""
    names = [record.name for record in records]
    return tuple(name if names.count(name) == 1 else f"{name}#{k + 1}" for k, name in enumerate(names))
