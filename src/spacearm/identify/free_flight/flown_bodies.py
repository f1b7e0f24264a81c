"""Bodies that flew, what is known of the device they carried, and what came out for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spacearm.identify.free_flight.flights import Flight
from spacearm.identify.free_flight.tumbling import symmetric
from spacearm.typing import Array

#: Numbers of the device: logarithm of the wheel's inertia, gyro scales, cross-axis sensitivities, tilt of the wheel's
#: axis, delay of the wheel's readings (s).
DEVICE = (
    "wheel_inertia", "gyro_scale.x", "gyro_scale.y", "gyro_scale.z", "gyro_cross.xy", "gyro_cross.xz", "gyro_cross.yz",
    "wheel_tilt.1", "wheel_tilt.2", "wheel_delay",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FlownBody:
    """The device with a body attached, or alone, and its flights.

    Args:
        mass: kg, of what is attached; 0: the device alone.
        known: (3, 3) kg m2 of what is attached about its own mass centre, device axes, where it is known; without an
            accelerometer of all together.
        known_sd: its standard deviation, as a share of a third of its trace.
    """

    name: str
    flights: Sequence[Flight]
    mass: float = 0.0
    known: Array | None = None
    known_sd: float = 0.004


@dataclass(frozen=True)
class DeviceDoubt:
    """Standard deviations of the device's numbers about their nominal values."""

    wheel_inertia: float = 0.03  # share
    gyro_scale: float = 0.005
    gyro_cross: float = 0.01
    wheel_tilt: float = 0.02  # rad
    wheel_delay: float = 0.005  # s
    arm: float = 3e-4  # m, of the mass centre by the accelerometer, along each axis

    @property
    def deviations(self) -> Array:
        """Standard deviations of the numbers in :data:`DEVICE`."""
        own = (self.wheel_inertia, self.gyro_scale, self.gyro_cross, self.wheel_tilt, self.wheel_delay)
        return np.repeat(own, (1, 3, 3, 2, 1))


@dataclass(frozen=True, eq=False)
class BodyEstimate:
    """What came out for a body.

    Args:
        tensor: (6,) xx, yy, zz, xy, xz, yz of what is attached about its own mass centre, kg m2, device axes; of all
            together where that cannot be parted: the device alone, or no accelerometer.
        covariance: (6, 6) of ``tensor``.
        white_sd: (6,) deviations if residuals were white.
        whole: (6,) of all together, about the common mass centre.
        mass_centre, mass_centre_sd: (3,) of what is attached, from the accelerometer, m; None without one.
        drag: (3,) N m s2.
        single: (F, 6) tensors by one flight each, with the device's numbers and the drag of all.
        residuals: (T, 3) of each flight, rad/s; ``predicted`` likewise.
    """

    body: FlownBody
    tensor: Array
    covariance: Array
    white_sd: Array
    whole: Array
    mass_centre: Array | None
    mass_centre_sd: Array | None
    drag: Array
    single: Array
    residuals: Sequence[Array]
    predicted: Sequence[Array]

    @property
    def tensor_sd(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    @property
    def share(self) -> float:
        """Residuals as a share of how much the rates change in flight, both root mean square."""
        left = np.concatenate([one.ravel() for one in self.residuals])
        moved = np.concatenate([(one.rate - one.rate.mean(axis=0)).ravel() for one in self.body.flights])
        return float(np.linalg.norm(left) / np.linalg.norm(moved))

    @property
    def possible(self) -> bool:
        """Whether a body can have this tensor."""
        moments = np.linalg.eigvalsh(symmetric(self.tensor))
        return bool(moments[0] > 0.0 and moments[0] + moments[1] >= moments[2] - 2.0 * float(self.tensor_sd.max()))


@dataclass(frozen=True, eq=False)
class FreeFlightIdentification:
    """The result: device and bodies."""

    device: dict[str, float]
    device_sd: dict[str, float]
    bodies: Sequence[BodyEstimate]
    converged: bool
    widening: Array  # of all tensors: jackknife over white noise
