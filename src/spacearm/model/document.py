"""Other TOML files than robots: read and checked in the same way, with the same errors.

A study's scenario schema derives its tables from :class:`Table`, and takes numbers and vectors from
:mod:`spacearm.model.toml_schema`, so that units, NaN and wrong types are reported in the same words everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from spacearm.errors import InputError, ModelError, SpacearmError, at, did_you_mean, quoted, shown_path, similar_files
from spacearm.model import catalogue
from spacearm.model.files import FORMATS, read
from spacearm.model.intake import Reading
from spacearm.model.problems import ModelErrors
from spacearm.model.robot import Robot
from spacearm.model.toml_errors import schema_errors
from spacearm.model.toml_read import FILE_USES, ROBOT_FILE, parse_toml, read_text, require_file_type
from spacearm.model.toml_schema import Table

__all__ = ["Table", "at", "find_robot", "read_document", "validated"]

T = TypeVar("T", bound=Table)


def read_document(path: str | Path, expected: str, file_type: str = "") -> dict[str, Any]:
    """The tables of a TOML file.

    Args:
        path: the file.
        expected: what an empty file lacks.
        file_type: ``ROBOT_FILE``, ``SCENARIO_FILE`` or ``CAMPAIGN_FILE``, where only one of them will do.
    """
    path = Path(path)
    with at(file=path):
        if file_type and FORMATS.get(path.suffix.lower(), "toml") != "toml":
            raise ModelError(f"this is a robot file, not a {file_type}", hint=FILE_USES[ROBOT_FILE])
        tables = parse_toml(read_text(path), expected)
        if file_type:
            require_file_type(tables, file_type)
        return tables


def validated(schema: type[T], data: Mapping[str, Any]) -> T:
    """``data`` as this schema, or all faults with their places; unknown keys get a suggestion."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise ModelErrors.of(schema_errors(error, data, schema)) from None


def find_robot(name: str, folder: Path | None = None, reading: Reading | None = None) -> Robot:
    """The robot of a file (relative to ``folder``) or, when there is no such file, of the catalogue.

    With a ``folder`` the name stands in a scenario: an error leaves the scenario's file and key for the caller to add.
    """
    path = Path(name) if folder is None else folder / name
    try:
        there = bool(name) and path.exists()
    except (OSError, ValueError):  # longer than any name can be, or with a zero byte
        there = False
    if there:
        try:
            return read(path, reading or Reading())
        except SpacearmError as error:
            if folder is not None and error.file is not None:
                error.place = ": ".join(part for part in (shown_path(error.file), error.place) if part)
                error.file = None
            raise
    if Path(name).suffix or len(Path(name).parts) > 1:
        if folder is None:
            raise InputError("there is no such file", file=path, hint=similar_files(path))
        # Inside a scenario the scenario is the file at fault.
        near = similar_files(path) or "expected a robot file"
        raise InputError(
            f"there is no file {quoted(name)}", hint=f"{near}; names are relative to the scenario's folder"
        )
    if name not in catalogue.names():
        raise InputError(
            f"{quoted(name)} is neither a file nor a robot of the catalogue", hint=did_you_mean(name, catalogue.names())
        )
    (reading or Reading()).check_own(name)
    return catalogue.load(name)
