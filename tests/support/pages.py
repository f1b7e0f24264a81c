"""Opens pages of results in a real browser and looks at them."""

from __future__ import annotations

from pathlib import Path

from spacearm.report import write_result
from spacearm.result import Result
from support.chromium import LOOK, Browser, Page, chromium
from support.figure_rules import result_faults

#: Plots that are drawn and show something: marks in a plot's area, or a canvas.
FULL = """[...document.querySelectorAll(".plot")].filter((plot) =>
  plot.querySelector(".overplot path, .overplot image, canvas, .table")).length"""
ALL = "document.querySelectorAll('.plot').length"
#: Top of what is to be seen first, and how much of it is on the first screen.
FIRST = """(() => {
  const box = document.querySelector(".scene, .plot").getBoundingClientRect();
  return Math.max(0, Math.min(box.bottom, innerHeight) - Math.max(box.top, 0));
})()"""
#: Labels, titles, notes and names in a figure that stand on one another or leave it.
CROWDED = """(() => {
  const found = [];
  for (const plot of document.querySelectorAll(".plot")) {
    const kinds = ".gtitle, .xtitle, .ytitle, [class*='title']:is(text), .annotation-text, .legendtext";
    const texts = [...new Set(plot.querySelectorAll(kinds))].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const whole = plot.getBoundingClientRect();
    boxes.forEach(([name, box], i) => {
      const out = box.left < whole.left - 2 || box.right > whole.right + 2;
      if (box.width && out) found.push(`${name} leaves its figure`);
      for (const [other, next] of boxes.slice(i + 1)) {
        const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        if (wide > 2 && high > 2 && name !== other) found.push(`${name} stands on ${other}`);
      }
    });
  }
  return found;
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
        assert width < 1000 or page.run(CROWDED) == []
        assert page.faults() == []
        assert page.requests() == []


def check_pages(result: Result, folder: Path) -> None:
    """Write a result and look at its page and its scene."""
    assert result_faults(result) == []
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
