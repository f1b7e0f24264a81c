"""Sensitivity as in Sec. 5.6: how much momentum changes with each inertia parameter, and its bounds.

The paper's K1 ... K18 (Eqs. 68 to 75) are entries of the momentum regressor in world axes: dP/dm_b is the velocity of
the body, dL/dI_b turns its angular velocity. Here they are taken for every body of any robot, over a whole record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.equations import Equations
from spacearm.identify.inertia.parameters import Label, labels
from spacearm.identify.inertia.record import Record
from spacearm.model import Robot
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Largest size over the record of the derivative of (P, L) by every linear parameter, (6, 10(n + 1)).

    ``floor`` (10(n + 1)): the change of a parameter whose effect is as large as the noise of one sample; infinite where
    there is no effect.
    """

    labels: tuple[Label, ...]
    largest: Array
    floor: Array
    rate_bound: float


def sensitivity(robot: Robot, record: Record, noise: Array | None = None) -> Sensitivity:
    """Of a record; ``noise`` (6,) is the deviation of the momentum of one sample, for the floor."""
    linear = Equations(robot, ("momentum",)).linear(record)
    largest = np.abs(linear.matrix).max(axis=0)
    scale = np.ones(6) if noise is None else noise
    with np.errstate(divide="ignore"):
        floor = 1.0 / np.max(largest / scale[:, None], axis=0)
    spin = np.linalg.norm(record.channel("rate"), axis=-1).max()
    return Sensitivity(labels(robot), largest, floor, float(spin))


def tensor_coefficients(rotation: Array, spin: Array) -> Array:
    """K1 ... K18 of Eq. 72 for rotation matrices (..., 3, 3) and world angular velocities (..., 3): (..., 3, 6).

    Columns are Ixx, Ixy, Ixz, Iyy, Iyz, Izz in the paper's order.
    """
    a, s = rotation, np.einsum("...ji,...j->...i", rotation, spin)
    columns = [
        a[..., :, 0] * s[..., None, 0],
        a[..., :, 1] * s[..., None, 0] + a[..., :, 0] * s[..., None, 1],
        a[..., :, 2] * s[..., None, 0] + a[..., :, 0] * s[..., None, 2],
        a[..., :, 1] * s[..., None, 1],
        a[..., :, 2] * s[..., None, 1] + a[..., :, 1] * s[..., None, 2],
        a[..., :, 2] * s[..., None, 2],
    ]
    return np.stack(columns, axis=-1)
