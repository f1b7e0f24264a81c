"""What a study hands over: rows of numbers, the paper's beside them, and a certificate of the run.

A study returns a :class:`Result`; :func:`spacearm.report.write_result` makes a folder of it. ``results.json`` is
:meth:`Result.to_json`. This module imports nothing heavy, so that the command line can use it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from spacearm.errors import InputError

if TYPE_CHECKING:
    import xarray

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class Verdict(StrEnum):
    """How a number stands to the paper's.

    ``no evidence`` is for a statement that holds but could not have come out otherwise: it is true of every
    configuration, or it restates an input. Only what could have failed ``agrees``.
    """

    AGREES = "agrees"
    NO_EVIDENCE = "no evidence"
    DIFFERS = "differs"
    FITTED = "fitted"
    NOT_RECOVERABLE = "not recoverable"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity: ours, the paper's, and how they compare.

    Args:
        quantity: a dotted name, for example ``virtual_mass.fixed.peak``.
        value: what was computed here; None when nothing could be.
        unit: of ``value`` and ``paper``; empty for a pure number or text.
        paper: what the paper states; None when it states nothing.
        source: where it states it, for example ``Sec. 6`` or ``Table 4``.
        verdict: how they compare; ``new`` when the paper has no such number.
        note: the reason of a difference, what is missing, or why the row could not have failed.
    """

    quantity: str
    value: Any = None
    unit: str = ""
    paper: Any = None
    source: str = ""
    verdict: Verdict = Verdict.NEW
    note: str = ""

    def __post_init__(self) -> None:
        if not self.quantity:
            raise InputError("a row has no quantity", hint="expected a dotted name")
        try:
            object.__setattr__(self, "verdict", Verdict(self.verdict))
        except ValueError:
            raise InputError(
                f"verdict is {self.verdict!r}",
                place=f"row {self.quantity!r}",
                hint="expected one of " + ", ".join(verdict.value for verdict in Verdict),
            ) from None
        if self.verdict not in (Verdict.NEW, Verdict.NOT_RECOVERABLE) and self.paper is None:
            raise InputError(
                f"verdict is {self.verdict.value!r} but the paper's value is missing",
                place=f"row {self.quantity!r}",
                hint="a number that the paper does not have is 'new'",
            )
        if self.verdict in (Verdict.NO_EVIDENCE, Verdict.DIFFERS, Verdict.NOT_RECOVERABLE) and not self.note:
            raise InputError(
                f"verdict is {self.verdict.value!r} without a reason",
                place=f"row {self.quantity!r}",
                hint="give it as the note",
            )

    @classmethod
    def compare(
        cls,
        quantity: str,
        value: float,
        paper: float,
        *,
        unit: str = "",
        source: str = "",
        absolute: float = 0.0,
        relative: float = 0.0,
        note: str = "",
    ) -> Row:
        """A row whose verdict follows from a tolerance: ``|value - paper| <= absolute + relative * |paper|``."""
        agrees = abs(value - paper) <= absolute + relative * abs(paper)
        if not agrees and not note:
            note = f"off by {value - paper:.3g} {unit}".rstrip()
        return cls(quantity, value, unit, paper, source, Verdict.AGREES if agrees else Verdict.DIFFERS, note)

    @classmethod
    def claim(cls, quantity: str, value: Any, paper: Any, source: str, holds: bool, note: str, unit: str = "") -> Row:
        """A row for a claim that could have failed: ``agrees`` when it holds, else ``differs``, the note the reason."""
        return cls(quantity, value, unit, paper, source, Verdict.AGREES if holds else Verdict.DIFFERS, note)

    def to_json(self) -> dict[str, Json]:
        return {
            "quantity": self.quantity,
            "value": plain(self.value),
            "unit": self.unit,
            "paper": plain(self.paper),
            "source": self.source,
            "verdict": self.verdict.value,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A number of the certificate and how large it may be; it holds when ``|value| <= tolerance``.

    One that does not apply, because there was nothing to compute, is :meth:`not_applicable`: its value is NaN, its note
    says why, and it is never shown as a check that passed.
    """

    value: float
    tolerance: float
    unit: str = ""
    note: str = ""
    applies: bool = True

    @classmethod
    def not_applicable(cls, why: str, tolerance: float = math.nan, unit: str = "") -> Check:
        """A check with nothing to look at; it does not make a run unsound."""
        return cls(math.nan, tolerance, unit, why, applies=False)

    @property
    def holds(self) -> bool:
        """False also for a NaN that was computed: such a residual certifies nothing."""
        return not self.applies or abs(self.value) <= self.tolerance

    @property
    def verdict(self) -> str:
        """``yes``, ``no`` or ``not applicable``."""
        if not self.applies:
            return NOT_APPLICABLE
        return "yes" if self.holds else "no"

    def to_json(self) -> dict[str, Json]:
        """``value`` and ``holds`` are null where the check does not apply."""
        return {
            "value": plain(self.value) if self.applies else None,
            "tolerance": plain(self.tolerance) if not math.isnan(self.tolerance) else None,
            "unit": self.unit,
            "holds": self.holds if self.applies else None,
            "note": self.note if self.applies else f"{NOT_APPLICABLE}: {self.note}",
        }


#: How a check that has nothing to look at is shown.
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Figure:
    """A Plotly figure with a file name (letters, digits, ``-``, ``_``) and a caption in one or two sentences."""

    name: str
    plot: Any
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.name or not all(c.isalnum() or c in "-_" for c in self.name) or not self.name.isascii():
            raise InputError(f"{self.name!r} is no name for a figure", hint="expected letters, digits, '-' and '_'")


@dataclass(frozen=True)
class Result:
    """What a study found.

    Args:
        study: short name, as in ``spacearm reproduce NAME``.
        rows: the table of agreement.
        certificate: residuals of the conservation laws and constraints. A :class:`Check`, or a table with ``value``
            and ``tolerance``, decides whether the run is sound; so does a plain entry ``sound``, ``ok`` or ``holds``,
            at any depth. Other entries are shown as they are.
        settings: what was chosen: steps, tolerances, seeds, the robot.
        data: the curves, with named dimensions and units as attributes (``data.nc``).
        figures: in the order in which they are to be read.
        title: one line; ``study`` when empty.
        summary: a few sentences for the head of the page, blank lines between paragraphs.
        files: further text files for the folder, by name: an identified robot, a table for a spreadsheet.
    """

    study: str
    rows: Sequence[Row] = ()
    certificate: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: xarray.Dataset | None = None
    figures: Sequence[Figure] = ()
    title: str = ""
    summary: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.files:
            if name != Path(name).name or name in ("results.json", "data.nc", "index.html", "figures", "plotly.min.js"):
                raise InputError(f"{name!r} is no name for a further file", place=f"study {self.study!r}")
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "figures", tuple(self.figures))
        for what, names in (
            ("quantity", [row.quantity for row in self.rows]),
            ("figure", [figure.name for figure in self.figures]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"two rows have the {what} {twice[0]!r}", place=f"study {self.study!r}")

    @property
    def sound(self) -> bool:
        """Whether every check of the certificate holds, whatever the paper says."""
        return _sound(self.certificate)

    @property
    def has_paper(self) -> bool:
        """Whether any row is compared with a paper; a plain run in time has none."""
        return any(row.verdict is not Verdict.NEW for row in self.rows)

    def counts(self) -> dict[Verdict, int]:
        """How many rows have each verdict; verdicts without a row are left out."""
        counts = {verdict: sum(row.verdict is verdict for row in self.rows) for verdict in Verdict}
        return {verdict: number for verdict, number in counts.items() if number}

    def to_json(self) -> dict[str, Json]:
        """The contents of ``results.json``: plain values only, NaN and infinities as text."""
        from spacearm import __version__

        certificate = plain(self.certificate)
        assert isinstance(certificate, dict)
        return {
            "study": self.study,
            "version": __version__,
            "rows": [row.to_json() for row in self.rows],
            "certificate": {**certificate, "sound": self.sound},
            "settings": plain(self.settings),
        }


#: Entries of a certificate by which a part of it says that it does not hold.
FLAGS = ("sound", "ok", "holds")


def as_check(entry: Any) -> Check | None:
    """A certificate's entry as a check, when it is one or a table that reads like one."""
    if isinstance(entry, Check):
        return entry
    if isinstance(entry, Mapping) and {"value", "tolerance"} <= entry.keys():
        note = str(entry.get("note") or entry.get("meaning") or "")
        if entry["value"] is None:
            tolerance = entry["tolerance"]
            why = note.removeprefix(f"{NOT_APPLICABLE}: ")
            return Check.not_applicable(why, math.nan if tolerance is None else float(tolerance))
        return Check(float(entry["value"]), float(entry["tolerance"]), str(entry.get("unit", "")), note)
    return None


def _sound(entry: Any) -> bool:
    check = as_check(entry)
    if check is not None and not check.holds:
        return False
    if isinstance(entry, Mapping):
        said = all(entry.get(flag) is None or bool(entry[flag]) for flag in FLAGS)
        return said and all(_sound(value) for value in entry.values())
    if isinstance(entry, Iterable) and not isinstance(entry, str | bytes):
        return all(_sound(value) for value in entry)
    return True


def plain(value: Any) -> Json:
    """``value`` as strict JSON can hold it.

    Numbers that JSON lacks become the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    NumPy scalars and arrays, sequences, mappings, paths, enumerations, and objects with a ``to_json`` are understood;
    anything else is an :class:`InputError` and not silently turned into text.
    """
    if isinstance(value, StrEnum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return float(value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):  # NumPy scalars and arrays, without importing NumPy
        return plain(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(entry) for entry in value]
    raise InputError(
        f"{type(value).__name__} has no place in results.json", hint="expected numbers, text, lists, tables"
    )
