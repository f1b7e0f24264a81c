"""Checks of what a user gave: each returns the value, ready to use, or raises an error with what, where and a hint.

``what`` names the value ("duration", "quaternion"), ``place`` says where it stands ("clutch", "phase 2"); inside a
``with error_context(place):`` block (:func:`spacearm.errors.error_context`) the place can be left out. The value comes
back converted: a ``float``, an ``int``, an array of float64. :func:`check_fields` applies a check to fields of a frozen
dataclass::

    duration = positive(duration, "duration", unit="s", place="phase 2")
    joints = array(joints, "joints", (robot.n,))
    known(name, robot.joint_names, "joint", place="locked")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from numbers import Integral
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError, did_you_mean, error_context, quote_text
from spacearm.typing import Array

#: One entry for each axis: its length, or a letter where any length will do; ``...`` first for any leading axes.
Shape: TypeAlias = tuple[int | str | EllipsisType, ...]
Kind: TypeAlias = type[InputError]
T = TypeVar("T")

#: How far from 1 the length of a unit vector or unit quaternion may be.
UNIT_TOLERANCE = 1e-6


# -- numbers ---------------------------------------------------------------------------------------------------------


def number(
    value: object,
    what: str,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    unit: str = "",
    infinite: bool = False,
    place: str = "",
    hint: str = "",
    error: Kind = InputError,
) -> float:
    """One number within bounds; text, yes or no, and NaN are none, and infinity only where ``infinite``."""
    try:
        found = math.nan if isinstance(value, bool | np.bool_ | str | bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    strange = math.isnan(found) or (math.isinf(found) and not infinite)
    if strange or not _satisfies_bounds(found, above, least, below, most):
        hint = hint or _describe_bounds(above, least, below, most, unit, "a finite number" if strange else "")
        raise error(f"{what} is {_format_value(value)}", place=place, hint=hint)
    return found


def positive(value: object, what: str, **options: Any) -> float:
    """One number above zero; options as for :func:`number`."""
    return number(value, what, above=0.0, **options)


def non_negative(value: object, what: str, **options: Any) -> float:
    """One number, zero or more; options as for :func:`number`."""
    return number(value, what, least=0.0, **options)


def integer(
    value: object,
    what: str,
    *,
    least: float | None = None,
    most: float | None = None,
    place: str = "",
    hint: str = "",
    error: Kind = InputError,
) -> int:
    """One whole number within bounds; 3.0 is one, 3.5 and True are none."""
    # Python counts True as 1: here it is a slip.
    found = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        found = int(value)
    if found is None or not _satisfies_bounds(found, least=least, most=most):
        hint = hint or _describe_bounds(least=least, most=most, noun="a whole number")
        raise error(f"{what} is {_format_value(value)}", place=place, hint=hint)
    return found


def _satisfies_bounds(
    found: Any,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> Any:
    """Whether a number, or each number of an array, is within bounds; NaN is within all."""
    outside = False
    if above is not None:
        outside |= found <= above
    if least is not None:
        outside |= found < least
    if below is not None:
        outside |= found >= below
    if most is not None:
        outside |= found > most
    # Outside is what is asked: any comparison with NaN is false, so that NaN passes and is judged elsewhere.
    return np.logical_not(outside)


def _describe_bounds(
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    unit: str = "",
    noun: str = "",
) -> str:
    """``expected more than 0 s``: the bounds in words."""
    if least is not None and most is not None:
        words = f"{least:g} to {most:g}"
    else:
        bounds = {"more than": above, "at least": least, "less than": below, "at most": most}
        words = " and ".join(f"{text} {bound:g}" for text, bound in bounds.items() if bound is not None)
    text = ", ".join(part for part in (noun, words) if part) or "a finite number"
    return f"expected {text} {unit if words else ''}".rstrip()


def _format_value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else quote_text(value)


# -- arrays ----------------------------------------------------------------------------------------------------------


def numbers(value: npt.ArrayLike, what: str, *, place: str = "", hint: str = "", error: Kind = InputError) -> Array:
    """An array of float64 of whatever shape; entries may be infinite or NaN."""
    try:
        given = np.asarray(value)
        if given.dtype.kind in "fiubO":  # not text, and NumPy would drop an imaginary part
            return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise error(f"{what} is not an array of numbers", place=place, hint=hint)


def array(
    value: npt.ArrayLike,
    what: str,
    shape: Shape | None = None,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    unit: str = "",
    finite: bool = True,
    place: str = "",
    hint: str = "",
    error: Kind = InputError,
) -> Array:
    """An array of float64 with this shape and every entry within bounds.

    Args:
        value: what was given.
        what: its name, for messages.
        shape: for example ``(3,)``, ``("T", 7)`` or ``(..., 3)``; None for any.
        above, least, below, most: bounds of every entry.
        unit: for messages.
        finite: NaN and infinity are errors; otherwise NaN passes every bound.
        place: where it was given.
        hint: what would be right, where that is more than shape and bounds.
        error: class of the error.
    """
    found = numbers(value, what, place=place, hint=hint or _describe_shape(shape), error=error)
    if shape is not None and not _shape_matches(found.shape, shape):
        given = f"{found.size} numbers" if found.ndim == 1 == len(shape) else f"shape {found.shape}"
        raise error(f"{what} has {given}", place=place, hint=hint or _describe_shape(shape))
    wrong = ~np.broadcast_to(_satisfies_bounds(found, above, least, below, most), found.shape)
    if finite:
        wrong |= ~np.isfinite(found)
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f"{what}[{', '.join(map(str, index))}]" if index else what
        noun = "" if np.isfinite(found[index]) else "a finite number"
        hint = hint or _describe_bounds(above, least, below, most, unit, noun)
        raise error(f"{where} is {found[index]:g}", place=place, hint=hint)
    return found


def _shape_matches(given: tuple[int, ...], wanted: Shape) -> bool:
    if wanted and wanted[0] is Ellipsis:
        wanted = wanted[1:]
        given = given[len(given) - len(wanted) :] if len(given) >= len(wanted) else ()
    return len(given) == len(wanted) and all(
        w in (g, Ellipsis) or isinstance(w, str) for g, w in zip(given, wanted, strict=True)
    )


def _describe_shape(shape: Shape | None) -> str:
    if shape is None:
        return "expected numbers"
    if len(shape) == 1:
        return f"expected {shape[0]} numbers" if isinstance(shape[0], int) else "expected a list of numbers"
    return f"expected shape ({', '.join('...' if each is Ellipsis else str(each) for each in shape)})"


def unit_vector(value: npt.ArrayLike, what: str, shape: Shape = (3,), **options: Any) -> Array:
    """Unit vectors (or quaternions) along the last axis, as given: what is not of length 1 is an error, not scaled."""
    found = array(value, what, shape, **options)
    length = np.linalg.norm(found, axis=-1)
    wrong = np.flatnonzero(np.abs(length - 1.0) > UNIT_TOLERANCE)
    if wrong.size:
        row = f" in row {wrong[0]}" if length.ndim else ""
        kind = "unit quaternion w, x, y, z" if found.shape[-1] == 4 else "unit vector"
        raise options.get("error", InputError)(
            f"{what} has length {length.flat[wrong[0]]:.6g}{row}",
            place=options.get("place", ""),
            hint=options.get("hint") or f"expected a {kind}",
        )
    return found


def check_increasing(
    value: npt.ArrayLike,
    what: str = "times",
    *,
    count: int = 1,
    start: float | None = None,
    place: str = "",
    error: Kind = InputError,
    **options: Any,
) -> Array:
    """Finite numbers, each greater than the one before; at least ``count``, the first ``start`` where that is given."""
    found = array(value, what, ("T",), place=place, error=error, **options)
    if found.size < count:
        raise error(f"{what} has {found.size} entries", place=place, hint=f"expected at least {count}")
    if start is not None and found.size and found[0] != start:
        raise error(f"{what} starts at {found[0]:g}", place=place, hint=f"expected {start:g}")
    falls = np.flatnonzero(np.diff(found) <= 0.0)
    if falls.size:
        i = int(falls[0])
        message = f"{what}[{i + 1}] is {found[i + 1]:g}, after {found[i]:g}"
        raise error(message, place=place, hint="expected increasing values")
    return found


# -- names and choices -----------------------------------------------------------------------------------------------


def check_name(
    name: T, names: Collection[T], what: str, *, of: str = "", place: str = "", error: Kind = InputError
) -> T:
    """A name that is one of ``names``; otherwise the nearest one is suggested. ``of`` says whose names they are."""
    if isinstance(name, str) and name in names:
        return name
    message = f"{of} has no {what} {quote_text(name)}" if of else f"there is no {what} {quote_text(name)}"
    raise error(message, place=place, hint=did_you_mean(str(name), map(str, names)))


def one_of(value: T, choices: Iterable[object], what: str, *, place: str = "", error: Kind = InputError) -> T:
    """A value that is one of a few choices."""
    allowed = list(choices)
    if any(type(value) is type(choice) and value == choice for choice in allowed):
        return value
    texts = [repr(choice) for choice in allowed]
    hint = f"expected {', '.join(texts[:-1])} or {texts[-1]}" if len(texts) > 1 else f"expected {', '.join(texts)}"
    raise error(f"{what} is {quote_text(value)}", place=place, hint=hint)


def check_exclusive(
    given: Mapping[str, object], *, required: bool = False, place: str = "", hint: str = "", error: Kind = InputError
) -> str | None:
    """The name of the one option that is given, of several that exclude each other; an error where more are."""
    found = [name for name, value in given.items() if value is not None]
    if len(found) > 1:
        raise error(f"both {found[0]!r} and {found[1]!r} are given", place=place, hint=hint or "expected one of them")
    if required and not found:
        names = " or ".join(repr(name) for name in given)
        raise error(f"{names} is missing", place=place, hint=hint)
    return found[0] if found else None


def check_not_empty(
    items: Sized, what: str, *, place: str = "", hint: str = "expected at least one", error: Kind = InputError
) -> None:
    """Raise an error if there is no item."""
    if not len(items):
        raise error(f"there is no {what}", place=place, hint=hint)


def unique(names: Iterable[str], what: str, *, place: str = "", error: Kind = InputError) -> None:
    """No name is used twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise error(f"{what} {quote_text(name)} is given twice", place=place, hint="expected different names")
        seen.add(name)


def instance(
    value: T, kind: type, what: str, *, optional: bool = False, place: str = "", error: Kind = InputError
) -> T:
    """A value of this class (or None, where that is allowed)."""
    if isinstance(value, kind) or (optional and value is None):
        return value
    name = "text" if kind is str else f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    hint = f"expected {name}{' or None' if optional else ''}"
    raise error(f"{what} is {quote_text(value)}", place=place, hint=hint)


# -- fields of dataclasses -------------------------------------------------------------------------------------------


def check_fields(
    part: object, check: Callable[..., Any], *names: str, place: str = "", optional: bool = False, **options: Any
) -> None:
    """Apply a check to fields of a frozen dataclass, which then hold what it returns; None passes where ``optional``.

    ``check_fields(self, positive, "mass", "radius", place="target")``
    """
    with error_context(place, fallback=True):
        for name in names:
            value = getattr(part, name)
            if value is not None or not optional:
                object.__setattr__(part, name, check(value, name, **options))
