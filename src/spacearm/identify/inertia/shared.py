"""Compiled mechanics of a robot, made once for all experiments and equations."""

from __future__ import annotations

from functools import lru_cache

from spacearm.engine import Mechanics
from spacearm.model import Robot


@lru_cache(maxsize=64)
def mechanics_of(robot: Robot) -> Mechanics:
    """The robot's :class:`spacearm.engine.Mechanics`; equal robots share one."""
    return Mechanics(robot)
