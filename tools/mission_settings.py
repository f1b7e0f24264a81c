"""Whether verdicts of missions depend on settings: missions drawn at random, each flown at three settings.

    python tools/mission_settings.py [missions] [seed]

The settings are those that a file leaves open, half the periods that were chosen, and five times the samples with a
tighter tolerance. Prints a line for each mission, and at the end those whose verdict or whose broken limit differs.
"""

from __future__ import annotations

import copy
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.mission.scenario import MissionFindings
from spacearm.study import Session
from spacearm.study.scenario import solve_document

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def draw_mission(rng: np.random.Generator) -> dict[str, Any]:
    """The example without what follows the tumble's end, with another target."""
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for stage in ("identify", "weigh", "decide", "stow", "eject"):
        document.pop(stage, None)
    mass = float(np.exp(rng.uniform(np.log(50.0), np.log(1500.0))))
    edge = (mass / 150.0) ** (1.0 / 3.0)
    moments = np.array([28.0, 24.0, 20.0]) * (mass / 150.0) * edge**2 * rng.uniform(0.9, 1.1, 3)
    angular_rate = rng.normal(size=3)
    angular_rate *= rng.uniform(0.2, 4.0) / np.linalg.norm(angular_rate)
    document["target"] |= {
        "mass": mass,
        "inertia": [*map(float, moments)],
        "size": [1.2 * edge, edge, 0.8 * edge],
        "grasp": {"position": [-0.6 * edge, 0.0, 0.0], "rpy_deg": [0.0, -90.0, 0.0]},
        "tumble_deg": [*map(float, angular_rate)],
    }
    document["strategy"] = str(rng.choice(["matched", "matched", "passive", "biased", "coordinated", "impedance"]))
    return document


def fly_mission(document: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """The verdict in words, and the periods of the laws by stage."""
    mission = solve_document(document, Session(EXAMPLES))[1]
    assert isinstance(mission, MissionFindings)
    periods = {}
    for log in mission.run.commands:
        stage = next(each.stage for each in mission.outcomes if each.end >= log.end - 1e-9)
        if log.law is not None and log.law.period is not None:
            periods.setdefault(stage, log.law.period)
    if mission.is_successful:
        return "go", periods
    return f"{mission.worst.stage}: {mission.worst.binding_limit.name}", periods


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    different = []
    for number in range(count):
        document = draw_mission(rng)
        first, periods = fly_mission(document)
        halved, sampled = copy.deepcopy(document), copy.deepcopy(document)
        for stage in ("approach", "catch", "detumble"):
            if stage in periods:
                halved[stage]["period"] = 0.5 * periods[stage]
        sampled |= {"sample": 0.1, "tolerance": 1e-9}
        verdicts = [first, fly_mission(halved)[0], fly_mission(sampled)[0]]
        target = document["target"]
        same = len(set(verdicts)) == 1
        different += [] if same else [number]
        angular_rate = float(np.linalg.norm(target["tumble_deg"]))
        print(
            f"{number:3d} {document['strategy']:11s} {target['mass']:7.1f} kg {angular_rate:4.2f} deg/s  "
            f"{verdicts[0] if same else verdicts}",
            flush=True,
        )
    print(f"{len(different)} of {count} differ: {different}")


if __name__ == "__main__":
    main()
