"""Closed loops in the equations of motion: what a loop asks of the joints around it, and the forces that keep it.

A loop is a residual r(q) = 0 in the positions of the joints between its two ends and the last body that carries both,
its *ancestor*. CasADi differentiates it: J = dr/dq, and with the joint rates v the bias (dJ/dt) v. The tree's equations
stay as they are; forces J^T f of the loop act on these joints, and f follows from

    J a = -(dJ/dt) v - 2 k J v - k^2 r,    k = 4 sqrt(1 + |v|^2) per second

(|v| of revolute joints): an equation of index 1, in which what rounding and the steps leave in r and J v dies out
within a second, or a radian. With the solver's tolerances that is a drift of rounding, not a force: no
state is moved behind the solver's back, so that every back end (lanes, batches, C, GPU) keeps loops without a
projection of its own, and momentum is conserved to rounding. Minimal coordinates would need a choice of independent
joints, which fails where these become dependent.

The forces are found where the loop closes and not for the whole robot: :func:`absorb_closure` eliminates them in the
articulated-body sweep at the ancestor, so that a gripper's linkage costs as much on a long arm as on a short one. After
Brandl, Johanni and Otter (1986) and Popov, Vereshchagin and Zenkevich (1978). Loops that share joints are closed
together. Redundant rows are found by their pivots: an L D L^T factorisation leaves out a row whose pivot is a fraction
of rounding of what it was made of; rows that are zero whatever the joints do (a planar linkage in space) are left out
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import casadi as ca
import numpy as np

from spacearm.errors import ModelError
from spacearm.mechanics.linear import Factorisation, factorise
from spacearm.mechanics.spatial import SX, Spatial, SpatialInertia, constant, dot, scale_spatial
from spacearm.mechanics.tree import Placement, Tree
from spacearm.model import Loop
from spacearm.typing import Array

#: How fast an open loop closes, 1/s at rest.
DECAY = 4.0
#: Fraction of the mobility along a row and those like it, below which it depends on the rows before it.
DEPENDENT = 1e-11
#: Entries of a Jacobian (1, m) below this, at configurations without meaning, are rounding.
ZERO_ENTRY = 1e-12
#: Axes whose unit vectors differ by no more than this are parallel: rounding of placements.
PARALLEL = 1e-14
#: A row that no joint moves must be fulfilled to this, m or rad.
CLOSED = 1e-9


@dataclass(frozen=True)
class Closure:
    """Loops that share joints, in the positions of the joints around them.

    Args:
        loops: closed together.
        ancestor: the last body that carries all ends.
        joints: around the loops, ascending.
        residual: of the rows that joints can move, m or rad.
        jacobian: of the residual by the positions of ``joints``.
        rate: of the residual, 1/s.
        bias: (dJ/dt) v.
        decay: k, 1/s.
        kinds: what each row is (number of its loop, 0 for a length or 1 for an angle); rows of one kind share a scale.
        wrenches: of each loop, the map (6 or 1, rows) from the rows' forces to force and moment on its second frame, in
            the first frame's axes; of a gear the torque of its first joint.
        facing: of each loop, above zero unless its axes are opposed, where the residual is zero too.
    """

    loops: tuple[Loop, ...]
    ancestor: int
    joints: tuple[int, ...]
    residual: SX
    jacobian: SX
    rate: SX
    bias: SX
    decay: SX
    kinds: tuple[tuple[int, int], ...]
    wrenches: tuple[SX, ...]
    facing: SX

    @property
    def demand(self) -> SX:
        """The values that J a must have."""
        # J. Baumgarte's stabilisation (Computer Methods in Applied Mechanics and Engineering 1, 1972), critically
        # damped: what rounding and steps open of a loop decays.
        return -(self.bias + 2 * self.decay * self.rate + self.decay**2 * self.residual)


class _Rows(NamedTuple):
    """Rows of one loop, before any is left out; ``facing``: above zero unless it is closed the wrong way round.

    ``chains``: in a planar loop whose first rows are a gap along its normal n, along e and along n x e, the joints from
    the ancestor to each end, with their senses about n.
    """

    residual: SX
    kinds: tuple[int, ...]
    wrench: SX
    facing: SX
    chains: tuple[dict[int, float], ...] = ()

    def plane_bias(self, jacobian: SX, joints: Sequence[int], rates: SX) -> SX:
        """(dJ/dt) v of the gap in the plane: n x the sum of J_i by how much w^2 grows at each joint.

        An end moves by J_i = n x (its place less the joint's), which turns with the joint's bodies.
        """
        weight = ca.SX.zeros(len(joints))
        for chain in self.chains:
            turning = ca.SX(0)
            for i, sense in chain.items():
                k = joints.index(i)
                before, turning = turning, turning + sense * rates[k]
                weight[k] = sense * (turning**2 - before**2)
        along = jacobian[1:3, :] @ weight
        return ca.vertcat(-along[1], along[0])


def loop_joints(tree: Tree, loop: Loop) -> tuple[int, tuple[int, ...]]:
    """The last body that carries both ends, and the joints from there to them, ascending."""
    robot = tree.robot
    if loop.joins_frames:
        ends = [robot.body_index(robot.frame(end).body) for end in (loop.first, loop.second)]
        carriers = ends
    else:
        chosen = [robot.joint_index(end) for end in (loop.first, loop.second)]
        ends, carriers = [i + 1 for i in chosen], [robot.parents[i] for i in chosen]
    # Paths from the base are equal up to the last body that both ends share, and differ from there on.
    shared = [pair[0] for pair in zip(*map(tree.path, carriers), strict=False) if pair[0] == pair[1]]
    return (shared[-1] + 1 if shared else 0), tuple(sorted({*tree.path(ends[0]), *tree.path(ends[1])} - {*shared}))


def _groups(tree: Tree) -> list[tuple[int, list[int], list[Loop]]]:
    """Ancestor, joints and loops of each closure: loops that share joints are one."""
    groups: list[tuple[set[int], list[Loop]]] = []
    for loop in tree.robot.loops:
        around, own = {*loop_joints(tree, loop)[1]}, [loop]
        # Loops that share a joint have forces that depend on each other: one linear system for all of them.
        for other in [group for group in groups if group[0] & around]:
            groups.remove(other)
            around, own = around | other[0], [*other[1], *own]
        groups.append((around, own))
    found = []
    for around, own in groups:
        carriers = {tree.joints[i].parent for i in around}
        paths = [tree.path(body) for body in sorted(carriers)]
        shared = [each[0] for each in zip(*paths, strict=False) if len({*each}) == 1]
        ancestor = shared[-1] + 1 if shared else 0
        # Joints between the common ancestor and the loops move with them: forces pass through.
        joints = {i for body in carriers for i in tree.path(body)} | around
        found.append((ancestor, sorted(joints - {*shared}), own))
    return found


def closures(tree: Tree, q: SX, rates: SX) -> list[Closure]:
    """The loops of a robot at these joint positions and rates (n)."""
    if not tree.robot.loops:
        return []
    return [_closure(tree, q, rates, *group) for group in _groups(tree)]


def _closure(tree: Tree, q: SX, rates: SX, ancestor: int, joints: list[int], loops: list[Loop]) -> Closure:
    # In symbols of its own, since q may be numbers or parts of a state; differentiated, and then written in q.
    s, v = ca.SX.sym("s", len(joints)), ca.SX.sym("v", len(joints))
    at = {i: s[k] for k, i in enumerate(joints)}
    places = {i: tree.joints[i].placement(at[i]) for i in joints}
    rows = [_rows(tree, places, at, joints, loop) for loop in loops]
    residual = ca.vertcat(*(own.residual for own in rows))
    jacobian = ca.densify(ca.jacobian(residual, s))
    kept = _kept_rows(tree, ca.Function("closure", [s], [residual, jacobian]), loops, rows)
    kinds = [(k, kind) for k, own in enumerate(rows) for kind in own.kinds]
    rate = jacobian @ v
    bias = ca.densify(ca.jtimes(rate, s, v))
    first = 0
    for own in rows:
        if own.chains:
            bias[first + 1 : first + 3] = own.plane_bias(jacobian[first : first + 3, :], joints, v)
        first += len(own.kinds)
    residual, jacobian, rate, bias = residual[kept], jacobian[kept, :], rate[kept], bias[kept]
    rotating = [k for k, i in enumerate(joints) if tree.joints[i].joint.kind == "revolute"]
    decay = DECAY * ca.sqrt(1 + ca.sumsqr(v[rotating])) if rotating else ca.SX(DECAY)
    maps, first = [], 0
    for own in rows:
        # Columns of rows that were left out are gone: nothing tells their forces.
        mine = [k for k in range(len(own.kinds)) if first + k in kept]
        whole = ca.SX.zeros(own.wrench.shape[0], len(kept))
        for k in mine:
            whole[:, kept.index(first + k)] = own.wrench[:, k]
        maps.append(whole)
        first += len(own.kinds)
    facing = ca.vertcat(*(own.facing for own in rows))
    values = ca.substitute([residual, jacobian, rate, bias, decay, facing, *maps], [s, v], [q[joints], rates[joints]])
    residual, jacobian, rate, bias, decay, facing, *maps = values
    return Closure(
        tuple(loops), ancestor, tuple(joints), residual, jacobian, rate, bias, decay, tuple(kinds[k] for k in kept),
        tuple(maps), facing,
    )  # fmt: skip


def _kept_rows(tree: Tree, function: ca.Function, loops: list[Loop], rows: list[_Rows]) -> list[int]:
    """Rows that joints can move; the others must be fulfilled as the robot is built."""
    # Whether a row is zero everywhere is asked at four arbitrary configurations: an expression that vanishes at all of
    # them by chance has probability zero, and symbols do not tell (x - x sin^2 - x cos^2 is not simplified).
    points = np.random.default_rng(1).uniform(-1.5, 1.5, (4, function.size1_in(0)))
    values = [[np.array(each) for each in function(point)] for point in points]
    moved = np.max([np.abs(jacobian).max(axis=1, initial=0.0) for _, jacobian in values], axis=0) > ZERO_ENTRY
    off = np.max([np.abs(residual[:, 0]) for residual, _ in values], axis=0)
    names = [loop for loop, own in zip(loops, rows, strict=True) for _ in own.kinds]
    for loop, moves, gap in zip(names, moved, off, strict=True):
        if not moves and gap > CLOSED:
            raise ModelError(
                f"cannot close: its ends are {gap:.3g} (m or rad) apart in a direction in which no joint moves them",
                place=f"loop {loop.name!r} of robot {tree.robot.name!r}",
                hint="move one of its frames, or choose a kind that holds less",
            )
    kept = [int(k) for k in np.flatnonzero(moved)]
    if not kept:
        raise ModelError(
            "holds nothing: no joint moves its ends against each other",
            place=f"loop {loops[0].name!r} of robot {tree.robot.name!r}",
            hint="leave it out",
        )
    return kept


def _rows(tree: Tree, places: dict[int, Placement], at: dict[int, SX], joints: list[int], loop: Loop) -> _Rows:
    robot = tree.robot
    if not loop.joins_frames:
        one, two = (at[robot.joint_index(end)] for end in (loop.first, loop.second))
        kind = int(robot.joint(loop.first).kind == "revolute")
        return _Rows(ca.vertcat(one - loop.ratio * two - loop.offset), (kind,), ca.SX.ones(1, 1), ca.SX(1))
    frames = [robot.frame(end) for end in (loop.first, loop.second)]
    whole = [tree.path(robot.body_index(frame.body)) for frame in frames]
    # Joints that carry both ends move them alike.
    paths = [[i for i in path if i not in other] for path, other in zip(whole, reversed(whole), strict=True)]
    own = [tree.frame(frame) for frame in frames]

    def to_ancestor(end: int, vector: SX, free: bool) -> SX:
        """A point (or a free vector) from a frame's coordinates to the ancestor's."""
        vector = constant(own[end].rotation) @ vector + (0 if free else constant(own[end].translation))
        for i in reversed(paths[end]):
            vector = places[i].to_parent(vector) + (0 if free else places[i].origin())
        return vector

    def to_first(vector: SX) -> SX:
        """A free vector from the ancestor's coordinates to the first frame's."""
        for i in paths[0]:
            vector = places[i].to_child(vector)
        return constant(own[0].rotation.T) @ vector

    # In the ancestor's axes, which do not turn with the joints.
    gap = to_ancestor(1, ca.SX.zeros(3), False) - to_ancestor(0, ca.SX.zeros(3), False)
    if loop.kind == "distance":
        # (|gap|^2 - d^2) / 2 d: as smooth as the gap, and a length where the loop is nearly closed.
        force = ca.vertcat(to_first(gap / loop.distance), ca.SX.zeros(3))
        return _Rows((ca.vertcat(ca.sumsqr(gap)) - loop.distance**2) / (2 * loop.distance), (0,), force, ca.SX(1))
    normal = _plane_normal(tree, places, paths)
    basis = orthonormal_basis(normal)
    force = ca.vertcat(ca.horzcat(*(to_first(constant(unit)) for unit in basis.T)), ca.SX.zeros(3, 3))
    residual, kinds = constant(basis.T) @ gap, (0, 0, 0)
    chains = _chains(tree, places, paths, normal)
    if loop.kind == "point":
        return _Rows(residual, kinds, force, ca.SX(1), chains)
    if loop.kind == "axis":
        along, basis = loop.hinge, orthonormal_basis(loop.hinge)
        other = to_first(to_ancestor(1, constant(along), True))
        tilt = constant(basis[:, 1:].T) @ other
        # A rotation by t turns the axis by t x axis: its share along e has the moment axis x e.
        moments = np.column_stack([np.cross(along, basis[:, 1]), np.cross(along, basis[:, 2])])
        wrench = ca.horzcat(force, ca.vertcat(ca.SX.zeros(3, 2), constant(moments)))
        return _Rows(ca.vertcat(residual, tilt), (*kinds, 1, 1), wrench, ca.dot(constant(along), other), chains)
    x, y, z = (to_first(to_ancestor(1, constant(unit), True)) for unit in np.eye(3))
    rotated = 0.5 * ca.vertcat(y[2] - z[1], z[0] - x[2], x[1] - y[0])
    # Half the skew part changes by (trace R - R^T) / 2 of a rotation: the identity where the loop is closed.
    basis = orthonormal_basis(_at_zero(to_first(constant(normal))))
    wrench = ca.horzcat(force, ca.vertcat(ca.SX.zeros(3, 3), constant(basis)))
    facing = x[0] + y[1] + z[2]
    return _Rows(ca.vertcat(residual, constant(basis.T) @ rotated), (*kinds, 1, 1, 1), wrench, facing, chains)


def orthonormal_basis(along: Array) -> Array:
    """Orthonormal columns, the first along a unit vector."""
    along = np.asarray(along, dtype=np.float64)
    other = np.eye(3)[int(np.argmin(np.abs(along)))]
    second = np.cross(along, other)
    second /= np.linalg.norm(second)
    return np.column_stack([along, second, np.cross(along, second)])


def _plane_normal(tree: Tree, places: dict[int, Placement], paths: list[list[int]]) -> Array:
    """The axis of a revolute joint of the loop in the ancestor's axes: the normal, where the loop is planar.

    Rows along it are zero in a planar loop, and left out; in any other, one direction is as good as another.
    """
    rotating = [i for i in (*paths[0], *paths[1]) if tree.joints[i].joint.kind == "revolute"]
    if not rotating:
        return np.array([0.0, 0.0, 1.0])
    i = rotating[0]
    return _axis_at_zero(tree, places, paths[0] if i in paths[0] else paths[1], i)


def _chains(
    tree: Tree, places: dict[int, Placement], paths: list[list[int]], normal: Array
) -> tuple[dict[int, float], ...]:
    """The joints to each end with their senses about the normal, where all of them turn about it; else none."""
    found = []
    for path in paths:
        axes = {i: _axis_at_zero(tree, places, path, i) for i in path}
        if any(tree.joints[i].joint.kind != "revolute" for i in path):
            return ()
        chain = {i: float(np.sign(axis @ normal)) for i, axis in axes.items()}
        # Parallel at zero they are parallel always.
        if any(np.abs(axis - chain[i] * normal).max() > PARALLEL for i, axis in axes.items()):
            return ()
        found.append(chain)
    return tuple(found)


def _axis_at_zero(tree: Tree, places: dict[int, Placement], path: list[int], i: int) -> Array:
    """The axis of a joint on a path in the ancestor's axes, all joints at zero."""
    vector = constant(tree.joints[i].axis)
    for k in reversed(path[: path.index(i) + 1]):
        vector = places[k].to_parent(vector)
    return _at_zero(vector)


def _at_zero(vector: SX) -> Array:
    """A unit vector with all joints at zero."""
    symbols = ca.symvar(vector)
    # In a planar loop the normal is the same in every configuration: any will do.
    at_zero = ca.substitute(vector, ca.vertcat(*symbols), ca.SX.zeros(len(symbols))) if symbols else vector
    found = np.array(ca.DM(at_zero)).ravel()
    return np.asarray(found / np.linalg.norm(found))


@dataclass(frozen=True)
class AbsorbedClosure:
    """A closure that was eliminated from the articulated-body sweep at its ancestor.

    Args:
        closure: the loops.
        short: of each row, the force that a unit force of the row leaves to each of the joints.
        factor: L D L^T of the rows' mobility.
        passed: of each row, its wrench on the ancestor, after forward elimination.
    """

    closure: Closure
    short: list[dict[int, SX]]
    factor: Factorisation
    passed: list[Spatial]

    def load(self, demand: SX, short: Sequence[SX], inverse: Sequence[SX]) -> tuple[list[SX], Spatial]:
        """The eliminated right side, and the wrench that it puts on the ancestor.

        ``demand``: what J a has to be; ``short``: forces left to the joints without the loop, ``inverse``: of their
        inertias.
        """
        lacking = [
            demand[k] - sum((own[i] * inverse[i] * short[i] for i in self.closure.joints), ca.SX(0))
            for k, own in enumerate(self.short)
        ]
        reduced = self.factor.forward(lacking)
        loads = [
            scale_spatial(wrench, value * scale)
            for wrench, value, scale in zip(self.passed, reduced, self.factor.inverse, strict=True)
        ]
        return reduced, reduce(Spatial.plus, loads)

    def forces(self, reduced: list[SX], rise: Spatial) -> list[SX]:
        """Forces of the rows, from the eliminated right side and the acceleration of the ancestor."""
        whole = [value + dot(wrench, rise) for value, wrench in zip(reduced, self.passed, strict=True)]
        return self.factor.backward(whole)

    def push(self, forces: list[SX]) -> dict[int, SX]:
        """What these forces leave to each of the joints."""
        return {
            i: sum((own[i] * force for own, force in zip(self.short, forces, strict=True)), ca.SX(0))
            for i in self.closure.joints
        }


def absorb_closure(
    tree: Tree,
    placements: list[Placement],
    closure: Closure,
    column: Sequence[Spatial],
    inverse: Sequence[SX],
    pass_on: Callable[[int, Spatial, SX], Spatial],
) -> AbsorbedClosure:
    """Eliminate the forces of a closure, when the sweep has reached its ancestor.

    ``column``, ``inverse``: of each joint the wrench for unit acceleration and 1 / inertia along it; ``pass_on``: what
    a joint passes to its parent of a wrench on its child, with the force on the joint itself.
    """
    shorts: list[dict[int, SX]] = []
    wrenches: list[Spatial] = []
    # A unit force of each row, passed down the chain through the articulated joints, as the sweep passes all wrenches:
    # what it leaves to each joint (short), and what reaches the ancestor.
    for k in range(closure.residual.numel()):
        load: dict[int, Spatial] = {}
        short: dict[int, SX] = {}
        for at in reversed(range(len(closure.joints))):
            i = closure.joints[at]
            joint, force, own = tree.joints[i], closure.jacobian[k, at], load.get(i + 1)
            short[i] = force if own is None else force - dot(joint.subspace, own)
            passed = scale_spatial(column[i], short[i] * inverse[i])
            passed = pass_on(i, passed if own is None else own.plus(passed), force)
            up = placements[i].wrench_to_parent(passed)
            load[joint.parent] = up if joint.parent not in load else load[joint.parent].plus(up)
        shorts.append(short)
        wrenches.append(load[closure.ancestor])
    rows = range(len(shorts))
    mobility = ca.SX.zeros(len(shorts), len(shorts))
    for k in rows:
        for other in range(k + 1):
            entries = (shorts[k][i] * inverse[i] * shorts[other][i] for i in closure.joints)
            mobility[k, other] = mobility[other, k] = sum(entries, ca.SX(0))
    # Along a direction in which a loop cannot move at all just now its own mobility is rounding: rows of one kind share
    # their scale.
    scale = [
        sum((mobility[other, other] for other in rows if closure.kinds[other] == closure.kinds[k]), ca.SX(0))
        for k in rows
    ]
    factor = factorise(mobility, [DEPENDENT * each for each in scale])
    stacked = [wrench.stack() for wrench in wrenches]
    reduced = [Spatial(each[:3], each[3:]) for each in factor.forward(stacked)]
    return AbsorbedClosure(closure, shorts, factor, reduced)


def stiffen(inertia: SpatialInertia, absorbed: AbsorbedClosure) -> SpatialInertia:
    """The articulated inertia of the ancestor with its loops closed."""
    # Closed loops resist: what the rows forbid is added to the articulated inertia, as wrench wrench^T over its pivot.
    for wrench, inverse in zip(absorbed.passed, absorbed.factor.inverse, strict=True):
        inertia = inertia.minus_outer(wrench, -inverse)
    return inertia
