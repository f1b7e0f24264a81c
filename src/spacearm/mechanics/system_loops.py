"""Loops between systems: constraints between frames of several trees, and the wrenches that keep them.

A loop inside one tree is eliminated in its sweep (:mod:`spacearm.mechanics.constraints`). Trees that are joined by a
loop keep equations of their own. A loop's rows P_1 t_1 + P_2 t_2 = 0 act on the twists t of its two frames (world
axes); with J the frames' Jacobians, C = P J over the velocities v of all systems, and a the accelerations without the
loops' wrenches,

    C H^-1 C^T f = -(C a + (dC/dt) v) - 2 k C v - k^2 r,    k = 4 sqrt(1 + |rates|^2) per second,

where r is the residual. H^-1 C^T is what the articulated bodies of each tree answer to the rows' forces, with locked
and driven degrees of freedom and the trees' own loops as they are. The wrenches P^T f then act on the frames like any
other: momentum between the systems is conserved whatever f is. The terms with k let what the steps leave in r die out.
Redundant rows are found by their pivots, as in one tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from spacearm.mechanics.constraints import DECAY, DEPENDENT, orthonormal_basis
from spacearm.mechanics.dynamics import hybrid_with_inertias
from spacearm.mechanics.kinematics import base_pose, frame_jacobian, frame_pose
from spacearm.mechanics.linear import factorise
from spacearm.mechanics.motion import LoadFrame, MotionTerms, motion_terms, reframe_inertia
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX, constant
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.loops import LoopKind
from spacearm.typing import Array

#: Numbers of a loop: place (3) and rotation (9, by rows) of its end on the second frame, and the distance.
NUMBERS = 13


@dataclass(frozen=True)
class LoopBetween:
    """A loop between frames of two systems, which are given by their numbers.

    Args:
        kind: as of a :class:`~spacearm.model.Loop` that joins frames.
        first, second: number of the system, and its frame.
        axis: of a hinge, first frame's axes.
    """

    kind: LoopKind
    first: tuple[int, str]
    second: tuple[int, str]
    axis: tuple[float, float, float]


class SystemSymbols(NamedTuple):
    """A system's tree and the symbols of its state."""

    tree: Tree
    position: SX
    quaternion: SX
    joints: SX
    velocity: SX

    @property
    def pose(self) -> SX:
        return ca.vertcat(self.position, self.quaternion, self.joints)


def system_symbols(robot: Robot, state: SX) -> SystemSymbols:
    """Symbols of one system, from its flat state."""
    at = Layout(robot.n)
    return SystemSymbols(Tree(robot), state[:3], state[QUATERNION], state[at.joints], state[at.velocity])


class LoopRows(NamedTuple):
    """Rows of a loop: residual (m), maps (m, 6) of the twists of both frames (world axes), what each row is (0 for a
    length, 1 for an angle), their Jacobians by system, and ``facing``: above zero unless closed the wrong way round."""

    residual: SX
    maps: tuple[SX, SX]
    kinds: tuple[int, ...]
    jacobians: dict[int, SX]
    facing: SX


def loop_rows(systems: Sequence[SystemSymbols], loop: LoopBetween, numbers: SX) -> LoopRows:
    """The rows of a loop, in the symbols of the systems."""
    poses, jacobians = [], []
    for number, name in (loop.first, loop.second):
        own = systems[number]
        placements, frame = own.tree.placements(own.joints), own.tree.robot.frame(name)
        base = base_pose(own.position, own.quaternion)
        poses.append(frame_pose(own.tree, placements, base, frame))
        jacobians.append(frame_jacobian(own.tree, placements, base, frame))
    first, second = poses
    # The end on the second frame: beside its origin by ``arm``, world axes, with axes of its own.
    arm, rotation = second.rotation @ numbers[:3], second.rotation @ ca.reshape(numbers[3:12], 3, 3).T
    # Bases first: far from the world's origin their difference keeps its digits.
    apart = systems[loop.second[0]].position - systems[loop.first[0]].position
    inner = [pose.origin - systems[end[0]].position for pose, end in zip(poses, (loop.first, loop.second), strict=True)]
    gap = apart + (inner[1] + arm - inner[0])
    none = ca.SX.zeros
    facing = ca.SX(1)
    kinds: tuple[int, ...]
    if loop.kind == "distance":
        across = gap.T / numbers[12]
        residual, kinds = (ca.sumsqr(gap) - numbers[12] ** 2) / (2 * numbers[12]), (0,)
        linear, angular = across, none(0, 3)
    else:
        basis = orthonormal_basis(np.array(loop.axis))
        inward = first.rotation.T
        linear, angular = constant(basis.T) @ inward, none(0, 3)
        residual, kinds = linear @ gap, (0, 0, 0)
        relative = inward @ rotation
        if loop.kind == "axis":
            along, e = basis[:, 0], basis[:, 1:]
            other = relative @ constant(along)
            # A rotation by t turns the axis by t x axis: its share along e is that of t along axis x e.
            angular = constant(np.cross(along, e.T)) @ inward
            residual, kinds = ca.vertcat(residual, constant(e.T) @ other), (*kinds, 1, 1)
            facing = ca.dot(constant(along), other)
        elif loop.kind == "weld":
            skew = 0.5 * ca.vertcat(
                relative[2, 1] - relative[1, 2], relative[0, 2] - relative[2, 0], relative[1, 0] - relative[0, 1]
            )
            angular = constant(basis.T) @ inward
            residual, kinds = ca.vertcat(residual, constant(basis.T) @ skew), (*kinds, 1, 1, 1)
            facing = ca.trace(relative)
    turned = none(angular.shape[0], 3)
    # The first frame carries its axes along: seen from it, the other end moves with v_2 - v_1 - w_1 x gap.
    one = ca.vertcat(ca.horzcat(-linear, linear @ ca.skew(gap)), ca.horzcat(turned, -angular))
    two = ca.vertcat(ca.horzcat(linear, -linear @ ca.skew(arm)), ca.horzcat(turned, angular))
    found: dict[int, SX] = {}
    for (number, _), rows, jacobian in zip((loop.first, loop.second), (one, two), jacobians, strict=True):
        product = rows @ jacobian
        found[number] = found[number] + product if number in found else product
    return LoopRows(residual, (one, two), kinds, found, facing)


def system_loop_terms(robots: Sequence[Robot], loops: Sequence[LoopBetween]) -> Program:
    """Inputs ``state`` of all systems and ``numbers`` of all loops; outputs ``residual``, ``rate`` and ``jacobian`` by
    the velocities of all systems, one loop's rows behind the other's, ``first_map`` (6) from the twist of each loop's
    first frame to its rows, and ``facing`` (one for each loop)."""
    sizes = [Layout(robot.n).size for robot in robots]
    state, numbers = ca.SX.sym("state", sum(sizes)), ca.SX.sym("numbers", NUMBERS * len(loops))
    starts = np.cumsum([0, *sizes])
    systems = [
        system_symbols(own, state[int(a) : int(a) + n]) for own, a, n in zip(robots, starts, sizes, strict=False)
    ]
    velocity = ca.vertcat(*(own.velocity for own in systems))
    dofs = np.cumsum([0, *(robot.dofs for robot in robots)])
    residuals, jacobians, facing, first_maps = [], [], [], []
    for k, loop in enumerate(loops):
        rows = loop_rows(systems, loop, numbers[NUMBERS * k : NUMBERS * (k + 1)])
        whole = ca.SX.zeros(rows.residual.numel(), int(dofs[-1]))
        for number, own in rows.jacobians.items():
            whole[:, int(dofs[number]) : int(dofs[number + 1])] = own
        residuals.append(rows.residual)
        jacobians.append(whole)
        facing.append(rows.facing)
        first_maps.append(rows.maps[0])
    jacobian = ca.vertcat(*jacobians)
    outputs = {
        "residual": ca.vertcat(*residuals), "rate": jacobian @ velocity, "jacobian": jacobian,
        "facing": ca.vertcat(*facing), "first_map": ca.vertcat(*first_maps),
    }  # fmt: skip
    inputs = {"state": state, "numbers": numbers}
    return Program(
        "system_loops",
        inputs,
        {name: ca.densify(own) for name, own in outputs.items()},
        frozenset({"jacobian", "first_map"}),
    )


def system_loop_program(
    systems: Sequence[tuple[Robot, tuple[LoadFrame, ...]]],
    loops: Sequence[LoopBetween],
    numbers: Sequence[slice],
    block: Mapping[str, int],
) -> Program:
    """Wrenches (12 for each loop: on its first frame, on its second, world axes) that keep loops between systems.

    Inputs: those of the systems' motion programs together, then further ones of these sizes (``block``), of which
    ``numbers`` has those of each loop at these slices.
    """
    motions = [motion_terms(robot, loads) for robot, loads in systems]
    further = {name: ca.SX.sym(name, size) for name, size in block.items()}
    seen = [system_symbols(own.tree.robot, own.inputs["state"]) for own in motions]
    rows = [loop_rows(seen, loop, further["numbers"][at]) for loop, at in zip(loops, numbers, strict=True)]
    # Systems without a loop answer to nothing: their dynamics are not written again.
    taking_part = sorted({number for own in rows for number in own.jacobians})
    free, answers = {}, {}
    for number in taking_part:
        free[number], answers[number] = _respond(motions[number], [own.jacobians.get(number) for own in rows])
    where = [(k, row) for k, own in enumerate(rows) for row in range(len(own.kinds))]
    lacking = _missing_acceleration(seen, motions, rows, free)
    # Mobility C H^-1 C^T: the acceleration along row i for a unit force along row j. It has the size of the loops' rows
    # (six for a weld), not that of the systems.
    size = len(where)
    mobility = ca.SX.zeros(size, size)
    for i, (k, row) in enumerate(where):
        # Symmetric, by Betti and Maxwell: one triangle is enough.
        for j, (other, column) in enumerate(where[: i + 1]):
            shared = rows[k].jacobians.keys() & rows[other].jacobians.keys()
            entry = sum(
                (ca.dot(rows[k].jacobians[s][row, :].T, answers[s][other, column]) for s in sorted(shared)), ca.SX(0)
            )
            mobility[i, j] = mobility[j, i] = entry
    # Rows of one loop and kind share their scale: see AbsorbedClosure.
    kinds = [(k, rows[k].kinds[row]) for k, row in where]
    least = [
        DEPENDENT * sum((mobility[j, j] for j in range(size) if kinds[j] == kinds[i]), ca.SX(0)) for i in range(size)
    ]
    # Redundant rows have pivots that are rounding: below ``least`` they are left out.
    factor = factorise(mobility, least)
    forces = ca.vertcat(*factor.backward(factor.forward([lacking[i] for i in range(size)])))
    wrenches, at = [], 0
    for own in rows:
        mine = forces[at : at + len(own.kinds)]
        wrenches += [rows_of_frame.T @ mine for rows_of_frame in own.maps]
        at += len(own.kinds)
    # In the order in which the motion programs of a world are put together: by name, then by system.
    inputs = {
        name: ca.vertcat(*(own.inputs[name] for own in motions if name in own.inputs))
        for name in dict.fromkeys(name for own in motions for name in own.inputs)
    }
    derived: dict[str, list[SX]] = {}
    for motion in motions:
        for name, value in reframe_inertia(motion.tree, motion.inputs).items():
            derived.setdefault(name, []).append(value)
    joined = {name: ca.vertcat(*parts) for name, parts in derived.items()}
    return Program("system_loops", inputs | further, {"wrench": ca.densify(ca.vertcat(*wrenches))}, derived=joined)


def _respond(motion: MotionTerms, jacobians: Sequence[SX | None]) -> tuple[SX, dict[tuple[int, int], SX]]:
    """Accelerations of a system without the loops, and what a unit force of each row adds to them."""
    problem = motion.problem()
    own = (motion.drive, motion.mode, motion.inertia, motion.inputs["rotor"], motion.wrenches)
    hybrid, inertias = hybrid_with_inertias(motion.tree, motion.joints, problem.velocity, problem.force, *own)
    answers = {
        (k, row): inertias.accelerate(jacobian[row, :].T)
        for k, jacobian in enumerate(jacobians)
        if jacobian is not None
        for row in range(jacobian.shape[0])
    }
    return hybrid.acceleration, answers


def _missing_acceleration(
    seen: Sequence[SystemSymbols], motions: Sequence[MotionTerms], rows: Sequence[LoopRows], free: Mapping[int, SX]
) -> SX:
    """What the rows' forces have to add to the accelerations along the rows."""
    lacking = []
    for own in rows:
        demand = ca.SX.zeros(own.residual.numel())
        rate, rotations = ca.SX.zeros(own.residual.numel()), ca.SX(1)
        for number, jacobian in own.jacobians.items():
            tree, velocity = seen[number].tree, seen[number].velocity
            rate += jacobian @ velocity
            demand += jacobian @ free[number]
            for i, joint in enumerate(tree.joints):
                # Joints that turn fast let a gap turn into another direction fast: the rate of decay keeps up with
                # them. Those that move no end of the loop, as wheels, would only make the equations stiff.
                if joint.joint.kind == "revolute" and ca.sparsify(jacobian[:, 6 + i]).nnz():
                    rotations += velocity[6 + i] ** 2
        pose = ca.vertcat(*(seen[number].pose for number in own.jacobians))
        pose_rate = ca.vertcat(*(motions[number].pose_rate() for number in own.jacobians))
        decay = DECAY * ca.sqrt(rotations)
        demand += ca.jtimes(rate, pose, pose_rate)
        lacking.append(-(demand + 2 * decay * rate + decay**2 * own.residual))
    return ca.vertcat(*lacking)


def unit_axis(axis: Array | None) -> tuple[float, float, float]:
    """An axis as a part of a key; z where there is none."""
    x, y, z = (0.0, 0.0, 1.0) if axis is None else axis
    return float(x), float(y), float(z)
