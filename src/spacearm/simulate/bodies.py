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
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.engine.loops import compile_lean
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Joint, Robot
from spacearm.model.layout import Layout
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
    return _tree_arrays(robot.joints, robot.parents)


@lru_cache(maxsize=64)
def _tree_arrays(joints: tuple[Joint, ...], parents: tuple[int, ...]) -> _JointArrays:
    """The same for robots that differ in their bodies alone."""
    n = len(joints)
    return _JointArrays(
        np.array(parents, dtype=np.int64),
        np.array([joint.kind == "revolute" for joint in joints], dtype=np.bool_),
        np.array([joint.placement.rotation for joint in joints]).reshape(n, 3, 3),
        np.array([joint.placement.translation for joint in joints]).reshape(n, 3),
        np.array([joint.axis for joint in joints]).reshape(n, 3),
    )


def evaluate_bodies(robot: Robot, states: Array) -> Bodies:
    """Bodies for states (T, 13 + 2 n)."""
    at, count = Layout(robot.n), len(states)
    rotation, axis = np.empty((count, at.n + 1, 3, 3)), np.empty((count, at.n, 3))
    origin, velocity, angular_rate = np.empty((3, count, at.n + 1, 3))
    parts = (at.pose, at.base_velocity, at.joints, at.rates)
    pose, twist, q, rates = (np.ascontiguousarray(states[:, part]) for part in parts)
    _propagate_motion(_joint_arrays(robot), pose, twist, q, rates, rotation, origin, velocity, angular_rate, axis)
    return Bodies(rotation, origin, velocity, angular_rate, axis)


@compile_lean
def _propagate_motion(
    tree: _JointArrays,
    pose: Array,
    twist: Array,
    q: Array,
    rates: Array,
    rotation: Array,
    origin: Array,
    velocity: Array,
    angular_rate: Array,
    axis: Array,
) -> None:
    """Propagate motion from the base (``pose``: position and quaternion, ``twist``: in its axes) to body after body."""
    for t in range(q.shape[0]):
        w, x, y, z = pose[t, 3], pose[t, 4], pose[t, 5], pose[t, 6]
        rotation[t, 0, 0, 0] = 1.0 - 2.0 * (y * y + z * z)
        rotation[t, 0, 0, 1] = 2.0 * (x * y - w * z)
        rotation[t, 0, 0, 2] = 2.0 * (x * z + w * y)
        rotation[t, 0, 1, 0] = 2.0 * (x * y + w * z)
        rotation[t, 0, 1, 1] = 1.0 - 2.0 * (x * x + z * z)
        rotation[t, 0, 1, 2] = 2.0 * (y * z - w * x)
        rotation[t, 0, 2, 0] = 2.0 * (x * z - w * y)
        rotation[t, 0, 2, 1] = 2.0 * (y * z + w * x)
        rotation[t, 0, 2, 2] = 1.0 - 2.0 * (x * x + y * y)
        for k in range(3):
            r0, r1, r2 = rotation[t, 0, k, 0], rotation[t, 0, k, 1], rotation[t, 0, k, 2]
            origin[t, 0, k] = pose[t, k]
            velocity[t, 0, k] = r0 * twist[t, 0] + r1 * twist[t, 1] + r2 * twist[t, 2]
            angular_rate[t, 0, k] = r0 * twist[t, 3] + r1 * twist[t, 4] + r2 * twist[t, 5]
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
                # The joint's frame: the parent's axes times the joint's placement, row by row.
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
            # The child's origin is a point of the parent, which a slide moves besides: v + w x arm + axis q'.
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
    if robot.rotor_inertias.size:
        axial = np.ascontiguousarray(rotors, dtype=np.float64).reshape(-1, robot.rotor_inertias.size)
        rates = np.ascontiguousarray(states[:, Layout(robot.n).rates])
        _add_rotors(_geared(robot), axial, bodies.axis, bodies.angular_velocity, rates, sums)
    return MomentumSums(sums[:, :3], sums[:, 3:6], *sums[:, 6:].T)


class _Geared(NamedTuple):
    """Joints with rotors."""

    joint: npt.NDArray[np.int64]
    carrier: npt.NDArray[np.int64]  # body
    ratio: Array


@lru_cache(maxsize=64)
def _geared(robot: Robot) -> _Geared:
    joints, parents = robot.joints, robot.parents
    found = [(i, parents[i], joint.rotor.ratio) for i, joint in enumerate(joints) if joint.rotor is not None]
    places, carriers, ratios = zip(*found, strict=True)
    return _Geared(np.array(places, dtype=np.int64), np.array(carriers, dtype=np.int64), np.array(ratios, dtype=float))


@compile_lean
def _add_rotors(geared: _Geared, axial: Array, axis: Array, angular_rate: Array, rates: Array, sums: Array) -> None:
    """Add rotors to sums as of :func:`_sum_up`: their mass belongs to the carrier, only the axial rotation is extra."""
    for t in range(rates.shape[0]):
        for k in range(geared.joint.size):
            i = geared.joint[k]
            a, w, moment = axis[t, i], angular_rate[t, geared.carrier[k]], axial[t if axial.shape[0] > 1 else 0, k]
            rate = geared.ratio[k] * rates[t, i] + (a[0] * w[0] + a[2] * w[2] + a[1] * w[1])
            spin = moment * rate
            sums[t, 3] += spin * a[0]
            sums[t, 4] += spin * a[1]
            sums[t, 5] += spin * a[2]
            sums[t, 7] += abs(spin)
            sums[t, 8] += 0.5 * moment * (rate * rate)


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
            # Momentum m v + w x h; angular momentum h x v + I w about the body's origin, and r x p to the sum's point.
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
            # Magnitudes are added up as well: a sum of zero is judged by how large its parts are.
            sums[t, 6] += math.sqrt(p0 * p0 + p1 * p1 + p2 * p2)
            sums[t, 7] += math.sqrt(a0 * a0 + a1 * a1 + a2 * a2)
            # T = 1/2 (m v.v + 2 v.(w x h) + w.I w), all about the body's own origin.
            sums[t, 8] += 0.5 * ((p0 + s0) * v0 + (p1 + s1) * v1 + (p2 + s2) * v2)
            sums[t, 8] += 0.5 * (w0 * k0 + w1 * k1 + w2 * k2)


def inertia_about(robot: Robot, bodies: Bodies, inertia: Array, rotors: Array) -> tuple[float, Array, Array]:
    """Mass (kg), first moment (T, 3) and inertia tensor (T, 3, 3) of all bodies about the origin, world axes.

    The axial inertia of rotors counts as if they did not rotate.
    """
    rows = np.ascontiguousarray(inertia, dtype=np.float64).reshape(-1, 10)
    first, whole = np.zeros((len(bodies.origin), 3)), np.zeros((len(bodies.origin), 3, 3))
    _sum_moments(rows, bodies.rotation, bodies.origin, first, whole)
    if robot.rotor_inertias.size:
        axes = bodies.axis[:, _geared(robot).joint]
        whole += np.einsum("r,tri,trj->tij", rotors, axes, axes)
    return float(rows[:, 0].sum()), first, whole


@compile_lean
def _sum_moments(rows: Array, rotation: Array, origin: Array, first: Array, whole: Array) -> None:
    """Add first moments (T, 3) and inertia tensors (T, 3, 3) about the origin, world axes."""
    for t in range(rotation.shape[0]):
        for b in range(rows.shape[0]):
            r, place, m = rotation[t, b], origin[t, b], rows[b]
            p0, p1, p2 = place[0], place[1], place[2]
            h0 = r[0, 0] * m[1] + r[0, 1] * m[2] + r[0, 2] * m[3]
            h1 = r[1, 0] * m[1] + r[1, 1] * m[2] + r[1, 2] * m[3]
            h2 = r[2, 0] * m[1] + r[2, 1] * m[2] + r[2, 2] * m[3]
            first[t, 0] += h0 + m[0] * p0
            first[t, 1] += h1 + m[0] * p1
            first[t, 2] += h2 + m[0] * p2
            # the own tensor in world axes, then what the shift by ``place`` adds: twice h.p and m p.p on the diagonal
            for i in range(3):
                a0, a1, a2 = r[i, 0], r[i, 1], r[i, 2]
                t0 = a0 * m[4] + a1 * m[7] + a2 * m[8]
                t1 = a0 * m[7] + a1 * m[5] + a2 * m[9]
                t2 = a0 * m[8] + a1 * m[9] + a2 * m[6]
                for j in range(3):
                    whole[t, i, j] += t0 * r[j, 0] + t1 * r[j, 1] + t2 * r[j, 2]
            along = 2.0 * (h0 * p0 + h1 * p1 + h2 * p2) + m[0] * (p0 * p0 + p1 * p1 + p2 * p2)
            whole[t, 0, 0] += along - 2.0 * h0 * p0 - m[0] * p0 * p0
            whole[t, 1, 1] += along - 2.0 * h1 * p1 - m[0] * p1 * p1
            whole[t, 2, 2] += along - 2.0 * h2 * p2 - m[0] * p2 * p2
            s01 = h0 * p1 + h1 * p0 + m[0] * p0 * p1
            s02 = h0 * p2 + h2 * p0 + m[0] * p0 * p2
            s12 = h1 * p2 + h2 * p1 + m[0] * p1 * p2
            whole[t, 0, 1] -= s01
            whole[t, 1, 0] -= s01
            whole[t, 0, 2] -= s02
            whole[t, 2, 0] -= s02
            whole[t, 1, 2] -= s12
            whole[t, 2, 1] -= s12


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
    rows = np.ascontiguousarray(inertia, dtype=np.float64).reshape(-1, len(robot.bodies), 10)
    centre, velocity, linear = np.empty((len(states), 3)), np.empty((len(states), 3)), Layout(n).linear_velocity
    common = np.ascontiguousarray(states[:, linear])
    _shift_to_centre(
        rows, bodies.rotation, bodies.origin, bodies.velocity, bodies.angular_velocity, common, centre, velocity
    )
    some, chosen = (bodies, local) if at is None else (bodies.select_rows(at), local[at])
    masses = rows[:, :, 0].sum(axis=1)
    mass = masses if len(rows) > 1 else float(masses[0])
    return CentredMotion(mass, centre, velocity, bodies, momentum(robot, some, chosen, rows, rotors))


@compile_lean
def _shift_to_centre(
    rows: Array,
    rotation: Array,
    origin: Array,
    velocity: Array,
    angular_rate: Array,
    common: Array,
    centre: Array,
    whole: Array,
) -> None:
    """Mass centre and its velocity (T, 3); origins and velocities of the bodies become relative to it.

    ``common``: linear velocity of the base (T, 3), base axes, without which the bodies' velocities are given.
    """
    for t in range(rotation.shape[0]):
        own = rows[t if rows.shape[0] > 1 else 0]
        # In scalars: arrays of three numbers would be made for each body at each instant.
        mass = c0 = c1 = c2 = d0 = d1 = d2 = 0.0
        for b in range(own.shape[0]):
            r, place, v, w, m = rotation[t, b], origin[t, b], velocity[t, b], angular_rate[t, b], own[b]
            # First moment m c in world axes; a body's momentum is m v + w x m c.
            h0 = r[0, 0] * m[1] + r[0, 1] * m[2] + r[0, 2] * m[3]
            h1 = r[1, 0] * m[1] + r[1, 1] * m[2] + r[1, 2] * m[3]
            h2 = r[2, 0] * m[1] + r[2, 1] * m[2] + r[2, 2] * m[3]
            mass += m[0]
            c0 += m[0] * place[0] + h0
            c1 += m[0] * place[1] + h1
            c2 += m[0] * place[2] + h2
            d0 += m[0] * v[0] + (w[1] * h2 - w[2] * h1)
            d1 += m[0] * v[1] + (w[2] * h0 - w[0] * h2)
            d2 += m[0] * v[2] + (w[0] * h1 - w[1] * h0)
        c0, c1, c2, d0, d1, d2 = c0 / mass, c1 / mass, c2 / mass, d0 / mass, d1 / mass, d2 / mass
        # Far from the origin or in fast motion, sums of moments and energies would lose the digits of what is inside.
        for b in range(own.shape[0]):
            origin[t, b, 0] -= c0
            origin[t, b, 1] -= c1
            origin[t, b, 2] -= c2
            velocity[t, b, 0] -= d0
            velocity[t, b, 1] -= d1
            velocity[t, b, 2] -= d2
        centre[t, 0], centre[t, 1], centre[t, 2] = c0, c1, c2
        # The base's velocity had been left out for the same reason: the centre's needs it.
        base, u0, u1, u2 = rotation[t, 0], common[t, 0], common[t, 1], common[t, 2]
        whole[t, 0] = base[0, 0] * u0 + base[0, 1] * u1 + base[0, 2] * u2 + d0
        whole[t, 1] = base[1, 0] * u0 + base[1, 1] * u1 + base[1, 2] * u2 + d1
        whole[t, 2] = base[2, 0] * u0 + base[2, 1] * u1 + base[2, 2] * u2 + d2


@dataclass(frozen=True)
class ExternalWrenches:
    """External actions, those that are not zero along the second axis: world axes, for the given placement of the
    bodies."""

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

    # Most thrusters are off most of the time, and a free base has no forces of its own: zeros add nothing.
    for force in base:
        if not force.any():
            continue
        rotation = bodies.rotation[:, 0]
        push, twist = (np.einsum("tij,tj->ti", rotation, half) for half in (force[:, :3], force[:, 3:]))
        add(0, bodies.origin[:, 0], push, twist)
    acts = wrench.reshape(len(wrench), len(loads), 6).any(axis=(0, 2))
    for k in np.flatnonzero(acts).tolist():
        load = loads[k]
        push, twist = wrench[:, 6 * k : 6 * k + 3], wrench[:, 6 * k + 3 : 6 * k + 6]
        r, point = frame_pose(robot, bodies, load.frame)
        if load.axes == "frame":
            push, twist = np.einsum("tij,tj->ti", r, push), np.einsum("tij,tj->ti", r, twist)
        add(robot.body_index(robot.frame(load.frame).body), point, push, twist)
    count = len(bodies.origin)
    if not parts:
        return ExternalWrenches(np.zeros((count, 0, 3)), np.zeros((count, 0, 3)), np.zeros((count, 0)))
    force, moment, power = (np.stack(column, axis=1) for column in zip(*parts, strict=True))
    return ExternalWrenches(force, moment, power)
