"""Exported C compiles without a warning and gives spacearm's numbers to the last bit."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm.cli.app import run_app
from spacearm.control import computed_torque, joint_pid
from spacearm.errors import InputError
from spacearm.export import MotionCode, export_c, motion_code, read_source
from spacearm.model import Frame, Friction, Pose, Robot, catalogue
from spacearm.simulate import RK4, Dopri853, Event, Load, Phase, State, spline
from support.cli import Capture
from support.compilers import build
from support.random_robots import random_robot


def runs(robot: Robot, folder: Path, motion: MotionCode | None = None, *flags: str) -> subprocess.CompletedProcess[str]:
    paths = export_c(robot, folder, motion=motion)
    program = build([path for path in paths if path.suffix == ".c"], folder / "test", *flags)
    return subprocess.run([str(program)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_robot_passes_its_own_test(tmp_path: Path, seed: int) -> None:
    robot = random_robot(seed, 1 + 2 * seed, geometry=("aligned", "skew", "mixed")[seed], rotors=0.4)  # type: ignore[arg-type]
    done = runs(robot, tmp_path, None, "-O1")
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")


def test_a_test_that_differs_fails(tmp_path: Path) -> None:
    robot = random_robot(1, 2, geometry="skew")
    paths = export_c(robot, tmp_path)
    code = next(path for path in paths if path.suffix == ".c" and "test" not in path.name)
    text = code.read_text()
    changed = re.sub(r"(own_reframed\[30\] = \{\s+0x1\.)", r"\g<1>1", text)
    assert changed != text
    code.write_text(changed)
    program = build([path for path in paths if path.suffix == ".c"], tmp_path / "test")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected" in done.stdout


def scenario(robot: Robot) -> tuple[State, list[Phase]]:
    """Forces, a load, a driven joint, a locked one, breaks within a phase."""
    velocity = np.linspace(-0.2, 0.2, robot.dofs)
    velocity[6:8] = 0.0
    start = State([0.1, -0.2, 0.3], [1, 0, 0, 0], np.zeros(robot.n), velocity)
    first, second, *_, last = robot.joint_names
    path = spline(np.linspace(0.0, 0.4, 5), 0.1 * np.linspace(0.0, 1.0, 5) ** 2)
    push = Load.along(robot.frames[0].name, [1, 2, 3], 4.0)
    return start, [
        Phase(0.4, driven={first: path}, locked=[second], forces={last: 0.3}, friction=False, name="driven"),
        Phase(0.3, loads=[push], forces={"base_wz": 0.1}, friction=False),
    ]


def test_a_scenario_ends_where_simulate_ends(tmp_path: Path) -> None:
    robot = random_robot(9, 4, geometry="mixed", passive=True)
    start, phases = scenario(robot)
    done = runs(robot, tmp_path, motion_code(robot, start, phases, RK4(0.013)), "-O1")
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")


def test_a_scenario_with_laws_ends_where_simulate_ends(tmp_path: Path) -> None:
    """A law with memory at ticks that fit neither the step nor the breaks, another one, the first one again, none."""
    robot = random_robot(9, 4, geometry="mixed", passive=True)
    start, phases = scenario(robot)
    paths = [spline(np.linspace(0.0, 0.3, 4), 0.1 * np.linspace(0.0, 1.0, 4) ** 2) for _ in range(robot.n)]
    pid = joint_pid(paths, 30.0, 5.0, integral=40.0, windup=0.5, period=0.007)
    torque = computed_torque(paths, 100.0, 20.0, period=0.05)
    plan = [
        replace(phases[1], laws=pid),
        Phase(0.2, laws=torque, friction=False),
        replace(phases[1], laws=pid),
        phases[1],
    ]
    motion = motion_code(robot, start, plan, RK4(0.013))
    done = runs(robot, tmp_path, motion, "-O1")
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")


def test_what_cannot_be_exported_is_refused() -> None:
    robot = catalogue.load("cai2023")
    start = State.at_rest(robot)
    with pytest.raises(InputError, match="only a fixed step"):
        motion_code(robot, start, [Phase(1.0)], Dopri853())
    until = Event(robot.joint_names[0], 0.1)
    with pytest.raises(InputError, match="events that end it"):
        motion_code(robot, start, [Phase(1.0, until=until, friction=False)], RK4(0.01))
    continuous = joint_pid([0.0] * robot.n, 1.0, 1.0, period=None)
    with pytest.raises(InputError, match="no sampled expression"):
        motion_code(robot, start, [Phase(1.0, laws=continuous, friction=False)], RK4(0.01))
    joints = tuple(replace(joint, friction=Friction(1.0, 1.0)) for joint in robot.joints)
    with pytest.raises(InputError, match="dry friction"):
        motion_code(robot.replace(joints=joints), start, [Phase(1.0)], RK4(0.01))


def test_frames_with_one_name_in_c_are_refused(tmp_path: Path) -> None:
    robot = random_robot(1, 2)
    frames = (Frame("tool-1", "base", Pose()), Frame("tool_1", "base", Pose()))
    with pytest.raises(InputError, match="one name in C"):
        export_c(robot.replace(frames=frames), tmp_path)
    assert not list(tmp_path.iterdir())


def test_somebody_elses_file_is_not_overwritten(tmp_path: Path) -> None:
    robot = catalogue.load("cai2023")
    (tmp_path / "cai2023.h").write_text("mine")
    with pytest.raises(InputError, match="was not exported"):
        export_c(robot, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cai2023.h"]


SCENARIO = """
robot = "cai2023"
[method]
kind = "rk4"
step = 0.001
[[phase]]
duration = 0.02
friction = false
forces = { joint1 = 0.5 }
"""


def test_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)
    assert run_app(["export", str(file), "--c", str(tmp_path / "c")]) == 0
    assert (tmp_path / "c" / "cai2023_test.c").is_file()
    assert "cai2023_step(" in (tmp_path / "c" / "cai2023.h").read_text()
    assert read_source("cai2023")[1] is None
    file.write_text(SCENARIO.replace('kind = "rk4"\nstep = 0.001', 'kind = "dopri853"'))
    assert run_app(["export", str(file), "--c", str(tmp_path / "d")]) == 2
    told = capsys.readouterr().err
    assert "scenario.toml" in told
    assert "only a fixed step" in told
    assert not (tmp_path / "d").exists()
