"""A :class:`~spacearm.model.Robot` as TOML text that reads back to an equal robot, bit for bit.

Rotations are written as ``rpy_deg`` or ``rpy`` where that gives back the very same matrix, otherwise as the matrix.
Joints made from a DH table or a transmission are written out as the plain joints that they became.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import numpy as np

from spacearm.model.parts import Body, Coupling, Friction, Joint, Limits, Pose, Rotor, Spring, Thruster
from spacearm.model.robot import Robot
from spacearm.model.rotations import rotation_from_rpy, rpy_from_rotation
from spacearm.typing import Array


def toml_text(robot: Robot, comments: Iterable[str] = ()) -> str:
    """The robot file of this robot; ``comments`` become leading comment lines."""
    blocks = [_comment(comments)] if comments else []
    blocks.append(_table("[robot]", {"name": _text(robot.name), "base": _text(robot.bodies[0].name)}))
    blocks += [_table("[[body]]", _body(body)) for body in robot.bodies]
    blocks += [_table("[[joint]]", _joint(joint)) for joint in robot.joints]
    for frame in robot.frames:
        keys = {"name": _text(frame.name), "body": _text(frame.body), **_origin(frame.placement)}
        blocks.append(_table("[[frame]]", keys))
    blocks += [_table("[[thruster]]", _thruster(thruster)) for thruster in robot.thrusters]
    blocks += [_table("[[coupling]]", _coupling(coupling)) for coupling in robot.couplings]
    if robot.configurations:
        blocks.append(
            _table("[configurations]", {_text(name): _array(values) for name, values in robot.configurations.items()})
        )
    return "\n".join(block for block in blocks if block)


def _comment(comments: Iterable[str]) -> str:
    """Comment lines; what TOML forbids in a comment (control characters) is shown as an escape."""
    lines = [line for comment in comments for line in (comment.splitlines() or [""])]
    clean = ["".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line) for line in lines]
    return "".join(f"# {line}".rstrip() + "\n" for line in clean)


def _table(header: str, keys: dict[str, str]) -> str:
    return "\n".join([header, *(f"{key} = {value}" for key, value in keys.items())]) + "\n"


def _inline(keys: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key} = {value}" for key, value in keys.items()) + " }"


def _text(text: str) -> str:
    # names are printable, so JSON's escapes of quote and backslash are all that TOML needs
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    return repr(float(value) + 0.0)  # shortest text that reads back to the same double; no minus before zero


def _array(values: Iterable[float]) -> str:
    return "[" + ", ".join(_number(value) for value in values) + "]"


def _body(body: Body) -> dict[str, str]:
    inertia = body.inertia
    keys = {"name": _text(body.name), "mass": _number(inertia.mass)}
    if np.any(inertia.com):
        keys["com"] = _array(inertia.com)
    if inertia.mass > 0.0:
        t = inertia.tensor
        products = (t[0, 1], t[0, 2], t[1, 2])
        keys["inertia"] = _array((*np.diag(t), *(products if any(products) else ())))
    return keys


def _origin(pose: Pose) -> dict[str, str]:
    keys = {}
    if np.any(pose.translation):
        keys["xyz"] = _array(pose.translation)
    keys |= _rotation(pose.rotation)
    return {"origin": _inline(keys)} if keys else {}


def _rotation(rotation: Array) -> dict[str, str]:
    if np.array_equal(rotation, np.eye(3)):
        return {}
    rpy = rpy_from_rotation(rotation)
    degrees = np.round(np.rad2deg(rpy), 9) + 0.0
    if np.array_equal(rotation_from_rpy(np.deg2rad(degrees)), rotation):
        return {"rpy_deg": _array(degrees)}
    if np.array_equal(rotation_from_rpy(rpy), rotation):
        return {"rpy": _array(rpy)}
    return {"rotation": "[" + ", ".join(_array(row) for row in rotation) + "]"}


def _joint(joint: Joint) -> dict[str, str]:
    keys = {"name": _text(joint.name), "kind": _text(joint.kind), "parent": _text(joint.parent)}
    keys |= {"child": _text(joint.child), **_origin(joint.placement), "axis": _array(joint.axis)}
    if joint.spring is not None:
        keys["spring"] = _inline(_spring(joint.spring))
    if joint.damping:
        keys["damping"] = _number(joint.damping)
    if joint.friction is not None:
        keys["friction"] = _inline(_friction(joint.friction))
    if limits := _limits(joint.limits):
        keys["limits"] = _inline(limits)
    if joint.rotor is not None:
        keys["rotor"] = _inline(_rotor(joint.rotor))
    return keys


def _spring(spring: Spring) -> dict[str, str]:
    return {"stiffness": _number(spring.stiffness), "rest": _number(spring.rest)}


def _friction(friction: Friction) -> dict[str, str]:
    return {"static": _number(friction.static), "coulomb": _number(friction.coulomb)}


def _rotor(rotor: Rotor) -> dict[str, str]:
    return {"inertia": _number(rotor.inertia), "ratio": _number(rotor.ratio)}


def _limits(limits: Limits) -> dict[str, str]:
    values = {key: getattr(limits, key) for key in ("lower", "upper", "velocity", "effort")}
    return {key: _number(value) for key, value in values.items() if math.isfinite(value)}


def _thruster(thruster: Thruster) -> dict[str, str]:
    return {
        "name": _text(thruster.name),
        "body": _text(thruster.body),
        "position": _array(thruster.position),
        "direction": _array(thruster.direction),
        "force": _number(thruster.force),
    }


def _coupling(coupling: Coupling) -> dict[str, str]:
    numbers = {key: _number(getattr(coupling, key)) for key in ("stiffness", "damping", "ratio", "rest")}
    names = {key: _text(getattr(coupling, key)) for key in ("name", "first", "second")}
    return names | numbers
