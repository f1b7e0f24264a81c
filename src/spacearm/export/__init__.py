"""Robots and scenarios as code for other places: C99."""

from spacearm.export.c_files import export_c

__all__ = ["export_c"]
