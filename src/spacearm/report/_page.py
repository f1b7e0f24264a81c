"""HTML pages from Jinja templates: of a result, of a comparison, and of several studies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
from markupsafe import Markup

from spacearm import text_format
from spacearm.result import Result, Row, Verdict

if TYPE_CHECKING:
    from spacearm.report.compare import FolderComparison
    from spacearm.report.write import IndexEntry

#: Meanings of the agreement words, in the order of their tables.
MEANINGS = {
    Verdict.DIFFERS: "differs from the paper's number; the note explains why",
    Verdict.AGREES: "reproduced: computed independently, within the stated tolerance; it could have failed",
    Verdict.CONSISTENT: "arithmetic among the paper's own printed numbers is consistent; nothing else was computed",
    Verdict.FITTED: "the paper's number was used to determine a value that the paper does not print: a test of neither",
    Verdict.NO_EVIDENCE: "agrees with the paper, but could not have come out otherwise",
    Verdict.NOT_RECOVERABLE: "the paper does not print enough to compute it",
    Verdict.NEW: "not in the paper",
}
SOUND = "every check of the certificate holds: momentum, energy and constraints were conserved within their tolerances"
LIMITS = "no joint, drive, wheel or stage exceeded its limits; soundness of the numbers is reported separately"
#: Style, text and meaning of a decision.
DECISIONS = {
    "GO": ("agrees", "GO", "every stage stayed within all limits, and the numbers are sound"),
    "NO GO": ("differs", "NO GO", "a limit was violated, and the numbers are sound"),
    "UNDECIDED": ("not-recoverable", "UNDECIDED", "the numbers are not sound: they support neither a go nor a no go"),
}
#: Limits that a badge lists in its tooltip.
MOST_LIMITS = 8
#: Rows of a table that are shown; the others are folded.
SHORT_TABLE = 10


class Badge(NamedTuple):
    """A word on a result: its style, the text, what it means."""

    style: str
    text: str
    meaning: str


def badges(result: Result) -> list[Badge]:
    """Badges for the verdict on limits and for soundness, worst first; nothing is green beside a violated limit."""
    if not result.certificate:
        sound = Badge("not-recoverable", "no certificate", "nothing was checked")
    elif not result.sound:
        sound = Badge("differs", "not sound", f"not: {SOUND}")
    elif result.limits_broken:
        sound = Badge("not-recoverable", "numerics sound", SOUND)
    else:
        sound = Badge("agrees", "sound", SOUND)
    if not result.limits:
        return [sound]
    decided = [Badge(*DECISIONS[result.decision])] if result.go else []
    if result.undecided and result.sound:
        decided = [decided[0]._replace(meaning=result.undecided)]
    listed = "; ".join(limit.words for limit in (result.limits_broken or result.limits)[:MOST_LIMITS])
    style = "not-recoverable" if result.undecided else "differs" if result.limits_broken else "agrees"
    limits = Badge(style, result.verdict_words, listed)
    return [*decided, *([limits, sound] if result.limits_broken else [sound, limits])]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spacearm.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "show": text_format.format_value,
        "result": text_format.format_result,
        "words": text_format.humanise_name,
        "unit": text_format.format_unit,
    }
    environment.filters["mathematics"] = lambda text: Markup(
        text_format.mathematics_html(text)
    )  # it has escaped the rest
    environment.globals["quantity"] = text_format.format_quantity
    environment.globals["badges"] = badges
    environment.globals["style_of"] = lambda verdict: Verdict(verdict).name.lower().replace("_", "-")
    return environment


def render_result(result: Result, plots: Mapping[str, str], *, plotly: str = "", data: bool = False) -> str:
    """The page of a result; ``plots`` maps figure names to their JSON, ``plotly`` is the plotting script."""
    return _render(
        "result.html",
        result=result,
        title=result.title or result.study,
        paragraphs=[part.strip() for part in result.summary.split("\n\n") if part.strip()],
        counts=result.counts(),
        meanings=MEANINGS,
        sound=SOUND,
        groups=row_groups(result),
        short=SHORT_TABLE,
        made=page_date(),
        settings=[(*text_format.label_setting(name), value) for name, value in flatten_table(result.settings)],
        plots=plots,
        plotly=plotly if plots else "",
        data=data,
        scene=result.scene is not None,
    )


def page_date() -> str:
    """The date and time (UTC) on a page; ``SOURCE_DATE_EPOCH`` sets it, for pages that are the same each time."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(seconds), UTC) if seconds.isdigit() else datetime.now(UTC)
    return now.strftime("%Y-%m-%d %H:%M UTC")


def row_groups(result: Result) -> list[tuple[str, str, list[Row], bool]]:
    """The rows in tables: style, heading, rows, and whether the table is open. By verdict, or by the first name."""
    if result.has_paper:
        found = {verdict: [row for row in result.rows if row.verdict is verdict] for verdict in MEANINGS}
        return [(name.value, MEANINGS[name], rows, False) for name, rows in found.items() if rows]
    if len(result.rows) <= SHORT_TABLE:
        return [("", "", list(result.rows), True)] if result.rows else []
    tables: dict[str, list[Row]] = {}
    for row in result.rows:
        tables.setdefault(row.quantity.partition(".")[0], []).append(row)
    single = [row for rows in tables.values() if len(rows) == 1 for row in rows]
    several = {name: rows for name, rows in tables.items() if len(rows) > 1}
    tables_of = [
        ("", text_format.humanise_name(name), rows, number == 0) for number, (name, rows) in enumerate(several.items())
    ]
    return [("", "", single, True), *tables_of] if single else tables_of


def render_index(entries: Sequence[IndexEntry], title: str, plotly: str) -> str:
    """The index page of several studies."""
    drawn = any(entry.picture for entry in entries)
    return _render(
        "index.html",
        entries=entries,
        title=title,
        meanings=MEANINGS,
        sound=SOUND,
        limits=LIMITS,
        plotly=plotly if drawn else "",
    )


def render_comparison(found: FolderComparison, plots: Mapping[str, str], plotly: str) -> str:
    """The page of a comparison of two results; ``plots`` are figures with the curves of both, as JSON."""
    return _render(
        "compare.html",
        title=" and ".join(found.names),
        found=found,
        names=found.names,
        plots=plots,
        short=SHORT_TABLE,
        percent=text_format.format_percent,
        made=page_date(),
        plotly=plotly if plots else "",
    )


def _render(name: str, **values: Any) -> str:
    from spacearm import __version__

    return _environment().get_template(name).render(version=__version__, **values)


def flatten_table(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a nested table with dotted names; a list of tables is numbered."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flatten_table(value, f"{name}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(entry, Mapping) for entry in value):
            for number, entry in enumerate(value):
                yield from flatten_table(entry, f"{name}.{number}.")
        else:
            yield name, value
