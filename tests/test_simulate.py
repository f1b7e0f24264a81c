"""Runs of whole robots: what they keep, what they hit, what they refuse."""

from __future__ import annotations

import _thread
import threading
import time
import warnings
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
import xarray as xr

from spacearm.engine import Kernel, Mechanics, NonFiniteWarning
from spacearm.engine.phase import make_record
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.model import Body, Coupling, Friction, Inertia, Joint, Limits, Pose, Robot, Rotor, Spring, Thruster
from spacearm.model.parts import Frame
from spacearm.simulate import (
    RK4,
    Adaptive,
    CertificateWarning,
    Crossing,
    Gauge,
    Load,
    Phase,
    Reason,
    Run,
    RunWarning,
    Signal,
    State,
    approximate,
    firing,
    half_sine,
    pulse,
    rollout,
    simulate,
    simulate_batch,
    spline,
    table,
    triangle,
    warm_up,
)
from spacearm.simulate.bodies import momentum, move
from spacearm.simulate.course import Course
from spacearm.simulate.motion import motion, prepare

BASE_LOCKED = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")


def turned(angle: float, axis: int) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[i, i], matrix[i, j], matrix[j, i], matrix[j, j] = c, -s, s, c
    return matrix


def arm(n: int = 7, **joint: object) -> Robot:
    """A satellite with an arm of n revolute joints; skew placements, a rotor on the second joint."""
    bodies = [Body("base", Inertia(50.0, [0.05, 0.1, -0.03], np.diag([8.0, 9.0, 7.0])))]
    joints = []
    for i in range(n):
        tensor = np.diag([0.12, 0.13, 0.04]) + 0.01 * (np.ones((3, 3)) - np.eye(3))
        bodies.append(Body(f"link{i}", Inertia(4.0 - 0.3 * i, [0.02, 0.03, 0.2], tensor)))
        axis = np.array([[0.0, 0.0, 1.0], [0.0, 0.6, 0.8], [1.0, 0.0, 0.0]][i % 3])
        placement = Pose(turned(0.3 * i, i % 3), [0.05, 0.0, 0.4])
        extra = {"rotor": Rotor(0.002, 50.0)} if i == 1 else {}
        joints.append(Joint(f"j{i}", "revolute", bodies[i].name, f"link{i}", placement, axis, **extra, **joint))
    hand = Frame("hand", f"link{n - 1}", Pose(turned(0.4, 1), [0.0, 0.02, 0.3]))
    thruster = Thruster("main", "base", [0.3, 0.1, -0.4], [0.0, 0.6, 0.8], 12.0)
    return Robot("arm", tuple(bodies), tuple(joints), (hand,), (thruster,))


def tumbling(robot: Robot, seed: int = 1) -> State:
    rng = np.random.default_rng(seed)
    return State.moving(
        robot,
        0.5 * rng.normal(size=robot.n),
        0.3 * rng.normal(size=robot.n),
        quaternion=[0.8, 0.0, 0.6, 0.0],
        base_velocity=[0.1, 0.2, -0.1],
        base_angular_velocity=[0.2, -0.1, 0.3],
    )


def slider(**joint: object) -> Robot:
    """A block of 2 kg on a prismatic joint along the base's x."""
    bodies = (Body("base", Inertia(10.0, tensor=np.eye(3))), Body("block", Inertia(2.0, tensor=0.1 * np.eye(3))))
    return Robot("slider", bodies, (Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), **joint),))


# -- what a run keeps -------------------------------------------------------------------------------------------------


def test_a_tumbling_arm_keeps_momentum_and_energy_for_100_seconds() -> None:
    robot = arm()
    run = simulate(robot, tumbling(robot), 100.0)
    assert run.reason == Reason.FINISHED
    assert run.certificate is not None
    assert run.certificate.ok
    for name in ("linear_momentum", "angular_momentum", "energy"):
        assert run.certificate[name].value < 1e-9
    # and by the engine's own momentum, another formula on the same states
    states = run.states
    values = Mechanics(robot).momentum(states[:, 7:14], states[:, 14:], base=states[:, :7])
    np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), atol=1e-9 * np.abs(values).max())


def test_body_sums_agree_with_the_compiled_mechanics() -> None:
    robot = arm(5)
    rng = np.random.default_rng(4)
    states = rng.normal(size=(20, 23))
    states[:, 3:7] /= np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)
    sums = momentum(robot, move(robot, states), states, robot.inertia_parameters, np.array([0.002]))
    mechanics = Mechanics(robot)
    expected = mechanics.momentum(states[:, 7:12], states[:, 12:], base=states[:, :7])
    np.testing.assert_allclose(np.hstack([sums.linear, sums.angular]), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(sums.kinetic, mechanics.kinetic_energy(states[:, 7:12], states[:, 12:]), rtol=1e-12)


@pytest.mark.parametrize("method", [Adaptive(), RK4(2e-3)])
def test_loads_thrusters_dampers_springs_and_forces_balance(method: object) -> None:
    robot = arm(4, spring=Spring(3.0, 0.2), damping=0.4)
    phases = [
        Phase(
            0.7,
            loads=[
                Load.along("hand", [1.0, 2.0, 0.5], half_sine(15.0, 0.1, 0.2)),
                Load("hand", (1.0, 0, 0, 0, table([0.0, 0.5], [0.0, 2.0]), 0.3), "frame"),
                firing(robot, "main", pulse(1.0, 0.25, 0.31)),
            ],
            forces={"j1": triangle(3.0, 0.0, 0.5), "base_wz": 0.7, "base_vx": pulse(5.0, 0.3, 0.1)},
        ),
        Phase(0.5, forces={"j2": 1.0}),
    ]
    run = simulate(robot, tumbling(robot), phases, method=method, sample=0.05)  # type: ignore[arg-type]
    assert run.certificate is not None
    assert run.certificate.ok, str(run.certificate)
    assert run.certificate["linear_momentum"].value < 1e-9
    assert run.certificate["angular_momentum"].value < 1e-9
    assert run.times[-1] == pytest.approx(1.2)
    assert float(np.abs(run.data["energy_load"]).max()) > 0.1
    assert float(run.data["energy_damping"][-1]) > 0.0


def test_a_thruster_gives_its_impulse() -> None:
    robot = arm(1)
    run = simulate(robot, State.at_rest(robot), Phase(2.0, loads=[firing(robot, "main", pulse(1.0, 0.5, 0.01))]))
    states = run.states[-1:]
    sums = momentum(robot, move(robot, states), states, robot.inertia_parameters, np.zeros(0))
    np.testing.assert_allclose(sums.linear[0], 0.01 * 12.0 * np.array([0.0, 0.6, 0.8]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(sums.linear[0]), 0.12, rtol=1e-4)


def test_a_base_on_a_rail_is_held_by_reactions_that_balance() -> None:
    robot = arm(3)
    rail = [name for name in BASE_LOCKED if name != "base_vz"]
    start = State.moving(robot, [0.3, -0.4, 0.5], [0.4, 0.2, -0.3])
    run = simulate(robot, start, Phase(3.0, locked=rail, accelerations={}, forces={"base_vz": pulse(20.0, 0.5, 0.5)}))
    assert run.certificate is not None
    assert run.certificate.ok, str(run.certificate)
    states = run.states
    assert np.all(states[:, :2] == 0.0)
    assert np.all(states[:, 3] == 1.0)
    assert np.all(states[:, 10:12] == 0.0)
    assert np.ptp(states[:, 2]) > 1e-2
    assert float(np.abs(run.data["reaction"].sel(dof="base_vx")).max()) > 1e-2


def test_a_flexible_joint_keeps_its_energy() -> None:
    bodies = (
        Body("base", Inertia(20.0, tensor=np.diag([2.0, 2.0, 3.0]))),
        Body("link", Inertia(3.0, [0.4, 0, 0], np.diag([0.01, 0.2, 0.2]))),
        Body("motor", Inertia.massless()),
    )
    joints = (
        Joint("link", "revolute", "base", "link", Pose(np.eye(3), [0.3, 0, 0])),
        Joint("motor", "revolute", "base", "motor", Pose(np.eye(3), [0.3, 0, 0]), rotor=Rotor(1e-4, 100.0)),
    )
    for damping in (0.0, 0.5):
        robot = Robot("flexible", bodies, joints, couplings=(Coupling("gear", "link", "motor", 200.0, damping),))
        run = simulate(robot, State.at_rest(robot, [0.1, 0.0]), Phase(5.0, forces={"motor": pulse(1.0, 1.0, 0.5)}))
        assert run.certificate is not None
        assert run.certificate.ok, str(run.certificate)
        assert run.certificate["energy"].value < 1e-9
        dissipated = float(run.data["energy_coupling"][-1])
        assert dissipated > 0.5 if damping else dissipated == 0.0


def test_a_coarse_run_says_so_loudly() -> None:
    robot = arm(3)
    with pytest.warns(CertificateWarning, match="EXCEEDS"):
        run = simulate(robot, tumbling(robot), 20.0, method=RK4(0.5))
    assert not run.ok
    assert run.certificate is not None
    assert not run.certificate["energy"].holds
    assert run.certificate.as_dict()["ok"] is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert simulate(robot, tumbling(robot), 20.0, method=RK4(0.5), tolerance=1.0).ok


# -- driven and locked ------------------------------------------------------------------------------------------------


def test_a_driven_joint_keeps_its_path_while_the_base_floats() -> None:
    robot = arm(3)
    path = spline([0.0, 2.0, 3.0, 7.0], [0.2, 1.0, -0.5, 0.4])
    start = State.at_rest(robot, [0.1, 0.2, 0.3])
    run = simulate(
        robot, start, [Phase(8.0, driven={"j1": path}, locked=["j2"]), Phase(1.0, locked=["j1"])], sample=0.01
    )
    assert run.ok
    assert run.certificate is not None
    assert run.certificate["path"].value < 1e-12
    during = run.times < 8.0
    position = run.data["joint_position"].sel(joint="j1").values
    np.testing.assert_allclose(position[during], path(run.times[during]), atol=1e-12, rtol=0)
    rate = run.data["joint_velocity"].sel(joint="j1").values
    np.testing.assert_allclose(rate[during], path.derivative()(run.times[during]), atol=1e-12, rtol=0)
    assert np.all(rate[~during] == 0.0)
    assert np.all(run.data["joint_velocity"].sel(joint="j2").values[during] == 0.0)
    assert run.certificate["angular_momentum"].value < 1e-9  # nothing acts from outside: it stays zero
    assert float(np.abs(run.data["base_angular_velocity"]).max()) > 1e-2
    assert float(np.abs(run.data["reaction"].sel(dof="j1")).max()) > 1e-2


def test_prescribed_acceleration() -> None:
    robot = arm(2)
    run = simulate(robot, State.at_rest(robot), Phase(2.0, accelerations={"j0": 0.5, "base_wx": 0.1}))
    assert run.end is not None
    assert run.end.rates[0] == pytest.approx(1.0, abs=1e-12)
    assert run.end.velocity[3] == pytest.approx(0.2, abs=1e-12)
    assert run.ok


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase(1.0, locked=["j0"]), "locked while it moves"),
        (Phase(1.0, driven={"j0": 0.3}), "its path starts at"),
        (Phase(1.0, driven={"j0": table([0.0, 0.5, 1.0], [0.0, 1.0, 0.0])}), "jumps"),
        (Phase(1.0, driven={"base_vx": 0.3}), "cannot follow a path"),
        (Phase(1.0, driven={"j9": 0.3}), "no degree of freedom"),
        (Phase(1.0, forces={"j": 0.3}), "no degree of freedom"),
        (Phase(1.0, forces={"j0": np.sin}), "is a function"),
        (Phase(1.0, forces={"j0": np.nan}), "not finite"),
        (Phase(1.0, locked=["j1"], accelerations={"j1": 1.0}), "two ways"),
        (Phase(1.0, loads=[Load("palm", (0,) * 6)]), "no frame"),
        (Phase(1.0, until=Crossing("j0.speed")), "no such quantity"),
    ],
)
def test_phases_that_cannot_be_run(phase: Phase, message: str) -> None:
    robot = arm(2)
    start = State.moving(robot, [0.1, 0.0], [0.5, 0.0])
    with pytest.raises(InputError, match=message):
        simulate(robot, start, phase)


def test_states_and_settings_that_are_refused() -> None:
    robot = arm(2)
    with pytest.raises(InputError, match="norm"):
        State([0, 0, 0], [1, 1, 0, 0], [0, 0], np.zeros(8))
    with pytest.raises(InputError, match="finite"):
        State.at_rest(robot, [0.0, np.nan])
    with pytest.raises(InputError, match="shape"):
        State.at_rest(robot, [0.0, 0.0, 0.0])
    with pytest.raises(InputError, match="joints"):
        simulate(arm(3), State.at_rest(robot), 1.0)
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(InputError, match="lasts"):
            Phase(bad)
    with pytest.raises(InputError, match="RK4"):
        RK4(0.0)
    with pytest.raises(InputError, match="rtol"):
        Adaptive(rtol=0.0)
    with pytest.raises(InputError, match="no parameter"):
        simulate(robot, State.at_rest(robot), 1.0, overrides={"mass": 1.0})
    with pytest.raises(InputError, match="sample"):
        simulate(robot, State.at_rest(robot), 1.0, sample=-1.0)
    state = tumbling(robot)
    np.testing.assert_allclose(state.base_velocity, [0.1, 0.2, -0.1], atol=1e-15)
    np.testing.assert_array_equal(State.from_vector(state.vector).vector, state.vector)


# -- events -----------------------------------------------------------------------------------------------------------


def test_spring_block_on_a_held_base_meets_the_closed_form() -> None:
    k, m, coulomb, static = 50.0, 2.0, 4.9, 6.0
    robot = slider(spring=Spring(k), friction=Friction(static, coulomb))
    run = simulate(robot, State.at_rest(robot, [1.0]), Phase(5.0, locked=BASE_LOCKED), sample=0.01)
    half = np.pi / np.sqrt(k / m)
    assert [event.kind for event in run.events] == ["slip", "reverse", "reverse", "reverse", "reverse", "stick"]
    np.testing.assert_allclose([event.time for event in run.events[1:]], half * np.arange(1, 6), atol=1e-8)
    assert run.end is not None
    assert run.end.joints[0] == pytest.approx(-1.0 + 10 * coulomb / k, abs=1e-8)
    assert run.ok, str(run.certificate)
    after = run.times > run.events[-1].time
    assert np.all(run.data["joint_velocity"].values[after] == 0.0)
    assert np.all(run.data["mode"].sel(dof="x").values[after] == 1)
    lost = float(run.data["energy_friction"][-1])
    assert lost == pytest.approx(0.5 * k * (1.0 - run.end.joints[0] ** 2), rel=1e-9)


def test_a_friction_arm_sticks_and_slips_and_still_keeps_its_books() -> None:
    robot = arm(5, friction=Friction(0.9, 0.5), damping=0.05)
    start = tumbling(robot, 5)
    load = Load.along("hand", [1.0, 0.3, 0.2], half_sine(30.0, 1.0, 0.3))
    run = simulate(robot, start, Phase(6.0, loads=[load]), sample=0.02)
    assert run.ok, str(run.certificate)
    kinds = {event.kind for event in run.events}
    assert {"stick", "slip"} <= kinds
    mode = run.data["mode"].values[:, 6:]
    np.testing.assert_array_equal(run.data["stuck"].values[:, 6:], mode == 1)
    assert mode.any(axis=0).all()
    assert np.all(run.data["joint_velocity"].values[mode == 1] == 0.0)
    reaction = run.data["reaction"].values[:, 6:]
    assert np.abs(reaction[mode == 1]).max() <= 0.9 * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_event_is_missed_by_long_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coulomb = 10 ** rng.uniform(-1.5, 0.5)
    friction = Friction(coulomb * float(rng.choice([1.0, 1.3, 2.0])), coulomb)
    robot = arm(int(rng.integers(1, 6)), friction=friction, spring=Spring(10 ** rng.uniform(-1, 1.5), 0.1))
    loads = [
        Load.along("hand", rng.normal(size=3), half_sine(10 ** rng.uniform(0, 2.5), 0.3, 10 ** rng.uniform(-2, 0))),
        Load.along("hand", rng.normal(size=3), pulse(10 ** rng.uniform(-1, 1.5), 1.0, 0.4), axes="frame"),
    ]
    phase = Phase(3.0, loads=loads, forces={"j0": table([0, 2, 4], [0, 3 * rng.normal(), 0])})
    long, short = (simulate(robot, tumbling(robot, seed), phase, method=Adaptive(max_step=h)) for h in (np.inf, 2e-3))
    assert long.ok
    assert short.ok
    assert [(e.kind, e.name) for e in long.events] == [(e.kind, e.name) for e in short.events]
    np.testing.assert_allclose([e.time for e in long.events], [e.time for e in short.events], atol=1e-8, rtol=0)
    assert len(long.events) > 0


def test_phases_that_end_by_an_event() -> None:
    robot = slider()
    phases = [
        Phase(10.0, until=Crossing("x", 0.5, "rising"), forces={"x": 1.0}, locked=BASE_LOCKED, name="push"),
        Phase(10.0, until=Crossing("x.rate", 0.0, "falling"), forces={"x": -1.0}, locked=BASE_LOCKED, name="brake"),
        Phase(0.25, until=Crossing("x", 7.0), locked=BASE_LOCKED, name="rest"),
    ]
    run = simulate(robot, State.at_rest(robot), phases, sample=0.1)
    np.testing.assert_allclose(run.phase_starts, [0.0, np.sqrt(2.0), 2 * np.sqrt(2.0)], atol=1e-10)
    assert run.reason == Reason.FINISHED
    assert [event.kind for event in run.events] == ["crossing", "crossing", "timeout"]
    assert run.end_time == pytest.approx(2 * np.sqrt(2) + 0.25, abs=1e-10)
    assert run.end is not None
    assert run.end.joints[0] == pytest.approx(1.0, abs=1e-9)
    assert run.times[-1] == run.end_time
    assert np.all(np.diff(run.times) > 0)


def test_a_phase_that_lasts_until_friction_has_stopped_a_joint() -> None:
    robot = slider(friction=Friction(3.0, 2.0))
    start = State.moving(robot, [0.0], [1.5])
    phases = [Phase(9.0, until=Crossing("x.rate", 0.0, "falling"), locked=BASE_LOCKED), Phase(1.0, locked=BASE_LOCKED)]
    run = simulate(robot, start, phases)
    assert sorted(event.kind for event in run.events) == ["crossing", "stick"]
    assert run.phase_starts[1] == pytest.approx(1.5, abs=1e-10)
    assert run.end is not None
    assert run.end.rates[0] == 0.0
    assert run.end.joints[0] == pytest.approx(1.5**2 / 2, abs=1e-10)


def test_dry_friction_of_a_rail_under_the_base() -> None:
    robot = slider()
    rail = [name for name in BASE_LOCKED if name != "base_vx"]
    coefficients = {"static_friction": [4.0, 0, 0, 0, 0, 0, 0], "coulomb_friction": [3.0, 0, 0, 0, 0, 0, 0]}
    phase = Phase(4.0, locked=[*rail, "x"], forces={"base_vx": pulse(9.0, 0.5, 1.0)})
    run = simulate(robot, State.at_rest(robot), phase, overrides=coefficients)
    assert run.ok, str(run.certificate)
    assert [(event.kind, event.name) for event in run.events] == [("slip", "base_vx"), ("stick", "base_vx")]
    # 12 kg: 0.5 m/s2 for 1 s, then 0.25 m/s2 against it
    assert [event.time for event in run.events] == pytest.approx([0.5, 3.5], abs=1e-10)
    assert run.end is not None
    assert run.end.position[0] == pytest.approx(0.25 + 0.5, abs=1e-10)


@pytest.mark.parametrize(("policy", "count"), [("report", 1), ("stop", 1), ("ignore", 0)])
def test_joint_limits(policy: str, count: int) -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    start = State.moving(robot, [0.0], [1.0])
    run = simulate(robot, start, Phase(2.0, limits=policy, locked=BASE_LOCKED))  # type: ignore[arg-type]
    assert len(run.events_of("limit")) == count
    assert run.reason == (Reason.TERMINAL_EVENT if policy == "stop" else Reason.FINISHED)
    assert run.end_time == pytest.approx(0.5 if policy == "stop" else 2.0, abs=1e-10)


def test_a_start_beyond_a_limit_is_told() -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    with pytest.warns(RunWarning, match="outside its limits"):
        simulate(robot, State.at_rest(robot, [0.7]), 1.0)
    with pytest.raises(InputError, match="outside its limits"):
        simulate(robot, State.at_rest(robot, [0.7]), Phase(1.0, limits="stop"))


def line(slope: float = 1.0, start: float = 0.0) -> Signal:
    return Signal(np.array([0.0, 100.0]), np.array([[start], [slope]]))


def test_events_on_a_break_of_a_signal_are_found() -> None:
    robot = slider(limits=Limits(-5.0, 1.0))
    phase = Phase(
        3.0,
        driven={"x": line()},
        forces={"base_vx": pulse(1.0, 1.0, 0.5)},
        events=[Crossing("x", 1.0), Crossing("x", 1.5)],
    )
    run = simulate(robot, State.moving(robot, [0.0], [1.0]), phase)
    assert sorted((event.kind, round(event.time, 10)) for event in run.events) == [
        ("crossing", 1.0),
        ("crossing", 1.5),
        ("limit", 1.0),
    ]


@pytest.mark.parametrize("slope", [1.0, 0.1, 0.3, -0.7])
def test_until_met_at_the_very_end_of_its_phase_is_no_timeout(slope: float) -> None:
    robot = slider()
    goal = Crossing("x", slope * 3.0)
    phases = [
        Phase(3.0, driven={"x": line(slope)}, until=goal, name="go"),
        Phase(1.0, driven={"x": line(slope, slope * 3.0)}, events=[goal]),
    ]
    run = simulate(robot, State.moving(robot, [0.0], [slope]), phases)
    assert [(event.kind, event.phase) for event in run.events] == [("crossing", 0)]
    # clamped: it arrives with rate zero
    arrive = Phase(3.0, driven={"x": spline([0.0, 3.0], [0.0, slope * 3.0])}, until=goal)
    run = simulate(robot, State.at_rest(robot), [arrive, Phase(1.0, locked=["x"], events=[goal])])
    assert [(event.kind, event.phase) for event in run.events] == [("crossing", 0)]


@pytest.mark.parametrize("slope", [1.0, 0.1, 0.3, -0.7])
def test_a_level_on_a_phase_boundary_is_crossed_once(slope: float) -> None:
    robot = slider()
    goal = Crossing("x", slope * 3.0)
    for phases in (
        [
            Phase(3.0, driven={"x": line(slope)}, events=[goal]),
            Phase(1.0, driven={"x": line(slope, 3.0 * slope)}, events=[goal]),
        ],
        [Phase(3.0, events=[goal]), Phase(1.0, events=[goal])],
        [
            Phase(3.0, locked=BASE_LOCKED, events=[goal]),
            Phase(1.0, driven={"x": line(slope, 3.0 * slope)}, events=[goal]),
        ],
    ):
        run = simulate(robot, State.moving(robot, [0.0], [slope]), phases)
        assert [event.kind for event in run.events] == ["crossing"]
        assert run.events[0].time == pytest.approx(3.0, abs=1e-9)


@pytest.mark.parametrize(("position", "rate"), [(0.5, 1.0), (-1.0, -1.0)])
def test_limits_that_stop_at_a_start_on_the_bound(position: float, rate: float) -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    phase = Phase(0.25, limits="stop", locked=BASE_LOCKED)
    out = simulate(robot, State.moving(robot, [position], [rate]), phase)
    assert out.reason == Reason.TERMINAL_EVENT
    assert out.end_time < 1e-10
    assert [event.name for event in out.events_of("limit")] == ["x"]
    pushed = Phase(0.25, limits="stop", locked=BASE_LOCKED, forces={"x": rate})
    assert simulate(robot, State.at_rest(robot, [position]), pushed).reason == Reason.TERMINAL_EVENT
    for harmless in (State.moving(robot, [position], [-rate]), State.at_rest(robot, [position])):
        stays = simulate(robot, harmless, phase)
        assert stays.reason == Reason.FINISHED
        assert stays.events == ()


def test_limits_are_looked_at_when_a_phase_begins() -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    start = State.moving(robot, [0.0], [1.0])

    def run(first: str, second: str, end: float = 1.0) -> Run:
        phases = [Phase(end, limits=policy, locked=BASE_LOCKED) for policy in (first, second)]  # type: ignore[arg-type]
        return simulate(robot, start, phases)

    for end in (1.0, 0.5):  # beyond the bound, and exactly on it
        stopped = run("ignore", "stop", end)
        assert stopped.reason == Reason.TERMINAL_EVENT
        assert stopped.end_time == pytest.approx(end, abs=1e-10)
        assert run("report", "stop", end).end_time == pytest.approx(end, abs=1e-10)
        for first in ("ignore", "report"):
            told = run(first, "report", end)
            assert told.reason == Reason.FINISHED
            assert len(told.events_of("limit")) == 1
    assert run("ignore", "report").events[0].time == pytest.approx(1.0, abs=1e-10)


def test_limits_at_the_starts_of_a_batch() -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    starts = np.stack([State.at_rest(robot, [x]).vector for x in (0.0, 0.5, 0.7, 0.9)])
    with pytest.raises(InputError, match=r"sample 2: joint 'x'.*outside its limits"):
        simulate_batch(robot, starts, Phase(0.1, limits="stop"))
    with pytest.warns(RunWarning, match=r"sample 2: joint 'x'.*outside its limits.*\(and 1 more"):
        simulate_batch(robot, starts, Phase(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate_batch(robot, starts, Phase(0.1, limits="ignore"))
        simulate_batch(robot, starts, lambda i: Phase(0.1, limits="ignore" if i > 1 else "stop"))


def test_a_rigid_body_without_joints() -> None:
    robot = Robot("body", (Body("base", Inertia(3.0, [0.1, 0, 0], np.diag([1.0, 2.0, 2.5]))),))
    start = State.moving(robot, base_angular_velocity=[0.1, 1.0, 0.05])
    run = simulate(robot, start, 20.0)
    assert run.ok
    assert run.certificate is not None
    assert run.certificate["angular_momentum"].value < 1e-9


def test_a_compiled_gauge_is_watched() -> None:
    robot = slider()
    state, time = ca.SX.sym("state", 15), ca.SX.sym("time", 1)
    program = Program("gauge", {"state": state, "time": time}, {"g": state[7] + 0.1 * time - 0.6})
    gauge = Gauge(Kernel(program), ("together",), ("rising",), ("run",))
    phases = [Phase(0.1, locked=BASE_LOCKED), Phase(5.0, gauge=gauge, locked=BASE_LOCKED), Phase(1.0)]
    run = simulate(robot, State.moving(robot, [0.0], [1.0]), phases)
    assert run.reason == Reason.TERMINAL_EVENT
    assert run.end_time == pytest.approx(0.6 / 1.1, abs=1e-10)
    assert run.events[-1].name == "together"


def test_a_run_that_breaks_down_gives_its_reason() -> None:
    robot = arm(2)
    with pytest.warns(RunWarning, match="more steps"):
        run = simulate(robot, tumbling(robot), 10.0, max_steps=5)
    assert run.reason == Reason.TOO_MANY_STEPS
    assert not run.ok
    assert 0 < run.end_time < 10
    model = motion(robot, (), False)
    course = Course(model, (prepare(model, Phase(1.0), 0),), Adaptive())
    record = make_record(np.zeros(0), model.plant, model.kernel.n_out)
    stopped = course.run(tumbling(robot).vector, model.parameters(), record, np.ones(1, dtype=np.uint8))
    assert stopped.reason == Reason.INTERRUPTED
    assert stopped.time == 0.0


def test_a_step_that_is_far_too_long_blows_up_with_a_reason() -> None:
    robot = slider(spring=Spring(1e12))
    with pytest.warns((RunWarning, CertificateWarning)) as told:
        run = simulate(robot, State.at_rest(robot, [0.1]), Phase(50.0, locked=BASE_LOCKED), method=RK4(0.1))
    assert run.reason == Reason.NOT_FINITE
    assert {RunWarning, CertificateWarning} == {warning.category for warning in told}
    assert run.end is not None  # the last state that was finite


def test_a_run_can_be_interrupted() -> None:
    robot = arm(7)
    simulate(robot, tumbling(robot), 1e-3)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(robot, tumbling(robot), 1e6, max_steps=10**9)
    assert time.perf_counter() - began < 10.0


def test_a_batch_can_be_interrupted() -> None:
    robot = arm(7)
    simulate_batch(robot, scattered(robot, 2), 1e-3)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate_batch(robot, scattered(robot, 64), 1e6, max_steps=10**9)
    assert time.perf_counter() - began < 10.0


# -- samples ----------------------------------------------------------------------------------------------------------


def test_the_dataset_has_names_and_units(tmp_path: Path) -> None:
    robot = arm(2)
    load = Load("hand", (0, 1.0, 0, 0, 0, 0), "frame")
    run = simulate(robot, tumbling(robot), Phase(1.0, loads=[load]), sample=[0.0, 0.25, 0.5, 1.0])
    data = run.data
    assert data["time"].values.tolist() == [0.0, 0.25, 0.5, 1.0]
    assert list(data["joint"].values) == ["j0", "j1"]
    assert list(data["dof"].values[:2]) == ["base_vx", "base_vy"]
    for name in data.data_vars:
        assert data[name].attrs["units"]
        assert data[name].attrs["long_name"]
    np.testing.assert_allclose(data["base_velocity"][0], [0.1, 0.2, -0.1], atol=1e-15)
    np.testing.assert_allclose(data["base_angular_velocity"][0], [0.2, -0.1, 0.3], atol=1e-15)
    assert data["wrench"].sel(load="hand (frame axes)", entry="fy").values.tolist() == [1.0] * 4
    force = Mechanics(robot).inverse_dynamics(
        run.states[:, 7:9],
        run.states[:, 9:],
        data["acceleration"].values,
        loads=(load.place,),
        wrench=data["wrench"].values[:, 0],
        base=run.states[:, :7],
    )
    np.testing.assert_allclose(force, 0.0, atol=1e-10)  # nothing but the load acts
    file = tmp_path / "run.nc"
    data.to_netcdf(file, engine="h5netcdf")
    with xr.open_dataset(file, engine="h5netcdf") as again:
        xr.testing.assert_identical(again.load(), data)


def test_samples_do_not_change_the_run() -> None:
    robot = arm(3, friction=Friction(0.5, 0.3))
    first = simulate(robot, tumbling(robot), 3.0, sample=[0.0])
    second = simulate(robot, tumbling(robot), 3.0, sample=1e-3)
    assert first.end is not None
    assert second.end is not None
    np.testing.assert_array_equal(first.end.vector, second.end.vector)
    assert len(second.times) == 3001


# -- many at once -----------------------------------------------------------------------------------------------------


def scattered(robot: Robot, count: int) -> np.ndarray:
    rng = np.random.default_rng(11)
    starts = np.tile(tumbling(robot).vector, (count, 1))
    starts[:, 7 : 7 + robot.n] += 0.3 * rng.normal(size=(count, robot.n))
    return starts


def test_rollouts_do_not_depend_on_threads_position_or_neighbours() -> None:
    robot = arm(4)
    starts = scattered(robot, 2100)
    starts[1030, 8] = np.nan
    with pytest.warns(NonFiniteWarning, match="index 1030"):
        one = rollout(robot, starts, 1e-2, 6, every=3, threads=1)
    with pytest.warns(NonFiniteWarning):
        np.testing.assert_array_equal(one, rollout(robot, starts, 1e-2, 6, every=3, threads=2))
    np.testing.assert_array_equal(one[5:40], rollout(robot, starts[5:40], 1e-2, 6, every=3))
    bad = ~np.isfinite(one).all(axis=(1, 2))
    assert np.flatnonzero(bad).tolist() == [1030]
    assert one.shape == (2100, 2, 21)


def test_rollouts_are_the_runs_of_the_same_method() -> None:
    robot = arm(3, damping=0.2)
    state = tumbling(robot)
    force = np.zeros(9)
    force[7] = 0.8
    run = simulate(robot, state, Phase(0.5, forces={"j1": 0.8}), method=RK4(0.01), ledger=False, sample=[0.25])
    alone = rollout(robot, state.vector, 0.01, 50, forces=force, every=25)
    np.testing.assert_allclose(alone, run.states, atol=1e-13)
    many = rollout(robot, np.stack([state.vector] * 3), 0.01, 50, forces=np.stack([force, 0 * force, force]))
    np.testing.assert_allclose(many[0, 0], alone[-1], atol=1e-13)
    np.testing.assert_array_equal(many[0], many[2])
    assert np.abs(many[0] - many[1]).max() > 1e-3
    steps = rollout(robot, state.vector[None], 0.01, 50, forces=np.broadcast_to(force, (1, 50, 9)))
    np.testing.assert_array_equal(steps[0], many[0])
    with pytest.raises(InputError, match="forces have shape"):
        rollout(robot, state.vector, 0.01, 5, forces=np.zeros((2, 3)))
    with pytest.raises(InputError, match="dry friction"):
        rollout(arm(2, friction=Friction(1.0, 1.0)), State.at_rest(arm(2)).vector, 0.01, 5)


def test_batches_are_single_runs_for_any_number_of_threads() -> None:
    robot = arm(3, friction=Friction(0.6, 0.4), damping=0.1)
    starts = scattered(robot, 40)
    starts[17, 0] = np.nan
    stiffness = np.abs(np.random.default_rng(2).normal(size=(40, 3)))
    seen: list[tuple[int, int]] = []
    options = {"sample": [0.0, 0.5, 1.0], "overrides": {"stiffness": stiffness, "rest": np.array([0.1, 0.2, 0.3])}}
    with pytest.warns(NonFiniteWarning, match="simulate_batch: 1 of 40 .* index 17"):
        one = simulate_batch(robot, starts, 1.0, threads=1, ledger=True, **options)  # type: ignore[arg-type]
    with pytest.warns(NonFiniteWarning):
        two = simulate_batch(
            robot,
            starts,
            1.0,
            threads=2,
            ledger=True,
            progress=lambda done, total: seen.append((done, total)),
            **options,  # type: ignore[arg-type]
        )
    np.testing.assert_array_equal(one.end, two.end)
    np.testing.assert_array_equal(one.states, two.states)
    assert one.events == two.events
    assert seen[-1] == (40, 40)
    assert list(one.failures) == [17]
    assert "not a number" in one.failures[17]
    assert np.nanmax(one.energy_residual) < 1e-9
    assert np.isfinite(np.delete(one.states, 17, axis=0)).all()
    part = simulate_batch(robot, starts[20:25], 1.0, overrides={"stiffness": stiffness[20:25], "rest": [0.1, 0.2, 0.3]})
    with pytest.warns(NonFiniteWarning):
        without = simulate_batch(robot, starts, 1.0, overrides=options["overrides"])  # type: ignore[arg-type]
    np.testing.assert_array_equal(part.end, without.end[20:25])
    single = simulate(
        robot,
        State.from_vector(starts[3]),
        1.0,
        ledger=False,
        overrides={"stiffness": stiffness[3], "rest": [0.1, 0.2, 0.3]},
    )
    assert single.end is not None
    np.testing.assert_array_equal(single.end.vector, without.end[3])
    starts[:, 16] = np.where(np.arange(40) == 3, 0.1, 0.0)
    with pytest.raises(InputError, match="sample 3: phase 0: 'j0' is locked while it moves"):
        simulate_batch(robot, starts[:8], Phase(1.0, locked=["j0"]))


def test_each_sample_of_a_batch_may_have_its_own_phases() -> None:
    robot = slider()
    starts = np.stack([State.at_rest(robot).vector] * 5)

    def phases(i: int) -> Phase:
        return Phase(1.0, loads=[Load.along("block", [1, 0, 0], pulse(2.0 * i, 0.1, 0.5))], locked=BASE_LOCKED)

    batch = simulate_batch(robot, starts, phases)
    np.testing.assert_allclose(batch.end[:, -1], 0.5 * np.arange(5), atol=1e-13)


def test_overrides_of_each_sample_are_checked_and_sized() -> None:
    robot = arm(2)
    starts = scattered(robot, 3)
    static, coulomb = np.full((3, 2), 0.5), np.full((3, 2), 0.4)
    coulomb[1, 0] = 0.6
    for bad in (
        {"static_friction": static, "coulomb_friction": coulomb},
        {"static_friction": [0.5, 0.5], "coulomb_friction": coulomb},
        {"static_friction": np.where(np.arange(3)[:, None] == 1, np.nan, static)},
        {"static_friction": static, "coulomb_friction": np.where(np.arange(3)[:, None] == 1, -0.1, 0.0 * static)},
    ):
        with pytest.raises(InputError, match=r"sample 1.*static friction is below"):
            simulate_batch(robot, starts, 0.1, overrides=bad)
        with pytest.raises(InputError, match=r"sample 1.*static friction is below"):
            rollout(robot, starts, 0.01, 5, overrides=bad, ignore_friction=True)
    with pytest.raises(InputError, match="'static_friction' has 3 numbers"):
        simulate_batch(robot, starts, 0.1, overrides={"static_friction": [1, 2, 3], "coulomb_friction": 0 * coulomb})
    with pytest.raises(InputError, match="dry friction"):
        rollout(robot, starts, 0.01, 5, overrides={"static_friction": static})
    # dampings of the joints alone, for each sample
    damping = np.array([[0.0, 0.0], [0.3, 0.0], [0.1, 0.2]])
    full = np.hstack([np.zeros((3, 6)), damping])
    for run in (
        lambda given: simulate_batch(robot, starts, 0.5, overrides={"damping": given}).end,
        lambda given: rollout(robot, starts, 0.01, 50, overrides={"damping": given}),
    ):
        np.testing.assert_array_equal(run(damping), run(full))
        assert np.abs(run(damping)[1] - run(0.0 * damping)[1]).max() > 1e-4
    friction = {"static_friction": static, "coulomb_friction": 0.5 * static}
    rubbed = simulate_batch(robot, starts, 0.5, overrides=friction)
    alone = simulate(
        robot, State.from_vector(starts[2]), 0.5, overrides={k: v[2] for k, v in friction.items()}, ledger=False
    )
    assert alone.end is not None
    np.testing.assert_array_equal(rubbed.end[2], alone.end.vector)


def test_settings_that_could_not_be_run_are_told() -> None:
    robot = slider()
    start = State.at_rest(robot)
    for sample in (1e-14, 1e-320):
        with pytest.raises(InputError, match="samples"):
            simulate(robot, start, 1.0, sample=sample)
    for tolerance in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="tolerance"):
            simulate(robot, start, 1.0, tolerance=tolerance)
    with pytest.raises(InputError, match="the start is NoneType"):
        simulate(robot, None, 1.0)  # type: ignore[arg-type]
    for phases in (None, [], ["push"], [1.0]):
        with pytest.raises(InputError, match="phases must be"):
            simulate(robot, start, phases)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a load is list"):
        simulate(robot, start, Phase(1.0, loads=[[1.0, 0, 0, 0, 0, 0]]))  # type: ignore[list-item]
    for duration in (np.float32(0.5), np.int64(1), np.array(0.5)):
        assert simulate(robot, start, duration).end_time == float(duration)
    entries = Load("block", [1.0, 0, 0, 0, 0, 0])  # type: ignore[arg-type]
    assert simulate(robot, start, Phase(0.1, loads=[entries])).ok
    assert motion(robot, [entries.place], False) is motion(robot, (entries.place,), False)


# -- signals ----------------------------------------------------------------------------------------------------------


def test_signals() -> None:
    t = np.linspace(-0.5, 1.5, 401)
    wave = half_sine(3.0, 0.2, 0.5)
    exact = np.where((t >= 0.2) & (t < 0.7), 3.0 * np.sin(np.pi * (t - 0.2) / 0.5), 0.0)
    np.testing.assert_allclose(wave(t), exact, atol=1e-11)
    tooth = triangle(2.0, 0.1, 0.4)
    np.testing.assert_allclose(tooth([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]), [0, 0, 1, 2, 1, 0], atol=1e-14)
    line = table([0.0, 1.0], [1.0, 3.0])
    np.testing.assert_allclose(line([-1.0, 0.5, 2.0]), [1.0, 2.0, 3.0])
    np.testing.assert_allclose((wave + 2.0 * tooth + 1.0)(t), exact + 2 * tooth(t) + 1.0, atol=1e-11)
    assert pulse(2.0, 0.1, 0.2)(0.1) == 2.0
    assert pulse(2.0, 0.1, 0.2)(0.1 + 0.2) == 0.0
    curve = spline([0.0, 0.4, 1.0], [0.0, 1.0, 0.5])
    assert curve.derivative()(0.0) == pytest.approx(0.0, abs=1e-14)
    assert curve(5.0) == pytest.approx(0.5)
    assert spline([0, 1, 2], [0, 1, 0], "natural").derivative().derivative()(0.0) == pytest.approx(0.0, abs=1e-14)

    def hard(x: np.ndarray) -> np.ndarray:
        return np.abs(x - 0.3) * np.exp(np.sin(5 * x))

    fit = approximate(hard, 0.0, 2.0, tolerance=1e-9, breaks=[0.3])
    x = np.linspace(0.0, 2.0, 1000)
    np.testing.assert_allclose(fit(x), hard(x), atol=2e-9)
    with pytest.raises(InputError, match="breaks"):
        approximate(lambda x: np.sign(x - 0.3123), 0.0, 1.0)


def test_loops_are_announced_only_when_they_are_compiled() -> None:
    warm_up()
    said: list[str] = []
    assert warm_up(said.append) < 1.0
    assert said == []
