"""Numbers, names and small tables as a reader wants them: for pages, the terminal and notebooks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

#: Longest list that is written out in a table; a longer one is named by its size.
LONGEST_LIST = 8
#: Significant digits of a number in a table.
DIGITS = 5
#: What is smaller is shown as zero in tables of results: rounding of numbers of the size of one.
ROUNDING = 1e-12
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NUMBERED = re.compile(r"\b(attitude|body|case|conclusion|damping|joint|link|mass|phase|table|test)(\d)")
#: Parts of names that are spelt out everywhere.
SPELT = {"sd": "standard deviation", "rms": "root mean square", "chi2": "χ²", "max": "largest", "min": "smallest"}
#: A symbol of one letter with a subscript; names such as rotation_y have longer stems.
_SYMBOL = re.compile(r"(?<![\w.{])([A-Za-z])_([A-Za-z0-9]{1,2})(?!\w|\.\w)")
#: Endings of the names of settings, with their units.
_UNITS = {
    "Nms_per_rad": "N m s/rad", "deg_s2": "deg/s²", "rad_s": "rad/s", "m_s": "m/s", "deg": "deg", "kg": "kg",
    "Hz": "Hz", "Nm": "N m", "rad": "rad", "s": "s", "m": "m", "N": "N",
}  # fmt: skip


def format_value(value: Any, rounding: float = 0.0) -> str:
    """A value as text: five digits, a true minus, powers of ten, short lists written out; below ``rounding``, zero."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if hasattr(value, "tolist"):
        return format_value(value.tolist(), rounding)
    if isinstance(value, float):
        return "0" if abs(value) < rounding else format_number(value)
    if isinstance(value, list | tuple):
        if len(value) > LONGEST_LIST:
            return f"{len(value)} values"
        return "(" + ", ".join(format_value(entry, rounding) for entry in value) + ")"
    return str(value)


def format_number(value: float, digits: int = DIGITS) -> str:
    """A number with so many significant digits, such as 0.12346 or −1.5×10⁻¹²."""
    if not math.isfinite(value):
        return str(value)
    whole = digits <= math.log10(abs(value) or 1.0) < 7  # a whole number keeps its digits
    text = f"{value:.0f}" if whole else f"{value:.{digits}g}"
    if "e" not in text:
        return text.replace("-", "\N{MINUS SIGN}")
    mantissa, exponent = text.split("e")
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{str(int(exponent)).translate(_SUPERSCRIPTS)}".replace(
        "-", "\N{MINUS SIGN}"
    )


def format_uncertain(value: float, deviation: float) -> str:
    """A value with its standard deviation, both to the deviation's second digit: 103.0021 ± 0.0028."""
    if not 0.0 < deviation < math.inf:
        return format_number(value)
    places = 1 - math.floor(math.log10(deviation))
    if not 0 <= places <= DIGITS:
        return f"{format_number(value, 2 * DIGITS)} ± {format_number(deviation, 2)}"
    return f"{value:.{places}f} ± {deviation:.{places}f}".replace("-", "\N{MINUS SIGN}")


def format_result(value: Any) -> str:
    """A value as text, as :func:`format_value` writes it, with rounding about zero as zero."""
    return format_value(value, ROUNDING)


def format_percent(relative: float) -> str:
    """A relative difference in words: 12 %, or a dash where there is none to state."""
    return f"{format_number(100.0 * relative, 3)} %" if math.isfinite(relative) else "\N{EN DASH}"


def format_quantity(value: Any, unit_text: str = "") -> tuple[str, str]:
    """A value and its unit as a table has them: what takes for ever is *never*, what has no end is *unbounded*."""
    if isinstance(value, float) and math.isinf(value):
        return ("never" if unit_text == "s" and value > 0.0 else "unbounded"), ""
    return format_result(value), format_unit(unit_text)


def humanise_name(name: str, parts: Mapping[str, str] | None = None) -> str:
    """A dotted name as words: ``virtual_mass.free.peak`` is *Virtual mass, free, peak*.

    ``parts`` has words for parts of names, or for several parts joined by dots; an empty text leaves them out.
    """
    known, words, rest = {**SPELT, **(parts or {})}, [], name.split(".")
    while rest:
        size = next((n for n in range(len(rest), 0, -1) if ".".join(rest[:n]) in known), 1)
        found = ".".join(rest[:size])
        words.append(known.get(found, _NUMBERED.sub(r"\1 \2", found.replace("_", " "))))
        rest = rest[size:]
    text = ", ".join(word for word in words if word) or name
    return text[:1].upper() + text[1:]


def label_setting(name: str) -> tuple[str, str]:
    """The name of a setting in words, and its unit, which stands behind the name: ``stroke_m``, ``duration [s]``."""
    bracket = re.fullmatch(r"(.*) \[(.*)\]", name)
    if bracket:
        return humanise_name(bracket[1]), bracket[2]
    stem, _, last = name.rpartition(".")
    for ending, unit in _UNITS.items():
        if last.endswith(f"_{ending}"):
            last = last.removesuffix(f"_{ending}")
            return humanise_name(f"{stem}.{last}" if stem else last), unit
    return humanise_name(name), ""


def format_unit(text: str) -> str:
    """A unit with its powers raised: ``kg m2`` is kg m²."""
    return re.sub(r"(?<=[a-z])(-?\d)", lambda found: found[1].translate(_SUPERSCRIPTS), "" if text == "1" else text)


def mathematics_html(text: str) -> str:
    """Text as HTML: symbols of one letter with a subscript, such as m_i or J_A, are set as such."""
    return _SYMBOL.sub(r"<i>\1</i><sub>\2</sub>", escape(text))


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A small table for a notebook."""
    line = "<tr>{}</tr>".format
    top = line("".join(f"<th>{escape(name)}</th>" for name in head))
    body = "".join(line("".join(f"<td>{escape(format_result(cell))}</td>" for cell in row)) for row in rows)
    above = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{above}<thead>{top}</thead><tbody>{body}</tbody></table>"
