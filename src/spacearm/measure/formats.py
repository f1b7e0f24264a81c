"""Columns of numbers from CSV, Parquet, NetCDF, HDF5, MATLAB, NumPy and PyTorch files and Blackbox logs, by name,
unchanged."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path

import numpy as np

from spacearm.errors import InputError, quote_text
from spacearm.measure._text_table import parse_number, read_text_table, text_lines
from spacearm.typing import Array
from spacearm.worker_process import WorkerCrash, WorkerProcess, WorkerTimeout

Columns = dict[str, Array]
#: Column to the unit that the file states for it.
Units = dict[str, str]

TEXT = (".csv", ".txt", ".tsv", ".dat", ".log", ".asc")
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
#: Entries of folders that a pattern of file names may look at.
MOST_ENTRIES = 100_000
SERVICE = WorkerProcess(Path(__file__).with_name("table_worker.py"))
#: What makes a table of a file that is none.
ELSEWHERE = {
    ".bag": "export its topics as CSV: rostopic echo -p",
    ".db3": "export its topics as CSV (joint states: tools/bag_to_csv.py)",
    ".mcap": "export its topics as CSV",
    ".ulg": "ulog2csv of pyulog makes CSV files of it",
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".json": "save it as CSV",
    ".npy": "numpy.savez('log.npz', log=array) makes columns log[0], log[1] ...",
    ".tdms": "export it as CSV",
    ".c3d": "export the markers as CSV",
}


def match_files(folder: Path, pattern: str) -> list[Path]:
    """The files that match a pattern like ``*/run[0-9].csv`` in a folder, in no order.

    As by :meth:`pathlib.Path.glob`, but in a bounded number of folder entries.
    """
    if not pattern or Path(pattern).is_absolute():
        raise InputError(f"{quote_text(pattern)} is not a pattern", hint="expected one relative to the folder")
    if any("**" in part and part != "**" for part in Path(pattern).parts):
        raise InputError(f"{quote_text(pattern)} is not a pattern", hint="expected '**' as the whole name of a folder")
    found: dict[Path, None] = {}
    todo, looked = [(folder, Path(pattern).parts)], 0
    while todo:
        at, parts = todo.pop()
        if not parts:
            found[at] = None
            continue
        first, rest = parts[0], parts[1:]
        if not has_magic(first):
            if (at / first).exists():
                todo.append((at / first, rest))
            continue
        if first == "**":
            todo.append((at, rest))
        with suppress(NotADirectoryError, FileNotFoundError, PermissionError), os.scandir(at) as entries:
            for entry in entries:
                looked += 1
                if looked > MOST_ENTRIES:
                    raise InputError(
                        f"{quote_text(pattern)} would look at more than {MOST_ENTRIES} files",
                        hint="expected a pattern of fewer folders",
                    )
                if first == "**" and entry.is_dir(follow_symlinks=False):
                    todo.append((at / entry.name, parts))
                elif first != "**" and fnmatchcase(entry.name, first):
                    todo.append((at / entry.name, rest))
    return [*found]


def read_columns(path: Path, names: Iterable[str]) -> tuple[Columns, Units]:
    """The named columns of a file, 1-D float64 each, and the units that it states; its ending decides the format.

    Errors name no file.
    """
    ending = path.suffix.lower()
    if ending not in TEXT and ending not in GUARDED:
        known = "expected " + ", ".join((*TEXT, *GUARDED))
        raise InputError(f"a file ending in {ending!r} is not a table", place="name", hint=ELSEWHERE.get(ending, known))
    _check_file(path)
    wanted = list(dict.fromkeys(names))
    try:
        if ending in TEXT:
            return read_text_table(path, wanted)
        return _read_safely(path, GUARDED[ending], wanted)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", place="name") from None


def _check_file(path: Path) -> None:
    if not os.path.isfile(path):  # false for a name that no file can have, too
        what = "is not a file" if os.path.exists(path) else "there is no such file"
        raise InputError(what, place="measured columns", hint="a scenario names their file relative to its own folder")


def read_numbers(path: Path) -> Array:
    """All numbers (N,) of a text file that has nothing else, line by line; errors name no file."""
    if path.suffix.lower() not in TEXT:
        hint = "expected one of " + ", ".join(TEXT) + ", or the names of columns"
        raise InputError(f"a file ending in {path.suffix!r} is not a list of numbers", place="name", hint=hint)
    _check_file(path)
    values = array("d")
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            for number, line in text_lines(file):
                cells = line.replace(",", " ").replace(";", " ").split()
                values.extend(parse_number(cell, number, "all") for cell in cells)
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
