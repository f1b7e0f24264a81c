"""Truth and estimate: the filter of the target's motion, and what its errors do to a mission."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from scipy.stats import chi2
from tests.support.missions import SHORT, flown, rows

from spacearm.errors import InputError, ModelError
from spacearm.mission._navigation import FreeBody, MotionFilter, shift_state
from spacearm.model import Body, Inertia, Robot
from spacearm.simulate import Orbit, State, World, simulate

INERTIA = np.array([[28.0, 1.0, -2.0], [1.0, 24.0, 0.5], [-2.0, 0.5, 20.0]])
COM, POINT = np.array([0.1, -0.05, 0.2]), np.array([-0.6, 0.1, 0.0])
START = np.concatenate([[1.0, 2.0, 3.0], Rotation.from_rotvec([0.3, -0.2, 0.5]).as_quat(scalar_first=True),
                        [0.01, -0.02, 0.005], np.radians([2.0, -3.0, 1.5])])  # fmt: skip
UP_TO_THE_TOUCH = SHORT | {"settle": None, "detumble": None}
CAMERA = {"position_noise": 5e-3, "angle_noise_deg": 0.5, "delay": 0.2}


def euler(times: np.ndarray) -> tuple[np.ndarray, Rotation, np.ndarray]:
    """Mass centre, attitude and angular velocity of the free body: Euler's equations by SciPy."""

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        turn, angular_rate = Rotation.from_quat(y[:4]), y[4:]
        quaternion = turn.as_quat()
        w, v = quaternion[3], quaternion[:3]
        turned = 0.5 * np.concatenate([w * angular_rate + np.cross(v, angular_rate), [-v @ angular_rate]])
        return np.concatenate([turned, np.linalg.solve(INERTIA, -np.cross(angular_rate, INERTIA @ angular_rate))])

    first = np.concatenate([np.roll(START[3:7], -1), START[10:]])
    found = solve_ivp(rate, (0.0, times[-1]), first, t_eval=times, rtol=1e-11, atol=1e-12).y
    return START[:3] + times[:, None] * START[7:10], Rotation.from_quat(found[:4].T), found[4:].T


def test_a_free_body_moves_as_euler_says() -> None:
    times = np.array([10.0, 60.0])
    place, turn, angular_rate = euler(times)
    for k, time in enumerate(times):
        found = FreeBody(COM, INERTIA).move(START, float(time))
        assert found[:3] == pytest.approx(place[k], abs=1e-12)
        assert (turn[k].inv() * Rotation.from_quat(found[3:7], scalar_first=True)).magnitude() < 1e-6
        assert found[10:] == pytest.approx(angular_rate[k], abs=1e-7)
        assert FreeBody(COM, INERTIA).move(found, -float(time)) == pytest.approx(START, abs=1e-6)


def test_in_an_orbit_it_moves_as_the_simulation() -> None:
    """Hill's equations of body and attitude, against the elements of the solver."""
    n = 1.1e-3
    robot = Robot("body", (Body("body", Inertia(150.0, com=COM, tensor=INERTIA)),), ())
    turn = Rotation.from_quat(START[3:7], scalar_first=True)
    origin = START[:3] - turn.apply(COM)
    velocity = turn.inv().apply(START[7:10]) - np.cross(START[10:], COM)
    start = State(origin, START[3:7], np.zeros(0), np.concatenate([velocity, START[10:]]))
    end = simulate(World({"body": robot}, elements=(Orbit(n),)), start, 100.0).ends["body"]
    assert end is not None
    found = FreeBody(COM, INERTIA, n).move(START, 100.0)
    there = Rotation.from_quat(end.quaternion, scalar_first=True)
    assert found[:3] == pytest.approx(end.position + there.apply(COM), abs=1e-8)
    assert (there.inv() * Rotation.from_quat(found[3:7], scalar_first=True)).magnitude() < 1e-5
    assert found[10:] == pytest.approx(end.velocity[3:6], abs=1e-6)


def test_errors_of_the_filter_are_those_that_it_claims() -> None:
    """The normalised error squared of 30 estimates is chi-square with 12 degrees of freedom each; and it falls."""
    times = np.arange(0.5, 15.1, 0.5)
    place, turn, angular_rate = euler(times)
    deviations, noise = np.repeat([0.05, 0.05, 0.01, 3e-3], 3), np.repeat([5e-3, 8e-3], 3)
    rng, sums, sizes = np.random.default_rng(5), [], []
    for _ in range(30):
        first = shift_state(START, deviations * rng.normal(size=12))
        estimate = MotionFilter(FreeBody(COM, INERTIA), POINT, first, deviations, noise, (1e-9, 1e-9))
        for k, time in enumerate(times):
            attitude = turn[k] * Rotation.from_rotvec(noise[3:] * rng.normal(size=3))
            position = place[k] + turn[k].apply(POINT - COM) + noise[:3] * rng.normal(size=3)
            estimate.take(float(time), position, attitude.as_matrix())
        seen = Rotation.from_quat(estimate.state[3:7], scalar_first=True)
        error = np.concatenate([place[-1] - estimate.state[:3], (seen.inv() * turn[-1]).as_rotvec(),
                                START[7:10] - estimate.state[7:10],
                                angular_rate[-1] - estimate.state[10:]])  # fmt: skip
        sums.append(error @ np.linalg.solve(estimate.covariance, error))
        sizes.append(np.abs(error[:3]).max())
    low, high = chi2.ppf([5e-4, 1.0 - 5e-4], 12 * len(sums))
    assert low < np.sum(sums) < high
    assert np.median(sizes) < 5e-3


def test_a_perfect_camera_is_the_truth() -> None:
    sure = {"position_start": 1e-9, "velocity_start": 1e-9, "angle_start": 1e-9, "rate_start": 1e-9}
    truth, seen = rows(flown(**UP_TO_THE_TOUCH)), rows(flown(**UP_TO_THE_TOUCH, navigation={"camera": sure}))
    assert seen["touch.navigation.position"] < 1e-5
    assert seen["touch.speed"] == pytest.approx(truth["touch.speed"], rel=1e-3)
    assert seen["margin"] == pytest.approx(truth["margin"], abs=1e-3)


def test_a_bias_of_the_camera_moves_the_hand_by_as_much() -> None:
    aside = {"camera": CAMERA | {"position_bias": [0.0, 0.05, 0.0]}}
    mission = flown(**UP_TO_THE_TOUCH, navigation=aside, touch__attempts=1, touch__wait=1.0)
    found, last = rows(mission), mission.outcomes[-1]
    assert (last.stage, last.binding_limit.name) == ("touch", "missed")
    assert mission.run.sound
    assert found["touch.distance"] == pytest.approx(0.05, abs=0.01)
    assert found["touch.navigation.position"] == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("camera", "place"),
    [
        ({"gaps": [[3.0, 1.0]]}, "navigation.camera: gaps[0]"),
        ({"lost": 2.0}, "navigation.camera: lost"),
        ({"position_noise": -1.0}, "navigation.camera: position_noise"),
        ({"period": 1e-9}, "navigation.camera: period"),
    ],
)
def test_wrong_cameras_are_told_with_their_place(camera: dict[str, Any], place: str) -> None:
    with pytest.raises((InputError, ModelError)) as notes:
        flown(**UP_TO_THE_TOUCH, navigation={"camera": camera})
    assert place in str(notes.value)
