"""Events of whole runs: friction, levels, limits, phases that end by an event, event functions."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spacearm import control
from spacearm.engine import Kernel
from spacearm.engine.solver import EndReason
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.model import Friction, Limits, Spring
from spacearm.simulate import (
    Dopri853,
    Event,
    Load,
    Phase,
    Run,
    RunWarning,
    Signal,
    State,
    half_sine,
    pulse,
    simulate,
    spline,
    table,
)
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.phase import EventFunction
from support.arms import BASE_LOCKED, arm, slider, tumbling


def test_spring_block_on_a_held_base_meets_the_closed_form() -> None:
    k, m, coulomb, static = 50.0, 2.0, 4.9, 6.0
    robot = slider(spring=Spring(k), friction=Friction(static, coulomb))
    run = simulate(robot, State.at_rest(robot, [1.0]), Phase(5.0, locked=BASE_LOCKED), sample=0.01)
    half = np.pi / np.sqrt(k / m)
    assert [event.kind for event in run.events] == ["slip", "reverse", "reverse", "reverse", "reverse", "stick"]
    np.testing.assert_allclose([event.time for event in run.events[1:]], half * np.arange(1, 6), atol=1e-8)
    assert run.end is not None
    assert run.end.joints[0] == pytest.approx(-1.0 + 10 * coulomb / k, abs=1e-8)
    assert run.sound, str(run.certificate)
    after = run.times > run.events[-1].time
    assert np.all(run.data["joint_velocity"].values[after] == 0.0)
    assert np.all(run.data["mode"].sel(dof="x").values[after] == 1)
    lost = float(run.data["energy_friction"][-1])
    assert lost == pytest.approx(0.5 * k * (1.0 - run.end.joints[0] ** 2), rel=1e-9)


def test_a_friction_arm_sticks_and_slips_and_still_keeps_its_books() -> None:
    robot = arm(5, friction=Friction(0.9, 0.5), damping=0.05)
    start = tumbling(robot, 5)
    load = Load.from_direction("hand", [1.0, 0.3, 0.2], half_sine(30.0, 1.0, 0.3))
    run = simulate(robot, start, Phase(6.0, loads=[load]), sample=0.02)
    assert run.sound, str(run.certificate)
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
        Load.from_direction(
            "hand", rng.normal(size=3), half_sine(10 ** rng.uniform(0, 2.5), 0.3, 10 ** rng.uniform(-2, 0))
        ),
        Load.from_direction("hand", rng.normal(size=3), pulse(10 ** rng.uniform(-1, 1.5), 1.0, 0.4), axes="frame"),
    ]
    phase = Phase(3.0, loads=loads, forces={"j0": table([0, 2, 4], [0, 3 * rng.normal(), 0])})
    long, short = (simulate(robot, tumbling(robot, seed), phase, method=Dopri853(max_step=h)) for h in (np.inf, 2e-3))
    assert long.sound
    assert short.sound
    assert [(e.kind, e.name) for e in long.events] == [(e.kind, e.name) for e in short.events]
    np.testing.assert_allclose([e.time for e in long.events], [e.time for e in short.events], atol=1e-8, rtol=0)
    assert len(long.events) > 0


def test_phases_that_end_by_an_event() -> None:
    robot = slider()
    phases = [
        Phase(10.0, until=Event("x", 0.5, "rising"), forces={"x": 1.0}, locked=BASE_LOCKED, name="push"),
        Phase(10.0, until=Event("x.rate", 0.0, "falling"), forces={"x": -1.0}, locked=BASE_LOCKED, name="brake"),
        Phase(0.25, until=Event("x", 7.0), locked=BASE_LOCKED, name="rest"),
    ]
    run = simulate(robot, State.at_rest(robot), phases, sample=0.1)
    np.testing.assert_allclose(run.phase_starts, [0.0, np.sqrt(2.0), 2 * np.sqrt(2.0)], atol=1e-10)
    assert run.reason == EndReason.FINISHED
    assert [event.kind for event in run.events] == ["event", "event", "timeout"]
    assert run.end_time == pytest.approx(2 * np.sqrt(2) + 0.25, abs=1e-10)
    assert run.end is not None
    assert run.end.joints[0] == pytest.approx(1.0, abs=1e-9)
    assert run.times[-1] == run.end_time
    assert np.all(np.diff(run.times) > 0)


def test_a_phase_that_lasts_until_friction_has_stopped_a_joint() -> None:
    robot = slider(friction=Friction(3.0, 2.0))
    start = State.from_velocities(robot, [0.0], [1.5])
    phases = [Phase(9.0, until=Event("x.rate", 0.0, "falling"), locked=BASE_LOCKED), Phase(1.0, locked=BASE_LOCKED)]
    run = simulate(robot, start, phases)
    assert sorted(event.kind for event in run.events) == ["event", "stick"]
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
    assert run.sound, str(run.certificate)
    assert [(event.kind, event.name) for event in run.events] == [("slip", "base_vx"), ("stick", "base_vx")]
    # 12 kg: 0.5 m/s2 for 1 s, then 0.25 m/s2 against it
    assert [event.time for event in run.events] == pytest.approx([0.5, 3.5], abs=1e-10)
    assert run.end is not None
    assert run.end.position[0] == pytest.approx(0.25 + 0.5, abs=1e-10)


@pytest.mark.parametrize(("policy", "count"), [("report", 1), ("stop", 1), ("ignore", 0)])
def test_joint_limits(policy: str, count: int) -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    start = State.from_velocities(robot, [0.0], [1.0])
    run = simulate(robot, start, Phase(2.0, limits=policy, locked=BASE_LOCKED))  # type: ignore[arg-type]
    assert len(run.events_of("limit")) == count
    assert run.reason == (EndReason.TERMINAL_EVENT if policy == "stop" else EndReason.FINISHED)
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
        events=[Event("x", 1.0), Event("x", 1.5)],
    )
    run = simulate(robot, State.from_velocities(robot, [0.0], [1.0]), phase)
    assert sorted((event.kind, round(event.time, 10)) for event in run.events) == [
        ("event", 1.0),
        ("event", 1.5),
        ("limit", 1.0),
    ]


@pytest.mark.parametrize("slope", [1.0, 0.1, 0.3, -0.7])
def test_until_met_at_the_very_end_of_its_phase_is_no_timeout(slope: float) -> None:
    robot = slider()
    goal = Event("x", slope * 3.0)
    phases = [
        Phase(3.0, driven={"x": line(slope)}, until=goal, name="go"),
        Phase(1.0, driven={"x": line(slope, slope * 3.0)}, events=[goal]),
    ]
    run = simulate(robot, State.from_velocities(robot, [0.0], [slope]), phases)
    assert [(event.kind, event.phase) for event in run.events] == [("event", 0)]
    # clamped: it arrives with rate zero
    arrive = Phase(3.0, driven={"x": spline([0.0, 3.0], [0.0, slope * 3.0])}, until=goal)
    run = simulate(robot, State.at_rest(robot), [arrive, Phase(1.0, locked=["x"], events=[goal])])
    assert [(event.kind, event.phase) for event in run.events] == [("event", 0)]


@pytest.mark.parametrize("slope", [1.0, 0.1, 0.3, -0.7])
def test_a_level_on_a_phase_boundary_is_crossed_once(slope: float) -> None:
    robot = slider()
    goal = Event("x", slope * 3.0)
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
        run = simulate(robot, State.from_velocities(robot, [0.0], [slope]), phases)
        assert [event.kind for event in run.events] == ["event"]
        assert run.events[0].time == pytest.approx(3.0, abs=1e-9)


@pytest.mark.parametrize(("position", "rate"), [(0.5, 1.0), (-1.0, -1.0)])
def test_limits_that_stop_at_a_start_on_the_bound(position: float, rate: float) -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    phase = Phase(0.25, limits="stop", locked=BASE_LOCKED)
    out = simulate(robot, State.from_velocities(robot, [position], [rate]), phase)
    assert out.reason == EndReason.TERMINAL_EVENT
    assert out.end_time < 1e-10
    assert [event.name for event in out.events_of("limit")] == ["x"]
    pushed = Phase(0.25, limits="stop", locked=BASE_LOCKED, forces={"x": rate})
    assert simulate(robot, State.at_rest(robot, [position]), pushed).reason == EndReason.TERMINAL_EVENT
    for harmless in (State.from_velocities(robot, [position], [-rate]), State.at_rest(robot, [position])):
        stays = simulate(robot, harmless, phase)
        assert stays.reason == EndReason.FINISHED
        assert stays.events == ()


def test_limits_are_looked_at_when_a_phase_begins() -> None:
    robot = slider(limits=Limits(-1.0, 0.5))
    start = State.from_velocities(robot, [0.0], [1.0])

    def run(first: str, second: str, end: float = 1.0) -> Run:
        phases = [Phase(end, limits=policy, locked=BASE_LOCKED) for policy in (first, second)]  # type: ignore[arg-type]
        return simulate(robot, start, phases)

    for end in (1.0, 0.5):  # beyond the bound, and exactly on it
        stopped = run("ignore", "stop", end)
        assert stopped.reason == EndReason.TERMINAL_EVENT
        assert stopped.end_time == pytest.approx(end, abs=1e-10)
        assert run("report", "stop", end).end_time == pytest.approx(end, abs=1e-10)
        for first in ("ignore", "report"):
            notes = run(first, "report", end)
            assert notes.reason == EndReason.FINISHED
            assert len(notes.events_of("limit")) == 1
    assert run("ignore", "report").events[0].time == pytest.approx(1.0, abs=1e-10)


def test_a_compiled_event_function_is_watched() -> None:
    robot = slider()
    state, time = ca.SX.sym("state", 15), ca.SX.sym("time", 1)
    program = Program("gauge", {"state": state, "time": time}, {"g": state[7] + 0.1 * time - 0.6})
    gauge = EventFunction(Kernel(program), ("together",), ("rising",), ("run",))
    phases = [Phase(0.1, locked=BASE_LOCKED), Phase(5.0, event_function=gauge, locked=BASE_LOCKED), Phase(1.0)]
    run = simulate(robot, State.from_velocities(robot, [0.0], [1.0]), phases)
    assert run.reason == EndReason.TERMINAL_EVENT
    assert run.end_time == pytest.approx(0.6 / 1.1, abs=1e-10)
    assert run.events[-1].name == "together"


def test_an_event_function_reads_the_reaction_of_a_locked_joint() -> None:
    """A push on the base that grows with time: the locked slider carries its own mass times the acceleration."""
    robot = slider()
    known = robot_motion(robot).kernel.program.event_inputs(15)
    kernel = Kernel(Program("load", known, {"g": ca.fabs(known["reaction"][6]) - 0.5}))

    def run(start: float, before: tuple[int, ...] = ()) -> Run:
        gauge = EventFunction(kernel, ("load",), ("rising",), ("phase",), before)
        force = table([0.0, 5.0], [start, start + 10.0])
        held = ("x", *BASE_LOCKED[1:])
        return simulate(
            robot,
            State.at_rest(robot, [0.2]),
            Phase(5.0, locked=held, forces={BASE_LOCKED[0]: force}, event_function=gauge),
        )

    # The slider is a sixth of the mass.
    assert run(0.0).end_time == pytest.approx(6 * 0.5 / 2.0, abs=1e-10)
    # Above from the start: it has crossed only for whom it comes from below.
    for before in ((), (1,)):
        assert run(6.0, before).end_time == 5.0
    assert run(6.0, (-1,)).end_time < 1e-12
    with pytest.raises(InputError, match="have different lengths"):
        EventFunction(kernel, ("load",), before=(1, 1))


@pytest.mark.parametrize("with_law", [False, True])
def test_a_short_jump_at_a_break_is_an_event_beside_a_continuous_law(with_law: bool) -> None:
    """A function jumps across zero where a force begins and is back after a microsecond, within one step."""
    robot = arm(1)

    def build(plant: control.Plant) -> control.Commands:
        return control.Commands({"j0": 0.0 * plant.rates[0]}, events={"never": 1.0 + plant.rates[0] ** 2})

    state, time = ca.SX.sym("state", 7 + 1 + 7), ca.SX.sym("time")
    jump = ca.if_else(time < 1.0, -1.0, 1.0 - 1e6 * (time - 1.0))
    seen = EventFunction(Kernel(Program("jump", {"state": state, "time": time}, {"g": jump})), ("jump",), ("rising",))
    laws = control.Law(build, period=None, name="watched") if with_law else ()
    phase = Phase(3.0, forces={BASE_LOCKED[0]: pulse(1e-3, 1.0, 1.0)}, event_function=seen, laws=laws, limits="ignore")
    run = simulate(robot, State.at_rest(robot), phase)
    assert [event.time for event in run.events if event.name == "jump"] == [pytest.approx(1.0, abs=1e-9)]
