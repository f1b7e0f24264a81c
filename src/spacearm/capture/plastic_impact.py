"""Plastic impacts that a soft motion begins with: joints that lock at once, a target that is caught."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spacearm.model import Robot
from spacearm.simulate import Change, Lock, State, World
from spacearm.simulate.run.ledger import Entry, book
from spacearm.typing import Array

#: Name of the robot in the world of a soft motion.
ROBOT = "robot"


@dataclass(frozen=True, eq=False)
class Impact:
    """A change of the world at time zero, and what there was before.

    Args:
        world: of the robot, and of the target where one is caught.
        states: of each system just before.
        change: what happens.
    """

    world: World
    states: Mapping[str, State]
    change: Change

    @cached_property
    def entry(self) -> Entry:
        """What it does, as the ledger of a run has it."""
        return book(self.world, self.states, self.change, self.change.apply(self.world, self.states), 0.0, 0)

    @property
    def robot(self) -> Robot:
        """After it."""
        return self.entry.changed.world.robot(ROBOT)

    @property
    def state(self) -> State:
        """Right after it."""
        return self.entry.changed.states[ROBOT]

    @property
    def lost(self) -> float:
        """Energy that is gone, J."""
        return self.entry.lost

    @property
    def impulse(self) -> Array:
        """On the degrees of freedom that are held (6 + n; zero for free ones), N s or N m s."""
        return np.array([self.entry.changed.impulse.get(name, 0.0) for name in self.robot.dof_names])


def close_clutch(robot: Robot, state: State, held: Sequence[str]) -> Impact:
    """Stop these joints at once, wherever they are; their motion goes to what stays free, and to heat."""
    # The world changes by the same Lock as in a run, so the ledger books the loss in one place.
    return Impact(World({ROBOT: robot}), {ROBOT: state.check(robot)}, Lock(held))
