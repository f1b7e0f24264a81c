"""What the motion program must return, from Pinocchio's and NumPy's terms and the passive laws written out again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spacearm.model import Robot
from spacearm.typing import Array
from support import brute_force
from support.pinocchio_reference import PinocchioReference
from support.random_robots import RandomState


@dataclass
class MotionInputs:
    """All inputs of the motion program but the state, drawn at random."""

    force: Array
    drive: Array
    mode: Array
    friction: Array
    stiffness: Array
    rest: Array
    damping: Array
    coupling: Array
    wrench: dict[str, Array] = field(default_factory=dict)
    in_frame_axes: Sequence[str] = ()

    @classmethod
    def draw(
        cls, robot: Robot, rng: np.random.Generator, mode: Array, *, frame_axes: Sequence[str] = ()
    ) -> MotionInputs:
        n, dofs = robot.n, robot.dofs
        couplings = [[c.stiffness, c.damping, c.ratio, c.rest] for c in robot.couplings]
        return cls(
            force=5.0 * rng.normal(size=dofs),
            drive=rng.normal(size=dofs),
            mode=mode,
            friction=rng.normal(size=dofs),
            stiffness=rng.uniform(0.0, 50.0, size=n),
            rest=rng.normal(size=n),
            damping=rng.uniform(0.0, 3.0, size=dofs),
            coupling=np.array(couplings).reshape(-1, 4),
            wrench={frame.name: 4.0 * rng.normal(size=6) for frame in robot.frames},
            in_frame_axes=frame_axes,
        )

    def flat(self, robot: Robot, state: RandomState) -> Array:
        """The program's input vector, in the order of the contract."""
        rotors = [joint.rotor.inertia for joint in robot.joints if joint.rotor is not None]
        parts = [state.flat, self.force, self.drive, self.mode, self.friction, *self.wrench.values()]
        parts += [robot.inertia_parameters.ravel(), np.array(rotors), self.stiffness, self.rest, self.damping]
        return np.concatenate([*parts, self.coupling.ravel()])


@dataclass
class MotionOutputs:
    rate: Array
    power: Array
    reaction: Array

    @property
    def flat(self) -> Array:
        return np.concatenate([self.rate, self.power, self.reaction])


def expected_motion(robot: Robot, state: RandomState, given: MotionInputs) -> MotionOutputs:
    """The motion program's outputs by an independent way."""
    pinocchio = PinocchioReference(robot)
    nu, q = state.velocity, state.joints
    passive = np.zeros(robot.dofs)
    passive[6:] -= given.stiffness * (q - given.rest)
    passive -= given.damping * nu
    coupling_power = []
    for coupling, (stiffness, damping, ratio, rest) in zip(robot.couplings, given.coupling, strict=True):
        row = np.zeros(robot.n)
        row[robot.joint_index(coupling.first)] = 1.0
        row[robot.joint_index(coupling.second)] = -ratio
        passive[6:] -= row * (stiffness * (row @ q - rest) + damping * (row @ nu[6:]))
        coupling_power.append(damping * (row @ nu[6:]) ** 2)
    external, load_power = np.zeros(robot.dofs), []
    for name, wrench in given.wrench.items():
        axes = "frame" if name in given.in_frame_axes else "world"
        jacobian = pinocchio.frame_jacobian(state, name, axes)
        external += jacobian.T @ wrench
        load_power.append(wrench @ jacobian @ nu)
    total = given.force + given.friction + passive + external
    acceleration, reaction = brute_force.hybrid_dynamics(
        pinocchio.mass_matrix(state), pinocchio.bias(state), total, given.drive, given.mode
    )
    w, vector = state.quaternion[0], state.quaternion[1:]
    turn = 0.5 * nu[3:6]  # q-dot = q * (0, omega / 2), omega in base axes
    rate = np.concatenate(
        [
            brute_force.rotation_of(state.quaternion) @ nu[:3],
            [-vector @ turn],
            w * turn + np.cross(vector, turn),
            nu[6:],
            acceleration,
        ]
    )
    power = [(given.force + reaction) * nu, given.damping * nu**2, coupling_power, -given.friction * nu, load_power]
    return MotionOutputs(rate, np.concatenate([np.asarray(part, dtype=float) for part in power]), reaction)


def random_mode(robot: Robot, rng: np.random.Generator, kind: str) -> Array:
    """A mode: ``mixed`` each by chance, ``rail`` the base free along one direction, ``arm`` all joints driven."""
    mode = np.zeros(robot.dofs)
    if kind == "driven":
        mode[:] = 1.0
    elif kind == "mixed":
        mode[:] = rng.random(robot.dofs) < 0.5
    elif kind == "rail":
        mode[:6] = 1.0
        mode[rng.integers(3)] = 0.0
        mode[6:] = rng.random(robot.n) < 0.3
    elif kind == "arm":
        mode[6:] = 1.0
    elif kind == "fixed base":
        mode[:6] = 1.0
    return mode


MODES = ("free", "driven", "mixed", "rail", "arm", "fixed base")
