"""Tensors from free flight: data by MuJoCo and SciPy, which know nothing of the estimator."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm.errors import InputError, SpacearmError
from spacearm.identify.free_flight import (
    DeviceDoubt,
    FlownBody,
    FreeFlightIdentification,
    cut_flight,
    identify_flights,
)
from spacearm.measure import Record
from spacearm.study import run_scenario
from spacearm.typing import Array
from support import ROOT
from support.blackbox import write_blackbox

WHEEL = 1.7e-6  # kg m2, axial
DEVICE_MASS, DEVICE = 0.1, np.diag([7.5e-5, 2.2e-5, 8.8e-5])
PROOF_MASS, PROOF = 0.346, np.diag([1.68e-4, 1.30e-4, 2.45e-4])
OBJECT_MASS = 0.5
OBJECT = np.array([[6.8e-4, 2e-5, -1e-5], [2e-5, 4.4e-4, 3e-5], [-1e-5, 3e-5, 9.0e-4]])
STARTS = ((17.0, 3.0, 1.0), (2.0, 14.0, -3.0), (-9.0, 8.0, 9.0), (4.0, -12.0, 12.0))
ENTRIES = (np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2]))
STEP, IDLE, SPUN, END = 5e-4, 0.02, 0.25, 0.65


def by_mujoco(mass: float, tensor: Array | None, place: Array, start: Array, noise: float, seed: int) -> Record:
    """Gyro, accelerometer and wheel speed of the device with a body attached, in free flight."""
    rng = np.random.default_rng(seed)
    wheel = "0.01"
    body = ""
    if tensor is not None:
        xx, yy, zz, xy, xz, yz = tensor[ENTRIES]
        body = (
            f'<body pos="{place[0]} {place[1]} {place[2]}"><inertial pos="0 0 0" mass="{mass}" '
            f'fullinertia="{xx} {yy} {zz} {xy} {xz} {yz}"/></body>'
        )
    moments = DEVICE.diagonal() - np.array([9e-7, 9e-7, WHEEL])
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option gravity="0 0 0" timestep="{STEP}" integrator="RK4"/><worldbody><body><freejoint/>
        <inertial pos="0 0 0" mass="{DEVICE_MASS - 0.01}" diaginertia="{moments[0]} {moments[1]} {moments[2]}"/>
        <site name="imu" pos="-0.011 -0.002 -0.009"/>{body}<body><joint name="w" axis="0 0 1" armature="0"/>
        <inertial pos="0 0 0" mass="{wheel}" diaginertia="9e-7 9e-7 {WHEEL}"/></body></body></worldbody>
        <actuator><motor joint="w"/></actuator>
        <sensor><gyro site="imu"/><accelerometer site="imu"/></sensor></mujoco>"""
    )
    data = mujoco.MjData(model)
    data.qvel[3:6] = start
    rows = []
    while data.time < END:
        data.ctrl[0] = 0.0 if data.time < IDLE else 1.2e-2 if data.time < SPUN else -5e-3
        mujoco.mj_forward(model, data)
        rows.append([data.time, *data.sensordata, data.qvel[6]])
        mujoco.mj_step(model, data)
    table = np.array(rows)
    table[:, 1:4] += noise * rng.normal(size=table[:, 1:4].shape)
    table[:, 4:7] += 20.0 * noise * rng.normal(size=table[:, 4:7].shape)
    return Record.from_columns(
        f"{mass}-{seed}", table[:, 0], {"rate": table[:, 1:4], "acceleration": table[:, 4:7], "wheel": table[:, 7]}
    )


def bodies_by_mujoco(noise: float = 2e-3) -> list[FlownBody]:
    made = []
    for k, (name, mass, tensor, place) in enumerate(
        [("device", 0.0, None, np.zeros(3)), ("proof", PROOF_MASS, PROOF, np.array([0.002, -0.003, 0.03])),
         ("object", OBJECT_MASS, OBJECT, np.array([0.001, 0.002, 0.04]))]
    ):  # fmt: skip
        flights = [
            cut_flight(by_mujoco(mass, tensor, place, np.array(start), noise, 10 * k + i))
            for i, start in enumerate(STARTS)
        ]
        known = PROOF if name == "proof" else None
        made.append(FlownBody(name, [one for one in flights if one is not None], mass, known, 1e-3))
    return made


def test_a_proof_body_calibrates_the_wheel_and_an_object_is_found() -> None:
    """MuJoCo's flights; the wheel's inertia is 20 % off at first."""
    found = identify_flights(
        bodies_by_mujoco(), axis=np.array([0.0, 0.0, 1.0]), wheel_inertia=0.8 * WHEEL, device_mass=DEVICE_MASS,
        doubt=DeviceDoubt(wheel_inertia=1.0, arm=1e-5),
    )  # fmt: skip
    assert found.converged
    assert abs(found.device["wheel_inertia"] / WHEEL - 1.0) < 5e-3
    for one, true in zip(found.bodies, (DEVICE, PROOF, OBJECT), strict=True):
        # A tensor about the mass centre of the device with its wheel, whose centres coincide.
        away = one.tensor - true[ENTRIES]
        assert np.abs(away).max() < 5e-3 * np.trace(true) / 3.0, one.body.name
        assert np.all(np.abs(away) < 4.0 * one.tensor_sd), one.body.name
        assert one.possible
    centre = found.bodies[2].mass_centre
    assert centre is not None
    assert np.abs(centre - [0.012, 0.004, 0.049]).max() < 3e-4  # from the sensor


def by_scipy(start: Array, drag: float, seed: int, colour: float = 0.0) -> Record:
    """A free body in air, its gyro with a slow error: gyro and wheel only."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, 0.7, 1e-3)

    def wheel(t: Array) -> Array:
        return 1400.0 * (1.0 - np.exp(-np.maximum(np.asarray(t) - 0.05, 0.0) / 0.08))

    def slope(t: float, momentum: Array) -> Array:
        w = np.linalg.solve(OBJECT, momentum - WHEEL * float(wheel(np.array(t))) * np.array([0.0, 0.0, 1.0]))
        return np.cross(momentum, w) - drag * np.linalg.norm(w) * w

    run = solve_ivp(slope, (0.0, 0.7), OBJECT @ start, t_eval=times, rtol=1e-10, atol=1e-14)
    rate = np.linalg.solve(OBJECT, run.y - WHEEL * wheel(times) * np.array([[0.0], [0.0], [1.0]])).T
    slow = colour * np.sin(2 * np.pi * (rng.uniform(1.0, 3.0, 3) * times[:, None] + rng.uniform(0.0, 1.0, 3)))
    rate = rate + slow + 2e-3 * rng.normal(size=rate.shape)
    return Record.from_columns(f"s{seed}", times, {"rate": rate, "wheel": wheel(times)})


def starts(seed: int, count: int) -> Array:
    rng = np.random.default_rng(seed)
    way = rng.normal(size=(count, 3))
    return np.asarray(rng.uniform(10.0, 18.0, (count, 1)) * way / np.linalg.norm(way, axis=1, keepdims=True))


def find(
    seed: int, drag: float = 0.0, colour: float = 0.0, count: int = 10, with_drag: bool = True
) -> FreeFlightIdentification:
    flights = [cut_flight(by_scipy(w, drag, 100 * seed + k, colour)) for k, w in enumerate(starts(seed, count))]
    exact = DeviceDoubt(1e-6, 1e-6, 1e-6, 1e-6, 1e-6)
    return identify_flights(
        [FlownBody("body", [one for one in flights if one is not None])], axis=np.array([0.0, 0.0, 1.0]),
        wheel_inertia=WHEEL, device_mass=DEVICE_MASS, doubt=exact, drag=with_drag,
    )  # fmt: skip


def test_the_drag_of_the_air_is_found_and_spoils_tensors_where_it_is_left_out() -> None:
    drag = 1.5e-6
    one = find(1, drag).bodies[0]
    away = one.tensor - OBJECT[ENTRIES]
    assert np.all(np.abs(away) < 4.0 * one.tensor_sd)
    assert np.allclose(one.drag, drag, rtol=0.1)
    without = find(1, drag, with_drag=False).bodies[0]
    assert without.share > 5.0 * one.share
    assert np.all(without.drag == 0.0)


def test_intervals_of_coloured_errors_cover_and_those_of_white_noise_do_not() -> None:
    """8 sets of 10 flights with slow errors of the gyro: six entries each."""
    inside = white = 0
    for seed in range(8):
        one = find(seed, colour=0.03).bodies[0]
        away = np.abs(one.tensor - OBJECT[ENTRIES])
        inside += int(np.sum(away < 1.96 * one.tensor_sd))
        white += int(np.sum(away < 1.96 * one.white_sd))
    assert inside >= 42  # of 48, 45.6 expected
    assert white < 30


def test_flights_are_cut(tmp_path: Path) -> None:
    record = by_scipy(np.array([10.0, 5.0, 3.0]), 0.0, 1)
    still = Record.from_columns("still", record.times, {"rate": record["rate"], "wheel": 0.0 * record["wheel"]})
    assert cut_flight(still) is None
    blow = np.where(record.times < 0.4, 5.0, 80.0)
    accelerated = Record.from_columns(
        "blow",
        record.times,
        {n: record[n] for n in ("rate", "wheel")} | {"acceleration": np.outer(blow, [1.0, 0.0, 0.0])},
    )
    flight, cut = cut_flight(record), cut_flight(accelerated, limit=40.0)
    assert flight is not None
    assert cut is not None
    assert flight.times[0] == pytest.approx(0.051, abs=2e-3)
    assert flight.times[-1] == pytest.approx(0.669, abs=6e-3)
    assert 0.35 < cut.times[-1] < 0.4
    with pytest.raises(InputError, match="its flight lasts"):
        cut_flight(record, skip=0.6)


ROBOT = """[robot]
name = "device"
[[body]]
name = "device"
mass = 0.09
inertia = [7.5e-5, 2.2e-5, 8.8e-5]
[[body]]
name = "wheel"
mass = 0.01
inertia = [9e-7, 9e-7, 1.7e-6]
[[joint]]
name = "wheel"
kind = "revolute"
parent = "device"
child = "wheel"
"""
SCENARIO = """study = "free-flight-identification"
robot = "device.toml"
allowance = 0.02
time = { column = "time", unit = "us" }
[columns]
rate = { column = ["gyroADC[0]", "gyroADC[1]", "gyroADC[2]"], unit = "deg/s", scale = 0.06103515625 }
wheel = { column = "erpm[0]", unit = "rpm", scale = 14.285714286 }
[device]
wheel_inertia = 1e-3
[[body]]
name = "thrown"
files = ["*.BFL"]
reference = [6.8e-4, 4.4e-4, 9.0e-4, 2e-5, -1e-5, 3e-5]
"""


def test_a_page_of_toml_with_logs(tmp_path: Path) -> None:
    for k, start in enumerate(starts(3, 5)):
        record = by_scipy(start, 1e-6, k)
        columns = {"time": np.round(1e6 * record.times)}
        columns |= {f"gyroADC[{i}]": np.round(np.degrees(record["rate"][:, i]) * 16.384) for i in range(3)}
        columns["erpm[0]"] = np.round(record["wheel"] * 60 / (2 * np.pi) / 14.285714286)
        write_blackbox(tmp_path / f"throw{k}.BFL", columns)
    (tmp_path / "device.toml").write_text(ROBOT)
    (tmp_path / "throws.toml").write_text(SCENARIO)
    found = run_scenario(tmp_path / "throws.toml")
    rows = {row.quantity: row.value for row in found.rows}
    assert found.certificate.sound
    assert rows["body.thrown.error"] < 1.0
    assert rows["body.thrown.error_single.largest"] < 5.0
    assert rows["body.thrown.turned"] < 2.0
    assert abs(rows["body.thrown.tensor.xx"] / 6.8e-4 - 1.0) < 0.01
    assert rows["body.thrown.flights"] == 5
    assert len(found.figures) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('files = ["*.BFL"]', 'files = ["*.csv"]', "no file matches"),
        ('"gyroADC[1]", ', "", "has 2 columns"),
        ("-1e-5, 3e-5]", "3e-5]", "has 5 numbers"),
        ('robot = "device.toml"', 'robot = "xu2017"', "has 6 joints|has 7 joints"),
    ],
)
def test_slips_are_errors(old: str, new: str, message: str, tmp_path: Path) -> None:
    write_blackbox(tmp_path / "a.BFL", {"time": 1000 * np.arange(50), "gyroADC[0]": np.zeros(50)})
    (tmp_path / "device.toml").write_text(ROBOT)
    assert old in SCENARIO
    (tmp_path / "throws.toml").write_text(SCENARIO.replace(old, new))
    with pytest.raises(InputError, match=message):
        run_scenario(tmp_path / "throws.toml")


STARTER = ROOT / "src/spacearm/study/starters/free-flight-identification.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sample = 2.0", "sample = 1e12", "flight has .* samples"),
        ("sample = 2.0", "sample = 2.0\nskip = -1e9", "flight.skip"),
        ("sample = 2.0", "sample = 2.0\nmargin = -1e7", "flight.margin"),
        ("band = 1.0", "band = 1e-300", "cannot pass a filter"),
        ("wheel_inertia = 0.01", "wheel_inertia = 1e-300", "device.wheel_inertia"),
        ('name = "servicer"\n', 'name = "servicer"\nmass = -5.0\n', "mass"),
        ('name = "servicer"\n', 'name = "servicer"\nreference = [0, 0, 0]\n', "principal moment"),
        ('unit = "rad/s" }', 'unit = "rad/s", scale = [1e14, 1.0, 1.0] }', "cannot be solved"),
    ],
)
def test_numbers_far_from_any_flight_are_errors(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = STARTER.read_text()
    assert old in text
    (tmp_path / STARTER.with_suffix(".csv").name).write_bytes(STARTER.with_suffix(".csv").read_bytes())
    (tmp_path / "case.toml").write_text(text.replace(old, new))
    with pytest.raises(SpacearmError, match=message):
        run_scenario(tmp_path / "case.toml")


def test_a_body_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / STARTER.with_suffix(".csv").name).write_bytes(STARTER.with_suffix(".csv").read_bytes())
    (tmp_path / "case.toml").write_text(STARTER.read_text().replace('name = "servicer"', 'name = "cube, 3 x"'))
    assert [figure.name for figure in run_scenario(tmp_path / "case.toml").figures] == [
        "flight-cube__3_x",
        "residual-cube__3_x",
    ]
