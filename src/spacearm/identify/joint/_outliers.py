"""Rejection of outliers: before a fit by comparison with neighbours, and after it by distance from the prediction.

Before a fit, because least squares bends towards a single bad reading; after it, because the model predicts better than
neighbours do and shows smaller errors. Rejected readings become NaN, so that shapes and sample times stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.problem import JointProblem
from spacearm.measure.clean import Mask, find_outliers, row_outliers
from spacearm.simulate import Signal
from spacearm.typing import Array

#: Share of outliers in an encoder's readings above which those at its ends are not trusted.
OFTEN = 0.02


def reject_outliers(test: JointTest) -> tuple[JointTest, int]:
    """The test without the readings that their neighbours do not bear out, and how many these were."""
    found = 0

    def mask_outliers(rows: Mapping[str, Array], sigma: Mapping[str, float]) -> dict[str, Array]:
        nonlocal found
        bad = {name: row_outliers(test.time, row, sigma.get(name, 0.0)) for name, row in rows.items()}
        found += sum(int(one.sum()) for one in bad.values())
        return {name: np.where(bad[name], np.nan, row) for name, row in rows.items()}

    # Root mean square over the samples: one scale for each channel.
    noise = [] if test.noise is None else np.sqrt(np.einsum("tii->i", test.noise) / test.time.size).tolist()
    torques = {joint: np.asarray(row) for joint, row in test.torques.items() if not isinstance(row, Signal)}
    measured = mask_outliers(test.measured, dict(zip(test.measured, noise, strict=False)))
    encoders = mask_outliers(test.encoders, dict.fromkeys(test.encoders, test.encoder_sigma or 0.0))
    encoders = {name: _drop_end_readings(row, test.encoders[name]) for name, row in encoders.items()}
    moved = mask_outliers(torques, dict.fromkeys(torques, test.torque_sigma))
    if not found:
        return test, 0
    return replace(test, measured=measured, encoders=encoders, torques={**test.torques, **moved}), found


def _drop_end_readings(row: Array, read: Array) -> Array:
    """An encoder's row without its first and last reading where many others were outliers.

    Neighbours on one side predict them badly: a bad one may go unseen, and the link's start is counted from the first.
    A value predicted by the neighbours then replaces it, with its uncertainty.
    """
    there = np.isfinite(read)
    if np.sum(there & ~np.isfinite(row)) <= OFTEN * there.sum():
        return row
    found = row.copy()
    found[[0, -1]] = np.nan
    return found


def reject_far_readings(model: JointProblem, x: Array) -> tuple[JointProblem, int]:
    """The problem without readings that are far from the fit ``x``, and how many there were."""
    count = 0
    for k, test in enumerate(model.tests):
        present = np.asarray(test.present, dtype=bool)
        # Repeated with the rejected readings removed: one large outlier pulls the innovations of its neighbours with
        # it.
        far = find_outliers(partial(_deviations, model, x, k, present), present, adapt=True)
        count += int(far.sum())
        model = model.without_readings(k, far, x)
    return model, count


def _deviations(model: JointProblem, x: Array, test: int, present: Mask, kept: Mask) -> Array:
    """White residuals (T, m) of a test's readings that count; those that do not are not predicted."""
    rows = model.without_readings(test, present & ~kept, x).compute_residuals(x)[test]
    return np.where(kept, np.abs(rows), np.inf)
