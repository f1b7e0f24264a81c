"""What every figure must keep: few curves in a panel, short labels with one unit, no rounding as data."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from spacearm.figures import MOST_CURVES
from spacearm.result import Result

#: A longer label of an axis or title of a panel is a sentence.
LONGEST_LABEL = 40
#: Numbers of a panel that are all smaller are rounding.
ROUNDING = 1e-13
#: What has no unit, or a scale of its own on the axis.
PURE = {
    "quaternion", "thrusters on", "configurations", "dynamic manipulability", "density", "rise of twice the cost",
    "test",
    "attitude", "iteration", "global best cost", "number", "seed", "base parameter, best known first",
}  # fmt: skip
_UNIT = re.compile(r"\[([^\]]*)\]")


def result_faults(result: Result) -> list[str]:
    """What is wrong with the figures of a result, in words."""
    return [f"{figure.name}: {fault}" for figure in result.figures for fault in figure_faults(figure.plot)]


def figure_faults(plot: Any) -> list[str]:
    """What is wrong with a figure (of Plotly, or its JSON as a table), in words."""
    table = plot if isinstance(plot, Mapping) else plot.to_plotly_json()
    layout, panels = table["layout"], _panels(table)
    titles = _titles(layout)
    found = []
    for (x, y), traces in panels.items():
        across, up = (_axis(layout, name) for name in (x, y))
        title = titles.get(x, "")
        found += [f"{y}: {fault}" for fault in _curves(traces)]
        found += [f"{y}: {fault}" for fault in _label(up, traces, "y", _beside(layout, y, panels) or title)]
        if not _below(layout, x, panels):
            found += [f"{x}: {fault}" for fault in _label(across, traces, "x")]
        found += [f"{y}: {fault}" for fault in _rounding(traces)]
    return found


def _panels(table: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Traces that are seen at first, by their axes."""
    panels: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for trace in table["data"]:
        if trace.get("visible", True) is True and trace.get("type", "scatter") in ("scatter", "bar", "histogram",
                                                                                   "heatmap", "contour"):  # fmt: skip
            panels.setdefault((trace.get("xaxis", "x"), trace.get("yaxis", "y")), []).append(trace)
    return panels


def _axis(layout: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = layout.get(f"{name[0]}axis{name[1:]}", {})
    return found


def _titles(layout: Mapping[str, Any]) -> dict[str, str]:
    """Titles of panels by their x axis: notes in the middle of a panel's width, on its upper edge."""
    found = {}
    for note in layout.get("annotations", ()):
        for key, axis in layout.items():
            if key.startswith("xaxis") and note.get("xref") == "paper" and not note.get("showarrow", True):
                name = f"x{key[5:]}"
                left, right = axis.get("domain", (0.0, 1.0))
                top = _axis(layout, axis.get("anchor", "y")).get("domain", (0.0, 1.0))[1]
                if abs(note["x"] - 0.5 * (left + right)) < 1e-6 and abs(note["y"] - top) < 1e-6:
                    found[name] = note["text"]
    return found


def _domain(layout: Mapping[str, Any], name: str) -> tuple[float, float]:
    low, high = _axis(layout, name).get("domain", (0.0, 1.0))
    return float(low), float(high)


def _below(layout: Mapping[str, Any], x: str, panels: Mapping[tuple[str, str], Any]) -> bool:
    """Whether a panel further down in the same column says what this axis is."""
    low = {other: _domain(layout, y)[0] for other, y in panels}
    return any(_domain(layout, other) == _domain(layout, x) and low[other] < low[x] for other in low)


def _beside(layout: Mapping[str, Any], y: str, panels: Mapping[tuple[str, str], Any]) -> str:
    """What the first panel of a row says of its axis: maps and grids of panels say it once."""
    row = [other for _, other in panels if _domain(layout, other) == _domain(layout, y)]
    return next((text for other in row if (text := _axis(layout, other).get("title", {}).get("text", ""))), "")


def _curves(traces: list[Mapping[str, Any]]) -> Iterator[str]:
    names = {
        trace.get("name", "")
        for trace in traces
        if trace.get("type", "scatter") in ("scatter", "bar") and values(trace, "y").size > 1 and "fill" not in trace
    }
    if len(names) > MOST_CURVES:
        yield f"{len(names)} curves"


def _label(axis: Mapping[str, Any], traces: list[Mapping[str, Any]], way: str, title: str = "") -> Iterator[str]:
    label = axis.get("title", {}).get("text", "")
    for one in (label, title):
        if len(re.sub(r"<[^>]*>", "", one)) > LONGEST_LABEL:
            yield f"the label {one!r} is a sentence"
    if axis.get("ticktext") or axis.get("showticklabels") is False or any(_named(trace, way) for trace in traces):
        return
    text = label if _UNIT.search(label) or not title else title
    units = _UNIT.findall(text)
    if any(" or " in unit or ", " in unit for unit in units) or len(units) > 1:
        yield f"{text!r} has several units"
    if not units and not _pure(label or title):
        yield f"{text!r} has no unit"
    if not _UNIT.sub("", text).strip():
        yield f"{text!r} does not say what it shows"


def _named(trace: Mapping[str, Any], way: str) -> bool:
    """Whether names stand along the axis, not numbers."""
    given = trace.get(way)
    return isinstance(given, list | tuple | np.ndarray) and len(given) > 0 and isinstance(given[0], str)


def _pure(text: str) -> bool:
    """Whether a label needs no unit: a ratio, a count."""
    return " / " in text or text.startswith(("number of", "share of")) or text in PURE


def _rounding(traces: list[Mapping[str, Any]]) -> Iterator[str]:
    sizes = {}
    for trace in traces:
        if trace.get("type", "scatter") == "scatter":
            shown = values(trace, "y")
            sizes[trace.get("name", "")] = float(np.max(np.abs(shown), where=np.isfinite(shown), initial=0.0))
    most = max(sizes.values(), default=0.0)
    for name, size in sizes.items():
        if 0.0 < size < max(ROUNDING, ROUNDING * most):
            yield f"{name!r} is rounding: {size:.1g}"


def values(trace: Mapping[str, Any], key: str) -> Any:
    """Numbers of a trace; text is no number."""
    given = trace.get(key)
    if isinstance(given, Mapping):
        given = np.frombuffer(base64.b64decode(given["bdata"]), given["dtype"])
    found = np.asarray([] if given is None else given).ravel()
    try:
        return found.astype(float)
    except (TypeError, ValueError):
        return np.full(found.size, np.nan)
