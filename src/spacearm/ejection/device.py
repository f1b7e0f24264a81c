"""The separation device: springs on a slide rail between a satellite and the arm that it throws off."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from spacearm.errors import InputError
from spacearm.model.parts import Friction, Inertia, finite, unit_vector
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Device:
    """Parallel springs that push the arm's base along a straight rail.

    Args:
        stiffness: of one spring, N/m.
        stroke: length of the rail, m: the springs push over it, then the arm leaves.
        springs: how many act side by side.
        direction: of the ejection, unit vector in the axes of the arm's base frame.
        compression: of the springs at the start, m; left out, it is the stroke, so that the arm leaves at zero force.
        friction: dry friction of the rail, N.
        damping: viscous friction of the rail, N s/m.
        satellite: inertia of the satellite in the arm's base frame as it stands before the ejection; left out, the
            satellite is infinitely heavy (assumption 3 of Cai et al. 2023).
    """

    stiffness: float
    stroke: float
    springs: int = 1
    direction: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    compression: float | None = None
    friction: Friction | None = None
    damping: float = 0.0
    satellite: Inertia | None = None

    def __post_init__(self) -> None:
        place = "separation device"
        try:
            object.__setattr__(self, "stiffness", finite(self.stiffness, "stiffness of a spring", above=0.0))
            object.__setattr__(self, "stroke", finite(self.stroke, "stroke"))
            object.__setattr__(self, "damping", finite(self.damping, "rail damping", least=0.0))
            object.__setattr__(self, "direction", unit_vector(self.direction, "rail direction"))
            preload = self.stroke if self.compression is None else finite(self.compression, "compression")
        except InputError as error:
            error.place = error.place or place
            raise
        if isinstance(self.springs, bool) or not isinstance(self.springs, Integral) or self.springs < 1:
            raise InputError(
                f"number of springs is {self.springs!r}", place=place, hint="expected a whole number, 1 or more"
            )
        object.__setattr__(self, "springs", int(self.springs))
        if self.stroke <= 0.0:
            raise InputError(f"the rail has length {self.stroke:g} m", place=place, hint="expected a stroke above zero")
        if preload <= 0.0:
            raise InputError(
                f"the springs are already spent: compression {preload:g} m",
                place=place,
                hint="expected a compression above zero, at least the stroke",
            )
        if preload < self.stroke:
            raise InputError(
                f"the springs, compressed by {preload:g} m, are spent before the rail of {self.stroke:g} m ends",
                place=place,
                hint="expected a compression of at least the stroke",
            )
        object.__setattr__(self, "compression", preload)
        if self.friction is not None and self.friction.static >= self.total_stiffness * preload:
            raise InputError(
                f"rail friction {self.friction.static:g} N holds the springs' {self.total_stiffness * preload:g} N",
                place=place,
                hint="expected less static friction than spring force",
            )
        if self.satellite is not None and self.satellite.mass <= 0.0:
            raise InputError("the satellite has no mass", place=place, hint="leave it out for an infinitely heavy one")

    @property
    def total_stiffness(self) -> float:
        """K of all springs together, N/m: the ``k`` of every equation of the paper."""
        return self.springs * self.stiffness

    @property
    def preload(self) -> float:
        """Compression at the start, m."""
        assert self.compression is not None
        return self.compression

    @property
    def energy(self) -> float:
        """Energy that the springs give off along the rail, J."""
        return 0.5 * self.total_stiffness * (self.preload**2 - (self.preload - self.stroke) ** 2)

    @property
    def heavy(self) -> bool:
        """Whether the satellite is infinitely heavy."""
        return self.satellite is None

    def quarter_period(self, mass: float) -> float:
        """Time (s) from rest to the end of the stroke of a rigid mass on a heavy satellite, without friction.

        ``pi / 2 * sqrt(mass / K)`` where the arm leaves at zero force.
        """
        share = (self.preload - self.stroke) / self.preload
        return math.acos(share) * math.sqrt(mass / self.total_stiffness)
