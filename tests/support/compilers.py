"""A C compiler, if there is one: gcc, clang, or the one that PyPI's ziglang brings."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine.c_source import helpers, statements
from spacearm.engine.trace import Trace
from spacearm.typing import Array

STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


def compiler() -> list[str]:
    """Its command line."""
    for name in ("gcc", "clang"):
        if shutil.which(name):
            return [name]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    pytest.skip("NO C COMPILER: exported C was not tested; install gcc or clang, or pip install ziglang")


def build(sources: Sequence[Path], target: Path, *flags: str, strict: Sequence[str] = STRICT) -> Path:
    command = [*compiler(), *strict, *flags, *map(str, sources), "-o", str(target), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return target


def by_c(trace: Trace, rows: Array, folder: Path, *flags: str) -> Array:
    """Outputs (B, n_out) of a trace as C code for inputs (B, n_in)."""
    lines = statements(trace, lambda k: f"in[{k}]", lambda k: f"out[{k}]")
    text = "\n".join(
        [
            "#include <math.h>\n#include <string.h>",
            helpers(lines),
            "void f(const double *in, double *out);\nvoid f(const double *in, double *out)\n{",
            *lines,
            "}\n",
        ]
    )
    source = folder / "trace.c"
    source.write_text(text)
    library = ctypes.CDLL(str(build([source], folder / "trace.so", "-shared", "-fPIC", *flags)))
    found = np.empty((len(rows), trace.n_out))
    pointer = ctypes.POINTER(ctypes.c_double)
    for row, out in zip(np.ascontiguousarray(rows), found, strict=True):
        library.f(row.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
    return found
