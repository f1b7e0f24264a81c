"""How loops are compiled: by Numba, once on a machine, for any robot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile when first called and keep the machine code on disk; threads run it side by side (no GIL)."""
    loop: F = njit(cache=True, nogil=True, error_model="numpy")(function)
    return loop
