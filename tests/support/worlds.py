"""Worlds of one or several systems, and what their runs must keep."""

from __future__ import annotations

import numpy as np

from spacearm.model import Body, Inertia, Joint, Pose, Robot, Spring
from spacearm.model.parts import Frame
from spacearm.model.rotations import rotation_about
from spacearm.simulate import (
    Dopri853,
    Run,
    State,
    World,
)
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.typing import Array
from support.random_robots import random_robot
from support.random_robots import random_state as drawn_state

TIGHT = Dopri853(rtol=1e-12, atol=1e-14)
BASE = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")


def block(name: str, mass: float, com: tuple[float, float, float] = (0.0, 0.0, 0.0), seed: int = 0) -> Robot:
    """A free rigid body with a frame ``grip`` off its origin."""
    turn = rotation_about(np.random.default_rng(seed).normal(size=3), 0.7)
    tensor = turn @ np.diag([0.3, 0.4, 0.5]) @ turn.T * mass
    return Robot(name, (Body(f"{name}.body", Inertia(mass, np.array(com), tensor)),), (), (grip(f"{name}.body"),))


def random_state(robot: Robot, rng: np.random.Generator, speed: float) -> State:
    drawn = drawn_state(robot, rng, speed=speed)
    return State(drawn.position, drawn.quaternion, drawn.joints, drawn.velocity)


def grip(body: str) -> Frame:
    return Frame("grip", body, Pose(rotation_about([0.0, 1.0, 0.2], 0.4), np.array([0.3, -0.1, 0.2])))


def two(seed: int = 1) -> tuple[World, dict[str, State]]:
    """Two arms with springs and dampers that drift and tumble."""
    robots = {"chaser": random_robot(seed, 3, passive=True), "target": random_robot(seed + 1, 2, passive=True)}
    rng = np.random.default_rng(seed)
    return World(robots), {name: random_state(robot, rng, speed=0.3) for name, robot in robots.items()}


def momentum(robot: Robot, state: State) -> tuple[float, Array]:
    """Kinetic energy and momentum (6,) about the world's origin, by MuJoCo."""
    reference = MujocoModel(robot)
    reference.set_state(state.position, state.quaternion, state.joints, state.velocity)
    return reference.kinetic_energy(), reference.momentum()


def sound(run: Run) -> Run:
    assert run.certificate is not None
    assert run.sound, str(run.certificate)
    return run


def sliding_block(spring: Spring | None = None) -> Robot:
    """A block of 2 kg on a base of 6 kg, mass centres on the line of motion."""
    bodies = (Body("base", Inertia(6.0, tensor=np.eye(3))), Body("block", Inertia(2.0, tensor=0.1 * np.eye(3))))
    joint = Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), spring=spring)
    return Robot("slider", bodies, (joint,))
