"""Inertia identification from a scenario file: simulated or measured experiments in, numbers with their origin out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from spacearm.errors import InputError, error_context
from spacearm.identify._fit import solvable
from spacearm.identify.inertia._findings import InertiaFindings
from spacearm.identify.inertia.design import ExperimentPlan
from spacearm.identify.inertia.experiments import command_phases, run_experiment, start_momentum, start_state
from spacearm.identify.inertia.identifiability import Identifiability, assess_information, identifiability
from spacearm.identify.inertia.identify import Identification, identify, thin_records
from spacearm.identify.inertia.montecarlo import MonteCarlo, monte_carlo, repeat_output_error
from spacearm.identify.inertia.online import TargetState, track_target
from spacearm.identify.inertia.output_error_fit import assess_fit
from spacearm.identify.inertia.prepare_record import SAME, firing_intervals, prepare_record
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.record_files import read_record
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.identify.inertia.tables import (
    EstimateTable,
    ExperimentDesignTable,
    InertiaMonteCarloTable,
    NominalInertiaTable,
    TargetFilterTable,
    TargetLoadTable,
    ValidationTable,
)
from spacearm.identify.inertia.validate import (
    HoldOutError,
    ModelComparison,
    compare_models,
    hold_out_record,
    predict_held_out,
)
from spacearm.measure.files import Column, read_times
from spacearm.measure.sensors import record_run, shared_period
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.toml_schema import Duration, Name, Number, Vector3
from spacearm.result import Check
from spacearm.simulate import Signal, State, spline
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.study import ScenarioTable, Session, StudyFile, key
from spacearm.study.findings import mujoco_check
from spacearm.study.keys import RobotTable, check_distinct
from spacearm.study.sensor_tables import ChannelName, SamplingTable, SensorTable
from spacearm.study.signal_tables import FiringTable, SignalTable, no_degrees_reason
from spacearm.study.tables import ColumnTable, ConfigurationKeys, MeasuredKeys, MotionKeys
from spacearm.typing import Array

#: Of one experiment: more is a slip of the pen, and would fill the memory.
MOST_SAMPLES = 1_000_000


class _Setup(NamedTuple):
    """What all experiments share: the nominal and the simulated robot, sensors; duration (s) and commands of each."""

    session: Session
    nominal: Robot
    reference: Robot
    sensors: Sequence[Sensor]
    experiments: list[tuple[float, dict[str, Signal]]]


class ExciteKeys(ScenarioTable):
    """What excites an experiment: joints that move, thrusters that fire."""

    key_changes: ClassVar = {
        "path": "it is 'excursions' now: excursions.<joint> = { kind = \"spline\", times = [...], values_deg = [...] }"
    }

    excursions: dict[str, SignalTable] = key(
        {}, "joint = clamped spline from where the joint is and back to rest, relative to that position, rad or m"
    )
    thruster: list[FiringTable] = key([], "thrusters that fire, at a level that is a number")

    def paths(self, robot: Robot, start: Array) -> dict[str, Signal]:
        """Joints that move, and their paths from the positions ``start`` (n)."""
        found = {}
        for joint, path in self.excursions.items():
            with error_context(f"excursions.{joint}"):
                path.refuse_degrees(no_degrees_reason(robot, joint))
                values = path.si_value("values")
                if path.kind != "spline" or path.ends != "clamped" or path.times is None or values is None:
                    hint = 'expected { kind = "spline", times = [...], values = [...] }'
                    raise InputError("is not a clamped spline through nodes", hint=hint)
                # Excursions count from where the joint is: one file then fits experiments from several configurations.
                found[joint] = spline(path.times, np.asarray(values) + start[robot.joint_index(joint)])
        return found

    def levels(self, robot: Robot, duration: float) -> dict[str, Signal]:
        """Thrusters that fire in an experiment of this duration (s), and their levels."""
        found: dict[str, Signal] = {}
        for k, item in enumerate(self.thruster):
            with error_context(f"thruster[{k}]"):
                robot.thruster(item.name)
                level = item.throttle(duration)
                if item.on is None:
                    level = level.window(duration)
                elif item.intervals() and item.intervals()[-1][1] > duration + SAME:
                    raise InputError(f"fires until {item.intervals()[-1][1]:g} s, beyond the end at {duration:g} s")
                found[item.name] = found[item.name] + level if item.name in found else level
                # Called for its check alone: levels of one thruster are added up, and together must be between 0 and 1.
                firing_intervals(item.name, found[item.name], duration)
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

    def commands(self, robot: Robot, folder: Path = Path()) -> tuple[float, dict[str, Signal]]:
        """Duration (s), and what is commanded to this robot: paths of joints, levels of thrusters."""
        duration = self._duration(folder)
        return duration, self.paths(robot, self.positions(robot)) | self.levels(robot, duration)

    def start(self, robot: Robot) -> State:
        """State in which a simulation with this robot starts."""
        return start_state(robot, self.positions(robot), self.velocity, self.base_angular_velocity())

    def _duration(self, folder: Path) -> float:
        if self.duration is not None:
            return self.duration
        if self.file is None:
            raise InputError("is missing", place="duration", hint="a simulated experiment needs it, s")
        path, clock = folder / self.file, Column(self.time.single_column("time"), self.time.unit)
        times = read_times(path, clock)
        return float(times[-1] - times[0])

    def read(self, commands: Mapping[str, Signal], setup: _Setup, file: InertiaFile) -> MotionRecord:
        """The record of the measured file."""
        columns = None
        if self.columns is not None:
            columns = {str(n): c.make() for n, c in self.columns.items()}
        path, time = setup.session.folder / str(self.file), Column(self.time.single_column("time"), self.time.unit)
        levels = {name: c.make() for name, c in self.thruster_columns.items()}
        options: dict[str, Any] = {"time": time, "missing": self.missing, "gaps": self.gaps, "name": self.name}
        options |= {"commands": commands, "levels": levels, "estimate_noise": file.sensors.noise != "none"}
        sensors = file.sensors.sensors(file.sensor, simulated=False)
        # The momentum of a measured robot is known only if it was at rest: its inertias are not.
        rest = self.known_momentum and not (np.any(self.velocity) or np.any(self.base_angular_velocity()))
        with error_context(file=path):
            record = read_record(path, setup.nominal, sensors, columns, **options)
            return prepare_record(setup.nominal, record, known_momentum=np.zeros(6) if rest else None)


class MeasurementsTable(ExperimentTable):
    """A single measured experiment: a file and its columns are enough."""

    name: Name = key("measurements", "shown in the results")
    file: Name = key(what="CSV, Parquet, NetCDF, HDF5, MATLAB or NumPy file, relative to the scenario")


class InertiaFile(StudyFile):
    """The inertias of a robot in orbit."""

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
        """The tables of all experiments."""
        return [*self.experiment, *(() if self.measurements is None else (self.measurements,))]

    def place(self, index: int) -> str:
        """Place of an experiment in the file, for messages."""
        return f"experiment[{index}]" if self.measurements is None else "measurements"

    @solvable("inertia identification")
    def solve(self, session: Session) -> InertiaFindings:
        nominal_robot = self.load_robot(session)
        real, sensors = self._build_reference_robot(session, nominal_robot), self.sensors.sensors(self.sensor)
        experiments = self._experiments(nominal_robot, session)
        setup = _Setup(session, nominal_robot, real, sensors, experiments)
        estimate, kinds = self.estimate, tuple(self.estimate.equations)
        prior = estimate.prior_of(nominal_robot, str(self.robot))
        # first of all: limits that cannot be kept must not cost an estimate
        plan = None if self.design is None else self._plan(nominal_robot, sensors, prior, session)
        clean, drawn, broken = self._records(setup)
        session.report_progress(0.4, "identifiability and estimate")
        options: dict[str, Any] = {
            "kinds": kinds, "prior": prior, "estimate": estimate.estimated_nuisances(), "segment": estimate.segment
        }  # fmt: skip
        options["consider"] = self.nominal.deviations(nominal_robot, options["estimate"])
        found = identify(nominal_robot, drawn, method=estimate.method, test=estimate.tested_nuisances(), **options)
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
            broken=broken,
            checked={
                table.name: _cross_check(real, table, *one)
                for one, table in zip(experiments, self.tables, strict=True)
                if session.cross_check and not table.hold_out and table.file is None
            },
            followed=self._track_target(nominal_robot, drawn),
            carried=None if self.load is None else self.load.extract(found, session),
            plan=plan,
        )

    def _plan(
        self, nominal_robot: Robot, sensors: Sequence[Sensor], prior: Prior | None, session: Session
    ) -> ExperimentPlan:
        assert self.design is not None
        with error_context("design"):
            return self.design.plan(
                nominal_robot, sensors, prior, lambda share, what: session.report_progress(0.1 * share, what)
            )

    def _track_target(self, nominal_robot: Robot, drawn: list[MotionRecord]) -> dict[str, list[TargetState]]:
        """States of the target's filter over each record."""
        if self.target is None:
            return {}
        options = self.target.options("relative")
        with error_context("target"):
            return {
                record.name: track_target(nominal_robot, self.target.body, record, self.target.every, **options)
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
                # In the same segments as the fit: each has its own state at first.
                clean = [piece for record in clean for piece in record.split(length)]
            return repeat_output_error(found.output_error.problem, clean, truth, count, seed)
        return monte_carlo(
            InertiaProblem(problem.robot, thin_records(clean), problem.kinds, problem.prior), truth, count, seed
        )

    def _records(self, setup: _Setup) -> tuple[list[MotionRecord], list[MotionRecord], int]:
        """What perfect sensors would read in each simulated experiment, what was read in all, and how many simulations
        broke a law."""
        clean: list[MotionRecord] = []
        drawn: list[MotionRecord] = []
        broken, perfect = 0, [replace(sensor, bias=0.0) for sensor in setup.sensors]
        for k, (table, (duration, commands)) in enumerate(zip(self.tables, setup.experiments, strict=True)):
            if table.hold_out:
                continue
            setup.session.report_progress(0.1 + 0.2 * k / len(self.tables), f"experiment {table.name}")
            if table.file is not None:
                drawn.append(table.read(commands, setup, self))
                continue
            robot = setup.reference
            with error_context(self.place(k)), error_context(f"experiment {table.name!r}"):
                start, phases = table.start(robot), command_phases(robot, commands, duration)
                run = run_experiment(robot, start, phases, shared_period(setup.sensors))
                broken += not run.sound
                momentum = start_momentum(robot, start) if table.known_momentum else None
                # Readings without bias and noise are the truth of the Monte Carlo study, which adds its own noise to
                # them.
                exact, biased = (
                    prepare_record(setup.nominal, record_run(run, each, name=table.name), known_momentum=momentum)
                    for each in (perfect, setup.sensors)
                )
            clean.append(exact)
            # Each experiment its own stream: another one more or less does not change the noise of the others.
            drawn.append(biased.add_noise([self.sensors.seed, k]))
        if not drawn:
            raise InputError("every experiment is held out", place="experiment", hint="at least one must be used")
        return clean, drawn, broken

    def _predict_held_out(self, setup: _Setup, inertia: Array, able: bool) -> list[HoldOutError]:
        """Predictions of experiments that were not used: measured, where they have a file, or simulated."""
        found, robot = [], setup.reference
        for table, (duration, commands) in zip(self.tables, setup.experiments, strict=True):
            if table.hold_out and table.file is not None:
                found.append(hold_out_record(setup.nominal, inertia, table.read(commands, setup, self)))
            elif table.hold_out and able:
                start, phases = table.start(robot), command_phases(robot, commands, duration)
                period = shared_period(setup.sensors)
                found.append(predict_held_out(robot, inertia, start, phases, period, name=table.name))
        return found

    def _build_reference_robot(self, session: Session, nominal_robot: Robot) -> Robot:
        """The robot that is simulated: another file, or the nominal model with scaled inertias."""
        robot = nominal_robot if self.real is None else session.robot(self.real, "real")
        # Readings and commands are matched by name; the parameters of both are compared one by one.
        if robot.joint_names != nominal_robot.joint_names or robot.body_names != nominal_robot.body_names:
            hint = "expected the same names"
            raise InputError("has other bodies or joints than the nominal model", place="real", hint=hint)
        if self.real_scale != 1.0:
            robot = robot.with_inertia_parameters(robot.inertia_parameters * self.real_scale)
        return robot

    def _experiments(self, nominal_robot: Robot, session: Session) -> list[tuple[float, dict[str, Signal]]]:
        if not self.tables:
            raise InputError("there is none", place="experiment", hint="[[experiment]] tables, or [measurements]")
        check_distinct(self.tables, "experiment")
        found = []
        for k, table in enumerate(self.tables):
            with error_context(self.place(k)):
                duration, commands = table.commands(nominal_robot, session.folder)
            if table.file is None and duration > MOST_SAMPLES * self.sensors.sample:
                raise InputError(
                    f"{duration:g} s every {self.sensors.sample:g} s are too many samples",
                    place=f"{self.place(k)}.duration",
                    hint=f"expected at most {MOST_SAMPLES}",
                )
            found.append((duration, commands))
        return found

    def _compare_models(self, real: Robot, found: Identification) -> ModelComparison:
        assert self.validation is not None
        with error_context("validation"):
            start, torques = self.validation.positions(real), self.validation.options("torque")["torque"]
            return compare_models(real, found.inertia, torques, self.validation.duration, start)


def _cross_check(real: Robot, table: ExperimentTable, duration: float, commands: Mapping[str, Signal]) -> Check:
    """The simulated motion once more with MuJoCo's dynamics."""
    # Compared at 30 instants; an error of the dynamics grows with time, so that more would show no more.
    run = run_experiment(real, table.start(real), command_phases(real, commands, duration), duration / 30.0)
    return mujoco_check(cross_check(run), 1e-8)
