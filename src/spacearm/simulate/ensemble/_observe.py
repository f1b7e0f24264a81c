"""Observers of roll-outs: smallest and largest values of quantities of the motion, over all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spacearm.engine.fixed_step import StepSymbols, Update
from spacearm.errors import InputError
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: Names and expressions of the observed quantities, over a plant as for laws.
Observe = Callable[[Plant], Mapping[str, SX]]
#: Values that an observer keeps.
OBSERVED_INPUTS = ("least", "most")


class Extremes(NamedTuple):
    """States as :func:`~spacearm.simulate.rollout` gives them; smallest and largest values (size,) or (B, size)."""

    states: Array
    least: dict[str, Array]
    most: dict[str, Array]


class MotionObserver:
    """Expressions of a robot's motion, over a plant of their own."""

    def __init__(self, robot: Robot, observe: Observe) -> None:
        own = robot_parameters(robot)
        names = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling")
        self.numbers = {name: own[name] for name in names}
        self.plant = Plant(robot, {name: int(value.size) for name, value in self.numbers.items()})
        self.seen = {name: ca.densify(ca.vec(ca.SX(value))) for name, value in dict(observe(self.plant)).items()}
        self.size = sum(value.numel() for value in self.seen.values())
        if not self.size:
            raise InputError("nothing is observed", place="observe", hint="expected names and expressions")
        known = ca.vertcat(self.plant.state, self.plant.time, self.plant.model)
        # A symbol of another plant would be compiled as an input that nobody sets.
        for symbol in ca.symvar(ca.vertcat(*self.seen.values())):
            if not ca.depends_on(known, symbol):
                hint = "an observer depends on the state, the time and the robot's parameters only"
                raise InputError(f"{symbol.name()!r} is not the plant's", place="observe", hint=hint)

    def update(self, symbols: StepSymbols) -> Update:
        """The observer over the symbols of a step, with each sample's own parameters where they differ."""
        # A parameter that the loop has left out is the robot's own: the same in all samples.
        parameters = [
            ca.vec(symbols.inputs[name]) if name in symbols.inputs else ca.SX(ca.DM(value))
            for name, value in self.numbers.items()
        ]
        old = [self.plant.state, self.plant.time, self.plant.model]
        new = [symbols.state, symbols.inputs["time"], ca.vertcat(*parameters)]
        (seen,) = ca.substitute([ca.vertcat(*self.seen.values())], old, new)
        memory = {name: ca.SX.sym(name, self.size) for name in OBSERVED_INPUTS}
        return Update({"least": ca.fmin(memory["least"], seen), "most": ca.fmax(memory["most"], seen)}, memory)

    def start(self) -> dict[str, Array]:
        """Initial memory, before the first observation."""
        return {"least": np.full(self.size, np.inf), "most": np.full(self.size, -np.inf)}

    def split_extremes(self, states: Array, ends: Any) -> Extremes:
        """Ends (..., both sizes) by their names."""
        # All least values come first, then all most ones, in one row.
        found: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
        at = 0
        for name, value in self.seen.items():
            for k, own in enumerate(found):
                first = k * self.size + at
                own[name] = ends[..., first : first + value.numel()]
            at += value.numel()
        return Extremes(states, *found)


@lru_cache(maxsize=32)
def motion_observer(robot: Robot, observe: Observe) -> MotionObserver:
    """The observer of a robot and a function, made once."""
    return MotionObserver(robot, observe)
