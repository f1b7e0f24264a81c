"""Sensors of an experiment: what is read, where, how often, with which noise and bias.

=======================  ======  ==============================================================
channel                  size    reading
=======================  ======  ==============================================================
position                 3       of the mounting point in the world, m
attitude                 4       quaternion base to world (w, x, y, z); noise is a small turn, rad
velocity                 3       of the mounting point, world axes, m/s
rate                     3       angular velocity of the base, base axes, rad/s
acceleration             3       of the mounting point against the world, base axes, m/s2
angular_acceleration     3       of the base, base axes, rad/s2
joint_position           n       rad or m
joint_rate               n       rad/s or m/s
torque                   n       drive torque or force of each joint, N m or N
=======================  ======  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError, did_you_mean
from spacearm.typing import Array


class Channel(NamedTuple):
    """Number of noise entries (None: one for each joint), unit, and the standard deviation of a typical sensor."""

    size: int | None
    unit: str
    noise: float


#: What a mission may carry: laser ranging, star tracker, navigation filter, gyro, accelerometer, joint encoders.
CHANNELS: Mapping[str, Channel] = MappingProxyType(
    {
        "position": Channel(3, "m", 1e-4),
        "attitude": Channel(3, "rad", 2e-5),
        "velocity": Channel(3, "m/s", 1e-5),
        "rate": Channel(3, "rad/s", 1e-6),
        "acceleration": Channel(3, "m/s2", 1e-6),
        "angular_acceleration": Channel(3, "rad/s2", 1e-6),
        "joint_position": Channel(None, "rad", 1e-5),
        "joint_rate": Channel(None, "rad/s", 1e-6),
        "torque": Channel(None, "N m", 1e-3),
    }
)
TYPICAL_NOISE = MappingProxyType({name: channel.noise for name, channel in CHANNELS.items()})
MOMENTUM_CHANNELS = ("position", "attitude", "velocity", "rate", "joint_position", "joint_rate")


def _known(name: str) -> str:
    if name not in CHANNELS:
        raise InputError(f"there is no channel {name!r}", place="sensors", hint=did_you_mean(name, CHANNELS))
    return name


@dataclass(frozen=True, eq=False)
class Sensors:
    """A suite of sensors.

    Args:
        mount: place of the position, velocity and acceleration sensors in the base frame, m.
        interval: time between samples, s.
        channels: what is measured.
        noise: channel to standard deviation (each component); a channel without an entry has none.
        bias: channel to a constant added to its readings (attitude: a turn in base axes, rad).
        bias_sigma: channel to the standard deviation that its unknown bias is believed to have; such biases are
            estimated along with the inertias.
    """

    mount: Array = field(default_factory=lambda: np.zeros(3))
    interval: float = 0.1
    channels: Sequence[str] = MOMENTUM_CHANNELS
    noise: Mapping[str, float] = field(default_factory=dict)
    bias: Mapping[str, npt.ArrayLike] = field(default_factory=dict)
    bias_sigma: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mount = np.array(self.mount, dtype=np.float64)
        if mount.shape != (3,) or not np.all(np.isfinite(mount)):
            raise InputError(f"mount is {self.mount!r}", place="sensors", hint="expected 3 numbers, m")
        object.__setattr__(self, "mount", mount)
        if not (np.isfinite(self.interval) and self.interval > 0):
            raise InputError(f"interval is {self.interval}", place="sensors", hint="expected seconds above zero")
        object.__setattr__(self, "channels", tuple(_known(name) for name in self.channels))
        for what, entries in (("noise", self.noise), ("bias_sigma", self.bias_sigma)):
            for name, value in entries.items():
                _known(name)
                if not (np.isfinite(value) and value >= 0):
                    raise InputError(f"{what} of {name!r} is {value}", place="sensors", hint="expected at least zero")
        if not self.channels:
            raise InputError("no channel is measured", place="sensors", hint="expected some of " + ", ".join(CHANNELS))
        for name, offset in self.bias.items():
            size, given = CHANNELS[_known(name)].size, np.asarray(offset, dtype=np.float64)
            if given.ndim > 1 or not np.all(np.isfinite(given)) or (given.ndim and size not in (None, given.size)):
                hint = f"expected {size or 'as many numbers as joints'}"
                raise InputError(f"bias of {name!r} is {given.tolist()}", place="sensors", hint=hint)

    def sigma(self, channel: str) -> float:
        return float(self.noise.get(channel, 0.0))

    def quiet(self) -> Sensors:
        """The same without noise and bias."""
        return Sensors(self.mount, self.interval, self.channels)
