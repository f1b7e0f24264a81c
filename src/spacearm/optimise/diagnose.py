"""Tests of an estimate: size and colour of its residuals, values on bounds, parameters that the data leave open.

Three questions. Is the misfit as large as the noise explains (chi-square of each block)? Are the residuals white in
time (Ljung and Box), or is a force or a slow sensor error missing from the model? Did the search converge within the
bounds? The answers are checks of a certificate at a common level: a right model fails one in a thousand, all channels
of a kind together (Bonferroni). Residuals are in standard deviations, one series (samples,) for each channel of each
block. Passing does not prove the model right; it says that these data show nothing against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from spacearm.optimise.estimate import Estimate
from spacearm.result import Certificate, Check
from spacearm.typing import Array

#: How often a right model may fail a test of its residuals.
LEVEL = 1e-3
#: How much more skew than chi-square the portmanteau statistic of n samples is, by lags / n, seen in white series.
TAIL = 5.0
#: Parameters correlated more than this cannot be told apart.
STRONG_CORRELATION = 0.995


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Square sum of residuals in standard deviations, its degrees of freedom, and the relative standard deviation of
    the variances where these are estimates themselves."""

    total: float
    freedom: float
    doubt: float = 0.0

    @property
    def ratio(self) -> float:
        """Per degree of freedom: 1 for a right model."""
        return self.total / max(self.freedom, 1.0)

    def bounds(self, level: float = LEVEL) -> tuple[float, float]:
        """Between which the ratio of a right model lies but for a share ``level`` of all cases."""
        from scipy.stats import chi2, f

        freedom, ends = max(self.freedom, 1.0), [0.5 * level, 1.0 - 0.5 * level]
        # A variance with relative deviation d is like one from 2 / d^2 degrees of freedom: the ratio is Fisher's.
        doubted = self.doubt > 0.0
        low, high = f.ppf(ends, freedom, 2.0 / self.doubt**2) if doubted else chi2.ppf(ends, freedom) / freedom
        return float(low), float(high)


@dataclass(frozen=True)
class Whiteness:
    """Ljung and Box's portmanteau test (Biometrika 65, 1978) and Durbin and Watson's number of one residual series.

    ``p_value`` is how often white noise would look as coloured as this; ``durbin_watson`` is 2 for white noise.
    Chi-square of ``lags`` is the limit of long series: of n samples the statistic has a variance larger by 2 lags / n
    (N. Davies, C. M. Triggs, P. Newbold, Biometrika 64, 1977) and more of a tail, as a Pearson curve of type III has.
    """

    statistic: float
    p_value: float
    durbin_watson: float
    lags: int

    @property
    def white(self) -> bool:
        """Whether residuals are white, at the level of one in a thousand."""
        return self.p_value > LEVEL


def whiteness(series: Array, lags: int | None = None) -> Whiteness:
    """Judge one series of residuals by its autocorrelations at lags 1 ... ``lags``."""
    from scipy.stats import pearson3

    n = series.size
    if n < 3:  # no colour to be seen
        return Whiteness(0.0, 1.0, 2.0, 0)
    # Enough lags to see slow errors, few enough for the statistic's distribution to hold in short series.
    lags = int(min(20, max(1, n // 5))) if lags is None else lags
    centred = series - np.mean(series)
    power, around = float(series @ series), float(centred @ centred)
    rho = np.array([float(centred[k:] @ centred[:-k]) for k in range(1, lags + 1)]) / (around or 1.0)
    statistic = float(n * (n + 2) * np.sum(rho**2 / (n - np.arange(1, lags + 1))))
    # Of the series as it is, its mean included: a constant offset lowers the number below 2.
    durbin = float(np.sum(np.diff(series) ** 2) / power) if power > 0 else 2.0
    # Moments of the Pearson curve: mean ``lags``, variance and skewness with the corrections for short series.
    spread, skew = np.sqrt(2.0 * lags * (1.0 + 2.0 * lags / n)), np.sqrt(8.0 / lags) * (1.0 + TAIL * lags / n)
    return Whiteness(statistic, float(pearson3.sf(statistic, skew, loc=lags, scale=spread)), durbin, lags)


@dataclass(frozen=True, slots=True)
class Peak:
    """The strongest frequency (in cycles per sample) of residuals: chi-square of ``freedom``, largest of ``trials``."""

    frequency: float
    statistic: float
    freedom: int
    trials: int


def spectral_peak(rows: Array) -> Peak | None:
    """Of the periodograms of white rows (T, channels) of unit variance, all channels together; None of few samples.

    Each ordinate is chi-square of two degrees of freedom for each channel (A. Schuster 1898; R. A. Fisher 1929). The
    mean and the highest frequency are left out.
    """
    count, channels = rows.shape
    if count < 16 or not np.all(np.isfinite(rows)):
        return None
    # Scaled so that each ordinate is chi-square with two degrees of freedom a channel.
    power = np.sum(np.abs(np.fft.rfft(rows, axis=0)) ** 2, axis=1)[1 : (count + 1) // 2] * 2.0 / count
    k = int(np.argmax(power))
    return Peak((k + 1) / count, float(power[k]), 2 * channels, power.size)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What :func:`diagnose` finds."""

    estimate: Estimate
    freedom: float
    doubt: Mapping[str, float] = field(default_factory=dict)
    assumed: bool = False
    ties: bool = False

    @cached_property
    def blocks(self) -> dict[str, ChiSquare]:
        """Chi-square of each block; its degrees of freedom are the whole's in proportion to its residuals."""
        squares = {block: [float(r @ r) for r in rows.values()] for block, rows in self.estimate.residuals.items()}
        counts = {block: sum(r.size for r in rows.values()) for block, rows in self.estimate.residuals.items()}
        share = self.freedom / max(sum(counts.values()), 1)
        return {
            block: ChiSquare(sum(squares[block]), share * counts[block], self.doubt.get(block, 0.0))
            for block in squares
        }

    @property
    def chi_square(self) -> ChiSquare:
        doubt = max(self.doubt.values(), default=0.0)
        return ChiSquare(sum(block.total for block in self.blocks.values()), self.freedom, doubt)

    @cached_property
    def whiteness(self) -> dict[str, dict[str, Whiteness]]:
        """Whiteness of the residuals by block and channel."""
        return {b: {c: whiteness(r) for c, r in rows.items()} for b, rows in self.estimate.residuals.items()}

    @property
    def is_coloured(self) -> bool:
        """Whether the residuals of a channel are coloured, at the level of all channels together."""
        series = [one.p_value for channels in self.whiteness.values() for one in channels.values()]
        return min(series, default=1.0) * len(series) < LEVEL

    @property
    def parameters_on_bounds(self) -> tuple[str, ...]:
        """Parameters that ended on a bound; their standard deviations are those of an unbounded fit."""
        pairs = zip(self.estimate.parameters, self.estimate.values, strict=True)
        return tuple(p.name for p, value in pairs if p.is_on_bound(float(value)))

    @property
    def not_identifiable(self) -> tuple[str, ...]:
        """Parameters that the data do not determine."""
        pairs = zip(self.estimate.names, self.estimate.std, strict=True)
        return tuple(name for name, sd in pairs if np.isinf(sd))

    @property
    def strong_correlations(self) -> tuple[tuple[str, str, float], ...]:
        """Pairs of parameters that cannot be told apart, with their correlation."""
        names, correlation = self.estimate.names, self.estimate.correlation
        pairs = zip(*np.triu_indices(len(names), 1), strict=True)
        return tuple(
            (names[i], names[j], float(correlation[i, j]))
            for i, j in pairs
            if abs(correlation[i, j]) > STRONG_CORRELATION
        )

    def certificate(self, level: float = LEVEL) -> Certificate:
        """Checks that a right model passes but for a share ``level`` of all cases.

        Residuals are always among what is checked: without a check of them nothing is sound.
        """
        residuals = self._chi_square_checks(level) | ({} if self.ties else self._whiteness_checks(level))
        if not residuals or self.freedom < 1:
            why = "there are as many unknowns as readings" if residuals else "there are none"
            residuals["residuals"] = Check.from_condition(
                False, f"{why}: nothing shows whether the model fits the data"
            )
        return Certificate({
            "converged": Check.from_condition(self.estimate.has_converged, str(self.estimate.reason)),
            "on_bounds": Check(float(len(self.parameters_on_bounds)), 0.0, "", ", ".join(self.parameters_on_bounds)),
            **residuals,
        })  # fmt: skip

    def _chi_square_checks(self, level: float) -> dict[str, Check]:
        """Chi-square of each block, where the noise is known or assumed."""
        found: dict[str, Check] = {}
        for name, block in self.blocks.items() if self.estimate.noise_known or self.assumed else ():
            low, high = block.bounds(level / len(self.blocks))
            # One bound only: residuals below an assumed noise show that the sensors are better, not that the model is
            # wrong.
            if self.assumed:
                note = "chi-square per degree of freedom, at most; no noise is stated, that of typical sensors is taken"
                found[f"chi_square.{name}"] = Check(block.ratio, high, "", note)
                continue
            # The interval of chi-square is not symmetric about one; a check has one limit for the absolute value.
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            note = f"chi-square per degree of freedom minus {middle:.4g}"
            found[f"chi_square.{name}"] = Check(block.ratio - middle, half, "", note)
        return found

    def _whiteness_checks(self, level: float) -> dict[str, Check]:
        """Whiteness of each channel."""
        series = {f"{b}.{c}": w for b, channels in self.whiteness.items() for c, w in channels.items()}
        most, note = 1.0 - level / max(len(series), 1), "1 - p of Ljung and Box's test"
        return {f"whiteness.{name}": Check(1.0 - one.p_value, most, "", note) for name, one in series.items()}

    @property
    def sound(self) -> bool:
        return self.certificate().sound


def diagnose(
    estimate: Estimate,
    freedom: float | None = None,
    doubt: Mapping[str, float] | None = None,
    *,
    assumed: bool = False,
    ties: bool = False,
) -> Diagnosis:
    """Judge an estimate.

    Args:
        freedom: residuals less the unknowns that they determine, when these are not all.
        doubt: block to the relative standard deviation of its residuals' variance, where that is an estimate.
        assumed: nobody stated the noise; residuals are in deviations of an assumed one and may be smaller than that.
        ties: residuals share errors, so that their colour says nothing.
    """
    count = sum(r.size for rows in estimate.residuals.values() for r in rows.values())
    free = max(count - estimate.values.size, 1) if freedom is None else freedom
    return Diagnosis(estimate, free, doubt or {}, assumed, ties)
