"""An approach that is given up, at any time or because a limit breaks: the arm goes back, with its own verdict."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BPoly
from tests.support.missions import SHORT, flown, rows

from spacearm.mission._finish import _plan_return

UP_TO_THE_CATCH = SHORT | {"settle": None, "detumble": None}


def test_the_path_is_the_quintic_of_its_ends() -> None:
    path, other = (
        _plan_return(0.4, -0.05, 1.3, 12.0),
        BPoly.from_derivatives([0.0, 12.0], [[0.4, -0.05, 0.0], [1.3, 0.0, 0.0]]),
    )
    for time in np.linspace(0.0, 12.0, 7):
        assert path(float(time)) == pytest.approx(float(other(time)), abs=1e-12)
    assert path(15.0) == 1.3


@pytest.mark.parametrize("time", [10.0, 27.5])
def test_an_approach_can_be_given_up(time: float) -> None:
    mission = flown(**UP_TO_THE_CATCH, retreat={"time": time, "duration": 25.0})
    found = rows(mission)
    assert [each.stage for each in mission.outcomes] == ["approach", "touch", "retreat"][:: 2 if time < 30.0 else 1]
    assert mission.flight.verdict == "abort"
    assert mission.outcomes[-1].begin == pytest.approx(time)
    assert found["retreat.distance"] > 0.1
    assert mission.run.sound
    joints = mission.data()["joint_position"].sel(joint=[*mission.flight.actuators.arm])
    np.testing.assert_allclose(joints.isel(time=-1), joints.isel(time=0), atol=5e-3)
    assert mission.is_successful
    assert mission.headline().startswith(f"Go: the approach is given up after {time:.3g} s")


def test_after_the_catch_it_is_too_late() -> None:
    mission = flown(**UP_TO_THE_CATCH, retreat={"time": 35.0})
    assert [each.stage for each in mission.outcomes] == ["approach", "touch", "catch"]


def test_the_arm_goes_back_from_a_target_that_is_too_fast() -> None:
    mission = flown(**UP_TO_THE_CATCH, retreat={}, target__tumble_deg=[6.0, -9.0, 4.5])
    first, last = mission.outcomes
    assert (first.stage, first.binding_limit.name, last.stage) == ("approach", "rate limit", "retreat")
    assert not mission.is_successful
    assert "The arm goes back" in mission.headline()
