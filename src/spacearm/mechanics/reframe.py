"""Frames that make the equations short: Denavit-Hartenberg's.

A program may express each body in any frame fixed to it, as long as nobody outside sees it. With z along the joint's
axis, the origin where the common normal with the next joint's axis meets it, and x along that normal, a joint is two
turns about coordinate axes and two shifts along them, and most products in the recursions vanish. Denavit and
Hartenberg, A kinematic notation for lower-pair mechanisms, J. Applied Mechanics 22 (1955).

Inertias go to these frames by a constant linear map. Where everything is free, the base may have another frame as well:
the first joint's. Where two axes are almost parallel the normal lies far away; there
the origin stays near, for the sake of rounding, and the shift is a general one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spacearm.mechanics.spatial import ALIGNMENT_TOLERANCE, snap_entries
from spacearm.model import Pose, Robot
from spacearm.model.parts import MOMENTS, skew, symmetric_six
from spacearm.model.rotations import rotation_about
from spacearm.typing import Array

#: How much further than the next joint's origin an origin may lie along its axis.
_REACH = 4.0
#: A part of a shift that is this much smaller than the whole is a rounding error.
ROUNDING = 1e-15


class AxisRotation(NamedTuple):
    """A constant turn about coordinate axis ``axis`` (cosine, sine), then seen from ``arm`` away, outer axes."""

    axis: int
    c: float
    s: float
    arm: Array


@dataclass(frozen=True)
class Screw:
    """A joint between two frames: constant turns, outermost first, then a turn by ``angle`` (rad) and a shift by
    ``along`` (m) about and along z, to which the joint's position is added."""

    rotations: tuple[AxisRotation, ...]
    angle: float
    along: float


@dataclass(frozen=True)
class ReframedTree:
    """Frames of all bodies, each in its body's own frame, and every joint between them.

    ``places``: the child's frame in the parent's at position zero. ``screws``: the same taken apart, where the frames
    are other ones than the robot's. ``base``: the frame of the base taken apart, where that is another one.
    """

    frames: tuple[Pose, ...]
    places: tuple[Pose, ...]
    screws: tuple[Screw | None, ...]
    base: Screw | None = None


def reframe_robot(robot: Robot, *, free: bool = False) -> ReframedTree | None:
    """Frames and joints of a robot; None where its own frames are as good: axes along x, y or z, placements sparse.

    With ``free``, the base too is seen in another frame, whose z is the first joint's axis (without skew axes: in the
    first joint's own): that joint then has no constant part, and lets no torque through about that z.
    """
    # A pose between two such frames has two turns and two shifts, that is four numbers where a general one has six.
    # Aligned arms have zeros enough as they are.
    plain = all(_plain(joint.placement.rotation, joint.axis) for joint in robot.joints)
    # Aligned robots already have sparse placements: other frames would only add a map.
    if (plain and not free) or not robot.joints:
        return None
    frames = [Pose()] * len(robot.bodies) if plain else _frames(robot)
    first, base = robot.parents.index(0), None
    if free:
        own = robot.joints[first].placement @ frames[first + 1]
        screw = _screw(own)
        base = Screw(screw.rotations, 0.0, screw.along)
        frames[0] = own if plain else own @ Pose(rotation_about(np.array([0.0, 0.0, 1.0]), -screw.angle))
    places: list[Pose] = []
    screws: list[Screw | None] = []
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        places.append(frames[parent].inverse() @ joint.placement @ frames[i + 1])
        if plain:
            places[i] = Pose() if i == first else places[i]
            screws.append(None)
        else:
            screws.append(Screw((), screw.angle, 0.0) if free and i == first else _screw(places[i]))
    return ReframedTree(tuple(frames), tuple(places), tuple(screws), None if plain else base)


def _plain(fixed: Array, axis: Array) -> bool:
    return bool(np.count_nonzero(snap_entries(axis)) == 1 and np.count_nonzero(snap_entries(fixed)) < 9)


class _Line(NamedTuple):
    """A joint's axis at zero configuration, base axes."""

    point: Array
    direction: Array


def _frames(robot: Robot) -> list[Pose]:
    poses, next_joint = [Pose()], dict[int, int]()
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        poses.append(poses[parent] @ joint.placement)
        next_joint.setdefault(parent, i + 1)
    lines = [_Line(poses[0].translation, np.array([0.0, 0.0, 1.0]))]
    for pose, joint in zip(poses[1:], robot.joints, strict=True):
        lines.append(_Line(pose.translation, pose.rotation @ joint.axis))
    frames = [Pose()]
    for body in range(1, len(poses)):
        own, before = lines[body], lines[robot.parents[body - 1]]
        back = _foot(own, before)
        ahead = _foot(own, lines[next_joint[body]]) if body in next_joint else back
        normal = ahead.normal if body in next_joint else -ahead.normal
        # The normal to the next joint first, since it makes the next placement sparse; then that to the joint before.
        t = next((foot.at for foot in (ahead, back) if foot.at is not None), 0.0)
        z = own.direction
        # Orthogonal to z again: a cross product of nearly parallel axes is so only to rounding.
        x = normal - (normal @ z) * z
        x /= np.linalg.norm(x)
        frames.append(poses[body].inverse() @ Pose(np.column_stack([x, np.cross(z, x), z]), own.point + t * z))
    return frames


class _Foot(NamedTuple):
    """Where the common normal leaves a line (m along it; None: too far away) and its direction."""

    at: float | None
    normal: Array


def _foot(own: _Line, other: _Line) -> _Foot:
    apart, across = other.point - own.point, np.cross(own.direction, other.direction)
    sine = float(np.linalg.norm(across))
    if sine < ALIGNMENT_TOLERANCE:
        t = float(apart @ own.direction)
        normal = apart - t * own.direction
        if np.linalg.norm(normal) <= 1e-9 * np.linalg.norm(apart):  # the same line: any normal will do
            normal = np.cross(own.direction, np.eye(3)[int(np.argmin(np.abs(own.direction)))])
        return _Foot(t, normal)
    # Foot of the common normal of two lines, m along the first; it runs off as 1 / sine.
    t = float(np.cross(apart, other.direction) @ across) / sine**2
    return _Foot(t if abs(t) <= _REACH * float(np.linalg.norm(apart)) else None, across / sine)


def _screw(relative: Pose) -> Screw:
    """A pose as turns about z, x, z with shifts along these axes, where these are not far longer than itself."""
    r, p = relative.rotation, relative.translation
    sine = math.hypot(r[0, 2], r[1, 2])
    if sine < ALIGNMENT_TOLERANCE:
        up = 1.0 if r[2, 2] > 0.0 else -1.0
        return Screw(
            (AxisRotation(0, up, 0.0, np.array([p[0], p[1], 0.0])),), math.atan2(up * r[1, 0], r[0, 0]), up * p[2]
        )
    if abs(r[0, 2]) < ALIGNMENT_TOLERANCE:  # no first turn
        c, s, sine = 1.0, 0.0, -r[1, 2]
    else:
        c, s = -r[1, 2] / sine, r[0, 2] / sine
    length = math.hypot(sine, r[2, 2])
    tilt = (r[2, 2] / length, sine / length)
    # What is left to be turned about z: not from the last row, which is small where the tilt is.
    x, y = np.array([c, s, 0.0]), np.array([-s * tilt[0], c * tilt[0], tilt[1]])
    angle = math.atan2(y @ r[:, 0], x @ r[:, 0])
    # The shift along z, the rotated x and the rotated z: a basis unless the axes are parallel.
    first, normal, along = np.linalg.solve(np.column_stack([[0.0, 0.0, 1.0], [c, s, 0.0], r[:, 2]]), p)
    size = float(np.abs(p).max())
    if max(abs(first), abs(along)) > 2.0 * _REACH * size:
        arms, along = (p, np.zeros(3)), 0.0
    else:
        first, normal, along = (0.0 if abs(part) <= ROUNDING * size else part for part in (first, normal, along))
        arms = (np.array([0.0, 0.0, first]), np.array([normal, 0.0, 0.0]))
    if s == 0.0:
        return Screw((AxisRotation(0, *tilt, arms[0] + arms[1]),), angle, along)
    return Screw((AxisRotation(2, c, s, arms[0]), AxisRotation(0, *tilt, arms[1])), angle, along)


def transport(pose: Pose) -> Array:
    """Matrix (10, 10): linear inertia parameters in an inner frame to those of the same body in the outer frame."""
    rotation, shift = pose.rotation, pose.translation
    matrix = np.zeros((10, 10))
    matrix[0, 0] = 1.0
    matrix[1:4, 0] = shift
    matrix[1:4, 1:4] = rotation
    # I_o = R I R^T - m [p][p] - ([p][R h] + [R h][p]): linear in m, h, I, column by column.
    matrix[4:, 0] = symmetric_six(-skew(shift) @ skew(shift))
    for k in range(3):
        arm = rotation[:, k]
        cross = -(skew(shift) @ skew(arm) + skew(arm) @ skew(shift))
        matrix[4:, 1 + k] = symmetric_six(cross)
    for k, (i, j) in enumerate(MOMENTS):
        unit = np.zeros((3, 3))
        unit[i, j] = unit[j, i] = 1.0
        matrix[4:, 4 + k] = symmetric_six(rotation @ unit @ rotation.T)
    return matrix
