"""How loops are compiled: by Numba, once on a machine, for any robot."""

from __future__ import annotations

import ctypes
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
from spacearm.engine.block import ArgumentBlock, BlockType
from spacearm.engine.linking import EntryCompiler, PartCompiler
from spacearm.errors import EngineError

F = TypeVar("F", bound=Callable[..., object])

#: Modules whose functions are compiled into each other.
_MODULES = (
    "block",
    "_call",
    "_dop853",
    "events",
    "friction",
    "_lanes",
    "law",
    "linking",
    "loops",
    "noise",
    "radau",
    "record",
    "_rk4",
    "signals",
    "solver",
    "system",
)


#: How all loops are compiled. Nobody calls them as C functions: the code for that is left out.
# NumPy's error model: a division by zero gives infinity or NaN and no exception. The solver judges results, and code
# without branches for exceptions can be vectorised.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compile_loop(function: F) -> F:
    """Compile when first called and keep the machine code on disk; threads run it side by side (no GIL)."""
    return _attach_cache(njit(**_OPTIONS, pipeline_class=EntryCompiler)(function), function)


def compile_lean(function: F) -> F:
    """The same for a function that makes no array: without counting references, which takes half the time of a loop
    whose functions hand many arrays to each other. Only functions of this kind may be called in it."""
    return _attach_cache(njit(**_OPTIONS, pipeline_class=EntryCompiler, _nrt=False)(function), function)


def compile_inner(function: F) -> F:
    """A lean function that only loops call: compiled as a part of each, and not by itself."""
    loop = njit(**_OPTIONS, pipeline_class=PartCompiler, _nrt=False, no_cpython_wrapper=True)(function)

    def refuse(*arguments: object, **named: object) -> None:
        raise TypeError(f"{function.__qualname__} is called by compiled loops only")

    loop._compile_for_args, loop.add_overload = refuse, _keep_overload(loop)
    result: F = loop
    return result


def interpret(function: F) -> F:
    """A function of loops as Python runs it: for what is called once in a phase."""
    plain: F = function.py_func  # type: ignore[attr-defined]
    return plain


def _keep_overload(loop: Any) -> Callable[[Any], None]:
    """For loops that Python does not call as functions: other loops find them here, Python does not."""

    def keep(result: Any) -> None:
        loop.overloads[tuple(result.signature.args)] = result

    return keep


class CompiledEntry:
    """A lean function that Python calls with one block; its result is an integer.

    It is called by its address, without the GIL: that takes less than a microsecond, where Numba's own way of calling
    looks at every argument.
    """

    # Numba's calling convention: addresses of the result and of an exception's data come first; the integer that is
    # returned is zero where there was no exception.
    _PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    def __init__(self, function: Callable[[Any], int]) -> None:
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        loop = njit(**_OPTIONS, pipeline_class=EntryCompiler, _nrt=False, no_cpython_wrapper=True)(function)
        loop.add_overload = _keep_overload(loop)
        self.loop: Any = _attach_cache(loop, function)
        self._functions: dict[BlockType, Any] = {}

    def compile(self, kind: BlockType) -> Any:
        """The machine code for blocks of this type, as a function of ctypes."""
        found = self._functions.get(kind)
        if found is None:
            signature = (kind,)
            self.loop.compile(signature)
            made = self.loop.overloads[signature]
            address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
            found = self._functions[kind] = self._PROTOTYPE(address)
        return found

    def is_cached(self, kind: BlockType) -> bool:
        """Whether machine code for blocks of this type is in memory or on disk."""
        return kind in self._functions or self.loop._cache.holds((kind,), self.loop.targetctx.codegen())

    def address(self, kind: BlockType) -> int:
        """The address of the machine code, for :func:`spacearm.engine._call.call_entry`."""
        found = ctypes.cast(self.compile(kind), ctypes.c_void_p).value
        assert found is not None
        return found

    def bind(self, block: ArgumentBlock) -> Callable[[], int]:
        """The call with this block, ready to be made any number of times."""
        function, result, raised = self.compile(block.kind), ctypes.c_int64(), ctypes.c_void_p()
        pointers = ctypes.addressof(result), ctypes.addressof(raised), block.address

        def call(memory: object = (block, raised)) -> int:  # kept as long as the call
            del memory
            if function(*pointers):
                raise EngineError(f"{self.__name__} failed")
            return result.value

        return call

    def __call__(self, block: ArgumentBlock) -> int:
        return self.bind(block)()


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

    def holds(self, sig: Any, codegen: Any) -> bool:
        """Whether this is on disk."""
        return cache.read(self._key(sig, codegen), "loop") is not None

    def save_overload(self, sig: Any, cres: Any) -> None:
        # Code with dynamic globals holds addresses of this process, which mean nothing in another.
        if not cres.library.has_dynamic_globals and all(part.can_cache for part in cres.lifted):
            cache.write(self._key(sig, cres.codegen), dumps(cres._reduce()), "loop")

    def _key(self, sig: Any, codegen: Any) -> str:
        # Machine code is good for one Numba, one Python and one processor: its name and features are in the last of
        # these.
        made_with = (numba.__version__, sys.implementation.cache_tag, repr(codegen.magic_tuple()))
        return cache.key(*self._source, *made_with, repr(sig))


@once
def sources_digest(file: str) -> str:
    """A digest of the text of all loops and of this file."""
    digest = hashlib.sha256()
    for path in (*(Path(__file__).with_name(f"{name}.py") for name in _MODULES), Path(file)):
        digest.update(path.read_bytes())
    return digest.hexdigest()
