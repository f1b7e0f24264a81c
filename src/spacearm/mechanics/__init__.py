"""The equations, written once, on CasADi scalars: pure and symbolic."""

from spacearm.mechanics.program import Program
from spacearm.mechanics.programs import build

__all__ = [
    "Program",
    "build",
]
