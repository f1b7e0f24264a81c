"""Pages of the papers: figures of the paper, one scale for panels that compare, one colour for one case."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.figures import add_curve, panels, share_y_range
from spacearm.papers import PAPERS
from spacearm.report._page import render_result
from spacearm.result import Figure, PrintedFigure, Result
from spacearm.text_format import mathematics_html


def test_a_page_says_which_figure_of_the_paper_is_which() -> None:
    plots = [Figure("one", None), Figure("two", None)]
    own = [PrintedFigure("Fig. 3", "curves", ["two"]), PrintedFigure("Fig. 4", "a sketch of it", why="a sketch")]
    page = render_result(Result("demo", figures=plots, printed_figures=own), {"one": "{}", "two": "{}"})
    assert '<a href="#two">figure 2</a>' in page
    assert "a sketch of it" in page
    with pytest.raises(InputError, match="there is no figure 'three'"):
        Result("demo", figures=plots, printed_figures=[PrintedFigure("Fig. 5", "more", ["three"])])
    with pytest.raises(InputError, match="neither our figure nor a reason"):
        PrintedFigure("Fig. 6", "nothing")


def test_panels_that_compare_have_one_scale() -> None:
    plot = panels(("a", "b", "c"))
    for column, size in enumerate((1.0, 10.0, 100.0), 1):
        add_curve(plot, [0.0, 1.0], [-size, size], "x", row=1, col=column)
    share_y_range(plot, [(1, 1), (1, 2)])
    ranges = [axis.range for axis in (plot.layout.yaxis, plot.layout.yaxis2, plot.layout.yaxis3)]
    assert ranges == [(-11.0, 11.0), (-11.0, 11.0), None]


def test_symbols_with_subscripts_are_set_as_such() -> None:
    assert mathematics_html("h² ≤ H Σ m_i, a < J_A.") == "h² ≤ H Σ <i>m</i><sub>i</sub>, a &lt; <i>J</i><sub>A</sub>."
    assert (
        mathematics_html("joint1.rotation_y: bias.rigid_torque.x_y.z") == "joint1.rotation_y: bias.rigid_torque.x_y.z"
    )


@pytest.fixture(scope="module")
def yoshida() -> Result:
    return PAPERS["yoshida1992"].reproduce()


def test_a_case_has_one_colour_in_all_figures(yoshida: Result) -> None:
    colours: dict[str, set[str]] = {"free": set(), "fixed": set(), "half": set()}
    for figure in yoshida.figures:
        for trace in figure.plot.data:
            for name, found in colours.items():
                if (trace.name or "").startswith(name):
                    found.add(trace.line.color)
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 3


def test_a_page_has_no_ascii_mathematics(yoshida: Result) -> None:
    texts = [yoshida.summary, *(row.note for row in yoshida.rows), *(figure.caption for figure in yoshida.figures)]
    assert not [text for text in texts if any(sign in text for sign in ("^", "<=", "sqrt", "+-"))]
    assert np.all([figure.caption for figure in yoshida.figures])
