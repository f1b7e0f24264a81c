"""The shapes of contacts as visuals of the bodies that they are on."""

from __future__ import annotations

import math

import numpy as np

from spacearm.mechanics import shapes
from spacearm.model import Pose, Robot, Visual
from spacearm.model.rotations import rotation_about
from spacearm.simulate.contact import Contact
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Plates that make a round wall.
PLATES = 24


def contact_shapes(world: World | None, system: str, robot: Robot) -> dict[str, tuple[Visual, ...]]:
    """What of a system may touch something, by body; planes have no end and are not drawn."""
    found: dict[str, tuple[Visual, ...]] = {}
    for contact in (element for element in (world.elements if world else ()) if isinstance(element, Contact)):
        for side in (contact.first, contact.second):
            if not isinstance(side.frame, str):
                continue
            assert world is not None
            where, own = world.frame(side.frame)
            if where == system:
                frame = robot.frame(own)
                visuals = tuple(visual.transform(frame.placement @ side.placement) for visual in _visuals(side.shape))
                found[frame.body] = found.get(frame.body, ()) + visuals
    return found


def _visuals(shape: shapes.Shape) -> list[Visual]:
    match shape:
        case shapes.Sphere(radius):
            return [Visual("sphere", np.array([radius]))]
        case shapes.Capsule(radius, length):
            return [Visual("capsule", np.array([radius, length]))]
        case shapes.Cylinder(radius, length):
            return [Visual("cylinder", np.array([radius, length]))]
        case shapes.Box(x, y, z):
            return [Visual("box", np.array([x, y, z]))]
        case shapes.Disc(radius):
            thin = 0.04 * radius
            return [Visual("cylinder", np.array([radius, thin]), Pose(translation=np.array([0.0, 0.0, -thin / 2])))]
        case shapes.Cone(throat, mouth, length):
            return _wall(throat, mouth, 0.0, length)
        case shapes.Hole(radius, depth):
            return _wall(radius, radius, -depth, 0.0)
        case shapes.Ring(radius, tube):
            long = 2.0 * radius * math.tan(math.pi / PLATES)
            quarter = rotation_about([1.0, 0.0, 0.0], math.pi / 2)  # z along the circle
            rod = Pose(quarter, np.array([radius, 0.0, 0.0]))
            return [Visual("capsule", np.array([tube, long]), Pose(rotation) @ rod) for rotation in _plate_rotations()]
    return []


def _wall(below: float, above: float, low: float, high: float) -> list[Visual]:
    """Plates around z, from a radius at the lower end to another at the upper one."""
    slope = math.atan2(above - below, high - low)
    tall, thin = math.hypot(above - below, high - low), 0.03 * max(above, below)
    wide = 2.0 * max(above, below) * math.tan(math.pi / PLATES)
    middle = np.array([0.5 * (above + below) + thin / 2, 0.0, 0.5 * (low + high)])
    plate = Pose(rotation_about([0.0, 1.0, 0.0], slope), middle)
    return [Visual("box", np.array([thin, wide, tall]), Pose(rotation) @ plate) for rotation in _plate_rotations()]


def _plate_rotations() -> list[Array]:
    return [rotation_about([0.0, 0.0, 1.0], 2.0 * math.pi * k / PLATES) for k in range(PLATES)]
