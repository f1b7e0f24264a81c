"""Robots and scenarios as code for other places: C99, functional mock-up units."""

from spacearm.export.c_files import export_c
from spacearm.export.fmu import export_fmu

__all__ = [
    "export_c",
    "export_fmu",
]
