"""Comparison of two runs or two results: largest differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.model.rotations import rotation_matrices
from spacearm.result import Result
from spacearm.simulate.run.run import Run, Track
from spacearm.text_format import format_unit, format_value, html_table, humanise_name
from spacearm.typing import Array


@dataclass(frozen=True, slots=True)
class QuantityDifference:
    """One quantity; for runs, at the time of its largest difference.

    Args:
        quantity: its name.
        unit: of the difference.
        difference: its magnitude; NaN if the two cannot be subtracted and are not equal.
        time: s, of runs.
        first, second: the values of results.
    """

    quantity: str
    unit: str
    difference: float
    time: float | None = None
    first: Any = None
    second: Any = None


@dataclass(frozen=True)
class RunComparison:
    """Result of :func:`compare`, each quantity in its own unit."""

    kind: str
    entries: tuple[QuantityDifference, ...]

    def __iter__(self) -> Iterator[QuantityDifference]:
        return iter(self.entries)

    def __getitem__(self, quantity: str) -> QuantityDifference:
        for entry in self.entries:
            if entry.quantity == quantity:
                return entry
        raise KeyError(quantity)

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        if self.kind == "runs":
            head: tuple[str, ...] = ("quantity", "largest difference", "unit", "at [s]")
            return head, [(humanise_name(e.quantity), e.difference, format_unit(e.unit), e.time) for e in self.entries]
        head = ("quantity", "first", "second", "difference", "unit")
        return head, [
            (humanise_name(e.quantity), e.first, e.second, e.difference, format_unit(e.unit)) for e in self.entries
        ]

    def __str__(self) -> str:
        head, rows = self._rows()
        cells = [head, *([format_value(cell) for cell in row] for row in rows)]
        wide = [max(len(row[k]) for row in cells) for k in range(len(head))]
        return "\n".join("  ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)) for row in cells)

    def _repr_html_(self) -> str:
        return html_table(*self._rows())


def compare(first: Run | Result, second: Run | Result) -> RunComparison:
    """Largest differences between two runs of the same systems, or two results with common rows.

    Runs are compared at the samples of the first, while both last; the second is interpolated linearly.
    """
    if isinstance(first, Run) and isinstance(second, Run):
        return RunComparison("runs", tuple(_runs(first, second)))
    if isinstance(first, Result) and isinstance(second, Result):
        return RunComparison("results", tuple(_results(first, second)))
    raise InputError("expected two runs or two results", place="compare")


def _results(first: Result, second: Result) -> Iterator[QuantityDifference]:
    other = {row.quantity: row for row in second.rows}
    for row in first.rows:
        if row.quantity not in other:
            continue
        a, b = row.value, other[row.quantity].value
        numbers = isinstance(a, Real) and isinstance(b, Real)
        size = float(b) - float(a) if numbers else 0.0 if format_value(a) == format_value(b) else np.nan
        yield QuantityDifference(row.quantity, row.unit, float(size), None, a, b)


def _runs(first: Run, second: Run) -> Iterator[QuantityDifference]:
    names = list(dict.fromkeys(track.name for track in first.tracks))
    for name in names:
        a, b = first.last_track(name), second.last_track(name)
        if a.robot.joint_names != b.robot.joint_names:
            raise InputError(f"the joints of {name!r} differ", place="compare", hint="expected the same system")
        # No extrapolation: only the interval that both runs cover.
        inside = (a.times >= b.times[0]) & (a.times <= b.times[-1])
        if not inside.any():
            raise InputError("the runs do not overlap in time", place="compare")
        for quantity, sort, values in _tracks(a, b, inside):
            worst = int(np.argmax(values))
            label = quantity if len(names) == 1 else f"{name}.{quantity}"
            yield QuantityDifference(label, sort, float(values[worst]), float(a.times[inside][worst]))


def _tracks(a: Track, b: Track, inside: Array) -> Iterator[tuple[str, str, Array]]:
    """Quantity, unit, and magnitude of the difference at each common sample."""
    times = a.times[inside]

    def pair(name: str) -> tuple[Array, Array]:
        mine, theirs = a.data[name].values[inside], b.data[name].values
        return mine, np.stack([np.interp(times, b.times, column) for column in theirs.T], axis=1)

    for name, sort in (("base_position", "m"), ("base_velocity", "m/s"), ("base_angular_velocity", "rad/s")):
        mine, theirs = pair(name)
        yield name, sort, np.linalg.norm(mine - theirs, axis=1)
    mine, theirs = pair("base_quaternion")
    # Linear interpolation leaves the unit sphere.
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    relative = np.einsum("tji,tjk->tik", rotation_matrices(mine), rotation_matrices(theirs))
    # Angle by atan2 of sine and cosine: accurate near zero, where acos is not.
    skewed = 0.5 * np.linalg.norm(
        np.stack([relative[:, i, j] - relative[:, j, i] for i, j in ((2, 1), (0, 2), (1, 0))], axis=1), axis=1
    )
    yield "base_attitude", "rad", np.arctan2(skewed, 0.5 * (np.einsum("tii->t", relative) - 1.0))
    for name, per in (("joint_position", ""), ("joint_velocity", "/s")):
        mine, theirs = pair(name) if a.robot.n else (np.zeros((len(times), 0)),) * 2
        for k, joint in enumerate(a.robot.joints):
            yield f"{name}.{joint.name}", joint.unit + per, np.abs(mine[:, k] - theirs[:, k])
