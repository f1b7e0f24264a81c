"""Readings of sensors during a run, compiled: for guidance processes and learners, which read at every tick.

The expressions are those of laws and records. Random numbers are functions of seed, sensor and time
(:mod:`spacearm.engine.noise`), so a record of the same seed has the same readings.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from spacearm import checks
from spacearm.engine import Kernel
from spacearm.engine.device import array_module
from spacearm.engine.noise import channel_key, draw_once, draw_series
from spacearm.errors import InputError, error_context
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array


class SensorReader:
    """Reads sensors of a robot from its states.

    Sensors of accelerations, torques and wrenches are refused, and delays: a reading here belongs to one state.

    Args:
        robot: whose sensors they are.
        sensors: in the order of the readings.
        system: its name where several take part: of the random numbers.
    """

    def __init__(self, robot: Robot, sensors: Sequence[Sensor], *, system: str = "") -> None:
        self.robot, self.sensors = robot, tuple(sensors)
        checks.unique([sensor.name for sensor in self.sensors], "sensor")
        plant = Plant(robot, robot_parameters(robot))
        sizes = [sensor.size(robot) for sensor in self.sensors]
        error, at, found = ca.SX.sym("error", sum(sizes)), 0, []
        #: Names and units of the readings, one for each number.
        self.entries: list[tuple[str, str]] = []
        for sensor, size in zip(self.sensors, sizes, strict=True):
            with error_context(sensor.place):
                if sensor.delay or sensor.period is not None:
                    raise InputError("has a delay or a period", hint="expected readings of the present state")
                found.append(ca.vec(sensor.measure(plant, error[at : at + size]).T))
            self.entries += [(f"{sensor.name}.{name}", unit) for name, unit in sensor.entries(robot).items()]
            at += size
        program = Program(
            "readings", {"state": plant.state, "error": error}, {"reading": ca.densify(ca.vertcat(*found))}
        )
        self._kernel = Kernel(program)
        steps = [np.full(value.numel(), each.resolution) for each, value in zip(self.sensors, found, strict=True)]
        self._resolution = np.concatenate([np.zeros(0), *steps])
        self._fixed = self._spread_over("bias", sizes)
        self._noise, self._spread = self._spread_over("noise", sizes), self._spread_over("spread", sizes)
        # A key of its own for each number, from names: one sensor more or less leaves the noise of the others as it
        # was.
        named = [(sensor.name, k) for sensor, size in zip(self.sensors, sizes, strict=True) for k in range(size)]
        self._keys = [channel_key(system, name, k) for name, k in named]

    def _spread_over(self, what: str, sizes: Sequence[int]) -> Array:
        parts = [np.broadcast_to(getattr(each, what), (size,)) for each, size in zip(self.sensors, sizes, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    @property
    def size(self) -> int:
        """How many numbers a reading has."""
        return len(self.entries)

    def read(self, state: Array, time: float = 0.0, seed: int | None = None) -> Array:
        """Readings (size,) of a flat state at this time, s; without noise where no seed is given."""
        error = self._fixed.copy()
        if seed is not None:
            at = np.array([float(time)])
            for k in np.flatnonzero(self._noise):
                error[k] += self._noise[k] * draw_series(seed, 0, at, self._keys[k])[0]
            for k in np.flatnonzero(self._spread):
                error[k] += self._spread[k] * draw_once(seed, 0, self._keys[k])
        return np.asarray(self._evaluate(state[None], error[None])[0])

    @property
    def random_size(self) -> int:
        """Random numbers that :meth:`read_many` takes for each state."""
        return self._noise.size

    def read_many(self, states: Array, noise: Array, offset: Array) -> Array:
        """Readings (B, size) of flat states (B, 13 + 2 n), which may be on a GPU.

        ``noise`` and ``offset``: (B, random_size) numbers of the standard normal distribution, of each reading and of
        its unknown bias.
        """
        fixed, scale, spread = map(array_module(states).asarray, (self._fixed, self._noise, self._spread))
        return self._evaluate(states, fixed + scale * noise + spread * offset)

    def _evaluate(self, states: Array, error: Array) -> Array:
        if not self.size:
            return states[:, :0]
        found = self._kernel({"state": states, "error": error})["reading"].reshape(len(states), -1)
        steps = array_module(states).asarray(self._resolution)
        # np.where evaluates both of its branches: without a resolution the division is by one and its result is not
        # used.
        fine = np.where(steps > 0.0, steps, 1.0)
        return np.where(steps > 0.0, fine * np.floor(found / fine + 0.5), found)
