"""Several records of one experiment: each predicted, with shared numbers from what the other records say of them.

A shared number (the tilt of a table) is first fitted to each record as a whole. A record is then predicted
with the mean of the others' values; its deviation is their scatter, widened for the mean of few: it holds what changes
from record to record. One or two others show no scatter: their own covariance counts then. Nothing of a record's own
judged part enters its prediction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.errors import InputError, SpacearmError, error_context
from spacearm.figures import new_figure
from spacearm.measure.formats import match_files
from spacearm.model.document import validate_tables
from spacearm.result import Check, Checks, Figure
from spacearm.scene import Scene
from spacearm.simulate.world import SEPARATOR
from spacearm.study import Findings, Session, row
from spacearm.study.document_keys import fill_key, find_root, put_key
from spacearm.study.findings import NotedValue, dataset
from spacearm.text_format import format_number
from spacearm.typing import Array
from spacearm.validation._findings import ValidationFindings, make_findings
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation._quantities import YAW
from spacearm.validation.comparison import (
    Linearisation,
    LinearRows,
    compare_by_linearisation,
    sandwich_widening,
)

if TYPE_CHECKING:
    from spacearm.validation.scenario import ValidationFile

#: Files that a pattern may match.
MOST_FILES = 2000
#: Records whose scatter is the deviation of a shared number, at least.
FEWEST = 3
#: Steps of the fit of a whole record, at most.
WHOLE_STEPS = 3
#: Records that have a view in the scene, at most.
MOST_VIEWS = 30
#: Least deviation of a shared number, in the stated one: equal values of few records prove nothing.
LEAST_SCATTER = 1e-2


def expand_records(file: ValidationFile, folder: Path) -> ValidationFile:
    """The file with a record for each measured file that a pattern matches."""
    found = []
    for k, entry in enumerate(file.record):
        if entry.file is None or not has_magic(entry.file):
            found.append(entry)
            continue
        with error_context(f"record[{k}]"):
            try:
                matching = match_files(folder / file.data, entry.file)
            except InputError as error:
                error.locate("file")
                raise
            except (ValueError, OSError) as error:
                raise InputError(f"{entry.file!r} is not a pattern: {error}", place="file") from None
            paths = sorted(matching, key=_natural_order)[entry.skip :][: entry.count]
            if not paths:
                raise InputError(
                    f"too few files in {file.data!r} match {entry.file!r}", place="file",
                    hint=f"expected {entry.skip + 1} or more, in the folder of `data` or `--data`",
                )  # fmt: skip
            if len(paths) > MOST_FILES:
                raise InputError(f"{len(paths)} files match", place="file", hint=f"expected at most {MOST_FILES}")
            for path in paths:
                own = {"name": f"{entry.name} {path.stem}", "file": str(path.relative_to(folder / file.data))}
                found.append(entry.model_copy(update=own))
    return file.model_copy(update={"record": found})


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """File 2 before file 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,15})", str(path))]


def record_files(file: ValidationFile) -> Iterator[tuple[str, bool, ValidationFile]]:
    """Name of each record, whether it is held out, and its own file."""
    whole = file.model_dump(exclude_unset=True)
    # Each record's own file has one record: its own tables over those of all.
    del whole["record"]
    defaults = file.model_dump()
    durations = [phase.duration for phase in file.phase]
    for k, entry in enumerate(file.record):
        tables = deepcopy(whole)
        with error_context(f"record[{k}]"):
            for name, value in entry.tables(whole, durations):
                fill_key(tables, defaults, name)
                put_key(*find_root({"scenario": tables, "robot": {}}, name), value)
            yield entry.name, entry.hold_out, validate_tables(type(file), tables)


def compare_records(file: ValidationFile, session: Session) -> RecordsFindings:
    """Every record of a file beside its prediction."""
    file = expand_records(file, session.folder)
    files = list(record_files(file))
    shared = [entry.key for entry in file.uncertain if entry.shared]
    found: dict[str, SharedEstimate] = {}
    failed: dict[str, SpacearmError] = {}
    linear: dict[str, tuple[MeasuredRun, Linearisation]] = {}
    for k, (name, held_out, own) in enumerate(files):
        try:
            with error_context(f"record {name!r}"):
                part = session.part(0.05 + 0.9 * k / len(files), 0.05 + 0.9 * (k + 1) / len(files))
                measured = MeasuredRun(own, part).with_measured_parts()
                progress = part.partial_progress(0.0, 1.0, name)
                linear[name] = (
                    measured,
                    measured.stacked_readings.linearise(np.zeros(len(measured.file.uncertain)), progress),
                )
                if shared and not held_out:
                    found[name] = fit_record(*linear[name], shared)
        # One bad record of many is reported, and the others are predicted.
        except SpacearmError as error:
            failed[name] = error
    groups = {entry.name: entry.group for entry in file.record}
    results: dict[str, ValidationFindings] = {}
    for name, (measured, near) in linear.items():
        # Never its own numbers: a prediction must not have seen what it is compared with.
        others = [each for other, each in found.items() if other != name and groups[other] == groups[name]]
        try:
            with error_context(f"record {name!r}"):
                mean, prior = shared_prior(measured, others, shared)
                compared = compare_by_linearisation(
                    measured.stacked_readings, near, measured.fit, parts=measured.fit_parts, mean=mean, prior=prior
                )
                results[name] = make_findings(measured, compared)
        except SpacearmError as error:
            failed[name] = error
    if not results:
        raise next(iter(failed.values()))
    return RecordsFindings(records=results, shared=found, failed={name: str(error) for name, error in failed.items()},
                           held_out=[name for name, held_out, _ in files if held_out])  # fmt: skip


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """Shared numbers as the whole of one record has them, and their covariance, in the numbers' own units."""

    values: Mapping[str, float]
    covariance: Array


def fit_record(measured: MeasuredRun, linear: Linearisation, shared: list[str]) -> SharedEstimate:
    """Shared numbers as the whole of a record has them, by Gauss-Newton steps with the same slopes.

    The covariance counts what the residuals show: it is that of a sandwich where these are not white.
    """
    names = [entry.key for entry in measured.file.uncertain]
    stacked, slopes = measured.stacked_readings, linear.slopes
    # Uncertain numbers count in their stated deviations, and are independent: the prior's information is the identity.
    prior = np.eye(len(names))
    covariance: Array = np.asarray(np.linalg.inv(slopes.T @ slopes + prior), dtype=np.float64)
    middle, found = linear.middle, linear.deviations
    for step_number in range(WHOLE_STEPS):
        # The first step is about the point of the linearisation, whose values are there already.
        if step_number:
            middle = stacked.values(found)
        left = stacked.scaled_readings - middle
        step = covariance @ (slopes.T @ left - found)
        found = found + step
        # A tenth of a standard deviation: further steps would change less than the data can show.
        if np.abs(step / np.sqrt(np.diag(covariance))).max() < 0.1:
            break
    # Residuals after the last step, to first order: the run is not made again for them.
    left = left - slopes @ step
    rows = LinearRows(stacked.times, left, slopes, np.zeros(left.size, dtype=bool), found)
    widening = sandwich_widening(rows, covariance, prior)
    places = [names.index(key) for key in shared]
    scale = np.array([measured.file.uncertain[k].sd for k in places]) * widening[places]
    return SharedEstimate(
        {
            key: measured.uncertain_value(key) + measured.file.uncertain[k].sd * float(found[k])
            for key, k in zip(shared, places, strict=True)
        },
        covariance[np.ix_(places, places)] * np.outer(scale, scale),
    )


def shared_prior(measured: MeasuredRun, others: Sequence[SharedEstimate], shared: list[str]) -> tuple[Array, Array]:
    """Means (N,) and covariance (N, N) of the uncertain numbers beforehand, in what is stated of them; shared ones are
    those of the other records.

    Of three others or more their scatter is the deviation. One or two show no scatter to rely on: then it is the
    covariance with which each was fitted, that of a new record and of their mean.
    """
    uncertain = measured.file.uncertain
    mean, prior = np.zeros(len(uncertain)), np.eye(len(uncertain))
    if not others or not shared:
        return mean, prior
    places = [[entry.key for entry in uncertain].index(key) for key in shared]
    stated = np.array([uncertain[k].sd for k in places])
    values = np.array([[each.values[key] for key in shared] for each in others])
    mean[places] = (values.mean(axis=0) - [measured.uncertain_value(key) for key in shared]) / stated
    # A new record scatters as the others do, and their mean is not exactly known.
    more = np.sqrt(1.0 + 1.0 / len(others))
    scatter = values.std(axis=0, ddof=1) * more / stated if len(others) > 1 else np.zeros(len(shared))
    if len(others) >= FEWEST:
        own = np.diag(np.maximum(scatter, LEAST_SCATTER) ** 2)
    else:
        own = np.mean([each.covariance for each in others], axis=0) * more**2 / np.outer(stated, stated)
        # Two records that differ by more than their deviations say so: the wider counts.
        factor = np.maximum(scatter / np.sqrt(np.diag(own)), 1.0)
        factor = np.maximum(factor, LEAST_SCATTER / np.sqrt(np.diag(own)))
        own = own * np.outer(factor, factor)
    # What a record is known to differ by counts even where the others happen to agree.
    known = np.array([uncertain[k].scatter or 0.0 for k in places]) * more / stated
    own = own + np.diag(np.maximum(known**2 - np.diag(own), 0.0))
    prior[np.ix_(places, places)] = own
    return mean, prior


class SystemErrorFindings(Findings):
    """Errors of the place and yaw of a system during the judged part, rms, and at the end; medians over the records."""

    place: float = row("m", "median over the records of the rms of the distance, judged part")
    yaw: float = row("rad", "the same of the yaw")
    end_place: float = row("m", "median distance at the end", name="end.place")
    end_yaw: float = row("rad", "median at the end", name="end.yaw")


def system_errors(found: ValidationFindings) -> dict[str, SystemErrorFindings]:
    """Errors of one record by system."""
    channels = found.comparison.channels
    errors = {}
    for name, own in channels.items():
        if not name.endswith(YAW):
            continue
        system = name.rpartition(SEPARATOR)[0]
        places = [channels.get(f"{system}{SEPARATOR if system else ''}{each}") for each in ("base_x", "base_y")]
        if None in places:
            continue
        errors[system or next(iter(found.run.world.systems))] = SystemErrorFindings(
            place=float(np.sqrt(sum(each.rms**2 for each in places if each is not None))),
            yaw=own.rms,
            end_place=float(np.sqrt(sum(each.residual[-1] ** 2 for each in places if each is not None))),
            end_yaw=abs(float(own.residual[-1])),
        )
    return errors


class RecordFindings(Findings):
    """One record."""

    chi_square: float = row("1", "for each judged reading")
    end_z: float = row("1", "largest of all channels at the end, standard deviations", name="end.z")
    duration: float = row("s", "of the judged part")
    worst: str = row("", "channel with the least share within its band")
    relaxed: str | None = row("", "assumption that, if relaxed, explains most of what is left")


class RecordsFindings(Findings):
    """Several records and their predictions."""

    records: dict[str, ValidationFindings]
    shared: dict[str, SharedEstimate]
    failed: dict[str, str]
    held_out: list[str]

    system = row(of=lambda r: r.medians())
    within_two = row("1", "records with all channels within 2 sd at the end", name="within.2sd",
                     of=lambda r: r.count_within(2.0))  # fmt: skip
    within_three = row("1", "the same within 3 sd", name="within.3sd", of=lambda r: r.count_within(3.0))
    widened = row("1", "the same within 2 sd, with bands as much wider as the ends of the other records ask for",
                  name="within.2sd.widened", of=lambda r: r.count_within_wider(2.0))  # fmt: skip
    widening = row("1", "that factor, median over the records", name="widening",
                   of=lambda r: float(np.median([*r.widenings().values()])))  # fmt: skip
    count = row("1", "records", name="records", of=lambda r: len(r.records))
    record = row(of=lambda r: r.each_record())
    balance = row(of=lambda r: r.balance_rows())
    each_shared = row(of=lambda r: r.shared_rows(), name="shared")

    def medians(self) -> dict[str, SystemErrorFindings]:
        each = [system_errors(found) for found in self.records.values()]
        return {
            system: SystemErrorFindings(
                **{
                    name: float(np.median([getattr(own[system], name) for own in each if system in own]))
                    for name in ("place", "yaw", "end_place", "end_yaw")
                }
            )
            for system in each[0]
        }

    def end_z(self, found: ValidationFindings) -> Array:
        """Residuals of all channels at the end in standard deviations."""
        return np.array([own.end_z for own in found.comparison.channels.values()])

    def count_within(self, most: float) -> int:
        return sum(bool(np.all(np.abs(self.end_z(found)) <= most)) for found in self.records.values())

    def widenings(self) -> dict[str, float]:
        """Factor of the bands by which the ends of the other records would have rms 1, at least 1.

        What the stated uncertainties lack shows in other records, as in Birge's ratio (R. T. Birge, Physical Review 40,
        1932); a record's own end takes no part. Records that are held out say nothing about others.
        """
        squares = {name: float(np.mean(self.end_z(own) ** 2)) for name, own in self.records.items()}
        found = {}
        for name in self.records:
            others = [value for other, value in squares.items() if other != name and other not in self.held_out]
            found[name] = max(1.0, float(np.sqrt(np.mean(others)))) if len(others) >= FEWEST else 1.0
        return found

    def count_within_wider(self, most: float) -> int:
        factors = self.widenings()
        return sum(bool(np.all(np.abs(self.end_z(own)) <= most * factors[name])) for name, own in self.records.items())

    def each_record(self) -> dict[str, RecordFindings]:
        found = {}
        for name, own in self.records.items():
            z = self.end_z(own)
            k = int(np.argmax(np.abs(z)))
            found[name] = RecordFindings(
                chi_square=own.comparison.chi_square.ratio, end_z=float(z[k]), duration=own.run.end_time - own.fit,
                worst=own.worst(), relaxed=own.relaxed_text() or None,
            )  # fmt: skip
        return found

    def shared_rows(self) -> dict[str, NotedValue]:
        keys = list(next(iter(self.shared.values())).values) if self.shared else []
        rows = {}
        for k, key in enumerate(keys):
            values = np.array([own.values[key] for own in self.shared.values()])
            rows[f"{key}.mean"] = NotedValue(float(values.mean()), "of the records, each fitted as a whole")
            rows[f"{key}.scatter"] = NotedValue(float(values.std(ddof=1)) if values.size > 1 else None)
            for name, own in self.shared.items():
                rows[f"{key}.{name}"] = NotedValue(own.values[key])
                rows[f"{key}.{name}.sd"] = NotedValue(float(np.sqrt(own.covariance[k, k])))
        return rows

    def balance_rows(self) -> dict[str, NotedValue]:
        """Medians over the records of what the measured momentum changes by in a catch."""
        each = [own.measured_balance.change() for own in self.records.values() if own.measured_balance is not None]
        changes = np.array([change for change in each if change is not None], dtype=np.float64)
        if not changes.size:
            return {}
        note = "median of the records: change of measured momentum over the catch"
        return {
            "linear": NotedValue(float(np.median(changes[:, 0])), note, "N s"),
            "linear.sd": NotedValue(float(np.median(changes[:, 1])), "", "N s"),
            "angular": NotedValue(float(np.median(np.abs(changes[:, 2]))), note, "N m s"),
            "angular.sd": NotedValue(float(np.median(changes[:, 3])), "", "N m s"),
        }

    def title(self) -> str:
        return f"Predictions of {len(self.records)} records"

    def headline(self) -> str:
        medians = "; ".join(
            f"{name}: {format_number(1e3 * own.place, 3)} mm, {format_number(1e3 * own.yaw, 3)} mrad"
            for name, own in self.medians().items()
        )
        return (
            f"{self.count_within(2.0)} of {len(self.records)} records end within 2 standard deviations of their "
            f"prediction, {self.count_within(3.0)} within 3." + (f" Median rms: {medians}." if medians else "")
        )

    def summary(self) -> str:
        explained = sum(
            own.comparison.chi_square.ratio <= own.comparison.chi_square.bounds()[1] for own in self.records.values()
        )
        text = (
            f"Each record is fitted until its part to be judged, {format_number(self._median_duration(), 3)} s in the "
            f"median, which is predicted. The stated uncertainties explain all judged readings of {explained} records."
        )
        if self.shared:
            text += " Shared numbers of a record come from the other records."
        failed = [f"{name} ({why})" for name, why in self.failed.items() if name not in self.records]
        if failed:
            text += f" Not predicted: {'; '.join(failed)}."
        return text

    def _median_duration(self) -> float:
        return float(np.median([own.run.end_time - own.fit for own in self.records.values()]))

    def certificate(self) -> Mapping[str, Checks]:
        explained = max(own.comparison.chi_square.ratio for own in self.records.values())
        bound = min(own.comparison.chi_square.bounds()[1] for own in self.records.values())
        note = "largest chi-square for each judged reading of a record, against its 99.9 % bound"
        most = max(self.records.values(), key=lambda own: own.comparison.curvature)
        asked = max((own.comparison.numbers for own in self.records.values()), key=lambda c: c.ratio / c.bounds()[1])
        return {
            **(next(iter(self.records.values())).run.certificate or {}),
            "explained": Check(explained, bound, "", note),
            "numbers": Check(asked.ratio, asked.bounds()[1], "", "the same of uncertain numbers"),
            "predicted": Check(
                float(len({*self.failed} - {*self.records})), 0.0, "", "records that were not predicted"
            ),
            "linear": most.certificate()["linear"],
        }

    def settings(self) -> Mapping[str, Any]:
        return {name: own.record.source for name, own in self.records.items()}

    def data(self) -> Any:
        names = list(next(iter(self.records.values())).comparison.channels)
        z = np.array([[own.comparison.channels[name].end_z for name in names] for own in self.records.values()])
        rms = np.array([[own.comparison.channels[name].rms for name in names] for own in self.records.values()])
        records = ("record", np.array(list(self.records)), "", "name")
        quantities = ("quantity", np.array(names), "", "name")
        return dataset(
            {"record": records, "quantity": quantities},
            {"end_z": (("record", "quantity"), z, "1", "at the end, in standard deviations"),
             "rms": (("record", "quantity"), rms, "", "of the judged part, SI")},
        )  # fmt: skip

    def scene(self) -> Scene:
        """A view for each record, the one that is explained worst first."""
        worst = sorted(self.records, key=lambda name: -self.records[name].comparison.chi_square.ratio)
        views = [(name, self.records[name].scene().views[0]) for name in worst[:MOST_VIEWS]]
        return Scene(tuple(replace(view, name=name, title=name) for name, view in views))

    def figures(self) -> list[Figure]:
        names = list(next(iter(self.records.values())).comparison.channels)
        figure = new_figure(x="record", y="residual at the end", y_unit="1")
        for k, name in enumerate(names):
            values = [own.comparison.channels[name].end_z for own in self.records.values()]
            figure.add_scatter(x=list(self.records), y=values, mode="markers", name=name, marker={"symbol": k})
        for level in (-2.0, 2.0):
            figure.add_hline(y=level, line={"dash": "dot", "width": 1})
        text = "Residuals of all channels at the end, in standard deviations of prediction and reading."
        found = [Figure("end", figure, text)]
        errors = {name: system_errors(own) for name, own in self.records.items()}
        for what, label, unit in (("place", "rms of the distance", "m"), ("yaw", "rms of the yaw", "rad")):
            figure = new_figure(x="record", y=label, y_unit=unit)
            for system in dict.fromkeys(each for own in errors.values() for each in own):
                sizes = {name: getattr(own[system], what) for name, own in errors.items() if system in own}
                figure.add_bar(x=list(sizes), y=list(sizes.values()), name=system)
            found.append(Figure(what, figure, f"{label.capitalize()} during the judged part, by record."))
        # Of single records: the one that is explained worst.
        worst = max(self.records.values(), key=lambda own: own.comparison.chi_square.ratio)
        return [*found, *worst.figures()[:6]]


def check_records(file: ValidationFile) -> None:
    """Raise an error if a file has both a measured file of its own and records that lack one."""
    if not file.file and any(entry.file is None for entry in file.record):
        number = next(k for k, entry in enumerate(file.record) if entry.file is None)
        raise InputError("is missing", place=f"record[{number}].file", hint="expected the measured file")
