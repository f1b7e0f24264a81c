"""Sensor readings of a robot at given instants: the expressions that laws use, evaluated on numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spacearm.errors import error_context
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.plant import Plant
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
