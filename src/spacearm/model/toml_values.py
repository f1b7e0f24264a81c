"""The tables of a robot file as the model's values: angles from either key, poses, inertias, limits, springs."""

from __future__ import annotations

import math
import warnings

import numpy as np

from spacearm import checks
from spacearm.errors import ModelError, error_context
from spacearm.model._dh import DhRow
from spacearm.model.base import BaseConstraint
from spacearm.model.bus import thruster_places
from spacearm.model.loops import Loop
from spacearm.model.parts import (
    Body,
    CollisionShape,
    Coupling,
    Friction,
    Inertia,
    Joint,
    Limits,
    ModeShape,
    Pose,
    Thruster,
    Visual,
    unit_vector,
)
from spacearm.model.rotations import rotation_from_quaternion, rotation_from_rpy
from spacearm.model.toml_errors import Place
from spacearm.model.toml_schema import (
    BaseTable,
    CouplingTable,
    DhRowTable,
    FrictionTable,
    InertialKeys,
    LimitsTable,
    LoopTable,
    Origin,
    RotationTable,
    ShapeKeys,
    SpringTable,
    ThrusterTable,
    TomlTable,
    WheelTable,
)
from spacearm.model.wheels import EVEN_TILT, wheel, wheel_axes
from spacearm.typing import Array

#: An angle beyond this (rad) is more likely to be degrees.
LARGEST_ANGLE = 4 * math.pi


class UnitWarning(UserWarning):
    """A number that can be right but looks as if it were in another unit."""


def dh_row(row: DhRowTable, place: Place) -> DhRow:
    own = Place(place.path, row.joint)
    with error_context(own, fallback=True):
        alpha, theta = (_angle(row, key, own, sure=True) or 0.0 for key in ("alpha", "theta"))
        return DhRow(row.a, alpha, row.d, theta, row.kind)


def base_of(table: BaseTable | None, place: Place | str) -> BaseConstraint:
    """The constraint of the base; free where none is stated."""
    if table is None:
        return BaseConstraint()
    with error_context(place, fallback=True):
        return BaseConstraint(table.kind, None if table.axis is None else (table.axis[0], table.axis[1], table.axis[2]))


def make_coupling(table: CouplingTable, joints: list[Joint], place: Place) -> Coupling:
    revolute = next((joint.kind == "revolute" for joint in joints if joint.name == table.first), True)
    rest = rest_of(table, revolute, place)
    with error_context(place, fallback=True):
        return Coupling(table.name, table.first, table.second, table.stiffness, table.damping, table.ratio, rest)


def make_loop(table: LoopTable, place: Place) -> Loop:
    with error_context(place, fallback=True):
        return Loop(**table.model_dump())


def inertia_of(keys: InertialKeys, place: Place, link_frame: Pose | None = None) -> Inertia:
    """The inertia in the body's own frame; ``link_frame`` is the frame that the file gives it in, if another."""
    if keys.inertia is None:
        if keys.mass > 0.0:
            raise ModelError(
                "'inertia' is missing", place=str(place), hint="give [Ixx, Iyy, Izz]; [0, 0, 0] is a point mass"
            )
        tensor = np.zeros((3, 3))
    else:
        # Three numbers are the diagonal of principal axes.
        xx, yy, zz, xy, xz, yz = (*keys.inertia, 0.0, 0.0, 0.0)[:6]
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    com = np.array(keys.com)
    axes = rotation_of(keys.inertia_axes, place.key("inertia_axes")) if keys.inertia_axes is not None else None
    with error_context(place.key("mass"), fallback=True):
        # The mass by itself first: an error about it then names its own key and not the tensor's.
        Inertia(keys.mass)
    with error_context(place.key("inertia"), fallback=True):
        # checked in the axes given, before turning can hide what is wrong
        inertia = Inertia(keys.mass, com, tensor)
        if axes is not None:
            tensor = axes @ tensor @ axes.T
        if keys.inertia_about == "origin":
            # By the parallel axis theorem, which the ten parameters have in them.
            products = tensor[0, 1], tensor[0, 2], tensor[1, 2]
            inertia = Inertia.from_parameters([keys.mass, *(keys.mass * com), *np.diag(tensor), *products])
        elif axes is not None:
            # Turning leaves rounding off the diagonal: symmetric again.
            inertia = Inertia(keys.mass, com, 0.5 * (tensor + tensor.T))
        return inertia.transform(link_frame) if link_frame is not None and link_frame != Pose() else inertia


def shapes_of(
    keys: ShapeKeys, place: Place, link_frame: Pose | None = None
) -> tuple[tuple[Visual, ...], tuple[CollisionShape, ...]]:
    """Visuals and collision shapes in the body's own frame; ``link_frame`` is the frame that the file gives them in."""
    visuals, collisions = [], []
    for index, table in enumerate(keys.visual):
        own = place.key(f"visual[{index}]")
        if table.size is None and table.shape != "mesh":
            raise ModelError("'size' is missing", place=str(own), hint="expected lengths in m")
        pose = (link_frame or Pose()) @ pose_of(table.origin, own.key("origin"))
        with error_context(own, fallback=True):
            size = np.ones(3) if table.size is None else np.array(table.size)
            modes = [
                ModeShape(each.joint, np.array(each.translation), np.array(each.rotation)) for each in table.mode_shapes
            ]
            moved = [each.transform(link_frame or Pose()) for each in modes]
            visuals.append(Visual(table.shape, size, pose, table.colour, table.mesh, tuple(moved)))
    for index, solid in enumerate(keys.collision):
        own = place.key(f"collision[{index}]")
        pose = (link_frame or Pose()) @ pose_of(solid.origin, own.key("origin"))
        with error_context(own, fallback=True):
            collisions.append(CollisionShape(solid.shape, np.array(solid.size), pose))
    return tuple(visuals), tuple(collisions)


def friction_of(table: FrictionTable | None, place: Place) -> Friction | None:
    if table is None:
        return None
    with error_context(place, fallback=True):
        return Friction(table.coulomb if table.static is None else table.static, table.coulomb)


def limits_of(table: LimitsTable | None, revolute: bool, place: Place) -> Limits:
    if table is None:
        return Limits()
    _refuse_degrees(table, revolute, place)
    # Rates beyond 4 pi rad/s are usual for motors: no doubt there.
    doubts = {"lower": revolute, "upper": revolute, "velocity": False}
    found = {key: _angle(table, key, place, doubt) for key, doubt in doubts.items()} | {"effort": table.effort}
    with error_context(place, fallback=True):
        return Limits(**{key: value for key, value in found.items() if value is not None})


def rest_of(table: SpringTable, revolute: bool, place: Place) -> float:
    _refuse_degrees(table, revolute, place)
    return _angle(table, "rest", place, revolute) or 0.0


def axes_of(table: WheelTable, place: Place) -> list[tuple[str, Array]]:
    """Names and axes of the wheels of a table: one, or those of a set."""
    tilt = _angle(table, "tilt", place, sure=True)
    if table.set != "pyramid" and tilt is not None:
        raise ModelError("'tilt' applies to the wheels of a pyramid", place=str(place), hint='expected set = "pyramid"')
    if table.set == "orthogonal" and table.axis is not None:
        raise ModelError("'axis' does not apply", place=str(place), hint="an orthogonal set has the axes x, y, z")
    if table.set is None and table.axis is None:
        raise ModelError("'axis' is missing", place=str(place), hint='a unit vector; or set = "pyramid", "orthogonal"')
    with error_context(place.key("axis"), fallback=True):
        axis = unit_vector((0.0, 0.0, 1.0) if table.axis is None else table.axis, "axis")
    if table.set is None:
        return [(table.name, axis)]
    with error_context(place.key("tilt"), fallback=True):
        axes = wheel_axes(table.set, axis, EVEN_TILT if tilt is None else tilt)
    return [(f"{table.name}{index + 1}", each) for index, each in enumerate(axes)]


def wheels_of(table: WheelTable, place: Place, link_frame: Pose | None = None) -> list[tuple[Body, Joint]]:
    """Bodies and joints of the wheels of a table; ``link_frame`` is the frame that the file gives the axes in."""
    rotation = np.eye(3) if link_frame is None else link_frame.rotation
    axes = axes_of(table, place)
    with error_context(place, fallback=True):
        return [
            wheel(
                name,
                table.body,
                axis if link_frame is None else rotation @ axis,
                table.inertia,
                table.torque,
                table.speed,
            )
            for name, axis in axes
        ]


def thrusters_of(table: ThrusterTable, place: Place, link_frame: Pose | None = None) -> list[Thruster]:
    """The thruster of a table, or those of a set; ``link_frame`` is the frame that the file gives them in."""
    needed, other = ("size", "direction") if table.set else ("direction", "size")
    if getattr(table, other) is not None:
        raise ModelError(f"{other!r} does not apply", place=str(place), hint="'size' applies to a box with a set")
    for key in (needed,) if table.set else ("position", needed):
        if getattr(table, key) is None:
            hint = "edges of the box, m" if table.set else "or set = 12 or 16, and size"
            raise ModelError(f"{key!r} is missing", place=str(place), hint=hint)
    centre = np.zeros(3) if table.position is None else np.array(table.position)
    if table.set:
        with error_context(place.key("size"), fallback=True):
            rows = thruster_places(table.set, table.size or ())
        given = [(f"{table.name}_{name}", centre + where, direction) for name, where, direction in rows]
    else:
        with error_context(place.key("direction"), fallback=True):
            given = [(table.name, centre, unit_vector(table.direction or (), "direction"))]
    if link_frame is not None:
        rotation, shift = link_frame.rotation, link_frame.translation
        given = [(name, rotation @ where + shift, rotation @ direction) for name, where, direction in given]
    last = (table.force, table.minimum_pulse, table.specific_impulse, table.tank)
    with error_context(place, fallback=True):
        return [Thruster(name, table.body, where, direction, *last) for name, where, direction in given]


def pose_of(origin: Origin, place: Place) -> Pose:
    with error_context(place, fallback=True):
        return Pose(rotation_of(origin, place), np.array(origin.xyz))


def rotation_of(rotation: RotationTable, place: Place) -> Array:
    given = {key: getattr(rotation, key) for key in ("rpy", "rpy_deg", "quaternion", "rotation")}
    key = checks.check_exclusive(given, place=str(place), error=ModelError)
    if key is None:
        return np.eye(3)
    value = given[key]
    with error_context(place.key(key), fallback=True):
        if key == "rotation":
            return Pose(np.array(value)).rotation
        if key == "quaternion":
            return rotation_from_quaternion(checks.unit_vector(value, "quaternion", (4,), error=ModelError))
        if key == "rpy_deg":
            return rotation_from_rpy(np.deg2rad(value))
        for angle in value:
            if abs(angle) > LARGEST_ANGLE:
                raise ModelError(f"angle is {angle:g} rad", hint="for degrees use 'rpy_deg'")
        return rotation_from_rpy(value)


def _angle(table: TomlTable, key: str, place: Place, doubt: bool = True, *, sure: bool = False) -> float | None:
    """The one of ``key`` and ``key_deg`` that is given, in rad; ``sure``: no such angle can be meant: an error."""
    value, degrees = getattr(table, key), getattr(table, f"{key}_deg")
    checks.check_exclusive({key: value, f"{key}_deg": degrees}, place=str(place), error=ModelError)
    if degrees is not None:
        return math.radians(degrees)
    if value is not None and (doubt or sure) and LARGEST_ANGLE < abs(value) < math.inf:
        if sure:
            raise ModelError(f"angle is {value:g} rad", place=str(place.key(key)), hint=f"for degrees use '{key}_deg'")
        warn_of_degrees(value, place.key(key), f"{key}_deg")
    return None if value is None else float(value)


def warn_of_degrees(value: float, place: Place, key: str) -> None:
    """Warns that this may be degrees; a joint may well turn many times, so it is not an error."""
    warnings.warn(UnitWarning(f"{place}: angle is {value:g} rad (for degrees use {key!r})"), stacklevel=2)


def _refuse_degrees(table: LimitsTable | SpringTable, revolute: bool, place: Place) -> None:
    """A prismatic joint has no angles."""
    if revolute:
        return
    for key in type(table).model_fields:
        if key.endswith("_deg") and getattr(table, key) is not None:
            raise ModelError(
                f"{key!r} is given for a prismatic joint", place=str(place), hint=f"use {key[:-4]!r}, in m"
            )
