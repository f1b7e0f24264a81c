"""Errors that spacearm raises on purpose.

Every one says what is wrong, where (file, key, body, joint), and what would be right.
The command line turns an :class:`InputError` into exit status 2 and any other
:class:`SpacearmError` into exit status 1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

__all__ = ["EngineError", "InputError", "ModelError", "SimulationError", "SpacearmError", "TimeLimitError"]

#: What can move a terminal's cursor, colour its screen, or reverse the direction of text: controls but for tab and
#: newline, marks of direction, line and paragraph separators, halves of surrogate pairs.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text that is safe to show: control characters and marks of direction as escapes that can be read."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


class SpacearmError(Exception):
    """What went wrong, where, and what would be right.

    Args:
        message: what is wrong, one sentence.
        place: where in the input, for example ``joint[2].axis`` or ``body 'hand'``.
        file: the file that was read, if any.
        hint: what would be right.
    """

    def __init__(self, message: str, *, place: str = "", file: str | Path | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.file = None if file is None else Path(file)
        self.hint = hint

    def __str__(self) -> str:
        where = ": ".join(str(part) for part in (self.file and format_path(self.file), self.place) if part)
        where = where.replace("\n", "\\n")
        text = f"{where}: {self.message}" if where else self.message
        return printable(f"{text} ({self.hint})" if self.hint else text)  # keys and names may hold anything

    def with_file(self, file: str | Path) -> SpacearmError:
        """The same error, with the file that it was met in; returned so that it can be raised."""
        self.file = Path(file)
        return self

    def locate(self, place: object = "", file: str | Path | None = None, *, fallback: bool = False) -> None:
        """Add where the error was met, as :func:`error_context` does."""
        if self.file is None:  # otherwise its place is one of that file
            named = self.place == str(place) or self.place.startswith((f"{place}: ", f"{place}, "))
            if place and not named and not (fallback and self.place):
                self.place = f"{place}: {self.place}" if self.place else str(place)
            self.file = None if file is None else Path(file)


class InputError(SpacearmError, ValueError):
    """What the user gave cannot be used."""


class ModelError(InputError):
    """A robot that cannot exist: its tree, its names or its numbers."""


class EngineError(SpacearmError, RuntimeError):
    """A program could not be compiled or run."""


class SimulationError(SpacearmError, RuntimeError):
    """A run in time could not go on."""


class TimeLimitError(SimulationError):
    """The wall-clock time that was allowed is over."""


@contextmanager
def error_context(place: object = "", *, file: str | Path | None = None, fallback: bool = False) -> Iterator[None]:
    """Errors raised inside this block say where: ``place`` is put in front of theirs, ``file`` is the file.

    An error that already names a file is left as it is: its place is one of that file. With ``fallback`` the place is
    only for errors that have none.
    """
    try:
        yield
    except SpacearmError as error:
        error.locate(place, file, fallback=fallback)
        raise


#: Longest name or path that a message shows: a whole file given in place of its path shall not fill the screen.
LONGEST_SHOWN = 80
#: A path is shown whole up to this, so that it can be copied; what is longer is a text given by mistake.
LONGEST_PATH = 400


def clip_text(text: object, most: int = LONGEST_SHOWN) -> str:
    """``text`` in one line of at most ``most`` characters, the middle left out of what is longer."""
    line = " ".join(str(text).split()) if len(str(text)) > most else str(text)
    if len(line) <= most:
        return line
    head = (2 * most) // 3
    return f"{line[:head]} ... {line[len(line) - (most - head - 5) :]}"


def format_path(path: str | Path) -> str:
    """A path whole, unless it is a whole text given in place of one."""
    text = str(path)
    return text if len(text) <= LONGEST_PATH and "\n" not in text else clip_text(text)


def quote_text(name: object) -> str:
    """A name in quotes, clipped: how messages show what the user wrote."""
    return repr(clip_text(name)) if isinstance(name, str) else clip_text(repr(name))


def similar_files(path: str | Path) -> str:
    """A hint with the nearest file name beside a path that does not exist; empty where there is none."""
    path = Path(path)
    try:
        names = [each.name for each in islice(path.parent.iterdir(), 2000)]
    except (OSError, ValueError):  # no such folder, or a name that none can have
        return "" if path.parent == path else f"there is no folder {quote_text(str(path.parent))}"
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"did you mean {quote_text(str(path.with_name(near[0])))}?" if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the known words, the nearest one first."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if near:
        return f"did you mean {quote_text(near[0])}?"
    # names from a damaged file may hold anything
    shown = ", ".join(clip_text(name) if name.isprintable() else repr(clip_text(name, 20)) for name in words[:12])
    shown += ", ..." if len(words) > 12 else ""
    return f"known: {shown}" if words else "there are none"
