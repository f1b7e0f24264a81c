"""Writes a result as a folder that needs no network to be read."""

from __future__ import annotations

import base64
import filecmp
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figure_files import MARKS
from spacearm.model.files import write_atomically
from spacearm.report import _page
from spacearm.report.folder import INDEX, publish
from spacearm.result import Figure, Result

if TYPE_CHECKING:
    import xarray

PLOTLY = "plotly.min.js"
SCENE = "scene.html"


def write_result(result: Result, folder: Path | str) -> Path:
    """Write ``results.json``, ``data.nc`` and ``index.html`` with its figures; the path of ``index.html``.

    The folder appears only when all of it is written (see :func:`spacearm.report.folder.publish`). ``data.nc`` and the
    figures are left out when the result has none. Older results of the same study are replaced, those of another are
    an :class:`~spacearm.errors.InputError`. ``results.json`` also has the ``title`` and the list of ``files``.
    """
    folder = Path(folder)
    with publish(folder, result.study) as staging:
        write_files(result, staging)
    return folder / "index.html"


def write_files(result: Result, folder: Path, *, made_from: str = "", plotly: str = "") -> None:
    """Write the files of a result into an empty folder.

    ``made_from`` goes into ``results.json`` (see :mod:`.kept`). ``plotly`` is where the folder's page finds the script
    that draws its figures; where it is left out, the folder gets one of its own (see :func:`share_script`).
    """
    if result.data is not None:
        (folder / "data.nc").write_bytes(netcdf(result.data))
    for name, content in result.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    if result.scene is not None:
        (folder / SCENE).write_text(result.scene.html(result.title or result.study), encoding="utf-8")
    plots = {figure.name: plot_json(figure) for figure in result.figures}
    if plots and not plotly:
        share_script(folder)
    html = _page.render_result(result, plots, plotly=plotly or PLOTLY, data=result.data is not None)
    (folder / "index.html").write_text(html, encoding="utf-8")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    table = {
        **result.to_json(),
        "title": result.title,
        "headline": result.headline,
        "source": result.source,
        "made_from": made_from,
        "files": [*files, "results.json"],
    }
    text = json.dumps(table, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")


def netcdf(data: xarray.Dataset) -> bytes:
    """A dataset as NetCDF 4, compressed. In memory: HDF5 ends the process when a disk is full as it closes a file."""
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    encoding = {
        name: packed for name, values in data.variables.items() if values.size > 64 and values.dtype.kind in "fiub"
    }
    return bytes(data.to_netcdf(engine="h5netcdf", encoding=encoding))


def share_script(folder: Path) -> Path:
    """Put the script that draws figures into a folder, for its own page and those of folders in it."""
    import plotly

    source, target = Path(plotly.__file__).parent / "package_data" / PLOTLY, folder / PLOTLY
    if not (target.is_file() and filecmp.cmp(source, target, shallow=False)):
        write_atomically(target, source.read_bytes())
    return target


def plot_json(figure: Figure) -> str:
    """The figure as JSON that may stand inside a ``script`` element."""
    text: str = figure.plot.to_json()
    # Plotly reads marks in labels, links among them: those that figures use stay, a name's are shown as written.
    # A pair of backslashes is one of the text's own, with whose second no escape begins.
    foreign = rf"\\\\|(?:<|\\u003c)(?!(?:/|\\u002f)?{MARKS}(?:>|\\u003e))"
    shown = re.sub(foreign, lambda found: found[0] if found[0] == r"\\" else "&lt;", text)
    return re.sub(r'"dtype":"f8","bdata":"([^"]*)"', _single_precision, shown).replace("<", "\\u003c")


def _single_precision(found: re.Match[str]) -> str:
    """Numbers of a curve in single precision: finer than any screen, and half the size."""
    values = np.frombuffer(base64.b64decode(found[1].replace(r"\u002f", "/")), "<f8").astype("<f4")
    return f'"dtype":"f4","bdata":"{base64.b64encode(values.tobytes()).decode()}"'


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the index: a study, its page beside the index, and its result, or why there is none."""

    name: str
    title: str
    result: Result | None = None
    page: str = ""
    missing: str = ""
    picture: str = ""  # JSON of the figure that is shown


def read_plots(page_file: Path) -> dict[str, str]:
    """The figures of a result's page: their JSON by name."""
    marked = r'<script type="application/json" id="json-([\w-]+)">(.*?)</script>'
    return dict(re.findall(marked, page_file.read_text(encoding="utf-8"), re.DOTALL))


def _first_plot(page_file: Path) -> str:
    return next(iter(read_plots(page_file).values()), "")


def write_index(
    entries: Sequence[IndexEntry], folder: Path | str, *, title: str = "Reproduction of the papers"
) -> Path:
    """Write ``index.html`` and ``summary.json`` over several studies; the path of ``index.html``.

    Each study is shown with the first figure of its page, drawn by the script that :func:`share_script` put there.
    """
    folder = Path(folder)
    summary: list[Mapping[str, Any]] = [
        {
            "study": entry.name,
            "title": entry.title,
            "page": entry.page,
            "sound": None if entry.result is None else entry.result.sound,
            "limits": None if entry.result is None else entry.result.verdict_words,
            "verdicts": {} if entry.result is None else {k.value: n for k, n in entry.result.counts().items()},
            "missing": entry.missing,
        }
        for entry in entries
    ]
    drawn = [replace(entry, picture=_first_plot(folder / entry.page)) if entry.page else entry for entry in entries]
    with publish(folder, INDEX) as staging:
        (staging / "index.html").write_text(_page.render_index(drawn, title, PLOTLY), encoding="utf-8")
        text = json.dumps({"studies": summary}, indent=2, allow_nan=False, ensure_ascii=False)
        (staging / "summary.json").write_text(text + "\n", encoding="utf-8")
    return folder / "index.html"
