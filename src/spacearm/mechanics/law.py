"""A control law as a compiled program: from its commands to what the actuators give.

The stages keep the order of the hardware: the law's expressions, quantisation of each command, delay by whole periods,
limits of the actuators (torque and rate of motors and wheels; thrusters on or off with a shortest pulse), inputs of the
motion program. Limits come last because a drive limits what reaches it, at the rate it has then.

Every stage is an expression over (state, time, reference, memory, model), so a law costs one call per tick, or, where
it is continuous, one call per evaluation of the right-hand side. Delay and pulses are kept as memory of the law.

Units: forces N or N m, accelerations m/s2 or rad/s2, thrusters a level of 0 or 1. Base commands are in base axes. What
the actuators' own dynamics would add (motor current, valve lag) is not modelled here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import casadi as ca
import numpy as np

from spacearm import checks
from spacearm.errors import InputError, quote_text
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX
from spacearm.model import Thruster
from spacearm.typing import Array

#: Share of a joint's or wheel's highest rate over which its drive loses its torque.
TAPER = 0.05
#: Numbers that commands or readings on their way may be: each is an instruction of the program.
MOST_LATE = 4_000


@dataclass(frozen=True, eq=False)
class Commands:
    """What a law asks for; each an expression.

    Args:
        forces: degree of freedom to force, N or N m (base: base axes).
        accelerations: degree of freedom to acceleration; it is then driven, whatever force that takes.
        thrusters: thruster to level; it is on where the level is above one half.
        memory: values at the next tick of what a sampled law has asked for with :meth:`Plant.memory`.
        rates: time derivatives of such memory. A continuous law's are integrated with the state; a sampled law
            adds its period times them.
        events: name to an expression whose sign changes are events.
        readings: name and unit of a measured number to its expression, to be recorded.
        expected: degree of freedom to the acceleration that its force is to give it: laws beside this one count on it
            in place of the force.
        measured: degree of freedom to the force of the environment that the law counts on: laws beside it do as well.
    """

    forces: Mapping[str, SX] = field(default_factory=dict)
    accelerations: Mapping[str, SX] = field(default_factory=dict)
    thrusters: Mapping[str, SX] = field(default_factory=dict)
    memory: Mapping[str, SX] = field(default_factory=dict)
    rates: Mapping[str, SX] = field(default_factory=dict)
    events: Mapping[str, SX] = field(default_factory=dict)
    readings: Mapping[tuple[str, str], SX] = field(default_factory=dict)
    expected: Mapping[str, SX] = field(default_factory=dict)
    measured: Mapping[str, SX] = field(default_factory=dict)

    def substitute(self, symbols: Sequence[SX], values: Sequence[SX]) -> Commands:
        """The same with these expressions in place of symbols."""
        parts = [getattr(self, part.name) for part in fields(self)]
        found = iter(ca.substitute([ca.SX(v) for part in parts for v in part.values()], [*symbols], [*values]))
        return Commands(*({name: next(found) for name in part} for part in parts))


@dataclass(frozen=True, eq=False)
class LawProgram:
    """A law's program and what its numbers are.

    Inputs: ``state``, ``time``, ``reference``, ``memory``, ``model`` (numbers of the plant), and of a law with sensors
    ``noise`` and ``wrench_frames`` (wrenches). Outputs: ``action``, ``memory`` (of a continuous law, its rate),
    ``level`` (of each actuator, as it acts),
    ``margin`` (of each level to its limits: below zero it is saturated; then of each event), and ``reading`` of a law
    with sensors.
    """

    program: Program
    actions: tuple[tuple[str, Any, int], ...]  # input of the motion program, what it belongs to, entry
    levels: tuple[str, ...]
    units: tuple[str, ...]
    limited: tuple[str, ...]  # levels that have a margin
    events: tuple[str, ...]
    memory: Array  # at the first tick
    readings: tuple[tuple[str, str], ...] = ()  # name and unit
    random_numbers: tuple[
        tuple[str, int, bool], ...
    ] = ()  # of each random number: its owner, which, whether drawn once
    wrench_frames: tuple[LoadFrame, ...] = ()  # whose wrenches are the input ``wrench_frames``
    expected: tuple[str, ...] = ()  # degrees of freedom whose acceleration it knows
    reacts: bool = False  # whether it depends on what the degrees of freedom do that it does not command
    measures: bool = False  # whether it counts on a force of the environment
    momentary: tuple[int, ...] = ()  # entries of the memory that begin anew after a pause
    # Of an action that acts at some of the ticks only: one in how many, where the memory counts them (0 before it acts,
    # 1 after), and where it holds the action and its level meanwhile.
    slow: Mapping[int, tuple[int, int, int, int]] = field(default_factory=dict)


def shift_register(plant: Plant, name: str, size: int) -> list[SX]:
    """Memory of a law that holds ``size`` numbers on their way, the oldest first.

    Raises:
        InputError: a program cannot hold as many.
    """
    if size > MOST_LATE:
        raise InputError(
            f"its delay keeps {size:.3g} numbers", hint=f"expected at most {MOST_LATE}: less delay, or a longer period"
        )
    return list(ca.vertsplit(plant.memory(name, np.zeros(size), lasting=False)))


def shortest_pulse(plant: Plant, thruster: str) -> int:
    """Shortest pulse of a thruster, in whole periods of the law."""
    if plant.period is None:
        raise InputError("a thruster is on or off: a continuous law cannot command it", hint="give it a period")
    # The 1e-9 keeps a pulse of exactly k periods from becoming k + 1 by rounding of the quotient.
    return max(1, math.ceil(plant.robot.thruster(thruster).minimum_pulse / plant.period - 1e-9))


def oppose_each_other(first: Thruster, second: Thruster) -> bool:
    """Whether two thrusters push against each other along one line."""
    apart = np.cross(first.position - second.position, first.direction)
    against = float(first.direction @ second.direction) < -1.0 + 1e-9
    return first.body == second.body and against and float(np.linalg.norm(apart)) < 1e-9


class _Assembly:
    """Stages between a law's commands and the inputs of the motion program."""

    def __init__(self, plant: Plant, commands: Commands) -> None:
        self.plant, self.commands, self.robot = plant, commands, plant.robot
        self.levels: dict[str, SX] = {}
        self.units: list[str] = []
        self.margins: dict[str, SX] = {}
        self.actions: list[tuple[str, Any, int]] = []
        self.values: list[SX] = []
        self.memory: dict[str, SX] = {}
        self.held: dict[str, str] = {}

    def gather(self) -> None:
        """Collect all commands as levels, each checked to be one expression with a known name."""
        robot = self.robot
        for kind in ("forces", "accelerations", "thrusters"):
            given = getattr(self.commands, kind)
            known = [part.name for part in robot.thrusters] if kind == "thrusters" else robot.dof_names
            for name, value in given.items():
                checks.check_name(
                    name, known, "thruster" if kind == "thrusters" else "degree of freedom", of=robot.name
                )
                if not isinstance(value, int | float | ca.SX) or ca.SX(value).numel() != 1:
                    raise InputError(f"the command of {name!r} is {quote_text(value)}", hint="expected one expression")
                self.levels[name] = ca.SX(value)
                self.units.append(self._unit(kind, name))
        if not self.levels:
            raise InputError("the law commands nothing", hint="expected forces, accelerations or thrusters")

    def _unit(self, kind: str, name: str) -> str:
        if kind == "thrusters":
            return "1"
        revolute = name.startswith("base_w") or (
            name in self.robot.joint_names and self.robot.joint(name).unit == "rad"
        )
        units = ("N", "N m") if kind == "forces" else ("m/s2", "rad/s2")
        return units[revolute]

    def quantise(self, resolution: Mapping[str, float]) -> None:
        for name, step in resolution.items():
            checks.check_name(name, self.levels, "command", of="the law")
            self.levels[name] = step * ca.floor(self.levels[name] / step + 0.5)

    def delay(self, periods: int) -> None:
        """Delay all levels by whole periods, with a shift register in the law's memory."""
        if not periods:
            return
        size = len(self.levels)
        register = shift_register(self.plant, "delay", size * periods)
        self.memory["delay"] = ca.vertcat(*register[size:], *self.levels.values())
        self.levels = dict(zip(self.levels, register[:size], strict=True))

    def limit(self) -> None:
        """What the actuators give: motors and wheels by torque and rate, thrusters on or off."""
        robot, plant = self.robot, self.plant
        for name in self.commands.forces:
            if name not in robot.joint_names:
                continue
            limits, rate = robot.joint(name).limits, plant.rates[robot.joint_index(name)]
            most, least = ca.SX(limits.effort), ca.SX(-limits.effort)
            if not math.isfinite(limits.effort):
                if math.isfinite(limits.velocity):
                    self._limit_rate(name, limits.velocity, rate)
                continue
            if math.isfinite(limits.velocity):
                # A torque that falls linearly to zero over the last share of the rate, and not a switch at the limit: a
                # switch would chatter there.
                band = limits.effort / (TAPER * limits.velocity)
                rotor = robot.joint(name).rotor
                if name in robot.wheel_names and rotor is not None and plant.period is not None:
                    # Full speed is not passed within a period of the law.
                    every, _ = plant.slow.get(name, (1, ""))
                    band = min(band, rotor.inertia * rotor.ratio**2 / (2.0 * every * plant.period))
                most = ca.fmin(most, ca.fmax(band * (limits.velocity - rate), 0.0))
                least = ca.fmax(least, ca.fmin(-band * (limits.velocity + rate), 0.0))
            wanted = self.levels[name]
            self.levels[name] = ca.fmax(ca.fmin(wanted, most), least)
            # Below zero the command saturates. The solver watches the margins of a continuous law, so that no step
            # passes over the kink.
            self.margins[name] = ca.fmin(most - wanted, wanted - least)
        for name in self.commands.accelerations:
            if name in robot.joint_names and math.isfinite(most_rate := robot.joint(name).limits.velocity):
                rate, wanted = plant.rates[robot.joint_index(name)], self.levels[name]
                # Only what would speed the joint up further is refused: braking stays possible at the limit.
                faster = ca.logic_and(ca.fabs(rate) >= most_rate, rate * wanted > 0)
                self.levels[name] = ca.if_else(faster, 0.0, wanted)
        self._hold()
        self._switch()

    def _hold(self) -> None:
        """Drives of slower laws: limited by the rate at their own ticks, and held in between."""
        for name, (_, tick) in self.plant.slow.items():
            if name in self.robot.joint_names and math.isfinite(self.robot.joint(name).limits.velocity):
                for table, kept in ((self.levels, f"drive of {name}"), (self.margins, f"margin of {name}")):
                    if name in table:
                        held = self.plant.memory(kept, lasting=False)
                        due = self.plant.memory_symbols[tick] == 0
                        table[name] = self.memory[kept] = ca.if_else(due, table[name], held)
                self.held[name] = f"drive of {name}"

    def _limit_rate(self, name: str, most: float, rate: SX) -> None:
        """A force that speeds up falls to zero over the last share of the highest rate."""
        wanted = self.levels[name]
        left = most - ca.if_else(wanted > 0, rate, -rate)
        self.levels[name] = wanted * ca.fmax(ca.fmin(left / (TAPER * most), 1.0), 0.0)
        self.margins[name] = left - TAPER * most

    def _switch(self) -> None:
        """Thrusters on or off: on for the shortest pulse at least, and never against each other."""
        names = [*self.commands.thrusters]
        asked = {name: self.levels[name] > 0.5 for name in names}
        begun, counts = dict.fromkeys(names, ca.SX(0)), {}
        for name in names:
            shortest = shortest_pulse(self.plant, name)
            if shortest > 1:
                counts[name] = self.plant.memory(f"pulse of {name}", lasting=False)
                begun[name] = ca.logic_and(counts[name] > 0, counts[name] < shortest)
        for name in names:
            on = asked[name]
            for other in names:
                if oppose_each_other(self.robot.thruster(name), self.robot.thruster(other)):
                    # Who has begun a pulse ends it first; two that are asked for at once give nothing.
                    on = ca.logic_and(on, ca.logic_not(ca.logic_or(asked[other], begun[other])))
            on = ca.logic_or(on, begun[name])
            if name in counts:
                self.memory[f"pulse of {name}"] = ca.if_else(on, counts[name] + 1, 0)
            self.levels[name] = ca.if_else(on, 1.0, 0.0)

    def act(self) -> None:
        """Levels as numbers for the motion program's inputs."""
        robot = self.robot
        wrenches: dict[str, SX] = {}
        for kind, target in (("forces", "force"), ("accelerations", "drive")):
            for name in getattr(self.commands, kind):
                self.actions.append((target, name, 0))
                self.values.append(self.levels[name])
        for name in self.commands.thrusters:
            part = robot.thruster(name)
            # Wrench of a thruster at its body's origin, body axes, for a level of 1.
            push = np.concatenate([part.direction, np.cross(part.position, part.direction)]) * part.force
            wrenches[part.body] = wrenches.get(part.body, 0.0) + ca.SX(ca.DM(push)) * self.levels[name]
        for body, wrench in wrenches.items():
            self.actions += [("wrench", LoadFrame(body, "frame"), entry) for entry in range(6)]
            self.values += ca.vertsplit(wrench)


def combine_commands(
    plant: Plant, commands: Sequence[tuple[str, int, Commands]], unknown: Mapping[str, SX]
) -> Commands:
    """Commands of several laws as one: each with its prefix, and of how many ticks it acts at the first only.

    What a slower law commands is held between its ticks. ``unknown`` has a symbol for the force or the acceleration of
    each degree of freedom that a law commands, in which the others are written: what all of them command at once
    solves a linear system.
    """
    expected: dict[str, SX] = {}
    sums: dict[str, dict[str, SX]] = {"forces": {}, "accelerations": {}, "thrusters": {}}
    memory: dict[str, SX] = {}
    events: dict[str, SX] = {}
    readings: dict[tuple[str, str], SX] = {}
    rates: dict[str, SX] = {}
    for prefix, every, own in commands:
        own_plant = plant.view(prefix, plant.period)
        count = own_plant.memory("tick", lasting=False) if every > 1 else None
        expected |= own.expected if count is None else {}
        if count is not None:
            # Each slower law counts the ticks of the common clock and acts where its count is zero.
            memory[f"{prefix}tick"] = ca.if_else(count >= every - 1, 0, count + 1)
        for name, value in _next_memory(own_plant, own, every).items():
            old = plant.memory_symbols.get(prefix + name)
            kept = value if count is None or old is None else ca.if_else(count == 0, value, old)
            memory[prefix + name] = kept
        if count is not None:
            plant.slow |= dict.fromkeys((*own.forces, *own.accelerations), (every, f"{prefix}tick"))
        # What a slower law commands is computed at each tick but taken at its own ticks only; the held value is memory.
        for kind, found in sums.items():
            for name, value in getattr(own, kind).items():
                now = value
                if count is not None:
                    held = own_plant.memory(f"held {name}")
                    now = memory[f"{prefix}held {name}"] = ca.if_else(count == 0, value, held)
                found[name] = now
        if plant.period is None:
            rates |= {prefix + name: value for name, value in own.rates.items()}
        events |= {prefix + name: value for name, value in own.events.items()}
        for (name, unit), value in own.readings.items():
            now = value
            if count is not None:
                held = own_plant.memory(f"read {name}")
                now = memory[f"{prefix}read {name}"] = ca.if_else(count == 0, value, held)
            readings[prefix + name, unit] = now
    whole = Commands(**sums, memory=memory, rates=rates, events=events, readings=readings, expected=expected)
    return _eliminate_commands(whole, unknown)


def _eliminate_commands(commands: Commands, unknown: Mapping[str, SX]) -> Commands:
    """Commands without the symbols of one another's forces and accelerations, in which they are linear."""
    asked = {**commands.forces, **commands.accelerations, **commands.expected}
    names = [name for name in asked if name in unknown]
    values = ca.vertcat(ca.SX(0, 1), *(asked[name] for name in names))
    symbols = ca.vertcat(ca.SX(0, 1), *(unknown[name] for name in names))
    parts = [getattr(commands, part.name) for part in fields(Commands)]
    if not ca.depends_on(ca.vertcat(*(ca.SX(v) for part in parts for v in part.values())), symbols):
        return commands
    # With commands u = A u + b, (I - A) u = b. Solved symbolically, because the laws are compiled into one program.
    coupling = ca.jacobian(values, symbols)
    if ca.depends_on(coupling, symbols):
        raise InputError("commands are not linear in what the laws beside it command", hint="one law for all of it")
    alone = ca.substitute(values, symbols, ca.SX.zeros(len(names)))
    found = ca.solve(ca.SX.eye(len(names)) - coupling, alone)
    return commands.substitute([symbols], [found])


def _next_memory(plant: Plant, commands: Commands, every: int = 1) -> dict[str, SX]:
    """Memory at the next tick; none of a continuous law."""
    symbols, found, period = plant.memory_symbols, dict(commands.memory), plant.period
    if period is None:
        return found
    for name, rate in commands.rates.items():
        checks.check_name(plant.prefix + name, symbols, "memory", of="the law")
        if name in found:
            raise InputError(f"memory {name!r} has a next value and a rate", place="law", hint="expected one of them")
        found[name] = symbols[plant.prefix + name] + every * period * rate
    return found


def law_program(
    plant: Plant,
    commands: Commands,
    *,
    delay: int = 0,
    resolution: Mapping[str, float] | None = None,
    limited: bool = True,
) -> LawProgram:
    """The program of a law over this plant.

    Args:
        delay: periods between measurement and action.
        resolution: smallest step of each command.
        limited: whether commands are held within what the actuators give.
    """
    work = _Assembly(plant, commands)
    work.gather()
    work.quantise(resolution or {})
    work.delay(delay)
    if limited:
        work.limit()
    work.act()
    symbols = plant.memory_symbols
    continuous = plant.period is None
    if continuous and commands.memory:
        name = next(iter(commands.memory))
        raise InputError(
            f"a continuous law has no next tick for its memory {name!r}", place="law", hint="give its rate: rates={...}"
        )
    new = commands.rates if continuous else {**_next_memory(plant, commands), **work.memory}
    for name, value in new.items():
        checks.check_name(name, symbols, "memory", of="the law")
        if ca.SX(value).numel() not in (1, symbols[name].numel()):
            raise InputError(
                f"memory {name!r} becomes {ca.SX(value).numel()} numbers",
                place="law",
                hint=f"expected {symbols[name].numel()}",
            )
    kept = [_like(symbol, new.get(name, 0.0 if continuous else symbol)) for name, symbol in symbols.items()]
    inputs = {
        "state": plant.state,
        "time": plant.time,
        "reference": ca.vertcat(ca.SX(0, 1), *plant.references.values()),
        "memory": ca.vertcat(ca.SX(0, 1), *symbols.values()),
        "model": plant.model,
    }
    outputs = {
        "action": ca.vertcat(*work.values),
        "memory": ca.vertcat(ca.SX(0, 1), *kept),
        "level": ca.vertcat(*work.levels.values()),
        "margin": ca.vertcat(ca.SX(0, 1), *work.margins.values(), *map(ca.SX, commands.events.values())),
    }
    drawn, wrenches = (
        ca.vertcat(ca.SX(0, 1), *table.values()) for table in (plant.random_symbols, plant.measured_wrenches)
    )
    for name, symbol in (("noise", drawn), ("wrench", wrenches)):
        if symbol.numel():
            inputs[name] = symbol
    if commands.readings:
        outputs["reading"] = ca.vertcat(*commands.readings.values())
    # A symbol of another plant would be compiled as an input that nobody fills.
    unknown = [s.name() for s in ca.symvar(ca.vertcat(*outputs.values())) if not _depends_on(s, inputs)]
    if unknown:
        raise InputError(f"the law holds the symbol {unknown[0]!r}, which is not its plant's", place="law")
    program = Program("law", inputs, {name: ca.densify(value) for name, value in outputs.items()})
    starts = [np.zeros(0), *(plant.memory_starts[name] for name in symbols)]
    places = dict(zip(symbols, np.cumsum([0, *(symbol.numel() for symbol in symbols.values())]), strict=False))
    slow = {}
    for number, (_, name, _) in enumerate(work.actions):
        if name in work.held:
            every, tick = plant.slow[name]
            held = int(places[work.held[name]])
            slow[number] = every, int(places[tick]), held, held  # a drive's action is its level
    owned = [np.zeros(0, dtype=bool), *(np.full(symbols[name].numel(), name in plant.momentary) for name in symbols)]
    return LawProgram(
        program,
        tuple(work.actions),
        tuple(work.levels),
        tuple(work.units),
        tuple(work.margins),
        tuple(commands.events),
        np.concatenate(starts),
        tuple(commands.readings),
        tuple(plant.random_symbols),
        tuple(plant.measured_wrenches),
        tuple(commands.expected),
        bool(plant.reacts),
        bool(commands.measured),
        tuple(np.flatnonzero(np.concatenate(owned)).tolist()),
        slow,
    )


def _like(symbol: SX, value: Any) -> SX:
    """A value for each number of the symbol."""
    return ca.densify(ca.SX(value) + ca.SX.zeros(symbol.numel()))


def _depends_on(symbol: SX, inputs: Mapping[str, SX]) -> bool:
    return bool(ca.depends_on(ca.vertcat(*inputs.values()), symbol))
