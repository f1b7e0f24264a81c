"""Distances of target and servicer: between the shapes of both, or between two balls if the servicer has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np

from spacearm.engine import Kernel
from spacearm.mechanics.shapes import Box, Capsule, Cylinder, Sphere
from spacearm.mechanics.structure import Keyed
from spacearm.mission._encounter import BODY, TARGET, MissionTargetTable
from spacearm.mission._laws import Actuators
from spacearm.model import Body, CollisionShape, Inertia, Pose, Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import ShapeOnFrame, World, gaps
from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.simulate.distance import Pair, gap_kernel
from spacearm.typing import Array

#: Collision shapes whose distances are looked at; planes, discs, cones, holes and rings are for touching alone.
SOLIDS = ("sphere", "capsule", "cylinder", "box")


def compute_gaps(
    actuators: Actuators, table: MissionTargetTable, bus_radius: float, states: Array, target: Array
) -> tuple[Array, list[str]]:
    """Gaps (T, P), m, between the target and parts of the servicer, with the names of those parts.

    Args:
        states: of the servicer (T, 13 + 2 n or more).
        target: positions and quaternions (T, 7) of the target's frame; of one with free joints its states.
    """
    robot = table.reference_robot
    centre = target[:, :3] + rotation_matrices(target[:, 3:7]) @ table.mass_centre
    has_shapes = any(shape.shape in SOLIDS for _, shapes in _solids(actuators) for shape in shapes)
    if table.has_free_joints and has_shapes and any(solid_shapes(body) for body in robot.bodies):
        return _gaps_of_parts(actuators, robot, states, target)
    given = solid_shapes(robot.bodies[0])
    # a box or a ball lies about the mass centre, wherever that is: the same code serves any target of this size
    place, shapes = (target[:, :3], given) if given else (centre, (shape_around(table),))
    kernel, parts = _gap_kernel(Keyed((actuators.robot.structure, _solids(actuators), shapes), (actuators, shapes)))
    if kernel is None:
        # Without shapes two balls stand for both: too near rather than too far.
        between = np.linalg.norm(centre - states[:, :3], axis=1)
        return np.asarray(between - table.ball - bus_radius)[:, None], [actuators.robot.bodies[0].name]
    # Flat states of both systems; the target's velocity does not matter for distances.
    rows = np.concatenate([states, place, target[:, 3:7], np.zeros((len(states), 6))], axis=1)
    return np.asarray(kernel({"state": rows})["gaps"]), list(parts)


def solid_shapes(body: Body) -> tuple[CollisionShape, ...]:
    """The shapes of a body whose distances are looked at."""
    return tuple(each for each in body.collisions if each.shape in SOLIDS)


def _gaps_of_parts(actuators: Actuators, robot: Robot, states: Array, target: Array) -> tuple[Array, list[str]]:
    """Gaps (T, P), m, between all bodies of a target and parts of the servicer, with the names of these."""
    shapes = tuple((body.name, solid_shapes(body)) for body in robot.bodies)
    key = actuators.robot.structure, _solids(actuators), robot.structure, shapes
    world, pairs = _pairs_of_parts(Keyed(key, (actuators, robot)))
    return gaps(world, pairs, np.concatenate([states, target], axis=1)), [
        str(first.frame).partition("/")[2] for first, _ in pairs
    ]


@lru_cache(maxsize=32)
def _pairs_of_parts(made: Keyed[tuple[Actuators, Robot]]) -> tuple[World, tuple[Pair, ...]]:
    actuators, robot = made.value
    world = World({actuators.robot.name: actuators.robot, TARGET: robot})
    own = [side for body, _ in _solids(actuators) for side in _sides(world, f"{actuators.robot.name}/{body}")]
    theirs = [side for body in robot.body_names for side in _sides(world, f"{TARGET}/{body}")]
    return world, tuple(product(own, theirs))


def shape_around(table: MissionTargetTable, centre: Array | None = None) -> CollisionShape:
    """The box or ball that a target without collision shapes counts as, about ``centre`` (m)."""
    shape, size = ("box", tuple(table.size)) if table.radius is None else ("sphere", (table.radius,))
    return (
        _shape_about(shape, size) if centre is None else CollisionShape(shape, np.array(size), Pose(translation=centre))
    )


@lru_cache(maxsize=16)
def _shape_about(shape: str, size: tuple[float, ...]) -> CollisionShape:
    return CollisionShape(shape, np.array(size))


def target_poses(actuators: Actuators, caught: Pose, states: Array) -> Array:
    """Positions and quaternions (T, 7) of the frame of a target that the hand holds so."""
    from scipy.spatial.transform import Rotation

    rotation, origin = frame_pose(actuators.robot, evaluate_bodies(actuators.robot, states), actuators.hand)
    quaternion = Rotation.from_matrix(rotation @ caught.rotation).as_quat(scalar_first=True)
    return np.concatenate([origin + rotation @ caught.translation, quaternion], axis=1)


@lru_cache(maxsize=32)
def _solids(actuators: Actuators) -> tuple[tuple[str, tuple[CollisionShape, ...]], ...]:
    """Bodies and their collision shapes, but for the gripper and the body that carries it, which have to come near."""
    robot, near = actuators.robot, actuators.robot.body_index(actuators.gripper)
    close = {near}
    # Up the chain past massless bodies, which are only frames, to the first real body that carries the gripper.
    while near > 0 and (near := robot.parents[near - 1]) > 0:
        close.add(near)
        if robot.bodies[near].inertia.mass > 0.0:
            break
    return tuple((body.name, body.collisions) for i, body in enumerate(robot.bodies) if i not in close)


@lru_cache(maxsize=32)
def _gap_kernel(made: Keyed[tuple[Actuators, tuple[CollisionShape, ...]]]) -> tuple[Kernel | None, tuple[str, ...]]:
    """Gaps of the servicer's shapes, each with each of the target's, and the servicer's part of each; None: of none."""
    actuators, shapes = made.value
    # Unit inertia: the key holds shapes only, so that targets of any mass share the compiled distances.
    guest = Robot(TARGET, (Body(BODY, Inertia(1.0, tensor=np.eye(3)), collisions=shapes),), ())
    world = World({actuators.robot.name: actuators.robot, TARGET: guest})
    own = [side for body, _ in _solids(actuators) for side in _sides(world, f"{actuators.robot.name}/{body}")]
    pairs = tuple(product(own, _sides(world, f"{TARGET}/{BODY}")))
    parts = tuple(str(first.frame).partition("/")[2] for first, _ in pairs)
    return gap_kernel(tuple(world.systems.items()), pairs) if pairs else None, parts


def _sides(world: World, body: str) -> Iterator[ShapeOnFrame]:
    """Collision shapes of a body that have a distance from each other; a cylinder counts as the capsule around it."""
    for side in ShapeOnFrame.from_collision_shapes(world, body):
        shape = Capsule(side.shape.radius, side.shape.length) if isinstance(side.shape, Cylinder) else side.shape
        if isinstance(shape, Sphere | Capsule | Box):
            yield replace(side, shape=shape)
