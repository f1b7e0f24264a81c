"""Writing URDF: what is written reads back equal; what URDF cannot say is reported."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ET
from typing import Any

from spacearm.errors import error_context
from spacearm.model._urdf_visuals import write_shapes
from spacearm.model.notices import Losses
from spacearm.model.parts import Body, Joint, Pose
from spacearm.model.robot import Robot, bodies_with_mass, free_name
from spacearm.model.rotations import rpy_from_rotation
from spacearm.model.safexml import format_number, format_numbers

#: URDF has no word for "unlimited": the largest double stands for it.
UNLIMITED = sys.float_info.max


def urdf_text(robot: Robot, *, strict: bool = False) -> str:
    """URDF that reads back to this robot.

    Frames become massless links on fixed joints. What URDF cannot say (springs, rotors, couplings, loops, thrusters,
    static friction above Coulomb friction, configurations) is left out with a :class:`LossyConversion` warning each, or
    is a :class:`NotExpressible` error where ``strict``. A drive whose rotor is all that its joint moves is left out
    whole.
    """
    losses = Losses("URDF", strict=strict)
    if not robot.base.is_free:
        losses.add("base", f"is {robot.base.kind}; it is written as one that floats")
    # bodies beyond which there is no mass: joints that move nothing but rotors, which URDF does not know
    left_out = set(robot.body_names) - bodies_with_mass(robot.bodies, robot.joints)
    root = ET.Element("robot", name=robot.name)
    for body in robot.bodies:
        if body.name not in left_out:
            _write_link(root, body, losses)
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
    lost: dict[str, tuple[Any, ...]] = {"thruster": robot.thrusters, "coupling": robot.couplings}
    lost |= {"loop": robot.loops, "tank": robot.tanks}
    places = [f"{what} {part.name!r}" for what, parts in lost.items() for part in parts]
    for place in (*places, *(f"configuration {name!r}" for name in robot.configurations)):
        losses.add(place, "is left out")
    with error_context("URDF"):
        losses.warn()
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _write_link(root: ET.Element, body: Body, losses: Losses) -> None:
    link = ET.SubElement(root, "link", name=body.name)
    if body.inertia.mass > 0.0:
        _write_inertial(link, body)
    write_shapes(link, body, losses)


def _write_inertial(link: ET.Element, body: Body) -> None:
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "origin", xyz=format_numbers(body.inertia.com), rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=format_number(body.inertia.mass))
    t = body.inertia.tensor
    entries = {"ixx": t[0, 0], "ixy": t[0, 1], "ixz": t[0, 2], "iyy": t[1, 1], "iyz": t[1, 2], "izz": t[2, 2]}
    ET.SubElement(inertial, "inertia", {key: format_number(value) for key, value in entries.items()})


def _write_connection(
    root: ET.Element, name: str, kind: str, *, parent: str, child: str, placement: Pose
) -> ET.Element:
    element = ET.SubElement(root, "joint", name=name, type=kind)
    ET.SubElement(element, "parent", link=parent)
    ET.SubElement(element, "child", link=child)
    rpy = rpy_from_rotation(placement.rotation)
    ET.SubElement(element, "origin", xyz=format_numbers(placement.translation), rpy=format_numbers(rpy))
    return element


def _write_joint(root: ET.Element, joint: Joint, losses: Losses) -> None:
    limits, place = joint.limits, f"joint {joint.name!r}"
    endless = joint.kind == "revolute" and math.isinf(limits.lower) and math.isinf(limits.upper)
    kind = "continuous" if endless else joint.kind
    element = _write_connection(
        root, joint.name, kind, parent=joint.parent, child=joint.child, placement=joint.placement
    )
    ET.SubElement(element, "axis", xyz=format_numbers(joint.axis))
    bounds: dict[str, float] = {} if endless else {"lower": limits.lower, "upper": limits.upper}
    if not endless or math.isfinite(limits.effort) or math.isfinite(limits.velocity):
        bounds |= {"effort": limits.effort, "velocity": limits.velocity}
        ET.SubElement(element, "limit", {key: format_number(_clip_limit(value)) for key, value in bounds.items()})
    friction = 0.0 if joint.friction is None else joint.friction.coulomb
    if joint.damping > 0.0 or friction > 0.0:
        ET.SubElement(element, "dynamics", damping=format_number(joint.damping), friction=format_number(friction))
    if joint.friction is not None and joint.friction.static != joint.friction.coulomb:
        losses.add(place, "static friction above Coulomb friction is left out")
    if joint.spring is not None:
        losses.add(place, "its spring is left out")
    if joint.rotor is not None:
        losses.add(place, "its rotor is left out")


def _clip_limit(value: float) -> float:
    return max(-UNLIMITED, min(UNLIMITED, value))
