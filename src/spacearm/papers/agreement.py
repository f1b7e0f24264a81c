"""The table of agreement with a paper: claims as data, findings as values, one rule for every verdict.

A paper's folder has TOML files beside its modules: ``printed.toml``, what the paper prints, in its own units;
``claims.toml``, one entry for each quantity of the table of agreement; ``page.toml``, what else its page says: title,
summary, captions, settings, checks, and which figure of the paper is which here. A claim is named by its quantity;
braces stand for what differs between the rows of a family::

    ["virtual_mass.{case}.peak"]
    printed = 3.0                    # what the paper states, a number or words; left out if it states nothing
    unit = "kg"
    source = "Sec. 6"                # where it states it
    tolerance = 0.05                 # the claim holds within it ...
    why = "one decimal is printed"   # ... for this reason
    basis = "printed"                # what it is computed from: the paper's printed numbers alone, or "runs" (default)
    note = "largest of {count} directions"

The verdict of a claim that holds follows from its basis: *consistent* for arithmetic among the paper's own numbers,
*agrees* for what was computed from others. ``verdict`` puts *fitted*, *no evidence* or *not recoverable* there;
neither of the two may be set by hand. A claim that does not hold *differs*. What has the basis ``printed`` is
found by ``arithmetic`` of the paper's ``claims.py``, a function without arguments that therefore sees no run.

A claim holds within ``tolerance`` plus ``relative`` times the printed value (with ``same_sign``, on the same side of
zero only), or between ``above`` and ``below``, or as the finding says. Without any of these, ``agrees``,
``consistent`` and ``fitted`` ask for the printed value itself; ``no evidence``, ``not recoverable`` and ``new``
(nothing printed) ask for nothing.
Notes are filled from the finding's facts; ``differs`` replaces the note of a row that differs, and ``also`` has further
remarks by name.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.result import Check, Figure, PrintedFigure, Row, Verdict
from spacearm.text_format import humanise_name

_ASKS_FOR_EQUALITY = (Verdict.AGREES, Verdict.CONSISTENT, Verdict.FITTED)
#: What a claim is computed from, and the verdict of one that holds.
BASES = {"runs": Verdict.AGREES, "printed": Verdict.CONSISTENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An entry of ``claims.toml``."""

    unit: str = ""
    printed: Any = None
    source: str = ""
    verdict: str = ""
    basis: str = "runs"
    tolerance: float | None = None
    relative: float | None = None
    above: float = -math.inf
    below: float = math.inf
    same_sign: bool = False
    why: str = ""
    note: str = ""
    differs: str = ""
    also: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise InputError(f"basis is {self.basis!r}", hint="expected " + " or ".join(map(repr, BASES)))
        if self.verdict in BASES.values():
            raise InputError(
                f"verdict is {self.verdict!r}", hint="it follows from what the claim is computed from: give the basis"
            )

    def allowed_difference(self) -> float:
        """Largest allowed difference from the printed value."""
        return (self.tolerance or 0.0) + (self.relative * abs(self.printed) if self.relative else 0.0)

    def sign(self, value: float) -> str:
        """What to say of a value that must have the printed one's sign and has not."""
        if not self.same_sign or value * self.printed > 0.0:
            return ""
        return ", but not the paper's sign" if value else ", but the paper has it move"

    def holds(self, value: Any) -> bool:
        """Whether a value passes the claim's test; one without a test passes."""
        # Bounds first: a claim such as "less than half" has a printed text and no number to be near to.
        if math.isfinite(self.above) or math.isfinite(self.below):
            return bool(self.above < value < self.below)
        if self.tolerance is not None or self.relative is not None:
            return bool(abs(value - self.printed) <= self.allowed_difference()) and not self.sign(value)
        # No test given: equality for what claims to agree, nothing for what claims nothing.
        return self.verdict_if_met not in _ASKS_FOR_EQUALITY or bool(value == self.printed)

    @property
    def verdict_if_met(self) -> Verdict:
        """The verdict when it holds."""
        return Verdict(self.verdict or (Verdict.NEW if self.printed is None else BASES[self.basis]))

    @property
    def limit(self) -> str:
        """The tolerance in words."""
        return f"{100.0 * self.relative:g} %" if self.relative else f"{self.tolerance:g} {self.unit}".rstrip()

    def facts(self, value: Any) -> dict[str, Any]:
        """Facts for notes: the value beside the printed one."""
        found: dict[str, Any] = {"value": value, "printed": self.printed, "unit": self.unit}
        if isinstance(value, int | float) and isinstance(self.printed, int | float):
            found |= {"gap": value - self.printed, "allowed": self.allowed_difference(), "sign": self.sign(value)}
            found["percent"] = 100.0 * abs(found["gap"] / self.printed) if self.printed else math.nan
        if self.tolerance is not None or self.relative is not None:
            found["limit"] = self.limit
        return found


@dataclass(frozen=True, slots=True)
class Finding:
    """What was computed for a claim.

    Args:
        claim: its name in ``claims.toml``, braces and all.
        value: ours; None when nothing could be computed.
        holds: whether the claim holds, where its tolerance or bounds do not say so.
        cannot_fail: it would have held in any case, so that it is no evidence.
        also: names of the claim's further remarks that apply.
        own: fields of the claim that are others in this row, such as ``printed`` or ``unit``.
        facts: what the braces of name and notes stand for.
    """

    claim: str
    value: Any = None
    holds: bool | None = None
    cannot_fail: bool = False
    also: tuple[str, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def build_finding(claim: str, value: Any = None, /, **given: Any) -> Finding:
    """A :class:`Finding`; what is given is a field of it, a field of :class:`Claim` (its own), or a fact."""
    remark = {name: given.pop(name) for name in ("holds", "cannot_fail") if name in given}
    also = tuple(given.pop("also", ()))
    own = {name: given.pop(name) for name in Claim.__dataclass_fields__ if name in given}
    return Finding(claim, value, also=also, own=own, facts=given, **remark)


@cache
def read_paper_file(paper: str, file: str = "printed") -> dict[str, Any]:
    """A TOML file of a paper's folder."""
    return tomllib.loads((files("spacearm.papers") / paper / f"{file}.toml").read_text(encoding="utf-8"))


@cache
def claims(paper: str) -> dict[str, Claim]:
    """The entries of a paper's ``claims.toml``."""
    return {name: Claim(**entry) for name, entry in read_paper_file(paper, "claims").items()}


def agreement(paper: str, findings: Iterable[Finding]) -> list[Row]:
    """The rows of all claims of a paper, in the order of the findings; every claim must have one."""
    findings = list(findings)
    # No claim is dropped silently: one without a finding would look as if the paper had not made it.
    left = claims(paper).keys() - {finding.claim for finding in findings}
    if left:
        raise InputError(f"nothing was found for {', '.join(sorted(left))}", place=f"claims of {paper}")
    words = read_paper_file(paper, "page").get("words")
    rows = (row_of(paper, finding) for finding in findings)
    return [replace(row, words=humanise_name(row.quantity, words)) for row in rows]


def row_of(paper: str, finding: Finding) -> Row:
    """One row, its verdict by the rule of its claim."""
    entries = claims(paper)
    if finding.claim not in entries:
        hint = did_you_mean(finding.claim, entries)
        raise InputError(f"there is no claim {finding.claim!r}", place=f"claims of {paper}", hint=hint)
    claim, value = replace(entries[finding.claim], **finding.own), finding.value
    holds = claim.holds(value) if finding.holds is None else bool(finding.holds)
    # A claim that fails differs even where it was thought unable to fail.
    verdict = Verdict.DIFFERS if not holds else Verdict.NO_EVIDENCE if finding.cannot_fail else claim.verdict_if_met
    parts = [claim.differs if claim.differs and not holds else claim.note, *(claim.also[name] for name in finding.also)]
    if claim.why:
        parts.append("tolerance {limit}: {why}")
    facts = {**claim.facts(value), "why": claim.why, **finding.facts}
    note = "; ".join(part.format(**facts) for part in parts if part)
    quantity, unit, source = (text.format(**facts) for text in (finding.claim, claim.unit, claim.source))
    return Row(quantity, value, unit, claim.printed, source, verdict, note)


def page(paper: str, **facts: Any) -> dict[str, Any]:
    """Title, headline, summary and the paper's own figures, as a :class:`~spacearm.result.Result` takes them."""
    texts = read_paper_file(paper, "page")
    found = {name: texts[name].format(**facts) for name in ("headline", "summary")}
    return {"title": texts["title"], **found, "printed_figures": page_figures(paper)}


def page_figures(paper: str) -> list[PrintedFigure]:
    """The figures of the paper, and which of ours shows each."""
    return [PrintedFigure(label, **entry) for label, entry in read_paper_file(paper, "page")["figures"].items()]


def checks(paper: str, residuals: Mapping[str, Any], **facts: Any) -> dict[str, Check]:
    """Checks with tolerance, unit and note from ``page.toml``; of several residuals the largest counts."""
    found = {}
    for name, value in residuals.items():
        entry = read_paper_file(paper, "page")["checks"][name]
        largest = float(np.max([np.max(one) for one in value] if isinstance(value, list) else value))
        found[name] = Check(largest, entry["tolerance"], entry.get("unit", ""), entry.get("note", "").format(**facts))
    return found


def settings(paper: str, **computed: Any) -> dict[str, Any]:
    """Settings of a paper's page: those of ``page.toml``, and what is known at run time only."""
    return {**read_paper_file(paper, "page").get("settings", {}), **computed}


def figure(paper: str, name: str, plot: Any, **facts: Any) -> Figure:
    """A figure with its caption from ``page.toml``."""
    return Figure(name, plot, read_paper_file(paper, "page")["captions"][name].format(**facts))
