"""Statistics common to fits of inertias and of joints: score tests, one certificate, shares of fixed numbers.

A term that a fit does not have would be one or more columns of derivatives. How much of the residuals these columns
would explain, beyond the columns that were fitted, is C. R. Rao's score test (1948): with Q an orthonormal basis of the
fitted columns and B the tested ones projected off Q, the statistic is the squared length of the residual along B, and
has a chi-square distribution with as many degrees of freedom as B has independent columns if the term is absent.
Nothing is fitted again, so tens of terms can be tested; the test is exact to first order, for small faults.

Rows are white (unit variance). Where that variance was itself estimated, Fisher's distribution replaces chi-square.

A certificate (:func:`certify`) asks of any fit: did the search converge, are the residuals as large as the noise and
white, would a term that is missing explain them, and do estimates by intervals of the data scatter as is claimed?

The searches differ for a reason. Joints have bounds and few parameters: SciPy's reflective trust region
(:class:`spacearm.optimise.LeastSquares`). Inertias have no bounds but directions that the data do not show, a start
that moves with the inertias, and records whose motion is lost at first: Gauss-Newton along the directions that are
shown (:mod:`spacearm.identify.inertia.output_error_fit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from spacearm.errors import SimulationError
from spacearm.optimise.consider import FixedNumber
from spacearm.optimise.diagnose import LEVEL, Diagnosis
from spacearm.optimise.overconfidence import WIDER, Scatter, interval_factors
from spacearm.result import Check
from spacearm.typing import Array

#: Directions shorter than this, as shares of their columns, are rounding: of a fit's columns, and of what is tested.
OWN, SEEN = 1e-9, 1e-6


@dataclass(frozen=True, eq=False)
class Score:
    """Score test of a term that is not estimated: ``statistic`` is chi-square of ``freedom`` if the term is absent.

    ``what``: the term in words; ``advice``: what to try; ``remedy``: the same where the advice does not say it.
    ``trials``: the statistic is the largest of so many. ``body``: the term is a known body's inertia, listed last,
    because ten numbers explain a little of everything. ``doubt``: relative standard deviation of the noise's variance,
    where that is an estimate itself: the statistic has Fisher's distribution then. ``size``: estimate of the term where
    it is one number, in ``unit``.
    """

    name: str
    statistic: float
    freedom: int
    advice: str = ""
    remedy: str = ""
    trials: int = 1
    body: bool = False
    doubt: float = 0.0
    what: str = ""
    size: float = float("nan")
    unit: str = ""

    @property
    def p_value(self) -> float:
        """Probability that noise alone gives a statistic at least as large, corrected for the number of trials."""
        from scipy.stats import chi2, f

        if self.doubt > 0.0:
            # A variance with relative deviation d is like one from 2 / d^2 degrees of freedom.
            alone = f.sf(self.statistic / self.freedom, self.freedom, 2.0 / self.doubt**2)
        else:
            alone = chi2.sf(self.statistic, self.freedom)
        return min(1.0, self.trials * float(alone))


def certify(
    diagnosis: Diagnosis, scores: Sequence[Score], seen: Scatter | None, interval: str = "white noise"
) -> dict[str, Check]:
    """Checks that a right model passes but for one case in a thousand each: convergence, size and colour of the
    residuals, terms that are missing, scatter between intervals of the data.

    Args:
        scores: of all terms that were tested.
        seen: scatter of estimates by intervals; None where it was not judged.
        interval: which standard deviations are stated, in words.
    """
    checks: dict[str, Check] = dict(diagnosis.certificate())
    # Bonferroni: the more terms are tested, the rarer each must be to count.
    least = LEVEL / max(len(scores), 1)
    for score in scores:
        # The note of a check that fails is read: then it says what to try.
        note = "1 - p of a score test"
        if score.p_value <= least:
            note = f"{score.advice}: {score.remedy}" if score.remedy else score.advice
        checks[f"score.{score.name}"] = Check(1.0 - score.p_value, 1.0 - least, "", note)
    if seen is not None:
        note = f"1 - p of the scatter between intervals of the data, {seen.ratio:.3g} times the claimed variance"
        if seen.p_value <= LEVEL:
            note += "; a sensor or a force drifts: estimate or state it, or widen that channel's noise"
        note += f"; standard deviations by {interval}"
        checks["overconfidence"] = Check(1.0 - seen.p_value, 1.0 - LEVEL, "", note)
    return checks


def widen_deviations(
    diagnosis: Diagnosis, seen: Scatter | None, residual: Array, jacobian: Array, covariance: Array
) -> Array | None:
    """Factors (p,) of the standard deviations by white noise, where residuals are coloured and intervals of the data
    scatter more; None where white noise explains them.

    Residuals (m,), derivatives (m, p), covariance (p, p) as in :func:`.interval_factors`.
    """
    if not diagnosis.is_coloured and (seen is None or seen.p_value > LEVEL):
        return None
    factors = interval_factors(residual, jacobian, covariance)
    return factors if factors.max(initial=1.0) > WIDER else None


def name_interval(factors: Array | None) -> str:
    """Which standard deviations are stated, in words."""
    if factors is None:
        return "white noise"
    return (
        "scatter between intervals of the data, as residuals are coloured: "
        f"up to {factors.max():.3g} times that of white noise"
    )


@dataclass(frozen=True, slots=True)
class ConsiderShare:
    """A fixed number that is uncertain, and the ``share`` of the variance of ``parameter`` that is due to it."""

    number: FixedNumber
    parameter: str
    share: float

    @property
    def text(self) -> str:
        known = f"{self.number.name}, taken as known to {self.number.deviation:.3g} {self.number.unit}".rstrip()
        return f"{known}, makes {100 * self.share:.2g} % of the variance of {self.parameter}"


def rank_shares(
    names: Sequence[str], variance: Array, effects: Mapping[FixedNumber, Array]
) -> tuple[ConsiderShare, ...]:
    """Each fixed number with the parameter to whose variance it adds the largest share, the largest first.

    Args:
        names: of the parameters (r).
        variance: of the parameters (r); infinite where none is to be told.
        effects: number to what its standard deviation does to the parameters (r or more).
    """
    found = []
    for number, effect in effects.items():
        # An infinite variance has a share of zero: of what is not determined nothing is told.
        shares = effect[: len(names)] ** 2 / variance
        k = int(np.argmax(shares))
        found.append(ConsiderShare(number, names[k], float(shares[k])))
    return tuple(sorted(found, key=lambda one: -one.share))


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
    # At an optimum the residual is orthogonal to the fitted columns already, but for those held or constrained.
    rest = residual - basis @ (basis.T @ residual)
    for name, block in tested.items():
        lengths = np.linalg.norm(block, axis=0)
        scale = np.where(lengths > 0.0, lengths, 1.0)
        # Columns of unit length, so that one threshold separates what the fitted columns span already.
        own = block / scale
        left, values, right = np.linalg.svd(own - basis @ (basis.T @ own), full_matrices=False)
        # A direction that the fitted columns can imitate cannot be tested: no degree of freedom.
        kept = values > SEEN
        if not np.all(np.isfinite(values)) or not kept.any():
            continue
        along = left[:, kept].T @ rest
        sizes = -(right[kept].T @ (along / values[kept])) / scale if kept.all() else None
        yield name, float(along @ along), int(kept.sum()), sizes


def _directions(columns: Array) -> Array:
    """Orthonormal directions of columns (m, p), each of length one first, without those that rounding makes."""
    lengths = np.linalg.norm(columns, axis=0)
    # Unit length first: units of the parameters must not decide what counts as rounding.
    left, values, _ = np.linalg.svd(columns / np.where(lengths > 0.0, lengths, 1.0), full_matrices=False)
    return np.asarray(left[:, values > OWN * max(float(values.max(initial=0.0)), 1e-300)])


@contextmanager
def solvable(place: str) -> Iterator[None]:
    """Context manager and decorator: an error of linear algebra becomes one that names ``place`` and likely causes."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise SimulationError(
            f"the equations cannot be solved: {str(error)[:1].lower()}{str(error)[1:]}",
            place=place,
            hint="noise, units or readings are far from usual sizes, or a sensor repeats what another one reads",
        ) from None
