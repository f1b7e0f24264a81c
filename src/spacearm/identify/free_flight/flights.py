"""One flight of a body with a wheel, cut from a record: rates, accelerations and wheel speed on a common grid.

Everything passes the same low-pass filter forwards and backwards (no delay), so that the equations of motion still
hold between the channels to first order, and is then sampled at a rate that the filter has made sufficient. What the
flywheel shakes the body with is far above the band.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, filtfilt

from spacearm.errors import InputError
from spacearm.measure import Record
from spacearm.typing import Array

#: Integration steps between two samples.
SUBSTEPS = 2
#: Samples of a flight at least: a start and a few numbers follow from each.
FEWEST = 20
#: And at most: a wrong unit must not ask for all memory.
MOST = 200_000
#: Order of the filter; forwards and backwards twice as many.
ORDER = 4


@dataclass(frozen=True, eq=False)
class Flight:
    """Readings of one flight.

    Args:
        times: (T,) s of the record.
        rate: (T, 3) rad/s, body axes, less the bias that the gyro had at rest.
        acceleration: (T, 3) m/s2 or None.
        wheel_times, wheel: the wheel's speed, rad/s about its axis relative to the body, on the record's own clock.
    """

    name: str
    times: Array
    rate: Array
    acceleration: Array | None
    wheel_times: Array
    wheel: Array

    @property
    def step(self) -> float:
        return float(self.times[1] - self.times[0])

    def wheel_speed(self, count: int, delay: float) -> Array:
        """At ``count`` samples and between them, as the integration needs it; ``delay``: its reading is late, s."""
        nodes = self.times[0] + self.step / (2 * SUBSTEPS) * np.arange(2 * SUBSTEPS * (count - 1) + 1)
        return np.asarray(np.interp(nodes + delay, self.wheel_times, self.wheel))


def cut_flight(
    record: Record,
    *,
    wheel: float = 10.0,
    skip: float = 0.0,
    margin: float = 0.03,
    limit: float = np.inf,
    rest: float = 0.1,
    band: float = 40.0,
    sample: float = 200.0,
) -> Flight | None:
    """The flight of a record with ``rate``, ``wheel`` and perhaps ``acceleration``; None where the wheel never rotates.

    Args:
        wheel: rad/s; the flight begins where the wheel first exceeds this speed.
        skip, margin: s, left out after that and before the end.
        limit: m/s2; the flight ends where the accelerometer reads more, in a hand or on the floor.
        rest: s at the record's start that show the gyro's bias, if nothing rotates then.
        band, sample: Hz, of the low-pass filter and of the samples.
    """
    times, speed = record.channel("rate").times, record["wheel"]
    clock = record.channel("wheel").times
    # The wheel is switched on at the throw: its speed marks the beginning in every record alike.
    fast = np.flatnonzero(np.abs(speed) > wheel)
    if not fast.size:
        return None
    start, end = clock[fast[0]] + skip, times[-1] - margin
    own = record.channels["acceleration"].values if "acceleration" in record else None
    if own is not None and np.isfinite(limit):
        # In free flight an accelerometer reads next to nothing: a hand or the floor shows in it at once.
        size = np.linalg.norm(_filter(own, times, band), axis=1)
        later = np.flatnonzero((times > start) & (size > limit))
        if later.size:
            end = min(end, times[later[0]] - margin)
    count = int(np.floor((end - start) * sample)) + 1
    if count < FEWEST:
        length = f"{max(end - start, 0.0):.3g} s"
        hint = f"expected {FEWEST} samples, {FEWEST / sample:g} s"
        raise InputError(f"its flight lasts {length}", file=record.source or None, place="flight", hint=hint)
    if count > MOST:
        message, hint = f"its flight has {count} samples", f"expected at most {MOST}: a lower rate of samples"
        raise InputError(message, file=record.source or None, place="flight", hint=hint)
    grid = start + np.arange(count) / sample
    # A bias is far below 0.3 rad/s: a body that is turned by hand would give a false one.
    still = record["rate"][times <= times[0] + rest]
    bias = still.mean(axis=0) if np.abs(still).max(initial=np.inf) < 0.3 else np.zeros(3)
    return Flight(
        record.name,
        grid,
        _resample(record["rate"], times, grid, band) - bias,
        None if own is None else _resample(own, times, grid, band),
        clock,
        _filter(speed[:, None], clock, band)[:, 0],
    )


def _filter(values: Array, times: Array, band: float) -> Array:
    rate = 1.0 / float(np.median(np.diff(times)))
    if band >= 0.45 * rate:  # nothing to take away
        return values
    try:
        numerator, denominator = butter(ORDER, band, fs=rate)
        # At a frequency that is next to nothing, whether the start can be solved for is a matter of rounding.
        found = np.asarray(filtfilt(numerator, denominator, values, axis=0)) if numerator.all() else None
    except (ValueError, np.linalg.LinAlgError):
        found = None
    if found is None or (not np.isfinite(found).all() and np.isfinite(values).all()):
        message = f"{len(values)} readings at {rate:.3g} Hz cannot pass a filter of {band:g} Hz"
        raise InputError(message, place="flight.band", hint="expected more readings, or a higher frequency")
    return found


def _resample(values: Array, times: Array, grid: Array, band: float) -> Array:
    smooth = _filter(values, times, band)
    return np.stack([np.interp(grid, times, column) for column in smooth.T], axis=1)
