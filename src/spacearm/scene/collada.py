"""The triangles of a COLLADA file: geometries where the scene's nodes put them, without materials.

Lengths are in the file's unit. Its ``up_axis`` is not followed, as most readers of URDF do not follow it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from spacearm.errors import ModelError
from spacearm.model.rotations import rotation_about
from spacearm.model.safexml import Bounds, parse
from spacearm.typing import Array

_BOUNDS = Bounds(file_bytes=64 * 2**20, elements=500_000)
#: How often geometries may be placed: nodes can multiply them without end.
MOST_PLACES = 2000
_FACES = ("triangles", "polylist", "polygons")


def read_collada(data: bytes) -> tuple[Array, npt.NDArray[np.int64]]:
    """Vertices (V, 3) in m and faces (F, 3)."""
    root = parse(data, None, bounds=_BOUNDS)
    # Namespaces go: they differ between the versions of the format, and the names of elements do not.
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    unit = root.find("asset/unit")
    scale = float(unit.get("meter", "1")) if unit is not None else 1.0
    named = {str(element.get("id")): element for element in root.iter() if element.get("id")}
    placed = list(_geometry_instances(root, named))
    if not placed:  # no scene: the geometries as they are
        placed = [(geometry, np.eye(4)) for geometry in root.iter("geometry")]
    vertices, faces, count = [np.zeros((0, 3))], [np.zeros((0, 3), dtype=np.int64)], 0
    for geometry, pose in placed[:MOST_PLACES]:
        for points, corners in _meshes(geometry, named):
            vertices.append((points @ pose[:3, :3].T + pose[:3, 3]) * scale)
            faces.append(corners + count)
            count += len(points)
    return np.concatenate(vertices), np.concatenate(faces)


def _geometry_instances(root: Element, named: dict[str, Element]) -> Iterator[tuple[Element, Array]]:
    """Geometries with the pose of the node that shows them."""
    scene = root.find("scene/instance_visual_scene")
    start = (
        named.get(scene.get("url", "")[1:]) if scene is not None else root.find("library_visual_scenes/visual_scene")
    )
    waiting = [(node, np.eye(4), 0) for node in ([] if start is None else start.findall("node"))]
    steps = 0
    while waiting and steps < MOST_PLACES:
        node, outer, depth = waiting.pop()
        steps += 1
        pose = outer @ _pose(node)
        for instance in node.findall("instance_geometry"):
            geometry = named.get(instance.get("url", "")[1:])
            if geometry is not None:
                yield geometry, pose
        others = [named.get(each.get("url", "")[1:]) for each in node.findall("instance_node")]
        # Nodes may instance each other in a circle.
        if depth < 30:
            waiting += [(each, pose, depth + 1) for each in (*node.findall("node"), *others) if each is not None]


def _pose(node: Element) -> Array:
    pose = np.eye(4)
    for element in node:
        if element.tag not in ("matrix", "translate", "rotate", "scale"):
            continue
        numbers, step = _numbers(element), np.eye(4)
        if element.tag == "matrix":
            step = numbers.reshape(4, 4)
        elif element.tag == "translate":
            step[:3, 3] = numbers
        elif element.tag == "scale":
            step[:3, :3] = np.diag(numbers)
        elif np.any(numbers[:3]):
            axis = numbers[:3] / np.linalg.norm(numbers[:3])
            step[:3, :3] = rotation_about(axis, math.radians(float(numbers[3])))
        # In the file's order, each in the axes that those before it have made.
        pose = pose @ step
    return pose


def _numbers(element: Element | None) -> Array:
    if element is None:
        raise ModelError("it is damaged: a table of numbers is missing")
    return np.array((element.text or "").split(), dtype=np.float64)


def _meshes(geometry: Element, named: dict[str, Element]) -> Iterator[tuple[Array, npt.NDArray[np.int64]]]:
    for group in (element for tag in _FACES for element in geometry.iter(tag)):
        inputs = group.findall("input")
        vertex = next((each for each in inputs if each.get("semantic") == "VERTEX"), None)
        holder = None if vertex is None else named.get(vertex.get("source", "")[1:])
        at = None if holder is None else next((e for e in holder if e.get("semantic") == "POSITION"), None)
        source = None if at is None else named.get(at.get("source", "")[1:])
        if vertex is None or source is None:
            continue
        points = _numbers(source.find("float_array"))
        accessor = source.find("technique_common/accessor")
        stride = int(accessor.get("stride", "3")) if accessor is not None else 3
        # A stride above three means more numbers for each vertex. Numbers at the end that fill no vertex are damage.
        points = points[: len(points) // stride * stride].reshape(-1, stride)[:, :3]
        width = 1 + max(int(each.get("offset", "0")) for each in inputs)
        rows = [_numbers(p).astype(np.int64) for p in group.findall("p")]
        rows = [row[: len(row) // width * width].reshape(-1, width)[:, int(vertex.get("offset", "0"))] for row in rows]
        yield points, _fans(group, rows)


def _fans(group: Element, rows: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Triangles of polygons with few corners."""
    if group.tag == "triangles":
        whole = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        return whole[: len(whole) // 3 * 3].reshape(-1, 3)
    if group.tag == "polylist":
        counts = _numbers(group.find("vcount")).astype(np.int64)
        rows = np.split(rows[0], np.cumsum(counts)[:-1]) if rows and counts.size else []
    found = [(row[0], row[k], row[k + 1]) for row in rows for k in range(1, len(row) - 1)]
    return np.array(found, dtype=np.int64).reshape(-1, 3)
