"""The loop over phases and changes of one run, on buffers: shared by single runs and batches.

A run is a sequence of phases (time passes, one set of drives, laws and events) and changes (instantaneous maps of world
and state). Successive phases that share a compiled program form a segment, with one record and one set of balances; a
change closes the segment. For each phase: find or compile the program, prepare signals and events, enter (modes, paths,
starting signs of event functions), then call the compiled solver until it returns a reason to stop.

The solver returns to Python only when necessary: a law that is a Python function is due, the audit buffer is full, a
portion of the step budget is used up, or the phase is over.

Units: time in s since the start of the run; ``vector`` is the flat state of all systems in sequence. Integration
itself, event location and sampling are in :mod:`spacearm.engine`; this module decides nothing about accuracy beyond the
tolerance of runs with contacts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.engine.phase import make_audit, make_peaks, make_record
from spacearm.engine.record import SampleRecord
from spacearm.engine.solver import (
    ASKED,
    PAUSED,
    BoundSolver,
    EndReason,
    EventKind,
    Progress,
    bind_solver,
    make_progress,
)
from spacearm.engine.system import System
from spacearm.engine.warm import implicit_address
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame
from spacearm.simulate.changes import Change, hold_system_loops
from spacearm.simulate.commands import CommandLog, active_pulses, command_logs
from spacearm.simulate.contact import ContactElement
from spacearm.simulate.law import Law
from spacearm.simulate.loops import check_closure
from spacearm.simulate.methods import Method
from spacearm.simulate.motion import WorldMotion, law_memory, laws_of, load_frames, world_motion
from spacearm.simulate.phase import MAX_NUMBERS, Phase, sample_times
from spacearm.simulate.prepared_law import LawCarryOver, PreparedLaw
from spacearm.simulate.run._timescales import (
    BLOWS,
    LONGEST_RUN,
    TimeScales,
    check_budget,
    check_step,
    contact_scales,
    describe_fastest,
    step_budget,
    step_time,
    stiffness_warnings,
    time_scales,
)
from spacearm.simulate.run.ledger import Balance, LedgerEntry, inner_scale, record_change
from spacearm.simulate.run.prepare import (
    PreparedPhase,
    Sides,
    check_free_inertia,
    enter,
    initial_sides,
    last_sides,
    prepare,
)
from spacearm.simulate.run.segment import Occurrence, Segment, Stats
from spacearm.simulate.state import State
from spacearm.simulate.world import World
from spacearm.typing import Array

MAX_STEPS = 1_000_000
MAX_EVENTS = 10_000
#: Size of audit rows that are kept before they are summed: 4 MB.
AUDIT_NUMBERS = 500_000
#: The step has collapsed if this many steps advance a run by less than ``SLOW`` (s), and the remaining budget would not
#: cover the fraction ``FAR`` of the rest of its phase.
LOOK, SLOW, FAR = 10_000, 1e-5, 1e-3
#: A sample this close to the start of a segment, s, coincides with it.
SAME_TIME = 1e-12


class RunContext:
    """Current state of a run, for functions that choose its next phase or change."""

    def __init__(self, chain: PhaseChain) -> None:
        self._chain = chain
        self._known: tuple[World, Array, dict[str, State]] | None = None  # states of this world and vector
        self._seen: tuple[_LastPhase, Array, dict[str, Array]] | None = None  # samples of this phase

    @property
    def time(self) -> float:
        """Time, s, since the start of the run."""
        return self._chain.time

    @property
    def world(self) -> World:
        return self._chain.world

    @property
    def states(self) -> dict[str, State]:
        """States by the names of the systems."""
        world, vector, known = self._chain.world, self._chain.vector, self._known
        # A vector is replaced and never written into: functions ask for states many times between phases.
        if known is None or known[0] is not world or known[1] is not vector:
            known = self._known = world, vector, world.states(vector)
        return dict(known[2])

    @property
    def state(self) -> State:
        """State of the only system of a world."""
        (state,) = self.states.values()
        return state

    @property
    def events(self) -> tuple[Occurrence, ...]:
        """Events of the preceding phase."""
        last = self._chain.last
        return () if last is None else last.segment.occurrences(last.number)

    @property
    def commands(self) -> tuple[CommandLog, ...]:
        """Commands of sampled laws in the preceding phase."""
        last = self._chain.last
        if last is None:
            return ()
        number = last.segment.prepared[last.number].number
        return tuple(log for log in last.segment.commands if log.phase == number)

    @property
    def samples(self) -> tuple[Array, dict[str, Array]]:
        """Times (T,) and flat states (T, 13 + 2 n) of each system: the samples of the preceding phase, and its end."""
        last = self._last_phase()
        if self._seen is None or self._seen[0] is not last:
            segment, rows = last.segment, last.rows
            times = np.append(segment.record.times[rows], last.time)
            y = np.concatenate([segment.record.y[rows, : segment.model.nx], last.vector[None]])
            self._seen = last, times, {part.name: y[:, part.layout.whole] for part in segment.model.parts}
        return self._seen[1], dict(self._seen[2])

    @property
    def drives(self) -> dict[str, Array]:
        """Forces of drives and brakes (T, 6 + n), N or N m, of each system, at the samples of the preceding phase."""
        last = self._last_phase()
        return {part.name: self._drives(last)[:, part.dofs] for part in last.segment.model.parts}

    @property
    def peaks(self) -> dict[str, DriveMaxima]:
        """Largest forces and power of the drives of each system between the samples of the preceding phase."""
        last = self._last_phase()
        segment, record, rows = last.segment, last.segment.record, last.rows
        most, count = record.peaks.most[rows.start : rows.stop + 1].copy(), record.peaks.group.size
        # Steps may be longer than the intervals of samples, which then know more.
        forces, speed = np.abs(self._drives(last)), np.abs(record.y[rows][:, segment.model.code.speed])
        counts_in = np.equal.outer(record.peaks.group, np.arange(most.shape[2] - count))
        sampled = np.concatenate([forces, (forces * speed) @ counts_in], axis=1)
        larger = sampled > most[:-1, 0]
        most[:-1, 1] = np.where(larger, record.times[rows, None], most[:-1, 1])
        most[:-1, 0] = np.where(larger, sampled, most[:-1, 0])
        return {
            part.name: DriveMaxima(most[:, 0, part.dofs], most[:, 1, part.dofs], *most[:, :, count + k].T)
            for k, part in enumerate(segment.model.parts)
        }

    def _drives(self, last: _LastPhase) -> Array:
        record, kernel = last.segment.record, last.segment.model.kernel
        reactions = record.out[last.rows, kernel.outputs["reaction"]]
        return np.asarray(record.inp[last.rows, kernel.inputs["force"]] + reactions)

    def _last_phase(self) -> _LastPhase:
        if self._chain.last is None:
            raise InputError("no phase was run yet", place="context")
        return self._chain.last


class DriveMaxima(NamedTuple):
    """Largest drives of a system up to each sample of a phase, and up to its end, since the sample before.

    Taken at both ends of all steps, and so at every tick of a law, before and after it.
    """

    forces: Array  # (T, 6 + n) N or N m, magnitudes, of drives and brakes
    force_times: Array  # (T, 6 + n) s, when
    powers: Array  # (T,) W, of all joints but wheels together, magnitudes
    power_times: Array  # (T,) s


class _LastPhase(NamedTuple):
    """The phase that was run last, as it ended; changes after it leave it alone."""

    segment: Segment
    number: int  # of the phase in its segment
    rows: slice  # of its samples
    time: float  # s, of its end
    vector: Array  # flat state then


Item: TypeAlias = Phase | Change
#: A duration; a phase; phases and changes in order; or a function that yields them one by one.
Phases: TypeAlias = float | Item | Sequence[Item] | Callable[[RunContext], Iterable[Item]]


def as_items(phases: Phases) -> tuple[Item, ...] | Callable[[RunContext], Iterable[Item]]:
    if isinstance(phases, Phase | Change):
        return (phases,)
    if isinstance(phases, Real) or (isinstance(phases, np.ndarray) and phases.ndim == 0):
        return (Phase(float(phases)),)
    if callable(phases):
        return phases
    chosen = tuple(phases) if isinstance(phases, Iterable) else ()
    if not any(isinstance(item, Phase) for item in chosen) or not all(isinstance(i, Phase | Change) for i in chosen):
        raise InputError(
            "phases must be a Phase, several of them with changes between, or a duration in seconds", place="simulate"
        )
    return chosen


def first_phase(items: tuple[Item, ...] | Callable[[RunContext], Iterable[Item]]) -> Phase | None:
    """The first phase; None if a function yields them."""
    return None if callable(items) else next(item for item in items if isinstance(item, Phase))


def _blocks(
    items: tuple[Item, ...] | Callable[[RunContext], Iterable[Item]], context: RunContext
) -> Iterator[Change | list[Phase]]:
    """Changes, and the phases between them, in blocks known in advance."""
    if callable(items):
        for item in items(context):
            if not isinstance(item, Phase | Change):
                raise InputError(f"the chain gives {item!r}", place="simulate", hint="expected a Phase or a change")
            yield [item] if isinstance(item, Phase) else item
        return
    waiting: list[Phase] = []
    for item in items:
        # Phases known in advance are prepared together: errors appear before the run starts, and one program serves
        # all.
        if waiting and (isinstance(item, Change) or item.sample is not None):
            yield waiting
            waiting = []
        if isinstance(item, Change):
            yield item
        else:
            waiting.append(item)
    if waiting:
        yield waiting


@dataclass(frozen=True, eq=False)
class ChainSettings:
    """Settings of a chain of phases.

    Args:
        wanted: times of samples, s.
        max_steps: None for a budget based on time scales.
        full: whether samples keep the kernel's inputs and outputs, and the end of each segment is one.
        known, models: prepared phases and programs, shared with other samples of a batch.
    """

    method: Method
    wanted: Array
    ledger: bool = True
    max_steps: int | None = None
    max_events: int = MAX_EVENTS
    full: bool = True
    known: dict[tuple[Any, ...], PreparedPhase] = field(default_factory=dict)
    models: dict[tuple[Any, ...], WorldMotion] = field(default_factory=dict)


class LawQuestion(NamedTuple):
    """A tick of a law in Python at which the solver waits for commands."""

    law: PreparedLaw
    system: System
    progress: Progress
    solve: Callable[[], int]  # goes on with the answer, see LawAnswer

    def answer(self) -> None:
        """Answer with the commands of the law's own function."""
        self.law.answer(self.system.law)

    def commander(self) -> Callable[[Array], None]:
        """A function that answers with commands, in the order of the law's forces."""
        return self.law.commander(self.system.law)


#: What is sent to :meth:`PhaseChain.advance` when a question is answered: nothing, and the solver goes on; why it
#: stopped, of one who has called ``solve`` himself; or this, which ends the phase at the tick.
END_PHASE = -4
LawAnswer: TypeAlias = int | None


class PhaseChain:
    """A run that proceeds from phase to phase and from change to change."""

    def __init__(self, world: World, start: Array, phases: Phases, settings: ChainSettings, sample: int = 0) -> None:
        self.sample = sample  # index of the run among many
        self.world, self.vector, self.settings = world, start, settings
        self.time, self.number, self.reason = 0.0, 0, EndReason.FINISHED
        self.segment: Segment | None = None  # that is open
        self.last: _LastPhase | None = None
        self.steps: list[Segment | LedgerEntry] = []
        self.warnings: list[str] = []
        self.budget = settings.max_steps or 0
        self._collapse = ""  # how the step collapsed, as text
        self._sides: Sides | None = None
        self._memory: dict[str, Array] = {}  # of force elements by name
        self._remembered: dict[Hashable, LawCarryOver] = {}  # by laws
        self._on: dict[tuple[Law, str], float] = {}  # when thrusters went on that are on now, by their law
        self._wanted = settings.wanted
        self._ready: list[PreparedPhase] = []
        self._blocks = _blocks(as_items(phases), RunContext(self))
        self._check_loops()
        # Errors in the first phases are reported before anything runs.
        self._begin()

    def _check_loops(self) -> None:
        """Raise an error if a closed loop is open."""
        for name, at in self.world.layouts.items():
            if self.world.robot(name).loops:
                check_closure(self.world.robot(name), State.from_vector(self.vector[at.whole]))

    @property
    def segments(self) -> list[Segment]:
        return [step for step in self.steps if isinstance(step, Segment)]

    @property
    def entries(self) -> list[LedgerEntry]:
        """Ledger entries of all changes."""
        return [step for step in self.steps if isinstance(step, LedgerEntry)]

    @property
    def stats(self) -> Stats:
        return sum((segment.stats for segment in self.segments), Stats())

    @property
    def now(self) -> float:
        """Time reached, s, for monitoring from another thread."""
        segment = self.segment
        return self.time if segment is None else float(segment.record.now[0])

    def run(self, stop: Any) -> PhaseChain:
        """Run all phases and changes; ``stop[0]`` set from another thread ends it soon."""
        for question in self.advance(stop):
            question.answer()
        return self

    def advance(self, stop: Any) -> Generator[LawQuestion, LawAnswer, None]:
        """Run all phases and changes, and stand still at each tick of a law in Python until it is answered.

        What may be sent in place of an answer: see ``LawAnswer``.
        """
        while self._ready:
            for prepared in self._ready:
                if not (yield from self._run(prepared, stop)):
                    self._close()
                    return
            self._begin()
        self._cut_pulses()
        self._close()

    def occurrences(self) -> tuple[Occurrence, ...]:
        found = [event for segment in self.segments for event in segment.occurrences()]
        found += [Occurrence(entry.time, "change", entry.text, entry.lost, entry.phase) for entry in self.entries]
        return tuple(sorted(found, key=lambda event: event.time))

    # -- from phase to phase ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Make the next changes, and prepare the phases after them."""
        self._ready = []
        for block in self._blocks:
            if isinstance(block, Change):
                self._change(block)
            else:
                self._prepare(block)
                return

    def _change(self, change: Change) -> None:
        self._close()
        before, states = self.world, self.world.states(self.vector)
        changed = hold_system_loops(change.apply(before, states), change.held_names)
        entry = record_change(before, states, change, changed, self.time, max(self.number - 1, 0))
        self.steps.append(entry)
        self.world, self.vector = changed.world, changed.world.flat(changed.states)
        # Signs of event functions are kept by component of the state, which other systems number differently.
        if before.systems != changed.world.systems:
            self._sides = None

    def _prepare(self, phases: list[Phase]) -> None:
        settings, segment, frames = self.settings, self.segment, load_frames(self.world, phases)
        memory = law_memory(self.world, phases)
        # A program that has all requested frames and memory is reused: compiling costs more than many runs.
        model = segment.model if segment is not None and segment.model.carries(frames, memory) else None
        if model is None:
            model = self._model(frames, memory)
        prepared = [self._prepare_phase(model, phase, self.number + k) for k, phase in enumerate(phases)]
        # Only external actions need the steps for their balances; otherwise samples suffice and nothing is audited.
        pushed = settings.full and settings.ledger and (bool(self.world.elements) or any(p.pushed for p in prepared))
        wanted = phases[0].sample
        if segment is None or segment.model is not model or (pushed and segment.balances is None) or wanted is not None:
            if wanted is not None:
                self._wanted = self.time + sample_times(wanted, float(sum(phase.duration for phase in phases)))
            segment = self._open(model, pushed)
        if settings.max_steps is None:
            # Time scales depend on what is held: phases with the same driven degrees of freedom share them.
            kinds = {each.driven: self._scales(segment, each.driven) for each in prepared}
            scales = [kinds[each.driven] for each in prepared]
            check_budget(settings.method, model, prepared, scales, segment.record.times.size)
            touching = 0 if self.world.smooth else BLOWS
            # Blows may take many steps, but no run takes much longer than a minute unless it is asked to.
            most = int(LONGEST_RUN / step_time(model, settings.method))
            more = step_budget(settings.method, prepared, scales) + touching
            self.budget = max(self.budget, min(self.budget + more, most))
            self.warnings += stiffness_warnings(settings.method, prepared, scales)
        check_step(settings.method, prepared, self.budget)
        self._ready = prepared
        self.number += len(prepared)

    def _scales(self, segment: Segment, driven: tuple[int, ...]) -> TimeScales:
        """Time scales here, with the fastest of the contacts."""
        model, parameters = segment.model, segment.parameters
        contacts = contact_scales(model, segment.world, parameters, self.vector, driven).values()
        found = time_scales(model, parameters, self.vector, driven)
        return replace(found, contact=max(contacts, key=lambda each: each.rate, default=found.contact))

    def _model(self, frames: Mapping[str, tuple[LoadFrame, ...]], memory: int) -> WorldMotion:
        if self.entries:
            return world_motion(self.world, frames, self.settings.ledger, memory)
        key = (*frames.items(), memory)  # before any change all samples of a batch have the same robots
        if key not in self.settings.models:
            self.settings.models[key] = world_motion(self.world, frames, self.settings.ledger, memory)
        return self.settings.models[key]

    def _prepare_phase(self, model: WorldMotion, phase: Phase, number: int) -> PreparedPhase:
        # Samples of a batch share prepared phases; after a change of locks they differ.
        key = (model, phase, number, self.world.locked)
        if key not in self.settings.known:
            prepared = self.settings.known[key] = prepare(model, self.world, phase, number)
            check_free_inertia(prepared, model, self.world)
        return self.settings.known[key]

    def _open(self, model: WorldMotion, pushed: bool) -> Segment:
        """A segment that begins here."""
        self._close()
        settings, code = self.settings, model.code
        parameters = self.world.parameters
        outside = any(np.any(own[name][:6]) for own in parameters for name in ("damping", "static_friction"))
        work = model.work(self.world, self.vector, self.time, self._memory)
        wanted = self._wanted
        if self.time > 0.0 and settings.full:
            wanted = np.concatenate([[self.time], wanted[wanted > self.time + SAME_TIME]])
        elif self.time > 0.0:
            wanted = wanted[sum(int(segment.record.counts[0]) for segment in self.segments) :]
        times = np.append(wanted, np.inf) if settings.full else wanted
        dofs = 2 * (code.speed.size + len(model.parts))  # peaks of their drives, and when
        each = code.ny + (code.record + model.kernel.n_out + dofs if settings.full else 0)
        if times.size * each > MAX_NUMBERS:
            raise InputError(
                f"{times.size} samples of {each} numbers do not fit into memory",
                place="sample",
                hint=f"expected at most {MAX_NUMBERS // each} samples: a longer interval, or a list of times",
            )
        room = settings.max_events + (1000 if settings.full else 100)
        peaks = None
        if settings.full:
            force = model.kernel.inputs["force"].start
            peaks = make_peaks(force, _power_groups(model), len(model.parts), times.size)
        record = make_record(times, code, model.kernel.n_out, full=settings.full, max_events=room, peaks=peaks)
        balances, audit = None, make_audit(code)
        if pushed or (outside and settings.full and settings.ledger):
            balances = tuple(
                Balance(part.motion, own, work.y[part.y].copy(), self.time)
                for part, own in zip(model.parts, parameters, strict=True)
            )
            audit = make_audit(code, max(32, AUDIT_NUMBERS // make_audit(code, 1).size))
        rtol, atol = settings.method.tolerances
        # Absolute tolerances: the state's is the method's own; that of energies is relative to the energy in the robot.
        scale = np.full(code.ny, atol)
        for k, (part, own) in enumerate(zip(model.parts if settings.ledger else (), parameters, strict=False)):
            energies = np.arange(code.ny)[part.y][part.motion.nx :]
            if balances is None:
                inside = inner_scale(part.motion, own, self.vector[part.layout.whole])
            else:
                inside = float(balances[k].largest["inner"].sum())
            scale[energies] = rtol * max(inside, 1e-3)
        if model.elements is not None:
            scale[model.elements.tail(code.ny)] = model.elements.scale
        self.segment = Segment(
            self.world, model, parameters, self.vector, self.time, work, record, balances, audit, scale, wanted
        )
        self.steps.append(self.segment)
        return self.segment

    def _close(self) -> None:
        if self.segment is not None and self.segment.model.elements is not None:
            self._memory = self.segment.model.elements.final_memory(self.segment.work.y)
        if self.segment is not None and self.settings.full:
            self.segment.keep_end()
        self.segment = None

    def _cut_pulses(self) -> None:
        """Report thrusters that are switched off before the end of their shortest pulse."""
        for (law, name), since in self._on.items():
            robot = self.world.systems.get(law.system or next(iter(self.world.systems)))
            part = next((part for part in (() if robot is None else robot.thrusters) if part.name == name), None)
            if part is not None and self.time - since < part.minimum_pulse * (1.0 - 1e-9):
                self.warnings.append(
                    f"thruster {name!r} is switched off at {self.time:.6g} s with its law, {self.time - since:.3g} s "
                    f"after it went on; its shortest pulse is {part.minimum_pulse:g} s"
                )
        self._on = {}

    def _run(self, prepared: PreparedPhase, stop: Any) -> Generator[LawQuestion, LawAnswer, bool]:
        """Run one phase; return whether the run continues after it."""
        segment = self.segment
        assert segment is not None
        model, work, record, settings = segment.model, segment.work, segment.record, self.settings
        # Budgets are those of the whole run: what earlier segments used is subtracted.
        before = [other.record.counts for other in self.segments[:-1]]
        steps = self.budget - sum(int(counts[2] + counts[3]) for counts in before)
        events = settings.max_events - sum(int(counts[1]) for counts in before)
        options = settings.method.options(segment.scale, steps, events)
        # Forces of contacts have kinks between events: a tenth of the tolerance. Method 1 becomes 2, DOP853 that
        # changes to Radau IIA where the problem is stiff. Doubling leaves RK4 (0) as it is.
        if not self.world.smooth:
            options = options._replace(rtol=0.1 * options.rtol, method=2 * options.method)
        # Start with the last step of the phase before: nothing about the motion has changed but its drives.
        if segment.step:
            options = options._replace(step=segment.step)
        if segment.balances is not None:
            options = options._replace(turns=_held_turns(model, prepared))
        sides = initial_sides(model, prepared, work.y[: model.code.nx], self._sides)
        law = prepared.law
        carried = None if law is None else law.recall(self._remembered, self.time)
        if carried is None or not carried.still_acts(self.time):
            self._cut_pulses()
        system = enter(model, prepared, work, segment.parameters, self.time, sides, carried, self.sample)
        if options.method == 2:
            paths, bound = [index for index, _ in prepared.paths], {*prepared.driven, *system.friction.dof.tolist()}
            stiff = model.stiff(segment.scale, options.rtol, prepared.locked, paths, bound)
            system = system._replace(stiff=stiff._replace(address=implicit_address(system)))
        held = system.law.out.copy()
        progress = make_progress(system, options)
        logged = int(record.counts[1])
        segment.prepared.append(prepared)
        # What the phase before did since its last sample is its own.
        record.peaks.most[int(record.counts[0]) : int(record.counts[0]) + 1] = 0.0
        segment.starts.append(self.time)
        segment.firsts.append(int(record.counts[0]))
        watched = settings.max_steps is None
        look, since = int(record.counts[2] + record.counts[3]) + LOOK, 0.0
        solve: BoundSolver | None = None
        known: LawAnswer = None
        while True:
            # Steps are granted in portions of LOOK, so that a step size that has collapsed is noticed within seconds
            # and not when the whole budget is gone.
            allowed = min(steps, look) if watched else steps
            if options.max_steps != allowed:
                options, solve = options._replace(max_steps=allowed), None
            if solve is None:
                solve = bind_solver(system, options, progress, record, segment.audit, stop, model.kernel)
            reason, known = solve() if known is None else known, None
            if reason == ASKED:
                assert law is not None
                known = yield LawQuestion(law, system, progress, solve)
                if known == END_PHASE:
                    reason = EndReason.FINISHED
                    break
            elif reason == PAUSED:
                segment.sum_audit()
            elif reason == EndReason.TOO_MANY_STEPS and allowed < steps:
                gone, left = float(progress.now[0]) - since, float(prepared.phase.duration - progress.now[0])
                if gone < SLOW and gone * (steps - look) / LOOK < FAR * left:
                    self._collapse = f": the last {LOOK} advanced it by {gone:.2g} s, and {left:.3g} s are left"
                    break
                look, since = look + LOOK, float(progress.now[0])
            else:
                break
        segment.sum_audit()
        local, step = float(progress.now[0]), float(progress.now[1])
        segment.step = step if options.method > 0 else 0.0
        segment.logs.append((logged, int(record.counts[1])))
        self._sides = last_sides(prepared, system)
        if law is not None:
            # A continuous law's memory is integrated with the state; a sampled law's is in its own input.
            own, place = system.law, slice(model.code.moved, model.code.moved + law.memory_size)
            kept = (work.y[place] if law.memory_size else own.inp[law.kernel.inputs["memory"]]).copy()
            # Next tick from the count, not by adding periods: no drift over many phases.
            tick = self.time + float(own.clock[1] + own.counts[0] * own.period)
            law.remember(self._remembered, LawCarryOver(kept, own.out.copy(), tick, self.time + local, own.braking))
            if law.law.period is not None:
                logs = command_logs(law, own, prepared.number, self.time, self.time + local, held)
                segment.commands += logs
                self._on = {key: since for log in logs for key, since in active_pulses(log, self._on).items()}
        self.time += local
        segment.end_time = self.time
        self.vector = work.y[: model.code.nx].copy()
        rows = slice(segment.firsts[-1], segment.rows.stop)
        self.last = _LastPhase(segment, len(segment.prepared) - 1, rows, self.time, self.vector)
        pieces = prepared.signals.breaks
        piece = min(int(np.searchsorted(pieces, local, side="right")), pieces.size - 1) - 1
        assert solve is not None
        segment.end_position = solve, piece
        self.reason = EndReason(reason)
        if self.reason == EndReason.TERMINAL_EVENT and not _ends_run(prepared, record, segment.logs[-1]):
            self.reason = EndReason.FINISHED
            return True
        if self.reason == EndReason.FINISHED and prepared.phase.until:
            segment.timeouts.append((len(segment.prepared) - 1, self.time))
        return self.reason == EndReason.FINISHED

    @property
    def why(self) -> str:
        """The reason as text, with its cause if known."""
        why = self.reason.text
        if self.reason == EndReason.TOO_MANY_STEPS:
            why += (self._collapse or f", {self.budget}") + self._cause(self.segments[-1])
            if self._collapse:
                speeds = {n: np.linalg.norm(self.vector[at.velocity][:3]) for n, at in self.world.layouts.items()}
                name = max(speeds, key=lambda each: speeds[each])
                why += f"; the fastest is system {name!r} at {speeds[name]:.3g} m/s"
        if self.reason == EndReason.TOO_MANY_EVENTS:
            kinds = Counter((event.kind, event.name) for event in self.segments[-1].occurrences())
            ((kind, name), count), *_ = kinds.most_common(1)
            why += f"; {count} are {kind!r} of {name!r}{self._cause(self.segments[-1])}"
        if self.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT) and self.segments:
            why += self._suspect(self.segments[-1])
        return why

    def _cause(self, segment: Segment) -> str:
        """The fastest time scale as text: of the closed contacts, or else of the rest."""
        model, driven = segment.model, segment.prepared[-1].driven
        scales = contact_scales(model, segment.world, segment.parameters, self.vector, driven)
        memory = {} if model.elements is None else model.elements.final_memory(segment.work.y)
        closed = [
            scales[place]
            for element in segment.world.elements
            if isinstance(element, ContactElement)
            for k, place in enumerate(element.places(segment.world))
            if place in scales and element.touch_account(memory[element.name][None], k)[0, 0] > 0.5
        ]
        if closed:
            return f": {max(closed, key=lambda each: each.rate).text}"
        return describe_fastest(time_scales(model, segment.parameters, self.vector, driven))

    def _suspect(self, segment: Segment) -> str:
        """Explanation by the law of the last phase."""
        rows, world = slice(segment.firsts[-1] if segment.firsts else 0, segment.rows.stop), segment.world
        for name, law in laws_of(world, segment.prepared[-1].phase) if segment.prepared else ():
            if law.suspect is not None:
                states = segment.record.y[rows, world.layouts[name].whole]
                return law.suspect(world.robot(name), segment.record.times[rows], states)
        return ""


def _power_groups(model: WorldMotion) -> list[int]:
    """In whose power each degree of freedom counts: that of its system, but for bases and wheels (-1)."""
    return [
        -1 if k < 6 or part.motion.robot.joint_names[k - 6] in part.motion.robot.wheel_names else number
        for number, part in enumerate(model.parts)
        for k in range(part.motion.robot.dofs)
    ]


def _ends_run(prepared: PreparedPhase, record: SampleRecord, rows: tuple[int, int]) -> bool:
    """Whether one of the events at the last instant ends more than its phase."""
    log = record.log[rows[0] : rows[1]]
    # Several events may share the last instant; any one of them may end the run.
    last = log[log[:, 0] == log[-1, 0]]
    functions = last[last[:, 1] >= EventKind.COMPONENT]
    return any(prepared.labels[int(row[2])][2] == "run" for row in functions)


def _held_turns(model: WorldMotion, prepared: PreparedPhase) -> npt.NDArray[np.int64]:
    """Angles of joints on bases whose motion is given in some direction.

    What holds a base pushes it along with the arm. Where the arm's own motion does not depend on its angle, steps
    would pass over many turns of that force, which the certificate sums.
    """
    given = {*prepared.locked, *prepared.driven}
    found: list[int] = []
    for part in model.parts:
        robot, first = part.motion.robot, part.dofs.start
        if not given.isdisjoint(range(first, first + 6)):
            angles = [i for i, joint in enumerate(robot.joints) if joint.kind == "revolute"]
            found += [part.layout.joint(i) for i in angles if robot.joints[i].name not in robot.wheel_names]
    return np.array(found, dtype=np.int64)
