"""Free rotation of bodies with a wheel, of many bodies at once.

With the tensor I of body and wheel about the common mass centre, the wheel's axial momentum h (relative to the body)
about its axis e, and rates w in body axes:

    L = I w + h e,        dL/dt = -w x L - |w| D w.

The last term is the drag of the air on a body that turns, quadratic in the rate, with a coefficient for each axis. The
wheel's speed is known, so its motor torque need not be: L contains it.
"""

from __future__ import annotations

import numpy as np

from spacearm.identify.free_flight.flights import SUBSTEPS
from spacearm.typing import Array


def predict_rates(tensor: Array, axis: Array, drag: Array, start: Array, wheel: Array, step: float) -> Array:
    """Rates (B, T, 3) rad/s of B bodies.

    Args:
        tensor: (B, 3, 3) kg m2.
        axis: (B, 3) unit vector of the wheel.
        drag: (B, 3) N m s2.
        start: (B, 3) rad/s.
        wheel: (B, 2 * SUBSTEPS * (T - 1) + 1) momentum of the wheel at the samples and between, N m s.
        step: s between samples.
    """
    # Lanes last: each operation then runs over contiguous numbers. Columns (3, 3, B) of the inverse tensor.
    inverse = np.ascontiguousarray(np.moveaxis(np.linalg.inv(tensor), 0, -1))
    about, air = np.ascontiguousarray(axis.T), np.ascontiguousarray(drag.T)
    speeds = np.ascontiguousarray(wheel.T)
    # Angular momentum and not the rate is integrated: its equation has no derivative of the wheel's speed in it.
    momentum = np.einsum("bij,bj->ib", tensor, start) + speeds[0] * about

    def angular_velocity(at: Array, h: Array) -> Array:
        x, y, z = at - h * about
        return np.asarray(inverse[:, 0] * x + inverse[:, 1] * y + inverse[:, 2] * z)

    def slope(at: Array, h: Array) -> Array:
        w = angular_velocity(at, h)
        (x, y, z), (p, q, r) = w, at
        # Drag of turbulent air goes with the square of the rate, against it; each axis has its own coefficient.
        found = -np.sqrt(x * x + y * y + z * z) * air * w
        # Euler's equation in body axes: L' = L x w + drag.
        found[0] += q * z - r * y
        found[1] += r * x - p * z
        found[2] += p * y - q * x
        return np.asarray(found)

    own, count = step / SUBSTEPS, (wheel.shape[1] - 1) // (2 * SUBSTEPS) + 1
    found = np.empty((count, 3, len(tensor)))
    found[0] = start.T
    for k in range(count - 1):
        for i in range(2 * SUBSTEPS * k, 2 * SUBSTEPS * (k + 1), 2):
            a = slope(momentum, speeds[i])
            b = slope(momentum + 0.5 * own * a, speeds[i + 1])
            c = slope(momentum + 0.5 * own * b, speeds[i + 1])
            d = slope(momentum + own * c, speeds[i + 2])
            # The classical Runge-Kutta method with a fixed step: equal operations for all lanes, and a smooth
            # dependence on the parameters, which finite differences of the fit need.
            momentum = momentum + own / 6.0 * (a + 2.0 * (b + c) + d)
        found[k + 1] = angular_velocity(momentum, speeds[2 * SUBSTEPS * (k + 1)])
    return np.ascontiguousarray(np.moveaxis(found, -1, 0))


def regress_tensor(rate: Array, wheel: Array, axis: Array, step: float) -> Array:
    """Tensor (6,) as xx, yy, zz, xy, xz, yz by linear least squares on the equations of motion themselves: a start.

    Samples (T, 3) of the rate and (T,) of the wheel's momentum; derivatives are differences.
    """
    # I w' + w x I w = -(h' e + w x h e), linear in I. Noise in the derivatives biases it towards zero: good for a start
    # only.
    slope, torque = np.gradient(rate, step, axis=0), np.gradient(wheel, step)
    across = np.cross(rate, wheel[:, None] * axis) + torque[:, None] * axis
    rows = tensor_regressor(slope) + np.cross(rate[:, None, :], np.swapaxes(tensor_regressor(rate), 1, 2)).swapaxes(
        1, 2
    )
    return np.asarray(np.linalg.lstsq(rows.reshape(-1, 6), -across.ravel(), rcond=None)[0])


def tensor_regressor(rate: Array) -> Array:
    """Matrices (..., 3, 6) that multiply the six numbers of a tensor I to I w."""
    x, y, z = np.moveaxis(rate, -1, 0)
    zero = np.zeros_like(x)
    rows = [[x, zero, zero, y, z, zero], [zero, y, zero, x, zero, z], [zero, zero, z, zero, x, y]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def symmetric(numbers: Array) -> Array:
    """Matrices (..., 3, 3) of xx, yy, zz, xy, xz, yz (..., 6)."""
    place = np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])
    return np.asarray(numbers[..., place])


def six_numbers(matrix: Array) -> Array:
    """The inverse of :func:`symmetric`."""
    return np.asarray(matrix[..., [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])


def point_tensor(mass: float, place: Array) -> Array:
    """Tensor (3, 3) of a point mass."""
    return np.asarray(mass * (place @ place * np.eye(3) - np.outer(place, place)))
