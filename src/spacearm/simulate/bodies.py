"""Momentum, energy and frames of a robot from plain body sums, for many states at once.

Method: Newton's sums over rigid bodies. Poses and velocities go from the base to the tips by p_child = p + R r and
v_child = v + w x r + a q', then each body adds m v, its moment of momentum and its kinetic energy. For a balance all
is taken relative to the mass centre (:func:`centre_motion`): the common motion, however fast, would leave no digits
for the rest.

Written independently of :mod:`spacearm.mechanics`, with world-frame vectors and rotation matrices throughout, because
the certificate of a run must not share a formula with what was integrated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.engine.loops import compile_lean
from spacearm.mechanics.motion import LoadFrame
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

    def select_rows(self, rows: npt.NDArray[np.int64]) -> Bodies:
        """The same at some of the states only."""
        return Bodies(*(getattr(self, part.name)[rows] for part in fields(self)))


def cross(a: Array, b: Array) -> Array:
    """Cross product of vectors (..., 3); numpy.cross takes two and a half times as long for a few vectors."""
    found = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        found[..., k] = a[..., i] * b[..., j] - a[..., j] * b[..., i]
    return found


class _JointArrays(NamedTuple):
    """The robot's joints as arrays."""

    parents: npt.NDArray[np.int64]  # (n,)
    revolute: npt.NDArray[np.bool_]  # (n,) revolute
    rotation: Array  # (n, 3, 3) placements
    shift: Array  # (n, 3)
    axis: Array  # (n, 3)


@lru_cache(maxsize=64)
def _joint_arrays(robot: Robot) -> _JointArrays:
    n, joints = robot.n, robot.joints
    return _JointArrays(
        np.array(robot.parents, dtype=np.int64),
        np.array([joint.kind == "revolute" for joint in joints], dtype=np.bool_),
        np.array([joint.placement.rotation for joint in joints]).reshape(n, 3, 3),
        np.array([joint.placement.translation for joint in joints]).reshape(n, 3),
        np.array([joint.axis for joint in joints]).reshape(n, 3),
    )


def evaluate_bodies(robot: Robot, states: Array) -> Bodies:
    """Bodies for states (T, 13 + 2 n)."""
    n, count = robot.n, len(states)
    rotation, axis = np.empty((count, n + 1, 3, 3)), np.empty((count, n, 3))
    origin, velocity, angular_rate = np.empty((3, count, n + 1, 3))
    rotation[:, 0] = rotation_matrices(states[:, QUATERNION])
    origin[:, 0] = states[:, :3]
    velocity[:, 0] = np.einsum("tij,tj->ti", rotation[:, 0], states[:, Layout(n).linear_velocity])
    angular_rate[:, 0] = np.einsum("tij,tj->ti", rotation[:, 0], states[:, Layout(n).angular_velocity])
    q, rates = (np.ascontiguousarray(states[:, part]) for part in (Layout(n).joints, Layout(n).rates))
    _propagate_motion(_joint_arrays(robot), q, rates, rotation, origin, velocity, angular_rate, axis)
    return Bodies(rotation, origin, velocity, angular_rate, axis)


@compile_lean
def _propagate_motion(
    tree: _JointArrays,
    q: Array,
    rates: Array,
    rotation: Array,
    origin: Array,
    velocity: Array,
    angular_rate: Array,
    axis: Array,
) -> None:
    """Propagate motion from body to body; the first entry of each array is given."""
    for t in range(q.shape[0]):
        for i in range(q.shape[1]):
            p, b, revolute = tree.parents[i], i + 1, tree.revolute[i]
            angle = q[t, i] if revolute else 0.0
            slid = 0.0 if revolute else q[t, i]
            spun, sliding = (rates[t, i], 0.0) if revolute else (0.0, rates[t, i])
            c, s = math.cos(angle), math.sin(angle)
            x, y, z = tree.axis[i, 0], tree.axis[i, 1], tree.axis[i, 2]
            for k in range(3):
                r0, r1, r2 = rotation[t, p, k, 0], rotation[t, p, k, 1], rotation[t, p, k, 2]
                place = tree.rotation[i]
                f0 = r0 * place[0, 0] + r1 * place[1, 0] + r2 * place[2, 0]
                f1 = r0 * place[0, 1] + r1 * place[1, 1] + r2 * place[2, 1]
                f2 = r0 * place[0, 2] + r1 * place[1, 2] + r2 * place[2, 2]
                along = f0 * x + f1 * y + f2 * z
                axis[t, i, k] = along
                # a row of frame times (c 1 + s [axis x] + (1 - c) axis axis^T)
                rotation[t, b, k, 0] = c * f0 + s * (f1 * z - f2 * y) + (1.0 - c) * along * x
                rotation[t, b, k, 1] = c * f1 + s * (f2 * x - f0 * z) + (1.0 - c) * along * y
                rotation[t, b, k, 2] = c * f2 + s * (f0 * y - f1 * x) + (1.0 - c) * along * z
                arm = r0 * tree.shift[i, 0] + r1 * tree.shift[i, 1] + r2 * tree.shift[i, 2] + along * slid
                origin[t, b, k] = origin[t, p, k] + arm
                angular_rate[t, b, k] = angular_rate[t, p, k] + along * spun
                velocity[t, b, k] = arm  # until the next loop
            a0, a1, a2 = velocity[t, b, 0], velocity[t, b, 1], velocity[t, b, 2]
            w0, w1, w2 = angular_rate[t, p, 0], angular_rate[t, p, 1], angular_rate[t, p, 2]
            velocity[t, b, 0] = velocity[t, p, 0] + (w1 * a2 - w2 * a1) + axis[t, i, 0] * sliding
            velocity[t, b, 1] = velocity[t, p, 1] + (w2 * a0 - w0 * a2) + axis[t, i, 1] * sliding
            velocity[t, b, 2] = velocity[t, p, 2] + (w0 * a1 - w1 * a0) + axis[t, i, 2] * sliding


def frame_pose(robot: Robot, bodies: Bodies, name: str) -> tuple[Array, Array]:
    """Rotation (T, 3, 3) and origin (T, 3) of a frame in the world."""
    frame = robot.frame(name)
    body = robot.body_index(frame.body)
    rotation = bodies.rotation[:, body]
    return rotation @ frame.placement.rotation, bodies.origin[:, body] + rotation @ frame.placement.translation


@dataclass(frozen=True)
class MomentumSums:
    """Sums over bodies at each state: world axes, moments about the reference point of the bodies' origins."""

    linear: Array  # (T, 3) kg m/s
    angular: Array  # (T, 3) kg m2/s
    linear_scale: Array  # (T,) sum of the magnitudes of the contributions
    angular_scale: Array  # (T,)
    kinetic: Array  # (T,) J


def momentum(robot: Robot, bodies: Bodies, states: Array, inertia: Array, rotors: Array) -> MomentumSums:
    """Momentum and kinetic energy with these inertias and rotor inertias; see :func:`centre_motion`."""
    rows = np.ascontiguousarray(inertia, dtype=np.float64).reshape(-1, len(robot.bodies), 10)
    sums = np.zeros((len(states), 9))
    _sum_up(rows, bodies.rotation, bodies.origin, bodies.velocity, bodies.angular_velocity, sums)
    linear, angular, linear_scale, angular_scale, kinetic = sums[:, :3], sums[:, 3:6], *sums[:, 6:].T
    # Rotors: their mass belongs to the carrier, only the axial rotation is extra.
    geared = [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]
    for k, i in enumerate(geared):
        axial, rotor = rotors[..., k], robot.joints[i].rotor
        assert rotor is not None
        axis, carrier = bodies.axis[:, i], bodies.angular_velocity[:, robot.parents[i]]
        rate = rotor.ratio * states[:, Layout(robot.n).rates][:, i] + np.einsum("ti,ti->t", axis, carrier)
        angular += (axial * rate)[:, None] * axis
        angular_scale += np.abs(axial * rate)
        kinetic += 0.5 * axial * rate**2
    return MomentumSums(linear, angular, linear_scale, angular_scale, kinetic)


@compile_lean
def _sum_up(rows: Array, rotation: Array, origin: Array, velocity: Array, angular_rate: Array, sums: Array) -> None:
    """Add to ``sums`` (T, 9): linear and angular momentum, magnitudes of both, kinetic energy."""
    for t in range(rotation.shape[0]):
        own = rows[t if rows.shape[0] > 1 else 0]
        for b in range(own.shape[0]):
            r, place, v, w, m = rotation[t, b], origin[t, b], velocity[t, b], angular_rate[t, b], own[b]
            v0, v1, v2, w0, w1, w2 = v[0], v[1], v[2], w[0], w[1], w[2]
            # first moment in world axes, angular velocity in body axes, its moment of momentum in both
            h0 = r[0, 0] * m[1] + r[0, 1] * m[2] + r[0, 2] * m[3]
            h1 = r[1, 0] * m[1] + r[1, 1] * m[2] + r[1, 2] * m[3]
            h2 = r[2, 0] * m[1] + r[2, 1] * m[2] + r[2, 2] * m[3]
            u0 = r[0, 0] * w0 + r[1, 0] * w1 + r[2, 0] * w2
            u1 = r[0, 1] * w0 + r[1, 1] * w1 + r[2, 1] * w2
            u2 = r[0, 2] * w0 + r[1, 2] * w1 + r[2, 2] * w2
            l0 = m[4] * u0 + m[7] * u1 + m[8] * u2
            l1 = m[7] * u0 + m[5] * u1 + m[9] * u2
            l2 = m[8] * u0 + m[9] * u1 + m[6] * u2
            k0 = r[0, 0] * l0 + r[0, 1] * l1 + r[0, 2] * l2
            k1 = r[1, 0] * l0 + r[1, 1] * l1 + r[1, 2] * l2
            k2 = r[2, 0] * l0 + r[2, 1] * l1 + r[2, 2] * l2
            s0, s1, s2 = w1 * h2 - w2 * h1, w2 * h0 - w0 * h2, w0 * h1 - w1 * h0
            p0, p1, p2 = m[0] * v0 + s0, m[0] * v1 + s1, m[0] * v2 + s2
            a0 = (h1 * v2 - h2 * v1) + k0 + (place[1] * p2 - place[2] * p1)
            a1 = (h2 * v0 - h0 * v2) + k1 + (place[2] * p0 - place[0] * p2)
            a2 = (h0 * v1 - h1 * v0) + k2 + (place[0] * p1 - place[1] * p0)
            sums[t, 0] += p0
            sums[t, 1] += p1
            sums[t, 2] += p2
            sums[t, 3] += a0
            sums[t, 4] += a1
            sums[t, 5] += a2
            sums[t, 6] += math.sqrt(p0 * p0 + p1 * p1 + p2 * p2)
            sums[t, 7] += math.sqrt(a0 * a0 + a1 * a1 + a2 * a2)
            # T = 1/2 (m v.v + 2 v.(w x h) + w.I w), all about the body's own origin.
            sums[t, 8] += 0.5 * ((p0 + s0) * v0 + (p1 + s1) * v1 + (p2 + s2) * v2)
            sums[t, 8] += 0.5 * (w0 * k0 + w1 * k1 + w2 * k2)


def inertia_about(robot: Robot, bodies: Bodies, inertia: Array, rotors: Array) -> tuple[float, Array, Array]:
    """Mass (kg), first moment (T, 3) and inertia tensor (T, 3, 3) of all bodies about the origin, world axes.

    The axial inertia of rotors counts as if they did not rotate.
    """
    rows = np.asarray(inertia).reshape(-1, 10)
    mass, origin = rows[:, 0], bodies.origin
    arm = np.einsum("tbij,bj->tbi", bodies.rotation, rows[:, 1:4])
    tensor = rows[:, [[4, 7, 8], [7, 5, 9], [8, 9, 6]]]
    # Second moments of mass about the origin; the tensor is the trace less the moments themselves.
    own = 0.5 * np.einsum("bii->b", tensor)[:, None, None] * np.eye(3) - tensor
    mixed = np.einsum("tbi,tbj->tbij", origin, arm)
    moments = np.einsum("tbij,bjk,tblk->til", bodies.rotation, own, bodies.rotation)
    moments = moments + (mixed + mixed.swapaxes(2, 3)).sum(axis=1) + np.einsum("b,tbi,tbj->tij", mass, origin, origin)
    whole: Array = np.einsum("tii->t", moments)[:, None, None] * np.eye(3) - moments
    axes = bodies.axis[:, [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]]
    whole = whole + np.einsum("r,tri,trj->tij", rotors, axes, axes)
    return float(mass.sum()), arm.sum(axis=1) + np.einsum("b,tbi->ti", mass, origin), whole


def elastic_energy(robot: Robot, states: Array, stiffness: Array, rest: Array, coupling: Array) -> Array:
    """Energy (T,) in joint springs and couplings, J; their parameters are the same for all states, or (T, ...)."""
    q = states[:, Layout(robot.n).joints]
    energy: Array = 0.5 * ((q - rest) ** 2 * stiffness).sum(axis=1) if robot.n else np.zeros(len(states))
    numbers = np.asarray(coupling)
    for place, part in enumerate(robot.couplings):
        k, _, ratio, zero = (numbers[..., 4 * place + column] for column in range(4))
        interval = q[:, robot.joint_index(part.first)] - ratio * q[:, robot.joint_index(part.second)] - zero
        energy = energy + 0.5 * k * interval**2
    return energy


@dataclass(frozen=True)
class CentredMotion:
    """Motion of a robot relative to its mass centre, which may move: origins and velocities of ``bodies`` are relative
    to it.
    """

    mass: Any  # kg; (T,) where inertias differ
    centre: Array  # (T, 3) mass centre from the base's origin, world axes, m
    velocity: Array  # (T, 3) of the mass centre in the world, m/s
    bodies: Bodies  # world axes
    sums: MomentumSums  # angular momentum about the mass centre, kinetic energy in its frame; at the requested states

    @property
    def reach(self) -> float:
        """Largest distance of a body's frame from the mass centre, m; one metre if there is none."""
        return float(np.linalg.norm(self.bodies.origin, axis=2).max()) or 1.0


def centre_motion(
    robot: Robot, states: Array, inertia: Array, rotors: Array, at: npt.NDArray[np.int64] | None = None
) -> CentredMotion:
    """States (T, 13 + 2 n) from the mass centre, with these inertias (bodies, 10) and rotor inertias, or (T, ...) of
    each state.

    Sums over the bodies are the costly part: ``at`` selects the states for which they are needed, all by default.

    The base's position and velocity are excluded before anything is summed, not subtracted afterwards: neither a large
    distance nor a large common speed costs digits.
    """
    n = robot.n
    # At zero position and velocity first; the common motion is added to the mass centre's velocity alone.
    local = np.array(states)
    local[:, :3] = 0.0
    local[:, Layout(n).linear_velocity] = 0.0
    bodies = evaluate_bodies(robot, local)
    rows = np.asarray(inertia).reshape(-1, len(robot.bodies), 10)
    each = rows[:, :, 0].sum(axis=1)[:, None]
    arms = np.einsum("tbij,tbj->tbi", bodies.rotation, rows[:, :, 1:4])
    centre = (np.einsum("tb,tbi->ti", rows[:, :, 0], bodies.origin) + arms.sum(axis=1)) / each
    swing = cross(bodies.angular_velocity, arms).sum(axis=1)
    drift = (np.einsum("tb,tbi->ti", rows[:, :, 0], bodies.velocity) + swing) / each
    common = np.einsum("tij,tj->ti", bodies.rotation[:, 0], states[:, Layout(n).linear_velocity])
    seen = replace(bodies, origin=bodies.origin - centre[:, None], velocity=bodies.velocity - drift[:, None])
    some, chosen = (seen, local) if at is None else (seen.select_rows(at), local[at])
    mass = each[:, 0] if len(rows) > 1 else float(each[0, 0])
    return CentredMotion(mass, centre, common + drift, seen, momentum(robot, some, chosen, rows, rotors))


@dataclass(frozen=True)
class ExternalWrenches:
    """External actions, one contributor along the second axis: world axes, for the given placement of the bodies."""

    force: Array  # (T, K, 3) N
    moment: Array  # (T, K, 3) N m about the reference point of the bodies' origins
    power: Array  # (T, K) W, with the velocities of the bodies as given


def external_wrenches(
    robot: Robot, bodies: Bodies, loads: tuple[LoadFrame, ...], wrench: Array, base: Sequence[Array]
) -> ExternalWrenches:
    """Wrenches of loads on frames, and of forces on the base's own degrees of freedom.

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
        r, point = frame_pose(robot, bodies, load.frame)
        push, twist = wrench[:, 6 * k : 6 * k + 3], wrench[:, 6 * k + 3 : 6 * k + 6]
        if load.axes == "frame":
            push, twist = np.einsum("tij,tj->ti", r, push), np.einsum("tij,tj->ti", r, twist)
        add(robot.body_index(robot.frame(load.frame).body), point, push, twist)
    force, moment, power = (np.stack(column, axis=1) for column in zip(*parts, strict=True))
    return ExternalWrenches(force, moment, power)
