"""Free-flight identification from a scenario file: records of thrown or floating bodies in, inertia tensors out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from spacearm.errors import InputError, error_context
from spacearm.identify.free_flight._findings import FreeFlightFindings
from spacearm.identify.free_flight.flights import Flight, cut_flight
from spacearm.identify.free_flight.flown_bodies import DeviceDoubt, FlownBody
from spacearm.identify.free_flight.identify import identify_flights
from spacearm.identify.free_flight.tumbling import symmetric
from spacearm.measure.files import read_record
from spacearm.measure.formats import match_files
from spacearm.model import Robot
from spacearm.model.toml_schema import Name, Number, positive_number
from spacearm.study import ScenarioTable, Session, StudyFile, key
from spacearm.study.keys import check_distinct
from spacearm.study.tables import ColumnTable, Numbers
from spacearm.typing import Array

Positive = Annotated[float, positive_number()]
NonNegative = Annotated[Number, key(ge=0.0)]
#: Their squares divide.
Deviation = Annotated[float, positive_number(1e-12)]
#: Files of a body at most.
MOST_FILES = 500


class FlightColumnsTable(ScenarioTable):
    """Where the readings stand in the files."""

    rate: ColumnTable = key(what="columns of the gyro's x, y, z, device axes")
    acceleration: ColumnTable | None = key(
        None, "columns of the accelerometer's x, y, z, which sits at the device's origin; without it tensors are those "
        "of device and body together",
    )  # fmt: skip
    wheel: ColumnTable = key(what="column of the wheel's speed relative to the device, about the joint's axis")


class FlightTable(ScenarioTable):
    """How a flight is cut from its record."""

    wheel: Positive = key(10.0, "rad/s; the flight begins where the wheel first exceeds this speed")
    skip: NonNegative = key(0.0, "s, left out at the start of the flight")
    margin: NonNegative = key(0.03, "s, left out before the end, where the filter lacks later samples")
    limit: Positive | None = key(
        None, "m/s2; the flight ends where the accelerometer reads more: it is caught or lands"
    )
    rest: Positive = key(0.1, "s at the record's start that show the gyro's bias, if nothing rotates then")
    band: Positive = key(40.0, "Hz, of the low-pass filter that all channels pass without delay")
    sample: Positive = key(200.0, "Hz, of the samples that are used")


class DeviceDoubtTable(ScenarioTable):
    """How well the device is known: standard deviations. What the flights show better is estimated."""

    wheel_inertia: Deviation = key(
        0.03, "of the wheel's axial inertia, share; 1: a body of known inertia calibrates it"
    )
    gyro_scale: Deviation = key(0.005, "of the gyro's scale factors")
    gyro_cross: Deviation = key(0.01, "of its cross-axis sensitivities")
    wheel_tilt: Deviation = key(0.02, "of the wheel's axis, rad about each axis across it")
    wheel_delay: Deviation = key(0.005, "of the time by which the wheel's readings are late, s")
    arm: Deviation = key(3e-4, "of a mass centre found by the accelerometer, along each axis, m")

    def make(self) -> DeviceDoubt:
        """The deviations."""
        return DeviceDoubt(**{name: getattr(self, name) for name in type(self).model_fields})


class FlownBodyTable(ScenarioTable):
    """The device with a body attached, or alone, and the records of its flights."""

    name: Name
    files: list[Name] = key(what="relative to `data`; `*` stands for any characters", min_length=1)
    mass: NonNegative = key(0.0, "of what is attached, kg; 0: the device alone")
    inertia: Numbers | None = key(
        None, "known: xx, yy, zz (, xy, xz, yz) about its own mass centre, axes of the device, kg m2",
    )  # fmt: skip
    inertia_sd: Deviation = key(0.004, "standard deviation of `inertia`, as a share of a third of its trace")
    reference: Numbers | None = key(
        None, "what the result is compared with, in the form of `inertia`; not used in the fit"
    )

    def tensor(self, name: str) -> Array | None:
        """A tensor (3, 3)."""
        given: Numbers | None = getattr(self, name)
        if given is None:
            return None
        if len(given) not in (3, 6):
            raise InputError(f"has {len(given)} numbers", place=name, hint="expected 3 moments, or 6: xx to yz")
        found = symmetric(np.concatenate([given, np.zeros(6 - len(given))]))
        if not np.linalg.eigvalsh(found)[0] > 0.0:
            raise InputError("has a principal moment that is not above zero", place=name, hint="expected a body's")
        return found

    def paths(self, folder: Path) -> list[Path]:
        """Paths of the body's files, by name."""
        found: list[Path] = []
        for pattern in self.files:
            try:
                own = sorted(match_files(folder, pattern)) if "*" in pattern else [folder / pattern]
            except InputError as error:
                error.locate("files")
                raise
            except (ValueError, OSError) as error:
                raise InputError(f"{pattern!r} is not a pattern: {error}", place="files") from None
            if not own:
                raise InputError(f"no file matches {pattern!r}", place="files", hint=f"looked in {folder}")
            found += own
        if len(found) > MOST_FILES:
            raise InputError(f"has {len(found)} files", place="files", hint=f"expected at most {MOST_FILES}")
        return found


class FreeFlightFile(StudyFile):
    """Inertia tensors of free bodies with a wheel, from gyro and accelerometer alone."""

    needs_mujoco: ClassVar[bool] = False

    data: Name = key(".", "folder of the measured files, relative to the scenario; `spacearm run --data` overrides it")
    time: ColumnTable = key(ColumnTable(column="time"), "column of the time")
    columns: FlightColumnsTable = key(what="columns of the readings")
    wheel: Name | None = key(None, "joint of the wheel, where the robot has others too: these are held")
    flight: FlightTable = key(FlightTable(), "how a flight is cut from its record")
    device: DeviceDoubtTable = key(DeviceDoubtTable(), "how well the device is known")
    drag: bool = key(True, "estimate the drag of the air on each body: a torque by the square of the rate")
    allowance: Positive | None = key(
        None, "share of the rates' change that the model may leave; else residuals must be white"
    )
    body: list[FlownBodyTable] = key(what="bodies, with the records of their flights", min_length=1, max_length=100)

    def solve(self, session: Session) -> FreeFlightFindings:
        robot, folder = self.load_robot(session), session.folder / self.data
        axis, inertia = wheel_of(robot, self.wheel)
        check_distinct(self.body, "body")
        bodies, left_out = [], []
        references = {}
        for k, table in enumerate(self.body):
            with error_context(f"body[{k}]"):
                references[str(table.name)] = table.tensor("reference")
        for k, table in enumerate(self.body):
            with error_context(f"body[{k}]"):
                known, paths = table.tensor("inertia"), table.paths(folder)
                flights = []
                for i, path in enumerate(paths):
                    share = 0.6 * (k + i / len(paths)) / len(self.body)
                    session.report_progress(share, f"{table.name}: {path.name}")
                    flight = self._read(path)
                    if flight is None:
                        left_out.append(path.name)
                    else:
                        flights.append(flight)
                if not flights:
                    hint = f"expected a wheel faster than {self.flight.wheel:g} rad/s"
                    raise InputError("has no flight: the wheel never rotates", place="files", hint=hint)
                bodies.append(FlownBody(table.name, flights, table.mass, known, table.inertia_sd))
        session.report_progress(0.6, "output error of all flights")
        doubt = self.device.make()
        found = identify_flights(
            bodies, axis=axis, wheel_inertia=inertia, device_mass=robot.mass, doubt=doubt, drag=self.drag
        )
        return FreeFlightFindings(file=self, found=found, references=references, left_out=left_out)

    def _read(self, path: Path) -> Flight | None:
        columns = {"rate": (self.columns.rate, 3, "rad/s"), "wheel": (self.columns.wheel, 1, "rad/s")}
        if self.columns.acceleration is not None:
            columns["acceleration"] = (self.columns.acceleration, 3, "m/s2")
        made = {}
        for name, (table, count, unit) in columns.items():
            column = table.make()
            if len(column.names) != count:
                message = f"has {len(column.names)} columns"
                raise InputError(message, place=f"columns.{name}", hint=f"expected {count}")
            made[name] = replace(column, expects=unit)
        record = read_record(path, made, time=self.time.make(), missing="drop", gaps="keep")
        options = {
            name: value for name in FlightTable.model_fields if (value := getattr(self.flight, name)) is not None
        }
        with error_context(file=path):
            return cut_flight(record, **options)


def wheel_of(robot: Robot, name: str | None) -> tuple[Array, float]:
    """Axis (3,) of a device's wheel at rest of all else, device axes, and its axial inertia, kg m2."""
    if name is None and robot.n != 1:
        message = f"{robot.name!r} has {robot.n} joints"
        raise InputError(message, place="robot", hint="expected one joint, or name the wheel's with 'wheel'")
    with error_context("wheel"):
        joint = robot.joints[0 if name is None else robot.joint_index(name)]
    if joint.kind != "revolute" or joint.parent != robot.bodies[0].name:
        message = f"joint {joint.name!r} is not a wheel of the base"
        raise InputError(message, place="wheel", hint="expected a revolute joint on the first body")
    axis, wheel = np.asarray(joint.axis), robot.bodies[robot.body_index(joint.child)]
    # A geared rotor spins faster by its ratio, and stores as much more momentum.
    rotor = 0.0 if joint.rotor is None else joint.rotor.inertia * joint.rotor.ratio
    return np.asarray(joint.placement.rotation @ axis), float(axis @ wheel.inertia.tensor @ axis) + rotor
