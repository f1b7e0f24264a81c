"""How loops are compiled: by Numba, once on a machine, for any robot."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from spacearm.engine import cache

F = TypeVar("F", bound=Callable[..., object])

#: Modules whose functions are compiled into each other.
_MODULES = (
    "call",
    "dop853",
    "events",
    "friction",
    "lanes",
    "law",
    "loops",
    "noise",
    "radau",
    "record",
    "rk4",
    "signals",
    "solver",
    "system",
)


#: How all loops are compiled. Nobody calls them as C functions: the code for that is left out.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compile_loop(function: F) -> F:
    """Compile when first called and keep the machine code on disk; threads run it side by side (no GIL)."""
    return _attach_cache(njit(**_OPTIONS)(function), function)


def compile_lean(function: F) -> F:
    """The same for a function that makes no array: without counting references, which takes half the time of a loop
    whose functions hand many arrays to each other. Only functions of this kind may be called in it."""
    return _attach_cache(njit(**_OPTIONS, _nrt=False)(function), function)


def compile_inner(function: F) -> F:
    """A lean function that only loops call: without the code by which Python would call it, which takes apart every
    argument and costs a quarter of the time of compilation."""
    loop = njit(**_OPTIONS, _nrt=False, no_cpython_wrapper=True)(function)

    def refuse(*arguments: object, **named: object) -> None:
        raise TypeError(f"{function.__qualname__} is called by compiled loops only")

    def keep(result: Any) -> None:
        loop.overloads[tuple(result.signature.args)] = result  # loops find it here, Python does not

    loop._compile_for_args, loop.add_overload = refuse, keep
    return _attach_cache(loop, function)


def _attach_cache(loop: Any, function: F) -> F:
    loop._cache = LoopCache(function)
    result: F = loop
    return result


class LoopCache(NullCache):
    """Numba's cache of one function, kept in spacearm's.

    Numba's own believes every file that it finds, and unpickles it. It also looks only at the file of the function
    itself when it judges whether an entry is still good. A loop consists of functions from several files: a change in
    any of them must make all of it stale.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        code = function.__code__
        assert function.__closure__ is None, "what a closure holds is not part of the key"
        self._source = (
            sources_digest(code.co_filename),
            function.__module__,
            function.__qualname__,
            str(code.co_firstlineno),
        )

    @property
    def cache_path(self) -> str:
        return str(cache.cache_dir())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        data = cache.read(self._key(sig, target_context.codegen()), "loop")
        # Only what this user's own spacearm wrote is unpickled: see spacearm.engine.cache.
        return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))

    def save_overload(self, sig: Any, cres: Any) -> None:
        if not cres.library.has_dynamic_globals and all(part.can_cache for part in cres.lifted):
            cache.write(self._key(sig, cres.codegen), dumps(cres._reduce()), "loop")

    def _key(self, sig: Any, codegen: Any) -> str:
        made_with = (numba.__version__, sys.implementation.cache_tag, repr(codegen.magic_tuple()))
        return cache.key(*self._source, *made_with, repr(sig))


@once
def sources_digest(file: str) -> str:
    """A digest of the text of all loops and of this file."""
    digest = hashlib.sha256()
    for path in (*(Path(__file__).with_name(f"{name}.py") for name in _MODULES), Path(file)):
        digest.update(path.read_bytes())
    return digest.hexdigest()
