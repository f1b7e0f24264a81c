"""From the text of a robot file to a :class:`~spacearm.model.Robot`.

Anything wrong with the file is a :class:`~spacearm.errors.ModelError` that names the file, the place and the remedy.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from spacearm.errors import ModelError, at, clipped, similar_files
from spacearm.model.dh import dh_links
from spacearm.model.intake import Reading
from spacearm.model.parts import (
    Body,
    Coupling,
    Frame,
    Inertia,
    Joint,
    Pose,
    Rotor,
    Spring,
    Thruster,
    unit_vector,
)
from spacearm.model.problems import ModelErrors, Problems
from spacearm.model.robot import Robot, check_joint_name, check_unique
from spacearm.model.toml_errors import Place, schema_errors
from spacearm.model.toml_schema import (
    BodyTable,
    CouplingTable,
    DhTable,
    FrameTable,
    JointKeys,
    JointTable,
    RobotFile,
    ThrusterTable,
    TransmissionTable,
    WheelTable,
)
from spacearm.model.toml_values import (
    LARGEST_ANGLE,
    coupling_of,
    dh_row,
    doubt_angle,
    friction_of,
    inertia_of,
    limits_of,
    pose_of,
    rest_of,
    shapes_of,
)
from spacearm.model.visuals import mesh_file, with_meshes
from spacearm.model.wheels import wheel
from spacearm.typing import Array

T = TypeVar("T")
#: A robot file is text written by people or by :func:`spacearm.save`; one larger than this (bytes) is a mistake.
LARGEST_FILE = 16 * 2**20
#: Tables within tables, and parts of a dotted key: more than this is no file for spacearm. tomllib needs memory that
#: grows with the square of a key's parts.
DEEPEST = 32
#: A key is a word or a name.
LONGEST_KEY = 200
#: What stands outside keys: comments and texts (as one word, since a key may be quoted); and then a key of many parts.
_COMMENT_OR_TEXT = re.compile(
    r'#[^\n]*|"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"' + r"|'{3}.*?'{3}|'[^'\n]*'",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){{{DEEPEST}}}")
#: Types of TOML files, and what to do with each.
ROBOT_FILE, SCENARIO_FILE, CAMPAIGN_FILE = "robot file", "scenario file", "campaign file"
FILE_USES = {
    ROBOT_FILE: "'spacearm check FILE' prints it, 'spacearm view FILE' shows it; a scenario names it: robot = \"FILE\"",
    SCENARIO_FILE: "'spacearm run FILE -o DIR' runs it; the robot is another file, which its key 'robot' names",
    CAMPAIGN_FILE: "'spacearm campaign run FILE -o DIR' or 'spacearm map FILE -o DIR' runs it",
}
#: A robot with more joints than this is a mistake too; the compiled engine is meant for some tens.
MOST_JOINTS = 2000


def read_toml(path: str | Path, reading: Reading | None = None) -> Robot:
    """The robot in a TOML file, which says what it means: nothing in ``reading`` concerns it."""
    with at(file=path):
        return with_meshes(robot_from_toml(read_text(Path(path))), lambda file: mesh_file(file, Path(path).parent))


def read_text(path: Path, largest: int = LARGEST_FILE) -> str:
    """The text of a plain UTF-8 file of at most ``largest`` bytes."""
    try:
        if path.is_dir():
            raise ModelError("is a folder", hint="expected a file")
        if not path.exists():
            raise ModelError("there is no such file", hint=similar_files(path))
        if not path.is_file():
            raise ModelError("is not a plain file")
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except ModelError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise ModelError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > largest:
        raise ModelError(f"is larger than {largest // 2**20} MB", hint="expected a file written by people")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {error.start}"
        raise ModelError("is not UTF-8 text", place=place, hint="expected a text file in UTF-8") from error


def require_file_type(data: Mapping[str, Any], expected: str) -> None:
    """An error where these tables are plainly those of another type of file; it says what that is for."""
    robot, bodies = data.get("robot"), "body" in data or "dh" in data
    if isinstance(robot, dict) and bodies and "study" not in data:
        found = ROBOT_FILE
    elif isinstance(data.get("scenario"), str) and not (robot or bodies):
        found = CAMPAIGN_FILE
    elif (isinstance(robot, str) or "study" in data) and not bodies:
        found = SCENARIO_FILE
    else:
        return
    if found != expected:
        raise ModelError(f"this is a {found}, not a {expected}", hint=FILE_USES[found])


def robot_from_toml(text: str) -> Robot:
    """The robot that this TOML text describes."""
    return robot_from_tables(parse_toml(text))


def robot_from_tables(data: dict[str, Any]) -> Robot:
    """The robot of these tables, as a TOML file has them."""
    require_file_type(data, ROBOT_FILE)
    try:
        file = RobotFile.model_validate(data)
    except ValidationError as error:
        raise ModelErrors.of(schema_errors(error, data)) from None
    return _Builder(file).robot()


def parse_toml(text: str, expected: str = "[robot] and [[body]] tables") -> dict[str, Any]:
    """The tables of a TOML text; ``expected`` says what an empty one lacks."""
    if not text.strip():
        raise ModelError("file is empty", hint=f"expected {expected}")
    _refuse_long_keys(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, position = str(error).partition(" (at ")
        raise ModelError(f"is not TOML: {message}", place=position.rstrip(")")) from None
    except RecursionError:
        raise ModelError("is not TOML: nested too deeply") from None
    except ValueError:  # an integer of thousands of digits
        digits = re.search(rf"\d{{{sys.get_int_max_str_digits()}}}", text.replace("_", ""))
        place = f"line {text.count(chr(10), 0, digits.start()) + 1}" if digits else "file"
        raise ModelError("a number has too many digits", place=place, hint="expected at most 308") from None
    _refuse_depth(document)
    return document


def _refuse_long_keys(text: str) -> None:
    """Before parsing: a key of tens of thousands of parts would fill the memory."""
    if text.count(".") < DEEPEST:
        return
    bare = _COMMENT_OR_TEXT.sub(lambda found: "" if found[0][0] == "#" else "\n" * found[0].count("\n") + "_", text)
    found = _LONG_KEY.search(bare)
    if found:
        line = bare.count("\n", 0, found.start()) + 1
        raise ModelError(
            f"a key has more than {DEEPEST} parts", place=f"line {line}", hint="expected few tables within tables"
        )


def _refuse_depth(document: dict[str, Any]) -> None:
    """Depth and keys of what was parsed, without recursion: it may be deeper than Python's stack."""
    level: list[tuple[str, Any]] = [("", document)]
    for _ in range(DEEPEST):
        below: list[tuple[str, Any]] = []
        for place, node in level:
            if isinstance(node, dict):
                for key, child in node.items():
                    if len(key) > LONGEST_KEY:
                        raise ModelError(
                            f"a key has {len(key)} characters",
                            place=f"{place}.{clipped(key)}".lstrip("."),
                            hint=f"expected at most {LONGEST_KEY}",
                        )
                    if isinstance(child, dict | list):
                        below.append((f"{place}.{key}".lstrip("."), child))
            else:
                below += [(f"{place}[{k}]", child) for k, child in enumerate(node) if isinstance(child, dict | list)]
        if not below:
            return
        level = below
    raise ModelError(f"is nested more than {DEEPEST} deep", place=clipped(level[0][0]))


#: Parts that were made of tables, by what the tables hold: of many robots that differ in little, most are the same.
_made: dict[tuple[type, str], Any] = {}
MOST_MADE = 4096


def _once(table: Any, make: Callable[[], T]) -> T:
    """What ``make`` makes of this table and of nothing else; parts never change, so that robots may share them."""
    # By content: a campaign reads thousands of robots that differ in one number.
    key = type(table), repr(table)
    if key not in _made:
        if len(_made) >= MOST_MADE:
            _made.clear()
        _made[key] = make()
    found: T = _made[key]
    return found


class _Builder:
    """Collects the parts. ``frames`` holds, for bodies of a standard DH table, the table's link frame in the body's own
    frame: all that the file places on such a body is given in the link frame."""

    def __init__(self, file: RobotFile) -> None:
        self.file, self.problems = file, Problems()
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.couplings: list[Coupling] = []
        self.frames: dict[str, Pose] = {}
        #: for each joint, the position in a configuration of the file from which it takes its value
        self.sources: list[int] = []
        self.entries = 0
        #: where in the file each body, joint and coupling stands, in the order of the lists above
        self.places: dict[str, list[str]] = {"body": [], "joint": [], "coupling": []}

    def robot(self) -> Robot:
        file = self.file
        count = len(file.joint) + len(file.wheel) + sum(len(table.row) for table in file.dh)
        if count > MOST_JOINTS:
            raise ModelError(f"there are {count} joints", place="joint", hint=f"expected at most {MOST_JOINTS}")
        self.made("body", self.add_body)
        self.made("dh", self.add_dh)
        self.made("joint", self.add_joint)
        self.made("wheel", self.add_wheel)
        frames = self.made("frame", lambda each, place: Frame(each.name, each.body, self.on(each.body, each, place)))
        self.made("coupling", self.add_coupling)
        self.problems.tell()  # the tree can only be judged when every part is there
        self.check_names()
        thrusters = self.made("thruster", self.thruster)
        self.problems.tell()
        robot = Robot(
            file.robot.name,
            tuple(self.bodies),
            tuple(self.joints),
            tuple(frames),
            tuple(thrusters),
            tuple(self.couplings),
            self.configurations(),
        )
        if file.robot.base is not None and robot.bodies[0].name != file.robot.base:
            raise ModelError(
                f"base is {file.robot.base!r}, but the tree stands on {robot.bodies[0].name!r}", place="robot.base"
            )
        return robot

    def made(self, kind: str, make: Callable[[Any, Place], T]) -> list[T]:
        """What ``make`` makes of each table of this kind; problems are kept."""
        tables, result = getattr(self.file, kind), []
        for index, table in enumerate(tables):
            with self.problems.collected():
                path = kind if kind == "dh" and len(tables) == 1 else f"{kind}[{index}]"
                result.append(make(table, Place(path, getattr(table, "name", ""))))
        return result

    def check_names(self) -> None:
        """Names that occur twice are reported with both places in the file; the robot does not know these."""
        places = self.places
        parts: dict[str, list[Any]] = {"body": self.bodies, "joint": self.joints, "coupling": self.couplings}
        for what, each in parts.items():
            check_unique([part.name for part in each], what, places=places[what])
        frames = {f"frame[{index}]": frame.name for index, frame in enumerate(self.file.frame)}
        check_unique(
            [*(body.name for body in self.bodies), *frames.values()],
            "frame",
            places=[*places["body"], *frames],
            hint="frames and bodies share one set of names",
        )
        for joint, path in zip(self.joints, places["joint"], strict=True):
            check_joint_name(joint.name, Place(path, joint.name))

    def on(self, body: str, table: JointTable | DhTable | FrameTable, place: Place) -> Pose:
        """The pose that a table gives on this body, in the body's own frame."""
        pose = _once(table.origin, lambda: pose_of(table.origin, place.key("origin")))
        return self.frames[body] @ pose if body in self.frames else pose

    def add_body(self, table: BodyTable, place: Place) -> None:
        body = _once(table, lambda: Body(table.name, inertia_of(table, place), *shapes_of(table, place)))
        self.bodies.append(body)
        self.places["body"].append(place.path)

    def add_coupling(self, table: CouplingTable, place: Place) -> None:
        self.couplings.append(coupling_of(table, self.joints, place))
        self.places["coupling"].append(place.path)

    def add_joint(self, table: JointTable, place: Place) -> None:
        placement = self.on(table.parent, table, place)
        with at(place.key("axis"), fallback=True):
            axis = unit_vector(table.axis, "axis")
        self.add(table, place, table.name, table.parent, table.child, placement=placement, axis=axis)

    def add_dh(self, table: DhTable, place: Place) -> None:
        rows = [dh_row(row, place.key(f"row[{index}]")) for index, row in enumerate(table.row)]
        links = dh_links(rows, table.convention, self.on(table.base, table, place))
        parent = table.base
        for index, (row, link) in enumerate(zip(table.row, links, strict=True)):
            here = Place(f"{place.path}.row[{index}]", row.joint)
            frame = link.link_frame
            self.bodies.append(Body(row.body, inertia_of(row, here, frame), *shapes_of(row, here, frame)))
            self.places["body"].append(here.path)
            if table.convention == "standard":
                self.frames[row.body] = link.link_frame
            self.add(row, here, row.joint, parent, row.body, placement=link.placement)
            parent = row.body

    def add(self, keys: JointKeys, place: Place, name: str, parent: str, child: str, **where: Any) -> None:
        """One joint; with a transmission, its motor as well."""
        turns = keys.kind == "revolute"
        spring, rotor, motor = None, None, keys.transmission
        if keys.spring is not None:
            with at(place.key("spring"), fallback=True):
                spring = Spring(keys.spring.stiffness, rest_of(keys.spring, turns, place.key("spring")))
        if keys.rotor is not None:
            with at(place.key("rotor"), fallback=True):
                rotor = Rotor(keys.rotor.inertia, keys.rotor.ratio)
        laws: dict[str, Any] = {"spring": spring, "damping": keys.damping, "rotor": None if motor else rotor}
        laws["limits"] = limits_of(keys.limits, turns, place.key("limits"))
        laws["friction"] = friction_of(keys.friction, place.key("friction"))
        with at(place, fallback=True):
            self.joints.append(Joint(name, keys.kind, parent, child, **where, **laws))
        self.places["joint"].append(place.path)
        self.sources.append(self.entries)
        if motor is not None:
            with at(place.key("transmission"), fallback=True):
                self.add_motor(motor, place.key("transmission"), rotor, **where)
        self.entries += 1

    def add_motor(self, motor: TransmissionTable, place: Place, rotor: Rotor | None, **where: Any) -> None:
        """The motor of the last joint, on the same parent, with a massless body of its own."""
        link = self.joints[-1]
        name, turns = f"{link.name}.motor", link.kind == "revolute"
        if rotor is None:
            raise ModelError("a transmission needs a rotor", hint="give the joint a 'rotor' table")
        friction = friction_of(motor.motor_friction, place.key("motor_friction"))
        laws: dict[str, Any] = {"damping": motor.motor_damping, "friction": friction, "rotor": rotor}
        self.joints.append(Joint(name, link.kind, link.parent, name, **where, **laws))
        rest = rest_of(motor, turns, place)
        coupling = Coupling(f"{link.name}.transmission", link.name, name, motor.stiffness, motor.damping, 1.0, rest)
        self.couplings.append(coupling)
        self.bodies.append(Body(name, Inertia.massless()))
        for what in self.places:  # the motor's body, joint and coupling
            self.places[what].append(place.path)
        self.sources.append(self.entries)

    def thruster(self, table: ThrusterTable, place: Place) -> Thruster:
        return self._thruster(table, place) if self.frames else _once(table, lambda: self._thruster(table, place))

    def _thruster(self, table: ThrusterTable, place: Place) -> Thruster:
        frame = self.frames.get(table.body, Pose())
        with at(place.key("direction"), fallback=True):
            direction = unit_vector(table.direction, "direction")
        if table.body in self.frames:
            direction = frame.rotation @ direction
        with at(place, fallback=True):
            position = frame.rotation @ np.array(table.position) + frame.translation
            last = (table.force, table.minimum_pulse, table.specific_impulse)
            return Thruster(table.name, table.body, position, direction, *last)

    def add_wheel(self, table: WheelTable, place: Place) -> None:
        """A reaction wheel: in configurations it stands at zero unless all numbers are given."""
        with at(place.key("axis"), fallback=True):
            axis = unit_vector(table.axis, "axis")
        if table.body in self.frames:
            axis = self.frames[table.body].rotation @ axis
        with at(place, fallback=True):
            body, joint = wheel(table.name, table.body, axis, table.inertia, table.torque, table.speed)
        self.bodies.append(body)
        self.joints.append(joint)
        for what in ("body", "joint"):
            self.places[what].append(place.path)
        self.sources.append(-1)

    def configurations(self) -> dict[str, Array]:
        result: dict[str, Array] = {}
        for section in ("configurations", "configurations_deg"):
            for name, values in getattr(self.file, section).items():
                place = Place(f"{section}.{name}")
                with at(place):
                    if name in result:
                        raise ModelError("this configuration is given twice")
                    result[name] = self.configuration(values, section.endswith("_deg"), place)
        return result

    def configuration(self, values: list[float], degrees: bool, place: Place) -> Array:
        n = len(self.joints)
        if len(values) == n:
            array = np.array(values)
        elif len(values) == self.entries:  # a motor starts where its link does
            array = np.array([0.0 if source < 0 else values[source] for source in self.sources])
        else:
            motors = f", or {n} with the motors and wheels" if n > self.entries else ""
            expected = f"expected {self.entries} numbers, one for each joint{motors}"
            raise ModelError(f"list has length {len(values)}", hint=expected)
        turns = np.array([joint.kind == "revolute" for joint in self.joints], dtype=bool)
        if degrees:
            return np.where(turns, np.deg2rad(array), array)
        if np.any(np.abs(array[turns]) > LARGEST_ANGLE):
            doubt_angle(float(np.abs(array[turns]).max()), place, "configurations_deg")
        return array
