"""A guidance process steps in lock-step with a run: the bits of the same law within, and clear words when it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spacearm.connect import GuidanceProcess
from spacearm.connect._sensor_reader import SensorReader
from spacearm.errors import InputError
from spacearm.measure import record_run
from spacearm.mechanics.sensors import Encoder, Gyro, StarTracker, Tachometer
from spacearm.model import Robot, catalogue
from spacearm.simulate import RK4, Phase, Run, State, simulate
from spacearm.simulate.law import PythonLaw
from support import ROOT
from support.compilers import build
from support.random_robots import random_robot

EXAMPLES = ROOT / "examples"


def fly(command: list[str], **options: float) -> Run:
    robot = catalogue.load("xu2017")
    with GuidanceProcess(command, robot, forces=robot.joint_names, period=0.05, **options) as guidance:  # type: ignore[arg-type]
        return simulate(robot, start(robot), Phase(1.0, laws=guidance.law, limits="ignore"), method=RK4(0.01))


def start(robot: Robot) -> State:
    return State.at_rest(robot, joints=np.linspace(-0.02, 0.02, robot.n))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build([EXAMPLES / "guidance.c"], tmp_path_factory.mktemp("guidance") / "guidance", "-O1")


def test_the_examples_in_c_and_python_give_the_bits_of_a_law_within(program: Path) -> None:
    """Twice the same process, the other language, and the same law as a function of this process."""
    runs = [fly([str(program)]), fly([str(program)]), fly([sys.executable, str(EXAMPLES / "guidance.py")])]
    robot = catalogue.load("xu2017")

    def brake(time: float, state: State, references: object) -> dict[str, float]:
        return dict(zip(robot.joint_names, (-4.0 * state.joints - 3.0 * state.rates).tolist(), strict=True))

    law = PythonLaw(brake, period=0.05, forces=robot.joint_names)
    inside = simulate(robot, start(robot), Phase(1.0, laws=law, limits="ignore"), method=RK4(0.01))
    for run in runs:
        assert run.sound
        assert np.array_equal(run.states, inside.states)
    assert not np.array_equal(inside.states[0], inside.states[-1])


def test_the_example_that_runs_it(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "guidance_run.py"), str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "sound" in done.stdout
    assert "joints at the end" in done.stdout


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(7)", "ended with status 7"),
        ("import time; time.sleep(60)", "did not connect to 127.0.0.1:"),
        ("{}", "closed the connection at t = 0"),
        ("{}; s.send(struct.pack('<12d', *[float('nan')] * 12)); time.sleep(60)", "nan"),
        ("{}; time.sleep(60)", "gave no answer at t = 0 s within 1.5 s"),
    ],
)  # fmt: skip
def test_a_process_that_fails_is_an_error_that_says_how(code: str, expected: str) -> None:
    connected = "import socket, struct, sys, time; s = socket.create_connection((sys.argv[1], int(sys.argv[2])))"
    with pytest.raises(InputError, match=expected.replace("(", r"\(")):
        fly([sys.executable, "-c", code.format(connected)], timeout=1.5)


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match=r"/no/such: No such file"):
        fly(["/no/such"])
    with pytest.raises(InputError, match="expected a list of arguments"):
        GuidanceProcess("guidance", catalogue.load("yoshida1992"))  # type: ignore[arg-type]


def test_readings_are_those_of_a_record_of_the_same_seed() -> None:
    robot = random_robot(4, 3)
    begin = State([0.1, 0.2, 0.3], [1, 0, 0, 0], np.full(3, 0.2), np.linspace(-0.2, 0.2, robot.dofs))
    run = simulate(robot, begin, Phase(0.2, friction=False, limits="ignore"), sample=0.1)
    sensors = [
        Encoder(noise=1e-3, bias=0.1, resolution=1e-4),
        Tachometer(spread=0.2),
        Gyro(noise=[1e-3, 2e-3, 3e-3], scale=1.01),
        StarTracker(noise=1e-3),
    ]
    record = record_run(run, [each.__class__(**{**vars(each), "period": 0.1}) for each in sensors], seed=5)
    reader = SensorReader(robot, sensors)
    for k, time in enumerate((0.0, 0.1, 0.2)):
        expected = np.concatenate([channel.values[k] for channel in record.channels.values()])
        np.testing.assert_allclose(reader.read(run.states[k], time, seed=5), expected, rtol=0, atol=1e-12)
    assert [name for name, _ in reader.entries][:1] == [f"encoder.{robot.joint_names[0]}"]
    with pytest.raises(InputError, match="has a delay or a period"):
        SensorReader(robot, [Gyro(delay=0.1)])
