"""The common structure of a study: tables of a scenario file in, a :class:`~spacearm.result.Result` out.

A study is a :class:`StudyFile`, whose ``solve`` returns :class:`Findings`::

    class MassFile(StudyFile):
        start: StateTable = StateTable()

        def solve(self, session: Session) -> Mass:
            robot = session.robot(self.robot)
            return Mass(mass=robot.mass)

    class Mass(Findings):
        mass: float = row("kg", "of all bodies")

    register("mass", "my_package.mass:MassFile")

Rows come from the fields of the findings. Reading, located errors, progress, certificate and pages are common to all
studies. The module of a study is imported only when the study is run.
"""

from __future__ import annotations

from spacearm.study.findings import Findings, dataset, row
from spacearm.study.keys import ScenarioTable, key
from spacearm.study.scenario import Session, StudyFile, register, run_document, run_scenario

__all__ = [
    "Findings",
    "ScenarioTable",
    "Session",
    "StudyFile",
    "dataset",
    "key",
    "register",
    "row",
    "run_document",
    "run_scenario",
]
