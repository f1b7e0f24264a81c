"""What is reported about a robot file beside errors: what a conversion loses, and what reading has repaired.

Each is a warning for every kind of loss or repair, with its places; where the caller is strict, losses are one error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spacearm.errors import InputError

#: How many places a warning of a loss names, and how many changes one of a repair spells out; it counts the others.
MOST_PLACES, MOST_CHANGES = 8, 6


class LossyConversion(UserWarning):
    """Something of the robot is left out or only approximated in the other format."""


class NotExpressible(InputError):
    """The other format cannot express this robot."""


class RepairWarning(UserWarning):
    """A robot was changed so that it can exist; :attr:`repairs` lists every change of this kind."""

    def __init__(self, message: str, repairs: Sequence[Repair] = ()) -> None:
        super().__init__(message)
        self.repairs = tuple(repairs)


@dataclass(frozen=True, slots=True)
class Repair:
    """One change: of which kind, where, from what to what, and how large (for sorting; 1 is 100 %)."""

    kind: str
    place: str
    change: str
    size: float = 0.0


class Losses:
    """Collects what a conversion loses, and reports it at the end: places that lose the same in one warning.

    Args:
        target: the format's or the file's name, for the messages.
        strict: raise :class:`NotExpressible` at the end instead of warning.
    """

    def __init__(self, target: str, *, strict: bool) -> None:
        self.target, self.strict = target, strict
        #: what is lost, and its places (as keys: each once, in order, found at once among thousands)
        self.found: dict[str, dict[str, None]] = {}

    def add(self, place: str, what: str) -> None:
        self.found.setdefault(what, {})[place] = None

    def messages(self, most: int | None = MOST_PLACES) -> list[str]:
        """Messages of what is lost, each once, with at most so many of its places."""
        result = []
        for what, found in self.found.items():
            places = list(found)
            more = f" and {len(places) - most} more" if most is not None and len(places) > most else ""
            result.append(f"{', '.join(places[:most])}{more}: {what}")
        return result

    def warn(self, *, stacklevel: int = 3) -> None:
        if self.found and self.strict:
            everything = "; ".join(self.messages(None))
            raise NotExpressible(
                f"parts of this robot would be lost: {everything}", hint="without strict these are warnings"
            )
        for message in self.messages():
            warnings.warn(LossyConversion(f"{self.target}: {message}"), stacklevel=stacklevel)


def warn_of_repairs(source: str, repairs: Iterable[Repair], *, stacklevel: int = 3) -> None:
    """One :class:`RepairWarning` warning for each kind of change; the largest changes are spelt out."""
    kinds: dict[str, list[Repair]] = {}
    for repair in repairs:
        kinds.setdefault(repair.kind, []).append(repair)
    for kind, group in kinds.items():
        largest = sorted(group, key=lambda repair: -repair.size)[:MOST_CHANGES]
        shown = "; ".join(f"{repair.place}: {repair.change}" for repair in largest)
        more = f"; and {len(group) - MOST_CHANGES} more" if len(group) > MOST_CHANGES else ""
        warnings.warn(RepairWarning(f"{source}: repaired: {kind}: {shown}{more}", group), stacklevel=stacklevel)
