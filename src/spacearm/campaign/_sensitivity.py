"""Sensitivity of a campaign's outputs to its dispersed numbers, from the existing runs.

The first-order Sobol index of an input is the share of the output's variance that remains when the output is averaged
over all other inputs. That average is fitted as a polynomial of the input's share (0 to 1, of its distribution), all
inputs together by least squares; Legendre polynomials are orthogonal there, so the squares of their coefficients sum to
the variance (B. Sudret, Global sensitivity analysis using polynomial chaos expansions, 2008). A fit follows chance too:
its bias and the intervals come from a bootstrap over the runs. Indices that sum to less than one leave the rest to
interactions, noise, and bends that a polynomial of this degree does not follow.

The standardised rank regression coefficient says the direction: from -1 to 1, how the rank of the output moves with
that of the input.

Every cell of a map is fitted by itself, so that the axes play no part; variances of the cells are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.figures import COLOURS, panels
from spacearm.typing import Array

REPLICATES = 200
HIGHEST_DEGREE = 8
#: Runs of a cell for each coefficient of the fit, at least, and for each input if the degree is one.
RUNS_PER_COEFFICIENT, LEAST_RUNS = 10, 4


@dataclass(frozen=True)
class Sensitivity:
    """Effect of one input on an output.

    Args:
        index: first-order Sobol index, 0 to 1, with its confidence interval.
        rank: standardised rank regression coefficient, -1 to 1, with its confidence interval.
    """

    key: str
    index: float
    index_interval: tuple[float, float]
    rank: float
    rank_interval: tuple[float, float]


def rank_inputs(
    keys: Sequence[str], shares: Array, output: Array, cells: Array, confidence: float = 0.95
) -> list[Sensitivity]:
    """Inputs by their first-order indices, the largest first; empty where there are too few runs.

    Args:
        keys: names of the k inputs.
        shares: (n, k), between 0 and 1: independent and uniform.
        output: (n,); runs that are not finite are left out.
        cells: (n,) the cell of each run.
    """
    fits = []
    for cell in np.unique(cells):
        inside = (cells == cell) & np.isfinite(output)
        y = output[inside]
        # Rounding is not variance.
        if len(keys) and y.size >= LEAST_RUNS * (len(keys) + 1) and np.ptp(y) > 1e-12 * np.abs(y).max():
            fits.append(_fit_cell(shares[inside], y))
    if not fits:
        return []
    parts, totals = sum(fit[0] for fit in fits), sum(fit[1] for fit in fits)
    sizes = np.array([fit[3] for fit in fits], dtype=float)
    indices = np.asarray(parts) / np.asarray(totals)[:, None]
    ranks = np.tensordot(sizes / sizes.sum(), np.stack([fit[2] for fit in fits]), axes=1)
    # The first of each is that of all runs, the others those of the replicates; the fit's own bias is as large as what
    # resampling adds to it.
    estimates = np.clip(2.0 * indices[0] - indices[1:].mean(axis=0), 0.0, 1.0)
    edges = [50.0 - 50.0 * confidence, 50.0 + 50.0 * confidence]
    widths = np.percentile(indices[1:] - indices[1:].mean(axis=0), edges, axis=0)
    ends = np.percentile(ranks[1:], edges, axis=0)
    found = []
    for k in np.argsort(-estimates, kind="stable"):
        # Interval of the centred replicates about the estimate corrected for bias.
        low, high = np.clip(estimates[k] + widths[:, k], 0.0, 1.0)
        interval = float(ends[0, k]), float(ends[1, k])
        found.append(Sensitivity(keys[k], float(estimates[k]), (float(low), float(high)), float(ranks[0, k]), interval))
    return found


def _fit_cell(shares: Array, y: Array) -> tuple[Array, Array, Array, int]:
    """Variances by input (r, k) and in all (r,), rank coefficients (r, k): all runs, then replicates; the runs."""
    from scipy.stats import rankdata

    (size, count), rng = shares.shape, np.random.default_rng(0)
    # As high as the number of runs supports: each coefficient needs several runs.
    degree = int(np.clip(size // (RUNS_PER_COEFFICIENT * count), 1, HIGHEST_DEGREE))
    # Normalised to unit variance on [0, 1]; without the constant, which has none.
    basis = np.polynomial.legendre.legvander(2.0 * shares - 1.0, degree)[..., 1:] * np.sqrt(
        2 * np.arange(1, degree + 1) + 1
    )
    terms = np.column_stack([np.ones(size), basis.reshape(size, -1)])
    ranks = rankdata(np.column_stack([shares, y]), axis=0)
    ranks = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    # Cells of equal size draw the same runs: their points are the same, too.
    weights = np.vstack([np.ones(size), rng.multinomial(size, np.full(size, 1.0 / size), REPLICATES)])
    parts, totals, slopes = [], [], []
    for w in weights:
        coefficients = _solve(terms, y, w)[1:].reshape(count, degree)
        parts.append(np.sum(coefficients**2, axis=1))
        totals.append(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
        slopes.append(_solve(ranks[:, :-1], ranks[:, -1], w))
    return np.array(parts), np.array(totals), np.array(slopes), size


def _solve(terms: Array, y: Array, weights: Array) -> Array:
    """Coefficients of the weighted least-squares fit."""
    # Normal equations: a bootstrap replicate is a change of weights, and the columns are nearly orthogonal.
    weighted = terms * weights[:, None]
    return np.asarray(np.linalg.lstsq(weighted.T @ terms, weighted.T @ y, rcond=None)[0])


def chart_sensitivities(found: dict[str, list[Sensitivity]]) -> Any:
    """The first-order indices with their intervals, a panel for each output, the largest on top."""
    figure = panels([f"variance of {name}" for name in found], height=150 + 30 * max(map(len, found.values())))
    for column, inputs in enumerate(found.values(), 1):
        upwards = inputs[::-1]
        values = np.array([each.index for each in upwards])
        edges = np.array([each.index_interval for each in upwards])
        figure.add_scatter(
            x=values.tolist(),
            y=[each.key for each in upwards],
            mode="markers",
            marker={"color": COLOURS[0], "size": 9},
            error_x={
                "type": "data",
                "array": np.maximum(edges[:, 1] - values, 0.0).tolist(),
                "arrayminus": np.maximum(values - edges[:, 0], 0.0).tolist(),
            },
            showlegend=False,
            row=1,
            col=column,
        )
        figure.update_xaxes(title_text="first-order index", range=[-0.02, 1.02], row=1, col=column)
    return figure
