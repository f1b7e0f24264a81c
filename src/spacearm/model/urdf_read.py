"""Reading URDF: fixed joints are fused, joints of several degrees of freedom become rows of joints.

URDF's link frame is the frame of the joint that carries the link, as in spacearm, so no frame changes. What spacearm
makes of each element is listed in ``docs/urdf-and-mjcf.md``.

Every element is tried by itself and problems are collected, so that one error lists all that is wrong with a file.
The order matters: names first (messages need them), then links, joints, the root that stands for the world, and last
the tree as a whole, which is judged only when no part of it is missing. Unknown elements and attributes are reported,
because a misspelt one would otherwise change the robot silently. Lengths in m, angles in rad, kg, as URDF has them.
"""

from __future__ import annotations

import difflib
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from spacearm.errors import ModelError, clip_text, error_context, format_path, quote_text
from spacearm.model._repair import Mimic
from spacearm.model._urdf_visuals import UrdfShapes
from spacearm.model.fuse import Weld
from spacearm.model.notices import Losses
from spacearm.model.parts import Body, Inertia, Joint, JointKind, Pose
from spacearm.model.robot import Robot, check_unique
from spacearm.model.robot_import import REPAIRABLE, Reading, RobotImport, row_of_joints
from spacearm.model.rotations import rotation_from_rpy
from spacearm.model.safexml import number, numbers, parse, read_file
from spacearm.model.urdf_write import UNLIMITED
from spacearm.typing import Array

#: More links than this are refused.
MAX_LINKS = 1000
#: What is beyond this is read as "unlimited", for which the largest double stands.
_UNLIMITED_FROM = 1e300
_KINDS: dict[str, JointKind] = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic"}
_Axes: TypeAlias = Sequence[tuple[str, JointKind, npt.ArrayLike]]
_BALL: _Axes = [(f"r{letter}", "revolute", axis) for letter, axis in zip("xyz", np.eye(3), strict=True)]
_SLIDES: _Axes = [(letter, "prismatic", axis) for letter, axis in zip("xyz", np.eye(3), strict=True)]
_SINGULAR = "singular where the second angle is 90 degrees"
#: What to do with a file of another format, by its root element.
_OTHER_ROOTS = {
    "sdf": "this is SDF: give the file a name that ends in .sdf",
    "mujoco": "this is MJCF: give the file a name that ends in .xml",
}

P = ParamSpec("P")
T = TypeVar("T")


def read_urdf(path: str | Path, reading: Reading | None = None) -> Robot:
    """The robot of a URDF file. Raises :class:`ModelError` with the file and every link or joint concerned."""
    with error_context(file=path):
        return robot_from_urdf(read_file(path), path, reading)


def robot_from_urdf(
    text: str | bytes,
    file: str | Path | None = None,
    reading: Reading | None = None,
    *,
    lost: Iterable[tuple[str, str]] = (),
    stacklevel: int = 4,
) -> Robot:
    """The robot of a URDF text; ``file`` is named in messages, and its folder is where meshes are looked for.

    ``lost``: places, and what was lost there before, where the text was made from another format.
    """
    intake = RobotImport("URDF" if file is None else format_path(file), reading, what="link")
    for place, what in lost:
        intake.losses.add(place, what)
    with error_context(file=file):
        root = _root(text, intake)
        name = _robot_name(root, file, intake)
        if len(root.findall("link")) > MAX_LINKS:
            raise ModelError(f"there are {len(root.findall('link'))} links", hint=f"at most {MAX_LINKS} are read")
        _report_unknown(root, intake.losses)
        reader = _UrdfReader(root, intake, UrdfShapes(root, None if file is None else Path(file).parent, intake.losses))
        reader.read()
        return intake.robot(
            name,
            reader.links,
            joints=[part for part in reader.connections if isinstance(part, Joint)],
            welds=[part for part in reader.connections if isinstance(part, Weld)],
            mimics=reader.mimics,
            stacklevel=stacklevel,
        )


def _robot_name(root: ET.Element, file: str | Path | None, intake: RobotImport) -> str:
    """The robot's name; the file's where it has none and repairs are asked for."""
    if (root.get("name") or "").strip():
        return _attribute(root, "name")
    if not intake.reading.repair:
        raise ModelError("<robot> has no 'name'", place="robot", hint=f"{REPAIRABLE} takes the file's")
    name = "".join(c for c in Path(file or "robot").stem if c.isprintable()).strip() or "robot"
    intake.note_repair("a robot without a name gets the file's", "robot", f"is called {name!r}")
    return name


def _root(text: str | bytes, intake: RobotImport) -> ET.Element:
    if intake.reading.repair and text[:1].isspace():
        text = text.lstrip()
        intake.note_repair("blanks before the XML declaration are skipped", "line 1", "left out")
    bytes_ = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    shorter = bytes_.rstrip(b"\0 \t\r\n")
    if b"\0" in bytes_[len(shorter) :] and b"\0" not in shorter:  # UTF-16 is full of them
        if not intake.reading.repair:
            raise ModelError("there are NUL bytes after the end", hint=f"{REPAIRABLE} leaves them out")
        intake.note_repair("NUL bytes after the end are skipped", "end of the file", "left out")
        text = shorter
    root = parse(text, None)
    if root.tag != "robot":
        remedy = _OTHER_ROOTS.get(root.tag)
        hint = f"expected <robot>; {remedy}" if remedy else "expected <robot>"
        raise ModelError(f"the root element is <{clip_text(root.tag)}>", hint=hint)
    for parent in [root, *root.findall("link"), *root.findall("link/inertial"), *root.findall("joint")]:
        for element in parent:
            if "xacro" in str(element.tag):
                hint = "give the file a name that ends in .xacro"
                raise ModelError("this is a xacro file", place=f"<{clip_text(element.tag)}>", hint=hint)
    return root


# -- what is not read ---------------------------------------------------------------------------------------------

#: Elements and attributes that are read, or that are known to say nothing about the motion, by element.
_KNOWN: dict[str, tuple[set[str], set[str]]] = {
    "robot": (
        {"link", "joint", "material", "transmission", "gazebo", "sensor", "ros2_control", "drake", "mujoco"},
        {"name", "version"},
    ),
    "link": ({"inertial", "visual", "collision", "sensor", "gazebo", "contact", "material"}, {"name", "type"}),
    "inertial": ({"origin", "mass", "inertia"}, set()),
    "joint": (
        {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "calibration", "safety_controller"},
        {"name", "type"},
    ),
    "origin": (set(), {"xyz", "rpy"}),
    "mass": (set(), {"value"}),
    "inertia": (set(), {"ixx", "ixy", "ixz", "iyy", "iyz", "izz"}),
    "parent": (set(), {"link"}),
    "child": (set(), {"link"}),
    "axis": (set(), {"xyz"}),
    "limit": (set(), {"lower", "upper", "velocity", "effort", "acceleration", "deceleration", "jerk"}),
    "dynamics": (set(), {"damping", "friction"}),
}


def _report_unknown(root: ET.Element, losses: Losses) -> None:
    """Tells elements and attributes that nobody knows: a slip of the pen would else change the robot silently."""
    _check_element(root, "robot", losses)
    for tag in ("link", "joint"):
        for index, element in enumerate(root.findall(tag)):
            name = element.get("name")
            _check_element(element, f"{tag}[{index}]" if not name else f"{tag} {quote_text(name)}", losses)


def _check_element(element: ET.Element, place: str, losses: Losses) -> None:
    elements, attributes = _KNOWN[element.tag]
    for key in element.attrib:
        if key not in attributes and not key.startswith("{"):  # another name space belongs to another program
            losses.add(place, _unknown(f"attribute {quote_text(key)} of <{element.tag}>", key, attributes))
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else ""
        if not tag or tag.startswith("{"):
            continue
        if tag not in elements:
            losses.add(place, _unknown(f"element <{clip_text(tag)}>", tag, elements))
        elif element.tag != "robot" and tag in _KNOWN:
            _check_element(child, place, losses)


def _unknown(what: str, word: str, known: set[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"{what} is unknown and is ignored" + (f" (did you mean {near[0]!r}?)" if near else "")


# -- reading -----------------------------------------------------------------------------------------------------


def _attribute(element: ET.Element, key: str) -> str:
    value = element.get(key)
    if value is None or not value.strip():
        raise ModelError(f"<{element.tag}> has no {key!r}")
    return value


def _number(element: ET.Element, key: str, default: float | None = None) -> float:
    value = element.get(key)
    if value is None and default is not None:
        return default
    return number(_attribute(element, key), f"{element.tag}.{key}")


def _limit(element: ET.Element, key: str, default: float) -> float:
    value = element.get(key)
    if value is None:
        return default
    bound = number(value, f"limit.{key}", limit=UNLIMITED)
    return math.copysign(math.inf, bound) if abs(bound) > _UNLIMITED_FROM else bound


def _limits(element: ET.Element | None, *, endless: bool) -> dict[str, float]:
    if element is None:
        return {}
    limits = {key: _limit(element, key, math.inf) for key in ("velocity", "effort")}
    # URDF's default for a missing bound is 0, but only where the other bound is given; with neither, files mean no
    # limit.
    if endless or (element.get("lower") is None and element.get("upper") is None):
        return limits
    return limits | {key: _limit(element, key, 0.0) for key in ("lower", "upper")}


def _vector(element: ET.Element) -> Array:
    return np.array(numbers(_attribute(element, "xyz"), 3, f"{element.tag}.xyz"))


def _pose(element: ET.Element | None) -> Pose:
    if element is None:
        return Pose()
    xyz = numbers(element.get("xyz", "0 0 0"), 3, "origin.xyz")
    rpy = numbers(element.get("rpy", "0 0 0"), 3, "origin.rpy")
    return Pose(rotation_from_rpy(rpy), np.array(xyz))


class _UrdfReader:
    """Takes the elements apart. Every part is tried for itself, so that all its problems are found."""

    def __init__(self, root: ET.Element, intake: RobotImport, shapes: UrdfShapes) -> None:
        self.root, self.intake, self.shapes = root, intake, shapes
        self.links: list[Body] = []
        self.connections: list[Joint | Weld] = []
        self.mimics: list[Mimic] = []
        self._between: list[Body] = []
        #: Joints with six degrees of freedom: the child is the base, or a body that floats beside its parent.
        self._floating: list[Weld] = []
        self._incomplete = False

    def read(self) -> None:
        problems = self.intake.problems
        names = {tag: self._names(tag) for tag in ("link", "joint")}
        for element, link in zip(self.root.findall("link"), names["link"], strict=True):
            if link:
                visuals, collisions = self.shapes.read_shapes(element, f"link {quote_text(link)}")
                self.links.append(replace(self._link(element, link), visuals=visuals, collisions=collisions))
        for element, joint in zip(self.root.findall("joint"), names["joint"], strict=True):
            if joint:
                self._joint(element, joint)
        with problems.collect_errors():
            self._remove_world()
        self.links += self._between
        if not all(names["link"]) or not all(names["joint"]) or self._incomplete:
            self.intake.raise_problems()  # what is missing would make the tree look wrong

    def _try_part(self, place: str, fallback: T, make: Callable[P, T], *args: P.args, **keys: P.kwargs) -> T:
        """What ``make`` makes; where it fails, that is a problem, and reading goes on with the fallback."""
        with self.intake.problems.collect_errors(place):
            return make(*args, **keys)
        return fallback

    def _names(self, tag: str) -> list[str]:
        elements = self.root.findall(tag)
        names = [self._try_part(f"{tag}[{i}]", "", _attribute, e, "name") for i, e in enumerate(elements)]
        with self.intake.problems.collect_errors():
            known = [(name, f"{tag}[{i}]") for i, name in enumerate(names) if name]
            check_unique([name for name, _ in known], tag, places=[place for _, place in known])
        return names

    def _single_element(self, element: ET.Element, tag: str, place: str) -> ET.Element | None:
        found = element.findall(tag)
        if len(found) > 1 and self.intake.reading.repair:
            self.intake.note_repair(f"of several <{tag}> the first is used", place, f"{len(found) - 1} left out")
        elif len(found) > 1:
            self.intake.problems.add(f"there are {len(found)} <{tag}>", place=place, hint="expected at most one")
        return found[0] if found else None

    def _require_attribute(self, element: ET.Element, tag: str, key: str, place: str) -> str:
        found = self._single_element(element, tag, place)
        if found is None:
            self.intake.problems.add(f"<{element.tag}> has no <{tag}>", place=place)
            return ""
        return self._try_part(place, "", _attribute, found, key)

    def _origin(self, element: ET.Element, place: str) -> Pose:
        found = self._single_element(element, "origin", place)
        return self._try_part(place, Pose(), _pose, found)

    def _link(self, element: ET.Element, name: str) -> Body:
        place, intake = f"link {name!r}", self.intake
        inertial = self._single_element(element, "inertial", place)
        if inertial is None:
            return Body(name, Inertia.massless())
        before = len(intake.problems.found)
        pose = self._origin(inertial, place)
        weight, entries = (self._single_element(inertial, tag, place) for tag in ("mass", "inertia"))
        for tag, found, mended in (("mass", weight, "massless"), ("inertia", entries, "a point mass")):
            if found is not None:
                continue
            if intake.reading.repair:
                intake.note_repair(f"<inertial> has no <{tag}>", place, f"read as {mended}")
            else:
                intake.problems.add(f"<inertial> has no <{tag}>", place=place)
        mass = 0.0 if weight is None else self._try_part(place, 1.0, _number, weight, "value")
        tensor = np.zeros((3, 3))
        if entries is not None:
            for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"):
                row, column = ("xyz".index(letter) for letter in key[1:])
                value = self._try_part(place, 0.0, _number, entries, key)
                tensor[row, column] = tensor[column, row] = value
        if len(intake.problems.found) > before:
            return Body(name, Inertia(1.0))  # numbers that were not read cannot be judged
        return intake.body(name, mass, tensor, pose)

    def _joint(self, element: ET.Element, name: str) -> None:
        place, intake = f"joint {name!r}", self.intake
        kind = self._try_part(place, "", _attribute, element, "type")
        parent = self._require_attribute(element, "parent", "link", place)
        child = self._require_attribute(element, "child", "link", place)
        placement = self._origin(element, place)
        if not (kind and parent and child):
            self._incomplete = True
            return
        mimic = self._single_element(element, "mimic", place)
        if mimic is not None:
            self._mimic(mimic, name, kind, place)
        if kind == "fixed":
            self.connections.append(Weld(name, parent, child, placement))
        elif kind == "floating":
            self._floating.append(Weld(name, parent, child, placement))
        elif kind in ("planar", "spherical"):
            self._row(element, name, kind, parent, child, placement)
        elif kind in _KINDS:
            self.connections.append(self._single(element, name, kind, parent, child, placement))
        else:
            self._incomplete = True
            intake.problems.add(
                f"joint type {quote_text(kind)} is not supported",
                place=place,
                hint="expected revolute, continuous, prismatic, fixed, planar, spherical or floating",
            )

    def _single(self, element: ET.Element, name: str, kind: str, parent: str, child: str, placement: Pose) -> Joint:
        place = f"joint {name!r}"
        none: dict[str, float] = {}
        dynamics, limit = (
            self._single_element(element, "dynamics", place),
            self._single_element(element, "limit", place),
        )
        damping, friction = (
            0.0 if dynamics is None else self._try_part(place, 0.0, _number, dynamics, key, 0.0)
            for key in ("damping", "friction")
        )
        return self.intake.joint(
            name,
            _KINDS[kind],
            parent,
            child,
            placement,
            self._axis(element, place),
            limits=self._try_part(place, none, _limits, limit, endless=kind == "continuous"),
            damping=damping,
            friction=friction,
        )

    def _axis(self, element: ET.Element, place: str) -> Array:
        found = self._single_element(element, "axis", place)
        usual = np.array([1.0, 0.0, 0.0])
        if found is None:
            return usual
        return self._try_part(place, usual, _vector, found)

    def _mimic(self, element: ET.Element, name: str, kind: str, place: str) -> None:
        leader = self._try_part(place, "", _attribute, element, "joint")
        ratio = self._try_part(place, 1.0, _number, element, "multiplier", 1.0)
        offset = self._try_part(place, 0.0, _number, element, "offset", 0.0)
        if kind in _KINDS:
            self.mimics.append(Mimic(name, leader, ratio, offset))
        else:
            self.intake.losses.add(place, f"mimic of a {kind} joint is left out")

    # -- joints of several degrees of freedom ---------------------------------------------------------------------

    def _row(self, element: ET.Element, name: str, kind: str, parent: str, child: str, placement: Pose) -> None:
        place = f"joint {name!r}"
        for tag in ("limit", "dynamics", "safety_controller"):
            if element.find(tag) is not None:
                self.intake.losses.add(place, f"<{tag}> of a {kind} joint is left out")
        if kind == "spherical":
            self._add_row(name, _BALL, parent, child, placement)
            self.intake.losses.add(place, f"a spherical joint is read as three revolute ones, {_SINGULAR}")
            return
        normal = self._axis(element, place)
        length = float(np.linalg.norm(normal))
        if length == 0.0:
            self.intake.problems.add("axis has length 0", place=place, hint="expected the normal of the plane")
            normal, length = np.array([0.0, 0.0, 1.0]), 1.0
        normal = normal / length
        # Any axis in the plane will do; a coordinate axis that is not near the normal gives one without loss of digits.
        first = np.eye(3)[(int(np.argmax(np.abs(normal))) + 1) % 3]
        first = first - normal * (normal @ first)
        first = first / np.linalg.norm(first)
        self._add_row(
            name,
            [("x", "prismatic", first), ("y", "prismatic", np.cross(normal, first)), ("turn", "revolute", normal)],
            parent,
            child,
            placement,
        )

    def _add_row(self, name: str, axes: _Axes, parent: str, child: str, placement: Pose) -> None:
        joints, between = row_of_joints(name, axes, parent, child, placement)
        self.connections += joints
        self._between += between

    def _remove_world(self) -> None:
        """Without the massless root that only stands for the world: spacearm's base always floats."""
        joints = [*self.connections, *self._floating]
        rooted = {link.name for link in self.links if link.inertia.mass == 0.0} - {part.child for part in joints}
        base, world = self.intake.reading.base, self._find_world_joint(rooted)
        for part in self._floating:
            beside = [other for other in joints if other.parent == part.parent]
            if part.child == base or (part.parent in rooted and len(beside) == 1):
                world = part
            elif part.parent not in rooted:
                self._add_row(part.name, [*_SLIDES, *_BALL], part.parent, part.child, part.placement)
                what = f"a floating joint below the root is read as six joints, {_SINGULAR}"
                self.intake.losses.add(f"joint {part.name!r}", what)
            elif base is None:
                names = ", ".join(repr(other.child) for other in beside)
                raise ModelError(
                    f"several bodies stand on {part.parent!r}, and some of them float: {names}",
                    place=f"joint {part.name!r}",
                    hint="each is a robot of its own: choose one by base (--base NAME)",
                )
        if world is not None and base is None:
            self._drop_world(world)

    def _find_world_joint(self, rooted: set[str]) -> Weld | None:
        """The fixed joint that holds the one link on a massless root called world, if there is such."""
        on_world = [part for part in self.connections if part.parent == "world"]
        fixed = "world" in rooted and len(on_world) == 1 and isinstance(on_world[0], Weld)
        return on_world[0] if fixed and isinstance(on_world[0], Weld) else None

    def _drop_world(self, world: Weld) -> None:
        for role in (world.parent, world.child):
            if all(link.name != role for link in self.links):
                raise ModelError(f"there is no link {role!r}", place=f"joint {world.name!r}")
        if sum(part.child == world.child for part in [*self.connections, *self._floating]) > 1:
            raise ModelError(f"link {world.child!r} is carried by two joints", place=f"joint {world.name!r}")
        self.links = [link for link in self.links if link.name != world.parent]
        self.connections = [part for part in self.connections if part.name != world.name]
