"""Validation from a scenario file: the prediction of a measured run, with measured inputs and readings of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from spacearm.errors import InputError, error_context
from spacearm.measure import Column, Record, read_record
from spacearm.model import Robot
from spacearm.model.document import validate_tables
from spacearm.model.toml_read import parse_toml, robot_from_tables
from spacearm.model.toml_schema import Name, Number, positive_number
from spacearm.model.toml_write import toml_text
from spacearm.motion.scenario import MotionFile
from spacearm.simulate import Phase, Run, RunContext, Signal, State, World, simulate, spline, table, thruster_load
from spacearm.simulate.run.chain import Item
from spacearm.study import ScenarioTable, Session, StudyFile, check_distinct, key
from spacearm.study.document_keys import ROBOT, find_root, get_key, put_key
from spacearm.study.scenario import VectorisedStudy
from spacearm.study.tables import ColumnTable
from spacearm.typing import Array
from spacearm.validation.comparison import Readings, compare_prediction
from spacearm.validation.findings import ValidationFindings
from spacearm.validation.quantities import quantity_unit, read_quantity

#: Kinds of measured inputs.
INPUTS = ("forces", "driven", "thruster")
Deviation = Annotated[float, positive_number()]


class ValidationChannelTable(ColumnTable):
    """A measured quantity that is predicted."""

    quantity: Name = key(
        what="`base_x`, `base_y`, `base_z` (world), `base_yaw` (about the world's z), `base_vx` ... `base_wz` (base "
        "axes), a joint, `<joint>.rate`, `<frame>.x` ... (world); of another system `<system>/<quantity>`"
    )
    sd: Deviation = key(what="standard deviation of a reading, SI")


class MeasuredInputTable(ColumnTable):
    """What acted on the robot, as it was measured: straight lines between readings, for a path a spline."""

    to: Name = key(
        what="`forces.<degree of freedom>`, `driven.<joint>`, or `thruster.<name>` (share of its full thrust)"
    )

    @property
    def target(self) -> tuple[str, str]:
        """Kind and name."""
        kind, _, name = self.to.partition(".")
        if kind not in INPUTS or not name:
            expected = ", ".join(f"{each}.<name>" for each in INPUTS)
            raise InputError(f"{self.to!r} is no input", place="to", hint=f"expected {expected}")
        return kind, name


class UncertainTable(ScenarioTable):
    """A number of the scenario or of the robot that is not exactly known."""

    sd: Deviation = key(what="standard deviation, in the number's own unit")
    key: Name = key(
        what="where it stands: `start.velocity[0]`, `gravity[0]`, `drag[0].linear`, `robot.body[hull].mass`"
    )


class ValidationFile(MotionFile):
    """The prediction of a measured run."""

    needs_mujoco: ClassVar[bool] = False

    file: Name = key(what="CSV, Parquet, NetCDF, HDF5, MATLAB or NumPy file, relative to the scenario")
    time: ColumnTable = key(ColumnTable(column="time", unit="s"), "column of the time")
    begin: Number = key(0.0, "time of the file at which the run starts, s")
    fit: Number = key(0.0, "uncertain numbers are fitted to the readings of the first so many seconds; 0: none are")
    channel: list[ValidationChannelTable] = key(what="what was measured, and is predicted", min_length=1)
    input: list[MeasuredInputTable] = key([], "what acted, as it was measured")
    uncertain: list[UncertainTable] = key([], "numbers that are not exactly known", max_length=50)

    def solve(self, session: Session) -> ValidationFindings:
        """Predict and compare."""
        measured = MeasuredRun(self, session)
        progress = session.partial_progress(0.1, 0.9, "runs with other numbers")
        # Runs with changed numbers take nearly all the time: 2 N + 1 of them for each linearisation.
        found = compare_prediction(measured.predict, measured.readings, len(self.uncertain), self.fit, progress)
        names = [entry.key for entry in self.uncertain]
        stated = [float(measured.uncertain_value(name)) for name in names]
        return ValidationFindings(
            run=measured.run(found.deviations),
            comparison=found,
            record=measured.record,
            fit=self.fit,
            names=names,
            stated=np.array(stated),
            deviations=np.array([entry.sd for entry in self.uncertain]),
        )

    def prepare_vectorised(self, session: Session) -> VectorisedStudy:
        """Refused: it is many runs already."""
        return StudyFile.prepare_vectorised(self, session)


def _measured_path(times: Array, values: Array) -> Signal:
    """A cubic spline through readings, which goes on for a step before the first and after the last of them."""
    from scipy.interpolate import CubicSpline

    # The solver asks for path and rate at both ends of the run: the spline must not end there.
    step = float(np.median(np.diff(times)))
    longer = np.array([times[0] - step, *times, times[-1] + step])
    return spline(longer, CubicSpline(times, values)(longer), "not-a-knot")


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A scenario with its record: readings at the times of the run, and runs with other numbers."""

    file: ValidationFile
    session: Session

    @cached_property
    def robot(self) -> Robot:
        return self.session.robot(self.file.robot, any_base=True)

    @cached_property
    def duration(self) -> float:
        return float(sum(phase.duration for phase in self.file.phase))

    @cached_property
    def world(self) -> World:
        robot, start, *_ = self.file.prepare_run(self.session)
        return self.file.world(self.session, robot, start)[0]

    @cached_property
    def record(self) -> Record:
        """The columns of all channels and inputs, by the number of their tables."""
        file = self.file
        check_distinct(file.channel, "channel", "quantity")
        check_distinct(file.input, "input", "to")
        columns: dict[str, Column | str] = {}
        for k, channel in enumerate(file.channel):
            with error_context(f"channel[{k}]"):
                unit = quantity_unit(self.world, channel.quantity)
                # A quantity is one number: several columns would have no prediction.
                channel.single_column("column")
                columns[channel.quantity] = replace(channel.make(), expects=unit)
        for k, given in enumerate(file.input):
            with error_context(f"input[{k}]"):
                kind, name = given.target
                # An input of the file and a measured one would be added, or contradict each other.
                for number, phase in enumerate(file.phase):
                    if name in getattr(phase, kind, ()):
                        raise InputError(
                            f"phase[{number}] has {given.to!r} too", place="to", hint="expected one of them"
                        )
                given.single_column("column")
                columns[f"input {given.to}"] = given.make()
        path = self.session.folder / file.file
        return read_record(path, columns, time=file.time.make(), missing="keep", gaps="keep")

    @cached_property
    def readings(self) -> dict[str, Readings]:
        """Readings of each quantity that fall into the run."""
        found = {}
        for k, table_ in enumerate(self.file.channel):
            own = self.record.channel(table_.quantity)
            times = own.times - self.file.begin
            # Readings before the start and after the end are not predicted.
            rows = (times >= 0.0) & (times <= self.duration) & np.isfinite(own.values)
            if not rows.any():
                low, high = self.record.span
                raise InputError(
                    f"there is no reading of {table_.quantity!r} during the run",
                    place=f"channel[{k}]",
                    hint=f"the file has {low:g} s to {high:g} s, the run {self.file.begin:g} s to "
                    f"{self.file.begin + self.duration:g} s",
                )
            found[table_.quantity] = Readings(own.unit, times[rows], own.values[rows], table_.sd)
        return found

    @cached_property
    def times(self) -> Array:
        """Times of all readings, s since the start of the run."""
        return np.unique(np.concatenate([own.times for own in self.readings.values()]))

    @cached_property
    def inputs(self) -> dict[tuple[str, str], Signal]:
        """Measured inputs by kind and name, as signals of the run's time."""
        found = {}
        for k, given in enumerate(self.file.input):
            own = self.record.channel(f"input {given.to}")
            times, there = own.times - self.file.begin, np.isfinite(own.values)
            with error_context(f"input[{k}]"):
                inside = there & (times >= 0.0) & (times <= self.duration)
                if np.count_nonzero(inside) < 4:
                    raise InputError("has fewer than four readings during the run", hint="another 'begin'")
                kind, name = given.target
                # A path is differentiated twice and must be smooth; a force may jump.
                make = _measured_path if kind == "driven" else table
                # All readings, also outside the run: the ends of a spline are then not at the ends of the run.
                found[kind, name] = make(times[there], own.values[there])
        return found

    @cached_property
    def _tables(self) -> dict[str, Any]:
        tables = {"scenario": self.file.model_dump(exclude_unset=True)}
        if any(entry.key.startswith(ROBOT) for entry in self.file.uncertain):
            # The robot with all that is mounted on it, in place of its file.
            # Uncertain numbers are changed in the tables, so that every check of a file applies to the changed one too.
            tables["robot"] = parse_toml(toml_text(self.robot))
            tables["scenario"]["robot"] = self.file.robot.file
        return tables

    def uncertain_value(self, name: str) -> float:
        """An uncertain number as the files have it."""
        value = get_key(*find_root(self._tables, name))
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InputError(
                f"is {value!r}", place=name, hint="expected a number there; write it even where it is zero"
            )
        return float(value)

    def run(self, deviations: Array) -> Run:
        """The run with uncertain numbers so many standard deviations from what is stated."""
        # The tables are shared by all runs.
        whole, session = deepcopy(self._tables), self.session
        for k, (entry, deviation) in enumerate(zip(self.file.uncertain, deviations, strict=True)):
            with error_context(f"uncertain[{k}]"):
                put_key(*find_root(whole, entry.key), self.uncertain_value(entry.key) + entry.sd * float(deviation))
        file = validate_tables(type(self.file), whole["scenario"])
        if "robot" in whole:
            # A changed robot replaces the file of that name in this run only.
            session = replace(session, robots={**session.robots, file.robot.file: robot_from_tables(whole["robot"])})
        robot, start, phases, method, _ = file.prepare_run(session)
        world, states = file.world(session, robot, start)
        # A joint that starts beside its measured path would need an impulse.
        states[robot.name] = self._start_on_paths(robot, states[robot.name])
        source = phases if file.latch is None else file.latch.chain(world, phases)

        def items(here: RunContext) -> Iterator[Item]:
            for item in source(here) if callable(source) else source:  # type: ignore[union-attr]
                # Signals count from the start of a phase, which may have ended early (a latch): shifted when it begins.
                yield self._with_inputs(robot, item, here.time) if isinstance(item, Phase) else item

        return simulate(
            world, states, items, duration=self.duration, method=method, sample=self.times, tolerance=file.tolerance,
            max_steps=file.method.max_steps,
        )  # fmt: skip

    def predict(self, deviations: Array) -> Mapping[str, Array]:
        """Each quantity at the times of its readings."""
        run = self.run(deviations)
        return {name: read_quantity(run, name, own.times) for name, own in self.readings.items()}

    def _start_on_paths(self, robot: Robot, state: State) -> State:
        """The start with joints that follow measured paths on them."""
        joints, velocity = state.joints.copy(), state.velocity.copy()
        for (kind, name), signal in self.inputs.items():
            if kind == "driven":
                index = robot.joint_index(name)
                joints[index], velocity[6 + index] = signal(0.0), signal.derivative()(0.0)
        return State(state.position, state.quaternion, joints, velocity)

    def _with_inputs(self, robot: Robot, phase: Phase, begin: float) -> Phase:
        """The phase, which begins at this time of the run, with what was measured."""
        own = {where: signal.shift(-begin) for where, signal in self.inputs.items()}
        parts = {kind: {name: signal for (each, name), signal in own.items() if each == kind} for kind in INPUTS}
        fired = [thruster_load(robot, name, level) for name, level in parts["thruster"].items()]
        return replace(
            phase,
            forces={**phase.forces, **parts["forces"]},
            driven={**phase.driven, **parts["driven"]},
            loads=(*phase.loads, *fired),
        )
