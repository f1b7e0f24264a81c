"""Inertia identification from a scenario file: simulated or measured experiments in, numbers with their origin out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator

from spacearm.checks import non_negative, positive
from spacearm.errors import InputError, error_context
from spacearm.identify.inertia.design import ExperimentLimits, ExperimentPlan, design
from spacearm.identify.inertia.experiment import Experiment, SplineNodes, ThrusterFiring, measure
from spacearm.identify.inertia.findings import InertiaFindings
from spacearm.identify.inertia.identifiability import Identifiability, assess_information, identifiability
from spacearm.identify.inertia.identify import Identification, identify, thin_records
from spacearm.identify.inertia.load import TargetLoad, extract_load
from spacearm.identify.inertia.montecarlo import MonteCarlo, monte_carlo, repeat_output_error
from spacearm.identify.inertia.online import TargetState, track_target
from spacearm.identify.inertia.output_error import NUISANCES
from spacearm.identify.inertia.output_error_fit import assess_fit
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.record_files import read_record
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.identify.inertia.validate import (
    HoldOutError,
    ModelComparison,
    SineTorque,
    compare_models,
    hold_out_record,
    predict_held_out,
)
from spacearm.identify.numerics import solvable
from spacearm.measure.files import Column, read_times
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.files import file_format
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3, integer_between
from spacearm.result import Check
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.study import (
    ScenarioTable,
    Session,
    StudyFile,
    check_distinct,
    key,
    keyword_maker,
    mujoco_check,
    validation_error,
)
from spacearm.study.keys import RobotTable
from spacearm.study.scenario import Progress
from spacearm.study.sensor_tables import ChannelName, SamplingTable, SensorTable
from spacearm.study.signal_tables import FiringTable, SignalTable, no_degrees_reason
from spacearm.study.tables import ColumnTable, ConfigurationKeys, Count, MeasuredKeys, MotionKeys
from spacearm.typing import Array

#: Of one experiment: more is a slip of the pen, and would fill the memory.
MOST_SAMPLES = 1_000_000
#: Nuisances that are the size of the thrust.
THRUST = ("thrust", "thrusters")
if TYPE_CHECKING:
    NuisanceName = str
else:  # the words of the file are those of the table
    NuisanceName = Literal[tuple(NUISANCES)]


class _Setup(NamedTuple):
    """What all experiments share: the robot as drawn and as simulated, sensors, and the experiments themselves."""

    session: Session
    nominal: Robot
    reference: Robot
    sensors: Sequence[Sensor]
    experiments: list[Experiment]


def check_plain_name(name: str) -> str:
    """A robot file's plain name: what a scenario writes stays in the folder of its results."""
    hint = "expected a plain file name, such as identified.toml: it is written into the folder of the results"
    if name != PurePath(name).name or name.startswith("."):
        raise validation_error("leads out of that folder", hint)
    try:
        file_format(name)
    except InputError as error:
        raise validation_error(error.message, error.hint) from None
    return name


class ExciteKeys(ScenarioTable):
    """What excites an experiment: joints that move, thrusters that fire."""

    key_changes: ClassVar = {
        "path": "it is 'excursions' now: excursions.<joint> = { kind = \"spline\", times = [...], values_deg = [...] }"
    }

    excursions: dict[str, SignalTable] = key(
        {}, "joint = clamped spline from where the joint is and back to rest, relative to that position, rad or m"
    )
    thruster: list[FiringTable] = key([], "thrusters that fire, at a level that is a number")

    def paths(self, robot: Robot) -> dict[str, SplineNodes]:
        """Joints that move, and how."""
        found = {}
        for joint, path in self.excursions.items():
            with error_context(f"excursions.{joint}"):
                path.refuse_degrees(no_degrees_reason(robot, joint))
                values = path.si_value("values")
                if path.kind != "spline" or path.ends != "clamped" or path.times is None or values is None:
                    hint = 'expected { kind = "spline", times = [...], values = [...] }'
                    raise InputError("is no clamped spline through nodes", hint=hint)
                found[joint] = SplineNodes(np.array(path.times), np.array(values))
        return found

    def firings(self, duration: float) -> list[ThrusterFiring]:
        """Thrusters that fire in an experiment of this duration (s)."""
        found = []
        for k, item in enumerate(self.thruster):
            with error_context(f"thruster[{k}]"):
                level = item.throttle(duration)
                spans = [(0.0, duration)] if item.on is None else item.intervals()
                found += [
                    ThrusterFiring(item.name, begin, end, float(level(0.5 * (begin + end)))) for begin, end in spans
                ]
        return found


class ExperimentTable(ConfigurationKeys, MotionKeys, MeasuredKeys, ExciteKeys):
    """An experiment: simulated, or measured. Of a simulated one, joints without an excursion are locked; of a measured
    one, those whose readings differ by no more than their noise."""

    key_changes: ClassVar = ExciteKeys.key_changes | {
        "columns.time": "the time has a key of its own: time = { column = ... }"
    }

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

    def build(self, robot: Robot, folder: Path = Path()) -> Experiment:
        """The experiment with this robot."""
        duration = self._duration(folder)
        return Experiment(
            self.name,
            duration,
            self.positions(robot),
            self.paths(robot),
            self.firings(duration),
            tuple(self.velocity),
            tuple(self.base_angular_velocity()),
            self.known_momentum,
        )

    def _duration(self, folder: Path) -> float:
        if self.duration is not None:
            return self.duration
        if self.file is None:
            raise InputError("is missing", place="duration", hint="a simulated experiment needs it, s")
        path, clock = folder / self.file, Column(self.time.single_column("time"), self.time.unit)
        times = read_times(path, clock)
        return float(times[-1] - times[0])

    def read(self, experiment: Experiment, setup: _Setup, file: InertiaFile) -> MotionRecord:
        """The measured file."""
        columns = None
        if self.columns is not None:
            columns = {str(n): c.make() for n, c in self.columns.items()}
        path, time = setup.session.folder / str(self.file), Column(self.time.single_column("time"), self.time.unit)
        levels = {name: c.make() for name, c in self.thruster_columns.items()}
        options: dict[str, Any] = {"time": time, "missing": self.missing, "gaps": self.gaps, "levels": levels}
        options["estimate_noise"] = file.sensors.noise != "none"
        sensors = file.sensors.sensors(file.sensor, simulated=False)
        with error_context(file=path):
            return read_record(path, setup.nominal, experiment, sensors, columns, **options)


class MeasurementsTable(ExperimentTable):
    """A single measured experiment: a file and its columns are enough."""

    name: Name = key("measurements", "shown in the results")
    file: Name = key(what="CSV, Parquet, NetCDF, HDF5, MATLAB or NumPy file, relative to the scenario")


class EstimateTable(ScenarioTable):
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
    prior: Number | None = key(None, "uncertainty of the nominal model, as a share of each number's typical size")
    known_bodies: list[Name] = key([], "whose inertias are known")
    unknown_bodies: list[Name] = key([], "those of all others are known")
    known_mass_centre: list[Name] = key([], "bodies whose mass and mass centre are known")
    segment: Duration | None = key(None, "cut records into pieces of about this length, each with its own start, s")
    write: Annotated[Name, AfterValidator(check_plain_name)] | None = key(None, "robot file with what was found")

    def prior_of(self, drawing: Robot, name: str) -> Prior | None:
        """What is known before the experiments; None where nothing is."""
        exact = list(self.known_bodies)
        with error_context("estimate"):
            if self.unknown_bodies:
                wanted = {drawing.body_index(body) for body in self.unknown_bodies}
                exact = [body for k, body in enumerate(drawing.body_names) if k not in wanted]
            parts = [Prior.from_known_bodies(drawing, exact, f"{', '.join(exact)} known")] if exact else []
            for body in self.known_mass_centre:
                parts.append(Prior.from_known_mass_centre(drawing, body, f"mass and mass centre of {body} known"))
            if self.prior is not None:
                source = f"nominal model {name} with {100 * self.prior:g} % deviation"
                parts.append(Prior.from_nominal(drawing, self.prior, source))
        if not parts:
            return None
        sigma = np.min([part.sigma for part in parts], axis=0)
        return Prior(parts[0].mean, sigma, "; ".join(part.source for part in parts))

    def estimated_nuisances(self) -> dict[str, float]:
        """Nuisances that are looked for, with the deviation that they are believed to have."""
        given = {str(name): value for name, value in self.nuisances.items() if value is not False and value != "test"}
        with error_context("estimate.nuisances"):
            return {name: np.inf if value is True else positive(value, name) for name, value in given.items()}

    def tested_nuisances(self) -> list[str]:
        """Nuisances that are tested."""
        return [name for name in NUISANCES if self.nuisances.get(name, "test") == "test"]


class NominalInertiaTable(ScenarioTable):
    """How well numbers are known that are not estimated: standard deviations. What the data do not tell about them
    widens every interval; 0 takes a number as exact."""

    sd: Number = key(0.03, "of the inertias of known bodies, share of each number's typical size")
    body: dict[Name, Number] = key({}, "known body = the same for it alone")
    thrust: Number = key(0.03, "of all thrusters together, share of the stated thrust; exact if nuisances estimate it")
    thrusters: Number = key(0.01, "of each thruster besides, share of the stated thrust; likewise")
    thrust_direction: Number = key(0.01, "of each thruster, rad about each axis")
    encoder_offset: Number = key(0.001, "of the zero of each joint's encoder, rad or m")
    mount: Number = key(0.002, "of the place of the base's sensors, along each axis, m")

    def deviations(self, robot: Robot, estimated: Collection[str]) -> dict[str, float]:
        """Standard deviations by name, as :func:`identify` takes them.

        A file that has its thrust ``estimated`` says there how well it is known: no default is added to that.
        """
        for name in self.body:
            with error_context("nominal.body"):
                robot.body_index(name)
        found = {"nominal": self.sd, **{str(name): value for name, value in self.body.items()}}
        stated = THRUST if not {*estimated} & {*THRUST} else self.model_fields_set
        names = [name for name in NominalInertiaTable.model_fields if name in NUISANCES]
        found |= {name: getattr(self, name) for name in names if name not in THRUST or name in stated}
        with error_context("nominal"):
            return {name: non_negative(value, name) for name, value in found.items()}


class TargetFilterTable(ScenarioTable):
    """One body's ten numbers while samples arrive, all others known."""

    body: Name
    every: Count = key(50, "samples between estimates")
    relative: Number = key(1.0, "how far the first guess is believed, share of each number's typical size")


class TargetLoadTable(ScenarioTable):
    """A captured target that is fused with the body that holds it: its own mass, mass centre and tensor."""

    robot: RobotTable = key(what="the same robot with nothing in its hand, whose inertia of that body is known")
    body: Name | None = key(None, "that holds the target; the one that carries `frame`")
    frame: Name | None = key(None, "of the target, in which its numbers are given; that of the body if omitted")
    doubt: Number = key(0.0, "how well the holding body is known, share of each number's typical size")

    def extract(self, found: Identification, session: Session) -> TargetLoad:
        """The target."""
        robot = found.known.robot
        with error_context("load"):
            if self.body is None and self.frame is None:
                raise InputError("names neither a body nor a frame", hint="expected body or frame")
            frame = None if self.frame is None else robot.frame(self.frame)
            body = self.body or (frame.body if frame is not None else "")
            place = None if frame is None else frame.placement
            return extract_load(found, body, session.robot(self.robot, "load.robot"), doubt=self.doubt, placement=place)


class ExperimentDesignTable(ConfigurationKeys):
    """A plan of experiments that leave the least uncertainty, within limits; the robot is the nominal model."""

    motions: Count = key(2, "experiments")
    duration: Duration = key(60.0, "of each, s")
    angle: Number | None = key(None, "largest excursion of a joint, rad or m")
    angle_deg: Number | None = key(None, "30 if omitted")
    rate: Number | None = key(None, "largest joint rate, rad/s or m/s")
    rate_deg: Number | None = key(None, "6 if omitted")
    attitude: Number | None = key(None, "largest turn of the base, rad")
    attitude_deg: Number | None = key(None, "30 if omitted")
    impulse: Number = key(np.inf, "most impulse of the thrusters, N s")
    clearance: Number = key(0.0, "least distance of a link's end from the base's origin, m")
    margin: Number = key(0.0, "least gap between collision shapes of the robot, m")
    pulses: Annotated[int, integer_between(0, 1000)] = key(6, "of thrusters")
    criterion: Literal["D", "A"] = key("D", "mean logarithm, or root mean square, of the deviations")
    candidates: Count = key(12, "random starts")
    refinements: Count = key(40, "changes of the best")
    seed: Seed = 0

    def plan(self, robot: Robot, sensors: Sequence[Sensor], prior: Prior | None, tell: Progress) -> ExperimentPlan:
        """The best experiments found."""
        limits = ExperimentLimits(**self.options("angle", "rate", "attitude", "impulse", "clearance", "margin"))
        options = self.options("motions", "duration", "pulses", "criterion", "candidates", "refinements", "seed")
        return design(robot, self.positions(robot), sensors, limits, prior=prior, progress=tell, **options)


class InertiaMonteCarloTable(ScenarioTable):
    """The experiments again and again with other noise."""

    samples: Count = 100
    seed: Seed = 0


class TorqueTable(ScenarioTable):
    """A sine."""

    joint: Name
    amplitude: Number = key(what="N m or N")
    frequency: Number = key(what="rad/s")
    phase: Number = key(0.0, "rad")

    make = keyword_maker(SineTorque)


class ValidationTable(ConfigurationKeys):
    """Both robots, as found and as simulated, moved by the same torques."""

    duration: Duration = key(2.0, "s")
    torque: list[TorqueTable] = key([])


class InertiaFile(StudyFile):
    """A robot weighed in orbit."""

    either: ClassVar = (("experiment", "measurements"),)

    real: RobotTable | None = key(None, "robot that is simulated; the nominal model if omitted")
    real_scale: Number = key(1.0, "factor of its inertias")
    sensors: SamplingTable = SamplingTable()
    sensor: list[SensorTable] = key([], "sensors that differ from typical ones, or measure further channels")
    experiment: list[ExperimentTable] = key([], "simulated or measured")
    measurements: MeasurementsTable | None = key(None, "a single measured one, where there are no others")
    estimate: EstimateTable = EstimateTable()
    nominal: NominalInertiaTable = NominalInertiaTable()
    target: TargetFilterTable | None = None
    load: TargetLoadTable | None = None
    design: ExperimentDesignTable | None = None
    monte_carlo: InertiaMonteCarloTable | None = None
    validation: ValidationTable | None = None

    @property
    def tables(self) -> list[ExperimentTable]:
        """All experiments."""
        return [*self.experiment, *(() if self.measurements is None else (self.measurements,))]

    def place(self, index: int) -> str:
        """Where an experiment stands in the file."""
        return f"experiment[{index}]" if self.measurements is None else "measurements"

    @solvable("inertia identification")
    def solve(self, session: Session) -> InertiaFindings:
        drawing = session.robot(self.robot)
        real, sensors = self._build_reference_robot(session, drawing), self.sensors.sensors(self.sensor)
        experiments = self._experiments(drawing, session)
        setup = _Setup(session, drawing, real, sensors, experiments)
        estimate, kinds = self.estimate, tuple(self.estimate.equations)
        prior = estimate.prior_of(drawing, str(self.robot))
        # first of all: limits that cannot be kept must not cost an estimate
        plan = None if self.design is None else self._plan(drawing, sensors, prior, session)
        clean, drawn = self._records(setup)
        session.report_progress(0.4, "identifiability and estimate")
        options: dict[str, Any] = {
            "kinds": kinds, "prior": prior, "estimate": estimate.estimated_nuisances(), "segment": estimate.segment
        }  # fmt: skip
        options["consider"] = self.nominal.deviations(drawing, options["estimate"])
        found = identify(drawing, drawn, method=estimate.method, test=estimate.tested_nuisances(), **options)
        session.report_progress(0.8, "validation")
        able = not found.impossible
        simulated = len(clean) == len(drawn)
        return InertiaFindings(
            file=self,
            possible=self._assess_identifiability(found, clean if simulated else [], prior),
            found=found,
            records=drawn,
            truth=found.problem.base_parameters.combine @ real.inertia_parameters.ravel() if simulated else None,
            carlo=self._run_monte_carlo(found, clean, real, session) if simulated else None,
            prior=prior,
            able=able,
            held=self._predict_held_out(setup, found.inertia, able),
            compared=self._compare_models(real, found) if able and self.validation is not None else None,
            broken=sum(not record.sound for record in clean),
            checked={
                one.name: _cross_check(real, one)
                for one, table in zip(experiments, self.tables, strict=True)
                if session.cross_check and not table.hold_out and table.file is None
            },
            followed=self._track_target(drawing, drawn),
            carried=None if self.load is None else self.load.extract(found, session),
            plan=plan,
        )

    def _plan(self, drawing: Robot, sensors: Sequence[Sensor], prior: Prior | None, session: Session) -> ExperimentPlan:
        assert self.design is not None
        with error_context("design"):
            return self.design.plan(
                drawing, sensors, prior, lambda share, what: session.report_progress(0.1 * share, what)
            )

    def _track_target(self, drawing: Robot, drawn: list[MotionRecord]) -> dict[str, list[TargetState]]:
        """States of the target's filter over each record."""
        if self.target is None:
            return {}
        options = self.target.options("relative")
        with error_context("target"):
            return {
                record.name: track_target(drawing, self.target.body, record, self.target.every, **options)
                for record in drawn
            }

    def _assess_identifiability(
        self, found: Identification, clean: list[MotionRecord], prior: Prior | None
    ) -> Identifiability:
        """What the experiments can tell: from their samples, or from planned motions."""
        if found.output_error is not None:
            return assess_fit(found.output_error)
        if clean:
            return identifiability(InertiaProblem(found.problem.robot, clean, self.estimate.equations, prior))
        return assess_information(found.information, found.problem.base_parameters)

    def _run_monte_carlo(
        self, found: Identification, clean: list[MotionRecord], real: Robot, session: Session
    ) -> MonteCarlo | None:
        """The experiments with other noise, by the same method."""
        if self.monte_carlo is None:
            return None
        session.report_progress(0.6, "Monte Carlo")
        problem = found.problem
        truth = problem.base_parameters.combine @ real.inertia_parameters.ravel()
        count, seed = self.monte_carlo.samples, self.monte_carlo.seed
        if found.output_error is not None:
            if (length := self.estimate.segment) is not None:
                clean = [piece for record in clean for piece in record.split(length)]
            return repeat_output_error(found.output_error.problem, clean, truth, count, seed)
        return monte_carlo(
            InertiaProblem(problem.robot, thin_records(clean), problem.kinds, problem.prior), truth, count, seed
        )

    def _records(self, setup: _Setup) -> tuple[list[MotionRecord], list[MotionRecord]]:
        """What perfect sensors would read in each simulated experiment, and what was read in all."""
        clean, drawn = [], []
        for k, (table, experiment) in enumerate(zip(self.tables, setup.experiments, strict=True)):
            if table.hold_out:
                continue
            setup.session.report_progress(0.1 + 0.2 * k / len(self.tables), f"experiment {table.name}")
            if table.file is not None:
                drawn.append(table.read(experiment, setup, self))
                continue
            with error_context(self.place(k)):
                clean.append(measure(setup.reference, experiment, setup.sensors))
            drawn.append(clean[-1].add_biases(setup.sensors).add_noise([self.sensors.seed, k]))
        if not drawn:
            raise InputError("every experiment is held out", place="experiment", hint="at least one must be used")
        return clean, drawn

    def _predict_held_out(self, setup: _Setup, inertia: Array, able: bool) -> list[HoldOutError]:
        """Predictions of experiments that were not used: measured, where they have a file, or simulated."""
        found = []
        for table, experiment in zip(self.tables, setup.experiments, strict=True):
            if table.hold_out and table.file is not None:
                found.append(hold_out_record(setup.nominal, inertia, table.read(experiment, setup, self)))
            elif table.hold_out and able:
                found.append(predict_held_out(setup.reference, inertia, experiment, setup.sensors))
        return found

    def _build_reference_robot(self, session: Session, drawing: Robot) -> Robot:
        """The robot that is simulated: another file, or the nominal model with scaled inertias."""
        robot = drawing if self.real is None else session.robot(self.real, "real")
        if robot.joint_names != drawing.joint_names or robot.body_names != drawing.body_names:
            hint = "expected the same names"
            raise InputError("has other bodies or joints than the nominal model", place="real", hint=hint)
        if self.real_scale != 1.0:
            robot = robot.with_inertia_parameters(robot.inertia_parameters * self.real_scale)
        return robot

    def _experiments(self, drawing: Robot, session: Session) -> list[Experiment]:
        if not self.tables:
            raise InputError("there is none", place="experiment", hint="[[experiment]] tables, or [measurements]")
        check_distinct(self.tables, "experiment")
        found = []
        for k, table in enumerate(self.tables):
            with error_context(self.place(k)):
                found.append(table.build(drawing, session.folder))
            if table.file is None and found[-1].duration > MOST_SAMPLES * self.sensors.sample:
                raise InputError(
                    f"{found[-1].duration:g} s every {self.sensors.sample:g} s are too many samples",
                    place=f"{self.place(k)}.duration",
                    hint=f"expected at most {MOST_SAMPLES}",
                )
        return found

    def _compare_models(self, real: Robot, found: Identification) -> ModelComparison:
        assert self.validation is not None
        with error_context("validation"):
            start, torques = self.validation.positions(real), self.validation.options("torque")["torque"]
            return compare_models(real, found.inertia, torques, self.validation.duration, start)


def _cross_check(real: Robot, experiment: Experiment) -> Check:
    """The simulated motion once more with MuJoCo's dynamics."""
    return mujoco_check(cross_check(experiment.run(real, np.linspace(0.0, experiment.duration, 31))), 1e-8)
