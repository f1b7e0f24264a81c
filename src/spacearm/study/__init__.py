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

from spacearm.study.findings import (
    Findings,
    IdentifiedRobotFile,
    NotedValue,
    dataset,
    joint_values,
    largest_difference,
    mujoco_check,
    row,
    xyz,
)
from spacearm.study.keys import ScenarioTable, check_distinct, key, keyword_maker, validation_error
from spacearm.study.scenario import Session, StudyFile, register, run_document, run_scenario

__all__ = [
    "Findings",
    "IdentifiedRobotFile",
    "NotedValue",
    "ScenarioTable",
    "Session",
    "StudyFile",
    "check_distinct",
    "dataset",
    "joint_values",
    "key",
    "keyword_maker",
    "largest_difference",
    "mujoco_check",
    "register",
    "row",
    "run_document",
    "run_scenario",
    "validation_error",
    "xyz",
]
