"""Maps of virtual mass for a scenario: rows, curves and figures of each case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.impact.figures import (
    direction_curves,
    ellipses_on_configuration,
    ellipsoid_on_configuration,
    skeleton,
    sphere_map,
)
from spacearm.impact.floating import FloatingSystem
from spacearm.impact.scenario_schema import MapTable
from spacearm.impact.tensor import ImpactPoint
from spacearm.impact.virtual_mass import (
    MassEllipsoid,
    VirtualMass,
    circle,
    mass_ellipsoid,
    plane_basis,
    sphere,
    virtual_mass,
)
from spacearm.result import Figure, Row
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class CaseMap:
    """Virtual masses of one case: over a circle (``polar`` is None) or a sphere (rows: polar, columns: azimuth)."""

    system: FloatingSystem
    tensor: Array
    ellipsoid: MassEllipsoid
    map: VirtualMass
    azimuth: Array
    polar: Array | None
    normal: Array | None

    def peak_direction(self) -> Any:
        """Of the heaviest direction: degrees in the plane, or a unit vector."""
        return self.direction(0)

    def keeps_to_the_plane(self) -> bool:
        """Whether forces in the plane accelerate the frame in the plane."""
        assert self.normal is not None
        out = self.map.acceleration @ (self.normal / np.linalg.norm(self.normal))
        return bool(np.abs(out).max() <= 1e-9 * np.abs(self.map.acceleration).max())

    def direction(self, k: int) -> Any:
        axis = self.ellipsoid.axes[:, k]
        if self.normal is None:
            return axis if axis[np.argmax(np.abs(axis))] > 0 else -axis
        x, y = plane_basis(self.normal).T @ axis
        return float(np.round(np.degrees(np.arctan2(y, x)), 9) % 180.0)


def map_cases(point: ImpactPoint, systems: dict[str, FloatingSystem], table: MapTable) -> dict[str, CaseMap]:
    """The maps that a scenario asks for."""
    normal = None if table.plane is None else np.asarray(table.plane, dtype=np.float64)
    polar = None
    if normal is not None:
        azimuth, directions = circle(table.directions, normal, half=True)
    else:
        columns = max(3, round(np.sqrt(2.0 * table.directions)))
        polar, azimuth, directions = sphere(max(3, columns // 2 + 1), columns)
    maps = {}
    for name, system in systems.items():
        modes: dict[str, Any] = {"locked": system.modes.locked, "resistance": system.modes.resistance}
        joints, base = np.asarray(system.joints), np.asarray(system.base)
        tensor = point.tensor(joints, base=base, **modes)
        found = virtual_mass(point.acceleration(directions, joints, base=base, **modes), directions)
        maps[name] = CaseMap(system, tensor, mass_ellipsoid(tensor, normal), found, azimuth, polar, normal)
    return maps


def map_rows(maps: dict[str, CaseMap]) -> list[Row]:
    """Heaviest and lightest direction of each case."""
    rows = []
    for name, case in maps.items():
        unit = "" if case.normal is None else "deg"
        masses = case.ellipsoid.masses
        rows += [
            Row(f"virtual_mass.{name}.peak", masses[0], "kg", note=f"of {case.system.robot.mass:.6g} kg in all"),
            Row(f"virtual_mass.{name}.peak_direction", case.direction(0), unit),
            Row(f"virtual_mass.{name}.minimum", masses[-1], "kg"),
            Row(f"virtual_mass.{name}.minimum_direction", case.direction(len(masses) - 1), unit),
            Row(f"virtual_mass.{name}.axes", masses, "kg", note="semi-axes of the mass ellipsoid"),
            Row(f"psi.{name}.largest", float(np.degrees(case.map.angle.max())), "deg"),
        ]
        lopsided = float(np.abs(case.tensor - case.tensor.T).max() / np.abs(case.tensor).max())
        if lopsided > 1e-9:
            note = "unequal resistances: G* is not symmetric, and not passive in general (Eq. 16 does not hold)"
            rows.append(Row(f"tensor.{name}.asymmetry", lopsided, "", note=note))
    return rows


def map_data(maps: dict[str, CaseMap]) -> Any:
    """The maps as an xarray Dataset."""
    import xarray

    first = next(iter(maps.values()))
    dims = ["case", "angle"] if first.polar is None else ["case", "polar", "azimuth"]
    degrees = {"units": "deg"}
    coords: dict[str, Any] = {"case": list(maps)}
    if first.polar is None:
        coords["angle"] = ("angle", np.degrees(first.azimuth), degrees)
    else:
        coords["polar"] = ("polar", np.degrees(first.polar), degrees)
        coords["azimuth"] = ("azimuth", np.degrees(first.azimuth), degrees)

    def stacked(pick: Any, unit: str, name: str) -> tuple[list[str], Array, dict[str, str]]:
        return dims, np.stack([pick(case.map) for case in maps.values()]), {"units": unit, "long_name": name}

    return xarray.Dataset(
        {
            "absolute_mass": stacked(lambda m: m.absolute, "kg", "absolute virtual mass"),
            "projected_mass": stacked(lambda m: m.projected, "kg", "projected virtual mass"),
            "psi": stacked(lambda m: np.degrees(m.angle), "deg", "angle between force and acceleration"),
            "tensor": (
                ["case", "row", "column"],
                np.stack([case.tensor for case in maps.values()]),
                {"units": "1/kg, 1/(kg m), 1/(kg m2)", "long_name": "extended generalized inertia tensor"},
            ),
        },
        coords=coords,
    )


def map_figures(point: ImpactPoint, maps: dict[str, CaseMap]) -> list[Figure]:
    """Curves over a circle, or contours over all directions, and the ellipsoids on the configuration."""
    first = next(iter(maps.values()))
    if first.polar is None:
        return _plane_figures(point, maps, first)
    figures = []
    for i, (name, case) in enumerate(maps.items()):
        assert case.polar is not None
        figures.append(
            Figure(
                f"map-{i + 1}",
                sphere_map(case.azimuth, case.polar, case.map.absolute, unit="kg"),
                f"Absolute virtual mass over all directions (world axes), case {name!r}.",
            )
        )
        joints = np.asarray(case.system.joints)
        # The drawing is in the base's frame: turn the ellipsoid into it.
        tensor = point.tensor(joints, locked=case.system.modes.locked, resistance=case.system.modes.resistance)
        hand = point.mechanics.frame_pose(point.frame, joints)[0]
        figures.append(
            Figure(
                f"ellipsoid-{i + 1}",
                ellipsoid_on_configuration(skeleton(point.robot, point.frame, joints), hand, mass_ellipsoid(tensor)),
                f"Mass ellipsoid at {point.frame!r}, case {name!r}, in the base's frame.",
            )
        )
    return figures


def _plane_figures(point: ImpactPoint, maps: dict[str, CaseMap], first: CaseMap) -> list[Figure]:
    assert first.normal is not None
    masses = {name: case.map.absolute for name, case in maps.items()}
    peaks = {name: (case.peak_direction(), float(case.ellipsoid.masses[0])) for name, case in maps.items()}
    # Out of the plane an angle has no sign: with one, the curve would jump where it does not reach zero.
    flat = all(case.keeps_to_the_plane() for case in maps.values())
    angles = {
        name: np.degrees(case.map.signed_angle(first.normal) if flat else case.map.angle) for name, case in maps.items()
    }
    figures = [
        Figure(
            "mass",
            direction_curves(first.azimuth, masses, y="absolute virtual mass", y_unit="kg", peaks=peaks),
            "Absolute virtual mass over the direction in the plane.",
        ),
        Figure(
            "psi",
            direction_curves(first.azimuth, angles, y="angle ψ", y_unit="deg", zero_line=True),
            "Angle from force to acceleration"
            + (", positive about the plane's normal." if flat else ", which leaves the plane."),
        ),
    ]
    seen = np.abs(first.normal[:2]).max() == 0.0
    if seen and np.allclose(np.asarray(first.system.base)[3:], [1.0, 0.0, 0.0, 0.0]):
        joints = np.asarray(first.system.joints)
        hand = point.mechanics.frame_pose(point.frame, joints)[0]
        marks = {"mass centre": point.mechanics.centre_of_mass(joints)}
        ellipses = {name: case.ellipsoid for name, case in maps.items()}
        plot = ellipses_on_configuration(skeleton(point.robot, point.frame, joints), hand, ellipses, marks=marks)
        figures.append(Figure("configuration", plot, "Mass ellipses on the configuration, seen along z."))
    return figures
