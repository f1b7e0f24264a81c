"""A satellite that tumbles under thruster pulses, its equations solved by SciPy: data that spacearm did not make."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from spacearm.identify.inertia import MotionRecord
from spacearm.model import Body, Inertia, Robot
from spacearm.typing import Array

MASS, CENTRE = 120.0, np.array([0.05, -0.1, 0.08])
TENSOR = np.array([[60.0, 3.0, -2.0], [3.0, 45.0, 4.0], [-2.0, 4.0, 30.0]])
NOISE = {"position": 0.01, "attitude": 2e-3, "velocity": 0.01, "rate": 5e-3}
#: Start, duration (s), force (N) and point of attack (body axes).
PULSES = [
    (10.0 + 20.0 * k, 4.0, 5.0 * np.eye(3)[k % 3] * (-1.0) ** (k // 3), np.array([0.5, -0.4, 0.3])[[k % 3, 2, 0]])
    for k in range(14)
]


def satellite(factor: float = 1.0) -> Robot:
    """The satellite, or a drawing of it wrong by this factor, its mass centre at the origin."""
    centre, tensor = (CENTRE, TENSOR) if factor == 1.0 else (np.zeros(3), np.diag(np.diag(TENSOR)))
    return Robot("satellite", [Body("satellite", Inertia(factor * MASS, centre, factor * tensor))], [])


def tumbling(
    duration: float, step: float, seed: int, angular_rate: tuple[float, float, float] = (0.25, 0.3, -0.2)
) -> MotionRecord:
    """Readings of position, attitude, velocity and rate with :data:`NOISE`."""
    times, pulses = np.arange(round(duration / step) + 1) * step, [p for p in PULSES if p[0] + p[1] < duration]
    edges = sorted({0.0, duration, *(s for s, *_ in pulses), *(s + d for s, d, *_ in pulses)})
    y, states = (
        np.array([0, 0, 0, 0, 0, 0, 1, 0.01, -0.02, 0.01, *angular_rate], dtype=float),
        np.empty((times.size, 13)),
    )
    for low, high in pairwise(edges):
        on = [(force, np.cross(point - CENTRE, force)) for s, d, force, point in pulses if s <= low < s + d]
        force, moment = (np.sum([pair[i] for pair in on], axis=0) if on else np.zeros(3) for i in (0, 1))

        def rate(_: float, y: Array, force: Array = force, moment: Array = moment) -> Array:
            """Mass centre, quaternion (scalar last), velocity (world), rate (body)."""
            q, w = y[3:7], y[10:]
            turn = 0.5 * np.append(q[3] * w + np.cross(q[:3], w), -q[:3] @ w)
            spun = np.linalg.solve(TENSOR, moment - np.cross(w, TENSOR @ w))
            return np.concatenate([y[7:10], turn, Rotation.from_quat(q).apply(force) / MASS, spun])

        here = (times >= low - 1e-9) & (times <= high + 1e-9)
        asked = np.append(np.clip(times[here], low, high), high)
        done = solve_ivp(rate, (low, high), y, "DOP853", np.unique(asked), rtol=1e-10, atol=1e-12)
        states[here], y = done.y.T[: here.sum()], done.y[:, -1]
    rotation = Rotation.from_quat(states[:, 3:7])
    readings = {
        "position": states[:, :3] - rotation.apply(CENTRE),
        "attitude": rotation.as_quat()[:, [3, 0, 1, 2]],
        "velocity": states[:, 7:10] - rotation.apply(np.cross(states[:, 10:], CENTRE)),
        "rate": states[:, 10:],
    }
    wrench = np.zeros((times.size, 6))
    for start, length, force, point in pulses:
        on_now = (times + 1e-9 >= start) & (times + 1e-9 < start + length)
        wrench[on_now] += np.concatenate([force, np.cross(point, force)])
    return MotionRecord("tumble", times, readings, np.zeros(3), wrench, tuple(edges), None, (), NOISE).add_noise(seed)
