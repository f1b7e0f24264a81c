"""Inertia identification from a scenario file: simulated or measured experiments in, numbers with their origin out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator

from spacearm.checks import positive
from spacearm.errors import InputError, at
from spacearm.identify.inertia.design import Limits, Plan, design
from spacearm.identify.inertia.experiment import Experiment, Firing, Nodes, measure
from spacearm.identify.inertia.identifiability import Identifiability, identifiability, told_by
from spacearm.identify.inertia.identify import Identification, identify, thinned
from spacearm.identify.inertia.load import Load, load_of
from spacearm.identify.inertia.montecarlo import MonteCarlo, monte_carlo, repeat_output_error
from spacearm.identify.inertia.online import TargetState, follow
from spacearm.identify.inertia.output_error import NUISANCES
from spacearm.identify.inertia.output_error_fit import shown_by
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.record_files import read_record
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.identify.inertia.validate import Comparison, HoldOut, Torque, compare_models, hold_out, hold_out_record
from spacearm.identify.inertia.weighed import Weighed
from spacearm.identify.numerics import solvable
from spacearm.measure.files import Column, read_times
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.files import file_format
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3, whole
from spacearm.result import Check
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.study import Session, StudyFile, Table, agreement, distinct, key, makes, refused
from spacearm.study.scenario import Progress
from spacearm.study.sensor_tables import ChannelName, SamplingTable, SensorTable
from spacearm.study.signal_tables import SignalTable, ThrusterTable, not_an_angle
from spacearm.study.tables import ColumnTable, ConfigurationKeys, Count, MeasuredKeys, MotionKeys
from spacearm.typing import Array

#: Of one experiment: more is a slip of the pen, and would fill the memory.
MOST_SAMPLES = 1_000_000
if TYPE_CHECKING:
    NuisanceName = str
else:  # the words of the file are those of the table
    NuisanceName = Literal[tuple(NUISANCES)]


class _Setup(NamedTuple):
    """What all experiments share: the robot as drawn and as simulated, sensors, and the experiments themselves."""

    session: Session
    drawing: Robot
    real: Robot
    sensors: Sequence[Sensor]
    experiments: list[Experiment]


def _in_the_folder(name: str) -> str:
    """A robot file's plain name: what a scenario writes stays in the folder of its results."""
    hint = "expected a plain file name, such as identified.toml: it is written into the folder of the results"
    if name != PurePath(name).name or name.startswith("."):
        raise refused("leads out of that folder", hint)
    try:
        file_format(name)
    except InputError as error:
        raise refused(error.message, error.hint) from None
    return name


class ExciteKeys(Table):
    """What excites an experiment: joints that move, thrusters that fire."""

    moved: ClassVar = {
        "path": "it is 'excursions' now: excursions.<joint> = { kind = \"spline\", times = [...], values_deg = [...] }"
    }

    excursions: dict[str, SignalTable] = key(
        {}, "joint = clamped spline from where the joint is and back to rest, relative to that position, rad or m"
    )
    thruster: list[ThrusterTable] = key([], "thrusters that fire, at a level that is a number")

    def paths(self, robot: Robot) -> dict[str, Nodes]:
        """Joints that move, and how."""
        found = {}
        for joint, path in self.excursions.items():
            with at(f"excursions.{joint}"):
                path.no_degrees(not_an_angle(robot, joint))
                values = path.si("values")
                if path.kind != "spline" or path.ends != "clamped" or path.times is None or values is None:
                    hint = 'expected { kind = "spline", times = [...], values = [...] }'
                    raise InputError("is no clamped spline through nodes", hint=hint)
                found[joint] = Nodes(np.array(path.times), np.array(values))
        return found

    def firings(self, duration: float) -> list[Firing]:
        """Thrusters that fire in an experiment of this duration (s)."""
        found = []
        for k, item in enumerate(self.thruster):
            with at(f"thruster[{k}]"):
                level = item.throttle(duration)
                spans = [(0.0, duration)] if item.on is None else item.intervals()
                found += [Firing(item.name, begin, end, float(level(0.5 * (begin + end)))) for begin, end in spans]
        return found


class ExperimentTable(ConfigurationKeys, MotionKeys, MeasuredKeys, ExciteKeys):
    """An experiment: simulated, or measured. Of a simulated one, joints without an excursion are locked; of a measured
    one, those whose readings differ by no more than their noise."""

    moved: ClassVar = ExciteKeys.moved | {"columns.time": "the time has a key of its own: time = { column = ... }"}

    name: Name
    duration: Duration | None = key(None, "s; of a measured one, what its file has")
    velocity: Vector3 = key([0.0, 0.0, 0.0], "of the base's origin at first, world axes, m/s")
    known_momentum: bool = key(False, "the momentum at first is known")
    missing: Literal["keep", "drop", "reject"] = key(  # type: ignore[assignment]
        "keep", "cells without a number: readings that are missing, whole samples left out, or an error"
    )
    gaps: Literal["keep", "reject"] = key("keep", "steps of time longer than 1.5 times the usual")
    columns: dict[ChannelName, ColumnTable] | None = key(None, "channel = its columns in the file")
    thruster_columns: dict[Name, ColumnTable] = key(
        {}, "thruster = column of its level, 0 to 1, held until the next row"
    )

    def of(self, robot: Robot, folder: Path = Path()) -> Experiment:
        """The experiment with this robot."""
        duration = self._duration(folder)
        return Experiment(
            self.name,
            duration,
            self.positions(robot),
            self.paths(robot),
            self.firings(duration),
            tuple(self.velocity),
            tuple(self.turning()),
            self.known_momentum,
        )

    def _duration(self, folder: Path) -> float:
        if self.duration is not None:
            return self.duration
        if self.file is None:
            raise InputError("is missing", place="duration", hint="a simulated experiment needs it, s")
        path, clock = folder / self.file, Column(self.time.only("time"), self.time.unit)
        times = read_times(path, clock)
        return float(times[-1] - times[0])

    def read(self, experiment: Experiment, setup: _Setup, file: InertiaFile) -> Record:
        """The measured file."""
        columns = None
        if self.columns is not None:
            columns = {str(n): c.make() for n, c in self.columns.items()}
        path, time = setup.session.folder / str(self.file), Column(self.time.only("time"), self.time.unit)
        levels = {name: c.make() for name, c in self.thruster_columns.items()}
        options: dict[str, Any] = {"time": time, "missing": self.missing, "gaps": self.gaps, "levels": levels}
        options["estimate_noise"] = file.sensors.noise != "none"
        sensors = file.sensors.sensors(file.sensor, simulated=False)
        with at(file=path):
            return read_record(path, setup.drawing, experiment, sensors, columns, **options)


class MeasurementsTable(ExperimentTable):
    """A single measured experiment: a file and its columns are enough."""

    name: Name = key("measurements", "shown in the results")
    file: Name = key(what="CSV, Parquet, NetCDF, HDF5, MATLAB or NumPy file, relative to the scenario")


class EstimateTable(Table):
    """How to estimate."""

    either: ClassVar = (("known_bodies", "unknown_bodies"),)

    method: Literal["output-error", "total", "linear", "consistent", "recursion", "swarm"] | None = key(
        None, "output-error where the records have position, attitude, joints and their noise; else total"
    )
    equations: tuple[Literal["momentum", "dynamics"], ...] = key(("momentum",), "of methods other than output-error")
    nuisances: dict[NuisanceName, bool | Literal["test"] | Number] = key(
        {},
        'true: estimated; a number: believed to be zero within this, and estimated; "test", as all are, or false',
    )
    prior: Number | None = key(None, "how far the drawing is believed, share of each number's typical size")
    known_bodies: list[Name] = key([], "whose inertias are known")
    unknown_bodies: list[Name] = key([], "those of all others are known")
    known_mass_centre: list[Name] = key([], "bodies whose mass and mass centre are known")
    segment: Duration | None = key(None, "cut records into pieces of about this length, each with its own start, s")
    write: Annotated[Name, AfterValidator(_in_the_folder)] | None = key(None, "robot file with what was found")

    def prior_of(self, drawing: Robot, name: str) -> Prior | None:
        """What is believed before."""
        exact = list(self.known_bodies)
        with at("estimate"):
            if self.unknown_bodies:
                wanted = {drawing.body_index(body) for body in self.unknown_bodies}
                exact = [body for k, body in enumerate(drawing.body_names) if k not in wanted]
            parts = [Prior.known_bodies(drawing, exact, f"{', '.join(exact)} known")] if exact else []
            for body in self.known_mass_centre:
                parts.append(Prior.known_mass_centre(drawing, body, f"mass and mass centre of {body} known"))
            if self.prior is not None:
                source = f"drawing {name} with {100 * self.prior:g} % deviation"
                parts.append(Prior.from_robot(drawing, self.prior, source))
        if not parts:
            return None
        sigma = np.min([part.sigma for part in parts], axis=0)
        return Prior(parts[0].mean, sigma, "; ".join(part.source for part in parts))

    def estimated(self) -> dict[str, float]:
        """Nuisances that are looked for, with the deviation that they are believed to have."""
        given = {str(name): value for name, value in self.nuisances.items() if value is not False and value != "test"}
        with at("estimate.nuisances"):
            return {name: np.inf if value is True else positive(value, name) for name, value in given.items()}

    def tested(self) -> list[str]:
        """Nuisances that are tested."""
        return [name for name in NUISANCES if self.nuisances.get(name, "test") == "test"]


class TargetTable(Table):
    """One body's ten numbers while samples arrive, all others known."""

    body: Name
    every: Count = key(50, "samples between estimates")
    relative: Number = key(1.0, "how far the first guess is believed, share of each number's typical size")


class LoadTable(Table):
    """A captured target that is fused with the body that holds it: its own mass, mass centre and tensor."""

    robot: Name = key(what="the same robot with nothing in its hand, whose inertia of that body is known")
    body: Name | None = key(None, "that holds the target; the one that carries `frame`")
    frame: Name | None = key(None, "of the target, in which its numbers are given; that of the body where left out")
    doubt: Number = key(0.0, "how well the holding body is known, share of each number's typical size")

    def of(self, found: Identification, session: Session) -> Load:
        """The target."""
        robot = found.known.robot
        with at("load"):
            if self.body is None and self.frame is None:
                raise InputError("names neither a body nor a frame", hint="expected body or frame")
            frame = None if self.frame is None else robot.frame(self.frame)
            body = self.body or (frame.body if frame is not None else "")
            place = None if frame is None else frame.placement
            return load_of(found, body, session.robot(self.robot, "load.robot"), doubt=self.doubt, placement=place)


class DesignTable(ConfigurationKeys):
    """A plan of experiments that leave the least uncertainty, within limits; the robot is the drawing."""

    motions: Count = key(2, "experiments")
    duration: Duration = key(60.0, "of each, s")
    angle: Number | None = key(None, "largest excursion of a joint, rad or m")
    angle_deg: Number | None = key(None, "30 where left out")
    rate: Number | None = key(None, "largest joint rate, rad/s or m/s")
    rate_deg: Number | None = key(None, "6 where left out")
    attitude: Number | None = key(None, "largest turn of the base, rad")
    attitude_deg: Number | None = key(None, "30 where left out")
    impulse: Number = key(np.inf, "most impulse of the thrusters, N s")
    clearance: Number = key(0.0, "least distance of a link's end from the base's origin, m")
    margin: Number = key(0.0, "least gap between collision shapes of the robot, m")
    pulses: Annotated[int, whole(0, 1000)] = key(6, "of thrusters")
    criterion: Literal["D", "A"] = key("D", "mean logarithm, or root mean square, of the deviations")
    candidates: Count = key(12, "random starts")
    refinements: Count = key(40, "changes of the best")
    seed: Seed = 0

    def plan(self, robot: Robot, sensors: Sequence[Sensor], prior: Prior | None, tell: Progress) -> Plan:
        """The best experiments found."""
        limits = Limits(**self.options("angle", "rate", "attitude", "impulse", "clearance", "margin"))
        options = self.options("motions", "duration", "pulses", "criterion", "candidates", "refinements", "seed")
        return design(robot, self.positions(robot), sensors, limits, prior=prior, progress=tell, **options)


class MonteCarloTable(Table):
    """The experiments again and again with other noise."""

    samples: Count = 100
    seed: Seed = 0


class TorqueTable(Table):
    """A sine."""

    joint: Name
    amplitude: Number = key(what="N m or N")
    frequency: Number = key(what="rad/s")
    phase: Number = key(0.0, "rad")

    make = makes(Torque)


class ValidationTable(ConfigurationKeys):
    """Both robots, as found and as simulated, moved by the same torques."""

    duration: Duration = key(2.0, "s")
    torque: list[TorqueTable] = key([])


class InertiaFile(StudyFile):
    """A robot weighed in orbit."""

    either: ClassVar = (("experiment", "measurements"),)

    real: Name | None = key(None, "robot that is simulated; the drawing where left out")
    real_scale: Number = key(1.0, "factor of its inertias")
    sensors: SamplingTable = SamplingTable()
    sensor: list[SensorTable] = key([], "sensors that differ from typical ones, or measure further channels")
    experiment: list[ExperimentTable] = key([], "simulated or measured")
    measurements: MeasurementsTable | None = key(None, "a single measured one, where there are no others")
    estimate: EstimateTable = EstimateTable()
    target: TargetTable | None = None
    load: LoadTable | None = None
    design: DesignTable | None = None
    monte_carlo: MonteCarloTable | None = None
    validation: ValidationTable | None = None

    @property
    def tables(self) -> list[ExperimentTable]:
        """All experiments."""
        return [*self.experiment, *(() if self.measurements is None else (self.measurements,))]

    def place(self, index: int) -> str:
        """Where an experiment stands in the file."""
        return f"experiment[{index}]" if self.measurements is None else "measurements"

    @solvable("inertia identification")
    def solve(self, session: Session) -> Weighed:
        drawing = session.robot(self.robot)
        real, sensors = self._real(session, drawing), self.sensors.sensors(self.sensor)
        experiments = self._experiments(drawing, session)
        setup = _Setup(session, drawing, real, sensors, experiments)
        estimate, kinds = self.estimate, tuple(self.estimate.equations)
        prior = estimate.prior_of(drawing, self.robot)
        # first of all: limits that cannot be kept must not cost an estimate
        plan = None if self.design is None else self._plan(drawing, sensors, prior, session)
        clean, drawn = self._records(setup)
        session.tell(0.4, "identifiability and estimate")
        options: dict[str, Any] = {
            "kinds": kinds, "prior": prior, "estimate": estimate.estimated(), "segment": estimate.segment
        }  # fmt: skip
        found = identify(drawing, drawn, method=estimate.method, test=estimate.tested(), **options)
        session.tell(0.8, "validation")
        able = not found.impossible
        simulated = len(clean) == len(drawn)
        return Weighed(
            file=self,
            possible=self._possible(found, clean if simulated else [], prior),
            found=found,
            records=drawn,
            truth=found.problem.base_parameters.combine @ real.inertia_parameters.ravel() if simulated else None,
            carlo=self._repeated(found, clean, real, session) if simulated else None,
            prior=prior,
            able=able,
            held=self._held(setup, found.inertia, able),
            compared=self._compared(real, found) if able and self.validation is not None else None,
            broken=sum(not record.sound for record in clean),
            checked={
                one.name: _agreement(real, one)
                for one, table in zip(experiments, self.tables, strict=True)
                if session.cross_check and not table.hold_out and table.file is None
            },
            followed=self._followed(drawing, drawn),
            carried=None if self.load is None else self.load.of(found, session),
            plan=plan,
        )

    def _plan(self, drawing: Robot, sensors: Sequence[Sensor], prior: Prior | None, session: Session) -> Plan:
        assert self.design is not None
        with at("design"):
            return self.design.plan(drawing, sensors, prior, lambda share, what: session.tell(0.1 * share, what))

    def _followed(self, drawing: Robot, drawn: list[Record]) -> dict[str, list[TargetState]]:
        """States of the target's filter over each record."""
        if self.target is None:
            return {}
        options = self.target.options("relative")
        with at("target"):
            return {
                record.name: follow(drawing, self.target.body, record, self.target.every, **options) for record in drawn
            }

    def _possible(self, found: Identification, clean: list[Record], prior: Prior | None) -> Identifiability:
        """What the experiments can tell: from their samples, or from planned motions."""
        if found.output_error is not None:
            return shown_by(found.output_error)
        if clean:
            return identifiability(InertiaProblem(found.problem.robot, clean, self.estimate.equations, prior))
        return told_by(found.information, found.problem.base_parameters)

    def _repeated(self, found: Identification, clean: list[Record], real: Robot, session: Session) -> MonteCarlo | None:
        """The experiments with other noise, by the same method."""
        if self.monte_carlo is None:
            return None
        session.tell(0.6, "Monte Carlo")
        problem = found.problem
        truth = problem.base_parameters.combine @ real.inertia_parameters.ravel()
        count, seed = self.monte_carlo.samples, self.monte_carlo.seed
        if found.output_error is not None:
            if (length := self.estimate.segment) is not None:
                clean = [piece for record in clean for piece in record.segments(length)]
            return repeat_output_error(found.output_error.problem, clean, truth, count, seed)
        return monte_carlo(
            InertiaProblem(problem.robot, thinned(clean), problem.kinds, problem.prior), truth, count, seed
        )

    def _records(self, setup: _Setup) -> tuple[list[Record], list[Record]]:
        """What perfect sensors would read in each simulated experiment, and what was read in all."""
        clean, drawn = [], []
        for k, (table, experiment) in enumerate(zip(self.tables, setup.experiments, strict=True)):
            if table.hold_out:
                continue
            setup.session.tell(0.1 + 0.2 * k / len(self.tables), f"experiment {table.name}")
            if table.file is not None:
                drawn.append(table.read(experiment, setup, self))
                continue
            with at(self.place(k)):
                clean.append(measure(setup.real, experiment, setup.sensors))
            drawn.append(clean[-1].biased(setup.sensors).noisy([self.sensors.seed, k]))
        if not drawn:
            raise InputError("every experiment is held out", place="experiment", hint="at least one must be used")
        return clean, drawn

    def _held(self, setup: _Setup, inertia: Array, able: bool) -> list[HoldOut]:
        """Predictions of experiments that were not used: measured, where they have a file, or simulated."""
        found = []
        for table, experiment in zip(self.tables, setup.experiments, strict=True):
            if table.hold_out and table.file is not None:
                found.append(hold_out_record(setup.drawing, inertia, table.read(experiment, setup, self)))
            elif table.hold_out and able:
                found.append(hold_out(setup.real, inertia, experiment, setup.sensors))
        return found

    def _real(self, session: Session, drawing: Robot) -> Robot:
        """The robot that is simulated: another file, or the drawing with scaled inertias."""
        robot = drawing if self.real is None else session.robot(self.real, "real")
        if robot.joint_names != drawing.joint_names or robot.body_names != drawing.body_names:
            hint = "expected the same names"
            raise InputError("has other bodies or joints than the drawing", place="real", hint=hint)
        if self.real_scale != 1.0:
            robot = robot.with_inertia_parameters(robot.inertia_parameters * self.real_scale)
        return robot

    def _experiments(self, drawing: Robot, session: Session) -> list[Experiment]:
        if not self.tables:
            raise InputError("there is none", place="experiment", hint="[[experiment]] tables, or [measurements]")
        distinct(self.tables, "experiment")
        found = []
        for k, table in enumerate(self.tables):
            with at(self.place(k)):
                found.append(table.of(drawing, session.folder))
            if table.file is None and found[-1].duration > MOST_SAMPLES * self.sensors.sample:
                raise InputError(
                    f"{found[-1].duration:g} s every {self.sensors.sample:g} s are too many samples",
                    place=f"{self.place(k)}.duration",
                    hint=f"expected at most {MOST_SAMPLES}",
                )
        return found

    def _compared(self, real: Robot, found: Identification) -> Comparison:
        assert self.validation is not None
        with at("validation"):
            start, torques = self.validation.positions(real), self.validation.options("torque")["torque"]
            return compare_models(real, found.inertia, torques, self.validation.duration, start)


def _agreement(real: Robot, experiment: Experiment) -> Check:
    """The simulated motion once more with MuJoCo's dynamics."""
    return agreement(cross_check(experiment.run(real, np.linspace(0.0, experiment.duration, 31))), 1e-8)
