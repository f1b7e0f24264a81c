"""Clearance of the bodies of a flying arm from keep-out regions, by exact signed distances.

A body with collision shapes is represented by them (:mod:`spacearm.simulate.distance`). Any other body is represented
by its skeleton: straight lines from its frame's origin to its mass centre, to the joints that it carries and to its
frames, with a radius around them (capsules).

Keep-out regions are half-spaces and boxes, fixed to the satellite: convex, so that the signed distance along a line is
a convex function. Over a half-space its least value is at an end, over a box golden-section search finds it (J.
Kiefer, Sequential minimax search for a maximum, 1953), for all lines and instants at once. Between the sampled
instants nothing is known; samples are denser where bodies are near. Signed distances in m: negative is inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from spacearm.errors import InputError
from spacearm.mechanics import shapes
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.layout import QUATERNION
from spacearm.model.parts import finite, read_only_array, unit_vector
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import ShapeOnFrame, World, collision_pairs, gaps
from spacearm.simulate.bodies import evaluate_bodies
from spacearm.simulate.distance import Pair
from spacearm.typing import Array

#: Golden-section steps: 0.618**45 of a line's length, below a nanometre per metre.
_STEPS = 45
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


@dataclass(frozen=True, eq=False)
class PlaneRegion:
    """Keep-out half-space below a plane; ``point`` and ``normal`` (pointing to the free side), satellite frame."""

    point: Array = field(default_factory=lambda: np.zeros(3))
    normal: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    name: str = "plane"

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", read_only_array(self.point, (3,), "point of the keep-out plane"))
        object.__setattr__(self, "normal", unit_vector(self.normal, "normal of the keep-out plane"))

    def distance(self, points: Array) -> Array:
        """Signed distance (...) of points (..., 3), satellite frame, m."""
        distance: Array = (points - self.point) @ self.normal
        return distance

    @property
    def solid(self) -> tuple[shapes.Shape, Pose]:
        """The shape, and its pose in the satellite's frame."""
        across = np.linalg.svd(self.normal[None])[2][1:]
        return shapes.Plane(), Pose(
            np.stack([across[0], np.cross(self.normal, across[0]), self.normal], axis=1), self.point
        )


@dataclass(frozen=True, eq=False)
class BoxRegion:
    """Keep-out box: two opposite corners in the satellite frame, m, edges along its axes."""

    low: Array
    high: Array
    name: str = "box"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", read_only_array(self.low, (3,), "low corner of the keep-out box"))
        object.__setattr__(self, "high", read_only_array(self.high, (3,), "high corner of the keep-out box"))
        if np.any(self.high <= self.low):
            raise InputError(
                f"low corner {self.low.tolist()}, high corner {self.high.tolist()}",
                place=f"keep-out box {self.name!r}",
                hint="expected each entry of the high corner above the low one's",
            )

    def distance(self, points: Array) -> Array:
        """Signed distance (...) of points (..., 3), satellite frame, m."""
        # Exact signed distance of a box: outside the norm of the positive parts, inside the nearest face.
        beyond = np.abs(points - 0.5 * (self.low + self.high)) - 0.5 * (self.high - self.low)
        outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1)
        distance: Array = outside + np.minimum(beyond.max(axis=-1), 0.0)
        return distance

    @property
    def solid(self) -> tuple[shapes.Shape, Pose]:
        """The shape, and its pose in the satellite's frame."""
        return shapes.Box(*(self.high - self.low)), Pose(translation=0.5 * (self.low + self.high))


KeepOut = PlaneRegion | BoxRegion


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Lines of a robot's bodies: the body, its own radius, the far end in the body's frame (the near end is zero)."""

    body: tuple[int, ...]
    end: Array  # (lines, 3) m
    radius: Array  # (lines,) m


def skeleton(robot: Robot, radii: Mapping[str, float] | float = 0.0) -> Skeleton:
    """The lines of every body; ``radii`` is one number or body name to number, m."""
    if isinstance(radii, Mapping):
        for name in radii:
            robot.body_index(name)
        size = {body: finite(radii.get(body, 0.0), f"radius of {body!r}", least=0.0) for body in robot.body_names}
    else:
        size = dict.fromkeys(robot.body_names, finite(radii, "radius", least=0.0))
    owner, ends, radius = [], [], []
    for index, body in enumerate(robot.bodies):
        points = [joint.placement.translation for joint in robot.children(body.name)]
        points += [frame.placement.translation for frame in robot.frames if frame.body == body.name]
        if body.inertia.mass > 0.0:
            points.append(body.inertia.com)
        # A body without extent is a point: a line of length zero at its frame.
        kept = [point for point in points if np.linalg.norm(point) > 0.0] or [np.zeros(3)]
        owner += [index] * len(kept)
        ends += kept
        radius += [size[body.name]] * len(kept)
    return Skeleton(tuple(owner), np.array(ends), np.array(radius))


def clearance(
    robot: Robot,
    states: Array,
    regions: Sequence[KeepOut],
    bones: Skeleton | None = None,
    satellite: Array | None = None,
) -> Array:
    """Smallest signed distance (T, bodies), m, of every body from all regions and, by collision shapes, from other
    bodies.

    Args:
        states: flat states of the arm (T, 13 + 2 n).
        satellite: flat states of the satellite (T, 13 or more), to which the regions are fixed; at the world's origin
            if omitted.
    """
    bones = bones or skeleton(robot)
    least = np.full((len(states), len(robot.bodies)), np.inf)
    world, pairs, owners = _solids(robot, tuple(regions))
    if pairs:
        place = np.tile(np.eye(1, 13, 3), (len(states), 1)) if satellite is None else satellite[:, :13]
        found = gaps(world, pairs, np.concatenate([states, place], axis=1))
        for column, own in enumerate(owners):
            for body in own:
                least[:, body] = np.minimum(least[:, body], found[:, column])
    bodies = evaluate_bodies(robot, states)
    near = bodies.origin[:, list(bones.body)]
    far = near + np.einsum("tlij,lj->tli", bodies.rotation[:, list(bones.body)], bones.end)
    if satellite is not None:
        rotation, place = rotation_matrices(satellite[:, QUATERNION]), satellite[:, None, :3]
        # Into the satellite's frame, in which the regions are fixed.
        near, far = (np.einsum("tji,tlj->tli", rotation, part - place) for part in (near, far))
    # Bodies with collision shapes have been judged by these above: their skeleton would only be coarser.
    for region in regions:
        distance = _distance_of_lines(region, near, far) - bones.radius
        for line, body in enumerate(bones.body):
            if not robot.bodies[body].collisions:
                least[:, body] = np.minimum(least[:, body], distance[:, line])
    return least


@lru_cache(maxsize=16)
def _solids(robot: Robot, regions: tuple[KeepOut, ...]) -> tuple[World, list[Pair], list[list[int]]]:
    """The arm and what carries the regions, pairs of shapes that keep apart, and the arm's bodies in each of them."""
    carrier = Robot("satellite", (Body("satellite", Inertia(1.0, tensor=np.eye(3))),), ())
    world = World({"arm": robot, "satellite": carrier})
    pairs = collision_pairs(world)
    pairs += [
        (side, ShapeOnFrame("satellite/satellite", *region.solid))
        for body in robot.bodies
        for side in ShapeOnFrame.from_collision_shapes(world, f"arm/{body.name}")
        for region in regions
    ]
    names = [[side.frame for side in pair] for pair in pairs]
    owners = [[b for b, name in enumerate(robot.body_names) if f"arm/{name}" in own] for own in names]
    return world, pairs, owners


def _distance_of_lines(region: KeepOut, near: Array, far: Array) -> Array:
    """Least signed distance of lines (T, L) between points (T, L, 3)."""
    ends = np.minimum(region.distance(near), region.distance(far))
    if isinstance(region, PlaneRegion):
        return ends
    # The signed distance of a convex region is convex along a line: golden section finds its least value.
    low, high = np.zeros(near.shape[:-1]), np.ones(near.shape[:-1])

    def distance_at(share: Array) -> Array:
        return region.distance(near + share[..., None] * (far - near))

    # A fixed number of steps for all lines at once, without a test for each. Both points are evaluated again; the
    # classical reuse of one would save little.
    for _ in range(_STEPS):
        span = _GOLDEN * (high - low)
        left, right = high - span, low + span
        lower = distance_at(left) < distance_at(right)
        high, low = np.where(lower, right, high), np.where(lower, low, left)
    return np.minimum(ends, distance_at(0.5 * (low + high)))
