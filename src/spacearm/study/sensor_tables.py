"""Sensors in a scenario file: one table for all studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from spacearm.checks import check_name
from spacearm.errors import InputError, error_context
from spacearm.measure.channels import CHANNELS, MOMENTUM_CHANNELS
from spacearm.measure.sensors import make_sensors
from spacearm.mechanics.sensors import KINDS, BaseVelocity, JointSensor, MountedSensor, Sensor
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3
from spacearm.study.keys import ScenarioTable, key, validation_error

_ALL = ("name", "noise", "bias", "spread", "period", "delay")
_PLAIN = (*_ALL, "resolution", "scale")
#: Replacements of keys that once applied to all sensors.
ONE_TABLE = 'each sensor has its own table now: [[sensor]] with kind = "gyro", {} = 1e-6'
ChannelName = Literal[
    "position", "attitude", "velocity", "rate", "acceleration", "angular_acceleration",
    "joint_position", "joint_rate", "joint_acceleration", "torque",
]  # fmt: skip


class SensorTable(ScenarioTable):
    """A sensor: control laws read it in place of the true state, and experiments are evaluated from it."""

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
    name: Name = key("", "name of its readings; the kind if omitted")
    noise: Number | list[Number] | None = key(
        None,
        "standard deviation, one number or one for each component, SI; if omitted, zero for a law's sensor, typical in "
        "a simulated experiment, and estimated from the scatter of the readings in a measured one",
    )
    noise_deg: Number | None = key(None, "the same in degrees, for an angle or its rate")
    bias: Number | list[Number] = key(0.0, "added to each reading")
    spread: Number | list[Number] = key(
        0.0, "standard deviation of an additional constant bias: random in each run, estimated in an experiment"
    )
    scale: Number | list[Number] = key(1.0, "scale factor")
    resolution: Number = key(0.0, "quantisation step of a reading; 0: none")
    period: Number | None = key(None, "time between readings, s, a multiple of the law's period; every tick if omitted")
    delay: Number = key(0.0, "delay of a reading, s, a multiple of the law's period")
    joints: list[Name] | None = key(None, "joints that a joint sensor measures; all if omitted")
    smoothing: Number = key(0.0, "time constant of the filter for an encoder's rates, s")
    frame: Name | None = key(None, "frame that a frame sensor measures")
    mount: Vector3 | None = key(None, "measured point of the base, base frame, m; not for a sensor of a law")

    def make(self) -> Sensor:
        """The sensor; without noise if none is given."""
        uses = self.uses[self.kind]
        if "frame" in uses and self.frame is None:
            raise InputError("'frame' is missing")
        # Only what the kind uses: the classes reject other arguments.
        given = {name: getattr(self, name) for name in uses if name not in ("noise", "mount")}
        if self.has_key("mount"):
            given["mount"] = self.mount
        noise = self.si_value("noise")
        return KINDS[self.kind](noise=0.0 if noise is None else noise, **given)

    @property
    def states_noise(self) -> bool:
        """Whether the file states its noise."""
        return self.has_key("noise") or self.has_key("noise_deg")


def _not_by_channel(value: Any) -> Any:
    if isinstance(value, dict):
        raise validation_error("is given by channel", ONE_TABLE.format("noise"))
    return value


class SamplingTable(ScenarioTable):
    """Sampling of an experiment: measured channels, and settings that its sensors share."""

    key_changes: ClassVar = {"bias": ONE_TABLE.format("bias"), "bias_sigma": ONE_TABLE.format("spread")}

    mount: Vector3 = key(
        [0.0, 0.0, 0.0], "mounting point of the position, velocity and acceleration sensors, base frame, m"
    )
    sample: Duration = key(0.1, "sampling interval, s")
    channels: list[ChannelName] | None = key(
        None, "measured channels; if omitted position, attitude, velocity, rate, joints and those of `[[sensor]]`"
    )
    noise: Annotated[Literal["typical", "none"] | None, BeforeValidator(_not_by_channel)] = key(
        None,
        "noise of sensors that state none; if omitted, typical in a simulated experiment, from the "
        "scatter in a measured one",
    )
    seed: Seed = key(0, "seed of the noise")

    def sensors(self, tables: Sequence[SensorTable], *, simulated: bool = True) -> tuple[Sensor, ...]:
        """Sensors of an experiment, one for each channel: from its table, or a typical one.

        Unless the experiment is ``simulated``, a sensor whose table states no noise has none.
        """
        # A measured experiment takes its noise from the scatter of its readings.
        typical = self.noise == "typical" or (simulated and self.noise is None)
        noise = None if typical else dict[str, float]()
        names: Sequence[str] = MOMENTUM_CHANNELS if self.channels is None else self.channels
        common = make_sensors(names, period=self.sample, mount=self.mount, noise=noise)
        # Typical sensors first; tables of the file replace theirs.
        found = {sensor.channel: sensor for sensor in common}
        seen: set[str] = set()
        for k, table in enumerate(tables):
            with error_context(f"sensor[{k}]"):
                sensor = self._sensor(table, typical)
                check_name(sensor.channel, CHANNELS, "channel of an experiment", place="kind")
                # A listed set of channels is meant to be complete.
                if self.channels is not None and sensor.channel not in found:
                    raise InputError(f"{sensor.channel!r} is not among the channels", place="kind")
                if sensor.channel in seen:
                    raise InputError(f"a second sensor measures {sensor.channel!r}", place="kind")
                seen.add(sensor.channel)
                found[sensor.channel] = sensor
        return tuple(found.values())

    def _sensor(self, table: SensorTable, typical: bool) -> Sensor:
        sensor = table.make()
        # Experiments are evaluated with these ideal: silently ignoring them would bias the estimate.
        for name, given in (
            ("delay", sensor.delay),
            ("resolution", sensor.resolution),
            ("scale", np.any(np.not_equal(sensor.scale, 1.0))),
            ("joints", isinstance(sensor, JointSensor) and sensor.joints is not None),
        ):
            if given:
                raise InputError("does not apply to an experiment", place=name, hint="leave it out")
        changed: dict[str, Any] = {"period": sensor.period or self.sample}
        if not table.states_noise and typical:
            changed["noise"] = sensor.typical
        if isinstance(sensor, MountedSensor) and not table.has_key("mount"):
            changed["mount"] = self.mount
        # Experiments are evaluated in world axes.
        if isinstance(sensor, BaseVelocity):
            changed["axes"] = "world"
        return replace(sensor, **changed)


def sensors_of(tables: Sequence[SensorTable]) -> dict[str, Sensor]:
    """Sensors by their names."""
    found: dict[str, Sensor] = {}
    for k, table in enumerate(tables):
        with error_context(f"sensor[{k}]"):
            sensor = table.make()
            if sensor.name in found:
                raise InputError(f"a second sensor is called {sensor.name!r}", place="name")
            found[sensor.name] = sensor
    return found
