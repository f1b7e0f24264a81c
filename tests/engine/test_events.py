"""Events: found, located to 1e-10 s, in order, bounded in number."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import carray, cfunc

from spacearm.engine import events, loops, solver
from spacearm.engine.block import ArgumentBlock
from spacearm.engine.phase import Functions, Level
from spacearm.engine.signals import Signals, fill, merge
from spacearm.engine.solver import EndReason, EventKind
from support.hand_kernels import SIGNATURE, run_blocks

OMEGA = 3.0
OSCILLATOR = {"stiffness": (OMEGA**2, 0.0, 0.0)}


@cfunc(SIGNATURE)
def two_gauges(inp: Any, out: Any) -> None:
    """Of (x1, x2, v1, v2, t): x1 - 0.3 and t - 1.5."""
    a = carray(inp, 5)
    b = carray(out, 2)
    b[0] = a[0] - 0.3
    b[1] = a[4] - 1.5


def crossings(level: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Falling and rising instants of cos(3 t) through a level."""
    first = np.arccos(level) / OMEGA
    turns = np.arange(20) * 2 * np.pi / OMEGA
    falling, rising = first + turns, -first + turns[1:]
    return falling[falling < end], rising[rising < end]


@pytest.mark.parametrize("direction", [-1, 0, 1])
@pytest.mark.parametrize("method", [0, 1])
def test_level_crossings(direction: int, method: int) -> None:
    falling, rising = crossings(0.3, 10.0)
    result = run_blocks(
        [1, 0], [0, 0], 10.0, **OSCILLATOR, levels=[Level(0, 0.3, direction)], method=method, step=2e-3 * (method == 0)
    )
    expected = {-1: falling, 1: rising, 0: np.sort(np.concatenate([falling, rising]))}[direction]
    assert result.log[:, 1].tolist() == [EventKind.COMPONENT] * len(expected)
    np.testing.assert_allclose(result.log[:, 0], expected, atol=1e-10 if method == 1 else 1e-8, rtol=0)


def test_terminal_event_ends_there_and_samples_stop() -> None:
    when = np.arccos(0.3) / OMEGA
    result = run_blocks(
        [1, 0], [0, 0], 10.0, **OSCILLATOR, levels=[Level(0, 0.3, -1, True)], times=np.linspace(0, 10, 1001)
    )
    assert result.reason == EndReason.TERMINAL_EVENT
    assert result.time == pytest.approx(when, abs=1e-11)
    assert result.y[0] == pytest.approx(0.3, abs=1e-11)
    assert result.times[-1] <= result.time < result.times[-1] + 0.01


def test_a_short_dip_within_one_step_is_seen() -> None:
    # cos(3 t) goes below -0.9999 for 9 ms; steps are about 0.3 s long
    falling, rising = crossings(-0.9999, 6.0)
    result = run_blocks([1, 0], [0, 0], 6.0, **OSCILLATOR, levels=[Level(0, -0.9999, 0)], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(result.log[:, 0], np.sort(np.concatenate([falling, rising])), atol=1e-4)


def test_two_functions_in_one_step_come_in_order() -> None:
    levels = [Level(0, 0.11, -1), Level(0, 0.1, -1), Level(0, 0.12, -1)]
    result = run_blocks([1, 0], [0, 0], 0.6, **OSCILLATOR, levels=levels)
    assert result.log[:, 2].tolist() == [2, 0, 1]
    np.testing.assert_allclose(result.log[:, 0], np.arccos([0.12, 0.11, 0.1]) / OMEGA, atol=1e-10)


def test_event_kernel_sees_state_and_absolute_time() -> None:
    functions = Functions(two_gauges.address, 5, [-1, 1], [False, True])
    result = run_blocks([1, 0], [0, 0], 5.0, **OSCILLATOR, functions=functions, offset=1.0)
    falling, _ = crossings(0.3, 5.0)
    assert result.reason == EndReason.TERMINAL_EVENT
    assert result.log[0] == pytest.approx([1.0 + falling[0], EventKind.FUNCTION, 0, 0.0], abs=1e-10)
    assert result.log[1, 0] == pytest.approx(1.5, abs=1e-10)
    assert result.time == pytest.approx(0.5, abs=1e-10)


def test_starting_on_the_level_is_no_event() -> None:
    result = run_blocks([1, 0], [0, 0], 3.0, **OSCILLATOR, levels=[Level(0, 1.0, 0), Level(2, 0.0, -1)])
    # the speed starts at zero and falls: that is not a crossing; it falls through zero at half turns only
    np.testing.assert_allclose(result.log[:, 0][result.log[:, 2] == 1], [2 * np.pi / OMEGA], atol=1e-10)


def test_a_level_met_exactly_at_a_break_is_found_once() -> None:
    force = (4, np.array([0.0, 1.0, 1.5, 3.0]), np.zeros((1, 3)))
    for start, level in ((0.0, 1.0), (0.1, 1.1), (0.3, 1.3)):  # the last two only to rounding
        result = run_blocks([start, 0], [1, 0], 3.0, channels=[force], levels=[Level(0, level, 0)])
        assert result.log[:, 1].tolist() == [EventKind.COMPONENT]
        assert result.log[0, 0] == pytest.approx(1.0, abs=1e-12)


def test_a_driven_path_through_a_level_at_a_break_is_found_once() -> None:
    # position, rate and acceleration given; pieces whose ends differ from the next start by rounding
    slope = 0.1
    breaks = np.array([0.0, 3.0, 7.0, 10.0])
    path = np.array([slope * breaks[:-1], np.full(3, slope)])
    channels = [(0, breaks, path), (2, breaks, np.full((1, 3), slope)), (6, breaks, np.zeros((1, 3)))]
    for level in (0.3, 0.7, 0.1 + 0.2, 0.7 + 1e-16, 0.7 - 1e-16):
        result = run_blocks([0, 0], [slope, 0], 10.0, channels=channels, mode=(1.0, 0.0), levels=[Level(0, level, 1)])
        assert len(result.log) == 1
        assert result.log[0, 0] == pytest.approx(10.0 * level, abs=1e-11)


@pytest.mark.parametrize(
    ("x", "v", "level", "end"), [(0.0, 1.0, 1.0, 1.0), (0.1, 1.0, 1.1, 1.0), (0.1, -0.3, -0.2, 1.0)]
)
def test_a_level_met_exactly_at_the_end_ends_the_phase(x: float, v: float, level: float, end: float) -> None:
    result = run_blocks([x, 0], [v, 0], end, levels=[Level(0, level, 0, True)])
    assert result.reason == EndReason.TERMINAL_EVENT
    assert result.log[:, 2].tolist() == [0]
    assert result.time == pytest.approx(end, abs=1e-12)
    # met from the wrong side, or not met by a hair: no event
    for other in (Level(0, level, -int(np.sign(v)), True), Level(0, level + 1e-11 * v, 0, True)):
        assert run_blocks([x, 0], [v, 0], end, levels=[other]).reason == EndReason.FINISHED


def test_a_crossing_back_within_one_step_is_logged() -> None:
    # Free flight under a constant force is exact for any step: x = 1 - 4 t + 2 t^2 falls and rises through 0.
    for direction, root in ((1, 1.0 + np.sqrt(0.5)), (-1, 1.0 - np.sqrt(0.5))):
        result = run_blocks(
            [1, 0], [-4, 0], 2.5, force=(4.0, 0.0), levels=[Level(0, 0.0, direction)], method=0, step=2.5
        )
        assert result.log[:, 1].tolist() == [EventKind.COMPONENT]
        assert result.log[0, 0] == pytest.approx(root, abs=1e-11)


def test_a_start_on_a_limit_counts_as_inside() -> None:
    rising = [Level(0, 1.0, 1, True, -1)]
    assert run_blocks([1, 0], [0.5, 0], 1.0, levels=rising).time < 1e-12
    assert run_blocks([1, 0], [0, 0], 1.0, force=(1.0, 0.0), levels=rising).time < 1e-6
    assert run_blocks([1, 0], [-0.5, 0], 1.0, levels=rising).reason == EndReason.FINISHED
    assert run_blocks([1, 0], [0, 0], 1.0, levels=rising).reason == EndReason.FINISHED


def test_too_many_events_end_the_run_with_a_reason() -> None:
    result = run_blocks([1, 0], [0, 0], 100.0, **OSCILLATOR, levels=[Level(0, 0.0, 0)], max_events=20)
    assert result.reason == EndReason.TOO_MANY_EVENTS
    assert len(result.log) == 20
    assert result.time < 25.0


def test_audit_rows_integrate_over_the_steps() -> None:
    result = run_blocks([1, 0], [0, 0], 2.0, **OSCILLATOR, levels=[Level(0, 0.3, 0)], audited=4)
    assert len(result.audit) == 6 * result.steps > 24
    weight, state = result.audit[:, 1], result.audit[:, 2:6]
    assert weight.sum() == pytest.approx(2.0, abs=1e-13)
    assert (weight * state[:, 2]).sum() == pytest.approx(np.cos(6.0) - 1.0, abs=1e-11)


@pytest.mark.parametrize("method", [0, 1])
def test_a_phase_goes_on_after_a_pause_as_if_there_had_been_none(method: int) -> None:
    """To the last bit, through breaks of signals, events, sticking and slipping."""
    ramp = (4, np.array([0.0, 0.7, 1.5, 4.0]), np.array([[0.0, 2.0, -3.0], [3.0, -1.0, 2.0]]))
    case = {
        "stiffness": (9.0, -2.0, 4.0),
        "static": (0.6, 0.2),
        "coulomb": (0.4, 0.1),
        "channels": [ramp],
        "levels": [Level(0, 0.3, 0)],
        "method": method,
        "step": 0.05 if method == 0 else 0.0,
        "times": np.linspace(0.0, 4.0, 23),
    }
    whole = run_blocks([1, 0], [0, 0.3], 4.0, **case, audited=10_000)  # type: ignore[arg-type]
    assert len(whole.log) > 5
    for steps in (1, 3):
        parts = run_blocks([1, 0], [0, 0.3], 4.0, **case, audited=steps)  # type: ignore[arg-type]
        for name in ("reason", "time", "step", "steps", "rejected", "y", "log", "samples", "audit", "status"):
            np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name), err_msg=name)


class Filling(NamedTuple):
    signals: Signals
    piece: int
    time: float
    values: Any


@loops.CompiledEntry
def _fill(call: Any) -> int:
    fill(call.signals, call.piece, call.time, call.values)
    return 0


def test_merged_signals_are_the_pieces_they_were_made_of() -> None:
    rng = np.random.default_rng(3)
    channels = []
    for target in range(3):
        breaks = np.concatenate([[0.0], np.sort(rng.uniform(0, 2, 4)), [2.0]])
        channels.append((target, breaks, rng.normal(size=(target + 2, 5))))
    signals = merge(channels, 2.0)
    assert signals.breaks.size == 14
    values = np.zeros(3)
    for time in rng.uniform(0, 2, 50):
        _fill(
            ArgumentBlock(Filling(signals, int(np.searchsorted(signals.breaks, time, side="right")) - 1, time, values))
        )
        for target, breaks, coefficients in channels:
            piece = int(np.searchsorted(breaks, time, side="right")) - 1
            exact = np.polynomial.polynomial.polyval(time - breaks[piece], coefficients[:, piece])
            assert values[target] == pytest.approx(exact, abs=1e-13)


def test_loops_are_compiled_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SPACEARM_CACHE", str(blocked / "loops"))

    def double(x: float) -> float:
        return 2.0 * x

    assert loops.compile_loop(double)(1.5) == 3.0


def test_functions_of_loops_are_refused_in_python() -> None:
    """They have no code by which Python could call them: without the refusal the process would crash."""
    with pytest.raises(TypeError, match="compiled loops only"):
        events.has_crossed(1, -1.0, 0)


def test_a_cached_loop_is_stale_when_any_of_its_sources_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = solver.integrate_call.loop._cache._source[0]
    assert stamp == loops.sources_digest(solver.__file__)
    loops.sources_digest.cache_clear()
    monkeypatch.setattr(loops, "_MODULES", loops._MODULES[1:])
    assert loops.sources_digest(solver.__file__) != stamp
    loops.sources_digest.cache_clear()
