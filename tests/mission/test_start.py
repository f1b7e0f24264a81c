"""The servicer as it is at time zero: a common drift changes nothing, a rotation of its own is momentum to be taken."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.missions import SHORT, flown, rows

from spacearm.mission._motion import combined_angular_momentum


def test_a_common_drift_changes_nothing() -> None:
    """Galileo: both move through space together, elsewhere; every number of the mission stays."""
    still = SHORT | {"settle": None, "detumble": None}
    moving = {"start__position": [10.0, -4.0, 2.0], "start__velocity": [0.05, -0.03, 0.02]}
    rest, drifting = rows(flown(**still)), rows(flown(**still, **moving))
    assert drifting.keys() == rest.keys()
    for name, value in rest.items():
        if isinstance(value, float):
            assert drifting[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name


def test_the_rotation_of_the_servicer_is_taken_too() -> None:
    mission = flown(**SHORT, start__angular_velocity_deg=[0.2, -0.3, 0.4])
    start = mission.run.start
    assert np.degrees(np.linalg.norm(start["servicer"].base_angular_velocity)) == pytest.approx(np.sqrt(0.29))
    both = combined_angular_momentum(
        mission.flight.actuators.robot,
        start["servicer"].vector[None],
        mission.flight.table.reference_robot,
        start["target"].vector[None],
    )
    found = rows(mission)
    assert mission.outcomes[-1].stage == "detumble", mission.headline()
    assert found["detumble.momentum"] == pytest.approx(float(np.linalg.norm(both)), rel=1e-6)
    assert found["touch.speed"] == pytest.approx(0.02, abs=0.01)
    assert mission.run.sound
