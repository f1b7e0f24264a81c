"""The satellite after the arm has left it: a rigid body on which nothing acts, many at once.

One that is infinitely heavy goes on turning about its pivot as it did.
"""

from __future__ import annotations

import numpy as np

from spacearm.ejection.rig import Rig
from spacearm.model.layout import QUATERNION
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: Largest turn in one step of the attitude's integration, rad: fourth order, so errors stay below 1e-8 rad a turn.
_TURN = 0.02


def coast(rig: Rig, states: Array, times: Array) -> Array:
    """States (B, T, 13) of the satellite at times (s, rising) after separation in ``states`` (B, 13)."""
    inertia = rig.device.satellite
    if inertia is None:
        return _turn_on(rig, states, times)
    centre, tensor = inertia.com, inertia.tensor
    inverse = np.linalg.inv(tensor) if rig.table is None else np.zeros((3, 3))
    quaternion, spin = states[:, QUATERNION].copy(), states[:, 10:13].copy()
    turn = rotation_matrices(quaternion)
    # The mass centre moves straight; the frame's origin follows it.
    start = states[:, :3] + np.einsum("bij,j->bi", turn, centre)
    speed = np.einsum("bij,bj->bi", turn, states[:, 7:10] + np.cross(spin, centre))

    def rate(q: Array, w: Array) -> tuple[Array, Array]:
        scalar = -0.5 * np.sum(q[:, 1:] * w, axis=1, keepdims=True)
        vector = 0.5 * (q[:, :1] * w + np.cross(q[:, 1:], w))
        # On a table the spin about its normal is constant: what would tilt the axis is held.
        return np.concatenate([scalar, vector], axis=1), -np.cross(w, w @ tensor) @ inverse

    kept, now = [], 0.0
    for time in times:
        span = time - now
        steps = max(1, int(np.ceil(span * np.abs(spin).max(initial=0.0) / _TURN)))
        h = span / steps
        for _ in range(steps):
            a = rate(quaternion, spin)
            b = rate(quaternion + 0.5 * h * a[0], spin + 0.5 * h * a[1])
            c = rate(quaternion + 0.5 * h * b[0], spin + 0.5 * h * b[1])
            d = rate(quaternion + h * c[0], spin + h * c[1])
            quaternion = quaternion + h / 6.0 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
            quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
            spin = spin + h / 6.0 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        now = float(time)
        turn = rotation_matrices(quaternion)
        place = start + speed * now - np.einsum("bij,j->bi", turn, centre)
        linear = np.einsum("bji,bj->bi", turn, speed) - np.cross(spin, centre)
        kept.append(np.concatenate([place, quaternion, linear, spin], axis=1))
    return np.stack(kept, axis=1) if kept else np.zeros((len(states), 0, 13))


def _turn_on(rig: Rig, states: Array, times: Array) -> Array:
    """The same for a satellite that keeps its angular velocity: a turn about a fixed axis through the pivot."""
    pivot = np.zeros(3) if rig.device.pivot is None else rig.device.pivot
    spin, first = states[:, None, 10:13], states[:, None, QUATERNION]
    size = np.linalg.norm(spin, axis=-1, keepdims=True)
    half = 0.5 * size * times[:, None]
    scalar, vector = np.cos(half), np.sin(half) * spin / np.where(size > 0.0, size, 1.0)
    w, v = first[..., :1], first[..., 1:]
    mixed = np.sum(v * vector, axis=-1, keepdims=True)
    quaternion = np.concatenate([w * scalar - mixed, w * vector + scalar * v + np.cross(v, vector)], axis=-1)
    still = states[:, None, :3] + np.einsum("btij,j->bti", rotation_matrices(first), pivot)
    place = still - np.einsum("btij,j->bti", rotation_matrices(quaternion), pivot)
    velocity = np.broadcast_to(states[:, None, 7:13], (*quaternion.shape[:2], 6))
    return np.concatenate([place, quaternion, velocity], axis=-1)
