"""Output folders that appear only when they are complete."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spacearm.errors import InputError, quoted

#: What :func:`held` calls a folder whose page is an index over several studies.
INDEX = "(index)"


@contextmanager
def publish(folder: Path, study: str = "") -> Iterator[Path]:
    """A temporary folder beside ``folder`` whose files move there when the block ends well.

    After an exception nothing is left behind and ``folder`` is as it was before (absent, if it was absent). In a
    folder that exists, files of the same name are replaced one by one, each atomically. Older results of the same
    study go as a whole: files that they list and that the new ones lack are removed. All others stay. A folder that
    holds something else than ``study`` is refused: see :func:`refuse_foreign`.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder", file=folder, hint="choose another output folder")
    refuse_foreign(folder, study)
    # Beside the target, so that moving is renaming within one file system.
    near = next(parent for parent in folder.absolute().parents if parent.exists())
    if not near.is_dir():
        raise InputError(f"{near.name} is a file, not a folder", file=folder, hint="choose another output folder")
    try:
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=near))
    except OSError as error:
        raise InputError(f"cannot write there: {error.strerror}", file=folder) from error
    try:
        yield staging
        if any(staging.iterdir()):
            fresh = {path.relative_to(staging) for path in staging.rglob("*")}
            stale = _listed(folder) - fresh if Path("results.json") in fresh else set()
            _move(staging, folder)
            _remove(folder, stale)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def refuse_foreign(folder: Path, study: str = "") -> None:
    """An :class:`InputError` when this folder holds what must not be overwritten.

    That is a ``results.json`` or ``index.html`` that spacearm did not write and, where ``study`` says what is to come
    (:data:`INDEX` for an index over several), the results of another study.
    """
    there = held(folder)
    if study and there and there != study:
        what = "an index over several studies" if there == INDEX else f"results of the study {quoted(there)}"
        raise InputError(f"holds {what}", file=folder, hint="choose another output folder, or remove this one")


def held(folder: Path) -> str:
    """The study whose results a folder holds, :data:`INDEX`, or nothing; an error where spacearm did not write them.

    What spacearm wrote is known by its ``results.json`` (study, version, rows) or, for an index over several studies,
    by its ``summary.json`` (studies).
    """
    results, page, summary = (folder / name for name in ("results.json", "index.html", "summary.json"))
    if results.exists():
        content = _read(results)
        if {"study", "version", "rows"} <= content.keys():
            return str(content["study"])
    elif "studies" in _read(summary):
        return INDEX
    elif not page.exists():
        return ""
    name = (results if results.exists() else page).name
    raise InputError(
        f"{name} is there, and spacearm did not write it", file=folder, hint="choose another output folder"
    )


def _read(file: Path) -> dict[str, object]:
    """A JSON table; empty when there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _listed(folder: Path) -> set[Path]:
    """The files that the results in this folder say they consist of, relative to it."""
    names = _read(folder / "results.json").get("files")
    return {Path(name) for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _remove(folder: Path, stale: set[Path]) -> None:
    """Remove these files, but nothing outside the folder, and the folder of figures when that leaves it empty."""
    for name in stale:
        path = folder / name
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            path.unlink()
            if path.parent != folder and not any(path.parent.iterdir()):
                path.parent.rmdir()


def _move(staging: Path, folder: Path) -> None:
    try:
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            staging.chmod(0o777 & ~_umask())  # mkdtemp makes it private
            staging.rename(folder)
            return
        for source in sorted(staging.rglob("*")):
            target = folder / source.relative_to(staging)
            if source.is_dir():
                target.mkdir(exist_ok=True)
            else:
                source.replace(target)
    except OSError as error:
        raise InputError(f"cannot write there: {error.strerror}", file=error.filename or folder) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
