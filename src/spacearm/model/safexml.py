"""Reading XML from strangers: no document type, no entities, nothing fetched, nothing endless."""

from __future__ import annotations

import math
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from spacearm.errors import ModelError, clip_text

#: Numbers beyond this are a mistake in SI units, and their products could overflow.
MAX_NUMBER = 1e30
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a reader of XML takes from a stranger before it refuses; a caller who trusts a file gives larger ones.

    Attributes:
        file_bytes: largest XML file, with all that it includes and attaches.
        mesh_bytes: all mesh files of a model together.
        elements: elements of a model, with all that it includes, attaches and replicates.
        depth: how deeply elements stand in each other.
        seconds: wall-clock time for the library that compiles the model.
        memory_bytes: memory for the same.
    """

    file_bytes: int = 16 * 2**20
    mesh_bytes: int = 256 * 2**20
    elements: int = 200_000
    depth: int = 200
    seconds: float = 20.0
    memory_bytes: int = 2 * 2**30

    def lift(self, name: str) -> str:
        """A hint that says how to lift this bound."""
        value = getattr(self, name)
        return f"the bound {name} is {value:,}; for a trusted file pass bounds=Bounds({name}=...)"


#: What is used unless the caller says otherwise.
BOUNDS = Bounds()


class Located(Element):
    """An element that knows where it stands: line, and file where it was given."""

    line = 0
    file: Path | None = None


def read_file(path: str | Path, most: int = BOUNDS.file_bytes, hint: str = BOUNDS.lift("file_bytes")) -> bytes:
    """The bytes of a regular file, or a :class:`ModelError`; above ``most`` bytes it has this ``hint``.

    Devices and pipes are refused: they may never end, or never begin.
    """
    path = Path(path)
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(most + 1) if regular else b""
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}", file=path) from error
    except ValueError as error:  # a path with a zero byte
        raise ModelError(f"cannot be read: {error}") from error
    if not regular:
        raise ModelError("cannot be read: it is a device or a pipe", file=path, hint="expected a regular file")
    if len(data) > most:
        raise ModelError(f"file is larger than {most:,} bytes", file=path, hint=hint)
    return data


def parse(text: str | bytes, root: str | None, *, bounds: Bounds = BOUNDS, file: Path | None = None) -> Located:
    """The root element, called ``root`` if that is given; anything dangerous or malformed is a :class:`ModelError`.

    ``file`` is where the elements stand, for whoever asks them.
    """
    if len(text) > bounds.file_bytes:
        raise ModelError(f"text is longer than {bounds.file_bytes:,} bytes", hint=bounds.lift("file_bytes"))
    builder = _BoundedTreeBuilder(bounds, file)
    parser = DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.parser = parser.parser
    try:
        parser.feed(text)
        element: Located = parser.close()
    except DefusedXmlException as error:
        raise ModelError(
            f"refused: document types and entities are not read ({type(error).__name__})",
            hint="remove the <!DOCTYPE ...> part; it could fetch files or grow without bound",
        ) from error
    except ParseError as error:
        raise ModelError(f"not well-formed XML: {error}", place="line {}, column {}".format(*error.position)) from error
    except (ValueError, LookupError) as error:  # undecodable text or an unknown encoding
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"not readable as XML text: {error}") from error
    if root is not None and element.tag != root:
        raise ModelError(f"the root element is <{clip_text(element.tag)}>", hint=f"expected <{root}>")
    return element


class _BoundedTreeBuilder(TreeBuilder):
    """Builds the tree, and stops where it grows too large."""

    parser: Any = None

    def __init__(self, bounds: Bounds, file: Path | None) -> None:
        super().__init__(element_factory=Located)
        self.bounds, self.file = bounds, file
        self.depth = self.count = 0

    def start(self, tag: str, attrs: dict[Any, Any], /) -> Element:
        self.depth += 1
        self.count += 1
        if self.depth > self.bounds.depth:
            self._refuse("elements are nested more than {:,} levels deep", "depth")
        if self.count > self.bounds.elements:
            self._refuse("there are more than {:,} elements", "elements")
        element = super().start(tag, attrs)
        assert isinstance(element, Located)
        element.line, element.file = self.parser.CurrentLineNumber, self.file
        return element

    def end(self, tag: str, /) -> Element:
        self.depth -= 1
        return super().end(tag)

    def _refuse(self, message: str, bound: str) -> None:
        raise ModelError(
            message.format(getattr(self.bounds, bound)),
            place=f"line {self.parser.CurrentLineNumber}",
            hint=self.bounds.lift(bound),
        )


def number(text: str, what: str, *, limit: float = MAX_NUMBER) -> float:
    """A finite decimal number of at most ``limit`` in size."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ModelError(f"{what} is not a finite number: {text[:40]!r}")
    value = float(text)
    if not math.isfinite(value) or abs(value) > limit:
        raise ModelError(f"{what} is {text.strip()[:40]}", hint=f"expected a size of at most {limit:g}")
    return value


def numbers(text: str, count: int, what: str) -> list[float]:
    """Exactly ``count`` numbers, separated by blanks."""
    words = text.split()
    if len(words) != count:
        raise ModelError(f"{what} has {len(words)} numbers: {text.strip()[:60]!r}", hint=f"expected {count}")
    return [number(word, what) for word in words]


def format_number(value: float) -> str:
    """A number as text that reads back to the same double."""
    return repr(float(value) + 0.0)  # + 0.0 turns -0.0 into 0.0


def format_numbers(values: object) -> str:
    """Several numbers as text."""
    return " ".join(format_number(value) for value in values)  # type: ignore[attr-defined]
