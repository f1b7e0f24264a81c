"""Shapes of URDF links, read and written; what is wrong with a shape is reported, and the robot is read anyway."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from spacearm.errors import ModelError, quote_text
from spacearm.model.notices import Losses
from spacearm.model.parts import Body, CollisionShape, Pose, Visual
from spacearm.model.rotations import rotation_from_rpy, rpy_from_rotation
from spacearm.model.safexml import format_number, format_numbers, number, numbers
from spacearm.model.visuals import MOST, colour_shares, colour_text, mesh_file

T = TypeVar("T")
_SIZES = {
    "box": ("size",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius", "length"),
    "sphere": ("radius",),
}


class UrdfShapes:
    """The visuals of a file's links; ``folder`` is where its meshes are looked for."""

    def __init__(self, root: ET.Element, folder: Path | None, losses: Losses) -> None:
        self.folder, self.losses = folder, losses
        self.colours: dict[str, str] = {}
        for material in (*root.findall("material"), *root.findall("link/visual/material")):
            name, colour = material.get("name", ""), material.find("color")
            if name and colour is not None and name not in self.colours:
                self.colours[name] = _colour(colour)

    def read_shapes(self, link: ET.Element, place: str) -> tuple[tuple[Visual, ...], tuple[CollisionShape, ...]]:
        """The visuals and the collision shapes of a link."""
        return (
            tuple(self._each(link, "visual", place, self._visual)),
            tuple(_join_capsules(self._each(link, "collision", place, self._collision))),
        )

    def _each(self, link: ET.Element, tag: str, place: str, read: Callable[[ET.Element], T]) -> list[T]:
        found, elements = [], link.findall(tag)
        if len(elements) > MOST:
            self.losses.add(place, f"of its {tag}s the first {MOST} are read")
        for element in elements[:MOST]:
            try:
                found.append(read(element))
            except ModelError as error:
                self.losses.add(place, f"a {tag} is left out: {error.message}")
        return found

    def _collision(self, element: ET.Element) -> CollisionShape:
        found = self._visual(element)
        if found.shape == "mesh":
            raise ModelError("it is a mesh, and contacts are between simple shapes")
        return CollisionShape(found.shape, found.size, found.placement)

    def _visual(self, element: ET.Element) -> Visual:
        geometry = element.find("geometry")
        shape = None if geometry is None else next((each for each in geometry if each.tag in (*_SIZES, "mesh")), None)
        if shape is None:
            raise ModelError("its shape is not supported")
        origin = element.find("origin")
        pose = Pose()
        if origin is not None:
            rpy = numbers(origin.get("rpy", "0 0 0"), 3, "origin.rpy")
            pose = Pose(rotation_from_rpy(rpy), np.array(numbers(origin.get("xyz", "0 0 0"), 3, "origin.xyz")))
        colour = self._material(element.find("material"))
        if shape.tag == "mesh":
            scale = numbers(shape.get("scale", "1 1 1"), 3, "mesh.scale")
            file = shape.get("filename", "").strip()
            if not file:
                raise ModelError("its mesh names no file")
            return Visual("mesh", np.array(scale), pose, colour, mesh_file(file, self.folder))
        keys = _SIZES[shape.tag]
        if shape.tag == "box":
            size = numbers(shape.get("size", ""), 3, "box.size")
        else:
            size = [number(shape.get(key, ""), f"{shape.tag}.{key}") for key in keys]
        return Visual(shape.tag, np.array(size), pose, colour)  # type: ignore[arg-type]

    def _material(self, material: ET.Element | None) -> str:
        if material is None:
            return ""
        own = material.find("color")
        return _colour(own) if own is not None else self.colours.get(material.get("name", ""), "")


def _join_capsules(found: list[CollisionShape]) -> Iterator[CollisionShape]:
    """With capsules in place of cylinders that two balls of their radius follow, as they are written."""
    k = 0
    while k < len(found):
        first, ends = found[k], found[k + 1 : k + 3]
        # URDF has no capsules: they are written as a cylinder and two balls.
        capsule = CollisionShape("capsule", first.size, first.placement) if first.shape == "cylinder" else first
        parts = list(_parts(capsule))[1:]
        whole = len(ends) == len(parts) and all(
            end.shape == "sphere"
            and np.allclose(end.size, size, rtol=1e-12, atol=0.0)
            and np.allclose(end.placement.translation, pose.translation, rtol=0.0, atol=1e-12 * first.size.max())
            for end, (_, size, pose) in zip(ends, parts, strict=False)
        )
        whole = whole and first.shape == "cylinder"
        yield capsule if whole else first
        k += 3 if whole else 1


def _colour(element: ET.Element) -> str:
    """``#rrggbb`` or ``#rrggbbaa``; empty where the numbers are none."""
    try:
        return colour_text(numbers(element.get("rgba", ""), 4, "rgba"))
    except ModelError:
        return ""


# -- writing ---------------------------------------------------------------------------------------------------------


def write_shapes(link: ET.Element, body: Body, losses: Losses) -> None:
    """The body's visuals and collision shapes as elements of its link."""
    for tag, shapes in (("visual", body.visuals), ("collision", body.collisions)):
        for shape in shapes:
            if shape.shape not in (*_SIZES, "mesh"):
                what = f"an {shape.shape}" if shape.shape == "ellipsoid" else f"a collision shape ({shape.shape})"
                losses.add(f"body {quote_text(body.name)}", f"{what}, which URDF does not know, is left out")
                continue
            for kind, size, pose in _parts(shape):
                element = ET.SubElement(link, tag)
                rpy = rpy_from_rotation(pose.rotation)
                ET.SubElement(element, "origin", xyz=format_numbers(pose.translation), rpy=format_numbers(rpy))
                _write_geometry(ET.SubElement(element, "geometry"), kind, size, shape)
                if isinstance(shape, Visual) and shape.colour:
                    material = ET.SubElement(element, "material", name=shape.colour)
                    ET.SubElement(material, "color", rgba=format_numbers(colour_shares(shape.colour)))


def _write_geometry(geometry: ET.Element, kind: str, size: list[float], shape: Visual | CollisionShape) -> None:
    if isinstance(shape, Visual) and kind == "mesh":
        ET.SubElement(geometry, "mesh", filename=shape.mesh, scale=format_numbers(size))
    elif kind == "box":
        ET.SubElement(geometry, "box", size=format_numbers(size))
    else:
        sizes = zip(_SIZES[kind], size, strict=True)
        ET.SubElement(geometry, kind, {key: format_number(value) for key, value in sizes})


def _parts(visual: Visual | CollisionShape) -> Iterator[tuple[str, list[float], Pose]]:
    """A capsule, which few readers of URDF know, is a cylinder and two spheres; all others are themselves."""
    size = visual.size.tolist()
    if visual.shape != "capsule":
        yield visual.shape, size, visual.placement
        return
    yield "cylinder", size, visual.placement
    for end in (-0.5, 0.5):
        yield "sphere", size[:1], visual.placement @ Pose(translation=np.array([0.0, 0.0, end * size[1]]))
