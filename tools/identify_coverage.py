"""How often the intervals of a mission's identification contain the truth: one record, many draws of the noise.

    python tools/identify_coverage.py 200

The mission is flown once. A repetition draws the sensors' noise anew and identifies again. Printed are the shares of
the 95 % intervals (1.96 standard deviations) that hold the truth: of each of the target's ten numbers, of mass and
inertia together.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import numpy as np

from spacearm.identify.inertia.inertia_parameters import PLAIN, plain_of
from spacearm.mission.scenario import MissionFindings
from spacearm.study import Session
from spacearm.study.scenario import solve_document
from spacearm.typing import Array

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Standard deviations of an interval that holds 95 %.
WIDTH = 1.959964


def hits(repetitions: int, seed: int = 0) -> Array:
    """(repetitions, 10) whether each interval holds the truth."""
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text(encoding="utf-8"))
    mission = solve_document(document, Session(EXAMPLES))[1]
    assert isinstance(mission, MissionFindings)
    assert mission.flight.identification is not None
    truth = plain_of(mission.flight.table.reference_robot.inertia_parameters[0])
    found = [mission.flight.identification.repeat([seed, k]) for k in range(repetitions)]
    return np.array([np.abs(one.plain - truth) < WIDTH * one.std for one in found])


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    found = hits(count)
    for name, share in zip(PLAIN, found.mean(axis=0), strict=True):
        print(f"{name:5} {100 * share:5.1f} %")
    both = found[:, [0, *range(4, 10)]].mean()
    print(f"mass and inertia: {100 * both:.1f} % of {count} repetitions")
    return 0 if 0.90 <= both <= 0.98 else 1


if __name__ == "__main__":
    sys.exit(main())
