"""Finished pieces of long work, kept on disk until the whole of it is done: an interrupted run goes on from there.

A piece is a computation that gives arrays: a batch of ejections, designs of a search, repetitions with other noise. It
is known by all that goes into it, so that a changed robot, scenario or program never meets an old piece. Pieces lie in
the cache and are trusted on the same conditions as code: see :mod:`spacearm.engine.cache`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine import cache

#: What takes less is computed again unless stated otherwise, s.
LEAST_SECONDS = 0.2
#: Pieces of runs that nobody took up again are removed after this, s.
LONGEST_KEPT = 30 * 86400.0

Arrays = dict[str, npt.NDArray[Any]]


@dataclasses.dataclass
class Checkpoints:
    """The pieces of one piece of work: how many were found from before, and the keys of all that are on disk."""

    program: str
    found: int = 0
    keys: list[str] = dataclasses.field(default_factory=list)


_checkpoints: ContextVar[Checkpoints | None] = ContextVar("pieces", default=None)


@contextmanager
def keep_checkpoints(program: str) -> Iterator[Checkpoints]:
    """Keep the pieces that are finished inside the block, and use those of before; when it ends well, remove them.

    Args:
        program: what computes them; pieces of another program are not used.
    """
    for path in cache.entries("piece"):
        if time.time() - path.stat().st_mtime > LONGEST_KEPT:
            path.unlink(missing_ok=True)
    pieces = Checkpoints(program)
    token = _checkpoints.set(pieces)
    try:
        yield pieces
    finally:
        _checkpoints.reset(token)
    # Not reached after an exception or an interruption: then the pieces stay for the next run.
    for key in pieces.keys:
        cache.remove(key, "piece")


def checkpoint(
    what: str,
    inputs: object,
    compute: Callable[[], Mapping[str, npt.NDArray[Any]]],
    least_seconds: float | None = None,
) -> Arrays:
    """The arrays that ``compute`` gives or, inside :func:`keep_checkpoints`, gave for the same inputs before.

    Args:
        inputs: everything that they depend on: numbers, texts, arrays, and sequences, tables and dataclasses of such.
        least_seconds: what takes less is computed again.
    """
    pieces = _checkpoints.get()
    if pieces is None:
        return dict(compute())
    try:
        key = cache.key("piece", pieces.program, what, digest(inputs))
    except TypeError:  # a user's own class, say, of which nobody knows what it depends on
        return dict(compute())
    data = cache.read(key, "piece")
    if data is not None:
        pieces.found += 1
        pieces.keys.append(key)
        # Without pickle: a file of numbers must not be able to run code.
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return dict(stored)
    began = time.monotonic()
    arrays = dict(compute())
    if time.monotonic() - began >= (LEAST_SECONDS if least_seconds is None else least_seconds):
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        pieces.keys.append(key)
        cache.write(key, buffer.getvalue(), "piece")
    return arrays


def digest(value: object) -> str:
    """A digest of plain data and of dataclasses of such; a TypeError for anything that may hide what it depends on."""
    found = hashlib.sha256()
    _hash_value(found, value)
    return found.hexdigest()


def _hash_value(found: Any, value: object) -> None:
    # The type first, so that 1, 1.0, True and "1" differ; lengths below, so that nested sequences cannot be confused.
    found.update(f"{type(value).__name__}:".encode())
    if value is None or isinstance(value, bool | int | float | str | bytes | Path | Enum | np.generic):
        found.update(repr(value).encode() + b";")
    elif isinstance(value, np.ndarray):
        found.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, Mapping):
        # In the order of insertion: another order is at worst computed again, never confused.
        _hash_value(found, [*value.items()])
    elif isinstance(value, Sequence | set | frozenset):
        entries = value if isinstance(value, Sequence) else sorted(value, key=repr)
        found.update(f"{len(entries)}[".encode())
        for entry in entries:
            _hash_value(found, entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            found.update(f"{field.name}=".encode())
            _hash_value(found, getattr(value, field.name))
    else:
        raise TypeError(f"{type(value).__name__} has no digest")
