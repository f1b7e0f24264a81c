"""Laws of several systems in one phase, merged into the one law that the solver evaluates.

The solver knows a single law with one tick. Programs of all systems are put one behind the other over the world's
state; a law with a longer period keeps its outputs in memory and a count of ticks, and is taken over at its own ticks
only. Outputs are ordered with degrees of freedom first, then wrenches, as the solver's tables have them; ``places``
remembers where the numbers of each law went. Laws of different systems do not see one another's commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np

from spacearm.errors import InputError
from spacearm.mechanics.law import LawProgram
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX
from spacearm.simulate.law import Law, PythonLaw, common_period
from spacearm.simulate.prepared_law import PreparedLaw, law_kernel
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class SystemLaws(Law):
    """Laws of several systems: each acts on its own, at ticks of the shortest period."""

    laws: tuple[Law, ...] = ()

    def channels(self) -> list[tuple[Array, Array]]:
        return [channel for law in self.laws for channel in law.channels()]


def _no_commands(plant: Plant) -> dict[str, SX]:
    del plant
    return {}


def combine_system_laws(laws: Sequence[tuple[str, PreparedLaw]], place: str) -> PreparedLaw:
    """The laws of several systems, by their names, as one: they share ticks and random numbers, and nothing else."""
    if len(laws) == 1:
        return laws[0][1]
    own = [prepared.law for _, prepared in laws]
    named = "laws " + ", ".join(f"{law.name!r} of {system!r}" for (system, _), law in zip(laws, own, strict=True))
    if any(isinstance(law, PythonLaw) for law in own):
        raise InputError(
            f"{named}: a Python function acts alone in its phase", place=place, hint="write all of them as expressions"
        )
    # The solver has one stream of random numbers: with two seeds each law would get other noise than alone.
    if len({(law.seed, law.draw) for law in own}) > 1:
        raise InputError(f"{named} have several seeds", place=place, hint="expected the same seed and draw for all")
    period, every = common_period([law.period for law in own], f"{place}, {named}")
    # The state up to the last system that has a law: what lies behind it no law reads.
    size = max(prepared.first + prepared.size for _, prepared in laws)
    kinds = tuple((prepared.program, prepared.first, k) for (_, prepared), k in zip(laws, every, strict=True))
    program, places, counts = _merge_programs(kinds, size, tuple(system for system, _ in laws))
    # Their expressions are merged already: this law only says when, and with which random numbers.
    law = SystemLaws(
        _no_commands,
        period,
        name=" and ".join(law.name for law in own),
        seed=own[0].seed,
        draw=own[0].draw,
        laws=tuple(own),
    )
    parts = [
        replace(prepared, system=system, among=among, count=count)
        for (system, prepared), among, count in zip(laws, places, counts, strict=True)
    ]
    target = np.zeros(len(program.actions), dtype=np.int64)
    for part in parts:
        target[part.among["action"]] = part.target
    return PreparedLaw(
        law,
        program,
        law_kernel(program),
        0,
        size,
        target,
        parts[0].reference,
        # Ticks of the shortest period that cover the phase for every law.
        max(part.ticks * k for part, k in zip(parts, every, strict=True)),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.wrench_places for part in parts]),
        np.concatenate([part.random_channels for part in parts]),
        parts[0].bounds,
        parts[0].brakes,
        tuple(parts),
    )


class _LawColumns:
    """Columns of several laws in one: numbers that stand for degrees of freedom first, then the others."""

    def __init__(self) -> None:
        self.first: list[tuple[int, int, SX]] = []
        self.others: list[tuple[int, int, SX]] = []

    def add(self, law: int, column: SX, ahead: int) -> None:
        for k in range(column.numel()):
            (self.first if k < ahead else self.others).append((law, k, column[k]))

    @property
    def columns(self) -> list[tuple[int, int, SX]]:
        return self.first + self.others

    def places(self, law: int) -> Any:
        """Places of a law's numbers among all, in their own order."""
        return np.array([at for at, (own, _, _) in enumerate(self.columns) if own == law], dtype=np.int64)

    def column(self) -> SX:
        return ca.densify(ca.vertcat(ca.SX(0, 1), *(value for _, _, value in self.columns)))

    def pick(self, tables: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """Entries of the laws' tables, in the common order."""
        return tuple(tables[law][k] for law, k, _ in self.columns)


@lru_cache(maxsize=64)
def _merge_programs(
    laws: tuple[tuple[LawProgram, int, int], ...], size: int, systems: tuple[str, ...]
) -> tuple[LawProgram, list[dict[str, Any]], list[int | None]]:
    """One program of several laws: (program, first of its state, ticks between two of its own) each.

    Also where the numbers of each law stand among those of all, and its tick in the memory.
    """
    state, time = ca.SX.sym("state", size), ca.SX.sym("time")
    taken: dict[str, list[SX]] = {name: [] for name in ("reference", "memory", "model", "noise", "wrench")}
    rows = {name: _LawColumns() for name in ("action", "level", "margin", "reading")}
    held, held_next, next_memory = list[SX](), list[SX](), list[SX]()
    counted = list[int | None]()
    slow = list[dict[int, tuple[int, SX, SX, SX]]]()  # of each law, by symbols of the memory
    for number, (law, first, every) in enumerate(laws):
        x = law.program.inputs
        own = {name: ca.SX.sym(f"{name} {number}", symbol.numel()) for name, symbol in x.items()}
        own["state"], own["time"] = state[first : first + x["state"].numel()], time
        before = {
            name: ca.SX.sym(f"{name} before {number}", value.numel())
            for name, value in law.program.outputs.items()
            if name in rows
        }
        # What a law of this system holds by itself is held among the outputs, where the solver may have changed it.
        recalled = ca.SX(own["memory"])
        for action, (_, _, place, _) in law.slow.items() if every > 1 else ():
            recalled[place] = before["action"][action]
        # Fresh symbols: two systems may have the very same program.
        given = [own[name] if name != "memory" else recalled for name in x]
        values = ca.substitute([*law.program.outputs.values()], [*x.values()], given)
        found = dict(zip(law.program.outputs, values, strict=True))
        counted.append(None)
        slow.append({k: (n, *(own["memory"][at] for at in places)) for k, (n, *places) in law.slow.items()})
        if every > 1:
            counted[-1] = sum(symbol.numel() for symbol in held)
            # Counts are numbers of the memory: they go on, are saved and restored like any others. Laws of one system
            # with several periods have a count for each.
            counts = {n: ca.SX.sym(f"count {number}") for n in (1, *(n for n, *_ in law.slow.values()))}
            for n, symbol in counts.items():
                held.append(symbol)
                # The count is zero at its own ticks.
                held_next.append(ca.if_else(symbol >= n * every - 1, 0, symbol + 1))
            # Evaluated at every tick, but memory and outputs only change at its own.
            count = counts[1]
            found["memory"] = ca.if_else(count == 0, found["memory"], own["memory"])
            for name, symbol in before.items():
                found[name] = ca.if_else(count == 0, found[name], symbol)
                held.append(symbol)
                held_next.append(found[name])
            for k, (kind, _, _) in enumerate(law.actions):
                if kind != "wrench":
                    n = law.slow[k][0] if k in law.slow else 1
                    slow[-1][k] = n * every, counts[n], before["action"][k], before["level"][k]
        for name, parts in taken.items():
            parts.append(own.get(name, ca.SX(0, 1)))
        next_memory.append(found["memory"])
        # Commands of degrees of freedom come before those of thrusters.
        drives = sum(kind != "wrench" for kind, _, _ in law.actions)
        ahead = {"action": drives, "level": drives, "margin": len(law.limited), "reading": 0}
        for name, own_rows in rows.items():
            own_rows.add(number, found.get(name, ca.SX(0, 1)), ahead[name])

    def column(*parts: SX) -> SX:
        return ca.densify(ca.vertcat(ca.SX(0, 1), *parts))

    inputs = {"state": state, "time": time, "reference": column(*taken["reference"])}
    inputs |= {"memory": column(*taken["memory"], *held), "model": column(*taken["model"])}
    inputs |= {name: column(*taken[name]) for name in ("noise", "wrench") if column(*taken[name]).numel()}
    outputs = {"action": rows["action"].column(), "memory": column(*next_memory, *held_next)}
    outputs |= {name: rows[name].column() for name in ("level", "margin", "reading") if name != "reading"}
    outputs |= {"reading": rows["reading"].column()} if rows["reading"].columns else {}
    programs = [law for law, _, _ in laws]

    def names_by_system(given: str) -> list[list[str]]:
        pairs = zip(systems, programs, strict=True)
        return [[f"{system}/{name}" for name in getattr(law, given)] for system, law in pairs]

    labels = [[(f"{system}/{n}", u) for n, u in law.readings] for system, law in zip(systems, programs, strict=True)]
    starts = np.cumsum([0, *(law.memory.size for law in programs)])
    at = {symbol.element_hash(): k for k, symbol in enumerate(ca.vertsplit(inputs["memory"]))}
    slow_actions = {}
    for number, own_slow in enumerate(slow):
        for k, (n, *symbols) in own_slow.items():
            tick, action, level = (at[symbol.element_hash()] for symbol in symbols)
            slow_actions[int(rows["action"].places(number)[k])] = n, tick, action, level
    merged = LawProgram(
        Program("law", inputs, outputs),
        rows["action"].pick([law.actions for law in programs]),
        rows["level"].pick(names_by_system("levels")),
        rows["level"].pick([law.units for law in programs]),
        tuple(name for own in names_by_system("limited") for name in own),
        tuple(name for own in names_by_system("events") for name in own),
        np.concatenate([*(law.memory for law in programs), np.zeros(sum(symbol.numel() for symbol in held))]),
        rows["reading"].pick(labels),
        tuple(drawn for law in programs for drawn in law.random_numbers),
        tuple(load for law in programs for load in law.wrench_frames),
        # Counts and held outputs start anew after a pause, like delays and filters of sensors.
        momentary=(
            *(int(first) + k for first, law in zip(starts, programs, strict=False) for k in law.momentary),
            *range(int(starts[-1]), int(starts[-1]) + sum(symbol.numel() for symbol in held)),
        ),
        slow=slow_actions,
    )
    places = []
    for number, law in enumerate(programs):
        own_places = {name: own_rows.places(number) for name, own_rows in rows.items()}
        own_places["margin"] = own_places["margin"][: len(law.limited)]
        own_places["memory"] = np.arange(starts[number], starts[number + 1])
        places.append(own_places)
    return merged, places, [None if k is None else int(starts[-1]) + k for k in counted]
