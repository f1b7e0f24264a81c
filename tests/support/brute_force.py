"""The equations of motion from first principles in plain NumPy: no recursion, no CasADi, no other engine.

Kinematics gives every body's pose as a function of the joints; everything else follows from the kinetic energy. The
code runs on complex numbers, so derivatives are complex steps: exact to rounding. Slow and simple on purpose.

Kinetic energy does not depend on the base's pose, so with p = dT/dv and l = dT/dw (v, w in base axes) the equations are
Kirchhoff's for the base and Lagrange's for the joints::

    dp/dt + w x p = force,   dl/dt + w x l + v x p = moment,   d/dt dT/dqd - dT/dq = tau
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.model import Robot
from spacearm.typing import Array

STEP = 1e-30
Poses = list[tuple[np.ndarray, np.ndarray]]


def rotation_of(quaternion: npt.ArrayLike) -> Array:
    """Rotation matrix of a quaternion (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _cross_matrix(a: np.ndarray) -> np.ndarray:
    return np.array([[0 * a[0], -a[2], a[1]], [a[2], 0 * a[0], -a[0]], [-a[1], a[0], 0 * a[0]]])


def body_poses(
    robot: Robot, joints: np.ndarray, base: np.ndarray | None = None, origin: np.ndarray | None = None
) -> Poses:
    """(rotation, origin) of every body where the base lies at (base, origin); complex joints allowed."""
    poses: Poses = [(np.eye(3) if base is None else base, np.zeros(3) if origin is None else origin)]
    for joint, parent, q in zip(robot.joints, robot.parents, joints, strict=True):
        rotation, place = poses[parent]
        origin_here = place + rotation @ joint.placement.translation
        here = rotation @ joint.placement.rotation
        if joint.kind == "revolute":
            k = _cross_matrix(joint.axis)
            poses.append((here @ (np.eye(3) + np.sin(q) * k + (1 - np.cos(q)) * (k @ k)), origin_here))
        else:
            poses.append((here, origin_here + here @ joint.axis * q))
    return poses


def point_jacobian(robot: Robot, joints: np.ndarray, body: int, point: npt.ArrayLike) -> np.ndarray:
    """(6, 6 + n) by geometry: velocity of a body-fixed point, angular velocity; base axes; complex joints allowed."""
    poses = body_poses(robot, joints)
    rotation, origin = poses[body]
    target = origin + rotation @ np.asarray(point)
    jacobian = np.zeros((6, robot.dofs), dtype=np.result_type(joints, float))
    jacobian[:3, :3] = jacobian[3:, 3:6] = np.eye(3)
    jacobian[:3, 3:6] = -_cross_matrix(target)
    while body > 0:
        joint = robot.joints[body - 1]
        axis = poses[body][0] @ joint.axis
        column = 6 + body - 1
        if joint.kind == "revolute":
            jacobian[:3, column] = np.cross(axis, target - poses[body][1])
            jacobian[3:, column] = axis
        else:
            jacobian[:3, column] = axis
        body = robot.parents[body - 1]
    return jacobian


def stepped_jacobian(robot: Robot, joints: Array, body: int, point: npt.ArrayLike) -> Array:
    """The same Jacobian by complex steps through the poses alone: a check of the geometry above."""
    jacobian = np.zeros((6, robot.dofs))
    for k in range(robot.dofs):
        step = np.zeros(robot.dofs, dtype=complex)
        step[k] = 1j * STEP
        # To first order the base's motion is (1 + [w]) x + v, which is all that a step of 1e-30 can see.
        poses = body_poses(robot, joints + step[6:], np.eye(3) + _cross_matrix(step[3:6]), step[:3])
        rotation, origin = poses[body]
        jacobian[:3, k] = (origin + rotation @ np.asarray(point)).imag / STEP
        angular_rate = rotation.imag @ rotation.real.T / STEP
        jacobian[3:, k] = angular_rate[2, 1], angular_rate[0, 2], angular_rate[1, 0]
    return jacobian


def mass_matrix(robot: Robot, joints: npt.ArrayLike) -> np.ndarray:
    """Sum over bodies of J^T M J, and over rotors of inertia * j^T j, j the row of the spin; complex joints allowed."""
    q = np.asarray(joints)
    total = np.zeros((robot.dofs, robot.dofs), dtype=np.result_type(q, float))
    poses = body_poses(robot, q)
    for index, body in enumerate(robot.bodies):
        jacobian = point_jacobian(robot, q, index, body.inertia.com)
        linear, angular = jacobian[:3], poses[index][0].T @ jacobian[3:]
        total += body.inertia.mass * linear.T @ linear + angular.T @ body.inertia.tensor @ angular
    for i, joint in enumerate(robot.joints):
        if joint.rotor is not None:
            carrier = robot.parents[i]
            axis = poses[carrier][0] @ joint.placement.rotation @ joint.axis
            row = axis @ point_jacobian(robot, q, carrier, np.zeros(3))[3:]
            row[6 + i] += joint.rotor.ratio
            total += joint.rotor.inertia * np.outer(row, row)
    return total


def bias(robot: Robot, joints: npt.ArrayLike, velocity: npt.ArrayLike) -> Array:
    """c in H nu-dot + c = force, from the kinetic energy by Kirchhoff's and Lagrange's equations."""
    q, nu = np.asarray(joints, dtype=float), np.asarray(velocity, dtype=float)
    slopes = []
    for k in range(robot.n):
        step = q.astype(complex)
        step[k] += 1j * STEP
        slopes.append(mass_matrix(robot, step).imag / STEP)
    momenta = mass_matrix(robot, q) @ nu
    result = np.zeros(robot.dofs)
    for rate, slope in zip(nu[6:], slopes, strict=True):
        result += rate * (slope @ nu)
    result[:3] += np.cross(nu[3:6], momenta[:3])
    result[3:6] += np.cross(nu[3:6], momenta[3:6]) + np.cross(nu[:3], momenta[:3])
    result[6:] -= [0.5 * nu @ slope @ nu for slope in slopes]
    return result


def momentum_about_base(robot: Robot, joints: npt.ArrayLike, velocity: npt.ArrayLike) -> Array:
    """(linear, angular about the base's origin), base axes: dT/dv and dT/dw."""
    result: Array = (mass_matrix(robot, joints) @ np.asarray(velocity))[:6]
    return result


def hybrid_dynamics(mass: Array, rest: Array, force: Array, drive: Array, mode: Array) -> tuple[Array, Array]:
    """(nu-dot, reaction) from one dense system [H -E; E^T 0] (nu-dot, r) = (force - c, drive).

    ``mode`` is 1 where a degree of freedom is driven at ``drive``; ``rest`` is the bias c, ``force`` all applied
    generalised force. The reaction of a free degree of freedom is zero.
    """
    driven = np.flatnonzero(np.asarray(mode) > 0.5)
    nv, nd = len(mass), len(driven)
    selector = np.zeros((nv, nd))
    selector[driven, range(nd)] = 1.0
    system = np.block([[mass, -selector], [selector.T, np.zeros((nd, nd))]])
    solution = np.linalg.solve(system, np.concatenate([force - rest, np.asarray(drive)[driven]]))
    return solution[:nv], selector @ solution[nv:]
