"""From a table, or from a run, to an estimate: a record is all that identification needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia import identify
from spacearm.identify.inertia.prepare_record import prepare_record
from spacearm.measure import Channel, Column, Record, make_sensors, read_record, record_run
from spacearm.model import catalogue
from spacearm.simulate import Phase, Run, State, pulse, simulate, spline, thruster_load
from support.servicer import NOISE, measured, servicer_motion
from support.servicer import ROBOT as SERVICER

ROBOT = catalogue.load("xu2017")
MOUNT = (0.1, -0.2, 0.3)


def weighed() -> Run:
    """Two thrusters fire, one after the other, while two joints swing."""
    nodes = np.linspace(0.0, 30.0, 5)
    driven = {
        "joint1": spline(nodes, np.deg2rad([0.0, 20.0, -15.0, 10.0, 0.0])),
        "joint4": spline(nodes, np.deg2rad([0.0, 25.0, 10.0, -20.0, 0.0])),
    }
    loads = [
        thruster_load(ROBOT, "thruster1", pulse(1.0, 2.0, 3.0)),
        thruster_load(ROBOT, "thruster7", pulse(0.5, 10.0, 4.0)),
    ]
    locked = [name for name in ROBOT.joint_names if name not in driven]
    phase = Phase(30.0, driven=driven, locked=locked, loads=loads, limits="ignore")
    return simulate(ROBOT, State.at_rest(ROBOT, "zero"), phase, sample=0.1)


def test_a_run_is_a_record_is_an_estimate() -> None:
    """Sensors read a run, with noise; the mass of its last body comes back within its deviation."""
    run = weighed()
    record = record_run(run, make_sensors(period=0.2, mount=MOUNT, noise=NOISE), seed=3)
    assert sorted(record.commands) == ["joint1", "joint4", "thruster1", "thruster7"]
    np.testing.assert_allclose(record.commands["thruster7"]([9.9, 10.1, 13.9, 14.1]), [0.0, 0.5, 0.5, 0.0])
    made = prepare_record(ROBOT, record)
    assert np.array_equal(made.mount, MOUNT)
    assert made.moving == tuple(name in ("joint1", "joint4") for name in ROBOT.joint_names)
    full = np.concatenate([f := ROBOT.thruster("thruster1").force * ROBOT.thruster("thruster1").direction,
                           np.cross(ROBOT.thruster("thruster1").position, f)])  # fmt: skip
    np.testing.assert_allclose(made.wrench[made.times == 3.0][0], full)
    found = identify(ROBOT, [record])
    whole = found.estimate.names.index("m*(satellite)")
    true = sum(body.inertia.mass for body in ROBOT.bodies)
    assert abs(found.estimate.values[whole] - true) < 4.0 * found.estimate.std[whole]
    assert found.estimate.std[whole] < 0.05 * true


def test_a_table_is_a_record_is_an_estimate(tmp_path: Path) -> None:
    """MuJoCo's motion of a servicer, as a laboratory writes it: degrees, millimetres, valves; no noise is stated."""
    motion = servicer_motion()
    old = measured(motion, 0)
    table = {"t": 1e3 * old.times}
    for name, scale in (("position", 1e3), ("attitude", 1.0), ("velocity", 1e3), ("rate", np.degrees(1.0)),
                        ("joint_position", np.degrees(1.0)), ("joint_rate", np.degrees(1.0))):  # fmt: skip
        table |= {f"{name}{k}": scale * column for k, column in enumerate(old.readings[name].T)}
    pandas.DataFrame(table).to_parquet(tmp_path / "orbit.parquet")
    sizes = {"position": (3, "mm"), "attitude": (4, ""), "velocity": (3, "mm/s"), "rate": (3, "deg/s"),
             "joint_position": (2, "deg"), "joint_rate": (2, "deg/s")}  # fmt: skip
    columns = {name: Column([f"{name}{k}" for k in range(size)], unit) for name, (size, unit) in sizes.items()}
    record = read_record(tmp_path / "orbit.parquet", columns, time=Column("t", "ms"))
    made = prepare_record(SERVICER, record)
    assert made.moving == (True, True)
    for name, sigma in NOISE.items():
        assert made.sigma[name] == pytest.approx(sigma, rel=0.15), name


def test_what_a_record_must_have() -> None:
    times = np.arange(0.0, 10.0, 0.1)
    with pytest.raises(InputError, match="no channel that shows inertias"):
        prepare_record(ROBOT, Record("a", {"temperature": Channel(times, times)}))
    still = Channel(times, np.zeros((times.size, 3)), "rad/s", 1e-6)
    with pytest.raises(InputError, match="'joint_position'"):
        prepare_record(ROBOT, Record("a", {"rate": still, "joint_position": Channel(times, np.zeros((times.size, 2)))}))
    with pytest.raises(InputError, match="no time in common"):
        prepare_record(ROBOT, Record("a", {"rate": still, "position": Channel(times + 20.0, still.values)}))
    ramp = {"thruster1": spline([0.0, 10.0], [0.0, 1.0])}
    with pytest.raises(InputError, match="hold from break to break"):
        prepare_record(ROBOT, Record("a", {"rate": still}, ramp))
