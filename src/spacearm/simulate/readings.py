"""Sensor readings of a robot at given instants: the expressions that laws use, evaluated on numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spacearm import checks
from spacearm.engine import Kernel
from spacearm.errors import error_context
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array


class Moments(NamedTuple):
    """A robot at some moments.

    States (T, 13 + 2 n), accelerations (T, 6 + n), efforts of the drives (T, n), wrenches (T, L, 6) on loaded frames.
    What is None was not recorded, and no sensor can read it.
    """

    states: Array
    acceleration: Array | None = None
    effort: Array | None = None
    wrenches: Array | None = None
    loads: tuple[LoadFrame, ...] = ()


class StateReadings:
    """Readings of sensors of the state (no accelerations, no forces) as one kernel, for one state or many."""

    def __init__(self, robot: Robot, sensors: Sequence[Sensor]) -> None:
        checks.unique([sensor.name for sensor in sensors], "sensor")
        self.sensors = tuple(sensors)
        plant = Plant(robot, robot_parameters(robot))
        outputs = {}
        for sensor in sensors:
            with error_context(sensor.place):
                error = sensor.each("bias", sensor.size(robot))
                outputs[sensor.name] = ca.densify(ca.vec(sensor.measure(plant, error)))
        self._kernel = Kernel(Program("readings", {"state": plant.state}, outputs))

    def read(self, states: Array) -> dict[str, Array]:
        """Readings (..., entries) by name at these states (..., nx), with scale and bias, without noise."""
        found = self._kernel({"state": states})
        for sensor in self.sensors:
            if sensor.resolution:
                value = found[sensor.name]
                # Halves upward, as laws and exported C do; NumPy's round would take the even neighbour.
                found[sensor.name] = sensor.resolution * np.floor(value / sensor.resolution + 0.5)
        return found


@lru_cache(maxsize=32)
def state_readings(robot: Robot, sensors: tuple[Sensor, ...]) -> StateReadings:
    """The readings of these sensors of this robot, made once: keep the sensors."""
    return StateReadings(robot, sensors)


def read_moments(
    robot: Robot, sensors: Sequence[Sensor], moments: Moments, errors: Sequence[Array] | None = None
) -> list[Array]:
    """Readings (T, entries) of each sensor at these instants with these errors (T, size); without errors by default."""
    wrench_frames = moments.loads if moments.wrenches is not None else ()
    plant = Plant(robot, robot_parameters(robot), wrench_frames=wrench_frames)
    n, count = robot.n, moments.states.shape[0]
    given: list[tuple[Any, Array]] = [(plant.state, moments.states)]
    for name, size, values in (("acceleration", 6 + n, moments.acceleration), ("effort", n, moments.effort)):
        if values is not None:
            # What was recorded stands in for the expressions by which the plant would compute it from forces that are
            # not known.
            plant.motion[name] = ca.SX.sym(name, size)
            given.append((plant.motion[name], values))
    if wrench_frames and moments.wrenches is not None:
        given += [(symbol, moments.wrenches[:, k]) for k, symbol in enumerate(plant.measured_wrenches.values())]
    expressions = []
    for k, sensor in enumerate(sensors):
        with error_context(sensor.place):
            error = ca.SX.zeros(sensor.size(robot))
            if errors is not None:
                error = ca.SX.sym("error", sensor.size(robot))
                given.append((error, errors[k]))
            expressions.append(ca.densify(sensor.measure(plant, error)))
    # Evaluated in CasADi's interpreter: called once for each record, so that compiling would not pay.
    function = ca.Function("readings", [symbol for symbol, _ in given], expressions)
    found = function.call([ca.DM(np.ascontiguousarray(values.T)) for _, values in given])
    return [np.array(values.full().T).reshape(count, -1) for values in found]
