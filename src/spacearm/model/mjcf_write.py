"""Writing MJCF, MuJoCo's format.

A row of joints with massless bodies between becomes one MuJoCo body with several joints, which MuJoCo applies one
after the other: the same motion exactly. With the placements X1, X2, ... Xk of the row and the joints' own motions
M1, ... Mk, the last body lies at X1 M1 X2 M2 ... Xk Mk = X (Y1^-1 M1 Y1) (Y2^-1 M2 Y2) ... Mk, where X = X1 ... Xk
and Yi = X(i+1) ... Xk: each joint's axis and anchor seen from the last body at zero.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np

from spacearm.errors import error_context
from spacearm.model._mjcf_rotors import LEAST, Mass, share_rotors
from spacearm.model._mjcf_visuals import Geoms
from spacearm.model.edit import rename
from spacearm.model.notices import Losses, NotExpressible
from spacearm.model.parts import Joint, Pose
from spacearm.model.robot import Robot, free_name
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.model.safexml import format_number, format_numbers
from spacearm.typing import Array

#: Stands for "no limit" on one side of a joint that has a limit on the other; rad or m.
FAR = 1e10


def mjcf_text(robot: Robot, *, strict: bool = False) -> str:
    """MJCF that MuJoCo loads: floating base, no gravity, the same motion as this robot.

    Frames become sites, couplings fixed tendons, thrusters motors on sites (control in N), configurations keyframes.
    Rotors with a ratio of one or more are exact (see :mod:`spacearm.model._mjcf_rotors`). What MuJoCo only approximates
    or does not know is reported by a :class:`LossyConversion` warning each, or is an error where ``strict``.

    Raises:
        NotExpressible: a massless body that MuJoCo cannot do without.
    """
    losses = Losses("MJCF", strict=strict)
    if not robot.base.is_free:
        losses.add("base", f"is {robot.base.kind}; it is written as one that floats")
    if "world" in robot.body_names:
        new = free_name("world.body", {*robot.body_names, *robot.joint_names, *(frame.name for frame in robot.frames)})
        robot = rename(robot, {"world": new})
        losses.add("body 'world'", f"is called {new!r}, since the name is MuJoCo's own")
    # Before bodies are written: rotors change the inertias of what carries them.
    shared = share_rotors(robot, losses)
    rows = _rows(robot, {name for name, mass in shared.masses.items() if mass.mass == 0.0})
    root = ET.Element("mujoco", model=robot.name)
    # As stated here and not as MuJoCo would guess from shapes or ranges.
    ET.SubElement(root, "compiler", angle="radian", inertiafromgeom="false", autolimits="false")
    ET.SubElement(root, "option", gravity="0 0 0")
    base = robot.bodies[0].name
    elements = {base: ET.SubElement(ET.SubElement(root, "worldbody"), "body", name=base)}
    ET.SubElement(elements[base], "freejoint", name=free_name(f"{base}.free", set(robot.joint_names)))
    _write_inertia(elements[base], shared.masses[base])
    for row in rows:
        name = row[-1].child
        # MuJoCo has several joints in one body where we have massless bodies between: their placements multiply.
        placement = row[0].placement
        for joint in row[1:]:
            placement = placement @ joint.placement
        elements[name] = ET.SubElement(elements[row[0].parent], "body", {"name": name, **_place(placement)})
        _write_joints(elements[name], row, shared.armatures, losses)
        _write_inertia(elements[name], shared.masses[name])
    _write_geoms(root, robot, elements, losses)
    _write_sites(root, robot, elements, losses)
    _write_tendons(root, robot)
    _write_loops(root, robot, elements, losses)
    for tank in robot.tanks:
        losses.add(f"tank {tank.name!r}", "is left out; its liquid stays in the bodies")
    _write_keys(root, robot)
    with error_context("MJCF"):
        losses.warn()
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _rows(robot: Robot, massless: set[str]) -> list[list[Joint]]:
    """The joints in rows, each row ending at a body with mass, parents first."""
    rows = []
    for joint in robot.joints:
        if joint.parent in massless:
            continue
        row = [joint]
        while row[-1].child in massless:
            name = row[-1].child
            following = list(robot.children(name))
            if len(following) != 1:
                raise NotExpressible(
                    f"it is massless and carries {len(following)} joints, but MuJoCo needs mass on all that moves",
                    place=f"body {name!r}",
                    hint="a row of joints through massless bodies can be written",
                )
            row += following
        rows.append(row)
    return rows


def _place(pose: Pose) -> dict[str, str]:
    return {"pos": format_numbers(pose.translation), "quat": format_numbers(quaternion_from_rotation(pose.rotation))}


def _write_inertia(element: ET.Element, mass: Mass) -> None:
    """Principal moments and axes, computed here: MuJoCo's own eigenvalues are good to about 1e-12 only."""
    moments, axes = np.linalg.eigh(mass.tensor)
    # Eigenvectors may be left-handed: a quaternion cannot be.
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    # Already principal: the axes then stay, and with them the text of a file that was read.
    if np.array_equal(mass.tensor, np.diag(np.diag(mass.tensor))):
        moments, axes = np.diag(mass.tensor), np.eye(3)
    moments = np.maximum(moments, LEAST)
    largest = int(np.argmax(moments))
    rest = float(np.sum(np.delete(moments, largest)))
    # a thin plate's largest moment is the sum of the others; one rounding above it MuJoCo would refuse
    if moments[largest] > rest:
        moments[largest] = np.nextafter(rest, 0.0)
    ET.SubElement(
        element,
        "inertial",
        pos=format_numbers(mass.com),
        quat=format_numbers(quaternion_from_rotation(axes)),
        mass=format_number(max(mass.mass, LEAST)),
        diaginertia=format_numbers(moments),
    )


def _write_joints(element: ET.Element, row: list[Joint], armatures: dict[str, float], losses: Losses) -> None:
    beyond = Pose()  # the last body's frame in the joint's frame, at zero
    written = []
    # From the last joint back: anchors and axes are wanted in the frame of the body at the row's end.
    for joint in reversed(row):
        inverse = beyond.inverse()
        written.append((joint, inverse.translation, beyond.rotation.T @ joint.axis))
        beyond = joint.placement @ beyond
    for joint, anchor, axis in reversed(written):
        _write_joint(element, joint, anchor, axis, armature=armatures.get(joint.name, 0.0), losses=losses)


def _write_joint(
    element: ET.Element, joint: Joint, anchor: Array, axis: Array, *, armature: float, losses: Losses
) -> None:
    place = f"joint {joint.name!r}"
    entries = {
        "name": joint.name,
        "type": "hinge" if joint.kind == "revolute" else "slide",
        "pos": format_numbers(anchor),
        "axis": format_numbers(axis),
    }
    if armature > 0.0:
        entries["armature"] = format_number(armature)
    if joint.damping > 0.0:
        entries["damping"] = format_number(joint.damping)
    if joint.spring is not None:
        entries |= {"stiffness": format_number(joint.spring.stiffness), "springref": format_number(joint.spring.rest)}
    if joint.friction is not None and joint.friction.coulomb > 0.0:
        entries["frictionloss"] = format_number(joint.friction.coulomb)
        losses.add(place, "dry friction is soft in MuJoCo: a stuck joint creeps")
    if joint.friction is not None and joint.friction.static != joint.friction.coulomb:
        losses.add(place, "static friction above Coulomb friction is left out")
    limits = joint.limits
    if math.isfinite(limits.lower) or math.isfinite(limits.upper):
        if limits.lower < limits.upper:
            # MuJoCo has no infinite range: one end may be open.
            bounds = (max(limits.lower, -FAR), min(limits.upper, FAR))
            entries |= {"limited": "true", "range": format_numbers(bounds)}
        else:
            losses.add(place, "limits without room between them are left out; freeze the joint instead")
    if math.isfinite(limits.effort):
        if limits.effort > 0.0:
            bounds = (-limits.effort, limits.effort)
            entries |= {"actuatorfrclimited": "true", "actuatorfrcrange": format_numbers(bounds)}
        else:
            losses.add(place, "an effort limit of zero is left out")
    if math.isfinite(limits.velocity):
        losses.add(place, "its velocity limit is left out")
    ET.SubElement(element, "joint", entries)


def _write_geoms(root: ET.Element, robot: Robot, elements: dict[str, ET.Element], losses: Losses) -> None:
    geoms = Geoms(root, losses)
    for body in robot.bodies:
        if body.name in elements:
            geoms.write(elements[body.name], body)
        elif body.visuals or body.collisions:
            losses.add(f"body {body.name!r}", "its shapes are left out, since MuJoCo does not have the massless body")


def _write_sites(root: ET.Element, robot: Robot, elements: dict[str, ET.Element], losses: Losses) -> None:
    """Frames and thrusters."""
    reason = "lies on a massless body inside a row of joints, which MuJoCo does not have, and is left out"
    for frame in robot.frames:
        if frame.body in elements:
            ET.SubElement(elements[frame.body], "site", {"name": frame.name, **_place(frame.placement)})
        else:
            losses.add(f"frame {frame.name!r}", reason)
    taken = {frame.name for frame in robot.frames}
    actuators = ET.Element("actuator")
    for thruster in robot.thrusters:
        if thruster.body not in elements:
            losses.add(f"thruster {thruster.name!r}", reason)
        elif thruster.force == 0.0:
            losses.add(f"thruster {thruster.name!r}", "has no force, and is left out")
        else:
            site = free_name(f"{thruster.name}.thruster", taken)
            ET.SubElement(elements[thruster.body], "site", name=site, pos=format_numbers(thruster.position))
            ET.SubElement(
                actuators,
                "motor",
                name=thruster.name,
                site=site,
                gear=format_numbers((*thruster.direction, 0.0, 0.0, 0.0)),
                ctrllimited="true",
                ctrlrange=format_numbers((0.0, thruster.force)),
            )
    if len(actuators):
        root.append(actuators)


def _write_tendons(root: ET.Element, robot: Robot) -> None:
    """Couplings: a fixed tendon's length is a sum of joint positions, with a spring and a damper along it."""
    if not robot.couplings:
        return
    tendons = ET.SubElement(root, "tendon")
    for coupling in robot.couplings:
        # MuJoCo reads a rest length of -1 as "not given"; turned about, it is +1
        sign = -1.0 if coupling.rest == -1.0 else 1.0
        tendon = ET.SubElement(
            tendons,
            "fixed",
            name=coupling.name,
            stiffness=format_number(coupling.stiffness),
            damping=format_number(coupling.damping),
            springlength=format_number(sign * coupling.rest),
        )
        ET.SubElement(tendon, "joint", joint=coupling.first, coef=format_number(sign))
        ET.SubElement(tendon, "joint", joint=coupling.second, coef=format_number(-sign * coupling.ratio))


#: Distance between the two points that make a hinge of two connections, m.
_HINGE = 0.1


def _write_loops(root: ET.Element, robot: Robot, elements: dict[str, ET.Element], losses: Losses) -> None:
    """Loops as equality constraints between sites; a hinge is two points of its axis."""
    equality, taken = ET.Element("equality"), {frame.name for frame in robot.frames}
    names = {loop.name for loop in robot.loops}
    for loop in robot.loops:
        place = f"loop {loop.name!r}"
        if not loop.joins_frames:
            joints = {"joint1": loop.first, "joint2": loop.second}
            polynomial = format_numbers((loop.offset, loop.ratio, 0.0, 0.0, 0.0))
            ET.SubElement(equality, "joint", {"name": loop.name, **joints, "polycoef": polynomial})
        elif loop.kind == "distance":
            losses.add(place, "is a rod, which MuJoCo has no constraint for, and is left out")
        elif any(robot.frame(end).body not in elements for end in (loop.first, loop.second)):
            losses.add(place, "ends on a massless body inside a row of joints, and is left out")
        else:
            kind = "weld" if loop.kind == "weld" else "connect"
            arms = [(loop.name, np.zeros(3))]
            # Two points of one axis hold all but the rotation about it; one point alone would leave three.
            if loop.kind == "axis":
                arms.append((free_name(f"{loop.name}.axis", names), _HINGE * loop.hinge))
            for name, arm in arms:
                sites = {}
                for key, end in (("site1", loop.first), ("site2", loop.second)):
                    frame = robot.frame(end)
                    sites[key] = end
                    if end in robot.body_names or np.any(arm):
                        sites[key] = free_name(f"{name}.{'ab'[key == 'site2']}", taken)
                        placed = _place(frame.placement @ Pose(translation=arm))
                        ET.SubElement(elements[frame.body], "site", {"name": sites[key], **placed})
                ET.SubElement(equality, kind, {"name": name, **sites})
    if len(equality):
        losses.add("loops", "are soft constraints in MuJoCo, which give way by its solver's settings")
        root.append(equality)


def _write_keys(root: ET.Element, robot: Robot) -> None:
    """Configurations, with the base at the world's origin; MuJoCo orders joints as they stand in the file."""
    if not robot.configurations:
        return
    # By the file as it was written: joints of rows may have come in another order.
    order = [robot.joint_index(str(element.get("name"))) for element in root.iter("joint") if element.get("name")]
    keys = ET.SubElement(root, "keyframe")
    for name, values in robot.configurations.items():
        ET.SubElement(keys, "key", name=name, qpos=format_numbers((0, 0, 0, 1, 0, 0, 0, *values[order])))
