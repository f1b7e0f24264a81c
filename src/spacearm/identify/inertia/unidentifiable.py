"""Directions that noisy data do not show: noise makes every regressor look complete.

A motion that does not excite a direction d of the base parameters leaves ``M d = 0``. With noise in the readings
``M d`` is noise, and its squares add up to an information that is not there: without forces the equations then fit best
by bodies without any mass. How much of it noise alone makes is known beforehand, C = sum (dM/dy s)^T W (dM/dy s) with
the readings' deviations s; a direction counts as seen only when the data hold clearly more.
"""

from __future__ import annotations

import numpy as np

from spacearm.identify.inertia.information import ROUNDING
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.task import Task
from spacearm.identify.inertia.weights import own_whitener
from spacearm.typing import Array

#: So many samples of a record are enough to judge.
SAMPLES = 40
#: Information must exceed the largest that pure noise gives by this factor.
MARGIN = 1.5


def scale_free(task: Task) -> bool:
    """Whether nothing known acts: then all inertias may be multiplied by one factor, and no data tell it."""
    return not any(np.any(task.equations.linear(_few(record)).known) for record in task.records)


def gauge(task: Task, values: Array) -> Array:
    """The direction (..., r, 1 or 0) of all values together, in typical sizes, where the data do not tell the scale."""
    scaled = values / task.sizes
    if not scale_free(task):
        return np.zeros((*scaled.shape, 0))
    return np.asarray(scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))[..., None]


def hidden(task: Task, known: Array, worst: float = np.inf) -> Array:
    """Orthonormal directions (r, k) of the base parameters, in typical sizes, that the records do not show.

    Of repetitions the first is judged: they differ by noise only.

    Args:
        known: (r, j), orthonormal: directions that are known to be hidden, and left out here.
        worst: a direction with a larger deviation than so many typical sizes counts as hidden as well.
    """
    from scipy.linalg import eigh

    others = complement(known)
    rank = others.shape[1]
    seen, noise, count = np.zeros((rank, rank)), np.zeros((rank, rank)), 0
    for i, record in enumerate(task.records):
        few = _few(record)
        own, spurious = _of_record(task, few, i in task.unknown_momenta)
        whole = record.times.size / few.times.size
        seen, noise = seen + whole * (others.T @ own @ others), noise + whole * (others.T @ spurious @ others)
        count += few.times.size
    largest = float(np.linalg.eigvalsh(seen)[-1])
    if not largest > 0:
        return others
    # the largest eigenvalue of a noise covariance from so many samples (V. Marchenko, L. Pastur 1967)
    edge = MARGIN * (1.0 + np.sqrt(rank / count)) ** 2
    values, vectors = eigh(seen, edge * noise + (ROUNDING * largest + worst**-2) * np.eye(rank))
    basis, _ = np.linalg.qr(vectors[:, values < 1.0])
    return np.asarray(others @ basis)


def complement(directions: Array) -> Array:
    """Orthonormal complement (..., r, r - k) of orthonormal directions (..., r, k)."""
    rank, count = directions.shape[-2:]
    if not count:
        return np.broadcast_to(np.eye(rank), (*directions.shape[:-1], rank))
    q, _ = np.linalg.qr(directions, mode="complete")
    return np.asarray(q[..., count:])


def without(information: Array, directions: Array, sizes: Array) -> Array:
    """Information (..., r, r) that knows nothing along hidden directions (..., r, k), given in typical sizes.

    What the data do know must not depend on what the hidden directions were held at: a hidden direction takes along
    those changes of the others that keep the fit.
    """
    scaled = information * sizes[:, None] * sizes
    basis, _ = np.linalg.qr(directions)
    shown = complement(basis)
    if not shown.shape[-1]:
        return np.zeros_like(scaled)
    turned = np.swapaxes(shown, -1, -2)
    flat = basis - shown @ np.linalg.solve(turned @ scaled @ shown, turned @ scaled @ basis)
    keep = np.eye(sizes.size) - flat @ np.swapaxes(basis, -1, -2)
    return np.asarray(np.swapaxes(keep, -1, -2) @ scaled @ keep / sizes[:, None] / sizes)


def _few(record: Record) -> Record:
    while record.batch:
        record = record.picked(0)
    return record.thinned(-(-record.times.size // SAMPLES))


def _of_record(task: Task, record: Record, free_momentum: bool) -> tuple[Array, Array]:
    """Information of a record about scaled base parameters, and what noise alone would make of it: (r, r) each."""
    equations, lift, sizes = task.equations, task.base_parameters.lift, task.sizes
    inertia, sigma = task.robot.inertia_parameters.ravel(), task.deviations(record)
    white = own_whitener(equations.slopes(record, inertia) * sigma)
    linear = equations.linear(record)
    rank = sizes.size
    rows = (white @ (linear.matrix @ lift * sizes)).reshape(-1, rank)
    if free_momentum:
        free = np.zeros((*linear.known.shape, 6))
        free[..., linear.momentum_rows, :] = np.eye(6)
        q, _ = np.linalg.qr((white @ free).reshape(-1, 6))
        rows = rows - q @ (q.T @ rows)
    # slopes are linear in the inertias but for rotors, whose inertia is known: of each unit parameter, all at once
    many = record.repeated(rank + 1)
    by_reading = equations.slopes(many, np.concatenate([sizes[:, None] * lift.T, np.zeros((1, inertia.size))])) * sigma
    noise = np.moveaxis(white @ (by_reading[:-1] - by_reading[-1]), 0, -1).reshape(-1, rank)
    return rows.T @ rows, noise.T @ noise
