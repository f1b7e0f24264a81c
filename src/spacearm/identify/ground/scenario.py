"""Ground identification from a scenario file: measured records of a held arm in, numbers with their uncertainty out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator

from spacearm.errors import InputError, error_context
from spacearm.identify.ground._findings import GroundFindings
from spacearm.identify.ground._transmission import convert_motors, list_couplings
from spacearm.identify.ground.identify import identify_held_arm
from spacearm.identify.ground.simulated import simulate_record
from spacearm.identify.inertia.tables import check_plain_name
from spacearm.measure import Record
from spacearm.measure.formats import read_columns, read_numbers
from spacearm.measure.units import to_si
from spacearm.model import Robot
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3
from spacearm.study import ScenarioTable, Session, StudyFile, key
from spacearm.study.keys import check_distinct
from spacearm.study.tables import ColumnTable, JointNumbers, Numbers, PerJointKeys
from spacearm.typing import Array

Channel = Literal["joint_position", "joint_rate", "joint_acceleration", "torque"]
Friction = Literal["coulomb", "viscous", "stribeck", "cubic", "load"]
#: Unit of each channel of a joint that rotates.
UNITS = {"joint_position": "rad", "joint_rate": "rad/s", "joint_acceleration": "rad/s2", "torque": "N m"}


class GroundChannelTable(ColumnTable):
    """Where a channel stands: a table of one column for each joint, or the names of its columns."""

    column: Name | list[Name] | None = key(  # type: ignore[assignment]
        None,
        "names of the columns, in the order of the joints; one name: a 2-D variable; none: a text file of numbers "
        "alone, joint after joint",
    )
    file: Name | None = key(None, "its own file, where not all channels are in one")

    def read(self, folder: Path, common: str | None, count: int, place: str) -> Array:
        """Readings (T, count) in SI units."""
        name = self.file or common
        if name is None:
            raise InputError("is not given", place=f"{place}.file", hint="a file of this channel, or one of the record")
        path = folder / name
        with error_context(place, file=path):
            if self.column is None:
                flat, names, stated = read_numbers(path), [""] * count, dict[str, str]()
                # A number that is lost would move all that follow it to other joints, without any sign of it later.
                if flat.size % count:
                    raise InputError(f"has {flat.size} numbers", hint=f"expected {count} for each sample")
                table = flat.reshape(-1, count)
            else:
                names = list(self.column) if isinstance(self.column, list) else [self.column]
                if len(names) == 1 and count > 1:
                    names = [f"{names[0]}[{k}]" for k in range(count)]
                if len(names) != count:
                    raise InputError(f"has {len(names)} columns", hint=f"expected {count}")
                columns, stated = read_columns(path, names)
                if len({column.size for column in columns.values()}) > 1:
                    raise InputError("has columns of different lengths", hint="expected equal lengths")
                table = np.stack([columns[one] for one in names], axis=1)
            # A unit in the scenario takes precedence: its author may know that the one in the file is wrong.
            units = np.array([to_si(self.unit or stated.get(one, ""))[0] for one in names])
            table = table * (units * self.scale_factors(count)) + self.offset
            if not np.isfinite(table).all():
                row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
                raise InputError(f"sample {row} is not a finite number", hint="expected a number in every cell")
            if self.unwrap:
                # After the conversion: steps are recognised by 2 pi.
                table = np.unwrap(table, axis=0)
        return np.asarray(table)


class RecordTable(ScenarioTable):
    """A motion of the arm: measured, or, without columns, made up with the robot's own numbers to try things out."""

    either: ClassVar = (("file", "duration"), ("time", "step"))

    name: Name
    file: Name | None = key(None, "of all channels that have none of their own; relative to `data`")
    time: GroundChannelTable | None = key(None, "column of the time, s")
    step: Duration | None = key(None, "s, where the file has no time; of a made-up record 0.005")
    columns: dict[Channel, GroundChannelTable] = key(
        {}, "channel = its columns; `joint_position` and `torque` are needed"
    )
    start: Number | None = key(None, "s after the first sample: what comes before is left out")
    end: Number | None = key(None, "s after the first sample: what comes after is left out")
    hold_out: bool = key(False, "not used to identify: its torques are predicted")
    duration: Duration | None = key(None, "s, of a made-up record")
    amplitude: Number = key(1.0, "of its motion, rad or m")
    noise: Number = key(0.1, "standard deviation of its torque readings, N m or N")
    seed: Seed = key(0, "of its noise and motion")

    def read(self, robot: Robot, folder: Path, gravity: Array) -> Record:
        """The record."""
        if self.duration is not None:
            return simulate_record(
                robot, self.name, self.duration, gravity=gravity, step=self.step or 0.005, amplitude=self.amplitude,
                noise=self.noise, seed=self.seed,
            )  # fmt: skip
        for needed in ("joint_position", "torque"):
            if needed not in self.columns:
                hint = "a measured record needs joint_position and torque; a made-up one a duration"
                raise InputError(f"{needed!r} is missing", place="columns", hint=hint)
        values = {
            str(name): table.read(folder, self.file, robot.n, f"columns.{name}") for name, table in self.columns.items()
        }
        if self.time is not None:
            times = self.time.read(folder, self.file, 1, "time")[:, 0]
            # Clocks of laboratories count from midnight or 1970: large numbers would cost digits of the time's
            # differences.
            times = times - (times[0] if times.size else 0.0)
        elif self.step is not None:
            times = np.arange(len(values["torque"]), dtype=np.float64) * self.step
        else:
            raise InputError("is missing", place="time", hint="expected a column, or 'step' in s")
        record = Record.from_columns(self.name, times, values, units=UNITS, source=str(folder / (self.file or "")))
        if self.start is not None or self.end is not None:
            first, last = self.start or 0.0, times[-1] if self.end is None else self.end
            record = record.cut(first, last)
        return record


class GroundTransmissionTable(PerJointKeys):
    """The files have motors instead of joints: gears, motors that several joints turn, currents."""

    ratios: Numbers | list[Numbers] | None = key(
        None, "one for each joint, or a matrix: motor angles = ratios x joint angles (a row for each motor); 1 where "
        "the file has the joints' own angles",
    )  # fmt: skip
    zero: JointNumbers | None = key(None, "joint positions where the motors read zero, rad or m")
    zero_deg: JointNumbers | None = key(None, "the same in degrees")
    torque: Number | Numbers = key(1.0, "torque of a motor for each unit of the channel torque (N m/A of a current)")

    def matrix(self, robot: Robot) -> Numbers | list[Numbers]:
        """The ratios, or one for each joint."""
        return [1.0] * robot.n if self.ratios is None else self.ratios

    def convert(self, robot: Robot, record: Record) -> Record:
        """The record of the joints."""
        return convert_motors(
            robot, record, self.matrix(robot), self.joint_array(robot, "zero", np.zeros(robot.n)), self.torque
        )


class GroundEstimateTable(ScenarioTable):
    """What is estimated."""

    friction: list[Friction] | dict[str, list[Friction]] = key(
        ["coulomb", "viscous"], "terms of all joints, or by joint"
    )
    position: list[Literal["spring", "sine", "cosine"]] = key([], "torques by a joint's angle alone: cables, sensors")
    rotors: bool = key(True, "rotor inertias, where they can be distinguished; else those of the robot are used")
    offset: bool = key(True, "an offset of each torque sensor")
    gain: Number = key(0.0, "standard deviation of each torque sensor's factor about one; 0: exact")
    link_side: bool = key(False, "torque sensors behind the gears: friction terms may have either sign")
    known_bodies: list[Name] = key([], "whose inertias are known")
    window: Duration = key(0.05, "s, over which torques and equations are averaged")
    allowance: Number | None = key(
        None, "share of each joint's rms torque that the model may leave; else white noise only"
    )
    write: Annotated[Name, AfterValidator(check_plain_name)] | None = key(None, "robot file with what was found")


class GroundFile(StudyFile):
    """Inertias and friction of an arm on a held base, from joint torques."""

    needs_mujoco: ClassVar[bool] = False

    data: Name = key(".", "folder of the measured files, relative to the scenario")
    gravity: Vector3 = key([0.0, 0.0, -9.81], "base axes, m/s2")
    record: list[RecordTable] = key(what="motions of the arm")
    transmission: GroundTransmissionTable | None = key(None, "where the files have motors instead of joints")
    estimate: GroundEstimateTable = key(GroundEstimateTable(), "what is estimated")

    def solve(self, session: Session) -> GroundFindings:
        robot, folder = self.load_robot(session), session.folder / self.data
        check_distinct(self.record, "record")
        if all(table.hold_out for table in self.record):
            raise InputError("every record is held out", place="record", hint="at least one must be used")
        used: list[Record] = []
        held: list[Record] = []
        for k, table in enumerate(self.record):
            session.report_progress(0.3 * k / len(self.record), f"record {table.name}")
            with error_context(f"record[{k}]"):
                record = table.read(robot, folder, np.array(self.gravity))
                if self.transmission is not None:
                    with error_context("transmission"):
                        # Before the fit and not in it: all that follows is written in joints.
                        record = self.transmission.convert(robot, record)
            (held if table.hold_out else used).append(record)
        options: dict[str, Any] = {name: getattr(self.estimate, name) for name in
                                   ("friction", "position", "rotors", "offset", "gain", "link_side", "known_bodies",
                                    "window", "allowance")}  # fmt: skip
        if self.transmission is not None:
            options["couplings"] = list_couplings(robot, self.transmission.matrix(robot))
        session.report_progress(0.3, "least squares")
        with error_context("estimate"):
            found = identify_held_arm(robot, used, hold_out=held, gravity=self.gravity, **options)
        return GroundFindings(file=self, found=found)
