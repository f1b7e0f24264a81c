"""Contacts that last: rolling, resting and sliding against closed forms, and what the certificate makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.mechanics.contact import LEAST_RESTITUTION
from spacearm.mechanics.shapes import Box, Plane, Sphere
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_about
from spacearm.simulate import Contact, Gravity, Run, ShapeOnFrame, State, World, simulate
from spacearm.simulate.run.certificate import CertificateWarning
from spacearm.simulate.run.ledger import Balance
from spacearm.typing import Array

G = 9.80665  # m/s2
EDGE, MASS = 0.2, 2.0  # of the block
RADIUS = 0.1  # of the ball


def slope(angle: float) -> Pose:
    """A plane whose downhill direction is x turned by ``angle`` about y."""
    return Pose(rotation_about(np.array([0.0, 1.0, 0.0]), angle), np.zeros(3))


def block_on_slope(
    angle: float, duration: float, *, restitution: float = 0.3, friction: float = 0.0, speed: float = 0.0
) -> Run:
    """A cube of 2 kg that is put flat onto the slope, and moves down it."""
    block = Robot("block", (Body("body", Inertia(MASS, tensor=MASS * EDGE**2 / 6.0 * np.eye(3))),), ())
    place = slope(angle)
    sides = ShapeOnFrame("block/body", Box(EDGE, EDGE, EDGE)), ShapeOnFrame(place, Plane())
    floor = Contact(*sides, 1e6, restitution, friction, name="floor")
    world = World({"block": block}, elements=(Gravity(), floor))
    turn = place.rotation
    start = State(
        turn @ [0, 0, EDGE / 2], quaternion_from_rotation(turn), np.zeros(0), np.array([speed, 0, 0, 0, 0, 0])
    )
    return simulate(world, {"block": start}, duration)


def ball_on_slope(angle: float, duration: float, *, friction: float, speed: float = 0.0, **options: float) -> Run:
    """A homogeneous ball of 1 kg that is put onto the slope without spin; restitution 0."""
    ball = Robot("ball", (Body("body", Inertia(1.0, tensor=0.4 * RADIUS**2 * np.eye(3))),), ())
    place = slope(angle)
    floor = Contact(
        ShapeOnFrame("ball/body", Sphere(RADIUS)), ShapeOnFrame(place, Plane()), 1e7, 0.0, friction, name="floor"
    )
    world = World({"ball": ball}, elements=(Gravity(), floor))
    velocity = np.concatenate([place.rotation @ [speed, 0, 0], np.zeros(3)])
    start = State(place.rotation @ [0, 0, RADIUS], np.array([1.0, 0, 0, 0]), np.zeros(0), velocity)
    return simulate(world, {"ball": start}, duration, **options)  # type: ignore[arg-type]


def way(run: Run, angle: float) -> Array:
    """Down the slope at samples, m."""
    (name,) = run.world.systems
    return np.asarray(run.last_track(name).states[:, :3] @ slope(angle).rotation[:, 0])


# -- rolling, resting, sliding --------------------------------------------------------------------------------------


def test_a_ball_rolls_for_ten_seconds() -> None:
    angle = 0.2
    run = ball_on_slope(angle, 10.0, friction=0.5)
    assert run.sound, str(run.certificate)
    gone = 0.5 * 5.0 / 7.0 * G * np.sin(angle) * run.times**2
    # The ball rolls on a radius that is smaller by its indentation of 1 um, which is one part in 1e5.
    np.testing.assert_allclose(way(run, angle), gone, rtol=1e-5, atol=1e-6)
    assert run.stats.steps < 10_000


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_a_block_rests_on_a_slope_for_a_minute(restitution: float) -> None:
    angle = 0.2
    run = block_on_slope(angle, 60.0, restitution=restitution, friction=0.5)
    assert run.sound, str(run.certificate)
    assert run.stats.steps < 3000
    assert run.stats.events < 20
    late = run.times > 2.0
    assert np.ptp(run.last_track("block").states[late, :3], axis=0).max() < 1e-9
    push = run.last_track("block").data["wrench"].values[late]
    floor = push.reshape(late.sum(), -1, 6)[:, :, :3].sum(axis=1) - [0, 0, -MASS * G]
    assert np.abs(floor - [0, 0, MASS * G]).max() < 1e-6 * MASS * G


def test_a_block_slides_to_rest_and_stays_there() -> None:
    speed, friction = 2.0, 0.1
    run = block_on_slope(0.0, 20.0, restitution=0.0, friction=friction, speed=speed)
    assert run.sound, str(run.certificate)
    time = speed / (friction * G)
    late = run.times > time + 0.1
    assert np.ptp(way(run, 0.0)[late]) < 1e-8
    assert way(run, 0.0)[-1] == pytest.approx(0.5 * speed * time, rel=1e-5)
    assert run.stats.steps < 10_000


def test_a_ball_that_slides_rolls_when_the_closed_form_says_and_goes_on() -> None:
    speed, friction = 1.0, 0.2
    run = ball_on_slope(0.0, 10.0, friction=friction, speed=speed)
    assert run.sound, str(run.certificate)
    sticks = [event.time for event in run.events_of("stick")]
    assert sticks[0] == pytest.approx(2.0 * speed / (7.0 * friction * G), rel=1e-5)
    assert len(sticks) == 1
    final = run.last_track("ball").data["base_velocity"].values[-1, 0]
    assert final == pytest.approx(5.0 / 7.0 * speed, rel=1e-5)


def test_too_many_steps_are_put_down_to_the_contact() -> None:
    with pytest.warns(
        UserWarning, match=r"contact 'floor' \(stiffness 1e\+07 N/m on 1 kg: period 0.002 s\) needs steps"
    ):
        run = ball_on_slope(0.2, 1.0, friction=0.5, max_steps=30)
    assert run.end_time < 1.0


def test_a_contact_too_stiff_for_its_run_is_told_before() -> None:
    """A corner of a free cube moves as a quarter of its mass: 0.5 kg."""
    block = Robot("block", (Body("body", Inertia(MASS, tensor=MASS * EDGE**2 / 6.0 * np.eye(3))),), ())
    sides = ShapeOnFrame("block/body", Box(EDGE, EDGE, EDGE)), ShapeOnFrame(Pose(), Plane())
    world = World({"block": block}, elements=(Contact(*sides, 1e15, name="floor"),))
    start = State(np.array([0, 0, 1.0]), np.array([1.0, 0, 0, 0]), np.zeros(0), np.zeros(6))
    notes = (
        r"contact 'floor 1' \(stiffness 1e\+15 N/m on 0.5 kg: period 1.4e-07 s\) needs steps of 7.5e-09 s in an impact"
    )
    with pytest.warns(UserWarning, match=notes):
        simulate(world, {"block": start}, 1.0)


# -- blows with friction by default -------------------------------------------------------------------------------


def tangential_error(stiffness: float, restitution: float, friction: float, across: float) -> float:
    """Of a ball that hits a plane at 0.5 m/s, against rigid bodies: relative to the whole impulse."""
    ball = Robot("ball", (Body("body", Inertia(1.0, tensor=0.4 * RADIUS**2 * np.eye(3))),), ())
    floor = Contact(
        ShapeOnFrame(Pose(), Plane()),
        ShapeOnFrame("ball/body", Sphere(RADIUS)),
        stiffness,
        restitution,
        friction,
        name="floor",
    )
    velocity = np.array([across, 0.0, -0.5, 0.0, 0.0, 0.0])
    start = State(np.array([0.0, 0.0, RADIUS]), np.array([1.0, 0, 0, 0]), np.zeros(0), velocity)
    run = simulate(World({"ball": ball}, elements=(floor,)), {"ball": start}, 150.0 / np.sqrt(stiffness))
    assert run.sound
    push = 0.5 * (1.0 + max(restitution, LEAST_RESTITUTION))
    along = -min(friction * push, across * 2.0 / 7.0)  # slides throughout, or ends without slip
    return float(abs(run.touches[0].impulse[0] - along) / push)


@pytest.mark.parametrize("restitution", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_blows_with_friction_are_those_of_rigid_bodies_within_a_percent(restitution: float) -> None:
    for friction, across in ((0.5, 0.1), (0.3, 0.4), (0.3, 0.02), (0.1, 2.0)):
        assert tangential_error(1e8, restitution, friction, across) < 0.01


def test_plastic_blows_tend_to_rigid_ones_steadily() -> None:
    errors = [tangential_error(stiffness, 0.0, 0.3, 0.4) for stiffness in (1e4, 1e5, 1e6, 1e7)]
    assert np.all(np.diff(errors) < 0.0)


@pytest.mark.parametrize(("friction", "across"), [(0.1, 2.0), (0.05, 1.0)])
def test_a_plastic_blow_that_slides_is_followed_up_to_its_release(friction: float, across: float) -> None:
    """The step that ends at the release is another one than that which was judged: it pushed with 30 N, and unseen."""
    assert tangential_error(1e8, 0.0, friction, across) < 1e-6


# -- certificate --------------------------------------------------------------------------------------------------


def test_moments_of_corners_that_cancel_are_no_false_alarm() -> None:
    """A cube slides down without friction and does not turn: each corner's moment is 0.2 N m, their sum nothing."""
    angle = 0.1
    run = block_on_slope(angle, 0.3)
    down = run.last_track("block").data["base_velocity"].values @ slope(angle).rotation[:, 0]
    np.testing.assert_allclose(down, G * np.sin(angle) * run.last_track("block").times, atol=1e-9)
    assert run.certificate is not None
    assert run.sound, str(run.certificate)


def test_a_cube_that_turns_by_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with an angular velocity that creeps by ten millionths of a radian per second squared."""
    add_steps = Balance.add_steps

    def turning_steps(balance: Balance, audit: Array) -> None:
        moved = audit.copy()
        moved[:, 2 + 11] += 1e-5 * audit[:, 0]
        add_steps(balance, moved)

    monkeypatch.setattr(Balance, "add_steps", turning_steps)
    with pytest.warns(CertificateWarning, match=r"angular_momentum \S+ \(EXCEEDS"):
        run = block_on_slope(0.1, 0.3)
    assert not run.sound
