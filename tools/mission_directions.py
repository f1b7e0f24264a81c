"""Whether a worse case is ever judged better: missions that are no go, each flown with one thing made worse.

    python tools/mission_directions.py [missions] [seed]

Missions are drawn near their limits. The target is heavier (mass and inertia by 30 %), tumbles faster, wheels hold
less, the arm's motors are weaker, there is less propellant. Prints a line for each mission, and at the end those that
became go.
"""

from __future__ import annotations

import copy
import sys

import numpy as np
from mission_draws import Mission, draw_near_limits, fly_mission

DIRECTIONS = ("heavier", "faster", "wheels", "motors", "propellant")
#: By which one thing is made worse.
STEP = 0.3


def make_worse(mission: Mission, what: str) -> Mission:
    """The mission with one thing made worse."""
    document = copy.deepcopy(mission.document)
    target, more, less = document["target"], 1.0 + STEP, 1.0 - STEP
    match what:
        case "heavier":
            target |= {"mass": more * target["mass"], "inertia": [more * moment for moment in target["inertia"]]}
        case "faster":
            target["tumble_deg"] = [more * rate for rate in target["tumble_deg"]]
        case "wheels":
            return mission._replace(wheels=less * mission.wheels)
        case "motors":
            return mission._replace(motors=less * mission.motors)
        case "propellant":
            document["limits"]["propellant"] *= less
    return mission._replace(document=document)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    wrong = []
    for number, (mission, first) in zip(range(count), draw_near_limits(rng, "no go"), strict=False):
        found = {what: fly_mission(make_worse(mission, what)) for what in DIRECTIONS}
        notes = ", ".join(f"{what} {later.margin:+.2f}" for what, later in found.items())
        print(f"{number:3d} {mission.words}: {first.words}; {notes}", flush=True)
        for what, later in found.items():
            if later.verdict == "go":
                wrong.append((number, what))
                print(f"    {what}: {later.words}", flush=True)
    print(f"{len(wrong)} of {count * len(DIRECTIONS)} became go by getting worse: {wrong}")


if __name__ == "__main__":
    main()
