"""Laws and phases of a scenario as tables in C, one row for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spacearm.engine.c_source import literal, statements
from spacearm.engine.signals import Signals
from spacearm.simulate.prepared_law import PreparedLaw
from spacearm.simulate.run.prepare import PreparedPhase
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.export._motion_code import MotionCode

TEMPLATES = Path(__file__).with_name("templates")
_ENDS = {"nothing": 0, "phase": 1, "run": 2}


def law_code(motion: MotionCode) -> list[str]:
    """Every law as a function, and a table of them."""
    blocks, rows, first = [], [], {True: 0, False: 0}  # of sampled laws in their memory, of others in the state
    for k, (law, own) in enumerate(motion.laws.items()):
        sampled = law.period is not None
        lines = statements(own.kernel.trace.prefix(output_count(own)), "in[{}]".format, "out[{}]".format)
        blocks.append(define_function(f"NAME_law_{k}(const double *in, double *out)", lines, "in"))
        blocks.append(define_array(f"law_numbers_{k}", own.numbers))
        if len(own.random_channels):
            # Random numbers are hashes of seed, time and channel; the keys are 64 bits without a sign.
            keys = ", ".join(f"{int(key) % 2**64}u" for key in own.random_channels[:, 0])
            blocks.append(f"static const unsigned long long law_channels_{k}[] = {{ {keys} }};")
            blocks.append(f"static const int law_once_{k}[] = {{ {join_numbers(own.random_channels[:, 1], 'int')} }};")
        inputs, size, momentary = (
            own.kernel.inputs,
            own.program.memory.size,
            own.program.momentary if sampled else (),
        )
        if momentary:
            blocks.append(f"static const int law_momentary_{k}[] = {{ {join_numbers(momentary, 'int')} }};")
        if own.program.slow:
            blocks.append(f"static const int law_slow_{k}[] = {{ {join_numbers(own.slow[:, :3], 'int')} }};")
        row = {
            "call": f"NAME_law_{k}",
            "actions": own.target.size,
            "remembers": size,
            "first": first[sampled],
            "memory": inputs["memory"].start,
            "model": inputs["model"].start,
            "numbers": own.numbers.size,
            "drawn": len(own.random_channels),
            "margin": own.kernel.outputs["margin"].start,
            "seed": f"{law.seed}u",
            "draw": f"{law.draw}u",
            "own": f"law_numbers_{k}",
            "channels": f"law_channels_{k}" if len(own.random_channels) else 0,
            "once": f"law_once_{k}" if len(own.random_channels) else 0,
            "momentary": f"law_momentary_{k}" if momentary else 0,
            "renewed": len(momentary),
            "slow": f"law_slow_{k}" if own.program.slow else 0,
        }
        rows.append(_row(row))
        first[sampled] += size
    if rows:
        blocks.append(template("law_type") + "\n".join(["static const NAME_law NAME_laws[] = {", *rows, "};"]))
        blocks.append(define_array("NAME_memory", motion.memory()))
    return blocks


def phase_code(motion: MotionCode) -> list[str]:
    """The phases as tables, one row for each."""
    blocks, rows, before = [], [], None
    for k, prepared in enumerate(motion.phases):
        members = _counts(motion, prepared)
        for name, (kind, values) in {
            **_action_tables(motion, prepared),
            **_event_tables(motion, before, prepared),
        }.items():
            if len(text := join_numbers(values, kind)):
                blocks.append(f"static const {kind} {name}_{k}[] = {{ {text} }};")
                members[name] = f"{name}_{k}"
        rows.append(_row(members))
        before = prepared
    return [
        template("phase_type").rstrip(),
        *blocks,
        "\n".join(["static const NAME_phase NAME_phases[] = {", *rows, "};"]),
    ]


def _counts(motion: MotionCode, prepared: PreparedPhase) -> dict[str, object]:
    signals, law, reference = prepared.signals, prepared.law, _reference(prepared)
    frictional, levels, margins = (
        len(motion.friction_dofs(prepared)),
        len(prepared.levels),
        len(motion.margins(prepared)),
    )
    return {
        "pieces": signals.breaks.size - 1,
        "channels": signals.target.size,
        "powers": signals.coefficient.shape[0],
        "locked": len(prepared.locked),
        "law": 0 if law is None else 1 + [*motion.laws].index(law.law),
        "actions": 0 if law is None else law.target.size,
        "references": reference.target.size,
        "follow_powers": reference.coefficient.shape[0],
        "feels": 0 if law is None else law.wrench_places.size,
        "frictional": frictional,
        "levels": levels,
        "margins": margins,
        "watched": frictional + levels + margins,
        "bounded": 0 if law is None else law.bounds.size,
        "period": literal(0.0 if law is None else float(law.law.period or 0.0)),
    }


def _action_tables(motion: MotionCode, prepared: PreparedPhase) -> dict[str, tuple[str, Iterable[float]]]:
    """Kind and numbers of the tables of what acts in a phase."""
    signals, law, reference = prepared.signals, prepared.law, _reference(prepared)
    mode = np.zeros(len(motion.model.dof_names))
    mode[list(prepared.driven)] = 1.0
    return {
        "breaks": ("double", signals.breaks),
        "mode": ("double", mode),
        "signals": ("double", _table(signals)),
        "targets": ("int", signals.target),
        "still": ("int", [motion.model.code.speed[index] for index in prepared.locked]),
        "acts": ("int", () if law is None else law.target),
        "read": ("int", reference.target),
        "follow": ("double", _table(reference)),
        "felt": ("int", () if law is None else law.wrench_places),
        "rub": ("int", motion.friction_dofs(prepared)),
    }


def _event_tables(
    motion: MotionCode, before: PreparedPhase | None, prepared: PreparedPhase
) -> dict[str, tuple[str, Iterable[float]]]:
    """The same of what is watched."""
    levels, asked, speed = prepared.levels, motion.margins(prepared), motion.model.code.speed
    moving = {at: int(speed[j]) for j, at in enumerate(motion.model.positions) if at >= 0}
    return {
        "component": ("int", [level.component for level in levels]),
        "level": ("double", [level.value for level in levels]),
        "rate": ("int", [moving.get(level.component, 0) for level in levels]),
        "direction": ("int", [*(level.direction for level in levels), *(direction for direction, _ in asked)]),
        "inside": ("int", [*(level.inside for level in levels), *(0 for _ in asked)]),
        "ends": ("int", [_ENDS[ends] for _, _, ends in prepared.labels]),
        "bounds": ("int", () if prepared.law is None else prepared.law.bounds),
        "brakes": ("double", () if prepared.law is None else prepared.law.brakes),
        "from": ("int", _previous_sides(motion, before, prepared)),
    }


def _previous_sides(motion: MotionCode, before: PreparedPhase | None, prepared: PreparedPhase) -> list[int]:
    """For each level and margin, where the phase before has the side of the same one; -1 where it has not."""
    # A function that is watched in both phases keeps its side: one that is exactly at its level when the phase
    # changes would otherwise be crossed twice or not at all.
    known = {} if before is None else {key: i for i, key in enumerate(_event_keys(before))}
    first = 0 if before is None else len(motion.friction_dofs(before))
    return [first + known[key] if key in known else -1 for key in _event_keys(prepared)]


def template(name: str) -> str:
    return (TEMPLATES / f"{name}.c").read_text(encoding="utf-8")


def _reference(prepared: PreparedPhase) -> Signals:
    """What the law of a phase follows."""
    none = Signals(np.zeros(0), np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64))
    return none if prepared.law is None else prepared.law.reference


def output_count(law: PreparedLaw) -> int:
    """Number of a law's outputs that are used."""
    kept = law.target.size + law.program.memory.size
    return int(law.kernel.outputs["margin"].stop) if law.event_outputs else kept


def _event_keys(prepared: PreparedPhase) -> list[tuple[object, ...]]:
    levels: list[tuple[object, ...]] = [(level.component, level.value) for level in prepared.levels]
    return levels + [(kind, name) for kind, name, _ in prepared.labels[len(levels) :]]


def define_function(prototype: str, lines: Sequence[str], given: str) -> str:
    """A static function that may not use an argument."""
    unused = [] if any(given in line for line in lines) else [f"(void){given.rstrip('[')};"]
    return "\n".join([f"static void {prototype}", "{", *(f"    {line}" for line in [*unused, *lines]), "}"])


def _table(signals: Signals) -> Array:
    return np.moveaxis(signals.coefficient, 0, -1)  # (pieces, channels, powers)


def join_numbers(values: Iterable[float], kind: str = "double") -> str:
    flat = np.ravel(np.asarray(values))
    return ", ".join(literal(float(value)) if kind == "double" else str(int(value)) for value in flat)


def define_array(name: str, values: Array) -> str:
    return f"static const double {name}[] = {{ {join_numbers(values) or '0'} }};"


def _row(members: Mapping[str, object]) -> str:
    return "    { " + ", ".join(f".{name} = {value}" for name, value in members.items()) + " },"
