"""Geoms of MJCF as visuals and collision shapes, and back. A mesh is only named here; nothing opens it."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from spacearm.errors import ModelError, quote_text
from spacearm.model._mjcf_compile import CompiledModel
from spacearm.model.notices import Losses
from spacearm.model.parts import COLLISIONS, Body, CollisionShape, Pose, Shape, Visual
from spacearm.model.robot import free_name
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_quaternion
from spacearm.model.safexml import format_numbers
from spacearm.model.visuals import MOST, colour_shares, colour_text
from spacearm.typing import Array

#: MuJoCo's numbers for shapes; planes, height fields and signed distance fields are not drawn.
_SHAPES: dict[int, Shape] = {2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
_PLANE = 0
#: MuJoCo's viewer shows these groups; what is only there to collide is usually in a later one.
_VISIBLE_GROUPS = 2
#: MuJoCo's colour of a geom that has none.
_GREY = (0.5, 0.5, 0.5, 1.0)
#: Files that MuJoCo opens.
_MESHES = (".stl", ".obj", ".msh")


def visuals_of(
    model: CompiledModel, body: int, shift: Pose, files: Mapping[str, str], losses: Losses
) -> tuple[Visual, ...]:
    """The visuals of a MuJoCo body, whose frame lies at ``shift`` in spacearm's; ``files`` are those of the meshes."""
    if model.geom_type is None or not model.ngeom:
        return ()
    own = [g for g in np.flatnonzero(model.geom_bodyid == body).tolist() if int(model.geom_type[g]) in _SHAPES]
    # what is out of sight is drawn where nothing else is; but collision shapes are read as such
    hidden = [g for g in own if not (_collides(model, g) and _SHAPES[int(model.geom_type[g])] in COLLISIONS)]
    seen = [g for g in own if model.geom_group[g] <= _VISIBLE_GROUPS] or hidden
    seen = [g for g in seen if not _collides(model, g)] or seen
    place, found = f"body {quote_text(model.name('body', body))}", []
    if len(seen) > MOST:
        losses.add(place, f"of its geoms the first {MOST} are drawn")
    for g in seen[:MOST]:
        try:
            found.append(_visual(model, g, files).transform(shift))
        except ModelError as error:
            losses.add(place, f"a geom is not drawn: {error.message}")
    return tuple(found)


def _collides(model: CompiledModel, g: int) -> bool:
    return bool(model.geom_contype[g] or model.geom_conaffinity[g])


def collisions_of(model: CompiledModel, body: int, shift: Pose, losses: Losses) -> tuple[CollisionShape, ...]:
    """The shapes by which a MuJoCo body can touch others; those that are not simple are reported."""
    if model.geom_type is None or not model.ngeom:
        return ()
    place, found = f"body {quote_text(model.name('body', body))}", []
    for g in np.flatnonzero(model.geom_bodyid == body).tolist()[:MOST]:
        if not _collides(model, g):
            continue
        kind = "plane" if model.geom_type[g] == _PLANE else _SHAPES.get(int(model.geom_type[g]), "")
        if kind not in COLLISIONS:
            losses.add(place, "a geom that can touch others is left out: contacts are between simple shapes")
            continue
        pose = Pose(rotation_from_quaternion(model.geom_quat[g]), model.geom_pos[g])
        try:
            found.append(CollisionShape(kind, _size(kind, np.array(model.geom_size[g])), pose).transform(shift))
        except ModelError as error:
            losses.add(place, f"a geom that can touch others is left out: {error.message}")
    return tuple(found)


def _size(kind: str, size: Array) -> Array:
    """In spacearm's lengths."""
    sizes = {"sphere": size[:1], "ellipsoid": size, "box": 2.0 * size, "plane": size[:0]}
    return sizes.get(kind, np.array([size[0], 2.0 * size[1]]))


def _visual(model: CompiledModel, g: int, files: Mapping[str, str]) -> Visual:
    shape, size = _SHAPES[int(model.geom_type[g])], np.array(model.geom_size[g])
    pose = Pose(rotation_from_quaternion(model.geom_quat[g]), model.geom_pos[g])
    rgba = model.geom_rgba[g]
    material = int(model.geom_matid[g])
    if material >= 0 and np.allclose(rgba, _GREY):
        rgba = model.mat_rgba[material]
    colour = "" if np.allclose(rgba, _GREY) else colour_text([float(share) for share in rgba])
    if shape == "mesh":
        mesh = int(model.geom_dataid[g])
        # MuJoCo turns a mesh into its principal axes, and the geom along with it
        own = Pose(rotation_from_quaternion(model.mesh_quat[mesh]), model.mesh_pos[mesh])
        file = _file(model.name("mesh", mesh), files)
        scale = np.ones(3) if model.mesh_scale is None else np.array(model.mesh_scale[mesh])
        return Visual("mesh", scale, pose @ own.inverse(), colour, file)
    return Visual(shape, _size(shape, size), pose, colour)


def _file(name: str, files: Mapping[str, str]) -> str:
    """The file of a mesh; one of an attached model has a prefix before its name."""
    known = [key for key in files if key and name.endswith(key)]
    if not known:
        raise ModelError("its mesh has no file")
    return files[max(known, key=len)]


# -- writing ---------------------------------------------------------------------------------------------------------


class Geoms:
    """Writes visuals as geoms that nothing collides with, and collision shapes; none of them has mass."""

    def __init__(self, root: ET.Element, losses: Losses) -> None:
        self.root, self.losses = root, losses
        self.meshes: dict[tuple[str, str], str] = {}
        self.names: set[str] = set()

    def write(self, element: ET.Element, body: Body) -> None:
        """The geoms of a body."""
        place = f"body {quote_text(body.name)}"
        for visual in body.visuals:
            if visual.shape == "mesh" and not _opens(visual.mesh):
                self.losses.add(place, "a mesh that MuJoCo would not find or does not read (STL, OBJ) is left out")
            elif not np.all(visual.size):
                self.losses.add(place, "a visual of no size is left out")
            else:
                self._geom(element, visual)
        for shape in body.collisions:
            if shape.shape in _SHAPES.values():
                self._geom(element, shape)
            else:
                self.losses.add(
                    place,
                    f"a collision shape ({shape.shape}), which MuJoCo does not have on a body that moves, is left out",
                )

    def _geom(self, element: ET.Element, shape: Visual | CollisionShape) -> None:
        touch, group = ("0", _VISIBLE_GROUPS) if isinstance(shape, Visual) else ("1", _VISIBLE_GROUPS + 1)
        keys = {"type": shape.shape, "contype": touch, "conaffinity": touch, "group": str(group)}
        pose, size = shape.placement, shape.size
        if isinstance(shape, Visual) and shape.shape == "mesh":
            keys["mesh"] = self._mesh(shape)
        else:
            halved = {"box": (0.5, 0.5, 0.5), "cylinder": (1.0, 0.5), "capsule": (1.0, 0.5)}
            keys["size"] = format_numbers(size * halved.get(shape.shape, 1.0))
        keys |= {
            "pos": format_numbers(pose.translation),
            "quat": format_numbers(quaternion_from_rotation(pose.rotation)),
        }
        if isinstance(shape, Visual) and shape.colour:
            keys["rgba"] = format_numbers(colour_shares(shape.colour))
        ET.SubElement(element, "geom", keys)

    def _mesh(self, visual: Visual) -> str:
        scale = format_numbers(visual.size)
        name = self.meshes.get((visual.mesh, scale))
        if name is None:
            name = self.meshes[visual.mesh, scale] = free_name(Path(visual.mesh).stem or "mesh", self.names)
            assets = self.root.find("asset")
            if assets is None:
                assets = ET.Element("asset")
                self.root.insert(2, assets)
            ET.SubElement(assets, "mesh", name=name, file=visual.mesh, scale=scale)
        return name


def _opens(file: str) -> bool:
    return Path(file).suffix.lower() in _MESHES and os.path.isabs(file) and os.path.isfile(file)
