"""Dry friction against closed forms: stops, breaks, and what they do to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import carray, cfunc

from spacearm.engine.phase import Level
from spacearm.engine.solver import EndReason, EventKind
from support.hand_kernels import BLOCKS, SIGNATURE, run_blocks

STICK, SLIP, REVERSE = EventKind.STICK, EventKind.SLIP, EventKind.REVERSE


def one(log: np.ndarray, kind: int | None = None) -> np.ndarray:
    return log if kind is None else log[log[:, 1] == kind]


@pytest.mark.parametrize("late", [0.0, 1e-13, -1e-13])
def test_speeds_that_reach_zero_together_are_both_events(late: float) -> None:
    levels = [Level(2, 0.0, -1), Level(3, 0.0, -1)]
    result = run_blocks([0, 0], [1, 1 + late], 3.0, static=(1.0, 1.0), coulomb=(1.0, 1.0), levels=levels)
    np.testing.assert_allclose(result.log[:, 0], 1.0, atol=1e-12)
    assert sorted(result.log[:, 1].tolist()) == [STICK, STICK, EventKind.COMPONENT, EventKind.COMPONENT]


def test_friction_that_holds_less_at_rest_than_in_motion_ends_with_a_reason() -> None:
    """Such numbers are refused by simulate; the loop itself must not hang on them."""
    result = run_blocks([0, 0], [0, 0], 1.0, force=(1.5, 0.0), static=(1.0, 0.0), coulomb=(2.0, 0.0))
    assert result.reason in (EndReason.TOO_MANY_EVENTS, EndReason.FRICTION_INDETERMINATE)
    ramp = (4, np.array([0.0, 1.0]), np.array([[0.0], [2.0]]))
    result = run_blocks([0, 0], [0, 0], 1.0, channels=[ramp], static=(1.0, 0.0), coulomb=(2.0, 0.0))
    assert result.reason in (EndReason.TOO_MANY_EVENTS, EndReason.FRICTION_INDETERMINATE)
    assert result.time == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("method", [0, 1])
def test_free_decay_of_a_spring_block(method: int) -> None:
    m, k, coulomb, static, x0 = 2.0, 50.0, 4.9, 6.0, 1.0
    omega, offset = np.sqrt(k / m), coulomb / k
    turning = [x0]
    while abs(turning[-1]) * k > static:
        last = turning[-1]
        turning.append(-last + 2 * offset * np.sign(last))
    times = np.arange(1, len(turning)) * np.pi / omega
    result = run_blocks(
        [x0, 0.0],
        [0.0, 0.0],
        10.0,
        mass=(m, 0.0, 1.0),
        stiffness=(k, 0.0, 0.0),
        static=(static, 0.0),
        coulomb=(coulomb, 0.0),
        method=method,
        step=2e-3 if method == 0 else 0.0,
        times=np.linspace(0, 9.9, 100),
    )
    assert result.reason == EndReason.FINISHED
    kinds = [SLIP] + [REVERSE] * (len(turning) - 2) + [STICK]
    assert result.log[:, 1].tolist() == [int(kind) for kind in kinds]
    np.testing.assert_allclose(result.log[1:, 0], times, atol=1e-8 if method == 0 else 1e-10, rtol=0)
    assert result.y[0] == pytest.approx(turning[-1], abs=1e-7 if method == 0 else 1e-9)
    assert result.y[2] == 0.0
    # every sample against the half cycle that it lies in
    for time, state in zip(result.times, result.samples, strict=True):
        half = int(np.searchsorted(times, time, side="right"))
        if half >= len(times):
            assert state[0] == result.y[0]
            assert state[2] == 0.0
            continue
        start = turning[half]
        centre = offset * np.sign(start)
        phase = omega * (time - half * np.pi / omega)
        assert state[0] == pytest.approx(centre + (start - centre) * np.cos(phase), abs=1e-7 if method == 0 else 1e-9)


def test_block_pulled_by_a_spring_end_of_constant_speed() -> None:
    m, k, speed, static, coulomb = 1.5, 30.0, 0.2, 5.0, 3.0
    omega, drop = np.sqrt(k / m), static - coulomb
    first = static / (k * speed)
    slip = (2 * np.pi - 2 * np.arctan(drop * omega / (k * speed))) / omega
    stick = 2 * drop / (k * speed)
    cycles = 6
    breaks = first + np.arange(cycles) * (slip + stick)
    ramp = (4, np.array([0.0, 1e3]), np.array([[0.0], [k * speed]]))
    times = np.linspace(0.0, breaks[-1], 400)
    result = run_blocks(
        [0.0, 0.0],
        [0.0, 0.0],
        breaks[-1] + 0.5 * slip,
        mass=(m, 0.0, 1.0),
        stiffness=(k, 0.0, 0.0),
        static=(static, 0.0),
        coulomb=(coulomb, 0.0),
        channels=[ramp],
        times=times,
    )
    assert result.reason == EndReason.FINISHED
    np.testing.assert_allclose(one(result.log, SLIP)[:, 0], breaks, atol=1e-8, rtol=0)
    np.testing.assert_allclose(one(result.log, STICK)[:, 0], breaks[:-1] + slip, atol=1e-8, rtol=0)
    for time, state in zip(result.times, result.samples, strict=True):
        cycle = int(np.searchsorted(breaks, time, side="right")) - 1
        phase = omega * (time - breaks[cycle]) if cycle >= 0 else np.inf
        if cycle < 0 or phase > omega * slip:
            assert state[2] == 0.0
        else:
            velocity = speed * (1 - np.cos(phase)) + drop * omega / k * np.sin(phase)
            assert state[2] == pytest.approx(velocity, abs=1e-8)


@pytest.mark.parametrize(
    ("load", "moves"), [(4.9, False), (5.0, False), (5.0 + 1e-9, True), (-5.0, False), (-5.1, True)]
)
@pytest.mark.parametrize("coulomb", [0.0, 3.0, 5.0])
def test_start_from_rest_at_below_and_above_static(load: float, moves: bool, coulomb: float) -> None:
    result = run_blocks([0, 0], [0, 0], 1.0, force=(load, 0.0), static=(5.0, 0.0), coulomb=(coulomb, 0.0))
    assert result.reason == EndReason.FINISHED
    if moves:
        acceleration = load - np.sign(load) * coulomb
        assert result.log[:, 1].tolist() == [SLIP]
        assert result.log[0, 3] == np.sign(load)
        np.testing.assert_allclose(result.y[2], acceleration, rtol=1e-6 if load < 5.1 else 1e-12, atol=1e-15)
        assert abs(result.y[2]) > 0.0
    else:
        assert len(result.log) == 0
        assert result.y[0] == 0.0
        assert result.y[2] == 0.0


def test_no_dry_friction_at_all_is_free() -> None:
    result = run_blocks([0, 0], [0, 0], 1.0, force=(1e-3, 0.0))
    assert result.y[2] == pytest.approx(1e-3, rel=1e-12)


def test_sliding_to_rest_without_any_other_force() -> None:
    result = run_blocks([0, 0], [2.0, -3.0], 6.0, mass=(2.0, 0.0, 1.0), static=(1.0, 1.0), coulomb=(0.8, 1.0))
    assert one(result.log)[:, 1].tolist() == [STICK, STICK]
    np.testing.assert_allclose(result.log[:, 0], [3.0, 5.0], atol=1e-10)
    assert result.y[0] == pytest.approx(5.0, abs=1e-10)
    assert result.y[1] == pytest.approx(-4.5, abs=1e-10)


def test_two_that_stop_at_once() -> None:
    result = run_blocks(
        [0, 0], [1.0, -1.0], 4.0, mass=(1.0, 0.3, 1.0), static=(0.5, 0.5), coulomb=(0.4, 0.4), damping=(0.1, 0.1)
    )
    # anti-symmetric: (m - m12) a = -coulomb - d v
    inertia = 1.0 - 0.3
    stop = inertia / 0.1 * np.log1p(0.1 / 0.4)
    assert result.reason == EndReason.FINISHED
    assert result.log[:, 1].tolist() == [STICK, STICK]
    assert result.log[0, 0] == result.log[1, 0] == pytest.approx(stop, abs=1e-10)
    assert sorted(result.log[:, 2]) == [0, 1]
    assert result.y[2] == 0.0
    assert result.y[3] == 0.0
    assert result.y[0] == pytest.approx(-result.y[1], abs=1e-13)


def test_a_spring_that_one_stretches_breaks_the_other_loose() -> None:
    # block 1 is pulled by a constant force, block 2 hangs on it by a spring and rests until the spring reaches static
    m, k, pull, c1, static2, c2 = 1.0, 20.0, 5.0, 1.0, 6.0, 2.0
    omega, mean = np.sqrt(k / m), (pull - c1) / k
    when = np.arccos(1.0 - static2 / (k * mean)) / omega
    result = run_blocks(
        [0, 0],
        [0, 0],
        when + 0.05,
        mass=(m, 0.0, 2.0),
        stiffness=(k, -k, k),
        force=(pull, 0.0),
        static=(1.5, static2),
        coulomb=(c1, c2),
        times=[when],
    )
    assert result.log[:, 1].tolist() == [SLIP, SLIP]
    assert result.log[:, 2].tolist() == [0, 1]
    assert result.log[1, 0] == pytest.approx(when, abs=1e-10)
    assert result.log[1, 3] == 1.0
    assert result.samples[0, 0] == pytest.approx(mean * (1 - np.cos(omega * when)), abs=1e-10)
    assert result.y[3] > 0.0


def test_one_that_stops_breaks_another_loose_by_its_inertia() -> None:
    # Block 1 slides with acceleration a1 < 0 and drags on block 2 through m12; when it sticks, that inertia force ends
    # and the load on block 2 exceeds static friction at the same instant.
    m12, c1, load2, static2, c2 = 0.5, 2.0, 3.0, 2.5, 1.0
    result = run_blocks(
        [0, 0],
        [1.0, 0.0],
        1.0,
        mass=(1.0, m12, 2.0),
        force=(0.0, -load2),
        static=(4.0, static2),
        coulomb=(c1, c2),
    )
    # held: reaction on 2 = m12 a1 + load2 = -0.5 * 2 + 3 = 2 < 2.5, so it holds while 1 slides: stop at t = 1 / 2
    assert result.log[:, 0] == pytest.approx([0.5, 0.5], abs=1e-10)
    assert result.log[:, 1].tolist() == [STICK, SLIP]
    assert result.log[:, 2].tolist() == [0, 1]
    assert result.y[2] == 0.0
    assert result.y[3] == pytest.approx(-(load2 - c2) / 2.0 * 0.5, abs=1e-9)


def test_breaking_one_may_hold_the_other() -> None:
    # Both overloaded while held. The worst goes first; its motion unloads the other, which stays.
    result = run_blocks(
        [0, 0], [0, 0], 0.1, mass=(1.0, 0.9, 1.0), force=(10.0, 5.0), static=(2.0, 4.0), coulomb=(1.0, 3.0)
    )
    # free 1 alone: a1 = 10 - 1 = 9, reaction on 2 = 0.9 * 9 - 5 = 3.1 < 4
    assert result.log[:, 2].tolist() == [0]
    assert result.y[2] == pytest.approx(0.9, abs=1e-10)
    assert result.y[3] == 0.0


def test_many_random_rest_states_are_resolved_consistently() -> None:
    rng = np.random.default_rng(7)
    slips = 0
    for _ in range(300):
        factor = rng.normal(size=(2, 2))
        mass = factor @ factor.T + 0.1 * np.eye(2)
        static = rng.uniform(0.1, 3.0, 2)
        coulomb = static * rng.choice([0.0, 0.5, 1.0], 2)
        force = rng.normal(size=2) * 3
        result = run_blocks(
            [0, 0],
            [0, 0],
            1e-3,
            mass=(mass[0, 0], mass[0, 1], mass[1, 1]),
            force=force,
            static=static,
            coulomb=coulomb,
            times=[0.0],
        )
        assert result.reason == EndReason.FINISHED
        moving = np.array([2, 3])[result.status != 0]
        slips += len(moving)
        assert np.all(result.y[moving] * result.status[result.status != 0] > 0)
        held = result.status == 0
        assert np.all(np.abs(result.outputs[0, 4:][held]) <= static[held] * (1 + 1e-9))
    assert slips > 100


def test_chatter_ends_with_a_reason() -> None:
    # an oscillator of 1e11 rad/s with a trace of friction turns every 3e-11 s
    result = run_blocks(
        [1.0, 0.0], [0.0, 0.0], 1.0, stiffness=(1e22, 0.0, 0.0), static=(1.0, 0.0), coulomb=(1.0, 0.0), rtol=1e-8
    )
    assert result.reason == EndReason.TOO_MANY_EVENTS
    assert result.time < 1e-8


@cfunc(SIGNATURE)
def spiteful(inp: Any, out: Any) -> None:
    """Breaks any hold, and pushes back whatever slips: no state of friction is consistent."""
    a = carray(inp, 20)
    b = carray(out, 6)
    for i in range(2):
        held = a[8 + i] != 0.0
        b[i] = a[2 + i]
        b[2 + i] = 0.0 if held else 10.0 * a[10 + i]
        b[4 + i] = 100.0 if held else 0.0


def test_indeterminate_friction_ends_with_a_reason() -> None:
    result = run_blocks(
        [0, 0], [0, 0], 1.0, static=(1.0, 1.0), coulomb=(1.0, 1.0), code=BLOCKS._replace(address=spiteful.address)
    )
    assert result.reason == EndReason.FRICTION_INDETERMINATE
    assert result.time == 0.0
    assert "sticking and slipping" in EndReason(result.reason).text


def test_a_pulse_breaks_loose_exactly_at_its_edge() -> None:
    edge = 0.3
    pulse = (4, np.array([0.0, edge, 0.5, 1.0]), np.array([[0.0, 4.0, 0.0]]))
    result = run_blocks([0, 0], [0, 0], 2.0, static=(3.0, 0.0), coulomb=(1.0, 0.0), channels=[pulse])
    assert result.log[0, 0] == edge
    assert result.log[0, 1] == SLIP
    # 3 m/s2 for 0.2 s, then 1 m/s2 against it
    assert result.log[1, 0] == pytest.approx(0.5 + 0.6, abs=1e-10)
    assert result.log[1, 1] == STICK
    assert result.y[0] == pytest.approx(0.5 * 3 * 0.04 + 0.5 * 0.36, abs=1e-10)
