"""One measured test: encoder readings that drive the model, and channels that the model is compared with.

The model of a flexible joint needs inputs, the motor's and the rigid joints' paths (or a motor's torque), and outputs
that it is compared with: the link's angle behind the spring, the base's attitude, torques. Both come from sensors, and
the angle is often not measured itself but made from the poses of base and hand and the other encoders (Eq. 21). Its
error is then correlated with those of the base's attitude and of the encoders: ``noise`` holds a covariance for each
sample, ``shares`` how far each encoder's error moves the channel. Whitening
(:mod:`spacearm.identify.joint._input_errors`) counts such an error once, though it enters twice.

Missing readings are NaN and stay where they are; angles are unwrapped. A test begins where its first reading is, so its
clock may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_fields, check_increasing, check_name, check_not_empty
from spacearm.errors import InputError, did_you_mean
from spacearm.identify.joint.flexible_joints import flexible_joints
from spacearm.identify.joint.measurement_chain import MeasurementChain, Method
from spacearm.identify.joint.paths import SmoothedPath, smooth_with_errors
from spacearm.measure import Record
from spacearm.measure.attitude import to_quaternions
from spacearm.measure.clean import find_present
from spacearm.model import Robot
from spacearm.simulate import Signal
from spacearm.typing import Array

#: Channels of the base that a model may be compared with: position (m) and rotation vector (rad), world axes.
BASE = ("position.x", "position.y", "position.z", "attitude.x", "attitude.y", "attitude.z")
#: How the names of channels end that are not angles.
LENGTHS_AND_TORQUES = (*BASE[:3], ".torque")
#: Largest standard deviation of an angle, rad.
ROUGH = 0.5


@dataclass(frozen=True, eq=False)
class JointTest:
    """One motion.

    Args:
        time: s, rising; need not be regular.
        encoders: joint to readings (rad) of the rigid joints and the motors (load side), as ``joint1.motor``. NaN
            where a reading is missing, here and in all that follows.
        measured: what is compared: a flexible link's angle, a motor's angle, ``position.x`` ... ``attitude.z``,
            ``<joint>.torque`` (N m, at the motor).
        noise: of the measured channels in their order: standard deviations (m,), a covariance (m, m), or one for each
            sample (T, m, m). None: unknown but equal, taken from the fit.
        torques: known torque of a flexible joint's motor, N m: a signal, or readings, straight in between.
        torque_sigma: standard deviation of such a reading.
        encoder_sigma: standard deviation of an encoder reading, rad; None: unknown.
        from_rest: joints and base are at rest at the first sample.
        base_velocity: linear and angular velocity of the base at the first sample, base axes.
        base_pose: position and quaternion of the base there.
        paths: exact paths in place of smoothed encoder readings.
        shares: channel, joint: how far the channel's reading moves (T,) for an error of 1 rad in that joint's encoder;
            an angle made by Eq. 21 holds the encoders' noise.
        biases: measured channels with an unknown constant in them, which is then identified too: the base's attitude
            when its start is known only by the same noisy sensor.
        smooth: paths are splines with as few pieces as the readings justify. More accurate where a motor was led along
            such a curve, biased where it was not. Else nothing is known of a path but its readings.
    """

    name: str
    time: Array
    encoders: Mapping[str, Array]
    measured: Mapping[str, Array]
    noise: Array | None = None
    torques: Mapping[str, Array | Signal] = field(default_factory=dict)
    encoder_sigma: float | None = None
    from_rest: bool = True
    base_velocity: Array = field(default_factory=lambda: np.zeros(6))
    base_pose: Array = field(default_factory=lambda: np.array([0.0, 0, 0, 1, 0, 0, 0]))
    paths: Mapping[str, Signal] = field(default_factory=dict)
    biases: tuple[str, ...] = ()
    shares: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    torque_sigma: float = 0.0
    smooth: bool = False

    def __post_init__(self) -> None:
        place = f"test {self.name!r}"
        check_fields(self, check_increasing, "time", place=place, count=4, unit="s")
        time = self.time
        check_not_empty(self.measured, "measured channel", place=place, hint="give at least the flexible joint's angle")
        for key in ("encoders", "measured"):
            arrays = {}
            for name, values in getattr(self, key).items():
                row = np.array(array(values, repr(name), time.shape, finite=False, place=place))
                there = find_present(row, name, place, key == "encoders")
                if not name.endswith(LENGTHS_AND_TORQUES):
                    # Jumps of 2 pi are artefacts of the sensor; over gaps the nearest branch is the best guess.
                    row[there] = np.unwrap(row[there])
                arrays[name] = row
            object.__setattr__(self, key, arrays)
        for name in self.biases:
            if name not in self.measured:
                raise InputError(
                    f"bias of {name!r}, which is not measured", place=place, hint=did_you_mean(name, self.measured)
                )
        if self.noise is not None:
            object.__setattr__(self, "noise", _covariance(self.noise, time.size, len(self.measured), place))
        self._check_angles(place)

    def _check_angles(self, place: str) -> None:
        """Raise an error if the noise of an angle is so large that readings show no angle: a search would not end."""
        spread = [] if self.noise is None else np.sqrt(np.einsum("tii->ti", self.noise).max(axis=0)).tolist()
        given = {"the encoders": self.encoder_sigma or 0.0, **dict(zip(self.measured, spread, strict=False))}
        for name, sigma in given.items():
            if not name.endswith(LENGTHS_AND_TORQUES) and sigma > ROUGH:
                raise InputError(f"the noise of {name} is {sigma:.3g} rad ({np.degrees(sigma):.3g} deg)", place=place,
                                 hint=f"expected less than {ROUGH} rad: such readings show no angle")  # fmt: skip

    @property
    def duration(self) -> float:
        return float(self.time[-1] - self.time[0])

    @property
    def shows_base(self) -> bool:
        """Whether the base's pose is among the measured channels."""
        return any(channel in BASE for channel in self.measured)

    @property
    def present(self) -> Array:
        """Mask (T, m) of the readings of the measured channels that are not missing."""
        return np.asarray(np.isfinite(np.stack(list(self.measured.values()), axis=1)))

    def whitener(self) -> Array | None:
        """Matrices (T, m, m) that make a sample's noise independent, of unit variance; None: unknown."""
        if self.noise is None:
            return None
        apart = np.isnan(np.stack(list(self.measured.values()), axis=1))
        # A missing channel takes its correlations with it: the rest must be whitened as if it had never been there.
        gone = (apart[:, :, None] | apart[:, None, :]) & ~np.eye(apart.shape[1], dtype=bool)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(np.where(gone, 0.0, self.noise))), dtype=np.float64)

    def with_torque_inputs(self, motors: Mapping[str, str]) -> JointTest:
        """The same with measured torques as inputs and the encoders of ``motors`` (by joint) as measurements."""
        order = list(self.measured)
        torques = {joint: self.measured[f"{joint}.torque"] for joint in motors}
        if self.noise is None:
            raise InputError("a torque cannot be weighted against angles of unknown noise", place=f"test {self.name!r}",
                             hint="state the noise")  # fmt: skip
        # A path that drives the model has one deviation for all of its samples: the largest.
        sigma = max(float(np.sqrt(self.noise[:, k, k].max())) for k in (order.index(f"{j}.torque") for j in motors))
        test = self.select_channels(tuple(c for c in order if c not in {f"{joint}.torque" for joint in motors}))
        for motor in motors.values():
            path = test.path(motor)
            assert isinstance(path, SmoothedPath)
            # A deviation of zero would make the covariance singular.
            test = test.with_channel(motor, self.encoders[motor], max(path.sigma, 1e-12))
        return replace(test, torques=torques, torque_sigma=sigma)

    def with_motor_paths(self, motors: Mapping[str, str]) -> JointTest:
        """Inverse of :meth:`with_torque_inputs`: motors on their encoders' paths, torques as measurements."""
        test = self.select_channels(tuple(c for c in self.measured if c not in motors.values()))
        for joint in motors:
            rows = np.asarray(self.torques[joint])
            # A model not yet fitted predicts torques badly: with the sensor's own small noise they would overrule the
            # angles.
            sigma = max(self.torque_sigma, 0.05 * float(np.nanstd(rows)), 1e-12)
            test = test.with_channel(f"{joint}.torque", rows, sigma)
        return replace(test, torques={})

    def select_channels(self, names: tuple[str, ...]) -> JointTest:
        """The same test, compared in these channels only."""
        for name in names:
            check_name(name, self.measured, "channel", place=f"test {self.name!r}")
        order = list(self.measured)
        kept = [order.index(name) for name in names]
        noise = None if self.noise is None else self.noise[:, kept][:, :, kept]
        biases = tuple(name for name in self.biases if name in names)
        return replace(self, measured={name: self.measured[name] for name in names}, noise=noise, biases=biases)

    def with_channel(self, name: str, values: npt.ArrayLike, sigma: float | None) -> JointTest:
        """The same test, compared in one more channel, whose noise is independent of the others."""
        measured = {**self.measured, name: np.asarray(values, dtype=np.float64)}
        if self.noise is None:
            return replace(self, measured=measured)
        if sigma is None:
            raise InputError(f"the noise of {name!r} is not given", place=f"test {self.name!r}")
        size = len(self.measured)
        noise = np.zeros((self.time.size, size + 1, size + 1))
        noise[:, :size, :size] = self.noise
        noise[:, size, size] = sigma**2
        return replace(self, measured=measured, noise=noise)

    def path(self, joint: str) -> Signal | SmoothedPath:
        """The joint's motion, the clock starting with the first sample; with its errors where it had to be smoothed."""
        if joint in self.paths:
            return self.paths[joint]
        if joint not in self.encoders:
            raise InputError(f"joint {joint!r} has no encoder data", place=f"test {self.name!r}",
                             hint=did_you_mean(joint, self.encoders))  # fmt: skip
        return smooth_with_errors(self.time, self.encoders[joint], sigma=self.encoder_sigma, from_rest=self.from_rest)

    def torque(self, joint: str) -> Signal | SmoothedPath:
        """The known torque of a motor; with its errors where it was read at the samples."""
        if joint not in self.torques:
            raise InputError(f"the torque of {joint!r} is not given", place=f"test {self.name!r}",
                             hint="drive='motor_angle' needs no torque")  # fmt: skip
        given = self.torques[joint]
        if isinstance(given, Signal):
            return given
        place = f"test {self.name!r}"
        rows = array(given, f"torque of {joint!r}", self.time.shape, finite=False, place=place)
        find_present(rows, f"torque of {joint}", place, True)
        return replace(smooth_with_errors(self.time, rows, sigma=self.torque_sigma or None), sigma=self.torque_sigma)


def _covariance(noise: npt.ArrayLike, samples: int, channels: int, place: str) -> Array:
    """Noise as covariances (T, m, m)."""
    full = np.asarray(noise, dtype=np.float64)
    if full.shape == (channels,):
        full = np.diag(full**2)
    if full.shape == (channels, channels):
        # A view: one covariance for all samples takes no memory for each.
        full = np.broadcast_to(full, (samples, channels, channels))
    hint = f"expected ({channels},), ({channels}, {channels}) or ({samples}, {channels}, {channels})"
    array(full, "noise", (samples, channels, channels), finite=False, place=place, hint=hint)
    if not np.all(np.isfinite(full)) or np.any(np.linalg.eigvalsh(full)[:, 0] <= 0.0):
        raise InputError("noise is not positive definite", place=place, hint="expected standard deviations above zero")
    return full


def prepare_test(
    record: Record, chain: MeasurementChain, *,
    method: Method = "least_squares", attitude: bool = True, angle: Literal["vision", "measured"] = "vision",
    start_known: bool = False, torque: Literal["known", "measured"] = "known", **more: object,
) -> JointTest:  # fmt: skip
    """A record as the equations of flexible joints take it.

    Channels are joint names for encoders, and the poses of base and hand that a vision system saw: ``position`` and
    ``attitude`` of the base, ``frame_position`` and ``frame_attitude`` of the hand; in the plane x, y and an angle
    about z, in space x, y, z and a quaternion or Euler angles. The flexible joints' angles are reconstructed from them
    (Eq. 21). With ``angle="measured"`` there are channels of these angles themselves, and no vision is needed.

    A channel ``<joint>.torque`` is the torque of that joint's motor: known, so that it drives the model and the motor's
    encoder is compared; or with ``torque="measured"`` one more channel to compare the model with.

    Args:
        chain: how the record shows the flexible joints' angles, and the noise of its sensors.
        attitude: compare the base's attitude about the first flexible joint's axis too, with the correlation that it
            has with the angles by the same sensor.
        start_known: the base's pose at the start is ``base_pose`` (the origin where it is not given). Else only its
            sensor says where it starts, so that its attitude has a bias to be identified.
        more: other fields of :class:`JointTest`.
    """
    robot = chain.robot
    links = {f.name for f in chain.flexible}
    encoders = {joint: record[joint] for joint in robot.joint_names if joint not in links}
    columns = {joint: record[f"{joint}.torque"] for joint in links if f"{joint}.torque" in record}
    torques = columns if torque == "known" else {}
    options = {"torques": torques, "torque_sigma": chain.noise["torque"] if torques else 0.0, **more}
    if angle == "measured":
        test = _take_measured_angles(record, chain, encoders, attitude, start_known, options)
    else:
        test = _reconstruct_angles(record, chain, encoders, method, attitude, start_known, options)
    if torques:  # a motor under a known torque is free: its encoder is then a measurement
        for f in chain.flexible:
            motor = robot.joint_names[f.motor]
            test = test.with_channel(motor, record[motor], chain.noise["joint_position"] or None)
    else:
        for joint, values in columns.items():
            test = test.with_channel(f"{joint}.torque", values, chain.noise["torque"])
    return test


def _reconstruct_angles(
    record: Record, chain: MeasurementChain, encoders: Mapping[str, Array], method: Method,
    attitude: bool, start_known: bool, more: Mapping[str, object],
) -> JointTest:  # fmt: skip
    """A test whose flexible joints' angles follow from encoders and the poses of base and hand."""
    robot, base = chain.robot, _pose(record)
    joints = np.zeros((record.times.size, robot.n))
    for joint, values in encoders.items():
        joints[:, robot.joint_index(joint)] = np.unwrap(values)
    found = chain.reconstruct(joints, base, _pose(record, "frame_"), method)
    measured = {joint: found.angles[:, k] for k, joint in enumerate(found.names)}
    count = len(found.names)
    noise = np.zeros((record.times.size, count + 1, count + 1))
    noise[:, :count, :count] = found.covariance
    if attitude:
        # The flexible joint moves the base mainly about this axis; the others would add noise and biases only.
        axis = _axis(robot)
        measured[BASE[3 + axis]] = np.unwrap(attitude_vector(base[:, 3:])[:, axis])
        noise[:, count, count] = chain.noise["attitude"] ** 2
        # Both come from the same sensor: their errors are correlated.
        noise[:, :count, count] = noise[:, count, :count] = found.with_base[:, :, 3 + axis]
        if not start_known:
            more = {"base_pose": base[0], "biases": (BASE[3 + axis],), **more}
    else:
        noise = noise[:, :count, :count]
    shares = {
        joint: {encoder: moved[:, k] for encoder, moved in found.by_encoder.items()}
        for k, joint in enumerate(found.names)
    }
    options = {"encoder_sigma": chain.noise["joint_position"] or None, "shares": shares, **more}
    return JointTest(record.name, record.times, encoders, measured, noise, **options)  # type: ignore[arg-type]


def _take_measured_angles(
    record: Record, chain: MeasurementChain, encoders: Mapping[str, Array],
    attitude: bool, start_known: bool, more: Mapping[str, object],
) -> JointTest:  # fmt: skip
    """A test whose flexible joints' angles were measured; with the base's attitude where it was."""
    links = {f.name: record[f.name] for f in chain.flexible}
    sigma = chain.noise["link"]
    noise = np.full(len(links), sigma) if sigma else None
    options = {"encoder_sigma": chain.noise["joint_position"] or None, **more}
    test = JointTest(record.name, record.times, encoders, links, noise, **options)  # type: ignore[arg-type]
    if not attitude or "attitude" not in record:
        return test
    plane = record["attitude"].ndim == 1
    axis = 2 if plane else _axis(chain.robot)
    attitude_rows = record["attitude"]
    attitude_rows = attitude_rows if plane else attitude_vector(to_quaternions(attitude_rows, record.source))[:, axis]
    test = test.with_channel(BASE[3 + axis], attitude_rows, chain.noise["attitude"] or None)
    return test if start_known else replace(test, biases=(BASE[3 + axis],))


def attitude_vector(quaternion: Array) -> Array:
    """Rotation vectors (..., 3), rad, of unit quaternions (..., 4), scalar first."""
    vector = quaternion[..., 1:]
    sine = np.linalg.norm(vector, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Limit of angle / sin for small angles: 2 / w.
        factor = np.where(sine > 1e-12, 2.0 * np.arctan2(sine, quaternion[..., :1]) / sine, 2.0 / quaternion[..., :1])
    return factor * vector


def attitude(quaternion: Array, moved: Array | None, axis: int) -> tuple[Array, Array | None]:
    """One component (T,) of rotation vectors, and its derivatives from those of the quaternions (T, 4, directions)."""
    value = np.unwrap(attitude_vector(quaternion)[:, axis])
    if moved is None:
        return value, None
    w, v = quaternion[:, :1], quaternion[:, 1:]
    s = np.linalg.norm(v, axis=1, keepdims=True)
    # At the identity the factor is constant to first order: its derivative is zero there.
    small = s < 1e-9
    safe = np.where(small, 1.0, s)
    # By atan2, which is exact for small angles and heeds no length; its derivative likewise: the integrated quaternion
    # is of unit length only but for the error of the steps.
    angle = 2.0 * np.arctan2(s, w)
    ds = np.einsum("ti,tid->td", v, moved[:, 1:]) / safe
    d_angle = 2.0 * (w * ds - s * moved[:, 0]) / (w**2 + s**2)
    factor = np.where(small, 2.0 / w, angle / safe)
    d_factor = np.where(small, 0.0, (d_angle * s - angle * ds) / safe**2)
    return value, factor * moved[:, 1 + axis] + v[:, axis : axis + 1] * d_factor


def _axis(robot: Robot) -> int:
    """Index of the base axis nearest to the axis of the first flexible joint, with all joints before it at zero."""
    link = flexible_joints(robot)[0].link
    axis: Array = robot.joints[link].axis
    # Axes carried to the base frame with all joints at zero: only the dominant component matters.
    index = link
    while True:
        axis = robot.joints[index].placement.rotation @ axis
        parent = robot.parents[index]
        if parent == 0:
            return int(np.argmax(np.abs(axis)))
        index = parent - 1


def _pose(data: Record, whose: str = "") -> Array:
    """Poses (T, 7) from a position of two or three columns and an attitude."""
    place = data[f"{whose}position"]
    if place.ndim != 2 or place.shape[1] not in (2, 3):
        columns = place.shape[1] if place.ndim == 2 else 1
        raise InputError(f"has {columns} columns", place=f"{whose}position", hint="expected x, y or x, y, z")
    height = place[:, 2] if place.shape[1] == 3 else np.zeros(place.shape[0])
    attitude_rows = to_quaternions(data[f"{whose}attitude"], data.source or None)
    return np.concatenate([place[:, :2], height[:, None], attitude_rows], axis=1)
