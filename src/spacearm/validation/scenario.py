"""Validation from a scenario file: the prediction of measured runs, with measured inputs and readings of records."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from spacearm.model.toml_schema import Duration, Name, Number
from spacearm.motion.scenario import MotionFile
from spacearm.study import Session, StudyFile, key
from spacearm.study.keys import check_distinct
from spacearm.study.scenario import VectorisedStudy
from spacearm.study.tables import ClockTable
from spacearm.validation._findings import ValidationFindings, make_findings
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation._records import RecordsFindings, check_records, compare_records
from spacearm.validation._tables import (
    MarkerTable,
    MeasuredCatchTable,
    MeasuredInputTable,
    PushTable,
    TuneTable,
    UncertainTable,
    ValidationChannelTable,
    ValidationRecordTable,
)
from spacearm.validation._tuning import TuningFindings, tune_records
from spacearm.validation.comparison import compare_by_linearisation


class ValidationFile(MotionFile):
    """The prediction of a measured run, or of several."""

    needs_mujoco: ClassVar[bool] = False

    data: Name = key(".", "folder of the measured files, relative to the scenario; `spacearm run --data` overrides it")
    file: Name = key(
        "", "CSV, Parquet, NetCDF, HDF5, MATLAB, NumPy or PyTorch file, relative to `data`; columns of a file that "
        "does not name them are `[0]`, `[1]` ...",
    )  # fmt: skip
    time: ClockTable = key(ClockTable(column="time", unit="s"), "column of the time, or the rate of the rows")
    repeats: Literal["reject", "merge"] = key(
        "reject", "rows of the same time: an error, or one row with the last reading of each column"
    )
    clock_sd: Number = key(0.0, "standard deviation of the time of a reading, s; adds to `sd` where a quantity moves")
    begin: Number = key(0.0, "time of the file at which the run starts, s")
    measured_start: Duration | None = key(
        None, "place, yaw, joints and their rates at the start are taken from the readings of the first so many "
        "seconds, and fitted with the uncertain numbers",
    )  # fmt: skip
    fit: Number = key(0.0, "uncertain numbers are fitted to the readings of the first so many seconds; 0: none are")
    fit_parts: list[Number] = key(
        [], "shorter parts that are fitted before, ascending, s: for a vibration whose frequency is off"
    )
    catch: MeasuredCatchTable | None = key(None, "a capture at a time that was measured or is estimated")
    channel: list[ValidationChannelTable] = key(what="what was measured, and is predicted", min_length=1)
    input: list[MeasuredInputTable] = key([], "what acted, as it was measured")
    marker: list[MarkerTable] = key([], "markers on links; with them joint angles need not be measured", max_length=100)
    joints_from_markers: list[Name] = key([], "joints that follow the angles that the markers show")
    push: list[PushTable] = key([], "what acted and was not measured", max_length=50)
    uncertain: list[UncertainTable] = key([], "numbers that are not exactly known", max_length=50)
    relax: bool = key(True, "search for the assumption that, if relaxed, explains what is left")
    record: list[ValidationRecordTable] = key(
        [], "several records of the experiment, instead of `file`", max_length=200
    )

    tune: TuneTable | None = key(None, "numbers tuned on some of the records and tried on the others")

    def solve(self, session: Session) -> ValidationFindings | RecordsFindings | TuningFindings:
        """Predict and compare."""
        if self.tune is not None:
            check_distinct(self.record, "record", "name")
            return tune_records(self, session)
        if self.record:
            check_distinct(self.record, "record", "name")
            check_records(self)
            return compare_records(self, session)
        return self.compare_record(session)

    def compare_record(self, session: Session) -> ValidationFindings:
        """Predict and compare the record of this file."""
        measured = MeasuredRun(self, session).with_measured_parts()
        # Runs with changed numbers take nearly all the time: 2 N + 1 of them for each linearisation.
        progress = session.partial_progress(0.1, 0.9, "runs with other numbers")
        linear = measured.stacked_readings.linearise(np.zeros(len(measured.file.uncertain)), progress)
        compared = compare_by_linearisation(measured.stacked_readings, linear, measured.fit, parts=measured.fit_parts)
        return make_findings(measured, compared)

    def prepare_lane(self, session: Session) -> VectorisedStudy:
        """Refused: it is many runs already."""
        return StudyFile.prepare_lane(self, session)
