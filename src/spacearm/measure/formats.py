"""Columns of numbers from CSV, Parquet, NetCDF, HDF5, MATLAB, NumPy and PyTorch files and Blackbox logs, by name,
unchanged."""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.typing import Array
from spacearm.worker_process import WorkerCrash, WorkerProcess, WorkerTimeout

Columns = dict[str, Array]
#: Column to the unit that the file states for it.
Units = dict[str, str]

TEXT = (".csv", ".txt", ".tsv")
#: Formats whose C libraries a damaged file can crash: they are read in a separate process, with limits.
GUARDED = {
    ".parquet": "parquet",
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".mat": "matlab",
    ".npz": "numpy",
    ".pt": "torch",
    ".bfl": "blackbox",
    ".bbl": "blackbox",
}
#: Time for one such file: so many seconds, and one more for so many bytes of it.
SECONDS, BYTES_PER_SECOND = 15.0, 20e6
#: Of logs that a library in Python reads.
SLOW = {"blackbox": 2e5}
#: Memory for one: so many bytes, and so many times its size.
BYTES, TIMES_SIZE = 1 << 30, 20
SERVICE = WorkerProcess(Path(__file__).with_name("table_worker.py"))
#: Longest line of a text file, characters.
LINE = 1 << 20
#: A column of a file that has no names, counted from 0.
_NUMBERED = re.compile(r"\[\d{1,6}\]")


def read_columns(path: Path, names: Iterable[str]) -> tuple[Columns, Units]:
    """The named columns of a file, 1-D float64 each, and the units that it states; its ending decides the format.

    Errors name no file.
    """
    ending = path.suffix.lower()
    if ending not in TEXT and ending not in GUARDED:
        known = ", ".join((*TEXT, *GUARDED))
        raise InputError(f"a file ending in {ending!r} is not a table", place="name", hint=known)
    if not path.is_file():
        raise InputError("is not a file" if path.exists() else "there is no such file", place="name")
    wanted = list(dict.fromkeys(names))
    try:
        if ending in TEXT:
            return _csv(path, wanted), {}
        return _read_safely(path, GUARDED[ending], wanted)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", place="name") from None


def read_numbers(path: Path) -> Array:
    """All numbers (N,) of a text file that has nothing else, line by line; errors name no file."""
    if path.suffix.lower() not in TEXT:
        hint = "expected one of " + ", ".join(TEXT) + ", or the names of columns"
        raise InputError(f"a file ending in {path.suffix!r} is no list of numbers", place="name", hint=hint)
    if not path.is_file():
        raise InputError("is not a file" if path.exists() else "there is no such file", place="name")
    values = array("d")
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            for number, line in _lines(file):
                values.extend(_number(cell, number, "all") for cell in line.replace(",", " ").replace(";", " ").split())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", place="name") from None
    return np.frombuffer(values, dtype=np.float64).copy() if values else np.zeros(0)


def _read_safely(path: Path, kind: str, names: list[str]) -> tuple[Columns, Units]:
    """The named columns of a file of this ``kind`` and their units, whatever it does to its library.

    One process (:mod:`spacearm.measure.table_worker`) serves a whole session: see :mod:`spacearm.worker_process`.
    """
    size = path.stat().st_size
    request = {"file": str(path.absolute()), "kind": kind, "names": names}
    # Limits grow with the file: a damaged header cannot ask for more than its size justifies.
    seconds, memory = SECONDS + size / SLOW.get(kind, BYTES_PER_SECOND), int(BYTES + TIMES_SIZE * size)
    try:
        answer, columns = SERVICE.ask(request, seconds=seconds, memory=memory)
    except OSError as error:
        why = f"no process could be started for it: {error.strerror}"
        raise InputError(f"cannot be read: {why}", place="header") from None
    except WorkerTimeout as fault:
        raise InputError(
            "takes too long to read", place=fault.place, hint="the file is damaged, or must be split"
        ) from None
    except WorkerCrash as fault:
        raise InputError(
            f"cannot be read: the library that reads it crashed ({fault})",
            place=fault.place or "header",
            hint="the file is damaged",
        ) from None
    if "error" in answer:
        raise InputError(answer["error"], place=answer["place"], hint=answer["hint"])
    found = zip(answer["names"], columns, strict=True)
    units = {str(name): str(unit) for name, unit in answer["units"].items()}
    return {str(name): np.frombuffer(column, dtype="<f8").astype(np.float64) for name, column in found}, units


def _csv(path: Path, names: list[str]) -> Columns:
    values = array("d")
    with path.open(encoding="utf-8-sig", newline=None) as file:
        lines = _lines(file)
        number, line = next(lines, (1, ""))
        if not line:
            raise InputError("has no header", place="line 1", hint="expected a line with the column names")
        # The most frequent candidate in the header; decimal commas do not occur in names.
        separator: str | None = max("\t;,", key=line.count)
        header = [word.strip() for word in _cells(line, separator, number)]
        numbered = bool(names) and all(_NUMBERED.fullmatch(name) and name not in header for name in names)
        if numbered and _is_numbers(line):
            # Without a header: the first line has numbers already, and spaces may separate them.
            separator = separator if separator and separator in line else None
            header = [f"[{k}]" for k in range(len(_cells(line, separator, number)))]
            lines = itertools.chain([(number, line)], lines)
        for name in names:
            if name not in header:
                hint = did_you_mean(name, header)
                if _is_numbers(line):
                    hint = "the file has no header: expected '[0]' for its first column, '[1]' for its second"
                raise InputError("there is no such column", place=f"column {name!r}", hint=hint)
            if header.count(name) > 1:
                raise InputError("occurs twice in the header", place=f"column {name!r}")
        places = {name: header.index(name) for name in names}
        for number, line in lines:
            cells = _cells(line, separator, number)
            if len(cells) != len(header):
                raise InputError(f"has {len(cells)} cells", place=f"line {number}", hint=f"expected {len(header)}")
            for name, place in places.items():
                values.append(_number(cells[place].strip(), number, name))
    table = np.frombuffer(values, dtype=np.float64).reshape(-1, len(names)) if values else np.empty((0, len(names)))
    return {name: table[:, c].copy() for c, name in enumerate(names)}


def _lines(file: TextIO) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without comments and empty ones; none longer than what one can hold in memory."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(LINE)
        except UnicodeDecodeError:
            raise InputError("is not UTF-8 text", place=f"line {number} or after", hint="save it as UTF-8") from None
        if not line:
            return
        if len(line) >= LINE:
            message, hint = f"is longer than {LINE} characters", "expected a table of numbers"
            raise InputError(message, place=f"line {number}", hint=hint)
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip("\n")


def _is_numbers(line: str) -> bool:
    """Whether a line has numbers only."""
    try:
        return bool([float(cell) for cell in re.split(r"[\s,;]+", line.strip()) if cell])
    except ValueError:
        return False


def _cells(line: str, separator: str | None, number: int) -> list[str]:
    """The cells of a line; without a separator, spaces separate them."""
    if separator is None:
        return line.split()
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error as error:
        raise InputError(f"cannot be read as CSV: {error}", place=f"line {number}") from None


def _number(cell: str, line: int, name: str) -> float:
    """A plain number; an empty cell is a missing one. Python's own 1_000 and digits of other scripts are slips."""
    try:
        if cell.isascii() and "_" not in cell:
            return float(cell) if cell else np.nan
    except ValueError:
        pass
    raise InputError(f"{quote_text(cell)} is not a number", place=f"line {line}, column {name!r}")
