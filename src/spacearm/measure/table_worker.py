"""Tables read in a separate process: MATLAB, NetCDF, HDF5, Parquet, NumPy and PyTorch files, Blackbox logs.

The libraries of these formats may crash, loop or exhaust the memory when a file is damaged.
:mod:`spacearm.measure.formats` runs this module as a script, by its path and not by its name: importing the package
``spacearm.measure`` takes longer than reading a table.

A request names the ``file``, its ``kind`` and the ``names`` of its columns; the answer is ``error``, ``place`` and
``hint``, or ``names``, ``units`` where the file states them, and the columns as little-endian doubles. See
:mod:`spacearm.worker_process`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError, clip_text, did_you_mean
from spacearm.worker_process import WorkerReplies, serve

Values = npt.NDArray[np.float64]

#: A column or row of a variable with two axes: ``stem[3]``, ``stem[:,3]``, ``stem[3,:]``.
_PART = re.compile(r"(?P<stem>.*)\[(?:(?::, ?)?(?P<column>\d{1,8})|(?P<row>\d{1,8}), ?:)\]")

KINDS = {
    "matlab": "a MATLAB file",
    "netcdf": "NetCDF",
    "hdf5": "HDF5",
    "parquet": "Parquet",
    "numpy": "a NumPy archive",
    "torch": "a PyTorch tensor",
    "blackbox": "a Blackbox log",
}


class GuardedTable:
    """A table that is read: where to say what is read now, and how large a column may be."""

    def __init__(self, desk: WorkerReplies, most: int) -> None:
        self.desk = desk
        self.most = most  # bytes that one column may have
        self.units: dict[str, str] = {}  # that the file states, by variable

    def report_place(self, place: str) -> None:
        self.desk.report_place(place)

    def check_size(self, shape: Iterable[int], itemsize: int = 8) -> None:
        """Reject sizes declared by a damaged header before memory is allocated."""
        sizes = [int(size) for size in shape]
        if min(sizes, default=0) < 0 or math.prod(sizes) * max(itemsize, 8) > self.most:
            raise InputError(
                f"declares {' x '.join(map(str, sizes))} values, too many for a file of this size",
                hint="the file is damaged, or must be split",
            )


def read(table: GuardedTable, kind: str, file: str, names: list[str]) -> dict[str, Values]:
    """The named columns, one axis each."""
    table.report_place("header")
    readers = {"matlab": _matlab, "netcdf": _netcdf, "hdf5": _hdf5, "parquet": _parquet, "numpy": _numpy,
               "torch": _torch, "blackbox": _blackbox}  # fmt: skip
    columns = readers[kind](table, file, names)
    for name, values in columns.items():
        table.report_place(f"column {name!r}")
        if values.ndim != 1:
            raise InputError(f"has shape {values.shape}", hint="expected one axis")
    return columns


def _columns(table: GuardedTable, names: list[str], known: list[str], get: Callable[[str], Any]) -> dict[str, Values]:
    """Each name's values; ``rate[2]`` or ``rate[:,2]`` is the third column of ``rate``, counted from 0, ``rate[2,:]``
    its third row."""
    found = {}
    for name in names:
        table.report_place(f"column {name!r}")
        # Few digits only: int() of a long text takes quadratic time.
        part = _PART.fullmatch(name)
        variable = name if name in known or part is None else part["stem"]
        if variable not in known:
            raise InputError("there is no such column", hint=did_you_mean(name, known))
        if known.count(variable) > 1:
            raise InputError("occurs twice in the file", hint="expected different names")
        values = _numbers(get(variable))
        if variable != name:
            assert part is not None
            index, axis = int(part["column"] or part["row"]), int(part["column"] is not None)
            if values.ndim != 2 or not index < values.shape[axis]:
                other = f"; '{variable}[{index},:]' is a row" if values.ndim == 2 and axis else ""
                raise InputError(f"the variable has shape {values.shape}", hint=f"expected so many columns{other}")
            values = values[:, index] if axis else values[index]
        elif values.ndim == 2:
            hint = f"'{name}[0]' is its first column, '{name}[0,:]' its first row"
            raise InputError(f"has shape {values.shape}", hint=hint)
        found[name] = np.atleast_1d(values)
        if variable != name and variable in table.units:
            table.units[name] = table.units[variable]
    return found


def _numbers(values: Any) -> Values:
    """Real numbers only: text that looks like a number, dates and complex numbers are slips."""
    array = np.asarray(values)
    if array.dtype.names is not None:
        fields = ", ".join(_printable(name) for name in array.dtype.names[:12])
        raise InputError("is a struct", hint=f"name a field of it, variable.field, one of {fields}")
    if array.dtype.kind not in "biuf":
        what = {"U": "text", "S": "text", "O": "cells or objects", "c": "complex numbers", "M": "dates"}
        raise InputError(f"holds {what.get(array.dtype.kind, 'no numbers')}", hint="expected real numbers")
    return np.asarray(array, dtype=np.float64)


def _matlab(table: GuardedTable, file: str, names: list[str]) -> dict[str, Values]:
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import matfile_version

    # The header decides, not the ending.
    if matfile_version(file)[0] == 2:  # since MATLAB 7.3 HDF5, with the axes reversed
        return _hdf5(table, file, names, matlab=True)
    declared = [(name, shape) for name, shape, _ in whosmat(file)]
    shapes = dict(declared)

    def get(variable: str) -> Any:
        stem, *fields = variable.split(".") if variable not in shapes else [variable]
        table.check_size(shapes[stem])
        value = loadmat(file, variable_names=[stem], squeeze_me=True)[stem]
        for k, part in enumerate(fields):
            field, _, item = part.removesuffix("]").partition("[")
            inside, count = np.asarray(value).dtype.names or (), np.size(value)
            if count > 1:
                first = ".".join([stem, *fields[:k]]) + f"[0].{field}"
                raise InputError(f"{count} structs in an array", hint=f"expected their number: {first!r} for the first")
            if field not in inside:
                raise InputError(f"has no field {field!r}", hint=did_you_mean(field, map(_printable, inside)))
            value = np.asarray(value)[field].item()
            if item:  # one of the structs of an array: the signals of a Simulink log
                if not item.isdecimal() or int(item[:8]) >= np.size(value):
                    raise InputError(f"{field!r} has {np.size(value)} entries", hint=f"expected {field}[0] and so on")
                value = np.atleast_1d(value)[int(item)]
        return value

    known = [name for name, _ in declared]
    # A field of a struct: `log.angle`; only those that were asked for, a struct may have thousands.
    stems = dict.fromkeys(re.sub(r"\[[^\[\]]*\]$", "", name) for name in names)
    known += [stem for stem in stems if stem not in shapes and stem.partition(".")[0] in shapes and "." in stem]
    return _columns(table, names, known, get)


def _hdf5(table: GuardedTable, file: str, names: list[str], matlab: bool = False) -> dict[str, Values]:
    import h5py  # type: ignore[import-untyped,unused-ignore]

    with h5py.File(file, "r") as content:
        # netCDF4 marks dimensions without values, and renames variables that are called like a dimension
        stored = {key.removeprefix("_nc4_non_coord_"): key for key in content if not _only_dimension(content, key)}
        # Only paths that were asked for: a file may hold thousands of groups.
        nested = {path for name in names for path in (name, name.partition("[")[0]) if "/" in path}
        stored |= {path: path for path in nested if _in_groups(content, path)}
        if matlab:  # structs are groups
            fields = {stem: stem.replace(".", "/") for stem in (name.partition("[")[0] for name in names)}
            stored |= {stem: path for stem, path in fields.items() if "/" in path and _in_groups(content, path)}

        def get(variable: str) -> Any:
            key = stored[variable]
            # Checked before the item is opened: opening would follow the link.
            if isinstance(content.get(key, getlink=True), h5py.ExternalLink):
                raise InputError("is stored in another file", hint="expected a file that holds its own values")
            item = content[key]
            if not isinstance(item, h5py.Dataset) or item.shape is None:
                raise InputError("holds no values", hint="expected an array of numbers")
            if item.external is not None or item.is_virtual:
                raise InputError("is stored in another file", hint="expected a file that holds its own values")
            table.check_size(item.shape, item.dtype.itemsize)
            if matlab:
                if item.attrs.get("MATLAB_class") == b"char":
                    raise InputError("holds text", hint="expected real numbers")
                return np.squeeze(item[()].T)
            _note_unit(table, variable, item.attrs.get("units", item.attrs.get("unit")))
            return _unpack_values(item[()], item.attrs)

        return _columns(table, names, list(stored), get)


def _in_groups(content: Any, path: str) -> bool:
    """Whether the file itself holds this path, ``group/name``: no link leads to another file on the way."""
    import h5py

    place = content
    for name in path.split("/"):
        if not isinstance(place, h5py.Group) or not isinstance(place.get(name, getlink=True), h5py.HardLink):
            return False
        place = place[name]
    return True


def _only_dimension(content: Any, key: str) -> bool:
    import h5py

    # Links are not followed: a file must not make another file be read.
    item = content[key] if isinstance(content.get(key, getlink=True), h5py.HardLink) else None
    title = item.attrs.get("NAME", b"") if isinstance(item, h5py.Dataset) else b""
    return isinstance(title, bytes) and title.startswith(b"This is a netCDF dimension but not a netCDF variable")


def _note_unit(table: GuardedTable, variable: str, stated: Any) -> None:
    """Keep the unit that a file states; of a calendar ("seconds since 2000-01-01") that of its count."""
    text = stated.decode("utf-8", "replace") if isinstance(stated, bytes) else stated
    if isinstance(text, str) and text.strip():
        table.units[variable] = _printable(text.partition(" since ")[0].strip())


def _unpack_values(stored: Any, attributes: Any) -> Values:
    """Missing values as NaN, then scale and offset: the CF conventions for packed data."""
    raw = _numbers(stored)
    # Fill values are compared before scaling, as the convention defines them.
    values = raw.copy()
    for key in ("_FillValue", "missing_value"):
        if key in attributes:
            for missing in np.atleast_1d(_numbers(attributes[key])).ravel():
                values[raw == missing] = np.nan
    for key, apply in (("scale_factor", np.multiply), ("add_offset", np.add)):
        if key in attributes:
            factor = _numbers(attributes[key])
            if factor.size != 1:
                raise InputError(f"its {key} has {factor.size} values", hint="expected one")
            apply(values, factor.ravel()[0], out=values)
    return values


def _netcdf(table: GuardedTable, file: str, names: list[str]) -> dict[str, Values]:
    """NetCDF 4 is HDF5; the classic format has a library of its own."""
    with open(file, "rb") as content:
        if content.read(3) != b"CDF":
            return _hdf5(table, file, names)
    from scipy.io import netcdf_file

    # read, not mapped: a file that shrinks meanwhile would end the process
    with netcdf_file(file, "r", mmap=False, maskandscale=False) as classic:

        def get(variable: str) -> Any:
            item = classic.variables[variable]
            _note_unit(table, variable, getattr(item, "units", None))
            return _unpack_values(np.array(item.data), item._attributes)

        return _columns(table, names, list(classic.variables), get)


def _numpy(table: GuardedTable, file: str, names: list[str]) -> dict[str, Values]:
    import zipfile

    from numpy.lib import format as header

    with zipfile.ZipFile(file) as content:
        stored = [entry.removesuffix(".npy") for entry in content.namelist() if entry.endswith(".npy")]

        def get(variable: str) -> Any:
            with content.open(f"{variable}.npy") as entry:
                # The header alone first: shape and type are judged before any data are unpacked.
                version = header.read_magic(entry)
                read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
                shape, _, kind = read(entry)
                if kind.hasobject:
                    raise InputError("holds cells or objects", hint="expected real numbers")
                table.check_size(shape, kind.itemsize)
            with content.open(f"{variable}.npy") as entry:
                return np.squeeze(header.read_array(entry, allow_pickle=False))

        return _columns(table, names, stored, get)


def _torch(table: GuardedTable, file: str, names: list[str]) -> dict[str, Values]:
    """One tensor, as ``torch.save`` writes it: a zip of a pickled description and the plain numbers.

    Nothing is unpickled, which would run what the file says: its instructions are only read.
    """
    import zipfile

    with zipfile.ZipFile(file) as content:
        found = [entry for entry in content.namelist() if entry.endswith("/data.pkl")]
        if len(found) != 1:
            raise InputError("has no description of a tensor", hint="expected a file of torch.save, 1.6 or later")
        folder = found[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in content.namelist() and _entry(table, content, f"{folder}byteorder") != b"little":
            raise InputError("is not little-endian", hint="save it on another machine")
        kind, stored, first, shape, strides = _tensor_description(_entry(table, content, found[0]))
        table.check_size(shape)
        numbers = np.frombuffer(_entry(table, content, f"{folder}data/{stored}"), dtype=kind)
    # Rows one after the other, and no two of the same numbers.
    dense = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    if len(shape) != 2 or list(strides) != dense or first + math.prod(shape) > numbers.size or first < 0:
        raise InputError(
            f"its tensor has shape {tuple(shape)} and strides {tuple(strides)}",
            hint="expected rows and columns, contiguous",
        )
    # The tensor has no name: its columns are [0], [1], ...
    return _columns(table, names, [""], lambda _: numbers[first : first + math.prod(shape)].reshape(shape))


def _entry(table: GuardedTable, content: Any, name: str) -> bytes:
    """An entry of a zip archive, whatever size its header declares."""
    with content.open(name) as entry:
        data = entry.read(table.most + 1)
    if len(data) > table.most:
        raise InputError(f"has more than {table.most >> 20} MB in {_printable(name)!r}", hint="it must be split")
    return bytes(data)


def _tensor_description(pickled: bytes) -> tuple[str, str, int, list[int], list[int]]:
    """Type, storage, first number, shape and strides of the one tensor that a pickle describes."""
    import pickletools

    kinds = {"torch DoubleStorage": "<f8", "torch FloatStorage": "<f4"}
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    mark = object()

    def pop_to_mark() -> tuple[Any, ...]:
        place = max(k for k, each in enumerate(stack) if each is mark)
        items = tuple(stack[place + 1 :])
        del stack[place:]
        return items

    for operation, argument, _ in pickletools.genops(pickled):
        match operation.name:
            case "PROTO" | "STOP":
                pass
            case "GLOBAL" | "BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                stack.append(argument)
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "MARK":
                stack.append(mark)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(operation.name == "NEWTRUE")
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE":
                stack.append(pop_to_mark())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(operation.name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "BINPERSID":
                stack[-1] = ("storage", stack[-1])
            case "REDUCE":
                arguments = stack.pop()
                stack[-1] = (stack[-1], arguments)
            case _:
                # Dictionaries, lists, objects of any class.
                raise InputError("holds more than one tensor", hint="save the tensor alone")
    try:
        [(what, (stored, first, shape, strides, *_))] = stack
        _, (_, kind, name, *_) = stored
    except (TypeError, ValueError):
        what, kind = "", ""
    if what != "torch._utils _rebuild_tensor_v2" or kind not in kinds:
        raise InputError("is not a tensor of float64 or float32", hint="save it as tensor.double()")
    return kinds[kind], str(name), int(first), [int(size) for size in shape], [int(size) for size in strides]


def _parquet(table: GuardedTable, file: str, names: list[str]) -> dict[str, Values]:
    import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from pyarrow import parquet, types

    with parquet.ParquetFile(file) as content:
        table.check_size([content.metadata.num_rows])
        schema = content.schema_arrow

        def get(variable: str) -> Any:
            kind = schema.field(variable).type
            _note_unit(table, variable, (schema.field(variable).metadata or {}).get(b"units"))
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)):
                raise InputError(f"holds {clip_text(kind)}", hint="expected numbers")
            # One column at a time: the rest of a wide table is never decoded.
            column = content.read([variable], use_threads=False)[variable]
            return column.cast(pyarrow.float64()).to_numpy()

        return _columns(table, names, list(schema.names), get)


def _blackbox(table: GuardedTable, file: str, names: list[str]) -> dict[str, Values]:
    """Fields as the flight controller logs them: ``time`` in microseconds, all else in its own raw units."""
    import logging

    try:
        from orangebox.parser import Parser
        from orangebox.reader import Reader
    except ImportError:
        raise InputError("the orangebox package is not installed", hint="pip install 'spacearm[blackbox]'") from None
    logging.disable()  # unknown events are reported for each frame
    with open(file, "rb") as content:
        if content.read(10) != b"H Product:":
            raise InputError("has no header of a Blackbox log", hint="expected one of Betaflight, INAV or Indiflight")
    reader = Reader(file)
    if reader.log_count != 1:
        hint = "orangebox's command bbsplit makes a file of each"
        raise InputError(f"holds {reader.log_count} logs", hint=hint)
    parser = Parser(Reader(file, 1))
    known = [str(name) for name in parser.field_names]
    wanted = {name: known.index(name) for name in names if name in known}
    rows: dict[str, list[float]] = {name: [] for name in wanted}
    try:
        for frame in parser.frames():
            for name, place in wanted.items():
                value = frame.data[place] if place < len(frame.data) else None
                # Fields of slow frames are empty text until the first of them came.
                rows[name].append(float(value) if isinstance(value, int | float) else math.nan)
    # A log ends where the battery was taken out: the library then runs past its last byte.
    except (TypeError, IndexError):
        if not all(rows.values()):
            raise
    shortest = min(map(len, rows.values()), default=0)
    if rows and not shortest:
        raise InputError("has no frame", hint="the log is empty or damaged")
    table.units["time"] = "us"
    return _columns(table, names, known, lambda variable: np.array(rows[variable][:shortest]))


def _printable(text: object) -> str:
    return clip_text("".join(c if c.isprintable() else "?" for c in str(text)), 200)


def answer(desk: WorkerReplies, request: dict[str, Any], _: list[bytes]) -> None:
    """Read one table and send it, or the reason why not. Any exception of a library means a damaged file."""
    table, kind = GuardedTable(desk, int(request["memory"])), str(request["kind"])
    try:
        columns = read(table, kind, str(request["file"]), [str(name) for name in request["names"]])
        content = [np.ascontiguousarray(values, dtype="<f8").tobytes() for values in columns.values()]
    except InputError as error:
        desk.send(error=error.message, place=error.place or desk.place, hint=error.hint)
    except MemoryError:
        desk.send(
            error=f"cannot be read as {KINDS[kind]}: it asks for more than {table.most >> 20} MB",
            place=desk.place,
            hint="the file is damaged, or must be split",
        )
    except Exception as error:
        why = _printable(error) or type(error).__name__
        desk.send(error=f"cannot be read as {KINDS[kind]}: {why}", place=desk.place, hint="the file is damaged")
    else:
        desk.send(content, names=list(columns), units={n: table.units[n] for n in columns if n in table.units})


if __name__ == "__main__":
    serve(answer)
