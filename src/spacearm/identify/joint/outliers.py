"""Readings that no neighbour bears out: found before a fit, because one of them bends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spacearm.identify.joint.measured import JointTest
from spacearm.simulate import Signal
from spacearm.typing import Array

#: How many deviations a reading is from the cubic through its neighbours, and how many such readings there may be.
FAR, MOST = 8.0, 0.05


def without_outliers(test: JointTest) -> tuple[JointTest, int]:
    """The test with outliers taken out of what is measured and filled in along inputs; and how many there were."""
    from scipy.interpolate import CubicSpline

    found: dict[str, int] = {}

    def cleaned(rows: Mapping[str, Array], sigma: Mapping[str, float], tail: str, fill: bool) -> dict[str, Array]:
        result = {}
        for name, row in rows.items():
            far = outliers(test.time, row, sigma.get(name, 0.0))
            found[name + tail] = int(far.sum())
            good = np.isfinite(row) & ~far
            result[name] = np.where(far, CubicSpline(test.time[good], row[good])(test.time) if fill else np.nan, row)
        return result

    noise = [] if test.noise is None else np.sqrt(np.einsum("tii->i", test.noise) / test.time.size).tolist()
    torques = {joint: np.asarray(row) for joint, row in test.torques.items() if not isinstance(row, Signal)}
    measured = cleaned(test.measured, dict(zip(test.measured, noise, strict=False)), "", fill=False)
    encoders = cleaned(test.encoders, dict.fromkeys(test.encoders, test.encoder_sigma or 0.0), "", fill=True)
    moved = cleaned(torques, dict.fromkeys(torques, test.torque_sigma), ".torque", fill=True)
    if not any(found.values()):
        return test, 0
    cut = replace(test, measured=measured, encoders=encoders, torques={**test.torques, **moved})
    return cut, sum(found.values())


def outliers(time: Array, row: Array, sigma: float) -> npt.NDArray[np.bool_]:
    """Which readings are far from the cubic through their four neighbours, the farthest of a neighbourhood first.

    Far is more than ``FAR`` times the reading's and the cubic's noise together, or what is usual for this row if that
    is more. Where there are many, they are no outliers.
    """
    gone = ~np.isfinite(row)
    missing = gone.copy()
    for _ in range(20):
        kept = np.flatnonzero(~gone)
        if kept.size < 9:
            break
        t, v = time[kept], row[kept]
        near = [t[i : t.size - 4 + i] for i in (0, 1, 3, 4)]
        here, total, spread = t[2:-2], np.zeros(t.size - 4), np.ones(t.size - 4)
        for i, (place, shift) in enumerate(zip(near, (0, 1, 3, 4), strict=True)):
            others = [other for k, other in enumerate(near) if k != i]
            weight = np.prod([(here - other) / (place - other) for other in others], axis=0)
            total, spread = total + weight * v[shift : v.size - 4 + shift], spread + weight**2
        away = np.abs(v[2:-2] - total) / np.sqrt(spread)
        limit = FAR * max(sigma, 1.4826 * float(np.median(away)), 1e-12 * float(np.abs(v).max()))
        peak = np.array([away[max(k - 2, 0) : k + 3].max() for k in range(away.size)])
        far = kept[2:-2][(away > limit) & (away == peak)]
        if not far.size:
            break
        gone[far] = True
    found = gone & ~missing
    return found if found.sum() <= MOST * row.size else np.zeros_like(found)
