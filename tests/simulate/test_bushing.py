"""Soft latches: springs and dampers in six axes between systems, against closed forms and conservation."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm.errors import InputError
from spacearm.model import Body, Inertia, Robot
from spacearm.simulate import Bushing, Connect, Disconnect, Dopri853, Phase, State, World, simulate
from spacearm.simulate.bushing import rotation_vector
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.run.ledger import _sums
from support.random_robots import random_robot

#: What a run warns of is an error here.
pytestmark = pytest.mark.filterwarnings("error")

TIGHT = Dopri853(rtol=1e-12, atol=1e-14)
UNIT = np.array([1.0, 0.0, 0.0, 0.0])


def block(name: str, mass: float) -> Robot:
    return Robot(name, (Body("body", Inertia(mass, tensor=mass * np.diag([0.1, 0.2, 0.3]))),), ())


def test_the_rotation_vector_is_scipys() -> None:
    for size in (0.0, 1e-12, 1e-3, 1.0, 3.0):
        vector = size * np.array([0.6, -0.64, 0.48])
        matrix = Rotation.from_rotvec(vector).as_matrix()
        found = ca.evalf(rotation_vector(ca.SX(matrix))).full().ravel()
        np.testing.assert_allclose(found, vector, atol=1e-12)


@pytest.mark.parametrize("turning", [False, True])
def test_two_blocks_swing_and_turn_at_the_closed_form_frequencies(turning: bool) -> None:
    robots, stiffness, twist, speed = {"a": block("a", 2.0), "b": block("b", 3.0)}, 50.0, 7.0, 0.2
    world = World(robots, elements=(Bushing("a/body", "b/body", (stiffness, 0, 0, 0, 0, twist)),))
    velocity = speed * np.eye(6)[5 if turning else 0]
    start = {"a": State.at_rest(robots["a"]), "b": State(np.zeros(3), UNIT, np.zeros(0), velocity)}
    run = simulate(world, start, 2.0, method=TIGHT)
    assert run.sound
    times, apart = run.last_track("a").times, run.last_track("b").states - run.last_track("a").states
    angle = 2.0 * (np.arcsin(run.last_track("b").states[:, 6]) - np.arcsin(run.last_track("a").states[:, 6]))
    rate = np.sqrt(twist / (0.3 * 1.2) if turning else stiffness / 1.2)
    np.testing.assert_allclose(angle if turning else apart[:, 0], speed / rate * np.sin(rate * times), atol=1e-10)


def test_a_soft_latch_holds_and_lets_go_and_the_ledger_closes() -> None:
    arm, target = random_robot(5, joints=3), block("target", 40.0)
    latch = Bushing("arm/link3", "target/body", (2e3,) * 3 + (300.0,) * 3, (200.0,) * 3 + (40.0,) * 3, name="latch")
    world = World({"arm": arm, "target": target})
    start = {
        "arm": State.at_rest(arm),
        "target": State(np.array([1.0, 0.2, 0.1]), UNIT, np.zeros(0), np.array([-0.3, 0.1, 0.0, 0.1, 0.2, -0.1])),
    }
    run = simulate(world, start, [Phase(0.5), Connect(latch), Phase(2.0), Disconnect("latch"), Phase(0.5)])
    assert run.sound
    assert run.certificate is not None
    assert run.certificate["third_law"].value < 1e-12
    assert run.ends is not None
    before, after = (_sums(world, states, np.zeros(3), np.zeros(3)).momentum for states in (run.start, run.ends))
    np.testing.assert_allclose(after, before, atol=1e-10 * np.abs(before).max())
    assert [entry.text for entry in run.changes][1] == "latch removed"


def test_what_is_wrong_with_a_bushing_is_told() -> None:
    world = World({"a": block("a", 1.0), "b": block("b", 1.0)})
    with pytest.raises(InputError, match="stiffness"):
        Bushing("a/body", "b/body", (1.0, 2.0))
    with pytest.raises(InputError, match="both ends"):
        world.replace(elements=(Bushing("a/body", "a/body", (1.0,) * 6),))
    with pytest.raises(InputError, match="there is no 'latch'"):
        Disconnect("latch").apply(world, {})


def test_a_bushing_that_is_fitted_on_the_way_is_not_cross_checked() -> None:
    """The reference has no force elements, whether they are there from the start or not."""
    world = World({"a": block("a", 2.0), "b": block("b", 3.0)})
    start = {
        "a": State.at_rest(world.robot("a")),
        "b": State.from_velocities(world.robot("b"), position=[1.0, 0.0, 0.0], base_velocity=[0.1, 0.0, 0.0]),
    }
    latch = Connect(Bushing("a/body", "b/body", (10.0,) * 6))
    found = cross_check(simulate(world, start, [Phase(0.5), latch, Phase(1.0)]))
    assert not found.was_run
    assert "force elements" in found.reason
