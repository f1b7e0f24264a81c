"""Scenario files: which study, which robot, what happens to it.

``study`` names the study; each has a module with one function that is called here::

    def run(document: dict, *, folder: Path, cross_check: bool, progress: Progress | None) -> Result: ...

A study's own scenario lies in its room (``spacearm.<study>.scenario``), the plain run in time in
:mod:`spacearm.scenarios.motion`. A module is imported only when its study is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from spacearm.errors import InputError, SpacearmError, did_you_mean
from spacearm.model.document import read_document
from spacearm.result import Result

__all__ = ["STUDIES", "Progress", "run_scenario", "study_of"]

Progress = Callable[[float, str], None]

#: Name in the file to module.
STUDIES = {
    "motion": "spacearm.scenarios.motion",
    "impact": "spacearm.impact.scenario",
    "ejection": "spacearm.ejection.scenario",
    "capture": "spacearm.capture.scenario",
    "inertia-identification": "spacearm.identify.inertia.scenario",
    "joint-identification": "spacearm.identify.joint.scenario",
}


def study_of(path: str | Path) -> str:
    """The study that a scenario file is for, an :class:`InputError` if there is no such."""
    return _study(Path(path), _read(Path(path)))


def _read(path: Path) -> dict[str, Any]:
    return read_document(path, 'study = "..." and robot = "..."')


def _study(path: Path, document: dict[str, Any]) -> str:
    study = document.get("study", "motion")
    if not isinstance(study, str) or study not in STUDIES:
        raise InputError(
            f"there is no study {study!r}", place="study", file=path, hint=did_you_mean(str(study), STUDIES)
        )
    return study


def run_scenario(path: str | Path, *, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Run the scenario in a file.

    Raises:
        InputError: with file and place, whatever is wrong with the file.
        SimulationError: with the same, where a run could not go on.
    """
    path = Path(path)
    document = _read(path)
    study = _study(path, document)
    try:
        result: Result = import_module(STUDIES[study]).run(
            document, folder=path.parent, cross_check=cross_check, progress=progress
        )
    except SpacearmError as error:
        if error.file is None:
            error.place = error.place or f"study {study!r}"  # never a file alone
            raise error.in_file(path) from error.__cause__
        raise
    return result
