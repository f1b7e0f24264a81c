"""What programs are made from: the structure of robots. Their numbers are inputs, so equal structures share code."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from spacearm.model import Robot

Value = TypeVar("Value")


@dataclass(frozen=True)
class Keyed(Generic[Value]):
    """A value that caches know by its key alone: of equal keys they keep what was made from the first."""

    key: Hashable
    value: Value = field(compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: keys are deep, and looked up time and again."""
        return hash(self.key)


def structure(robot: Robot, frames: Iterable[str] = ()) -> Hashable:
    """Structure key of a robot: the constants of its programs, and the placements of these frames.

    Names, the tree, axes, placements, gear ratios, how the base may move. Inertias, springs, dampers and friction are
    inputs of programs.
    """
    return robot.structure, robot.base, tuple(robot.frame(name) for name in frames)
