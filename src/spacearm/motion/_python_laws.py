"""User-defined control laws in a scenario file: functions of a Python file."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from spacearm.errors import InputError, SpacearmError, quote_text
from spacearm.mechanics.plant import Plant


class CodeExecutionWarning(UserWarning):
    """A scenario executes Python code from a file."""


def load_python_law(name: str, folder: Path) -> Callable[[Plant], Any]:
    """The function ``file.py:function`` in the scenario's folder or below; its errors are reported with their line.

    The file is executed with all rights of the user who runs the scenario; a warning says so.
    """
    file, colon, function = name.rpartition(":")
    path = (folder / file).resolve()
    if not colon or path.suffix != ".py" or not function.isidentifier():
        raise InputError(f"is {name!r}", hint='expected "file.py:function"')
    # A scenario from elsewhere must not execute files outside its own folder; resolved, so that ".." and links count.
    if Path(file).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise InputError(f"{file!r} lies outside the scenario's folder", hint="expected a file in it or below")
    if not os.path.isfile(path):  # false for a name that no file can have, too
        raise InputError(f"there is no file {quote_text(file)}", hint="relative to the scenario")
    warnings.warn(f"the scenario executes the Python code of {file}", CodeExecutionWarning, stacklevel=2)
    # Cached by the time of the last change: an edited file is loaded anew.
    found = getattr(_module(path, path.stat().st_mtime_ns), function, None)
    if not callable(found):
        raise InputError(f"{file!r} has no function {function!r}", hint="def ...(plant): return forces by joint")

    def build_law(plant: Plant) -> Any:
        try:
            return found(plant)
        # Errors of spacearm have a place and a hint already.
        except SpacearmError:
            raise
        except Exception as error:  # third-party code may raise anything
            raise InputError(f"{name} failed: {_last_line(error, path)}") from error

    return build_law


@lru_cache(maxsize=16)
def _module(path: Path, changed: int) -> Any:
    del changed  # a changed file is a new module
    spec = importlib.util.spec_from_file_location(f"spacearm_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.dont_write_bytecode
    try:
        sys.dont_write_bytecode = True  # leave no bytecode in the scenario's folder
        spec.loader.exec_module(module)
    except SpacearmError:
        raise
    except Exception as error:  # third-party code may raise anything
        raise InputError(f"{path.name} failed: {_last_line(error, path)}") from error
    finally:
        sys.dont_write_bytecode = before
    return module


def _last_line(error: Exception, path: Path) -> str:
    """The error as text, with the last line of the file that led to it."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" in line {line}" if line is not None else ""
    return f"{type(error).__name__}{where}: {error}"
