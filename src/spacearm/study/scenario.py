"""Scenario files: study, robot and tables. Reading, running and the result are common to all studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from spacearm.errors import InputError, SimulationError, SpacearmError, did_you_mean, error_context
from spacearm.model import Robot
from spacearm.model.document import read_document, validate_tables
from spacearm.model.mounts import assemble_robot
from spacearm.model.toml_read import SCENARIO_FILE
from spacearm.model.toml_schema import BaseKey, Name
from spacearm.result import Certificate, Result, Row
from spacearm.simulate.ensemble.vectorised_phases import RUN_WITHOUT_DEVICE, VectorisedError
from spacearm.simulate.ensemble.vectorised_runs import VectorisedRun
from spacearm.simulate.loops import freeze_joints
from spacearm.simulate.state import State
from spacearm.study.bases import BASE_MEANING, check_base, with_base
from spacearm.study.findings import Findings, IdentifiedRobotFile, make_rows
from spacearm.study.keys import RobotTable, ScenarioTable, key, warn_of_large_angles
from spacearm.study.tables import check_revolute

Progress = Callable[[float, str], None]

#: Name of a study in files, and its module and class.
# As text: a study's module is imported only when a file names it, which keeps the command line fast.
STUDIES = {
    "motion": "spacearm.motion.scenario:MotionFile",
    "workspace": "spacearm.control.workspace_file:WorkspaceFile",
    "impact": "spacearm.impact.scenario:ImpactFile",
    "ejection": "spacearm.ejection.scenario:EjectionFile",
    "capture": "spacearm.capture.scenario:CaptureFile",
    "inertia-identification": "spacearm.identify.inertia.scenario:InertiaFile",
    "joint-identification": "spacearm.identify.joint.scenario:JointFile",
    "ground-identification": "spacearm.identify.ground.scenario:GroundFile",
    "free-flight-identification": "spacearm.identify.free_flight.scenario:FreeFlightFile",
    "mission": "spacearm.mission.scenario:MissionFile",
    "validation": "spacearm.validation.scenario:ValidationFile",
}


def register(name: str, place: str) -> None:
    """Register a study of another package: its name in scenario files, and ``module:class`` of its file."""
    STUDIES[name] = place


@dataclass(frozen=True)
class Session:
    """Context of one run of a scenario: folder for files, options of the command line, progress."""

    folder: Path
    cross_check: bool = False
    report_progress: Progress = lambda share, what: None
    robots: Mapping[str, Robot] = field(default_factory=dict)

    def robot(
        self, source: RobotTable | str, place: str = "robot", *, any_base: bool = False, loops: bool = False
    ) -> Robot:
        """A robot from ``robots``, from a file relative to the scenario's folder, or from the catalogue, with mounts.

        ``any_base``, ``loops``: whether bases that are not free, and closed loops, are supported.
        """
        with error_context(place):
            table = RobotTable.from_key(source)
            # Robots given by the caller (campaigns vary them) take precedence over files.
            robot = assemble_robot(table, self.folder, self.robots.get(table.file))
            if frozen := table.si_value("freeze"):
                with error_context("freeze"):
                    check_revolute(robot, table.freeze_deg or (), "freeze")
                    robot = freeze_joints(robot, frozen)
            if not (any_base or robot.base.is_free):
                hint = "expected a file without [base]"
                raise InputError(f"the base of {robot.name!r} is {robot.base.kind}; it must be free here", hint=hint)
            if robot.loops and not loops:
                raise InputError(
                    f"{robot.name!r} has closed loops: this study supports trees only",
                    hint="robot = { file = ..., freeze = { joint = position } } makes a linkage rigid by the joint "
                    'that drives it, loops = false leaves the loops out; study = "motion" supports them',
                )
            return robot

    def partial_progress(self, low: float, high: float, what: str) -> Callable[[float, float], None]:
        """Progress function of a part of the work, called with ``done, total``, on the scale of the whole."""
        return lambda done, total: self.report_progress(
            low + (high - low) * done / max(total, 1e-300), f"{what}: {done:.4g} of {total:.4g}"
        )

    def part(self, low: float, high: float) -> Session:
        """The same session for a part of the work, whose progress goes from ``low`` to ``high``."""
        return replace(self, report_progress=lambda s, what: self.report_progress(low + (high - low) * s, what))


class StudyFile(ScenarioTable):
    """The whole scenario file of a study."""

    #: Whether a cross-check needs MuJoCo; if MuJoCo is missing, that is reported before the run.
    needs_mujoco: ClassVar[bool] = True

    study: Name = key("motion", "name of the study")
    robot: RobotTable = key(
        what="robot file, relative to the scenario, or a name in the catalogue; or a table: `spacearm keys robot`"
    )
    base: BaseKey | None = key(None, BASE_MEANING)
    title: Name = key("", "title of the page")

    def load_robot(self, session: Session, *, loops: bool = False) -> Robot:
        """The robot on its base; an error where that does not suit the study. ``loops``: see :meth:`Session.robot`."""
        return check_base(with_base(session.robot(self.robot, any_base=True, loops=loops), self.base), self.study)

    def solve(self, session: Session) -> Findings:
        """Run the study and return its findings."""
        raise NotImplementedError

    def prepare_lane(self, session: Session) -> VectorisedStudy:
        """The scenario as one lane of a vectorised batch."""
        raise VectorisedError(
            f"is {self.study!r}, whose runs cannot be vectorised",
            place="study",
            hint=f'expected study = "motion" with method.kind = "rk4"; or {RUN_WITHOUT_DEVICE}',
        )


class VectorisedStudy(NamedTuple):
    """A run for a vectorised batch, and the function that evaluates its final state."""

    run: VectorisedRun
    make_findings: Callable[[State], Findings]


def read_study_name(path: str | Path) -> str:
    """Name of the study of a scenario file.

    Raises an :class:`InputError` if there is no such study.
    """
    path = Path(path)
    try:
        return _study(_read(path))
    except InputError as error:
        # An error of a file within the scenario names that file already.
        raise error if error.file is not None else error.with_file(path) from None


def _read(path: Path) -> dict[str, Any]:
    return read_document(path, 'study = "..." and robot = "..."', SCENARIO_FILE)


def _study(document: dict[str, Any]) -> str:
    study = document.get("study", "motion")
    if not isinstance(study, str) or study not in STUDIES:
        raise InputError(f"there is no study {study!r}", place="study", hint=did_you_mean(str(study), STUDIES))
    return study


def run_scenario(
    path: str | Path, *, cross_check: bool = False, progress: Progress | None = None, data: str | Path | None = None
) -> Result:
    """Run the scenario in a file.

    Args:
        data: folder of the measured files, in place of the scenario's key ``data``.

    Raises:
        InputError: something is wrong with the file; states file and place.
        SimulationError: a run could not continue; states file and place.
    """
    path = Path(path)
    document = _read(path)
    if data is not None:
        if "data" not in document:
            hint = "only scenarios with that key have measured files in a folder of their own"
            raise InputError("has no key 'data', which --data would replace", place="data", file=path, hint=hint)
        document["data"] = str(Path(data).absolute())
    try:
        result = run_document(document, folder=path.parent, cross_check=cross_check, progress=progress)
        return replace(result, source=path.name)
    except SpacearmError as error:
        if error.file is None:
            error.place = error.place or f"study {document.get('study', 'motion')!r}"  # never a file alone
            raise error.with_file(path) from error.__cause__
        raise
    # A user can mend this by other keys: an error of the scenario, not a traceback.
    except MemoryError as error:
        hint = "reduce the number of samples, runs or pixels"
        place = f"study {document.get('study', 'motion')!r}"
        raise SimulationError(f"out of memory: {error}", place=place, file=path, hint=hint) from error


def run_document(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Progress | None = None,
    robots: Mapping[str, Robot] | None = None,
) -> Result:
    """Run the scenario given as tables.

    Args:
        folder: folder to which file names are relative.
        robots: robots by the names that the scenario uses, in place of files and the catalogue.
    """
    session = Session(folder, cross_check, progress or (lambda share, what: None), robots or {})
    file, found = solve_document(document, session)
    # Figures are made last: campaigns skip them.
    session.report_progress(0.95, "figures")
    result = Result(
        _study(document),
        tuple(make_rows(found)),
        Certificate(found.certificate()),
        {"robot": str(file.robot), **found.settings()},
        found.data(),
        found.figures(),
        file.title or found.title(),
        found.summary(),
        headline=found.headline(),
        scene=found.scene(),
        limits=found.limits(),
        go=found.decides(),
        undecided=found.undecided(),
    )
    robot = found.robot_file()
    return result if robot is None else with_robot(result, robot)


def study_file(document: dict[str, Any]) -> StudyFile:
    """Scenario file object of these tables, validated."""
    module, _, name = STUDIES[_study(document)].partition(":")
    kind: type[StudyFile] = getattr(import_module(module), name)
    file = validate_tables(kind, document)
    warn_of_large_angles(file)
    return file


def solve_document(document: dict[str, Any], session: Session) -> tuple[StudyFile, Findings]:
    """Scenario file object of these tables and the findings of its study; no figures are made."""
    file = study_file(document)
    if session.cross_check and file.needs_mujoco:
        from spacearm.simulate.check.mujoco_model import load_mujoco

        # Before the run: a missing package should not be found after an hour.
        load_mujoco()
    return file, file.solve(session)


def with_robot(result: Result, robot: IdentifiedRobotFile) -> Result:
    """The result with a robot file, or with the reason why none was written."""
    # A robot file is read by other studies: nothing unsound may get into it.
    why = robot.obstacle or ("" if result.sound else "the result is not sound")
    if not why:
        files = {**result.files, robot.name: robot.text()}
        return replace(result, settings={**result.settings, "written": robot.name}, files=files)
    note = f"{robot.name} was not written: {why}"
    return replace(
        result,
        settings={**result.settings, "written": ""},
        rows=[*result.rows, Row("written", None, note=note)],
        summary=f"{result.summary}\n\n{note}.",
    )
