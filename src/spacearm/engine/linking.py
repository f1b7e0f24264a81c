"""How the functions of a loop become one piece of machine code: linked first, then optimised and translated once.

Numba optimises every function with all that it calls, and translates it, before it does the same with each caller: a
function at the bottom of a loop of a hundred is compiled dozens of times. Here functions that only loops call stay as
they are lowered, and the entry of the loop links them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_numbers = count()


class _NoEnvironment:
    """In place of a code generator, for code that is not loaded: no Python objects for it either."""

    def set_env(self, name: str, environment: Any) -> None:
        del name, environment


class PartLibrary(JITCodeLibrary):
    """A function that is not compiled by itself."""

    _linking_libraries: list[Any]

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        del name
        self._ensure_finalized()
        return 0

    def _get_module_for_linking(self) -> Any:
        return self._final_module  # as it is: definitions that may be there twice are dropped where nothing asks yet

    def parts(self) -> Iterator[PartLibrary]:
        """This and all that it calls, some more than once."""
        yield self
        for library in self._linking_libraries:
            yield from library.parts() if isinstance(library, PartLibrary) else (library,)


class EntryLibrary(JITCodeLibrary):
    """A function that is compiled together with all its parts."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        linked: dict[Any, None] = {}
        for library in self._linking_libraries:
            linked |= dict.fromkeys(library.parts() if isinstance(library, PartLibrary) else (library,))
        self._linking_libraries = list(linked)
        self._own = {function.name for function in self._final_module.functions if not function.is_declaration}
        super().finalize()

    def _optimize_final_module(self) -> None:
        # Of no use to other loops, which have their own: so nothing is left of what is inlined everywhere.
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in self._own:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class PartCompiler(Compiler):
    """Numba's compiler for functions that only loops call."""

    _library: type[JITCodeLibrary] = PartLibrary

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *arguments: Any) -> None:
        if library is None:
            library = self._library(targetctx.codegen(), f"loop_{next(_numbers)}")
            library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, *arguments)


class EntryCompiler(PartCompiler):
    """Numba's compiler for loops."""

    _library = EntryLibrary
