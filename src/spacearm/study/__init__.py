"""The common shape of a study: the tables of a scenario file in, a :class:`~spacearm.result.Result` out.

A study is a :class:`StudyFile`, whose ``solve`` returns :class:`Findings`::

    class MassFile(StudyFile):
        start: StateTable = StateTable()

        def solve(self, session: Session) -> Mass:
            robot = session.robot(self.robot)
            return Mass(mass=robot.mass)


    class Mass(Findings):
        mass: float = row("kg", "of all bodies")


    register("mass", "my_package.mass:MassFile")

Rows come from the fields of the findings; reading, errors with their place, progress, certificate and pages are common
to all. A study's module is imported only when its study is asked for.
"""

from __future__ import annotations

from spacearm.study.findings import Findings, Noted, RobotFile, agreement, by_joint, dataset, largest, row, xyz
from spacearm.study.keys import Table, distinct, key, makes, refused
from spacearm.study.scenario import Session, StudyFile, register, run_document, run_scenario

__all__ = [
    "Findings",
    "Noted",
    "RobotFile",
    "Session",
    "StudyFile",
    "Table",
    "agreement",
    "by_joint",
    "dataset",
    "distinct",
    "key",
    "largest",
    "makes",
    "refused",
    "register",
    "row",
    "run_document",
    "run_scenario",
    "xyz",
]
