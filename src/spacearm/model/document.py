"""Other TOML files than robots: read and checked in the same way, with the same errors.

A study's scenario schema derives its tables from :class:`TomlTable`, and takes numbers and vectors from
:mod:`spacearm.model.toml_schema`, so that units, NaN and wrong types are reported in the same words everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from spacearm.errors import ModelError, error_context
from spacearm.model.files import FORMATS
from spacearm.model.problems import ModelErrors
from spacearm.model.toml_errors import schema_errors
from spacearm.model.toml_read import FILE_USES, ROBOT_FILE, parse_toml, read_text, require_file_type
from spacearm.model.toml_schema import TomlTable

T = TypeVar("T", bound=TomlTable)


def read_document(path: str | Path, expected: str, file_type: str = "") -> dict[str, Any]:
    """The tables of a TOML file.

    Args:
        path: the file.
        expected: what an empty file lacks.
        file_type: ``ROBOT_FILE``, ``SCENARIO_FILE`` or ``CAMPAIGN_FILE``, where only one of them will do.
    """
    path = Path(path)
    with error_context(file=path):
        if file_type and FORMATS.get(path.suffix.lower(), "toml") != "toml":
            raise ModelError(f"this is a robot file, not a {file_type}", hint=FILE_USES[ROBOT_FILE])
        tables = parse_toml(read_text(path), expected)
        if file_type:
            require_file_type(tables, file_type)
        return tables


def validate_tables(schema: type[T], data: Mapping[str, Any]) -> T:
    """``data`` as this schema, or all faults with their places; unknown keys get a suggestion."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise ModelErrors.from_problems(schema_errors(error, data, schema)) from None
