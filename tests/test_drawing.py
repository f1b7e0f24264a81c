"""Figures without a browser: the numbers that matplotlib draws are those of the figure."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.drawing import draw, save_figure
from spacearm.errors import InputError
from spacearm.figures import COLOURS, curve, new_figure, panels
from spacearm.report import plots_of, write_result
from spacearm.result import Figure, Result

matplotlib = pytest.importorskip("matplotlib")


def drawn(figure: object) -> object:
    return draw(figure.to_plotly_json())


def test_curves_keep_their_numbers_colours_and_names() -> None:
    figure = new_figure(x="time", x_unit="s", y="rate", y_unit="rad/s")
    curve(figure, [0.0, 1.0, 2.0], [3.0, np.nan, 5.0], "elbow<sub>1</sub>", colour=2, dash="dot")
    curve(figure, [0.0, 1.0], [1.0, 2.0], "wrist")
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
    curve(figure, [1.0, 10.0, 100.0], [1.0, 2.0, 3.0])
    figure.update_xaxes(type="log", range=[-1.0, 3.0])
    (axes,) = drawn(figure).axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == pytest.approx((0.1, 1000.0))


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_files_are_written_and_the_same_each_time(tmp_path: Path, ending: str) -> None:
    figure = Figure("rates", new_figure(x="time"))
    curve(figure.plot, [0.0, 1.0], [2.0, 3.0], "a & b <c>")
    path = figure.save(tmp_path / f"one.{ending}")
    assert path.stat().st_size > 1000
    if ending == "svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    if ending != "pdf":  # a PDF has the time in it
        assert path.read_bytes() == figure.save(tmp_path / f"two.{ending}").read_bytes()


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'\.bmp' is no format of figures.*expected \.svg, \.pdf or \.png"):
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
    curve(plot, np.arange(3.0), np.arange(3.0), "x")
    write_result(Result("demo", figures=(Figure("rates", plot), Figure("more-rates", plot))), tmp_path / "out")
    assert json.loads(plots_of(tmp_path / "out" / "index.html")["rates"])["data"][0]["name"] == "x"
    assert main(["figures", str(tmp_path / "out"), "--format", "png", "-o", str(tmp_path / "slides")]) == 0
    assert sorted(path.name for path in (tmp_path / "slides").iterdir()) == ["more-rates.png", "rates.png"]
    assert "rates.png" in capsys.readouterr().out
    assert main(["figures", str(tmp_path)]) != 0
    assert "there are no figures in this folder" in capsys.readouterr().err
