"""Satellites to start from: a box of uniform density with reaction wheels and thrusters of plausible sizes."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import ModelError
from spacearm.model.parts import Body, CollisionShape, Frame, Inertia, Pose, Thruster, Visual, finite
from spacearm.model.robot import Robot
from spacearm.model.rotations import rotation_from_rpy
from spacearm.model.wheels import WheelSet, wheel, wheel_axes
from spacearm.typing import Array

#: The wheels together hold the momentum of the box at about this rate (rad/s), ...
WHEEL_RATE = 0.1
#: ... run at up to 6000 revolutions a minute (rad/s), ...
WHEEL_SPEED = 200.0 * math.pi
#: ... and reach that from rest within this time, s.
WHEEL_TIME = 60.0
#: A thruster accelerates the satellite by so much, m/s2; a pulse lasts at least so long, s; hydrazine's impulse, s.
THRUST_ACCELERATION, SHORTEST_PULSE, SPECIFIC_IMPULSE = 0.01, 0.02, 220.0
#: Thrusters sit on the faces at this share of the half edge from the middle.
THRUSTER_OFFSET = 0.8


def thruster_places(count: int, size: npt.ArrayLike) -> list[tuple[str, Array, Array]]:
    """Name, position (m) and direction of the force of 12 or 16 thrusters on a box with these edges, about its middle.

    Either set gives a force along and a torque about every axis, in both senses, each without the other.

    - 12: two on each face, pushing inwards. Those on the faces of x are apart along y (torque about z), of y along z
      (about x), of z along x (about y).
    - 16: four clusters of four in the middles of the faces of x and y, pushing along the face: up and down z, and to
      either side.
    """
    checks.one_of(count, (12, 16), "number of thrusters", error=ModelError)
    half = 0.5 * checks.array(size, "size", (3,), above=0.0, unit="m", error=ModelError)
    found, signs = [], ((1.0, "p"), (-1.0, "m"))
    if count == 12:
        for face, (sign, s), (shift, t) in itertools.product(range(3), signs, signs):
            across = (face + 1) % 3
            place = np.zeros(3)
            place[face], place[across] = sign * half[face], shift * THRUSTER_OFFSET * half[across]
            found.append((f"{'xyz'[face]}{s}_{'xyz'[across]}{t}", place, -sign * np.eye(3)[face]))
    else:
        for face, (sign, s), along, (push, t) in itertools.product(range(2), signs, (2, None), signs):
            across = 1 - face if along is None else along
            found.append(
                (f"{'xyz'[face]}{s}_{'xyz'[across]}{t}", sign * half[face] * np.eye(3)[face], push * np.eye(3)[across])
            )
    return found


def make_bus(
    mass: float,
    size: npt.ArrayLike,
    *,
    name: str = "bus",
    wheels: WheelSet | None = "pyramid",
    thrusters: Literal[0, 12, 16] = 12,
) -> Robot:
    """A satellite of this mass (kg): a box of uniform density with edges ``size`` (m) about its middle.

    It has a frame on each face (``plus_x`` to ``minus_z``, z outwards) to mount arms on, and a collision shape.
    Wheels (``wheel1``, ...) hold the box's momentum at 0.1 rad/s about its largest axis, at 6000 revolutions a minute,
    reached within a minute. A thruster accelerates it by 0.01 m/s2. These are sizes as many satellites have; a real
    satellite's numbers take their place where they are known.
    """
    mass = finite(mass, "mass", above=0.0)
    edges = checks.array(size, "size", (3,), above=0.0, unit="m", error=ModelError)
    x, y, z = edges**2
    moments = mass / 12.0 * np.array([y + z, x + z, x + y])
    box = (Visual("box", edges, colour="#d9dde2"),)
    bodies = [Body(name, Inertia(mass, tensor=np.diag(moments)), box, (CollisionShape("box", edges),))]
    joints = []
    momentum = WHEEL_RATE * float(moments.max())
    for index, axis in enumerate(wheel_axes(wheels) if wheels is not None else ()):
        body, joint = wheel(f"wheel{index + 1}", name, axis, momentum / WHEEL_SPEED, momentum / WHEEL_TIME, WHEEL_SPEED)
        bodies.append(body)
        joints.append(joint)
    jets = [
        Thruster(f"jet_{each}", name, place, direction, THRUST_ACCELERATION * mass, SHORTEST_PULSE, SPECIFIC_IMPULSE)
        for each, place, direction in (thruster_places(thrusters, edges) if thrusters else ())
    ]
    return Robot(name, tuple(bodies), tuple(joints), face_frames(name, edges), tuple(jets))


def face_frames(body: str, size: Array) -> tuple[Frame, ...]:
    """Frames in the middles of a box's faces, z outwards: ``plus_x``, ``minus_x`` and so on."""
    outward = {
        "plus_x": (0.0, math.pi / 2, 0.0),
        "minus_x": (0.0, -math.pi / 2, 0.0),
        "plus_y": (-math.pi / 2, 0.0, 0.0),
        "minus_y": (math.pi / 2, 0.0, 0.0),
        "plus_z": (0.0, 0.0, 0.0),
        "minus_z": (math.pi, 0.0, 0.0),
    }
    places = {name: rotation_from_rpy(rpy) for name, rpy in outward.items()}
    return tuple(Frame(name, body, Pose(rotation, rotation[:, 2] * size / 2)) for name, rotation in places.items())
