"""Rate limits of drives bind: between the ticks of a sampled law, without a limit of effort, of wheels, in lanes."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import craft

from spacearm import control, rollout
from spacearm.model import Limits
from spacearm.model.base import BASE_DOFS
from spacearm.simulate import RK4, Phase, State, World, load_run, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.ensemble.vectorised_runs import VectorisedRun, simulate_lanes

#: Of the arm with one joint about its axis, by Steiner, kg m2.
INERTIA = 0.04 + 4.0 * (0.02**2 + 0.03**2)
FIXED = {"locked": BASE_DOFS, "limits": "ignore"}
TORQUE, RATE = 0.1, 0.5


def joint(effort: float = TORQUE, rate: float = RATE):
    robot = arm(1)
    return replace(robot, joints=(replace(robot.joints[0], limits=Limits(effort=effort, velocity=rate)),))


def push(period: float, torque: float = TORQUE, **settings: object) -> control.Law:
    return control.Law(lambda plant: {"j0": torque + 0.0 * plant.time}, period=period, **settings)


@pytest.mark.parametrize("effort", [TORQUE, np.inf])
@pytest.mark.parametrize("method", [None, RK4(0.01)])
def test_a_drive_gives_no_more_from_its_rate_limit_on(effort, method):
    """Constant torque to the limit, then constant rate: closed form; the cut lies within the law's period."""
    robot, meets = joint(effort), RATE * INERTIA / TORQUE
    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=push(1.0), **FIXED), sample=0.05, method=method)
    assert found.sound
    (event,) = found.events_of("rate limit")
    assert event.name == "j0"
    np.testing.assert_allclose([event.time, event.value], [meets, RATE], rtol=1e-9)
    rates = np.minimum(found.times * TORQUE / INERTIA, RATE)
    np.testing.assert_allclose(found.states[:, 14], rates, atol=1e-9)
    assert np.abs(found.states[:, 14]).max() <= RATE * (1 + 1e-12)
    way = 0.5 * RATE * meets + RATE * (2.0 - meets)
    np.testing.assert_allclose(found.states[-1, 7], way, rtol=1e-9)
    np.testing.assert_allclose(found.saturation_shares["j0"], (2.0 - meets) / 2.0, rtol=1e-6)
    # The drive's work is the energy of the motion.
    np.testing.assert_allclose(float(found.data["energy_drive"].values[-1].sum()), 0.5 * INERTIA * RATE**2, rtol=1e-8)
    if method is None:
        assert cross_check(found).largest < 1e-8
        assert cross_check(found, closed_loop=True).largest < 1e-8


def test_a_drive_at_its_limit_brakes():
    robot = joint()

    def build(plant: control.Plant) -> dict:
        return {"j0": ca.if_else(plant.time < 0.95, TORQUE, -TORQUE)}

    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=control.Law(build, period=0.5), **FIXED), sample=0.05)
    assert found.sound
    np.testing.assert_allclose(found.states[-1, 14], max(-RATE, RATE - TORQUE / INERTIA), atol=1e-9)


def test_a_short_period_makes_one_event_of_a_long_saturation():
    robot = joint()
    found = simulate(robot, State.at_rest(robot), Phase(5.0, laws=push(0.02), **FIXED), sample=0.01)
    assert found.sound
    assert np.abs(found.states[:, 14]).max() <= RATE * (1 + 1e-12)
    assert len(found.events_of("rate limit")) <= 1
    assert found.saturation_shares["j0"] > 0.9


def test_accelerations_that_are_given_stop_at_the_rate_limit_too():
    robot = joint()
    law = control.Law(lambda plant: control.Commands(accelerations={"j0": 1.0 + 0.0 * plant.time}), period=0.2)
    found = simulate(robot, State.at_rest(robot), Phase(1.0, laws=law, **FIXED), sample=0.05)
    assert found.sound
    np.testing.assert_allclose(found.states[:, 14], np.minimum(found.times, RATE), atol=1e-12)


def test_wheels_keep_their_momentum_limit_whatever_turns_the_bus():
    """The bus is turned by thrust from outside while its wheels work against it at a slow period."""
    robot, speed = craft(torque=1.0, speed=20.0), 20.0
    law = control.attitude_by_wheels(stiffness=20.0, damping=60.0, period=0.5)
    start = State.from_velocities(robot, np.zeros(3), [0.0, 0.0, 15.0], base_angular_velocity=[0.0, 0.0, 0.5])
    found = simulate(robot, start, Phase(20.0, laws=law), sample=0.01)
    assert found.sound
    assert np.abs(found.states[:, 16:19]).max() <= speed * (1 + 1e-9)
    assert found.saturation_shares["wz"] > 0.1


def test_wheels_of_a_slow_law_beside_a_fast_one_keep_their_speed_limit():
    """The torque that a wheel has for a whole period does not take it beyond its speed."""
    robot, speed = craft(torque=1.0, speed=20.0), 20.0
    fast = control.Law(lambda plant: {"wx": 0.0 * plant.time}, period=0.01, name="fast")
    slow = control.Law(lambda plant: {"wz": 1.0 + 0.0 * plant.time}, period=0.5, name="slow")
    start = State.from_velocities(robot, np.zeros(3), [0.0, 0.0, 18.0])
    found = simulate(robot, start, Phase(20.0, laws=[fast, slow]), sample=0.01)
    assert found.sound
    assert not found.events_of("rate limit")
    assert 0.99 * speed < found.states[:, 18].max() <= speed


def arcs(outside: float, period: float, duration: float) -> list[tuple[float, float, float]]:
    """Begin, rate and acceleration of each arc of a joint that a torque from outside speeds up beyond its rate limit.

    Its drive pushes until the limit, rests until a tick, and then brakes with its effort until the limit.
    """
    up, down = outside / INERTIA, (outside - TORQUE) / INERTIA
    found = [(0.0, 0.0, (TORQUE + outside) / INERTIA)]
    time, rate = RATE * INERTIA / (TORQUE + outside), RATE
    while time < duration:
        found.append((time, rate, up))
        tick = (np.floor(time / period) + 1.0) * period
        rate += up * (tick - time)
        found.append((tick, rate, down))
        # Back at the limit, or braking still at the next tick.
        time = tick + (rate - RATE) / -down if down < 0.0 else np.inf
        rate = RATE
    return found


def arc_rates(times: np.ndarray, found: list[tuple[float, float, float]]) -> np.ndarray:
    """Rates at these times."""
    begins, rates, slopes = np.array(found).T
    k = np.searchsorted(begins, times, side="right") - 1
    return rates[k] + slopes[k] * (times - begins[k])


def shoved(outside: float, law: control.Law, duration: float = 2.0, phases: int = 1, **settings: object):
    robot = joint()
    phase = Phase(duration / phases, laws=law, forces={"j0": outside}, **FIXED)
    return simulate(robot, State.at_rest(robot), [phase] * phases, sample=0.002, **settings)


@pytest.mark.parametrize("period", [0.7, 0.3, 0.05])
@pytest.mark.parametrize("method", [None, RK4(0.01)])
def test_a_drive_brakes_at_ticks_what_others_push_beyond_its_rate_limit(period, method):
    outside = 0.02
    found = shoved(outside, push(period), method=method)
    assert found.sound
    assert len(found.events_of("rate limit")) == 1
    expected = arcs(outside, period, 2.0)
    np.testing.assert_allclose(found.states[:, 14], arc_rates(found.times, expected), atol=1e-9)
    # Beyond the limit by no more than the torque from outside gives in a period.
    assert RATE < found.states[:, 14].max() <= RATE + outside * period / INERTIA
    begins, rates, slopes = np.array(expected).T
    keep = begins < 2.0
    begins, rates, slopes = begins[keep], rates[keep], slopes[keep]
    lasted = np.diff(np.append(begins, 2.0))
    ways = rates * lasted + 0.5 * slopes * lasted**2
    work = float(np.sum((slopes * INERTIA - outside) * ways))
    # The torque from outside is in the same entry of the ledger.
    entry = float(found.data["energy_drive"].values[-1].sum())
    np.testing.assert_allclose(entry - outside * found.states[-1, 7], work, atol=1e-8)
    if method is None:
        assert cross_check(found).largest < 1e-8
        assert cross_check(found, closed_loop=True).largest < 1e-8


def test_an_effort_that_does_not_suffice_brakes_all_the_same():
    """Closed form: beyond the limit what is left of the torque from outside speeds the joint up."""
    found, outside = shoved(0.15, push(0.3), duration=1.0), 0.15
    assert found.sound
    np.testing.assert_allclose(found.states[:, 14], arc_rates(found.times, arcs(outside, 0.3, 1.0)), rtol=1e-9)
    np.testing.assert_allclose(found.saturation_shares["j0"], 1.0 - RATE * INERTIA / (TORQUE + outside), rtol=1e-6)
    assert cross_check(found, closed_loop=True).largest < 1e-8


def test_braking_goes_on_over_a_seam():
    law = push(0.3)
    whole, parts = shoved(0.09, law), shoved(0.09, law, phases=50)
    assert parts.sound
    np.testing.assert_allclose(parts.states[-1], whole.states[-1], atol=1e-9)
    np.testing.assert_allclose(whole.states[:, 14], arc_rates(whole.times, arcs(0.09, 0.3, 2.0)), atol=1e-9)
    assert len(whole.events_of("rate limit")) == 1


def test_a_slow_law_beside_a_fast_one_brakes_at_its_own_ticks():
    """Its command is held in the memory of both, and the fast law's ticks do not end the braking."""
    world = World({"a": arm(1), "b": joint()})
    states = {"a": State.at_rest(arm(1)), "b": State.at_rest(joint(), position=[9.0, 0.0, 0.0])}
    laws = [push(0.05, 1e-4, system="a", name="fast"), push(0.3, system="b", name="slow")]
    held = [f"{name}/{dof}" for name in world.systems for dof in BASE_DOFS]
    phase = Phase(2.0, laws=laws, forces={"b/j0": 0.04}, locked=held, limits="ignore")
    found = simulate(world, states, phase, sample=0.002)
    assert found.sound
    track = found.last_track("b")
    np.testing.assert_allclose(track.states[:, 14], arc_rates(track.times, arcs(0.04, 0.3, 2.0)), atol=1e-9)
    assert cross_check(found).largest < 1e-8


def pair():
    """Two arms of one joint each on one base: where that is locked, neither moves the other."""
    one = joint()
    (body,), (own,) = one.bodies[1:], one.joints
    place = replace(own.placement, translation=own.placement.translation + np.array([0.0, 1.0, 0.0]))
    second = replace(own, name="j1", child="second", placement=place)
    return replace(one, bodies=(*one.bodies, replace(body, name="second")), joints=(own, second), frames=())


def test_slow_laws_beside_fast_ones_of_the_same_robot_act_at_their_own_ticks(tmp_path):
    """As alone: cut until its own tick, braked from there on, whatever ticks lie between, and over seams."""
    robot, outside, period = pair(), 0.04, 0.3
    fast = control.Law(lambda plant: {"j1": 1e-4 + 0.0 * plant.time}, period=0.05, name="fast")
    expected = arcs(outside, period, 2.0)
    for count, method in ((1, None), (1, RK4(0.01)), (9, None)):
        phase = Phase(2.0 / count, laws=[fast, push(period, name="slow")], forces={"j0": outside}, **FIXED)
        found = simulate(robot, State.at_rest(robot), [phase] * count, sample=0.002, method=method)
        assert found.sound
        assert len(found.events_of("rate limit")) == 1
        np.testing.assert_allclose(found.states[:, 15], arc_rates(found.times, expected), atol=1e-9)
        if method is None:
            assert cross_check(found).largest < 1e-8
            assert cross_check(found, closed_loop=True).largest < 1e-8
        if count == 1:
            # From the first cut on the drive is at its limit, as the share of the time and a saved run say too.
            share = 1.0 - RATE * INERTIA / (TORQUE + outside) / 2.0
            np.testing.assert_allclose(found.saturation_shares["j0"], share, rtol=1e-6)
            back = load_run(found.to_netcdf(tmp_path / "run.nc"))
            assert back.saturation_shares == found.saturation_shares


@pytest.mark.parametrize("other", [0.025, 0.05, 0.1])
def test_slow_laws_act_at_their_own_ticks_beside_those_of_other_systems_too(other):
    robot, outside = pair(), 0.04
    world = World({"a": arm(1), "b": robot})
    states = {"a": State.at_rest(arm(1)), "b": State.at_rest(robot, position=[9.0, 0.0, 0.0])}
    fast = control.Law(lambda plant: {"j1": 1e-4 + 0.0 * plant.time}, period=0.05, name="fast", system="b")
    laws = [push(other, 1e-4, system="a", name="other"), fast, push(0.3, system="b", name="slow")]
    held = [f"{name}/{dof}" for name in world.systems for dof in BASE_DOFS]
    phase = Phase(2.0, laws=laws, forces={"b/j0": outside}, locked=held, limits="ignore")
    found = simulate(world, states, phase, sample=0.002)
    assert found.sound
    assert len(found.events_of("rate limit")) == 1
    track = found.last_track("b")
    np.testing.assert_allclose(track.states[:, 15], arc_rates(track.times, arcs(outside, 0.3, 2.0)), atol=1e-9)
    assert cross_check(found).largest < 1e-8


def test_a_slow_law_heeds_the_rate_of_its_own_ticks():
    """Near its rate limit a drive gives what the rate at its law's own tick allows, and holds that."""
    robot, period, first = pair(), 0.01, 0.97 * RATE
    fast = control.Law(lambda plant: {"j1": 1e-4 + 0.0 * plant.time}, period=0.001, name="fast")
    start = State.from_velocities(robot, [0.0, 0.0], [first, 0.0])
    found = simulate(robot, start, Phase(2.0 * period, laws=[fast, push(period, name="slow")], **FIXED), sample=0.0005)
    torques, rates = [], [first]
    for _ in range(2):
        # Over the last 5 % of the rate limit a drive loses its torque.
        torques.append(TORQUE * (RATE - rates[-1]) / (0.05 * RATE))
        rates.append(rates[-1] + period * torques[-1] / INERTIA)
    np.testing.assert_allclose(found.states[:, 15], np.interp(found.times, period * np.arange(3), rates), atol=1e-12)
    np.testing.assert_allclose(found.commands[0]["j0"], np.repeat(torques, 10), atol=1e-12)
    assert found.saturation_shares["j0"] == pytest.approx(1.0)


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_a_start_beyond_the_rate_limit_is_braked_from_the_first_tick_on(direction):
    robot = joint()
    law = push(3.0, 0.01 * direction)
    start = State.from_velocities(robot, [0.0], [2.0 * RATE * direction])
    found = simulate(robot, start, Phase(1.0, laws=law, **FIXED), sample=0.01)
    assert found.sound
    rates = np.maximum(2.0 * RATE - TORQUE / INERTIA * found.times, RATE)
    np.testing.assert_allclose(found.states[:, 14], direction * rates, atol=1e-9)
    times, values = found.commands[0].command_steps("j0")
    np.testing.assert_allclose(times, [0.0, RATE * INERTIA / TORQUE], rtol=1e-9)
    np.testing.assert_allclose(values, [-direction * TORQUE, 0.0], atol=1e-15)
    assert cross_check(found).largest < 1e-8
    assert cross_check(found, closed_loop=True).largest < 1e-8


def test_coupled_joints_whose_references_jump_return_to_their_limits():
    """Drives at their limits are pushed on by those of the others: to 3.6 times the limit if they are merely cut.

    What remains is what they give in a period. Errors do not grow with the many changes of commands: MuJoCo flies the
    same by its own rates.
    """
    robot = arm(7)
    limits = Limits(effort=40.0, velocity=RATE)
    robot = replace(robot, joints=tuple(replace(each, limits=limits) for each in robot.joints))
    most = []
    for period in (0.05, 0.01):
        law = control.computed_torque([3.0] + 6 * [0.5], stiffness=4.0, damping=4.0, period=period)
        found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=law, limits="ignore"), sample=0.0005)
        assert found.sound
        assert period < 0.05 or cross_check(found, closed_loop=True).largest < 1e-8
        most.append(float(np.abs(found.states[:, 20:]).max()) / RATE)
    assert 1.0 < most[0] < 1.5
    assert 0.0 < most[1] - 1.0 < 0.3 * (most[0] - 1.0)


def test_a_saved_run_keeps_what_was_cut(tmp_path):
    robot = joint()
    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=push(1.0), **FIXED))
    back = load_run(found.to_netcdf(tmp_path / "run.nc"))
    assert back.saturation_shares == found.saturation_shares
    for one, two in zip(back.commands[0].command_steps("j0"), found.commands[0].command_steps("j0"), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(found.commands[0].command_steps("j0")[1], [TORQUE, 0.0, 0.0], atol=1e-12)
    # Of a run that was saved before drives braked.
    log = found.commands[0]
    about, data = log.settings(), load_run(tmp_path / "run.nc")
    assert data.commands[0].cuts.shape == log.cuts.shape
    old = CommandLog.from_file(
        about | {"cuts": [row[:2] for row in about["cuts"]]},
        log.data().assign(raw_margin=(("time", "limited"), log.margins)),
    )
    np.testing.assert_array_equal(old.cuts, log.cuts)


def test_rollouts_pass_a_rate_limit_by_no_more_than_a_step():
    robot, step = joint(), 0.01
    rows = rollout(robot, State.at_rest(robot).vector[None], step, 100, law=push(1.0), every=1, ignore_friction=True)
    rates = np.abs(rows[0, :, 14])
    assert rates.max() > 0.99 * RATE
    # The base floats: the joint alone sees less inertia than on a fixed base.
    slopes = np.diff(rates)
    assert rates.max() <= RATE + slopes.max()
    assert np.ptp(rates[-40:]) < 1e-3 * RATE  # no torque of the drive acts any more


def test_lanes_hand_back_what_meets_a_rate_limit_between_ticks():
    robot = joint()
    phase = Phase(1.0, laws=push(0.5), **FIXED)
    runs = [
        VectorisedRun(robot, State.from_velocities(robot, [0.0], [rate]), [phase], 0.01, 1e-6) for rate in (0.0, -3.0)
    ]
    first, second = simulate_lanes(runs)
    assert first is None
    alone = simulate(robot, runs[1].start, phase, method=RK4(0.01))
    np.testing.assert_allclose(second.rates, alone.states[-1, 14:], rtol=1e-9)


def test_lanes_hand_back_what_a_drive_would_brake():
    """Joints beyond their limits whose drives do not push them: by a torque from outside, and from the start."""
    robot = joint()
    pushed = Phase(1.0, laws=push(0.5, 0.0), forces={"j0": 0.02}, **FIXED)
    idle = Phase(1.0, laws=push(0.5, 0.0), **FIXED)
    for rate, phase in ((0.45, pushed), (3.0, idle)):
        start = State.from_velocities(robot, [0.0], [rate])
        assert simulate_lanes([VectorisedRun(robot, start, [phase], 0.01, 1e-6)]) == [None]
