"""Measured data from files: named float64 arrays over time, in SI units, checked before anything is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.identify.readers import read_columns
from spacearm.identify.units import to_si
from spacearm.typing import Array

#: A step of time longer than this many times the median step is a gap.
GAP = 1.5


@dataclass(frozen=True, slots=True)
class Column:
    """Where a quantity stands in a file.

    Args:
        name: the column's name in the file; ``rate[2]`` is the third column of a 2-D variable.
        unit: the unit of the numbers as written.
        expects: SI unit that it must have once converted; empty when any will do.
        unwrap: undo jumps of a full turn (only for angles).
        offset: added after conversion, SI (a known bias with its sign changed).
    """

    name: str
    unit: str = ""
    expects: str = ""
    unwrap: bool = False
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Measurements:
    """Time (s) and quantities of the same length, SI units."""

    time: Array
    values: Mapping[str, Array]
    units: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    dropped: int = 0

    def __post_init__(self) -> None:
        time = np.asarray(self.time, dtype=np.float64)
        object.__setattr__(self, "time", time)
        if time.ndim != 1 or time.size < 2:
            raise InputError(f"time has shape {time.shape}", place=self.source, hint="expected two samples or more")
        for name, array in self.values.items():
            if np.shape(array)[:1] != time.shape:
                raise InputError(
                    f"{name!r} has {np.shape(array)[0] if np.ndim(array) else 0} samples, time has {time.size}",
                    place=self.source,
                    hint="expected equal lengths",
                )
        back = np.flatnonzero(np.diff(time) <= 0)
        if back.size:
            i = int(back[0])
            raise InputError(
                f"time goes from {time[i]:.9g} s to {time[i + 1]:.9g} s at sample {i + 1}",
                place=self.source,
                hint="expected times that rise",
            )

    def __getitem__(self, name: str) -> Array:
        if name not in self.values:
            raise InputError(f"there is no {name!r}", place=self.source, hint=did_you_mean(name, self.values))
        return self.values[name]

    def stack(self, names: Iterable[str]) -> Array:
        """Several quantities side by side, (samples, count)."""
        return np.stack([self[name] for name in names], axis=-1)

    @property
    def step(self) -> float:
        """Median sampling step, s."""
        return float(np.median(np.diff(self.time)))


def read_measurements(
    path: str | Path,
    columns: Mapping[str, Column | str],
    *,
    time: Column | str = "time",
    missing: Literal["reject", "drop"] = "reject",
    gaps: Literal["reject", "keep"] = "reject",
    largest_step: float | None = None,
) -> Measurements:
    """Read named quantities from a CSV, Parquet, NetCDF or MATLAB file.

    Args:
        columns: quantity to column; a plain text is a column that is in SI units already.
        time: the column of times.
        missing: rows with NaN or an empty cell are an error, or left out (their number is kept in ``dropped``).
        gaps: missing stretches of time are an error, or kept.
        largest_step: longest step (s) that is no gap; 1.5 median steps when not given.

    Raises:
        InputError: with file and place: missing column, unequal lengths, time going back, a gap, NaN, a wrong unit.
    """
    path = Path(path)
    clock = Column(time, "s", "s") if isinstance(time, str) else time
    if clock.expects not in ("", "s") or to_si(clock.unit or "s", "time")[1] != "s":
        raise InputError(f"time is in {clock.unit!r}", file=path, place="time", hint="expected a unit of time")
    wanted = {key: Column(entry) if isinstance(entry, str) else entry for key, entry in columns.items()}
    raw = read_columns(path, [clock.name, *(column.name for column in wanted.values())])
    lengths = {name: values.size for name, values in raw.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} {size}" for name, size in lengths.items())
        raise InputError(f"columns differ in length: {told}", file=path, hint="expected equal lengths")
    scale = to_si(clock.unit or "s", "time")[0]
    times = raw[clock.name] * scale + clock.offset
    values, units = {}, {}
    for key, column in wanted.items():
        place = f"column {column.name!r} ({key})"
        try:
            factor, si = to_si(column.unit, place)
        except InputError as error:
            raise error.in_file(path) from None
        if column.expects and si != column.expects:
            raise InputError(
                f"is in {column.unit or 'no unit'!r}",
                file=path,
                place=place,
                hint=f"expected a unit of {column.expects}",
            )
        if column.unwrap and si not in ("rad", ""):
            raise InputError(
                f"in {column.unit!r} cannot be unwrapped", file=path, place=place, hint="expected an angle"
            )
        values[key], units[key] = raw[column.name] * factor + column.offset, si
    good = np.isfinite(times) & np.all([np.isfinite(v) for v in values.values()], axis=0)
    dropped = int(np.sum(~good))
    if dropped and missing == "reject":
        row = int(np.flatnonzero(~good)[0])
        where = next((key for key, v in values.items() if not np.isfinite(v[row])), "time")
        raise InputError(
            f"sample {row} of {where!r} is not a finite number ({dropped} such rows)",
            file=path,
            hint="missing='drop' leaves such rows out",
        )
    times = times[good]
    values = {key: np.ascontiguousarray(v[good]) for key, v in values.items()}
    for key, column in wanted.items():
        if column.unwrap:
            values[key] = np.unwrap(values[key])
    result = Measurements(times, values, units, str(path), dropped)
    limit = largest_step if largest_step is not None else GAP * result.step
    wide = np.flatnonzero(np.diff(times) > limit)
    if wide.size and gaps == "reject":
        i = int(wide[0])
        raise InputError(
            f"no samples between {times[i]:.9g} s and {times[i + 1]:.9g} s (step {result.step:.6g} s)",
            file=path,
            place="time",
            hint="gaps='keep' accepts them",
        )
    return result
