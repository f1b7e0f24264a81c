"""Joint motion and torques of a record, averaged over short windows of time.

Positions are brought to regular times and smoothed without delay; rates and accelerations that were not measured are
their derivatives. Every term of the torque equations is averaged over the same windows as the measured torques, so the
equations hold for the averages as they do at each instant, and white noise of the torque stays white.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.signal import butter, sosfiltfilt

from spacearm.checks import positive
from spacearm.errors import InputError
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.typing import Array

#: Instants of a window at which the bodies' terms, which are smooth, are evaluated at most; friction is at all samples.
INSTANTS = 16
#: Cut-off of the smoothing of positions, in windows per second.
SMOOTHING = 2.0
#: Windows that are left out at both ends, where smoothing has no readings on one hand.
MARGIN = 2
#: Fewer windows than this tell nothing of the residuals.
FEWEST = 20


class JointMotion(NamedTuple):
    """Positions, rates and accelerations (T, n) of the joints."""

    position: Array
    rate: Array
    acceleration: Array


@dataclass(frozen=True, eq=False)
class Windows:
    """A record in windows.

    Args:
        name: of the record.
        times: (W,) s, middle of each window.
        motion: at all samples of each window in turn, (W k, n).
        torque: (W, n) mean of the readings.
    """

    name: str
    times: Array
    motion: JointMotion
    torque: Array

    @property
    def rise(self) -> Array:
        """Rate of change (W, n) of the torque, N m/s, from window to window."""
        return np.gradient(self.torque, self.times, axis=0)

    def mean(self, values: Array) -> Array:
        """Mean over each window (W, ...) of values at as many instants of each (W k, ...)."""
        return np.asarray(values.reshape(self.times.size, -1, *values.shape[1:]).mean(axis=1))

    def smooth_motion(self, windows: slice) -> JointMotion:
        """Motion (V k, n) of some windows at at most :data:`INSTANTS` instants of each, evenly spread."""
        each = len(self.motion.position) // self.times.size
        count = min(INSTANTS, each)
        chosen = np.floor((np.arange(count) + 0.5) * each / count).astype(np.intp)
        parts = [values.reshape(self.times.size, each, -1)[windows, chosen] for values in self.motion]
        return JointMotion(*(part.reshape(-1, part.shape[-1]) for part in parts))


def average_record(robot: Robot, record: Record, window: float = 0.05) -> Windows:
    """A record in windows of this length, s.

    Channels: ``joint_position`` and ``torque`` (T, n), rad (m) and N m (N), columns in the order of the robot's joints;
    ``joint_rate`` and ``joint_acceleration`` where they were measured.
    """
    positive(window, "window", unit="s", place=record.place)
    channels = {}
    for name in ("joint_position", "torque", "joint_rate", "joint_acceleration"):
        if name in record or name in ("joint_position", "torque"):
            channels[name] = record.channel(name)
            values = channels[name].values.reshape(channels[name].times.size, -1)
            if values.shape[1] != robot.n:
                hint = f"expected {robot.n}, one for each joint of {robot.name!r}"
                raise InputError(f"{name!r} has {values.shape[1]} columns", place=record.place, hint=hint)
            if not np.isfinite(values).all():
                raise InputError(f"{name!r} has missing readings", place=record.place, hint="leave those samples out")
    # The slowest channel decides: faster ones are resampled, slower ones would be invented.
    step = max(channel.step for channel in channels.values())
    first = max(channel.times[0] for channel in channels.values())
    last = min(channel.times[-1] for channel in channels.values())
    each = round(window / step)
    if each < 2:
        hint = f"expected 'window' of {2 * step:g} s or more"
        raise InputError(f"a window of {window:g} s has {window / step:.2g} samples", place=record.place, hint=hint)
    # Whole windows only, less the margins at both ends, where the filter has no past or no future.
    count = int((last - first) / step + 1e-6) // each - 2 * MARGIN
    if count < FEWEST:
        hint = f"expected {(FEWEST + 2 * MARGIN) * window:g} s or more, or shorter windows"
        raise InputError(f"is {max(last - first, 0.0):.4g} s long", place=record.place, hint=hint)
    times = first + step * np.arange((count + 2 * MARGIN) * each)
    regular = {name: channel.resample(times).values for name, channel in channels.items()}
    motion = _derive_motion(regular, step, window)
    inner = slice(MARGIN * each, (MARGIN + count) * each)
    torque = regular["torque"][inner].reshape(count, each, robot.n).mean(axis=1)
    middle = times[inner].reshape(count, each).mean(axis=1)
    return Windows(record.name, middle, JointMotion(*(part[inner] for part in motion)), torque)


def _derive_motion(regular: dict[str, Array], step: float, window: float) -> JointMotion:
    """Smoothed motion at all samples."""
    # Relative to the Nyquist frequency. Twice the rate of windows keeps what their means resolve, and removes the rest.
    share = 2.0 * step * SMOOTHING / window  # of the highest frequency that the samples hold
    smooth = butter(4, share, output="sos") if share < 0.9 else None

    # Forwards and backwards, so that no phase lag mimics inertia or friction.
    def low_pass(values: Array) -> Array:
        return values if smooth is None else np.asarray(sosfiltfilt(smooth, values, axis=0))

    position = low_pass(regular["joint_position"])
    rate = low_pass(regular["joint_rate"]) if "joint_rate" in regular else _differentiate(position, step)
    given = "joint_acceleration" in regular
    acceleration = low_pass(regular["joint_acceleration"]) if given else _differentiate(rate, step)
    return JointMotion(position, rate, acceleration)


def _differentiate(values: Array, step: float) -> Array:
    """Time derivative (T, n) by central differences of fourth order; of second order in the margins."""
    found = np.gradient(values, step, axis=0)
    # (8 (f1 - f-1) - (f2 - f-2)) / 12 h.
    outer, inner = values[4:] - values[:-4], values[3:-1] - values[1:-3]
    found[2:-2] = (8.0 * inner - outer) / (12.0 * step)
    return np.asarray(found)
