"""A record: readings of named channels over time, with units and standard deviations, and the commands.

Every channel has times of its own, since sensors are read at different rates. A missing reading is NaN. Records are
values: cutting, joining, resampling and aligning give new ones. Linear resampling carries the deviations of the two
neighbours along, as they are independent; a spline takes that of the nearest.

Clocks that differ are aligned by the motion itself (:meth:`Record.align`). For each shift, factor and offset between
two channels follow by linear least squares, so only the shift is searched (variable projection: G. Golub, V. Pereyra
1973): first on a grid of samples, because an oscillation has a minimum in every period, then by Gauss-Newton. Its
deviation follows from the residuals and their slope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.checks import one_of, positive
from spacearm.errors import InputError, did_you_mean
from spacearm.measure.units import to_si
from spacearm.simulate import Signal
from spacearm.text_format import format_unit, html_table
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

#: Shifts that :meth:`Record.align` tries before it refines the best of them.
MOST_SHIFTS = 20_001
#: Knots of a smooth curve through a channel, at most twice as many.
MOST_KNOTS = 5000


class Shift(NamedTuple):
    """Delay of a channel in seconds, and its standard deviation."""

    seconds: float
    std: float


@dataclass(frozen=True, eq=False)
class Channel:
    """Readings of one quantity.

    Args:
        times: (T,) s, rising; need not be regular.
        values: (T,) or (T, k), SI; NaN where a reading is missing.
        unit: SI unit.
        sigma: standard deviation of a reading: one number, one for each of the k entries, or one for each reading; NaN
            where it is not known.
        spread: standard deviation of an unknown constant bias; 0: none.
        mount: point of the base at which it was measured (base frame, m); None if irrelevant.
    """

    times: Array
    values: Array
    unit: str = ""
    sigma: npt.ArrayLike = np.nan
    spread: float = 0.0
    mount: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        times = rising_times(self.times)
        values, sigma = np.asarray(self.values, dtype=np.float64), np.asarray(self.sigma, dtype=np.float64)
        if values.ndim not in (1, 2) or values.shape[0] != times.size:
            raise InputError(
                f"has {values.shape[0] if values.ndim else 0} samples, time has {times.size}",
                hint="expected equal lengths",
            )
        if sigma.shape not in {(), values.shape[1:], values.shape} or np.any(sigma < 0.0):
            raise InputError(
                f"standard deviations have shape {sigma.shape}",
                hint=f"expected one, not below zero, or {values.shape}",
            )
        for name, given in (("times", times), ("values", values), ("sigma", sigma)):
            object.__setattr__(self, name, given)

    @property
    def step(self) -> float:
        """Median step of time, s."""
        return float(np.median(np.diff(self.times)))

    def pick(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Channel:
        """The channel with some of its readings."""
        sigma = np.asarray(self.sigma)
        own = sigma[rows] if sigma.shape == self.values.shape else sigma
        return replace(self, times=self.times[rows], values=self.values[rows], sigma=own)

    def resample(self, times: Array, method: Literal["linear", "spline"] = "linear") -> Channel:
        """Readings at other times, NaN outside the measured times.

        ``linear``: between the neighbours, NaN where one is missing, with the deviation that theirs leave. ``spline``:
        a cubic one through all readings that are there, with the deviation of the nearest.
        """
        one_of(method, ("linear", "spline"), "method")
        rows = self.values.reshape(self.times.size, -1)
        sigma = np.broadcast_to(self.sigma, self.values.shape).reshape(rows.shape)
        found, doubt = np.full((times.size, rows.shape[1]), np.nan), np.full((times.size, rows.shape[1]), np.nan)
        right = np.clip(np.searchsorted(self.times, times, side="left"), 1, self.times.size - 1)
        share = ((times - self.times[right - 1]) / (self.times[right] - self.times[right - 1]))[:, None]
        inside = ((times >= self.times[0]) & (times <= self.times[-1]))[:, None]
        if method == "linear":
            # a time at a reading needs no neighbour
            low = np.where(share == 1.0, 0.0, rows[right - 1] * (1.0 - share))
            high = np.where(share == 0.0, 0.0, rows[right] * share)
            found = np.where(inside, low + high, np.nan)
            # Independent errors of the two neighbours, weighted as the readings are.
            low = np.where(share == 1.0, 0.0, sigma[right - 1] * (1.0 - share))
            high = np.where(share == 0.0, 0.0, sigma[right] * share)
            doubt = np.where(inside, np.hypot(low, high), np.nan)
        else:
            for k in range(rows.shape[1]):
                found[:, k] = _spline(self.times, rows[:, k])(times)
            doubt = sigma[np.where(share[:, 0] > 0.5, right, right - 1)]
        shape = (times.size, *self.values.shape[1:])
        return replace(self, times=times, values=found.reshape(shape), sigma=doubt.reshape(shape))


@dataclass(frozen=True, eq=False)
class Record:
    """Channels by name, each with its own times, and commands as signals of the same clock.

    Args:
        name: shown in results.
        channels: name to readings.
        commands: what was commanded: joint paths, levels of thrusters, loads; by name.
        source: the file that it comes from.
        dropped: rows of that file that were left out.
    """

    name: str
    channels: Mapping[str, Channel]
    commands: Mapping[str, Signal] = field(default_factory=dict)
    source: str = ""
    dropped: int = 0

    @classmethod
    def from_columns(
        cls,
        name: str,
        times: npt.ArrayLike,
        values: Mapping[str, npt.ArrayLike],
        *,
        units: Mapping[str, str] | None = None,
        sigma: Mapping[str, npt.ArrayLike] | None = None,
        commands: Mapping[str, Signal] | None = None,
        source: str = "",
        dropped: int = 0,
    ) -> Record:
        """Channels that were all read at the same times (T,), s."""
        clock = rising_times(times, source)
        found = {}
        for key, given in values.items():
            try:
                own = np.asarray(given, dtype=np.float64)
                found[key] = Channel(clock, own, (units or {}).get(key, ""), (sigma or {}).get(key, np.nan))
            except InputError as error:
                raise InputError(error.message, file=source or None, place=repr(key), hint=error.hint) from None
        return cls(name, found, dict(commands or {}), source, dropped)

    def __repr__(self) -> str:
        sizes = sorted({channel.times.size for channel in self.channels.values()})
        samples = " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1]))) if sizes else "no"
        low, high = self.span
        return f"Record({self.name!r}, {samples} samples, {high - low:g} s, {', '.join(self.channels)})"

    def _repr_html_(self) -> str:
        rows = [
            (
                name,
                format_unit(own.unit),
                own.times.size,
                own.step,
                float(np.nanmin(own.values)),
                float(np.nanmax(own.values)),
            )
            for name, own in self.channels.items()
        ]
        head = ("channel", "unit", "samples", "every, s", "smallest", "largest")
        return html_table(head, rows, f"{self.source or self.name}: {self.span[1] - self.span[0]:.4g} s")

    def channel(self, name: str) -> Channel:
        """The readings of a channel with their times."""
        if name not in self.channels:
            raise InputError(
                "was not measured", file=self.source or None, place=repr(name), hint=did_you_mean(name, self.channels)
            )
        return self.channels[name]

    def __getitem__(self, name: str) -> Array:
        """Values of a channel."""
        return self.channel(name).values

    def __contains__(self, name: object) -> bool:
        return name in self.channels

    @property
    def units(self) -> dict[str, str]:
        """SI unit of each channel."""
        return {name: channel.unit for name, channel in self.channels.items()}

    @property
    def span(self) -> tuple[float, float]:
        """First and last time of all channels, s."""
        found = [(own.times[0], own.times[-1]) for own in self.channels.values()]
        return (float(min(a for a, _ in found)), float(max(b for _, b in found))) if found else (0.0, 0.0)

    @property
    def times(self) -> Array:
        """Times (T,) of all channels, s, where they were read together."""
        clocks = [channel.times for channel in self.channels.values()]
        if not clocks:
            raise InputError("has no channel", place=self.place)
        for name, own in self.channels.items():
            # Identity first: channels of one file share the very array, and records are asked for this often.
            if own.times is not clocks[0] and not np.array_equal(own.times, clocks[0]):
                hint = "Record.resample brings all to the same times"
                raise InputError(f"{name!r} was read at other times than the rest", place=self.place, hint=hint)
        return clocks[0]

    @property
    def place(self) -> str:
        return f"record {self.name!r}"

    @property
    def step(self) -> float:
        """Median step of the common times, s."""
        return float(np.median(np.diff(self.times)))

    def stack(self, names: Iterable[str]) -> Array:
        """Several channels next to each other, (samples, count)."""
        chosen = self.select(names)
        _ = chosen.times
        return np.stack([chosen[name] for name in names], axis=-1)

    def select(self, names: Iterable[str]) -> Record:
        """The record with these channels only."""
        return replace(self, channels={name: self.channel(name) for name in names})

    def merge(self, other: Record) -> Record:
        """The record with the channels and commands of another record of the same clock."""
        for name in other.channels:
            if name in self.channels:
                raise InputError(f"{name!r} is in both records", place=other.place, hint="expected different names")
        return replace(self, channels={**self.channels, **other.channels}, commands={**self.commands, **other.commands})

    def cut(self, start: float, end: float) -> Record:
        """The readings from ``start`` to ``end``, both included, s; the clock stays."""
        found = {}
        for name, own in self.channels.items():
            rows = (own.times >= start) & (own.times <= end)
            if np.count_nonzero(rows) < 2:
                hint = f"it was read from {own.times[0]:g} s to {own.times[-1]:g} s"
                raise InputError(
                    f"{name!r} has fewer than two readings from {start:g} s to {end:g} s", place=self.place, hint=hint
                )
            found[name] = own.pick(rows)
        return replace(self, channels=found)

    def join(self, later: Record) -> Record:
        """The record continued by a later part, which has the same channels; commands change where it begins."""
        if self.channels.keys() != later.channels.keys():
            other = ", ".join(sorted(self.channels.keys() ^ later.channels.keys()))
            raise InputError(f"has other channels: {other}", place=later.place, hint=f"expected those of {self.name!r}")
        found = {}
        for name, own in self.channels.items():
            new = later.channels[name]
            if new.times[0] <= own.times[-1]:
                message = f"{name!r} begins at {new.times[0]:g} s, the first part ends at {own.times[-1]:g} s"
                raise InputError(message, place=later.place, hint="expected times that rise")
            if new.unit != own.unit or new.values.shape[1:] != own.values.shape[1:]:
                raise InputError(f"{name!r} has another unit or size", place=later.place)
            each = [np.broadcast_to(c.sigma, c.values.shape) for c in (own, new)]
            same = np.shape(own.sigma) == np.shape(new.sigma) and np.array_equal(own.sigma, new.sigma, equal_nan=True)
            # One number for all is kept as one; else each reading has its own.
            sigma = own.sigma if same and np.shape(own.sigma) != own.values.shape else np.concatenate(each)
            times, values = np.concatenate([own.times, new.times]), np.concatenate([own.values, new.values])
            found[name] = replace(own, times=times, values=values, sigma=sigma)
        begin, commands = later.span[0], dict(self.commands)
        for name, signal in later.commands.items():
            # What was commanded in the first part stays as it was until the second begins.
            before = self.commands.get(name)
            commands[name] = signal if before is None or before is signal else splice(before, signal, begin)
        return replace(self, channels=found, commands=commands)

    def resample(self, times: npt.ArrayLike, method: Literal["linear", "spline"] = "linear") -> Record:
        """All channels at these times (T,), s; see :meth:`Channel.resample`."""
        clock = rising_times(times)
        return replace(self, channels={name: own.resample(clock, method) for name, own in self.channels.items()})

    def shift(self, names: Iterable[str], seconds: float) -> Record:
        """The record with the times of these channels shifted by this many seconds."""
        changed = {name: replace(self.channel(name), times=self.channel(name).times + seconds) for name in names}
        return replace(self, channels={**self.channels, **changed})

    def align(
        self, name: str, reference: str, *, others: Iterable[str] = (), longest: float | None = None
    ) -> tuple[Record, Shift]:
        """The record with a channel shifted to fit the reference best, and the shift found.

        Both measure the same motion, each with its own factor and offset: two angles, two rates. The shift maximises
        the correlation, refined by least squares; its deviation follows from the residuals.

        Args:
            name: the channel that is late, or early (a shift below zero).
            others: further channels of the same clock, which move along.
            longest: s, largest shift; a quarter of the common time by default.
        """
        late, true = self.channel(name), self.channel(reference)
        found = find_shift(late, true, longest, place=f"{self.place}: {name!r} on {reference!r}")
        return self.shift((name, *others), -found.seconds), found

    # -- xarray -------------------------------------------------------------------------------------------------------

    def to_xarray(self) -> xr.Dataset:
        """The record as a data set: ``time`` where channels share it, else ``<channel>.time`` each.

        Deviations stand as ``<channel>.sigma``, commands as ``command.<name>`` with their breaks and coefficients.
        """
        import xarray as xr

        clocks = [own.times for own in self.channels.values()]
        common = all(np.array_equal(one, clocks[0]) for one in clocks)
        data: dict[str, Any] = {}
        coordinates: dict[str, Any] = {}
        for name, own in self.channels.items():
            clock = "time" if common else f"{name}.time"
            coordinates[clock] = (clock, own.times, {"units": "s"})
            dims = (clock, f"{name}.entry")[: own.values.ndim]
            # NetCDF has no attribute for nothing: a mount that is not known is left out.
            place = {} if own.mount is None else {"mount": list(own.mount)}
            data[name] = (dims, own.values, {"units": own.unit, "spread": own.spread, **place})
            sigma = np.asarray(own.sigma)
            shape = dims if sigma.shape == own.values.shape else dims[1:] if sigma.ndim else ()
            data[f"{name}.sigma"] = (shape, sigma, {"units": own.unit})
        for name, signal in self.commands.items():
            dims = (f"command.{name}.power", f"command.{name}.piece")
            data[f"command.{name}"] = (dims, signal.coefficients, {})
            data[f"command.{name}.breaks"] = (f"command.{name}.break", signal.breaks, {"units": "s"})
        about = {"name": self.name, "source": self.source, "channels": list(self.channels)}
        return xr.Dataset(data, coordinates, {**about, "commands": list(self.commands)})

    @classmethod
    def from_xarray(cls, data: xr.Dataset, name: str = "") -> Record:
        """A record from :meth:`to_xarray`, or from any data set whose variables have a time: seconds, durations, dates.

        A variable's time is the coordinate of its first dimension; its unit is its attribute ``units``, which must be
        SI. Deviations are ``<channel>.sigma`` where they are there.
        """
        plain = [key for key in map(str, data.data_vars) if not key.endswith(".sigma")]
        found = {}
        for key in np.atleast_1d(data.attrs.get("channels", plain)):
            variable = data[key]
            clock = variable.dims[0] if variable.dims else ""
            if clock not in data.coords:
                raise InputError("has no time", place=repr(key), hint="expected a first dimension with coordinates, s")
            times, unit = data.coords[clock].values, str(variable.attrs.get("units", ""))
            if to_si(unit, repr(key)) != (1.0, unit):
                raise InputError(f"is in {unit!r}", place=repr(str(key)), hint="expected an SI unit")
            # Durations and dates of xarray: seconds, dates from the first one on.
            if times.dtype.kind == "m":
                times = times / np.timedelta64(1, "s")
            elif times.dtype.kind == "M":
                times = (times - times[0]) / np.timedelta64(1, "s")
            sigma = data[f"{key}.sigma"].values if f"{key}.sigma" in data else np.nan
            mount = variable.attrs.get("mount")
            place = None if mount is None else (float(mount[0]), float(mount[1]), float(mount[2]))
            spread = float(variable.attrs.get("spread", 0.0))
            found[str(key)] = Channel(times, variable.values, unit, sigma, spread, place)
        commands = {
            str(key): Signal(data[f"command.{key}.breaks"].values, data[f"command.{key}"].values)
            for key in np.atleast_1d(data.attrs.get("commands", []))
        }
        return cls(name or str(data.attrs.get("name", "")), found, commands, str(data.attrs.get("source", "")))


def rising_times(times: npt.ArrayLike, source: str = "") -> Array:
    """Times (T,) as floats, s; an error where they are fewer than two or do not rise."""
    found, file = np.asarray(times, dtype=np.float64), source or None
    if found.ndim != 1 or found.size < 2:
        what = f"{found.size} times" if found.ndim == 1 else f"shape {found.shape}"
        raise InputError(f"has {what}", file=file, place="time", hint="expected two samples or more")
    back = np.flatnonzero(~(np.diff(found) > 0))
    if back.size:
        i = int(back[0])
        raise InputError(
            f"time goes from {found[i]:.9g} s to {found[i + 1]:.9g} s at sample {i + 1}",
            file=file,
            place="time",
            hint="expected times that rise",
        )
    return found


def find_shift(late: Channel, true: Channel, longest: float | None = None, *, place: str = "") -> Shift:
    """Delay of a channel relative to another of the same motion; see :meth:`Record.align`."""
    if late.values.shape[1:] != true.values.shape[1:]:
        raise InputError("both have different sizes", place=place, hint="expected the same quantity")
    if late.step > true.step:
        # The denser one becomes a curve: few readings say little of what is between them.
        found = find_shift(true, late, longest, place=place)
        return Shift(-found.seconds, found.std)
    shared = min(late.times[-1], true.times[-1]) - max(late.times[0], true.times[0])
    # A larger shift would leave so little in common that chance fits it.
    reach = 0.25 * max(shared, 0.0) if longest is None else positive(longest, "longest", unit="s", place=place)
    step = min(late.step, true.step)
    if not reach >= step or not shared > 2.0 * reach:
        message = f"they have {max(shared, 0.0):g} s in common, too little for a shift of {reach:g} s"
        raise InputError(message, place=place, hint="expected records of the same time")
    rows = [channel.values.reshape(channel.times.size, -1) for channel in (late, true)]
    curves = [_smooth_curve(late.times, rows[0][:, k]) for k in range(rows[0].shape[1])]
    # the shifted channel is needed at all these times, whatever the shift
    inside = (true.times >= late.times[0] + reach) & (true.times <= late.times[-1] - reach)
    times, values = true.times[inside], rows[1][inside]

    def misfit(shift: float) -> tuple[Array, Array]:
        """Residuals of all entries and their derivatives by the shift."""
        residuals, slopes = [], []
        for k, curve in enumerate(curves):
            there = np.isfinite(values[:, k]) & np.isfinite(shown := curve(times + shift))
            if np.count_nonzero(there) < 4:
                continue
            rate = curve(times + shift, 1)[there]
            matrix = np.stack([shown[there], np.ones(int(there.sum()))], axis=1)
            fit, *_ = np.linalg.lstsq(matrix, values[there, k], rcond=None)
            residuals.append(values[there, k] - matrix @ fit)
            # Variable projection: factor and offset are eliminated, so that only the shift remains.
            slope = -fit[0] * rate  # with factor and offset fitted anew
            slopes.append(slope - matrix @ np.linalg.lstsq(matrix, slope, rcond=None)[0])
        if not residuals:
            raise InputError("too few readings are in common", place=place, hint="expected four or more")
        return np.concatenate(residuals), np.concatenate(slopes)

    # A scan first: the misfit of an oscillation has a minimum in every period.
    tries = np.linspace(-reach, reach, min(2 * int(np.ceil(reach / step)) + 1, MOST_SHIFTS))
    best = float(min(tries, key=lambda shift: float(np.sum(misfit(shift)[0] ** 2))))
    for _ in range(20):
        residual, slope = misfit(best)
        power = float(slope @ slope)
        if not power > 0.0:
            raise InputError("nothing moves, so that no shift can be found", place=place)
        # At most a sample in each step: beyond that the linearisation of the curve is not valid.
        change = float(np.clip(-(slope @ residual) / power, -step, step))
        best = float(np.clip(best + change, -reach, reach))
        if abs(change) < 1e-9 * step:
            break
    # A minimum at the edge of the range is not a minimum.
    if abs(best) >= reach - 0.5 * step:
        hint = "use a larger 'longest', or another pair of channels"
        raise InputError(f"fits best at the largest shift that is allowed, {reach:g} s", place=place, hint=hint)
    residual, slope = misfit(best)
    # Both channels err: the readings about the curve, and the curve by the errors of what it was drawn through.
    own = [
        (rows[0][:, k] - curve(late.times), curve(late.times, 1))
        for k, curve in enumerate(curves)
        if np.isfinite(rows[0][:, k]).any()
    ]
    errors, rates = (np.concatenate(parts) for parts in zip(*own, strict=True))
    there = np.isfinite(errors) & np.isfinite(rates)
    variance = sum(
        _score_variance(rate * error) / float(rate @ rate) ** 2
        for rate, error in ((slope, residual), (rates[there], errors[there]))
    )
    return Shift(best, float(np.sqrt(variance)))


def _score_variance(scores: Array) -> float:
    """Variance of a sum of scores that may err together for some readings (W. K. Newey and K. D. West, 1987).

    At least that of scores that do not.
    """
    # Weights that fall linearly (Bartlett's) keep the estimate from falling below zero.
    lags = min(int(np.ceil(scores.size ** (1.0 / 3.0))), scores.size - 1)
    white = found = float(scores @ scores)
    for lag in range(1, lags + 1):
        found += 2.0 * (1.0 - lag / (lags + 1.0)) * float(scores[lag:] @ scores[:-lag])
    return max(white, found)


def smooth_readings(times: Array, values: Array) -> Array:
    """Readings (T,) or (T, k) as a smoothing spline has them, as smooth as cross-validation says; NaN stays NaN."""
    from scipy.interpolate import make_smoothing_spline

    if values.ndim > 1:
        return np.stack([smooth_readings(times, column) for column in values.T], axis=1)
    found, there = np.asarray(values, dtype=np.float64).copy(), np.isfinite(values)
    clock, read = times[there], found[there]
    if clock.size >= 5 and np.ptp(read) > 0.0:
        # In samples and in deviations, which the search for the smoothness expects.
        clock, size = clock / float(np.median(np.diff(clock))), float(np.std(read))
        found[there] = size * make_smoothing_spline(clock, read / size)(clock)
    return found


def _smooth_curve(times: Array, values: Array) -> Callable[..., Array]:
    """A spline near the readings that are there, NaN outside them; its second argument is the derivative.

    As smooth as cross-validation says (P. Craven, G. Wahba, 1979): noise would look like motion in the derivative.
    """
    there = np.isfinite(values)
    clock, read = times[there], values[there]
    if clock.size > 2 * MOST_KNOTS:
        # The search for the smoothness takes long; means of neighbours show the same motion.
        together = clock.size // MOST_KNOTS
        whole = clock.size // together * together
        clock, read = (each[:whole].reshape(-1, together).mean(axis=1) for each in (clock, read))
    return _spline(clock, smooth_readings(clock, read))


def _spline(times: Array, values: Array) -> Callable[..., Array]:
    """A cubic spline through the readings that are there, NaN outside them; its second argument is the derivative."""
    from scipy.interpolate import CubicSpline

    there = np.isfinite(values)
    if np.count_nonzero(there) < 2:
        return lambda at, order=0: np.full(np.shape(at), np.nan)
    curve: Callable[..., Array] = CubicSpline(times[there], values[there], extrapolate=False)
    return curve


def splice(first: Signal, second: Signal, time: float) -> Signal:
    """The first signal until ``time``, the second from there on."""
    before = first.breaks[:-1][first.breaks[:-1] < time]
    after = second.breaks[1:][second.breaks[1:] > time]
    # Where the first signal has no break before ``time``, a piece that begins a second earlier carries it.
    starts = np.concatenate([before if before.size else [time - 1.0], [time], after[:-1] if after.size else []])
    degree = max(first.coefficients.shape[0], second.coefficients.shape[0])
    columns = []
    for start in starts:
        own = second if start >= time else first
        piece = int(np.searchsorted(own.breaks[1:-1], start, side="right"))
        # Taylor shift: the same polynomial, in the time since the new start of the piece.
        moved = np.polynomial.Polynomial(own.coefficients[:, piece])(
            np.polynomial.Polynomial([start - own.breaks[piece], 1.0])
        )
        columns.append(np.pad(moved.coef, (0, degree - moved.coef.size)))
    end = after[-1] if after.size else time + 1.0
    return Signal(np.append(starts, end), np.stack(columns, axis=1))
