"""From the text of a robot file to a :class:`~spacearm.model.Robot`.

Anything wrong with the file is a :class:`~spacearm.errors.ModelError` that names the file, the place and the remedy.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from spacearm.errors import ModelError, clip_text, error_context, similar_files
from spacearm.model._dh import dh_links
from spacearm.model._toml_flexible import extend_by_appendage, extend_by_boom, extend_by_tank
from spacearm.model.edit import add_parts
from spacearm.model.mounts import Mount, read_mount
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
from spacearm.model.robot_import import Reading
from spacearm.model.toml_errors import Place, schema_errors
from spacearm.model.toml_schema import (
    AppendageTable,
    BodyTable,
    BoomTable,
    CouplingTable,
    DhTable,
    FrameTable,
    JointKeys,
    JointTable,
    RobotFile,
    TankTable,
    ThrusterTable,
    TransmissionTable,
    WheelTable,
)
from spacearm.model.toml_values import (
    LARGEST_ANGLE,
    base_of,
    dh_row,
    friction_of,
    inertia_of,
    limits_of,
    make_coupling,
    make_loop,
    pose_of,
    rest_of,
    shapes_of,
    thrusters_of,
    warn_of_degrees,
    wheels_of,
)
from spacearm.model.visuals import mesh_file, with_meshes
from spacearm.typing import Array

T = TypeVar("T")
#: A robot file is text written by people or by :func:`spacearm.save`; one larger than this (bytes) is a mistake.
LARGEST_FILE = 16 * 2**20
#: Tables within tables, and parts of a dotted key: more than this is not a file for spacearm. tomllib needs memory that
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
    """The robot in a TOML file, which says what it means: of ``reading`` only the depth concerns it."""
    folder = Path(path).parent
    with error_context(file=path):
        data = parse_toml(read_text(Path(path)))
        return with_meshes(robot_from_tables(data, folder, reading), lambda file: mesh_file(file, folder))


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


def robot_from_tables(data: dict[str, Any], folder: Path | None = None, reading: Reading | None = None) -> Robot:
    """The robot of these tables, as a TOML file has them; robots that it mounts lie in ``folder``."""
    require_file_type(data, ROBOT_FILE)
    try:
        file = RobotFile.model_validate(data)
    except ValidationError as error:
        raise ModelErrors.from_problems(schema_errors(error, data)) from None
    return _RobotBuilder(file).robot(folder, reading or Reading())


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
                            place=f"{place}.{clip_text(key)}".lstrip("."),
                            hint=f"expected at most {LONGEST_KEY}",
                        )
                    if isinstance(child, dict | list):
                        below.append((f"{place}.{key}".lstrip("."), child))
            else:
                below += [(f"{place}[{k}]", child) for k, child in enumerate(node) if isinstance(child, dict | list)]
        if not below:
            return
        level = below
    raise ModelError(f"is nested more than {DEEPEST} deep", place=clip_text(level[0][0]))


#: Parts that were made of tables, by what the tables hold: of many robots that differ in little, most are the same.
_part_cache: dict[tuple[type, str], Any] = {}
MOST_CACHED_PARTS = 4096


def _make_once(table: Any, make: Callable[[], T]) -> T:
    """What ``make`` makes of this table and of nothing else; parts never change, so that robots may share them."""
    # By content: a campaign reads thousands of robots that differ in one number.
    key = type(table), repr(table)
    if key not in _part_cache:
        if len(_part_cache) >= MOST_CACHED_PARTS:
            _part_cache.clear()
        _part_cache[key] = make()
    found: T = _part_cache[key]
    return found


class _RobotBuilder:
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

    def robot(self, folder: Path | None, reading: Reading) -> Robot:
        file = self.file
        count = len(file.joint) + len(file.wheel) + sum(len(table.row) for table in file.dh)
        if count > MOST_JOINTS:
            raise ModelError(f"there are {count} joints", place="joint", hint=f"expected at most {MOST_JOINTS}")
        self.make_parts("body", self.add_body)
        self.make_parts("dh", self.add_dh)
        self.make_parts("joint", self.add_joint)
        self.make_parts("wheel", self.add_wheel)
        frames = self.make_parts(
            "frame", lambda each, place: Frame(each.name, each.body, self.pose_on_body(each.body, each, place))
        )
        mounts = self.make_parts("mount", lambda each, place: read_mount(each, place, folder, reading))
        self.make_parts("coupling", self.add_coupling)
        self.problems.raise_all()  # the tree can only be judged when every part is there
        self.check_names()
        thrusters = self.make_parts("thruster", self.thrusters)
        self.problems.raise_all()
        own = {body.name for body in self.bodies} if mounts else {frame.body for frame in frames}
        robot = Robot(
            file.robot.name,
            tuple(self.bodies),
            tuple(self.joints),
            tuple(frame for frame in frames if frame.body in own),
            tuple(replace(each, tank="") for several in thrusters for each in several),
            tuple(self.couplings),
            {} if mounts else self.configurations(),
            base_of(file.base, Place("base")),
        )
        if mounts:
            robot = self.with_mounts(robot, mounts, [frame for frame in frames if frame.body not in own])
        if file.robot.base is not None and robot.bodies[0].name != file.robot.base:
            raise ModelError(
                f"base is {file.robot.base!r}, but the root of the tree is {robot.bodies[0].name!r}", place="robot.base"
            )
        robot = self.add_flexible_parts(robot, folder)
        # Tanks come after the thrusters that they feed.
        fed = {each.name: each for several in thrusters for each in several}
        robot = robot.replace(
            thrusters=tuple(
                replace(each, tank=fed[each.name].tank) if each.name in fed else each for each in robot.thrusters
            )
        )
        return self.add_loops(robot)

    def add_loops(self, robot: Robot) -> Robot:
        """The robot with its loops: last, so that they may join parts of mounted robots and booms."""
        loops = self.make_parts("loop", make_loop)
        self.problems.raise_all()
        return robot.replace(loops=(*robot.loops, *loops)) if loops else robot

    def add_flexible_parts(self, robot: Robot, folder: Path | None) -> Robot:
        """The robot with its appendages, booms and tanks, which bring joints of their own."""
        modes = sum(len(table.mode) or (table.matrices.most if table.matrices else 0) for table in self.file.appendage)
        modes += sum(3 * max(0, table.modes) for table in self.file.boom) + 2 * sum(
            not each.included for each in self.file.tank
        )
        if robot.n + modes > MOST_JOINTS:
            hint = f"expected at most {MOST_JOINTS} joints in all"
            raise ModelError(f"there are {robot.n} joints and {modes} modes", place="appendage", hint=hint)

        def add(kind: str, extend: Callable[[Robot, Any, Pose, Place], Robot]) -> None:
            nonlocal robot
            for index, table in enumerate(getattr(self.file, kind)):
                place = Place(f"{kind}[{index}]", table.name)
                with error_context(place):
                    pose = Pose() if table.body is None else self.pose_on_body(table.body, table, place)
                    robot = extend(robot, table, pose, place)

        add("appendage", partial(extend_by_appendage, folder=folder))
        add("boom", extend_by_boom)
        add("tank", extend_by_tank)
        return robot

    def with_mounts(self, robot: Robot, mounts: list[Mount], frames: list[Frame]) -> Robot:
        """The robot with those that it mounts, frames on these, and the configurations of the whole."""
        for mount in mounts:
            placed = mount.placement
            if mount.frame in self.frames:
                placed = self.frames[mount.frame] @ placed
            robot = mount.attach_to(robot, placed)
        mine = {joint.name for joint in self.joints}
        for joint in robot.joints:
            if joint.name not in mine:
                self.joints.append(joint)
                self.sources.append(self.entries)
                self.entries += 1
        if frames:
            robot = add_parts(robot, frames=frames)
        names = [joint.name for joint in self.joints]
        own = {
            key: np.array([dict(zip(names, values, strict=True))[name] for name in robot.joint_names])
            for key, values in self.configurations().items()
        }
        return robot.replace(configurations={**robot.configurations, **own})

    def make_parts(self, kind: str, make: Callable[[Any, Place], T]) -> list[T]:
        """What ``make`` makes of each table of this kind; problems are kept."""
        tables, result = getattr(self.file, kind), []
        for index, table in enumerate(tables):
            with self.problems.collect_errors():
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

    def pose_on_body(
        self, body: str, table: JointTable | DhTable | FrameTable | AppendageTable | BoomTable | TankTable, place: Place
    ) -> Pose:
        """The pose that a table gives on this body, in the body's own frame."""
        pose = _make_once(table.origin, lambda: pose_of(table.origin, place.key("origin")))
        return self.frames[body] @ pose if body in self.frames else pose

    def add_body(self, table: BodyTable, place: Place) -> None:
        body = _make_once(table, lambda: Body(table.name, inertia_of(table, place), *shapes_of(table, place)))
        self.bodies.append(body)
        self.places["body"].append(place.path)

    def add_coupling(self, table: CouplingTable, place: Place) -> None:
        self.couplings.append(make_coupling(table, self.joints, place))
        self.places["coupling"].append(place.path)

    def add_joint(self, table: JointTable, place: Place) -> None:
        placement = self.pose_on_body(table.parent, table, place)
        with error_context(place.key("axis"), fallback=True):
            axis = unit_vector(table.axis, "axis")
        self.add(table, place, table.name, table.parent, table.child, placement=placement, axis=axis)

    def add_dh(self, table: DhTable, place: Place) -> None:
        rows = [dh_row(row, place.key(f"row[{index}]")) for index, row in enumerate(table.row)]
        links = dh_links(rows, table.convention, self.pose_on_body(table.base, table, place))
        parent = table.base
        for index, (row, link) in enumerate(zip(table.row, links, strict=True)):
            own = Place(f"{place.path}.row[{index}]", row.joint)
            frame = link.link_frame
            self.bodies.append(Body(row.body, inertia_of(row, own, frame), *shapes_of(row, own, frame)))
            self.places["body"].append(own.path)
            if table.convention == "standard":
                self.frames[row.body] = link.link_frame
            self.add(row, own, row.joint, parent, row.body, placement=link.placement)
            parent = row.body

    def add(self, keys: JointKeys, place: Place, name: str, parent: str, child: str, **where: Any) -> None:
        """One joint; with a transmission, its motor as well."""
        revolute = keys.kind == "revolute"
        spring, rotor, motor = None, None, keys.transmission
        if keys.spring is not None:
            with error_context(place.key("spring"), fallback=True):
                spring = Spring(keys.spring.stiffness, rest_of(keys.spring, revolute, place.key("spring")))
        if keys.rotor is not None:
            with error_context(place.key("rotor"), fallback=True):
                rotor = Rotor(keys.rotor.inertia, keys.rotor.ratio)
        laws: dict[str, Any] = {"spring": spring, "damping": keys.damping, "rotor": None if motor else rotor}
        laws["limits"] = limits_of(keys.limits, revolute, place.key("limits"))
        laws["friction"] = friction_of(keys.friction, place.key("friction"))
        with error_context(place, fallback=True):
            self.joints.append(Joint(name, keys.kind, parent, child, **where, **laws))
        self.places["joint"].append(place.path)
        self.sources.append(self.entries)
        if motor is not None:
            with error_context(place.key("transmission"), fallback=True):
                self.add_motor(motor, place.key("transmission"), rotor, **where)
        self.entries += 1

    def add_motor(self, motor: TransmissionTable, place: Place, rotor: Rotor | None, **where: Any) -> None:
        """The motor of the last joint, on the same parent, with a massless body of its own."""
        link = self.joints[-1]
        name, revolute = f"{link.name}.motor", link.kind == "revolute"
        if rotor is None:
            raise ModelError("a transmission needs a rotor", hint="give the joint a 'rotor' table")
        friction = friction_of(motor.motor_friction, place.key("motor_friction"))
        laws: dict[str, Any] = {"damping": motor.motor_damping, "friction": friction, "rotor": rotor}
        self.joints.append(Joint(name, link.kind, link.parent, name, **where, **laws))
        rest = rest_of(motor, revolute, place)
        coupling = Coupling(f"{link.name}.transmission", link.name, name, motor.stiffness, motor.damping, 1.0, rest)
        self.couplings.append(coupling)
        self.bodies.append(Body(name, Inertia.massless()))
        for what in self.places:  # the motor's body, joint and coupling
            self.places[what].append(place.path)
        self.sources.append(self.entries)

    def thrusters(self, table: ThrusterTable, place: Place) -> list[Thruster]:
        frame = self.frames.get(table.body)
        if frame is not None:
            return thrusters_of(table, place, frame)
        return _make_once(table, lambda: thrusters_of(table, place))

    def add_wheel(self, table: WheelTable, place: Place) -> None:
        """Reaction wheels: in configurations they stand at zero unless all numbers are given."""
        for body, joint in wheels_of(table, place, self.frames.get(table.body)):
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
                with error_context(place):
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
        revolute = np.array([joint.kind == "revolute" for joint in self.joints], dtype=bool)
        if degrees:
            return np.where(revolute, np.deg2rad(array), array)
        if np.any(np.abs(array[revolute]) > LARGEST_ANGLE):
            warn_of_degrees(float(np.abs(array[revolute]).max()), place, "configurations_deg")
        return array
