"""Motion of frames and momentum of a servicer and its target, by sums over their bodies; the world of both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spacearm.mission._encounter import TARGET
from spacearm.mission._laws import Actuators
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import State, World
from spacearm.simulate.bodies import centre_motion, evaluate_bodies, frame_pose
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array


def compute_frame_motion(robot: Robot, state: State, frame: str) -> tuple[Array, Array, Array, Array]:
    """Origin, rotation, velocity and angular velocity of a frame, world."""
    bodies = evaluate_bodies(robot, state.vector[None])
    rotation, origin = frame_pose(robot, bodies, frame)
    k = robot.body_index(robot.frame(frame).body)
    angular_rate = bodies.angular_velocity[0, k]
    velocity = bodies.velocity[0, k] + np.cross(angular_rate, origin[0] - bodies.origin[0, k])
    return origin[0], rotation[0], velocity, angular_rate


def combined_angular_momentum(robot: Robot, state: State, guest: Robot, moving: State) -> Array:
    """Angular momentum (3,) of both about their common mass centre, world axes, N m s."""
    seen = []
    for each, own in ((robot, state), (guest, moving)):
        numbers = robot_parameters(each)
        seen.append(centre_motion(each, own.vector[None], numbers["inertia"], numbers["rotor"]))
    a, b = seen
    # Koenig: own angular momenta, plus that of the relative motion with the reduced mass.
    reduced = a.mass * b.mass / (a.mass + b.mass)
    between = moving.position + b.centre[0] - state.position - a.centre[0]
    apart = np.cross(between, b.velocity[0] - a.velocity[0])
    return np.asarray(a.sums.angular[0] + b.sums.angular[0] + reduced * apart)


def wheel_momentum_at_rate(world: World, actuators: Actuators, rows: Mapping[str, Array], turning: Array) -> Array:
    """Momentum (T, 3) that the wheels have once they make the base turn so, world axes, N m s.

    Nothing else changes: the angular momentum is the same, joints move as they do.

    Args:
        rows: states (T, 13 + 2 n) of the servicer with what it holds.
        turning: angular velocity (T, 3) of the base that is wanted, world axes, rad/s.
    """
    name = actuators.robot.name
    robot, states = world.own_robot(name), rows[name]
    at, numbers = Layout(robot.n), robot_parameters(robot)
    wanted = states.copy()
    rotation = rotation_matrices(states[:, at.quaternion])
    wanted[:, at.angular_velocity] = np.einsum("tji,tj->ti", rotation, turning)
    wanted[:, at.rates][:, [robot.joint_index(wheel) for wheel in actuators.wheels]] = 0.0
    # The whole keeps its angular momentum: what bodies with still wheels would lack of it is in the wheels.
    now, then = (
        centre_motion(robot, each, numbers["inertia"], numbers["rotor"]).sums.angular for each in (states, wanted)
    )
    return np.asarray(now - then)


def make_world(actuators: Actuators, target: Robot) -> World:
    """Servicer and target, the soft joints held by their clutch, and joints that belong to nobody locked.

    Modes of appendages and slosh move freely.
    """
    name, used = actuators.robot.name, (*actuators.arm, *actuators.wheels, *actuators.robot.mode_names)
    still = tuple(f"{name}/{joint}" for joint in actuators.robot.joint_names if joint not in used)
    return World({name: actuators.robot, TARGET: target}, still)
