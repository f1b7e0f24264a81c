"""Roll-outs and batches: the same bits for any threads and place, overrides of each sample, what is refused."""

from __future__ import annotations

import _thread
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from spacearm.engine import NonFiniteWarning
from spacearm.errors import InputError, ModelError
from spacearm.model import Body, Frame, Friction, Inertia, Joint, Limits, Pose, Robot, Spring
from spacearm.simulate import (
    RK4,
    Attach,
    Event,
    Load,
    Lock,
    Phase,
    Release,
    RunWarning,
    Separate,
    State,
    Switch,
    pulse,
    rollout,
    simulate,
    simulate_batch,
)
from spacearm.simulate.motion import robot_motion
from support.arms import BASE_LOCKED, arm, slider, tumbling
from support.worlds import sliding_block, two


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


def test_a_batch_can_be_interrupted() -> None:
    robot = arm(7)
    simulate_batch(robot, scattered(robot, 2), 1e-3)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate_batch(robot, scattered(robot, 64), 1e6, max_steps=10**9)
    assert time.perf_counter() - began < 10.0


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
    for k in (3, 11, 39):
        own = {"stiffness": stiffness[k], "rest": [0.1, 0.2, 0.3]}
        single = simulate(robot, State.from_vector(starts[k]), 1.0, ledger=False, overrides=own)
        assert single.end is not None
        np.testing.assert_array_equal(single.end.vector, without.end[k])
    starts[:, 16] = np.where(np.arange(40) == 3, 0.1, 0.0)
    with pytest.raises(InputError, match=r"sample 3: phase\[0\]: 'j0' is locked while it moves"):
        simulate_batch(robot, starts[:8], Phase(1.0, locked=["j0"]))


def test_each_sample_of_a_batch_may_have_its_own_phases() -> None:
    robot = slider()
    starts = np.stack([State.at_rest(robot).vector] * 5)

    def phases(i: int) -> Phase:
        return Phase(1.0, loads=[Load.from_direction("block", [1, 0, 0], pulse(2.0 * i, 0.1, 0.5))], locked=BASE_LOCKED)

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
        with pytest.raises(InputError, match=r"samples"):
            simulate(robot, start, 1.0, sample=sample)
    for tolerance in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="tolerance"):
            simulate(robot, start, 1.0, tolerance=tolerance)
    with pytest.raises(InputError, match="the start is NoneType"):
        simulate(robot, None, 1.0)  # type: ignore[arg-type]
    for phases in (None, [], ["push"], [1.0]):
        with pytest.raises(InputError, match="phases must be"):
            simulate(robot, start, phases)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"phase, loads: holds \[.*expected Load"):
        simulate(robot, start, Phase(1.0, loads=[[1.0, 0, 0, 0, 0, 0]]))  # type: ignore[list-item]
    for duration in (np.float32(0.5), np.int64(1), np.array(0.5)):
        assert simulate(robot, start, duration).end_time == float(duration)
    entries = Load("block", [1.0, 0, 0, 0, 0, 0])  # type: ignore[arg-type]
    assert simulate(robot, start, Phase(0.1, loads=[entries])).sound
    assert robot_motion(robot, [entries.place], False) is robot_motion(robot, (entries.place,), False)


def test_what_nothing_resists_is_told_before_a_run() -> None:
    """A point mass on its own axis: an error that names it instead of numbers that are not finite."""
    bodies = (Body("base", Inertia(10.0, tensor=np.eye(3))), Body("tip", Inertia(1.0)))
    point = Robot("point", bodies, (Joint("j", "revolute", "base", "tip"),))
    start = State.at_rest(point)
    runs: list[Callable[[], object]] = [
        lambda: simulate(point, start, [Phase(0.1, locked=["j"]), Phase(0.1, name="free")]),
        lambda: simulate_batch(point, start.vector, [Phase(0.1, locked=["j"]), Phase(0.1, name="free")]),
        lambda: rollout(point, start.vector, 0.01, 2),
    ]
    for place, run in zip([r"phase\[1\] 'free': "] * 2 + [""], runs, strict=True):
        with pytest.raises(ModelError, match=f"^{place}robot 'point': nothing resists 'j'"):
            run()
    assert simulate(point, start, Phase(0.1, locked=["j"])).sound
    # What is overridden is not judged by the robot's own numbers.
    spread = point.inertia_parameters + np.array([[0.0] * 10, [0.0] * 4 + [0.1] * 3 + [0.0] * 3])
    assert simulate(point, start, 0.1, overrides={"inertia": spread}).sound
    assert np.all(np.isfinite(rollout(point, start.vector, 0.01, 2, overrides={"inertia": spread})))


@pytest.mark.filterwarnings("error")
def test_many_runs_across_changes() -> None:
    robot = sliding_block(Spring(50.0))
    chain = [Phase(0.3), Lock("x"), Phase(0.2), Release("x"), Switch(damping={"x": 2.0}), Phase(0.4)]
    starts = np.array([State.from_velocities(robot, [0.1 * k], [0.5]).vector for k in range(5)])
    times = np.linspace(0.0, 0.9, 10)
    batch = simulate_batch(robot, starts, chain, sample=times, ledger=True, max_events=50)
    for k, start in enumerate(starts):
        run = simulate(robot, State.from_vector(start), chain, sample=times)
        assert run.end is not None
        np.testing.assert_allclose(batch.end[k], run.end.vector, rtol=0, atol=1e-9)
        assert [event.kind for event in batch.events[k]] == [event.kind for event in run.events]
        last = np.searchsorted(run.times, times, side="right") - 1
        np.testing.assert_allclose(batch.states[k], run.states[last], rtol=0, atol=1e-9)
    assert np.all(batch.energy_residual < 1e-9)


@pytest.mark.filterwarnings("error")
def test_many_runs_in_which_systems_separate_and_join() -> None:
    """Each sample as the run of its own, system by system."""
    robot = sliding_block(Spring(50.0, 0.3))
    robot = robot.replace(frames=(Frame("stub", "base", Pose(translation=np.array([0.3, 0.0, 0.0]))),))
    chain = [
        Phase(9.0, until=Event("x", 0.25)),
        Separate("x", "block"),
        Phase(0.3),
        Attach("block", "stub"),
        Phase(0.2),
    ]
    starts = np.array(
        [State.from_velocities(robot, [0.0], [0.1 * k], base_velocity=[0.0, 0.1 * k, 0.0]).vector for k in (0, 1)]
    )
    times = np.linspace(0.0, 0.6, 7)
    batch = simulate_batch(robot, starts, chain, sample=times, ledger=True, max_events=50)
    assert batch.systems == ("slider", "block")
    for k, start in enumerate(starts):
        run = simulate(robot, State.from_vector(start), chain, sample=times)
        assert run.ends is not None
        np.testing.assert_allclose(batch.system_states("slider")[1][k], run.ends["slider"].vector, rtol=0, atol=1e-9)
        flown = ~np.isnan(batch.system_states("block")[0][k, :, 0])
        at = np.searchsorted(run.last_track("block").times, times[flown])
        np.testing.assert_allclose(
            batch.system_states("block")[0][k, flown], run.last_track("block").states[at], rtol=0, atol=1e-9
        )
        assert flown.sum() in (2, 3)
    assert np.all(batch.energy_residual < 1e-9)
    with pytest.raises(InputError, match=r"several systems took part .expected system_states.system.: slider, block"):
        _ = batch.end


@pytest.mark.filterwarnings("error")
def test_many_runs_of_a_world() -> None:
    world, states = two(8)
    starts = np.array([world.flat(states), world.flat({**states, "chaser": State.at_rest(world.robot("chaser"))})])
    batch = simulate_batch(world, starts, 0.3, sample=[0.1])
    for k, start in enumerate(starts):
        run = simulate(world, world.states(start), 0.3, sample=[0.1])
        for name in world.systems:
            kept, end = batch.system_states(name)
            np.testing.assert_allclose(kept[k, 0], run.last_track(name).states[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(end[k], run.last_track(name).end.vector, rtol=0, atol=1e-9)
    with pytest.raises(InputError, match="starts has shape"):
        simulate_batch(world, starts[:, 1:], 0.3)
    with pytest.raises(InputError, match="no system 'chase'"):
        batch.system_states("chase")
