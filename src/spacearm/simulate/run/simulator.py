"""Step-by-step simulation: the caller gives commands at each tick, reads states and sensors, and makes changes.

It is the loop of :func:`~spacearm.simulate.simulate` with a law in Python, standing still at each tick: the same
physics, ledger and certificate, bit for bit the run with the same commands.

The chain of phases is a generator that asks a question wherever the compiled solver needs Python: at a tick, for
commands. :class:`Simulator` answers as the caller steps. A tick that is followed by a tick goes straight from one call
of the solver to the next; all else (the end of a phase, a full buffer, an event) goes through the chain. Saved states
are copies of the arrays that the solver may change, restored in place, because compiled loops keep their addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.engine.solver import ASKED
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.simulate.changes import Change
from spacearm.simulate.law import PythonLaw
from spacearm.simulate.methods import Method, as_method
from spacearm.simulate.phase import Phase, sample_times
from spacearm.simulate.readings import state_readings
from spacearm.simulate.run.certificate import TOLERANCE
from spacearm.simulate.run.chain import (
    END_PHASE,
    MAX_STEPS,
    ChainSettings,
    Item,
    LawAnswer,
    LawQuestion,
    PhaseChain,
    RunContext,
)
from spacearm.simulate.run.run import Run, finish_run
from spacearm.simulate.state import State
from spacearm.simulate.world import Overrides, States, World
from spacearm.typing import Array

#: A step is a whole number of periods, up to this share of one.
WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class SavedState:
    """A saved state of a simulator, for :meth:`Simulator.restore`."""

    phase: int
    arrays: list[tuple[Array, Array]] = field(repr=False)  # each with its copy
    balances: list[dict[str, Any]] = field(repr=False)


class Simulator:
    """A robot, or all systems of a world, in time, step by step.

    Args:
        robot: one robot, or a world of several systems.
        start: state at time zero; of each system where there are several.
        forces: degrees of freedom that are commanded (N or N m); all joints of a single robot by default. Joints of
            one system of several: ``system`` says whose.
        period: s between ticks, at which commands may change.
        duration: the longest that it may go on, s.
        locked: degrees of freedom that do not move.
        method: :class:`Dopri853` (default) or :class:`RK4`, which takes one step of a fixed length.
        sample: interval (s) or times of the samples of the run that :meth:`finish` gives.
        overrides, ledger, tolerance: as for :func:`simulate`.
    """

    def __init__(
        self,
        robot: Robot | World | Mapping[str, Robot],
        start: States,
        *,
        forces: Sequence[str] | None = None,
        system: str = "",
        period: float = 1e-3,
        duration: float = 100.0,
        locked: Sequence[str] = (),
        method: Method | None = None,
        sample: float | npt.ArrayLike | None = None,
        overrides: Overrides | None = None,
        ledger: bool = True,
        tolerance: float = TOLERANCE,
    ) -> None:
        self._world = World.from_robots(robot, overrides)
        self.period = checks.positive(period, "period", unit="s", place="Simulator")
        self._duration = checks.positive(duration, "duration", unit="s", place="Simulator")
        self._tolerance = checks.positive(tolerance, "tolerance", place="Simulator")
        self._system = system or next(iter(self._world.systems))
        named = self._world.robot(self._system).joint_names if forces is None else tuple(forces)
        self.forces = tuple(name for name in named if name not in locked) if forces is None else named
        self._law = PythonLaw(_no_function, period=self.period, forces=self.forces, system=system)
        self._locked = tuple(locked)
        self._vector = self._world.flat(start)
        self._changes: list[Change] = []
        self._over = False
        self._phase = 0
        # Practically without a budget of steps: the caller decides how long it goes on.
        settings = ChainSettings(
            as_method(method), sample_times(sample, self._duration), ledger, MAX_STEPS * 1000, full=True
        )
        self._chain = PhaseChain(self._world, self._vector, self._items, settings)
        ensure_loops()
        self._steps = self._chain.advance(np.zeros(1, dtype=np.uint8))
        # Runs up to the first tick, where the solver waits for commands.
        self._question: LawQuestion | None = None
        self._command: Callable[[Array], None] = _no_command
        self._values = np.zeros(len(self.forces))
        self._continue_chain(None)

    def _items(self, context: RunContext) -> Iterator[Item]:
        """Phases until nothing more is wanted, with the changes between."""
        while not self._over:
            left = self._duration - context.time
            if left <= WHOLE * self.period:
                return
            # One phase until the next change: a phase for each tick would cost a preparation each.
            yield Phase(left, laws=self._law, locked=self._locked)
            while self._changes:
                yield self._changes.pop(0)

    # -- where it is --------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Time, s, since the start."""
        question = self._question
        return self._chain.time if question is None else self._chain.time + float(question.progress.now[0])

    @property
    def done(self) -> bool:
        """Whether it has come to its end: its duration is over, or it broke down."""
        return self._question is None

    @property
    def world(self) -> World:
        """The present world, with all changes."""
        return self._chain.world

    @property
    def vector(self) -> Array:
        """The flat state of all systems one after the other: a view that the next step changes."""
        if self._question is None:
            return self._chain.vector
        return self._question.system.work.y[: self._chain.vector.size]

    @property
    def states(self) -> dict[str, State]:
        """States by the names of the systems."""
        return self._chain.world.states(self.vector.copy())

    @property
    def state(self) -> State:
        """State of the only system of a world."""
        (state,) = self.states.values()
        return state

    def read(self, sensors: Sensor | Sequence[Sensor], system: str = "") -> dict[str, Array]:
        """Present readings of these sensors by name, with their scale and bias, without noise.

        Sensors of accelerations and forces are refused: :func:`~spacearm.measure.record_run` reads them, and noise,
        from the whole run.
        """
        listed = (sensors,) if isinstance(sensors, Sensor) else tuple(sensors)
        name = system or self._system
        return state_readings(self.world.robot(name), listed).read(self.vector[self.world.layouts[name].whole])

    # -- going on -----------------------------------------------------------------------------------------------

    def step(self, commands: npt.ArrayLike | Mapping[str, float] | None = None, dt: float | None = None) -> float:
        """Go on by ``dt`` (s, whole periods; one by default) with these commands; the time then, s.

        Args:
            commands: N or N m in the order of ``forces``, or by name; those of the step before if omitted.
        """
        count = 1 if dt is None else round(dt / self.period)
        if dt is not None and (count < 1 or abs(dt - count * self.period) > WHOLE * self.period):
            raise InputError(f"dt is {dt:g} s", place="step", hint=f"expected whole periods of {self.period:g} s")
        if commands is not None:
            self._values[:] = self._commands(commands)
        for _ in range(count):
            question = self._question
            if question is None:
                raise InputError(
                    "the run is over", place=f"step at t = {self.time:g} s", hint=f"{self._chain.why}; finish()"
                )
            self._command(self._values)
            # The next tick as a rule; all else is the chain's: a full buffer, the end of a phase.
            if (reason := question.solve()) != ASKED:
                self._continue_chain(reason)
        return self.time

    def _continue_chain(self, answer: LawAnswer) -> None:
        """On to the next question of the chain."""
        before = self._question
        try:
            found = self._question = self._steps.send(answer)
        except StopIteration:
            self._question = None
            return
        if before is None or found.system is not before.system:
            self._command = found.commander()

    def _commands(self, given: npt.ArrayLike | Mapping[str, float]) -> Array:
        if isinstance(given, Mapping):
            for name in given:
                checks.check_name(name, self.forces, "command", place="step")
            given = [given.get(name, 0.0) for name in self.forces]
        # The common case without the full check, since step() is called at every tick: a sum of squares is finite if
        # all of them are.
        usual = isinstance(given, np.ndarray) and given.shape == self._values.shape and given.dtype == np.float64
        if usual and isinstance(given, np.ndarray) and isfinite(given.dot(given)):
            return given
        return checks.array(given, "commands", (len(self.forces),), place="step")

    def apply(self, change: Change | Iterable[Change], *, locked: Sequence[str] | None = None) -> None:
        """Make a change (attach, release, lock, ...) or several, now; ``locked`` from now on, where given."""
        changes = [change] if isinstance(change, Change) else list(change)
        for each in changes:
            checks.instance(each, Change, "change", place="apply")
        if self._question is None:
            raise InputError("the run is over", place="apply", hint="make changes before the end")
        # A phase without duration would leave two changes at one instant as separate entries without samples.
        if self._question.progress.now[0] == 0.0:
            raise InputError(
                "nothing was run since the last change", place="apply", hint="give changes together, as a list"
            )
        self._changes = changes
        self._locked = self._locked if locked is None else tuple(locked)
        # Saved states count phases: arrays of another phase are other memory.
        self._phase += 1
        self._continue_chain(END_PHASE)

    def finish(self) -> Run:
        """The run so far, with samples, events, ledger and certificate; no more steps can be made."""
        self._over = True
        if self._question is not None:
            self._continue_chain(END_PHASE)
        return finish_run(self._world, self._vector, self._chain, self._tolerance)

    # -- back -----------------------------------------------------------------------------------------------------

    def save(self) -> SavedState:
        """The present state, to which :meth:`restore` returns."""
        if self._question is None:
            raise InputError("the run is over", place="save", hint="save before the end")
        segment = self._chain.segment
        assert segment is not None
        # Arrays are restored in place: compiled loops keep their addresses.
        found = [self._values, *_solver_arrays(self._question.system), *_solver_arrays(self._question.progress)]
        found += [segment.record.counts, segment.record.now, segment.audit[: segment.record.counts[4]]]
        balances = [_copy_fields(balance) for balance in segment.balances or ()]
        return SavedState(self._phase, [(array, array.copy()) for array in found], balances)

    def restore(self, saved: SavedState) -> None:
        """Go back to where it was; what it does from there is the same bit for bit.

        A change cannot be undone: what was saved before one is of no use after it.
        """
        if saved.phase != self._phase or self._question is None:
            why = "the run is over" if self._question is None else "a change was made since"
            raise InputError(why, place="restore", hint="expected a state that was saved after the last change")
        if not any(array is self._values for array, _ in saved.arrays):
            raise InputError("this was saved by another simulator", place="restore")
        # In place; logs need nothing, since their counts are among the restored arrays.
        for array, kept in saved.arrays:
            array[...] = kept
        segment = self._chain.segment
        assert segment is not None
        for balance, kept_balance in zip(segment.balances or (), saved.balances, strict=True):
            vars(balance).update(_copy_values(kept_balance))


def _no_command(values: Array) -> None:
    raise AssertionError("no tick has passed")


def _no_function(time: float, state: State, references: Mapping[str, Any]) -> Mapping[str, float]:
    raise InputError("a simulator is given its commands by step()", place="law")


def _solver_arrays(part: Any) -> list[Array]:
    """Arrays in tuples within tuples that a solver may change; logs, which grow by a count, are left out."""
    if isinstance(part, np.ndarray):
        # Large arrays are logs and samples: rows beyond the restored counts are simply written again.
        return [part] if part.flags.writeable and part.size <= 4096 else []
    return [array for each in part for array in _solver_arrays(each)] if isinstance(part, tuple) else []


def _copy_fields(thing: Any) -> dict[str, Any]:
    return _copy_values(vars(thing))


def _copy_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays and dictionaries of them as copies; all else as it is."""
    kinds = (np.ndarray, dict, list)
    return {key: value.copy() if type(value) in kinds else value for key, value in values.items()}
