"""The tables and keys of an ejection scenario: see ``docs/studies/ejection.md``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from spacearm.model.document import Table
from spacearm.model.toml_schema import Duration, Moments, Name, Number, Seed, Vector3, whole

Numbers = list[Number]
Count = Annotated[int, whole(1, 1_000_000)]


class FrictionTable(Table):
    static: Number | None = None
    coulomb: Number


class SatelliteTable(Table):
    """Inertia in the frame of the arm's base before the ejection; without it the satellite is infinitely heavy."""

    mass: Number
    com: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])
    inertia: Moments


class SpringTable(Table):
    """One spring: stiffness and compression, or a curve of points (travel in m, force in N)."""

    stiffness: Number | None = None
    compression: Number | None = None
    curve: list[Numbers] | None = None
    position: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 0.0])


class DeviceTable(Table):
    stiffness: Number | None = None
    stroke: Number
    springs: Count = 1
    spring: list[SpringTable] | None = None
    direction: Vector3 = Field(default_factory=lambda: [0.0, 0.0, 1.0])
    compression: Number | None = None
    friction: FrictionTable | None = None
    damping: Number = 0.0
    satellite: SatelliteTable | None = None
    pivot: Vector3 | None = None


class ReleaseTable(Table):
    """How the arm moves at the release: its joints, and the satellite that it stands on."""

    rates: Numbers | None = None
    rates_deg: Numbers | None = None
    angular_velocity: Vector3 | None = None
    angular_velocity_deg: Vector3 | None = None


class ConfigurationTable(Table):
    name: Name | None = None
    configuration: Name | None = None
    joints: Numbers | None = None
    joints_deg: Numbers | None = None


class KeepOutTable(Table):
    """A plane (point, normal) or a box (low, high), satellite frame, m."""

    name: Name | None = None
    point: Vector3 | None = None
    normal: Vector3 | None = None
    low: Vector3 | None = None
    high: Vector3 | None = None


class MapTable(Table):
    joints: list[Name] = Field(min_length=2, max_length=2)
    configuration: Name | None = None
    resolution: list[Annotated[int, whole(2, 1000)]] = Field(
        default_factory=lambda: [41, 41], min_length=2, max_length=2
    )


class SearchTable(Table):
    velocity: Number = 1.0
    tumbling: Number = 0.0
    samples: Count = 4096
    refine: Annotated[int, whole(0, 1_000_000)] = 80
    keep: Count = 24
    joints: list[Name] | None = None
    margin: Number = 0.0
    limit_margin_deg: Number = 0.0
    respect_limits: bool = True
    seed: Seed = 0


class MonteCarloTable(Table):
    """Relative standard deviations; of the search's winner, else of the first configuration."""

    samples: Count = 2000
    friction: Number = 0.3
    damping: Number = 0.2
    spring: Number = 0.03
    mass: Number = 0.02
    seed: Seed = 0


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


class EjectionFile(Table):
    """The whole file."""

    study: Literal["ejection"]
    robot: Name
    title: Name = ""
    freeze: list[Name] = Field(default_factory=list)
    table: Literal["x", "y", "z"] | None = None
    device: DeviceTable
    configuration: Annotated[list[ConfigurationTable], BeforeValidator(_one_or_more)] = Field(min_length=1)
    release: ReleaseTable | None = None
    keep_out: Annotated[list[KeepOutTable], BeforeValidator(_one_or_more)] = Field(default_factory=list)
    radii: Number | dict[str, Number] = 0.0
    flight: Number = 10.0
    limits: Literal["report", "stop", "ignore"] = "report"
    segmented: bool = False
    segment: Duration = 0.02
    map: MapTable | None = None
    search: SearchTable | None = None
    monte_carlo: MonteCarloTable | None = None
