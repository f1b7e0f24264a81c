"""Equations of motion: inverse dynamics, mass matrix, hybrid forward dynamics.

All recursions run in body axes after Featherstone, Rigid Body Dynamics Algorithms (2008), with the floating base as
six degrees of freedom of its own and rotors as extra spinning masses on a joint's parent. Accelerations are plain
time derivatives of velocity components. There is no gravity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.spatial import (
    SX,
    Spatial,
    SpatialInertia,
    dot,
    rigid_inertia,
    scaled,
    spatial,
    velocity_force,
)
from spacearm.mechanics.tree import Placement, Tree


@dataclass(frozen=True)
class Velocities:
    """Twist of every body (body axes), the velocity products of every joint, the spin momentum of every rotor."""

    twist: list[Spatial]
    product: list[Spatial]
    spin: list[SX | None]


def velocities(tree: Tree, placements: list[Placement], velocity: SX, rotor: SX) -> Velocities:
    """Forward sweep: what the state (placements, generalised velocity) says of every body."""
    twist = [spatial(velocity[:6])]
    product: list[Spatial] = []
    spin: list[SX | None] = []
    for i, (joint, place) in enumerate(zip(tree.joints, placements, strict=True)):
        rate = velocity[6 + i]
        own = scaled(joint.subspace, rate)
        carried = place.rotation.twist_down(twist[joint.parent], place.arm)
        now = carried.plus(own)
        twist.append(now)
        if joint.joint.kind == "revolute":
            product.append(Spatial(ca.cross(carried.linear, own.angular), ca.cross(carried.angular, own.angular)))
        else:
            # The arm grows while the parent turns: once by the arm's rate, once by the turning axes.
            product.append(Spatial(ca.cross(now.angular, own.linear), ca.SX.zeros(3)))
        if joint.rotor is None:
            spin.append(None)
        else:
            along = ca.dot(joint.subspace.angular, carried.angular)
            spin.append(rotor[joint.rotor] * (along + joint.ratio * rate))
    return Velocities(twist, product, spin)


def spin_force(joint_axis: SX, twist: Spatial, spin: SX) -> SX:
    """Moment that turning a spinning rotor's axis takes from its carrier; child axes (the axis is the same there)."""
    return ca.cross(twist.angular, joint_axis) * spin


def inverse_dynamics(
    tree: Tree, q: SX, velocity: SX, acceleration: SX, inertia: SX, rotor: SX, wrenches: list[Spatial | None]
) -> SX:
    """Generalised force (6 + n) that gives this acceleration; ``wrenches`` act on the bodies, in body axes."""
    placements = tree.placements(q)
    motion = velocities(tree, placements, velocity, rotor)
    rise = [spatial(acceleration[:6])]
    for i, (joint, place) in enumerate(zip(tree.joints, placements, strict=True)):
        carried = place.rotation.twist_down(rise[joint.parent], place.arm)
        rise.append(carried.plus(motion.product[i]).plus(scaled(joint.subspace, acceleration[6 + i])))
    force = []
    for b in range(tree.bodies):
        body = rigid_inertia(inertia[10 * b : 10 * b + 10])
        total = body.times(rise[b]).plus(velocity_force(body.times(motion.twist[b]), motion.twist[b]))
        push = wrenches[b]
        force.append(total if push is None else total.plus(scaled(push, -1)))
    effort: list[SX] = [None] * tree.n
    for i in reversed(range(tree.n)):
        joint, place, own = tree.joints[i], placements[i], force[i + 1]
        effort[i] = dot(joint.subspace, own)
        if joint.rotor is not None:
            axis = joint.subspace.angular
            carrier = rise[i + 1].angular - axis * acceleration[6 + i]
            torque = rotor[joint.rotor] * (ca.dot(axis, carrier) + joint.ratio * acceleration[6 + i])
            effort[i] += joint.ratio * torque
            turning = spin_force(axis, motion.twist[i + 1], motion.spin[i])
            own = own.plus(Spatial(ca.SX.zeros(3), axis * torque + turning))
        force[joint.parent] = force[joint.parent].plus(place.rotation.force_up(own, place.arm))
    return ca.vertcat(force[0].stacked(), *effort)


def mass_matrix(tree: Tree, q: SX, inertia: SX, rotor: SX) -> SX:
    """Joint-space inertia H (6 + n square) by composite bodies."""
    placements = tree.placements(q)
    composite = [rigid_inertia(inertia[10 * b : 10 * b + 10]) for b in range(tree.bodies)]
    size = 6 + tree.n
    result = ca.SX(size, size)
    for i in reversed(range(tree.n)):
        joint, place = tree.joints[i], placements[i]
        own = composite[i + 1]
        force = own.times(joint.subspace)
        diagonal = dot(joint.subspace, force)
        if joint.rotor is not None:
            spinning, axis = rotor[joint.rotor], joint.subspace.angular
            diagonal += joint.ratio**2 * spinning
            force = force.plus(Spatial(ca.SX.zeros(3), axis * (joint.ratio * spinning)))
            own = SpatialInertia(own.mass, own.coupling, own.rotation + spinning * (axis @ axis.T))
        result[6 + i, 6 + i] = diagonal
        composite[joint.parent] = composite[joint.parent].plus(place.rotation.inertia_up(own, place.arm))
        k = i
        while True:
            force = placements[k].rotation.force_up(force, placements[k].arm)
            parent = tree.joints[k].parent
            if parent == 0:
                break
            k = parent - 1
            result[6 + i, 6 + k] = result[6 + k, 6 + i] = dot(tree.joints[k].subspace, force)
        column = force.stacked()
        result[:6, 6 + i] = column
        result[6 + i, :6] = column.T
    result[:6, :6] = composite[0].stacked()
    return ca.densify(result)


@dataclass(frozen=True)
class Hybrid:
    """Accelerations (6 + n), and reactions (6 + n) that are zero where the degree of freedom is free."""

    acceleration: SX
    reaction: SX


def hybrid_dynamics(
    tree: Tree,
    q: SX,
    velocity: SX,
    force: SX,
    drive: SX,
    mode: SX,
    inertia: SX,
    rotor: SX,
    wrenches: list[Spatial | None],
) -> Hybrid:
    """Articulated bodies with a mode for each degree of freedom.

    Where ``mode`` is 0 the degree of freedom is free: ``force`` in, acceleration out. Where it is 1 it is driven with
    acceleration ``drive``, and the reaction out is what must act beside ``force`` to make it so. A driven joint does
    not soften its parent: it passes on its whole inertia and its acceleration as bias.
    """
    placements = tree.placements(q)
    motion = velocities(tree, placements, velocity, rotor)
    given = ca.vertcat(*(ca.if_else(mode[i] > 0.5, drive[i], 0) for i in range(6 + tree.n)))
    masks = [_masks(mode[6 + i]) for i in range(tree.n)]
    articulated = [rigid_inertia(inertia[10 * b : 10 * b + 10]) for b in range(tree.bodies)]
    bias = []
    for b in range(tree.bodies):
        demand = velocity_force(articulated[b].times(motion.twist[b]), motion.twist[b])
        push = wrenches[b]
        bias.append(demand if push is None else demand.plus(scaled(push, -1)))
    column: list[Spatial] = [None] * tree.n  # type: ignore[list-item]
    diagonal: list[SX] = [None] * tree.n
    inverse: list[SX] = [None] * tree.n
    remaining: list[SX] = [None] * tree.n
    for i in reversed(range(tree.n)):
        joint, place = tree.joints[i], placements[i]
        own, load, product = articulated[i + 1], bias[i + 1], motion.product[i]
        driven, free = masks[i]
        u = own.times(joint.subspace)
        d = dot(joint.subspace, u)
        remaining[i] = force[6 + i] - dot(joint.subspace, load)
        load = load.plus(own.times(product))
        if joint.rotor is not None:
            spinning, axis = rotor[joint.rotor], joint.subspace.angular
            d += joint.ratio**2 * spinning
            u = u.plus(Spatial(ca.SX.zeros(3), axis * (joint.ratio * spinning)))
            own = SpatialInertia(own.mass, own.coupling, own.rotation + spinning * (axis @ axis.T))
            load = load.plus(Spatial(ca.SX.zeros(3), spin_force(axis, motion.twist[i + 1], motion.spin[i])))
        column[i], diagonal[i] = u, d
        inverse[i] = free / (free * d + driven)  # 1 / d where free, 0 where driven, even where d is 0
        gain = (remaining[i] - dot(u, product)) * inverse[i] + given[6 + i]
        own = own.minus_outer(u, inverse[i])
        load = load.plus(scaled(u, gain))
        articulated[joint.parent] = articulated[joint.parent].plus(place.rotation.inertia_up(own, place.arm))
        bias[joint.parent] = bias[joint.parent].plus(place.rotation.force_up(load, place.arm))
    base = _base_dynamics(articulated[0].stacked(), bias[0].stacked(), force[:6], given[:6], mode[:6])
    rise = [spatial(base.acceleration)]
    acceleration, reaction = [base.acceleration], [base.reaction]
    for i, (joint, place) in enumerate(zip(tree.joints, placements, strict=True)):
        carried = place.rotation.twist_down(rise[joint.parent], place.arm).plus(motion.product[i])
        short = remaining[i] - dot(column[i], carried)
        own_rise = short * inverse[i] + given[6 + i]
        acceleration.append(own_rise)
        reaction.append(diagonal[i] * given[6 + i] - masks[i].driven * short)
        rise.append(carried.plus(scaled(joint.subspace, own_rise)))
    return Hybrid(ca.vertcat(*acceleration), ca.vertcat(*reaction))


class _Masks(NamedTuple):
    """1 and 0 as numbers. CasADi pulls if_else out of every product that it meets; a factor stays where it is."""

    driven: SX
    free: SX


def _masks(mode: SX) -> _Masks:
    return _Masks(mode > 0.5, mode <= 0.5)


def _base_dynamics(articulated: SX, bias: SX, force: SX, given: SX, mode: SX) -> Hybrid:
    """The base's six equations with driven directions as masked rows, by an LDL^T factorisation."""
    masks = [_masks(mode[i]) for i in range(6)]
    short = force - bias - articulated @ given
    free = ca.vertcat(*(mask.free for mask in masks))
    masked = articulated * (free @ free.T)
    for i in range(6):
        masked[i, i] = masks[i].free * articulated[i, i] + masks[i].driven
    solved = solve_symmetric(masked, short * free)  # zero where driven
    needed = articulated @ solved - short
    return Hybrid(given + solved, ca.vertcat(*(masks[i].driven * needed[i] for i in range(6))))
