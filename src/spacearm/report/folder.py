"""Output folders that appear only when complete."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spacearm.errors import InputError, SpacearmError, quote_text
from spacearm.report._swap import clean, folder_lock, install, nearest_folder, work_folder

#: Return value of :func:`study_in_folder` for a folder whose page is an index of several studies.
INDEX = "(index)"
#: Files of every result, apart from those that a study adds.
FILES = ("results.json", "index.html", "summary.json", "data.nc", "plotly.min.js", "scene.html")
FIGURES = "figures"


#: Free space that a folder needs before a run begins, bytes: a page and the plotting library.
LEAST_SPACE = 10_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def prepare(folder: Path, study: str = "") -> Path:
    """Clean up after a killed process in this folder, and reject a folder that cannot take results of ``study``.

    Returns its path, with links resolved.
    """
    target = Path(os.path.realpath(folder))
    for place in (target, nearest_folder(target)):
        if place.exists() and not place.is_dir():
            name = "" if place == target else f"{place.name} "
            raise InputError(f"{name}is a file, not a folder", file=folder, hint="choose another output folder")
    try:
        with folder_lock(target):
            clean(target)
    except OSError as error:
        raise InputError(f"files left by an earlier run cannot be cleaned up: {error}", file=folder) from error
    _refuse_foreign(target, study, folder)
    return target


@contextmanager
def publish(folder: Path, study: str = "") -> Iterator[Path]:
    """A temporary folder whose files are moved to ``folder`` if the block succeeds.

    After an exception nothing is left behind and ``folder`` is unchanged (absent, if it was absent). Older results of
    the same study are replaced as a whole: files that they list and that the new ones lack are removed. All other files
    stay. Old and new results are never mixed, even if the process is killed, and the next call cleans up after a killed
    one: see :mod:`spacearm.report._swap`. A link is followed.

    A folder that cannot be written to, or that holds something other than ``study``, is rejected before the block
    begins: see :func:`prepare`.
    """
    target = prepare(folder, study)
    with ExitStack() as stack:
        try:
            work = stack.enter_context(work_folder(target))
            _check_space(work, folder)
        except OSError as error:
            raise InputError(f"cannot write there: {error.strerror}", file=folder) from error
        try:
            yield work / "new"
            _install(work, target)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise SpacearmError(f"cannot write the results there: {error.strerror}", file=folder) from error


def _install(work: Path, target: Path) -> None:
    new = work / "new"
    if not any(new.iterdir()):
        return
    try:
        with folder_lock(target):
            clean(target)  # a run that began together with this one and was killed
            install(work, target, _list_files(target) if (new / "results.json").exists() else ())
    except OSError as error:
        if not (work / "plan").exists():
            raise
        hint = f"the results are complete in {new}; the next run into this folder moves them there"
        raise SpacearmError(
            f"cannot write there: {error.strerror}", file=error.filename or target, hint=hint
        ) from error


def _check_space(work: Path, folder: Path) -> None:
    space = os.statvfs(work)
    free = space.f_bavail * space.f_frsize
    if space.f_blocks and free < LEAST_SPACE:
        wanted = f"expected at least {LEAST_SPACE / 1e6:.0f} MB"
        raise InputError(f"{free / 1e6:.1f} MB are free on that disk", file=folder, hint=wanted)


def _refuse_foreign(folder: Path, study: str, shown: Path) -> None:
    """Raise an :class:`InputError` if this folder (``shown`` in the message) holds something that must not be
    overwritten.

    That is a ``results.json`` or ``index.html`` that spacearm did not write, a folder in the place of a file and, where
    ``study`` says what is to come (:data:`INDEX` for an index over several), the results of another study.
    """
    try:
        there = study_in_folder(folder)
    except InputError as error:
        raise error.with_file(shown) from None
    if study and there and there != study:
        what = "an index of several studies" if there == INDEX else f"results of the study {quote_text(there)}"
        raise InputError(f"holds {what}", file=shown, hint="choose another output folder, or remove this one")
    wrong = [name for name in FILES if (folder / name).is_dir()]
    figures = folder / FIGURES
    if figures.is_symlink() or (figures.exists() and not figures.is_dir()):
        wrong.append(FIGURES)
    if wrong:
        kind = "a folder" if wrong[0] == FIGURES else "a file"
        raise InputError(f"{wrong[0]} exists and is not {kind}", file=shown, hint="choose another output folder")


def study_in_folder(folder: Path) -> str:
    """The study whose results a folder holds, :data:`INDEX`, or nothing; an error where spacearm did not write them.

    What spacearm wrote is known by its ``results.json`` (study, version, rows) or, for an index over several studies,
    by its ``summary.json`` (studies).
    """
    results, page, summary = (folder / name for name in ("results.json", "index.html", "summary.json"))
    if results.exists():
        content = read_json(results)
        if {"study", "version", "rows"} <= content.keys():
            return str(content["study"])
    elif "studies" in read_json(summary):
        return INDEX
    elif not page.exists():
        return ""
    name = (results if results.exists() else page).name
    raise InputError(f"{name} exists, and spacearm did not write it", file=folder, hint="choose another output folder")


def read_json(file: Path) -> dict[str, object]:
    """A JSON table; empty when there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _list_files(folder: Path) -> set[Path]:
    """The files that the results in this folder say they consist of, relative to it; none that is outside."""
    names = read_json(folder / "results.json").get("files")
    listed = {Path(name) for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    inside = {name for name in listed if not name.is_absolute() and ".." not in name.parts}
    return {name for name in inside if (folder / name).parent.resolve() == folder / name.parent}
