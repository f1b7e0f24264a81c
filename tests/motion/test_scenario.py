"""Scenario files: the example runs, every kind of entry acts, every fault is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.errors import InputError, SimulationError
from spacearm.model.toml_errors import suggestion
from spacearm.result import Result
from spacearm.simulate import RunWarning
from spacearm.study import run_scenario
from support import ROOT

EXAMPLES = ROOT / "examples"
HEAD = 'robot = "xu2017"\n[start]\nconfiguration = "normal"\n[[phase]]\nduration = 1.0\n'


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
    assert {"results.json", "data.nc", "index.html", "plotly.min.js"} <= names
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) < 6_000_000


def test_a_thruster_pair_gives_the_momentum_of_its_impulse(tmp_path: Path) -> None:
    locked = 'locked = ["joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]\n'
    pair = 'thruster = [{ name = "thruster7", on = [[0.0, 0.5]] }, { name = "thruster8", on = [[0.0, 0.5]] }]\n'
    result = run(HEAD + locked + pair, tmp_path)
    assert result.sound
    # 2 x 2 N x 0.5 s = 2 N s along x on 476 kg; the base's origin also turns about the mass centre.
    data = result.data
    assert data is not None
    from spacearm.model import catalogue
    from spacearm.simulate.bodies import evaluate_bodies, momentum

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
    found = momentum(robot, evaluate_bodies(robot, states), states, robot.inertia_parameters, np.zeros(0))
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
        ('robot = "none.toml"\n[[phase]]\nduration = 1.0', r"case\.toml: robot: there is no file 'none\.toml'"),
        ('robot = ""\n[[phase]]\nduration = 1.0', "case.toml: robot: '' is neither a file nor"),
        # the scenario itself, read as a robot: what that file is, and who asked for it
        (
            'robot = "case.toml"\n[[phase]]\nduration = 1.0',
            r"case\.toml: robot: \S*case\.toml: this is a scenario file, not a robot file",
        ),
        ('robot = "xu2017"', "'phase' is missing"),
        (HEAD + "durration = 2.0", r"phase\[0\].*unknown key 'durration'.*did you mean 'duration'"),
        (HEAD.replace("1.0", "-1.0"), r"phase\[0\].*duration: value is -1 "),
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
        (
            HEAD.replace('configuration = "normal"', "joints = [1.0, 2.0]"),
            "start: joints: has 2 numbers .expected 6",
        ),
        (
            HEAD.replace('configuration = "normal"', 'configuration = "straight"'),
            "start: .*no configuration 'straight'",
        ),
        (HEAD.replace('configuration = "normal"', "joints = [0]\njoints_deg = [0]"), "both 'joints' and 'joints_deg'"),
        (HEAD.replace("[[phase]]", '[method]\nkind = "rk4"\n[[phase]]'), "method: 'step' is missing"),
        # thrust that would add up, or that no thruster gives
        (
            HEAD + 'thruster = [{ name = "thruster7", on = [[0.5, 1.5], [0, 1]] }]',
            r"thruster\[0\]: on: fires from 0.5 s on, but is still firing until 1 s",
        ),
        (
            HEAD + 'thruster = [{ name = "thruster7", on = [[0, 1]] }, { name = "thruster7" }]',
            r"thruster\[1\]: thruster\[0\] already fires 'thruster7'",
        ),
        (HEAD + 'thruster = [{ name = "thruster7", level = 1.5 }]', r"thruster\[0\]: level: level reaches 1.5"),
        (HEAD + 'thruster = [{ name = "thruster7", level = -0.1 }]', r"level reaches -0.1 \(expected 0 \(off\)"),
        (
            HEAD
            + 'thruster = [{ name = "thruster7", level = { kind = "table", times = [0, 0.5, 1], values = [0, 2, 0] }}]',
            "level reaches 2",
        ),
        (  # a spline that overshoots between its nodes
            HEAD
            + 'thruster = [{ name = "thruster7", '
            + 'level = { kind = "spline", times = [0, 0.4, 0.6, 1], values = [0, 1, 1, 0], ends = "natural" } }]',
            "level reaches 1.0",
        ),
        (
            HEAD + 'thruster = [{ name = "thruster7", level = { kind = "constant", value_deg = 1.0 } }]',
            r"thruster\[0\]: level: 'value_deg' is given, but a level is a fraction.*use 'value'",
        ),
        # degrees where there is no angle
        (
            HEAD + '[phase.forces.joint2]\nkind = "constant"\nvalue_deg = 1.0',
            r"phase\[0\]: forces.joint2: 'value_deg' is given, but a force cannot be given in degrees \(use 'value'",
        ),
        (
            HEAD
            + 'load = [{ frame = "hand", direction = [1, 0, 0], '
            + 'moment = { kind = "table", times = [0, 1], values_deg = [1, 2] } }]',
            r"load\[0\]: moment: 'values_deg' is given, but a moment cannot be given in degrees \(use 'values'",
        ),
        (
            HEAD + 'until = [{ quantity = "base_x", value_deg = 1.0 }]',
            r"until\[0\]: 'value_deg' is given, but 'base_x'",
        ),
        (HEAD + 'record = [{ quantity = "base_vx", value_deg = 1 }]', r"record\[0\]: 'value_deg' is given"),
        (
            HEAD + '[phase.accelerations.base_vx]\nkind = "constant"\nvalue_deg = 1.0',
            "accelerations.base_vx: 'value_deg' is given, but 'base_vx' is a translation",
        ),
        # keys that the chosen kind does not use
        (
            HEAD.replace("[[phase]]", '[method]\nkind = "rk4"\nstep = 0.1\nrtol = 1e-3\n[[phase]]'),
            "method: 'rtol' does not apply to kind = 'rk4' \\(it uses 'step', 'max_steps'\\)",
        ),
        (
            HEAD.replace("[[phase]]", '[method]\nkind = "rk4"\nstep = 0.1\nmax_step = 1.0\n[[phase]]'),
            "method: 'max_step' does not apply",
        ),
        (HEAD.replace("[[phase]]", "[method]\nstep = 0.1\n[[phase]]"), "method: 'step' does not apply.*'dopri853'"),
        (
            HEAD + '[phase.forces.joint2]\nkind = "constant"\nvalue = 1.0\nwidth = 0.1',
            "forces.joint2: 'width' does not apply to kind = 'constant' \\(it uses 'value'\\)",
        ),
        (
            HEAD + '[phase.forces.joint2]\nkind = "constant"\nvalue = 1.0\nvalues_deg = [0.1]',
            "'values_deg' does not apply to kind = 'constant'",
        ),
        (
            HEAD + '[phase.forces.joint2]\nkind = "table"\ntimes = [0, 1]\nvalues = [0, 1]\nends = "natural"',
            "'ends' does not apply to kind = 'table'",
        ),
        (
            HEAD + '[phase.forces.joint2]\nkind = "pulse"\nvalue = 1\nstart = 0\nwidth = 1\ntimes = [0, 1]',
            "'times' does not apply to kind = 'pulse'",
        ),
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


SLIDER = """[robot]
name = "slider"
[[body]]
name = "base"
mass = 10.0
inertia = [1.0, 1.0, 1.0]
[[body]]
name = "cart"
mass = 1.0
inertia = [0.1, 0.1, 0.1]
[[joint]]
name = "rail"
kind = "prismatic"
parent = "base"
child = "cart"
"""


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            '[phase.driven.rail]\nkind = "table"\ntimes = [0, 1]\nvalues_deg = [0, 1]',
            "driven.rail: 'values_deg'.*prismatic",
        ),
        (
            'until = [{ quantity = "rail", value_deg = 1.0 }]',
            r"until\[0\]: 'value_deg' is given, but joint 'rail' is prismatic",
        ),
        (
            'until = [{ quantity = "rail.rate", value_deg = 1.0 }]',
            "'value_deg' is given, but joint 'rail' is prismatic",
        ),
        ('[phase.accelerations.rail]\nkind = "constant"\nvalue_deg = 1.0', "accelerations.rail: 'value_deg' is given"),
    ],
)
def test_a_sliding_joint_has_no_degrees(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "slider.toml").write_text(SLIDER)
    with pytest.raises(InputError, match=message):
        run(f'robot = "slider.toml"\n[[phase]]\nduration = 1.0\n{lines}', tmp_path)


def test_degrees_stay_for_what_turns(tmp_path: Path) -> None:
    text = HEAD + (
        'record = [{ quantity = "joint6.rate", value_deg = 1.0 }, { quantity = "base_wx", value_deg = 1.0 }]\n'
        '[phase.accelerations.joint6]\nkind = "constant"\nvalue_deg = 90.0\n'
    )
    assert value(run(text, tmp_path), "end.joint_rate.joint6") == pytest.approx(np.radians(90.0), abs=1e-9)


def test_intervals_that_touch_and_levels_up_to_full_are_fine(tmp_path: Path) -> None:
    whole = run(HEAD + 'thruster = [{ name = "thruster7" }]', tmp_path)
    parts = run(HEAD + 'thruster = [{ name = "thruster7", on = [[0.5, 1.0], [0.0, 0.5]] }]', tmp_path)
    level = 'level = { kind = "table", times = [0, 0.5, 3], values = [1, 1, 9] }'
    with pytest.raises(InputError, match=r"level reaches 2\.6 "):  # at the end of the phase, not 9
        run(HEAD + f'thruster = [{{ name = "thruster7", {level} }}]', tmp_path)
    full = run(HEAD + f'thruster = [{{ name = "thruster7", {level.replace("9", "1")} }}]', tmp_path)
    for axis in "xyz":
        speed = f"end.base_velocity.{axis}"
        assert value(parts, speed) == pytest.approx(value(whole, speed), abs=1e-10)
        assert value(full, speed) == pytest.approx(value(whole, speed), abs=1e-10)


def test_attitude_and_moments_have_their_directions(tmp_path: Path) -> None:
    """Yaw turns x to y, then the body's own roll follows; moments turn about the direction given."""
    (tmp_path / "ball.toml").write_text('[robot]\nname = "p"\n[[body]]\nname = "b"\nmass = 2\ninertia = [4, 4, 4]')
    head = 'robot = "ball.toml"\n[start]\nrpy_deg = [90, 0, 90]\n[[phase]]\nduration = 0.5\n'
    pushed = run(head + 'load = [{ frame = "b", direction = [0, 3, 0], force = 8, axes = "frame" }]', tmp_path)
    # R = Rz(90) Rx(90) takes y to z
    assert [value(pushed, f"end.base_velocity.{axis}") for axis in "xyz"] == pytest.approx([0.0, 0.0, 2.0], abs=1e-12)
    head = head.replace("[90, 0, 90]", "[30, 0, 90]")
    pushed = run(head + 'load = [{ frame = "b", direction = [1, 0, 0], force = 8, axes = "frame" }]', tmp_path)
    assert [value(pushed, f"end.base_velocity.{axis}") for axis in "xyz"] == pytest.approx([0.0, 2.0, 0.0], abs=1e-12)
    turned = run(head + 'load = [{ frame = "b", direction = [0, 0, 2], moment = 8 }]', tmp_path)
    rates = [value(turned, f"end.base_angular_velocity.{axis}") for axis in "xyz"]
    assert rates == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)
    assert value(turned, "end.base_velocity.z") == pytest.approx(0.0, abs=1e-12)


def test_a_free_degree_of_freedom_without_inertia_is_told(tmp_path: Path) -> None:
    (tmp_path / "point.toml").write_text(
        SLIDER.replace("prismatic", "revolute").replace("inertia = [0.1, 0.1, 0.1]", "inertia = [0, 0, 0]")
    )
    head = 'robot = "point.toml"\n[[phase]]\nduration = 1.0\n'
    with pytest.raises(InputError, match=r"phase\[0\]: .*nothing resists 'rail'.*or lock or drive them"):
        run(head, tmp_path)
    assert run(head + 'locked = ["rail"]', tmp_path).sound
    (tmp_path / "point.toml").write_text('[robot]\nname = "p"\n[[body]]\nname = "b"\nmass = 1\ninertia = [0, 0, 0]')
    with pytest.raises(InputError, match="nothing resists 'base_wx', 'base_wy', 'base_wz'"):
        run(head, tmp_path)


def test_why_a_run_ended_early_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "case.toml"
    file.write_text(HEAD + "forces = { joint2 = 10.0 }\n[method]\nmax_steps = 3")
    assert main(["run", str(file), "-o", str(tmp_path / "out")]) == 1
    notes = capsys.readouterr().err
    assert "phase[0]: the run ended at t = " in notes
    assert "more steps than allowed, 3" in notes
    assert "raise method.max_steps" in notes
    assert not (tmp_path / "out").exists()


def test_the_steps_of_a_run_can_be_limited_in_the_file(tmp_path: Path) -> None:
    with pytest.warns(RunWarning), pytest.raises(SimulationError, match="more steps than allowed, 4"):
        run(HEAD + "[method]\nmax_steps = 4", tmp_path)
    with pytest.raises(InputError, match=r"RK4: steps of 1e-09 s make .* steps in .* s \(expected at most"):
        run(HEAD + '[method]\nkind = "rk4"\nstep = 1e-9', tmp_path)


@pytest.mark.parametrize(("old", "new"), [("posture", "configuration"), ("spin", "angular_velocity")])
def test_an_old_key_is_told_its_new_name(old: str, new: str) -> None:
    assert suggestion(old, ["joints", new]) == f"it is called {new!r} now"
