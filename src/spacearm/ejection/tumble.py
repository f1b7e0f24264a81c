"""Tumbling of an arm after separation: its angular velocity as one rigid body, independent of the instant.

In space the angular velocity of a rigid body is not constant: it precesses about the angular momentum ``L``, which is.
Its component along ``L`` is constant too, ``w . L / |L| = 2 T / |L|``, and the rest averages out. So the mean over time
is

    w_mean = (L . I^-1 L) / (L . L)  L

with ``I`` about the mass centre, for the present joint positions. It needs no averaging and does not depend on the
instant once the joints have stopped. On an air table it is the angular velocity itself.
"""

from __future__ import annotations

import numpy as np

from spacearm.ejection.rig import Rig
from spacearm.typing import Array


def moment_of_momentum(matrix: Array, velocity: Array) -> tuple[Array, Array]:
    """Angular momentum (..., 3) about the mass centre and inertia (..., 3, 3) about it, both in base axes.

    ``matrix`` (..., 6 + n, 6 + n) is the mass matrix, ``velocity`` (..., 6 + n) the generalised velocity.
    """
    mass = matrix[..., 0, 0]
    # The upper right block is -M [c]x: its entries are the mass centre.
    centre = np.stack([matrix[..., 1, 5], matrix[..., 2, 3], matrix[..., 0, 4]], axis=-1) / mass[..., None]
    momentum = np.einsum("...ij,...j->...i", matrix[..., :6, :], velocity)
    # From the base's origin to the mass centre: L_c = L_0 - c x p, and Steiner's theorem for the inertia.
    angular = momentum[..., 3:] - np.cross(centre, momentum[..., :3])
    square = np.einsum("...i,...j->...ij", centre, centre)
    size = np.trace(square, axis1=-2, axis2=-1)[..., None, None] * np.eye(3)
    inertia = matrix[..., 3:6, 3:6] - mass[..., None, None] * (size - square)
    return angular, inertia


def mean_angular_velocity(rig: Rig, angular: Array, inertia: Array) -> Array:
    """Mean angular velocity (..., 3), rad/s, of a rigid body from momentum and inertia about its mass centre.

    The axes are those of the arguments. On a table only the rotation about its normal is free.
    """
    if rig.table is not None:
        k = "xyz".index(rig.table)
        angular_rate = np.zeros_like(angular)
        angular_rate[..., k] = angular[..., k] / inertia[..., k, k]
        return angular_rate
    rotating = np.einsum("...i,...i->...", angular, np.linalg.solve(inertia, angular[..., None])[..., 0])
    square = np.einsum("...i,...i->...", angular, angular)
    # |w| along L is 2 T / |L|, of an arm at rest nothing: no division by a momentum of zero.
    share = np.divide(rotating, square, out=np.zeros_like(square), where=square > 0.0)
    mean: Array = share[..., None] * angular
    return mean
