"""Wojtunik 2023, Eqs. 9 to 20, derived here from energies, against the robot model; and the geared form."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.identify.joint import change_gear
from spacearm.identify.joint.flexible_joints import flexible_joints, write_joint_values
from spacearm.model import Robot, catalogue
from spacearm.model.edit import make_flexible
from spacearm.model.parts import Rotor

MASS = [58.69, 2.81, 2.82, 4.64]  # Sec. 3.1, Table 1
INERTIA = [2.42, 0.0637, 0.0635, 0.0515]
LENGTH = [0.449, 0.449, 0.310]
COM = [(0.1362, -0.0017), (0.1340, -0.0005), (0.1511, 0.0004)]
MOUNT = (0.337, -0.001)
MOTORS = [3.3, 1.7, 0.9]
STIFFNESS, DAMPING = [5.1, 7.0, 3.0], [0.4, 0.2, 0.1]


def all_flexible() -> Robot:
    """The paper's robot with its n = 3 joints all flexible, slow motors."""
    robot = catalogue.load("wojtunik2023_printed")
    for k, joint in enumerate(("joint2", "joint3"), 1):
        robot = make_flexible(robot, joint, STIFFNESS[k], DAMPING[k], Rotor(MOTORS[k], 1.0))
    return write_joint_values(robot, {"joint1": {"motor_inertia": 3.3, "stiffness": 5.1, "damping": 0.4}})


def rigid_matrices() -> ca.Function:
    """M and C of the rigid reference from T0 + Tr (Eqs. 4 and 5), C by Christoffel's symbols."""
    x, rate = ca.SX.sym("x", 6), ca.SX.sym("rate", 6)  # x0 y0 q0 q1 q2 q3

    def turned(angle: ca.SX, vector: tuple[float, float]) -> ca.SX:
        c, s = ca.cos(angle), ca.sin(angle)
        return ca.vertcat(c * vector[0] - s * vector[1], s * vector[0] + c * vector[1])

    energy = 0.5 * MASS[0] * (rate[0] ** 2 + rate[1] ** 2) + 0.5 * INERTIA[0] * rate[2] ** 2
    point, angle = x[:2] + turned(x[2], MOUNT), x[2]
    for i in range(3):
        angle = angle + x[3 + i]
        centre = point + turned(angle, COM[i])
        speed = ca.jacobian(centre, x) @ rate
        angular_rate = ca.sum1(rate[2 : 4 + i])
        energy += 0.5 * MASS[1 + i] * ca.sumsqr(speed) + 0.5 * INERTIA[1 + i] * angular_rate**2
        point = point + turned(angle, (LENGTH[i], 0.0))
    matrix = ca.hessian(energy, rate)[0]
    coriolis = ca.SX(6, 6)
    for i in range(6):
        for j in range(6):
            for k in range(6):
                symbol = (
                    ca.jacobian(matrix[i, j], x[k]) + ca.jacobian(matrix[i, k], x[j]) - ca.jacobian(matrix[j, k], x[i])
                )
                coriolis[i, j] += 0.5 * symbol * rate[k]
    return ca.Function("rigid", [x, rate], [matrix, coriolis])


def motor_inertia(motors: list[float]) -> np.ndarray:
    """J by Eqs. 17 to 20, written out element by element as printed."""
    n = len(motors)
    a = np.array([[sum(motors[max(i, j) :]) for j in range(n)] for i in range(n)])
    b = np.array([[motors[j] if j >= i else 0.0 for j in range(n)] for i in range(n)])
    zero = np.zeros((n, 1))
    return np.block([[a, zero, b], [zero.T, np.zeros((1, 1)), zero.T], [b.T, zero, np.diag(motors)]])


def test_equation_9_holds_for_the_robot_model() -> None:
    """(M* + J*) xdd + (C* + B*) xd + K* x = Q with the accelerations of the robot model: residual below 1e-10."""
    robot = all_flexible()
    mechanics = Mechanics(robot)
    rigid = rigid_matrices()
    links = [robot.joint_index(f"joint{i}") for i in (1, 2, 3)]
    motors = [robot.joint_index(f"joint{i}.motor") for i in (1, 2, 3)]
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(20):
        x, rate = rng.uniform(-1.5, 1.5, 9), rng.uniform(-1.0, 1.0, 9)
        torque = rng.uniform(-2.0, 2.0, 3)
        c, s = np.cos(x[2]), np.sin(x[2])
        to_base = np.array([[c, s], [-s, c]])
        joints, velocity = np.zeros(robot.n), np.zeros(6 + robot.n)
        joints[links], joints[motors] = x[3:6], x[6:9]
        velocity[:2], velocity[5] = to_base @ rate[:2], rate[2]
        velocity[[6 + i for i in links]], velocity[[6 + i for i in motors]] = rate[3:6], rate[6:9]
        force = np.zeros(6 + robot.n)
        spring = np.array(STIFFNESS) * (x[6:9] - x[3:6]) + np.array(DAMPING) * (rate[6:9] - rate[3:6])
        force[[6 + i for i in links]], force[[6 + i for i in motors]] = spring, torque - spring
        found = mechanics.forward_dynamics(joints, velocity, force)
        moved = found[:2] + rate[2] * np.array([-velocity[1], velocity[0]])  # of the base frame's origin, base axes
        acceleration = np.concatenate(
            [to_base.T @ moved, [found[5]], found[[6 + i for i in links]], found[[6 + i for i in motors]]]
        )
        matrix, coriolis = (np.array(part) for part in rigid(x[:6], rate[:6]))
        full = np.zeros((4, 9, 9))
        full[0, :6, :6] = matrix  # Eq. 10
        full[0, 2:, 2:] += motor_inertia(MOTORS)  # Eq. 11
        full[1, :6, :6] = coriolis  # Eq. 12
        for part, values in ((1, DAMPING), (2, STIFFNESS)):  # Eqs. 13 to 16
            block = np.diag(values)
            full[part, 3:, 3:] += np.block([[block, -block], [-block, block]])
        residual = full[0] @ acceleration + full[1] @ rate + full[2] @ x
        residual[6:] -= torque
        worst = max(worst, float(np.max(np.abs(residual))))
    assert worst < 1e-10


def test_the_gear_divides_the_coupling_blocks() -> None:
    """With I_m = N2 J only J_C is what is printed; J_B has I_m / N, J_A has I_m / N2."""
    printed = catalogue.load("wojtunik2023_printed")
    geared = change_gear(printed, 100.0)
    assert flexible_joints(geared)[0].motor_inertia == pytest.approx(3.3, rel=1e-12)
    parts = {}
    for name, robot in (("printed", printed), ("geared", geared), ("catalogue", catalogue.load("wojtunik2023"))):
        mechanics = Mechanics(robot)
        rotor = robot.joint("joint1.motor").rotor
        assert rotor is not None
        kernel = mechanics.kernel("mass_matrix")
        full = mechanics.evaluate(kernel, joints=np.full(robot.n, 0.3), rotor=np.array([rotor.inertia]))["mass_matrix"]
        bare = mechanics.evaluate(kernel, joints=np.full(robot.n, 0.3), rotor=np.zeros(1))["mass_matrix"]
        motor = 6 + robot.joint_index("joint1.motor")
        extra = full - bare
        parts[name] = extra[5, 5], extra[5, motor], extra[motor, motor]
    assert parts["printed"] == pytest.approx((3.3, 3.3, 3.3), rel=1e-12)
    assert parts["geared"] == pytest.approx((3.3e-4, 3.3e-2, 3.3), rel=1e-12)
    assert parts["catalogue"] == pytest.approx(parts["geared"], rel=1e-12)


def test_a_gear_needs_a_ratio_and_a_flexible_joint_turns() -> None:
    robot = catalogue.load("wojtunik2023")
    with pytest.raises(InputError, match="gear ratio is 0"):
        change_gear(robot, 0.0)
    sliding = tuple(replace(joint, kind="prismatic") if joint.name == "joint1" else joint for joint in robot.joints)
    with pytest.raises(InputError, match="joint 'joint1' slides"):
        flexible_joints(robot.replace(joints=sliding))


def test_rigid_and_flexible_joints_stand_side_by_side() -> None:
    robot = all_flexible()
    assert [f.name for f in flexible_joints(robot)] == ["joint1", "joint2", "joint3"]
    assert [f.name for f in flexible_joints(catalogue.load("wojtunik2023"))] == ["joint1"]
