"""Fixed-step RK4 of many samples in vector lanes: the one loop behind roll-outs, design studies and sensitivities.

Everything a group of lanes needs stands in one array, the *buffer*: the state, the sums of the step, all inputs, the
memory of a law and of an observer. A number that differs from sample to sample takes ``width`` neighbouring doubles,
one for each lane; a uniform number takes one. Each piece of a step is a program that works in place on it:

- ``stage``: the rate at the state of the stage, and the weighted sum of rates;
- ``finish``: the new state, quaternions brought back to length one;
- a law, at the start of every so many steps: new values of inputs that are then held;
- an observer, at the start of each step, when the rate is known: new values of its memory, for example of peaks.

So the loop knows offsets only, is compiled once for all robots, and what a step does is the same expression everywhere:
:mod:`spacearm.engine.cuda` writes the same loop as text for a GPU, with the same bits.

Times are in s: polynomials count from the start of their piece, the clock that a law sees from that of the roll-out.
States are laid out as in the motion program, velocities of bases in base axes. There is no error control, no event and
no dry friction here: all lanes take the same steps, which is what makes them fast. Phases with any of these go through
:mod:`spacearm.engine.solver`.

The classical method of order 4: W. Kutta, Beitrag zur naeherungsweisen Integration totaler Differentialgleichungen, Z.
Math. Phys. 46 (1901).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from spacearm.engine._call import call_kernel
from spacearm.engine.kernel import Kernel
from spacearm.engine.loops import compile_inner, compile_lean, compile_loop
from spacearm.engine.noise import draw
from spacearm.engine.schedule import Schedule
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX
from spacearm.typing import Array

#: Numbers of the loop itself; the same in all lanes.
CLOCK = ("part", "weight", "step", "time")
#: What moves in a step, and the output that is its rate.
_RATES = {"state": "rate", "d_state": "d_rate", "memory": "memory_rate"}
#: Memory of a law that the loop fills with random numbers, and by which it draws them.
RANDOM_INPUTS = ("noise", "sample", "seed")


@dataclass(frozen=True, eq=False)
class Update:
    """A law or an observer: expressions over the symbols of a :class:`StepSymbols`.

    Args:
        outputs: new values, by the names of inputs or of memory.
        memory: symbols that keep their values from step to step.
    """

    outputs: Mapping[str, SX]
    memory: Mapping[str, SX] = field(default_factory=dict)


class StepSymbols:
    """The symbols of one step of a motion program.

    Args:
        motion: with an input ``state`` and its time derivative as output ``rate``; to carry derivatives along, also
            ``d_state`` and ``d_rate``; to integrate the memory of a continuous law, ``memory`` and ``memory_rate``.
        quaternions: where quaternions begin in the state.
    """

    def __init__(self, motion: Program, quaternions: Sequence[int] = (3,)) -> None:
        self.motion = motion
        self.quaternions = tuple(quaternions)
        self.moving = tuple(name for name in _RATES if name in motion.inputs)
        sums = {
            f"{kind}_{name}": ca.SX.sym(f"{kind}_{name}", motion.inputs[name].numel())
            for name in self.moving
            for kind in ("slope", "total")
        }
        clock = {name: ca.SX.sym(name) for name in CLOCK}
        self.inputs: dict[str, SX] = {**sums, **clock, **motion.inputs}

    @property
    def state(self) -> SX:
        return self.inputs["state"]

    @property
    def rate(self) -> SX:
        """For observers: the rate of the state at the start of the step."""
        return self.inputs["slope_state"]

    def stage(self) -> dict[str, SX]:
        """Slopes at ``state + part * slope``, and the weighted sums of slopes."""
        x, names = self.inputs, self.moving
        old = [x[name] for name in names]
        moved = [x[name] + x["part"] * x[f"slope_{name}"] for name in names]
        rates = [self.motion.outputs[_RATES[name]] for name in names]
        # The slope that is replaced is the one that this stage starts from: RK4 needs only the slope before, so one
        # array in place does for all four stages.
        slopes = ca.substitute(rates, old, moved)
        new = {f"slope_{name}": slope for name, slope in zip(names, slopes, strict=True)}
        totals = {f"total_{name}": x[f"total_{name}"] + x["weight"] * new[f"slope_{name}"] for name in names}
        return new | totals

    def finish(self) -> dict[str, SX]:
        """The state after the step, derivatives with it, and sums that are zero again."""
        x = self.inputs
        scale = x["step"] / 6
        state = x["state"] + scale * x["total_state"]
        new = {"state": self._normalise_quaternions(state)}
        if "d_state" in x:
            # Derivatives go through the projection too, else they would not be those of the states that are recorded.
            moved = ca.SX.sym("moved", state.numel())
            along = x["d_state"] + scale * x["total_d_state"]
            new["d_state"] = ca.substitute(ca.jtimes(self._normalise_quaternions(moved), moved, along), moved, state)
        if "memory" in x:
            new["memory"] = x["memory"] + scale * x["total_memory"]
        return new | {f"total_{name}": ca.SX.zeros(x[name].numel()) for name in self.moving}

    def _normalise_quaternions(self, state: SX) -> SX:
        parts, last = [], 0
        for at in self.quaternions:
            quaternion = state[at : at + 4]
            parts += [state[last:at], quaternion / ca.sqrt(ca.sumsqr(quaternion))]
            last = at + 4
        return ca.vertcat(*parts, state[last:])


class StepCode(NamedTuple):
    """What the loop knows: addresses of programs in place (0: none) and offsets in the buffer, in doubles."""

    stage: int
    finish: int
    law: int
    observe: int
    width: int
    part: int
    weight: int
    step: int
    time: int


class StepSchedule(NamedTuple):
    """A :class:`~spacearm.engine.schedule.Schedule` with the places of its numbers in the buffer."""

    begin: Array  # (pieces,) s, when each begins
    step: Array  # (pieces,) s
    counts: Any  # (pieces,) int64: steps in each
    coefficient: Array  # (cases, degree + 1, pieces, channels), lowest power first, time from the piece's start
    target: Any  # (channels,) int64: place of each channel in the buffer; a number for each lane
    reference: Array  # (cases, degree + 1, pieces, references): the same for what the law reads when it is asked
    read: Any  # (references,) int64: their places
    every: int  # rows are recorded after so many steps; 0: at the end of each piece
    hold: int  # the law is asked at every so-many-th step of a piece,
    ask: Any  # (pieces,) int64: from this one on; not at all where it is ``hold`` or more
    noise: Any  # (4,) int64: seed; places of random numbers, of sample numbers and of seeds, where each sample has its
    # own (or -1)
    random_channels: Any  # (numbers, 2) int64: channel of each random number, and whether it is drawn once
    moments: Any  # (ticks,) int64: time of each tick, for random numbers


@compile_inner
def _write(tables: Array, target: Any, piece: int, local: float, cases: Any, width: int, buffer: Array) -> None:
    """Channels at ``local`` seconds into a piece, for each lane by its case."""
    top = tables.shape[1] - 1
    alike = tables.shape[0] == 1
    for channel in range(target.size):
        for lane in range(width):
            # One table for all samples: evaluate once and copy.
            if lane > 0 and alike:
                buffer[target[channel] + lane] = buffer[target[channel]]
                continue
            table = tables[0 if alike else cases[lane]]
            value = table[top, piece, channel]
            for power in range(top - 1, -1, -1):
                value = value * local + table[power, piece, channel]
            buffer[target[channel] + lane] = value


@compile_inner
def _stages(
    code: StepCode, schedule: StepSchedule, piece: int, t: float, count: int, cases: Any, buffer: Array
) -> None:
    """The stages of a step; the first alone is for the observer, and adds nothing to the sums."""
    step, moving = schedule.step[piece], schedule.coefficient.shape[1] > 1
    for stage in range(count):
        part = 0.0 if stage == 0 else step if stage == 3 else 0.5 * step
        # Stages 1 and 2 are both at the middle of the step: inputs stay as they are for the second.
        if moving and stage != 2:
            _write(schedule.coefficient, schedule.target, piece, t + part, cases, code.width, buffer)
        buffer[code.part] = part
        # 1, 2, 2, 1; the step / 6 is applied once, in ``finish``.
        buffer[code.weight] = 0.0 if count == 1 else 2.0 if 0 < stage < 3 else 1.0
        call_kernel(code.stage, buffer, buffer)
        # Here the rate at the start of the step has just become known, and the state is still that of the start.
        if stage == 0 and code.observe != 0:
            call_kernel(code.observe, buffer, buffer)


@compile_lean
def roll(code: StepCode, schedule: StepSchedule, cases: Any, buffer: Array, recorded: Any, rows: Array) -> None:
    """One group of lanes through the whole schedule.

    Args:
        cases: (width,) int64: which table of the schedule each lane takes.
        recorded: (blocks, 2) int64: first place and length of what is recorded, one behind the other.
        rows: (records, all lengths).
    """
    done, row, tick = 0, 0, 0
    moving = schedule.coefficient.shape[1] > 1
    for piece in range(schedule.counts.size):
        count = schedule.counts[piece]
        step = schedule.step[piece]
        buffer[code.step] = step
        # Constant on the piece: once is enough.
        if schedule.target.size > 0 and not moving:
            _write(schedule.coefficient, schedule.target, piece, 0.0, cases, code.width, buffer)
        # The observer also looks at the end of a piece, before inputs jump there.
        for number in range(count + (1 if code.observe != 0 else 0)):
            # A product, not a running sum, which would collect rounding.
            t = number * step
            buffer[code.time] = schedule.begin[piece] + t
            looking = number == count
            if code.law != 0 and not looking and number % schedule.hold == schedule.ask[piece]:
                _write(schedule.reference, schedule.read, piece, t, cases, code.width, buffer)
                # The law may read inputs, and those in the array are of the end of the step before.
                if moving:
                    _write(schedule.coefficient, schedule.target, piece, t, cases, code.width, buffer)
                if schedule.random_channels.shape[0] > 0:
                    for lane in range(code.width):
                        # A function of seed, sample, time and channel, not of a generator's state: the numbers of a
                        # sample depend neither on its lane nor on the others of its group.
                        sample = int(buffer[schedule.noise[2] + lane])
                        own = schedule.noise[3]
                        seed = schedule.noise[0] if own < 0 else int(buffer[own + lane])
                        at = schedule.moments[tick]
                        draw(schedule.random_channels, seed, sample, at, code.width, buffer, schedule.noise[1] + lane)
                tick += 1
                call_kernel(code.law, buffer, buffer)
            _stages(code, schedule, piece, t, 1 if looking else 4, cases, buffer)
            if looking:
                break
            call_kernel(code.finish, buffer, buffer)
            done += 1
            if schedule.every > 0 and done % schedule.every == 0 and row < rows.shape[0]:
                _keep(buffer, recorded, rows[row])
                row += 1
        if schedule.every == 0 and row < rows.shape[0]:
            _keep(buffer, recorded, rows[row])
            row += 1


@compile_inner
def _keep(buffer: Array, recorded: Any, row: Array) -> None:
    at = 0
    for block in range(recorded.shape[0]):
        for i in range(recorded[block, 1]):
            row[at + i] = buffer[recorded[block, 0] + i]
        at += recorded[block, 1]


class Samples(NamedTuple):
    """What differs from sample to sample, and where results go."""

    template: Array  # (buffer,) one with all that is common
    places: Any  # (inputs,) int64: place in the buffer of each number below
    values: Array  # (B, inputs)
    case: Any  # (B,) int64
    recorded: Any  # (blocks, 3) int64: first place in the buffer, numbers, and how far apart these stand
    result: Array  # (B, records, numbers of all blocks)
    kept: Any  # (numbers,) int64: places in the buffer of what is kept of the end
    end: Array  # (B, numbers)


@compile_loop
def roll_samples(code: StepCode, schedule: StepSchedule, samples: Samples, first: int, last: int) -> None:
    """Samples ``first`` to ``last`` in groups of lanes."""
    width = code.width
    records, numbers, blocks = samples.result.shape[1], samples.result.shape[2], samples.recorded.shape[0]
    memory = np.empty(samples.template.size + 8)
    skip = (-memory.ctypes.data // 8) % 8  # begin on a cache line, so that no vector lies across two of them
    buffer = memory[skip : skip + samples.template.size]
    recorded, length, to = np.empty((blocks, 2), dtype=np.int64), 0, 0
    source, varies = np.empty(numbers, dtype=np.int64), np.empty(numbers, dtype=np.int64)
    for block in range(blocks):
        place, size, pitch = samples.recorded[block]
        recorded[block, 0], recorded[block, 1] = place, size * pitch
        for i in range(size):
            # What is the same in all lanes stands once.
            source[to + i], varies[to + i] = length + i * pitch, 1 if pitch > 1 else 0
        to += size
        length += size * pitch
    rows = np.empty((records, length))
    cases = np.zeros(width, dtype=np.int64)
    for group in range(first, last, width):
        for i in range(buffer.size):
            buffer[i] = samples.template[i]
        for lane in range(width):
            # A group that is not full repeats its last sample: lanes do not see each other.
            b = min(group + lane, last - 1)
            cases[lane] = samples.case[b]
            for i in range(samples.places.size):
                buffer[samples.places[i] + lane] = samples.values[b, i]
        roll(code, schedule, cases, buffer, recorded, rows)
        for lane in range(min(width, last - group)):
            for row in range(records):
                for i in range(numbers):
                    samples.result[group + lane, row, i] = rows[row, source[i] + lane * varies[i]]
            for i in range(samples.kept.size):
                samples.end[group + lane, i] = buffer[samples.kept[i] + lane]


class FixedStep:
    """Machine code of a step, of a law and an observer.

    Args:
        uniform: inputs that are the same for all samples.
        law, observer: see the module's text.
    """

    def __init__(
        self,
        symbols: StepSymbols,
        *,
        uniform: Collection[str] = (),
        law: Update | None = None,
        observer: Update | None = None,
    ) -> None:
        self.symbols, self.law, self.observer = symbols, law, observer
        memory = {name: symbol for update in (law, observer) if update for name, symbol in update.memory.items()}
        self.memory = tuple(memory)
        # Derived inputs (of inertias, say) are uniform if all that they follow from is.
        same = {*uniform, *CLOCK}
        #: Inputs that others follow from.
        self.derived_from = frozenset(symbols.motion.derivation().inputs if symbols.motion.derived else ())
        if symbols.motion.derived and self.derived_from <= same:
            same |= {*symbols.motion.derived}
        # What has a number for each lane stands first, so that it begins on a cache line.
        self.inputs = dict(sorted({**symbols.inputs, **memory}.items(), key=lambda item: item[0] in same))
        self.uniform = tuple(name for name in self.inputs if name in same)
        self._offsets: dict[int, dict[str, int]] = {}
        self._codes: dict[int, StepCode] = {}
        self._sizes = {name: int(symbol.numel()) for name, symbol in self.inputs.items()}
        self.stage = self._kernel("stage", symbols.stage())
        self.finish = self._kernel("finish", symbols.finish())
        self.law_kernel = None if law is None else self._kernel("law", law.outputs)
        self.observe = None if observer is None else self._kernel("observer", observer.outputs)

    def _kernel(self, what: str, outputs: Mapping[str, SX]) -> Kernel:
        # Outputs are written over inputs of the same size, so structural zeros have to be there as numbers.
        dense = {name: ca.densify(value) for name, value in outputs.items()}
        program = Program(f"{self.symbols.motion.name}_{what}", self.inputs, dense, derived=self.symbols.motion.derived)
        return Kernel(program, self.uniform, in_place=True)

    def size(self, name: str) -> int:
        return self._sizes[name]

    def place(self, name: str, width: int) -> int:
        """Where an input begins in the buffer, in doubles."""
        if width not in self._offsets:  # short roll-outs would feel it
            self._offsets[width] = self.stage.offsets(width)
        return self._offsets[width][name]

    def code(self, width: int) -> StepCode:
        if width not in self._codes:
            self._codes[width] = self._code(width)
        return self._codes[width]

    def _code(self, width: int) -> StepCode:
        part, weight, step, time = (self.place(name, width) for name in CLOCK)
        return StepCode(
            self.stage.address(width),
            self.finish.address(width),
            0 if self.law_kernel is None else self.law_kernel.address(width),
            0 if self.observe is None else self.observe.address(width),
            width,
            part,
            weight,
            step,
            time,
        )

    def allocate_inputs(self, width: int, values: Mapping[str, Array]) -> Array:
        """A buffer with these values in all lanes, everything else zero."""
        size = self.stage.input_doubles(width)
        memory = np.zeros(size + 8)
        skip = (-memory.ctypes.data // 8) % 8  # as in roll_samples
        buffer = memory[skip : skip + size]
        for name, value in {**values, **self.stage.derive(values)}.items():
            flat = np.asarray(value, dtype=np.float64).ravel()
            pitch, at = self._pitch(name, width), self.place(name, width)
            buffer[at : at + pitch * flat.size] = np.repeat(flat, pitch)
        return buffer

    def samples(
        self,
        width: int,
        records: int,
        *,
        common: Mapping[str, Array],
        each: Mapping[str, Array],
        case: Any = None,
        recorded: Sequence[str] = ("state",),
        kept: Sequence[str] = (),
    ) -> Samples:
        """Samples for :func:`roll_samples`.

        Args:
            records: rows that the schedule will record.
            common: inputs and memory that all samples start with.
            each: (B, size) of those that differ, ``state`` among them.
            case: (B,) which table of the schedule each takes; the first by default.
            recorded: inputs that each row has.
            kept: inputs or memory of which the end is kept.
        """
        count = len(next(iter(each.values())))
        common, each = self.derive_inputs(common, each)
        values = np.ascontiguousarray(np.concatenate([each[name] for name in each], axis=1))
        return Samples(
            self.allocate_inputs(width, common),
            self._places(tuple(each), width),
            values,
            np.zeros(count, dtype=np.int64) if case is None else np.asarray(case, dtype=np.int64),
            np.array([(self.place(name, width), self.size(name), self._pitch(name, width)) for name in recorded]),
            np.empty((count, records, sum(self.size(name) for name in recorded))),
            self._places(kept, width),
            np.empty((count, sum(self.size(name) for name in kept))),
        )

    def derive_inputs(
        self, common: Mapping[str, Array], each: Mapping[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Both with the derived inputs that follow from them: the same for all samples where the loop has them so."""
        found = self.stage.derive({**common, **each})
        same = {name: value for name, value in found.items() if name in self.uniform}
        return {**common, **same}, {**each, **{name: value for name, value in found.items() if name not in same}}

    def _pitch(self, name: str, width: int) -> int:
        """How far apart the numbers of an input stand."""
        return 1 if name in self.uniform else width

    def _optional_place(self, name: str, width: int) -> int:
        return self.place(name, width) if name in self.inputs else -1

    def _places(self, names: Sequence[str], width: int) -> Any:
        """Place in the buffer of every number of these inputs, which have one for each lane."""
        if not names:
            return np.zeros(0, dtype=np.int64)
        found = [self.place(name, width) + width * np.arange(self.size(name)) for name in names]
        return np.concatenate(found)

    def make_schedule(self, width: int, schedule: Schedule, every: int = 0) -> StepSchedule:
        """What happens in time, with places in the buffer; rows after ``every`` steps, or at the end of each piece."""
        counts = np.asarray(schedule.counts, dtype=np.int64)
        drawn = schedule.random_channels
        own = (self._optional_place(name, width) if len(drawn) else 0 for name in RANDOM_INPUTS)
        # References take their places only where there are any: a law may have none.
        read = ("reference",) if schedule.reference.size else ()
        return StepSchedule(
            schedule.begins,
            np.asarray(schedule.steps, dtype=np.float64),
            counts,
            np.ascontiguousarray(schedule.coefficient),
            self._places(schedule.channels, width),
            np.ascontiguousarray(schedule.reference),
            self._places(read, width),
            every,
            schedule.hold,
            schedule.law_steps,
            np.array([schedule.seed, *own]),
            drawn,
            schedule.moments,
        )
