"""URDF: reading (fixed joints fused) and writing.

URDF's link frame is the frame of the joint that carries the link, as in spacearm, so no frame changes. What spacearm
makes of each element, and what URDF cannot say, is listed in ``docs/urdf-and-mjcf.md``.
"""

from __future__ import annotations

import difflib
import math
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spacearm.errors import ModelError, clipped, quoted, shown_path
from spacearm.model.fuse import Weld, fuse, located
from spacearm.model.lossy import Losses
from spacearm.model.parts import Body, Friction, Inertia, Joint, JointKind, Limits, Pose
from spacearm.model.robot import Robot, check_unique
from spacearm.model.rotations import rotation_from_rpy, rpy_from_rotation
from spacearm.model.safexml import number, numbers, parse, read_file, shown, shown_all

#: More links than this are refused.
MAX_LINKS = 1000
#: URDF has no word for "unlimited": the largest double stands for it, and anything beyond this is read as it.
UNLIMITED = sys.float_info.max
_UNLIMITED_FROM = 1e300
_KINDS: dict[str, JointKind] = {"revolute": "revolute", "continuous": "revolute", "prismatic": "prismatic"}


@dataclass(frozen=True)
class _Floating:
    """A joint with six degrees of freedom: its child is the base."""

    name: str
    parent: str
    child: str


def read_urdf(path: str | Path) -> Robot:
    """The robot of a URDF file. Raises :class:`ModelError` with the file and the link or joint concerned."""
    with located(file=path):
        return robot_from_urdf(read_file(path), path)


def robot_from_urdf(text: str | bytes, file: str | Path | None = None) -> Robot:
    """The robot of a URDF text; ``file`` is only named in errors."""
    with located(file=file):
        root = parse(text, "robot")
        for element in root:
            if "xacro" in str(element.tag):
                raise ModelError("this is a xacro file", place=f"<{element.tag}>", hint="expand it to URDF first")
        with located("robot"):
            name = _attribute(root, "name")
        if len(root.findall("link")) > MAX_LINKS:
            raise ModelError(f"there are {len(root.findall('link'))} links", hint=f"at most {MAX_LINKS} are read")
        _tell_unknown(root, "URDF" if file is None else shown_path(file))
        for tag in ("link", "joint"):
            check_unique([_named(element, i)[0] for i, element in enumerate(root.findall(tag))], tag)
        links = [_link(element, i) for i, element in enumerate(root.findall("link"))]
        connections = [_joint(element, i) for i, element in enumerate(root.findall("joint"))]
        links, connections = _without_world(links, connections)
        return fuse(
            name,
            links,
            joints=[part for part in connections if isinstance(part, Joint)],
            welds=[part for part in connections if isinstance(part, Weld)],
        )


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


def _tell_unknown(root: ET.Element, file: str) -> None:
    """Warns of elements and attributes that nobody knows: a slip of the pen would else change the robot silently."""
    losses = Losses(file, strict=False)
    _look_at(root, "robot", losses)
    for tag in ("link", "joint"):
        for index, element in enumerate(root.findall(tag)):
            name = element.get("name")
            _look_at(element, f"{tag}[{index}]" if not name else f"{tag} {quoted(name)}", losses)
    losses.tell(stacklevel=4)


def _look_at(element: ET.Element, place: str, losses: Losses) -> None:
    elements, attributes = _KNOWN[element.tag]
    for key in element.attrib:
        if key not in attributes and not key.startswith("{"):  # another name space belongs to another program
            losses.add(place, _unknown(f"attribute {quoted(key)} of <{element.tag}>", key, attributes))
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else ""
        if not tag or tag.startswith("{"):
            continue
        if tag not in elements:
            losses.add(place, _unknown(f"element <{clipped(tag)}>", tag, elements))
        elif element.tag != "robot" and tag in _KNOWN:
            _look_at(child, place, losses)


def _unknown(what: str, word: str, known: set[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"{what} is unknown and ignored" + (f" (did you mean {near[0]!r}?)" if near else "")


# -- reading -----------------------------------------------------------------------------------------------------


def _attribute(element: ET.Element, key: str) -> str:
    value = element.get(key)
    if value is None or not value.strip():
        raise ModelError(f"<{element.tag}> has no {key!r}")
    return value


def _named(element: ET.Element, index: int) -> tuple[str, str]:
    """(name, place) of the index-th link or joint."""
    with located(f"{element.tag}[{index}]"):
        name = _attribute(element, "name")
    return name, f"{element.tag} {name!r}"


def _only(element: ET.Element, tag: str) -> ET.Element | None:
    found = element.findall(tag)
    if len(found) > 1:
        raise ModelError(f"there are {len(found)} <{tag}>", hint="expected at most one")
    return found[0] if found else None


def _needed(element: ET.Element, tag: str) -> ET.Element:
    found = _only(element, tag)
    if found is None:
        raise ModelError(f"<{element.tag}> has no <{tag}>")
    return found


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


def _pose(element: ET.Element | None) -> Pose:
    if element is None:
        return Pose()
    xyz = numbers(element.get("xyz", "0 0 0"), 3, "origin.xyz")
    rpy = numbers(element.get("rpy", "0 0 0"), 3, "origin.rpy")
    return Pose(rotation_from_rpy(rpy), np.array(xyz))


def _link(element: ET.Element, index: int) -> Body:
    name, place = _named(element, index)
    with located(place):
        inertial = _only(element, "inertial")
        if inertial is None:
            return Body(name, Inertia.massless())
        entries = _needed(inertial, "inertia")
        xx, xy, xz, yy, yz, zz = (_number(entries, key) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        inertia = Inertia(_number(_needed(inertial, "mass"), "value"), tensor=tensor)
        return Body(name, inertia.moved(_pose(_only(inertial, "origin"))))


def _joint(element: ET.Element, index: int) -> Joint | Weld | _Floating:
    name, place = _named(element, index)
    with located(place):
        kind = _attribute(element, "type")
        parent = _attribute(_needed(element, "parent"), "link")
        child = _attribute(_needed(element, "child"), "link")
        placement = _pose(_only(element, "origin"))
        if element.find("mimic") is not None:
            raise ModelError(
                "mimic joints are not supported", hint="make the joint fixed, or join the two by a coupling in TOML"
            )
        if kind == "fixed":
            return Weld(name, parent, child, placement)
        if kind == "floating":
            return _Floating(name, parent, child)
        if kind not in _KINDS:
            raise ModelError(
                f"joint type {kind!r} is not supported",
                hint="expected revolute, continuous, prismatic, fixed, or floating at the root",
            )
        axis = _only(element, "axis")
        dynamics = _only(element, "dynamics")
        damping = 0.0 if dynamics is None else _number(dynamics, "damping", 0.0)
        friction = 0.0 if dynamics is None else _number(dynamics, "friction", 0.0)
        return Joint(
            name,
            _KINDS[kind],
            parent,
            child,
            placement,
            np.array([1.0, 0.0, 0.0] if axis is None else numbers(_attribute(axis, "xyz"), 3, "axis.xyz")),
            damping=damping,
            friction=Friction(friction, friction) if friction != 0.0 else None,
            limits=_limits(_only(element, "limit"), endless=kind == "continuous"),
        )


def _limits(element: ET.Element | None, *, endless: bool) -> Limits:
    if element is None:
        return Limits()
    velocity = _limit(element, "velocity", math.inf)
    effort = _limit(element, "effort", math.inf)
    if endless or (element.get("lower") is None and element.get("upper") is None):
        return Limits(velocity=velocity, effort=effort)
    return Limits(_limit(element, "lower", 0.0), _limit(element, "upper", 0.0), velocity, effort)


def _without_world(
    links: list[Body], connections: list[Joint | Weld | _Floating]
) -> tuple[list[Body], list[Joint | Weld | _Floating]]:
    """Without the massless root that only stands for the world: spacearm's base always floats."""
    carried = {part.child for part in connections}
    floating = [part for part in connections if isinstance(part, _Floating)]
    for part in floating:
        with located(f"joint {part.name!r}"):
            others = [other.name for other in connections if other is not part and other.parent == part.parent]
            heavy = any(link.name == part.parent and link.inertia.mass > 0.0 for link in links)
            if part.parent in carried or others or heavy or len(floating) > 1:
                raise ModelError(
                    "a floating joint must be the only joint of a massless root link",
                    hint="spacearm has one floating base; free-flying parts are robots of their own",
                )
            if all(link.name != part.parent for link in links):
                raise ModelError(f"there is no link {part.parent!r}")
    world = floating[0] if floating else None
    if world is None:
        at_world = [part for part in connections if part.parent == "world"]
        massless = any(link.name == "world" and link.inertia.mass == 0.0 for link in links)
        if massless and "world" not in carried and len(at_world) == 1 and isinstance(at_world[0], Weld):
            world = _Floating(at_world[0].name, "world", at_world[0].child)
    if world is None:
        return links, connections
    if all(link.name != world.child for link in links):
        raise ModelError(f"there is no link {world.child!r}", place=f"joint {world.name!r}")
    if sum(part.child == world.child for part in connections) > 1:
        raise ModelError(f"link {world.child!r} is carried by two joints", place=f"joint {world.name!r}")
    return (
        [link for link in links if link.name != world.parent],
        [part for part in connections if part.name != world.name],
    )


# -- writing -----------------------------------------------------------------------------------------------------


def urdf_text(robot: Robot, *, strict: bool = False) -> str:
    """URDF that reads back to this robot.

    Frames become massless links on fixed joints. What URDF cannot say (springs, rotors, couplings, thrusters, static
    friction above Coulomb friction, postures) is left out with a :class:`LossyConversion` warning each, or is a
    :class:`NotExpressible` error where ``strict``. A drive whose rotor is all that its joint moves is left out whole.
    """
    losses = Losses("URDF", strict=strict)
    left_out = _rotor_only(robot)
    root = ET.Element("robot", name=robot.name)
    for body in robot.bodies:
        if body.name not in left_out:
            _write_link(root, body)
    for joint in robot.joints:
        if joint.child in left_out:
            losses.add(f"joint {joint.name!r}", "moves nothing but a rotor, and is left out")
        else:
            _write_joint(root, joint, losses)
    taken = set(robot.joint_names)
    for frame in robot.frames:
        if frame.body in left_out:
            losses.add(f"frame {frame.name!r}", f"is left out with body {frame.body!r}")
            continue
        ET.SubElement(root, "link", name=frame.name)
        joint_name = free_name(f"{frame.name}.fixed", taken)
        _write_connection(root, joint_name, "fixed", parent=frame.body, child=frame.name, placement=frame.placement)
    for what, names in (
        ("thruster", [thruster.name for thruster in robot.thrusters]),
        ("coupling", [coupling.name for coupling in robot.couplings]),
        ("posture", list(robot.postures)),
    ):
        for name in names:
            losses.add(f"{what} {name!r}", "is left out")
    losses.tell()
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def free_name(name: str, taken: set[str]) -> str:
    """``name``, or the first numbered form of it that is not taken; it is taken from then on."""
    choice, count = name, 1
    while choice in taken:
        count += 1
        choice = f"{name}{count}"
    taken.add(choice)
    return choice


def _rotor_only(robot: Robot) -> set[str]:
    """Bodies beyond which there is no mass: joints that move nothing but rotors, which URDF does not know."""
    light = {body.name for body in robot.bodies if body.inertia.mass == 0.0}
    for joint in reversed(robot.joints):
        if joint.child not in light:
            light.discard(joint.parent)
    return light


def _write_link(root: ET.Element, body: Body) -> None:
    link = ET.SubElement(root, "link", name=body.name)
    if body.inertia.mass == 0.0:
        return
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "origin", xyz=shown_all(body.inertia.com), rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=shown(body.inertia.mass))
    t = body.inertia.tensor
    entries = {"ixx": t[0, 0], "ixy": t[0, 1], "ixz": t[0, 2], "iyy": t[1, 1], "iyz": t[1, 2], "izz": t[2, 2]}
    ET.SubElement(inertial, "inertia", {key: shown(value) for key, value in entries.items()})


def _write_connection(
    root: ET.Element, name: str, kind: str, *, parent: str, child: str, placement: Pose
) -> ET.Element:
    element = ET.SubElement(root, "joint", name=name, type=kind)
    ET.SubElement(element, "parent", link=parent)
    ET.SubElement(element, "child", link=child)
    rpy = rpy_from_rotation(placement.rotation)
    ET.SubElement(element, "origin", xyz=shown_all(placement.translation), rpy=shown_all(rpy))
    return element


def _write_joint(root: ET.Element, joint: Joint, losses: Losses) -> None:
    limits, place = joint.limits, f"joint {joint.name!r}"
    endless = joint.kind == "revolute" and math.isinf(limits.lower) and math.isinf(limits.upper)
    kind = "continuous" if endless else joint.kind
    element = _write_connection(
        root, joint.name, kind, parent=joint.parent, child=joint.child, placement=joint.placement
    )
    ET.SubElement(element, "axis", xyz=shown_all(joint.axis))
    bounds: dict[str, float] = {} if endless else {"lower": limits.lower, "upper": limits.upper}
    if not endless or math.isfinite(limits.effort) or math.isfinite(limits.velocity):
        bounds |= {"effort": limits.effort, "velocity": limits.velocity}
        ET.SubElement(element, "limit", {key: shown(_bounded(value)) for key, value in bounds.items()})
    friction = 0.0 if joint.friction is None else joint.friction.coulomb
    if joint.damping > 0.0 or friction > 0.0:
        ET.SubElement(element, "dynamics", damping=shown(joint.damping), friction=shown(friction))
    if joint.friction is not None and joint.friction.static != joint.friction.coulomb:
        losses.add(place, "static friction above Coulomb friction is left out")
    if joint.spring is not None:
        losses.add(place, "its spring is left out")
    if joint.rotor is not None:
        losses.add(place, "its rotor is left out")


def _bounded(value: float) -> float:
    return max(-UNLIMITED, min(UNLIMITED, value))
