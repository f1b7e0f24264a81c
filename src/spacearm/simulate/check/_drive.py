"""What moves a system in the reference simulation: given motion, forces, loads and commands of laws, as signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spacearm.model import Robot
from spacearm.simulate.check._closed_loop import TickedLaw
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.loads import Load, thruster_load
from spacearm.simulate.phase import Phase
from spacearm.simulate.signals import Signal, as_signal, constant
from spacearm.simulate.world import World
from spacearm.typing import Array


@dataclass(frozen=True)
class FrictionState:
    """Dry friction from a time on (s since the phase's start): sticking degrees of freedom, and friction forces of
    slipping ones.
    """

    time: float
    stuck: frozenset[int]
    drag: Mapping[int, float]


class DriveSignals:
    """Prescribed motion and applied forces of one system in one phase, as signals."""

    def __init__(self, world: World, system: str, robot: Robot, phase: Phase, logs: Sequence[CommandLog] = ()) -> None:
        def signals_by_dof(given: Mapping[str, Any]) -> dict[int, Signal]:
            found = {world.dof(name): as_signal(value, name) for name, value in given.items()}
            return {robot.dof_index(own): signal for (owner, own), signal in found.items() if owner == system}

        self.paths = signals_by_dof(phase.driven)
        self.rates = {dof: path.derivative() for dof, path in self.paths.items()}
        self.accelerations = signals_by_dof(phase.accelerations)
        self.accelerations |= {dof: rate.derivative() for dof, rate in self.rates.items()}
        # Last: a lock overrides every other prescription.
        self.accelerations |= signals_by_dof(dict.fromkeys((*phase.locked, *world.locked), 0.0))
        self.forces = signals_by_dof(phase.forces)
        self.loads: list[Load] = []
        for load in phase.loads:
            owner, own = world.frame(load.frame)
            if owner == system:
                self.loads.append(replace(load, frame=own))
        self.robot = robot
        for log in logs:
            given = () if log.law is None else log.law.acceleration_dofs(robot)
            self.add_commands({name: log.signal(name) for name in log.names}, given)
        self.friction = [FrictionState(0.0, frozenset(), {})]

    def add_commands(self, signals: Mapping[str, Signal], given: Sequence[str]) -> None:
        """Commands of a sampled law by name; ``given``: those that are accelerations."""
        for name, signal in signals.items():
            if name not in self.robot.dof_names:
                self.loads.append(thruster_load(self.robot, name, signal))
                continue
            where, dof = self.accelerations if name in given else self.forces, self.robot.dof_index(name)
            where[dof] = where[dof] + signal if dof in where else signal

    def with_law(self, law: TickedLaw) -> DriveSignals:
        """The same with what a law commands now."""
        drive = copy(self)
        drive.accelerations, drive.forces, drive.loads = {**self.accelerations}, {**self.forces}, [*self.loads]
        commands = {name: constant(value) for name, value in law.commands.items()}
        drive.add_commands(commands, [what for kind, what, _ in law.law.program.actions if kind == "drive"])
        return drive

    def breaks(self, begin: float, end: float) -> Array:
        signals = [*self.paths.values(), *self.accelerations.values(), *self.forces.values()]
        signals += [entry for load in self.loads for entry in load.wrench]
        edges = [signal.breaks for signal in signals] + [np.array([part.time for part in self.friction])]
        inner = np.unique(np.concatenate(edges))
        return np.concatenate([[begin], inner[(inner > begin) & (inner < end)], [end]])


class DriveInterval:
    """The signals of a drive on one smooth interval: each by the polynomial that applies at its middle."""

    def __init__(self, drive: DriveSignals, middle: float, dofs: int) -> None:
        self.drive = drive
        self._middle = middle
        self._pieces: dict[int, tuple[float, list[float]]] = {}  # of signals by their identity; the drive keeps them
        self.friction = [part for part in drive.friction if part.time <= middle][-1]
        self.driven = np.array(sorted({*drive.accelerations, *self.friction.stuck}), dtype=int)
        self.free = np.setdiff1d(np.arange(dofs), self.driven)

    # The polynomial is chosen by the middle of the interval, never by t: at a break both neighbours contain t, and the
    # last stage of a step must use the one it began with.
    def _value(self, signal: Signal, t: float) -> float:
        if id(signal) not in self._pieces:
            grid = signal.breaks
            piece = int(np.clip(np.searchsorted(grid, self._middle, side="right") - 1, 0, grid.size - 2))
            self._pieces[id(signal)] = float(grid[piece]), signal.coefficients[::-1, piece].tolist()
        start, powers = self._pieces[id(signal)]
        value = 0.0
        for coefficient in powers:
            value = value * (t - start) + coefficient
        return value

    def _values(self, signals: dict[int, Signal], t: float) -> dict[int, float]:
        return {dof: self._value(signal, t) for dof, signal in signals.items()}

    def forces(self, t: float) -> dict[int, float]:
        found = self._values(self.drive.forces, t)
        for dof, drag in self.friction.drag.items():
            found[dof] = found.get(dof, 0.0) + drag
        return found

    def accelerations(self, t: float) -> dict[int, float]:
        return self._values(self.drive.accelerations, t)

    def paths(self, t: float) -> dict[int, tuple[float, float]]:
        rates = self._values(self.drive.rates, t)
        return {dof: (value, rates[dof]) for dof, value in self._values(self.drive.paths, t).items()}

    def wrenches(self, t: float) -> list[Array]:
        return [np.array([self._value(entry, t) for entry in load.wrench]) for load in self.drive.loads]
