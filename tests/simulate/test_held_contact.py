"""Contacts that last, of robots with joints that are locked, driven along a path, or have dry friction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from spacearm.engine.solver import bind_solver
from spacearm.mechanics.shapes import Box, Plane
from spacearm.model import Body, Friction, Inertia, Joint, Pose, Robot
from spacearm.simulate import Contact, Gravity, Phase, Run, ShapeOnFrame, State, World, simulate, spline
from spacearm.typing import Array

G = 9.80665  # m/s2
EDGE, MASSES = 0.4, (10.0, 2.0, 1.5, 1.0)
MASS = sum(MASSES)
#: Static and Coulomb friction of the slide, N.
STATIC, COULOMB = 6.0, 4.0
ELBOW = 0.5  # rad


def robot() -> Robot:
    """A block that carries an arm: two revolute joints about y, then a slide along x, which has dry friction."""
    bodies = [Body("block", Inertia(MASSES[0], tensor=MASSES[0] * EDGE**2 / 6.0 * np.eye(3)))]
    joints: list[Joint] = []
    for i, (name, mass) in enumerate(zip(("upper", "fore", "load"), MASSES[1:], strict=True)):
        kind, axis = ("prismatic", [1.0, 0, 0]) if name == "load" else ("revolute", [0, 1.0, 0])
        friction = Friction(STATIC, COULOMB) if name == "load" else None
        place = Pose(np.eye(3), [0.0, 0.0, 0.15])
        joints.append(Joint(f"j{i}", kind, bodies[-1].name, name, place, np.array(axis), friction=friction))
        bodies.append(Body(name, Inertia(mass, tensor=0.01 * mass * np.eye(3))))
    return Robot("walker", tuple(bodies), tuple(joints))


def stand(phase: Phase, rates: Sequence[float] | None = None, elbow: float = ELBOW, stiffness: float = 1e6) -> Run:
    """The block is put flat onto a plane; ``elbow`` tilts the slide's rail by as much."""
    floor = Contact(
        ShapeOnFrame("walker/block", Box(EDGE, EDGE, EDGE)),
        ShapeOnFrame(Pose(), Plane()),
        stiffness,
        0.0,
        0.8,
        name="floor",
    )
    world = World({"walker": robot()}, elements=(Gravity(), floor))
    start = State.from_velocities(robot(), [0.2, elbow - 0.2, 0.0], rates, position=[0, 0, EDGE / 2])
    return simulate(world, {"walker": start}, phase, sample=0.1)


def push(run: Run) -> Array:
    """Force of the floor at samples (T, 3), N: of all that acts on the robot but its weight."""
    track = run.last_track("walker")
    wrench = track.data["wrench"].values.reshape(run.times.size, -1, 6)
    assert wrench.shape[1] >= 1
    return np.asarray(wrench[:, :, :3].sum(axis=1) - [0, 0, -MASS * G])


def test_an_arm_of_locked_joints_rests_for_ten_seconds() -> None:
    """It stands on its weight, does not drift, and what is locked or sticks is still to the last bit."""
    run = stand(Phase(10.0, locked=["j0", "j1"]))
    assert run.sound, str(run.certificate)
    assert run.stats.steps < 5000
    states, late = run.last_track("walker").states, run.times > 1.0
    np.testing.assert_array_equal(states[:, 7:10] - states[0, 7:10], 0.0)  # the slide holds: m g sin(0.5) < 6 N
    np.testing.assert_array_equal(states[:, 16:], 0.0)
    assert np.ptp(states[late, :3], axis=0).max() < 1e-9
    np.testing.assert_allclose(push(run)[late], np.tile([0, 0, MASS * G], (late.sum(), 1)), atol=1e-6 * MASS * G)


def test_a_slide_with_friction_stops_on_its_rail_and_stays() -> None:
    """Coulomb's friction brakes the load on a rail that leans by 0.3 rad: closed form; then it sticks.

    At 1e8 N/m the floor gives way by less than 1e-6 rad under the moment of the load.
    """
    lean, speed = 0.3, 1.0
    run = stand(Phase(10.0, locked=["j0", "j1"]), [0.0, 0.0, speed], lean, 1e8)
    assert run.sound, str(run.certificate)
    assert run.stats.steps < 10_000
    brake = COULOMB / MASSES[-1] - G * np.sin(lean)
    (stop,) = [event for event in run.events_of("stick") if event.name == "j2"]
    assert stop.time == pytest.approx(speed / brake, rel=1e-5)
    slide, late = run.last_track("walker").states[:, 9], run.times > stop.time
    gone = np.where(late, 0.5 * speed**2 / brake, speed * run.times - 0.5 * brake * run.times**2)
    np.testing.assert_allclose(slide, gone, atol=1e-5)
    np.testing.assert_array_equal(run.last_track("walker").states[late, 18], 0.0)
    rests = run.times > stop.time + 2.0
    np.testing.assert_allclose(push(run)[rests], np.tile([0, 0, MASS * G], (rests.sum(), 1)), atol=1e-6 * MASS * G)


def test_an_arm_that_follows_a_path_presses_with_weight_and_inertia() -> None:
    """The slide is carried along a path on a level rail: the floor gives the horizontal force that this takes."""
    path = spline([0.0, 5.0, 10.0], [0.0, 0.1, 0.0])
    run = stand(Phase(10.0, locked=["j0", "j1"], driven={"j2": path}), elbow=0.0)
    assert run.sound, str(run.certificate)
    assert run.stats.steps < 10_000
    late = (run.times > 4.0) & (run.times < 10.0)
    along = MASSES[-1] * path.derivative().derivative()(run.times)
    expected = np.stack([along, 0.0 * along, np.full(along.shape, MASS * G)], axis=1)
    np.testing.assert_allclose(push(run)[late], expected[late], atol=1e-4)
    np.testing.assert_array_equal(run.last_track("walker").states[:, 9], path(run.times))


def test_implicit_steps_agree_with_explicit_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def explicit(system: Any, options: Any, *rest: Any) -> Callable[[], int]:
        return bind_solver(system, options._replace(method=1), *rest)

    phase, rates = Phase(2.0, locked=["j0", "j1"]), [0.0, 0.0, 0.6]
    implicit = stand(phase, rates, 0.3)
    monkeypatch.setattr("spacearm.simulate.run.chain.bind_solver", explicit)
    other = stand(phase, rates, 0.3)
    assert implicit.stats.steps < 0.5 * other.stats.steps
    np.testing.assert_allclose(
        implicit.last_track("walker").states, other.last_track("walker").states, rtol=0, atol=1e-8
    )
