"""How loops are compiled: by Numba, once on a machine, for any robot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

#: Modules whose functions are compiled into each other.
_MODULES = ("call", "dop853", "events", "friction", "lanes", "loops", "plant", "record", "rk4", "run", "signals")


def compiled(function: F) -> F:
    """Compile when first called and keep the machine code on disk; threads run it side by side (no GIL)."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        loop: Any = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder that Numba may write to: compiled anew in every process
        uncached: F = njit(**options)(function)
        return uncached
    # Numba looks only at the file of the function itself when it judges whether its cache is still good. A loop
    # consists of functions from several files: a change in any of them must make all of it stale.
    loop._cache._cache_file._source_stamp = sources(function.__code__.co_filename)
    result: F = loop
    return result


@cache
def sources(file: str) -> str:
    """A digest of the text of all loops and of this file."""
    digest = hashlib.sha256()
    for path in (*(Path(__file__).with_name(f"{name}.py") for name in _MODULES), Path(file)):
        digest.update(path.read_bytes())
    return digest.hexdigest()
