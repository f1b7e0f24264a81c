"""Whether verdicts of missions depend on settings: missions drawn near their limits, each flown at other settings.

    python tools/mission_settings.py [missions] [seed]

The settings are those that a file leaves open; half and twice the periods that were chosen; five times the samples
with a tighter tolerance; half the samples with a looser one. Also varied is what is known only to within some doubt:
mass and inertia that laws assume of the target, 3 % off either way. Prints a line for each mission, and at the end how
many verdicts and decisions differ by setting, and how far margins moved. Verdicts are those of the flights alone, go or
no go; decisions are GO, NO GO or UNDECIDED: what a mission's page says. A GO must not become a NO GO or the reverse.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
from mission_draws import Flown, Mission, draw_near_limits, fly_mission

#: By which mass and inertia that are assumed may be off.
DOUBT = 0.03
#: Stages whose laws have a period of their own.
SAMPLED = {"approach", "catch", "detumble", "stow"}


def list_settings(mission: Mission, flown: Flown) -> Iterator[tuple[str, Mission]]:
    """The mission at other settings, each with its name."""
    for name, factor in (("half period", 0.5), ("twice period", 2.0)):
        document = copy.deepcopy(mission.document)
        for stage in SAMPLED & document.keys() & flown.periods.keys():
            document[stage]["period"] = factor * flown.periods[stage]
        yield name, mission._replace(document=document)
    yield "fine", mission._replace(document=mission.document | {"sample": 0.1, "tolerance": 1e-9})
    yield "coarse", mission._replace(document=mission.document | {"sample": 1.0, "tolerance": 1e-7})
    for name, factor in (("lighter model", 1.0 - DOUBT), ("heavier model", 1.0 + DOUBT)):
        document = copy.deepcopy(mission.document)
        target = document["target"]
        inertia = [factor * moment for moment in target["inertia"]]
        target["assumed"] = {"mass": factor * target["mass"], "com": target["com"], "inertia": inertia}
        yield name, mission._replace(document=document)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    different: dict[str, list[int]] = {}
    opposite: dict[str, list[int]] = {}
    decisions = Counter[str]()
    moved: dict[str, list[float]] = {}
    for number, (mission, _) in zip(range(count), draw_near_limits(rng), strict=False):
        first = fly_mission(mission, decide=True)
        decisions[first.decision] += 1
        print(f"{number:3d} {mission.words}: {first.words}", flush=True)
        for name, other in list_settings(mission, first):
            flown = fly_mission(other, decide=True)
            moved.setdefault(name, []).append(abs(flown.margin - first.margin))
            different.setdefault(name, [])
            opposite.setdefault(name, [])
            # Beyond the stable range of a loop there is nothing to compare: it is named.
            is_outside = "unstable" in flown.binding and "unstable" not in first.binding
            if flown.verdict != first.verdict and not is_outside:
                different[name].append(number)
            if {first.decision, flown.decision} == {"GO", "NO GO"} and not is_outside:
                opposite[name].append(number)
            if flown.decision != first.decision or flown.binding != first.binding:
                print(f"    {name}: {flown.words}", flush=True)
    print(", ".join(f"{number} {name}" for name, number in decisions.items()))
    for name, numbers in different.items():
        typical, most = np.median(moved[name]), np.max(moved[name])
        print(
            f"{name}: {len(numbers)} of {count} verdicts differ {numbers}, {len(opposite[name])} decisions are reversed"
            f" {opposite[name]}; margins differ by {typical:.1e}, at most {most:.1e}"
        )


if __name__ == "__main__":
    main()
