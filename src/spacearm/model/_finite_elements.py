"""Matrices of finite elements and where their degrees of freedom are, from the files that structural engineers have.

Three forms are read:

- ``.npz``: arrays ``mass``, ``stiffness`` and, if wanted, ``damping`` (N, N); ``nodes`` (K, 4): number, x, y, z (m);
  ``dof`` (N, 2): number of the node, component 1 to 6 (x, y, z, rotations about them);
- a folder with the same as ``mass.csv``, ``stiffness.csv``, ``damping.csv``, ``nodes.csv``, ``dof.csv``;
- a Nastran punch or bulk data file (``.pch``, ``.bdf``, ``.dat``, ``.nas``) with ``GRID`` cards and the matrices as
  ``DMIG`` cards: MAAX or MGG, KAAX or KGG, and BAAX or BGG (``PARAM,EXTOUT,DMIGPCH`` writes the first of each). In
  small, large or free field format; nodes in the basic coordinate system.

All in SI units. Nothing is unpickled, and sizes are looked at before memory is taken.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as header

from spacearm.checks import array
from spacearm.errors import ModelError, did_you_mean, error_context, quote_text, similar_files
from spacearm.typing import Array

#: Degrees of freedom of an appendage at most: its dense matrices are solved for all their modes.
MOST_FREEDOM = 3000
#: Bytes of a file at most.
LARGEST_FILE = 2**28
#: Number of a node at most.
LARGEST_NUMBER = 10**9
ARRAYS = ("mass", "stiffness", "damping", "nodes", "dof")
NASTRAN = (".pch", ".bdf", ".dat", ".nas")
#: Names of Nastran's matrices, by what they are.
_MATRICES = {"mass": ("MAAX", "MGG"), "stiffness": ("KAAX", "KGG"), "damping": ("BAAX", "BGG")}
_COMMENT = re.compile(r"\$.*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
#: Nastran leaves the letter of an exponent out: 1.0-3.
_BARE_EXPONENT = re.compile(r"(?<=[0-9.])([+-])(?=[0-9])")


@dataclass(frozen=True, eq=False)
class FiniteElements:
    """A free structure by its matrices.

    Args:
        mass, stiffness: (N, N), symmetric, SI units.
        nodes: number of a node to its position (3), m.
        dof: (N, 2): of each degree of freedom, the number of its node and the component, 1 to 6.
        damping: (N, N), or none.
    """

    mass: Array
    stiffness: Array
    nodes: dict[int, Array]
    dof: npt.NDArray[Any]
    damping: Array | None = None

    def __post_init__(self) -> None:
        dof = np.asarray(self.dof)
        if dof.ndim != 2 or dof.shape[1:] != (2,) or not len(dof) or not np.all(dof == np.round(dof)):
            raise ModelError(f"dof has the shape {dof.shape}", hint="expected node and component of each (N, 2)")
        if np.abs(dof).max() > LARGEST_NUMBER:
            raise ModelError(f"a number in dof is {np.abs(dof).max():g}", hint=f"expected {LARGEST_NUMBER:g} at most")
        object.__setattr__(self, "dof", dof.astype(np.int64))
        places = {each: array(own, f"node {each}", (3,), error=ModelError) for each, own in self.nodes.items()}
        object.__setattr__(self, "nodes", places)
        for name in ("mass", "stiffness", "damping"):
            matrix = getattr(self, name)
            if matrix is not None:
                object.__setattr__(self, name, array(matrix, name, (len(dof), len(dof)), error=ModelError))
        if np.any((self.dof[:, 1] < 1) | (self.dof[:, 1] > 6)):
            raise ModelError("a component of dof is not 1 to 6", hint="scalar points have no place; leave them out")
        missing = sorted(set(self.dof[:, 0].tolist()) - self.nodes.keys())
        if missing:
            raise ModelError(f"node {missing[0]} has no position", hint="expected every node of dof")
        if len({(node, component) for node, component in self.dof.tolist()}) < len(dof):
            raise ModelError("dof lists a degree of freedom twice")

    @property
    def rigid(self) -> Array:
        """Displacements (N, 6) for unit motions of the origin: along x, y, z and about them."""
        found = np.zeros((len(self.dof), 6))
        for row, (node, component) in enumerate(self.dof.tolist()):
            axis = (component - 1) % 3
            if component > 3:
                found[row, 3 + axis] = 1.0
            else:
                found[row, axis] = 1.0
                # Velocity of the node for a unit rotation about each axis: e_k x position.
                found[row, 3:] = np.cross(np.eye(3), self.nodes[node])[:, axis]
        return found

    def find(self, interface: npt.ArrayLike) -> list[int]:
        """Rows of all degrees of freedom of these nodes."""
        wanted = [int(node) for node in np.asarray(interface).ravel()]
        for node in wanted:
            if node not in self.nodes:
                hint = did_you_mean(str(node), [str(each) for each in self.nodes])
                raise ModelError(f"there is no node {node}", place="interface", hint=hint)
        return [row for row, (node, _) in enumerate(self.dof.tolist()) if node in wanted]


def read_finite_elements(path: str | Path) -> FiniteElements:
    """The matrices in a file or a folder; see the module for the forms."""
    path = Path(path)
    with error_context(file=path):
        # Unlike Path's own, false for a name that no file can have.
        if os.path.isdir(path):
            return _from_arrays({name: _read_csv(path / f"{name}.csv") for name in _names_in(path)})
        # A pipe or a device would be waited for without end.
        if not os.path.isfile(path):
            if os.path.exists(path):
                raise ModelError("is not a plain file")
            raise ModelError("there is no such file", hint=similar_files(path))
        if path.stat().st_size > LARGEST_FILE:
            raise ModelError(f"is larger than {LARGEST_FILE // 2**20} MB", hint="reduce the structure first")
        if path.suffix.lower() == ".npz":
            return _from_arrays(_read_npz(path))
        if path.suffix.lower() in NASTRAN:
            return _read_nastran(path)
        hint = f"expected .npz, {', '.join(NASTRAN)}, or a folder of CSV files"
        raise ModelError(f"is of an unknown kind {path.suffix!r}", hint=hint)


def _names_in(folder: Path) -> list[str]:
    needed = ["mass", "stiffness", "nodes", "dof"]
    for name in needed:
        if not (folder / f"{name}.csv").is_file():
            raise ModelError(f"has no {name}.csv", hint=f"expected {', '.join(f'{each}.csv' for each in needed)}")
    return [*needed, "damping"] if (folder / "damping.csv").is_file() else needed


def _read_csv(path: Path) -> Array:
    with error_context(file=path):
        if path.stat().st_size > LARGEST_FILE:
            raise ModelError(f"is larger than {LARGEST_FILE // 2**20} MB")
        if not path.stat().st_size:
            raise ModelError("is empty")
        try:
            return np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64, comments="#", encoding="utf-8")
        except (ValueError, OSError) as error:
            raise ModelError(f"is not a table of numbers: {error}", hint="expected numbers with commas") from None


def _read_npz(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
            return {name: _read_array(archive, entries[name], name) for name in ARRAYS if name in entries}
    except ModelError:
        raise
    # Any exception of the libraries, of which there are many kinds, means a damaged file.
    except Exception as error:
        raise ModelError(f"is not an archive of arrays: {error}", hint="expected what numpy.savez writes") from None


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> Array:
    """An array whose declared size is that of its entry: a damaged header cannot ask for memory."""
    with archive.open(entry) as content:
        version = header.read_magic(content)
        read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
        shape, _, kind = read(content)
        if kind.kind not in "biuf":
            raise ModelError(f"holds {kind}", place=name, hint="expected real numbers")
        if entry.file_size > LARGEST_FILE or math.prod(shape) * kind.itemsize > entry.file_size:
            raise ModelError(
                f"declares {' x '.join(map(str, shape))} values in {entry.file_size} bytes", place=name,
                hint=f"expected at most {LARGEST_FILE // 2**20} MB; otherwise the file is damaged",
            )  # fmt: skip
    with archive.open(entry) as content:
        return np.asarray(header.read_array(content, allow_pickle=False), dtype=np.float64)


def _from_arrays(data: dict[str, Array]) -> FiniteElements:
    for name in ("mass", "stiffness", "nodes", "dof"):
        if name not in data:
            raise ModelError(f"has no {name!r}", hint=f"it has {sorted(data)}")
    nodes = array(data["nodes"], "nodes", ("nodes", 4), error=ModelError)
    numbers = nodes[:, 0]
    if not np.all(numbers == np.round(numbers)) or len(np.unique(numbers)) < len(numbers):
        raise ModelError("the numbers of the nodes are not different integers", place="nodes")
    places = {int(row[0]): row[1:] for row in nodes}
    dof = array(data["dof"], "dof", ("dof", 2), error=ModelError)
    _check_size(len(dof))
    return FiniteElements(data["mass"], data["stiffness"], places, dof, data.get("damping"))


def _check_size(count: int) -> None:
    if count > MOST_FREEDOM:
        hint = f"expected at most {MOST_FREEDOM}; reduce it in the program that made it (DMIG of a superelement)"
        raise ModelError(f"has {count} degrees of freedom", hint=hint)


# -- Nastran ----------------------------------------------------------------------------------------------------------


def _read_nastran(path: Path) -> FiniteElements:
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"is not Nastran text: {error}", hint="expected a punch file in ASCII") from None
    nodes: dict[int, Array] = {}
    headers: dict[str, int] = {}
    entries: dict[str, list[tuple[tuple[int, int], tuple[int, int], float]]] = {}
    for line, fields in _cards(text):
        with error_context(f"line {line}"):
            if fields[0] == "GRID":
                for index, what in ((2, "CP"), (6, "CD")):
                    if _field(fields, index) not in ("", "0"):
                        raise ModelError(f"node has a coordinate system ({what})", hint="expected the basic one")
                nodes[_integer(_field(fields, 1))] = np.array([_number(_field(fields, 3 + k)) for k in range(3)])
            elif fields[0] == "DMIG":
                _read_dmig(fields, headers, entries)
    found = {what: next((name for name in names if name in entries), "") for what, names in _MATRICES.items()}
    for what in ("mass", "stiffness"):
        if not found[what]:
            expected = " or ".join(_MATRICES[what])
            raise ModelError(f"has no {what} matrix", hint=f"expected DMIG {expected}; it has {sorted(entries)}")
    # Sorted, so that the same structure has the same order however its cards are ordered.
    dof = sorted(
        {end for name in found.values() if name for first, second, _ in entries[name] for end in (first, second)}
    )
    _check_size(len(dof))
    at = {end: row for row, end in enumerate(dof)}
    matrices: dict[str, Array] = {}
    for what, name in found.items():
        if not name:
            continue
        matrix = np.zeros((len(dof), len(dof)))
        for first, second, value in entries[name]:
            matrix[at[first], at[second]] = value
            # Form 6: symmetric, of which a file has one triangle only.
            if headers[name] == 6:
                matrix[at[second], at[first]] = value
        matrices[what] = matrix
    rows = np.array(dof, dtype=np.int64).reshape(-1, 2)
    return FiniteElements(matrices["mass"], matrices["stiffness"], nodes, rows, matrices.get("damping"))


def _read_dmig(
    fields: list[str],
    headers: dict[str, int],
    entries: dict[str, list[tuple[tuple[int, int], tuple[int, int], float]]],
) -> None:
    """The header of a matrix (form and type of its numbers), or one of its columns."""
    name = _field(fields, 1).upper()
    if name not in {each for names in _MATRICES.values() for each in names}:
        return
    if _field(fields, 2) == "0" and name not in headers:
        form, kind = _integer(_field(fields, 3)), _integer(_field(fields, 4))
        if form not in (1, 6) or kind not in (1, 2):
            raise ModelError(
                f"{name} has the form {form} and the type {kind}", hint="expected square (1, 6) and real (1, 2)"
            )
        headers[name], entries[name] = form, []
        return
    if name not in headers:
        raise ModelError(f"a column of {name} comes before its header")
    column = _integer(_field(fields, 2)), _integer(_field(fields, 3))
    # Fields 4 and 8, 12 ...: of each line of eight the first is empty, of its continuation the last.
    for k in range(5, len(fields), 4):
        if _field(fields, k):
            row = _integer(_field(fields, k)), _integer(_field(fields, k + 1))
            entries[name].append((row, column, _number(_field(fields, k + 2))))


def _cards(text: str) -> Iterator[tuple[int, list[str]]]:
    """Cards as their fields, eight to a line after the name, with the line on which each begins."""
    card: list[str] = []
    begin = 0
    for number, text_line in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", text_line).rstrip()
        if not line.strip():
            continue
        more, fields = _split_line(line)
        if more and card:
            card += fields
            continue
        if card:
            yield begin, card
        card, begin = fields, number
        card[0] = card[0].rstrip("*").upper()
    if card:
        yield begin, card


def _split_line(line: str) -> tuple[bool, list[str]]:
    """Whether a line continues the one before, and its fields: with the card's name in front, if it does not."""
    if "," in line:
        fields = [each.strip() for each in line.split(",")]
        more = fields[0] in ("", "+", "*") or fields[0][0] in "+*"
        # Trailing fields may be left out: eight to a line all the same.
        return more, [*fields, *[""] * 9][1:9] if more else [*fields, *[""] * 9][:9]
    line = line.expandtabs(8)
    head = line[:8].strip()
    more = not head or head[0] in "+*"
    wide = "*" in line[:8]
    width, count = (16, 4) if wide else (8, 8)
    fields = [line[8 + width * k : 8 + width * (k + 1)].strip() for k in range(count)]
    return more, fields if more else [head, *fields]


def _field(fields: list[str], index: int) -> str:
    return fields[index] if index < len(fields) else ""


def _integer(text: str) -> int:
    # Few digits only, and none of Python's own 1_000.
    if not _INTEGER.fullmatch(text):
        raise ModelError(f"{quote_text(text)} is not an integer", hint="expected at most nine digits")
    return int(text)


def _number(text: str) -> float:
    try:
        if "_" not in text:
            return float(_BARE_EXPONENT.sub(r"e\1", text.upper().replace("D", "E")) if text else 0.0)
    except ValueError:
        pass
    raise ModelError(f"{quote_text(text)} is not a number")
