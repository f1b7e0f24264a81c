"""Certificates of random trees with everything on them: loads, paths, locks, springs, rotors, couplings, friction."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from spacearm.engine.solver import EndReason
from spacearm.model import Body, Friction, Inertia, Joint, Robot, Thruster, catalogue
from spacearm.model.parts import Frame
from spacearm.simulate import (
    RK4,
    CertificateWarning,
    Dopri853,
    Load,
    Phase,
    Run,
    State,
    half_sine,
    pulse,
    simulate,
    simulate_batch,
    spline,
    thruster_load,
    triangle,
)
from spacearm.simulate.bodies import centre_motion, evaluate_bodies, momentum
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.run.certificate import BalanceError, balance_checks, judge
from spacearm.simulate.run.ledger import Balance
from spacearm.simulate.signals import Signal
from spacearm.typing import Array
from support.random_robots import random_robot, random_state


def mixed_run(seed: int) -> Run:
    """Two phases with random modes; friction on some joints."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, int(rng.integers(2, 7)), rotors=0.3, flexible=0.2, passive=True)
    coulomb = 10 ** rng.uniform(-1.5, 0.0)
    frictional = set(rng.choice(robot.joint_names, size=min(2, robot.n), replace=False))
    robot = robot.replace(
        joints=tuple(
            replace(joint, friction=Friction(1.4 * coulomb, coulomb)) if joint.name in frictional else joint
            for joint in robot.joints
        )
    )
    state = random_state(robot, rng, speed=0.3)
    velocity = state.velocity.copy()
    held = rng.choice(robot.n, size=2, replace=False)
    velocity[6 + held] = 0.0
    locked, driven = (robot.joint_names[i] for i in held)
    start = State(state.position, state.quaternion, state.joints, velocity)
    here = start.joints[robot.joint_index(driven)]
    frame = robot.frames[0].name
    load = Load.from_direction(frame, rng.normal(size=3), half_sine(20.0 * rng.normal(), 0.1, 0.2))
    twist = Load.from_direction(
        frame, rng.normal(size=3), pulse(2.0 * rng.normal(), 0.3, 0.3), axes="frame", moment=True
    )
    path = spline([0.0, 0.6, 1.0], [here, here + 0.3, here - 0.1])
    phases = [
        Phase(1.0, locked=[locked], driven={driven: path}, loads=[load, twist]),
        Phase(0.5, locked=[driven], loads=[twist], forces={locked: pulse(1.0, 0.1, 0.2)}),
    ]
    return simulate(robot, start, phases, sample=0.02)


@pytest.mark.parametrize("seed", range(12))
def test_random_robots_under_everything(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = mixed_run(seed)
    assert run.sound
    assert run.certificate is not None
    assert run.certificate["path"].value < 1e-12
    for name in ("linear_momentum", "angular_momentum", "energy"):
        assert run.certificate[name].value < 3e-9


def test_a_wrong_inertia_would_be_noticed() -> None:
    """The certificate is able to fail: judge a run by a robot that is one percent heavier in one link."""
    robot = random_robot(3, 4, passive=False)
    state = random_state(robot, np.random.default_rng(3), speed=0.5)
    start = State(state.position, state.quaternion, state.joints, state.velocity)
    run = simulate(robot, start, 5.0)
    model = robot_motion(robot, (), True)
    parameters = model.parameters()
    inputs, y = run.track.inputs, run.track.integrated
    assert all(check.sound for check in balance_checks(model, parameters, run.times, y, inputs).values())
    heavier: Robot = robot.with_inertia_parameters(
        robot.inertia_parameters * np.where(np.arange(len(robot.bodies)) == 2, 1.01, 1.0)[:, None]
    )
    other = {**parameters, "inertia": heavier.inertia_parameters.ravel()}
    wrong = balance_checks(model, other, run.times, y, inputs)
    for name in ("linear_momentum", "angular_momentum", "energy"):
        assert wrong[name].value > 1e-6


@pytest.mark.parametrize("pushed", [False, True])
@pytest.mark.parametrize("far", [0.0, 7e6])
def test_a_wrong_position_would_be_noticed(pushed: bool, far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base that creeps by a micrometre a second from where its velocity takes it, at 7000 km from the origin too."""
    robot = rail(0.0)
    start = turning(robot, base_velocity=[0.1, 0.0, 0.2], position=[far, 0.0, -far])
    phase = Phase(5.0, loads=thruster_load(robot, "main", pulse(1.0, 1.0, 2.0)) if pushed else ())
    run = simulate(robot, start, phase)
    assert run.sound
    assert run.certificate is not None
    assert run.certificate["mass_centre"].value < 1e-10 + 4e-16 * far  # m, of a reach of about 1 m: rounding included
    add_steps, add_samples = Balance.add_steps, Balance.add_samples

    def creeping_steps(balance: Balance, audit: Array) -> None:
        moved = audit.copy()
        moved[:, 2] += 1e-6 * audit[:, 0]
        add_steps(balance, moved)

    def creeping_samples(balance: Balance, times: Array, y: Array, inputs: Array) -> None:
        moved = y.copy()
        moved[:, 0] += 1e-6 * times
        add_samples(balance, times, moved, inputs)

    monkeypatch.setattr(Balance, "add_steps", creeping_steps)
    monkeypatch.setattr(Balance, "add_samples", creeping_samples)
    with pytest.warns(CertificateWarning):
        wrong = simulate(robot, start, phase)
    assert wrong.certificate is not None
    assert [name for name, check in wrong.certificate.items() if not check.sound] == ["mass_centre"]


BASE = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")
BALANCES = ("linear_momentum", "mass_centre", "angular_momentum", "energy")


def turning(robot: Robot, **base: object) -> State:
    rng = np.random.default_rng(5)
    angular_rate = {"base_angular_velocity": [0.05, 0.1, -0.1], **base}
    return State.from_velocities(robot, 0.3 * rng.normal(size=robot.n), 0.1 * rng.normal(size=robot.n), **angular_rate)  # type: ignore[arg-type]


def rail(friction: float) -> Robot:
    """A block of 2 kg that slides along the base's x, with a thruster on the base and a frame on the block."""
    bodies = (Body("base", Inertia(10.0, tensor=np.eye(3))), Body("block", Inertia(2.0, tensor=0.1 * np.eye(3))))
    dry = Friction(friction, friction) if friction else None
    joint = Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), friction=dry)
    thruster = Thruster("main", "base", [0.3, 0.1, -0.4], [0.0, 0.6, 0.8], 12.0)
    return Robot("rail", bodies, (joint,), (Frame("tip", "block"),), (thruster,))


@pytest.mark.parametrize("sample", [[100.0], []])
def test_a_wrong_run_with_late_samples_is_judged_from_its_start(sample: list[float]) -> None:
    robot = catalogue.load("xu2017")
    with pytest.warns(CertificateWarning, match="EXCEEDS"):
        run = simulate(robot, turning(robot), 100.0, method=RK4(1.0), sample=sample)
    assert run.reason == EndReason.FINISHED
    assert not run.sound
    assert run.certificate is not None
    for name in BALANCES:
        assert run.certificate[name].value > 1e-3


def test_a_right_run_with_late_samples_is_certified() -> None:
    robot = rail(0.0)
    phase = Phase(20.0, loads=[thruster_load(robot, "main", pulse(1.0, 0.5, 3.0))])
    run = simulate(robot, turning(robot), phase, sample=[5.0, 10.0, 20.0])
    assert run.sound, str(run.certificate)
    assert run.times.tolist() == [5.0, 10.0, 20.0]


def test_what_is_seen_from_the_mass_centre_does_not_know_how_fast_it_moves() -> None:
    robot = random_robot(4, 5, rotors=0.5, passive=True)
    rng = np.random.default_rng(4)
    moves = [random_state(robot, rng, speed=0.5) for _ in range(10)]
    states = np.stack([State(s.position, s.quaternion, s.joints, s.velocity).vector for s in moves])
    n = robot.n
    own = robot_parameters(robot)
    seen = centre_motion(robot, states, own["inertia"], own["rotor"])
    assert own["rotor"].size > 0
    # by the textbook, from sums about the world's origin
    bodies = evaluate_bodies(robot, states)
    sums = momentum(robot, bodies, states, own["inertia"], own["rotor"])
    rows = own["inertia"].reshape(-1, 10)
    centre = (
        np.stack(
            [
                sum(row[0] * bodies.origin[t, b] + bodies.rotation[t, b] @ row[1:4] for b, row in enumerate(rows))
                for t in range(10)
            ]
        )
        / seen.mass
    )
    np.testing.assert_allclose(seen.mass * seen.velocity, sums.linear, atol=1e-12 * np.abs(sums.linear).max())
    np.testing.assert_allclose(seen.sums.angular, sums.angular - np.cross(centre, sums.linear), atol=1e-10)
    inner = sums.kinetic - 0.5 * seen.mass * (seen.velocity**2).sum(axis=1)
    np.testing.assert_allclose(seen.sums.kinetic, inner, rtol=1e-10)
    # and the same to the last digits from an orbit
    far = states.copy()
    far[:, :3] += [7e6, -1e5, 3.0]
    far[:, 7 + n : 10 + n] += [7500.0, 100.0, -20.0]
    again = centre_motion(robot, far, own["inertia"], own["rotor"])
    np.testing.assert_array_equal(again.sums.angular, seen.sums.angular)
    np.testing.assert_array_equal(again.sums.kinetic, seen.sums.kinetic)


def test_an_orbital_speed_hides_no_error() -> None:
    """The same coarse steps: the residuals are not smaller because the base is far away and fast."""
    robot = catalogue.load("xu2017")
    here, there = turning(robot), turning(robot, position=[7e6, 0, 0], base_velocity=[0, 7500.0, 0])
    with pytest.warns(CertificateWarning):
        slow = simulate(robot, here, 20.0, method=RK4(0.2))
    with pytest.warns(CertificateWarning):
        fast = simulate(robot, there, 20.0, method=RK4(0.2))
    assert slow.certificate is not None
    assert fast.certificate is not None
    for name in BALANCES:
        assert fast.certificate[name].value > 0.5 * slow.certificate[name].value > 1e-8


def test_balance_close_at_moderate_speed_whatever_pushes_the_base() -> None:
    robot = rail(0.0)
    hit = Load.from_direction("tip", [1.0, 0.5, 0.2], half_sine(30.0, 0.2, 0.1))
    spun = Load("tip", (0.0, 1.0, 0.0, 0.2, 0.0, 0.1), "frame")
    phases = [
        Phase(
            1.0,
            loads=[hit, spun, thruster_load(robot, "main", pulse(1.0, 0.1, 0.4))],
            forces={"base_wz": 2.0, "x": 1.0},
        ),
        Phase(1.0, accelerations={"base_vx": 0.3, "base_wy": -0.2}, forces={"base_vy": 4.0, "x": -2.0}),
    ]
    damping = {"damping": [0.5, 0.3, 0.2, 0.1, 0.1, 0.2, 0.4]}
    start = turning(robot, base_velocity=[20.0, 3.0, -7.0], position=[1e3, 0.0, 5.0])
    run = simulate(robot, start, phases, overrides=damping, method=Dopri853(rtol=1e-12))
    assert run.sound, str(run.certificate)
    batch = simulate_batch(robot, start.vector, phases, overrides=damping, ledger=True, method=Dopri853(rtol=1e-12))
    assert batch.energy_residual[0] < 1e-8


@pytest.mark.parametrize("over", [1e-11, 1e-9, 1e-6])
@pytest.mark.parametrize("shape", [half_sine, triangle, pulse])
@pytest.mark.parametrize("locked", [BASE, ()])
def test_hardly_any_motion_is_no_false_alarm(over: float, shape: object, locked: tuple[str, ...]) -> None:
    robot = rail(1.0)
    force: Signal = shape(1.0 + over, 0.0, 1.0)  # type: ignore[operator]
    run = simulate(robot, State.at_rest(robot), Phase(2.0, locked=locked, forces={"x": force}))
    assert [event.kind for event in run.events] == ["slip", "stick"]
    assert run.sound, str(run.certificate)


@pytest.mark.parametrize("angular_rate", [0.0, 1e-17, 1e-9])
def test_a_body_that_hardly_turns_in_flight_is_no_false_alarm(angular_rate: float) -> None:
    """Its angular momentum and its energy about the mass centre are rounding; there is nothing to drift."""
    robot = rail(0.0)
    start = State.from_velocities(
        robot,
        [0.7],
        quaternion=[0.8, 0.0, 0.6, 0.0],
        base_velocity=[3.0, 2.0, 5.0],
        base_angular_velocity=[angular_rate, 0, angular_rate],
    )
    for phase in (Phase(5.0, locked=["x"]), Phase(5.0), Phase(5.0, locked=["base_wy"])):
        run = simulate(robot, start, phase)
        assert run.sound, str(run.certificate)


def test_what_was_not_computed_is_not_shown_as_a_check_that_passed() -> None:
    """A robot at rest has nothing that could drift, and nothing of it is locked."""
    robot = rail(0.0)
    run = simulate(robot, State.at_rest(robot), 1.0)
    assert run.sound
    assert run.certificate is not None
    for name in ("linear_momentum", "angular_momentum", "energy", "resting_velocity"):
        check = run.certificate[name]
        assert not check.applies
        assert check.verdict == "not applicable"
        written = check.to_json()
        assert written["value"] is None
        assert written["sound"] is None
        assert str(written["note"]).startswith("not applicable: nothing ")
        assert f"{name} not applicable" in str(run.certificate)
    assert run.certificate["quaternion"].applies
    assert run.certificate.to_json()["sound"] is True


def test_a_check_applies_once_there_is_something_to_look_at() -> None:
    robot = rail(0.0)
    run = simulate(robot, turning(robot, base_velocity=[0.1, 0.0, 0.2]), 1.0)
    still = State.from_velocities(robot, [0.3], base_angular_velocity=[0.05, 0.1, -0.1])
    held = simulate(robot, still, Phase(1.0, locked=["x"]))
    assert run.certificate is not None
    assert held.certificate is not None
    assert not run.certificate["resting_velocity"].applies
    assert held.certificate["resting_velocity"].applies
    assert held.certificate["resting_velocity"].value == 0.0
    for name in BALANCES:
        assert 0.0 < run.certificate[name].value < 1e-9


MEASURE = """
from pathlib import Path
from spacearm import RK4, Phase, State, catalogue
from spacearm.simulate import simulate

robot = catalogue.load("xu2017")
start = State.from_velocities(robot, base_angular_velocity=[0.01, 0.02, 0.03])
peaks = []
for steps in (1000, {steps}):
    phase = Phase(1e-3 * steps, forces={{"base_wz": 0.1, robot.joint_names[0]: 0.01}}, limits="ignore")
    run = simulate(robot, start, phase, method=RK4(1e-3))
    assert run.sound and run.stats.steps >= steps
    # Not getrusage: it still counts the memory of the process that started this one.
    (peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    peaks.append(int(peak) / 1024)  # MiB
print(peaks[1] - peaks[0], peaks[1])
"""


def test_a_run_with_a_torque_needs_no_memory_for_its_steps() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(steps=8000)], capture_output=True, text=True, check=True
    )
    more, peak = map(float, done.stdout.split())
    assert more < 20.0  # MiB for 7000 steps more
    assert peak < 500.0


def test_what_the_integration_does_not_resolve_is_no_fault() -> None:
    """Energy of a robot at rest is rounding: its drift is the sum of its parts, or a last bit more."""
    scale, unseen = 6.744524472275124e-20, 4.5e-18
    for drift in (scale, 6.744524472275127e-20):
        assert judge(BalanceError(drift, 7e-22, scale, unseen, ""), 1e-7)[1] == 3
    assert judge(BalanceError(2.0 * unseen, 7e-22, scale, unseen, ""), 1e-7)[1] == 0


@pytest.mark.parametrize("duration", [5.0, 60.0])
def test_a_link_on_a_held_base_that_turns_many_times(duration: float) -> None:
    """Under a constant torque its angle is a parabola: steps must not pass over turns of the force on the base."""
    inertia, mass, arm, torque = 0.06, 0.6, 0.3, 0.5
    bodies = (
        Body("base", Inertia(1.0, tensor=0.1 * np.eye(3))),
        Body("link", Inertia(mass, np.array([0.0, arm, 0.0]), inertia * np.eye(3))),
    )
    robot = Robot("spinner", bodies, (Joint("hinge", "revolute", "base", "link", axis=[1, 0, 0]),), base="held")
    run = simulate(robot, State.at_rest(robot), Phase(duration, forces={"hinge": torque}, limits="ignore"))
    assert run.sound
    about = inertia + mass * arm**2
    assert run.end is not None
    assert run.end.joints[0] == pytest.approx(0.5 * torque / about * duration**2, rel=1e-9)
    # The rate's vector along the circle: what the base gave is all the momentum that there is.
    assert run.certificate is not None
    assert run.certificate["linear_momentum"].value < 1e-9
