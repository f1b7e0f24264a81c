"""The tables and keys of a robot file, as pydantic models: shapes and types only.

What the keys mean is in ``docs/robot-file.md``; :mod:`spacearm.model.toml_read` gives them that meaning. Unknown keys
are errors. Numbers are finite (limits may be infinite), a string or a boolean is never taken for a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError


def _fail(message: str, hint: str = "") -> PydanticCustomError:
    # literal braces would be read as a template, so the texts travel as context
    return PydanticCustomError("spacearm", "{message}", {"message": message, "hint": hint})


def shorten_value(value: object) -> str:
    """A value as it is written, cut to some forty characters."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


#: Numbers in SI units beyond this are a mistake, and products of some of them would overflow.
LARGEST_NUMBER = 1e30


def _any_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fail(f"{shorten_value(value)} is not a number", "expected a number without quotes")
    try:
        number = float(value)
    except OverflowError:
        raise _fail("number is too large") from None
    if math.isnan(number):
        raise _fail("value is nan", "expected a number")
    return number


def _finite_number(value: object) -> float:
    number = _any_number(value)
    if math.isinf(number):
        raise _fail(f"value is {number}", "expected a finite number")
    if abs(number) > LARGEST_NUMBER:
        raise _fail(f"value is {number:g}", f"expected a size of at most {LARGEST_NUMBER:g}, in SI units")
    return number


def integer_between(low: int, high: int) -> BeforeValidator:
    """Whole numbers from ``low`` to ``high``."""

    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _fail(f"{shorten_value(value)} is not a whole number", "expected a number without quotes and point")
        if not low <= value <= high:
            shown = value if abs(value) < 10**20 else "too large"
            raise _fail(f"value is {shown}", f"expected a whole number from {low} to {high}")
        return value

    return BeforeValidator(check)


def positive_number(least: float = 0.0) -> BeforeValidator:
    """Numbers above zero, at least ``least``."""

    def check(value: object) -> float:
        number = _finite_number(value)
        if not (number > 0.0 and number >= least):
            raise _fail(f"value is {number:g}", f"expected at least {least:g}" if least else "expected more than zero")
        return number

    return BeforeValidator(check)


def _count(*lengths: int, what: str = "numbers") -> Callable[[Any], Any]:
    expected = f"expected {' or '.join(map(str, lengths))} {what} in brackets"

    def check(value: object) -> object:
        if not isinstance(value, list):
            raise _fail(f"{shorten_value(value)} is not a list", expected)
        if len(value) not in lengths:
            raise _fail(f"list has length {len(value)}", expected)
        return value

    return check


def _refuse_controls(text: str) -> str:
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        raise _fail(f"{shorten_value(text)} holds control characters", "expected printable text in one line")
    return text


#: Names and titles; data files and terminals cannot hold every character.
Name = Annotated[str, Strict(), AfterValidator(_refuse_controls)]
Number = Annotated[float, BeforeValidator(_finite_number)]
#: Where a random number generator starts.
Seed = Annotated[int, integer_between(0, 2**63 - 1)]
#: What is computed in time lasts at least so long, s: below that, times cannot be told apart.
SHORTEST = 1e-9
Duration = Annotated[float, positive_number(SHORTEST)]
Limit = Annotated[float, BeforeValidator(_any_number)]
Vector3 = Annotated[list[Number], BeforeValidator(_count(3))]
Vector4 = Annotated[list[Number], BeforeValidator(_count(4))]
Matrix3 = Annotated[list[Vector3], BeforeValidator(_count(3, what="rows"))]
Moments = Annotated[list[Number], BeforeValidator(_count(3, 6))]
Kind = Literal["revolute", "prismatic"]


class TomlTable(BaseModel):
    """A table of the file; keys that it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    #: Keys of older files, and where to say it now.
    key_changes: ClassVar[Mapping[str, str]] = {}


class RobotHeaderTable(TomlTable):
    name: Name
    base: Name | None = None


def _bare_kind(value: object) -> object:
    if not isinstance(value, str | dict | BaseTable):
        raise _fail(f"{shorten_value(value)} is no kind of base", "expected 'free', 'planar', 'rail' or 'held'")
    return {"kind": value} if isinstance(value, str) else value


class BaseTable(TomlTable):
    """How the base may move; ``base = "planar"`` stands for ``base = { kind = "planar" }``."""

    kind: Literal["free", "planar", "rail", "held"]
    axis: Vector3 | None = None


#: How a base may move, as a word or a table.
BaseKey = Annotated[BaseTable, BeforeValidator(_bare_kind)]


class RotationTable(TomlTable):
    """A rotation, in one of its forms."""

    rpy: Vector3 | None = None
    rpy_deg: Vector3 | None = None
    quaternion: Vector4 | None = None
    rotation: Matrix3 | None = None


class Origin(RotationTable):
    xyz: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])


class InertialKeys(TomlTable):
    mass: Number
    com: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    inertia: Moments | None = None
    inertia_about: Literal["com", "origin"] = "com"
    inertia_axes: RotationTable | None = None


def _wrap_in_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


class ModeShapeTable(TomlTable):
    """What a unit of a joint's position moves a visual by."""

    joint: Name
    translation: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    rotation: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])


class VisualTable(TomlTable):
    """A shape that a body is drawn with."""

    shape: Literal["box", "cylinder", "capsule", "sphere", "ellipsoid", "mesh"]
    size: Annotated[list[Number], BeforeValidator(_wrap_in_list)] | None = None
    origin: Origin = Field(default_factory=Origin)
    colour: Name = ""
    mesh: Name = ""
    mode_shapes: list[ModeShapeTable] = Field(default_factory=list, max_length=100)


class CollisionTable(TomlTable):
    """A shape by which a body may touch others."""

    shape: Literal["box", "cylinder", "capsule", "sphere", "plane", "disc", "cone", "hole", "ring"]
    size: Annotated[list[Number], BeforeValidator(_wrap_in_list)] = Field(default_factory=list)
    origin: Origin = Field(default_factory=Origin)


class ShapeKeys(TomlTable):
    visual: list[VisualTable] = Field(default_factory=list, max_length=1000)
    collision: list[CollisionTable] = Field(default_factory=list, max_length=1000)


class SpringTable(TomlTable):
    stiffness: Number
    rest: Number | None = None
    rest_deg: Number | None = None


class FrictionTable(TomlTable):
    coulomb: Number
    static: Number | None = None


class LimitsTable(TomlTable):
    lower: Limit | None = None
    lower_deg: Limit | None = None
    upper: Limit | None = None
    upper_deg: Limit | None = None
    velocity: Limit | None = None
    velocity_deg: Limit | None = None
    effort: Limit | None = None


class RotorTable(TomlTable):
    inertia: Number
    ratio: Number = 1.0


class TransmissionTable(SpringTable):
    damping: Number = 0.0
    motor_damping: Number = 0.0
    motor_friction: FrictionTable | None = None


class JointKeys(TomlTable):
    kind: Kind = "revolute"
    spring: SpringTable | None = None
    damping: Number = 0.0
    friction: FrictionTable | None = None
    limits: LimitsTable | None = None
    rotor: RotorTable | None = None
    transmission: TransmissionTable | None = None


class BodyTable(InertialKeys, ShapeKeys):
    name: Name


class JointTable(JointKeys):
    name: Name
    kind: Kind
    parent: Name
    child: Name
    origin: Origin = Field(default_factory=Origin)
    axis: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 1.0])


class DhRowTable(InertialKeys, JointKeys, ShapeKeys):
    joint: Name
    body: Name
    a: Number = 0.0
    alpha: Number | None = None
    alpha_deg: Number | None = None
    d: Number = 0.0
    theta: Number | None = None
    theta_deg: Number | None = None


class DhTable(TomlTable):
    convention: Literal["craig", "standard"]
    base: Name
    origin: Origin = Field(default_factory=Origin)
    row: list[DhRowTable] = Field(min_length=1)


class FrameTable(TomlTable):
    name: Name
    body: Name
    origin: Origin = Field(default_factory=Origin)


class ThrusterTable(TomlTable):
    """A thruster, or a set of them on a box."""

    name: Name
    body: Name
    position: Vector3 | None = None
    direction: Vector3 | None = None
    set: Literal[12, 16] | None = None
    size: Vector3 | None = None
    force: Number
    minimum_pulse: Number = 0.0
    specific_impulse: Limit = math.inf
    tank: Name = ""


class WheelTable(TomlTable):
    """A reaction wheel, or a set of them."""

    name: Name
    body: Name
    axis: Vector3 | None = None
    set: Literal["pyramid", "orthogonal"] | None = None
    tilt: Number | None = None
    tilt_deg: Number | None = None
    inertia: Number
    torque: Limit = math.inf
    speed: Limit = math.inf


class CouplingTable(SpringTable):
    name: Name
    first: Name
    second: Name
    damping: Number = 0.0
    ratio: Number = 1.0


class LoopTable(TomlTable):
    """A constraint that closes a loop."""

    name: Name
    kind: Literal["point", "axis", "weld", "distance", "gear"]
    first: Name
    second: Name
    axis: Vector3 | None = None
    distance: Number = 0.0
    ratio: Number = 1.0
    offset: Number = 0.0


class ModeTable(TomlTable):
    """A mode of an appendage whose root is held, its shape normalised to a modal mass of 1 kg."""

    frequency: Number
    damping: Number = 0.005
    translation: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    rotation: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])


class MatricesTable(TomlTable):
    """Matrices of finite elements that become modes."""

    file: Name
    interface: list[Annotated[int, integer_between(1, 10**9)]] = Field(min_length=1, max_length=1000)
    damping: Number | None = None
    share: Number = 0.95
    most: Annotated[int, integer_between(1, 100)] = 30


class AppendageTable(InertialKeys):
    """A flexible appendage by its modes or its matrices; mass properties in the frame of its root."""

    name: Name
    body: Name
    origin: Origin = Field(default_factory=Origin)
    mass: Number = 0.0
    mode: list[ModeTable] = Field(default_factory=list, max_length=100)
    matrices: MatricesTable | None = None


class TorsionTable(TomlTable):
    stiffness: Number
    inertia: Number


class BoomTable(TomlTable):
    """A uniform Euler-Bernoulli beam from its root along x."""

    name: Name
    body: Name
    origin: Origin = Field(default_factory=Origin)
    length: Number
    mass: Number
    stiffness_y: Limit = math.inf
    stiffness_z: Limit = math.inf
    torsion: TorsionTable | None = None
    width: Number | None = None
    modes: int = 3
    damping: Number = 0.005


class TankTable(TomlTable):
    """A tank with a free surface; its bottom at the origin, its axis along z."""

    name: Name
    body: Name | None = None
    origin: Origin = Field(default_factory=Origin)
    shape: Literal["cylinder", "sphere"] = "cylinder"
    radius: Number
    mass: Number
    density: Number
    acceleration: Number = 0.0
    surface_tension: Number = 0.0
    damping: Number = 0.01
    slosh_frequency: Number | None = None
    included: Annotated[bool, Strict()] = False


class RobotFileKeys(TomlTable):
    """A robot of another file, and how it is read."""

    file: Name = Field(description="a robot file, relative to this file, or a name of the catalogue")
    repair: Annotated[bool, Strict()] = Field(False, description="replace impossible values by the nearest possible")
    base: Name | None = Field(None, description="body to take as the base, of URDF and MJCF")
    base_mass: Number | None = Field(None, description="mass of a base to which URDF or MJCF gives none, kg")
    arguments: dict[Name, Annotated[bool, Strict()] | Number | str] = Field(
        default_factory=dict, max_length=100, description="values of the arguments of a xacro file, by name"
    )
    scale: Number | None = Field(None, description="factor on all lengths; the robot then moves as before, in its size")
    scale_mass: Number | None = Field(None, description="factor on all masses; the cube of `scale` unless given")
    loops: Annotated[bool, Strict()] = Field(True, description="false: without its closed loops")
    rename: dict[Name, Name] = Field(default_factory=dict, description="new names of parts by their old ones")


class MountTable(RobotFileKeys):
    """A robot that is mounted by its base."""

    frame: Name | None = Field(None, description="what it is mounted on: a body or a frame; the base unless given")
    origin: Origin = Field(
        default_factory=Origin, description="pose of its base there: `xyz`, and `rpy_deg` or another"
    )
    prefix: Name = Field("", description="in front of the names of its parts")
    base_inertia: Annotated[bool, Strict()] = Field(True, description="false: without the mass of its base")


#: Robots that one file mounts, at most.
Mounts = Annotated[list[MountTable], Field(max_length=32)]


class AssembledRobotTable(RobotFileKeys):
    """A robot: its file, how that is read, and what is added to it."""

    mount: Mounts = Field(default_factory=list, description="robots to mount on it")
    wheel: list[WheelTable] = Field(default_factory=list, description="wheels, as in a robot file")
    thruster: list[ThrusterTable] = Field(default_factory=list, description="thrusters, as in a robot file")


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class RobotFile(TomlTable):
    """The whole file."""

    robot: RobotHeaderTable
    base: BaseKey | None = None
    body: list[BodyTable] = Field(min_length=1)
    joint: list[JointTable] = Field(default_factory=list)
    dh: Annotated[list[DhTable], BeforeValidator(_one_or_more)] = Field(default_factory=list)
    frame: list[FrameTable] = Field(default_factory=list)
    thruster: list[ThrusterTable] = Field(default_factory=list)
    wheel: list[WheelTable] = Field(default_factory=list)
    coupling: list[CouplingTable] = Field(default_factory=list)
    loop: list[LoopTable] = Field(default_factory=list, max_length=1000)
    appendage: list[AppendageTable] = Field(default_factory=list)
    boom: list[BoomTable] = Field(default_factory=list)
    tank: list[TankTable] = Field(default_factory=list)
    mount: Mounts = Field(default_factory=list)
    configurations: dict[str, list[Number]] = Field(default_factory=dict)
    configurations_deg: dict[str, list[Number]] = Field(default_factory=dict)
    provenance: dict[str, Any] = Field(default_factory=dict)
