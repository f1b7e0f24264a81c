"""What all formats share about visuals: colours, and where meshes lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from spacearm.model.parts import Visual
from spacearm.model.robot import Robot

#: Visuals of one body that are read.
MOST = 1000


def colour_text(rgba: list[float]) -> str:
    """Four shares as ``#rrggbb``, with two digits more where it is not opaque."""
    red, green, blue, alpha = (round(255 * min(max(share, 0.0), 1.0)) for share in rgba)
    return f"#{red:02x}{green:02x}{blue:02x}" + (f"{alpha:02x}" if alpha < 255 else "")


def colour_shares(colour: str) -> list[float]:
    """``#rrggbb`` or ``#rrggbbaa`` as four shares."""
    digits = colour[1:].ljust(8, "f")
    return [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4, 6)]


def mesh_file(reference: str, folder: Path | None) -> str:
    """Path of a mesh: absolute if it is found, else the reference as it is.

    ``package://NAME/PATH`` is looked for in the file's folder and in those that hold it.
    """
    scheme, separator, rest = reference.partition("://")
    rest = unquote(rest) if separator else reference
    if folder is None or "\0" in reference or (separator and scheme not in ("file", "package", "model")):
        return reference
    try:
        folder = folder.absolute()
        if scheme in ("package", "model") and separator:
            below = rest.partition("/")[2]
            places = [place / path for place in (folder, *folder.parents) for path in (rest, below) if path]
        else:
            places = [folder / rest]
        found = next((place for place in places if place.is_file()), None)
    except OSError:  # a name that no file can have
        found = None
    return reference if found is None else os.path.normpath(found)


def with_meshes(robot: Robot, change: Callable[[str], str]) -> Robot:
    """The robot with other paths of its meshes; itself where it has none."""
    if not any(visual.mesh for body in robot.bodies for visual in body.visuals):
        return robot

    def change_mesh(visual: Visual) -> Visual:
        return replace(visual, mesh=change(visual.mesh)) if visual.mesh else visual

    return robot.replace(
        bodies=tuple(replace(body, visuals=tuple(map(change_mesh, body.visuals))) for body in robot.bodies)
    )
