"""Importing the package and asking for help stay cheap: no heavy library is loaded for them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import spacearm

HEAVY = [
    "casadi",
    "numba",
    "llvmlite",
    "xarray",
    "h5py",
    "plotly",
    "pandas",
    "scipy",
    "mujoco",
    "pinocchio",
    "pydantic",
]

PROBE = """
import sys
{code}
print("loaded:", *sorted({heavy!r} & sys.modules.keys()))
"""


def loaded_by(code: str) -> list[str]:
    """Which heavy modules a fresh interpreter holds after running this."""
    script = PROBE.format(code=code, heavy=set(HEAVY))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].removeprefix("loaded:").split()


def test_the_probe_sees_heavy_modules() -> None:
    assert "scipy" in loaded_by("import scipy")


def test_import_spacearm_loads_nothing_heavy() -> None:
    assert loaded_by("import spacearm") == []


def test_a_robot_needs_numpy_only() -> None:
    assert loaded_by("import spacearm; spacearm.Robot") == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["check", "--help"], ["reproduce", "nobody"]])
def test_short_commands_load_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(f"from spacearm.cli import main; main({arguments!r})") == []


def test_every_public_name_resolves_and_all_lists_agree() -> None:
    source = Path(spacearm.__file__).read_text(encoding="utf-8")
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    for_type_checkers = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert for_type_checkers == spacearm._HOME
    assert set(spacearm.__all__) == {"__version__", *spacearm._HOME}
    for name in spacearm.__all__:
        assert getattr(spacearm, name) is not None
        assert name in dir(spacearm)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'robot'"):
        spacearm.robot  # noqa: B018
