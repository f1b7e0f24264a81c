"""Control laws as a run prepares them: places of inputs and outputs in the solver's buffers for one phase.

A :class:`PreparedLaw` is made from a :class:`~spacearm.simulate.law.Law`, its compiled program and a phase; it serves
all samples of a batch. What a law keeps from phase to phase (memory, answer to the last tick, when the next one is due)
is a :class:`LawCarryOver`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine import Kernel
from spacearm.engine import law as engine
from spacearm.engine.signals import Signals
from spacearm.errors import InputError, error_context
from spacearm.mechanics.law import LawProgram
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import Layout
from spacearm.simulate.law import Law, PythonLaw
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Largest number of values that the commands of one phase may take: 400 MB.
MOST_ANSWERS = 50_000_000
#: Largest number of changes of commands at rate limits in one phase.
MOST_CUTS = 1_000_000
#: Fraction of a period within which a tick and the start of a phase are the same instant.
SAME_INSTANT = 1e-9


@lru_cache(maxsize=64)
def law_kernel(program: LawProgram) -> Kernel:
    return Kernel(program.program)


@lru_cache(maxsize=64)
def _machine_code(address: int) -> Callable[[int, int], None]:
    """A kernel as a function of two addresses: of its input and of its output."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)


class LawCarryOver(NamedTuple):
    """State of a law that carries over from one of its phases to the next."""

    memory: Array
    answer: Array  # to the last tick
    tick: float  # s since the run's start, when the next one is due
    end: float  # s, when the phase ended
    braking: Array  # (actions,): 1 where the drive brakes at its rate limit

    # Exact equality: the next phase begins at the very number at which this one ended.
    def still_acts(self, time: float) -> bool:
        """Whether the command still acts: the next phase follows at once."""
        return self.end == time


@dataclass(frozen=True, eq=False)
class PreparedLaw:
    """A law in the solver's terms; the same for all samples of a batch."""

    law: Law
    program: LawProgram
    kernel: Kernel
    first: int  # of its system's state
    size: int
    target: Any  # int64: places in the motion kernel's input
    reference: Signals
    ticks: int  # in the phase
    numbers: Array  # of its model
    wrench_places: Any  # int64: places in the motion kernel's input of the wrenches that its sensors measure
    random_channels: Any  # (numbers, 2) int64: channels of its random numbers, and whether they are drawn once
    bounds: Any  # (levels,) int64: the action whose rate limit a watched level is, or -1
    brakes: Array  # (levels,): the action that brakes beyond a level where braking ends; 0: where pushing ends
    members: tuple[PreparedLaw, ...] = ()  # laws of several systems, of which it is made
    system: str = ""  # of a member: whose it is,
    among: Mapping[str, Any] = field(default_factory=dict)  # where its actions, levels ... stand among those of all,
    count: int | None = None  # and in the memory of all its tick, where not each of theirs is one of its own

    @property
    def laws_by_system(self) -> tuple[PreparedLaw, ...]:
        """The law of each system."""
        return self.members or (self,)

    def places(self, kind: str) -> Any:
        """Places of its own numbers of a kind (action, level, margin of a level, reading, memory) among all."""
        if kind in self.among:
            return self.among[kind]
        own = self.program
        sizes = {"level": own.levels, "margin": own.limited, "reading": own.readings, "action": own.actions}
        return np.arange(own.memory.size if kind == "memory" else len(sizes[kind]))

    @property
    def slow(self) -> Any:
        """Table (actions, 4): ticks in a period of each action's own law; in the memory its tick, action and level."""
        # Default: an action of every tick, with nothing held in the memory.
        table = np.full((self.target.size, 4), -1, dtype=np.int64)
        table[:, 0] = 1
        for action, row in self.program.slow.items():
            table[action] = row
        return table

    @property
    def key(self) -> Hashable:
        """Key that identifies the law across phases."""
        own = tuple(part.law.origin or part.law for part in self.laws_by_system)
        return own if self.members else own[0]

    def recall(self, remembered: Mapping[Hashable, LawCarryOver], time: float) -> LawCarryOver | None:
        """State carried over to a phase that begins at this time; laws that were not combined before tick at once."""
        whole = remembered.get(self.key)
        if not self.members or (whole is not None and whole.still_acts(time)):
            return whole
        found = [remembered.get(part.key) for part in self.members]
        if not any(found):
            return None
        # Laws that ran in other combinations before: each gets its own memory back, and all tick anew.
        memory = self.program.memory.copy()
        for part, own in zip(self.members, found, strict=True):
            if own is not None:
                memory[part.places("memory")] = own.memory
        return LawCarryOver(memory, np.zeros(0), time, -np.inf, np.zeros(0))

    def remember(self, remembered: dict[Hashable, LawCarryOver], carried: LawCarryOver) -> None:
        """Keep the state carried over to later phases, as a whole and law by law."""
        remembered[self.key] = carried
        for part in self.members:
            memory = carried.memory[part.places("memory")]
            remembered[part.key] = carried._replace(memory=memory, answer=np.zeros(0))

    @property
    def acts_from_outside(self) -> bool:
        """Whether it acts on the robot externally: on the base, or by thrusters."""
        return any(kind == "wrench" or what in BASE_DOFS for kind, what, _ in self.program.actions)

    @property
    def channels(self) -> list[tuple[int, Array, Array]]:
        """References as channels into the kernel's input."""
        first = self.kernel.inputs["reference"].start
        return [(first + k, *channel) for k, channel in enumerate(self.law.channels())]

    def reference_place(self, name: str) -> int:
        """Place in the kernel's input of the value of a reference of one number."""
        names = [*self.law.signals]
        before = names[: names.index(name)]
        # Values, rates and accelerations of each, one behind the other.
        return int(self.kernel.inputs["reference"].start) + 3 * sum(len(self.law.signals[each]) for each in before)

    @property
    def event_outputs(self) -> list[tuple[int, bool]]:
        """Outputs that the solver monitors: margins and events of a continuous law."""
        if self.law.period is not None:
            return []
        return [(0, False)] * len(self.program.limited) + [(0, True)] * len(self.program.events)

    @property
    def labels(self) -> list[tuple[str, str, str]]:
        """Kind, name and what ends, of each of these."""
        if self.law.period is not None:
            return []
        found = [("saturation", name, "nothing") for name in self.program.limited]
        return found + [("law", name, "phase") for name in self.program.events]

    @property
    def memory_size(self) -> int:
        """Size of the memory that is integrated with the state."""
        return self.program.memory.size if self.law.period is None else 0

    def enter(
        self, carried: LawCarryOver | None, time: float = 0.0, sample: int = 0, kept: int = 0
    ) -> engine.SolverLaw:
        """The law in a phase that begins at this time of the run, with the state carried over from an earlier phase.

        A law of the preceding phase keeps its ticks. After a pause it ticks at once, and the transient part of its
        memory (of sensors, delays and pulses) is reset. ``kept``: place of integrated memory in the integrated vector.
        """
        inputs, outputs, period = self.kernel.inputs, self.kernel.outputs, float(self.law.period or 0.0)
        inp, out, first = np.zeros(self.kernel.n_in), np.zeros(self.kernel.n_out), 0.0
        start, braking = self.program.memory.copy(), np.zeros(self.target.size, dtype=np.int64)
        if carried is not None and carried.memory.shape == start.shape:
            # Estimates and integrals survive a pause; delays, filters and pulses would be stale.
            fresh = start[list(self.program.momentary)]
            start[:] = carried.memory
            if period and carried.still_acts(time) and carried.answer.shape == out.shape:
                out[:], braking[:] = carried.answer, carried.braking
                # A tick that is due within rounding of the phase's start is at its start.
                first = carried.tick - time if carried.tick - time > SAME_INSTANT * period else 0.0
            else:
                start[list(self.program.momentary)] = fresh
        inp[inputs["memory"]] = start
        inp[inputs["model"]] = self.numbers
        plain, bounded = isinstance(self.law, PythonLaw), int(np.count_nonzero(self.bounds >= 0))
        return engine.SolverLaw(
            0 if plain else self.kernel.address(1),
            period,
            self.first,
            self.size,
            self.reference,
            self.target,
            np.array([inputs["memory"].start, len(self.program.memory)]),
            outputs["margin"].start,
            inp,
            out,
            np.empty((self.ticks, 1 + self.kernel.n_out)),  # rows are written at their ticks
            np.zeros(3, dtype=np.int64),
            np.array([time, first]),
            self.random_channels,
            np.array([self.law.seed, inputs["model"].stop]),
            np.array([self.law.draw + sample]),
            self.wrench_places,
            start,
            kept if self.law.period is None else engine.SAMPLED,
            self.bounds,
            self.brakes,
            braking,
            np.zeros((min((self.ticks + 1) * bounded, MOST_CUTS), 3)),
            np.full(self.target.size, engine.NEVER, dtype=np.int64),
            self.slow,
        )

    def answer(self, law: engine.SolverLaw) -> None:
        """Ask a law in Python for its commands, and write them as the answer of a tick."""
        assert isinstance(self.law, PythonLaw)
        values = self.law.ask(float(law.inp[law.size]), State.from_vector(law.inp[: law.size]))
        self.commander(law)(values)

    def commander(self, law: engine.SolverLaw) -> Callable[[Array], None]:
        """A function that writes commands of a law in Python, in the order of its ``forces``, as the answer of a tick.

        They go through the limits of the actuators, which are all of such a law that is compiled.
        """
        assert isinstance(self.law, PythonLaw)
        # Layout of the compiled limits: state and time, then commands as a reference with zero rates, then the model.
        count, first = len(self.law.forces), law.size + 1
        inp = np.concatenate([np.zeros(first + 3 * count), self.numbers])
        code, places = _machine_code(self.kernel.address(1)), (inp.ctypes.data, law.out.ctypes.data)
        seen, now, commands, counts = law.inp[:first], inp[:first], inp[first : first + count], law.counts

        def command(values: Array) -> None:
            now[:] = seen
            commands[:] = values
            code(*places)
            counts[1] = 1

        return command


def prepare_law(
    law: Law,
    robot: Robot,
    at_state: Layout,
    duration: float,
    place: str,
    target: Callable[[str, Any, int], int],
    wrench_frames: tuple[LoadFrame, ...] = (),
) -> PreparedLaw:
    """A law prepared for a phase; its references are merged with the phase's signals afterwards.

    ``target`` gives the place in the motion kernel's input of an action; ``wrench_frames`` are those on which wrenches
    act.
    """
    with error_context(place):
        own = law.program(robot, wrench_frames)
        kernel = law_kernel(own)
        # Answers of all ticks are kept for the log: the buffer is made before the run.
        count = 0.0 if law.period is None else duration / law.period * (1.0 + 1e-12)
        if count * (1 + kernel.n_out) > MOST_ANSWERS:
            raise InputError(
                f"{law.place} is evaluated {count:.3g} times in {duration:g} s",
                hint="expected a longer period, or shorter phases",
            )
        # One more for the tick at the start; 1e-12 covers a duration of whole periods that rounds down.
        ticks = 0 if law.period is None else math.ceil(count) + 1
        places = np.array([target(*action) for action in own.actions], dtype=np.int64)
        feels = np.array([target("wrench", load, k) for load in own.wrench_frames for k in range(6)], dtype=np.int64)
    none = Signals(np.zeros(0), np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64))
    return PreparedLaw(
        law, own, kernel, at_state.start, at_state.size, places, none, ticks, law.numbers(robot), feels,
        law.random_channels(robot), np.zeros(0, dtype=np.int64), np.zeros(0),
    )  # fmt: skip
