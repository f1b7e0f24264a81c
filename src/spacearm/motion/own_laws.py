"""Control laws of one's own in a scenario file: functions of a Python file beside it."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from spacearm.errors import InputError, SpacearmError
from spacearm.mechanics.plant import Plant


class RunsCode(UserWarning):
    """A scenario runs Python code of a file beside it."""


def own_law(name: str, folder: Path) -> Callable[[Plant], Any]:
    """The function of ``file.py:function``, in the scenario's folder or below; its errors are told with their line.

    The file is executed, with all rights of whoever runs the scenario: a warning says so.
    """
    file, colon, function = name.rpartition(":")
    path = (folder / file).resolve()
    if not colon or path.suffix != ".py" or not function.isidentifier():
        raise InputError(f"is {name!r}", hint='expected "file.py:function"')
    if Path(file).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise InputError(f"{file!r} lies outside the scenario's folder", hint="expected a file in it or below")
    if not path.is_file():
        raise InputError(f"there is no file {file!r}", hint="relative to the scenario")
    warnings.warn(f"the scenario runs the Python code of {file}", RunsCode, stacklevel=2)
    found = getattr(_module(path, path.stat().st_mtime_ns), function, None)
    if not callable(found):
        raise InputError(f"{file!r} has no function {function!r}", hint="def ...(plant): return forces by joint")

    def build(plant: Plant) -> Any:
        try:
            return found(plant)
        except SpacearmError:
            raise
        except Exception as error:  # whatever somebody else's code may raise
            raise InputError(f"{name} ends with {_last_line(error, path)}") from error

    return build


@lru_cache(maxsize=16)
def _module(path: Path, changed: int) -> Any:
    del changed  # another version of the file is another module
    spec = importlib.util.spec_from_file_location(f"spacearm_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.dont_write_bytecode
    try:
        sys.dont_write_bytecode = True  # nothing is left beside the scenario
        spec.loader.exec_module(module)
    except SpacearmError:
        raise
    except Exception as error:  # whatever somebody else's code may raise
        raise InputError(f"{path.name} ends with {_last_line(error, path)}") from error
    finally:
        sys.dont_write_bytecode = before
    return module


def _last_line(error: Exception, path: Path) -> str:
    """The error in words, with the last line of the file that led to it."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" in line {line}" if line is not None else ""
    return f"{type(error).__name__}{where}: {error}"
