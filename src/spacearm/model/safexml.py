"""Reading XML from strangers: no document type, no entities, nothing fetched, nothing endless."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from defusedxml import ElementTree as SafeElementTree
from defusedxml.common import DefusedXmlException

from spacearm.errors import ModelError

#: Files above this size are refused, bytes.
MAX_BYTES = 16 * 2**20
#: Numbers beyond this are a mistake in SI units, and their products could overflow.
MAX_NUMBER = 1e30
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def read_file(path: str | Path) -> bytes:
    """The file's bytes, or a :class:`ModelError` that says why not."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"file is larger than {MAX_BYTES} bytes", file=path)
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}", file=path) from error
    except ValueError as error:  # a path with a zero byte
        raise ModelError(f"cannot be read: {error}") from error


def parse(text: str | bytes, root: str | None) -> Element:
    """The root element, called ``root`` if that is given; anything dangerous or malformed is a :class:`ModelError`."""
    if len(text) > MAX_BYTES:
        raise ModelError(f"text is longer than {MAX_BYTES} bytes")
    try:
        element: Element = SafeElementTree.fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ModelError(
            f"refused: document types and entities are not read ({type(error).__name__})",
            hint="remove the <!DOCTYPE ...> part; it can fetch files or grow without bound",
        ) from error
    except ParseError as error:
        raise ModelError(f"not well-formed XML: {error}", place="line {}, column {}".format(*error.position)) from error
    except (ValueError, LookupError) as error:  # undecodable text or an unknown encoding
        raise ModelError(f"not readable as XML text: {error}") from error
    if root is not None and element.tag != root:
        raise ModelError(f"the root element is <{element.tag}>", hint=f"expected <{root}>")
    return element


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


def shown(value: float) -> str:
    """A number as text that reads back to the same double."""
    return repr(float(value) + 0.0)  # + 0.0 turns -0.0 into 0.0


def shown_all(values: object) -> str:
    """Several numbers as text."""
    return " ".join(shown(value) for value in values)  # type: ignore[attr-defined]
