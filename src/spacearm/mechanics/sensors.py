"""Sensors: what each reads of a state, as an expression, with noise, bias, scale, period, delay and quantisation.

A law reads them in place of the true state (:func:`apply_sensors`); :mod:`spacearm.measure.sensors` reads them from
runs. Each measures one *channel*, the name of a quantity in a record:

=======================  ======================  ==============================================================
channel                  sensor                  reading
=======================  ======================  ==============================================================
position                 BasePosition            of the mounting point in the world, m
attitude                 StarTracker             quaternion base to world (w, x, y, z); errors are small turns, rad
velocity                 BaseVelocity            of the mounting point, world axes, m/s
body_velocity            BaseVelocity            the same in base axes
rate                     Gyro                    angular velocity of the base, base axes, rad/s
acceleration             Accelerometer           of the mounting point against the world, base axes, m/s2
angular_acceleration     AngularAccelerometer    of the base, base axes, rad/s2
joint_position           Encoder                 rad or m
joint_rate               Tachometer              rad/s or m/s
joint_acceleration       JointAccelerometer      rad/s2 or m/s2
torque                   TorqueSensor            drive torque or force of each joint, N m or N
frame_position           FramePosition           origin of a frame in the world, m
frame_attitude           FrameAttitude           quaternion frame to world; errors are small turns, rad
wrench                   ForceTorque             at a frame's origin, frame axes, N and N m
=======================  ======================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import InputError, error_context
from spacearm.mechanics.law import Commands, shift_register
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.model.layout import Layout

#: s: between readings with noise of their own at the least.
SHORTEST = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class Sensor:
    """What all sensors have; numbers are one for all entries of a reading, or one for each.

    Args:
        noise: standard deviation of each reading.
        bias: added to each reading.
        spread: standard deviation of a further bias that nobody knows: drawn once for a run, by its seed and this
            sensor's name; estimated along where a record is evaluated.
        scale: factor of what is measured; 1 for a sensor that is right.
        resolution: smallest step of a reading (quantisation); 0: none.
        period: s between readings, a whole number of the law's; None: one at each of its ticks.
        delay: s by which a reading comes late, a whole number of the law's periods.
        name: of its readings and of its random numbers: sensors of one system with the same name have the same.
    """

    #: Quantity of a record, and the standard deviation of a typical reading of it, SI.
    channel: ClassVar[str] = ""
    typical: ClassVar[float] = 0.0

    noise: npt.ArrayLike = 0.0
    bias: npt.ArrayLike = 0.0
    spread: npt.ArrayLike = 0.0
    scale: npt.ArrayLike = 1.0
    resolution: float = 0.0
    period: float | None = None
    delay: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.kind)
        with error_context(self.place):
            for what in ("noise", "bias", "spread", "scale"):
                given, signed = checks.numbers(getattr(self, what), what), what in ("bias", "scale")
                if given.ndim > 1 or not np.all(np.isfinite(given)) or (not signed and np.any(given < 0.0)):
                    raise InputError(f"{what} is {getattr(self, what)}", hint="expected numbers, none below zero")
                # Variances and weights are squares of these.
                if what in ("noise", "spread") and np.any((given > 0.0) & ((given < 1e-150) | (given > 1e150))):
                    raise InputError(
                        f"{what} is {getattr(self, what)}", hint="expected 0, or a number whose square can be computed"
                    )
            checks.non_negative(self.resolution, "resolution")
            checks.non_negative(self.delay, "delay", unit="s")
            if self.period is not None:
                checks.positive(self.period, "period", unit="s")

    @property
    def kind(self) -> str:
        return "".join("_" * (k > 0 and c.isupper()) + c.lower() for k, c in enumerate(type(self).__name__))

    @property
    def place(self) -> str:
        return f"sensor {self.name!r}"

    def entries(self, robot: Robot) -> dict[str, str]:
        """Names and units of the numbers of a reading."""
        raise NotImplementedError

    def size(self, robot: Robot) -> int:
        """Random numbers that a reading takes."""
        return len(self.entries(robot))

    def quantity(self, plant: Plant) -> SX:
        """The reading of a perfect sensor of this plant."""
        raise NotImplementedError

    def measure(self, plant: Plant, error: SX) -> SX:
        """A reading of this plant with this error."""
        value = self.quantity(plant)
        return (value if np.all(np.equal(self.scale, 1.0)) else self.each("scale", value.numel()) * value) + error

    def each(self, what: str, size: int) -> SX:
        """One of its numbers for each of so many entries."""
        given = np.asarray(getattr(self, what), dtype=np.float64)
        if given.ndim and given.size != size:
            raise InputError(f"{what} has {given.size} numbers", hint=f"expected one or {size}")
        return ca.SX(ca.DM(np.broadcast_to(given, (size,))))

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        """The reading in place of its part of the state that the law assumes."""


def _joints(robot: Robot, names: Sequence[str] | None) -> list[int]:
    """Places of these joints; of all by default."""
    return [robot.joint_index(name) for name in (robot.joint_names if names is None else names)]


@dataclass(frozen=True, eq=False, kw_only=True)
class JointSensor(Sensor):
    """A reading for each of some joints.

    Args:
        joints: all by default.
    """

    joints: Sequence[str] | None = None
    #: What stands behind the joint's unit.
    per: ClassVar[str] = ""

    def joint_indices(self, robot: Robot) -> list[int]:
        """Indices of the sensor's joints."""
        return _joints(robot, self.joints)

    def entries(self, robot: Robot) -> dict[str, str]:
        return {robot.joints[i].name: robot.joints[i].unit + self.per for i in self.joint_indices(robot)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoder(JointSensor):
    """Joint positions, rad or m. The law reads joint rates as their differences.

    Args:
        smoothing: s, time constant of a first-order filter of the rates; 0: none. The first rate is the true one.
    """

    channel: ClassVar = "joint_position"
    typical: ClassVar = 1e-5

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative(self.smoothing, "smoothing", unit="s", place=self.place)

    def quantity(self, plant: Plant) -> SX:
        return plant.joints[self.joint_indices(plant.robot)]

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        plant, chosen = reader.plant, self.joint_indices(reader.plant.robot)
        layout, interval = Layout(plant.robot.n), reader.every * float(plant.period or 0.0)
        # Exact discretisation of the first-order filter for an input held over the interval.
        share = 1.0 - np.exp(-interval / self.smoothing) if self.smoothing else 1.0
        known, rate = reader.memory("last", len(chosen)), reader.memory("rate", len(chosen))
        slope = ca.if_else(reader.fresh, rate + share * ((reading - known) / interval - rate), rate)
        # At the first reading there is no difference yet, and a rate of zero would kick the law.
        slope = ca.if_else(reader.first, plant.rates[chosen], slope)
        reader.keep("last", ca.if_else(ca.logic_or(reader.first, reader.fresh), reading, known))
        reader.keep("rate", slope)
        for k, i in enumerate(chosen):
            state[layout.joints.start + i] = reading[k]
            state[layout.rates.start + i] = slope[k]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tachometer(JointSensor):
    """Joint rates, rad/s or m/s."""

    channel: ClassVar = "joint_rate"
    typical: ClassVar = 1e-6
    per: ClassVar = "/s"

    def quantity(self, plant: Plant) -> SX:
        return plant.rates[self.joint_indices(plant.robot)]

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        layout = Layout(reader.plant.robot.n)
        for k, i in enumerate(self.joint_indices(reader.plant.robot)):
            state[layout.rates.start + i] = reading[k]


@dataclass(frozen=True, eq=False, kw_only=True)
class JointAccelerometer(JointSensor):
    """Joint accelerations, rad/s2 or m/s2."""

    channel: ClassVar = "joint_acceleration"
    typical: ClassVar = 1e-5
    per: ClassVar = "/s2"

    def quantity(self, plant: Plant) -> SX:
        return plant.recorded_motion("acceleration")[[6 + i for i in self.joint_indices(plant.robot)]]


@dataclass(frozen=True, eq=False, kw_only=True)
class TorqueSensor(JointSensor):
    """Torque or force of each joint's drive, N m or N."""

    channel: ClassVar = "torque"
    typical: ClassVar = 1e-3

    def entries(self, robot: Robot) -> dict[str, str]:
        chosen = [robot.joints[i] for i in self.joint_indices(robot)]
        return {joint.name: "N" if joint.kind == "prismatic" else "N m" for joint in chosen}

    def quantity(self, plant: Plant) -> SX:
        return plant.recorded_motion("effort")[self.joint_indices(plant.robot)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Gyro(Sensor):
    """Angular velocity of the base, base axes, rad/s."""

    channel: ClassVar = "rate"
    typical: ClassVar = 1e-6

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys(("wx", "wy", "wz"), "rad/s")

    def quantity(self, plant: Plant) -> SX:
        return plant.angular_velocity

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        state[Layout(reader.plant.robot.n).angular_velocity] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class AngularAccelerometer(Sensor):
    """Angular acceleration of the base, base axes, rad/s2."""

    channel: ClassVar = "angular_acceleration"
    typical: ClassVar = 1e-6

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys(("x", "y", "z"), "rad/s2")

    def quantity(self, plant: Plant) -> SX:
        return plant.recorded_motion("acceleration")[3:6]


@dataclass(frozen=True, eq=False, kw_only=True)
class MountedSensor(Sensor):
    """A sensor of a point of the base.

    Args:
        mount: the point in the base frame, m; a law reads it at the base's origin.
    """

    mount: npt.ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "mount", checks.array(self.mount, "mount", (3,), unit="m", place=self.place))

    @property
    def arm(self) -> SX:
        """The mounting point as an expression."""
        return ca.SX(ca.DM(np.asarray(self.mount)))

    @property
    def off_origin(self) -> bool:
        """Whether it is not mounted at the base's origin."""
        return bool(np.any(self.mount))

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        if self.off_origin:
            raise InputError(f"is mounted at {self.mount}", hint="a law reads it at the base's origin: no mount")


@dataclass(frozen=True, eq=False, kw_only=True)
class BasePosition(MountedSensor):
    """Position of the mounting point, m, world: of navigation relative to a target, say."""

    channel: ClassVar = "position"
    typical: ClassVar = 1e-4

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys("xyz", "m")

    def quantity(self, plant: Plant) -> SX:
        # Without a mount no product with zeros: laws that read the origin stay short.
        return plant.position + plant.base.rotation @ self.arm if self.off_origin else plant.position

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        super().update_estimate(reader, reading, state)
        state[Layout(reader.plant.robot.n).position] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseVelocity(MountedSensor):
    """Velocity of the mounting point, m/s.

    Args:
        axes: of the reading: those of the base, or of the world.
    """

    channel: ClassVar = "velocity"
    typical: ClassVar = 1e-5

    axes: Literal["base", "world"] = "base"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of(self.axes, ("base", "world"), "axes", place=self.place)
        if self.axes == "base":
            object.__setattr__(self, "channel", "body_velocity")  # another quantity of a record

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys(("vx", "vy", "vz"), "m/s")

    def quantity(self, plant: Plant) -> SX:
        own = plant.velocity[:3]
        if self.off_origin:
            # Velocity of a point of a rigid body, in base axes.
            own = own + ca.cross(plant.angular_velocity, self.arm)
        return plant.base.rotation @ own if self.axes == "world" else own

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        super().update_estimate(reader, reading, state)
        own = reader.plant.base.rotation.T @ reading if self.axes == "world" else reading
        state[Layout(reader.plant.robot.n).linear_velocity] = own


@dataclass(frozen=True, eq=False, kw_only=True)
class Accelerometer(MountedSensor):
    """Acceleration of the mounting point against the world, base axes, m/s2."""

    channel: ClassVar = "acceleration"
    typical: ClassVar = 1e-6

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys(("x", "y", "z"), "m/s2")

    def quantity(self, plant: Plant) -> SX:
        change, rotating, arm = plant.recorded_motion("acceleration"), plant.angular_velocity, self.arm
        # The rate of components in rotating axes is not the acceleration: the axes' own turning is added.
        linear = change[:3] + ca.cross(rotating, plant.velocity[:3])
        return linear + ca.cross(change[3:6], arm) + ca.cross(rotating, ca.cross(rotating, arm))


@dataclass(frozen=True, eq=False, kw_only=True)
class AttitudeSensor(Sensor):
    """An attitude as a quaternion. Noise and bias are small turns about the axes of what is seen, rad."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, given in (("resolution", self.resolution), ("scale", np.any(np.not_equal(self.scale, 1.0)))):
            if given:
                raise InputError(f"a quaternion has no {what}", place=self.place)

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys("wxyz", "1")

    def size(self, robot: Robot) -> int:
        return 3

    def measure(self, plant: Plant, error: SX) -> SX:
        # A small rotation as (1, e / 2), normalised afterwards: right to second order, and unit in any case.
        rotation, true = ca.vertcat(1.0, 0.5 * error), self.quantity(plant)
        w, v = true[0], true[1:]
        both = ca.vertcat(w - ca.dot(v, rotation[1:]), w * rotation[1:] + v + ca.cross(v, rotation[1:]))
        return both / ca.sqrt(ca.sumsqr(both))


@dataclass(frozen=True, eq=False, kw_only=True)
class StarTracker(AttitudeSensor):
    """Attitude of the base as a quaternion. Noise and bias are small turns about the base's axes, rad."""

    channel: ClassVar = "attitude"
    typical: ClassVar = 2e-5

    def quantity(self, plant: Plant) -> SX:
        return plant.quaternion

    def update_estimate(self, reader: _SensorReader, reading: SX, state: SX) -> None:
        state[Layout(reader.plant.robot.n).quaternion] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class FramePosition(Sensor):
    """Origin of a frame in the world, m: of a camera that watches the hand, say."""

    channel: ClassVar = "frame_position"
    typical: ClassVar = 5e-4

    frame: str

    def entries(self, robot: Robot) -> dict[str, str]:
        robot.frame(self.frame)
        return dict.fromkeys("xyz", "m")

    def quantity(self, plant: Plant) -> SX:
        return plant.pose(self.frame).origin


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameAttitude(AttitudeSensor):
    """Attitude of a frame as a quaternion; noise and bias are small turns about the frame's axes, rad."""

    channel: ClassVar = "frame_attitude"
    typical: ClassVar = 1e-3

    frame: str

    def quantity(self, plant: Plant) -> SX:
        r = plant.pose(self.frame).rotation
        # Quaternion from the diagonal, signs from the off-diagonal entries: no branch is needed, and every root stays
        # real under rounding.
        signs = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
        w, x, y, z = (0.5 * ca.sqrt(ca.fmax(1 + a * r[0, 0] + b * r[1, 1] + c * r[2, 2], 0.0)) for a, b, c in signs)
        return ca.vertcat(
            w, ca.copysign(x, r[2, 1] - r[1, 2]), ca.copysign(y, r[0, 2] - r[2, 0]), ca.copysign(z, r[1, 0] - r[0, 1])
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ForceTorque(Sensor):
    """Wrench at a frame's origin (N, N m, frame axes) of all that acts from outside on the body of the frame.

    Loads, contacts and thrusters; the inertia of what is beyond the sensor is compensated.
    """

    channel: ClassVar = "wrench"

    frame: str

    def entries(self, robot: Robot) -> dict[str, str]:
        robot.frame(self.frame)
        return {**dict.fromkeys(("fx", "fy", "fz"), "N"), **dict.fromkeys(("mx", "my", "mz"), "N m")}

    def quantity(self, plant: Plant) -> SX:
        own, total = plant.pose(self.frame), ca.SX.zeros(6)
        body = plant.robot.frame(self.frame).body
        # All loads on the sensor's body, brought to its origin: a moment takes the arm times the force.
        for load, wrench in plant.measured_wrenches.items():
            if plant.robot.frame(load.frame).body == body:
                there = plant.pose(load.frame)
                rotation = there.rotation if load.axes == "frame" else ca.SX.eye(3)
                force, moment = rotation @ wrench[:3], rotation @ wrench[3:]
                total += ca.vertcat(force, moment + ca.cross(there.origin - own.origin, force))
        return ca.vertcat(own.rotation.T @ total[:3], own.rotation.T @ total[3:])


#: Sensors by their kind, the name of the device.
KINDS: Mapping[str, type[Sensor]] = {
    "encoder": Encoder,
    "tachometer": Tachometer,
    "joint_accelerometer": JointAccelerometer,
    "torque_sensor": TorqueSensor,
    "gyro": Gyro,
    "angular_accelerometer": AngularAccelerometer,
    "base_position": BasePosition,
    "base_velocity": BaseVelocity,
    "accelerometer": Accelerometer,
    "star_tracker": StarTracker,
    "frame_position": FramePosition,
    "frame_attitude": FrameAttitude,
    "force_torque": ForceTorque,
}


class _SensorReader:
    """One sensor in a law's program: its memory and its random numbers."""

    def __init__(self, plant: Plant, sensor: Sensor) -> None:
        self.plant, self.sensor = plant, sensor
        self.kept: dict[str, SX] = {}
        period = plant.period
        if period is None:
            raise InputError("a continuous law reads no sensors", hint="give it a period")
        self.every, self.late = (round(min(span / period, 1e15)) for span in (sensor.period or period, sensor.delay))
        for what, given, count in (("period", sensor.period or period, self.every), ("delay", sensor.delay, self.late)):
            if abs(given / period - count) > 1e-9 * max(count, 1) or (what == "period" and count < 1):
                raise InputError(
                    f"its {what} of {given:g} s is not a whole number of the law's periods of {period:g} s",
                )
        if period < SHORTEST and np.any(sensor.noise):
            raise InputError(f"has noise at a period of {period:g} s", hint=f"expected at least {SHORTEST:g} s")
        #: Whether this is the first tick, and whether a further reading has come.
        self.first = self.fresh = ca.SX(0)

    def memory(self, name: str, size: int) -> SX:
        return self.plant.memory(f"{self.sensor.name}.{name}", np.zeros(size), lasting=False)

    def keep(self, name: str, value: SX) -> None:
        self.kept[f"{self.sensor.name}.{name}"] = value

    def read(self) -> SX:
        """The reading of this tick."""
        plant, sensor, robot = self.plant, self.sensor, self.plant.robot
        size = sensor.size(robot)
        error = sensor.each("bias", size)
        for what in ("noise", "spread"):
            if np.any(getattr(sensor, what)):
                error = error + sensor.each(what, size) * plant.random(size, sensor.name, once=what == "spread")
        value = sensor.measure(plant, error)
        if sensor.resolution:
            # After the noise, as a converter does it.
            value = sensor.resolution * ca.floor(value / sensor.resolution + 0.5)
        begun = self.memory("begun", 1)
        self.keep("begun", ca.SX(1))
        # Memory starts at zero: ``begun`` tells the first tick from all others.
        self.first, self.fresh = begun == 0, begun
        if self.every > 1:
            count, held = self.memory("count", 1), self.memory("held", value.numel())
            self.keep("count", ca.if_else(count >= self.every - 1, 0, count + 1))
            self.fresh = ca.logic_and(begun, count == 0)
            value = ca.if_else(count == 0, value, held)
            self.keep("held", value)
        if self.late:
            # Whether the reading is new is as late as the reading.
            entry = ca.vertcat(value, self.fresh)
            size = entry.numel()
            register = shift_register(plant, f"{sensor.name}.late", size * self.late)
            # At the first tick the register is filled with the first reading, as if nothing had moved before.
            register = [ca.if_else(self.first, entry[k % size], old) for k, old in enumerate(register)]
            self.keep("late", ca.vertcat(*register[size:], entry))
            value, self.fresh = ca.vertcat(*register[: size - 1]), register[size - 1]
        return value


def apply_sensors(
    plant: Plant, sensors: Sequence[Sensor], build: Callable[[Plant], Commands | Mapping[str, Any]]
) -> Commands | Mapping[str, Any]:
    """Commands of a law that reads these sensors, and knows exactly what none of them measures."""
    if not sensors:
        return build(plant)
    checks.unique([sensor.name for sensor in sensors], "sensor")
    # The law is written over symbols of a separate state, for which readings are substituted at the end: the law itself
    # does not know of sensors.
    assumed = plant.with_estimated_state([sensor.frame for sensor in sensors if isinstance(sensor, ForceTorque)])
    given = build(assumed)
    commands = given if isinstance(given, Commands) else Commands(given)
    state = ca.SX(plant.state)
    memory: dict[str, SX] = {}
    readings: dict[tuple[str, str], SX] = {}
    old, new = [assumed.state], [state]
    for sensor in sensors:
        with error_context(sensor.place):
            reader = _SensorReader(plant, sensor)
            reading = reader.read()
            sensor.update_estimate(reader, reading, state)
            if isinstance(sensor, ForceTorque):
                old.append(assumed.wrenches[sensor.frame])
                new.append(reading)
            entries = sensor.entries(plant.robot)
            readings |= {(f"{sensor.name}.{name}", unit): reading[k] for k, (name, unit) in enumerate(entries.items())}
            memory |= reader.kept
    # One substitution at the end: an expression that two sensors have in common stays one.
    changed = commands.substitute(old, new)
    return replace(changed, memory={**changed.memory, **memory}, readings={**changed.readings, **readings})
