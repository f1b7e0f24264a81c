"""The paper's numbers from ``printed.toml``, and what had to be assumed in their place where it gives none."""

from __future__ import annotations

import numpy as np

from spacearm.mechanics.sensors import BasePosition, Encoder, FrameAttitude, FramePosition, Sensor, StarTracker
from spacearm.papers.agreement import read_paper_file
from spacearm.simulate import Signal
from spacearm.typing import Array

NAME = "wojtunik2023"
PRINTED, ASSUMED = read_paper_file(NAME), read_paper_file(NAME)["assumed"]
DEGREE = np.pi / 180.0
UNITS = {"motor_inertia": "kg m2", "stiffness": "N m/rad", "damping": "N m s/rad", "offset": "deg"}
#: Tests 1 to 5, and their average.
TABLE2: list[dict[str, float]] = [
    dict(zip(PRINTED["table2"], row, strict=True)) for row in zip(*PRINTED["table2"].values(), strict=True)
]
AVERAGE: dict[str, float] = PRINTED["average"]
DEVIATION: dict[str, float] = PRINTED["deviation"]
#: Start offsets, deg; those that the paper states, by test.
OFFSETS: list[float] = ASSUMED["offsets"]
STATED_OFFSETS: dict[int, float] = {int(test): value for test, value in PRINTED["stated_offsets"].items()}
#: The motion: where every joint starts (deg), how it accelerates (deg/s2), for how long (s), sampled at (Hz).
START: dict[str, float] = PRINTED["motion"]["start"]
ACCELERATION: dict[str, float] = ASSUMED["acceleration"]
DURATION: float = PRINTED["motion"]["duration"]
RATE: float = ASSUMED["rate"]
NOISE: dict[str, float] = ASSUMED["noise"]
SENSORS: list[Sensor] = [
    Encoder(noise=NOISE["encoder"]),
    BasePosition(noise=NOISE["base_position"]),
    StarTracker(noise=NOISE["base_attitude"]),
    FramePosition(frame="hand", noise=NOISE["hand_position"]),
    FrameAttitude(frame="hand", noise=NOISE["hand_attitude"]),
]
#: One start for all fits that are given no other.
NEUTRAL: dict[str, float] = ASSUMED["neutral"]
SEED = 2023
#: Within which the searches stay: the paper's bounds of the first three and of the offset, and of laws beyond it.
BOUNDS: dict[str, tuple[float, float]] = {name: (low, high) for name, (low, high) in ASSUMED["bounds"].items()}


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
