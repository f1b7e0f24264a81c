"""Plastic impacts at the start of a soft-capture run: joints that lock at once, a target that is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spacearm.model import Robot
from spacearm.simulate import Lock, State, World
from spacearm.simulate.changes import Change
from spacearm.simulate.run.ledger import LedgerEntry, record_change
from spacearm.typing import Array

#: Name of the robot in the world of a soft motion.
ROBOT = "robot"


@dataclass(frozen=True, eq=False)
class PlasticImpact:
    """A change of the world at time zero, and the states before it.

    Args:
        world: world of the robot, and of the target if one is captured.
        states: of each system just before.
        change: the change of the world.
    """

    world: World
    states: Mapping[str, State]
    change: Change

    @cached_property
    def entry(self) -> LedgerEntry:
        """Entry of the impact in the ledger of a run."""
        return record_change(self.world, self.states, self.change, self.change.apply(self.world, self.states), 0.0, 0)

    @property
    def robot(self) -> Robot:
        """The robot after the impact."""
        return self.entry.changed.world.robot(ROBOT)

    @property
    def state(self) -> State:
        """The state right after the impact."""
        return self.entry.changed.states[ROBOT]

    @property
    def energy_lost(self) -> float:
        """Energy lost, J."""
        return self.entry.lost

    @property
    def impulse(self) -> Array:
        """Impulse on the degrees of freedom that are held (6 + n; zero for free ones), N s or N m s."""
        return np.array([self.entry.changed.impulse.get(name, 0.0) for name in self.robot.dof_names])


def close_clutch(robot: Robot, state: State, held: Sequence[str]) -> PlasticImpact:
    """Stop these joints at once in their present positions; their motion is passed to free degrees of freedom and to
    heat.
    """
    # The world changes by the same Lock as in a run, so the ledger books the loss in one place.
    return PlasticImpact(World({ROBOT: robot}), {ROBOT: state.check(robot)}, Lock(held))
