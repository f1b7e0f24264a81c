"""Exported C compiles without a warning and gives spacearm's numbers to the last bit."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.cli.app import run_app
from spacearm.control import Encoder, ForceTorque, Gyro, computed_torque, joint_pid
from spacearm.engine import Mechanics
from spacearm.engine.solver import EndReason
from spacearm.errors import InputError
from spacearm.export import export_c
from spacearm.export._motion_code import MotionCode, motion_code
from spacearm.export.source import read_source
from spacearm.model import Friction, Limits, Robot, Thruster, catalogue
from spacearm.simulate import (
    RK4,
    Dopri853,
    Event,
    Gravity,
    JointStops,
    Load,
    Phase,
    State,
    close_state,
    constant,
    simulate,
    spline,
    table,
    thruster_load,
)
from spacearm.simulate.law import PythonLaw
from support.cli import Capture
from support.compilers import build, compiler
from support.linkages import four_bar, solve_four_bar
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


def test_closed_loops_have_the_same_bits_in_c(tmp_path: Path) -> None:
    robot = four_bar("axis", 1)
    coupler, rocker = (angle.real for angle in solve_four_bar(complex(0.7)))
    start = close_state(robot, State.at_rest(robot, [0.3, 0.7, coupler - 0.7, rocker]))
    paths = export_c(robot, tmp_path, start=start)
    program = build([path for path in paths if path.suffix == ".c"], tmp_path / "test", "-O1")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")


def test_optimised_code_has_the_same_bits(tmp_path: Path) -> None:
    """As the README says to compile it. GCC 12 fuses products and sums where it vectorises: the code forbids it."""
    robot = catalogue.load("servicer")
    done = runs(robot, tmp_path, None, "-O2", "-march=native")
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")
    code = (tmp_path / "servicer.c").read_text()
    assert code.index('#pragma GCC optimize ("no-tree-slp-vectorize")') < code.index("fma(")


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


def test_a_robot_alone_is_stepped_under_thrusters_and_wrenches(tmp_path: Path) -> None:
    """Two stretches with other inputs end where ``simulate`` ends with loads: another way to the same forces."""
    robot = random_robot(5, 3, geometry="mixed", passive=True)
    thruster = Thruster("jet", robot.body_names[0], np.array([0.3, -0.2, 0.1]), np.array([2.0, 2.0, -1.0]) / 3.0, 6.0)
    robot = robot.replace(thrusters=(thruster,))
    start = State([0.1, 0.2, 0.3], [1, 0, 0, 0], np.full(3, 0.2), np.linspace(-0.2, 0.2, robot.dofs))
    (frame, *_), name = robot.frames, "robot"
    export_c(robot.replace(name=name), tmp_path, start=start, step=0.005)
    main = tmp_path / "main.c"
    main.write_text(
        f"""#include <stdio.h>
#include "arm.h"
int main(void)
{{
    arm_parameters p;
    arm_run run;
    int k;
    double seen[{18 * len(robot.frames) + 9}];
    arm_defaults(&p);
    arm_start(&run);
    run.thruster[0] = 0.5, run.force[6] = 0.3;
    if (arm_step_to(&p, &run, 0.1) != 1) return 1;
    run.thruster[0] = 0, run.force[6] = 0, run.wrench[0] = 2, run.wrench[5] = -1;
    if (arm_step_to(&p, &run, 0.25) != 1) return 1;
    arm_outputs(&p, run.state, seen);
    for (k = 0; k < ARM_STATES; ++k) printf("%.17g\\n", run.state[k]);
    for (k = 0; k < {18 * len(robot.frames) + 9}; ++k) printf("%.17g\\n", seen[k]);
    return 0;
}}
""".replace("arm", name).replace("ARM", name.upper())
    )
    program = build([tmp_path / f"{name}.c", main], tmp_path / "main")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    found = np.array([float(line) for line in done.stdout.split()])
    push = Load(frame.name, (constant(2.0), *[constant(0.0)] * 4, constant(-1.0)))
    jet = thruster_load(robot, "jet", 0.5)
    first = Phase(0.1, loads=[jet], forces={robot.joint_names[0]: 0.3}, friction=False, limits="ignore")
    plan = [first, Phase(0.15, loads=[push], friction=False, limits="ignore")]
    end = simulate(robot, start, plan, method=RK4(0.005), ledger=False).states[-1]
    np.testing.assert_allclose(found[: end.size], end, rtol=0, atol=1e-13)
    seen, state, mechanics = found[end.size :], State.from_vector(end), Mechanics(robot)
    base = np.concatenate([state.position, state.quaternion])
    for k, each in enumerate(robot.frames):
        origin, rotation = mechanics.frame_pose(each.name, state.joints, base=base)
        np.testing.assert_allclose(seen[18 * k : 18 * k + 12], [*origin, *np.ravel(rotation)], rtol=0, atol=1e-12)
    centre = mechanics.centre_of_mass(state.joints, base=base)
    np.testing.assert_allclose(seen[-9:-6], centre, rtol=0, atol=1e-12)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMAKE IS NOT INSTALLED: the folder was not built with it")
def test_cmake_builds_the_folder_and_its_test_holds(tmp_path: Path) -> None:
    compiler()
    paths = export_c(random_robot(1, 2), tmp_path / "code")
    assert {path.name for path in paths} >= {"CMakeLists.txt", "README.md"}
    made = tmp_path / "build"
    for command in (["cmake", "-S", paths[0].parent, "-B", made], ["cmake", "--build", made]):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    program = next(made.glob("*_test"))
    done = subprocess.run([str(program), "time"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 numbers differ")
    assert done.stdout.startswith("step: ")


def scenario(robot: Robot) -> tuple[State, list[Phase]]:
    """Forces, a load, a driven joint, a locked one, breaks within a phase."""
    velocity = np.linspace(-0.2, 0.2, robot.dofs)
    velocity[6:8] = 0.0
    start = State([0.1, -0.2, 0.3], [1, 0, 0, 0], np.zeros(robot.n), velocity)
    first, second, *_, last = robot.joint_names
    path = spline(np.linspace(0.0, 0.4, 5), 0.1 * np.linspace(0.0, 1.0, 5) ** 2)
    push = Load.from_direction(robot.frames[0].name, [1, 2, 3], 4.0)
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


def same_end(robot: Robot, start: State, plan: list[Phase], folder: Path, step: float, **options: Any) -> MotionCode:
    """The exported scenario ends where ``simulate`` ends, after as many steps."""
    motion = motion_code(robot, start, plan, RK4(step), **options)
    done = runs(robot, folder, motion, "-O1")
    assert (done.returncode, done.stdout) == (0, "0 numbers differ\n")
    return motion


def test_dry_friction_sticks_and_slips_as_in_simulate(tmp_path: Path) -> None:
    """Joints that come to rest, break loose, reverse; what is held in one phase rubs in the next."""
    plain = random_robot(9, 4, geometry="mixed", passive=True)
    sizes = [(0.2, 0.1), (0.05, 0.05), (0.4, 0.3), (0.1, 0.02)]
    joints = [replace(joint, friction=Friction(*size)) for joint, size in zip(plain.joints, sizes, strict=True)]
    robot = plain.replace(joints=tuple(joints))
    start, phases = scenario(robot)
    third, last = robot.joint_names[2:]
    push = Load.from_direction(robot.frames[0].name, [1, 2, 3], table([0.0, 0.5], [4.0, -6.0]))
    plan = [
        replace(phases[0], friction=True, limits="ignore"),
        Phase(0.5, loads=[push], forces={last: table([0.0, 0.5], [0.3, -0.2])}, limits="ignore"),
        Phase(0.2, friction=False, limits="ignore"),
        Phase(0.5, forces={third: table([0.0, 0.5], [-2.0, 2.5]), "base_wz": 1.0}, limits="ignore"),
    ]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    assert {"stick", "slip", "reverse"} <= {event.kind for event in run.events}
    same_end(robot, start, plan, tmp_path, 0.013)


def test_events_end_phases_and_limits_the_run(tmp_path: Path) -> None:
    """Levels that end a phase, that are recorded, that are never met; a limit that is passed, one that ends all."""
    plain = random_robot(9, 4, geometry="mixed", passive=True)
    bounded = replace(plain.joints[-1], limits=Limits(-0.02, 0.05))
    robot = plain.replace(joints=(*plain.joints[:-1], bounded))
    start, _ = scenario(robot)
    second, third, last = robot.joint_names[1:]
    until = [Event(third, 0.01), Event("base_x", 5.0)]
    plan = [
        Phase(0.6, until=until, events=[Event(f"{second}.rate", 0.0)], forces={third: 0.5}),
        Phase(0.3, until=Event("base_vx", 10.0), forces={third: -0.5, last: 1.0}),
        Phase(3.0, forces={last: -5.0}, limits="stop"),
    ]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    assert run.reason == EndReason.TERMINAL_EVENT
    assert {"event", "limit", "timeout"} <= {event.kind for event in run.events}
    assert run.phase_starts[1] < 0.6
    motion = same_end(robot, start, plan, tmp_path, 0.013)
    assert f"0 event {third}" in motion.header("x")


def test_sensors_and_continuous_laws_are_exported(tmp_path: Path) -> None:
    """Noisy encoders and a force sensor in a sampled law, over two phases; a continuous law that saturates."""
    plain = random_robot(9, 4, geometry="mixed", passive=True)
    robot = plain.replace(joints=tuple(replace(j, limits=Limits(effort=2.0)) for j in plain.joints))
    start, phases = scenario(robot)
    sensors = [Encoder(noise=1e-4, resolution=1e-5), Gyro(noise=1e-4, spread=1e-3, period=0.02)]
    frame = robot.frames[0].name
    sampled = joint_pid([0.0] * robot.n, 3.0, 1.0, period=0.01).replace(sensors=sensors, seed=5, draw=2)
    force = ForceTorque(frame=frame, noise=0.1)
    feeling = joint_pid([0.1] * robot.n, 3.0, 1.0, period=0.01).replace(sensors=[*sensors, force])
    continuous = joint_pid([0.4] * robot.n, 20.0, 1.0, period=None)
    plan = [
        Phase(0.1, laws=sampled, limits="ignore"),
        replace(phases[1], laws=feeling, limits="ignore"),
        Phase(0.1, laws=sampled, limits="ignore"),
        Phase(0.5, laws=continuous, limits="ignore"),
    ]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    assert "saturation" in {event.kind for event in run.events}
    same_end(robot, start, plan, tmp_path, 0.013, elements=[Gravity([0.0, 0.3, -9.81])])


def test_ticks_go_on_over_seams_and_rate_limits_cut_commands(tmp_path: Path) -> None:
    """A law over two phases whose seam is no tick, a pause, and the law again; a joint meets its rate limit."""
    plain = random_robot(9, 3, geometry="mixed", passive=True)
    robot = plain.replace(joints=tuple(replace(j, limits=Limits(effort=2.0, velocity=0.4)) for j in plain.joints))
    start, _ = scenario(robot)
    start = State.at_rest(robot, start.joints)
    sensors = [Encoder(noise=1e-4, delay=0.1), Gyro(noise=1e-4, spread=1e-3)]
    law = joint_pid([2.0] * robot.n, 9.0, 0.1, integral=1.0, period=0.1).replace(sensors=sensors, seed=5)
    plan = [Phase(d, laws=own, limits="ignore") for d, own in ((0.33, law), (0.29, law), (0.1, ()), (0.4, law))]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    assert run.events_of("rate limit")
    np.testing.assert_allclose(run.commands[1].times, [0.4, 0.5, 0.6], atol=1e-12)
    same_end(robot, start, plan, tmp_path, 0.013)


def test_drives_brake_beyond_their_rate_limits(tmp_path: Path) -> None:
    """Torques from outside push joints beyond their rate limits: between ticks, at a tick, and over a seam."""
    plain = random_robot(9, 3, geometry="mixed", passive=True)
    robot = plain.replace(joints=tuple(replace(j, limits=Limits(effort=2.0, velocity=0.4)) for j in plain.joints))
    start, _ = scenario(robot)
    start = State.at_rest(robot, start.joints)
    law = joint_pid([2.0] * robot.n, 9.0, 0.1, period=0.1)
    forces = dict.fromkeys(robot.joint_names, 1.2)
    plan = [Phase(d, laws=law, forces=forces, limits="ignore") for d in (0.33, 0.29, 0.4)]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    assert all(np.any(np.abs(log.cuts[:, 2]) == 2.0) for log in run.commands[1:])
    same_end(robot, start, plan, tmp_path, 0.013)


def test_drives_of_slow_laws_return_and_brake_at_their_own_ticks(tmp_path: Path) -> None:
    """Two laws of one robot: cuts and braking of the slow one last over ticks of the fast one."""
    plain = random_robot(9, 3, geometry="mixed", passive=True)
    robot = plain.replace(joints=tuple(replace(j, limits=Limits(effort=2.0, velocity=0.4)) for j in plain.joints))
    start, _ = scenario(robot)
    start = State.at_rest(robot, start.joints)
    names = robot.joint_names
    slow = joint_pid([2.0] * (robot.n - 1), 9.0, 0.1, period=0.1, joints=names[1:], name="slow")
    laws = [joint_pid([2.0], 9.0, 0.1, period=0.02, joints=names[:1], name="fast"), slow]
    plan = [Phase(d, laws=laws, forces=dict.fromkeys(names, 1.2), limits="ignore") for d in (0.33, 0.29, 0.4)]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    for log in run.commands:
        cuts = log.cuts[log.cuts[:, 1] > 0]
        braked = cuts[np.abs(cuts[:, 2]) == 2.0, 0]
        np.testing.assert_allclose(braked / 0.1, np.round(braked / 0.1), atol=1e-9)
    assert braked.size
    same_end(robot, start, plan, tmp_path, 0.013)


def test_memory_of_continuous_laws_is_integrated_with_the_state(tmp_path: Path) -> None:
    """Two such laws with a sampled one between; the first goes on from what it remembers, and saturates."""
    plain = random_robot(9, 3, geometry="mixed", passive=True)
    robot = plain.replace(joints=tuple(replace(j, limits=Limits(effort=2.0)) for j in plain.joints))
    start, _ = scenario(robot)
    first = joint_pid([0.4] * robot.n, 6.0, 1.0, integral=9.0, period=None)
    other = joint_pid([-0.1] * robot.n, 2.0, 1.0, integral=5.0, period=None, limited=False)
    between = joint_pid([0.1] * robot.n, 2.0, 1.0, integral=5.0, period=0.01)
    plan = [Phase(0.2, laws=law, limits="ignore") for law in (first, between, other, first)]
    run = simulate(robot, start, plan, method=RK4(0.013), ledger=False)
    assert "saturation" in {event.kind for event in run.events}
    motion = same_end(robot, start, plan, tmp_path, 0.013)
    nx = start.vector.size
    assert f"state[{nx}..{nx + 2 * robot.n - 1}]: memory of continuous laws" in motion.header("x")


def test_what_cannot_be_exported_is_refused() -> None:
    robot = catalogue.load("cai2023")
    start = State.at_rest(robot)
    with pytest.raises(InputError, match="only a fixed step"):
        motion_code(robot, start, [Phase(1.0)], Dopri853())
    python = PythonLaw(lambda *_: {"joint1": 0.0}, forces=["joint1"])
    with pytest.raises(InputError, match="Python function"):
        motion_code(robot, start, [Phase(1.0, laws=python)], RK4(0.001))
    with pytest.raises(InputError, match="contacts and stops"):
        motion_code(robot, start, [Phase(1.0)], RK4(0.001), elements=[JointStops(["joint1"], 1e3)])


def test_somebody_elses_file_is_not_overwritten(tmp_path: Path) -> None:
    robot = catalogue.load("cai2023")
    (tmp_path / "cai2023.h").write_text("mine")
    with pytest.raises(InputError, match="was not written by an export"):
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
    notes = capsys.readouterr().err
    assert "scenario.toml" in notes
    assert "only a fixed step" in notes
    assert not (tmp_path / "d").exists()
    assert run_app(["export", str(file), "--c", str(tmp_path / "d"), "--step", "0.002"]) == 0
    assert "steps of at most 0.002 s" in (tmp_path / "d" / "cai2023.h").read_text()


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ('study = "impact"\nrobot = "xu2017"\nframe = "hand"\n', "export its robot, xu2017"),
        ('scenario = "mission.toml"\nruns = 4\n', "export its scenario, mission.toml"),
        (SCENARIO + '[[system]]\nname = "ball"\n[system.body]\nmass = 1.0\ninertia = [1, 1, 1]\n', "several systems"),
        (SCENARIO + '[stops]\njoints = ["joint1"]\nstiffness = 1e3\n', "contacts and stops"),
        (
            SCENARIO + '[[joint_law]]\nkind = "lugre"\njoint = "joint1"\ncoulomb = 1.0\nstiffness = 1e3\n',
            "nor can laws of joints",
        ),
    ],
    ids=["study", "campaign", "systems", "stops", "joint law"],
)
def test_files_that_cannot_be_exported_are_told(text: str, notes: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    for way in (["--c", str(tmp_path / "c")], ["--fmu", str(tmp_path / "f.fmu")]):
        assert run_app(["export", str(file), *way]) == 2
        assert notes in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.toml"]


def test_a_robot_alone_whose_loops_close_far_from_zero(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"start: .*a robot alone starts near zero .*export a motion scenario"):
        export_c(four_bar(), tmp_path)
