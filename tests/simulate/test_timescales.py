"""What is fast in a robot is known before a run, and a run that cannot get anywhere ends with the reason."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
import scipy.linalg

from spacearm.engine.solver import EndReason
from spacearm.errors import InputError, SimulationError
from spacearm.model import Body, Coupling, Inertia, Joint, Robot, Rotor, Spring, catalogue
from spacearm.simulate import RK4, Dopri853, Event, Phase, RunWarning, State, simulate
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.simulate.law import Law
from spacearm.simulate.motion import world_motion
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.run._timescales import TimeScales, step_time, time_scales
from spacearm.simulate.world import World
from support.random_robots import random_robot, random_state

LINK, BASE = 0.5, 4.0  # kg m2
REDUCED = LINK * BASE / (LINK + BASE)
BASE_LOCKED = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")


def flywheel(damping: float = 0.0, stiffness: float = 0.0) -> Robot:
    """A wheel on a free base, both about one axis through both mass centres."""
    bodies = (
        Body("base", Inertia(10.0, tensor=BASE * np.eye(3))),
        Body("wheel", Inertia(1.0, tensor=LINK * np.eye(3))),
    )
    spring = Spring(stiffness) if stiffness else None
    joint = Joint("spin", "revolute", "base", "wheel", axis=np.array([0, 0, 1.0]), damping=damping, spring=spring)
    return Robot("flywheel", bodies, (joint,))


def scales(robot: Robot, state: State | None = None, driven: tuple[int, ...] = ()) -> TimeScales:
    model = world_motion(World.from_robots(robot), {robot.name: ()})
    return time_scales(model, [robot_parameters(robot)], (state or State.at_rest(robot)).vector, driven)


def test_a_wheel_on_a_free_base_and_on_a_held_one() -> None:
    robot = flywheel(damping=3.0, stiffness=50.0)
    free, held = scales(robot), scales(robot, driven=tuple(range(6)))
    assert free.damper.rate == pytest.approx(3.0 / REDUCED, rel=1e-12)
    assert free.spring.rate == pytest.approx(np.sqrt(50.0 / REDUCED), rel=1e-12)
    assert held.damper.rate == pytest.approx(3.0 / LINK, rel=1e-12)
    assert held.spring.rate == pytest.approx(np.sqrt(50.0 / LINK), rel=1e-12)
    assert free.damper.owner == free.spring.owner == "joint 'spin'"
    assert scales(robot, driven=(6,)).damper.rate == 0.0
    turning = scales(robot, State.from_velocities(robot, None, [-7.0], base_angular_velocity=[0, 0, 2.0]))
    assert (turning.motion.rate, turning.motion.owner) == (7.0, "joint 'spin'")


def test_the_coupling_of_a_flexible_joint_is_named() -> None:
    motor, link = 0.02, 1.5  # kg m2 on the load side of a held base
    bodies = (
        Body("base", Inertia(10.0, tensor=np.eye(3))),
        Body("link", Inertia(1.0, tensor=link * np.eye(3))),
        Body("none", Inertia(0.0)),
    )
    axis = np.array([0, 0, 1.0])
    joints = (
        Joint("link", "revolute", "base", "link", axis=axis, damping=1e-3),
        Joint("motor", "revolute", "base", "none", axis=axis, rotor=Rotor(motor / 100.0**2, 100.0)),
    )
    robot = Robot("flexible", bodies, joints, couplings=(Coupling("gear", "link", "motor", 900.0, damping=2.0),))
    found = scales(robot, driven=tuple(range(6)))
    reduced = motor * link / (motor + link)
    assert found.damper.owner == found.spring.owner == "coupling 'gear'"
    assert found.spring.rate == pytest.approx(np.sqrt(900.0 / reduced), rel=1e-9)
    assert found.damper.rate == pytest.approx(2.0 / reduced, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_random_trees_against_mujocos_mass_matrix(seed: int) -> None:
    robot = random_robot(seed, 5, rotors=0.3, passive=True)
    drawn = random_state(robot, np.random.default_rng(seed), speed=0.3)
    state = State(drawn.position, drawn.quaternion, drawn.joints, drawn.velocity)
    reference = MujocoModel(robot)
    reference.set_state(state.position, state.quaternion, state.joints, state.velocity)
    own = robot_parameters(robot)
    assert not robot.couplings
    mass = reference.mass_matrix()
    rates = scipy.linalg.eigh(np.diag(own["damping"]), mass, eigvals_only=True)
    squares = scipy.linalg.eigh(np.diag(np.concatenate([np.zeros(6), own["stiffness"]])), mass, eigvals_only=True)
    found = scales(robot, state)
    assert found.damper.rate == pytest.approx(rates[-1], rel=1e-9, abs=1e-12)
    assert found.spring.rate == pytest.approx(np.sqrt(squares[-1]), rel=1e-9, abs=1e-6)


def test_a_stiff_damper_is_told_before_the_run_with_its_cause_and_remedy() -> None:
    robot = flywheel(damping=4e5 * REDUCED)
    with pytest.warns(RunWarning) as notes:
        run = simulate(robot, State.from_velocities(robot, None, [1.0]), 1.0)
    text = str(notes[0].message)
    assert "phase[0]: the damper of joint 'spin' has a time constant of 2.5e-06 s" in text
    assert "may need 6.3e+04 steps for 1 s" in text
    assert "lock it, lower its damping, or add inertia" in text
    assert run.sound  # with the accuracy and the certificate of any run
    assert run.stats.steps == pytest.approx(6.3e4, rel=0.1)


@pytest.mark.parametrize(("kind", "limit"), [("damper", 2.785), ("spring", 2.828)])
def test_a_step_with_which_rk4_blows_up_is_told(kind: str, limit: float) -> None:
    rate = 100.0  # 1/s
    robot = flywheel(damping=rate * REDUCED) if kind == "damper" else flywheel(stiffness=rate**2 * REDUCED)
    start = State.from_velocities(robot, None, [1.0])
    with pytest.warns() as notes, pytest.raises(SimulationError, match=r"joint 'spin' is at .*e\+09 rad"):
        simulate(robot, start, 200.0, method=RK4(1.02 * limit / rate))
    assert f"the {kind} of joint 'spin'" in str(notes[0].message)
    assert "diverges, it needs less than 0.028 s" in str(notes[0].message)
    with warnings.catch_warnings(record=True) as quiet:
        warnings.simplefilter("always")
        run = simulate(robot, start, 200.0, method=RK4(0.97 * limit / rate))
    assert not [warning for warning in quiet if warning.category is RunWarning]
    assert run.end is not None
    assert abs(run.end.rates[0]) < 2.0


@pytest.mark.parametrize("name", ["xu2017", "cai2023", "yoshida1992", "wojtunik2023", "zhang2020"])
def test_ordinary_robots_are_not_called_stiff(name: str) -> None:
    robot = catalogue.load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert simulate(robot, State.at_rest(robot), Phase(10.0, limits="ignore")).reason == EndReason.FINISHED


@pytest.mark.parametrize(("force", "speed"), [(1e12, 0.0), (0.0, 1e8)])
def test_absurd_forces_and_speeds_end_with_a_reason(force: float, speed: float) -> None:
    robot = catalogue.load("xu2017")
    phase = Phase(10.0, forces={"joint1": force}, limits="ignore")
    with pytest.warns((RunWarning, UserWarning)):
        run = simulate(robot, State.from_velocities(robot, None, [speed] * 6), phase)
    assert run.reason == EndReason.TOO_MANY_STEPS
    assert run.stats.steps + run.stats.rejected <= 250_000
    assert 0.0 < run.end_time < 0.1
    assert run.why.startswith("more steps than allowed")
    assert "rotates at" in run.why


def test_a_step_far_too_short_is_refused_at_once() -> None:
    robot = flywheel()
    start = State.from_velocities(robot, None, [1.0])
    began = time.perf_counter()
    with pytest.raises(InputError, match=r"RK4: steps of 1e-12 s make 1e\+13 steps in 10 s \(expected at most"):
        simulate(robot, start, 10.0, method=RK4(1e-12))
    assert time.perf_counter() - began < 5.0
    until = Phase(1e9, until=Event("spin", 0.5))  # an event may end it: only then is the number of steps not known
    assert simulate(robot, start, until, method=RK4(1e-3)).reason == EndReason.FINISHED


def test_long_runs_may_take_long() -> None:
    """The budget grows with the duration, and with springs and dampers."""
    robot = catalogue.load("xu2017")
    start = State.from_velocities(robot, base_angular_velocity=[0.1, 0.2, 0.3])
    run = simulate(robot, start, Phase(5000.0, limits="ignore"), method=Dopri853(rtol=1e-8), tolerance=1e-4)
    assert run.reason == EndReason.FINISHED


@pytest.mark.parametrize(
    ("robot", "phase", "options", "message"),
    [
        (flywheel(stiffness=1e14), Phase(100.0), {}, r"phase\[0\]: the spring of joint 'spin'.*lower its stiffness"),
        (flywheel(damping=1e9), Phase(100.0), {}, r"the damper of joint 'spin'.*lower its damping"),
        (
            flywheel(),
            Phase(1000.0, laws=Law(lambda p: {"spin": 0.0}, period=1e-4)),
            {},
            r"law 'law' ticks 1e\+07 times",
        ),
    ],
)
def test_more_than_a_minute_of_work_is_refused_before_it_starts(robot, phase, options, message) -> None:
    began = time.perf_counter()
    with pytest.raises(InputError, match=rf"would take about .* steps, .* s of computing: .*{message}.*max_steps"):
        simulate(robot, State.from_velocities(robot, None, [1.0]), phase, **options)
    assert time.perf_counter() - began < 5.0
    until = Phase(float(phase.duration), until=Event("spin", 1e-6))
    assert simulate(flywheel(), State.from_velocities(flywheel(), None, [1.0]), until).reason == EndReason.FINISHED


def test_max_steps_raises_the_budget_of_a_run() -> None:
    robot = flywheel(stiffness=1e14)
    with pytest.warns():
        run = simulate(robot, State.from_velocities(robot, None, [1.0]), Phase(100.0), max_steps=1000)
    assert run.reason == EndReason.TOO_MANY_STEPS


def test_no_run_takes_longer_than_a_minute_unasked() -> None:
    """The steps that are allowed, at the time that they take, of a robot whose estimate is just below the bound."""
    robot = catalogue.load("xu2017")
    start = State.from_velocities(robot, base_angular_velocity=[0.1, 0.2, 0.3])
    simulate(robot, start, Phase(1.0, limits="ignore"))  # code is loaded here, not while the clock runs
    began = time.process_time()
    run = simulate(robot, start, Phase(200.0, limits="ignore"))
    spent = time.process_time() - began
    model = world_motion(World.from_robots(robot), {robot.name: ()})
    assert step_time(model, Dopri853()) > 0.3 * spent / (run.stats.steps + run.stats.rejected)


def test_a_start_faster_than_light_is_an_error() -> None:
    robot = flywheel()
    with pytest.raises(InputError, match=r"system 'flywheel' starts at 1e\+30 m/s, faster than light"):
        simulate(robot, State.from_velocities(robot, base_velocity=[0.0, -1e30, 0.0]), 10.0)


def test_a_step_that_collapses_ends_the_run_soon() -> None:
    robot = flywheel()
    start = State.from_velocities(robot, base_velocity=[3e4, 0.0, 0.0], base_angular_velocity=[1e20, 1e19, 0.0])
    notes = (
        r"the last 10000 advanced it by .* s, and 10 s are left: "
        r".* rotates at 1e\+20 rad/s; .* 'flywheel' at 3e\+04 m/s"
    )
    with pytest.warns(RunWarning, match=notes):
        run = simulate(robot, start, 10.0)
    assert run.reason == EndReason.TOO_MANY_STEPS
    assert run.stats.steps + run.stats.rejected <= 10_000
