"""Contacts against closed forms and impacts: sliding and spinning to rest, stiff blows, a gripper that closes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.impact import FloatingSystem, collide
from spacearm.mechanics.contact import LEAST_RESTITUTION
from spacearm.mechanics.shapes import Box, Capsule, Plane, Sphere
from spacearm.model import Body, Frame, Inertia, Joint, Pose, Robot, catalogue
from spacearm.model.rotations import rotation_about
from spacearm.simulate import RK4, Attach, Contact, Dopri853, Gravity, Phase, Run, ShapeOnFrame, State, World, simulate

TIGHT = Dopri853(rtol=1e-12, atol=1e-14)
G = 9.80665  # m/s2
UNIT = np.array([1.0, 0.0, 0.0, 0.0])
RADIUS, MASS, MU, PATCH = 0.1, 2.0, 0.3, 0.04
AXIAL = 0.008  # kg m2, about the normal


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def puck(stiffness: float, velocity: np.ndarray, duration: float, **options: object) -> Run:
    """A puck on a patch; its mass centre lies in the floor's plane, so that friction does not tip it."""
    body = Robot("puck", (Body("body", Inertia(MASS, tensor=np.diag([5.0, 5.0, AXIAL]))),), ())
    foot = ShapeOnFrame("puck/body", Sphere(RADIUS), Pose(translation=np.array([0.0, 0.0, RADIUS])))
    floor = Contact(foot, ShapeOnFrame(Pose(), Plane()), stiffness, 0.3, MU, patch=PATCH, name="floor")
    world = World({"puck": body}, elements=(Gravity(), floor))
    return simulate(world, {"puck": State(np.zeros(3), UNIT, np.zeros(0), velocity)}, duration, **options)  # type: ignore[arg-type]


def sticks(run: Run, name: str) -> list[float]:
    return [event.time for event in run.events_of("stick") if event.name == name]


def test_a_spinning_puck_slides_and_turns_until_the_closed_forms_say() -> None:
    speed, angular_rate = 0.4, 3.0
    slide, turn = speed / (MU * G), AXIAL * angular_rate / (MU * MASS * G * PATCH)
    assert slide > turn
    run = puck(1e8, np.array([0.24, 0.32, 0, 0, 0, angular_rate]), 1.2 * slide, method=TIGHT)
    assert run.sound
    assert sticks(run, "floor torsion")[0] == pytest.approx(turn, rel=1e-6)
    assert sticks(run, "floor")[0] == pytest.approx(slide, rel=1e-6)
    assert run.ends is not None
    assert np.abs(run.ends["puck"].velocity).max() < 1e-6
    end = run.last_track("puck").states[-1]
    # While the puck sinks in by d it weighs less, and friction with it: it goes further by mu d.
    assert np.hypot(*end[:2]) == pytest.approx(0.5 * speed * slide + MU * MASS * G / 1e8, rel=1e-6)
    assert 2.0 * np.arcsin(end[6]) == pytest.approx(0.5 * angular_rate * turn, rel=1e-5)
    lost = sum(touch.by_friction for touch in run.touches)
    assert lost == pytest.approx(0.5 * MASS * speed**2 + 0.5 * AXIAL * angular_rate**2, rel=1e-5)


def test_a_twist_within_the_strength_of_a_patch_swings_as_on_a_spring() -> None:
    """Of a contact that is not damped the patch is a torsion spring of k_t r^2, where friction is high."""
    stiffness, side = 1e6, ShapeOnFrame("b/body", Sphere(RADIUS))
    body = Robot("puck", (Body("body", Inertia(MASS, tensor=np.diag([AXIAL, 5.0, 5.0]))),), ())
    press = Contact(
        ShapeOnFrame("a/body", Sphere(RADIUS)), side, stiffness, 1.0, 30.0, tangential=2e5, patch=PATCH, name="press"
    )
    world = World({"a": body, "b": body}, elements=(press,))
    slow = np.array([-1.0, 0, 0, 1e-3, 0, 0])  # a spin that the growing bound outruns
    start = {"a": State.at_rest(body), "b": State(np.array([2 * RADIUS, 0, 0]), UNIT, np.zeros(0), slow)}
    run = simulate(world, start, 1.5 * np.pi * np.sqrt(0.5 * MASS / stiffness), method=TIGHT)
    assert run.sound
    swing = np.sqrt(2e5 * PATCH**2 / (0.5 * AXIAL))  # rad/s
    (touch,) = run.touches
    angular_rate = run.last_track("b").states[-1, 10] - run.last_track("a").states[-1, 10]
    assert angular_rate == pytest.approx(1e-3 * np.cos(swing * (touch.end - touch.start)), rel=1e-6)


def test_a_block_slides_to_rest_on_its_corners() -> None:
    edge, speed, friction = 0.2, 0.5, 0.4
    block = Robot("block", (Body("body", Inertia(MASS, tensor=MASS * edge**2 / 6.0 * np.eye(3))),), ())
    floor = Contact(
        ShapeOnFrame("block/body", Box(edge, edge, edge)),
        ShapeOnFrame(Pose(), Plane()),
        1e7,
        0.3,
        friction,
        name="floor",
    )
    world = World({"block": block}, elements=(Gravity(), floor))
    start = State(np.array([0, 0, edge / 2]), UNIT, np.zeros(0), np.array([speed, 0, 0, 0, 0, 0]))
    time = speed / (friction * G)
    run = simulate(world, {"block": start}, 1.3 * time, method=TIGHT)
    assert run.sound
    at_rest = [event.time for event in run.events_of("stick") if event.time > 0.5 * time]
    assert min(at_rest) == pytest.approx(time, rel=1e-9)
    # As braking ends, the front corners are relieved: one may give way while the block rocks back, and is left with its
    # spring at the bound, where rounding makes it slip and stick. Braking had tipped the block on its four springs so
    # that its mass centre was ahead by mu m g / 4 k.
    assert len(at_rest) < 100
    for after, moves in ((0.0, friction * MASS * G / 4e7), (5e-3, 1e-10)):
        stopped = run.last_track("block").times > time + after
        assert np.ptp(run.last_track("block").states[stopped, 0]) < moves
    assert run.ends is not None
    assert np.abs(run.ends["block"].velocity).max() < 1e-5
    late = run.last_track("block").times > 1.1 * time
    assert np.ptp(run.last_track("block").states[late, 0]) < 1e-6
    assert run.last_track("block").states[-1, 0] == pytest.approx(0.5 * speed * time, rel=1e-4)


def test_rk4_meets_a_contact_that_its_step_resolves() -> None:
    """Two balls of 1 kg: half a period of 22 ms; restitution converges with the fourth power of the step."""
    body = Robot("ball", (Body("body", Inertia(1.0, tensor=np.eye(3))),), ())
    sides = ShapeOnFrame("a/body", Sphere(0.1)), ShapeOnFrame("b/body", Sphere(0.1))
    world = World({"a": body, "b": body}, elements=(Contact(*sides, 1e4, 0.5, name="c"),))
    start = {
        "a": State.at_rest(body),
        "b": State(np.array([0.3, 0, 0]), UNIT, np.zeros(0), np.array([-1.0, 0, 0, 0, 0, 0])),
    }
    run = simulate(world, start, 0.3, method=RK4(1e-4))
    assert run.touches[0].restitution == pytest.approx(0.5, abs=1e-3)


def test_what_is_wrong_with_a_patch_is_told() -> None:
    sides = ShapeOnFrame("a/body", Sphere(0.1)), ShapeOnFrame(Pose(), Plane())
    with pytest.raises(InputError, match=r"the patch of 0.01 m has no friction"):
        Contact(*sides, 1e5, patch=0.01)
    with pytest.raises(InputError, match="patch"):
        Contact(*sides, 1e5, friction=0.2, patch=-0.01)


# -- stiff contacts and impacts -------------------------------------------------------------------------------------


def meets(stiffness: float, restitution: float, friction: float, across: float) -> np.ndarray:
    """How far the impulse of a stiff contact is from that of an impact, relative: an arm without friction in joints."""
    robot = catalogue.load("cai2023")
    robot = robot.replace(joints=tuple(replace(joint, friction=None, damping=0.0) for joint in robot.joints))
    arm = State.at_rest(robot, [0.3, 0.5, -0.4, -0.8, 0.2, -0.6, 0.1])
    hand, turn = mechanics_of(robot).frame_pose("hand", arm.joints)
    normal, radius, tip = np.array([0.6, -0.64, 0.48]), 0.2, 0.05
    velocity = -0.5 * normal - across * np.array([0.8, 0.6, 0.16])
    ball = Robot("ball", (Body("body", Inertia(30.0, tensor=0.48 * np.eye(3))),), ())
    met = State(hand + normal * (radius + tip), UNIT, np.zeros(0), np.concatenate([velocity, np.zeros(3)]))
    sides = ShapeOnFrame("arm/hand", Sphere(tip)), ShapeOnFrame("ball/body", Sphere(radius))
    world = World({"arm": robot, "ball": ball}, elements=(Contact(*sides, stiffness, restitution, friction, name="c"),))
    run = simulate(world, {"arm": arm, "ball": met}, 150.0 / np.sqrt(stiffness))
    assert run.sound
    own = robot.frame("hand")
    point = Frame("tip", own.body, own.placement @ Pose(np.eye(3), turn.T @ normal * tip))
    first = FloatingSystem.from_state(robot.replace(frames=(*robot.frames, point)), "tip", arm)
    struck = Frame("touch", "body", Pose(np.eye(3), -normal * radius))
    second = FloatingSystem.from_state(ball.replace(frames=(struck,)), "touch", met)
    e = max(restitution, LEAST_RESTITUTION)
    hit: dict[str, Any] = {"kind": "friction", "friction": friction, "hypothesis": "contact"} if friction else {}
    gain = collide(first, second, normal=-normal, restitution=e, **hit).impulse[:3]
    return np.asarray((run.touches[0].impulse + gain) / np.abs(gain).max())


@pytest.mark.parametrize(("restitution", "friction", "across"), [(0.5, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 3.0, 0.1)])
def test_stiff_contacts_tend_to_impacts_as_their_duration(restitution: float, friction: float, across: float) -> None:
    """Normal, plastic, and sticking by friction: with the root of the stiffness, which grows tenfold each time.

    The dashpot that holds a plastic blow gives way a little, by some 1e-4 of it at any stiffness.
    """
    errors = np.array([meets(stiffness, restitution, friction, across) for stiffness in (1e8, 1e9, 1e10)])
    assert np.abs(errors[-1]).max() < (1e-4 if friction else 1e-3)
    falls = np.diff(errors, axis=0) if friction else errors
    sizes = np.abs(falls).max(axis=1)
    orders = np.log(sizes[:-1] / sizes[1:]) / np.log(np.sqrt(10.0))
    np.testing.assert_allclose(orders, 1.0, atol=0.1)


# -- a gripper ------------------------------------------------------------------------------------------------------


def test_fingers_close_on_a_bar_hold_it_by_friction_and_latch() -> None:
    finger = Inertia(0.5, np.array([0.0, 0.0, 0.1]), 1e-3 * np.eye(3))
    slides = [
        Joint(
            f"slide{k}",
            "prismatic",
            "palm",
            f"finger{k}",
            Pose(translation=np.array([x, 0, 0.1])),
            axis=[-x / 0.06, 0, 0],
        )
        for k, x in ((1, 0.06), (2, -0.06))
    ]
    palm = Body("palm", Inertia(50.0, tensor=5.0 * np.eye(3)))
    hand = Robot("hand", (palm, Body("finger1", finger), Body("finger2", finger)), tuple(slides))
    bar = Robot("bar", (Body("bar", Inertia(20.0, tensor=np.diag([2.0, 0.5, 2.0]))),), ())
    rod = ShapeOnFrame("target/bar", Capsule(0.02, 0.6), Pose(rotation_about(np.array([1.0, 0.0, 0.0]), -np.pi / 2)))
    pads = [
        Contact(
            ShapeOnFrame(f"hand/finger{k}", Capsule(0.01, 0.1), Pose(translation=np.array([0.0, 0.0, 0.1]))),
            rod, 2e5, 0.1, 0.5, patch=0.01, name=f"pad{k}",
        )
        for k in (1, 2)
    ]  # fmt: skip
    world = World({"hand": hand, "target": bar}, elements=tuple(pads))
    drifting = State.from_velocities(bar, position=[0.005, 0.02, 0.2], base_velocity=[0.0, 0.01, -0.005])
    close = Phase(1.0, forces={"hand/slide1": 20.0, "hand/slide2": 20.0})
    start = {"hand": State.at_rest(hand), "target": drifting}
    run = simulate(world, start, [close, Attach("target", "hand/palm"), Phase(0.2)])
    assert run.sound
    assert not [event for event in run.events if event.name in ("pad1 2", "pad2 2")]  # across: one place counts
    for pad in ("pad1 1", "pad2 1"):
        kinds = [event.kind for event in run.events if event.name == pad and event.kind in ("touch", "release")]
        assert kinds == ["touch", "release"] * (len(kinds) // 2) + ["touch"]  # in turn, and held in the end
    assert any(event.kind == "release" for event in run.events)  # a finger bounces first
    seam = next(entry for entry in run.changes)
    assert seam.lost < 1e-3 * 0.5 * 20.0 * 1.25e-4  # it was held before it was latched
    assert seam.residuals["momentum"] < 1e-10
