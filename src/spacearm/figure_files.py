"""Figures for papers and slides: SVG, PDF or PNG from a Plotly figure, drawn by matplotlib without a browser.

Only what the figures of spacearm are made of is drawn: curves, bars, histograms, maps, contours, tables, surfaces,
several axes, lines and notes beside them. Anything else is an error, not left out: kinds of traces, and properties of
traces and shapes, that are neither drawn nor of use to a browser alone (:data:`DRAWABLE_PROPERTIES`,
:data:`BROWSER_PROPERTIES`).
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.errors import InputError
from spacearm.text_format import format_number

if TYPE_CHECKING:
    from typing import TypeAlias

    # matplotlib's own types refuse styles that are put together before the call.
    Axes: TypeAlias = Any
    Canvas: TypeAlias = Any
    Array: TypeAlias = Any

FORMATS = (".svg", ".pdf", ".png")
#: Pixels of a page to an inch of paper: text of 13 pixels becomes one of about 9 points.
PIXELS = 100.0
#: Width of a figure on its page, pixels.
WIDTH = 760
RESOLUTION = 200
#: Marks that labels of figures may hold, as Plotly has them; any other belongs to somebody's name.
MARKS = "(?:b|br|i|sub|sup|extra)"
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (9, 3)),
    "longdashdot": (0, (9, 3, 2, 3)),
}
#: How a curve goes from point to point.
_STEPS = {"linear": "default", "hv": "steps-post", "vh": "steps-pre"}
_MARKERS = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "square-open": "s",
    "diamond": "D",
    "diamond-open": "D",
    "cross": "P",
    "x": "X",
    "x-thin": "x",
    "cross-thin": "+",
    "triangle-up": "^",
    "triangle-down": "v",
    "star": "*",
    "line-ew": "_",
    "line-ns": "|",
}
#: Where a text stands: the anchor of the page in matplotlib's words.
_ANCHORS = {"middle": "center", "auto": "center"}
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "spacearm",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
}
_POINTS = {"x", "y", "name", "opacity"}
#: Properties that are drawn, by the kind of trace or shape; parts of them behind a dot.
DRAWABLE_PROPERTIES = {
    "scatter": {*_POINTS, "mode", "line", "marker", "error_x", "error_y", "fill", "fillcolor", "stackgroup", "text",
                "textposition", "textfont"},
    "bar": {*_POINTS, "base", "orientation", "marker", "text", "textposition", "width"},
    "histogram": {*_POINTS, "marker", "nbinsx", "xbins", "histnorm"},
    "heatmap": {*_POINTS, "z", "zmin", "zmax", "zmid", "colorscale", "showscale", "colorbar", "text", "texttemplate",
                "textfont", "xgap", "ygap"},
    "contour": {*_POINTS, "z", "colorscale", "colorbar", "contours", "line", "zmin", "zmax", "ncontours"},
    "scatter3d": {*_POINTS, "z", "mode", "line", "marker"},
    "surface": {*_POINTS, "z", "surfacecolor", "colorscale", "showscale", "colorbar", "cmin", "cmax"},
    "table": {"header", "cells", "columnwidth", "name"},
    "line": {"color", "width", "dash", "shape", "simplify"},
    "marker": {"color", "size", "symbol", "colorscale", "showscale", "colorbar", "line", "opacity", "cmin", "cmax"},
}  # fmt: skip
#: Properties that only a browser has a use for.
BROWSER_PROPERTIES = {
    "type", "xaxis", "yaxis", "scene", "showlegend", "legendgroup", "visible", "customdata", "cliponaxis", "hoverinfo",
    "hoverlabel", "hoverongaps", "hovertemplate", "hovertext", "legendrank", "meta", "uid",
}  # fmt: skip
_SHAPES = ("line", "rect", "circle")
_ORDER = {"fill": 1, "line": 2, "marker": 3, "text": 4}


def save_figure(plot: Any, path: Path | str, *, width: int = WIDTH) -> Path:
    """Draw a Plotly figure (or its JSON as a table) into a file; its ending says how: .svg, .pdf or .png.

    ``width`` is in pixels of a page, 100 to the inch; the height is the figure's own.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path.suffix or 'no ending'!r} is not a format for figures", hint="expected .svg, .pdf or .png"
        )
    table = plot if isinstance(plot, Mapping) else plot.to_plotly_json()
    canvas = draw(table, width)
    import matplotlib as mpl

    # The paper grows to hold the labels, which are as wide as they are.
    page = {"bbox_inches": "tight", "pad_inches": 0.08, "metadata": {"Date": None} if path.suffix == ".svg" else None}
    try:
        with mpl.rc_context(_STYLE):
            canvas.savefig(path, dpi=RESOLUTION, **page)
    except OSError as error:
        raise InputError(f"cannot write there: {error.strerror}", file=path) from error
    return path


def draw(plot: Mapping[str, Any], width: int = WIDTH) -> Canvas:
    """A matplotlib figure of what Plotly would draw."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Paper
    except ImportError:
        raise InputError("matplotlib is not installed", hint="pip install 'spacearm[figures]'") from None
    layout = plot["layout"]
    colours = layout.get("template", {}).get("layout", {}).get("colorway") or ["#0072b2"]
    with mpl.rc_context(_STYLE):
        canvas = Paper(figsize=(width / PIXELS, layout.get("height", 420) / PIXELS), facecolor="white")
        _MatplotlibFigure(canvas, layout, colours).draw_traces(plot["data"])
    return canvas


class _MatplotlibFigure:
    """One figure on its way from Plotly to matplotlib."""

    def __init__(self, canvas: Canvas, layout: Mapping[str, Any], colours: list[str]) -> None:
        self.canvas, self.layout, self.colours = canvas, layout, colours
        self.axes: dict[str, Axes] = {}
        self.stacks: dict[str, Array] = {}
        self.bars: dict[str, int] = {}  # traces of bars that stand side by side, by their axis
        self.drawn: dict[str, int] = {}
        self.next_colour = 0

    def draw_traces(self, traces: list[Mapping[str, Any]]) -> None:
        for trace in traces:
            _refuse_unknown(trace)
        # what the page shows when it is opened
        traces = [trace for trace in traces if trace.get("visible", True) is True]
        for trace in traces:
            if trace.get("type") == "bar" and self.layout.get("barmode", "group") == "group":
                self.bars[trace.get("xaxis", "x")] = self.bars.get(trace.get("xaxis", "x"), 0) + 1
        for trace in traces:
            kind = trace.get("type", "scatter")
            getattr(self, f"_{kind}")(trace)
        if not self.axes:
            self.find_axes("x", "y")
        for axes in self.axes.values():
            self._finish(axes)
        for axes in self.axes.values():
            self._rotate_tick_labels(axes)
        for shape in self.layout.get("shapes", ()):
            self._shape(shape)
        for note in self.layout.get("annotations", ()):
            self._note(note)
        self._legend(traces)

    # -- axes ----------------------------------------------------------------------------------------------------

    def find_axes(self, x: str, y: str, *, solid: bool = False) -> Axes:
        """The axes that a trace stands on, made at their place when first asked for."""
        if x not in self.axes:
            across, up = self._axis(x), self._axis(y)
            left, right = across.get("domain", (0.0, 1.0))
            low, high = up.get("domain", (0.0, 1.0))
            # Plotly's domains are shares of the plot, these of the whole canvas: the rest is for titles and labels.
            place = (0.09 + 0.88 * left, 0.11 + 0.77 * low, 0.88 * (right - left), 0.77 * (high - low))
            axes = self.canvas.add_axes(place, projection="3d" if solid else None)
            axes._spacearm = (across, up)
            for side in () if solid else ("top", "right"):
                axes.spines[side].set_visible(False)
            self.axes[x] = axes
        return self.axes[x]

    def _axis(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.layout.get(f"{name[0]}axis{name[1:]}", {})
        return found

    def _finish(self, axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, ScalarFormatter

        across, up = axes._spacearm
        for letter, axis in (("x", across), ("y", up)):
            ticks = getattr(axes, f"{letter}axis")
            if isinstance(ticks.get_major_formatter(), ScalarFormatter):
                # every tick says its whole number: a power of ten beside the axis would stand on the title
                ticks.set_major_formatter(FuncFormatter(lambda value, _: format_number(float(value), 6)))
            getattr(axes, f"set_{letter}label")(_text(axis.get("title", {}).get("text", "")))
            if axis.get("type") == "log":
                getattr(axes, f"set_{letter}scale")("log")
            if axis.get("range"):
                ends = [10.0**end if axis.get("type") == "log" else end for end in axis["range"]]
                getattr(axes, f"set_{letter}lim")(*ends)
            elif axis.get("rangemode") == "tozero":
                getattr(axes, f"set_{letter}lim")(**{"left" if letter == "x" else "bottom": 0.0})
            if axis.get("autorange") == "reversed":
                getattr(axes, f"invert_{letter}axis")()
            if "tickvals" in axis:
                texts = [_text(str(text)) for text in axis.get("ticktext", axis["tickvals"])]
                getattr(axes, f"set_{letter}ticks")(_values(axis["tickvals"]), texts)
                getattr(axes, f"{letter}axis").minorticks_off()
            elif isinstance(axis.get("dtick"), int | float) and axis.get("type") != "log":
                from matplotlib.ticker import MultipleLocator

                getattr(axes, f"{letter}axis").set_major_locator(MultipleLocator(axis["dtick"]))
            if axis.get("showticklabels") is False:
                axes.tick_params(axis=letter, labelbottom=letter != "x", labelleft=letter != "y")
            if axis.get("scaleanchor"):
                axes.set_aspect("equal", adjustable="datalim")

    def _rotate_tick_labels(self, axes: Axes) -> None:
        """Names below an axis that would stand on one another are turned, as on the page."""
        names = [label for label in axes.get_xticklabels() if label.get_text()]
        if axes.name == "3d" or not names or all(name.get_text()[-1:].isdigit() for name in names):
            return
        boxes = sorted((name.get_window_extent() for name in names), key=lambda box: float(box.x0))
        if any(left.x1 > right.x0 for left, right in itertools.pairwise(boxes)):
            for name in names:
                name.set(rotation=30, ha="right", rotation_mode="anchor")

    # -- traces --------------------------------------------------------------------------------------------------

    def _trace_colour(self, trace: Mapping[str, Any]) -> str:
        """The colour of a trace; the next of the common ones where it names none."""
        for part in ("line", "marker"):
            found = trace.get(part, {}).get("color")
            if isinstance(found, str):
                return found
        self.next_colour += 1
        return self.colours[(self.next_colour - 1) % len(self.colours)]

    def _scatter(self, trace: Mapping[str, Any]) -> None:
        axes = self.find_axes(trace.get("xaxis", "x"), trace.get("yaxis", "y"))
        x, y = _values(trace["x"]), _values(trace["y"])
        given, mode = self._trace_colour(trace), trace.get("mode", "lines")
        colour, label = _colour(given), _text(trace.get("name", ""))
        shown = {"alpha": trace.get("opacity"), "label": label}
        line, marker = trace.get("line", {}), trace.get("marker", {})
        y = self._fill_area(axes, trace, x, y, colour)
        if "lines" in mode:
            dash = _DASHES.get(line.get("dash", "solid"), "-")
            wide, steps = 0.7 * line.get("width", 2), _STEPS[line.get("shape", "linear")]
            axes.plot(
                x, y, drawstyle=steps, color=colour, linestyle=dash, linewidth=wide, zorder=_ORDER["line"], **shown
            )
            shown["label"] = "_"
        if "markers" in mode:
            self._markers(axes, x, y, marker, colour, shown)
        for letter in ("x", "y"):
            bars = trace.get(f"error_{letter}", {})
            if "array" in bars:
                error = {f"{letter}err": [_values(bars.get("arrayminus", bars["array"])), _values(bars["array"])]}
                axes.errorbar(x, y, fmt="none", ecolor=_colour(bars.get("color", given)), capsize=3, **error)
        if "text" in mode:
            self._texts(axes, trace, x, y)

    def _fill_area(self, axes: Axes, trace: Mapping[str, Any], x: Array, y: Array, colour: Any) -> Array:
        """The area below a curve, where it has one; curves of a stack stand on one another."""
        area = _colour(trace["fillcolor"]) if "fillcolor" in trace else (*_colour(colour)[:3], 0.35)
        if "stackgroup" in trace:
            group = trace["stackgroup"] + trace.get("xaxis", "x")
            below = self.stacks.get(group, np.zeros(len(y)))
            y = below + y
            self.stacks[group] = y
            axes.fill_between(x, below, y, color=area, linewidth=0, zorder=_ORDER["fill"])
        elif trace.get("fill") == "tozeroy":
            axes.fill_between(x, 0.0, y, color=area, linewidth=0, zorder=_ORDER["fill"])
        elif trace.get("fill") in ("toself", "tonexty"):
            axes.fill(x, y, color=area, linewidth=0, zorder=_ORDER["fill"])
        return y

    def _markers(
        self, axes: Axes, x: Array, y: Array, marker: Mapping[str, Any], colour: Any, shown: Mapping[str, Any]
    ) -> None:
        symbol = marker.get("symbol", "circle")
        size = marker.get("size", 6)
        area = (np.asarray(_values(size) if not np.isscalar(size) else size) * 0.72) ** 2
        kind = {"marker": _MARKERS.get(symbol, "o"), "zorder": _ORDER["marker"], **shown}
        scale = marker.get("color")
        if scale is not None and not isinstance(scale, str):
            drawn = axes.scatter(x, y, s=area, c=_values(scale), cmap=_colour_map(marker.get("colorscale")), **kind)
            if marker.get("showscale"):
                self._add_colour_bar(drawn, axes, marker.get("colorbar", {}))
        elif symbol.endswith(("open", "thin", "-ew", "-ns")):
            edge = {"edgecolors": [colour]} if symbol.endswith("open") else {"color": [colour]}
            axes.scatter(x, y, s=area, facecolors="none" if symbol.endswith("open") else None, **edge, **kind)
        else:
            axes.scatter(x, y, s=area, color=[colour], linewidths=0, **kind)

    def _texts(self, axes: Axes, trace: Mapping[str, Any], x: Array, y: Array) -> None:
        texts = trace.get("text") or [""] * len(x)
        texts = [texts] * len(x) if isinstance(texts, str) else texts
        up, _, across = str(trace.get("textposition", "middle center")).partition(" ")
        shift = (4 * {"left": -1, "right": 1}.get(across, 0), 5 * {"bottom": -1, "top": 1}.get(up, 0))
        style = {
            "ha": {"left": "right", "right": "left"}.get(across, "center"),
            "va": {"bottom": "top", "top": "bottom"}.get(up, "center"),
        }
        colour = _colour(trace.get("textfont", {}).get("color", "#222222"))
        for at, text in zip(zip(x, y, strict=True), texts, strict=True):
            if text and np.all(np.isfinite(np.asarray(at, dtype=float))):
                axes.annotate(_text(str(text)), at, shift, textcoords="offset points", color=colour, **style)

    def _add_colour_bar(self, drawn: Any, axes: Axes, bar: Mapping[str, Any] | None) -> None:
        """The scale of colours beside a map."""
        title = (bar or {}).get("title", {})
        text = title if isinstance(title, str) else title.get("text", "")
        self.canvas.colorbar(drawn, ax=axes, label=_text(text), fraction=0.06, pad=0.03)

    def _bar(self, trace: Mapping[str, Any]) -> None:
        axes = self.find_axes(trace.get("xaxis", "x"), trace.get("yaxis", "y"))
        across = trace.get("orientation") == "h"
        names, values = (_values(trace[letter]) for letter in ("yx" if across else "xy"))
        many, own = self.bars.get(trace.get("xaxis", "x"), 1), self.drawn.get(trace.get("xaxis", "x"), 0)
        self.drawn[trace.get("xaxis", "x")] = own + 1
        step = float(np.min(np.diff(np.sort(names)), initial=1.0)) if names.dtype.kind in "fiu" else 1.0
        if many > 1:
            if names.dtype.kind not in "fiu":
                getattr(axes, "set_yticks" if across else "set_xticks")(np.arange(len(names)), list(names))
                names = np.arange(len(names))
            # Bars of several traces stand beside each other, in four fifths of the distance of two names.
            names = names + 0.8 * step * ((own + 0.5) / many - 0.5)
        colour = trace.get("marker", {}).get("color")
        shade: Any = [_colour(one) for one in colour] if isinstance(colour, list | tuple) else None
        wide = trace.get("width", 0.8 * step / many)
        thick = {"height" if across else "width": wide if np.isscalar(wide) else _values(wide)}
        style = {"color": shade or _colour(self._trace_colour(trace)), "alpha": trace.get("opacity"), **thick}
        paint, start = (axes.barh, "left") if across else (axes.bar, "bottom")
        base = trace.get("base", 0.0)
        style[start] = base if np.isscalar(base) else _values(base)
        drawn = paint(names, values, label=_text(trace.get("name", "")), **style)
        if trace.get("text") is not None:
            # where a bar ends, which is not its length where it has a base
            kind = "center" if trace.get("textposition") == "inside" else "edge"
            axes.bar_label(drawn, [_text(str(text)) for text in trace["text"]], padding=2, label_type=kind)

    def _histogram(self, trace: Mapping[str, Any]) -> None:
        axes = self.find_axes(trace.get("xaxis", "x"), trace.get("yaxis", "y"))
        x, bins = _values(trace["x"]), trace.get("xbins")
        edges: Any = trace.get("nbinsx", 40)
        if bins:
            edges = np.arange(bins["start"], bins["end"] + 0.5 * bins["size"], bins["size"])
        density = trace.get("histnorm") == "probability density"
        style = {"color": _colour(self._trace_colour(trace)), "alpha": trace.get("opacity")}
        axes.hist(x[np.isfinite(x)], edges, density=density, label=_text(trace.get("name", "")), **style)

    def _heatmap(self, trace: Mapping[str, Any]) -> None:
        axes = self.find_axes(trace.get("xaxis", "x"), trace.get("yaxis", "y"))
        z = np.ma.masked_invalid(np.asarray(_values(trace["z"]), dtype=float))
        places = [self._cell_positions(axes, trace, letter, z.shape[letter == "x"]) for letter in ("x", "y")]
        limits = {"vmin": trace.get("zmin"), "vmax": trace.get("zmax")}
        if trace.get("zmid") is not None and limits["vmin"] is None:
            reach = float(np.abs(z - trace["zmid"]).max())
            limits = {"vmin": trace["zmid"] - reach, "vmax": trace["zmid"] + reach}
        gaps = {"edgecolors": "white", "linewidth": 1.0} if trace.get("xgap") else {}
        drawn = axes.pcolormesh(*places, z, cmap=_colour_map(trace.get("colorscale")), shading="auto", **limits, **gaps)
        axes.grid(visible=False)
        if trace.get("texttemplate"):
            for (row, column), text in np.ndenumerate(np.asarray(trace["text"], dtype=object)):
                if text:
                    # Text has to stand out from the colour of its cell.
                    dark = np.mean(drawn.cmap(drawn.norm(z[row, column]))[:3]) < 0.5
                    ink = "white" if dark else "#222222"
                    at = (places[0][column], places[1][row])
                    axes.text(*at, _text(str(text)), ha="center", va="center", fontsize=7, color=ink)
        if trace.get("showscale", True):
            self._add_colour_bar(drawn, axes, trace.get("colorbar"))

    def _cell_positions(self, axes: Axes, trace: Mapping[str, Any], letter: str, many: int) -> Array:
        """Where the cells of a map stand; names become ticks."""
        found = np.asarray(_values(trace[letter])) if letter in trace else np.arange(many)
        if found.dtype.kind in "fiu":
            return found
        getattr(axes, f"set_{letter}ticks")(np.arange(many), [_text(str(name)) for name in found])
        return np.arange(many)

    def _contour(self, trace: Mapping[str, Any]) -> None:
        axes = self.find_axes(trace.get("xaxis", "x"), trace.get("yaxis", "y"))
        x, y, z = (np.asarray(_values(trace[name]), dtype=float) for name in ("x", "y", "z"))
        drawn = axes.contourf(x, y, np.ma.masked_invalid(z), 20, cmap=_colour_map(trace.get("colorscale")))
        self._add_colour_bar(drawn, axes, trace.get("colorbar"))

    def _scatter3d(self, trace: Mapping[str, Any]) -> None:
        axes: Any = self.find_axes("x", "y", solid=True)
        x, y, z = (np.asarray(_values(trace[name]), dtype=float) for name in ("x", "y", "z"))
        colour = _colour(self._trace_colour(trace))
        if "lines" in trace.get("mode", "lines"):
            axes.plot(x, y, z, color=colour, linewidth=0.4 * trace.get("line", {}).get("width", 4))
        if "markers" in trace.get("mode", "lines"):
            axes.scatter(x, y, z, color=[colour], s=trace.get("marker", {}).get("size", 4) ** 2)
        axes.set_aspect("equal")

    def _surface(self, trace: Mapping[str, Any]) -> None:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        axes: Any = self.find_axes("x", "y", solid=True)
        x, y, z = (np.asarray(_values(trace[name]), dtype=float) for name in ("x", "y", "z"))
        shade = np.asarray(_values(trace.get("surfacecolor", trace["z"])), dtype=float)
        scale = ScalarMappable(Normalize(np.nanmin(shade), np.nanmax(shade)), _colour_map(trace.get("colorscale")))
        axes.plot_surface(x, y, z, facecolors=scale.to_rgba(shade), rstride=1, cstride=1, alpha=0.6, shade=False)
        axes.set_aspect("equal")
        if trace.get("showscale", True):
            self._add_colour_bar(scale, axes, trace.get("colorbar"))

    def _table(self, trace: Mapping[str, Any]) -> None:
        axes = self.find_axes("x", "y")
        axes.set_axis_off()
        columns = [list(column) for column in trace["cells"]["values"]]
        rows = [[_text(str(cell)) for cell in row] for row in zip(*columns, strict=True)]
        head = [_text(str(name)) for name in np.ravel(np.asarray(trace["header"]["values"], dtype=object))]
        axes.table(rows, colLabels=head, loc="center", cellLoc="left")

    # -- beside them ---------------------------------------------------------------------------------------------

    def _resolve_reference(self, reference: str) -> tuple[Any, str]:
        """Axes and kind of place ("data", "domain" or "paper") that a shape's or note's reference names."""
        name, _, domain = reference.partition(" ")
        if name == "paper":
            return next(iter(self.axes.values()), None), "paper"
        number = name[1:]
        return self.axes.get(f"x{number}", next(iter(self.axes.values()))), domain or "data"

    def _transform(self, x: str, y: str) -> tuple[Axes, Any]:
        axes, kind_x = self._resolve_reference(x)
        other, kind_y = self._resolve_reference(y)
        if kind_x == "paper":
            axes = other
        page = {"paper": self._paper(), "domain": axes.transAxes, "data": axes.transData}
        if kind_x == kind_y:
            return axes, page[kind_x]
        from matplotlib.transforms import blended_transform_factory

        return axes, blended_transform_factory(page[kind_x], page[kind_y])

    def _paper(self) -> Any:
        """The area of all plots together, from (0, 0) to (1, 1)."""
        from matplotlib.transforms import Affine2D

        return Affine2D().scale(0.88, 0.77).translate(0.09, 0.11) + self.canvas.transFigure

    def _shape(self, shape: Mapping[str, Any]) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Ellipse, Rectangle

        axes, transform = self._transform(shape.get("xref", "x"), shape.get("yref", "y"))
        x0, x1, y0, y1 = (shape[name] for name in ("x0", "x1", "y0", "y1"))
        line = shape.get("line", {})
        kind = shape.get("type", "rect")
        if kind not in _SHAPES:
            raise InputError(f"shapes of the kind {kind!r} cannot be drawn without a browser")
        if kind == "circle":
            centre, wide = (0.5 * (x0 + x1), 0.5 * (y0 + y1)), (abs(x1 - x0), abs(y1 - y0))
            edge = {"edgecolor": _colour(line.get("color", "#444444")), "linestyle": _DASHES[line.get("dash", "solid")]}
            inside = _colour(shape.get("fillcolor", "rgba(0, 0, 0, 0)"))
            style = {"facecolor": inside, "linewidth": 0.7 * line.get("width", 2), **edge}
            limits = axes.axis()
            axes.add_patch(Ellipse(centre, *wide, transform=transform, **style))
            axes.axis(limits)  # as on the page, shapes do not stretch the axes
            return
        if kind == "rect":
            area = _colour(shape.get("fillcolor", "rgba(0, 0, 0, 0)"))
            style = {"facecolor": area, "alpha": shape.get("opacity"), "linewidth": line.get("width", 0.0), "zorder": 0}
            drawn: Any = Rectangle((x0, y0), x1 - x0, y1 - y0, transform=transform, **style)
            axes.add_patch(drawn)
            return
        self._include(axes, shape)
        style = {"color": _colour(line.get("color", "#444444")), "linewidth": 0.7 * line.get("width", 1.5)}
        axes.add_line(
            Line2D([x0, x1], [y0, y1], transform=transform, linestyle=_DASHES[line.get("dash", "solid")], **style)
        )

    def _include(self, axes: Axes, line: Mapping[str, Any]) -> None:
        """Stretch linear axes of no given range to a line, as the page does: a limit is seen beside what it limits."""
        for letter, axis in zip("xy", axes._spacearm, strict=True):
            if " " in line.get(f"{letter}ref", letter) or line.get(f"{letter}ref") == "paper":
                continue
            if axis.get("range") is None and axis.get("type", "linear") == "linear":
                low, high = getattr(axes, f"get_{letter}lim")()
                ends = line[f"{letter}0"], line[f"{letter}1"]
                if low < high and all(isinstance(end, (int, float)) for end in ends):
                    beside = 0.01 * (max(high, *ends) - min(low, *ends))
                    low, high = min(low, *(end - beside for end in ends)), max(high, *(end + beside for end in ends))
                    getattr(axes, f"set_{letter}lim")(low, high)

    def _note(self, note: Mapping[str, Any]) -> None:
        axes, transform = self._transform(note.get("xref", "x"), note.get("yref", "y"))
        style = {
            "ha": _ANCHORS.get(note.get("xanchor", "center"), note.get("xanchor", "center")),
            "va": _ANCHORS.get(note.get("yanchor", "middle"), note.get("yanchor", "middle")),
            "color": _colour(note.get("font", {}).get("color", "#222222")),
        }
        axes.text(note["x"], note["y"], _text(note.get("text", "")), transform=transform, **style)

    def _legend(self, traces: list[Mapping[str, Any]]) -> None:
        hidden = {_text(t.get("name", "")) for t in traces if t.get("showlegend") is False}
        hidden -= {_text(t.get("name", "")) for t in traces if t.get("showlegend") is not False}
        found: dict[str, Any] = {}
        for axes in self.axes.values():
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if label not in hidden:
                    found.setdefault(label, handle)
        if len(found) < 2 or self.layout.get("showlegend") is False:
            return
        # Some 90 letters fit into a row; a line and its gap take four.
        columns = max(1, min(len(found), 90 // (4 + max(len(label) for label in found))))
        titled = any(note.get("yref") == "paper" and note.get("y", 0.0) >= 1.0 for note in self._notes())
        above = 0.955 if titled else 0.9
        self.canvas.legend(
            list(found.values()),
            list(found),
            loc="lower left",
            bbox_to_anchor=(0.08, above),
            ncols=columns,
            frameon=False,
        )

    def _notes(self) -> list[Mapping[str, Any]]:
        return list(self.layout.get("annotations", ()))


def _refuse_unknown(trace: Mapping[str, Any]) -> None:
    """An error for what would be left out: a kind of trace, or a property, that nothing here draws."""
    kind = trace.get("type", "scatter")
    if kind not in DRAWABLE_PROPERTIES:
        raise InputError(f"figures of the kind {kind!r} cannot be drawn without a browser")
    unknown = {name for name in trace if name not in DRAWABLE_PROPERTIES[kind] | BROWSER_PROPERTIES}
    for part in ("line", "marker"):
        unknown |= {f"{part}.{name}" for name in trace.get(part, {}) if name not in DRAWABLE_PROPERTIES[part]}
    shape = trace.get("line", {}).get("shape", "linear")
    unknown |= {f"line.shape = {shape!r}"} if shape not in _STEPS else set()
    if unknown:
        place = f"{kind} {trace.get('name', '')!r}"
        raise InputError(f"{sorted(unknown)[0]} cannot be drawn without a browser", place=place)


def _values(given: Any) -> Any:
    """An array of Plotly: plain, or packed with its type."""
    if isinstance(given, Mapping):
        flat = np.frombuffer(base64.b64decode(given["bdata"]), np.dtype(given["dtype"]))
        return flat.reshape([int(n) for n in str(given["shape"]).split(",")]) if "shape" in given else flat
    if isinstance(given, np.ndarray):
        return given
    texts = any(isinstance(value, str) for value in given)
    if texts:
        return np.array([_text(str(value)) for value in given])
    return np.array(given, dtype=float) if len(given) else np.zeros(0)


def _colour(given: Any) -> Any:
    """Colours of a page (``#rrggbb``, ``rgb(...)``, ``rgba(...)``, names) as matplotlib has them."""
    from matplotlib.colors import to_rgba

    found = re.fullmatch(r"rgba?\(([^)]*)\)", given) if isinstance(given, str) else None
    if not found:
        return to_rgba(given)
    parts = [float(part) for part in found[1].split(",")]
    return (*(part / 255 for part in parts[:3]), parts[3] if len(parts) > 3 else 1.0)


def _colour_map(scale: Any) -> Any:
    """A scale of colours: a name that both have, or a list of places and colours."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    if isinstance(scale, str):
        names = {name.lower(): name for name in colormaps}
        reverse = scale.lower().endswith("_r")
        return colormaps[names.get(scale.lower(), "cividis_r" if reverse else "cividis")]
    if scale:
        return LinearSegmentedColormap.from_list("scale", [(place, _colour(colour)) for place, colour in scale])
    return colormaps["cividis"]


def _text(given: str) -> str:
    """Text of a page without its marks: lines broken, small letters below and above kept."""
    plain = re.sub(r"<br\s*/?>", "\n", given or "").replace("$", r"\$")
    plain = re.sub(r"<sub>([\w .,+-]*)</sub>", r"$_{\\mathrm{\1}}$", plain)  # what else stands there is a user's name
    plain = re.sub(r"<sup>([\w .,+-]*)</sup>", r"$^{\\mathrm{\1}}$", plain)
    plain = re.sub(rf"</?{MARKS}>", "", plain)
    for mark, letter in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        plain = plain.replace(mark, letter)
    return plain
