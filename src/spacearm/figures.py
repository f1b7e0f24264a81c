"""The common look of all figures, and short ways to draw them.

Backgrounds are transparent and text colours are set by the page, so that one figure serves light and dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from spacearm.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import xarray

#: Eight colours that stay apart for colour-blind readers and on light and dark ground (after Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#a08a00", "#7f7f7f")
#: Line styles, in the order in which curves of one colour take them.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif"
GRID = "rgba(127, 127, 127, 0.25)"
AXIS = "rgba(127, 127, 127, 0.7)"
CLEAR = "rgba(0, 0, 0, 0)"


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


def curve(
    figure: go.Figure, x: Any, y: Any, name: str = "", *, colour: int | None = None, dash: int | str = 0, **more: Any
) -> None:
    """Add a line or markers (``symbol``, ``size``) to a figure; ``colour`` and ``dash`` count through
    :data:`COLOURS` and :data:`DASHES`.
    """
    shade = {} if colour is None else {"color": COLOURS[colour % len(COLOURS)]}
    line = {"dash": DASHES[dash % len(DASHES)] if isinstance(dash, int) else dash, **shade, **more.pop("line", {})}
    marker: dict[str, Any] = {**shade, **more.pop("marker", {})}
    marker |= {key: more.pop(key) for key in ("symbol", "size") if key in more}
    figure.add_scatter(x=x, y=y, name=name, line=line, marker=marker, **{"mode": "lines", **more})


def key_to_lines(figure: go.Figure, styles: Mapping[str, int | str], **more: Any) -> None:
    """Say in the legend what solid, dashed and dotted lines stand for."""
    for name, dash in styles.items():
        curve(figure, [None], [None], name, colour=7, dash=dash, **more)


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
    axis = data[along]
    figure = new_figure(
        x=str(axis.attrs.get("long_name", along)),
        x_unit=str(axis.attrs.get("units", "")),
        y=y or ", ".join(str(data[name].attrs.get("long_name", name)) for name in names),
        y_unit=units.pop() if units else "",
        title=title,
        height=height,
    )
    for name in names:
        for text, values in _curves(data[name], along, name if len(names) > 1 else ""):
            curve(figure, axis.values, values, text)
    return figure


def _curves(variable: xarray.DataArray, along: str, prefix: str) -> Iterable[tuple[str, Any]]:
    others = [str(dim) for dim in variable.dims if dim != along]
    if along not in variable.dims or len(others) > 1:
        raise InputError(
            f"{variable.name!r} has the dimensions {variable.dims}", hint=f"expected {along!r} and at most one more"
        )
    if not others:
        yield prefix or str(variable.name), variable.values
        return
    (other,) = others
    names = variable[other].values if other in variable.coords else range(variable.sizes[other])
    for index, name in enumerate(names):
        yield f"{prefix} {name}".strip(), variable.isel({other: index}).values
