"""How far the target keeps from the servicer: by the shapes of both, or by two balls where the servicer has none."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from spacearm.mechanics.shapes import Box, Capsule, Cylinder, Shape, Sphere
from spacearm.mechanics.structure import Keyed
from spacearm.mission.encounter import BODY, TARGET, TargetTable
from spacearm.mission.laws import Crew
from spacearm.model import Body, CollisionShape, Inertia, Pose, Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import On, World, gaps
from spacearm.simulate.bodies import frame_pose, move
from spacearm.simulate.distance import Pair
from spacearm.typing import Array


def apart(crew: Crew, table: TargetTable, bus_radius: float, states: Array, target: Array) -> tuple[Array, list[str]]:
    """Gaps (T, P), m, between the target and parts of the servicer, with the names of those parts.

    Args:
        states: of the servicer (T, 13 + 2 n or more).
        target: positions and quaternions (T, 7) of the target's frame.
    """
    turn = rotation_matrices(target[:, 3:7])
    place = target[:, :3] + turn @ table.made.bodies[0].inertia.com
    solid = Box(*table.size) if table.radius is None else Sphere(table.radius)
    world, pairs = _pairs(Keyed((crew.robot.structure, _solids(crew), solid), (crew, solid)))
    if not pairs:
        between = np.linalg.norm(place - states[:, :3], axis=1)
        return np.asarray(between - table.ball - bus_radius)[:, None], [crew.robot.bodies[0].name]
    rows = np.concatenate([states, place, target[:, 3:7], np.zeros((len(states), 6))], axis=1)
    return gaps(world, pairs, rows), [str(first.frame).partition("/")[2] for first, _ in pairs]


def held(crew: Crew, caught: Pose, states: Array) -> Array:
    """Positions and quaternions (T, 7) of the frame of a target that the hand holds so."""
    from scipy.spatial.transform import Rotation

    rotation, origin = frame_pose(crew.robot, move(crew.robot, states), crew.hand)
    quaternion = Rotation.from_matrix(rotation @ caught.rotation).as_quat(scalar_first=True)
    return np.concatenate([origin + rotation @ caught.translation, quaternion], axis=1)


def _solids(crew: Crew) -> tuple[tuple[str, tuple[CollisionShape, ...]], ...]:
    """Bodies and their collision shapes, but for the gripper and the body that carries it, which have to come near."""
    robot, near = crew.robot, crew.robot.body_index(crew.gripper)
    close = {near}
    while near > 0 and (near := robot.parents[near - 1]) > 0:
        close.add(near)
        if robot.bodies[near].inertia.mass > 0.0:
            break
    return tuple((body.name, body.collisions) for i, body in enumerate(robot.bodies) if i not in close)


@lru_cache(maxsize=32)
def _pairs(made: Keyed[tuple[Crew, Shape]]) -> tuple[World, tuple[Pair, ...]]:
    """Shapes of the servicer, each with the target's, that lies about its mass centre: for any target of this shape."""
    crew, solid = made.value
    guest = Robot(TARGET, (Body(BODY, Inertia(1.0, tensor=np.eye(3))),), ())
    world, found = World({crew.robot.name: crew.robot, TARGET: guest}), list[Pair]()
    for body, _ in _solids(crew):
        for side in On.collision(world, f"{crew.robot.name}/{body}"):
            shape = Capsule(side.shape.radius, side.shape.length) if isinstance(side.shape, Cylinder) else side.shape
            if isinstance(shape, Sphere | Capsule | Box):
                found.append((replace(side, shape=shape), On(f"{TARGET}/{BODY}", solid)))
    return world, tuple(found)
