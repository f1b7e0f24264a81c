"""Setting up a phase for :func:`spacearm.engine.solver.integrate`, and running it: once, or for many samples in a row.

A phase is a time span with one set of equations, inputs and watched events. Its memory is allocated here, once, since
the compiled loops allocate nothing: system, options, progress, record and audit rows together are a
:class:`SolverPhase`. :func:`run_samples` takes many samples through the same memory, one after the other, each from its
own state with its own numbers, in compiled code. Results of a sample are the same whether it runs alone or among
others. States are (B, nx); times are in s, those of samples absolute, those of ends since the phase's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.engine._call import call_entry
from spacearm.engine.block import ArgumentBlock, block_type
from spacearm.engine.events import NODES
from spacearm.engine.friction import begin
from spacearm.engine.law import reset_law
from spacearm.engine.loops import CompiledEntry, compile_inner, interpret
from spacearm.engine.record import AUDIT_ROWS, NO_PEAKS, DrivePeaks, SampleRecord
from spacearm.engine.signals import Signals
from spacearm.engine.solver import (
    BoundSolver,
    EndReason,
    Options,
    Progress,
    SolverCall,
    integrate_call,
    make_progress,
    restart,
)
from spacearm.engine.system import DryFriction, Events, MotionKernelCode, System, make_friction, make_solver_memory
from spacearm.typing import Array


class Level(NamedTuple):
    """A component of the integrated vector that may cross a level."""

    component: int
    value: float
    direction: int = 0  # +1 rising, -1 falling, 0 both
    terminal: bool = False
    inside: int = 0  # side of the level on which a start exactly on it counts: -1 below, +1 above, 0 neither


class Functions(NamedTuple):
    """An event kernel: in (state, absolute time) or (these, the motion kernel's output), out a number each."""

    address: int
    n_in: int
    directions: Sequence[int]
    terminal: Sequence[bool]


def make_events(
    code: MotionKernelCode,
    friction: DryFriction,
    levels: Sequence[Level] = (),
    functions: Functions | None = None,
    offset: float = 0.0,
    sides: Sequence[int] = (),
    fed: Sequence[int] = (),
    asked: Sequence[tuple[int, bool]] = (),
) -> Events:
    """What a phase that starts at the absolute time ``offset`` watches.

    ``sides``: for each level, then each function, the side (-1, +1) on which the phase before left it, 0 if unknown.
    ``fed``: directions of the event functions of force elements, which come last.
    ``asked``: direction, and whether it ends the phase, of each number that a continuous law has watched.
    """
    directions = [level.direction for level in levels]
    terminal = [level.terminal for level in levels]
    outputs = 0
    if functions is not None:
        outputs = len(functions.directions)
        directions += list(functions.directions)
        terminal += list(functions.terminal)
    # The order is that of event_values: levels, the user's functions, those of force elements, those of a law.
    directions += fed
    terminal += [False] * len(fed)
    outputs += len(fed)
    directions += [direction for direction, _ in asked]
    terminal += [ends for _, ends in asked]
    size = friction.dof.size + len(directions)
    return Events(
        np.array([level.component for level in levels], dtype=np.int64),
        np.array([level.value for level in levels], dtype=np.float64),
        0 if functions is None else int(functions.address),
        np.array(directions, dtype=np.int64),
        np.array(terminal, dtype=np.bool_),
        # The length of this input tells event_values whether the kernel reads the motion's output.
        np.zeros(code.nx + 1 if functions is None else functions.n_in),
        np.zeros(outputs),
        float(offset),
        np.zeros((NODES.size, size)),
        np.zeros(size, dtype=np.int64),
        np.array([level.inside for level in levels] + [0] * (outputs + len(asked)), dtype=np.int64),
        np.array(sides if len(sides) else [0] * len(directions), dtype=np.int64),
        np.zeros(len(directions)),
    )


def make_record(
    times: npt.ArrayLike,
    code: MotionKernelCode,
    n_out: int,
    *,
    full: bool = True,
    max_events: int = 10000,
    peaks: DrivePeaks | None = None,
) -> SampleRecord:
    """Room for samples at these absolute times (s, rising); ``full`` keeps the kernel's input and output too."""
    # A copy: the caller's array may change while the phase runs.
    wanted = np.array(times, dtype=np.float64)
    rows = wanted.size if full else 0
    return SampleRecord(
        wanted,
        # Not cleared: there is room for all samples of the longest run, of which a short one writes a few.
        np.empty((wanted.size, code.ny)),
        np.empty((rows, code.record)),
        np.empty((rows, n_out)),
        np.zeros((max_events, 4)),
        np.zeros(5, dtype=np.int64),
        np.zeros(1),
        NO_PEAKS if peaks is None else peaks,
    )


def make_peaks(force: int, group: Sequence[int], groups: int, samples: int) -> DrivePeaks:
    """Room for the peaks of drives between so many samples, and of the power of so many groups of them."""
    size = len(group) + groups
    return DrivePeaks(force, np.array(group, dtype=np.int64), np.zeros(size), np.zeros((samples, 2, size)))


def make_audit(code: MotionKernelCode, steps: int = 0) -> Array:
    """Room for the audit rows of so many steps; without any, steps are not audited."""
    return np.empty((AUDIT_ROWS * steps, 2 + code.record + code.speed.size + code.ny - code.nx))


class SolverPhase:
    """A phase with its memory, ready to run as often as needed."""

    def __init__(self, system: System, options: Options, record: SampleRecord, stop: Any = None) -> None:
        flag = np.zeros(1, dtype=np.uint8) if stop is None else stop
        self.call = SolverCall(system, options, make_progress(system, options), record, make_audit(system.code), flag)
        self._solver: BoundSolver | None = None

    @property
    def system(self) -> System:
        return self.call.system

    @property
    def options(self) -> Options:
        return self.call.options

    @property
    def progress(self) -> Progress:
        return self.call.progress

    @property
    def record(self) -> SampleRecord:
        return self.call.record

    def run(self, start: Array) -> EndReason:
        """Run it from this state and leave the last one in ``system.work.y``."""
        work, counts = self.system.work, self.record.counts
        work.y[:] = start
        work.count[0] = 0
        counts[:] = 0
        # All that a run before has left is reset, so the same phase can be run again.
        interpret(restart)(self.options, self.progress)
        # Bound once: the block of arguments keeps its address from run to run.
        if self._solver is None:
            self._solver = BoundSolver(self.call)
        return EndReason(self._solver())

    def keep_end(self) -> None:
        """Keep the end of a run of one piece as the next sample."""
        assert self._solver is not None
        self._solver.keep_sample(0)


def make_system(
    code: MotionKernelCode,
    inp: Array,
    n_out: int,
    signals: Signals,
    levels: Sequence[Level] = (),
    functions: Functions | None = None,
) -> System:
    """A kernel without dry friction: its input (what no signal writes stays as given) and the length of its output."""
    friction = make_friction()
    events = make_events(code, friction, levels, functions)
    return System(code, signals, friction, events, make_solver_memory(inp, n_out, code.ny))


def make_solver_phase(
    system: System, options: Options, times: npt.ArrayLike = (), *, full: bool = False, stop: Any = None
) -> SolverPhase:
    """A system ready to run, with room for samples at these times (s, rising; see :func:`make_record`).

    ``stop``: (1,) uint8, set from another thread to end a run; none by default.
    """
    # Some more than allowed: several events may happen at the last instant.
    room = options.max_events + 100
    record = make_record(times, system.code, system.work.out.size, full=full, max_events=room)
    return SolverPhase(system, options, record, stop)


class SampleRows(NamedTuple):
    """Numbers of the samples of a phase: a row for each, or one for all."""

    tail: Array  # the kernel's input behind what records keep
    static: Array  # (B or 1, f) dry friction
    coulomb: Array
    first: int  # number of the first sample


class SampleEnds(NamedTuple):
    """Where samples are: at the start of a phase, and after it."""

    state: Array  # (B, nx)
    running: Any  # (B,) bool: others are left alone
    reason: Any  # (B,) int64
    time: Array  # (B,) s that the phase lasted
    stick: Array  # (B, f) when each friction last came to rest, s since the phase's start; NaN: never
    crossed: Any  # (B, c) bool: levels that were crossed
    samples: Array  # (B, times, nx); the end state after the end
    evaluations: Any  # (B,) int64, added to


@compile_inner
def _load_sample(stage: SolverCall, rows: SampleRows, b: int, state: Array) -> None:
    """A sample's numbers into the kernel's input, its state into the memory, a clean record."""
    system, record = stage.system, stage.record
    work, friction, code = system.work, system.friction, system.code
    # One row for all, or a row for each sample.
    tail = rows.tail[b if rows.tail.shape[0] > 1 else 0]
    for i in range(tail.size):
        work.inp[code.record + i] = tail[i]
    for i in range(friction.dof.size):
        friction.static[i] = rows.static[b if rows.static.shape[0] > 1 else 0, i]
        friction.coulomb[i] = rows.coulomb[b if rows.coulomb.shape[0] > 1 else 0, i]
    # Energies and memories behind the state start at zero with each sample.
    for i in range(code.ny):
        work.y[i] = state[i] if i < code.nx else 0.0
    for i in range(record.counts.size):
        record.counts[i] = 0
    work.count[0] = 0
    # Memory and random numbers of a law begin anew; its sample number selects the numbers that are its own.
    reset_law(system.law, rows.first + b)
    if system.law.memory_start >= 0:
        for i in range(system.law.memory[1]):
            work.y[system.law.memory_start + i] = system.law.start[i]


@compile_inner
def _store_sample(stage: SolverCall, ends: SampleEnds, b: int) -> None:
    """What a sample leaves behind."""
    record, work, friction = stage.record, stage.system.work, stage.system.friction
    ends.time[b] = stage.progress.now[0]
    ends.evaluations[b] += work.count[0]
    for i in range(ends.state.shape[1]):
        ends.state[b, i] = work.y[i]
        # A run that ended early stays where it ended: rows after that repeat its last state.
        for s in range(ends.samples.shape[1]):
            ends.samples[b, s, i] = record.y[s, i] if s < record.counts[0] else work.y[i]
    for row in range(min(record.counts[1], record.log.shape[0])):
        kind, number = int(record.log[row, 1]), int(record.log[row, 2])
        if kind == 4:
            ends.crossed[b, number] = True
        for i in range(friction.dof.size):
            if kind == 1 and friction.dof[i] == number:
                ends.stick[b, i] = record.log[row, 0]


class SamplesCall(NamedTuple):
    """All that :func:`run_samples` takes."""

    stage: SolverCall
    solver: int  # address of the solver's entry
    rows: SampleRows
    ends: SampleEnds


@CompiledEntry
def samples_call(call: Any) -> int:
    """Every sample through a phase, from its own state with its own numbers, each as if alone."""
    stage, ends = call.stage, call.ends
    for b in range(ends.state.shape[0]):
        if stage.stop[0] != 0:
            return 1
        if ends.running[b]:
            _load_sample(stage, call.rows, b, ends.state[b])
            # Which joints stick follows from the sample's velocities.
            begin(stage.system)
            restart(stage.options, stage.progress)
            ends.reason[b] = call_entry(call.solver, stage)
            _store_sample(stage, ends, b)
    return 0


def run_samples(stage: SolverPhase, rows: SampleRows, ends: SampleEnds) -> None:
    """Every sample through a phase, from its own state with its own numbers, each as if alone."""
    # By its address, so that the loop over samples is compiled without the solver in it.
    solver = integrate_call.address(block_type(stage.call))
    samples_call(ArgumentBlock(SamplesCall(stage.call, solver, rows, ends)))
