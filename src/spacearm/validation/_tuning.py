"""Numbers tuned on some records and tried on others, for motions that no linearisation describes: bodies that bounce.

Method: each record is predicted from its measured start. Its loss is the mean over its later readings of the distance
between measured and predicted position, in a stated length, plus the angle between the attitudes, in rad. The tuned
numbers have the least median (or mean) loss of the tuning records: a Latin hypercube, then covariance matrix adaptation
from its best point. Small changes of a number change where a body goes after some blows, so the loss has no useful
slope, and intervals come from a bootstrap over the tuning records: for each resample, the point with the least loss
among all points of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import qmc, ttest_ind
from scipy.stats import t as student

from spacearm.engine.checkpoints import checkpoint
from spacearm.errors import InputError, SimulationError, SpacearmError, error_context
from spacearm.figures import add_curve, new_figure
from spacearm.optimise.evolution import evolve
from spacearm.result import Check, Checks, Figure, figure_name
from spacearm.scene import Scene, scene_of
from spacearm.simulate import Run
from spacearm.simulate.world import SEPARATOR
from spacearm.study import Findings, Session, row
from spacearm.study.findings import dataset
from spacearm.text_format import format_number
from spacearm.typing import Array
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation._quantities import ATTITUDE, YAW
from spacearm.validation._records import expand_records, record_files

if TYPE_CHECKING:
    from spacearm.validation._tables import TuneTable
    from spacearm.validation.scenario import ValidationFile

#: First step of the search after the scan, as a share of the bounds.
FIRST_STEP = 0.15
#: Bounds of a two-sided interval of 95 %, percent.
INTERVAL = (2.5, 97.5)
#: A tuned number that is nearer to a bound, as a share of the way between both, has been stopped by it.
NEAR_BOUND = 0.01
#: Chance that held-out losses of right numbers exceed those of the tuning records as far as permitted.
CHANCE = 1e-3
#: Records that the scene shows.
MOST_SHOWN = 6


@dataclass(frozen=True)
class RecordErrors:
    """Mean errors of a record after its measured start: position, m, attitude, rad."""

    place: float
    rotation: float

    def loss(self, length: float) -> float:
        return self.place / length + self.rotation


#: Errors of a record with these values of the tuned numbers, in their order; an error of spacearm if there are none.
Predict = Callable[[int, Array], RecordErrors]


@dataclass(frozen=True, eq=False)
class Tuning:
    """The search for the numbers.

    Args:
        points: (N, n) values of the numbers at which records were predicted.
        losses: (N, R) loss of each tuning record there; infinite where it could not be predicted.
        best: row of the least mean loss.
        interval: (2, n) ends of the 95 % intervals.
    """

    points: Array
    losses: Array
    best: int
    interval: Array

    @property
    def values(self) -> Array:
        return np.asarray(self.points[self.best])


def tune_numbers(table: TuneTable, records: int, predict: Predict, progress: Callable[[float, float], None]) -> Tuning:
    """The numbers with the least loss over so many records."""
    for k, number in enumerate(table.number):
        with error_context(f"tune.number[{k}]"):
            number.check()
    points: list[Array] = []
    losses: list[Array] = []
    failures: list[SpacearmError] = []
    # Only for the progress shown: about what the search asks for.
    population = 8 + 4 * int(np.log(len(table.number))) + len(table.number)
    whole = table.scan + table.generations * population

    def judge(members: Array) -> Array:
        """Scores (B,) of points in the unit box."""
        scores = []
        for member in members:
            values = np.array([number.scale(share) for number, share in zip(table.number, member, strict=True)])
            own = np.full(records, np.inf)
            for record in range(records):
                try:
                    own[record] = predict(record, values).loss(table.length)
                # A point at which a run fails is a bad one; what fails everywhere is an error.
                except SpacearmError as error:
                    # One failure makes the score infinite: the records that remain cannot change it, and are not run.
                    failures.append(error)
                    break
            points.append(values)
            losses.append(own)
            scores.append(-float(average(table, own[None, :])[0]))
            progress(len(points), whole)
        return np.array(scores)

    # A scan first: the loss has many local minima, and no slope that would lead out of one.
    scan = qmc.LatinHypercube(len(table.number), rng=table.seed).random(table.scan)
    scores = judge(scan)
    if not np.isfinite(scores).any():
        raise failures[0]
    start = int(np.argmax(scores))
    evolve(
        judge, scan[start : start + 1], scores[start : start + 1], step=FIRST_STEP, generations=table.generations,
        seed=table.seed,
    )  # fmt: skip
    tried = np.array(losses)
    return Tuning(
        np.array(points), tried, int(np.argmin(average(table, tried))),
        bootstrap_interval(table, np.array(points), tried),
    )  # fmt: skip


def average(table: TuneTable, losses: Array) -> Array:
    """What is made small (N,), of the losses (N, R) of the tuning records at each point; infinite where one failed."""
    usable = np.isfinite(losses).all(axis=1)
    found = np.median(losses, axis=1) if table.average == "median" else np.mean(losses, axis=1)
    return np.where(usable, found, np.inf)


def bootstrap_interval(table: TuneTable, points: Array, losses: Array) -> Array:
    """Ends (2, n) of the intervals of the best point: records drawn anew with replacement, as often as there are.

    B. Efron, The Annals of Statistics 7, 1979; percentiles of the best points. Few records give intervals that are
    somewhat too narrow.
    """
    draws = np.random.default_rng(table.seed).integers(0, losses.shape[1], size=(table.resamples, losses.shape[1]))
    # Among points that were computed: no run is made again for a resample.
    chosen = [int(np.argmin(average(table, losses[:, draw]))) for draw in draws]
    return np.asarray(np.percentile(points[chosen], INTERVAL, axis=0))


@dataclass(frozen=True, eq=False)
class TunedRecord:
    """A record that is predicted with tuned numbers."""

    name: str
    measured: MeasuredRun

    def errors(self, predicted: Mapping[str, Array]) -> RecordErrors:
        """Mean errors of a prediction of all channels, all systems added, after the measured start."""
        measured, begin = self.measured, self.measured.start_window
        place, rotation, count = 0.0, 0.0, 0
        for system in measured.world.systems:
            prefix = "" if system == next(iter(measured.world.systems)) else f"{system}{SEPARATOR}"
            channels = measured.readings
            named = {name.removeprefix(f"{system}{SEPARATOR}").removeprefix(prefix): name for name in channels}
            axes = [named[axis] for axis in ("base_x", "base_y", "base_z") if axis in named]
            if axes:
                left = [_later(channels[each].times, begin, channels[each].values - predicted[each]) for each in axes]
                place += float(np.sqrt(np.sum(np.square(left), axis=0)).mean())
            if ATTITUDE[0] in named:
                product = sum(channels[named[each]].values * predicted[named[each]] for each in ATTITUDE)
                # q and -q are the same attitude: hence the absolute value.
                angle = 2.0 * np.arccos(np.clip(np.abs(product), 0.0, 1.0))
                rotation += float(_later(channels[named[ATTITUDE[0]]].times, begin, angle).mean())
            elif YAW in named:
                own = channels[named[YAW]]
                rotation += float(np.abs(_later(own.times, begin, own.values - predicted[named[YAW]])).mean())
            count += bool(axes) or ATTITUDE[0] in named or YAW in named
        if not count:
            raise InputError(
                "there is neither a position nor an attitude", place="channel", hint="expected base_x, base_yaw, ..."
            )
        return RecordErrors(place, rotation)

    def predict(self, values: Mapping[str, float]) -> tuple[RecordErrors, Run]:
        """Errors and the run with these numbers."""
        file, run = self.measured.run_tables(self.measured.replaced_tables(values))
        predicted = self.measured.read(file, run)
        if not all(np.all(np.isfinite(each)) for each in predicted.values()):
            raise SimulationError(f"the run ended at {run.end_time:g} s, before the last reading", place="run")
        return self.errors(predicted), run


def _later(times: Array, begin: float, values: Array) -> Array:
    rows = times > begin
    if not rows.any():
        raise InputError(f"no reading follows the measured start of {begin:g} s", place="measured_start")
    return values[rows]


def prepare_records(
    file: ValidationFile, session: Session
) -> tuple[list[TunedRecord], list[TunedRecord], dict[str, str]]:
    """Records to tune on, the others, and what cannot be predicted, with the reason."""
    file = expand_records(file, session.folder)
    if file.file or not file.record:
        raise InputError("is missing" if not file.record else "does not go with records", place="record",
                         hint="expected `[[record]]` with `tune = true`, and others")  # fmt: skip
    chosen = {entry.name: entry.tune for entry in file.record}
    tuned: list[TunedRecord] = []
    others: list[TunedRecord] = []
    failed: dict[str, str] = {}
    for name, _, own in record_files(file):
        try:
            with error_context(f"record {name!r}"):
                measured = MeasuredRun(own, session).until_last_reading().with_measured_parts()
                (tuned if chosen[name] else others).append(TunedRecord(name, measured))
        except SpacearmError as error:
            failed[name] = str(error)
    for found, what in ((tuned, "`tune = true`"), (others, "no `tune`")):
        if not found:
            reason = f": {next(iter(failed.values()))}" if failed else ""
            raise InputError(
                f"no record has {what}{reason}", place="record", hint="expected some to tune on and others to predict"
            )
    return tuned, others, failed


def tune_records(file: ValidationFile, session: Session) -> TuningFindings:
    """Numbers tuned on some records and tried on the others."""
    table = file.tune
    assert table is not None
    tuned, others, failed = prepare_records(file, session)
    names = [number.key for number in table.number]

    inputs = [record.measured.run_inputs() for record in tuned]

    def predict(record: int, values: Array) -> RecordErrors:
        """From before, if an interrupted run had got so far."""

        def compute() -> dict[str, Array]:
            errors, _ = tuned[record].predict(dict(zip(names, values, strict=True)))
            return {"errors": np.array([errors.place, errors.rotation])}

        place, rotation = checkpoint("tuning", (inputs[record], names, values), compute)["errors"]
        return RecordErrors(float(place), float(rotation))

    tuning = tune_numbers(table, len(tuned), predict, session.partial_progress(0.05, 0.75, "points of the search"))
    values = dict(zip(names, map(float, tuning.values), strict=True))
    errors: dict[str, RecordErrors] = {}
    runs: dict[str, tuple[TunedRecord, Run]] = {}
    progress = session.partial_progress(0.75, 0.94, "records")
    for k, record in enumerate([*tuned, *others]):
        try:
            with error_context(f"record {record.name!r}"):
                errors[record.name], run = record.predict(values)
                runs[record.name] = record, run
        except SpacearmError as error:
            failed[record.name] = str(error)
        progress(k + 1, len(tuned) + len(others))
    if not any(record.name in errors for record in others):
        first = next(failed[record.name] for record in others if record.name in failed)
        raise InputError(f"no other record can be predicted: {first}", place="record", hint="expected at least one")
    return TuningFindings(
        table=table, tuning=tuning, errors=errors, runs=runs, failed=failed, tuned=[record.name for record in tuned]
    )


class TunedNumberFindings(Findings):
    """A tuned number."""

    value: float = row("", "with the least loss of the tuning records")
    low: float = row("", "lower end of its 95 % interval, bootstrap over the tuning records", name="low95")
    high: float = row("", "upper end", name="high95")


class GroupFindings(Findings):
    """Errors of a group of records."""

    count: int = row("1", "records", name="records")
    share: float = row("1", "mean error of the position, in the stated length", name="position")
    share_se: float = row("1", "its standard error, from the scatter of the records", name="position.se")
    place: float = row("m", "mean error of the position", name="place")
    rotation: float = row("rad", "mean error of the attitude")
    rotation_se: float = row("rad", "its standard error", name="rotation.se")
    median_share: float = row("1", "median over the records, in the stated length", name="position.median")
    median_rotation: float = row("rad", "median over the records", name="rotation.median")


class TuningFindings(Findings):
    """Tuned numbers, and records predicted with them."""

    table: TuneTable
    tuning: Tuning
    errors: dict[str, RecordErrors]
    runs: dict[str, tuple[TunedRecord, Run]]
    failed: dict[str, str]
    tuned: list[str]

    group = row(of=lambda t: {"held_out": t.group_rows(False), "tuning": t.group_rows(True)}, name="error")
    number = row(of=lambda t: t.numbers(), name="tuned")
    evaluations = row("1", "points of the search, each with all tuning records", of=lambda t: len(t.tuning.points))
    lost = row("1", "records that could not be predicted", name="not_predicted", of=lambda t: len(t.failed))

    def numbers(self) -> dict[str, TunedNumberFindings]:
        return {
            number.key: TunedNumberFindings(value=float(value), low=float(low), high=float(high))
            for number, value, low, high in zip(
                self.table.number, self.tuning.values, *self.tuning.interval, strict=True
            )
        }

    def select(self, tuned: bool) -> dict[str, RecordErrors]:
        return {name: own for name, own in self.errors.items() if (name in self.tuned) == tuned}

    def group_rows(self, tuned: bool) -> GroupFindings:
        own = [*self.select(tuned).values()]
        place, rotation = np.array([each.place for each in own]), np.array([each.rotation for each in own])
        share, root = place / self.table.length, np.sqrt(len(own))
        spread = {name: float(np.std(each, ddof=1) / root) if len(own) > 1 else float("nan")
                  for name, each in (("share", share), ("rotation", rotation))}  # fmt: skip
        return GroupFindings(
            count=len(own), share=float(share.mean()), share_se=spread["share"], place=float(place.mean()),
            rotation=float(rotation.mean()), rotation_se=spread["rotation"], median_share=float(np.median(share)),
            median_rotation=float(np.median(rotation)),
        )  # fmt: skip

    def title(self) -> str:
        return f"Numbers tuned on {len(self.tuned)} records, tried on {len(self.select(False))}"

    def headline(self) -> str:
        own = self.group_rows(False)
        numbers = ", ".join(
            f"{name} {format_number(each.value, 3)} ({format_number(each.low, 2)} to {format_number(each.high, 2)})"
            for name, each in self.numbers().items()
        )
        return (
            f"Over {own.count} held-out records the mean error is {format_number(100.0 * own.share, 3)} % of "
            f"{format_number(self.table.length, 4)} m and {format_number(np.degrees(own.rotation), 3)} deg, with "
            f"{numbers}, tuned on {len(self.tuned)} others."
        )

    def summary(self) -> str:
        tuned = self.group_rows(True)
        text = (
            f"Each record is predicted from its measured start. On the tuning records the mean errors are "
            f"{format_number(100.0 * tuned.share, 3)} % and {format_number(np.degrees(tuned.rotation), 3)} deg. "
            f"Intervals (95 %) come from a bootstrap over the tuning records."
        )
        if self.failed:
            first = next(iter(self.failed.items()))
            text += f" Not predicted: {len(self.failed)}, the first {first[0]} ({first[1]})."
        return text

    def certificate(self) -> Mapping[str, Checks]:
        checks: dict[str, Check] = {}
        # Of each check the run that comes nearest to its tolerance, or exceeds it by most.
        for name, (_, run) in self.runs.items():
            for what, check in (run.certificate or {}).items():
                if isinstance(check, Check) and (what not in checks or check.worse_than(checks[what])):
                    checks[what] = replace(check, note=f"{name}: {check.note}")
        return {
            **checks,
            "carries_over": self._carries_over(),
            "predicted": self._check_predictions(),
            "bounds": self._bounds(),
        }

    def _carries_over(self) -> Check:
        """Welch's test: larger held-out losses mean numbers that fit only the records that they were tuned on."""
        # Welch's and not Student's test: records that were tuned on scatter less.
        losses = [
            np.array([each.loss(self.table.length) for each in self.select(which).values()]) for which in (True, False)
        ]
        note = "held-out loss less that of the tuning records, in standard errors, beside its 99.9 % bound"
        if min(each.size for each in losses) < 2:
            return Check.not_applicable("fewer than two records on a side; " + note)
        found = ttest_ind(losses[1], losses[0], equal_var=False)
        # One-sided: held-out records that are predicted better are no fault.
        return Check(max(float(found.statistic), 0.0), float(student.ppf(1.0 - CHANCE, found.df)), "", note)

    def _check_predictions(self) -> Check:
        return Check(
            float(len(self.failed)), 0.05 * (len(self.failed) + len(self.errors)), "", "records that were not predicted"
        )

    def _bounds(self) -> Check:
        # A number at a bound is the bound's and not the data's: the interval ends there for no reason of the records.
        stopped = 0
        for number, value in zip(self.table.number, self.tuning.values, strict=True):
            low, high, own = number.low, number.high, float(value)
            share = np.log(own / low) / np.log(high / low) if number.log else (own - low) / (high - low)
            stopped += not NEAR_BOUND < share < 1.0 - NEAR_BOUND
        return Check(float(stopped), 0.0, "", "tuned numbers that ended at a bound of their search")

    def settings(self) -> Mapping[str, Any]:
        return {name: record.measured.record.source for name, (record, _) in self.runs.items()}

    def data(self) -> Any:
        names = [*self.errors]
        own = [*self.errors.values()]
        keys = [number.key for number in self.table.number]
        coordinates = {
            "record": ("record", np.array(names), "", "name"),
            "point": ("point", np.arange(len(self.tuning.points)), "1", "of the search"),
            "number": ("number", np.array(keys), "", "key"),
            "tuning_record": ("tuning_record", np.array(self.tuned), "", "name"),
        }
        return dataset(
            coordinates,
            {"place": ("record", np.array([each.place for each in own]), "m", "mean error of the position"),
             "rotation": ("record", np.array([each.rotation for each in own]), "rad", "mean error of the attitude"),
             "held_out": ("record", np.array([float(name not in self.tuned) for name in names]), "1", "1: held out"),
             "values": (("point", "number"), self.tuning.points, "", "of the tuned numbers"),
             "loss": (("point", "tuning_record"), self.tuning.losses, "1", "position error in the length, plus rad")},
        )  # fmt: skip

    def by_loss(self) -> list[str]:
        """Held-out records, the one with the median loss first, then the worst and the best ones."""
        order = sorted(self.select(False), key=lambda name: self.errors[name].loss(self.table.length))
        middle = order[len(order) // 2]
        return list(dict.fromkeys([middle, order[-1], order[0], *order[-2:0:-1]]))

    def scene(self) -> Scene:
        """Predicted and, translucent, measured: the held-out record with the median loss first, the worst, the best."""
        views = []
        for name in self.by_loss()[:MOST_SHOWN]:
            record, run = self.runs[name]
            ghosts = {f"{each}, measured": motion for each, motion in record.measured.motion.histories().items()}
            views.append((name, scene_of(run, ghosts=ghosts).views[0]))
        return Scene(tuple(replace(view, name=name, title=name) for name, view in views))

    def figures(self) -> list[Figure]:
        figure = new_figure(x="position error", x_unit="1", y="attitude error", y_unit="deg")
        for tuned, label in ((False, "held out"), (True, "tuned on")):
            own = self.select(tuned)
            figure.add_scatter(
                x=[each.place / self.table.length for each in own.values()],
                y=[float(np.degrees(each.rotation)) for each in own.values()],
                text=list(own), mode="markers", name=label, marker={"symbol": int(tuned)},
            )  # fmt: skip
        text = f"Mean errors of each record after its measured start, position in {self.table.length:g} m."
        found = [Figure("errors", figure, text)]
        losses = average(self.table, self.tuning.losses)
        for k, number in enumerate(self.table.number):
            figure = new_figure(x=number.key, x_unit="", y=f"{self.table.average} loss", y_unit="1")
            figure.add_scatter(
                x=self.tuning.points[:, k],
                y=np.where(np.isfinite(losses), losses, np.nan),
                mode="markers",
                name="search",
            )
            for edge in self.tuning.interval[:, k]:
                figure.add_vline(x=float(edge), line={"dash": "dot", "width": 1})
            if number.log:
                figure.update_xaxes(type="log")
            label = f"Loss of all points of the search by {number.key}; dotted: its 95 % interval."
            found.append(Figure(f"loss_{k + 1}", figure, label))
        return [*found, *self._curves(self.by_loss()[0])]

    def _curves(self, name: str) -> list[Figure]:
        """Measured and predicted channels of a record."""
        record, run = self.runs[name]
        found = []
        predicted = record.measured.read(record.measured.file, run)
        for channel, own in [*record.measured.readings.items()][:3]:
            figure = new_figure(x="time", x_unit="s", y=channel, y_unit=own.unit)
            add_curve(figure, own.times, predicted[channel], "predicted", colour=0)
            add_curve(figure, own.times, own.values, "measured", colour=1, mode="markers", size=4)
            found.append(
                Figure(
                    f"median_{figure_name(channel)}",
                    figure,
                    f"{channel} of {name}, the held-out record with the median loss.",
                )
            )
        return found
