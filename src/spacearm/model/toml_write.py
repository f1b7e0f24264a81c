"""A :class:`~spacearm.model.Robot` as TOML text that reads back to an equal robot, bit for bit.

Rotations are written as ``rpy_deg`` or ``rpy`` where that gives back the very same matrix, otherwise as the matrix.
Joints made from a DH table or a transmission are written out as the plain joints that they became.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from spacearm.model.loops import Loop
from spacearm.model.parts import Body, Limits, Part, Pose, Visual
from spacearm.model.robot import Robot
from spacearm.model.rotations import rotation_from_rpy, rpy_from_rotation
from spacearm.model.slosh import Tank
from spacearm.typing import Array

#: The file's tables, by the field of the robot that they hold.
_TABLES = {
    "bodies": "body",
    "joints": "joint",
    "frames": "frame",
    "thrusters": "thruster",
    "couplings": "coupling",
    "loops": "loop",
    "tanks": "tank",
}


#: Keys that are left out where they have these values.
_SILENT = {"damping": 0.0, "minimum_pulse": 0.0, "specific_impulse": math.inf, "tank": ""}


def toml_text(robot: Robot, comments: Iterable[str] = ()) -> str:
    """The robot file of this robot; ``comments`` become leading comment lines."""
    blocks = [_comment(comments), _table("[robot]", {"name": robot.name, "base": robot.bodies[0].name})]
    if not robot.base.is_free:
        keys = {"kind": robot.base.kind} | ({} if robot.base.axis is None else {"axis": robot.base.axis})
        blocks.append(_table("[base]", keys))
    for kind, name in _TABLES.items():
        blocks += [_table(f"[[{name}]]", _keys(part)) for part in getattr(robot, kind)]
    if robot.configurations:
        blocks.append(_table("[configurations]", {_text(name): each for name, each in robot.configurations.items()}))
    return "\n".join(block for block in blocks if block)


def _comment(comments: Iterable[str]) -> str:
    """Comment lines; what TOML forbids in a comment (control characters) is shown as an escape."""
    lines = [line for comment in comments for line in (comment.splitlines() or [""])]
    clean = ["".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line) for line in lines]
    return "".join(f"# {line}".rstrip() + "\n" for line in clean)


# -- values as text --------------------------------------------------------------------------------------------------


def _table(header: str, keys: dict[str, Any]) -> str:
    return "\n".join([header, *(f"{key} = {_text(value)}" for key, value in keys.items())]) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, str):  # names are printable, so JSON's escapes of quote and backslash are all that TOML needs
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_text(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list) and value and isinstance(value[0], dict):  # one to a line
        return "[\n" + "".join(f"  {_text(each)},\n" for each in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, np.ndarray | list | tuple):
        return "[" + ", ".join(_text(each) for each in value) + "]"
    return repr(float(value) + 0.0)  # shortest text that reads back to the same double; no minus before zero


# -- parts as keys ---------------------------------------------------------------------------------------------------


def _keys(part: Part) -> dict[str, Any]:
    """The keys of a part: its fields by their names, but for inertias and places; what says nothing is left out."""
    keys: dict[str, Any] = {}
    for each in fields(part):  # type: ignore[arg-type]
        keys |= _key(part, each.name, getattr(part, each.name))
    # Bodies and joints of a written file have the liquid already.
    return keys | {"included": True} if isinstance(part, Tank) else keys


def _key(part: Part, name: str, value: Any) -> dict[str, Any]:
    """What a field of a part becomes."""
    if isinstance(part, Body) and name == "inertia":
        return _inertia(part)
    if isinstance(part, Body) and name in ("visuals", "collisions"):
        return {name[:-1]: [_keys(each) for each in value]} if value else {}
    if name == "mode_shapes":
        return {name: [_keys(each) for each in value]} if value else {}
    if isinstance(value, Pose):
        return {"origin": origin} if (origin := _origin(value)) else {}
    if isinstance(value, Limits):
        finite = {key: limit for key, limit in _keys(value).items() if math.isfinite(limit)}
        return {"limits": finite} if finite else {}
    if isinstance(value, Part):
        return {name: _keys(value)}
    if isinstance(part, Loop) and name in ("distance", "ratio", "offset"):
        return (
            {name: value} if (part.kind == "gear") == (name != "distance") and part.kind in ("gear", "distance") else {}
        )
    if isinstance(part, Tank):
        return {} if value is None else {name: value}
    silent = value is None or (isinstance(part, Visual) and isinstance(value, str) and not value)
    return {} if silent or (name in _SILENT and value == _SILENT[name]) else {name: value}


def _inertia(body: Body) -> dict[str, Any]:
    inertia, t = body.inertia, body.inertia.tensor
    keys: dict[str, Any] = {"mass": inertia.mass}
    if np.any(inertia.com):
        keys["com"] = inertia.com
    if inertia.mass > 0.0:
        products = (t[0, 1], t[0, 2], t[1, 2])
        keys["inertia"] = (*np.diag(t), *(products if any(products) else ()))
    return keys


def _origin(pose: Pose) -> dict[str, Any]:
    xyz = {"xyz": pose.translation} if np.any(pose.translation) else {}
    return xyz | _rotation(pose.rotation)


def _rotation(rotation: Array) -> dict[str, Any]:
    if np.array_equal(rotation, np.eye(3)):
        return {}
    rpy = rpy_from_rotation(rotation)
    degrees = np.round(np.rad2deg(rpy), 9) + 0.0
    if np.array_equal(rotation_from_rpy(np.deg2rad(degrees)), rotation):
        return {"rpy_deg": degrees}
    if np.array_equal(rotation_from_rpy(rpy), rotation):
        return {"rpy": rpy}
    return {"rotation": rotation}
