"""Simple shapes on frames, and the distances between pairs of them, in closed form on CasADi scalars.

A pair gives one or several :class:`Touch`: signed gap, point between the two surfaces, normal from the first shape to
the second. Branches are chosen by ``if_else`` and every root and quotient is kept away from zero, so that derivatives
stay finite where surfaces, edges or axes meet.

Frames: poses are of the shapes' frames in the world; points and normals come back in world axes. Gaps are negative
where shapes overlap. Most pairs reduce to a point and a segment, a circle or a box, thickened by radii (nearest points
after C. Ericson, Real-Time Collision Detection (2005), section 5.1); capsules against capsules are in
:mod:`spacearm.mechanics.capsules`, boxes against boxes and capsules in :mod:`spacearm.mechanics.patches`. A pair of
shapes has a fixed number of places, so that a contact's memory keeps its layout whatever the shapes do. There are no
meshes and no pairs beyond those in ``PAIRS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import InputError
from spacearm.mechanics.capsules import capsule_capsule, nearest_on_segment
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.patches import box_box, capsule_box
from spacearm.mechanics.spatial import SX
from spacearm.typing import Array

#: Added to squares under a root, m2: a length of 1e-100 m has no direction.
_TINY = 1e-200


@dataclass(frozen=True)
class Shape:
    """A shape in its frame; lengths in m."""

    def __post_init__(self) -> None:
        for each in fields(self):
            checks.positive(getattr(self, each.name), each.name, unit="m", place=self.kind)

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Sphere(Shape):
    """About the frame's origin."""

    radius: float


@dataclass(frozen=True)
class Plane(Shape):
    """z = 0, without end; z points out of the material."""


@dataclass(frozen=True)
class Disc(Shape):
    """The part of z = 0 within ``radius``, and the material below it."""

    radius: float


@dataclass(frozen=True)
class Capsule(Shape):
    """A line of ``length`` along z, centred, thickened by ``radius``."""

    radius: float
    length: float


@dataclass(frozen=True)
class Cylinder(Shape):
    """About z, centred; ``length`` from end to end."""

    radius: float
    length: float


@dataclass(frozen=True)
class Box(Shape):
    """Centred, with edges along the axes."""

    x: float
    y: float
    z: float


@dataclass(frozen=True)
class Cone(Shape):
    """The inside of a nozzle about z: a wall from the throat at z = 0 to the mouth at z = ``length``."""

    throat: float
    mouth: float
    length: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mouth > self.throat:
            raise InputError(f"mouth {self.mouth:g} m, throat {self.throat:g} m", place="cone", hint="mouth is wider")


@dataclass(frozen=True)
class Hole(Shape):
    """A bore of ``radius`` about z, open at z = 0, that goes down to z = -``depth``."""

    radius: float
    depth: float


@dataclass(frozen=True)
class Ring(Shape):
    """A circle of ``radius`` in z = 0, thickened by ``tube``."""

    radius: float
    tube: float


#: Every shape by its name.
SHAPES: dict[str, type[Shape]] = {
    shape.__name__.lower(): shape for shape in (Sphere, Plane, Disc, Capsule, Cylinder, Box, Cone, Hole, Ring)
}


class Touch(NamedTuple):
    """Where two shapes are nearest: signed gap (m), point between the surfaces, normal from first to second."""

    gap: SX
    point: SX
    normal: SX


def length_of(vector: SX) -> SX:
    """Length, with a finite derivative at zero."""
    return ca.sqrt(ca.dot(vector, vector) + _TINY)


def _unit(vector: SX, fallback: SX) -> SX:
    """Direction; ``fallback`` where there is none."""
    size = length_of(vector)
    return ca.if_else(size > 1e-90, vector / size, fallback)


def _clip(value: SX, low: float | SX, high: float | SX) -> SX:
    return ca.fmin(ca.fmax(value, low), high)


def _local(pose: SymbolicPose, point: SX) -> SX:
    return pose.rotation.T @ (point - pose.origin)


def _world(pose: SymbolicPose, point: SX) -> SX:
    return pose.origin + pose.rotation @ point


def _ball_ball(first: SX, second: SX, r1: float, r2: float, fallback: SX) -> Touch:
    """The touch of two balls about these centres; ``fallback`` is its normal where the centres fall together."""
    apart = second - first
    # The point lies half way in the gap, or half way in the overlap: which shape comes first does not matter.
    normal = _unit(apart, fallback)
    gap = length_of(apart) - r1 - r2
    return Touch(gap, first + normal * (r1 + 0.5 * gap), normal)


def _ends(shape: Any, pose: SymbolicPose) -> tuple[SX, SX]:
    """Both ends of a shape's axis, world."""
    half = 0.5 * shape.length * pose.rotation[:, 2]
    return pose.origin - half, pose.origin + half


# -- pairs ------------------------------------------------------------------------------------------------------


def _sphere_sphere(a: Sphere, at: SymbolicPose, b: Sphere, to: SymbolicPose) -> list[Touch]:
    return [_ball_ball(at.origin, to.origin, a.radius, b.radius, at.rotation[:, 2])]


def _sphere_capsule(a: Sphere, at: SymbolicPose, b: Capsule, to: SymbolicPose) -> list[Touch]:
    return [_ball_ball(at.origin, nearest_on_segment(at.origin, *_ends(b, to)), a.radius, b.radius, to.rotation[:, 0])]


def _capsule_capsule(a: Capsule, at: SymbolicPose, b: Capsule, to: SymbolicPose) -> list[Touch]:
    """The two ends of what lies along the other."""
    places = capsule_capsule(_ends(a, at), _ends(b, to), (a.radius, b.radius), at.rotation[:, 0])
    return [Touch(*place) for place in places]


def _ball_plane(point: SX, radius: float, to: SymbolicPose) -> Touch:
    normal = to.rotation[:, 2]
    gap = ca.dot(point - to.origin, normal) - radius
    return Touch(gap, point - normal * (radius + 0.5 * gap), -normal)


def _sphere_plane(a: Sphere, at: SymbolicPose, b: Plane, to: SymbolicPose) -> list[Touch]:
    return [_ball_plane(at.origin, a.radius, to)]


def _capsule_plane(a: Capsule, at: SymbolicPose, b: Plane, to: SymbolicPose) -> list[Touch]:
    # Both ends, always: the lower one alone would jump from end to end of a capsule that lies on the plane.
    return [_ball_plane(end, a.radius, to) for end in _ends(a, at)]


def _box_plane(a: Box, at: SymbolicPose, b: Plane, to: SymbolicPose) -> list[Touch]:
    # All eight corners: the four below change as the box turns, and a memory of contact belongs to one corner.
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    return [_ball_plane(_world(at, ca.SX(sign * _half(a))), 0.0, to) for sign in signs]


def _sphere_disc(a: Sphere, at: SymbolicPose, b: Disc, to: SymbolicPose) -> list[Touch]:
    """Above the disc its face, beside it its edge."""
    local = _local(to, at.origin)
    across = ca.vertcat(local[0], local[1], 0)
    reach = length_of(across)
    # length_of never is zero: a sphere over the disc's centre does not divide by zero.
    edge = across * ca.fmin(1, b.radius / reach)
    apart = local - edge
    size = length_of(apart)
    inside = reach <= b.radius
    gap = ca.if_else(inside, local[2], size) - a.radius
    out = ca.if_else(inside, ca.SX([0, 0, 1]), _unit(apart, ca.SX([0, 0, 1])))
    normal = to.rotation @ out
    return [Touch(gap, at.origin - normal * (a.radius + 0.5 * gap), -normal)]


def _half(box: Box) -> Array:
    return 0.5 * np.array([box.x, box.y, box.z])


def _ball_box(centre: SX, radius: float, b: Box, to: SymbolicPose) -> Touch:
    """Outside, the nearest point of the box; inside, the nearest face."""
    local, half = _local(to, centre), _half(b)
    near = ca.vertcat(*(_clip(local[i], -half[i], half[i]) for i in range(3)))
    apart = local - near
    size = length_of(apart)
    depths = [ca.fabs(local[i]) - half[i] for i in range(3)]
    deepest = ca.fmax(ca.fmax(depths[0], depths[1]), depths[2])
    face = ca.SX.zeros(3)
    # Backwards, so that of equal depths (along a diagonal) the first axis wins, always the same one.
    for i in reversed(range(3)):
        own = ca.SX.zeros(3)
        own[i] = ca.if_else(local[i] >= 0, 1, -1)
        face = ca.if_else(depths[i] >= deepest, own, face)
    inside = deepest <= 0
    gap = ca.if_else(inside, deepest, size) - radius
    normal = to.rotation @ ca.if_else(inside, face, _unit(apart, face))
    return Touch(gap, centre - normal * (radius + 0.5 * gap), -normal)


def _sphere_box(a: Sphere, at: SymbolicPose, b: Box, to: SymbolicPose) -> list[Touch]:
    return [_ball_box(at.origin, a.radius, b, to)]


def _capsule_box(a: Capsule, at: SymbolicPose, b: Box, to: SymbolicPose) -> list[Touch]:
    """The two ends of what lies along a face."""
    along = 0.5 * a.length * (to.rotation.T @ at.rotation[:, 2])
    places = capsule_box(a.radius, _local(to, at.origin), along, _half(b))
    return [Touch(gap, _world(to, point), to.rotation @ normal) for gap, point, normal in places]


def _box_box(a: Box, at: SymbolicPose, b: Box, to: SymbolicPose) -> list[Touch]:
    """Four places, along the edges of the box that has the smaller faces."""
    # Patches are laid out along the edges of the first box: the smaller one, whose edges bound the patch in most poses.
    areas = [np.prod(np.sort(_half(box))[1:]) for box in (a, b)]
    if areas[1] < areas[0]:
        return [touch._replace(normal=-touch.normal) for touch in _box_box(b, to, a, at)]
    places = box_box(_half(a), _half(b), at.rotation.T @ to.rotation, _local(at, to.origin))
    return [Touch(gap, _world(at, point), at.rotation @ normal) for gap, point, normal in places]


def _sphere_cylinder(a: Sphere, at: SymbolicPose, b: Cylinder, to: SymbolicPose) -> list[Touch]:
    """Side, ends and edges: a box in the plane through axis and centre."""
    local = _local(to, at.origin)
    across = ca.vertcat(local[0], local[1], 0)
    reach = length_of(across)
    outward, up = _unit(across, ca.SX([1, 0, 0])), ca.vertcat(0, 0, ca.if_else(local[2] >= 0, 1, -1))
    side, end = reach - b.radius, ca.fabs(local[2]) - 0.5 * b.length
    # Beyond side and end both: the nearest point is on the edge, and the distance the hypotenuse.
    beyond = ca.fmax(side, 0) * outward + ca.fmax(end, 0) * up
    inside = ca.logic_and(side <= 0, end <= 0)
    nearer = ca.if_else(side >= end, outward, up)
    gap = ca.if_else(inside, ca.fmax(side, end), length_of(beyond)) - a.radius
    normal = to.rotation @ ca.if_else(inside, nearer, _unit(beyond, nearer))
    return [Touch(gap, at.origin - normal * (a.radius + 0.5 * gap), -normal)]


def _sphere_cone(a: Sphere, at: SymbolicPose, b: Cone, to: SymbolicPose) -> list[Touch]:
    """The wall of a nozzle from within, or its rims: a segment in the plane through axis and centre."""
    local = _local(to, at.origin)
    across = ca.vertcat(local[0], local[1], 0)
    reach = length_of(across)
    outward = _unit(across, ca.SX([1, 0, 0]))
    slope, rise = b.mouth - b.throat, b.length
    steep = float(np.hypot(slope, rise))
    # Along the wall from throat (0) to mouth (1), of the centre's foot on it.
    share = ((reach - b.throat) * slope + local[2] * rise) / steep**2
    within = ca.logic_and(share >= 0, share <= 1)
    foot = _clip(share, 0, 1)
    apart = ca.vertcat(reach - b.throat - foot * slope, local[2] - foot * rise)  # from the wall, across and up
    # Within the wall's length the gap has a sign (inside or through the wall); past a rim it is a plain distance.
    inward = ca.SX([-rise / steep, slope / steep])
    size = ca.sqrt(ca.dot(apart, apart) + _TINY)
    gap = ca.if_else(within, ca.dot(apart, inward), size) - a.radius
    out = ca.if_else(within, inward, ca.if_else(size > 1e-90, apart / size, inward))
    normal = to.rotation @ (out[0] * outward + ca.vertcat(0, 0, out[1]))
    return [Touch(gap, at.origin - normal * (a.radius + 0.5 * gap), -normal)]


def _ball_bore(point: SX, radius: float, b: Hole, to: SymbolicPose, open_: SX) -> Touch:
    """A ball within a bore; far away where ``open_`` does not hold."""
    local = _local(to, point)
    across = ca.vertcat(local[0], local[1], 0)
    normal = to.rotation @ _unit(across, ca.SX([1, 0, 0]))  # from the ball to the wall
    gap = b.radius - radius - length_of(across)
    # Out of the bore no wall is near: a gap of a radius keeps the contact open without a jump to infinity.
    gap = ca.if_else(open_, gap, ca.fmax(gap, b.radius))
    return Touch(gap, point + normal * (radius + 0.5 * gap), normal)


def _capsule_hole(a: Capsule, at: SymbolicPose, b: Hole, to: SymbolicPose) -> list[Touch]:
    """A pin in a bore, out of which its upper end looks: its lower end and where its axis passes the mouth, on the
    wall; its lower end on the ground. The mouth is met as if the bore went on: tilts count to first order there."""
    low, high = _ends(a, at)
    depths = [_local(to, end)[2] for end in (low, high)]
    flipped = depths[0] > depths[1]
    # Either end of the pin may be the one that is in the bore.
    low, high = ca.if_else(flipped, high, low), ca.if_else(flipped, low, high)
    bottom, top = ca.fmin(*depths), ca.fmax(*depths)
    mouth = _clip(-bottom / ca.fmax(top - bottom, 1e-12), 0, 1)
    inside = bottom < 0
    ground = _ball_plane(low, a.radius, SymbolicPose(to.rotation, to.origin - b.depth * to.rotation[:, 2]))
    far = ca.if_else(inside, ground.gap, ca.fmax(ground.gap, b.depth))
    return [
        _ball_bore(low, a.radius, b, to, inside),
        _ball_bore(low + mouth * (high - low), a.radius, b, to, inside),
        ground._replace(gap=far),
    ]


def _nearest_on_circle(point: SX, radius: float, to: SymbolicPose) -> SX:
    """The point of a circle that is nearest to a point."""
    local = _local(to, point)
    return _world(to, radius * _unit(ca.vertcat(local[0], local[1], 0), ca.SX([1, 0, 0])))


def _sphere_ring(a: Sphere, at: SymbolicPose, b: Ring, to: SymbolicPose) -> list[Touch]:
    return [_ball_ball(at.origin, _nearest_on_circle(at.origin, b.radius, to), a.radius, b.tube, to.rotation[:, 2])]


#: Points of the first ring from which the nearest place is looked for, and Newton steps from the best of them.
_RING_STARTS, _RING_STEPS = 24, 6


def _ring_ring(a: Ring, at: SymbolicPose, b: Ring, to: SymbolicPose) -> list[Touch]:
    """Two circles have no closed form: the nearest of points around the first, and Newton's method from there on."""
    angle = ca.SX.sym("angle")
    place = a.radius * ca.vertcat(ca.cos(angle), ca.sin(angle), 0)

    def reach(x: SX) -> SX:
        """Squared distance of a point of the first ring's own axes from the second circle."""
        local = to.rotation.T @ (_world(at, x) - to.origin)
        across = length_of(local[:2])
        return (across - b.radius) ** 2 + local[2] ** 2

    square = reach(place)
    slope = ca.gradient(square, angle)
    bend = ca.gradient(slope, angle)
    best, least = ca.SX(0), ca.substitute(square, angle, 0)
    # The squared distance of two circles can have several minima along the first: a grid finds the basin of the least
    # one, Newton's method the place in it.
    for k in range(1, _RING_STARTS):
        start = 2 * np.pi * k / _RING_STARTS
        value = ca.substitute(square, angle, start)
        best, least = ca.if_else(value < least, start, best), ca.fmin(value, least)
    for _ in range(_RING_STEPS):
        down, curve = (ca.substitute(part, angle, best) for part in (slope, bend))
        # A step of at most half the grid stays within the basin; uphill curvature would lead to a maximum.
        move = ca.if_else(curve > 0, -down / ca.fmax(curve, 1e-12), 0)
        best = best + _clip(move, -np.pi / _RING_STARTS, np.pi / _RING_STARTS)
    point = _world(at, ca.substitute(place, angle, best))
    return [_ball_ball(point, _nearest_on_circle(point, b.radius, to), a.tube, b.tube, at.rotation[:, 2])]


_PAIRS: dict[tuple[type[Shape], type[Shape]], Callable[..., list[Touch]]] = {
    (Sphere, Sphere): _sphere_sphere,
    (Sphere, Plane): _sphere_plane,
    (Sphere, Disc): _sphere_disc,
    (Sphere, Capsule): _sphere_capsule,
    (Sphere, Cylinder): _sphere_cylinder,
    (Sphere, Box): _sphere_box,
    (Sphere, Cone): _sphere_cone,
    (Sphere, Ring): _sphere_ring,
    (Ring, Ring): _ring_ring,
    (Capsule, Plane): _capsule_plane,
    (Capsule, Capsule): _capsule_capsule,
    (Capsule, Hole): _capsule_hole,
    (Capsule, Box): _capsule_box,
    (Box, Plane): _box_plane,
    (Box, Box): _box_box,
}
#: Pairs that there are, in words.
PAIRS = tuple(f"{a.__name__.lower()}-{b.__name__.lower()}" for a, b in _PAIRS)


def touches(first: Shape, at: SymbolicPose, second: Shape, to: SymbolicPose) -> list[Touch]:
    """Places where two shapes at these poses are nearest: one, or one for each corner or end that can touch."""
    for shape in (first, second):
        if not isinstance(shape, Shape):
            raise InputError(f"{shape!r} is not a shape", place="contact", hint="expected Sphere(radius) ...")
    known = _PAIRS.get((type(first), type(second)))
    if known is not None:
        return known(first, at, second, to)
    known = _PAIRS.get((type(second), type(first)))
    if known is None:
        raise InputError(
            f"a {first.kind} and a {second.kind} have no distance", place="contact", hint=f"pairs: {', '.join(PAIRS)}"
        )
    return [touch._replace(normal=-touch.normal) for touch in known(second, to, first, at)]


def separation(
    first: Shape, at: tuple[npt.ArrayLike, npt.ArrayLike], second: Shape, to: tuple[npt.ArrayLike, npt.ArrayLike]
) -> tuple[Array, Array, Array]:
    """Gaps (K,), points (K, 3) and normals (K, 3) of two shapes, each at a rotation matrix and an origin."""
    poses = [SymbolicPose(ca.SX(np.asarray(r, float)), ca.SX(np.asarray(p, float))) for r, p in (at, to)]
    found = touches(first, poses[0], second, poses[1])
    gaps, points, normals = (
        np.array([ca.evalf(ca.SX(getattr(touch, part))).full().ravel() for touch in found])
        for part in ("gap", "point", "normal")
    )
    return gaps[:, 0], points, normals
