"""The equations, written once, on CasADi scalars: pure and symbolic."""

from spacearm.mechanics.program import Program
from spacearm.mechanics.programs import build
from spacearm.mechanics.shapes import Box, Capsule, Cone, Cylinder, Disc, Hole, Plane, Ring, Sphere

__all__ = [
    "Box",
    "Capsule",
    "Cone",
    "Cylinder",
    "Disc",
    "Hole",
    "Plane",
    "Program",
    "Ring",
    "Sphere",
    "build",
]
