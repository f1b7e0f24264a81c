"""Robots that files name: found, read, changed and mounted as a table says; the same for robot files and scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spacearm.errors import (
    InputError,
    ModelError,
    SpacearmError,
    did_you_mean,
    error_context,
    format_path,
    quote_text,
    similar_files,
)
from spacearm.model import catalogue
from spacearm.model.edit import add_parts, mount, rename
from spacearm.model.files import read
from spacearm.model.parts import Pose
from spacearm.model.robot import Robot
from spacearm.model.robot_import import PLACEHOLDER, Reading
from spacearm.model.similarity import scale
from spacearm.model.toml_errors import Place
from spacearm.model.toml_schema import AssembledRobotTable, MountTable, RobotFileKeys
from spacearm.model.toml_values import pose_of, thrusters_of, wheels_of

#: Robots mounted on mounted robots, at most so deep: a file that mounts itself ends here.
DEEPEST_MOUNT = 4
#: Bodies and frames of a robot with all that is mounted on it, at most.
MOST_NAMES = 5000


@dataclass(frozen=True)
class Mount:
    """A robot that was read to be mounted, and where."""

    robot: Robot
    placement: Pose
    frame: str
    prefix: str
    base_inertia: bool
    place: str

    def attach_to(self, host: Robot, placement: Pose | None = None) -> Robot:
        """The host with the robot mounted on it, at ``placement`` where that is given in another frame."""
        with error_context(self.place):
            found = mount(
                host,
                self.robot,
                placement or self.placement,
                frame=self.frame or None,
                prefix=self.prefix,
                base_inertia=self.base_inertia,
            )
            if len(found.bodies) + len(found.frames) > MOST_NAMES:
                raise ModelError(
                    "the robot becomes too large", hint=f"expected at most {MOST_NAMES} bodies and frames in all"
                )
            return found


def read_mount(table: MountTable, place: Place, folder: Path | None, reading: Reading | None = None) -> Mount:
    """The robot that a table mounts; ``reading`` is that of the file in which the table stands."""
    depth = (reading or Reading()).depth + 1
    if depth > DEEPEST_MOUNT:
        raise ModelError(
            f"mounts are nested more than {DEEPEST_MOUNT} deep",
            place=str(place),
            hint="does a file mount itself?",
        )
    with error_context(place.path):
        robot, massless = _read_robot(table, folder, depth)
    placement = pose_of(table.origin, place.key("origin"))
    kept = table.base_inertia and not massless
    return Mount(robot, placement, table.frame or "", table.prefix, kept, place.path)


def assemble_robot(table: AssembledRobotTable, folder: Path | None = None, robot: Robot | None = None) -> Robot:
    """The robot of a table, with all that is mounted on it and added to it; ``robot`` takes the place of its file."""
    found = _read_robot(table, folder, 0)[0] if robot is None else _change(robot, table)
    for index, each in enumerate(table.mount):
        found = read_mount(each, Place(f"mount[{index}]"), folder).attach_to(found)
    for index, wheels in enumerate(table.wheel):
        place = Place(f"wheel[{index}]", wheels.name)
        made = wheels_of(wheels, place)
        with error_context(place):
            found = add_parts(found, bodies=[body for body, _ in made], joints=[joint for _, joint in made])
    for index, jets in enumerate(table.thruster):
        place = Place(f"thruster[{index}]", jets.name)
        made_jets = thrusters_of(jets, place)
        with error_context(place):
            found = add_parts(found, thrusters=made_jets)
    return found


def _read_robot(table: RobotFileKeys, folder: Path | None, depth: int) -> tuple[Robot, bool]:
    """The robot as the table wants it, and whether its base has no mass of its own, where it is to be mounted."""
    reading = Reading(
        repair=table.repair, base=table.base, base_mass=table.base_mass, arguments=table.arguments, depth=depth
    )
    robot = find_robot(table.file, folder, reading)
    # By identity: a mass that a file states is kept even if it has the same value.
    massless = robot.bodies[0].inertia is PLACEHOLDER
    return _change(robot, table), massless


def _change(robot: Robot, table: RobotFileKeys) -> Robot:
    """The robot with the table's size and names, and with its loops or without."""
    if not table.loops:
        robot = robot.replace(loops=())
    if table.scale is not None or table.scale_mass is not None:
        with error_context("scale", fallback=True):
            robot = scale(robot, 1.0 if table.scale is None else table.scale, table.scale_mass)
    if table.rename:
        with error_context("rename"):
            robot = rename(robot, table.rename)
    return robot


def find_robot(name: str, folder: Path | None = None, reading: Reading | None = None) -> Robot:
    """The robot of a file (relative to ``folder``) or, when there is no such file, of the catalogue.

    With a ``folder`` the name stands in a scenario: an error leaves the scenario's file and key for the caller to add.
    """
    path = Path(name) if folder is None else folder / name
    try:
        there = bool(name) and path.exists()
    except (OSError, ValueError):  # longer than any name can be, or with a zero byte
        there = False
    if there:
        try:
            return read(path, reading or Reading())
        except SpacearmError as error:
            if folder is not None and error.file is not None:
                error.place = ": ".join(part for part in (format_path(error.file), error.place) if part)
                error.file = None
            raise
    if Path(name).suffix or len(Path(name).parts) > 1:
        if folder is None:
            raise InputError("there is no such file", file=path, hint=similar_files(path))
        # Inside a scenario the scenario is the file at fault.
        near = similar_files(path) or "expected a robot file"
        raise InputError(
            f"there is no file {quote_text(name)}", hint=f"{near}; names are relative to the scenario's folder"
        )
    if name not in catalogue.names():
        raise InputError(
            f"{quote_text(name)} is neither a file nor a robot of the catalogue",
            hint=did_you_mean(name, catalogue.names()),
        )
    (reading or Reading()).check_own(name)
    return catalogue.load(name)
