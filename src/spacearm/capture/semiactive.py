"""On-off damping: each damper is switched between two values by the motion of its own axis.

Balance logic (S. Rakheja, S. Sankar, Vibration and shock isolation performance of a semi-active "on-off" damper, J.
Vibration, Acoustics, Stress and Reliability in Design 107, 1985): the damper works only while its force opposes the
spring's, that is, while the axis returns to rest. On the outward motion it would add to the transmitted load. The load
through an axis is then never more than that of its spring alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spacearm.checks import non_negative
from spacearm.model import Robot
from spacearm.simulate import Event, State

#: Deformation (m, rad) and rate (m/s, rad/s) below which an axis counts as at rest.
AT_REST = 1e-9


@dataclass(frozen=True)
class OnOff:
    """An adjustable damper, by default 0 to 5 N s/m or N m s/rad as in the paper.

    Args:
        on: damping while an axis returns towards rest.
        off: damping while it moves outwards.
        axes: ``on`` for single axes by joint name.
    """

    on: float = 5.0
    off: float = 0.0
    axes: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("on", self.on), ("off", self.off), *self.axes.items()):
            non_negative(value, f"damping {name!r}", place="on-off law")

    def damping_when_on(self, axis: str) -> float:
        """Damping of an axis while it is on."""
        return self.axes.get(axis, self.on)

    def damping(self, robot: Robot, axes: Sequence[str], state: State) -> dict[str, float]:
        """Damping of these axes in this state."""
        moving = {name: _deformation(robot, name, state) for name in axes}
        return {
            name: self.damping_when_on(name) if gone * rate < 0.0 else self.off for name, (gone, rate) in moving.items()
        }

    @staticmethod
    def moves(robot: Robot, axis: str, state: State) -> bool:
        """Whether an axis moves enough for its damper to act."""
        return sum(map(abs, _deformation(robot, axis, state))) > AT_REST

    @staticmethod
    def events(robot: Robot, axes: Sequence[str]) -> list[Event]:
        """Events at which a damper switches."""
        # The product of deflection and rate changes its sign where either is zero: both are events, for each axis.
        springs = {name: robot.joint(name).spring for name in axes}
        switches = [Event(name, spring.rest if spring else 0.0) for name, spring in springs.items()]
        return switches + [Event(f"{name}.rate", 0.0) for name in axes]


def _deformation(robot: Robot, axis: str, state: State) -> tuple[float, float]:
    """Distance of an axis from rest (m, rad), and its rate."""
    i, spring = robot.joint_index(axis), robot.joint(axis).spring
    return float(state.joints[i] - (spring.rest if spring else 0.0)), float(state.rates[i])
