"""The separation device: springs on a slide rail between a satellite and the arm that it ejects.

The total force of the springs is piecewise linear in the travel z (m) of the arm's base along the rail. It is stored as
:class:`ForceSegment` objects from knot to knot, over which energy and moment have closed forms and each of which is one
phase of a run. Vectors are in the axes of the arm's base frame. The rail has no play: it takes up every force and
moment across its direction. Springs have no mass and no damping of their own; the rail's friction is the device's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import InputError, error_context
from spacearm.model.parts import Friction, Inertia, finite, read_only_array, unit_vector
from spacearm.typing import Array

#: A force that changes by less than this fraction along a segment is constant.
_CONSTANT = 1e-9

#: Longest rail, m: a longer one indicates wrong units.
LONGEST_RAIL = 1000.0


class ForceSegment(NamedTuple):
    """A part of the rail on which the springs' force is linear in the travel: ``force + slope * (z - start)``."""

    start: float  # m
    end: float
    force: float  # N, at the start
    slope: float  # N/m, 0 or below where springs push less as they extend

    @property
    def constant(self) -> bool:
        """Whether the force is constant along the segment."""
        return abs(self.slope) * (self.end - self.start) <= _CONSTANT * abs(self.force)

    @property
    def spring(self) -> tuple[float, float]:
        """Stiffness (N/m) and rest (m) of a spring with this force; a constant force is a very long spring."""
        if self.force == 0.0 and self.slope == 0.0:
            return 0.0, 0.0
        slope = self.slope
        if self.constant:
            # A constant force as a spring: its rest is so far away that the force falls by no more than _CONSTANT.
            slope = -_CONSTANT * max(self.force, 1e-300) / (self.end - self.start)
        return -slope, self.start - self.force / slope


@dataclass(frozen=True, eq=False)
class SeparationSpring:
    """One spring of a device: linear, or with a force that is given over the travel of the rail.

    Args:
        stiffness: of a linear spring, N/m.
        compression: of a linear spring at the start, m; if it is fully extended before the rail ends, it pushes no
            more.
        curve: in place of both, points (travel in m, force in N) from travel 0 on, linear in between.
        position: point of application in the arm's base frame, m. A rail without play takes up the moment: only its
            loads depend on it.
    """

    stiffness: float | None = None
    compression: float | None = None
    curve: npt.ArrayLike | None = None
    position: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        place = "separation spring"
        object.__setattr__(self, "position", read_only_array(self.position, (3,), "position of a separation spring"))
        # One way of giving a spring, not both and not none.
        linear = self.stiffness is not None or self.compression is not None
        if linear == (self.curve is not None):
            raise InputError(
                "has both a curve and a stiffness" if linear else "has no force",
                place=place,
                hint="expected stiffness and compression, or a curve",
            )
        if self.curve is None:
            for name in ("stiffness", "compression"):
                value = getattr(self, name)
                if value is None:
                    raise InputError(f"has no {name}", place=place, hint="expected stiffness and compression")
                object.__setattr__(self, name, finite(value, f"{name} of a separation spring", above=0.0))
            return
        hint = "expected two or more points (travel, force)"
        points = np.array(checks.array(self.curve, "curve", ("points", 2), place=place, hint=hint))
        # From zero on: before the release the springs push at travel zero.
        checks.check_increasing(points[:, 0], "travel of the curve", count=2, start=0.0, place=place)
        checks.array(points[:, 1], "force of the curve", least=0.0, unit="N", place=place)
        points.setflags(write=False)
        object.__setattr__(self, "curve", points)

    @property
    def knots(self) -> Array:
        """Points (travel, force) between which the force is linear; zero after the last if that is zero."""
        if self.curve is not None:
            return np.asarray(self.curve)
        assert self.stiffness is not None
        assert self.compression is not None
        return np.array([[0.0, self.stiffness * self.compression], [self.compression, 0.0]])

    def force(self, travel: npt.ArrayLike) -> Array:
        """Force (...) at these travels, N."""
        knots = self.knots
        return np.asarray(np.interp(np.asarray(travel, dtype=np.float64), knots[:, 0], knots[:, 1], right=0.0))


@dataclass(frozen=True, eq=False)
class SeparationDevice:
    """Parallel springs that push the arm's base along a straight rail.

    Args:
        stiffness: of one of several equal springs, N/m; left out where ``springs`` are given one by one.
        stroke: length of the rail, m: the springs push over it, then the arm leaves.
        springs: number of equal parallel springs, or the individual springs (:class:`SeparationSpring`): unequal
            springs, springs that end one after another, force curves.
        direction: of the ejection, unit vector in the axes of the arm's base frame.
        compression: of equal springs at the start, m; if omitted, the stroke, so that the arm leaves at zero force.
        friction: dry friction of the rail, N.
        damping: viscous friction of the rail, N s/m.
        satellite: inertia of the satellite in the arm's base frame before the ejection; if omitted, the satellite is
            infinitely heavy (assumption 3 of Cai et al. 2023).
        pivot: point of the arm's base frame (m) about which an infinitely heavy satellite rotates, if it does.
    """

    stiffness: float | None = None
    stroke: float = 0.0
    springs: int | Sequence[SeparationSpring] = 1
    direction: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    compression: float | None = None
    friction: Friction | None = None
    damping: float = 0.0
    satellite: Inertia | None = None
    pivot: Array | None = None

    def __post_init__(self) -> None:
        place = "separation device"
        checks.check_fields(self, finite, "stroke", above=0.0, most=LONGEST_RAIL, place=place, unit="m")
        checks.check_fields(self, finite, "damping", least=0.0, place=place)
        with error_context(place, fallback=True):
            object.__setattr__(self, "direction", unit_vector(self.direction, "rail direction"))
            if self.pivot is not None:
                object.__setattr__(self, "pivot", read_only_array(self.pivot, (3,), "pivot of the satellite"))
        # A number stands for equal springs; a list has a force curve for each.
        if isinstance(self.springs, Sequence):
            self._check_single_springs(place)
        else:
            self._check_equal_springs(place)
        # An arm that does not start would wait on the rail until the time limit: it is rejected here, with the forces.
        held = 0.0 if self.friction is None else self.friction.static
        if held >= self.segments[0].force:
            if not held:
                raise InputError("the springs do not push at the start", place=place, hint="expected a force above 0 N")
            raise InputError(
                f"rail friction {held:g} N holds the springs' {self.segments[0].force:g} N",
                place=place,
                hint="expected less static friction than spring force",
            )
        if self.satellite is not None and self.satellite.mass <= 0.0:
            raise InputError("the satellite has no mass", place=place, hint="omit it for an infinitely heavy one")
        if self.satellite is not None and self.pivot is not None:
            raise InputError(
                "a satellite with an inertia has a pivot", place=place, hint="it rotates freely: omit the pivot"
            )

    def _check_single_springs(self, place: str) -> None:
        springs: tuple[Any, ...] = self.single
        object.__setattr__(self, "springs", springs)
        if not springs or not all(isinstance(spring, SeparationSpring) for spring in springs):
            raise InputError(
                "springs are not a list of SeparationSpring", place=place, hint="expected one or more of them"
            )
        for name in ("stiffness", "compression"):
            if getattr(self, name) is not None:
                raise InputError(
                    f"{name} is given in addition to individual springs", place=place, hint="each of them has its own"
                )
        for spring in springs:
            travel, force = spring.knots[-1]
            if travel < self.stroke and force > 0.0:
                raise InputError(
                    f"a curve ends at {travel:g} m with {force:g} N, the rail at {self.stroke:g} m",
                    place=place,
                    hint="expected a curve over the whole stroke, or one that ends at 0 N",
                )

    def _check_equal_springs(self, place: str) -> None:
        object.__setattr__(self, "springs", checks.integer(self.springs, "number of springs", least=1, place=place))
        if self.stiffness is None:
            raise InputError("the springs have no stiffness", place=place, hint="expected N/m, or individual springs")
        checks.check_fields(self, finite, "stiffness", above=0.0, place=place, unit="N/m")
        given = self.stroke if self.compression is None else self.compression
        preload = checks.number(given, "compression", place=place)
        if preload <= 0.0:
            raise InputError(
                f"the springs are fully extended at the start: compression {preload:g} m",
                place=place,
                hint="expected a compression above zero, at least the stroke",
            )
        if preload < self.stroke:
            raise InputError(
                f"the springs, compressed by {preload:g} m, are fully extended before the end of the "
                f"{self.stroke:g} m rail",
                place=place,
                hint="expected a compression of at least the stroke",
            )
        object.__setattr__(self, "compression", preload)

    @property
    def linear(self) -> bool:
        """Whether all springs together are one linear spring: equal ones, given by number."""
        return self.compression is not None

    @property
    def single(self) -> tuple[SeparationSpring, ...]:
        """The springs if they were given individually; empty for equal springs."""
        return () if isinstance(self.springs, int) else tuple(self.springs)

    @property
    def total_stiffness(self) -> float:
        """Total stiffness K of all springs, N/m: the ``k`` of every equation of the paper. For individual springs:
        their slope at the start.
        """
        if self.linear:
            assert self.stiffness is not None
            assert isinstance(self.springs, int)
            return self.springs * self.stiffness
        return -self.segments[0].slope

    @property
    def preload(self) -> float:
        """Compression of equal springs at the start, m."""
        if self.compression is None:
            raise InputError("individual springs have no common compression", place="separation device")
        return self.compression

    @cached_property
    def segments(self) -> tuple[ForceSegment, ...]:
        """The total force of the springs along the rail, from knot to knot."""
        if self.linear:
            stiffness = self.total_stiffness
            return (ForceSegment(0.0, self.stroke, stiffness * self.preload, -stiffness),)
        # Knots of all springs together; a set, since equal springs share theirs.
        inner = {float(z) for spring in self.single for z in spring.knots[:, 0] if 0.0 < z < self.stroke}
        edges = [0.0, *sorted(inner), self.stroke]
        found = []
        for start, end in pairwise(edges):
            first, last = self.force([start, end]).tolist()
            found.append(ForceSegment(start, end, first, (last - first) / (end - start)))
        return tuple(found)

    def force(self, travel: npt.ArrayLike) -> Array:
        """Total force (...) of the springs at these travels (...), N."""
        z = np.asarray(travel, dtype=np.float64)
        if self.linear:
            return np.asarray(self.total_stiffness * (self.preload - z))
        return np.asarray(np.sum([spring.force(z) for spring in self.single], axis=0))

    def moment(self, travel: npt.ArrayLike) -> Array:
        """Moment (..., 3) of the springs about the origin of the arm's base frame, its axes, N m."""
        z = np.asarray(travel, dtype=np.float64)
        found = np.zeros((*z.shape, 3))
        for spring in self.single:
            found += spring.force(z)[..., None] * np.cross(spring.position, self.direction)
        return found

    def remaining_energy(self, travel: npt.ArrayLike) -> Array:
        """Energy (...) that the springs still release from these travels to the end of the rail, J."""
        z = np.asarray(travel, dtype=np.float64)
        left = np.zeros(z.shape)
        for segment in self.segments:
            low, high = np.clip(z, segment.start, segment.end) - segment.start, segment.end - segment.start
            # The integral of force + slope z over what is left of the segment.
            left += segment.force * (high - low) + 0.5 * segment.slope * (high**2 - low**2)
        return left

    @property
    def energy(self) -> float:
        """Energy that the springs release along the rail, J."""
        if not self.linear:
            return float(self.remaining_energy(0.0))
        # In closed form: the sum over segments would round.
        return 0.5 * self.total_stiffness * (self.preload**2 - (self.preload - self.stroke) ** 2)

    @property
    def heavy(self) -> bool:
        """Whether the satellite is infinitely heavy."""
        return self.satellite is None

    def quarter_period(self, mass: float) -> float:
        """Time (s) from rest to the end of the stroke of a rigid mass on a heavy satellite, without friction.

        ``pi / 2 * sqrt(mass / K)`` if the arm leaves at zero force. For individual springs that of a linear spring with
        the same energy, which gives the order of magnitude.
        """
        if not self.linear:
            # E = k s^2 / 2 gives k, and with it pi / 2 sqrt(m / k).
            return 0.5 * math.pi * self.stroke * math.sqrt(0.5 * mass / self.energy)
        share = (self.preload - self.stroke) / self.preload
        return math.acos(share) * math.sqrt(mass / self.total_stiffness)
