"""Scenario files: the example runs, every kind of entry acts, every fault is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.result import Result
from spacearm.scenarios import run_scenario

EXAMPLES = Path(__file__).parents[1] / "examples"
HEAD = 'robot = "xu2017"\n[start]\nposture = "normal"\n[[phase]]\nduration = 1.0\n'


def run(text: str, tmp_path: Path, **options: bool) -> Result:
    file = tmp_path / "case.toml"
    file.write_text(text)
    return run_scenario(file, **options)


def value(result: Result, quantity: str) -> float:
    return next(row.value for row in result.rows if row.quantity == quantity)


def test_the_example_runs_and_agrees_with_mujoco(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["run", str(EXAMPLES / "tumble.toml"), "-o", str(tmp_path / "out"), "--cross-check", "--json"])
    assert status == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert study["certificate"]["sound"] is True
    assert study["certificate"]["cross_check"]["value"] < 1e-8
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.json", "data.nc", "index.html", "figures"} <= names


def test_a_thruster_pair_gives_the_momentum_of_its_impulse(tmp_path: Path) -> None:
    locked = 'locked = ["joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]\n'
    pair = 'thruster = [{ name = "thruster7", on = [[0.0, 0.5]] }, { name = "thruster8", on = [[0.0, 0.5]] }]\n'
    result = run(HEAD + locked + pair, tmp_path)
    assert result.sound
    # 2 x 2 N x 0.5 s = 2 N s along x on 476 kg; the base's origin also turns about the mass centre.
    data = result.data
    assert data is not None
    from spacearm.model import catalogue
    from spacearm.simulate.bodies import momentum, move

    robot = catalogue.load("xu2017")
    states = np.concatenate(
        [
            data.base_position, data.base_quaternion, data.joint_position,
            np.zeros((data.time.size, 6)), data.joint_velocity,
        ],
        axis=1,
    )  # fmt: skip
    # Velocities in base axes from those in world axes.
    w, x, y, z = data.base_quaternion.values.T
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    states[:, 13:16] = np.einsum("jit,tj->ti", rotation, data.base_velocity)
    states[:, 16:19] = np.einsum("jit,tj->ti", rotation, data.base_angular_velocity)
    found = momentum(robot, move(robot, states), states, robot.inertia_parameters, np.zeros(0))
    np.testing.assert_allclose(found.linear[-1], [2.0, 0.0, 0.0], atol=5e-3)


def test_a_driven_joint_ends_where_its_path_ends(tmp_path: Path) -> None:
    text = HEAD + (
        'locked = ["joint1", "joint3", "joint4", "joint5", "joint6"]\n[phase.driven.joint2]\nkind = "spline"\n'
        "times = [0.0, 0.5, 1.0]\nvalues_deg = [34.0, 40.0, 50.0]\n"
    )
    result = run(text, tmp_path, cross_check=True)
    assert value(result, "end.joint.joint2") == pytest.approx(np.radians(50.0), abs=1e-12)
    assert value(result, "cross_check.largest") < 1e-8


def test_forces_loads_events_and_rk4(tmp_path: Path) -> None:
    text = HEAD.replace("[[phase]]", '[method]\nkind = "rk4"\nstep = 0.01\n[[phase]]') + (
        'until = [{ quantity = "joint6", value_deg = 1.0, direction = "rising" }]\n'
        "forces = { joint6 = 3.0 }\n"
        '[[phase.load]]\nframe = "hand"\ndirection = [1, 0, 0]\n'
        'moment = { kind = "triangle", value = 1.0, start = 0.0, width = 0.2 }\n'
    )
    result = run(text, tmp_path)
    assert value(result, "end.joint.joint6") == pytest.approx(np.radians(1.0), abs=1e-9)
    assert value(result, "end.time") < 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file is empty"),
        ('study = "motoin"\nrobot = "xu2017"', "no study 'motoin'.*did you mean 'motion'"),
        ('robot = "xu2018"\n[[phase]]\nduration = 1.0', "robot: 'xu2018' is neither a file nor.*xu2017"),
        ('robot = "none.toml"\n[[phase]]\nduration = 1.0', "none.toml: .*there is no such file"),
        ('robot = "xu2017"', "'phase' is missing"),
        (HEAD + "durration = 2.0", r"phase\[0\].*unknown key 'durration'.*did you mean 'duration'"),
        (HEAD.replace("1.0", "-1.0"), r"phase\[0\].*lasts -1.0 s"),
        (HEAD.replace("1.0", "nan"), r"phase\[0\].duration.*nan"),
        (HEAD.replace("1.0", '"long"'), r"phase\[0\].duration.*is not a number"),
        (HEAD + 'locked = ["joint7"]', "no degree of freedom 'joint7'|joint7"),
        (HEAD + 'load = [{ frame = "hnd", direction = [1, 0, 0], force = 1.0 }]', r"load\[0\].*'hnd'.*'hand'"),
        (HEAD + 'load = [{ frame = "hand", direction = [0, 0, 0], force = 1.0 }]', r"load\[0\].*direction"),
        (HEAD + 'load = [{ frame = "hand", direction = [1, 0, 0] }]', "neither 'force' nor 'moment'"),
        (HEAD + 'thruster = [{ name = "thruster99" }]', r"thruster\[0\].*no thruster 'thruster99'"),
        (HEAD + 'thruster = [{ name = "thruster7", on = [[2.0, 1.0]] }]', r"fires from 2 s to 1 s"),
        (HEAD + '[phase.driven.joint2]\nkind = "spline"\nvalues = [0.0, 1.0]', "needs 'times' and 'values'"),
        (HEAD + '[phase.forces.joint2]\nkind = "pulse"\nvalue = 1.0', "needs 'start' and 'width'"),
        (HEAD.replace('posture = "normal"', "joints = [1.0, 2.0]"), "start.*joint positions"),
        (HEAD.replace('posture = "normal"', 'posture = "straight"'), "start: .*no posture 'straight'"),
        (HEAD.replace('posture = "normal"', "joints = [0]\njoints_deg = [0]"), "both 'joints' and 'joints_deg'"),
        (HEAD.replace("[[phase]]", '[method]\nkind = "rk4"\n[[phase]]'), "method: 'step' is missing"),
    ],
)
def test_faults_are_told_with_file_and_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        run(text, tmp_path)
    assert caught.value.file is not None


def test_a_fault_exits_with_2_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "case.toml"
    file.write_text('robot = "xu2018"\n[[phase]]\nduration = 1.0')
    assert main(["run", str(file), "-o", str(tmp_path / "out")]) == 2
    assert "did you mean 'xu2017'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
