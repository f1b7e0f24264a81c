"""Wrenches that act on frames: contacts, thrusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.mechanics import LoadFrame
from spacearm.model import Robot
from spacearm.simulate.checks import numbers
from spacearm.simulate.signals import Signal, as_signal

_ENTRIES = ("fx", "fy", "fz", "mx", "my", "mz")


@dataclass(frozen=True, eq=False)
class Load:
    """A wrench at a frame's origin: force (N) and moment (N m), each entry a number or a signal.

    ``axes``: ``world`` or ``frame`` (the wrench turns with the frame).
    """

    frame: str
    wrench: tuple[Signal, ...]
    axes: Literal["world", "frame"] = "world"

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
    def along(
        cls,
        frame: str,
        direction: npt.ArrayLike,
        force: Any,
        *,
        axes: Literal["world", "frame"] = "world",
        moment: bool = False,
    ) -> Load:
        """A force (or a moment) of this size along a fixed direction, given as a vector of any length."""
        vector = numbers(direction, f"direction of the load on {frame!r}")
        length = float(np.linalg.norm(vector))
        if vector.shape != (3,) or not np.isfinite(length) or length == 0.0:
            raise InputError(f"direction is {vector.tolist()}", place=f"load on {frame!r}", hint="expected a vector")
        size = as_signal(force, f"load on {frame!r}")
        zero = as_signal(0.0, "")
        entries = [size * float(part) if part else zero for part in vector / length]
        silent = [zero] * 3
        return cls(frame, (*silent, *entries) if moment else (*entries, *silent), axes)

    @property
    def place(self) -> LoadFrame:
        return LoadFrame(self.frame, self.axes)


def firing(robot: Robot, thruster: str, level: Any = 1.0) -> Load:
    """A thruster that fires: ``level`` (number or signal, 1 is full thrust) times its force, fixed in its body."""
    part = robot.thruster(thruster)
    force = part.force * part.direction
    wrench = np.concatenate([force, np.cross(part.position, force)])
    throttle = as_signal(level, f"thruster {thruster!r}")
    return Load(part.body, tuple(throttle * float(entry) for entry in wrench), "frame")
