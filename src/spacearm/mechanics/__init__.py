"""The equations, written once, on CasADi scalars: pure and symbolic."""

from spacearm.mechanics.motion import LoadFrame, motion_program
from spacearm.mechanics.program import Program
from spacearm.mechanics.programs import build

__all__ = [
    "LoadFrame",
    "Program",
    "build",
    "motion_program",
]
