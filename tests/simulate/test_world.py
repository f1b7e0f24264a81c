"""Worlds of several systems, against each alone, closed forms and MuJoCo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model import Body, Friction, Inertia, Joint, Robot, Spring
from spacearm.simulate import Event, Load, Phase, RunContext, State, Switch, World, distance, half_sine, pulse, simulate
from spacearm.simulate.changes import Change
from spacearm.simulate.check.crosscheck import cross_check
from support.worlds import BASE, TIGHT, block, sliding_block, sound, two

#: What a run warns of is an error here.
pytestmark = pytest.mark.filterwarnings("error")


def test_two_systems_in_one_run_move_as_each_alone_and_as_in_mujoco() -> None:
    world, states = two()
    joint = world.systems["target"].joint_names[0]
    frame = world.systems["chaser"].frames[0].name
    phases = [
        Phase(0.5, loads=[Load.from_direction(f"chaser/{frame}", [1, 2, 0], half_sine(5.0, 0.1, 0.2))]),
        Phase(0.5, forces={f"target/{joint}": pulse(0.4, 0.1, 0.2), "chaser/base_wz": 0.2}),
    ]
    run = sound(simulate(world, states, phases, method=TIGHT, sample=0.05))
    checked = cross_check(run)
    assert checked.was_run
    assert checked.largest < 1e-9
    alone = {
        "chaser": [Phase(0.5, loads=[replace(phases[0].loads[0], frame=frame)]), Phase(0.5, forces={"base_wz": 0.2})],
        "target": [Phase(0.5), Phase(0.5, forces={joint: pulse(0.4, 0.1, 0.2)})],
    }
    for name, robot in world.systems.items():
        single = simulate(robot, states[name], alone[name], method=TIGHT, sample=0.05)
        np.testing.assert_allclose(run.last_track(name).states, single.states, rtol=0, atol=1e-10)
        for key in ("kinetic", "elastic", "damping", "drive", "load"):
            ours, theirs = (part.data[f"energy_{key}"].values for part in (run.last_track(name), single))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert run.ledger is not None
    total = sum(run.last_track(name).data["energy_kinetic"].values for name in world.systems)
    np.testing.assert_allclose(run.ledger.kinetic, total, rtol=1e-14)


def test_names_in_a_world() -> None:
    world, states = two()
    with pytest.raises(InputError, match="several systems have a degree of freedom 'base_vx'"):
        simulate(world, states, Phase(1.0, locked=["base_vx"]))
    with pytest.raises(InputError, match=r"phase\[0\]: locked: there is no degree of freedom 'chaser/jo'"):
        simulate(world, states, Phase(1.0, locked=["chaser/jo"]))
    with pytest.raises(InputError, match="one State"):
        simulate(world, states["chaser"], 1.0)
    with pytest.raises(InputError, match=r"the start has states of chaser .expected chaser, target"):
        simulate(world, {"chaser": states["chaser"]}, 1.0)
    run = simulate(world, states, 0.1)
    with pytest.raises(
        InputError, match=r"several systems took part .expected run.last_track\(system\): chaser, target"
    ):
        _ = run.states
    with pytest.raises(InputError, match=r"no system 'chase' .did you mean 'chaser'"):
        run.last_track("chase")
    with pytest.raises(InputError, match="expected text without /"):
        World({"a/b": world.systems["chaser"], "c": world.systems["target"]})


def test_dry_friction_of_each_system_is_its_own() -> None:
    """Blocks that slide on heavy bases stop after v / (mu g) as on their own: constant Coulomb force."""
    bodies = (Body("base", Inertia(1e6, tensor=1e6 * np.eye(3))), Body("block", Inertia(2.0, tensor=np.eye(3))))

    def slider(force: float) -> Robot:
        joint = Joint("x", "prismatic", "base", "block", axis=np.array([1.0, 0, 0]), friction=Friction(force, force))
        return Robot("slider", bodies, (joint,))

    world = World({"a": slider(1.0), "b": slider(4.0)}, locked=[f"{name}/{dof}" for name in "ab" for dof in BASE])
    start = {name: State.from_velocities(world.robot(name), [0.0], [2.0]) for name in "ab"}
    run = sound(simulate(world, start, 5.0))
    stops = {event.name: event.time for event in run.events_of("stick")}
    assert stops == pytest.approx({"a/x": 4.0, "b/x": 1.0}, rel=1e-9)
    assert cross_check(run, friction="replay").largest < 1e-9


def test_an_event_function_looks_at_two_systems() -> None:
    """The gap of two frames: one drifts past the other."""
    world = World({"a": block("a", 3.0), "b": block("b", 2.0)})
    start = {
        "a": State.at_rest(world.robot("a")),
        "b": State.from_velocities(world.robot("b"), position=[0.0, 0.3, 2.0], base_velocity=[0.0, 0.0, -0.5]),
    }
    near = distance(world, "a/grip", "b/grip", 0.5)
    run = sound(simulate(world, start, [Phase(10.0, event_function=near), Phase(0.1)]))
    assert run.phase_starts[1] == pytest.approx((2.0 - np.sqrt(0.5**2 - 0.3**2)) / 0.5, rel=1e-12)
    assert [event.kind for event in run.events] == ["function"]


def test_a_function_chooses_phases_while_the_run_goes_on() -> None:
    """A damper that is on only while the block moves outwards: as a chain of runs by hand."""
    robot = sliding_block(Spring(30.0))

    def chain(context: RunContext) -> Iterator[Phase | Change]:
        while context.time < 2.0 - 1e-9:
            yield Switch(damping={"x": 4.0 if context.state.joints[0] * context.state.rates[0] > 0.0 else 0.5})
            until = [Event("x", 0.0), Event("x.rate", 0.0)]
            yield Phase(2.0 - context.time, until=until, events=())

    start = State.from_velocities(robot, [0.1], [0.2])
    run = sound(simulate(robot, start, chain, duration=2.0, method=TIGHT, sample=0.1))
    state, time, count = start, 0.0, 0
    while time < 2.0 - 1e-9:
        damping = [4.0 if state.joints[0] * state.rates[0] > 0.0 else 0.5]
        phase = Phase(2.0 - time, until=[Event("x", 0.0), Event("x.rate", 0.0)])
        part = simulate(robot, state, phase, method=TIGHT, overrides={"damping": damping})
        assert part.end is not None
        state, time, count = part.end, time + part.end_time, count + 1
    assert run.end is not None
    np.testing.assert_allclose(run.end.vector, state.vector, rtol=0, atol=1e-10)
    assert len(run.changes) == count > 4
    with pytest.raises(InputError, match="duration is None"):
        simulate(robot, start, chain)
