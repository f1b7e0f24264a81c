"""Pages of results in a real browser: a run with its scene, and an index over several studies."""

from __future__ import annotations

from pathlib import Path

from spacearm.report import write_index
from spacearm.report.folder import publish
from spacearm.report.write import PLOTLY, Entry, share_script, write_files
from spacearm.study import run_scenario
from support import ROOT
from support.chromium import Page, chromium
from support.pages import check_pages, look_at


def test_a_run_and_an_index(tmp_path: Path) -> None:
    result = run_scenario(ROOT / "examples" / "tumble.toml")
    check_pages(result, tmp_path)
    with publish(tmp_path / "all" / "one", "motion") as staging:
        write_files(result, staging, plotly=f"../{PLOTLY}")
    share_script(tmp_path / "all")
    entries = [Entry("one", "One", result, "one/index.html"), Entry("two", "Two", missing="failed")]
    index = write_index(entries, tmp_path / "all")
    with chromium(tmp_path / "profile") as browser:
        look_at(browser, index)
        look_at(browser, tmp_path / "all" / "one" / "index.html")
        (tmp_path / "all" / PLOTLY).unlink()  # a folder that was copied alone says what it lacks
        page = Page(browser, tmp_path / "all" / "one" / "index.html")
        assert "needs ../plotly.min.js" in page.run("document.querySelector('.plot').textContent")
