"""What another file format cannot say: told as warnings, or as one error where the caller is strict."""

from __future__ import annotations

import warnings

from spacearm.errors import InputError


class LossyConversion(UserWarning):
    """Something of the robot is left out or only approximated in the other format."""


class NotExpressible(InputError):
    """The other format cannot express this robot."""


#: How many places a warning names; it says how many more there are.
MOST_PLACES = 8


class Losses:
    """Collects what a conversion loses, and tells it at the end: places that lose the same in one warning.

    Args:
        target: the format's or the file's name, for the messages.
        strict: raise :class:`NotExpressible` at the end instead of warning.
    """

    def __init__(self, target: str, *, strict: bool) -> None:
        self.target = target
        self.strict = strict
        self.found: list[tuple[str, str]] = []

    def add(self, place: str, what: str) -> None:
        self.found.append((place, what))

    def messages(self, most: int = MOST_PLACES) -> list[str]:
        """What is lost, each once, with at most so many of its places."""
        groups: dict[str, dict[str, None]] = {}  # places as keys: each once, in order, found at once among thousands
        for place, what in self.found:
            groups.setdefault(what, {})[place] = None
        result = []
        for what, found in groups.items():
            places = list(found)
            more = f" and {len(places) - most} more" if len(places) > most else ""
            result.append(f"{', '.join(places[:most])}{more}: {what}")
        return result

    def tell(self, *, stacklevel: int = 3) -> None:
        if self.found and self.strict:
            raise NotExpressible(
                "not all of this robot can be kept: " + "; ".join(self.messages(len(self.found))),
                hint="without strict this is a warning",
            )
        for message in self.messages():
            warnings.warn(LossyConversion(f"{self.target}: {message}"), stacklevel=stacklevel)
