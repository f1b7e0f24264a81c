"""Regressors: forces and momentum as matrices times the 10(n + 1) inertia parameters.

Both are linear in each body's (m, m c, Ixx, Iyy, Izz, Ixy, Ixz, Iyz about its frame's origin); what rotors add does
not depend on these and is given apart as an offset.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca

from spacearm.mechanics.dynamics import inverse_dynamics, velocities
from spacearm.mechanics.momentum import momentum
from spacearm.mechanics.spatial import SX, Spatial, scaled, spatial
from spacearm.mechanics.tree import Placement, Tree


class Regressor(NamedTuple):
    """``value = matrix @ parameters + offset`` with parameters (10(n + 1)) of all bodies in turn."""

    matrix: SX
    offset: SX


class _Columns(NamedTuple):
    """Ten wrench columns of one body: forces (3, 10) and moments (3, 10)."""

    force: SX
    moment: SX


def inertia_times(vector: SX) -> SX:
    """Matrix (3, 6) such that it times (Ixx, Iyy, Izz, Ixy, Ixz, Iyz) is the tensor times ``vector``."""
    x, y, z = ca.vertsplit(vector)
    zero = ca.SX(0)
    return ca.blockcat([[x, zero, zero, y, z, zero], [zero, y, zero, x, zero, z], [zero, zero, z, zero, x, y]])


def _momentum_columns(twist: Spatial) -> _Columns:
    """Momentum of a body per parameter: p = m v + w x h, L = h x v + I w."""
    zero3, zero6 = ca.SX.zeros(3, 1), ca.SX.zeros(3, 6)
    return _Columns(
        ca.horzcat(twist.linear, ca.skew(twist.angular), zero6),
        ca.horzcat(zero3, -ca.skew(twist.linear), inertia_times(twist.angular)),
    )


def _force_columns(twist: Spatial, rise: Spatial) -> _Columns:
    """Force on a body per parameter: momentum columns of the acceleration plus what turning axes add."""
    steady, moving = _momentum_columns(rise), _momentum_columns(twist)
    turn, slide = ca.skew(twist.angular), ca.skew(twist.linear)
    return _Columns(
        steady.force + turn @ moving.force,
        steady.moment + turn @ moving.moment + slide @ moving.force,
    )


def _up(columns: _Columns, place: Placement) -> _Columns:
    rotation = place.rotation.matrix()
    force = rotation @ columns.force
    return _Columns(force, rotation @ columns.moment + ca.skew(place.arm) @ force)


def dynamics_regressor(tree: Tree, q: SX, velocity: SX, acceleration: SX, rotor: SX) -> Regressor:
    """Generalised force (6 + n) of inverse dynamics, linear in the inertia parameters."""
    placements = tree.placements(q)
    motion = velocities(tree, placements, velocity, rotor)
    rise = [spatial(acceleration[:6])]
    for i, (joint, place) in enumerate(zip(tree.joints, placements, strict=True)):
        carried = place.rotation.twist_down(rise[joint.parent], place.arm)
        rise.append(carried.plus(motion.product[i]).plus(scaled(joint.subspace, acceleration[6 + i])))
    matrix = ca.SX(6 + tree.n, 10 * tree.bodies)
    for b in range(tree.bodies):
        columns = _force_columns(motion.twist[b], rise[b])
        block = slice(10 * b, 10 * b + 10)
        for i in reversed(tree.path(b)):
            axis = tree.joints[i].subspace
            matrix[6 + i, block] = axis.linear.T @ columns.force + axis.angular.T @ columns.moment
            columns = _up(columns, placements[i])
        matrix[:3, block], matrix[3:6, block] = columns.force, columns.moment
    bodiless = ca.SX.zeros(10 * tree.bodies)
    offset = inverse_dynamics(tree, q, velocity, acceleration, bodiless, rotor, [None] * tree.bodies)
    return Regressor(ca.densify(matrix), ca.densify(offset))


def momentum_regressor(tree: Tree, q: SX, velocity: SX, rotor: SX) -> Regressor:
    """Momentum (6) at the base's origin in base axes, linear in the inertia parameters."""
    placements = tree.placements(q)
    motion = velocities(tree, placements, velocity, rotor)
    matrix = ca.SX(6, 10 * tree.bodies)
    for b in range(tree.bodies):
        columns = _momentum_columns(motion.twist[b])
        for i in reversed(tree.path(b)):
            columns = _up(columns, placements[i])
        block = slice(10 * b, 10 * b + 10)
        matrix[:3, block], matrix[3:, block] = columns.force, columns.moment
    offset = momentum(tree, q, velocity, ca.SX.zeros(10 * tree.bodies), rotor).stacked()
    return Regressor(ca.densify(matrix), ca.densify(offset))
