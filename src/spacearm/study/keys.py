"""The dialect of scenario files: what every table of every study understands in the same way.

A table derives from :class:`Table` and declares its keys with :func:`key`. An angle has its plain key in rad and, with
the same name and ``_deg`` behind, one in degrees; either may be given, never both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from spacearm.errors import InputError
from spacearm.model import toml_schema
from spacearm.model.document import at
from spacearm.model.toml_errors import Place
from spacearm.model.toml_values import doubt_angle


def key(default: Any = ..., what: str = "", **limits: Any) -> Any:
    """A key of a table: its default (required where left out), and what it means, for the documentation."""
    return Field(default, description=what, **limits)


def refused(message: str, hint: str = "") -> PydanticCustomError:
    """What a validator raises: the place in the file is added to it."""
    return PydanticCustomError("spacearm", "{message}", {"message": message, "hint": hint})


class Table(toml_schema.Table):
    """A table of a scenario file; keys that it does not know are errors."""

    #: Groups of keys of which at most one may be given.
    either: ClassVar[tuple[tuple[str, ...], ...]] = ()
    #: What each ``kind`` uses, besides ``kind``: another key was meant to do something, and is an error.
    uses: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        pairs = tuple((name, f"{name}_deg") for name in type(self).model_fields)
        for group in (*self.either, *pairs):
            given = [name for name in group if self.given(name)]
            tables = [set(value) for name in given if isinstance(value := getattr(self, name), dict)]
            if len(given) > 1 and (len(tables) < len(given) or set.intersection(*tables)):
                raise refused(f"both {given[0]!r} and {given[1]!r} are given", "expected one")
        if self.uses:
            kind = getattr(self, "kind")  # noqa: B009
            for name in sorted(self.model_fields_set - {"kind"}):
                if name.removesuffix("_deg") not in self.uses[kind] and self.given(name):
                    used = ", ".join(map(repr, self.uses[kind]))
                    raise refused(f"{name!r} does not apply to kind = {kind!r}", f"it uses {used}")
        return self

    def given(self, name: str) -> bool:
        """Whether the file has this key."""
        return name in self.model_fields_set and getattr(self, name) is not None

    def si(self, name: str) -> Any:
        """The value of a key in SI units, where it may also be given in degrees; None where it is not given."""
        plain, degrees = getattr(self, name), getattr(self, f"{name}_deg")
        if degrees is None or (self.given(name) and not isinstance(degrees, dict)):
            return plain
        if isinstance(degrees, dict):
            return {**(plain or {}), **{entry: np.radians(value) for entry, value in degrees.items()}}
        return float(np.radians(degrees)) if isinstance(degrees, float) else np.radians(degrees)

    def no_degrees(self, why: str) -> None:
        """An error where a key is in degrees; ``why`` says why there are none, and is empty where they may be."""
        for name in sorted(self.model_fields_set) if why else ():
            if name.endswith("_deg") and getattr(self, name) is not None:
                raise InputError(f"{name!r} is given, but {why}", hint=f"use {name[:-4]!r}, in SI units")

    def options(self, *only: str) -> dict[str, Any]:
        """What is set, by key and in SI units, tables within as what they make: the keywords of a function.

        ``only`` these keys, or all of them.
        """
        found = {}
        for name in type(self).model_fields:
            stem = name.removesuffix("_deg")
            if (only and stem not in only) or getattr(self, name) is None:
                continue
            value = self.si(stem) if f"{stem}_deg" in type(self).model_fields else getattr(self, name)
            found[stem] = made(value, stem)
        return found

    def make(self) -> Any:
        """What the table describes, where it describes a single thing."""
        return self


def made(value: Any, place: str) -> Any:
    """A value of a table, or what the tables in it make; errors get their place."""
    if isinstance(value, Table):
        with at(place):
            return value.make()
    if isinstance(value, list) and value and isinstance(value[0], Table):
        return [made(entry, f"{place}[{k}]") for k, entry in enumerate(value)]
    return value


def makes(what: Callable[..., Any]) -> Callable[[Table], Any]:
    """``make`` of a table whose keys are the keywords of ``what``."""
    return lambda table: what(**table.options())


#: An angle beyond this, rad, may be meant in degrees; a full circle may be rounded up in a file.
FULL_CIRCLE = 2.001 * math.pi
#: Keys of angles, in rad; each has one in degrees beside it.
ANGLES = frozenset({"joints", "rpy", "angle", "ranges", "bounds"})


def question_angles(table: Table, place: str = "") -> None:
    """Warn of every angle, in ``table`` and in the tables within, of more than a full circle: it may be in degrees."""
    for name in sorted(table.model_fields_set):
        value, where = getattr(table, name), f"{place}.{name}".lstrip(".")
        if name in ANGLES and f"{name}_deg" in type(table).model_fields:
            question_angle(value, where)
        for inner, path in _tables_in(value, where):
            question_angles(inner, path)


def question_angle(value: Any, place: str) -> None:
    """Warn if a number, or one of those in a list or table, is more than a full circle."""
    given = list(value.values()) if isinstance(value, dict) else [] if value is None else value
    numbers = np.ravel(np.asarray(given, dtype=np.float64))
    largest = float(np.abs(numbers).max(initial=0.0))
    if FULL_CIRCLE < largest < math.inf:
        doubt_angle(largest, Place(place), f"{place.rpartition('.')[2]}_deg")


def _tables_in(value: Any, place: str) -> Iterator[tuple[Table, str]]:
    if isinstance(value, Table):
        yield value, place
    elif isinstance(value, list):
        yield from ((each, f"{place}[{k}]") for k, each in enumerate(value) if isinstance(each, Table))
    elif isinstance(value, dict):
        yield from ((each, f"{place}.{name}") for name, each in value.items() if isinstance(each, Table))


#: A list of tables, of which a single one needs no brackets.
OneOrMore = BeforeValidator(lambda value: [value] if isinstance(value, dict) else value)


def distinct(tables: list[Any], place: str, name: str = "name") -> None:
    """An error where two entries of a list have the same name."""
    names = [getattr(table, name) for table in tables]
    for each in names:
        if names.count(each) > 1:
            raise InputError(f"two are called {each!r}", place=place, hint="expected different names")
