"""A scene as values: what is drawn, where it is at which time, what happened; and how it is shown or kept."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.model import Robot, Visual
from spacearm.model.files import write_atomically
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.scene import page
from spacearm.scene.meshes import Mesh
from spacearm.typing import Array


def packed(values: npt.ArrayLike, kind: str = "<f4") -> str:
    """Numbers as little-endian bytes in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


@dataclass(frozen=True)
class Drawn:
    """A shape of a body in its colour."""

    visual: Visual
    colour: str
    mesh: int = -1  # number among the meshes of the view

    def data(self) -> dict[str, Any]:
        visual = self.visual
        pose = visual.placement
        w, x, y, z = quaternion_from_rotation(pose.rotation)
        at = [round(float(number), 7) for number in (*pose.translation, x, y, z, w)]
        found: dict[str, Any] = {"kind": visual.shape, "size": visual.size.tolist(), "at": at, "colour": self.colour}
        return found | ({"mesh": self.mesh} if self.mesh >= 0 else {})


@dataclass(frozen=True, eq=False)
class Push:
    """A force or moment on a point of a body, world axes, or a thruster's level (one number a time)."""

    name: str
    body: int
    kind: str  # force, moment, thruster
    at: Array
    values: Array
    direction: Array = field(default_factory=lambda: np.zeros(3))

    def data(self, peak: float) -> dict[str, Any]:
        common = {"name": self.name, "body": self.body, "values": packed(self.values)}
        if self.kind == "thruster":
            return common | {"position": self.at.tolist(), "direction": self.direction.tolist()}
        return common | {"kind": self.kind, "at": self.at.tolist(), "peak": peak}


@dataclass(frozen=True, eq=False)
class Actor:
    """A system for as long as its robot stays the same."""

    system: int
    robot: Robot
    times: Array  # (T,) s
    poses: Array  # (T, bodies, 7): position, quaternion x y z w
    shapes: tuple[tuple[Drawn, ...], ...]  # of each body
    boxes: tuple[Visual | None, ...]  # of the same inertia
    owners: tuple[int, ...]  # the system that each body is coloured by
    pushes: tuple[Push, ...]
    hands: tuple[str, ...]  # frames whose paths are drawn

    def data(self, peaks: Mapping[str, float]) -> dict[str, Any]:
        robot = self.robot
        bodies = []
        for body, shapes, box, owner in zip(robot.bodies, self.shapes, self.boxes, self.owners, strict=True):
            own: dict[str, Any] = {"name": body.name, "mass": body.inertia.mass, "com": body.inertia.com.tolist()}
            own |= {"system": owner, "shapes": [shape.data() for shape in shapes]}
            bodies.append(own | ({} if box is None else {"box": Drawn(box, "#000000").data()}))
        frames = [
            {"name": frame.name, "body": robot.body_index(frame.body), "at": _pose(frame.placement)}
            for frame in robot.frames
        ]
        return {
            "system": self.system,
            "times": packed(self.times),
            "poses": packed(self.poses),
            "bodies": bodies,
            "joints": [
                {"name": joint.name, "body": i + 1, "axis": joint.axis.tolist()} for i, joint in enumerate(robot.joints)
            ],
            "frames": frames,
            "loads": [push.data(peaks[push.kind]) for push in self.pushes if push.kind != "thruster"],
            "thrusters": [push.data(1.0) for push in self.pushes if push.kind == "thruster"],
            "paths": [
                {"body": robot.body_index(at.body), "at": at.placement.translation.tolist()}
                for at in map(robot.frame, self.hands)
            ],
        }


def _pose(pose: Any) -> list[float]:
    w, x, y, z = quaternion_from_rotation(pose.rotation)
    return [round(float(number), 7) for number in (*pose.translation, x, y, z, w)]


@dataclass(frozen=True)
class Mark:
    """Something that happened, for the time line; ``kind`` is phase, change or event."""

    time: float
    text: str
    kind: str = "event"


@dataclass(frozen=True, eq=False)
class View:
    """One run or one robot."""

    name: str
    title: str
    systems: tuple[tuple[str, str], ...]  # name and colour
    actors: tuple[Actor, ...]
    marks: tuple[Mark, ...] = ()
    meshes: tuple[Mesh, ...] = ()

    @property
    def span(self) -> tuple[float, float]:
        """First and last time, s."""
        return min(float(a.times[0]) for a in self.actors), max(float(a.times[-1]) for a in self.actors)

    def data(self) -> dict[str, Any]:
        peaks: dict[str, float] = {}
        for push in (push for actor in self.actors for push in actor.pushes):
            largest = float(np.linalg.norm(push.values, axis=-1).max(initial=0.0)) if push.values.size else 0.0
            peaks[push.kind] = max(peaks.get(push.kind, 0.0), largest)
        peaks = {kind: peak or 1.0 for kind, peak in peaks.items()}
        return {
            "name": self.name,
            "title": self.title,
            "systems": [{"name": name, "colour": colour} for name, colour in self.systems],
            "actors": [actor.data(peaks) for actor in self.actors],
            "marks": [{"time": mark.time, "text": mark.text, "kind": mark.kind} for mark in self.marks],
            "meshes": [
                {
                    "low": mesh.low.tolist(),
                    "high": mesh.high.tolist(),
                    "vertices": packed(mesh.quantised, "<u2"),
                    "faces": packed(mesh.faces, "<u4" if len(mesh.vertices) > 65535 else "<u2"),
                }
                for mesh in self.meshes
            ],
        }


@dataclass(frozen=True, eq=False)
class Scene:
    """Robots in space and time: made by :func:`scene_of`, shown by itself in a notebook, kept by :meth:`save`."""

    views: tuple[View, ...]

    @property
    def title(self) -> str:
        return self.views[0].title

    def data(self) -> dict[str, Any]:
        """What the viewer draws, as plain values for JSON."""
        return {"scenes": [view.data() for view in self.views]}

    def element(self, height: str = "480px") -> str:
        """The scene as an element of a page that has the viewer's :func:`script` once."""
        return page.element(self.data(), height)

    def html(self, title: str = "") -> str:
        """A page of its own, which needs nothing else and no network."""
        return page.whole(self.data(), title or self.title)

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write it: ``.html`` a page."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending not in (".html", ".htm"):
            raise InputError(
                f"a scene is not kept as {ending or 'a file without ending'!r}", file=path, hint="expected .html"
            )
        write_atomically(path, self.html())
        return path

    def _repr_html_(self) -> str:
        source = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:480px;border:0" title="3-D scene"></iframe>'

    def __repr__(self) -> str:
        start, end = self.views[0].span
        robots = ", ".join(dict.fromkeys(actor.robot.name for actor in self.views[0].actors))
        return f"Scene({robots}, {len(self.views)} view{'s' * (len(self.views) > 1)}, {start:g} to {end:g} s)"
