"""The tables of a robot file as the model's values: angles from either key, poses, inertias, limits, springs."""

from __future__ import annotations

import math
import warnings

import numpy as np

from spacearm.checks import UNIT_TOLERANCE
from spacearm.errors import ModelError
from spacearm.model.dh import DhRow
from spacearm.model.parts import Coupling, Friction, Inertia, Joint, Limits, Pose
from spacearm.model.rotations import rotation_from_quaternion, rotation_from_rpy
from spacearm.model.toml_errors import Place, located
from spacearm.model.toml_schema import (
    CouplingTable,
    DhRowTable,
    FrictionTable,
    InertialKeys,
    LimitsTable,
    Origin,
    SpringTable,
    Turn,
)
from spacearm.typing import Array

#: An angle beyond this (rad) is more likely to be degrees.
LARGEST_ANGLE = 4 * math.pi


class UnitWarning(UserWarning):
    """A number that can be right but looks as if it were in another unit."""


def dh_row(row: DhRowTable, place: Place) -> DhRow:
    here = Place(place.path, row.joint)
    alpha = _angle(row.alpha, row.alpha_deg, here, "alpha", sure=True)
    theta = _angle(row.theta, row.theta_deg, here, "theta", sure=True)
    with located(here):
        return DhRow(row.a, alpha or 0.0, row.d, theta or 0.0, row.kind)


def coupling_of(table: CouplingTable, joints: list[Joint], place: Place) -> Coupling:
    turns = next((joint.kind == "revolute" for joint in joints if joint.name == table.first), True)
    rest = rest_of(table, turns, place)
    with located(place):
        return Coupling(table.name, table.first, table.second, table.stiffness, table.damping, table.ratio, rest)


def inertia_of(keys: InertialKeys, place: Place, link_frame: Pose | None = None) -> Inertia:
    """The inertia in the body's own frame; ``link_frame`` is the frame that the file gives it in, if another."""
    if keys.inertia is None:
        if keys.mass > 0.0:
            raise ModelError(
                "'inertia' is missing", place=str(place), hint="give [Ixx, Iyy, Izz]; [0, 0, 0] is a point mass"
            )
        tensor = np.zeros((3, 3))
    else:
        xx, yy, zz, xy, xz, yz = (*keys.inertia, 0.0, 0.0, 0.0)[:6]
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    com = np.array(keys.com)
    axes = rotation_of(keys.inertia_axes, place.key("inertia_axes")) if keys.inertia_axes is not None else None
    with located(place.key("mass")):
        Inertia(keys.mass)
    with located(place.key("inertia")):
        # checked in the axes given, before turning can hide what is wrong
        inertia = Inertia(keys.mass, com, tensor)
        if axes is not None:
            tensor = axes @ tensor @ axes.T
        if keys.inertia_about == "origin":
            inertia = Inertia.from_parameters(
                [
                    keys.mass,
                    *(keys.mass * com),
                    *np.diag(tensor),
                    tensor[0, 1],
                    tensor[0, 2],
                    tensor[1, 2],
                ]
            )
        elif axes is not None:
            inertia = Inertia(keys.mass, com, 0.5 * (tensor + tensor.T))
        return inertia.moved(link_frame) if link_frame is not None and link_frame != Pose() else inertia


def friction_of(table: FrictionTable | None, place: Place) -> Friction | None:
    if table is None:
        return None
    with located(place):
        return Friction(table.coulomb if table.static is None else table.static, table.coulomb)


def limits_of(table: LimitsTable | None, turns: bool, place: Place) -> Limits:
    if table is None:
        return Limits()
    _no_degrees(table, turns, place)
    lower = _angle(table.lower, table.lower_deg, place, "lower", turns)
    upper = _angle(table.upper, table.upper_deg, place, "upper", turns)
    velocity = _angle(table.velocity, table.velocity_deg, place, "velocity", doubt=False)
    with located(place):
        return Limits(
            -math.inf if lower is None else lower,
            math.inf if upper is None else upper,
            math.inf if velocity is None else velocity,
            math.inf if table.effort is None else table.effort,
        )


def rest_of(table: SpringTable, turns: bool, place: Place) -> float:
    _no_degrees(table, turns, place)
    return _angle(table.rest, table.rest_deg, place, "rest", turns) or 0.0


def pose_of(origin: Origin, place: Place) -> Pose:
    with located(place):
        return Pose(rotation_of(origin, place), np.array(origin.xyz))


def rotation_of(turn: Turn, place: Place) -> Array:
    given = [key for key in ("rpy", "rpy_deg", "quaternion", "rotation") if getattr(turn, key) is not None]
    if len(given) > 1:
        raise ModelError(f"both {given[0]!r} and {given[1]!r} are given", place=str(place), hint="expected one of them")
    here = place.key(given[0]) if given else place
    with located(here):
        if turn.rpy is not None:
            for angle in turn.rpy:
                if abs(angle) > LARGEST_ANGLE:
                    raise ModelError(f"angle is {angle:g} rad", hint="for degrees use 'rpy_deg'")
            return rotation_from_rpy(turn.rpy)
        if turn.rpy_deg is not None:
            return rotation_from_rpy(np.deg2rad(turn.rpy_deg))
        if turn.quaternion is not None:
            length = float(np.linalg.norm(turn.quaternion))
            if abs(length - 1.0) > UNIT_TOLERANCE:
                raise ModelError(f"quaternion has length {length:.6g}", hint="expected a unit quaternion (w, x, y, z)")
            return rotation_from_quaternion(turn.quaternion)
        if turn.rotation is not None:
            return Pose(np.array(turn.rotation)).rotation
    return np.eye(3)


def _angle(
    value: float | None,
    degrees: float | None,
    place: Place,
    key: str,
    doubt: bool = True,
    *,
    sure: bool = False,
) -> float | None:
    """The one of two keys that is given, in rad; ``sure``: no such angle can be meant, so it is an error."""
    if value is not None and degrees is not None:
        raise ModelError(f"both {key!r} and '{key}_deg' are given", place=str(place), hint="expected one of them")
    if degrees is not None:
        return math.radians(degrees)
    if value is not None and (doubt or sure) and LARGEST_ANGLE < abs(value) < math.inf:
        if sure:
            raise ModelError(f"angle is {value:g} rad", place=str(place.key(key)), hint=f"for degrees use '{key}_deg'")
        doubt_angle(value, place.key(key), f"{key}_deg")
    return value


def doubt_angle(value: float, place: Place, key: str) -> None:
    """Warns that this may be degrees; a joint may well turn many times, so it is no error."""
    warnings.warn(UnitWarning(f"{place}: angle is {value:g} rad (for degrees use {key!r})"), stacklevel=2)


def _no_degrees(table: LimitsTable | SpringTable, turns: bool, place: Place) -> None:
    """A prismatic joint has no angles."""
    if turns:
        return
    for key in type(table).model_fields:
        if key.endswith("_deg") and getattr(table, key) is not None:
            raise ModelError(
                f"{key!r} is given for a prismatic joint", place=str(place), hint=f"use {key[:-4]!r}, in m"
            )
