"""Residual diagnostics: are the residuals what independent noise looks like?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.typing import Array


@dataclass(frozen=True)
class Whiteness:
    """Ljung and Box's portmanteau test (Biometrika 65, 1978) and Durbin and Watson's number of one residual series.

    ``p_value`` is how often white noise would look as coloured as this; ``durbin_watson`` is 2 for white noise.
    """

    statistic: float
    p_value: float
    durbin_watson: float
    lags: int

    @property
    def white(self) -> bool:
        """At the level of one in a hundred."""
        return self.p_value > 0.01


def autocorrelation(series: Array, lags: int) -> Array:
    """Autocorrelations at lags 1 ... ``lags``."""
    centred = series - np.mean(series)
    power = float(centred @ centred)
    if power == 0.0:
        return np.zeros(lags)
    return np.array([float(centred[k:] @ centred[:-k]) / power for k in range(1, lags + 1)])


def whiteness(series: Array, lags: int | None = None) -> Whiteness:
    """Judge one series of residuals."""
    from scipy.stats import chi2

    n = series.size
    if lags is None:
        lags = int(min(20, max(1, n // 5)))
    rho = autocorrelation(series, lags)
    statistic = float(n * (n + 2) * np.sum(rho**2 / (n - np.arange(1, lags + 1))))
    power = float(series @ series)
    durbin = float(np.sum(np.diff(series) ** 2) / power) if power > 0 else 2.0
    return Whiteness(statistic, float(chi2.sf(statistic, lags)), durbin, lags)
