"""Object code on disk, named by what it was made from: the IR text, the processor, the compiler's version."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

FORMAT = "1"


def cache_dir() -> Path:
    """Folder of the cache: ``SPACEARM_CACHE`` or the user's cache folder."""
    given = os.environ.get("SPACEARM_CACHE")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "spacearm"
    except RuntimeError:  # no home, as in some containers: a folder in which nothing can be kept
        return Path(os.devnull) / "spacearm"


def key(*parts: str) -> str:
    digest = hashlib.sha256(FORMAT.encode())
    for part in parts:
        digest.update(b"\0")
        digest.update(part.encode())
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """Object code of this key, or None. A damaged entry counts as absent."""
    try:
        data = _path(name).read_bytes()
    except OSError:
        return None
    check, code = data[:32], data[32:]
    return code if hashlib.sha256(code).digest() == check else None


def write(name: str, code: bytes) -> None:
    """Keep object code; a folder that cannot be written to costs a compilation next time, nothing else."""
    path = _path(name)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise


def clear() -> int:
    """Delete every entry; returns how many there were."""
    count = 0
    for path in entries():
        path.unlink(missing_ok=True)
        count += 1
    return count


def entries() -> list[Path]:
    return sorted(cache_dir().glob("*.o"))


def size() -> int:
    """Bytes in the cache."""
    return sum(path.stat().st_size for path in entries())


def _path(name: str) -> Path:
    return cache_dir() / f"{name}.o"
