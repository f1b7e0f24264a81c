"""Columns of numbers from CSV, Parquet, NetCDF and MATLAB files, by name, unchanged."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.typing import Array

Columns = dict[str, Array]


def read_columns(path: Path, names: Iterable[str]) -> Columns:
    """The named columns of a file, 1-D float64 each; the file's ending decides the format."""
    readers: dict[str, Callable[[Path, list[str]], Columns]] = {
        ".csv": _csv,
        ".txt": _csv,
        ".tsv": _csv,
        ".parquet": _parquet,
        ".nc": _netcdf,
        ".nc4": _netcdf,
        ".mat": _matlab,
    }
    ending = path.suffix.lower()
    if ending not in readers:
        raise InputError(f"a file ending in {ending!r} is not a table", file=path, hint=", ".join(readers))
    if not path.is_file():
        raise InputError("there is no such file", file=path)
    wanted = list(dict.fromkeys(names))
    columns = readers[ending](path, wanted)
    for name, values in columns.items():
        if values.ndim != 1:
            raise InputError(f"has shape {values.shape}", file=path, place=f"column {name!r}", hint="expected one axis")
    return columns


def _missing(path: Path, name: str, known: Iterable[str]) -> InputError:
    return InputError("there is no such column", file=path, place=f"column {name!r}", hint=did_you_mean(name, known))


def _floats(values: object, path: Path, name: str) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("does not hold numbers", file=path, place=f"column {name!r}") from None


def _csv(path: Path, names: list[str]) -> Columns:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", file=path, hint="save it as UTF-8") from None
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    if not lines:
        raise InputError("has no header line", file=path, hint="expected column names in the first line")
    header_line = lines[0][1]
    separator = max("\t;,", key=header_line.count)
    header = [word.strip() for word in next(csv.reader([header_line], delimiter=separator))]
    for name in names:
        if name not in header:
            raise _missing(path, name, header)
        if header.count(name) > 1:
            raise InputError("stands twice in the header", file=path, place=f"column {name!r}")
    places = [header.index(name) for name in names]
    rows = np.empty((len(lines) - 1, len(names)))
    for r, (number, line) in enumerate(lines[1:]):
        cells = next(csv.reader([line], delimiter=separator))
        if len(cells) != len(header):
            raise InputError(
                f"has {len(cells)} cells", file=path, place=f"line {number}", hint=f"expected {len(header)}"
            )
        for c, place in enumerate(places):
            cell = cells[place].strip()
            try:
                rows[r, c] = float(cell) if cell else np.nan
            except ValueError:
                raise InputError(
                    f"{cell!r} is not a number", file=path, place=f"line {number}, column {names[c]!r}"
                ) from None
    return {name: rows[:, c].copy() for c, name in enumerate(names)}


def _parquet(path: Path, names: list[str]) -> Columns:
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise InputError(
            "reading Parquet needs pyarrow, which is not installed",
            file=path,
            hint="pip install 'spacearm[parquet]', or write CSV",
        ) from None
    try:
        known = parquet.read_schema(path).names
        for name in names:
            if name not in known:
                raise _missing(path, name, known)
        table = parquet.read_table(path, columns=names)
    except (OSError, ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", file=path) from None
    return {name: _floats(table[name].to_numpy(), path, name) for name in names}


def _netcdf(path: Path, names: list[str]) -> Columns:
    import xarray

    try:
        with xarray.open_dataset(path, engine="h5netcdf", decode_times=False) as data:
            known = [str(name) for name in data.variables]
            columns = {}
            for name in names:
                variable, index = _indexed(name, known)
                if variable is None:
                    raise _missing(path, name, known)
                values = _floats(data[variable].values, path, name)
                columns[name] = _pick(values, index, path, name)
            return columns
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as NetCDF-4: {error}", file=path) from None


def _matlab(path: Path, names: list[str]) -> Columns:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, squeeze_me=True, struct_as_record=True)
    except NotImplementedError:
        content = _matlab_hdf5(path)
    except (MatReadError, OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot be read as a MATLAB file: {error}", file=path) from None
    known = [name for name in content if not name.startswith("__")]
    columns = {}
    for name in names:
        variable, index = _indexed(name, known)
        if variable is None:
            raise _missing(path, name, known)
        columns[name] = _pick(_floats(content[variable], path, name), index, path, name)
    return columns


def _matlab_hdf5(path: Path) -> dict[str, Array]:
    """MATLAB 7.3 files are HDF5 with the axes reversed."""
    import h5py  # type: ignore[import-untyped,unused-ignore]

    with h5py.File(path, "r") as file:
        return {name: np.squeeze(item[()].T) for name, item in file.items() if isinstance(item, h5py.Dataset)}


def _indexed(name: str, known: Iterable[str]) -> tuple[str | None, int | None]:
    """``rate[2]`` names the third column of ``rate``; counted from 0."""
    known = list(known)
    if name in known:
        return name, None
    stem, bracket, rest = name.partition("[")
    if bracket and rest.endswith("]") and rest[:-1].isdigit() and stem in known:
        return stem, int(rest[:-1])
    return None, None


def _pick(values: Array, index: int | None, path: Path, name: str) -> Array:
    if index is None:
        return np.atleast_1d(values)
    if values.ndim != 2 or not index < values.shape[1]:
        raise InputError(f"the variable has shape {values.shape}", file=path, place=f"column {name!r}")
    return np.ascontiguousarray(values[:, index])
