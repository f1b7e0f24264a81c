"""What is public: the names in ``__all__`` of each room. The pages of the API show these, and nothing else."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import spacearm
from support import ROOT

SOURCE = Path(spacearm.__file__).parent
ROOMS = re.findall(
    r"spacearm[\w.]*",
    " ".join(
        line
        for page in sorted((ROOT / "docs" / "api").glob("*.md"))
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith(".. package::")
    ),
)


def listed(path: Path) -> list[str] | None:
    """``__all__`` of a source file; None without one."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    return None


def described(module: ModuleType, name: str) -> bool:
    """Whether the page of a room has words for a name: a docstring of its own, or a comment ``#:`` before a value."""
    thing = getattr(module, name)
    if isinstance(thing, ModuleType):
        return thing.__name__ in ROOMS
    if isinstance(thing, type):
        return bool(thing.__dict__.get("__doc__")) and not str(thing.__doc__).startswith(f"{name}(")
    if callable(thing):
        return bool(thing.__doc__)
    return re.search(rf"^#: .*\n{name}\b.* = ", inspect.getsource(module), flags=re.MULTILINE) is not None


def test_pages_have_each_room_with_public_names_once() -> None:
    assert [room for room, times in Counter(ROOMS).items() if times > 1] == []
    rooms = {f"spacearm.{room}" for room in spacearm._PACKAGES if room not in spacearm._INTERNAL_MODULES}
    named = {room for room in rooms if getattr(import_module(room), "__all__", ["no list"])}
    assert named <= set(ROOMS)
    assert {room for room in ROOMS if ".".join(room.split(".")[:2]) not in rooms} == {"spacearm.deadline"}


def test_pages_show_public_names_only() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("**/*.md")]
    assert not [
        page for page in pages if re.search(r"^\.\. auto|ignore-module-all|:undoc-members:", page, re.MULTILINE)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_described(room: str) -> None:
    module = import_module(room)
    assert module.__all__
    assert [name for name in module.__all__ if not described(module, name)] == []


def test_every_package_says_what_is_public() -> None:
    packages = [path for path in SOURCE.rglob("__init__.py") if "cli" not in path.parts]  # a program, not a library
    assert [str(path.relative_to(SOURCE)) for path in packages if listed(path) is None] == []


def test_names_of_the_package_are_names_of_a_room() -> None:
    for name, home in spacearm._HOME.items():
        room = next(room for room in (home, home.rsplit(".", 2)[0]) if room in ROOMS)
        assert name in import_module(room).__all__
