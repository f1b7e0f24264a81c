"""Boxes and capsules that drop on boxes, lie there, stand on each other and tip over edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial.transform import Rotation

from spacearm.mechanics.shapes import Box, Capsule, separation
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_quaternion
from spacearm.simulate import Contact, Gravity, Run, ShapeOnFrame, State, World, simulate
from spacearm.typing import Array

G, STIFFNESS, MASS, SIDE = 9.80665, 1e5, 2.0, 0.2
CUBE = Box(SIDE, SIDE, SIDE)
#: A table with its top at z = 0 and an edge at x = 0.
TABLE = ShapeOnFrame(Pose(translation=np.array([-0.5, 0.0, -0.05])), Box(1.0, 1.0, 0.1))


def cube(name: str) -> Robot:
    return Robot(name, (Body("body", Inertia(MASS, tensor=MASS * SIDE**2 / 6.0 * np.eye(3))),), ())


def placed(position: npt.ArrayLike, rotation: npt.ArrayLike = (0, 0, 0), velocity: npt.ArrayLike = (0,) * 6) -> State:
    rotated = Rotation.from_rotvec(rotation).as_matrix()
    return State(np.array(position, float), quaternion_from_rotation(rotated), np.zeros(0), np.array(velocity, float))


def _end(run: Run, name: str) -> tuple[Array, Array]:
    state = run.last_track(name).states[-1]
    return rotation_from_quaternion(state[3:7]), state[:3]


def test_a_cube_that_drops_on_an_edge_of_a_table_lies_there_or_tips_over() -> None:
    table = Contact(ShapeOnFrame("cube/body", CUBE), TABLE, STIFFNESS, 0.3, 0.5, name="table")
    world = World({"cube": cube("cube")}, elements=(Gravity(), table))
    run = simulate(world, {"cube": placed([-0.04, 0.1, 0.107], (0.01, 0.02, 0.4))}, 0.25)
    assert run.sound
    assert run.stats.steps < 3000
    rotation, origin = _end(run, "cube")
    assert np.abs(run.last_track("cube").states[-1, 7:13]).max() < 1e-3  # m/s, rad/s
    gaps, points, normals = separation(CUBE, (rotation, origin), TABLE.shape, (np.eye(3), TABLE.frame.translation))  # type: ignore[union-attr]
    push = -STIFFNESS * np.maximum(-gaps, 0.0)[:, None] * normals
    assert push[:, 2].sum() == pytest.approx(MASS * G, rel=1e-6)
    # Overhang tilts it, and the normal with it: friction bears what is lateral.
    lateral = np.abs(push.sum(axis=0)[:2]).max()
    assert lateral < 1e-3 * MASS * G
    np.testing.assert_allclose(np.cross(points - origin, push).sum(axis=0), 0.0, atol=0.2 * lateral + 1e-6)
    assert np.all(points[:, 0] < 1e-9)  # on the table

    tips = simulate(world, {"cube": placed([0.03, 0.1, 0.101])}, 0.15)
    assert tips.sound
    rotation, _ = _end(tips, "cube")
    assert rotation[0, 2] > 0.1  # it leans over the edge


def test_three_cubes_stand_on_each_other_as_deep_as_their_weight_presses_them() -> None:
    names = "abc"
    below = [TABLE] + [ShapeOnFrame(f"{name}/body", CUBE) for name in names]
    elements = [
        Contact(ShapeOnFrame(f"{name}/body", CUBE), under, STIFFNESS, 0.2, name=f"under {name}")
        for name, under in zip(names, below, strict=False)
    ]
    world = World({name: cube(name) for name in names}, elements=(Gravity(), *elements))
    start = {name: placed([-0.5, 0.0, 0.1 + SIDE * k + 2e-4 * (k + 1)]) for k, name in enumerate(names)}
    run = simulate(world, start, 0.25)
    assert run.sound
    assert run.stats.steps < 3000
    height = 0.1
    for k, name in enumerate(names):
        height -= (3 - k) * MASS * G / (4 * STIFFNESS)
        rotation, origin = _end(run, name)
        np.testing.assert_allclose(origin, [-0.5, 0.0, height], atol=2e-8)
        np.testing.assert_allclose(rotation, np.eye(3), atol=1e-7)
        height += SIDE


def test_two_free_cubes_that_hit_keep_their_momentum() -> None:
    hit = Contact(ShapeOnFrame("a/body", CUBE), ShapeOnFrame("b/body", CUBE), STIFFNESS, 0.5, 0.3, name="hit")
    world = World({name: cube(name) for name in "ab"}, elements=(hit,))
    start = {"a": placed([0.05, 0.03, 0.26], (0.3, 0.2, 0.4), (0, 0, -0.3, 0.1, 0.2, 0.1)), "b": placed([0, 0, 0])}
    run = simulate(world, start, 0.3)
    assert run.sound
    assert run.touches
    assert run.stats.steps < 3000
    momenta = []
    for row in (0, -1):
        states = [run.last_track(name).states[row] for name in "ab"]
        momenta.append(sum(MASS * rotation_from_quaternion(state[3:7]) @ state[7:10] for state in states))
    np.testing.assert_allclose(momenta[1], momenta[0], atol=1e-9)


def test_a_capsule_lies_along_a_table() -> None:
    rod = Robot("rod", (Body("body", Inertia(1.0, tensor=np.diag([0.01, 0.01, 0.001]))),), ())
    table = Contact(ShapeOnFrame("rod/body", Capsule(0.05, 0.3)), TABLE, STIFFNESS, 0.2, name="table")
    world = World({"rod": rod}, elements=(Gravity(), table))
    run = simulate(world, {"rod": placed([-0.5, 0.0, 0.0515], (0, np.pi / 2 + 0.005, 0))}, 0.3)
    assert run.sound
    assert run.stats.steps < 3000
    rotation, origin = _end(run, "rod")
    assert origin[2] == pytest.approx(0.05 - G / (2 * STIFFNESS), abs=1e-9)
    assert rotation[2, 2] == pytest.approx(0.0, abs=1e-9)


def _rail(side: float) -> ShapeOnFrame:
    """A fixed rod along x from -0.3 to 0.3 m, beside y = 0."""
    lying = Rotation.from_rotvec((0, np.pi / 2, 0)).as_matrix()
    return ShapeOnFrame(Pose(lying, np.array([0.0, side, 0.0])), Capsule(0.05, 0.6))


@pytest.mark.parametrize(("along", "tips"), [(0.1, False), (0.25, False), (0.33, True)])
def test_a_rod_lies_in_a_groove_of_two_rods_until_it_hangs_over(along: float, tips: bool) -> None:
    rod = Robot("rod", (Body("body", Inertia(1.0, tensor=np.diag([0.02, 0.02, 0.001]))),), ())
    contacts = [
        Contact(ShapeOnFrame("rod/body", Capsule(0.05, 0.4)), _rail(side), STIFFNESS, 0.0, 0.3, name=f"rail {k}")
        for k, side in enumerate((0.06, -0.06))
    ]
    world = World({"rod": rod}, elements=(Gravity(), *contacts))
    run = simulate(world, {"rod": placed([along, 0.0, 0.08], (0, np.pi / 2, 0))}, 1.0)
    assert run.sound
    assert run.stats.steps < 10_000
    rotation, origin = _end(run, "rod")
    if tips:
        assert rotation[2, 2] < -0.05  # its far end goes down
        return
    assert np.abs(run.last_track("rod").states[-1, 7:13]).max() < 1e-6
    forces, moment = np.zeros(3), np.zeros(3)
    for side in (0.06, -0.06):
        rail = _rail(side)
        gaps, points, normals = separation(
            Capsule(0.05, 0.4),
            (rotation, origin),
            rail.shape,
            (rail.frame.rotation, rail.frame.translation),  # type: ignore[union-attr]
        )
        push = -STIFFNESS * np.maximum(-gaps, 0.0)[:, None] * normals
        assert np.all(push[:, 2] > 0.1)  # both ends bear, by the law of the lever
        forces += push.sum(axis=0)
        moment += np.cross(points - origin, push).sum(axis=0)
    assert forces[2] < G  # friction bears the rest
    assert abs(moment[1]) < 1e-3 * G * 0.2
