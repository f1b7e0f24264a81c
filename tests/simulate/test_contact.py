"""Contacts of a run in time, against closed forms, conservation and the impacts that they tend to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from spacearm.errors import InputError
from spacearm.impact import FloatingSystem, collide
from spacearm.mechanics.contact import damping_number
from spacearm.mechanics.shapes import Box, Capsule, Cone, Plane, Ring, Sphere
from spacearm.model import Body, Frame, Inertia, Joint, Limits, Pose, Robot, Visual, catalogue
from spacearm.model.rotations import quaternion_from_rotation, rotation_about
from spacearm.simulate import (
    Attach,
    Contact,
    Dopri853,
    Gravity,
    JointStops,
    Orbit,
    Phase,
    Run,
    RunContext,
    ShapeOnFrame,
    State,
    World,
    clearance,
    gaps,
    gate,
    nearest_approach,
    simulate,
)
from spacearm.simulate.run.ledger import _sums
from spacearm.typing import Array

#: What a run warns of is an error here.
pytestmark = pytest.mark.filterwarnings("error")

TIGHT = Dopri853(rtol=1e-12, atol=1e-14)
G = 9.80665  # m/s2
UNIT = np.array([1.0, 0.0, 0.0, 0.0])


def ball(name: str, mass: float, radius: float) -> Robot:
    """A homogeneous one."""
    return Robot(name, (Body("body", Inertia(mass, tensor=0.4 * mass * radius**2 * np.eye(3))),), ())


def moving(position: npt.ArrayLike, velocity: npt.ArrayLike = (0, 0, 0), turning: npt.ArrayLike = (0, 0, 0)) -> State:
    """A free body that does not lie turned."""
    parts = [np.asarray(part, dtype=np.float64) for part in (position, velocity, turning)]
    return State(parts[0], UNIT, np.zeros(0), np.concatenate(parts[1:]))


def total(run: Run) -> Array:
    """Linear and angular momentum of all systems at start and end (2, 6)."""
    assert run.ends is not None
    rows = [_sums(run.world, states, np.zeros(3), np.zeros(3)).momentum for states in (run.start, run.ends)]
    return np.array(rows)


@pytest.mark.parametrize("law", ["linear", "hertz"])
@pytest.mark.parametrize("restitution", [0.0, 0.02, 0.3, 0.8, 1.0])
def test_two_balls_part_with_the_restitution_asked_for(law: str, restitution: float) -> None:
    a, b, stiffness = ball("a", 2.0, 0.1), ball("b", 3.0, 0.15), 1e6 if law == "linear" else 1e8
    contact = Contact(
        ShapeOnFrame("a/body", Sphere(0.1)), ShapeOnFrame("b/body", Sphere(0.15)), stiffness, restitution, law=law
    )  # type: ignore[arg-type]
    world = World({"a": a, "b": b}, elements=(contact,))
    line, drift = np.array([0.3, 0.06, -0.02]), np.array([0.2, -0.1, 0.3])
    start = {"a": moving((0, 0, 0), drift, (1, 2, 3)), "b": moving(line, drift - 4 * line, (0, 1, 0))}
    run = simulate(world, start, 0.6)
    (touch,) = run.touches
    assert run.sound
    assert touch.restitution == pytest.approx(restitution, abs=1e-3)
    assert abs(touch.restitution - max(restitution, 5e-4)) < 1e-6
    mass = 2.0 * 3.0 / 5.0
    gain = mass * touch.closing_speed * (1.0 + touch.restitution)
    assert np.linalg.norm(touch.impulse) == pytest.approx(gain, rel=1e-8)
    lost = 0.5 * mass * touch.closing_speed**2 * (1.0 - touch.restitution**2)
    assert touch.dissipated == pytest.approx(lost, rel=1e-6, abs=1e-8)
    before, after = total(run)
    np.testing.assert_allclose(after, before, atol=1e-10 * np.abs(before).max())
    assert run.ledger is not None
    kinetic = run.ledger.kinetic
    assert abs(kinetic[-1] - kinetic[0] + touch.dissipated) < 1e-8 * kinetic[0]


def test_peak_force_and_indentation_of_an_elastic_blow_are_the_closed_forms() -> None:
    stiffness, speed, mass = 1e6, 1.0, 1.2
    a, b = ball("a", 2.0, 0.1), ball("b", 3.0, 0.1)
    start = {"a": moving((0, 0, 0)), "b": moving((0.3, 0, 0), (-speed, 0, 0))}
    sides = ShapeOnFrame("a/body", Sphere(0.1)), ShapeOnFrame("b/body", Sphere(0.1))
    (linear,) = simulate(World({"a": a, "b": b}, elements=(Contact(*sides, stiffness),)), start, 0.2).touches
    assert linear.indentation == pytest.approx(speed * np.sqrt(mass / stiffness), rel=1e-5)
    assert linear.peak_force == pytest.approx(speed * np.sqrt(mass * stiffness), rel=1e-5)
    assert linear.end - linear.start == pytest.approx(np.pi * np.sqrt(mass / stiffness), rel=1e-8)
    (hertz,) = simulate(World({"a": a, "b": b}, elements=(Contact(*sides, 1e8, law="hertz"),)), start, 0.2).touches
    deepest = (1.25 * mass * speed**2 / 1e8) ** 0.4  # k d^2.5 / 2.5 = m v^2 / 2
    assert hertz.indentation == pytest.approx(deepest, rel=1e-4)
    assert hertz.peak_force == pytest.approx(1e8 * deepest**1.5, rel=1e-4)


def test_damping_number_meets_its_equation() -> None:
    for e in (0.1, 0.5, 0.9):
        x = damping_number(e)
        assert x > 0.1
        assert x * (1 + e) == pytest.approx(np.log1p(x) - np.log1p(-e * x), rel=1e-12)
    assert damping_number(1.0) == 0.0
    assert damping_number(0.001) == pytest.approx(1000.0)


# -- on an inclined plane -----------------------------------------------------------------------------------------


def slope(angle: float) -> Pose:
    """A plane whose downhill direction is x turned by ``angle`` about y."""
    return Pose(rotation_about(np.array([0.0, 1.0, 0.0]), angle), np.zeros(3))


def on_slope(angle: float, friction: float, duration: float, **options: float) -> tuple[Run, Array, Array]:
    """A ball that is put onto the slope; its speed down the slope and its spin at samples."""
    radius, mass = 0.1, 1.0
    turn = slope(angle).rotation
    floor = Contact(
        ShapeOnFrame("ball/body", Sphere(radius)),
        ShapeOnFrame(slope(angle), Plane()),
        1e8,
        0.3,
        friction,
        slowest=1e-3,
        name="floor",
    )
    world = World({"ball": ball("ball", mass, radius)}, elements=(Gravity(), floor))
    start = {"ball": moving(turn @ np.array([0.0, 0.0, radius]))}
    run = simulate(world, start, duration, **options)  # type: ignore[arg-type]
    assert run.sound
    velocity = run.last_track("ball").data["base_velocity"].values @ turn[:, 0]
    angular_rate = run.last_track("ball").data["base_angular_velocity"].values @ turn[:, 1]
    return run, velocity, angular_rate


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_a_ball_rolls_or_slides_at_the_angle_of_friction(share: float) -> None:
    angle = 0.5
    friction = np.tan(angle) / 3.5 / share  # a homogeneous ball needs 2/7 of the slope to roll
    run, velocity, angular_rate = on_slope(angle, friction, 1.0)
    times = run.last_track("ball").times
    late = times > 0.5
    gained = np.polyfit(times[late], velocity[late], 1)[0]
    if share < 1.0:
        assert gained == pytest.approx(5.0 / 7.0 * G * np.sin(angle), rel=1e-6)
        np.testing.assert_allclose(velocity[late], 0.1 * angular_rate[late], rtol=1e-5)
    else:
        assert gained == pytest.approx(G * (np.sin(angle) - friction * np.cos(angle)), rel=1e-6)
        turned = np.polyfit(times[late], angular_rate[late], 1)[0]
        assert turned == pytest.approx(2.5 * friction * G * np.cos(angle) / 0.1, rel=1e-6)


def test_a_block_sticks_below_the_angle_of_friction_and_slides_above() -> None:
    half, mass, friction = 0.1, 2.0, 0.4
    block = Robot("block", (Body("body", Inertia(mass, tensor=mass * 0.04 / 6.0 * np.eye(3))),), ())
    for angle in (np.arctan(friction) - 0.02, np.arctan(friction) + 0.02):
        turn = slope(angle)
        sides = ShapeOnFrame("block/body", Box(0.2, 0.2, 0.2)), ShapeOnFrame(turn, Plane())
        floor = Contact(*sides, 1e6, 0.3, friction, slowest=0.01, name="floor")
        world = World({"block": block}, elements=(Gravity(), floor))
        state = State(turn.rotation @ [0, 0, half], quaternion_from_rotation(turn.rotation), np.zeros(0), np.zeros(6))
        run = simulate(world, {"block": state}, 0.5, method=TIGHT)
        speed = run.last_track("block").data["base_velocity"].values @ turn.rotation[:, 0]
        late = run.last_track("block").times > 0.3
        assert run.sound
        if angle < np.arctan(friction):
            assert np.abs(speed[-1]) < 1e-9  # at rest, without creep
            assert np.ptp(run.last_track("block").states[late, :3] @ turn.rotation[:, 0]) < 1e-9
        else:
            gained = np.polyfit(run.last_track("block").times[late], speed[late], 1)[0]
            assert gained == pytest.approx(G * (np.sin(angle) - friction * np.cos(angle)), rel=1e-6)


def test_a_ball_that_slides_with_back_spin_rolls_when_the_closed_form_says() -> None:
    radius, mass, friction, speed, angular_rate = 0.1, 1.0, 0.2, 0.3, -0.8
    sides = ShapeOnFrame("ball/body", Sphere(radius)), ShapeOnFrame(Pose(), Plane())
    floor = Contact(*sides, 1e8, 0.3, friction, slowest=1e-3, name="floor")
    world = World({"ball": ball("ball", mass, radius)}, elements=(Gravity(), floor))
    run = simulate(world, {"ball": moving((0, 0, radius), (speed, 0, 0), (0, angular_rate, 0))}, 0.08)
    assert run.sound
    slip = speed - angular_rate * radius
    ends = [event.time for event in run.events_of("stick") if event.name == "floor"]
    assert ends[0] == pytest.approx(slip / (3.5 * friction * G), rel=1e-6)
    final = run.last_track("ball").data["base_velocity"].values[-1, 0]
    assert final == pytest.approx((5 * speed + 2 * angular_rate * radius) / 7.0, rel=1e-5)


def test_a_dropped_ball_bounces_by_its_restitution_and_comes_to_rest() -> None:
    radius, mass, e, height, stiffness = 0.1, 1.0, 0.6, 0.2, 1e8
    floor = Contact(
        ShapeOnFrame("ball/body", Sphere(radius)), ShapeOnFrame(Pose(), Plane()), stiffness, e, name="floor"
    )
    world = World({"ball": ball("ball", mass, radius)}, elements=(Gravity(), floor))
    run = simulate(world, {"ball": moving((0, 0, radius + height))}, 2.0)
    assert run.sound
    assert run.touches[0].closing_speed == pytest.approx(np.sqrt(2 * G * height), rel=1e-9)
    assert run.touches[0].restitution == pytest.approx(e, abs=1e-3)
    assert run.ends is not None
    assert not run.touches[-1].released
    assert np.linalg.norm(run.ends["ball"].velocity) < 1e-9
    deep = mass * G / stiffness
    assert radius - run.last_track("ball").states[-1, 2] == pytest.approx(deep, rel=1e-5)
    lost = sum(touch.dissipated for touch in run.touches)
    assert lost + 0.5 * mass * G * deep == pytest.approx(mass * G * (height + deep), rel=1e-8)


# -- an arm's hand ----------------------------------------------------------------------------------------------


RADIUS, TIP = 0.2, 0.05  # m, of the ball and of the hand's fingertip
NORMAL = np.array([0.6, -0.64, 0.48])  # from the hand to the ball


def hit(stiffness: float, restitution: float, friction: float = 0.0, across: float = 0.0) -> tuple[Run, State, State]:
    """The hand of a 7-joint arm meets a ball; both states at touch."""
    robot, q = catalogue.load("cai2023"), np.array([0.3, 0.5, -0.4, -0.8, 0.2, -0.6, 0.1])
    arm, target = State.at_rest(robot, q), ball("target", 30.0, RADIUS)
    hand = FloatingSystem.from_state(robot, "hand", arm).contact_point
    met = moving(hand + NORMAL * (RADIUS + TIP), -0.5 * NORMAL + across * np.array([0.8, 0.6, -0.2]))
    sides = ShapeOnFrame("arm/hand", Sphere(TIP)), ShapeOnFrame("target/body", Sphere(RADIUS))
    contact = Contact(*sides, stiffness, restitution, friction, name="touch")
    world = World({"arm": robot, "target": target}, elements=(contact,))
    run = simulate(world, {"arm": arm, "target": met}, 300.0 / np.sqrt(stiffness))
    assert run.sound
    assert len(run.touches) == 1
    return run, arm, met


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_an_arms_hand_meets_a_ball_with_the_restitution_asked_for(restitution: float) -> None:
    run, _, _ = hit(1e9, restitution)
    assert run.touches[0].restitution == pytest.approx(restitution, abs=1e-3)
    before, after = total(run)
    np.testing.assert_allclose(after, before, atol=1e-10 * np.abs(before).max())


def at_point(target: Robot, met: State) -> FloatingSystem:
    """The ball as struck at its contact point."""
    point = Frame("touch", "body", Pose(np.eye(3), -NORMAL * (RADIUS + TIP)))
    return FloatingSystem.from_state(target.replace(frames=(point,)), "touch", met)


def order(errors: list[float]) -> float:
    """Power of the duration with which errors fall; it falls as the root of the stiffness, which grows 100 times."""
    assert errors[1] < 1e-2
    return float(np.log10(errors[0] / errors[1]))


@pytest.mark.parametrize("restitution", [0.1, 1.0])
def test_impulses_of_stiff_contacts_tend_to_those_of_impact_as_their_duration(restitution: float) -> None:
    errors = []
    for stiffness in (1e8, 1e10):
        run, arm, met = hit(stiffness, restitution)
        first = FloatingSystem.from_state(run.world.systems["arm"], "hand", arm)
        jump = collide(first, at_point(run.world.systems["target"], met), normal=-NORMAL, restitution=restitution)
        errors.append(np.abs(run.touches[0].impulse + jump.impulse[:3]).max() / np.abs(jump.impulse).max())
    assert order(errors) == pytest.approx(1.0, abs=0.1)


def test_a_blow_that_slides_throughout_tends_to_the_impulse_of_coulomb() -> None:
    errors = []
    for stiffness in (1e8, 1e10):
        run, _, _ = hit(stiffness, 0.5, friction=0.1, across=2.0)
        push = run.touches[0].impulse
        along = push @ NORMAL
        errors.append(abs(np.linalg.norm(push - along * NORMAL) / (0.1 * along) - 1.0))
        assert run.touches[0].by_friction > 0.0
        before, after = total(run)
        np.testing.assert_allclose(after, before, atol=1e-10 * np.abs(before).max())
    assert order(errors) == pytest.approx(1.0, abs=0.1)


# -- joint stops, checks, errors --------------------------------------------------------------------------------


def pendulum(limit: float) -> Robot:
    base, link = Inertia(50.0, tensor=5.0 * np.eye(3)), Inertia(2.0, np.array([0.5, 0, 0]), 0.1 * np.eye(3))
    joint = Joint("j", "revolute", "base", "link", limits=Limits(-limit, limit))
    return Robot("pendulum", (Body("base", base), Body("link", link)), (joint,))


def test_a_joint_bounces_off_its_stops() -> None:
    robot = pendulum(0.5)
    world = World({"robot": robot}, elements=(JointStops("j", 1e6, 0.4),))
    start = State.from_velocities(robot, [0.0], rates=[1.0])
    run = simulate(world, start, 3.5)
    assert run.sound
    first, second = run.touches[:2]
    assert (first.contact, second.contact) == ("j upper", "j lower")
    assert first.restitution == pytest.approx(0.4, abs=1e-6)
    assert second.closing_speed == pytest.approx(0.4 * first.closing_speed, rel=1e-6)
    assert np.abs(run.states[:, 7]).max() < 0.5 + 2e-3


class Lopsided(Contact):
    """A contact that pushes one side only, as no contact can."""

    def write(self, view, world):  # type: ignore[no-untyped-def]
        action = super().write(view, world)
        key = world.frame("b/body")
        return replace(action, wrenches={**action.wrenches, key: 0.5 * action.wrenches[key]})


def test_a_force_without_its_reaction_is_found() -> None:
    sides = ShapeOnFrame("a/body", Sphere(0.1)), ShapeOnFrame("b/body", Sphere(0.1))
    world = World({"a": ball("a", 1.0, 0.1), "b": ball("b", 1.0, 0.1)}, elements=(Lopsided(*sides, 1e5),))
    start = {"a": moving((0, 0, 0)), "b": moving((0.25, 0, 0), (-1, 0, 0))}
    with pytest.warns(UserWarning, match="third_law"):
        run = simulate(world, start, 0.1)
    assert not run.sound


def test_what_is_wrong_with_a_contact_is_told() -> None:
    robots = {"a": ball("a", 1.0, 0.1), "b": ball("b", 1.0, 0.1)}
    sides = ShapeOnFrame("a/body", Sphere(0.1)), ShapeOnFrame("b/body", Sphere(0.1))
    inside = World(robots, elements=(Contact(*sides, 1e5, name="nose"),))
    with pytest.raises(InputError, match=r"nose: starts with a penetration of 0.05 m"):
        simulate(inside, {"a": moving((0, 0, 0)), "b": moving((0.15, 0, 0))}, 0.1)
    with pytest.raises(InputError, match=r"restitution"):
        Contact(*sides, 1e5, 1.5)
    with pytest.raises(InputError, match=r"tangential stiffness"):
        Contact(*sides, 1e5, friction=0.3, law="hertz")
    with pytest.raises(InputError, match=r"a box and a ring have no distance"):
        Contact(ShapeOnFrame("a/body", Box(1, 1, 1)), ShapeOnFrame("b/body", Ring(1.0, 0.1)), 1e5)
    with pytest.raises(InputError, match=r"both shapes are fixed"):
        Contact(ShapeOnFrame(Pose(), Sphere(0.1)), ShapeOnFrame(Pose(), Plane()), 1e5)
    with pytest.raises(InputError, match=r"no frame 'c/body'"):
        World(robots, elements=(Contact(sides[0], ShapeOnFrame("c/body", Sphere(0.1)), 1e5),))
    with pytest.raises(InputError, match=r"has no limits"):
        World({"arm": catalogue.load("xu2017")}, elements=(JointStops(catalogue.load("xu2017").joint_names, 1e4),))


# -- latch ------------------------------------------------------------------------------------------------------


def test_a_probe_is_latched_within_its_gate_and_what_is_kept_is_certified() -> None:
    arm, target = catalogue.load("xu2017"), ball("target", 150.0, 0.5)
    hand = FloatingSystem.from_state(arm, "hand", State.at_rest(arm)).contact_point
    start = {"arm": State.at_rest(arm), "target": moving(hand - [0.05, 0.0, 0.25], (0, 0, 0.05), (0, 0, 0.02))}
    probe = Contact(
        ShapeOnFrame("arm/hand", Sphere(0.03)),
        ShapeOnFrame("target/body", Cone(0.05, 0.3, 0.25)),
        1e5,
        0.3,
        0.2,
        name="probe",
    )
    world = World({"arm": arm, "target": target}, elements=(probe, Orbit(1e-3)))
    caught = gate(world, "arm/hand", "target/body", 0.2, speed=0.03)

    def mission(context: RunContext) -> Iterator[Phase | Attach]:
        yield Phase(8.0, event_function=caught)
        assert context.events[-1].name == "gate of arm/hand and target/body"
        yield Attach("target", "hand")
        yield Phase(2.0)

    run = simulate(world, start, mission, duration=10.0)
    assert run.sound
    assert len(run.touches) >= 1
    assert [entry.text for entry in run.changes] == ["target attached to hand; probe ended"]
    assert [element.name for element in run.steps[-1].world.elements] == ["orbit"]  # type: ignore[union-attr]


def test_a_gate_asks_for_distance_angle_and_speed_at_once() -> None:
    robots = {"a": ball("a", 1.0, 0.1), "b": ball("b", 1.0, 0.1)}
    world, start = World(robots), {"a": moving((0, 0, 0)), "b": moving((1, 0, 0), (-0.5, 0, 0))}

    def end(speed: float) -> float:
        near = gate(world, "a/body", "b/body", 0.25, speed=speed)
        return simulate(world, start, Phase(4.0, event_function=near)).end_time

    assert (end(0.6), end(0.4)) == pytest.approx((1.5, 4.0))
    aligned = gate(world, "a/body", "b/body", 0.25, angle=0.1)  # both z axes point the same way
    assert simulate(world, start, Phase(4.0, event_function=aligned)).end_time == 4.0


# -- shapes elsewhere in a frame ----------------------------------------------------------------------------------


def test_a_shape_may_lie_elsewhere_in_its_frame() -> None:
    robots = {"a": ball("a", 2.0, 0.1), "b": ball("b", 3.0, 0.1)}
    start = {"a": moving((0, 0, 0)), "b": moving((0.5, 0.1, 0), (-1, 0, 0), (0, 0, 0.5))}
    turn = rotation_about(np.array([0.0, 0.0, 1.0]), 0.3)
    nose = Pose(turn, np.array([0.1, 0.05, 0.0]))
    robots["a"] = robots["a"].replace(frames=(Frame("nose", "body", nose),))
    shifted = ShapeOnFrame("a/body", Sphere(0.1), nose), ShapeOnFrame("b/body", Sphere(0.1))
    framed = ShapeOnFrame("a/nose", Sphere(0.1)), ShapeOnFrame("b/body", Sphere(0.1))
    one, two = (
        simulate(World(robots, elements=(Contact(*sides, 1e5, 0.5, 0.3, name="c"),)), start, 0.6)
        for sides in (shifted, framed)
    )
    assert one.sound
    assert len(one.touches) == 1
    np.testing.assert_allclose(one.last_track("b").states[-1], two.last_track("b").states[-1], atol=1e-9)


def test_drawn_shapes_and_clearances_are_events_without_force() -> None:
    visual = Visual("sphere", np.array([0.2]), Pose(np.eye(3), np.array([0.0, 0.3, 0.0])))
    drawn = Robot("a", (Body("body", Inertia(1.0, tensor=np.eye(3)), (visual,)),), ())
    world = World({"a": drawn, "b": ball("b", 1.0, 0.1)})
    (side,) = ShapeOnFrame.from_visuals(world, "a/body")
    near = clearance(world, side, ShapeOnFrame("b/body", Sphere(0.1)), 0.05)
    start = {"a": moving((0, 0, 0)), "b": moving((1.0, 0.3, 0), (-0.5, 0, 0))}
    run = simulate(world, start, Phase(4.0, event_function=near))
    assert run.end_time == pytest.approx((1.0 - 0.35) / 0.5)
    assert run.sound


def test_gaps_of_pairs_are_told_at_configurations_and_along_a_run() -> None:
    robot = pendulum(3.0)
    tip, bus = (
        ShapeOnFrame("link", Sphere(0.05), Pose(np.eye(3), np.array([1.0, 0.0, 0.0]))),
        ShapeOnFrame("base", Box(0.4, 0.4, 0.4)),
    )
    rod = ShapeOnFrame(
        "link", Capsule(0.05, 0.6), Pose(rotation_about(np.array([0.0, 1.0, 0.0]), np.pi / 2), np.array([0.7, 0, 0]))
    )
    angles = np.linspace(-1.0, 1.0, 7)
    found = gaps(robot, [(tip, bus), (bus, rod)], angles[:, None])
    corner = np.hypot(np.maximum(np.cos(angles) - 0.2, 0), np.maximum(np.abs(np.sin(angles)) - 0.2, 0))
    np.testing.assert_allclose(found[:, 0], corner - 0.05, atol=1e-12)
    near = 0.4 * np.stack([np.cos(angles), np.abs(np.sin(angles))])
    np.testing.assert_allclose(found[:, 1], np.hypot(*np.maximum(near - 0.2, 0)) - 0.05, atol=1e-12)
    world = World({"arm": robot, "ball": ball("ball", 1.0, 0.1)})
    start = {"arm": State.from_velocities(robot, [0.0]), "ball": moving((2, 0, 0.5), (-1, 0, 0))}
    run = simulate(world, start, 4.0, sample=0.01)
    least = nearest_approach(
        run, [(ShapeOnFrame("arm/link", tip.shape, tip.placement), ShapeOnFrame("ball/body", Sphere(0.1))), (bus, rod)]
    )
    assert (least.gap, least.time) == pytest.approx((0.15, 0.0))
    least = nearest_approach(
        run, [(ShapeOnFrame("arm/link", tip.shape, tip.placement), ShapeOnFrame("ball/body", Sphere(0.1)))]
    )
    assert (least.gap, least.time) == pytest.approx((0.35, 1.0))
    with pytest.raises(InputError, match=r"expected \(T, 15\)"):
        gaps(robot, [(tip, bus)], np.zeros((3, 2)))
