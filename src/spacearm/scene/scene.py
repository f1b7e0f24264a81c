"""A scene as values: what is drawn, where it is at which time, what happened; and how it is shown or kept.

Plain data without physics: every class has ``data()`` for JSON and ``of()`` back, so that a page that was saved is a
scene again, and pictures can be made from it. Positions in m and quaternions x y z w in world axes; long arrays are
packed as binary numbers in text, since a page with decimals would be several times as large.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.model import Pose, Visual
from spacearm.model.files import write_atomically
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_quaternion
from spacearm.scene import _page
from spacearm.scene._page import pack_numbers, unpack_numbers
from spacearm.scene.meshes import Mesh
from spacearm.typing import Array


def _numbers(pose: Pose) -> list[float]:
    """Position, and quaternion x y z w."""
    w, x, y, z = quaternion_from_rotation(pose.rotation)
    # A tenth of a micrometre: pages stay small, and the same scene gives the same text.
    return [round(float(number), 7) for number in (*pose.translation, x, y, z, w)]


def _pose(numbers: Sequence[float]) -> Pose:
    rotation = np.array([numbers[6], *numbers[3:6]])
    return Pose(rotation_from_quaternion(rotation / np.linalg.norm(rotation)), np.array(numbers[:3]))


@dataclass(frozen=True)
class SceneShape:
    """A shape of a body in its colour."""

    visual: Visual
    colour: str = "#808080"
    mesh: int = -1  # number among the meshes of the view

    def data(self) -> dict[str, Any]:
        visual = self.visual
        shape: dict[str, Any] = {"kind": visual.shape, "size": visual.size.tolist(), "at": _numbers(visual.placement)}
        return shape | {"colour": self.colour} | ({"mesh": self.mesh} if self.mesh >= 0 else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SceneShape:
        number = int(data.get("mesh", -1))
        visual = Visual(data["kind"], np.array(data["size"]), _pose(data["at"]), mesh="" if number < 0 else str(number))
        return cls(visual, data["colour"], number)


@dataclass(frozen=True, eq=False)
class SceneBody:
    """A body: its mass (kg) and mass centre (m), the system that it is coloured by, its shapes, and the box of the same
    inertia."""

    name: str
    mass: float
    com: Array
    system: int
    shapes: tuple[SceneShape, ...]
    box: SceneShape | None

    def data(self) -> dict[str, Any]:
        own = {"name": self.name, "mass": self.mass, "com": self.com.tolist(), "system": self.system}
        box = {} if self.box is None else {"box": self.box.data()}
        return own | {"shapes": [shape.data() for shape in self.shapes]} | box

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SceneBody:
        shapes = tuple(SceneShape.from_data(each) for each in data["shapes"])
        box = SceneShape.from_data(data["box"]) if "box" in data else None
        return cls(data["name"], data["mass"], np.array(data["com"]), data["system"], shapes, box)


@dataclass(frozen=True, eq=False)
class SceneForce:
    """A force (N) or moment (N m) on a point of a body, world axes (T, 3), or the level of a thruster (T, 1)."""

    name: str
    body: int
    kind: str  # force, moment, thruster
    at: Array
    values: Array
    direction: Array = field(default_factory=lambda: np.zeros(3))  # of a thruster's force, the body's axes

    def data(self, peak: float) -> dict[str, Any]:
        own = {"name": self.name, "body": self.body, "kind": self.kind, "at": self.at.tolist()}
        return own | {"values": pack_numbers(self.values), "direction": self.direction.tolist(), "peak": peak}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SceneForce:
        width = 1 if data["kind"] == "thruster" else 3
        at, values, directions = (
            np.array(data["at"]),
            unpack_numbers(data["values"], -1, width),
            np.array(data["direction"]),
        )
        return cls(data["name"], data["body"], data["kind"], at, values, directions)


@dataclass(frozen=True, eq=False)
class SceneJoint:
    """A joint that can be moved by hand on the page: where it is in its parent, and between what it moves."""

    name: str
    parent: int
    body: int
    placement: Pose
    axis: Array
    kind: str  # revolute, prismatic
    lower: float
    upper: float
    value: float

    def data(self) -> dict[str, Any]:
        own = {"name": self.name, "parent": self.parent, "body": self.body, "kind": self.kind}
        numbers = {"lower": self.lower, "upper": self.upper, "value": self.value}
        return own | {"at": _numbers(self.placement), "axis": self.axis.tolist()} | numbers

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SceneJoint:
        at, axis, ends = _pose(data["at"]), np.array(data["axis"]), [data[key] for key in ("lower", "upper", "value")]
        return cls(data["name"], data["parent"], data["body"], at, axis, data["kind"], *ends)


@dataclass(frozen=True, eq=False)
class SceneSystem:
    """A system for as long as its robot stays the same. Joints, frames and paths are (name, body, what is there).

    A ghost is drawn translucent and acts on nothing: a measured motion beside a predicted one.
    """

    system: int
    times: Array  # (T,) s
    poses: Array  # (T, bodies, 7): position, quaternion x y z w
    bodies: tuple[SceneBody, ...]
    joints: tuple[tuple[str, int, Array], ...] = ()  # axis
    frames: tuple[tuple[str, int, Pose], ...] = ()
    paths: tuple[tuple[str, int, Array], ...] = ()  # the point whose path is drawn
    pushes: tuple[SceneForce, ...] = ()
    guides: tuple[tuple[str, Array], ...] = ()  # name and points (K, 3) of a path that a law follows, world axes
    hinges: tuple[SceneJoint, ...] = ()  # of a robot that stands: all joints, parents before children
    ghost: bool = False

    def data(self, peaks: Mapping[str, float]) -> dict[str, Any]:
        return {
            "system": self.system,
            "times": pack_numbers(self.times),
            "poses": pack_numbers(self.poses),
            "bodies": [body.data() for body in self.bodies],
            "joints": [{"name": name, "body": body, "axis": axis.tolist()} for name, body, axis in self.joints],
            "frames": [{"name": name, "body": body, "at": _numbers(pose)} for name, body, pose in self.frames],
            "paths": [{"name": name, "body": body, "at": point.tolist()} for name, body, point in self.paths],
            "pushes": [push.data(peaks[push.kind]) for push in self.pushes],
            "guides": [{"name": name, "points": points.tolist()} for name, points in self.guides],
            "hinges": [hinge.data() for hinge in self.hinges],
        } | ({"ghost": True} if self.ghost else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SceneSystem:
        bodies = tuple(SceneBody.from_data(each) for each in data["bodies"])
        return cls(
            data["system"],
            unpack_numbers(data["times"], -1),
            unpack_numbers(data["poses"], -1, len(bodies), 7),
            bodies,
            tuple((each["name"], each["body"], np.array(each["axis"])) for each in data["joints"]),
            tuple((each["name"], each["body"], _pose(each["at"])) for each in data["frames"]),
            tuple((each["name"], each["body"], np.array(each["at"])) for each in data["paths"]),
            tuple(SceneForce.from_data(each) for each in data["pushes"]),
            tuple((each["name"], np.array(each["points"])) for each in data.get("guides", ())),
            tuple(SceneJoint.from_data(each) for each in data.get("hinges", ())),
            bool(data.get("ghost", False)),
        )


@dataclass(frozen=True)
class TimelineMark:
    """Something that happened, for the time line; ``kind`` is phase, change or event."""

    time: float
    text: str
    kind: str = "event"


@dataclass(frozen=True, eq=False)
class SceneView:
    """One run or one robot."""

    name: str
    title: str
    systems: tuple[tuple[str, str], ...]  # name and colour
    actors: tuple[SceneSystem, ...]
    marks: tuple[TimelineMark, ...] = ()
    meshes: tuple[Mesh, ...] = ()

    @property
    def span(self) -> tuple[float, float]:
        """First and last time, s."""
        return min(float(a.times[0]) for a in self.actors), max(float(a.times[-1]) for a in self.actors)

    @property
    def peaks(self) -> dict[str, float]:
        """The largest force (N) and moment (N m)."""
        found: dict[str, float] = {}
        for push in (push for actor in self.actors for push in actor.pushes):
            found[push.kind] = max(found.get(push.kind, 0.0), float(np.linalg.norm(push.values, axis=1).max()))
        # Arrows are drawn relative to the largest of their kind; one that is always zero must not divide by zero.
        return {kind: peak or 1.0 for kind, peak in found.items()}

    def data(self) -> dict[str, Any]:
        peaks = self.peaks
        return {
            "name": self.name,
            "title": self.title,
            "systems": [{"name": name, "colour": colour} for name, colour in self.systems],
            "actors": [actor.data(peaks) for actor in self.actors],
            "marks": [{"time": mark.time, "text": mark.text, "kind": mark.kind} for mark in self.marks],
            "meshes": [mesh.data() for mesh in self.meshes],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SceneView:
        return cls(
            data["name"],
            data["title"],
            tuple((each["name"], each["colour"]) for each in data["systems"]),
            tuple(SceneSystem.from_data(each) for each in data["actors"]),
            tuple(TimelineMark(each["time"], each["text"], each["kind"]) for each in data["marks"]),
            tuple(Mesh.from_data(each) for each in data["meshes"]),
        )


@dataclass(frozen=True, eq=False)
class Scene:
    """Robots in space and time: made by :func:`scene_of`, shown by itself in a notebook, kept by :meth:`save`."""

    views: tuple[SceneView, ...]

    @property
    def title(self) -> str:
        return self.views[0].title

    def data(self) -> dict[str, Any]:
        """What the viewer draws, as plain values for JSON."""
        return {"scenes": [view.data() for view in self.views]}

    def element(self, height: str = "480px") -> str:
        """The scene as an element of a page that has the viewer's :func:`script` once."""
        return _page.element(self.data(), height)

    def html(self, title: str = "") -> str:
        """A page of its own, which needs nothing else and no network; ``title`` is shown in place of the scene's."""
        views = self.views if not title else tuple(replace(view, title=title) for view in self.views)
        return _page.scene_page(Scene(views).data(), title or self.title)

    @classmethod
    def load(cls, path: str | Path) -> Scene:
        """The scene of a page that :meth:`save` or a study wrote."""
        path = Path(path)
        try:
            data = _page.read_data(path.read_text(encoding="utf-8"))
            return cls(tuple(SceneView.from_data(each) for each in data["scenes"]))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=path) from error
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                "is not the page of a scene", file=path, hint="expected one that spacearm wrote"
            ) from error

    def picture(self, time: float | None = None, *, width: int = 800, height: int = 600, **look: Any) -> bytes:
        """A PNG picture, drawn without a browser.

        Args:
            time: s; the middle of the run by default.
            width, height: pixels.
            look: ``azimuth`` and ``height_angle`` of the eye above the ground, rad; ``dark`` for a dark ground.
        """
        from spacearm.scene._film import still

        return still(self.views[0], time, width, height, **look)

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write it: ``.html`` a page, ``.png`` a picture, ``.gif`` (needs Pillow) or ``.mp4`` (needs ffmpeg) a film.

        ``options`` are those of :meth:`picture`; a film also takes the ``seconds`` it lasts and the ``rate``, pictures
        for each of them.
        """
        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            write_atomically(path, self.html())
        else:
            from spacearm.scene._film import save

            save(self.views[0], path, **options)
        return path

    def _repr_html_(self) -> str:
        source = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:480px;border:0" title="3-D scene"></iframe>'

    def __repr__(self) -> str:
        start, end = self.views[0].span
        return f"Scene({self.title!r}, {len(self.views)} view{'s' * (len(self.views) > 1)}, {start:g} to {end:g} s)"
