"""A scenario with its record: readings at the times of the run, its measured start, runs with other numbers.

Start and catch may be measured: the start is the value and the slope of a regression through the first readings of each
base and joint, the catch is the instant at which the hand comes to rest in the guest. Both are uncertain numbers then.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.errors import InputError, error_context
from spacearm.measure import Column, Record, read_record
from spacearm.measure.attitude import yaw_of_quaternions
from spacearm.measure.record import smooth_readings
from spacearm.measure.units import ask_about_clock
from spacearm.model import Robot
from spacearm.model.document import validate_tables
from spacearm.model.toml_read import robot_from_tables
from spacearm.model.toml_schema import RobotFile
from spacearm.model.toml_write import toml_text
from spacearm.simulate import (
    Attach,
    Load,
    Lock,
    Phase,
    Run,
    RunContext,
    SetRates,
    Signal,
    State,
    World,
    simulate,
    spline,
    steps,
    table,
    thruster_load,
)
from spacearm.simulate.run.certificate import CertificateWarning
from spacearm.simulate.run.chain import Item
from spacearm.simulate.world import SEPARATOR
from spacearm.study import Session
from spacearm.study.document_keys import ROBOT, fill_key, find_root, get_key, parse_robot, put_key
from spacearm.study.keys import check_distinct
from spacearm.study.surroundings import PinTable
from spacearm.study.tables import ClockTable
from spacearm.typing import Array
from spacearm.validation._markers import solve_joints
from spacearm.validation._measured_motion import MeasuredMotion, estimate_catch
from spacearm.validation._measured_start import contact_free_window, measure_starts
from spacearm.validation._quantities import ATTITUDE, YAW, quantity_unit, read_quantity
from spacearm.validation._tables import WRENCH
from spacearm.validation.comparison import Readings, StackedReadings

if TYPE_CHECKING:
    from spacearm.validation.scenario import ValidationFile


def _measured_path(times: Array, values: Array, begin: float = np.inf, end: float = -np.inf) -> Signal:
    """A cubic spline through readings, which goes on for a step beyond the first and the last of them.

    Args:
        begin, end: what it covers at least, s; readings may be missing there.
    """
    from scipy.interpolate import CubicSpline

    # The solver asks for path and rate at both ends of the run: the spline must not end there; outside it is held.
    step = float(np.median(np.diff(times)))
    inner = CubicSpline(times, values)
    first, last = min(times[0], begin) - step, max(times[-1], end) + step
    # Straight on: a cubic leaves the readings far behind where their steps are short at the end.
    before = values[0] + float(inner(times[0], 1)) * (first - times[0])
    after = values[-1] + float(inner(times[-1], 1)) * (last - times[-1])
    return spline(np.array([first, *times, last]), np.array([before, *values, after]), "not-a-knot")


#: Readings before a catch that tell the angle at which it happens.
BEFORE_CATCH = 4

#: Keys that say how readings are taken, not how the machine moves: another number there would change the data.
_OF_READINGS = re.compile(
    r"(channel|marker)\[.*\]\.(?!delay$|bias$)|input\[.*\]\.(?!delay$|scale$|offset$)|time\b|begin$|fit$|fit_parts|clock_sd$|"
    r"sample$|tolerance$|measured_start$|seed$|method\b"
)


def _refuse_reading_key(name: str) -> None:
    if _OF_READINGS.match(name):
        raise InputError(
            "is no number of the machine: no prediction depends on it",
            hint="of readings, `input[k].scale`, `.offset`, `.delay`, `channel[k].bias` and `.delay` may be uncertain",
        )


def _robot_defaults(tables: dict[str, Any]) -> dict[str, Any]:
    """Tables of a robot with the numbers that a file leaves out: no damping, friction or spring is one of zero."""
    whole = validate_tables(RobotFile, tables).model_dump()
    for joint in whole["joint"]:
        joint["friction"] = joint["friction"] or {"coulomb": 0.0}
        joint["spring"] = joint["spring"] or {"stiffness": 0.0}
    return whole


def cut_phase(phase: Phase, at: float) -> tuple[Phase, Phase]:
    """A phase in two, the second from ``at`` (s) on, with the same course of everything that acts."""
    if phase.laws:
        raise InputError(
            "has control laws during the catch", place=phase.place, hint="expected measured inputs in their place"
        )

    def later(given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: signal.shift(-at) for name, signal in given.items()}

    rest = replace(
        phase, duration=phase.duration - at, driven=later(phase.driven), forces=later(phase.forces),
        accelerations=later(phase.accelerations),
        loads=[replace(each, wrench=tuple(part.shift(-at) for part in each.wrench)) for each in phase.loads],
    )  # fmt: skip
    return replace(phase, duration=at), rest


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A scenario with its record: readings at the times of the run, and runs with other numbers."""

    file: ValidationFile
    session: Session

    @cached_property
    def robot(self) -> Robot:
        return self.session.robot(self.file.robot, any_base=True, loops=True)

    @cached_property
    def duration(self) -> float:
        return float(sum(phase.duration for phase in self.file.phase))

    @cached_property
    def _start(self) -> tuple[World, dict[str, State]]:
        robot, start, *_ = self.file.prepare_run(self.session)
        return self.file.world(self.session, robot, start)

    @property
    def world(self) -> World:
        return self._start[0]

    @property
    def start_states(self) -> dict[str, State]:
        """States of all systems at the start, as the file has them."""
        return self._start[1]

    @cached_property
    def record(self) -> Record:
        """The columns of all channels and inputs, by the number of their tables."""
        file = self.file
        check_distinct(file.channel, "channel", "quantity")
        check_distinct(file.input, "input", "to")
        columns: dict[str, Column | str] = {}
        others: list[Record] = []
        turned: list[str] = []  # yaws that were measured as quaternions
        for k, channel in enumerate(file.channel):
            with error_context(f"channel[{k}]"):
                unit = quantity_unit(self.world, channel.quantity)
                yaw = channel.quantity.endswith(YAW)
                if yaw and not isinstance(channel.column, str) and len(channel.column) == len(ATTITUDE):
                    turned.append(channel.quantity)
                    column = replace(channel.make(), expects="")
                else:
                    # A quantity is one number: several columns would have no prediction.
                    channel.single_column("column")
                    # A yaw counts on: no reading of it is half a revolution from the one before.
                    column = replace(channel.make(), expects=unit, unwrap=channel.unwrap or yaw)
                if channel.file:
                    others.append(self._read(channel.file, {channel.quantity: column}, channel.time))
                else:
                    columns[channel.quantity] = column
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
                if kind == "driven":
                    self.robot.joint_index(name)
                if given.hold and kind == "driven":
                    raise InputError("a path cannot jump", place="hold", hint="leave it out")
                if not given.file:
                    columns[f"input {given.to}"] = given.make()
        check_distinct(file.marker, "marker", "frame")
        for k, marker in enumerate(file.marker):
            with error_context(f"marker[{k}]"):
                columns[f"marker {marker.frame}"] = marker.make()
        if not file.file:
            raise InputError("is missing", place="file", hint="expected the measured file, here or in each record")
        found = reduce(Record.merge, others, self._read(file.file, columns))
        for name in turned:
            own = found.channel(name)
            angles = yaw_of_quaternions(own.values, found.source, f"channel {name!r}")
            found = replace(found, channels={**found.channels, name: replace(own, values=angles, unit="rad")})
        return found

    def _read(self, name: str, columns: dict[str, Column | str], clock: ClockTable | None = None) -> Record:
        """Columns of a measured file, by the clock of the scenario unless it has one of its own."""
        path, time = self.session.folder / self.file.data / name, (clock or self.file.time).clock()
        return read_record(path, columns, time=time, missing="keep", gaps="keep", repeats=self.file.repeats)

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
                if not np.isfinite(own.values).any():
                    raise InputError(
                        f"there is no reading of {table_.quantity!r} in the file", place=f"channel[{k}]",
                        hint="every row is empty or marks a reading that was dropped",
                    )  # fmt: skip
                low, high = float(own.times.min()), float(own.times.max())
                raise InputError(
                    f"there is no reading of {table_.quantity!r} during the run", place=f"channel[{k}]",
                    hint=f"the file has {low:.10g} s to {high:.10g} s, the run {self.file.begin:.10g} s to "
                    f"{self.file.begin + self.duration:.10g} s{ask_about_clock(low, high, self.duration)}",
                )  # fmt: skip
            sigma = np.full(np.count_nonzero(rows), table_.sd)
            if self.file.clock_sd and sigma.size > 2:
                # A reading at the wrong time is off by what the quantity moves until then.
                sigma = np.hypot(sigma, self.file.clock_sd * np.gradient(own.values[rows], times[rows]))
            found[table_.quantity] = Readings(own.unit, times[rows], own.values[rows], sigma)
        return found

    def _sample_times(self, file: ValidationFile) -> Array:
        """Times that readings show, s since the start of the run: late readings show earlier times."""
        delays = {channel.quantity: channel.delay for channel in file.channel}
        shown = [np.clip(own.times - delays[name], 0.0, self.duration) for name, own in self.readings.items()]
        return np.unique(np.concatenate(shown))

    @cached_property
    def _columns(self) -> dict[tuple[str, str], tuple[Array, Array]]:
        """Readings of inputs by kind and name: times of the run and values."""
        found = {}
        for k, given in enumerate(self.file.input):
            label = f"input {given.to}"
            source = self._read(given.file, {label: given.make()}, given.time) if given.file else self.record
            own = source.channel(label)
            times, there = own.times - self.file.begin, np.isfinite(own.values)
            inside = there & (times >= 0.0) & (times <= self.duration)
            if np.count_nonzero(inside) < 4:
                low, high = (own.times[there].min(), own.times[there].max()) if there.any() else source.span
                raise InputError(
                    f"column {given.column!r} has fewer than four readings during the run", place=f"input[{k}]",
                    hint=f"its clock has {low:.10g} s to {high:.10g} s, the run {self.file.begin:.10g} s to "
                    f"{self.file.begin + self.duration:.10g} s: offset in its 'time' shifts that clock",
                )  # fmt: skip
            if given.target[0] == "driven":
                with error_context(f"input[{k}]"):
                    self._check_path(given.column, times[there])
            # All readings, also outside the run: the ends of a spline are then not at the ends of the run.
            values = smooth_readings(own.times, own.values) if given.smooth else own.values
            found[given.target] = times[there], values[there]
        return found

    def _check_path(self, column: object, times: Array) -> None:
        """A joint whose path begins after the run, or ends before it, would stop at once."""
        few = 3.0 * float(np.median(np.diff(times)))
        if times[0] > few or times[-1] < self.duration - few:
            raise InputError(
                f"column {column!r} is a joint's path from {times[0]:.10g} s to {times[-1]:.10g} s, the run lasts from "
                f"0 s to {self.duration:.10g} s",
                hint="a later `begin` or a shorter phase; offset in its 'time' shifts its clock",
            )

    @cached_property
    def inputs(self) -> dict[tuple[str, str], Signal]:
        """Measured inputs by kind and name, as signals of the run's time, without scale, offset and delay."""
        # A path is differentiated twice and must be smooth; a force may jump.
        forms = {given.target: steps if given.hold else table for given in self.file.input}
        return {
            (kind, name): (_measured_path if kind == "driven" else forms[kind, name])(*columns)
            for (kind, name), columns in self._columns.items()
        }

    @cached_property
    def marker_angles(self) -> tuple[Array, Array, float]:
        """Times and joint angles that the markers show, and the rms distance that is left, m."""
        markers = {entry.frame: self.record.channel(f"marker {entry.frame}") for entry in self.file.marker}
        if not markers:
            raise InputError("there is no marker", place="joints_from_markers", hint="expected tables [[marker]]")
        motion = MeasuredMotion(*self._start, self.readings, {})
        places = {
            entry.frame: smooth_readings(markers[entry.frame].times, markers[entry.frame].values)
            if entry.smooth else markers[entry.frame].values
            for entry in self.file.marker
        }  # fmt: skip
        times = next(iter(markers.values())).times - self.file.begin
        return solve_joints(motion, self.file.joints_from_markers, times, places)

    def inputs_of(self, file: ValidationFile) -> dict[tuple[str, str], Signal]:
        """Measured inputs with the scales, offsets and delays of a file."""
        found = {}
        for given in file.input:
            signal = self.inputs[given.target]
            signal = signal if given.scale == 1.0 else signal * given.scale
            found[given.target] = (signal if given.offset == 0.0 else signal + given.offset).shift(given.delay)
        return found | self._marked_paths

    @cached_property
    def _marked_paths(self) -> dict[tuple[str, str], Signal]:
        if not self.file.joints_from_markers:
            return {}
        times, angles, _ = self.marker_angles
        names = self.file.joints_from_markers
        return {
            ("driven", name): _measured_path(times, angles[:, k], 0.0, self.duration) for k, name in enumerate(names)
        }

    @cached_property
    def motion(self) -> MeasuredMotion:
        """The measured motion itself."""
        paths = {name: signal for (kind, name), signal in self.inputs_of(self.file).items() if kind == "driven"}
        return MeasuredMotion(*self._start, self.readings, paths)

    # -- what is measured of the start and of the catch ----------------------------------------------------------------

    def with_measured_parts(self) -> MeasuredRun:
        """The same with start and catch from the record, where the file asks for that."""
        tables = self.file.model_dump(exclude_unset=True)
        extra: list[dict[str, Any]] = []
        if self.file.measured_start is not None:
            extra += measure_starts(self.world, self.motion, tables, self.file.measured_start)
        if self.file.catch is not None and self.file.catch.time is None:
            time, sd = self._measure_catch()
            tables["catch"]["time"] = time
            extra.append({"key": "catch.time", "sd": sd})
        if not extra:
            return self
        stated = {entry.key for entry in self.file.uncertain}
        own = [entry for entry in extra if entry["key"] not in stated]
        tables["uncertain"] = [*tables.get("uncertain", []), *own]
        return MeasuredRun(validate_tables(type(self.file), tables), self.session)

    def until_last_reading(self) -> MeasuredRun:
        """The same with a last phase that ends with the last reading."""
        # A run after the last reading would cost time and show nothing.
        end = max(own.times[-1] for own in self.readings.values())
        tables = self.file.model_dump(exclude_unset=True)
        last = float(end) - (self.duration - self.file.phase[-1].duration)
        if last >= self.file.phase[-1].duration or last <= 0.0:
            return self
        tables["phase"][-1]["duration"] = last
        return MeasuredRun(validate_tables(type(self.file), tables), self.session)

    def _measure_catch(self) -> tuple[float, float]:
        """Time of the file at which the hand came to rest in the guest, and its standard deviation, s."""
        catch = self.file.catch
        assert catch is not None
        with error_context("catch"):
            host, _ = self.world.frame(catch.frame)
            for system in (host, catch.guest):
                self.world.robot(system)
                if not self.motion.is_measured(system):
                    raise InputError(
                        f"place and yaw of {system!r} were not measured, which would show when it was caught",
                        place="time", hint="give the time",
                    )  # fmt: skip
            after = (self.file.begin if catch.after is None else catch.after) - self.file.begin
            clock = self.motion.reading(catch.guest, YAW)
            assert clock is not None
            found = estimate_catch(
                lambda times: self.motion.relative_position(catch.frame, catch.guest, times), clock.times, after,
                catch.within,
            )  # fmt: skip
        return found.time + self.file.begin, found.sd

    @cached_property
    def start_window(self) -> float:
        """The readings until then (s) gave the start; minus infinity where it is stated."""
        if self.file.measured_start is None:
            return -np.inf
        return contact_free_window(self.world, self.motion, self.file.measured_start)

    @property
    def fit(self) -> float:
        """Readings until then are fitted, s since the start of the run."""
        catch = self.file.catch
        if catch is None or not catch.fit or catch.time is None:
            return self.file.fit
        # Two deviations: readings that are fitted then lie before the catch in 98 of 100 cases.
        # Of a reading at the catch nobody knows on which side of it it was taken.
        return catch.time - 2.0 * self._catch_sd - self.file.begin

    @property
    def fit_parts(self) -> list[float]:
        """Ends of the parts that are fitted before, s since the start of the run."""
        parts = self.file.fit_parts
        if parts != sorted({*parts}) or any(not 0.0 < end < self.fit for end in parts):
            hint = f"expected ascending times within the fit of {self.fit:g} s"
            raise InputError(f"is {parts}", place="fit_parts", hint=hint)
        return parts

    # -- runs ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> dict[str, Any]:
        tables = {"scenario": self.file.model_dump(exclude_unset=True)}
        names = [entry.key for entry in self.file.uncertain]
        names += [entry.key for entry in self.file.tune.number] if self.file.tune is not None else []
        defaults = {"scenario": self.file.model_dump()}
        defaults["scenario"]["gravity"] = self.file.gravity or [0.0, 0.0, 0.0]
        if any(name.startswith(ROBOT) for name in names):
            # The robot with all that is mounted on it, in place of its file.
            # Uncertain numbers are changed in the tables, so that every check of a file applies to the changed one too.
            tables["robot"] = parse_robot(toml_text(self.robot))
            for joint in tables["robot"].get("joint", ()):
                # Sticking that is no stronger than sliding goes with it.
                friction = joint.get("friction", {})
                if friction.get("static") == friction.get("coulomb"):
                    friction.pop("static", None)
            tables["scenario"]["robot"] = self.file.robot.file
            defaults["robot"] = _robot_defaults(tables["robot"])
        for name in names:
            with error_context(name):
                _refuse_reading_key(name)
                # A key that the file leaves out has its default.
                root, own = find_root(tables, name)
                fill_key(root, find_root(defaults, name)[0], own)
        return tables

    def uncertain_value(self, name: str) -> float:
        """An uncertain number as the files have it."""
        value = get_key(*find_root(self._tables, name))
        if not isinstance(value, int | float) or isinstance(value, bool):
            found = "is not in the file" if value is None else f"is {value!r}"
            raise InputError(found, place=name, hint="expected a number there; write it even where it is zero")
        return float(value)

    def changed_tables(self, deviations: Sequence[float] | Array) -> dict[str, Any]:
        """Tables of scenario and robot with uncertain numbers so many standard deviations from what is stated."""
        whole = deepcopy(self._tables)  # shared by all runs
        for k, (entry, deviation) in enumerate(zip(self.file.uncertain, deviations, strict=True)):
            with error_context(f"uncertain[{k}]"):
                put_key(*find_root(whole, entry.key), self.uncertain_value(entry.key) + entry.sd * float(deviation))
        return whole

    def replaced_tables(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Tables of scenario and robot with these values of some keys."""
        whole = deepcopy(self._tables)
        for name, value in values.items():
            with error_context(name):
                self.uncertain_value(name)
                put_key(*find_root(whole, name), float(value))
        return whole

    def run(self, deviations: Array) -> Run:
        """The run with uncertain numbers so many standard deviations from what is stated."""
        return self.run_tables(self.changed_tables(deviations))[1]

    def run_tables(self, whole: dict[str, Any]) -> tuple[ValidationFile, Run]:
        """The run of these tables, and their file."""
        session = self.session
        file = validate_tables(type(self.file), whole["scenario"])
        if "robot" in whole:
            # A changed robot replaces the file of that name in this run only.
            session = replace(session, robots={**session.robots, file.robot.file: robot_from_tables(whole["robot"])})
        robot, start, phases, method, _ = file.prepare_run(session)
        world, states = file.world(session, robot, start)
        inputs = self.inputs_of(file)
        # A joint that starts beside its measured path would need an impulse.
        states[robot.name] = self._start_on_paths(robot, states[robot.name], inputs)
        source = phases if file.latch is None else file.latch.chain(world, phases)
        chain = self._with_catch(file, phases, inputs) if file.catch is not None else source

        def items(context: RunContext) -> Iterator[Item]:
            for item in chain(context) if callable(chain) else chain:  # type: ignore[union-attr]
                # Signals count from the start of a phase, which may have ended early (a latch): shifted when it begins.
                yield self._with_inputs(file, robot, item, context, inputs) if isinstance(item, Phase) else item

        run = simulate(
            world, states, items, duration=self.duration, method=method, sample=self._sample_times(file),
            tolerance=file.tolerance, max_steps=file.method.max_steps,
        )  # fmt: skip
        return file, run

    def read(self, file: ValidationFile, run: Run) -> dict[str, Array]:
        """Each quantity of a run as its sensor shows it at the times of its readings."""
        found = {}
        for channel in file.channel:
            times = self.readings[channel.quantity].times - channel.delay
            shown = read_quantity(run, channel.quantity, np.clip(times, 0.0, self.duration)) + channel.bias
            if channel.quantity.endswith(YAW):
                # A record may count revolutions from elsewhere.
                away = self.readings[channel.quantity].values[0] - shown[0]
                shown = shown + 2.0 * np.pi * np.round(away / (2.0 * np.pi)) if np.isfinite(away) else shown
            found[channel.quantity] = shown
        # The sign of a quaternion says nothing: that of the readings.
        for prefix in {name.removesuffix(ATTITUDE[0]) for name in found if name.endswith(ATTITUDE[0])}:
            names = [prefix + name for name in ATTITUDE]
            signs = np.sign(sum(found[name] * self.readings[name].values for name in names))
            found |= {name: found[name] * np.where(signs == 0.0, 1.0, signs) for name in names}
        return found

    @cached_property
    def stacked_readings(self) -> StackedReadings:
        """Model and readings, for linearisations and comparisons."""
        if self.file.measured_start is not None and self.fit < self.file.measured_start:
            raise InputError(
                f"is {self.fit:g} s, shorter than the measured start of {self.file.measured_start:g} s", place="fit",
                hint="a measured start has to be fitted",
            )  # fmt: skip
        return StackedReadings(self.predict, self.readings, len(self.file.uncertain), self._impacts)

    @property
    def _impacts(self) -> list[tuple[float, float]]:
        """Two deviations about the catch and about the lock that follows it, s of the run."""
        catch = self.file.catch
        if catch is None or catch.time is None:
            return []
        after = (0.0,) if catch.lock_after is None else (0.0, catch.lock_after)
        found = [catch.time - self.file.begin + time for time in after]
        return [(time - 2.0 * self._catch_sd, time + 2.0 * self._catch_sd) for time in found]

    @property
    def _catch_sd(self) -> float:
        return next((entry.sd for entry in self.file.uncertain if entry.key == "catch.time"), 0.0)

    def run_inputs(self) -> object:
        """All that its runs depend on, for checkpoints: tables, robots, readings and measured inputs."""
        if any(phase.law for phase in self.file.phase):
            return object()  # a function of a file, of which nobody knows what it depends on
        robots = {name: toml_text(self.world.robot(name)) for name in self.world.systems}
        readings = {name: (own.times, own.values) for name, own in self.readings.items()}
        columns = {f"{kind}.{name}": own for (kind, name), own in self._columns.items()}
        return self.file.model_dump(), robots, readings, columns

    def predict(self, deviations: Array) -> Mapping[str, Array]:
        """Each quantity at the times of its readings."""
        # A step of the fit may go where no run is good; the run with the fitted numbers is judged in the end.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CertificateWarning)
            return self.read(*self.run_tables(self.changed_tables(deviations)))

    def _with_catch(
        self, file: ValidationFile, phases: Sequence[Phase], inputs: Mapping[tuple[str, str], Signal]
    ) -> Any:
        """The phases, with the catch between them."""
        catch = file.catch
        assert catch is not None
        assert catch.time is not None
        at = catch.time - file.begin
        if not 0.0 < at < self.duration:
            raise InputError(
                f"is at {catch.time:g} s of the file, the run from {file.begin:g} s to "
                f"{file.begin + self.duration:g} s", place="catch.time", hint="expected a time during the run",
            )  # fmt: skip
        measured = catch.swing == "measured"
        pin = PinTable() if measured and catch.pin is None else catch.pin
        if pin is not None and pin.lock is not None:
            raise InputError("names a phase", place="catch.pin.lock", hint="expected `lock_after` in `[catch]`, in s")
        if catch.lock_after is not None and (pin is None or measured):
            raise InputError(
                "there is no pin that swings freely", place="catch.lock_after",
                hint="expected `pin`, and `swing = \"free\"`",
            )  # fmt: skip
        path = self._swing_path(catch.frame, catch.guest, at) if measured else None

        lock = None if catch.lock_after is None else at + catch.lock_after

        def follow_path(phase: Phase, begin: float) -> Phase:
            """The phase with the measured swing, from the catch on."""
            if path is None or begin < at - 1e-9:
                return phase
            return replace(phase, driven={**phase.driven, catch.pin_name: path.shift(-begin)})

        def changes(time: float, phase: Phase) -> Iterator[Item]:
            # Whatever follows a path or is locked does so through the impact.
            held = [*(name for kind, name in inputs if kind == "driven"), *phase.driven, *phase.locked]
            held = list(dict.fromkeys(name for name in held if name != catch.pin_name))
            if time != at:
                yield Lock(catch.pin_name, held=held)
                return
            if pin is None:
                yield Attach(catch.guest, catch.frame, held=held)
            else:
                yield Attach(catch.guest, catch.frame, held=held, kind="pin", pin=pin.make())
            if path is not None:
                yield SetRates({catch.pin_name: float(path.derivative()(at))}, held=held)

        def items(context: RunContext) -> Iterator[Item]:
            for phase in phases:
                rest, end = phase, context.time + phase.duration
                for time in (at,) if lock is None else (at, lock):
                    if not context.time <= time < end:
                        continue
                    if time - context.time > 1e-6:
                        before, rest = cut_phase(rest, time - context.time)
                        yield follow_path(before, context.time)
                    yield from changes(time, phase)
                yield follow_path(rest, context.time)

        return items

    def _swing_path(self, frame: str, guest: str, at: float) -> Signal:
        """Measured angle of the pin from the catch on, zero at the catch."""
        if not self.motion.is_measured(guest):
            raise InputError(f"the swing of {guest!r} was not measured", place="catch.swing", hint="expected 'free'")
        clock = self.motion.reading(guest, YAW)
        assert clock is not None
        # A reading just after the catch would make a spline of one very short piece.
        step = float(np.median(np.diff(clock.times)))
        times = clock.times[clock.times > at + 0.3 * step]
        if times.size < 4:
            raise InputError("fewer than four readings follow the catch", place="catch.swing")
        # The rate jumps at the catch and the angle does not: where it then is, the line of the readings before it says.
        before = clock.times[clock.times < at - 0.1 * step][-BEFORE_CATCH:]
        if before.size < BEFORE_CATCH:
            raise InputError(f"fewer than {BEFORE_CATCH} readings precede the catch", place="catch.swing")
        angle = self.motion.swing(frame, guest, np.append(before, times))
        first = float(np.polyval(np.polyfit(before - at, angle[: before.size], 1), 0.0))
        angle = angle[before.size :]
        return _measured_path(np.append(at, times), np.append(first, angle) - first, end=self.duration)

    def _start_on_paths(self, robot: Robot, state: State, inputs: Mapping[tuple[str, str], Signal]) -> State:
        """The start with joints that follow measured paths on them."""
        joints, velocity = state.joints.copy(), state.velocity.copy()
        for (kind, name), signal in inputs.items():
            if kind == "driven":
                index = robot.joint_index(name)
                joints[index], velocity[6 + index] = signal(0.0), signal.derivative()(0.0)
        return State(state.position, state.quaternion, joints, velocity)

    def _with_inputs(
        self,
        file: ValidationFile,
        robot: Robot,
        phase: Phase,
        context: RunContext,
        inputs: Mapping[tuple[str, str], Signal],
    ) -> Phase:
        """The phase, which begins now, with what was measured and with pushes."""
        begin = context.time
        own = {where: signal.shift(-begin) for where, signal in inputs.items()}
        parts = {kind: {name: signal for (each, name), signal in own.items() if each == kind} for kind in
                 ("forces", "driven", "thruster", "load")}  # fmt: skip
        fired = [thruster_load(robot, name, level) for name, level in parts["thruster"].items()]
        for name, signal in parts["load"].items():
            frame, _, entry = name.rpartition(".")
            axis = WRENCH.index(entry)
            fired.append(Load.from_direction(frame, np.eye(3)[axis % 3], signal, moment=axis > 2))
        for load in (push.load(begin) for push in file.push):
            if load is not None:
                system, separator, frame = load.frame.rpartition(SEPARATOR)
                # What was caught is a part of its host, under its own names.
                gone = bool(separator) and system not in context.world.systems
                fired.append(replace(load, frame=frame) if gone else load)
        return replace(
            phase,
            forces={**phase.forces, **parts["forces"]},
            driven={**phase.driven, **parts["driven"]},
            loads=(*phase.loads, *fired),
        )
