"""On-off damping: each damper is switched between two values by what its own axis does.

Balance logic (S. Rakheja, S. Sankar, Vibration and shock isolation performance of a semi-active "on-off" damper,
J. Vibration, Acoustics, Stress and Reliability in Design 107, 1985): the damper works only while its force opposes
the spring's, that is on the way back to rest. On the way out it would add to what the joint passes on. The load through
an axis is then never more than its spring's alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.simulate import Event, State
from spacearm.typing import Array

#: Deformation (m, rad) and rate (m/s, rad/s) that together count as none.
AT_REST = 1e-9


@dataclass(frozen=True)
class OnOff:
    """An adjustable damper, 0 to 5 N s/m or N m s/rad as the paper's unless said otherwise.

    Args:
        on: damping while an axis goes back towards rest.
        off: damping while it goes out.
        axes: ``on`` for single axes by joint name.
    """

    on: float = 5.0
    off: float = 0.0
    axes: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("on", self.on), ("off", self.off), *self.axes.items()):
            if not (math.isfinite(value) and value >= 0.0):
                raise InputError(f"damping {name!r} is {value}", place="on-off law", hint="expected at least 0")

    def of(self, axis: str) -> float:
        """Damping of an axis while it is on."""
        return self.axes.get(axis, self.on)

    def damping(self, robot: Robot, axes: Sequence[str], state: State) -> Array:
        """Damping of every joint (n) in this state."""
        values = np.array([joint.damping for joint in robot.joints])
        for name in axes:
            i = robot.joint_index(name)
            spring = robot.joints[i].spring
            out = (state.joints[i] - (spring.rest if spring else 0.0)) * state.rates[i]
            values[i] = self.of(name) if out < 0.0 else self.off
        return values

    @staticmethod
    def moves(robot: Robot, axis: str, state: State) -> bool:
        """Whether an axis moves so that its damper has something to do."""
        i = robot.joint_index(axis)
        spring = robot.joints[i].spring
        return bool(abs(state.rates[i]) + abs(state.joints[i] - (spring.rest if spring else 0.0)) > AT_REST)

    def crossings(self, robot: Robot, axes: Sequence[str]) -> list[Event]:
        """Events at which a damper switches."""
        found = []
        for name in axes:
            spring = robot.joint(name).spring
            found += [Event(name, spring.rest if spring else 0.0), Event(f"{name}.rate", 0.0)]
        return found
