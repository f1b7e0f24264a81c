"""Readings that no neighbour bears out, found before a fit, because one of them bends it; and those that it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.problem import JointProblem
from spacearm.simulate import Signal
from spacearm.typing import Array

#: How many deviations a reading is from the cubic through its neighbours, and how many such readings there may be.
FAR, MOST = 6.0, 0.05
#: How many deviations the residual of a good reading may be after a fit.
LEFT = 5.0


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
        # four neighbours on both sides; at the ends, those that there are
        place = np.arange(t.size)
        window = np.clip(place - 2, 0, t.size - 5)[:, None] + np.arange(5)
        near = window[window != place[:, None]].reshape(-1, 4)
        gap = t[:, None] - t[near]
        weights = np.stack([
            np.prod(np.delete(gap, i, 1), axis=1) / np.prod(t[near[:, [i]]] - t[np.delete(near, i, 1)], axis=1)
            for i in range(4)
        ], axis=1)  # fmt: skip
        away = np.abs(v - np.sum(weights * v[near], axis=1)) / np.sqrt(1.0 + np.sum(weights**2, axis=1))
        limit = FAR * max(sigma, 1.4826 * float(np.median(away)), 1e-12 * float(np.abs(v).max()))
        peak = np.array([away[max(k - 2, 0) : k + 3].max() for k in range(away.size)])
        far = (away > limit) & (away == peak)
        # the first three see the same five readings: how much the next five see of it tells whose fault it is
        for end, inward in ((0, 1), (-1, -1)):
            trio = end + inward * np.arange(3)
            if far[trio].any():
                share = away[end + 3 * inward] / away[end]
                far[trio] = np.arange(3) == int(share > 0.125) + int(share > 0.45)
        far = kept[far]
        if not far.size:
            break
        gone[far] = True
    found = gone & ~missing
    return found if found.sum() <= MOST * row.size else np.zeros_like(found)


def without_far(model: JointProblem, x: Array) -> tuple[JointProblem, int]:
    """The problem without readings that are far from the fit ``x``, and how many there were; many are no outliers."""
    tests, count = [], 0
    for test, rows in zip(model.tests, model.unweighted(x), strict=True):
        size = np.where(test.present, np.abs(rows), 0.0)
        # channels of a sample share its noise, and a wrong reading moves the next predictions: the largest goes first
        far = (size > LEFT) & (size == size.max(axis=1, keepdims=True))
        count += int(far.sum())
        own = {name: np.where(far[:, k], np.nan, row) for k, (name, row) in enumerate(test.measured.items())}
        tests.append(replace(test, measured=own) if far.any() else test)
    if not count or count > MOST * model.readings:
        return model, 0
    return model.of(tests), count
