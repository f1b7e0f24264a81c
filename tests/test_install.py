"""What a fresh installation brings: every library that a study imports, and what each make target needs."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import spacearm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Modules whose package has another name.
PACKAGES = {"pinocchio": "pin", "cupy": "cupy-cuda13x", "PIL": "pillow", "pydantic_core": "pydantic"}
#: Used where it is there, with a message of its own where it is not.
FOUND_ELSEWHERE = {"pillow"}


def imported() -> set[str]:
    """Modules of other packages that spacearm imports anywhere."""
    found = set()
    for path in Path(spacearm.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
    return found - {*sys.stdlib_module_names, "spacearm"}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ;]", each)[0].lower() for each in requirements}


def test_every_library_is_declared_and_studies_need_no_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    used = ("verify", "figures", "gpu", "cluster", "gymnasium", "mcap", "xacro", "blackbox")
    optional = names([each for key in used for each in extras[key]])
    wanted = {PACKAGES.get(name, name) for name in imported()} - FOUND_ELSEWHERE
    assert wanted - names(PROJECT["dependencies"]) == wanted & optional
    assert "pyarrow" in names(PROJECT["dependencies"])  # campaigns and maps


def test_extras_that_pages_and_messages_name_are_there() -> None:
    texts = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "Makefile", ROOT / "constraints.txt"]
    texts += Path(spacearm.__file__).parent.rglob("*.py")
    for path in texts:
        if "_build" in path.parts:
            continue
        for group in re.findall(r"(?:spacearm|'\.)\[([\w,]+)\]", path.read_text(encoding="utf-8")):
            assert {*group.split(",")} <= {*PROJECT["optional-dependencies"]}, path


@pytest.mark.skipif(shutil.which("make") is None, reason="MAKE IS NOT INSTALLED: its targets were not looked at")
def test_make_bench_installs_what_it_needs_once(tmp_path: Path) -> None:
    """Whatever can be imported already: parts of mujoco.sysid import colorama and others only when they are used."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >> log\n')
    python.chmod(0o755)
    for first in (True, False):
        (tmp_path / "log").write_text("")
        subprocess.run(["make", "bench"], cwd=tmp_path, check=True, capture_output=True)
        log = (tmp_path / "log").read_text()
        assert log.endswith("benchmarks\n")
        assert ("[bench]" in log) == first
