"""Measured data from files: named float64 arrays over time, in SI units, checked before anything is fitted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from spacearm.errors import InputError, at, did_you_mean
from spacearm.identify.readers import read_columns
from spacearm.typing import Array
from spacearm.words import html_table, unit

_DEG, _REV = math.pi / 180.0, 2.0 * math.pi
_G0 = 9.80665  # m/s2, standard gravity, the unit of many accelerometers

#: SI unit to the units that are written for it, with their factors: value in SI = factor * value as written.
_FACTORS: dict[str, dict[str, float]] = {
    "": {"": 1.0, "1": 1.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
    "m": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "km": 1e3, "in": 0.0254},
    "rad": {
        "rad": 1.0,
        "mrad": 1e-3,
        "urad": 1e-6,
        "deg": _DEG,
        "arcmin": _DEG / 60,
        "arcsec": _DEG / 3600,
        "rev": _REV,
    },
    "m/s": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3, "km/h": 1.0 / 3.6},
    "rad/s": {"rad/s": 1.0, "mrad/s": 1e-3, "deg/s": _DEG, "deg/h": _DEG / 3600.0, "rpm": _REV / 60.0},
    "m/s2": {"m/s2": 1.0, "mm/s2": 1e-3, "g0": _G0, "mg0": 1e-3 * _G0, "ug0": 1e-6 * _G0},
    "rad/s2": {"rad/s2": 1.0, "deg/s2": _DEG},
    "N": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "N m": {"N m": 1.0, "Nm": 1.0, "mN m": 1e-3, "mNm": 1e-3},
    "A": {"A": 1.0},
    "V": {"V": 1.0},
    "kg": {"kg": 1.0, "g": 1e-3},
    "K": {"K": 1.0},
}
#: Unit to (factor, SI unit).
UNITS = {unit: (factor, si) for si, known in _FACTORS.items() for unit, factor in known.items()}


def to_si(unit: str, place: str = "") -> tuple[float, str]:
    """Factor to SI and the SI unit of ``unit``; an unknown one is an error that names the nearest."""
    plain = unit.strip().replace("°", "deg").replace("²", "2").replace("^2", "2").replace("µ", "u").replace("·", " ")
    if plain not in UNITS:
        raise InputError(f"unit {unit!r} is not known", place=place, hint=did_you_mean(plain, UNITS))
    return UNITS[plain]


#: A step of time longer than this many times the median step is a gap.
GAP = 1.5
#: Nothing that a sensor reads is larger than this in SI units; the largest are positions in the solar system, 1e13 m.
LARGEST = 1e15


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
        file = self.source or None
        if time.ndim != 1 or time.size < 2:
            raise InputError(f"has shape {time.shape}", file=file, place="time", hint="expected two samples or more")
        for name, array in self.values.items():
            if np.shape(array)[:1] != time.shape:
                raise InputError(
                    f"has {np.shape(array)[0] if np.ndim(array) else 0} samples, time has {time.size}",
                    file=file,
                    place=repr(name),
                    hint="expected equal lengths",
                )
        back = np.flatnonzero(np.diff(time) <= 0)
        if back.size:
            i = int(back[0])
            raise InputError(
                f"time goes from {time[i]:.9g} s to {time[i + 1]:.9g} s at sample {i + 1}",
                file=file,
                place="time",
                hint="expected times that rise",
            )

    def __repr__(self) -> str:
        return f"Measurements({self.time.size} samples, {np.ptp(self.time):g} s, {', '.join(self.values)})"

    def _repr_html_(self) -> str:
        rows = [
            (name, unit(self.units.get(name, "")), float(np.min(array)), float(np.max(array)))
            for name, array in self.values.items()
        ]
        said = f"{self.source or 'measurements'}: {self.time.size} samples every {self.step:.4g} s"
        return html_table(("quantity", "unit", "smallest", "largest"), rows, said)

    def __getitem__(self, name: str) -> Array:
        if name not in self.values:
            raise InputError(
                "was not measured", file=self.source or None, place=repr(name), hint=did_you_mean(name, self.values)
            )
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
    missing: Literal["reject", "drop", "keep"] = "reject",
    gaps: Literal["reject", "keep"] = "reject",
    largest_step: float | None = None,
) -> Measurements:
    """Read named quantities from a CSV, Parquet, NetCDF or MATLAB file.

    Args:
        columns: quantity to column; a plain text is a column that is in SI units already.
        time: the column of times.
        missing: rows with NaN or an empty cell are an error, left out (their number is kept in ``dropped``), or kept
            as they are; a row without a time is left out then.
        gaps: missing stretches of time are an error, or kept.
        largest_step: longest step (s) that is no gap; 1.5 median steps when not given.

    Raises:
        InputError: with file and place: missing column, unequal lengths, time going back, a gap, NaN, a wrong unit.
    """
    with at(file=path):
        return _read(Path(path), columns, time, missing, gaps, largest_step)


def _read(
    path: Path,
    columns: Mapping[str, Column | str],
    time: Column | str,
    missing: str,
    gaps: str,
    largest_step: float | None,
) -> Measurements:
    clock = Column(time, "s", "s") if isinstance(time, str) else replace(time, unit=time.unit or "s", expects="s")
    plan = {"time": clock, **{key: Column(c) if isinstance(c, str) else c for key, c in columns.items()}}
    units = {key: _scale(key, column) for key, column in plan.items()}
    raw = read_columns(path, [column.name for column in plan.values()])
    samples, values = raw[clock.name].size, {}
    for key, column in plan.items():
        if raw[column.name].size != samples:
            raise InputError(
                f"columns differ in length: {clock.name!r} {samples}, {column.name!r} {raw[column.name].size}",
                place=_place(key, column),
                hint="expected equal lengths",
            )
        with np.errstate(over="ignore"):
            values[key] = raw[column.name] * units[key][0] + column.offset
    judged = [values["time"]] if missing == "keep" else values.values()
    good = np.all([np.isfinite(v) for v in judged], axis=0)
    if missing == "reject":
        _refuse_missing(plan, values)
    for key, column in plan.items():
        values[key] = kept = np.ascontiguousarray(values[key][good])
        kept[np.isinf(kept)] = np.nan
        read = np.isfinite(kept)
        if np.any(np.abs(kept[read]) > LARGEST):
            most = kept[read][np.argmax(np.abs(kept[read]))]
            raise InputError(
                f"is {most:.3g} in SI units, larger than anything that is measured",
                place=_place(key, column),
                hint="the unit is wrong, or the file is damaged",
            )
        if column.unwrap:
            kept[read] = np.unwrap(kept[read])
    times, si = values.pop("time"), {key: unit for key, (_, unit) in units.items() if key != "time"}
    result = Measurements(times, values, si, str(path), int(np.sum(~good)))
    if gaps == "reject":
        _refuse_gaps(result, largest_step)
    return result


def _refuse_missing(plan: Mapping[str, Column], values: Mapping[str, Array]) -> None:
    bad = ~np.isfinite(list(values.values()))
    if bad.any():
        row = int(np.flatnonzero(bad.any(axis=0))[0])
        quantities = [*(key for key in plan if key != "time"), "time"]
        where = next(key for key in quantities if not np.isfinite(values[key][row]))
        raise InputError(
            f"sample {row} of {where!r} is not a finite number ({int(bad.any(axis=0).sum())} such rows)",
            place=_place(where, plan[where]),
            hint="missing='drop' leaves such rows out",
        )


def _place(key: str, column: Column) -> str:
    return f"column {column.name!r} ({key})"


def _scale(key: str, column: Column) -> tuple[float, str]:
    """Factor to SI and the SI unit of a column, which must be the expected one."""
    place = _place(key, column)
    factor, si = to_si(column.unit, place)
    if column.expects and si != column.expects:
        raise InputError(
            f"is in {column.unit or 'no unit'!r}", place=place, hint=f"expected a unit of {column.expects}"
        )
    if column.unwrap and si not in ("rad", ""):
        raise InputError(f"in {column.unit!r} cannot be unwrapped", place=place, hint="expected an angle")
    return factor, si


def _refuse_gaps(data: Measurements, largest_step: float | None) -> None:
    limit = largest_step if largest_step is not None else GAP * data.step
    wide = np.flatnonzero(np.diff(data.time) > limit)
    if wide.size:
        i = int(wide[0])
        raise InputError(
            f"no samples between {data.time[i]:.9g} s and {data.time[i + 1]:.9g} s (step {data.step:.6g} s)",
            place="time",
            hint="gaps='keep' accepts them",
        )
