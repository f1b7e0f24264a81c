"""What a study hands over: rows of numbers, the paper's beside them, and a certificate of the run.

A study returns a :class:`Result`; :func:`spacearm.report.write_result` makes a folder of it. ``results.json`` is
:meth:`Result.to_json`. This module imports nothing heavy, so that the command line can use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spacearm.errors import InputError
from spacearm.text_format import ROUNDING, format_quantity, html_table, humanise_name

if TYPE_CHECKING:
    import xarray

__all__ = ["Certificate", "Check", "Figure", "Limit", "Result", "Row", "Verdict"]

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class Verdict(StrEnum):
    """How a number stands to the paper's.

    ``agrees`` is for a reproduction: computed from other numbers than the one that it is compared with, and it could
    have failed. ``consistent`` is for arithmetic among the paper's own printed numbers. ``no evidence`` is for a
    statement that holds but could not have come out otherwise: it is true of every configuration, or it restates an
    input.
    """

    AGREES = "agrees"
    CONSISTENT = "consistent"
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
        words: the quantity as a reader would say it; made from its name where it is empty.
    """

    quantity: str
    value: Any = None
    unit: str = ""
    paper: Any = None
    source: str = ""
    verdict: Verdict = Verdict.NEW
    note: str = ""
    words: str = ""

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
        # A NaN compares false, and so differs.
        agrees = abs(value - paper) <= absolute + relative * abs(paper)
        if not agrees and not note:
            note = f"off by {value - paper:.3g} {unit}".rstrip()
        return cls(quantity, value, unit, paper, source, Verdict.AGREES if agrees else Verdict.DIFFERS, note)

    def to_json(self) -> dict[str, Json]:
        return {
            "quantity": self.quantity,
            "value": json_value(self.value),
            "unit": self.unit,
            "paper": json_value(self.paper),
            "source": self.source,
            "verdict": self.verdict.value,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A number of the certificate and how large it may be; it is sound when ``|value| <= tolerance``.

    One that does not apply, because there was nothing to compute, is :meth:`not_applicable`: its value is NaN, its note
    says why, and it is never shown as a check that passed.
    """

    value: float
    tolerance: float
    unit: str = ""
    note: str = ""
    applies: bool = True

    @classmethod
    def from_condition(cls, condition: bool, note: str) -> Check:
        """A check on a yes or no, such as whether a search converged: 0 is sound, 1 is not."""
        return cls(0.0 if condition else 1.0, 0.0, "", note)

    @classmethod
    def not_applicable(cls, why: str, tolerance: float = math.nan, unit: str = "") -> Check:
        """A check with nothing to look at; it does not make a run unsound."""
        return cls(math.nan, tolerance, unit, why, applies=False)

    @property
    def sound(self) -> bool:
        """False also for a NaN that was computed: such a residual certifies nothing."""
        return not self.applies or abs(self.value) <= self.tolerance

    @property
    def verdict(self) -> str:
        """``yes``, ``no`` or ``not applicable``."""
        if not self.applies:
            return NOT_APPLICABLE
        return "yes" if self.sound else "no"

    def worse_than(self, other: Check) -> bool:
        """Whether it comes nearer to its tolerance, or further beyond; a NaN that was computed is the worst of all."""
        # What was not computed is no evidence: any check that applies is worse.
        if not (self.applies and other.applies):
            return self.applies
        return abs(other.value) == abs(other.value) and not abs(self.value) <= abs(other.value)

    def to_json(self) -> dict[str, Json]:
        """``value`` and ``sound`` are null where the check does not apply."""
        return {
            "value": json_value(self.value) if self.applies else None,
            "tolerance": json_value(self.tolerance) if not math.isnan(self.tolerance) else None,
            "unit": self.unit,
            "sound": self.sound if self.applies else None,
            "note": self.note if self.applies else f"{NOT_APPLICABLE}: {self.note}",
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Check:
        tolerance = math.nan if table["tolerance"] is None else float(table["tolerance"])
        if table["value"] is None:
            return cls.not_applicable(str(table["note"]).removeprefix(f"{NOT_APPLICABLE}: "), tolerance, table["unit"])
        return cls(float(table["value"]), tolerance, table["unit"], table["note"])


#: How a check that has nothing to look at is shown.
NOT_APPLICABLE = "not applicable"

#: What a certificate is made of: checks, or tables of them.
Checks: TypeAlias = Check | Mapping[str, "Checks"]


def _distinct_digits(value: float, tolerance: float) -> tuple[str, str]:
    """Both in as few digits as tell them apart, three at least."""
    pairs = ((f"{value:.{digits}g}", f"{tolerance:.{digits}g}") for digits in range(3, 18))
    return next((pair for pair in pairs if pair[0] != pair[1]), (repr(value), repr(tolerance)))


class Certificate(Mapping[str, Check]):
    """Checks by name: residuals of conservation laws and constraints, convergence, comparisons with another engine.

    It is sound when every check is. Tables of checks are taken apart, their names joined by dots.
    """

    __slots__ = ("_checks",)

    def __init__(self, checks: Mapping[str, Checks] | None = None) -> None:
        self._checks = dict(_leaves(checks or {}))

    def __getitem__(self, name: str) -> Check:
        return self._checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._checks)

    def __len__(self) -> int:
        return len(self._checks)

    def __or__(self, other: Mapping[str, Checks]) -> Certificate:
        return Certificate({**self, **other})

    @classmethod
    def worst(cls, parts: Mapping[str, Mapping[str, Check]]) -> Certificate:
        """The certificate with the worst of each check of several; notes say whose, where there are several."""
        found: dict[str, tuple[str, Check]] = {}
        # By name: the same residual of all parts, whatever other checks each has.
        for whose, part in parts.items():
            for name, check in part.items():
                if name not in found or check.worse_than(found[name][1]):
                    found[name] = whose, check
        return cls(
            {
                name: replace(check, note=f"{check.note}; worst of {len(parts)}: {whose}")
                if check.applies and len(parts) > 1
                else check
                for name, (whose, check) in found.items()
            }
        )

    @property
    def sound(self) -> bool:
        return all(check.sound for check in self.values())

    @property
    def faults(self) -> list[str]:
        """Checks that fail, in words."""
        return [
            f"{name}: {check.note}"
            if (check.value, check.tolerance) == (1.0, 0.0)  # see Check.from_condition
            else f"{name} is {' '.join((shown[0], check.unit)).rstrip()} and exceeds its tolerance {shown[1]}"
            for name, check in self.items()
            if not check.sound and (shown := _distinct_digits(check.value, check.tolerance))
        ]

    def __repr__(self) -> str:
        return f"Certificate({'' if self.sound else 'NOT '}sound, {len(self)} checks)"

    def _repr_html_(self) -> str:
        rows = [(humanise_name(name), check.value, check.tolerance, check.verdict) for name, check in self.items()]
        return html_table(("check", "value", "tolerance", "sound"), rows)

    def to_json(self) -> dict[str, Json]:
        return {"sound": self.sound, **{name: check.to_json() for name, check in self.items()}}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Certificate:
        return cls({name: Check.from_json(entry) for name, entry in table.items() if name != "sound"})

    def __str__(self) -> str:
        return "; ".join(
            f"{name} {check.value:.2e} ({'within' if check.sound else 'EXCEEDS'} {check.tolerance:.0e})"
            if check.applies
            else f"{name} {check.verdict}"
            for name, check in self.items()
        )


def _leaves(table: Mapping[str, Checks], prefix: str = "") -> Iterator[tuple[str, Check]]:
    for key, value in table.items():
        if isinstance(value, Check):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            raise InputError(
                f"{prefix}{key} is {type(value).__name__}",
                place="certificate",
                hint="expected a Check; what is only reported goes into the settings or the note of a check",
            )


#: A limit is broken where its use exceeds it by more than this share: rounding of a file in degrees.
LIMIT_SLACK = 1e-9
#: Revolutions in a minute, rpm, for a rate of 1 rad/s.
RPM = 30.0 / math.pi
#: Units in which pages show limits on angles, and how many of them one is.
_SHOWN = {"rad": (180.0 / math.pi, "deg"), "rad/s": (180.0 / math.pi, "deg/s")}
#: How limits are told.
LimitKind: TypeAlias = Literal["", "stop", "wheel"]


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that must not be exceeded and how much of it was used; or, with ``least``, what must be kept.

    Args:
        name: what is limited, for example ``range``, or how it fails, for example ``wheel saturated``.
        used, limit: the most that was used (the least that was kept) and the limit, in ``unit``.
        what: whose limit it is, for example a joint.
        time: s, when it was broken first or, where it was met, when it was nearest.
        share: whether it is reported as a share of what ``what`` has: *joint3 at 215 % of its range*.
        kind: ``stop``: of a joint between stops, told as its distance to the nearer one, which is ``limit - used``;
            ``wheel``: of a wheel's speed, told in rpm.
    """

    name: str
    used: float
    limit: float
    unit: str = ""
    what: str = ""
    least: bool = False
    time: float | None = None
    share: bool = False
    kind: LimitKind = ""

    @property
    def margin(self) -> float:
        """The rest up to the limit, as a share of it; below zero it was exceeded."""
        return (self.limit - self.used) / self.limit * (-1.0 if self.least else 1.0)

    @property
    def is_broken(self) -> bool:
        """True also for a use that is NaN: nothing shows that such a limit was met."""
        return not self.margin >= -LIMIT_SLACK

    @property
    def words(self) -> str:
        when = "" if self.time is None else f" at {self.time:.3g} s"
        if self.share:
            share = 100.0 * self.used / self.limit
            text = "just over 100" if self.is_broken and share < 100.5 else f"{share:.0f}"
            return f"{self.what} at {text} % of its {self.name}{when}"
        whose, of = f" of {self.what}" if self.what else "", "at least" if self.least else "at most"
        used, limit, unit = self.page_values
        if self.kind == "stop":
            place = f"{abs(used):.4g} {unit} beyond its stop" if self.is_broken else f"{used:.4g} {unit} from its stop"
            return f"{self.name}{whose}: {place}{when}"
        return f"{self.name}{whose}: {f'{used:.4g} {unit}'.rstrip()}, {of} {limit:.4g}{when}"

    @property
    def page_values(self) -> tuple[float, float, str]:
        """Use, limit and unit on pages: angles in degrees, wheels in rpm, of joints the room to the nearer stop."""
        scale, unit = _SHOWN.get(self.unit, (1.0, self.unit)) if self.kind != "wheel" else (RPM, "rpm")
        if (self.kind, self.unit) == ("stop", "m"):
            scale, unit = 1e3, "mm"  # as figures show how far joints slide
        used, limit = (self.limit - self.used, 0.0) if self.kind == "stop" else (self.used, self.limit)
        return (0.0 if abs(used) < ROUNDING else scale * used), scale * limit, unit

    @property
    def is_least(self) -> bool:
        """Whether what is shown must be at least the limit that is shown."""
        return self.least or self.kind == "stop"

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "what": self.what,
            "used": json_value(self.used),
            "limit": json_value(self.limit),
            "unit": self.unit,
            "least": self.least,
            "share": self.share,
            "kind": self.kind,
            "margin": json_value(self.margin),
            "time": self.time,
            "broken": self.is_broken,
            "words": self.words,
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Limit:
        return cls(
            str(table["name"]),
            float(table["used"]),
            float(table["limit"]),
            str(table["unit"]),
            str(table["what"]),
            bool(table["least"]),
            None if table["time"] is None else float(table["time"]),
            bool(table["share"]),
            table["kind"] if table.get("kind") in ("stop", "wheel") else "",
        )


#: Said below a figure with more curves than can be told apart.
MORE_CURVES = "Names in grey: click them to see their curves."


@dataclass(frozen=True, slots=True)
class Figure:
    """A Plotly figure with a file name (letters, digits, ``-``, ``_``) and a caption in one or two sentences."""

    name: str
    plot: Any
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.name or not all(c.isalnum() or c in "-_" for c in self.name) or not self.name.isascii():
            raise InputError(f"{self.name!r} is not a name for a figure", hint="expected letters, digits, '-' and '_'")
        if hasattr(self.plot, "data"):
            from spacearm.figures import keep_readable

            if keep_readable(self.plot) and MORE_CURVES not in self.caption:
                object.__setattr__(self, "caption", f"{self.caption} {MORE_CURVES}".strip())

    def save(self, path: Path | str) -> Path:
        """Write it as .svg, .pdf or .png, without a browser (``pip install 'spacearm[figures]'``)."""
        from spacearm.figure_files import save_figure

        return save_figure(self.plot, path)

    def _repr_html_(self) -> str:
        return Figures([self])._repr_html_()


class Figures(tuple[Figure, ...]):
    """Figures in the order in which they are to be read; a notebook shows all of them, without a network."""

    __slots__ = ()

    def __new__(cls, figures: Iterable[Figure] = ()) -> Figures:
        return super().__new__(cls, figures)

    def __repr__(self) -> str:
        return f"Figures({', '.join(figure.name for figure in self)})"

    def _repr_html_(self) -> str:
        from spacearm.figures import figures_html

        return figures_html([(figure.plot, figure.caption or figure.name) for figure in self])


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """A figure of a paper, and where it is here.

    Args:
        label: as the paper has it, for example ``Fig. 6 (a)``.
        shows: what it shows.
        here: names of our figures that show it.
        why: what differs in them, or why there is none.
    """

    label: str
    shows: str
    here: Sequence[str] = ()
    why: str = ""

    def __post_init__(self) -> None:
        if not (self.here or self.why):
            raise InputError("neither our figure nor a reason is given", place=self.label, hint="give 'here' or 'why'")


def figure_name(text: str) -> str:
    """A name of a figure from any text."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)


#: Names in a folder of results that no further file may have.
#: Rows of a result that a notebook shows.
SHOWN_ROWS = 20
_RESERVED = ("results.json", "data.nc", "index.html", "scene.html", "figures", "plotly.min.js")


@dataclass(frozen=True)
class Result:
    """What a study found.

    Args:
        study: short name, as in ``spacearm reproduce NAME``.
        rows: the table of agreement.
        certificate: the checks that decide whether the run is sound: numerics, not engineering.
        limits: what must not be exceeded, the worst first; they decide the :attr:`verdict`, whatever is sound.
        go: whether the limits decide on a go, as those of a mission do; see :attr:`decision`.
        undecided: why they do not, though the numbers are sound: a margin is smaller than the doubt of the model.
        settings: what was chosen: steps, tolerances, seeds, the robot.
        data: the curves, with named dimensions and units as attributes (``data.nc``).
        figures: in the order in which they are to be read.
        title: one line; ``study`` when empty.
        headline: what was found, in one sentence.
        summary: a few sentences on it, blank lines between paragraphs.
        leading: how many of the first figures carry the message; on the page they stand before the tables.
        scene: a 3-D scene (:class:`spacearm.scene.Scene`), for the head of the page and ``spacearm view``.
        source: name of the file that it was made from, for the page.
        printed_figures: the figures of the paper, each with ours that shows it, or why none does.
        files: further text files for the folder, by name: an identified robot, a table for a spreadsheet.
    """

    study: str
    rows: Sequence[Row] = ()
    certificate: Certificate = field(default_factory=Certificate)
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: xarray.Dataset | None = None
    figures: Sequence[Figure] = ()
    title: str = ""
    summary: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    leading: int = 3
    scene: Any = None
    printed_figures: Sequence[PrintedFigure] = ()
    limits: Sequence[Limit] = ()
    source: str = ""
    go: bool = False
    undecided: str = ""

    def __post_init__(self) -> None:
        for name in self.files:
            if name != Path(name).name or name in _RESERVED:
                raise InputError(f"{name!r} is not a name for a further file", place=f"study {self.study!r}")
        object.__setattr__(self, "certificate", Certificate(self.certificate))  # a plain table of checks will do
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "figures", Figures(self.figures))
        object.__setattr__(self, "limits", tuple(self.limits))
        for what, names in (
            ("quantity", [row.quantity for row in self.rows]),
            ("figure", [figure.name for figure in self.figures]),
            ("printed figure", [figure.label for figure in self.printed_figures]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"two rows have the {what} {twice[0]!r}", place=f"study {self.study!r}")
        known = {figure.name for figure in self.figures}
        for printed in self.printed_figures:
            missing = [name for name in printed.here if name not in known]
            if missing:
                raise InputError(f"there is no figure {missing[0]!r}", place=f"study {self.study!r}, {printed.label}")

    def __repr__(self) -> str:
        parts = (self.study, f"{len(self.rows)} rows", f"{len(self.figures)} figures")
        return f"Result({', '.join(parts)}, {self.state})"

    def _repr_html_(self) -> str:
        """For a notebook: headline and first rows; :func:`spacearm.report.write_result` writes the whole page."""
        rows = [
            (
                row.words or humanise_name(row.quantity),
                *format_quantity(row.value, row.unit),
                *((row.paper, row.verdict.value) * self.has_paper),
            )
            for row in self.rows[:SHOWN_ROWS]
        ]
        head = ("quantity", "value", "unit", *(("paper", "verdict") * self.has_paper))
        left = len(self.rows) - len(rows)
        remark = " ".join(
            part for part in (self.headline, f"({self.state}{f'; {left} more rows' if left else ''})") if part
        )
        return f"<h4>{escape(self.title or self.study)}</h4>" + html_table(head, rows, remark)

    @property
    def sound(self) -> bool:
        """Whether every check of the certificate holds, whatever the paper says."""
        return self.certificate.sound

    @property
    def limits_broken(self) -> tuple[Limit, ...]:
        """Limits that were exceeded, the worst first; a run can be sound and break them."""
        return tuple(limit for limit in self.limits if limit.is_broken)

    @property
    def verdict(self) -> str:
        """``limits limits_broken``, ``limits met`` or ``no limits``: what an engineer asks, whatever the numerics
        are."""
        if not self.limits:
            return "no limits"
        return "limits broken" if self.limits_broken else "limits met"

    @property
    def decision(self) -> str:
        """``GO``, ``NO GO``, or ``UNDECIDED`` where numbers that are not sound, or in doubt, can show neither; empty
        where no go is decided on."""
        if not self.go:
            return ""
        if not self.sound or self.undecided:
            return "UNDECIDED"
        return "NO GO" if self.limits_broken else "GO"

    @property
    def verdict_words(self) -> str:
        """The verdict with the worst limit: which, by how much, when."""
        if not self.limits_broken:
            return f"{self.verdict}; nearest: {self.limits[0].words}" if self.limits else self.verdict
        more = f"; {len(self.limits_broken) - 1} more" if len(self.limits_broken) > 1 else ""
        return f"LIMITS BROKEN: {self.limits_broken[0].words}{more}"

    @property
    def state(self) -> str:
        """Verdict and soundness in a few words, what is bad first."""
        sound = ("sound" if self.sound else "NOT SOUND") if self.certificate else "no certificate"
        if self.limits_broken:
            words = f"{self.verdict_words}; numerics {sound}"
        else:
            words = f"{sound}; {self.verdict_words}" if self.limits else sound
        return f"UNDECIDED; {words}" if self.undecided else words

    @property
    def has_paper(self) -> bool:
        """Whether any row is compared with a paper; a plain run in time has none."""
        return any(row.verdict is not Verdict.NEW for row in self.rows)

    def first_rows(self, count: int) -> list[Row]:
        """So many rows, those that matter most: what differs from a paper, then what agrees; else of each part of the
        results the first, in the order of the table.
        """
        if self.has_paper:
            order = [Verdict.DIFFERS, Verdict.AGREES, *Verdict]
            return sorted(self.rows, key=lambda row: order.index(row.verdict))[:count]
        seen: dict[str, int] = {}
        places = []
        for k, row in enumerate(self.rows):
            part = row.quantity.partition(".")[0]
            places.append((seen.setdefault(part, 0), k))
            seen[part] += 1
        return [self.rows[k] for _, k in sorted(sorted(places)[:count], key=lambda place: place[1])]

    def counts(self) -> dict[Verdict, int]:
        """Number of rows with each verdict; verdicts without a row are left out."""
        counts = {verdict: sum(row.verdict is verdict for row in self.rows) for verdict in Verdict}
        return {verdict: number for verdict, number in counts.items() if number}

    def to_json(self) -> dict[str, Json]:
        """The contents of ``results.json``: plain values only, NaN and infinities as text."""
        from spacearm import __version__

        return {
            "study": self.study,
            "version": __version__,
            "rows": [row.to_json() for row in self.rows],
            "verdict": {
                "limits": self.verdict,
                "words": self.verdict_words,
                "each": json_value(self.limits),
                **({"decision": self.decision} if self.go else {}),
                **({"undecided": self.undecided} if self.undecided else {}),
            },
            "certificate": json_value(self.certificate),
            "settings": json_value(self.settings),
        }


def json_value(value: Any) -> Json:
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
        return json_value(value.to_json())
    if isinstance(value, Mapping):
        return {str(key): json_value(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):  # NumPy scalars and arrays, without importing NumPy
        return json_value(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [json_value(entry) for entry in value]
    raise InputError(
        f"{type(value).__name__} has no place in results.json", hint="expected numbers, text, lists, tables"
    )
