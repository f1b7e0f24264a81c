"""Pages of results in a real browser: a run with its scene, and an index over several studies."""

from __future__ import annotations

from pathlib import Path

from spacearm.figures import add_curve, new_figure
from spacearm.report import write_result
from spacearm.report.folder import publish
from spacearm.report.write import PLOTLY, IndexEntry, share_script, write_files, write_index
from spacearm.result import Figure, Result
from spacearm.study import run_scenario
from support import ROOT
from support.chromium import Page, chromium
from support.pages import CROWDED, check_pages, look_at


def test_a_run_and_an_index(tmp_path: Path) -> None:
    result = run_scenario(ROOT / "examples" / "tumble.toml")
    check_pages(result, tmp_path)
    with publish(tmp_path / "all" / "one", "motion") as staging:
        write_files(result, staging, plotly=f"../{PLOTLY}")
    share_script(tmp_path / "all")
    entries = [IndexEntry("one", "One", result, "one/index.html"), IndexEntry("two", "Two", missing="failed")]
    index = write_index(entries, tmp_path / "all")
    with chromium(tmp_path / "profile") as browser:
        look_at(browser, index)
        look_at(browser, tmp_path / "all" / "one" / "index.html")
        (tmp_path / "all" / PLOTLY).unlink()  # a folder that was copied alone says what it lacks
        page = Page(browser, tmp_path / "all" / "one" / "index.html")
        assert "needs ../plotly.min.js" in page.run("document.querySelector('.plot').textContent")


def test_titles_that_stand_on_one_another_are_found(tmp_path: Path) -> None:
    plot = new_figure(x="time", x_unit="s", y="force", y_unit="N", title="Forces at the hand")
    add_curve(plot, [0.0, 1.0], [0.0, 1.0], "a name in the legend", showlegend=True)
    file = write_result(Result("demo", figures=[Figure("forces", plot)]), tmp_path / "out")
    with chromium(tmp_path / "profile") as browser:
        page = Page(browser, file)
        page.wait("!!document.querySelector('.plot .ytitle')")
        assert page.run(CROWDED) == []
        place = "x: 0, y: 1, xref: 'paper', yref: 'paper', xanchor: 'left', yanchor: 'bottom', showarrow: false"
        notes = f"{{ annotations: [{{ text: 'a note', {place} }}] }}"
        page.run(f"Plotly.relayout(document.querySelector('.plot'), {notes}).then(() => 1)")
        assert page.run(CROWDED) != []
