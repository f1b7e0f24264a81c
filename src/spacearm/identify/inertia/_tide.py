"""What remains of gravity near a point on a circular orbit, as a wrench on the whole robot, and its derivatives.

The wrench is that of the composite body (all joints as they are): its mass m, first moment and inertia about the base's
origin are the base block of the mass matrix. With K the gradient of the field and S the second moment of mass about the
world's origin, the force is K times the first moment and the moment the axial vector of K S. World axes do not rotate.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from spacearm.engine.mechanics import Mechanics
from spacearm.mechanics.fields import tidal_wrench
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.spatial import SX
from spacearm.model.parts import skew
from spacearm.typing import Array


def compute_tide(matrix: SX, base: SymbolicPose, radial: SX) -> SX:
    """Force and moment (6) about the world's origin, from the base block (6, 6) of the mass matrix.

    ``radial`` (3): mean motion, rad/s, times the direction away from the Earth.
    """
    # Of skew(m c), the block of the angular by the linear velocity.
    first, tensor = ca.vertcat(matrix[5, 1], matrix[3, 2], matrix[4, 0]), matrix[3:, 3:]
    moments = [tensor[i, i] for i in range(3)] + [tensor[0, 1], tensor[0, 2], tensor[1, 2]]
    wrench = tidal_wrench(base, ca.vertcat(matrix[0, 0], first, *moments), radial)
    return ca.vertcat(wrench[:3], wrench[3:] + ca.cross(base.origin, wrench[:3]))


@dataclass(frozen=True, eq=False)
class TideDerivatives:
    """Derivatives of the wrench at each node: by position and rotation of the base, and by changes of the inertias."""

    by_pose: Array  # (T, 6, 6)
    by_inertia: Array  # (T, 6, d)


def differentiate_tide(
    mechanics: Mechanics, joints: Array, matrix: Array, states: Array, rotation: Array, radial: Array, directions: Array
) -> TideDerivatives:
    """Derivatives for composite bodies with these mass matrices, in these states.

    Args:
        joints: (T, n).
        matrix: (T, 6 + n, 6 + n).
        states, rotation: (T, 13) and (T, 3, 3) of the base.
        radial: (T, 3) mean motion times the direction away from the Earth.
        directions: (10 (n + 1), d) changes of the inertias.
    """
    # Linear in the place: the moment of the field takes the second moments of mass, which the inertia tensor has.
    field = 3.0 * radial[:, :, None] * radial[:, None, :] - np.sum(radial**2, axis=1)[:, None, None] * np.eye(3)
    mass, first, second = _moments(matrix)
    place, back = states[:, :3], np.swapaxes(rotation, 1, 2)
    by_pose = np.zeros((*matrix.shape[:1], 6, 6))
    moment_arm = np.einsum("tij,tj->ti", rotation, first)
    for k in range(3):
        # Unit shifts and unit rotations (base axes), one at a time: six columns at all nodes at once.
        step = np.broadcast_to(np.eye(3)[k], place.shape)
        shifted = step[:, :, None] * (mass[:, None] * place + moment_arm)[:, None, :]
        by_pose[:, :, k] = _wrench(field, mass[:, None] * step, shifted + np.swapaxes(shifted, 1, 2))
        rotated = np.einsum("tij,tj->ti", rotation, np.cross(step, first))
        across = rotated[:, :, None] * place[:, None, :]
        spread = rotation @ (skew(step) @ second - second @ skew(step)) @ back
        by_pose[:, :, 3 + k] = _wrench(field, rotated, across + np.swapaxes(across, 1, 2) + spread)
    none = mechanics.mass_matrix(joints, inertia=np.zeros((*joints.shape[:-1], directions.shape[0] // 10, 10)))
    by_inertia = np.zeros((*matrix.shape[:1], 6, directions.shape[1]))
    for k, direction in enumerate(directions.T):
        own = np.broadcast_to(direction.reshape(-1, 10), (*joints.shape[:-1], direction.size // 10, 10))
        # Linear in the inertias, but for the rotors, which have theirs.
        more, more_first, more_second = _moments(mechanics.mass_matrix(joints, inertia=own) - none)
        arm = np.einsum("tij,tj->ti", rotation, more_first)
        across = arm[:, :, None] * place[:, None, :]
        about = (
            more[:, None, None] * place[:, :, None] * place[:, None, :]
            + across
            + np.swapaxes(across, 1, 2)
            + rotation @ more_second @ back
        )
        by_inertia[:, :, k] = _wrench(field, more[:, None] * place + arm, about)
    return TideDerivatives(by_pose, by_inertia)


def _moments(matrix: Array) -> tuple[Array, Array, Array]:
    """Mass (T,), first moment (T, 3) and second moment (T, 3, 3) of mass about the base's origin, base axes."""
    tensor = matrix[:, 3:6, 3:6]
    first = np.stack([matrix[:, 5, 1], matrix[:, 3, 2], matrix[:, 4, 0]], axis=1)
    half = 0.5 * np.trace(tensor, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    return matrix[:, 0, 0], first, half - tensor


def _wrench(field: Array, first: Array, second: Array) -> Array:
    """Force and moment (T, 6) by first and second moments of mass about the world's origin."""
    spread = field @ second
    axial = np.stack([spread[:, i, j] - spread[:, j, i] for i, j in ((2, 1), (0, 2), (1, 0))], axis=1)
    return np.concatenate([np.einsum("tij,tj->ti", field, first), axial], axis=1)
