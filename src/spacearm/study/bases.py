"""How the base of a robot may move in each study: one table, and the way from a scenario's key to the robot."""

from __future__ import annotations

from collections.abc import Mapping

from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.base import BASE_KINDS
from spacearm.model.toml_schema import BaseTable
from spacearm.model.toml_values import base_of

#: Meaning of the key ``base`` of a robot.
BASE_MEANING = (
    "how the base may move: `free`, `planar` (an air-bearing table), `rail`, `held`, or "
    "`{ kind = \"planar\", axis = [0, 0, 1] }` with the normal or the rail's direction in base axes; as in the robot's "
    "file if omitted"
)
_THROWN = (
    "a body in free flight turns about all its axes",
    'on a table or rail: study = "inertia-identification", with the wheel as a joint of the robot',
)
_WEIGHED = (
    "it takes the base as held, and does not use its motion",
    'on a table or rail: study = "inertia-identification" uses the motion, and no torques',
)
#: Study to the bases that it does not support, each with why and what to do. Studies that are not here support all.
UNSUITABLE: dict[str, dict[str, tuple[str, str]]] = {
    "ejection": {
        "held": ("a base that is held is not ejected", 'study = "motion" moves an arm on a held base'),
        "rail": ("the arm leaves the rail of its device", "expected the direction of that rail as device.direction"),
    },
    "inertia-identification": {
        "held": ("a held base shows no momentum", 'study = "ground-identification" uses the torques of the joints'),
    },
    "free-flight-identification": {"planar": _THROWN, "rail": _THROWN, "held": _THROWN},
    "ground-identification": {"planar": _WEIGHED, "rail": _WEIGHED},
}


def with_base(robot: Robot, table: BaseTable | None) -> Robot:
    """The robot with the base of this table, or its own."""
    return robot if table is None else robot.replace(base=base_of(table, "base"))


def check_base(robot: Robot, study: str) -> Robot:
    """The same robot; an error, with the reason, where its base does not suit the study."""
    unsuitable: Mapping[str, tuple[str, str]] = UNSUITABLE.get(study, {})
    kind = robot.base.kind
    if kind in unsuitable:
        why, hint = unsuitable[kind]
        suits = " or ".join(each for each in BASE_KINDS if each not in unsuitable)
        raise InputError(
            f"the base of {robot.name!r} is {kind}, and this study supports {suits}: {why}", place="base", hint=hint
        )
    return robot
