"""HTML pages from Jinja templates: one of a result, one of a single figure, one over several studies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2

from spacearm.result import Figure, Result, Verdict

if TYPE_CHECKING:
    from spacearm.report.write import Entry

#: Longest list that is written out in a table; a longer one is named by its size.
LONGEST_LIST = 8


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spacearm.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = show
    environment.globals["style_of"] = lambda verdict: Verdict(verdict).name.lower().replace("_", "-")
    return environment


def render_result(result: Result, plots: Mapping[str, str], *, plotly: str, data: bool) -> str:
    """The page of a result; ``plots`` maps the figures' names to their JSON, ``plotly`` is the script beside it."""
    return _render(
        "result.html",
        result=result,
        title=result.title or result.study,
        paragraphs=[part.strip() for part in result.summary.split("\n\n") if part.strip()],
        counts=result.counts(),
        settings=list(flat(result.settings)),
        plots=plots,
        plotly=plotly if plots else "",
        data=data,
    )


def render_figure(figure: Figure, plot: str, library: str) -> str:
    """A page of one figure with the plotting library inside."""
    return _render("figure.html", figure=figure, plot=plot, library=library, title=figure.caption or figure.name)


def render_index(entries: Sequence[Entry], title: str) -> str:
    return _render("index.html", entries=entries, title=title)


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


def show(value: Any) -> str:
    """A value as a reader wants it: six digits, short lists written out."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if hasattr(value, "tolist"):
        return show(value.tolist())
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        if len(value) > LONGEST_LIST:
            return f"{len(value)} values"
        return "(" + ", ".join(show(entry) for entry in value) + ")"
    return str(value)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.6g}"
    if "e" not in text:
        return text.replace("-", "\N{MINUS SIGN}")
    digits, exponent = text.split("e")
    return f"{digits}e{int(exponent)}".replace("-", "\N{MINUS SIGN}")
