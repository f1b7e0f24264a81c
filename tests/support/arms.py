"""Robots for runs: a satellite with an arm, a block on a rail."""

from __future__ import annotations

import numpy as np

from spacearm.model import Body, Inertia, Joint, Pose, Robot, Rotor, Thruster
from spacearm.model.parts import Frame
from spacearm.simulate import (
    State,
)

BASE_LOCKED = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")


def turned(angle: float, axis: int) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[i, i], matrix[i, j], matrix[j, i], matrix[j, j] = c, -s, s, c
    return matrix


def arm(n: int = 7, **joint: object) -> Robot:
    """A satellite with an arm of n revolute joints; skew placements, a rotor on the second joint."""
    bodies = [Body("base", Inertia(50.0, [0.05, 0.1, -0.03], np.diag([8.0, 9.0, 7.0])))]
    joints = []
    for i in range(n):
        tensor = np.diag([0.12, 0.13, 0.04]) + 0.01 * (np.ones((3, 3)) - np.eye(3))
        bodies.append(Body(f"link{i}", Inertia(4.0 - 0.3 * i, [0.02, 0.03, 0.2], tensor)))
        axis = np.array([[0.0, 0.0, 1.0], [0.0, 0.6, 0.8], [1.0, 0.0, 0.0]][i % 3])
        placement = Pose(turned(0.3 * i, i % 3), [0.05, 0.0, 0.4])
        extra = {"rotor": Rotor(0.002, 50.0)} if i == 1 else {}
        joints.append(Joint(f"j{i}", "revolute", bodies[i].name, f"link{i}", placement, axis, **extra, **joint))
    hand = Frame("hand", f"link{n - 1}", Pose(turned(0.4, 1), [0.0, 0.02, 0.3]))
    thruster = Thruster("main", "base", [0.3, 0.1, -0.4], [0.0, 0.6, 0.8], 12.0)
    return Robot("arm", tuple(bodies), tuple(joints), (hand,), (thruster,))


def tumbling(robot: Robot, seed: int = 1) -> State:
    rng = np.random.default_rng(seed)
    return State.from_velocities(
        robot,
        0.5 * rng.normal(size=robot.n),
        0.3 * rng.normal(size=robot.n),
        quaternion=[0.8, 0.0, 0.6, 0.0],
        base_velocity=[0.1, 0.2, -0.1],
        base_angular_velocity=[0.2, -0.1, 0.3],
    )


def slider(**joint: object) -> Robot:
    """A block of 2 kg on a prismatic joint along the base's x."""
    bodies = (Body("base", Inertia(10.0, tensor=np.eye(3))), Body("block", Inertia(2.0, tensor=0.1 * np.eye(3))))
    return Robot("slider", bodies, (Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), **joint),))
