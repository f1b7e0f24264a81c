"""Tables that several studies share: the state of a robot, a rigid body, columns of a measured file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, model_validator

from spacearm.errors import InputError, error_context, quote_text
from spacearm.measure.files import Column, SampleRate
from spacearm.model import Body, Inertia, Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.model.toml_errors import Place
from spacearm.model.toml_schema import (
    CollisionTable,
    InertialKeys,
    Name,
    Number,
    ShapeKeys,
    Vector3,
    Vector4,
    VisualTable,
    integer_between,
    positive_number,
)
from spacearm.model.toml_values import inertia_of, shapes_of
from spacearm.model.visuals import mesh_file
from spacearm.simulate import State, close_state
from spacearm.study.keys import ScenarioTable, key, validation_error
from spacearm.typing import Array

Numbers = list[Number]


def _pair(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise validation_error("is not a pair", "expected [lower, upper]")
    return value


Pair = Annotated[list[Number], BeforeValidator(_pair)]
Positive = Annotated[float, positive_number()]
#: Number of items.
Count = Annotated[int, integer_between(1, 1_000_000)]
#: One number for each joint in order, or numbers by joint name.
JointNumbers = Numbers | dict[str, Number]


class PerJointKeys(ScenarioTable):
    """Keys with a number for each joint."""

    def joint_array(self, robot: Robot, name: str, values: Array) -> Array:
        """``values`` (n,) overridden by the file's values for some or all joints, SI."""
        # rad first: some joints may be in rad and others in degrees; that no joint is in both was checked before.
        for spelled, scale in ((name, 1.0), (f"{name}_deg", np.pi / 180.0)):
            given = getattr(self, spelled) or {}
            if isinstance(given, list):
                if len(given) != robot.n:
                    hint = f"expected {robot.n}: {', '.join(robot.joint_names)}"
                    raise InputError(f"has {len(given)} numbers", place=spelled, hint=hint)
                given = dict(zip(robot.joint_names, given, strict=True))
            with error_context(spelled):
                check_revolute(robot, given if spelled != name else (), name)
                for joint, value in given.items():
                    values[robot.joint_index(joint)] = value * scale
        return values


def check_revolute(robot: Robot, joints: Iterable[str], instead: str) -> None:
    """Raise an error if one of these joints, given in degrees, is prismatic."""
    for joint in joints:
        if robot.joints[robot.joint_index(joint)].kind == "prismatic":
            raise InputError(
                f"joint {quote_text(joint)} is prismatic and cannot be given in degrees", hint=f"give {instead!r} in SI"
            )


class ConfigurationKeys(PerJointKeys):
    """Joint positions."""

    configuration: Name | None = key(None, "name of a configuration of the robot")
    joints: JointNumbers | None = key(
        None, "all joints in order, or some by name, which override the configuration; rad or m"
    )
    joints_deg: JointNumbers | None = key(None, "the same in degrees")

    def positions(self, robot: Robot, default: Array | None = None) -> Array:
        """Joint positions (n,); joints that are not given have ``default``, else the named configuration, else zero."""
        # A copy: it is overwritten joint by joint.
        found = np.array(robot.configuration(self.configuration or "zero") if default is None else default)
        for all_of_them in ("joints", "joints_deg"):
            # A full list would override the whole configuration: one of them is a slip.
            if self.configuration is not None and isinstance(getattr(self, all_of_them), list):
                raise InputError(f"both 'configuration' and {all_of_them!r} are given", hint="expected one")
        return self.joint_array(robot, "joints", found)


class MotionKeys(PerJointKeys):
    """Joint rates and angular velocity of a robot."""

    rates: JointNumbers | None = key(None, "joint rates, all or some by name; rad/s or m/s")
    rates_deg: JointNumbers | None = key(None, "the same in degrees")
    angular_velocity: Vector3 | None = key(None, "of the base, world axes, rad/s")
    angular_velocity_deg: Vector3 | None = None

    def rates_of(self, robot: Robot) -> Array:
        """Joint rates (n,)."""
        return self.joint_array(robot, "rates", np.zeros(robot.n))

    def base_angular_velocity(self) -> Array:
        """Angular velocity of the base, rad/s."""
        given = self.si_value("angular_velocity")
        return np.zeros(3) if given is None else np.asarray(given, dtype=np.float64)


class StateKeys(ConfigurationKeys, MotionKeys):
    """Configuration, attitude and motion; velocities of the base in world axes."""

    either: ClassVar = (("quaternion", "rpy", "rpy_deg"),)

    quaternion: Vector4 | None = key(None, "attitude of the base: w, x, y, z")
    rpy: Vector3 | None = key(None, "the same as roll, pitch, yaw about fixed axes")
    rpy_deg: Vector3 | None = None
    velocity: Vector3 = key([0.0, 0.0, 0.0], "of the base's origin, world axes, m/s")

    def state(self, robot: Robot, default: Array | None = None, position: Any = (0.0, 0.0, 0.0)) -> State:
        """State at time zero; ``default`` are the positions of joints that are not given.

        Closed loops are closed: joints that are given by name stay, the others follow.
        """
        rotation = self.si_value("rpy")
        quaternion: Any = self.quaternion or (1.0, 0.0, 0.0, 0.0)
        state = State.from_velocities(
            robot,
            self.positions(robot, default),
            self.rates_of(robot),
            position=position,
            quaternion=quaternion if rotation is None else quaternion_from_rotation(rotation_from_rpy(rotation)),
            base_velocity=self.velocity,
            base_angular_velocity=self.base_angular_velocity(),
        )
        tables = (self.joints, self.joints_deg, self.rates, self.rates_deg)
        named = dict.fromkeys(name for table in tables if isinstance(table, dict) for name in table)
        return close_state(robot, state, held=[*named])


class StartTable(StateKeys):
    """State at time zero."""

    position: Vector3 = key([0.0, 0.0, 0.0], "of the base's origin in the world, m")

    def state(self, robot: Robot, default: Array | None = None, position: Any = None) -> State:
        """State at time zero; ``default`` are the positions of joints that are not given."""
        # A given position overrides that of the file.
        return super().state(robot, default, self.position if position is None else position)


class RigidBodyTable(InertialKeys, ScenarioTable):
    """A rigid body: its mass, mass centre and inertia."""

    def inertia_of(self, place: str, name: str = "") -> Inertia:
        """The body's inertia in its own frame."""
        return inertia_of(self, Place(place, name))


class ShapedBodyTable(RigidBodyTable, ShapeKeys):
    """A rigid body: its mass, mass centre and inertia, visual shapes and collision shapes."""

    visual: list[VisualTable] = key([], "visual shapes, as in a robot file", max_length=1000)
    collision: list[CollisionTable] = key([], "collision shapes, as in a robot file", max_length=1000)

    def locate_meshes(self, folder: Path) -> Self:
        """The same table, with mesh files located in a folder."""
        # Relative to the scenario, as all file names in it.
        visual = [one.model_copy(update={"mesh": mesh_file(one.mesh, folder)}) for one in self.visual]
        return self.model_copy(update={"visual": visual})

    def body_of(self, name: str, place: str, whose: str = "") -> Body:
        """The body."""
        return Body(name, self.inertia_of(place, whose), *shapes_of(self, Place(place, whose)))


class InertiaTable(RigidBodyTable):
    """The inertia of a rigid body."""

    def make(self) -> Inertia:
        return self.inertia_of("inertia")


class ColumnTable(ScenarioTable):
    """Column of a quantity in a measured file."""

    column: Name | list[Name] = key(what="name of the column; a list of names, in order, for several columns")
    unit: str = key("", "unit of the numbers in the file; if omitted, the unit that the file states, else SI")
    scale: Number | Numbers = key(
        1.0, "factor of the numbers in the file, one or one for each column; a negative factor reverses the axis"
    )
    unwrap: bool = key(False, "remove jumps of a full revolution")
    offset: Number = key(0.0, "added after conversion, SI")
    dropout: Numbers = key([], "numbers, as they stand in the file, that mark a reading that was dropped")
    fresh: bool = key(
        False, "a row that repeats the one before exactly is not a reading: for logs that are faster than their sensor"
    )
    every: Annotated[float, key(ge=0.0)] = key(
        0.0,
        "s; the sensor is read at this pace: stamps that came early or late are put back to it; 0: stamps are right",
    )

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, given: Any) -> Any:
        """``time = "t"`` stands for ``time = { column = "t" }``."""
        return {"column": given} if isinstance(given, str | list) else given

    def make(self) -> Column:
        """The column, or columns."""
        return Column(
            self.column, self.unit, unwrap=self.unwrap, offset=self.offset, dropout=self.dropout, scale=self.scale,
            fresh=self.fresh, every=self.every,
        )  # fmt: skip

    def scale_factors(self, count: int) -> Array:
        """The factor of each of so many columns (count,)."""
        if isinstance(self.scale, list) and len(self.scale) != count:
            raise InputError(f"has {len(self.scale)} scales for {count} columns", hint="expected one, or one for each")
        return np.broadcast_to(np.asarray(self.scale, dtype=np.float64), (count,))

    def single_column(self, place: str) -> str:
        """The name of the column, if exactly one is expected."""
        if not isinstance(self.column, str):
            raise InputError(f"has {len(self.column)} columns", place=place, hint="expected one")
        return self.column


class ClockTable(ColumnTable):
    """Column of the times of a measured file, or the constant rate of its rows."""

    column: Name | list[Name] | None = key(None, "name of the column")  # type: ignore[assignment]
    rate: Positive | None = key(None, "rows per second, Hz, in place of a column; the first row is at time zero")
    from_first: bool = key(False, "times count from the first row: for clocks that count since 1970 or since boot")

    def clock(self) -> Column | SampleRate:
        """The column, or the rate."""
        if (self.column is None) == (self.rate is None):
            found = "neither column nor rate" if self.rate is None else "both column and rate"
            raise InputError(f"has {found}", place="time", hint="expected one of them")
        if self.rate is not None:
            return SampleRate(self.rate, self.offset)
        return replace(self.make(), from_first=self.from_first)


class MeasuredKeys(ScenarioTable):
    """A measured experiment in a file."""

    file: Name | None = key(None, "CSV, Parquet, NetCDF, HDF5, MATLAB or NumPy file, relative to the scenario")
    time: ColumnTable = key(ColumnTable(column="time", unit="s"), "time column")
    missing: Literal["reject", "drop"] = key(
        "reject", "treatment of samples that are not numbers: an error, or dropped"
    )
    gaps: Literal["reject", "keep"] = key(
        "reject", "treatment of time steps above 1.5 times the usual: an error, or kept"
    )
    hold_out: bool = key(False, "not used for identification, but predicted as a test of the result")
