"""Symbolic programs of the study: loads through joints, vibration of the base and its magnitude.

Inverse dynamics by Newton and Euler: states and accelerations of a run are known, so the wrench through each joint is
the sum of inertial wrenches beyond it less the loads there (a sweep from the tips to the base). The base's vibration is
its velocity less that of the united body, the whole robot frozen in its shape, with the same momentum: v - (v + H_b^-1
H_bm qd) = -H_b^-1 H_bm qd. It vanishes when the joints are at rest, whatever the robot drifts at.

Frames: wrenches force before moment; each joint's in its parent's axes, the base's in base axes. Units N, N m, m/s,
rad/s. The programs only observe; nothing here feeds back into the motion.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from spacearm.mechanics import Program
from spacearm.mechanics.dynamics import joint_wrenches, lock_base, mass_matrix
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.motion import LoadFrame, load_wrenches_on_bodies, state_size, sum_on_bodies
from spacearm.mechanics.spatial import SX, Spatial, constant, dot, scale_spatial
from spacearm.mechanics.sweep import inertial_wrenches, velocities
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout


@dataclass(frozen=True)
class _MovingRobot:
    """A moving robot: inputs, and derived quantities."""

    tree: Tree
    inputs: dict[str, SX]
    joint_wrenches: list[SX]  # wrench on each joint's parent, at the child's origin, parent axes
    on_base: SX  # sum of the wrenches on the base, base axes, where its first joint is attached
    base_vibration: SX  # base velocity relative to that of the united body


def _symbols(robot: Robot, loads: tuple[LoadFrame, ...]) -> dict[str, SX]:
    sizes = {
        "state": state_size(robot.n),
        "acceleration": robot.dofs,
        "wrench": 6 * len(loads),
        "inertia": 10 * len(robot.bodies),
        "rotor": len([joint for joint in robot.joints if joint.rotor is not None]),
    }
    return {name: ca.SX.sym(name, size) for name, size in sizes.items()}


def _build_moving_robot(robot: Robot, loads: tuple[LoadFrame, ...], inputs: dict[str, SX]) -> _MovingRobot:
    tree = Tree(robot)
    n = tree.n
    state, acceleration, rotor = inputs["state"], inputs["acceleration"], inputs["rotor"]
    quaternion, q, velocity = state[QUATERNION], state[Layout(n).joints], state[Layout(n).velocity]
    placements = tree.placements(q)
    pushes = sum_on_bodies(tree, loads, load_wrenches_on_bodies(tree, q, quaternion, loads, inputs["wrench"]))
    needed = inertial_wrenches(tree, placements, velocity, acceleration, inputs["inertia"], rotor)
    through = joint_wrenches(tree, placements, needed, pushes).joint
    on_base = Spatial(ca.SX.zeros(3), ca.SX.zeros(3))
    # Joints push on their parents with the opposite of what goes through them.
    for joint, place, own in zip(tree.joints, placements, through, strict=True):
        if joint.parent == 0:
            on_base = on_base.plus(scale_spatial(place.wrench_to_parent(own), -1))
    on_parents = [
        -ca.vertcat(place.to_parent(own.linear), place.to_parent(own.angular))
        for place, own in zip(placements, through, strict=True)
    ]
    matrix = mass_matrix(tree, q, inputs["inertia"], rotor)
    base_vibration = _base_vibration(robot, matrix, velocity[6:])
    root = next((joint.joint.placement.translation for joint in tree.joints if joint.parent == 0), np.zeros(3))
    # Moved from the base's origin to where the first joint is attached, as a designer reads the load.
    moment = on_base.angular - ca.cross(constant(root), on_base.linear)
    return _MovingRobot(tree, inputs, on_parents, ca.vertcat(on_base.linear, moment), base_vibration)


def output_program(robot: Robot, loads: tuple[LoadFrame, ...] = ()) -> Program:
    """Outputs of a run besides its states.

    Inputs: ``state``, ``acceleration`` (6 + n, of the generalised velocity), ``wrench``, ``inertia``, ``rotor``.
    Outputs: ``joint_wrenches`` (n, 6): the wrench that each joint passes on to its parent body, at the joint's moving
    origin, parent body's axes; ``on_base`` (6): the wrench on the base where its first joint is fixed, base axes;
    ``base_vibration`` (6): base velocity less that of the united body with the same momentum, base axes.
    """
    moving = _build_moving_robot(robot, loads, _symbols(robot, loads))
    joint_wrenches = ca.vertcat(*(part.T for part in moving.joint_wrenches)) if moving.joint_wrenches else ca.SX(0, 6)
    outputs = {"joint_wrenches": joint_wrenches, "on_base": moving.on_base, "base_vibration": moving.base_vibration}
    return Program("capture_output", moving.inputs, {name: ca.densify(value) for name, value in outputs.items()})


#: Objectives of a design, in the order of :func:`objective_sizes`.
OBJECTIVES = (
    "base_rate",
    "force",
    "moment",
    "fx",
    "fy",
    "fz",
    "mx",
    "my",
    "mz",
    "vibration_velocity",
    "vibration_rate",
)


def objective_sizes(robot: Robot, loads: tuple[LoadFrame, ...], inputs: dict[str, SX]) -> SX:
    """Values of the objectives of a design, see :data:`OBJECTIVES`, from the inputs of :func:`output_program`.

    Force and moment are those on the base, base axes, at the place where its first joint is fixed.
    """
    moving = _build_moving_robot(robot, loads, inputs)
    force, moment = moving.on_base[:3], moving.on_base[3:]
    rate = inputs["state"][Layout(robot.n).angular_velocity]
    return ca.vertcat(
        _norm(rate), _norm(force), _norm(moment), ca.fabs(force), ca.fabs(moment),
        _norm(moving.base_vibration[:3]), _norm(moving.base_vibration[3:]),
    )  # fmt: skip


def skyhook_speed(robot: Robot, inputs: dict[str, SX]) -> SX:
    """For each joint, the velocity along it of its parent body relative to the united body (damped by a skyhook)."""
    tree, at = Tree(robot), Layout(robot.n)
    state = inputs["state"]
    q, rates = state[at.joints], state[at.rates]
    placements = tree.placements(q)
    matrix = mass_matrix(tree, q, inputs["inertia"], inputs["rotor"])
    base_vibration = _base_vibration(robot, matrix, rates)
    # A sweep with the base's vibration in place of its velocity gives every body's velocity relative to the united
    # body.
    beside = velocities(tree, placements, ca.vertcat(base_vibration, rates), inputs["rotor"]).twist
    speeds = [
        dot(joint.subspace, place.twist_to_child(beside[joint.parent]))
        for joint, place in zip(tree.joints, placements, strict=True)
    ]
    return ca.densify(ca.vertcat(*speeds)) if speeds else ca.SX(0, 1)


def _base_vibration(robot: Robot, matrix: SX, rates: SX) -> SX:
    """Base velocity less that of the united body with the same momentum, base axes."""
    matrix = lock_base(robot, matrix)
    return -solve_symmetric(matrix[:6, :6], matrix[:6, 6:] @ rates) if rates.numel() else ca.SX.zeros(6)


def _norm(vector: SX) -> SX:
    return ca.sqrt(ca.sumsqr(vector))
