"""Distances of simple shapes, against MuJoCo and by brute force."""

from __future__ import annotations

import casadi as ca
import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from spacearm.errors import InputError
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.shapes import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Disc,
    Hole,
    Plane,
    Ring,
    Shape,
    Sphere,
    separation,
    touches,
)
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.typing import Array
from support.random_robots import random_rotation

Place = tuple[Array, Array]


def _geom(shape: Shape) -> str:
    sizes = {
        "sphere": lambda s: [s.radius],
        "capsule": lambda s: [s.radius, s.length / 2],
        "cylinder": lambda s: [s.radius, s.length / 2],
        "box": lambda s: [s.x / 2, s.y / 2, s.z / 2],
        "plane": lambda s: [0, 0, 1],
    }
    size = " ".join(map(repr, map(float, sizes[shape.kind](shape))))
    return f'<body mocap="true"><geom type="{shape.kind}" size="{size}"/></body>'


def mujoco_distance(first: Shape, at: Place, second: Shape, to: Place) -> float:
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><option ccd_tolerance='1e-12' ccd_iterations='500'/><worldbody>{_geom(first)}{_geom(second)}"
        "</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    for k, (rotation, origin) in enumerate((at, to)):
        data.mocap_pos[k], data.mocap_quat[k] = origin, quaternion_from_rotation(rotation)
    mujoco.mj_forward(model, data)
    return float(mujoco.mj_geomDistance(model, data, 0, 1, 100.0, np.zeros(6)))


SHARED = [
    (Sphere(0.3), Sphere(0.5)),
    (Sphere(0.3), Plane()),
    (Sphere(0.2), Capsule(0.1, 0.8)),
    (Capsule(0.2, 0.9), Capsule(0.1, 0.5)),
    (Capsule(0.2, 0.9), Plane()),
    (Sphere(0.3), Box(0.4, 0.6, 0.9)),
    (Sphere(0.3), Cylinder(0.4, 0.7)),
    (Box(0.4, 0.6, 0.9), Plane()),
]
#: Pairs that meet in several places.
PATCHES = [(Capsule(0.1, 0.9), Box(0.4, 0.6, 0.9)), (Box(0.3, 0.2, 0.7), Box(0.4, 0.6, 0.9))]


@pytest.mark.parametrize(("first", "second"), SHARED, ids=lambda shape: shape.kind)
def test_distances_are_mujocos(first: Shape, second: Shape) -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        at, to = ((random_rotation(rng), rng.normal(size=3) * 0.6) for _ in range(2))
        expected = mujoco_distance(first, at, second, to)
        for a, b, c, d in ((first, at, second, to), (second, to, first, at)):
            assert separation(a, b, c, d)[0].min() == pytest.approx(expected, abs=1e-9)


def _surface(shape: Shape, rng: np.random.Generator, count: int) -> Array:
    """Points on a surface, in its frame."""
    angle = rng.uniform(0, 2 * np.pi, count)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
    share = rng.uniform(size=(count, 1))
    up = np.array([0.0, 0.0, 1.0])
    if isinstance(shape, Cone):
        return np.asarray((shape.throat + share * (shape.mouth - shape.throat)) * ring + share * shape.length * up)
    if isinstance(shape, Disc):
        return np.asarray(shape.radius * np.sqrt(share) * ring)
    assert isinstance(shape, Ring)
    turn = rng.uniform(0, 2 * np.pi, (count, 1))
    return np.asarray((shape.radius + shape.tube * np.cos(turn)) * ring + shape.tube * np.sin(turn) * up)


@pytest.mark.parametrize("shape", [Cone(0.1, 0.6, 0.5), Disc(0.5), Ring(0.5, 0.1)], ids=lambda shape: shape.kind)
def test_distances_from_a_sphere_are_those_of_the_nearest_of_many_points(shape: Shape) -> None:
    rng = np.random.default_rng(3)
    points = _surface(shape, rng, 400_000)
    ball = Sphere(0.05)
    checked = 0
    for _ in range(60):
        centre = rng.uniform(-0.6, 0.6, 3)
        nearest = np.linalg.norm(points - centre, axis=1).min() - ball.radius
        rotation, origin = random_rotation(rng), rng.normal(size=3)
        gap, point, normal = separation(ball, (np.eye(3), rotation @ centre + origin), shape, (rotation, origin))
        if gap[0] + ball.radius < 0 or (isinstance(shape, Disc) and centre[2] < 0):
            continue  # through the surface, where the gap is a depth
        checked += 1
        assert nearest - 3e-3 < gap[0] <= nearest + 1e-12
        np.testing.assert_allclose(point[0], rotation @ centre + origin + normal[0] * (0.05 + gap[0] / 2), atol=1e-12)
    assert checked > 15


def test_two_rings_are_as_near_as_the_nearest_of_many_points() -> None:
    rng = np.random.default_rng(11)
    first, second = Ring(0.5, 0.03), Ring(0.4, 0.02)
    angles = np.linspace(0.0, 2 * np.pi, 2001)
    for _ in range(40):
        at, to = ((random_rotation(rng), rng.normal(size=3) * 0.4) for _ in range(2))

        def apart(angle: Array, at: Place = at, to: Place = to) -> Array:
            circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
            local = (0.5 * circle @ at[0].T + at[1] - to[1]) @ to[0]
            return np.asarray(np.hypot(np.hypot(local[..., 0], local[..., 1]) - 0.4, local[..., 2]))

        best = angles[np.argmin(apart(angles))]
        least = minimize_scalar(apart, bounds=(best - 4e-3, best + 4e-3), method="bounded", options={"xatol": 1e-12})
        gap, point, normal = separation(first, at, second, to)
        assert gap[0] == pytest.approx(least.fun - 0.05, abs=1e-9)
        assert np.linalg.norm(normal[0]) == pytest.approx(1.0)
        place = (point[0] - normal[0] * (0.03 + gap[0] / 2) - at[1]) @ at[0]
        np.testing.assert_allclose([np.hypot(place[0], place[1]), place[2]], [0.5, 0.0], atol=1e-9)


def test_the_wall_of_a_nozzle_is_felt_from_within() -> None:
    nozzle, ball = Cone(0.1, 0.4, 0.3), Sphere(0.05)  # 45 degrees
    place = (np.eye(3), np.zeros(3))
    gap, _, normal = separation(ball, (np.eye(3), np.array([0.2, 0.0, 0.2])), nozzle, place)
    np.testing.assert_allclose(gap, 0.1 / np.sqrt(2.0) - 0.05)
    np.testing.assert_allclose(normal[0], np.array([1.0, 0.0, -1.0]) / np.sqrt(2.0), atol=1e-15)
    beyond, _, _ = separation(ball, (np.eye(3), np.array([0.4, 0.0, 0.2])), nozzle, place)
    np.testing.assert_allclose(beyond, -0.1 / np.sqrt(2.0) - 0.05)


def test_a_pin_in_a_hole_meets_wall_mouth_and_ground() -> None:
    hole, pin = Hole(0.02, 0.1), Capsule(0.015, 0.2)
    tilt = 0.03
    turn = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    tip = np.array([0.001, 0.0, -0.05])
    gaps, _, normals = separation(pin, (turn, tip + turn @ [0, 0, 0.1]), hole, (np.eye(3), np.zeros(3)))
    mouth = 0.001 + 0.05 * np.tan(tilt)
    np.testing.assert_allclose(gaps, [0.005 - 0.001, 0.005 - mouth, 0.05 - 0.015], atol=1e-12)
    np.testing.assert_allclose(normals, [[1, 0, 0], [1, 0, 0], [0, 0, -1]], atol=1e-12)
    gaps, _, _ = separation(pin, (np.eye(3), np.array([0.5, 0.0, 0.2])), hole, (np.eye(3), np.zeros(3)))
    assert np.all(gaps > 0.0)  # a pin that is not in it touches nothing


@pytest.mark.parametrize(
    ("first", "second"),
    [*SHARED, *PATCHES, (Sphere(0.1), Cone(0.1, 0.4, 0.3)), (Sphere(0.1), Disc(0.3))],
)
def test_derivatives_are_finite_where_shapes_coincide_or_lie_on_an_axis(first: Shape, second: Shape) -> None:
    for place in (np.zeros(3), np.array([0.0, 0.0, 0.2]), np.array([0.3, 0.0, 0.0])):
        origin = ca.SX.sym("origin", 3)
        here, there = SymbolicPose(ca.SX.eye(3), origin), SymbolicPose(ca.SX.eye(3), ca.SX.zeros(3))
        for touch in touches(first, here, second, there):
            every = ca.vertcat(touch.gap, touch.point, touch.normal)
            values = ca.Function("f", [origin], [every, ca.jacobian(every, origin)])(place)
            assert all(np.all(np.isfinite(value.full())) for value in values)


def test_a_pair_that_is_not_there_is_told_with_those_that_are() -> None:
    place = (np.eye(3), np.zeros(3))
    with pytest.raises(InputError, match=r"a box and a ring have no distance.*sphere-sphere, sphere-plane"):
        separation(Box(1, 1, 1), place, Ring(1.0, 0.1), place)
    with pytest.raises(InputError, match="mouth is wider"):
        Cone(0.2, 0.1, 0.3)
    with pytest.raises(InputError, match="radius"):
        Sphere(-1.0)
