"""Symbolic programs of a robot struck at a frame: response to a wrench or an impulse.

All are linear in the wrench (force, moment; world axes, at the frame's origin), so the same numbers serve forces with
accelerations and impulses with velocity jumps. Notation after Yoshida et al. (1992), with H split into base and arm::

    H* = H_m - H_bm^T H_b^-1 H_bm        J* = J_m - J_b H_b^-1 H_bm        G_u = J_b H_b^-1 J_b^T

G_u is the paper's R_h M^-1 R_h^T, written without the mass centre: the compliance of the united rigid body. Of a base
that is constrained, H_b, H_bm and J_b are those of the degrees of freedom that it has.

A joint is ``locked`` (1: held by a constraint, its rate does not change) or not (0); one that is not locked resists
with the torque ``-mu (J*^T w)``, the paper's Eq. 10. Closed loops keep their rates at zero by forces L^T f on the
joints (L their Jacobian), which do no work.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from spacearm.mechanics import Program
from spacearm.mechanics.constraints import DEPENDENT, closures
from spacearm.mechanics.dynamics import hybrid_dynamics, lock_base, mass_matrix
from spacearm.mechanics.kinematics import base_pose, frame_jacobian, frame_pose, wrench_on_body
from spacearm.mechanics.linear import factorise, solve_symmetric
from spacearm.mechanics.motion import state_size
from spacearm.mechanics.spatial import SX, Spatial, quaternion_rate, rotation_matrix
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout


class Symbols:
    """Inputs of a robot's programs; those of size zero are left out of the program."""

    def __init__(self, tree: Tree) -> None:
        n = tree.n
        self.joints = ca.SX.sym("joints", n)
        self.quaternion = ca.SX.sym("quaternion", 4)
        self.locked = ca.SX.sym("locked", n)
        self.resistance = ca.SX.sym("resistance", n)
        self.inertia = ca.SX.sym("inertia", 10 * tree.bodies)
        self.rotor = ca.SX.sym("rotor", tree.rotors)

    def collect_inputs(self, **more: SX) -> dict[str, SX]:
        names = ("joints", "quaternion", "locked", "resistance", "inertia", "rotor")
        every = {name: getattr(self, name) for name in names} | more
        return {name: symbol for name, symbol in every.items() if symbol.numel()}


@dataclass(frozen=True)
class WrenchResponse:
    """Response to ``k`` wrenches (columns): one column for each.

    ``twist`` (6) of the struck frame, world axes; ``base`` (6), base axes; ``rates`` (n); ``reaction`` (n), the torques
    of locked and resisting joints.
    """

    twist: SX
    base: SX
    rates: SX
    reaction: SX


@dataclass(frozen=True)
class GeneralizedBlocks:
    """The blocks of which every response consists."""

    jacobian: SX
    base_jacobian: SX  # its columns of the base, without what a constrained base lacks
    base_inertia: SX
    carried: SX  # H_b^-1 H_bm
    arm_inertia: SX  # H*
    arm_jacobian: SX  # J*
    loops: SX  # (m, n) Jacobian of closed loops, by the joints
    alike: tuple[tuple[int, ...], ...] = ()  # of each row of ``loops`` those whose scale it shares

    def response(self, wrenches: SX, locked: SX, resistance: SX) -> WrenchResponse:
        """Response to the columns of ``wrenches``."""
        n = self.carried.shape[1]
        # First the robot as one rigid body (all joints locked), then the contribution of the joints.
        push = self.base_jacobian.T @ wrenches
        united = solve_symmetric(self.base_inertia, push)
        if n == 0:
            none = ca.SX(0, wrenches.shape[1])
            return WrenchResponse(self.base_jacobian @ united, united, none, none)
        free = 1 - locked
        applied = self.arm_jacobian.T @ wrenches
        # Rows and columns of locked joints become those of the identity.
        matrix = self.arm_inertia * (free @ free.T) + ca.diag(locked)
        rates = solve_symmetric(matrix, _scale(free * (1 - resistance), applied))
        if self.loops.shape[0]:
            # Loops L qdd = 0 push with L^T f; redundant rows are found by their pivots and push with nothing.
            give = solve_symmetric(matrix, _scale(free, self.loops.T))
            mobility = self.loops @ give
            least = [DEPENDENT * sum((mobility[k, k] for k in kin), ca.SX(0)) for kin in self.alike]
            factor, lacking = factorise(mobility, least), self.loops @ rates
            forces = factor.backward(factor.forward([-lacking[k, :] for k in range(lacking.shape[0])]))
            pull = ca.vertcat(*forces)
            rates = rates + give @ pull
            applied = applied + _scale(locked, self.loops.T @ pull)
        # Reaction of a locked joint: the residual of its row of H* qdd = J*^T w. Of a resisting one: Eq. 10.
        held = _scale(locked, self.arm_inertia @ rates - applied) - _scale(free * resistance, applied)
        # Momentum: the base loses what the joints gain, by H_b^-1 H_bm. This row needs no second solve.
        base = united - self.carried @ rates
        twist = self.base_jacobian @ united + self.arm_jacobian @ rates
        return WrenchResponse(twist, base, rates, held)

    def resisting_torque(self, wrench: SX, resistance: SX) -> SX:
        """Eq. 10: the torque with which every joint resists the wrench."""
        return -resistance * (self.arm_jacobian.T @ wrench)


def _scale(rows: SX, matrix: SX) -> SX:
    return ca.diag(rows) @ matrix


def generalized_blocks(tree: Tree, joints: SX, quaternion: SX, inertia: SX, rotor: SX, frame: str) -> GeneralizedBlocks:
    """Blocks of H and J at a frame, H* and J*."""
    base = base_pose(ca.SX.zeros(3), quaternion)
    jacobian = frame_jacobian(tree, tree.placements(joints), base, tree.robot.frame(frame))
    matrix = lock_base(tree.robot, mass_matrix(tree, joints, inertia, rotor))
    # What a constrained base lacks moves nothing, and nothing pushes it.
    of_base = ca.SX(jacobian[:, :6])
    of_base[:, tree.robot.base.locked_indices] = 0
    base_inertia, coupling = matrix[:6, :6], matrix[:6, 6:]
    if tree.n == 0:
        return GeneralizedBlocks(jacobian, of_base, base_inertia, coupling, ca.SX(0, 0), ca.SX(6, 0), ca.SX(0, 0))
    # Schur complement of the base block: a symbolic 6 x 6 factorisation, shared by H*, J* and the base's jump.
    carried = solve_symmetric(base_inertia, coupling)
    arm = matrix[6:, 6:] - coupling.T @ carried
    arm_jacobian = jacobian[:, 6:] - jacobian[:, :6] @ carried
    return GeneralizedBlocks(jacobian, of_base, base_inertia, carried, arm, arm_jacobian, *_loop_rows(tree, joints))


def _loop_rows(tree: Tree, joints: SX) -> tuple[SX, tuple[tuple[int, ...], ...]]:
    """Jacobian (m, n) of the closed loops, and of each row those of its loop and kind."""
    rows, kinds = [ca.SX(0, tree.n)], []
    for number, closure in enumerate(closures(tree, joints, ca.SX.zeros(tree.n))):
        row = ca.SX.zeros(closure.jacobian.shape[0], tree.n)
        row[:, list(closure.joints)] = closure.jacobian
        rows.append(row)
        kinds += [(number, *kind) for kind in closure.kinds]
    return ca.vertcat(*rows), tuple(tuple(k for k, other in enumerate(kinds) if other == kind) for kind in kinds)


def tensor_program(robot: Robot, frame: str) -> Program:
    """G* (6, 6) and the maps from an impulse to base twist (6, 6), joint rates (n, 6), joint reactions (n, 6)."""
    tree = Tree(robot)
    x = Symbols(tree)
    blocks = generalized_blocks(tree, x.joints, x.quaternion, x.inertia, x.rotor, frame)
    result = blocks.response(ca.SX.eye(6), x.locked, x.resistance)
    outputs = {"tensor": result.twist, "base": result.base}
    if tree.n:
        outputs |= {"rates": result.rates, "reaction": result.reaction}
    return Program("impact_tensor", x.collect_inputs(), {name: ca.densify(value) for name, value in outputs.items()})


def direction_program(robot: Robot, frame: str) -> Program:
    """Response to a unit force along ``direction`` (3, world): ``twist`` (6), ``base`` (6); cheaper than all of G*."""
    tree = Tree(robot)
    x = Symbols(tree)
    direction = ca.SX.sym("direction", 3)
    blocks = generalized_blocks(tree, x.joints, x.quaternion, x.inertia, x.rotor, frame)
    result = blocks.response(ca.vertcat(direction, ca.SX.zeros(3)), x.locked, x.resistance)
    outputs = {"twist": ca.densify(result.twist), "base": ca.densify(result.base)}
    return Program("impact_direction", x.collect_inputs(direction=direction), outputs)


@dataclass(frozen=True)
class ForcedMotion:
    """A robot under a wrench at a moving point, for a run in time."""

    inputs: dict[str, SX]
    origin: SX  # of the frame, world
    twist: SX  # of the frame at its origin, world axes
    rate: SX  # of the state (position, quaternion, joints, velocity)
    reaction: SX  # of locked and resisting joints (6 + n), and of what a constrained base lacks
    support: SX  # wrench (6) of what holds a constrained base, about the world's origin, world axes


def forced_motion(robot: Robot, frame: str, prefix: str, wrench_at_origin: SX, state: SX) -> ForcedMotion:
    """Full nonlinear motion of a robot under a wrench (world axes) at a frame's origin.

    Locked joints keep their rate; the others resist by Eq. 10. Springs, dampers and dry friction are neglected: they
    are finite forces, and an impact is over before they matter.
    """
    tree = Tree(robot)
    n, dofs = tree.n, 6 + tree.n
    symbols = {
        "locked": ca.SX.sym(f"{prefix}_locked", n),
        "resistance": ca.SX.sym(f"{prefix}_resistance", n),
        "inertia": ca.SX.sym(f"{prefix}_inertia", 10 * tree.bodies),
        "rotor": ca.SX.sym(f"{prefix}_rotor", tree.rotors),
    }
    assert state.shape[0] == state_size(n)
    position, quaternion, joints, velocity = (
        state[:3],
        state[QUATERNION],
        state[Layout(n).joints],
        state[Layout(n).velocity],
    )
    place = tree.robot.frame(frame)
    placements = tree.placements(joints)
    at = frame_pose(tree, placements, base_pose(position, quaternion), place)
    blocks = generalized_blocks(tree, joints, quaternion, symbols["inertia"], symbols["rotor"], frame)
    force = ca.SX.zeros(dofs)
    if n:
        # Locked joints do not resist in addition.
        resisting = blocks.resisting_torque(wrench_at_origin, symbols["resistance"] * (1 - symbols["locked"]))
        force = ca.vertcat(ca.SX.zeros(6), resisting)
    wrenches: list[Spatial | None] = [None] * tree.bodies
    wrenches[robot.body_index(place.body)] = wrench_on_body(
        tree, placements, quaternion, place, wrench_at_origin, "world"
    )
    fixed = ca.SX.zeros(6)
    fixed[robot.base.locked_indices] = 1
    mode = ca.vertcat(fixed, symbols["locked"])
    hybrid = hybrid_dynamics(
        tree, joints, velocity, force, ca.SX.zeros(dofs), mode, symbols["inertia"], symbols["rotor"], wrenches
    )
    rate = ca.vertcat(
        rotation_matrix(quaternion) @ velocity[:3],
        quaternion_rate(quaternion, velocity[3:6]),
        velocity[6:],
        hybrid.acceleration,
    )
    named = {f"{prefix}_{name}": symbol for name, symbol in symbols.items() if symbol.numel()}
    reaction = force + hybrid.reaction
    turn, support = rotation_matrix(quaternion), fixed * reaction[:6]
    push = turn @ support[:3]
    wrench = ca.vertcat(push, turn @ support[3:] + ca.cross(position, push))
    return ForcedMotion(named, at.origin, blocks.jacobian @ velocity, rate, reaction, wrench)
