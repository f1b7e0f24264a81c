"""Propellant that is used: the rocket equation, jet damping by hand, MuJoCo, tanks that come apart, the file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm import Body, Inertia, Phase, Pose, Robot, State, World, cross_check, load, save, simulate
from spacearm.errors import InputError, ModelError
from spacearm.export._motion_code import motion_code
from spacearm.model import Frame, Thruster
from spacearm.model.layout import Layout
from spacearm.model.parts import STANDARD_GRAVITY
from spacearm.model.slosh import Tank
from spacearm.model.tanks import add_tank, drain_tank
from spacearm.simulate import RK4, Attach, Detach, Event, RunContext, pulse, thruster_load, use_propellant
from spacearm.simulate.run.propellant import UsePropellant
from spacearm.study.scenario import run_scenario
from spacearm.typing import Array

FUEL = Tank("fuel", 0.3, 120.0, 1010.0, acceleration=0.5, surface_tension=0.066)
BOTTOM, NOZZLE, ASIDE, SPEED, FORCE = 0.2, -0.8, 0.0005, 220.0 * STANDARD_GRAVITY, 400.0
SLOSH = ("fuel.slosh_x", "fuel.slosh_y")


def spacecraft(tank: Tank = FUEL, aside: float = 0.0) -> Robot:
    hub = Body("bus", Inertia(300.0, tensor=np.diag([60.0, 80.0, 70.0])))
    robot = add_tank(Robot("spacecraft", (hub,)), "bus", tank, Pose(translation=[0.0, 0.0, BOTTOM]))
    jet = Thruster("main", "bus", [aside, 0.0, NOZZLE], [0.0, 0.0, 1.0], FORCE, specific_impulse=220.0, tank="fuel")
    return robot.replace(thrusters=(jet,))


def burn(robot: Robot, state: State, duration: float, share: float = 1e-3, locked: bool = True):  # type: ignore[no-untyped-def]
    phases = [Phase(duration, loads=[thruster_load(robot, "main", pulse(1.0, 0.0, duration))], name="burn")]
    world = World({robot.name: robot}, locked=SLOSH if locked else ())
    return simulate(world, state, lambda context: use_propellant(phases, context, share), duration=duration)


def test_the_rocket_equation() -> None:
    """Delta v = c ln(m0 / m1); the error falls with the square of what leaves at once."""
    robot = spacecraft()
    duration = 80.0 * SPEED / FORCE
    exact, errors = SPEED * math.log(420.0 / 340.0), []
    for share in (1e-2, 5e-3):
        run = burn(robot, State.at_rest(robot), duration, share)
        assert run.sound
        assert run.ledger.entries[-1].changed.world.systems["spacecraft"].mass == pytest.approx(340.0, rel=1e-12)
        errors.append(abs(run.tracks[-1].states[-1, 11] / exact - 1.0))
    assert errors[1] < 3e-6
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def variable_mass(t: float, y: Array) -> Array:
    """Rate of (x, z, angle, momentum (2), moment about the hub, liquid) of the spacecraft in its plane, by hand."""
    del t
    angle, linear, angular, mass = y[2], y[3:5], y[5], y[6]
    height = mass / (1010.0 * math.pi * 0.3**2)
    centre, own = BOTTOM + 0.5 * height, mass * (3 * 0.3**2 + height**2) / 12.0
    along, across = np.array([math.sin(angle), math.cos(angle)]), np.array([math.cos(angle), -math.sin(angle)])

    def cross(a: Array, b: Array) -> float:
        return float(a[1] * b[0] - a[0] * b[1])

    # P = (M + m) v + m c w across, L = I w + m c (along x v): solved for v and w.
    matrix = np.zeros((3, 3))
    matrix[:2, :2], matrix[:2, 2] = (300.0 + mass) * np.eye(2), mass * centre * across
    matrix[2] = mass * centre * along[1], -mass * centre * along[0], 80.0 + own + mass * centre**2
    vx, vz, rate = np.linalg.solve(matrix, [*linear, angular])
    velocity, flow = np.array([vx, vz]), FORCE / SPEED
    nozzle, surface = NOZZLE * along + ASIDE * across, BOTTOM + height
    leaving = velocity + rate * (NOZZLE * across - ASIDE * along)
    force = FORCE * along - flow * leaving
    # On its way down from the surface, in straight pipes, it has the momentum flow (nozzle - surface), which rotates.
    pipe = nozzle - surface * along
    force -= flow * rate * np.array([pipe[1], -pipe[0]])
    moment = cross(nozzle, FORCE * along - flow * leaving) - flow * cross(velocity, pipe)
    # Its moment, flow (surface x nozzle), is along the axis of rotation and stays.
    return np.array([vx, vz, rate, *force, moment - cross(velocity, linear), -flow])


def test_jet_damping_as_by_hand() -> None:
    """A rotating spacecraft burns with an offset: momentum of hub and liquid, less what the gas takes along."""
    robot, rate, duration = spacecraft(aside=ASIDE), 0.2, 100.0
    state = State(np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(2), np.array([0, 0, 0, 0, rate, 0, 0, 0]))
    centre = BOTTOM + 0.5 * FUEL.height
    across = 120.0 * (3 * 0.09 + FUEL.height**2) / 12.0
    start = [0.0, 0.0, 0.0, 120.0 * centre * rate, 0.0, (80.0 + across + 120.0 * centre**2) * rate, 120.0]
    exact = solve_ivp(variable_mass, (0.0, duration), start, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    found = []
    for share in (4e-3, 2e-3, 1e-3):
        run = burn(robot, state, duration, share)
        assert run.sound
        last = run.ledger.entries[-1].changed
        end = last.states["spacecraft"].vector
        assert last.world.systems["spacecraft"].tanks[0].mass == pytest.approx(exact[6], rel=1e-12)
        angle = 2.0 * math.atan2(end[5], end[3])
        gap = (angle - exact[2] + math.pi) % (2.0 * math.pi) - math.pi
        found.append(np.array([end[0] - exact[0], end[2] - exact[1], gap]))
    # Pieces: 12, 23, 45. What is left when the leading error, of second order, is taken away.
    coarse, middle, fine = found
    for few, many, small, large in ((12, 23, middle, coarse), (23, 45, fine, middle)):
        left = (many**2 * small - few**2 * large) / (many**2 - few**2)
        np.testing.assert_allclose(small / large, (few / many) ** 2, rtol=0.04)
    assert np.all(np.abs(left) < [1e-3, 1e-3, 1e-6])
    assert abs(fine[2]) < 3e-4
    # Without what the gas takes along the angle would be another: the case can fail.
    assert abs(exact[2] - rate * duration) > 1.0


def test_liquid_that_sloshes_leaves_and_mujoco_agrees() -> None:
    robot = spacecraft(aside=0.05)
    state = State.at_rest(robot, {"fuel.slosh_x": 0.02})
    run = burn(robot, state, 20.0, 2e-3, locked=False)
    assert run.sound
    assert len(run.ledger.entries) > 5
    assert np.ptp(run.tracks[-1].states[:, 7]) > 1e-4
    assert cross_check(run).largest < 1e-7
    # The exhaust's momentum is in the ledger: what is left lacks just that.
    entry = run.ledger.entries[1]
    taken = entry.changed.exhaust
    assert taken[0, 0] == pytest.approx(entry.changed.exhaust[0, 0])
    assert entry.residuals["momentum"] < 1e-12
    assert "of propellant used by main" in entry.text


def test_draining_changes_numbers_only() -> None:
    """As a tank that was filled with less; the same structure, so the same compiled programs."""
    from spacearm.engine import Mechanics

    for tank in (FUEL, Tank("fuel", 0.5, 150.0, 1010.0, acceleration=0.5, shape="sphere")):
        less = drain_tank(spacecraft(tank), "fuel", 40.0)
        anew = spacecraft(
            Tank(**{**{k: getattr(tank, k) for k in tank.__dataclass_fields__}, "mass": tank.mass - 40.0})
        )
        assert less.structure == spacecraft(tank).structure
        np.testing.assert_allclose(
            Mechanics(less).mass_matrix(np.array([0.1, -0.2])), Mechanics(anew).mass_matrix(np.array([0.1, -0.2])),
            rtol=1e-10, atol=1e-9,
        )  # fmt: skip
        for ours, theirs in zip(less.joints, anew.joints, strict=True):
            assert ours.spring == theirs.spring
            assert ours.damping == theirs.damping
    with pytest.raises(ModelError, match=r"has 120 kg, and 120 kg are used"):
        drain_tank(spacecraft(), "fuel", 120.0)
    with pytest.raises(ModelError, match="no tank 'oil'"):
        drain_tank(spacecraft(), "oil", 1.0)


def test_what_is_released_leaves_a_drained_host() -> None:
    """A target is caught, propellant is used, the target is released: the tank stays drained."""
    robot = spacecraft()
    robot = robot.replace(frames=(*robot.frames, Frame("hand", "bus", Pose(translation=[0.0, 0.0, 1.5]))))
    target = Robot("target", (Body("box", Inertia(50.0, tensor=np.eye(3))),))
    world = World({"spacecraft": robot, "target": target})
    states = {"spacecraft": State.at_rest(robot), "target": State.at_rest(target, position=[0.0, 0.0, 1.5])}

    def items(context: RunContext):  # type: ignore[no-untyped-def]
        del context
        yield Attach("target", "hand")
        yield Phase(1.0)
        yield UsePropellant({"main": 2.5})
        yield Phase(1.0)
        yield Detach("target")
        yield Phase(1.0)

    run = simulate(world, states, items, duration=3.0)
    assert run.sound
    end = run.steps[-1].world
    assert end.systems["spacecraft"].tanks[0].mass == pytest.approx(117.5)
    assert end.systems["spacecraft"].mass == pytest.approx(417.5)
    with pytest.raises(InputError, match="has no tank"):
        UsePropellant({"main": 1.0}).apply(
            World({"a": robot.replace(thrusters=(Thruster("main", "bus", [0, 0, 0], [0, 0, 1.0], 1.0),))}),
            {"a": State.at_rest(robot)},
        )


FILE = """
[robot]
name = "sat"
[[body]]
name = "bus"
mass = 300.0
inertia = [60.0, 80.0, 70.0]
[[tank]]
name = "fuel"
body = "bus"
shape = "sphere"
radius = 0.4
mass = 100.0
density = 1010.0
slosh_frequency = 0.02
[[thruster]]
name = "main"
body = "bus"
position = [0.0, 0.0, -0.5]
direction = [0, 0, 1]
force = 200.0
specific_impulse = 220.0
tank = "fuel"
"""


def test_a_file_names_the_tank(tmp_path: Path) -> None:
    (tmp_path / "sat.toml").write_text(FILE)
    robot = load(tmp_path / "sat.toml")
    assert robot.thrusters[0].tank == "fuel"
    save(robot, tmp_path / "copy.toml")
    assert load(tmp_path / "copy.toml") == robot
    (tmp_path / "case.toml").write_text(
        'study = "motion"\nrobot = { file = "sat.toml" }\n[[phase]]\nduration = 30.0\n'
        'thruster = [{ name = "main", on = [[0.0, 20.0]] }]\n[[phase]]\nduration = 10.0\n'
    )
    result = run_scenario(tmp_path / "case.toml", cross_check=True)
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    used = 200.0 * 20.0 / SPEED
    assert rows["end.base_velocity.z"] == pytest.approx(SPEED * math.log(400.0 / (400.0 - used)), rel=1e-6)
    (tmp_path / "sat.toml").write_text(FILE.replace('tank = "fuel"', 'tank = "fuels"'))
    with pytest.raises(ModelError, match=r"thruster 'main'.*no tank 'fuels'"):
        load(tmp_path / "sat.toml")


def test_a_schedule_sees_the_phase_before_the_propellant_left() -> None:
    """Events, samples and commands are those of the phase, whatever change came after it."""
    robot, seen = spacecraft(), []

    def schedule(context: RunContext):  # type: ignore[no-untyped-def]
        with pytest.raises(InputError, match="no phase was run yet"):
            _ = context.samples
        load = thruster_load(robot, "main", pulse(1.0, 0.0, 1.0))
        yield Phase(1.0, loads=[load], until=[Event("base_vz", 0.5)])
        times, states = context.samples
        seen.extend([context.events[-1].name, float(times[-1]), states["spacecraft"][-1], len(context.drives)])
        yield Phase(0.1)

    run = simulate(robot, State.at_rest(robot), lambda here: use_propellant(schedule(here), here), duration=2.0)
    assert any("used by main" in entry.text for entry in run.changes)
    name, time, state, systems = seen
    assert (name, systems) == ("base_vz", 1)
    assert time == pytest.approx(0.5 * 420.0 / FORCE, rel=1e-3)
    assert state[Layout(robot.n).speed(2)] == pytest.approx(0.5, abs=1e-9)


def test_exports_refuse_to_draw_propellant() -> None:
    robot = spacecraft()
    phases = [Phase(1.0, loads=[thruster_load(robot, "main", pulse(1.0, 0.0, 1.0))])]
    start = State.at_rest(robot)
    with pytest.raises(InputError, match=r"thrusters draw propellant \(main\), and masses of exported"):
        motion_code(robot, start, phases, RK4(0.01))
    motion_code(robot, start, [Phase(1.0)], RK4(0.01), tested=False)
