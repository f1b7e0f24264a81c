"""Columns of numbers from text files as loggers write them: separators, decimal commas, units in headers, dates.

The header is the first line with the wanted names, also behind ``#`` or ``%`` or after lines about the measurement. A
name may be wanted without its unit: ``angle`` is ``angle [deg]``, and the unit counts unless another is given. Of
columns with the same name, ``hull/X`` is the one with ``hull`` in a line above it, as motion capture writes them;
``command[2]`` is the third number of lists in cells. Numbers may have decimal commas where a semicolon or a tab
separates them. Times of day and ISO 8601 dates are seconds.
"""

from __future__ import annotations

import codecs
import csv
import re
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.measure.units import to_si
from spacearm.typing import Array

#: Longest line of a text file, characters.
LINE = 1 << 20
#: Lines in which the header is looked for.
HEADER_LINES = 200
#: A column of a file that has no names, counted from 0.
_NUMBERED = re.compile(r"\[\d{1,6}\]")
#: A name with its unit: ``angle [deg]``, ``angle (deg)``.
_WITH_UNIT = re.compile(r"(?P<name>[^\[\]()]*[^\[\]()\s])\s*[\[(](?P<unit>[^\[\]()]{1,20})[\])]")
#: A number of a list in a cell: ``command[2]`` of ``"[1, 0, 1]"``.
_IN_LIST = re.compile(r"(?P<stem>.+)\[(?P<item>\d{1,4})\]")
#: Lines above the header that may name groups of columns.
ABOVE = 6
_COMMENT = ("#", "%", "//")
#: What loggers write where there is no reading.
_MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "nil"))
_WORDS = {"true": 1.0, "false": 0.0}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d{1,3})?")
_CLOCK = re.compile(r"(\d{1,3}):([0-5]?\d):([0-5]?\d(?:[.,]\d{1,9})?)")


class Header(NamedTuple):
    """Names of the columns, the separator (None: spaces), whether the file has none (then numbers start at once), and
    what stands above them, line by line."""

    names: list[str]
    separator: str | None
    missing: bool = False
    above: Sequence[Sequence[str]] = ()


def read_text_table(path: Path, names: Sequence[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """The named columns of a text file, and the units that it states; errors name no file."""
    with path.open(encoding=_encoding(path), newline=None) as file:
        lines = _lines(file)
        number, line, head = _find_header(lines, names)
        columns = {name: _place(head, name, line) for name in names}
        places, units = {name: place for name, (place, _) in columns.items()}, {}
        for name, place in places.items():
            parts = _WITH_UNIT.fullmatch(head.names[place])
            if parts is not None and _is_unit(parts["unit"]):
                units[name] = parts["unit"]
        values = array("d")
        first: tuple[int, str] | None = (number, line) if head.missing else None
        count, width = 0, len(head.names)
        for number, line in _chain(first, lines):
            cells = split_cells(line, head.separator, number)
            while len(cells) > width and not cells[-1].strip():
                cells.pop()  # a separator at the end of each row
            if count == 0 and not head.missing and (stated := _unit_row(cells, places)):
                units = {**stated, **units}
                continue
            if len(cells) != width:
                # Where the power went, the last line is cut, and no line ends there.
                if len(cells) < width and not line.endswith("\n"):
                    break
                raise InputError(f"has {len(cells)} cells", place=f"line {number}", hint=f"expected {width}")
            for name, (place, item) in columns.items():
                cell = cells[place].strip()
                cell = cell if item is None else _list_item(cell, item, number, name)
                values.append(parse_number(cell, number, name, head.separator))
            count += 1
    table = np.frombuffer(values, dtype=np.float64).reshape(-1, len(names)) if values else np.empty((0, len(names)))
    return {name: table[:, c].copy() for c, name in enumerate(names)}, units


def _chain(first: tuple[int, str] | None, rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    if first is not None:
        yield first
    for number, line in rest:
        if not line.startswith(_COMMENT):
            yield number, line


def _encoding(path: Path) -> str:
    """UTF-8, UTF-16 with its mark, or, where it is neither, the old Windows one that German instruments write."""
    with path.open("rb") as file:
        start = file.read(LINE)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the end of the sample cuts is none of another encoding.
        if error.start < len(start) - 4 and b"\0" not in start:
            return "cp1252"
    return "utf-8-sig"


def _find_header(lines: Iterator[tuple[int, str]], names: Sequence[str]) -> tuple[int, str, Header]:
    """Number and text of the line with the names of the columns, and the names."""
    numbered = bool(names) and all(_NUMBERED.fullmatch(name) for name in names)
    first: tuple[int, str, Header] | None = None
    nearest: tuple[int, str, Header] | None = None
    above: deque[str] = deque(maxlen=ABOVE)
    best = 0
    for _, (number, raw) in zip(range(HEADER_LINES), lines, strict=False):
        comment = raw.startswith(_COMMENT)
        line = raw.lstrip("#%/ \t") if comment else raw
        if not line.strip():
            continue
        # A rate that stands alone above the header is no row.
        numbers = not comment and _is_numbers(line) and (len(names) < 2 or len(re.split(r"[\s,;]+", line.strip())) > 1)
        if numbered and (numbers or (not comment and _has_mostly_numbers(line))):
            # Without a header: the first line has numbers already, and spaces may separate them.
            separator = next((each for each in "\t;," if each in line), None)
            count = len(split_cells(line, separator, number))
            return number, raw, Header([f"[{k}]" for k in range(count)], separator, missing=True)
        for separator in () if numbered else (*_separators(line), None):
            words = [word.strip() for word in split_cells(line, separator, number)]
            found = Header(words, separator, above=[_groups(each, separator, number) for each in above])
            known = sum(bool(_matches(found, name)) for name in names)
            if known == len(names):
                return number, raw, found
            if known > best:
                best, nearest = known, (number, raw, found)
        above.append(line)
        # What an error quotes: the line before the first numbers.
        if not comment and (first is None or not numbers):
            own = next(iter(_separators(line)), None)
            first = number, raw, Header([word.strip() for word in split_cells(line, own, number)], own)
        if numbers:
            break
    # The line that has some of the names is the header, and the others are wrong.
    first = nearest or first
    if first is None:
        raise InputError("has no header", place="line 1", hint="expected a line with the column names")
    return first


def _separators(line: str) -> list[str]:
    """Separators that occur in a line, the most frequent first; decimal commas do not occur in names."""
    return sorted((each for each in "\t;," if each in line), key=line.count, reverse=True)


def _groups(line: str, separator: str | None, number: int) -> list[str]:
    """Words above a header, each over all columns until the next one."""
    found: list[str] = []
    for word in split_cells(line, separator, number):
        found.append(word.strip() or (found[-1] if found else ""))
    return found


def _matches(head: Header, name: str) -> list[tuple[int, int | None]]:
    """Places of the columns with this name, and which item of their lists is meant; of those that have it with a unit,
    below a group ``group/name``, as a list or as the number of a column, if none has it as it is."""
    exact = _named(head.names, name)
    if exact:
        return [(k, None) for k in exact]
    *groups, own = name.split("/")
    places = _named(head.names, own) if groups else []
    if found := [k for k in places if all(_is_below(head.above, k, group) for group in groups)]:
        return [(k, None) for k in found]
    if _NUMBERED.fullmatch(name):
        return [(int(name[1:-1]), None)] if int(name[1:-1]) < len(head.names) else []
    part = _IN_LIST.fullmatch(name)
    return [] if part is None else [(k, int(part["item"])) for k in _named(head.names, part["stem"])]


def _named(header: Sequence[str], name: str) -> list[int]:
    """Places of the columns with this name; of those that have it with a unit if none has it as it is."""
    exact = [k for k, word in enumerate(header) if word == name]
    if exact:
        return exact
    parts = [(k, _WITH_UNIT.fullmatch(word)) for k, word in enumerate(header)]
    return [k for k, found in parts if found is not None and found["name"].strip() == name]


def _is_below(above: Sequence[Sequence[str]], place: int, group: str) -> bool:
    """Whether a line above a column has this word over it, also behind the name of its subject: ``robot:group``."""
    words = [row[place] for row in above if place < len(row)]
    return any(group in (word, word.rpartition(":")[2]) for word in words)


def _place(head: Header, name: str, line: str) -> tuple[int, int | None]:
    """The place of a column, and which item of its lists is meant."""
    found = _matches(head, name)
    if not found:
        hint = did_you_mean(name, _full_names(head))
        if _is_numbers(line) and not head.missing:
            hint = "the file has no header: expected '[0]' for its first column, '[1]' for its second"
        raise InputError("there is no such column", place=f"column {name!r}", hint=hint)
    if len(found) > 1:
        places = ", ".join(f"'[{k}]'" for k, _ in found[:3])
        hint = f"expected 'group/{name}' with a word that stands above it, or its number: {places}"
        times = "twice" if len(found) == 2 else f"{len(found)} times"
        raise InputError(f"occurs {times} in the header", place=f"column {name!r}", hint=hint)
    return found[0]


def _full_names(head: Header) -> Sequence[str]:
    """Names of the columns, with the words of a line above them where these tell all columns of one name apart."""
    for above in reversed(head.above):
        if len(above) == len(head.names):
            full = [f"{group}/{word}" if group else word for group, word in zip(above, head.names, strict=True)]
            if len({*full}) == len(full) > len({*head.names}):
                return full
    return head.names


def _list_item(cell: str, item: int, line: int, name: str) -> str:
    """A number of a list in a cell: ``[1, 0, 1]``, ``(0.5 0.1)``, ``array('d', [1.0])``."""
    inside = re.search(r"[\[(]([^\[\]()]*)[\])]", cell[cell.rfind("[") if "[" in cell else 0 :])
    if inside is None:
        if cell.lower() in _MISSING:
            return ""
        if _is_numbers(cell):
            stem = name.rpartition("[")[0]
            message = f"there is no such column: {stem!r} has single numbers, no lists"
            raise InputError(message, place=f"column {name!r}", hint=f"expected {stem!r}")
        raise InputError(f"{quote_text(cell)} is not a list", place=f"line {line}, column {name!r}")
    items = [each for each in re.split(r"[\s,;]+", inside[1].strip()) if each]
    if item >= len(items):
        raise InputError(f"its list has {len(items)} numbers", place=f"line {line}, column {name!r}")
    return items[item]


def _is_unit(text: str) -> bool:
    try:
        to_si(text)
    except InputError:
        return False
    return bool(text.strip())


def _unit_row(cells: Sequence[str], places: dict[str, int]) -> dict[str, str]:
    """Units by name if a row has units and no numbers, else nothing."""
    own = {name: cells[place].strip().strip("[]()") for name, place in places.items() if place < len(cells)}
    stated = {name: text for name, text in own.items() if text and text != "-"}
    return stated if stated and all(_is_unit(text) and not _is_numbers(text) for text in stated.values()) else {}


def _lines(file: TextIO) -> Iterator[tuple[int, str]]:
    """Lines with their numbers and ends, without empty ones; none longer than what one can hold in memory."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(LINE)
        except UnicodeError:
            raise InputError("is not UTF-8 text", place=f"line {number} or after", hint="save it as UTF-8") from None
        if not line:
            return
        if len(line) >= LINE:
            message, hint = f"is longer than {LINE} characters", "expected a table of numbers"
            raise InputError(message, place=f"line {number}", hint=hint)
        if line.strip():
            yield number, line


def text_lines(file: TextIO) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without comments and empty ones."""
    return ((number, line) for number, line in _lines(file) if not line.startswith("#"))


def _is_numbers(line: str) -> bool:
    """Whether a line has numbers only."""
    try:
        return bool([float(cell) for cell in re.split(r"[\s,;]+", line.strip()) if cell])
    except ValueError:
        return False


def _has_mostly_numbers(line: str) -> bool:
    """Whether more than half of a line's cells are numbers: remarks may stand beside them."""
    cells = [cell for cell in re.split(r"[\s,;]+", line.strip()) if cell]
    return sum(map(_is_numbers, cells)) > 0.5 * max(len(cells), 4)


def split_cells(line: str, separator: str | None, number: int) -> list[str]:
    """The cells of a line; without a separator, spaces separate them."""
    if separator is None:
        return line.split()
    try:
        return next(csv.reader([line.rstrip("\n")], delimiter=separator, skipinitialspace=True), [])
    except csv.Error as error:
        raise InputError(f"cannot be read as CSV: {error}", place=f"line {number}") from None


def parse_number(cell: str, line: int, name: str, separator: str | None = ",") -> float:
    """A number, NaN for a missing one, seconds for a time of day or a date."""
    try:
        # Python's own 1_000 and digits of other scripts are slips.
        if cell.isascii() and "_" not in cell:
            return float(cell) if cell else np.nan
    except ValueError:
        pass
    word = cell.lower()
    if word in _MISSING:
        return np.nan
    if word in _WORDS:
        return _WORDS[word]
    if separator != "," and cell.isascii() and _DECIMAL_COMMA.fullmatch(cell):
        return float(cell.replace(",", "."))
    if (clock := _CLOCK.fullmatch(cell)) is not None and cell.isascii():
        return 3600.0 * int(clock[1]) + 60.0 * int(clock[2]) + float(clock[3].replace(",", "."))
    if "-" in cell[1:] and ":" in cell and cell.isascii():
        try:
            when = datetime.fromisoformat(cell)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    hint = f"'{name}[0]' is the first number of a list" if cell[0] in "[(" else ""
    raise InputError(f"{quote_text(cell)} is not a number", place=f"line {line}, column {name!r}", hint=hint)
