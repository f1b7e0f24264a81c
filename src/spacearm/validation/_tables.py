"""Tables of a validation file: channels, inputs, uncertain numbers, the catch, several records."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from spacearm.errors import InputError
from spacearm.measure import Column
from spacearm.model.toml_schema import Duration, Name, Number, Seed, Vector3, positive_number
from spacearm.simulate import Load
from spacearm.study import ScenarioTable, key
from spacearm.study.surroundings import PinTable
from spacearm.study.tables import ClockTable, ColumnTable, Count

#: Kinds of measured inputs.
INPUTS = ("forces", "driven", "thruster", "load")
#: Entries of a load on a frame, world axes.
WRENCH = ("fx", "fy", "fz", "mx", "my", "mz")
Deviation = Annotated[float, positive_number()]


SMOOTH = "replaced by a smoothing spline, as smooth as cross-validation says: noise of a path moves the robot"


class ValidationChannelTable(ColumnTable):
    """A measured quantity that is predicted."""

    file: Name = key("", "its file, relative to `data`, where it is not that of the others")
    time: ClockTable | None = key(None, "clock of that file, if it is not like that of the others")
    quantity: Name = key(
        what="`base_x`, `base_y`, `base_z` (world), `base_yaw` (about the world's z), `base_qw` ... `base_qz` "
        "(quaternion), `base_vx` ... `base_wz` (base axes), a joint, `<joint>.rate`, `<frame>.x` ... (world); of "
        "another system `<system>/<quantity>`"
    )
    sd: Deviation = key(what="standard deviation of a reading, SI")
    bias: Number = key(0.0, "of the sensor: added to what is predicted, SI")
    delay: Number = key(0.0, "a reading shows what was so long before, s")


class MeasuredInputTable(ColumnTable):
    """What acted on the robot, as it was measured: straight lines between readings, for a path a spline."""

    file: Name = key("", "its file, relative to `data`, where it is not that of the channels")
    time: ClockTable | None = key(None, "clock of that file, if it is not like that of the channels")
    hold: bool = key(False, "a reading holds until the next one, as a commanded force does")
    smooth: bool = key(False, SMOOTH)

    to: Name = key(
        what="`forces.<degree of freedom>`, `driven.<joint>`, `thruster.<name>` (share of its full thrust), or "
        "`load.<frame>.fx` ... `mz` (world axes)"
    )
    scale: Number = key(1.0, "factor of the readings")
    delay: Number = key(0.0, "it acts so long after its reading, s")

    def make(self) -> Column:
        """Its column as it was read: factor and offset count where the input acts, and may be uncertain."""
        kind, name = self.target
        entry = name.rpartition(".")[2]
        expects = ("N" if entry.startswith("f") else "N m") if kind == "load" else ""
        return replace(super().make(), scale=1.0, offset=0.0, expects=expects)

    @property
    def target(self) -> tuple[str, str]:
        """Kind of the input and name of what it acts on."""
        kind, _, name = self.to.partition(".")
        if kind not in INPUTS or not name:
            expected = ", ".join(f"{each}.<name>" for each in INPUTS)
            raise InputError(f"{self.to!r} is not an input", place="to", hint=f"expected {expected}")
        if kind == "load" and name.rpartition(".")[2] not in WRENCH:
            raise InputError(f"{self.to!r} is not an entry of a load", place="to", hint=f"expected {', '.join(WRENCH)}")
        return kind, name


class MarkerTable(ColumnTable):
    """Measured place of a marker on a link: columns of its x and y, or x, y and z, world axes."""

    frame: Name = key(what="frame of the robot at which the marker sits")
    smooth: bool = key(False, SMOOTH)

    def make(self) -> Column:
        """Its columns, in m."""
        if isinstance(self.column, str) or len(self.column) not in (2, 3):
            raise InputError(f"is {self.column!r}", place="column", hint="expected columns of x and y, or of x, y, z")
        return replace(super().make(), expects=["m"] * len(self.column))


class PushTable(ScenarioTable):
    """A constant force and moment that were not measured; their entries may be uncertain."""

    frame: Name = key(what="frame on which it acts, also of another system: `target/body`")
    force: Vector3 = key([0.0, 0.0, 0.0], "N")
    moment: Vector3 = key([0.0, 0.0, 0.0], "N m")
    axes: Literal["world", "frame"] = key("world", "`frame`: it turns with the frame, as the air of a bearing does")
    start: Number = key(0.0, "s of the run")
    end: Number = key(what="s of the run")

    def load(self, begin: float) -> Load | None:
        """The load in a phase that begins at this time; None once it is over."""
        if self.end <= self.start:
            raise InputError(f"is {self.end:g} s", place="end", hint="expected more than 'start'")
        if self.end <= begin + 1e-9:
            return None
        # Times of the table count from the start of the run, those of a load from that of its phase.
        return Load.pulse(self.frame, self.force, self.moment, self.end - max(self.start, begin),
                          max(self.start - begin, 0.0), axes=self.axes)  # fmt: skip


class UncertainTable(ScenarioTable):
    """A number of the scenario or of the robot that is not exactly known."""

    sd: Deviation = key(what="standard deviation, in the number's own unit")
    shared: bool = key(
        False,
        "the same in all records: each record is predicted with what the others say of it, mean and scatter",
    )
    scatter: Deviation | None = key(
        None, "standard deviation by which a shared number differs from record to record, as far as that is known"
    )
    key: Name = key(
        what="where it stands: `start.velocity[0]`, `gravity[0]`, `drag[0].linear`, `input[1].delay`, "
        "`robot.body[hull].mass`"
    )


class TunedNumberTable(ScenarioTable):
    """A number of the scenario or of the robot that is tuned within bounds."""

    low: Number = key(what="lower bound of the search, in the number's own unit")
    high: Number = key(what="upper bound")
    log: bool = key(False, "search on a logarithmic scale")
    key: Name = key(what="where it stands: `contact[0].friction`, `robot.body[hull].mass`")

    def scale(self, share: float) -> float:
        """The number at this share of the distance from the lower to the upper bound."""
        return self.low * (self.high / self.low) ** share if self.log else self.low + (self.high - self.low) * share

    def check(self) -> None:
        """Raise an error if there is nothing between the bounds."""
        if not self.low < self.high or (self.log and self.low <= 0.0):
            raise InputError(
                f"from {self.low:g} to {self.high:g} there is nothing to search", place="low",
                hint="expected low < high" + ", both above zero" * self.log,
            )  # fmt: skip


class TuneTable(ScenarioTable):
    """Numbers tuned on some records, and tried on the others, for motions that no linearisation describes: impacts."""

    length: Deviation = key(
        what="m, by which errors of position are divided: a body's size. Errors of attitude count in rad"
    )
    number: list[TunedNumberTable] = key(what="numbers that are tuned", min_length=1, max_length=12)
    average: Literal["median", "mean"] = key(
        "median",
        "of the records' losses, which is minimised; one record that tips to another side can decide the mean",
    )
    scan: Count = key(64, "points within the bounds with which the search begins")
    generations: Count = key(8, "generations of the covariance matrix adaptation that follows")
    resamples: Count = key(1000, "bootstrap samples of the records, for the intervals")
    seed: Seed = key(1, "seed of the search and the bootstrap")


class MeasuredCatchTable(ScenarioTable):
    """A capture at a time that was measured: a frame of the robot takes another system where it then is."""

    guest: Name = key(what="the captured system")
    frame: Name = key(what="frame to which it is attached")
    time: Number | None = key(None, "time of the file, s; if omitted, estimated from the record")
    after: Number | None = key(None, "the search for it starts here, s of the file; at `begin` if omitted")
    within: Duration = key(2.0, "length of the search, s")
    fit: bool = key(True, "all readings until shortly before it are fitted, whatever `fit` says")
    pin: PinTable | None = key(None, "lets the guest rotate about an axis: its joint is `<guest>.pin`")
    lock_after: Duration | None = key(
        None, "s after the catch at which the pin locks; from then on both are rigidly joined"
    )
    swing: Literal["free", "measured"] = key(
        "free", "`measured`: the pin follows the angle that the channels show, and only the motion of both is predicted"
    )

    @property
    def pin_name(self) -> str:
        return f"{self.guest}.pin"


class ValidationRecordTable(ScenarioTable):
    """One of several records of the same experiment; keys that it leaves out are those of the file."""

    name: Name
    file: Name | None = key(
        None, "its file, relative to `data`; with `*`, `?` or `[...]` every file that matches is a record"
    )
    skip: Annotated[int, key(ge=0)] = key(0, "how many of the matching files, in numerical order, are skipped first")
    count: Count | None = key(None, "largest number of records from the remaining files")
    tune: bool = key(False, "use this record for tuning; all other records are predicted with the tuned numbers")
    begin: Number | None = key(None, "time of the file at which the run starts, s")
    fit: Number | None = key(None, "length of the part that is fitted, s")
    duration: Duration | None = key(None, "of the run, s; the last phase is shortened or lengthened")
    after: Number | None = key(None, "as in the table `catch`, s of the file")
    group: Name = key("", "shared numbers are those of the records of the same group: a day, a place")
    hold_out: bool = key(False, "says nothing about shared numbers of others")
    set: dict[str, Number] = key({}, "further keys of the scenario with their numbers in this record")

    overrides: ClassVar = ("file", "begin", "fit")

    def tables(self, scenario: dict[str, Any], phases: list[float]) -> list[tuple[str, Any]]:
        """Keys of the scenario and what they are in this record."""
        found: list[tuple[str, Any]] = [
            (name, getattr(self, name)) for name in self.overrides if getattr(self, name) is not None
        ]
        if self.duration is not None:
            # Earlier phases stay as they are: their switches are events of the experiment.
            last = self.duration - sum(phases[:-1])
            if last <= 0.0:
                raise InputError(
                    f"is {self.duration:g} s, the phases before the last take {sum(phases[:-1]):g} s",
                    place="duration", hint="expected more",
                )  # fmt: skip
            found.append((f"phase[{len(phases) - 1}].duration", last))
        if self.after is not None:
            if "catch" not in scenario:
                raise InputError("there is no catch", place="after", hint="give the scenario a table 'catch'")
            found.append(("catch.after", self.after))
        return [*found, *self.set.items()]
