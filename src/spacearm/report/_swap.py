"""Putting a finished folder in the place of an older one: all of it or nothing, whenever the process is killed.

A run writes into ``new`` in a hidden work folder ``.spacearm-PID-RANDOM`` on the file system of its target: beside it
or, where that cannot be, inside it. It holds a lock on the file ``lock`` there while it lives; the kernel drops the
lock of a process that dies, so that the next call knows what nobody needs any more.

What is complete takes its place in one step: the kernel renames ``new``, or exchanges it with a folder that holds
older results and nothing else. Where that cannot be (other files in the folder, a mount point, the working folder, a
file system without the exchange) the older files move out one by one, then the new ones in: never do both stand side
by side. A ``plan`` is on disk before the first step, and the next call finishes what was planned.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

#: Longest wait for another process that is putting its results into the same folder, s. It needs milliseconds.
PATIENCE = 60.0
#: Moved out first and in last: a folder without it holds no results.
HEAD = "results.json"
_WORK = re.compile(r"\.spacearm-(\d+)-[0-9a-f]{12}")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # from Linux's fcntl.h and fs.h


@dataclass(frozen=True)
class _Plan:
    target: str  # relative to the work folder, so that both can be moved together
    inode: int  # of the folder with the new files: wherever it is, there they are
    older: list[str]
    newer: list[str]


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A work folder for this target with an empty ``new`` in it; gone at the end, unless a plan could not be finished.

    Raises:
        OSError: when nothing can be written beside or inside the target, or moved from there to the target.
    """
    work, lock = _begin(target)
    try:
        yield work
    finally:
        try:
            if not (work / "plan").exists():
                shutil.rmtree(work, ignore_errors=True)
        finally:
            os.close(lock)


@contextmanager
def folder_lock(target: Path) -> Iterator[None]:
    """One process at a time changes what stands in a folder."""
    try:
        near = os.open(nearest_folder(target), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # a folder that may be passed but not read
        yield
        return
    try:
        end = time.monotonic() + PATIENCE
        while not _try_lock(near) and time.monotonic() < end:
            time.sleep(0.01)
        yield
    finally:
        os.close(near)


def clean(target: Path) -> None:
    """Finish what dead processes planned for this target, and remove what they left. In one's :func:`folder_lock`
    only."""
    for work in (found for place in (target, *target.parents) for found in _work_folders(place)):
        with _claim_orphan(work) as dead:
            if not dead:
                continue
            plan = _read_plan(work)
            if plan is None:
                shutil.rmtree(work, ignore_errors=True)
            elif Path(os.path.normpath(work / plan.target)) == target:
                _finish(work, plan)


def install(work: Path, target: Path, older: Collection[Path]) -> None:
    """Put the files of ``new`` into the target, in place of the ``older`` ones (relative to it) and of their namesakes.

    In one's :func:`folder_lock` only. An exception, Ctrl-C among them, does not stop it half-way; what cannot be
    finished is left to the next call.
    """
    new = work / "new"
    newer = _files(new)
    _sync(new)
    gone = sorted(str(name) for name in {*older, *newer} if os.path.lexists(target / name))
    inode = new.stat().st_ino
    plan = _Plan(os.path.relpath(target, work), inode, gone, sorted(str(name) for name in newer))
    draft = work / "plan.part"
    draft.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    _sync(draft)
    try:
        draft.replace(work / "plan")
        _sync(work, deep=False)
        _finish(work, plan)
    except BaseException:
        if (work / "plan").exists():
            _finish(work, plan)
        raise


def nearest_folder(path: Path) -> Path:
    """The nearest folder above that exists."""
    return next(parent for parent in path.parents if os.path.lexists(parent))


# -- work folders ------------------------------------------------------------------------------------------------


def _begin(target: Path) -> tuple[Path, int]:
    """A locked work folder from which files can be moved into the target."""
    places = [nearest_folder(target), target] if target.is_dir() else [nearest_folder(target)]
    for place in places:
        work = place / f".spacearm-{os.getpid()}-{secrets.token_hex(6)}"
        try:
            work.mkdir(mode=0o700)
            lock = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            _try_lock(lock)
            (work / "new").mkdir()
            if target.is_dir() and place != target:  # no right to write there, or another mount
                (work / "probe").mkdir()
                (work / "probe").rename(target / work.name)
                (target / work.name).rmdir()
            return work, lock
        except OSError:
            shutil.rmtree(work, ignore_errors=True)
            if place == places[-1]:
                raise
    raise AssertionError  # there is always a place


def _work_folders(place: Path) -> list[Path]:
    """This user's work folders in a folder, in use or not."""
    try:
        with os.scandir(place) as entries:
            found = [entry for entry in entries if _WORK.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
            return sorted(Path(entry.path) for entry in found if entry.stat().st_uid == os.geteuid())
    except OSError:  # absent, or not to be read
        return []


@contextmanager
def _claim_orphan(work: Path) -> Iterator[bool]:
    """Whether the process that made this work folder is dead and nobody else cleans up behind it."""
    try:
        lock = os.open(work / "lock", os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield not _is_running(work)  # it was killed, or is just about to make the lock
        return
    except OSError:
        yield False
        return
    try:  # A lock that cannot be had on this file system tells nothing: then the work folder stays.
        yield _try_lock(lock)
    finally:
        os.close(lock)


def _is_running(work: Path) -> bool:
    """Whether the process that a work folder is named after runs on this machine."""
    match = _WORK.fullmatch(work.name)
    assert match is not None
    try:
        os.kill(int(match[1]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read_plan(work: Path) -> _Plan | None:
    try:
        return _Plan(**json.loads((work / "plan").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


# -- the swap ----------------------------------------------------------------------------------------------------


def _finish(work: Path, plan: _Plan) -> None:
    """Carry out a plan from wherever it stands, and remove the work folder."""
    new, old = work / "new", work / "old"
    target = Path(os.path.normpath(work / plan.target))
    waiting = new.exists() and new.stat().st_ino == plan.inode
    if waiting and (old.exists() or not (_rename(new, target) or _exchange(new, target, plan))):
        old.mkdir(exist_ok=True)
        _move(new, target, old, plan)
    elif new.exists():  # it is the older folder by now
        _move_strays(new, target, plan)
    _sync(target, deep=False)
    _sync(target.parent, deep=False)
    (work / "plan").unlink()
    shutil.rmtree(work, ignore_errors=True)


def _rename(new: Path, target: Path) -> bool:
    """Make the new folder the target where there is none."""
    if os.path.lexists(target):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        new.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # it appeared just now
            return False
        raise
    return True


def _exchange(new: Path, target: Path, plan: _Plan) -> bool:
    """Exchange new and old folder in one step, if nothing but older results is concerned and the kernel can do it."""
    before, after = target.stat(), new.stat()
    if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid) or not _holds_only(target, plan.older):
        return False
    with suppress(FileNotFoundError):  # the working folder itself was removed
        if Path.cwd().is_relative_to(target):  # its shell would be left in a folder that is gone
            return False
    new.chmod(stat.S_IMODE(before.st_mode))
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    done: int = rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE)
    return done == 0


def _holds_only(folder: Path, names: Collection[str]) -> bool:
    """Whether a folder holds nothing but these files, and folders for them."""
    files = {Path(name) for name in names}
    folders = {parent for name in files for parent in name.parents}
    for place, inside, there in os.walk(folder):
        inner = Path(place).relative_to(folder)
        links = {inner / name for name in inside if (Path(place) / name).is_symlink()}
        if not {inner / name for name in there} | links <= files or not {inner / name for name in inside} <= folders:
            return False
    return True


def _move(new: Path, target: Path, old: Path, plan: _Plan) -> None:
    """Move the older files out, then the new ones in; what was moved before is left as it is."""
    coming = {str(name) for name in _files(new)}
    arrived = {*plan.newer} - coming
    for name in sorted({*plan.older} - arrived, key=lambda name: name != HEAD):
        if os.path.lexists(target / name):
            (old / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).rename(old / name)
    for name in sorted(coming, key=lambda name: name == HEAD):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).replace(target / name)
    for name in plan.older:
        if (target / name).parent != target:
            with suppress(OSError):  # it holds other files, or is gone
                (target / name).parent.rmdir()


def _move_strays(old: Path, target: Path, plan: _Plan) -> None:
    """What somebody put into the older folder just before the exchange belongs to the target."""
    for name in _files(old) - {Path(name) for name in plan.older}:
        if not os.path.lexists(target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (old / name).rename(target / name)


def _files(folder: Path) -> set[Path]:
    """Everything but folders, relative to the folder."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def _sync(path: Path, *, deep: bool = True) -> None:
    """Have a file, or a folder with all that is in it, on the disk before anything else is done."""
    for inner in path.iterdir() if deep and path.is_dir() else ():
        _sync(inner)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system on which there is nothing to wait for
            raise
    finally:
        os.close(descriptor)
