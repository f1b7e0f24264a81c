"""The ejection study from a scenario file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.ejection import figures
from spacearm.ejection.clearance import Box, KeepOut, Plane
from spacearm.ejection.compare import Line, lines_of
from spacearm.ejection.configuration import BestConfiguration, Constraints, Goal, best_configuration, configuration_map
from spacearm.ejection.device import Device, SeparationSpring
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.release import Release
from spacearm.ejection.rig import Rig, planar
from spacearm.ejection.run import Ejection, eject
from spacearm.ejection.scenario_schema import ConfigurationTable, DeviceTable, EjectionFile, KeepOutTable, ReleaseTable
from spacearm.ejection.segmented import Segmented, segmented
from spacearm.ejection.sensitivity import Sensitivity, Uncertainty, monte_carlo
from spacearm.ejection.verify import check_in_mujoco, friction_check
from spacearm.errors import InputError, SimulationError
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, validated
from spacearm.model.parts import Friction, Inertia
from spacearm.result import Certificate, Check, Checks, Figure, Result, Row
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

CROSS_TOLERANCE = 1e-6
DEGREE = 180.0 / np.pi


def run(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Result:
    """Run the study that a scenario file describes; robots by file (relative to ``folder``) or catalogue name."""
    file = validated(EjectionFile, document)
    return _Scenario(file, folder).run(cross_check, progress or (lambda fraction, what: None))


def device_of(entry: DeviceTable) -> Device:
    """The separation device of the file's ``[device]``."""
    satellite = None
    if entry.satellite is not None:
        with at("satellite"):
            satellite = Inertia(entry.satellite.mass, np.array(entry.satellite.com), _tensor(entry.satellite.inertia))
    friction = None
    if entry.friction is not None:
        with at("friction"):
            static = entry.friction.coulomb if entry.friction.static is None else entry.friction.static
            friction = Friction(static, entry.friction.coulomb)
    springs: int | list[SeparationSpring] = entry.springs
    if entry.spring is not None:
        if "springs" in entry.model_fields_set:
            raise InputError(
                "springs and spring are both given", hint="expected a number, or one table for each spring"
            )
        springs = []
        for k, part in enumerate(entry.spring):
            with at(f"spring[{k}]"):
                springs.append(SeparationSpring(part.stiffness, part.compression, part.curve, np.array(part.position)))
    return Device(
        entry.stiffness,
        entry.stroke,
        springs,
        np.array(entry.direction),
        entry.compression,
        friction,
        entry.damping,
        satellite,
        None if entry.pivot is None else np.array(entry.pivot),
    )


def release_of(rig: Rig, entry: ReleaseTable | None) -> Release | None:
    """The motion of the file's ``[release]``; None at rest."""
    if entry is None:
        return None
    found = {}
    turning = np.array([np.pi / 180.0 if joint.kind == "revolute" else 1.0 for joint in rig.arm.joints])
    for name, plain, degrees, scale in (
        ("rates", entry.rates, entry.rates_deg, turning),
        ("angular_velocity", entry.angular_velocity, entry.angular_velocity_deg, np.pi / 180.0),
    ):
        if plain is not None and degrees is not None:
            raise InputError(f"{name} and {name}_deg are both given", hint="expected one of them")
        if degrees is not None and name == "rates" and len(degrees) != rig.arm.n:
            raise InputError(
                f"has {len(degrees)} numbers",
                place="rates_deg",
                hint=f"expected {rig.arm.n}: {', '.join(rig.arm.joint_names)}",
            )
        found[name] = plain if degrees is None else np.asarray(degrees) * scale
    return Release(**found)


def _tensor(moments: list[float]) -> Array:
    xx, yy, zz, xy, xz, yz = (*moments, 0.0, 0.0, 0.0)[:6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def region_of(entry: KeepOutTable) -> KeepOut:
    """A plane or a box of the file's ``[[keep_out]]``."""
    plane, box = (entry.point, entry.normal), (entry.low, entry.high)
    if any(part is not None for part in plane) and any(part is not None for part in box):
        raise InputError("is both a plane and a box", hint="expected point and normal, or low and high")
    if entry.low is not None and entry.high is not None:
        return Box(np.array(entry.low), np.array(entry.high), entry.name or "box")
    if entry.normal is not None:
        return Plane(np.array(entry.point or [0.0, 0.0, 0.0]), np.array(entry.normal), entry.name or "plane")
    raise InputError("is neither a plane nor a box", hint="expected point and normal, or low and high")


def configuration_of(arm: Robot, entry: ConfigurationTable) -> tuple[str | None, Array]:
    """Name and joint positions of an entry of ``[[configuration]]``; joints that are frozen have no number."""
    given = {"configuration": entry.configuration, "joints": entry.joints, "joints_deg": entry.joints_deg}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise InputError(
            f"{' and '.join(chosen)} are given" if chosen else "no configuration is given",
            hint="expected one of configuration, joints, joints_deg",
        )
    if entry.configuration is not None:
        return entry.name or entry.configuration, arm.configuration(entry.configuration)
    values = np.asarray(entry.joints if entry.joints is not None else entry.joints_deg, dtype=np.float64)
    if values.size != arm.n:
        raise InputError(
            f"has {values.size} numbers", place=chosen[0], hint=f"expected {arm.n}: {', '.join(arm.joint_names)}"
        )
    if entry.joints_deg is not None:
        scale = np.array([np.pi / 180.0 if joint.kind == "revolute" else 1.0 for joint in arm.joints])
        values = values * scale
    return entry.name, values


class _Scenario:
    def __init__(self, file: EjectionFile, folder: Path) -> None:
        self.file = file
        with at("robot"):
            robot = find_robot(file.robot, folder)
        with at("freeze"):
            arm = planar(robot, file.freeze) if file.freeze else robot
        with at("device"):
            device = device_of(file.device)
        with at("table"):
            self.rig = Rig(arm, device, file.table)
        with at("device"):
            _ = self.rig.mounted  # springs that no joint can have are told here
        with at("release"):
            self.release = release_of(self.rig, file.release)
        if self.release is not None:
            self.release.checked(self.rig)
        if file.segmented and self.release is not None:
            raise InputError(
                "the segmented algorithm starts at rest", place="segmented", hint="leave [release] or segmented out"
            )
        self.regions = []
        for k, entry in enumerate(file.keep_out):
            with at(f"keep_out[{k}]"):
                self.regions.append(region_of(entry))
        self.configurations: dict[str, Array] = {}
        for k, item in enumerate(file.configuration):
            with at(f"configuration[{k}]"):
                name, joints = configuration_of(arm, item)
                label = name or str(k + 1)
                if "/" in label:
                    raise InputError(f"is {label!r}", place="name", hint="expected no '/': it names results")
                if label in self.configurations:
                    raise InputError(f"two are called {label!r}", place="name")
                self.configurations[label] = self.rig.configuration(joints)
        with at("radii"):
            from spacearm.ejection.clearance import skeleton

            skeleton(arm, file.radii)

    def run(self, cross_check: bool, tell: Callable[[float, str], None]) -> Result:
        file, rig = self.file, self.rig
        runs: dict[str, Ejection] = {}
        parts: dict[str, Segmented] = {}
        tell(0.0, "compiling")
        for name, joints in self.configurations.items():
            tell(0.05, f"configuration {name}")
            try:
                runs[name] = eject(
                    rig,
                    joints,
                    release=self.release,
                    flight=file.flight,
                    limits=file.limits,
                    keep_out=self.regions,
                    radii=file.radii,
                )
            except SimulationError as error:
                error.place = f"configuration {name!r}: {error.place}"
                raise
            if file.segmented:
                with at("segmented"):
                    parts[name] = segmented(rig, joints, step=file.segment)
        rows = [row for name, done in runs.items() for row in self._rows(name, done, parts.get(name))]
        certificate: dict[str, Checks] = {}
        for name, done in runs.items():
            certificate[name] = done.certificate
            certificate[f"{name}.friction"] = friction_check(done)
            if cross_check:
                tell(0.2, f"MuJoCo, configuration {name}")
                for part, found in check_in_mujoco(done).items():
                    certificate[f"{name}.mujoco.{part}"] = (
                        Check(found.largest, CROSS_TOLERANCE, "", str(found))
                        if found.expressed
                        else Check.not_applicable(str(found), CROSS_TOLERANCE)
                    )
        drawn = self._figures(runs, parts)
        chart, best, spread = self._beyond(tell)
        if chart is not None:
            drawn.append(Figure("configuration-map", self._map(chart, best), "Grey: a constraint is not kept."))
        if best is not None:
            rows += self._best_rows(best)
        if spread is not None:
            rows += self._spread_rows(spread)
            drawn.append(
                Figure("monte-carlo", figures.histograms(spread), "Uncertain friction, damping, springs, masses.")
            )
        tell(0.95, "writing")
        return Result(
            "ejection",
            rows,
            Certificate(certificate),
            {
                "robot": file.robot,
                "frozen": file.freeze,
                "table": file.table or "none (space)",
                "spring_energy_J": rig.device.energy,
                "spring_force_N": [[piece.start, piece.force] for piece in rig.device.pieces],
                "stroke": rig.device.stroke,
                "release": "at rest" if file.release is None else file.release.model_dump(exclude_none=True),
                "satellite": "infinitely heavy" if rig.device.heavy else f"{file.device.satellite}",
                "configurations_deg": {
                    name: (joints * DEGREE).tolist() for name, joints in self.configurations.items()
                },
            },
            self._data(runs, chart),
            drawn,
            file.title or f"Ejection of {rig.arm.name}",
            f"{rig.arm!r} thrown off by {self._springs()} over {1e3 * rig.device.stroke:g} mm.",
        )

    def _springs(self) -> str:
        device = self.rig.device
        count = device.springs if isinstance(device.springs, int) else len(device.springs)
        return "a spring" if count == 1 else f"{count} springs"

    # -- parts of the result -------------------------------------------------------------------------------------

    def _rows(self, name: str, done: Ejection, other: Segmented | None) -> list[Row]:
        rig = self.rig
        rows = [
            Row(f"{name}.mass", float(equivalent_mass(rig, done.start)), "kg", note="all joints free"),
            Row(f"{name}.time", done.time, "s"),
            Row(f"{name}.velocity", done.velocity, "m/s", note="against the satellite, as it leaves the rail"),
            Row(f"{name}.stable_time", done.stable_time, "s", note="the last joint stops" if done.stable else "never"),
            Row(
                f"{name}.angular_velocity",
                float(np.linalg.norm(done.angular_velocity)),
                "rad/s",
                note="mean over time of the stopped arm, size",
            ),
        ]
        for axis, value in zip("xyz", done.angular_velocity, strict=True):
            rows.append(Row(f"{name}.angular_velocity.{axis}", float(value), "rad/s"))
        stops = done.stop_times
        for i, joint in enumerate(rig.arm.joints):
            rows.append(
                Row(f"{name}.variation.{joint.name}", float(done.variation[i]), joint.unit, note="at separation")
            )
            rows.append(Row(f"{name}.final.{joint.name}", float(done.final_variation[i]), joint.unit))
            note = "never moved" if stops[joint.name] == 0.0 else ""
            rows.append(Row(f"{name}.stop.{joint.name}", stops[joint.name], "s", note=note))
        for hit in done.hits:
            key = f"{name}.limit.{hit.joint}.{hit.time:.6f}"
            rows.append(Row(key, hit.time, "s", note=f"{hit.joint} reaches its limit {hit.value:g}"))
        rows += [Row(f"{name}.energy.{key}", value, "J") for key, value in done.ledger.items() if key != "residual"]
        if done.clearance is not None:
            for body, distance in done.clearance.distance.items():
                when = done.clearance.time[body]
                rows.append(Row(f"{name}.clearance.{body}", distance, "m", note=f"least, at {when:.3f} s"))
        if not rig.device.heavy:
            speed, angular_velocity = done.recoil
            rows.append(Row(f"{name}.recoil.velocity", float(np.linalg.norm(speed)), "m/s", note="satellite's frame"))
            rows.append(Row(f"{name}.recoil.angular_velocity", float(np.linalg.norm(angular_velocity)), "rad/s"))
        if other is not None:
            rows += [
                Row(f"{name}.segmented.time", other.time, "s"),
                Row(f"{name}.segmented.velocity", other.velocity, "m/s"),
                Row(f"{name}.segmented.angular_velocity", float(np.linalg.norm(other.angular_velocity)), "rad/s"),
            ]
            rows += [
                Row(f"{name}.segmented.variation.{joint.name}", float(other.variation[i]), joint.unit)
                for i, joint in enumerate(rig.arm.joints)
            ]
        return rows

    def _figures(self, runs: dict[str, Ejection], parts: dict[str, Segmented]) -> list[Figure]:
        text = "S: full run. T: segmented algorithm." if parts else "Until the arm leaves the rail."
        drawn = [
            Figure("velocity", figures.velocity_curves(runs, parts or None), text),
            Figure("angular-velocity", figures.spin_curves(runs), "Dots: the last joint stops."),
            Figure("joints", figures.joint_curves(runs), "Joints that move."),
        ]
        if parts:
            lines: list[Line] = [line for name in runs for line in lines_of(name, runs[name], parts[name])]
            drawn.insert(0, Figure("methods", figures.comparison(lines), "What the approximation costs."))
        first = next(iter(runs))
        drawn.append(Figure("energy", figures.energy_areas(runs[first]), f"Configuration {first}."))
        return drawn

    def _constraints(self) -> Constraints:
        search = self.file.search
        return Constraints(
            tuple(self.regions),
            margin=0.0 if search is None else search.margin,
            radii=self.file.radii,
            respect_limits=True if search is None else search.respect_limits,
            limit_margin=0.0 if search is None else float(np.radians(search.limit_margin_deg)),
        )

    def _beyond(
        self, tell: Callable[[float, str], None]
    ) -> tuple[xr.Dataset | None, BestConfiguration | None, Sensitivity | None]:
        """Map, search and Monte Carlo, where the file asks for them."""
        file, rig = self.file, self.rig

        def part(low: float, high: float) -> Callable[[int, int], None]:
            return lambda done, total: tell(low + (high - low) * done / max(total, 1), f"{done} of {total} ejections")

        chart, best, spread = None, None, None
        if file.map is not None:
            with at("map"):
                chart = configuration_map(
                    rig,
                    *file.map.joints,
                    at=file.map.configuration,
                    resolution=(file.map.resolution[0], file.map.resolution[1]),
                    constraints=self._constraints(),
                    release=self.release,
                    flight=file.flight,
                    progress=part(0.3, 0.5),
                )
        if file.search is not None:
            with at("search"):
                best = best_configuration(
                    rig,
                    Goal(file.search.velocity, file.search.tumbling),
                    constraints=self._constraints(),
                    samples=file.search.samples,
                    keep=file.search.keep,
                    joints=file.search.joints,
                    release=self.release,
                    flight=file.flight,
                    seed=file.search.seed,
                    refine=file.search.refine,
                    progress=part(0.5, 0.8),
                )
        if file.monte_carlo is not None:
            entry = file.monte_carlo
            with at("monte_carlo"):
                spread = monte_carlo(
                    rig,
                    next(iter(self.configurations.values())) if best is None else best.joints,
                    uncertainty=Uncertainty(entry.friction, entry.damping, entry.spring, entry.mass),
                    samples=entry.samples,
                    seed=entry.seed,
                    release=self.release,
                    flight=file.flight,
                    keep_out=self.regions,
                    radii=file.radii,
                    progress=part(0.8, 0.95),
                )
        return chart, best, spread

    def _map(self, chart: xr.Dataset, best: BestConfiguration | None) -> Any:
        axes = [self.rig.arm.joint_index(str(name)) for name in chart["velocity"].dims]
        points = dict(self.configurations) | ({} if best is None else {"best": best.joints})
        scale = [DEGREE if self.rig.arm.joints[i].kind == "revolute" else 1e3 for i in axes]
        marks = {name: (float(q[axes[0]]) * scale[0], float(q[axes[1]]) * scale[1]) for name, q in points.items()}
        return figures.map_panels(chart, marks)

    def _best_rows(self, best: BestConfiguration) -> list[Row]:
        rows = [
            Row("best.velocity", float(best.runs.velocity[0]), "m/s", note=f"{best.evaluated} ejections tried"),
            Row("best.angular_velocity", float(best.runs.tumbling[0]), "rad/s"),
            Row("best.allowed_share", best.allowed, "", note="share of the samples that keep the constraints"),
        ]
        rows += [
            Row(f"best.joint.{joint.name}", float(value), joint.unit)
            for joint, value in zip(self.rig.arm.joints, best.joints, strict=True)
        ]
        return rows

    def _spread_rows(self, spread: Sensitivity) -> list[Row]:
        rows = []
        for quantity, levels in spread.percentiles.items():
            unit = {"velocity": "m/s", "tumbling": "rad/s", "clearance": "m"}.get(quantity, "s")
            rows += [Row(f"monte_carlo.{quantity}.percentile{level:g}", value, unit) for level, value in levels.items()]
            rows.append(Row(f"monte_carlo.{quantity}.worst", spread.worst[quantity], unit))
        for quantity, shares in spread.shares.items():
            for group, share in shares.items():
                rows.append(Row(f"monte_carlo.{quantity}.share.{group}", share, "", note="of the variance"))
        rows.append(Row("monte_carlo.failed", spread.failed, ""))
        return rows

    def _data(self, runs: dict[str, Ejection], chart: xr.Dataset | None) -> xr.Dataset:
        import xarray as xr

        first = next(iter(runs))
        pieces = []
        for name, done in runs.items():
            own = done.data.rename({"time": f"time_{name}"}) if len(runs) > 1 else done.data
            pieces.append(own.rename({key: f"{key}_{name}" for key in own.data_vars}) if len(runs) > 1 else own)
        if chart is not None:
            dims = {str(name): f"map_{name}" for name in chart["velocity"].dims}
            pieces.append(chart.rename(dims).rename({key: f"map_{key}" for key in chart.data_vars}))
        data = xr.merge(pieces, combine_attrs="drop")
        data.attrs = {"first_configuration": first}
        return data
