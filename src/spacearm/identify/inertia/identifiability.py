"""Before any estimate: what can these experiments tell?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.identify.inertia.base_parameters import BaseParameters
from spacearm.identify.inertia.information import Information
from spacearm.identify.inertia.task import Task
from spacearm.typing import Array

#: Singular values of the scaled regressor below this share of the largest are rounding.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Stage:
    """What is known after an experiment: rank, singular values, condition number of the determined part."""

    experiment: str
    rank: int
    gained: int
    condition: float
    singular: Array


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Ranks after each experiment, and what stays hidden.

    ``missing`` (10(n + 1), k): directions that could be seen in principle but not by these experiments.
    """

    base_parameters: BaseParameters
    stages: tuple[Stage, ...]
    missing: Array
    missing_words: tuple[str, ...]

    @property
    def rank(self) -> int:
        return self.stages[-1].rank

    @property
    def null_dimension(self) -> int:
        """Directions of the 10(n + 1) that these experiments do not show."""
        return int(self.base_parameters.combine.shape[1]) - self.rank

    @property
    def complete(self) -> bool:
        """Whether all that motion can show is shown."""
        return self.rank == self.base_parameters.rank

    def describe(self) -> str:
        base_parameters = self.base_parameters
        lines = [
            f"{self.rank} of {base_parameters.combine.shape[1]} parameter combinations are determined "
            f"({base_parameters.rank} could be); condition number {self.stages[-1].condition:.3g}",
            *(f"after {stage.experiment}: rank {stage.rank} (+{stage.gained})" for stage in self.stages),
            *(f"never visible: {null.text}" for null in base_parameters.nulls),
            *(f"not visible here: {words}" for words in self.missing_words),
        ]
        return "\n".join(lines)


def identifiability(task: Task, *, tolerance: float = TOLERANCE) -> Identifiability:
    """Ranks from the regressors of planned (noise-free) motions.

    Noise in rates makes every regressor look complete: use planned motions here, or :func:`from_noise` for measured
    ones.
    """
    base_parameters = task.base_parameters
    momenta = task.unknown_momenta
    stack = np.zeros((0, base_parameters.rank))
    stages: list[Stage] = []
    rank = 0
    last = np.zeros((0, base_parameters.rank))
    for i, record in enumerate(task.records):
        linear = task.equations.linear(record)
        matrix = ((linear.matrix @ base_parameters.lift) * task.sizes).reshape(-1, base_parameters.rank)
        if i in momenta:
            columns = np.zeros((*linear.known.shape, 6))
            columns[..., linear.momentum_rows, :] = np.eye(6)
            flat = columns.reshape(-1, 6) / np.sqrt(record.times.size)
            matrix = matrix - flat @ (flat.T @ matrix)  # what a free initial momentum explains, tells nothing
        matrix = matrix / max(float(np.linalg.norm(matrix)), 1e-300)
        stack = np.concatenate([stack, np.linalg.qr(matrix, mode="r")])
        _, singular, rows = np.linalg.svd(stack, full_matrices=True)
        now = int(np.sum(singular > tolerance * singular[0]))
        condition = float(singular[0] / singular[now - 1]) if now else float("inf")
        stages.append(Stage(record.name, now, now - rank, condition, singular))
        rank, last = now, rows[now:]
    missing = base_parameters.lift @ (last.T * task.sizes[:, None])
    words = tuple(_words(row, base_parameters) for row in last)
    return Identifiability(base_parameters, tuple(stages), missing, words)


def _words(row: Array, base_parameters: BaseParameters) -> str:
    order = np.argsort(-np.abs(row))
    strong = [k for k in order[:5] if abs(row[k]) > 0.1 * abs(row[order[0]])]
    return " ".join(f"{row[k]:+.2f} {base_parameters.names[k]}" for k in strong) + " (in typical sizes)"


@dataclass(frozen=True, slots=True)
class Direction:
    """A combination of base parameters and how well the data know it, in typical sizes."""

    deviation: float
    words: str


def from_noise(information: Information, worst: int = 5) -> tuple[Direction, ...]:
    """The least known combinations of measured data; a deviation of 1 is as large as the numbers themselves."""
    values, vectors = information.spectrum()
    found = []
    for k in range(min(worst, values.size)):
        value = float(values[k])
        deviation = float("inf") if value <= 1e-13 * values[-1] else 1.0 / np.sqrt(value)
        found.append(Direction(float(deviation), _words(vectors[:, k], information.base_parameters)))
    return tuple(found)
