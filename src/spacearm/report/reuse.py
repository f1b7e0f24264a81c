"""Reuse of results in a folder: a digest of their inputs shows whether they have to be computed again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from functools import cache
from pathlib import Path

from spacearm.errors import SpacearmError
from spacearm.report.folder import read_json
from spacearm.result import Certificate, Limit, Result, Row


def reusable_result(folder: Path, made_from: str) -> Result | None:
    """The result in this folder, if it was made from the same, is sound and complete; without curves and figures."""
    table = read_json(folder / "results.json")
    names, rows = table.get("files"), table.get("rows")
    certificate, settings = table.get("certificate"), table.get("settings")
    if table.get("made_from") != made_from or not isinstance(names, list) or not isinstance(rows, list):
        return None
    if not isinstance(certificate, dict) or not isinstance(settings, dict):
        return None
    if not all(isinstance(name, str) and (folder / name).is_file() for name in names):
        return None
    try:
        found = [Row(**row) for row in rows]
        result = Result(
            str(table["study"]),
            found,
            Certificate.from_json(certificate),
            settings,
            title=str(table.get("title", "")),
            headline=str(table.get("headline", "")),
            limits=[Limit.from_json(one) for one in table["verdict"]["each"]],  # type: ignore[index]
            go="decision" in table["verdict"],  # type: ignore[operator]
            undecided=str(table["verdict"].get("undecided", "")),  # type: ignore[attr-defined]
        )
    except (SpacearmError, TypeError, KeyError):
        return None
    return result if result.sound else None


def input_digest(*settings: str) -> str:
    """A digest of these settings, of all of spacearm (program and data), and of the versions of its dependencies."""
    digest = hashlib.sha256(_program().encode())
    for setting in settings:
        digest.update(b"\0" + setting.encode())
    return digest.hexdigest()


@cache
def _program() -> str:
    import spacearm

    root = Path(spacearm.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.parent.name != "__pycache__"):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    for name in sorted({re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in _dependency_names()}):
        digest.update(f"{name} {_version(name)}\n".encode())
    return digest.hexdigest()


def _dependency_names() -> list[str]:
    try:
        return importlib.metadata.requires("spacearm") or []
    except importlib.metadata.PackageNotFoundError:  # run from its sources
        return []


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
