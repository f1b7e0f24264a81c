"""What is common to fits of inertias and of joints: scores of what a model lacks.

Something that a fit does not have is a column of derivatives more, or several. How much they would explain of the
residuals is C. R. Rao's score test (1948): chi-square of their number where there is nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spacearm.typing import Array

#: Directions shorter than this, as shares of their columns, are rounding: of a fit's columns, and of what is tested.
OWN, SEEN = 1e-9, 1e-6


@dataclass(frozen=True, eq=False)
class Score:
    """What something that is not estimated would bring: chi-square of ``freedom`` if it is not there.

    ``what``: it in words; ``advice``: with what to try. ``trials``: it is the largest of so many. ``body``: a known
    body's inertia, which is looked for last, for ten numbers explain a little of everything. ``doubt``: relative
    standard deviation of the noise's variance, where that is an estimate itself: the statistic has Fisher's
    distribution then. ``size``: about how large it would be, where it is one number, in ``unit``.
    """

    name: str
    statistic: float
    freedom: int
    advice: str = ""
    trials: int = 1
    body: bool = False
    doubt: float = 0.0
    what: str = ""
    size: float = float("nan")
    unit: str = ""

    @property
    def p_value(self) -> float:
        """How often chance alone would bring as much."""
        from scipy.stats import chi2, f

        if self.doubt > 0.0:
            alone = f.sf(self.statistic / self.freedom, self.freedom, 2.0 / self.doubt**2)
        else:
            alone = chi2.sf(self.statistic, self.freedom)
        return min(1.0, self.trials * float(alone))


def score_tests(
    residual: Array, columns: Array, tested: Mapping[str, Array]
) -> Iterator[tuple[str, float, int, Array | None]]:
    """Name, statistic, degrees of freedom and sizes (k,) of each group of columns that the residuals could show.

    Sizes are the numbers that would explain the residuals best; None where the columns are not all independent.

    Args:
        residual: white, of a fit (m,).
        columns: its derivatives (m, p) by what was estimated.
        tested: name to derivatives (m, k) by what was not.
    """
    basis = _directions(columns)
    rest = residual - basis @ (basis.T @ residual)
    for name, block in tested.items():
        lengths = np.linalg.norm(block, axis=0)
        scale = np.where(lengths > 0.0, lengths, 1.0)
        own = block / scale
        left, values, right = np.linalg.svd(own - basis @ (basis.T @ own), full_matrices=False)
        kept = values > SEEN
        if not np.all(np.isfinite(values)) or not kept.any():
            continue
        along = left[:, kept].T @ rest
        sizes = -(right[kept].T @ (along / values[kept])) / scale if kept.all() else None
        yield name, float(along @ along), int(kept.sum()), sizes


def _directions(columns: Array) -> Array:
    """Orthonormal directions of columns (m, p), each of length one first, without those that rounding makes."""
    lengths = np.linalg.norm(columns, axis=0)
    left, values, _ = np.linalg.svd(columns / np.where(lengths > 0.0, lengths, 1.0), full_matrices=False)
    return np.asarray(left[:, values > OWN * max(float(values.max(initial=0.0)), 1e-300)])
