"""The tables and keys of an impact scenario: see ``docs/studies/impact.md``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from spacearm.model.document import Table
from spacearm.model.toml_schema import Moments, Name, Number, Seed, Vector3, Vector4, whole

Numbers = list[Number]
LockedValue = Name | list[Name]
ResistanceValue = Number | list[Number] | dict[str, Number]


def _zero() -> list[float]:
    return [0.0, 0.0, 0.0]


class StateKeys(Table):
    """Configuration and motion; angles in rad, or degrees where the key says so; base velocities in world axes."""

    configuration: Name | None = None
    joints: Numbers | None = None
    joints_deg: Numbers | None = None
    rates: Numbers | None = None
    rates_deg: Numbers | None = None
    quaternion: Vector4 | None = None
    rpy_deg: Vector3 | None = None
    velocity: Vector3 = Field(default_factory=_zero)
    angular_velocity: Vector3 | None = None
    angular_velocity_deg: Vector3 | None = None


class StartTable(StateKeys):
    position: Vector3 = Field(default_factory=_zero)


class CaseTable(Table):
    """What the joints do during the impact."""

    name: Name
    locked: LockedValue = "none"
    resistance: ResistanceValue = 0.0


class MapTable(Table):
    """Directions to map: a circle in the plane across ``plane``, or all of them."""

    plane: Vector3 | None = None
    directions: Annotated[int, whole(2, 1_000_000)] = 721


class TargetTable(StateKeys):
    """The other system: a rigid body, or a robot. It is put where the contact frames meet."""

    mass: Number | None = None
    inertia: Moments | None = None
    com: Vector3 | None = None
    contact: Vector3 | None = None
    robot: Name | None = None
    frame: Name | None = None
    locked: LockedValue = "none"
    resistance: ResistanceValue = 0.0


class ContactTable(Table):
    frequencies: Numbers | None = None
    stiffnesses: Numbers | None = None


class CollisionTable(Table):
    name: Name
    kind: Literal["normal", "point", "grasp"] = "normal"
    normal: Vector3 | None = None
    restitution: Number = 0.0
    contact: ContactTable | None = None


class OptimiseTable(Table):
    name: Name
    quantity: Literal["projected", "absolute", "base_rotation"] = "projected"
    goal: Literal["minimise", "maximise"] = "minimise"
    direction: Vector3
    axes: Literal["world", "frame"] = "world"
    speed: Number = 1.0
    mass: Number = 1.0
    restitution: Number = 0.0
    case: Name | None = None
    vary: list[Name] | None = None
    bounds: dict[str, list[Number]] = Field(default_factory=dict)
    bounds_deg: dict[str, list[Number]] = Field(default_factory=dict)
    restarts: Annotated[int, whole(1, 1_000_000)] = 64
    samples: Annotated[int, whole(1, 10_000_000)] = 4096
    seed: Seed = 0


class GraspVelocityTable(Table):
    name: Name
    case: Name | None = None
    still: Literal["angular", "linear", "all"] = "angular"
    measure: Literal["after", "jump"] = "after"
    floating: bool = True


def _three_cases() -> list[CaseTable]:
    return [
        CaseTable(name="free"),
        CaseTable(name="fixed", locked="all"),
        CaseTable(name="half", resistance=0.5),
    ]


class ImpactFile(Table):
    study: Literal["impact"] = "impact"
    robot: Name
    frame: Name
    title: Name = ""
    start: StartTable = StartTable()
    case: list[CaseTable] = Field(default_factory=_three_cases, min_length=1)
    map: MapTable = MapTable()
    target: TargetTable | None = None
    collision: list[CollisionTable] = Field(default_factory=list)
    optimise: list[OptimiseTable] = Field(default_factory=list)
    grasp_velocity: list[GraspVelocityTable] = Field(default_factory=list)
