"""What another file format cannot say: told as warnings, or as one error where the caller is strict."""

from __future__ import annotations

import warnings

from spacearm.errors import InputError


class LossyConversion(UserWarning):
    """Something of the robot is left out or only approximated in the other format."""


class NotExpressible(InputError):
    """The other format cannot express this robot."""


class Losses:
    """Collects what a conversion loses, and tells it at the end, each once.

    Args:
        target: the format's name, for the messages.
        strict: raise :class:`NotExpressible` at the end instead of warning.
    """

    def __init__(self, target: str, *, strict: bool) -> None:
        self.target = target
        self.strict = strict
        self.found: list[str] = []

    def add(self, place: str, what: str) -> None:
        self.found.append(f"{place}: {what}")

    def tell(self, *, stacklevel: int = 3) -> None:
        if self.found and self.strict:
            raise NotExpressible(
                f"{self.target} cannot say all of this robot: " + "; ".join(self.found),
                hint="without strict this is a warning",
            )
        for message in self.found:
            warnings.warn(LossyConversion(f"{self.target}: {message}"), stacklevel=stacklevel)
