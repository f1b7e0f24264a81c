"""The ejection study from a scenario file: see ``docs/studies/ejection.md``.

Tables of the file come first, findings second. Single ejections are full runs with ledger and certificate; map, search
and Monte Carlo are batches at a looser tolerance. The Monte Carlo starts from the configuration that the search found,
if there is one, since that is the one to be flown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm.ejection import figures
from spacearm.ejection.clearance import BoxRegion, KeepOut, PlaneRegion, skeleton
from spacearm.ejection.configuration import (
    BestConfiguration,
    EjectionConstraints,
    EjectionGoal,
    best_configuration,
    configuration_map,
)
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.montecarlo import EjectionSensitivity, EjectionUncertainty, monte_carlo
from spacearm.ejection.release import ReleaseState
from spacearm.ejection.rig import Rig, find_normal, reduce_to_plane
from spacearm.ejection.run import Clearance, Ejection, LimitReached, eject
from spacearm.ejection.separation_device import SeparationDevice, SeparationSpring
from spacearm.ejection.verify import check_in_mujoco, friction_check
from spacearm.errors import InputError, SimulationError, error_context
from spacearm.model import Friction, Robot
from spacearm.model.layout import Layout
from spacearm.model.toml_schema import Name, Number, Seed, Vector3, integer_between
from spacearm.result import Checks, Figure, Limit
from spacearm.scene import Scene, scene_of
from spacearm.simulate.check.crosscheck import CrossCheck
from spacearm.study import Findings, ScenarioTable, Session, StudyFile, key, row
from spacearm.study.findings import NotedValue, joint_values, mujoco_check, xyz
from spacearm.study.keys import OneOrMore, keyword_maker, make_value
from spacearm.study.limits import joint_limits, worst_first
from spacearm.study.tables import ConfigurationKeys, Count, InertiaTable, MotionKeys
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

DEGREE = 180.0 / np.pi


class EjectionFrictionTable(ScenarioTable):
    """Dry friction of the rail, N."""

    coulomb: Number
    static: Number | None = key(None, "equal to `coulomb` if omitted")

    def make(self) -> Friction:
        return Friction(self.coulomb if self.static is None else self.static, self.coulomb)


class SeparationSpringTable(ScenarioTable):
    """One spring, by stiffness and compression or by a force curve."""

    stiffness: Number | None = key(None, "N/m")
    compression: Number | None = key(None, "m")
    curve: list[list[Number]] | None = key(None, "points of travel (m) and force (N)")
    position: Vector3 = key([0.0, 0.0, 0.0], "point of application, m")

    make = keyword_maker(SeparationSpring)


class DeviceTable(ScenarioTable):
    """Springs on a rail between the satellite and the arm."""

    either: ClassVar = (("springs", "spring"),)

    stiffness: Number | None = key(None, "stiffness of one spring, N/m")
    stroke: Number = key(what="length of the rail, m")
    springs: Count = key(1, "number of equal springs")
    spring: list[SeparationSpringTable] | None = key(
        None, "individual springs, in place of `stiffness`, `springs` and `compression`"
    )
    direction: Vector3 = key([0.0, 0.0, 1.0], "direction of the ejection, base frame")
    compression: Number | None = key(None, "initial compression, m; the stroke if omitted")
    friction: EjectionFrictionTable | None = key(None, "friction of the rail")
    damping: Number = key(0.0, "damping of the rail, N s/m")
    satellite: InertiaTable | None = key(
        None, "inertia of the satellite in the frame of the arm's base; infinitely heavy if omitted"
    )
    pivot: Vector3 | None = key(None, "point about which an infinitely heavy satellite rotates, m")

    def make(self) -> SeparationDevice:
        options = self.options()
        return SeparationDevice(**options | {"springs": options.pop("spring", self.springs)})


class ReleaseTable(MotionKeys):
    """Motion at the release: joint rates of the arm, and angular velocity of the satellite."""

    def build(self, arm: Robot) -> ReleaseState:
        """The release state of this arm."""
        return ReleaseState(self.rates_of(arm), self.base_angular_velocity())


class ConfigurationTable(ConfigurationKeys):
    """A configuration to eject from; frozen joints are omitted."""

    name: Name | None = key(None, "name in the results")


class KeepOutTable(ScenarioTable):
    """A keep-out region of the arm: a plane (point, normal) or a box (low, high), satellite frame, m."""

    name: Name | None = None
    point: Vector3 | None = None
    normal: Vector3 | None = None
    low: Vector3 | None = None
    high: Vector3 | None = None

    def make(self) -> KeepOut:
        plane, box = self.options("point", "normal"), self.options("low", "high")
        if plane and box:
            raise InputError("is both a plane and a box", hint="expected point and normal, or low and high")
        if len(box) == 2:
            return BoxRegion(**box, name=self.name or "box")
        if self.normal is None:
            raise InputError("is neither a plane nor a box", hint="expected point and normal, or low and high")
        return PlaneRegion(np.array(self.point or np.zeros(3)), np.array(self.normal), self.name or "plane")


class ConfigurationMapTable(ScenarioTable):
    """Velocity and tumbling over the ranges of two joints."""

    joints: list[Name] = key(min_length=2, max_length=2)
    configuration: Name | None = key(None, "positions of the other joints, by name")
    resolution: list[Annotated[int, integer_between(2, 1000)]] = key([41, 41], min_length=2, max_length=2)


class SearchTable(ScenarioTable):
    """Search for the best configuration."""

    velocity: Number = key(1.0, "weight of the ejection velocity")
    tumbling: Number = key(0.0, "weight of the angular velocity after the ejection")
    samples: Count = key(4096, "configurations to screen, a Sobol sequence")
    refine: Annotated[int, integer_between(0, 1_000_000)] = key(80, "generations of the evolution")
    keep: Count = key(24, "number of populations that evolve from the best samples")
    joints: list[Name] | None = key(None, "joints to search over; all if omitted")
    margin: Number = key(0.0, "smallest clearance from keep-out regions, m")
    limit_margin: Number | None = key(None, "smallest distance from joint limits, rad or m")
    limit_margin_deg: Number | None = None
    respect_limits: bool = key(True, "whether no joint may reach a limit")
    seed: Seed = 0


class EjectionMonteCarloTable(ScenarioTable):
    """Relative standard deviations for a Monte Carlo of the best configuration found, or else of the first
    configuration.
    """

    samples: Count = 2000
    friction: Number = 0.3
    damping: Number = 0.2
    spring: Number = 0.03
    mass: Number = 0.02
    seed: Seed = 0


class EjectionFile(StudyFile):
    """An arm ejected from its satellite."""

    key_changes: ClassVar = dict.fromkeys(
        ("segmented", "segment"), "the segmented algorithm belongs to the reproduction of Cai et al. (2023) now"
    )

    freeze: list[Name] = key([], "joints to freeze at zero")
    table: Literal["x", "y", "z"] | None = key(
        None, 'normal of an air table, as `base = "planar"`; none (space) if both are omitted'
    )
    device: DeviceTable
    configuration: Annotated[list[ConfigurationTable], OneOrMore] = key(min_length=1)
    release: ReleaseTable | None = key(None, "motion at the release; at rest if omitted")
    keep_out: Annotated[list[KeepOutTable], OneOrMore] = key([], "regions that the arm must not touch")
    radii: Number | dict[str, Number] = key(0.0, "radii of the bodies around their skeletons, one or by body, m")
    flight: Number = key(10.0, "duration of the flight after separation, s")
    limits: Literal["report", "stop", "ignore"] = key(
        "report", "whether joint limits are reported, end the run, or are ignored"
    )
    map: ConfigurationMapTable | None = None
    search: SearchTable | None = None
    monte_carlo: EjectionMonteCarloTable | None = None

    def solve(self, session: Session) -> EjectionFindings:
        rig = self._rig(session)
        release = None
        if self.release is not None:
            with error_context("release"):
                release = self.release.build(rig.arm)
            release.check_rates(rig)
        regions = make_value(self.keep_out, "keep_out")
        starts = self._starts(rig)
        with error_context("radii"):
            skeleton(rig.arm, self.radii)
        common = {"release": release, "flight": self.flight, "keep_out": regions, "radii": self.radii}
        runs = {}
        for name, joints in starts.items():
            # One by one and not as a batch: each has curves, a ledger and a certificate.
            session.report_progress(0.05, f"configuration {name}")
            try:
                runs[name] = eject(rig, joints, limits=self.limits, **common)
            except SimulationError as error:
                error.place = f"configuration {name!r}: {error.place}"
                raise
        session.report_progress(0.2, "checking")
        checked = {name: check_in_mujoco(run) for name, run in runs.items()} if session.cross_check else {}
        chart, best = self._map(session, rig, common), self._best(session, rig, common)
        spread = None
        if self.monte_carlo is not None:
            with error_context("monte_carlo"):
                spread = monte_carlo(
                    rig,
                    # The uncertainty of the configuration that one would choose.
                    next(iter(starts.values())) if best is None else best.joints,
                    uncertainty=EjectionUncertainty(
                        **self.monte_carlo.options("friction", "damping", "spring", "mass")
                    ),
                    **self.monte_carlo.options("samples", "seed"),
                    **common,
                    progress=session.partial_progress(0.8, 0.95, "ejections"),
                )
        return EjectionFindings(file=self, rig=rig, runs=runs, checked=checked, chart=chart, winner=best, spread=spread)

    def _rig(self, session: Session) -> Rig:
        robot = self.load_robot(session)
        table = self.table
        if robot.base.axis is not None:
            # A planar base is a table under arm and satellite: the rig locks what it takes away from both.
            normal = find_normal(robot.base)
            if table not in (None, normal):
                text = f"is {table!r}, but the base is planar about {normal!r}"
                raise InputError(text, place="table", hint="omit it")
            table, robot = normal, robot.replace(base="free")
        with error_context("freeze"):
            arm = reduce_to_plane(robot, self.freeze) if self.freeze else robot
        device = make_value(self.device, "device")
        with error_context("base" if self.table is None else "table"):
            rig = Rig(arm, device, table)
        with error_context("device"):
            # Made now, so that an error has the place of the device and not of the first run.
            _ = rig.mounted_robot  # springs that no joint can represent are reported here
        return rig

    def _starts(self, rig: Rig) -> dict[str, Array]:
        """Joint positions by their names in the results."""
        found: dict[str, Array] = {}
        for k, entry in enumerate(self.configuration):
            with error_context(f"configuration[{k}]"):
                if not (entry.configuration or entry.has_key("joints") or entry.has_key("joints_deg")):
                    raise InputError(
                        "no configuration is given", hint="expected one of configuration, joints, joints_deg"
                    )
                name = entry.name or entry.configuration or str(k + 1)
                if "/" in name:
                    raise InputError(f"is {name!r}", place="name", hint="expected no '/': it names results")
                if name in found:
                    raise InputError(f"two are called {name!r}", place="name")
                found[name] = rig.configuration(entry.positions(rig.arm))
        return found

    def _constraints(self, common: dict[str, Any]) -> EjectionConstraints:
        rules = {} if self.search is None else self.search.options("margin", "limit_margin", "respect_limits")
        return EjectionConstraints(common["keep_out"], radii=common["radii"], **rules)

    def _map(self, session: Session, rig: Rig, common: dict[str, Any]) -> xr.Dataset | None:
        if self.map is None:
            return None
        with error_context("map"):
            return configuration_map(
                rig,
                *self.map.joints,
                at=self.map.configuration,
                resolution=(self.map.resolution[0], self.map.resolution[1]),
                constraints=self._constraints(common),
                release=common["release"],
                flight=self.flight,
                progress=session.partial_progress(0.3, 0.5, "ejections"),
            )

    def _best(self, session: Session, rig: Rig, common: dict[str, Any]) -> BestConfiguration | None:
        if self.search is None:
            return None
        with error_context("search"):
            return best_configuration(
                rig,
                EjectionGoal(self.search.velocity, self.search.tumbling),
                constraints=self._constraints(common),
                **self.search.options("samples", "keep", "joints", "seed", "refine"),
                release=common["release"],
                flight=self.flight,
                progress=session.partial_progress(0.5, 0.8, "ejections"),
            )


class Configuration(Findings):
    """An ejection from one configuration."""

    run: Ejection

    mass = row("kg", "all joints free", of=lambda c: equivalent_mass(c.run.rig, c.run.start))
    time = row("s", of="run.time")
    velocity = row("m/s", "relative to the satellite, as it leaves the rail", of="run.velocity")
    stable_time = row(
        "s", of=lambda c: NotedValue(c.run.stable_time, "when the last joint stops" if c.run.stable else "never")
    )
    angular_velocity = row("rad/s", "magnitude of the mean over time, joints stopped", of=lambda c: _size(c.run))
    peak_angular_velocity = row(
        "rad/s", of=lambda c: NotedValue(_peak(c.run)[0], f"of the base, at {_peak(c.run)[1]:.3g} s")
    )
    components = row("rad/s", name="angular_velocity", of=lambda c: xyz(c.run.angular_velocity))
    variation = row(of=lambda c: joint_values(c.run.rig.arm, c.run.variation, note="at separation"))
    final = row(of=lambda c: joint_values(c.run.rig.arm, c.run.final_variation))
    stop = row("s", of=lambda c: {n: NotedValue(t, "" if t else "never moved") for n, t in c.run.stop_times.items()})
    limit = row("s", of=lambda c: _limit_times(c.run.hits))
    energy = row("J", of=lambda c: {name: value for name, value in c.run.ledger.items() if name != "residual"})
    clearance = row("m", of=lambda c: None if c.run.clearance is None else _clear(c.run.clearance))
    recoil = row(of=lambda c: None if c.run.rig.device.heavy else RecoilFindings(run=c.run))


class RecoilFindings(Findings):
    """Recoil of a satellite that is not infinitely heavy."""

    run: Ejection
    velocity = row("m/s", "satellite's frame", of=lambda r: np.linalg.norm(r.run.recoil[0]))
    angular_velocity = row("rad/s", of=lambda r: np.linalg.norm(r.run.recoil[1]))


def _size(run: Ejection) -> Any:
    return np.linalg.norm(run.angular_velocity)


def _peak(run: Ejection) -> tuple[float, float]:
    """Largest magnitude of the base's angular velocity (rad/s), and its time (s)."""
    size = np.linalg.norm(run.data["angular_velocity"].values, axis=1)
    at = int(size.argmax())
    return float(size[at]), float(run.data["time"][at])


def _limit_times(hits: Sequence[LimitReached]) -> dict[str, NotedValue]:
    """Times at which joints reach their limits: ``joint.1`` the first time, ``joint.2`` the second."""
    found: dict[str, NotedValue] = {}
    for hit in hits:
        times = 1 + sum(name.rpartition(".")[0] == hit.joint for name in found)
        found[f"{hit.joint}.{times}"] = NotedValue(hit.time, f"{hit.joint} reaches its limit {hit.value:g}")
    return found


def _clear(clearance: Clearance) -> dict[str, NotedValue]:
    return {n: NotedValue(d, f"smallest, at {clearance.time[n]:.3f} s") for n, d in clearance.distance.items()}


class BestConfigurationFindings(Findings):
    """The best configuration."""

    rig: Rig
    search: BestConfiguration
    velocity = row("m/s", of=lambda b: NotedValue(b.search.runs.velocity[0], f"{b.search.evaluated} ejections tried"))
    angular_velocity = row("rad/s", of=lambda b: b.search.runs.tumble_rate[0])
    allowed_share = row("", "fraction of the samples that satisfy the constraints", of="search.allowed")
    joint = row(of=lambda b: joint_values(b.rig.arm, b.search.joints))


def _spread(spread: EjectionSensitivity) -> dict[str, Any]:
    """Percentiles, worst cases and shares of the variance by quantity."""
    units = {"velocity": "m/s", "tumbling": "rad/s", "clearance": "m"}
    found: dict[str, Any] = {}
    for quantity, levels in spread.percentiles.items():
        values = {f"percentile{level:g}": value for level, value in levels.items()}
        values["worst"] = spread.worst[quantity]
        found[quantity] = {name: NotedValue(value, "", units.get(quantity, "s")) for name, value in values.items()}
    for quantity, shares in spread.shares.items():
        of_the_variance = {group: NotedValue(share, "of the variance") for group, share in shares.items()}
        found[quantity] = {**found.get(quantity, {}), "share": of_the_variance}
    return {**found, "failed": spread.failed}


class EjectionFindings(Findings):
    """Findings of a scenario of ejections."""

    file: EjectionFile
    rig: Rig
    runs: dict[str, Ejection]
    checked: dict[str, CrossCheck]
    chart: xr.Dataset | None
    winner: BestConfiguration | None
    spread: EjectionSensitivity | None

    each = row(name="", of=lambda t: {n: Configuration(run=run) for n, run in t.runs.items()})
    best = row(of=lambda t: None if t.winner is None else BestConfigurationFindings(rig=t.rig, search=t.winner))
    monte_carlo = row(of=lambda t: None if t.spread is None else _spread(t.spread))

    def title(self) -> str:
        return f"Ejection of {self.rig.arm.name}"

    def headline(self) -> str:
        name, run = max(self.runs.items(), key=lambda each: each[1].velocity)
        peak, when = _peak(run)
        end = "once its joints have stopped" if run.stable else "with its joints in their final positions"
        of = f"{self.rig.arm.name}, {name}," if len(self.runs) == 1 else f"The fastest of {len(self.runs)}, {name},"
        return (
            f"{of} leaves the rail after {run.time:.3g} s at {1e3 * run.velocity:.0f} mm/s. The angular velocity of "
            f"its base peaks at {DEGREE * peak:.2g} deg/s, at {when:.2g} s; {end} it tumbles at "
            f"{DEGREE * float(np.linalg.norm(run.angular_velocity)):.2g} deg/s on average."
        )

    def summary(self) -> str:
        # A number of equal springs, or the springs themselves.
        springs, arm = self.rig.device.springs, self.rig.arm
        count = springs if isinstance(springs, int) else len(springs)
        thrower = "A spring ejects" if count == 1 else f"{count} springs eject"
        return (
            f"{thrower} {arm.name}, an arm of {arm.n} joints and {arm.mass:g} kg, over "
            f"{1e3 * self.rig.device.stroke:g} mm with {self.rig.device.energy:.3g} J."
        )

    def certificate(self) -> Mapping[str, Checks]:
        return {
            name: {
                **run.certificate,
                "friction": friction_check(run),
                **({"mujoco": mujoco_check(self.checked[name])} if name in self.checked else {}),
            }
            for name, run in self.runs.items()
        }

    def limits(self) -> list[Limit]:
        """Limits of the joints in all configurations, on the rail and after it."""
        return worst_first(limit for name, run in self.runs.items() for limit in self._limits(name, run))

    def _limits(self, name: str, run: Ejection) -> list[Limit]:
        arm, place = self.rig.arm, Layout(self.rig.arm.n)
        states = np.concatenate([self.rig.split(run.rail.states)[0], run.flight.states])
        times = np.concatenate([run.rail.times, run.flight.times])
        # Reversed, so that the mapping keeps the first time of each joint.
        crossings = {hit.joint: hit.time for hit in reversed(run.hits)}
        prefix = f"{name}: " if len(self.runs) > 1 else ""
        return joint_limits(
            arm, times, states[:, place.joints], states[:, place.rates], crossings=crossings, prefix=prefix
        )

    def settings(self) -> Mapping[str, Any]:
        file, device = self.file, self.rig.device
        return {
            "frozen": file.freeze,
            "table": self.rig.table or "none (space)",
            "spring_energy_J": device.energy,
            "spring_force_N": [[segment.start, segment.force] for segment in device.segments],
            "stroke_m": device.stroke,
            "release": "at rest" if file.release is None else file.release.model_dump(exclude_none=True),
            "satellite": "infinitely heavy" if device.heavy else f"{file.device.satellite}",
            "configurations_deg": {name: (run.start * DEGREE).tolist() for name, run in self.runs.items()},
        }

    def data(self) -> xr.Dataset:
        import xarray as xr

        pieces = []
        for name, run in self.runs.items():
            # Of each run all curves, not only those that figures show.
            own = run.data
            # Runs have different samples: each has its own time axis in the file.
            several = {key: f"{key}_{name}" for key in ("time", *own.data_vars)} if len(self.runs) > 1 else {}
            pieces.append(own.rename(several))
        if self.chart is not None:
            names = (*self.chart["velocity"].dims, *self.chart.data_vars)
            pieces.append(self.chart.rename({name: f"map_{name}" for name in names}))
        data = xr.merge(pieces, combine_attrs="drop")
        data.attrs = {"first_configuration": next(iter(self.runs))}
        return data

    def scene(self) -> Scene:
        return scene_of(self.runs if len(self.runs) > 1 else next(iter(self.runs.values())))

    def figures(self) -> list[Figure]:
        runs = self.runs
        text = "Velocity of the arm's base until it leaves the rail."
        first = next(iter(runs))
        found = [
            Figure("velocity", figures.velocity_curves(runs), text),
            Figure(
                "angular-velocity",
                figures.angular_velocity_curves(runs),
                "Angular velocity of the base. Dots: the last joint stops.",
            ),
            Figure(
                "joints",
                figures.joint_curves(runs),
                "Displacement of the moving joints since the release. Dashed: limits that are close.",
            ),
            Figure(
                "energy",
                figures.energy_areas(runs[first]),
                f"Distribution of the springs' energy; configuration {first}.",
            ),
        ]
        if self.chart is not None:
            points = {name: run.start for name, run in runs.items()}
            points |= {} if self.winner is None else {"best": self.winner.joints}
            plot = figures.map_panels(self.chart, self.rig.arm, points)
            found.append(
                Figure(
                    "configuration-map",
                    plot,
                    figures.map_caption(self.chart),
                )
            )
        if self.spread is not None:
            plot = figures.histograms(self.spread)
            found.append(Figure("monte-carlo", plot, "Effect of uncertain friction, damping, springs and masses."))
        return found
