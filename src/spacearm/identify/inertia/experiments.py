"""Simulated experiments: a :class:`.State`, and :class:`.Phase` s made from what is commanded.

What is commanded is the same as in a :class:`spacearm.measure.Record`: a path for each joint that moves, the others are
locked, and a level for each thruster that fires, from 0 to 1, which holds from break to break. Phases are cut where a
thruster switches, so that forces are constant within each. :func:`run_experiment` integrates them so tightly that base
parameters come back to 1e-9 from readings without noise; ``spacearm.measure.record_run`` reads the sensors.

The start of :func:`start_state` has the world's origin at the robot's mass centre: positions then stay small, and so
does rounding in the angular momentum about the origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spacearm.checks import check_name, positive
from spacearm.engine import mechanics_of
from spacearm.errors import InputError, SimulationError
from spacearm.identify.inertia.prepare_record import SAME, firing_intervals, join_edges
from spacearm.model import Robot
from spacearm.simulate import Dopri853, Phase, Run, Signal, State, simulate, thruster_load
from spacearm.typing import Array

#: Tight enough that base parameters come back to 1e-9 from noise-free data.
EXACT = Dopri853(rtol=2e-14, atol=1e-17)


def start_state(
    robot: Robot,
    configuration: npt.ArrayLike | str = "zero",
    base_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
    base_angular_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
) -> State:
    """State with joints (n, or the name of a configuration) at rest and the robot's mass centre at the world's origin;
    velocities of the base in world axes (m/s, rad/s)."""
    joints = State.at_rest(robot, configuration).joints
    return State.from_velocities(
        robot,
        joints,
        position=-mechanics_of(robot).centre_of_mass(joints),
        base_velocity=base_velocity,
        base_angular_velocity=base_angular_velocity,
    )


def command_phases(robot: Robot, commands: Mapping[str, Signal], duration: float) -> list[Phase]:
    """Phases in which joints follow their paths, the others are locked, and thrusters fire at their levels; modes are
    free.

    Args:
        commands: joint to path (rad or m), thruster to level; times count from the start.
        duration: of all phases together, s.
    """
    positive(duration, "duration", unit="s", place="experiment")
    names = *robot.joint_names, *(part.name for part in robot.thrusters)
    for name in commands:
        check_name(name, names, "joint or thruster", place="experiment")
    paths = {name: signal for name, signal in commands.items() if name in robot.joint_names}
    locked = [name for name in robot.joint_names if name not in paths and name not in robot.mode_names]
    firings = {name: firing_intervals(name, commands[name], duration) for name in commands if name not in paths}
    phases = []
    for low, high in pairwise(join_edges(firings.values(), duration)):
        # By the middle: whether an edge belongs to an interval is a matter of rounding.
        middle = 0.5 * (low + high)
        loads = [
            thruster_load(robot, name, level)
            for name, intervals in firings.items()
            for start, end, level in intervals
            if start <= middle < end
        ]
        driven = {name: path.shift(-low) for name, path in paths.items()}
        phases.append(Phase(high - low, locked=locked, driven=driven, loads=loads, limits="ignore"))
    return phases


def run_experiment(
    robot: Robot,
    start: State,
    phases: Sequence[Phase],
    period: float,
    *,
    method: Dopri853 = EXACT,
    ledger: bool = True,
    inertia: Array | None = None,
) -> Run:
    """The motion of the robot as it is, or with other inertias (10(n + 1)), sampled every ``period`` s.

    A sample at the end of a phase is taken in the phase that begins, where its forces and accelerations belong.
    """
    ends = np.cumsum([phase.duration for phase in phases])
    duration = float(ends[-1])
    # A whisker more, so that the last sample of a whole number of periods is there.
    times = np.arange(0.0, duration * (1 + 1e-12), period)
    if times.size < 2:
        raise InputError(
            f"the experiment lasts {duration:g} s, samples are {period:g} s apart",
            hint="expected two samples or more",
        )
    for end in ends[:-1]:
        # Rounding must not leave the sample in the phase that ends; a few units in the last place move no reading.
        times[np.abs(times - end) < SAME] = end + 4.0 * np.spacing(end)
    overrides = None if inertia is None else {"inertia": np.asarray(inertia).ravel()}
    run = simulate(robot, start, phases, sample=times, method=method, ledger=ledger, overrides=overrides)
    if run.end_time < times[-1] - SAME:
        raise SimulationError(
            f"the experiment ended at {run.end_time:.6g} s of {duration:g} s: {run.why}",
            hint="a slower motion, or weaker forces",
        )
    return run


def start_momentum(robot: Robot, start: State) -> Array:
    """Momentum and angular momentum (6,) about the world's origin, world axes, N s and N m s."""
    base = np.concatenate([start.position, start.quaternion])
    return mechanics_of(robot).momentum(start.joints, start.velocity, base=base)
