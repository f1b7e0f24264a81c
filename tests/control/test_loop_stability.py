"""Poles of sampled loops: closed forms in the z plane, and a loaded arm against differences of its own runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.arms import BASE_LOCKED, arm, slider, tumbling

from spacearm import control
from spacearm.control.loop_stability import linearise_loop
from spacearm.errors import InputError
from spacearm.model import Inertia, Spring
from spacearm.model.layout import Layout
from spacearm.simulate import Phase, State, constant, simulate
from spacearm.typing import Array

MASS, PERIOD = 2.0, 0.1
HELD = {"locked": BASE_LOCKED, "limits": "ignore"}


def servo(stiffness: float, damping: float, **settings: object) -> control.Law:
    return control.joint_pid([constant(0.0)], stiffness, damping, limited=False, **settings)


def mass_loop(stiffness: float, damping: float, period: float = PERIOD, **settings: object) -> control.LinearLoop:
    """A block of 2 kg on a rail under a sampled PD law."""
    robot = slider()
    law = servo(stiffness, damping, period=period, **settings)
    return linearise_loop(robot, State.at_rest(robot), Phase(1.0, laws=law, **HELD))


@pytest.mark.parametrize(("stiffness", "damping"), [(3.0, 2.0), (40.0, 8.0), (1.0, 41.0)])
def test_poles_of_a_sampled_servo_of_a_mass(stiffness: float, damping: float) -> None:
    """A double integrator under zero-order hold: z^2 - (2 - b k - a d) z + (1 + b k - a d) = 0."""
    loop = mass_loop(stiffness, damping)
    a, b = PERIOD / MASS, PERIOD**2 / (2.0 * MASS)
    expected = np.roots([1.0, -(2.0 - b * stiffness - a * damping), 1.0 + b * stiffness - a * damping])
    expected = expected[np.argsort(-np.abs(expected), kind="stable")]
    np.testing.assert_allclose(np.abs(loop.poles()), np.abs(expected), rtol=1e-8)
    assert loop.names == ("x",)
    assert loop.is_stable() == bool(np.abs(expected).max() <= 1.0)


def test_the_longest_stable_period_of_a_servo() -> None:
    """By Jury's criterion the PD loop of a mass is stable for k T < 2 d and d T < 2 m."""
    loop = mass_loop(3.0, 2.0, period=5.0)
    assert not loop.is_stable()
    assert loop.stable_period() == pytest.approx(min(2.0 * 2.0 / 3.0, 2.0 * MASS / 2.0), rel=0.03)
    assert "control loop unstable at 5 s; largest pole" in loop.describe_instability()
    assert "stable below 1.3 s" in loop.describe_instability()
    damped = mass_loop(1.0, 8.0, period=5.0)
    assert damped.stable_period() == pytest.approx(2.0 * MASS / 8.0, rel=0.03)
    assert mass_loop(3.0, 2.0, period=0.1).stable_period() == 0.1
    assert mass_loop(3.0, 2.0).describe_instability() == ""
    endless = 2147483648.0  # exp of a rate times this is no number; what is judged is growth in a second
    assert mass_loop(3.0, 2.0).largest_pole(endless) > 1e17
    assert mass_loop(3.0, 2.0).is_stable(endless)


def test_a_delay_is_memory_and_costs_stability() -> None:
    """A rate servo with a delay of one period: z^2 - z + d T / m = 0, stable below d T = m in place of 2 m."""
    late = mass_loop(0.0, 12.0, delay=PERIOD)
    gain = 12.0 * PERIOD / MASS
    expected = np.sort(np.abs(np.roots([1.0, -1.0, gain])))
    found = np.sort(np.abs(late.poles()))
    # position, and the register's pole that is gone with the rate's
    assert min(abs(found - expected[0])) < 1e-8
    assert found.max() == pytest.approx(max(1.0, expected[-1]), rel=1e-8)
    assert mass_loop(0.0, 28.0, delay=0.0).is_stable()
    assert not mass_loop(0.0, 28.0, delay=PERIOD).is_stable()


@pytest.mark.parametrize(("moving", "period", "tolerance"), [(False, 0.05, 1e-6), (True, 0.002, 5e-5)])
def test_a_loaded_arm_against_differences_of_runs(moving: bool, period: float, tolerance: float) -> None:
    """The map over a period by the run itself: each state moved by hand, a phase of one period run from there.

    About a state at rest with its spring at rest it is the whole map; about a moving one, that of a short period.
    """
    robot = arm(3)
    joints = (*robot.joints[:2], replace(robot.joints[2], spring=Spring(60.0), damping=5.0))
    load = replace(robot.bodies[-1], inertia=Inertia(400.0, [0.1, 0.0, 0.6], np.diag([90.0, 80.0, 60.0])))
    robot = replace(robot, joints=joints, bodies=(*robot.bodies[:-1], load))
    state = tumbling(robot) if moving else State.at_rest(robot, [0.3, -0.4, 0.0])
    goal = [constant(value) for value in state.joints[:2]]
    law = control.computed_torque(goal, 4.0, 3.0, joints=["j0", "j1"], period=period, limited=False)
    phase = Phase(period, laws=law, limits="ignore")
    found = linearise_loop(robot, state, phase).transition()
    at = Layout(robot.n)

    def coordinates(vector: Array, about: Array) -> Array:
        """Displacements from another flat state, base axes, and rates."""
        w, v = about[at.quaternion][0], about[at.quaternion][1:]
        conjugate = np.array([[w, *v], *np.column_stack([-v, w * np.eye(3) + np.array(
            [[0.0, v[2], -v[1]], [-v[2], 0.0, v[0]], [v[1], -v[0], 0.0]])])])  # fmt: skip
        apart = conjugate @ vector[at.quaternion]
        rotation = np.eye(3) + 2.0 * w * _skew(v) + 2.0 * _skew(v) @ _skew(v)
        place = rotation.T @ (vector[at.position] - about[at.position])
        joint = vector[at.joints] - about[at.joints]
        return np.concatenate([place, 2.0 * apart[1:], joint, vector[at.velocity]])

    def flown(vector: Array) -> Array:
        run = simulate(robot, State.from_vector(vector), phase, ledger=False)
        assert run.end is not None
        return run.end.vector

    size, step, end = 12 + 2 * robot.n, 1e-4, flown(state.vector)
    expected = np.zeros((size, size))
    for k in range(size):
        ends = []
        for sign in (1.0, -1.0):
            start = state.vector.copy()
            _move(start, at, k, sign * step)
            ends.append(coordinates(flown(start), end))
        expected[:, k] = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose(found, expected, atol=tolerance)


def _skew(v: Array) -> Array:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _move(vector: Array, at: Layout, k: int, step: float) -> None:
    w, v = vector[at.quaternion][0], vector[at.quaternion][1:].copy()
    if k < 3:
        rotation = np.eye(3) + 2.0 * w * _skew(v) + 2.0 * _skew(v) @ _skew(v)
        vector[at.position] += step * rotation[:, k]
    elif k < 6:
        half = 0.5 * step * np.eye(3)[k - 3]
        turned = np.concatenate([[w - v @ half], v + w * half + np.cross(v, half)])
        vector[at.quaternion] = turned / np.linalg.norm(turned)
    elif k < 6 + at.n:
        vector[at.joints.start + k - 6] += step
    else:
        vector[at.velocity.start + k - 6 - at.n] += step


def test_loops_without_poles_are_refused() -> None:
    robot = slider()
    for law, notes in (
        (servo(1.0, 1.0, period=None), "no poles"),
        (servo(1.0, 1.0, period=0.1, resolution=0.1), "quantised"),
    ):
        with pytest.raises(InputError, match=notes):
            linearise_loop(robot, State.at_rest(robot), Phase(1.0, laws=law, **HELD))
    with pytest.raises(InputError, match="has no law"):
        linearise_loop(robot, State.at_rest(robot), Phase(1.0, **HELD))
