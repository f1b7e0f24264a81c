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
    packages = {name for name, module in for_type_checkers.items() if module == "spacearm"}
    both = {"simulate"}  # a package that can be called: a function for type checkers
    assert packages == set(spacearm._PACKAGES) - both
    assert {name: for_type_checkers[name] for name in for_type_checkers.keys() - packages - both} == spacearm._HOME
    assert set(spacearm.__all__) == {"__version__", *both, *spacearm._HOME}
    for name in spacearm.__all__:
        assert getattr(spacearm, name) is not None
        assert name in dir(spacearm)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'robot'"):
        spacearm.robot  # noqa: B018


def test_every_room_is_there_after_a_plain_import() -> None:
    folder = Path(spacearm.__file__).parent
    there = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert there - {"__init__", "__main__", "cli"} == set(spacearm._PACKAGES)  # cli is a program, not a library
    code = "import spacearm; " + "; ".join(f"assert spacearm.{package}.__name__" for package in spacearm._PACKAGES)
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(spacearm._PACKAGES) - set(spacearm._INTERNAL_MODULES) <= set(dir(spacearm))


def test_dir_has_public_names_only() -> None:
    assert set(dir(spacearm)) == {*spacearm.__all__, *spacearm._PACKAGES} - {*spacearm._INTERNAL_MODULES}
    assert not {"Any", "TYPE_CHECKING", "import_module", "sys", "ModuleType"} & set(dir(spacearm))


@pytest.mark.parametrize(
    "code",
    [
        "assert spacearm.State.__name__ == 'State'",
        "assert callable(spacearm.simulate.simulate)",
        "import inspect; assert next(iter(inspect.signature(spacearm.simulate).parameters)) == 'robot'",
        "import inspect; assert inspect.isfunction(spacearm.simulate)",
        "import spacearm.simulate.run.chain; import inspect; assert inspect.isfunction(spacearm.simulate)",
        "from spacearm.simulate import State; import inspect; assert inspect.isfunction(spacearm.simulate)",
        "import pydoc; assert pydoc.render_doc(spacearm.simulate).startswith('Python Library Documentation: function')",
        "import pickle; assert pickle.loads(pickle.dumps(spacearm.simulate)) is spacearm.simulate",
        "import spacearm.simulate.run.chain; assert spacearm.simulate.run.chain.__name__.endswith('run.chain')",
        "import sys, types; spacearm.simulate; assert isinstance(sys.modules['spacearm.simulate'], types.ModuleType)",
        "import spacearm.simulate; assert callable(spacearm.simulate)",
        "spacearm.simulate_batch; assert callable(spacearm.simulate.simulate)",
        "import spacearm.simulate as package; assert package.State is spacearm.State",
        "assert 'xu2017' in spacearm.catalogue.names()",
    ],
)
def test_names_and_rooms_do_not_shadow_each_other(code: str) -> None:
    subprocess.run([sys.executable, "-c", f"import spacearm; {code}"], check=True)
