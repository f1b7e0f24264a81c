"""Bounded quasi-Newton searches from many starts at once.

Projected BFGS after Bertsekas, Projected Newton methods for optimization problems with simple constraints (SIAM J.
Control and Optimization 20(2), 1982): variables at a bound that the gradient pushes against are held, the others take a
quasi-Newton step, and the step is shortened along the path that is clipped to the bounds. Every search has its own
matrix and its own active set; values and gradients of all come from one call, so that a batched function is used well.

Arrays: points (starts, n), values (starts,), matrices (starts, n, n), approximations of the Hessian. Variables are
expected to be scaled to a like size, about one. Minima are local; nothing is done to compare or to merge the searches,
and constraints other than bounds have to be part of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.typing import Array

Mask = npt.NDArray[np.bool_]
#: Sufficient decrease (Armijo), number of halvings of a step, and what counts as rounding of the value.
DECREASE, HALVINGS, ROUNDING = 1e-4, 40, 1e-15
#: A search ends when it gains less than this, relative to its value, so many times in a row.
STAGNATION, PATIENCE = 1e-13, 3
#: A value beyond this has no minimum but a pole: the search ends there.
RUNAWAY = 1e6


@dataclass(frozen=True, eq=False)
class BoxedMinima:
    """Where the searches ended: points (starts, n), values and projected gradients there, rounds of evaluation."""

    points: Array
    values: Array
    slopes: Array
    rounds: int


def minimise_in_box(
    function: Callable[[Array], tuple[Array, Array]],
    starts: Array,
    lower: Array,
    upper: Array,
    *,
    iterations: int = 400,
    tolerance: float = 1e-10,
    longest: float = 0.5,
) -> BoxedMinima:
    """Local minima within bounds.

    Args:
        function: points (starts, n) to values (starts) and gradients (starts, n); values of about one. A search whose
            values run off to a pole ends far down it.
        starts: (starts, n).
        lower, upper: (n).
        tolerance: largest entry of the projected gradient at which a search ends.
        longest: largest change of any variable in one step.
    """
    x = np.clip(starts, lower, upper)
    value, gradient = function(x)
    count, n = x.shape
    eye = np.eye(n)
    # Scaled so that the first step is the longest allowed: nothing is known of the curvature yet.
    matrix = eye * np.maximum(np.abs(gradient).max(axis=-1), 1e-300)[:, None, None] / longest
    fresh, done = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    idle, rounds = np.zeros(count, dtype=np.int64), 1
    for _ in range(iterations):
        free = ~_active_bounds(x, gradient, lower, upper)
        done |= np.abs(gradient * free).max(axis=-1) <= tolerance
        if done.all():
            break
        step = np.zeros_like(x)
        step[~done] = _step(matrix[~done], gradient[~done], free[~done])
        # Rounding can leave a matrix by which the step is not a descent: begin again along the gradient.
        uphill = ~done & (np.einsum("ri,ri->r", step, gradient) >= 0.0)
        if uphill.any():
            matrix[uphill] = eye * (np.abs(gradient[uphill]).max(axis=-1)[:, None, None] + 1e-300) / longest
            step[uphill] = _step(matrix[uphill], gradient[uphill], free[uphill])
        step *= np.minimum(1.0, longest / np.maximum(np.abs(step).max(axis=-1), 1e-300))[:, None]
        # Backtracking of all searches together: one call for those that have not found a decrease yet.
        moved, better, slope = x.copy(), value.copy(), gradient.copy()
        waiting, size = np.flatnonzero(~done), 1.0
        for _ in range(HALVINGS):
            trial = np.clip(x[waiting] + size * step[waiting], lower, upper)
            new, new_slope = function(trial)
            rounds += 1
            # Decrease by the gradient along the clipped step, not along the whole one (Bertsekas): a bound may stop
            # most of it.
            drop = np.einsum("ri,ri->r", gradient[waiting], trial - x[waiting])
            accepted = new <= value[waiting] + DECREASE * drop + ROUNDING * np.abs(value[waiting])
            who = waiting[accepted]
            moved[who], better[who], slope[who] = trial[accepted], new[accepted], new_slope[accepted]
            waiting, size = waiting[~accepted], 0.5 * size
            if waiting.size == 0:
                break
        done[waiting] = True  # no decrease to be had: at the rounding of the value
        # One small gain may be an unlucky step; several in a row are the rounding of the function.
        idle = np.where(value - better <= STAGNATION * np.abs(value), idle + 1, 0)
        done |= (idle >= PATIENCE) | ~(np.abs(better) < RUNAWAY) | ~np.isfinite(slope).all(axis=-1)
        s, y = moved - x, slope - gradient
        _update(matrix, s, y, fresh, ~done & (np.abs(s).max(axis=-1) > 0.0))
        x, value, gradient = moved, better, slope
    return BoxedMinima(x, value, gradient * ~_active_bounds(x, gradient, lower, upper), rounds)


def _active_bounds(x: Array, gradient: Array, lower: Array, upper: Array) -> Mask:
    """Which variables (starts, n) are at a bound with the descent pointing outwards."""
    return ((x <= lower) & (gradient > 0.0)) | ((x >= upper) & (gradient < 0.0))


def _step(matrix: Array, gradient: Array, free: Mask) -> Array:
    """Quasi-Newton steps (starts, n) in the free variables; zero in the others."""
    mask = free.astype(np.float64)
    # Rows and columns of held variables are replaced by a diagonal, so that all searches can be solved as one stack of
    # full size.
    inner = matrix * (mask[:, :, None] * mask[:, None, :])
    rows = np.arange(matrix.shape[-1])
    inner[:, rows, rows] += (1.0 - mask) * np.maximum(np.abs(matrix).max(axis=(-1, -2)), 1e-300)[:, None]
    return np.asarray(-np.linalg.solve(inner, (gradient * mask)[..., None])[..., 0] * mask)


def _update(matrix: Array, s: Array, y: Array, fresh: Mask, which: Mask) -> None:
    """BFGS in place, damped after Powell so that the matrices stay positive definite."""
    first = which & fresh & (np.einsum("ri,ri->r", s, y) > 0.0)
    if first.any():
        # The first curvature met sets the scale.
        scale = np.einsum("ri,ri->r", y[first], y[first]) / np.einsum("ri,ri->r", s[first], y[first])
        matrix[first] = np.eye(s.shape[-1]) * scale[:, None, None]
        fresh[first] = False
    rows = np.flatnonzero(which)
    if rows.size == 0:
        return
    b, d, g = matrix[rows], s[rows], y[rows]
    bd = np.einsum("rij,rj->ri", b, d)
    dbd, dg = np.einsum("ri,ri->r", d, bd), np.einsum("ri,ri->r", d, g)
    # M. J. D. Powell's damping (1978): mix the change of the gradient with what the matrix predicts until the curvature
    # along the step is at least a fifth of the predicted one.
    theta = np.where(dg >= 0.2 * dbd, 1.0, 0.8 * dbd / np.where(dbd == dg, 1.0, dbd - dg))
    g = theta[:, None] * g + (1.0 - theta)[:, None] * bd
    dg = np.einsum("ri,ri->r", d, g)
    good = (dbd > 0.0) & (dg > 0.0)
    b = b[good] - bd[good][:, :, None] * bd[good][:, None, :] / dbd[good][:, None, None]
    matrix[rows[good]] = b + g[good][:, :, None] * g[good][:, None, :] / dg[good][:, None, None]
