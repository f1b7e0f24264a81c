"""The keys of an identification scenario: shapes and types only. Units in the keys' names, SI otherwise."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from spacearm.errors import InputError
from spacearm.model.document import Table
from spacearm.model.files import file_format
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3, whole

ChannelName = Literal[
    "position",
    "attitude",
    "velocity",
    "rate",
    "acceleration",
    "angular_acceleration",
    "joint_position",
    "joint_rate",
    "torque",
]


def _in_the_folder(name: str) -> str:
    """A robot file's plain name: what a scenario writes stays in the folder of its results."""
    hint = "expected a plain file name, such as identified.toml: it is written into the folder of the results"
    if name != PurePath(name).name or name.startswith("."):
        raise PydanticCustomError("spacearm", "{message}", {"message": "leads out of that folder", "hint": hint})
    try:
        file_format(name)
    except InputError as error:
        raise PydanticCustomError("spacearm", "{message}", {"message": error.message, "hint": error.hint}) from None
    return name


class SensorTable(Table):
    mount: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    interval: Duration = 0.1
    channels: list[ChannelName] | None = None
    noise: dict[ChannelName, Number] | Literal["typical", "none"] = "typical"
    bias: dict[ChannelName, list[Number]] = Field(default_factory=dict)
    bias_sigma: dict[ChannelName, Number] = Field(default_factory=dict)
    seed: Seed = 0


class FiringTable(Table):
    thruster: Name
    start: Number
    end: Number
    level: Number = 1.0


class PathTable(Table):
    joint: Name
    times: list[Number]
    positions: list[Number] | None = None
    positions_deg: list[Number] | None = None


class ColumnTable(Table):
    names: list[Name]
    unit: str = ""
    unwrap: bool = False


class TimeTable(Table):
    name: Name = "time"
    unit: str = "s"


class ExperimentTable(Table):
    name: Name
    duration: Duration
    configuration: Name | list[Number] = "zero"
    path: list[PathTable] = Field(default_factory=list)
    firing: list[FiringTable] = Field(default_factory=list)
    base_velocity: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    base_angular_velocity: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    known_momentum: bool = False
    file: Name | None = None
    time: TimeTable = Field(default_factory=TimeTable)
    columns: dict[ChannelName, ColumnTable] | None = None
    missing: Literal["reject", "drop"] = "reject"
    gaps: Literal["reject", "keep"] = "reject"
    hold_out: bool = False


class EstimateTable(Table):
    method: Literal["linear", "total", "consistent"] = "total"
    equations: tuple[Literal["momentum", "dynamics"], ...] = ("momentum",)
    prior: Number | None = None
    known_bodies: list[Name] = Field(default_factory=list)
    write: Annotated[Name, AfterValidator(_in_the_folder)] | None = None


class MonteCarloTable(Table):
    repetitions: Annotated[int, whole(1, 1_000_000)] = 100
    seed: Seed = 0


class TorqueTable(Table):
    joint: Name
    amplitude: Number
    frequency: Number
    phase: Number = 0.0


class ValidationTable(Table):
    duration: Duration = 2.0
    configuration: Name | list[Number] = "zero"
    torque: list[TorqueTable] = Field(default_factory=list)


class Scenario(Table):
    study: Literal["inertia-identification"]
    robot: Name
    real: Name | None = None
    real_scale: Number = 1.0
    title: Name = ""
    sensors: SensorTable = Field(default_factory=SensorTable)
    experiment: list[ExperimentTable]
    estimate: EstimateTable = Field(default_factory=EstimateTable)
    monte_carlo: MonteCarloTable | None = None
    validation: ValidationTable | None = None
