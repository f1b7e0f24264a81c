"""What a user names to be exported: a robot, or a scenario of one."""

from __future__ import annotations

from pathlib import Path

from spacearm.errors import InputError, SpacearmError
from spacearm.export.motion_code import MotionCode, motion_code
from spacearm.model import Robot
from spacearm.model.document import find_robot, read_document
from spacearm.motion.scenario import MotionFile
from spacearm.study.scenario import Session, study_file


def read_source(source: str) -> tuple[Robot, MotionCode | None]:
    """The robot of a file or of the catalogue, or the robot and the motion of a scenario file."""
    path = Path(source)
    document = read_document(path, "a robot or a scenario") if path.suffix == ".toml" and path.is_file() else {}
    if not isinstance(document.get("robot"), str):  # a scenario names its robot, a robot file is one
        return find_robot(source), None
    try:
        file = study_file(document)
        if not isinstance(file, MotionFile):
            raise InputError("cannot be exported", place=f"study {file.study!r}", hint="expected a motion scenario")
        robot, start, phases, method, _ = file.made(Session(path.parent))
        return robot, motion_code(robot, start, phases, method)
    except SpacearmError as error:
        raise error if error.file is not None else error.in_file(path) from error.__cause__
