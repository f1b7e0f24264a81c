"""A scene with its motion as binary glTF 2.0, which Blender, browsers and other viewers open.

One node for each body, moved by one animation, with a mesh for each of its shapes; a root node turns spacearm's z
upwards into glTF's y upwards. A system that a change has altered is drawn by several sets of nodes, of which one is
scaled to nothing while the other is there: glTF has no visibility. Names are JSON strings, so nothing in them has a
meaning. Specification: Khronos, glTF 2.0, 2021.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spacearm import __version__, checks
from spacearm.model.files import write_atomically
from spacearm.scene import Scene
from spacearm.scene.scene import SceneBody, SceneSystem, SceneView
from spacearm.scene.solids import triangles
from spacearm.typing import Array

_FLOAT, _ARRAY_BUFFER = 5126, 34962
#: z upwards to y upwards: a quarter turn back about x; quaternion x y z w.
_UPRIGHT = [-(0.5**0.5), 0.0, 0.0, 0.5**0.5]
_JSON, _BINARY = 0x4E4F534A, 0x004E4942


@dataclass
class _File:
    """The parts of a file as they grow."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    meshes: list[dict[str, Any]] = field(default_factory=list)
    materials: dict[str, int] = field(default_factory=dict)
    accessors: list[dict[str, Any]] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    channels: list[dict[str, Any]] = field(default_factory=list)
    samplers: list[dict[str, Any]] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    def accessor(self, values: Array, *, vertices: bool = False) -> int:
        """The number of an accessor of these rows of float32."""
        # Little-endian single precision, whatever the machine's own order is: the only one that glTF knows.
        rows = np.ascontiguousarray(values, dtype="<f4")
        kind = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[1 if rows.ndim == 1 else rows.shape[1]]
        view = {"buffer": 0, "byteOffset": len(self.data), "byteLength": rows.nbytes}
        self.views.append(view | ({"target": _ARRAY_BUFFER} if vertices else {}))
        self.data += rows.tobytes()
        flat = rows[:, None] if rows.ndim == 1 else rows
        low, high = flat.min(axis=0).tolist(), flat.max(axis=0).tolist()
        entry = {"bufferView": len(self.views) - 1, "componentType": _FLOAT, "count": len(rows), "type": kind}
        self.accessors.append(entry | {"min": low, "max": high})
        return len(self.accessors) - 1

    def node(self, **content: Any) -> int:
        self.nodes.append(content)
        return len(self.nodes) - 1

    def move(self, node: int, path: str, times: int, values: Array, interpolation: str = "LINEAR") -> None:
        """Animate a node."""
        self.samplers.append({"input": times, "output": self.accessor(values), "interpolation": interpolation})
        self.channels.append({"sampler": len(self.samplers) - 1, "target": {"node": node, "path": path}})


def write_gltf(scene: Scene | SceneView, path: str | Path, *, view: int = 0) -> Path:
    """Write one view of a scene (:func:`spacearm.scene_of`) as ``.glb``, with its motion as an animation.

    ``view``: which of several, counted from 0.
    """
    checks.one_of(Path(path).suffix, (".glb",), "suffix", place="glTF")
    one = (
        scene
        if isinstance(scene, SceneView)
        else scene.views[checks.integer(view, "view", least=0, most=len(scene.views) - 1)]
    )
    made, first = _File(), one.span[0]
    tops = [top for actor in one.actors if not actor.ghost for top in _actor_nodes(made, one, actor, first)]
    root = made.node(name=one.title or "scene", rotation=_UPRIGHT, children=tops)
    document: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": f"spacearm {__version__}"},
        "scene": 0,
        "scenes": [{"name": one.name or one.title, "nodes": [root]}],
        "nodes": made.nodes,
        "meshes": made.meshes,
        "materials": [_material(colour) for colour in made.materials],
        "accessors": made.accessors,
        "bufferViews": made.views,
        "buffers": [{"byteLength": len(made.data)}],
    }
    if made.channels:
        document["animations"] = [{"name": one.title or "motion", "channels": made.channels, "samplers": made.samplers}]
    # glTF allows no empty lists.
    write_atomically(
        Path(path), _binary({key: value for key, value in document.items() if value != []}, bytes(made.data))
    )
    return Path(path)


def _actor_nodes(made: _File, view: SceneView, actor: SceneSystem, first: float) -> list[int]:
    """A node for each body of a system, with its motion."""
    found = []
    # A system that changes leaves two samples at one instant, and glTF wants times that increase.
    kept = np.append(np.diff(actor.times.astype("<f4")) > 0.0, True)
    times, poses = actor.times[kept] - first, actor.poses[kept]
    moves = times.size > 1
    at = made.accessor(times) if moves else -1
    last = max(float(each.times[-1]) for each in view.actors) - first
    for k, body in enumerate(actor.bodies):
        rotation = _continuous(poses[:, k, 3:])
        content: dict[str, Any] = {
            "name": body.name,
            "translation": poses[0, k, :3].tolist(),
            "rotation": rotation[0].tolist(),
        }
        children = _shape_nodes(made, view, body)
        node = made.node(**content, **({"children": children} if children else {}))
        found.append(node)
        if moves:
            made.move(node, "translation", at, poses[:, k, :3])
            made.move(node, "rotation", at, rotation)
    begin, end = float(times[0]), float(times[-1])
    if begin > 0.0 or end < last:
        there = [(0.0, 0.0)] * (begin > 0.0) + [(begin, 1.0)] + [(end, 0.0)] * (end < last)
        at = made.accessor(np.array([instant for instant, _ in there]))
        for node in found:
            made.move(node, "scale", at, np.array([[size] * 3 for _, size in there]), "STEP")
    return found


def _shape_nodes(made: _File, view: SceneView, body: SceneBody) -> list[int]:
    shapes = body.shapes or ((body.box,) if body.box is not None else ())
    found = []
    for shape in shapes:
        corners, normals = triangles(shape.visual, view.meshes[shape.mesh] if shape.mesh >= 0 else None)
        if not len(corners):
            continue
        flat, length = normals.reshape(-1, 3), np.linalg.norm(normals.reshape(-1, 3), axis=1, keepdims=True)
        attributes = {
            "POSITION": made.accessor(corners.reshape(-1, 3), vertices=True),
            # Triangles without area have no normal; any unit vector will do.
            "NORMAL": made.accessor(
                np.where(length > 0.5, flat / np.maximum(length, 0.5), [0.0, 0.0, 1.0]), vertices=True
            ),
        }
        material = made.materials.setdefault(shape.colour, len(made.materials))
        made.meshes.append({"primitives": [{"attributes": attributes, "material": material}]})
        found.append(made.node(mesh=len(made.meshes) - 1))
    return found


def _continuous(quaternions: Array) -> Array:
    """Unit quaternions (T, 4) whose sign does not jump: viewers interpolate between neighbours."""
    found = quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)
    flips = np.where(np.sum(found[1:] * found[:-1], axis=1) < 0.0, -1.0, 1.0)
    return np.asarray(found * np.concatenate([[1.0], np.cumprod(flips)])[:, None])


def _material(colour: str) -> dict[str, Any]:
    """A matt surface; glTF wants linear and no sRGB numbers."""
    parts = np.array([int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    look = {"baseColorFactor": [*linear.tolist(), 1.0], "metallicFactor": 0.1, "roughnessFactor": 0.7}
    return {"pbrMetallicRoughness": look, "doubleSided": True}


def _binary(document: dict[str, Any], data: bytes) -> bytes:
    """The container: a header, the JSON, the numbers, each filled to four bytes."""
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data += b"\0" * (-len(data) % 4)
    chunks = struct.pack("<II", len(text), _JSON) + text
    if data:
        chunks += struct.pack("<II", len(data), _BINARY) + data
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks
