"""What can these experiments tell? Before any estimate, from planned motions; and from noisy readings.

A motion that does not excite a direction d of the base parameters leaves ``M d = 0``, with M the regressor of
momentum. For planned motions without noise the rank of M, scaled by typical sizes, therefore tells what can be known;
the singular values fall by decades behind it, so that no tolerance decides.

With noise in the readings ``M d`` is noise, and its squares add up to an information that is not there: without forces
the equations then fit best by bodies without any mass. How much of it noise alone makes is known beforehand, C = sum
(dM/dy s)^T W (dM/dy s) with the readings' deviations s; a direction counts as identifiable only when the data hold
clearly more, in a generalised eigenvalue problem of both matrices. The largest eigenvalue that noise makes of so few
samples is bounded by V. Marchenko and L. Pastur (1967). Directions (r, k) are orthonormal in typical sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.base_parameters import BaseParameters
from spacearm.identify.inertia.equations import own_whitener
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.optimise.information import ROUNDING, Information, combination, complement
from spacearm.typing import Array

#: Singular values of the scaled regressor below this share of the largest are rounding.
TOLERANCE = 1e-9
#: So many samples of a noisy record are enough to judge.
SAMPLES = 40
#: Information must exceed the largest that pure noise gives by this factor.
MARGIN = 1.5


@dataclass(frozen=True, slots=True)
class RankStage:
    """What is known after an experiment: rank, singular values, condition number of the determined part."""

    experiment: str
    rank: int
    gained: int
    condition: float
    singular: Array


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Ranks after each experiment, and what is not identifiable.

    ``missing`` (10(n + 1), k): directions that could be identified in principle but not by these experiments.
    """

    base_parameters: BaseParameters
    stages: tuple[RankStage, ...]
    missing: Array
    missing_words: tuple[str, ...]

    @property
    def rank(self) -> int:
        return self.stages[-1].rank

    @property
    def null_dimension(self) -> int:
        """Directions of the 10(n + 1), less those that are known, that these experiments do not show."""
        return self.base_parameters.unknown - self.rank

    @property
    def complete(self) -> bool:
        """Whether all that motion can show is shown."""
        return self.rank == self.base_parameters.rank

    def describe(self) -> str:
        whole = self.base_parameters
        lines = [
            f"{self.rank} of {whole.unknown} parameter combinations are determined "
            f"({whole.rank} could be); condition number {self.stages[-1].condition:.3g}",
            *(f"after {stage.experiment}: rank {stage.rank} (+{stage.gained})" for stage in self.stages),
            *(f"never identifiable: {null.text}" for null in whole.nulls),
            *(f"not identifiable here: {words}" for words in self.missing_words),
        ]
        return "\n".join(lines)


def identifiability(problem: InertiaProblem, *, tolerance: float = TOLERANCE) -> Identifiability:
    """Ranks from the regressors of planned (noise-free) motions.

    Noise in rates makes every regressor look complete: use planned motions here, or :meth:`.Information.weakest` for
    measured ones.
    """
    whole, rank = problem.base_parameters, problem.rank
    stack, last = np.zeros((0, rank)), np.zeros((0, rank))
    stages: list[RankStage] = []
    for i, record in enumerate(problem.records):
        linear = problem.equations.linear(record)
        matrix = ((linear.matrix @ whole.lift) * problem.base_parameters.sizes).reshape(-1, rank)
        if i in problem.unknown_momenta:  # what a free initial momentum explains, tells nothing
            flat = linear.free_momentum().reshape(-1, linear.momentum_rows.stop) / np.sqrt(record.times.size)
            matrix = matrix - flat @ (flat.T @ matrix)
        # Each experiment counts alike, however many samples it has: ranks are of motions, not of records.
        matrix = matrix / max(float(np.linalg.norm(matrix)), 1e-300)
        # Triangles instead of all rows: the same singular values.
        stack = np.concatenate([stack, np.linalg.qr(matrix, mode="r")])
        _, singular, rows = np.linalg.svd(stack, full_matrices=True)
        now = int(np.sum(singular > tolerance * singular[0]))
        condition = float(singular[0] / singular[now - 1]) if now else float("inf")
        gained = now - (stages[-1].rank if stages else 0)
        stages.append(RankStage(record.name, now, gained, condition, singular))
        last = rows[now:]
    missing = whole.lift @ (last.T * problem.base_parameters.sizes[:, None])
    words = tuple(combination(row, whole.names) for row in last)
    return Identifiability(whole, tuple(stages), missing, words)


def assess_information(
    information: Information, base: BaseParameters, unseen: Array | None = None, stages: Sequence[RankStage] = ()
) -> Identifiability:
    """From what measured data determine; ``unseen`` (r, k): directions in typical sizes that they do not."""
    if unseen is None:
        unseen = information.vectors[:, np.flatnonzero(np.logical_not(information.identifiable))]
    rises = np.maximum(information.rises[::-1], 0.0)  # of what is not seen, rounding makes them negative
    last = RankStage("all", information.rank, information.rank, information.condition, np.sqrt(rises))
    missing = base.lift @ (unseen * information.sizes[:, None])
    words = tuple(combination(row, base.names) for row in unseen.T)
    return Identifiability(base, tuple(stages) or (last,), missing, words)


def scale_free(problem: InertiaProblem) -> bool:
    """Whether nothing known acts: then all inertias may be multiplied by one factor, and no data tell it.

    Rotors of known inertia would tell it, but by less than what noise in the rates pretends: they do not count.
    """
    if np.any(problem.known_inertia):
        return False
    # A known force, momentum or torque has a unit of its own, and with it all inertias have a scale.
    torques = "dynamics" in problem.kinds
    return not any(
        np.any(record.wrench)
        or record.given_impulse is not None
        or (record.known_momentum is not None and np.any(record.known_momentum))
        or (torques and "torque" in record.readings)
        for record in problem.records
    )


def gauge(problem: InertiaProblem, values: Array) -> Array:
    """The direction (..., r, 1 or 0) of all values together, in typical sizes, where the data do not tell the scale."""
    scaled = values / problem.base_parameters.sizes
    if not scale_free(problem):
        return np.zeros((*scaled.shape, 0))
    return np.asarray(scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))[..., None]


def not_identifiable(problem: InertiaProblem, known: Array, worst: float = np.inf) -> Array:
    """Orthonormal directions (r, k) of the base parameters, in typical sizes, that noisy records do not show.

    Of repetitions the first is judged: they differ by noise only.

    Args:
        known: (r, j), orthonormal: directions that are known not to be identifiable, and left out here.
        worst: a direction with a larger deviation than so many typical sizes is not identifiable either.
    """
    from scipy.linalg import eigh

    others = complement(known)
    rank = others.shape[1]
    seen, noise, count = np.zeros((rank, rank)), np.zeros((rank, rank)), 0
    for i, record in enumerate(problem.records):
        few = _few_samples(record)
        own, spurious = _record_information(problem, few, i in problem.unknown_momenta)
        whole = record.times.size / few.times.size
        seen, noise = seen + whole * (others.T @ own @ others), noise + whole * (others.T @ spurious @ others)
        count += few.times.size
    largest = float(np.linalg.eigvalsh(seen)[-1])
    if not largest > 0:
        return others
    # the largest eigenvalue of a noise covariance from so many samples (V. Marchenko, L. Pastur 1967)
    edge = MARGIN * (1.0 + np.sqrt(rank / count)) ** 2
    noise *= edge
    # of a noise that is far above everything that is seen, its own rounding counts
    floor = max(ROUNDING * largest, 10.0 * rank * np.finfo(float).eps * float(np.trace(noise)))
    values, vectors = eigh(seen, noise + (floor + worst**-2) * np.eye(rank))
    basis, _ = np.linalg.qr(vectors[:, values < 1.0])
    return np.asarray(others @ basis)


def _few_samples(record: MotionRecord) -> MotionRecord:
    """The first repetition, at about ``SAMPLES`` samples."""
    while record.batch:
        record = record.select_repetition(0)
    return record.thin(-(-record.times.size // SAMPLES))


def _record_information(problem: InertiaProblem, record: MotionRecord, free_momentum: bool) -> tuple[Array, Array]:
    """Information of a record about scaled base parameters, and what noise alone would make of it: (r, r) each."""
    equations, lift, sizes = problem.equations, problem.base_parameters.lift, problem.base_parameters.sizes
    inertia, sigma = problem.robot.inertia_parameters.ravel(), problem.deviations(record)
    white = own_whitener(equations.slopes(record, inertia) * sigma)
    linear = equations.linear(record)
    rank = sizes.size
    rows = (white @ (linear.matrix @ lift * sizes)).reshape(-1, rank)
    if free_momentum:
        # A free momentum takes as many combinations of the equations: what is along them says nothing of inertias.
        q, _ = np.linalg.qr((white @ linear.free_momentum()).reshape(-1, linear.momentum_rows.stop))
        rows = rows - q @ (q.T @ rows)
    # slopes are linear in the inertias but for rotors, whose inertia is known: of each unit parameter, all at once
    many = record.repeat(rank + 1)
    by_reading = equations.slopes(many, np.concatenate([sizes[:, None] * lift.T, np.zeros((1, inertia.size))])) * sigma
    noise = np.moveaxis(white @ (by_reading[:-1] - by_reading[-1]), 0, -1).reshape(-1, rank)
    return rows.T @ rows, noise.T @ noise
