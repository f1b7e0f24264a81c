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
joint_acceleration       n       rad/s2 or m/s2; where it is not measured, the commanded one counts
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

from spacearm.checks import array, checked, known, non_negative, positive, some
from spacearm.errors import at
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
        "joint_acceleration": Channel(None, "rad/s2", 1e-5),
        "torque": Channel(None, "N m", 1e-3),
    }
)
TYPICAL_NOISE = MappingProxyType({name: channel.noise for name, channel in CHANNELS.items()})
MOMENTUM_CHANNELS = ("position", "attitude", "velocity", "rate", "joint_position", "joint_rate")


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
        checked(self, array, "mount", place="sensors", shape=(3,), unit="m")
        checked(self, positive, "interval", place="sensors", unit="s")
        object.__setattr__(self, "channels", tuple(self.channels))
        with at("sensors"):
            some(self.channels, "measured channel", hint="expected some of " + ", ".join(CHANNELS))
            for name in (*self.channels, *self.noise, *self.bias, *self.bias_sigma):
                known(name, CHANNELS, "channel")
            for what, entries in (("noise", self.noise), ("bias_sigma", self.bias_sigma)):
                for name, value in entries.items():
                    non_negative(value, f"{what} of {name!r}")
            for name, offset in self.bias.items():
                array(offset, f"bias of {name!r}", (CHANNELS[name].size or "n",) if np.ndim(offset) else ())

    def sigma(self, channel: str) -> float:
        return float(self.noise.get(channel, 0.0))
