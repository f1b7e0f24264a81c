"""Hits: force and torque pulses of any profile at any frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.fuse import located
from spacearm.model.parts import frozen_array
from spacearm.simulate import Load, Signal, approximate, half_sine, pulse, triangle
from spacearm.typing import Array

Profile = Literal["rectangle", "half-sine", "triangle"] | Signal | Callable[[Array], npt.ArrayLike]
_SHAPES = {"rectangle": pulse, "half-sine": half_sine, "triangle": triangle}


@dataclass(frozen=True, eq=False)
class Hit:
    """A wrench at a frame that comes and goes.

    Args:
        frame: where it acts: a frame or a body of the robot.
        force: N, its peak.
        moment: N m, its peak.
        duration: s.
        start: s, from the start of the run.
        profile: ``rectangle``, ``half-sine``, ``triangle``; a signal of time since the hit's start, or a function of
            that time (an array of s), whose values scale force and moment. Outside the duration nothing acts.
        axes: ``world``, or ``frame`` for a wrench that turns with the frame.
    """

    frame: str
    force: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moment: tuple[float, float, float] = (0.0, 0.0, 0.0)
    duration: float = 0.01
    start: float = 0.0
    profile: Profile = "rectangle"
    axes: Literal["world", "frame"] = "frame"

    def __post_init__(self) -> None:
        place = f"hit at {self.frame!r}"
        with located(place):
            for name in ("force", "moment"):
                x, y, z = map(float, frozen_array(getattr(self, name), (3,), name))
                object.__setattr__(self, name, (x, y, z))
        if not (math.isfinite(self.duration) and self.duration > 0.0):
            raise InputError(f"lasts {self.duration} s", place=place, hint="expected seconds above zero")
        if not (math.isfinite(self.start) and self.start >= 0.0):
            raise InputError(f"starts at {self.start} s", place=place, hint="expected seconds from zero on")
        shape = self.profile
        if shape not in _SHAPES if isinstance(shape, str) else not (isinstance(shape, Signal) or callable(shape)):
            raise InputError(
                f"profile is {self.profile!r}", place=place, hint="expected rectangle, half-sine, triangle, or a signal"
            )

    @property
    def end(self) -> float:
        """When it is over, s from the start of the run."""
        return self.start + self.duration

    @property
    def wrench(self) -> Array:
        """Peak force and moment (6)."""
        return np.array([*self.force, *self.moment], dtype=np.float64)

    @property
    def signal(self) -> Signal:
        """The profile over time, peak 1."""
        if isinstance(self.profile, str):
            return _SHAPES[self.profile](1.0, self.start, self.duration)
        if isinstance(self.profile, Signal):
            return _windowed(self.profile, self.duration).shifted(self.start)
        return _windowed(approximate(self.profile, 0.0, self.duration), self.duration).shifted(self.start)

    @property
    def impulse(self) -> Array:
        """Time integral of the wrench, in the axes in which it is given: N s and N m s (6)."""
        signal = self.signal
        total = 0.0
        for p in range(1, signal.breaks.size - 2):
            width = signal.breaks[p + 1] - signal.breaks[p]
            powers = np.arange(1, signal.coefficients.shape[0] + 1)
            total += float(np.sum(signal.coefficients[:, p] * width**powers / powers))
        return total * self.wrench

    def load(self, robot: Robot) -> Load:
        """The load on this robot; an unknown frame is an error."""
        try:
            robot.frame(self.frame)
        except InputError as error:
            error.place = "hit"
            raise
        signal = self.signal
        return Load(self.frame, tuple(signal * float(entry) for entry in self.wrench), self.axes)


def as_hits(hits: Hit | Iterable[Hit]) -> tuple[Hit, ...]:
    """One hit or several as a tuple; anything else is an error."""
    found = (hits,) if isinstance(hits, Hit) or not isinstance(hits, Iterable) else tuple(hits)
    for hit in found:
        if not isinstance(hit, Hit):
            raise InputError(
                f"is a {type(hit).__name__}", place="hits", hint="expected Hits; a state or a capture is a start"
            )
    return found


def _windowed(signal: Signal, duration: float) -> Signal:
    """The signal during [0, duration), zero outside."""
    inner = signal.breaks[(signal.breaks > 0.0) & (signal.breaks < duration)]
    edges = np.array([0.0, *inner, duration])
    pieces = np.clip(np.searchsorted(signal.breaks, 0.5 * (edges[1:] + edges[:-1])) - 1, 0, signal.breaks.size - 2)
    columns = []
    for left, piece in zip(edges[:-1], pieces, strict=True):
        moved = np.polynomial.Polynomial(signal.coefficients[:, piece])(
            np.polynomial.Polynomial([left - signal.breaks[piece], 1.0])
        )
        columns.append(np.pad(moved.coef, (0, signal.coefficients.shape[0] - moved.coef.size)))
    inside = np.stack(columns, axis=1)
    return Signal(np.array([-1.0, *edges, duration + 1.0]), np.pad(inside, ((0, 0), (1, 1))))
