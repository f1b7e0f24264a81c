"""What pydantic found wrong with a robot file, in the file's own terms: the place, the fault, the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from spacearm.errors import ModelError, did_you_mean
from spacearm.model.toml_schema import RobotFile, TomlTable, shorten_value

#: Endings by which other formats and data sheets mark a unit.
UNIT_ENDINGS = ("degree", "degrees", "deg", "rad", "mm", "cm", "m", "g", "kg", "kgmm2", "kgm2", "gmm2", "n", "nm")

#: Keys of older files, and their names today.
RENAMED = {
    "posture": "configuration",
    "postures": "configurations",
    "postures_deg": "configurations_deg",
    "attitude": "configuration",
    "spin": "angular_velocity",
    "spin_deg": "angular_velocity_deg",
    "contact": "contact_point",
    "motion": "driven",
    "firing": "thruster",
    "hit": "load",
    "rate": "sample",
    "interval": "sample",
    "repetitions": "samples",
    "name": "column",
    "names": "column",
    "base_velocity": "velocity",
    "base_angular_velocity": "angular_velocity",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the file: a path such as ``joint[2]`` and, if known, the name of what stands there."""

    path: str
    name: str = ""

    def key(self, key: str) -> Place:
        return Place(f"{self.path}.{key}", self.name)

    def __str__(self) -> str:
        return f"{self.path} ({self.name!r})" if self.name else self.path


def schema_errors(
    error: ValidationError, data: Mapping[str, Any], root: type[TomlTable] = RobotFile
) -> list[ModelError]:
    """All faults, each with its place; unknown keys first, since they explain keys that are missing.

    ``root`` is the schema of the whole file, from which the known keys of each table are read.
    """
    faults = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != "extra_forbidden")
    errors = []
    for fault in faults:
        loc = tuple(fault["loc"])
        message, hint = _describe_fault(fault, loc, root)
        errors.append(ModelError(message, place=str(_place(loc, data)), hint=hint))
    return errors


def _describe_fault(fault: ErrorDetails, loc: Sequence[int | str], root: type[TomlTable]) -> tuple[str, str]:
    context = fault.get("ctx", {})
    kind, key = fault["type"], str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        table = _table(loc, root)
        return f"unknown key {key!r}", table.key_changes.get(key) or suggestion(key, table.model_fields)
    if kind == "missing":
        field = _table(loc, root).model_fields.get(key)
        return f"{key!r} is missing", (field and field.description) or ""
    if kind == "literal_error" and key == "[key]":
        moved = _table(loc[:-2], root).key_changes.get(f"{loc[-3]}.{loc[-2]}")
        return f"unknown key {fault['input']!r}", moved or f"expected {context['expected']}"
    if kind == "literal_error":
        return f"value is {fault['input']!r}", f"expected {context['expected']}"
    if kind == "string_type":
        return f"{shorten_value(fault['input'])} is not text", "expected text in quotes"
    if kind == "list_type":
        return f"{shorten_value(fault['input'])} is not a list", _table_hint(key, len(loc))
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"{shorten_value(fault['input'])} is not a table", "expected { key = value, ... }"
    if kind == "too_long":
        return f"there are {context['actual_length']} of {key!r}", f"expected at most {context['max_length']}"
    if kind == "too_short":
        return f"there is no {key!r}", "expected at least one"
    if kind == "spacearm":
        return context["message"], context["hint"]
    return fault["msg"], ""


def _table_hint(key: str, depth: int) -> str:
    return f"expected [[{key}]] in double brackets" if depth == 1 else "expected a list in brackets"


def suggestion(key: str, known: Iterable[str]) -> str:
    """A hint at the key that an unknown one may have meant, and at the unit to use if it carried one."""
    words = sorted(known)
    if RENAMED.get(key) in words:
        return f"it is called {RENAMED[key]!r} now"
    stem, _, ending = key.lower().rpartition("_")
    if stem and ending in UNIT_ENDINGS:
        if ending.startswith("deg") and f"{stem}_deg" in words:
            return f"did you mean '{stem}_deg'?"
        if stem in words:
            return f"did you mean {stem!r}? values are in SI units (kg, m, s, N, rad)"
    return did_you_mean(key, words)


def _table(loc: Sequence[int | str], root: type[TomlTable]) -> type[TomlTable]:
    """The table in which a key stands."""
    table = root
    for part in loc[:-1]:
        if isinstance(part, str) and part in table.model_fields:
            table = table_in(table.model_fields[part].annotation) or table
    return table


def table_in(annotation: object) -> type[TomlTable] | None:
    """The table that an annotation speaks of, if any."""
    if isinstance(annotation, type) and issubclass(annotation, TomlTable):
        return annotation
    return next((found for part in get_args(annotation) if (found := table_in(part)) is not None), None)


def _place(loc: Sequence[int | str], data: Mapping[str, Any]) -> Place:
    """``joint[2].axis ('elbow')``: indices count from 0; the name is that of the innermost named table."""
    path, name, node = "", "", data
    for index, part in enumerate(loc):
        if part == "[key]":  # pydantic's word for a key that is wrong itself
            continue
        if isinstance(part, int):
            if index == 1 and loc[0] == "dh" and isinstance(data.get("dh"), dict):
                continue  # a single [dh] was made a list of one
            path += f"[{part}]"
            node = node[part] if isinstance(node, list) and part < len(node) else {}
        else:
            path += f".{part}" if path else part
            node = node.get(part, {}) if isinstance(node, dict) else {}
        if isinstance(node, dict):
            given = node.get("name", node.get("joint") if path.startswith("dh") else None)
            name = given if isinstance(given, str) and index < len(loc) - 1 else name
    return Place(path or "file", name)
