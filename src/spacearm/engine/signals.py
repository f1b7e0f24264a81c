"""Inputs that change with time: piecewise polynomials on one grid of breaks, evaluated inside the loops.

A loop never searches for the piece: it steps from break to break, so the piece is constant within a step. At a break
the piece on the right holds (right-continuous); a step that ends at a break still sees the piece on its left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.loops import compile_inner
from spacearm.typing import Array

#: Breaks nearer to each other than this, relative to the span, are one break.
SAME_BREAK = 4e-16


class Signals(NamedTuple):
    """Polynomials ``sum_d coefficient[d, p, c] * (t - breaks[p])**d`` written to ``inp[target[c]]``."""

    breaks: Array  # (pieces + 1,) s, from the start of the phase to its end
    coefficient: Array  # (degree + 1, pieces, channels), lowest power first
    target: Any  # (channels,) int64, index in the kernel's input


@compile_inner
def value(signals: Signals, piece: int, channel: int, t: float) -> float:
    """Value of one channel on this piece at time ``t`` (s since the phase's start), by Horner's rule."""
    coefficient = signals.coefficient
    local = t - signals.breaks[piece]
    top = coefficient.shape[0] - 1
    result = coefficient[top, piece, channel]
    for power in range(top - 1, -1, -1):
        result = result * local + coefficient[power, piece, channel]
    return float(result)


@compile_inner
def fill(signals: Signals, piece: int, t: float, inp: Array) -> None:
    """Write every channel's value at time ``t`` (s since the phase's start) into the kernel's input."""
    for channel in range(signals.target.size):
        inp[signals.target[channel]] = value(signals, piece, channel, t)


def merge(channels: Sequence[tuple[int, Array, Array]], end: float) -> Signals:
    """One grid for many channels.

    Args:
        channels: (target, breaks (p + 1,), coefficients (degree + 1, p), lowest power first) for each channel; the
            first and last piece continue beyond their ends.
        end: length of the phase, s; the grid runs from 0 to it.
    """
    # Values and rates of one signal are on the same breaks, as are those of all parts of a path.
    shared = {id(breaks): breaks for _, breaks, _ in channels}
    inner = [breaks[1:-1] for breaks in shared.values()]
    candidates = np.unique(np.concatenate([np.array([0.0, end]), *inner])) if inner else np.array([0.0, end])
    candidates = candidates[(candidates >= 0.0) & (candidates <= end)]
    # Breaks of two channels that should coincide differ by rounding; kept apart they would leave a piece of no length.
    near = SAME_BREAK * max(end, 1.0)
    if candidates.size == 1 or (candidates[1:] - candidates[:-1] <= near).any():
        grid = [candidates[0]]
        for time in candidates[1:]:
            if time - grid[-1] > near:
                grid.append(time)
        candidates = np.array([*grid, end] if len(grid) == 1 else grid)
    breaks = candidates
    breaks[-1] = end
    pieces = breaks.size - 1
    degree = max((coefficients.shape[0] for _, _, coefficients in channels), default=1) - 1
    table = np.zeros((degree + 1, pieces, len(channels)))
    # The middle of a piece decides to which piece of a channel it belongs: at its ends rounding could decide otherwise.
    middle = 0.5 * (breaks[:-1] + breaks[1:])
    places: dict[int, tuple[Any, Array]] = {}
    alike: dict[tuple[int, int], list[int]] = {}
    constants: list[int] = []
    for column, (_, own, coefficients) in enumerate(channels):
        # A constant needs neither search nor shift.
        if coefficients.shape == (1, 1):
            constants.append(column)
        else:
            alike.setdefault((id(own), coefficients.shape[0]), []).append(column)
    table[0, :, constants] = np.array([channels[column][2][0, 0] for column in constants])[:, None]
    # Components of a path have the same breaks and degree: they are moved together.
    for (key, size), columns in alike.items():
        own = channels[columns[0]][1]
        if key not in places:
            source = np.searchsorted(own[1:-1], middle, side="right")
            places[key] = source, breaks[:-1] - own[source]
        source, shift = places[key]
        given = np.stack([channels[column][2] for column in columns], axis=2)[:, source]
        table[:size, :, columns] = _taylor_shift(given, shift)
    target = np.array([target for target, _, _ in channels], dtype=np.int64)
    return Signals(breaks, table, target)


def _taylor_shift(coefficients: Array, shift: Array) -> Array:
    """Coefficients (degree + 1, pieces, columns) of ``p(x + shift)`` by piece; repeated synthetic division in place."""
    top, moved = len(coefficients) - 1, shift != 0.0
    # Untouched where nothing moves, so that coefficients keep their bits.
    if not moved.any():
        return coefficients
    by = shift[moved, None]
    for start in range(top):
        for power in range(top - 1, start - 1, -1):
            coefficients[power, moved] += by * coefficients[power + 1, moved]
    return coefficients
