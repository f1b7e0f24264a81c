"""HTML pages from Jinja templates: one of a result, one over several studies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
from markupsafe import Markup

from spacearm import words
from spacearm.result import Result, Row, Verdict

if TYPE_CHECKING:
    from spacearm.report.compare import Comparison
    from spacearm.report.write import Entry

#: What the verdicts say, in the order in which a reader wants their tables.
MEANINGS = {
    Verdict.DIFFERS: "the paper has another number; the note says why",
    Verdict.AGREES: "reproduced: computed from other numbers, within the tolerance stated; it could have failed",
    Verdict.CONSISTENT: "arithmetic among the paper's own printed numbers comes out; nothing else was computed",
    Verdict.FITTED: "the paper's number was used to find a value that the paper does not print: no test of either",
    Verdict.NO_EVIDENCE: "as the paper says, but it could not have come out otherwise",
    Verdict.NOT_RECOVERABLE: "what the paper prints does not suffice to compute it",
    Verdict.NEW: "not in the paper",
}
SOUND = "every check of the certificate holds: momentum, energy and constraints were kept within their tolerances"
LIMITS = (
    "no joint, drive, wheel or stage went beyond what it is allowed; whether the numbers are sound is another matter"
)
#: Limits that a badge names when it is pointed at.
MOST_LIMITS = 8
#: So many rows of a table are shown; those behind them are folded.
SHORT_TABLE = 10


class Badge(NamedTuple):
    """A word on a result: its style, the text, what it means."""

    style: str
    text: str
    meaning: str


def badges(result: Result) -> list[Badge]:
    """Verdict on the limits and soundness, what is bad first; nothing is green beside a broken limit."""
    if not result.certificate:
        sound = Badge("not-recoverable", "no certificate", "nothing was checked")
    elif not result.sound:
        sound = Badge("differs", "not sound", f"not: {SOUND}")
    elif result.broken:
        sound = Badge("not-recoverable", "numerics sound", SOUND)
    else:
        sound = Badge("agrees", "sound", SOUND)
    if not result.limits:
        return [sound]
    listed = "; ".join(limit.words for limit in (result.broken or result.limits)[:MOST_LIMITS])
    limits = Badge("differs" if result.broken else "agrees", result.verdict_words, listed)
    return [limits, sound] if result.broken else [sound, limits]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spacearm.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"show": words.show, "result": words.result, "words": words.in_words, "unit": words.unit}
    environment.filters["mathematics"] = lambda text: Markup(words.mathematics(text))  # it has escaped the rest
    environment.globals["quantity"] = words.quantity
    environment.globals["badges"] = badges
    environment.globals["style_of"] = lambda verdict: Verdict(verdict).name.lower().replace("_", "-")
    return environment


def render_result(result: Result, plots: Mapping[str, str], *, plotly: str = "", data: bool = False) -> str:
    """The page of a result; ``plots`` maps the figures' names to their JSON, ``plotly`` is the script that draws."""
    return _render(
        "result.html",
        result=result,
        title=result.title or result.study,
        paragraphs=[part.strip() for part in result.summary.split("\n\n") if part.strip()],
        counts=result.counts(),
        meanings=MEANINGS,
        sound=SOUND,
        groups=groups(result),
        short=SHORT_TABLE,
        made=made_on(),
        settings=[(*words.setting(name), value) for name, value in flat(result.settings)],
        plots=plots,
        plotly=plotly if plots else "",
        data=data,
        scene=result.scene is not None,
    )


def made_on() -> str:
    """The date and time (UTC) on a page; ``SOURCE_DATE_EPOCH`` sets it, for pages that are the same each time."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(seconds), UTC) if seconds.isdigit() else datetime.now(UTC)
    return now.strftime("%Y-%m-%d %H:%M UTC")


def groups(result: Result) -> list[tuple[str, str, list[Row], bool]]:
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
    tables_of = [("", words.in_words(name), rows, number == 0) for number, (name, rows) in enumerate(several.items())]
    return [("", "", single, True), *tables_of] if single else tables_of


def render_index(entries: Sequence[Entry], title: str, plotly: str) -> str:
    """The page over several studies."""
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


def render_comparison(found: Comparison, plots: Mapping[str, str], plotly: str) -> str:
    """The page of two results against each other; ``plots`` are figures with the curves of both, as JSON."""
    return _render(
        "compare.html",
        title=" and ".join(found.names),
        found=found,
        names=found.names,
        plots=plots,
        short=SHORT_TABLE,
        percent=words.percent,
        made=made_on(),
        plotly=plotly if plots else "",
    )


def _render(name: str, **values: Any) -> str:
    from spacearm import __version__

    return _environment().get_template(name).render(version=__version__, **values)


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a nested table with dotted names; a list of tables is numbered."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(entry, Mapping) for entry in value):
            for number, entry in enumerate(value):
                yield from flat(entry, f"{name}.{number}.")
        else:
            yield name, value
