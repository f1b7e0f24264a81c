"""A control law inside the solver: asked at its ticks and held between them, or asked with every rate.

Its kernel gets (state, time, references, memory, random numbers, inputs of the motion) and gives (actions, memory, and
whatever else is recorded). Actions are added to the motion kernel's inputs. What a sampled law gives as memory it gets
back at the next tick; a continuous law gives the rate of its memory, which is integrated with the state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.call import call_kernel
from spacearm.engine.loops import inner
from spacearm.engine.noise import draw
from spacearm.engine.signals import Signals, fill, merge
from spacearm.typing import Array

#: In place of a place in y.
SAMPLED = -(2**62)
#: Share of the time within which a tick and a break, or the end of the phase, are the same instant.
SAME_TICK = 1e-14


class Law(NamedTuple):
    """A law of one phase and its memory. Time is counted from the phase's start, where the first tick is."""

    address: int  # 0: a function outside the loop answers
    period: float  # s between ticks; 0: continuous
    first: int  # where the state that it reads begins in y
    size: int  # length of that state
    reference: Signals  # on the grid of the phase; targets are places in ``inp``
    target: Any  # (actions,) int64: places in the motion kernel's input
    memory: Any  # (2,) int64: where memory begins in ``inp``, and how many numbers it has
    watched: int  # where the numbers begin in ``out`` whose sign changes are events of a continuous law
    inp: Array
    out: Array
    log: Array  # (ticks, 1 + out): time and answer of each tick
    counts: Any  # (2,) int64: ticks so far; whether the answer to the one that is due is there
    noise: Any  # (4,) int64: random numbers at each tick, those drawn once, the seed; where they begin in ``inp``
    stream: Any  # (2,) int64: number of the sample, ticks in phases before
    felt: Any  # int64: places in the motion kernel's input that the law reads behind the random numbers
    start: Array  # memory at the first tick
    kept: int  # where the memory of a continuous law stands in y; far below zero: sampled


def no_law() -> Law:
    """Nothing is asked."""
    none, count, empty = np.zeros(0, dtype=np.int64), np.zeros(2, dtype=np.int64), np.zeros(0)
    noise, log = np.zeros(4, dtype=np.int64), np.zeros((0, 1))
    return Law(
        0, 0.0, 0, 0, merge([], 1.0), none, count, 0, empty, empty, log, count, noise, count, none, empty, SAMPLED
    )


@inner
def look(law: Law, piece: int, t: float, y: Array, motion: Array) -> None:
    """State, time, references, random numbers and what is felt of the motion's input into the law's input."""
    for i in range(law.size):
        law.inp[i] = y[law.first + i]
    law.inp[law.size] = t
    if law.kept >= 0:
        for i in range(law.memory[1]):
            law.inp[law.memory[0] + i] = y[law.kept + i]
    fill(law.reference, piece, t, law.inp)
    draw(law.noise, law.noise[2], law.stream[0], law.stream[1] + law.counts[0], 1, law.inp, law.noise[3])
    first = law.noise[3] + law.noise[0] + law.noise[1]
    for i in range(law.felt.size):
        law.inp[first + i] = motion[law.felt[i]]


@inner
def ask(law: Law, piece: int, t: float, y: Array, motion: Array) -> None:
    look(law, piece, t, y, motion)
    call_kernel(law.address, law.inp, law.out)


@inner
def forget(law: Law, sample: int) -> None:
    """Back to the first tick, for another sample."""
    law.counts[0] = law.counts[1] = 0
    law.stream[0] = sample
    for i in range(law.memory[1]):
        law.inp[law.memory[0] + i] = law.start[i]
    for i in range(law.out.size):
        law.out[i] = 0.0


@inner
def due(law: Law, t: float) -> bool:
    """Whether a tick of a sampled law has come."""
    return law.period > 0.0 and t >= law.counts[0] * law.period - SAME_TICK * (1.0 + t)


@inner
def next_tick(law: Law, end: float) -> float:
    """The next tick or the end of the piece, whichever comes first."""
    tick = law.counts[0] * law.period
    return tick if law.period > 0.0 and tick < end - SAME_TICK * (1.0 + end) else end


@inner
def answered(law: Law, t: float) -> None:
    """Keep the answer of a tick: memory for the next, a row of the log."""
    count = law.counts[0]
    for i in range(law.memory[1]):
        law.inp[law.memory[0] + i] = law.out[law.target.size + i]
    if count < law.log.shape[0]:
        law.log[count, 0] = t
        for i in range(law.out.size):
            law.log[count, 1 + i] = law.out[i]
    law.counts[0] = count + 1
    law.counts[1] = 0
