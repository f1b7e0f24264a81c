"""Failures in flight: motors, wheels and thrusters that give nothing from a time on, and a latch that does not close.

Laws do not know of a failure: they ask for what they would ask for, and what the failed part would have given is
missing. So the command of a failed part is multiplied by zero behind the law, and models in laws count on it still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import casadi as ca
import numpy as np

from spacearm.checks import check_name
from spacearm.control import Commands, Law, Plant
from spacearm.errors import InputError, error_context
from spacearm.mission._laws import Actuators
from spacearm.model.toml_schema import Name, Number, Seed
from spacearm.simulate import Phase, Signal, constant
from spacearm.study import ScenarioTable, key
from spacearm.typing import Array

LATCH = "latch"


class FailureTable(ScenarioTable):
    """A part that fails: it gives no force from a time on; or the latch, which does not close at first."""

    part: Name = key(what="a wheel, a thruster, a joint of the arm, whose motor fails, or `latch`")
    time: Number = key(0.0, "s; not for the latch")
    attempts: Number = key(1, "of the latch: attempts at which it does not close")
    probability: Number = key(1.0, "that it happens, 0 to 1")
    seed: Seed = key(0, "seed that decides it, where the probability is below 1")

    def happens(self, number: int) -> bool:
        """Whether it happens; ``number`` among the failures of the file."""
        # A stream for each failure: one more in the file changes nothing for the others.
        return bool(np.random.default_rng([self.seed, number]).random() < self.probability)

    def check(self, actuators: Actuators) -> None:
        """An error where there is no such part, or a number that cannot be."""
        known = [*actuators.wheels, *actuators.arm, *(part.name for part in actuators.robot.thrusters), LATCH]
        check_name(self.part, known, "part")
        if not 0.0 <= self.probability <= 1.0:
            raise InputError(f"is {self.probability:g}", place="probability", hint="expected 0 to 1")
        if self.time < 0.0:
            raise InputError(f"is {self.time:g} s", place="time", hint="expected zero or more")
        if self.attempts != int(self.attempts) or self.attempts < 1:
            raise InputError(f"is {self.attempts:g}", place="attempts", hint="expected a whole number, 1 or more")


class PartFailures:
    """The failures that happen in a mission.

    Args:
        tables: those of the file, of which some may not happen.
    """

    def __init__(self, tables: Sequence[FailureTable], actuators: Actuators) -> None:
        #: When each part fails, s.
        self.times: dict[str, float] = {}
        #: Attempts at which the latch does not close.
        self.failed_attempts = 0
        for number, table in enumerate(tables):
            with error_context(f"failure[{number}]"):
                table.check(actuators)
            if not table.happens(number):
                continue
            if table.part == LATCH:
                self.failed_attempts = max(self.failed_attempts, int(table.attempts))
            else:
                self.times[table.part] = min(table.time, self.times.get(table.part, np.inf))

    def works(self, part: str, time: float) -> bool:
        """Whether a part works at this time, s."""
        return time < self.times.get(part, np.inf)

    def fail_laws(self, phase: Phase, begin: float) -> Phase:
        """A phase that begins at this time (s), with laws whose failed parts give nothing."""
        laws = (phase.laws,) if isinstance(phase.laws, Law) else tuple(phase.laws)
        if not self.times or not laws:
            return phase
        parts = tuple(self.times)
        health = [_health(self.times[part] - begin) for part in parts]
        failing = [
            law.replace(build=_build_failing(law.build, parts), references={**law.references, "health": health})
            for law in laws
        ]
        return replace(phase, laws=tuple(failing))


def _health(left: float) -> Signal:
    """1 until a part fails in so many seconds, then 0."""
    return Signal(np.array([0.0, left, left + 1.0]), _STEP) if left > 0.0 else constant(0.0)


_STEP: Array = np.array([[1.0, 0.0]])


@lru_cache(maxsize=64)
def _build_failing(build: Callable[[Plant], Commands], parts: tuple[str, ...]) -> Callable[[Plant], Commands]:
    # The law's own model still counts on the part: only what leaves the law is multiplied.
    def build_failing(plant: Plant) -> Commands:
        asked, health = build(plant), plant.reference("health").value
        share = {part: health[k] for k, part in enumerate(parts)}
        forces, thrusters = (
            {name: value * share.get(name, ca.SX(1.0)) for name, value in given.items()}
            for given in (asked.forces, asked.thrusters)
        )
        return replace(asked, forces=forces, thrusters=thrusters)

    return build_failing
