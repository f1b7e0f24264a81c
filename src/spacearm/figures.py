"""The common look of all figures, and short ways to draw them.

Backgrounds are transparent and text colours are set by the page, so that one figure serves light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from spacearm.errors import InputError, did_you_mean
from spacearm.text_format import humanise_name

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray

__all__ = ["lines"]

#: Eight colours that stay apart for colour-blind readers and on light and dark ground (after Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#a08a00", "#7f7f7f")
#: Line styles, in the order in which curves of one colour take them.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif"
GRID = "rgba(127, 127, 127, 0.25)"
AXIS = "rgba(127, 127, 127, 0.7)"
CLEAR = "rgba(0, 0, 0, 0)"
#: A longer name of a variable is a sentence and no label of an axis.
LONGEST_LABEL = 32
#: More curves in one figure cannot be told apart.
MOST_CURVES = 8


@cache
def template() -> go.layout.Template:
    """Fonts, colours, grids and margins that all figures share."""
    import plotly.graph_objects as go

    axis = {
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": AXIS,
        "tickcolor": AXIS,
        "ticks": "outside",
        "ticklen": 4,
        "showline": True,
        "title": {"standoff": 8},
        "automargin": True,
    }
    scene_axis = {"gridcolor": GRID, "zerolinecolor": AXIS, "linecolor": AXIS, "backgroundcolor": CLEAR}
    layout = go.Layout(
        font={"family": FONT, "size": 13, "color": "#222222"},
        colorway=list(COLOURS),
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 64, "r": 20, "t": 40, "b": 52},
        xaxis=axis,
        yaxis=axis,
        scene={"xaxis": scene_axis, "yaxis": scene_axis, "zaxis": scene_axis, "aspectmode": "data"},
        legend={"bgcolor": CLEAR, "orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0.0},
        hovermode="closest",
        modebar={"bgcolor": CLEAR, "color": AXIS, "activecolor": COLOURS[0]},
        colorscale={"sequential": "Cividis", "diverging": "RdBu"},
    )
    return go.layout.Template(
        layout=layout,
        data={"scatter": [go.Scatter(line={"width": 2, "simplify": False}, hoverlabel={"namelength": -1})]},
    )


def label(text: str, unit: str = "") -> str:
    """An axis label: the quantity, and its unit in brackets."""
    return f"{text} [{unit}]" if unit else text


def new_figure(
    *, x: str = "", x_unit: str = "", y: str = "", y_unit: str = "", title: str = "", height: int = 420
) -> go.Figure:
    """An empty figure in the common look with labelled axes."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(template=template(), height=height)
    if title:
        figure.update_layout(title={"text": title, "x": 0.0, "xanchor": "left"}, margin={"t": 72})
    if x:
        figure.update_xaxes(title_text=label(x, x_unit))
    if y:
        figure.update_yaxes(title_text=label(y, y_unit))
    return figure


def panels(titles: Sequence[str], *, columns: int = 0, height: int = 460, spacing: float = 0.15) -> go.Figure:
    """Empty plots in the common look: side by side, or in rows of ``columns``; the legend stands above their titles."""
    from plotly.subplots import make_subplots

    across = columns or len(titles)
    figure = make_subplots(
        rows=-(-len(titles) // across),
        cols=across,
        subplot_titles=tuple(titles),
        horizontal_spacing=spacing,
        vertical_spacing=90 / height if columns else None,
    )
    figure.update_layout(template=template(), height=height, margin={"t": 90})
    figure.update_layout(legend={"y": 1 + 41 / height if columns else 1.1})
    return figure


#: What is smaller than this share of its scale is rounding, and drawn as zero.
ROUNDING = 1e-12


def drop_rounding(values: Any, scale: float = 0.0) -> Any:
    """Numbers as they are drawn: zero where they are rounding of ``scale``, or of the largest of them."""
    import numpy as np

    found = np.asarray(values)
    if found.dtype.kind != "f" or not found.size:
        return values
    sizes = np.abs(found)
    most = max(scale, float(np.max(sizes, where=np.isfinite(sizes), initial=0.0)))
    return np.where(sizes < ROUNDING * most, 0.0, found)


#: A limit is drawn where it is at most so many times the largest value: further off it would flatten the curves.
NEAR = 3.0


def keep_readable(figure: go.Figure) -> int:
    """Hide what a reader cannot use: rounding becomes zero, and of each panel the first eight curves are shown.

    The others appear when they are clicked in the legend. Returns how many these are. Rounding is what is small beside
    the largest number of its panel or, if all are, beside one. Logarithmic axes are left as they are.
    """
    import numpy as np

    panels_of: dict[tuple[str, str], list[Any]] = {}
    for trace in figure.data:
        if trace.type == "scatter" and trace.y is not None and trace.visible is not False:
            panels_of.setdefault((trace.xaxis or "x", trace.yaxis or "y"), []).append(trace)
    hidden: set[str] = set()
    for (_, up), traces in panels_of.items():
        names = list(dict.fromkeys(str(trace.name) for trace in traces if trace.name and len(trace.y) > 1))
        hidden |= {*names[MOST_CURVES:]}
        if figure.layout[f"yaxis{up[1:]}"].type == "log":
            continue
        numbers = [trace for trace in traces if np.asarray(trace.y).dtype.kind == "f"]
        sizes = [np.abs(trace.y) for trace in numbers]
        most = max((float(np.max(size, where=np.isfinite(size), initial=0.0)) for size in sizes), default=0.0)
        for trace in numbers:
            trace.y = drop_rounding(trace.y, max(most, 1.0) if most < ROUNDING else most)
    for trace in figure.data:
        if trace.name in hidden:
            trace.visible = "legendonly"
    return len(hidden)


def limit_lines(
    figure: go.Figure, bounds: Any, values: Any, colours: Sequence[int], *, row: int = 1, column: int = 1
) -> int:
    """Draw limits (K, 2) of K quantities as dashed lines where they are near the values, each in its colour.

    What several quantities have in common is drawn once, in grey. Returns how many lines these are.
    """
    import numpy as np

    near: dict[float, set[int]] = {}
    largest = max(float(np.max(np.abs(values), initial=0.0)), ROUNDING)
    for pair, colour in zip(bounds, colours, strict=True):
        for limit in map(float, pair):
            if abs(limit) <= NEAR * largest:
                near.setdefault(limit, set()).add(colour % len(COLOURS))
    for limit, of in near.items():
        line = {"dash": "dash", "width": 1, "color": COLOURS[of.pop() if len(of) == 1 else 7]}
        figure.add_hline(y=limit, line=line, row=row, col=column)
    return len(near)


def add_curve(
    figure: go.Figure,
    x: Any,
    y: Any,
    name: str = "",
    *,
    colour: int | None = None,
    dash: int | str = 0,
    scale: float | None = None,
    **more: Any,
) -> None:
    """Add a line or markers (``symbol``, ``size``) to a figure; ``colour`` and ``dash`` count through
    :data:`COLOURS` and :data:`DASHES`. With a ``scale``, the size of what it shows, rounding is drawn as zero.
    """
    y = y if scale is None else drop_rounding(y, scale)
    shade = {} if colour is None else {"color": COLOURS[colour % len(COLOURS)]}
    line = {"dash": DASHES[dash % len(DASHES)] if isinstance(dash, int) else dash, **shade, **more.pop("line", {})}
    marker: dict[str, Any] = {**shade, **more.pop("marker", {})}
    marker |= {key: more.pop(key) for key in ("symbol", "size") if key in more}
    figure.add_scatter(x=x, y=y, name=name, line=line, marker=marker, **{"mode": "lines", **more})


def share_y_range(figure: go.Figure, places: Iterable[tuple[int, int]]) -> None:
    """Give these panels (row, column) one linear y range, so that what they show compares; limits drawn so far too."""
    import numpy as np

    axes = [figure.get_subplot(row, column).yaxis for row, column in places]
    names = {axis.plotly_name.replace("axis", "") for axis in axes}
    values = [np.asarray(trace.y, dtype=float) for trace in figure.data if (trace.yaxis or "y") in names]
    # Horizontal lines go from one side of their panel to the other.
    values += [np.array([line.y0]) for line in figure.layout.shapes if line.yref in names and line.y0 == line.y1]
    shown = np.concatenate([one[np.isfinite(one)] for one in values]) if values else np.zeros(0)
    if shown.size == 0 or np.ptp(shown) == 0.0:
        return
    margin = 0.05 * float(np.ptp(shown))
    for axis in axes:
        axis.range = [float(shown.min()) - margin, float(shown.max()) + margin]


def add_line_key(figure: go.Figure, styles: Mapping[str, int | str], **more: Any) -> None:
    """Say in the legend what solid, dashed and dotted lines stand for."""
    for name, dash in styles.items():
        add_curve(figure, [None], [None], name, colour=7, dash=dash, **more)


def figures_html(figures: Sequence[tuple[go.Figure, str]]) -> str:
    """Plotly figures with their captions as one element of a notebook, with the script that draws them inside."""
    from plotly.offline import get_plotlyjs

    parts, height = [], 0
    for plot, caption in figures:
        own = int(plot.layout.height or 420)
        height += own + 60
        drawn = plot.to_html(full_html=False, include_plotlyjs=False, default_height=f"{own}px")
        parts.append(f"{drawn}<p>{escape(caption)}</p>")
    style = f"<style>body {{ font: 14px {FONT}; margin: 0; }} p {{ color: #5b6570; margin: 0 1em 1.5em; }}</style>"
    page = f"<!doctype html><meta charset='utf-8'>{style}<script>{get_plotlyjs()}</script>{''.join(parts)}"
    look = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{escape(page, quote=True)}" style="{look}" title="figures"></iframe>'


def lines(
    data: xarray.Dataset,
    names: str | Iterable[str],
    *,
    along: str = "time",
    title: str = "",
    y: str = "",
    height: int = 420,
) -> go.Figure:
    """Curves of one or several variables of a dataset along one of its dimensions.

    A variable with a second dimension gives one curve for each of that dimension's labels. All variables must have
    the same unit: what has another unit belongs into another figure.
    """
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in data:
            raise InputError(f"there is no variable {name!r}", hint=did_you_mean(name, map(str, data.data_vars)))
    units = {str(data[name].attrs.get("units", "")) for name in names}
    if len(units) > 1:
        raise InputError(f"{', '.join(names)} have different units: {', '.join(sorted(units))}")
    axis, unit = data[along], units.pop() if units else ""
    x, x_unit = str(axis.attrs.get("long_name", along)), str(axis.attrs.get("units", ""))
    y = y or ", ".join(_axis_name(data[name]) for name in names)
    found = [
        (text, values, one)
        for name in names
        for text, values, one in _curves(data[name], along, name if len(names) > 1 else "", unit)
    ]
    kinds = list(dict.fromkeys(one for *_, one in found))
    if len(kinds) > 1:  # joints that turn and joints that slide
        figure = panels([label(y, one) for one in kinds], height=height)
        figure.update_xaxes(title_text=label(x, x_unit))
        if title:
            figure.update_layout(title={"text": title, "x": 0.0, "xanchor": "left"}, margin={"t": 120})
        for text, values, one in found:
            add_curve(figure, axis.values, values, text, scale=0.0, row=1, col=1 + kinds.index(one))
        return figure
    figure = new_figure(x=x, x_unit=x_unit, y=y, y_unit=kinds[0] if kinds else "", title=title, height=height)
    for text, values, _ in found:
        add_curve(figure, axis.values, values, text, scale=0.0)
    return figure


def _axis_name(variable: xarray.DataArray) -> str:
    """What an axis calls a variable: its long name, or its name in words where that is a sentence."""
    text = str(variable.attrs.get("long_name", ""))
    return text if 0 < len(text) <= LONGEST_LABEL else humanise_name(str(variable.name))


def _units(variable: xarray.DataArray, other: str, unit: str) -> list[str]:
    """The unit of each curve: of a joint its own, where the variable has ``rad or m``."""
    count = variable.sizes[other]
    if other != "joint" or "joint_unit" not in variable.coords or not unit.startswith("rad") or " or " not in unit:
        return [unit] * count
    angles, slides = unit.split(" or ")
    return [angles if str(own) == "rad" else slides for own in variable["joint_unit"].values]


def _curves(variable: xarray.DataArray, along: str, prefix: str, unit: str) -> Iterable[tuple[str, Any, str]]:
    """Name, values and unit of each curve."""
    others = [str(dim) for dim in variable.dims if dim != along]
    if along not in variable.dims or len(others) > 1:
        raise InputError(
            f"{variable.name!r} has the dimensions {variable.dims}", hint=f"expected {along!r} and at most one more"
        )
    if not others:
        yield prefix or str(variable.name), variable.values, unit
        return
    (other,) = others
    names = variable[other].values if other in variable.coords else range(variable.sizes[other])
    for index, (name, own) in enumerate(zip(names, _units(variable, other, unit), strict=True)):
        yield f"{prefix} {name}".strip(), variable.isel({other: index}).values, own
