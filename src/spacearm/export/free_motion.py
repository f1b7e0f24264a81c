"""The motion of a robot alone, without end: nothing acts but the inputs of the exported code."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from spacearm.errors import InputError
from spacearm.export._motion_code import MotionCode, motion_code
from spacearm.model import Robot
from spacearm.model.massless import check_massless
from spacearm.simulate import RK4, Phase, State, close_state, simulate

#: Longest step, s, where none is given.
STEP = 1e-3
#: Steps of the exported test.
TRIAL = 8


def free_motion(robot: Robot, start: State | None = None, step: float = STEP, *, tested: bool = True) -> MotionCode:
    """A phase without end in which nothing acts but the inputs.

    Args:
        start: state at time zero; at rest without it, in the zero configuration or where loops are closed near it.
        step: longest RK4 step, s.
        tested: whether spacearm's own run under some forces is made, as a test.
    """
    check_massless(robot, [joint.name for joint in robot.joints if joint.friction is not None])
    begin = _rest(robot) if start is None else start.check(robot)
    made = motion_code(robot, begin, [Phase(1.0, limits="ignore")], RK4(step), tested=False)
    (phase,) = made.phases
    breaks = phase.signals.breaks.copy()
    # The single phase has no end: it goes on as long as the caller asks.
    breaks[-1] = math.inf
    made = replace(made, phases=(replace(phase, signals=phase.signals._replace(breaks=breaks)),))
    if not tested:
        return made
    # Small accelerations of all degrees of freedom, different ones: joints with dry friction may stick.
    force = 0.1 * robot.mass * np.cos(np.arange(robot.dofs))
    forces = dict(zip(robot.dof_names, force.tolist(), strict=True))
    trial = Phase(TRIAL * step, forces=forces, limits="ignore")
    done = simulate(robot, begin, trial, method=RK4(step), ledger=False)
    # A robot that breaks down at once is exported without this test; the importer hears -1 from the first step.
    return replace(made, end=done.states[-1], steps=TRIAL, trial=force) if done.sound else made


def _rest(robot: Robot) -> State:
    """At rest near the zero configuration, loops closed."""
    try:
        return close_state(robot, State.at_rest(robot))
    except InputError as error:
        hint = "export a motion scenario, whose [start] is near a closed configuration"
        raise InputError(f"{error.message}; a robot alone starts near zero", place="start", hint=hint) from None
