"""Momentum, energy and frames of a robot from plain body sums in NumPy, vectorised over states.

Written apart from :mod:`spacearm.mechanics`, with world-frame vectors and rotation matrices throughout, because the
certificate of a run must not share a formula with what was integrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from spacearm.mechanics import LoadFrame
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array


@dataclass(frozen=True)
class Bodies:
    """Pose and velocity of every body for each state: world axes, bodies along the second axis."""

    rotation: Array  # (T, bodies, 3, 3)
    origin: Array  # (T, bodies, 3) m
    velocity: Array  # (T, bodies, 3) m/s, of the body frame's origin
    angular_velocity: Array  # (T, bodies, 3) rad/s
    axis: Array  # (T, joints, 3) joint axes

    def at(self, rows: npt.NDArray[np.int64]) -> Bodies:
        """At some of the states only."""
        return Bodies(*(getattr(self, part.name)[rows] for part in fields(self)))


def cross(a: Array, b: Array) -> Array:
    """Of vectors (..., 3), as numpy.cross, which for a few vectors takes two and a half times as long."""
    found = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        found[..., k] = a[..., i] * b[..., j] - a[..., j] * b[..., i]
    return found


def _turn(axis: Array, angle: Array) -> Array:
    """Rotation by ``angle`` (T,) about a unit axis: (T, 3, 3)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    c, s = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    turned: Array = c * np.eye(3) + s * cross + (1.0 - c) * np.outer(axis, axis)
    return turned


def move(robot: Robot, states: Array) -> Bodies:
    """Bodies for states (T, 13 + 2 n)."""
    n = robot.n
    q, rates = states[:, Layout(n).joints], states[:, Layout(n).rates]
    rotation = [rotation_matrices(states[:, QUATERNION])]
    origin = [states[:, :3]]
    velocity = [np.einsum("tij,tj->ti", rotation[0], states[:, Layout(n).linear_velocity])]
    angular_velocity = [np.einsum("tij,tj->ti", rotation[0], states[:, Layout(n).angular_velocity])]
    axes = []
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        frame = rotation[parent] @ joint.placement.rotation
        axis = frame @ joint.axis
        arm = rotation[parent] @ joint.placement.translation
        rate = rates[:, i, None]
        if joint.kind == "revolute":
            rotation.append(frame @ _turn(joint.axis, q[:, i]))
            turning, sliding = axis * rate, np.zeros_like(axis)
        else:
            rotation.append(frame)
            arm = arm + axis * q[:, i, None]
            turning, sliding = np.zeros_like(axis), axis * rate
        origin.append(origin[parent] + arm)
        velocity.append(velocity[parent] + cross(angular_velocity[parent], arm) + sliding)
        angular_velocity.append(angular_velocity[parent] + turning)
        axes.append(axis)
    return Bodies(
        np.stack(rotation, 1),
        np.stack(origin, 1),
        np.stack(velocity, 1),
        np.stack(angular_velocity, 1),
        np.stack(axes, 1) if axes else np.zeros((len(states), 0, 3)),
    )


def frame_pose(robot: Robot, bodies: Bodies, name: str) -> tuple[Array, Array]:
    """Rotation (T, 3, 3) and origin (T, 3) of a frame in the world."""
    frame = robot.frame(name)
    body = robot.body_index(frame.body)
    rotation = bodies.rotation[:, body]
    return rotation @ frame.placement.rotation, bodies.origin[:, body] + rotation @ frame.placement.translation


@dataclass(frozen=True)
class Motion:
    """Sums over bodies at each state: world axes, moments about the origin that the bodies' origins count from."""

    linear: Array  # (T, 3) kg m/s
    angular: Array  # (T, 3) kg m2/s
    linear_scale: Array  # (T,) sum of the sizes of the parts
    angular_scale: Array  # (T,)
    kinetic: Array  # (T,) J


def momentum(robot: Robot, bodies: Bodies, states: Array, inertia: Array, rotors: Array) -> Motion:
    """Momentum and kinetic energy with these inertias (bodies, 10) and rotor inertias (one for each rotor)."""
    count = len(states)
    linear, angular = np.zeros((count, 3)), np.zeros((count, 3))
    linear_scale, angular_scale, kinetic = np.zeros(count), np.zeros(count), np.zeros(count)
    for b, row in enumerate(np.asarray(inertia).reshape(-1, 10)):
        mass, first = row[0], row[1:4]
        xx, yy, zz, xy, xz, yz = row[4:]
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        rotation, origin = bodies.rotation[:, b], bodies.origin[:, b]
        velocity, angular_velocity = bodies.velocity[:, b], bodies.angular_velocity[:, b]
        moment = rotation @ first
        in_body = np.einsum("tij,ti->tj", rotation, angular_velocity)
        turning = np.einsum("tij,tj->ti", rotation, in_body @ tensor)
        swing = cross(angular_velocity, moment)
        push = mass * velocity + swing
        about = cross(moment, velocity) + turning + cross(origin, push)
        linear += push
        angular += about
        linear_scale += np.linalg.norm(push, axis=1)
        angular_scale += np.linalg.norm(about, axis=1)
        kinetic += 0.5 * np.einsum("ti,ti->t", push + swing, velocity)
        kinetic += 0.5 * np.einsum("ti,ti->t", angular_velocity, turning)
    geared = [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]
    for i, axial in zip(geared, rotors, strict=True):
        rotor = robot.joints[i].rotor
        assert rotor is not None
        axis, carrier = bodies.axis[:, i], bodies.angular_velocity[:, robot.parents[i]]
        rate = rotor.ratio * states[:, Layout(robot.n).rates][:, i] + np.einsum("ti,ti->t", axis, carrier)
        angular += (axial * rate)[:, None] * axis
        angular_scale += np.abs(axial * rate)
        kinetic += 0.5 * axial * rate**2
    return Motion(linear, angular, linear_scale, angular_scale, kinetic)


def inertia_about(robot: Robot, bodies: Bodies, inertia: Array, rotors: Array) -> tuple[float, Array, Array]:
    """Mass (kg), first moment (T, 3) and inertia tensor (T, 3, 3) of all bodies about the origin, world axes.

    The axial inertia of rotors counts as if they stood still.
    """
    rows = np.asarray(inertia).reshape(-1, 10)
    mass, origin = rows[:, 0], bodies.origin
    arm = np.einsum("tbij,bj->tbi", bodies.rotation, rows[:, 1:4])
    xx, yy, zz, xy, xz, yz = rows[:, 4:].T
    tensor = np.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=1).reshape(-1, 3, 3)
    # Second moments of mass about the origin, of which the tensor is the trace less the moments themselves.
    own = 0.5 * np.einsum("bii->b", tensor)[:, None, None] * np.eye(3) - tensor
    mixed = np.einsum("tbi,tbj->tbij", origin, arm)
    moments = np.einsum("tbij,bjk,tblk->til", bodies.rotation, own, bodies.rotation)
    moments = moments + (mixed + mixed.swapaxes(2, 3)).sum(axis=1) + np.einsum("b,tbi,tbj->tij", mass, origin, origin)
    whole: Array = np.einsum("tii->t", moments)[:, None, None] * np.eye(3) - moments
    axes = bodies.axis[:, [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]]
    whole = whole + np.einsum("r,tri,trj->tij", rotors, axes, axes)
    return float(mass.sum()), arm.sum(axis=1) + np.einsum("b,tbi->ti", mass, origin), whole


def elastic_energy(robot: Robot, states: Array, stiffness: Array, rest: Array, coupling: Array) -> Array:
    """Energy (T,) in joint springs and couplings, J."""
    q = states[:, Layout(robot.n).joints]
    energy: Array = 0.5 * ((q - rest) ** 2 @ stiffness) if robot.n else np.zeros(len(states))
    for part, (k, _, ratio, zero) in zip(robot.couplings, np.asarray(coupling).reshape(-1, 4), strict=True):
        stretch = q[:, robot.joint_index(part.first)] - ratio * q[:, robot.joint_index(part.second)] - zero
        energy = energy + 0.5 * k * stretch**2
    return energy


@dataclass(frozen=True)
class Centred:
    """A robot seen from its mass centre, which may move: origins and velocities of ``bodies`` are relative to it."""

    mass: float  # kg
    centre: Array  # (T, 3) mass centre from the base's origin, world axes, m
    velocity: Array  # (T, 3) of the mass centre in the world, m/s
    bodies: Bodies  # world axes
    sums: Motion  # angular momentum about the mass centre, kinetic energy in its frame; at the states asked for

    @property
    def reach(self) -> float:
        """Largest distance of a body's frame from the mass centre, m; one metre where there is none."""
        return float(np.linalg.norm(self.bodies.origin, axis=2).max()) or 1.0


def centred(
    robot: Robot, states: Array, inertia: Array, rotors: Array, at: npt.NDArray[np.int64] | None = None
) -> Centred:
    """States (T, 13 + 2 n) from the mass centre, with these inertias (bodies, 10) and rotor inertias.

    Sums over the bodies are the costly part: ``at`` says for which states they are wanted, all unless given.

    The base's position and velocity are left out before anything is summed, not subtracted afterwards: neither a large
    distance nor a large common speed costs digits.
    """
    n = robot.n
    local = np.array(states)
    local[:, :3] = 0.0
    local[:, Layout(n).linear_velocity] = 0.0
    bodies = move(robot, local)
    rows = np.asarray(inertia).reshape(-1, 10)
    mass = float(rows[:, 0].sum())
    arms = np.einsum("tbij,bj->tbi", bodies.rotation, rows[:, 1:4])
    centre = (np.einsum("b,tbi->ti", rows[:, 0], bodies.origin) + arms.sum(axis=1)) / mass
    swing = cross(bodies.angular_velocity, arms).sum(axis=1)
    drift = (np.einsum("b,tbi->ti", rows[:, 0], bodies.velocity) + swing) / mass
    common = np.einsum("tij,tj->ti", bodies.rotation[:, 0], states[:, Layout(n).linear_velocity])
    seen = replace(bodies, origin=bodies.origin - centre[:, None], velocity=bodies.velocity - drift[:, None])
    some, chosen = (seen, local) if at is None else (seen.at(at), local[at])
    return Centred(mass, centre, common + drift, seen, momentum(robot, some, chosen, rows, rotors))


@dataclass(frozen=True)
class External:
    """What acts from outside, one contributor along the second axis: world axes, as the given bodies are placed."""

    force: Array  # (T, K, 3) N
    moment: Array  # (T, K, 3) N m about the origin that the bodies' origins count from
    power: Array  # (T, K) W, with the velocities of the bodies as given


def external(
    robot: Robot, bodies: Bodies, loads: tuple[LoadFrame, ...], wrench: Array, base: Sequence[Array]
) -> External:
    """Loads on frames and what acts on the base's own freedoms.

    Args:
        wrench: (T, 6 L) as given to the kernel.
        base: generalised forces on the base (T, 6), base axes, one for each cause.
    """
    parts = []

    def add(body: int, point: Array, push: Array, twist: Array) -> None:
        arm = point - bodies.origin[:, body]
        angular_velocity = bodies.angular_velocity[:, body]
        speed = bodies.velocity[:, body] + cross(angular_velocity, arm)
        power = np.einsum("ti,ti->t", push, speed) + np.einsum("ti,ti->t", twist, angular_velocity)
        parts.append((push, twist + cross(point, push), power))

    for force in base:
        rotation = bodies.rotation[:, 0]
        push, twist = (np.einsum("tij,tj->ti", rotation, half) for half in (force[:, :3], force[:, 3:]))
        add(0, bodies.origin[:, 0], push, twist)
    for k, load in enumerate(loads):
        turn, point = frame_pose(robot, bodies, load.frame)
        push, twist = wrench[:, 6 * k : 6 * k + 3], wrench[:, 6 * k + 3 : 6 * k + 6]
        if load.axes == "frame":
            push, twist = np.einsum("tij,tj->ti", turn, push), np.einsum("tij,tj->ti", turn, twist)
        add(robot.body_index(robot.frame(load.frame).body), point, push, twist)
    force, moment, power = (np.stack(column, axis=1) for column in zip(*parts, strict=True))
    return External(force, moment, power)
