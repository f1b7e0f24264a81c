"""Predicted accelerations and joint torques on the base's motion, and their derivatives.

With nu the base's twist (base axes), q the joint positions, c velocity-dependent forces and the mass matrix in blocks
of base and joints (H_b, H_bm; H_mb, H_m):

    H_b dnu/dt = wrench - c_b - H_bm ddq,        torque = H_mb dnu/dt + H_m ddq + c_m.

The accelerometer sits at ``mount`` r: its reading is dv/dt + alpha x r + omega x (v + omega x r) in base axes, where
dv/dt is the derivative of the components. Gravity does not act on a sensor in free fall. Joint accelerations ddq must
be known, as they were read or commanded.

Rows (6 + n): acceleration (m/s2), angular acceleration (rad/s2), torques (N m or N). Derivatives follow by implicit
differentiation: whatever changes the forces at fixed acceleration by df changes dnu/dt by -H_b^-1 df_b, and the torques
by df_m + H_mb d(dnu/dt).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.engine import mechanics_of
from spacearm.identify.inertia._base_motion import solve_along
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.typing import Array

#: Channels by name, with their rows among (acceleration, angular acceleration, torques).
SENSED = ("acceleration", "angular_acceleration", "torque")
#: Readings so long after a thruster switches (s), or two samples after and one before, are left out: thrust needs time
#: to build up, and a reading that is a little late shows the other side of a jump.
SWITCHING = 0.05


@dataclass(frozen=True, eq=False)
class ForceReadings:
    """Readings (T, 6 + n) at the samples, and their derivatives (T, 6 + n, ...)."""

    values: Array
    by_twist: Array
    by_joints: Array
    by_rates: Array
    by_accelerations: Array
    by_inertia: Array
    by_wrench: Array


def predict_force_readings(
    robot: Robot, mount: Array, joints: Array, rates: Array, accelerations: Array, twist: Array, wrench: Array,
    inertia: Array, directions: Array,
) -> ForceReadings:  # fmt: skip
    """At each sample (T, ...): ``twist``, ``wrench`` in base axes; ``directions`` (10 (n + 1), d) of the inertias."""
    mechanics, (count, n) = mechanics_of(robot), joints.shape
    own = np.broadcast_to(inertia.reshape(-1, 10), (count, n + 1, 10))
    velocity = np.concatenate([twist, rates], axis=1)
    # Forces that the joint motion needs with the base not accelerating: c + H_bm ddq in the base's rows.
    led = np.concatenate([np.zeros((count, 6)), accelerations], axis=1)
    force = mechanics.inverse_dynamics(joints, velocity, led, inertia=own)
    matrix = mechanics.mass_matrix(joints, inertia=own)
    # Along what does not move, the constraint takes any force without an acceleration.
    moving = robot.base.moving_indices
    inverse = solve_along(moving, matrix[:, :6, :6], np.broadcast_to(np.eye(6), (count, 6, 6)))
    inverse[:, :, robot.base.locked_indices] = 0.0
    base = np.einsum("tij,tj->ti", inverse, wrench - force[:, :6])
    moved = np.concatenate([base, accelerations], axis=1)
    torque = force[:, 6:] + np.einsum("tij,tj->ti", matrix[:, 6:, :6], base)
    wrt = ("joints", "velocity") if n else ("velocity",)
    # Derivatives of the forces at the true acceleration, held fixed: the acceleration reacts in `propagate`.
    kernel = mechanics.derivative("inverse_dynamics", "force", *wrt)
    result = mechanics.evaluate(kernel, joints=joints, velocity=velocity, acceleration=moved, inertia=own)
    by = {name: result[f"d_force_d_{name}"].reshape(count, 6 + n, -1) for name in wrt}
    by.setdefault("joints", np.zeros((count, 6, 0)))
    regressor = mechanics.dynamics_regressor(joints, velocity, moved)[0] @ directions

    # The free base reacts to a change of forces: its acceleration changes, and the torques with it.
    arm = skew(np.broadcast_to(mount, (count, 3)))
    read = np.broadcast_to(np.eye(6), (count, 6, 6)).copy()
    read[:, :3, 3:] = -arm

    def propagate(change: Array) -> Array:
        gives = -inverse @ change[:, :6]
        return np.concatenate([read @ gives, change[:, 6:] + matrix[:, 6:, :6] @ gives], axis=1)

    rate = twist[:, 3:]
    at_mount = twist[:, :3] + np.cross(rate, mount)
    values = np.concatenate([np.einsum("tij,tj->ti", read, base), torque], axis=1)
    # From the derivative of components to the acceleration of the point.
    values[:, :3] += np.cross(rate, at_mount)
    by_velocity = propagate(by["velocity"])
    # d(omega x u) with u = v + omega x r.
    by_velocity[:, :3, :3] += skew(rate)
    by_velocity[:, :3, 3:6] -= skew(at_mount) + skew(rate) @ arm
    pushed = np.zeros((count, 6 + n, 6))
    # A wrench relieves the forces that the motion needs: minus one.
    pushed[:, :6] = -np.eye(6)
    return ForceReadings(
        values,
        by_velocity[:, :, :6],
        propagate(by["joints"]),
        by_velocity[:, :, 6:],
        propagate(matrix[:, :, 6:]),
        propagate(regressor),
        propagate(pushed),
    )


def find_switch_samples(record: MotionRecord) -> npt.NDArray[np.bool_]:
    """(T,) which samples are near the switching of a thruster."""
    times, edges = record.times, np.array(record.edges)
    inner = edges[(edges > times[0]) & (edges < times[-1])]
    if not np.any(record.wrench) or not inner.size:
        return np.zeros(times.size, dtype=bool)
    step = float(np.median(np.diff(times)))
    past = times[:, None] - inner
    return np.asarray(((past > -1.001 * step) & (past < max(SWITCHING, 2.001 * step))).any(axis=1))
