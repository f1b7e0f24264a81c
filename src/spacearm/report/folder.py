"""Output folders that appear only when they are complete."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spacearm.errors import InputError


@contextmanager
def publish(folder: Path) -> Iterator[Path]:
    """A temporary folder beside ``folder`` whose files move there when the block ends well.

    After an exception nothing is left behind and ``folder`` is as it was before (absent, if it was absent). In a
    folder that exists, files of the same name are replaced one by one, each atomically; all others stay. A folder
    whose results or page are not spacearm's is refused: see :func:`refuse_foreign`.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder", file=folder, hint="choose another output folder")
    refuse_foreign(folder)
    # Beside the target, so that moving is renaming within one file system.
    near = next(parent for parent in folder.absolute().parents if parent.is_dir())
    try:
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=near))
    except OSError as error:
        raise InputError(f"cannot write there: {error.strerror}", file=folder) from error
    try:
        yield staging
        if any(staging.iterdir()):
            _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def refuse_foreign(folder: Path) -> None:
    """An :class:`InputError` when this folder holds a ``results.json`` or ``index.html`` that spacearm did not write.

    What spacearm wrote is known by its ``results.json`` (study, version, rows) or, for an index over several studies,
    by its ``summary.json`` (studies).
    """
    results, page, summary = (folder / name for name in ("results.json", "index.html", "summary.json"))
    if results.exists():
        own = _has_keys(results, "study", "version", "rows")
    else:
        own = not page.exists() or _has_keys(summary, "studies")
    if not own:
        name = (results if results.exists() else page).name
        raise InputError(
            f"{name} is there, and spacearm did not write it", file=folder, hint="choose another output folder"
        )


def _has_keys(file: Path, *keys: str) -> bool:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and set(keys) <= content.keys()


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
