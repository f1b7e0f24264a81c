"""Sensors that a law reads in place of the true state: noise, bias, sample period, delay and quantisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import InputError, at
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
        spread: standard deviation of a further bias, drawn once for a run, by its seed and this sensor's name.
        resolution: smallest step of a reading (quantisation); 0: none.
        period: s between readings, a whole number of the law's; None: one at each of its ticks.
        delay: s by which a reading comes late, a whole number of the law's periods.
        name: of its readings and of its random numbers: sensors of one system with the same name have the same.
    """

    noise: npt.ArrayLike = 0.0
    bias: npt.ArrayLike = 0.0
    spread: npt.ArrayLike = 0.0
    resolution: float = 0.0
    period: float | None = None
    delay: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.kind)
        with at(self.place):
            for what in ("noise", "bias", "spread"):
                given = checks.numbers(getattr(self, what), what)
                if given.ndim > 1 or not np.all(np.isfinite(given)) or (what != "bias" and np.any(given < 0.0)):
                    raise InputError(f"{what} is {getattr(self, what)}", hint="expected numbers, none below zero")
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

    def measured(self, plant: Plant, error: SX) -> SX:
        """A reading of this plant with this error."""
        raise NotImplementedError

    def believe(self, reader: _Reader, reading: SX, state: SX) -> None:
        """What the reading says into the state that the law believes in."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoder(Sensor):
    """Joint positions, rad or m. The law reads joint rates as their differences.

    Args:
        joints: all unless given.
        smoothing: s, time constant of a first-order filter of the rates; 0: none. The first rate is the true one.
    """

    joints: Sequence[str] | None = None
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.non_negative(self.smoothing, "smoothing", unit="s", place=self.place)

    def _chosen(self, robot: Robot) -> list[int]:
        names = robot.joint_names if self.joints is None else self.joints
        return [robot.joint_index(name) for name in names]

    def entries(self, robot: Robot) -> dict[str, str]:
        return {robot.joints[i].name: robot.joints[i].unit for i in self._chosen(robot)}

    def measured(self, plant: Plant, error: SX) -> SX:
        return plant.joints[self._chosen(plant.robot)] + error

    def believe(self, reader: _Reader, reading: SX, state: SX) -> None:
        plant, chosen = reader.plant, self._chosen(reader.plant.robot)
        layout, interval = Layout(plant.robot.n), reader.every * float(plant.period or 0.0)
        share = 1.0 - np.exp(-interval / self.smoothing) if self.smoothing else 1.0
        known, rate = reader.memory("last", len(chosen)), reader.memory("rate", len(chosen))
        slope = ca.if_else(reader.fresh, rate + share * ((reading - known) / interval - rate), rate)
        slope = ca.if_else(reader.first, plant.rates[chosen], slope)
        reader.keep("last", ca.if_else(ca.logic_or(reader.first, reader.fresh), reading, known))
        reader.keep("rate", slope)
        for k, i in enumerate(chosen):
            state[layout.joints.start + i] = reading[k]
            state[layout.rates.start + i] = slope[k]


@dataclass(frozen=True, eq=False, kw_only=True)
class Gyro(Sensor):
    """Angular velocity of the base, base axes, rad/s."""

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys(("wx", "wy", "wz"), "rad/s")

    def measured(self, plant: Plant, error: SX) -> SX:
        return plant.angular_velocity + error

    def believe(self, reader: _Reader, reading: SX, state: SX) -> None:
        state[Layout(reader.plant.robot.n).angular_velocity] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class BasePosition(Sensor):
    """Position of the base's origin, m, world: of navigation relative to a target, say."""

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys("xyz", "m")

    def measured(self, plant: Plant, error: SX) -> SX:
        return plant.position + error

    def believe(self, reader: _Reader, reading: SX, state: SX) -> None:
        state[Layout(reader.plant.robot.n).position] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseVelocity(Sensor):
    """Velocity of the base's origin, base axes, m/s."""

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys(("vx", "vy", "vz"), "m/s")

    def measured(self, plant: Plant, error: SX) -> SX:
        return plant.velocity[:3] + error

    def believe(self, reader: _Reader, reading: SX, state: SX) -> None:
        state[Layout(reader.plant.robot.n).linear_velocity] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class StarTracker(Sensor):
    """Attitude of the base as a quaternion. Noise and bias are small turns about the base's axes, rad."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resolution:
            raise InputError("a quaternion has no resolution", place=self.place)

    def entries(self, robot: Robot) -> dict[str, str]:
        return dict.fromkeys("wxyz", "1")

    def size(self, robot: Robot) -> int:
        return 3

    def measured(self, plant: Plant, error: SX) -> SX:
        turn = ca.vertcat(1.0, 0.5 * error)
        w, v = plant.quaternion[0], plant.quaternion[1:]
        both = ca.vertcat(w - ca.dot(v, turn[1:]), w * turn[1:] + v + ca.cross(v, turn[1:]))
        return both / ca.sqrt(ca.sumsqr(both))

    def believe(self, reader: _Reader, reading: SX, state: SX) -> None:
        state[Layout(reader.plant.robot.n).quaternion] = reading


@dataclass(frozen=True, eq=False, kw_only=True)
class ForceTorque(Sensor):
    """Wrench at a frame's origin (N, N m, frame axes) of all that acts from outside on the body of the frame.

    Loads, contacts and thrusters; the inertia of what is beyond the sensor is compensated.
    """

    frame: str

    def entries(self, robot: Robot) -> dict[str, str]:
        robot.frame(self.frame)
        return {**dict.fromkeys(("fx", "fy", "fz"), "N"), **dict.fromkeys(("mx", "my", "mz"), "N m")}

    def measured(self, plant: Plant, error: SX) -> SX:
        own, total = plant.pose(self.frame), ca.SX.zeros(6)
        body = plant.robot.frame(self.frame).body
        for load, wrench in plant.felt.items():
            if plant.robot.frame(load.frame).body == body:
                there = plant.pose(load.frame)
                turn = there.rotation if load.axes == "frame" else ca.SX.eye(3)
                force, moment = turn @ wrench[:3], turn @ wrench[3:]
                total += ca.vertcat(force, moment + ca.cross(there.origin - own.origin, force))
        return ca.vertcat(own.rotation.T @ total[:3], own.rotation.T @ total[3:]) + error


class _Reader:
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
                    f"its {what} of {given:g} s is no whole number of the law's periods of {period:g} s",
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
        error = self._each("bias", size)
        for what in ("noise", "spread"):
            if np.any(getattr(sensor, what)):
                error = error + self._each(what, size) * plant.random(size, sensor.name, once=what == "spread")
        value = sensor.measured(plant, error)
        if sensor.resolution:
            value = sensor.resolution * ca.floor(value / sensor.resolution + 0.5)
        begun = self.memory("begun", 1)
        self.keep("begun", ca.SX(1))
        self.first, self.fresh = begun == 0, begun
        if self.every > 1:
            count, held = self.memory("count", 1), self.memory("held", value.numel())
            self.keep("count", ca.if_else(count >= self.every - 1, 0, count + 1))
            self.fresh = ca.logic_and(begun, count == 0)
            value = ca.if_else(count == 0, value, held)
            self.keep("held", value)
        if self.late:
            entry = ca.vertcat(value, self.fresh)
            size = entry.numel()
            register = shift_register(plant, f"{sensor.name}.late", size * self.late)
            register = [ca.if_else(self.first, entry[k % size], old) for k, old in enumerate(register)]
            self.keep("late", ca.vertcat(*register[size:], entry))
            value, self.fresh = ca.vertcat(*register[: size - 1]), register[size - 1]
        return value

    def _each(self, what: str, size: int) -> SX:
        given = np.asarray(getattr(self.sensor, what), dtype=np.float64)
        if given.ndim and given.size != size:
            raise InputError(f"{what} has {given.size} numbers", hint=f"expected one or {size}")
        return ca.SX(ca.DM(np.broadcast_to(given, (size,))))


def sensed(
    plant: Plant, sensors: Sequence[Sensor], build: Callable[[Plant], Commands | Mapping[str, Any]]
) -> Commands | Mapping[str, Any]:
    """What a law commands that reads these sensors; what none of them measures it knows as it is."""
    if not sensors:
        return build(plant)
    checks.unique([sensor.name for sensor in sensors], "sensor")
    believed = plant.apart([sensor.frame for sensor in sensors if isinstance(sensor, ForceTorque)])
    given = build(believed)
    commands = given if isinstance(given, Commands) else Commands(given)
    state = ca.SX(plant.state)
    memory: dict[str, SX] = {}
    readings: dict[tuple[str, str], SX] = {}
    old, new = [believed.state], [state]
    for sensor in sensors:
        with at(sensor.place):
            reader = _Reader(plant, sensor)
            reading = reader.read()
            sensor.believe(reader, reading, state)
            if isinstance(sensor, ForceTorque):
                old.append(believed.wrenches[sensor.frame])
                new.append(reading)
            entries = sensor.entries(plant.robot)
            readings |= {(f"{sensor.name}.{name}", unit): reading[k] for k, (name, unit) in enumerate(entries.items())}
            memory |= reader.kept

    def seen(table: Mapping[Any, SX]) -> dict[Any, SX]:
        return dict(zip(table, ca.substitute([ca.SX(value) for value in table.values()], old, new), strict=True))

    changed = {part.name: seen(getattr(commands, part.name)) for part in fields(Commands)}
    changed["memory"] |= memory
    changed["readings"] |= readings
    return replace(commands, **changed)
