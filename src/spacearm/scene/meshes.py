"""Triangle meshes of visuals: STL, OBJ and COLLADA (DAE) files, read within limits, as coarse as a page needs them.

Files come from anywhere: sizes are bounded before anything is parsed, and whatever is wrong in one becomes a
:class:`ModelError` with the reason. Meshes that are too fine are coarsened by vertex clustering on a regular grid
(J. Rossignac, P. Borrel, 1993): simple, linear in the size, and good enough for a view; it does not keep topology or
thin walls. Coordinates go into a page as 16-bit steps of the bounding box. Normals and materials are not read.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.errors import ModelError, format_path
from spacearm.model.safexml import read_file
from spacearm.scene._page import pack_numbers, unpack_numbers
from spacearm.scene.collada import read_collada
from spacearm.typing import Array

#: Largest file, bytes, and most triangles in it.
MOST_BYTES = 64 * 2**20
MOST_FACES = 1_000_000
#: Triangles of all meshes of a scene that go into its page, and the fewest that one of them keeps.
KEPT_FACES = 60_000
FEWEST_KEPT = 400


class SceneWarning(UserWarning):
    """Something cannot be drawn as it is."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles: vertices (V, 3) in m, faces (F, 3) of their numbers."""

    vertices: Array
    faces: npt.NDArray[np.int64]

    @property
    def low(self) -> Array:
        return np.asarray(self.vertices.min(axis=0))

    @property
    def high(self) -> Array:
        return np.asarray(self.vertices.max(axis=0))

    def data(self) -> dict[str, Any]:
        """The mesh as the page has it: vertices in steps of 1/65535 of the extent."""
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        steps = np.rint((self.vertices - self.low) / span * 65535)
        kind = "<u4" if len(self.vertices) > 65535 else "<u2"
        box = {"low": self.low.tolist(), "high": self.high.tolist()}
        return box | {"vertices": pack_numbers(steps, "<u2"), "faces": pack_numbers(self.faces, kind)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Mesh:
        low, high = np.array(data["low"]), np.array(data["high"])
        vertices = low + unpack_numbers(data["vertices"], -1, 3, kind="<u2") / 65535 * (high - low)
        kind = "<u4" if len(vertices) > 65535 else "<u2"
        return cls(vertices, unpack_numbers(data["faces"], -1, 3, kind=kind).astype(np.int64))

    def coarsen(self, most: int) -> Mesh:
        """The mesh with at most so many triangles: vertices within a cell of a grid become one."""
        # A surface meets of the order of cells^2 cells: begin finer than needed, since too coarse cannot be mended, and
        # go down from there. Always from the original, so errors do not add up.
        cells = 4.0 * np.sqrt(most)
        mesh = self
        while len(mesh.faces) > most:
            cell = float((self.high - self.low).max()) / cells
            _, number = np.unique(np.floor((self.vertices - self.low) / cell), axis=0, return_inverse=True)
            count = np.bincount(number.ravel())
            middle = [np.bincount(number.ravel(), self.vertices[:, k]) / count for k in range(3)]
            mesh = _merge_vertices(np.stack(middle, axis=1), number.ravel()[self.faces])
            cells *= 0.75
        return mesh


@dataclass
class Meshes:
    """The meshes of a scene, each file once."""

    files: list[str] = field(default_factory=list)
    found: list[Mesh] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # why

    def number(self, file: str) -> int:
        """Place of this file's mesh among those found; -1 where it cannot be drawn."""
        if file in self.files:
            return self.files.index(file)
        if file in self.missing:
            return -1
        try:
            mesh = read_mesh(file)
        except ModelError as error:
            self.missing[file] = f"{error.message}; {error.hint}" if error.hint else error.message
            return -1
        self.files.append(file)
        self.found.append(mesh)
        return len(self.files) - 1

    def warn_of_missing(self) -> None:
        """Warn of what cannot be drawn, once for each reason."""
        for why in dict.fromkeys(self.missing.values()):
            files = [format_path(file) for file, reason in self.missing.items() if reason == why]
            more = f" and {len(files) - 1} more meshes" if len(files) > 1 else ""
            warnings.warn(f"{files[0]}{more} cannot be drawn: {why}", SceneWarning, stacklevel=4)

    def reduce_all(self) -> tuple[Mesh, ...]:
        """The meshes, coarse enough for a page: large ones share what small ones leave."""
        self.warn_of_missing()
        sizes = sorted(len(mesh.faces) for mesh in self.found)
        left, most = float(KEPT_FACES), 0
        for k, size in enumerate(sizes):
            # From the smallest up: what a small mesh does not use of its equal share goes to the larger ones.
            most = max(FEWEST_KEPT, int(left / (len(sizes) - k)))
            left -= min(size, most)
        return tuple(mesh.coarsen(most) for mesh in self.found)


def read_mesh(file: str) -> Mesh:
    """The triangles of a mesh file; a :class:`ModelError` says why there are none."""
    path = Path(file)
    if path.suffix.lower() not in _READERS:
        raise ModelError(f"{path.suffix or 'a file without ending'!r} is not read", hint="expected .stl, .obj or .dae")
    if not os.path.isabs(file):
        raise ModelError("the file is not found", hint="meshes are looked for from the robot's file")
    try:
        age = path.stat().st_mtime_ns
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror}") from None
    return _read(path, age)


@lru_cache(maxsize=64)
def _read(path: Path, age: int) -> Mesh:
    data = read_file(path, MOST_BYTES, "make it coarser")
    try:
        mesh = _merge_vertices(*_READERS[path.suffix.lower()](data))
    except (ValueError, IndexError, OverflowError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"it is damaged: {error}") from None
    if not len(mesh.faces):
        raise ModelError("there are no triangles in it")
    return mesh


def _merge_vertices(vertices: Array, faces: npt.NDArray[np.int64]) -> Mesh:
    """Equal vertices as one, without those that nothing uses and without faces of no area."""
    if len(faces) > MOST_FACES:
        raise ModelError(f"there are {len(faces):,} triangles", hint=f"at most {MOST_FACES:,} are read")
    if len(faces) and (faces.min() < 0 or faces.max() >= len(vertices)):
        raise ModelError("it is damaged: a face refers to a vertex that does not exist")
    sound = np.asarray(np.isfinite(vertices).all(axis=1))
    faces = faces[np.asarray(sound[faces].all(axis=1))] if len(faces) else faces
    used, inverse = np.unique(faces, return_inverse=True)
    if not used.size:
        return Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64))
    # STL repeats every vertex in each triangle; in single precision equal corners are equal bits.
    single, number = np.unique(vertices[used].astype(np.float32), axis=0, return_inverse=True)
    faces = number.ravel()[inverse.reshape(-1, 3)]
    a, b, c = faces.T
    return Mesh(single.astype(np.float64), faces[(a != b) & (b != c) & (a != c)])


def _stl(data: bytes) -> tuple[Array, npt.NDArray[np.int64]]:
    # Binary or text: many binary files begin with "solid" too, so the length is tested first and the word "facet"
    # decides.
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) >= 84 + 50 * count and not (data[:5] == b"solid" and b"facet" in data[:1000]):
        if count > MOST_FACES:
            raise ModelError(f"there are {count:,} triangles", hint=f"at most {MOST_FACES:,} are read")
        rows = np.frombuffer(data, dtype=[("n", "<f4", 3), ("v", "<f4", (3, 3)), ("a", "<u2")], count=count, offset=84)
        corners = rows["v"].reshape(-1, 3).astype(np.float64)
    else:
        found = re.findall(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", data)
        corners = np.array(found, dtype=np.float64).reshape(-1, 3)
    return corners, np.arange(len(corners) // 3 * 3).reshape(-1, 3)


def _obj(data: bytes) -> tuple[Array, npt.NDArray[np.int64]]:
    vertices: list[list[bytes]] = []
    faces: list[tuple[int, int, int]] = []
    for line in data.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == b"v":
            vertices.append(words[1:4])
        elif words[0] == b"f":
            corners = [int(word.split(b"/")[0]) for word in words[1:]]
            # OBJ counts from 1, negative numbers from the last vertex so far.
            corners = [corner - 1 if corner > 0 else len(vertices) + corner for corner in corners]
            faces += [(corners[0], corners[k], corners[k + 1]) for k in range(1, len(corners) - 1)]
            if len(faces) > MOST_FACES:
                raise ModelError(f"there are more than {MOST_FACES:,} triangles", hint="make it coarser")
    return np.array(vertices, dtype=np.float64).reshape(-1, 3), np.array(faces, dtype=np.int64).reshape(-1, 3)


_READERS: dict[str, Callable[[bytes], tuple[Array, npt.NDArray[np.int64]]]] = {
    ".stl": _stl,
    ".obj": _obj,
    ".dae": read_collada,
}
