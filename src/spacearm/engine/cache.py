"""Compiled code on disk, named by what it was made from: source, processor, compilers' versions; pieces of runs too.

What lies here is run. So an entry is taken only from a folder that belongs to this user and that nobody else can write
to, only if the same holds for the entry itself, and only with the right message authentication code under a key that
this user alone can read. Anything else is compiled anew, and a warning says why, once.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

#: Begins every file of the cache: what spacearm wrote is known by it, and made anew when the format changes.
MAGIC = b"spacearm cache 2\n"
SECRET = "secret.key"
WRITING = ".writing-"
#: Kinds of entries and the ends of their names.
KINDS = {"kernel": ".o", "loop": ".loop", "piece": ".piece"}

_reported: set[str] = set()


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
    digest = hashlib.sha256(MAGIC)
    for part in parts:
        # Separated, so that ("ab", "c") and ("a", "bc") are two keys.
        digest.update(b"\0")
        digest.update(part.encode())
    return digest.hexdigest()


def read(name: str, kind: str = "kernel") -> bytes | None:
    """Code of this key, or None: absent, damaged, or not certain to be this user's own."""
    file = name + KINDS[kind]
    with _own_folder() as folder:
        data = None if folder is None else _own_content(folder, file)
        if folder is None or data is None:
            return None
        secret = _secret(folder)
        size = len(MAGIC)
        mac, code = data[size : size + 32], data[size + 32 :]
        if secret is None or not hmac.compare_digest(mac, _mac(secret, file, code)):
            _refuse(file, "is damaged, or spacearm did not write it")
            return None
        return code


def write(name: str, code: bytes, kind: str = "kernel") -> None:
    """Keep code; a folder that cannot be written to costs a compilation next time, nothing else."""
    file = name + KINDS[kind]
    with contextlib.suppress(OSError):
        cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
        with _own_folder() as folder:
            secret = None if folder is None else _secret(folder) or _new_secret(folder)
            if folder is not None and secret is not None:
                # A complete file under another name, then renamed: a reader never sees half of one.
                with _temporary_file(folder, MAGIC + _mac(secret, file, code) + code) as temporary:
                    os.replace(temporary, file, src_dir_fd=folder, dst_dir_fd=folder)


def remove(name: str, kind: str) -> None:
    """Delete one entry, if it is there."""
    path = cache_dir() / (name + KINDS[kind])
    if _is_ours(path):
        path.unlink(missing_ok=True)


def clear() -> dict[str, int]:
    """Delete what spacearm keeps here; how many entries of each kind there were. Other files stay."""
    count = {kind: len(entries(kind)) for kind in KINDS}
    paths = [path for kind in KINDS for path in entries(kind)]
    for path in (*paths, cache_dir() / SECRET, *cache_dir().glob(WRITING + "*")):
        if _is_ours(path):
            path.unlink(missing_ok=True)
    return count


def entries(kind: str = "kernel") -> list[Path]:
    """The entries of a kind that spacearm wrote for this user."""
    named = re.compile(r"[0-9a-f]{64}" + re.escape(KINDS[kind]))
    return sorted(path for path in cache_dir().glob("*" + KINDS[kind]) if named.fullmatch(path.name) and _is_ours(path))


def size() -> int:
    """Size of the cache, bytes."""
    return sum(path.stat().st_size for kind in KINDS for path in entries(kind))


# -- whom to believe ---------------------------------------------------------------------------------------------


def _mac(secret: bytes, file: str, code: bytes) -> bytes:
    """Over the name too: an entry that was renamed is not the one that is asked for."""
    mac = hmac.new(secret, file.encode() + b"\0", hashlib.sha256)
    mac.update(code)
    return mac.digest()


def _fault(status: os.stat_result) -> str:
    """Why what has this status may have been made by somebody else; empty when it cannot."""
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written to by others" if status.st_mode & 0o022 else ""


def _refuse(file: str, why: str, then: str = "compiled anew") -> None:
    """Warn, once for each reason."""
    if why not in _reported:
        _reported.add(why)
        warnings.warn(f"{cache_dir() / file}: {why}; {then}", stacklevel=4)


@contextlib.contextmanager
def _own_folder() -> Iterator[int | None]:
    """The cache's folder, opened, when it is certain to be this user's alone.

    Files are opened relative to it, so that nobody can put another folder in its place in the meantime.
    """
    try:
        folder = os.open(cache_dir(), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield None
        return
    try:
        fault = _fault(os.fstat(folder))
        if fault:
            _refuse("", fault, "compiled code is neither kept nor taken there (expected a folder of yours, chmod 700)")
        yield None if fault else folder
    finally:
        os.close(folder)


def _own_content(folder: int, file: str, *, private: bool = False) -> bytes | None:
    """A file's bytes when it is certain to be this user's; ``private``: and nobody else can read it."""
    try:
        # No link is followed, and a pipe in the file's place does not block; owner and mode are then those of the open
        # file, which nobody can exchange after the check.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        _refuse(file, "is a link, or cannot be read")
        return None
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        fault = "is not a file" if not stat.S_ISREG(status.st_mode) else _fault(status)
        if private and not fault and status.st_mode & 0o077:
            fault = "can be read by others"
        if fault:
            _refuse(file, fault)
            return None
        return stream.read()


def _secret(folder: int) -> bytes | None:
    data = _own_content(folder, SECRET, private=True)
    return data if data is not None and data.startswith(MAGIC) and len(data) == len(MAGIC) + 32 else None


def _new_secret(folder: int) -> bytes | None:
    """Make the key. Of several processes that do so at a time one wins, and all take its key."""
    with _temporary_file(folder, MAGIC + secrets.token_bytes(32)) as temporary:
        for _ in range(2):
            try:
                # A link fails where the name exists, in one operation: no two processes can both succeed.
                os.link(temporary, SECRET, src_dir_fd=folder, dst_dir_fd=folder)
            except FileExistsError:
                if _secret(folder) is None:  # not one to trust
                    os.unlink(SECRET, dir_fd=folder)
                    continue
            break
    return _secret(folder)


@contextlib.contextmanager
def _temporary_file(folder: int, data: bytes) -> Iterator[str]:
    """A complete temporary file, by name; gone at the end unless it was renamed."""
    temporary = f"{WRITING}{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _is_ours(path: Path) -> bool:
    """Whether spacearm wrote this file, for this user."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            status = os.fstat(stream.fileno())
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            return own and stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
