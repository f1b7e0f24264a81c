"""Robots from and to files; the ending of the name decides the format.

========================  ==========================================
``.toml``                 spacearm's own robot file, see :doc:`/robot-file`
``.urdf``                 URDF
``.xml``, ``.mjcf``       MJCF (MuJoCo)
``.xacro``                xacro, which becomes URDF; read only
``.sdf``, ``.world``      SDF (Gazebo), which becomes URDF; read only
========================  ==========================================
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from spacearm import checks
from spacearm.errors import InputError, ModelError
from spacearm.model import catalogue
from spacearm.model.robot import Robot
from spacearm.model.robot_import import Reading
from spacearm.model.visuals import with_meshes

#: Format by file ending. The readers and writers are imported when needed: pydantic and the XML parsers take time.
FORMATS = {".toml": "toml", ".urdf": "urdf", ".xml": "mjcf", ".mjcf": "mjcf"}
#: Formats that are read and not written.
READ_ONLY = {".xacro": "xacro", ".sdf": "sdf", ".world": "sdf"}


def file_format(path: str | Path) -> str:
    """The format in which a robot is written: ``toml``, ``urdf`` or ``mjcf``, from the ending of the name."""
    ending = Path(path).suffix.lower()
    if ending in READ_ONLY:
        raise ModelError(f"{READ_ONLY[ending]} is read and not written", file=path, hint="expected .urdf")
    return _find_format(path, FORMATS)


def _find_format(path: str | Path, formats: Mapping[str, str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in formats:
        raise ModelError(
            f"a file ending in {ending!r} is not a robot file" if ending else "the file's name has no ending",
            file=path,
            hint=f"expected one of {', '.join(formats)}",
        )
    return formats[ending]


def load(
    path: str | Path,
    *,
    repair: bool = False,
    base: str | None = None,
    base_mass: float | None = None,
    outside: bool = False,
    strict: bool = False,
    arguments: Mapping[str, object] | None = None,
) -> Robot:
    """The robot in this file, or the catalogue's robot of this name.

    Args:
        path: the file; its ending decides the format. Or the name of a catalogue robot, if no file is called so.
        repair: replace what is impossible (an inertia that no body has, an axis not of length 1, mass missing where
            motion needs it, mimic joints) by the nearest that is possible, and warn of each change
            (:class:`RepairWarning`); for URDF and MJCF, since spacearm's own files say what they mean.
        base: body to take as the base; what it does not carry is left out. For files where several stand on the world.
        base_mass: mass (kg) of a base to which the file gives none.
        outside: let an MJCF file include files and use meshes outside its folder, and a xacro file outside its package.
        strict: refuse a file of which something would be lost, instead of warning (:class:`LossyConversion`).
        arguments: values of a xacro file's arguments, by name.

    Raises:
        ModelError: with file and place, all that is wrong with the file.
    """
    reading = Reading(
        repair=repair, base=base, base_mass=base_mass, outside=outside, strict=strict, arguments=arguments or {}
    )
    if str(path) in catalogue.names() and not Path(path).exists():
        reading.check_own(path)
        return catalogue.load(str(path))
    return read(path, reading)


def read(path: str | Path, reading: Reading) -> Robot:
    """The robot in this file, read as ``reading`` says: :func:`load` with its options in one value."""
    kind = _find_format(path, {**FORMATS, **READ_ONLY})
    if kind == "toml":
        reading.check_own(path)
    elif kind != "xacro":
        reading.check_no_arguments(path)
    reader = import_module(f"spacearm.model.{kind}_read")
    robot: Robot = getattr(reader, f"read_{kind}")(path, reading)
    return robot


def robot_text(robot: Robot, kind: str, comments: Iterable[str] = (), folder: Path | None = None) -> str:
    """The text of a robot file of this format (``toml``, ``urdf``, ``mjcf``), with leading comment lines.

    ``folder`` is where the file is to lie: meshes are named from there.
    """
    checks.one_of(kind, sorted(set(FORMATS.values())), "format")
    write = getattr(import_module(f"spacearm.model.{kind}_write"), f"{kind}_text")
    if folder is not None and kind != "mjcf":  # MuJoCo looks for meshes by absolute paths, wherever the text is
        # What is not there is named as it was: from another folder it would become another name.
        robot = with_meshes(robot, lambda file: os.path.relpath(file, folder) if _is_absolute_file(file) else file)
    text: str = write(robot, comments) if kind == "toml" else _with_xml_comment(write(robot), comments)
    return text


def _is_absolute_file(path: str) -> bool:
    try:
        return os.path.isabs(path) and os.path.isfile(path)
    except ValueError:  # a name that no file can have
        return False


def save(robot: Robot, path: str | Path, *, comments: Iterable[str] = ()) -> Path:
    """Writes the robot to this file and returns its path.

    The file appears whole or not at all: the text is made first, written beside the target and then moved over it.

    Args:
        robot: what to write.
        path: where to; its ending decides the format.
        comments: leading comment lines, for example what was identified and from which data.
    """
    path = Path(path)
    text = robot_text(robot, file_format(path), comments, path.absolute().parent)
    write_atomically(path, text)
    return path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes bytes, or text as UTF-8, so that nobody ever sees half of it, and a failure leaves what was there."""
    if path.is_dir():
        raise InputError("is a folder", file=path, hint="expected the name of a file")
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_mode(path))
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those that a new file would have got."""
    with suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _with_xml_comment(text: str, comments: Iterable[str]) -> str:
    """Comment lines after the XML declaration, if there is one; ``--`` may not stand in an XML comment."""
    lines = [line for comment in comments for line in comment.splitlines()]
    if not lines:
        return text
    clean = "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in lines)
    while "--" in clean:
        clean = clean.replace("--", "- -")
    block = f"<!--\n{clean}\n-->\n"
    if text.startswith("<?xml"):
        head, end, rest = text.partition("?>")
        return f"{head}{end}\n{block}{rest.lstrip()}"
    return block + text
