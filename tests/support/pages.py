"""Opens pages of results in a real browser and looks at them."""

from __future__ import annotations

from pathlib import Path

from spacearm.report import write_result
from spacearm.result import Result
from support.chromium import LOOK, Browser, Page, chromium

#: Plots that are drawn and show something: marks in a plot's area, or a canvas.
FULL = """[...document.querySelectorAll(".plot")].filter((plot) =>
  plot.querySelector(".overplot path, .overplot image, canvas, .table")).length"""
ALL = "document.querySelectorAll('.plot').length"
#: Top of what is to be seen first, and how much of it is on the first screen.
FIRST = """(() => {
  const box = document.querySelector(".scene, .plot").getBoundingClientRect();
  return Math.max(0, Math.min(box.bottom, innerHeight) - Math.max(box.top, 0));
})()"""
SQUEEZED = "document.documentElement.scrollWidth > innerWidth + 1"


def look_at(browser: Browser, file: Path) -> None:
    """An index or a result's page: drawn on wide and narrow, light and dark screens, without faults or requests."""
    for width, dark in ((1280, False), (400, True)):
        browser.events.clear()
        page = Page(browser, file, width, dark=dark)
        page.wait(f"{FULL} > 0 || {ALL} === 0")
        if page.run("!!document.querySelector('.scene, .plot')"):
            assert page.run(FIRST) > 200, "neither scene nor figure on the first screen"
        page.run("dispatchEvent(new Event('beforeprint'))")  # what is further down, and folded
        page.wait(f"{FULL} === {ALL}")
        assert not page.run(SQUEEZED), f"wider than a screen of {width} pixels"
        assert page.faults() == []
        assert page.requests() == []


def check_pages(result: Result, folder: Path) -> None:
    """Write a result and look at its page and its scene."""
    with chromium(folder / "profile") as browser:
        file = write_result(result, folder / "out")
        look_at(browser, file)
        if result.scene is not None:
            browser.events.clear()
            page = Page(browser, file.parent / "scene.html")
            page.wait("!!document.querySelector('spacearm-scene').actors")
            assert 0.005 < page.run(LOOK)["share"] < 0.98
            assert page.faults() == []
            assert page.requests() == []
