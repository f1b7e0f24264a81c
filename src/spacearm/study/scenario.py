"""Scenario files: which study, which robot, what happens to it; read, run and made a result of in one way for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from spacearm.errors import InputError, SimulationError, SpacearmError, did_you_mean
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, read_document, validated
from spacearm.model.toml_read import SCENARIO_FILE
from spacearm.model.toml_schema import Name
from spacearm.result import Certificate, Result, Row
from spacearm.simulate.ensemble.lanes import ALONE, LanesError
from spacearm.simulate.ensemble.side_by_side import LaneRun
from spacearm.simulate.state import State
from spacearm.study.findings import Findings, RobotFile, rows_of
from spacearm.study.keys import Table, key, question_angles

Progress = Callable[[float, str], None]

#: Name in the file to module and class.
STUDIES = {
    "motion": "spacearm.motion.scenario:MotionFile",
    "workspace": "spacearm.control.workspace_file:WorkspaceFile",
    "impact": "spacearm.impact.scenario:ImpactFile",
    "ejection": "spacearm.ejection.scenario:EjectionFile",
    "capture": "spacearm.capture.scenario:CaptureFile",
    "inertia-identification": "spacearm.identify.inertia.scenario:InertiaFile",
    "joint-identification": "spacearm.identify.joint.scenario:JointFile",
    "mission": "spacearm.mission.scenario:MissionFile",
}


def register(name: str, place: str) -> None:
    """Make a study of another package known: its name in scenario files, and ``module:class`` of its file."""
    STUDIES[name] = place


@dataclass(frozen=True)
class Session:
    """One run of a scenario: where files are looked for, what was asked for on the command line."""

    folder: Path
    cross_check: bool = False
    tell: Progress = lambda share, what: None
    robots: Mapping[str, Robot] = field(default_factory=dict)

    def robot(self, name: str, place: str = "robot") -> Robot:
        """One of ``robots``, of a file relative to the scenario's folder, or of the catalogue."""
        with at(place):
            return self.robots[name] if name in self.robots else find_robot(name, self.folder)

    def part(self, low: float, high: float, what: str) -> Callable[[float, float], None]:
        """Progress of a part of the work, as ``done, total``, on the scale of the whole."""
        return lambda done, total: self.tell(
            low + (high - low) * done / max(total, 1e-300), f"{what}: {done:.4g} of {total:.4g}"
        )


class StudyFile(Table):
    """The whole scenario file of a study."""

    #: Whether a cross-check needs MuJoCo; where it is missing, that is reported before the run.
    needs_mujoco: ClassVar[bool] = True

    study: Name = key("motion", "which study")
    robot: Name = key(what="a robot file, relative to the scenario, or a name of the catalogue")
    title: Name = key("", "head of the page")

    def solve(self, session: Session) -> Findings:
        """The study itself."""
        raise NotImplementedError

    def lane(self, session: Session) -> Lane:
        """The same as a run that can be made beside others."""
        raise LanesError(f"is {self.study!r}, whose runs cannot be made side by side", place="study",
                         hint=f'expected study = "motion" with method.kind = "rk4"; or {ALONE}')  # fmt: skip


class Lane(NamedTuple):
    """A run to be made beside others, and what the study finds in its end."""

    run: LaneRun
    found: Callable[[State], Findings]


def study_of(path: str | Path) -> str:
    """The study that a scenario file is for, an :class:`InputError` if there is no such."""
    path = Path(path)
    try:
        return _study(_read(path))
    except InputError as error:
        raise error if error.file is not None else error.in_file(path) from None


def _read(path: Path) -> dict[str, Any]:
    return read_document(path, 'study = "..." and robot = "..."', SCENARIO_FILE)


def _study(document: dict[str, Any]) -> str:
    study = document.get("study", "motion")
    if not isinstance(study, str) or study not in STUDIES:
        raise InputError(f"there is no study {study!r}", place="study", hint=did_you_mean(str(study), STUDIES))
    return study


def run_scenario(path: str | Path, *, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Run the scenario in a file.

    Raises:
        InputError: with file and place, whatever is wrong with the file.
        SimulationError: with the same, where a run could not go on.
    """
    path = Path(path)
    document = _read(path)
    try:
        result = run_document(document, folder=path.parent, cross_check=cross_check, progress=progress)
        return replace(result, source=path.name)
    except SpacearmError as error:
        if error.file is None:
            error.place = error.place or f"study {document.get('study', 'motion')!r}"  # never a file alone
            raise error.in_file(path) from error.__cause__
        raise
    except MemoryError as error:
        hint = "expected fewer samples, runs or pixels"
        place = f"study {document.get('study', 'motion')!r}"
        raise SimulationError(f"the memory does not suffice: {error}", place=place, file=path, hint=hint) from error


def run_document(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Progress | None = None,
    robots: Mapping[str, Robot] | None = None,
) -> Result:
    """Run the scenario of these tables.

    Args:
        folder: where relative files are looked for.
        robots: by the names that the scenario has for them, in place of files and the catalogue.
    """
    session = Session(folder, cross_check, progress or (lambda share, what: None), robots or {})
    file, found = solve_document(document, session)
    session.tell(0.95, "drawing")
    result = Result(
        _study(document),
        tuple(rows_of(found)),
        Certificate(found.certificate()),
        {"robot": file.robot, **found.settings()},
        found.data(),
        found.figures(),
        file.title or found.title(),
        found.summary(),
        headline=found.headline(),
        scene=found.scene(),
        limits=found.limits(),
    )
    robot = found.robot_file()
    return result if robot is None else with_robot(result, robot)


def study_file(document: dict[str, Any]) -> StudyFile:
    """The scenario of these tables, checked."""
    module, _, name = STUDIES[_study(document)].partition(":")
    kind: type[StudyFile] = getattr(import_module(module), name)
    file = validated(kind, document)
    question_angles(file)
    return file


def solve_document(document: dict[str, Any], session: Session) -> tuple[StudyFile, Findings]:
    """The file of these tables and what its study finds; nothing is drawn."""
    file = study_file(document)
    if session.cross_check and file.needs_mujoco:
        from spacearm.simulate.check.mujoco_twin import load_mujoco

        load_mujoco()
    return file, file.solve(session)


def with_robot(result: Result, robot: RobotFile) -> Result:
    """The result with a robot file, or with the reason why there is none."""
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
