"""Experiments of Xu et al. (2017), Secs. 5.3 to 5.5, from what ``printed.toml`` has of them.

Where nothing is printed: every joint is given Table 5's motion about the normal configuration, the sensor sits at
MOUNT, and Sec. 5.5 starts at rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spacearm.identify.inertia import MotionRecord, command_phases, prepare_record, run_experiment, start_state
from spacearm.identify.inertia.design import Experiment
from spacearm.identify.inertia.validate import SineTorque
from spacearm.measure import make_sensors, record_run
from spacearm.measure.channels import CHANNELS
from spacearm.measure.sensors import shared_period
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.papers.agreement import read_paper_file
from spacearm.simulate import pulse, spline
from spacearm.typing import Array

NAME = "xu2017"
PRINTED = read_paper_file(NAME)
POSTURE = "normal"
NODE_TIMES = np.arange(9) * PRINTED["node_interval"]  # s
NODE_ANGLES = np.deg2rad(PRINTED["node_angles"])
MOUNT = np.array([0.1, -0.2, 0.3])  # m, base frame; not printed
#: Every channel but drive torques, which the paper does not measure.
MEASURED = tuple(name for name in CHANNELS if name != "torque")
#: The nominal inertias from which everything starts: 15 % wrong.
WRONG = 1.15
#: Tables 6 to 12 (7, 10): mass, mass centre and inertia of every body; ``SYMBOLS`` names the columns.
THEORETIC: Array = np.array(PRINTED["theoretic"])
IDENTIFIED: Array = np.array(PRINTED["identified"])
SYMBOLS: list[str] = PRINTED["symbols"]
VALIDATION: dict[str, float] = PRINTED["validation"]
VALIDATION_TIME: float = PRINTED["torques"]["time"]


def sensors(interval: float = 0.1) -> tuple[Sensor, ...]:
    """All channels that the paper records, with typical noise stated for the weights."""
    return make_sensors(MEASURED, period=interval, mount=MOUNT)


def experiments(robot: Robot) -> dict[str, Experiment]:
    """Table 3's firings with all joints locked, then one joint after the other with Table 5's motion."""
    order, each = PRINTED["firing_order"], PRINTED["firing_time"]
    levels = {f"thruster{number}": pulse(1.0, k * each, each) for k, number in enumerate(order)}
    start = start_state(robot, POSTURE)
    found: dict[str, Experiment] = {"thrusters": (start, command_phases(robot, levels, each * len(order)))}
    for k, name in enumerate(robot.joint_names):
        path = spline(NODE_TIMES, NODE_ANGLES + start.joints[k])
        found[name] = start, command_phases(robot, {name: path}, float(NODE_TIMES[-1]))
    return found


def read_experiment(robot: Robot, name: str, experiment: Experiment, sensors: Sequence[Sensor]) -> MotionRecord:
    """Readings of a simulated experiment, without noise."""
    run = run_experiment(robot, *experiment, shared_period(sensors))
    return prepare_record(robot, record_run(run, sensors, name=name))


def torques(robot: Robot) -> list[SineTorque]:
    """Table 13."""
    table = PRINTED["torques"]
    rows = zip(robot.joint_names, table["amplitude"], table["frequency"], table["phase"], strict=True)
    return [SineTorque(name, size, np.pi * frequency, np.pi * phase) for name, size, frequency, phase in rows]
