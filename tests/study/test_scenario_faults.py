"""Scenarios that are valid TOML and cannot be run: an error with file and place, before anything is computed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit

from spacearm.deadline import time_limit
from spacearm.ejection import Rig, SeparationDevice
from spacearm.errors import InputError, SimulationError
from spacearm.impact import FloatingSystem
from spacearm.model import catalogue
from spacearm.model.toml_values import UnitWarning
from spacearm.simulate import Run, State, simulate, simulate_batch
from spacearm.simulate.checks import LARGEST_ANGLE
from spacearm.study import run_scenario
from spacearm.study.scenario import read_study_name
from support import ROOT

TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))

from scenario_mutations import starts, written  # noqa: E402
from watched import Outcome, run_watched  # noqa: E402

START = dict(starts())


def changed(name: str, place: str, value: object) -> bytes:
    """A start of the fuzzer with another value at a place such as ``phase.0.duration``."""
    import copy

    document = copy.deepcopy(START[name])
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    node = document
    for part in path:
        node = node[part]
    node[last] = value
    return written(document)


CASES = [
    ("ejection", "device.stroke", 1e6, "device: stroke is 1e+06"),
    ("impact-plane", "collision.0.contact.stiffnesses", [1e4, 1e6] * 600, "collision[0]"),
    ("motion-phases", "phase.0.duration", 1e-12, "phase[0].duration ('thrust'): value is 1e-12"),
    ("motion-phases", "sample", -1.0, "sample: value is -1"),
    ("motion-phases", "start.joints_deg.0", 1e18, "start: joint positions: joint 'joint1' is at 1.74533e+16 rad"),
    ("motion-phases", "phase.1.driven.joint2.values_deg.1", 1e18, "phase[1]: driven.joint2: goes to"),
    (
        "motion-phases",
        "start.velocity.0",
        1e200,
        "start.velocity[0]: value is 1e+200 (expected a size of at most 1e+30",
    ),
    ("impact-plane", "start.joints.0", 1e16, "start: joint positions: joint 'joint1' is at 1e+16 rad"),
    ("impact-plane", "optimise.0.seed", -1, "optimise[0].seed ('lightest'): value is -1"),
    ("impact-plane", "optimise.0.restarts", 10**18, "optimise[0].restarts ('lightest'): value is 1000000000000000000"),
    ("impact-plane", "map.directions", 10**30, "map.directions: value is too large (expected a whole number from 2"),
    ("ejection-table", "map.resolution.0", 10**9, "map.resolution[0]: value is 1000000000"),
    ("ejection-table", "monte_carlo.samples", 10**12, "monte_carlo.samples: value is 1000000000000"),
    ("ejection-table", "monte_carlo.seed", -1, "monte_carlo.seed: value is -1"),
    ("ejection-table", "device.stiffness", 1e30, "device: stiffness is 2e+30"),
    ("capture-design", "design.seed", -1, "design.seed: value is -1"),
    ("capture-design", "design.runs", 10**15, "design.runs: value is 1000000000000000"),
    ("capture-design", "design.step", 1e-300, "design.step: value is 1e-300"),
    ("capture-hit", "duration", 1e-12, "duration: value is 1e-12"),
    ("capture-target", "on_off.off", 2.0**64, "decays at"),  # also where a damper is stiff while it is off
    ("inertia-total", "sensors.seed", -1, "sensors.seed: value is -1"),
    ("inertia-total", "monte_carlo.seed", -1, "monte_carlo.seed: value is -1"),
    ("inertia-total", "monte_carlo.samples", 10**15, "monte_carlo.samples: value is 1000000000000000"),
    ("inertia-total", "sensors.mount.0", 1e200, "sensors.mount[0]: value is 1e+200"),
    ("inertia-total", "sensor.0.spread", 1e154, "sensor[0].spread"),
    ("inertia-total", "experiment.0.duration", 1e-12, "experiment[0].duration ('spin'): value is 1e-12"),
    ("inertia-total", "sensors.sample", 1e-8, "experiment[0].duration: 10 s every 1e-08 s are too many samples"),
    ("inertia-total", "title", "a\x00b", "title: 'a\\x00b' holds control characters"),
    ("impact-robots", "case.0.name", "\x1b[2J", "case[0].name ('\\x1b[2J'): '\\x1b[2J' holds control characters"),
    (
        "inertia-total",
        "experiment.0.configuration",
        "none",
        "experiment[0]: robot 'yoshida1992' has no configuration 'none'",
    ),
    ("joint-simulated", "test.0.simulation.seed", -1, "test[0].simulation.seed ('large'): value is -1"),
    ("joint-simulated", "test.0.simulation.sample", 0.0, "test[0].simulation.sample ('large'): value is 0"),
    (
        "joint-torque",
        "fixed.motor_inertia",
        1e-12,
        "fixed.motor_inertia: is 1e-12, and the model cannot be followed to the end of test 'one'",
    ),
    (
        "joint-torque",
        "bounds",
        {"damping": [1e9, 1e10]},
        "bounds.damping: is (1000000000.0, 10000000000.0), and the model cannot be followed to the end of test 'one'",
    ),
    (
        "joint-torque",
        "test.0.simulation.driven",
        {"joint1.motor": {"value_deg": 2.0**63}},
        "test[0]: simulation: forward model: joint 'joint1.motor' is at 1.60978e+17 rad",
    ),
    (
        "joint-simulated",
        "sensor.2.noise_deg",
        2.0**31,
        "sensor 'star_tracker': noise is 3.74807e+07",
    ),
    ("joint-simulated", "frame", "nowhere", "frame: robot 'wojtunik2023_printed' has no frame 'nowhere'"),
]


@pytest.mark.parametrize(("name", "place", "value", "note"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES])
def test_what_cannot_be_meant_is_refused_with_file_and_place(
    name: str, place: str, value: object, note: str, tmp_path: Path
) -> None:
    file = tmp_path / "case.toml"
    file.write_bytes(changed(name, place, value))
    with pytest.raises(InputError) as caught, time_limit(120.0):
        run_scenario(file)
    assert caught.value.file == file
    assert caught.value.place
    assert note in str(caught.value)


def test_an_absurd_blow_ends_within_the_budget_of_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million steps were allowed here, whatever the duration."""
    steps: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Run:
        run = simulate(*arguments, **options)
        steps.append(run.stats.steps + run.stats.rejected)
        return run

    monkeypatch.setattr(import_module("spacearm.capture.capture_simulation"), "simulate", counted)
    file = tmp_path / "case.toml"
    file.write_bytes(changed("capture-hit", "load.0.force.value", -1e30))
    with pytest.raises(SimulationError, match="more steps than allowed") as caught:
        run_scenario(file)
    assert caught.value.file == file
    assert caught.value.place
    assert max(steps) < 300_000


def test_a_search_among_stiff_joints_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("spacearm.identify.joint.forward"), "MOST_STIFF", 20_000, raising=False)
    file = tmp_path / "case.toml"
    file.write_bytes(changed("joint-torque", "fixed.motor_inertia", 1e-3))
    message = "test 'one': the search stays among values for which the joints are far too stiff"
    with pytest.raises(SimulationError, match=message) as caught, time_limit(120.0):
        run_scenario(file)
    assert caught.value.file == file


@pytest.mark.parametrize(
    ("name", "place", "value", "note"),
    [
        ("ejection-space", "device.damping", 1e9, "does not leave the rail: more steps than allowed"),
        ("ejection-table", "device.stiffness", 2.0**63, "the flight ended at t = .* more steps than allowed"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_an_absurd_device_ends_within_the_budget_of_steps(
    name: str, place: str, value: float, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rail took ten million steps, and a flight that had broken off was followed by the next one."""
    monkeypatch.setattr(import_module("spacearm.ejection.run"), "MOST_STEPS", 5000, raising=False)
    file = tmp_path / "case.toml"
    file.write_bytes(changed(name, place, value))
    with pytest.raises(SimulationError, match=f"configuration '.*': ejection: .*{note}"), time_limit(100.0):
        run_scenario(file)


def test_dampers_that_switch_without_end_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contact of 1e9 N/m made 5,000 stretches in 0.3 s."""
    monkeypatch.setattr(import_module("spacearm.capture.capture_simulation"), "SPARE_SWITCHES", 50, raising=False)
    file = tmp_path / "case.toml"
    file.write_bytes(changed("capture-target", "target.contact.stiffness", 1e9))
    with pytest.raises(SimulationError, match=r"dampers have switched \d+ times until t = .* too fast") as caught:
        run_scenario(file)
    assert caught.value.file == file


@pytest.mark.filterwarnings("ignore")
def test_what_noise_above_all_signals_hides_is_told(tmp_path: Path) -> None:
    """The covariance of such noise is not positive definite to the last digit."""
    file = tmp_path / "case.toml"
    file.write_bytes(changed("inertia-linear", "sensor.1.noise", 2.0**32))
    assert "in typical sizes" in run_scenario(file).summary  # directions that the data do not show


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "link.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "link.toml"):
        with pytest.raises(InputError, match="is not a plain file"):
            read_study_name(tmp_path / name)


def test_an_angle_that_no_double_can_tell_is_an_error() -> None:
    robot = catalogue.load("yoshida1992")
    far = np.array([1e16, 0.0])
    for wrong in (
        lambda: State.at_rest(robot, far),
        lambda: State(np.zeros(3), np.array([1.0, 0, 0, 0]), far, np.zeros(8)).check(robot),
        lambda: FloatingSystem(robot, "hand", far),
        lambda: Rig(robot, SeparationDevice(100.0, 0.1)).configuration(far),
        lambda: simulate_batch(robot, State(np.zeros(3), np.array([1.0, 0, 0, 0]), far, np.zeros(8)).vector, 1.0),
    ):
        with pytest.raises(InputError, match=r"joint 'joint1' is at 1e\+16 rad"):
            wrong()
    assert State.at_rest(robot, [LARGEST_ANGLE, 0.0]).joints[0] == LARGEST_ANGLE


def test_watched_calls_may_crash_and_hang_and_take_their_time_to_prepare() -> None:
    def work(seconds: float) -> None:
        began = time.process_time()
        while time.process_time() - began < seconds:
            pass

    def judged(number: int) -> Outcome:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        work(100.0 if number == 2 else 0.0)
        return Outcome(number, "good", "", 0.0, "")

    found = {outcome.number: outcome.kind for outcome in run_watched(judged, lambda: work(0.5), range(5), 2, 0.3)}
    assert found == {0: "good", 1: "FAULT: crash, exit status -9", 2: "FAULT: hang", 3: "good", 4: "good"}
    with pytest.raises(RuntimeError, match="could not be prepared, exit status 7"):
        list(run_watched(judged, lambda: sys.exit(7), range(3), 2, 0.3))


def test_a_share_of_damaged_scenarios() -> None:
    """The whole is ``tools/fuzz_scenarios.py --count 20000``.

    In a process of its own: workers are forked, and this one has threads whose locks a child would inherit.
    """
    command = [sys.executable, str(TOOLS / "fuzz_scenarios.py"), "--seed", "2", "--count", "150", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 cases, 0 faults" in done.stdout


@pytest.mark.filterwarnings("ignore")
def test_an_experiment_that_breaks_down_says_when_and_why(tmp_path: Path) -> None:
    document = tomllib.loads((TOOLS / "scenarios" / "inertia-total.toml").read_text(encoding="utf-8"))
    document["experiment"][0]["angular_velocity"] = [0.0, 0.0, 1e30]
    path = tmp_path / "case.toml"
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    with pytest.raises(
        SimulationError, match=r"case\.toml: .*experiment 'spin': .*ended at .*'base_wz' rotates at 1e\+30"
    ):
        run_scenario(path)


def test_all_faults_of_the_tables_are_told_at_once(tmp_path: Path) -> None:
    """With their places, and with what a missing key means."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'study = "motion"\nrobot = "xu2017"\n[[phase]]\ndurationn = 3.0\ndriven.joint1 = { kind = "splin" }\n'
    )
    with pytest.raises(InputError) as caught:
        run_scenario(file)
    notes = str(caught.value)
    assert "3 problems" in notes
    assert "phase[0].durationn: unknown key 'durationn' (did you mean 'duration'?)" in notes
    assert "phase[0].duration: 'duration' is missing (s; with `until`, the longest duration)" in notes
    assert "phase[0].driven.joint1.kind: value is 'splin'" in notes


@pytest.mark.parametrize(
    ("channel", "notes"),
    [
        ("time", "measurements.columns.time: unknown key 'time' (the time has a key of its own: time ="),
        ("rae", "measurements.columns.rae: unknown key 'rae' (expected 'position', 'attitude'"),
    ],
)
def test_columns_of_no_channel(tmp_path: Path, channel: str, notes: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'study = "inertia-identification"\nrobot = "xu2017"\n'
        f'[measurements]\nfile = "orbit.csv"\ncolumns.{channel} = ["a"]\n'
    )
    with pytest.raises(InputError, match=re.escape(notes)):
        run_scenario(file)


@pytest.mark.parametrize("mark", ["\x1b[31m", "\u202e", "\u2066", "\x7f", "\n"])
def test_no_control_character_of_a_key_reaches_a_message(mark: str, tmp_path: Path) -> None:
    """Keys of TOML may hold any character in quotes; a message that shows one must not steer the terminal."""
    key = json.dumps(f"a{mark}b")
    (tmp_path / "case.toml").write_text(f'robot = "xu2017"\n[[phase]]\nduration = 1.0\ndriven.{key}.{key} = 1\n')
    with pytest.raises(InputError) as caught:
        run_scenario(tmp_path / "case.toml")
    assert mark not in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ("[start]\njoints = { joint2 = 34.0 }\n", "start.joints"),
        ("[start]\nrpy = [0.0, 0.0, 90.0]\n", "start.rpy"),
        ("", "driven.joint2.values"),
    ],
)
def test_angles_beyond_a_circle_are_questioned(tables: str, place: str, tmp_path: Path) -> None:
    path = "[phase.driven.joint2]\nkind = 'spline'\ntimes = [0, 0.5, 1]\nvalues = [0.0, 36.0, 0.0]\n"
    phase = f"[[phase]]\nduration = 1.0\n{'' if tables else path}"
    (tmp_path / "case.toml").write_text(f'robot = "xu2017"\n{tables}{phase}')
    with pytest.warns(UnitWarning, match=f"({place}): angle is .* rad"):
        run_scenario(tmp_path / "case.toml")


def test_angles_within_a_circle_are_not_questioned(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    tables = "[start]\njoints = { joint2 = 6.2832 }\nrpy = [0.0, 0.0, -6.28]\nangular_velocity = [0.0, 0.0, 9.0]\n"
    (tmp_path / "case.toml").write_text(f'robot = "xu2017"\n{tables}[[phase]]\nduration = 0.1\n')
    run_scenario(tmp_path / "case.toml")
    assert not [each for each in recwarn if issubclass(each.category, UnitWarning)]


def test_samples_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    """Weights of an impulse are a matrix of samples by samples; 20,001 of them took 3 GB for each thrust."""
    document = tomllib.loads((TOOLS / "scenarios" / "inertia-linear.toml").read_text())
    document["sensors"]["sample"] = 1e-4
    (tmp_path / "case.toml").write_text(tomlkit.dumps(document))
    with pytest.raises(InputError, match="20001 of 60001 samples are within one thrust"):
        run_scenario(tmp_path / "case.toml")
