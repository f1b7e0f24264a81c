"""Sensors in a scenario file: one table for all studies, whoever reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from spacearm.checks import known
from spacearm.errors import InputError
from spacearm.measure.channels import CHANNELS, MOMENTUM_CHANNELS
from spacearm.measure.sensors import make_sensors
from spacearm.mechanics.sensors import KINDS, BaseVelocity, JointSensor, MountedSensor, Sensor
from spacearm.model.document import at
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3
from spacearm.study.keys import Table, key, refused

_ALL = ("name", "noise", "bias", "spread", "period", "delay")
_PLAIN = (*_ALL, "resolution", "scale")
#: Where a key of all sensors has gone.
ONE_TABLE = 'it stands in a table for each sensor now: [[sensor]] with kind = "gyro", {} = 1e-6'
ChannelName = Literal[
    "position", "attitude", "velocity", "rate", "acceleration", "angular_acceleration",
    "joint_position", "joint_rate", "joint_acceleration", "torque",
]  # fmt: skip


class SensorTable(Table):
    """A sensor, which laws read in place of the true state, and from which an experiment is evaluated."""

    uses: ClassVar = {
        "encoder": (*_PLAIN, "joints", "smoothing"),
        "tachometer": (*_PLAIN, "joints"),
        "joint_accelerometer": (*_PLAIN, "joints"),
        "torque_sensor": (*_PLAIN, "joints"),
        "gyro": _PLAIN,
        "angular_accelerometer": _PLAIN,
        "base_position": (*_PLAIN, "mount"),
        "base_velocity": (*_PLAIN, "mount"),
        "accelerometer": (*_PLAIN, "mount"),
        "star_tracker": _ALL,
        "frame_position": (*_PLAIN, "frame"),
        "frame_attitude": (*_ALL, "frame"),
        "force_torque": (*_PLAIN, "frame"),
    }

    kind: Literal[
        "encoder", "tachometer", "joint_accelerometer", "torque_sensor", "gyro", "angular_accelerometer",
        "base_position", "base_velocity", "accelerometer", "star_tracker", "frame_position", "frame_attitude",
        "force_torque",
    ]  # fmt: skip
    name: Name = key("", "of its readings; the kind where left out")
    noise: Number | list[Number] | None = key(
        None,
        "standard deviation, as one or for each entry, SI; where left out none of a law's sensor, a typical one's in a "
        "simulated experiment, by the scatter of the readings in a measured one",
    )
    noise_deg: Number | None = key(None, "of an angle or its rate")
    bias: Number | list[Number] = key(0.0, "added to each reading")
    spread: Number | list[Number] = key(0.0, "standard deviation of a further bias: drawn for a run, estimated along")
    scale: Number | list[Number] = key(1.0, "factor of what is measured")
    resolution: Number = key(0.0, "smallest step of a reading; 0: none")
    period: Number | None = key(None, "s between readings, a whole number of the law's; each tick where left out")
    delay: Number = key(0.0, "s by which a reading comes late, a whole number of the law's periods")
    joints: list[Name] | None = key(None, "of a sensor of joints; all where left out")
    smoothing: Number = key(0.0, "s, time constant of a filter of an encoder's rates")
    frame: Name | None = key(None, "of a sensor of a frame")
    mount: Vector3 | None = key(None, "point of the base that it measures, base frame, m; not of a law's")

    def make(self) -> Sensor:
        """The sensor; without noise where none is given."""
        uses = self.uses[self.kind]
        if "frame" in uses and self.frame is None:
            raise InputError("'frame' is missing")
        given = {name: getattr(self, name) for name in uses if name not in ("noise", "mount")}
        if self.given("mount"):
            given["mount"] = self.mount
        noise = self.si("noise")
        return KINDS[self.kind](noise=0.0 if noise is None else noise, **given)

    @property
    def states_noise(self) -> bool:
        """Whether the file says how noisy it is."""
        return self.given("noise") or self.given("noise_deg")


def _not_by_channel(value: Any) -> Any:
    if isinstance(value, dict):
        raise refused("is by channel", ONE_TABLE.format("noise"))
    return value


class SamplingTable(Table):
    """What is measured in an experiment, and what its sensors have in common."""

    moved: ClassVar = {"bias": ONE_TABLE.format("bias"), "bias_sigma": ONE_TABLE.format("spread")}

    mount: Vector3 = key([0.0, 0.0, 0.0], "of the position, velocity and acceleration sensors, base frame, m")
    sample: Duration = key(0.1, "interval of the samples, s")
    channels: list[ChannelName] | None = key(
        None, "what is measured: position, attitude, velocity, rate, joints and what `[[sensor]]` adds where left out"
    )
    noise: Annotated[Literal["typical", "none"] | None, BeforeValidator(_not_by_channel)] = key(
        None, "of sensors that state none; left out: typical if simulated, of measured channels by their scatter"
    )
    seed: Seed = key(0, "of the noise")

    def sensors(self, tables: Sequence[SensorTable], *, simulated: bool = True) -> tuple[Sensor, ...]:
        """The sensors of an experiment: one for each channel, as its table has it or else a typical one.

        Those of an experiment that is not ``simulated`` have no noise where the file states none.
        """
        typical = self.noise == "typical" or (simulated and self.noise is None)
        noise = None if typical else dict[str, float]()
        names: Sequence[str] = MOMENTUM_CHANNELS if self.channels is None else self.channels
        common = make_sensors(names, period=self.sample, mount=self.mount, noise=noise)
        found = {sensor.channel: sensor for sensor in common}
        seen: set[str] = set()
        for k, table in enumerate(tables):
            with at(f"sensor[{k}]"):
                sensor = self._sensor(table, typical)
                known(sensor.channel, CHANNELS, "channel of an experiment", place="kind")
                if self.channels is not None and sensor.channel not in found:
                    raise InputError(f"{sensor.channel!r} is not among the channels", place="kind")
                if sensor.channel in seen:
                    raise InputError(f"a second sensor measures {sensor.channel!r}", place="kind")
                seen.add(sensor.channel)
                found[sensor.channel] = sensor
        return tuple(found.values())

    def _sensor(self, table: SensorTable, typical: bool) -> Sensor:
        sensor = table.make()
        for name, given in (
            ("delay", sensor.delay),
            ("resolution", sensor.resolution),
            ("scale", np.any(np.not_equal(sensor.scale, 1.0))),
            ("joints", isinstance(sensor, JointSensor) and sensor.joints is not None),
        ):
            if given:
                raise InputError("is not known in an experiment", place=name, hint="leave it out")
        changed: dict[str, Any] = {"period": sensor.period or self.sample}
        if not table.states_noise and typical:
            changed["noise"] = sensor.typical
        if isinstance(sensor, MountedSensor) and not table.given("mount"):
            changed["mount"] = self.mount
        if isinstance(sensor, BaseVelocity):
            changed["axes"] = "world"
        return replace(sensor, **changed)


def sensors_of(tables: Sequence[SensorTable]) -> dict[str, Sensor]:
    """Sensors by their names."""
    found: dict[str, Sensor] = {}
    for k, table in enumerate(tables):
        with at(f"sensor[{k}]"):
            sensor = table.make()
            if sensor.name in found:
                raise InputError(f"a second sensor is called {sensor.name!r}", place="name")
            found[sensor.name] = sensor
    return found
