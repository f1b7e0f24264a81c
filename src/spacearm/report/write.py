"""Writes a result as a folder that needs no network to be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacearm.report import page
from spacearm.report.folder import FIGURES, INDEX, publish
from spacearm.result import Figure, Result

PLOTLY = "plotly.min.js"


def write_result(result: Result, folder: Path | str) -> Path:
    """Write ``results.json``, ``data.nc``, the figures and ``index.html``; the path of ``index.html``.

    The folder appears only when all of it is written (see :func:`spacearm.report.publish`). ``data.nc`` and the
    figures are left out when the result has none. Older results of the same study are replaced, those of another are
    an :class:`~spacearm.errors.InputError`. ``results.json`` also has the ``title`` and the list of ``files``.
    """
    folder = Path(folder)
    with publish(folder, result.study) as staging:
        write_files(result, staging)
    return folder / "index.html"


def write_files(result: Result, folder: Path, *, made_from: str = "") -> None:
    """Write the files of a result into an empty folder; ``made_from`` goes into ``results.json`` (see :mod:`.kept`)."""
    if result.data is not None:
        # To memory first: HDF5 ends the process when the disk is full while it closes a file.
        (folder / "data.nc").write_bytes(result.data.to_netcdf(engine="h5netcdf"))
    for name, content in result.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    plots = {figure.name: plot_json(figure) for figure in result.figures}
    if plots:
        from plotly.offline import get_plotlyjs

        library = get_plotlyjs()
        (folder / PLOTLY).write_text(library, encoding="utf-8")
        (folder / FIGURES).mkdir()
        for figure in result.figures:
            html = page.render_figure(figure, plots[figure.name], library)
            (folder / FIGURES / f"{figure.name}.html").write_text(html, encoding="utf-8")
    html = page.render_result(result, plots, plotly=PLOTLY, data=result.data is not None)
    (folder / "index.html").write_text(html, encoding="utf-8")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    table = {**result.to_json(), "title": result.title, "made_from": made_from, "files": [*files, "results.json"]}
    text = json.dumps(table, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")


def plot_json(figure: Figure) -> str:
    """The figure as JSON that may stand inside a ``script`` element."""
    text: str = figure.plot.to_json()
    return text.replace("<", "\\u003c")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the index: a study, its page beside the index, and its result, or why there is none."""

    name: str
    title: str
    result: Result | None = None
    page: str = ""
    missing: str = ""


def write_index(entries: Sequence[Entry], folder: Path | str, *, title: str = "Reproduction of the papers") -> Path:
    """Write ``index.html`` and ``summary.json`` over several studies; the path of ``index.html``."""
    folder = Path(folder)
    summary: list[Mapping[str, Any]] = [
        {
            "study": entry.name,
            "title": entry.title,
            "page": entry.page,
            "sound": None if entry.result is None else entry.result.sound,
            "verdicts": {} if entry.result is None else {k.value: n for k, n in entry.result.counts().items()},
            "missing": entry.missing,
        }
        for entry in entries
    ]
    with publish(folder, INDEX) as staging:
        (staging / "index.html").write_text(page.render_index(entries, title), encoding="utf-8")
        text = json.dumps({"studies": summary}, indent=2, allow_nan=False, ensure_ascii=False)
        (staging / "summary.json").write_text(text + "\n", encoding="utf-8")
    return folder / "index.html"
