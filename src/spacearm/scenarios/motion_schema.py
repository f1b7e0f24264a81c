"""The tables and keys of a motion scenario: see ``docs/scenarios.md``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from spacearm.model.document import Table
from spacearm.model.toml_schema import Duration, Name, Number, Vector3, Vector4

Numbers = list[Number]


class StartTable(Table):
    """State at time zero; angles in rad, or in degrees where the key says so; velocities of the base in world axes."""

    configuration: Name | None = None
    joints: Numbers | None = None
    joints_deg: Numbers | None = None
    rates: Numbers | None = None
    rates_deg: Numbers | None = None
    position: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    quaternion: Vector4 | None = None
    rpy_deg: Vector3 | None = None
    velocity: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    angular_velocity: Vector3 | None = None
    angular_velocity_deg: Vector3 | None = None


class MethodTable(Table):
    kind: Literal["dopri853", "rk4"] = "dopri853"
    rtol: Number = 1e-10
    atol: Number = 1e-12
    max_step: Number | None = None
    step: Number | None = None
    max_steps: Annotated[int, Field(gt=0)] | None = None


class SignalTable(Table):
    """A function of the time since the phase began."""

    kind: Literal["constant", "pulse", "triangle", "half-sine", "table", "spline"]
    value: Number | None = None
    value_deg: Number | None = None
    start: Number | None = None
    width: Number | None = None
    times: Numbers | None = None
    values: Numbers | None = None
    values_deg: Numbers | None = None
    ends: Literal["clamped", "natural", "not-a-knot"] = "clamped"


SignalValue = Number | SignalTable


class LoadTable(Table):
    frame: Name
    direction: Vector3
    force: SignalValue | None = None
    moment: SignalValue | None = None
    axes: Literal["world", "frame"] = "world"


class ThrusterTable(Table):
    name: Name
    on: list[Annotated[list[Number], Field(min_length=2, max_length=2)]] | None = None
    level: SignalValue | None = None


class EventTable(Table):
    quantity: Name
    value: Number | None = None
    value_deg: Number | None = None
    direction: Literal["rising", "falling", "either"] = "either"


class PhaseTable(Table):
    name: Name = ""
    duration: Duration
    until: list[EventTable] = Field(default_factory=list)
    record: list[EventTable] = Field(default_factory=list)
    locked: list[Name] = Field(default_factory=list)
    driven: dict[str, SignalTable] = Field(default_factory=dict)
    accelerations: dict[str, SignalValue] = Field(default_factory=dict)
    forces: dict[str, SignalValue] = Field(default_factory=dict)
    load: list[LoadTable] = Field(default_factory=list)
    thruster: list[ThrusterTable] = Field(default_factory=list)
    friction: bool = True
    limits: Literal["report", "stop", "ignore"] = "report"


class MotionFile(Table):
    study: Literal["motion"] = "motion"
    robot: Name
    title: Name = ""
    sample: Duration | None = None
    tolerance: Number = 1e-7
    start: StartTable = StartTable()
    method: MethodTable = MethodTable()
    phase: Annotated[list[PhaseTable], Field(min_length=1)]
