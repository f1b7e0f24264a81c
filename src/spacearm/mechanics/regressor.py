"""Regressors: forces and momentum as matrices times the 10(n + 1) inertia parameters.

Both are linear in each body's (m, m c, Ixx, Iyy, Izz, Ixy, Ixz, Iyz about its frame's origin); what rotors add does
not depend on these and is given apart as an offset.

Method: a body's wrench is linear in its ten parameters (C. G. Atkeson, C. H. An and J. M. Hollerbach, Int. J. Robotics
Research 5 (1986)), so its ten columns are the Jacobian with respect to them, which is exact. The columns are passed
down the chain to the base as wrenches are, and projected on each joint's axis on the way. Body axes; rows are (6 + n)
generalised forces, or 6 for momentum (base axes, at the base's origin). Columns that no motion can tell apart are kept:
base parameters are found elsewhere, from data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import casadi as ca

from spacearm.mechanics.dynamics import inverse_dynamics
from spacearm.mechanics.momentum import momentum
from spacearm.mechanics.spatial import SX, Spatial, rigid_inertia
from spacearm.mechanics.sweep import motions, velocities
from spacearm.mechanics.tree import Placement, Tree


class Regressor(NamedTuple):
    """``value = matrix @ parameters + offset`` with parameters (10(n + 1)) of all bodies in turn."""

    matrix: SX
    offset: SX


class _Columns(NamedTuple):
    """Ten wrench columns of one body: forces (3, 10) and moments (3, 10)."""

    force: SX
    moment: SX


def _momentum(twist: Spatial, parameters: SX) -> Spatial:
    return rigid_inertia(parameters).times(twist)


def _columns(wrench: Callable[[SX], Spatial]) -> _Columns:
    """The columns of a wrench that is linear in a body's ten parameters."""
    parameters = ca.SX.sym("parameters", 10)
    # Linear in the parameters, so its Jacobian does not contain them: CasADi leaves no symbol behind.
    value = wrench(parameters)
    return _Columns(ca.jacobian(value.linear, parameters), ca.jacobian(value.angular, parameters))


def _columns_to_parent(columns: _Columns, place: Placement) -> _Columns:
    rotation = place.matrix()
    force = rotation @ columns.force
    return _Columns(force, rotation @ columns.moment + ca.skew(place.origin()) @ force)


def dynamics_regressor(tree: Tree, q: SX, velocity: SX, acceleration: SX, rotor: SX) -> Regressor:
    """Generalised force (6 + n) of inverse dynamics, linear in the inertia parameters."""
    placements = tree.placements(q)
    motion = motions(tree, placements, velocity, acceleration)
    matrix = ca.SX(6 + tree.n, 10 * tree.bodies)
    for b in range(tree.bodies):
        columns = _columns(motion[b].wrench)
        block = slice(10 * b, 10 * b + 10)
        for i in reversed(tree.path(b)):
            axis = tree.joints[i].subspace
            matrix[6 + i, block] = axis.linear.T @ columns.force + axis.angular.T @ columns.moment
            columns = _columns_to_parent(columns, placements[i])
        matrix[:3, block], matrix[3:6, block] = columns.force, columns.moment
    # With all bodies' parameters zero only rotors are left.
    bodiless = ca.SX.zeros(10 * tree.bodies)
    offset = inverse_dynamics(tree, q, velocity, acceleration, bodiless, rotor, [None] * tree.bodies)
    return Regressor(ca.densify(matrix), ca.densify(offset))


def momentum_regressor(tree: Tree, q: SX, velocity: SX, rotor: SX) -> Regressor:
    """Momentum (6) at the base's origin in base axes, linear in the inertia parameters."""
    placements = tree.placements(q)
    motion = velocities(tree, placements, velocity, rotor)
    matrix = ca.SX(6, 10 * tree.bodies)
    for b in range(tree.bodies):
        columns = _columns(partial(_momentum, motion.twist[b]))
        for i in reversed(tree.path(b)):
            columns = _columns_to_parent(columns, placements[i])
        block = slice(10 * b, 10 * b + 10)
        matrix[:3, block], matrix[3:, block] = columns.force, columns.moment
    offset = momentum(tree, q, velocity, ca.SX.zeros(10 * tree.bodies), rotor).stack()
    return Regressor(ca.densify(matrix), ca.densify(offset))
