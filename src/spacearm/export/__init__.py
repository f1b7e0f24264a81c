"""Robots and scenarios as code for other places: C99, functional mock-up units."""

from spacearm.export.c_files import export_c
from spacearm.export.fmu import export_fmu
from spacearm.export.motion_code import MotionCode, motion_code
from spacearm.export.source import read_source

__all__ = ["MotionCode", "export_c", "export_fmu", "motion_code", "read_source"]
