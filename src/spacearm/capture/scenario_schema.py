"""The tables and keys of a capture scenario: see ``docs/studies/soft-capture.md``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from spacearm.model.document import Table
from spacearm.model.toml_schema import (
    Duration,
    InertialKeys,
    Limit,
    Name,
    Number,
    Origin,
    Seed,
    Vector3,
    Vector4,
    whole,
)

Pair = Annotated[list[Number], Field(min_length=2, max_length=2)]


class AxisTable(Table):
    """One soft axis: N/m or N m/rad, N s/m or N m s/rad, m or rad, N or N m."""

    stiffness: Number
    damping: Number = 0.0
    travel: Limit | Annotated[list[Limit], Field(min_length=2, max_length=2)] | None = None
    preload: Number = 0.0


class SoftTable(Table):
    joint: Name
    where: Literal["after", "before", "instead"] = "after"
    slide_x: AxisTable | None = None
    slide_y: AxisTable | None = None
    slide_z: AxisTable | None = None
    turn_x: AxisTable | None = None
    turn_y: AxisTable | None = None
    turn_z: AxisTable | None = None


class StartTable(Table):
    """State at time zero; the base's velocities in world axes; springs relaxed where joints are not given."""

    configuration: Name | None = None
    joints: dict[str, Number] = Field(default_factory=dict)
    position: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    quaternion: Vector4 = Field(default_factory=lambda: [1.0, 0.0, 0.0, 0.0])
    velocity: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    angular_velocity: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])


class HitTable(Table):
    frame: Name
    force: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    moment: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    duration: Number | None = None  # 0.01 s; of a table, its last time
    start: Number = 0.0
    profile: Literal["rectangle", "half-sine", "triangle", "table"] = "rectangle"
    times: list[Number] | None = None
    values: list[Number] | None = None
    axes: Literal["world", "frame"] = "frame"


class TargetTable(InertialKeys):
    name: Name = "target"
    origin: Origin = Origin()
    velocity: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    angular_velocity: Vector3 | None = None
    angular_velocity_deg: Vector3 | None = None
    contact: AxisTable | None = None


class UntilTable(Table):
    """When a mode of the clutch ends: at a time, when contact is felt, or when the axes have settled."""

    time: Number | None = None
    force: Number | None = None
    moment: Number | None = None
    delay: Number | None = None
    slide: Number | None = None
    turn: Number | None = None


class ClutchTable(Table):
    mode: Literal["rigid", "soft"]
    until: UntilTable | None = None


class OnOffTable(Table):
    on: Number = 5.0
    off: Number = 0.0


class SettlingTable(Table):
    fraction: Number = 0.05
    velocity: Number = 0.0
    rate: Number = 0.0


class CaseTable(Table):
    """Another way in which the robot may be struck, for the design."""

    name: Name = ""
    probability: Number = 1.0
    hit: Annotated[list[HitTable], Field(min_length=1)]


class DesignTable(Table):
    stiffness: Pair
    damping: Pair = Field(default_factory=lambda: [0.0, 5.0])
    objectives: Annotated[list[Name], Field(min_length=1)] = Field(
        default_factory=lambda: ["base_rate", "moment", "settling"]
    )
    over: Literal["expected", "worst"] = "expected"
    runs: Annotated[int, whole(64, 10_000_000)] = 20_480
    law: Literal["constant", "balance", "skyhook"] = "constant"
    off: Number = 0.0
    duration: Duration = 40.0
    step: Duration = 0.05
    settling: SettlingTable = SettlingTable()
    ties: list[list[Name]] = Field(default_factory=list)
    seed: Seed = 0
    case: list[CaseTable] = Field(default_factory=list)


class CaptureFile(Table):
    study: Literal["capture"]
    robot: Name
    title: Name = ""
    duration: Duration = 60.0
    sample: Duration = 0.02
    hand: Name = "hand"
    free: list[Name] = Field(default_factory=list)
    travel: Literal["error", "report"] = "error"
    damping: Number | dict[str, Number] | None = None
    soft: list[SoftTable] = Field(default_factory=list)
    start: StartTable = StartTable()
    hit: list[HitTable] = Field(default_factory=list)
    target: TargetTable | None = None
    clutch: list[ClutchTable] = Field(default_factory=list)
    on_off: OnOffTable | None = None
    settling: SettlingTable = SettlingTable()
    design: DesignTable | None = None
