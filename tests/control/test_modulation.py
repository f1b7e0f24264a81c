"""Thrusters in pulses, against closed forms; never against each other, never partly on, never cut without a word."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import craft, turned_by

from spacearm import control, rollout
from spacearm.errors import InputError
from spacearm.simulate import Phase, RunWarning, State, simulate

BUS = craft()
STILL = State.at_rest(BUS)


def steady(level: float, modulation: object, period: float = 0.01, duration: float = 20.0, robot=BUS) -> np.ndarray:
    """Ticks at which a thruster is on for a steady level."""
    law = control.Law(lambda plant: modulation.commands(plant, {"tx+a": level + 0.0 * plant.time}), period=period)
    found = simulate(robot, State.at_rest(robot), Phase(duration, laws=law), sample=duration, ledger=False)
    return found.commands[0]["tx+a"]


@pytest.mark.parametrize("level", [0.05, 0.237, 0.5, 0.99, 1.0, 0.0])
def test_the_impulse_of_each_window_is_the_level_times_the_window(level):
    """To the tick in each window; what is left over is not lost, so that the sum is right to a tick too."""
    on = steady(level, control.PulseWidth(0.5))
    windows = on.reshape(-1, 50)
    assert np.abs(windows.sum(axis=1) - 50 * level).max() <= 1.0 + 1e-9
    assert np.abs(np.cumsum(windows.sum(axis=1)) - 50 * level * (1 + np.arange(len(windows)))).max() <= 0.5 + 1e-9
    if 50 * level == round(50 * level):
        np.testing.assert_array_equal(windows.sum(axis=1), 50 * level)
    assert all(np.count_nonzero(np.diff(row) > 0) == 0 for row in windows)  # one pulse, from the start of the window


def test_less_than_the_shortest_pulse_waits_until_it_is_one():
    robot = craft(pulse=0.1)
    windows = steady(0.06, control.PulseWidth(0.5), duration=50.0, robot=robot).reshape(-1, 50).sum(axis=1)
    assert {*windows} <= {0.0, *range(10, 51)}
    assert np.abs(np.cumsum(windows) - 3.0 * (1 + np.arange(100))).max() <= 10.0
    assert windows.sum() > 280.0


@pytest.mark.parametrize("level", [0.15, 0.3, 0.6, 0.85])
def test_pulse_width_pulse_frequency_has_the_lengths_of_its_closed_form(level):
    """On and off times of the loop of filter and trigger, to the tick; its duty cycle."""
    gain, tau, high, low, tick = 4.5, 0.15, 0.45, 0.15, 1e-3
    pulse = -tau * np.log((low - gain * (level - 1)) / (high - gain * (level - 1)))
    gap = -tau * np.log((high - gain * level) / (low - gain * level))
    modulation = control.PulseWidthFrequency(gain, tau, high, low)
    np.testing.assert_allclose(modulation.lengths(level), [pulse, gap], rtol=1e-12)
    on = steady(level, modulation, tick, 4.0)
    edges = np.flatnonzero(np.diff(on))[1:]  # without the first, from rest
    lengths = np.diff(edges) * tick
    first = on[edges[0] + 1] > 0.5
    pulses, gaps = (lengths[::2], lengths[1::2]) if first else (lengths[1::2], lengths[::2])
    # The trigger looks at ticks: each length ends up to one late, and begins as much beyond the level as the one before
    # went in that time at its own slope.
    rise, fall = gain * level - np.array([high, low]), gain * (1 - level) + np.array([high, low])
    late = tick * (1 + rise[1] / fall[1]), tick * (1 + fall[0] / rise[0])
    assert np.abs(pulses - pulse).max() <= late[0]
    assert np.abs(gaps - gap).max() <= late[1]
    count = min(len(pulses), len(gaps))
    duty = pulses[:count].sum() / (pulses[:count].sum() + gaps[:count].sum())
    np.testing.assert_allclose(duty, pulse / (pulse + gap), atol=max(late) / (pulse + gap))


def test_too_little_gives_no_pulse():
    assert not steady(0.099, control.PulseWidthFrequency(), duration=5.0).any()
    assert control.PulseWidthFrequency().lengths(0.099)[1] == np.inf


@pytest.mark.parametrize("modulation", [control.PulseWidth(0.1), control.PulseWidthFrequency()])
def test_pulses_hold_an_attitude_and_do_not_push_the_base(modulation):
    """Also with pairs whose thrusters are unequal, which on and off cannot balance."""
    weak = [replace(part, force=0.5) if part.name == "tx+a" else part for part in BUS.thrusters]
    robot = BUS.replace(thrusters=weak)
    with pytest.warns(RunWarning, match=r"'tx\+b' would need 0.5 of its force.*net force of up to 0.5 N"):
        control.attitude_by_thrusters(robot, dead_band=0.05, rate_gain=6.0)
    start = State.from_velocities(robot, np.zeros(3), np.zeros(3), base_angular_velocity=[0.01, 0.01, -0.01])
    law = control.attitude_by_thrusters(robot, dead_band=0.05, rate_gain=6.0, period=0.02, modulation=modulation)
    found = simulate(robot, start, Phase(60.0, laws=law), sample=0.5)
    assert found.sound
    assert turned_by(found)[found.times > 40.0].max() < 0.02
    pushed = 100.0 * np.abs(found.states[-1, 10:13]).max()
    assert pushed < 0.05 * np.abs(found.commands[0].values).sum() * 0.02
    log = found.commands[0]
    for axis in "xyz":
        for side in "ab":
            assert not np.any(log[f"t{axis}+{side}"] * log[f"t{axis}-{side}"])


def test_opposed_thrusters_do_not_fire_at_once_even_in_their_shortest_pulses():
    """The command changes its sign every tick: a pulse that has begun is ended first."""
    robot = craft(pulse=0.5)

    def build(plant: control.Plant) -> control.Commands:
        first = plant.memory("first", 1.0)
        return control.Commands(thrusters={"tx+a": first, "tx-a": 1.0 - first}, memory={"first": 1.0 - first})

    found = simulate(robot, State.at_rest(robot), Phase(4.0, laws=control.Law(build, period=0.1)))
    one, two = (found.commands[0][name] for name in ("tx+a", "tx-a"))
    assert one.any()
    assert two.any()
    assert not np.any(one * two)
    both = control.Law(lambda plant: control.Commands(thrusters={"tx+a": 1.0, "tx-a": 1.0}), period=0.1)
    assert not simulate(robot, State.at_rest(robot), Phase(1.0, laws=both)).commands[0].values.any()


def test_several_axes_fire_without_pushing_the_base():
    robot = craft()
    start = State.from_velocities(robot, np.zeros(3), np.zeros(3), base_angular_velocity=[0.05, 0.05, 0.05])
    law = control.attitude_by_thrusters(robot, dead_band=0.02, rate_gain=4.0, period=0.1)
    found = simulate(robot, start, Phase(20.0, laws=law))
    assert np.abs(found.states[:, 10:13]).max() < 1e-12


def test_a_shortest_pulse_is_kept_over_a_seam_or_reported():
    robot = craft(pulse=0.5)

    def law() -> control.Law:
        """One pulse is asked for, at the first tick."""

        def build(plant: control.Plant) -> control.Commands:
            begun = plant.memory("begun")
            return control.Commands(thrusters={"tx+a": 1.0 - begun}, memory={"begun": 1.0})

        return control.Law(build, period=0.1)

    def impulse(run) -> float:
        return 100.0 * float(np.linalg.norm(run.states[-1, 10:13]))

    one = law()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = simulate(robot, State.at_rest(robot), [Phase(0.25, laws=one), Phase(1.0, laws=one)])
    assert impulse(kept) == pytest.approx(0.5, rel=1e-4)
    with pytest.warns(RunWarning, match=r"'tx\+a' is switched off at 0.25 s.*0.25 s after.*shortest pulse is 0.5 s"):
        cut = simulate(robot, State.at_rest(robot), [Phase(0.25, laws=law()), Phase(1.0)])
    assert impulse(cut) == pytest.approx(0.25, rel=1e-4)


def test_pulses_begin_anew_after_a_pause():
    law = control.Law(
        lambda plant: control.PulseWidth(0.5).commands(plant, {"tx+a": 0.4 + 0.0 * plant.time}), period=0.1
    )
    phases = [Phase(0.12, laws=law), Phase(0.3), Phase(0.5, laws=law), Phase(0.5, laws=law)]
    found = simulate(BUS, STILL, phases)
    levels = [log["tx+a"].tolist() for log in found.commands]
    assert levels == [[1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0]]


def test_one_command_may_be_late_by_one_period():
    """A force of 1 N m from the second tick on."""
    robot = arm(1)
    law = control.Law(lambda plant: {"j0": 0.01 + 0.0 * plant.time}, period=0.1, delay=0.1)
    (log,) = simulate(robot, State.at_rest(robot), Phase(0.5, laws=law, limits="ignore")).commands
    np.testing.assert_array_equal(log["j0"], [0.0, 0.01, 0.01, 0.01, 0.01])


@pytest.mark.parametrize("modulation", [control.PulseWidth(0.5), control.PulseWidthFrequency()])
def test_pulses_are_the_same_in_lanes(modulation):
    law = control.attitude_by_thrusters(BUS, dead_band=0.05, rate_gain=6.0, period=0.05, modulation=modulation)
    start = State.from_velocities(BUS, np.zeros(3), np.zeros(3), base_angular_velocity=[0.01, 0.02, -0.01])
    rows = np.repeat(start.vector[None], 3, axis=0)
    ends = rollout(BUS, rows, 0.05, 100, law=law, ignore_friction=True)[:, -1]
    alone = simulate(BUS, start, Phase(5.0, laws=law, limits="ignore")).states[-1]
    np.testing.assert_allclose(ends, np.tile(alone, (3, 1)), atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: control.PulseWidth(0.0), "window"),
        (lambda: control.PulseWidthFrequency(on=0.1, off=0.2), "off < on"),
        (lambda: control.PulseWidthFrequency(gain=0.3), "never reaches 0.45"),
        (lambda: steady(0.5, control.PulseWidth(0.033), 0.01, 1.0), "not a multiple of the period"),
        (lambda: control.Law(lambda p: {"j0": 0.0}, period=1e-3, delay=1e9), "delay of 1e.09 s is 1e.12 periods"),
    ],
)
def test_modulations_and_delays_that_cannot_be(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_sensor_that_is_late_by_far_is_refused_before_memory_is_taken():
    law = control.Law(lambda p: {"wx": 0.0}, period=0.01, sensors=[control.Gyro(delay=5e6)])
    with pytest.raises(InputError, match=r"sensor 'gyro'.*keeps 2e\+09 numbers.*at most 4000"):
        simulate(BUS, STILL, Phase(1.0, laws=law))
