"""Reading xacro: the package ``xacro`` expands the file to URDF, in a process of its own with limits.

Arguments (``$(arg name)``) come with the reading. ``$(find package)`` is looked for beside and above the file, then
where ROS has it; the environment is not read. Messages about the robot name links and joints, which the expansion
keeps.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from spacearm.errors import InputError, ModelError, error_context
from spacearm.model.robot import Robot
from spacearm.model.robot_import import Reading
from spacearm.model.safexml import BOUNDS, Bounds
from spacearm.model.urdf_read import robot_from_urdf
from spacearm.worker_process import WorkerCrash, WorkerProcess, WorkerTimeout

_xacro = WorkerProcess(Path(__file__).with_name("_xacro_worker.py"))


def read_xacro(path: str | Path, reading: Reading | None = None) -> Robot:
    """The robot of a xacro file. Raises :class:`ModelError` with the file and what is wrong with it."""
    with error_context(file=path):
        return robot_from_urdf(expand_xacro(path, reading or Reading()), path, reading)


def expand_xacro(path: str | Path, reading: Reading, bounds: Bounds = BOUNDS) -> bytes:
    """The URDF text of a xacro file, UTF-8."""
    if importlib.util.find_spec("xacro") is None:
        raise InputError(
            "the xacro package is not installed",
            hint="pip install 'spacearm[xacro]'; or expand the file elsewhere: xacro FILE > robot.urdf",
        )
    try:
        request = {
            "file": str(Path(path).absolute()),
            "arguments": dict(reading.arguments),
            "outside": reading.outside,
            "file_bytes": bounds.file_bytes,
        }
        answer, texts = _xacro.ask(request, seconds=bounds.seconds, memory=bounds.memory_bytes)
    except WorkerTimeout:
        raise ModelError(f"xacro needs more than {bounds.seconds:g} s to expand it") from None
    except WorkerCrash as error:
        raise ModelError(
            f"xacro crashed ({error})", hint="do macros or includes call each other without end?"
        ) from None
    except OSError as error:
        raise ModelError(f"no process could be started to expand it: {error.strerror}") from None
    if "memory" in answer:
        _xacro.close()
        raise ModelError("xacro ran out of memory", hint=bounds.lift("memory_bytes"))
    if "error" in answer:
        what = " ".join(str(answer["error"]).split())
        hint = "give it: --argument NAME:=VALUE, or arguments = { NAME = ... } in a file" if "arg" in what else ""
        raise ModelError(f"xacro rejects the file: {what}", hint=hint)
    return texts[0]
