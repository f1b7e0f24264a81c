"""Figures without a browser: the numbers that matplotlib draws are those of the figure."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.figure_files import draw, save_figure
from spacearm.figures import COLOURS, add_curve, limit_lines, new_figure, panels
from spacearm.report import write_result
from spacearm.report.write import read_plots
from spacearm.result import Figure, Result

matplotlib = pytest.importorskip("matplotlib")


def drawn(figure: object) -> object:
    return draw(figure.to_plotly_json())


def test_curves_keep_their_numbers_colours_and_names() -> None:
    figure = new_figure(x="time", x_unit="s", y="rate", y_unit="rad/s")
    add_curve(figure, [0.0, 1.0, 2.0], [3.0, np.nan, 5.0], "elbow<sub>1</sub>", colour=2, dash="dot")
    add_curve(figure, [0.0, 1.0], [1.0, 2.0], "wrist")
    (axes,) = drawn(figure).axes
    first, second = axes.lines
    np.testing.assert_array_equal(first.get_xydata(), [[0.0, 3.0], [1.0, np.nan], [2.0, 5.0]])
    assert matplotlib.colors.to_hex(first.get_color()) == COLOURS[2]
    assert matplotlib.colors.to_hex(second.get_color()) == COLOURS[0]
    assert first.get_linestyle() == ":"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time [s]", "rate [rad/s]")
    (legend,) = drawn(figure).legends
    assert [text.get_text() for text in legend.get_texts()] == [r"elbow$_{\mathrm{1}}$", "wrist"]


def test_maps_bars_and_histograms_keep_their_numbers() -> None:
    figure = panels(["map", "ranks", "errors", "links"])
    cells = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]])
    figure.add_heatmap(x=[0.0, 1.0, 2.0], y=["low", "high"], z=cells, showscale=False, row=1, col=1)
    figure.add_bar(x=["a", "b"], y=[3.0, 7.0], text=["3", "7"], row=1, col=2)
    figure.add_histogram(x=[0.1, 0.2, 1.5], xbins={"start": 0.0, "end": 2.0, "size": 1.0}, row=1, col=3)
    figure.add_scatter(x=[0.0, 1.0], y=[1.0, 2.0], stackgroup="energy", row=1, col=4)
    figure.add_scatter(x=[0.0, 1.0], y=[1.0, 1.0], stackgroup="energy", row=1, col=4)
    of_map, of_bars, of_errors, of_stack = drawn(figure).axes[:4]
    np.testing.assert_array_equal(of_map.collections[0].get_array().filled(np.nan), cells)
    assert [text.get_text() for text in of_map.get_yticklabels()] == ["low", "high"]
    assert [bar.get_height() for bar in of_bars.patches] == [3.0, 7.0]
    assert [bar.get_height() for bar in of_errors.patches] == [2.0, 1.0]
    np.testing.assert_array_equal(of_stack.lines[1].get_ydata(), [2.0, 3.0])  # stands on the first


def test_bars_of_several_traces_stand_side_by_side() -> None:
    figure = new_figure()
    figure.add_bar(x=["a", "b"], y=[3.0, 7.0], name="one")
    figure.add_bar(x=["a", "b"], y=[1.0, 2.0], name="two")
    (axes,) = drawn(figure).axes
    edges = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in axes.patches]
    assert [height for *_, height in edges] == [3.0, 7.0, 1.0, 2.0]
    np.testing.assert_allclose([first for first, *_ in edges], [-0.4, 0.6, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose([last for _, last, _ in edges], [0.0, 1.0, 0.4, 1.4], atol=1e-12)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b"]


def test_logarithmic_axes_and_ranges() -> None:
    figure = new_figure(x="frequency")
    add_curve(figure, [1.0, 10.0, 100.0], [1.0, 2.0, 3.0])
    figure.update_xaxes(type="log", range=[-1.0, 3.0])
    (axes,) = drawn(figure).axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == pytest.approx((0.1, 1000.0))


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_files_are_written_and_the_same_each_time(tmp_path: Path, ending: str) -> None:
    figure = Figure("rates", new_figure(x="time"))
    add_curve(figure.plot, [0.0, 1.0], [2.0, 3.0], "a & b <c>")
    path = figure.save(tmp_path / f"one.{ending}")
    assert path.stat().st_size > 1000
    if ending == "svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    if ending != "pdf":  # a PDF has the time in it
        assert path.read_bytes() == figure.save(tmp_path / f"two.{ending}").read_bytes()


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'\.bmp' is not a format for figures.*expected \.svg, \.pdf or \.png"):
        save_figure(new_figure(), tmp_path / "one.bmp")
    odd = new_figure()
    odd.add_violin(y=[1.0, 2.0])
    with pytest.raises(InputError, match="'violin' cannot be drawn without a browser"):
        save_figure(odd, tmp_path / "one.svg")
    with pytest.raises(InputError, match="cannot write there"):
        save_figure(new_figure(), tmp_path / "absent" / "one.svg")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_figures_of_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = new_figure(y="</script> rate")
    add_curve(plot, np.arange(3.0), np.arange(3.0), "x")
    write_result(Result("demo", figures=(Figure("rates", plot), Figure("more-rates", plot))), tmp_path / "out")
    assert json.loads(read_plots(tmp_path / "out" / "index.html")["rates"])["data"][0]["name"] == "x"
    assert main(["figures", str(tmp_path / "out"), "--format", "png", "-o", str(tmp_path / "slides")]) == 0
    assert sorted(path.name for path in (tmp_path / "slides").iterdir()) == ["more-rates.png", "rates.png"]
    assert "rates.png" in capsys.readouterr().out
    assert main(["figures", str(tmp_path)]) != 0
    assert "there are no figures in this folder" in capsys.readouterr().err


# -- what the browser shows and what is drawn are the same -----------------------------------------------------------


def assert_same_numbers(plot: object) -> None:
    """Every visible trace of a figure is there with its numbers, every axis with its label and range."""
    table = plot.to_plotly_json()
    canvas = draw(table)
    lines = [line for axes in canvas.axes for line in axes.lines]
    bars = [patch for axes in canvas.axes for patch in axes.patches if isinstance(patch, matplotlib.patches.Rectangle)]
    maps = [one for axes in canvas.axes for one in axes.collections if hasattr(one, "get_coordinates")]
    for trace in plot.data:
        if trace.visible not in (None, True):
            assert not any(line.get_label() == trace.name for line in lines)
            continue
        if trace.type == "scatter" and "lines" in (trace.mode or "lines"):
            x, y = (np.asarray(trace[name], dtype=float) for name in "xy")
            assert any(
                np.array_equal(line.get_xdata(), x, equal_nan=True)
                and np.array_equal(line.get_ydata(), y, equal_nan=True)
                for line in lines
            ), trace.name
        elif trace.type == "bar":
            across = trace.orientation == "h"
            base = np.zeros(len(trace.x)) if trace.base is None else np.asarray(trace.base)
            ends = base + np.asarray(trace.x if across else trace.y)
            found = [
                (b.get_x(), b.get_x() + b.get_width()) if across else (b.get_y(), b.get_y() + b.get_height())
                for b in bars
            ]
            np.testing.assert_allclose(found, np.column_stack([base, ends]))
        elif trace.type == "heatmap":
            z = np.asarray(trace.z, dtype=float)
            assert any(np.array_equal(one.get_array().filled(np.nan), z, equal_nan=True) for one in maps)
    for name, axis in table["layout"].items():
        if name.startswith(("xaxis", "yaxis")) and axis.get("title", {}).get("text"):
            way = name[0]
            assert any(getattr(axes, f"get_{way}label")() == axis["title"]["text"] for axes in canvas.axes)
        if name.startswith(("xaxis", "yaxis")) and axis.get("range") and axis.get("type") != "log":
            ends = [getattr(axes, f"get_{name[0]}lim")() for axes in canvas.axes]
            assert any(np.allclose(end, axis["range"]) for end in ends)


def overlapping(canvas: object) -> list[tuple[str, str]]:
    """Pairs of names on one axis that stand on one another, and titles with a power of ten on them."""
    canvas.draw_without_rendering()
    found = []
    for axes in canvas.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_offset_text().get_text():
                found.append(("offset", axis.get_offset_text().get_text()))
        names = [label for label in axes.get_xticklabels() if label.get_text()]
        if any(name.get_rotation() for name in names):
            continue
        boxes = sorted(((name.get_window_extent(), name.get_text()) for name in names), key=lambda one: one[0].x0)
        found += [(a[1], b[1]) for a, b in itertools.pairwise(boxes) if a[0].x1 > b[0].x0]
    return found


def test_bars_of_a_timeline_start_where_their_stages_begin() -> None:
    from spacearm.mission._figures import _margins, _timeline
    from spacearm.mission._outcomes import StageOutcome
    from spacearm.result import Limit

    names = ("torque limit", "rate limit", "range limit", "wheel saturated", "travel exceeded", "propellant out")
    limits = [Limit(name, 0.1 * k, 1.0) for k, name in enumerate(names)]
    outcomes = [StageOutcome("approach", 0.0, 20.0, limits), StageOutcome("catch", 20.0, 50.0, limits[:3])]
    for plot in (_timeline(outcomes), _margins(outcomes)):
        assert_same_numbers(plot)
        assert overlapping(drawn(plot)) == []
    (axes, *_) = drawn(_timeline(outcomes)).axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0.0, 20.0), (20.0, 30.0)]


def test_figures_of_a_run_are_drawn_as_the_page_has_them() -> None:
    from spacearm.simulate import Phase, State, simulate
    from spacearm.simulate.run.figures import figures
    from support.arms import arm

    robot = arm(3)
    run = simulate(robot, State.at_rest(robot), [Phase(0.2, forces={robot.joint_names[0]: 1.0})])
    for figure in figures(run):
        assert_same_numbers(figure.plot)
        assert overlapping(drawn(figure.plot)) == []


def test_limits_are_within_the_axes_as_on_the_page() -> None:
    """Files had axes of the curves alone: a caption spoke of dashed lines, and there was none."""
    from matplotlib.colors import to_hex

    figure = new_figure(x="time", y="speed")
    add_curve(figure, [0.0, 1.0], [0.0, 2.0], colour=0)
    add_curve(figure, [0.0, 1.0], [0.0, 1.0], colour=1)
    assert limit_lines(figure, [(-3.0, 5.0), (-3.0, 4.0)], np.array([[2.0, 1.0]]), range(2)) == 3
    (axes,) = drawn(figure).axes
    assert axes.get_ylim() == pytest.approx((-3.0, 5.0), abs=0.1)
    dashed = {line.get_ydata()[0]: to_hex(line.get_color()) for line in axes.lines if line.get_linestyle() == "--"}
    assert dashed == {-3.0: COLOURS[7], 5.0: COLOURS[0], 4.0: COLOURS[1]}
    figure.update_yaxes(range=[0.0, 2.0])
    assert drawn(figure).axes[0].get_ylim() == (0.0, 2.0)


def test_small_numbers_have_no_power_of_ten_over_the_title() -> None:
    figure = new_figure(x="time", y="rate", title="Rate")
    add_curve(figure, [0.0, 1.0], [0.0, 3e-14])
    (axes,) = (canvas := drawn(figure)).axes
    canvas.draw_without_rendering()
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert any("10⁻¹⁴" in label.get_text() for label in axes.get_yticklabels())


def test_curves_that_the_page_hides_are_hidden_and_steps_are_steps() -> None:
    figure = new_figure()
    add_curve(figure, [0.0, 1.0], [0.0, 1.0], "shown", line={"shape": "hv"})
    add_curve(figure, [0.0, 1.0], [0.0, 2.0], "hidden", visible="legendonly")
    (axes,) = drawn(figure).axes
    assert [(line.get_label(), line.get_drawstyle()) for line in axes.lines] == [("shown", "steps-post")]


def test_circles_are_circles_and_maps_have_edges() -> None:
    figure = new_figure()
    figure.add_heatmap(x=[0.0, 1.0, 3.0], y=[0.0, 2.0], z=[[1.0, 2.0]], showscale=False)
    figure.add_shape(type="circle", x0=-2.0, x1=2.0, y0=-2.0, y1=2.0)
    (axes,) = drawn(figure).axes
    (circle,) = axes.patches
    assert (circle.get_center(), circle.get_width(), circle.get_height()) == ((0.0, 0.0), 4.0, 4.0)
    np.testing.assert_array_equal(axes.collections[0].get_coordinates()[0, :, 0], [0.0, 1.0, 3.0])


@pytest.mark.parametrize(
    "trace",
    [
        {"type": "pie", "values": [1.0]},
        {"type": "bar", "x": [1.0], "y": [2.0], "offset": [3.0]},
        {"type": "scatter", "x": [1.0], "y": [2.0], "line": {"shape": "spline"}},
        {"type": "scatter", "x": [1.0], "y": [2.0], "line": {"smoothing": 1.0}},
    ],
)
def test_what_cannot_be_drawn_is_an_error_and_not_left_out(trace: dict[str, object]) -> None:
    with pytest.raises(InputError, match="cannot be drawn without a browser"):
        draw({"data": [trace], "layout": {}})


def test_every_kind_of_trace_in_the_sources_can_be_drawn() -> None:
    import re

    import spacearm
    from spacearm.figure_files import DRAWABLE_PROPERTIES, _MatplotlibFigure

    kinds = set()
    for file in Path(spacearm.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "plotly" in text or "figures" in text:
            kinds |= set(
                re.findall(
                    r"\.add_(bar|box|contour|heatmap|histogram|scatter|scatter3d|surface|table|violin|pie)\(", text
                )
            )
            kinds |= {
                name.lower() for name in re.findall(r"\bgo\.(Bar|Heatmap|Histogram|Scatter\w*|Mesh3d|Surface)\(", text)
            }
    assert {"bar", "heatmap", "histogram", "scatter"} <= kinds
    for kind in kinds:
        assert kind in DRAWABLE_PROPERTIES
        assert hasattr(_MatplotlibFigure, f"_{kind}")
