"""Records of measurements from files: named quantities over time, in SI units, checked before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappush, heapreplace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from spacearm.checks import number, positive
from spacearm.errors import InputError, error_context
from spacearm.measure.formats import read_columns
from spacearm.measure.record import Channel, Record, rising_times
from spacearm.measure.units import to_si
from spacearm.typing import Array

#: A step of time longer than this many times the median step is a gap.
GAP = 1.5
#: No sensor reading is larger than this in SI units; the largest are positions in the solar system, 1e13 m.
LARGEST = 1e15


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a quantity in a file.

    Args:
        name: the column's name in the file; ``rate[2]`` is the third column of a 2-D variable. Several names are the
            entries of a quantity, in order.
        unit: unit of the numbers in the file; if omitted, the unit that the file states, else SI.
        expects: SI unit that it must have once converted, one or one for each name; empty when any will do.
        scale: factor of the numbers in the file, before the unit; one for all columns, or one for each. Below zero
            turns the axis.
        unwrap: remove jumps of a full revolution (only for angles).
        offset: added after conversion, SI (a known bias with its sign changed).
        dropout: numbers, as they stand in the file, that mark a reading that was dropped.
        fresh: a row with exactly the numbers of the row before is not a reading: the log is faster than the sensor, and
            repeats its last one.
        every: s; the sensor is read at this pace and each new number is one reading, with a clock of its own: stamps
            that came early or late, as those of a queue do, are put back to the pace (:func:`even_times`).
        from_first: of times: they count from the first row, as of clocks that count since 1970.
    """

    name: str | Sequence[str]
    unit: str = ""
    expects: str | Sequence[str] = ""
    unwrap: bool = False
    offset: float = 0.0
    dropout: Sequence[float] = ()
    scale: float | Sequence[float] = 1.0
    fresh: bool = False
    from_first: bool = False
    every: float = 0.0

    def __post_init__(self) -> None:
        number(self.every, "every", least=0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all its columns."""
        return (self.name,) if isinstance(self.name, str) else tuple(self.name)

    def each(self) -> list[_Single]:
        """Single columns of a column of several."""
        expected = [self.expects] * len(self.names) if isinstance(self.expects, str) else self.expects
        pairs = zip(self.names, expected, strict=True)
        scales = [self.scale] * len(self.names) if isinstance(self.scale, int | float) else [*self.scale]
        if len(scales) != len(self.names):
            message = f"has {len(scales)} scales for {len(self.names)} columns"
            raise InputError(message, place=f"column {self.names[0]!r}", hint="expected one, or one for each")
        rest = (self.unwrap, self.offset, tuple(self.dropout))
        return [
            _Single(name, self.unit, expects, *rest, factor, self.fresh, self.from_first)
            for (name, expects), factor in zip(pairs, scales, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SampleRate:
    """Rows at a constant rate, in place of a column of times.

    Args:
        rate: rows a second, Hz.
        first: time of the first row, s.
    """

    rate: float
    first: float = 0.0

    def __post_init__(self) -> None:
        positive(self.rate, "rate")
        number(self.first, "first")


class _Single(NamedTuple):
    """One column, as :class:`Column`."""

    name: str
    unit: str
    expects: str
    unwrap: bool
    offset: float
    dropout: tuple[float, ...] = ()
    scale: float = 1.0
    fresh: bool = False
    from_first: bool = False


def read_record(
    path: str | Path,
    columns: Mapping[str, Column | str],
    *,
    time: Column | SampleRate | str = "time",
    missing: Literal["reject", "drop", "keep"] = "reject",
    gaps: Literal["reject", "keep"] = "reject",
    repeats: Literal["reject", "merge"] = "reject",
    largest_step: float | None = None,
    name: str = "",
) -> Record:
    """The named quantities of a CSV, Parquet, NetCDF, HDF5, MATLAB (``.mat``), NumPy (``.npz``) or PyTorch file,
    or of a Blackbox log (``.bfl``, ``.bbl``).

    Args:
        columns: quantity to column; a plain text is a column that is in SI units already.
        time: the column of times, or a constant rate of the rows.
        missing: rows with NaN or an empty cell are an error, dropped (their number is kept in ``dropped``), or kept; a
            row without a time is then dropped.
        gaps: gaps in time are an error, or kept.
        repeats: rows of the same time are an error, or become one row with the last reading of each column.
        largest_step: longest step (s) that is not a gap; 1.5 median steps when not given.
        name: of the record; the file's if omitted.

    Raises:
        InputError: with file and place: missing column, unequal lengths, time going back, a gap, NaN, a wrong unit.
    """
    with error_context(file=path):
        times, values, units, dropped = _read(Path(path), columns, time, missing)
        if isinstance(time, Column) and time.every:
            raise InputError("the clock has a pace", place="time", hint="state 'every' in the columns that are read so")
        paces = {key: column.every for key, column in columns.items() if isinstance(column, Column) and column.every}
        even = {key: _even_channel(times, values.pop(key), units[key], pace, key) for key, pace in paces.items()}
        if repeats == "merge":
            times, values = _merge_repeats(times, values)
        elif (same := np.flatnonzero(np.diff(times) == 0.0)).size:
            i = int(same[0])
            raise InputError(
                f"rows {i} and {i + 1} have the same time, {times[i]:.9g} s ({same.size} such rows)",
                place="time",
                hint="repeats='merge' makes one row of them",
            )
        if gaps == "reject":
            _refuse_gaps(times, largest_step)
        label = name or Path(path).stem
        found = Record.from_columns(label, times, values, units=units, source=str(path), dropped=dropped)
        return replace(found, channels={key: even[key] if key in even else found.channels[key] for key in columns})


def even_times(times: Array, pace: float) -> Array:
    """When readings were taken, s, if one was taken every ``pace`` seconds and their stamps came early or late.

    Each reading takes a later tick than the one before. The ticks are those with the least sum of distances to the
    stamps (isotonic regression in the mean of absolute values), so that readings that waited and came all at once go
    back to where they belong, and a gap remains one. Ticks follow the stamps' running median by up to half a tick.
    """
    from scipy.ndimage import median_filter

    ahead = times / pace - np.arange(times.size)
    # The largest of the least numbers so far: with the running minimum from the end the regression (slope trick).
    heap: list[float] = []
    levels = np.empty_like(ahead)
    for k, own in enumerate(ahead):
        heappush(heap, -own)
        if -heap[0] > own:
            heapreplace(heap, -own)
        levels[k] = -heap[0]
    levels = np.minimum.accumulate(levels[::-1])[::-1]
    phase = float(np.angle(np.mean(np.exp(2j * np.pi * levels)))) / (2.0 * np.pi)
    ticks = pace * (np.arange(times.size) + np.rint(levels - phase))
    # Less than a tick: the times must rise.
    late: Array = np.clip(median_filter(times - ticks, size=21, mode="nearest"), -0.49 * pace, 0.49 * pace)
    return np.asarray(ticks + late, dtype=np.float64)


def _even_channel(times: Array, values: Array, unit: str, pace: float, key: str) -> Channel:
    """The new numbers of a column at the times at which they were read."""
    rows = values.reshape(times.size, -1)
    there = np.flatnonzero(np.isfinite(rows).all(axis=1))
    new = there[np.append(True, np.any(np.diff(rows[there], axis=0) != 0.0, axis=1))] if there.size else there
    if new.size < 2:
        raise InputError("has fewer than two readings that differ", place=key, hint="leave out 'every'")
    return Channel(even_times(times[new], pace), values[new], unit)


def read_times(path: str | Path, time: Column | str = "time") -> Array:
    """The times (T,) of a file, s; rows without one are left out."""
    with error_context(file=path):
        times, _, _, _ = _read(Path(path), {}, time, "drop")
        return rising_times(times)


def _read(
    path: Path, columns: Mapping[str, Column | str], time: Column | SampleRate | str, missing: str
) -> tuple[Array, dict[str, Array], dict[str, str], int]:
    """Times, values and units of each quantity, and how many rows were left out."""
    given = {key: Column(c) if isinstance(c, str) else c for key, c in columns.items()}
    # Times must be in seconds once converted, whatever the caller states.
    plan: dict[str, _Single] = {}
    if not isinstance(time, SampleRate):
        (plan["time"],) = (Column(time, expects="s") if isinstance(time, str) else replace(time, expects="s")).each()
    for key, column in given.items():
        singles = column.each()
        plan |= {key: singles[0]} if isinstance(column.name, str) else {f"{key}.{k}": c for k, c in enumerate(singles)}
    for key, single in plan.items():
        to_si(single.unit, _place(key, single))  # a slip in the map costs no reading
    raw, stated = read_columns(path, [column.name for column in plan.values()])
    plan = {key: c._replace(unit=c.unit or stated.get(c.name, "s" * (key == "time"))) for key, c in plan.items()}
    units = {key: _scale(key, column) for key, column in plan.items()}
    if not plan:
        raise InputError("no column is named", hint="expected one or more")
    leading, values = next(iter(plan.values())).name, {}
    samples = raw[leading].size
    for key, single in plan.items():
        if raw[single.name].size != samples:
            raise InputError(
                f"columns differ in length: {leading!r} {samples}, {single.name!r} {raw[single.name].size}",
                place=_place(key, single),
                hint="expected equal lengths",
            )
        own = raw[single.name]
        for mark in single.dropout:
            own = np.where(np.isclose(own, mark, rtol=1e-6, atol=1e-12), np.nan, own)
        if single.fresh and samples and key != "time":
            # Of a quantity with several columns, a row is a copy only where all of them are.
            group = [raw[each] for each in given[_quantity(key, given)].names]
            copied = np.all([np.diff(column, prepend=np.nan) == 0.0 for column in group], axis=0)
            own = np.where(copied, np.nan, own)
        # A damaged file may hold 1e308: overflow is found below by its size, with a place.
        with np.errstate(over="ignore"):
            factor = single.scale * units[key][0]
            if single.from_first and np.isfinite(own).any():
                # Before the factor: seconds since 1970 in nanoseconds have no digit to spare.
                own = own - own[np.isfinite(own)][0]
            values[key] = own * factor + single.offset
    if isinstance(time, SampleRate):
        values["time"] = time.first + np.arange(samples) / time.rate
    judged = [values["time"]] if missing == "keep" else values.values()
    good = np.all([np.isfinite(v) for v in judged], axis=0)
    if missing == "reject":
        _refuse_missing(plan, values)
    values = {key: np.ascontiguousarray(own[good]) for key, own in values.items()}
    for key, single in plan.items():
        kept = values[key]
        # NaN is the one mark of a missing reading from here on.
        kept[np.isinf(kept)] = np.nan
        read = np.isfinite(kept)
        if np.any(np.abs(kept[read]) > LARGEST):
            most = kept[read][np.argmax(np.abs(kept[read]))]
            raise InputError(
                f"is {most:.3g} in SI units, larger than any measurable quantity",
                place=_place(key, single),
                hint="the unit is wrong, or the file is damaged",
            )
        # Across gaps too: the nearest branch is the best guess.
        if single.unwrap:
            kept[read] = np.unwrap(kept[read])
    found, si = {}, {}
    for key, column in given.items():
        parts = [key] if isinstance(column.name, str) else [f"{key}.{k}" for k in range(len(column.names))]
        found[key] = values[key] if isinstance(column.name, str) else np.stack([values[p] for p in parts], axis=1)
        si[key] = " or ".join(dict.fromkeys(units[part][1] for part in parts))
    return values["time"], found, si, int(np.sum(~good))


def _merge_repeats(times: Array, values: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
    """One row for each time, with the last reading that each column has there."""
    first = np.flatnonzero(np.append(True, np.diff(times) != 0.0))
    found = {}
    for key, own in values.items():
        rows = own.reshape(times.size, -1)
        # The number of the last row with a reading, so far; within its own group of rows only.
        last = np.maximum.accumulate(np.where(np.isfinite(rows), np.arange(times.size)[:, None], -1), axis=0)
        last = last[np.append(first[1:], times.size) - 1]
        there = last >= first[:, None]
        taken = np.take_along_axis(rows, np.maximum(last, 0), axis=0)
        found[key] = np.where(there, taken, np.nan).reshape(first.size, *own.shape[1:])
    return times[first], found


def _refuse_missing(plan: Mapping[str, _Single], values: Mapping[str, Array]) -> None:
    bad = ~np.isfinite(list(values.values()))
    if bad.any():
        row = int(np.flatnonzero(bad.any(axis=0))[0])
        # Quantities before time: a missing value is more often the cause than a missing time.
        quantities = [*(key for key in plan if key != "time"), "time"]
        where = next(key for key in quantities if not np.isfinite(values[key][row]))
        raise InputError(
            f"sample {row} of {where!r} is not a finite number ({int(bad.any(axis=0).sum())} such rows)",
            place=_place(where, plan[where]),
            hint="missing='drop' drops such rows",
        )


def _quantity(key: str, given: Mapping[str, Column]) -> str:
    """The quantity that a column belongs to: ``force`` of its entry ``force.2``."""
    return key if key in given else key.rpartition(".")[0]


def _place(key: str, column: _Single) -> str:
    return f"column {column.name!r} ({key})"


def _scale(key: str, column: _Single) -> tuple[float, str]:
    """Factor to SI and the SI unit of a column, which must be the expected one."""
    place = _place(key, column)
    # Nothing stated, neither by the caller nor by the file: SI.
    factor, si = to_si(column.unit or column.expects, place)
    if column.expects and si != column.expects:
        raise InputError(f"is in {column.unit!r}", place=place, hint=f"expected a unit of {column.expects}")
    if column.unwrap and si not in ("rad", ""):
        raise InputError(f"in {column.unit!r} cannot be unwrapped", place=place, hint="expected an angle")
    return factor, si


def _refuse_gaps(times: Array, largest_step: float | None) -> None:
    steps = np.diff(rising_times(times))
    usual = float(np.median(steps))
    wide = np.flatnonzero(steps > (largest_step if largest_step is not None else GAP * usual))
    if wide.size:
        i = int(wide[0])
        raise InputError(
            f"no samples between {times[i]:.9g} s and {times[i + 1]:.9g} s (step {usual:.6g} s)",
            place="time",
            hint="gaps='keep' accepts them",
        )
