"""Comparison of two folders of results: differing rows, verdicts, checks, overlaid curves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from spacearm.errors import InputError, SpacearmError
from spacearm.figures import COLOURS
from spacearm.report import _page
from spacearm.report.folder import publish, read_json
from spacearm.report.write import PLOTLY, read_plots, share_script
from spacearm.result import Certificate, Json, Limit, Result
from spacearm.text_format import ROUNDING

#: Study name of a comparison's folder.
STUDY = "comparison"


@dataclass(frozen=True)
class RowDifference:
    """A row whose values differ; ``None`` if one of the results lacks it.

    ``relative`` is the largest difference over the larger size, of numbers and lists of numbers; infinite for texts and
    for what only one of them has.
    """

    quantity: str
    first: Any
    second: Any
    unit: str
    relative: float

    def to_json(self) -> dict[str, Json]:
        relative = None if math.isinf(self.relative) else self.relative
        return {"quantity": self.quantity, "values": [self.first, self.second], "unit": self.unit, "relative": relative}


@dataclass(frozen=True)
class ComparedResult:
    """One of the two results: its folder, its contents, its page's figures."""

    folder: Path
    result: Result
    rows: Mapping[str, Mapping[str, Any]]
    plots: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> ComparedResult:
        """Read a folder; raises an :class:`~spacearm.errors.InputError` if it holds no results of spacearm."""
        table: Any = read_json(folder / "results.json")
        hint = "expected a folder that 'spacearm run' or 'spacearm reproduce' wrote"
        if not {"study", "rows", "certificate"} <= table.keys():
            raise InputError("there are no results in this folder", file=folder, hint=hint)
        try:
            result = Result(
                str(table["study"]),
                certificate=Certificate.from_json(table["certificate"]),
                title=str(table.get("title", "")),
                headline=str(table.get("headline", "")),
                source=str(table.get("source", "")),
                limits=[Limit.from_json(one) for one in table.get("verdict", {}).get("each", ())],
                go="decision" in table.get("verdict", {}),
                undecided=str(table.get("verdict", {}).get("undecided", "")),
            )
            rows = {str(row["quantity"]): {"value": row["value"], "unit": str(row["unit"])} for row in table["rows"]}
            written = folder / "index.html"
            return cls(folder, result, rows, read_plots(written) if written.is_file() else {})
        except (SpacearmError, TypeError, KeyError, ValueError, AttributeError) as error:
            raise InputError(f"results.json cannot be read: {error}", file=folder, hint=hint) from None


@dataclass(frozen=True)
class FolderComparison:
    """Differences between two results, largest first."""

    first: ComparedResult
    second: ComparedResult
    rows: tuple[RowDifference, ...]
    equal: int
    checks: tuple[RowDifference, ...]

    @property
    def both(self) -> tuple[ComparedResult, ComparedResult]:
        return self.first, self.second

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two: their folders, or more of their paths if these are equal."""
        one, two = (each.folder.resolve() for each in self.both)
        return (one.name, two.name) if one.name != two.name else (str(self.first.folder), str(self.second.folder))

    @property
    def largest(self) -> float:
        """The largest relative difference of a row; infinite where a text, a verdict or soundness differs."""
        # Equal numbers with another verdict are not the same result: a limit or a check was changed.
        states = {(each.result.sound, each.result.verdict, each.result.decision) for each in self.both}
        return math.inf if len(states) > 1 else max((row.relative for row in self.rows), default=0.0)

    def to_json(self) -> dict[str, Json]:
        return {
            "results": [
                {"folder": str(each.folder), "sound": each.result.sound, "verdict": each.result.verdict_words}
                for each in self.both
            ],
            "largest": None if math.isinf(self.largest) else self.largest,
            "equal": self.equal,
            "rows": [row.to_json() for row in self.rows],
            "certificate": [check.to_json() for check in self.checks],
        }


def compare_results(first: Path | str, second: Path | str) -> FolderComparison:
    """Compare the results in two folders; numbers that differ by rounding alone are equal."""
    one, two = ComparedResult.read(Path(first)), ComparedResult.read(Path(second))
    rows = []
    quantities = [*one.rows, *(name for name in two.rows if name not in one.rows)]
    for quantity in quantities:
        given = [each.rows.get(quantity, {}) for each in (one, two)]
        before, after = (row.get("value") for row in given)
        relative = math.inf if not all(given) else relative_difference(before, after)
        if relative > 0.0:
            unit = str((given[0] or given[1])["unit"])
            rows.append(RowDifference(quantity, before, after, unit, relative))
    rows.sort(key=lambda row: -row.relative)
    return FolderComparison(one, two, tuple(rows), len(quantities) - len(rows), tuple(_checks(one, two)))


def relative_difference(first: Any, second: Any) -> float:
    """Relative difference of two values of ``results.json``; 0 for rounding, infinite for anything but numbers."""
    if first == second:
        return 0.0
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return max(map(relative_difference, first, second))
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (first, second)):
        return math.inf
    apart = abs(first - second)
    # as tables have it: what is smaller than rounding is shown as zero
    return 0.0 if apart <= ROUNDING * max(1.0, abs(first), abs(second)) else apart / max(abs(first), abs(second))


def _checks(one: ComparedResult, two: ComparedResult) -> Iterator[RowDifference]:
    """Checks that hold in only one of the results, or that only one of them has."""
    for name in dict.fromkeys([*one.result.certificate, *two.result.certificate]):
        checks = (each.result.certificate.get(name) for each in (one, two))
        before, after = (None if check is None else check.verdict for check in checks)
        if before != after:
            yield RowDifference(name, before, after, "", math.inf)


def overlay_curves(first: str, second: str, names: tuple[str, str]) -> str:
    """A figure with the curves of two: the first's solid and the second's dashed; empty where there are no curves."""
    one, two = json.loads(first), json.loads(second)
    curves = [figure["data"] for figure in (one, two)]
    if not all(curves) or any(trace.get("type") != "scatter" for found in curves for trace in found):
        return ""
    for trace in curves[1]:
        trace["line"] = {**trace.get("line", {}), "dash": "dash"}
        trace["showlegend"] = False
    empty: dict[str, Any] = {"type": "scatter", "x": [None], "y": [None], "mode": "lines"}
    keys = [
        {**empty, "name": escape(name), "line": {"color": COLOURS[7], "dash": dash}}
        for name, dash in zip(names, ("solid", "dash"), strict=True)
    ]
    text = json.dumps({"data": [*curves[0], *curves[1], *keys], "layout": one["layout"]})
    # The text goes into a script element: a name from a file that ends it early would run as code.
    return text.replace("<", "\\u003c")


def write_comparison(found: FolderComparison, folder: Path | str) -> Path:
    """Write the page of a comparison with its ``results.json``; the path of ``index.html``."""
    folder = Path(folder)
    plots = {
        name: text
        for name in found.first.plots
        if name in found.second.plots
        and (text := overlay_curves(found.first.plots[name], found.second.plots[name], found.names))
    }
    with publish(folder, STUDY) as staging:
        if plots:
            share_script(staging)
        html = _page.render_comparison(found, plots, PLOTLY)
        (staging / "index.html").write_text(html, encoding="utf-8")
        files = sorted(path.name for path in staging.iterdir())
        table = {**Result(STUDY).to_json(), **found.to_json(), "files": [*files, "results.json"]}
        text = json.dumps(table, indent=2, allow_nan=False, ensure_ascii=False)
        (staging / "results.json").write_text(text + "\n", encoding="utf-8")
    return folder / "index.html"
