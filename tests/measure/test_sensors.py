"""Sensors read from runs: the same numbers that laws read, against plain formulas, at rates of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm import control
from spacearm.errors import InputError
from spacearm.measure import make_sensors, record_run
from spacearm.mechanics.sensors import (
    Accelerometer,
    AngularAccelerometer,
    BasePosition,
    BaseVelocity,
    Encoder,
    FrameAttitude,
    FramePosition,
    Gyro,
    StarTracker,
    Tachometer,
    TorqueSensor,
)
from spacearm.model import catalogue
from spacearm.simulate import Phase, Run, State, load_run, simulate, spline

ROBOT = catalogue.load("xu2017")
MOUNT = np.array([0.1, -0.2, 0.3])


def moved(sample: float = 0.02, laws: object = ()) -> Run:
    """A base that turns and drifts while one joint moves along a path, one is free and the others are locked."""
    start = State.from_velocities(
        ROBOT, np.full(ROBOT.n, 0.2), np.zeros(ROBOT.n), base_velocity=[0.1, 0.0, -0.05],
        base_angular_velocity=[0.1, -0.2, 0.15],
    )  # fmt: skip
    first = ROBOT.joint_names[0]
    path = spline([0.0, 2.0], [0.2, 0.5])
    phase = Phase(2.0, driven={first: path}, locked=ROBOT.joint_names[1:-1], limits="ignore", laws=laws)
    return simulate(ROBOT, start, phase, sample=sample)


def test_laws_and_records_read_the_same() -> None:
    """Noise, unknown biases, scale, resolution, delay and period: the readings of the law's log, number by number."""
    sensors = [
        Encoder(noise=1e-3, resolution=1e-4, delay=0.04),
        Gyro(noise=1e-3, spread=1e-2, bias=[0.1, 0.0, 0.0], scale=[1.1, 1.0, 0.9], period=0.04),
        StarTracker(noise=1e-2, spread=1e-3),
        BaseVelocity(noise=1e-3, axes="world"),
        Tachometer(noise=1e-3),
    ]
    law = control.Law(lambda plant: {ROBOT.joint_names[-1]: 0.0 * plant.time}, period=0.02, sensors=sensors, seed=11)
    run = moved(0.02, laws=law)
    record, log = record_run(run, sensors, seed=11), run.commands[0]
    for sensor in sensors:
        channel = record.channel(sensor.channel)
        rows = np.searchsorted(log.times, channel.times[channel.times < log.times[-1] + 1e-9] - 1e-9)
        for k, entry in enumerate(sensor.entries(ROBOT)):
            np.testing.assert_allclose(
                channel.values[: rows.size, k], log.sensor_reading(f"{sensor.name}.{entry}")[rows], atol=1e-9, rtol=0.0
            )


def test_readings_against_plain_formulas() -> None:
    run = moved(0.005)
    sensors = [
        BasePosition(mount=MOUNT), BaseVelocity(mount=MOUNT, axes="world"), Accelerometer(mount=MOUNT),
        AngularAccelerometer(), Gyro(), TorqueSensor(), FramePosition(frame="hand"), FrameAttitude(frame="hand"),
    ]  # fmt: skip
    record, t = record_run(run, sensors), run.times
    turn = Rotation.from_quat(np.roll(run.states[:, 3:7], -1, axis=1))
    place = run.states[:, :3] + turn.apply(MOUNT)
    np.testing.assert_allclose(record["position"], place, atol=1e-14)
    middle = slice(2, -2)
    np.testing.assert_allclose(record["velocity"][middle], np.gradient(place, t, axis=0)[middle], atol=1e-5)
    seen = turn.inv().apply(np.gradient(np.gradient(place, t, axis=0), t, axis=0))
    np.testing.assert_allclose(record["acceleration"][4:-4], seen[4:-4], atol=1e-3)
    rate = np.gradient(record["rate"], t, axis=0)
    np.testing.assert_allclose(record["angular_acceleration"][middle], rate[middle], atol=1e-4)
    np.testing.assert_allclose(record["torque"], run.data["reaction"].values[:, 6:], atol=1e-12)
    tip = np.gradient(record["frame_position"], t, axis=0)
    assert np.abs(tip).max() > 0.05
    shown = Rotation.from_quat(np.roll(record["frame_attitude"], -1, axis=1))
    from spacearm import Mechanics

    origin, rotation = Mechanics(ROBOT).frame_pose("hand", run.states[:, 7 : 7 + ROBOT.n], base=run.states[:, :7])
    np.testing.assert_allclose(record["frame_position"], origin, atol=1e-12)
    np.testing.assert_allclose(shown.as_matrix(), rotation, atol=1e-9)


def test_a_saved_run_is_read_between_its_samples(tmp_path: Path) -> None:
    """From a file, at times that it has not: as a run that has them."""
    sensors = [*make_sensors(period=0.05), Gyro(name="late", period=0.1, delay=0.5)]
    path = moved(0.1).to_netcdf(tmp_path / "run.nc")
    coarse, fine = record_run(load_run(path), sensors), record_run(moved(0.05), sensors)
    for name, channel in fine.channels.items():
        np.testing.assert_allclose(coarse.channel(name).times, channel.times, atol=1e-12)
        np.testing.assert_allclose(coarse[name], channel.values, atol=2e-5)
    gyro = fine.channel("gyro")
    np.testing.assert_allclose(fine["late"][5:], gyro.values[0:-10:2], atol=1e-12)
    assert np.all(fine["late"][:5] == gyro.values[0])


def test_what_cannot_be_read_ends_in_words() -> None:
    run = moved(0.5)
    with pytest.raises(InputError, match="shorter period"):
        record_run(run, [Gyro(period=10.0)])
    with pytest.raises(InputError, match="gyro"):
        record_run(run, [Gyro(), Gyro()])
    with pytest.raises(InputError, match="read it from a run"):
        moved(
            laws=control.Law(
                lambda plant: {ROBOT.joint_names[-1]: 0.0 * plant.time}, period=0.02, sensors=[Accelerometer()]
            )
        )
    with pytest.raises(InputError, match="no mount"):
        moved(
            laws=control.Law(
                lambda plant: {ROBOT.joint_names[-1]: 0.0 * plant.time},
                period=0.02,
                sensors=[BasePosition(mount=MOUNT)],
            )
        )
    with pytest.raises(InputError, match="did you mean"):
        make_sensors(["attitudes"])
