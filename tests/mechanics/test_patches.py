"""Places where boxes and capsules meet boxes: against convex hulls, least squares and closed forms."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from scipy.optimize import lsq_linear
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.shapes import Box, Capsule, Shape, Sphere, separation, touches
from spacearm.typing import Array
from support.random_robots import random_rotation

Place = tuple[Array, Array]
FIXED = (np.eye(3), np.zeros(3))


def compiled(first: Shape, second: Shape) -> Callable[[Place, Place], Array]:
    """Rows (gap, point, normal) for two poses."""
    poses = [SymbolicPose(ca.SX.sym("r", 3, 3), ca.SX.sym("p", 3)) for _ in range(2)]
    rows = ca.horzcat(*(ca.vertcat(*touch) for touch in touches(first, poses[0], second, poses[1]))).T
    function = ca.Function("rows", [each for pose in poses for each in (pose.rotation, pose.origin)], [rows])
    return lambda at, to: np.asarray(function(*at, *to).full())


def rotate(*vector: float) -> Array:
    return np.asarray(Rotation.from_rotvec(vector).as_matrix())


def _spans(shape: Shape) -> tuple[Array, float]:
    """Half edges of a shape's core, and the radius around it."""
    if isinstance(shape, Box):
        return 0.5 * np.array([shape.x, shape.y, shape.z]), 0.0
    assert isinstance(shape, Capsule)
    return np.array([0.0, 0.0, 0.5 * shape.length]), shape.radius


def reference_gap(first: Shape, at: Place, second: Shape, to: Place) -> float:
    """Distance by bounded least squares; depth as the distance of the origin from the hull of all differences."""
    (a, r), (b, s) = _spans(first), _spans(second)
    span = np.hstack([at[0] * a, -to[0] * b])
    span = span[:, np.abs(span).sum(axis=0) > 0.0]
    offset = np.asarray(to[1]) - at[1]
    found = lsq_linear(span, offset, (-1.0, 1.0), method="bvls", tol=1e-15)
    distance = float(np.linalg.norm(span @ found.x - offset))
    if distance < 1e-9:
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * span.shape[1])).reshape(span.shape[1], -1)
        distance = float(ConvexHull((span @ signs).T - offset).equations[:, 3].max())
    return distance - r - s


@pytest.mark.parametrize(
    ("first", "second"),
    [(Capsule(0.1, 0.9), Box(0.4, 0.6, 0.9)), (Box(0.3, 0.2, 0.7), Box(0.4, 0.6, 0.9)), (Box(1, 1, 1), Box(1, 1, 1))],
    ids=["capsule", "box", "cube"],
)
def test_the_least_gap_is_the_distance_or_the_penetration(first: Shape, second: Shape) -> None:
    rng, signs = np.random.default_rng(7), [0, 0]
    evaluate, swapped, ball = compiled(first, second), compiled(second, first), Sphere(1e-9)
    for k in range(150):
        rotations = (
            (np.eye(3), rotate(0, 0, rng.normal())) if k % 5 == 0 else (random_rotation(rng), random_rotation(rng))
        )
        at, to = ((each, rng.normal(size=3) * 0.45) for each in rotations)
        expected = reference_gap(first, at, second, to)
        rows = evaluate(at, to)
        assert rows[:, 0].min() == pytest.approx(expected, abs=1e-9)
        assert swapped(to, at)[:, 0].min() == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(np.linalg.norm(rows[:, 4:], axis=1), 1.0, atol=1e-9)
        if k < 30 and expected > 1e-6:  # half the gap away from both surfaces
            for shape, place in ((first, at), (second, to)):
                if isinstance(shape, Box):
                    away = separation(ball, (np.eye(3), rows[0, 1:4]), shape, place)[0][0]
                    assert away == pytest.approx(expected / 2, abs=1e-8)
        signs[int(expected > 0.0)] += 1
    assert min(signs) > 15


def test_a_box_flat_on_a_box_touches_at_the_corners_of_what_they_share() -> None:
    cube, plate = Box(0.2, 0.2, 0.2), Box(1.0, 0.8, 0.1)
    on_plate, on_cube = compiled(cube, plate), compiled(cube, cube)
    yaw, tilt = 0.7, 2e-4
    rotation = rotate(0, 0, yaw) @ rotate(tilt, 0, 0)
    rows = on_plate((rotation, np.array([0.1, -0.05, 0.149])), FIXED)
    corners = rotation @ (0.1 * np.array([[-1, 1, 1, -1], [-1, -1, 1, 1], [-1, -1, -1, -1]]))
    corners += np.array([[0.1], [-0.05], [0.149]])
    expected = {tuple(np.round(corner[:2], 5)): corner[2] - 0.05 for corner in corners.T}
    found = {tuple(np.round(row[1:3], 5)): row[0] for row in rows}
    assert {*found} == {*expected}  # the normal differs from the plate's by no more than the tilt
    np.testing.assert_allclose([found[key] for key in expected], [*expected.values()], rtol=1e-3)
    # Cubes that overhang: the rectangle that they share, exact alignment included.
    for x, y in ((0.0, 0.0), (0.05, 0.0), (0.05, -0.03)):
        rows = on_cube((np.eye(3), np.array([x, y, 0.199])), FIXED)
        np.testing.assert_allclose(rows[:, 0], -1e-3, atol=1e-15)
        np.testing.assert_allclose(rows[:, 4:], np.tile([0.0, 0.0, -1.0], (4, 1)), atol=1e-12)
        shared = {(i, j) for i in (max(x, 0) - 0.1, 0.1) for j in (-0.1, y + 0.1)}
        assert {tuple(np.round(row[1:3], 9) + 0.0) for row in rows} == {tuple(np.round(each, 9)) for each in shared}


def test_an_edge_touches_at_two_places_and_a_corner_or_two_crossed_edges_at_one() -> None:
    cube, plate = Box(0.2, 0.2, 0.2), Box(1.0, 0.8, 0.1)
    evaluate, crossed = compiled(cube, plate), compiled(cube, cube)
    down, high = rotate(0, 0, 0.3), 0.05 - 1e-3

    def stand(rotation: Array) -> Array:
        lowest = (np.abs(rotation[2]) * 0.1).sum()
        return evaluate((rotation, np.array([0.0, 0.0, high + lowest])), FIXED)

    rows = stand(down @ rotate(0.5, 0, 0))
    np.testing.assert_allclose(np.sort(rows[:, 0])[:2], -1e-3, atol=1e-12)
    assert np.sort(rows[:, 0])[2] > 0.0
    rows = stand(rotate(0.5, 0.4, 0))
    np.testing.assert_allclose(np.sort(rows[:, 0])[:1], -1e-3, atol=1e-12)
    assert np.sort(rows[:, 0])[1] > 0.0
    up = rotate(np.pi / 4, 0, 0)
    across = rotate(0, 0, np.pi / 2) @ rotate(np.pi / 4, 0, 0)
    rows = crossed((across, np.array([0.03, 0.02, 0.2 * np.sqrt(2) - 1e-3])), (up, np.zeros(3)))
    rows = rows[rows[:, 0] < 0.0]
    assert rows[:, 0].min() == pytest.approx(-1e-3, abs=1e-12)
    np.testing.assert_allclose(rows[:, 1:3], [[0.03, 0.0]] * len(rows), atol=2e-3)
    np.testing.assert_allclose(rows[:, 4:], [[0.0, 0.0, -1.0]] * len(rows), atol=1e-9)


def test_a_capsule_along_a_box_touches_at_both_ends_of_what_lies_on_it() -> None:
    evaluate = compiled(Capsule(0.1, 0.6), Box(0.4, 0.6, 0.9))
    flat = rotate(0, np.pi / 2, 0)
    rows = evaluate((flat, np.array([0.05, 0.1, 0.549])), FIXED)
    np.testing.assert_allclose(rows[:, 0], -1e-3, atol=1e-12)
    np.testing.assert_allclose(rows[:, 1:4], [[-0.2, 0.1, 0.4495], [0.2, 0.1, 0.4495]], atol=1e-9)
    short = compiled(Capsule(0.1, 0.2), Box(0.4, 0.6, 0.9))((flat, np.array([0.05, 0.1, 0.549])), FIXED)
    np.testing.assert_allclose(short[:, 1], [-0.05, 0.15], atol=1e-12)
    upright = evaluate((np.eye(3), np.array([0.05, 0.1, 0.849])), FIXED)
    np.testing.assert_allclose(np.sort(upright[:, 0])[0], -1e-3, atol=1e-12)
    assert np.sort(upright[:, 0])[1] > 0.0


def _wrench(rows: Array, about: Array) -> Array:
    push = np.maximum(-rows[:, 0], 0.0)[:, None] * rows[:, 4:]
    return np.concatenate([push.sum(axis=0), np.cross(rows[:, 1:4] - about, push).sum(axis=0)])


@pytest.mark.parametrize(
    ("first", "second", "flat"),
    [
        (Box(0.2, 0.2, 0.2), Box(0.2, 0.2, 0.2), np.eye(3)),
        (Box(0.2, 0.3, 0.1), Box(0.4, 0.5, 0.1), np.eye(3)),
        (Box(0.6, 0.1, 0.1), Box(0.1, 0.6, 0.1), np.eye(3)),
        (Capsule(0.05, 0.3), Box(0.2, 0.2, 0.1), rotate(0, np.pi / 2, 0)),
    ],
    ids=["cubes", "plates", "beams", "capsule"],
)
def test_forces_have_no_step_where_a_body_slides_turns_and_rocks_on_a_box(
    first: Shape, second: Shape, flat: Array
) -> None:
    """A spring of 1 N/m at each place: no more than 4 places and a slope of the normal of 1/blend."""
    rng, evaluate = np.random.default_rng(4), compiled(first, second)
    height = 0.5 * (second.z if isinstance(second, Box) else 0.0) + (
        0.5 * first.z if isinstance(first, Box) else getattr(first, "radius", 0.0)
    )
    steps = 2000
    for k in range(3):
        slide = rng.normal(size=3) * [0.03, 0.03, 5e-4]
        rock = rng.normal(size=3) * [4e-3, 4e-3, 0.2]
        middle = np.array([*rng.normal(size=2) * 0.02, height - 1e-3]) if k else np.array([0.0, 0.0, height - 1e-3])
        speed = np.linalg.norm(slide) + 0.3 * np.linalg.norm(rock)
        found = []
        for s in np.linspace(-1.0, 1.0, steps + 1):
            place = rotate(*(s * rock)) @ flat, middle + s * slide
            rows = evaluate(place, FIXED)
            found.append([*_wrench(rows, place[1]), rows[:, 0].min()])
        change = np.abs(np.diff(found, axis=0)).max(axis=0) / (2.0 / steps * speed)
        assert change[:3].max() < 4.5
        assert change[3:6].max() < 0.6
        assert change[6] < 1.5
    assert np.min(found) < -1e-4


def _largest_step(first: Shape, second: Shape, path: Callable[[float], Place]) -> float:
    """Of the force of linear springs along a path of the first shape, as a share of the force there."""
    evaluate = compiled(first, second)

    def force(share: float) -> Array:
        rows = evaluate(path(share), FIXED)
        return np.asarray(np.maximum(-rows[:, 0], 0.0) @ rows[:, 4:])

    shares = np.linspace(0.0, 1.0, 401)
    forces = np.array([force(share) for share in shares])
    found = 0.0
    for k in np.argsort(-np.linalg.norm(np.diff(forces, axis=0), axis=1))[:3]:
        low, high = (shares[k], forces[k]), (shares[k + 1], forces[k + 1])
        while high[0] - low[0] > 1e-9:
            share = 0.5 * (low[0] + high[0])
            middle = force(share)
            upper = np.linalg.norm(middle - low[1]) < np.linalg.norm(high[1] - middle)
            low, high = ((share, middle), high) if upper else (low, (share, middle))
        size = max(np.linalg.norm(low[1]), np.linalg.norm(high[1]))
        found = max(found, float(np.linalg.norm(high[1] - low[1]) / max(size, 1e-30)))
    return found


@pytest.mark.parametrize(
    ("yaw", "depth", "way"),
    [
        (0.3, 1e-4, "over"),
        (0.3, 1e-3, "over"),
        (0.0, 1e-3, "along"),
        (0.01, 1e-4, "along"),
        (1.2, 1e-3, "around"),
        (np.pi / 2, 1e-4, "around"),
    ],
)
def test_the_force_of_an_edge_at_an_edge_does_not_step(yaw: float, depth: float, way: str) -> None:
    """A cube that stands on an edge goes over, along and around the edge of a table, at one depth."""
    rotation = rotate(0, 0, yaw) @ rotate(0, np.pi / 4, 0)

    def path(share: float) -> Place:
        angle = {"over": np.pi / 2, "along": np.pi / 4, "around": np.pi / 4 + share - 0.5}[way]
        normal = np.array([np.cos(angle), 0.0, np.sin(angle)])
        away = {"over": 0.25 * share - 0.1, "along": 0.0, "around": 0.0}[way]
        y = -0.6 + 1.2 * share if way == "along" else 0.03 if way == "over" else 0.0
        lowest = (np.abs(rotation.T @ normal) * 0.1).sum()
        return rotation, np.array([0.5 + away, y, 0.05]) + normal * (lowest - depth)

    assert _largest_step(Box(0.2, 0.2, 0.2), Box(1.0, 1.0, 0.1), path) < 0.01
