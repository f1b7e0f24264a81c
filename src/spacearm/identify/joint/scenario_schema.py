"""The tables and keys of a scenario with ``study = "joint-identification"``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from spacearm.identify.joint.laws import Law
from spacearm.model.document import Table
from spacearm.model.toml_schema import Duration, Name, Number, Seed, above_zero


def _pair(value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise PydanticCustomError("spacearm", "{message}", {"message": "is no pair", "hint": "expected [lower, upper]"})
    return value


Pair = Annotated[list[Number], BeforeValidator(_pair)]


class NoiseTable(Table):
    """Standard deviations of one reading."""

    encoder_deg: Number = 0.005
    base_position: Number = 5e-4
    base_attitude_deg: Number = 0.05
    hand_position: Number = 5e-4
    hand_attitude_deg: Number = 0.05
    torque: Number = 0.01


class LawTable(Table):
    motor: Literal["none", "coulomb", "stribeck", "lugre"] = "none"
    spring: Literal["none", "coulomb", "stribeck", "lugre"] = "none"
    cubic: bool = False
    play: bool = False
    motor_damping: bool = False
    slip_speed: Number = Law.slip_speed
    stribeck_speed: Number = Law.stribeck_speed
    bristle_time: Number = Law.bristle_time
    edge: Number = Law.edge


class ColumnTable(Table):
    column: Name
    unit: Name = ""
    offset: Number = 0.0


class PathTable(Table):
    """A joint's motion in a twin experiment: from rest with constant acceleration, or a spline through nodes."""

    start_deg: Number = 0.0
    acceleration_deg: Number = 0.0
    times: list[Number] | None = None
    values_deg: list[Number] | None = None


class TwinTable(Table):
    """A simulated test: true values by joint, motion by joint."""

    duration: Duration = 10.0
    rate: Annotated[float, above_zero()] = 50.0
    seed: Seed | None = 0
    truth: dict[str, dict[str, Number]]
    motion: dict[str, PathTable]
    law: LawTable = Field(default_factory=LawTable)


class TestTable(Table):
    name: Name
    file: Name | None = None
    time: ColumnTable = Field(default_factory=lambda: ColumnTable(column="time", unit="s"))
    columns: dict[str, ColumnTable] = Field(default_factory=dict)
    missing: Literal["reject", "drop"] = "reject"
    gaps: Literal["reject", "keep"] = "keep"
    twin: TwinTable | None = None
    from_rest: bool = True
    base_at_origin: bool = False
    hold_out: bool = False


class SelectTable(Table):
    candidates: list[Name] = Field(default_factory=lambda: ["linear", "cubic", "coulomb", "stribeck"])
    criterion: Literal["aic", "bic", "cross_validation"] = "bic"


class JointFile(Table):
    """The whole file."""

    study: Literal["joint-identification"]
    robot: Name
    title: Name = ""
    frame: Name
    drive: Literal["motor_angle", "torque", "rigid_torque"] = "motor_angle"
    method: Literal["levenberg_marquardt", "nelder_mead", "multi_start"] = "levenberg_marquardt"
    cost: Literal["likelihood", "paper"] = "likelihood"
    angle: Literal["least_squares", "position", "orientation", "measured"] = "least_squares"
    attitude: bool = True
    planar: bool = True
    offset_rate: bool = False
    weighting_decay: Number | None = None
    profiles: bool = False
    noise: NoiseTable = Field(default_factory=NoiseTable)
    law: LawTable = Field(default_factory=LawTable)
    bounds: dict[str, Pair] = Field(default_factory=dict)
    guess: dict[str, Number] = Field(default_factory=dict)
    fixed: dict[str, Number] = Field(default_factory=dict)
    select: SelectTable | None = None
    test: list[TestTable] = Field(min_length=1)


def law_options(table: LawTable) -> dict[str, Any]:
    """Keywords of :class:`Law`."""
    return table.model_dump()
