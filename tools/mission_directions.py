"""Whether a worse case is ever judged better: missions drawn at random, each flown with one thing made worse.

    python tools/mission_directions.py [missions] [seed]

The target is heavier (mass and inertia by 30 %), turns faster, wheels hold less, the arm's motors are weaker, there is
less propellant. Prints a line for each mission, and at the end those that were no go and became go. An exception may be
right: a heavier target is struck at another place of its tumble, and damping has an optimum; look at the limit.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from mission_settings import EXAMPLES, draw_mission

from spacearm.mission.scenario import MissionFindings
from spacearm.model import Robot, catalogue
from spacearm.study import Session
from spacearm.study.scenario import solve_document

SERVICER = catalogue.load("servicer")


def weaken(robot: Robot, wheels: float = 1.0, motors: float = 1.0) -> Robot:
    """The servicer with less fast wheels, or with weaker and slower motors of its arm."""

    def change(name: str) -> Any:
        joint, is_wheel = robot.joint(name), name in robot.wheel_names
        limits = joint.limits
        if is_wheel:
            return replace(joint, limits=replace(limits, velocity=wheels * limits.velocity))
        return replace(joint, limits=replace(limits, effort=motors * limits.effort, velocity=motors * limits.velocity))

    return replace(robot, joints=tuple(change(name) for name in robot.joint_names))


def make_worse(document: dict[str, Any], what: str) -> tuple[dict[str, Any], Robot]:
    """The mission and the servicer with one thing made worse by 30 %."""
    worse, robot, target = copy.deepcopy(document), SERVICER, document["target"]
    match what:
        case "heavier":
            heavier = {"mass": 1.3 * target["mass"], "inertia": [1.3 * moment for moment in target["inertia"]]}
            worse["target"] |= heavier
        case "faster":
            worse["target"]["tumble_deg"] = [1.3 * rate for rate in target["tumble_deg"]]
        case "wheels":
            robot = weaken(SERVICER, wheels=0.7)
        case "motors":
            robot = weaken(SERVICER, motors=0.7)
        case "propellant":
            worse["limits"]["propellant"] = 0.7 * document["limits"]["propellant"]
    return worse, robot


WAYS = ("heavier", "faster", "wheels", "motors", "propellant")


def judge_mission(document: dict[str, Any], robot: Robot = SERVICER) -> tuple[bool, float, str]:
    """Whether it is a go, its margin, and the limit that binds."""
    found = solve_document(document, Session(EXAMPLES, robots={"servicer": robot}))[1]
    assert isinstance(found, MissionFindings)
    return found.is_successful, found.worst.margin, f"{found.worst.stage}: {found.worst.binding_limit.name}"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    wrong = []
    for number in range(count):
        document = draw_mission(rng)
        is_go, margin, binding = judge_mission(document)
        found = {what: judge_mission(*make_worse(document, what)) for what in WAYS}
        wrong += [(number, what) for what, (later, _, _) in found.items() if later and not is_go]
        notes = ", ".join(f"{what} {later:+.2f}" for what, (_, later, _) in found.items())
        print(
            f"{number:3d} {document['strategy']:11s} {'go' if is_go else 'no go':5s} {margin:+.2f} {binding}; {notes}",
            flush=True,
        )
    print(f"{len(wrong)} of {count * len(WAYS)} became go by getting worse: {wrong}")


if __name__ == "__main__":
    main()
