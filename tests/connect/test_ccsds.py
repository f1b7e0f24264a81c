"""Ephemerides: what is written reads back, the field's own examples are read, and orbits are those of Newton's law."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from spacearm.connect import (
    CircularOrbit,
    Trajectory,
    read_aem,
    read_oem,
    trajectories_of,
    write_aem,
    write_oem,
    write_trajectory_csv,
)
from spacearm.connect.trajectory import EARTH
from spacearm.errors import InputError
from spacearm.model import Body, Inertia, Robot
from spacearm.simulate import Gravity, Orbit, Phase, Run, State, World, simulate

#: Of the standard's examples: a segment with day of the year, comments, and a covariance; quaternions scalar first.
OEM = """CCSDS_OEM_VERS = 2.0
CREATION_DATE = 1996-11-04T17:22:31
ORIGINATOR = NASA/JPL

META_START
OBJECT_NAME = MARS GLOBAL SURVEYOR
OBJECT_ID = 1996-062A
CENTER_NAME = MARS BARYCENTER
REF_FRAME = EME2000
TIME_SYSTEM = UTC
START_TIME = 1996-12-28T21:29:07.267
STOP_TIME = 1996-12-28T21:59:02.267
META_STOP
COMMENT a comment = of anything
1996-12-28T21:29:07.267 -2432.166 -063.042 1742.754 7.33702 -3.495867 -1.041945
1996-363T21:59:02.267 -2445.234 -878.141 1873.073 1.86043 -3.421256 -0.996366 0.1 0.2 0.3

COVARIANCE_START
EPOCH = 1996-12-28T21:29:07.267
3.331349476038534e-04
COVARIANCE_STOP
"""


def body() -> Robot:
    return Robot("chaser", (Body("chaser", Inertia(100.0, np.zeros(3), np.diag([20.0, 30.0, 40.0]))),), ())


def fly(elements: tuple[Orbit | Gravity, ...], duration: float) -> Run:
    start = State([30.0, -200.0, 15.0], [0.5, 0.5, -0.5, 0.5], np.zeros(0), [0.02, -0.03, 0.01, 0.02, 0.01, -0.03])
    world = World({"chaser": body()}, elements=elements)
    return simulate(world, {"chaser": start}, Phase(duration), sample=10.0)


def test_a_run_on_an_orbit_follows_newtons_law_of_gravitation() -> None:
    """Hill's equations are linear: after 200 s at 200 m what they leave out is some millimetres."""
    orbit = CircularOrbit(6.778e6, inclination=0.9, node=0.4, start=1.1)
    (found,) = trajectories_of(fly((Orbit(orbit.rate),), 200.0), orbit)
    assert found.position is not None
    assert found.velocity is not None

    def rate(time: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([y[3:], -EARTH * y[:3] / np.linalg.norm(y[:3]) ** 3])

    begin = np.concatenate([found.position[0], found.velocity[0]])
    done = solve_ivp(rate, (0.0, 200.0), begin, t_eval=found.times, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(found.position, done.y[:3].T, rtol=0, atol=0.02)
    np.testing.assert_allclose(found.velocity, done.y[3:].T, rtol=0, atol=2e-4)
    # Angular velocity in inertial axes: that in the orbit's axes and the orbit's own.
    assert found.quaternion is not None
    turns = Rotation.from_quat(found.quaternion[:, [1, 2, 3, 0]])
    angle = (turns[:-1].inv() * turns[1:]).magnitude() / 10.0
    assert np.all(np.abs(angle - np.linalg.norm([0.02, 0.01, -0.03])) < 1.5 * orbit.rate)
    normal = turns[0].inv().apply(np.cross(found.position[0], found.velocity[0]))
    assert np.linalg.norm(normal) == pytest.approx(orbit.radius**2 * orbit.rate, rel=1e-3)


def test_a_run_without_the_element_falls_along_in_axes_that_do_not_turn() -> None:
    orbit = CircularOrbit(7e6)
    run = fly((), 50.0)
    (free,), (found,) = trajectories_of(run), trajectories_of(run, orbit)
    assert free.position is not None
    assert found.position is not None
    assert np.array_equal(free.quaternion, found.quaternion)
    np.testing.assert_allclose(np.linalg.norm(found.position - free.position, axis=1), 7e6, rtol=1e-12)
    with pytest.raises(InputError, match="expected a radius of"):
        trajectories_of(fly((Orbit(1e-3),), 10.0), orbit)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    orbit = CircularOrbit()
    (one,) = trajectories_of(fly((Orbit(orbit.rate),), 50.0), orbit, epoch="2026-11-18T23:59:30.5")
    (back,) = read_oem(write_oem(one, tmp_path / "orbit.oem"))
    np.testing.assert_allclose(back.position, one.position, rtol=1e-15)
    np.testing.assert_allclose(back.velocity, one.velocity, rtol=1e-15)
    assert np.array_equal(back.times, one.times)
    assert (back.epoch, back.name, back.frame) == ("2026-11-18T23:59:30.500000000", "chaser", "EME2000")
    first, second = read_aem(write_aem([one, one], tmp_path / "attitude.aem"))
    np.testing.assert_allclose(first.quaternion, one.quaternion, rtol=0, atol=1e-15)
    assert np.array_equal(first.quaternion, second.quaternion)
    text = write_trajectory_csv(one, tmp_path / "chaser.csv").read_text().splitlines()
    assert (
        text[0]
        == '"Time (UTC)","x (km)","y (km)","z (km)","vx (km/sec)","vy (km/sec)","vz (km/sec)","q1","q2","q3","q4"'
    )
    row = text[3].split(",")
    assert row[0] == "2026-11-18T23:59:50.500000000"
    assert one.position is not None
    assert one.quaternion is not None
    np.testing.assert_allclose([float(x) for x in row[1:4]], one.position[2] / 1e3, rtol=1e-15)
    np.testing.assert_allclose([float(x) for x in row[7:]], one.quaternion[2, [1, 2, 3, 0]], rtol=1e-15)


def test_a_quaternion_takes_components_as_the_standard_says() -> None:
    """Annex of the standard: the matrix of the quaternion (q1, q2, q3, qc) from A to B turns components in A into B."""
    turn = Rotation.from_rotvec([0.3, -0.4, 0.5])  # body to world
    q1, q2, q3, qc = turn.as_quat()
    matrix = np.array(
        [
            [q1**2 - q2**2 - q3**2 + qc**2, 2 * (q1 * q2 + q3 * qc), 2 * (q1 * q3 - q2 * qc)],
            [2 * (q1 * q2 - q3 * qc), -(q1**2) + q2**2 - q3**2 + qc**2, 2 * (q2 * q3 + q1 * qc)],
            [2 * (q1 * q3 + q2 * qc), 2 * (q2 * q3 - q1 * qc), -(q1**2) - q2**2 + q3**2 + qc**2],
        ]
    )
    np.testing.assert_allclose(matrix, turn.inv().as_matrix(), atol=1e-15)  # world to body: "A2B"


def test_the_standards_way_of_writing_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mgs.oem"
    file.write_text(OEM)
    (found,) = read_oem(file)
    assert (found.name, found.identity, found.centre) == ("MARS GLOBAL SURVEYOR", "1996-062A", "MARS BARYCENTER")
    np.testing.assert_allclose(found.times, [0.0, 1795.0])
    assert found.position is not None
    np.testing.assert_allclose(found.position[0], [-2432166.0, -63042.0, 1742754.0])
    turn = Rotation.from_rotvec([[0.1, 0.2, 0.3], [0.2, 0.2, 0.3]]).as_quat()
    rows = {("A2B", "LAST"): turn, ("A2B", "FIRST"): turn[:, [3, 0, 1, 2]], ("B2A", "LAST"): turn * [-1, -1, -1, 1]}
    for body_first in (False, True):
        for (way, order), values in rows.items():
            frames = ("SC_BODY_1", "ICRF") if body_first else ("ICRF", "SC_BODY_1")
            meta = [f"REF_FRAME_A = {frames[0]}", f"REF_FRAME_B = {frames[1]}", f"ATTITUDE_DIR = {way}"]
            meta += ["OBJECT_NAME = SAT", "OBJECT_ID = 1", "TIME_SYSTEM = UTC", "ATTITUDE_TYPE = QUATERNION"]
            lines = [
                "CCSDS_AEM_VERS = 1.0",
                "META_START",
                *meta,
                f"QUATERNION_TYPE = {order}",
                "META_STOP",
                "DATA_START",
            ]
            lines += [f"2026-01-01T00:00:0{k} {' '.join(map(repr, row.tolist()))}" for k, row in enumerate(values)]
            file.write_text("\n".join([*lines, "DATA_STOP"]))
            (seen,) = read_aem(file)
            sign = -1.0 if body_first else 1.0
            np.testing.assert_allclose(seen.quaternion, turn[:, [3, 0, 1, 2]] * [1, sign, sign, sign], atol=1e-14)
            assert (seen.frame, seen.body_frame) == ("ICRF", "SC_BODY_1")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("CCSDS_OEM_VERS = 2.0", "<oem/>", "does not begin with CCSDS_OEM_VERS"),
        ("META_START", "META", "has no segment"),
        ("REF_FRAME = EME2000", "", "REF_FRAME missing"),
        ("-063.042", "x", "line 15.* holds something else"),
        ("-063.042", "nan", "line 15.* not finite"),
        ("-063.042", "", "line 15.* 5 numbers"),
        ("1996-363T", "1996-13-45T", "line 16.* time is"),
        ("1996-363T", "1990-363T", "times"),
        ("MARS GLOBAL", "MARS\x07GLOBAL", "expected text in one line"),
    ],
)
def test_damaged_files_say_where(before: str, after: str, expected: str, tmp_path: Path) -> None:
    assert before in OEM
    file = tmp_path / "damaged.oem"
    file.write_text(OEM.replace(before, after, 1))
    with pytest.raises(InputError, match=expected):
        read_oem(file)
    file.write_bytes(b"\xff\xfe\x00CCSDS")
    with pytest.raises(InputError, match="is not text"):
        read_oem(file)


def test_a_name_cannot_add_a_line() -> None:
    with pytest.raises(InputError, match="expected text in one line"):
        Trajectory("a\nMETA_STOP", np.arange(3.0), position=np.zeros((3, 3)), velocity=np.zeros((3, 3)))
