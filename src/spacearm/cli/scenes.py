"""``spacearm view``: a robot or the results of a run in three dimensions."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from spacearm.cli.terminal import show
from spacearm.errors import InputError

if TYPE_CHECKING:
    from spacearm.model.intake import Reading

#: Where a folder of results keeps its scene.
SCENE = "scene.html"


def view(what: str, out: Path | None, *, reading: Reading, configuration: str, browser: bool) -> int:
    """Write the scene of a robot, or find that of results; say where it is, and open it where that is asked for."""
    page = _results(Path(what), out) if Path(what).is_dir() else _robot(what, out, reading, configuration)
    show(str(page))
    if browser and not webbrowser.open(page.resolve().as_uri()):
        raise InputError("no browser could be started", file=page, hint="open this file in one")
    return 0


def _results(folder: Path, out: Path | None) -> Path:
    from spacearm.model.files import write_atomically

    page = folder / SCENE
    if not page.is_file():
        raise InputError("there is no scene in this folder", file=folder, hint=f"expected results with {SCENE}")
    if out is None:
        return page
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError("the scene of results is a page", file=out, hint="expected a name that ends in .html")
    write_atomically(out, page.read_text(encoding="utf-8"))
    return out


def _robot(name: str, out: Path | None, reading: Reading, configuration: str) -> Path:
    from spacearm.cli.robots import read_robot
    from spacearm.scene import scene_of

    robot = read_robot(name, reading)
    path = out or Path(tempfile.mkdtemp(prefix="spacearm-")) / SCENE
    return scene_of(robot, configuration=configuration).save(path)
