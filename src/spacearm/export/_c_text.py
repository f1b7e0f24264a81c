"""Names of users in C: as identifiers, in comments, in string literals. No other module writes them there.

A name may hold anything that can be printed: the end of a comment, quotes, backslashes, trigraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import wrap

from spacearm.model.robot import free_name

#: Longest part of a name that an identifier keeps: with what stands around it a file name stays below 255 bytes.
LONGEST = 48
#: First parts that the exported files use themselves, and headers of C's library, which a file of this name would hide.
_RESERVED_NAMES = {
    "test", "found", "own", "same", "law", "fmi2", "fmi3", "sa",
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math", "setjmp",
    "signal", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "tgmath", "time", "wchar", "wctype",
    "cpuid",
}  # fmt: skip


def identifier(name: str) -> str:
    """A name as the first part of C identifiers and as a file name: lower case, ASCII, of bounded length."""
    found = _plain(name)
    usable = found and not found[0].isdigit() and found not in _RESERVED_NAMES
    return found if usable else f"robot_{found}".rstrip("_")


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """The last parts of C identifiers, different for different names: ``tool-1`` and ``tool_1`` do not become one.

    A name that is one already keeps it.
    """
    found = {name: _plain(name) or "x" for name in names}
    # Names that need no change come first, whatever the order: adding a frame does not rename another.
    taken = {part for name, part in found.items() if name == part}
    return {name: part if name == part else free_name(part, taken, "_") for name, part in found.items()}


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()[:LONGEST].rstrip("_")


def comment(text: str) -> str:
    """Lines of a block comment, each with its star; nothing in the text ends the comment or begins another."""
    lines = [line for part in text.split("\n") for line in (wrap(_escape_unprintable(part), 116) or [""])]
    return "\n".join(f" * {_escape_comment_marks(line)}".rstrip() for line in lines)


def _escape_comment_marks(line: str) -> str:
    """No ``*/`` or ``/*``, and no end of the line that joins it with the next: a backslash or its trigraph."""
    apart = re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", line)
    return f"{apart} ." if apart.endswith("\\") else apart


def _escape_unprintable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def string(text: str) -> str:
    """A string literal: the bytes of UTF-8, those that mean something to C or to ``printf``'s readers in octal."""
    kept = {ord(c) for c in " !#&'()*+,-./:;<=>@[]^_`{|}~"} | {*range(48, 58), *range(65, 91), *range(97, 123)}
    return '"' + "".join(chr(byte) if byte in kept else f"\\{byte:03o}" for byte in text.encode()) + '"'
