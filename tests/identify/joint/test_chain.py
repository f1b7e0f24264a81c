"""The measurement chain: Eq. 21 in closed form and by least squares, and what the sensors' noise makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.joint import MeasurementChain, prepare_test, simulate_reference
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.reference_simulation import ReferenceReadings, _add_pose_noise
from spacearm.measure import Record
from spacearm.mechanics.sensors import BasePosition, Encoder, FrameAttitude, FramePosition, StarTracker
from support.simulated_joint_tests import DEGREE, FRAME, NOISE, TIMES, observe, printed, quadratic, spatial_arm, truth

LENGTH = (0.449, 0.449, 0.310)
MOUNT = np.array([0.337, -0.001])


def spatial_truth() -> ReferenceReadings:
    paths = {
        "joint1.motor": quadratic(10.0, 1.0),
        "joint2": quadratic(30.0, 0.5),
        "joint3.motor": quadratic(-20.0, -0.8),
    }
    values = {"joint1": {"offset": 0.03}, "joint3": {"offset": -0.02}}
    return simulate_reference(spatial_arm(), FRAME, values, paths, TIMES)


def paper_equation(found: ReferenceReadings) -> np.ndarray:
    """Right-hand side of Eq. 21 with Eqs. 22 and 23, in the plane."""
    heading = 2.0 * np.arctan2(found.base[:, 6], found.base[:, 3])
    joints = found.joints[:, [found.robot.joint_index(f"joint{i}") for i in (1, 2, 3)]]

    def turned(angle: np.ndarray, vector: np.ndarray) -> np.ndarray:
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]], axis=1)

    point = found.base[:, :2] + turned(heading, MOUNT)
    for i in range(3):
        point = point + turned(heading + joints[:, : i + 1].sum(axis=1), np.array([LENGTH[i], 0.0]))
    return point


def test_the_hand_is_where_equation_21_says() -> None:
    found = truth(printed())
    assert np.abs(paper_equation(found) - found.hand[:, :2]).max() < 1e-12


@pytest.mark.parametrize("method", ["position", "orientation", "least_squares"])
def test_the_angle_comes_back_without_noise(method: str) -> None:
    found = truth(printed())
    joints = found.joints.copy()
    joints[:, found.robot.joint_index("joint1")] = 99.0  # must not be looked at
    result = MeasurementChain(found.robot, FRAME).reconstruct(joints, found.base, found.hand, method)  # type: ignore[arg-type]
    assert np.abs(result.angles[:, 0] - found.joints[:, found.robot.joint_index("joint1")]).max() < 1e-11
    assert result.misfit.max() < 1e-6


def test_two_angles_in_space_come_back_by_least_squares() -> None:
    found = spatial_truth()
    result = MeasurementChain(found.robot, FRAME).reconstruct(found.joints, found.base, found.hand)
    links = [found.robot.joint_index(name) for name in ("joint1", "joint3")]
    assert np.abs(result.angles - found.joints[:, links]).max() < 1e-10
    with pytest.raises(InputError, match="2 joints are flexible"):
        MeasurementChain(found.robot, FRAME).reconstruct(found.joints, found.base, found.hand, "position")


@pytest.mark.parametrize("method", ["position", "orientation", "least_squares"])
@pytest.mark.parametrize("planar", [True, False])
def test_the_error_is_what_repeated_readings_show(method: str, planar: bool) -> None:
    """One instant read 4000 times: spread and correlation with the base's attitude as predicted."""
    if not planar and method != "least_squares":
        method = "least_squares"
    sensors = [Encoder(noise=2e-4), BasePosition(noise=4e-4), StarTracker(noise=8e-4)]
    sensors += [FramePosition(frame=FRAME, noise=6e-4), FrameAttitude(frame=FRAME, noise=5e-4)]
    found = truth(printed()) if planar else spatial_truth()
    chain = MeasurementChain(found.robot, FRAME, sensors)
    noise = chain.noise
    at = np.full(4000, 300)
    rng = np.random.default_rng(3)

    def blur(values: np.ndarray, sigma: float) -> np.ndarray:
        return values + sigma * rng.standard_normal(values.shape)

    joints = blur(found.joints[at], noise["joint_position"])
    base = _add_pose_noise(found.base[at], blur, noise["position"], noise["attitude"], planar)
    hand = _add_pose_noise(found.hand[at], blur, noise["frame_position"], noise["frame_attitude"], planar)
    result = chain.reconstruct(joints, base, hand, method)  # type: ignore[arg-type]
    error = result.angles - found.joints[at][:, chain.links]
    expected = result.covariance.mean(axis=0)
    measured = error.T @ error / len(at)
    assert measured == pytest.approx(expected, rel=0.08, abs=0.05 * expected.max())
    heading = 2.0 * np.arctan2(base[:, 6], base[:, 3]) - 2.0 * np.arctan2(found.base[300, 6], found.base[300, 3])
    if planar:
        together = float(error[:, 0] @ heading) / len(at)
        assert together == pytest.approx(float(result.with_base[:, 0, 5].mean()), rel=0.15)


def test_least_squares_is_the_most_precise() -> None:
    found = truth(printed())
    chain = MeasurementChain(found.robot, FRAME, NOISE)
    sd = {m: chain.reconstruct(found.joints, found.base, found.hand, m).std.mean()  # type: ignore[arg-type]
          for m in ("position", "orientation", "least_squares")}  # fmt: skip
    assert sd["least_squares"] < min(sd["position"], sd["orientation"])


def test_angles_choose_the_turn_nearest_to_the_motor() -> None:
    """A motor that has made a turn, and readings of it that jump by a full turn."""
    robot = printed()
    found = truth(robot)
    joints = found.joints.copy()
    motor = robot.joint_index("joint1.motor")
    joints[:, motor] += 2.0 * np.pi
    result = MeasurementChain(robot, FRAME).reconstruct(joints, found.base, found.hand)
    assert np.abs(result.angles[:, 0] - found.joints[:, robot.joint_index("joint1")] - 2.0 * np.pi).max() < 1e-10


def test_wrapped_readings_are_unwrapped() -> None:
    times = TIMES[:100]
    turning = 3.0 + 0.02 * np.arange(100)
    wrapped = (turning + np.pi) % (2.0 * np.pi) - np.pi
    test = JointTest("t", times, {"joint2": wrapped}, {"joint1": wrapped})
    assert np.abs(np.diff(test.encoders["joint2"])).max() < 0.03
    assert np.abs(np.diff(test.measured["joint1"])).max() < 0.03


def test_missing_rows_are_an_error_or_left_out() -> None:
    found = truth(printed())
    chain = MeasurementChain(found.robot, FRAME)
    hand = found.hand.copy()
    hand[7, 0] = np.nan
    with pytest.raises(InputError, match="row 7 is not finite"):
        chain.reconstruct(found.joints, found.base, hand)
    angle = found.joints[:, 0].copy()
    angle[3] = np.nan
    encoders = {"joint2": found.joints[:, 2]}
    with pytest.raises(InputError, match=r"row 3 of 'joint2' is not a finite number \(1 such rows\)"):
        JointTest("t", TIMES, {"joint2": np.where(np.isnan(angle), np.inf, angle)}, {"joint1": found.joints[:, 0]})
    few = np.where(np.arange(TIMES.size) < 8, angle, np.nan)
    with pytest.raises(InputError, match="'joint2' has gaps and only 7 readings"):
        JointTest("t", TIMES, {"joint2": few}, {"joint1": found.joints[:, 0]})
    assert not JointTest("t", TIMES, encoders, {"joint1": angle}).present[3]


def test_shapes_and_frames_are_checked() -> None:
    robot = printed()
    found = truth(robot)
    with pytest.raises(InputError, match="expected"):
        MeasurementChain(robot, FRAME).reconstruct(found.joints[:, :2], found.base, found.hand)
    with pytest.raises(InputError, match="not carried by the flexible joint"):
        MeasurementChain(robot, "satellite")
    with pytest.raises(InputError, match="method is 'both'"):
        MeasurementChain(robot, FRAME).reconstruct(found.joints, found.base, found.hand, "both")  # type: ignore[arg-type]


def test_every_encoder_is_needed() -> None:
    """An angle behind a joint without readings would be wrong by that joint's angle."""
    found = truth(printed())
    encoders = {"joint1.motor": found.joints[:, 1], "joint2": found.joints[:, 2]}
    record = Record.from_columns("t", TIMES, encoders)
    with pytest.raises(InputError, match="'joint3': was not measured"):
        prepare_test(record, MeasurementChain(found.robot, FRAME))


def test_the_angle_follows_an_encoders_error_as_told() -> None:
    found = spatial_truth()
    chain = MeasurementChain(found.robot, FRAME)
    right = chain.reconstruct(found.joints, found.base, found.hand)
    moved = found.joints.copy()
    moved[:, found.robot.joint_index("joint2")] += 1e-5
    slope = (chain.reconstruct(moved, found.base, found.hand).angles - right.angles) / 1e-5
    assert np.abs(slope - right.by_encoder["joint2"]).max() < 1e-3
    assert np.abs(slope).max() > 0.1


def test_observing_without_noise_gives_the_truth() -> None:
    found = truth(printed())
    test = observe(found, None)
    assert np.abs(test.measured["joint1"] - found.joints[:, 0]).max() < 1e-11
    assert test.measured["attitude.z"][-1] / DEGREE == pytest.approx(-12.82, abs=0.01)
