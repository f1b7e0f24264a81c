"""What happens between the samples of a mission is judged too: distances, torques of brakes, power."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.missions import SHORT, flown

from spacearm.mission._nearest import find_least, interpolate_states
from spacearm.model import Body, Inertia, Joint, Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Phase, RunContext, Signal, State, World, pulse, simulate
from spacearm.simulate.run.chain import DriveMaxima, Item

#: Moments of two bodies about their common axis, kg m2.
HUB, ROTOR = 3.0, 0.5


def turntable() -> Robot:
    """A hub with a body on a hinge about z, both balanced on that axis."""
    hub, rotor = (Body(name, Inertia(10.0, tensor=np.eye(3) * moment)) for name, moment in
                  (("hub", HUB), ("rotor", ROTOR)))  # fmt: skip
    return Robot(
        "turntable", (hub, rotor), (Joint("hinge", "revolute", "hub", "rotor", axis=np.array([0.0, 0.0, 1.0])),)
    )


def find_peaks(phase: Phase) -> DriveMaxima:
    """Of a run with samples at its start and every 2 s."""
    found: list[DriveMaxima] = []

    def fly(context: RunContext) -> Iterator[Item]:
        yield phase
        found.append(context.peaks["turntable"])

    robot = turntable()
    simulate(World({"turntable": robot}), State.at_rest(robot), fly, duration=phase.duration, sample=2.0, ledger=False)
    return found[0]


def test_the_torque_of_a_brake_is_found_where_no_sample_is() -> None:
    """A couple of 0.7 N m on the hub, for a tenth of a second: the brake takes the rotor's share of it."""
    peaks = find_peaks(Phase(5.0, locked=["hinge"], forces={"base_wz": pulse(0.7, 2.6, 0.1)}))
    torque = 0.7 * ROTOR / (HUB + ROTOR)
    # Samples at 0, 2 and 4 s, and the end.
    np.testing.assert_allclose(peaks.forces[:, 6], [0.0, 0.0, torque, 0.0], atol=1e-12)
    assert peaks.force_times[2, 6] == pytest.approx(2.6, abs=1e-9)
    np.testing.assert_allclose(peaks.forces[:, 5], [0.0, 0.0, 0.7, 0.0], atol=1e-12)


def test_power_is_the_largest_at_any_time() -> None:
    """A hinge speeds up at 0.2 rad/s2 for 0.5 s and slows down: torque times rate is largest half way."""
    reduced = HUB * ROTOR / (HUB + ROTOR)
    # Positions by power of the time in each piece.
    table = np.array([[0.0, 0.0, 0.025, 0.05], [0.0, 0.0, 0.1, 0.0], [0.0, 0.1, -0.1, 0.0]])
    path = Signal(np.array([0.0, 0.7, 1.2, 1.7, 9.0]), table)
    peaks = find_peaks(Phase(5.0, driven={"hinge": path}))
    np.testing.assert_allclose(peaks.powers, [0.0, reduced * 0.2 * 0.1, 0.0, 0.0], atol=1e-9)
    assert peaks.power_times[1] == pytest.approx(1.2, abs=1e-9)


def test_states_between_samples_are_those_of_the_motion() -> None:
    """A body that turns about an axis at a steady rate and flies on a parabola, sampled every 0.5 s."""
    axis, rate, times = np.array([1.0, 2.0, 2.0]) / 3.0, 0.1, np.arange(0.0, 5.1, 0.5)

    def states(t: np.ndarray) -> np.ndarray:
        quaternion = np.column_stack([np.cos(rate * t / 2), np.outer(np.sin(rate * t / 2), axis)])
        position = np.column_stack([0.1 * t, 0.01 * t**2, 1.0 - 0.02 * t**2])
        velocity = np.column_stack([np.full_like(t, 0.1), 0.02 * t, -0.04 * t])
        turn = rotation_matrices(quaternion)
        own = np.einsum("tji,tj->ti", turn, velocity)
        return np.column_stack([position, quaternion, own, np.tile(rate * axis, (len(t), 1))])

    rows = np.repeat(np.arange(times.size - 1), 3)
    wanted = times[rows] + np.tile([0.1, 0.25, 0.37], times.size - 1)
    found = interpolate_states(times, states(times), wanted, rows)
    # h^4 / 384 of the fourth derivative: that of the attitude is (rate / 2)^4.
    np.testing.assert_allclose(found[:, :7], states(wanted)[:, :7], atol=2.0 * 0.5**4 / 384 * (rate / 2) ** 4 + 1e-14)


def test_the_nearest_instant_lies_between_samples() -> None:
    """Two points pass each other at 1.3 m in a straight line, at 0.9 m/s, between samples 4 s apart."""
    times = np.arange(0.0, 161.0, 4.0)
    states = np.zeros((times.size, 13))
    states[:, 3], states[:, 0], states[:, 7] = 1.0, 0.9 * (times - 77.7), 0.9
    calls: list[int] = []

    def measure(states: Any) -> np.ndarray:
        calls.append(len(states["one"]))
        return np.linalg.norm(states["one"][:, :3] - [0.0, 1.3, 0.0], axis=1)[:, None]

    # Samples of one instant, as at the end of a phase, have nothing between them.
    times, states = np.append(times, times[-1]), np.concatenate([states, states[-1:]])
    found, values = find_least(times[[0, *range(times.size)]], {"one": states[[0, *range(times.size)]]}, measure, 1e3)
    assert np.all(np.isfinite(values))
    calls.clear()
    found, values = find_least(times[:-1], {"one": states[:-1]}, measure, 0.5)
    k = int(np.argmin(values))
    assert found[k] == pytest.approx(77.7, abs=0.01)
    assert values[k, 0] == pytest.approx(1.3, abs=1e-4)
    assert np.all(np.diff(found) > 0.0)
    # Samples far from the least are not looked into.
    assert sum(calls) < 2 * times.size + 30


def test_a_coarse_record_tells_the_same() -> None:
    """What is used of limits does not depend on when samples are taken."""
    limits = {"power": 100.0, "base_rate_deg": 60.0}
    fine, coarse = (
        flown(**SHORT, limits=limits, detumble__actuator="thrusters", sample=sample) for sample in (0.07, 5.0)
    )
    for name in ("clearance lost", "power", "torque limit"):
        used = [
            [limit.used for outcome in mission.outcomes for limit in outcome.limits if limit.name == name]
            for mission in (fine, coarse)
        ]
        assert len(used[0]) == len(used[1]) > 3
        assert max(used[0]) > 0.0
        np.testing.assert_allclose(used[0], used[1], rtol=2e-3, atol=1e-6)
