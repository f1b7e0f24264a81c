"""Takes the pictures of docs/gallery.md: the first screen of pages of results, in a Chromium without a window.

    spacearm run examples/tumble.toml -o pages/motion
    spacearm reproduce all -o pages/papers
    python tools/gallery.py motion=pages/motion index=pages/papers xu2017=pages/papers/xu2017

Each NAME=FOLDER becomes docs/_static/gallery/NAME.png. The map of the gallery is a figure: ``spacearm figures DIR``.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.chromium import Browser, Page, find  # noqa: E402

#: Pixels of the screen, and of a picture's width.
SCREEN, TALL, WIDTH = (1280, 800), (1280, 1000), 800
#: s for figures and scenes to be drawn.
PATIENCE = 3.0


def take_picture(browser: Browser, name: str, folder: Path) -> Path:
    """Write the picture of one page; its path."""
    page = Page(browser, folder / "index.html", *(TALL if name == "index" else SCREEN))
    page.wait("!document.querySelector('.plot') || !!document.querySelector('.plot .main-svg, .plot canvas')")
    browser.listen(PATIENCE)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture = picture.resize((WIDTH, round(WIDTH * picture.height / picture.width)), Image.Resampling.LANCZOS)
    file = ROOT / "docs" / "_static" / "gallery" / f"{name}.png"
    picture.quantize(256).save(file, optimize=True)
    return file


def main() -> int:
    program = find()
    if program is None or not sys.argv[1:]:
        print(__doc__ if program else "no Chromium on this machine", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, Path(profile))
        try:
            for given in sys.argv[1:]:
                name, _, folder = given.partition("=")
                print(take_picture(browser, name, Path(folder)))
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
