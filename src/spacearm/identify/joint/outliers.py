"""Readings that no neighbour bears out, found before a fit, because one of them bends it; and those that it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.neighbours import outliers
from spacearm.simulate import Signal
from spacearm.typing import Array

#: How many deviations the residual of a good reading may be after a fit, and the largest share that may be more: a
#: wrong model leaves many.
LEFT, FEW = 5.0, 0.05
#: Share of outliers in an encoder's readings above which those at its ends are not trusted.
OFTEN = 0.02


def without_outliers(test: JointTest) -> tuple[JointTest, int]:
    """The test without the readings that their neighbours do not bear out, and how many these were."""
    found = 0

    def kept(rows: Mapping[str, Array], sigma: Mapping[str, float]) -> dict[str, Array]:
        nonlocal found
        bad = {name: outliers(test.time, row, sigma.get(name, 0.0)) for name, row in rows.items()}
        found += sum(int(one.sum()) for one in bad.values())
        return {name: np.where(bad[name], np.nan, row) for name, row in rows.items()}

    noise = [] if test.noise is None else np.sqrt(np.einsum("tii->i", test.noise) / test.time.size).tolist()
    torques = {joint: np.asarray(row) for joint, row in test.torques.items() if not isinstance(row, Signal)}
    measured = kept(test.measured, dict(zip(test.measured, noise, strict=False)))
    encoders = kept(test.encoders, dict.fromkeys(test.encoders, test.encoder_sigma or 0.0))
    encoders = {name: _without_ends(row, test.encoders[name]) for name, row in encoders.items()}
    moved = kept(torques, dict.fromkeys(torques, test.torque_sigma))
    if not found:
        return test, 0
    return replace(test, measured=measured, encoders=encoders, torques={**test.torques, **moved}), found


def _without_ends(row: Array, read: Array) -> Array:
    """An encoder's row without its first and last reading where many others were outliers.

    Neighbours on one side tell little of them: a bad one may go unseen, and the link's start is counted from the first.
    What its neighbours say then stands for it, with their uncertainty.
    """
    there = np.isfinite(read)
    if np.sum(there & ~np.isfinite(row)) <= OFTEN * there.sum():
        return row
    found = row.copy()
    found[[0, -1]] = np.nan
    return found


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
    if not count or count > FEW * model.readings:
        return model, 0
    return model.of(tests), count
