"""The paper's numbers, and what had to be assumed in their place where it gives none."""

from __future__ import annotations

import numpy as np

from spacearm.identify.joint import SensorNoise
from spacearm.simulate import Signal
from spacearm.typing import Array

DEGREE = np.pi / 180.0

#: Table 2: motor inertia (kg m2), stiffness (N m/rad), damping (N m s/rad; printed as kg m/s) of tests 1 to 5.
TABLE2 = (
    {"motor_inertia": 6.9, "stiffness": 12.8, "damping": 1.3},
    {"motor_inertia": 3.3, "stiffness": 5.1, "damping": 0.4},
    {"motor_inertia": 5.6, "stiffness": 9.2, "damping": 0.5},
    {"motor_inertia": 7.6, "stiffness": 5.1, "damping": 0.0},
    {"motor_inertia": 4.5, "stiffness": 8.3, "damping": 0.1},
)
AVERAGE = {"motor_inertia": 5.6, "stiffness": 8.1, "damping": 0.5}
DEVIATION = {"motor_inertia": 1.8, "stiffness": 3.2, "damping": 0.5}
#: Table 1, kg m2; and the compliant component's design value, Sec. 5, N m/rad.
LINK_INERTIA = (0.0637, 0.0635, 0.0515)
CAD_STIFFNESS = 5.47
UNITS = {"motor_inertia": "kg m2", "stiffness": "N m/rad", "damping": "N m s/rad", "offset": "deg"}

#: Start offsets, deg. Sec. 5 states those of tests 2 and 3; Table 3 is lost, so the others are assumed.
OFFSETS = (1.0, 2.8, -0.2, -0.8, 0.5)
STATED_OFFSETS = {2: 2.8, 3: -0.2}

#: Sec. 3.2, deg, and the accelerations that the paper does not state, deg/s2: every joint bends further.
START = {"joint1.motor": 7.5, "joint2": -15.0, "joint3": -22.5}
ACCELERATION = {"joint1.motor": 0.6, "joint2": -0.6, "joint3": -0.6}
DURATION = 10.0  # s, Sec. 3.2
RATE = 50.0  # Hz, assumed

#: Assumed: the paper says only that there is noise.
NOISE = SensorNoise(encoder=1e-4, base_position=5e-4, base_attitude=1e-3, hand_position=5e-4, hand_attitude=1e-3)

#: One start for all fits that are not told more; well inside the paper's bounds.
NEUTRAL = {"motor_inertia": 5.0, "stiffness": 10.0, "damping": 0.5}
SEED = 2023


def times() -> Array:
    """Sample times, s."""
    return np.arange(int(DURATION * RATE) + 1) / RATE


def paths(acceleration: dict[str, float] | None = None) -> dict[str, Signal]:
    """Joint to path: constant acceleration from rest."""
    given = ACCELERATION if acceleration is None else acceleration
    return {
        joint: Signal(np.array([0.0, DURATION]), np.array([[START[joint]], [0.0], [0.5 * given[joint]]]) * DEGREE)
        for joint in START
    }


def motor_matrix(inertias: Array) -> Array:
    """J of Eqs. 17 to 20, order (q0, q1 ... qn, qm1 ... qmn), kg m2."""
    n = inertias.size
    a, b = np.zeros((n, n)), np.zeros((n, n))
    for row in range(n):
        for column in range(n):
            a[row, column] = inertias[max(row, column) :].sum()  # Eq. 18
            b[row, column] = inertias[column] if column >= row else 0.0  # Eq. 19
    full = np.zeros((1 + 2 * n, 1 + 2 * n))
    full[:n, :n], full[:n, n + 1 :] = a, b
    full[n + 1 :, :n], full[n + 1 :, n + 1 :] = b.T, np.diag(inertias)  # Eq. 20
    return full
