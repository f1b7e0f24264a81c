"""Inertia identification from a scenario file: simulated or measured experiments in, numbers with their origin out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator

from spacearm.errors import InputError, at
from spacearm.identify.inertia.consistent import possible as possible_body
from spacearm.identify.inertia.experiment import Experiment, Firing, Nodes, measure
from spacearm.identify.inertia.figures import figures
from spacearm.identify.inertia.identifiability import Identifiability, identifiability
from spacearm.identify.inertia.identify import Identification, identify, thinned
from spacearm.identify.inertia.montecarlo import MonteCarlo, monte_carlo
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.record_files import Channel, read_record
from spacearm.identify.inertia.sensors import TYPICAL_NOISE, Sensors
from spacearm.identify.inertia.standard_parameters import Prior, Source
from spacearm.identify.inertia.validate import Comparison, HoldOut, Torque, compare_models, hold_out, hold_out_record
from spacearm.identify.inertia.writeback import identified_text
from spacearm.identify.measurements import Column
from spacearm.model import Robot
from spacearm.model.files import file_format
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3
from spacearm.result import Check, Checks, Figure
from spacearm.simulate.crosscheck import cross_check
from spacearm.study import (
    Findings,
    Noted,
    RobotFile,
    Session,
    StudyFile,
    Table,
    agreement,
    distinct,
    key,
    makes,
    refused,
    row,
)
from spacearm.study.signal_tables import ThrusterTable
from spacearm.study.tables import ColumnTable, ConfigurationKeys, Count, MeasuredKeys, MotionKeys, Numbers
from spacearm.typing import Array

#: Of one experiment: more is a slip of the pen, and would fill the memory.
MOST_SAMPLES = 1_000_000
ChannelName = Literal[
    "position", "attitude", "velocity", "rate", "acceleration", "angular_acceleration",
    "joint_position", "joint_rate", "torque",
]  # fmt: skip


class _Setup(NamedTuple):
    """What all experiments share: the robot as drawn and as simulated, sensors, and the experiments themselves."""

    session: Session
    drawing: Robot
    real: Robot
    sensors: Sensors
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


class SensorTable(Table):
    """What is measured."""

    mount: Vector3 = key([0.0, 0.0, 0.0], "of the position, velocity and acceleration sensors, base frame, m")
    sample: Duration = key(0.1, "interval of the samples, s")
    channels: list[ChannelName] | None = key(None, "position, attitude, velocity, rate, joints where left out")
    noise: dict[ChannelName, Number] | Literal["typical", "none"] = key("typical", "channel = standard deviation, SI")
    bias: dict[ChannelName, Numbers] = key({}, "channel = constant that is added, SI")
    bias_sigma: dict[ChannelName, Number] = key({}, "channel = how large its unknown bias may be")
    seed: Seed = 0

    def make(self) -> Sensors:
        noise = {"typical": dict(TYPICAL_NOISE), "none": {}}[self.noise] if isinstance(self.noise, str) else self.noise
        options = self.options("mount", "channels", "bias", "bias_sigma")
        return Sensors(interval=self.sample, noise={str(name): value for name, value in noise.items()}, **options)


class PathTable(Table):
    """A joint's path from its configuration and back to rest: a spline through nodes, relative to the configuration."""

    joint: Name
    times: Numbers = key(what="from zero on, s")
    positions: Numbers | None = key(None, "rad or m")
    positions_deg: Numbers | None = None

    def make(self) -> Nodes:
        if self.positions is None and self.positions_deg is None:
            raise InputError("give positions or positions_deg")
        return Nodes(np.array(self.times), np.array(self.si("positions")))


class ExperimentTable(ConfigurationKeys, MotionKeys, MeasuredKeys):
    """An experiment: simulated, or measured; joints without a path are locked."""

    name: Name
    duration: Duration = key(what="s")
    path: list[PathTable] = key([], "joints that move")
    thruster: list[ThrusterTable] = key([], "thrusters that fire, at a level that is a number")
    velocity: Vector3 = key([0.0, 0.0, 0.0], "of the base's origin at first, world axes, m/s")
    known_momentum: bool = key(False, "the momentum at first is known")
    columns: dict[ChannelName, ColumnTable] | None = key(None, "channel = its columns in the file")

    def of(self, robot: Robot) -> Experiment:
        """The experiment with this robot."""
        place = f"experiment {self.name!r}"
        distinct(self.path, f"{place}, path", "joint")
        paths = {}
        for path in self.path:
            with at(f"{place}, path of {path.joint!r}"):
                paths[path.joint] = path.make()
        firings = []
        for k, item in enumerate(self.thruster):
            with at(f"thruster[{k}]"):
                level = item.throttle(self.duration)
                spans = [(0.0, self.duration)] if item.on is None else item.intervals()
                firings += [Firing(item.name, begin, end, float(level(0.5 * (begin + end)))) for begin, end in spans]
        return Experiment(
            self.name,
            self.duration,
            self.positions(robot),
            paths,
            firings,
            tuple(self.velocity),
            tuple(self.turning()),
            self.known_momentum,
        )

    def read(self, experiment: Experiment, setup: _Setup) -> Record:
        """The measured file."""
        columns = None
        if self.columns is not None:
            columns = {str(n): Channel(c.columns, c.unit, c.unwrap, c.offset) for n, c in self.columns.items()}
        path, time = setup.session.folder / str(self.file), Column(self.time.only("time"), self.time.unit)
        options: dict[str, Any] = {"time": time, "missing": self.missing, "gaps": self.gaps}
        with at(file=path):
            return read_record(path, setup.drawing, experiment, setup.sensors, columns, **options)


class EstimateTable(Table):
    """How to estimate."""

    method: Literal["linear", "total", "consistent"] = "total"
    equations: tuple[Literal["momentum", "dynamics"], ...] = ("momentum",)
    prior: Number | None = key(None, "how far the drawing is believed, share of each number's typical size")
    known_bodies: list[Name] = key([], "whose inertias are known")
    write: Annotated[Name, AfterValidator(_in_the_folder)] | None = key(None, "robot file with what was found")

    def prior_of(self, drawing: Robot, name: str) -> Prior | None:
        """What is believed before."""
        if self.prior is None and not self.known_bodies:
            return None
        known = Prior.known_bodies(drawing, self.known_bodies, f"{', '.join(self.known_bodies)} known")
        if self.prior is None:
            return known
        whole = Prior.from_robot(drawing, self.prior, f"drawing {name} with {100 * self.prior:g} % deviation")
        return Prior(whole.mean, np.minimum(whole.sigma, known.sigma), whole.source)


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

    real: Name | None = key(None, "robot that is simulated; the drawing where left out")
    real_scale: Number = key(1.0, "factor of its inertias")
    sensors: SensorTable = SensorTable()
    experiment: list[ExperimentTable]
    estimate: EstimateTable = EstimateTable()
    monte_carlo: MonteCarloTable | None = None
    validation: ValidationTable | None = None

    def solve(self, session: Session) -> Weighed:
        drawing = session.robot(self.robot)
        real, sensors = self._real(session, drawing), self.sensors.make()
        experiments = self._experiments(drawing, sensors)
        setup = _Setup(session, drawing, real, sensors, experiments)
        clean, drawn = self._records(setup)
        session.tell(0.4, "identifiability and estimate")
        kinds = tuple(self.estimate.equations)
        prior = self.estimate.prior_of(drawing, self.robot)
        found = identify(drawing, drawn, method=self.estimate.method, kinds=kinds, prior=prior)
        truth = found.problem.base_parameters.combine @ real.inertia_parameters.ravel()
        carlo = None
        if self.monte_carlo is not None:
            session.tell(0.6, "Monte Carlo")
            problem = InertiaProblem(drawing, thinned(clean), kinds)
            carlo = monte_carlo(problem, truth, self.monte_carlo.samples, self.monte_carlo.seed)
        session.tell(0.9, "validation")
        bodies = zip(drawing.bodies, found.inertia.reshape(-1, 10), strict=True)
        able = all(possible_body(numbers) or body.inertia.mass == 0 for body, numbers in bodies)
        return Weighed(
            file=self,
            sensors=sensors,
            possible=identifiability(InertiaProblem(drawing, clean, kinds)),
            found=found,
            truth=truth if all(table.file is None for table in self.experiment if not table.hold_out) else None,
            carlo=carlo,
            prior=prior,
            able=able,
            held=self._held(setup, found.inertia, able),
            compared=self._compared(real, found) if able and self.validation is not None else None,
            broken=sum(not record.sound for record in clean),
            checked={
                one.name: _agreement(real, one)
                for one, table in zip(experiments, self.experiment, strict=True)
                if session.cross_check and not table.hold_out
            },
        )

    def _records(self, setup: _Setup) -> tuple[list[Record], list[Record]]:
        """What perfect sensors would read in each experiment, and what was read."""
        clean, drawn = [], []
        for k, (table, experiment) in enumerate(zip(self.experiment, setup.experiments, strict=True)):
            if table.hold_out:
                continue
            setup.session.tell(0.3 * k / len(self.experiment), f"experiment {table.name}")
            with at(f"experiment[{k}]"):
                clean.append(measure(setup.real, experiment, setup.sensors))
            simulated = clean[-1].biased(setup.sensors).noisy([self.sensors.seed, k])
            drawn.append(simulated if table.file is None else table.read(experiment, setup))
        if not drawn:
            raise InputError("every experiment is held out", place="experiment", hint="at least one must be used")
        return clean, drawn

    def _held(self, setup: _Setup, inertia: Array, able: bool) -> list[HoldOut]:
        """Predictions of experiments that were not used: measured, where they have a file, or simulated."""
        found = []
        for table, experiment in zip(self.experiment, setup.experiments, strict=True):
            if table.hold_out and table.file is not None:
                found.append(hold_out_record(setup.drawing, inertia, table.read(experiment, setup)))
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

    def _experiments(self, drawing: Robot, sensors: Sensors) -> list[Experiment]:
        distinct(self.experiment, "experiment")
        found = []
        for k, table in enumerate(self.experiment):
            with at(f"experiment[{k}]"):
                found.append(table.of(drawing))
            if table.duration > MOST_SAMPLES * sensors.interval:
                raise InputError(
                    f"{table.duration:g} s every {sensors.interval:g} s are too many samples",
                    place=f"experiment[{k}].duration",
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


class Predicted(Findings):
    """An experiment that was not used; root mean squares of the errors."""

    held: HoldOut

    base_rate = row("rad/s", "root mean square", of="held.base_rate")
    base_velocity = row("m/s", "root mean square", of="held.base_velocity")


class Weighed(Findings):
    """What experiments tell about inertias."""

    file: InertiaFile
    sensors: Sensors
    possible: Identifiability
    found: Identification
    truth: Array | None  # base parameters of a robot that was simulated
    carlo: MonteCarlo | None
    prior: Prior | None
    able: bool  # whether the inertias that were found can exist
    held: list[HoldOut]
    compared: Comparison | None
    broken: int  # simulations that are not sound
    checked: dict[str, Check]

    rank = row(of=lambda w: w.ranks())
    null = row(of=lambda w: {"dimension": w.possible.null_dimension})
    combination = row(of=lambda w: w.combinations())
    numbers = row(name="", of=lambda w: w.each_number())
    error = row("standard deviations", of=lambda w: None if w.truth is None else {"largest": w.largest_error()})
    noise = row(of=lambda w: w.carlo and w.noises(w.carlo))
    hold_out = row(of=lambda w: {one.experiment: Predicted(held=one) for one in w.held})
    validation = row(of=lambda w: w.validated())

    def ranks(self) -> dict[str, Any]:
        """How many combinations are determined, after each experiment and in all."""
        total = Noted(self.possible.rank, f"{self.possible.base_parameters.rank} could be determined by any motion")
        after = {stage.experiment: stage.rank for stage in self.possible.stages}
        return {"after": after, "total": total, "condition": self.possible.stages[-1].condition}

    def combinations(self) -> dict[str, Noted]:
        """Base parameters; None where they are not determined."""
        estimate, parameters = self.found.estimate, self.found.problem.base_parameters.parameters
        found = {}
        for name, value, std, unit, own in zip(
            estimate.names, estimate.values, estimate.std, estimate.units, parameters, strict=False
        ):
            known = Noted(float(value), f"standard deviation {std:.3g}; {own.formula}", unit)
            unknown = Noted(None, "not determined by these experiments", unit)
            found[name] = known if np.isfinite(std) else unknown
        return found

    def each_number(self) -> dict[str, Noted]:
        """Every number of every body, with its origin."""
        return {
            f"{one.body}.{one.symbol}": Noted(
                None if one.source is Source.UNDETERMINED else one.value, one.text.split(":")[-1].strip(), one.unit
            )
            for one in self.found.known.numbers
        }

    def largest_error(self) -> float:
        """Of the combinations, in standard deviations."""
        assert self.truth is not None
        return float(np.nanmax(np.abs((self.found.estimate.values - self.truth) / self.found.estimate.std)))

    def noises(self, carlo: MonteCarlo) -> dict[str, Noted]:
        """What the Monte Carlo says of the deviations."""
        return {
            "coverage": Noted(carlo.coverage, f"of 95 % intervals, {len(carlo.values)} repetitions"),
            "chi_square": Noted(float(carlo.chi_square.mean()), "per degree of freedom"),
        }

    def validated(self) -> dict[str, Noted] | None:
        """How far both robots come apart, or why that cannot be told."""
        file = self.file
        if not self.able and (file.validation is not None or any(table.hold_out for table in file.experiment)):
            why = "the identified inertias belong to no possible body and cannot be simulated"
            return {"possible": Noted(False, f"{why}: use method = 'consistent'")}
        note = "against the simulated robot"
        if self.truth is None:
            note = "against the drawing" if file.real is None else f"against {file.real}"
            note += ", not against the measured robot, whose inertias nobody knows"
        largest = {} if self.compared is None else self.compared.largest()
        return {name: Noted(v, note, "m" if name == "base_position" else "rad") for name, v in largest.items()}

    def title(self) -> str:
        return f"Inertia identification of {self.found.known.robot.name}"

    def summary(self) -> str:
        counts, whole = self.found.known.counts(), self.possible.base_parameters
        text = (
            f"The experiments determine {self.possible.rank} combinations of {whole.combine.shape[1]} inertia "
            f"parameters; any motion could determine {whole.rank}. Of the single numbers {counts['data']} come from "
            f"the data, {counts['prior']} from the prior, {counts['undetermined']} stay undetermined."
        )
        if self.possible.missing_words:
            text += " Not seen by these experiments: " + "; ".join(self.possible.missing_words[:3]) + "."
        return text

    def certificate(self) -> Mapping[str, Checks]:
        fit, noisy = self.found.fit, not self.found.problem.assumed_noise
        checks: dict[str, Checks] = {"simulations": Check(float(self.broken), 0.0, "", "runs that broke a law")}
        if fit is not None:
            freedom = max(fit.freedom, 1)
            spread = float(6.0 * np.sqrt(2.0 / freedom) + 0.05)
            off = Check(2.0 * float(fit.cost) / freedom - 1.0, spread, "", "minus 1")
            checks["chi_square"] = off if noisy else Check.not_applicable("no noise stated")
        if self.truth is not None and fit is not None and noisy:
            checks["errors"] = Check(self.largest_error(), 5.0, "", "largest error in standard deviations")
        if self.carlo is not None:
            checks["coverage"] = Check(self.carlo.coverage - 0.94, 0.04, "", "coverage of 95 % intervals minus 0.94")
        return {**checks, "mujoco": self.checked}

    def settings(self) -> Mapping[str, Any]:
        return {
            "experiments": [table.name for table in self.file.experiment if not table.hold_out],
            "method": self.found.estimate.method,
            "equations": list(self.file.estimate.equations),
            "noise": {name: self.sensors.sigma(name) for name in self.sensors.channels},
            "prior": "none" if self.prior is None else self.prior.source,
            "passes": list(self.found.problem.base_parameters.passes),
        }

    def figures(self) -> list[Figure]:
        return figures(self.possible, self.found, self.carlo)

    def robot_file(self) -> RobotFile | None:
        name, found = self.file.estimate.write, self.found
        if name is None:
            return None
        used = [table.name for table in self.file.experiment if not table.hold_out]
        options: dict[str, Any] = {"inertia": found.inertia, "records": used, "method": found.estimate.method}
        why = "" if self.able else "the identified inertias belong to no possible body"
        return RobotFile(name, lambda: identified_text(found.known, name, **options), why)
