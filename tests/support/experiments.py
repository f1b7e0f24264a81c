"""Simulated experiments of tests: joints through nodes, thrusters that fire, and what sensors read of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.identify.inertia import MotionRecord, command_phases, prepare_record, run_experiment, start_state
from spacearm.identify.inertia.design import Experiment
from spacearm.identify.inertia.experiments import start_momentum
from spacearm.measure import record_run
from spacearm.measure.sensors import shared_period
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.simulate import pulse, spline

Nodes = tuple[npt.ArrayLike, npt.ArrayLike]


def experiment(
    robot: Robot,
    duration: float,
    configuration: npt.ArrayLike | str = "zero",
    nodes: Mapping[str, Nodes] | None = None,
    firings: Sequence[tuple[str, float, float, float]] = (),
    **velocities: Any,
) -> Experiment:
    """Joints through times (s) and excursions from the configuration; thrusters from start to end (s) at a level."""
    start = start_state(robot, configuration, **velocities)
    commands = {
        name: spline(times, np.asarray(values) + start.joints[robot.joint_index(name)])
        for name, (times, values) in (nodes or {}).items()
    }
    for thruster, begin, end, level in firings:
        commands[thruster] = pulse(level, begin, end - begin)
    return start, command_phases(robot, commands, duration)


def one_joint(robot: Robot, joint: str, nodes: Nodes, configuration: npt.ArrayLike | str = "zero") -> Experiment:
    """This joint moves, all others are locked."""
    return experiment(robot, float(np.asarray(nodes[0])[-1]), configuration, {joint: nodes})


def read_experiment(
    robot: Robot,
    done: Experiment,
    sensors: Sequence[Sensor],
    name: str = "experiment",
    *,
    known_momentum: bool = False,
    **options: Any,
) -> MotionRecord:
    """Readings of a simulated experiment, without noise."""
    run = run_experiment(robot, *done, shared_period(sensors), **options)
    momentum = start_momentum(robot, done[0]) if known_momentum else None
    return prepare_record(robot, record_run(run, sensors, name=name), known_momentum=momentum)
