"""The programs of a robot by name: which inputs each takes, which outputs it gives.

Inputs that several programs share have one name and one meaning:

``joints`` (n), ``velocity``, ``acceleration``, ``force``, ``drive``, ``mode`` (6 + n), ``position`` (3) and
``quaternion`` (4) of the base in the world, ``inertia`` (10 (n + 1)), ``rotor`` (one for each joint that has one),
``wrench`` (6 for each load), ``point`` (3, world).

``loops`` gives, for all closed loops, ``residual``, its ``rate``, its Jacobian by the joints and ``facing`` (see
:class:`~spacearm.mechanics.constraints.Closure`); order: closure by closure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import casadi as ca

from spacearm import checks
from spacearm.errors import InputError
from spacearm.mechanics import dynamics, kinematics, momentum, regressor
from spacearm.mechanics.constraints import closures
from spacearm.mechanics.motion import (
    LoadFrame,
    load_wrenches_on_bodies,
    motion_program,
    reframe_inertia,
    sum_on_bodies,
)
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX, Spatial, quaternion_rate
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot


class _Inputs:
    """Symbols made on demand, kept in the order in which a program names them."""

    def __init__(self, tree: Tree, loads: tuple[LoadFrame, ...] = ()) -> None:
        n = tree.n
        sizes = {"joints": n, "position": 3, "quaternion": 4, "point": 3, "rotor": tree.rotors}
        sizes |= dict.fromkeys(("velocity", "acceleration", "force", "drive", "mode"), 6 + n)
        sizes |= {"inertia": 10 * tree.bodies, "wrench": 6 * len(loads)}
        self._sizes, self._tree = sizes | {tree.inertia_name: 10 * tree.bodies}, tree
        self.used: dict[str, SX] = {}

    def __getattr__(self, name: str) -> SX:
        if name not in self.used:
            self.used[name] = ca.SX.sym(name, self._sizes[name])
        # Builders write "inertia" and mean that in the frames of the tree.
        own = name == "inertia" and self._tree.inertia_name
        return self._tree.sparse(getattr(self, own)) if own else self.used[name]


def _body_wrenches(tree: Tree, inputs: _Inputs, loads: tuple[LoadFrame, ...]) -> list[Spatial | None]:
    """Loads on frames as one wrench for each loaded body."""
    if not loads:
        return [None] * tree.bodies
    # Only loads in world axes need the attitude: without one it is not an input.
    world = any(load.axes == "world" for load in loads)
    quaternion = inputs.quaternion if world else ca.SX([1, 0, 0, 0])
    pushes = load_wrenches_on_bodies(tree, inputs.joints, quaternion, loads, inputs.wrench)
    return sum_on_bodies(tree, loads, pushes)


def _mass_matrix(tree: Tree, x: _Inputs) -> dict[str, SX]:
    return {"mass_matrix": dynamics.mass_matrix(tree, x.joints, x.inertia, x.rotor)}


def _bias(tree: Tree, x: _Inputs) -> dict[str, SX]:
    # Inverse dynamics at zero acceleration: Coriolis and centrifugal forces.
    rest = ca.SX.zeros(6 + tree.n)
    none: list[Spatial | None] = [None] * tree.bodies
    return {"bias": dynamics.inverse_dynamics(tree, x.joints, x.velocity, rest, x.inertia, x.rotor, none)}


def _inverse_dynamics(tree: Tree, x: _Inputs, loads: tuple[LoadFrame, ...] = ()) -> dict[str, SX]:
    joints, velocity, acceleration = x.joints, x.velocity, x.acceleration
    wrenches = _body_wrenches(tree, x, loads)
    force = dynamics.inverse_dynamics(tree, joints, velocity, acceleration, x.inertia, x.rotor, wrenches)
    return {"force": force}


def _forward_dynamics(tree: Tree, x: _Inputs, loads: tuple[LoadFrame, ...] = ()) -> dict[str, SX]:
    joints, velocity, force = x.joints, x.velocity, x.force
    wrenches = _body_wrenches(tree, x, loads)
    return {"acceleration": dynamics.free_dynamics(tree, joints, velocity, force, x.inertia, x.rotor, wrenches)}


def _hybrid_dynamics(tree: Tree, x: _Inputs, loads: tuple[LoadFrame, ...] = ()) -> dict[str, SX]:
    joints, velocity, force, drive, mode = x.joints, x.velocity, x.force, x.drive, x.mode
    wrenches = _body_wrenches(tree, x, loads)
    hybrid = dynamics.hybrid_dynamics(tree, joints, velocity, force, drive, mode, x.inertia, x.rotor, wrenches)
    return {"acceleration": hybrid.acceleration, "reaction": hybrid.reaction}


def _body_poses(tree: Tree, x: _Inputs) -> dict[str, SX]:
    placements = tree.placements(x.joints)
    poses = kinematics.body_poses(tree, placements, kinematics.base_pose(x.position, x.quaternion))
    return {
        "origin": ca.horzcat(*(pose.origin for pose in poses)).T,
        "rotation": ca.vertcat(*(pose.rotation for pose in poses)),
    }


def _frame_pose(tree: Tree, x: _Inputs, frame: str) -> dict[str, SX]:
    placements = tree.placements(x.joints)
    base = kinematics.base_pose(x.position, x.quaternion)
    pose = kinematics.frame_pose(tree, placements, base, tree.robot.frame(frame))
    return {"origin": pose.origin, "rotation": pose.rotation}


def _jacobian(tree: Tree, x: _Inputs, frame: str) -> dict[str, SX]:
    placements = tree.placements(x.joints)
    # A Jacobian does not depend on where the base is, only on how it stands.
    base = kinematics.base_pose(ca.SX.zeros(3), x.quaternion)
    return {"jacobian": kinematics.frame_jacobian(tree, placements, base, tree.robot.frame(frame))}


def _frame_velocity(tree: Tree, x: _Inputs, frame: str) -> dict[str, SX]:
    jacobian = _jacobian(tree, x, frame)["jacobian"]
    return {"twist": jacobian @ x.velocity}


def _frame_acceleration(tree: Tree, x: _Inputs, frame: str) -> dict[str, SX]:
    """Classical acceleration of the frame's origin, and angular acceleration, in world axes."""
    twist = _frame_velocity(tree, x, frame)["twist"]
    # d/dt of a function of (quaternion, joints, velocity) along the motion itself.
    point = ca.vertcat(x.quaternion, x.joints, x.velocity)
    rotation = quaternion_rate(x.quaternion, x.velocity[3:6])
    along = ca.vertcat(rotation, x.velocity[6:], x.acceleration)
    return {"acceleration": ca.jtimes(twist, point, along)}


def _generalized_jacobian(tree: Tree, x: _Inputs, frame: str) -> dict[str, SX]:
    jacobian = _jacobian(tree, x, frame)["jacobian"]
    matrix = dynamics.lock_base(tree.robot, dynamics.mass_matrix(tree, x.joints, x.inertia, x.rotor))
    return {"generalized_jacobian": kinematics.generalized_jacobian(jacobian, matrix)}


def _momentum(tree: Tree, x: _Inputs) -> dict[str, SX]:
    base = kinematics.base_pose(x.position, x.quaternion)
    own = momentum.momentum(tree, x.joints, x.velocity, x.inertia, x.rotor)
    return {"momentum": momentum.momentum_about(own, base, x.point)}


def _base_momentum(tree: Tree, x: _Inputs) -> dict[str, SX]:
    return {"momentum": momentum.momentum(tree, x.joints, x.velocity, x.inertia, x.rotor).stack()}


def _kinetic_energy(tree: Tree, x: _Inputs) -> dict[str, SX]:
    return {"kinetic_energy": momentum.kinetic_energy(tree, x.joints, x.velocity, x.inertia, x.rotor)}


def _centre_of_mass(tree: Tree, x: _Inputs) -> dict[str, SX]:
    base = kinematics.base_pose(x.position, x.quaternion)
    mass, centre = momentum.centre_of_mass(tree, x.joints, x.inertia)
    return {"centre_of_mass": base.origin + base.rotation @ centre, "mass": mass}


def _loops(tree: Tree, x: _Inputs) -> dict[str, SX]:
    joints, rates = x.joints, x.velocity[6:]
    found = closures(tree, joints, rates)
    whole = []
    for loop in found:
        # Over all joints: a loop's own Jacobian has columns for those that it depends on.
        columns = ca.SX.zeros(loop.residual.numel(), tree.n)
        columns[:, list(loop.joints)] = loop.jacobian
        whole.append(columns)
    return {
        "residual": ca.vertcat(*(loop.residual for loop in found)),
        "rate": ca.vertcat(*(loop.rate for loop in found)),
        "loop_jacobian": ca.vertcat(*whole),
        "facing": ca.vertcat(*(loop.facing for loop in found)),
    }


def _dynamics_regressor(tree: Tree, x: _Inputs) -> dict[str, SX]:
    result = regressor.dynamics_regressor(tree, x.joints, x.velocity, x.acceleration, x.rotor)
    return {"regressor": result.matrix, "offset": result.offset}


def _momentum_regressor(tree: Tree, x: _Inputs) -> dict[str, SX]:
    result = regressor.momentum_regressor(tree, x.joints, x.velocity, x.rotor)
    return {"regressor": result.matrix, "offset": result.offset}


_BUILDERS: dict[str, Callable[..., dict[str, SX]]] = {
    "mass_matrix": _mass_matrix,
    "bias": _bias,
    "inverse_dynamics": _inverse_dynamics,
    "forward_dynamics": _forward_dynamics,
    "hybrid_dynamics": _hybrid_dynamics,
    "body_poses": _body_poses,
    "frame_pose": _frame_pose,
    "jacobian": _jacobian,
    "frame_velocity": _frame_velocity,
    "frame_acceleration": _frame_acceleration,
    "generalized_jacobian": _generalized_jacobian,
    "momentum": _momentum,
    "base_momentum": _base_momentum,
    "kinetic_energy": _kinetic_energy,
    "centre_of_mass": _centre_of_mass,
    "loops": _loops,
    "dynamics_regressor": _dynamics_regressor,
    "momentum_regressor": _momentum_regressor,
}

#: Outputs that stay matrices when they have a single column: a robot may have one joint.
_MATRICES = frozenset({"mass_matrix", "jacobian", "generalized_jacobian", "loop_jacobian", "regressor"})

#: Programs in whose results no frame of a body shows, except the base's: they may choose the others.
_SHORT = frozenset(
    {"mass_matrix", "bias", "inverse_dynamics", "forward_dynamics", "hybrid_dynamics", "momentum", "base_momentum",
     "kinetic_energy"}
)  # fmt: skip

#: Names of all programs.
PROGRAMS: tuple[str, ...] = (*_BUILDERS, "motion")


def build(robot: Robot, name: str, **options: Any) -> Program:
    """The program of this name. Options: ``frame`` for those at a frame, ``loads`` for dynamics under wrenches."""
    if name == "motion":
        return motion_program(robot, **options)
    checks.check_name(name, PROGRAMS, "program")
    _check_options(name, options)
    # Frames that suit a free base may be taken only where nothing is given in the base's own.
    tree = Tree(robot, short=name in _SHORT, free=name == "forward_dynamics" and not options.get("loads"))
    inputs = _Inputs(tree, options.get("loads", ()))
    outputs = {key: ca.densify(value) for key, value in _BUILDERS[name](tree, inputs, **options).items()}
    return Program(name, inputs.used, outputs, _MATRICES, reframe_inertia(tree, inputs.used))


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    known = list(signature(_BUILDERS[name]).parameters.values())[2:]
    for option in options:
        checks.check_name(option, [parameter.name for parameter in known], "option", of=f"program {name!r}")
    for parameter in known:
        if parameter.default is parameter.empty and parameter.name not in options:
            raise InputError(f"program {name!r} needs the option {parameter.name!r}")
