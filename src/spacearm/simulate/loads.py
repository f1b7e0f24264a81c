"""Wrenches on frames as functions of time: pulses, thrusters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import numbers
from spacearm.errors import InputError, error_context
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Robot
from spacearm.model.parts import read_only_array
from spacearm.simulate.signals import Signal, approximate, as_signal, half_sine, pulse, triangle
from spacearm.typing import Array

_ENTRIES = ("fx", "fy", "fz", "mx", "my", "mz")
_SHAPES = {"rectangle": pulse, "half-sine": half_sine, "triangle": triangle}
#: Profile of a pulse: by name, as a signal, or as a function of time since its start (an array of s).
Profile = Literal["rectangle", "half-sine", "triangle"] | Signal | Callable[[Array], npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Load:
    """A wrench at a frame's origin: force (N) and moment (N m), each entry a number or a signal.

    ``axes``: ``world`` or ``frame`` (the wrench rotates with the frame). ``source``: the thruster that it comes from.
    """

    frame: str
    wrench: tuple[Signal, ...]
    axes: Literal["world", "frame"] = "world"
    source: str = ""

    def __post_init__(self) -> None:
        entries = tuple(self.wrench)
        if len(entries) != 6:
            raise InputError(f"has {len(entries)} entries", place=f"load on {self.frame!r}", hint="expected 6: f, m")
        signals = tuple(
            as_signal(entry, f"load on {self.frame!r}, {name}") for entry, name in zip(entries, _ENTRIES, strict=True)
        )
        object.__setattr__(self, "wrench", signals)
        LoadFrame(self.frame, self.axes)  # checks the axes

    @classmethod
    def from_direction(
        cls,
        frame: str,
        direction: npt.ArrayLike,
        force: Any,
        *,
        axes: Literal["world", "frame"] = "world",
        moment: bool = False,
    ) -> Load:
        """A force (or a moment) of this magnitude along a fixed direction, given as a vector of any length."""
        vector = numbers(direction, f"direction of the load on {frame!r}")
        length = float(np.linalg.norm(vector))
        if vector.shape != (3,) or not np.isfinite(length) or length == 0.0:
            raise InputError(f"direction is {vector.tolist()}", place=f"load on {frame!r}",
                             hint="expected three numbers, not all zero")  # fmt: skip
        size = as_signal(force, f"load on {frame!r}")
        zero = as_signal(0.0, "")
        # Exact zeros stay zero signals: they need no channel.
        entries = [size * float(part) if part else zero for part in vector / length]
        silent = [zero] * 3
        return cls(frame, (*silent, *entries) if moment else (*entries, *silent), axes)

    @classmethod
    def pulse(
        cls,
        frame: str,
        force: npt.ArrayLike = (0.0, 0.0, 0.0),
        moment: npt.ArrayLike = (0.0, 0.0, 0.0),
        duration: float = 0.01,
        start: float = 0.0,
        profile: Profile = "rectangle",
        axes: Literal["world", "frame"] = "frame",
    ) -> Load:
        """A pulse of force and moment.

        Args:
            force, moment: at the peak, N and N m.
            duration, start: s.
            profile: ``rectangle``, ``half-sine``, ``triangle``; a signal of time since the start, or a function of that
                time, whose values scale force and moment. The wrench is zero outside the duration.
        """
        place = f"load on {frame!r}"
        with error_context(place, fallback=True):
            peak = np.concatenate([read_only_array(force, (3,), "force"), read_only_array(moment, (3,), "moment")])
        if not (math.isfinite(duration) and duration > 0.0):
            raise InputError(f"lasts {duration} s", place=place, hint="expected seconds above zero")
        if not (math.isfinite(start) and start >= 0.0):
            raise InputError(f"starts at {start} s", place=place, hint="expected seconds, zero or more")
        if isinstance(profile, str) and profile in _SHAPES:
            signal = _SHAPES[profile](1.0, start, duration)
        elif isinstance(profile, Signal):
            # Zero outside the duration, before it is moved to its start.
            signal = profile.window(duration).shift(start)
        elif callable(profile):
            signal = approximate(profile, 0.0, duration).window(duration).shift(start)
        else:
            raise InputError(
                f"profile is {profile!r}", place=place, hint="expected rectangle, half-sine, triangle, or a signal"
            )
        return cls(frame, tuple(signal * float(entry) for entry in peak), axes)

    @property
    def place(self) -> LoadFrame:
        return LoadFrame(self.frame, self.axes)

    @property
    def span(self) -> tuple[float, float]:
        """Start and end of the time during which an entry is not zero, s. Infinite without an end; equal if it is zero
        throughout.
        """
        spans = [entry.span for entry in self.wrench if np.any(entry.coefficients)]
        return min((a for a, _ in spans), default=0.0), max((b for _, b in spans), default=0.0)

    @property
    def impulse(self) -> Array:
        """Time integral of the wrench in the axes in which it is given: N s and N m s (6)."""
        return np.array([entry.integral for entry in self.wrench])

    def clip_to_phase(self, start: float, end: float, shortest: float = 0.0) -> Load:
        """The load in a phase from ``start`` to ``end`` (s), with time from there; zero where it does not act."""
        first, last = self.span
        # Zero signals instead of no load: phases keep the same frames and share a compiled program.
        if last <= start + shortest or first >= end - shortest:
            return replace(self, wrench=(as_signal(0.0, ""),) * 6)
        return replace(self, wrench=tuple(entry.shift(-start) for entry in self.wrench))


def thrust_wrench(robot: Robot, thruster: str) -> Array:
    """Wrench (6,) of a thruster at full thrust at the origin of its body, body axes."""
    part = robot.thruster(thruster)
    force = part.force * part.direction
    return np.concatenate([force, np.cross(part.position, force)])


def thruster_load(robot: Robot, thruster: str, level: Any = 1.0) -> Load:
    """A thruster that fires: ``level`` (number or signal, 1 is full thrust) times its force, fixed in its body."""
    wrench, throttle = thrust_wrench(robot, thruster), as_signal(level, f"thruster {thruster!r}")
    return Load(robot.thruster(thruster).body, tuple(throttle * float(entry) for entry in wrench), "frame", thruster)
