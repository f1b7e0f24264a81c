"""What a user names to be exported: a robot, or a scenario of one."""

from __future__ import annotations

from pathlib import Path

from spacearm.errors import InputError, SpacearmError
from spacearm.export._motion_code import MotionCode, motion_code
from spacearm.model import Robot
from spacearm.model.document import read_document
from spacearm.model.mounts import find_robot
from spacearm.model.robot_import import Reading
from spacearm.motion.scenario import MotionFile
from spacearm.simulate import RK4
from spacearm.study.scenario import Session, study_file


def read_source(
    source: str,
    step: float | None = None,
    default: float | None = None,
    reading: Reading | None = None,
    **options: bool,
) -> tuple[Robot, MotionCode | None]:
    """The robot of a file or of the catalogue, or the robot and the motion of a scenario file.

    ``step``: of RK4 in place of the scenario's method, s; ``default``: the same in place of an adaptive one;
    ``reading``: how a robot file is read; ``options``: of :func:`motion_code`.
    """
    path = Path(source)
    document = read_document(path, "a robot or a scenario") if path.suffix == ".toml" and path.is_file() else {}
    if isinstance(document.get("scenario"), str):
        hint = f"export its scenario, {document['scenario']}, or a robot"
        raise InputError("a campaign cannot be exported", file=path, hint=hint)
    named = document.get("robot")
    if not isinstance(named, str) and not (isinstance(named, dict) and "file" in named):
        # a scenario names its robot, a robot file is one
        return find_robot(source, reading=reading), None
    try:
        file = study_file(document)
        if type(file) is not MotionFile:  # a validation has measured inputs besides
            hint = f'export its robot, {file.robot}, or a scenario with study = "motion"'
            raise InputError("cannot be exported", place=f"study {file.study!r}", hint=hint)
        for key in ("system", "latch", "loop"):
            if getattr(file, key):
                hint = "expected the robot alone; its own loops belong in its file"
                raise InputError("several systems cannot be exported", place=key, hint=hint)
        session = Session(path.parent)
        robot, start, phases, method, _ = file.prepare_run(session)
        world, _ = file.world(session, robot, start)
        chosen = default if step is None and not isinstance(method, RK4) else step
        taken = method if chosen is None else RK4(chosen)
        return robot, motion_code(robot, start, phases, taken, elements=world.elements, **options)
    except SpacearmError as error:
        raise error if error.file is not None else error.with_file(path) from error.__cause__
