"""Compiled kernels: equal to CasADi's interpreter for every kind of program, and right by name through Mechanics.

The population of 216 robots is tested through the interpreter, which needs no compilation; what is shown here, that
machine code and interpreter agree, carries those tests over to the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacearm.engine import Kernel, Mechanics
from spacearm.mechanics import Program, build
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.programs import PROGRAMS
from spacearm.model import Robot
from spacearm.typing import Array
from support import brute_force
from support.pinocchio_reference import PinocchioReference
from support.population import difference
from support.random_robots import RandomState, random_robot, random_state

LOADS = (LoadFrame("frame1"), LoadFrame("frame2", "frame"))
OPTIONS: dict[str, dict[str, Any]] = {
    "inverse_dynamics": {"loads": LOADS},
    "forward_dynamics": {"loads": LOADS},
    "hybrid_dynamics": {"loads": LOADS},
    "motion": {"loads": LOADS},
    **{
        name: {"frame": "frame1"}
        for name in ("frame_pose", "jacobian", "frame_velocity", "frame_acceleration", "generalized_jacobian")
    },
}
ROBOTS = {
    "one joint": random_robot(2, 1, prismatic=0.0),
    "aligned tree": random_robot(11, 5, geometry="aligned", rotors=0.5),
    "flexible chain": random_robot(12, 3, tree=False, flexible=0.6, geometry="mixed", passive=True),
}


def points(robot: Robot, program: Program, count: int, seed: int) -> dict[str, Array]:
    """Random values for every input of a program, physically meaningful, (count, size) each."""
    rng = np.random.default_rng(seed)
    states = [random_state(robot, rng) for _ in range(count)]
    known = {
        "position": np.array([state.position for state in states]),
        "quaternion": np.array([state.quaternion for state in states]),
        "joints": np.array([state.joints for state in states]),
        "state": np.array([state.flat for state in states]),
        "mode": (rng.random((count, robot.dofs)) < 0.4).astype(float),
        "inertia": robot.inertia_parameters.ravel() * rng.uniform(0.9, 1.1, size=(count, 1)),
        "rotor": rng.uniform(1e-4, 1e-3, size=(count, sum(joint.rotor is not None for joint in robot.joints))),
    }
    given = {name: s for name, s in program.inputs.items() if name not in program.derived}
    found = {name: known.get(name, rng.normal(size=(count, s.numel()))) for name, s in given.items()}
    return found | Kernel(program).derive(found)


def by_casadi(program: Program, point: dict[str, Array]) -> dict[str, Array]:
    """All outputs, (count, ...), row by row through CasADi."""
    rows = np.concatenate([point[name] for name in program.inputs], axis=1)
    flat = np.array([np.array(program.function(row)).ravel() for row in rows])
    values, start = {}, 0
    for name, symbol in program.outputs.items():
        values[name] = flat[:, start : start + symbol.numel()].reshape(len(rows), *program.output_shape(name))
        start += symbol.numel()
    return values


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("which", ROBOTS)
def test_kernels_equal_casadi(which: str, name: str) -> None:
    """One state and a batch with an unfilled last group of lanes, to a few units in the last place."""
    robot = ROBOTS[which]
    program = build(robot, name, **OPTIONS.get(name, {}))
    point = points(robot, program, 11, seed=len(name))
    expected = by_casadi(program, point)
    kernel = Kernel(program)
    single = kernel({key: value[3] for key, value in point.items()})
    batch = kernel(point)
    assert single.keys() == batch.keys() == expected.keys()
    for key, reference in expected.items():
        assert difference(single[key], reference[3]) < 1e-13, f"{key}, one state"
        for row in range(11):
            assert difference(batch[key][row], reference[row]) < 1e-13, f"{key}, sample {row}"


@pytest.mark.parametrize("which", ["one joint", "aligned tree"])
def test_derivative_kernels_equal_casadi(which: str) -> None:
    robot = ROBOTS[which]
    base = build(robot, "hybrid_dynamics")
    programs = {
        "jacobian": base.jacobian("acceleration", "joints", "velocity", "force", "inertia"),
        "tangent": base.tangent(["joints", "velocity", "inertia"]),
        "adjoint": base.adjoint("acceleration", ["joints", "velocity", "inertia"]),
    }
    for what, program in programs.items():
        point = points(robot, program, 3, seed=8)
        expected, got = by_casadi(program, point), Kernel(program)(point)
        for key, reference in expected.items():
            assert difference(got[key], reference) < 1e-13, f"{key} of {what}"


class TestMechanicsByName:
    """Every function of Mechanics, arguments by their public names, against Pinocchio and first principles."""

    robot = random_robot(21, 4, geometry="mixed")
    mechanics = Mechanics(robot)
    reference = PinocchioReference(robot)
    rng = np.random.default_rng(21)
    states = (random_state(robot, rng), random_state(robot, rng), random_state(robot, rng))
    base = np.array([np.concatenate([state.position, state.quaternion]) for state in states])
    joints = np.array([state.joints for state in states])
    velocity = np.array([state.velocity for state in states])
    acceleration = rng.normal(size=(3, robot.dofs))
    force = rng.normal(size=(3, robot.dofs))
    wrench = rng.normal(size=(3, 6))

    def same(self, value: Array, each: Any, tolerance: float = 1e-10) -> None:
        """``value`` is ``each(k, state)`` for each of the states."""
        assert difference(value, np.array([each(k, state) for k, state in enumerate(self.states)])) < tolerance

    def test_mass_matrix_and_its_blocks(self) -> None:
        self.same(self.mechanics.mass_matrix(self.joints), lambda k, s: self.reference.mass_matrix(s))
        base, coupling, arm = self.mechanics.mass_blocks(self.joints)
        matrix = np.concatenate(
            [np.concatenate([base, coupling], 2), np.concatenate([np.swapaxes(coupling, 1, 2), arm], 2)], 1
        )
        assert base.shape[-1] == 6
        self.same(matrix, lambda k, s: brute_force.mass_matrix(self.robot, s.joints))

    def test_bias(self) -> None:
        self.same(self.mechanics.bias(self.joints, self.velocity), lambda k, s: self.reference.bias(s))

    def test_inverse_dynamics(self) -> None:
        got = self.mechanics.inverse_dynamics(
            self.joints,
            self.velocity,
            self.acceleration,
            loads=(LoadFrame("frame1"),),
            wrench=self.wrench,
            base=self.base,
        )
        self.same(
            got, lambda k, s: self.reference.inverse_dynamics(s, self.acceleration[k], {"frame1": self.wrench[k]})
        )

    def test_forward_dynamics(self) -> None:
        got = self.mechanics.forward_dynamics(
            self.joints, self.velocity, self.force, loads=(LoadFrame("frame1"),), wrench=self.wrench, base=self.base
        )
        self.same(got, lambda k, s: self.reference.forward_dynamics(s, self.force[k], {"frame1": self.wrench[k]}))

    def test_hybrid_dynamics(self) -> None:
        mode = np.array([0, 1, 0, 1, 0, 0, 1, 0, 1, 0.0])
        got = self.mechanics.hybrid_dynamics(self.joints, self.velocity, self.force, self.acceleration, mode)

        def expected(k: int, state: RandomState) -> tuple[Array, Array]:
            mass, bias = self.reference.mass_matrix(state), self.reference.bias(state)
            return brute_force.hybrid_dynamics(mass, bias, self.force[k], self.acceleration[k], mode)

        self.same(got[0], lambda k, s: expected(k, s)[0])
        self.same(got[1], lambda k, s: expected(k, s)[1])

    def test_frames(self) -> None:
        origin, rotation = self.mechanics.frame_pose("frame2", self.joints, base=self.base)
        self.same(origin, lambda k, s: self.reference.frame_pose(s, "frame2").translation)
        self.same(rotation, lambda k, s: self.reference.frame_pose(s, "frame2").rotation)
        jacobian = self.mechanics.jacobian("frame2", self.joints, base=self.base)
        self.same(jacobian, lambda k, s: self.reference.frame_jacobian(s, "frame2"))
        twist = self.mechanics.frame_velocity("frame2", self.joints, self.velocity, base=self.base)
        self.same(twist, lambda k, s: self.reference.frame_jacobian(s, "frame2") @ s.velocity)
        got = self.mechanics.frame_acceleration("frame2", self.joints, self.velocity, self.acceleration, base=self.base)
        self.same(
            got,
            lambda k, s: (
                self.reference.frame_jacobian(s, "frame2") @ self.acceleration[k]
                + self.reference.frame_drift(s, "frame2")
            ),
        )

    def test_body_poses(self) -> None:
        origin, rotation = self.mechanics.body_poses(self.joints, base=self.base)

        def poses(state: RandomState) -> brute_force.Poses:
            turned = brute_force.rotation_of(state.quaternion)
            return brute_force.body_poses(self.robot, state.joints, turned, state.position)

        self.same(origin, lambda k, s: np.array([pose[1] for pose in poses(s)]))
        self.same(rotation, lambda k, s: np.array([pose[0] for pose in poses(s)]))

    def test_generalized_jacobian(self) -> None:
        def expected(k: int, state: RandomState) -> Array:
            mass, jacobian = self.reference.mass_matrix(state), self.reference.frame_jacobian(state, "frame1")
            return jacobian[:, 6:] - jacobian[:, :6] @ np.linalg.solve(mass[:6, :6], mass[:6, 6:])

        self.same(self.mechanics.generalized_jacobian("frame1", self.joints, base=self.base), expected)

    def test_momentum_energy_and_mass_centre(self) -> None:
        arguments = (self.joints, self.velocity)
        zero, point = np.zeros(3), np.array([1.0, -2.0, 0.5])
        self.same(self.mechanics.momentum(*arguments, base=self.base), lambda k, s: self.reference.momentum(s, zero))
        got = self.mechanics.momentum(*arguments, base=self.base, about=point)
        self.same(got, lambda k, s: self.reference.momentum(s, point))
        got = self.mechanics.momentum(*arguments, base=self.base, about="com")
        self.same(got, lambda k, s: self.reference.momentum(s))
        self.same(self.mechanics.kinetic_energy(*arguments), lambda k, s: self.reference.kinetic_energy(s))
        centre = self.mechanics.centre_of_mass(self.joints, base=self.base)
        self.same(centre, lambda k, s: self.reference.mass_centre(s))

    def test_regressors(self) -> None:
        parameters = self.robot.inertia_parameters.ravel()
        matrix, offset = self.mechanics.dynamics_regressor(self.joints, self.velocity, self.acceleration)
        self.same(
            matrix @ parameters + offset,
            lambda k, s: self.reference.inverse_dynamics(s, self.acceleration[k]),
            tolerance=1e-12,
        )
        matrix, offset = self.mechanics.momentum_regressor(self.joints, self.velocity)
        self.same(
            matrix @ parameters + offset,
            lambda k, s: (self.reference.mass_matrix(s) @ s.velocity)[:6],
            tolerance=1e-12,
        )

    def test_other_inertias(self) -> None:
        changed = self.robot.inertia_parameters * np.linspace(0.5, 1.5, len(self.robot.bodies))[:, None]
        other = PinocchioReference(self.robot.with_inertia_parameters(changed))
        self.same(self.mechanics.mass_matrix(self.joints, inertia=changed), lambda k, s: other.mass_matrix(s))

    def test_derivatives(self) -> None:
        kernel = self.mechanics.derivative("forward_dynamics", "acceleration", "force")
        got = self.mechanics.evaluate(kernel, joints=self.joints, velocity=self.velocity, force=self.force)
        self.same(got["d_acceleration_d_force"], lambda k, s: np.linalg.inv(self.reference.mass_matrix(s)))


def test_matrices_keep_their_shape_with_one_joint() -> None:
    """With one joint a 6 x 1 matrix is still a matrix."""
    robot = ROBOTS["one joint"]
    mechanics = Mechanics(robot)
    assert mechanics.generalized_jacobian("frame1", np.zeros(1)).shape == (6, 1)
    assert mechanics.generalized_jacobian("frame1", np.zeros((4, 1))).shape == (4, 6, 1)
    kernel = mechanics.derivative("bias", "bias", "joints")
    result = mechanics.evaluate(kernel, joints=np.zeros((4, 1)), velocity=np.ones((4, 7)))
    assert result["d_bias_d_joints"].shape == (4, 7, 1)
