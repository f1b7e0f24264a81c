"""xacro in a process of its own: expands files into URDF, and reads no other file than it may.

:mod:`spacearm.model.xacro_read` runs this as a script, by its path; requests and answers are described in
:mod:`spacearm.worker_process`. xacro evaluates the Python expressions of a file, and its own guard against names
such as ``__import__`` can be passed through the frames of generators. So expressions are looked at before they are
evaluated, files are opened here only, and the process cannot write any.
"""

from __future__ import annotations

import ast
import builtins
import io
import os
import resource
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from spacearm.worker_process import WorkerReplies, serve

#: Beginnings of attributes that lead from a value to the interpreter, besides those that begin with an underscore.
_INSPECTING = ("gi_", "ag_", "cr_", "tb_", "f_", "co_", "func_", "mro", "format")
#: Where ROS looks for packages: lists of folders in the environment, and what stands between folder and package.
_ROS_PATHS = (("ROS_PACKAGE_PATH", ""), ("AMENT_PREFIX_PATH", "share"), ("COLCON_PREFIX_PATH", "share"))


class Refusal(Exception):
    """What a file may not do."""


class PackageFolders:
    """Folders that files may be read from: that of the model, its ROS package, and the packages that it names."""

    def __init__(self, file: Path, outside: bool) -> None:
        self.outside = outside
        self.parents = list(file.parents)
        own = next((folder for folder in self.parents if (folder / "package.xml").is_file()), file.parent)
        self.folders = {own}

    def find(self, package: str) -> str:
        """The folder of a ROS package: beside or above the model, or where ROS has it."""
        if not package or os.sep in package or package.startswith("."):
            raise Refusal(f"{package!r} is not the name of a package")
        for folder in self.parents:
            for found in (folder, folder / package, folder / "src" / package):
                if self._is_package(found, package):
                    self.folders.add(found)
                    return str(found)
        for variable, between in _ROS_PATHS:
            for entry in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                found = Path(entry) / between / package
                if found.is_dir():
                    self.folders.add(Path(os.path.realpath(found)))
                    return str(found)
        raise Refusal(f"there is no package {package!r} beside or above the file, nor on ROS_PACKAGE_PATH")

    @staticmethod
    def _is_package(folder: Path, name: str) -> bool:
        manifest = folder / "package.xml"
        if not manifest.is_file():
            return folder.name == name and folder.is_dir()
        try:
            return (ElementTree.parse(manifest).findtext("name") or "").strip() == name  # of a file that nobody sent
        except (ElementTree.ParseError, ValueError):
            return folder.name == name

    def allow(self, path: str) -> None:
        """Raise a :class:`Refusal` for a file outside these folders."""
        real = os.path.realpath(path)
        if not (self.outside or any(os.path.commonpath((real, folder)) == str(folder) for folder in self.folders)):
            raise Refusal(f"{path!r} lies outside the model's package; outside=True (--outside) reads it")


def guard_reads(folders: PackageFolders, most: int) -> Callable[..., io.StringIO]:
    """A stand-in for ``open`` that reads regular files of these folders, at most so many bytes in all."""
    left = most

    def open_safely(path: str, mode: str = "r", *_: Any, **__: Any) -> io.StringIO:
        nonlocal left
        if mode != "r":
            raise Refusal("files cannot be written")
        folders.allow(path)
        with builtins.open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refusal(f"{path!r} is a device or a pipe")
            data = file.read(left + 1)
        left -= len(data)
        if left < 0:
            raise Refusal(f"its files are larger than {most:,} bytes in all")
        return io.StringIO(data.decode("utf-8"))

    return open_safely


def check_expression(text: str) -> None:
    """Raise a :class:`Refusal` where an expression asks for what leads to the interpreter."""
    for node in ast.walk(ast.parse(text.strip(), mode="eval")):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name.startswith("__") or (isinstance(node, ast.Attribute) and name.startswith(("_", *_INSPECTING))):
            raise Refusal(f"the expression {text.strip()[:200]!r} may not use {name!r}")


def guard_xacro(xacro: Any, folders: PackageFolders, most: int) -> None:
    """Lets xacro read, find and evaluate only what is allowed."""
    from defusedxml import minidom

    own_eval, arguments = xacro.safe_eval, xacro.substitution_args
    own_resolve = arguments._eval

    def evaluate(text: str, *scope: Any) -> Any:
        check_expression(text)
        return own_eval(text, *scope)

    def resolve(text: str, context: Any) -> Any:
        check_expression(text)
        return own_resolve(text, context)

    def parse(text: Any, filename: str | None = None) -> Any:
        try:
            return minidom.parseString(text if text is not None else xacro.open(filename).read(), forbid_dtd=True)
        except OSError as error:
            raise xacro.XacroException(f"{error.strerror}: {filename}", exc=error) from error

    def refuse_environment(name: str) -> str:
        raise Refusal(f"$(env {name}): the environment is not read")

    xacro.safe_eval, arguments._eval, xacro.parse = evaluate, resolve, parse
    xacro.open = guard_reads(folders, most)
    xacro._global_symbols["python"].pop("vars", None)
    for name, value in (
        ("env", refuse_environment),
        ("optenv", lambda name, default="": default),
        ("find", folders.find),
    ):
        setattr(arguments, f"_eval_{name}", value)
        arguments._eval_dict[name] = value


def expand_file(request: dict[str, Any]) -> bytes:
    """The URDF text of a file."""
    for module in [name for name in sys.modules if name.partition(".")[0] == "xacro"]:
        del sys.modules[module]  # the last request's guards are in it
    import xacro
    import xacro.substitution_args

    file = Path(os.path.realpath(request["file"]))
    guard_xacro(xacro, PackageFolders(file, bool(request["outside"])), int(request["file_bytes"]))
    found = xacro.process_file(str(file), mappings=dict(request["arguments"]), verbosity=0)
    for node in [node for node in found.childNodes if node.nodeType == node.COMMENT_NODE]:
        found.removeChild(node)
    text: bytes = found.toxml(encoding="utf-8")
    return text


def answer(desk: WorkerReplies, request: dict[str, Any], parts: list[bytes]) -> None:
    """Expand one file and send its text, or what is wrong with it."""
    try:
        text = expand_file(request)
    except MemoryError:
        desk.send(memory=True)
    except RecursionError:
        desk.send(error="macros or includes call each other without end")
    except Exception as error:
        cause = getattr(error, "exc", None)
        what = str(error) or repr(error)
        if cause is not None and not isinstance(cause, Refusal) and type(cause).__name__ not in what:
            what = f"{what} ({type(cause).__name__})"
        desk.send(error=what[:2000])
    else:
        desk.send([text])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    serve(answer)
