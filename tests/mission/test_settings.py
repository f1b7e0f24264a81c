"""Verdicts are physics: 30 missions near their limits, each at three other settings of laws, record and solver."""

from __future__ import annotations

import numpy as np
from mission_draws import draw_near_limits, fly_mission
from mission_settings import list_settings

#: Of `tools/mission_settings.py`, which has more.
SETTINGS = ("half period", "fine", "coarse")


def test_no_verdict_depends_on_settings() -> None:
    verdicts = []
    for _, (mission, first) in zip(range(30), draw_near_limits(np.random.default_rng(2)), strict=False):
        others = {name: fly_mission(other) for name, other in list_settings(mission, first) if name in SETTINGS}
        assert set(others) == {*SETTINGS}
        assert {name: other.verdict for name, other in others.items()} == dict.fromkeys(SETTINGS, first.verdict), (
            mission.words
        )
        verdicts.append(first.verdict)
    # Some of each: else nothing was near its limits.
    assert min(verdicts.count("go"), verdicts.count("no go")) >= 10
