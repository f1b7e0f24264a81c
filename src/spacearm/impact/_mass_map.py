"""Maps of virtual mass over directions: rows, curves and figures of each case.

For a force along n the frame's origin accelerates with G11* n; the absolute virtual mass is 1 / |G11* n|
(:mod:`spacearm.impact.virtual_mass`, after Yoshida et al. 1992). A map evaluates it over a circle in a plane or over a
sphere. The greatest and least values of the rows are the semi-axes of the mass ellipsoid, from singular values and not
from the grid: they do not depend on its spacing. World axes, kg.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.engine import NonFiniteWarning
from spacearm.impact.figures import (
    direction_curves,
    ellipses_on_configuration,
    ellipsoid_on_configuration,
    skeleton,
    sphere_map,
)
from spacearm.impact.floating import FloatingSystem
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
from spacearm.result import Figure
from spacearm.study import Findings, dataset, row
from spacearm.study.findings import NotedValue
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr


#: Largest mass of a figure, over the smallest.
MOST_DRAWN = 1e3


class CaseMap(Findings):
    """Virtual masses of one case: over a circle (``polar`` is None) or a sphere (rows: polar, columns: azimuth)."""

    system: FloatingSystem
    tensor: Array
    ellipsoid: MassEllipsoid
    map: VirtualMass
    azimuth: Array
    polar: Array | None
    normal: Array | None

    peak = row("kg", of=lambda c: NotedValue(c.ellipsoid.masses[0], f"of {c.system.robot.mass:.6g} kg in all"))
    peak_direction = row(of=lambda c: c.direction(0))
    minimum = row("kg", of=lambda c: c.ellipsoid.masses[-1])
    minimum_direction = row(of=lambda c: c.direction(-1))
    axes = row("kg", "semi-axes of the mass ellipsoid", of="ellipsoid.masses")

    def direction(self, k: int) -> NotedValue:
        """Direction of an axis of the ellipsoid: degrees in the plane, or a unit vector."""
        axis = self.ellipsoid.axes[:, range(len(self.ellipsoid.masses))[k]]
        if self.normal is None:
            return NotedValue(axis if axis[np.argmax(np.abs(axis))] > 0 else -axis)
        x, y = plane_basis(self.normal).T @ axis
        # An axis has no sign: from 0 to 180 deg, and rounded, so that 180 deg less an ulp is 0.
        return NotedValue(float(np.round(np.degrees(np.arctan2(y, x)), 9) % 180.0), "", "deg")

    @property
    def asymmetry(self) -> float:
        """Largest difference between the tensor and its transpose, relative."""
        return float(np.abs(self.tensor - self.tensor.T).max() / np.abs(self.tensor).max())

    def keeps_to_the_plane(self) -> bool:
        """Whether forces in the plane accelerate the frame in the plane."""
        assert self.normal is not None
        out = self.map.acceleration @ (self.normal / np.linalg.norm(self.normal))
        return bool(np.abs(out).max() <= 1e-9 * np.abs(self.map.acceleration).max())


def map_cases(
    point: ImpactPoint, systems: dict[str, FloatingSystem], plane: list[float] | None, count: int
) -> dict[str, CaseMap]:
    """Maps over ``count`` directions of a plane with this normal, or of space."""
    normal = None if plane is None else np.asarray(plane, dtype=np.float64)
    polar = None
    if normal is not None:
        azimuth, directions = circle(count, normal, half=True)
    else:
        # About count directions with equal steps in both angles: twice as many columns (360 deg) as rows (180 deg).
        columns = max(3, round(np.sqrt(2.0 * count)))
        polar, azimuth, directions = sphere(max(3, columns // 2 + 1), columns)
    maps = {}
    for name, system in systems.items():
        modes: dict[str, Any] = {"locked": system.modes.locked, "resistance": system.modes.resistance}
        joints, base = np.asarray(system.joints), np.asarray(system.base)
        tensor = point.tensor(joints, base=base, **modes)
        with warnings.catch_warnings():
            # A constrained base gives no way in some directions: infinite masses are expected.
            if not point.robot.base.is_free:
                warnings.simplefilter("ignore", NonFiniteWarning)
            found = virtual_mass(point.acceleration(directions, joints, base=base, **modes), directions)
        maps[name] = CaseMap(
            system=system,
            tensor=tensor,
            ellipsoid=mass_ellipsoid(tensor, normal),
            map=found,
            azimuth=azimuth,
            polar=polar,
            normal=normal,
        )
    return maps


def map_data(maps: dict[str, CaseMap]) -> xr.Dataset:
    """The maps of all cases."""
    first = next(iter(maps.values()))
    angles = {"angle": first.azimuth} if first.polar is None else {"polar": first.polar, "azimuth": first.azimuth}
    dims = " ".join(["case", *angles])
    each = list(maps.values())
    coords = {name: (name, np.degrees(values), "deg", name) for name, values in angles.items()}
    tensor = "1/kg, 1/(kg m), 1/(kg m2)"
    return dataset(
        {"case": list(maps), **coords},
        {
            "absolute_mass": (dims, [case.map.absolute for case in each], "kg", "absolute virtual mass"),
            "projected_mass": (dims, [case.map.projected for case in each], "kg", "projected virtual mass"),
            "psi": (dims, np.degrees([case.map.angle for case in each]), "deg", "angle between force and acceleration"),
            "tensor": ("case row column", [c.tensor for c in each], tensor, "extended generalized inertia tensor"),
        },
    )


def _drawn(masses: Array) -> Array:
    """Masses as they are drawn: without those that are as good as infinite."""
    return np.where(masses < MOST_DRAWN * masses.min(), masses, np.nan)


def map_figures(point: ImpactPoint, maps: dict[str, CaseMap]) -> list[Figure]:
    """Curves over a circle, or contours over all directions, and the ellipsoids on the configuration."""
    first = next(iter(maps.values()))
    if first.polar is None:
        return _plane_figures(point, maps, first)
    figures = []
    for i, (name, case) in enumerate(maps.items()):
        assert case.polar is not None
        plot = sphere_map(case.azimuth, case.polar, _drawn(case.map.absolute), unit="kg")
        text = f"Absolute virtual mass over all directions (world axes), case {name!r}."
        figures.append(Figure(f"map-{i + 1}", plot, text))
        if not np.isfinite(case.ellipsoid.masses).all():
            continue
        joints = np.asarray(case.system.joints)
        # The figure is in the base's frame: rotate the ellipsoid into it.
        tensor = point.tensor(joints, locked=case.system.modes.locked, resistance=case.system.modes.resistance)
        hand = point.mechanics.frame_pose(point.frame, joints)[0]
        plot = ellipsoid_on_configuration(skeleton(point.robot, point.frame, joints), hand, mass_ellipsoid(tensor))
        text = f"Mass ellipsoid at {point.frame!r}, case {name!r}, in the base's frame."
        figures.append(Figure(f"ellipsoid-{i + 1}", plot, text))
    return figures


def _plane_figures(point: ImpactPoint, maps: dict[str, CaseMap], first: CaseMap) -> list[Figure]:
    assert first.normal is not None
    masses = {name: _drawn(case.map.absolute) for name, case in maps.items()}
    gives = {name: case for name, case in maps.items() if np.isfinite(case.ellipsoid.masses).all()}
    peaks = {name: (case.direction(0).value, float(case.ellipsoid.masses[0])) for name, case in gives.items()}
    # Out of the plane an angle has no sign: with one, the curve would jump where it does not reach zero.
    flat = all(case.keeps_to_the_plane() for case in maps.values())
    angles = {
        name: np.degrees(case.map.signed_angle(first.normal) if flat else case.map.angle) for name, case in maps.items()
    }
    mass = direction_curves(first.azimuth, masses, y="absolute virtual mass", y_unit="kg", peaks=peaks)
    psi = direction_curves(first.azimuth, angles, y="angle ψ", y_unit="deg", zero_line=True)
    about = "positive about the plane's normal" if flat else "which leaves the plane"
    figures = [
        Figure("mass", mass, "Absolute virtual mass over the direction in the plane."),
        Figure("psi", psi, f"Angle from force to acceleration, {about}."),
    ]
    seen = np.abs(first.normal[:2]).max() == 0.0
    if seen and gives and np.allclose(np.asarray(first.system.base)[3:], [1.0, 0.0, 0.0, 0.0]):
        joints = np.asarray(first.system.joints)
        hand = point.mechanics.frame_pose(point.frame, joints)[0]
        marks = {"mass centre": point.mechanics.centre_of_mass(joints)}
        ellipses = {name: case.ellipsoid for name, case in gives.items()}
        plot = ellipses_on_configuration(skeleton(point.robot, point.frame, joints), hand, ellipses, marks=marks)
        figures.append(Figure("configuration", plot, "Mass ellipses on the configuration, seen along z."))
    return figures
