"""Control laws in scenario files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from spacearm import Mechanics, control
from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.result import Result
from spacearm.simulate import State
from spacearm.study.scenario import run_document
from support import ROOT

EXAMPLE = ROOT / "examples" / "servo.toml"
PATH = {"kind": "spline", "times": [0.0, 1.0], "values": [0.0, 1.0]}


def document() -> dict[str, Any]:
    return tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))


def test_the_example_stops_the_tumble_and_moves_the_arm() -> None:
    result = run_document(document(), folder=EXAMPLE.parent)
    rows = {row.quantity: row.value for row in result.rows}
    assert result.certificate.sound
    robot = catalogue.load("xu2017")
    start = State.from_velocities(robot, "normal", base_angular_velocity=np.deg2rad([1.0, -2.0, 3.0]))
    momentum = Mechanics(robot).momentum(start.joints, start.velocity, base=start.pose, about="com")[3:]
    # One newton metre takes the angular momentum away in so many seconds; the servo lasts ten.
    assert rows["end.time"] == pytest.approx(np.linalg.norm(momentum) + 10.0, abs=1e-6)
    assert np.rad2deg(rows["end.joint.joint2"]) == pytest.approx(50.0, abs=0.01)
    assert np.rad2deg(rows["end.joint.joint3"]) == pytest.approx(-80.0, abs=0.01)


def test_hand_laws_and_sensors_from_a_file() -> None:
    """The hand goes along its line, and gives way to a push as much as a mass on a spring and damper does."""
    path = EXAMPLE.with_name("inspection.toml")
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    result = run_document(given, folder=path.parent)
    assert result.certificate.sound
    data = result.data
    pose = np.concatenate([data["base_position"].values, data["base_quaternion"].values], axis=1)
    hand = Mechanics(catalogue.load("xu2017")).frame_pose("hand", data["joint_position"].values, base=pose)[0]
    clock = data["time"].values
    reached = hand[np.searchsorted(clock, 11.9)]
    np.testing.assert_allclose(reached, [0.48, -0.01, 0.04], atol=2e-3)
    # From rest under the half-sine: m x'' + d x' + k x = force.
    from scipy.integrate import solve_ivp

    def rate(t: float, x: np.ndarray) -> list[float]:
        push = np.sin(np.pi * (t - 0.5)) if 0.5 < t < 1.5 else 0.0
        return [x[1], (push - 20.0 * x[1] - 40.0 * x[0]) / 5.0]

    times = clock[clock > 12.2] - 12.0
    exact = solve_ivp(rate, (0.0, 6.0), [0.0, 0.0], t_eval=times, rtol=1e-8, max_step=0.01).y[0]
    assert exact.max() > 0.015
    # The star tracker is late and the rates are filtered: a tenth of the peak.
    np.testing.assert_allclose(hand[clock > 12.2, 2] - 0.04, exact, atol=1.5e-3)
    assert {"reading.gyro.wx", "reading.force_torque.fz"} <= {*map(str, data)}
    assert data["reading.gyro.wx"].sizes == {"tick": 1800}
    assert "commands" in [figure.name for figure in result.figures]
    again = run_document(given, folder=path.parent)
    assert [row.value for row in again.rows] == [row.value for row in result.rows]  # by its seed
    other = run_document({**given, "seed": 8}, folder=path.parent)
    assert other.rows[-1].value != result.rows[-1].value


@pytest.mark.parametrize(
    ("law", "sensors", "message"),
    [
        ({"kind": "resolved_rate"}, [], "'frame' is missing"),
        ({"kind": "resolved_rate", "frame": "claw"}, [], "claw"),
        ({"kind": "resolved_rate", "frame": "hand", "reference": {"w": PATH}}, [], "reference: .*axis 'w'"),
        ({"kind": "impedance", "frame": "hand", "stiffness": 1.0, "damping": 1.0}, [], "'mass' is missing"),
        ({"kind": "resolved_rate", "frame": "hand", "rotation": PATH, "attitude": "free"}, [], "'rotation' needs"),
        (
            {"kind": "coordinated", "frame": "hand", "stiffness": 1.0, "damping": 1.0},
            [],
            "'centre_stiffness' is",
        ),
        ({"kind": "reaction_null_space", "rates": {"elbow": 1.0}}, [], "rates: .*elbow"),
        ({"kind": "detumble", "torque": 1.0}, [{"kind": "force_torque"}], r"sensor\[0\]: 'frame' is missing"),
        ({"kind": "detumble", "torque": 1.0}, [{"kind": "gyro", "smoothing": 1.0}], "does not apply"),
        ({"kind": "detumble", "torque": 1.0}, [{"kind": "gyro"}, {"kind": "gyro"}], r"sensor\[1\]: name: a second"),
        ({"kind": "detumble", "torque": 1.0, "sensors": ["eye"]}, [{"kind": "gyro"}], "sensors: .*eye"),
        (
            {"kind": "detumble", "torque": 1.0, "continuous": True},
            [{"kind": "gyro"}],
            "reads no sensors",
        ),
    ],
)
def test_what_is_wrong_with_hand_laws_and_sensors_is_told(
    law: dict[str, Any], sensors: list[dict[str, Any]], message: str
) -> None:
    wrong = document()
    wrong["phase"][0]["law"] = [law]
    wrong["sensor"] = sensors
    with pytest.raises(InputError, match=message):
        run_document(wrong, folder=EXAMPLE.parent)


@pytest.mark.parametrize(
    "modulation", [{"kind": "pulse_width", "window": 0.2}, {"kind": "pulse_width_frequency", "time_constant": 0.1}]
)
def test_thrusters_in_pulses_from_a_file(modulation: dict[str, Any]) -> None:
    law = {"kind": "attitude_by_thrusters", "period": 0.02, "dead_band": 0.05, "rate_gain": 4.0}
    found = document()
    arm = [f"joint{i}" for i in range(1, 7)]
    found["phase"] = [{"duration": 4.0, "locked": arm, "law": [law | {"modulation": modulation}]}]
    result = run_document(found, folder=EXAMPLE.parent)
    rows = {row.quantity: row.value for row in result.rows}
    assert result.certificate.sound
    assert abs(rows["end.base_angular_velocity.z"]) < 0.9 * np.deg2rad(3.0)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"kind": "detumble"}, r"phase\[0\]: law\[0\]: 'torque' is missing"),
        ({"kind": "detumble", "torque": 1.0, "stiffness": 2.0}, "does not apply"),
        (
            {
                "kind": "attitude_by_thrusters",
                "dead_band": 1.0,
                "rate_gain": 1.0,
                "modulation": {"kind": "pulse_width"},
            },
            r"law\[0\]: modulation: 'window' is missing",
        ),
        ({"kind": "joint_pid", "stiffness": 1.0, "damping": 1.0}, "'reference' is missing"),
        ({"kind": "attitude_by_wheels", "stiffness": 1.0, "damping": 1.0}, "wheels"),
        ({"kind": "computed_torque", "stiffness": 1.0, "damping": 1.0, "reference": {"elbow": PATH}}, "elbow"),
    ],
)
def test_what_is_wrong_with_a_law_is_told(law: dict[str, Any], message: str) -> None:
    wrong = document()
    wrong["phase"][0]["law"] = [law]
    with pytest.raises(InputError, match=message):
        run_document(wrong, folder=EXAMPLE.parent)


def servo(**law: Any) -> dict[str, Any]:
    """The example's second phase alone, from rest, with this law."""
    given = document()
    phase = {"duration": 0.2, "locked": ["joint1", "joint4", "joint5", "joint6"], "law": [law]}
    return {"study": "motion", "robot": given["robot"], "phase": [phase]}


def run(given: dict[str, Any]) -> Result:
    return run_document(given, folder=EXAMPLE.parent)


PID = {"kind": "joint_pid", "stiffness": 4.0, "damping": 8.0, "period": 0.02}
BOTH = {"reference": {"joint2": 0.1, "joint3": {"value_deg": 3.0}}}


def test_plain_numbers_and_gains_by_joint() -> None:
    """A number is a path that stays; gains by name are those of each joint."""
    one = run(servo(**PID, **BOTH))
    each = {name: {"joint3": PID[name], "joint2": PID[name]} for name in ("stiffness", "damping")}
    other = run(servo(**(PID | each), **BOTH))
    assert [row.value for row in other.rows] == [row.value for row in one.rows]
    stronger = run(servo(**(PID | each | {"stiffness": {"joint3": 8.0, "joint2": 4.0}}), **BOTH))
    assert [row.value for row in stronger.rows] != [row.value for row in one.rows]
    for gain, message in (({"joint2": 1.0}, "'joint3' is missing"), ({"elbow": 1.0}, "elbow")):
        with pytest.raises(InputError, match=f"stiffness: .*{message}"):
            run(servo(**(PID | {"stiffness": gain}), **BOTH))
    with pytest.raises(InputError, match=r"stiffness: .*by joint"):
        run(servo(kind="resolved_acceleration", frame="hand", stiffness={"joint2": 1.0}, damping=1.0))


def test_a_joint_that_nothing_holds_is_said() -> None:
    with pytest.raises(InputError, match=r"phase\[0\]: nothing drives or holds 'joint3' .*free = "):
        run(servo(**PID, reference={"joint2": 0.1}))
    given = servo(**PID, reference={"joint2": 0.1})
    given["phase"][0]["free"] = ["joint3"]
    assert run(given).certificate.sound
    given = servo(kind="detumble", torque=1.0)  # no servo: nothing is said of the arm
    del given["phase"][0]["locked"]
    assert run(given).certificate.sound


CODE = """
def servo(plant):
    wanted, rate, _ = plant.reference("shoulder")
    joint = plant.robot.joint_index("joint2")
    torque = plant.constant("kp") * (wanted - plant.joints[joint]) + 8.0 * (rate - plant.rates[joint])
    return {"joint2": torque}

def wrong(plant):
    return {"joint2": 1.0 / 0}
"""


def test_a_law_of_ones_own_from_a_python_file(tmp_path: Path) -> None:
    """It is the law of the library, and that code is run is said."""
    (tmp_path / "law.py").write_text(CODE, encoding="utf-8")
    law = {"python": "law.py:servo", "period": 0.02, "reference": {"shoulder": 0.1}, "constants": {"kp": 4.0}}
    given = servo(**law)
    given["phase"][0]["free"] = ["joint3"]
    with pytest.warns(UserWarning, match=r"executes the Python code of law\.py"):
        own = run_document(given, folder=tmp_path)
    known = servo(**PID, reference={"joint2": 0.1})
    known["phase"][0]["free"] = ["joint3"]
    same = run(known)
    assert [row.value for row in own.rows] == [row.value for row in same.rows]
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.filterwarnings("ignore:the scenario runs")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("law.py:wrong", "ZeroDivisionError in line 9"),
        ("law.py:servos", "no function 'servos'"),
        ("law.py", "file.py:function"),
        ("other.py:servo", "no file 'other.py'"),
        ("../law.py:servo", "outside the scenario's folder"),
        ("broken.py:servo", "broken.py failed: SyntaxError in line 1"),
    ],
)
def test_code_that_cannot_be_a_law(tmp_path: Path, name: str, message: str) -> None:
    folder = tmp_path / "scenario"
    folder.mkdir()
    for place in (folder, tmp_path):
        (place / "law.py").write_text(CODE, encoding="utf-8")
    (folder / "broken.py").write_text("def servo(:", encoding="utf-8")
    with pytest.raises(InputError, match=f"(?s){message}"):
        run_document(servo(python=name, period=0.02), folder=folder)


def test_laws_of_two_systems_in_one_phase() -> None:
    """Each arm is where it would be alone."""
    given = servo(**PID, **BOTH)
    given["system"] = [{"name": "second", "robot": given["robot"], "start": {"position": [0.0, 9.0, 0.0]}}]
    given["phase"][0]["locked"] += [f"second/{name}" for name in given["phase"][0]["locked"]]
    given["phase"][0]["locked"] = [name if "/" in name else f"xu2017/{name}" for name in given["phase"][0]["locked"]]
    given["phase"][0]["law"].append({**PID, "reference": {"joint2": 0.2, "joint3": 0.0}, "system": "second"})
    result = run(given)
    assert result.certificate.sound
    alone = run(servo(**PID, **BOTH))
    rows, expected = ({row.quantity: row.value for row in each.rows} for each in (result, alone))
    assert rows["end.joint.joint2"] == pytest.approx(expected["end.joint.joint2"], abs=1e-9)
    given["phase"][0]["law"][1]["system"] = "third"
    with pytest.raises(InputError, match="third"):
        run(given)


def test_a_python_law_has_the_type_of_its_function() -> None:
    hints = get_type_hints(control.PythonLaw)
    assert get_args(hints["build"])[0][:2] == [float, State]
