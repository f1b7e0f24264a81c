"""One phase of many runs, vectorised: a run in each vector lane of the processor or in each thread of a GPU.

Runs share a structure key if everything that is compiled is the same: geometry, phases, laws except their gains, the
times at which signals change. All else is a parameter of the run: its start, the inertias, springs and dampers of the
robot, gains, seeds, references, forces and loads.

Method: classical Runge-Kutta of order 4 with the steps of :class:`~spacearm.simulate.RK4` in
:func:`~spacearm.simulate.simulate`. The phase is cut at breaks of signals and at ticks of the law that do not fall on
the grid; each interval has a whole number of equal steps, so that every lane does the same work at the same time and no
event has to be located. Energies and impulse, moment and path of the mass centre under external actions are integrated
with the state, so that every run is checked by its balances of momentum and energy
(:mod:`spacearm.simulate.ensemble.vectorised_runs`).

Shapes: states (B, nx), results (B, T, ny), signal tables (cases, powers, intervals, channels); world axes, base
velocities in base axes, SI units. Events, paths, dry friction and contacts are not supported: :meth:`check` says so.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

import casadi as ca
import numpy as np

from spacearm.engine.device import Device
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols
from spacearm.engine.schedule import NO_RANDOM_CHANNELS, Schedule
from spacearm.engine.signals import Signals, merge
from spacearm.errors import InputError, error_context
from spacearm.mechanics.law import LawProgram
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.sensors import ForceTorque
from spacearm.mechanics.spatial import SX
from spacearm.mechanics.structure import Keyed, structure
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import Layout
from spacearm.model.massless import check_massless
from spacearm.simulate.ensemble.closed_motion import PASSIVE, LawSymbols, close_motion, law_symbols, trim_motion
from spacearm.simulate.law import Law, PythonLaw, combine_laws
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.phase import Phase
from spacearm.simulate.signals import as_signal
from spacearm.typing import Array

#: Instants at which balances are checked, besides the end.
INSTANTS = 8
#: Seeds are float64 numbers in lanes.
LARGEST_SEED = 2**53
PARAMETERS = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling")
RUN_WITHOUT_DEVICE = "run it without a device: one by one on the processor"
#: Entries of ``VectorisedPhase.structure_key`` in words.
STRUCTURE_PARTS = (
    "the robot's geometry", "the frames that loads act on", "the degrees of freedom that forces act on",
    "the locked or driven degrees of freedom", "which springs and dampers exist", "the times of signals, or the steps",
    "the law: its kind, periods, sensors' errors, actuators' limits",
)  # fmt: skip


class VectorisedError(InputError):
    """The scenario needs something that vectorised runs do not support, whatever its parameters."""


class Steps(NamedTuple):
    """Intervals of equal steps."""

    counts: Any  # (pieces,) int64
    steps: Array  # (pieces,) s
    hold: int  # steps between two ticks of a law in most pieces,
    ask: Any  # (pieces,) int64: the first of them in each; ``hold`` if there is none


@dataclass(frozen=True, eq=False)
class VectorisedPhase:
    """A phase of one run, with what the compiled loop needs: its grid of steps, signals, law and structure key."""

    robot: Robot
    phase: Phase
    place: str
    step: float
    start: float  # s since the run's start

    @cached_property
    def law(self) -> Law | None:
        laws = cast(tuple[Law, ...], self.phase.laws)
        return combine_laws(laws).prescribe_dofs(self.robot, self.phase.locked, {}) if laws else None

    @cached_property
    def law_program(self) -> LawProgram | None:
        return None if self.law is None else self.law.program(self.robot)

    @property
    def period(self) -> float | None:
        return None if self.law is None else self.law.period

    @cached_property
    def load_places(self) -> tuple[LoadFrame, ...]:
        return tuple(dict.fromkeys(load.place for load in self.phase.loads))

    @cached_property
    def frames(self) -> tuple[LoadFrame, ...]:
        """Frames on which loads act, then those of thrusters."""
        return tuple(dict.fromkeys((*self.load_places, *(() if self.law is None else self.law.frames(self.robot)))))

    @cached_property
    def parameters(self) -> dict[str, Array]:
        found = robot_parameters(self.robot)
        return {name: found[name] for name in PARAMETERS}

    @cached_property
    def non_free_dofs(self) -> tuple[str, ...]:
        """Degrees of freedom that are not free: locked, or driven by the law."""
        return (*self.phase.locked, *(() if self.law is None else self.law.acceleration_dofs(self.robot)))

    @cached_property
    def limits(self) -> tuple[tuple[int, float, float], ...]:
        """Degree of freedom, rate limit, and effort that brakes beyond it (0: none) of each of the law's forces."""
        if self.law is None or self.law_program is None or self.period is None or not self.law.limited:
            return ()
        named = [what for kind, what, _ in self.law_program.actions if kind == "force" and what not in BASE_DOFS]
        most = {self.robot.dof_index(name): self.robot.joint(name).limits for name in named}
        return tuple(
            (dof, own.velocity, own.effort if math.isfinite(own.effort) else 0.0)
            for dof, own in most.items()
            if math.isfinite(own.velocity)
        )

    @cached_property
    def has_external_action(self) -> bool:
        """Whether there is an external action."""
        acted = (
            ()
            if self.law_program is None
            else tuple(what for kind, what, _ in self.law_program.actions if kind != "wrench")
        )
        return bool(self.frames or {*self.non_free_dofs, *self.phase.forces, *acted} & {*BASE_DOFS})

    @cached_property
    def signals(self) -> Signals:
        """Forces, loads and references on one grid, with a break at the law's last tick."""
        signals = [as_signal(given, f"{self.place}, forces.{name}") for name, given in self.phase.forces.items()]
        for frame in self.load_places:
            parts = [load.wrench for load in self.phase.loads if load.place == frame]
            # Loads on one frame and in the same axes are one wrench.
            signals += [sum(own[1:], start=own[0]) for own in zip(*parts, strict=True)]
        # A zero force has breaks of its own in a file, but none that matter: it must not cut the grid.
        acting = [signal if np.any(signal.coefficients) else as_signal(0.0, "") for signal in signals]
        channels = [(0, signal.breaks, signal.coefficients) for signal in acting]
        channels += [] if self.law is None else [(0, *channel) for channel in self.law.channels()]
        duration, period = float(self.phase.duration), self.period
        grid = merge(channels, duration)
        if period is None:
            return grid
        # Ticks around every break that is not a tick, so that each interval is whole periods or has no tick.
        inner = grid.breaks[1:] / period
        off = inner[np.abs(inner - np.round(inner)) > 1e-9 * np.maximum(1.0, inner)]
        ticks = np.unique(np.concatenate([np.floor(off), np.ceil(off)])) * period
        ticks = ticks[(ticks > 0.0) & (ticks < duration * (1.0 - 1e-12))]
        more = np.concatenate([[-1.0], ticks, [duration + 1.0]])
        return merge([*channels, (0, more, np.zeros((1, len(more) - 1)))], duration)

    @cached_property
    def steps(self) -> Steps:
        """Steps of the solver: equal parts of each interval between breaks and ticks."""
        breaks = self.signals.breaks
        widths = np.diff(breaks)
        # As many equal steps as keep each below the requested step; 1e-9 for widths of whole steps.
        counts = np.maximum(1, np.ceil(widths / self.step - 1e-9)).astype(np.int64)
        ask = np.zeros(len(counts), dtype=np.int64)
        if self.period is None:
            return Steps(counts, widths / counts, 1, ask)
        # Steps of one period of the law: ticks then fall on steps exactly.
        hold = max(1, math.ceil(self.period / self.step - 1e-9))
        # Between two breaks that are no ticks there is none (see ``signals``); else all of it is whole periods.
        ticks = widths / self.period
        whole = np.round(ticks)
        full = (whole > 0.0) & (np.abs(ticks - whole) <= 1e-9 * whole)
        counts[full] = hold * whole[full].astype(np.int64)
        # A piece that does not begin at a tick is not asked before the next one.
        begins = breaks[:-1] / self.period
        ask[np.abs(begins - np.round(begins)) > 1e-9 * np.maximum(1.0, begins)] = hold
        return Steps(counts, np.where(full, self.period / hold, widths / counts), hold, ask)

    def check(self) -> None:
        """Raise an error that states what of this phase vectorised runs do not support."""
        phase, law, robot = self.phase, self.law, self.robot
        lacks: dict[str, Any] = {
            "ends at an event (until)": phase.until or phase.event_function is not None,
            "has joints that follow paths (driven, plan)": phase.driven,
            "prescribes accelerations": phase.accelerations,
            'ends at joint limits (limits = "stop")': phase.limits == "stop",
            "has joints with dry friction": phase.friction and any(joint.friction for joint in robot.joints),
        }
        if law is not None:
            lacks |= {
                "has a law that is a Python function": isinstance(law, PythonLaw),
                "has a law that reads a force sensor (force_torque)": any(
                    isinstance(s, ForceTorque) for s in law.sensors
                ),
                f"has a seed of {LARGEST_SEED} or more": law.seed >= LARGEST_SEED,
            }
        for what, found in lacks.items():
            if found:
                more = "set friction = false, or " if "friction" in what else ""
                raise VectorisedError(
                    f"{what}, which vectorised runs do not support", place=self.place, hint=more + RUN_WITHOUT_DEVICE
                )
        with error_context(self.place):
            for name in (*phase.locked, *phase.forces):
                robot.dof_index(name)
            for frame in self.frames:
                robot.frame(frame.frame)
            check_massless(robot, list(self.non_free_dofs))

    @cached_property
    def structure_key(self) -> tuple[Hashable, ...]:
        """Structure key: what vectorised runs must share, in the order of ``STRUCTURE_PARTS``."""
        # Absent springs and dampers are removed from the compiled code, so runs must agree on which are absent.
        zero = tuple((self.parameters[name] == 0.0).tobytes() for name in PASSIVE)
        frames = structure(self.robot, [load.frame for load in self.frames])
        # Steps are rounded to 1e-15 s: runs whose grids differ only by rounding share a structure key.
        grid = self.steps.counts.tobytes(), self.steps.ask.tobytes(), np.round(self.steps.steps, 15).tobytes()
        model = None if self.law is None or self.law.model is None else self.law.numbers(self.robot).tobytes()
        # Gains are inputs: laws that differ only in them have the same program.
        law = self.law_program, model, self.limits
        return frames, (self.frames, self.load_places), tuple(self.phase.forces), self.non_free_dofs, zero, grid, law

    def numbers(self) -> dict[str, Array]:
        """Parameters of this run that are inputs of the loop."""
        if self.law is None or self.law_program is None:
            return self.parameters
        found = {**self.parameters, "constants": np.concatenate([np.zeros(0), *self.law.constants.values()])}
        return {name: value for name, value in found.items() if value.size or name in PARAMETERS}


def _external_power(interval: VectorisedPhase, state: SX, parameters: Mapping[str, SX], base: SX, wrench: SX) -> SX:
    """Power of each load; force and moment about the mass centre of all external actions, and velocity of the mass
    centre (9).
    """
    plant = Plant(interval.robot, {name: int(value.size) for name, value in interval.parameters.items()})
    centre, rotation = plant.mass_centre, plant.base.rotation
    force = rotation @ base[:3]
    moment = rotation @ base[3:] + ca.cross(plant.base.origin - centre, force)
    powers = []
    for k, load in enumerate(interval.frames):
        pose, push, twist = plant.pose(load.frame), wrench[6 * k : 6 * k + 3], wrench[6 * k + 3 : 6 * k + 6]
        if load.axes == "frame":
            push, twist = pose.rotation @ push, pose.rotation @ twist
        force, moment = force + push, moment + twist + ca.cross(pose.origin - centre, push)
        powers.append(ca.dot(ca.vertcat(push, twist), plant.twist(load.frame)))
    # Six rates of the momentum balance and the mass centre's velocity, whose integral is its expected displacement.
    found = ca.vertcat(*powers, force, moment, plant.momentum[:3] / plant.mass)
    own = ca.vertcat(*(ca.vec(parameters[name]) for name in PARAMETERS))
    return ca.substitute(found, ca.vertcat(plant.state, plant.model), ca.vertcat(state, own))


def _rate_excess(interval: VectorisedPhase, state: SX, command: SX) -> SX:
    """Rate of joints beyond their limits, where an event-driven run would have cut drives or let them brake."""
    total, rates = ca.SX(0), state[Layout(interval.robot.n).velocity]
    for dof, most, effort in interval.limits:
        over = ca.fmax(ca.fabs(rates[dof]) - most, 0.0)
        # Integrated: any time beyond a limit leaves a positive number at the end, unless the law itself brakes as hard.
        total += ca.if_else(command[dof] * ca.sign(rates[dof]) > -effort, over, 0.0)
    return total


def _law_symbols(interval: VectorisedPhase, state: SX, parameters: Mapping[str, SX]) -> LawSymbols:
    """The law with what may differ from run to run as inputs: the model that it assumes, its gains, its seed."""
    law, own = interval.law, interval.law_program
    if law is None or own is None:
        return LawSymbols({}, {}, None, None)
    constants = ca.SX.sym("constants", sum(value.size for value in law.constants.values()))
    assumed = ca.vertcat(*(ca.vec(parameters[name]) for name in PARAMETERS))
    # A law with a nominal model of its own is compiled with that model's numbers; otherwise it knows the run's own.
    if law.model is not None:
        assumed = ca.SX(ca.DM(law.numbers(interval.robot)[: assumed.numel()]))
    varied = {"constants": constants}
    if law.period is not None and own.program.inputs.get("noise", constants[:0]).numel():
        varied["seed"] = ca.SX.sym("seed")
    return law_symbols(law, interval.robot, state, interval.frames, ca.vertcat(assumed, constants), varied)


@lru_cache(maxsize=32)
def _loop(kept: Keyed[VectorisedPhase], uniform: frozenset[str]) -> FixedStep:
    """The loop of runs with one structure key; the inputs in ``uniform`` are the same for all of them."""
    interval, robot = kept.value, kept.value.robot
    passive = {name: interval.parameters[name] for name in PASSIVE}
    motion = trim_motion(robot, interval.frames, interval.non_free_dofs, passive, ledger=True)
    nx = Layout(robot.n).size
    # Integrated with the state: energies, then impulse, moment and path of the mass centre (9), then the excess of
    # rates.
    integrated = motion.outputs["power"].numel() + (9 if interval.has_external_action else 0) + bool(interval.limits)
    state = ca.SX.sym("state", nx + integrated)
    parameters = {name: motion.inputs[name] for name in (*PARAMETERS, *motion.derived)}
    push, load = ca.SX.sym("push", len(interval.phase.forces)), ca.SX.sym("load", 6 * len(interval.load_places))
    law = _law_symbols(interval, state[:nx], parameters)
    force = ca.SX(law.commands.get("force", ca.SX.zeros(robot.dofs)))
    for k, name in enumerate(interval.phase.forces):
        force[robot.dof_index(name)] += push[k]
    # Frames of loads come first, those of thrusters alone behind them have no load of their own.
    rest = 6 * (len(interval.frames) - len(interval.load_places))
    wrench = ca.vertcat(load, ca.SX.zeros(rest)) + law.commands.get("wrench", ca.SX.zeros(6 * len(interval.frames)))
    commands = {**law.commands, "state": state[:nx], "force": force, "wrench": wrench}
    closed = close_motion(motion, robot, interval.non_free_dofs, commands, {}).outputs
    rates = [closed["rate"], closed["power"]]
    if interval.has_external_action:
        # A program with everything free sees the base in a frame of its own, which the power of loads does not follow.
        rates[1] = closed["power"][: closed["power"].numel() - len(interval.frames)]
        on_base = (force + closed["reaction"])[:6]
        rates.append(_external_power(interval, state[:nx], parameters, on_base, wrench))
    if interval.limits:
        rates.append(_rate_excess(interval, state[:nx], law.commands["force"]))
    given = {name: symbol for name, symbol in (("push", push), ("load", load)) if symbol.numel()}
    inputs = {"state": state, **parameters, **given, **law.inputs}
    outputs = {"rate": ca.densify(ca.vertcat(*rates))}
    outputs |= {} if law.memory_rate is None else {"memory_rate": ca.densify(law.memory_rate)}
    moving = Program("lanes", inputs, outputs, derived=motion.derived)
    return FixedStep(StepSymbols(moving), uniform=sorted(uniform), law=law.update)


class SignalTables(NamedTuple):
    """Signals of all runs: (cases, powers, intervals, channels), one case if all are equal."""

    channels: Array
    references: Array

    @classmethod
    def from_phases(cls, intervals: Sequence[VectorisedPhase]) -> SignalTables:
        """Channels are forces, loads and the references of a continuous law; a sampled law reads its references at its
        ticks.
        """
        first = intervals[0]
        count = len(first.phase.forces) + 6 * len(first.load_places)
        follows = 0 if first.law is None else len(first.law.channels())
        powers = max(len(interval.signals.coefficient) for interval in intervals)
        table = np.zeros((len(intervals), powers, len(first.steps.counts), count + follows))
        for interval, own in zip(intervals, table, strict=True):
            given = interval.signals.coefficient
            own[: len(given)] = given[:, :, : count + follows]
        # One table for all runs if signals agree: it stays in the cache, or in one place on the GPU.
        if np.all(table == table[:1]):
            table = table[:1]
        split = count if first.period is not None else count + follows
        return cls(*(np.ascontiguousarray(part) for part in (table[..., :split], table[..., split:])))


class _RunBatch(NamedTuple):
    """Runs with one structure key, ready for the loop."""

    loop: FixedStep
    common: dict[str, Array]  # inputs and memory common to all
    each: dict[str, Array]  # (B, size) of those that differ
    steps: Steps
    tables: SignalTables
    random_channels: Any  # (numbers, 2): channels of random numbers, and whether they are drawn once
    start: float  # s since the run's start
    every: int  # steps between two records

    @classmethod
    def from_phases(cls, intervals: Sequence[VectorisedPhase], states: Array) -> _RunBatch:
        first, size = intervals[0], len(intervals)
        numbers = [interval.numbers() for interval in intervals]
        stacked = {name: np.array([own[name] for own in numbers]) for name in numbers[0]}
        # What all runs share is an input without a lane: what depends on such inputs alone is computed once for each
        # group of lanes.
        common = {name: rows[0] for name, rows in stacked.items() if np.all(rows == rows[:1])}
        loop = _loop(Keyed(first.structure_key, first), frozenset(common))
        each = {name: rows for name, rows in stacked.items() if name not in common}
        each["state"] = np.zeros((size, loop.size("state")))
        each["state"][:, : states.shape[1]] = states
        if first.law_program is not None and "memory" in loop.inputs:
            common["memory"] = first.law_program.memory
        drawn = NO_RANDOM_CHANNELS
        if first.law_program is not None and "seed" in loop.inputs:
            laws = [cast(Law, interval.law) for interval in intervals]
            drawn = laws[0].random_channels(first.robot)
            each |= {"seed": np.array([[float(law.seed)] for law in laws]), "sample": np.zeros((size, 1))}
        every = max(1, int(first.steps.counts.sum()) // INSTANTS)
        return cls(loop, common, each, first.steps, SignalTables.from_phases(intervals), drawn, first.start, every)

    @property
    def channels(self) -> list[str]:
        """Inputs that are functions of time; the references of a sampled law are not among them."""
        names = ["push", "load", *([] if self.tables.references.shape[3] else ["reference"])]
        return [name for name in names if name in self.loop.inputs]

    @property
    def case(self) -> Any:
        alike = len(self.tables.channels) == len(self.tables.references) == 1
        return None if alike else np.arange(len(self.each["state"]))

    def run(self, device: Device, threads: int | None) -> tuple[Array, Array]:
        counts, steps, hold, ask = self.steps
        schedule = Schedule(
            counts,
            steps,
            tuple(self.channels),
            self.tables.channels,
            self.tables.references,
            hold,
            ask,
            self.random_channels,
            start=self.start,
        )
        found = Ensemble(
            self.loop,
            schedule,
            self.common,
            self.each,
            every=self.every,
            case=self.case,
            kept=("state",),
            device=device,
            threads=threads,
        ).run()
        return found.rows, found.ends


def run_phases(
    intervals: Sequence[VectorisedPhase], states: Array, device: Device = "cpu", threads: int | None = None
) -> tuple[Array, Array, Any]:
    """Times (T,) since the phase's start, s, the last at its end; the integrated vectors there (B, T, ny); and whether
    each run kept the rate limits of its drives (B,), since there are no events between ticks.

    The flat state comes first, then energies as :class:`~spacearm.simulate.motion.RobotMotion` places them, then
    impulse, twist about and path of the mass centre if there is an external action. Phases share a structure key.
    """
    batch = _RunBatch.from_phases(intervals, states)
    rows, ends = batch.run(device, threads)
    times = np.cumsum(np.repeat(batch.steps.steps, batch.steps.counts))
    at_records = times[batch.every - 1 :: batch.every]
    y = np.concatenate([rows, ends[:, None]], axis=1)
    within = np.ones(len(intervals), dtype=bool)
    if intervals[0].limits:
        # Exactly zero: the excess is a sum of positive parts, which rounding cannot produce.
        y, within = y[..., :-1], y[:, -1, -1] == 0.0
    return np.append(at_records, times[-1]), y, within
