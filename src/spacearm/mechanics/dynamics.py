"""Equations of motion: inverse dynamics, mass matrix, hybrid forward dynamics.

All recursions run in body axes after Featherstone, Rigid Body Dynamics Algorithms (2008), with the floating base as
six degrees of freedom of its own and rotors as extra spinning masses on a joint's parent. Accelerations are plain
time derivatives of velocity components. There is no gravity.

Three algorithms share one forward sweep (:mod:`spacearm.mechanics.sweep`). Inverse dynamics is the recursive
Newton-Euler algorithm (chapter 5), the mass matrix the composite-rigid-body algorithm (chapter 6), forward dynamics the
articulated-body algorithm (chapter 7). The last one is hybrid (chapter 9): each degree of freedom is either free, its
force known, or driven, its acceleration known. Which of the two is an input of the compiled program (``mode``), not a
branch of it, so that one program serves locked, sticking, driven and free joints.

Shapes: q (n), velocity, acceleration and force (6 + n), the base first as linear then angular in base axes; inertia
(10 (n + 1)); rotor: one axial moment of inertia per rotor, kg m2. Units are SI. Contacts, springs and friction are no
part of this module: they enter as forces or as wrenches on bodies. Closed loops are absorbed in the articulated-body
sweep (:mod:`spacearm.mechanics.constraints`); inverse dynamics and the mass matrix are those of the open tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from spacearm.mechanics._linkage import TreeView, align_linkages
from spacearm.mechanics.constraints import AbsorbedClosure, Closure, absorb_closure, closures, stiffen
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.spatial import SX, Spatial, SpatialInertia, dot, rigid_inertia, scale_spatial, spatial
from spacearm.mechanics.sweep import InertialWrenches, inertial_wrenches
from spacearm.mechanics.tree import Placement, Tree, TreeJoint
from spacearm.model import Robot


class JointWrenches(NamedTuple):
    """Wrench through every joint, and generalised force, that a motion needs.

    ``joint``: the wrench through every joint on its child and its rotor, at the child's origin, child axes;
    ``effort`` (6 + n): the generalised force.
    """

    joint: list[Spatial]
    effort: SX


def joint_wrenches(
    tree: Tree, placements: list[Placement], needed: InertialWrenches, wrenches: list[Spatial | None]
) -> JointWrenches:
    """Wrenches of the joints and generalised force: a backward sweep over inertial wrenches.

    ``wrenches`` act on the bodies, in body axes, and lessen what the joints must give.
    """
    total = net_wrenches(needed.body, wrenches)
    joint: list[Spatial] = [None] * tree.n  # type: ignore[list-item]
    effort: list[SX] = [None] * tree.n
    for i in reversed(range(tree.n)):
        parent, subspace, place = tree.joints[i].parent, tree.joints[i].subspace, placements[i]
        effort[i] = dot(subspace, total[i + 1])
        # The rotor sits on the parent, so its reaction reaches the parent but does no work on this joint's axis: it is
        # added after the projection above. Its share of the joint's own equation is in needed.effort.
        joint[i] = _add_wrench(total[i + 1], needed.carrier[i])
        total[parent] = total[parent].plus(place.wrench_to_parent(joint[i]))
    return JointWrenches(joint, ca.vertcat(total[0].stack(), *effort) + needed.effort)


def net_wrenches(body: list[Spatial], wrenches: list[Spatial | None]) -> list[Spatial]:
    """Inertial wrenches of the bodies, less the wrenches that act on them."""
    return [
        own if push is None else own.plus(scale_spatial(push, -1)) for own, push in zip(body, wrenches, strict=True)
    ]


def _add_wrench(wrench: Spatial, other: Spatial | None) -> Spatial:
    return wrench if other is None else wrench.plus(other)


def inverse_dynamics(
    tree: Tree, q: SX, velocity: SX, acceleration: SX, inertia: SX, rotor: SX, wrenches: list[Spatial | None]
) -> SX:
    """Generalised force (6 + n) that gives this acceleration; ``wrenches`` act on the bodies, in body axes."""
    placements = tree.placements(q)
    needed = inertial_wrenches(tree, placements, velocity, acceleration, inertia, rotor)
    return joint_wrenches(tree, placements, needed, wrenches).effort


def mass_matrix(tree: Tree, q: SX, inertia: SX, rotor: SX) -> SX:
    """Joint-space inertia H (6 + n square) by composite bodies."""
    placements = tree.placements(q)
    composite = [rigid_inertia(inertia[10 * b : 10 * b + 10]) for b in range(tree.bodies)]
    size = 6 + tree.n
    result = ca.SX(size, size)
    for i in reversed(range(tree.n)):
        joint, place = tree.joints[i], placements[i]
        # Column of H: the force that a unit acceleration of joint i asks of the composite body beyond it.
        force, result[6 + i, 6 + i], own = _joint_inertia(joint, composite[i + 1], rotor)
        composite[joint.parent] = composite[joint.parent].plus(place.inertia_to_parent(own))
        k = i
        while True:
            # Up the chain of ancestors only: joints of other branches leave zeros in H.
            force = placements[k].wrench_to_parent(force)
            parent = tree.joints[k].parent
            if parent == 0:
                break
            k = parent - 1
            result[6 + i, 6 + k] = result[6 + k, 6 + i] = dot(tree.joints[k].subspace, force)
        column = force.stack()
        result[:6, 6 + i] = column
        result[6 + i, :6] = column.T
    result[:6, :6] = composite[0].stack()
    return ca.densify(result)


def lock_base(robot: Robot, matrix: SX) -> SX:
    """The mass matrix with rows and columns of the identity for degrees of freedom that the robot's base lacks.

    What is solved with it, H_b^-1 H_bm or a compliance, is then that of the constrained base.
    """
    locked = robot.base.locked_indices
    if not locked:
        return matrix
    found = ca.SX(matrix)
    found[locked, :], found[:, locked] = 0, 0
    for i in locked:
        found[i, i] = 1
    return ca.densify(found)


def _joint_inertia(joint: TreeJoint, body: SpatialInertia, rotor: SX) -> tuple[Spatial, SX, SpatialInertia]:
    """Wrench for a unit acceleration of a joint (U = I S), its part along the joint (D = S^T U), and the inertia that
    the parent feels, all with the joint's rotor."""
    wrench = body.times(joint.subspace)
    along = dot(joint.subspace, wrench)
    if joint.rotor is None:
        return wrench, along, body
    spinning, axis = rotor[joint.rotor], joint.spin_axis
    # A rotor turns by ratio times the joint's rate: along the joint it counts with the ratio squared, towards the
    # parent, whose rotation it shares, with the ratio once; the parent carries its axial inertia.
    along += joint.ratio**2 * spinning
    wrench = wrench.plus(Spatial(ca.SX.zeros(3), axis * (joint.ratio * spinning)))
    carried = SpatialInertia(body.mass, body.coupling, body.rotation + spinning * (axis @ axis.T))
    return wrench, along, carried


class _Masks(NamedTuple):
    """Mode of one degree of freedom as two factors, 0 or 1.

    Factors and not if_else: CasADi pulls an if_else out of every product that it meets; a factor stays where it is.
    """

    driven: SX
    free: SX


class Hybrid(NamedTuple):
    """Accelerations (6 + n), and reactions (6 + n) that are zero where the degree of freedom is free.

    ``loops``: the forces of each closure's rows.
    """

    acceleration: SX
    reaction: SX
    loops: tuple[SX, ...] = ()


@dataclass(frozen=True)
class Articulated:
    """Articulated-body inertias of a robot, seen from each joint and from the base.

    Where ``mode`` is 0 a degree of freedom is free, where it is 1 it is driven: a driven joint does not soften its
    parent, it passes on its whole inertia.
    """

    tree: Tree
    placements: list[Placement]
    masks: list[_Masks]  # 6 + n
    column: list[Spatial]  # per joint: wrench for unit acceleration along it
    inverse: list[SX]  # per joint: 1 / inertia along it, 0 where driven
    base: SX  # 6 x 6
    order: list[int]  # of the base's equations: first those that are the same at every state
    closed: list[AbsorbedClosure]

    def respond(
        self, force: SX, body: list[Spatial], carrier: list[Spatial | None], demand: Sequence[SX] = ()
    ) -> Hybrid:
        """How the free degrees of freedom give way when ``force`` acts and these wrenches are demanded.

        ``force`` (6 + n) acts on the degrees of freedom; ``body`` and ``carrier`` as in
        :class:`~spacearm.mechanics.sweep.InertialWrenches`; ``demand`` is what the response must change the rates of
        each closure's rows by. Driven ones have no acceleration here.
        """
        tree, n = self.tree, self.tree.n
        # Backward: ``load`` is the bias wrench p of each body (Featherstone 2008, chapter 7), ``short`` the
        # force u = tau - S^T p that is left to accelerate the joint.
        load, short = [*body], [force[6 + i] for i in range(n)]
        reduced: list[list[SX]] = [[] for _ in self.closed]

        def close(at: int) -> None:
            """Loads of the loops that are closed at a body."""
            for k, each in enumerate(self.closed):
                if each.closure.ancestor == at:
                    reduced[k], push = each.load(demand[k], short, self.inverse)
                    load[at] = load[at].plus(push)

        for i in reversed(range(n)):
            joint, place = tree.joints[i], self.placements[i]
            close(i + 1)
            short[i] -= dot(joint.subspace, load[i + 1])
            passed = load[i + 1].plus(scale_spatial(self.column[i], short[i] * self.inverse[i]))
            if self._lets_through(i):
                # Along its axis a free joint passes on what acts there.
                passed = _set(passed, joint, force[6 + i])
            passed = _add_wrench(passed, carrier[i])
            load[joint.parent] = load[joint.parent].plus(place.wrench_to_parent(passed))
        close(0)
        base = self._base(force[:6] - load[0].stack())
        # Forward: accelerations from the base outwards, each joint relative to its parent.
        rise = [spatial(base.acceleration)]
        acceleration, reaction = [base.acceleration], [base.reaction]
        forces: list[list[SX]] = [[] for _ in self.closed]

        def hold(at: int) -> None:
            """Forces of the loops that are closed at a body, whose acceleration is known now."""
            for k, each in enumerate(self.closed):
                if each.closure.ancestor == at:
                    forces[k] = each.forces(reduced[k], rise[at])
                    for joint, push in each.push(forces[k]).items():
                        short[joint] += push

        hold(0)
        for i, (joint, place) in enumerate(zip(tree.joints, self.placements, strict=True)):
            from_parent = place.twist_to_child(rise[joint.parent])
            if self._lets_through(i):
                # The body's acceleration along the axis does not depend on the parent's there.
                across = _set(scale_spatial(self.column[i], self.inverse[i]), joint, 0)
                along = short[i] * self.inverse[i] - dot(across, from_parent)
                acceleration.append(along - dot(joint.subspace, from_parent))
                reaction.append(ca.SX(0))
                rise.append(_set(from_parent, joint, along))
                hold(i + 1)
                continue
            # One line for both modes: ``inverse`` is zero where the joint is driven, and the force it lacks becomes the
            # reaction.
            left = short[i] - dot(self.column[i], from_parent)
            own = left * self.inverse[i]
            acceleration.append(own)
            reaction.append(-self.masks[6 + i].driven * left)
            rise.append(from_parent.plus(scale_spatial(joint.subspace, own)))
            hold(i + 1)
        found = tuple(ca.vertcat(*each) for each in forces)
        return Hybrid(ca.vertcat(*acceleration), ca.vertcat(*reaction), found)

    def accelerate(self, force: SX) -> SX:
        """Accelerations (6 + n) that generalised forces (6 + n) add to a motion: H^-1 of what is free, loops closed."""
        none = Spatial(ca.SX.zeros(3), ca.SX.zeros(3))
        demand = [ca.SX.zeros(each.closure.residual.numel()) for each in self.closed]
        return self.respond(force, [none] * self.tree.bodies, [None] * self.tree.n, demand).acceleration

    def _lets_through(self, i: int) -> bool:
        return _lets_through(self.tree.joints[i], self.masks[6 + i])

    def _base(self, short: SX) -> Hybrid:
        """The base's six equations with driven directions as masked rows, by an LDL^T factorisation."""
        masks = self.masks[:6]
        # Rows and columns of driven directions become those of the identity: the matrix stays symmetric and positive
        # definite, and its size does not depend on the mode.
        free = ca.vertcat(*(mask.free for mask in masks))
        masked = self.base * (free @ free.T)
        for i in range(6):
            masked[i, i] = masks[i].free * self.base[i, i] + masks[i].driven
        # Constant rows come first: what their elimination yields is the same at every state, and loops that hoist such
        # parts compute it once.
        solved, order = ca.SX(6, 1), self.order
        solved[order] = solve_symmetric(masked[order, order], (short * free)[order])  # zero where driven
        needed = self.base @ solved - short
        return Hybrid(solved, ca.vertcat(*(masks[i].driven * needed[i] for i in range(6))))


def _set(vector: Spatial, joint: TreeJoint, value: SX) -> Spatial:
    """The same with another component along the joint's axis, which is a coordinate axis or its opposite."""
    k = int(np.flatnonzero(joint.axis)[0])
    parts = [ca.SX(vector.linear), ca.SX(vector.angular)]
    parts[joint.joint.kind == "revolute"][k] = value * joint.axis[k]
    return Spatial(*parts)


def _lets_through(joint: TreeJoint, masks: _Masks) -> bool:
    """Whether a joint is free at any time, without a rotor, about or along a coordinate axis."""
    return joint.rotor is None and np.count_nonzero(joint.axis) == 1 and bool(masks.driven.is_zero())


def articulate_inertias(
    tree: Tree, placements: list[Placement], mode: SX, inertia: SX, rotor: SX, loops: Sequence[Closure] = ()
) -> Articulated:
    """Articulated-body inertias, by a backward sweep; ``mode`` (6 + n) is 0 where free and 1 where driven."""
    masks = [_Masks(mode[i] > 0.5, mode[i] <= 0.5) for i in range(6 + tree.n)]
    total = [rigid_inertia(inertia[10 * b : 10 * b + 10]) for b in range(tree.bodies)]
    column: list[Spatial] = [None] * tree.n  # type: ignore[list-item]
    inverse: list[SX] = [None] * tree.n
    closed: dict[int, AbsorbedClosure] = {}

    def pass_on(i: int, wrench: Spatial, force: SX) -> Spatial:
        return _set(wrench, tree.joints[i], force) if _lets_through(tree.joints[i], masks[6 + i]) else wrench

    def close(at: int) -> None:
        for k, loop in enumerate(loops):
            if loop.ancestor == at:
                closed[k] = absorb_closure(tree, placements, loop, column, inverse, pass_on)
                total[at] = stiffen(total[at], closed[k])

    for i in reversed(range(tree.n)):
        close(i + 1)
        joint, place = tree.joints[i], placements[i]
        driven, free = masks[6 + i]
        u, d, own = _joint_inertia(joint, total[i + 1], rotor)
        column[i] = u
        inverse[i] = free / (free * d + driven)  # 1 / d where free, 0 where driven, even where d is 0
        # I^A - U U^T / D: the parent feels the body less what the free joint gives way.
        own = own.minus_outer(u, inverse[i])
        along = np.flatnonzero(joint.axis)
        if tree.short and joint.rotor is None and len(along) == 1:
            # A free joint lets nothing through along its axis: written as zero, not left to a difference.
            own = own.with_column(
                int(along[0]), joint.joint.kind == "revolute", scale_spatial(u, driven * joint.axis[along[0]])
            )
        total[joint.parent] = total[joint.parent].plus(place.inertia_to_parent(own))
    close(0)
    base = total[0].stack()
    # Columns that hold only inertia parameters do not change with the state: see Articulated.order.
    same = {symbol.element_hash() for symbol in ca.symvar(ca.vertcat(inertia, rotor))}
    moves = [any(symbol.element_hash() not in same for symbol in ca.symvar(base[:, k])) for k in range(6)]
    order = sorted(range(6), key=moves.__getitem__)
    return Articulated(tree, placements, masks, column, inverse, base, order, [closed[k] for k in range(len(loops))])


def select_driven(mode: SX, values: SX) -> SX:
    """The values (6 + n) of driven degrees of freedom, 0 for the others."""
    return ca.vertcat(*(ca.if_else(mode[i] > 0.5, values[i], 0) for i in range(values.numel())))


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
    """Forward dynamics with a mode for each degree of freedom.

    Where ``mode`` is 0 the degree of freedom is free: ``force`` in, acceleration out. Where it is 1 it is driven with
    acceleration ``drive``, and the reaction out is what must act beside ``force`` to make it so.
    """
    return hybrid_with_inertias(tree, q, velocity, force, drive, mode, inertia, rotor, wrenches)[0]


def hybrid_with_inertias(
    tree: Tree,
    q: SX,
    velocity: SX,
    force: SX,
    drive: SX,
    mode: SX,
    inertia: SX,
    rotor: SX,
    wrenches: list[Spatial | None],
) -> tuple[Hybrid, Articulated]:
    """:func:`hybrid_dynamics`, and the articulated inertias by which further forces can be answered.

    First the demands of the motion in which the driven ones accelerate as told and the free ones not at all; then how
    the free ones give way to them.
    """
    placements = tree.placements(q)
    given = select_driven(mode, drive)
    loops = closures(tree, q, velocity[6:])
    if loops:
        seen = TreeView(tree, placements, inertia, wrenches)
        tree, placements, inertia, wrenches = align_linkages(seen, loops)
    needed = inertial_wrenches(tree, placements, velocity, given, inertia, rotor)
    inertias = articulate_inertias(tree, placements, mode, inertia, rotor, loops)
    demand = [loop.demand - loop.jacobian @ given[[6 + i for i in loop.joints]] for loop in loops]
    # Superposition: the equations are linear in acceleration, so the answer is the given motion plus the response of
    # the free degrees of freedom to what that motion lacks.
    response = inertias.respond(force - needed.effort, net_wrenches(needed.body, wrenches), needed.carrier, demand)
    return Hybrid(given + response.acceleration, response.reaction, response.loops), inertias


class FreeProblem(NamedTuple):
    """The motion of a robot in which everything is free, seen from the tree's frame of its base.

    What all points share in acceleration demands nothing of the joints, so the base's linear velocity stays out: what
    is found is the acceleration of a point in space, and ``back`` makes of it that of the robot.
    """

    velocity: SX
    force: SX
    back: Callable[[SX], SX]


def free_problem(tree: Tree, velocity: SX, force: SX) -> FreeProblem:
    """The problem of :func:`free_dynamics` in the tree's frame of the base, and the map back to the robot's."""
    (linear, angular), base = spatial(velocity[:6]), tree.base
    inner, push, origin = angular, force, ca.SX.zeros(3)
    if base is not None:
        inner, origin = base.to_child(angular), base.origin()
        push = ca.vertcat(base.wrench_to_child(spatial(force[:6])).stack(), force[6:])
    # The velocity's components are in rotating axes: their time derivative is the acceleration of the point in space
    # less w x v.
    rotating = ca.cross(angular, linear + ca.cross(angular, origin))

    def back(found: SX) -> SX:
        own = spatial(found[:6]) if base is None else base.twist_to_parent(spatial(found[:6]))
        return ca.vertcat(own.linear - rotating, own.angular, found[6:])

    return FreeProblem(ca.vertcat(ca.SX.zeros(3), inner, velocity[6:]), push, back)


def free_dynamics(
    tree: Tree, q: SX, velocity: SX, force: SX, inertia: SX, rotor: SX, wrenches: list[Spatial | None]
) -> SX:
    """Acceleration (6 + n) with every degree of freedom free."""
    still, free = ca.SX.zeros(6 + tree.n), free_problem(tree, velocity, force)
    found = hybrid_dynamics(tree, q, free.velocity, free.force, still, still, inertia, rotor, wrenches)
    return free.back(found.acceleration)
