"""Names of measured quantities: a channel is a quantity of a record, with the same name everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from spacearm.mechanics.sensors import KINDS, Sensor

#: Channel to the sensor that measures it; :mod:`spacearm.mechanics.sensors` lists them.
BY_CHANNEL: Mapping[str, type[Sensor]] = MappingProxyType({kind.channel: kind for kind in KINDS.values()})


class Quantity(NamedTuple):
    """Number of a reading's errors (None: one for each joint), SI unit, standard deviation of a typical sensor."""

    size: int | None
    unit: str
    noise: float


_SIZES: Mapping[str, tuple[int | None, str]] = {
    "position": (3, "m"),
    "attitude": (3, "rad"),
    "velocity": (3, "m/s"),
    "rate": (3, "rad/s"),
    "acceleration": (3, "m/s2"),
    "angular_acceleration": (3, "rad/s2"),
    "joint_position": (None, "rad"),
    "joint_rate": (None, "rad/s"),
    "joint_acceleration": (None, "rad/s2"),
    "torque": (None, "N m"),
}
#: Sensors of a robot in orbit: laser ranging, star tracker, navigation filter, gyro, accelerometers, and joint sensors.
CHANNELS: Mapping[str, Quantity] = MappingProxyType(
    {name: Quantity(size, unit, BY_CHANNEL[name].typical) for name, (size, unit) in _SIZES.items()}
)
TYPICAL_NOISE: Mapping[str, float] = MappingProxyType({name: channel.noise for name, channel in CHANNELS.items()})
#: Channels for the identification of inertia in orbit.
MOMENTUM_CHANNELS = ("position", "attitude", "velocity", "rate", "joint_position", "joint_rate")
