"""The example mission with other keys, flown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from tests.support import ROOT

from spacearm.mission.scenario import MissionFindings
from spacearm.study import Session
from spacearm.study.findings import make_rows
from spacearm.study.scenario import solve_document

EXAMPLES = ROOT / "examples"
#: Without what comes after the tumble.
SHORT = {"identify": None, "decide": None, "stow": None, "eject": None}


def flown(*, cross_check: bool = False, **changes: Any) -> MissionFindings:
    """The example with other keys: ``target__mass = 3.0``."""
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    return fly_document(document, changes, cross_check=cross_check)


def fly_document(document: dict[str, Any], changes: Mapping[str, Any], *, cross_check: bool = False) -> MissionFindings:
    """A mission's file with these keys changed, their tables joined by two underscores."""
    for name, value in changes.items():
        *path, last = name.split("__")
        table = document
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    found = solve_document(document, Session(EXAMPLES, cross_check=cross_check))[1]
    assert isinstance(found, MissionFindings)
    return found


def rows(mission: MissionFindings) -> dict[str, Any]:
    return {row.quantity: row.value for row in make_rows(mission)}
