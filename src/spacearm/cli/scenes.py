"""``spacearm view``: a robot, or what a run left, in three dimensions."""

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
    """Write the scene of a robot or of results; say where it is, and open it where that is asked for."""
    folder = Path(what)
    if folder.is_dir():
        path = _results(folder, out)
    else:
        from spacearm.cli.robots import read_robot
        from spacearm.scene import scene_of

        scene = scene_of(read_robot(what, reading), configuration=configuration)
        path = scene.save(out or Path(tempfile.mkdtemp(prefix="spacearm-")) / SCENE)
    show(str(path))
    if browser and not webbrowser.open(path.resolve().as_uri()):
        raise InputError("no browser could be started", file=path, hint="open this file in one")
    return 0


def _results(folder: Path, out: Path | None) -> Path:
    page = folder / SCENE
    if not page.is_file():
        raise InputError("there is no scene in this folder", file=folder, hint=f"expected results with {SCENE}")
    if out is None:
        return page
    from spacearm.scene import Scene

    return Scene.load(page).save(out)
