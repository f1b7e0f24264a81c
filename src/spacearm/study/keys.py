"""Conventions of scenario files that the tables of all studies share.

A table derives from :class:`ScenarioTable` and declares its keys with :func:`key`. An angle has a key in rad and a
second one, with the suffix ``_deg``, in degrees; a file may give either, but not both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from spacearm.errors import InputError, error_context
from spacearm.model import toml_schema
from spacearm.model.document import validate_tables
from spacearm.model.toml_errors import Place
from spacearm.model.toml_values import warn_of_degrees


def key(default: Any = ..., what: str = "", **limits: Any) -> Any:
    """Declare a key of a table: its default (a key without one is required) and its meaning, for the documentation."""
    return Field(default, description=what, **limits)


def validation_error(message: str, hint: str = "") -> PydanticCustomError:
    """The error that a validator raises; the place in the file is added later."""
    return PydanticCustomError("spacearm", "{message}", {"message": message, "hint": hint})


class ScenarioTable(toml_schema.TomlTable):
    """A table of a scenario file; unknown keys are errors."""

    #: Groups of mutually exclusive keys.
    either: ClassVar[tuple[tuple[str, ...], ...]] = ()
    #: Keys that each ``kind`` uses, besides ``kind`` itself; any other key is an error, because it would have no
    #: effect.
    uses: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        pairs = tuple((name, f"{name}_deg") for name in type(self).model_fields)
        for group in (*self.either, *pairs):
            given = [name for name in group if self.has_key(name)]
            # Tables by joint may be mixed, some joints in rad and others in degrees, as long as no joint is in both.
            tables = [set(value) for name in given if isinstance(value := getattr(self, name), dict)]
            if len(given) > 1 and (len(tables) < len(given) or set.intersection(*tables)):
                raise validation_error(f"both {given[0]!r} and {given[1]!r} are given", "expected one")
        if self.uses:
            kind = getattr(self, "kind")  # noqa: B009
            for name in sorted(self.model_fields_set - {"kind"}):
                # A key without effect is a slip of the user: an error, not silence.
                if name.removesuffix("_deg") not in self.uses[kind] and self.has_key(name):
                    used = ", ".join(map(repr, self.uses[kind]))
                    raise validation_error(f"{name!r} does not apply to kind = {kind!r}", f"it uses {used}")
        return self

    def has_key(self, name: str) -> bool:
        """Whether the file sets this key."""
        return name in self.model_fields_set and getattr(self, name) is not None

    def si_value(self, name: str) -> Any:
        """Value of a key in SI units, converted if it is given in degrees; None if it is not given."""
        plain, degrees = getattr(self, name), getattr(self, f"{name}_deg")
        if degrees is None or (self.has_key(name) and not isinstance(degrees, dict)):
            return plain
        # Entries in degrees complete those in rad.
        if isinstance(degrees, dict):
            return {**(plain or {}), **{entry: np.radians(value) for entry, value in degrees.items()}}
        return float(np.radians(degrees)) if isinstance(degrees, float) else np.radians(degrees)

    def refuse_degrees(self, why: str) -> None:
        """Raise an error if a key is given in degrees; ``why`` is the reason, empty if degrees are allowed."""
        for name in sorted(self.model_fields_set) if why else ():
            if name.endswith("_deg") and getattr(self, name) is not None:
                raise InputError(f"{name!r} is given, but {why}", hint=f"use {name[:-4]!r}, in SI units")

    def options(self, *only: str) -> dict[str, Any]:
        """Keyword arguments of a function: keys that the file sets, in SI units, with nested tables converted.

        ``only`` restricts the result to these keys.
        """
        found = {}
        for name in type(self).model_fields:
            stem = name.removesuffix("_deg")
            # None means "as the function has it by default".
            if (only and stem not in only) or getattr(self, name) is None:
                continue
            value = self.si_value(stem) if f"{stem}_deg" in type(self).model_fields else getattr(self, name)
            found[stem] = make_value(value, stem)
        return found

    def make(self) -> Any:
        """The object that the table describes, if it describes a single one."""
        return self


class RobotTable(toml_schema.AssembledRobotTable, ScenarioTable):
    """A robot: its file, how that is read, and what is mounted on it; the name of the file alone will do."""

    freeze: dict[toml_schema.Name, toml_schema.Number] | None = key(
        None, "joints that are rigid, by name, at these positions (rad or m); linkages that they hold are rigid too"
    )
    freeze_deg: dict[toml_schema.Name, toml_schema.Number] | None = key(None, "the same in degrees")

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, given: Any) -> Any:
        """``robot = "arm.urdf"`` stands for ``robot = { file = "arm.urdf" }``."""
        return {"file": given} if isinstance(given, str) else given

    def __str__(self) -> str:
        return self.file

    @classmethod
    def from_key(cls, given: object) -> RobotTable:
        """The table of what a scenario has under ``robot``: text or a table."""
        return given if isinstance(given, RobotTable) else validate_tables(_RobotKey, {"robot": given}).robot


class _RobotKey(ScenarioTable):
    robot: RobotTable


def make_value(value: Any, place: str) -> Any:
    """A value of a table, with nested tables converted; errors state their place."""
    if isinstance(value, ScenarioTable):
        with error_context(place):
            return value.make()
    # Places with their index, as the file's author counts them.
    if isinstance(value, list) and value and isinstance(value[0], ScenarioTable):
        return [make_value(entry, f"{place}[{k}]") for k, entry in enumerate(value)]
    return value


def keyword_maker(what: Callable[..., Any]) -> Callable[[ScenarioTable], Any]:
    """A ``make`` method for a table whose keys are the keyword arguments of ``what``."""
    return lambda table: what(**table.options())


#: An angle above this, rad, may be meant in degrees. Slightly more than a full revolution, which a file may round up.
FULL_CIRCLE = 2.001 * math.pi
#: Keys of angles in rad; each has a counterpart in degrees.
ANGLES = frozenset({"joints", "rpy", "angle", "ranges", "bounds"})


def warn_of_large_angles(table: ScenarioTable, place: str = "") -> None:
    """Warn of every angle in ``table`` and in nested tables above a full revolution: it may be in degrees."""
    for name in sorted(table.model_fields_set):
        value, where = getattr(table, name), f"{place}.{name}".lstrip(".")
        if name in ANGLES and f"{name}_deg" in type(table).model_fields:
            warn_of_large_angle(value, where)
        # The place of the warning is that in the file, however deep.
        for inner, path in _list_tables(value, where):
            warn_of_large_angles(inner, path)


def warn_of_large_angle(value: Any, place: str) -> None:
    """Warn if a number, or one in a list or table, exceeds a full revolution."""
    # Numbers, lists and tables by joint are judged alike.
    given = list(value.values()) if isinstance(value, dict) else [] if value is None else value
    numbers = np.ravel(np.asarray(given, dtype=np.float64))
    largest = float(np.abs(numbers).max(initial=0.0))
    if FULL_CIRCLE < largest < math.inf:
        warn_of_degrees(largest, Place(place), f"{place.rpartition('.')[2]}_deg")


def _list_tables(value: Any, place: str) -> Iterator[tuple[ScenarioTable, str]]:
    if isinstance(value, ScenarioTable):
        yield value, place
    elif isinstance(value, list):
        yield from ((each, f"{place}[{k}]") for k, each in enumerate(value) if isinstance(each, ScenarioTable))
    elif isinstance(value, dict):
        yield from ((each, f"{place}.{name}") for name, each in value.items() if isinstance(each, ScenarioTable))


#: A list of tables; a single table may be given without brackets.
OneOrMore = BeforeValidator(lambda value: [value] if isinstance(value, dict) else value)


def check_distinct(tables: list[Any], place: str, name: str = "name") -> None:
    """Raise an error if two entries of a list have the same name."""
    names = [getattr(table, name) for table in tables]
    for each in names:
        if names.count(each) > 1:
            raise InputError(f"two are called {each!r}", place=place, hint="expected different names")
