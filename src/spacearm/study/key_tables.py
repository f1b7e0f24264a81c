"""Tables and keys of a scenario file as its study declares them, for the command line and the documentation."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.model.toml_errors import table_in
from spacearm.model.toml_schema import RobotFile, TomlTable
from spacearm.study.keys import RobotTable
from spacearm.study.scenario import STUDIES

#: Files that do not belong to a study, and the table of a robot, which all studies have.
OTHER_FILES = {"campaign": "spacearm.campaign.plan:CampaignFile", "robot": "spacearm.study.keys:RobotTable"}


@dataclass(frozen=True)
class KeyRow:
    """A key of a table."""

    name: str
    meaning: str
    default: str  # in TOML; "required", or empty if there is none
    choices: tuple[str, ...] = ()
    table: str = ""  # heading of the table that the key holds, if any


@dataclass(frozen=True)
class KeyTable:
    """A table of a file: its heading in brackets (empty at the top of the file), its description, its keys."""

    heading: str
    about: str
    rows: tuple[KeyRow, ...]

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = ["| key | meaning | default |", "|---|---|---|"]
        for row in self.rows:
            words = [row.meaning, ", ".join(f'`"{choice}"`' for choice in row.choices)]
            words += [f"see `{row.table}`"] if row.table else []
            default = row.default if row.default in ("", "required") else f"`{row.default}`"
            lines.append(f"| `{row.name}` | {'; '.join(filter(None, words))} | {default} |".replace("  ", " "))
        head = f"**`{self.heading}`** {self.about}" if self.heading else self.about
        return "\n".join([head, "", *lines])


def key_tables(name: str) -> list[KeyTable]:
    """Tables of the scenario file of a study, of a ``campaign`` file, or of a ``robot`` in them, outermost first.

    Raises:
        InputError: there is no such file.
    """
    known = {**STUDIES, **OTHER_FILES}
    if name not in known:
        raise InputError(f"there is no study {quote_text(name)}", place="keys", hint=did_you_mean(name, known))
    module, _, file = known[name].partition(":")
    found: list[KeyTable] = []
    _collect(getattr(import_module(module), file), "", False, found, set())
    if name in STUDIES and name != "motion":  # a file that names no study is one of motion
        top = found[0]
        rows = (KeyRow(r.name, r.meaning, "required", (name,)) if r.name == "study" else r for r in top.rows)
        found[0] = replace(top, rows=tuple(rows))
    return found


def _collect(
    table: type[TomlTable], path: str, several: bool, found: list[KeyTable], seen: set[type[TomlTable]]
) -> None:
    """Append a table, followed by each table in it that has not been listed yet."""
    seen.add(table)
    rows, inner = [], []
    for name, field in table.model_fields.items():
        held = table_in(field.annotation)
        heading = ""
        # Robots have a page of their own: their tables would be repeated in every study.
        if held is not None and not issubclass(held, (RobotFile, RobotTable)):
            many, place = "list" in str(field.annotation), f"{path}.{name}".lstrip(".")
            heading = f"[[{place}]]" if many else f"[{place}]"
            inner.append((held, place, many))
        rows.append(_row(name, field, heading))
    bracketed = (f"[[{path}]]" if several else f"[{path}]") if path else ""
    found.append(KeyTable(bracketed, (table.__doc__ or "").split("\n")[0], tuple(rows)))
    for held, place, many in inner:
        # A table that several others hold is listed once.
        if held not in seen:
            _collect(held, place, many, found, seen)


def _row(name: str, field: FieldInfo, heading: str) -> KeyRow:
    meaning = field.description or ("the same in degrees" if name.endswith("_deg") else "")
    annotation = field.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    if field.is_required():
        default = "required"
    else:
        value = field.get_default(call_default_factory=True)
        # Tables are documented by their own heading.
        default = "" if heading or value in (None, "", [], {}) else json.dumps(value)
    return KeyRow(name, meaning, default, tuple(each for each in choices if isinstance(each, str)), heading)
