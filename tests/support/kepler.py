"""The plane two-body problem in closed form, and orders of convergence."""

from __future__ import annotations

import numpy as np

ECCENTRICITY = 0.3


def kepler(time: float) -> np.ndarray:
    """Exact state of a unit orbit of this eccentricity, from its periapsis."""
    e = ECCENTRICITY
    anomaly = time
    for _ in range(60):
        anomaly -= (anomaly - e * np.sin(anomaly) - time) / (1 - e * np.cos(anomaly))
    c, s, b = np.cos(anomaly), np.sin(anomaly), np.sqrt(1 - e * e)
    rate = 1 / (1 - e * c)
    return np.array([c - e, b * s, -s * rate, b * c * rate])


def order(errors: list[float]) -> np.ndarray:
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
