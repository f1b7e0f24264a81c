"""How a soft motion starts: from a state, or from an impact or a capture that is then part of its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spacearm.capture.impulse import Impact
from spacearm.capture.target import Caught
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.simulate import State

Start = State | Impact | Caught


def begin(robot: Robot, start: Start, held: Sequence[str]) -> tuple[State, tuple[Impact, ...]]:
    """State at time zero, and the impacts at that instant which the record must have.

    A joint that is held must stand still. To stop it takes an impact, which nobody should get without asking for it.
    """
    impacts: tuple[Impact, ...] = ()
    if isinstance(start, Caught):
        if start.robot != robot:
            raise InputError(
                f"robot {robot.name!r} does not have {start.target.name!r} in its hand",
                place="start",
                hint="give the robot of the capture, caught.robot",
            )
        state, impacts = start.state, () if start.impact is None else (start.impact,)
        remedy = "catch with held=..., the same joints that are held afterwards"
    elif isinstance(start, Impact):
        state, impacts = start.state, (start,)
        remedy = "close the clutch on it too"
    elif isinstance(start, State):
        state, remedy = start, "start from close_clutch(robot, state, joints), which stops them and is recorded"
    else:
        raise InputError(
            f"is a {type(start).__name__}", place="start", hint="expected a State, an Impact or what catch returns"
        )
    state.check(robot)
    for name in held:
        rate = float(state.rates[robot.joint_index(name)])
        if rate != 0.0:
            raise InputError(
                f"joint {name!r} moves at {rate:.3g} {robot.joint(name).unit}/s but is held: an impact would stop it",
                place="start",
                hint=f"let it move (free=[{name!r}]), or {remedy}",
            )
    return state, tuple(replace(impact, time=0.0) for impact in impacts)
