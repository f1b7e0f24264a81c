"""Equations of motion of a test as compiled programs: rates, tangents and the motors' torques.

Joints whose motion was measured are inputs, not states; the base and the flexible links are free, and so are the motors
when their torque is given. The state is (free joints, base velocity 6, rates of the free joints, bristles, base
velocity of the rigid reference, base position 3 and quaternion 4 when wanted). Base velocities are linear and angular
in base axes, the position is in world axes, quaternions are scalar first; rad, m, s, N m.

Method: hybrid dynamics (Featherstone, Rigid Body Dynamics Algorithms, 2008, chapter 9) with accelerations given for
prescribed joints and forces for free ones; reactions of prescribed motors are the torques that hold them on their
paths. Derivatives are those of CasADi's automatic differentiation of the right-hand side, in forward mode: one sweep
for all parameters and start values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, get_args

import casadi as ca
import numpy as np

from spacearm.checks import one_of
from spacearm.engine import Kernel
from spacearm.identify.inertia.inertia_parameters import labels
from spacearm.identify.joint.flexible_joints import FlexibleJoint, flexible_joints
from spacearm.identify.joint.laws import JointLaw, torques
from spacearm.mechanics.dynamics import hybrid_dynamics
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX, quaternion_rate, rotation_matrix
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot

Drive = Literal["motor_angle", "torque", "rigid_torque"]


@dataclass(frozen=True)
class Setup:
    """Which joints are given, which are free, and which laws act: everything that decides the compiled equations.

    Args:
        drive: ``motor_angle``: the measured motor angle is prescribed (sound whatever moves the motor);
            ``torque``: a known torque acts on each motor; ``rigid_torque``: the torque that a rigid robot would need
            for the measured motor angle, as in the paper (biased when the real motor tracks its trajectory).
        law: what acts inside the flexible joints.
        pose: keep the base's position and attitude.
        reference_inertia: load-side motor inertia (kg m2) in the rigid robot of ``rigid_torque``; None: that of the
            candidate.
        inertias: the bodies' inertias, ten of each, are parameters too, after the others.
    """

    robot: Robot
    drive: Drive = "motor_angle"
    law: JointLaw = field(default_factory=JointLaw)
    pose: bool = False
    reference_inertia: float | None = None
    inertias: bool = False

    def __post_init__(self) -> None:
        one_of(self.drive, get_args(Drive), "drive", place="set-up")

    @cached_property
    def flexible(self) -> tuple[FlexibleJoint, ...]:
        return flexible_joints(self.robot)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Joints that are states: links, and motors when a torque drives them."""
        links = [f.link for f in self.flexible]
        return tuple(links if self.drive == "motor_angle" else [*links, *(f.motor for f in self.flexible)])

    @cached_property
    def paths(self) -> tuple[int, ...]:
        """Joints whose measured motion is an input; for ``rigid_torque`` the motors too, for the rigid reference."""
        states = {f.link for f in self.flexible}
        if self.drive == "torque":
            states |= {f.motor for f in self.flexible}
        return tuple(i for i in range(self.robot.n) if i not in states)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """``<joint>.<parameter>`` of all flexible joints, in the order of the program."""
        own = tuple(f"{f.name}.{name}" for f in self.flexible for name in self.law.parameters)
        return (*own, *(label.text for label in labels(self.robot))) if self.inertias else own

    @cached_property
    def directions(self) -> tuple[str, ...]:
        """Along which derivatives are taken: parameters, then start offsets and their rates."""
        starts = [f"{f.name}.{word}" for word in ("offset", "offset_rate") for f in self.flexible]
        return (*self.parameters, *starts)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Slices of the parts of the state, by name."""
        sizes = {
            "joints": len(self.free),
            "velocity": 6 + len(self.free),
            "bristles": len(self.law.bristles) * len(self.flexible),
            "reference": 6 if self.drive == "rigid_torque" else 0,
            "position": 3 if self.pose else 0,
            "quaternion": 4 if self.pose else 0,
        }
        ends = np.cumsum(list(sizes.values()))
        return {name: slice(int(e - s), int(e)) for (name, s), e in zip(sizes.items(), ends, strict=True)}

    @property
    def size(self) -> int:
        return int(self.places["quaternion"].stop)


@dataclass(frozen=True)
class _FlexibleModel:
    inputs: dict[str, SX]
    rate: SX
    torque: SX  # at the motors: applied, or what holds them on their paths


def _model(setup: Setup) -> _FlexibleModel:
    robot, law = setup.robot, setup.law
    tree = Tree(robot)
    count = len(setup.flexible)
    inputs = {
        "state": ca.SX.sym("state", setup.size),
        "path": ca.SX.sym("path", 3 * len(setup.paths)),  # position, rate, acceleration of each joint
        "torque": ca.SX.sym("torque", count if setup.drive == "torque" else 0),
        "parameters": ca.SX.sym("parameters", len(setup.parameters)),
    }
    state = {name: inputs["state"][place] for name, place in setup.places.items()}
    # Numbers are folded into the code, which makes it short; as inputs they can be varied.
    fixed = ca.SX(ca.DM(robot.inertia_parameters.ravel()))
    inertia = inputs["parameters"][-fixed.numel() :] if setup.inertias else fixed
    own = [
        {name: inputs["parameters"][i * len(law.parameters) + k] for k, name in enumerate(law.parameters)}
        for i in range(count)
    ]
    # Inertia is identified on the load side; the rotor's own is smaller by the gear ratio squared.
    rotor = _rotors(robot, {f.motor: own[i]["motor_inertia"] / f.gear**2 for i, f in enumerate(setup.flexible)})
    q, rates, given = _joint_motion(setup, inputs, setup.free)
    for k, joint in enumerate(setup.free):
        q[joint], rates[joint] = state["joints"][k], state["velocity"][6 + k]
    applied, reference_rate = ca.SX.zeros(count), ca.SX(0, 1)
    if setup.drive == "torque":
        applied = inputs["torque"]
    elif setup.drive == "rigid_torque":
        reference_rate, applied = _rigid_reference(setup, tree, inputs, state["reference"], inertia, rotor)
    force, bristle_rates = _forces(setup, own, q, rates, state["bristles"], applied)
    # Mode 1: acceleration given, force unknown; mode 0: force given, acceleration unknown.
    mode = _locked_base(robot) + [0.0 if joint in setup.free else 1.0 for joint in range(robot.n)]
    velocity = ca.vertcat(state["velocity"][:6], rates)
    # No external wrenches: the robot floats freely.
    none = [None] * tree.bodies
    hybrid = hybrid_dynamics(tree, q, velocity, force, given, ca.SX(ca.DM(mode)), inertia, rotor, [*none])
    pieces = [
        state["velocity"][6:],
        hybrid.acceleration[:6],
        *(hybrid.acceleration[6 + joint] for joint in setup.free),
        *bristle_rates,
        reference_rate,
    ]
    if setup.pose:
        pieces.append(rotation_matrix(state["quaternion"]) @ state["velocity"][:3])
        pieces.append(quaternion_rate(state["quaternion"], state["velocity"][3:6]))
    # A prescribed motor's torque is its constraint reaction: a prediction that a torque sensor is compared with.
    if setup.drive == "motor_angle":
        applied = ca.vertcat(*(hybrid.reaction[6 + f.motor] for f in setup.flexible))
    return _FlexibleModel(inputs, ca.densify(ca.vertcat(*pieces)), ca.densify(applied))


def _joint_motion(setup: Setup, inputs: dict[str, SX], free: Sequence[int] = ()) -> tuple[SX, SX, SX]:
    """Joints' positions, rates and accelerations (6 + n) on their measured paths; zero where they are free."""
    n = setup.robot.n
    q, rates, given = ca.SX.zeros(n), ca.SX.zeros(n), ca.SX.zeros(6 + n)
    for k, joint in enumerate(setup.paths):
        if joint not in free:
            q[joint], rates[joint], given[6 + joint] = ca.vertsplit(inputs["path"][3 * k : 3 * k + 3])
    return q, rates, given


def _forces(setup: Setup, own: list[dict[str, SX]], q: SX, rates: SX, bristles: SX, applied: SX) -> tuple[SX, list[SX]]:
    """Generalised forces (6 + n) of springs, dampers, friction and motors, and the rates of the bristles."""
    robot, law = setup.robot, setup.law
    force = ca.SX.zeros(6 + robot.n)
    motors = [f.motor for f in setup.flexible]
    for joint in setup.free:
        part = robot.joints[joint]
        if not (law.motor_damping and joint in motors):  # else the parameter stands for it
            force[6 + joint] -= part.damping * rates[joint]
        if part.spring is not None:
            force[6 + joint] -= part.spring.stiffness * (q[joint] - part.spring.rest)
    bristle_rates: list[SX] = []
    each = len(law.bristles)
    for i, f in enumerate(setup.flexible):
        # A transmission with ratio r: its torque acts on the link as it is, on the motor as -r times it (virtual work).
        deflection = q[f.link] - f.ratio * q[f.motor] - f.rest
        slip = rates[f.link] - f.ratio * rates[f.motor]
        inside = torques(law, own[i], deflection, slip, rates[f.motor], bristles[i * each : (i + 1) * each])
        force[6 + f.link] += inside.spring
        force[6 + f.motor] += inside.motor - f.ratio * inside.spring + applied[i]
        bristle_rates += inside.bristle_rates
    return force, bristle_rates


def _rotors(robot: Robot, replaced: dict[int, SX]) -> SX:
    """Inertias of all rotors, some of them symbols."""
    values = [replaced.get(i, joint.rotor.inertia) for i, joint in enumerate(robot.joints) if joint.rotor is not None]
    return ca.vertcat(*(ca.SX(value) for value in values))


def _locked_base(robot: Robot) -> list[float]:
    """Mode of the base's degrees of freedom: 1 for those that it lacks."""
    return [float(i in robot.base.locked_indices) for i in range(6)]


def _rigid_reference(
    setup: Setup, tree: Tree, inputs: dict[str, SX], base: SX, inertia: SX, rotor: SX
) -> tuple[SX, SX]:
    """Base acceleration of the rigid robot on the measured paths, and the torques at its motors."""
    robot, n = setup.robot, setup.robot.n
    # All joints on their measured paths, the motors too: nothing is free but the base.
    q, rates, given = _joint_motion(setup, inputs)
    for f in setup.flexible:
        q[f.link] = f.ratio * q[f.motor] + f.rest
        rates[f.link] = f.ratio * rates[f.motor]
        given[6 + f.link] = f.ratio * given[6 + f.motor]
    # The paper computes the torque once with an assumed inertia; else the candidate's own is used.
    if setup.reference_inertia is not None:
        rotor = _rotors(robot, {f.motor: ca.SX(setup.reference_inertia / f.gear**2) for f in setup.flexible})
    mode = ca.SX(ca.DM(_locked_base(robot) + [1.0] * n))
    none = [None] * tree.bodies
    rigid = hybrid_dynamics(tree, q, ca.vertcat(base, rates), ca.SX.zeros(6 + n), given, mode, inertia, rotor, [*none])
    # The link moves rigidly with its motor, so its reaction counts at the motor with the ratio (virtual work).
    torque = [rigid.reaction[6 + f.motor] + f.ratio * rigid.reaction[6 + f.link] for f in setup.flexible]
    return rigid.acceleration[:6], ca.vertcat(*torque)


@dataclass(frozen=True)
class Programs:
    """Compiled right-hand sides of a set-up: plain, with derivatives along all directions; and the motors' torques.

    ``slopes``: derivatives of the rates by state, paths and torques.
    """

    setup: Setup
    plain: Kernel
    tangent: Kernel
    torque: Kernel
    torque_tangent: Kernel
    slopes: Kernel


@lru_cache(maxsize=32)
def programs(setup: Setup) -> Programs:
    """Machine code of a set-up, from the cache on disk where it was compiled before."""
    model = _model(setup)
    many, size = len(setup.directions), setup.size
    moved = ca.SX.sym("moved", size, many)
    # A parameter moves the rate directly (seed 1) and through the state; start values only through the state.
    seeds = np.zeros((len(setup.parameters), many))
    seeds[:, : len(setup.parameters)] = np.eye(len(setup.parameters))
    point = ca.vertcat(model.inputs["state"], model.inputs["parameters"])
    along = ca.vertcat(moved, ca.SX(ca.DM(seeds)))
    # One forward-mode sweep for all directions: d(rate) = df/dx dx/dp + df/dp.
    d_rate = ca.jtimes(model.rate, point, along)
    d_torque = ca.jtimes(model.torque, point, along)
    given = ca.vertcat(*(model.inputs[name] for name in ("state", "path", "torque")))
    # The tangents are part of the integrated vector: column by column behind the state.
    full = {**model.inputs, "state": ca.vertcat(model.inputs["state"], ca.vec(moved))}

    def kernel(name: str, inputs: dict[str, SX], output: SX) -> Kernel:
        return Kernel(Program(f"joint_{name}", inputs, {"out": ca.densify(output)}))

    return Programs(
        setup,
        kernel("motion", model.inputs, model.rate),
        kernel("motion_tangent", full, ca.vertcat(model.rate, ca.vec(d_rate))),
        kernel("torque", model.inputs, model.torque),
        kernel("torque_tangent", full, ca.vertcat(model.torque, ca.vec(d_torque))),
        kernel("slopes", model.inputs, ca.vec(ca.jacobian(model.rate, given))),
    )
