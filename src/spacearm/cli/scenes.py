"""``spacearm view`` and ``spacearm figures``: a robot or a run in three dimensions, figures for papers and slides."""

from __future__ import annotations

import json
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from spacearm.cli.terminal import show
from spacearm.errors import InputError

if TYPE_CHECKING:
    from spacearm.model.robot_import import Reading

#: File of the scene in a folder of results.
SCENE = "scene.html"


def view(what: str, out: Path | None, *, reading: Reading, configuration: str, browser: bool) -> int:
    """Write the scene of a robot or of results, print its path, and open it on request."""
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
        raise InputError("no browser could be started", file=path, hint="open the file yourself")
    return 0


def _results(folder: Path, out: Path | None) -> Path:
    page = folder / SCENE
    if not page.is_file():
        raise InputError("there is no scene in this folder", file=folder, hint=f"expected results with {SCENE}")
    if out is None:
        return page
    from spacearm.scene import Scene

    return Scene.load(page).save(out)


def figures(folder: Path, out: Path | None, ending: str) -> int:
    """Write the figures of a folder of results as files, by default next to its page, and print their paths."""
    from spacearm.figure_files import save_figure
    from spacearm.report.write import read_plots

    page = folder / "index.html"
    plots = read_plots(page) if (folder / "results.json").is_file() and page.is_file() else {}
    if not plots:
        raise InputError("there are no figures in this folder", file=folder, hint="expected results with figures")
    target = out or folder / "figures"
    target.mkdir(parents=True, exist_ok=True)
    for name, plot in plots.items():
        show(str(save_figure(json.loads(plot), target / f"{name}.{ending}")))
    return 0
