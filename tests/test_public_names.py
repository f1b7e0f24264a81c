"""What is public: the names in ``__all__`` of each package. The pages of the API show these, and nothing else."""

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
PACKAGES = re.findall(
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
    """Whether a package's page has words for a name: a docstring of its own, or a comment ``#:`` before a value."""
    thing = getattr(module, name)
    if isinstance(thing, ModuleType):
        return thing.__name__ in PACKAGES
    if isinstance(thing, type):
        return bool(thing.__dict__.get("__doc__")) and not str(thing.__doc__).startswith(f"{name}(")
    if callable(thing):
        return bool(thing.__doc__)
    return re.search(rf"^#: .*\n{name}\b.* = ", inspect.getsource(module), flags=re.MULTILINE) is not None


def test_pages_have_each_room_with_public_names_once() -> None:
    assert [package for package, times in Counter(PACKAGES).items() if times > 1] == []
    packages = {f"spacearm.{package}" for package in spacearm._PACKAGES if package not in spacearm._INTERNAL_MODULES}
    named = {package for package in packages if getattr(import_module(package), "__all__", ["no list"])}
    assert named <= set(PACKAGES)
    assert {package for package in PACKAGES if ".".join(package.split(".")[:2]) not in packages} == {
        "spacearm.deadline"
    }


def test_pages_show_public_names_only() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("**/*.md")]
    assert not [
        page for page in pages if re.search(r"^\.\. auto|ignore-module-all|:undoc-members:", page, re.MULTILINE)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_described(package: str) -> None:
    module = import_module(package)
    assert module.__all__
    assert [name for name in module.__all__ if not described(module, name)] == []


def test_every_package_says_what_is_public() -> None:
    packages = [path for path in SOURCE.rglob("__init__.py") if "cli" not in path.parts]  # a program, not a library
    assert [str(path.relative_to(SOURCE)) for path in packages if listed(path) is None] == []


def test_names_of_the_package_are_names_of_a_room() -> None:
    for name, home in spacearm._HOME.items():
        package = next(package for package in (home, home.rsplit(".", 2)[0]) if package in PACKAGES)
        assert name in import_module(package).__all__


def defined(path: Path) -> set[str]:
    """Names that a module defines or imports, and those of its classes' members."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_references_lead_to_something() -> None:
    """Roles of docstrings and pages that name a place in full, such as ``:class:`~spacearm.model.Robot```."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    lost = []
    for file, text in texts.items():
        for reference in re.findall(r"[:}]`~?(spacearm(?:\.\w+)+)`", text):
            place, names = SOURCE, reference.split(".")[1:]
            while names and (place / names[0]).is_dir():
                place /= names.pop(0)
            if names and (place / f"{names[0]}.py").is_file():
                place /= f"{names.pop(0)}.py"
            else:
                place /= "__init__.py"
            if (
                names
                and names[0] not in defined(place)
                and not (place == SOURCE / "__init__.py" and names[0] in spacearm._HOME)
            ):
                lost.append(f"{file.relative_to(ROOT)}: {reference}")
    assert lost == []


def test_pages_and_examples_import_from_packages() -> None:
    """What comes from a module within a package is internal; importing the module of environments registers them."""
    allowed = {*PACKAGES, "spacearm", "spacearm.connect.environments"}
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "examples").rglob("*.py")]
    deep = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in files
        for module in re.findall(r"^ *(?:from|import) (spacearm[\w.]*)", file.read_text(encoding="utf-8"), re.MULTILINE)
        if module not in allowed
    ]
    assert deep == []


def imported(path: Path) -> set[str]:
    """Modules that a source file imports, and all names that it imports from modules, with their places."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_a_module_with_an_underscore_serves_its_own_folder_only() -> None:
    private = {
        path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("_[a-z]*.py")
    }
    assert len(private) > 50
    imports = {path: imported(path) for path in SOURCE.rglob("*.py")}
    far = [
        f"{path.relative_to(SOURCE)}: {module}"
        for path, names in imports.items()
        for file, module in private.items()
        if not path.is_relative_to(file.parent) and any(f"{name}.".startswith(f"{module}.") for name in names)
    ]
    assert far == []
    for file, module in private.items():
        public = set(listed(file.parent / "__init__.py") or [])
        shown = [name for name in imports[file.parent / "__init__.py"] if name.startswith(f"{module}.")]
        assert not [name for name in shown if name.rpartition(".")[2] in public], module
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [module for module in private.values() if re.search(rf"\b{re.escape(module)}\b", pages)] == []
