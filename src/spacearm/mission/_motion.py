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
from spacearm.simulate.bodies import centre_motion, cross, evaluate_bodies, frame_pose
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.system_loop import SystemLoop
from spacearm.typing import Array


def compute_frame_motion(robot: Robot, state: State, frame: str) -> tuple[Array, Array, Array, Array]:
    """Origin, rotation, velocity and angular velocity of a frame, world."""
    bodies = evaluate_bodies(robot, state.vector[None])
    rotation, origin = frame_pose(robot, bodies, frame)
    k = robot.body_index(robot.frame(frame).body)
    angular_rate = bodies.angular_velocity[0, k]
    velocity = bodies.velocity[0, k] + cross(angular_rate, origin[0] - bodies.origin[0, k])
    return origin[0], rotation[0], velocity, angular_rate


def combined_angular_momentum(robot: Robot, states: Array, guest: Robot, others: Array) -> Array:
    """Angular momentum (T, 3) of both about their common mass centre, world axes, N m s.

    ``states``, ``others``: flat states (T, 13 + 2 n) of each.
    """
    seen = []
    for each, own in ((robot, states), (guest, others)):
        numbers = robot_parameters(each)
        seen.append(centre_motion(each, own, numbers["inertia"], numbers["rotor"]))
    a, b = seen
    # Koenig: own angular momenta, plus that of the relative motion with the reduced mass.
    reduced = a.mass * b.mass / (a.mass + b.mass)
    way = others[:, :3] + b.centre - states[:, :3] - a.centre
    apart = cross(way, b.velocity - a.velocity)
    return np.asarray(a.sums.angular + b.sums.angular + reduced * apart)


def wheel_momentum_at_rate(world: World, actuators: Actuators, rows: Mapping[str, Array], turning: Array) -> Array:
    """Momentum (T, 3) that the wheels have once they make the base turn so, world axes, N m s.

    Nothing else changes: the angular momentum is the same, joints move as they do.

    Args:
        rows: states (T, 13 + 2 n) of the servicer with what it holds.
        turning: angular velocity (T, 3) of the base that is wanted, world axes, rad/s.
    """
    name = actuators.robot.name
    robot, states = world.own_robot(name), rows[name]
    at, wanted = Layout(robot.n), states.copy()
    turn = rotation_matrices(states[:, at.quaternion])
    wanted[:, at.angular_velocity] = np.einsum("tji,tj->ti", turn, turning)
    wanted[:, at.rates][:, [robot.joint_index(wheel) for wheel in actuators.wheels]] = 0.0
    if not is_held_as_system(world):
        return np.asarray(angular_momentum(robot, states) - angular_momentum(robot, wanted))
    # What the hand holds turns with the base, about the base's origin.
    guest, own = world.own_robot(TARGET), rows[TARGET]
    place, carried = Layout(guest.n), own.copy()
    more = turning - np.einsum("tij,tj->ti", turn, states[:, at.angular_velocity])
    axes = rotation_matrices(own[:, place.quaternion])
    speed = np.cross(more, own[:, place.position] - states[:, at.position])
    carried[:, place.linear_velocity] += np.einsum("tji,tj->ti", axes, speed)
    carried[:, place.angular_velocity] += np.einsum("tji,tj->ti", axes, more)
    return np.asarray(
        combined_angular_momentum(robot, states, guest, own) - combined_angular_momentum(robot, wanted, guest, carried)
    )


def is_held_as_system(world: World) -> bool:
    """Whether the hand holds a target that is still a system of its own, because of its free joints."""
    return any(isinstance(element, SystemLoop) for element in world.elements)


def angular_momentum(robot: Robot, states: Array) -> Array:
    """Angular momentum (T, 3) about the mass centre, world axes, N m s, in states (T, 13 + 2 n)."""
    numbers = robot_parameters(robot)
    return np.asarray(centre_motion(robot, states, numbers["inertia"], numbers["rotor"]).sums.angular)


def make_world(actuators: Actuators, servicer: Robot, target: Robot) -> World:
    """Servicer and target as they are, the soft joints held by their clutch, and joints that belong to nobody locked.

    Modes of appendages and slosh move freely.
    """
    name, used = actuators.robot.name, (*actuators.arm, *actuators.wheels, *actuators.robot.mode_names)
    still = tuple(f"{name}/{joint}" for joint in actuators.robot.joint_names if joint not in used)
    return World({name: servicer, TARGET: target}, still)
