"""A sampled law in the reference simulation: its compiled program called with the reference's own states.

What was recorded of the law in the run (commands, memory, ticks) takes no part: the reference's errors go through the
law as they would in flight, and a stable loop damps them. References, sensors' random numbers and the law's program are
those of the run. Only the law's expression is shared with spacearm; the motion between ticks is the reference's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from spacearm.engine.law import AT_LIMIT
from spacearm.engine.loops import compile_loop
from spacearm.engine.noise import draw, moment
from spacearm.engine.phase import Level
from spacearm.engine.signals import Signals, fill
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.check._joined_systems import first_joints
from spacearm.simulate.law import PythonLaw
from spacearm.simulate.prepared_law import LawCarryOver, PreparedLaw
from spacearm.typing import Array

#: s; a tick so near to the end of a phase is one of the next phase.
SAME_INSTANT = 1e-9

Memory = dict[Hashable, LawCarryOver]


def loop_obstacle(law: PreparedLaw) -> str:
    """Why the law cannot be called with the reference's states; empty if it can."""
    if law.members:
        return "laws of several systems in one phase; the reference flies one system at a time"
    if isinstance(law.law, PythonLaw):
        return "a law in Python, which has memory of its own"
    return "a law that reads a force/torque sensor" if law.wrench_places.size else ""


@compile_loop
def _fill_inputs(
    reference: Signals, piece: int, time: float, drawn: Any, noise: Any, sample: int, clock: float, inp: Array
) -> None:
    """References and random numbers of a tick; ``clock``: time of the run, s."""
    fill(reference, piece, time, inp)
    draw(drawn, noise[0], sample, moment(clock), 1, inp, noise[1])


class TickedLaw:
    """A law in one phase, tick by tick; ``memory`` carries its state from phase to phase."""

    def __init__(self, law: PreparedLaw, levels: Sequence[Level], robot: Robot, memory: Memory, begin: float) -> None:
        self.law, self.levels, self.robot, self.memory, self.begin = law, levels, robot, memory, begin
        self._bounds = [int(number) for number in np.flatnonzero(law.bounds >= 0)]
        self.entered = law.enter(law.recall(memory, begin), begin)
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.entered.address)
        self.count = 0

    def intervals(self, end: float) -> Iterator[tuple[float, float, bool]]:
        """From tick to tick up to ``end``, s since the phase's start, and whether each begins with a tick."""
        first, period = float(self.entered.clock[1]), self.entered.period
        count = max(int(np.ceil((end - first - SAME_INSTANT) / period)), 0)
        # Multiples of the period and not sums of it: rounding does not pile up over many ticks.
        ticks = first + period * np.arange(count)
        edges = np.concatenate([ticks, [end]])
        if edges[0] > 0.0:
            # The command of the phase before acts until the first tick.
            yield 0.0, float(edges[0]), False
        for low, high in pairwise(edges):
            yield float(low), float(high), True

    def tick(self, time: float, state: Array) -> None:
        """The law is asked at this time (s since the phase's start) with a flat state of its system."""
        law, inp, out = self.entered, self.entered.inp, self.entered.out
        # Joints of another system, which hangs on this one in the reference, are the last ones.
        inp[: law.size], inp[law.size] = first_joints(state, Layout.from_size(law.size).n), time
        grid = law.reference.breaks
        # On a break the polynomial on the right holds.
        piece = int(np.clip(np.searchsorted(grid, time + SAME_INSTANT, side="right") - 1, 0, grid.size - 2))
        _fill_inputs(
            law.reference, piece, time, law.random_channels, law.noise, law.stream[0], law.clock[0] + time, inp
        )
        self._call(inp.ctypes.data, out.ctypes.data)
        first, size = law.memory
        inp[first : first + size] = out[law.target.size : law.target.size + size]
        self.count += 1
        # A law that is slower than those beside it has answered where its count has just begun.
        slow = law.slow[:, 0] > 1
        answered = ~slow | (inp[first + np.where(slow, law.slow[:, 1], 0)] == 1.0)
        law.braking[answered] = 0
        for number in self._bounds:
            if not answered[law.bounds[number]]:
                continue
            place, level, direction = self._bound(number)
            # Back at its level a joint comes against its limit's direction.
            beyond, brake = direction * (level - state[place]), law.brakes[number]
            if brake and beyond > AT_LIMIT * abs(level) and direction * (brake - self._action(number)) > 0.0:
                self._set(number, brake)

    @property
    def commands(self) -> dict[str, float]:
        """Commands that act now: joint forces or accelerations, and levels of thrusters."""
        places = self.law.kernel.outputs["level"].start + self.law.places("level")
        return dict(zip(self.law.program.levels, map(float, self.entered.out[places]), strict=True))

    def rate_bounds(self) -> dict[int, tuple[int, float, int]]:
        """Levels at which a command would change now, by their numbers: place of the rate, level and direction."""
        return {number: self._bound(number) for number in self._bounds if self._changes(number)}

    def cut(self, number: int) -> None:
        """The rate has come to this level: no command until the next tick of its own law."""
        self._set(number, 0.0)

    def _set(self, number: int, value: float) -> None:
        law, action = self.entered, int(self.entered.bounds[number])
        level = self.law.kernel.outputs["level"].start + int(self.law.places("level")[action])
        law.out[[action, level]] = value
        if law.slow[action, 0] > 1:
            law.inp[law.memory[0] + law.slow[action, 2:]] = value
        law.braking[action] = value != 0.0

    def _action(self, number: int) -> float:
        return float(self.entered.out[int(self.entered.bounds[number])])

    def _changes(self, number: int) -> bool:
        if self.entered.brakes[number]:
            return bool(self.entered.braking[int(self.entered.bounds[number])])
        return self._action(number) * self.levels[number].direction > 0.0

    def _bound(self, number: int) -> tuple[int, float, int]:
        level, name = self.levels[number], self.law.program.levels[int(self.entered.bounds[number])]
        return Layout(self.robot.n).speed(self.robot.dof_index(name)), level.value, level.direction

    def leave(self, end: float) -> None:
        """Carry over to the next phase, which begins at ``end``, s since this one's start."""
        first, size = self.entered.memory
        tick = self.begin + float(self.entered.clock[1]) + self.count * self.entered.period
        carried = LawCarryOver(
            self.entered.inp[first : first + size].copy(),
            self.entered.out.copy(),
            tick,
            self.begin + end,
            self.entered.braking,
        )
        self.law.remember(self.memory, carried)
