"""Parts that fail in flight: what they would have given is missing, and the mission is judged with what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tests.support.missions import SHORT, flown, rows

from spacearm.errors import InputError

UP_TO_THE_CATCH = SHORT | {"settle": None, "detumble": None}


def test_a_dead_wheel_and_a_dead_thruster_give_nothing() -> None:
    """Rotor without torque: its angular velocity in space about its axis stays, whatever the bus does (Euler)."""
    dead = [{"part": "wheel_y", "time": 0.0}, {"part": "thruster5", "time": 40.0}]
    mission = flown(**SHORT, failure=dead, strategy="coordinated", detumble__actuator="thrusters")
    data, found = mission.data(), rows(mission)
    assert mission.outcomes[-1].stage == "detumble", mission.headline()
    assert (found["failures.wheel_y"], found["failures.thruster5"]) == (0.0, 40.0)
    turn = Rotation.from_quat(data["base_quaternion"].values, scalar_first=True)
    angular_rate = turn.inv().apply(data["base_angular_velocity"].values)
    rates = data["joint_velocity"].sel(joint=["wheel_x", "wheel_y"]).values + angular_rate[:, :2]
    assert np.abs(rates[:, 1]).max() < 1e-9
    assert np.abs(rates[:, 0]).max() > 1.0
    fired = {
        str(name)
        for name, at in zip(data["pulse_thruster"].values, data["pulse_begin"].values, strict=True)
        if at > 40.0
    }
    assert fired
    assert "thruster5" not in fired
    assert mission.run.sound


def test_a_dead_motor_ends_the_approach() -> None:
    mission = flown(**UP_TO_THE_CATCH, failure=[{"part": "joint4", "time": 15.0}])
    data = mission.data()
    torque = np.abs(data["joint_force"].sel(joint="joint4"))
    assert float(torque.sel(time=data["time"] < 14.9).max()) > 0.0
    assert float(torque.sel(time=(data["time"] > 15.2) & (data["time"] < 20.0)).max()) == 0.0
    assert not mission.is_successful
    assert mission.run.sound


def test_a_latch_that_does_not_close_is_tried_again() -> None:
    slow = UP_TO_THE_CATCH | {"target__tumble_deg": [0.2, -0.3, 0.15]}
    once = rows(flown(**slow, failure=[{"part": "latch"}]))
    assert (once["success"], once["touch.attempts"]) == (1.0, 2)
    twice = flown(**slow, failure=[{"part": "latch", "attempts": 2}])
    assert (twice.outcomes[-1].stage, twice.outcomes[-1].binding_limit.name) == ("touch", "latch failed")
    assert not twice.is_successful


def test_failures_happen_as_often_as_they_should() -> None:
    """Of 400 seeds a failure of probability 0.3 happens in 120, within four standard deviations of the binomial."""
    from spacearm.mission._failures import FailureTable

    count = sum(FailureTable(part="latch", probability=0.3, seed=seed).happens(0) for seed in range(400))
    assert abs(count - 120) < 4.0 * np.sqrt(400 * 0.3 * 0.7)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ({"part": "wheel_w"}, r"failure\[0\].*part.*wheel_w"),
        ({"part": "latch", "probability": 2.0}, r"failure\[0\]: probability"),
        ({"part": "wheel_x", "time": -1.0}, r"failure\[0\]: time"),
        ({"part": "latch", "attempts": 1.5}, r"failure\[0\]: attempts"),
    ],
)
def test_failures_that_cannot_be_are_errors(failure: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        flown(**UP_TO_THE_CATCH, failure=[failure])
