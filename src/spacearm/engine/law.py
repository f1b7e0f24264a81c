"""A control law inside the solver: evaluated at its ticks and held between them, or evaluated with every rate.

Its kernel gets (state, time, references, memory, random numbers, inputs of the motion) and gives (actions, memory, and
whatever else is recorded). Actions are added to the motion kernel's inputs. What a sampled law gives as memory it gets
back at the next tick; a continuous law gives the rate of its memory, which is integrated with the state.

Ticks are breaks of the integration: no step lies across one, since the inputs jump there. A law whose kernel address is
0 is a function outside the compiled loop: the solver returns at each tick and is called again with the answer. Times
are in s from the phase's start; only random numbers go by the time of the run, so that they do not depend on how a run
is cut into phases.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine._call import call_kernel
from spacearm.engine.loops import compile_inner
from spacearm.engine.noise import draw, moment
from spacearm.engine.signals import Signals, fill, merge
from spacearm.typing import Array

#: In place of a place in y.
SAMPLED = -(2**62)
#: Share of the time within which a tick and a break, or the end of the phase, are the same instant.
SAME_TICK = 1e-14
#: In place of a tick.
NEVER = -(2**62)
#: Share of its rate limit beyond which a joint is braked at a tick: what is nearer is at the limit, by rounding.
AT_LIMIT = 1e-9


class SolverLaw(NamedTuple):
    """A law of one phase and its memory. Time is counted from the phase's start.

    The first tick is there, unless the law goes on from the phase before: then its answer of then acts until the next.
    """

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
    counts: Any  # (3,) int64: ticks so far; whether the answer to the one that is due is there; rows of ``cuts``
    clock: Array  # (2,) s: the phase's start since the run's, the first tick since the phase's start
    random_channels: Any  # (numbers, 2) int64: channel of each random number, and whether it is drawn once
    noise: Any  # (2,) int64: the seed; where random numbers begin in ``inp``
    stream: Any  # (1,) int64: number of the sample
    wrench_places: Any  # int64: places in the motion kernel's input that the law reads behind the random numbers
    start: Array  # memory at the first tick
    memory_start: int  # where the memory of a continuous law stands in y; far below zero: sampled
    bounds: Any  # (levels,) int64: the action whose rate limit each watched level is, or -1
    brakes: Array  # (levels,): the action that brakes beyond this level; 0: one at which an action is cut
    braking: Any  # (actions,) int64: 1 while the drive brakes, whatever the law's answer was
    cuts: Array  # (rows, 3): when an action was changed at its rate limit, which, and to what
    last: Any  # (actions,) int64: first tick of the period of the last cut of each
    # (actions, 4) int64: ticks in a period of its own law; where the memory has the number of the next of them, the
    # action and what is recorded of it (where each tick is one of its own, none of these)
    slow: Any


def no_law() -> SolverLaw:
    """A law without actions, for phases that have none."""
    none, count, empty = np.zeros(0, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros(0)
    drawn, log = np.zeros((0, 2), dtype=np.int64), np.zeros((0, 1))
    return SolverLaw(
        0, 0.0, 0, 0, merge([], 1.0), none, count, 0, empty, empty, log, count, np.zeros(2), drawn, count, count, none,
        empty, SAMPLED, none, empty, none, np.zeros((0, 3)), none, np.zeros((0, 4), dtype=np.int64),
    )  # fmt: skip


@compile_inner
def fill_law_input(law: SolverLaw, piece: int, t: float, y: Array, motion: Array) -> None:
    """Fill the law's input: state, time, references, memory, random numbers, and the motion inputs that it measures."""
    for i in range(law.size):
        law.inp[i] = y[law.first + i]
    law.inp[law.size] = t
    # The memory of a continuous law is integrated with y; that of a sampled one stays in inp from tick to tick.
    if law.memory_start >= 0:
        for i in range(law.memory[1]):
            law.inp[law.memory[0] + i] = y[law.memory_start + i]
    fill(law.reference, piece, t, law.inp)
    draw(law.random_channels, law.noise[0], law.stream[0], moment(law.clock[0] + t), 1, law.inp, law.noise[1])
    first = law.noise[1] + law.random_channels.shape[0]
    for i in range(law.wrench_places.size):
        law.inp[first + i] = motion[law.wrench_places[i]]


@compile_inner
def evaluate_law(law: SolverLaw, piece: int, t: float, y: Array, motion: Array) -> None:
    """Evaluate the law at time ``t`` (s from the phase's start): its answer is in ``law.out``."""
    fill_law_input(law, piece, t, y, motion)
    call_kernel(law.address, law.inp, law.out)


@compile_inner
def reset_law(law: SolverLaw, sample: int) -> None:
    """Back to the first tick, for another sample."""
    law.counts[0] = law.counts[1] = law.counts[2] = 0
    law.stream[0] = sample
    for i in range(law.last.size):
        law.last[i] = NEVER
        law.braking[i] = 0
    for i in range(law.memory[1]):
        law.inp[law.memory[0] + i] = law.start[i]
    for i in range(law.out.size):
        law.out[i] = 0.0


@compile_inner
def is_due(law: SolverLaw, t: float) -> bool:
    """Whether a tick of a sampled law has come."""
    # Relative to the time: a tick that falls on a break must not come once before and once after it by rounding.
    return law.period > 0.0 and t >= law.clock[1] + law.counts[0] * law.period - SAME_TICK * (1.0 + t)


@compile_inner
def next_tick(law: SolverLaw, end: float) -> float:
    """The next tick or the end of the piece, whichever comes first."""
    # Counted, and not added up from tick to tick: no rounding collects over a run.
    tick = law.clock[1] + law.counts[0] * law.period
    return tick if law.period > 0.0 and tick < end - SAME_TICK * (1.0 + end) else end


@compile_inner
def store_answer(law: SolverLaw, t: float) -> None:
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


@compile_inner
def cut_action(law: SolverLaw, level: int, t: float, direction: int) -> bool:
    """Set an action to zero whose rate limit was met, until the next tick of its own law; whether that is a new event.

    It is not where the same happened in the period before: a drive that stays at its limit is one event. Nor is the end
    of braking, which :func:`brake_actions` began.
    """
    action = law.bounds[level]
    if law.brakes[level] != 0.0:
        if law.braking[action] == 1:
            _set_action(law, action, t, 0.0)
        return False
    # An action that brakes, away from the limit, is not cut.
    if not law.out[action] * direction > 0.0:
        return False
    _set_action(law, action, t, 0.0)
    every, first = law.slow[action, 0], law.counts[0]
    if every > 1:
        # Counted by its own periods.
        first -= (int(law.inp[law.memory[0] + law.slow[action, 1]]) + every - 1) % every
    before = law.last[action]
    law.last[action] = first
    return bool(before < first - every)


@compile_inner
def _set_action(law: SolverLaw, action: int, t: float, value: float) -> None:
    """Another action than the law's answer, until the next tick of its own law."""
    law.braking[action] = 1 if value != 0.0 else 0
    law.out[action] = law.out[law.target.size + law.memory[1] + action] = value  # and what is recorded of it
    # Counted without room too: the solver ends a run that is not recorded.
    if law.counts[2] < law.cuts.shape[0]:
        law.cuts[law.counts[2], 0] = t
        law.cuts[law.counts[2], 1] = action
        law.cuts[law.counts[2], 2] = value
    law.counts[2] += 1
    # A law with a longer period than the common tick holds its action in memory: set it there too.
    if law.slow[action, 0] > 1:
        memory = law.inp[law.memory[0] :]
        memory[law.slow[action, 2]] = memory[law.slow[action, 3]] = value


@compile_inner
def brake_actions(law: SolverLaw, events: Any, t: float, y: Array) -> None:
    """After the answer to a tick: brake with the whole effort, until the rate is back, where it is beyond its limit.

    At ticks only. A brake that the crossing of a level applies is ill-conditioned: what else acts on the joint carries
    it there slowly, so that a small error of the rate is a large one of the instant, and the effort multiplies it by
    the ratio of the two accelerations. Braked from a tick on, the motion depends continuously on the state at the tick.
    """
    for action in range(law.braking.size):
        if _is_answered(law, action):
            law.braking[action] = 0
    for level in range(law.bounds.size):
        action, brake = law.bounds[level], law.brakes[level]
        if action < 0 or brake == 0.0 or not _is_answered(law, action):
            continue
        most, direction = events.value[level], -events.direction[level]
        beyond = (y[events.component[level]] - most) * direction > AT_LIMIT * abs(most)
        # What the law asks for may brake as hard.
        if beyond and (law.out[action] - brake) * direction > 0.0:
            _set_action(law, action, t, brake)


@compile_inner
def _is_answered(law: SolverLaw, action: int) -> bool:
    """Whether the tick that has just been answered is one of the action's own law."""
    return bool(law.slow[action, 0] <= 1 or int(law.inp[law.memory[0] + law.slow[action, 1]]) == 1)
