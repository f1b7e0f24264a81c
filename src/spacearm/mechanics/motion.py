"""The right-hand side of a run in time: state in, its time derivative, powers and reactions out.

The order of inputs and outputs is a contract with the integration loops in :mod:`spacearm.engine`, which know offsets
and nothing of robots.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from spacearm.errors import InputError
from spacearm.mechanics.dynamics import hybrid_dynamics, velocities
from spacearm.mechanics.kinematics import wrench_on_body
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX, Spatial, dot, quaternion_rate, rotation_matrix
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot


@dataclass(frozen=True)
class LoadFrame:
    """A frame that a wrench acts on during a run, given in ``world`` or ``frame`` axes."""

    frame: str
    axes: str = "world"

    def __post_init__(self) -> None:
        if self.axes not in ("world", "frame"):
            raise InputError(f"axes of a load are {self.axes!r}", hint="expected 'world' or 'frame'")


def state_size(n: int) -> int:
    """Length of the state: position 3, quaternion 4, joints n, velocity 6 + n."""
    return 13 + 2 * n


def motion_program(robot: Robot, loads: tuple[LoadFrame, ...] = (), *, ledger: bool = True) -> Program:
    """The motion program of a robot under these loads.

    Inputs: ``state`` (position, quaternion, joints, velocity), ``force``, ``drive``, ``mode``, ``friction`` (6 + n
    each), ``wrench`` (6 for each load), ``inertia`` (10 for each body), ``rotor``, ``stiffness``, ``rest`` (n each),
    ``damping`` (6 + n), ``coupling`` (stiffness, damping, ratio, rest for each).

    Outputs: ``rate`` (of the state), with ``ledger`` also ``power`` (drives, dampers: 6 + n each; coupling dampers;
    dry friction: 6 + n; loads), and ``reaction`` (6 + n).
    """
    tree = Tree(robot)
    n, dofs = tree.n, 6 + tree.n
    symbol = ca.SX.sym
    inputs: dict[str, SX] = {
        "state": symbol("state", state_size(n)),
        "force": symbol("force", dofs),
        "drive": symbol("drive", dofs),
        "mode": symbol("mode", dofs),
        "friction": symbol("friction", dofs),
        "wrench": symbol("wrench", 6 * len(loads)),
        "inertia": symbol("inertia", 10 * tree.bodies),
        "rotor": symbol("rotor", tree.rotors),
        "stiffness": symbol("stiffness", n),
        "rest": symbol("rest", n),
        "damping": symbol("damping", dofs),
        "coupling": symbol("coupling", 4 * len(robot.couplings)),
    }
    state = inputs["state"]
    quaternion, q, velocity = state[3:7], state[7 : 7 + n], state[7 + n :]
    spring = ca.vertcat(ca.SX.zeros(6), -inputs["stiffness"] * (q - inputs["rest"]))
    damper = -inputs["damping"] * velocity
    passive = spring + damper
    coupling_power = []
    for k, coupling in enumerate(robot.couplings):
        stiffness, damping, ratio, rest = ca.vertsplit(inputs["coupling"][4 * k : 4 * k + 4])
        first, second = robot.joint_index(coupling.first), robot.joint_index(coupling.second)
        rate = velocity[6 + first] - ratio * velocity[6 + second]
        pull = -stiffness * (q[first] - ratio * q[second] - rest) - damping * rate
        passive[6 + first] += pull
        passive[6 + second] -= ratio * pull
        coupling_power.append(damping * rate * rate)

    placements = tree.placements(q)
    wrenches: list[Spatial | None] = [None] * tree.bodies
    for k, load in enumerate(loads):
        frame = robot.frame(load.frame)
        body = robot.body_index(frame.body)
        push = wrench_on_body(tree, placements, quaternion, frame, inputs["wrench"][6 * k : 6 * k + 6], load.axes)
        before = wrenches[body]
        wrenches[body] = push if before is None else before.plus(push)

    total = inputs["force"] + inputs["friction"] + passive
    hybrid = hybrid_dynamics(
        tree, q, velocity, total, inputs["drive"], inputs["mode"], inputs["inertia"], inputs["rotor"], wrenches
    )
    outputs: dict[str, SX] = {
        "rate": ca.vertcat(
            rotation_matrix(quaternion) @ velocity[:3],
            quaternion_rate(quaternion, velocity[3:6]),
            velocity[6:],
            hybrid.acceleration,
        )
    }
    if ledger:
        drive_power = (inputs["force"] + hybrid.reaction) * velocity
        outputs["power"] = ca.vertcat(
            drive_power,
            -damper * velocity,
            *coupling_power,
            -inputs["friction"] * velocity,
            *_load_powers(robot, tree, inputs, loads),
        )
    outputs["reaction"] = hybrid.reaction
    return Program("motion", inputs, {name: ca.densify(value) for name, value in outputs.items()})


def _load_powers(robot: Robot, tree: Tree, inputs: dict[str, SX], loads: tuple[LoadFrame, ...]) -> list[SX]:
    state = inputs["state"]
    quaternion, q, velocity = state[3:7], state[7 : 7 + tree.n], state[7 + tree.n :]
    placements = tree.placements(q)
    twist = velocities(tree, placements, velocity, inputs["rotor"]).twist
    powers = []
    for k, load in enumerate(loads):
        frame = robot.frame(load.frame)
        push = wrench_on_body(tree, placements, quaternion, frame, inputs["wrench"][6 * k : 6 * k + 6], load.axes)
        powers.append(dot(push, twist[robot.body_index(frame.body)]))
    return powers
